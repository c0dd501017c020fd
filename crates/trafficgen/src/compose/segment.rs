//! The words of the simulated network: which end, and one segment on its way.

/// Which end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The compute.
    Client,
    /// The page service.
    Server,
}

impl Side {
    /// The other end.
    pub(super) const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// One value for each end.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Both<T> {
    /// The compute's.
    pub(super) client: T,
    /// The page service's.
    pub(super) server: T,
}

impl<T> Both<T> {
    /// That end's value.
    pub(super) const fn of(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// That end's value, to be changed.
    pub(super) const fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}

/// TCP flags (RFC 9293, section 3.1).
pub(super) mod flag {
    /// No more data from the sender.
    pub(in crate::compose) const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub(in crate::compose) const SYN: u8 = 0x02;
    /// Reset.
    pub(in crate::compose) const RST: u8 = 0x04;
    /// Push.
    pub(in crate::compose) const PSH: u8 = 0x08;
    /// The acknowledgement counts.
    pub(in crate::compose) const ACK: u8 = 0x10;
}

/// A range of stream offsets, the end not included. Offset 0 is the byte behind the SYN; a FIN takes the offset behind
/// the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// First offset.
    pub(super) start: u64,
    /// First offset behind it.
    pub(super) end: u64,
}

/// Shift of the window field (RFC 7323, section 2).
pub(super) const WINDOW_SCALE: u32 = 7;

/// Blocks of a SACK option beside timestamps: three fit into 40 bytes (RFC 2018).
pub(super) const SACK_BLOCKS: usize = 3;

/// A segment without its payload, in stream offsets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    /// Who sends it.
    pub(super) from: Side,
    /// What it carries; a FIN counts.
    pub(super) span: Span,
    /// The flags.
    pub(super) flags: u8,
    /// The next offset expected from the other end.
    pub(super) ack: u64,
    /// The window offered, in bytes.
    pub(super) window_bytes: u64,
    /// The sender's clock (RFC 7323).
    pub(super) ts_value: u32,
    /// What the sender last heard from the other end's clock.
    pub(super) ts_echo: u32,
    /// What was received out of order.
    pub(super) sacks: [Option<Span>; SACK_BLOCKS],
    /// IP identification.
    pub(super) ip_id: u16,
}

impl Header {
    /// Whether a flag is set.
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Bytes of payload.
    pub(super) const fn payload_len(&self) -> u64 {
        let sequence_len = self.span.end.saturating_sub(self.span.start);
        if self.has(flag::FIN) { sequence_len - 1 } else { sequence_len }
    }
}

/// A packet as the capture sees it.
#[derive(Debug)]
pub(super) struct TapPacket {
    /// When.
    pub(super) time_ns: u64,
    /// Its place among packets of the same time on this connection.
    pub(super) order: u64,
    /// The segment.
    pub(super) header: Header,
    /// Its payload.
    pub(super) payload: Vec<u8>,
    /// Whether it travels in IP fragments.
    pub(super) fragmented: bool,
}
