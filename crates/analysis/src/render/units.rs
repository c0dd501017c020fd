//! Numbers as people read them.

use std::time::{Duration, UNIX_EPOCH};

use bytesize::ByteSize;

/// A duration with three significant digits and its unit: `213 µs`, `1.42 ms`, `2.00 s`.
pub fn duration_text(ns: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let ns = ns as f64;
    // 999.5 µs would print as 1000 µs: from there on it is the next unit's.
    match UNITS.into_iter().find(|(unit_ns, _)| ns >= unit_ns * 0.9995) {
        None => format!("{ns} ns"),
        Some((unit_ns, name)) => {
            let value = ns / unit_ns;
            let decimals = if value < 9.995 {
                2
            } else if value < 99.95 {
                1
            } else {
                0
            };
            format!("{value:.decimals$} {name}")
        }
    }
}

/// A count with its thousands set apart: `1,234,567`.
pub fn count_text(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A unix time in UTC, to the millisecond: `2026-01-01T00:00:00.000Z`.
pub(super) fn time_text(ns: u64) -> String {
    match UNIX_EPOCH.checked_add(Duration::from_nanos(ns)) {
        Some(time) => humantime::format_rfc3339_millis(time).to_string(),
        None => ns.to_string(),
    }
}

/// A size in binary units: `9.4 MiB`.
pub fn bytes_text(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(time_text(1_767_225_600_123_999_999), "2026-01-01T00:00:00.123Z");
        assert_eq!(time_text(u64::MAX), "2554-07-21T23:34:33.709Z");
    }

    #[test]
    fn durations_keep_three_digits() {
        let texts = [0, 999, 1_000, 213_456, 999_499, 999_700, 1_415_000, 99_960_000, 203_000_000, 150_000_000_000]
            .map(duration_text);
        let expected =
            ["0 ns", "999 ns", "1.00 µs", "213 µs", "999 µs", "1.00 ms", "1.42 ms", "100 ms", "203 ms", "150 s"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count_text), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 8192, 9_856_614].map(bytes_text), ["0 B", "8.0 KiB", "9.4 MiB"]);
    }
}
