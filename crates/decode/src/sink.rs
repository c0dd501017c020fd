//! What comes out of the decoder.

use record::Record;

/// Takes the records as they are completed, in the order of the packets that completed them.
pub trait Sink {
    /// One record. It is complete: nothing about it will be revised.
    fn record(&mut self, record: &Record);
}

impl<F: FnMut(&Record)> Sink for F {
    fn record(&mut self, record: &Record) {
        self(record);
    }
}

impl Sink for Vec<Record> {
    fn record(&mut self, record: &Record) {
        self.push(record.clone());
    }
}
