//! One backend of a compute: the requests that it makes, in order.

use record::{Key, Kind, Lsn, Protocol, Target};

use super::pages::page_lsn_at;
use super::tenant::{RELATION_BLOCKS, base_lsn, page_at};
use super::workload::Workload;
use crate::rng::Rng;

/// One request, before it is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Its ordinal on the connection, from 0.
    pub seq: u64,
    /// `pid << 32 | counter` in version 3, 0 in the others.
    pub reqid: u64,
    /// What it asks for.
    pub target: Target,
    /// The version asked for; [`Lsn::MAX`] from primaries.
    pub request_lsn: Lsn,
    /// The compute's promise that nothing changed since.
    pub not_modified_since: Lsn,
}

/// Makes the requests of one connection; the same ones for the same workload and connection number, at any speed.
#[derive(Debug, Clone)]
pub struct Asker {
    rng: Rng,
    workload: Workload,
    protocol: Protocol,
    replica: bool,
    pid: u32,
    lsn: Lsn,
    place: u64,
    seq: u64,
    reqid: u64,
}

/// The log grows by up to so many 8-byte units between two requests.
const GROWTH_UNITS: u64 = 64;

/// A compute remembers last-written LSNs for chunks of pages, so its promise lies somewhere between the page's last
/// change and now; not further back than this.
const PROMISE_SLACK_BYTES: u64 = 1 << 20;

impl Asker {
    /// The requests of connection `number`.
    pub fn new(workload: &Workload, number: u32) -> Self {
        let pid = workload.backend_pid(number);
        Self {
            rng: Rng::new(workload.seed, 0xA5_0000_0000 | u64::from(number)),
            workload: workload.clone(),
            protocol: workload.protocol.of(number),
            replica: workload.is_replica(number),
            pid,
            lsn: base_lsn(workload.tenant_of(number)),
            place: u64::from(number) * (workload.pages / u64::from(workload.connections.max(1))).max(1),
            seq: 0,
            reqid: u64::from(pid) << 32,
        }
    }

    /// The same backend's work when its connection opens for the `session`-th time after the first: another process,
    /// further on in the log.
    #[must_use]
    pub fn of_session(mut self, session: u32) -> Self {
        if session == 0 {
            return self;
        }
        let session = u64::from(session);
        self.pid += session as u32;
        self.reqid = u64::from(self.pid) << 32;
        self.lsn = Lsn(self.lsn.0 + session * PROMISE_SLACK_BYTES);
        self.rng = Rng::new(self.rng.bits(), session);
        self
    }

    /// The version that the connection speaks.
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The process id of the backend, its `application_name`.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the compute is a standby, which asks at concrete LSNs.
    pub const fn replica(&self) -> bool {
        self.replica
    }

    /// Begins a group of requests that leave together.
    pub const fn begin_group(&mut self) {
        if self.workload.shared_batch_ids {
            self.reqid += 1;
        }
    }

    /// The next request, of a kind drawn by [`Self::next_kind`].
    pub fn request(&mut self, kind: Kind) -> Request {
        self.lsn = Lsn(self.lsn.0 + 8 * self.rng.below(GROWTH_UNITS));
        if !self.workload.shared_batch_ids {
            self.reqid += 1;
        }
        let key = self.next_page();
        let target = match kind {
            Kind::GetPage => Target::GetPage { rel: key.rel, blkno: key.blkno },
            Kind::Exists => Target::Exists { rel: key.rel },
            Kind::Nblocks => Target::Nblocks { rel: key.rel },
            Kind::DbSize => Target::DbSize { dbnode: key.rel.dbnode },
            Kind::Slru => Target::Slru { kind: (self.seq % 3) as u8, segno: self.rng.below(16) as u32 },
        };
        let (request_lsn, not_modified_since) = self.versions(key);
        let reqid = if self.protocol == Protocol::V3 { self.reqid } else { 0 };
        let seq = self.seq;
        self.seq += 1;
        Request { seq, reqid, target, request_lsn, not_modified_since }
    }

    /// Draws the kind of the next request.
    pub fn next_kind(&mut self) -> Kind {
        self.workload.kinds.draw(&mut self.rng)
    }

    fn next_page(&mut self) -> Key {
        let pages = self.workload.pages;
        let index = self.workload.pattern.pick(pages, self.place, &mut self.rng);
        self.place += 1;
        let key = page_at(index, pages);
        let past_end = self.rng.chance(self.workload.zero_rate);
        Key { blkno: if past_end { key.blkno + RELATION_BLOCKS } else { key.blkno }, ..key }
    }

    fn versions(&mut self, key: Key) -> (Lsn, Lsn) {
        let slack = (self.lsn.0 - page_lsn_at(key, self.lsn).0).min(PROMISE_SLACK_BYTES);
        let promise = Lsn(self.lsn.0 - self.rng.below(slack / 8 + 1) * 8);
        match (self.replica, self.protocol) {
            (false, _) => (Lsn::MAX, promise),
            // Version 1 with latest=0 has one LSN for both.
            (true, Protocol::V1) => (self.lsn, self.lsn),
            (true, _) => (self.lsn, promise),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_holds_the_page_lies_before_it() {
        let workload = Workload { replica_every: 2, ..Workload::default() };
        for number in 0..2 {
            let mut asker = Asker::new(&workload, number);
            for _ in 0..2000 {
                let request = asker.request(Kind::GetPage);
                let key = request.target.key().unwrap();
                assert_eq!(page_lsn_at(key, request.not_modified_since), page_lsn_at(key, asker.lsn));
                assert!(request.not_modified_since <= request.request_lsn);
                assert_eq!(request.request_lsn == Lsn::MAX, number == 0);
            }
        }
    }

    #[test]
    fn ids_count_up_behind_the_process_id_or_are_shared_by_a_group() {
        let mut asker = Asker::new(&Workload::default(), 3);
        asker.begin_group();
        let ids: Vec<u64> = (0..3).map(|_| asker.request(Kind::GetPage).reqid).collect();
        assert_eq!(ids[0], u64::from(asker.pid()) << 32 | 1);
        assert_eq!(ids[2], ids[0] + 2);
        let mut asker = Asker::new(&Workload { shared_batch_ids: true, ..Workload::default() }, 3);
        asker.begin_group();
        let (first, second) = (asker.request(Kind::GetPage).reqid, asker.request(Kind::GetPage).reqid);
        asker.begin_group();
        assert_eq!((first, first + 1), (second, asker.request(Kind::GetPage).reqid));
    }
}
