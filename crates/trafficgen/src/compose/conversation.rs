//! One simulated TCP connection: both ends, both applications, the wire between them and the tap on it.
//!
//! A discrete-event simulation: whatever happens is an event with a time, taken in order of time and, for equal times,
//! of creation. Nothing depends on anything outside, so a plan and the options decide every byte.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use super::compute::Compute;
use super::endpoint::{Endpoint, Path};
use super::options::{ComposeOptions, View};
use super::plan::{Plan, Purpose};
use super::script::{self, Opening, Step};
use super::segment::{Both, Header, SACK_BLOCKS, Side, Span, TapPacket, flag};
use super::sender::Next;
use super::service::Service;
use crate::model::Asker;
use crate::rng::Rng;
use crate::truth::{Asked, Served};

/// From a write to the wire.
const STACK_NS: u64 = 1_500;

/// An overtaken packet is held up by this at least, and up to twice as long.
const REORDER_NS: u64 = 40_000;

/// A mirror port's second copy comes this much later at least, and up to four times as late.
const MIRROR_NS: u64 = 2_000;

/// Tenths of a nanosecond for a byte at 10 Gbit/s.
const BYTE_TENTHS_NS: u64 = 8;

/// A full SACK option beside timestamps: full segments have no room for it.
const SACK_OPTION_BYTES: u64 = 4 + 8 * SACK_BLOCKS as u64;

/// Packets below this do not travel in fragments: small ones never do.
const FRAGMENT_BYTES: u64 = 600;

/// What can happen.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// The client opens.
    Open,
    /// A segment reaches the other end.
    Arrive(Header),
    /// A timer of an end may be due.
    Timer(Side),
    /// A segment is sent again without need.
    Again(Side, Span),
    /// The next step of the script is said.
    Say,
    /// The compute flushes requests.
    Flush,
    /// The compute's pause is over.
    Resume,
    /// An idle client's kernel probes.
    KeepAlive,
    /// The page service begins a batch.
    Batch,
    /// The page service writes an answer.
    Answer,
    /// The client ends the session.
    ClientEnds,
    /// The server ends the session.
    ServerEnds,
}

/// An event in the queue: earliest first, then oldest.
#[derive(Debug)]
struct Scheduled {
    time_ns: u64,
    order: u64,
    event: Event,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) options: Rc<ComposeOptions>,
    pub(super) plan: Plan,
    pub(super) now: u64,
    pub(super) rng: Rng,
    path: Path,
    events: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    pub(super) ends: Both<Endpoint>,
    pub(super) script: VecDeque<Step>,
    /// What was said last has arrived when this end can read up to this offset.
    pub(super) awaited: Option<(Side, u64)>,
    pub(super) compute: Option<Compute>,
    pub(super) service: Service,
    /// The server has answered the client's FIN.
    pub(super) farewell_said: bool,
    tap: BinaryHeap<Reverse<TapPacket>>,
    /// Rows of the truth that are complete.
    pub(super) asked: Vec<Asked>,
    pub(super) served: Vec<Served>,
    /// Requests made since this was last read.
    pub(super) issued: u64,
    pub(super) scratch: Vec<u8>,
}

impl Conversation {
    /// A connection that will open at its plan's time.
    pub(super) fn new(options: Rc<ComposeOptions>, plan: Plan) -> Self {
        let workload = &options.workload;
        let network = &options.network;
        let mut rng = Rng::new(workload.seed, 0xC0_0000_0000 | u64::from(plan.facts.number));
        let path =
            Path { mtu: u64::from(network.mtu), ipv6: network.ipv6, receive_buffer: u64::from(network.receive_buffer) };
        let ends = Both { client: Endpoint::new(path, &mut rng), server: Endpoint::new(path, &mut rng) };
        let (compute, script) = match plan.purpose {
            Purpose::Other(other) => (None, script::other(other, plan.facts.owner)),
            Purpose::Pagestream { budget } => {
                let asker = Asker::new(workload, plan.backend).of_session(plan.session);
                let (pid, replica) = (asker.pid(), asker.replica());
                let opening = Opening { pid, replica, protocol: plan.facts.protocol, owner: plan.facts.owner };
                let compute = Compute::new(workload, &options.session, asker, budget);
                let script = script::handshake(opening, options.session.ask_encryption, options.session.auth);
                (Some(compute), script)
            }
        };
        let service = Service::new(workload, plan.facts.number);
        let mut conversation = Self {
            now: plan.open_ns,
            plan,
            rng,
            path,
            events: BinaryHeap::new(),
            order: 0,
            ends,
            script: script.into(),
            awaited: None,
            compute,
            service,
            farewell_said: false,
            tap: BinaryHeap::new(),
            asked: Vec::new(),
            served: Vec::new(),
            issued: 0,
            scratch: Vec::new(),
            options,
        };
        conversation.after(0, Event::Open);
        conversation
    }

    /// Goes on until the next packet that the capture sees is certain, and returns its time. `None`: it is over, and
    /// the time when it was is `now`.
    pub(super) fn next_packet_ns(&mut self) -> Option<u64> {
        loop {
            let packet_ns = self.tap.peek().map(|Reverse(packet)| packet.time_ns);
            match (packet_ns, self.events.peek().map(|Reverse(event)| event.time_ns)) {
                // Whatever is still to happen puts its packets behind this one.
                (Some(packet_ns), event_ns) if event_ns.is_none_or(|event_ns| packet_ns <= event_ns) => {
                    return Some(packet_ns);
                }
                (_, Some(_)) => self.step(),
                (_, None) => {
                    self.leave_unanswered();
                    return None;
                }
            }
        }
    }

    /// The packet whose time [`Self::next_packet_ns`] has told.
    pub(super) fn take_packet(&mut self) -> Option<TapPacket> {
        self.tap.pop().map(|Reverse(packet)| packet)
    }

    /// Has something happen later.
    pub(super) fn after(&mut self, delay_ns: u64, event: Event) {
        self.at(self.now + delay_ns, event);
    }

    fn at(&mut self, time_ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse(Scheduled { time_ns, order: self.order, event }));
    }

    fn step(&mut self) {
        let Some(Reverse(Scheduled { time_ns, event, .. })) = self.events.pop() else { return };
        self.now = time_ns;
        match event {
            Event::Open => self.send(Side::Client, Span { start: 0, end: 0 }, flag::SYN),
            Event::Arrive(header) => self.arrive(&header),
            Event::Timer(side) => self.timer(side),
            Event::Again(side, span) => self.again(side, span),
            Event::Say => self.say(),
            Event::Flush => self.flush(),
            Event::Resume => self.resume(),
            Event::KeepAlive => self.keep_alive(),
            Event::Batch => self.batch(),
            Event::Answer => self.answer(),
            Event::ClientEnds => self.client_ends(),
            Event::ServerEnds => self.server_ends(),
        }
    }

    fn timer(&mut self, side: Side) {
        let now = self.now;
        let end = self.ends.of_mut(side);
        if end.timer_at.is_some_and(|at| at <= now) {
            end.timer_at = None;
        }
        if end.gone {
            return;
        }
        if end.sender.deadline().is_some_and(|at| at <= now) {
            end.sender.time_out();
        }
        self.pump(side);
        if self.ends.of(side).receiver.deadline().is_some_and(|at| at <= now) {
            self.acknowledge(side);
        }
        self.arm(side);
    }

    fn again(&mut self, side: Side, span: Span) {
        let end = self.ends.of(side);
        if !end.gone && end.sender.una() <= span.start {
            self.send(side, span, flag::ACK | flag::PSH);
        }
    }

    /// Sends what may be sent. Returns whether anything was.
    pub(super) fn pump(&mut self, side: Side) -> bool {
        let mut sent = false;
        while !self.ends.of(side).gone {
            let now = self.now;
            let sender = &mut self.ends.of_mut(side).sender;
            let fresh_from = sender.nxt();
            let Some(next) = sender.next(now) else { break };
            sent = true;
            match next {
                Next::Data(span) => {
                    let push = if span.end == sender.written() { flag::PSH } else { 0 };
                    self.send(side, span, flag::ACK | push);
                    let retransmit = self.options.network.retransmit;
                    if span.start == fresh_from && self.rng.chance(retransmit) {
                        let delay_ns = 1 + self.rng.below(self.options.network.rtt);
                        self.after(delay_ns, Event::Again(side, span));
                    }
                }
                Next::Fin(span) => self.send(side, span, flag::ACK | flag::FIN),
                Next::Probe => self.probe(side),
            }
        }
        self.arm(side);
        sent
    }

    /// A segment without payload, one offset below what the other end expects: it must answer (RFC 9293, 3.8.4).
    pub(super) fn probe(&mut self, side: Side) {
        let below = self.ends.of(side).sender.una().wrapping_sub(1);
        self.send(side, Span { start: below, end: below }, flag::ACK);
    }

    /// A bare acknowledgement.
    pub(super) fn acknowledge(&mut self, side: Side) {
        let nxt = self.ends.of(side).sender.nxt();
        self.send(side, Span { start: nxt, end: nxt }, flag::ACK);
    }

    /// Makes sure that the end's timer fires in time.
    pub(super) fn arm(&mut self, side: Side) {
        let end = self.ends.of_mut(side);
        let Some(deadline) = end.deadline() else { return };
        if end.timer_at.is_none_or(|at| at > deadline) {
            end.timer_at = Some(deadline);
            self.at(deadline, Event::Timer(side));
        }
    }

    /// Puts a segment on the wire, past the tap, to the other end; or loses it.
    pub(super) fn send(&mut self, from: Side, span: Span, flags: u8) {
        let options = Rc::clone(&self.options);
        let (network, capture) = (&options.network, &options.capture);
        let now = self.now;
        let end = self.ends.of_mut(from);
        let mut header = end.header(from, span, flags, now);
        if header.payload_len() + SACK_OPTION_BYTES > self.path.payload_max() {
            header.sacks = [None; SACK_BLOCKS];
        }
        let leaves = end.link_free_ns.max(now + STACK_NS);
        end.link_free_ns = leaves + (header.payload_len() + 100) * BYTE_TENTHS_NS / 10;
        // What opens a connection is spared: losing it tests nothing but patience.
        let spared = header.has(flag::SYN);
        let held_ns = match !spared && self.rng.chance(network.reorder) {
            true => REORDER_NS + self.rng.below(REORDER_NS),
            false => 0,
        };
        let lost = !spared && self.rng.chance(network.loss);
        let leaves = leaves + held_ns;
        let arrives = leaves + network.rtt / 2;
        let tap_is_near = from == side_of(capture.view);
        if tap_is_near || !lost {
            self.pass_tap(header, if tap_is_near { leaves } else { arrives });
        }
        if !lost {
            self.at(arrives, Event::Arrive(header));
        }
    }

    fn pass_tap(&mut self, header: Header, time_ns: u64) {
        let options = Rc::clone(&self.options);
        let capture = &options.capture;
        let hidden = capture.one_side.is_some_and(|side| side_of(side) != header.from);
        if hidden || self.rng.chance(capture.drop) {
            return;
        }
        let mut payload = Vec::with_capacity(header.payload_len() as usize);
        let bytes = Span { end: header.span.start.wrapping_add(header.payload_len()), ..header.span };
        if bytes.end != bytes.start {
            self.ends.of(header.from).sender.copy(bytes, &mut payload);
        }
        let fragmented = header.payload_len() > FRAGMENT_BYTES && self.rng.chance(options.network.fragment);
        if self.rng.chance(capture.duplicate) {
            let copy_ns = time_ns + MIRROR_NS + self.rng.below(3 * MIRROR_NS);
            self.record(TapPacket { time_ns: copy_ns, order: 0, header, payload: payload.clone(), fragmented });
        }
        self.record(TapPacket { time_ns, order: 0, header, payload, fragmented });
    }

    fn record(&mut self, mut packet: TapPacket) {
        self.order += 1;
        packet.order = self.order;
        self.tap.push(Reverse(packet));
    }

    /// Bytes of payload in a full segment.
    pub(super) const fn payload_max(&self) -> u64 {
        self.path.payload_max()
    }
}

/// The end on which a capture is taken.
pub(super) const fn side_of(view: View) -> Side {
    match view {
        View::Client => Side::Client,
        View::Server => Side::Server,
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time_ns, self.order).cmp(&(other.time_ns, other.order))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl Ord for TapPacket {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.time_ns, self.order).cmp(&(other.time_ns, other.order))
    }
}

impl PartialOrd for TapPacket {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for TapPacket {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for TapPacket {}
