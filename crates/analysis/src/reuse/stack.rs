//! Stack distances: between two requests for a key, how many different keys were asked for.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::grid::Histogram;
use super::recency::Recency;
use super::working_set::WorkingSet;

/// Apart from the seeds of `--sample` (0), of the summary's keys (1) and of the followed pages (2), so that a sample of a
/// sample is one.
const SAMPLE_SEED: u64 = 3;

/// The keys of a sample are told apart in so many groups, whose differences tell how far the sample may be off.
pub(super) const GROUPS: usize = 16;

/// One key in 2^24 is sampled at least. Who fills even that with different keys means it; no further key is taken.
const MOST_HALVINGS: u32 = 24;

/// What is remembered of a key.
#[derive(Debug, Clone, Copy)]
struct Seen {
    key: u64,
    /// When it was asked for last: its moment in the order, and the time in seconds.
    moment: u32,
    time_s: u32,
}

const _: () = assert!(size_of::<Seen>() == 16);

/// The stack distances of one stream of keys: exact up to a number of different keys, from there on of a sample by key
/// (SHARDS), which is halved whenever it grows beyond that number.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    most_keys: usize,
    seen: HashTable<Seen>,
    recency: Recency,
    halvings: u32,
    /// All requests, whether sampled or not.
    requests: u64,
    /// The requests while all keys were followed.
    exact: Histogram,
    /// The sampled ones since then, each times the keys that its own stands for, by the key's group.
    sampled: Vec<Histogram>,
    working_set: WorkingSet,
}

/// Bits of a hash that neither choose a table's place (the lowest) nor its tag (the highest).
fn sample_bits(hash: u64) -> u32 {
    (hash >> 24) as u32
}

fn hash_of(key: u64) -> u64 {
    xxh3_64_with_seed(&key.to_be_bytes(), SAMPLE_SEED)
}

impl Stack {
    /// One that follows so many keys.
    pub(super) fn new(most_keys: usize) -> Self {
        Self {
            most_keys,
            seen: HashTable::new(),
            recency: Recency::new(),
            halvings: 0,
            requests: 0,
            exact: Histogram::new(),
            sampled: Vec::new(),
            working_set: WorkingSet::default(),
        }
    }

    /// From now on it follows fewer keys.
    pub(super) fn limit(&mut self, most_keys: usize) {
        self.most_keys = most_keys;
        while self.seen.len() > self.most_keys && self.halvings < MOST_HALVINGS {
            self.halve();
        }
    }

    /// The cache is empty: whatever was asked for before is no hit when it comes again.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
        self.recency = Recency::new();
    }

    /// Brings what is known of a key into the processor's caches.
    pub(super) fn fetch(&self, key: u64) {
        let hash = hash_of(key);
        if self.samples(hash) {
            std::hint::black_box(self.seen.find(hash, |seen| seen.key == key));
        }
    }

    /// Takes the next request.
    pub(super) fn observe(&mut self, key: u64, now_s: u32) {
        self.requests = self.requests.saturating_add(1);
        let hash = hash_of(key);
        if !self.samples(hash) {
            return;
        }
        if self.recency.is_full() {
            self.renumber();
        }
        // All keys' latest moments, and this one: those after the key's own are the other keys since, and the key itself.
        let live = u32::try_from(self.seen.len()).unwrap_or(u32::MAX).saturating_add(1);
        let has_room = self.seen.len() < self.most_keys || self.halvings < MOST_HALVINGS;
        let moment = self.recency.push();
        let (distance, previous_s) = match self.seen.find_mut(hash, |seen| seen.key == key) {
            Some(seen) => {
                let distance = live.saturating_sub(self.recency.rank(seen.moment));
                self.recency.remove(seen.moment);
                let previous_s = std::mem::replace(&mut seen.time_s, now_s);
                seen.moment = moment;
                (Some(distance), Some(previous_s))
            }
            None if has_room => {
                let seen = Seen { key, moment, time_s: now_s };
                self.seen.insert_unique(hash, seen, |seen| hash_of(seen.key));
                (None, None)
            }
            None => {
                self.recency.remove(moment);
                return;
            }
        };
        self.count(hash, distance);
        self.working_set.observe(now_s, previous_s, self.keys_each());
        self.limit(self.most_keys);
    }

    /// Counts a sampled request.
    fn count(&mut self, hash: u64, distance: Option<u32>) {
        let keys_each = self.keys_each();
        // One of them is the key itself; each of the others stands for as many.
        let distance =
            distance.map(|distance| u64::from(distance).saturating_sub(1).saturating_mul(keys_each).saturating_add(1));
        if self.halvings == 0 {
            self.exact.add(distance, 1);
            return;
        }
        let group = sample_bits(hash) as usize % GROUPS;
        self.sampled.get_mut(group).into_iter().for_each(|group| group.add(distance, keys_each));
    }

    fn samples(&self, hash: u64) -> bool {
        u64::from(sample_bits(hash)) >> (u32::BITS - self.halvings) == 0
    }

    /// Follows half of the keys.
    fn halve(&mut self) {
        self.halvings += 1;
        if self.sampled.is_empty() {
            self.sampled = vec![Histogram::new(); GROUPS];
        }
        let shift = u32::BITS - self.halvings;
        let recency = &mut self.recency;
        self.seen.retain(|seen| {
            let stays = u64::from(sample_bits(hash_of(seen.key))) >> shift == 0;
            if !stays {
                recency.remove(seen.moment);
            }
            stays
        });
    }

    /// Gives all keys new moments in the same order, close together.
    fn renumber(&mut self) {
        let recency = &self.recency;
        self.seen.iter_mut().for_each(|seen| seen.moment = recency.rank(seen.moment).saturating_sub(1));
        self.recency = Recency::of(u32::try_from(self.seen.len()).unwrap_or(u32::MAX));
    }

    /// For how many keys each of those followed stands; 1 as long as all are.
    pub(super) fn keys_each(&self) -> u64 {
        1 << self.halvings
    }

    /// All requests.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// The requests while all keys were followed.
    pub(super) fn exact(&self) -> &Histogram {
        &self.exact
    }

    /// Those of the sample, by group; none where all keys are followed.
    pub(super) fn sampled(&self) -> &[Histogram] {
        &self.sampled
    }

    pub(super) fn working_set(&self) -> &WorkingSet {
        &self.working_set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The distances by definition: a list with the latest key first.
    fn naive(keys: &[u64], cleared_at: usize) -> Histogram {
        let (mut histogram, mut list) = (Histogram::new(), Vec::new());
        for (at, &key) in keys.iter().enumerate() {
            if at == cleared_at {
                list.clear();
            }
            let place = list.iter().position(|&other| other == key);
            place.into_iter().for_each(|place| {
                list.remove(place);
            });
            list.insert(0, key);
            histogram.add(place.map(|place| place as u64 + 1), 1);
        }
        histogram
    }

    proptest! {
        #[test]
        fn distances_are_those_of_a_list(
            keys in prop::collection::vec(prop_oneof![0u64..8, 0u64..900], 0..9000), cleared_at in 0usize..12000,
        ) {
            let mut stack = Stack::new(1 << 20);
            for (at, &key) in keys.iter().enumerate() {
                if at == cleared_at {
                    stack.clear();
                }
                stack.observe(key, 0);
            }
            prop_assert_eq!(stack.exact().misses(), naive(&keys, cleared_at).misses());
            prop_assert_eq!(stack.keys_each(), 1);
        }

        #[test]
        fn keys_stay_bounded_and_the_sample_goes_on(seed: u64, most_keys in 1usize..300) {
            let mut stack = Stack::new(most_keys);
            let mut key = seed;
            for at in 0..4000u32 {
                key = hash_of(key);
                stack.observe(key % 3000, at);
                prop_assert!(stack.seen.len() <= most_keys);
            }
            prop_assert_eq!(stack.requests(), 4000);
            prop_assert!(stack.keys_each() > 1 && stack.recency.live() as usize == stack.seen.len());
        }
    }

    #[test]
    fn where_there_is_no_room_at_all_requests_are_still_counted() {
        let mut stack = Stack::new(0);
        (0..1000).for_each(|key| stack.observe(key, 0));
        assert_eq!((stack.seen.len(), stack.requests()), (0, 1000));
    }
}
