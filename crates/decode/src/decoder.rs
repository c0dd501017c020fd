//! The spine: one packet's walk from the capture to the records that it completes.

use crate::config::Config;
use crate::packet::Packet;
use crate::sink::Sink;
use crate::stats::Stats;

/// Turns packets into records. Sans-IO: the only clock is the packets' own.
#[derive(Debug)]
pub struct Decoder {
    config: Config,
    stats: Stats,
}

impl Decoder {
    /// A decoder that has seen nothing.
    pub fn new(config: Config) -> Self {
        Self { config, stats: Stats::default() }
    }

    /// Takes one packet and hands every record that it completes to `sink`.
    pub fn packet(&mut self, packet: &Packet<'_>, sink: &mut impl Sink) {
        let _ = (&self.config, packet, sink);
    }

    /// The capture is over: whatever is still open ends here, unanswered requests among it.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        let _ = sink;
    }

    /// What has been counted so far; the connections still open are in it after [`Self::finish`] only.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}
