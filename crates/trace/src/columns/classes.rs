//! The codec of classes: a value's magnitude apart from the bits below.
//!
//! Most columns hold the unpredictable rest of nanosecond times: 10 to 20 bits each, of which only the magnitude follows a
//! pattern. So a value is split: its *class* (bit length and the next two bits, one byte) goes through zstd, which finds
//! the pattern; the bits below go as they are, without padding, as nothing would shorten them.
//!
//! Values below 8 are their own class and have no bits below. From there on, for `L` the bit length, the class is
//! `4 L - 12 + (value >> (L - 3))`, and `L - 3` bits follow.

/// The class of the largest value.
pub(crate) const MAX_CLASS: u8 = 251;

/// Bits below the class of the largest value.
const MAX_LOW_BITS: u32 = 61;

/// Class of a value and how many bits stand below it.
#[inline]
fn class_of(value: u64) -> (u8, u32) {
    let low_bits = MAX_LOW_BITS.wrapping_sub((value | 4).leading_zeros());
    (low_bits.wrapping_mul(4).wrapping_add(value.wrapping_shr(low_bits) as u32) as u8, low_bits)
}

/// For each class the value whose lower bits are 0, and how many they are.
const CLASSES: [(u64, u32); 256] = {
    let mut classes = [(0, 0); 256];
    let mut class = 0u32;
    while class < 256 {
        #[expect(clippy::indexing_slicing, reason = "evaluated by the compiler")]
        {
            let low_bits = if class < 8 { 0 } else { (class - 4) / 4 };
            classes[class as usize] = if class <= MAX_CLASS as u32 {
                (((class - 4 * low_bits) as u64) << low_bits, low_bits)
            } else {
                (0, 0)
            };
        }
        class = class.wrapping_add(1);
    }
    classes
};

/// Appends the values' classes, and the bits below them.
#[inline]
pub(crate) fn split(values: impl Iterator<Item = u64>, classes: &mut Vec<u8>, low_bits: &mut Vec<u8>) {
    let mut word = 0u64;
    let mut used = 0u32;
    for value in values {
        let (class, count) = class_of(value);
        classes.push(class);
        let low = value & 1u64.wrapping_shl(count).wrapping_sub(1);
        word |= low.wrapping_shl(used);
        used = used.wrapping_add(count);
        if used >= u64::BITS {
            low_bits.extend_from_slice(&word.to_le_bytes());
            used = used.wrapping_sub(u64::BITS);
            word = if used == 0 { 0 } else { low.wrapping_shr(count.wrapping_sub(used)) };
        }
    }
    let left = word.to_le_bytes();
    low_bits.extend(left.iter().take(used.div_ceil(8) as usize));
}

/// Puts classes and the bits below them together: the inverse of [`split`].
pub(crate) fn join(classes: &[u8], low_bits: &[u8], values: &mut Vec<u64>) -> Result<(), &'static str> {
    let mut at = 0usize;
    let mut max_class = 0;
    values.extend(classes.iter().map(|&class| {
        max_class = max_class.max(class);
        let (base, bits) = CLASSES.get(usize::from(class)).copied().unwrap_or_default();
        let value = base | bits_at(low_bits, at, bits);
        at = at.wrapping_add(bits as usize);
        value
    }));
    if max_class > MAX_CLASS {
        return Err("has a class that stands for nothing");
    }
    if at.div_ceil(8) == low_bits.len() { Ok(()) } else { Err("has not the bits that its classes ask for") }
}

/// `count` bits from bit `at` on, zeros past the end.
#[inline]
fn bits_at(bytes: &[u8], at: usize, count: u32) -> u64 {
    debug_assert!(count <= MAX_LOW_BITS);
    let mask = 1u64.wrapping_shl(count).wrapping_sub(1);
    let rest = bytes.get(at >> 3..).unwrap_or_default();
    let shift = (at & 7) as u32;
    match rest.first_chunk() {
        Some(word) if count.wrapping_add(shift) <= u64::BITS => u64::from_le_bytes(*word).wrapping_shr(shift) & mask,
        _ => {
            let mut wide = [0; 16];
            for (place, byte) in wide.iter_mut().zip(rest) {
                *place = *byte;
            }
            u128::from_le_bytes(wide).wrapping_shr(shift) as u64 & mask
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_holds_the_values_that_name_it() {
        let mut expected = 0u64;
        for class in 0..=MAX_CLASS {
            let (base, low_bits) = CLASSES[usize::from(class)];
            assert_eq!(base, expected, "{class}");
            let last = base + ((1u64 << low_bits) - 1);
            assert_eq!((class_of(base), class_of(last)), ((class, low_bits), (class, low_bits)));
            expected = last.wrapping_add(1);
        }
        assert_eq!(expected, 0, "the last class ends with the largest value");
    }

    #[test]
    fn the_ends_of_all_classes_return_at_every_offset_of_a_byte() {
        for ahead in 0..8 {
            // The value 8 has the class 8 and one bit below.
            let mut values = vec![8; ahead];
            values.extend(CLASSES.iter().take(usize::from(MAX_CLASS) + 1).flat_map(|(base, low_bits)| {
                let below = (1u64 << low_bits) - 1;
                [*base, base | below, base | (below / 3)]
            }));
            let (mut classes, mut low_bits, mut joined) = (Vec::new(), Vec::new(), Vec::new());
            split(values.iter().copied(), &mut classes, &mut low_bits);
            assert_eq!(join(&classes, &low_bits, &mut joined), Ok(()));
            assert_eq!(joined, values);
        }
    }

    #[test]
    fn classes_of_nothing_and_bits_too_few_or_too_many_are_refused() {
        let mut values = Vec::new();
        assert!(join(&[MAX_CLASS + 1], &[], &mut values).is_err());
        assert!(join(&[9], &[], &mut values).is_err());
        assert!(join(&[9], &[0], &mut values).is_ok());
        assert!(join(&[9], &[0, 0], &mut values).is_err());
        assert!(join(&[MAX_CLASS], &[0xff; 7], &mut values).is_err());
    }
}
