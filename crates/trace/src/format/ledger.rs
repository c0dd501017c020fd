//! The loss ledger: what was seen, and what became of all that is not in the trace.

use super::bytes::{Input, put_varint};
use crate::error::BlockError;

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $word:literal;)+) => {
        /// One line of the ledger. Ids below 64 count requests of this trace's owner; ids from 64 count what the whole
        /// capture lost while this trace was written, whoever it belonged to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Counter { $($(#[$doc])* $variant = $id,)+ }

        impl Counter {
            /// Every one of them, in the order of their ids.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in summaries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}

counters! {
    /// Requests of this owner that were decoded: the sum of all that follow up to `Rotated`, and of the records kept.
    Seen = 1, "seen";
    /// Not wanted by the filter.
    Filtered = 2, "filtered";
    /// Left out by sampling.
    SampledOut = 3, "sampled_out";
    /// Of an unknown owner, and unattributed records were not asked for.
    Unattributed = 4, "unattributed";
    /// The queue between decoder and writer was full.
    QueueDropped = 5, "queue_dropped";
    /// The disk refused them, or a limit did.
    WriteFailed = 6, "write_failed";
    /// They were written, and deleted with their file to keep the limit.
    Rotated = 7, "rotated";
    /// Packets that the kernel dropped for want of buffer space.
    KernelDropped = 64, "kernel_dropped";
    /// Packets that the interface dropped.
    InterfaceDropped = 65, "interface_dropped";
    /// Packets cut by the snap length.
    TruncatedPackets = 66, "truncated_packets";
    /// Stream bytes that the capture does not hold.
    GapBytes = 67, "gap_bytes";
    /// Requests known to be missing from the capture.
    LostRequests = 68, "lost_requests";
    /// Answers known to be missing from the capture.
    LostResponses = 69, "lost_responses";
    /// Messages that are not what the protocol allows at their place.
    Malformed = 70, "malformed";
    /// Connections forgotten to stay within the memory limit.
    EvictedConnections = 71, "evicted_connections";
    /// Records dropped between decoder and writer, of all owners.
    DroppedRecords = 72, "dropped_records";
    /// Connections whose two directions are stamped by clocks that disagree. Nothing is lost, but no latency of this capture is
    /// proven, those of records from before it was noticed included.
    ClockConflicts = 73, "clock_conflicts";
}

impl Counter {
    /// Whether it counts the whole capture's losses. Over several traces of one capture these do not add up: each trace
    /// says them for itself.
    pub const fn is_capture_wide(self) -> bool {
        self as u8 >= 64
    }

    /// The counter of that id, or `None` where a later minor version defined it.
    fn from_id(id: u64) -> Option<Self> {
        Self::ALL.iter().copied().find(|&counter| u64::from(counter as u8) == id)
    }
}

/// How many counters there are.
const COUNTERS: usize = Counter::ALL.len();

/// A value for each [`Counter`]. In a block: what came to it since the block before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ledger {
    values: [u64; COUNTERS],
}

impl Ledger {
    /// The counter's value.
    pub fn value(&self, counter: Counter) -> u64 {
        self.iter().find(|&(other, _)| other == counter).map_or(0, |(_, value)| value)
    }

    /// Adds to a counter; at the end of the range it stays there.
    pub fn add(&mut self, counter: Counter, count: u64) {
        for (other, value) in Counter::ALL.iter().zip(&mut self.values) {
            if *other == counter {
                *value = value.saturating_add(count);
            }
        }
    }

    /// Adds every counter of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (value, more) in self.values.iter_mut().zip(other.values) {
            *value = value.saturating_add(more);
        }
    }

    /// What came to each counter since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = *self;
        for (value, before) in difference.values.iter_mut().zip(earlier.values) {
            *value = value.saturating_sub(before);
        }
        difference
    }

    /// Whether every counter is 0.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(|&value| value == 0)
    }

    /// Every counter with its value, in the order of the ids.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().copied().zip(self.values)
    }

    /// Appends the counters that are not 0.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for (counter, value) in self.iter().filter(|&(_, value)| value != 0) {
            put_varint(out, u64::from(counter as u8));
            put_varint(out, value);
        }
    }

    /// Reads what [`Self::encode`] wrote; counters of later versions are passed over.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BlockError> {
        let mut ledger = Self::default();
        let mut input = Input::new(bytes);
        while !input.is_empty() {
            let (Some(id), Some(value)) = (input.varint(), input.varint()) else {
                return Err(BlockError::new("ledger", "ends within a counter"));
            };
            if let Some(counter) = Counter::from_id(id) {
                ledger.add(counter, value);
            }
        }
        Ok(ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_read_as_written_and_unknown_counters_are_passed_over() {
        let mut ledger = Ledger::default();
        for (n, &counter) in Counter::ALL.iter().enumerate() {
            ledger.add(counter, (n as u64) << (3 * n));
        }
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 4000);
        put_varint(&mut bytes, 17);
        ledger.encode(&mut bytes);
        assert_eq!(Ledger::decode(&bytes), Ok(ledger));
        bytes.pop();
        assert!(Ledger::decode(&bytes).is_err());
    }

    #[test]
    fn differences_add_up_to_the_whole() {
        let mut earlier = Ledger::default();
        earlier.add(Counter::Seen, 10);
        let mut later = earlier;
        later.add(Counter::Seen, 5);
        later.add(Counter::GapBytes, 7);
        let mut sum = earlier;
        sum.merge(&later.since(&earlier));
        assert_eq!(sum, later);
        assert_eq!(later.value(Counter::Seen), 15);
    }
}
