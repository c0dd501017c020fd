//! Records from the order of completion to the order of arrival, in bounded memory.

use record::{Order, Record, Timestamp};

/// A record that waits. The time is here as well since it decides nearly always, without a look at the record.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    time: Timestamp,
    place: usize,
}

/// Records that wait to be put in order.
#[derive(Debug)]
pub(crate) struct InOrder {
    limit: usize,
    /// In order up to where the last merge ended, behind it as they came.
    waiting: Vec<Waiting>,
    /// The records that wait, each in the place that its entry names; what is free is in `free`.
    places: Vec<Record>,
    free: Vec<usize>,
    passed: Option<Order>,
}

/// Some records that are handed on, in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandedOn<'a> {
    waiting: &'a [Waiting],
    places: &'a [Record],
}

impl<'a> HandedOn<'a> {
    pub(crate) fn records(&self) -> impl DoubleEndedIterator<Item = &'a Record> {
        let places = self.places;
        self.waiting.iter().filter_map(|waiting| places.get(waiting.place))
    }
}

impl InOrder {
    /// None yet; up to `limit` will wait.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), waiting: Vec::new(), places: Vec::new(), free: Vec::new(), passed: None }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether some have to be handed on before another can wait.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.limit
    }

    /// Whether the record's place in the order is past.
    pub(crate) fn is_late(&self, record: &Record) -> bool {
        self.passed.is_some_and(|passed| record.order() < passed)
    }

    /// Takes a record that is not late.
    pub(crate) fn push(&mut self, record: &Record) {
        let place = match self.free.pop() {
            Some(place) => {
                self.places.get_mut(place).into_iter().for_each(|slot| slot.clone_from(record));
                place
            }
            None => {
                self.places.push(record.clone());
                self.places.len().saturating_sub(1)
            }
        };
        self.waiting.push(Waiting { time: record.time, place });
    }

    /// Puts what waits in order and hands on the earliest, up to `at_once` at a time.
    pub(crate) fn hand_on(&mut self, records: usize, at_once: usize, take: impl FnMut(HandedOn<'_>)) {
        self.sort();
        self.take_earliest(records, at_once, take);
    }

    /// The same of all that arrived before a moment.
    pub(crate) fn hand_on_before(&mut self, moment: Timestamp, at_once: usize, take: impl FnMut(HandedOn<'_>)) {
        self.sort();
        let records = self.waiting.partition_point(|waiting| waiting.time < moment);
        self.take_earliest(records, at_once, take);
    }

    fn sort(&mut self) {
        let places = &self.places;
        // The sort finds what is in order already, and merges it with what came since, which nearly is.
        self.waiting.sort_by(|one, other| {
            let order_at = |place: usize| places.get(place).map(Record::order);
            one.time.cmp(&other.time).then_with(|| order_at(one.place).cmp(&order_at(other.place)))
        });
    }

    fn take_earliest(&mut self, records: usize, at_once: usize, mut take: impl FnMut(HandedOn<'_>)) {
        let places = &self.places;
        for waiting in self.waiting.get(..records).unwrap_or(&self.waiting).chunks(at_once.max(1)) {
            let handed_on = HandedOn { waiting, places };
            take(handed_on);
            self.passed = handed_on.records().next_back().map(Record::order).or(self.passed);
        }
        self.free.extend(self.waiting.drain(..records.min(self.waiting.len())).map(|waiting| waiting.place));
    }

    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }
}
