use record::{RelTag, ShardIndex, Target, shard_of_block};

use super::*;
use crate::render::samples;

/// A request of backend `number` to the shard that the block lies on, on the connection that it has to it.
fn ask(number: u16, key: Key, shard: u8) -> Record {
    let sample = samples::getpage();
    Record {
        client: ([10, 0, 0, 7], 1000 + number * 256 + u16::from(shard)).into(),
        target: Target::GetPage { rel: key.rel, blkno: key.blkno },
        seq: None,
        backend_pid: Some(number.into()),
        ..sample
    }
}

fn key(relnode: u32, blkno: u32) -> Key {
    Key { rel: RelTag { spcnode: 1663, dbnode: 5, relnode, forknum: 0 }, blkno }
}

/// What is found where 3 backends ask for the same blocks of a tenant with that layout.
fn found(count: u8, stripe_blocks: u32, keys: &[Key], claims: &[ShardClaim]) -> Option<ShardReport> {
    let mut shards = Shards::default();
    claims.iter().for_each(|&claim| shards.claim(claim));
    for backend in 0..3 {
        for &key in keys {
            shards.observe(&ask(backend, key, shard_of_block(key, count, stripe_blocks)));
        }
    }
    shards.report().pop()
}

/// Scans of large relations: `stripes` stripes of 2,048 blocks of each.
fn large_relations(relations: u32, stripes: u32) -> Vec<Key> {
    (0..relations).flat_map(|rel| (0..stripes * 4).map(move |step| key(16_384 + rel, step * 512))).collect()
}

fn claim(number: u8, count: u8, stripe_blocks: u32) -> ShardClaim {
    let tenant = samples::getpage().owner.unwrap().tenant;
    ShardClaim { tenant, shard: ShardIndex { number, count }, stripe_blocks }
}

#[test]
fn count_and_stripe_size_are_found() {
    for (count, stripe_blocks) in [(2, 2048), (8, 2048), (16, 32_768), (10, 256), (255, 2048), (6, 2048)] {
        let stripes = (stripe_blocks / 2048).max(1) * 60;
        let report = found(count, stripe_blocks, &large_relations(20, stripes), &[]).unwrap();
        assert_eq!((report.count, report.stripe_blocks), (Some(count), Some(stripe_blocks)), "{report:?}");
        let asked: Vec<u8> = (0..count).collect();
        assert!(report.agreeing_stripes >= PROOF_STRIPES as u64 * 2, "{report:?}");
        assert!(count == 255 || report.asked == asked, "{report:?}");
    }
}

#[test]
fn small_relations_tell_the_count_alone() {
    let keys: Vec<Key> = (0..400).map(|rel| key(16_384 + rel, rel % 100)).collect();
    let report = found(8, 2048, &keys, &[]).unwrap();
    assert_eq!((report.count, report.stripe_blocks, report.asked), (Some(8), None, Vec::new()));
}

#[test]
fn little_proves_nothing() {
    // Of one stripe of each relation, and only for as many as are not enough.
    let few: Vec<Key> = (0..PROOF_STRIPES as u32).map(|rel| key(16_384 + rel, 7)).collect();
    assert_eq!(found(8, 2048, &few, &[]), None);
    let one_block = vec![key(16_384, 0); 10_000];
    assert_eq!(found(8, 2048, &one_block, &[]), None);
}

#[test]
fn a_tenant_without_shards_is_found_to_have_none_at_once_and_costs_nothing_more() {
    let mut shards = Shards::default();
    large_relations(20, 60).iter().for_each(|&key| shards.observe(&ask(0, key, 0)));
    assert_eq!(shards.report(), []);
    assert!(shards.connections.is_empty() && shards.tenants[0].sizes.is_empty());
}

#[test]
fn what_was_selected_by_its_shard_proves_nothing() {
    let mut shards = Shards::default();
    shards.selected(samples::getpage().owner.unwrap().tenant);
    // An unsharded tenant's requests, of which a filter kept one shard's.
    let kept = large_relations(20, 60).into_iter().filter(|&key| shard_of_block(key, 16, 2048) == 3);
    kept.for_each(|key| shards.observe(&ask(0, key, 0)));
    assert_eq!(shards.report(), []);
}

#[test]
fn a_right_claim_is_kept_by_every_connection_and_a_wrong_one_is_not() {
    let keys = large_relations(20, 60);
    let claims = [claim(11, 16, 2048), claim(3, 16, 2048), claim(11, 16, 32_768), claim(0, 12, 2048)];
    let report = found(16, 2048, &keys, &claims).unwrap();
    assert_eq!(report.claims.len(), 3, "two are of the same layout");
    let [right, stripe, count] = &report.claims[..] else { panic!("{report:?}") };
    assert_eq!((&right.shards[..], right.mixed_connections), (&["0b10".to_owned(), "0310".to_owned()][..], 0));
    let on = keys.iter().filter(|&&key| [3, 11].contains(&shard_of_block(key, 16, 2048))).count() as u64;
    assert_eq!((right.on_shards, right.on_others), (3 * on, 3 * (keys.len() as u64 - on)));
    assert_eq!((right.connections, stripe.mixed_connections, count.mixed_connections), (48, 48, 48));
}

#[test]
fn a_port_that_is_used_again_is_another_connection() {
    let mut shards = Shards::default();
    shards.claim(claim(0, 8, 2048));
    let keys = large_relations(20, 60);
    for shard in 0..8 {
        let of_shard = keys.iter().filter(|&&key| shard_of_block(key, 8, 2048) == shard).enumerate();
        for (seq, &key) in of_shard {
            shards.observe(&Record { seq: Some(seq as u64), ..ask(0, key, 0) });
        }
    }
    let report = shards.report().pop().unwrap();
    assert_eq!((report.count, report.claims[0].mixed_connections, report.claims[0].connections), (Some(8), 0, 8));
}

#[test]
fn where_nothing_tells_connections_apart_nothing_is_said_of_them() {
    let mut shards = Shards::default();
    shards.claim(claim(0, 8, 2048));
    // All blocks, between the same ports, and neither an ordinal nor a backend.
    for &key in &large_relations(20, 60) {
        shards.observe(&Record { backend_pid: None, ..ask(0, key, 0) });
    }
    let report = shards.report().pop().unwrap();
    assert_eq!((report.count, report.claims[0].mixed_connections, report.claims[0].connections), (None, 0, 1));
}

#[test]
fn tenants_and_connections_are_bounded() {
    let mut shards = Shards::default();
    for tenant in 0..MAX_TENANTS + 10 {
        let mut record = ask(0, key(16_384, 0), 0);
        record.owner.as_mut().unwrap().tenant.0[..8].copy_from_slice(&tenant.to_be_bytes());
        shards.observe(&record);
    }
    assert_eq!(shards.tenants.len(), MAX_TENANTS);
    for number in 0..MAX_CONNECTIONS + 10 {
        let mut record = ask(0, key(16_384, 0), 0);
        record.owner.as_mut().unwrap().tenant.0[..8].copy_from_slice(&0usize.to_be_bytes());
        record.server = ([10, 0, (number >> 8) as u8, number as u8], 6400).into();
        shards.observe(&record);
    }
    assert!(shards.connections.len() <= MAX_CONNECTIONS);
}
