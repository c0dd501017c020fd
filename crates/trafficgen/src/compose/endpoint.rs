//! One end of a simulated connection: both halves of TCP and what its host adds.

use super::receiver::Receiver;
use super::segment::{Header, Side, Span, flag};
use super::sender::Sender;
use crate::rng::Rng;

/// IP and TCP header with timestamps; IPv6 has 20 more.
const IPV4_HEADERS: u64 = 52;
const IPV6_HEADERS: u64 = 72;

/// The fixed facts of a connection's network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// Largest IP packet.
    pub(super) mtu: u64,
    /// Whether it is IPv6.
    pub(super) ipv6: bool,
    /// Window that each end offers at most.
    pub(super) receive_buffer: u64,
}

impl Path {
    /// Bytes of payload in a full segment.
    pub(super) const fn payload_max(&self) -> u64 {
        self.mtu - if self.ipv6 { IPV6_HEADERS } else { IPV4_HEADERS }
    }
}

/// One end.
#[derive(Debug)]
pub(super) struct Endpoint {
    /// What it sends.
    pub(super) sender: Sender,
    /// What it receives.
    pub(super) receiver: Receiver,
    /// Its clock of timestamps is the time in milliseconds plus this (RFC 7323, section 5.4).
    ts_offset: u32,
    /// TS.Recent.
    pub(super) ts_recent: u32,
    ip_id: u16,
    /// When its link is free again.
    pub(super) link_free_ns: u64,
    /// For when a timer event is scheduled.
    pub(super) timer_at: Option<u64>,
    /// Its application has closed the socket: data that still comes is answered by an RST.
    pub(super) left: bool,
    /// It has sent or received an RST: there is no connection any more.
    pub(super) gone: bool,
}

impl Endpoint {
    /// An end that has said nothing.
    pub(super) fn new(path: Path, rng: &mut Rng) -> Self {
        Self {
            // The window of a SYN is not scaled.
            sender: Sender::new(path.payload_max(), path.receive_buffer.min(0xFFFF)),
            receiver: Receiver::new(path.receive_buffer),
            ts_offset: rng.bits() as u32,
            ts_recent: 0,
            ip_id: rng.bits() as u16,
            link_free_ns: 0,
            timer_at: None,
            left: false,
            gone: false,
        }
    }

    /// The header of its next segment; what it says counts as acknowledged.
    pub(super) fn header(&mut self, from: Side, span: Span, flags: u8, now: u64) -> Header {
        let window_bytes = self.receiver.window_bytes();
        let sacks = self.receiver.acknowledge(window_bytes);
        let ts_value = ((now / 1_000_000) as u32).wrapping_add(self.ts_offset);
        let ip_id = self.ip_id;
        self.ip_id = ip_id.wrapping_add(1);
        let ack = if flags & flag::ACK == 0 { 0 } else { self.receiver.nxt() };
        Header { from, span, flags, ack, window_bytes, ts_value, ts_echo: self.ts_recent, sacks, ip_id }
    }

    /// When something is due without a packet.
    pub(super) fn deadline(&self) -> Option<u64> {
        match (self.sender.deadline(), self.receiver.deadline()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}
