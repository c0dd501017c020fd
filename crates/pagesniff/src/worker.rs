//! The loop that everything goes through: packets in, records out, until the input ends.

use decode::Decoder;

use crate::capture::{CaptureError, Event, Source};
use crate::pipeline::Pipeline;
use crate::progress::ProgressLine;

/// Reads `source` to its end, or to the first failure of either side. What was read until then is decoded and flushed
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
    let outcome = loop {
        match source.next_event() {
            Ok(Event::Packet(packet)) => {
                decoder.packet(&packet, pipeline);
                progress.step(source, pipeline);
            }
            Ok(Event::Idle { now }) => {
                decoder.idle(now, pipeline);
                pipeline.flush();
                progress.look(source, pipeline);
            }
            Ok(Event::End) => break Ok(()),
            Err(error) => break Err(error),
        }
        if pipeline.write_error().is_some() {
            break Ok(());
        }
    };
    decoder.finish(pipeline);
    pipeline.flush();
    progress.clear();
    outcome
}
