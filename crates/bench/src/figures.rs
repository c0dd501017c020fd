//! Medians, ratios, and how they are printed.

use std::fmt::{self, Write};
use std::fs;
use std::ops::Div;
use std::time::Duration;

use bytesize::ByteSize;
use serde::{Serialize, Serializer};

use crate::goals::Goal;
use crate::process::Usage;
use crate::programs::Part;

/// All of a run.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) rounds: u32,
    /// Of the last minute: others on the same machine make every figure larger.
    pub(crate) load_before: Option<f64>,
    pub(crate) load_after: Option<f64>,
    pub(crate) measured: Vec<Measured>,
    pub(crate) goals: Vec<Goal>,
}

/// What was measured on one capture.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) capture: String,
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) records: u64,
    pub(crate) bytes_a_record: Option<f64>,
    pub(crate) bytes_a_record_with_hash: Option<f64>,
    pub(crate) rows: Vec<Row>,
}

/// What one program took, round by round.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    #[serde(skip)]
    pub(crate) part: Part,
    program: String,
    #[serde(rename = "wall_s", serialize_with = "as_seconds")]
    wall: Vec<Duration>,
    #[serde(rename = "cpu_s", serialize_with = "as_seconds")]
    cpu: Vec<Duration>,
    pub(crate) peak_bytes: u64,
}

fn as_seconds<S: Serializer>(times: &[Duration], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(times.iter().map(Duration::as_secs_f64))
}

impl Row {
    pub(crate) fn new(part: Part, program: String) -> Self {
        Self { part, program, wall: Vec::new(), cpu: Vec::new(), peak_bytes: 0 }
    }

    /// Takes in one run.
    pub(crate) fn take(&mut self, usage: Usage) {
        self.wall.push(usage.wall);
        self.cpu.push(usage.cpu);
        self.peak_bytes = self.peak_bytes.max(usage.peak_bytes);
    }

    /// Median seconds.
    fn cost(&self) -> Cost {
        let median_s = |times: &[Duration]| median(times.iter().map(Duration::as_secs_f64));
        Cost { wall: median_s(&self.wall), cpu: median_s(&self.cpu) }
    }
}

/// What something costs, or how often it goes into something else.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Cost {
    /// From start to end. Whatever else the machine does makes it longer.
    pub(crate) wall: f64,
    /// On all processors together: steadier where the machine is busy, but threads that share the work gain nothing by it.
    pub(crate) cpu: f64,
}

impl Div for Cost {
    type Output = Self;

    fn div(self, by: Self) -> Self {
        Self { wall: self.wall / by.wall, cpu: self.cpu / by.cpu }
    }
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match (sorted.get(sorted.len().saturating_sub(1) / 2), sorted.get(sorted.len() / 2)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

impl Measured {
    /// The row of a part, where it ran.
    pub(crate) fn row(&self, part: Part) -> Option<&Row> {
        self.rows.iter().find(|row| row.part == part)
    }

    /// How many times as much one took as the other.
    pub(crate) fn ratio(&self, part: Part, to: Part) -> Option<Cost> {
        Some(self.row(part)?.cost() / self.row(to)?.cost())
    }

    /// Nanoseconds of a part for each packet.
    pub(crate) fn ns_a_packet(&self, part: Part) -> Option<Cost> {
        let one_ns = 1e-9 * self.packets as f64;
        (self.packets > 0).then_some(self.row(part)?.cost() / Cost { wall: one_ns, cpu: one_ns })
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { capture, bytes, packets, records, .. } = self;
        writeln!(f, "\n{capture}: {}, {packets} packets, {records} requests", ByteSize(*bytes).display().si())?;
        if let (Some(plain), Some(hashed)) = (self.bytes_a_record, self.bytes_a_record_with_hash) {
            writeln!(f, "traces: {plain:.2} bytes a record, {hashed:.2} with the page hash")?;
        }
        if self.row(Part::Tcpdump).is_none() {
            writeln!(f, "tcpdump is not installed: no comparison with it")?;
        }
        writeln!(
            f,
            "{:<28} {:>8} {:>8} {:>8}  {:^17} {:^17} {:>9} {:>8}",
            "", "median", "least", "cpu", "/floor", "/tcpdump", "ns/packet", "peak"
        )?;
        writeln!(
            f,
            "{:<28} {:>8} {:>8} {:>8}  {:>8} {:>8} {:>8} {:>8} {:>9} {:>8}",
            "", "s", "s", "s", "wall", "cpu", "wall", "cpu", "cpu", "MiB"
        )?;
        for row in &self.rows {
            let least = row.wall.iter().min().map_or(f64::NAN, Duration::as_secs_f64);
            let Cost { wall, cpu } = row.cost();
            write!(f, "{:<28} {wall:>8.3} {least:>8.3} {cpu:>8.3} ", row.program)?;
            for to in [Part::Floor, Part::Tcpdump] {
                match self.ratio(row.part, to) {
                    Some(Cost { wall, cpu }) => write!(f, " {wall:>8.2} {cpu:>8.2}")?,
                    None => write!(f, " {:>8} {:>8}", "-", "-")?,
                }
            }
            let packet_ns = self.ns_a_packet(row.part).map_or(f64::NAN, |cost| cost.cpu);
            writeln!(f, " {packet_ns:>9.0} {:>8.1}", row.peak_bytes as f64 / f64::from(1 << 20))?;
        }
        Ok(())
    }
}

impl Figures {
    /// What it all came to.
    pub(crate) fn conclusion(&self) -> String {
        let mut text = format!("\n{:<54} {:>8} {:>8} {:>8}\n", "goals", "at most", "wall", "cpu");
        for goal in &self.goals {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{goal}");
        }
        let load = |load: Option<f64>| load.map_or("unknown".into(), |load| format!("{load:.1}"));
        let (before, after) = (load(self.load_before), load(self.load_after));
        let _ = writeln!(text, "\nmedians of {} rounds; load average {before} before, {after} after", self.rounds);
        text
    }
}

/// How many processes wanted a processor in the last minute.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert!(median([].into_iter()).is_nan());
    }
}
