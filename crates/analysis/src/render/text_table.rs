//! Tables of a report: a title, names at the left, numbers at the right.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::html::Escaped;
use super::units::count_text;

/// Appends a line. Writing to a String does not fail.
pub(super) fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(content);
    text.push('\n');
}

/// A table that is being filled.
pub(super) struct TextTable {
    title: &'static str,
    names: usize,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    more: usize,
}

impl TextTable {
    pub(super) fn new(title: &'static str, names: &[&str]) -> Self {
        let columns = names.iter().map(|&name| name.to_owned()).collect();
        Self { title, names: names.len(), columns, rows: Vec::new(), more: 0 }
    }

    /// Adds columns of numbers.
    pub(super) fn numbers<'a>(&mut self, columns: impl IntoIterator<Item = &'a str>) {
        self.columns.extend(columns.into_iter().map(str::to_owned));
    }

    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The row of all, where there are several.
    pub(super) fn total(&mut self, cells: impl IntoIterator<Item = String>) {
        if self.rows.len() > 1 {
            self.row(cells);
        }
    }

    /// So many rows are left out.
    pub(super) fn more(&mut self, rows: usize) {
        self.more = rows;
    }

    /// Appends the table, or nothing where it has no rows.
    pub(super) fn append_to(self, text: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.columns);
        for row in &self.rows {
            table.add_row(row);
        }
        table.column_iter_mut().skip(self.names).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        line(text, format_args!("\n{}", self.title));
        for row in table.lines() {
            line(text, format_args!("{}", row.trim_end()));
        }
        if self.more > 0 {
            line(text, format_args!(" {} more: --json FILE lists them.", count_text(self.more as u64)));
        }
    }

    /// Appends the same as an HTML table. Whatever stands in a cell is escaped.
    pub(super) fn append_html_to(self, html: &mut String) {
        if self.rows.is_empty() {
            return;
        }
        line(html, format_args!("<div class=table><table><caption>{}</caption>", Escaped(self.title)));
        let of_column = |column: usize| if column < self.names { "" } else { " class=n" };
        let width = self.columns.len();
        let cells = |name: &str, cells: &[String]| -> String {
            let cell = |(column, cell)| format!("<{name}{}>{}</{name}>", of_column(column), Escaped(cell));
            // A row that ends early has its line to the end.
            let all = cells.iter().map(String::as_str).chain(std::iter::repeat("")).take(width.max(cells.len()));
            all.enumerate().map(cell).collect()
        };
        line(html, format_args!("<thead><tr>{}</tr></thead><tbody>", cells("th", &self.columns)));
        self.rows.iter().for_each(|row| line(html, format_args!("<tr>{}</tr>", cells("td", row))));
        html.push_str("</tbody></table>");
        if self.more > 0 {
            line(html, format_args!("<p>{} more: --json FILE lists them.</p>", count_text(self.more as u64)));
        }
        html.push_str("</div>\n");
    }
}
