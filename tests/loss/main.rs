//! Never a wrong record: captures with packets missing, cut, doubled, joined late or forged, held against the whole
//! capture's records and against what client and server wrote down.
//!
//! `PAGESNIFF_NIGHTLY=1` raises thousands of cases to hundreds of thousands. Seeds are fixed: a failure comes again.

mod clean;
mod composed;
mod deletion;
mod evidence;
mod followed;
mod reshape;
mod rng;
#[allow(unreachable_pub, reason = "the fuzz targets share it")]
#[path = "../../crates/fuzz/src/evidence.rs"]
mod rules;
mod tally;
mod tape;
mod truth;
mod views;

/// How many cases to run where a quick run takes `quick`.
pub(crate) fn cases(quick: usize) -> usize {
    let is_nightly = std::env::var_os("PAGESNIFF_NIGHTLY").is_some_and(|value| value != "0");
    if is_nightly { quick * 100 } else { quick }
}
