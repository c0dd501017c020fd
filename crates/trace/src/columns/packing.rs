//! A column of integers as the bytes of a section, and back.
//!
//! A value goes through up to three steps, and the codec byte says which:
//!
//! 1. Shift: bits that are 0 at the low end of all values are left away. LSNs are multiples of 8.
//! 2. Sign: where a value is negative, zigzag makes them all small again.
//! 3. One byte a value where all are that small; else a [`Table`], where they are few; else [`classes`]. The bytes, the
//!    places in the table, or the classes, go through zstd where that makes them shorter.

use super::classes;
use super::table::Table;
use crate::format::bytes::{Input, put_counted_bytes, put_varint};
use crate::format::{Section, block};

/// Codec byte, bits 0 and 1: one byte a value.
const CODEC_BYTES: u8 = 0;
/// Codec byte, bits 0 and 1: classes, and the bits below them.
const CODEC_CLASSES: u8 = 1;
/// Codec byte, bits 0 and 1: a table of values, and one byte a value.
const CODEC_TABLE: u8 = 2;
/// Codec byte, bits 0 and 1.
const CODEC_MASK: u8 = 3;
/// Codec byte: the values are signed, the sign in bit 0 (zigzag).
const FLAG_SIGNED: u8 = 0x04;
/// Codec byte: bytes, places or classes went through zstd.
const FLAG_ZSTD: u8 = 0x08;
/// Codec byte: the column's second way of prediction.
const FLAG_ALTERNATIVE: u8 = 0x10;
/// Codec byte: the first byte says by how many bits the values were shifted down.
const FLAG_SHIFTED: u8 = 0x20;
/// Codec bytes with other bits are of a later version.
const KNOWN_CODEC_BITS: u8 = 0x3f;

/// Fast enough not to be noticed beside the decoder, and within 3 % of the entropy of the classes.
const ZSTD_LEVEL: i32 = 1;
/// Below this a frame's own header eats what compression gains.
const MIN_ZSTD_BYTES: usize = 32;

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

/// By how many bits values are shifted down, of which so many bits are set in one or the other. Those that fit into a
/// byte are left as they are, and so are those too few to save the byte that tells the shift.
fn shift_of(any: u64, count: usize) -> u32 {
    let shift = any.trailing_zeros();
    let is_worth_it = any >> 8 != 0 && (shift as usize).saturating_mul(count) > 8;
    if is_worth_it { shift } else { 0 }
}

/// Turns columns into sections. Keeps its buffers.
pub(crate) struct Packer {
    compressor: zstd::bulk::Compressor<'static>,
    table: Table,
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
        Ok(Self {
            compressor,
            table: Table::new(),
            symbols: Vec::new(),
            low_bits: Vec::new(),
            compressed: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Appends a column of two's-complement differences. `alternative` tells by which of its two ways they were made.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>, section: Section, values: &[u64], alternative: bool) {
        let alternative = if alternative { FLAG_ALTERNATIVE } else { 0 };
        let any = values.iter().fold(0, |any, &value| any | value);
        if any == 0 {
            // Columns that are missing hold zeros; so do those without bytes.
            if alternative != 0 {
                block::put_section(out, section, alternative, &[]);
            }
            return;
        }
        let shift = shift_of(any, values.len());
        self.body.clear();
        if shift != 0 {
            self.body.push(shift as u8);
        }
        let codec = if any >> 63 == 0 {
            self.pack(values.iter().map(|&value| value.wrapping_shr(shift)))
        } else {
            let signed = |&value: &u64| zigzag((value as i64).wrapping_shr(shift) as u64);
            FLAG_SIGNED | self.pack(values.iter().map(signed))
        };
        let shifted = if shift == 0 { 0 } else { FLAG_SHIFTED };
        block::put_section(out, section, alternative | shifted | codec, &self.body);
    }

    /// Appends the values to `body`, and returns how, as bits of the codec byte.
    #[inline]
    fn pack(&mut self, values: impl ExactSizeIterator<Item = u64> + Clone) -> u8 {
        self.symbols.clear();
        if values.clone().fold(0, |any, value| any | value) >> u8::BITS == 0 {
            self.symbols.extend(values.map(|value| value as u8));
            return CODEC_BYTES | self.put_symbols();
        }
        if self.table.enter(values.clone(), &mut self.symbols) {
            self.table.put(&mut self.body);
            return CODEC_TABLE | self.put_symbols();
        }
        self.symbols.clear();
        self.low_bits.clear();
        classes::split(values, &mut self.symbols, &mut self.low_bits);
        let zstd = self.compress_symbols();
        put_counted_bytes(&mut self.body, if zstd == 0 { &self.symbols } else { &self.compressed });
        self.body.extend_from_slice(&self.low_bits);
        CODEC_CLASSES | zstd
    }

    /// Appends a dictionary.
    pub(crate) fn put_dictionary(&mut self, out: &mut Vec<u8>, section: Section, entries: &[u8]) {
        self.symbols.clear();
        self.symbols.extend_from_slice(entries);
        self.body.clear();
        let zstd = self.compress_symbols();
        if zstd == 0 {
            self.body.extend_from_slice(&self.symbols);
        } else {
            put_varint(&mut self.body, self.symbols.len() as u64);
            self.body.extend_from_slice(&self.compressed);
        }
        block::put_section(out, section, zstd, &self.body);
    }

    /// Appends `symbols` to `body`, compressed where that is shorter: then it returns [`FLAG_ZSTD`].
    fn put_symbols(&mut self) -> u8 {
        let zstd = self.compress_symbols();
        self.body.extend_from_slice(if zstd == 0 { &self.symbols } else { &self.compressed });
        zstd
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

/// Turns sections into columns. Keeps its buffers.
pub(crate) struct Unpacker {
    decompressor: zstd::bulk::Decompressor<'static>,
    table: Table,
    symbols: Vec<u8>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker").finish_non_exhaustive()
    }
}

/// What is wrong with a column whose bytes end before its values do.
const CUT: &str = "is cut";

impl Unpacker {
    /// With empty buffers.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { decompressor: zstd::bulk::Decompressor::new()?, table: Table::new(), symbols: Vec::new() })
    }

    /// Reads a column that holds `count` values. What it allocates is bounded by `count`, whatever the bytes say.
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
        let mut input = Input::new(bytes);
        let shift = if codec & FLAG_SHIFTED == 0 { 0 } else { u32::from(input.u8().ok_or(CUT)?) };
        if shift >= u64::BITS {
            return Err("has a shift of more bits than a value has");
        }
        match codec & CODEC_MASK {
            CODEC_BYTES => {
                self.take_symbols(codec, input.rest(), count)?;
                column.values.extend(self.symbols.iter().map(|&byte| u64::from(byte)));
            }
            CODEC_CLASSES => {
                let classes = input.counted_bytes().ok_or(CUT)?;
                self.take_symbols(codec, classes, count)?;
                classes::join(&self.symbols, input.rest(), &mut column.values)?;
            }
            CODEC_TABLE => {
                self.table.read(&mut input)?;
                self.take_symbols(codec, input.rest(), count)?;
                self.table.look_up(&self.symbols, &mut column.values)?;
            }
            _ => return Err("has an encoding of a later version"),
        }
        if codec & FLAG_SIGNED != 0 {
            column.values.iter_mut().for_each(|value| *value = unzigzag(*value).wrapping_shl(shift));
        } else if shift != 0 {
            column.values.iter_mut().for_each(|value| *value = value.wrapping_shl(shift));
        }
        Ok(())
    }

    /// Reads a dictionary of at most `bound` bytes.
    pub(crate) fn dictionary(&mut self, (codec, bytes): (u8, &[u8]), bound: usize) -> Result<&[u8], &'static str> {
        if codec & !FLAG_ZSTD != 0 {
            return Err("have an encoding of a later version");
        }
        let mut input = Input::new(bytes);
        let len = if codec & FLAG_ZSTD == 0 {
            bytes.len()
        } else {
            input.varint().and_then(|len| usize::try_from(len).ok()).ok_or("are cut")?
        };
        if len > bound {
            return Err("are more than its records can name");
        }
        self.take_symbols(codec, input.rest(), len)?;
        Ok(&self.symbols)
    }

    /// Brings `count` bytes, places or classes into `symbols`. The caller bounds `count`, and so what is allocated.
    fn take_symbols(&mut self, codec: u8, bytes: &[u8], count: usize) -> Result<(), &'static str> {
        self.symbols.clear();
        if codec & FLAG_ZSTD != 0 {
            self.symbols.reserve(count);
            self.decompressor
                .decompress_to_buffer(bytes, &mut self.symbols)
                .map_err(|_| "does not decompress to its length")?;
        } else if bytes.len() == count {
            self.symbols.extend_from_slice(bytes);
        }
        if self.symbols.len() == count { Ok(()) } else { Err("has not the length that its block says") }
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
        assert!(column.values.is_empty() || column.values.len() == count);
        Ok((0..count).map(|_| column.next()).collect())
    }

    /// Packs, checks the codec byte without the bits that all columns here have in common, and unpacks again.
    fn returns_as(values: &[u64], codec_bits: u8) -> usize {
        let (codec, bytes) = packed(values).unwrap();
        assert_eq!(codec & !FLAG_ZSTD & !FLAG_ALTERNATIVE, codec_bits, "{:?}", values.get(..8));
        assert_eq!(unpacked(codec, &bytes, values.len()).as_deref(), Ok(values));
        bytes.len()
    }

    /// Bits that look random.
    fn noise(n: u64) -> u64 {
        n.wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes().wrapping_mul(0x9e37_79b9_7f4a_7c15)
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

    #[test]
    fn few_values_become_a_table() {
        let few = |n: usize| [6190, 12_381, 300][n % 3];
        let len = returns_as(&(0..4000).map(few).collect::<Vec<_>>(), CODEC_TABLE);
        assert!(len < 100, "{len}");
        let signed: Vec<u64> = (0..4000).map(|n| if n % 5 == 0 { u64::MAX } else { few(n) }).collect();
        let len = returns_as(&signed, CODEC_TABLE | FLAG_SIGNED);
        assert!(len < 100, "{len}");
        let aligned: Vec<u64> = signed.iter().map(|value| value << 10).collect();
        returns_as(&aligned, CODEC_TABLE | FLAG_SIGNED | FLAG_SHIFTED);
        returns_as(&[u64::MAX >> 1; 16], CODEC_TABLE);
        returns_as(&[u64::MAX >> 1; 15], CODEC_CLASSES);
    }

    #[test]
    fn aligned_values_lose_their_zeros() {
        let aligned: Vec<u64> = (0..4000).map(|n| noise(n) >> 40 << 3).collect();
        let len = returns_as(&aligned, CODEC_CLASSES | FLAG_SHIFTED);
        assert!(len < aligned.len() * 25 / 8, "{len}");
        let signed: Vec<u64> = aligned.iter().map(|value| value.wrapping_sub(1 << 26)).collect();
        let len = returns_as(&signed, CODEC_CLASSES | FLAG_SIGNED | FLAG_SHIFTED);
        assert!(len < signed.len() * 25 / 8, "{len}");
        let small: Vec<u64> = (0..4000).map(|n| noise(n) >> 57 << 3).collect();
        returns_as(&small, CODEC_BYTES | FLAG_SHIFTED);
    }

    #[test]
    fn the_bounds_of_shift_and_sign_return() {
        let top = 1u64 << 63;
        returns_as(&[top; 4], CODEC_BYTES | FLAG_SIGNED | FLAG_SHIFTED);
        returns_as(&[0, top, top], CODEC_BYTES | FLAG_SIGNED | FLAG_SHIFTED);
        returns_as(&[1 << 62, top, top | 1 << 62], CODEC_BYTES | FLAG_SIGNED | FLAG_SHIFTED);
        returns_as(&[top, 1, u64::MAX], CODEC_CLASSES | FLAG_SIGNED);
        returns_as(&[top, 2, u64::MAX - 1, top - 2, 4, 6, 8, 10, 12], CODEC_CLASSES | FLAG_SIGNED | FLAG_SHIFTED);
        returns_as(&[127, 128_u64.wrapping_neg()], CODEC_BYTES | FLAG_SIGNED);
        returns_as(&[127, 129_u64.wrapping_neg()], CODEC_CLASSES | FLAG_SIGNED);
        returns_as(&[255], CODEC_BYTES);
        returns_as(&[256, 2], CODEC_CLASSES);
        // Eight bits are what the shift's own byte takes, nine are one more.
        returns_as(&[256], CODEC_CLASSES);
        returns_as(&[512], CODEC_BYTES | FLAG_SHIFTED);
    }

    #[test]
    fn a_shift_is_read_up_to_63() {
        assert_eq!(unpacked(CODEC_BYTES | FLAG_SHIFTED, &[63, 1, 0], 2), Ok(vec![1 << 63, 0]));
        assert_eq!(unpacked(CODEC_BYTES | FLAG_SHIFTED | FLAG_SIGNED, &[62, 1, 2], 2), Ok(vec![3 << 62, 1 << 62]));
        assert_eq!(unpacked(CODEC_BYTES | FLAG_SHIFTED, &[0, 1], 1), Ok(vec![1]));
        assert!(unpacked(CODEC_BYTES | FLAG_SHIFTED, &[64, 1], 1).is_err());
        assert!(unpacked(CODEC_BYTES | FLAG_SHIFTED, &[255, 1], 1).is_err());
        assert!(unpacked(CODEC_BYTES | FLAG_SHIFTED, &[8], 1).is_err());
    }

    #[test]
    fn later_encodings_and_lengths_that_are_not_the_count_are_refused() {
        assert!(unpacked(CODEC_MASK, &[1], 1).is_err());
        assert!(unpacked(0x40, &[1], 1).is_err());
        assert!(unpacked(0x80, &[], 1).is_err());
        assert!(unpacked(CODEC_BYTES, &[1, 2], 1).is_err());
        let mut unpacker = Unpacker::new().unwrap();
        assert!(unpacker.dictionary((FLAG_SHIFTED, &[1, 2]), 2).is_err());
        assert!(unpacker.dictionary((0, &[1, 2, 3]), 2).is_err());
        assert_eq!(unpacker.dictionary((0, &[1, 2]), 2), Ok(&[1, 2][..]));
    }

    #[test]
    fn a_forged_count_costs_no_memory() {
        let (codec, bytes) = packed(&vec![300; 1 << 16]).unwrap();
        let (mut unpacker, mut column) = (Unpacker::new().unwrap(), Column::default());
        assert!(unpacker.column((codec, &bytes), 10, &mut column).is_err());
        assert!(unpacker.column((CODEC_BYTES, &[7; 1 << 16]), 10, &mut column).is_err());
        assert!(unpacker.column((CODEC_CLASSES, &[0xff, 0xff, 0xff, 0xff, 0x0f, 1]), 10, &mut column).is_err());
        assert!(unpacker.column((CODEC_TABLE, &[0xff, 0xff, 0xff, 0xff, 0x0f, 1]), 10, &mut column).is_err());
        let allocated = unpacker.symbols.capacity() + column.values.capacity();
        assert!(allocated < 1000, "{allocated}");
    }

    #[test]
    fn the_columns_in_the_description_of_the_format_are_read_and_written_as_it_says() {
        let page = include_str!("../../../../docs/trace-format.md");
        let rows = page.lines().skip_while(|line| !line.starts_with("| column | codec |")).skip(2);
        let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
        assert!(rows.len() >= 6);
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let values: Vec<u64> = cells[0].split(", ").map(|value| value.parse::<i64>().unwrap() as u64).collect();
            let hex = |digits: &str| u8::from_str_radix(digits, 16).unwrap();
            let (codec, bytes) = (hex(cells[1]), cells[2].split(' ').map(hex).collect::<Vec<_>>());
            assert_eq!(unpacked(codec, &bytes, values.len()).as_ref(), Ok(&values), "{row}");
            // The packer makes no table of so few values.
            if codec & CODEC_MASK != CODEC_TABLE {
                assert_eq!(packed(&values).unwrap(), (codec | FLAG_ALTERNATIVE, bytes), "{row}");
            }
        }
    }

    /// Columns of many values, of few, or of small ones; of either sign, shifted by up to 63 bits.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let any_magnitude = (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift).boxed();
        let few = proptest::collection::vec(any_magnitude.clone(), 1..20).prop_flat_map(|few| {
            let one = prop::sample::select(few);
            proptest::collection::vec(one, 0..700)
        });
        let columns = prop_oneof![
            proptest::collection::vec(any_magnitude, 0..300),
            few,
            proptest::collection::vec(0u64..300, 0..300),
        ];
        (columns, 0..3, prop_oneof![2 => Just(0u32), 1 => 0u32..64]).prop_map(|(values, sign, shift)| {
            let signed = |(n, value): (usize, u64)| match sign {
                0 => value,
                1 => value.wrapping_neg(),
                _ => {
                    if n % 2 == 0 {
                        value
                    } else {
                        value.wrapping_neg()
                    }
                }
            };
            values.into_iter().enumerate().map(|each| signed(each) << shift).collect()
        })
    }

    proptest! {
        #[test]
        fn values_return_as_they_went(values in values()) {
            let (codec, bytes) = packed(&values).unwrap();
            prop_assert_eq!(unpacked(codec, &bytes, values.len()), Ok(values));
        }

        #[test]
        fn forged_columns_are_refused_or_read_and_never_panic(
            codec in any::<u8>(),
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..100),
            count in prop_oneof![0usize..4, 0usize..200],
        ) {
            if let Ok(values) = unpacked(codec, &bytes, count) {
                prop_assert_eq!(values.len(), count);
            }
        }

        #[test]
        fn damaged_columns_are_refused_or_read_and_never_panic(
            values in values(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        ) {
            let (codec, mut bytes) = packed(&values).unwrap();
            for (place, byte) in changes.into_iter().filter(|_| !bytes.is_empty()).collect::<Vec<_>>() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if let Ok(read) = unpacked(codec, &bytes, values.len()) {
                prop_assert_eq!(read.len(), values.len());
            }
        }
    }

    #[test]
    fn a_cut_column_is_refused() {
        let noisy: Vec<u64> = (0..500).map(noise).collect();
        let few: Vec<u64> = (0..500).map(|n| noise(n % 7)).collect();
        let aligned: Vec<u64> = (0..500).map(|n| noise(n) << 16).collect();
        for values in [noisy, few, aligned] {
            let (codec, bytes) = packed(&values).unwrap();
            for len in 1..bytes.len() {
                assert!(unpacked(codec, &bytes[..len], values.len()).is_err(), "{codec:#x} {len}");
            }
            assert!(unpacked(codec, &bytes, values.len() - 1).is_err());
            assert!(unpacked(codec, &bytes, values.len() + 1).is_err());
        }
    }
}
