//! Cache sizes at which a curve is known, and reuses counted between them.

/// A curve is known at so many sizes.
pub const MOST_POINTS: usize = 512;

/// Sizes up to this are all there; beyond, each doubling has [`PER_DOUBLING`], so that a size and the next differ by no more
/// than a sixteenth.
const ALL_BELOW: u64 = 2 * PER_DOUBLING as u64;

const PER_DOUBLING: usize = 16;

/// The first size in `MOST_POINTS` that is at least `distance`, by its place; `None` beyond the last, which is 2^35.
pub(super) fn place_of(distance: u64) -> Option<usize> {
    let before = distance.saturating_sub(1);
    if before < ALL_BELOW {
        return usize::try_from(before).ok();
    }
    let shift = before.ilog2() - PER_DOUBLING.ilog2();
    let place = (shift as usize) * PER_DOUBLING + usize::try_from(before >> shift).ok()?;
    (place < MOST_POINTS).then_some(place)
}

/// The size at a place, in pages or chunks.
pub(super) fn size_at(place: usize) -> u64 {
    let before = place as u64;
    if before < ALL_BELOW {
        return before + 1;
    }
    let shift = before / PER_DOUBLING as u64 - 1;
    (before % PER_DOUBLING as u64 + PER_DOUBLING as u64 + 1) << shift
}

/// How many requests would be answered by a cache of which size.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    /// By the place of the first size that is enough.
    hits: Vec<u64>,
    /// Those that no cache would answer: the first for their page, or beyond all sizes.
    never: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self { hits: vec![0; MOST_POINTS], never: 0 }
    }

    /// Takes requests with that stack distance; `None` for the first of a page.
    pub(super) fn add(&mut self, distance: Option<u64>, requests: u64) {
        let place = distance.and_then(place_of);
        let count = place.and_then(|place| self.hits.get_mut(place)).unwrap_or(&mut self.never);
        *count = count.saturating_add(requests);
    }

    /// How many requests miss at each size.
    pub(super) fn misses(&self) -> Vec<u64> {
        let all = self.requests();
        let misses = self.hits.iter().scan(all, |left, &hits| {
            *left = left.saturating_sub(hits);
            Some(*left)
        });
        misses.collect()
    }

    /// All requests.
    pub(super) fn requests(&self) -> u64 {
        self.hits.iter().fold(self.never, |sum, &hits| sum.saturating_add(hits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_goes_to_the_first_size_that_is_enough() {
        for place in 1..MOST_POINTS {
            let (below, size) = (size_at(place - 1), size_at(place));
            assert!(below < size && size - below <= 1.max(size / 16), "{place}");
            assert_eq!([below + 1, size].map(place_of), [Some(place); 2], "{below} {size}");
        }
        assert_eq!([0, 1].map(place_of), [Some(0); 2]);
        assert_eq!(size_at(MOST_POINTS - 1), 1 << 35);
        assert_eq!([(1 << 35) + 1, u64::MAX].map(place_of), [None; 2]);
    }

    #[test]
    fn powers_of_two_are_sizes() {
        for power in 0..36 {
            assert_eq!(place_of(1 << power).map(size_at), Some(1 << power));
        }
    }

    #[test]
    fn what_is_beyond_all_sizes_always_misses() {
        let mut histogram = Histogram::new();
        for distance in [None, Some(u64::MAX), Some(1), Some(2)] {
            histogram.add(distance, 1);
        }
        let misses = histogram.misses();
        assert_eq!((misses[0], misses[1], misses[MOST_POINTS - 1], histogram.requests()), (3, 2, 2, 4));
    }
}
