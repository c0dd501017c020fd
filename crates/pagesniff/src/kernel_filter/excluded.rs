//! The connections that are not followed, as a search tree over their ports.

use std::net::{IpAddr, SocketAddr};

use super::Ends;
use super::assembler::{Assembler, Change, Label, Size, Test};
use super::terms::{DESTINATION, Exits, IS_SERVERS, SOURCE, TCP_AT, clients_command};

/// The program's memory for what is put together from two loads.
const ASIDE: u32 = 3;

/// A version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    fn address_words(self) -> u32 {
        match self {
            Self::V4 => 1,
            Self::V6 => 4,
        }
    }
}

/// A connection as the program compares it: the client's port and the server's in one word, then the addresses' words with
/// their places in the program's memory.
type Row = (u32, Vec<(u32, u32)>);

/// X is at a TCP header: the accumulator gets the client's port and the server's, the memory their addresses in that order.
pub(super) fn look_up(code: &mut Assembler, family: Family, is_servers: bool, tree: Label) {
    code.store_x(TCP_AT);
    code.set(u32::from(is_servers));
    code.store(IS_SERVERS);
    if is_servers {
        code.load_at_x(Size::Half, 2);
        code.change(Change::ShiftLeft(16));
        code.store(ASIDE);
        code.load_at_x(Size::Half, 0);
        code.recall_x(ASIDE);
        code.change(Change::OrX);
        code.store(ASIDE);
        for word in 0..family.address_words() {
            let (source, destination) = (SOURCE.saturating_add(word), DESTINATION.saturating_add(word));
            code.recall(source);
            code.recall_x(destination);
            code.store(destination);
            code.store_x(source);
        }
        code.recall(ASIDE);
    } else {
        code.load_at_x(Size::Word, 0);
    }
    code.goto(tree);
}

/// What follows a look-up.
pub(super) fn tree(code: &mut Assembler, family: Family, ends: &[Ends], exits: Exits) {
    let mut rows: Vec<Row> = ends.iter().filter_map(|ends| row(family, ends)).collect();
    rows.sort_unstable();
    rows.dedup();
    let found = code.label();
    search(code, &rows, (found, exits.pass));
    code.place(found);
    code.recall(IS_SERVERS);
    code.if_so(Test::Equals(1), exits.drop);
    code.recall_x(TCP_AT);
    clients_command(code, exits);
}

/// Halves the rows until they have one pair of ports.
fn search(code: &mut Assembler, rows: &[Row], (found, not_found): (Label, Label)) {
    let keys = rows.first().zip(rows.last()).map(|((first, _), (last, _))| (*first, *last));
    let Some((first, last)) = keys else { return code.goto(not_found) };
    if first == last {
        code.unless(Test::Equals(first), not_found);
        for (_, words) in rows {
            let next = code.label();
            for &(slot, word) in words {
                code.recall(slot);
                code.unless(Test::Equals(word), next);
            }
            code.goto(found);
            code.place(next);
        }
        return code.goto(not_found);
    }
    // Where the upper half begins, but never in the middle of rows that have the same ports.
    let middle = rows.get(rows.len() / 2).map_or(last, |(key, _)| if *key == first { last } else { *key });
    let (lower, upper) = rows.split_at(rows.partition_point(|(key, _)| *key < middle));
    let above = code.label();
    code.if_so(Test::AtLeast(middle), above);
    search(code, lower, (found, not_found));
    code.place(above);
    search(code, upper, (found, not_found));
}

fn row(family: Family, ends: &Ends) -> Option<Row> {
    let (client, server) = (words_of(family, ends.client)?, words_of(family, ends.server)?);
    let key = u32::from(ends.client.port()) << 16 | u32::from(ends.server.port());
    Some((key, (SOURCE..).zip(client).chain((DESTINATION..).zip(server)).collect()))
}

/// The address of that family. IPv4 in its IPv6-mapped form is IPv4 on the wire.
fn words_of(family: Family, end: SocketAddr) -> Option<Vec<u32>> {
    match (family, end.ip().to_canonical()) {
        (Family::V4, IpAddr::V4(address)) => Some(vec![address.to_bits()]),
        (Family::V6, IpAddr::V6(address)) => {
            let word = |chunk: &[u8; 4]| u32::from_be_bytes(*chunk);
            Some(address.octets().as_chunks::<4>().0.iter().map(word).collect())
        }
        _ => None,
    }
}
