//! Records of any fields, possible or not, all of one owner.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use record::{
    Attribution, Lsn, Pairing, Protocol, Record, RelTag, Status, Target, TenantId, TenantTimeline, TimelineId,
    Timestamp,
};

use crate::input::Input;

/// Small numbers, large ones, and those near a moment of 2026.
fn number(input: &mut Input<'_>) -> u64 {
    match input.byte() {
        small @ 0..=99 => u64::from(small),
        100..=179 => 1_796_094_784_000_000_000 + u64::from(input.u32()),
        180..=229 => u64::from(input.u16()) * 1000,
        230..=254 => input.u64(),
        255 => u64::MAX,
    }
}

fn optional(input: &mut Input<'_>, has: bool) -> Option<u64> {
    has.then(|| number(input))
}

fn endpoint(input: &mut Input<'_>) -> SocketAddr {
    match input.byte() {
        host @ 0..=199 => SocketAddr::from(([10, 0, 0, host & 3], 40_000 + u16::from(host >> 2))),
        200..=229 => SocketAddr::from((Ipv6Addr::from(u128::from(input.u64())), input.u16())),
        _ => SocketAddrV6::new(Ipv6Addr::from(u128::from(input.u32())), 6400, input.u32(), input.u32()).into(),
    }
}

fn target(input: &mut Input<'_>) -> Target {
    let kind = input.byte();
    if kind % 5 == 3 {
        return Target::DbSize { dbnode: number(input) as u32 };
    }
    if kind % 5 == 4 {
        return Target::Slru { kind: input.byte(), segno: number(input) as u32 };
    }
    let (spcnode, dbnode) = if kind & 0x80 != 0 { (input.u32(), input.u32()) } else { (1663, 16384) };
    let rel = RelTag { spcnode, dbnode, relnode: number(input) as u32, forknum: kind >> 3 & 3 };
    match kind % 5 {
        0 => Target::Exists { rel },
        1 => Target::Nblocks { rel },
        _ => Target::GetPage { rel, blkno: number(input) as u32 },
    }
}

fn one_of<T: Copy>(all: &[T], choice: u8) -> T {
    all[usize::from(choice) % all.len()]
}

/// The next record. Its owner is the same for all.
pub fn record(input: &mut Input<'_>) -> Record {
    let (has, more) = (input.byte(), input.byte());
    let bit = |byte: u8, at: u32| byte >> at & 1 != 0;
    Record {
        time: Timestamp(number(input)),
        latency_ns: optional(input, bit(has, 0)),
        transfer_ns: optional(input, bit(has, 1)),
        depth: optional(input, bit(has, 2)).map(|depth| depth as u32),
        owner: Some(TenantTimeline { tenant: TenantId([0x3a; 16]), timeline: TimelineId([0x11; 16]) }),
        attribution: Some(one_of(Attribution::ALL, more)),
        target: target(input),
        request_lsn: if bit(has, 3) { Lsn::MAX } else { Lsn(number(input)) },
        not_modified_since: Lsn(number(input)),
        status: one_of(Status::ALL, more >> 2),
        page_lsn: optional(input, bit(has, 4)).map(Lsn),
        page_zero: bit(has, 5).then_some(bit(more, 7)),
        page_hash: optional(input, bit(has, 6)),
        client: endpoint(input),
        server: endpoint(input),
        protocol: one_of(&[Protocol::V1, Protocol::V2, Protocol::V3], more >> 4),
        reqid: optional(input, bit(has, 7)),
        backend_pid: optional(input, bit(more, 6)).map(|pid| pid as u32),
        seq: optional(input, bit(more, 5)),
        epoch: optional(input, bit(more, 3)).map(Timestamp),
        pairing: one_of(Pairing::ALL, more >> 1),
    }
}
