//! Limits, rotation, locks, full disks: what is on the disk at every moment, and whether the ledger adds up.

mod sample;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use record::{Attribution, Record, TenantId, TenantTimeline, TimelineId, Timestamp};
use tempfile::TempDir;
use trace::{
    BlockKind, Change, ConnectionOwner, Counter, Ledger, OnFull, TraceError, TraceReader, TraceWriter, WriterConfig,
    open_all, trace_files,
};

const SECOND_NS: u64 = 1_000_000_000;

fn config(directory: &Path) -> WriterConfig {
    WriterConfig::new(directory, "test")
}

fn owner(n: u8) -> TenantTimeline {
    TenantTimeline { tenant: TenantId([n; 16]), timeline: TimelineId([0x77; 16]) }
}

/// What `du` would say, with every directory.
fn disk_bytes(path: &Path) -> u64 {
    let metadata = fs::metadata(path).unwrap();
    if metadata.is_dir() {
        4096 + fs::read_dir(path).unwrap().map(|entry| disk_bytes(&entry.unwrap().path())).sum::<u64>()
    } else {
        metadata.len().div_ceil(4096) * 4096
    }
}

/// The records and the sum of the ledgers of a directory.
fn read_all(path: &Path) -> (Vec<Record>, Ledger) {
    let (mut records, mut ledger) = (Vec::new(), Ledger::default());
    for reader in open_all(&[path]).unwrap() {
        let mut reader = reader.unwrap();
        records.extend(reader.records().map(Result::unwrap));
        assert_eq!(reader.damaged_bytes(), 0);
        ledger.merge(reader.ledger());
    }
    (records, ledger)
}

/// The sum of the reasons for which a request is not in the trace.
fn not_kept(ledger: &Ledger) -> u64 {
    ledger
        .iter()
        .filter(|(counter, _)| !counter.is_capture_wide() && *counter != Counter::Seen)
        .map(|(_, value)| value)
        .sum()
}

#[test]
fn a_busy_getpage_trace_takes_at_most_ten_bytes_a_record() {
    let directory = TempDir::new().unwrap();
    let records = sample::records(100_000, 1);
    let mut writer = TraceWriter::open(config(directory.path())).unwrap();
    for record in &records {
        writer.append(record, record.time).unwrap();
    }
    writer.close(records[99_999].time).1.unwrap();
    let bytes: u64 =
        trace_files(&[directory.path()]).unwrap().iter().map(|file| fs::metadata(file).unwrap().len()).sum();
    assert!(bytes <= 10 * records.len() as u64, "{bytes} bytes for {} records", records.len());
    assert_eq!(read_all(directory.path()).0, records);
}

#[test]
fn a_limited_trace_stays_below_its_limit_keeps_the_newest_and_adds_up() {
    let directory = TempDir::new().unwrap();
    let limit = 1 << 20;
    let mut config = config(directory.path());
    config.circumstances.max_bytes = Some(limit);
    let mut writer = TraceWriter::open(config).unwrap();
    let records = sample::records(400_000, 2);
    for (n, record) in records.iter().enumerate() {
        writer.append(record, record.time).unwrap();
        if n % 500 == 0 {
            assert!(disk_bytes(directory.path()) <= limit + 3 * 4096, "after {n} records");
            writer.lose(Some(sample::OWNER), Counter::Filtered, 3);
        }
    }
    let kept_in_memory = |writer: &TraceWriter| writer.kept_records();
    writer.flush(records[399_999].time).unwrap();
    let kept = kept_in_memory(&writer);
    let (run, result) = writer.close(records[399_999].time);
    result.unwrap();
    let (read, ledger) = read_all(directory.path());
    assert!(disk_bytes(directory.path()) <= limit + 3 * 4096);
    assert!(read.len() as u64 * 10 > limit * 3 / 4, "{} records are too few", read.len());
    assert_eq!(read, records[records.len() - read.len()..], "the newest are there, without a hole");
    assert_eq!(ledger.value(Counter::Seen), 400_000 + 3 * 800);
    assert_eq!(ledger.value(Counter::Seen), not_kept(&ledger) + read.len() as u64);
    assert_eq!(run.value(Counter::Seen), not_kept(&run) + kept);
    assert_eq!(kept, read.len() as u64);
}

#[test]
fn the_limit_of_all_traces_takes_the_oldest_of_all() {
    let directory = TempDir::new().unwrap();
    let limit = 512 << 10;
    let mut config = config(directory.path());
    config.circumstances.max_total_bytes = Some(limit);
    config.max_open_files = 3;
    let mut writer = TraceWriter::open(config).unwrap();
    let records = sample::records(200_000, 3);
    for (n, record) in records.iter().enumerate() {
        // The first tenth belongs to owner 0 alone, which is then silent.
        let owner = if n < 20_000 { owner(0) } else { owner(1 + (n % 7) as u8) };
        writer.append(&Record { owner: Some(owner), ..record.clone() }, record.time).unwrap();
        if n % 5_000 == 0 {
            assert!(disk_bytes(directory.path()) <= limit, "after {n} records");
        }
    }
    let (run, result) = writer.close(records[199_999].time);
    result.unwrap();
    assert!(disk_bytes(directory.path()) <= limit);
    assert!(!directory.path().join(owner(0).tenant.to_string()).exists(), "the oldest is gone, with its directories");
    let (read, ledger) = read_all(directory.path());
    assert_eq!(ledger.value(Counter::Seen), 180_000, "of the owners that are still there");
    assert_eq!(ledger.value(Counter::Seen), not_kept(&ledger) + read.len() as u64);
    assert_eq!(run.value(Counter::Seen), 200_000);
    assert_eq!(run.value(Counter::Seen), not_kept(&run) + read.len() as u64);
}

#[test]
fn stop_keeps_what_is_there_and_says_so() {
    let directory = TempDir::new().unwrap();
    let limit = 256 << 10;
    let mut config = WriterConfig { on_full: OnFull::Stop, ..config(directory.path()) };
    config.circumstances.max_bytes = Some(limit);
    let mut writer = TraceWriter::open(config).unwrap();
    let records = sample::records(60_000, 4);
    let errors: Vec<_> = records.iter().filter_map(|record| writer.append(record, record.time).err()).collect();
    assert!(matches!(errors[0], TraceError::Full { limit_bytes, .. } if limit_bytes == limit), "{}", errors[0]);
    let (_, result) = writer.close(records[59_999].time);
    assert!(result.is_err(), "the last batch had no room either");
    let (read, ledger) = read_all(directory.path());
    assert!(disk_bytes(directory.path()) <= limit + 3 * 4096);
    assert_eq!(read, records[..read.len()], "the oldest are there");
    assert!(read.len() > 20_000);
    assert_eq!(ledger.value(Counter::Seen), 60_000);
    assert_eq!(ledger.value(Counter::WriteFailed), 60_000 - read.len() as u64);
}

#[test]
fn where_no_time_is_left_the_rest_is_counted_and_the_files_say_so() {
    let directory = TempDir::new().unwrap();
    let config = config(directory.path());
    let is_late = Arc::clone(&config.is_late);
    let mut writer = TraceWriter::open(config).unwrap();
    let records = sample::records(60_000, 5);
    let (early, late) = records.split_at(40_000);
    for record in early {
        writer.append(record, record.time).unwrap();
    }
    is_late.store(true, Ordering::Relaxed);
    let kept = writer.kept_records();
    for record in late {
        let _ = writer.append(record, record.time);
    }
    let (run, result) = writer.close(records[59_999].time);
    assert!(result.unwrap_err().to_string().contains("there was no time left for it"));
    let (read, ledger) = read_all(directory.path());
    assert!(kept > 20_000 && read.len() as u64 == kept, "{kept}");
    for ledger in [run, ledger] {
        let figures = [Counter::Seen, Counter::WriteFailed].map(|counter| ledger.value(counter));
        assert_eq!(figures, [60_000, 60_000 - kept]);
    }
}

#[test]
fn two_writers_need_two_names() {
    let directory = TempDir::new().unwrap();
    let first = TraceWriter::open(config(directory.path())).unwrap();
    let error = TraceWriter::open(config(directory.path())).unwrap_err();
    assert!(matches!(error, TraceError::Locked { .. }));
    assert!(error.to_string().contains(&format!("(process {})", std::process::id())), "{error}");
    let second = TraceWriter::open(WriterConfig::new(directory.path(), "other")).unwrap();
    drop(first);
    let third = TraceWriter::open(config(directory.path())).unwrap();
    drop((second, third));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "locks and empty traces leave nothing behind");
}

#[test]
fn a_later_run_goes_on_and_counts_what_the_earlier_one_left() {
    let directory = TempDir::new().unwrap();
    let limit = 256 << 10;
    let records = sample::records(30_000, 5);
    for _ in 0..3 {
        let mut config = config(directory.path());
        config.circumstances.max_bytes = Some(limit);
        let mut writer = TraceWriter::open(config).unwrap();
        for record in &records {
            writer.append(record, record.time).unwrap();
        }
        let (run, result) = writer.close(records[29_999].time);
        result.unwrap();
        assert_eq!(run.value(Counter::Seen), 30_000);
        assert!(disk_bytes(directory.path()) <= limit + 3 * 4096);
    }
    let files = trace_files(&[directory.path()]).unwrap();
    let sequences: Vec<u64> =
        files.iter().map(|file| TraceReader::open(file).unwrap().header().unwrap().sequence).collect();
    assert!(sequences.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{sequences:?}");
    assert!(sequences[0] > 8);
    let (read, ledger) = read_all(directory.path());
    assert_eq!(ledger.value(Counter::Seen), 90_000);
    assert_eq!(ledger.value(Counter::Seen), not_kept(&ledger) + read.len() as u64);
}

#[test]
fn a_batch_is_written_by_the_clock_and_a_file_ended_by_it_without_traffic() {
    let directory = TempDir::new().unwrap();
    let config = WriterConfig { rotate_interval_ns: Some(60 * SECOND_NS), ..config(directory.path()) };
    let mut writer = TraceWriter::open(config).unwrap();
    let record = &sample::records(1, 6)[0];
    let start = record.time.0 - record.time.0 % (60 * SECOND_NS);
    let at = |seconds: u64| Timestamp(start + seconds * SECOND_NS);
    writer.append(record, at(10)).unwrap();
    writer.tick(Timestamp(at(11).0 - 1)).unwrap();
    assert_eq!(writer.files().count(), 0, "the batch may wait a second");
    writer.tick(at(11)).unwrap();
    assert_eq!(read_all(directory.path()).0.len(), 1);
    let mut losses = Ledger::default();
    losses.add(Counter::KernelDropped, 5);
    writer.capture_losses(&losses);
    for seconds in [59, 60, 120, 180] {
        writer.tick(at(seconds)).unwrap();
    }
    assert_eq!(read_all(directory.path()).1.value(Counter::KernelDropped), 5, "told when the file ended");
    assert_eq!(writer.files().count(), 1, "silence makes no empty files");
    writer.append(record, at(200)).unwrap();
    writer.tick(at(150)).unwrap();
    assert_eq!(writer.files().count(), 2, "a clock that was set back holds nothing up");
}

#[test]
fn losses_of_the_capture_are_told_by_each_trace_for_its_own_time() {
    let directory = TempDir::new().unwrap();
    let mut writer = TraceWriter::open(config(directory.path())).unwrap();
    let records = sample::records(4, 7);
    let now = records[0].time;
    let losses = |count| {
        let mut ledger = Ledger::default();
        ledger.add(Counter::GapBytes, count);
        ledger
    };
    writer.capture_losses(&losses(100));
    writer.append(&Record { owner: Some(owner(1)), ..records[0].clone() }, now).unwrap();
    writer.flush(now).unwrap();
    writer.capture_losses(&losses(130));
    writer.append(&Record { owner: Some(owner(2)), ..records[1].clone() }, now).unwrap();
    writer.flush(now).unwrap();
    writer.capture_losses(&losses(137));
    let (run, result) = writer.close(now);
    result.unwrap();
    let told = |n| read_all(&directory.path().join(owner(n).tenant.to_string())).1.value(Counter::GapBytes);
    assert_eq!((told(1), told(2), run.value(Counter::GapBytes)), (37, 7, 137));
}

#[test]
fn invented_tenants_are_counted_and_take_no_place() {
    let directory = TempDir::new().unwrap();
    let config = WriterConfig { max_traces: 10, ..config(directory.path()) };
    let mut writer = TraceWriter::open(config).unwrap();
    let record = &sample::records(1, 8)[0];
    let mut refused = 0;
    for n in 0..200 {
        let result = writer.append(&Record { owner: Some(owner(n)), ..record.clone() }, record.time);
        refused += u64::from(result.is_err_and(|error| matches!(error, TraceError::TooManyTraces { limit: 10, .. })));
    }
    let (run, result) = writer.close(record.time);
    result.unwrap();
    assert_eq!(refused, 190);
    assert_eq!((run.value(Counter::Seen), run.value(Counter::WriteFailed)), (200, 190));
    assert_eq!(trace_files(&[directory.path()]).unwrap().len(), 10);
}

#[test]
fn records_that_wait_are_bounded_over_all_tenants() {
    let directory = TempDir::new().unwrap();
    let config = WriterConfig { max_buffered_records: 1_000, flush_interval_ns: None, ..config(directory.path()) };
    let mut writer = TraceWriter::open(config).unwrap();
    for (n, record) in sample::records(20_000, 9).iter().enumerate() {
        writer.append(&Record { owner: Some(owner((n % 50) as u8)), ..record.clone() }, record.time).unwrap();
        assert!(n as u64 + 1 - writer.kept_records() <= 1_000);
    }
}

#[test]
fn unattributed_records_keep_apart_and_are_attributed_later() {
    let directory = TempDir::new().unwrap();
    let mut writer = TraceWriter::open(config(directory.path())).unwrap();
    let record = Record { owner: None, attribution: None, ..sample::records(1, 10)[0].clone() };
    writer.append(&record, record.time).unwrap();
    let attribution = ConnectionOwner {
        client: record.client,
        server: record.server,
        connected: record.time,
        owner: sample::OWNER,
        attribution: Attribution::Hint,
    };
    writer.attribute(attribution, record.time).unwrap();
    writer.close(record.time).1.unwrap();
    let files = trace_files(&[directory.path().join("unattributed")]).unwrap();
    let mut reader = TraceReader::open(&files[0]).unwrap();
    assert_eq!(reader.header().unwrap().owner, None);
    let mut found = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        if block.header().kind == BlockKind::Attributions {
            found.extend(block.attributions().unwrap());
        }
    }
    assert_eq!(found, [attribution]);
    assert_eq!(read_all(directory.path()).0, [record]);
}

#[test]
fn the_same_records_and_times_make_the_same_bytes() {
    let records = sample::records(30_000, 11);
    let run = || {
        let directory = TempDir::new().unwrap();
        let mut config = config(directory.path());
        config.circumstances.max_bytes = Some(256 << 10);
        config.max_buffered_records = 3_000;
        let mut writer = TraceWriter::open(config).unwrap();
        for (n, record) in records.iter().enumerate() {
            writer.append(&Record { owner: Some(owner((n % 5) as u8)), ..record.clone() }, record.time).unwrap();
        }
        writer.close(records[29_999].time).1.unwrap();
        let files = trace_files(&[directory.path()]).unwrap();
        let name = |file: &Path| file.strip_prefix(directory.path()).unwrap().to_owned();
        files.iter().map(|file| (name(file), fs::read(file).unwrap())).collect::<Vec<_>>()
    };
    let first = run();
    assert!(first.len() > 5);
    assert!(first == run(), "names or bytes differ");
}

#[test]
fn a_file_that_somebody_changed_is_left_alone() {
    let directory = TempDir::new().unwrap();
    let mut writer = TraceWriter::open(WriterConfig { max_open_files: 0, ..config(directory.path()) }).unwrap();
    let records = sample::records(20, 12);
    let now = records[0].time;
    writer.append(&records[0], now).unwrap();
    writer.flush(now).unwrap();
    let path = writer.files().next().unwrap().0.to_owned();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
    writer.append(&records[1], now).unwrap();
    let error = writer.flush(now).unwrap_err();
    assert!(error.to_string().contains("1 records were not written"), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 100);
    writer.append(&records[2], now).unwrap();
    writer.flush(now).unwrap();
    let (run, _) = writer.close(now);
    assert_eq!((run.value(Counter::Seen), run.value(Counter::WriteFailed)), (3, 1));
}

#[test]
fn an_unwritable_directory_and_a_bad_name_say_so() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = TraceWriter::open(config(&file.join("traces"))).unwrap_err();
    assert!(error.to_string().starts_with("cannot make the trace directory "), "{error}");
    let error = TraceWriter::open(WriterConfig::new(directory.path(), "a/b")).unwrap_err();
    assert!(matches!(error, TraceError::InstanceName { .. }));
    let mut config = config(directory.path());
    config.circumstances.max_bytes = Some(1000);
    assert!(matches!(TraceWriter::open(config).unwrap_err(), TraceError::LimitTooSmall { bytes: 1000 }));
}

#[test]
fn what_changes_holds_from_the_next_record_on_and_the_files_say_so() {
    let directory = TempDir::new().unwrap();
    let mut writer = TraceWriter::open(WriterConfig { flush_interval_ns: None, ..config(directory.path()) }).unwrap();
    let records = sample::records(40, 6);
    let change = |sample_one_in, max_bytes| Change { sample_one_in, max_bytes, ..Change::default() };
    let append = |writer: &mut TraceWriter, range: std::ops::Range<usize>| {
        records[range].iter().for_each(|record| writer.append(record, record.time).unwrap());
    };
    append(&mut writer, 0..10);
    let at = records[9].time;
    writer.change(change(Some(4), None), at).unwrap();
    append(&mut writer, 10..20);
    // What is there already ends no file.
    writer.change(change(Some(4), None), at).unwrap();
    append(&mut writer, 20..30);
    assert!(matches!(writer.change(change(Some(8), Some(1)), at), Err(TraceError::LimitTooSmall { bytes: 1 })));
    writer.change(change(Some(1), Some(1 << 20)), at).unwrap();
    append(&mut writer, 30..40);
    writer.close(at).1.unwrap();
    let said: Vec<_> = open_all(&[directory.path()])
        .unwrap()
        .map(|reader| {
            let mut reader = reader.unwrap();
            let facts = reader.header().unwrap().circumstances.clone();
            (facts.sample_one_in, facts.max_bytes, reader.records().count())
        })
        .collect();
    assert_eq!(said, [(1, None, 10), (4, None, 20), (1, Some(1 << 20), 10)]);
}
