//! A column of integers as bytes.
//!
//! Most columns hold the unpredictable rest of nanosecond times: 10 to 20 bits each, of which only the magnitude follows a
//! pattern. So a value is split: its *class* (bit length and the next two bits, one byte) goes through zstd, which finds
//! the pattern; the bits below go as they are, without padding, as nothing would shorten them.
//!
//! Values below 8 are their own class and have no bits below. From there on, for `L` the bit length, the class is
//! `4 L - 12 + (value >> (L - 3))`, and `L - 3` bits follow.

use crate::format::Section;
use crate::format::bytes::{Input, put_counted_bytes};

/// Codec byte, bits 0 and 1: one byte a value.
pub(crate) const CODEC_BYTES: u8 = 0;
/// Codec byte, bits 0 and 1: classes, and the bits below them.
pub(crate) const CODEC_CLASSES: u8 = 1;
/// Codec byte: the values are signed, the sign in bit 0 (zigzag).
pub(crate) const FLAG_SIGNED: u8 = 0x04;
/// Codec byte: bytes or classes went through zstd.
pub(crate) const FLAG_ZSTD: u8 = 0x08;
/// Codec byte: the column's second way of prediction.
pub(crate) const FLAG_ALTERNATIVE: u8 = 0x10;
/// Codec bytes with other bits are of a later version.
const KNOWN_CODEC_BITS: u8 = 0x1f;

/// Fast enough not to be noticed beside the decoder, and within 3 % of the entropy of the classes.
const ZSTD_LEVEL: i32 = 1;
/// Below this a frame's own header eats what compression gains.
const MIN_ZSTD_BYTES: usize = 32;
/// Bits below the class of the largest value.
const MAX_LOW_BITS: u32 = 61;

/// Class of a value and how many bits stand below it.
#[inline]
fn class_of(value: u64) -> (u8, u32) {
    let low_bits = 61u32.wrapping_sub((value | 4).leading_zeros());
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

/// The class of the largest value.
const MAX_CLASS: u8 = 251;

/// Small values for small magnitudes of either sign.
#[inline]
pub(crate) fn zigzag(value: u64) -> u64 {
    value.wrapping_shl(1) ^ ((value as i64) >> 63) as u64
}

/// The inverse of [`zigzag`].
#[inline]
fn unzigzag(value: u64) -> u64 {
    value >> 1 ^ (value & 1).wrapping_neg()
}

/// Turns columns into sections. Keeps its buffers.
pub(crate) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    symbols: Vec<u8>,
    low_bits: Vec<u8>,
    compressed: Vec<u8>,
    body: Vec<u8>,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").finish_non_exhaustive()
    }
}

impl Packer {
    /// With empty buffers.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)?;
        compressor.include_checksum(false)?;
        compressor.include_contentsize(false)?;
        Ok(Self { compressor, symbols: Vec::new(), low_bits: Vec::new(), compressed: Vec::new(), body: Vec::new() })
    }

    /// Appends a column of two's-complement differences. `alternative` tells by which of its two ways they were made.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, section: Section, values: &[u64], alternative: bool) {
        let mut codec = if alternative { FLAG_ALTERNATIVE } else { 0 };
        let any = values.iter().fold(0, |any, &value| any | value);
        if any == 0 {
            // Columns that are missing hold zeros; so do those without bytes.
            if alternative {
                crate::format::block::put_section(out, section, codec, &[]);
            }
            return;
        }
        self.body.clear();
        if any < 0x100 {
            self.symbols.clear();
            self.symbols.extend(values.iter().map(|&value| value as u8));
            codec |= CODEC_BYTES | self.compress_symbols();
            let symbols = if codec & FLAG_ZSTD == 0 { &self.symbols } else { &self.compressed };
            self.body.extend_from_slice(symbols);
        } else {
            codec |= CODEC_CLASSES;
            if any >> 63 == 0 {
                self.classify(values.iter().copied());
            } else {
                codec |= FLAG_SIGNED;
                self.classify(values.iter().map(|&value| zigzag(value)));
            }
            codec |= self.compress_symbols();
            let symbols = if codec & FLAG_ZSTD == 0 { &self.symbols } else { &self.compressed };
            put_counted_bytes(&mut self.body, symbols);
            self.body.extend_from_slice(&self.low_bits);
        }
        crate::format::block::put_section(out, section, codec, &self.body);
    }

    /// Appends a dictionary.
    pub(crate) fn put_dictionary(&mut self, out: &mut Vec<u8>, section: Section, entries: &[u8]) {
        self.symbols.clear();
        self.symbols.extend_from_slice(entries);
        let codec = self.compress_symbols();
        self.body.clear();
        if codec & FLAG_ZSTD == 0 {
            self.body.extend_from_slice(&self.symbols);
        } else {
            crate::format::bytes::put_varint(&mut self.body, self.symbols.len() as u64);
            self.body.extend_from_slice(&self.compressed);
        }
        crate::format::block::put_section(out, section, codec, &self.body);
    }

    /// Splits the values into `symbols` and `low_bits`.
    #[inline]
    fn classify(&mut self, values: impl Iterator<Item = u64>) {
        self.symbols.clear();
        self.low_bits.clear();
        let mut word = 0u64;
        let mut used = 0u32;
        for value in values {
            let (class, low_bits) = class_of(value);
            self.symbols.push(class);
            let low = value & 1u64.wrapping_shl(low_bits).wrapping_sub(1);
            word |= low.wrapping_shl(used);
            used = used.wrapping_add(low_bits);
            if used >= u64::BITS {
                self.low_bits.extend_from_slice(&word.to_le_bytes());
                used = used.wrapping_sub(u64::BITS);
                word = if used == 0 { 0 } else { low.wrapping_shr(low_bits.wrapping_sub(used)) };
            }
        }
        let left = word.to_le_bytes();
        self.low_bits.extend(left.iter().take(used.div_ceil(8) as usize));
    }

    /// Compresses `symbols` into `compressed`, and returns [`FLAG_ZSTD`] where that is shorter.
    fn compress_symbols(&mut self) -> u8 {
        if self.symbols.len() < MIN_ZSTD_BYTES {
            return 0;
        }
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(self.symbols.len()));
        match self.compressor.compress_to_buffer(&self.symbols, &mut self.compressed) {
            Ok(len) if len < self.symbols.len() => FLAG_ZSTD,
            _ => 0,
        }
    }
}

/// Turns sections into columns. Keeps its buffers.
pub(crate) struct Unpacker {
    decompressor: zstd::bulk::Decompressor<'static>,
    symbols: Vec<u8>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

/// A column's values in their order. Past the end, and so all along a column that is missing, they are 0.
#[derive(Debug, Default)]
pub(crate) struct Column {
    values: Vec<u64>,
    at: usize,
    /// Whether its second way of prediction was taken.
    pub(crate) alternative: bool,
}

impl Column {
    /// The next value.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let value = self.values.get(self.at).copied().unwrap_or(0);
        self.at = self.at.wrapping_add(1);
        value
    }

    /// All values, from the first.
    pub(crate) fn values(&self) -> &[u64] {
        &self.values
    }

    /// Makes it a column that is missing.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
        self.at = 0;
        self.alternative = false;
    }
}

impl Unpacker {
    /// With empty buffers.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { decompressor: zstd::bulk::Decompressor::new()?, symbols: Vec::new() })
    }

    /// Reads a column that holds `count` values.
    pub(crate) fn column(
        &mut self,
        (codec, bytes): (u8, &[u8]),
        count: usize,
        column: &mut Column,
    ) -> Result<(), &'static str> {
        column.clear();
        column.alternative = codec & FLAG_ALTERNATIVE != 0;
        if codec & !KNOWN_CODEC_BITS != 0 {
            return Err("has an encoding of a later version");
        }
        if bytes.is_empty() {
            return Ok(());
        }
        match codec & 3 {
            CODEC_BYTES => {
                self.symbols(codec, bytes, count)?;
                column.values.extend(self.symbols.iter().map(|&byte| u64::from(byte)));
            }
            CODEC_CLASSES => {
                let mut input = Input::new(bytes);
                let classes = input.counted_bytes().ok_or("is cut")?;
                self.symbols(codec, classes, count)?;
                join(&self.symbols, input.rest(), &mut column.values)?;
            }
            _ => return Err("has an encoding of a later version"),
        }
        if codec & FLAG_SIGNED != 0 {
            for value in &mut column.values {
                *value = unzigzag(*value);
            }
        }
        Ok(())
    }

    /// Reads a dictionary of at most `bound` bytes.
    pub(crate) fn dictionary(&mut self, (codec, bytes): (u8, &[u8]), bound: usize) -> Result<&[u8], &'static str> {
        if codec & FLAG_ZSTD == 0 {
            self.symbols(codec, bytes, bytes.len())?;
        } else {
            let mut input = Input::new(bytes);
            let len = input.varint().and_then(|len| usize::try_from(len).ok()).ok_or("is cut")?;
            if len > bound {
                return Err("are more than its records can name");
            }
            self.symbols(codec, input.rest(), len)?;
        }
        Ok(&self.symbols)
    }

    /// Brings `count` bytes or classes into `symbols`. The caller bounds `count`, and so what zstd may write.
    fn symbols(&mut self, codec: u8, bytes: &[u8], count: usize) -> Result<(), &'static str> {
        self.symbols.clear();
        if codec & FLAG_ZSTD == 0 {
            self.symbols.extend_from_slice(bytes);
        } else {
            self.symbols.reserve(count);
            self.decompressor
                .decompress_to_buffer(bytes, &mut self.symbols)
                .map_err(|_| "does not decompress to its length")?;
        }
        if self.symbols.len() == count { Ok(()) } else { Err("has not the length that its block says") }
    }
}

/// Puts classes and the bits below them together.
fn join(classes: &[u8], low_bits: &[u8], values: &mut Vec<u64>) -> Result<(), &'static str> {
    let mut at = 0usize;
    let mut max_class = 0;
    values.reserve(classes.len());
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
    use proptest::prelude::*;

    fn packed(values: &[u64]) -> Option<(u8, Vec<u8>)> {
        let mut out = Vec::new();
        Packer::new().unwrap().put(&mut out, Section::Time, values, true);
        let mut input = Input::new(&out);
        assert_eq!(input.u8()?, Section::Time as u8);
        Some((input.u8()?, input.counted_bytes()?.to_vec()))
    }

    fn unpacked(codec: u8, bytes: &[u8], count: usize) -> Result<Vec<u64>, &'static str> {
        let mut column = Column::default();
        Unpacker::new().unwrap().column((codec, bytes), count, &mut column)?;
        Ok((0..count).map(|_| column.next()).collect())
    }

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
    fn a_column_of_zeros_takes_nothing() {
        let mut out = Vec::new();
        Packer::new().unwrap().put(&mut out, Section::Time, &[0; 1000], false);
        assert!(out.is_empty());
        let (codec, bytes) = packed(&[0; 1000]).unwrap();
        assert!(bytes.is_empty());
        assert_eq!(unpacked(codec, &bytes, 1000), Ok(vec![0; 1000]));
    }

    proptest! {
        #[test]
        fn values_return_as_they_went(
            values in proptest::collection::vec((any::<u64>(), 0u32..64).prop_map(|(v, s)| v >> s), 0..300),
            negative in any::<bool>(),
        ) {
            let values: Vec<u64> =
                values.into_iter().map(|value| if negative { (value >> 1).wrapping_neg() } else { value }).collect();
            let (codec, bytes) = packed(&values).unwrap();
            prop_assert_eq!(unpacked(codec, &bytes, values.len()), Ok(values));
        }

        #[test]
        fn forged_columns_are_refused_or_read_and_never_panic(
            codec in 0u8..0x40,
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            count in 0usize..200,
        ) {
            if let Ok(values) = unpacked(codec, &bytes, count) {
                prop_assert_eq!(values.len(), count);
            }
        }
    }

    #[test]
    fn a_cut_column_is_refused() {
        let values: Vec<u64> = (0..500).map(|n: u64| n.wrapping_mul(n).wrapping_mul(0x9e37_79b9)).collect();
        let (codec, bytes) = packed(&values).unwrap();
        for len in 1..bytes.len() {
            assert!(unpacked(codec, &bytes[..len], values.len()).is_err(), "{len}");
        }
        assert!(unpacked(codec, &bytes, values.len() - 1).is_err());
    }
}
