//! What a record costs behind the decoder, stage by stage: `cargo bench -p pagesniff-bench`.

#[path = "../../decode/benches/traffic/mod.rs"]
mod traffic;

use std::io;
use std::sync::LazyLock;

use analysis::render::Format;
use clap::Parser;
use decode::{Config, Sink};
use divan::Bencher;
use divan::counter::ItemsCount;
use pagesniff::attribution::Attributor;
use pagesniff::filter::Filter;
use pagesniff::flags::RawFilter;
use pagesniff::pipeline::{Outputs, Pipeline};
use pagesniff::recorder::{Clock, Recorder};
use pagesniff::records::{Pace, RecordWriter};
use record::Record;
use tempfile::TempDir;
use trace::{TraceWriter, WriterConfig};

use traffic::Traffic;

/// The records of a decoded capture.
static RECORDS: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let traffic = Traffic::compose("--connections 32 --depth 32 --requests 20000 --mtu 65535");
    let mut records = Vec::new();
    traffic.decode(&Config::default(), &mut records);
    records
});

#[derive(Parser)]
struct Words {
    #[command(flatten)]
    filter: RawFilter,
}

fn main() {
    divan::main();
}

/// Runs all records through a pipeline into these outputs, and waits until all is written.
fn run(outputs: Outputs) -> u64 {
    let filter = Filter::from_raw(&Words::parse_from(["bench"]).filter, true);
    let mut pipeline = Pipeline::new(Attributor::default(), filter, outputs);
    for record in RECORDS.iter() {
        pipeline.at(record.time);
        pipeline.record(record);
    }
    pipeline.finish().ledger.kept
}

fn bench(bencher: Bencher<'_, '_>, outputs: impl Fn() -> Outputs + Sync) {
    bencher.counter(ItemsCount::new(RECORDS.len())).with_inputs(outputs).bench_local_values(run);
}

fn rendered(format: Format) -> Outputs {
    Outputs { records: Some(RecordWriter::new(format, Pace::Pieces, Box::new(io::sink()))), ..Outputs::default() }
}

/// Attribution, filter, ledger and summary.
#[divan::bench]
fn a_filter_and_summary(bencher: Bencher<'_, '_>) {
    bench(bencher, Outputs::default);
}

/// And JSON Lines.
#[divan::bench]
fn b_jsonl(bencher: Bencher<'_, '_>) {
    bench(bencher, || rendered(Format::Jsonl));
}

/// Or CSV.
#[divan::bench]
fn c_csv(bencher: Bencher<'_, '_>) {
    bench(bencher, || rendered(Format::Csv));
}

/// Or traces, by a thread of their own, from an empty directory to closed files.
#[divan::bench]
fn d_recorder(bencher: Bencher<'_, '_>) {
    let directory = TempDir::new().unwrap();
    let runs = std::cell::Cell::new(0);
    let outputs = || {
        runs.set(runs.get() + 1);
        let config = WriterConfig::new(directory.path().join(runs.get().to_string()), "bench");
        let recorder = Recorder::start(TraceWriter::open(config).unwrap(), Clock::Packets).unwrap();
        Outputs { recorder: Some(recorder), ..Outputs::default() }
    };
    bencher.counter(ItemsCount::new(RECORDS.len())).with_inputs(outputs).bench_local_values(run);
}
