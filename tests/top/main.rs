//! `pagesniff top`: its figures against the truth of the traffic, its screen in a real terminal, and how it ends.

mod files;
#[path = "../harness/mod.rs"]
#[allow(dead_code, reason = "shared with the other tests, which use the rest")]
mod harness;
mod interface;
#[path = "../live/network.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod network;
#[path = "../live/sniffer.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod sniffer;
mod terminal;
#[path = "../live/traffic.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod traffic;
#[path = "../live/truth.rs"]
#[allow(dead_code, reason = "shared with the live tests, which use the rest")]
mod truth;

use std::collections::HashMap;

use serde_json::Value;

/// The lines of an output.
pub(crate) fn lines(output: &str) -> Vec<Value> {
    output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The requests of each row of the only view, by what a field says; rows without it are put together.
pub(crate) fn requests_by(snapshot: &Value, field: &str) -> HashMap<String, u64> {
    let [view] = &snapshot["views"].as_array().unwrap()[..] else { panic!("{snapshot}") };
    assert_eq!((&view["more_rows"], &view["others"]["requests"]), (&0.into(), &0.into()), "{snapshot}");
    let mut requests = HashMap::new();
    for row in view["rows"].as_array().unwrap() {
        let name = row[field].as_str().unwrap_or_default().to_owned();
        *requests.entry(name).or_insert(0) += row["requests"].as_u64().unwrap();
    }
    requests
}
