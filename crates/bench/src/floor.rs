//! The floor: what any program does at least that decodes a capture on one core.
//!
//! It reads the file in pieces, steps from packet header to packet header, and touches the first bytes of each packet: as
//! many as the headers of Ethernet, IPv4 and TCP with timestamps take.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// How much is read at a time, as pagesniff does it.
const PIECE_BYTES: usize = 1 << 20;

/// Ethernet 14, IPv4 20, TCP 20, timestamps option 12.
const TOUCHED_BYTES: usize = 66;

const FILE_HEADER_BYTES: usize = 24;
const PACKET_HEADER_BYTES: usize = 16;

/// The magic number of a file with nanoseconds, as a machine of the same byte order wrote it.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;

/// What a walk came to.
#[derive(Debug, PartialEq, Eq)]
struct Walked {
    packets: u64,
    /// Of all bytes that were touched, so that none of it can be left out.
    sum: u64,
}

/// Walks a file and prints what it came to.
pub(crate) fn print(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let Walked { packets, sum } = walk(&file).with_context(|| format!("cannot walk {}", path.display()))?;
    println!("{packets} packets, sum {}", black_box(sum));
    Ok(())
}

fn walk(file: &File) -> Result<Walked> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut walked = Walked { packets: 0, sum: 0 };
    let mut offset = FILE_HEADER_BYTES as u64;
    let mut header = [0; FILE_HEADER_BYTES];
    file.read_exact_at(&mut header, 0).context("it has no header")?;
    if word(&header, 0) != Some(MAGIC_NANOSECONDS) {
        bail!("it is no pcap file with nanoseconds in this machine's byte order");
    }
    loop {
        // What is left of the piece before is read again: a packet at most.
        let length = file.read_at(&mut piece, offset)?;
        let used = walk_piece(piece.get(..length).unwrap_or_default(), &mut walked);
        if used == 0 {
            match length {
                0 => return Ok(walked),
                PIECE_BYTES => bail!("a packet of more than {PIECE_BYTES} bytes"),
                _ => bail!("it ends within a packet"),
            }
        }
        offset += used as u64;
    }
}

/// Walks the packets that are whole; gives how many bytes they take.
fn walk_piece(piece: &[u8], walked: &mut Walked) -> usize {
    let mut rest = piece;
    while let Some((header, after)) = rest.split_at_checked(PACKET_HEADER_BYTES) {
        let captured = word(header, 8).unwrap_or(0) as usize;
        let Some((packet, next)) = after.split_at_checked(captured) else { break };
        let touched = packet.get(..TOUCHED_BYTES).unwrap_or(packet);
        walked.sum = touched.iter().fold(walked.sum, |sum, &byte| sum.wrapping_add(byte.into()));
        walked.packets += 1;
        rest = next;
    }
    piece.len() - rest.len()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file_of(packets: &[&[u8]]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let mut header = [0; FILE_HEADER_BYTES];
        header[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_ne_bytes());
        file.write_all(&header).unwrap();
        for packet in packets {
            let length = u32::try_from(packet.len()).unwrap();
            for field in [0, 0, length, length] {
                file.write_all(&u32::to_ne_bytes(field)).unwrap();
            }
            file.write_all(packet).unwrap();
        }
        file
    }

    #[test]
    fn every_packet_is_touched_however_the_pieces_fall() {
        let packet = [1; 1000];
        let packets = vec![&packet[..]; 3000];
        assert_eq!(walk(&file_of(&packets)).unwrap(), Walked { packets: 3000, sum: 3000 * 66 });
        assert_eq!(walk(&file_of(&[&[1; 65], &[1; 67]])).unwrap(), Walked { packets: 2, sum: 65 + 66 });
        assert_eq!(walk(&file_of(&[])).unwrap(), Walked { packets: 0, sum: 0 });
    }

    #[test]
    fn a_cut_file_and_a_foreign_one_are_refused() {
        let file = file_of(&[&[1; 100]]);
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        assert!(walk(&file).unwrap_err().to_string().contains("ends within a packet"));
        let mut foreign = tempfile::tempfile().unwrap();
        foreign.write_all(&[0; 100]).unwrap();
        assert!(walk(&foreign).is_err());
    }
}
