//! How many instructions a packet costs, counted by valgrind's callgrind: `cargo bench -p pagesniff-decode --bench instructions`.
//!
//! A busy machine makes everything slower, but it does not make a program execute more: so these can be held in CI. They fail
//! where a stage takes more than is written in [`STAGES`], and a margin. Who makes the decoder faster lowers what is there.
//!
//! Each stage is a process of its own under valgrind, in which only [`measured`] is counted. (iai-callgrind, which does the
//! same and more, wants a program installed that takes 150 crates to build.)

mod traffic;

use std::env;
use std::hint::black_box;
use std::process::{Command, ExitCode};

use decode::wire::Wire;
use decode::{Config, WireStats};
use record::Record;

use traffic::Traffic;

/// What is counted, the options of its traffic, and how many instructions a packet took when that was last looked at.
const STAGES: [(&str, &str, u64); 6] = [
    ("wire-parse", "--connections 32", 246),
    ("in-order", "--connections 32", 1107),
    ("connections-2000", "--connections 2000", 1454),
    ("lossy", "--connections 32 --loss 0.01 --reorder 0.01", 1165),
    ("messages-v2", "--connections 32 --mtu 65535 --protocol 2", 2138),
    ("messages-v3", "--connections 32 --mtu 65535 --protocol 3", 2336),
];

/// Compilers differ by so much, and addresses that fall together, since hashes are seeded at random.
const MARGIN_PERCENT: u64 = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    if let [_, flag, stage] = &arguments[..]
        && flag == "--stage"
    {
        let traffic = traffic_of(stage);
        measured(stage, &traffic);
        println!("{}", traffic.packets().count());
        return ExitCode::SUCCESS;
    }
    let mut outcome = ExitCode::SUCCESS;
    println!("{:<20} {:>12} {:>12}", "instructions/packet", "counted", "at most");
    for (stage, _, known) in STAGES {
        let counted = count(stage);
        let at_most = known + known * MARGIN_PERCENT / 100;
        let verdict = if counted > at_most { "  TOO MANY" } else { "" };
        println!("{stage:<20} {counted:>12} {at_most:>12}{verdict}");
        if counted > at_most {
            outcome = ExitCode::FAILURE;
        }
    }
    outcome
}

fn traffic_of(stage: &str) -> Traffic {
    let (_, options, _) = STAGES.iter().find(|(name, ..)| *name == stage).expect("a stage of that name");
    Traffic::compose(&format!("--kinds getpage=1 --depth 32 --requests 4000 {options}"))
}

/// What is counted: only what happens in here.
#[inline(never)]
fn measured(stage: &str, traffic: &Traffic) {
    if stage == "wire-parse" {
        let (mut wire, mut stats) = (Wire::new(0), WireStats::default());
        for packet in traffic.packets() {
            black_box(wire.parse(&packet, &mut stats));
        }
    } else {
        traffic.decode(&Config::default(), &mut |record: &Record| _ = black_box(record.time));
    }
}

/// Instructions a packet of a stage.
fn count(stage: &str) -> u64 {
    let own = env::current_exe().expect("a path of our own");
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--collect-atstart=no",
            "--toggle-collect=*measured*",
        ])
        .arg(own)
        .args(["--stage", stage])
        .output()
        .expect("valgrind has to be installed (Debian: valgrind)");
    let (said, printed) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let instructions = said.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse::<u64>().ok());
    match (instructions, printed.trim().parse::<u64>()) {
        (Some(instructions), Ok(packets)) if instructions > 0 => instructions / packets.max(1),
        _ => panic!("valgrind counted nothing: {said}"),
    }
}
