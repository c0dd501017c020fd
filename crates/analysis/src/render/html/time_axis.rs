//! The axis of time: round times in UTC.

use super::super::units::time_text;
use super::svg::{Plot, Scale};

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// What times at an axis are multiples of: a millisecond at least, which is as fine as they are written.
const STEPS_NS: [u64; 31] = [
    SECOND_NS / 1000,
    SECOND_NS / 500,
    SECOND_NS / 200,
    SECOND_NS / 100,
    SECOND_NS / 50,
    SECOND_NS / 20,
    SECOND_NS / 10,
    SECOND_NS / 5,
    SECOND_NS / 2,
    SECOND_NS,
    2 * SECOND_NS,
    5 * SECOND_NS,
    10 * SECOND_NS,
    15 * SECOND_NS,
    30 * SECOND_NS,
    60 * SECOND_NS,
    120 * SECOND_NS,
    300 * SECOND_NS,
    600 * SECOND_NS,
    900 * SECOND_NS,
    1800 * SECOND_NS,
    3600 * SECOND_NS,
    7200 * SECOND_NS,
    3 * 3600 * SECOND_NS,
    6 * 3600 * SECOND_NS,
    12 * 3600 * SECOND_NS,
    DAY_NS,
    2 * DAY_NS,
    5 * DAY_NS,
    10 * DAY_NS,
    30 * DAY_NS,
];

/// Times at an axis at most: each takes some 80 of its 940 pixels.
const MOST_TICKS: u64 = 8;

/// Round times along an axis that lasts from one time to another.
pub(super) fn time_ticks(plot: &Plot, from_ns: u64, to_ns: u64) -> String {
    let x =
        Scale { values: (0.0, to_ns.saturating_sub(from_ns) as f64), places: (plot.left, plot.right()), is_log: false };
    let tick = |(time_ns, label): (u64, String)| plot.tick_x(x.at((time_ns - from_ns) as f64), &label);
    round_times(from_ns, to_ns).into_iter().map(tick).collect()
}

/// The name of that axis, with the day of the first time at it.
pub(super) fn time_name(from_ns: u64, to_ns: u64) -> String {
    let first = round_times(from_ns, to_ns).first().map_or(String::new(), |(time_ns, _)| time_text(*time_ns));
    format!("time (UTC), from {}", first.get(..10).unwrap_or("-"))
}

/// At least one time within, and as it is written: no finer than the step, and with the day where there are several.
fn round_times(from_ns: u64, to_ns: u64) -> Vec<(u64, String)> {
    let length_ns = to_ns.saturating_sub(from_ns);
    let longest = length_ns.div_ceil(MOST_TICKS).max(1);
    let step_ns = STEPS_NS.into_iter().find(|&step| step >= longest).unwrap_or(longest);
    let first = from_ns.div_ceil(step_ns).saturating_mul(step_ns);
    let round =
        (0..=MOST_TICKS).filter_map(|n| first.checked_add(step_ns.checked_mul(n)?)).filter(|&time| time <= to_ns);
    let mut times: Vec<u64> = round.collect();
    if times.is_empty() {
        times.push(from_ns);
    }
    let written = match (length_ns > DAY_NS, step_ns) {
        (true, DAY_NS..) => 5..10,
        (true, _) => 5..16,
        (false, SECOND_NS..) if times.iter().all(|time| time % SECOND_NS == 0) => 11..19,
        (false, _) => 11..23,
    };
    let label = |time_ns: u64| {
        let text = time_text(time_ns);
        text.get(written.clone()).unwrap_or(&text).replace('T', " ")
    };
    times.into_iter().map(|time_ns| (time_ns, label(time_ns))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-12-01T10:00:00Z.
    const TEN: u64 = 1_796_119_200 * SECOND_NS;

    fn labels(from_ns: u64, to_ns: u64) -> Vec<String> {
        round_times(from_ns, to_ns).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn times_at_an_axis_are_round() {
        let seconds = labels(TEN - SECOND_NS / 10, TEN + 10 * SECOND_NS);
        assert_eq!(seconds, ["10:00:00", "10:00:02", "10:00:04", "10:00:06", "10:00:08", "10:00:10"]);
        assert_eq!(labels(TEN + 1, TEN + SECOND_NS)[..2], ["10:00:00.200", "10:00:00.400"]);
        assert_eq!(labels(TEN, TEN + 3 * DAY_NS)[..2], ["12-01 12:00", "12-02 00:00"]);
        assert_eq!(labels(TEN, TEN + 30 * DAY_NS)[..2], ["12-03", "12-08"]);
        assert_eq!(labels(TEN + 1_500_000, TEN + 1_500_100), ["10:00:00.001"]);
        let midnight = TEN + 14 * 3600 * SECOND_NS;
        assert_eq!(time_name(midnight - 1, midnight + SECOND_NS), "time (UTC), from 2026-12-02");
    }

    #[test]
    fn any_axis_has_a_few_times_within() {
        for from_ns in [0, 1, TEN + 12_345_678, u64::MAX - 1] {
            for length_ns in (0..64).map(|power| 1u64 << power).chain([0, 999, u64::MAX]) {
                let to_ns = from_ns.saturating_add(length_ns);
                let times = round_times(from_ns, to_ns);
                assert!((1..=MOST_TICKS as usize + 1).contains(&times.len()), "{from_ns} {length_ns}: {times:?}");
                assert!(times.iter().all(|(time, _)| (from_ns..=to_ns).contains(time)), "{from_ns} {length_ns}");
            }
        }
    }
}
