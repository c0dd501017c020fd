//! The committed golden captures are what their commands make, and stay small.

use std::fs;
use std::path::{Path, PathBuf};

use trafficgen::golden::GOLDENS;

/// Bound of one file; the largest that is useful is a few pages.
const FILE_BYTES: usize = 100_000;

/// Bound of all of them: they live in the repository's history for ever.
const TOTAL_BYTES: usize = 1_500_000;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../pcaps")
}

#[test]
fn every_golden_is_what_its_command_makes() {
    let mut total = 0;
    for golden in GOLDENS {
        let mut composed = Vec::new();
        golden.compose_into(&mut composed).unwrap();
        let name = golden.file_name().unwrap();
        let committed = fs::read(directory().join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(composed == committed, "{name} differs: trafficgen golden --all pcaps, and look at what changed");
        assert!(composed.len() <= FILE_BYTES, "{name} has {} bytes", composed.len());
        total += composed.len();
    }
    assert!(total <= TOTAL_BYTES, "all together have {total} bytes");
}

#[test]
fn the_readme_says_what_each_is_and_nothing_else() {
    let readme = fs::read_to_string(directory().join("README.md")).unwrap();
    let table: Vec<&str> = readme.lines().filter(|line| line.starts_with("| `")).collect();
    let rows: Vec<String> = GOLDENS.iter().map(|golden| golden.table_row().unwrap()).collect();
    assert_eq!(table, rows);
}

#[test]
fn no_other_capture_lies_beside_them() {
    let expected: Vec<String> = GOLDENS.iter().map(|golden| golden.file_name().unwrap()).collect();
    for entry in fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let capture = name.ends_with(".pcap") || name.ends_with(".pcapng");
        assert!(!capture || expected.contains(&name), "{name} has no command");
    }
}
