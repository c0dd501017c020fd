//! Records like those of a busy pageserver, the same for the same seed: 32 backends of one compute, half of them serial
//! and half prefetching eight pages at a time; exponential pauses; lognormal latencies; Zipf-distributed pages; all
//! times in nanoseconds.

use std::net::SocketAddr;

use record::{
    Attribution, Lsn, Pairing, Protocol, Record, RelTag, Status, Target, TenantId, TenantTimeline, TimelineId,
    Timestamp,
};

const CONNECTIONS: usize = 32;
const PAGES: u64 = 200_000;
const PREFETCH: u64 = 8;

/// Whose records they are.
pub(crate) const OWNER: TenantTimeline =
    TenantTimeline { tenant: TenantId([0x3a; 16]), timeline: TimelineId([0x11; 16]) };

/// SplitMix64: small, seeded, good enough for samples.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn exponential_ns(&mut self, mean_ns: f64) -> u64 {
        (-self.unit().ln() * mean_ns) as u64
    }

    fn lognormal_ns(&mut self, median_ns: f64, sigma: f64) -> u64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        (median_ns * (sigma * normal).exp()) as u64
    }

    /// Ranks with weight 1/rank (by inversion of the continuous distribution), scattered over the pages.
    fn zipf_page(&mut self) -> u64 {
        let rank = (PAGES as f64).powf(self.unit()) as u64;
        rank.wrapping_mul(0x9e37_79b1) % PAGES
    }
}

/// A page's last change: the same whenever it is asked for.
fn page_lsn(page: u64) -> u64 {
    0x1_6E00_0000 + ((Random(page).next() % (64 << 20)) & !7)
}

/// The records in the order of their completion.
pub(crate) fn records(count: usize, seed: u64) -> Vec<Record> {
    let mut random = Random(seed);
    let mut out = Vec::with_capacity(count + CONNECTIONS * PREFETCH as usize);
    let mut free_at = [1_796_094_784_355_667_834u64; CONNECTIONS];
    let mut seq = [0u64; CONNECTIONS];
    while out.len() < count {
        // The connection that is free first goes next, so that all advance alike.
        let connection = (0..CONNECTIONS).min_by_key(|&at| free_at[at]).unwrap();
        let sent = free_at[connection] + random.exponential_ns(40_000.0);
        let batch = if connection % 2 == 0 { 1 } else { PREFETCH };
        let mut ready = sent + random.lognormal_ns(220_000.0, 0.5);
        for place in 0..batch {
            let transfer_ns = 1_000 + random.exponential_ns(6_000.0);
            let page = random.zipf_page();
            let pid = 20_000 + connection as u32;
            out.push(Record {
                time: Timestamp(sent),
                latency_ns: Some(ready - sent),
                transfer_ns: Some(transfer_ns),
                depth: Some(place as u32 + 1),
                owner: Some(OWNER),
                attribution: Some(Attribution::Handshake),
                target: Target::GetPage {
                    rel: RelTag { spcnode: 1663, dbnode: 16384, relnode: 16400 + (page % 5) as u32, forknum: 0 },
                    blkno: (page / 5) as u32,
                },
                request_lsn: Lsn::MAX,
                not_modified_since: Lsn(page_lsn(page) + if page.is_multiple_of(4) { 0x1c8 } else { 0 }),
                status: Status::Ok,
                page_lsn: Some(Lsn(page_lsn(page))),
                page_zero: Some(false),
                page_hash: None,
                client: SocketAddr::from(([10, 0, 0, 7], 40_000 + 37 * connection as u16)),
                server: SocketAddr::from(([10, 0, 0, 1], 6400)),
                protocol: Protocol::V3,
                reqid: Some((u64::from(pid) << 32) | (seq[connection] + 1)),
                backend_pid: Some(pid),
                seq: Some(seq[connection]),
                epoch: None,
                pairing: Pairing::Exact,
            });
            seq[connection] += 1;
            free_at[connection] = ready + transfer_ns;
            ready = free_at[connection] + random.lognormal_ns(15_000.0, 0.6);
        }
    }
    out.sort_by_key(|record| record.time.0 + record.latency_ns.unwrap() + record.transfer_ns.unwrap());
    out.truncate(count);
    out
}
