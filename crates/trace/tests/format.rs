//! Holds `docs/trace-format.md` to the code.

use std::fs;

use record::{
    Attribution, Lsn, Pairing, Protocol, Record, RelTag, Status, Target, TenantId, TenantTimeline, TimelineId,
    Timestamp,
};
use tempfile::TempDir;
use trace::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, Circumstances, Counter, FILE_HEADER_FIXED_BYTES, FILE_MAGIC, FORMAT_MAJOR,
    FORMAT_MINOR, HeaderField, MAX_BLOCK_BYTES, MAX_BLOCK_RECORDS, MAX_FILE_HEADER_BYTES, Section, TraceReader,
    TraceWriter, WriterConfig,
};

const PAGE: &str = include_str!("../../../docs/trace-format.md");

/// The rows of the table whose header row begins with these cells.
fn table(header: &str) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().trim_matches(['|', '`', ' ']).to_owned()).collect()
    };
    let start = format!("| {header}");
    let lines = PAGE.lines().skip_while(|line| !line.starts_with(&start));
    let rows: Vec<Vec<String>> = lines.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(!rows.is_empty(), "no table {header:?}");
    rows
}

fn pairs(header: &str) -> Vec<(String, String)> {
    table(header).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_constants_are_those_of_the_page() {
    let constants = [
        ("FORMAT_MAJOR", u64::from(FORMAT_MAJOR)),
        ("FORMAT_MINOR", u64::from(FORMAT_MINOR)),
        ("FILE_HEADER_FIXED_BYTES", FILE_HEADER_FIXED_BYTES as u64),
        ("MAX_FILE_HEADER_BYTES", MAX_FILE_HEADER_BYTES as u64),
        ("BLOCK_HEADER_BYTES", BLOCK_HEADER_BYTES as u64),
        ("MAX_BLOCK_BYTES", MAX_BLOCK_BYTES as u64),
        ("MAX_BLOCK_RECORDS", u64::from(MAX_BLOCK_RECORDS)),
    ];
    assert_eq!(pairs("constant | value"), constants.map(|(name, value)| (name.to_owned(), value.to_string())));
    assert!(PAGE.contains(&format!("magic `{}`", hex(&FILE_MAGIC))));
    assert!(PAGE.contains(&format!("magic `{}`", hex(&BLOCK_MAGIC))));
}

#[test]
fn the_ids_are_those_of_the_page() {
    let fields: Vec<_> =
        HeaderField::ALL.iter().map(|&field| ((field as u16).to_string(), format!("{field:?}"))).collect();
    assert_eq!(pairs("field id | name"), fields);
    let sections: Vec<_> =
        Section::ALL.iter().map(|&section| ((section as u8).to_string(), format!("{section:?}"))).collect();
    assert_eq!(pairs("section id | name"), sections);
    let counters: Vec<_> =
        Counter::ALL.iter().map(|&counter| ((counter as u8).to_string(), counter.as_str().to_owned())).collect();
    assert_eq!(pairs("counter id | name"), counters);
}

/// Each field begins where the one before it ends, and the last one at the length of the fixed part.
fn check_layout(header: &str, fixed_bytes: usize) {
    let rows = table(header);
    let mut expected = 0usize;
    for row in &rows {
        assert_eq!(row[0].parse::<usize>().unwrap(), expected, "{row:?}");
        expected += row[1].parse::<usize>().unwrap_or(0);
    }
    assert_eq!(expected, fixed_bytes);
}

#[test]
fn the_layouts_add_up() {
    check_layout("offset | bytes | field |", FILE_HEADER_FIXED_BYTES);
    check_layout("offset | bytes | block field |", BLOCK_HEADER_BYTES);
}

const OWNER: TenantTimeline = TenantTimeline { tenant: TenantId([0x3a; 16]), timeline: TimelineId([0x11; 16]) };

/// The record of the example.
fn example() -> Record {
    let rel = RelTag { spcnode: 1663, dbnode: 16384, relnode: 16401, forknum: 0 };
    Record {
        time: Timestamp(1_796_094_784_355_690_560),
        latency_ns: Some(320_618),
        transfer_ns: Some(5_866),
        depth: Some(1),
        owner: Some(OWNER),
        attribution: Some(Attribution::Handshake),
        target: Target::GetPage { rel, blkno: 16_397 },
        request_lsn: Lsn::MAX,
        not_modified_since: Lsn(0x1_6FE4_FCE0),
        status: Status::Ok,
        page_lsn: Some(Lsn(0x1_6FE4_FCE0)),
        page_zero: Some(false),
        page_hash: None,
        client: "10.0.0.7:40000".parse().unwrap(),
        server: "10.0.0.1:6400".parse().unwrap(),
        protocol: Protocol::V3,
        reqid: Some(20_000 << 32 | 1),
        backend_pid: Some(20_000),
        seq: Some(0),
        epoch: None,
        pairing: Pairing::Exact,
    }
}

/// The bytes that the code writes for the example.
fn example_bytes() -> Vec<u8> {
    let directory = TempDir::new().unwrap();
    let circumstances = Circumstances { sample_one_in: 1, ..Circumstances::default() };
    let config = WriterConfig { circumstances, ..WriterConfig::new(directory.path(), "example") };
    let mut writer = TraceWriter::open(config).unwrap();
    let now = Timestamp(1_796_102_876_000_000_000);
    writer.append(&example(), now).unwrap();
    writer.flush(now).unwrap();
    let path = writer.files().next().unwrap().0.to_owned();
    writer.lose(Some(OWNER), Counter::Filtered, 300);
    writer.close(now).1.unwrap();
    fs::read(path).unwrap()
}

/// The bytes of the page's last code block: whatever stands before `;` in each line.
fn page_bytes() -> Vec<u8> {
    let dump = PAGE.rsplit("```").nth(1).unwrap();
    dump.lines()
        .skip(1)
        .flat_map(|line| line.split(';').next().unwrap().split_whitespace())
        .map(|digits| u8::from_str_radix(digits, 16).unwrap())
        .collect()
}

#[test]
fn the_example_is_read_as_the_page_says_and_written_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("example.pgtrace");
    fs::write(&path, page_bytes()).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records, [example()]);
    assert_eq!(reader.damaged_bytes(), 0);
    assert_eq!((reader.ledger().value(Counter::Seen), reader.ledger().value(Counter::Filtered)), (301, 300));
    assert_eq!(hex(&page_bytes()), hex(&example_bytes()));
}

#[test]
#[ignore = "prints the bytes of the example, for whoever changes the format"]
fn print_the_example() {
    println!("{}", hex(&example_bytes()));
    println!("{:?}", example());
}
