//! Lines that fit.

use analysis::render::count_text;

/// Between parts of a line.
pub(super) const GAP: &str = "  ";

/// Joins the parts that fit, in their order.
pub(super) fn fitted(parts: impl IntoIterator<Item = String>, width: u16) -> String {
    let mut line = String::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let gap = if line.is_empty() { "" } else { GAP };
        if line.chars().count() + gap.len() + part.chars().count() > width.into() {
            break;
        }
        line.push_str(gap);
        line.push_str(&part);
    }
    line
}

/// Cuts a sentence at its end.
pub(super) fn shortened_end(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// `1 row`, `2 rows`.
pub(super) fn counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", count_text(count), if count == 1 { "" } else { "s" })
}
