//! A trace that goes to a reader as it comes, instead of into a file. What arrives is a trace file, wherever it is cut off.

use record::{Record, TenantTimeline, Timestamp};

use crate::columns::batch::Batch;
use crate::columns::encode::BlockEncoder;
use crate::error::TraceError;
use crate::format::header::{Circumstances, FileHeader};
use crate::format::ledger::{Counter, Ledger};
use crate::format::{FORMAT_MINOR, MAX_BLOCK_RECORDS};

/// Makes the bytes.
#[derive(Debug)]
pub struct TraceStream {
    owner: TenantTimeline,
    encoder: BlockEncoder,
    batch: Batch,
}

impl TraceStream {
    /// A trace of that owner, and its beginning, the file header.
    ///
    /// # Errors
    ///
    /// The system has no memory to give.
    pub fn begin(
        owner: TenantTimeline,
        instance: &str,
        circumstances: Circumstances,
        started: Timestamp,
    ) -> Result<(Self, Vec<u8>), TraceError> {
        let encoder = BlockEncoder::new().map_err(TraceError::io("cannot begin", "a trace"))?;
        let instance = instance.to_owned();
        let header =
            FileHeader { minor: FORMAT_MINOR, owner: Some(owner), instance, sequence: 1, started, circumstances };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        Ok((Self { owner, encoder, batch: Batch::new() }, bytes))
    }

    /// The blocks of these records, which are of that owner: those of others are not taken. They count as `seen`.
    pub fn records(&mut self, records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for block in records.chunks(MAX_BLOCK_RECORDS as usize) {
            block.iter().filter(|record| record.owner == Some(self.owner)).for_each(|record| self.batch.push(record));
            let mut ledger = Ledger::default();
            ledger.add(Counter::Seen, self.batch.len() as u64);
            self.encoder.encode(&self.batch, (Some(self.owner), &ledger), &mut bytes);
            self.batch.clear();
        }
        bytes
    }

    /// The last block: what is missing.
    pub fn end(mut self, ledger: &Ledger) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.encoder.encode(&self.batch, (Some(self.owner), ledger), &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::read::TraceReader;
    use crate::sample;

    #[test]
    fn what_arrives_is_a_trace_file_wherever_it_is_cut_off() {
        let records = sample::records(1_000, 1);
        let (mut stream, mut bytes) =
            TraceStream::begin(sample::OWNER, "n", Circumstances::default(), Timestamp(7)).unwrap();
        bytes.extend(stream.records(&records[..600]));
        let after_one = bytes.len();
        bytes.extend(stream.records(&records[600..]));
        let mut ledger = Ledger::default();
        ledger.add(Counter::Seen, 5);
        ledger.add(Counter::QueueDropped, 5);
        bytes.extend(stream.end(&ledger));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.pgtrace");
        let read = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            let records: Vec<_> = TraceReader::open(&file).unwrap().records().map(Result::unwrap).collect();
            records
        };
        assert_eq!(read(&bytes), records);
        assert_eq!(read(&bytes[..after_one]), records[..600]);
        let mut reader = TraceReader::open(&file).unwrap();
        assert_eq!(reader.header().unwrap().instance, "n");
        fs::write(&file, &bytes).unwrap();
        reader = TraceReader::open(&file).unwrap();
        let mut told = Ledger::default();
        while let Some(block) = reader.next_block().unwrap() {
            told.merge(&block.ledger().unwrap());
        }
        assert_eq!((told.value(Counter::Seen), told.value(Counter::QueueDropped)), (1_005, 5));
    }

    #[test]
    fn of_another_owner_nothing_is_taken() {
        let mut others = sample::records(3, 1);
        others[1].owner = None;
        let (mut stream, start) =
            TraceStream::begin(sample::OWNER, "n", Circumstances::default(), Timestamp(7)).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.pgtrace");
        fs::write(&file, [start, stream.records(&others)].concat()).unwrap();
        let read: Vec<_> = TraceReader::open(&file).unwrap().records().map(Result::unwrap).collect();
        assert_eq!(read, [others[0].clone(), others[2].clone()]);
    }
}
