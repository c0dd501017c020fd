//! A capturing thread: packets in, records out, and between them what the daemon asks for.
//!
//! Connections are kept all the time, with whose they are from their handshake, so that a trace that begins in the middle
//! knows it. What nobody wants the kernel keeps away (see [`super::watch`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use decode::{Decoder, OpenConnection};
use record::{TenantTimeline, Timestamp};

use super::control::words::WorkerStatus;
use super::distribution::{ActiveTrace, Distribution};
use super::ending::Ended;
use super::interface::Interface;
use super::sampling::Sampling;
use super::watch::Watch;
use crate::capture::After;
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
    /// To keep other keys. Answers whether all that was kept before is on its way.
    Sample(Sampling, SyncSender<bool>),
    /// How it is.
    Status(SyncSender<WorkerStatus>),
    /// Its connections.
    Connections(SyncSender<Vec<OpenConnection>>),
    /// The requests of each tenant.
    Tenants(SyncSender<Vec<(TenantTimeline, u64)>>),
}

/// A capturing thread's state.
pub(super) struct Worker {
    pub(super) interface: Interface,
    pub(super) decoder: Decoder,
    pub(super) watch: Watch,
    pub(super) sink: Distribution,
    pub(super) commands: Receiver<Command>,
    /// Where the ways in of traces that have ended go to, and the flight recorder's at the end.
    pub(super) ended: Sender<Ended>,
    /// Grows as long as the thread goes on.
    pub(super) looks: Arc<AtomicU64>,
}

impl Worker {
    /// Captures until it is told to end, and says how that was.
    pub(super) fn run(mut self) -> WorkerStatus {
        let mut told_at = Timestamp(0);
        self.adjust();
        loop {
            let Self { interface, decoder, sink, .. } = &mut self;
            let after = interface.burst(|packet| {
                sink.at(packet.time);
                decoder.packet(packet, sink);
            });
            let is_idle = match after {
                After::Packets => false,
                After::Idle { now } => {
                    sink.at(now);
                    decoder.idle(now, sink);
                    sink.idle();
                    true
                }
                After::End => break,
            };
            let now = sink.now();
            // A clock that was set back tells at once.
            if now.since(told_at).is_none_or(|passed_ns| passed_ns >= TELLING_INTERVAL_NS) {
                told_at = now;
                self.tell_losses();
                if self.sink.wants_some() {
                    self.adjust();
                }
            }
            if self.watch.is_outdated(&self.interface) {
                self.adjust();
            }
            self.look(is_idle);
        }
        self.decoder.finish(&mut self.sink);
        self.tell_losses();
        let status = self.status();
        let (ring, traces) = self.sink.finish();
        traces.into_iter().for_each(|trace| hand_back(&self.ended, trace));
        if let Some(feed) = ring {
            let _ = self.ended.send(Ended::Ring(feed));
        }
        status
    }

    /// Lets through what is wanted now.
    fn adjust(&mut self) {
        self.watch.adjust(&self.interface, &mut self.decoder, &self.sink);
    }

    fn tell_losses(&mut self) {
        let lost = losses(self.decoder.stats(), &self.interface.statistics());
        self.sink.capture_losses(&lost);
    }

    /// Does what is asked for, and ends traces whose time is over.
    fn look(&mut self, is_idle: bool) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let over = self.sink.over(is_idle);
        if !over.is_empty() {
            over.into_iter().for_each(|trace| self.end(trace));
            self.adjust();
        }
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Begin(trace, done) => {
                    self.sink.begin(*trace, losses(self.decoder.stats(), &self.interface.statistics()));
                    self.adjust();
                    let _ = done.try_send(());
                }
                Command::End(id, done) => {
                    if let Some(trace) = self.sink.end(&id) {
                        self.end(trace);
                        self.adjust();
                    }
                    let _ = done.try_send(());
                }
                Command::HandOver(done) => {
                    self.sink.hand_over();
                    let _ = done.try_send(());
                }
                Command::Sample(sampling, reply) => drop(reply.try_send(self.sink.sample(sampling))),
                Command::Status(reply) => drop(reply.try_send(self.status())),
                Command::Connections(reply) => drop(reply.try_send(self.decoder.connections().collect())),
                Command::Tenants(reply) => drop(reply.try_send(self.sink.tenants())),
            }
        }
    }

    /// Gives a trace's way in back, with what the capture has lost until now.
    fn end(&mut self, mut trace: ActiveTrace) {
        let lost = losses(self.decoder.stats(), &self.interface.statistics());
        trace.outlet.capture_losses(&lost);
        hand_back(&self.ended, trace);
    }

    fn status(&self) -> WorkerStatus {
        let (decoded, source) = (self.decoder.stats(), self.interface.statistics());
        WorkerStatus {
            interface: self.interface.name().to_owned(),
            passing: self.watch.in_words(),
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
            interruptions: self.interface.interruptions(),
            problem: self.interface.problem(),
        }
    }
}

/// The rest of a trace may have to wait for room in its queue, which a capturing thread does not do.
fn hand_back(ended: &Sender<Ended>, trace: ActiveTrace) {
    if let Some(feed) = trace.outlet.way.into_feed() {
        let _ = ended.send(Ended::Trace(trace.id, feed));
    }
}
