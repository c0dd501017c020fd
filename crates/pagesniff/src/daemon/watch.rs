//! Which packets the kernel lets through to a capturing thread: those that somebody wants the records of, and what tells whose
//! the other connections are.

use std::time::Duration;

use decode::{Decoder, OpenConnection};
use socket2::SockFilter;

use super::distribution::Distribution;
use super::interface::Interface;
use super::traces::wall_clock;
use crate::capture::live::Live;
use crate::kernel_filter::{Ends, Followed, Frames, attach, detach, program};

/// A packet may be stamped so much after the filter has looked at it, on a processor that is interrupted in between. Those of
/// connections that are followed anew count from then on.
pub(super) const SETTLING: Duration = Duration::from_millis(1);

/// What passes at present.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Passing {
    Everything,
    Nothing,
    AllBut(Vec<Ends>),
}

/// The filter of one capturing thread.
#[derive(Debug)]
pub(super) struct Watch {
    ports: Vec<u16>,
    passing: Passing,
    /// Which of the interface's sockets has the filter, by how many were opened before it.
    socket: u64,
    /// Long programs are not tried any more: the system has no room for them.
    is_short_of_room: bool,
}

impl Watch {
    /// Of a capture that lets everything of these ports through.
    pub(super) fn new(ports: &[u16]) -> Self {
        Self { ports: ports.to_vec(), passing: Passing::Everything, socket: 0, is_short_of_room: false }
    }

    /// Whether the interface was opened again since: its new socket lets everything through.
    pub(super) fn is_outdated(&self, interface: &Interface) -> bool {
        interface.opened().is_some_and(|(_, socket)| socket != self.socket)
    }

    /// Lets through what is wanted now. When this returns, every packet of a connection that is wanted passes, and the decoder
    /// reads it from [`SETTLING`] on.
    pub(super) fn adjust(&mut self, interface: &Interface, decoder: &mut Decoder, sink: &Distribution) {
        let Some((live, socket)) = interface.opened() else { return };
        if self.socket != socket {
            (self.socket, self.passing) = (socket, Passing::Everything);
        }
        let Some(frames) = Frames::of(live.link()) else { return };
        let wanted = self.wanted(decoder, sink);
        if wanted != self.passing {
            self.passing = self.let_through(live, frames, wanted);
        }
        let from = wall_clock().plus(u64::try_from(SETTLING.as_nanos()).unwrap_or(u64::MAX));
        match &self.passing {
            Passing::Everything => decoder.follow(from, |_| true),
            Passing::Nothing => decoder.follow_none(),
            Passing::AllBut(excluded) => decoder.follow(from, |open| excluded.binary_search(&ends_of(open)).is_err()),
        }
    }

    fn wanted(&self, decoder: &Decoder, sink: &Distribution) -> Passing {
        if sink.wants_everything() {
            return Passing::Everything;
        }
        if sink.wants_nothing() {
            return Passing::Nothing;
        }
        let mut unwanted: Vec<Ends> =
            decoder.connections().filter(|open| !sink.may_want(open)).map(|open| ends_of(&open)).collect();
        unwanted.sort_unstable();
        if unwanted.is_empty() || self.is_short_of_room { Passing::Everything } else { Passing::AllBut(unwanted) }
    }

    /// Gives what passes now: never less than was wanted.
    fn let_through(&mut self, live: &Live, frames: Frames, wanted: Passing) -> Passing {
        if let Some(wanted_program) = self.program(frames, &wanted) {
            if attach(live, &wanted_program).is_ok() {
                return wanted;
            }
            self.is_short_of_room |= matches!(wanted, Passing::AllBut(_));
        }
        let everything = self.program(frames, &Passing::Everything).unwrap_or_default();
        if attach(live, &everything).is_err() {
            // Without a filter everything of the node passes, and the decoder looks for the ports.
            let _ = detach(live);
        }
        Passing::Everything
    }

    fn program(&self, frames: Frames, passing: &Passing) -> Option<Vec<SockFilter>> {
        let followed = match passing {
            Passing::Everything => Followed::Everything,
            Passing::Nothing => Followed::Nothing,
            Passing::AllBut(excluded) => Followed::AllBut(excluded),
        };
        program(frames, &self.ports, followed)
    }

    /// What passes, in words.
    pub(super) fn in_words(&self) -> String {
        match &self.passing {
            Passing::Everything => "everything".to_owned(),
            Passing::Nothing => "only what tells whose connections there are".to_owned(),
            Passing::AllBut(excluded) => format!("all but {} connections of others", excluded.len()),
        }
    }
}

fn ends_of(open: &OpenConnection) -> Ends {
    Ends { client: open.client, server: open.server }
}
