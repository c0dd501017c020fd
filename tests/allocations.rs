//! The whole program, from a capture to traces and findings: what a longer capture allocates more is per block and per
//! second, never per packet or record.
#![allow(unsafe_code, reason = "an allocator that counts is an implementation of an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Parser;
use pagesniff::flags::{RawArgs, Settings};
use pagesniff::run::run;
use trafficgen::golden::Golden;

/// Counts what all threads allocate: decoding, findings and traces each have their own.
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

/// Blocks, batches between threads and growing tables: some dozens were counted, where one for each hundred packets or
/// records would be many hundreds.
const PER_40_000_RECORDS: u64 = 400;

/// The pages asked for are few, so that both captures ask for all of them: what is kept for a page is allocated once.
fn compose(path: &Path, options: &'static str) {
    let mut file = Vec::new();
    Golden { name: "allocations", purpose: "", options }.compose_into(&mut file).unwrap();
    std::fs::write(path, file).unwrap();
}

/// How many allocations a run makes.
fn allocations_of(capture: &Path, out: &Path, options: &str) -> u64 {
    let arguments = ["pagesniff", "--read"].into_iter().map(Into::into);
    let paths = [capture.as_os_str().to_owned(), "--out".into(), out.as_os_str().to_owned()];
    let arguments = arguments.chain(paths).chain(options.split_whitespace().map(Into::into));
    let settings = Settings::from_raw(RawArgs::parse_from(arguments).run).unwrap();
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    run(settings).unwrap();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn a_longer_capture_allocates_no_more_for_each_packet_and_record() {
    let directory = tempfile::tempdir().unwrap();
    let [short, long] = ["short.pcap", "long.pcap"].map(|name| directory.path().join(name));
    compose(&short, "--connections 4 --depth 16 --kinds getpage=20,exists=1 --pages 500 --requests 20000");
    compose(&long, "--connections 4 --depth 16 --kinds getpage=20,exists=1 --pages 500 --requests 60000");
    for (number, options) in ["--quiet", "--page-hash --quiet", ""].into_iter().enumerate() {
        let out = |name: &str| directory.path().join(format!("{name}{number}"));
        let allocations =
            [(&short, out("short")), (&long, out("long"))].map(|(path, out)| allocations_of(path, &out, options));
        let more = allocations[1].saturating_sub(allocations[0]);
        println!("'{options}': {allocations:?}, {more} more for 40,000 records");
        assert!(more <= PER_40_000_RECORDS, "'{options}': {more} more allocations");
    }
}
