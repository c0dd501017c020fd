//! The filter that runs in the kernel, as a pcap-filter(7) expression.
//!
//! It passes whatever might be TCP from or to a watched port; the decoder decides. That includes what `tcp port 6400`
//! misses: frames with VLAN tags, later fragments of IP datagrams, IPv6 with an extension header before TCP (such as the
//! jumbo header of BIG TCP).

use decode::LinkType;

/// How a link type carries VLAN tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tags {
    /// In the frame, or beside it where the kernel has taken off the outer one: `vlan` knows both.
    InFrame,
    /// `vlan` does not know the header, which bears the tag's own protocol number where a tag is left.
    AsProtocol,
    /// Never.
    Absent,
}

const fn tags(link: LinkType) -> Tags {
    match link {
        LinkType::Ethernet => Tags::InFrame,
        LinkType::LinuxSll | LinkType::LinuxSll2 => Tags::AsProtocol,
        LinkType::Null | LinkType::Loop | LinkType::RawIp | LinkType::RawIpv4 | LinkType::RawIpv6 => Tags::Absent,
    }
}

/// Fragments but the first bear no ports. The same of IPv6, where the first two bytes behind the fixed header say what
/// follows a fragment (44) or hop-by-hop (0) header.
const PORTLESS: &str = "(ip proto 6 and ip[6:2] & 0x1fff != 0) or ((ip6[6] = 44 or ip6[6] = 0) and ip6[40] = 6)";

/// VXLAN (also on Linux's old port), GENEVE; IP in IP, IPv6 in IP, GRE with ERSPAN; and fragments of all of these.
const TUNNELS: &str = "udp port 4789 or udp port 8472 or udp port 6081 or ip proto 4 or ip proto 41 or ip proto 47 \
                       or ip6 proto 4 or ip6 proto 41 or ip6 proto 47 or (ip proto 17 and ip[6:2] & 0x1fff != 0)";

/// The expression for packets of these ports, joined with the user's by *and*.
///
/// `vlan` moves the place of the headers for all that stands behind it, so it comes last, and the user's expression is
/// said again behind it: `host 10.0.0.7` then finds the host in tagged frames too. An expression that has its own `vlan`
/// is taken by its word, and stands first.
pub(super) fn expression(ports: &[u16], tunnels: bool, user: Option<&str>, link: LinkType) -> String {
    let mut ours = ports.iter().map(|port| format!("tcp port {port} or ")).collect::<String>();
    ours.push_str(PORTLESS);
    if tunnels {
        ours.push_str(" or ");
        ours.push_str(TUNNELS);
    }
    match user {
        Some(user) if moves_headers(user) => format!("({user}) and ({})", tagged(&ours, link)),
        Some(user) => tagged(&format!("({user}) and ({ours})"), link),
        None => tagged(&ours, link),
    }
}

/// The expression for frames without a tag, with one, and with two.
fn tagged(inner: &str, link: LinkType) -> String {
    match tags(link) {
        Tags::InFrame => format!("({inner}) or (vlan and (({inner}) or (vlan and ({inner}))))"),
        Tags::AsProtocol => format!("({inner}) or ether proto 0x8100 or ether proto 0x88a8"),
        Tags::Absent => inner.to_owned(),
    }
}

/// Whether the expression has a word that moves the place of the headers behind it.
fn moves_headers(expression: &str) -> bool {
    expression
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .any(|word| matches!(word, "vlan" | "mpls" | "pppoes" | "geneve"))
}

/// The longest beginning of a faulty expression, in whole words, that `compiles`; empty where not even one word does.
pub(super) fn sound_beginning(expression: &str, compiles: impl Fn(&str) -> bool) -> &str {
    let ends = expression.char_indices().filter(|(_, letter)| letter.is_whitespace()).map(|(at, _)| at);
    let beginnings = ends.filter_map(|at| expression.get(..at)).collect::<Vec<_>>();
    beginnings.into_iter().rev().find(|beginning| !beginning.trim().is_empty() && compiles(beginning)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use pcap::{Capture, Linktype};

    use super::*;

    /// What a filter does with a frame, as libpcap computes it for a file, where all tags are in the frame.
    fn passes(expression: &str, link: Linktype, frame: &[u8]) -> bool {
        let program = Capture::dead(link).unwrap().compile(expression, true).unwrap();
        program.filter(frame)
    }

    fn ipv4(protocol: u8, fragment_offset: u16, ports: [u16; 2]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 60, 0, 1];
        packet.extend(fragment_offset.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 7, 10, 0, 0, 1]);
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.resize(60, 0);
        packet
    }

    fn ipv6(next: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0, 0, 60, next[0], 64];
        packet.extend([0xfd; 32]);
        packet.extend(&next[1..]);
        packet.resize(100, 0);
        packet
    }

    fn frame(tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for tag in tags {
            frame.extend(tag.to_be_bytes());
            frame.extend([0, 100]);
        }
        frame.extend(ethertype.to_be_bytes());
        frame.extend(packet);
        frame
    }

    const TCP: u8 = 6;

    #[test]
    fn what_may_be_of_a_watched_port_passes_and_nothing_else() {
        let expression = expression(&[6400, 6401], false, None, LinkType::Ethernet);
        let passes = |frame: &[u8]| passes(&expression, Linktype::ETHERNET, frame);
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x8100, 0x8100]] {
            assert!(passes(&frame(tags, 0x0800, &ipv4(TCP, 0, [50_000, 6400]))), "{tags:x?}");
            assert!(passes(&frame(tags, 0x0800, &ipv4(TCP, 0, [6401, 50_000]))), "{tags:x?}");
            assert!(passes(&frame(tags, 0x0800, &ipv4(TCP, 1, [0, 0]))), "a later fragment, {tags:x?}");
            let port = 6400_u16.to_be_bytes();
            assert!(passes(&frame(tags, 0x86dd, &ipv6(&[TCP, 0, 1, port[0], port[1]]))), "{tags:x?}");
            assert!(passes(&frame(tags, 0x86dd, &ipv6(&[44, TCP]))), "a fragment, {tags:x?}");
            assert!(passes(&frame(tags, 0x86dd, &ipv6(&[0, TCP]))), "BIG TCP, {tags:x?}");
            assert!(!passes(&frame(tags, 0x0800, &ipv4(TCP, 0, [50_000, 5432]))), "{tags:x?}");
            assert!(!passes(&frame(tags, 0x0800, &ipv4(17, 0, [50_000, 6400]))), "{tags:x?}");
            assert!(!passes(&frame(tags, 0x86dd, &ipv6(&[TCP, 0, 1, 0, 2]))), "{tags:x?}");
            assert!(!passes(&frame(tags, 0x86dd, &ipv6(&[44, 17]))), "{tags:x?}");
        }
    }

    #[test]
    fn the_users_expression_restricts_tagged_frames_as_well() {
        let expression = expression(&[6400], false, Some("src host 10.0.0.7"), LinkType::Ethernet);
        let mut other = ipv4(TCP, 0, [50_000, 6400]);
        other[15] = 8;
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            let [wanted, unwanted] = [&ipv4(TCP, 0, [50_000, 6400]), &other].map(|packet| frame(tags, 0x0800, packet));
            assert!(passes(&expression, Linktype::ETHERNET, &wanted), "{tags:x?}");
            assert!(!passes(&expression, Linktype::ETHERNET, &unwanted), "{tags:x?}");
        }
    }

    #[test]
    fn a_user_who_says_vlan_means_that_tag() {
        let packet = ipv4(TCP, 0, [50_000, 6400]);
        for (user, expected) in [("vlan 100", true), ("vlan 101", false), ("not vlan", false)] {
            let expression = expression(&[6400], false, Some(user), LinkType::Ethernet);
            assert_eq!(passes(&expression, Linktype::ETHERNET, &frame(&[0x8100], 0x0800, &packet)), expected, "{user}");
        }
    }

    #[test]
    fn tunnels_pass_only_when_asked_for() {
        for (protocol, ports) in [(17, [50_000, 4789]), (17, [50_000, 6081]), (4, [0, 0]), (41, [0, 0]), (47, [0, 0])] {
            for tunnels in [false, true] {
                let expression = expression(&[6400], tunnels, None, LinkType::Ethernet);
                let frame = frame(&[0x8100], 0x0800, &ipv4(protocol, 0, ports));
                assert_eq!(passes(&expression, Linktype::ETHERNET, &frame), tunnels, "{protocol} {ports:?}");
            }
        }
    }

    #[test]
    fn every_link_type_has_its_filter() {
        let packet = ipv4(TCP, 0, [50_000, 6400]);
        let cooked_2 = |protocol: u16, packet: &[u8]| [&protocol.to_be_bytes()[..], &[0; 18], packet].concat();
        let cases = [
            (LinkType::LinuxSll2, Linktype::LINUX_SLL2, cooked_2(0x0800, &packet)),
            (LinkType::LinuxSll2, Linktype::LINUX_SLL2, cooked_2(0x8100, &[&[0, 1, 8, 0][..], &packet].concat())),
            (LinkType::LinuxSll, Linktype::LINUX_SLL, [&[0; 14][..], &[8, 0], &packet].concat()),
            // Linux calls raw IP 12 where files say 101.
            (LinkType::RawIp, Linktype(12), packet.clone()),
            (LinkType::Null, Linktype::NULL, [&2_u32.to_ne_bytes()[..], &packet].concat()),
            (LinkType::Loop, Linktype::LOOP, [&2_u32.to_be_bytes()[..], &packet].concat()),
        ];
        let wrong_port = ipv4(TCP, 0, [50_000, 5432]);
        for (link, pcap_link, frame) in cases {
            for (tunnels, user) in [(false, None), (true, None), (false, Some("less 70000")), (true, Some("ip"))] {
                let passes = |frame: &[u8]| passes(&expression(&[6400], tunnels, user, link), pcap_link, frame);
                assert!(passes(&frame), "{link:?} {tunnels} {user:?}");
                let unwanted = frame.get(..frame.len() - packet.len()).unwrap();
                let is_tagged = unwanted.starts_with(&[0x81]);
                assert_eq!(passes(&[unwanted, &wrong_port].concat()), is_tagged, "{link:?} {tunnels} {user:?}");
            }
        }
    }

    #[test]
    fn a_fault_is_placed_behind_the_last_sound_word() {
        let sound = |expression| {
            sound_beginning(expression, |part| Capture::dead(Linktype::ETHERNET).unwrap().compile(part, true).is_ok())
        };
        assert_eq!(sound("host 10.0.0.1 and prot 5"), "host 10.0.0.1");
        assert_eq!(sound("hots 10.0.0.1"), "");
        assert_eq!(sound(""), "");
    }
}
