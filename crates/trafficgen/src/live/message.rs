//! Messages of libpq, cut out of a TCP stream.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;

/// The longest message that is taken: an SLRU segment of 32 pages with room to spare.
const MESSAGE_BYTES: usize = 1 << 20;

/// Bytes asked of the socket at once.
const READ_BYTES: usize = 256 << 10;

/// A message: its type, 0 for a startup packet, and its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    /// Type.
    pub(super) tag: u8,
    /// What is behind the length.
    pub(super) body: &'a [u8],
}

/// Reads messages from a socket.
#[derive(Debug)]
pub(super) struct MessageReader {
    socket: TcpStream,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

/// Where a message lies in the buffer.
#[derive(Debug, Clone, Copy)]
struct Place {
    header: usize,
    total: usize,
}

impl MessageReader {
    /// Reads from this socket.
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { socket, buffer: vec![0; READ_BYTES], start: 0, end: 0 }
    }

    /// One byte, or `None` at the end of the stream.
    ///
    /// # Errors
    /// The socket's.
    pub(super) fn byte(&mut self) -> io::Result<Option<u8>> {
        while self.start == self.end {
            if !self.fill()? {
                return Ok(None);
            }
        }
        let byte = self.buffer.get(self.start).copied();
        self.start += 1;
        Ok(byte)
    }

    /// A packet without type, as a connection begins with.
    ///
    /// # Errors
    /// The socket's, and a length that cannot be.
    pub(super) fn startup(&mut self) -> io::Result<Option<Message<'_>>> {
        self.read(0)
    }

    /// The next message; `None` at the end of the stream.
    ///
    /// # Errors
    /// The socket's, and a length that cannot be.
    pub(super) fn message(&mut self) -> io::Result<Option<Message<'_>>> {
        self.read(1)
    }

    /// Whether a whole message is there without waiting; reads what the socket has.
    ///
    /// # Errors
    /// The socket's, and a length that cannot be.
    pub(super) fn ready(&mut self) -> io::Result<bool> {
        if self.place(1)?.is_some() {
            return Ok(true);
        }
        self.socket.set_nonblocking(true)?;
        let filled = self.fill();
        self.socket.set_nonblocking(false)?;
        match filled {
            Ok(_) => Ok(self.place(1)?.is_some()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, tag_bytes: usize) -> io::Result<Option<Message<'_>>> {
        let place = loop {
            match self.place(tag_bytes)? {
                Some(place) => break place,
                None if self.fill()? => {}
                None => return Ok(None),
            }
        };
        let message = self.buffer.get(self.start..self.start + place.total).unwrap_or_default();
        self.start += place.total;
        let tag = if tag_bytes == 0 { 0 } else { message.first().copied().unwrap_or(0) };
        Ok(Some(Message { tag, body: message.get(place.header..).unwrap_or_default() }))
    }

    /// Where the next message lies, if it is there whole.
    fn place(&self, tag_bytes: usize) -> io::Result<Option<Place>> {
        let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(length) = unread.get(tag_bytes..).and_then(|rest| rest.first_chunk()) else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if !(4..=MESSAGE_BYTES).contains(&length) {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        let total = tag_bytes + length;
        Ok((unread.len() >= total).then_some(Place { header: tag_bytes + 4, total }))
    }

    /// Reads once. False at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() - self.end < READ_BYTES / 2 {
            self.buffer.resize(self.buffer.len() + READ_BYTES, 0);
        }
        let free = self.buffer.get_mut(self.end..).unwrap_or_default();
        let read = self.socket.read(free)?;
        self.end += read;
        Ok(read > 0)
    }
}
