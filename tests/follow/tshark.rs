//! What tshark makes of a capture.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::stream::Streams;

/// Streams followed by one run; each is an argument.
const STREAMS_A_RUN: usize = 200;

pub(crate) fn is_installed() -> bool {
    tshark().arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn tshark() -> Command {
    let mut command = Command::new("tshark");
    // Nobody's settings, no names instead of numbers.
    command.env("HOME", "/nonexistent").env("XDG_CONFIG_HOME", "/nonexistent").arg("-n").stderr(Stdio::null());
    command
}

fn output(capture: &Path, arguments: &[String]) -> String {
    let output = tshark().arg("-r").arg(capture).args(arguments).output().expect("tshark was there a moment ago");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The bytes of every TCP stream.
pub(crate) fn follow(capture: &Path) -> Streams {
    let fields = ["-T", "fields", "-e", "tcp.stream"].map(str::to_owned);
    let numbers = output(capture, &fields);
    // A packet with several segments in it has several numbers.
    let last = numbers.split([',', '\n']).filter_map(|number| number.parse::<usize>().ok()).max();
    let mut streams = Streams::new();
    let all: Vec<usize> = (0..last.map_or(0, |last| last + 1)).collect();
    for some in all.chunks(STREAMS_A_RUN) {
        let mut arguments = vec!["-q".to_owned()];
        arguments.extend(some.iter().flat_map(|number| ["-z".to_owned(), format!("follow,tcp,raw,{number}")]));
        // Runs print their streams in any order; the order of connections on the same addresses matters.
        let text = output(capture, &arguments);
        let mut sections: Vec<Section> = text.split("Follow: tcp,raw\n").skip(1).filter_map(Section::parse).collect();
        sections.sort_by_key(|section| section.number);
        sections.iter().for_each(|section| section.add_to(&mut streams));
    }
    streams
}

/// One stream as it is printed: lines of hex digits, with a tab in front where node 1 sent them.
struct Section<'a> {
    number: usize,
    nodes: [SocketAddr; 2],
    lines: Vec<&'a str>,
}

impl<'a> Section<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut lines = text.lines();
        let number = lines.next()?.strip_prefix("Filter: tcp.stream eq ")?.parse().ok()?;
        let mut node = || {
            let (address, port) = lines.next()?.split_once(": ")?.1.rsplit_once(':')?;
            let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
            Some(SocketAddr::new(address, port.parse().ok()?))
        };
        let nodes = [node()?, node()?];
        Some(Self { number, nodes, lines: lines.take_while(|line| !line.starts_with('=')).collect() })
    }

    fn add_to(&self, streams: &mut Streams) {
        for line in &self.lines {
            let (from, to, digits) = match line.strip_prefix('\t') {
                Some(digits) => (self.nodes[1], self.nodes[0], digits),
                None => (self.nodes[0], self.nodes[1], *line),
            };
            let Some(bytes) = from_hex(digits) else { continue };
            let stream = streams.entry((from, to)).or_default();
            match missing(&bytes) {
                Some(count) => stream.push_missing(count),
                None => stream.push_bytes(&bytes),
            }
        }
    }
}

fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// A hole is told among the bytes, as text.
fn missing(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.strip_prefix('[')?.strip_suffix(" bytes missing in capture file]\0")?.parse().ok()
}
