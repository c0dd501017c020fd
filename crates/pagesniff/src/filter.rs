//! Which requests are kept.

use analysis::shards::ShardClaim;
use record::{Endpoint, Kind, Record, RelTag, ShardIndex, TenantShardId, TenantTimeline, TimelineId, shard_of_block};

use crate::flags::{ClientMatch, RawFilter};

/// The seed of `--sample`; the records of two runs over the same traffic must agree on which keys are in it.
const SAMPLE_SEED: u64 = 0;

/// All conditions together; an empty list is no condition.
#[derive(Debug, Clone)]
pub struct Filter {
    tenants: Vec<TenantShardId>,
    stripe_blocks: u32,
    shard_claims: Vec<ShardClaim>,
    timelines: Vec<TimelineId>,
    rels: Vec<RelTag>,
    kinds: Vec<Kind>,
    clients: Vec<ClientMatch>,
    min_latency_ns: Option<u64>,
    sample_one_in: u64,
    unattributed: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is kept.
    Keep,
    /// A filter leaves it out.
    Filtered,
    /// The filters want it, and its key is not in the sample.
    SampledOut,
    /// The filters might want it, and its tenant is not known.
    Unattributed,
}

impl Filter {
    /// The filter that was typed. `unattributed` keeps requests whose tenant is not known beside what matches.
    pub fn from_raw(raw: &RawFilter, unattributed: bool) -> Self {
        Self {
            tenants: raw.owner.tenant.clone(),
            stripe_blocks: raw.owner.stripe_size,
            shard_claims: raw.owner.shard_claims().collect(),
            timelines: raw.owner.timeline.clone(),
            rels: raw.rel.clone(),
            kinds: raw.kind.clone(),
            clients: raw.owner.client.clone(),
            min_latency_ns: raw.min_latency.map(|least| u64::try_from(least.as_nanos()).unwrap_or(u64::MAX)),
            sample_one_in: raw.sample.map_or(1, |sample| sample.one_in),
            unattributed,
        }
    }

    /// What was said of shards.
    pub fn shard_claims(&self) -> &[ShardClaim] {
        &self.shard_claims
    }

    /// One key in how many is kept.
    pub fn sample_one_in(&self) -> u64 {
        self.sample_one_in
    }

    /// Keeps one key in so many from now on. Where one of two numbers divides the other, the fewer keys are among the more.
    #[cfg(all(feature = "live", target_os = "linux"))]
    pub(crate) fn set_sample(&mut self, one_in: u64) {
        self.sample_one_in = one_in.max(1);
    }

    /// Decides on one request. What does not depend on the tenant comes first, so that `Unattributed` counts requests
    /// that knowing the tenant could have kept.
    pub fn verdict(&self, record: &Record) -> Verdict {
        if !self.wants_apart_from_owner(record) {
            return Verdict::Filtered;
        }
        match record.owner {
            None if !self.unattributed => return Verdict::Unattributed,
            Some(owner) if !self.wants_owner(owner, record) => return Verdict::Filtered,
            _ => {}
        }
        match self.in_sample(record) {
            true => Verdict::Keep,
            false => Verdict::SampledOut,
        }
    }

    /// Whether the tenant and timeline are wanted, whatever the request. All shards of a wanted tenant are.
    #[inline]
    pub fn wants_tenant_of(&self, record: &Record) -> bool {
        let Some(owner) = record.owner else { return self.unattributed };
        (self.timelines.is_empty() || self.timelines.contains(&owner.timeline))
            && (self.tenants.is_empty() || self.tenants.iter().any(|wanted| wanted.tenant == owner.tenant))
    }

    /// Whether requests of a connection can be wanted that has this owner and client.
    pub fn may_want(&self, owner: TenantTimeline, client: Endpoint) -> bool {
        (self.timelines.is_empty() || self.timelines.contains(&owner.timeline))
            && (self.tenants.is_empty() || self.tenants.iter().any(|wanted| wanted.tenant == owner.tenant))
            && (self.clients.is_empty() || self.clients.iter().any(|wanted| wanted.matches(client)))
    }

    fn wants_apart_from_owner(&self, record: &Record) -> bool {
        let kind = record.target.kind();
        (self.kinds.is_empty() || self.kinds.contains(&kind))
            && (self.rels.is_empty() || record.target.rel().is_some_and(|rel| self.rels.contains(&rel)))
            && (self.clients.is_empty() || self.clients.iter().any(|client| client.matches(record.client)))
            && self.min_latency_ns.is_none_or(|least| record.latency_ns.is_some_and(|latency| latency >= least))
    }

    fn wants_owner(&self, owner: TenantTimeline, record: &Record) -> bool {
        let tenant = |wanted: &TenantShardId| {
            wanted.tenant == owner.tenant && wanted.shard.is_none_or(|shard| self.on_shard(record, shard))
        };
        (self.timelines.is_empty() || self.timelines.contains(&owner.timeline))
            && (self.tenants.is_empty() || self.tenants.iter().any(tenant))
    }

    /// Whether the request goes to that shard. Only blocks are spread; all else is asked of shard 0 (Neon's
    /// `pgxn/neon/communicator.c`: all metadata is there).
    fn on_shard(&self, record: &Record, shard: ShardIndex) -> bool {
        let number = record.target.key().map_or(0, |key| shard_of_block(key, shard.count, self.stripe_blocks));
        number == shard.number
    }

    fn in_sample(&self, record: &Record) -> bool {
        self.sample_one_in == 1
            || analysis::target_hash(&record.target, SAMPLE_SEED).checked_rem(self.sample_one_in) == Some(0)
    }
}

/// Of two samples of keys, one in `a` and one in `b`, the keys that are in both are one in so many: the least common multiple.
pub(crate) fn keys_of_both(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while let Some(next) = divisor.checked_rem(rest) {
        (divisor, rest) = (rest, next);
    }
    a.checked_div(divisor).unwrap_or(0).saturating_mul(b).max(1)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use record::{Attribution, Lsn, Pairing, Protocol, Status, Target, Timestamp};

    use super::*;
    use crate::flags::RawArgs;

    const TENANT: &str = "3aabbf1a5d0f4e2a9d3c1b2a49505101";
    const TIMELINE: &str = "11aa22bb33cc44dd55ee66ff77880001";
    const REL: RelTag = RelTag { spcnode: 1663, dbnode: 5, relnode: 0x400c, forknum: 0 };

    fn filter(words: &[&str]) -> Filter {
        let run = RawArgs::parse_from([&["pagesniff", "--read", "f"], words].concat()).run;
        Filter::from_raw(&run.filter, run.unattributed)
    }

    fn request() -> Record {
        Record {
            time: Timestamp(1),
            latency_ns: Some(1_500_000),
            transfer_ns: None,
            depth: None,
            owner: Some(TenantTimeline { tenant: TENANT.parse().unwrap(), timeline: TIMELINE.parse().unwrap() }),
            attribution: Some(Attribution::Handshake),
            target: Target::GetPage { rel: REL, blkno: 0x7d06 },
            request_lsn: Lsn::MAX,
            not_modified_since: Lsn(1),
            status: Status::Ok,
            page_lsn: None,
            page_zero: None,
            page_hash: None,
            client: ([10, 0, 0, 7], 51344).into(),
            server: ([10, 0, 0, 1], 6400).into(),
            protocol: Protocol::V3,
            reqid: None,
            backend_pid: None,
            seq: None,
            epoch: None,
            pairing: Pairing::Exact,
        }
    }

    fn verdict(words: &[&str]) -> Verdict {
        filter(words).verdict(&request())
    }

    #[test]
    fn each_filter_keeps_what_it_names_and_nothing_else() {
        let other_tenant = TENANT.replace('3', "4");
        for (words, expected) in [
            (&[][..], Verdict::Keep),
            (&["--tenant", TENANT], Verdict::Keep),
            (&["--tenant", &other_tenant], Verdict::Filtered),
            (&["--tenant", &other_tenant, "--tenant", TENANT], Verdict::Keep),
            (&["--timeline", TIMELINE], Verdict::Keep),
            (&["--timeline", TENANT], Verdict::Filtered),
            (&["--rel", "1663/5/16396"], Verdict::Keep),
            (&["--rel", "1663/5/16396_vm"], Verdict::Filtered),
            (&["--kind", "getpage"], Verdict::Keep),
            (&["--kind", "exists", "--kind", "slru"], Verdict::Filtered),
            (&["--client", "10.0.0.0/24"], Verdict::Keep),
            (&["--client", "10.0.0.7:1"], Verdict::Filtered),
            (&["--min-latency", "1.5ms"], Verdict::Keep),
            (&["--min-latency", "1501us"], Verdict::Filtered),
        ] {
            assert_eq!(verdict(words), expected, "{words:?}");
        }
    }

    #[test]
    fn a_shard_gets_its_blocks_and_shard_0_all_that_are_no_blocks() {
        let on = |shard: &str, record: &Record| {
            let tenant = format!("{TENANT}-{shard}");
            filter(&["--tenant", &tenant, "--stripe-size", "32768"]).verdict(record)
        };
        assert_eq!(on("080a", &request()), Verdict::Keep);
        assert_eq!(on("070a", &request()), Verdict::Filtered);
        let size = Record { target: Target::Nblocks { rel: REL }, ..request() };
        assert_eq!(on("000a", &size), Verdict::Keep);
        assert_eq!(on("080a", &size), Verdict::Filtered);
    }

    #[test]
    fn a_connection_is_wanted_for_whatever_of_it_may_be() {
        let other_tenant = TENANT.replace('3', "4");
        let may_want = |words: &[&str]| filter(words).may_want(request().owner.unwrap(), request().client);
        for words in [
            &[][..],
            &["--tenant", &format!("{TENANT}-080a"), "--stripe-size", "32768"],
            &["--timeline", TIMELINE, "--kind", "slru", "--min-latency", "1h"],
            &["--client", "10.0.0.7:51344", "--rel", "1/2/3"],
        ] {
            assert!(may_want(words), "{words:?}");
        }
        for words in [&["--tenant", &other_tenant][..], &["--timeline", TENANT], &["--client", "10.0.0.8"]] {
            assert!(!may_want(words), "{words:?}");
        }
    }

    #[test]
    fn a_request_of_an_unknown_tenant_is_kept_only_when_asked_for() {
        let unknown = Record { owner: None, attribution: None, ..request() };
        assert_eq!(filter(&[]).verdict(&unknown), Verdict::Unattributed);
        assert_eq!(filter(&["--tenant", TENANT]).verdict(&unknown), Verdict::Unattributed);
        assert_eq!(filter(&["--kind", "slru"]).verdict(&unknown), Verdict::Filtered);
        assert_eq!(filter(&["--unattributed", "--tenant", TENANT]).verdict(&unknown), Verdict::Keep);
    }

    #[test]
    fn a_request_without_latency_is_not_known_to_be_slow() {
        let open = Record { latency_ns: None, ..request() };
        assert_eq!(filter(&["--min-latency", "0s"]).verdict(&open), Verdict::Filtered);
    }

    #[test]
    fn a_key_is_in_two_samples_exactly_where_it_is_in_that_of_both() {
        for (a, b, both) in [(1, 1, 1), (1, 8, 8), (8, 2, 8), (4, 6, 12), (u64::MAX, 2, u64::MAX), (0, 3, 1)] {
            assert_eq!(keys_of_both(a, b), both);
        }
        let sample = |one_in: u64| filter(&["--sample", &format!("1/{one_in}")]);
        let (four, six, both) = (sample(4), sample(6), sample(keys_of_both(4, 6)));
        let is_in = |filter: &Filter, blkno| {
            filter.verdict(&Record { target: Target::GetPage { rel: REL, blkno }, ..request() }) == Verdict::Keep
        };
        for blkno in 0..2_000 {
            assert_eq!(is_in(&both, blkno), is_in(&four, blkno) && is_in(&six, blkno));
        }
    }

    #[test]
    fn a_sample_keeps_about_one_key_in_n_and_the_same_ones_every_time() {
        let filter = filter(&["--sample", "1/8"]);
        let kept = |blkno| filter.verdict(&Record { target: Target::GetPage { rel: REL, blkno }, ..request() });
        let first: Vec<Verdict> = (0..8000).map(kept).collect();
        let second: Vec<Verdict> = (0..8000).map(kept).collect();
        assert_eq!(first, second);
        let count = first.iter().filter(|&&verdict| verdict == Verdict::Keep).count();
        assert!((850..1150).contains(&count), "{count}");
        assert!(first.iter().all(|verdict| matches!(verdict, Verdict::Keep | Verdict::SampledOut)));
    }
}
