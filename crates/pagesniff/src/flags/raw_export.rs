//! What was typed after `pagesniff export`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, ValueEnum};

use super::raw::RawArgs;
use super::raw_filter::RawFilter;

/// What records are exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RawExportFormat {
    /// JSON Lines, as --format jsonl
    Jsonl,
    /// Comma-separated values with a header line, as --format csv
    Csv,
    /// Parquet files below --out, in tenant_id=TENANT/date=DAY
    #[cfg_attr(not(feature = "parquet"), value(hide = true))]
    Parquet,
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
  pagesniff export traces --to parquet --out records
      For many nodes and months, see docs/fleet.md; nothing that is there is replaced
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

    /// The directory for Parquet files, made where it is missing
    #[arg(long, value_name = "DIR", required_if_eq("to", "parquet"))]
    pub out: Option<PathBuf>,

    /// Which requests.
    #[command(flatten)]
    pub filter: RawFilter,

    /// Say nothing of damage or progress on standard error; errors still are
    #[arg(long, short)]
    pub quiet: bool,
}

impl RawExport {
    /// Checks what the options' own rules cannot say.
    ///
    /// # Errors
    ///
    /// Where two options contradict each other; the error prints itself and ends the program with status 2.
    pub fn checked(self) -> Result<Self, clap::Error> {
        if self.out.is_some() && self.to != RawExportFormat::Parquet {
            let message = "--out goes with --to parquet only; all other formats go to standard output";
            let mut program = RawArgs::command();
            program.build();
            let command = program.find_subcommand_mut("export");
            return Err(command.map_or_else(
                || clap::Error::raw(ErrorKind::ArgumentConflict, message),
                |command| command.error(ErrorKind::ArgumentConflict, message),
            ));
        }
        Ok(self)
    }
}
