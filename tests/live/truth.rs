//! Records against what the applications know. Every packet was captured: each request has a record with every field.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

type Row = HashMap<String, String>;

/// What the applications and the capture call the same moment differs by so much.
const TOLERANCE_NS: u64 = 3_000;

/// `truth.csv`, by client and ordinal.
pub(crate) struct Truth {
    rows: HashMap<(String, u64), Row>,
}

impl Truth {
    pub(crate) fn read(directory: &Path) -> Self {
        let text = fs::read_to_string(directory.join("truth.csv")).unwrap();
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let names = lines.next().unwrap();
        let rows = lines.map(|fields| names.iter().cloned().zip(fields).collect::<Row>());
        let rows: HashMap<_, _> = rows.map(|row| ((client(&row), number(&row, "seq")), row)).collect();
        assert!(!rows.is_empty());
        Self { rows }
    }

    pub(crate) fn retain(&mut self, wanted: impl Fn(&Row) -> bool) {
        self.rows.retain(|_, row| wanted(row));
    }

    /// How many requests have each value of a column.
    #[allow(dead_code, reason = "for other tests than the live ones, which share this")]
    pub(crate) fn counts(&self, column: &str) -> HashMap<String, u64> {
        let mut counts = HashMap::new();
        self.rows.values().for_each(|row| *counts.entry(row[column].clone()).or_insert(0) += 1);
        counts
    }

    /// Each request has one record, and each record its request; all fields are there, and right.
    pub(crate) fn assert_complete(&self, jsonl: &str) {
        let records = self.assert_complete_until(jsonl, u64::MAX);
        assert_eq!(records, self.rows.len());
    }

    /// The same of requests answered before a moment; later ones may be missing, or unanswered. Says how many records
    /// there are.
    pub(crate) fn assert_complete_until(&self, jsonl: &str, until_ns: u64) -> usize {
        let mut records = HashMap::new();
        for record in jsonl.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let key = (record["client"].as_str().unwrap().to_owned(), record["seq"].as_u64().unwrap());
            let row = self.rows.get(&key).unwrap_or_else(|| panic!("made up: {record}"));
            assert_same_request(&record, row);
            if record["status"] != "unanswered" || number(row, "t_recv_ns") < until_ns {
                assert_whole_answer(&record, row);
            }
            assert!(records.insert(key, ()).is_none(), "there twice: {record}");
        }
        for (key, row) in &self.rows {
            assert!(records.contains_key(key) || number(row, "t_recv_ns") >= until_ns, "missing: {row:?}");
        }
        records.len()
    }

    /// What was recorded of a capture with holes is right.
    pub(crate) fn assert_nothing_wrong(&self, jsonl: &str) {
        let by_id: HashMap<_, _> =
            self.rows.iter().map(|((client, _), row)| ((client, number(row, "reqid")), row)).collect();
        for record in jsonl.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let client = record["client"].as_str().unwrap().to_owned();
            // Of a connection that was joined in the middle nobody knows how many requests there were before.
            let row = match (record["seq"].as_u64(), record["reqid"].as_u64()) {
                (Some(seq), _) => self.rows.get(&(client, seq)),
                (None, Some(reqid)) => by_id.get(&(&client, reqid)).copied(),
                (None, None) => continue,
            };
            assert_same_request(&record, row.unwrap_or_else(|| panic!("made up: {record}")));
        }
    }
}

fn assert_same_request(record: &Value, row: &Row) {
    let kind = match row["kind"].as_str() {
        "getslrusegment" => "slru",
        kind => kind,
    };
    assert_eq!(record["kind"], kind, "{record}");
    for name in ["spcnode", "dbnode", "relnode", "forknum", "blkno", "slru_kind", "segno"] {
        match row[name].parse::<u64>() {
            Ok(value) => assert_eq!(record[name], value, "{name}: {record}"),
            Err(_) => assert!(record.get(name).is_none_or(Value::is_null), "{name}: {record}"),
        }
    }
    for name in ["tenant", "timeline", "request_lsn", "not_modified_since"] {
        assert_eq!(record[name], row[name].as_str(), "{name}: {record}");
    }
    assert_eq!(record["protocol"], row["proto"][1..].parse::<u64>().unwrap(), "{record}");
    if row["proto"] == "v3" {
        assert_eq!(record["reqid"], number(row, "reqid"), "{record}");
    }
}

fn assert_whole_answer(record: &Value, row: &Row) {
    let is_error = row["resp_kind"] == "error";
    assert_eq!(record["status"], if is_error { "error" } else { "ok" }, "{record}");
    assert_eq!(record["attribution"], "handshake", "{record}");
    assert_eq!(record["pairing"], if row["proto"] == "v3" { "exact" } else { "fifo" }, "{record}");
    assert!(record["depth"].as_u64() >= Some(1) && record["transfer_ns"].is_u64(), "{record}");
    if row["kind"] == "getpage" && !is_error {
        assert_eq!(record["page_hash"], row["xxh3_64"].as_str(), "{record}");
        assert!(record["page_lsn"].is_string() && record["key"].is_string(), "{record}");
    }
    let (time, latency) = (record["time_ns"].as_u64().unwrap(), record["latency_ns"].as_u64().expect("a latency"));
    let (sent, received) = (number(row, "t_send_ns"), number(row, "t_recv_ns"));
    assert!(sent <= time + TOLERANCE_NS, "before it was made: {record} {row:?}");
    assert!(time + latency <= received + TOLERANCE_NS, "after it was answered: {record} {row:?}");
}

fn number(row: &Row, name: &str) -> u64 {
    row[name].parse().unwrap_or_else(|_| panic!("{name}: {row:?}"))
}

fn client(row: &Row) -> String {
    match row["local_ip"].as_str() {
        ip if ip.contains(':') => format!("[{ip}]:{}", row["local_port"]),
        ip => format!("{ip}:{}", row["local_port"]),
    }
}
