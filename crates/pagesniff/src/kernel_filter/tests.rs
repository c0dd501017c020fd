//! The kernel itself runs the programs, on datagrams between two ends of a pair, and says which pass.

use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use proptest::sample::select;

use super::assembler::MOST_INSTRUCTIONS;
use super::terms::{Sample, write};
use super::*;

const PORTS: [u16; 2] = [6400, 6401];

/// A socket with the program.
struct Judge([UnixDatagram; 2]);

impl Judge {
    fn new(program: &[SockFilter]) -> Self {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        attach(&receiver, program).unwrap();
        Self([sender, receiver])
    }

    /// The same without the sample, which is random.
    fn of(frames: Frames, followed: Followed<'_>) -> Self {
        Self::new(&write(frames, &PORTS, followed, Sample::Nothing).assemble().unwrap())
    }

    fn passes(&self, packet: &[u8]) -> bool {
        let Self([sender, receiver]) = self;
        sender.send(packet).unwrap();
        let mut buffer = [0; 2048];
        receiver.recv(&mut buffer).is_ok_and(|length| {
            assert_eq!(&buffer[..length], packet, "whole or not at all");
            true
        })
    }
}

/// A TCP segment in a packet.
#[derive(Debug, Clone)]
struct Made {
    tags: Vec<u16>,
    is_v6: bool,
    options: usize,
    from: (u8, u16),
    to: (u8, u16),
    flags: u8,
    tcp_options: usize,
    payload: Vec<u8>,
    padding: usize,
}

fn address(is_v6: bool, number: u8) -> std::net::IpAddr {
    match is_v6 {
        false => [10, 0, 0, number].into(),
        true => [0xfd00, 0, 0, 0, 0, 0, 7, number.into()].into(),
    }
}

impl Made {
    fn tcp(&self) -> Vec<u8> {
        let mut tcp = [self.from.1.to_be_bytes(), self.to.1.to_be_bytes()].concat();
        tcp.extend([0; 8]);
        tcp.extend([(5 + self.tcp_options as u8) << 4, self.flags, 1, 0, 0, 0, 0, 0]);
        tcp.extend([1].repeat(self.tcp_options * 4));
        tcp.extend(&self.payload);
        tcp
    }

    fn packet(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut packet = match self.is_v6 {
            true => [&[0x60, 0, 0, 0][..], &(tcp.len() as u16).to_be_bytes(), &[6, 64]].concat(),
            false => {
                let header = 20 + self.options * 4;
                let total = (header + tcp.len()) as u16;
                let begin = [&[0x40 | (header / 4) as u8, 0][..], &total.to_be_bytes(), &[0, 1, 0, 0, 64, 6, 0, 0]];
                begin.concat()
            }
        };
        for (number, _) in [self.from, self.to] {
            match address(self.is_v6, number) {
                std::net::IpAddr::V4(address) => packet.extend(address.octets()),
                std::net::IpAddr::V6(address) => packet.extend(address.octets()),
            }
        }
        if !self.is_v6 {
            packet.extend([1].repeat(self.options * 4));
        }
        packet.extend(tcp);
        packet.extend([0].repeat(self.padding));
        packet
    }

    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for tag in &self.tags {
            frame.extend([tag.to_be_bytes(), [0, 100]].concat());
        }
        frame.extend(if self.is_v6 { [0x86, 0xdd] } else { [8, 0] });
        frame.extend(self.packet());
        frame
    }
}

fn payloads() -> impl Strategy<Value = Vec<u8>> {
    let known: [&[u8]; 14] = [
        b"",
        b"d\0\0\0\x30request",
        b"d\0\0\x20\x1aanswer",
        b"Q\0\0\0\x50pagestream_v3 ",
        b"P\0\0\0\x50\0basebackup ",
        b"p\0\0\x01\x00password",
        b"W\0\0\0\x07\0\0\0",
        b"Z\0\0\0\x05I",
        b"X\0\0\0\x04",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"\0\0\x01\x08\0\x03\0\0user\0",
        b"S",
        b"N",
        b"\x16\x03\x01\0\0",
    ];
    prop_oneof![select(known.to_vec()).prop_map(<[u8]>::to_vec), proptest::collection::vec(any::<u8>(), 0..24)]
}

fn made() -> impl Strategy<Value = Made> {
    let end = || (0_u8..3, select(&[6400_u16, 6401, 50_000, 50_001, 5432][..]));
    let tags = proptest::collection::vec(select(&[0x8100_u16, 0x88a8, 0x9100][..]), 0..=2);
    let flags = prop_oneof![Just(0x10_u8), Just(0x18), any::<u8>()];
    let shape = (tags, any::<bool>(), 0_usize..4, 0_usize..4, select(&[0_usize, 6][..]));
    (shape, end(), end(), flags, payloads()).prop_map(
        |((tags, is_v6, options, tcp_options, padding), from, to, flags, payload)| Made {
            tags,
            is_v6,
            options,
            from,
            to,
            flags,
            tcp_options,
            payload,
            padding,
        },
    )
}

/// What is wanted, by another reading of the packet. Bytes behind its end, which fill an Ethernet frame up, are taken for the
/// payload's.
fn is_wanted(packet: &SlicedPacket<'_>, padding: usize, followed: Followed<'_>) -> bool {
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return false };
    let addresses: (std::net::IpAddr, std::net::IpAddr) = match packet.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
        NetSlice::Arp(_) => return false,
    };
    let from = SocketAddr::new(addresses.0, tcp.source_port());
    let to = SocketAddr::new(addresses.1, tcp.destination_port());
    let is_clients = PORTS.contains(&to.port());
    if !is_clients && !PORTS.contains(&from.port()) {
        return false;
    }
    let ends = if is_clients { Ends { client: from, server: to } } else { Ends { client: to, server: from } };
    let is_excluded = match followed {
        Followed::Everything => return true,
        Followed::AllBut(excluded) => excluded.contains(&ends),
        Followed::Nothing => true,
    };
    if !is_excluded || tcp.fin() || tcp.syn() || tcp.rst() {
        return true;
    }
    let padded = [tcp.payload(), &vec![0; padding]].concat();
    let is_message = |tags: &dyn Fn(u8) -> bool| matches!(padded[..], [tag, 0, 0, _, ..] if tags(tag));
    let is_beginning = |tag: u8| tag != b'd' && (b'1'..=b'z').contains(&tag);
    match (followed, is_clients) {
        (Followed::Nothing, true) => {
            let is_start_up = matches!(padded[..], [0, 0, _, _, 0, 3, ..] | [0, 0, _, _, 4, 0xd2, ..]);
            is_start_up || is_message(&is_beginning)
        }
        (Followed::Nothing, false) => match tcp.payload() {
            [byte] => b"SNG".contains(byte),
            _ => is_message(&is_beginning),
        },
        (_, true) => is_message(&|tag| matches!(tag, b'Q' | b'P')),
        (_, false) => false,
    }
}

fn excluded() -> Vec<Ends> {
    let ends = |is_v6, client: (u8, u16), server: (u8, u16)| Ends {
        client: SocketAddr::new(address(is_v6, client.0), client.1),
        server: SocketAddr::new(address(is_v6, server.0), server.1),
    };
    vec![
        ends(false, (1, 50_000), (2, 6400)),
        ends(false, (0, 50_000), (2, 6400)),
        ends(false, (1, 50_001), (2, 6400)),
        ends(false, (1, 50_001), (0, 6401)),
        ends(true, (1, 50_000), (2, 6400)),
        ends(true, (2, 5432), (1, 6401)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_passes_is_what_another_reading_wants(made in made()) {
        let excluded = excluded();
        for followed in [Followed::Nothing, Followed::AllBut(&excluded), Followed::Everything] {
            let frame = made.frame();
            let wanted = is_wanted(&SlicedPacket::from_ethernet(&frame).unwrap(), made.padding, followed);
            prop_assert_eq!(Judge::of(Frames::Ethernet, followed).passes(&frame), wanted, "{:?}", followed);
            let packet = made.packet();
            let wanted = is_wanted(&SlicedPacket::from_ip(&packet).unwrap(), made.padding, followed);
            prop_assert_eq!(Judge::of(Frames::Ip, followed).passes(&packet), wanted, "{:?}", followed);
        }
    }

    /// Whatever the packet: what narrower programs pass wider ones do, and no program passes what libpcap's does not.
    #[test]
    fn no_program_passes_more_than_libpcaps(mut made in made(), at in 0_usize..60, byte in any::<u8>(), cut in 0_usize..30) {
        made.tags.retain(|&tag| tag != 0x9100);
        let mut frame = made.frame();
        if let Some(place) = frame.get_mut(12 + at) {
            *place = byte;
        }
        // Never within what is looked at before the payload: such a packet is no TCP, and programs may differ in when they see it.
        let payload_bytes = made.payload.len() + made.padding;
        frame.truncate(frame.len() - payload_bytes.min(cut));
        let ports = PORTS.map(|port| format!("tcp port {port}")).join(" or ");
        let inner = format!("{ports} or (ip proto 6 and ip[6:2] & 0x1fff != 0) or ((ip6[6] = 44 or ip6[6] = 0) and ip6[40] = 6)");
        let expression = format!("({inner}) or (vlan and (({inner}) or (vlan and ({inner}))))");
        let libpcaps = pcap::Capture::dead(pcap::Linktype::ETHERNET).unwrap().compile(&expression, true).unwrap();
        let excluded = excluded();
        let [idle, some, all] = [Followed::Nothing, Followed::AllBut(&excluded), Followed::Everything]
            .map(|followed| Judge::of(Frames::Ethernet, followed).passes(&frame));
        prop_assert_eq!(all, libpcaps.filter(&frame));
        prop_assert!(all || !(some || idle));
    }
}

#[test]
fn of_what_clients_send_one_packet_in_256_passes_and_nothing_of_servers() {
    let judge = Judge::new(&program(Frames::Ip, &PORTS, Followed::Nothing).unwrap());
    let from_client = Made {
        tags: Vec::new(),
        is_v6: false,
        options: 0,
        from: (1, 50_000),
        to: (2, 6400),
        flags: 0x18,
        tcp_options: 3,
        payload: b"d\0\0\0\x30request".to_vec(),
        padding: 0,
    };
    let from_server = Made { from: from_client.to, to: from_client.from, ..from_client.clone() };
    let passed = |made: &Made| (0..100_000).filter(|_| judge.passes(&made.packet())).count();
    assert!((250..550).contains(&passed(&from_client)));
    assert_eq!(passed(&from_server), 0);
}

#[test]
fn the_kernel_takes_every_program_and_those_too_long_are_none() {
    let ends = |count: u32, is_v6: bool| -> Vec<Ends> {
        let client = |number: u32| SocketAddr::new(address(is_v6, (number % 7) as u8), (number / 3) as u16 + 30_000);
        (0..count)
            .map(|number| Ends { client: client(number), server: SocketAddr::new(address(is_v6, 9), 6400) })
            .collect()
    };
    for frames in [Frames::Ethernet, Frames::Ip, Frames::Cooked] {
        for (count, is_v6, fits) in [(0, false, true), (250, false, true), (100, true, true), (5_000, false, false)] {
            let excluded = ends(count, is_v6);
            let program = program(frames, &PORTS, Followed::AllBut(&excluded));
            assert_eq!(program.is_some(), fits, "{count}");
            if let Some(program) = program {
                assert!(program.len() <= MOST_INSTRUCTIONS);
                Judge::new(&program);
            }
        }
    }
    assert_eq!([LinkType::Ethernet, LinkType::Null].map(Frames::of), [Some(Frames::Ethernet), None]);
}
