//! Packets that the capture missed, or cut.

use crate::cases;
use crate::rng::Rng;
use crate::tally::Trial;
use crate::tape::{self, Tape};

/// Snap lengths: 96 cuts the handshake, 128 the timeline, 256 the last of eight requests, 512 nothing but pages.
const SNAP_LENGTHS: [usize; 4] = [96, 128, 256, 512];

/// Shares of the packets that are deleted, as the rows of the table.
const SHARES: [(f64, &str); 5] =
    [(0.01, "1 % deleted"), (0.02, "2 % deleted"), (0.05, "5 % deleted"), (0.1, "10 % deleted"), (0.2, "20 % deleted")];

/// Deletes each packet in turn.
pub(crate) fn delete_each(trial: &mut Trial<'_>) {
    let packets = trial.tape.packets();
    for at in 0..packets.len() {
        let left: Vec<_> = packets.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, p)| *p).collect();
        trial.case("each packet deleted", &format!("without packet {at}"), &left);
    }
}

/// Deletes random sets of packets.
pub(crate) fn delete_sets(trial: &mut Trial<'_>, sets: usize) {
    for seed in 0..cases(sets) {
        delete_set(trial, seed);
    }
}

fn delete_set(trial: &mut Trial<'_>, seed: usize) {
    let (share, damage) = SHARES[seed % SHARES.len()];
    let mut rng = Rng::new(seed as u64);
    let left: Vec<_> = trial.tape.packets().into_iter().filter(|_| !rng.chance(share)).collect();
    trial.case(damage, &format!("seed {seed}"), &left);
}

/// Seeds with which something once went wrong, so that quick runs try them, too.
pub(crate) fn again(tape: Option<Tape>, seeds: &[usize]) {
    let Some(tape) = tape else { return };
    let mut trial = Trial::new(&tape);
    seeds.iter().for_each(|&seed| delete_set(&mut trial, seed));
    trial.finish();
}

/// Begins anywhere, and misses more after that.
pub(crate) fn join(trial: &mut Trial<'_>, joins: usize) {
    let packets = trial.tape.packets();
    for seed in 0..cases(joins) {
        let mut rng = Rng::new(seed as u64);
        let rest = &packets[rng.below(packets.len())..];
        trial.case("joined late", &format!("{} packets", rest.len()), rest);
        let left: Vec<_> = rest.iter().filter(|_| !rng.chance(0.05)).copied().collect();
        trial.case("joined late, 5 %", &format!("seed {seed}"), &left);
    }
}

fn cut(trial: &mut Trial<'_>) {
    for bytes in SNAP_LENGTHS {
        let mut packets = trial.tape.packets();
        tape::cut(&mut packets, bytes);
        trial.case(&format!("cut to {bytes}"), "", &packets);
    }
}

fn damage(tape: Option<Tape>) {
    let Some(tape) = tape else { return };
    let mut trial = Trial::new(&tape);
    delete_each(&mut trial);
    delete_sets(&mut trial, 200);
    cut(&mut trial);
    trial.finish();
}

/// Between the command and the first request both the grant and answers are missing: the answers that follow are not the
/// first requests'.
#[test]
fn answers_lost_with_the_grant_are_owed() {
    again(Tape::handed("captures/02_multi_tenant", "capture.pcap"), &[8444, 19114]);
    again(Tape::handed("captures/04_lossy_mtu1500", "capture.pcap"), &[13709]);
    again(Tape::handed("captures/04_lossy_mtu1500", "capture.client.pcap"), &[579, 5779, 9544]);
}

#[test]
fn handed_clean_v3() {
    damage(Tape::handed("captures/01_clean_single_v3", "capture.pcap"));
}

#[test]
fn handed_clean_v2() {
    damage(Tape::handed("captures/01b_clean_single_v2", "capture.pcap"));
}

#[test]
fn handed_multi_tenant() {
    damage(Tape::handed("captures/02_multi_tenant", "capture.pcap"));
}

#[test]
fn handed_lossy_at_the_server() {
    damage(Tape::handed("captures/04_lossy_mtu1500", "capture.pcap"));
}

#[test]
fn handed_lossy_at_the_client() {
    damage(Tape::handed("captures/04_lossy_mtu1500", "capture.client.pcap"));
}

#[test]
fn handed_ipv6() {
    damage(Tape::handed("captures/05_ipv6", "capture.pcap"));
}

#[test]
fn handed_vlan() {
    damage(Tape::handed("captures/11_vlan", "capture.pcap"));
}

#[test]
fn handed_errors() {
    damage(Tape::handed("captures/15_errors", "capture.pcap"));
}
