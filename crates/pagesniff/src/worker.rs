//! The loop that everything goes through: packets in, records out, until the input ends.

use decode::Decoder;
use record::Timestamp;

use crate::capture::{After, CaptureError, Source};
use crate::facts::losses;
use crate::pipeline::Pipeline;
use crate::progress::ProgressLine;

/// The traces are told what the capture has lost once in so many packets: a few milliseconds' worth, so that a loss is
/// found beside the records that it may have taken.
const PACKETS_PER_TELLING: u32 = 4096;

/// And when so much packet time has passed, where packets are few: a report looks no further back than some seconds.
const TELLING_INTERVAL_NS: u64 = 1_000_000_000;

/// Reads `source` to its end, or to the first failure of either side. What was read until then is decoded and handed over
/// in any case; a failure to write is found in the pipeline.
///
/// # Errors
///
/// Where the source cannot be read any further.
pub fn run(
    source: &mut impl Source,
    decoder: &mut Decoder,
    pipeline: &mut Pipeline,
    progress: &mut ProgressLine,
) -> Result<(), CaptureError> {
    let mut until_telling = PACKETS_PER_TELLING;
    let mut told_at = Timestamp(0);
    let outcome = loop {
        let (mut packets, mut now) = (0_u32, told_at);
        let after = source.burst(|packet| {
            packets = packets.wrapping_add(1);
            now = packet.time;
            pipeline.at(now);
            decoder.packet(packet, pipeline);
        });
        if packets > 0 {
            until_telling = until_telling.saturating_sub(packets);
            progress.step(packets, source, pipeline);
        }
        match after {
            Ok(After::Packets) => {}
            Ok(After::Idle { now: at }) => {
                now = at;
                pipeline.at(now);
                decoder.idle(now, pipeline);
                pipeline.idle(now);
                progress.look(source, pipeline);
            }
            Ok(After::End) => break Ok(()),
            Err(error) => break Err(error),
        }
        if until_telling == 0 || now.0.saturating_sub(told_at.0) >= TELLING_INTERVAL_NS {
            (until_telling, told_at) = (PACKETS_PER_TELLING, now);
            pipeline.capture_losses(|| losses(decoder.stats(), &source.statistics()));
        }
        if pipeline.has_failed() {
            break Ok(());
        }
    };
    decoder.finish(pipeline);
    pipeline.capture_losses(|| losses(decoder.stats(), &source.statistics()));
    progress.clear();
    outcome
}
