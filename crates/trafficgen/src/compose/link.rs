//! The link layer in front of a packet: Ethernet, cooked, loopback or none, with VLAN tags, and VXLAN around it all.

use super::frame::put_ipv4;
use super::options::Link;
use super::segment::Side;

/// `EtherType` of IPv4, IPv6, a customer's VLAN tag (IEEE 802.1Q), a provider's (802.1ad).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const CUSTOMER_TAG: u16 = 0x8100;
const PROVIDER_TAG: u16 = 0x88a8;

/// Locally administered addresses.
const CLIENT_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x0c];
const SERVER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x05];

/// UDP's number in IP headers.
const UDP: u8 = 17;

/// VXLAN's port (RFC 7348).
const VXLAN_PORT: u16 = 4789;

/// The tunnel's ends: documentation addresses (RFC 5737).
const TUNNEL_ENDS: ([u8; 4], [u8; 4]) = ([192, 0, 2, 10], [192, 0, 2, 20]);

/// `AF_INET6` of macOS; readers know it beside those of the BSDs.
const AF_INET6: u32 = 30;

/// `AF_INET`, the same everywhere.
const AF_INET: u32 = 2;

/// `ARPHRD_ETHER` in cooked headers.
const HARDWARE_ETHERNET: u16 = 1;

/// What stands in front of the IP header.
#[derive(Debug, Clone)]
pub(super) struct LinkLayer {
    /// The kind.
    pub(super) link: Link,
    /// VLAN identifiers, the outermost first.
    pub(super) vlans: Vec<u16>,
    /// Network identifier of a VXLAN around everything.
    pub(super) vxlan: Option<u32>,
    /// The end on which the capture is taken: what comes from there is outgoing.
    pub(super) here: Side,
}

impl LinkLayer {
    /// The link type's number in capture files (<https://www.tcpdump.org/linktypes.html>).
    pub(super) const fn number(link: Link) -> u32 {
        match link {
            Link::Ethernet => 1,
            Link::Sll => 113,
            Link::Sll2 => 276,
            Link::Null => 0,
            Link::Raw => 101,
        }
    }

    /// Puts the link layer in front of an IP header; `payload_len` bytes will follow what is in `head`.
    pub(super) fn wrap(&self, from: Side, ipv6: bool, payload_len: usize, head: &mut Vec<u8>) {
        let mut front = Vec::with_capacity(96);
        let Some(network) = self.vxlan else {
            self.put(from, ipv6, &mut front);
            head.splice(..0, front);
            return;
        };
        let inner = LinkLayer { link: Link::Ethernet, vlans: Vec::new(), vxlan: None, here: self.here };
        inner.wrap(from, ipv6, payload_len, head);
        self.put(from, false, &mut front);
        let datagram_len = 8 + 8 + head.len() + payload_len;
        let ends = if from == Side::Client { TUNNEL_ENDS } else { (TUNNEL_ENDS.1, TUNNEL_ENDS.0) };
        put_ipv4(&mut front, ends, [(20 + datagram_len) as u16, 0, 0x4000], UDP);
        // The source port is the tunnel's own; a checksum of 0 is none, as is usual over IPv4.
        for field in [50_000, VXLAN_PORT, datagram_len as u16, 0] {
            front.extend_from_slice(&field.to_be_bytes());
        }
        front.extend_from_slice(&[0x08, 0, 0, 0]);
        front.extend_from_slice(&(network << 8).to_be_bytes());
        head.splice(..0, front);
    }

    fn put(&self, from: Side, ipv6: bool, front: &mut Vec<u8>) {
        let ether_type = if ipv6 { IPV6 } else { IPV4 };
        let outgoing = from == self.here;
        let (source, destination) = match from {
            Side::Client => (CLIENT_MAC, SERVER_MAC),
            Side::Server => (SERVER_MAC, CLIENT_MAC),
        };
        let outer_type = self.tag_type(0).unwrap_or(ether_type);
        // Packet type of cooked captures: 0 to us, 4 sent by us.
        let packet_type = if outgoing { 4u8 } else { 0 };
        match self.link {
            Link::Ethernet => {
                front.extend_from_slice(&destination);
                front.extend_from_slice(&source);
                front.extend_from_slice(&outer_type.to_be_bytes());
            }
            Link::Sll => {
                front.extend_from_slice(&[0, packet_type]);
                front.extend_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
                front.extend_from_slice(&[0, 6]);
                front.extend_from_slice(&source);
                front.extend_from_slice(&[0, 0]);
                front.extend_from_slice(&outer_type.to_be_bytes());
            }
            Link::Sll2 => {
                front.extend_from_slice(&outer_type.to_be_bytes());
                front.extend_from_slice(&[0, 0]);
                front.extend_from_slice(&2u32.to_be_bytes());
                front.extend_from_slice(&HARDWARE_ETHERNET.to_be_bytes());
                front.extend_from_slice(&[packet_type, 6]);
                front.extend_from_slice(&source);
                front.extend_from_slice(&[0, 0]);
            }
            Link::Null => front.extend_from_slice(&if ipv6 { AF_INET6 } else { AF_INET }.to_le_bytes()),
            Link::Raw => return,
        }
        for (place, vlan) in self.vlans.iter().enumerate() {
            front.extend_from_slice(&vlan.to_be_bytes());
            front.extend_from_slice(&self.tag_type(place + 1).unwrap_or(ether_type).to_be_bytes());
        }
    }

    /// The type that announces the tag at a place: only the last tag is a customer's.
    fn tag_type(&self, place: usize) -> Option<u16> {
        match self.vlans.len().checked_sub(place) {
            None | Some(0) => None,
            Some(1) => Some(CUSTOMER_TAG),
            Some(_) => Some(PROVIDER_TAG),
        }
    }
}
