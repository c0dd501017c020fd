//! The steady state: a long clean session, during which nothing is allocated.

use decode::{Config, Decoder};
use record::Record;

use crate::counting;
use crate::floods::{composed, packets};

#[test]
fn nothing_is_allocated_per_packet_or_record() {
    for options in [
        "--requests 4000 --depth 16 --kinds getpage=20,exists=1,nblocks=1",
        "--requests 4000 --depth 16 --kinds getpage=20,exists=1,nblocks=1 --protocol 2",
        "--requests 4000 --depth 64 --kinds getpage=1 --mtu 65000 --connections 4 --tenants 2 --protocol mixed",
    ] {
        let file = composed(options);
        let packets = packets(&file);
        let mut records = 0u64;
        let mut sink = |_: &Record| records += 1;
        let mut decoder = Decoder::new(Config { page_hash: true, ..Config::default() });
        // The hand-shakes, the growth of every queue to what it needs, and the ends of the sessions are left out.
        let (warm, rest) = packets.split_at(packets.len() / 2);
        let (steady, end) = rest.split_at(rest.len() * 9 / 10);
        warm.iter().for_each(|packet| decoder.packet(packet, &mut sink));
        let before = counting::allocations();
        steady.iter().for_each(|packet| decoder.packet(packet, &mut sink));
        let allocations = counting::allocations() - before;
        end.iter().for_each(|packet| decoder.packet(packet, &mut sink));
        decoder.finish(&mut sink);
        println!("{allocations} allocations for {} packets: {options}", steady.len());
        assert_eq!(records, 4000);
        assert_eq!(allocations, 0, "for {} packets of {options}", steady.len());
    }
}
