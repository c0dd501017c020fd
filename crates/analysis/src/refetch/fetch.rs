//! What is known of a page that came back, and of the fetch that brought it.

use record::{Lsn, MAIN_FORKNUM, Record, Timestamp};

/// What a record says of the page's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) lsn: Option<Lsn>,
    pub(super) zero: Option<bool>,
    pub(super) hash: Option<u64>,
}

/// How the contents of two pages compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// `page_lsn` is equal, and so is all else that is known of both.
    Equal,
    /// Something that is known of both differs.
    Different,
    /// Neither is known.
    Unknown,
}

impl Page {
    pub(super) fn of(record: &Record) -> Self {
        Self { lsn: record.page_lsn, zero: record.page_zero, hash: record.page_hash }
    }

    pub(super) fn compare(&self, later: &Self) -> Content {
        let differs = differ(self.lsn, later.lsn) || differ(self.hash, later.hash) || differ(self.zero, later.zero);
        match (differs, self.lsn, later.lsn) {
            (true, ..) => Content::Different,
            (false, Some(_), Some(_)) => Content::Equal,
            _ => Content::Unknown,
        }
    }

    /// Whether [`Content::Equal`] is enough to say that the bytes are the same, where no promise says so. Other forks than
    /// the main one change without a new `page_lsn`: hints in the free space map, truncations of the visibility map.
    pub(super) fn shows_same_bytes(&self, later: &Self, forknum: u8) -> bool {
        let hashes_known = self.hash.is_some() && later.hash.is_some();
        let both_zero = self.zero == Some(true) && later.zero == Some(true);
        hashes_known || both_zero || forknum == MAIN_FORKNUM
    }
}

/// Whether both are known and not the same.
fn differ<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

/// A GetPage that was answered `ok`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fetch {
    /// When the request arrived.
    pub(super) time: Timestamp,
    /// When its answer began, where that is known.
    pub(super) began: Option<Timestamp>,
    /// The version asked for.
    pub(super) request_lsn: Lsn,
    /// The promise that was made.
    pub(super) not_modified_since: Lsn,
    /// W of R3: how far the page service is known to have been before the request arrived.
    pub(super) reached: Option<Lsn>,
    /// What came back.
    pub(super) page: Page,
}

impl Fetch {
    pub(super) fn of(record: &Record, reached: Option<Lsn>) -> Self {
        Self {
            time: record.time,
            began: answer_began(record),
            request_lsn: record.request_lsn,
            not_modified_since: record.not_modified_since,
            reached,
            page: Page::of(record),
        }
    }
}

/// When the record's answer began. An answer without latency has an uncertain place in time: the request's arrival may be a
/// late copy's, or the clocks of the two directions disagree.
pub(super) fn answer_began(record: &Record) -> Option<Timestamp> {
    record.latency_ns.map(|latency_ns| record.time.plus(latency_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lsn: Option<u64>, zero: Option<bool>, hash: Option<u64>) -> Page {
        Page { lsn: lsn.map(Lsn), zero, hash }
    }

    #[test]
    fn content_is_equal_only_where_the_lsn_is_known_and_nothing_known_differs() {
        let base = page(Some(8), Some(false), Some(1));
        for (later, expected) in [
            (base, Content::Equal),
            (page(Some(8), None, None), Content::Equal),
            (page(Some(9), Some(false), Some(1)), Content::Different),
            (page(Some(7), None, None), Content::Different),
            (page(Some(8), Some(false), Some(2)), Content::Different),
            (page(Some(8), Some(true), None), Content::Different),
            (page(None, Some(false), Some(1)), Content::Unknown),
            (page(None, None, None), Content::Unknown),
            (page(None, Some(true), None), Content::Different),
        ] {
            assert_eq!((base.compare(&later), later.compare(&base)), (expected, expected), "{later:?}");
        }
    }

    #[test]
    fn other_forks_need_a_hash_or_zeros() {
        let plain = page(Some(8), None, None);
        let hashed = page(Some(8), None, Some(1));
        let zero = page(Some(0), Some(true), None);
        assert!(plain.shows_same_bytes(&plain, 0) && !plain.shows_same_bytes(&plain, 2));
        assert!(hashed.shows_same_bytes(&hashed, 2) && !hashed.shows_same_bytes(&plain, 1));
        assert!(zero.shows_same_bytes(&zero, 1) && !zero.shows_same_bytes(&plain, 1));
    }
}
