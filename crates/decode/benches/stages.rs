//! What a packet costs, stage by stage: `cargo bench -p pagesniff-decode --bench stages`.
//!
//! The stages behind the headers have no door of their own: each is measured by the whole decoder on packets that spend their
//! time in it. What a stage adds is the difference to the one before.

mod traffic;

use std::hint::black_box;
use std::sync::LazyLock;

use decode::wire::Wire;
use decode::{Config, WireStats};
use divan::Bencher;
use divan::counter::ItemsCount;
use record::Record;

use traffic::Traffic;

fn main() {
    divan::main();
}

// As many packets as the third-level cache holds: a replay has read them a moment before, too.
macro_rules! traffic {
    ($($name:ident: $options:literal;)*) => {
        $(static $name: LazyLock<Traffic> =
            LazyLock::new(|| Traffic::compose(concat!("--kinds getpage=1 --depth 32 --requests 1000 ", $options)));)*
    };
}

traffic! {
    PLAIN: "--connections 32";
    MANY: "--connections 500";
    REQUESTS: "--connections 32 --one-side client";
    REORDERED: "--connections 32 --reorder 0.1";
    LOSSY: "--connections 32 --loss 0.01 --reorder 0.01";
    MESSAGES_V2: "--connections 32 --mtu 65535 --protocol 2";
    MESSAGES_V3: "--connections 32 --mtu 65535 --protocol 3";
}

fn decode(bencher: Bencher<'_, '_>, traffic: &Traffic, config: &Config) {
    bencher
        .counter(ItemsCount::new(traffic.packets().count()))
        .bench(|| traffic.decode(config, &mut |record: &Record| _ = black_box(record.time)));
}

/// Link, IP and TCP headers.
#[divan::bench]
fn a_wire_parse(bencher: Bencher<'_, '_>) {
    let traffic = &*PLAIN;
    bencher.counter(ItemsCount::new(traffic.packets().count())).bench(|| {
        let (mut wire, mut stats) = (Wire::new(0), WireStats::default());
        for packet in traffic.packets() {
            black_box(wire.parse(&packet, &mut stats));
        }
    });
}

/// And the connection, reassembly of what comes in order, framing and pairing.
#[divan::bench]
fn b_in_order_32_connections(bencher: Bencher<'_, '_>) {
    decode(bencher, &PLAIN, &Config::default());
}

/// More connections than are at hand: the table itself.
#[divan::bench]
fn c_in_order_500_connections(bencher: Bencher<'_, '_>) {
    decode(bencher, &MANY, &Config::default());
}

/// Nothing but requests and acknowledgements, whose answers never come.
#[divan::bench]
fn d_requests_only(bencher: Bencher<'_, '_>) {
    decode(bencher, &REQUESTS, &Config::default());
}

/// Segments that wait for others.
#[divan::bench]
fn e_out_of_order(bencher: Bencher<'_, '_>) {
    decode(bencher, &REORDERED, &Config::default());
}

/// And segments sent again.
#[divan::bench]
fn f_lossy(bencher: Bencher<'_, '_>) {
    decode(bencher, &LOSSY, &Config::default());
}

/// Packets of several messages each: framing, parsing, and pairing by order.
#[divan::bench]
fn g_messages_v2(bencher: Bencher<'_, '_>) {
    decode(bencher, &MESSAGES_V2, &Config::default());
}

/// The same, and pairing by echo.
#[divan::bench]
fn h_messages_v3(bencher: Bencher<'_, '_>) {
    decode(bencher, &MESSAGES_V3, &Config::default());
}

/// The same with a hash of every page.
#[divan::bench]
fn i_messages_v3_page_hash(bencher: Bencher<'_, '_>) {
    decode(bencher, &MESSAGES_V3, &Config { page_hash: true, ..Config::default() });
}
