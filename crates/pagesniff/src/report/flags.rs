//! What was typed after `pagesniff report` and `pagesniff compare`.

use std::path::PathBuf;

use analysis::reuse::CHUNK_BLOCKS;
use bytesize::ByteSize;
use clap::Args;

use crate::flags::{RawOwnerFilter, size};

const REPORT_EXAMPLES: &str = "\
Examples:
  pagesniff report pagesniff
      What the traces below ./pagesniff have to say: findings first, then tables
  pagesniff report node-a/traces node-b/traces --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101
      One tenant's pages on two nodes, merged
  pagesniff report traces --json - | jq .shards
      How many shards a tenant has, and in which stripes, where its requests prove it
  pagesniff report traces --json - | jq .refetch
      For scripts
  pagesniff report traces --cache-now 8GiB
      How large a cache in place of the present one would spare half of the fetches, and more
  pagesniff report traces --html report.html
      With charts, as one page that opens offline
  pagesniff report page_trace.bin
      A page trace that the pageserver took itself, as far as it goes

Exit status: 0 done, 1 failed, 2 wrong usage.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  pagesniff compare before after
      Did the larger cache help? Two directories of traces, figure by figure
  pagesniff compare monday tuesday --tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101 --json change.json

Exit status: 0 done, 1 failed, 2 wrong usage.";

/// Where a report goes.
#[derive(Debug, Clone, Args)]
pub struct RawReportOutput {
    /// Write everything as JSON into this file; `-` is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// No progress on standard error; errors still are
    #[arg(long, short)]
    pub quiet: bool,
}

/// What cache sizes are computed for.
#[derive(Debug, Clone, Args)]
pub struct RawCacheSizing {
    /// Size of each compute's present cache: shared_buffers plus the local file cache (8GiB). Sizes of one cache in its place
    /// are then told, too
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "Cache sizing")]
    pub cache_now: Option<ByteSize>,

    /// Pages of a chunk, for the curve of a cache that holds or drops whole chunks
    #[arg(long, value_name = "N", default_value_t = CHUNK_BLOCKS, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Cache sizing")]
    pub chunk_blocks: u32,
}

impl Default for RawCacheSizing {
    fn default() -> Self {
        Self { cache_now: None, chunk_blocks: CHUNK_BLOCKS }
    }
}

/// The options of a report.
#[derive(Debug, Args)]
#[command(after_long_help = REPORT_EXAMPLES, after_help = "--help has examples and more on each option.")]
pub struct RawReport {
    /// Trace files, or directories of them; or page traces of Neon's own
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,

    /// Which requests.
    #[command(flatten)]
    pub filter: RawOwnerFilter,

    /// For which caches.
    #[command(flatten)]
    pub cache: RawCacheSizing,

    /// Where it goes.
    #[command(flatten)]
    pub output: RawReportOutput,

    /// Write findings, charts and tables as one HTML page into this file; it opens offline
    #[arg(long, value_name = "FILE", value_parser = html_path)]
    pub html: Option<PathBuf>,
}

/// Standard output is the text's, or that of `--json -`.
fn html_path(typed: &str) -> Result<PathBuf, &'static str> {
    if typed == "-" { Err("a page goes into a file; name one") } else { Ok(PathBuf::from(typed)) }
}

/// The options of a comparison.
#[derive(Debug, Args)]
#[command(after_long_help = COMPARE_EXAMPLES, after_help = "--help has examples and more on each option.")]
pub struct RawCompare {
    /// A trace file, or a directory of them
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,

    /// The same of another time
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,

    /// Which requests.
    #[command(flatten)]
    pub filter: RawOwnerFilter,

    /// Where it goes.
    #[command(flatten)]
    pub output: RawReportOutput,
}
