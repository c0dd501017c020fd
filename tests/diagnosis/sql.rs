//! The SQL of docs/fleet.md, as it stands there, gives the numbers of `pagesniff report`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::harness::{Dir, Ended};
use crate::planted::session_of_tenant;
use crate::python::{python_with, run_python};
use crate::session::MS;
use crate::{json, traced};

/// Runs each statement block of standard input, and prints the rows of each block's last statement.
const RUN_SQL: &str = "\
import duckdb, json, sys
database = duckdb.connect()
results = []
for block in json.load(sys.stdin):
    cursor = database.execute(block)
    names = [column[0] for column in cursor.description or []]
    results.append([dict(zip(names, row)) for row in cursor.fetchall()])
print(json.dumps(results, default=str))
";

const CLASSES: [&str; 10] = [
    "first",
    "in_flight",
    "redundant_r1",
    "redundant_r2",
    "redundant_r3",
    "contradictions",
    "raced",
    "same_content",
    "changed",
    "unproven",
];

/// Every row as it is in the files, without what the path says, and with LSNs as Postgres writes them.
const ROWS: &str = "SELECT * REPLACE (CAST(reqid AS UBIGINT) AS reqid,
    printf('%X/%X', CAST(request_lsn AS UBIGINT) >> 32, CAST(request_lsn AS UBIGINT) & 4294967295) AS request_lsn,
    printf('%X/%X', CAST(not_modified_since AS UBIGINT) >> 32, CAST(not_modified_since AS UBIGINT) & 4294967295)
      AS not_modified_since,
    printf('%X/%X', CAST(page_lsn AS UBIGINT) >> 32, CAST(page_lsn AS UBIGINT) & 4294967295) AS page_lsn)
    FROM read_parquet('records/*/*/*.parquet', hive_partitioning = false)";

/// The rows that are not as often in the exported files as in those that DuckDB made of JSON Lines, and the columns that are of
/// other types.
const DIFFERENT: [&str; 2] = [
    "WITH exported AS (FROM read_parquet('records/*/*/*.parquet')), loaded AS (FROM read_parquet('loaded/*/*/*.parquet'))
    (FROM exported EXCEPT ALL FROM loaded) UNION ALL (FROM loaded EXCEPT ALL FROM exported)",
    "WITH exported AS (SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet('records/*/*/*.parquet'))),
      loaded AS (SELECT column_name, column_type FROM (DESCRIBE FROM read_parquet('loaded/*/*/*.parquet')))
    (FROM exported EXCEPT FROM loaded) UNION ALL (FROM loaded EXCEPT FROM exported)",
];

/// The SQL behind each marker of docs/fleet.md.
fn sql(name: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/fleet.md");
    let text = fs::read_to_string(page).unwrap();
    let start = format!("<!-- test: {name} -->\n```sql\n");
    let (_, rest) = text.split_once(&start).unwrap_or_else(|| panic!("docs/fleet.md has no SQL marked '{name}'"));
    rest.split_once("```").unwrap().0.to_owned()
}

/// The results of each block on the records of these traces, at the end the rows themselves; and the report.
fn results_and_report(python: &str, directory: &Dir, traces: &str) -> (Vec<Value>, Value) {
    let report = json(&directory.run(&format!("report {traces} --json -")));
    let exported = directory.run(&format!("export {traces} --to jsonl"));
    assert_eq!((exported.status, exported.stderr.as_str()), (0, ""));
    let to_parquet = format!("export {traces} --to parquet --out records");
    assert_eq!(directory.run(&to_parquet), Ended { status: 0, stdout: String::new(), stderr: String::new() });
    let again = directory.run(&to_parquet);
    assert!(again.status == 1 && again.stderr.contains("is there already"), "{again:?}");
    directory.write("records.jsonl", exported.stdout.as_bytes());
    let mut blocks = ["classes", "counts", "relations"].map(sql).to_vec();
    blocks.push(ROWS.to_owned());
    blocks.push(sql("load").replace("'records'", "'loaded'"));
    blocks.extend(DIFFERENT.map(str::to_owned));
    let results = run_python(python, RUN_SQL, (directory, &blocks.into()));
    let mut results = results.as_array().unwrap().clone();
    let different = results.split_off(results.len() - DIFFERENT.len());
    assert_eq!(different, [const { Value::Array(Vec::new()) }; 2], "what DuckDB makes of JSON Lines is the same");
    results.pop();
    let mut exported: Vec<Value> = exported.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut rows = results.last().unwrap().as_array().unwrap().clone();
    exported.sort_by_key(Value::to_string);
    rows.sort_by_key(Value::to_string);
    assert!(!exported.is_empty());
    assert_eq!(rows, exported, "the Parquet files hold every field of every record as it was exported");
    (results, report)
}

/// Two tenants, each with every class, in a session that begins before midnight and ends after it.
fn traces_of_two_tenants() -> Dir {
    let directory = Dir::new();
    for tenant in [0, 1] {
        let mut session = session_of_tenant(tenant);
        session.said.iter_mut().for_each(|said| said.time -= 50 * MS);
        directory.write("capture.pcap", &session.capture(|_, _| false));
        let ended = directory.run(&format!("--read capture.pcap --out traces-{tenant} --quiet"));
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    }
    directory
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_sql_of_the_fleet_page_gives_the_numbers_of_the_report() {
    let Some(python) = python_with("duckdb") else { return };
    let directory = traces_of_two_tenants();
    let (results, report) = results_and_report(&python, &directory, "traces-0 traces-1");
    let [.., counts, relations, _] = results.as_slice() else { panic!("{results:?}") };
    let tenants = names_in(&directory.path("records"));
    assert_eq!(tenants.len(), 2);
    for tenant in &tenants {
        assert!(tenant.starts_with("tenant_id="), "{tenant}");
        let dates = names_in(&directory.path("records").join(tenant));
        assert_eq!(dates, ["date=2026-11-30", "date=2026-12-01"]);
    }
    for class in CLASSES {
        assert!(counted(counts, class) > 0, "{class} was planted: {counts}");
    }
    assert_same_classes(counts, &report["refetch"]);
    assert_same_relations(relations, &report["relations"]);
}

fn counted(counts: &Value, class: &str) -> u64 {
    let row = counts.as_array().unwrap().iter().find(|row| row["class"] == class);
    row.map_or(0, |row| row["getpage"].as_u64().unwrap())
}

fn assert_same_classes(counts: &Value, refetch: &Value) {
    for class in CLASSES {
        assert_eq!(refetch[class], counted(counts, class), "{class} of {refetch}, in SQL {counts}");
    }
}

fn assert_same_relations(rows: &Value, relations: &Value) {
    let (rows, relations) = (rows.as_array().unwrap(), relations.as_array().unwrap());
    assert_eq!((rows.len(), relations.len()), (2, 2), "one relation of each tenant");
    for row in rows {
        let reported = relations.iter().find(|relation| relation["tenant"] == row["tenant"]).unwrap();
        for (field, value) in row.as_object().unwrap() {
            assert_eq!(&reported[field], value, "{field} of {reported}");
        }
    }
}

#[test]
fn golden_captures_come_back_field_by_field_and_class_by_class() {
    let Some(python) = python_with("duckdb") else { return };
    for name in ["clean_v1", "clean_v2", "clean_v3", "errors_tag103", "ipv6", "same_pages_again", "basebackup_epoch"] {
        let path = format!("{}/../../pcaps/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
        let directory = traced(&fs::read(path).unwrap(), "");
        let (results, report) = results_and_report(&python, &directory, "traces");
        assert_same_classes(&results[1], &report["refetch"]);
    }
}
