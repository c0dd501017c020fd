//! A daemon over its CPU budget.

use std::thread;
use std::time::{Duration, Instant};

use record::Record;
use serde_json::Value;

use crate::asked::{Traffic, first_line};
use crate::configuration;
use crate::harness::{Dir, Ended};
use crate::network::may_capture;
use crate::reloaded::{assert_each_file_has_its_keys, files, reload, status};
use crate::sniffer::{Sniffer, signal};

/// What is waited for comes within some seconds, or never.
const PATIENCE: Duration = Duration::from_secs(15);

fn wait_until(dir: &Dir, wanted: impl Fn(&Value) -> bool) -> Value {
    let asked = Instant::now();
    loop {
        let now = status(dir);
        if wanted(&now) {
            return now;
        }
        assert!(asked.elapsed() < PATIENCE, "{now}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn over_the_cpu_budget_fewer_keys_are_kept_and_every_file_says_how_many() {
    if !may_capture() {
        return;
    }
    let (traffic, dir) = (Traffic::listen(), Dir::new());
    // Decoding alone takes more: it goes to the fewest keys.
    let daemon = traffic.daemon(&dir, "cpu_budget = \"0.3%\"\n");
    let port = traffic.port();
    let full = Sniffer::start(&dir, &format!("--iface lo --port {port} --out full --daemon-state none"));
    let tenant = traffic.tenant(5);
    let driving = traffic.drive_for(Duration::from_secs(20));
    let mut asking =
        dir.piped(&format!("trace --socket socket --tenant {tenant} --sample 1/2 --duration 1h --out taken"));
    assert!(first_line(&mut asking).0.starts_with("Trace "));
    let shedding = wait_until(&dir, |status| status["load"]["factor"].as_u64() >= Some(4));
    assert!(shedding["load"]["cpu_used_percent"].as_f64() > Some(0.3), "{shedding}");
    assert!(shedding["traces"][0]["sample_one_in"].as_u64() >= Some(8), "{shedding}");
    let text = dir.run("status --socket socket").stdout;
    assert!(text.contains("SHEDS LOAD: keeps one key in ") && text.contains(" of a budget of 0.3 %"), "{text}");
    // With a budget that it keeps all is as it was.
    reload(&dir, daemon.id(), &format!("{}buffer_size = \"128MiB\"\n", configuration(port)));
    wait_until(&dir, |status| status["load"]["factor"] == 1);
    thread::sleep(Duration::from_millis(1_500));
    signal(asking.id(), "INT");
    assert_eq!(Ended::from(asking.wait_with_output().unwrap()).status, 0);
    let ended = daemon.stop("TERM");
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    driving.join().unwrap();
    assert_eq!(full.stop("TERM").status, 0);

    let all: Vec<Record> =
        files(&dir, &format!("full/{tenant}")).into_iter().flat_map(|(_, records)| records).collect();
    for (kept, base) in [(files(&dir, &format!("data/ring/{tenant}")), 1), (files(&dir, "taken"), 2)] {
        let rates: Vec<u32> = kept.iter().map(|&(one_in, _)| one_in / base).collect();
        assert!(rates.starts_with(&[1, 2, 4]) && rates.ends_with(&[1]), "{rates:?}");
        assert_each_file_has_its_keys(&kept, &all);
    }
    let report = dir.run("report taken --json r.json");
    assert!(report.stdout.contains("fewer keys were kept at times, one in "), "{}", report.stdout);
    traffic.finish(&tenant);
}
