//! Digits on the stack: the texts that most records have of their own.

use record::{Key, Lsn};

/// A text of at most `N` bytes, built from the front.
pub(super) struct Digits<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Digits<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], len: 0 }
    }

    /// Appends a byte; what does not fit is left out, which the tests rule out for the texts below.
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    /// Appends the `count` last hex digits of `value`.
    fn hex(&mut self, value: u64, count: u32, alphabet: &[u8; 16]) {
        for place in (0..count).rev() {
            let nibble = (value >> (place * 4)) as usize & 0xF;
            self.push(alphabet.get(nibble).copied().unwrap_or(b'?'));
        }
    }

    /// The text so far.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

const UPPER: &[u8; 16] = b"0123456789ABCDEF";
const LOWER: &[u8; 16] = b"0123456789abcdef";

/// How many hex digits a number has without leading zeros, at least one.
fn hex_len(value: u32) -> u32 {
    (35 - (value | 1).leading_zeros()) / 4
}

/// As `Lsn` prints.
pub(super) fn lsn(lsn: Lsn) -> Digits<17> {
    let mut digits = Digits::new();
    let (high, low) = ((lsn.0 >> 32) as u32, lsn.0 as u32);
    digits.hex(u64::from(high), hex_len(high), UPPER);
    digits.push(b'/');
    digits.hex(u64::from(low), hex_len(low), UPPER);
    digits
}

/// As `Key` prints.
pub(super) fn key(key: Key) -> Digits<36> {
    let mut digits = Digits::new();
    digits.hex(0, 2, UPPER);
    for field in [key.rel.spcnode, key.rel.dbnode, key.rel.relnode] {
        digits.hex(u64::from(field), 8, UPPER);
    }
    digits.hex(u64::from(key.rel.forknum), 2, UPPER);
    digits.hex(u64::from(key.blkno), 8, UPPER);
    digits
}

/// 16 lower-case hex digits.
pub(super) fn hash(hash: u64) -> Digits<16> {
    let mut digits = Digits::new();
    digits.hex(hash, 16, LOWER);
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use record::RelTag;

    use super::*;

    fn text<const N: usize>(digits: Digits<N>) -> String {
        String::from_utf8(digits.as_bytes().to_vec()).unwrap()
    }

    proptest! {
        #[test]
        fn digits_are_those_that_the_words_print(high: u32, low: u32, forknum: u8, shift in 0u32..32) {
            let value = Lsn(u64::from(high >> shift) << 32 | u64::from(low >> shift));
            prop_assert_eq!(text(lsn(value)), value.to_string());
            let rel = RelTag { spcnode: high, dbnode: low, relnode: high ^ low, forknum };
            let value = Key { rel, blkno: low >> shift };
            prop_assert_eq!(text(key(value)), value.to_string());
            let value = u64::from(high) << 32 | u64::from(low);
            prop_assert_eq!(text(hash(value)), format!("{value:016x}"));
        }
    }

    #[test]
    fn the_longest_lsn_fits() {
        assert_eq!(lsn(Lsn::MAX).as_bytes(), b"FFFFFFFF/FFFFFFFF");
        assert_eq!(lsn(Lsn(0)).as_bytes(), b"0/0");
    }
}
