//! Records as a table for people: fixed columns, one line a record as it comes, what is widest last.

use std::fmt;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use record::{Lsn, Record, Target};

use super::units::duration_text;

/// A column's name and least width; what is longer pushes the rest of its line to the right.
struct Column {
    name: &'static str,
    width: usize,
    align: Align,
}

#[derive(Clone, Copy)]
enum Align {
    Left,
    Right,
}

const fn left(name: &'static str, width: usize) -> Column {
    Column { name, width, align: Align::Left }
}

const fn right(name: &'static str, width: usize) -> Column {
    Column { name, width, align: Align::Right }
}

/// Wide enough for IPv4 clients and relations of seven digits; the ids are copied from here, so they stand in full.
const COLUMNS: [Column; 12] = [
    left("time (UTC)", 27),
    right("latency", 8),
    left("kind", 7),
    left("what", 22),
    right("blkno", 10),
    right("request_lsn", 12),
    right("unchanged since", 15),
    left("status", 10),
    left("pairing", 13),
    left("client", 21),
    left("tenant", 32),
    left("timeline", 32),
];

/// Appends the header line.
pub(super) fn header(out: &mut Vec<u8>) {
    let mut line = Line::new(out);
    for column in &COLUMNS {
        line.cell(format_args!("{}", column.name));
    }
    line.end();
}

/// Appends one record.
pub(super) fn record(record: &Record, out: &mut Vec<u8>) {
    let mut line = Line::new(out);
    let time = UNIX_EPOCH + Duration::from_nanos(record.time.0);
    line.cell(format_args!("{}", humantime::format_rfc3339_micros(time)));
    line.cell_or_dash(record.latency_ns.map(duration_text));
    line.cell(format_args!("{}", record.target.kind()));
    match record.target {
        Target::GetPage { rel, .. } | Target::Exists { rel } | Target::Nblocks { rel } => {
            line.cell(format_args!("{rel}"));
        }
        Target::DbSize { dbnode } => line.cell(format_args!("database {dbnode}")),
        Target::Slru { kind, segno } => line.cell(format_args!("{} {segno}", slru_name(kind))),
    }
    line.cell_or_dash(record.target.blkno());
    match record.request_lsn {
        Lsn::MAX => line.cell(format_args!("latest")),
        lsn => line.cell(format_args!("{lsn}")),
    }
    line.cell(format_args!("{}", record.not_modified_since));
    line.cell(format_args!("{}", record.status));
    line.cell(format_args!("{}", record.pairing));
    line.cell(format_args!("{}", record.client));
    line.cell_or_dash(record.owner.map(|owner| owner.tenant));
    line.cell_or_dash(record.owner.map(|owner| owner.timeline));
    line.end();
}

/// An SLRU's name in a Postgres data directory.
const fn slru_name(kind: u8) -> &'static str {
    match kind {
        0 => "pg_xact",
        1 => "pg_multixact/members",
        2 => "pg_multixact/offsets",
        _ => "slru",
    }
}

/// A line that is being written, cell by cell.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    columns: std::slice::Iter<'static, Column>,
}

impl<'a> Line<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, columns: COLUMNS.iter() }
    }

    fn cell(&mut self, value: fmt::Arguments<'_>) {
        let Some(column) = self.columns.next() else { return };
        let start = self.out.len();
        // Writing to a Vec does not fail.
        let _ = self.out.write_fmt(value);
        let cell = self.out.get(start..).unwrap_or_default();
        let chars = String::from_utf8_lossy(cell).chars().count();
        let padding = column.width.saturating_sub(chars);
        self.out.resize(self.out.len() + padding, b' ');
        if let (Align::Right, Some(cell)) = (column.align, self.out.get_mut(start..)) {
            cell.rotate_right(padding);
        }
        self.out.extend_from_slice(b"  ");
    }

    fn cell_or_dash(&mut self, value: Option<impl fmt::Display>) {
        match value {
            Some(value) => self.cell(format_args!("{value}")),
            None => self.cell(format_args!("-")),
        }
    }

    fn end(self) {
        let text = self.out.trim_ascii_end().len();
        self.out.truncate(text);
        self.out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use crate::render::{Format, Renderer, samples};

    #[test]
    fn records_stand_in_columns() {
        let mut renderer = Renderer::new(Format::Table);
        let mut out = Vec::new();
        renderer.header(&mut out);
        samples::all().iter().for_each(|record| renderer.record(record, &mut out));
        insta::assert_snapshot!(String::from_utf8(out).unwrap());
    }

    #[test]
    fn the_last_moment_that_a_timestamp_holds_is_printed() {
        let mut out = Vec::new();
        let record = record::Record { time: record::Timestamp(u64::MAX), ..samples::getpage() };
        super::record(&record, &mut out);
        assert!(out.starts_with(b"2554-07-21T23:34:33.709551Z"));
    }
}
