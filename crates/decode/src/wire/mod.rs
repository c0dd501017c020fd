//! From a captured packet to a TCP segment: link, IP and TCP headers, without copying.
//!
//! Wrong checksums are ignored (offloading NICs leave them unset), lengths are taken from the IP header but never
//! believed beyond what the packet had on the wire, and what cannot be read is counted by reason.
//!
//! ```text
//! ordinary:  link::common_network → ip::header ──────────────────────────→ tcp::segment
//! unusual:   link::network → ip::datagram → tunnel::innermost ─┬─────────→ tcp::segment
//!                                               fragment::accept ┘ (and tunnel::innermost once more)
//! ```
//!
//! The upper line is where nearly every packet goes, and it touches nothing but the headers; the lower one knows
//! everything, and counts. A mirror that cuts the frames which it wraps leaves segments that are shorter than they
//! were: a gap in the stream, as if lost.

mod fragment;
mod ip;
mod link;
mod span;
mod tcp;
mod tunnel;

use std::net::IpAddr;

use crate::packet::Packet;
use crate::stats::WireStats;

use fragment::Reassembler;
use ip::{Datagram, protocol};
use span::Span;

/// One end of a TCP connection as it stands in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WireEnd {
    /// IPv4 or IPv6 address.
    pub addr: IpAddr,
    /// TCP port.
    pub port: u16,
}

/// The TCP flags that matter here (RFC 9293, section 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// FIN: no more data from the sender.
    pub const FIN: u8 = 0x01;
    /// SYN: synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// RST: reset the connection.
    pub const RST: u8 = 0x04;
    /// PSH: push function.
    pub const PSH: u8 = 0x08;
    /// ACK: the acknowledgement field is significant.
    pub const ACK: u8 = 0x10;

    /// Whether FIN is set.
    pub const fn fin(self) -> bool {
        self.0 & Self::FIN != 0
    }
    /// Whether SYN is set.
    pub const fn syn(self) -> bool {
        self.0 & Self::SYN != 0
    }
    /// Whether RST is set.
    pub const fn rst(self) -> bool {
        self.0 & Self::RST != 0
    }
    /// Whether ACK is set.
    pub const fn ack(self) -> bool {
        self.0 & Self::ACK != 0
    }
}

/// The timestamps option (RFC 7323).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpTimestamps {
    /// `TSval`: the sender's clock.
    pub value: u32,
    /// `TSecr`: what the sender last heard from the other end.
    pub echo: u32,
}

/// One TCP segment.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// Who sent it.
    pub source: WireEnd,
    /// Who is to get it.
    pub destination: WireEnd,
    /// SEG.SEQ.
    pub seq: u32,
    /// SEG.ACK; significant with the ACK flag only.
    pub ack: u32,
    /// The flags.
    pub flags: TcpFlags,
    /// SEG.WND, unscaled.
    pub window: u16,
    /// The timestamps option, where there is one.
    pub timestamps: Option<TcpTimestamps>,
    /// Whether a SACK option with at least one block is there (RFC 2018): the sender has a hole in what it received.
    pub sacks: bool,
    /// IPv4 identification, or 0; with the rest of the header it tells a mirrored copy from a retransmission.
    pub ip_id: u16,
    /// The payload bytes that were captured.
    pub payload: &'a [u8],
    /// How many payload bytes the segment had on the wire: at least `payload.len()`, more where the snap length cut it.
    pub payload_len: u32,
}

/// Why a packet yields no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skip {
    NotIp,
    NotTcp,
    TruncatedHeader,
    Malformed,
}

/// Reads packets. Its only state are the IP fragments that wait for the rest of their datagram.
#[derive(Debug)]
pub struct Wire {
    fragments: Reassembler,
}

impl Wire {
    /// A reader that keeps at most `max_fragment_bytes` of IP fragments, and a few KiB to account for them.
    pub fn new(max_fragment_bytes: usize) -> Self {
        Self { fragments: Reassembler::new(max_fragment_bytes) }
    }

    /// The TCP segment in `packet`, or the one that it completes. What yields none is counted in `stats`.
    ///
    /// The payload lies in the packet itself, unless it had to be put together from fragments.
    #[inline]
    pub fn parse<'a>(&'a mut self, packet: &Packet<'a>, stats: &mut WireStats) -> Option<Segment<'a>> {
        // The slow path begins anew: what the fast one has read so far would have to go through memory to be handed
        // over, which costs the fast path half of its time.
        if let Some(segment) = ordinary(packet) {
            return Some(segment);
        }
        self.unusual(packet, stats)
    }

    /// The capture is over: the fragments that still wait are given up.
    pub fn finish(&mut self, stats: &mut WireStats) {
        self.fragments.finish(stats);
    }

    /// Steps over tags and extension headers, unwraps tunnels, puts fragments together, and counts what yields nothing.
    #[cold]
    fn unusual<'a>(&'a mut self, packet: &Packet<'a>, stats: &mut WireStats) -> Option<Segment<'a>> {
        let found = match self.innermost(packet, stats) {
            Ok(innermost) => tcp::segment(&innermost?),
            Err(skip) => Err(skip),
        };
        found.map_err(|skip| skip.count_in(stats)).ok()
    }

    /// The datagram that TCP begins in, or `None` where the packet has been counted as a fragment, and that is all.
    fn innermost<'a>(&'a mut self, packet: &Packet<'a>, stats: &mut WireStats) -> Result<Option<Datagram<'a>>, Skip> {
        let (version, rest) = link::network(packet.link, captured(packet))?;
        let outermost = ip::datagram(version, rest)?;
        let piece = tunnel::innermost(outermost, stats)?;
        let Some(fragment) = piece.fragment else { return Ok(Some(piece)) };
        if !tunnel::may_hold_tcp(&piece) {
            return Err(Skip::NotTcp);
        }
        let Some(whole) = self.fragments.accept(&piece, fragment, packet.time, stats)? else { return Ok(None) };
        let inner = tunnel::innermost(ip::past_extensions(whole)?, stats)?;
        if inner.fragment.is_some() {
            // A fragment of a datagram that came in fragments: nobody builds such a network, and one buffer serves.
            count(&mut stats.fragments, 1);
            count(&mut stats.fragments_dropped, 1);
            return Ok(None);
        }
        Ok(Some(inner))
    }
}

/// A segment right behind common link and IP headers; `None` for whatever else.
///
/// It is inlined, as is all that it calls: fields that stay in registers are what makes it fast.
#[inline(always)]
fn ordinary<'a>(packet: &Packet<'a>) -> Option<Segment<'a>> {
    let (version, rest) = link::common_network(packet.link, captured(packet))?;
    let datagram = ip::header(version, rest).ok()?;
    if datagram.protocol != protocol::TCP || datagram.fragment.is_some() {
        return None;
    }
    tcp::segment(&datagram).ok()
}

#[inline]
fn captured<'a>(packet: &Packet<'a>) -> Span<'a> {
    Span::new(packet.data, usize::try_from(packet.wire_len).unwrap_or(usize::MAX))
}

impl Skip {
    #[cold]
    fn count_in(self, stats: &mut WireStats) {
        let counter = match self {
            Self::NotIp => &mut stats.not_ip,
            Self::NotTcp => &mut stats.not_tcp,
            Self::TruncatedHeader => &mut stats.truncated_header,
            Self::Malformed => &mut stats.malformed,
        };
        count(counter, 1);
    }
}

/// Counters stop at their end; they never get there.
fn count(counter: &mut u64, by: u64) {
    *counter = counter.saturating_add(by);
}

#[cfg(test)]
mod compose;
#[cfg(test)]
mod tests;
