//! A capture in memory, as a list of packets that can be cut, thinned, doubled and joined.

use std::path::{Path, PathBuf};

use decode::wire::{Segment, Wire};
use decode::{Config, Decoder, LinkType, Packet, Stats, WireStats};
use pagesniff::capture::Files;
use record::{Record, Timestamp};
use trafficgen::compose::compose_into;
use trafficgen::golden::Golden;

use crate::truth::Truth;

/// A capture, and what is known of its traffic.
pub(crate) struct Tape {
    pub(crate) name: String,
    bytes: Vec<u8>,
    places: Vec<Place>,
    pub(crate) truth: Option<Truth>,
    pub(crate) ports: Vec<u16>,
}

struct Place {
    time: Timestamp,
    link: LinkType,
    start: usize,
    end: usize,
    wire_len: u32,
}

/// What a decoder made of some packets.
pub(crate) struct Decoded {
    pub(crate) records: Vec<Record>,
    pub(crate) stats: Stats,
}

impl Tape {
    /// Composes a session; `options` are those of `trafficgen compose`.
    pub(crate) fn composed(options: &str) -> Self {
        // A golden's options are constants of the program; a test's few may stay for as long as it runs.
        let options: &'static str = Box::leak(options.to_owned().into_boxed_str());
        let directory = tempfile::tempdir().unwrap();
        let golden = Golden { name: "composed", purpose: "", options };
        let mut parsed = golden.parse(PathBuf::from("-")).unwrap();
        parsed.output.truth = Some(directory.path().to_path_buf());
        let mut bytes = Vec::new();
        compose_into(&mut bytes, parsed).unwrap();
        let file = directory.path().join("capture");
        std::fs::write(&file, bytes).unwrap();
        let mut tape = Self::read(&file);
        tape.name = options.split_whitespace().collect::<Vec<_>>().join(" ");
        tape.truth = Some(Truth::read(directory.path()));
        tape
    }

    /// A capture with its truth from the folder of handed captures, or `None`, with a printed line, where that is missing.
    pub(crate) fn handed(folder: &str, file: &str) -> Option<Self> {
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
        let directory = shared.join(folder);
        let path = directory.join(file);
        if !path.exists() {
            println!("skipped: there is no {folder}/{file} here");
            return None;
        }
        let mut tape = Self::read(&path);
        tape.name = format!("{folder}/{file}");
        tape.truth = directory.join("truth.csv").exists().then(|| Truth::read(&directory));
        Some(tape)
    }

    fn read(path: &Path) -> Self {
        let mut files = Files::open(&[path.to_path_buf()]).unwrap();
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        while let Some(packet) = files.next_packet().unwrap() {
            let start = bytes.len();
            bytes.extend_from_slice(packet.data);
            let Packet { time, link, wire_len, .. } = packet;
            places.push(Place { time, link, start, end: bytes.len(), wire_len });
        }
        Self { name: path.display().to_string(), bytes, places, truth: None, ports: vec![6400, 64000] }
    }

    pub(crate) fn packets(&self) -> Vec<Packet<'_>> {
        let packet = |place: &Place| Packet {
            time: place.time,
            link: place.link,
            data: &self.bytes[place.start..place.end],
            wire_len: place.wire_len,
        };
        self.places.iter().map(packet).collect()
    }

    pub(crate) fn decode(&self, packets: &[Packet<'_>]) -> Decoded {
        decode(packets, Config { ports: self.ports.clone(), page_hash: true, ..Config::default() })
    }

    pub(crate) fn clean(&self) -> Decoded {
        self.decode(&self.packets())
    }
}

pub(crate) fn decode(packets: &[Packet<'_>], config: Config) -> Decoded {
    let mut decoder = Decoder::new(config);
    let mut records = Vec::new();
    for packet in packets {
        decoder.packet(packet, &mut records);
    }
    decoder.finish(&mut records);
    Decoded { records, stats: *decoder.stats() }
}

/// Calls `look` with the TCP segment of each packet that has one.
pub(crate) fn each_segment(packets: &[Packet<'_>], mut look: impl FnMut(usize, &Segment<'_>)) {
    let (mut wire, mut stats) = (Wire::new(1 << 20), WireStats::default());
    for (at, packet) in packets.iter().enumerate() {
        if let Some(segment) = wire.parse(packet, &mut stats) {
            look(at, &segment);
        }
    }
}

/// Cuts every packet to a snap length.
pub(crate) fn cut(packets: &mut [Packet<'_>], bytes: usize) {
    for packet in packets {
        packet.data = &packet.data[..packet.data.len().min(bytes)];
    }
}
