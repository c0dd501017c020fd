//! One hash for what a request asks for, so that samples by key agree wherever they are taken.

use record::{Key, Target};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// xxh3-64 of what is asked for, evenly spread for every `seed`.
///
/// A GetPage is hashed by Neon's 16-byte compact key, big-endian; whatever has no such key (the other kinds, and
/// tablespaces over 16 bits) by its kind and numbers in 22 bytes, so that the two never coincide by construction.
pub fn target_hash(target: &Target, seed: u64) -> u64 {
    match target.key().and_then(Key::to_compact) {
        Some(compact) => xxh3_64_with_seed(&compact.to_be_bytes(), seed),
        None => xxh3_64_with_seed(&spelt_out(target), seed),
    }
}

/// The kind's ordinal and all its numbers, 0 where the kind has none, in 22 bytes.
fn spelt_out(target: &Target) -> [u8; 22] {
    let (first, last) = match *target {
        Target::Slru { kind, segno } => (u32::from(kind), segno),
        _ => (target.rel().map_or(0, |rel| rel.spcnode), target.blkno().unwrap_or(0)),
    };
    let (relnode, forknum) = target.rel().map_or((0, 0), |rel| (rel.relnode, rel.forknum));
    let numbers = u128::from(first) << 96
        | u128::from(target.dbnode().unwrap_or(0)) << 64
        | u128::from(relnode) << 32
        | u128::from(last);
    let mut bytes = [0; 22];
    let fields = [target.kind() as u8, forknum].into_iter().chain(numbers.to_be_bytes());
    for (byte, field) in bytes.iter_mut().zip(fields) {
        *byte = field;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use record::RelTag;

    use super::*;

    #[test]
    fn every_number_of_a_target_tells_in_its_hash() {
        let rel = RelTag { spcnode: 1663, dbnode: 5, relnode: 7, forknum: 0 };
        let wide = RelTag { spcnode: 0x1_067F, ..rel };
        let targets = [
            Target::GetPage { rel, blkno: 0 },
            Target::GetPage { rel, blkno: 1 },
            Target::GetPage { rel: RelTag { forknum: 1, ..rel }, blkno: 0 },
            Target::GetPage { rel: wide, blkno: 0 },
            Target::GetPage { rel: RelTag { relnode: 8, ..wide }, blkno: 0 },
            Target::GetPage { rel: RelTag { forknum: 1, ..wide }, blkno: 0 },
            Target::GetPage { rel: wide, blkno: 1 },
            Target::Exists { rel },
            Target::Nblocks { rel },
            Target::DbSize { dbnode: 5 },
            Target::DbSize { dbnode: 6 },
            Target::Slru { kind: 0, segno: 5 },
            Target::Slru { kind: 1, segno: 5 },
            Target::Slru { kind: 1, segno: 6 },
        ];
        let hashes: HashSet<u64> = targets.iter().map(|target| target_hash(target, 0)).collect();
        assert_eq!(hashes.len(), targets.len());
        assert_ne!(target_hash(&targets[0], 0), target_hash(&targets[0], 1));
    }
}
