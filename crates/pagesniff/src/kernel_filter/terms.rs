//! What passes.

use super::assembler::{Assembler, Change, Label, Size, Test};
use super::excluded::{self, Family};
use super::{Followed, Frames};

/// As much of a packet as libpcap's own programs ask for.
const WHOLE_PACKET: u32 = 0x4_0000;

/// Where an IP packet begins in an Ethernet frame without a tag.
const ETHERNET_BYTES: u32 = 14;

/// What a VLAN tag moves it by.
const TAG_BYTES: u32 = 4;

/// The protocols that say that a tag follows.
const TAGS: [u32; 3] = [0x8100, 0x88a8, 0x9100];

const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const TCP: u32 = 6;
const HOP_BY_HOP: u32 = 0;
const FRAGMENT: u32 = 44;
const IPV6_BYTES: u32 = 40;

/// FIN, SYN, RST.
const OPENS_OR_ENDS: u32 = 0b111;

/// Not in the packet: `SKF_AD_OFF + SKF_AD_PROTOCOL`, and `SKF_AD_OFF + SKF_AD_RANDOM` of linux/filter.h.
const PROTOCOL: u32 = 0xffff_f000;
const RANDOM: u32 = 0xffff_f038;

/// The program's memory: where the packet ends, where its TCP header begins, whether the server sent it.
const END: u32 = 0;
pub(super) const TCP_AT: u32 = 1;
pub(super) const IS_SERVERS: u32 = 2;
/// The sender's address, and the receiver's: one word each, or four.
pub(super) const SOURCE: u32 = 4;
pub(super) const DESTINATION: u32 = 8;

/// Whether some of what clients send passes whatever it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    /// One packet in 256, by the kernel's random numbers.
    OneIn256,
    /// None: for tests that compare.
    #[cfg(test)]
    Nothing,
}

/// Where a packet goes once that is decided.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exits {
    pub(super) pass: Label,
    pub(super) drop: Label,
    /// A client's packet that nothing is to be learned from.
    pub(super) sample: Label,
}

/// Writes the program.
pub(super) fn write(frames: Frames, ports: &[u16], followed: Followed<'_>, sample: Sample) -> Assembler {
    let mut code = Assembler::default();
    let exits = Exits { pass: code.label(), drop: code.label(), sample: code.label() };
    let families = [Family::V4, Family::V6].map(|family| (family, code.label()));
    let [(_, v4), (_, v6)] = families;
    network(&mut code, frames, (v4, v6), exits);
    for (family, label) in families {
        code.place(label);
        transport(&mut code, ports, (family, followed), exits);
    }
    code.place(exits.sample);
    if sample == Sample::OneIn256 {
        code.load(Size::Word, RANDOM);
        code.unless(Test::HasAnyOf(0xff), exits.pass);
    }
    code.place(exits.drop);
    code.finish_with(0);
    code.place(exits.pass);
    code.finish_with(WHOLE_PACKET);
    code
}

/// Finds the IP header and goes on with X at the TCP header behind it.
fn network(code: &mut Assembler, frames: Frames, next: (Label, Label), exits: Exits) {
    match frames {
        Frames::Ethernet => {
            for tags in 0..=2 {
                let base = ETHERNET_BYTES.saturating_add(TAG_BYTES.saturating_mul(tags));
                let tagged = code.label();
                code.load(Size::Half, base.saturating_sub(2));
                if tags < 2 {
                    TAGS.iter().for_each(|&tag| code.if_so(Test::Equals(tag), tagged));
                }
                by_protocol(code, base, next, exits);
                code.place(tagged);
            }
        }
        Frames::Cooked => {
            code.load(Size::Word, PROTOCOL);
            // What lies behind a tag that is left there is not looked for.
            TAGS.iter().for_each(|&tag| code.if_so(Test::Equals(tag), exits.pass));
            by_protocol(code, 0, next, exits);
        }
        Frames::Ip => {
            let is_v4 = code.label();
            code.load(Size::Byte, 0);
            code.change(Change::ShiftRight(4));
            code.if_so(Test::Equals(4), is_v4);
            code.unless(Test::Equals(6), exits.drop);
            ipv6(code, 0, next.1, exits);
            code.place(is_v4);
            ipv4(code, 0, next.0, exits);
        }
    }
}

/// The accumulator has the protocol's number, and an IP header would begin at `base`.
fn by_protocol(code: &mut Assembler, base: u32, next: (Label, Label), exits: Exits) {
    let is_v4 = code.label();
    code.if_so(Test::Equals(IPV4), is_v4);
    code.unless(Test::Equals(IPV6), exits.drop);
    ipv6(code, base, next.1, exits);
    code.place(is_v4);
    ipv4(code, base, next.0, exits);
}

fn ipv4(code: &mut Assembler, base: u32, next: Label, exits: Exits) {
    let at = |offset: u32| base.saturating_add(offset);
    code.load(Size::Byte, at(9));
    code.unless(Test::Equals(TCP), exits.drop);
    // A fragment but the first has no ports.
    code.load(Size::Half, at(6));
    code.if_so(Test::HasAnyOf(0x1fff), exits.pass);
    code.load(Size::Half, at(2));
    code.change(Change::Add(base));
    code.store(END);
    for (slot, offset) in [(SOURCE, 12), (DESTINATION, 16)] {
        code.load(Size::Word, at(offset));
        code.store(slot);
    }
    code.load_header_length(base);
    code.set(base);
    code.change(Change::AddX);
    code.copy_to_x();
    code.goto(next);
}

fn ipv6(code: &mut Assembler, base: u32, next: Label, exits: Exits) {
    let at = |offset: u32| base.saturating_add(offset);
    let (is_plain, is_extended) = (code.label(), code.label());
    code.load(Size::Byte, at(6));
    code.if_so(Test::Equals(TCP), is_plain);
    code.if_so(Test::Equals(HOP_BY_HOP), is_extended);
    code.unless(Test::Equals(FRAGMENT), exits.drop);
    // TCP behind a header that hides the ports, or moves them.
    code.place(is_extended);
    code.load(Size::Byte, at(IPV6_BYTES));
    code.if_so(Test::Equals(TCP), exits.pass);
    code.goto(exits.drop);
    code.place(is_plain);
    code.load(Size::Half, at(4));
    code.change(Change::Add(at(IPV6_BYTES)));
    code.store(END);
    for (slot, offset) in [(SOURCE, 8), (DESTINATION, 24)] {
        for word in 0..4_u32 {
            code.load(Size::Word, at(offset).saturating_add(word.saturating_mul(4)));
            code.store(slot.saturating_add(word));
        }
    }
    code.set_x(at(IPV6_BYTES));
    code.goto(next);
}

/// X is at a TCP header.
fn transport(code: &mut Assembler, ports: &[u16], (family, followed): (Family, Followed<'_>), exits: Exits) {
    let (from_client, from_server, tree) = (code.label(), code.label(), code.label());
    for (offset, label) in [(2, from_client), (0, from_server)] {
        code.load_at_x(Size::Half, offset);
        ports.iter().for_each(|&port| code.if_so(Test::Equals(port.into()), label));
    }
    code.goto(exits.drop);
    for (label, is_servers) in [(from_client, false), (from_server, true)] {
        code.place(label);
        if followed == Followed::Everything {
            code.goto(exits.pass);
            continue;
        }
        code.load_at_x(Size::Byte, 13);
        code.if_so(Test::HasAnyOf(OPENS_OR_ENDS), exits.pass);
        match followed {
            Followed::AllBut(_) => excluded::look_up(code, family, is_servers, tree),
            _ if is_servers => servers_beginning(code, exits),
            _ => clients_beginning(code, exits),
        }
    }
    if let Followed::AllBut(ends) = followed {
        code.place(tree);
        excluded::tree(code, family, ends, exits);
    }
}

/// X moves from the TCP header to its payload.
fn to_payload(code: &mut Assembler) {
    code.load_at_x(Size::Byte, 12);
    code.change(Change::And(0xf0));
    code.change(Change::ShiftRight(2));
    code.change(Change::AddX);
    code.copy_to_x();
}

/// A start-up, or a message of less than 64 KiB that is not a request (`d`): passwords, commands, the end.
fn clients_beginning(code: &mut Assembler, exits: Exits) {
    let is_typed = code.label();
    to_payload(code);
    code.load_at_x(Size::Word, 0);
    code.if_so(Test::AtLeast(0x1_0000), is_typed);
    // Version 3 of the protocol, or a request for encryption (80877103, 80877104).
    code.load_at_x(Size::Half, 4);
    code.if_so(Test::Equals(3), exits.pass);
    code.if_so(Test::Equals(0x04d2), exits.pass);
    code.goto(exits.sample);
    code.place(is_typed);
    letter_but_d(code, exits.sample, exits.pass);
}

/// A message of less than 64 KiB that is not an answer (`d`), or the one byte that answers a request for encryption.
fn servers_beginning(code: &mut Assembler, exits: Exits) {
    let is_message = code.label();
    to_payload(code);
    code.recall(END);
    code.change(Change::SubtractX);
    code.unless(Test::Equals(1), is_message);
    code.load_at_x(Size::Byte, 0);
    for byte in *b"SNG" {
        code.if_so(Test::Equals(byte.into()), exits.pass);
    }
    code.goto(exits.drop);
    code.place(is_message);
    code.load_at_x(Size::Word, 0);
    letter_but_d(code, exits.drop, exits.pass);
}

/// The accumulator has a payload's first four bytes: a tag, and three of the length's.
fn letter_but_d(code: &mut Assembler, no: Label, yes: Label) {
    code.if_so(Test::HasAnyOf(0x00ff_ff00), no);
    code.change(Change::ShiftRight(24));
    code.if_so(Test::Equals(b'd'.into()), no);
    code.unless(Test::AtLeast(b'1'.into()), no);
    code.if_so(Test::AtLeast(u32::from(b'z').saturating_add(1)), no);
    code.goto(yes);
}

/// A client's packet of a connection that is not followed, from its TCP header on: a command says whose it is from then on.
pub(super) fn clients_command(code: &mut Assembler, exits: Exits) {
    to_payload(code);
    code.load_at_x(Size::Word, 0);
    code.if_so(Test::HasAnyOf(0x00ff_ff00), exits.sample);
    code.change(Change::ShiftRight(24));
    for tag in *b"QP" {
        code.if_so(Test::Equals(tag.into()), exits.pass);
    }
    code.goto(exits.sample);
}
