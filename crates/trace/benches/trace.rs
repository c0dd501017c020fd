//! Appending to a trace and reading it, in records a second: `cargo bench -p pagesniff-trace`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;
use std::sync::LazyLock;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use record::{Record, Timestamp};
use tempfile::TempDir;
use trace::{OrderedRecords, TraceReader, TraceWriter, WriterConfig};

/// 16 full blocks.
const RECORDS: usize = 16 << 14;

static SAMPLE: LazyLock<Vec<Record>> = LazyLock::new(|| sample::records(RECORDS, 1));
static HASHED: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let mut random = sample::Random(2);
    SAMPLE.iter().map(|record| Record { page_hash: Some(random.next()), ..record.clone() }).collect()
});

fn main() {
    for (name, records) in [("plain", &*SAMPLE), ("with page hash", &*HASHED)] {
        let (_directory, _, bytes) = written(records);
        println!("{name}: {:.3} bytes a record", bytes as f64 / RECORDS as f64);
    }
    println!("{} bytes a record in memory", size_of::<Record>());
    divan::main();
}

fn writer(directory: &TempDir) -> TraceWriter {
    TraceWriter::open(WriterConfig { flush_interval_ns: None, ..WriterConfig::new(directory.path(), "bench") }).unwrap()
}

fn append_all(writer: &mut TraceWriter, records: &[Record]) {
    for record in records {
        writer.append(record, record.time).unwrap();
    }
}

fn written(records: &[Record]) -> (TempDir, Vec<PathBuf>, u64) {
    let directory = TempDir::new().unwrap();
    let mut writer = writer(&directory);
    append_all(&mut writer, records);
    writer.flush(Timestamp(0)).unwrap();
    let files: Vec<_> = writer.files().map(|(path, bytes)| (path.to_owned(), bytes)).collect();
    let bytes = files.iter().map(|(_, bytes)| bytes).sum();
    (directory, files.into_iter().map(|(path, _)| path).collect(), bytes)
}

#[divan::bench]
fn append(bencher: Bencher<'_, '_>) {
    let directory = TempDir::new().unwrap();
    let mut writer = writer(&directory);
    append_all(&mut writer, &SAMPLE);
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| append_all(&mut writer, &SAMPLE));
}

#[divan::bench]
fn append_with_page_hash(bencher: Bencher<'_, '_>) {
    let directory = TempDir::new().unwrap();
    let mut writer = writer(&directory);
    append_all(&mut writer, &HASHED);
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| append_all(&mut writer, &HASHED));
}

#[divan::bench]
fn read(bencher: Bencher<'_, '_>) {
    let (_directory, files, _) = written(&SAMPLE);
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| {
        for file in &files {
            for record in TraceReader::open(file).unwrap().records() {
                black_box(&record.unwrap());
            }
        }
    });
}

#[divan::bench]
fn read_by_block(bencher: Bencher<'_, '_>) {
    let (_directory, files, _) = written(&SAMPLE);
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| {
        for file in &files {
            let mut reader = TraceReader::open(file).unwrap();
            while let Some(block) = reader.next_block().unwrap() {
                for record in block.records().unwrap() {
                    black_box(&record);
                }
            }
        }
    });
}

#[divan::bench]
fn read_in_order(bencher: Bencher<'_, '_>) {
    let (_directory, files, _) = written(&SAMPLE);
    bencher.counter(ItemsCount::new(RECORDS)).bench_local(|| {
        for record in OrderedRecords::open(&files).unwrap() {
            black_box(&record.unwrap());
        }
    });
}
