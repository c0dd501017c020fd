//! Counters by the words of the record: kind, status, pairing, attribution.

use std::fmt;
use std::marker::PhantomData;

use record::{Attribution, Kind, Pairing, Status};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A closed set of words that records are counted by.
pub trait Word: Copy + 'static {
    /// Every word, in order of [`Word::ordinal`].
    const ALL: &'static [Self];
    /// How it goes in summaries.
    fn as_str(self) -> &'static str;
    /// Its place in `ALL`.
    fn ordinal(self) -> usize;
}

/// The largest of the sets.
const MOST_WORDS: usize = 5;

macro_rules! word {
    ($($name:ident)+) => {$(
        impl Word for $name {
            const ALL: &'static [Self] = $name::ALL;
            fn as_str(self) -> &'static str {
                $name::as_str(self)
            }
            fn ordinal(self) -> usize {
                self as usize
            }
        }
        const _: () = assert!($name::ALL.len() <= MOST_WORDS);
    )+};
}

word!(Kind Status Pairing Attribution);

/// One counter for each word. As JSON an object that names every word, zeros included.
#[derive(Clone, PartialEq, Eq)]
pub struct Counts<W> {
    counts: [u64; MOST_WORDS],
    words: PhantomData<W>,
}

impl<W> Default for Counts<W> {
    fn default() -> Self {
        Self { counts: [0; MOST_WORDS], words: PhantomData }
    }
}

impl<W: Word> Counts<W> {
    /// Counts one more of `word`.
    pub fn add(&mut self, word: W) {
        if let Some(count) = self.counts.get_mut(word.ordinal()) {
            *count += 1;
        }
    }

    /// How many of `word` were counted.
    pub fn of(&self, word: W) -> u64 {
        self.counts.get(word.ordinal()).copied().unwrap_or(0)
    }

    /// How many were counted in all.
    pub fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Every word with its count, in order.
    pub fn iter(&self) -> impl Iterator<Item = (W, u64)> + '_ {
        W::ALL.iter().map(|&word| (word, self.of(word)))
    }
}

impl<W: Word> fmt::Debug for Counts<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(word, count)| (word.as_str(), count))).finish()
    }
}

impl<W: Word> Serialize for Counts<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(W::ALL.len()))?;
        for (word, count) in self.iter() {
            map.serialize_entry(word.as_str(), &count)?;
        }
        map.end()
    }
}

/// Counters of how the tenant was known, `none` where it was not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttributionCounts {
    /// Records with a tenant, by how it was known.
    pub known: Counts<Attribution>,
    /// Records without one.
    pub none: u64,
}

impl AttributionCounts {
    /// Counts one record.
    pub fn add(&mut self, attribution: Option<Attribution>) {
        match attribution {
            Some(known) => self.known.add(known),
            None => self.none += 1,
        }
    }
}

impl Serialize for AttributionCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Attribution::ALL.len() + 1))?;
        for (word, count) in self.known.iter() {
            map.serialize_entry(word.as_str(), &count)?;
        }
        map.serialize_entry("none", &self.none)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_a_counter_of_its_own() {
        let mut counts = Counts::<Kind>::default();
        for (times, &kind) in Kind::ALL.iter().enumerate() {
            (0..=times).for_each(|_| counts.add(kind));
        }
        assert_eq!(
            serde_json::to_string(&counts).unwrap(),
            r#"{"getpage":1,"exists":2,"nblocks":3,"dbsize":4,"slru":5}"#
        );
        assert_eq!(counts.sum(), 15);
    }
}
