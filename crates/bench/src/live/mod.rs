//! Watching a wire: the same traffic with nobody listening, with tcpdump, and with pagesniff.

mod daemon;
mod watcher;
mod wire;

use std::fmt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use trafficgen::live::{DriveOptions, ServeOptions, Server, drive};
use trafficgen::model::{Latency, Workload};

use crate::figures::{load_average, median};
use crate::flags::Arguments;
use crate::{build, process};

use daemon::Tracing;
use watcher::{Seen, Watcher};
use wire::Wire;

/// Enough to keep a page service busy, few enough for a thread each.
const CONNECTIONS: u32 = 8;

/// A trace is asked for in the middle of this, when all connections are open; what it takes is measured from its end on.
const WARM_UP: Duration = Duration::from_secs(2);

/// What crosses the wire last still has to be read by who watches it.
const SETTLE: Duration = Duration::from_millis(500);

/// Measures what was asked for, and prints it.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.daemon && arguments.seconds <= WARM_UP.as_secs() as u32 {
        bail!("--seconds: a daemon is measured after {} seconds, give more", WARM_UP.as_secs());
    }
    let pagesniff = build::pagesniff(arguments)?;
    let mut measured = Vec::new();
    let load_before = load_average();
    for &rate in &arguments.rate {
        measured.push(measure(rate, &pagesniff, arguments)?);
        if let (false, Some(one)) = (arguments.json, measured.last()) {
            print!("{one}");
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&measured)?);
    } else {
        let load = |load: Option<f64>| load.map_or("unknown".into(), |load| format!("{load:.1}"));
        println!("\nload average {} before, {} after", load(load_before), load(load_average()));
    }
    Ok(())
}

/// What was measured at one rate.
#[derive(Debug, Serialize)]
struct Measured {
    /// Requests a second that were wanted; 0 for as many as would go.
    rate: u32,
    rounds: u32,
    rows: Vec<Row>,
}

/// What one watcher took; medians over the rounds, and sums of what was dropped.
#[derive(Debug, Serialize)]
struct Row {
    watcher: String,
    /// Requests answered in a second.
    requests_a_second: f64,
    /// Processor time, of one processor.
    cpu_share: f64,
    packets: f64,
    dropped: u64,
    /// `None` where nobody watched, or nothing passed.
    cpu_us_a_packet: Option<f64>,
    /// Processor time, in shares of tcpdump's.
    times_tcpdump: Option<f64>,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wanted = match self.rate {
            0 => "as many requests as will go".into(),
            rate => format!("{rate} requests a second"),
        };
        writeln!(f, "\n{wanted}, medians of {} rounds", self.rounds)?;
        writeln!(
            f,
            "{:<28} {:>11} {:>10} {:>9} {:>9} {:>13} {:>13}",
            "", "requests/s", "packets", "dropped", "cpu %", "cpu us/packet", "times tcpdump"
        )?;
        for row in &self.rows {
            let Row { watcher, requests_a_second, cpu_share, packets, dropped, cpu_us_a_packet, times_tcpdump } = row;
            let (cpu, figure) = (cpu_share * 100.0, |figure: &Option<f64>, digits: usize| {
                figure.map_or("-".into(), |figure| format!("{figure:.digits$}"))
            });
            let (packet_us, times) = (figure(cpu_us_a_packet, 2), figure(times_tcpdump, 3));
            write!(f, "{watcher:<28} {requests_a_second:>11.0}")?;
            match *cpu_share > 0.0 {
                true => writeln!(f, " {packets:>10.0} {dropped:>9} {cpu:>9.2} {packet_us:>13} {times:>13}")?,
                false => writeln!(f)?,
            }
        }
        Ok(())
    }
}

fn measure(rate: u32, pagesniff: &Path, arguments: &Arguments) -> Result<Measured> {
    let mut watchers = vec![Watcher::Nobody];
    if process::is_installed("tcpdump") {
        watchers.push(Watcher::Tcpdump);
    }
    if arguments.daemon {
        watchers.extend(Tracing::ALL.map(|tracing| Watcher::Daemon(PathBuf::from(pagesniff), tracing)));
    } else {
        watchers.push(Watcher::Pagesniff(PathBuf::from(pagesniff)));
    }
    let mut seen: Vec<Vec<(f64, Seen)>> = watchers.iter().map(|_| Vec::new()).collect();
    for round in 1..=arguments.rounds {
        eprint!("\rround {round} of {}", arguments.rounds);
        for (watcher, seen) in watchers.iter().zip(&mut seen) {
            seen.push(watch(watcher, rate, arguments)?);
        }
    }
    eprintln!();
    let seconds = f64::from(arguments.seconds);
    let cpu_seconds = if arguments.daemon { seconds - WARM_UP.as_secs_f64() } else { seconds };
    let rows = watchers.iter().zip(&seen).map(|(watcher, seen)| {
        let cpu_s = |seen: &Seen| seen.cpu.as_secs_f64();
        let packet_us =
            seen.iter().filter(|(_, seen)| seen.packets > 0).map(|(_, seen)| 1e6 * cpu_s(seen) / seen.packets as f64);
        Row {
            watcher: watcher.to_string(),
            requests_a_second: median(seen.iter().map(|(answered, _)| answered / seconds)),
            cpu_share: median(seen.iter().map(|(_, seen)| cpu_s(seen) / cpu_seconds)),
            packets: median(seen.iter().map(|(_, seen)| seen.packets as f64)),
            dropped: seen.iter().map(|(_, seen)| seen.dropped).sum(),
            cpu_us_a_packet: Some(median(packet_us)).filter(|us| us.is_finite() && !arguments.daemon),
            times_tcpdump: None,
        }
    });
    let mut rows: Vec<Row> = rows.collect();
    let tcpdump = watchers.iter().position(|watcher| matches!(watcher, Watcher::Tcpdump));
    if let Some(tcpdump) = tcpdump.and_then(|at| rows.get(at)).map(|row| row.cpu_share).filter(|share| *share > 0.0) {
        let watching = rows.iter_mut().filter(|row| row.cpu_share > 0.0);
        watching.for_each(|row| row.times_tcpdump = Some(row.cpu_share / tcpdump));
    }
    Ok(Measured { rate, rounds: arguments.rounds, rows })
}

/// Lets traffic cross a wire of its own while somebody watches; gives how many requests were answered, and what was seen.
fn watch(watcher: &Watcher, rate: u32, arguments: &Arguments) -> Result<(f64, Seen)> {
    let wire = Wire::new(arguments.no_offload)?;
    let latency = Latency::Fixed { ns: 0 };
    let serving =
        ServeOptions { listen: Wire::SERVER.parse().context("no address")?, latency, ..ServeOptions::default() };
    let server = wire.server.within(|| Server::start(&serving, None))??;
    let workload = Workload {
        connections: if arguments.daemon { daemon::TENANTS } else { CONNECTIONS },
        tenants: if arguments.daemon { daemon::TENANTS } else { 1 },
        depth: 32,
        kinds: "getpage=1".parse().map_err(anyhow::Error::msg)?,
        latency,
        ..Workload::default()
    };
    let options = DriveOptions {
        workload,
        duration: Some(Duration::from_secs(arguments.seconds.into()).into()),
        rate: (rate > 0).then_some(f64::from(rate)),
        ..DriveOptions::at(server.address())
    };
    let tenant = options.workload.owner_of(0).tenant.to_string();
    let watching = watcher.start(&wire.server)?;
    let (driven, warm) = thread::scope(|scope| {
        let warm = scope.spawn(|| {
            thread::sleep(WARM_UP / 2);
            watching.ask(&tenant)?;
            thread::sleep(WARM_UP / 2);
            watching.cpu_until_now()
        });
        let driven = wire.client.within(|| {
            let driven = drive(&options, None);
            // It ends when a connection wakes it, and from here it can be reached.
            server.stop();
            driven
        });
        (driven, warm.join())
    });
    let (driven, warm) = (driven?, warm.map_err(|_| anyhow!("a thread panicked"))??);
    thread::sleep(SETTLE);
    let watched = watching.cpu_until_now()?.since(&warm);
    let mut seen = watching.stop()?;
    if arguments.daemon {
        // A daemon's start and end come once, and so does the beginning of a trace.
        seen.cpu = watched;
    }
    Ok((driven?.answered as f64, seen))
}
