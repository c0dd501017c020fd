//! A comparison as text.

use super::diagnosis_text::diagnosis_findings_text;
use super::text_table::TextTable;
use super::units::{count_text, duration_text};
use crate::diagnosis::{Change, Comparison, Unit};

/// The comparison. Sentences are broken to fit that many `columns`, or stay a line each where it is `None`.
pub fn comparison_text(comparison: &Comparison, columns: Option<usize>) -> String {
    let mut text = diagnosis_findings_text(&comparison.findings, columns);
    let mut table = TextTable::new("Figure by figure", &["figure"]);
    table.numbers(["before", "after", "difference", "after/before"]);
    for change in comparison.changes.iter().filter(|change| change.before.is_some() || change.after.is_some()) {
        let value = |value: Option<f64>| value.map_or("-".to_owned(), |value| value_text(value, change.unit));
        let ratio = change.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
        let name = change.figure.trim_end_matches("_ns").replace('_', " ");
        table.row([name, value(change.before), value(change.after), difference_text(change), ratio]);
    }
    table.append_to(&mut text);
    text
}

fn value_text(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count => count_text(value as u64),
        Unit::PerSecond => format!("{value:.1}"),
        Unit::Share => format!("{:.1} %", value * 100.0),
        Unit::Ns => duration_text(value as u64),
    }
}

fn difference_text(change: &Change) -> String {
    match change.difference {
        None => "-".to_owned(),
        Some(difference) => {
            let sign = if difference < 0.0 { "-" } else { "+" };
            format!("{sign}{}", value_text(difference.abs(), change.unit))
        }
    }
}
