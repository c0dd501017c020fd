//! What was to be reached, and whether it was.

use std::fmt;

use serde::Serialize;

use crate::captures::Name;
use crate::figures::{Cost, Measured};
use crate::programs::Part;

/// One goal: a figure that is not to be larger than its limit.
#[derive(Debug, Serialize)]
pub(crate) struct Goal {
    what: String,
    at_most: f64,
    measured: f64,
    /// The same by processor time, where it is a ratio of times.
    by_cpu: Option<f64>,
    is_reached: bool,
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, at_most, measured, by_cpu, is_reached } = self;
        let verdict = if *is_reached { "reached" } else { "NOT REACHED" };
        let by_cpu = by_cpu.map_or("-".into(), |by_cpu| format!("{by_cpu:.2}"));
        write!(f, "{what:<54} {at_most:>8.2} {measured:>8.2} {by_cpu:>8}  {verdict}")
    }
}

/// Peak memory of any replay: what the decoder may take, 64 MiB.
const PEAK_MIB: f64 = 64.0;

/// Holds what was measured against the goals. What was not measured has no verdict.
pub(crate) fn judge(measured: &[Measured]) -> Vec<Goal> {
    let of = |name: Name| measured.iter().find(|one| one.capture == name.to_string());
    let mut goals = Vec::new();
    let mut goal = |what: String, at_most: f64, measured: Option<f64>, by_cpu: Option<f64>| {
        if let Some(measured) = measured {
            goals.push(Goal { what, at_most, measured, by_cpu, is_reached: measured <= at_most });
        }
    };
    let mut ratio = |what: String, at_most: f64, cost: Option<Cost>| {
        goal(what, at_most, cost.map(|cost| cost.wall), cost.map(|cost| cost.cpu));
    };
    for (name, at_most_floor, at_most_tcpdump) in [(Name::Mtu1500, Some(1.5), 0.6), (Name::Offload, None, 0.35)] {
        let Some(one) = of(name) else { continue };
        if let Some(at_most) = at_most_floor {
            ratio(format!("{name}: --out, times the floor"), at_most, one.ratio(Part::Traces, Part::Floor));
        }
        ratio(format!("{name}: --out, times tcpdump"), at_most_tcpdump, one.ratio(Part::Traces, Part::Tcpdump));
        ratio(format!("{name}: --out --page-hash, times --out"), 2.0, one.ratio(Part::Hashes, Part::Traces));
    }
    let packet_ns = |name| of(name).and_then(|one| one.ns_a_packet(Part::Traces));
    for (name, at_most) in [(Name::Connections10k, 1.3), (Name::Lossy, 1.5)] {
        let cost = packet_ns(name).zip(packet_ns(Name::Mtu1500)).map(|(one, plain)| one / plain);
        ratio(format!("{name}: --out, cost of a packet, times mtu1500"), at_most, cost);
    }
    for one in measured {
        let peaks = [Part::Decode, Part::Traces, Part::Hashes, Part::Lines].map(|part| one.row(part));
        let peak = peaks.into_iter().flatten().map(|row| row.peak_bytes).max();
        goal(format!("{}: peak MiB", one.capture), PEAK_MIB, peak.map(|bytes| bytes as f64 / f64::from(1 << 20)), None);
        goal(format!("{}: bytes a record", one.capture), 12.0, one.bytes_a_record, None);
        goal(format!("{}: bytes a record with the page hash", one.capture), 20.0, one.bytes_a_record_with_hash, None);
    }
    goals
}
