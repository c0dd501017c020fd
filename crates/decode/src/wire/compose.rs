//! Packets written by hand, byte by byte, for the tests.

/// A TCP header with ports 51344 and 6400, sequence number 1000, acknowledgement 2000, ACK and PSH.
pub(super) fn tcp(options: &[u8], payload: &[u8]) -> Vec<u8> {
    assert!(options.len().is_multiple_of(4) && options.len() <= 40);
    let offset = ((20 + options.len()) / 4) as u8;
    let mut bytes = vec![0xc8, 0x90, 0x19, 0x00];
    bytes.extend(1000u32.to_be_bytes());
    bytes.extend(2000u32.to_be_bytes());
    bytes.extend([offset << 4, 0x18, 0x01, 0xf6, 0xba, 0xad, 0, 0]);
    bytes.extend(options);
    bytes.extend(payload);
    bytes
}

/// NOP, NOP and timestamps 7 and 9.
pub(super) const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9];

/// A segment with timestamps.
pub(super) fn segment(payload: &[u8]) -> Vec<u8> {
    tcp(&TIMESTAMPS, payload)
}

pub(super) fn udp(destination_port: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0x31];
    bytes.extend(destination_port.to_be_bytes());
    bytes.extend((8 + body.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(body);
    bytes
}

/// An IPv4 header of identification `0x4242`, from 10.0.0.7 to 10.0.0.1. `fragment` is the word of flags and offset.
pub(super) fn ipv4_with(fragment: u16, protocol: u8, options: &[u8], body: &[u8]) -> Vec<u8> {
    assert!(options.len().is_multiple_of(4) && options.len() <= 40);
    let header_len = 20 + options.len();
    let mut bytes = vec![0x40 | (header_len / 4) as u8, 0];
    bytes.extend(((header_len + body.len()) as u16).to_be_bytes());
    bytes.extend([0x42, 0x42]);
    bytes.extend(fragment.to_be_bytes());
    bytes.extend([64, protocol, 0xde, 0xad, 10, 0, 0, 7, 10, 0, 0, 1]);
    bytes.extend(options);
    bytes.extend(body);
    bytes
}

pub(super) fn ipv4(protocol: u8, body: &[u8]) -> Vec<u8> {
    ipv4_with(0x4000, protocol, &[], body)
}

/// An IPv6 header from fd00::7 to fd00::1.
pub(super) fn ipv6(next_header: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend(u16::try_from(body.len()).unwrap_or(0).to_be_bytes());
    bytes.extend([next_header, 64]);
    for host in [7, 1] {
        let mut address = [0u8; 16];
        (address[0], address[15]) = (0xfd, host);
        bytes.extend(address);
    }
    bytes.extend(body);
    bytes
}

/// An IPv6 extension header of the usual form, with `data` padded to whole units of eight bytes.
pub(super) fn extension(next_header: u8, data: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![next_header, 0];
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes[1] = (bytes.len() / 8 - 1) as u8;
    bytes.extend(body);
    bytes
}

/// An IPv6 fragment header; `offset` in bytes.
pub(super) fn fragment_header(next_header: u8, id: u32, offset: u16, more: bool) -> Vec<u8> {
    let mut bytes = vec![next_header, 0];
    bytes.extend((offset | u16::from(more)).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes
}

pub(super) fn ethernet(ethertype: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(body);
    bytes
}

/// The rest of a VLAN tag: priority 5, network 42, and what follows.
pub(super) fn vlan(ethertype: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xa0, 42];
    bytes.extend(ethertype.to_be_bytes());
    bytes.extend(body);
    bytes
}

pub(super) fn sll(protocol: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    bytes.extend(protocol.to_be_bytes());
    bytes.extend(body);
    bytes
}

pub(super) fn sll2(protocol: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = protocol.to_be_bytes().to_vec();
    bytes.extend([0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 0, 0, 0, 0, 1, 0, 0]);
    bytes.extend(body);
    bytes
}

pub(super) fn concat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}
