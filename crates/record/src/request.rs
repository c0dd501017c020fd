//! What was asked for, and how we know.

use std::fmt;
use std::str::FromStr;

use crate::key::{Key, RelTag};

/// The text is none of the words that are possible here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseWordError {
    /// The words that are possible, separated by commas.
    pub expected: &'static str,
}

impl fmt::Display for ParseWordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected one of {}", self.expected)
    }
}

impl std::error::Error for ParseWordError {}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)+ }

        impl $name {
            /// Every one of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word by which it goes in records, filters and summaries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = ParseWordError;
            fn from_str(text: &str) -> Result<Self, ParseWordError> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(ParseWordError { expected: without_last_comma(concat!($($word, ", ",)+)) }),
                }
            }
        }
    };
}

/// Drops what `concat!` leaves behind the last word.
fn without_last_comma(words: &'static str) -> &'static str {
    words.trim_end_matches(", ")
}

words! {
    /// The kind of a request.
    Kind {
        /// One page of a relation.
        GetPage = "getpage",
        /// Whether a relation's fork exists.
        Exists = "exists",
        /// How many blocks a relation's fork has.
        Nblocks = "nblocks",
        /// How large a database is.
        DbSize = "dbsize",
        /// A whole SLRU segment (commit log, multixacts).
        Slru = "slru",
    }
}

words! {
    /// What became of a request.
    Status {
        /// Answered with what was asked for.
        Ok = "ok",
        /// Answered with an error message (tag 103).
        Error = "error",
        /// No answer was seen: the connection or the capture ended, the server gave up, or the capture lost it.
        Unanswered = "unanswered",
        /// Which answer was this request's is not proven; only with [`Pairing::Suspect`].
        Unknown = "unknown",
    }
}

words! {
    /// How an answer was found for its request.
    Pairing {
        /// By order, verified by what a version 3 answer echoes.
        Exact = "exact",
        /// By order, which is proven unbroken.
        Fifo = "fifo",
        /// Only the request was seen.
        RequestOnly = "request_only",
        /// Only the answer was seen; version 3 answers say what was asked.
        ResponseOnly = "response_only",
        /// The order is not proven here: no latency, no status.
        Suspect = "suspect",
    }
}

words! {
    /// How the connection's tenant and timeline are known.
    Attribution {
        /// Read from this connection's own pagestream command.
        Handshake = "handshake",
        /// The user said so (`--hint`).
        Hint = "hint",
        /// Another connection from an address that the operator declared to be one compute.
        Address = "address",
    }
}

/// The pagestream protocol's version, 1 to 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// `pagestream`, until 2024-08: one LSN and a flag.
    V1 = 1,
    /// `pagestream_v2`: request LSN and not-modified-since LSN.
    V2 = 2,
    /// `pagestream_v3`: the same with a request id, which answers echo.
    V3 = 3,
}

impl Protocol {
    /// 1, 2 or 3.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The version of that number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// One page.
    GetPage {
        /// Of this fork.
        rel: RelTag,
        /// The block's number from 0.
        blkno: u32,
    },
    /// Whether the fork exists.
    Exists {
        /// The fork.
        rel: RelTag,
    },
    /// How many blocks the fork has.
    Nblocks {
        /// The fork.
        rel: RelTag,
    },
    /// The size of a database.
    DbSize {
        /// The database.
        dbnode: u32,
    },
    /// One SLRU segment.
    Slru {
        /// 0 commit log, 1 multixact members, 2 multixact offsets.
        kind: u8,
        /// The segment's number.
        segno: u32,
    },
}

impl Target {
    /// The kind of the request.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::GetPage { .. } => Kind::GetPage,
            Self::Exists { .. } => Kind::Exists,
            Self::Nblocks { .. } => Kind::Nblocks,
            Self::DbSize { .. } => Kind::DbSize,
            Self::Slru { .. } => Kind::Slru,
        }
    }

    /// The relation fork, where the kind has one.
    pub const fn rel(&self) -> Option<RelTag> {
        match *self {
            Self::GetPage { rel, .. } | Self::Exists { rel } | Self::Nblocks { rel } => Some(rel),
            Self::DbSize { .. } | Self::Slru { .. } => None,
        }
    }

    /// The database, where the kind has one.
    pub const fn dbnode(&self) -> Option<u32> {
        match *self {
            Self::DbSize { dbnode } => Some(dbnode),
            Self::GetPage { rel, .. } | Self::Exists { rel } | Self::Nblocks { rel } => Some(rel.dbnode),
            Self::Slru { .. } => None,
        }
    }

    /// The block, for GetPage.
    pub const fn blkno(&self) -> Option<u32> {
        match *self {
            Self::GetPage { blkno, .. } => Some(blkno),
            _ => None,
        }
    }

    /// Neon's key, for GetPage.
    pub const fn key(&self) -> Option<Key> {
        match *self {
            Self::GetPage { rel, blkno } => Some(Key { rel, blkno }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_are_printed() {
        for &kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        for &pairing in Pairing::ALL {
            assert_eq!(pairing.to_string().parse(), Ok(pairing));
        }
        let error = "page".parse::<Kind>().unwrap_err();
        assert_eq!(error.to_string(), "expected one of getpage, exists, nblocks, dbsize, slru");
    }
}
