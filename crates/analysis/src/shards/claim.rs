//! What somebody said of a tenant's shards, held against its requests.

use record::{Key, ShardIndex, TenantId, shard_of_block};

/// `--tenant X-0b10 --stripe-size 2048`, as it was typed or stands in a trace's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardClaim {
    /// The tenant.
    pub tenant: TenantId,
    /// The shard that was named.
    pub shard: ShardIndex,
    /// Pages in a stripe.
    pub stripe_blocks: u32,
}

/// How requests fit a claim. Serialised, its names are fixed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ClaimReport {
    /// The shards that were named, as Neon prints them: `0b10` is shard 11 of 16.
    pub shards: Vec<String>,
    /// How many shards the tenant is said to have.
    pub count: u8,
    /// Pages in a stripe, as it was said.
    pub stripe_blocks: u32,
    /// GetPage for blocks of the named shards.
    pub on_shards: u64,
    /// GetPage of the tenant for blocks of other shards.
    pub on_others: u64,
    /// Connections that asked for blocks.
    pub connections: u64,
    /// Those of them whose blocks lie on several shards under the claim, which no connection's do: the claim is wrong.
    pub mixed_connections: u64,
}

#[derive(Debug)]
pub(super) struct ClaimCheck {
    shards: Vec<ShardIndex>,
    count: u8,
    stripe_blocks: u32,
    on_shards: u64,
    on_others: u64,
    connections: u64,
    mixed_connections: u64,
}

impl ClaimCheck {
    pub(super) fn new(claim: &ShardClaim) -> Self {
        Self {
            shards: vec![claim.shard],
            count: claim.shard.count,
            stripe_blocks: claim.stripe_blocks,
            on_shards: 0,
            on_others: 0,
            connections: 0,
            mixed_connections: 0,
        }
    }

    /// Whether the other differs in the shard alone.
    pub(super) fn is_alike(&self, claim: &ShardClaim) -> bool {
        (self.count, self.stripe_blocks) == (claim.shard.count, claim.stripe_blocks)
    }

    pub(super) fn join(&mut self, claim: &ShardClaim) {
        if !self.shards.contains(&claim.shard) {
            self.shards.push(claim.shard);
        }
    }

    /// Counts a request where its block lies.
    pub(super) fn count(&mut self, key: Key) {
        let number = shard_of_block(key, self.count, self.stripe_blocks);
        let counter = match self.shards.iter().any(|shard| shard.number == number) {
            true => &mut self.on_shards,
            false => &mut self.on_others,
        };
        *counter = counter.saturating_add(1);
    }

    /// A connection has asked for its first block.
    pub(super) fn begin(&mut self) {
        self.connections = self.connections.saturating_add(1);
    }

    /// A connection asked for another block; `bit` of its `mixed` is this claim's.
    pub(super) fn compare(&mut self, first: Key, key: Key, (bit, mixed): (usize, &mut u32)) {
        let mask = u32::try_from(bit).ok().and_then(|bit| 1u32.checked_shl(bit)).unwrap_or(0);
        let number = |key| shard_of_block(key, self.count, self.stripe_blocks);
        if *mixed & mask == 0 && number(first) != number(key) {
            *mixed |= mask;
            self.mixed_connections = self.mixed_connections.saturating_add(1);
        }
    }

    pub(super) fn report(&self) -> ClaimReport {
        ClaimReport {
            shards: self.shards.iter().map(ToString::to_string).collect(),
            count: self.count,
            stripe_blocks: self.stripe_blocks,
            on_shards: self.on_shards,
            on_others: self.on_others,
            connections: self.connections,
            mixed_connections: self.mixed_connections,
        }
    }
}
