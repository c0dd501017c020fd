//! What client and server wrote down of the traffic, and records held against it.
//!
//! Two judges. [`Rule::Tool`] is the rule of the comparison tool that outsiders use: version 1 and 2 records are matched
//! by what they ask for and by time, version 3 records by their id. [`Rule::AllFields`] matches by every field of the
//! request. Where a request was lost that another one repeats but for its `request_lsn`, the tool can take a right
//! record for a wrong one; the difference is counted.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use record::{Kind, Lsn, Pairing, Protocol, Record, Status, TenantTimeline};

use crate::clean::line;

/// Clocks of the applications and of the capture differ by so much.
const TOLERANCE_NS: u64 = 3_000;

/// How far a record's time may lie outside its request's life for an id to be taken for the same request's.
const SAME_ID_NS: u64 = 1_000_000_000;

/// One request, as the client and the server saw it.
pub(crate) struct Row {
    client: SocketAddr,
    owner: TenantTimeline,
    kind: Kind,
    /// spcnode, dbnode, relnode, forknum, blkno, where the kind has them.
    numbers: [Option<u32>; 5],
    request_lsn: Lsn,
    not_modified_since: Lsn,
    reqid: u64,
    protocol: Protocol,
    sent_ns: u64,
    received_ns: u64,
    parsed_ns: u64,
    written_ns: u64,
    status: Status,
    page_hash: Option<u64>,
}

/// All requests, by client and version, in the order in which they were made.
pub(crate) struct Truth {
    rows: HashMap<(SocketAddr, Protocol), Vec<Row>>,
    wanted: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Tool,
    AllFields,
}

/// How records compare with the truth.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Requests that were answered.
    pub(crate) wanted: usize,
    /// Of those, the ones with a record that has the answer.
    pub(crate) found: usize,
    pub(crate) with_latency: usize,
    /// What must not be: the first few of each kind.
    pub(crate) faults: Vec<String>,
}

impl Truth {
    /// Reads `truth.csv` and, where there is one, `server_truth.csv`.
    pub(crate) fn read(directory: &Path) -> Self {
        let mut served: HashMap<ServedKey, Vec<(u64, u64)>> = HashMap::new();
        for line in table(&directory.join("server_truth.csv")) {
            if let (Ok(parsed), Ok(written)) = (line["t_parsed_ns"].parse(), line["t_write_ns"].parse()) {
                let peer = line["peer_addr"].replace("::ffff:", "");
                let key = served_key(&peer, &line["peer_port"], &line);
                served.entry(key).or_default().push((parsed, written));
            }
        }
        served.values_mut().for_each(|times| times.reverse());
        let mut rows: HashMap<_, Vec<Row>> = HashMap::new();
        let mut wanted = 0;
        for line in table(&directory.join("truth.csv")) {
            let mut row = Row::parse(&line);
            let key = served_key(&line["local_ip"], &line["local_port"], &line);
            if let Some((parsed, written)) = served.get_mut(&key).and_then(Vec::pop) {
                (row.parsed_ns, row.written_ns) = (parsed, written);
            }
            wanted += usize::from(row.status != Status::Unanswered);
            rows.entry((row.client, row.protocol)).or_default().push(row);
        }
        Self { rows, wanted }
    }

    /// Holds records against the truth.
    pub(crate) fn judge(&self, records: &[Record], rule: Rule) -> Verdict {
        let mut verdict = Verdict { wanted: self.wanted, ..Verdict::default() };
        let mut used: HashMap<_, Used> =
            self.rows.iter().map(|(key, rows)| (*key, Used { first: 0, rows: vec![false; rows.len()] })).collect();
        let mut order: Vec<&Record> = records.iter().collect();
        order.sort_by_key(|record| record.time);
        for record in order {
            verdict.with_latency += usize::from(record.latency_ns.is_some());
            let key = (record.client, record.protocol);
            let (Some(rows), Some(used)) = (self.rows.get(&key), used.get_mut(&key)) else {
                verdict.fault("fabricated", record);
                continue;
            };
            while used.rows.get(used.first) == Some(&true) {
                used.first += 1;
            }
            let Some(at) = find(record, rows, used, rule) else {
                verdict.fault("fabricated", record);
                continue;
            };
            used.rows[at] = true;
            let row = &rows[at];
            let is_answered = row.status != Status::Unanswered;
            verdict.found += usize::from(is_answered && record.status != Status::Unanswered);
            row.compare(record, &mut verdict);
        }
        verdict
    }
}

/// Which rows have been matched; all before `first` have.
struct Used {
    first: usize,
    rows: Vec<bool>,
}

fn find(record: &Record, rows: &[Row], used: &Used, rule: Rule) -> Option<usize> {
    let mut hit = None;
    for (at, row) in rows.iter().enumerate().skip(used.first) {
        if used.rows[at] || record.owner.is_some_and(|owner| owner.tenant != row.owner.tenant) {
            continue;
        }
        let time = record.time.0;
        let end = if row.received_ns > 0 { row.received_ns } else { time };
        if let (Rule::Tool, Protocol::V3, Some(reqid)) = (rule, record.protocol, record.reqid) {
            if reqid == row.reqid && row.sent_ns.saturating_sub(SAME_ID_NS) <= time && time <= end + SAME_ID_NS {
                return Some(at);
            }
            continue;
        }
        let is_same = row.is_same(record)
            && (rule == Rule::Tool
                || record.request_lsn == row.request_lsn && record.reqid.is_none_or(|reqid| reqid == row.reqid));
        if is_same {
            let is_alive = row.sent_ns.saturating_sub(TOLERANCE_NS) <= time && time <= end + TOLERANCE_NS;
            // Two requests alike may be in flight together; the times of the right one fit.
            if is_alive && (rule == Rule::Tool || row.has_no_fault(record)) {
                return Some(at);
            }
            hit = hit.or(Some(at));
        }
    }
    hit
}

impl Verdict {
    fn fault(&mut self, what: &str, record: &Record) {
        self.faults.push(format!("{what}: {}", line(record)));
    }
}

impl Row {
    fn parse(line: &HashMap<String, String>) -> Self {
        let number = |name: &str| line[name].parse().ok();
        let kind = match line["kind"].as_str() {
            "getslrusegment" => Kind::Slru,
            other => other.parse().unwrap(),
        };
        let protocol = Protocol::from_number(line["proto"][1..].parse().unwrap()).unwrap();
        let hash = u64::from_str_radix(&line["xxh3_64"], 16).ok().filter(|_| kind == Kind::GetPage);
        Self {
            client: address(&line["local_ip"], &line["local_port"]),
            owner: TenantTimeline {
                tenant: line["tenant"].parse().unwrap(),
                timeline: line["timeline"].parse().unwrap(),
            },
            kind,
            numbers: ["spcnode", "dbnode", "relnode", "forknum", "blkno"].map(number),
            request_lsn: line["request_lsn"].parse().unwrap(),
            not_modified_since: line["not_modified_since"].parse().unwrap(),
            reqid: line["reqid"].parse().unwrap_or(0),
            protocol,
            sent_ns: line["t_send_ns"].parse().unwrap(),
            received_ns: line["t_recv_ns"].parse().unwrap_or(0),
            parsed_ns: 0,
            written_ns: 0,
            status: match line["resp_kind"].as_str() {
                "error" => Status::Error,
                "none" => Status::Unanswered,
                _ => Status::Ok,
            },
            page_hash: hash,
        }
    }

    /// Whether the record asks for the same. Of an SLRU segment the tool looks at the kind only.
    fn is_same(&self, record: &Record) -> bool {
        let target = &record.target;
        let rel = target.rel();
        let numbers = [
            rel.map(|rel| rel.spcnode),
            target.dbnode(),
            rel.map(|rel| rel.relnode),
            rel.map(|rel| u32::from(rel.forknum)),
            target.blkno(),
        ];
        target.kind() == self.kind
            && self.numbers.iter().zip(numbers).all(|(mine, other)| mine.is_none() || *mine == other)
            && record.not_modified_since == self.not_modified_since
    }

    fn has_no_fault(&self, record: &Record) -> bool {
        let mut verdict = Verdict::default();
        self.compare(record, &mut verdict);
        verdict.faults.is_empty()
    }

    /// Everything that the tool complains of.
    fn compare(&self, record: &Record, verdict: &mut Verdict) {
        let has_other_timeline = record.owner.is_some_and(|owner| owner.timeline != self.owner.timeline);
        if !self.is_same(record) || has_other_timeline || record.request_lsn != self.request_lsn {
            verdict.fault("wrong field", record);
        }
        let is_doubtful =
            record.status == Status::Unknown && record.pairing == Pairing::Suspect && record.latency_ns.is_none();
        let is_unread = self.status == Status::Unanswered && record.status == Status::Ok;
        if record.status != self.status && record.status != Status::Unanswered && !is_doubtful && !is_unread {
            verdict.fault("wrong status", record);
        }
        if let (Some(mine), Some(hash), Status::Ok) = (self.page_hash, record.page_hash, self.status)
            && mine != hash
        {
            verdict.fault("wrong page hash", record);
        }
        if let (Some(latency), 1..) = (record.latency_ns, self.received_ns) {
            self.compare_times(record, latency, verdict);
        }
    }

    fn compare_times(&self, record: &Record, latency_ns: u64, verdict: &mut Verdict) {
        let time = record.time.0;
        let within = |low: u64, value: u64, high: u64| low <= value + TOLERANCE_NS && value <= high + TOLERANCE_NS;
        let floor = self.written_ns.saturating_sub(self.parsed_ns);
        if !within(floor, latency_ns, self.received_ns - self.sent_ns) {
            verdict.fault("latency outside the truth", record);
        }
        let read_by = if self.parsed_ns > 0 { self.parsed_ns } else { self.received_ns };
        if !within(self.sent_ns, time, read_by) {
            verdict.fault("time outside the truth", record);
        }
        if self.written_ns > 0 && !within(self.written_ns, time + latency_ns, self.received_ns) {
            verdict.fault("answer outside the truth", record);
        }
    }
}

/// Client, owner, version, and in version 3 the id.
type ServedKey = (SocketAddr, String, String, String, String);

fn served_key(ip: &str, port: &str, line: &HashMap<String, String>) -> ServedKey {
    let word = |name: &str| line[name].clone();
    let reqid = if line["proto"] == "v3" { word("reqid") } else { String::new() };
    (address(ip, port), word("tenant"), word("timeline"), word("proto"), reqid)
}

fn address(ip: &str, port: &str) -> SocketAddr {
    SocketAddr::new(ip.parse::<IpAddr>().unwrap(), port.parse().unwrap())
}

/// The rows of a CSV file without quotes, by the names in its first line; none where there is no file.
fn table(path: &Path) -> Vec<HashMap<String, String>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let names: Vec<String> = lines.next().into_iter().flatten().collect();
    lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect()
}
