//! Records of a damaged capture held against those of the whole one.
//!
//! What is lost may make fields unknown, and nothing else: each record is one of the clean ones with equal fields, of
//! which some are null.

use std::collections::HashMap;
use std::net::SocketAddr;

use decode::Packet;
use record::{Lsn, Pairing, Record, Status, Target};

use crate::evidence::Retransmissions;

type Asked = (SocketAddr, Target, Lsn, Lsn, Option<u64>);

fn asked(record: &Record) -> Asked {
    (record.client, record.target, record.request_lsn, record.not_modified_since, record.reqid)
}

/// The records of a whole capture.
pub(crate) struct Clean {
    records: Vec<Record>,
    by_request: HashMap<Asked, Vec<usize>>,
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub(crate) faults: Vec<String>,
    /// Times and latencies that differ since the first copy of a byte and every sign of it are missing.
    pub(crate) without_evidence: usize,
}

impl Clean {
    pub(crate) fn new(records: Vec<Record>) -> Self {
        let mut by_request: HashMap<_, Vec<usize>> = HashMap::new();
        for (at, record) in records.iter().enumerate() {
            by_request.entry(asked(record)).or_default().push(at);
        }
        Self { records, by_request }
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Compares the records that `packets` gave. `whole` are the packets of the whole capture.
    pub(crate) fn compare(&self, records: &[Record], whole: &Retransmissions, packets: &[Packet<'_>]) -> Difference {
        let mut difference = Difference::default();
        let mut used = vec![false; self.records.len()];
        let mut missing_evidence = None;
        // Those of which more is known choose first: where a request is made twice, they leave the other to the rest.
        let mut order: Vec<&Record> = records.iter().collect();
        order.sort_by_key(|record| (record.seq.is_none(), record.latency_ns.is_none()));
        for record in order {
            let Some(at) = self.best_match(record, &used) else {
                difference.faults.push(format!("fabricated: {}", line(record)));
                continue;
            };
            used[at] = true;
            let clean = &self.records[at];
            for (field, is_wrong) in wrong_fields(record, clean) {
                if is_wrong {
                    difference.faults.push(format!("{field} differs: {}\n    clean: {}", line(record), line(clean)));
                }
            }
            if is_mistimed(record, clean) {
                let missing = missing_evidence.get_or_insert_with(|| whole.without_evidence(packets));
                if missing.contains(&record.client) {
                    difference.without_evidence += 1;
                } else {
                    difference.faults.push(format!("times differ: {}\n    clean: {}", line(record), line(clean)));
                }
            }
        }
        difference
    }

    /// The same request among the clean ones. One that is made several times is told by its times, then by what is known of its answer.
    fn best_match(&self, record: &Record, used: &[bool]) -> Option<usize> {
        let places = self.by_request.get(&asked(record))?;
        let free = places.iter().copied().filter(|&at| !used[at]);
        free.max_by_key(|&at| {
            let clean = &self.records[at];
            let is_right = wrong_fields(record, clean).iter().all(|(_, is_wrong)| !is_wrong);
            (is_right, !is_mistimed(record, clean), record.time == clean.time, std::cmp::Reverse(at))
        })
    }
}

/// A record in one line, shorter than `Debug`.
pub(crate) fn line(record: &Record) -> String {
    let Record { time, latency_ns, transfer_ns, depth, target, status, pairing, seq, reqid, client, .. } = record;
    let number = |value: &Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    format!(
        "{client} {time} +{} {} depth {depth:?} seq {} id {reqid:x?} {target:?} nms {} of {} {status} {pairing} {:?} {:x?} {:?}",
        number(latency_ns),
        number(transfer_ns),
        number(seq),
        record.not_modified_since,
        record.request_lsn,
        record.page_lsn,
        record.page_hash,
        record.page_zero,
    )
}

/// A latency, a time with it, or a depth at that time, that the whole capture does not give.
fn is_mistimed(record: &Record, clean: &Record) -> bool {
    let is_at_another_time = record.latency_ns.is_some() && record.time != clean.time;
    is_at_another_time
        || is_other(record.latency_ns, clean.latency_ns)
        || is_other(record.transfer_ns, clean.transfer_ns)
        || is_other(record.depth, clean.depth)
}

/// Whether a field has a value, and not the clean one.
fn is_other<T: PartialEq>(value: Option<T>, clean: Option<T>) -> bool {
    value.is_some() && value != clean
}

fn wrong_fields(record: &Record, clean: &Record) -> [(&'static str, bool); 9] {
    let is_known = !matches!(record.status, Status::Unanswered | Status::Unknown);
    let is_suspect = record.pairing == Pairing::Suspect;
    [
        ("owner", is_other(record.owner, clean.owner)),
        ("attribution", is_other(record.attribution, clean.attribution)),
        ("status", is_known && record.status != clean.status),
        ("suspect", is_suspect != (record.status == Status::Unknown) || is_suspect && record.latency_ns.is_some()),
        ("page_lsn", is_other(record.page_lsn, clean.page_lsn)),
        ("page_zero", is_other(record.page_zero, clean.page_zero)),
        ("page_hash", is_other(record.page_hash, clean.page_hash)),
        ("seq", is_other(record.seq, clean.seq)),
        ("server, protocol or backend", {
            let is_other_backend = is_other(record.backend_pid, clean.backend_pid);
            record.server != clean.server || record.protocol != clean.protocol || is_other_backend
        }),
    ]
}
