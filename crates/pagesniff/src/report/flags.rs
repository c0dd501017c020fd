//! What was typed after `pagesniff report` and `pagesniff compare`.

use std::path::PathBuf;

use analysis::reuse::CHUNK_BLOCKS;
use bytesize::ByteSize;
use clap::Args;
use record::{TenantShardId, TimelineId};

use crate::flags::{ClientMatch, RawFilter, size};

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

/// Which requests of the traces. Whatever would leave out some requests of a connection is not offered: the others' proofs
/// rest on them.
#[derive(Debug, Clone, Args)]
pub struct RawReportFilter {
    /// Only this tenant, or this shard of it (TENANT-0b10: shard 11 of 16); repeatable
    #[arg(long, value_name = "TENANT[-SHARD]", help_heading = "Filters")]
    pub tenant: Vec<TenantShardId>,

    /// Blocks in a stripe of a sharded tenant; only shards in --tenant need it
    #[arg(long, value_name = "BLOCKS", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Filters")]
    pub stripe_size: u32,

    /// Only this timeline; repeatable
    #[arg(long, value_name = "TIMELINE", help_heading = "Filters")]
    pub timeline: Vec<TimelineId>,

    /// Only computes at this address, ADDR:PORT or network (10.0.0.0/8); repeatable
    #[arg(long, value_name = "CLIENT", help_heading = "Filters")]
    pub client: Vec<ClientMatch>,
}

impl RawReportFilter {
    /// Whether the traces of that tenant may hold what is wanted.
    pub(super) fn may_want(&self, tenant: record::TenantId) -> bool {
        self.tenant.is_empty() || self.tenant.iter().any(|wanted| wanted.tenant == tenant)
    }

    /// Whether what is wanted is named by its owner.
    pub(super) fn names_owner(&self) -> bool {
        !self.tenant.is_empty() || !self.timeline.is_empty()
    }

    /// The same as the filter of a capture.
    pub(super) fn to_raw_filter(&self) -> RawFilter {
        RawFilter {
            tenant: self.tenant.clone(),
            stripe_size: self.stripe_size,
            timeline: self.timeline.clone(),
            client: self.client.clone(),
            ..RawFilter::default()
        }
    }
}

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
    pub filter: RawReportFilter,

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
    pub filter: RawReportFilter,

    /// Where it goes.
    #[command(flatten)]
    pub output: RawReportOutput,
}
