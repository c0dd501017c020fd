//! The command line: what was typed, and which half it goes to.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::compose::{ComposeOptions, Composed, compose};
use crate::golden::{GOLDENS, Golden};

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
    /// Compose the small captures that the tests read, each named after what is wrong in it
    #[command(after_help = GOLDEN_EXAMPLES)]
    Golden(GoldenArguments),
}

#[derive(Debug, Args)]
struct GoldenArguments {
    /// Which one
    #[arg(required_unless_present_any = ["list", "all"])]
    name: Option<String>,
    /// The capture file, or - for standard output
    #[arg(long, required_unless_present_any = ["list", "all"])]
    out: Option<PathBuf>,
    /// Also write truth.csv and server_truth.csv into this directory
    #[arg(long)]
    truth: Option<PathBuf>,
    /// Say what there is: the table of pcaps/README.md
    #[arg(long, conflicts_with_all = ["name", "all"])]
    list: bool,
    /// Write all of them into a directory
    #[arg(long, value_name = "DIR", conflicts_with = "name")]
    all: Option<PathBuf>,
}

const GOLDEN_EXAMPLES: &str = "\
Examples:
  trafficgen golden --list
  trafficgen golden sequence_wrap --out wrap.pcap --truth wrap
  trafficgen golden --all pcaps";

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
        Command::Compose(options) => say(compose(*options)?),
        Command::Golden(arguments) => golden(arguments)?,
    }
    Ok(())
}

fn say(composed: Composed) {
    eprintln!("{} packets, {} bytes, {} requests", composed.packets, composed.bytes, composed.requests);
    if let Some(begins_ns) = composed.begins_ns {
        eprintln!("the capture begins at {begins_ns}");
    }
}

fn golden(arguments: GoldenArguments) -> Result<()> {
    if let Some(directory) = arguments.all {
        for golden in GOLDENS {
            compose(golden.parse(directory.join(golden.file_name()?))?)?;
        }
        return Ok(());
    }
    let (Some(name), Some(out)) = (arguments.name, arguments.out) else {
        for golden in GOLDENS {
            println!("{}", golden.table_row()?);
        }
        return Ok(());
    };
    let Some(golden) = Golden::named(&name) else {
        bail!("there is no golden capture '{name}': trafficgen golden --list says what there is");
    };
    let mut options = golden.parse(out)?;
    options.output.truth = arguments.truth;
    say(compose(options)?);
    Ok(())
}
