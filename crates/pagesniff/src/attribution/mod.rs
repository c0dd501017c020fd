//! Whose requests they are, where the connection did not say so: it was open before the capture began.
//!
//! | how | what it rests on |
//! |---|---|
//! | `handshake` | read on this connection; the decoder's, never touched here |
//! | `hint` | the operator's `--hint` or hints file names the connection or the address |
//! | `address` | the operator asserts with `--one-tenant-per-address` that each client address of a network is one compute, and another connection from there said whose it is |
//!
//! The contract:
//!
//! - What a connection says overrides every hint and assertion, and one that it contradicts is not used any more: for an
//!   address that two owners were seen on, nothing is concluded.
//! - Loopback addresses are never taken for a compute's.
//! - Requests that came before it was known whose they are stay as they were written; what was found is appended.
//! - Every table is bounded; what finds no room stays unattributed.

mod addresses;
mod hints;

use decode::{Identified, Purpose};
use ipnet::IpNet;
use record::{Attribution, Record, TenantTimeline};
use trace::ConnectionOwner;

use addresses::Addresses;
pub use hints::{Hint, Hints};

/// Gives requests the owner that hints, or other connections, say they have.
#[derive(Debug, Clone, Default)]
pub struct Attributor {
    hints: Hints,
    addresses: Addresses,
}

impl Attributor {
    /// What the operator hinted at and asserted.
    pub fn new(hints: Hints, one_tenant_per_address: Vec<IpNet>) -> Self {
        Self { hints, addresses: Addresses::new(one_tenant_per_address) }
    }

    /// A connection said whose it is. `found` takes the earlier connections whose owner is known by that.
    pub fn identified(&mut self, connection: &Identified, found: impl FnMut(ConnectionOwner)) {
        let Some(owner) = connection.owner else { return };
        self.hints.check(connection.client, owner);
        // A base backup contradicts; it is not taken for a compute's word about its other connections.
        self.addresses.observe(connection.client.ip(), owner, (connection.purpose == Purpose::Pagestream, found));
    }

    /// Whose request it is, and how that is known; `None` where the record says it itself, or nobody does.
    #[inline]
    pub fn owner_of(&mut self, record: &Record) -> Option<(TenantTimeline, Attribution)> {
        if record.owner.is_some() {
            return None;
        }
        let hinted = self.hints.owner_of(record.client).map(|owner| (owner, Attribution::Hint));
        hinted.or_else(|| {
            let owner = self.addresses.owner_of(record)?;
            Some((owner, Attribution::Address))
        })
    }

    /// Whether the operator said nothing.
    pub fn is_empty(&self) -> bool {
        self.hints.is_empty() && self.addresses.is_empty()
    }

    /// What became of hints and assertions, in plain sentences without their full stop.
    pub fn notes(&self) -> Vec<String> {
        self.hints.notes().into_iter().chain(self.addresses.notes()).collect()
    }

    /// The operator's words, for the header of a trace.
    pub fn in_words(&self) -> String {
        let words: Vec<String> = self.hints.in_words().chain(self.addresses.in_words()).collect();
        words.join(" ")
    }
}

#[cfg(test)]
mod tests;
