//! Captures that begin at any instant: how much of them has an owner, and that nobody's requests are given to another.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::Value;
use trafficgen::compose::compose_into;
use trafficgen::golden::Golden;

use crate::done;
use crate::harness::Dir;
use crate::rng::Rng;

/// Three computes in all versions, whose backends stay for a while and come again: at any instant some connections are open,
/// and others are opened after it.
const COMING_AND_GOING: &str =
    "--tenants 3 --connections 40 --reconnect 3 --think 20ms --requests 6000 --depth 4 --protocol mixed";

/// Instants at which a capture begins.
const JOINS: u64 = 10;

/// Shares of the requests after which a capture begins lie below so many per mille: behind it, enough are left to count.
const LATEST_PER_MILLE: usize = 850;

/// Tenant and timeline.
type Owner = (String, String);

/// Whom each client endpoint worked for, as the client wrote it down.
type Owners = BTreeMap<String, BTreeSet<Owner>>;

/// Writes a capture that begins at an instant drawn from `seed` to `a`, and tells the truth about the whole session.
fn join(dir: &Dir, seed: u64) -> Owners {
    let per_mille = Rng::new(seed).below(LATEST_PER_MILLE);
    let options = format!("{COMING_AND_GOING} --seed {seed} --join-at 0.{per_mille:03}");
    // A golden's options are constants of the program; a test's few may stay for as long as it runs.
    let options: &'static str = Box::leak(options.into_boxed_str());
    let mut parsed = Golden { name: "joined", purpose: "", options }.parse(PathBuf::from("-")).unwrap();
    parsed.output.truth = Some(dir.path("truth"));
    let mut capture = Vec::new();
    compose_into(&mut capture, parsed).unwrap();
    dir.write("a", &capture);
    let text = std::fs::read_to_string(dir.path("truth").join("truth.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let [ip, port, tenant, timeline] = ["local_ip", "local_port", "tenant", "timeline"]
        .map(|name| head.iter().position(|known| *known == name).unwrap());
    let mut owners = Owners::new();
    for row in lines {
        let owner = (row[tenant].to_owned(), row[timeline].to_owned());
        owners.entry(format!("{}:{}", row[ip], row[port])).or_default().insert(owner);
    }
    owners
}

/// Requests of a capture, and how many of them have an owner.
#[derive(Debug, Default, Clone, Copy)]
struct Share {
    all: u64,
    by_handshake: u64,
    attributed: u64,
}

impl Share {
    /// Adds printed records, each of which has its own owner or none.
    fn add(&mut self, jsonl: &str, owners: &Owners, label: &str) {
        for line in jsonl.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let text = |name: &str| record[name].as_str().map(str::to_owned);
            let own = &owners[&text("client").unwrap()];
            self.all += 1;
            self.by_handshake += u64::from(text("attribution").as_deref() == Some("handshake"));
            assert_eq!(text("tenant").is_some(), text("attribution").is_some(), "{label}: {line}");
            if let (Some(tenant), Some(timeline)) = (text("tenant"), text("timeline")) {
                self.attributed += 1;
                assert!(own.contains(&(tenant, timeline)), "{label}: given to another: {line}\nit is {own:?}'s");
            }
        }
    }

    fn per_cent(self) -> f64 {
        100.0 * self.attributed as f64 / self.all as f64
    }
}

/// What an operator knows who knows each compute's address.
fn hints(owners: &Owners) -> String {
    let mut by_address: BTreeMap<&str, BTreeSet<&Owner>> = BTreeMap::new();
    for (client, own) in owners {
        by_address.entry(client.rsplit_once(':').unwrap().0).or_default().extend(own);
    }
    let mut text = String::new();
    for (address, own) in by_address {
        let [(tenant, timeline)] = own.into_iter().collect::<Vec<_>>()[..] else {
            panic!("{address} is several computes'")
        };
        text.push_str(&format!("{address}={tenant}/{timeline}\n"));
    }
    text
}

#[test]
fn joined_at_any_instant_nothing_is_attributed_wrongly() {
    let knowledge = [
        ("nothing else", ""),
        ("hints", "--hints hints"),
        ("one tenant an address", "--one-tenant-per-address 10.64.0.0/16"),
    ];
    let mut shares = [Share::default(); 3];
    let mut exported = Share::default();
    for seed in 0..JOINS {
        let dir = Dir::new();
        let owners = join(&dir, seed);
        dir.write("hints", hints(&owners).as_bytes());
        for ((known, options), share) in knowledge.iter().zip(&mut shares) {
            let out = if options.contains("per-address") { "--out t" } else { "" };
            let run = format!("--read a --unattributed --format jsonl --quiet {options} {out}");
            share.add(&done(dir.run(&run)).stdout, &owners, &format!("seed {seed}, {known}"));
        }
        // Readers join what was found out later.
        exported.add(&done(dir.run("export t --to jsonl")).stdout, &owners, &format!("seed {seed}, exported"));
    }
    let names = knowledge.map(|(known, _)| known).into_iter().chain(["the same, in its traces"]);
    for (known, share) in names.zip(shares.into_iter().chain([exported])) {
        println!(
            "{known:<26}{:>7} of {:>7} requests have an owner: {:.1} %",
            share.attributed,
            share.all,
            share.per_cent()
        );
    }
    let [plain, hinted, asserted] = shares;
    assert!(plain.all > 10_000 && plain.attributed == plain.by_handshake && plain.attributed < plain.all, "{plain:?}");
    assert!(hinted.attributed == hinted.all && hinted.all == plain.all, "{hinted:?}");
    assert!(
        plain.attributed < asserted.attributed && asserted.attributed < exported.attributed,
        "{asserted:?} {exported:?}"
    );
    assert_eq!(exported.all, plain.all, "{exported:?}");
}
