//! The table's columns: what each shows, how wide it is, and what rows are sorted by.

use std::cmp::Ordering;

use analysis::live::{Figures, Row};
use analysis::render::{count_text, duration_text};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    /// What the row stands for.
    Name,
    /// Requests a second.
    Rate,
    /// Page bytes a second.
    Bytes,
    /// The share of GetPage that is no re-fetch.
    First,
    /// The share that was fetched before.
    Again,
    /// The share that was proven to be redundant.
    Redundant,
    /// The median latency.
    P50,
    /// The latency that one in a hundred exceeds.
    P99,
    /// The longest.
    Max,
    /// The mean of requests in flight.
    Depth,
    /// Errors, and requests without answer.
    Failed,
}

/// Behind the name, in the order in which they stand.
const SHOWN: [Column; 10] = [
    Column::Rate,
    Column::Bytes,
    Column::First,
    Column::Again,
    Column::Redundant,
    Column::P50,
    Column::P99,
    Column::Max,
    Column::Depth,
    Column::Failed,
];

/// In the order in which they find room.
const BY_WEIGHT: [Column; 10] = [
    Column::Rate,
    Column::P99,
    Column::Redundant,
    Column::P50,
    Column::Bytes,
    Column::Failed,
    Column::Depth,
    Column::Again,
    Column::Max,
    Column::First,
];

/// On a terminal narrower than this, figures are more than whole names.
const NARROW: u16 = 60;

/// What a name gets there.
const NARROW_NAME: u16 = 13;

/// The columns that fit the width, with the name's width: what it needs, and what is left.
pub(super) fn that_fit(width: u16, name: u16) -> (u16, Vec<Column>) {
    let least_name = if width < NARROW { NARROW_NAME } else { name };
    let mut left = width.saturating_sub(least_name);
    let mut fitting = Vec::new();
    for column in BY_WEIGHT {
        let takes = column.width() + 1;
        if takes > left {
            break;
        }
        left -= takes;
        fitting.push(column);
    }
    (least_name + left, SHOWN.into_iter().filter(|column| fitting.contains(column)).collect())
}

impl Column {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Name => "",
            Self::Rate => "req/s",
            Self::Bytes => "pages/s",
            Self::First => "first",
            Self::Again => "again",
            Self::Redundant => "redund",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Max => "max",
            Self::Depth => "depth",
            Self::Failed => "failed",
        }
    }

    /// In a sentence.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            other => other.title(),
        }
    }

    /// Behind the name.
    pub(super) const fn width(self) -> u16 {
        match self {
            Self::Name => 0,
            Self::Rate | Self::P50 | Self::P99 | Self::Max => 7,
            Self::Bytes => 9,
            Self::First | Self::Again | Self::Depth => 5,
            Self::Redundant | Self::Failed => 6,
        }
    }

    /// The next one to sort by among those that are shown.
    pub(super) fn next(self, shown: &[Self], steps: isize) -> Self {
        let all: Vec<Self> = std::iter::once(Self::Name).chain(shown.iter().copied()).collect();
        let place = all.iter().position(|&column| column == self).unwrap_or(0);
        let count = isize::try_from(all.len()).unwrap_or(1);
        let next = isize::try_from(place).unwrap_or(0).saturating_add(steps).rem_euclid(count);
        usize::try_from(next).ok().and_then(|next| all.get(next).copied()).unwrap_or(Self::Rate)
    }

    /// The figure as people read it; a dash where nothing is known.
    pub(super) fn text(self, figures: &Figures) -> String {
        let latency = figures.latency_ns;
        let known = match self {
            Self::Name => None,
            Self::Rate => Some(rate_text(figures.requests_per_s)),
            Self::Bytes => Some(size_text(figures.page_bytes_per_s)),
            Self::First | Self::Again | Self::Redundant => self.value(figures).map(share_text),
            Self::P50 => latency.p50.map(duration_text),
            Self::P99 => latency.p99.map(duration_text),
            Self::Max => latency.max.map(duration_text),
            Self::Depth => figures.depth_mean.map(decimal_text),
            Self::Failed => Some(count_text(failed(figures))),
        };
        known.unwrap_or_else(|| "-".to_owned())
    }

    /// The figure as a number.
    fn value(self, figures: &Figures) -> Option<f64> {
        let compared = figures.getpage.saturating_sub(figures.not_followed);
        // Where nothing is known of any, "none" would be wrong.
        let is_known = compared > figures.classes.unproven;
        let share = |count: u64| is_known.then(|| count as f64 / compared as f64);
        let latency = figures.latency_ns;
        match self {
            Self::Name => None,
            Self::Rate => Some(figures.requests_per_s),
            Self::Bytes => Some(figures.page_bytes_per_s),
            Self::First => share(figures.classes.first),
            Self::Again => share(again(figures)),
            Self::Redundant => share(figures.classes.redundant),
            Self::P50 => latency.p50.map(|ns| ns as f64),
            Self::P99 => latency.p99.map(|ns| ns as f64),
            Self::Max => latency.max.map(|ns| ns as f64),
            Self::Depth => figures.depth_mean,
            Self::Failed => Some(failed(figures) as f64),
        }
    }

    /// Sorts rows by this column: names from the beginning, figures from the largest, what is not known at the end.
    /// Rows that are alike keep their order.
    pub(super) fn sort(self, rows: &mut [Row], is_reversed: bool) {
        rows.sort_by(|one, other| {
            if self == Self::Name {
                let order = one.name.cmp(&other.name);
                return if is_reversed { order.reverse() } else { order };
            }
            match (self.value(&one.figures), self.value(&other.figures)) {
                (Some(one), Some(other)) if is_reversed => one.total_cmp(&other),
                (Some(one), Some(other)) => other.total_cmp(&one),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => Ordering::Equal,
            }
        });
    }
}

/// GetPage for a page that the same cache had fetched before, or was about to.
pub(super) fn again(figures: &Figures) -> u64 {
    let classes = &figures.classes;
    [classes.in_flight, classes.redundant, classes.same_content, classes.changed, classes.raced, classes.contradictions]
        .into_iter()
        .fold(0, u64::saturating_add)
}

fn failed(figures: &Figures) -> u64 {
    figures.errors.saturating_add(figures.unanswered)
}

/// In seven columns: `0.3`, `12,345`, `1.23 M`.
pub(super) fn rate_text(per_s: f64) -> String {
    match per_s {
        small if small < 9.95 => decimal_text(small),
        large if large >= 999_500.0 => format!("{:.2} M", large / 1e6),
        other => count_text(other.round() as u64),
    }
}

/// In seven columns and a unit: `9.4 MiB`, `0 B`.
pub(super) fn size_text(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes;
    let mut unit = 0;
    // From there on it would print as 1000.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    let decimals = usize::from(unit > 0 && value < 99.95);
    format!("{value:.decimals$} {}", UNITS.get(unit).copied().unwrap_or("B"))
}

/// A share, 0 to 1, in five columns: `0 %`, `0.4 %`, `100 %`.
pub(super) fn share_text(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = usize::from(percent > 0.0 && percent < 9.95);
    format!("{percent:.decimals$} %")
}

fn decimal_text(value: f64) -> String {
    let decimals = usize::from(value > 0.0 && value < 99.95);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_takes_the_width_and_no_more() {
        for width in 20..200 {
            let (name, columns) = that_fit(width, 25);
            let sum = name + columns.iter().map(|column| column.width() + 1).sum::<u16>();
            assert_eq!(sum, width);
            assert!(columns.first() == Some(&Column::Rate) || width < 21, "{width}");
        }
        assert_eq!(that_fit(40, 25).1, [Column::Rate, Column::Redundant, Column::P99]);
        assert_eq!(that_fit(120, 33).1, SHOWN);
    }

    #[test]
    fn texts_fit_their_columns() {
        for per_s in [0.0, 0.04, 0.3, 9.9, 9.96, 155_000.0, 999_400.0, 999_600.0, 2.5e9] {
            assert!(rate_text(per_s).chars().count() <= 9, "{}", rate_text(per_s));
        }
        let rates = [0.0, 0.3, 12_345.4, 999_600.0].map(rate_text);
        assert_eq!(rates, ["0", "0.3", "12,345", "1.00 M"]);
        let sizes = [0.0, 999.0, 8192.0, 1023.6 * 1024.0, 1.5e9].map(size_text);
        assert_eq!(sizes, ["0 B", "999 B", "8.0 KiB", "1.0 MiB", "1.4 GiB"]);
        let shares = [0.0, 0.004, 0.25, 1.0].map(share_text);
        assert_eq!(shares, ["0 %", "0.4 %", "25 %", "100 %"]);
    }

    #[test]
    fn what_is_not_known_is_sorted_to_the_end_either_way() {
        let row = |depth_mean| Row {
            name: analysis::live::RowName::default(),
            figures: Figures { depth_mean, ..Figures::default() },
        };
        for (is_reversed, expected) in [(false, [Some(3.0), Some(1.0), None]), (true, [Some(1.0), Some(3.0), None])] {
            let mut rows = [row(None), row(Some(1.0)), row(Some(3.0))];
            Column::Depth.sort(&mut rows, is_reversed);
            assert_eq!(rows.map(|row| row.figures.depth_mean), expected);
        }
    }
}
