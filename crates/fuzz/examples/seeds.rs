//! Makes the seed corpus from the golden captures: `cargo run --example seeds`, in this directory.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use decode::wire::Wire;
use decode::{LinkType, Packet, WireStats};
use fuzz::segment::LINKS;
use pagesniff::capture::Files;
use record::{Lsn, Pairing, Protocol, Record, RelTag, Status, Target, Timestamp};
use trace::{TraceWriter, WriterConfig};

fn main() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let save = |target: &str, name: &str, content: &[u8]| {
        let directory = seeds.join(target);
        fs::create_dir_all(&directory).expect("a directory for the seeds");
        fs::write(directory.join(name), content).expect("room for a seed");
    };
    for name in [
        "clean_v3",
        "fragments",
        "fragments_ipv6",
        "ipv6",
        "null_loopback",
        "raw_ip",
        "sll",
        "sll2",
        "vlan_qinq",
        "vxlan",
    ] {
        save("packets", name, &packets(&golden(name)));
    }
    for name in [
        "basebackup_epoch",
        "clean_v1",
        "clean_v2",
        "clean_v3",
        "errors_tag103",
        "other_commands",
        "password_auth",
        "ssl_refused",
        "tls",
    ] {
        save("frames", name, &turns(&golden(name)));
    }
    for name in [
        "bare_fin",
        "fragments",
        "joined_midstream_v2",
        "joined_midstream_v3",
        "port_reuse",
        "snaplen_256",
        "snaplen_128_v2",
        "tls",
    ] {
        save("decoder", name, &steps(&golden(name)));
    }
    for (name, content) in sessions() {
        save("pagestream", name, &content);
    }
    for (name, content) in traces() {
        save("trace_reader", name, &content);
    }
    for (name, content) in captures() {
        save("capture_files", name, &content);
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../pcaps/{name}.pcap"))
}

/// Calls `look` with each packet of a capture, until that says that it is enough.
fn each(path: &Path, mut look: impl FnMut(&Packet<'_>) -> bool) {
    let mut files = Files::open(&[path.to_path_buf()]).expect("a golden capture");
    while let Ok(Some(packet)) = files.next_packet() {
        if !look(&packet) {
            return;
        }
    }
}

fn place_of(link: LinkType) -> u8 {
    LINKS.iter().position(|other| *other == link).unwrap_or(0) as u8
}

fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u16).to_be_bytes());
    out.extend(bytes);
}

/// The first packets of a capture, without most of their payload.
fn packets(path: &Path) -> Vec<u8> {
    let (mut out, mut left) = (Vec::new(), 16);
    each(path, |packet| {
        let kept = packet.data.len().min(220);
        let cut = (packet.wire_len as usize - kept).min(255) as u8;
        out.extend([place_of(packet.link), cut]);
        put_counted(&mut out, &packet.data[..kept]);
        left -= 1;
        left > 0
    });
    out
}

/// What the two ends of a capture's first connection say, one segment a turn.
fn turns(path: &Path) -> Vec<u8> {
    const ENOUGH_BYTES: usize = 10_000;
    let (mut wire, mut stats, mut client) = (Wire::new(0), WireStats::default(), None);
    let mut out = vec![0, 1];
    each(path, |packet| {
        if let Some(segment) = wire.parse(packet, &mut stats) {
            let client = *client.get_or_insert(segment.source);
            let side = if segment.source == client { 0 } else { 0x80 };
            if !segment.payload.is_empty() && [segment.source, segment.destination].contains(&client) {
                out.push(side | 1);
                put_counted(&mut out, segment.payload);
            }
        }
        out.len() < ENOUGH_BYTES
    });
    out
}

/// A capture's packets as they are, but for most of the pages.
fn steps(path: &Path) -> Vec<u8> {
    let (mut out, mut left) = (vec![1], 40);
    each(path, |packet| {
        let kept = packet.data.len().min(200);
        out.extend([0, place_of(packet.link)]);
        out.extend(
            (packet.wire_len as usize - kept).min(0xffff).to_be_bytes().last_chunk::<2>().expect("two of eight bytes"),
        );
        put_counted(&mut out, &packet.data[..kept]);
        left -= 1;
        left > 0
    });
    out
}

/// Steps of `pagestream`, see there.
mod step {
    pub const ASK: u8 = 0;
    pub const CLIENT: u8 = 1;
    pub const ANSWER: u8 = 2;
    pub const SERVER: u8 = 3;
    pub const ACKNOWLEDGE: u8 = 4;
    pub const WAIT: u8 = 5;
    pub const RESEND: u8 = 6;
    pub const END: u8 = 7;
    pub const ALL: u8 = 0x1f << 3;
    pub const SERVERS: u8 = 1 << 3;
    pub const fn times(count: u8) -> u8 {
        (count - 1) << 3
    }
    pub const SEEN: u8 = 0;
    pub const DROPPED: u8 = 1;
    pub const DOUBLED: u8 = 2;
    pub const HALF: u8 = 4 << 2;
    pub const LOST: u8 = 0x20;
    pub const SWAPPED: u8 = 0x40;
}

fn sessions() -> Vec<(&'static str, Vec<u8>)> {
    use step::*;
    let exchange = |client: u8, server: u8| {
        [
            &[ASK | times(4), 0, 4, 0x28, 8][..],
            &[CLIENT | ALL, client],
            &[ANSWER | times(4), 0x14, 0, 0x10, 3],
            &[SERVER | ALL, server],
            &[ACKNOWLEDGE, SEEN],
        ]
        .concat()
    };
    let end = [END, SEEN, END | SERVERS, SEEN];
    let mut sessions = Vec::new();
    for (name, settings) in [("clean_v3", 0), ("clean_v2", 1), ("clean_v1", 2)] {
        sessions.push((name, [&[settings][..], &exchange(SEEN, DOUBLED), &exchange(SEEN, SEEN), &end].concat()));
    }
    for (name, settings, client, server) in [
        ("requests_dropped_v3", 4, DROPPED, SEEN),
        ("requests_dropped_v2", 1, DROPPED, SEEN),
        ("answers_dropped_v3", 0, SEEN, DROPPED),
        ("answers_dropped_v2", 5, SEEN, DROPPED),
        ("requests_cut_v3", 0, HALF, SEEN),
        ("requests_cut_v2", 1, HALF, SEEN),
        ("answers_cut_v3", 0, SEEN, HALF),
        ("swapped_v3", 4, SWAPPED, SEEN),
    ] {
        let waits = [WAIT | 4 << 3];
        let parts =
            [&[settings][..], &exchange(SEEN, SEEN), &exchange(client, server), &waits, &exchange(SEEN, SEEN), &end];
        sessions.push((name, parts.concat()));
    }
    for (name, settings) in [("joined_v3", 0x20), ("joined_v2", 0x29)] {
        sessions.push((name, [&[settings][..], &exchange(SEEN, SEEN), &exchange(SEEN, SEEN), &end].concat()));
    }
    let lost = [
        &[4][..],
        &[ASK | times(2), 0, 0x48, CLIENT | 5 << 3, LOST, CLIENT | ALL, SEEN],
        &[ACKNOWLEDGE | SERVERS, SEEN, WAIT | 3 << 3, RESEND, SEEN],
        &[ANSWER | times(2), 0x14, 0x14, SERVER | 12 << 3, LOST, SERVER | ALL, SEEN, ACKNOWLEDGE, SEEN],
        &[RESEND | SERVERS, SEEN, ACKNOWLEDGE, SEEN, WAIT | 7 << 3],
        &end,
    ];
    sessions.push(("lost_on_the_wire", lost.concat()));
    sessions
}

fn sample(number: u32) -> Record {
    Record {
        time: Timestamp(1_796_094_784_000_000_000 + u64::from(number) * 300_000),
        latency_ns: Some(200_000),
        transfer_ns: Some(7_000),
        depth: Some(1),
        owner: None,
        attribution: None,
        target: Target::GetPage {
            rel: RelTag { spcnode: 1663, dbnode: 16384, relnode: 16400, forknum: 0 },
            blkno: number,
        },
        request_lsn: Lsn::MAX,
        not_modified_since: Lsn(0x1_6eff_3f30),
        status: Status::Ok,
        page_lsn: Some(Lsn(0x1_6eff_3f30)),
        page_zero: Some(false),
        page_hash: Some(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        client: ([10, 0, 0, 7], 40_007).into(),
        server: ([10, 0, 0, 1], 6400).into(),
        protocol: Protocol::V3,
        reqid: Some(20_001 << 32 | u64::from(number)),
        backend_pid: Some(20_001),
        seq: Some(number.into()),
        epoch: None,
        pairing: Pairing::Exact,
    }
}

fn traces() -> Vec<(&'static str, Vec<u8>)> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let now = Timestamp(1_796_094_784_000_000_000);
    let mut writer = TraceWriter::open(WriterConfig::new(directory.path(), "seed")).expect("a directory to write to");
    for number in 0..60 {
        writer.append(&sample(number), now).expect("room for a trace");
        if number % 25 == 24 {
            writer.flush(now).expect("room for a trace");
        }
    }
    writer.flush(now).expect("room for a trace");
    let path = writer.files().next().expect("a trace").0.to_owned();
    let file = fs::read(path).expect("a trace");
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("four bytes")) as usize;
    // The same, as parts for a forger.
    let mut parts = vec![1];
    let mut at = number(12);
    put_counted(&mut parts, &file[20..at]);
    while at < file.len() {
        let end = at + number(at + 4);
        parts.push(file[at + 12]);
        parts.extend((number(at + 16) as u16).to_be_bytes());
        parts.extend((number(at + 20) as u16).to_be_bytes());
        parts.push(0x30);
        put_counted(&mut parts, &file[at + 40..end]);
        at = end;
    }
    let varied: Vec<u8> =
        [2, 40].into_iter().chain((0..900_u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 21) as u8)).collect();
    vec![("file", [&[0][..], &file].concat()), ("forged", parts), ("damaged", varied)]
}

fn captures() -> Vec<(&'static str, Vec<u8>)> {
    let first = |path: PathBuf, bytes: usize| {
        let file = fs::read(path).expect("a golden capture");
        file[..file.len().min(bytes)].to_vec()
    };
    let plain = first(golden("clean_v3"), 2_500);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&plain).expect("memory");
    let gzip = gzip.finish().expect("memory");
    let zstd = zstd::encode_all(plain.as_slice(), 3).expect("memory");
    let mut two = vec![1];
    put_counted(&mut two, &first(golden("sll"), 1_500));
    two.extend(first(golden("sll2"), 1_500));
    let one = |content: Vec<u8>| [vec![0], content].concat();
    vec![
        ("pcap", one(plain)),
        ("big_endian", one(first(golden("pcap_big_endian"), 1_500))),
        ("microseconds", one(first(golden("pcap_microseconds"), 1_500))),
        ("pcapng", one(first(golden("pcapng_mixed").with_extension("pcapng"), 6_000))),
        ("gzip", one(gzip)),
        ("zstd", one(zstd)),
        ("two", two),
    ]
}
