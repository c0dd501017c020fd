//! Hand-made records for tests: every kind, every status, everything known and everything not.

use record::{
    Attribution, Lsn, Pairing, Protocol, Record, RelTag, Status, Target, TenantId, TenantTimeline, TimelineId,
    Timestamp,
};

const REL: RelTag = RelTag { spcnode: 1663, dbnode: 16384, relnode: 16402, forknum: 0 };

/// A GetPage of which everything is known.
pub(crate) fn getpage() -> Record {
    Record {
        time: Timestamp(1_796_094_784_355_667_834),
        latency_ns: Some(213_456),
        transfer_ns: Some(5_123),
        depth: Some(3),
        owner: Some(TenantTimeline {
            tenant: TenantId(*b"\x3a\xab\xbf\x1a\x5d\x0f\x4e\x2a\x9d\x3c\x1b\x2a\x49\x50\x51\x01"),
            timeline: TimelineId(*b"\x11\xaa\x22\xbb\x33\xcc\x44\xdd\x55\xee\x66\xff\x77\x88\x00\x01"),
        }),
        attribution: Some(Attribution::Handshake),
        target: Target::GetPage { rel: REL, blkno: 1234 },
        request_lsn: Lsn::MAX,
        not_modified_since: Lsn(0x1_6EFF_3F30),
        status: Status::Ok,
        page_lsn: Some(Lsn(0x1_6EFF_0008)),
        page_zero: Some(false),
        page_hash: Some(0x00ab_cdef_0123_4567),
        client: ([10, 0, 0, 7], 51344).into(),
        server: ([10, 0, 0, 1], 6400).into(),
        protocol: Protocol::V3,
        reqid: Some(4242 << 32 | 17),
        backend_pid: Some(4242),
        seq: Some(16),
        epoch: Some(Timestamp(1_796_094_700_000_000_000)),
        pairing: Pairing::Exact,
    }
}

/// A request of an unknown tenant that was never answered, on IPv6.
pub(crate) fn unanswered() -> Record {
    Record {
        latency_ns: None,
        transfer_ns: None,
        depth: None,
        owner: None,
        attribution: None,
        target: Target::GetPage { rel: RelTag { forknum: 2, ..REL }, blkno: u32::MAX },
        request_lsn: Lsn(0x1_6EFF_4000),
        status: Status::Unanswered,
        page_lsn: None,
        page_zero: None,
        page_hash: None,
        client: (std::net::Ipv6Addr::LOCALHOST, 40000).into(),
        server: (std::net::Ipv6Addr::LOCALHOST, 6400).into(),
        protocol: Protocol::V2,
        reqid: None,
        backend_pid: None,
        seq: None,
        epoch: None,
        pairing: Pairing::RequestOnly,
        ..getpage()
    }
}

/// A request whose answer is known to have come, but not which it was.
fn suspect() -> Record {
    Record {
        target: Target::Nblocks { rel: REL },
        status: Status::Unknown,
        pairing: Pairing::Suspect,
        latency_ns: None,
        ..unanswered()
    }
}

/// One of each kind and status.
pub(crate) fn all() -> Vec<Record> {
    let no_page = Record { page_lsn: None, page_zero: None, page_hash: None, ..getpage() };
    vec![
        getpage(),
        unanswered(),
        suspect(),
        Record {
            target: Target::Exists { rel: REL },
            protocol: Protocol::V1,
            pairing: Pairing::Fifo,
            ..no_page.clone()
        },
        Record { target: Target::DbSize { dbnode: 16384 }, latency_ns: Some(203_000_000), ..no_page.clone() },
        Record { target: Target::Slru { kind: 2, segno: 5 }, status: Status::Error, ..no_page.clone() },
        Record { pairing: Pairing::ResponseOnly, latency_ns: None, depth: None, page_zero: Some(true), ..getpage() },
        largest(),
    ]
}

/// Every number at its largest: the longest line there is.
fn largest() -> Record {
    let end = std::net::SocketAddr::from((std::net::Ipv6Addr::from(u128::MAX), u16::MAX));
    Record {
        time: Timestamp(u64::MAX),
        latency_ns: Some(u64::MAX),
        transfer_ns: Some(u64::MAX),
        depth: Some(u32::MAX),
        target: Target::GetPage {
            rel: RelTag { spcnode: u32::MAX, dbnode: u32::MAX, relnode: u32::MAX, forknum: u8::MAX },
            blkno: u32::MAX,
        },
        not_modified_since: Lsn::MAX,
        page_lsn: Some(Lsn::MAX),
        page_hash: Some(u64::MAX),
        client: end,
        server: end,
        reqid: Some(u64::MAX),
        backend_pid: Some(u32::MAX),
        seq: Some(u64::MAX),
        epoch: Some(Timestamp(u64::MAX)),
        ..getpage()
    }
}
