//! `pagesniff doctor`: what can be seen here, what is in the way, and what to do about it.
//!
//! ```text
//! machine (privileges, kernel, libpcap) ──────────────────────┐
//! adapter (its rings, offloads, clock) ───────────────────────┼→ checks → text or JSON, exit status
//! packets → survey → a decoder for each port → ports, capture ┘
//! ```

#[cfg(all(feature = "live", target_os = "linux"))]
mod adapter;
mod capture;
mod check;
#[cfg(all(feature = "live", target_os = "linux"))]
mod ethtool;
mod flags;
#[cfg(all(feature = "live", target_os = "linux"))]
mod machine;
mod ports;
mod survey;

use std::io::{self, Write};

pub use check::{Check, Level};
pub use flags::RawDoctor;
use survey::Survey;

use crate::capture::{After, CaptureError, Files, Source};
use crate::run::{Ended, output_outcome};

/// Examines the machine, an interface or captures, and says what was found.
///
/// # Errors
///
/// A capture file cannot be read, or standard output cannot be written. What keeps a live capture from running is a finding.
pub fn doctor(raw: &RawDoctor) -> anyhow::Result<Ended> {
    let mut checks = Vec::new();
    let mut survey = Survey::new(&raw.port);
    if raw.read.is_empty() {
        live(raw, &mut survey, &mut checks)?;
    } else {
        let mut source = Files::open(&raw.read)?;
        watch(&mut source, &mut survey)?;
        capture::checks(&source, &survey, &mut checks);
    }
    if raw.iface.is_some() || !raw.read.is_empty() {
        ports::checks(&survey, &mut checks);
    }
    let said = if raw.json { check::json(&checks, &survey) } else { check::text(&checks) };
    match output_outcome(io::stdout().lock().write_all(said.as_bytes()))? {
        Ended::Done if checks.iter().any(|check| check.level == Level::Problem) => Ok(Ended::Hindered),
        ended => Ok(ended),
    }
}

/// The machine, and the interface where one is named.
#[cfg(all(feature = "live", target_os = "linux"))]
fn live(raw: &RawDoctor, survey: &mut Survey, checks: &mut Vec<Check>) -> anyhow::Result<()> {
    use crate::capture::live::Live;

    machine::checks(checks);
    let Some(options) = raw.live_options(survey.asked_ports()) else { return Ok(()) };
    adapter::checks(&options, checks);
    match Live::open(options) {
        Err(error) => checks.push(Check::problem("interface", error.to_string(), "")),
        Ok(mut source) => {
            watch(&mut source, survey)?;
            capture::checks(&source, survey, checks);
        }
    }
    Ok(())
}

#[cfg(not(all(feature = "live", target_os = "linux")))]
fn live(_: &RawDoctor, _: &mut Survey, checks: &mut Vec<Check>) -> anyhow::Result<()> {
    checks.push(Check::problem(
        "live",
        "this pagesniff cannot capture from interfaces".to_owned(),
        "capture with tcpdump, and read that with --read",
    ));
    Ok(())
}

/// Shows all packets to the survey.
fn watch(source: &mut impl Source, survey: &mut Survey) -> Result<(), CaptureError> {
    loop {
        match source.burst(|packet| survey.packet(packet))? {
            After::Packets => {}
            After::Idle { now } => survey.idle(now),
            After::End => break,
        }
    }
    let counted = source.statistics();
    survey.dropped = counted.kernel_dropped.saturating_add(counted.interface_dropped);
    survey.finish();
    Ok(())
}
