//! The command line: what was typed ([`RawArgs`]) apart from what it means ([`Settings`]).
//!
//! ```text
//! words → RawArgs (clap: each value on its own) → Settings (values together, defaults filled in) → the run
//! ```
//!
//! Everything a user can get wrong on the command line is found here, before any input is opened; it ends the program
//! with status 2.

mod generate;
mod raw;
mod raw_attribution;
mod raw_export;
mod raw_filter;
mod raw_live;
mod raw_trace;
mod settings;
mod trace_settings;
mod values;

pub use generate::generate;
pub use raw::{RawArgs, RawCommand, RawGenerate, RawRun};
pub use raw_attribution::RawAttribution;
pub use raw_export::{RawExport, RawExportFormat};
pub use raw_filter::{RawFilter, RawOwnerFilter};
pub use raw_live::RawLive;
pub use raw_trace::{RawOnFull, RawTrace};
pub use settings::{DEFAULT_DAEMON_STATE, DaemonState, Input, Settings, SummaryTarget};
pub use values::{ClientMatch, MaxLoss, SampleRate};
pub(crate) use values::{buffer, duration, memory, size};
