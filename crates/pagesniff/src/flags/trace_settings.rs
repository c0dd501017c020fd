//! What the words about trace files mean.

use std::path::PathBuf;
use std::time::Duration;

use clap::CommandFactory;
use clap::error::ErrorKind;
use trace::{Circumstances, DEFAULT_MAX_BYTES, MAX_INSTANCE_LEN, OnFull, WriterConfig};

use super::raw::RawArgs;
use super::raw_trace::{RawOnFull, RawTrace};
use super::settings::Input;
use crate::capture::live::LiveOptions;

/// Where a live capture leaves its traces if nothing is said.
const LIVE_DIRECTORY: &str = "pagesniff";

/// What all traces of a live capture take at most if nothing is said: 32 tenants at their own limit, and less than what a
/// pageserver's disk is short of.
const LIVE_TOTAL_BYTES: u64 = 1 << 30;

/// The instance name of a replay: the same capture gives the same files.
const REPLAY_INSTANCE: &str = "replay";

/// A shorter wait would make a block of nearly every record.
const LEAST_FLUSH_INTERVAL: Duration = Duration::from_millis(10);

/// A file's name tells its start to the second.
const LEAST_ROTATE_INTERVAL: Duration = Duration::from_secs(1);

/// What a trace's header says of how it was taken.
pub(super) struct Taken {
    /// The filter in words.
    pub(super) filter: String,
    pub(super) sample_one_in: u64,
    /// Hints and assertions in words.
    pub(super) assertion: String,
}

/// Which traces are to be written, if any are.
///
/// # Errors
///
/// Where options contradict each other or could not work.
pub(super) fn writer_config(raw: RawTrace, input: &Input, taken: Taken) -> Result<Option<WriterConfig>, clap::Error> {
    check(&raw, input)?;
    let Some(directory) = directory(&raw, input) else { return Ok(None) };
    let Taken { filter, sample_one_in, assertion } = taken;
    let max_bytes = raw.max_bytes.map(|size| size.as_u64());
    let default_total_bytes = matches!(input, Input::Live(_)).then_some(LIVE_TOTAL_BYTES);
    let (instance, link, clock, default_max_bytes) = match input {
        Input::Live(live) => {
            (instance_of(&live.iface), link_of(live), clock_of(live).to_owned(), Some(DEFAULT_MAX_BYTES))
        }
        Input::Files(_) => (REPLAY_INSTANCE.to_owned(), "capture files".to_owned(), "as captured".to_owned(), None),
    };
    let circumstances = Circumstances {
        program: concat!("pagesniff ", env!("CARGO_PKG_VERSION")).to_owned(),
        link,
        clock,
        filter,
        sample_one_in: u32::try_from(sample_one_in).unwrap_or(u32::MAX),
        max_bytes: max_bytes.or(default_max_bytes),
        max_total_bytes: raw.max_total_bytes.map(|size| size.as_u64()).or(default_total_bytes),
        assertion,
    };
    let config = WriterConfig {
        circumstances,
        on_full: match raw.on_full {
            RawOnFull::Rotate => OnFull::Rotate,
            RawOnFull::Stop => OnFull::Stop,
        },
        flush_interval_ns: Some(nanoseconds(raw.flush_interval)),
        rotate_interval_ns: Some(nanoseconds(raw.rotate_interval)),
        ..WriterConfig::new(directory, raw.instance.unwrap_or(instance))
    };
    config.check().map_err(|error| wrong(&error.to_string()))?;
    Ok(Some(config))
}

/// Refuses what makes no sense together.
fn check(raw: &RawTrace, input: &Input) -> Result<(), clap::Error> {
    let limits = [
        ("--max-bytes", raw.max_bytes.is_some()),
        ("--max-total-bytes", raw.max_total_bytes.is_some()),
        ("--instance", raw.instance.is_some()),
        ("--on-full", raw.on_full != RawOnFull::default()),
    ];
    let without_traces = raw.no_trace || (raw.out.is_none() && matches!(input, Input::Files(_)));
    if let Some((option, _)) = limits.iter().find(|(_, is_given)| without_traces && *is_given) {
        return Err(wrong(&format!("{option} is for trace files, and none are written: add --out DIR")));
    }
    if raw.flush_interval < LEAST_FLUSH_INTERVAL {
        return Err(wrong("--flush-interval: give at least 10ms"));
    }
    if raw.rotate_interval < LEAST_ROTATE_INTERVAL {
        return Err(wrong("--rotate-interval: give at least 1s"));
    }
    Ok(())
}

/// Where traces go.
fn directory(raw: &RawTrace, input: &Input) -> Option<PathBuf> {
    match (&raw.out, input) {
        _ if raw.no_trace => None,
        (Some(directory), _) => Some(directory.clone()),
        (None, Input::Live(_)) => Some(LIVE_DIRECTORY.into()),
        (None, Input::Files(_)) => None,
    }
}

/// `node-7-eth0`: traces of several nodes may be brought together in one directory.
fn instance_of(iface: &str) -> String {
    let name = format!("{}-{iface}", host_name());
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-');
    let name: String = name.chars().map(|letter| if is_allowed(letter) { letter } else { '_' }).collect();
    // Where it is too long, the interface's end of it tells more. Only ASCII is left: any place is a boundary.
    let start = name.len().saturating_sub(MAX_INSTANCE_LEN);
    name.get(start..).unwrap_or_default().trim_start_matches(['.', '-']).to_owned()
}

#[cfg(feature = "live")]
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(not(feature = "live"))]
fn host_name() -> String {
    "host".to_owned()
}

/// `interface eth0, snap length 262144`
fn link_of(live: &LiveOptions) -> String {
    let netns = live.netns.as_ref().map_or(String::new(), |netns| format!(" in the network namespace {netns}"));
    format!("interface {}{netns}, snap length {}", live.iface, live.snaplen_bytes)
}

/// Whose clock stamps the packets.
fn clock_of(live: &LiveOptions) -> &'static str {
    match live.stamped_by {
        crate::capture::live::StampedBy::Host => "host",
        crate::capture::live::StampedBy::Adapter => "adapter, where it has one, else host",
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn wrong(message: &str) -> clap::Error {
    RawArgs::command().error(ErrorKind::ValueValidation, message)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::flags::{RawArgs, Settings};

    fn settings(words: &[&str]) -> Result<Settings, String> {
        let run = RawArgs::try_parse_from([&["pagesniff"], words].concat()).map_err(|error| error.to_string())?.run;
        Settings::from_raw(run).map_err(|error| error.to_string())
    }

    #[test]
    fn a_replay_writes_traces_only_when_asked_to() {
        assert!(settings(&["--read", "f"]).unwrap().trace.is_none());
        let config =
            settings(&["--read", "f", "--out", "t", "--kind", "slru", "--sample", "1/8"]).unwrap().trace.unwrap();
        assert_eq!((config.instance.as_str(), config.circumstances.max_bytes), ("replay", None));
        assert_eq!(config.circumstances.filter, "--kind slru --sample 1/8");
        assert_eq!(config.circumstances.sample_one_in, 8);
    }

    #[test]
    fn a_live_capture_writes_bounded_traces_unless_told_not_to() {
        let config = settings(&["--iface", "eth0"]).unwrap().trace.unwrap();
        assert_eq!(config.directory.to_str(), Some("pagesniff"));
        assert_eq!(config.circumstances.max_bytes, Some(32 << 20));
        assert_eq!(config.circumstances.max_total_bytes, Some(1 << 30));
        assert!(config.instance.ends_with("-eth0"), "{}", config.instance);
        assert!(settings(&["--iface", "eth0", "--no-trace"]).unwrap().trace.is_none());
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (words, expected) in [
            (&["--read", "f", "--max-bytes", "1MiB"][..], "--max-bytes is for trace files, and none are written"),
            (&["--iface", "lo", "--no-trace", "--on-full", "stop"], "--on-full is for trace files"),
            (&["--iface", "lo", "--max-bytes", "1KiB"], "too small for a trace; give at least 131072"),
            (&["--iface", "lo", "--instance", "a/b"], "use 1 to 64 letters"),
            (&["--iface", "lo", "--flush-interval", "1ns"], "at least 10ms"),
            (&["--iface", "lo", "--rotate-interval", "10ms"], "at least 1s"),
            (&["--iface", "lo", "--max-bytes", "many"], "a size is given as"),
        ] {
            let error = settings(words).unwrap_err();
            assert!(error.contains(expected), "{words:?}: {error}");
        }
    }

    #[test]
    fn an_interface_of_any_name_has_an_instance_name() {
        for iface in ["eth0:1", "a/b", "ä", &"x".repeat(80), "any"] {
            assert!(settings(&["--iface", iface]).is_ok(), "{iface}");
        }
    }
}
