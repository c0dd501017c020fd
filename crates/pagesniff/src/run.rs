//! A run: from checked settings to an exit status.

use std::io::{self, IsTerminal, Write};

use analysis::diagnosis::{Finding, InputFacts};
use analysis::render::{diagnosis_findings_text, report_text};
use analysis::summary::{CaptureFacts, Report, Traces};
use anyhow::anyhow;
use decode::{Decoder, Stats};
use record::Pairing;
use trace::{TraceError, TraceWriter};

#[cfg(feature = "live")]
use crate::capture::live::Live;
use crate::capture::{Files, Source};
use crate::earlier::Earlier;
use crate::facts::{exceeds, facts};
use crate::findings::Findings;
use crate::flags::{Input, Settings};
use crate::notes::{Grounds, notes};
use crate::pipeline::{self, Outputs, Pipeline};
#[cfg(all(feature = "live", target_os = "linux"))]
use crate::privileges::{Become, Confinement, Kept};
use crate::progress::ProgressLine;
use crate::recorder::{Clock, Recorder};
use crate::records::{Pace, RecordWriter};
use crate::summary_out::SummaryOut;
use crate::terminal::{columns_of, say};
use crate::worker;

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything was done.
    Done,
    /// Whoever read standard output had enough.
    OutputClosed,
    /// Done, and what was examined cannot be captured or read.
    Hindered,
    /// Done, but more was lost than is borne.
    TooMuchLoss,
}

impl Ended {
    /// The program's exit status.
    pub fn status(self) -> u8 {
        match self {
            Self::Done | Self::OutputClosed => 0,
            Self::TooMuchLoss | Self::Hindered => 3,
        }
    }
}

/// Reads what the settings name and writes what they ask for.
///
/// # Errors
///
/// Where an input cannot be read (to its end), or an output cannot be written. What was read before is in the outputs
/// nevertheless.
pub fn run(settings: Settings) -> anyhow::Result<Ended> {
    match &settings.input {
        Input::Files(paths) => run_from(Files::open(paths)?, &settings, Earlier::default()),
        #[cfg(feature = "live")]
        Input::Live(options) => {
            let live = Live::open(options.clone())?;
            let earlier = Earlier::read(&settings.daemon_state)?;
            confine(&settings)?;
            run_from(live, &settings, earlier)
        }
        #[cfg(not(feature = "live"))]
        Input::Live(_) => Err(anyhow!(
            "--iface: this pagesniff was built without live capture; build it with the feature 'live', or capture with \
             tcpdump and read that with --read"
        )),
    }
}

/// Gives up what only opening the interface took. Where nobody is named the user stays, and root's right to write into
/// directories of others: traces belong to whoever asked for them, and go where they said.
#[cfg(all(feature = "live", target_os = "linux"))]
fn confine(settings: &Settings) -> anyhow::Result<()> {
    let (user, capabilities) = match &settings.user {
        Some(name) => (Become::Named(name.clone()), Kept::Nothing),
        None => (Become::Nobody, Kept::FileAccess),
    };
    if let Some(config) = &settings.trace {
        user.make_directory(&config.directory)?;
    }
    let confined = Confinement { user, capabilities, files: None }.apply()?;
    for missing in confined.missing.iter().filter(|_| !settings.quiet) {
        say(format_args!("note: {missing}"));
    }
    Ok(())
}

#[cfg(all(feature = "live", not(target_os = "linux")))]
fn confine(_settings: &Settings) -> anyhow::Result<()> {
    Ok(())
}

/// The same from a source that is open.
fn run_from(mut source: impl Source, settings: &Settings, mut earlier: Earlier) -> anyhow::Result<Ended> {
    let summary = settings.summary.as_ref().map(SummaryOut::open).transpose()?;
    let outputs = Outputs { records: records(settings), recorder: recorder(settings)?, findings: findings(settings)? };
    let mut decoder = Decoder::new(settings.decode.clone());
    earlier.connections.drain(..).for_each(|connection| decoder.remember(connection));
    let mut pipeline = Pipeline::new(settings.attributor.clone(), settings.filter.clone(), outputs);
    let mut progress = ProgressLine::new(wants_progress(settings));
    announce(settings);

    let read = worker::run(&mut source, &mut decoder, &mut pipeline, &mut progress);

    let mut ended = pipeline.finish();
    let mut facts = gather(settings, &source, &decoder, (&ended, read.is_ok()));
    let unknown = facts.ledger.unattributed.saturating_add(ended.summary.by_attribution().none);
    facts.notes.extend(earlier.notes(decoder.stats(), unknown));
    // What was compared by times that are not to be believed proves nothing.
    let is_believed = !facts.clocks_disagree || ended.summary.timed() == 0;
    let findings = ended.findings.take().filter(|_| is_believed);
    let too_much_loss = settings.max_loss.is_some_and(|most| exceeds(most, &facts));
    let mut report = ended.report(facts);
    report.findings = findings.and_then(|findings| found(findings, &report));
    let records_ended = ended.write_error.take().map_or(Ok(Ended::Done), |error| output_outcome(Err(error)));
    if !settings.quiet && !matches!(records_ended, Ok(Ended::OutputClosed)) {
        // Where standard error is gone there is nobody to tell.
        let columns = columns_of(io::stderr());
        let text = report_text(&report, columns) + &findings_text(&report, columns);
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
    let summary_ended = summary.map_or(Ok(Ended::Done), |summary| summary.write(&report));
    read?;
    if let Some(error) = ended.recorded.and_then(|recorded| recorded.error) {
        return Err(anyhow!("{error}; what was written before is whole"));
    }
    match (records_ended?, summary_ended?) {
        (Ended::Done, Ended::Done) if too_much_loss => Ok(Ended::TooMuchLoss),
        (Ended::Done, ended) | (ended, _) => Ok(ended),
    }
}

/// The thread that finds out what the requests mean, for whoever waits for that and not for figures or records alone.
fn findings(settings: &Settings) -> anyhow::Result<Option<Findings>> {
    if !settings.finds_out {
        return Ok(None);
    }
    let is_replay = matches!(settings.input, Input::Files(_));
    Findings::start(is_replay, settings.filter.shard_claims())
        .map(Some)
        .map_err(|error| anyhow!("cannot start a thread: {error}"))
}

/// What was found of the records that were kept: nothing of none; `None` where finding out failed.
fn found(findings: Findings, report: &Report) -> Option<Vec<Finding>> {
    if report.records == 0 {
        return Some(Vec::new());
    }
    let facts =
        InputFacts { loss: report.loss, ledger: report.ledger, is_whole: report.complete, ..InputFacts::default() };
    findings.finish(facts).map(|found| found.findings)
}

/// The findings under the table, where there are any.
fn findings_text(report: &Report, columns: Option<usize>) -> String {
    match &report.findings {
        Some(findings) if !findings.is_empty() => format!("\n{}", diagnosis_findings_text(findings, columns)),
        _ => String::new(),
    }
}

/// The thread that writes traces, where they are wanted.
fn recorder(settings: &Settings) -> anyhow::Result<Option<Recorder>> {
    let Some(config) = &settings.trace else { return Ok(None) };
    let writer = TraceWriter::open(config.clone()).map_err(|error| match error {
        TraceError::Io { .. } => anyhow!("{error}; choose another directory with --out"),
        other => other.into(),
    })?;
    let clock = if matches!(settings.input, Input::Live(_)) { Clock::Wall } else { Clock::Packets };
    let recorder = Recorder::start(writer, clock).map_err(|error| anyhow!("cannot start a thread: {error}"))?;
    Ok(Some(recorder))
}

/// Says that a live capture runs. From here on every packet counts: who generates traffic waits for this line.
fn announce(settings: &Settings) {
    let Input::Live(options) = &settings.input else { return };
    if settings.quiet {
        return;
    }
    let traces = settings
        .trace
        .as_ref()
        .map_or(String::new(), |config| format!(", traces go to {}", config.directory.display()));
    say(format_args!("Capturing on {}{traces}. Ctrl-C ends it.", options.iface));
}

/// What a write to standard output came to: that its reader left is no failure.
///
/// # Errors
///
/// Where it failed for any other reason.
pub fn output_outcome(written: io::Result<()>) -> anyhow::Result<Ended> {
    match written {
        Ok(()) => Ok(Ended::Done),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Ended::OutputClosed),
        Err(error) => Err(anyhow!("standard output: writing failed, what follows is lost: {error}")),
    }
}

fn records(settings: &Settings) -> Option<RecordWriter> {
    let stdout = io::stdout();
    // A pipe may be somebody's live capture. Our own writes whatever there is as soon as no packet is at hand.
    let from_pipe = matches!(&settings.input, Input::Files(paths) if paths.iter().any(|path| path.as_os_str() == "-"));
    let prompt = stdout.is_terminal() || from_pipe;
    let pace = if prompt { Pace::EachRecord } else { Pace::Pieces };
    settings.format.map(|format| RecordWriter::new(format, pace, Box::new(stdout.lock())))
}

fn wants_progress(settings: &Settings) -> bool {
    // Records on the same terminal are progress enough.
    let records_on_terminal = settings.format.is_some() && io::stdout().is_terminal();
    !settings.quiet && !records_on_terminal
}

fn gather(
    settings: &Settings,
    source: &impl Source,
    decoder: &Decoder,
    (ended, read_whole): (&pipeline::Ended, bool),
) -> CaptureFacts {
    let stats = decoder.stats();
    let failed =
        ended.write_error.is_some() || ended.recorded.as_ref().is_some_and(|recorded| recorded.error.is_some());
    let mut facts = facts(stats, &source.statistics(), ended.ledger, read_whole && !failed);
    facts.notes = source.notes();
    facts.notes.extend(notes(&grounds(settings, stats, ended)));
    facts.notes.extend(ended.passed_over.note(&ended.ledger));
    facts.notes.extend(ended.attributor.notes());
    if let Some(recorded) = &ended.recorded {
        facts.notes.extend(recorded.limit.clone());
        facts.traces = Some(Traces {
            directory: recorded.directory.display().to_string(),
            files: recorded.files,
            bytes: recorded.bytes,
        });
    }
    facts
}

fn grounds<'a>(settings: &'a Settings, stats: &Stats, ended: &pipeline::Ended) -> Grounds<'a> {
    let pairings = ended.summary.by_pairing();
    Grounds {
        stats: *stats,
        ledger: ended.ledger,
        ports: &settings.decode.ports,
        sample_one_in: settings.filter.sample_one_in(),
        suspect: pairings.of(Pairing::Suspect),
        halves: pairings.of(Pairing::RequestOnly).saturating_add(pairings.of(Pairing::ResponseOnly)),
        without_owner: ended.summary.by_attribution().none,
        timed: ended.summary.timed(),
        has_hints: !ended.attributor.is_empty(),
    }
}
