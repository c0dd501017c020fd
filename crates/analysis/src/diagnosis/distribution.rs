//! How a quantity is distributed: quantiles to within 1 %, least, largest and mean exactly.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Two significant digits: buckets of at most 1 % width, some 12 KiB for latencies up to seconds.
const SIGNIFICANT_DIGITS: u8 = 2;

/// Collects values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Distribution {
    /// `None` before the first value, so that what never occurs takes no memory.
    histogram: Option<Histogram<u32>>,
    min: u64,
    max: u64,
    sum: u128,
}

impl Distribution {
    /// Takes one value.
    #[inline]
    pub(crate) fn observe(&mut self, value: u64) {
        let histogram = match &mut self.histogram {
            Some(histogram) => histogram,
            empty => {
                self.min = u64::MAX;
                let Ok(histogram) = Histogram::new(SIGNIFICANT_DIGITS) else { return };
                empty.insert(histogram)
            }
        };
        // It grows with what it is given; only a machine of 32 bits could refuse.
        let _ = histogram.record(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(u128::from(value));
    }

    /// How many values there were.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// Their sum, held at the end of the range.
    pub(crate) fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    pub(crate) fn figures(&self) -> Figures {
        let some = self.histogram.as_ref().filter(|histogram| !histogram.is_empty());
        let at = |quantile| some.map(|histogram| histogram.value_at_quantile(quantile).clamp(self.min, self.max));
        let mean = self.sum.checked_div(u128::from(self.count()));
        Figures {
            count: self.count(),
            min: some.map(|_| self.min),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: some.map(|_| self.max),
            mean: mean.and_then(|mean| u64::try_from(mean).ok()),
        }
    }

    pub(crate) fn durations(&self) -> Durations {
        let Figures { count, min, p50, p90, p99, p999, max, mean } = self.figures();
        Durations {
            count,
            min_ns: min,
            p50_ns: p50,
            p90_ns: p90,
            p99_ns: p99,
            p999_ns: p999,
            max_ns: max,
            mean_ns: mean,
        }
    }
}

/// What is known of a distribution of counts; `None` where there was no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Figures {
    /// How many values.
    pub count: u64,
    /// The least.
    pub min: Option<u64>,
    /// Half of them are at most this, to within 1 %.
    pub p50: Option<u64>,
    /// 90 of 100.
    pub p90: Option<u64>,
    /// 99 of 100.
    pub p99: Option<u64>,
    /// 999 of 1000.
    pub p999: Option<u64>,
    /// The largest.
    pub max: Option<u64>,
    /// Their mean, rounded down.
    pub mean: Option<u64>,
}

/// The same of durations, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Durations {
    /// How many were measured.
    pub count: u64,
    /// The shortest.
    pub min_ns: Option<u64>,
    /// Half of them took at most this long, to within 1 %.
    pub p50_ns: Option<u64>,
    /// 90 of 100.
    pub p90_ns: Option<u64>,
    /// 99 of 100.
    pub p99_ns: Option<u64>,
    /// 999 of 1000.
    pub p999_ns: Option<u64>,
    /// The longest.
    pub max_ns: Option<u64>,
    /// Their mean, rounded down.
    pub mean_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_and_the_rest_is_exact() {
        let mut distribution = Distribution::default();
        assert_eq!(distribution.figures(), Figures::default());
        for us in 1..=1000u64 {
            distribution.observe(us * 1000);
        }
        let figures = distribution.figures();
        assert_eq!((figures.count, figures.min, figures.max), (1000, Some(1000), Some(1_000_000)));
        assert_eq!((figures.mean, distribution.sum()), (Some(500_500), 500_500_000));
        let near = |value: Option<u64>, truth: u64| value.unwrap().abs_diff(truth) * 100 <= truth;
        assert!(near(figures.p50, 500_000) && near(figures.p90, 900_000) && near(figures.p999, 999_000), "{figures:?}");
    }

    #[test]
    fn no_quantile_lies_outside_what_there_was() {
        let mut distribution = Distribution::default();
        distribution.observe(u64::MAX - 1);
        let Durations { min_ns, p50_ns, max_ns, mean_ns, .. } = distribution.durations();
        assert_eq!([min_ns, p50_ns, max_ns, mean_ns], [Some(u64::MAX - 1); 4]);
    }
}
