//! The whole decoder, fed with packets as they may come: of any kind, at any time.
//!
//! Input: a byte of settings, then steps. The low bits of a step's first byte say what it is:
//!
//! - 0: a packet of any bytes: `link, cut u16, count u16, bytes`;
//! - 1: a segment: `client, flags, seq u32, ack u32, cut, count u16, payload`;
//! - 2: a segment that goes on where this direction's last one ended: `client, flags, cut, count u16, payload`;
//! - 3: time passes, or, rarely, goes back: `unit, count`.

use decode::{Config, DEFAULT_PORT};
use record::Timestamp;

use crate::input::Input;
use crate::possible;
use crate::run::{self, LEAST_LIMIT_BYTES};
use crate::segment::{Header, LINKS, MAX_PAYLOAD_BYTES, Owned};

/// So many steps show what there is to see.
const MAX_STEPS: usize = 400;

/// Clients by the low bits of their number: few, so that segments meet.
const CLIENTS: usize = 4;

/// A microsecond to ten minutes: every time-out lies in between.
const UNITS_NS: [u64; 8] =
    [1_000, 100_000, 1_000_000, 10_000_000, 1_000_000_000, 5_000_000_000, 60_000_000_000, 600_000_000_000];

/// Runs the target.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    let settings = input.byte();
    let config = Config {
        ports: vec![DEFAULT_PORT, 50_001],
        page_hash: settings & 1 != 0,
        memory_limit_bytes: [LEAST_LIMIT_BYTES, 1 << 20, 64 << 20][usize::from(settings >> 1) % 3],
    };
    let packets = packets(&mut input);
    let outcome = run::decode(&packets, &config);
    let times = || packets.iter().map(|packet| packet.time);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return };
    for record in &outcome.records {
        possible::check(record, (first, last));
        let is_watched = config.ports.contains(&record.server.port());
        assert!(is_watched, "a server whose port is not watched: {record:?}");
    }
    assert_eq!(outcome, run::decode(&packets, &config), "the same packets gave something else");
}

/// Where each direction of each client's connection goes on.
#[derive(Default, Clone, Copy)]
struct Next {
    client: u32,
    server: u32,
}

fn packets(input: &mut Input<'_>) -> Vec<Owned> {
    let mut time = Timestamp(1_700_000_000_000_000_000);
    let (mut packets, mut next) = (Vec::new(), [Next::default(); CLIENTS]);
    for ip_id in 0..MAX_STEPS as u16 {
        if input.is_empty() {
            break;
        }
        time = time.plus(50_000);
        match input.byte() & 3 {
            0 => {
                let link = LINKS[usize::from(input.byte() & 7)];
                let cut = input.u16();
                let data = input.counted().to_vec();
                let wire_len = data.len() as u32 + u32::from(cut);
                packets.push(Owned { time, link, data, wire_len });
            }
            3 => {
                let unit = input.byte();
                let ns = UNITS_NS[usize::from(unit & 7)] * u64::from(input.byte());
                time = if unit & 0xf0 == 0xf0 { Timestamp(time.0.saturating_sub(ns)) } else { time.plus(ns) };
            }
            step => packets.push(segment(step == 2, (time, ip_id), &mut next, input)),
        }
    }
    packets
}

/// The low bits of `client` say whose, the top one which way.
fn segment(goes_on: bool, at: (Timestamp, u16), next: &mut [Next; CLIENTS], input: &mut Input<'_>) -> Owned {
    let (client, flags) = (input.byte(), input.byte());
    let next = &mut next[usize::from(client) % CLIENTS];
    let is_from_client = client & 0x80 == 0;
    if !goes_on {
        let (seq, ack) = (input.u32(), input.u32());
        *next = if is_from_client { Next { client: seq, server: ack } } else { Next { client: ack, server: seq } };
    }
    let cut = usize::from(input.byte());
    let payload = input.counted();
    let payload = &payload[..payload.len().min(MAX_PAYLOAD_BYTES)];
    let (seq, ack) = if is_from_client { (next.client, next.server) } else { (next.server, next.client) };
    let (time, ip_id) = at;
    let header = Header {
        client: client & 3,
        port: 40_000 + u16::from(client & 3),
        is_from_client,
        seq,
        ack,
        flags,
        ip_id,
        stamps: (client & 0x40 != 0).then_some((u32::from(ip_id), u32::from(cut as u8))),
        sack: (client & 0x20 != 0).then_some((seq, ack)),
    };
    let len = payload.len() as u32 + u32::from(flags & 2 != 0) + u32::from(flags & 1);
    let own = if is_from_client { &mut next.client } else { &mut next.server };
    *own = own.wrapping_add(len);
    header.packet(time, payload, cut)
}
