//! The whole program, from a capture to traces and findings: what a longer capture allocates more is per block and per
//! second, never per packet or record.

#[path = "harness/allocations.rs"]
mod allocations;

use std::path::Path;

use allocations::{Counting, allocations_of};
use clap::Parser;
use pagesniff::flags::{RawArgs, Settings};
use pagesniff::run::{Ended, run};
use trafficgen::golden::Golden;

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

/// How many allocations a run makes: decoding, findings and traces each have their thread.
fn allocations_of_run(capture: &Path, out: &Path, options: &str) -> u64 {
    let arguments = ["pagesniff", "--read"].into_iter().map(Into::into);
    let paths = [capture.as_os_str().to_owned(), "--out".into(), out.as_os_str().to_owned()];
    let arguments = arguments.chain(paths).chain(options.split_whitespace().map(Into::into));
    let settings = Settings::from_raw(RawArgs::parse_from(arguments).run).unwrap();
    allocations_of(|| assert_eq!(run(settings).unwrap(), Ended::Done))
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
            [(&short, out("short")), (&long, out("long"))].map(|(path, out)| allocations_of_run(path, &out, options));
        let more = allocations[1].saturating_sub(allocations[0]);
        println!("'{options}': {allocations:?}, {more} more for 40,000 records");
        assert!(more <= PER_40_000_RECORDS, "'{options}': {more} more allocations");
    }
}
