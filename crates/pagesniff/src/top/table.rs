//! The rows.

use analysis::live::{By, Figures, Row};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::app::{App, Told, name_text};
use super::columns::Column;

/// The titles, and the rows from the first that is to be shown.
pub(super) fn table_lines(app: &App, (name_width, columns): (u16, &[Column]), most: usize) -> Vec<Line<'static>> {
    let rows = app.rows();
    let told = told(app.by, &rows);
    let width = usize::from(name_width);
    let named = |name: String, figures: &Figures| {
        let cells: String = columns.iter().map(|column| cell(&column.text(figures), *column)).collect();
        format!("{name:<width$}{cells}")
    };
    let texts = rows.iter().map(|row| {
        let name = name_text(app.by, &row.name, told, width.saturating_sub(1));
        named(name, &row.figures)
    });
    let others = has_others(app).then(|| app.view()).flatten().map(|view| named("others".to_owned(), &view.others));
    let first = app.first_row.min((rows.len() + usize::from(others.is_some())).saturating_sub(most));
    let body = texts.chain(others).skip(first).take(most).map(Line::raw);
    let mut lines = vec![titles(app, (width, columns))];
    if rows.is_empty() {
        lines.push(Line::raw(nothing_text(app)));
    }
    lines.extend(body);
    lines
}

/// What tells these rows apart.
fn told(by: By, rows: &[Row]) -> Told {
    let mut tenants: Vec<&Option<String>> = rows.iter().map(|row| &row.name.tenant).collect();
    tenants.sort_unstable();
    let is_twice = tenants.windows(2).any(|pair| pair.first() == pair.last());
    Told { by_tenant: tenants.first() != tenants.last(), by_timeline: by == By::Tenant && is_twice }
}

/// Whether requests have no row of their own. A filter is about names, which these have not.
pub(super) fn has_others(app: &App) -> bool {
    app.filter.is_empty() && app.view().is_some_and(|view| view.others.requests > 0)
}

fn nothing_text(app: &App) -> String {
    match (app.snapshot.ticks, app.filter.is_empty()) {
        (0, _) => "waiting for the first second".to_owned(),
        (_, false) => format!("no row has '{}' in its name", app.filter),
        _ => "no request was seen in the last seconds".to_owned(),
    }
}

fn titles(app: &App, (width, columns): (usize, &[Column])) -> Line<'static> {
    let name = match app.by {
        By::Tenant => "tenant",
        By::Rel => "relation",
        By::Client => "connection",
        By::KeyRange => "key range",
    };
    let style = Style::new().add_modifier(Modifier::BOLD);
    let titled = |column: Column, text: String| {
        let sorted = if column == app.sort { style.add_modifier(Modifier::UNDERLINED) } else { style };
        Span::styled(text, sorted)
    };
    let mut spans = vec![titled(Column::Name, name.to_owned())];
    spans.push(Span::raw(" ".repeat(width.saturating_sub(name.len()))));
    for &column in columns {
        let text = cell(column.title(), column);
        let blank = text.len() - text.trim_start().len();
        spans.push(Span::raw(" ".repeat(blank)));
        spans.push(titled(column, text.trim_start().to_owned()));
    }
    Line::from(spans)
}

/// A blank, and the text to the right of its column.
fn cell(text: &str, column: Column) -> String {
    format!(" {text:>width$}", width = usize::from(column.width()))
}
