//! Miss-ratio curves against the LRU of libCacheSim, which plays the exported accesses through.

use std::collections::{HashMap, HashSet};

use analysis::diagnosis::{Diagnosis, InputFacts, Limits};
use analysis::reuse::{self, CurvePoint, Method, MissRatioCurve, PAGE_BYTES};
use record::{Attribution, Lsn, Pairing, Protocol, Record, Status, Target, Timestamp};
use serde_json::{Value, json};
use trace::{OrderedRecords, TraceWriter, WriterConfig};

use crate::harness::Dir;
use crate::python::{python_with, run_python};
use crate::session::REL;

/// Plays the file through an LRU cache of each size, in pages, and through one that knows the future.
const RUN_CACHES: &str = "\
import json, libcachesim, sys
sizes = json.load(sys.stdin)
def ratio(cache, size):
    trace = libcachesim.TraceReader('accesses.oracleGeneral', libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    return cache(cache_size=size * 8192).process_trace(trace)[0]
print(json.dumps({'lru': [ratio(libcachesim.LRU, size) for size in sizes],
    'belady': ratio(libcachesim.Belady, sizes[len(sizes) // 2])}))
";

/// Twenty sizes at which a curve has points, from 128 pages to 98,304.
fn sizes() -> Vec<u64> {
    (14..34u32).map(|place| if place.is_multiple_of(2) { 1 << (place / 2) } else { 3 << (place / 2 - 1) }).collect()
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// From 0 up to 1.
fn fraction(state: &mut u64) -> f64 {
    (random(state) >> 11) as f64 / (1u64 << 53) as f64
}

/// The page asked for by the compute at 10.0.0.`host` as the `place`-th request.
fn asked(place: usize, host: u8, blkno: u32) -> Record {
    Record {
        time: Timestamp(1_796_083_200_000_000_000 + place as u64 * 20_000),
        latency_ns: Some(300_000),
        transfer_ns: Some(10_000),
        depth: Some(1),
        owner: Some(trafficgen::model::owner(0, 0)),
        attribution: Some(Attribution::Handshake),
        target: Target::GetPage { rel: REL, blkno },
        request_lsn: Lsn::MAX,
        not_modified_since: Lsn(77),
        status: Status::Ok,
        page_lsn: Some(Lsn(70)),
        page_zero: Some(false),
        page_hash: None,
        client: ([10, 0, 0, host], 40_000).into(),
        server: ([10, 0, 0, 100], 6400).into(),
        protocol: Protocol::V2,
        reqid: None,
        backend_pid: None,
        seq: Some(place as u64),
        epoch: None,
        pairing: Pairing::Exact,
    }
}

fn traces_of(records: impl Iterator<Item = Record>) -> Dir {
    let directory = Dir::new();
    let mut writer = TraceWriter::open(WriterConfig::new(directory.path("traces"), "test")).unwrap();
    let mut last = Timestamp(0);
    for record in records {
        last = record.time;
        writer.append(&record, last).unwrap();
    }
    writer.close(last).1.unwrap();
    directory
}

fn export(directory: &Dir, options: &str) -> Vec<u8> {
    let output = directory.command(&format!("export traces --to oracle-general {options}")).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The point of a curve at a size; one that is left out is as the one before it.
fn point_at(curve: &MissRatioCurve, pages: u64) -> &CurvePoint {
    curve.points.iter().rev().find(|point| point.bytes <= pages * PAGE_BYTES).unwrap()
}

fn misses_at(curve: &Value, pages: u64) -> u64 {
    let points = curve["points"].as_array().unwrap();
    let point = points.iter().rev().find(|point| point["bytes"].as_u64().unwrap() <= pages * PAGE_BYTES).unwrap();
    misses(point["miss_ratio"].as_f64().unwrap(), curve["requests"].as_u64().unwrap())
}

fn misses(ratio: f64, requests: u64) -> u64 {
    (ratio * requests as f64).round() as u64
}

/// The curve of all that is in the traces, from a stack with room for so many pages.
fn curve_with_room_for(directory: &Dir, pages: usize) -> MissRatioCurve {
    let reuse = reuse::Limits { pages, ..reuse::Limits::REPORT };
    let mut diagnosis = Diagnosis::new(Limits { reuse, ..Limits::REPORT });
    let records = OrderedRecords::open(&[directory.path("traces")]).unwrap();
    records.for_each(|record| diagnosis.observe(&record.unwrap()));
    diagnosis.report(InputFacts::default()).mrc.swap_remove(0)
}

/// The exact curve is libCacheSim's at each size, and the truth lies in the interval of an estimate with a hundredth of the
/// memory, whose mean absolute error is given.
fn compared(python: &str, pages: &[u32]) -> f64 {
    let records = pages.iter().enumerate().map(|(place, &page)| asked(place, 7, page));
    let directory = traces_of(records);
    directory.write("accesses.oracleGeneral", &export(&directory, ""));
    let sizes = sizes();
    let played = run_python(python, RUN_CACHES, (&directory, &json!(sizes)));
    let truths: Vec<f64> = played["lru"].as_array().unwrap().iter().map(|ratio| ratio.as_f64().unwrap()).collect();
    assert_eq!(truths.len(), 20);
    assert!(truths[0] > truths[19]);

    let report = crate::json(&directory.run("report traces --json -"));
    let exact = &report["mrc"][0];
    assert_eq!((&exact["method"], &exact["requests"]), (&"exact".into(), &pages.len().into()));
    for (&size, &truth) in sizes.iter().zip(&truths) {
        assert_eq!(misses_at(exact, size), misses(truth, pages.len() as u64), "{size} pages");
    }
    // Only right places of the next accesses let a cache that looks ahead do better than LRU at all, and never worse.
    assert!(played["belady"].as_f64().unwrap() <= truths[10]);

    let unique: HashSet<_> = pages.iter().collect();
    let sampled = curve_with_room_for(&directory, unique.len() / 100);
    assert_eq!(sampled.method, Method::Shards);
    assert!(sampled.sampling_rate <= 1.0 / 64.0, "{}", sampled.sampling_rate);
    let errors = sizes.iter().zip(&truths).map(|(&size, truth)| {
        let point = point_at(&sampled, size);
        let (low, high) = (point.miss_ratio_low.unwrap(), point.miss_ratio_high.unwrap());
        assert!((low..=high).contains(truth), "{size} pages: {truth} is not in {low}..{high}");
        (truth - point.miss_ratio).abs()
    });
    errors.sum::<f64>() / 20.0
}

/// The largest share of the requests that one page has.
fn most_popular(pages: &[u32]) -> f64 {
    let mut counts = HashMap::new();
    pages.iter().for_each(|page| *counts.entry(page).or_insert(0u32) += 1);
    f64::from(*counts.values().max().unwrap()) / pages.len() as f64
}

#[test]
fn the_curve_of_zipf_is_that_of_libcachesim() {
    const UNIQUE: f64 = 400_000.0;
    let Some(python) = python_with("libcachesim") else { return };
    let mut state = 1;
    // Popularity falls with the rank's 0.4th power: the rank is where the distribution reaches a random fraction.
    let rank = |state: &mut u64| (fraction(state).powf(1.0 / 0.6) * UNIQUE) as u32;
    let pages: Vec<u32> = (0..1_200_000).map(|_| rank(&mut state)).collect();
    assert!(most_popular(&pages) <= 0.001);
    let error = compared(&python, &pages);
    assert!(error <= 0.01, "{error}");
}

#[test]
fn the_curve_of_a_loop_is_that_of_libcachesim() {
    let Some(python) = python_with("libcachesim") else { return };
    // Its one step lies between two of the sizes, which are further away than a sample of a thousand pages can be off.
    let pages: Vec<u32> = (0..500_000).map(|place| place % 57_000).collect();
    assert!(most_popular(&pages) <= 0.001);
    let error = compared(&python, &pages);
    assert!(error <= 0.01, "{error}");
}

#[test]
fn the_curve_of_a_scan_beside_a_hot_set_is_that_of_libcachesim() {
    let Some(python) = python_with("libcachesim") else { return };
    let mut state = 9;
    // The hot set's 200 pages have half of the requests: no sample by page is sure to be close, and its interval says so.
    let page = |place: u32, state: &mut u64| {
        if place.is_multiple_of(2) { 200 + place / 2 % 49_800 } else { (random(state) % 200) as u32 }
    };
    let pages: Vec<u32> = (0..400_000).map(|place| page(place, &mut state)).collect();
    assert!(most_popular(&pages) > 0.001);
    compared(&python, &pages);
}

#[test]
fn an_export_of_one_compute_has_its_accesses_only() {
    let pages = [(1, 5), (2, 5), (1, 6), (1, 5), (2, 7), (1, 5)];
    let directory = traces_of(pages.iter().enumerate().map(|(place, &(host, page))| asked(place, host, page)));
    let accesses = |options: &str| -> Vec<(u32, i64)> {
        let bytes = export(&directory, options);
        let access = |access: &[u8]| {
            assert_eq!((&access[..4], &access[8..12]), (&1_796_083_200u32.to_le_bytes()[..], &[1, 0, 0, 0][..]));
            let blkno = u32::from_le_bytes(access[4..8].try_into().unwrap());
            (blkno, i64::from_le_bytes(access[16..].try_into().unwrap()))
        };
        assert!(bytes.len().is_multiple_of(24));
        bytes.chunks_exact(24).map(access).collect()
    };
    assert_eq!(accesses(""), [(5, 2), (5, 4), (6, -1), (5, 6), (7, -1), (5, -1)]);
    assert_eq!(accesses("--client 10.0.0.1"), [(5, 3), (6, -1), (5, 4), (5, -1)]);
    assert_eq!(accesses("--client 10.0.0.9"), []);
}

#[test]
fn what_brought_no_page_is_left_out_of_accesses_and_said() {
    let failed = Record { status: Status::Error, page_lsn: None, page_zero: None, ..asked(1, 1, 5) };
    let directory = traces_of([asked(0, 1, 5), failed, asked(2, 1, 5)].into_iter());
    let ended = directory.command("export traces --to oracle-general").output().unwrap();
    assert_eq!(ended.stdout.len(), 48);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(said, "Note: 1 requests brought no page of a known tenant, and are left out.\n");
}

#[test]
fn without_room_for_the_accesses_nothing_is_written() {
    let directory = traces_of([asked(0, 1, 5)].into_iter());
    let mut command = directory.command("export traces --to oracle-general");
    let output = command.env("TMPDIR", directory.path("absent")).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("No such file") && said.contains("TMPDIR names another directory"), "{said}");
}
