//! What the kernel lets through to a capture that follows some connections only: classic BPF programs of our own.
//!
//! libpcap's expressions look into the payload of IPv4 without tags only, and libpcap changes a running capture's filter by way
//! of one that lets nothing through. These programs know VLAN tags and IPv6, and one replaces another in a single step, which
//! takes no capability.
//!
//! ```text
//! link layer → IPv4 | IPv6 → ports → SYN, FIN, RST?      passes
//!                                  → a connection that is followed?  passes
//!                                  → a beginning of a connection, or of a command?  passes
//!                                  → of the rest of what clients send, one packet in 256
//! ```
//!
//! Those few packets keep it known where the client's sequence numbers are: that shows later that it is the same connection
//! still (see [`decode::OpenConnection`]).

mod assembler;
mod excluded;
mod terms;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use decode::LinkType;
use socket2::{SockFilter, SockRef};

/// What the kernel's filter of a capture socket sees of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frames {
    /// An Ethernet frame; the kernel has taken off the outer VLAN tag, and an inner one may be there.
    Ethernet,
    /// An IP packet.
    Ip,
    /// An IP packet or something else, and beside it which protocol it is: what `any` gives.
    Cooked,
}

impl Frames {
    /// Those of a live capture with this link type; `None` where nobody captures live with it.
    pub fn of(link: LinkType) -> Option<Self> {
        match link {
            LinkType::Ethernet => Some(Self::Ethernet),
            LinkType::LinuxSll | LinkType::LinuxSll2 => Some(Self::Cooked),
            LinkType::RawIp | LinkType::RawIpv4 | LinkType::RawIpv6 => Some(Self::Ip),
            LinkType::Null | LinkType::Loop => None,
        }
    }
}

/// A connection, by its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// The compute's.
    pub client: SocketAddr,
    /// The pageserver's.
    pub server: SocketAddr,
}

/// Which connections are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed<'a> {
    /// None: whose connections there are is known, and nothing else.
    Nothing,
    /// All but these.
    AllBut(&'a [Ends]),
    /// All.
    Everything,
}

/// The program for the connections of these ports. `None` where it would be longer than the kernel allows.
///
/// What it lets through beyond what is wanted does no harm: the decoder looks at it again.
pub fn program(frames: Frames, ports: &[u16], followed: Followed<'_>) -> Option<Vec<SockFilter>> {
    terms::write(frames, ports, followed, terms::Sample::OneIn256).assemble()
}

/// Puts a program in the place of the socket's filter, in one step. Takes no privilege.
///
/// # Errors
///
/// The system's: it may have no room for a long program (`net.core.optmem_max`).
pub fn attach(socket: &impl AsFd, program: &[SockFilter]) -> io::Result<()> {
    SockRef::from(socket).attach_filter(program)
}

/// Takes the socket's filter away: everything passes.
///
/// # Errors
///
/// The system's.
pub fn detach(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).detach_filter()
}
