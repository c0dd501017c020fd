//! Appending to and reading a trace allocates per block or less, never per record.
#![allow(unsafe_code, reason = "an allocator that counts is an implementation of an unsafe trait")]

mod sample;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use trace::{TraceReader, TraceWriter, WriterConfig};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    work();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

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
