//! Shards of a tenant (`libs/pageserver_api/src/shard.rs` in Neon's repository).
//!
//! A large tenant is spread over several pageservers by relation and stripe of blocks. Neither the number of shards nor
//! the stripe's size crosses the wire.

use std::fmt;
use std::str::FromStr;

use crate::ids::{ParseIdError, TenantId};
use crate::key::Key;

/// One shard of how many, printed as Neon does: two hex bytes, `0b10` is shard 11 of 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardIndex {
    /// Which one, from 0.
    pub number: u8,
    /// Of how many; 0 says that the tenant is not sharded.
    pub count: u8,
}

impl fmt::Display for ShardIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}", self.number, self.count)
    }
}

/// A tenant, or one shard of it: `X` or `X-0b10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantShardId {
    /// The tenant.
    pub tenant: TenantId,
    /// The shard, where one was named.
    pub shard: Option<ShardIndex>,
}

/// Why a text is not a tenant or a tenant's shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseShardError {
    /// The part before the dash is no tenant id.
    Tenant(ParseIdError),
    /// The part behind the dash is not four hex digits, or names a shard outside the count.
    Slug,
}

impl fmt::Display for ParseShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tenant(error) => write!(f, "not a tenant: {error}"),
            Self::Slug => f.write_str(
                "a shard is four hex digits behind the tenant's dash, number and count: -0b10 is shard 11 of 16",
            ),
        }
    }
}

impl std::error::Error for ParseShardError {}

impl FromStr for TenantShardId {
    type Err = ParseShardError;

    fn from_str(text: &str) -> Result<Self, ParseShardError> {
        let (tenant, slug) = match text.split_once('-') {
            None => (text, None),
            Some((tenant, slug)) => (tenant, Some(slug)),
        };
        let tenant = tenant.parse().map_err(ParseShardError::Tenant)?;
        let shard = match slug {
            None => None,
            Some(slug) if slug.len() == 4 && slug.bytes().all(|b| b.is_ascii_hexdigit()) => {
                let [number, count] = u16::from_str_radix(slug, 16).map_err(|_| ParseShardError::Slug)?.to_be_bytes();
                if number >= count && (number, count) != (0, 0) {
                    return Err(ParseShardError::Slug);
                }
                Some(ShardIndex { number, count })
            }
            Some(_) => return Err(ParseShardError::Slug),
        };
        Ok(Self { tenant, shard })
    }
}

impl fmt::Display for TenantShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            None => write!(f, "{}", self.tenant),
            Some(shard) => write!(f, "{}-{shard}", self.tenant),
        }
    }
}

/// `forknum` of the init fork, which Neon keeps on shard 0.
const INIT_FORKNUM: u8 = 3;

/// The finaliser of MurmurHash3, as Neon uses it.
fn mix(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Joins two hashes, as Neon does.
fn join(a: u32, b: u32) -> u32 {
    a ^ b.wrapping_add(0x9e37_79b9).wrapping_add(a << 6).wrapping_add(a >> 2)
}

/// The shard that holds a relation's block, for a tenant of `count` shards with stripes of `stripe` blocks.
pub fn shard_of_block(key: Key, count: u8, stripe: u32) -> u8 {
    match stripe_hash(key, stripe) {
        Some(hash) if count >= 2 => (hash % u32::from(count)) as u8,
        _ => 0,
    }
}

/// The hash of a relation's stripe of `stripe` blocks, of which the remainder by the number of shards is the shard; `None`
/// for the init fork, which is on shard 0 whatever its hash.
pub fn stripe_hash(key: Key, stripe: u32) -> Option<u32> {
    let stripe_number = key.blkno.checked_div(stripe).unwrap_or(0);
    (key.rel.forknum != INIT_FORKNUM).then(|| join(mix(key.rel.relnode), mix(stripe_number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RelTag;

    const TENANT: &str = "3aabbf1a5d0f4e2a9d3c1b2a49505101";

    #[test]
    fn a_shard_is_read_as_neon_prints_it() {
        let sharded = format!("{TENANT}-0b10");
        let id: TenantShardId = sharded.parse().unwrap();
        assert_eq!(id.shard, Some(ShardIndex { number: 11, count: 16 }));
        assert_eq!(id.to_string(), sharded);
        assert_eq!(TENANT.parse::<TenantShardId>().unwrap().shard, None);
        for slug in ["-", "-1", "-100b", "-zzzz", "-0b100"] {
            assert_eq!(format!("{TENANT}{slug}").parse::<TenantShardId>(), Err(ParseShardError::Slug), "{slug}");
        }
    }

    #[test]
    fn blocks_lie_where_neon_puts_them() {
        let rel = RelTag { spcnode: 1663, dbnode: 5, relnode: 0x400c, forknum: 0 };
        let key = Key { rel, blkno: 0x7d06 };
        assert_eq!(shard_of_block(key, 10, 32768), 8);
        assert_eq!(stripe_hash(key, 32768).map(|hash| hash % 10), Some(8));
        assert_eq!(shard_of_block(key, 1, 32768), 0);
        assert_eq!(shard_of_block(Key { rel: RelTag { forknum: 3, ..rel }, ..key }, 10, 32768), 0);
    }
}
