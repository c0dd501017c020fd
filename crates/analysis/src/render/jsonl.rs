//! JSON Lines: one object a line, every field on every line.

use record::Record;

use super::cells::{Cells, Name, TextCaches, write_fields};

/// More than the longest line takes, so that a line grows the buffer at most once.
const LINE_ROOM: usize = 1280;

/// Appends one record.
pub(super) fn record(record: &Record, caches: &mut TextCaches, out: &mut Vec<u8>) {
    out.reserve(LINE_ROOM);
    let start = out.len();
    write_fields(record, caches, &mut Line(out));
    // Each name comes with the comma in front of it; the first one's place is the brace's.
    if let Some(comma) = out.get_mut(start) {
        *comma = b'{';
    }
    out.extend_from_slice(b"}\n");
}

struct Line<'a>(&'a mut Vec<u8>);

impl Cells for Line<'_> {
    #[inline]
    fn number(&mut self, name: Name, value: Option<u64>) {
        self.0.extend_from_slice(name.json.as_bytes());
        match value {
            Some(value) => self.0.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            None => self.0.extend_from_slice(b"null"),
        }
    }

    #[inline]
    fn text(&mut self, name: Name, value: Option<&[u8]>) {
        self.0.extend_from_slice(name.json.as_bytes());
        match value {
            Some(value) => {
                self.0.push(b'"');
                self.0.extend_from_slice(value);
                self.0.push(b'"');
            }
            None => self.0.extend_from_slice(b"null"),
        }
    }

    #[inline]
    fn flag(&mut self, name: Name, value: Option<bool>) {
        self.0.extend_from_slice(name.json.as_bytes());
        self.0.extend_from_slice(match value {
            Some(true) => b"true",
            Some(false) => b"false",
            None => b"null",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::cells::FIELD_NAMES;
    use crate::render::{Format, Renderer, samples};

    #[test]
    fn every_field_stands_on_every_line_in_its_order() {
        let mut renderer = Renderer::new(Format::Jsonl);
        let mut out = Vec::new();
        for record in samples::all() {
            let before = out.len();
            renderer.record(&record, &mut out);
            assert!(out.len() - before < LINE_ROOM);
        }
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            assert_eq!(object.len(), FIELD_NAMES.len(), "{line}");
            let places = FIELD_NAMES.map(|name| line.find(&format!("\"{name}\":")).unwrap());
            assert!(places.is_sorted(), "{line}");
        }
        insta::assert_snapshot!(text);
    }
}
