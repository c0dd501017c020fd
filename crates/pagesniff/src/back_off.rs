//! Pauses between tries of the same, which double up to a longest.

use std::time::Duration;

/// Before the second try; the daemon or the store that was away for a moment is back by then.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The pause after so many tries that failed, the first of them being 0.
pub(crate) fn pause(failures: u32, longest: Duration) -> Duration {
    // 2^16 seconds are longer than any longest.
    FIRST_PAUSE.saturating_mul(1 << failures.min(16)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let longest = Duration::from_secs(30);
        let pauses: Vec<u64> = (0..7).map(|failures| pause(failures, longest).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pause(u32::MAX, longest), longest);
    }
}
