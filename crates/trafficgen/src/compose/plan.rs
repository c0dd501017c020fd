//! Which connections there are: their addresses, owners, ends and starts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::options::{ComposeOptions, End, Other};
use super::segment::Both;
use crate::rng::Rng;
use crate::truth::ConnectionFacts;

/// When composed traffic begins: 2026-01-01T00:00:00Z, so that the same options give the same times.
pub(super) const EPOCH_NS: u64 = 1_767_225_600_000_000_000;

/// Connections open this far apart.
const OPEN_APART_NS: u64 = 700_000;

/// A port is used again this long after its last connection was over.
pub(super) const REOPEN_AFTER_NS: u64 = 5_000_000;

/// Client ports of one address begin here, where Linux's range of ephemeral ports does.
const FIRST_CLIENT_PORT: u32 = 32_768;

/// Ports used on one client address before the next one is taken.
const PORTS_PER_ADDRESS: u32 = 28_000;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A backend's pagestream with so many requests.
    Pagestream {
        /// Its share of the requests.
        budget: u64,
    },
    /// Something else.
    Other(Other),
}

/// One connection, before it is opened.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Addresses, owner, version; the number seeds its randomness and is unique.
    pub(super) facts: ConnectionFacts,
    /// The backend's number in the workload: it decides what is asked.
    pub(super) backend: u32,
    /// How often that backend's port was used before.
    pub(super) session: u32,
    /// What it is for.
    pub(super) purpose: Purpose,
    /// How it ends.
    pub(super) end: End,
    /// When it opens.
    pub(super) open_ns: u64,
    /// Initial sequence numbers.
    pub(super) initial_seq: Both<u32>,
}

/// All ports that are used; on each, sessions follow one another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lanes<'a> {
    options: &'a ComposeOptions,
}

impl<'a> Lanes<'a> {
    /// The lanes of a composition.
    pub(super) const fn of(options: &'a ComposeOptions) -> Self {
        Self { options }
    }

    /// How many there are.
    pub(super) const fn count(self) -> u32 {
        self.options.workload.connections + self.options.session.also.len() as u32
    }

    /// Sessions on one lane.
    pub(super) const fn sessions(self, lane: u32) -> u32 {
        if lane < self.options.workload.connections { 1 + self.options.session.reconnect } else { 1 }
    }

    /// When the first session of a lane opens. Connections of other kinds come among the first pagestreams.
    pub(super) fn open_ns(self, lane: u32) -> u64 {
        let connections = self.options.workload.connections;
        let place = lane.checked_sub(connections).map_or(u64::from(lane) * 2, |other| u64::from(other) * 2 + 1);
        EPOCH_NS + place * OPEN_APART_NS
    }

    /// A lane's session, opening at a time.
    pub(super) fn plan(self, lane: u32, session: u32, open_ns: u64) -> Plan {
        let workload = &self.options.workload;
        let number = lane + session * self.count();
        let mut rng = Rng::new(workload.seed, 0x15_0000_0000 | u64::from(number));
        let purpose = match self.options.session.also.get(lane.wrapping_sub(workload.connections) as usize) {
            Some(&other) if lane >= workload.connections => Purpose::Other(other),
            _ => Purpose::Pagestream { budget: self.budget(lane, session) },
        };
        let wrap_after = self.options.session.wrap_after;
        let mut initial = |behind: u32| match wrap_after {
            Some(bytes) => 0u32.wrapping_sub(bytes.wrapping_add(behind)),
            None => rng.bits() as u32,
        };
        // Both ends of one host never draw the same number.
        let initial_seq = Both { client: initial(0), server: initial(1000) };
        let ends = &self.options.session.end;
        let end = ends.get(number as usize % ends.len().max(1)).copied().unwrap_or(End::Terminate);
        Plan { facts: self.facts(lane, number), backend: lane, session, purpose, end, open_ns, initial_seq }
    }

    fn budget(self, lane: u32, session: u32) -> u64 {
        let all = self.options.workload.requests_of(lane);
        let sessions = u64::from(self.sessions(lane));
        all / sessions + u64::from(u64::from(session) < all % sessions)
    }

    fn facts(self, lane: u32, number: u32) -> ConnectionFacts {
        let workload = &self.options.workload;
        let tenant = workload.tenant_of(lane);
        let port = FIRST_CLIENT_PORT + lane % PORTS_PER_ADDRESS;
        // Each tenant's compute has an address of its own: 10.64.0.0/10 holds four million.
        let host = 1 + tenant * 4 + lane / PORTS_PER_ADDRESS;
        let client = SocketAddr::new(self.address(host), port as u16);
        let server = SocketAddr::new(self.address(0x3F_0001), self.options.network.port);
        ConnectionFacts { number, client, server, owner: workload.owner_of(lane), protocol: workload.protocol.of(lane) }
    }

    fn address(self, host: u32) -> IpAddr {
        if self.options.network.ipv6 {
            // The documentation prefix of RFC 3849.
            return Ipv6Addr::from(0x2001_0db8_0000_0000_0000_0000_0000_0000 | u128::from(host)).into();
        }
        Ipv4Addr::from(0x0A40_0000 | host).into()
    }
}
