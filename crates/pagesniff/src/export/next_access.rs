//! Tells each access of a file when its object is accessed next, in bounded memory.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::io::{self, Read, Seek, SeekFrom, Write};

use analysis::export::{ORACLE_BYTES, object_of, tell_next_access};
use foldhash::fast::RandomState;

/// So many objects are followed at once: what a table of 2^22 places holds before it grows, 72 MiB; 28 GiB of different pages.
/// For every so many more, the file is gone over once more.
pub(super) const MOST_OBJECTS: usize = 7 << 19;

/// Accesses that are read and written at once, 1.5 MiB.
const PIECE_ACCESSES: u64 = 1 << 16;

/// Goes over the file from its end to its beginning, where the access that was met last is the next one.
///
/// Objects are followed if their hash lies in a range, at first in all of it. When there are too many the range is halved, and
/// what falls out of it has its turn in a later pass.
pub(super) fn link<F: Read + Write + Seek>(file: &mut F, accesses: u64, most_objects: usize) -> io::Result<()> {
    let hasher = RandomState::default();
    let mut from_hash = 0;
    loop {
        let next = HashMap::with_hasher(hasher.clone());
        let mut pass = Pass { hasher: &hasher, next, from_hash, until_hash: u64::MAX, most_objects };
        pass.go_over(file, accesses)?;
        match pass.until_hash.checked_add(1) {
            Some(rest) => from_hash = rest,
            None => return Ok(()),
        }
    }
}

/// The objects whose hashes lie in a range, both ends included.
struct Pass<'a> {
    hasher: &'a RandomState,
    /// The place of each one's access that was met last.
    next: HashMap<u64, u64, RandomState>,
    from_hash: u64,
    until_hash: u64,
    most_objects: usize,
}

impl Pass<'_> {
    fn go_over<F: Read + Write + Seek>(&mut self, file: &mut F, accesses: u64) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut end = accesses;
        while end > 0 {
            let begin = end.saturating_sub(PIECE_ACCESSES);
            bytes.resize((end - begin) as usize * ORACLE_BYTES, 0);
            let at = SeekFrom::Start(begin * ORACLE_BYTES as u64);
            file.seek(at)?;
            file.read_exact(&mut bytes)?;
            if self.link_piece(&mut bytes, end) {
                file.seek(at)?;
                file.write_all(&bytes)?;
            }
            end = begin;
        }
        file.flush()
    }

    /// Links the accesses whose last is the `end`-th. Says whether any had to be told something.
    fn link_piece(&mut self, bytes: &mut [u8], end: u64) -> bool {
        let mut is_changed = false;
        let (accesses, _) = bytes.as_chunks_mut::<ORACLE_BYTES>();
        for (access, place) in accesses.iter_mut().rev().zip((1..=end).rev()) {
            let Some(next) = self.take(object_of(access), place) else { continue };
            tell_next_access(access, next);
            is_changed = true;
        }
        is_changed
    }

    /// Takes an object's access, and gives the place of the next one if there is any and the object is followed.
    fn take(&mut self, object: u64, place: u64) -> Option<u64> {
        if !(self.from_hash..=self.until_hash).contains(&self.hasher.hash_one(object)) {
            return None;
        }
        let next = self.next.insert(object, place);
        while self.next.len() > self.most_objects && self.until_hash > self.from_hash {
            self.until_hash = self.from_hash + (self.until_hash - self.from_hash) / 2;
            let range = self.from_hash..=self.until_hash;
            self.next.retain(|object, _| range.contains(&self.hasher.hash_one(object)));
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_access_names_the_next_one_however_few_objects_are_followed_at_once(
            objects in prop::collection::vec(0u64..60, 0..400), most_objects in 1usize..70,
        ) {
            let bytes: Vec<u8> = objects.iter().flat_map(|&object| access(object, -1)).collect();
            let mut file = Cursor::new(bytes);
            link(&mut file, objects.len() as u64, most_objects).unwrap();
            let next = |at: usize| objects[at + 1..].iter().position(|&other| other == objects[at]);
            let place = |at: usize| next(at).map_or(-1, |between| (at + between + 2) as i64);
            let expected: Vec<u8> = (0..objects.len()).flat_map(|at| access(objects[at], place(at))).collect();
            prop_assert_eq!(file.into_inner(), expected);
        }
    }

    fn access(object: u64, next: i64) -> Vec<u8> {
        [&[1; 4][..], &object.to_le_bytes(), &[2; 4], &next.to_le_bytes()].concat()
    }

    #[test]
    fn accesses_of_several_pieces_are_linked_across_them() {
        let count = PIECE_ACCESSES * 2 + 5;
        let bytes: Vec<u8> = (0..count).flat_map(|place| access(place % PIECE_ACCESSES, -1)).collect();
        let mut file = Cursor::new(bytes);
        link(&mut file, count, MOST_OBJECTS).unwrap();
        let next = |place| if place + PIECE_ACCESSES < count { (place + PIECE_ACCESSES + 1) as i64 } else { -1 };
        let expected: Vec<u8> = (0..count).flat_map(|place| access(place % PIECE_ACCESSES, next(place))).collect();
        assert!(file.into_inner() == expected);
    }
}
