//! The command line: what was typed, and which half it goes to.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::compose::{ComposeOptions, compose};

/// Synthetic pagestream traffic: composed into capture files, or made on real sockets.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 120)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compose sessions into a capture file, without sockets; the same options give the same bytes
    #[command(after_help = COMPOSE_EXAMPLES)]
    Compose(Box<ComposeOptions>),
}

const COMPOSE_EXAMPLES: &str = "\
Examples:
  A gigabyte for a benchmark:
    trafficgen compose --connections 32 --requests 112000 --kinds getpage=1 --depth 32 --out big.pcap
  Loss on the wire, seen from the page service, with the truth beside it:
    trafficgen compose --tenants 3 --connections 6 --loss 0.01 --reorder 0.01 --out lossy.pcap --truth lossy
  Into a decoder without a file:
    trafficgen compose --requests 5000 --format pcapng --out - | pagesniff --read -";

/// Runs the command that was typed.
pub fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trafficgen: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<()> {
    match arguments.command {
        Command::Compose(options) => {
            let composed = compose(*options)?;
            eprintln!("{} packets, {} bytes, {} requests", composed.packets, composed.bytes, composed.requests);
            if let Some(begins_ns) = composed.begins_ns {
                eprintln!("the capture begins at {begins_ns}");
            }
        }
    }
    Ok(())
}
