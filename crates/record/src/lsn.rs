//! Log sequence numbers.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log, in bytes. Printed as Postgres does: high and low half in hex, `1/6EFF3F30`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// As a request's LSN: "the latest version", what a primary asks for.
    pub const MAX: Self = Self(u64::MAX);
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not of the form `16/B374D848`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLsnError;

impl fmt::Display for ParseLsnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an LSN has the form 16/B374D848: two hex numbers of at most 8 digits")
    }
}

impl std::error::Error for ParseLsnError {}

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, ParseLsnError> {
        let half = |digits: &str| match digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            true => u32::from_str_radix(digits, 16).map_err(|_| ParseLsnError),
            false => Err(ParseLsnError),
        };
        let (high, low) = text.split_once('/').ok_or(ParseLsnError)?;
        Ok(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lsn_has_the_notation_of_postgres() {
        assert_eq!(Lsn(0x1_6EFF_3F30).to_string(), "1/6EFF3F30");
        assert_eq!(Lsn::MAX.to_string(), "FFFFFFFF/FFFFFFFF");
        assert_eq!(Lsn(0).to_string(), "0/0");
        for lsn in [Lsn(0), Lsn(1), Lsn(0x1_6EFF_3F30), Lsn::MAX] {
            assert_eq!(lsn.to_string().parse(), Ok(lsn));
        }
        for text in ["", "1", "/", "1/", "/1", "1/2/3", "x/1", "+1/1", "111111111/1"] {
            assert_eq!(text.parse::<Lsn>(), Err(ParseLsnError), "{text}");
        }
    }
}
