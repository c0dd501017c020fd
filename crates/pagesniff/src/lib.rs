//! The parts of the pagesniff program, as a library so that its integration tests can reach them.
//!
//! ```text
//! main → flags (what was typed → settings) → run ─┬→ worker: capture → decode → pipeline (attribution → filter → summary → records, recorder → traces)
//!                                                 └→ outcome: facts, notes → report, exit status
//!                                     export: traces → filter → records
//!                     serve: daemon: configuration file → settings → the same run, without end
//!                         top: capture → decode → analysis::live → a terminal, or JSON
//!                      doctor: machine, interface or captures → a decoder for each port → checks
//!                      plan: a load and limits → measured density → text, JSON
//!                            report, compare: traces → records in order → diagnosis → text, JSON
//! ```

#![cfg_attr(
    not(test),
    deny(clippy::print_stdout, clippy::print_stderr, reason = "these macros panic where nobody reads any more")
)]

#[cfg(all(feature = "api", target_os = "linux"))]
pub mod api;
pub mod attribution;
#[cfg(all(any(feature = "client", feature = "upload"), target_os = "linux"))]
mod back_off;
pub mod capture;
#[cfg(all(feature = "client", target_os = "linux"))]
pub mod client;
mod clock;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod daemon;
pub mod doctor;
mod earlier;
pub mod export;
pub mod facts;
pub mod filter;
pub mod findings;
pub mod flags;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod kernel_filter;
mod notes;
mod page_trace_out;
mod pending_file;
pub mod pipeline;
pub mod plan;
#[cfg(all(feature = "live", target_os = "linux"))]
pub mod privileges;
pub mod progress;
pub mod recorder;
pub mod records;
pub mod report;
pub mod run;
mod summary_out;
mod terminal;
#[cfg(all(feature = "top", target_os = "linux"))]
pub mod top;
pub mod worker;
