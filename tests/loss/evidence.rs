//! What a damaged capture cannot tell any more.
//!
//! A segment that crossed the wire twice is known as such by its first copy, or by an acknowledgement that was captured
//! between the two. Where a capture has lost both, the time of the second copy is all there is. And a segment that was
//! overtaken held up those before it, which shows by itself, or by the receiver's duplicate acknowledgements. Cases in
//! which all such evidence is gone are no fault of whoever reads the capture; they are counted apart.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use decode::Packet;
use decode::wire::{Segment, WireEnd};
use record::Timestamp;

use crate::rules::{Overtaken, Repeated};
use crate::tape::each_segment;

/// One data segment whose bytes came again later.
struct Again {
    from: SocketAddr,
    to: SocketAddr,
    first: (u64, u32),
    repeated: Repeated,
    end: u32,
}

/// One data segment that came after others which it should have preceded.
struct Late {
    from: SocketAddr,
    to: SocketAddr,
    mark: (u64, u32),
    overtaken: Overtaken,
}

/// So many segments back a repetition, or what overtook, is looked for: several windows of these captures.
const RECENT: usize = 512;

/// A data segment's first number, the number behind it, and its mark.
type Sent = (u32, u32, (u64, u32));

/// The retransmissions and the disorder of a whole capture.
pub(crate) struct Retransmissions {
    repeated: Vec<Again>,
    overtaken: Vec<Late>,
}

fn address(end: WireEnd) -> SocketAddr {
    SocketAddr::new(end.addr, end.port)
}

/// What tells one captured packet from all others of the capture well enough.
fn mark(packet: &Packet<'_>, segment: &Segment<'_>) -> (u64, u32) {
    (packet.time.0, segment.seq)
}

fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

impl Retransmissions {
    pub(crate) fn of(packets: &[Packet<'_>]) -> Self {
        let mut sent: HashMap<(SocketAddr, SocketAddr), Vec<Sent>> = HashMap::new();
        let (mut repeated, mut overtaken) = (Vec::new(), Vec::new());
        each_segment(packets, |at, segment| {
            if segment.payload_len == 0 {
                return;
            }
            let (from, to) = (address(segment.source), address(segment.destination));
            let (seq, end) = (segment.seq, segment.seq.wrapping_add(segment.payload_len));
            let earlier = sent.entry((from, to)).or_default();
            for &(other_seq, other_end, first) in earlier.iter().rev().take(RECENT) {
                if is_before(other_seq, end) && is_before(seq, other_end) {
                    repeated.push(Again { from, to, first, repeated: Repeated { seq: other_seq }, end: other_end });
                }
            }
            let mark = mark(&packets[at], segment);
            let by =
                earlier[earlier.len().saturating_sub(RECENT)..].iter().find(|(other, _, _)| is_before(seq, *other));
            if let Some(&(_, _, (since_ns, _))) = by {
                let (since, until) = (Timestamp(since_ns), packets[at].time);
                overtaken.push(Late { from, to, mark, overtaken: Overtaken { seq, since, until } });
            }
            earlier.push((seq, end, mark));
        });
        Self { repeated, overtaken }
    }

    /// The ends of connections of which `packets` have lost evidence.
    pub(crate) fn without_evidence(&self, packets: &[Packet<'_>]) -> HashSet<SocketAddr> {
        let mut marks = HashSet::new();
        each_segment(packets, |at, segment| {
            marks.insert(mark(&packets[at], segment));
        });
        let mut ends = self.unseen_repetitions(packets, &marks);
        ends.extend(self.unseen_disorder(packets, &marks));
        ends
    }

    /// Those where an overtaken segment is missing, and so is every acknowledgement that told of it.
    fn unseen_disorder(&self, packets: &[Packet<'_>], marks: &HashSet<(u64, u32)>) -> HashSet<SocketAddr> {
        let lost: Vec<&Late> = self.overtaken.iter().filter(|late| !marks.contains(&late.mark)).collect();
        let mut is_reported = vec![false; lost.len()];
        if lost.is_empty() {
            return HashSet::new();
        }
        each_segment(packets, |at, segment| {
            let (from, to, time) = (address(segment.source), address(segment.destination), packets[at].time);
            for (late, is_reported) in lost.iter().zip(&mut is_reported) {
                let is_answer = (late.from, late.to) == (to, from);
                *is_reported |= is_answer && late.overtaken.is_told_by(segment.ack, segment.sacks, time);
            }
        });
        let unreported = lost.iter().zip(is_reported).filter(|(_, is_reported)| !is_reported);
        unreported.flat_map(|(late, _)| [late.from, late.to]).collect()
    }

    /// Those where a later copy of a segment is there without its first one, and without an acknowledgement before that copy.
    fn unseen_repetitions(&self, packets: &[Packet<'_>], marks: &HashSet<(u64, u32)>) -> HashSet<SocketAddr> {
        let lost: Vec<&Again> = self.repeated.iter().filter(|again| !marks.contains(&again.first)).collect();
        let mut is_told = vec![false; lost.len()];
        let mut clients = HashSet::new();
        if lost.is_empty() {
            return clients;
        }
        each_segment(packets, |_, segment| {
            let (from, to) = (address(segment.source), address(segment.destination));
            for (again, is_told) in lost.iter().zip(&mut is_told) {
                if (again.from, again.to) == (to, from) && segment.flags.ack() {
                    *is_told |= again.repeated.is_told_by(segment.ack);
                }
                let end = segment.seq.wrapping_add(segment.payload_len);
                let overlaps =
                    segment.payload_len > 0 && is_before(again.repeated.seq, end) && is_before(segment.seq, again.end);
                if (again.from, again.to) == (from, to) && overlaps && !*is_told {
                    clients.extend([from, to]);
                }
            }
        });
        clients
    }
}
