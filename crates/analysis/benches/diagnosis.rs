//! The summary, the classes, the whole diagnosis and the live figures, in records a second: `cargo bench -p pagesniff-analysis`.

#[path = "../../trace/tests/sample/mod.rs"]
#[allow(dead_code, reason = "shared with the trace's tests, which use the rest")]
mod sample;

use std::sync::LazyLock;

use analysis::diagnosis::{Diagnosis, Limits, REORDER_RECORDS, Reorder};
use analysis::live::{By, CaptureFigures, Live, Wanted};
use analysis::refetch::{self, Refetch};
use analysis::summary::{self, Summary};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use record::Record;

const RECORDS: usize = 1_000_000;

/// In the order of completion.
static COMPLETED: LazyLock<Vec<Record>> = LazyLock::new(|| sample::records(RECORDS, 1));

/// In the order of arrival.
static ORDERED: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let mut records = COMPLETED.clone();
    records.sort_by_key(Record::order);
    records
});

fn main() {
    divan::main();
}

#[divan::bench(sample_count = 5)]
fn summarise(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        let mut summary = Summary::new(summary::Limits::default());
        COMPLETED.iter().for_each(|record| summary.observe(record));
        black_box(summary.records())
    });
}

#[divan::bench(sample_count = 5)]
fn classify(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        let mut refetch = Refetch::new(refetch::Limits::REPORT);
        ORDERED.iter().for_each(|record| {
            refetch.observe(record);
        });
        black_box(refetch.counts().redundant())
    });
}

#[divan::bench(sample_count = 5)]
fn diagnose(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        let mut diagnosis = Diagnosis::new(Limits::REPORT);
        ORDERED.iter().for_each(|record| diagnosis.observe(record));
        diagnosis
    });
}

#[divan::bench(sample_count = 5)]
fn diagnose_as_completed(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        let mut reorder = Reorder::new(Limits::CAPTURE, REORDER_RECORDS);
        COMPLETED.iter().for_each(|record| reorder.observe(record));
        reorder
    });
}

/// With a snapshot of every view, as a terminal takes it, every 50,000 records.
#[divan::bench(sample_count = 5)]
fn live_figures(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(RECORDS)).bench(|| {
        let mut live = Live::new(analysis::live::Limits::DEFAULT);
        for second in COMPLETED.chunks(50_000) {
            second.iter().for_each(|record| live.observe(record));
            let now = second.last().map(|record| record.time).unwrap_or_default();
            live.tick(now, 1_000_000_000, CaptureFigures::default());
            black_box(live.snapshot(Wanted { by: &By::ALL, rows: analysis::live::Limits::ROWS }));
        }
        live
    });
}
