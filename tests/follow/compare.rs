//! Two views of a direction, and the differences between them that are known and right.

use std::path::Path;

use crate::stream::{Part, Stream};

/// What they do not agree in.
pub(crate) enum Difference {
    /// A known one, by its name.
    Accepted(&'static str),
    Fault(String),
}

/// tshark prints holes between bytes only; of a direction without any it says nothing.
const NOTHING_CAPTURED: &str = "direction of which nothing was captured: tshark does not tell its hole";

/// Nobody acknowledged those bytes, so tshark keeps back what lies behind them. At the end of the connection we give it out,
/// behind a hole of known length: it was on the wire.
const UNACKNOWLEDGED: &str = "data behind a hole that nobody acknowledged: tshark keeps it back";

/// Captures of which one thing is known to be taken differently, and why.
pub(crate) const KNOWN: &[(&str, &str)] = &[
    ("tests__bigtcp-ipv6.pcap", "IPv6 jumbograms (RFC 2675): tshark 4.0 does not look into them"),
    (
        "tests__tcp_rst_diag_payload-trunc.pcap",
        "text in an RST: it is no part of the stream (RFC 9293, section 3.5.3), and tshark takes it for one",
    ),
    (
        "layers__testdata__linux_sll_oversized_addr.pcapng",
        "packets with corrupted sequence numbers, hundreds of megabytes ahead: tshark drops them, we find a hole before them",
    ),
    (
        "tests__tcp-fastopen-10-syn-data-ignore__input.pcap",
        "a SYN that is answered with two numbers: tshark keeps the first one, and finds a hole of a gigabyte between them",
    ),
    (
        "testing__btest__Traces__tcp__reassembly.pcap",
        "a hole that is filled after 6.8 s: we give it up after 5 s, tshark waits for as long as the capture lasts",
    ),
    (
        "testing__btest__Traces__tcp__retransmit-timeout.pcapng",
        "a retransmission after 300 s of silence: we have forgotten a connection without pagestream after 120 s",
    ),
];

/// Whether both say the same. `Cut` bytes are left out of both: tshark passes over what the snap length cut off.
pub(crate) fn compare(capture: &Path, ours: &Stream, theirs: &Stream) -> Result<(), Difference> {
    if ours.parts == theirs.parts {
        return Ok(());
    }
    let is_missing = |part: &Part| matches!(part, Part::Missing(_));
    if theirs.parts.is_empty() && ours.parts.iter().all(is_missing) {
        return Err(Difference::Accepted(NOTHING_CAPTURED));
    }
    let rest = ours.parts.strip_prefix(theirs.parts.as_slice());
    if rest.and_then(<[Part]>::first).is_some_and(is_missing) {
        return Err(Difference::Accepted(UNACKNOWLEDGED));
    }
    let name = capture.file_name().unwrap_or_default();
    if let Some((_, reason)) = KNOWN.iter().find(|(known, _)| name == *known) {
        return Err(Difference::Accepted(reason));
    }
    Err(Difference::Fault(format!("\n  ours   {}\n  theirs {}", shape(ours), shape(theirs))))
}

/// The lengths of the first parts, holes in parentheses.
fn shape(stream: &Stream) -> String {
    const PARTS: usize = 12;
    let part = |part: &Part| match part {
        Part::Bytes(bytes) => format!("{} ", bytes.len()),
        Part::Missing(count) => format!("({count}) "),
    };
    let lengths: String = stream.parts.iter().take(PARTS).map(part).collect();
    if stream.parts.len() > PARTS { format!("{lengths}and {} more", stream.parts.len() - PARTS) } else { lengths }
}
