//! The operator's assertion that each client address of a network is one compute.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use record::{Attribution, Endpoint, Record, TenantTimeline, Timestamp};
use trace::ConnectionOwner;

/// So many client addresses are remembered, some 100 bytes each: sixteen times the connections that a pageserver holds. The
/// addresses on the wire may be forged.
const MOST_ADDRESSES: usize = 65_536;

/// So many connections of unknown owner are remembered, to be told later whose they were.
const MOST_WAITING: usize = 16_384;

/// Connections whose requests had no owner yet, with the time of the earliest.
type Waiting = HashMap<(Endpoint, Endpoint), Timestamp>;

/// What is known of an address.
#[derive(Debug, Clone)]
enum Address {
    /// No page request said whose it is. A base backup may have.
    Unknown { waiting: Waiting, backed_up: Option<TenantTimeline> },
    /// All that said whose they are said this.
    One(TenantTimeline),
    /// They said different things: it is no compute's own address.
    Several,
}

/// The addresses that the assertion covers.
#[derive(Debug, Clone, Default)]
pub(super) struct Addresses {
    asserted: Vec<IpNet>,
    known: HashMap<IpAddr, Address>,
    waiting: usize,
    /// Whether an address found no room.
    is_full: bool,
}

impl Addresses {
    /// Covers these networks.
    pub(super) fn new(asserted: Vec<IpNet>) -> Self {
        Self { asserted, ..Self::default() }
    }

    /// Whether nothing is asserted.
    pub(super) fn is_empty(&self) -> bool {
        self.asserted.is_empty()
    }

    /// Whether the assertion covers the address. Many computes, or a proxy before them, may be behind a loopback address.
    fn covers(&self, address: IpAddr) -> bool {
        !address.to_canonical().is_loopback() && self.asserted.iter().any(|network| network.contains(&address))
    }

    /// What is known of a covered address, where there is room to know something.
    fn entry(&mut self, address: IpAddr) -> Option<&mut Address> {
        if !self.known.contains_key(&address) && self.known.len() >= MOST_ADDRESSES {
            self.is_full = true;
            return None;
        }
        Some(self.known.entry(address).or_insert_with(|| Address::Unknown { waiting: Waiting::new(), backed_up: None }))
    }

    /// A connection from `address` said whose it is. Unless that `vouches` for the others from there it can contradict only.
    pub(super) fn observe(
        &mut self,
        address: IpAddr,
        owner: TenantTimeline,
        (vouches, mut found): (bool, impl FnMut(ConnectionOwner)),
    ) {
        if self.asserted.is_empty() || !self.covers(address) {
            return;
        }
        let Some(known) = self.entry(address) else { return };
        match known {
            Address::Unknown { waiting, backed_up } => {
                let is_contradicted = backed_up.is_some_and(|other| other != owner);
                if !is_contradicted && !vouches {
                    *backed_up = Some(owner);
                    return;
                }
                let waited = std::mem::take(waiting);
                *known = if is_contradicted { Address::Several } else { Address::One(owner) };
                self.waiting = self.waiting.saturating_sub(waited.len());
                if !is_contradicted {
                    tell(waited, owner, &mut found);
                }
            }
            Address::One(other) if *other != owner => *known = Address::Several,
            Address::One(_) | Address::Several => {}
        }
    }

    /// Whose a request without owner is.
    #[inline]
    pub(super) fn owner_of(&mut self, record: &Record) -> Option<TenantTimeline> {
        if self.asserted.is_empty() || !self.covers(record.client.ip()) {
            return None;
        }
        let has_room = self.waiting < MOST_WAITING;
        match self.entry(record.client.ip())? {
            Address::One(owner) => Some(*owner),
            Address::Several => None,
            Address::Unknown { waiting, .. } => {
                let ends = (record.client, record.server);
                if let Some(since) = waiting.get_mut(&ends) {
                    *since = record.time.min(*since);
                } else if has_room {
                    waiting.insert(ends, record.time);
                    self.waiting = self.waiting.saturating_add(1);
                }
                None
            }
        }
    }

    /// What became of the assertion.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut several: Vec<IpAddr> = self
            .known
            .iter()
            .filter(|(_, known)| matches!(known, Address::Several))
            .map(|(address, _)| *address)
            .collect();
        several.sort_unstable();
        let mut notes: Vec<String> = several
            .iter()
            .take(MOST_NOTES)
            .map(|address| {
                format!(
                    "{address} is not one compute: two tenants or timelines were seen on it; --one-tenant-per-address was not \
                     applied to it any more from then on"
                )
            })
            .collect();
        if several.len() > MOST_NOTES {
            notes.push(format!("so it is with {} more addresses", several.len().saturating_sub(MOST_NOTES)));
        }
        if self.is_full {
            notes.push(format!("--one-tenant-per-address was applied to the first {MOST_ADDRESSES} addresses only"));
        }
        notes
    }

    /// As words of a command line.
    pub(super) fn in_words(&self) -> impl Iterator<Item = String> + '_ {
        self.asserted.iter().map(|network| format!("--one-tenant-per-address {network}"))
    }
}

/// Tells whose the connections were that have waited, in an order that is always the same.
fn tell(waited: Waiting, owner: TenantTimeline, found: &mut impl FnMut(ConnectionOwner)) {
    let mut waited: Vec<_> = waited.into_iter().collect();
    waited.sort_unstable();
    for ((client, server), connected) in waited {
        found(ConnectionOwner { client, server, connected, owner, attribution: Attribution::Address });
    }
}

/// Enough to see that the assertion does not hold.
const MOST_NOTES: usize = 3;
