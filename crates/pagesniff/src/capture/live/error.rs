//! Why a live capture cannot begin, or not go on. Each message says what is wrong, where, and what to do.

use std::io;

use crate::capture::link_names;

/// Why a live capture cannot begin, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There is no such interface.
    #[error("--iface {iface}: there is no such interface{place}; there are: {available}")]
    NoInterface {
        /// As typed.
        iface: String,
        /// ` in namespace X`, or nothing.
        place: String,
        /// Those that there are.
        available: String,
    },
    /// The process may not capture.
    #[error(
        "--iface {iface}: no permission to capture: this takes the capability CAP_NET_RAW: run it with sudo, or once \
         `sudo setcap cap_net_raw+ep $(command -v pagesniff)`"
    )]
    Permission {
        /// As typed.
        iface: String,
    },
    /// The interface is there, and down.
    #[error("--iface {iface}: the interface is down: `ip link set {iface} up` brings it up")]
    Down {
        /// As typed.
        iface: String,
    },
    /// libpcap cannot capture there for another reason.
    #[error("--iface {iface}: cannot be opened: {reason}")]
    Open {
        /// As typed.
        iface: String,
        /// libpcap's words.
        reason: String,
    },
    /// The interface has a link type that pagesniff does not read.
    #[error("--iface {iface}: link type {} is not supported: capture on an interface of one of these: {}", link_names::describe(*.number), link_names::SUPPORTED)]
    LinkType {
        /// As typed.
        iface: String,
        /// By <https://www.tcpdump.org/linktypes.html>.
        number: u32,
    },
    /// The user's filter expression is faulty.
    #[error("--bpf '{expression}': {place}: {reason}; `man pcap-filter` has the grammar")]
    Expression {
        /// As typed.
        expression: String,
        /// Up to where it is sound.
        place: String,
        /// libpcap's words.
        reason: String,
    },
    /// The filter cannot be set.
    #[error("--iface {iface}: the filter cannot be set: {reason}")]
    Filter {
        /// As typed.
        iface: String,
        /// libpcap's words.
        reason: String,
    },
    /// The namespace cannot be found or entered.
    #[error("--netns {netns}: {path}: {source}: {advice}")]
    Namespace {
        /// As typed.
        netns: String,
        /// The file that stands for it.
        path: String,
        /// What can be done.
        advice: &'static str,
        /// The system's word.
        source: io::Error,
    },
    /// The capture broke off.
    #[error("--iface {iface}: the capture broke off: {reason}; what came before is kept")]
    Broke {
        /// As typed.
        iface: String,
        /// libpcap's or the system's words.
        reason: String,
    },
    /// Signals cannot be caught.
    #[error("signals cannot be caught: {source}")]
    Signals {
        /// The system's word.
        source: io::Error,
    },
}
