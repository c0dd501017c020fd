//! What was typed about which requests are wanted; the same for captures and for traces.

use std::time::Duration;

use analysis::shards::ShardClaim;
use clap::Args;
use record::{Kind, RelTag, TenantId, TenantShardId, TimelineId};

use super::values::{ClientMatch, SampleRate, duration};

/// Blocks in a stripe of a sharded tenant, as Neon makes them now.
const STRIPE_BLOCKS: u32 = 2048;

/// Whose requests. This alone may be asked of a report: whatever else left out some requests of a connection would take the
/// proofs of the others away.
#[derive(Debug, Clone, Args)]
pub struct RawOwnerFilter {
    /// Only this tenant, or this shard of it (TENANT-0b10: shard 11 of 16); repeatable
    #[arg(long, value_name = "TENANT[-SHARD]", help_heading = "Filters")]
    pub tenant: Vec<TenantShardId>,

    /// Blocks in a stripe of a sharded tenant; only shards in --tenant need it
    ///
    /// Neither this nor the number of shards is on the wire. Old tenants have 32768.
    #[arg(long, value_name = "BLOCKS", default_value_t = STRIPE_BLOCKS, value_parser = clap::value_parser!(u32).range(1..),
          help_heading = "Filters")]
    pub stripe_size: u32,

    /// Only this timeline; repeatable
    #[arg(long, value_name = "TIMELINE", help_heading = "Filters")]
    pub timeline: Vec<TimelineId>,

    /// Only computes at this address, ADDR:PORT or network (10.0.0.0/8); repeatable
    #[arg(long, value_name = "CLIENT", help_heading = "Filters")]
    pub client: Vec<ClientMatch>,
}

impl Default for RawOwnerFilter {
    fn default() -> Self {
        Self { tenant: Vec::new(), stripe_size: STRIPE_BLOCKS, timeline: Vec::new(), client: Vec::new() }
    }
}

impl RawOwnerFilter {
    /// Whether the traces of that tenant may hold what is wanted.
    pub fn may_want(&self, tenant: TenantId) -> bool {
        self.tenant.is_empty() || self.tenant.iter().any(|wanted| wanted.tenant == tenant)
    }

    /// Whether what is wanted is named by its owner.
    pub fn names_owner(&self) -> bool {
        !self.tenant.is_empty() || !self.timeline.is_empty()
    }

    /// What --tenant and --stripe-size say of shards.
    pub fn shard_claims(&self) -> impl Iterator<Item = ShardClaim> + '_ {
        let stripe_blocks = self.stripe_size;
        self.tenant.iter().filter_map(move |wanted| {
            let shard = wanted.shard.filter(|shard| shard.count > 1)?;
            Some(ShardClaim { tenant: wanted.tenant, shard, stripe_blocks })
        })
    }
}

/// The filters.
#[derive(Debug, Clone, Default, Args)]
pub struct RawFilter {
    /// Whose.
    #[command(flatten)]
    pub owner: RawOwnerFilter,

    /// Only this fork of a relation, such as 1663/16384/16402 or 1663/16384/16402_vm; repeatable
    #[arg(long, value_name = "REL", help_heading = "Filters")]
    pub rel: Vec<RelTag>,

    /// Only this kind of request: getpage, exists, nblocks, dbsize, slru; repeatable
    #[arg(long, value_name = "KIND", help_heading = "Filters")]
    pub kind: Vec<Kind>,

    /// Only requests that took at least this long, such as 1.5ms
    ///
    /// Requests whose latency is not known are left out by it.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Filters")]
    pub min_latency: Option<Duration>,

    /// Only one key in N, always the same ones, so that reuse stays measurable
    #[arg(long, value_name = "1/N", help_heading = "Filters")]
    pub sample: Option<SampleRate>,
}

impl RawFilter {
    /// The same as words of a command line, for the header of a trace; empty where everything is wanted.
    pub fn in_words(&self) -> String {
        let mut words = Vec::new();
        let mut say = |option: &str, values: Vec<String>| {
            words.extend(values.into_iter().map(|value| format!("--{option} {value}")));
        };
        say("tenant", self.owner.tenant.iter().map(ToString::to_string).collect());
        if self.owner.tenant.iter().any(|tenant| tenant.shard.is_some()) {
            say("stripe-size", vec![self.owner.stripe_size.to_string()]);
        }
        say("timeline", self.owner.timeline.iter().map(ToString::to_string).collect());
        say("rel", self.rel.iter().map(ToString::to_string).collect());
        say("kind", self.kind.iter().map(ToString::to_string).collect());
        say("client", self.owner.client.iter().map(ToString::to_string).collect());
        let least = self.min_latency.map(|least| humantime::format_duration(least).to_string().replace(' ', ""));
        say("min-latency", least.into_iter().collect());
        say("sample", self.sample.map(|rate| format!("1/{}", rate.one_in)).into_iter().collect());
        words.join(" ")
    }
}
