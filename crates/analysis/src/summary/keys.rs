//! How many different keys were asked for, and how many of them more than once, in bounded memory.

use hashbrown::HashTable;

/// Of the hash, the bit that is given up to remember that the key was asked for again. Bits 57 to 63 and the low bits
/// steer the table itself.
const REPEATED: u64 = 1 << 56;

/// The lowest of the bits that decide whether a key is followed once a table has been halved. Above the 21 low bits
/// that place a key in the largest table allowed, so that halving does not thin out places unevenly.
const SAMPLE_BIT: u32 = 24;

/// After this many halvings the sample bits are used up; a table of one key in 2^32 has long ceased to grow.
const MOST_HALVINGS: u32 = 32;

/// The keys of one tenant by their hashes.
///
/// Exact (but for a collision among 63-bit hashes, one chance in a million at two million keys) until it is halved.
/// From then on it follows only the half of all keys that a bit of their hash selects. A key that is followed has been
/// followed from the start, so what is known of it stays exact and only the scaling up is an estimate (adaptive
/// sampling; Flajolet, "On adaptive sampling", 1990).
#[derive(Debug, Default)]
pub(crate) struct KeyTally {
    followed: HashTable<u64>,
    repeated: u64,
    halvings: u32,
}

impl KeyTally {
    /// Takes one request for the key of that hash. True where the table grew by it.
    pub(crate) fn observe(&mut self, hash: u64) -> bool {
        if !follows(hash, self.halvings) {
            return false;
        }
        let identity = hash & !REPEATED;
        match self.followed.find_mut(identity, |&entry| entry & !REPEATED == identity) {
            Some(entry) => {
                self.repeated += u64::from(*entry & REPEATED == 0);
                *entry |= REPEATED;
                false
            }
            None => {
                self.followed.insert_unique(identity, identity, |&entry| entry & !REPEATED);
                true
            }
        }
    }

    /// Forgets every second key, and does not follow their like any more.
    pub(crate) fn halve(&mut self) {
        self.halvings = (self.halvings + 1).min(MOST_HALVINGS);
        let halvings = self.halvings;
        self.followed.retain(|&mut entry| follows(entry, halvings));
        self.repeated = self.followed.iter().map(|&entry| u64::from(entry & REPEATED != 0)).sum();
    }

    /// How many keys take memory.
    pub(crate) fn followed(&self) -> usize {
        self.followed.len()
    }

    /// One key in how many is followed: 1 where all are.
    pub(crate) fn followed_one_in(&self) -> u64 {
        1 << self.halvings
    }

    /// How many different keys were asked for.
    pub(crate) fn unique(&self) -> u64 {
        (self.followed.len() as u64).saturating_mul(self.followed_one_in())
    }

    /// How many of them more than once.
    pub(crate) fn repeated(&self) -> u64 {
        self.repeated.saturating_mul(self.followed_one_in())
    }
}

/// Whether a key of that hash is still followed after so many halvings.
fn follows(hash: u64, halvings: u32) -> bool {
    (hash >> SAMPLE_BIT).trailing_zeros() >= halvings
}

#[cfg(test)]
mod tests {
    use record::{RelTag, Target};

    use super::*;
    use crate::target_hash;

    fn hash_of(blkno: u32) -> u64 {
        let rel = RelTag { spcnode: 1663, dbnode: 5, relnode: 16384, forknum: 0 };
        target_hash(&Target::GetPage { rel, blkno }, 1)
    }

    #[test]
    fn a_key_counts_once_and_as_repeated_once() {
        let mut tally = KeyTally::default();
        let grew = [1, 2, 1, 1, 3].map(|blkno| tally.observe(hash_of(blkno)));
        assert_eq!(grew, [true, true, false, false, true]);
        assert_eq!((tally.unique(), tally.repeated(), tally.followed_one_in()), (3, 1, 1));
    }

    #[test]
    fn halving_keeps_the_estimate_near_the_truth() {
        let mut tally = KeyTally::default();
        for blkno in 0..400_000 {
            tally.observe(hash_of(blkno));
            if blkno % 4 == 0 {
                tally.observe(hash_of(blkno));
            }
            if tally.followed() > 20_000 {
                tally.halve();
            }
        }
        assert!(tally.followed() <= 20_000);
        assert!(tally.followed_one_in() >= 16);
        // The standard error of a sample of 10,000 and more is below 1 %; four of them are allowed.
        let off = |estimate: u64, truth: f64| (estimate as f64 / truth - 1.0).abs();
        assert!(off(tally.unique(), 400_000.0) < 0.04, "{}", tally.unique());
        assert!(off(tally.repeated(), 100_000.0) < 0.08, "{}", tally.repeated());
    }

    #[test]
    fn halving_never_stops_short_of_an_end() {
        let mut tally = KeyTally::default();
        tally.observe(hash_of(1));
        for _ in 0..100 {
            tally.halve();
        }
        assert_eq!(tally.followed_one_in(), 1 << MOST_HALVINGS);
    }
}
