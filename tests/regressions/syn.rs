//! A SYN that is answered several times, and differently.

use decode::{Config, Sink, StreamContent, StreamPiece};
use record::{Record, Timestamp};

use crate::fuzz::segment::{ACK, FIN, Header, RST, SYN};

/// The bytes of the server's stream.
#[derive(Default)]
struct Server(Vec<u8>);

impl Sink for Server {
    fn record(&mut self, _: &Record) {}

    fn stream(&mut self, piece: &StreamPiece<'_>) {
        if let (false, StreamContent::Bytes(bytes)) = (piece.is_from_client, piece.content) {
            self.0.extend_from_slice(bytes);
        }
    }
}

/// Direction (true: from the client), flags, SEG.SEQ, SEG.ACK, payload.
type Step<'a> = (bool, u8, u32, u32, &'a [u8]);

const CLIENT: u32 = 1000;
const REAL: u32 = 97_572_840;

fn server_stream(steps: &[Step<'_>]) -> Vec<u8> {
    let mut decoder = decode::Decoder::new(Config::default());
    let mut server = Server::default();
    for (ip_id, &(is_from_client, flags, seq, ack, payload)) in (0..).zip(steps) {
        let header = Header { client: 7, port: 40_007, is_from_client, seq, ack, flags, ip_id, ..Header::default() };
        let time = Timestamp(1_700_000_000_000_000_000 + u64::from(ip_id) * 1_000_000);
        decoder.packet(&header.packet(time, payload, 0).packet(), &mut server);
    }
    decoder.finish(&mut server);
    server.0
}

#[test]
fn the_answer_that_the_client_acknowledges_is_the_one_that_counts() {
    const STRAY: u32 = 3_212_050_950;
    let stream = server_stream(&[
        (true, SYN, CLIENT, 0, b""),
        (false, SYN | ACK, STRAY, CLIENT + 1, b""),
        (false, SYN | ACK, REAL, CLIENT + 1, b""),
        (false, SYN | ACK, STRAY, CLIENT + 1, b""),
        (false, SYN | ACK, REAL, CLIENT + 1, b""),
        (true, ACK, CLIENT + 1, REAL + 1, b"hello"),
        (false, SYN | ACK, STRAY, CLIENT + 1, b""),
        (false, ACK, REAL + 1, CLIENT + 6, b"welcome"),
    ]);
    assert_eq!(stream, b"welcome");
}

#[test]
fn a_forged_reset_before_the_answer_hides_nothing() {
    let stream = server_stream(&[
        (true, SYN, CLIENT, 0, b""),
        (false, RST | ACK, 0, CLIENT + 1, b""),
        (false, FIN | ACK, 0, CLIENT + 1, b""),
        (false, SYN | ACK, REAL, CLIENT + 1, b""),
        (true, ACK, CLIENT + 1, REAL + 1, b"hello"),
        (false, ACK, REAL + 1, CLIENT + 6, b"welcome"),
    ]);
    assert_eq!(stream, b"welcome");
}
