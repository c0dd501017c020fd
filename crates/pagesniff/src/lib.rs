//! The parts of the pagesniff program, as a library so that its integration tests can reach them.
//!
//! ```text
//! main → flags (what was typed → settings) → run ─┬→ worker: capture → decode → pipeline (filter → summary → records)
//!                                                 └→ outcome: facts, notes → report, exit status
//! ```

pub mod capture;
pub mod facts;
pub mod filter;
pub mod flags;
mod notes;
pub mod pipeline;
pub mod progress;
pub mod records;
pub mod run;
mod summary_out;
pub mod worker;
