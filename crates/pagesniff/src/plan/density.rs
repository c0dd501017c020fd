//! How many bytes a record takes, as it was measured (docs/performance.md, "Bytes a record").

/// Records of a block, and bytes of the trace for each of them: without and with the page's hash.
///
/// A block has a header, dictionaries and a loss ledger of its own, which weigh more the fewer records share them. The last
/// line is of full blocks.
const MEASURED: [(f64, f64, f64); 5] =
    [(1.0, 89.3, 99.0), (10.0, 33.4, 41.4), (100.0, 16.2, 22.7), (900.0, 12.1, 17.3), (FULL_BLOCK, 8.8, 13.6)];

/// More records than this go into no block (trace's `MAX_BATCH_RECORDS`).
pub(super) const FULL_BLOCK: f64 = 16_384.0;

/// Bytes a record where blocks have so many, between the measured ones by the logarithm of their records.
pub(super) fn bytes_a_record(records_in_block: f64, page_hash: bool) -> f64 {
    let column = |&(_, plain, hashed): &(f64, f64, f64)| if page_hash { hashed } else { plain };
    let mut before = &MEASURED[0];
    for line in &MEASURED {
        if records_in_block <= line.0 {
            let width = (line.0 / before.0).ln();
            let share = if width > 0.0 { (records_in_block.max(1.0) / before.0).ln() / width } else { 0.0 };
            return column(before) + (column(line) - column(before)) * share;
        }
        before = line;
    }
    column(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_given_back_and_all_else_lies_between() {
        for (records, plain, hashed) in MEASURED {
            assert_eq!((bytes_a_record(records, false), bytes_a_record(records, true)), (plain, hashed));
        }
        assert_eq!(bytes_a_record(0.01, false), 89.3, "a block has at least one record");
        assert_eq!(bytes_a_record(1e9, true), 13.6);
        let between = bytes_a_record(30.0, false);
        assert!((16.2..33.4).contains(&between), "{between}");
        let falls = (0..100).map(|step| bytes_a_record(f64::from(step).exp2(), false)).collect::<Vec<_>>();
        assert!(falls.windows(2).all(|pair| pair[1] <= pair[0]));
    }
}
