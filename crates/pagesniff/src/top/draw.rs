//! The screen: figures of all requests above, the table below.
//!
//! Everything is fitted to the width: what has no room is left out, the least important first.

use analysis::live::Snapshot;
use ratatui::Frame;
use ratatui::layout::{Constraint, Flex, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::app::{App, Overlay};
use super::columns::that_fit;
use super::header::header_lines;
use super::lines::{fitted, shortened_end};
use super::table::{has_others, table_lines};

/// Lines above the table on a screen of usual height; on lower ones the table keeps at least a few rows.
const HEADER_LINES: u16 = 7;

/// A screen this low has the first line and the table.
const LOW: u16 = 14;

/// What keys do.
const HELP: [(&str, &str); 11] = [
    ("1 2 3 4 tab", "tenants, relations, connections, key ranges"),
    ("s < >", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "only rows whose name contains...; esc clears"),
    ("p space", "pause, and go on"),
    ("up down pgup pgdn", "other rows"),
    ("n", "all notes"),
    ("q ctrl-c", "quit"),
    ("first", "of the GetPage: for pages not fetched before"),
    ("again", "for pages that the compute had fetched before"),
    ("redund", "proven to have brought what it had had already"),
];

/// Draws it all.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    app.width = area.width;
    let header = if area.height < LOW { 1 } else { HEADER_LINES };
    let has_note = area.height >= LOW && !app.snapshot.notes.is_empty();
    let [above, table, note, keys] = Layout::vertical([
        Constraint::Length(header),
        Constraint::Min(1),
        Constraint::Length(has_note.into()),
        Constraint::Length(1),
    ])
    .areas(area);
    let lines: Vec<Line<'_>> = header_lines(app, area.width).into_iter().take(header.into()).collect();
    frame.render_widget(Paragraph::new(lines), above);
    draw_table(frame, app, table);
    if has_note {
        frame.render_widget(Paragraph::new(note_line(app, area.width)), note);
    }
    frame.render_widget(Paragraph::new(keys_line(app, area.width)), keys);
    match app.overlay {
        Overlay::None => {}
        Overlay::Help => draw_over(frame, " keys and columns ", help_text()),
        Overlay::Notes => draw_over(frame, " notes ", notes_text(&app.snapshot)),
    }
}

/// The lines of a view without a terminal: the header, and all rows.
pub(super) fn text_lines(app: &App, width: u16) -> Vec<String> {
    let (name_width, columns) = that_fit(width, app.name_width());
    let table = table_lines(app, (name_width, &columns), usize::MAX);
    let lines = header_lines(app, width).into_iter().chain(table);
    let texts = lines.map(|line| line.spans.iter().map(|span| span.content.as_ref()).collect::<String>());
    let notes = app.snapshot.notes.iter().map(|note| format!("note: {note}"));
    texts.map(|text| text.trim_end().to_owned()).chain(notes).collect()
}

fn note_line(app: &App, width: u16) -> Line<'static> {
    let notes = &app.snapshot.notes;
    let first = notes.first().map_or("", String::as_str);
    let more = match notes.len() {
        0 | 1 => String::new(),
        count => format!(" (n: {} more)", count - 1),
    };
    let room = usize::from(width).saturating_sub(more.len());
    let text = shortened_end(&format!("note: {first}"), u16::try_from(room).unwrap_or(width));
    Line::styled(format!("{text}{more}"), app.accent())
}

fn keys_line(app: &App, width: u16) -> Line<'static> {
    let text = match app.is_typing {
        true => fitted(["enter: keep the filter".to_owned(), "esc: clear it".to_owned()], width),
        false => {
            let keys = ["q quit", "h help", "1-4 view", "s sort", "/ filter", "p pause", "r reverse", "n notes"];
            fitted(keys.map(str::to_owned), width)
        }
    };
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

fn help_text() -> Vec<Line<'static>> {
    let line = |(keys, what): &(&'static str, &'static str)| Line::raw(format!("{keys:<18}{what}"));
    HELP.iter().map(line).collect()
}

fn notes_text(snapshot: &Snapshot) -> Vec<Line<'static>> {
    if snapshot.notes.is_empty() {
        return vec![Line::raw("There is nothing to say.")];
    }
    snapshot.notes.iter().map(|note| Line::raw(format!("- {note}."))).collect()
}

/// Lines in a frame over the middle of the screen, wrapped.
fn draw_over(frame: &mut Frame<'_>, title: &'static str, lines: Vec<Line<'static>>) {
    let screen = frame.area();
    let width = screen.width.saturating_sub(4).min(90);
    let inside = usize::from(width.saturating_sub(2)).max(1);
    let height: usize = lines.iter().map(|line| line.width().div_ceil(inside).max(1)).sum();
    let height = u16::try_from(height + 2).unwrap_or(u16::MAX).min(screen.height);
    let [area] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(screen);
    let [area] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(area);
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(title).title_bottom(" any key closes this ");
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

fn draw_table(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let (name_width, columns) = that_fit(area.width, app.name_width());
    let on_screen = usize::from(area.height).saturating_sub(1);
    let lines = table_lines(app, (name_width, &columns), on_screen);
    app.fit_rows(app.rows().len() + usize::from(has_others(app)), on_screen);
    frame.render_widget(Paragraph::new(lines), area);
}

impl App {
    pub(super) fn accent(&self) -> Style {
        if self.is_coloured { Style::new().fg(Color::Cyan) } else { Style::new() }
    }

    /// Something was lost: in colour, and without it in reverse.
    pub(super) fn alarming(&self) -> Style {
        match self.is_coloured {
            true => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}
