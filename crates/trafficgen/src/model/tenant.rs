//! The tenants that there are, and the pages that they own.

use record::{Key, Lsn, RelTag, TenantId, TenantTimeline, TimelineId};

use crate::rng::scatter;

/// Blocks of every relation; a block from here on reads as zeros, as past the end of a real one.
pub const RELATION_BLOCKS: u32 = 1024;

/// Relations over which even a small set of pages is spread.
const RELATIONS_AT_LEAST: u64 = 7;

/// The forks of the relations in turn: mostly main forks, a visibility map and a free space map among them.
const FORKS: [u8; 7] = [0, 0, 0, 2, 0, 0, 1];

/// The first relation's node, where Postgres begins to number those of users.
const FIRST_RELNODE: u32 = 16_384;

/// The `number`-th tenant and one timeline of it. They do not depend on the seed, so documents and tests can name them.
pub const fn owner(number: u32, timeline: u32) -> TenantTimeline {
    TenantTimeline {
        tenant: TenantId(id_bytes(number as u64 + 1, 0x7E4A)),
        timeline: TimelineId(id_bytes(number as u64 + 1, 0x71AE_0000 + timeline as u64)),
    }
}

const fn id_bytes(number: u64, salt: u64) -> [u8; 16] {
    let high = scatter(salt << 32 | number) as u128;
    (high << 64 | (salt as u128) << 32 | number as u128).to_be_bytes()
}

/// Where a tenant's write-ahead log stood when the traffic began.
pub const fn base_lsn(tenant_number: u32) -> Lsn {
    Lsn((1 + tenant_number as u64) << 32 | 0x6E00_0000)
}

/// The `index`-th of a tenant's `pages` pages.
pub fn page_at(index: u64, pages: u64) -> Key {
    let span = pages.div_ceil(RELATIONS_AT_LEAST).clamp(1, u64::from(RELATION_BLOCKS));
    let relation = index / span;
    let forknum = FORKS.get((relation % FORKS.len() as u64) as usize).copied().unwrap_or(0);
    let rel = RelTag { spcnode: 1663, dbnode: 16_384, relnode: FIRST_RELNODE + relation as u32, forknum };
    Key { rel, blkno: (index % span) as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_index_is_a_page_of_its_own_within_its_relation() {
        for pages in [1, 7, 10, 5000, 100_000] {
            let keys: HashSet<Key> = (0..pages).map(|index| page_at(index, pages)).collect();
            assert_eq!(keys.len() as u64, pages);
            assert!(keys.iter().all(|key| key.blkno < RELATION_BLOCKS));
        }
    }

    #[test]
    fn owners_differ_by_tenant_and_timeline() {
        let owners: HashSet<TenantTimeline> = (0..40).map(|n| owner(n / 2, n % 2)).collect();
        assert_eq!(owners.len(), 40);
        assert_eq!(owner(3, 0).tenant, owner(3, 1).tenant);
    }
}
