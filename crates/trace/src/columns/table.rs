//! The codec of tables: where few values make up a whole column, as the transfer times of a virtual interface do, each
//! is written once, and the column is one byte a value.

use crate::format::bytes::{Input, put_varint};

/// Writers make no longer table: with more values, classes take about as little.
const MAX_WRITTEN_VALUES: usize = 64;
/// Nor one with more than this part of the column's values, so that the table itself takes less than a byte for each of
/// them, however long its varints are.
const VALUES_PER_ENTRY: usize = 16;
/// What one byte can name.
const MAX_READ_VALUES: u64 = 1 << u8::BITS;

/// The distinct values of a column, in the order of their first appearance.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<u64>,
    /// By a few bits of a value's hash, where it stands, unless another one has taken the place since.
    hints: [u8; 256],
}

impl Table {
    /// With no entry.
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), hints: [0; 256] }
    }

    /// Enters the values of a column, and appends where each stands. False where too many are distinct.
    #[inline]
    pub(crate) fn enter(&mut self, values: impl ExactSizeIterator<Item = u64>, places: &mut Vec<u8>) -> bool {
        let most = MAX_WRITTEN_VALUES.min(values.len() / VALUES_PER_ENTRY);
        self.entries.clear();
        for value in values {
            let Some(place) = self.place(value, most) else { return false };
            places.push(place);
        }
        true
    }

    /// Where a value stands, entered if it is new; `None` where that would be one entry more than `most`.
    #[inline]
    fn place(&mut self, value: u64, most: usize) -> Option<u8> {
        let hash = value.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(56) as usize;
        let hint = self.hints.get_mut(hash)?;
        if self.entries.get(usize::from(*hint)) == Some(&value) {
            return Some(*hint);
        }
        let known = self.entries.iter().position(|&entry| entry == value);
        if known.is_none() {
            if self.entries.len() >= most {
                return None;
            }
            self.entries.push(value);
        }
        let place = known.unwrap_or(self.entries.len().wrapping_sub(1));
        *hint = place as u8;
        Some(*hint)
    }

    /// Appends the table: how many entries, and each, as varints.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.entries.len() as u64);
        for &entry in &self.entries {
            put_varint(out, entry);
        }
    }

    /// Reads a table that [`Self::put`] wrote.
    pub(crate) fn read(&mut self, input: &mut Input<'_>) -> Result<(), &'static str> {
        const CUT: &str = "has a table that is cut";
        self.entries.clear();
        let count = input.varint().ok_or(CUT)?;
        if count > MAX_READ_VALUES {
            return Err("has a table that no byte can name");
        }
        for _ in 0..count {
            self.entries.push(input.varint().ok_or(CUT)?);
        }
        Ok(())
    }

    /// Appends the values that stand at these places.
    pub(crate) fn look_up(&self, places: &[u8], values: &mut Vec<u64>) -> Result<(), &'static str> {
        let mut is_known = true;
        values.extend(places.iter().map(|&place| {
            let entry = self.entries.get(usize::from(place));
            is_known &= entry.is_some();
            entry.copied().unwrap_or(0)
        }));
        if is_known { Ok(()) } else { Err("names a value that its table has not") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(values: &[u64]) -> Option<(Table, Vec<u8>)> {
        let (mut table, mut places) = (Table::new(), Vec::new());
        table.enter(values.iter().copied(), &mut places).then_some((table, places))
    }

    /// A column of `count` values, of which so many are distinct.
    fn column(count: usize, distinct: usize) -> Vec<u64> {
        (0..count).map(|n| u64::MAX - (n % distinct) as u64 * 0x0100_0000_0001).collect()
    }

    #[test]
    fn a_table_has_64_entries_and_a_sixteenth_of_the_column_at_most() {
        for (count, distinct, fits) in
            [(1024, 64, true), (1024, 65, false), (1023, 64, false), (16, 1, true), (15, 1, false), (0, 1, true)]
        {
            let values = column(count, distinct);
            let Some((table, places)) = entered(&values) else {
                assert!(!fits, "{count} {distinct}");
                continue;
            };
            assert!(fits, "{count} {distinct}");
            let (mut bytes, mut read, mut restored) = (Vec::new(), Table::new(), Vec::new());
            table.put(&mut bytes);
            let mut input = Input::new(&bytes);
            assert_eq!(read.read(&mut input), Ok(()));
            assert!(input.is_empty());
            assert_eq!(read.look_up(&places, &mut restored), Ok(()));
            assert_eq!(restored, values);
        }
    }

    #[test]
    fn values_whose_hashes_meet_are_told_apart() {
        // Small numbers times this odd constant's inverse all hash to 0.
        let inverse = 0xf1de_83e1_9937_733d_u64;
        assert_eq!(inverse.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1);
        let values: Vec<u64> = (0..800).map(|n| (n * 7 % 50u64).wrapping_mul(inverse)).collect();
        let (table, places) = entered(&values).unwrap();
        let mut restored = Vec::new();
        assert_eq!(table.look_up(&places, &mut restored), Ok(()));
        assert_eq!(restored, values);
    }

    #[test]
    fn a_reader_takes_every_table_that_bytes_can_name_and_no_other() {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 256);
        bytes.extend((0..=255u8).flat_map(|low| [0x80 | low, 0x02 | low >> 7]));
        let mut table = Table::new();
        assert_eq!(table.read(&mut Input::new(&bytes)), Ok(()));
        let mut values = Vec::new();
        assert_eq!(table.look_up(&[0, 255], &mut values), Ok(()));
        assert_eq!(values, [256, 0x1ff]);
        assert!(table.read(&mut Input::new(&bytes[..bytes.len() - 1])).is_err());
        let mut longer = Vec::new();
        put_varint(&mut longer, 257);
        longer.extend([0; 257]);
        assert!(table.read(&mut Input::new(&longer)).is_err());
        let mut forged = Vec::new();
        put_varint(&mut forged, u64::MAX);
        assert!(table.read(&mut Input::new(&forged)).is_err());
        assert!(table.read(&mut Input::new(&[])).is_err());
    }

    #[test]
    fn places_outside_the_table_are_refused() {
        let mut table = Table::new();
        assert_eq!(table.read(&mut Input::new(&[2, 7, 9])), Ok(()));
        assert!(table.look_up(&[0, 1, 2], &mut Vec::new()).is_err());
        assert_eq!(table.read(&mut Input::new(&[0])), Ok(()));
        assert!(table.look_up(&[0], &mut Vec::new()).is_err());
        assert!(table.look_up(&[], &mut Vec::new()).is_ok());
    }
}
