//! What size of cache would have spared which share of the fetches.

use serde::Serialize;

use super::curve::{CacheName, CurvePoint, Granularity, MissRatioCurve};

/// Shares of the fetches for which a size is given, as far as any cache could spare so many.
pub const TARGET_HIT_RATIOS: [f64; 5] = [0.5, 0.75, 0.9, 0.95, 0.99];

/// What binary fractions of a target may be off.
const ROUNDING: f64 = 1e-9;

/// What it takes to spare a share of the fetches.
///
/// The fetches seen are what the compute's present cache missed, so a curve is that of a further cache behind it. One cache
/// in place of both needs at least as much as the further one and no less than there is now, and no more than the two together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheSizing {
    /// Whose; null where the input does not say who asked.
    pub cache: Option<CacheName>,
    /// The share of today's fetches that is spared.
    pub target_hit_ratio: f64,
    /// The further cache that does it.
    pub added_bytes: u64,
    /// The one cache in place of both: at least this; null where the present one's size was not given.
    pub size_low_bytes: Option<u64>,
    /// And at most this; null, too, where a sample leaves open whether any size is enough.
    pub size_high_bytes: Option<u64>,
}

/// The sizes that these curves give, for each compute, or for all where none is named.
pub fn sizing(curves: &[MissRatioCurve], cache_now_bytes: Option<u64>) -> Vec<CacheSizing> {
    let is_named = curves.iter().any(|curve| curve.cache.is_some());
    let wanted =
        curves.iter().filter(|curve| curve.granularity == Granularity::Pages && curve.cache.is_some() == is_named);
    wanted
        .flat_map(|curve| TARGET_HIT_RATIOS.into_iter().filter_map(move |target| of(curve, target, cache_now_bytes)))
        .collect()
}

fn of(curve: &MissRatioCurve, target_hit_ratio: f64, cache_now_bytes: Option<u64>) -> Option<CacheSizing> {
    let most_misses = 1.0 - target_hit_ratio + ROUNDING;
    let added_bytes = curve.bytes_for(most_misses, |point| point.miss_ratio)?;
    let low = curve.bytes_for(most_misses, |point| point.miss_ratio_low.unwrap_or(point.miss_ratio));
    let high = curve.bytes_for(most_misses, |point: &CurvePoint| point.miss_ratio_high.unwrap_or(point.miss_ratio));
    Some(CacheSizing {
        cache: curve.cache.clone(),
        target_hit_ratio,
        added_bytes,
        size_low_bytes: cache_now_bytes.and_then(|now| Some(now.max(low?))),
        size_high_bytes: cache_now_bytes.and_then(|now| Some(now.saturating_add(high?))),
    })
}
