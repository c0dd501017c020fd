//! pagesniff: watches a Neon pageserver's libpq port from outside and says which pages were asked for.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "these macros panic where nobody reads any more")]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use pagesniff::doctor::doctor;
use pagesniff::export::export;
use pagesniff::flags::{RawArgs, RawCommand, Settings, generate};
use pagesniff::plan::plan;
use pagesniff::report::{compare, report};
use pagesniff::run::run;

fn main() -> ExitCode {
    let raw = RawArgs::parse();
    let ended = match raw.command {
        Some(RawCommand::Generate { what }) => generate(&what),
        Some(RawCommand::Export(what)) => what.checked().map_or_else(|wrong| wrong.exit(), |what| export(&what)),
        Some(RawCommand::Report(what)) => report(&what),
        Some(RawCommand::Compare(what)) => compare(&what),
        Some(RawCommand::Plan(what)) => plan(&what),
        Some(RawCommand::Doctor(what)) => doctor(&what),
        #[cfg(all(feature = "top", target_os = "linux"))]
        Some(RawCommand::Top(what)) => pagesniff::top::top(*what),
        #[cfg(all(feature = "live", target_os = "linux"))]
        Some(RawCommand::Serve(what)) => pagesniff::daemon::serve(&what),
        #[cfg(all(feature = "live", target_os = "linux"))]
        Some(RawCommand::Status(what)) => pagesniff::daemon::status(&what),
        #[cfg(all(feature = "live", target_os = "linux"))]
        Some(RawCommand::Trace(what)) => pagesniff::daemon::take_trace(&what),
        #[cfg(all(feature = "live", target_os = "linux"))]
        Some(RawCommand::Snapshot(what)) => pagesniff::daemon::take_snapshot(&what),
        #[cfg(all(feature = "client", target_os = "linux"))]
        Some(RawCommand::Fetch(what)) => pagesniff::client::fetch(&what),
        None => Settings::from_raw(raw.run).map_or_else(|wrong_usage| wrong_usage.exit(), run),
    };
    match ended {
        Ok(ended) => ExitCode::from(ended.status()),
        Err(error) => {
            // Nobody may be reading: the exit status tells it too.
            let _ = writeln!(std::io::stderr().lock(), "error: {error}");
            ExitCode::from(1)
        }
    }
}
