//! What a capture may show of the same traffic: joined late, ended early, one direction, everything twice, two clocks.

use decode::Packet;
use record::{Record, Timestamp};

use crate::cases;
use crate::reshape::{self, Made};
use crate::rng::Rng;
use crate::tally::Trial;
use crate::tape::{Tape, each_segment};

/// Sessions of all versions with several in flight, and every kind of request.
pub(crate) const MIXED: &str = "--connections 6 --tenants 3 --protocol mixed --requests 300 --depth 8 --error-rate 0.05 \
                                --kinds getpage=8,exists=1,nblocks=1,dbsize=1 --seed 3";

fn from_server(packets: &[Packet<'_>]) -> Vec<bool> {
    let mut server = vec![false; packets.len()];
    each_segment(packets, |at, segment| server[at] = segment.source.port == 6400);
    server
}

fn views(tape: Option<Tape>) {
    let Some(tape) = tape else { return };
    let mut trial = Trial::new(&tape);
    let packets = tape.packets();
    let mut rng = Rng::new(1);
    for _ in 0..cases(10) {
        let at = rng.below(packets.len());
        trial.case("joined late", &format!("from {at}"), &packets[at..]);
        trial.case("ended early", &format!("to {at}"), &packets[..at]);
        let until = at + rng.below(packets.len() - at);
        trial.case("joined and ended", &format!("{at} to {until}"), &packets[at..until]);
    }
    let server = from_server(&packets);
    for (damage, wanted) in [("requests only", false), ("answers only", true)] {
        let left: Vec<_> = packets.iter().zip(&server).filter(|(_, s)| **s == wanted).map(|(p, _)| *p).collect();
        trial.case(damage, "", &left);
    }
    for seed in 0..cases(40) {
        let mut rng = Rng::new(seed as u64);
        let left: Vec<_> =
            packets.iter().zip(&server).filter(|(_, s)| **s || !rng.chance(0.3)).map(|(p, _)| *p).collect();
        trial.case("30 % of requests", &format!("seed {seed}"), &left);
        let left: Vec<_> =
            packets.iter().zip(&server).filter(|(_, s)| !**s || !rng.chance(0.3)).map(|(p, _)| *p).collect();
        trial.case("30 % of answers", &format!("seed {seed}"), &left);
    }
    clocks(&mut trial, &packets, &server, &FAR_NS);
    trial.finish();
}

/// How far the server's clock is ahead, further than any round trip.
const FAR_NS: [i64; 6] = [37_000_000_000, -37_000_000_000, 300_000_000, -300_000_000, 5_000_000, -5_000_000];

/// The same by less than what a delayed network takes, and by more than a handshake at the point of observation does.
const NEAR_NS: [i64; 2] = [500_000, -500_000];

/// The server's direction stamped by another clock; in the order of capture, and in that of the stamps.
fn clocks(trial: &mut Trial<'_>, packets: &[Packet<'_>], server: &[bool], shifts_ns: &[i64]) {
    for &shift_ns in shifts_ns {
        let mut shifted: Vec<_> = packets.to_vec();
        for (packet, is_server) in shifted.iter_mut().zip(server) {
            if *is_server {
                packet.time = Timestamp(packet.time.0.checked_add_signed(shift_ns).unwrap());
            }
        }
        trial.skewed_case("clocks apart", &format!("by {shift_ns} ns, as captured"), &shifted);
        shifted.sort_by_key(|packet| packet.time);
        trial.skewed_case("clocks apart, sorted", &format!("by {shift_ns} ns"), &shifted);
    }
}

/// Each connection's handshake tells, before there is any latency.
#[test]
fn clocks_less_than_a_millisecond_apart() {
    let tape = Tape::composed(MIXED);
    let mut trial = Trial::new(&tape);
    let packets = tape.packets();
    clocks(&mut trial, &packets, &from_server(&packets), &NEAR_NS);
    trial.finish();
}

#[test]
fn views_of_mixed_sessions() {
    views(Some(Tape::composed(MIXED)));
}

#[test]
fn views_of_handed_captures() {
    for folder in ["01_clean_single_v3", "01b_clean_single_v2", "02_multi_tenant", "04_lossy_mtu1500", "15_errors"] {
        views(Tape::handed(&format!("captures/{folder}"), "capture.pcap"));
    }
}

fn decoded(tape: &Tape, made: &[Made]) -> Vec<Record> {
    tape.decode(&made.iter().map(Made::packet).collect::<Vec<_>>()).records
}

/// In an order of their own: a record may be completed by another packet.
fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| (record.client, record.seq));
    records
}

#[test]
fn segmentation_retransmission_and_doubling_change_nothing() {
    let tape = Tape::composed(MIXED);
    let packets = tape.packets();
    let clean = sorted(tape.clean().records);
    for seed in 0..cases(60) {
        let mut rng = Rng::new(seed as u64);
        let shapes = [
            ("split", reshape::split(&packets, &mut rng)),
            ("retransmitted", reshape::retransmit(&packets, &mut rng)),
            ("doubled", reshape::double(&packets, 0, 0, &mut rng)),
            ("doubled within 3 µs", reshape::double(&packets, 3, 3_000, &mut rng)),
        ];
        for (shape, made) in shapes {
            let records = sorted(decoded(&tape, &made));
            let other = records.iter().zip(&clean).find(|(a, b)| a != b);
            assert!(records == clean, "{shape}, seed {seed}: {} for {}\n{other:#?}", records.len(), clean.len());
        }
    }
}

#[test]
fn disorder_changes_times_only() {
    let tape = Tape::composed(MIXED);
    let packets = tape.packets();
    let timeless = |mut record: Record| {
        record.time = Timestamp(0);
        (record.latency_ns, record.transfer_ns, record.depth) = (None, None, None);
        record
    };
    let clean: Vec<Record> = sorted(tape.clean().records).into_iter().map(timeless).collect();
    for seed in 0..cases(100) {
        let made = reshape::disorder(&packets, &mut Rng::new(seed as u64));
        let records: Vec<Record> = sorted(decoded(&tape, &made)).into_iter().map(timeless).collect();
        let other = records.iter().zip(&clean).find(|(a, b)| a != b);
        assert!(records == clean, "seed {seed}: {} for {}\n{other:#?}", records.len(), clean.len());
    }
}
