//! What is compared.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// A program with its options, in the place of one row.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    /// What stands in the table.
    pub(crate) label: String,
    /// Its part in the comparison.
    pub(crate) part: Part,
    program: PathBuf,
    arguments: Vec<OsString>,
}

/// What a contender is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Reads the file and steps over it.
    Floor,
    /// Copies packets.
    Tcpdump,
    /// pagesniff, writing nothing.
    Decode,
    /// pagesniff, writing traces.
    Traces,
    /// The same with a hash of every page.
    Hashes,
    /// pagesniff, writing JSON Lines.
    Lines,
    /// Another pagesniff, writing traces.
    Against,
}

/// The places that the programs are given.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) capture: PathBuf,
    /// Where traces go; emptied before each run.
    pub(crate) traces: PathBuf,
    /// Where pagesniff says what it has found.
    pub(crate) summary: PathBuf,
}

/// All that run on a capture, in the order in which they run.
pub(crate) fn contenders(places: &Places, pagesniff: &Path, against: Option<&Path>) -> Result<Vec<Contender>> {
    let capture = places.capture.as_os_str();
    let own = env::current_exe().context("cannot tell where this program lies")?;
    let mut all = vec![Contender {
        label: "floor".into(),
        part: Part::Floor,
        program: own,
        arguments: vec!["floor".into(), capture.into()],
    }];
    if process::is_installed("tcpdump") {
        let arguments = ["-r".as_ref(), capture, "-w".as_ref(), "/dev/null".as_ref()].map(OsString::from);
        all.push(Contender {
            label: "tcpdump -w /dev/null".into(),
            part: Part::Tcpdump,
            program: "tcpdump".into(),
            arguments: arguments.into(),
        });
    }
    let sniff = |label: &str, part, program: &Path, more: &[&str]| {
        let mut arguments =
            ["--read".as_ref(), capture, "--quiet".as_ref(), "--summary".as_ref()].map(OsString::from).to_vec();
        arguments.push(places.summary.clone().into());
        arguments.extend(more.iter().map(OsString::from));
        if !matches!(part, Part::Decode | Part::Lines) {
            arguments.extend(["--out".into(), places.traces.clone().into()]);
        }
        Contender { label: label.into(), part, program: program.into(), arguments }
    };
    all.push(sniff("pagesniff", Part::Decode, pagesniff, &[]));
    all.push(sniff("pagesniff --out", Part::Traces, pagesniff, &[]));
    all.push(sniff("pagesniff --out --page-hash", Part::Hashes, pagesniff, &["--page-hash"]));
    all.push(sniff("pagesniff --format jsonl", Part::Lines, pagesniff, &["--format", "jsonl"]));
    if let Some(other) = against {
        all.push(sniff("other pagesniff --out", Part::Against, other, &[]));
    }
    Ok(all)
}

impl Contender {
    /// The command that is to be measured.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        command
    }
}
