//! A network interface: what it merges, how large its rings are, whose clock stamps its packets.

use super::check::Check;
use super::ethtool::{Question, ask};
use crate::capture::live::LiveOptions;

/// Bits of `SOF_TIMESTAMPING_*` (`linux/net_tstamp.h`): the adapter's own clock stamps what it receives.
const RX_HARDWARE: u32 = 1 << 2;

/// What the interface says of itself. It is asked in our own network namespace.
pub(super) fn checks(options: &LiveOptions, checks: &mut Vec<Check>) {
    let iface = options.iface.as_str();
    if iface == "any" || options.netns.is_some() {
        let text = "offloads, rings and clocks are told of one interface of our own network namespace only".to_owned();
        checks.push(Check::info("adapter", text, ""));
        return;
    }
    offloads(iface, checks);
    rings(iface, checks);
    stamps(iface, checks);
}

fn offloads(iface: &str, checks: &mut Vec<Check>) {
    let is_on = |question| ask(iface, question).ok().map(|words| words[1] != 0);
    let merges = [(Question::Gro, "received (GRO)"), (Question::Tso, "sent (TSO)")];
    let on: Vec<&str> =
        merges.into_iter().filter(|&(question, _)| is_on(question) == Some(true)).map(|(_, what)| what).collect();
    if !on.is_empty() {
        let text = format!("{iface} merges segments that are {}", on.join(" and "));
        checks.push(Check::info("offload", text, "no harm: packets are captured whole; do not lower --snaplen"));
    }
}

fn rings(iface: &str, checks: &mut Vec<Check>) {
    // `ethtool_ringparam`: the largest receive ring is the second word, the one in use the sixth.
    let Ok(words) = ask(iface, Question::Rings) else { return };
    let (most, now) = (words[1], words[5]);
    if most == 0 {
        return;
    }
    let text = format!("{iface} has a receive ring of {now} packets, of {most} at most");
    let advice = format!("where it drops packets: ethtool -G {iface} rx {most}");
    checks.push(Check::info("rings", text, if now < most { &advice } else { "" }));
}

fn stamps(iface: &str, checks: &mut Vec<Check>) {
    // `ethtool_ts_info`: the kinds of stamps are the second word.
    let has_clock = ask(iface, Question::Stamps).is_ok_and(|words| words[1] & RX_HARDWARE != 0);
    checks.push(match has_clock {
        true => Check::info(
            "timestamps",
            format!("the host's clock stamps packets; {iface} has one of its own"),
            "stay with the host's for latencies: the adapter's stamps incoming packets only (--timestamps adapter)",
        ),
        false => Check::ok("timestamps", "the host's clock stamps packets, in both directions alike".to_owned()),
    });
}
