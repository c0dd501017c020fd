//! What is composed, read back by other code: etherparse for the headers, and a walk of the streams for the truth.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use clap::Parser;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use trafficgen::compose::{ComposeOptions, compose_into};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: ComposeOptions,
}

fn compose(options: &str, truth: Option<&Path>) -> Vec<u8> {
    let words = ["compose"].into_iter().chain(options.split_whitespace()).chain(["--out", "-"]);
    let mut options = Line::try_parse_from(words).unwrap().options;
    options.output.truth = truth.map(Path::to_path_buf);
    let mut bytes = Vec::new();
    compose_into(&mut bytes, options).unwrap();
    bytes
}

/// The packets of a little-endian pcap file: time and bytes, which must be whole.
fn packets(file: &[u8]) -> Vec<(u64, &[u8])> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), 0xa1b2_3c4d);
    let mut at = 24;
    let mut packets = Vec::new();
    while at < file.len() {
        let (seconds, ns, captured, wire) = (word(at), word(at + 4), word(at + 8), word(at + 12));
        assert_eq!(captured, wire);
        packets.push((u64::from(seconds) * 1_000_000_000 + u64::from(ns), &file[at + 16..at + 16 + captured as usize]));
        at += 16 + captured as usize;
    }
    packets
}

const LOSSY: &str = "--connections 5 --tenants 2 --protocol mixed --requests 400 --loss 0.02 --reorder 0.02 \
                     --retransmit 0.02 --duplicate 0.02 --drop 0.01 --fragment 0.02 --also basebackup --also tls";

#[test]
fn the_same_options_give_the_same_bytes_and_another_seed_others() {
    let first = compose(LOSSY, None);
    assert!(first == compose(LOSSY, None));
    assert!(first != compose(&format!("{LOSSY} --seed 2"), None));
}

#[test]
fn packets_are_in_the_order_of_time() {
    let file = compose(LOSSY, None);
    assert!(packets(&file).is_sorted_by_key(|(time, _)| *time));
}

#[test]
fn headers_and_checksums_hold_before_another_reader() {
    for options in ["", "--ipv6", "--vlan 5 --vlan 6", "--mtu 65000 --depth 64", "--loss 0.05", "--wrap-after 5000"] {
        let file = compose(&format!("--requests 100 {options}"), None);
        let mut segments = 0;
        for (_, bytes) in packets(&file) {
            let packet = SlicedPacket::from_ethernet(bytes).unwrap();
            let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { panic!("no TCP with {options}") };
            let expected = match packet.net.as_ref().unwrap() {
                NetSlice::Ipv4(ip) => {
                    assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
                    tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap()
                }
                NetSlice::Ipv6(ip) => tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap(),
                NetSlice::Arp(_) => panic!("an ARP packet"),
            };
            assert_eq!(tcp.checksum(), expected, "with {options}");
            segments += 1;
        }
        assert!(segments > 100);
    }
}

/// Both directions of each connection, by the client's port, from captures in which nothing is lost or out of order.
fn streams(file: &[u8]) -> HashMap<u16, [Vec<u8>; 2]> {
    let mut streams: HashMap<u16, [Vec<u8>; 2]> = HashMap::new();
    let mut next: HashMap<(u16, usize), u32> = HashMap::new();
    for (_, bytes) in packets(file) {
        let packet = SlicedPacket::from_ethernet(bytes).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
        let from_client = tcp.destination_port() == 6400;
        let (port, side) = if from_client { (tcp.source_port(), 0) } else { (tcp.destination_port(), 1) };
        if tcp.syn() {
            next.insert((port, side), tcp.sequence_number().wrapping_add(1));
            continue;
        }
        if tcp.payload().is_empty() {
            continue;
        }
        let expected = next.get_mut(&(port, side)).unwrap();
        assert_eq!(tcp.sequence_number(), *expected);
        *expected = expected.wrapping_add(tcp.payload().len() as u32);
        streams.entry(port).or_default()[side].extend_from_slice(tcp.payload());
    }
    streams
}

/// One direction: its initial sequence number, and its segments by their offset.
type Pieces = (u32, BTreeMap<u32, Vec<u8>>);

/// Both directions of each connection, put together from whatever order its packets come in.
fn reassembled(file: &[u8]) -> HashMap<u16, [Vec<u8>; 2]> {
    let mut pieces: HashMap<(u16, usize), Pieces> = HashMap::new();
    for (_, bytes) in packets(file) {
        let packet = SlicedPacket::from_ethernet(bytes).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
        let from_client = tcp.destination_port() == 6400;
        let (port, side) = if from_client { (tcp.source_port(), 0) } else { (tcp.destination_port(), 1) };
        let (first, parts) = pieces.entry((port, side)).or_default();
        if tcp.syn() {
            *first = tcp.sequence_number().wrapping_add(1);
        } else if !tcp.payload().is_empty() {
            let offset = tcp.sequence_number().wrapping_sub(*first);
            let known = parts.entry(offset).or_insert_with(|| tcp.payload().to_vec());
            assert_eq!(known, tcp.payload(), "a segment sent again says the same");
        }
    }
    let mut streams: HashMap<u16, [Vec<u8>; 2]> = HashMap::new();
    for ((port, side), (_, parts)) in pieces {
        let stream = &mut streams.entry(port).or_default()[side];
        for (offset, part) in parts {
            assert_eq!(offset as usize, stream.len(), "a hole");
            stream.extend(part);
        }
    }
    streams
}

#[test]
fn whatever_the_wire_does_the_applications_say_the_same() {
    let options = "--requests 300 --connections 3 --protocol mixed --kinds getpage=1";
    let clean = streams(&compose(options, None));
    for trouble in [
        "--loss 0.03",
        "--loss 0.03 --view client",
        "--reorder 0.1",
        "--retransmit 0.1 --duplicate 0.1",
        "--wrap-after 100000",
        "--receive-buffer 20000 --stall-after 10",
    ] {
        assert!(reassembled(&compose(&format!("{options} {trouble}"), None)) == clean, "with {trouble}");
    }
}

#[test]
fn a_client_that_does_not_read_closes_its_window_and_is_probed() {
    let file = compose("--requests 20 --kinds getpage=1 --receive-buffer 20000 --stall-after 4 --stall-time 1s", None);
    let mut closed_at = None;
    let mut probes = 0;
    for (time, bytes) in packets(&file) {
        let packet = SlicedPacket::from_ethernet(bytes).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { panic!("no TCP") };
        let from_client = tcp.destination_port() == 6400;
        if from_client && tcp.window_size() == 0 && !tcp.rst() {
            closed_at.get_or_insert(time);
        }
        let waited = closed_at.is_some_and(|at| time > at + 150_000_000 && time < at + 900_000_000);
        probes += u32::from(waited && !from_client && tcp.payload().is_empty());
    }
    assert!(closed_at.is_some());
    // After 200 and 400 ms more.
    assert_eq!(probes, 2);
}

/// The bodies of the CopyData messages of one direction.
fn copy_data(stream: &[u8], has_startup: bool) -> Vec<&[u8]> {
    let length = |at: usize| u32::from_be_bytes(stream[at..at + 4].try_into().unwrap()) as usize;
    let mut at = if has_startup { length(0) } else { 0 };
    let mut bodies = Vec::new();
    while at < stream.len() {
        let end = at + 1 + length(at + 1);
        if stream[at] == b'd' {
            bodies.push(&stream[at + 5..end]);
        }
        at = end;
    }
    assert_eq!(at, stream.len());
    bodies
}

fn rows(directory: &Path, file: &str) -> Vec<HashMap<String, String>> {
    let text = fs::read_to_string(directory.join(file)).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|fields| {
            let fields: Vec<String> = fields.collect();
            assert_eq!(fields.len(), names.len());
            names.iter().cloned().zip(fields).collect()
        })
        .collect()
}

#[test]
fn the_truth_is_what_an_independent_walk_of_the_streams_finds() {
    let directory = tempfile::tempdir().unwrap();
    let options = "--connections 6 --tenants 3 --protocol mixed --requests 600 --error-rate 0.1 --zero-rate 0.1 \
                   --kinds getpage=10,exists=1,nblocks=1,dbsize=1,slru=1 --replica-every 2";
    let file = compose(options, Some(directory.path()));
    let streams = streams(&file);
    let (asked, served) = (rows(directory.path(), "truth.csv"), rows(directory.path(), "server_truth.csv"));
    assert_eq!((asked.len(), served.len()), (600, 600));
    let (mut pages, mut errors) = (0, 0);
    for (port, [client, server]) in &streams {
        let (requests, answers) = (copy_data(client, true), copy_data(server, false));
        let rows: Vec<_> = asked.iter().filter(|row| row["local_port"] == port.to_string()).collect();
        assert_eq!((requests.len(), answers.len()), (rows.len(), rows.len()));
        let command = format!("{} {}\0", rows[0]["tenant"], rows[0]["timeline"]);
        assert!(client.windows(command.len()).any(|window| window == command.as_bytes()));
        for (place, row) in rows.iter().enumerate() {
            let (request, answer) = (requests[place], answers[place]);
            assert_eq!(row["seq"], place.to_string());
            assert_eq!(row["resp_len"], answer.len().to_string());
            let long = |at: usize| u64::from_be_bytes(request[at..at + 8].try_into().unwrap());
            let word = |at: usize| u32::from_be_bytes(request[at..at + 4].try_into().unwrap()).to_string();
            let header = match row["proto"].as_str() {
                "v1" => 10,
                "v2" => 17,
                _ => 25,
            };
            if header == 25 {
                assert_eq!(row["reqid"], long(1).to_string());
                assert_eq!(answer[1..25], request[1..25]);
            }
            if header > 10 {
                assert_eq!(row["request_lsn_hex"], format!("{:#018x}", long(header - 16)));
            }
            let promise = long(header - 8);
            assert_eq!(row["not_modified_since"], format!("{:X}/{:X}", promise >> 32, promise & 0xFFFF_FFFF));
            if row["kind"] == "getpage" {
                let names = ["spcnode", "dbnode", "relnode"];
                for (field, at) in names.iter().zip([0, 4, 8]) {
                    assert_eq!(row[*field], word(header + at));
                }
                assert_eq!((&row["forknum"], &row["blkno"]), (&request[header + 12].to_string(), &word(header + 13)));
            }
            match row["resp_kind"].as_str() {
                "error" => {
                    assert_eq!((answer[0], answer.last()), (103, Some(&0)));
                    errors += 1;
                }
                "page" => {
                    let page = &answer[answer.len() - 8192..];
                    assert_eq!(row["xxh3_64"], format!("{:016x}", xxhash_rust::xxh3::xxh3_64(page)));
                    pages += 1;
                }
                _ => {}
            }
        }
    }
    assert!(pages > 300 && errors > 30, "{pages} pages, {errors} errors");
}

#[test]
fn times_of_the_truth_follow_one_another() {
    let directory = tempfile::tempdir().unwrap();
    compose("--connections 4 --requests 400 --loss 0.03 --reorder 0.03", Some(directory.path()));
    let (asked, served) = (rows(directory.path(), "truth.csv"), rows(directory.path(), "server_truth.csv"));
    let server: HashMap<&String, &HashMap<String, String>> = served.iter().map(|row| (&row["reqid"], row)).collect();
    let time = |row: &HashMap<String, String>, name: &str| row[name].parse::<u64>().unwrap();
    for row in &asked {
        let other = server[&row["reqid"]];
        let times = [
            time(row, "t_send_ns"),
            time(row, "t_flush_ns"),
            time(other, "t_parsed_ns"),
            time(other, "t_write_ns"),
            time(row, "t_recv_ns"),
        ];
        assert!(times.is_sorted(), "{times:?}");
    }
}

#[test]
fn loss_is_seen_twice_near_the_sender_and_once_far_from_it() {
    let options = "--requests 200 --kinds getpage=1 --loss 0.05 --seed 7";
    let near = packets(&compose(options, None)).len();
    let far = packets(&compose(&format!("{options} --view client"), None)).len();
    assert_ne!(near, far);
    let clean = packets(&compose("--requests 200 --kinds getpage=1 --seed 7", None)).len();
    assert!(near > clean);
}

#[test]
fn a_capture_joined_late_begins_where_it_says() {
    let whole = compose("--requests 300 --connections 3", None);
    let joined = compose("--requests 300 --connections 3 --join-at 0.5", None);
    let (whole, joined) = (packets(&whole), packets(&joined));
    let first = joined[0].0;
    assert!(first > whole[0].0);
    let rest: Vec<_> = whole.into_iter().filter(|(time, _)| *time >= first).collect();
    assert_eq!(rest, joined);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for options in ["--link raw --vlan 1", "--link sll --link raw", "--vxlan 1 --mtu 65535", "--ipv6 --mtu 600"] {
        let words = ["compose"].into_iter().chain(options.split_whitespace()).chain(["--out", "-"]);
        let options_parsed = Line::try_parse_from(words).unwrap().options;
        assert!(compose_into(Vec::new(), options_parsed).is_err(), "{options}");
    }
}
