//! What was typed. Each value is checked on its own here, nothing is interpreted.

use std::path::PathBuf;

use analysis::render::Format;
use bytesize::ByteSize;
use clap::{ArgGroup, Args, Parser, Subcommand};

use super::raw_attribution::RawAttribution;
use super::raw_export::RawExport;
use super::raw_filter::RawFilter;
use super::raw_live::RawLive;
use super::raw_trace::RawTrace;
use super::values::{MaxLoss, memory};
use crate::doctor::RawDoctor;
use crate::plan::RawPlan;
use crate::report::{RawCompare, RawReport};

const EXAMPLES: &str = "\
Examples:
  pagesniff --iface eth0 --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101 --duration 30s
      Watch one tenant for half a minute; the trace is in ./pagesniff
  pagesniff --read node.pcap
      Who asked for what: a table by tenant, and how much of the picture is there
  pagesniff --read node.pcap --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101 --format jsonl
      Every request of one tenant, one JSON object a line
  pagesniff --iface eth0 --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101-0b10 --stripe-size 2048 --duration 30s
      Shard 11 of 16 of a large tenant; the findings say whether its requests fit that layout
  pagesniff --read node.pcap --min-latency 100ms --format table
      The slow requests
  pagesniff --read node.pcap --out traces
      A trace for each tenant: nine bytes a request, to keep, send and export
  pagesniff doctor --iface eth0
      What can be seen here, and what is in the way
  pagesniff export traces --to csv > requests.csv
      The records in them
  tcpdump -i eth0 -w - 'tcp port 6400' | pagesniff --read - --format csv
      Straight from tcpdump, which needs the privileges that pagesniff then does not
  pagesniff --read *.pcap.zst --summary - --quiet --max-loss 0
      For scripts: figures as JSON, and status 3 where anything was lost

Exit status:
  0  done (also where whoever read standard output closed it)
  1  failed: what was read before is in the output and the figures
  2  wrong usage
  3  done, but more was lost than --max-loss allows";

/// Watch a Neon pageserver's libpq port from outside: which page was asked for, when, at which LSN, and how long the
/// answer took.
#[derive(Debug, Parser)]
#[command(
    name = "pagesniff",
    version,
    after_long_help = EXAMPLES,
    after_help = "--help has examples, exit statuses and more on each option.",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 110
)]
pub struct RawArgs {
    /// Something else than reading packets.
    #[command(subcommand)]
    pub command: Option<RawCommand>,
    /// Reading packets.
    #[command(flatten)]
    pub run: RawRun,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum RawCommand {
    /// Write the records of traces in other formats: JSON Lines, CSV, Parquet, and those of Neon and libCacheSim.
    Export(RawExport),
    /// Say what traces tell: needless re-fetches and their proof, what was slow, and how much of the picture is there.
    Report(RawReport),
    /// Compare two traces: did the larger cache help?
    Compare(RawCompare),
    /// Say what a capture will take of disk and memory, and how far back its traces will reach.
    Plan(RawPlan),
    /// Say what can be seen here or in a capture, what is in the way, and what to do about it.
    Doctor(RawDoctor),
    /// Show who asks for what now, and how it is answered: rates, re-fetches, latencies, losses.
    #[cfg(all(feature = "top", target_os = "linux"))]
    Top(Box<crate::top::RawTop>),
    /// Keep the latest requests of every tenant, always: the daemon.
    #[cfg(all(feature = "live", target_os = "linux"))]
    Serve(crate::daemon::RawServe),
    /// Say how the daemon is: what it captures, records and has lost, and the traces that were asked for.
    #[cfg(all(feature = "live", target_os = "linux"))]
    Status(crate::daemon::RawStatus),
    /// Let the daemon take a trace: of connections that were open before, too, since it knows whose they are.
    #[cfg(all(feature = "live", target_os = "linux"))]
    Trace(crate::daemon::RawTakeTrace),
    /// Keep a tenant's latest requests, out of the daemon's flight recorder.
    #[cfg(all(feature = "live", target_os = "linux"))]
    Snapshot(crate::daemon::RawSnapshot),
    /// Fetch traces and reports from a daemon, by its HTTP API: without access to its machine.
    #[cfg(all(feature = "client", target_os = "linux"))]
    Fetch(Box<crate::client::RawFetch>),
    /// Print the man page or shell completions, for packagers.
    #[command(hide = true)]
    Generate {
        /// Which.
        #[command(subcommand)]
        what: RawGenerate,
    },
}

/// What can be made from the definition of the command line.
#[derive(Debug, Clone, Subcommand)]
pub enum RawGenerate {
    /// The manual pages, in roff.
    Man {
        /// Write a page for each command into this directory, instead of the first to standard output
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// The options of a run that reads packets.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("input").args(["iface", "read"]).required(true))]
pub struct RawRun {
    /// Capturing from an interface.
    #[command(flatten)]
    pub live: RawLive,

    /// Capture files: pcap or pcapng, plain, .gz or .zst; `-` is standard input
    ///
    /// Several are merged by their packets' times.
    #[arg(long, value_name = "FILE", num_args = 1.., help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// The pageserver's libpq port; repeatable [default: 6400]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Input")]
    pub port: Vec<u16>,

    /// Which requests.
    #[command(flatten)]
    pub filter: RawFilter,

    /// Keep requests whose tenant is not known
    ///
    /// The tenant is said once, when a connection is opened. Connections that are older than the capture have none:
    /// their requests are counted, and left out but for this option. With --tenant or --timeline they are kept beside
    /// what matches.
    #[arg(long, help_heading = "Filters")]
    pub unattributed: bool,

    /// Whose requests they are.
    #[command(flatten)]
    pub attribution: RawAttribution,

    /// Trace files.
    #[command(flatten)]
    pub trace: RawTrace,

    /// Write records to standard output: table, jsonl or csv
    ///
    /// Without it no records are written: the run ends with the table by tenant on standard error, and that is all.
    #[arg(long, value_name = "FORMAT", help_heading = "Output")]
    pub format: Option<Format>,

    /// Write the figures of the whole run as JSON; `-` is standard output, where --format does not use it
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub summary: Option<PathBuf>,

    /// Put what the requests mean into the summary, though --quiet or --format leave it unprinted
    ///
    /// Where findings are printed the summary has them anyway. Finding them out keeps a second processor busy.
    #[arg(long, requires = "summary", help_heading = "Output")]
    pub findings: bool,

    /// Hash the 8,192 bytes of each page (xxh3-64) into the records
    #[arg(long, help_heading = "Output")]
    pub page_hash: bool,

    /// No table, notes or progress on standard error; errors still are
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,

    /// Memory for connections, missing segments and open requests
    ///
    /// Where it does not suffice, the connections that were silent longest are forgotten, and counted.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = memory, help_heading = "Limits")]
    pub memory: ByteSize,

    /// End with status 3 where more was lost than this: a count, or a share such as 0.1%
    ///
    /// A count is of everything known to be lost: packets dropped, requests and answers missing, malformed messages,
    /// connections forgotten, records not kept. A share is the larger of two: packets dropped, of all packets; and
    /// requests and answers missing, of all requests. 0 allows no loss of any kind, a cut capture file included.
    /// Without this option no loss is too much.
    #[arg(long, value_name = "LOSS", help_heading = "Limits")]
    pub max_loss: Option<MaxLoss>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        RawArgs::command().debug_assert();
    }

    fn error(words: &[&str]) -> String {
        RawArgs::try_parse_from([&["pagesniff"], words].concat()).unwrap_err().to_string()
    }

    #[test]
    fn a_wrong_value_says_what_is_expected() {
        let cases = [
            (&["--read", "f", "--tenant", "abc"][..], "an id has 32 hex digits, this has 3 characters"),
            (&["--read", "f", "--rel", "1/2"], "SPCNODE/DBNODE/RELNODE"),
            (&["--read", "f", "--kind", "page"], "expected one of getpage, exists, nblocks, dbsize, slru"),
            (&["--read", "f", "--format", "xml"], "expected one of table, jsonl, csv"),
            (&["--read", "f", "--client", "10.0.0"], "10.0.0.7, 10.0.0.7:51344, [::1]:51344 or 10.0.0.0/8"),
            (&["--read", "f", "--min-latency", "5"], "time unit needed"),
            (&["--read", "f", "--sample", "2/3"], "1/N"),
            (&["--read", "f", "--memory", "1KiB"], "at least 1.0 MiB"),
            (&["--read", "f", "--max-loss", "101%"], "0% to 100%"),
            (&["--read", "f", "--port", "0"], "0 is not in 1..=65535"),
            (&["--tenant", "3aabbf1a5d0f4e2a9d3c1b2a49505101"], "<--iface <NAME>|--read <FILE>...>"),
            (&["--read", "f", "--iface", "lo"], "cannot be used with"),
            (&["--read", "f", "--duration", "30s"], "cannot be used with '--duration <TIME>'"),
            (&["--iface", "lo", "--duration", "30"], "time unit needed"),
            (&["--iface", "lo", "--count", "0"], "0 is not in 1.."),
            (&["--iface", "lo", "--snaplen", "64"], "64 is not in 160..=262144"),
            (&["--iface", "lo", "--buffer-size", "4KiB"], "from 1.0 MiB to 1.0 GiB"),
            (&["--iface", "lo", "--timestamps", "gps"], "[possible values: host, adapter]"),
        ];
        for (words, expected) in cases {
            let error = error(words);
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }
}
