//! Progress on a terminal, where there is one.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

fn bar(length: u64, template: &str, is_wanted: bool) -> ProgressBar {
    let is_shown = is_wanted && io::stderr().is_terminal();
    let target = if is_shown { ProgressDrawTarget::stderr_with_hz(4) } else { ProgressDrawTarget::hidden() };
    // The templates are constant and covered by a test; the default style is shown if they were wrong all the same.
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

const BYTES: &str = "{bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} to go";
const TIME: &str = "{bar:30} {percent} % of the capture is over";

/// How much of a download is there.
pub(super) fn bytes_bar(is_wanted: bool) -> ProgressBar {
    bar(0, BYTES, is_wanted)
}

/// How much of so many milliseconds is over.
pub(super) fn time_bar(length_ms: u64, is_wanted: bool) -> ProgressBar {
    bar(length_ms, TIME, is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_sound() {
        for template in [BYTES, TIME] {
            ProgressStyle::with_template(template).unwrap();
        }
    }
}
