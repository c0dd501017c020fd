//! What was typed after `pagesniff export`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::raw_filter::RawFilter;

/// What records are exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RawExportFormat {
    /// JSON Lines, as --format jsonl
    Jsonl,
    /// Comma-separated values with a header line, as --format csv
    Csv,
    /// The GetPage as 36-byte events, which Neon's `pagectl page-trace` reads
    PageTrace,
    /// The GetPage that brought a page as 24-byte accesses, which libCacheSim reads
    OracleGeneral,
}

const EXAMPLES: &str = "\
Examples:
  pagesniff export pagesniff --to csv > requests.csv
      Every record of all tenants below ./pagesniff
  pagesniff export traces/*/*/ --to jsonl --min-latency 10ms | jq .key
      The keys of the slow ones
  pagesniff export traces --to page-trace > page_trace.bin
      For Neon's own tools; with the LSN that was asked for, where the pageserver has the one that it computed
  pagesniff export traces --to oracle-general --client 10.0.0.7 > compute.oracleGeneral
      One compute's fetches for other caches than LRU; each knows the next one of its page, for which 24 bytes a request wait
      in $TMPDIR
  duckdb -c \"select rel, count(*) from read_csv('/dev/stdin') group by rel\" < <(pagesniff export traces --to csv)
      Straight into SQL

Damaged or cut files are no failure: all of their whole blocks are used, and what was left is said on standard error.
Exit status: 0 done, 1 failed, 2 wrong usage.";

/// The options of an export.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES, after_help = "--help has examples and more on each option.")]
pub struct RawExport {
    /// Trace files, or directories of them
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// What to write
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub to: RawExportFormat,

    /// Which requests.
    #[command(flatten)]
    pub filter: RawFilter,

    /// Say nothing of damage or progress on standard error; errors still are
    #[arg(long, short)]
    pub quiet: bool,
}
