//! Link types, tags and other things between a capture's first byte and IP.

use super::*;

const NOT_IP: WireStats = WireStats {
    not_ip: 1,
    not_tcp: 0,
    truncated_header: 0,
    malformed: 0,
    fragments: 0,
    fragments_joined: 0,
    datagrams_joined: 0,
    fragment_copies: 0,
    fragments_dropped: 0,
    tunnelled: 0,
};
const MALFORMED: WireStats = WireStats { not_ip: 0, malformed: 1, ..NOT_IP };

#[test]
fn every_link_type_carries_both_versions() {
    let link = |link, header: &[u8], v4_number: &[u8], v6_number: &[u8]| {
        holds(link, &concat(&[header, v4_number, &v4()]), &parsed_v4());
        holds(link, &concat(&[header, v6_number, &v6()]), &parsed_v6());
    };
    link(LinkType::Ethernet, &ethernet(0, &[])[..12], &[0x08, 0x00], &[0x86, 0xdd]);
    link(LinkType::LinuxSll, &sll(0, &[])[..14], &[0x08, 0x00], &[0x86, 0xdd]);
    holds(LinkType::LinuxSll2, &sll2(0x0800, &v4()), &parsed_v4());
    holds(LinkType::LinuxSll2, &sll2(0x86dd, &v6()), &parsed_v6());
    for family in [10u32, 24, 28, 30] {
        link(LinkType::Null, &[], &2u32.to_le_bytes(), &family.to_le_bytes());
        link(LinkType::Null, &[], &2u32.to_be_bytes(), &family.to_be_bytes());
        link(LinkType::Loop, &[], &2u32.to_be_bytes(), &family.to_be_bytes());
    }
    link(LinkType::RawIp, &[], &[], &[]);
    holds(LinkType::RawIpv4, &v4(), &parsed_v4());
    holds(LinkType::RawIpv6, &v6(), &parsed_v6());
}

#[test]
fn what_is_not_ip_is_said_to_be_so() {
    is_skipped(LinkType::Ethernet, &ethernet(0x0806, &[0; 46]), NOT_IP);
    is_skipped(LinkType::LinuxSll, &sll(0x0806, &[0; 28]), NOT_IP);
    is_skipped(LinkType::LinuxSll, &sll(0x0001, &v4()), NOT_IP);
    is_skipped(LinkType::LinuxSll2, &sll2(0x0806, &[0; 28]), NOT_IP);
    is_skipped(LinkType::Null, &concat(&[&[7, 0, 0, 0], &v4()]), NOT_IP);
}

#[test]
fn vlan_tags_are_taken_off_in_any_order_and_number() {
    for tag in [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300] {
        holds(LinkType::Ethernet, &ethernet(tag, &vlan(0x0800, &v4())), &parsed_v4());
        let stacked = ethernet(0x88a8, &vlan(tag, &vlan(0x8100, &vlan(0x86dd, &v6()))));
        holds(LinkType::Ethernet, &stacked, &parsed_v6());
    }
    holds(LinkType::LinuxSll, &sll(0x8100, &vlan(0x0800, &v4())), &parsed_v4());
    holds(LinkType::LinuxSll2, &sll2(0x8100, &vlan(0x86dd, &v6())), &parsed_v6());
    let vn_tag = ethernet(0x8926, &concat(&[&[0, 1, 0, 2, 0x81, 0x00], &vlan(0x0800, &v4())]));
    holds(LinkType::Ethernet, &vn_tag, &parsed_v4());
    let e_tag = ethernet(0x893f, &concat(&[&[0, 1, 0, 2, 0, 0, 0x08, 0x00], &v4()]));
    holds(LinkType::Ethernet, &e_tag, &parsed_v4());
}

#[test]
fn a_stack_of_tags_has_an_end() {
    let tags = |count: usize| {
        let tags = (1..count).fold(vlan(0x0800, &v4()), |inner, _| vlan(0x8100, &inner));
        ethernet(0x8100, &tags)
    };
    holds(LinkType::Ethernet, &tags(16), &parsed_v4());
    is_skipped(LinkType::Ethernet, &tags(17), MALFORMED);
}

#[test]
fn llc_mpls_and_pppoe_are_unwrapped() {
    let snap = concat(&[&[0xaa, 0xaa, 3, 0, 0, 0, 0x08, 0x00], &v4()]);
    let padding = [0xee; 30];
    holds(LinkType::Ethernet, &ethernet(snap.len() as u16, &concat(&[&snap, &padding])), &parsed_v4());
    holds(LinkType::LinuxSll, &sll(4, &snap), &parsed_v4());
    let ip_over_llc = concat(&[&[6, 6, 3], &v4()]);
    holds(LinkType::Ethernet, &ethernet(ip_over_llc.len() as u16, &ip_over_llc), &parsed_v4());
    let spanning_tree = [0x42, 0x42, 3, 0, 0, 0, 0];
    is_skipped(LinkType::Ethernet, &ethernet(38, &concat(&[&spanning_tree, &[0; 39]])), NOT_IP);

    let labels = [0, 1, 0x00, 64, 0, 2, 0x01, 64];
    holds(LinkType::Ethernet, &ethernet(0x8847, &concat(&[&labels, &v4()])), &parsed_v4());
    holds(LinkType::Ethernet, &ethernet(0x8848, &concat(&[&labels[4..], &v6()])), &parsed_v6());
    is_skipped(LinkType::Ethernet, &ethernet(0x8847, &concat(&[&labels, &[0; 60]])), NOT_IP);
    is_skipped(LinkType::Ethernet, &ethernet(0x8847, &[0; 80]), MALFORMED);

    let pppoe = |protocol: &[u8], ip: &[u8]| {
        let len = ((protocol.len() + ip.len()) as u16).to_be_bytes();
        ethernet(0x8864, &concat(&[&[0x11, 0, 0, 9], &len, protocol, ip, &padding]))
    };
    for compressed in [0, 1] {
        holds(LinkType::Ethernet, &pppoe(&[0x00, 0x21][compressed..], &v4()), &parsed_v4());
        holds(LinkType::Ethernet, &pppoe(&[0x00, 0x57][compressed..], &v6()), &parsed_v6());
    }
    is_skipped(LinkType::Ethernet, &pppoe(&[0xc0, 0x21], &[1, 1, 0, 4]), NOT_IP);
    is_skipped(LinkType::Ethernet, &pppoe(&[0x00, 0x2d], &[0; 40]), NOT_IP);
}

#[test]
fn a_version_that_contradicts_what_announced_it_is_malformed() {
    is_skipped(LinkType::Ethernet, &ethernet(0x0800, &v6()), MALFORMED);
    is_skipped(LinkType::Ethernet, &ethernet(0x86dd, &v4()), MALFORMED);
    is_skipped(LinkType::RawIpv4, &v6(), MALFORMED);
    is_skipped(LinkType::RawIpv6, &v4(), MALFORMED);
    is_skipped(LinkType::RawIp, &[0x50; 60], MALFORMED);
}
