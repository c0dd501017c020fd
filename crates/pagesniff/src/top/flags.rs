//! What was typed after `pagesniff top`.

use std::path::PathBuf;

use analysis::live::By;
use bytesize::ByteSize;
#[cfg(feature = "client")]
use clap::CommandFactory;
#[cfg(feature = "client")]
use clap::error::ErrorKind;
use clap::{ArgGroup, Args, ValueEnum};

#[cfg(feature = "client")]
use super::output::ROWS;

#[cfg(feature = "client")]
use crate::client::{Asked, DaemonUrl, RawAccess};
#[cfg(feature = "client")]
use crate::flags::RawArgs;
use crate::flags::{RawAttribution, RawFilter, RawLive, memory};

const EXAMPLES: &str = "\
Examples:
  sudo pagesniff top --iface eth0
      Who asks for what now, by tenant; keys 1 to 4 show it by relation, connection and key range, h explains the rest
  sudo pagesniff top --iface eth0 --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101 --by rel
      The relations of one tenant
  sudo pagesniff top --iface eth0 --once --duration 5s
      One table of five seconds, without a terminal
  sudo pagesniff top --iface eth0 --json --by client --rows 5 | jq .total.latency_ns
      For scripts: a line each second
  pagesniff top https://pageserver-7:9898 --token-file token --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101
      One tenant, as a daemon sees it; without access to its machine
  pagesniff top --read node.pcap
      A capture as it went by, in its own pace

Exit status: 0 done, 1 failed, 2 wrong usage.";

/// More than a high screen shows, in each of four views.
#[cfg(feature = "client")]
const ROWS_ON_SCREEN: usize = 50;

/// Of which one is given.
#[cfg(feature = "client")]
const INPUTS: [&str; 3] = ["url", "iface", "read"];
#[cfg(not(feature = "client"))]
const INPUTS: [&str; 2] = ["iface", "read"];

/// By what requests are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum RawBy {
    /// The tenant's timeline
    #[default]
    Tenant,
    /// The relation's fork
    Rel,
    /// The connection
    Client,
    /// 2,048 blocks of a fork, 16 MiB
    KeyRange,
}

impl From<RawBy> for By {
    fn from(by: RawBy) -> Self {
        match by {
            RawBy::Tenant => Self::Tenant,
            RawBy::Rel => Self::Rel,
            RawBy::Client => Self::Client,
            RawBy::KeyRange => Self::KeyRange,
        }
    }
}

/// The options of a live view.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("input").args(INPUTS).required(true),
    after_long_help = EXAMPLES,
    after_help = "--help has examples and more on each option."
)]
pub struct RawTop {
    /// A daemon, such as `https://pageserver-7:9898`: its figures, by its HTTP API
    ///
    /// Of the filters it takes one --tenant, one --timeline and one --rel; without --tenant a token that is for all tenants.
    #[cfg(feature = "client")]
    #[arg(value_name = "URL")]
    pub url: Option<DaemonUrl>,

    /// How the daemon is told who asks.
    #[cfg(feature = "client")]
    #[command(flatten)]
    pub access: RawAccess,

    /// Capturing from an interface.
    #[command(flatten)]
    pub live: RawLive,

    /// Capture files instead, in their own pace; as fast as they can be read with --json or --once
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// The pageserver's libpq port; repeatable [default: 6400]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Input")]
    pub port: Vec<u16>,

    /// Put requests together by this; in the terminal it is what is shown first
    #[arg(long, value_name = "WHAT", value_enum, default_value_t, help_heading = "View")]
    pub by: RawBy,

    /// Write so many rows, and the others together [default: 20]
    ///
    /// For --json and --once; a terminal shows what fits.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u16).range(1..), help_heading = "View")]
    pub rows: Option<u16>,

    /// Write the figures of the last ten seconds to standard output, one JSON object a line, each second
    #[arg(long, help_heading = "View")]
    pub json: bool,

    /// Write them once, after ten seconds or at the end, as text or with --json as JSON
    #[arg(long, help_heading = "View")]
    pub once: bool,

    /// Which requests.
    #[command(flatten)]
    pub filter: RawFilter,

    /// With --tenant or --timeline, show requests whose tenant is not known as well
    ///
    /// Without those they are shown in any case, in a row of their own.
    #[arg(long, help_heading = "Filters")]
    pub unattributed: bool,

    /// Whose requests they are.
    #[command(flatten)]
    pub attribution: RawAttribution,

    /// What the decoder's state may take
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory, help_heading = "Limits")]
    pub memory: ByteSize,
}

impl RawTop {
    /// Whether standard output gets figures, and no terminal is drawn on.
    pub(super) fn is_output(&self) -> bool {
        self.json || self.once
    }

    /// What a daemon is asked for.
    ///
    /// # Errors
    ///
    /// An option that is for captures on this machine.
    #[cfg(feature = "client")]
    pub(super) fn asked_of_daemon(&self) -> Result<Asked, clap::Error> {
        let RawFilter { owner, rel, kind, min_latency, sample } = &self.filter;
        let is_too_much = [owner.tenant.len(), owner.timeline.len(), rel.len()].into_iter().any(|count| count > 1)
            || !kind.is_empty()
            || !owner.client.is_empty()
            || min_latency.is_some()
            || sample.is_some()
            || self.unattributed
            || !self.port.is_empty()
            || self.live.duration.is_some();
        if is_too_much {
            let words = "of a daemon there are the figures of one --tenant, --timeline and --rel, or of all; the other filters, \
                         --port and --unattributed are for captures on this machine";
            return Err(RawArgs::command().error(ErrorKind::ArgumentConflict, words));
        }
        let by = if self.is_output() { vec![self.by.into()] } else { By::ALL.to_vec() };
        let words: Vec<String> = by.into_iter().map(|by| by.as_str().replace('-', "_")).collect();
        Ok(Asked {
            tenant: owner.tenant.first().map(ToString::to_string),
            timeline: owner.timeline.first().map(ToString::to_string),
            rel: rel.first().map(ToString::to_string),
            by: words.join(","),
            rows: self.rows.map_or(if self.is_output() { ROWS } else { ROWS_ON_SCREEN }, usize::from),
        })
    }
}
