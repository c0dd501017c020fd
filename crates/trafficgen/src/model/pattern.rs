//! Which pages are asked for.

use std::fmt;
use std::str::FromStr;

use crate::rng::Rng;

/// An access pattern over the pages of a tenant. On the command line `sequential`, `uniform`, `zipf` or `zipf:1.2` (the
/// exponent), `hot-set` or `hot-set:0.1:0.9` (this share of the pages gets that share of the requests).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// One page after the other, round and round; each connection begins somewhere else.
    Sequential,
    /// Each page as often as any other.
    Uniform,
    /// The k-th page in proportion to 1 / k^exponent.
    Zipf {
        /// How steep: above 0.
        exponent: f64,
    },
    /// Few pages get most of the requests.
    HotSet {
        /// Share of the pages that are hot.
        pages: f64,
        /// Share of the requests that go to them.
        requests: f64,
    },
}

impl Pattern {
    /// The page, 0..`pages`, of a connection's `ordinal`-th draw, for a connection that begins at `offset`.
    pub fn pick(self, pages: u64, place: u64, rng: &mut Rng) -> u64 {
        let pages = pages.max(1);
        match self {
            Self::Sequential => place % pages,
            Self::Uniform => rng.below(pages),
            Self::Zipf { exponent } => scramble(zipf_rank(pages, exponent, rng.unit()), pages),
            Self::HotSet { pages: share, requests } => {
                let hot = ((pages as f64 * share) as u64).clamp(1, pages);
                if hot == pages || rng.chance(requests) {
                    scramble(rng.below(hot), pages)
                } else {
                    scramble(hot + rng.below(pages - hot), pages)
                }
            }
        }
    }
}

/// The rank, from 0, at a place of the continuous power law's inverse distribution function: near enough to Zipf for
/// every rank but the first few, and one power instead of a table as large as the set.
fn zipf_rank(pages: u64, exponent: f64, place: f64) -> u64 {
    let end = pages as f64 + 1.0;
    let rank = if (exponent - 1.0).abs() < 1e-9 {
        libm::exp(place * libm::log(end))
    } else {
        let power = 1.0 - exponent;
        libm::pow(1.0 + place * (libm::pow(end, power) - 1.0), 1.0 / power)
    };
    (rank as u64).clamp(1, pages) - 1
}

/// Spreads ranks over the pages, so that popular pages are not neighbours: a step coprime with any number of pages
/// that is no multiple of this prime.
fn scramble(rank: u64, pages: u64) -> u64 {
    const PRIME: u128 = 2_147_483_647;
    (u128::from(rank) * PRIME % u128::from(pages)) as u64
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequential => f.write_str("sequential"),
            Self::Uniform => f.write_str("uniform"),
            Self::Zipf { exponent } => write!(f, "zipf:{exponent}"),
            Self::HotSet { pages, requests } => write!(f, "hot-set:{pages}:{requests}"),
        }
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is no pattern: sequential, uniform, zipf, zipf:EXPONENT, hot-set or hot-set:PAGES:REQUESTS"
            )
        };
        let mut parts = text.split(':');
        let name = parts.next();
        let numbers: Vec<f64> = parts.map(str::parse).collect::<Result<_, _>>().map_err(|_| wrong())?;
        match (name, numbers.as_slice()) {
            (Some("sequential"), []) => Ok(Self::Sequential),
            (Some("uniform"), []) => Ok(Self::Uniform),
            (Some("zipf"), []) => Ok(Self::Zipf { exponent: 1.0 }),
            (Some("zipf"), &[exponent]) if exponent > 0.0 => Ok(Self::Zipf { exponent }),
            (Some("hot-set"), []) => Ok(Self::HotSet { pages: 0.1, requests: 0.9 }),
            (Some("hot-set"), &[pages, requests])
                if (0.0..=1.0).contains(&pages) && (0.0..=1.0).contains(&requests) =>
            {
                Ok(Self::HotSet { pages, requests })
            }
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pattern: &str, pages: u64, draws: u64) -> Vec<u64> {
        let pattern: Pattern = pattern.parse().unwrap();
        let mut rng = Rng::new(3, 1);
        let mut counts = vec![0; pages as usize];
        for place in 0..draws {
            counts[pattern.pick(pages, place, &mut rng) as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn patterns_have_the_shape_they_promise() {
        assert!(counts("sequential", 100, 300).iter().all(|&count| count == 3));
        assert!(counts("uniform", 10, 10_000).iter().all(|&count| (800..1200).contains(&count)));
        let zipf = counts("zipf", 1000, 100_000);
        // The first page gets 1 / ln(1001) * ln 2 of the continuous law, a tenth.
        assert!((9000..11_000).contains(&zipf[0]), "{}", zipf[0]);
        assert!(zipf[0] > 5 * zipf[9]);
        let hot: u64 = counts("hot-set:0.1:0.9", 100, 10_000).iter().take(10).sum();
        assert!((8800..9200).contains(&hot), "{hot}");
    }

    #[test]
    fn a_pattern_is_read_as_it_is_printed() {
        for text in ["sequential", "uniform", "zipf:1.2", "hot-set:0.1:0.9"] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        for text in ["", "zipf:0", "zipf:x", "hot-set:2:1", "random"] {
            assert!(text.parse::<Pattern>().is_err(), "{text}");
        }
    }
}
