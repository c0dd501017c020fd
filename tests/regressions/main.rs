//! Inputs that once went wrong, and the seeds of the fuzz targets: each goes through its target again, without a fuzzer.
//!
//! `cases/README.md` says of every case what it was and what it must give. A case `TARGET-WHAT` belongs to the fuzz target of that
//! name.

#[allow(dead_code, unreachable_pub, reason = "the fuzz targets' own crate uses all of it")]
#[path = "../../crates/fuzz/src/lib.rs"]
mod fuzz;

mod syn;

// Under the names by which the targets know one another.
use fuzz::{evidence, input, possible, run, segment};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Threads have 2 MiB of stack. What needs more than an eighth of it for a segment of 16 KiB runs out of it with longer ones.
const STACK_BYTES: usize = 256 << 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Runs a target on a file, with little stack; an overflow would end the whole test, with the name printed last.
fn replay(check: fuzz::Check, file: &Path) {
    let content = fs::read(file).unwrap();
    println!("{}", file.display());
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || check(&content)).unwrap();
    assert!(thread.join().is_ok(), "{}", file.display());
}

#[test]
fn every_case_that_once_went_wrong_goes_right() {
    let cases = root().join("tests/regressions/cases");
    let text = fs::read_to_string(cases.join("README.md")).unwrap();
    let described: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name)).collect();
    let mut replayed = BTreeSet::new();
    for file in files(&cases).iter().filter(|file| !file.ends_with("README.md")) {
        let name = file.file_name().unwrap().to_str().unwrap();
        let target = name.split('-').next().unwrap();
        let (_, check) = fuzz::TARGETS.iter().find(|(known, _)| *known == target).expect("a case of a known target");
        replay(*check, file);
        replayed.insert(name.to_owned());
    }
    let replayed: BTreeSet<&str> = replayed.iter().map(String::as_str).collect();
    assert_eq!(replayed, described, "the cases, and those that README.md describes");
}

/// Otherwise these would be faults, and the case would hold nothing.
#[test]
fn what_nothing_tells_any_more_is_counted_apart() {
    let case = |name: &str| fs::read(root().join("tests/regressions/cases").join(name)).unwrap();
    assert_eq!(fuzz::pagestream::untold(&case("pagestream-overtaken-without-a-trace")), 3);
    assert_eq!(fuzz::pagestream::untold(&case("pagestream-copy-without-a-trace")), 1);
    assert_eq!(fuzz::pagestream::untold(&case("pagestream-joined-at-a-copy")), 0);
    assert_eq!(fuzz::pagestream::untold(&case("pagestream-late-behind-its-acknowledgement")), 0);
}

#[test]
fn every_seed_goes_right() {
    for (target, check) in fuzz::TARGETS {
        let seeds = files(&root().join("crates/fuzz/seeds").join(target));
        assert!(seeds.len() >= 3, "{target} has {} seeds", seeds.len());
        seeds.iter().for_each(|seed| replay(*check, seed));
    }
}
