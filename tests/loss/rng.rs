//! Random numbers that are the same on every machine (splitmix64, Steele et al., "Fast splittable pseudorandom number generators").

pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.bits() % end.max(1) as u64) as usize
    }

    /// True once in so many times as `share` (0 to 1) says.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        ((self.bits() >> 11) as f64 / (1u64 << 53) as f64) < share
    }
}
