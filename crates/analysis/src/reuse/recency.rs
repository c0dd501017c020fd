//! The order in which keys were last asked for: a bit for each moment, set where it is some key's latest.

/// Moments that are counted together: their bits are counted one by one, whole blocks by a Fenwick tree, which stays so
/// small that it lies in the processor's first cache.
const BLOCK: u32 = WORDS_OF_BLOCK as u32 * u64::BITS;

const WORDS_OF_BLOCK: usize = 8;

/// Room for moments at first, and at least.
const LEAST_MOMENTS: u32 = 8 * BLOCK;

/// After a renumbering so many moments for each that is some key's latest: three of four are free, so that renumbering costs
/// each request a third of a step.
const ROOM: u32 = 4;

/// Which moments are some key's latest.
#[derive(Debug, Clone)]
pub(super) struct Recency {
    words: Vec<u64>,
    /// A Fenwick tree, from 1, of the bits in each block before the open one.
    tree: Vec<u32>,
    /// The bits in all blocks before the open one.
    closed: u32,
    next: u32,
}

impl Recency {
    pub(super) fn new() -> Self {
        Self::of(0)
    }

    /// The first `live` moments are some key's latest, and there is room for more.
    pub(super) fn of(live: u32) -> Self {
        let moments = live.saturating_mul(ROOM).max(LEAST_MOMENTS).checked_next_multiple_of(BLOCK);
        let moments = moments.unwrap_or(u32::MAX - (BLOCK - 1));
        let blocks = (moments / BLOCK) as usize;
        let mut this = Self { words: vec![0; blocks * WORDS_OF_BLOCK], tree: vec![0; blocks + 1], closed: 0, next: 0 };
        (0..live).for_each(|_| {
            this.push();
        });
        this
    }

    /// Whether there is room for no further moment.
    pub(super) fn is_full(&self) -> bool {
        self.next as usize >= self.words.len() * u64::BITS as usize
    }

    /// The next moment, which is some key's latest.
    pub(super) fn push(&mut self) -> u32 {
        let moment = self.next;
        if let Some(word) = self.words.get_mut((moment / u64::BITS) as usize) {
            *word |= 1 << (moment % u64::BITS);
        }
        self.next = moment.saturating_add(1);
        if self.next.is_multiple_of(BLOCK) {
            self.close(moment / BLOCK);
        }
        moment
    }

    /// Takes the block into the tree, as it is full.
    fn close(&mut self, block: u32) {
        let from = block as usize * WORDS_OF_BLOCK;
        let words = self.words.get(from..from + WORDS_OF_BLOCK).unwrap_or_default();
        let bits = words.iter().map(|word| word.count_ones()).sum();
        self.closed = self.closed.saturating_add(bits);
        self.add(block, bits);
    }

    fn add(&mut self, block: u32, bits: u32) {
        let mut at = block as usize + 1;
        while let Some(count) = self.tree.get_mut(at) {
            *count = count.wrapping_add(bits);
            at += at & at.wrapping_neg();
        }
    }

    /// The moment is no longer any key's latest.
    pub(super) fn remove(&mut self, moment: u32) {
        let Some(word) = self.words.get_mut((moment / u64::BITS) as usize) else { return };
        *word &= !(1 << (moment % u64::BITS));
        let block = moment / BLOCK;
        if block < self.next / BLOCK {
            self.closed = self.closed.saturating_sub(1);
            // Adding the two's complement of 1 takes one away.
            self.add(block, u32::MAX);
        }
    }

    /// How many moments up to this one, itself included, are some key's latest.
    pub(super) fn rank(&self, moment: u32) -> u32 {
        let block = moment / BLOCK;
        let before = if block == self.next / BLOCK { self.closed } else { self.blocks_before(block) };
        let word = (moment / u64::BITS) as usize;
        let words = self.words.get(block as usize * WORDS_OF_BLOCK..word).unwrap_or_default();
        let whole: u32 = words.iter().map(|word| word.count_ones()).sum();
        let last = self.words.get(word).copied().unwrap_or(0) << (u64::BITS - 1 - moment % u64::BITS);
        before.saturating_add(whole).saturating_add(last.count_ones())
    }

    /// All moments that are some key's latest.
    #[cfg(test)]
    pub(super) fn live(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    fn blocks_before(&self, block: u32) -> u32 {
        let (mut at, mut bits) = (block as usize, 0u32);
        while at > 0 {
            bits = bits.wrapping_add(self.tree.get(at).copied().unwrap_or(0));
            at &= at - 1;
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_are_those_of_a_sorted_set(removals in prop::collection::vec(any::<u32>(), 0..6000), live in 0u32..3000) {
            let mut recency = Recency::of(live);
            let mut set: BTreeSet<u32> = (0..live).collect();
            for removal in removals {
                if recency.is_full() {
                    break;
                }
                set.insert(recency.push());
                if let Some(&moment) = set.range(removal % recency.next..).next().filter(|_| removal % 3 > 0) {
                    recency.remove(moment);
                    set.remove(&moment);
                }
            }
            for moment in (0..recency.next).step_by(37) {
                prop_assert_eq!(recency.rank(moment) as usize, set.range(..=moment).count());
            }
        }
    }
}
