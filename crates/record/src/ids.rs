//! Tenant and timeline identifiers.

use std::fmt;
use std::str::FromStr;

/// Why a text is not an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParseIdError {
    /// The text has this many characters instead of 32.
    Length(usize),
    /// The character at this place (from 0) is no hex digit.
    NotHex(usize),
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(length) => write!(f, "an id has 32 hex digits, this has {length} characters"),
            Self::NotHex(at) => write!(f, "an id has 32 hex digits, the character at {at} is none"),
        }
    }
}

impl std::error::Error for ParseIdError {}

/// Parses exactly 32 hex digits of either case.
fn parse_hex(text: &[u8]) -> Result<[u8; 16], ParseIdError> {
    if text.len() != 32 {
        return Err(ParseIdError::Length(text.len()));
    }
    let mut bytes = [0u8; 16];
    for (at, (byte, pair)) in bytes.iter_mut().zip(text.chunks_exact(2)).enumerate() {
        for (place, digit) in pair.iter().enumerate() {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                b'A'..=b'F' => digit - b'A' + 10,
                _ => return Err(ParseIdError::NotHex(at * 2 + place)),
            };
            *byte = *byte << 4 | value;
        }
    }
    Ok(bytes)
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// Reads 32 hex digits, of either case, as they stand in a pagestream command.
            pub fn from_hex(text: &[u8]) -> Result<Self, ParseIdError> {
                parse_hex(text).map(Self)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                Self::from_hex(text.as_bytes())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", u128::from_be_bytes(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id! {
    /// A Neon tenant: one customer's project, printed as 32 lower-case hex digits.
    TenantId
}

id! {
    /// A Neon timeline: one branch of a tenant, printed as 32 lower-case hex digits.
    TimelineId
}

/// A tenant and one of its timelines: what a pagestream connection is opened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantTimeline {
    /// Whose pages.
    pub tenant: TenantId,
    /// Of which branch.
    pub timeline: TimelineId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_prints_as_it_was_read_in_lower_case() {
        let id: TenantId = "3AABBF1a5d0f4e2a9d3c1b2a49505101".parse().unwrap();
        assert_eq!(id.to_string(), "3aabbf1a5d0f4e2a9d3c1b2a49505101");
        let zero: TimelineId = "00000000000000000000000000000001".parse().unwrap();
        assert_eq!(zero.to_string(), "00000000000000000000000000000001");
    }

    #[test]
    fn what_is_no_id_says_why() {
        assert_eq!("abc".parse::<TenantId>(), Err(ParseIdError::Length(3)));
        assert_eq!("3aabbf1a5d0f4e2a9d3c1b2a4950510g".parse::<TenantId>(), Err(ParseIdError::NotHex(31)));
    }
}
