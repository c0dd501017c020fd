//! From a segment to the bytes of its packet: TCP, IP with or without fragments, and the link layer of the capture.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::checksum::Checksum;
use super::link::LinkLayer;
use super::segment::{Both, Header, Side, Span, TapPacket, WINDOW_SCALE, flag};

/// TCP's number in IP headers.
const TCP: u8 = 6;

/// What Linux starts with.
const HOPS: u8 = 64;

/// Payload of an IP fragment: a multiple of 8, and small enough that a page's segment takes several.
const FRAGMENT_PAYLOAD: usize = 560;

/// Header of an IPv6 fragment (RFC 8200, section 4.5).
const IPV6_FRAGMENT: u8 = 44;

/// The names of both ends on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// Address and port.
    pub(super) ends: (SocketAddr, SocketAddr),
    /// Initial sequence numbers.
    pub(super) initial_seq: Both<u32>,
    /// Bytes of payload in a full segment, as SYNs tell it.
    pub(super) payload_max: u64,
}

impl Flow {
    const fn of(&self, side: Side) -> SocketAddr {
        match side {
            Side::Client => self.ends.0,
            Side::Server => self.ends.1,
        }
    }
}

/// Builds packets, reusing its buffers.
#[derive(Debug)]
pub(super) struct Framer {
    link: LinkLayer,
    tcp: Vec<u8>,
    head: Vec<u8>,
}

/// Takes a packet in two parts: headers, and what follows them.
pub(super) type Emit<'a> = dyn FnMut(&[u8], &[u8]) -> io::Result<()> + 'a;

impl Framer {
    /// For packets of one link layer.
    pub(super) const fn new(link: LinkLayer) -> Self {
        Self { link, tcp: Vec::new(), head: Vec::new() }
    }

    /// Builds the packet of a segment, or its fragments.
    pub(super) fn frame(&mut self, flow: &Flow, packet: &TapPacket, emit: &mut Emit<'_>) -> io::Result<()> {
        self.put_tcp(flow, packet);
        let header = &packet.header;
        let (source, destination) = (flow.of(header.from).ip(), flow.of(header.from.peer()).ip());
        if packet.fragmented {
            self.tcp.extend_from_slice(&packet.payload);
            let whole = std::mem::take(&mut self.tcp);
            let pieces = whole.len().div_ceil(FRAGMENT_PAYLOAD);
            for (place, piece) in whole.chunks(FRAGMENT_PAYLOAD).enumerate() {
                let fragment = Fragment { offset: place * FRAGMENT_PAYLOAD, more: place + 1 < pieces };
                self.put_ip((source, destination), header.ip_id, piece.len(), Some(fragment));
                self.link.wrap(header.from, source.is_ipv6(), piece.len(), &mut self.head);
                emit(&self.head, piece)?;
            }
            self.tcp = whole;
            return Ok(());
        }
        self.put_ip((source, destination), header.ip_id, self.tcp.len() + packet.payload.len(), None);
        self.head.extend_from_slice(&self.tcp);
        self.link.wrap(header.from, source.is_ipv6(), packet.payload.len(), &mut self.head);
        emit(&self.head, &packet.payload)
    }

    fn put_tcp(&mut self, flow: &Flow, packet: &TapPacket) {
        let header = &packet.header;
        let (source, destination) = (flow.of(header.from), flow.of(header.from.peer()));
        let tcp = &mut self.tcp;
        tcp.clear();
        tcp.extend_from_slice(&source.port().to_be_bytes());
        tcp.extend_from_slice(&destination.port().to_be_bytes());
        tcp.extend_from_slice(&sequence_number(flow, header).to_be_bytes());
        let ack = if header.has(flag::ACK) { wire_offset(flow, header.from.peer(), header.ack) } else { 0 };
        tcp.extend_from_slice(&ack.to_be_bytes());
        let shift = if header.has(flag::SYN) { 0 } else { WINDOW_SCALE };
        let window = (header.window_bytes >> shift).min(0xFFFF) as u16;
        tcp.extend_from_slice(&[0, header.flags]);
        tcp.extend_from_slice(&window.to_be_bytes());
        tcp.extend_from_slice(&[0; 4]);
        put_options(flow, header, tcp);
        let words = (tcp.len() / 4) as u8;
        set(tcp, 12, &[words << 4]);
        let mut checksum = Checksum::default();
        let length = (tcp.len() + packet.payload.len()) as u32;
        add_pseudo_header(&mut checksum, source.ip(), destination.ip(), length);
        checksum.add(tcp);
        checksum.add(&packet.payload);
        let sum = checksum.finish();
        set(tcp, 16, &sum.to_be_bytes());
    }

    fn put_ip(&mut self, ends: (IpAddr, IpAddr), ip_id: u16, payload_len: usize, fragment: Option<Fragment>) {
        let head = &mut self.head;
        head.clear();
        match ends {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let length = (20 + payload_len) as u16;
                let flags = fragment.map_or(0x4000, |at| (at.offset / 8) as u16 | u16::from(at.more) << 13);
                put_ipv4(head, (source.octets(), destination.octets()), [length, ip_id, flags], TCP);
            }
            (source, destination) => {
                let extension = if fragment.is_some() { 8 } else { 0 };
                let length = (payload_len + extension) as u16;
                head.extend_from_slice(&[0x60, 0, 0, 0]);
                head.extend_from_slice(&length.to_be_bytes());
                head.extend_from_slice(&[if fragment.is_some() { IPV6_FRAGMENT } else { TCP }, HOPS]);
                put_address(head, source);
                put_address(head, destination);
                if let Some(at) = fragment {
                    head.extend_from_slice(&[TCP, 0]);
                    head.extend_from_slice(&(at.offset as u16 | u16::from(at.more)).to_be_bytes());
                    head.extend_from_slice(&u32::from(ip_id).to_be_bytes());
                }
            }
        }
    }
}

/// Where in its packet an IP fragment lies.
#[derive(Debug, Clone, Copy)]
struct Fragment {
    offset: usize,
    more: bool,
}

/// Appends an IPv4 header of 20 bytes; `fields` are total length, identification, and flags with fragment offset.
pub(super) fn put_ipv4(head: &mut Vec<u8>, ends: ([u8; 4], [u8; 4]), fields: [u16; 3], protocol: u8) {
    let mut ip = [0u8; 20];
    ip[0] = 0x45;
    let [length, ip_id, flags] = fields.map(u16::to_be_bytes);
    let parts: [(usize, &[u8]); 6] =
        [(2, &length), (4, &ip_id), (6, &flags), (8, &[HOPS, protocol]), (12, &ends.0), (16, &ends.1)];
    for (at, part) in parts {
        set(&mut ip, at, part);
    }
    let mut checksum = Checksum::default();
    checksum.add(&ip);
    set(&mut ip, 10, &checksum.finish().to_be_bytes());
    head.extend_from_slice(&ip);
}

fn put_address(head: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => head.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => head.extend_from_slice(&address.octets()),
    }
}

/// SEG.SEQ: a SYN has the initial number, offset 0 the one behind it.
fn sequence_number(flow: &Flow, header: &Header) -> u32 {
    match header.has(flag::SYN) {
        true => *flow.initial_seq.of(header.from),
        false => wire_offset(flow, header.from, header.span.start),
    }
}

fn wire_offset(flow: &Flow, side: Side, offset: u64) -> u32 {
    flow.initial_seq.of(side).wrapping_add(1).wrapping_add(offset as u32)
}

fn put_options(flow: &Flow, header: &Header, tcp: &mut Vec<u8>) {
    let timestamps = |tcp: &mut Vec<u8>| {
        tcp.extend_from_slice(&[8, 10]);
        tcp.extend_from_slice(&header.ts_value.to_be_bytes());
        tcp.extend_from_slice(&header.ts_echo.to_be_bytes());
    };
    if header.has(flag::SYN) {
        // Room for the timestamps belongs to the maximum segment size.
        tcp.extend_from_slice(&[2, 4]);
        tcp.extend_from_slice(&((flow.payload_max + 12) as u16).to_be_bytes());
        tcp.extend_from_slice(&[4, 2]);
        timestamps(tcp);
        tcp.extend_from_slice(&[1, 3, 3, WINDOW_SCALE as u8]);
    } else if !header.has(flag::RST) {
        tcp.extend_from_slice(&[1, 1]);
        timestamps(tcp);
        let blocks = header.sacks.iter().flatten().count();
        if blocks > 0 {
            tcp.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks as u8]);
            for Span { start, end } in header.sacks.iter().flatten() {
                for offset in [start, end] {
                    tcp.extend_from_slice(&wire_offset(flow, header.from.peer(), *offset).to_be_bytes());
                }
            }
        }
    }
}

/// The pseudo-header of RFC 9293, section 3.1, and of RFC 8200, section 8.1.
fn add_pseudo_header(checksum: &mut Checksum, source: IpAddr, destination: IpAddr, length: u32) {
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => checksum.add(&address.octets()),
            IpAddr::V6(address) => checksum.add(&address.octets()),
        }
    }
    checksum.add(&length.to_be_bytes());
    checksum.add(&[0, TCP]);
}

/// Overwrites bytes where they exist.
pub(super) fn set(bytes: &mut [u8], at: usize, with: &[u8]) {
    if let Some(slot) = bytes.get_mut(at..at + with.len()) {
        slot.copy_from_slice(with);
    }
}
