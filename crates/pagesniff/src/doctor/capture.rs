//! What a capture as a whole shows: packets at all, cut ones, merged ones, stamps, drops.

use analysis::render::count_text;

use super::check::Check;
use super::survey::Survey;
use crate::capture::{Source, SourceStats};

/// An Ethernet frame of ordinary size, with two VLAN tags. What is larger was merged by an offload, or is a jumbo frame.
const ORDINARY_FRAME_BYTES: u32 = 1522;

/// With fewer packets it may be chance that none has a fraction of a microsecond.
const STAMPS_THAT_TELL: u64 = 20;

/// What the source and the survey say.
pub(super) fn checks(source: &impl Source, survey: &Survey, checks: &mut Vec<Check>) {
    packets(survey, checks);
    for note in source.notes() {
        checks.push(Check::info("capture", note, ""));
    }
    drops(&source.statistics(), checks);
}

fn packets(survey: &Survey, checks: &mut Vec<Check>) {
    if survey.packets == 0 {
        checks.push(Check::problem("packets", "there is no packet".to_owned(), ""));
        return;
    }
    checks.push(Check::ok("packets", format!("{} packets were examined", count_text(survey.packets))));
    // A tunnel's header makes frames larger as well.
    if survey.largest_bytes > ORDINARY_FRAME_BYTES && survey.wire_stats.tunnelled == 0 {
        let text = format!(
            "packets of up to {} bytes: segments are merged (GRO, TSO, LRO), or frames are jumbo ones",
            survey.largest_bytes
        );
        let advice = "leave the snap length at its default: a cut in a merged packet loses all messages behind it";
        checks.push(Check::info("offload", text, advice));
    }
    if survey.truncated > 0 {
        let text = format!("{} packets are cut by the snap length", count_text(survey.truncated));
        let advice = "capture whole packets (tcpdump -s 0), or at least 512 bytes of each where none are merged";
        checks.push(Check::warning("snaplen", text, advice));
    }
    if survey.fine_stamps == 0 && survey.packets >= STAMPS_THAT_TELL {
        let text = "time stamps are whole microseconds: latencies are no more exact".to_owned();
        checks.push(Check::info("timestamps", text, "tcpdump --nano keeps the kernel's nanoseconds"));
    }
    if survey.wire_stats.tunnelled > 0 {
        let count = count_text(survey.wire_stats.tunnelled);
        let text = format!("{count} packets came in a tunnel or mirror header, and were unwrapped");
        checks.push(Check::info("tunnels", text, "live, such packets pass the filter with --tunnels only"));
    }
}

fn drops(stats: &SourceStats, checks: &mut Vec<Check>) {
    if stats.kernel_dropped > 0 {
        let text = format!("{} packets were dropped by the capturing kernel", count_text(stats.kernel_dropped));
        let advice = "raise --buffer-size (tcpdump -B), narrow the filter, or lower the load of this processor";
        checks.push(Check::warning("drops", text, advice));
    }
    if stats.interface_dropped > 0 {
        let text = format!("{} packets were dropped by the interface", count_text(stats.interface_dropped));
        let advice = "raise its receive ring: ethtool -g shows it, ethtool -G sets it";
        checks.push(Check::warning("drops", text, advice));
    }
    if stats.kernel_dropped == 0 && stats.interface_dropped == 0 {
        checks.push(Check::ok("drops", "no packet is known to be dropped".to_owned()));
    }
    if stats.cut_files > 0 || stats.damaged_files > 0 {
        let count = count_text(stats.cut_files.saturating_add(stats.damaged_files));
        checks.push(Check::warning("files", format!("{count} files are cut or damaged"), "what comes before is used"));
    }
}
