//! Reading files: one capture after the other, everything that is compared in turn.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use bytesize::ByteSize;

use crate::captures::Name;
use crate::figures::{Figures, Measured, Row, load_average};
use crate::flags::Arguments;
use crate::programs::{Contender, Part, Places, contenders};
use crate::{build, goals, process};

/// Free space that is left alone: a benchmark must not fill a disk.
const SPARE_BYTES: u64 = 2 << 30;

/// Measures what was asked for, and prints it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let pagesniff = build::pagesniff(arguments)?;
    let directory = match &arguments.dir {
        Some(directory) => directory.clone(),
        None => build::directory()?.join("../bench"),
    };
    fs::create_dir_all(&directory).with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let names = if arguments.only.is_empty() { Name::ALL.to_vec() } else { arguments.only.clone() };
    let load_before = load_average();
    let mut measured = Vec::new();
    for name in names {
        let capture = Capture::compose(&directory, name, arguments)?;
        let one = measure(&capture, &pagesniff, arguments)?;
        if !arguments.json {
            print!("{one}");
        }
        measured.push(one);
    }
    let goals = goals::judge(&measured);
    let figures = Figures { rounds: arguments.rounds, load_before, load_after: load_average(), measured, goals };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        print!("{}", figures.conclusion());
    }
    Ok(())
}

/// A capture on the disk, gone when it is not needed any more.
struct Capture {
    name: Name,
    path: PathBuf,
    bytes: u64,
    keep: bool,
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Capture {
    fn compose(directory: &Path, name: Name, arguments: &Arguments) -> Result<Self> {
        let size = arguments.size.as_u64();
        let path = directory.join(format!("{name}-{size}.pcap"));
        let mut capture = Self { name, path, bytes: 0, keep: arguments.keep };
        if !(arguments.keep && capture.path.exists()) {
            let free = free_bytes(directory)?;
            if free < size.saturating_mul(2).saturating_add(SPARE_BYTES) {
                let (free, size) = (ByteSize(free), ByteSize(size));
                bail!("{} has {free} free, too little for a capture of {size}: --size or --dir", directory.display());
            }
            eprintln!("composing {}", capture.path.display());
            // In a process of its own: what 10,000 connections take would count as the peak of whatever is started later.
            let own = std::env::current_exe().context("cannot tell where this program lies")?;
            let mut command = Command::new(own);
            command.arg("compose").args(name.options().split_whitespace());
            command.args(["--requests", &name.requests(size).to_string(), "--out"]).arg(&capture.path);
            process::run(&mut command).with_context(|| format!("cannot compose {}", capture.path.display()))?;
        }
        capture.bytes = fs::metadata(&capture.path)?.len();
        Ok(capture)
    }
}

fn free_bytes(directory: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(directory).with_context(|| format!("cannot look at {}", directory.display()))?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn measure(capture: &Capture, pagesniff: &Path, arguments: &Arguments) -> Result<Measured> {
    let beside = capture.path.with_extension("traces");
    let places = Places {
        capture: capture.path.clone(),
        traces: beside.clone(),
        summary: capture.path.with_extension("summary.json"),
    };
    let contenders = contenders(&places, pagesniff, arguments.against.as_deref())?;
    let mut rows: Vec<Row> = contenders.iter().map(|one| Row::new(one.part, one.label.clone())).collect();
    let mut facts = Facts::default();
    for round in 0..=arguments.rounds {
        eprint!("\r{} round {round} of {}", capture.name, arguments.rounds);
        for (contender, row) in contenders.iter().zip(&mut rows) {
            let usage = run_one(contender, &places)?;
            facts.take(contender.part, &places)?;
            // The first round brings the files into the cache.
            if round > 0 {
                row.take(usage);
            }
        }
    }
    eprintln!();
    remove_traces(&places.traces)?;
    fs::remove_file(&places.summary).context("cannot remove the summary")?;
    let Facts { packets, records, trace_bytes, hashed_trace_bytes } = facts;
    let per_record = |bytes: u64| (records > 0).then(|| bytes as f64 / records as f64);
    Ok(Measured {
        capture: capture.name.to_string(),
        bytes: capture.bytes,
        packets,
        records,
        bytes_a_record: per_record(trace_bytes),
        bytes_a_record_with_hash: per_record(hashed_trace_bytes),
        rows,
    })
}

fn run_one(contender: &Contender, places: &Places) -> Result<process::Usage> {
    remove_traces(&places.traces)?;
    process::run(&mut contender.command())
}

fn remove_traces(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

/// What pagesniff found in a capture.
#[derive(Debug, Default)]
struct Facts {
    packets: u64,
    records: u64,
    trace_bytes: u64,
    hashed_trace_bytes: u64,
}

impl Facts {
    /// Takes in what a run left behind.
    fn take(&mut self, part: Part, places: &Places) -> Result<()> {
        match part {
            Part::Traces => {
                let summary: serde_json::Value = serde_json::from_slice(&fs::read(&places.summary)?)?;
                self.packets = summary["packets"].as_u64().context("the summary has no packets")?;
                self.records = summary["ledger"]["kept"].as_u64().context("the summary has no ledger")?;
                self.trace_bytes = bytes_below(&places.traces)?;
            }
            Part::Hashes => self.hashed_trace_bytes = bytes_below(&places.traces)?,
            _ => {}
        }
        Ok(())
    }
}

/// Bytes of all files below a directory.
fn bytes_below(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    let Ok(entries) = fs::read_dir(directory) else { return Ok(0) };
    for entry in entries {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
