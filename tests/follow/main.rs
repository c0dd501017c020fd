//! The reassembled bytes of public captures, held against tshark's.
//!
//! A fixed sample of the captures is compared; all of them with `PAGESNIFF_NIGHTLY=1`. Where tshark is missing the test says so
//! and passes, or fails with `PAGESNIFF_REQUIRE_TSHARK=1`.

mod compare;
mod ours;
mod stream;
mod tshark;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use compare::Difference;
use stream::Streams;

/// Of all captures every so manieth is in the sample: tshark takes half a second for each.
const SAMPLE_EVERY: usize = 5;

#[test]
fn streams_are_those_that_tshark_follows() {
    if !tshark::is_installed() {
        assert!(!is_set("PAGESNIFF_REQUIRE_TSHARK"), "tshark is not installed");
        println!("skipped: tshark is not installed");
        return;
    }
    let captures = captures();
    let (mut directions, mut bytes, mut accepted) = (0, 0, BTreeMap::<&str, u64>::new());
    let mut faults = Vec::new();
    for capture in &captures {
        let Some(ours) = ours::read(capture) else {
            *accepted.entry("capture that pagesniff does not read").or_default() += 1;
            continue;
        };
        for (ends, (ours, theirs)) in side_by_side(ours, tshark::follow(capture)) {
            directions += 1;
            bytes += ours.bytes();
            match compare::compare(capture, &ours, &theirs) {
                Ok(()) => {}
                Err(Difference::Accepted(class)) => *accepted.entry(class).or_default() += 1,
                Err(Difference::Fault(what)) => faults.push(format!("{} {ends}: {what}", capture.display())),
            }
        }
    }
    println!("{} captures, {directions} directions, {bytes} bytes", captures.len());
    for (class, count) in &accepted {
        println!("{count:>6} {class}");
    }
    if is_set("PAGESNIFF_NIGHTLY")
        && captures.iter().any(|capture| capture.components().any(|part| part.as_os_str() == "corpus"))
    {
        let unused: Vec<_> = compare::KNOWN.iter().filter(|(_, reason)| !accepted.contains_key(reason)).collect();
        assert!(unused.is_empty(), "known differences that are none any more: {unused:?}");
    }
    assert!(directions > 50, "{directions} directions are too few to tell anything");
    assert!(faults.is_empty(), "{} differ:\n{}", faults.len(), faults.join("\n"));
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value != "0")
}

/// Goldens, and public captures of many protocols where they are at hand.
fn captures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut captures = Vec::new();
    for directory in ["pcaps", "../shared/corpus"] {
        let before = captures.len();
        collect(&root.join(directory), &mut captures);
        if captures.len() == before {
            println!("no captures in {directory}");
        }
    }
    captures.sort();
    let every = if is_set("PAGESNIFF_NIGHTLY") { 1 } else { SAMPLE_EVERY };
    captures.into_iter().step_by(every).collect()
}

fn collect(directory: &Path, captures: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, captures);
        } else if path
            .extension()
            .is_some_and(|ending| ["pcap", "pcapng", "cap", "trace"].iter().any(|known| ending == *known))
        {
            captures.push(path);
        }
    }
}

/// Directions that either has seen, by name.
fn side_by_side(ours: Streams, theirs: Streams) -> BTreeMap<String, (stream::Stream, stream::Stream)> {
    let mut both = BTreeMap::<String, (stream::Stream, stream::Stream)>::new();
    for (ends, stream) in ours {
        both.entry(format!("{} > {}", ends.0, ends.1)).or_default().0 = stream;
    }
    for (ends, stream) in theirs {
        both.entry(format!("{} > {}", ends.0, ends.1)).or_default().1 = stream;
    }
    both
}
