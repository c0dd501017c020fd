//! Randomness that is the same on every machine and stays the same when dependencies move.
//!
//! Composed captures are byte-identical for a seed, and golden files depend on it: that is why the generator is here and
//! not in a crate whose streams may change between versions.

/// `SplitMix64` (Steele, Lea, Flood 2014): one addition and one mix a number, more than good enough for traffic.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

/// The odd constant by which the state moves: 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Scatters the bits of a number: the finaliser of `SplitMix64`, a bijection.
pub const fn scatter(value: u64) -> u64 {
    let mut bits = value.wrapping_add(STEP);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// A number in 0..1 from the upper 53 bits.
pub const fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

impl Rng {
    /// A stream of its own for each pair of seed and label.
    pub const fn new(seed: u64, label: u64) -> Self {
        Self { state: scatter(seed) ^ scatter(label.wrapping_mul(STEP)) }
    }

    /// The next 64 bits.
    pub const fn bits(&mut self) -> u64 {
        let value = scatter(self.state);
        self.state = self.state.wrapping_add(STEP);
        value
    }

    /// A number below `bound`, 0 where the bound is 0. The bias, below 2^-32 for the bounds used here, does not matter.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// A number in 0..1.
    pub const fn unit(&mut self) -> f64 {
        unit(self.bits())
    }

    /// True in the given share of cases; a share of 0 takes nothing from the stream.
    pub const fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.unit() < share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_fixed_and_apart() {
        let mut stream = Rng::new(1, 2);
        let first = stream.bits();
        assert_eq!(Rng::new(1, 2).bits(), first);
        assert_ne!(Rng::new(1, 3).bits(), first);
        assert_ne!(Rng::new(2, 2).bits(), first);
        // SplitMix64's first output for the state 0.
        assert_eq!(scatter(0), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn numbers_keep_their_bounds() {
        let mut rng = Rng::new(7, 0);
        assert!((0..1000).all(|_| rng.below(10) < 10));
        let hits = (0..10_000).filter(|_| rng.chance(0.25)).count();
        assert!((2300..2700).contains(&hits), "{hits}");
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0.0));
    }
}
