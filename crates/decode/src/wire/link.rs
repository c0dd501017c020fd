//! The link layer: from the first captured byte to the IP header.
//!
//! Numbers: <https://www.tcpdump.org/linktypes.html> for the outermost header, IEEE 802 EtherTypes for what follows.

use super::Skip;
use super::span::Span;
use crate::packet::LinkType;

/// Which IP header comes next, as the header before it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IpVersion {
    V4,
    V6,
}

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// 802.1Q, 802.1ad, and the three that stood for stacked tags before 802.1ad.
const VLAN: [u16; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
/// 802.1Qbh VN-Tag: four bytes, then the next EtherType.
const VN_TAG: u16 = 0x8926;
/// 802.1BR E-Tag: six bytes, then the next EtherType.
const E_TAG: u16 = 0x893f;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const PPPOE_SESSION: u16 = 0x8864;
/// Up to here the field is the length of an 802.3 frame, and an LLC header follows (IEEE 802.3, 3.2.6).
const MAX_802_3_LEN: u16 = 1500;
/// Linux's own number for "802.2 LLC follows" in cooked captures (`ETH_P_802_2`).
const COOKED_LLC: u16 = 0x0004;

/// Tags, or labels, in a row. Networks use two or three; more than this is a packet made to waste time.
const MAX_TAGS: usize = 16;

/// `AF_INET`, the same number everywhere.
const AF_INET: u32 = 2;
/// `AF_INET6` of Linux; NetBSD and OpenBSD; FreeBSD; macOS.
const AF_INET6: [u32; 4] = [10, 24, 28, 30];

/// Takes the link header off a captured packet, if it is one of the common ones with at most two VLAN tags before IP.
#[inline]
pub(super) fn common_network(link: LinkType, packet: Span<'_>) -> Option<(IpVersion, Span<'_>)> {
    let header = match link {
        LinkType::Ethernet => ethernet_header(packet),
        LinkType::LinuxSll2 => sll2_header(packet),
        LinkType::LinuxSll => sll_header(packet),
        _ => return None,
    };
    let (mut ethertype, mut rest) = header.ok()?;
    for _ in 0..3 {
        match ethertype {
            IPV4 => return Some((IpVersion::V4, rest)),
            IPV6 => return Some((IpVersion::V6, rest)),
            tag if VLAN.contains(&tag) => (ethertype, rest) = vlan_tag(rest).ok()?,
            _ => return None,
        }
    }
    None
}

/// Takes the link header off a captured packet, and all that lies between it and IP.
pub(super) fn network(link: LinkType, packet: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    match link {
        LinkType::Ethernet => ethernet(packet),
        LinkType::LinuxSll2 => cooked(sll2_header(packet)?),
        LinkType::LinuxSll => cooked(sll_header(packet)?),
        LinkType::Null | LinkType::Loop => loopback(packet),
        LinkType::RawIp => by_nibble(packet, Skip::Malformed),
        LinkType::RawIpv4 => Ok((IpVersion::V4, packet)),
        LinkType::RawIpv6 => Ok((IpVersion::V6, packet)),
    }
}

/// An Ethernet frame, from its destination address on.
pub(super) fn ethernet(frame: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let (ethertype, rest) = ethernet_header(frame)?;
    by_ethertype(ethertype, rest)
}

/// The EtherType of an Ethernet frame, and what follows it.
#[inline]
fn ethernet_header(frame: Span<'_>) -> Result<(u16, Span<'_>), Skip> {
    let (header, rest) = frame.header::<14>()?;
    Ok((u16::from_be_bytes([header[12], header[13]]), rest))
}

/// The protocol number of a Linux cooked capture, and what follows the header.
#[inline]
fn sll_header(packet: Span<'_>) -> Result<(u16, Span<'_>), Skip> {
    let (header, rest) = packet.header::<16>()?;
    Ok((u16::from_be_bytes([header[14], header[15]]), rest))
}

/// The same of version 2.
#[inline]
fn sll2_header(packet: Span<'_>) -> Result<(u16, Span<'_>), Skip> {
    let (header, rest) = packet.header::<20>()?;
    Ok((u16::from_be_bytes([header[0], header[1]]), rest))
}

/// The EtherType behind the rest of a VLAN tag, and what follows it.
#[inline]
fn vlan_tag(rest: Span<'_>) -> Result<(u16, Span<'_>), Skip> {
    let (tag, after) = rest.header::<4>()?;
    Ok((u16::from_be_bytes([tag[2], tag[3]]), after))
}

/// Linux cooked captures put EtherTypes where they can, and numbers of their own below them.
fn cooked((protocol, rest): (u16, Span<'_>)) -> Result<(IpVersion, Span<'_>), Skip> {
    match protocol {
        COOKED_LLC => by_ethertype(MAX_802_3_LEN, rest),
        protocol => by_protocol_type(protocol, rest),
    }
}

/// What an EtherType announces in a field that cannot be a length.
pub(super) fn by_protocol_type(protocol_type: u16, rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    if protocol_type > MAX_802_3_LEN { by_ethertype(protocol_type, rest) } else { Err(Skip::NotIp) }
}

/// What an EtherType announces, or the length that may stand in its place: through tags and other wrappings to IP.
fn by_ethertype(ethertype: u16, rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let (mut ethertype, mut rest) = (ethertype, rest);
    for _ in 0..=MAX_TAGS {
        match ethertype {
            IPV4 => return Ok((IpVersion::V4, rest)),
            IPV6 => return Ok((IpVersion::V6, rest)),
            PPPOE_SESSION => return pppoe(rest),
            tag if VLAN.contains(&tag) => (ethertype, rest) = vlan_tag(rest)?,
            VN_TAG => {
                let (tag, after) = rest.header::<6>()?;
                (ethertype, rest) = (u16::from_be_bytes([tag[4], tag[5]]), after);
            }
            E_TAG => {
                let (tag, after) = rest.header::<8>()?;
                (ethertype, rest) = (u16::from_be_bytes([tag[6], tag[7]]), after);
            }
            label if MPLS.contains(&label) => return mpls(rest),
            len @ 0..=MAX_802_3_LEN => (ethertype, rest) = llc(rest.limit(usize::from(len)))?,
            _ => return Err(Skip::NotIp),
        }
    }
    Err(Skip::Malformed)
}

/// An LLC header (IEEE 802.2), with SNAP behind it or without: the EtherType that it amounts to.
fn llc(rest: Span<'_>) -> Result<(u16, Span<'_>), Skip> {
    match rest.header::<3>()? {
        ([0xaa, 0xaa, 0x03], after) => {
            let (snap, after) = after.header::<5>()?;
            let ethertype = u16::from_be_bytes([snap[3], snap[4]]);
            // The organisation codes of RFC 1042 and of 802.1H. A length in this place would start over.
            match snap {
                [0, 0, 0 | 0xf8, ..] if ethertype > MAX_802_3_LEN => Ok((ethertype, after)),
                _ => Err(Skip::NotIp),
            }
        }
        ([0x06, 0x06, 0x03], after) => Ok((IPV4, after)),
        _ => Err(Skip::NotIp),
    }
}

/// MPLS labels (RFC 3032). Nothing says what follows the last one; routers guess by the first nibble, as done here.
fn mpls(rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let mut rest = rest;
    for _ in 0..MAX_TAGS {
        let (label, after) = rest.header::<4>()?;
        rest = after;
        let bottom_of_stack = label[2] & 1 != 0;
        if bottom_of_stack {
            return by_nibble(rest, Skip::NotIp);
        }
    }
    Err(Skip::Malformed)
}

/// A PPPoE session packet (RFC 2516): version and type 1, code 0, a session, a length, then the PPP protocol number.
fn pppoe(rest: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let (header, rest) = rest.header::<6>()?;
    let [0x11, 0, _, _, len_high, len_low] = *header else { return Err(Skip::NotIp) };
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    // The first of the protocol's two bytes may be left out where it is 0; the second is odd, which tells them apart
    // (RFC 1661, section 6.5).
    let (mut protocol, mut rest) = rest.limit(len).header::<1>()?;
    if *protocol == [0] {
        (protocol, rest) = rest.header::<1>()?;
    }
    match protocol {
        [0x21] => Ok((IpVersion::V4, rest)),
        [0x57] => Ok((IpVersion::V6, rest)),
        _ => Err(Skip::NotIp),
    }
}

/// BSD loopback: an address family in the byte order of whoever captured, which the file does not reliably tell.
fn loopback(packet: Span<'_>) -> Result<(IpVersion, Span<'_>), Skip> {
    let (family, rest) = packet.header::<4>()?;
    for family in [u32::from_le_bytes(*family), u32::from_be_bytes(*family)] {
        if family == AF_INET {
            return Ok((IpVersion::V4, rest));
        }
        if AF_INET6.contains(&family) {
            return Ok((IpVersion::V6, rest));
        }
    }
    Err(Skip::NotIp)
}

/// The IP version by the first nibble of what should be its header; `otherwise` where it is not.
pub(super) fn by_nibble(packet: Span<'_>, otherwise: Skip) -> Result<(IpVersion, Span<'_>), Skip> {
    let ([first], _) = packet.header()?;
    match first >> 4 {
        4 => Ok((IpVersion::V4, packet)),
        6 => Ok((IpVersion::V6, packet)),
        _ => Err(otherwise),
    }
}
