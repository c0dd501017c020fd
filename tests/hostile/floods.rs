//! Floods between the packets of real sessions.

use decode::{Config, Decoder, Packet};
use record::{Record, TenantId};
use trafficgen::golden::Golden;

use crate::counting;
use crate::forged::{ACK, FIN, Forged, RST, SYN, packet};
use crate::rng::Rng;

/// Real sessions that the floods fall upon.
const REAL: &str = "--connections 4 --tenants 2 --requests 400 --depth 8 --kinds getpage=1";

/// Forged packets between two real ones.
const FORGED_BETWEEN: usize = 60;

/// How long a flood with real traffic takes; it spreads over this time, so that time-outs play their part.
const STEP_NS: u64 = 100_000;

/// What a flood forges next, given its ordinal.
type Flood = fn(u64, &mut Rng, &mut Vec<u8>) -> Forged;

fn client_of(number: u64) -> (u32, u16) {
    (0xac10_0000 | (number >> 15) as u32 & 0xf_ffff, 1024 + (number & 0x7fff) as u16)
}

fn from_client(number: u64, seq: u32, flags: u8) -> Forged {
    let (client, port) = client_of(number);
    Forged { client, port, is_from_client: true, seq, ack: 1, flags }
}

fn syns(number: u64, _: &mut Rng, payload: &mut Vec<u8>) -> Forged {
    payload.clear();
    from_client(number, 7, SYN)
}

/// Connections that begin and never shake hands.
fn half_open(number: u64, rng: &mut Rng, payload: &mut Vec<u8>) -> Forged {
    payload.clear();
    payload.extend([0, 0, 0, 200, 0, 3, 0, 0]);
    payload.resize(8 + rng.below(150), b'x');
    from_client(number, 8, ACK)
}

/// Segments far ahead in the stream of a few connections: holes that are never filled.
fn holes(number: u64, rng: &mut Rng, payload: &mut Vec<u8>) -> Forged {
    payload.resize(1400, 0);
    payload.iter_mut().for_each(|byte| *byte = rng.bits() as u8);
    from_client(number % 50, (rng.bits() as u32) & 0x1fff_ffff, ACK)
}

/// Overlapping garbage at every offset of one window.
fn overlaps(number: u64, rng: &mut Rng, payload: &mut Vec<u8>) -> Forged {
    payload.resize(1 + rng.below(1400), 0);
    payload.iter_mut().for_each(|byte| *byte = rng.bits() as u8);
    from_client(number % 8, 100_000 + rng.below(200_000) as u32, ACK)
}

/// Messages that claim lengths up to 4 GiB.
fn lengths(number: u64, rng: &mut Rng, payload: &mut Vec<u8>) -> Forged {
    payload.clear();
    payload.extend([b'd', 0xff, 0xff, 0xff, rng.bits() as u8, 2]);
    payload.resize(200, 1);
    let mut forged = from_client(number % 3000, rng.bits() as u32 & 0xffff, ACK);
    forged.is_from_client = rng.chance(0.5);
    forged
}

/// Resets, closes and acknowledgements out of the blue.
fn control(number: u64, rng: &mut Rng, payload: &mut Vec<u8>) -> Forged {
    payload.clear();
    let flags = [RST, RST | ACK, FIN | ACK, ACK, SYN | ACK, SYN | FIN | RST][rng.below(6)];
    let mut forged = from_client(number % 5000, rng.bits() as u32, flags);
    (forged.ack, forged.is_from_client) = (rng.bits() as u32, rng.chance(0.5));
    forged
}

/// Pagestreams of tenants that do not exist, each with requests that nobody answers.
fn fake_tenants(number: u64, rng: &mut Rng, payload: &mut Vec<u8>) -> Forged {
    payload.clear();
    match number % 4 {
        0 => payload.extend(b"\0\0\0\x08\0\x03\0\0"),
        1 => {
            let text = format!("pagestream_v3 {:032x} {:032x}\0", rng.bits(), rng.bits());
            payload.push(b'Q');
            payload.extend((text.len() as u32 + 4).to_be_bytes());
            payload.extend(text.as_bytes());
        }
        _ => {
            for _ in 0..30 {
                payload.extend([b'd', 0, 0, 0, 46, 2]);
                payload.extend((0..41).map(|_| rng.bits() as u8));
            }
        }
    }
    let offset = [1, 9, 9 + 85, 9 + 85 + 1410][(number % 4) as usize];
    from_client(number / 4, offset, ACK)
}

/// The packets of a pcap file in memory, little-endian with nanoseconds.
pub(crate) fn packets(file: &[u8]) -> Vec<Packet<'_>> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut found) = (24, Vec::new());
    while at < file.len() {
        let time_ns = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        let end = at + 16 + word(at + 8) as usize;
        found.push(packet(time_ns, &file[at + 16..end]));
        at = end;
    }
    found
}

pub(crate) fn composed(options: &'static str) -> Vec<u8> {
    let mut file = Vec::new();
    Golden { name: "composed", purpose: "", options }.compose_into(&mut file).unwrap();
    file
}

/// What a flood did.
struct Outcome {
    peak_bytes: isize,
    most_accounted_bytes: usize,
    kept: usize,
    stats: decode::Stats,
}

fn flood(real: &[Packet<'_>], forge: Flood, limit_bytes: usize) -> Outcome {
    let tenants: Vec<TenantId> = real_tenants(real);
    let mut kept = 0;
    let mut sink = |record: &Record| {
        let is_real = record.owner.is_some_and(|owner| tenants.contains(&owner.tenant));
        kept += usize::from(is_real && record.latency_ns.is_some());
    };
    let (mut rng, mut payload, mut frame) = (Rng::new(1), Vec::with_capacity(2048), Vec::with_capacity(2048));
    let (mut number, mut most_accounted_bytes) = (0, 0);
    let before = counting::live_bytes();
    counting::reset_peak();
    let mut decoder = Decoder::new(Config { memory_limit_bytes: limit_bytes, ..Config::default() });
    for real in real {
        decoder.packet(real, &mut sink);
        for _ in 0..FORGED_BETWEEN {
            let forged = forge(number, &mut rng, &mut payload);
            number += 1;
            decoder.packet(&packet(real.time.0, forged.frame(&payload, &mut frame)), &mut sink);
            most_accounted_bytes = most_accounted_bytes.max(decoder.memory_bytes());
        }
    }
    decoder.finish(&mut sink);
    let (peak_bytes, stats) = (counting::peak_bytes() - before, *decoder.stats());
    Outcome { peak_bytes, most_accounted_bytes, kept, stats }
}

fn real_tenants(real: &[Packet<'_>]) -> Vec<TenantId> {
    let mut records: Vec<Record> = Vec::new();
    let mut decoder = Decoder::new(Config::default());
    real.iter().for_each(|packet| decoder.packet(packet, &mut records));
    decoder.finish(&mut records);
    records.iter().filter_map(|record| record.owner.map(|owner| owner.tenant)).collect()
}

/// The real sessions, slowed down so that they last as long as the flood.
fn slowed(file: &[u8]) -> Vec<Packet<'_>> {
    let mut real = packets(file);
    let first = real.first().map_or(0, |packet| packet.time.0);
    for (at, packet) in real.iter_mut().enumerate() {
        packet.time.0 = first + at as u64 * STEP_NS;
    }
    real
}

#[test]
fn no_flood_takes_more_memory_than_allowed_or_drives_out_what_is_real() {
    const FLOODS: [(&str, Flood); 7] = [
        ("SYNs", syns),
        ("half-open connections", half_open),
        ("segments behind holes", holes),
        ("overlapping garbage", overlaps),
        ("lengths of 4 GiB", lengths),
        ("resets and closes", control),
        ("fake tenants", fake_tenants),
    ];
    let file = composed(REAL);
    let real = slowed(&file);
    let all = flood(&real, syns, usize::MAX).kept;
    println!("{:<24}{:>10}{:>14}{:>14}{:>10}{:>10}", "flood", "limit", "accounted", "allocated", "evicted", "kept");
    for (name, forge) in FLOODS {
        for limit_bytes in [64 << 20, 4 << 20] {
            let Outcome { peak_bytes, most_accounted_bytes, kept, stats } = flood(&real, forge, limit_bytes);
            println!(
                "{name:<24}{limit_bytes:>10}{most_accounted_bytes:>14}{peak_bytes:>14}{:>10}{:>10}",
                stats.evicted_connections,
                format!("{kept}/{all}")
            );
            assert!(most_accounted_bytes <= limit_bytes, "{name}: {most_accounted_bytes} accounted of {limit_bytes}");
            assert!(peak_bytes <= limit_bytes as isize, "{name}: {peak_bytes} allocated of {limit_bytes}");
            assert_eq!(kept, all, "{name} with {limit_bytes}");
        }
    }
}
