//! Tunnels and mirrors.

use super::*;

pub(super) fn vxlan(port: u16, frame: &[u8]) -> Vec<u8> {
    let header = [0x08, 0, 0, 0, 0, 0, 42, 0];
    ethernet(0x0800, &ipv4(protocol::UDP, &udp(port, &concat(&[&header, frame]))))
}

pub(super) fn geneve(protocol_type: u16, options_len: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = protocol_type.to_be_bytes();
    let header = [options_len / 4, 0, high, low, 0, 0, 42, 0];
    let options = vec![0x55; usize::from(options_len)];
    ethernet(0x0800, &ipv4(protocol::UDP, &udp(6081, &concat(&[&header, &options, body]))))
}

pub(super) fn gre(flags: u8, protocol_type: u16, body: &[u8]) -> Vec<u8> {
    let [high, low] = protocol_type.to_be_bytes();
    let optional_fields = [0x80, 0x20, 0x10].iter().filter(|&&field| flags & field != 0).count();
    let fields = vec![0x77; optional_fields * 4];
    ethernet(0x0800, &ipv4(protocol::GRE, &concat(&[&[flags, 0, high, low], &fields, body])))
}

pub(super) fn erspan_iii(platform_field: bool, frame: &[u8]) -> Vec<u8> {
    let header = [0x20, 42, 0, 1, 0, 0, 0, 0, 0, 0, 0, u8::from(platform_field)];
    let field = [0x33; 8];
    concat(&[&header, if platform_field { &field } else { &[] }, frame])
}

fn tunnelled() -> WireStats {
    WireStats { tunnelled: 1, ..WireStats::default() }
}

#[track_caller]
fn unwraps(data: &[u8], expected: &Parsed) {
    assert_eq!(parse(LinkType::Ethernet, data), (Some(expected.clone()), tunnelled()));
}

#[test]
fn overlays_are_unwrapped() {
    for port in [4789, 8472] {
        unwraps(&vxlan(port, &ethernet(0x0800, &v4())), &parsed_v4());
        unwraps(&vxlan(port, &ethernet(0x8100, &vlan(0x86dd, &v6()))), &parsed_v6());
    }
    for options_len in [0, 4, 252] {
        unwraps(&geneve(0x6558, options_len, &ethernet(0x0800, &v4())), &parsed_v4());
        unwraps(&geneve(0x0800, options_len, &v4()), &parsed_v4());
        unwraps(&geneve(0x86dd, options_len, &v6()), &parsed_v6());
    }
}

#[test]
fn gre_and_its_mirrors_are_unwrapped() {
    let frame = ethernet(0x0800, &v4());
    for flags in [0x00, 0x80, 0x20, 0x10, 0xa0, 0xb0] {
        unwraps(&gre(flags, 0x0800, &v4()), &parsed_v4());
        unwraps(&gre(flags, 0x86dd, &v6()), &parsed_v6());
        unwraps(&gre(flags, 0x6558, &frame), &parsed_v4());
    }
    unwraps(&gre(0, 0x88be, &frame), &parsed_v4());
    unwraps(&gre(0x10, 0x88be, &concat(&[&[0x10, 42, 0, 1, 0, 0, 0, 3], &frame])), &parsed_v4());
    for platform_field in [false, true] {
        unwraps(&gre(0x10, 0x22eb, &erspan_iii(platform_field, &frame)), &parsed_v4());
    }
    let mut ip_frame = erspan_iii(false, &v6());
    ip_frame[10] = 2 << 2;
    unwraps(&gre(0x10, 0x22eb, &ip_frame), &parsed_v6());
}

#[test]
fn ip_in_ip_is_unwrapped() {
    unwraps(&ethernet(0x0800, &ipv4(protocol::IPV4, &v4())), &parsed_v4());
    unwraps(&ethernet(0x0800, &ipv4(protocol::IPV6, &v6())), &parsed_v6());
    unwraps(&ethernet(0x86dd, &ipv6(protocol::IPV4, &v4())), &parsed_v4());
    unwraps(&ethernet(0x86dd, &ipv6(protocol::IPV6, &v6())), &parsed_v6());
}

#[test]
fn nesting_has_an_end() {
    let nested = |levels: usize| (0..levels).fold(v4(), |inner, _| ipv4(protocol::IPV4, &inner));
    assert_eq!(parse(LinkType::RawIp, &nested(4)), (Some(parsed_v4()), tunnelled()));
    let (parsed, stats) = parse(LinkType::RawIp, &nested(6));
    assert_eq!((parsed, stats.malformed), (None, 1));
}

#[test]
fn what_only_looks_like_a_tunnel_is_not_tcp() {
    let not_tcp = WireStats { not_tcp: 1, ..WireStats::default() };
    let frame = ethernet(0x0800, &v4());
    let no_vni = ethernet(0x0800, &ipv4(protocol::UDP, &udp(4789, &concat(&[&[0; 8], &frame]))));
    is_skipped(LinkType::Ethernet, &no_vni, not_tcp);
    is_skipped(LinkType::Ethernet, &vxlan(53, &frame), not_tcp);
    let mut geneve_control = geneve(0x6558, 0, &frame);
    geneve_control[14 + 20 + 8 + 1] = 0x80;
    is_skipped(LinkType::Ethernet, &geneve_control, not_tcp);
    let mut pptp = gre(0x20, 0x0800, &v4());
    pptp[14 + 20 + 1] = 1;
    is_skipped(LinkType::Ethernet, &pptp, not_tcp);
    is_skipped(LinkType::Ethernet, &gre(0x40, 0x0800, &v4()), not_tcp);
}

#[test]
fn what_a_tunnel_carries_is_counted_as_what_it_is() {
    let arp = vxlan(4789, &ethernet(0x0806, &[0; 28]));
    is_skipped(LinkType::Ethernet, &arp, WireStats { not_ip: 1, ..WireStats::default() });
    let ping = vxlan(4789, &ethernet(0x0800, &ipv4(1, &[0; 64])));
    is_skipped(LinkType::Ethernet, &ping, WireStats { not_tcp: 1, ..tunnelled() });
}

#[test]
fn padding_behind_a_wrapped_packet_is_no_payload() {
    let padded = concat(&[&ethernet(0x0800, &v4()), &[0xee; 9]]);
    unwraps(&vxlan(4789, &padded), &parsed_v4());
    unwraps(&gre(0, 0x0800, &concat(&[&v4(), &[0xee; 9]])), &parsed_v4());
}

#[test]
fn the_udp_length_bounds_what_a_tunnel_carries() {
    let mut data = vxlan(4789, &ethernet(0x0800, &v4()));
    let udp_len = (data.len() - 34 - 5) as u16;
    data[38..40].copy_from_slice(&udp_len.to_be_bytes());
    let kept = &PAYLOAD[..PAYLOAD.len() - 5];
    unwraps(&data, &Parsed { payload: kept.to_vec(), payload_len: kept.len() as u32, ..parsed_v4() });
    data[38..40].copy_from_slice(&7u16.to_be_bytes());
    is_skipped(LinkType::Ethernet, &data, WireStats { malformed: 1, ..WireStats::default() });
    data[38..40].copy_from_slice(&0u16.to_be_bytes());
    unwraps(&data, &parsed_v4());
}
