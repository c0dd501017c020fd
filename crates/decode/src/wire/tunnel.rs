//! Tunnels and mirror encapsulations: from an outer datagram to the innermost one.

use super::ip::{self, Datagram, protocol};
use super::link::{self, IpVersion};
use super::span::Span;
use super::{Skip, count};
use crate::stats::WireStats;

/// Datagrams within datagrams. A mirrored overlay has two; more than this is a packet made to waste time.
const MAX_LEVELS: usize = 4;

/// VXLAN's port (RFC 7348), and the one that Linux used before there was one, still flannel's and Cilium's.
const VXLAN_PORTS: [u16; 2] = [4789, 8472];
/// GENEVE's port (RFC 8926).
const GENEVE_PORT: u16 = 6081;

/// Protocol types of GRE and GENEVE that are not just EtherTypes of IP.
const TRANSPARENT_ETHERNET: u16 = 0x6558;
const ERSPAN_I_OR_II: u16 = 0x88be;
const ERSPAN_III: u16 = 0x22eb;

/// Unwraps until TCP comes, or a fragment that must be put together first. What is neither is not TCP.
#[cold]
pub(super) fn innermost<'a>(datagram: Datagram<'a>, stats: &mut WireStats) -> Result<Datagram<'a>, Skip> {
    let mut datagram = datagram;
    for level in 0..=MAX_LEVELS {
        if datagram.fragment.is_some() || datagram.protocol == protocol::TCP {
            return Ok(datagram);
        }
        let (version, packet) = unwrap(&datagram)?;
        if level == 0 {
            count(&mut stats.tunnelled, 1);
        }
        datagram = ip::datagram(version, packet)?;
    }
    Err(Skip::Malformed)
}

/// Whether a datagram of this protocol may have TCP in it. Fragments of others are not worth keeping.
pub(super) fn may_hold_tcp(datagram: &Datagram<'_>) -> bool {
    match datagram.protocol {
        protocol::TCP | protocol::UDP | protocol::GRE | protocol::IPV4 | protocol::IPV6 => true,
        protocol::AUTHENTICATION => true,
        protocol::ROUTING | protocol::DESTINATION_OPTIONS => datagram.addresses.is_v6(),
        _ => false,
    }
}

/// Takes one wrapping off.
fn unwrap<'a>(datagram: &Datagram<'a>) -> Result<(IpVersion, Span<'a>), Skip> {
    match datagram.protocol {
        protocol::UDP => udp(datagram.body),
        protocol::GRE => gre(datagram.body),
        protocol::IPV4 => Ok((IpVersion::V4, datagram.body)),
        protocol::IPV6 => Ok((IpVersion::V6, datagram.body)),
        _ => Err(Skip::NotTcp),
    }
}

fn udp(body: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let (header, rest) = body.header::<8>()?;
    let destination_port = u16::from_be_bytes([header[2], header[3]]);
    // The length counts the header; offloading leaves 0 where it does not fit, and IP's is taken then.
    let rest = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => rest,
        len => rest.limit(len.checked_sub(8).ok_or(Skip::Malformed)?),
    };
    match destination_port {
        GENEVE_PORT => geneve(rest),
        port if VXLAN_PORTS.contains(&port) => vxlan(rest),
        _ => Err(Skip::NotTcp),
    }
}

/// RFC 7348, section 5: flags with the I bit set, three bytes, the network's 24-bit id, one byte.
fn vxlan(rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let (header, frame) = rest.header::<8>()?;
    if header[0] & 0x08 == 0 {
        return Err(Skip::NotTcp);
    }
    link::ethernet(frame)
}

/// RFC 8926, section 3.4.
fn geneve(rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let (header, rest) = rest.header::<8>()?;
    let (version, options_len) = (header[0] >> 6, usize::from(header[0] & 0x3f) << 2);
    let control_packet = header[1] & 0x80 != 0;
    if version != 0 || control_packet {
        return Err(Skip::NotTcp);
    }
    carried(u16::from_be_bytes([header[2], header[3]]), rest.skip(options_len)?)
}

/// RFC 2784 with the key and sequence number of RFC 2890.
fn gre(body: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    const CHECKSUM: u8 = 0x80;
    const ROUTING: u8 = 0x40;
    const KEY: u8 = 0x20;
    const SEQUENCE: u8 = 0x10;
    let (header, rest) = body.header::<4>()?;
    let (flags, version) = (header[0], header[1] & 0x07);
    // Version 1 is PPTP's, and source routes were dropped with RFC 2784.
    if version != 0 || flags & ROUTING != 0 {
        return Err(Skip::NotTcp);
    }
    let mut rest = rest;
    for optional_field in [CHECKSUM, KEY, SEQUENCE] {
        if flags & optional_field != 0 {
            (_, rest) = rest.header::<4>()?;
        }
    }
    match u16::from_be_bytes([header[2], header[3]]) {
        // Type I is known by its missing sequence number (draft-foschiano-erspan, section 4.1).
        ERSPAN_I_OR_II if flags & SEQUENCE == 0 => link::ethernet(rest),
        ERSPAN_I_OR_II | ERSPAN_III => erspan(rest),
        protocol_type => carried(protocol_type, rest),
    }
}

/// ERSPAN types II and III (draft-foschiano-erspan, sections 4.2 and 4.3), by the version in their header.
fn erspan(rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    const FRAME_TYPE_IP: u8 = 2;
    let (header, after) = rest.header::<8>()?;
    match header[0] >> 4 {
        1 => link::ethernet(after),
        2 => {
            let (tail, after) = after.header::<4>()?;
            let frame_type = tail[2] >> 2 & 0x1f;
            let has_platform_field = tail[3] & 1 != 0;
            let after = if has_platform_field { after.skip(8)? } else { after };
            match frame_type {
                0 => link::ethernet(after),
                FRAME_TYPE_IP => link::by_nibble(after, Skip::NotIp),
                _ => Err(Skip::NotIp),
            }
        }
        _ => Err(Skip::Malformed),
    }
}

/// What a protocol type of GRE or GENEVE announces.
fn carried(protocol_type: u16, rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    match protocol_type {
        TRANSPARENT_ETHERNET => link::ethernet(rest),
        ethertype => link::by_protocol_type(ethertype, rest),
    }
}
