//! What the decoder is told at its start.

/// How the decoder works. Nothing here changes while it runs.
#[derive(Debug, Clone)]
pub struct Config {
    /// The pageserver's libpq ports. A connection is looked at if one of its ends is here.
    pub ports: Vec<u16>,
    /// Whether the 8,192 bytes of each page are hashed.
    pub page_hash: bool,
    /// Upper bound of the decoder's state, in bytes.
    pub memory_limit_bytes: usize,
}

/// The port of every published pageserver configuration (the code's own default is 64000).
pub const DEFAULT_PORT: u16 = 6400;

/// Enough for 20,000 connections with a window's worth of out-of-order data for the busiest; small beside a pageserver.
pub const DEFAULT_MEMORY_LIMIT_BYTES: usize = 64 << 20;

impl Default for Config {
    fn default() -> Self {
        Self { ports: vec![DEFAULT_PORT], page_hash: false, memory_limit_bytes: DEFAULT_MEMORY_LIMIT_BYTES }
    }
}
