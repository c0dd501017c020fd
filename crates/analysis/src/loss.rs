//! When the capture lost something.

use record::Timestamp;

/// More times than this are not told apart: neighbours are joined, which claims less and never more.
const MAX_SPANS: usize = 65_536;

/// The times during which packets, requests or answers were lost. In such a time anything may have happened unseen, a
/// compute's restart included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossTimes {
    /// In order, and apart from each other.
    spans: Vec<(Timestamp, Timestamp)>,
}

impl LossTimes {
    /// Something was lost between these two moments, ends included.
    pub fn add(&mut self, from: Timestamp, until: Timestamp) {
        let (mut from, mut until) = (from.min(until), until.max(from));
        let begin = self.spans.partition_point(|span| span.1 < from);
        let end = self.spans.partition_point(|span| span.0 <= until);
        for &(earlier, later) in self.spans.get(begin..end).unwrap_or_default() {
            from = from.min(earlier);
            until = until.max(later);
        }
        self.spans.splice(begin..end.max(begin), [(from, until)]);
        if self.spans.len() > MAX_SPANS {
            self.join_nearest();
        }
    }

    /// Whether something was lost between these two moments, ends included.
    pub fn may_hide(&self, from: Timestamp, until: Timestamp) -> bool {
        let at = self.spans.partition_point(|span| span.1 < from);
        self.spans.get(at).is_some_and(|span| span.0 <= until)
    }

    /// The times themselves, in order.
    pub fn spans(&self) -> impl Iterator<Item = (Timestamp, Timestamp)> + '_ {
        self.spans.iter().copied()
    }

    /// Whether nothing was lost at all.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    fn join_nearest(&mut self) {
        let pause = |pair: &[(Timestamp, Timestamp)]| match pair {
            [before, behind] => behind.0.0.saturating_sub(before.1.0),
            _ => u64::MAX,
        };
        let nearest = (1..self.spans.len()).min_by_key(|&at| self.spans.get(at - 1..=at).map_or(u64::MAX, pause));
        if let Some(at) = nearest {
            let (_, until) = self.spans.remove(at);
            if let Some(before) = self.spans.get_mut(at - 1) {
                before.1 = until;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(spans: &[(u64, u64)]) -> LossTimes {
        let mut times = LossTimes::default();
        spans.iter().for_each(|&(from, until)| times.add(Timestamp(from), Timestamp(until)));
        times
    }

    proptest! {
        #[test]
        fn a_loss_is_found_where_it_was_and_nowhere_else(
            spans in prop::collection::vec((0u64..100, 0u64..10), 0..20), from in 0u64..110, length in 0u64..10,
        ) {
            let spans: Vec<_> = spans.into_iter().map(|(from, length)| (from, from + length)).collect();
            let times = times(&spans);
            let until = from + length;
            let expected = spans.iter().any(|&(begin, end)| begin <= until && from <= end);
            prop_assert_eq!(times.may_hide(Timestamp(from), Timestamp(until)), expected);
            prop_assert!(times.spans.is_sorted_by(|a, b| a.1 < b.0));
        }
    }

    #[test]
    fn beyond_the_bound_the_nearest_are_joined() {
        let mut times = LossTimes::default();
        for n in 0..=MAX_SPANS as u64 {
            times.add(Timestamp(n * 10), Timestamp(n * 10 + u64::from(n == 7) * 5));
        }
        assert_eq!(times.spans.len(), MAX_SPANS);
        assert!(times.may_hide(Timestamp(76), Timestamp(79)), "joined over the shortest pause");
        assert!(!times.may_hide(Timestamp(1), Timestamp(9)));
    }
}
