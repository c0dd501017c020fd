//! Connections that were open before the capture: whose they are by hint, by assertion, or not at all.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::Dir;
use crate::{composed, done, summary};

/// Two tenants at an address each; some of their forty connections are open when the capture begins.
const LATE: &str = "--tenants 2 --connections 40 --requests 4000 --join-at 0.02";

/// How many records of each client address were attributed so, and to whom.
fn attributed(jsonl: &str) -> BTreeMap<(String, String, String), u64> {
    let mut counts = BTreeMap::new();
    for line in jsonl.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| record[name].as_str().unwrap_or("-").to_owned();
        let address = text("client").rsplit_once(':').unwrap().0.to_owned();
        *counts.entry((address, text("attribution"), text("tenant"))).or_default() += 1;
    }
    counts
}

/// Each address's tenant and timeline, by the connections that said it.
fn owners(jsonl: &str) -> BTreeMap<String, (String, String)> {
    let mut owners = BTreeMap::new();
    for line in jsonl.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| record[name].as_str().map(str::to_owned);
        let address = text("client").unwrap().rsplit_once(':').unwrap().0.to_owned();
        if let (Some(tenant), Some(timeline)) = (text("tenant"), text("timeline")) {
            owners.insert(address, (tenant, timeline));
        }
    }
    owners
}

#[test]
fn hints_and_assertions_attribute_what_was_open_before_and_never_wrongly() {
    let dir = Dir::new();
    dir.write("a", &composed(LATE));
    let plain = done(dir.run("--read a --unattributed --format jsonl")).stdout;
    let owners = owners(&plain);
    let by_address = |counts: &BTreeMap<(String, String, String), u64>, how: &str| -> u64 {
        counts.iter().filter(|((_, attribution, _), _)| attribution == how).map(|(_, count)| *count).sum()
    };
    let without = by_address(&attributed(&plain), "-");
    assert!(without > 100, "{without}");

    let hints: String =
        owners.iter().map(|(address, (tenant, timeline))| format!("{address}={tenant}/{timeline}\n")).collect();
    dir.write("hints", format!("# the computes\n{hints}").as_bytes());
    let hinted = attributed(&done(dir.run("--read a --format jsonl --hints hints")).stdout);
    assert_eq!((by_address(&hinted, "hint"), by_address(&hinted, "-")), (without, 0));

    let words = "--read a --unattributed --one-tenant-per-address 10.64.0.0/16";
    let asserted = attributed(&done(dir.run(&format!("{words} --format jsonl --out t"))).stdout);
    let early = by_address(&asserted, "-");
    assert!(early > 0 && early < without, "what came before the first word stays as it was: {early} of {without}");
    // Readers join what was found later.
    let joined = attributed(&done(dir.run("export t --to jsonl")).stdout);
    assert_eq!((by_address(&joined, "address"), by_address(&joined, "-")), (without, 0));
    for counts in [&hinted, &asserted, &joined] {
        for (address, attribution, tenant) in counts.keys().filter(|(_, attribution, _)| attribution != "-") {
            assert_eq!(*tenant, owners[address].0, "{address} {attribution}");
        }
    }
    let tenant = &owners.values().next().unwrap().0;
    let of_tenant = attributed(&done(dir.run(&format!("export t --to jsonl --tenant {tenant}"))).stdout);
    assert!(by_address(&of_tenant, "address") > 0 && of_tenant.keys().all(|(_, _, whose)| whose == tenant));
}

#[test]
fn what_is_contradicted_is_given_up_and_said() {
    let dir = Dir::new();
    dir.write("a", &composed(LATE));
    let other = "ffffffffffffffffffffffffffffffff";
    let wrong = summary(&dir, &format!("--read a --unattributed --hint 10.64.0.1={other}/{other}"));
    let before = wrong["by_attribution"]["hint"].as_u64().unwrap();
    let right = summary(&dir, "--read a --unattributed");
    assert!(before < right["by_attribution"]["none"].as_u64().unwrap());
    let notes = wrong["notes"].to_string();
    assert!(notes.contains("the hint for 10.64.0.1 is wrong at least in part"), "{notes}");
    for (words, expected) in [
        ("--hint 10.64.0.1", "ADDR=TENANT/TIMELINE"),
        ("--hints absent", "absent: cannot be read"),
        ("--one-tenant-per-address 127.0.0.0/8", "loopback addresses are shared"),
        ("--one-tenant-per-address ten", "a network is given as 10.0.0.0/8"),
    ] {
        let ended = dir.run(&format!("--read a {words}"));
        assert_eq!(ended.status, 2, "{words}");
        assert!(ended.stderr.contains(expected), "{words}: {}", ended.stderr);
    }
}
