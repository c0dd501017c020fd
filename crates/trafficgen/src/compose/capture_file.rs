//! Capture files: pcap in both byte orders and resolutions (draft-ietf-opsawg-pcap), and pcapng (draft-ietf-opsawg-pcapng).

use std::io::{self, Write};

use super::link::LinkLayer;
use super::options::{Format, Link};

/// What is written where nothing is cut: libpcap's largest snap length.
const SNAP_LENGTH: u32 = 262_144;

/// Magic numbers of pcap: microseconds and nanoseconds.
const MAGIC_US: u32 = 0xa1b2_c3d4;
const MAGIC_NS: u32 = 0xa1b2_3c4d;

/// Block types of pcapng.
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// pcapng's byte-order magic.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Writes one capture file.
#[derive(Debug)]
pub(super) struct CaptureFile<W> {
    out: W,
    format: Format,
    snap_length: u32,
    /// Packets written.
    pub(super) packets: u64,
    /// Bytes written, the file's own included.
    pub(super) bytes: u64,
}

impl<W: Write> CaptureFile<W> {
    /// Begins a file with one interface for each link layer; pcap has the first one only.
    pub(super) fn create(out: W, format: Format, links: &[Link], cut: Option<u32>) -> io::Result<Self> {
        let snap_length = cut.unwrap_or(SNAP_LENGTH);
        let mut file = Self { out, format, snap_length, packets: 0, bytes: 0 };
        match format {
            Format::Pcapng => file.begin_pcapng(links)?,
            _ => file.begin_pcap(links.first().copied().unwrap_or(Link::Ethernet))?,
        }
        Ok(file)
    }

    fn begin_pcap(&mut self, link: Link) -> io::Result<()> {
        let magic = if self.format == Format::PcapUs { MAGIC_US } else { MAGIC_NS };
        let mut header = Vec::new();
        self.put(magic, &mut header);
        // Version 2.4.
        if self.format == Format::PcapBe {
            header.extend_from_slice(&[0, 2, 0, 4]);
        } else {
            header.extend_from_slice(&[2, 0, 4, 0]);
        }
        for word in [0, 0, self.snap_length, LinkLayer::number(link)] {
            self.put(word, &mut header);
        }
        self.write(&header)
    }

    fn begin_pcapng(&mut self, links: &[Link]) -> io::Result<()> {
        let mut body = Vec::new();
        self.put(BYTE_ORDER_MAGIC, &mut body);
        // Version 1.0, and a section of unknown length.
        body.extend_from_slice(&[1, 0, 0, 0]);
        body.extend_from_slice(&[0xff; 8]);
        self.block(SECTION_HEADER, &body)?;
        for &link in links {
            let mut body = Vec::new();
            self.put(LinkLayer::number(link), &mut body);
            self.put(self.snap_length, &mut body);
            // if_tsresol 9: nanoseconds. Then the end of the options.
            body.extend_from_slice(&[9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
            self.block(INTERFACE_DESCRIPTION, &body)?;
        }
        Ok(())
    }

    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = 12 + body.len() as u32;
        self.write(&kind.to_le_bytes())?;
        self.write(&length.to_le_bytes())?;
        self.write(body)?;
        self.write(&length.to_le_bytes())
    }

    /// Writes one packet that is given in two parts.
    pub(super) fn packet(&mut self, interface: u32, time_ns: u64, parts: [&[u8]; 2]) -> io::Result<()> {
        let [head, body] = parts;
        let wire_len = (head.len() + body.len()) as u32;
        let captured = wire_len.min(self.snap_length) as usize;
        let head = head.get(..captured).unwrap_or(head);
        let body = body.get(..captured - head.len()).unwrap_or_default();
        self.packets += 1;
        let mut header = Vec::with_capacity(28);
        if self.format == Format::Pcapng {
            let padding = captured.next_multiple_of(4) - captured;
            let length = (32 + captured + padding) as u32;
            let (high, low) = ((time_ns >> 32) as u32, time_ns as u32);
            for word in [ENHANCED_PACKET, length, interface, high, low, captured as u32, wire_len] {
                self.put(word, &mut header);
            }
            self.write_all([&header, head, body])?;
            self.write([0; 3].get(..padding).unwrap_or_default())?;
            return self.write(&length.to_le_bytes());
        }
        let (seconds, ns) = (time_ns / 1_000_000_000, (time_ns % 1_000_000_000) as u32);
        let fraction = if self.format == Format::PcapUs { ns / 1000 } else { ns };
        for word in [seconds as u32, fraction, captured as u32, wire_len] {
            self.put(word, &mut header);
        }
        self.write_all([&header, head, body])
    }

    fn put(&self, word: u32, bytes: &mut Vec<u8>) {
        let word = if self.format == Format::PcapBe { word.to_be_bytes() } else { word.to_le_bytes() };
        bytes.extend_from_slice(&word);
    }

    fn write_all(&mut self, parts: [&[u8]; 3]) -> io::Result<()> {
        parts.into_iter().try_for_each(|part| self.write(part))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Hands everything to the system.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
