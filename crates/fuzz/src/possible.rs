//! What holds for every record, whatever the packets were.

use record::{Kind, Lsn, Pairing, Protocol, Record, Status, Target, Timestamp};

/// The earliest and the latest stamp of the packets.
pub type Span = (Timestamp, Timestamp);

/// The record's fields do not contradict one another, or the capture.
pub fn check(record: &Record, (first, last): Span) {
    let faults = [
        (record.attribution.is_some() != record.owner.is_some(), "attribution without owner, or the other way round"),
        (record.reqid.is_some() != (record.protocol == Protocol::V3), "an id in the wrong version"),
        (record.depth == Some(0), "a request that is not in flight itself"),
        (record.time < first || record.time > last, "a time outside the capture"),
        (record.epoch.is_some_and(|epoch| epoch < first || epoch > last), "an epoch outside the capture"),
        (is_late(record, last), "an answer after the capture"),
        (has_page_facts(record) && !is_page(record), "page facts without a page"),
        (record.page_hash.is_some() && (record.page_lsn.is_none() || record.page_zero.is_none()), "half a page hashed"),
        (record.page_zero == Some(true) && record.page_lsn.is_some_and(|lsn| lsn != Lsn(0)), "a zero page with an LSN"),
        (!agrees_with_pairing(record), "fields that its pairing does not allow"),
        (
            record.protocol == Protocol::V1
                && record.request_lsn != Lsn::MAX
                && record.request_lsn != record.not_modified_since,
            "two LSNs in version 1",
        ),
    ];
    for (is_wrong, fault) in faults {
        assert!(!is_wrong, "{fault}: {record:?}");
    }
}

fn is_late(record: &Record, last: Timestamp) -> bool {
    let begun = record.time.0.checked_add(record.latency_ns.unwrap_or(0));
    let ended = begun.and_then(|begun| begun.checked_add(record.transfer_ns.unwrap_or(0)));
    // Without a latency the answer's place in time is not told, only how long it took.
    ended.is_none_or(|ended| ended > last.0 && record.latency_ns.is_some())
}

fn has_page_facts(record: &Record) -> bool {
    record.page_lsn.is_some() || record.page_zero.is_some() || record.page_hash.is_some()
}

fn is_page(record: &Record) -> bool {
    record.target.kind() == Kind::GetPage && record.status == Status::Ok
}

fn agrees_with_pairing(record: &Record) -> bool {
    let has_answer = record.latency_ns.is_some() || record.transfer_ns.is_some() || has_page_facts(record);
    match record.pairing {
        Pairing::Exact => record.protocol == Protocol::V3 && is_answered(record.status),
        Pairing::Fifo => is_answered(record.status),
        Pairing::RequestOnly => record.status == Status::Unanswered && !has_answer,
        Pairing::ResponseOnly => {
            record.protocol == Protocol::V3
                && record.seq.is_none()
                && record.depth.is_none()
                && is_answered(record.status)
        }
        Pairing::Suspect => record.status == Status::Unknown && !has_answer && record.depth.is_none(),
    }
}

fn is_answered(status: Status) -> bool {
    matches!(status, Status::Ok | Status::Error)
}

/// The request's bytes behind its tag and, in version 1, behind its flag.
pub fn request_bytes(record: &Record) -> Vec<u8> {
    let mut bytes = Vec::new();
    match record.protocol {
        Protocol::V1 => {}
        Protocol::V2 => bytes.extend(record.request_lsn.0.to_be_bytes()),
        Protocol::V3 => {
            bytes.extend(record.reqid.unwrap_or_default().to_be_bytes());
            bytes.extend(record.request_lsn.0.to_be_bytes());
        }
    }
    bytes.extend(record.not_modified_since.0.to_be_bytes());
    bytes.extend(target_bytes(&record.target));
    bytes
}

/// What is asked for, as requests and echoes have it.
pub fn target_bytes(target: &Target) -> Vec<u8> {
    let mut bytes = Vec::new();
    match *target {
        Target::GetPage { rel, .. } | Target::Exists { rel } | Target::Nblocks { rel } => {
            for number in [rel.spcnode, rel.dbnode, rel.relnode] {
                bytes.extend(number.to_be_bytes());
            }
            bytes.push(rel.forknum);
        }
        Target::DbSize { dbnode } => bytes.extend(dbnode.to_be_bytes()),
        Target::Slru { kind, segno } => {
            bytes.push(kind);
            bytes.extend(segno.to_be_bytes());
        }
    }
    bytes.extend(target.blkno().into_iter().flat_map(u32::to_be_bytes));
    bytes
}

/// The tag of the record's request; its answer's is larger by 100, and by one more from DbSize on.
pub fn request_tag(target: &Target) -> u8 {
    match target.kind() {
        Kind::Exists => 0,
        Kind::Nblocks => 1,
        Kind::GetPage => 2,
        Kind::DbSize => 3,
        Kind::Slru => 4,
    }
}

/// The tag of its answer.
pub fn answer_tag(target: &Target) -> u8 {
    match target.kind() {
        Kind::Exists | Kind::Nblocks | Kind::GetPage => 100 + request_tag(target),
        Kind::DbSize => 104,
        Kind::Slru => 105,
    }
}

/// Whether the record's request crossed the wire: in the client's bytes, or echoed in the server's.
pub fn crossed_the_wire(record: &Record, client: &[u8], server: &[u8]) -> bool {
    let body = request_bytes(record);
    let (stream, tag) = match record.pairing {
        Pairing::ResponseOnly => (server, answer_tag(&record.target)),
        _ => (client, request_tag(&record.target)),
    };
    let is_here = |at: usize| match (record.protocol, record.request_lsn) {
        (Protocol::V1, lsn) if at >= 2 => {
            let is_latest = stream[at - 1] != 0;
            stream[at - 2] == tag && lsn == if is_latest { Lsn::MAX } else { record.not_modified_since }
        }
        (Protocol::V1, _) => false,
        _ => at >= 1 && stream[at - 1] == tag,
    };
    stream.windows(body.len()).enumerate().any(|(at, window)| window == body && is_here(at))
}
