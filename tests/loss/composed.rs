//! Composed sessions of every version and depth, and the golden captures, with packets missing.

use trafficgen::golden::GOLDENS;

use crate::deletion::{again, delete_each, delete_sets, join};
use crate::tally::Trial;
use crate::tape::Tape;

fn damage(options: &str) {
    let tape = Tape::composed(options);
    let mut trial = Trial::new(&tape);
    delete_each(&mut trial);
    delete_sets(&mut trial, 60);
    join(&mut trial, 20);
    trial.finish();
}

macro_rules! sessions {
    ($($name:ident: $options:literal,)+) => {
        $(#[test]
        fn $name() {
            damage($options);
        })+
    };
}

sessions! {
    v1_depth_1: "--protocol 1 --depth 1 --requests 60 --kinds getpage=6,exists=1,nblocks=1,dbsize=1",
    v1_depth_8: "--protocol 1 --depth 8 --requests 100 --kinds getpage=9,nblocks=1",
    v1_depth_64: "--protocol 1 --depth 64 --requests 200 --kinds getpage=30,exists=1",
    v2_depth_1: "--protocol 2 --depth 1 --requests 60 --kinds getpage=6,exists=1,nblocks=1,dbsize=1,slru=1",
    v2_depth_8: "--protocol 2 --depth 8 --requests 100 --kinds getpage=9,nblocks=1 --error-rate 0.1",
    v2_depth_64: "--protocol 2 --depth 64 --requests 200 --kinds getpage=1",
    v3_depth_1: "--protocol 3 --depth 1 --requests 60 --kinds getpage=6,exists=1,nblocks=1,dbsize=1,slru=1",
    v3_depth_8: "--protocol 3 --depth 8 --requests 100 --kinds getpage=9,nblocks=1 --error-rate 0.1",
    v3_depth_64: "--protocol 3 --depth 64 --requests 200 --kinds getpage=1",
    v3_batches_share_ids: "--protocol 3 --depth 32 --requests 150 --kinds getpage=1 --shared-batch-ids",
    v2_same_pages_in_flight: "--protocol 2 --depth 16 --requests 120 --kinds getpage=9,nblocks=1 --pages 3",
    v3_same_pages_share_ids: "--protocol 3 --depth 16 --requests 120 --kinds getpage=1 --pages 2 --shared-batch-ids",
    v2_offloaded: "--protocol 2 --depth 16 --requests 120 --kinds getpage=9,exists=1 --mtu 65000",
    v3_offloaded: "--protocol 3 --depth 16 --requests 120 --kinds getpage=9,exists=1 --mtu 65000",
    v2_lossy_wire: "--protocol 2 --depth 8 --requests 80 --kinds getpage=9,nblocks=1 --loss 0.02 --reorder 0.02",
    v3_lossy_wire: "--protocol 3 --depth 8 --requests 80 --kinds getpage=9,nblocks=1 --loss 0.02 --reorder 0.02",
    v2_lossy_wire_at_the_client: "--protocol 2 --depth 8 --requests 80 --kinds getpage=9,nblocks=1 --loss 0.02 \
                                  --reorder 0.02 --view client",
    v3_reconnecting: "--protocol 3 --depth 8 --requests 80 --reconnect 3 --end terminate --end rst --end copy-fail \
                      --end half-close",
    v2_reconnecting: "--protocol 2 --depth 8 --requests 80 --reconnect 3 --end server-error --end fin --end copy-done \
                      --end open",
}

/// The SYN of a later connection on the same addresses is missing: what it says must not be taken for the earlier one's.
#[test]
fn a_reconnection_whose_opening_is_missing_is_another_connection() {
    const RECONNECTING: &str = "--protocol 2 --depth 8 --requests 80 --reconnect 3 --end server-error --end fin \
                                --end copy-done --end open";
    again(Some(Tape::composed(RECONNECTING)), &[249, 509, 842]);
}

/// The end of an answer is missing before a silence in which requests are given up: its request has been answered.
#[test]
fn an_answer_cut_before_a_long_silence_keeps_its_request() {
    const SILENT: &str = "--requests 4 --kinds getpage=1,nblocks=1 --depth 2 --idle-after 2 --idle-time 599s";
    again(Some(Tape::composed(SILENT)), &[4, 209, 243, 309]);
}

/// The options without the snap length: what was cut off tells whether what is left was read rightly.
fn without_cut(options: &str) -> String {
    let mut words: Vec<&str> = options.split_whitespace().collect();
    if let Some(at) = words.iter().position(|word| *word == "--cut") {
        words.drain(at..at + 2);
    }
    words.join(" ")
}

#[test]
fn goldens() {
    // Where the capture itself has missed something, there is nothing whole to compare with.
    for golden in GOLDENS.iter().filter(|golden| !golden.options.contains("--drop")) {
        let tape = Tape::composed(golden.options);
        if tape.clean().records.is_empty() {
            continue;
        }
        let mut trial = Trial::against(&tape, &Tape::composed(&without_cut(golden.options)));
        delete_each(&mut trial);
        delete_sets(&mut trial, 30);
        join(&mut trial, 5);
        trial.finish();
    }
}
