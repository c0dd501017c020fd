//! The block-structured capture file: sections, each in its own byte order, interfaces, each with its own link type.
//!
//! By <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>; the section numbers below are its.

use super::bytes::ByteOrder;
use super::interface::Interface;
use super::packet::{Found, Stop};
use super::pcap::PACKET_LIMIT_BYTES;
use super::window::Window;
use super::{SourceStats, link_names};

/// Block types (section 10.1).
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// What tells the byte order, at byte 8 of a section header (section 4.1).
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Type and length at a block's start, and its length once more at its end.
const BLOCK_OVERHEAD_BYTES: u32 = 12;

/// A block that is looked at is held whole: the largest packet with more options than any program writes.
const BLOCK_LIMIT_BYTES: u32 = PACKET_LIMIT_BYTES + (1 << 20);

/// An Obsolete Packet Block can name so many; hostile files shall not make us remember more.
const INTERFACE_LIMIT: usize = 1 << 16;

/// Where the data begins in an Enhanced, and in an Obsolete Packet Block.
const PACKET_DATA_AT: usize = 28;

/// How many different unsupported link types are remembered for the note about them.
const UNSUPPORTED_LIMIT: usize = 8;

/// The state of reading one file.
#[derive(Debug)]
pub(super) struct Pcapng {
    order: ByteOrder,
    /// Those of the current section, by their number.
    interfaces: Vec<Interface>,
    /// Whether any section had an interface that can be read.
    readable_interface: bool,
    /// Link types met that cannot be read.
    unsupported: Vec<u16>,
    /// What earlier sections counted, and what is not counted by interface.
    counted: SourceStats,
}

/// The fields of a block that holds a packet.
struct PacketFields {
    interface: u32,
    dropped: u64,
    ticks: u64,
    captured: u32,
    original: u32,
}

impl Pcapng {
    /// Whether a file that begins with `start` is one.
    pub(super) fn recognise(start: &[u8]) -> bool {
        // A palindrome: the same in both byte orders.
        ByteOrder::Little.u32(start, 0) == Some(SECTION_HEADER)
    }

    /// Reads the first section's header.
    ///
    /// # Errors
    ///
    /// The file's end, in all its forms.
    pub(super) fn open(window: &mut Window) -> Result<Self, Stop> {
        let mut file = Self {
            order: ByteOrder::Little,
            interfaces: Vec::new(),
            readable_interface: false,
            unsupported: Vec::new(),
            counted: SourceStats::default(),
        };
        file.open_section(window)?;
        Ok(file)
    }

    /// The next packet of an interface that can be read.
    ///
    /// # Errors
    ///
    /// The file's end, in all its forms.
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Found, Stop> {
        loop {
            let whole = window.need(BLOCK_OVERHEAD_BYTES as usize)?;
            let ahead = window.ahead();
            let (Some(kind), Some(length), true) = (self.order.u32(ahead, 0), self.order.u32(ahead, 4), whole) else {
                return Err(if ahead.is_empty() { Stop::End } else { cut(window) });
            };
            if kind == SECTION_HEADER {
                // Its length is in the byte order that it only now announces.
                self.open_section(window)?;
                continue;
            }
            check_length(window, length)?;
            match kind {
                ENHANCED_PACKET | OBSOLETE_PACKET => {
                    if let Some(found) = self.packet(window, kind, length)? {
                        return Ok(found);
                    }
                }
                INTERFACE_DESCRIPTION => self.describe_interface(window, length)?,
                INTERFACE_STATISTICS => self.interface_statistics(window, length)?,
                SIMPLE_PACKET => {
                    self.pass_over(window, length)?;
                    self.counted.untimed = self.counted.untimed.saturating_add(1);
                }
                _ => self.pass_over(window, length)?,
            }
        }
    }

    /// What has been counted up to now.
    pub(super) fn statistics(&self) -> SourceStats {
        let mut stats = self.counted;
        for interface in &self.interfaces {
            stats.interface_dropped = stats.interface_dropped.saturating_add(interface.interface_dropped());
            stats.kernel_dropped = stats.kernel_dropped.saturating_add(interface.kernel_dropped());
        }
        stats
    }

    /// At the file's end: the link type to complain about, where no interface of the file could be read.
    pub(super) fn unreadable(&self) -> Option<u32> {
        self.unsupported.first().filter(|_| !self.readable_interface).map(|&number| u32::from(number))
    }

    /// The link types that were passed over, named.
    pub(super) fn unsupported_names(&self) -> String {
        let names: Vec<String> = self.unsupported.iter().map(|&number| link_names::describe(number.into())).collect();
        names.join(", ")
    }

    /// A Section Header Block (section 4.1): from here on, another byte order and no interfaces.
    fn open_section(&mut self, window: &mut Window) -> Result<(), Stop> {
        if !window.need(16)? {
            return Err(cut(window));
        }
        let ahead = window.ahead();
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| order.u32(ahead, 8) == Some(BYTE_ORDER_MAGIC))
            .ok_or_else(|| damaged(window, "a section whose byte order mark is wrong"))?;
        let (length, major, minor) = (order.u32(ahead, 4), order.u16(ahead, 12), order.u16(ahead, 14));
        let (Some(length), Some(major), Some(minor)) = (length, major, minor) else { return Err(cut(window)) };
        check_length(window, length)?;
        if major != 1 {
            return Err(Stop::Version { format: "pcapng", major, minor });
        }
        self.counted = self.statistics();
        self.interfaces.clear();
        self.order = order;
        self.pass_over(window, length)
    }

    /// An Interface Description Block (section 4.2).
    fn describe_interface(&mut self, window: &mut Window, length: u32) -> Result<(), Stop> {
        self.need_block(window, length)?;
        let interface = Interface::parse(block_body(window, length), self.order)
            .ok_or_else(|| damaged(window, "an interface description that is too short"))?;
        if self.interfaces.len() >= INTERFACE_LIMIT {
            return Err(damaged(window, "more than 65536 interfaces"));
        }
        match interface.link {
            Some(_) => self.readable_interface = true,
            None if self.unsupported.len() < UNSUPPORTED_LIMIT
                && !self.unsupported.contains(&interface.link_number) =>
            {
                self.unsupported.push(interface.link_number);
            }
            None => {}
        }
        self.interfaces.push(interface);
        window.take(length as usize);
        Ok(())
    }

    /// An Interface Statistics Block (section 4.6). One for an interface that does not exist says nothing.
    fn interface_statistics(&mut self, window: &mut Window, length: u32) -> Result<(), Stop> {
        self.need_block(window, length)?;
        let body = block_body(window, length);
        let index = self.order.u32(body, 0).and_then(|number| usize::try_from(number).ok());
        if let (Some(interface), Some(options)) =
            (index.and_then(|index| self.interfaces.get_mut(index)), body.get(12..))
        {
            interface.take_statistics(options, self.order);
        }
        window.take(length as usize);
        Ok(())
    }

    /// An Enhanced (section 4.3) or Obsolete Packet Block (appendix A); `None` where its interface cannot be read.
    #[inline]
    fn packet(&mut self, window: &mut Window, kind: u32, length: u32) -> Result<Option<Found>, Stop> {
        self.need_block(window, length)?;
        let block = window.ahead().get(..(length.saturating_sub(4)) as usize).unwrap_or_default();
        let Some(fields) = PacketFields::parse(block, kind, self.order) else {
            return Err(damaged(window, "a packet block that is too short"));
        };
        let captured = fields.captured as usize;
        let Some(behind) = block.get(PACKET_DATA_AT..).and_then(|data| data.get(captured..)) else {
            return Err(damaged(window, "a packet that is larger than its block"));
        };
        let known = self.interfaces.len();
        let interface = usize::try_from(fields.interface).ok().and_then(|index| self.interfaces.get_mut(index));
        let Some(interface) = interface else {
            return Err(damaged(window, &format!("a packet of interface {}, of {known}", fields.interface)));
        };
        if fields.dropped > 0 {
            interface.add_dropped(fields.dropped);
        }
        let padding = captured.wrapping_neg() & 3;
        if let Some(options) = behind.get(padding..).filter(|options| kind == ENHANCED_PACKET && !options.is_empty()) {
            interface.take_packet_options(options, self.order);
        }
        let (time, in_range) = interface.time(fields.ticks);
        let start = window_start(window, length);
        let Some(link) = interface.link else {
            self.counted.unsupported_link = self.counted.unsupported_link.saturating_add(1);
            return Ok(None);
        };
        if !in_range {
            self.counted.odd_timestamps = self.counted.odd_timestamps.saturating_add(1);
        }
        let data_start = start.saturating_add(PACKET_DATA_AT);
        let data = data_start..data_start.saturating_add(captured);
        Ok(Some(Found { time, link, wire_len: fields.original.max(fields.captured), data }))
    }

    /// Brings a whole block into the window and checks the length at its end.
    #[inline]
    fn need_block(&self, window: &mut Window, length: u32) -> Result<(), Stop> {
        if length > BLOCK_LIMIT_BYTES {
            return Err(damaged(window, &format!("a block of {length} bytes")));
        }
        if !window.need(length as usize)? {
            return Err(cut(window));
        }
        let closing = self.order.u32(window.ahead(), length.saturating_sub(4) as usize);
        if closing == Some(length) { Ok(()) } else { Err(contradiction(window)) }
    }

    /// Passes over a block of any size without holding it.
    fn pass_over(&self, window: &mut Window, length: u32) -> Result<(), Stop> {
        let offset = window.offset();
        let to_closing = u64::from(length.saturating_sub(4));
        let whole = window.skip(to_closing)? && window.need(4)?;
        if !whole {
            let left_bytes = window.offset().saturating_sub(offset).saturating_add(window.ahead().len() as u64);
            return Err(Stop::Cut { offset, left_bytes });
        }
        if self.order.u32(window.ahead(), 0) != Some(length) {
            return Err(Stop::Damaged { offset, what: LENGTHS_DIFFER.to_owned() });
        }
        window.take(4);
        Ok(())
    }
}

impl PacketFields {
    #[inline]
    fn parse(block: &[u8], kind: u32, order: ByteOrder) -> Option<Self> {
        let fields: &[u8; PACKET_DATA_AT] = block.first_chunk()?;
        let (interface, dropped) = if kind == ENHANCED_PACKET {
            (order.u32(fields, 8)?, 0)
        } else {
            // All ones: the writer did not know.
            let dropped = order.u16(fields, 10).filter(|&count| count != u16::MAX);
            (u32::from(order.u16(fields, 8)?), u64::from(dropped.unwrap_or(0)))
        };
        let (high, low) = (order.u32(fields, 12)?, order.u32(fields, 16)?);
        let captured = order.u32(fields, 20)?;
        let original = order.u32(fields, 24)?;
        Some(Self { interface, dropped, ticks: (u64::from(high) << 32) | u64::from(low), captured, original })
    }
}

const LENGTHS_DIFFER: &str = "a block whose two lengths differ";

/// What lies between a block's lengths, of a block that is in the window.
fn block_body(window: &Window, length: u32) -> &[u8] {
    window.ahead().get(8..length.saturating_sub(4) as usize).unwrap_or_default()
}

/// Takes a block and gives its place in the window's storage.
#[inline]
fn window_start(window: &mut Window, length: u32) -> usize {
    window.take(length as usize).start
}

/// A length that no block can have.
#[inline]
fn check_length(window: &Window, length: u32) -> Result<(), Stop> {
    if length < BLOCK_OVERHEAD_BYTES || !length.is_multiple_of(4) {
        return Err(damaged(window, &format!("a block of {length} bytes")));
    }
    Ok(())
}

#[cold]
fn contradiction(window: &Window) -> Stop {
    damaged(window, LENGTHS_DIFFER)
}

#[cold]
fn damaged(window: &Window, what: &str) -> Stop {
    Stop::Damaged { offset: window.offset(), what: what.to_owned() }
}

#[cold]
fn cut(window: &Window) -> Stop {
    Stop::Cut { offset: window.offset(), left_bytes: window.ahead().len() as u64 }
}
