//! libCacheSim's `oracleGeneral`: the accesses to a cache, each with the place of the next one of its object.
//!
//! | offset | field, little-endian |
//! |---|---|
//! | 0 | seconds since 1970, u32 |
//! | 4 | object id, u64 |
//! | 12 | size in bytes, u32 |
//! | 16 | the place of the object's next access, counted from 1, or -1, i64 |

use std::collections::HashMap;
use std::fmt;

use foldhash::fast::RandomState;
use record::{Record, RelTag, Target, TenantTimeline};

use crate::reuse::{PAGE_BYTES, is_reference};

/// Bytes of an access.
pub const ORACLE_BYTES: usize = 24;

/// Where in an access its object stands, and the place of the next one.
const OBJECT_AT: usize = 4;
const NEXT_AT: usize = 16;

/// What stands there where the object is not accessed any more.
const NO_NEXT: i64 = -1;

/// So many relations of all tenants can be numbered, some 64 bytes each. A cluster has thousands.
pub const MOST_RELATIONS: usize = 1 << 20;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The object of an access.
pub fn object_of(access: &[u8; ORACLE_BYTES]) -> u64 {
    access
        .iter()
        .skip(OBJECT_AT)
        .take(size_of::<u64>())
        .rev()
        .fold(0, |object, &byte| object << u8::BITS | u64::from(byte))
}

/// Tells an access at which place, counted from 1, its object is accessed next.
pub fn tell_next_access(access: &mut [u8; ORACLE_BYTES], place: u64) {
    let next = i64::try_from(place).unwrap_or(NO_NEXT).to_le_bytes();
    access.iter_mut().skip(NEXT_AT).zip(next).for_each(|(byte, next)| *byte = next);
}

/// There are more than [`MOST_RELATIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyRelations;

impl fmt::Display for TooManyRelations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {MOST_RELATIONS} relations; export fewer tenants at once (--tenant)")
    }
}

impl std::error::Error for TooManyRelations {}

/// Makes records into accesses. Each page has an object id of its own: the number of its relation, from 1 in the order in which
/// they come, in the upper 32 bits, and its block below. No two pages ever share one.
#[derive(Debug, Default)]
pub struct OraclePages {
    relations: HashMap<(TenantTimeline, RelTag), u32, RandomState>,
}

impl OraclePages {
    /// The request as an access without a next one. `None` for what `mrc` of a report leaves out too:
    /// whatever brought no page, and pages of unknown tenants, which may be those of several; and for times past 2106.
    ///
    /// # Errors
    ///
    /// There are too many relations.
    pub fn access(&mut self, record: &Record) -> Result<Option<[u8; ORACLE_BYTES]>, TooManyRelations> {
        let (Target::GetPage { rel, blkno }, Some(owner)) = (record.target, record.owner) else { return Ok(None) };
        let Ok(seconds) = u32::try_from(record.time.0 / NS_PER_SECOND) else { return Ok(None) };
        if !is_reference(record) {
            return Ok(None);
        }
        let object = u64::from(self.number(owner, rel)?) << u32::BITS | u64::from(blkno);
        let mut access = [0; ORACLE_BYTES];
        let fields = seconds.to_le_bytes().into_iter().chain(object.to_le_bytes());
        let fields = fields.chain((PAGE_BYTES as u32).to_le_bytes()).chain(NO_NEXT.to_le_bytes());
        access.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
        Ok(Some(access))
    }

    fn number(&mut self, owner: TenantTimeline, rel: RelTag) -> Result<u32, TooManyRelations> {
        let known = self.relations.len();
        if let Some(&number) = self.relations.get(&(owner, rel)) {
            return Ok(number);
        }
        if known >= MOST_RELATIONS {
            return Err(TooManyRelations);
        }
        let number = u32::try_from(known).map_err(|_| TooManyRelations)?.saturating_add(1);
        self.relations.insert((owner, rel), number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use record::{Status, TenantId, Timestamp};

    use super::*;
    use crate::render::samples;

    const REL: RelTag = RelTag { spcnode: 1663, dbnode: 5, relnode: 7, forknum: 0 };

    fn getpage(rel: RelTag, blkno: u32) -> Record {
        let time = Timestamp(1_700_000_000_999_999_999);
        Record { time, target: Target::GetPage { rel, blkno }, ..samples::getpage() }
    }

    fn object(pages: &mut OraclePages, record: &Record) -> Option<u64> {
        pages.access(record).unwrap().map(|access| object_of(&access))
    }

    #[test]
    fn an_access_takes_the_bytes_that_libcachesim_reads() {
        let mut pages = OraclePages::default();
        let mut bytes = pages.access(&getpage(REL, 0x0403_0201)).unwrap().unwrap();
        let expected =
            [&1_700_000_000u32.to_le_bytes()[..], &[1, 2, 3, 4, 1, 0, 0, 0], &8192u32.to_le_bytes(), &[0xff; 8]];
        assert_eq!(bytes.to_vec(), expected.concat());
        tell_next_access(&mut bytes, 7);
        assert_eq!((object_of(&bytes), &bytes[NEXT_AT..]), (0x1_0403_0201, &7i64.to_le_bytes()[..]));
    }

    #[test]
    fn every_page_has_an_object_of_its_own_and_keeps_it() {
        let mut pages = OraclePages::default();
        let owner = getpage(REL, 0).owner.unwrap();
        let other = TenantTimeline { tenant: TenantId([9; 16]), ..owner };
        let records = [
            getpage(REL, 0),
            getpage(REL, u32::MAX),
            getpage(RelTag { forknum: 1, ..REL }, 0),
            getpage(RelTag { spcnode: 0x1_067f, ..REL }, 0),
            Record { owner: Some(other), ..getpage(REL, 0) },
        ];
        let first: Vec<_> = records.iter().map(|record| object(&mut pages, record).unwrap()).collect();
        assert_eq!(first, [1 << 32, 1 << 32 | 0xffff_ffff, 2 << 32, 3 << 32, 4 << 32]);
        let second: Vec<_> = records.iter().map(|record| object(&mut pages, record).unwrap()).collect();
        assert_eq!(first, second);
    }

    #[test]
    fn what_brought_no_page_of_a_known_tenant_is_no_access() {
        let mut pages = OraclePages::default();
        let with = |status| Record { status, ..getpage(REL, 0) };
        for (record, is_access) in [
            (with(Status::Ok), true),
            (with(Status::Unknown), true),
            (with(Status::Error), false),
            (with(Status::Unanswered), false),
            (Record { owner: None, ..getpage(REL, 0) }, false),
            (Record { target: Target::Nblocks { rel: REL }, ..getpage(REL, 0) }, false),
            (Record { time: Timestamp(u64::MAX), ..getpage(REL, 0) }, false),
        ] {
            assert_eq!(object(&mut pages, &record).is_some(), is_access, "{record:?}");
        }
    }
}
