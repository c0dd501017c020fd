//! A run: from checked settings to an exit status.

use std::io::{self, IsTerminal, Write};

use analysis::render::report_text;
use analysis::summary::CaptureFacts;
use anyhow::anyhow;
use decode::Decoder;

#[cfg(feature = "live")]
use crate::capture::live::Live;
use crate::capture::{Files, Source};
use crate::facts::{exceeds, facts};
use crate::flags::{Input, Settings};
use crate::notes::notes;
use crate::pipeline::Pipeline;
use crate::progress::ProgressLine;
use crate::records::{Pace, RecordWriter};
use crate::summary_out::SummaryOut;
use crate::worker;

/// How a run ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Everything was done.
    Done,
    /// Whoever read standard output had enough.
    OutputClosed,
    /// Done, but more was lost than is borne.
    TooMuchLoss,
}

impl Ended {
    /// The program's exit status.
    pub fn status(self) -> u8 {
        match self {
            Self::Done | Self::OutputClosed => 0,
            Self::TooMuchLoss => 3,
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
        Input::Files(paths) => run_from(Files::open(paths)?, &settings),
        #[cfg(feature = "live")]
        Input::Live(options) => {
            let live = Live::open(options.clone())?;
            if !settings.quiet {
                // From here on every packet counts: who generates traffic waits for this line.
                eprintln!("Capturing on {}. Ctrl-C ends it.", options.iface);
            }
            run_from(live, &settings)
        }
        #[cfg(not(feature = "live"))]
        Input::Live(_) => Err(anyhow!(
            "--iface: this pagesniff was built without live capture; build it with the feature 'live', or capture with \
             tcpdump and read that with --read"
        )),
    }
}

fn run_from(mut source: impl Source, settings: &Settings) -> anyhow::Result<Ended> {
    let summary = settings.summary.as_ref().map(SummaryOut::open).transpose()?;
    let mut decoder = Decoder::new(settings.decode.clone());
    let mut pipeline = Pipeline::new(settings.filter.clone(), records(settings));
    let mut progress = ProgressLine::new(wants_progress(settings));

    let read = worker::run(&mut source, &mut decoder, &mut pipeline, &mut progress);

    let facts = gather(settings, &source, &decoder, &pipeline, read.is_ok());
    let too_much_loss = settings.max_loss.is_some_and(|most| exceeds(most, &facts));
    let report = pipeline.report(facts);
    let records_ended = match pipeline.into_write_error() {
        None => Ok(Ended::Done),
        Some(error) => output_outcome(Err(error)),
    };
    if !settings.quiet && !matches!(records_ended, Ok(Ended::OutputClosed)) {
        // Where standard error is gone there is nobody to tell.
        let _ = io::stderr().lock().write_all(report_text(&report).as_bytes());
    }
    let summary_ended = summary.map_or(Ok(Ended::Done), |summary| summary.write(&report));
    read?;
    match (records_ended?, summary_ended?) {
        (Ended::Done, Ended::Done) if too_much_loss => Ok(Ended::TooMuchLoss),
        (Ended::Done, ended) | (ended, _) => Ok(ended),
    }
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
    pipeline: &Pipeline,
    read_whole: bool,
) -> CaptureFacts {
    let (stats, ledger) = (decoder.stats(), pipeline.ledger());
    let mut facts = facts(stats, &source.statistics(), ledger, read_whole && pipeline.write_error().is_none());
    facts.notes = source.notes();
    facts.notes.extend(notes(stats, &ledger, &settings.decode.ports, settings.filter.sample_one_in()));
    facts
}
