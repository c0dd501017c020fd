//! CSV (RFC 4180): the fields of JSON Lines under a header, empty where not known. No field holds a comma, a quote or
//! a line break, so nothing is ever quoted.

use record::Record;

use super::cells::{Cells, FIELD_NAMES, Name, TextCaches, write_fields};

/// Appends the header line.
pub(super) fn header(out: &mut Vec<u8>) {
    out.extend_from_slice(FIELD_NAMES.join(",").as_bytes());
    out.push(b'\n');
}

/// Appends one record.
pub(super) fn record(record: &Record, caches: &mut TextCaches, out: &mut Vec<u8>) {
    write_fields(record, caches, &mut Values(out));
    // The comma behind the last field.
    if let Some(comma) = out.last_mut() {
        *comma = b'\n';
    }
}

struct Values<'a>(&'a mut Vec<u8>);

impl Values<'_> {
    fn value(&mut self, text: &[u8]) {
        self.0.extend_from_slice(text);
        self.0.push(b',');
    }
}

impl Cells for Values<'_> {
    fn number(&mut self, _: Name, value: Option<u64>) {
        match value {
            Some(value) => self.value(itoa::Buffer::new().format(value).as_bytes()),
            None => self.value(b""),
        }
    }
    fn text(&mut self, _: Name, value: Option<&[u8]>) {
        self.value(value.unwrap_or_default());
    }
    fn flag(&mut self, _: Name, value: Option<bool>) {
        self.value(value.map_or("", |flag| if flag { "true" } else { "false" }).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{Format, Renderer, samples};

    #[test]
    fn a_field_that_is_not_known_is_empty() {
        let mut renderer = Renderer::new(Format::Csv);
        let mut out = Vec::new();
        renderer.header(&mut out);
        samples::all().iter().for_each(|record| renderer.record(record, &mut out));
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            assert_eq!(line.split(',').count(), FIELD_NAMES.len(), "{line}");
            assert!(!line.contains('"'), "{line}");
        }
        insta::assert_snapshot!(text);
    }
}
