//! What the words together mean.

use std::path::PathBuf;

use analysis::render::Format;
use clap::CommandFactory;
use clap::error::ErrorKind;

use super::raw::{RawArgs, RawRun};
use super::trace_settings::{Taken, writer_config};
use super::values::MaxLoss;
use crate::attribution::Attributor;
use crate::capture::live::LiveOptions;
use crate::filter::Filter;
use trace::WriterConfig;

/// Where the figures of the run go as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryTarget {
    /// To standard output, which then carries nothing else.
    Stdout,
    /// To that file.
    File(PathBuf),
}

/// Where packets come from.
#[derive(Debug, Clone)]
pub enum Input {
    /// Capture files; `-` is standard input.
    Files(Vec<PathBuf>),
    /// An interface.
    Live(LiveOptions),
}

/// Where a daemon's table of connections is, in its own default configuration.
pub const DEFAULT_DAEMON_STATE: &str = "/var/lib/pagesniff/connections.table";

/// Where a daemon tells whose connections are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DaemonState {
    /// Nowhere.
    None,
    /// At [`DEFAULT_DAEMON_STATE`], where there is one.
    Default,
    /// There.
    At(PathBuf),
}

impl DaemonState {
    /// What was typed, or the default.
    pub(crate) fn typed(typed: Option<PathBuf>) -> Self {
        match typed {
            None => Self::Default,
            Some(path) if path.as_os_str() == "none" => Self::None,
            Some(path) => Self::At(path),
        }
    }
}

/// A run that reads packets, checked and complete.
#[derive(Debug)]
pub struct Settings {
    /// Where packets come from.
    pub input: Input,
    /// How packets are decoded.
    pub decode: decode::Config,
    /// Whose requests they are, where connections do not say so.
    pub attributor: Attributor,
    /// Which requests are kept.
    pub filter: Filter,
    /// In which format records go to standard output; `None` where none do.
    pub format: Option<Format>,
    /// Where and how traces are written; `None` where none are.
    pub trace: Option<WriterConfig>,
    /// Where the figures go.
    pub summary: Option<SummaryTarget>,
    /// Whether it is found out what the requests mean: that takes as long as all else, on a thread of its own.
    pub finds_out: bool,
    /// How much loss is borne.
    pub max_loss: Option<MaxLoss>,
    /// Who the program becomes once the interface is open; `None` stays who it is.
    pub user: Option<String>,
    /// Where a daemon tells whose the connections are that were open before.
    pub daemon_state: DaemonState,
    /// Whether standard error is for errors only.
    pub quiet: bool,
}

impl Settings {
    /// Puts together what was typed.
    ///
    /// # Errors
    ///
    /// Where two options contradict each other; the error prints itself and ends the program with status 2.
    pub fn from_raw(raw: RawRun) -> Result<Self, clap::Error> {
        let filter = Filter::from_raw(&raw.filter, raw.unattributed);
        let attributor = raw.attribution.attributor()?;
        let taken = Taken {
            filter: raw.filter.in_words(),
            sample_one_in: filter.sample_one_in(),
            assertion: attributor.in_words(),
        };
        let summary = raw.summary.map(|path| match path.as_os_str() == "-" {
            true => SummaryTarget::Stdout,
            false => SummaryTarget::File(path),
        });
        if summary == Some(SummaryTarget::Stdout) && raw.format.is_some() {
            return Err(RawArgs::command().error(
                ErrorKind::ArgumentConflict,
                "--summary - and --format both want standard output: give --summary a file",
            ));
        }
        let ports = if raw.port.is_empty() { vec![decode::DEFAULT_PORT] } else { raw.port };
        // Only a machine of 32 bits has less address space than was asked for.
        let memory_limit_bytes = usize::try_from(raw.memory.as_u64()).unwrap_or(usize::MAX);
        let user = raw.live.user.clone();
        let daemon_state = DaemonState::typed(raw.live.daemon_state.clone());
        let input = raw.live.options(&ports).map_or(Input::Files(raw.read), Input::Live);
        let trace = writer_config(raw.trace, &input, taken)?;
        let decode = decode::Config { ports, page_hash: raw.page_hash, memory_limit_bytes };
        Ok(Self {
            input,
            decode,
            attributor,
            filter,
            format: raw.format,
            trace,
            summary,
            finds_out: raw.findings || (!raw.quiet && raw.format.is_none()),
            max_loss: raw.max_loss,
            user,
            daemon_state,
            quiet: raw.quiet,
        })
    }
}
