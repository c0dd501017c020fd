//! Files as they are found after crashes, on bad disks, from strangers.

mod sample;

use std::fs;
use std::path::{Path, PathBuf};

use record::{Record, Timestamp};
use tempfile::TempDir;
use trace::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockKind, Circumstances, Counter, Follower, OrderedRecords, TraceError,
    TraceReader, TraceWriter, WriterConfig, trace_files,
};

/// Where a block stands in its file, and how many records it has.
#[derive(Debug, Clone, Copy)]
struct Place {
    offset: u64,
    length: u64,
    records: usize,
}

fn writer(directory: &Path) -> TraceWriter {
    let circumstances = Circumstances { program: "test".into(), sample_one_in: 1, ..Circumstances::default() };
    TraceWriter::open(WriterConfig { circumstances, ..WriterConfig::new(directory, "test") }).unwrap()
}

/// A file with a block for each chunk.
fn file_of<'a>(directory: &Path, chunks: impl IntoIterator<Item = &'a [Record]>) -> PathBuf {
    let mut writer = writer(directory);
    let now = Timestamp(1_796_102_876_000_000_000);
    for chunk in chunks {
        for record in chunk {
            writer.append(record, now).unwrap();
        }
        writer.flush(now).unwrap();
    }
    let path = writer.files().next().unwrap().0.to_owned();
    writer.close(now).1.unwrap();
    path
}

fn places(path: &Path) -> Vec<Place> {
    let mut reader = TraceReader::open(path).unwrap();
    let mut places = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        let header = *block.header();
        places.push(Place {
            offset: block.offset(),
            length: u64::from(header.length),
            records: header.records as usize,
        });
    }
    places
}

/// The records of a file, and the bytes that it left.
fn read(path: &Path) -> (Vec<Record>, u64) {
    let mut reader = TraceReader::open(path).unwrap();
    let records = reader.records().collect::<Result<Vec<_>, _>>().unwrap();
    let damage: u64 = reader.damage().map(|damage| damage.bytes).sum();
    assert_eq!(damage, reader.damaged_bytes());
    (records, damage)
}

#[test]
fn a_file_cut_at_any_byte_gives_its_whole_blocks_and_says_what_it_left() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(90, 1);
    let path = file_of(directory.path(), records.chunks(30));
    let places = places(&path);
    let bytes = fs::read(&path).unwrap();
    let cut = directory.path().join("cut.pgtrace");
    for len in 0..bytes.len() as u64 {
        fs::write(&cut, &bytes[..len as usize]).unwrap();
        let whole: Vec<_> = places.iter().filter(|place| place.offset + place.length <= len).collect();
        let expected: usize = whole.iter().map(|place| place.records).sum();
        let end = whole.last().map_or(places[0].offset.min(len), |place| place.offset + place.length);
        let (read, left) = read(&cut);
        assert_eq!(read, records[..expected], "cut at {len}");
        let header_is_whole = len >= places[0].offset;
        assert_eq!(left, if header_is_whole { len - end } else { len }, "cut at {len}");
    }
}

#[test]
fn a_flipped_bit_anywhere_costs_its_block_and_no_other() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(60, 2);
    let path = file_of(directory.path(), records.chunks(20));
    let places = places(&path);
    let bytes = fs::read(&path).unwrap();
    let damaged_path = directory.path().join("damaged.pgtrace");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&damaged_path, &damaged).unwrap();
        let (read, left) = read(&damaged_path);
        let hit = places.iter().position(|place| (place.offset..place.offset + place.length).contains(&(at as u64)));
        match hit {
            Some(block) => {
                let expected: Vec<_> = records
                    .chunks(20)
                    .enumerate()
                    .filter(|(n, _)| *n != block)
                    .flat_map(|(_, chunk)| chunk)
                    .cloned()
                    .collect();
                assert_eq!(read, expected, "byte {at}");
                assert_eq!(left, places[block].length, "byte {at}");
            }
            None => {
                assert_eq!(read, records, "byte {at} of the header");
                assert_eq!(left, places[0].offset, "byte {at} of the header");
            }
        }
    }
}

#[test]
fn bytes_between_and_before_blocks_are_skipped_and_told() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(40, 3);
    let path = file_of(directory.path(), records.chunks(20));
    let second = places(&path)[1].offset as usize;
    let mut bytes = fs::read(&path).unwrap();
    // Among them the beginning of a block that asks for more than there is.
    let junk: Vec<u8> = BLOCK_MAGIC.iter().copied().chain(std::iter::repeat_n(0xff, 700_000)).collect();
    bytes.splice(second..second, junk.iter().copied());
    fs::write(&path, &bytes).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    let read: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(read, records);
    let damage: Vec<_> = reader.damage().collect();
    assert_eq!((damage.len(), damage[0].offset, damage[0].bytes), (1, second as u64, junk.len() as u64));
}

#[test]
fn a_million_false_beginnings_end_the_search_and_not_the_reader() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(10, 4);
    let path = file_of(directory.path(), [&records[..]]);
    let mut bytes = fs::read(&path).unwrap();
    let mut forged = bytes[places(&path)[0].offset as usize..][..BLOCK_HEADER_BYTES].to_vec();
    forged[4..8].copy_from_slice(&(4u32 << 20).to_le_bytes());
    let forged_bytes = 8 << 20;
    bytes.extend(forged.iter().cycle().take(forged_bytes));
    fs::write(&path, &bytes).unwrap();
    let (read, left) = read(&path);
    assert_eq!(read, records);
    assert_eq!(left, forged_bytes as u64);
}

#[test]
fn what_is_no_trace_says_so() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("capture.pcap");
    fs::write(&path, [0xd4, 0xc3, 0xb2, 0xa1].repeat(100_000)).unwrap();
    let error = TraceReader::open(&path).unwrap_err();
    assert!(matches!(error, TraceError::Foreign { .. }));
    assert!(error.to_string().contains("capture.pcap: not a pagesniff trace"), "{error}");
    let missing = TraceReader::open(directory.path().join("missing")).unwrap_err();
    assert!(missing.to_string().starts_with("cannot open "), "{missing}");
}

#[test]
fn a_trace_of_a_newer_version_is_refused_by_name() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(10, 5);
    let path = file_of(directory.path(), [&records[..]]);
    let mut bytes = fs::read(&path).unwrap();
    bytes[8] = 2;
    let header_length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[20..header_length]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = TraceReader::open(&path).unwrap_err();
    assert!(error.to_string().contains("the trace has format 2.0, this program reads up to 1.0"), "{error}");
}

#[test]
fn a_file_that_shrinks_while_it_is_read_ends_early() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(100, 6);
    let path = file_of(directory.path(), records.chunks(20));
    let places = places(&path);
    let mut reader = TraceReader::open(&path).unwrap();
    assert!(reader.next_block().unwrap().is_some());
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(places[2].offset + 7).unwrap();
    let rest: Vec<_> = reader.records().collect::<Result<_, _>>().unwrap();
    assert_eq!(rest, records[20..40]);
    assert_eq!(reader.damaged_bytes(), 7);
}

#[test]
fn a_live_file_goes_on_where_it_ended() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(50, 7);
    let path = file_of(directory.path(), records.chunks(25));
    let bytes = fs::read(&path).unwrap();
    let second = places(&path)[1];
    // The writer is in the middle of its second block.
    fs::write(&path, &bytes[..second.offset as usize + 100]).unwrap();
    let mut reader = TraceReader::open(&path).unwrap();
    assert_eq!(reader.records().count(), 25);
    assert_eq!(reader.damaged_bytes(), 100);
    fs::write(&path, &bytes).unwrap();
    assert_eq!(reader.records().count(), 25);
    assert_eq!(reader.damaged_bytes(), 0);
}

#[test]
fn a_follower_hands_out_every_record_once_across_rotation() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(2_000, 8);
    let mut writer = TraceWriter::open(WriterConfig {
        rotate_interval_ns: Some(5_000_000),
        ..WriterConfig::new(directory.path(), "live")
    })
    .unwrap();
    let mut follower = Follower::new(directory.path());
    let mut read = Vec::new();
    for chunk in records.chunks(130) {
        for record in chunk {
            writer.append(record, record.time).unwrap();
        }
        writer.flush(chunk[0].time).unwrap();
        follower.poll(|record| read.push(record)).unwrap();
        assert_eq!(follower.poll(|_| panic!("handed out twice")).unwrap(), 0);
    }
    assert!(writer.files().count() > 3);
    assert_eq!(read, records);
}

#[test]
fn files_of_several_owners_come_in_one_order() {
    let directory = TempDir::new().unwrap();
    let mut records = sample::records(5_000, 9);
    let mut writer = writer(directory.path());
    for (n, record) in records.iter_mut().enumerate() {
        if n % 3 == 0 {
            (record.owner, record.attribution) = (None, None);
        }
        writer.append(record, record.time).unwrap();
        if n % 700 == 0 {
            writer.flush(record.time).unwrap();
        }
    }
    writer.close(Timestamp(0)).1.unwrap();
    records.sort_by_key(Record::order);
    assert_eq!(trace_files(&[directory.path()]).unwrap().len(), 2);
    let ordered = OrderedRecords::open(&[directory.path()]).unwrap();
    assert_eq!(ordered.files().iter().map(|file| file.records).sum::<u64>(), 5_000);
    let read: Vec<_> = ordered.collect::<Result<_, _>>().unwrap();
    assert_eq!(read, records);
}

#[test]
fn a_header_tells_how_the_trace_was_taken_and_a_block_what_was_lost() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(10, 10);
    let path = file_of(directory.path(), [&records[..]]);
    let mut reader = TraceReader::open(&path).unwrap();
    let header = reader.header().unwrap();
    assert_eq!((header.owner, header.instance.as_str(), header.sequence), (Some(sample::OWNER), "test", 1));
    assert_eq!((header.circumstances.program.as_str(), header.circumstances.sample_one_in), ("test", 1));
    let block = reader.next_block().unwrap().unwrap();
    assert_eq!(block.header().kind, BlockKind::Records);
    assert_eq!(block.owner().unwrap(), Some(sample::OWNER));
    assert_eq!(block.ledger().unwrap().value(Counter::Seen), 10);
    assert_eq!(block.header().first_time, records.iter().map(|record| record.time).min().unwrap());
    assert_eq!(block.header().last_time, records.iter().map(|record| record.time).max().unwrap());
}
