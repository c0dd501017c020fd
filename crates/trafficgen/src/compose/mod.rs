//! Composes pagestream sessions into a capture file, without sockets.
//!
//! ```text
//! Lanes → Plan → Conversation (events, both ends of TCP, both applications, the wire, the tap)
//!      → TapPacket, merged by time over all connections → Framer (TCP, IP, link) → CaptureFile
//! ```
//!
//! Each connection is simulated on its own, so a packet's bytes depend on the options and on nothing else: neither on
//! the machine, nor on the other connections. Only what is in flight is held in memory.

mod arrivals;
mod capture_file;
mod checksum;
mod compute;
mod conversation;
mod endpoint;
mod frame;
mod link;
mod options;
mod plan;
mod receiver;
mod script;
mod segment;
mod sender;
mod service;
mod session;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result, bail};

pub use options::{
    AskEncryption, Auth, CaptureOptions, ComposeOptions, End, Format, Link, NetworkOptions, Other, OutputOptions,
    SessionOptions, View,
};

use capture_file::CaptureFile;
use conversation::{Conversation, side_of};
use frame::{Flow, Framer};
use link::LinkLayer;
use plan::{Lanes, REOPEN_AFTER_NS};

use crate::truth::{TruthSides, TruthWriter};

/// Bytes gathered before they go to the file: fewer system calls than packets.
const WRITE_BYTES: usize = 1 << 20;

/// What was composed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Composed {
    /// Packets in the file.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Requests made, whether the capture saw them or not.
    pub requests: u64,
    /// Time of the first packet, unix ns: requests sent before it are not in the capture.
    pub begins_ns: Option<u64>,
}

/// Composes a capture into the file that the options name, `-` for standard output.
///
/// # Errors
/// Options that contradict each other, and what the file system says.
pub fn compose(options: ComposeOptions) -> Result<Composed> {
    let path = options.output.out.clone();
    if path == Path::new("-") {
        return compose_into(io::stdout().lock(), options);
    }
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    compose_into(file, options)
}

/// Composes a capture into a writer.
///
/// # Errors
/// Options that contradict each other, and what the writer and the file system say.
pub fn compose_into(out: impl Write, options: ComposeOptions) -> Result<Composed> {
    if let Some(contradiction) = options.contradiction() {
        bail!("{contradiction}");
    }
    let truth = match &options.output.truth {
        Some(directory) => {
            let writer = TruthWriter::create(directory, TruthSides::Both);
            Some(writer.with_context(|| format!("cannot write the truth into {}", directory.display()))?)
        }
        None => None,
    };
    let out = BufWriter::with_capacity(WRITE_BYTES, out);
    let file = CaptureFile::create(out, options.output.format, &options.output.link, options.capture.cut)
        .context("cannot write the capture")?;
    let mut composer = Composer::new(options, file, truth);
    composer.run().context("cannot write the capture")?;
    Ok(composer.composed)
}

/// One port on one client: the session that runs on it, or the time of the next.
#[derive(Debug)]
struct Lane {
    session: u32,
    conversation: Option<Box<Conversation>>,
}

struct Composer<W: Write> {
    options: Rc<ComposeOptions>,
    file: CaptureFile<W>,
    framers: Vec<Framer>,
    truth: Option<TruthWriter>,
    lanes: Vec<Lane>,
    /// Next packet, or next opening, of each lane.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Requests to be made before the capture begins.
    join_after: u64,
    composed: Composed,
}

impl<W: Write> Composer<W> {
    fn new(options: ComposeOptions, file: CaptureFile<W>, truth: Option<TruthWriter>) -> Self {
        let framer = |&link| {
            let vlans = options.output.vlan.clone();
            let here = side_of(options.capture.view);
            Framer::new(LinkLayer { link, vlans, vxlan: options.output.vxlan, here })
        };
        let framers = options.output.link.iter().map(framer).collect();
        let lanes = Lanes::of(&options);
        let due = (0..lanes.count()).map(|lane| Reverse((lanes.open_ns(lane), lane))).collect();
        let sleeping = (0..lanes.count()).map(|_| Lane { session: 0, conversation: None }).collect();
        let join_after = options.capture.join_at.map_or(0, |share| (options.workload.requests as f64 * share) as u64);
        let composed = Composed { packets: 0, bytes: 0, requests: 0, begins_ns: None };
        Self { options: Rc::new(options), file, framers, truth, lanes: sleeping, due, join_after, composed }
    }

    fn run(&mut self) -> io::Result<()> {
        while let Some(Reverse((time_ns, lane))) = self.due.pop() {
            let options = Rc::clone(&self.options);
            let Some(slot) = self.lanes.get_mut(lane as usize) else { continue };
            let session = slot.session;
            let mut conversation = match slot.conversation.take() {
                Some(mut conversation) => {
                    self.write_packet(lane, &mut conversation)?;
                    conversation
                }
                None => {
                    let plan = Lanes::of(&options).plan(lane, session, time_ns);
                    Box::new(Conversation::new(Rc::clone(&options), plan))
                }
            };
            let next_ns = conversation.next_packet_ns();
            self.write_truth(&mut conversation)?;
            self.composed.requests += std::mem::take(&mut conversation.issued);
            let Some(slot) = self.lanes.get_mut(lane as usize) else { continue };
            if let Some(next_ns) = next_ns {
                self.due.push(Reverse((next_ns, lane)));
                slot.conversation = Some(conversation);
            } else if session + 1 < Lanes::of(&options).sessions(lane) {
                slot.session += 1;
                self.due.push(Reverse((conversation.now + REOPEN_AFTER_NS, lane)));
            }
        }
        self.file.finish()?;
        if let Some(truth) = &mut self.truth {
            truth.flush()?;
        }
        (self.composed.packets, self.composed.bytes) = (self.file.packets, self.file.bytes);
        Ok(())
    }

    fn write_packet(&mut self, lane: u32, conversation: &mut Conversation) -> io::Result<()> {
        let Some(packet) = conversation.take_packet() else { return Ok(()) };
        if self.composed.requests < self.join_after {
            return Ok(());
        }
        self.composed.begins_ns.get_or_insert(packet.time_ns);
        let facts = &conversation.plan.facts;
        let flow = Flow {
            ends: (facts.client, facts.server),
            initial_seq: conversation.plan.initial_seq,
            payload_max: conversation.payload_max(),
        };
        let interface = lane as usize % self.framers.len().max(1);
        let Some(framer) = self.framers.get_mut(interface) else { return Ok(()) };
        let file = &mut self.file;
        framer.frame(&flow, &packet, &mut |head, body| file.packet(interface as u32, packet.time_ns, [head, body]))
    }

    fn write_truth(&mut self, conversation: &mut Conversation) -> io::Result<()> {
        let (asked, served) = (conversation.asked.drain(..), conversation.served.drain(..));
        let Some(truth) = &mut self.truth else { return Ok(()) };
        let facts = &conversation.plan.facts;
        for row in asked {
            truth.asked(facts, &row)?;
        }
        for row in served {
            truth.served(facts, &row)?;
        }
        Ok(())
    }
}
