//! When each compute last began with an empty cache.

use std::collections::BTreeMap;
use std::net::IpAddr;

use record::{TimelineId, Timestamp};

/// Computes that are remembered: twice the connections that a pageserver holds. The earliest one makes room.
const MAX_COMPUTES: usize = 8_192;

/// The latest base backup for each client address and timeline.
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    latest: BTreeMap<(IpAddr, TimelineId), Timestamp>,
    count: u64,
}

impl Epochs {
    /// A compute at that address asked for a base backup of that timeline.
    pub(crate) fn note(&mut self, client: IpAddr, timeline: TimelineId, at: Timestamp) {
        self.count = self.count.saturating_add(1);
        self.latest.insert((client, timeline), at);
        if self.latest.len() > MAX_COMPUTES {
            let earliest = self.latest.iter().min_by_key(|(_, at)| **at).map(|(key, _)| *key);
            if let Some(key) = earliest {
                self.latest.remove(&key);
            }
        }
    }

    pub(crate) fn latest(&self, client: IpAddr, timeline: TimelineId) -> Option<Timestamp> {
        self.latest.get(&(client, timeline)).copied()
    }

    /// How many base backups were noted: a change means that what was looked up may be old.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}
