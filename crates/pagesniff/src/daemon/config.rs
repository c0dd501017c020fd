//! The daemon's configuration file.

use std::fs;
use std::path::{Path, PathBuf};

use bytesize::ByteSize;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use trace::{Circumstances, DEFAULT_MAX_BYTES, OnFull, WriterConfig};

use crate::attribution::Attributor;
use crate::capture::live::{DEFAULT_BUFFER, DEFAULT_SNAPLEN_BYTES, LEAST_BUFFER, LiveOptions, MOST_BUFFER, StampedBy};
use crate::filter::Filter;
use crate::flags::{Input, RawFilter, Settings};

/// Below, the decoder forgets connections on any busy node.
const LEAST_MEMORY: ByteSize = ByteSize::mib(4);

/// A file an hour: what an incident is about is in few of them, and old ones go in small steps.
const ROTATE_INTERVAL_NS: u64 = 3_600_000_000_000;

/// Longer file contents are no configuration.
const MOST_CONFIG_BYTES: u64 = 1 << 20;

/// Sections that later versions will have. Ignoring one would promise what does not happen.
const NOT_YET: [&str; 5] = ["control", "triggers", "api", "authentication", "upload"];

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Part of the trace files' names; tells the traces of several nodes apart.
    pub instance: String,
    /// What is captured on: an interface's name, or `any`.
    pub interface: String,
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
    /// What traces may take.
    #[serde(default)]
    pub limits: TraceLimits,
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
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self { tenant_bytes: ByteSize(DEFAULT_MAX_BYTES), total_bytes: ByteSize::gib(1) }
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
    fn parse(text: &str) -> Result<Self, String> {
        let config: Self = toml::from_str(text).map_err(|error| in_one_line(&error, text))?;
        config.check().map_err(|error| format!(": {error}"))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.interface.is_empty() {
            return Err("interface: name one, such as \"eth0\"".to_owned());
        }
        if self.ports.is_empty() || self.ports.contains(&0) {
            return Err("ports: name the pageserver's libpq ports, such as [6400]".to_owned());
        }
        if self.memory < LEAST_MEMORY {
            return Err(format!("memory: give at least {LEAST_MEMORY}"));
        }
        if self.buffer_size < LEAST_BUFFER || self.buffer_size > MOST_BUFFER {
            return Err(format!("buffer_size: give {LEAST_BUFFER} to {MOST_BUFFER}"));
        }
        if self.limits.total_bytes < self.limits.tenant_bytes {
            return Err("limits.total_bytes: give at least as much as limits.tenant_bytes".to_owned());
        }
        self.traces().check().map_err(|error| format!("instance or limits: {error}"))
    }

    /// Where and how traces are written.
    fn traces(&self) -> WriterConfig {
        let link = format!("interface {}, snap length {DEFAULT_SNAPLEN_BYTES}", self.interface);
        let circumstances = Circumstances {
            program: concat!("pagesniff ", env!("CARGO_PKG_VERSION")).to_owned(),
            link,
            clock: "host".to_owned(),
            sample_one_in: 1,
            max_bytes: Some(self.limits.tenant_bytes.as_u64()),
            max_total_bytes: Some(self.limits.total_bytes.as_u64()),
            ..Circumstances::default()
        };
        WriterConfig {
            circumstances,
            on_full: OnFull::Rotate,
            rotate_interval_ns: Some(ROTATE_INTERVAL_NS),
            ..WriterConfig::new(&self.data_directory, &self.instance)
        }
    }

    /// The run that the file asks for.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            input: Input::Live(self.live()),
            decode: self.decode(),
            attributor: Attributor::default(),
            filter: Filter::from_raw(&RawFilter::default(), false),
            format: None,
            trace: Some(self.traces()),
            summary: None,
            finds_out: false,
            max_loss: None,
            quiet: true,
        }
    }

    /// How the interface is captured on.
    pub(super) fn live(&self) -> LiveOptions {
        LiveOptions {
            iface: self.interface.clone(),
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

    /// How its packets are decoded.
    fn decode(&self) -> decode::Config {
        decode::Config {
            ports: self.ports.clone(),
            page_hash: false,
            memory_limit_bytes: usize::try_from(self.memory.as_u64()).unwrap_or(usize::MAX),
        }
    }

    /// What the daemon would do, in words.
    pub(super) fn in_words(&self) -> String {
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let TraceLimits { tenant_bytes, total_bytes } = &self.limits;
        format!(
            "captures port {ports} on {}, as instance {}\nkeeps the latest requests of every tenant in {}: up to \
             {tenant_bytes} each, {total_bytes} in all\n",
            self.interface,
            self.instance,
            self.data_directory.display(),
        )
    }
}

/// `:12: memory: unknown field …`
fn in_one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = match NOT_YET.iter().find(|name| message.contains(&format!("unknown field `{name}`"))) {
        Some(_) => "; this version of pagesniff does not have it yet: take it out",
        None => "",
    };
    let before = error.span().and_then(|span| text.get(..span.start));
    let Some(before) = before else { return format!(": {message}{hint}") };
    let line = before.matches('\n').count();
    let key = text.lines().nth(line).and_then(|line| line.split_once('=')).map_or("", |(key, _)| key.trim());
    let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
    format!(":{}: {key}{message}{hint}", line.saturating_add(1))
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

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<ByteSize, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| D::Error::custom("a size is given as \"32MiB\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "instance = \"n\"\ninterface = \"lo\"\ndata_directory = \"/d\"\n";

    #[test]
    fn the_example_is_valid_names_every_key_and_shows_the_defaults() {
        let text = include_str!("../../../../deploy/pagesniff.toml");
        let example = Config::parse(text).unwrap();
        let Config { limits, ports, memory, buffer_size, .. } = Config::parse(LEAST).unwrap();
        assert_eq!(example.limits, limits);
        assert_eq!((example.ports, example.memory, example.buffer_size), (ports, memory, buffer_size));
        // The key list of serde's own error message: every key there is stands in the example.
        for (before, broken) in [("", "no_such = 1\n"), (LEAST, "[limits]\nno_such = 1\n")] {
            let error = Config::parse(&format!("{before}{broken}")).unwrap_err();
            let (_, keys) = error.split_once("expected ").expect("a list of keys");
            for key in keys.split('`').skip(1).step_by(2) {
                let begin = format!("{key} = ");
                assert!(text.lines().any(|line| line.starts_with(&begin) || line == format!("[{key}]")), "{key}");
            }
        }
    }

    #[test]
    fn errors_name_line_and_key() {
        for (added, expected) in [
            ("memory = 5", ":4: memory: invalid type: integer `5`"),
            ("memory = \"much\"", ":4: memory: a size is given as"),
            ("memory = \"1KiB\"", ": memory: give at least"),
            ("ports = []", ": ports: name the pageserver's"),
            ("buffer_size = \"2GiB\"", ": buffer_size: give "),
            ("colour = 1", ":4: colour: unknown field `colour`"),
            ("[api]\nlisten = 1", "this version of pagesniff does not have it yet"),
            ("[limits]\ntotal_bytes = \"1MiB\"", ": limits.total_bytes: give at least"),
            ("[limits]\ntenant_bytes = \"1KiB\"", "too small for a trace"),
            ("ports = [", ":"),
        ] {
            let error = Config::parse(&format!("{LEAST}{added}\n")).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{added}: {error}");
        }
    }
}
