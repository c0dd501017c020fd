//! Shards: what a filter keeps of a tenant, what is found of its layout, and what is said where the filter's does not fit.

use record::{Key, RelTag, shard_of_block};
use serde_json::{Value, json};

use crate::session::{Reply, Session, US};
use crate::{json, traced};

const COUNT: u8 = 4;
const STRIPE_BLOCKS: u32 = 2048;

/// The blocks that are asked for: two of each stripe of a large relation.
fn blocks() -> impl Iterator<Item = u32> {
    (0..600).map(|step| step * STRIPE_BLOCKS / 2 + 17)
}

/// The shard that a block lies on. The session asks for blocks of this relation.
fn shard_of(blkno: u32) -> u8 {
    let rel = RelTag { spcnode: 1663, dbnode: 16384, relnode: 16402, forknum: 0 };
    shard_of_block(Key { rel, blkno }, COUNT, STRIPE_BLOCKS)
}

/// A compute with a connection to each shard, which asks each for its own blocks.
fn sharded() -> Session {
    let mut session = Session::new();
    session.basebackup();
    let backends: Vec<_> = (0..COUNT).map(|_| session.open()).collect();
    for block in blocks() {
        let backend = backends[usize::from(shard_of(block))];
        session.ask(backend, block, (u64::MAX, 100), (Reply::Page(50), 200 * US));
        session.wait(300 * US);
    }
    session
}

fn finding<'a>(report: &'a Value, id: &str) -> Option<&'a Value> {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

#[test]
fn the_layout_of_a_sharded_tenant_is_found() {
    let session = sharded();
    let directory = traced(&session.capture(|_, _| false), "");
    let report = json(&directory.run("report traces --json -"));
    let tenant = session.owner().tenant.to_string();
    let shards = &report["shards"][0];
    assert_eq!(
        (&shards["tenant"], &shards["count"], &shards["stripe_blocks"], &shards["asked"], &shards["claims"]),
        (&json!(tenant), &json!(COUNT), &json!(STRIPE_BLOCKS), &json!([0, 1, 2, 3]), &json!([]))
    );
    let text = finding(&report, "shards").unwrap()["text"].as_str().unwrap();
    assert!(
        text.starts_with(&format!("Tenant {tenant} has 4 shards with stripes of 2,048 pages: each connection")),
        "{text}"
    );
    assert!(text.ends_with("Asked here: 0004, 0104, 0204, 0304."), "{text}");
}

#[test]
fn a_shard_in_the_filter_keeps_its_blocks_and_nothing_else() {
    let session = sharded();
    let tenant = session.owner().tenant;
    let directory = traced(&session.capture(|_, _| false), &format!("--tenant {tenant}-0104 --stripe-size 2048"));
    let kept = directory.run("export traces --to jsonl").stdout;
    let kept: Vec<u64> =
        kept.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["blkno"].as_u64().unwrap()).collect();
    let expected: Vec<u64> = blocks().filter(|&block| shard_of(block) == 1).map(u64::from).collect();
    assert!(expected.len() > 100);
    assert_eq!(kept, expected);
    // All that is in the trace fits one shard since nothing else was kept: that proves nothing.
    assert_eq!(json(&directory.run("report traces --json -"))["shards"], json!([]));
}

#[test]
fn a_filter_that_does_not_fit_the_tenants_layout_is_said_to() {
    let session = sharded();
    let tenant = session.owner().tenant;
    let directory = traced(&session.capture(|_, _| false), "");
    let right = json(&directory.run(&format!("report traces --tenant {tenant}-0104 --json -")));
    let claim = &right["shards"][0]["claims"][0];
    let on_shard = blocks().filter(|&block| shard_of(block) == 1).count();
    assert_eq!(
        (&claim["mixed_connections"], &claim["connections"], &claim["on_shards"], &claim["on_others"]),
        (&json!(0), &json!(COUNT), &json!(on_shard), &json!(blocks().count() - on_shard))
    );
    assert_eq!((&right["totals"]["getpage"], finding(&right, "shard_mismatch")), (&json!(on_shard), None));

    let options = format!("--tenant {tenant}-0104 --stripe-size 32768");
    let wrong = json(&directory.run(&format!("report traces {options} --json -")));
    assert_eq!(finding(&wrong, "shard_mismatch").unwrap()["severity"], "warning");
    let at_the_end = directory.run(&format!("--read capture.pcap {options}")).stderr;
    let expected = format!(
        "! Tenant {tenant} does not have 4 shards with stripes of 32,768 pages, as --tenant {tenant}-0104 and --stripe-size \
         32768 say: 4 of 4 connections asked for blocks of several of them. What was filtered by shard is not what lies \
         on that shard. It has 4 shards with stripes of 2,048 pages."
    );
    let said = at_the_end.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&expected), "{at_the_end}");
}
