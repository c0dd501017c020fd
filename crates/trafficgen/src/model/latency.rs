//! How long the page service thinks about a batch.

use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;

/// A distribution of times in nanoseconds. On the command line `fixed:200us`, `exponential:200us` (the mean) or
/// `lognormal:200us:0.8` (the median, and the standard deviation of the logarithm).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed {
        /// The time.
        ns: u64,
    },
    /// Memoryless.
    Exponential {
        /// The mean.
        mean_ns: u64,
    },
    /// What storage looks like: a long tail.
    LogNormal {
        /// Half of the times are below it.
        median_ns: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
}

/// A compute gives up a request after 150 s, so no answer takes longer.
const LONGEST_NS: f64 = 150e9;

impl Latency {
    /// The next time of the distribution, at most 150 s.
    pub fn draw_ns(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed { ns } => ns,
            Self::Exponential { mean_ns } => bounded(-libm::log(1.0 - rng.unit()) * mean_ns as f64),
            Self::LogNormal { median_ns, sigma } => {
                let radius = libm::sqrt(-2.0 * libm::log(1.0 - rng.unit()));
                let normal = radius * libm::cos(std::f64::consts::TAU * rng.unit());
                bounded(median_ns as f64 * libm::exp(sigma * normal))
            }
        }
    }

    /// The time around which the others lie: the fixed one, the mean or the median.
    pub const fn typical_ns(self) -> u64 {
        match self {
            Self::Fixed { ns } => ns,
            Self::Exponential { mean_ns } => mean_ns,
            Self::LogNormal { median_ns, .. } => median_ns,
        }
    }
}

fn bounded(ns: f64) -> u64 {
    ns.min(LONGEST_NS) as u64
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed { ns } => write!(f, "fixed:{ns}ns"),
            Self::Exponential { mean_ns } => write!(f, "exponential:{mean_ns}ns"),
            Self::LogNormal { median_ns, sigma } => write!(f, "lognormal:{median_ns}ns:{sigma}"),
        }
    }
}

impl FromStr for Latency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no latency: fixed:200us, exponential:200us or lognormal:200us:0.8");
        let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
        let time_ns = |text: &str| {
            let time = humantime::parse_duration(text).map_err(|_| wrong())?;
            u64::try_from(time.as_nanos()).map_err(|_| wrong())
        };
        match name {
            "fixed" => Ok(Self::Fixed { ns: time_ns(rest)? }),
            "exponential" => Ok(Self::Exponential { mean_ns: time_ns(rest)? }),
            "lognormal" => {
                let (median, sigma) = rest.split_once(':').ok_or_else(wrong)?;
                let sigma = sigma.parse().map_err(|_| wrong())?;
                Ok(Self::LogNormal { median_ns: time_ns(median)?, sigma })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(latency: &str) -> Vec<u64> {
        let latency: Latency = latency.parse().unwrap();
        let mut rng = Rng::new(1, 1);
        let mut times: Vec<u64> = (0..10_001).map(|_| latency.draw_ns(&mut rng)).collect();
        times.sort_unstable();
        times
    }

    #[test]
    fn distributions_have_the_shape_they_promise() {
        assert!(drawn("fixed:200us").iter().all(|&ns| ns == 200_000));
        let exponential = drawn("exponential:200us");
        let mean = exponential.iter().sum::<u64>() / exponential.len() as u64;
        assert!((190_000..210_000).contains(&mean), "{mean}");
        let median = drawn("lognormal:200us:0.8")[5000];
        assert!((190_000..210_000).contains(&median), "{median}");
    }

    #[test]
    fn a_latency_is_read_as_it_is_printed() {
        for text in ["fixed:200000ns", "exponential:5ns", "lognormal:200000ns:0.8"] {
            assert_eq!(text.parse::<Latency>().unwrap().to_string(), text);
        }
        for text in ["", "fixed", "fixed:x", "lognormal:1us", "normal:1us"] {
            assert!(text.parse::<Latency>().is_err(), "{text}");
        }
    }
}
