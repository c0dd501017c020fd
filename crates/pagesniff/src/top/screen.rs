//! The terminal: taken over while the view is shown, and given back however that ends.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use analysis::live::{By, Limits, Wanted};
use anyhow::anyhow;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use rustix::process::{Signal, getpid, kill_process};
use terminal_size::terminal_size_of;

use super::app::{App, Asked};
use super::draw::draw;
use super::keys::{Keys, Read};
use super::snapshots::{Heard, Hears};

/// How long a key may wait for its effect.
const KEY_WAIT: Duration = Duration::from_millis(50);

/// Says what to do where there is no terminal to draw on.
///
/// # Errors
///
/// Standard input or output is no terminal, or one that can only print.
pub(super) fn check_terminal() -> anyhow::Result<()> {
    let is_missing = |what: &str| {
        anyhow!(
            "top: {what} is no terminal that the view could be drawn on; --once and --json write figures anywhere, and \
             `pagesniff report` tells what traces say"
        )
    };
    if !io::stdout().is_terminal() {
        return Err(is_missing("standard output"));
    }
    if !io::stdin().is_terminal() {
        return Err(is_missing("standard input"));
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        return Err(is_missing("what TERM names"));
    }
    Ok(())
}

/// Whether colours are wanted (no-color.org).
pub(super) fn is_coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The terminal while it is taken over.
struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
}

impl Screen {
    fn take() -> io::Result<Self> {
        enter()?;
        match Terminal::new(CrosstermBackend::new(io::stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Leaves the terminal to the shell until that lets the program go on.
    fn suspend(&mut self) -> io::Result<()> {
        give_back();
        kill_process(getpid(), Signal::TSTP)?;
        enter()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen).inspect_err(|_| give_back())
}

/// What cannot be given back is gone with the terminal.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = io::stdout().flush();
}

/// A panic's words must not be lost with the screen that they were written on.
fn give_back_at_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        before(panic);
    }));
}

/// Shows the view until a key, a signal or the input's end ends it; `stays` where it is to be looked at after that.
///
/// # Errors
///
/// The terminal cannot be drawn on.
pub(super) fn show(snapshots: &mut impl Hears, mut app: App, (stop, stays): (&AtomicBool, bool)) -> io::Result<()> {
    give_back_at_panics();
    let mut screen = Screen::take()?;
    let (mut keys, mut size) = (Keys::default(), None);
    while !stop.load(Ordering::Relaxed) {
        // Where nothing comes any more, keys are all there is to wait for.
        let Read::Keys(pressed) = keys.read(if app.is_over { KEY_WAIT } else { Duration::ZERO })? else { break };
        let mut is_new = !pressed.is_empty();
        for key in pressed {
            match app.key(key) {
                Asked::Nothing => {}
                Asked::Quit => return Ok(()),
                Asked::Suspend => screen.suspend()?,
                Asked::Redraw => screen.terminal.clear()?,
            }
        }
        if !app.is_over {
            let Some(is_heard) = hear(snapshots, &mut app, if is_new { Duration::ZERO } else { KEY_WAIT }) else {
                break;
            };
            is_new |= is_heard;
        }
        if app.is_over && !stays {
            break;
        }
        let size_now = terminal_size_of(io::stdout());
        if is_new || size != size_now {
            size = size_now;
            screen.terminal.draw(|frame| draw(frame, &mut app))?;
        }
    }
    Ok(())
}

/// Takes what comes within that time; whether it is something new, or `None` where there is nobody who could tell.
fn hear(snapshots: &mut impl Hears, app: &mut App, within: Duration) -> Option<bool> {
    match snapshots.hear(Wanted { by: &By::ALL, rows: Limits::ROWS }, within) {
        Heard::Nothing => return Some(false),
        Heard::Tick(snapshot) | Heard::Trouble(snapshot) => app.take(*snapshot),
        Heard::End(snapshot) => {
            app.take(*snapshot);
            app.is_over = true;
        }
        Heard::Gone => return None,
    }
    Some(true)
}
