//! A capturing thread: packets in, records out, and between them what the daemon asks for.
//!
//! Connections are kept all the time, with whose they are from their handshake, so that a trace that begins in the middle
//! knows it. While nobody wants records, a kernel filter may keep the packets of open connections away: what comes after is a
//! hole, behind which the decoder finds its place again, as after any loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use decode::{Decoder, OpenConnection};
use record::{TenantTimeline, Timestamp};

use super::control::words::WorkerStatus;
use super::distribution::{ActiveTrace, Distribution};
use super::ending::Ended;
use crate::capture::live::Live;
use crate::capture::{After, CaptureError, Source};
use crate::facts::losses;

/// The traces are told what the capture has lost when so much packet time has passed.
const TELLING_INTERVAL_NS: u64 = 1_000_000_000;

/// What a capturing thread is asked for. Each is answered through the channel that it brings; one that nobody listens to any
/// more is no fault.
pub(super) enum Command {
    /// To begin a trace.
    Begin(Box<ActiveTrace>, SyncSender<()>),
    /// To end one before its time.
    End(String, SyncSender<()>),
    /// To give the flight recorder all that it has.
    HandOver(SyncSender<()>),
    /// How it is.
    Status(SyncSender<WorkerStatus>),
    /// Its connections.
    Connections(SyncSender<Vec<OpenConnection>>),
    /// The requests of each tenant.
    Tenants(SyncSender<Vec<(TenantTimeline, u64)>>),
}

/// A capturing thread's state.
pub(super) struct Worker {
    pub(super) interface: String,
    pub(super) source: Live,
    pub(super) decoder: Decoder,
    pub(super) sink: Distribution,
    pub(super) commands: Receiver<Command>,
    /// Where the ways in of traces that have ended go to, and the flight recorder's at the end.
    pub(super) ended: Sender<Ended>,
    /// Grows as long as the thread goes on.
    pub(super) looks: Arc<AtomicU64>,
}

impl Worker {
    /// Captures until the source ends, and says how that was: an error where the source cannot be read any further. What was
    /// read before has been handed over in any case.
    pub(super) fn run(mut self) -> (WorkerStatus, Result<(), CaptureError>) {
        let mut told_at = Timestamp(0);
        let outcome = loop {
            let Self { source, decoder, sink, .. } = &mut self;
            let after = source.burst(|packet| {
                sink.at(packet.time);
                decoder.packet(packet, sink);
            });
            let is_idle = match after {
                Ok(After::Packets) => false,
                Ok(After::Idle { now }) => {
                    sink.at(now);
                    decoder.idle(now, sink);
                    sink.idle();
                    true
                }
                Ok(After::End) => break Ok(()),
                Err(error) => break Err(error),
            };
            let now = sink.now();
            // A clock that was set back tells at once.
            if now.since(told_at).is_none_or(|passed_ns| passed_ns >= TELLING_INTERVAL_NS) {
                told_at = now;
                self.tell_losses();
            }
            self.look(is_idle);
        };
        self.decoder.finish(&mut self.sink);
        self.tell_losses();
        let status = self.status();
        let (ring, traces) = self.sink.finish();
        traces.into_iter().for_each(|trace| hand_back(&self.ended, trace));
        if let Some(feed) = ring {
            let _ = self.ended.send(Ended::Ring(feed));
        }
        (status, outcome)
    }

    fn tell_losses(&mut self) {
        let lost = losses(self.decoder.stats(), &self.source.statistics());
        self.sink.capture_losses(&lost);
    }

    /// Does what is asked for, and ends traces whose time is over.
    fn look(&mut self, is_idle: bool) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        for trace in self.sink.over(is_idle) {
            self.end(trace);
        }
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Begin(trace, done) => {
                    self.sink.begin(*trace, losses(self.decoder.stats(), &self.source.statistics()));
                    let _ = done.try_send(());
                }
                Command::End(id, done) => {
                    if let Some(trace) = self.sink.end(&id) {
                        self.end(trace);
                    }
                    let _ = done.try_send(());
                }
                Command::HandOver(done) => {
                    self.sink.hand_over();
                    let _ = done.try_send(());
                }
                Command::Status(reply) => drop(reply.try_send(self.status())),
                Command::Connections(reply) => drop(reply.try_send(self.decoder.connections().collect())),
                Command::Tenants(reply) => drop(reply.try_send(self.sink.tenants())),
            }
        }
    }

    /// Gives a trace's way in back, with what the capture has lost until now.
    fn end(&mut self, mut trace: ActiveTrace) {
        let lost = losses(self.decoder.stats(), &self.source.statistics());
        trace.outlet.capture_losses(&lost);
        hand_back(&self.ended, trace);
    }

    fn status(&self) -> WorkerStatus {
        let (decoded, source) = (self.decoder.stats(), self.source.statistics());
        WorkerStatus {
            interface: self.interface.clone(),
            packets: decoded.packets,
            wire_bytes: decoded.wire_bytes,
            requests: self.sink.requests,
            unattributed: self.sink.unattributed,
            memory_bytes: self.decoder.memory_bytes() as u64,
            kernel_dropped: source.kernel_dropped,
            interface_dropped: source.interface_dropped,
            gap_bytes: decoded.gap_bytes,
            lost_requests: decoded.lost_requests,
            lost_responses: decoded.lost_responses,
            evicted_connections: decoded.evicted_connections,
            queue_dropped: self.sink.queue_dropped(),
        }
    }
}

/// The rest of a trace may have to wait for room in its queue, which a capturing thread does not do.
fn hand_back(ended: &Sender<Ended>, trace: ActiveTrace) {
    let _ = ended.send(Ended::Trace(trace.id, trace.outlet.feed));
}
