//! What a row stands for.

use record::{Endpoint, Kind, Record, RelTag, Target, TenantTimeline};
use serde::{Deserialize, Serialize};

use super::snapshot::RowName;

/// Blocks of one key range, 16 MiB: Neon's stripe of a sharded tenant, so that no range lies on two shards.
pub const KEY_RANGE_BLOCKS: u32 = 2048;

/// By what requests are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The tenant's timeline.
    Tenant,
    /// The relation's fork.
    Rel,
    /// The connection, by its two ends.
    Client,
    /// [`KEY_RANGE_BLOCKS`] blocks of a fork.
    KeyRange,
}

impl By {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Tenant, Self::Rel, Self::Client, Self::KeyRange];

    /// Its word on the command line and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Rel => "rel",
            Self::Client => "client",
            Self::KeyRange => "key-range",
        }
    }
}

/// Whose requests, or requests for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RowKey {
    Tenant(Option<TenantTimeline>),
    Rel(Option<TenantTimeline>, RelTag),
    /// Requests that have no relation, or no key, put together by kind.
    Kind(Option<TenantTimeline>, Kind),
    Client(Endpoint, Endpoint, Option<TenantTimeline>),
    /// With the number of its first block.
    KeyRange(Option<TenantTimeline>, RelTag, u32),
}

impl RowKey {
    pub(super) fn of(by: By, record: &Record) -> Self {
        let owner = record.owner;
        let without = Self::Kind(owner, record.target.kind());
        match by {
            By::Tenant => Self::Tenant(owner),
            By::Rel => record.target.rel().map_or(without, |rel| Self::Rel(owner, rel)),
            By::Client => Self::Client(record.client, record.server, owner),
            By::KeyRange => match record.target {
                Target::GetPage { rel, blkno } => Self::KeyRange(owner, rel, blkno - blkno % KEY_RANGE_BLOCKS),
                _ => without,
            },
        }
    }

    pub(super) fn name(&self) -> RowName {
        let (Self::Tenant(owner)
        | Self::Rel(owner, _)
        | Self::Kind(owner, _)
        | Self::Client(_, _, owner)
        | Self::KeyRange(owner, ..)) = *self;
        let mut name = RowName {
            tenant: owner.map(|owner| owner.tenant.to_string()),
            timeline: owner.map(|owner| owner.timeline.to_string()),
            ..RowName::default()
        };
        match *self {
            Self::Tenant(_) => {}
            Self::Rel(_, rel) => name.rel = Some(rel.to_string()),
            Self::Kind(_, kind) => name.kind = Some(kind.to_string()),
            Self::Client(client, server, _) => {
                name.client = Some(client.to_string());
                name.server = Some(server.to_string());
            }
            Self::KeyRange(_, rel, first) => {
                name.rel = Some(rel.to_string());
                name.first_blkno = Some(first);
                name.last_blkno = Some(first.saturating_add(KEY_RANGE_BLOCKS - 1));
            }
        }
        name
    }
}
