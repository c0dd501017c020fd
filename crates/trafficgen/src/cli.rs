//! The command line: what was typed, and which half it goes to.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};

use crate::compose::{Auth, ComposeOptions, Composed, compose};
use crate::golden::{GOLDENS, Golden};
use crate::live::{DriveOptions, Driven, ServeOptions, Server, SharedTruth, drive};
use crate::model::Workload;
use crate::truth::{TruthSides, TruthWriter};

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
    /// A page service on a real socket
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArguments),
    /// Computes that drive a page service over real sockets
    #[command(after_help = DRIVE_EXAMPLES)]
    Drive(Box<DriveArguments>),
    /// A page service and the computes that drive it, in one process
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<RunArguments>),
}

#[derive(Debug, Args)]
struct ServeArguments {
    #[command(flatten)]
    options: ServeOptions,
    /// End after this long; otherwise it runs until it is stopped
    #[arg(long)]
    duration: Option<humantime::Duration>,
    /// End when the last connection is closed
    #[arg(long, conflicts_with = "duration")]
    until_idle: bool,
    /// Directory for server_truth.csv; its rows are on disk when their connection is closed
    #[arg(long)]
    truth: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct DriveArguments {
    #[command(flatten)]
    options: DriveOptions,
    /// Directory for truth.csv
    #[arg(long)]
    truth: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RunArguments {
    #[command(flatten)]
    options: DriveOptions,
    /// How clients must prove who they are
    #[arg(long, value_enum, default_value = "trust")]
    auth: Auth,
    /// Directory for truth.csv and server_truth.csv
    #[arg(long)]
    truth: Option<PathBuf>,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  trafficgen serve --listen 127.0.0.1:6400 --latency lognormal:200us:0.6
  trafficgen serve --listen [::]:6400 --error-rate 0.01 --until-idle --truth truth";

const DRIVE_EXAMPLES: &str = "\
Examples:
  trafficgen drive --connect 127.0.0.1:6400 --tenants 3 --connections 6 --depth 32 --requests 10000 --truth truth
  ip netns exec compute trafficgen drive --connect 10.0.0.1:6400 --duration 30s --rate 5000 --pattern zipf";

const RUN_EXAMPLES: &str = "\
Examples:
  Three tenants for ten seconds, to be watched by pagesniff --iface lo:
    trafficgen run --tenants 3 --connections 6 --protocol mixed --duration 10s --rate 3000 --truth truth";

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
        Command::Serve(arguments) => serve(&arguments)?,
        Command::Drive(arguments) => {
            let truth = shared_truth(arguments.truth.as_deref(), TruthSides::Client)?;
            say_driven(drive(&arguments.options, truth.as_ref())?);
        }
        Command::Run(arguments) => run_both(*arguments)?,
    }
    Ok(())
}

fn shared_truth(directory: Option<&Path>, sides: TruthSides) -> Result<Option<SharedTruth>> {
    let Some(directory) = directory else { return Ok(None) };
    let writer = TruthWriter::create(directory, sides)
        .with_context(|| format!("cannot write the truth into {}", directory.display()))?;
    Ok(Some(Arc::new(Mutex::new(writer))))
}

fn start(options: &ServeOptions, truth: Option<SharedTruth>) -> Result<Server> {
    let server = Server::start(options, truth).with_context(|| format!("cannot listen on {}", options.listen))?;
    eprintln!("listening on {}", server.address());
    Ok(server)
}

fn serve(arguments: &ServeArguments) -> Result<()> {
    let truth = shared_truth(arguments.truth.as_deref(), TruthSides::Server)?;
    let server = start(&arguments.options, truth)?;
    match arguments.duration {
        Some(duration) => thread::sleep(*duration),
        None if arguments.until_idle => server.wait_until_idle(),
        None => loop {
            thread::park();
        },
    }
    eprintln!("{} requests answered", server.answered());
    server.stop();
    Ok(())
}

fn run_both(arguments: RunArguments) -> Result<()> {
    let RunArguments { options, auth, truth } = arguments;
    let truth = shared_truth(truth.as_deref(), TruthSides::Both)?;
    let Workload { latency, error_rate, seed, .. } = options.workload;
    let server = start(&ServeOptions { listen: options.connect, latency, error_rate, auth, seed }, truth.clone())?;
    let driven = drive(&DriveOptions { connect: server.address(), ..options }, truth.as_ref());
    server.stop();
    say_driven(driven?);
    Ok(())
}

fn say_driven(driven: Driven) {
    eprintln!("{} requests, {} answered, {} of them with an error", driven.asked, driven.answered, driven.errors);
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
