//! Requests that the capture missed: how many there are, and of which of them an answer tells.
//!
//! A hole between two message headers holds whole requests, and each kind has one length. So every answer of a known
//! kind takes that kind's length off the hole, and when nothing is left the hole has had all its answers, however many
//! requests it held.

use record::{Kind, Protocol, Timestamp};

use super::COPY_HEADER_BYTES;
use crate::pagestream::layout;

/// A hole among the requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    /// The length of its requests that have not been answered; `None` where that is not known.
    bytes: Option<u64>,
    /// While the hole is open: the length of those that have been answered already; `None` where one's kind is not known.
    answered_bytes: Option<u64>,
    /// While the hole is open: how many of them have been answered already.
    answered: u32,
    /// While the hole is open: how many answers have been taken for answers to them.
    paid: u32,
    /// While the hole is open: what of it lay in the packet that came at `at`, less the most that those answered can have taken.
    cut_bytes: u64,
    /// The fewest requests that they can be.
    pub(super) fewest: u32,
    /// The most.
    pub(super) most: u32,
    /// How many of them have been counted as lost and not been seen by their answers yet.
    pub(super) counted: u32,
    /// When they arrived, where that is known: they lay in one packet that the snap length cut.
    pub(super) at: Option<Timestamp>,
    /// The hole's end is not known yet.
    pub(super) open: bool,
}

/// The part of a hole that lay in one packet and was cut off by the snap length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// When the packet arrived.
    pub(crate) at: Timestamp,
    /// How much of the hole it is.
    pub(crate) bytes: u64,
}

/// What an answer does to a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payment {
    /// It is to one of its requests.
    Paid,
    /// It is to none of them: no request of its kind fits into what is left.
    Refused,
    /// Whether more answers belong here is not known from now on.
    Unclear,
}

impl Lost {
    /// A hole that has just begun; `cut` where all that is known of it lay in one packet.
    pub(super) fn begun(cut: Option<Cut>) -> Self {
        let (at, cut_bytes) = (cut.map(|cut| cut.at), cut.map_or(0, |cut| cut.bytes));
        Self { answered_bytes: Some(0), cut_bytes, open: true, ..Self::exactly(0, 0, at) }
    }

    /// As many requests as were in flight when a connection was joined.
    pub(super) fn unbounded() -> Self {
        Self { most: u32::MAX, ..Self::exactly(0, 0, None) }
    }

    /// The same of a connection whose packets were left out before: none of them counts as lost.
    pub(super) fn left_out() -> Self {
        Self { counted: u32::MAX, ..Self::unbounded() }
    }

    /// So many requests of unknown kinds.
    pub(super) fn exactly(count: u32, counted: u32, at: Option<Timestamp>) -> Self {
        let (fewest, most) = (count, count);
        let (answered, paid, cut_bytes) = (0, 0, 0);
        Self { bytes: None, answered_bytes: None, answered, paid, cut_bytes, fewest, most, counted, at, open: false }
    }

    /// The hole ends; `bytes` is its length. Those of its requests that have been answered are counted already.
    pub(super) fn end(&mut self, version: Protocol, bytes: u64) {
        (self.fewest, self.most) = count_of_requests(version, bytes);
        (self.counted, self.open) = (self.fewest.saturating_sub(self.answered), false);
        self.bytes = self.answered_bytes.and_then(|answered| bytes.checked_sub(answered));
        (self.fewest, self.most) = match self.bytes {
            Some(left) => count_of_requests(version, left),
            None => (self.fewest.saturating_sub(self.paid), self.most.saturating_sub(self.paid)),
        };
    }

    /// Takes in a request of unknown kind that came right behind it; false where that would blur what is known.
    pub(super) fn take_in_one(&mut self) -> bool {
        let is_plain = !self.open && self.bytes.is_none() && self.at.is_none();
        if is_plain {
            (self.fewest, self.most) = (self.fewest.saturating_add(1), self.most.saturating_add(1));
        }
        is_plain
    }

    /// A lost request is seen by its answer. Whether it is one of this hole's that have been counted; while the hole is open it
    /// will not be counted again.
    pub(super) fn count_answered(&mut self) -> bool {
        let was_counted = self.counted > 0;
        self.counted = self.counted.saturating_sub(1);
        self.answered = self.answered.saturating_add(u32::from(self.open));
        was_counted
    }

    /// Whether it has had all its answers.
    pub(super) fn is_paid(&self) -> bool {
        self.most == 0 && !self.open
    }

    /// Whether the next answer is surely to one of its requests, wherever what comes behind it begins.
    pub(super) fn has_more(&self) -> bool {
        self.open || self.fewest > 0
    }

    /// An answer comes, to a request of this kind where that is known (errors do not tell).
    pub(super) fn pay(&mut self, version: Protocol, kind: Option<Kind>) -> Payment {
        if self.open {
            self.paid = self.paid.saturating_add(1);
            // The packet that was cut ends somewhere; what is answered behind that came later.
            let longest = longest_request_bytes(version);
            let left = self.cut_bytes.checked_sub(kind.map_or(longest, |kind| request_bytes(version, kind)));
            self.at = self.at.filter(|_| left.is_some());
            self.cut_bytes = left.unwrap_or(0);
            let answered = self.answered_bytes.zip(kind);
            self.answered_bytes =
                answered.map(|(answered, kind)| answered.saturating_add(request_bytes(version, kind)));
            return Payment::Paid;
        }
        match (self.bytes, kind) {
            (Some(bytes), Some(kind)) => {
                let Some(left) = bytes.checked_sub(request_bytes(version, kind)) else { return Payment::Refused };
                let (fewest, most) = count_of_requests(version, left);
                if most == 0 && left > 0 {
                    return Payment::Refused;
                }
                (self.bytes, self.fewest, self.most) = (Some(left), fewest, most);
                Payment::Paid
            }
            (_, _) if self.most == 0 => Payment::Refused,
            (bytes, _) => {
                let is_clear = self.fewest == self.most;
                (self.fewest, self.most) = (self.fewest.saturating_sub(1), self.most.saturating_sub(1));
                self.bytes = None;
                if is_clear || bytes.is_none() && self.most > 0 { Payment::Paid } else { Payment::Unclear }
            }
        }
    }
}

/// Bytes of a request on the wire.
fn request_bytes(version: Protocol, kind: Kind) -> u64 {
    COPY_HEADER_BYTES.saturating_add(layout::request_body_bytes(version, kind).into())
}

/// Bytes of the longest request on the wire.
fn longest_request_bytes(version: Protocol) -> u64 {
    Kind::ALL.iter().map(|&kind| request_bytes(version, kind)).max().unwrap_or(1)
}

/// The fewest and the most whole requests that so many bytes can be.
pub(super) fn count_of_requests(version: Protocol, bytes: u64) -> (u32, u32) {
    let lengths = Kind::ALL.iter().map(|&kind| request_bytes(version, kind));
    let (longest, shortest) = (longest_request_bytes(version), lengths.min().unwrap_or(1));
    let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    let fewest = narrow(bytes.div_ceil(longest.max(1)));
    let most = narrow(bytes.checked_div(shortest).unwrap_or(0));
    (fewest.min(most), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_leave_one_number_of_requests_are_told_from_others() {
        assert_eq!(count_of_requests(Protocol::V2, 39), (1, 1));
        assert_eq!(count_of_requests(Protocol::V2, 78), (2, 3));
        assert_eq!(count_of_requests(Protocol::V3, 47), (1, 1));
        assert_eq!(count_of_requests(Protocol::V3, 0), (0, 0));
    }

    #[test]
    fn answers_take_the_lengths_of_their_requests_off_a_hole() {
        // Two GetPage or three DbSize.
        let mut lost = Lost::begun(None);
        lost.end(Protocol::V2, 78);
        assert_eq!(lost.pay(Protocol::V2, Some(Kind::GetPage)), Payment::Paid);
        assert!(!lost.is_paid());
        assert_eq!(lost.pay(Protocol::V2, Some(Kind::DbSize)), Payment::Refused);
        assert_eq!(lost.pay(Protocol::V2, Some(Kind::GetPage)), Payment::Paid);
        assert!(lost.is_paid());
        assert_eq!(lost.pay(Protocol::V2, Some(Kind::GetPage)), Payment::Refused);
    }

    #[test]
    fn an_error_leaves_a_hole_unclear_unless_its_length_leaves_one_number() {
        let mut lost = Lost::begun(None);
        lost.end(Protocol::V2, 78);
        assert_eq!(lost.pay(Protocol::V2, None), Payment::Unclear);
        let mut lost = Lost::begun(None);
        lost.end(Protocol::V2, 74);
        assert_eq!(lost.pay(Protocol::V2, None), Payment::Paid);
        assert_eq!(lost.pay(Protocol::V2, Some(Kind::GetPage)), Payment::Paid);
        assert!(lost.is_paid());
    }

    #[test]
    fn an_error_to_a_request_of_an_open_hole_counts_as_one_of_its_answers() {
        let mut lost = Lost::begun(None);
        lost.pay(Protocol::V3, Some(Kind::GetPage));
        lost.pay(Protocol::V3, None);
        lost.end(Protocol::V3, 3 * 47);
        assert_eq!((lost.fewest, lost.most), (1, 2));
        let mut lost = Lost::begun(None);
        lost.pay(Protocol::V3, None);
        lost.end(Protocol::V3, 47);
        assert!(lost.is_paid());
    }

    #[test]
    fn an_open_hole_gives_the_packets_time_to_what_surely_lay_in_it() {
        let cut = Cut { at: Timestamp(5), bytes: 47 + 43 + 10 };
        let mut lost = Lost::begun(Some(cut));
        assert_eq!(lost.pay(Protocol::V3, Some(Kind::GetPage)), Payment::Paid);
        assert_eq!(lost.pay(Protocol::V3, Some(Kind::Nblocks)), Payment::Paid);
        assert_eq!(lost.at, Some(Timestamp(5)));
        lost.pay(Protocol::V3, Some(Kind::Nblocks));
        assert_eq!(lost.at, None, "it ended in a later packet");
        let mut lost = Lost::begun(Some(cut));
        lost.pay(Protocol::V3, None);
        lost.pay(Protocol::V3, None);
        assert_eq!(lost.at, Some(Timestamp(5)), "two of the longest would fit");
        lost.pay(Protocol::V3, None);
        assert_eq!(lost.at, None);
    }
}
