//! What a file seems to be that is no capture, and what its owner can do.

use super::compression::Compression;

/// What is said where nothing better is known.
const READABLE: &str = "pagesniff reads pcap and pcapng, each plain, .gz or .zst";

/// Other formats by how they begin, each with its name and what helps.
const KNOWN: [(&[u8], &str, &str); 11] = [
    (b"\x7fELF", "it is a program (ELF)", READABLE),
    (b"\xfd7zXZ", "it is compressed with xz", "decompress it: `xz -dc FILE | pagesniff --read -`"),
    (b"BZh", "it is compressed with bzip2", "decompress it: `bzip2 -dc FILE | pagesniff --read -`"),
    (b"\x04\x22\x4d\x18", "it is compressed with lz4", "decompress it: `lz4 -dc FILE | pagesniff --read -`"),
    (b"PK\x03\x04", "it is a zip archive", "unpack it and name the captures in it"),
    (b"snoop\0\0\0", "it is a Solaris snoop capture", "convert it: `editcap -F pcapng FILE OUT`"),
    (b"GMBU", "it is a Microsoft Network Monitor capture", "convert it: `editcap -F pcapng FILE OUT`"),
    (b"RTSS", "it is a Microsoft Network Monitor capture", "convert it: `editcap -F pcapng FILE OUT`"),
    (b"XCP\0", "it is a NetXRay capture", "convert it: `editcap -F pcapng FILE OUT`"),
    (b"PAR1", "it is a Parquet file", READABLE),
    (b"SQLite format 3", "it is an SQLite database", READABLE),
];

/// What a file seems to be that begins with `start`, and what to do about it.
pub(super) fn describe(start: &[u8]) -> (String, &'static str) {
    if Compression::recognise(start).is_some() {
        return ("it is compressed twice".to_owned(), "decompress it once");
    }
    if let Some((_, name, advice)) = KNOWN.iter().find(|(magic, ..)| start.starts_with(magic)) {
        return ((*name).to_owned(), advice);
    }
    if is_text(start) {
        return ("it is text".to_owned(), READABLE);
    }
    let first = start.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    (format!("it begins with the bytes {first}"), READABLE)
}

/// Whether all of it is what a person could have typed; a character cut at the end does not count against it.
fn is_text(start: &[u8]) -> bool {
    let whole = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(start.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
        }
        Err(_) => return false,
    };
    !whole.is_empty() && whole.chars().all(|letter| !letter.is_control() || letter.is_whitespace())
}
