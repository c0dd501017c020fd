//! Into how many shards a tenant is spread, and in which stripes, as far as its requests prove it; and whether they fit what
//! somebody said.
//!
//! A compute has one connection for each shard, and asks a shard for its own blocks only: the hashes of all stripes asked for
//! on one connection leave the same remainder when divided by the number of shards. So that number divides every difference
//! of two hashes of one connection, and their greatest common divisor is found without trying numbers out. Under a
//! wrong stripe size, and for a tenant that is not sharded, the divisor falls to 1 within a few requests; nothing is kept of it
//! then.

mod claim;
mod size;

use std::collections::HashMap;

use foldhash::fast::RandomState;
use record::{Endpoint, Key, Record, TenantId};

use claim::ClaimCheck;
pub use claim::{ClaimReport, ShardClaim};
use size::StripeSize;

/// Stripe sizes that are tried, as powers of two: from 1 MiB, the chunk of a compute's cache, to 1 GiB. Neon's defaults, 16 and
/// 256 MiB, lie within.
const STRIPE_SIZES_LOG2: std::ops::RangeInclusive<u32> = 7..=17;

/// So many stripes must agree that need not. By chance a wrong number of shards stands up to that once in 2^40 cases.
pub const PROOF_STRIPES: usize = 40;

/// Tenants that are looked at, some 15 KiB each while they may be sharded.
const MAX_TENANTS: usize = 256;

/// Connections of tenants that may be sharded, some 100 bytes each; a pageserver rarely has over 4,000.
const MAX_CONNECTIONS: usize = 16_384;

/// What is known of one tenant's shards. Serialised, its names are fixed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShardReport {
    /// Whose.
    pub tenant: String,
    /// Its number of shards; null where it is not proven.
    pub count: Option<u8>,
    /// Pages in a stripe; null where it is not proven: several sizes agree with all that was asked for, or none.
    pub stripe_blocks: Option<u32>,
    /// Stripes that agree with `count` and need not have: the proof.
    pub agreeing_stripes: u64,
    /// The shards that were asked, in order; empty where `count` or `stripe_blocks` is null.
    pub asked: Vec<u8>,
    /// How the requests fit what was said of the tenant's shards.
    pub claims: Vec<ClaimReport>,
}

/// The first block that was asked for on a connection, and what follows from port numbers being used again.
#[derive(Debug, Clone)]
struct Connection {
    first: Key,
    last_seq: Option<u64>,
    backend_pid: Option<u32>,
    /// One bit for each claim of the tenant that the connection's requests contradict.
    mixed: u32,
}

/// Whether a record is of the connection that is known between its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Continues {
    Proven,
    /// It is of a later one.
    Refuted,
    /// Neither an ordinal nor a backend says so.
    Unknown,
}

impl Connection {
    fn continues_with(&self, record: &Record) -> Continues {
        let same_backend = self.backend_pid.zip(record.backend_pid).map(|(before, now)| before == now);
        match (self.last_seq.zip(record.seq).map(|(last, seq)| seq > last), same_backend) {
            (Some(false), _) | (_, Some(false)) => Continues::Refuted,
            (Some(true), _) | (_, Some(true)) => Continues::Proven,
            (None, None) => Continues::Unknown,
        }
    }
}

#[derive(Debug)]
struct Tenant {
    id: TenantId,
    /// Stripe sizes that have not been refuted.
    sizes: Vec<StripeSize>,
    claims: Vec<ClaimCheck>,
    /// A capture kept only what fits one shard: that all fits it proves nothing.
    is_selected: bool,
}

impl Tenant {
    fn new(id: TenantId, claims: Vec<ClaimCheck>) -> Self {
        let sizes = STRIPE_SIZES_LOG2.map(|log2| StripeSize::new(1 << log2)).collect();
        Self { id, sizes, claims, is_selected: false }
    }

    fn is_open(&self) -> bool {
        !self.sizes.is_empty() || !self.claims.is_empty()
    }
}

type Ends = (Endpoint, Endpoint, usize);

/// Observes GetPage requests in the order in which each connection sent them.
#[derive(Debug, Default)]
pub struct Shards {
    tenants: Vec<Tenant>,
    places: HashMap<TenantId, usize, RandomState>,
    connections: HashMap<Ends, Connection, RandomState>,
    /// The place of the last record's tenant: records come in runs.
    last: usize,
}

impl Shards {
    /// Checks that claim, too. What was observed before is not checked.
    pub fn claim(&mut self, claim: ShardClaim) {
        let Some(place) = self.place_of(claim.tenant) else { return };
        let Some(tenant) = self.tenants.get_mut(place) else { return };
        let has_room = tenant.claims.len() < u32::BITS as usize;
        match tenant.claims.iter_mut().find(|check| check.is_alike(&claim)) {
            Some(check) => check.join(&claim),
            // Each has a bit of its own in every connection.
            None if has_room => tenant.claims.push(ClaimCheck::new(&claim)),
            None => {}
        }
    }

    /// What is observed of that tenant was selected by its shard: how it fits proves nothing.
    pub fn selected(&mut self, id: TenantId) {
        let Some(place) = self.place_of(id) else { return };
        self.tenants.get_mut(place).into_iter().for_each(|tenant| tenant.is_selected = true);
    }

    /// Takes a request.
    #[inline]
    pub fn observe(&mut self, record: &Record) {
        let (Some(owner), Some(key)) = (record.owner, record.target.key()) else { return };
        let Some(place) = self.place_of(owner.tenant) else { return };
        self.last = place;
        let Some(tenant) = self.tenants.get_mut(place).filter(|tenant| tenant.is_open()) else { return };
        tenant.claims.iter_mut().for_each(|claim| claim.count(key));
        // The init fork is on shard 0 in any case.
        if record::stripe_hash(key, 1).is_none() {
            return;
        }
        let ends = (record.client, record.server, place);
        let known = self.connections.get_mut(&ends).map(|known| (known.continues_with(record), known));
        let connection = match known {
            Some((Continues::Proven, connection)) => connection,
            Some((Continues::Unknown, _)) => return,
            Some((Continues::Refuted, _)) | None => return self.begin(ends, record, key),
        };
        connection.last_seq = record.seq.or(connection.last_seq);
        connection.backend_pid = record.backend_pid.or(connection.backend_pid);
        let first = connection.first;
        tenant.sizes.retain_mut(|size| size.observe(first, key));
        for (bit, claim) in tenant.claims.iter_mut().enumerate() {
            claim.compare(first, key, (bit, &mut connection.mixed));
        }
        if !tenant.is_open() {
            self.forget(place);
        }
    }

    /// What is proven, and how the claims were met; tenants of which nothing can be said are left out.
    pub fn report(&self) -> Vec<ShardReport> {
        let of_place = |place: usize| self.connections.iter().filter(move |(ends, _)| ends.2 == place);
        let mut reports: Vec<ShardReport> = self
            .tenants
            .iter()
            .enumerate()
            .map(|(place, tenant)| {
                let proven = if tenant.is_selected { None } else { size::proven(&tenant.sizes) };
                let firsts = of_place(place).map(|(_, connection)| connection.first);
                ShardReport {
                    tenant: tenant.id.to_string(),
                    count: proven.map(|proven| proven.count),
                    stripe_blocks: proven.and_then(|proven| proven.stripe_blocks),
                    agreeing_stripes: proven.map_or(0, |proven| proven.agreeing_stripes),
                    asked: proven.map_or_else(Vec::new, |proven| proven.asked(firsts)),
                    claims: tenant.claims.iter().map(ClaimCheck::report).collect(),
                }
            })
            .filter(|report| report.count.is_some() || !report.claims.is_empty())
            .collect();
        reports.sort_by(|a, b| a.tenant.cmp(&b.tenant));
        reports
    }

    fn place_of(&mut self, id: TenantId) -> Option<usize> {
        if self.tenants.get(self.last).is_some_and(|tenant| tenant.id == id) {
            return Some(self.last);
        }
        if let Some(&place) = self.places.get(&id) {
            return Some(place);
        }
        let place = self.tenants.len();
        if place >= MAX_TENANTS {
            return None;
        }
        self.tenants.push(Tenant::new(id, Vec::new()));
        self.places.insert(id, place);
        Some(place)
    }

    /// A connection's first block. Where there is no room its requests prove nothing.
    fn begin(&mut self, ends: Ends, record: &Record, first: Key) {
        if self.connections.len() >= MAX_CONNECTIONS && !self.connections.contains_key(&ends) {
            return;
        }
        let begun = Connection { first, last_seq: record.seq, backend_pid: record.backend_pid, mixed: 0 };
        self.connections.insert(ends, begun);
        let Some(tenant) = self.tenants.get_mut(ends.2) else { return };
        tenant.sizes.iter_mut().for_each(|size| size.begin(first));
        tenant.claims.iter_mut().for_each(ClaimCheck::begin);
    }

    /// Nothing more can be said of a tenant.
    fn forget(&mut self, place: usize) {
        self.connections.retain(|ends, _| ends.2 != place);
        self.tenants.get_mut(place).into_iter().for_each(|tenant| tenant.sizes.shrink_to_fit());
    }
}

#[cfg(test)]
mod tests;
