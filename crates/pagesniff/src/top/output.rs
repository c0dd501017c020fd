//! Figures on standard output: a JSON object a second, or one table.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analysis::live::{Snapshot, WINDOW_TICKS, Wanted};

use super::app::App;
use super::draw::text_lines;
use super::snapshots::{Heard, Hears};
use crate::run::{Ended, output_outcome};
use crate::terminal::{columns_of, say};

/// Rows that are written where nobody says how many.
pub(super) const ROWS: usize = 20;

/// Columns of a table that goes to no terminal: all of them, and names in full.
const COLUMNS: u16 = 132;

/// It is looked so often whether somebody wants it to end.
const LOOK: Duration = Duration::from_millis(100);

/// What is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub(super) is_json: bool,
    pub(super) is_once: bool,
}

/// Writes figures until the input ends, a signal comes, or nobody reads any more.
///
/// # Errors
///
/// Standard output takes nothing more.
pub(super) fn write(
    snapshots: &mut impl Hears,
    wanted: Wanted<'_>,
    (form, mut app): (Form, App),
    stop: &AtomicBool,
) -> anyhow::Result<Ended> {
    // The capture ends by the same flag, and what it had seen by then comes as its last tick.
    let mut latest = None;
    loop {
        let (snapshot, is_last) = match snapshots.hear(wanted, LOOK) {
            Heard::Tick(snapshot) => (snapshot, false),
            Heard::End(snapshot) => (snapshot, true),
            Heard::Nothing => continue,
            // What is old is not written again as if it were new.
            Heard::Trouble(snapshot) => {
                snapshot.notes.iter().for_each(|note| say(format_args!("note: {note}")));
                continue;
            }
            Heard::Gone => break,
        };
        let is_whole = snapshot.ticks > WINDOW_TICKS as u64;
        if form.is_once && !is_last && !is_whole {
            latest = Some(snapshot);
            continue;
        }
        latest = None;
        let written = output_outcome(write_one(&snapshot, form, &mut app))?;
        if is_last || form.is_once || written == Ended::OutputClosed {
            stop.store(true, Ordering::Relaxed);
            return Ok(written);
        }
    }
    // The capturing thread ended by a fault, of which the caller tells.
    latest.map_or(Ok(Ended::Done), |snapshot| output_outcome(write_one(&snapshot, form, &mut app)))
}

fn write_one(snapshot: &Snapshot, form: Form, app: &mut App) -> io::Result<()> {
    let stdout = io::stdout();
    let mut text = String::new();
    if form.is_json {
        text.push_str(&serde_json::to_string(snapshot)?);
        text.push('\n');
    } else {
        app.take(snapshot.clone());
        let columns = columns_of(&stdout).and_then(|columns| u16::try_from(columns).ok()).unwrap_or(COLUMNS);
        for line in text_lines(app, columns) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    let mut stdout = stdout.lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}
