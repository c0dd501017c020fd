//! Records through a block and back.

use proptest::prelude::*;
use record::{Lsn, Record, TenantTimeline};

use super::batch::Batch;
use super::decode::BlockDecoder;
use super::encode::BlockEncoder;
use crate::error::BlockError;
use crate::format::block::{BlockHeader, put_section, sections};
use crate::format::ledger::{Counter, Ledger};
use crate::format::{BLOCK_HEADER_BYTES, Section};
use crate::{arbitrary, sample};

fn encoded(records: &[Record], owner: Option<TenantTimeline>) -> Vec<u8> {
    let mut batch = Batch::new();
    for record in records {
        batch.push(record);
    }
    let mut ledger = Ledger::default();
    ledger.add(Counter::Seen, records.len() as u64);
    let mut block = Vec::new();
    BlockEncoder::new().unwrap().encode(&batch, (owner, &ledger), &mut block);
    block
}

fn decoded(block: &[u8]) -> Vec<Record> {
    let (header, crc) = BlockHeader::decode(block).unwrap();
    assert!(BlockHeader::verify(block, crc));
    assert_eq!(header.length as usize, block.len());
    let mut decoder = BlockDecoder::new().unwrap();
    decoder.load(&header, block).unwrap();
    let records: Vec<Record> = std::iter::from_fn(|| decoder.next()).collect();
    assert_eq!(records.len(), header.records as usize);
    records
}

proptest! {
    #[test]
    fn records_return_as_they_went(records in arbitrary::records(0..60)) {
        let owner = records.first().and_then(|record| record.owner);
        prop_assert_eq!(decoded(&encoded(&records, owner)), records);
    }

    #[test]
    fn forged_blocks_are_refused_or_read_and_never_panic(
        records in arbitrary::records(1..20),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut block = encoded(&records, records[0].owner);
        for (place, byte) in changes {
            let place = place.index(block.len());
            block[place] = byte;
        }
        if let Some((header, _)) = BlockHeader::decode(&block) {
            let mut decoder = BlockDecoder::new().unwrap();
            if decoder.load(&header, &block).is_ok() {
                let read = std::iter::from_fn(|| decoder.next()).count();
                prop_assert_eq!(read, header.records as usize);
            }
        }
    }
}

#[test]
fn a_block_of_busy_traffic_returns_as_it_went() {
    let records = sample::records(20_000, 1);
    assert_eq!(decoded(&encoded(&records, Some(sample::OWNER))), records);
}

#[test]
fn microsecond_stamps_are_kept_and_cost_less() {
    let records = sample::records(5_000, 2);
    let mut coarse = records.clone();
    for record in &mut coarse {
        record.time.0 -= record.time.0 % 1000;
        record.latency_ns = record.latency_ns.map(|ns| ns - ns % 1000);
        record.transfer_ns = record.transfer_ns.map(|ns| ns - ns % 1000);
    }
    let block = encoded(&coarse, Some(sample::OWNER));
    assert_eq!(decoded(&block), coarse);
    assert!(block.len() + 2 * coarse.len() < encoded(&records, Some(sample::OWNER)).len());
}

#[test]
fn a_scan_by_a_standby_costs_next_to_nothing_but_its_times() {
    let mut records = sample::records(10_000, 3);
    let times_only = encoded_without_pages(&mut records);
    for (block, record) in records.iter_mut().enumerate() {
        if let record::Target::GetPage { blkno, rel } = &mut record.target {
            (*blkno, rel.relnode) = (block as u32, 16_400);
        }
        record.request_lsn = Lsn(0x2_0000_0000 + (block as u64 / 100) * 56);
        record.not_modified_since = record.request_lsn;
        record.page_lsn = Some(record.request_lsn);
    }
    let scan = encoded(&records, Some(sample::OWNER));
    assert_eq!(decoded(&scan), records);
    assert!(scan.len() < times_only + records.len() / 4, "{} {times_only}", scan.len());
}

/// What the records take when they all name one page at one version.
fn encoded_without_pages(records: &mut [Record]) -> usize {
    let first = records[0].clone();
    for record in records.iter_mut() {
        record.target = first.target;
        record.not_modified_since = first.not_modified_since;
        record.page_lsn = first.page_lsn;
    }
    encoded(records, Some(sample::OWNER)).len()
}

#[test]
fn a_section_that_comes_twice_is_refused() {
    let records = sample::records(10, 4);
    let mut block = encoded(&records, Some(sample::OWNER));
    let sections = block[BLOCK_HEADER_BYTES..].to_vec();
    block.extend_from_slice(&sections);
    let (header, _) = BlockHeader::decode(&block).unwrap();
    let error = BlockDecoder::new().unwrap().load(&header, &block).unwrap_err();
    assert_eq!(error.fault, "comes twice");
}

#[test]
fn a_dictionary_longer_than_its_records_need_is_refused_before_it_is_unpacked() {
    let records = sample::records(1000, 5);
    let mut block = encoded(&records, Some(sample::OWNER));
    block[16..20].copy_from_slice(&1u32.to_le_bytes());
    let (header, _) = BlockHeader::decode(&block).unwrap();
    assert_eq!(header.records, 1);
    assert!(BlockDecoder::new().unwrap().load(&header, &block).is_err());
}

/// The decoder's answer to a block of two records, some sections of which were replaced or added.
fn with_sections(changes: &[(Section, &[u8])]) -> Result<usize, BlockError> {
    let block = encoded(&sample::records(2, 7), Some(sample::OWNER));
    let mut forged = block[..BLOCK_HEADER_BYTES].to_vec();
    for raw in sections(&block).map(Result::unwrap) {
        if !changes.iter().any(|(section, _)| Some(*section) == raw.section) {
            put_section(&mut forged, raw.section.unwrap(), raw.codec, raw.bytes);
        }
    }
    for (section, bytes) in changes {
        put_section(&mut forged, *section, 0, bytes);
    }
    let mut decoder = BlockDecoder::new().unwrap();
    decoder.load(&BlockHeader::decode(&forged).unwrap().0, &forged)?;
    Ok(std::iter::from_fn(|| decoder.next()).count())
}

#[test]
fn positions_outside_the_dictionaries_are_refused() {
    assert_eq!(with_sections(&[]), Ok(2));
    let part = |changes: &[(Section, &[u8])]| with_sections(changes).unwrap_err().part;
    assert_eq!(part(&[(Section::Connection, &[0, 1])]), "connections");
    assert_eq!(part(&[(Section::Connection, &[1, 3])]), "connections");
    assert_eq!(part(&[(Section::Connections, &[])]), "connections");
    assert_eq!(part(&[(Section::Target, &[0, 2])]), "targets");
    assert_eq!(part(&[(Section::Targets, &[])]), "targets");
    assert_eq!(part(&[(Section::Shape, &[0, 3])]), "shapes");
    assert_eq!(part(&[(Section::Shapes, &[])]), "shapes");
    assert_eq!(part(&[(Section::TimeMode, &[0, 4])]), "time_mode column");
}

#[test]
fn a_dictionary_of_more_entries_than_records_is_refused() {
    let databases = [3, 1, 3, 2, 3, 3];
    assert_eq!(with_sections(&[(Section::Targets, &databases[..4]), (Section::Target, &[0, 1])]), Ok(2));
    let error = with_sections(&[(Section::Targets, &databases)]).unwrap_err();
    assert_eq!((error.part, error.fault), ("targets", "are more than its records can name"));
}

#[test]
fn connections_of_different_shapes_need_no_shape_column_after_their_first_records() {
    let mut records = sample::records(4000, 8);
    for record in &mut records {
        if record.backend_pid.is_some_and(|pid| pid % 3 == 0) {
            record.seq = None;
        }
    }
    let block = encoded(&records, Some(sample::OWNER));
    assert_eq!(decoded(&block), records);
    let shape = sections(&block).map(Result::unwrap).find(|raw| raw.section == Some(Section::Shape)).unwrap();
    assert!(shape.bytes.len() < 100, "{}", shape.bytes.len());
}

#[test]
fn the_size_of_each_column_is_printed_on_request() {
    let records = sample::records(16_384, 6);
    let block = encoded(&records, Some(sample::OWNER));
    let mut covered = BLOCK_HEADER_BYTES;
    for raw in sections(&block).map(Result::unwrap) {
        println!(
            "{:>18} codec {:#04x} {:6.3} bytes a record",
            format!("{:?}", raw.section.unwrap()),
            raw.codec,
            raw.bytes.len() as f64 / records.len() as f64
        );
        covered += raw.bytes.len() + 3;
    }
    println!("all {:.3}", block.len() as f64 / records.len() as f64);
    assert!(covered <= block.len(), "every byte belongs to the header or to a section");
}
