//! Measures pagesniff against tcpdump and against the floor of the machine: `cargo run --release -p pagesniff-bench`.
//!
//! Everything that is compared runs in turn, round by round, on the same file in the same cache, and each program is a
//! process of its own: its time, its processor time and its peak memory are what the kernel says of it. Only ratios
//! within one run mean anything.

#![forbid(unsafe_code)]

mod build;
mod captures;
mod figures;
mod flags;
mod floor;
mod goals;
mod live;
mod process;
mod programs;
mod replay;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use flags::{Arguments, Step};

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pagesniff-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.step {
        Some(Step::Floor { file }) => floor::print(file),
        Some(Step::Compose(options)) => trafficgen::compose::compose((**options).clone()).map(drop),
        None if arguments.live => live::run(arguments),
        None => replay::run(arguments),
    }
}
