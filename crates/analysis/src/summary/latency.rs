//! Latencies of one tenant: quantiles to within 1 %, the maximum exactly.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Two significant digits: buckets of at most 1 % width, some 16 KiB for latencies up to minutes.
const SIGNIFICANT_DIGITS: u8 = 2;

/// Collects latencies in ns.
#[derive(Debug)]
pub(crate) struct LatencyTally {
    /// `None` before the first latency, so that tenants without any take no memory.
    histogram: Option<Histogram<u64>>,
    max_ns: u64,
}

impl LatencyTally {
    pub(crate) const fn new() -> Self {
        Self { histogram: None, max_ns: 0 }
    }

    /// Takes one latency.
    pub(crate) fn observe(&mut self, latency_ns: u64) {
        if self.histogram.is_none() {
            self.histogram = Histogram::new(SIGNIFICANT_DIGITS).ok();
        }
        if let Some(histogram) = &mut self.histogram {
            // It grows with what it is given; only a machine of 32 bits could refuse.
            let _ = histogram.record(latency_ns);
            self.max_ns = self.max_ns.max(latency_ns);
        }
    }

    pub(crate) fn quantiles(&self) -> LatencyQuantiles {
        let measured = self.histogram.as_ref().filter(|histogram| !histogram.is_empty());
        let at = |quantile| measured.map(|histogram| histogram.value_at_quantile(quantile).min(self.max_ns));
        LatencyQuantiles {
            measured: measured.map_or(0, Histogram::len),
            p50: at(0.5),
            p99: at(0.99),
            max: measured.map(|_| self.max_ns),
        }
    }
}

/// What is known of latencies, in ns; `None` where none was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct LatencyQuantiles {
    /// How many requests have a latency.
    pub measured: u64,
    /// Half of them took at most this long, to within 1 %.
    pub p50: Option<u64>,
    /// 99 of 100 took at most this long, to within 1 %.
    pub p99: Option<u64>,
    /// The longest, exactly.
    pub max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_and_the_maximum_is_exact() {
        let mut tally = LatencyTally::new();
        assert_eq!(tally.quantiles(), LatencyQuantiles::default());
        for us in 1..=1000u64 {
            tally.observe(us * 1000);
        }
        tally.observe(150_000_000_123);
        let LatencyQuantiles { measured, p50, p99, max } = tally.quantiles();
        assert_eq!((measured, max), (1001, Some(150_000_000_123)));
        assert!((500_000..=506_000).contains(&p50.unwrap()), "{p50:?}");
        assert!((990_000..=1_001_000).contains(&p99.unwrap()), "{p99:?}");
    }

    #[test]
    fn a_quantile_is_never_above_the_maximum() {
        let mut tally = LatencyTally::new();
        tally.observe(u64::MAX - 1);
        assert_eq!(tally.quantiles().p50, Some(u64::MAX - 1));
        let mut tally = LatencyTally::new();
        tally.observe(1001);
        assert_eq!(tally.quantiles().p99, Some(1001));
    }
}
