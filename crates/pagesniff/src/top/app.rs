//! What is shown, and what keys do to it.

use std::cmp::Ordering;

use analysis::live::{By, Row, RowName, Snapshot, View};

use super::columns::{Column, that_fit};
use super::keys::Key;

/// A filter is no longer than a name.
const MOST_FILTER_CHARS: usize = 80;

/// What a key asks the program for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Nothing but to draw again.
    Nothing,
    /// To end.
    Quit,
    /// To stop until the shell lets it go on.
    Suspend,
    /// To draw everything anew.
    Redraw,
}

/// What lies over the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlay {
    None,
    Help,
    Notes,
}

/// The view.
#[derive(Debug)]
pub(super) struct App {
    /// What is captured, in words.
    pub(super) title: String,
    /// What is shown.
    pub(super) snapshot: Snapshot,
    /// What came while it was paused.
    newest: Option<Snapshot>,
    pub(super) by: By,
    pub(super) sort: Column,
    pub(super) is_reversed: bool,
    pub(super) is_paused: bool,
    /// The input is at its end.
    pub(super) is_over: bool,
    /// Only rows with this in their names are shown.
    pub(super) filter: String,
    /// Whether keys go to the filter.
    pub(super) is_typing: bool,
    pub(super) overlay: Overlay,
    /// The first row that is shown.
    pub(super) first_row: usize,
    /// How many fit the screen, and how wide it is: of the last drawing.
    pub(super) rows_on_screen: usize,
    pub(super) width: u16,
    pub(super) is_coloured: bool,
}

impl App {
    pub(super) fn new(title: String, by: By, is_coloured: bool) -> Self {
        Self {
            title,
            snapshot: Snapshot { followed_one_in: 1, ..Snapshot::default() },
            newest: None,
            by,
            sort: Column::Rate,
            is_reversed: false,
            is_paused: false,
            is_over: false,
            filter: String::new(),
            is_typing: false,
            overlay: Overlay::None,
            first_row: 0,
            rows_on_screen: 0,
            width: 0,
            is_coloured,
        }
    }

    /// Takes how it was in the last seconds.
    pub(super) fn take(&mut self, snapshot: Snapshot) {
        match self.is_paused {
            true => self.newest = Some(snapshot),
            false => self.snapshot = snapshot,
        }
    }

    /// The view that is shown.
    pub(super) fn view(&self) -> Option<&View> {
        self.snapshot.views.iter().find(|view| view.by == self.by)
    }

    /// Its rows that pass the filter, sorted.
    pub(super) fn rows(&self) -> Vec<Row> {
        let wanted = self.filter.to_lowercase();
        let rows = self.view().into_iter().flat_map(|view| &view.rows);
        let mut rows: Vec<Row> = rows.filter(|row| wanted.is_empty() || matches(&row.name, &wanted)).cloned().collect();
        self.sort.sort(&mut rows, self.is_reversed);
        rows
    }

    /// Does what a key is for.
    pub(super) fn key(&mut self, key: Key) -> Asked {
        match key {
            Key::Interrupt => return Asked::Quit,
            Key::Suspend => return Asked::Suspend,
            Key::Redraw => return Asked::Redraw,
            Key::Clear => self.filter.clear(),
            key if self.is_typing => self.type_filter(key),
            _ if self.overlay != Overlay::None => self.overlay = Overlay::None,
            Key::Char('q') => return Asked::Quit,
            Key::Escape if self.filter.is_empty() => return Asked::Quit,
            Key::Escape => self.filter.clear(),
            Key::Char('h' | '?') | Key::Help => self.overlay = Overlay::Help,
            Key::Char('n') => self.overlay = Overlay::Notes,
            Key::Char('p' | ' ') => self.pause(),
            Key::Char('/' | 'f') => self.is_typing = true,
            Key::Char('r') => self.is_reversed = !self.is_reversed,
            Key::Char('s' | '>') | Key::Right => self.sort_by_next(1),
            Key::Char('S' | '<') | Key::Left => self.sort_by_next(-1),
            Key::Tab => self.show_next(1),
            Key::BackTab => self.show_next(By::ALL.len() - 1),
            Key::Char(digit @ '1'..='4') => self.show(digit as usize - '1' as usize),
            other => self.scroll(other),
        }
        Asked::Nothing
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) if self.filter.chars().count() < MOST_FILTER_CHARS => self.filter.push(c),
            _ => {}
        }
        self.first_row = 0;
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if let Some(newest) = self.newest.take().filter(|_| !self.is_paused) {
            self.snapshot = newest;
        }
    }

    /// The columns that fit the screen, and the name's width.
    fn columns(&self) -> (u16, Vec<Column>) {
        that_fit(self.width, self.name_width())
    }

    /// What names need to be told apart.
    pub(super) fn name_width(&self) -> u16 {
        let mut tenants = self.view().into_iter().flat_map(|view| &view.rows).map(|row| &row.name.tenant);
        let first = tenants.next();
        let several = tenants.any(|tenant| Some(tenant) != first);
        match self.by {
            By::Rel if several => 29,
            By::KeyRange if several => 33,
            _ => 25,
        }
    }

    fn sort_by_next(&mut self, steps: isize) {
        self.sort = self.sort.next(&self.columns().1, steps);
        self.is_reversed = false;
    }

    fn show_next(&mut self, steps: usize) {
        let place = By::ALL.iter().position(|by| *by == self.by).unwrap_or(0);
        self.show((place + steps) % By::ALL.len());
    }

    fn show(&mut self, place: usize) {
        self.by = By::ALL.get(place).copied().unwrap_or(self.by);
        self.first_row = 0;
    }

    fn scroll(&mut self, key: Key) {
        let page = self.rows_on_screen.max(1);
        let first = match key {
            Key::Up | Key::Char('k') => self.first_row.saturating_sub(1),
            Key::Down | Key::Char('j') => self.first_row.saturating_add(1),
            Key::PageUp => self.first_row.saturating_sub(page),
            Key::PageDown => self.first_row.saturating_add(page),
            Key::Home | Key::Char('g') => 0,
            Key::End | Key::Char('G') => usize::MAX,
            _ => return,
        };
        self.first_row = first;
    }

    /// Fits the first row to so many of them, of which so many are on the screen.
    pub(super) fn fit_rows(&mut self, rows: usize, on_screen: usize) {
        self.rows_on_screen = on_screen;
        self.first_row = self.first_row.min(rows.saturating_sub(on_screen));
    }
}

/// Whether the filter, in lower case, is in any part of the name.
fn matches(name: &RowName, wanted: &str) -> bool {
    let parts = [&name.tenant, &name.timeline, &name.rel, &name.kind, &name.client, &name.server];
    let is_unknown = name.tenant.is_none() && UNKNOWN_TENANT.contains(wanted);
    is_unknown || parts.into_iter().flatten().any(|part| part.contains(wanted))
}

/// What stands in place of a tenant that is not known.
pub(super) const UNKNOWN_TENANT: &str = "tenant unknown";

/// What rows need in their names to be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Told {
    /// There are rows of several tenants.
    pub(super) by_tenant: bool,
    /// There are several timelines of one tenant.
    pub(super) by_timeline: bool,
}

/// A tenant is told by so many of its digits; with less room it is left out.
const LEAST_TENANT: usize = 5;

/// A row's name in so many columns.
pub(super) fn name_text(by: By, name: &RowName, told: Told, width: usize) -> String {
    let tenant = name.tenant.as_deref().unwrap_or(UNKNOWN_TENANT);
    let what = match by {
        By::Tenant => return tenant_text(tenant, name.timeline.as_deref().filter(|_| told.by_timeline), width),
        By::Client => name.client.clone(),
        By::Rel => name.rel.clone(),
        By::KeyRange => name.rel.as_ref().map(|rel| match (name.first_blkno, name.last_blkno) {
            (Some(first), Some(last)) => format!("{rel} {first}-{last}"),
            _ => rel.clone(),
        }),
    };
    let what = what.or_else(|| name.kind.clone()).unwrap_or_default();
    let left = width.saturating_sub(what.chars().count() + 2);
    match told.by_tenant && left >= LEAST_TENANT {
        true => format!("{what}  {}", shortened(tenant, left)),
        false => without_beginning(&what, width),
    }
}

fn tenant_text(tenant: &str, timeline: Option<&str>, width: usize) -> String {
    let Some(timeline) = timeline else { return shortened(tenant, width) };
    let half = width.saturating_sub(1) / 2;
    let timeline = shortened(timeline, half);
    let left = width.saturating_sub(timeline.chars().count() + 1);
    format!("{}/{timeline}", shortened(tenant, left))
}

/// Shortens a text to that width from its middle: of an id beginning and end tell it from others.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    match length.cmp(&width) {
        Ordering::Less | Ordering::Equal => text.to_owned(),
        Ordering::Greater if width < 3 => text.chars().take(width).collect(),
        Ordering::Greater => {
            let tail = (width - 1) / 2;
            let head = text.chars().take(width - 1 - tail);
            head.chain(['…']).chain(text.chars().skip(length - tail)).collect()
        }
    }
}

/// The same from its beginning: of a relation the last number tells it from others.
fn without_beginning(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    ['…'].into_iter().chain(text.chars().skip(length + 1 - width.max(1))).collect()
}
