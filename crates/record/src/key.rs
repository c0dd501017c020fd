//! Relations and Neon's keys (`libs/pageserver_api/src/reltag.rs`, `key.rs` in Neon's repository).

use std::fmt;
use std::str::FromStr;

/// `forknum` of a relation's main fork, the one that holds its rows or index entries.
pub const MAIN_FORKNUM: u8 = 0;

/// One fork of one relation. Printed `1663/16384/16402`, with `_fsm`, `_vm` or `_init` behind the other forks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelTag {
    /// Tablespace (1663 is the default one).
    pub spcnode: u32,
    /// Database, 0 for what all databases share.
    pub dbnode: u32,
    /// The relation's file node.
    pub relnode: u32,
    /// 0 main, 1 fsm, 2 vm, 3 init.
    pub forknum: u8,
}

impl fmt::Display for RelTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.spcnode, self.dbnode, self.relnode)?;
        match self.forknum {
            0 => Ok(()),
            1 => f.write_str("_fsm"),
            2 => f.write_str("_vm"),
            3 => f.write_str("_init"),
            other => write!(f, "_fork{other}"),
        }
    }
}

/// The text is not of the form `1663/16384/16402` or `1663/16384/16402_vm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseRelTagError;

impl fmt::Display for ParseRelTagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a relation has the form SPCNODE/DBNODE/RELNODE in decimal, with _fsm, _vm or _init behind other forks",
        )
    }
}

impl std::error::Error for ParseRelTagError {}

impl FromStr for RelTag {
    type Err = ParseRelTagError;

    fn from_str(text: &str) -> Result<Self, ParseRelTagError> {
        let (numbers, forknum) = match text.rsplit_once('_') {
            None => (text, 0),
            Some((numbers, "fsm")) => (numbers, 1),
            Some((numbers, "vm")) => (numbers, 2),
            Some((numbers, "init")) => (numbers, 3),
            Some((numbers, fork)) => {
                let number = fork.strip_prefix("fork").ok_or(ParseRelTagError)?;
                (numbers, number.parse().map_err(|_| ParseRelTagError)?)
            }
        };
        let mut parts = numbers.split('/').map(|part| part.parse::<u32>().map_err(|_| ParseRelTagError));
        let mut next = || parts.next().unwrap_or(Err(ParseRelTagError));
        let rel = Self { spcnode: next()?, dbnode: next()?, relnode: next()?, forknum };
        match parts.next() {
            None => Ok(rel),
            Some(_) => Err(ParseRelTagError),
        }
    }
}

/// The key of one block of one relation. Printed as Neon does: 36 hex digits,
/// `%02X%08X%08X%08X%02X%08X` of field1 (0), spcnode, dbnode, relnode, forknum and blkno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The relation's fork.
    pub rel: RelTag,
    /// The block in it, counted from 0.
    pub blkno: u32,
}

impl Key {
    /// Neon's 16-byte form, or `None` where the tablespace does not fit its 16 bits.
    pub fn to_compact(self) -> Option<u128> {
        let spcnode = u16::try_from(self.rel.spcnode).ok()?;
        Some(
            u128::from(spcnode) << 104
                | u128::from(self.rel.dbnode) << 72
                | u128::from(self.rel.relnode) << 40
                | u128::from(self.rel.forknum) << 32
                | u128::from(self.blkno),
        )
    }

    /// The key of a 16-byte form, or `None` where it is not a relation block's (field1 is not 0).
    pub fn from_compact(compact: u128) -> Option<Self> {
        if compact >> 120 != 0 {
            return None;
        }
        let rel = RelTag {
            spcnode: u32::from((compact >> 104) as u16),
            dbnode: (compact >> 72) as u32,
            relnode: (compact >> 40) as u32,
            forknum: (compact >> 32) as u8,
        };
        Some(Self { rel, blkno: compact as u32 })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RelTag { spcnode, dbnode, relnode, forknum } = self.rel;
        write!(f, "00{spcnode:08X}{dbnode:08X}{relnode:08X}{forknum:02X}{:08X}", self.blkno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VM: RelTag = RelTag { spcnode: 1663, dbnode: 16384, relnode: 16402, forknum: 2 };

    #[test]
    fn a_relation_prints_with_its_fork_and_is_read_back() {
        assert_eq!(VM.to_string(), "1663/16384/16402_vm");
        for forknum in 0..=5 {
            let rel = RelTag { forknum, ..VM };
            assert_eq!(rel.to_string().parse(), Ok(rel));
        }
        for text in ["", "1/2", "1/2/3/4", "1/2/3_x", "a/b/c", "1/2/3_"] {
            assert_eq!(text.parse::<RelTag>(), Err(ParseRelTagError), "{text}");
        }
    }

    #[test]
    fn a_key_has_the_digits_of_neon() {
        let key = Key { rel: VM, blkno: 7 };
        assert_eq!(key.to_string(), "000000067F00004000000040120200000007");
        assert_eq!(Key::from_compact(key.to_compact().unwrap()), Some(key));
    }

    #[test]
    fn a_tablespace_over_16_bits_has_no_compact_form() {
        let key = Key { rel: RelTag { spcnode: 0x1_0000, ..VM }, blkno: 0 };
        assert_eq!(key.to_compact(), None);
        assert_eq!(Key::from_compact(1 << 120), None);
    }
}
