//! The progress line of a report, on a terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Looking at the clock costs as much as a few records: it is done once in so many.
const RECORDS_PER_LOOK: u64 = 1 << 16;

/// What is over sooner needs no progress line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shows how many of the records are read.
pub(super) struct ReportProgress {
    shown: bool,
    total: u64,
    records: u64,
    started: Instant,
    bar: Option<ProgressBar>,
}

impl ReportProgress {
    /// A line that is shown where `wanted`, and where standard error is a terminal.
    pub(super) fn new(wanted: bool, total: u64) -> Self {
        let shown = wanted && io::stderr().is_terminal();
        Self { shown, total, records: 0, started: Instant::now(), bar: None }
    }

    /// One record more.
    #[inline]
    pub(super) fn step(&mut self) {
        self.records = self.records.wrapping_add(1);
        if self.shown && self.records.is_multiple_of(RECORDS_PER_LOOK) {
            self.draw();
        }
    }

    fn draw(&mut self) {
        if self.started.elapsed() < PATIENCE {
            return;
        }
        let total = self.total;
        let bar = self.bar.get_or_insert_with(|| {
            let style = ProgressStyle::with_template("{bar:30} {human_pos} of {human_len} records, {eta} to go")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
        });
        bar.set_position(self.records);
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
