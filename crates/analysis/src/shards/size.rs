//! One stripe size that a tenant may have, and what its requests say if it has.

use std::collections::HashSet;

use foldhash::fast::RandomState;
use record::{Key, stripe_hash};

use super::PROOF_STRIPES;

/// Stripes that are remembered to tell new ones from known ones: enough for a proof, and for one that sets two sizes apart.
const MAX_STRIPES: usize = 256;

/// What the requests say if stripes have this size.
#[derive(Debug)]
pub(super) struct StripeSize {
    blocks: u32,
    /// The greatest common divisor of the differences of hashes on one connection; 0 before the first.
    divisor: u32,
    /// The hashes of the stripes so far.
    stripes: HashSet<u32, RandomState>,
    /// Stripes that were new, and came on a connection that had asked for another before: each could have refuted the divisor.
    agreeing: usize,
}

impl StripeSize {
    pub(super) fn new(blocks: u32) -> Self {
        Self { blocks, divisor: 0, stripes: HashSet::default(), agreeing: 0 }
    }

    /// The first block of a connection: its stripe agrees with nothing yet.
    pub(super) fn begin(&mut self, first: Key) {
        if let (Some(hash), true) = (stripe_hash(first, self.blocks), self.stripes.len() < MAX_STRIPES) {
            self.stripes.insert(hash);
        }
    }

    /// A further block of a connection. False where no number of shards is left.
    #[inline]
    pub(super) fn observe(&mut self, first: Key, key: Key) -> bool {
        let (Some(before), Some(hash)) = (stripe_hash(first, self.blocks), stripe_hash(key, self.blocks)) else {
            return true;
        };
        let difference = before.abs_diff(hash);
        if difference == 0 {
            return true;
        }
        if self.divisor == 0 || !difference.is_multiple_of(self.divisor) {
            self.divisor = greatest_common_divisor(self.divisor, difference);
        }
        if self.stripes.len() < MAX_STRIPES && self.stripes.insert(hash) {
            self.agreeing = self.agreeing.saturating_add(1);
        }
        self.divisor != 1
    }

    /// How many shards are proven if stripes have this size. While few stripes agree, the divisor is a multiple by chance.
    fn count(&self) -> Option<u8> {
        let count = u8::try_from(self.divisor).ok().filter(|&count| count >= 2);
        count.filter(|_| self.agreeing >= PROOF_STRIPES)
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a
}

/// What is proven of a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Proven {
    pub(super) count: u8,
    pub(super) stripe_blocks: Option<u32>,
    pub(super) agreeing_stripes: u64,
}

/// What the stripe sizes that were not refuted prove together. The number of shards, where all that have a proof agree in it;
/// the stripe size, where every other has as many agreeing stripes fewer as make a proof.
pub(super) fn proven(sizes: &[StripeSize]) -> Option<Proven> {
    let best = sizes.iter().filter(|size| size.count().is_some()).max_by_key(|size| size.agreeing)?;
    let count = best.count()?;
    let others = || sizes.iter().filter(|other| other.blocks != best.blocks);
    if others().any(|other| other.count().is_some_and(|other| other != count)) {
        return None;
    }
    let is_apart = others().all(|other| other.agreeing.saturating_add(PROOF_STRIPES) <= best.agreeing);
    let stripe_blocks = is_apart.then_some(best.blocks);
    Some(Proven { count, stripe_blocks, agreeing_stripes: best.agreeing as u64 })
}

impl Proven {
    /// The shards of these blocks, in order, where stripes are known.
    pub(super) fn asked(&self, blocks: impl Iterator<Item = Key>) -> Vec<u8> {
        let Some(stripe_blocks) = self.stripe_blocks else { return Vec::new() };
        let mut numbers: Vec<u8> =
            blocks.map(|block| record::shard_of_block(block, self.count, stripe_blocks)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
