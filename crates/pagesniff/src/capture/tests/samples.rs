//! Capture files, byte by byte.

use std::io::Write;

use super::super::bytes::ByteOrder;

pub(super) const MICROSECONDS: u32 = 0xa1b2_c3d4;
pub(super) const NANOSECONDS: u32 = 0xa1b2_3c4d;
pub(super) const MODIFIED: u32 = 0xa1b2_cd34;

pub(super) fn u16_in(order: ByteOrder, value: u16) -> [u8; 2] {
    if order == ByteOrder::Little { value.to_le_bytes() } else { value.to_be_bytes() }
}

pub(super) fn u32_in(order: ByteOrder, value: u32) -> [u8; 4] {
    if order == ByteOrder::Little { value.to_le_bytes() } else { value.to_be_bytes() }
}

/// A pcap file that grows.
pub(super) struct PcapFile {
    pub(super) order: ByteOrder,
    pub(super) bytes: Vec<u8>,
    magic: u32,
}

impl PcapFile {
    pub(super) fn new(order: ByteOrder, magic: u32, network: u32) -> Self {
        Self::with_version(order, magic, (2, 4), network)
    }

    pub(super) fn with_version(order: ByteOrder, magic: u32, version: (u16, u16), network: u32) -> Self {
        let mut bytes = u32_in(order, magic).to_vec();
        bytes.extend(u16_in(order, version.0));
        bytes.extend(u16_in(order, version.1));
        for word in [0, 0, 96, network] {
            bytes.extend(u32_in(order, word));
        }
        Self { order, bytes, magic }
    }

    /// The header fields as they stand, then `data`.
    pub(super) fn raw(mut self, fields: [u32; 4], data: &[u8]) -> Self {
        for field in fields {
            self.bytes.extend(u32_in(self.order, field));
        }
        if self.magic == MODIFIED {
            self.bytes.extend([1, 0, 0, 0, 8, 0, 0, 0]);
        }
        self.bytes.extend(data);
        self
    }

    pub(super) fn packet(self, seconds: u32, fraction: u32, data: &[u8]) -> Self {
        let length = data.len() as u32;
        self.raw([seconds, fraction, length, length], data)
    }
}

/// A little-endian Ethernet capture of packets at these seconds, each with its number and `tag` in it.
pub(super) fn pcap_at(seconds: &[u32], tag: u8) -> Vec<u8> {
    let file = PcapFile::new(ByteOrder::Little, MICROSECONDS, 1);
    let fill = |file: PcapFile, (number, second): (usize, &u32)| file.packet(*second, 0, &[tag, number as u8, 7]);
    seconds.iter().enumerate().fold(file, fill).bytes
}

/// A pcapng block around `body`, which is padded.
pub(super) fn block(order: ByteOrder, kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = u32_in(order, body.len() as u32 + 12);
    [&u32_in(order, kind)[..], &length, &body, &length].concat()
}

pub(super) fn section(order: ByteOrder) -> Vec<u8> {
    let magic = u32_in(order, 0x1a2b_3c4d);
    block(order, 0x0a0d_0d0a, &[&magic[..], &u16_in(order, 1), &u16_in(order, 0), &[0xff; 8]].concat())
}

/// An interface description with these options.
pub(super) fn interface(order: ByteOrder, link: u16, options: &[u8]) -> Vec<u8> {
    block(order, 1, &[&u16_in(order, link)[..], &[0, 0], &u32_in(order, 0), options].concat())
}

/// The option that says that ticks are 10 to the minus `exponent`.
pub(super) fn resolution(order: ByteOrder, exponent: u8) -> Vec<u8> {
    [&u16_in(order, 9)[..], &u16_in(order, 1), &[exponent, 0, 0, 0, 0, 0, 0, 0]].concat()
}

/// An enhanced packet.
pub(super) fn enhanced(order: ByteOrder, interface: u32, ticks: u64, data: &[u8]) -> Vec<u8> {
    let length = u32_in(order, data.len() as u32);
    let high = u32_in(order, (ticks >> 32) as u32);
    block(
        order,
        6,
        &[&u32_in(order, interface)[..], &high, &u32_in(order, ticks as u32), &length, &length, data].concat(),
    )
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 0).unwrap()
}
