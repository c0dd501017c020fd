//! Captures that leave out the packets of some connections for a while, as the kernel's filter does.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use decode::{Config, Decoder, Packet};
use record::{Attribution, Record, Timestamp};

use crate::cases;
use crate::rng::Rng;
use crate::tally::Trial;
use crate::tape::{Decoded, Tape, each_segment};
use crate::views::MIXED;

/// Connections that end in every way and come again from the same ports.
const RECONNECTING: &str = "--connections 6 --tenants 3 --protocol mixed --depth 8 --requests 120 --reconnect 3 \
                            --end terminate --end rst --end copy-fail --end half-close --end fin";

/// One in so many of what clients send passes whosever it is.
const SAMPLE_ONE_IN: f64 = 1.0 / 16.0;

/// What the filter of the kernel sees of a packet.
struct Seen {
    client: SocketAddr,
    is_clients: bool,
    is_end: bool,
    /// It opens or ends a connection, or says something that is neither request nor answer.
    is_telling: bool,
}

/// What passes.
enum Passing {
    Nothing,
    AllBut(HashSet<SocketAddr>),
}

impl Passing {
    fn leaves_out(&self, client: SocketAddr) -> bool {
        match self {
            Self::Nothing => true,
            Self::AllBut(clients) => clients.contains(&client),
        }
    }
}

/// A client was followed in this time.
struct Span {
    client: SocketAddr,
    from: Timestamp,
    until: Timestamp,
}

/// A capture with its filter, both of which are changed again and again.
struct Watched<'a> {
    packets: Vec<Packet<'a>>,
    decoder: Decoder,
    records: Vec<Record>,
    passing: Passing,
    /// Who is followed, and since when.
    followed: Vec<(SocketAddr, Timestamp)>,
    spans: Vec<Span>,
}

impl Watched<'_> {
    /// Follows `wanted`, or nobody, from now on.
    fn change(&mut self, wanted: Option<&HashSet<SocketAddr>>, now: Timestamp) {
        self.passing = match wanted {
            None => {
                self.decoder.follow_none();
                Passing::Nothing
            }
            Some(wanted) => {
                let open = self.decoder.connections().map(|open| open.client);
                let left_out: HashSet<_> = open.filter(|client| !wanted.contains(client)).collect();
                self.decoder.follow(now, |open| !left_out.contains(&open.client));
                Passing::AllBut(left_out)
            }
        };
        let open: Vec<_> = self.decoder.connections().map(|open| open.client).collect();
        let Self { passing, followed, spans, .. } = self;
        followed.retain(|&(client, from)| {
            let goes_on = !passing.leaves_out(client);
            if !goes_on {
                spans.push(Span { client, from, until: now });
            }
            goes_on
        });
        for client in open.into_iter().filter(|&client| !passing.leaves_out(client)) {
            if !followed.iter().any(|(known, _)| *known == client) {
                followed.push((client, now));
            }
        }
    }
}

fn seen(packets: &[Packet<'_>]) -> Vec<Option<Seen>> {
    let mut seen: Vec<_> = packets.iter().map(|_| None).collect();
    each_segment(packets, |at, segment| {
        let is_clients = segment.destination.port == 6400;
        let client = if is_clients { segment.source } else { segment.destination };
        let is_end = segment.flags.fin() || segment.flags.rst();
        let says_something =
            segment.payload.first().is_some_and(|&tag| tag != b'd') && segment.payload.get(1) == Some(&0);
        let client = SocketAddr::new(client.addr, client.port);
        seen[at] =
            Some(Seen { client, is_clients, is_end, is_telling: is_end || segment.flags.syn() || says_something });
    });
    seen
}

/// Decodes with the filter changed at random times. `sampled` is how much of the rest of what clients send passes.
fn watch<'a>(tape: &'a Tape, rng: &mut Rng, sampled: f64) -> (Vec<Packet<'a>>, Decoded, Vec<Span>) {
    let packets = tape.packets();
    let seen = seen(&packets);
    let clients: HashSet<_> = seen.iter().flatten().map(|seen| seen.client).collect();
    let mut clients: Vec<_> = clients.into_iter().collect();
    clients.sort_unstable();
    let decoder = Decoder::new(Config { ports: tape.ports.clone(), page_hash: true, ..Config::default() });
    let mut watched = Watched {
        packets: Vec::new(),
        decoder,
        records: Vec::new(),
        passing: Passing::Nothing,
        followed: Vec::new(),
        spans: Vec::new(),
    };
    let mut wanted = None;
    watched.change(None, Timestamp(0));
    for (packet, seen) in packets.iter().zip(&seen) {
        if rng.chance(0.01) {
            let some: HashSet<_> = clients.iter().copied().filter(|_| rng.chance(0.3)).collect();
            wanted = rng.chance(0.7).then_some(some);
            watched.change(wanted.as_ref(), packet.time);
        }
        let is_left_out = seen.as_ref().is_some_and(|seen| {
            watched.passing.leaves_out(seen.client) && !seen.is_telling && !(seen.is_clients && rng.chance(sampled))
        });
        if !is_left_out {
            watched.decoder.packet(packet, &mut watched.records);
            watched.packets.push(*packet);
        }
        // The daemon does so within a second, before its ports can come again.
        if seen.as_ref().is_some_and(|seen| seen.is_end) {
            watched.change(wanted.as_ref(), packet.time);
        }
    }
    let end = packets.last().map_or(Timestamp(0), |packet| packet.time);
    watched.change(None, end);
    watched.decoder.finish(&mut watched.records);
    let stats = *watched.decoder.stats();
    (watched.packets, Decoded { records: watched.records, stats }, watched.spans)
}

fn follow(tape: &Tape) {
    let mut trial = Trial::new(tape);
    let clean = tape.clean();
    let mut wanted_in_all = 0;
    for seed in 0..cases(60) {
        for (damage, sampled) in [("left out", SAMPLE_ONE_IN), ("passed over", 1.0)] {
            let label = format!("{damage}, seed {seed}");
            let (packets, decoded, spans) = watch(tape, &mut Rng::new(seed as u64), sampled);
            trial.decoded_case(damage, &label, &packets, &decoded);
            let stats = &decoded.stats;
            let losses = [stats.gap_bytes, stats.lost_requests, stats.lost_responses, stats.malformed];
            let clean_losses = [0, clean.stats.lost_requests, clean.stats.lost_responses, clean.stats.malformed];
            assert!(losses.iter().zip(clean_losses).all(|(loss, clean)| *loss <= clean), "{label}: {losses:?}");
            for record in &decoded.records {
                assert_eq!(record.attribution, Some(Attribution::Handshake), "{label}: {record:?}");
            }
            wanted_in_all += assert_whole(&label, &clean, &decoded, &spans);
        }
    }
    assert!(wanted_in_all > 300, "{wanted_in_all}");
    trial.finish();
}

/// So many requests in a row tell that a connection joined in the middle carries a pagestream.
const TELLING_REQUESTS: usize = 4;

/// Every request that was asked and answered while its client was followed is there. Gives how many those are.
fn assert_whole(label: &str, clean: &Decoded, decoded: &Decoded, spans: &[Span]) -> usize {
    // Which of two that ask for the same is missing makes no difference; the first after a while have times of their own.
    let key = |record: &Record| (record.client, record.target, record.request_lsn, record.reqid);
    let mut found: HashMap<_, usize> = HashMap::new();
    decoded.records.iter().for_each(|record| *found.entry(key(record)).or_default() += 1);
    let is_within = |record: &Record, span: &Span| {
        let Some(latency_ns) = record.latency_ns else { return false };
        let answered = record.time.plus(latency_ns.saturating_add(record.transfer_ns.unwrap_or(0)));
        record.client == span.client && record.time >= span.from && answered < span.until
    };
    let mut count = 0;
    for span in spans {
        let wanted: Vec<_> = clean.records.iter().filter(|record| is_within(record, span)).collect();
        if wanted.len() < TELLING_REQUESTS {
            continue;
        }
        count += wanted.len();
        for record in wanted {
            let left = found.get_mut(&key(record)).filter(|left| **left > 0);
            *left.unwrap_or_else(|| panic!("{label}: missing: {record:?}")) -= 1;
        }
    }
    count
}

#[test]
fn connections_that_are_followed_now_and_then_are_whole_in_these_times_and_no_loss_in_others() {
    follow(&Tape::composed(MIXED));
}

#[test]
fn connections_that_come_again_from_the_same_ports_are_told_apart() {
    let mut tape = Tape::composed(RECONNECTING);
    // It tells apart what different connections from the same port asked for by nothing but the times.
    tape.truth = None;
    follow(&tape);
}
