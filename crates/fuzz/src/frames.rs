//! Both directions of one connection, message by message or not: what the framing makes of them.
//!
//! Input: a byte of settings, a byte that says how the turns are cut, then turns: `side and time, count u16, bytes`. The top
//! bit of a turn's first byte says that it is the server's; the low bits are milliseconds since the turn before.

use decode::Config;
use record::{Record, Timestamp};

use crate::input::Input;
use crate::possible;
use crate::run::{self, Outcome};
use crate::segment::{ACK, Header, Owned, SYN};

/// Settings: the connection's opening is not seen.
const JOINED: u8 = 1;

/// Enough for a start-up, a command, and requests with their answers, twice.
const MAX_TURNS: usize = 64;

/// The longest segment: what a loopback carries.
const MAX_TURN_BYTES: usize = 16 << 10;

/// What one side says in one go.
struct Turn<'a> {
    is_from_client: bool,
    time: Timestamp,
    bytes: &'a [u8],
}

/// Runs the target.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    let (settings, cutting) = (input.byte(), input.byte());
    let turns = turns(&mut input);
    let is_joined = settings & JOINED != 0;
    let whole = decode(&turns, is_joined, |_| usize::MAX);
    let [client, server] = [true, false].map(|side| stream(&turns, side));
    for record in &whole.records {
        assert!(possible::crossed_the_wire(record, &client, &server), "nobody said that: {record:?}");
    }
    let cut = decode(&turns, is_joined, |piece| piece_bytes(cutting, piece));
    for record in &cut.records {
        assert!(possible::crossed_the_wire(record, &client, &server), "nobody said that: {record:?}");
    }
    // Where the framing is lost, the search for it rests on where segments end, too.
    let is_framed = !is_joined && keeps_framing(&client, &server) && whole.stats.malformed == 0;
    if is_framed {
        assert_eq!(cut.records, whole.records, "cut with {cutting}");
        assert_eq!(cut.stats.malformed, 0, "cut with {cutting}");
    }
}

fn turns<'a>(input: &mut Input<'a>) -> Vec<Turn<'a>> {
    let mut time = Timestamp(1_700_000_000_000_000_000);
    let mut turns = Vec::new();
    while !input.is_empty() && turns.len() < MAX_TURNS {
        let first = input.byte();
        time = time.plus(u64::from(first & 0x7f) * 1_000_000 + 1);
        let bytes = input.counted();
        turns.push(Turn { is_from_client: first & 0x80 == 0, time, bytes: &bytes[..bytes.len().min(MAX_TURN_BYTES)] });
    }
    turns
}

fn stream(turns: &[Turn<'_>], is_from_client: bool) -> Vec<u8> {
    turns.iter().filter(|turn| turn.is_from_client == is_from_client).flat_map(|turn| turn.bytes).copied().collect()
}

/// From one byte to some hundred, in an order that looks like none.
fn piece_bytes(cutting: u8, piece: usize) -> usize {
    let mixed = (piece as u32).wrapping_add(u32::from(cutting)).wrapping_mul(0x9e37_79b1) >> 24;
    if cutting & 1 == 0 { mixed as usize % 7 + 1 } else { mixed as usize * 5 + 1 }
}

/// Decodes the turns, each in pieces as long as `piece_bytes` says, all stamped alike.
fn decode(turns: &[Turn<'_>], is_joined: bool, piece_bytes: impl Fn(usize) -> usize) -> Outcome {
    let mut packets: Vec<Owned> = Vec::new();
    let (mut client_seq, mut server_seq) = (0xffff_f000_u32, 0x7fff_f000_u32);
    let mut push = |is_from_client: bool, flags: u8, time: Timestamp, payload: &[u8]| {
        let (own, other) = if is_from_client { (&mut client_seq, server_seq) } else { (&mut server_seq, client_seq) };
        let ip_id = packets.len() as u16;
        let header = Header {
            client: 7,
            port: 40_007,
            is_from_client,
            seq: *own,
            ack: other,
            flags,
            ip_id,
            ..Header::default()
        };
        *own = own.wrapping_add(payload.len() as u32 + u32::from(flags & SYN != 0));
        packets.push(header.packet(time, payload, 0));
    };
    let start = Timestamp(1_700_000_000_000_000_000);
    if !is_joined {
        push(true, SYN, start, &[]);
        push(false, SYN | ACK, start, &[]);
        push(true, ACK, start, &[]);
    }
    let mut pieces = 0;
    for turn in turns {
        let mut rest = turn.bytes;
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(piece_bytes(pieces).min(rest.len()));
            push(turn.is_from_client, ACK, turn.time, piece);
            (rest, pieces) = (later, pieces + 1);
        }
    }
    let config = Config { page_hash: true, ..Config::default() };
    let outcome = run::decode(&packets, &config);
    let span = (start, turns.last().map_or(start, |turn| turn.time));
    outcome.records.iter().for_each(|record: &Record| possible::check(record, span));
    outcome
}

/// Whether both directions are messages to their ends, of tags that may stand there, and the pagestream is never left.
fn keeps_framing(client: &[u8], server: &[u8]) -> bool {
    /// The start-up's own limit.
    const MAX_STARTUP_BYTES: usize = 10_000;
    let Some((length, _)) = client.split_first_chunk() else { return true };
    let length = u32::from_be_bytes(*length) as usize;
    if !(8..=MAX_STARTUP_BYTES).contains(&length) || client.len() < length {
        return false;
    }
    // Requests for encryption come first, and are answered with a byte: left to the other properties.
    let (start_up, rest) = client.split_at(length);
    if start_up[4..6] != [0, 3] {
        return false;
    }
    let [before_grant, behind] = [b"RSKZENAdCHcWD123nT".as_slice(), b"SdCNA"];
    let (grant, is_whole) = messages_up_to(server, before_grant, b'W');
    is_whole && messages_up_to(rest, b"QPdSHBDECFpX", 0).1 && messages_up_to(grant, behind, 0).1
}

/// Passes over messages of these tags, up to the one of the tag `last`. Gives what lies behind it, and whether all was as it
/// should be.
fn messages_up_to<'a>(stream: &'a [u8], tags: &[u8], last: u8) -> (&'a [u8], bool) {
    let mut rest = stream;
    while let [tag, l0, l1, l2, l3, ..] = *rest {
        let length = u32::from_be_bytes([l0, l1, l2, l3]);
        if !tags.contains(&tag) || !(4..0x4000_0000).contains(&length) {
            return (rest, false);
        }
        rest = rest.get(1 + length as usize..).unwrap_or_default();
        if tag == last {
            return (rest, true);
        }
    }
    (rest, rest.first().is_none_or(|tag| tags.contains(tag)))
}
