//! IPv4 (RFC 791) and IPv6 (RFC 8200) headers, up to the transport header.

use std::net::IpAddr;

use super::Skip;
use super::link::IpVersion;
use super::span::Span;

/// IANA protocol numbers.
pub(super) mod protocol {
    pub(in super::super) const HOP_BY_HOP: u8 = 0;
    pub(in super::super) const IPV4: u8 = 4;
    pub(in super::super) const TCP: u8 = 6;
    pub(in super::super) const UDP: u8 = 17;
    pub(in super::super) const IPV6: u8 = 41;
    pub(in super::super) const ROUTING: u8 = 43;
    pub(in super::super) const FRAGMENT: u8 = 44;
    pub(in super::super) const GRE: u8 = 47;
    pub(in super::super) const AUTHENTICATION: u8 = 51;
    pub(in super::super) const NO_NEXT_HEADER: u8 = 59;
    pub(in super::super) const DESTINATION_OPTIONS: u8 = 60;
}

/// Extension headers in a row. RFC 8200, section 4.1, has six kinds, one of them twice; one more to spare.
const MAX_EXTENSIONS: usize = 8;

/// The least payload of an Ethernet frame. A packet of unknown length that is no longer may be padding for the most part.
const MIN_ETHERNET_PAYLOAD: usize = 46;

/// The IPv4 header without options.
const IPV4_HEADER_LEN: usize = 20;

/// Where a fragment belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fragment {
    /// The identification that all fragments of one datagram share.
    pub(super) id: u32,
    /// Its place in the datagram, in bytes.
    pub(super) offset: usize,
    /// Whether others follow.
    pub(super) more: bool,
}

/// The addresses as they lie in the packet: copied once, when the segment is known to be one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Addresses<'a> {
    V4 { source: &'a [u8; 4], destination: &'a [u8; 4] },
    V6 { source: &'a [u8; 16], destination: &'a [u8; 16] },
}

impl Addresses<'_> {
    #[inline]
    pub(super) fn source(&self) -> IpAddr {
        match *self {
            Self::V4 { source, .. } => IpAddr::from(*source),
            Self::V6 { source, .. } => IpAddr::from(*source),
        }
    }

    #[inline]
    pub(super) fn destination(&self) -> IpAddr {
        match *self {
            Self::V4 { destination, .. } => IpAddr::from(*destination),
            Self::V6 { destination, .. } => IpAddr::from(*destination),
        }
    }

    pub(super) fn is_v6(&self) -> bool {
        matches!(self, Self::V6 { .. })
    }
}

/// An IP datagram, or a fragment of one, with its header read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Datagram<'a> {
    pub(super) addresses: Addresses<'a>,
    /// What `body` begins with.
    pub(super) protocol: u8,
    /// IPv4 identification, or 0.
    pub(super) ip_id: u16,
    /// Set where this is a piece only.
    pub(super) fragment: Option<Fragment>,
    /// Whether the header gave the body's length, and the packet had it all on the wire.
    pub(super) exact_len: bool,
    /// What follows the IP headers.
    pub(super) body: Span<'a>,
}

/// Reads the IP header at the start of `packet`, and no extension headers.
#[inline]
pub(super) fn header(version: IpVersion, packet: Span<'_>) -> Result<Datagram<'_>, Skip> {
    match version {
        IpVersion::V4 => ipv4(packet),
        IpVersion::V6 => ipv6(packet),
    }
}

/// Reads the IP header at the start of `packet`, and the extension headers behind it.
pub(super) fn datagram(version: IpVersion, packet: Span<'_>) -> Result<Datagram<'_>, Skip> {
    past_extensions(header(version, packet)?)
}

#[inline]
fn ipv4(packet: Span<'_>) -> Result<Datagram<'_>, Skip> {
    let (header, rest) = packet.header::<12>()?;
    let (source, rest) = rest.header::<4>()?;
    let (destination, _) = rest.header::<4>()?;
    let header_len = usize::from(header[0] & 0x0f) << 2;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    if header[0] >> 4 != 4 || header_len < IPV4_HEADER_LEN {
        return Err(Skip::Malformed);
    }
    let len = if total_len == 0 { unsaid_len(packet)? } else { total_len };
    if len < header_len {
        return Err(Skip::Malformed);
    }
    let ip_id = u16::from_be_bytes([header[4], header[5]]);
    let flags_and_offset = u16::from_be_bytes([header[6], header[7]]);
    let more = flags_and_offset & 0x2000 != 0;
    let offset = usize::from(flags_and_offset & 0x1fff) << 3;
    Ok(Datagram {
        addresses: Addresses::V4 { source, destination },
        protocol: header[9],
        ip_id,
        fragment: (more || offset != 0).then_some(Fragment { id: u32::from(ip_id), offset, more }),
        exact_len: total_len != 0 && total_len <= packet.wire_len(),
        body: packet.limit(len).skip(header_len)?,
    })
}

#[inline]
fn ipv6(packet: Span<'_>) -> Result<Datagram<'_>, Skip> {
    let (header, rest) = packet.header::<8>()?;
    let (source, rest) = rest.header::<16>()?;
    let (destination, rest) = rest.header::<16>()?;
    if header[0] >> 4 != 6 {
        return Err(Skip::Malformed);
    }
    let payload_len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let (body, exact_len) = if payload_len == 0 {
        (oversize_ipv6(header[6], packet, rest)?, false)
    } else {
        (rest.limit(payload_len), payload_len <= rest.wire_len())
    };
    Ok(Datagram {
        addresses: Addresses::V6 { source, destination },
        protocol: header[6],
        ip_id: 0,
        fragment: None,
        exact_len,
        body,
    })
}

/// The length of a packet whose header says 0, as offloading does for packets over 65,535 bytes (and Windows for any
/// that the NIC will split): all of it, but nothing so short that padding could be taken for data.
#[cold]
fn unsaid_len(packet: Span<'_>) -> Result<usize, Skip> {
    if packet.wire_len() > MIN_ETHERNET_PAYLOAD { Ok(packet.wire_len()) } else { Err(Skip::Malformed) }
}

/// The body of an IPv6 packet with payload length 0: as long as its jumbo payload option says (RFC 2675; Linux's BIG
/// TCP), or as the packet is where there is no such option (newer BIG TCP, and offloading elsewhere).
#[cold]
fn oversize_ipv6<'a>(next_header: u8, packet: Span<'a>, body: Span<'a>) -> Result<Span<'a>, Skip> {
    if next_header == protocol::HOP_BY_HOP
        && let Some(jumbo_len) = jumbo_len(body)?
    {
        // A jumbo payload of a length that the header could have said is an error (RFC 2675, section 3).
        return if jumbo_len > usize::from(u16::MAX) { Ok(body.limit(jumbo_len)) } else { Err(Skip::Malformed) };
    }
    if next_header != protocol::NO_NEXT_HEADER {
        unsaid_len(packet)?;
    }
    Ok(body)
}

/// The jumbo payload option among the hop-by-hop options, if it is there.
fn jumbo_len(body: Span<'_>) -> Result<Option<usize>, Skip> {
    const PAD1: u8 = 0;
    const JUMBO: u8 = 0xc2;
    let ([_, units], options) = body.header::<2>()?;
    // The header is (units + 1) * 8 bytes long, of which two are read.
    let mut options = options.limit((usize::from(*units) << 3).saturating_add(6)).captured();
    loop {
        options = match options {
            [PAD1, rest @ ..] => rest,
            [JUMBO, 4, a, b, c, d, ..] => {
                return Ok(usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok());
            }
            [_, len, rest @ ..] => match rest.get(usize::from(*len)..) {
                Some(rest) => rest,
                None => return Ok(None),
            },
            _ => return Ok(None),
        }
    }
}

/// Walks the extension headers, up to the transport header or to a fragment header that means it.
///
/// Of IPv4 only the authentication header can be there.
#[cold]
pub(super) fn past_extensions(datagram: Datagram<'_>) -> Result<Datagram<'_>, Skip> {
    let mut datagram = datagram;
    let v6 = datagram.addresses.is_v6();
    for _ in 0..MAX_EXTENSIONS {
        if datagram.fragment.is_some() {
            return Ok(datagram);
        }
        let (next_header, body) = match datagram.protocol {
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS if v6 => {
                let ([next_header, units], _) = datagram.body.header::<2>()?;
                (*next_header, datagram.body.skip((usize::from(*units) << 3).saturating_add(8))?)
            }
            protocol::AUTHENTICATION => {
                // Counted in units of four bytes, two fewer than there are (RFC 4302, section 2.2).
                let ([next_header, units], _) = datagram.body.header::<2>()?;
                (*next_header, datagram.body.skip((usize::from(*units) << 2).saturating_add(8))?)
            }
            protocol::FRAGMENT if v6 => {
                let (header, body) = datagram.body.header::<8>()?;
                let (offset, more) =
                    (usize::from(u16::from_be_bytes([header[2], header[3] & 0xf8])), header[3] & 1 != 0);
                // A fragment that is the whole datagram is treated as no fragment (RFC 8200, section 4.5).
                if more || offset != 0 {
                    let id = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                    datagram.fragment = Some(Fragment { id, offset, more });
                }
                (header[0], body)
            }
            _ => return Ok(datagram),
        };
        datagram.protocol = next_header;
        datagram.body = body;
    }
    Err(Skip::Malformed)
}
