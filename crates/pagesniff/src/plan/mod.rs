//! `pagesniff plan`: what a capture will take of disk and memory, and how far back its traces will reach.
//!
//! ```text
//! what was typed → Load, Bounds → Plan::of (measured bytes a record, limits) → text or JSON
//! ```

mod density;
mod estimate;
mod flags;
mod memory;
mod text;

use std::io::{self, Write};

pub use estimate::{Bounds, Load, Plan};
pub use flags::RawPlan;
pub use memory::MemoryBounds;

use crate::run::{Ended, output_outcome};

/// Says what was asked for.
///
/// # Errors
///
/// Standard output cannot be written.
pub fn plan(raw: &RawPlan) -> anyhow::Result<Ended> {
    let plan = Plan::of(&raw.load(), &raw.bounds());
    let said = if raw.json { format!("{:#}\n", plan.to_json()) } else { text::plan_text(&plan) };
    output_outcome(io::stdout().lock().write_all(said.as_bytes()))
}
