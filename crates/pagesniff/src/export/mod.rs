//! `pagesniff export`: traces → filter → records on standard output.

mod next_access;
mod oracle_out;
#[cfg(feature = "parquet")]
mod parquet_out;

#[cfg(feature = "parquet")]
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use analysis::render::{Format, count_text};
use anyhow::{anyhow, bail};
use record::{Endpoint, Record};
use trace::{ConnectionOwner, Counter, Damage, OrderedRecords, TraceError, WrittenRecords, open_all, trace_files};

use oracle_out::OracleOut;
#[cfg(feature = "parquet")]
use parquet_out::{Exported, ParquetOut};

use crate::filter::{Filter, Verdict};
use crate::flags::{RawExport, RawExportFormat};
use crate::page_trace_out::PageTraceOut;
use crate::records::{Pace, RecordWriter};
use crate::report::{EMPTY_FILE, UNPROVEN_LATENCIES, forget_times};
use crate::run::{Ended, output_outcome};
use crate::terminal::say;

/// Writes the records of the traces, in the order in which the capture itself would have; accesses for libCacheSim in that of
/// time, as a report takes them.
///
/// # Errors
///
/// A trace cannot be read, or standard output takes nothing more. What was read before is on standard output, but of accesses
/// none.
pub fn export(raw: &RawExport) -> anyhow::Result<Ended> {
    if matches!(raw.to, RawExportFormat::PageTrace | RawExportFormat::OracleGeneral) && io::stdout().is_terminal() {
        bail!("this format is binary and not for a terminal: send standard output to a file");
    }
    if trace_files(&raw.traces)?.is_empty() {
        let names: Vec<String> = raw.traces.iter().map(|path| path.display().to_string()).collect();
        bail!("{}: no trace in there; traces are files that end in .pgtrace", names.join(", "));
    }
    as_format(raw).map_err(said_of_deleted)
}

fn as_format(raw: &RawExport) -> anyhow::Result<Ended> {
    match raw.to {
        RawExportFormat::Jsonl => as_written(raw, rendered(Format::Jsonl)),
        RawExportFormat::Csv => as_written(raw, rendered(Format::Csv)),
        RawExportFormat::PageTrace => as_written(raw, Out::PageTrace(PageTraceOut::new(Box::new(io::stdout().lock())))),
        RawExportFormat::OracleGeneral => as_accesses(raw),
        #[cfg(feature = "parquet")]
        RawExportFormat::Parquet => as_parquet(raw),
        #[cfg(not(feature = "parquet"))]
        RawExportFormat::Parquet => bail!(
            "this pagesniff was built without the feature `parquet`: build it with that, or let DuckDB make Parquet of --to jsonl"
        ),
    }
}

/// All traces were there when the export began: one that is not is a running capture's, whose rotation goes on.
fn said_of_deleted(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<TraceError>() {
        Some(TraceError::Io { source, path, .. }) if source.kind() == io::ErrorKind::NotFound => anyhow!(
            "{}: deleted during the export, as rotation does; export a copy of the traces, for which `cp -al` takes no room",
            path.display()
        ),
        _ => error,
    }
}

fn rendered(format: Format) -> Out {
    Out::Rendered(Box::new(RecordWriter::new(format, Pace::Pieces, Box::new(io::stdout().lock()))))
}

/// The filters of an export.
fn filter(raw: &RawExport) -> Filter {
    // Requests of unknown tenants are in a trace only since somebody asked for them.
    Filter::from_raw(&raw.filter, !raw.filter.owner.names_owner())
}

fn as_written(raw: &RawExport, mut out: Out) -> anyhow::Result<Ended> {
    let owners = LaterOwners::read(&raw.traces)?;
    // What a page trace holds rests on no latency.
    let clocks_disagree = raw.to != RawExportFormat::PageTrace && clocks_disagree(&raw.traces)?;
    let mut records = WrittenRecords::open(&raw.traces)?;
    let amend = |record: &mut Record| {
        owners.join(record);
        if clocks_disagree {
            forget_times(record);
        }
    };
    let read = write_all(&mut records, amend, (&filter(raw), &mut out));
    out.flush();
    if !raw.quiet {
        records.damaged().iter().for_each(|file| say_damage(&file.path, file.bytes, &file.damage));
        if clocks_disagree {
            say(format_args!("Note: {UNPROVEN_LATENCIES}."));
        }
        out.say_left_out();
    }
    match out.into_error() {
        Some(error) => output_outcome(Err(error)),
        None => read.map(|()| Ended::Done).map_err(Into::into),
    }
}

fn as_accesses(raw: &RawExport) -> anyhow::Result<Ended> {
    let mut out = OracleOut::new()?;
    each_in_order(raw, &raw.traces, |record| out.record(record))?;
    let left_out = out.left_out();
    if left_out > 0 && !raw.quiet {
        let left_out = count_text(left_out);
        say(format_args!("Note: {left_out} requests brought no page of a known tenant, and are left out."));
    }
    output_outcome(out.finish(&mut io::stdout().lock())?)
}

/// One tenant after the other: only files of unknown tenants have records of several.
#[cfg(feature = "parquet")]
fn as_parquet(raw: &RawExport) -> anyhow::Result<Ended> {
    let Some(directory) = &raw.out else { bail!("--to parquet needs --out DIR") };
    let mut by_tenant: BTreeMap<_, Vec<PathBuf>> = BTreeMap::new();
    for opened in open_all(&raw.traces)? {
        let reader = opened?;
        let owner = reader.header().and_then(|header| header.owner);
        by_tenant.entry(owner.map(|owner| owner.tenant)).or_default().push(reader.path().to_owned());
    }
    let clocks_disagree = clocks_disagree(&raw.traces)?;
    let mut out = ParquetOut::new(directory)?;
    for files in by_tenant.values() {
        each_in_order(raw, files, |record| {
            if clocks_disagree {
                forget_times(record);
            }
            out.record(record)
        })?;
        out.end_files()?;
    }
    let Exported { files, left_out } = out.finish()?;
    if left_out > 0 && !raw.quiet {
        say(format_args!(
            "Note: {} requests are of times beyond the year 2262, and are left out.",
            count_text(left_out)
        ));
    }
    if files == 0 && !raw.quiet {
        say(format_args!("Note: no request is left to export, so no file was written."));
    }
    if clocks_disagree && !raw.quiet {
        say(format_args!("Note: {UNPROVEN_LATENCIES}."));
    }
    Ok(Ended::Done)
}

/// Hands over what the filters keep, by time.
fn each_in_order(
    raw: &RawExport,
    files: &[PathBuf],
    mut take: impl FnMut(&mut Record) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (filter, owners) = (filter(raw), LaterOwners::read(files)?);
    let mut records = OrderedRecords::open(files)?;
    for record in &mut records {
        let mut record = record?;
        owners.join(&mut record);
        if filter.verdict(&record) == Verdict::Keep {
            take(&mut record)?;
        }
    }
    if !raw.quiet {
        let damaged = records.files().iter().filter(|file| file.damaged_bytes > 0 || file.is_empty);
        damaged.for_each(|file| say_damage(&file.path, file.damaged_bytes, &file.damage));
    }
    Ok(())
}

/// What records are written as.
enum Out {
    Rendered(Box<RecordWriter>),
    PageTrace(PageTraceOut),
}

impl Out {
    fn record(&mut self, record: &Record) {
        match self {
            Self::Rendered(out) => out.record(record),
            Self::PageTrace(out) => out.record(record),
        }
    }

    fn flush(&mut self) {
        match self {
            Self::Rendered(out) => out.flush(),
            Self::PageTrace(out) => out.flush(),
        }
    }

    fn error(&self) -> Option<&io::Error> {
        match self {
            Self::Rendered(out) => out.error(),
            Self::PageTrace(out) => out.error(),
        }
    }

    fn into_error(self) -> Option<io::Error> {
        match self {
            Self::Rendered(out) => out.into_error(),
            Self::PageTrace(out) => out.into_error(),
        }
    }

    /// Says what a page trace could not hold.
    fn say_left_out(&self) {
        if let Self::PageTrace(out) = self
            && out.left_out() > 0
        {
            let left_out = count_text(out.left_out());
            say(format_args!("Note: {left_out} requests are no GetPage that a page trace can hold, and are left out."));
        }
    }
}

fn write_all(
    records: &mut WrittenRecords,
    amend: impl Fn(&mut Record),
    (filter, out): (&Filter, &mut Out),
) -> Result<(), TraceError> {
    for record in records {
        let mut record = record?;
        amend(&mut record);
        if filter.verdict(&record) == Verdict::Keep {
            out.record(&record);
        }
        if out.error().is_some() {
            break;
        }
    }
    Ok(())
}

/// Says which bytes of a file belong to no whole block.
/// No bytes are damaged where the file has none.
fn say_damage(path: &Path, bytes: u64, damage: &[Damage]) {
    if bytes == 0 {
        return say(format_args!("Note: {}: {EMPTY_FILE}.", path.display()));
    }
    let offset = damage.first().map_or(0, |first| first.offset);
    say(format_args!(
        "Note: {}: {bytes} bytes belong to no whole block, the first of them at offset {offset}; all whole blocks were used.",
        path.display()
    ));
}

/// Whether any of the captures had its two directions stamped by clocks that disagree.
fn clocks_disagree(paths: &[PathBuf]) -> Result<bool, TraceError> {
    for opened in open_all(paths)? {
        let mut reader = opened?;
        while let Some(block) = reader.next_block()? {
            let ledger = block.ledger().unwrap_or_default();
            if ledger.value(Counter::ClockConflicts) > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whose connections were whose tenant was not known when their requests were written.
pub(crate) struct LaterOwners {
    by_ends: HashMap<(Endpoint, Endpoint), Vec<ConnectionOwner>>,
}

impl LaterOwners {
    /// Reads the attribution blocks of the traces.
    pub(crate) fn read(paths: &[PathBuf]) -> Result<Self, TraceError> {
        let mut by_ends: HashMap<_, Vec<ConnectionOwner>> = HashMap::new();
        for opened in open_all(paths)? {
            let mut reader = opened?;
            if reader.header().is_some_and(|header| header.owner.is_some()) {
                continue;
            }
            while let Some(block) = reader.next_block()? {
                for owner in block.attributions().unwrap_or_default() {
                    by_ends.entry((owner.client, owner.server)).or_default().push(owner);
                }
            }
        }
        for owners in by_ends.values_mut() {
            owners.sort_by_key(|owner| owner.connected);
        }
        Ok(Self { by_ends })
    }

    /// Gives a record without owner the one that its connection was found to have.
    pub(crate) fn join(&self, record: &mut Record) {
        if record.owner.is_some() || self.by_ends.is_empty() {
            return;
        }
        let owners = self.by_ends.get(&(record.client, record.server));
        let last = owners.and_then(|owners| owners.iter().rfind(|owner| owner.connected <= record.time));
        if let Some(last) = last {
            record.owner = Some(last.owner);
            record.attribution = Some(last.attribution);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_is_gone_was_deleted_by_rotation() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("a.pgtrace");
        let gone = said_of_deleted(OrderedRecords::open(&[&trace]).unwrap_err().into()).to_string();
        assert!(gone.starts_with(&format!("{}: deleted during the export", trace.display())), "{gone}");
        std::fs::write(&trace, "something else").unwrap();
        let foreign = said_of_deleted(OrderedRecords::open(&[&trace]).unwrap_err().into()).to_string();
        assert!(foreign.contains("not a pagesniff trace"), "{foreign}");
    }
}
