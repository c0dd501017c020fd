//! Connections: which segment belongs to which, and its place in the stream.

pub(crate) mod connection;
pub(crate) mod copies;
pub(crate) mod half;
pub(crate) mod seq;
pub(crate) mod table;

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The compute, or whoever connected.
    Client,
    /// The pageserver.
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// One of each for the two directions.
#[derive(Debug)]
pub(crate) struct Pair<T> {
    pub(crate) client: T,
    pub(crate) server: T,
}

impl<T> Pair<T> {
    pub(crate) fn of(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    pub(crate) fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// The one of this side, then the other one.
    pub(crate) fn both_mut(&mut self, side: Side) -> (&mut T, &mut T) {
        match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        }
    }
}
