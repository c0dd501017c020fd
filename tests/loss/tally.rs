//! Case after case of one capture, and the table of what they kept.

use std::fmt::Write;

use decode::Packet;

use crate::clean::{Clean, line};
use crate::evidence::Retransmissions;
use crate::tape::{Decoded, Tape};
use crate::truth::Rule;

/// One capture under trial.
pub(crate) struct Trial<'a> {
    pub(crate) tape: &'a Tape,
    clean: Clean,
    retransmissions: Retransmissions,
    faults: Vec<String>,
    rows: Vec<(String, Row)>,
}

/// Sums over the cases of one kind of damage.
#[derive(Debug, Default, Clone)]
struct Row {
    cases: usize,
    wanted: usize,
    found: usize,
    least_found: Option<f64>,
    records: usize,
    with_latency: usize,
    without_evidence: usize,
    tool_differs: usize,
}

/// A failing test shows so many faults.
const SHOWN_FAULTS: usize = 6;

impl<'a> Trial<'a> {
    pub(crate) fn new(tape: &'a Tape) -> Self {
        Self::against(tape, tape)
    }

    /// The same where another capture shows more of the same packets.
    pub(crate) fn against(tape: &'a Tape, reference: &Tape) -> Self {
        let packets = tape.packets();
        let clean = Clean::new(reference.clean().records);
        assert!(clean.len() > 0, "{} gives no record even when it is whole", tape.name);
        let retransmissions = Retransmissions::of(&packets);
        let mut trial = Self { tape, clean, retransmissions, faults: Vec::new(), rows: Vec::new() };
        trial.case("whole", "", &packets);
        trial
    }

    /// Decodes `packets`, what a `damage` left of the capture, and keeps the score. `label` names the case in a failure.
    pub(crate) fn case(&mut self, damage: &str, label: &str, packets: &[Packet<'_>]) {
        let decoded = self.tape.decode(packets);
        self.decoded_case(damage, label, packets, &decoded);
    }

    /// The same where it has been decoded already.
    pub(crate) fn decoded_case(&mut self, damage: &str, label: &str, packets: &[Packet<'_>], decoded: &Decoded) {
        let difference = self.clean.compare(&decoded.records, &self.retransmissions, packets);
        let mut faults = difference.faults;
        let mut row = Row {
            cases: 1,
            records: decoded.records.len(),
            with_latency: decoded.records.iter().filter(|record| record.latency_ns.is_some()).count(),
            without_evidence: difference.without_evidence,
            ..Row::default()
        };
        if let Some(truth) = &self.tape.truth {
            let verdict = truth.judge(&decoded.records, Rule::AllFields);
            (row.wanted, row.found) = (verdict.wanted, verdict.found);
            row.least_found = Some(verdict.found as f64 / verdict.wanted.max(1) as f64);
            // What cannot be known for want of evidence is outside the truth, too.
            if row.without_evidence == 0 {
                let by_tool = truth.judge(&decoded.records, Rule::Tool).faults;
                row.tool_differs = usize::from(verdict.faults.is_empty() && !by_tool.is_empty());
                faults.extend(verdict.faults);
            }
        }
        let name = &self.tape.name;
        self.faults.extend(faults.iter().take(2).map(|fault| format!("{name}: {damage} {label}: {fault}")));
        match self.rows.iter_mut().find(|(known, _)| known == damage) {
            Some((_, sum)) => sum.add(&row),
            None => self.rows.push((damage.to_owned(), row)),
        }
    }

    /// The same where the two directions have clocks of their own: times are the capture's, latencies must not rest on them.
    pub(crate) fn skewed_case(&mut self, damage: &str, label: &str, packets: &[Packet<'_>]) {
        let mut decoded = self.tape.decode(packets);
        let noticed = decoded.stats.clock_conflicts + decoded.stats.negative_latencies;
        for record in &decoded.records {
            if record.latency_ns.is_some() {
                self.faults.push(format!("{damage} {label} ({noticed} noticed): a latency: {}", line(record)));
            }
        }
        decoded.records.iter_mut().for_each(|record| record.transfer_ns = None);
        let difference = self.clean.compare(&decoded.records, &self.retransmissions, packets);
        self.faults.extend(difference.faults.into_iter().map(|fault| format!("{damage} {label}: {fault}")));
    }

    /// Prints the table, and fails where there was a fault.
    pub(crate) fn finish(self) {
        let mut text = format!("{}\n", self.tape.name);
        let head = ["damage", "cases", "recall", "least", "records", "latency", "no evid.", "tool differs"];
        let [damage, rest @ ..] = head;
        write!(text, "  {damage:<22}").unwrap();
        rest.iter().for_each(|title| write!(text, "{title:>13}").unwrap());
        for (damage, row) in &self.rows {
            let share = |part: usize, whole: usize| format!("{:.4}", part as f64 / whole.max(1) as f64);
            let recall = if row.wanted > 0 { share(row.found, row.wanted) } else { "-".to_owned() };
            let least = row.least_found.map_or("-".to_owned(), |least| format!("{least:.4}"));
            write!(text, "\n  {damage:<22}{:>13}{recall:>13}{least:>13}", row.cases).unwrap();
            let latency = share(row.with_latency, row.records);
            write!(text, "{:>13}{latency:>13}{:>13}{:>13}", row.records, row.without_evidence, row.tool_differs)
                .unwrap();
        }
        println!("{text}");
        let shown = self.faults.iter().take(SHOWN_FAULTS).map(String::as_str).collect::<Vec<_>>().join("\n");
        assert!(self.faults.is_empty(), "{} faults, such as\n{shown}", self.faults.len());
    }
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.cases += other.cases;
        self.wanted += other.wanted;
        self.found += other.found;
        self.records += other.records;
        self.with_latency += other.with_latency;
        self.without_evidence += other.without_evidence;
        self.tool_differs += other.tool_differs;
        self.least_found = match (self.least_found, other.least_found) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}
