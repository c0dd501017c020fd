//! The daemon's configuration file.

use std::fs;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use trace::{Circumstances, DEFAULT_MAX_BYTES, OnFull, WriterConfig};

use super::checkpoint;
use super::triggers::{self, Rule};
#[cfg(feature = "upload")]
use super::upload::UploadConfig;
#[cfg(feature = "api")]
use crate::api::{ApiConfig, AuthenticationConfig};
use crate::capture::live::{DEFAULT_BUFFER, DEFAULT_SNAPLEN_BYTES, LEAST_BUFFER, LiveOptions, MOST_BUFFER, StampedBy};
use crate::filter::Filter;
use crate::flags::{RawFilter, SampleRate};

/// Below, the decoder forgets connections on any busy node.
const LEAST_MEMORY: ByteSize = ByteSize::mib(4);

/// A file an hour: what an incident is about is in few of them, and old ones go in small steps.
const ROTATE_INTERVAL_NS: u64 = 3_600_000_000_000;

/// Longer file contents are no configuration.
const MOST_CONFIG_BYTES: u64 = 1 << 20;

/// Sections that this build does not have.
const LEFT_OUT: &[&str] = match (cfg!(feature = "api"), cfg!(feature = "upload")) {
    (true, true) => &[],
    (true, false) => &["upload"],
    (false, true) => &["api", "authentication"],
    (false, false) => &["api", "authentication", "upload"],
};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Part of the trace files' names; tells the traces of several nodes apart.
    pub instance: String,
    /// What is captured on, each by a thread: interfaces' names, or `any` alone.
    pub interfaces: Vec<String>,
    /// The pageserver's libpq ports.
    #[serde(default = "default_ports")]
    pub ports: Vec<u16>,
    /// Where traces are kept.
    pub data_directory: PathBuf,
    /// The most that the decoder holds.
    #[serde(default = "default_memory", deserialize_with = "size")]
    pub memory: ByteSize,
    /// The kernel's buffer of one interface.
    #[serde(default = "default_buffer", deserialize_with = "size")]
    pub buffer_size: ByteSize,
    /// The most CPU time of the whole process, as a share of one core such as `5%`, or `none`; beyond, fewer keys are kept.
    #[serde(default = "no_budget")]
    pub cpu_budget: String,
    /// The most memory of the whole process; beyond, no further trace begins.
    #[serde(default = "default_memory_cap", deserialize_with = "size")]
    pub memory_cap: ByteSize,
    /// What traces may take.
    #[serde(default)]
    pub limits: TraceLimits,
    /// The flight recorder.
    #[serde(default)]
    pub recorder: RecorderConfig,
    /// The control socket.
    #[serde(default)]
    pub control: ControlConfig,
    /// The HTTP API; there is none without this section.
    #[cfg(feature = "api")]
    pub api: Option<ApiConfig>,
    /// Who may use it.
    #[cfg(feature = "api")]
    #[serde(default)]
    pub authentication: AuthenticationConfig,
    /// Rules that captures and snapshots are taken by.
    #[serde(default)]
    pub triggers: Vec<Rule>,
    /// Where what they take goes to; it stays here without this section.
    #[cfg(feature = "upload")]
    pub upload: Option<UploadConfig>,
}

/// The flight recorder: what is kept of every tenant, always.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecorderConfig {
    /// Whether it is on.
    pub enabled: bool,
    /// One key in how many is kept, such as `1/8`.
    pub sample: String,
}

impl Default for RecorderConfig {
    fn default() -> Self {
        Self { enabled: true, sample: "1/1".to_owned() }
    }
}

/// Where the daemon is asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControlConfig {
    /// The Unix socket.
    pub socket: PathBuf,
    /// Its permission bits, in octal: who may write to it may ask.
    pub mode: String,
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self { socket: DEFAULT_SOCKET.into(), mode: "0660".to_owned() }
    }
}

/// Where the control socket is if nothing is said, and where it is looked for.
pub(super) const DEFAULT_SOCKET: &str = "/run/pagesniff/control.sock";

/// So many interfaces are captured on: each takes a thread and its buffer.
const MOST_INTERFACES: usize = 16;

/// A `cpu_budget` that is none.
const NO_BUDGET: &str = "none";

/// A hundred cores; more is a slip of the pen.
const MOST_BUDGET_PERCENT: f64 = 10_000.0;

/// Twice what the parts take at their bounds: the decoders 64 MiB, queues and batches of the flight recorder and of eight traces
/// 100 MiB, names and ledgers of 8192 tenants 20 MiB, threads and code.
const DEFAULT_MEMORY_CAP: ByteSize = ByteSize::mib(512);

/// What is kept in the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// The flight recorder's traces.
    Ring,
    /// The traces that were asked for.
    Traces,
    /// What was kept of the flight recorder.
    Snapshots,
}

/// What traces may take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TraceLimits {
    /// The most bytes of one tenant's traces; beyond, its oldest file goes.
    #[serde(deserialize_with = "size")]
    pub tenant_bytes: ByteSize,
    /// The most bytes of all traces of this instance; beyond, the oldest file goes.
    #[serde(deserialize_with = "size")]
    pub total_bytes: ByteSize,
    /// The most bytes of all traces that were asked for, and of all snapshots; beyond, the oldest goes.
    #[serde(deserialize_with = "size")]
    pub traces_bytes: ByteSize,
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self {
            tenant_bytes: ByteSize(DEFAULT_MAX_BYTES),
            total_bytes: ByteSize::gib(1),
            traces_bytes: ByteSize::gib(1),
        }
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// One line: the file, where it can be told the line and the key, what is wrong and what to do.
    pub fn read(path: &Path) -> Result<Self, String> {
        let at = path.display();
        let length = fs::metadata(path).map_err(|error| format!("{at}: {error}"))?.len();
        if length > MOST_CONFIG_BYTES {
            return Err(format!("{at}: this is no configuration: it is longer than {MOST_CONFIG_BYTES} bytes"));
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{at}: {error}"))?;
        Self::parse(&text).map_err(|error| format!("{at}{error}"))
    }

    /// The same from text; errors begin with `:LINE: ` or `: `.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| in_one_line(&error, text))?;
        config.check().map_err(|error| format!(": {error}"))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        self.check_interfaces()?;
        if self.ports.is_empty() || self.ports.contains(&0) {
            return Err("ports: name the pageserver's libpq ports, such as [6400]".to_owned());
        }
        if self.memory < LEAST_MEMORY {
            return Err(format!("memory: give at least {LEAST_MEMORY}"));
        }
        if self.memory_cap < self.memory {
            return Err("memory_cap: give at least as much as memory".to_owned());
        }
        if self.cpu_budget != NO_BUDGET && self.cpu_budget().is_none() {
            return Err(format!("cpu_budget: give a share of one core such as \"5%\", or \"{NO_BUDGET}\""));
        }
        if self.buffer_size < LEAST_BUFFER || self.buffer_size > MOST_BUFFER {
            return Err(format!("buffer_size: give {LEAST_BUFFER} to {MOST_BUFFER}"));
        }
        if self.limits.total_bytes < self.limits.tenant_bytes {
            return Err("limits.total_bytes: give at least as much as limits.tenant_bytes".to_owned());
        }
        if self.limits.traces_bytes < self.limits.tenant_bytes {
            return Err("limits.traces_bytes: give at least as much as limits.tenant_bytes".to_owned());
        }
        #[cfg(feature = "api")]
        self.api.as_ref().map_or(Ok(()), |api| api.check(&self.authentication))?;
        triggers::check(&self.triggers, self.recorder.enabled)?;
        #[cfg(feature = "upload")]
        self.upload.as_ref().map_or(Ok(()), UploadConfig::check)?;
        self.sample().map_err(|error| format!("recorder.sample: {error}"))?;
        self.mode().ok_or("control.mode: give permission bits in octal, such as \"0660\"")?;
        self.ring().check().map_err(|error| format!("instance or limits: {error}"))
    }

    fn check_interfaces(&self) -> Result<(), String> {
        let Self { interfaces, .. } = self;
        if interfaces.is_empty() || interfaces.len() > MOST_INTERFACES || interfaces.iter().any(String::is_empty) {
            return Err(format!("interfaces: name 1 to {MOST_INTERFACES}, such as [\"eth0\"]"));
        }
        let is_twice = |name: &String| interfaces.iter().filter(|other| *other == name).count() > 1;
        if interfaces.iter().any(is_twice) || (interfaces.len() > 1 && interfaces.iter().any(|name| name == "any")) {
            return Err("interfaces: one is there twice ('any' is all of them): each request would be, too".to_owned());
        }
        Ok(())
    }

    /// The most CPU time, as a share of one core; `None` is any.
    pub(super) fn cpu_budget(&self) -> Option<f64> {
        let percent = self.cpu_budget.strip_suffix('%')?.trim_end().parse::<f64>().ok()?;
        (percent > 0.0 && percent <= MOST_BUDGET_PERCENT).then_some(percent / 100.0)
    }

    /// The flight recorder's sample.
    fn sample(&self) -> Result<SampleRate, impl std::fmt::Display> {
        self.recorder.sample.parse::<SampleRate>()
    }

    /// The control socket's permission bits.
    pub(super) fn mode(&self) -> Option<u32> {
        u32::from_str_radix(&self.control.mode, 8).ok().filter(|&mode| mode <= 0o777)
    }

    /// Where something is kept.
    pub(super) fn directory_of(&self, what: Kept) -> PathBuf {
        self.data_directory.join(match what {
            Kept::Ring => "ring",
            Kept::Traces => "traces",
            Kept::Snapshots => "snapshots",
        })
    }

    /// One key in how many the flight recorder keeps.
    pub(super) fn ring_one_in(&self) -> u64 {
        self.sample().map_or(1, |rate| rate.one_in)
    }

    /// Where the table of connections is.
    pub(super) fn table(&self) -> PathBuf {
        self.data_directory.join(checkpoint::NAME)
    }

    /// Where the HTTP API writes who asked for what.
    #[cfg(feature = "api")]
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.data_directory.join("audit.jsonl")
    }

    /// Whether what triggers take goes elsewhere.
    pub(super) fn uploads(&self) -> bool {
        #[cfg(feature = "upload")]
        return self.upload.is_some();
        #[cfg(not(feature = "upload"))]
        false
    }

    /// What the flight recorder keeps, as a filter.
    pub(super) fn ring_filter(&self) -> Filter {
        Filter::from_raw(&self.raw_ring_filter(), false)
    }

    fn raw_ring_filter(&self) -> RawFilter {
        RawFilter { sample: self.sample().ok().filter(|rate| rate.one_in > 1), ..RawFilter::default() }
    }

    /// How a trace that was asked for is written: its filter in words and its sample, and the most bytes of it.
    pub(super) fn asked_trace(&self, directory: &Path, taken: (String, u64), max_bytes: u64) -> WriterConfig {
        let ring = self.ring();
        let circumstances = Circumstances {
            filter: taken.0,
            sample_one_in: u32::try_from(taken.1).unwrap_or(u32::MAX),
            max_bytes: None,
            max_total_bytes: Some(max_bytes),
            ..ring.circumstances
        };
        WriterConfig { directory: directory.to_owned(), circumstances, on_full: OnFull::Stop, ..ring }
    }

    /// Where and how the flight recorder writes.
    pub(super) fn ring(&self) -> WriterConfig {
        let interfaces = self.interfaces.join(", ");
        let link = format!("interface {interfaces}, snap length {DEFAULT_SNAPLEN_BYTES}");
        let filter = self.raw_ring_filter();
        let circumstances = Circumstances {
            program: concat!("pagesniff ", env!("CARGO_PKG_VERSION")).to_owned(),
            link,
            clock: "host".to_owned(),
            filter: filter.in_words(),
            sample_one_in: filter.sample.map_or(1, |rate| u32::try_from(rate.one_in).unwrap_or(u32::MAX)),
            max_bytes: Some(self.limits.tenant_bytes.as_u64()),
            max_total_bytes: Some(self.limits.total_bytes.as_u64()),
            ..Circumstances::default()
        };
        WriterConfig {
            circumstances,
            on_full: OnFull::Rotate,
            rotate_interval_ns: Some(ROTATE_INTERVAL_NS),
            ..WriterConfig::new(self.directory_of(Kept::Ring), &self.instance)
        }
    }

    /// How an interface is captured on.
    pub(super) fn live(&self, interface: &str) -> LiveOptions {
        LiveOptions {
            iface: interface.to_owned(),
            netns: None,
            ports: self.ports.clone(),
            bpf: None,
            tunnels: false,
            snaplen_bytes: DEFAULT_SNAPLEN_BYTES,
            buffer: self.buffer_size,
            stamped_by: StampedBy::Host,
            duration: None,
            count: None,
        }
    }

    /// How its packets are decoded. The memory is for all interfaces together.
    pub(super) fn decode(&self) -> decode::Config {
        let bytes = usize::try_from(self.memory.as_u64()).unwrap_or(usize::MAX);
        decode::Config {
            ports: self.ports.clone(),
            page_hash: false,
            memory_limit_bytes: bytes.checked_div(self.interfaces.len()).unwrap_or(bytes),
        }
    }

    /// What the daemon would do, in words.
    pub(super) fn in_words(&self) -> String {
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let TraceLimits { tenant_bytes, total_bytes, traces_bytes } = &self.limits;
        let recorder = match (self.recorder.enabled, self.recorder.sample.as_str()) {
            (false, _) => "keeps nothing until it is asked to".to_owned(),
            (true, sample) => {
                let share = if sample == "1/1" { String::new() } else { format!(" of {sample} of the keys") };
                let ring = self.directory_of(Kept::Ring);
                format!(
                    "keeps the latest requests{share} of every tenant in {}: up to {tenant_bytes} each, {total_bytes} in all",
                    ring.display()
                )
            }
        };
        format!(
            "captures port {ports} on {}, as instance {}\n{recorder}\ntakes orders at {} (mode {}): traces and snapshots up \
             to {traces_bytes}\n",
            self.interfaces.join(", "),
            self.instance,
            self.control.socket.display(),
            self.control.mode,
        )
    }
}

/// `:12: memory: unknown field …`
fn in_one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let is_one_of = |names: &[&str]| names.iter().any(|name| message.contains(&format!("unknown field `{name}`")));
    let hint = if is_one_of(LEFT_OUT) { "; this build of pagesniff was made without it: take it out" } else { "" };
    let before = error.span().and_then(|span| text.get(..span.start));
    let Some(before) = before else { return format!(": {message}{hint}") };
    let line = before.matches('\n').count();
    let key = text.lines().nth(line).and_then(|line| line.split_once('=')).map_or("", |(key, _)| key.trim());
    let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
    format!(":{}: {key}{message}{hint}", line.saturating_add(1))
}

fn no_budget() -> String {
    NO_BUDGET.to_owned()
}

fn default_memory_cap() -> ByteSize {
    DEFAULT_MEMORY_CAP
}

fn default_ports() -> Vec<u16> {
    vec![decode::DEFAULT_PORT]
}

fn default_memory() -> ByteSize {
    ByteSize(u64::try_from(decode::Config::default().memory_limit_bytes).unwrap_or(u64::MAX))
}

/// The same text as the command line's default.
fn default_buffer() -> ByteSize {
    DEFAULT_BUFFER.parse().unwrap_or(ByteSize::mib(32))
}

/// A size with its unit.
pub(crate) fn size<'de, D: Deserializer<'de>>(from: D) -> Result<ByteSize, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| D::Error::custom("a size is given as \"32MiB\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIGGER: &str = "[[triggers]]\nname = \"a\"\nfigure = \"redundant_ratio\"\naction = \"snapshot\"\n";

    const LEAST: &str = "instance = \"n\"\ninterfaces = [\"lo\"]\ndata_directory = \"/d\"\n";

    #[test]
    fn the_example_is_valid_names_every_key_and_shows_the_defaults() {
        let text = include_str!("../../../../deploy/pagesniff.toml");
        let example = Config::parse(text).unwrap();
        let least = Config::parse(LEAST).unwrap();
        let Config { limits, recorder, control, ports, memory, buffer_size, .. } = least;
        assert_eq!((&example.cpu_budget, example.memory_cap), (&least.cpu_budget, least.memory_cap));
        assert_eq!((example.limits, example.recorder, example.control), (limits, recorder, control));
        assert_eq!((example.ports, example.memory, example.buffer_size), (ports, memory, buffer_size));
        // The key list of serde's own error message: every key there is stands in the example.
        for (before, broken) in [
            ("", "no_such = 1\n"),
            (LEAST, "[limits]\nno_such = 1\n"),
            (LEAST, "[recorder]\nno_such = 1\n"),
            (LEAST, "[control]\nno_such = 1\n"),
        ] {
            let error = Config::parse(&format!("{before}{broken}")).unwrap_err();
            let (_, keys) = error.split_once("expected ").expect("a list of keys");
            for key in keys.split('`').skip(1).step_by(2) {
                let (begin, sections) = (format!("{key} = "), [format!("[{key}]"), format!("[[{key}]]")]);
                let is_it = |line: &str| {
                    let section = line.trim_start_matches('#');
                    line.starts_with(&begin) || sections.iter().any(|name| name == section)
                };
                assert!(text.lines().any(is_it), "{key}");
            }
        }
    }

    /// What opens a port or goes elsewhere is shown as a comment.
    #[cfg(all(feature = "api", feature = "upload"))]
    #[test]
    fn the_example_of_the_rest_is_valid_names_every_key_and_shows_the_defaults() {
        let text = include_str!("../../../../deploy/pagesniff.toml");
        let (_, behind) = text.split_once("#[api]\n").unwrap();
        let shown: String = format!("#[api]\n{behind}")
            .lines()
            .map(|line| line.trim_start_matches('#'))
            .fold(String::new(), |text, line| if line.starts_with(' ') { text } else { text + line + "\n" });
        let config = Config::parse(&format!("{LEAST}{shown}")).unwrap();
        assert_eq!(config.api.as_ref().unwrap().limits, crate::api::ApiLimits::default());
        let least = "[[triggers]]\nname = \"slow\"\nfigure = \"p99_latency_ms\"\nabove = 50.0\naction = \"capture\"\n";
        let least = Config::parse(&format!("{LEAST}{least}")).unwrap().triggers.remove(0);
        let [ref shown_rule] = config.triggers[..] else { panic!("{:?}", config.triggers) };
        assert_eq!(Rule { tenants: Vec::new(), ..shown_rule.clone() }, least);
        for section in ["[api]", "[api.limits]", "[authentication]", "[[triggers]]", "[upload]"] {
            let listen = if section == "[api]" { "" } else { "[api]\nlisten = \"127.0.0.1:1\"\n" };
            let error = Config::parse(&format!("{LEAST}{listen}{section}\nno_such = 1\n")).unwrap_err();
            let (_, keys) = error.split_once("expected ").expect("a list of keys");
            for key in keys.split('`').skip(1).step_by(2).filter(|&key| key != "limits") {
                assert!(shown.lines().any(|line| line.starts_with(&format!("{key} = "))), "{key}");
            }
        }
    }

    #[test]
    fn a_capture_looks_for_the_table_where_the_example_has_it() {
        let example = Config::parse(include_str!("../../../../deploy/pagesniff.toml")).unwrap();
        assert_eq!(example.table(), Path::new(crate::flags::DEFAULT_DAEMON_STATE));
    }

    #[test]
    fn the_configuration_in_the_kubernetes_manifest_is_valid() {
        let manifest = include_str!("../../../../deploy/kubernetes/daemonset.yaml");
        let (_, behind) = manifest.split_once("pagesniff.toml: |\n").unwrap();
        let lines = behind.lines().map_while(|line| line.strip_prefix("    "));
        let config = Config::parse(&lines.collect::<Vec<_>>().join("\n")).unwrap();
        assert!(config.control.socket.starts_with(&config.data_directory), "the rest of a container is read-only");
    }

    #[test]
    fn errors_name_line_and_key() {
        for (added, expected) in [
            ("memory = 5", ":4: memory: invalid type: integer `5`"),
            ("memory = \"much\"", ":4: memory: a size is given as"),
            ("memory = \"1KiB\"", ": memory: give at least"),
            ("cpu_budget = \"5\"", ": cpu_budget: give a share of one core such as \"5%\""),
            ("cpu_budget = \"0%\"", ": cpu_budget: give a share"),
            ("cpu_budget = \"NaN%\"", ": cpu_budget: give a share"),
            ("memory_cap = \"16MiB\"", ": memory_cap: give at least as much as memory"),
            ("ports = []", ": ports: name the pageserver's"),
            ("buffer_size = \"2GiB\"", ": buffer_size: give "),
            ("colour = 1", ":4: colour: unknown field `colour`"),
            ("[[triggers]]\nname = \"a\"\np99 = 1", "unknown field `p99`"),
            (&format!("{TRIGGER}above = 1.0"), ": triggers: a: above: give 0 to less than 1"),
            (&format!("{TRIGGER}above = 0.5\n{TRIGGER}above = 0.5"), ": triggers: name: a is there twice"),
            (&format!("{TRIGGER}above = 0.5\ntenants = [\"x\"]"), ": triggers: a: tenants: x is no tenant id"),
            (&format!("{TRIGGER}above = 0.5\nduration_secs = 0"), ": triggers: a: duration_secs: give 1 to 3600"),
            (
                &format!("recorder.enabled = false\n{TRIGGER}above = 0.5"),
                "a: action: a snapshot takes recorder.enabled",
            ),
            ("[limits]\ntotal_bytes = \"1MiB\"", ": limits.total_bytes: give at least"),
            ("[limits]\ntenant_bytes = \"1KiB\"", "too small for a trace"),
            ("[limits]\ntraces_bytes = \"1MiB\"", ": limits.traces_bytes: give at least"),
            ("[recorder]\nsample = \"2/3\"", ": recorder.sample: a sample is given as 1/N"),
            ("[control]\nmode = \"0999\"", ": control.mode: give permission bits in octal"),
            ("ports = [", ":"),
        ] {
            let error = Config::parse(&format!("{LEAST}{added}\n")).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{added}: {error}");
        }
    }
}
