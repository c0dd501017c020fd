//! The classic capture file: a header of 24 bytes, then packets behind headers of 16.
//!
//! By <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html>; where files in the wild differ from it, as libpcap
//! (`sf-pcap.c`) reads them.

use decode::LinkType;
use record::Timestamp;

use super::bytes::ByteOrder;
use super::packet::{Found, Stop};
use super::window::Window;

/// No link delivers more at once: BIG TCP ends at 512 KiB, a jumbogram's practical use far below this. A length beyond it
/// comes from damage, and must not make us take that much memory.
pub(super) const PACKET_LIMIT_BYTES: u32 = 64 << 20;

/// The file's header.
const HEADER_BYTES: usize = 24;

/// The highest known version is 2.4, unchanged since 1998; what differs in the first half is another format.
const VERSION_MAJOR: u16 = 2;

/// The three magic numbers, as the writer's machine stores them.
const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetzov's dialect (old Red Hat): packet headers with 8 more bytes, for the interface and the protocol.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// Which of a packet's two lengths comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lengths {
    /// Captured, then original: the format.
    Regular,
    /// Original, then captured: versions before 2.3.
    Swapped,
    /// Version 2.3 was written both ways; the captured length cannot be the larger one.
    Smaller,
}

/// How to read the packets of one file.
#[derive(Debug)]
pub(super) struct Pcap {
    order: ByteOrder,
    record_header_bytes: usize,
    ns_per_fraction: u64,
    lengths: Lengths,
    link: LinkType,
    /// Packets whose fraction of a second is a second or more.
    pub(super) odd_timestamps: u64,
}

/// A packet's header: seconds, fraction, captured and original length.
struct RecordHeader {
    seconds: u32,
    fraction: u32,
    captured: u32,
    original: u32,
}

impl Pcap {
    /// Whether a file that begins with `start` is one, and in which byte order.
    pub(super) fn recognise(start: &[u8]) -> Option<(ByteOrder, u32)> {
        [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let magic = order.u32(start, 0)?;
            matches!(magic, MAGIC_MICROSECONDS | MAGIC_NANOSECONDS | MAGIC_MODIFIED).then_some((order, magic))
        })
    }

    /// Reads the file's header; `order` and `magic` are what [`Pcap::recognise`] found.
    ///
    /// # Errors
    ///
    /// [`Stop::Cut`], [`Stop::Version`], [`Stop::LinkType`], [`Stop::Failed`].
    pub(super) fn open(window: &mut Window, order: ByteOrder, magic: u32) -> Result<Self, Stop> {
        let whole = window.need(HEADER_BYTES)?;
        let header = window.ahead();
        let (Some(major), Some(minor), Some(network), true) =
            (order.u16(header, 4), order.u16(header, 6), order.u32(header, 20), whole)
        else {
            return Err(Stop::Cut { offset: 0, left_bytes: header.len() as u64 });
        };
        if major != VERSION_MAJOR {
            return Err(Stop::Version { format: "pcap", major, minor });
        }
        // The upper half says whether and how long a checksum ends each frame. The IP header's length tells it apart.
        let number = network & 0xffff;
        let Some(link) = LinkType::from_number(number) else { return Err(Stop::LinkType { number }) };
        let lengths = match minor {
            0..=2 => Lengths::Swapped,
            3 => Lengths::Smaller,
            _ => Lengths::Regular,
        };
        window.take(HEADER_BYTES);
        Ok(Self {
            order,
            record_header_bytes: if magic == MAGIC_MODIFIED { 24 } else { 16 },
            ns_per_fraction: if magic == MAGIC_NANOSECONDS { 1 } else { 1_000 },
            lengths,
            link,
            odd_timestamps: 0,
        })
    }

    /// The next packet.
    ///
    /// # Errors
    ///
    /// The file's end, in all its forms.
    #[inline]
    pub(super) fn next(&mut self, window: &mut Window) -> Result<Found, Stop> {
        let header = match self.record_header(window.ahead()) {
            Some(header) => header,
            None => self.next_header(window)?,
        };
        if !header.is_possible() {
            return Err(Stop::Damaged { offset: window.offset(), what: header.damage() });
        }
        let captured = header.captured as usize;
        if !window.need(self.record_header_bytes.saturating_add(captured))? {
            return Err(Stop::Cut { offset: window.offset(), left_bytes: window.ahead().len() as u64 });
        }
        Ok(Found {
            time: self.time(&header),
            link: self.link,
            wire_len: header.original.max(header.captured),
            data: window.take_behind(self.record_header_bytes, captured),
        })
    }

    /// The next packet's header, of which not all is in the window.
    #[cold]
    fn next_header(&self, window: &mut Window) -> Result<RecordHeader, Stop> {
        let whole = window.need(self.record_header_bytes)?;
        self.record_header(window.ahead()).filter(|_| whole).ok_or_else(|| {
            let left_bytes = window.ahead().len() as u64;
            if left_bytes == 0 { Stop::End } else { Stop::Cut { offset: window.offset(), left_bytes } }
        })
    }

    #[inline]
    fn record_header(&self, bytes: &[u8]) -> Option<RecordHeader> {
        let [seconds, fraction, first, second] = self.order.four_u32(bytes.first_chunk()?);
        let (captured, original) = match self.lengths {
            Lengths::Regular => (first, second),
            Lengths::Swapped => (second, first),
            Lengths::Smaller => (first.min(second), first.max(second)),
        };
        Some(RecordHeader { seconds, fraction, captured, original })
    }

    /// A fraction of more than a second is carried over; seconds and fraction of 32 bits each cannot overflow.
    #[inline]
    fn time(&mut self, header: &RecordHeader) -> Timestamp {
        let fraction_ns = u64::from(header.fraction).saturating_mul(self.ns_per_fraction);
        if fraction_ns >= 1_000_000_000 {
            self.odd_timestamps = self.odd_timestamps.saturating_add(1);
        }
        Timestamp(u64::from(header.seconds).saturating_mul(1_000_000_000).saturating_add(fraction_ns))
    }
}

impl RecordHeader {
    /// Whether a packet can be so.
    #[inline]
    fn is_possible(&self) -> bool {
        // A machine that went down leaves zeros where data was not written yet; as packets they would put the clock back to 1970.
        let zeros = self.original == 0 && self.captured == 0 && self.seconds == 0 && self.fraction == 0;
        self.captured <= PACKET_LIMIT_BYTES && !zeros
    }

    /// What stands here instead of a packet.
    #[cold]
    fn damage(&self) -> String {
        match self.captured {
            0..=PACKET_LIMIT_BYTES => "zeros where a packet should begin".to_owned(),
            captured => format!("a packet of {captured} bytes"),
        }
    }
}
