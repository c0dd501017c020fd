//! The axes: time in bins that double their width, latency in bins of equal ratio.

use record::Timestamp;

use super::grid::MAX_COLUMNS;

/// The first width is 2^20 ns, about a millisecond: less is told by the report's quantiles.
const FIRST_SHIFT: u32 = 20;

/// Time in at most [`MAX_COLUMNS`] columns of equal width, a power of two in ns.
#[derive(Debug, Clone, Copy)]
pub struct TimeAxis {
    shift: u32,
    /// The first column's begin, in widths since 1970; `None` before the first time.
    begin: Option<u64>,
}

impl Default for TimeAxis {
    fn default() -> Self {
        Self { shift: FIRST_SHIFT, begin: None }
    }
}

impl TimeAxis {
    /// The column of that time, or `None` where the axis must be widened first. What lies before the first column counts there.
    pub(super) fn column(&mut self, time: Timestamp) -> Option<usize> {
        let place = time.0 >> self.shift;
        let column = place.saturating_sub(*self.begin.get_or_insert(place));
        usize::try_from(column).ok().filter(|&column| column < MAX_COLUMNS)
    }

    /// Makes each column twice as wide. Tells whether the first was an odd one, which then is its new column's second half.
    pub(super) fn widen(&mut self) -> bool {
        // A column more than 2^63 ns wide is never needed: two of them hold all times.
        self.shift = (self.shift + 1).min(u64::BITS - 1);
        let begin = self.begin.unwrap_or(0);
        self.begin = Some(begin >> 1);
        begin & 1 == 1
    }

    /// How wide a column is.
    pub fn width_ns(&self) -> u64 {
        1 << self.shift
    }

    /// Where a column begins, unix ns.
    pub fn begin_ns(&self, column: usize) -> u64 {
        self.begin.unwrap_or(0).saturating_add(column as u64).saturating_mul(self.width_ns())
    }
}

/// Bins in which a latency doubles: each is at most a quarter wider than its begin.
const BINS_PER_OCTAVE: usize = 4;

/// The first bin holds all below 2^10 ns, about a microsecond.
const FIRST_OCTAVE: u32 = 10;

/// The last bin begins at 2^37 ns, 137 s: computes give up before.
const LAST_OCTAVE: u32 = 37;

/// Bins of latency.
pub const LATENCY_BINS: usize = (LAST_OCTAVE - FIRST_OCTAVE) as usize * BINS_PER_OCTAVE + 1;

/// The bin of a latency.
pub(super) fn latency_bin(latency_ns: u64) -> usize {
    let latency_ns = latency_ns.clamp(1 << FIRST_OCTAVE, 1 << LAST_OCTAVE);
    let octave = latency_ns.ilog2();
    let quarter = (latency_ns >> (octave - BINS_PER_OCTAVE.ilog2())) as usize % BINS_PER_OCTAVE;
    (octave - FIRST_OCTAVE) as usize * BINS_PER_OCTAVE + quarter
}

/// Where a bin of latency begins. The first holds everything below the second as well, the last everything above.
pub fn latency_bin_begin_ns(bin: usize) -> u64 {
    let octave = (bin / BINS_PER_OCTAVE) as u32 + FIRST_OCTAVE;
    let quarters = (BINS_PER_OCTAVE + bin % BINS_PER_OCTAVE) as u64;
    quarters.checked_shl(octave - BINS_PER_OCTAVE.ilog2()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_lies_in_its_bin() {
        for latency_ns in [1024, 1279, 1280, 99_999, 1_000_000, 1_000_000_007, (1 << 37) - 1] {
            let bin = latency_bin(latency_ns);
            let range = latency_bin_begin_ns(bin)..latency_bin_begin_ns(bin + 1);
            assert!(range.contains(&latency_ns), "{latency_ns} in {range:?}");
            assert!(range.end * 4 <= range.start * 5, "{range:?}");
        }
        assert_eq!([0, 1, u64::MAX].map(latency_bin), [0, 0, LATENCY_BINS - 1]);
    }
}
