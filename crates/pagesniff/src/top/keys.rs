//! Keys, as a terminal sends them.
//!
//! crossterm's reader is not used: it waits for ever, at full speed, on a terminal that is gone, and holds a key back that
//! comes with a change of the window's size.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes that are read at once; more wait in the terminal.
const READ_BYTES: usize = 256;

/// No key's sequence is longer; what goes on for longer is none.
const LONGEST_SEQUENCE: usize = 16;

const ESCAPE: u8 = 0x1b;

/// A key that means something here, or could be typed into a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Tab,
    BackTab,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// F1.
    Help,
    /// Ctrl-C: in raw mode it is no signal.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-U.
    Clear,
    /// Ctrl-L: something else has written on the screen.
    Redraw,
}

/// What standard input has.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// These keys, or none yet.
    Keys(Vec<Key>),
    /// The terminal is gone.
    Gone,
}

/// Reads keys from standard input.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The beginning of a sequence whose end has not come.
    begun: Vec<u8>,
}

impl Keys {
    /// Waits for keys for so long.
    ///
    /// # Errors
    ///
    /// Standard input cannot be read.
    pub(super) fn read(&mut self, within: Duration) -> io::Result<Read> {
        let stdin = io::stdin();
        let timeout = Timespec::try_from(within).ok();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) => return Ok(Read::Keys(self.rest())),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Read::Keys(Vec::new())),
            Err(error) => return Err(error.into()),
        }
        let mut bytes = [0; READ_BYTES];
        match rustix::io::read(&stdin, &mut bytes) {
            // A terminal that was hung up reads as its end, or as an error.
            Ok(0) | Err(rustix::io::Errno::IO) => Ok(Read::Gone),
            Ok(count) => Ok(Read::Keys(self.take(bytes.get(..count).unwrap_or_default()))),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => Ok(Read::Keys(Vec::new())),
            Err(error) => Err(error.into()),
        }
    }

    /// The keys that are whole.
    fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.begun.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut rest = self.begun.as_slice();
        while !rest.is_empty() {
            let Found { key, length } = match first(rest) {
                Some(found) => found,
                None if rest.len() >= LONGEST_SEQUENCE => Found { key: None, length: rest.len() },
                None => break,
            };
            keys.extend(key);
            rest = rest.get(length..).unwrap_or_default();
        }
        self.begun = rest.to_vec();
        keys
    }

    /// Nothing has followed: an escape alone was the key of that name.
    fn rest(&mut self) -> Vec<Key> {
        let begun = std::mem::take(&mut self.begun);
        if begun == [ESCAPE] { vec![Key::Escape] } else { Vec::new() }
    }
}

/// What bytes begin with: a key, or something that means nothing here, and how long that is.
struct Found {
    key: Option<Key>,
    length: usize,
}

/// `None` where more has to come.
fn first(bytes: &[u8]) -> Option<Found> {
    let one = |key| Some(Found { key, length: 1 });
    match *bytes {
        [] | [ESCAPE] => None,
        [ESCAPE, b'[', ref rest @ ..] => control_sequence(rest),
        [ESCAPE, b'O', ref rest @ ..] => Some(Found { key: named(*rest.first()?, &[]), length: 3 }),
        [ESCAPE, ..] => one(Some(Key::Escape)),
        [byte @ (0..0x20 | 0x7f), ..] => one(control(byte)),
        [lead, ..] => character(lead, bytes),
    }
}

/// ECMA-48: parameters, intermediates, and a final byte.
fn control_sequence(rest: &[u8]) -> Option<Found> {
    let end = rest.iter().position(|byte| !(0x20..0x40).contains(byte))?;
    let (parameters, last) = (rest.get(..end)?, *rest.get(end)?);
    Some(Found { key: named(last, parameters), length: end + 3 })
}

fn named(last: u8, parameters: &[u8]) -> Option<Key> {
    let key = match (last, parameters) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'Z', _) => Key::BackTab,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        (b'P', []) | (b'~', b"11") => Key::Help,
        _ => return None,
    };
    Some(key)
}

fn control(byte: u8) -> Option<Key> {
    let key = match byte {
        0x03 => Key::Interrupt,
        0x08 | 0x7f => Key::Backspace,
        b'\t' => Key::Tab,
        b'\n' | b'\r' => Key::Enter,
        0x0c => Key::Redraw,
        0x15 => Key::Clear,
        0x1a => Key::Suspend,
        _ => return None,
    };
    Some(key)
}

/// One character of UTF-8.
fn character(lead: u8, bytes: &[u8]) -> Option<Found> {
    let length = match lead {
        0..0x80 => 1,
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return Some(Found { key: None, length: 1 }),
    };
    let text = str::from_utf8(bytes.get(..length)?).ok();
    let typed = text.and_then(|text| text.chars().next());
    // What is no character is passed over a byte at a time: a key may begin within.
    Some(Found { key: typed.map(Key::Char), length: if typed.is_some() { length } else { 1 } })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut reader = Keys::default();
        let taken = reader.take(bytes);
        taken.into_iter().chain(reader.rest()).collect()
    }

    #[test]
    fn each_key_is_known_by_what_terminals_send_for_it() {
        for (bytes, expected) in [
            (&b"q"[..], Key::Char('q')),
            ("µ".as_bytes(), Key::Char('µ')),
            ("🦀".as_bytes(), Key::Char('🦀')),
            (b"\r", Key::Enter),
            (b"\x1b", Key::Escape),
            (b"\x7f", Key::Backspace),
            (b"\t", Key::Tab),
            (b"\x1b[Z", Key::BackTab),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[1;5C", Key::Right),
            (b"\x1b[D", Key::Left),
            (b"\x1b[H", Key::Home),
            (b"\x1b[1~", Key::Home),
            (b"\x1b[4~", Key::End),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1bOP", Key::Help),
            (b"\x1b[11~", Key::Help),
            (b"\x03", Key::Interrupt),
            (b"\x1a", Key::Suspend),
            (b"\x15", Key::Clear),
            (b"\x0c", Key::Redraw),
        ] {
            assert_eq!(keys(bytes), [expected], "{bytes:?}");
        }
    }

    #[test]
    fn keys_follow_one_another_and_what_is_none_is_passed_over() {
        let bytes = b"a\x1b[99~\x1b[200~b\x1b[<0;3;4M\xff\xc3q\x1b[Bc\x1bd";
        let expected =
            [Key::Char('a'), Key::Char('b'), Key::Char('q'), Key::Down, Key::Char('c'), Key::Escape, Key::Char('d')];
        assert_eq!(keys(bytes), expected);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_bytes_are_cut(bytes in prop::collection::vec(any::<u8>(), 0..60), at in 0usize..60) {
            let (mut whole, mut cut) = (Keys::default(), Keys::default());
            // Sequences without end are given up by their length, which a cut changes.
            prop_assume!(!bytes.windows(2).any(|pair| pair == b"\x1b["));
            let (front, back) = bytes.split_at(at.min(bytes.len()));
            let mut keys = cut.take(front);
            keys.extend(cut.take(back));
            prop_assert_eq!(keys, whole.take(&bytes));
            prop_assert!(whole.begun.len() < LONGEST_SEQUENCE);
        }
    }
}
