//! The command line of trafficgen.

use std::process::ExitCode;

fn main() -> ExitCode {
    trafficgen::cli::main()
}
