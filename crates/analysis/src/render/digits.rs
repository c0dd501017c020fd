//! Digits on the stack: the texts that most records have of their own.

use record::{Key, Lsn, RelTag};

/// A text of at most `N` bytes on the stack.
pub(super) struct Digits<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Digits<N> {
    /// The text.
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

const UPPER: &[u8; 16] = b"0123456789ABCDEF";
const LOWER: &[u8; 16] = b"0123456789abcdef";

/// The two digits of every byte.
#[expect(clippy::indexing_slicing, reason = "evaluated while compiling, where an index out of bounds is an error")]
const fn digit_pairs(alphabet: &[u8; 16]) -> [[u8; 2]; 256] {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [alphabet[byte >> 4], alphabet[byte & 0xF]];
        byte += 1;
    }
    pairs
}

static UPPER_PAIRS: [[u8; 2]; 256] = digit_pairs(UPPER);
static LOWER_PAIRS: [[u8; 2]; 256] = digit_pairs(LOWER);

/// Two digits for each byte of `value`; `out` is twice as long.
fn write_hex(out: &mut [u8], value: &[u8], pairs: &[[u8; 2]; 256]) {
    for (digits, byte) in out.as_chunks_mut().0.iter_mut().zip(value) {
        *digits = pairs.get(usize::from(*byte)).copied().unwrap_or_default();
    }
}

/// As `Lsn` prints.
pub(super) fn lsn(lsn: Lsn) -> Digits<17> {
    let mut digits = [[0; 8]; 2];
    for (half, out) in [(lsn.0 >> 32) as u32, lsn.0 as u32].into_iter().zip(&mut digits) {
        write_hex(out, &half.to_be_bytes(), &UPPER_PAIRS);
    }
    let [high, low] = digits.each_ref().map(|half| {
        let zeros = half.iter().take(7).take_while(|digit| **digit == b'0').count();
        half.get(zeros..).unwrap_or_default()
    });
    let mut text = Digits { bytes: [0; 17], len: 0 };
    for (place, digit) in text.bytes.iter_mut().zip(high.iter().chain(b"/").chain(low)) {
        *place = *digit;
        text.len += 1;
    }
    text
}

/// As `Key` prints.
pub(super) fn key(key: Key) -> Digits<36> {
    // 13 bytes of field1 (always 0) and the relation's numbers, then 5 of fork and block.
    let RelTag { spcnode, dbnode, relnode, forknum } = key.rel;
    let upper = u128::from(spcnode) << 64 | u128::from(dbnode) << 32 | u128::from(relnode);
    let lower = u64::from(forknum) << 32 | u64::from(key.blkno);
    let mut digits = Digits { bytes: [0; 36], len: 36 };
    let (front, back) = digits.bytes.split_at_mut(26);
    write_hex(front, upper.to_be_bytes().get(3..).unwrap_or_default(), &UPPER_PAIRS);
    write_hex(back, lower.to_be_bytes().get(3..).unwrap_or_default(), &UPPER_PAIRS);
    digits
}

/// 16 lower-case hex digits.
pub(super) fn hash(hash: u64) -> Digits<16> {
    let mut digits = Digits { bytes: [0; 16], len: 16 };
    write_hex(&mut digits.bytes, &hash.to_be_bytes(), &LOWER_PAIRS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
