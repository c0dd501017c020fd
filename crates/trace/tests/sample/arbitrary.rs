//! Records with every combination of fields, possible or not.

use std::net::{SocketAddr, SocketAddrV6};
use std::ops::Range;

use proptest::option;
use proptest::prelude::*;
use record::{
    Attribution, Lsn, Pairing, Protocol, Record, RelTag, Status, Target, TenantId, TenantTimeline, TimelineId,
    Timestamp,
};

/// Numbers of every magnitude, and those at the ends.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift),
        1 => Just(u64::MAX),
        1 => 1_796_094_784_000_000_000u64..1_796_094_785_000_000_000,
        1 => (0u64..1000).prop_map(|us| us * 1000),
    ]
}

fn endpoint() -> impl Strategy<Value = SocketAddr> {
    prop_oneof![
        (0u8..3, 0u16..3).prop_map(|(host, port)| SocketAddr::from(([10, 0, 0, host], port))),
        (any::<[u8; 16]>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::from((ip, port))),
        (any::<[u8; 16]>(), any::<u32>(), any::<u32>()).prop_map(|(ip, flow, scope)| SocketAddrV6::new(
            ip.into(),
            6400,
            flow,
            scope
        )
        .into()),
    ]
}

fn target() -> impl Strategy<Value = Target> {
    let rel = || {
        (prop_oneof![Just(1663), any::<u32>()], any::<u32>(), 0u32..3, any::<u8>())
            .prop_map(|(spcnode, dbnode, relnode, forknum)| RelTag { spcnode, dbnode, relnode, forknum })
    };
    prop_oneof![
        4 => (rel(), number()).prop_map(|(rel, blkno)| Target::GetPage { rel, blkno: blkno as u32 }),
        1 => rel().prop_map(|rel| Target::Exists { rel }),
        1 => rel().prop_map(|rel| Target::Nblocks { rel }),
        1 => any::<u32>().prop_map(|dbnode| Target::DbSize { dbnode }),
        1 => (any::<u8>(), any::<u32>()).prop_map(|(kind, segno)| Target::Slru { kind, segno }),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let times = (number(), option::of(number()), option::of(number()), option::of(any::<u32>()));
    let versions = (
        prop_oneof![Just(u64::MAX), number()],
        number(),
        option::of(number()),
        option::of(any::<bool>()),
        option::of(any::<u64>()),
    );
    let connection = (
        endpoint(),
        endpoint(),
        prop::sample::select(vec![Protocol::V1, Protocol::V2, Protocol::V3]),
        option::of(any::<u32>()),
        option::of(number()),
        prop::sample::select(Attribution::ALL.to_vec()),
    );
    let words = (
        prop::sample::select(Status::ALL.to_vec()),
        prop::sample::select(Pairing::ALL.to_vec()),
        option::of(number()),
        option::of(number()),
    );
    (times, target(), versions, connection, words).prop_map(|(times, target, versions, connection, words)| Record {
        time: Timestamp(times.0),
        latency_ns: times.1,
        transfer_ns: times.2,
        depth: times.3,
        owner: None,
        attribution: Some(connection.5),
        target,
        request_lsn: Lsn(versions.0),
        not_modified_since: Lsn(versions.1),
        status: words.0,
        page_lsn: versions.2.map(Lsn),
        page_zero: versions.3,
        page_hash: versions.4,
        client: connection.0,
        server: connection.1,
        protocol: connection.2,
        reqid: words.2,
        backend_pid: connection.3,
        seq: words.3,
        epoch: connection.4.map(Timestamp),
        pairing: words.1,
    })
}

/// Records of one owner, or of none.
pub(crate) fn records(count: Range<usize>) -> impl Strategy<Value = Vec<Record>> {
    let owner = option::of((any::<[u8; 16]>(), any::<[u8; 16]>()));
    (owner, proptest::collection::vec(record(), count)).prop_map(|(owner, mut records)| {
        let owner =
            owner.map(|(tenant, timeline)| TenantTimeline { tenant: TenantId(tenant), timeline: TimelineId(timeline) });
        for record in &mut records {
            record.owner = owner;
            record.attribution = record.attribution.filter(|_| owner.is_some());
        }
        records
    })
}
