//! Appending to and reading a trace allocates per block or less, never per record.

#[path = "../../../tests/harness/allocations.rs"]
mod allocations;
mod sample;

use allocations::{Counting, allocations_of};
use tempfile::TempDir;
use trace::{TraceReader, TraceWriter, WriterConfig};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_warm_writer_and_a_warm_reader_allocate_a_few_times_a_block() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(16 << 14, 1);
    let (blocks, config) =
        (16, WriterConfig { flush_interval_ns: None, ..WriterConfig::new(directory.path(), "test") });
    let mut writer = TraceWriter::open(config).unwrap();
    let mut append = || {
        for record in &records {
            writer.append(record, record.time).unwrap();
        }
    };
    append();
    let appending = allocations_of(append);
    assert!(appending <= 8 * blocks, "{appending} allocations for {blocks} blocks");
    let path = writer.files().next().unwrap().0.to_owned();
    let mut reader = TraceReader::open(path).unwrap();
    let mut read = reader.records();
    assert!(read.by_ref().take(records.len()).all(|record| record.is_ok()));
    let mut count = 0;
    let reading = allocations_of(|| count = read.count());
    assert_eq!(count, records.len());
    assert!(reading <= 8 * blocks, "{reading} allocations for {blocks} blocks");
}
