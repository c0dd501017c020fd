//! Runs the built program in a directory of the test's own.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A directory that goes away with the test, and the program run in it.
pub(crate) struct Dir(TempDir);

impl Dir {
    pub(crate) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.path(name), content).unwrap();
    }

    /// The program, with its arguments split at blanks.
    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pagesniff"));
        command.current_dir(self.0.path()).args(arguments.split_whitespace()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Ended {
        Ended::from(self.command(arguments).output().unwrap())
    }

    /// The same with `input` on standard input.
    pub(crate) fn run_with_stdin(&self, arguments: &str, input: &[u8]) -> Ended {
        let mut child = self.piped(arguments);
        let mut stdin = child.stdin.take().unwrap();
        // The program writes while it reads: both ends have to be served, or both wait for ever.
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).unwrap());
            Ended::from(child.wait_with_output().unwrap())
        })
    }

    pub(crate) fn piped(&self, arguments: &str) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// What a run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().expect("it was killed by a signal"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// A pcap file (little-endian, microseconds, Ethernet) of `packets` small frames, one a second.
pub(crate) fn pcap(packets: u32) -> Vec<u8> {
    let mut file = Vec::new();
    let mut words = |values: &[u32]| values.iter().for_each(|value| file.extend(value.to_le_bytes()));
    words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 262_144, 1]);
    for packet in 0..packets {
        words(&[1_700_000_000 + packet, 0, 64, 64]);
        words(&[packet; 16]);
    }
    file
}
