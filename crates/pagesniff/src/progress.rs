//! The progress line on a terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use analysis::render::count_text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::capture::{Progress, Source};
use crate::pipeline::Pipeline;

/// Looking at the clock costs more than a packet: it is done once in so many.
const PACKETS_PER_LOOK: u32 = 4096;

/// What is over sooner needs no progress line.
const PATIENCE: Duration = Duration::from_millis(500);

/// Four times a second is as much as can be read.
const REFRESH: Duration = Duration::from_millis(250);

/// Shows how much of the input is read, or what an interface brings, where there is a terminal and enough to wait for.
pub struct ProgressLine {
    shown: bool,
    packets: u64,
    packets_to_look: u32,
    started: Instant,
    drawn: Instant,
    drawn_records: u64,
    bar: Option<ProgressBar>,
}

impl ProgressLine {
    /// A line that is shown where `wanted`, and where standard error is a terminal.
    pub fn new(wanted: bool) -> Self {
        let now = Instant::now();
        Self {
            shown: wanted && io::stderr().is_terminal(),
            packets: 0,
            packets_to_look: PACKETS_PER_LOOK,
            started: now,
            drawn: now,
            drawn_records: 0,
            bar: None,
        }
    }

    /// So many packets more.
    #[inline]
    pub(crate) fn step(&mut self, packets: u32, source: &impl Source, pipeline: &Pipeline) {
        self.packets = self.packets.wrapping_add(packets.into());
        self.packets_to_look = self.packets_to_look.saturating_sub(packets);
        if self.packets_to_look == 0 {
            self.packets_to_look = PACKETS_PER_LOOK;
            self.look(source, pipeline);
        }
    }

    /// Draws the line, if it is time to.
    pub(crate) fn look(&mut self, source: &impl Source, pipeline: &Pipeline) {
        let since_drawn = self.drawn.elapsed();
        if !self.shown || self.started.elapsed() < PATIENCE || (since_drawn < REFRESH && self.bar.is_some()) {
            return;
        }
        let records = pipeline.kept();
        let progress = source.progress();
        let message = match progress {
            Some(_) => format!("{} records", count_text(records)),
            None => {
                let rate = records.saturating_sub(self.drawn_records) as f64 / since_drawn.as_secs_f64();
                self.live_text(source, pipeline, rate)
            }
        };
        (self.drawn, self.drawn_records) = (Instant::now(), records);
        let bar = self.bar.get_or_insert_with(|| bar(progress));
        if let Some(Progress { read_bytes, .. }) = progress {
            bar.set_position(read_bytes);
        }
        bar.set_message(message);
        bar.tick();
    }

    /// `12 s, 34,120 packets, 1,204 records/s, 3 tenants, 0 dropped`
    fn live_text(&self, source: &impl Source, pipeline: &Pipeline, records_per_s: f64) -> String {
        let drops = source.statistics();
        let dropped = drops.kernel_dropped.saturating_add(drops.interface_dropped);
        format!(
            "{} s, {} packets, {} records/s, {} tenants, {} dropped",
            self.started.elapsed().as_secs(),
            count_text(self.packets),
            count_text(records_per_s.round() as u64),
            count_text(pipeline.tenants() as u64),
            count_text(dropped),
        )
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn bar(progress: Option<Progress>) -> ProgressBar {
    let template = match progress {
        Some(Progress { total_bytes: Some(_), .. }) => {
            "{bar:30} {binary_bytes} of {binary_total_bytes}, {msg}, {eta} to go"
        }
        Some(Progress { total_bytes: None, .. }) => "{spinner} {binary_bytes} read, {msg}",
        None => "{spinner} {msg}",
    };
    let total_bytes = progress.and_then(|progress| progress.total_bytes);
    // The templates are constant and covered by a test; the default style is shown if they were wrong all the same.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(total_bytes, ProgressDrawTarget::stderr()).with_style(style)
}
