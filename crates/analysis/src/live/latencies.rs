//! Latencies of one second: quantiles to within 7 % in 900 bytes, the longest exactly.

use serde::{Deserialize, Serialize};

/// What is shorter shares one bucket: 2^10 ns, about a microsecond, is less than a capture can tell.
const SHORTEST_BITS: u32 = 10;

/// Buckets in each doubling, 1/8 of its beginning wide: their middles are within 7 % of what lies in them.
const BUCKETS_BITS: u32 = 3;
const BUCKETS_OF_DOUBLING: usize = 1 << BUCKETS_BITS;

/// Up to 2^38 ns, 275 s: a request is given up after 150 s.
const DOUBLINGS: usize = 28;

/// The last takes what is longer still.
const BUCKETS: usize = 1 + DOUBLINGS * BUCKETS_OF_DOUBLING;

/// What the buckets take.
#[cfg(test)]
pub(super) const BUCKET_BYTES: usize = BUCKETS * size_of::<u32>();

/// Counts latencies in ns.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies {
    /// `None` before the first, so that what is never answered takes no memory.
    buckets: Option<Box<[u32; BUCKETS]>>,
    measured: u64,
    max_ns: u64,
}

impl Latencies {
    pub(super) fn observe(&mut self, latency_ns: u64) {
        let buckets = self.buckets.get_or_insert_with(|| Box::new([0; BUCKETS]));
        if let Some(bucket) = buckets.get_mut(bucket_of(latency_ns)) {
            *bucket = bucket.saturating_add(1);
        }
        self.measured = self.measured.saturating_add(1);
        self.max_ns = self.max_ns.max(latency_ns);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let Some(more) = other.buckets.as_ref().filter(|_| other.measured > 0) else { return };
        let buckets = self.buckets.get_or_insert_with(|| Box::new([0; BUCKETS]));
        for (bucket, more) in buckets.iter_mut().zip(more.iter()) {
            *bucket = bucket.saturating_add(*more);
        }
        self.measured = self.measured.saturating_add(other.measured);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Forgets them, and keeps the memory for the next.
    pub(super) fn clear(&mut self) {
        if self.measured > 0
            && let Some(buckets) = &mut self.buckets
        {
            buckets.fill(0);
        }
        (self.measured, self.max_ns) = (0, 0);
    }

    pub(super) fn figures(&self) -> LatencyFigures {
        LatencyFigures {
            measured: self.measured,
            p50: self.quantile(50),
            p90: self.quantile(90),
            p99: self.quantile(99),
            max: (self.measured > 0).then_some(self.max_ns),
        }
    }

    /// The latency that so many of a hundred do not exceed.
    fn quantile(&self, percent: u64) -> Option<u64> {
        let buckets = self.buckets.as_ref().filter(|_| self.measured > 0)?;
        let wanted = self.measured.saturating_mul(percent).div_ceil(100).max(1);
        let mut below = 0_u64;
        let place = buckets.iter().position(|&count| {
            below = below.saturating_add(count.into());
            below >= wanted
        });
        place.map(|place| middle_of(place).min(self.max_ns))
    }
}

/// The bucket of a latency.
fn bucket_of(latency_ns: u64) -> usize {
    let bits = latency_ns.checked_ilog2().unwrap_or(0);
    let Some(doubling) = bits.checked_sub(SHORTEST_BITS) else { return 0 };
    let step = (latency_ns >> (bits - BUCKETS_BITS)) as usize % BUCKETS_OF_DOUBLING;
    (1 + doubling as usize * BUCKETS_OF_DOUBLING + step).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle_of(place: usize) -> u64 {
    let Some(place) = place.checked_sub(1) else { return 1 << (SHORTEST_BITS - 1) };
    let (doubling, step) = (place / BUCKETS_OF_DOUBLING, place % BUCKETS_OF_DOUBLING);
    let width = 1_u64 << (SHORTEST_BITS as usize - BUCKETS_BITS as usize + doubling);
    ((BUCKETS_OF_DOUBLING + step) as u64).saturating_mul(width).saturating_add(width / 2)
}

/// What is known of latencies, in ns; `None` where none was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// How many requests have a latency.
    pub measured: u64,
    /// Half of them took at most this long, to within 7 %.
    pub p50: Option<u64>,
    /// 90 of 100.
    pub p90: Option<u64>,
    /// 99 of 100.
    pub p99: Option<u64>,
    /// The longest, exactly.
    pub max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_is_near_what_lies_in_it(latency_ns in 1_u64 << SHORTEST_BITS..1 << 38) {
            let middle = middle_of(bucket_of(latency_ns));
            prop_assert!(middle.abs_diff(latency_ns) * 100 <= latency_ns * 7, "{latency_ns} {middle}");
        }
    }

    #[test]
    fn every_latency_has_a_bucket() {
        for latency_ns in [0, 1, 1023] {
            assert_eq!(bucket_of(latency_ns), 0);
        }
        assert_eq!((bucket_of(1024), bucket_of(1 << 38), bucket_of(u64::MAX)), (1, BUCKETS - 1, BUCKETS - 1));
        let places: Vec<usize> = (10..38).flat_map(|bits| [bucket_of(1 << bits), bucket_of((2 << bits) - 1)]).collect();
        assert!(places.is_sorted() && places.last() == Some(&(BUCKETS - 1)));
    }

    #[test]
    fn quantiles_are_near_and_the_longest_is_exact() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.figures(), LatencyFigures::default());
        let (mut first, mut second) = (Latencies::default(), Latencies::default());
        for us in 1..=1000_u64 {
            if us % 3 == 0 { first.observe(us * 1000) } else { second.observe(us * 1000) }
        }
        latencies.merge(&first);
        latencies.merge(&second);
        let LatencyFigures { measured, p50, p90, p99, max } = latencies.figures();
        assert_eq!((measured, max), (1000, Some(1_000_000)));
        for (quantile, expected) in [(p50, 500_000_u64), (p90, 900_000), (p99, 990_000)] {
            assert!(quantile.unwrap().abs_diff(expected) * 100 <= expected * 7, "{quantile:?} {expected}");
        }
        latencies.clear();
        assert_eq!(latencies.figures(), LatencyFigures::default());
        latencies.observe(1001);
        assert_eq!(latencies.figures().p99, Some(512), "what is shorter than a microsecond is not told apart");
        latencies.observe(1_030);
        assert_eq!(latencies.figures().p99, Some(1_030), "no quantile is above the longest");
    }
}
