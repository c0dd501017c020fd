//! Time at the point of observation.

use std::fmt;

/// Unix time in nanoseconds, as the capture stamped it. Holds until the year 2554.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Nanoseconds from `earlier` to here, or `None` where the clock says that `earlier` was later.
    pub fn since(self, earlier: Self) -> Option<u64> {
        self.0.checked_sub(earlier.0)
    }

    /// This moment plus `ns` nanoseconds, held at the end of the representable time.
    pub fn plus(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

impl fmt::Display for Timestamp {
    /// Seconds and nanoseconds since 1970, `1796094784.355667834`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
