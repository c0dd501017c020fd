//! The progress line on a terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use decode::Decoder;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::capture::{Progress, Source};
use analysis::render::count_text;

/// Looking at the clock costs more than a packet: it is done once in so many.
const PACKETS_PER_LOOK: u32 = 4096;

/// What is over sooner needs no progress line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Shows how much of the input is read, where there is a terminal and enough of it to wait for.
pub struct ProgressLine {
    shown: bool,
    started: Instant,
    packets: u32,
    bar: Option<ProgressBar>,
}

impl ProgressLine {
    /// A line that is shown where `wanted`, and where standard error is a terminal.
    pub fn new(wanted: bool) -> Self {
        Self { shown: wanted && io::stderr().is_terminal(), started: Instant::now(), packets: 0, bar: None }
    }

    /// One packet more.
    pub(crate) fn step(&mut self, source: &impl Source, decoder: &Decoder) {
        self.packets = self.packets.wrapping_add(1);
        if !self.shown || !self.packets.is_multiple_of(PACKETS_PER_LOOK) || self.started.elapsed() < PATIENCE {
            return;
        }
        let Some(Progress { read_bytes, total_bytes }) = source.progress() else { return };
        let bar = self.bar.get_or_insert_with(|| bar(total_bytes));
        bar.set_position(read_bytes);
        bar.set_message(format!("{} records", count_text(decoder.stats().records)));
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn bar(total_bytes: Option<u64>) -> ProgressBar {
    let template = match total_bytes {
        Some(_) => "{bar:30} {binary_bytes} of {binary_total_bytes}, {msg}, {eta} to go",
        None => "{spinner} {binary_bytes} read, {msg}",
    };
    // The templates are constant and covered by a test; the default style is shown if they were wrong all the same.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr()).with_style(style)
}
