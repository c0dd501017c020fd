//! From stack distances to a miss-ratio curve.

use serde::Serialize;

use super::PAGE_BYTES;
use super::grid::{Histogram, MOST_POINTS, size_at};
use super::stack::{GROUPS, Stack};

/// Standard errors to either side: with 16 groups, 99 of 100 samples are that close.
const STANDARD_ERRORS: f64 = 3.0;

/// A sample that has so many standard errors too many or too few requests is suspected to lack popular pages. One in twenty is
/// by chance, and its interval is wider than it need be.
const SUSPECT_ERRORS: f64 = 2.0;

/// Of what a curve's sizes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Granularity {
    /// Pages of 8 KiB.
    Pages,
    /// Chunks of neighbouring pages, which a cache holds or drops as a whole.
    Chunks,
}

/// How a curve was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// From every page that was asked for.
    Exact,
    /// From a sample of them, by key.
    Shards,
}

/// The cache whose requests a curve is of: that of one compute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct CacheName {
    /// Whose pages.
    pub tenant: String,
    /// Of which timeline.
    pub timeline: String,
    /// The compute's address.
    pub client: String,
    /// It asks for the latest version, as a primary does.
    pub primary: bool,
}

/// How many of the fetches an LRU cache of each size would not have answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MissRatioCurve {
    /// Whose requests; null for one cache that all computes share.
    pub cache: Option<CacheName>,
    /// Of what it is made.
    pub granularity: Granularity,
    /// Pages of a chunk; 1 for pages.
    pub chunk_blocks: u32,
    /// How it was made.
    pub method: Method,
    /// The share of the keys that it was made from, 0 to 1.
    pub sampling_rate: f64,
    /// Fetches that it is of.
    pub requests: u64,
    /// By size, smallest first, at most [`MOST_POINTS`]. Where neighbours on both sides are the same, a point is left out.
    pub points: Vec<CurvePoint>,
}

/// The miss ratio at one size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The cache's size.
    pub bytes: u64,
    /// The share of the fetches that it would not have answered, 0 to 1.
    pub miss_ratio: f64,
    /// Between this and the next the true ratio lies, with a confidence of 99 %; left out where `method` is exact, and where
    /// the capture itself was a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_ratio_low: Option<f64>,
    /// See above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_ratio_high: Option<f64>,
}

impl MissRatioCurve {
    /// The smallest size whose miss ratio, as `of` takes it from a point, is no more than `wanted`.
    pub fn bytes_for(&self, wanted: f64, of: impl Fn(&CurvePoint) -> f64) -> Option<u64> {
        self.points.iter().find(|point| of(point) <= wanted).map(|point| point.bytes)
    }
}

/// The curve of one stack of pages or chunks, of which one key in `captured_one_in` was captured.
pub(super) fn curve(
    stack: &Stack,
    cache: Option<CacheName>,
    chunk_blocks: u32,
    captured_one_in: u64,
) -> MissRatioCurve {
    let keys_each = stack.keys_each().saturating_mul(captured_one_in);
    let unit = u64::from(chunk_blocks).saturating_mul(PAGE_BYTES).saturating_mul(captured_one_in);
    let mut points = points(stack, unit, captured_one_in);
    points.dedup_by_key(|point| point.bytes);
    MissRatioCurve {
        cache,
        granularity: if chunk_blocks == 1 { Granularity::Pages } else { Granularity::Chunks },
        chunk_blocks,
        method: if keys_each == 1 { Method::Exact } else { Method::Shards },
        sampling_rate: 1.0 / keys_each as f64,
        requests: stack.requests(),
        points: without_flat_middles(points),
    }
}

fn points(stack: &Stack, unit: u64, captured_one_in: u64) -> Vec<CurvePoint> {
    let ratios = Ratios::of(stack);
    let has_interval = stack.keys_each() > 1 && captured_one_in == 1;
    let point = |place: usize| {
        let interval = has_interval.then(|| ratios.interval(place, stack.keys_each()));
        CurvePoint {
            bytes: size_at(place).saturating_mul(unit),
            miss_ratio: ratios.at(place),
            miss_ratio_low: interval.map(|(low, _)| low),
            miss_ratio_high: interval.map(|(_, high)| high),
        }
    };
    (0..MOST_POINTS).map(point).collect()
}

/// Miss ratios at each size, and how far each may be off.
struct Ratios {
    misses: Vec<f64>,
    /// Between which they lie, as far as it is a matter of how many requests the sample stands for.
    ranges: Vec<(f64, f64)>,
}

impl Ratios {
    fn of(stack: &Stack) -> Self {
        let exact = stack.exact().misses();
        let groups: Vec<Vec<u64>> = stack.sampled().iter().map(Histogram::misses).collect();
        let requests = Centred::of(stack.sampled().iter().map(|group| group.requests() as f64));
        let beyond_exact = stack.requests().saturating_sub(stack.exact().requests()) as f64;
        let all = stack.requests().max(1) as f64;
        // What the sample has too many of.
        let excess = requests.sum - beyond_exact;
        // More than chance often makes it: a few popular pages are missing from the sample, or make up most of it. Then the slope
        // between its groups says nothing of theirs, which is from 0 to 1.
        let is_off = excess.abs() > SUSPECT_ERRORS * requests.error_of_sum(&requests, 0.0);
        let (mut misses, mut ranges) = (Vec::new(), Vec::new());
        let mut least = 1.0f64;
        for (place, &exact) in exact.iter().enumerate() {
            let of_groups = groups.iter().map(|group| group.get(place).copied().unwrap_or(0) as f64);
            let of_groups = Centred::of(of_groups);
            let slope = of_groups.slope_over(&requests);
            let ratio = |slope: f64| ((exact as f64 + of_groups.sum - slope * excess) / all).clamp(0.0, 1.0);
            // What a smaller cache answers a larger one does, too, however the slopes differ.
            least = least.min(ratio(slope));
            misses.push(least);
            let error = |slope: f64| STANDARD_ERRORS * of_groups.error_of_sum(&requests, slope) / all;
            let slopes = if is_off { &[0.0, 1.0][..] } else { &[slope] };
            let range = slopes.iter().fold((least, least), |(low, high), &slope| {
                (low.min(ratio(slope) - error(slope)), high.max(ratio(slope) + error(slope)))
            });
            ranges.push(range);
        }
        Self { misses, ranges }
    }

    fn at(&self, place: usize) -> f64 {
        self.misses.get(place).copied().unwrap_or(0.0)
    }

    fn range_at(&self, place: usize) -> (f64, f64) {
        self.ranges.get(place).copied().unwrap_or((0.0, 0.0))
    }

    /// Two things may be off: how many requests the sample stands for, and how large a distance is, since a sample has only
    /// about so many keys in it; the latter moves the curve sideways.
    fn interval(&self, place: usize, keys_each: u64) -> (f64, f64) {
        let size = size_at(place) as f64;
        let off = STANDARD_ERRORS * (keys_each as f64 / size).sqrt();
        let above = (0..MOST_POINTS).find(|&above| size_at(above) as f64 >= size * (1.0 + off));
        let below = (0..MOST_POINTS).rev().find(|&below| size_at(below) as f64 <= size * (1.0 - off));
        let low = above.map_or(0.0, |above| self.range_at(above + 1).0);
        let high = below.and_then(|below| below.checked_sub(1)).map_or(1.0, |below| self.range_at(below).1);
        (low.clamp(0.0, self.at(place)), high.clamp(self.at(place), 1.0))
    }
}

/// One figure of each group, apart from their mean.
struct Centred {
    sum: f64,
    differences: Vec<f64>,
}

impl Centred {
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let figures: Vec<f64> = figures.collect();
        let sum: f64 = figures.iter().sum();
        let mean = sum / GROUPS as f64;
        Self { sum, differences: figures.iter().map(|figure| figure - mean).collect() }
    }

    /// By how much a group with one request more has more misses. How many requests there were in all is known, so that
    /// those that the sample has too many or too few of can be taken off: where a popular page makes the difference it
    /// brought few misses, and the slope is flat (SHARDS' own adjustment takes it to be 0); where none stands out it is the
    /// miss ratio.
    fn slope_over(&self, requests: &Self) -> f64 {
        let both = self.differences.iter().zip(&requests.differences);
        let covariance: f64 = both.map(|(misses, requests)| misses * requests).sum();
        let variance: f64 = requests.differences.iter().map(|requests| requests * requests).sum();
        if variance > 0.0 { (covariance / variance).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The standard error of the sum, without what the slope explains.
    fn error_of_sum(&self, requests: &Self, slope: f64) -> f64 {
        let both = self.differences.iter().zip(&requests.differences);
        let squares: f64 = both.map(|(misses, requests)| (misses - slope * requests).powi(2)).sum();
        // Two of the degrees of freedom went into the mean and the slope.
        (squares * GROUPS as f64 / (GROUPS - 2) as f64).sqrt()
    }
}

/// A point between two that say the same says nothing.
fn without_flat_middles(points: Vec<CurvePoint>) -> Vec<CurvePoint> {
    let mut kept: Vec<CurvePoint> = Vec::new();
    let says = |point: &CurvePoint| (point.miss_ratio, point.miss_ratio_low, point.miss_ratio_high);
    for point in points {
        let is_flat = match kept.last_chunk::<2>() {
            Some([before, last]) => says(before) == says(last) && says(last) == says(&point),
            None => false,
        };
        if is_flat {
            kept.pop();
        }
        kept.push(point);
    }
    // Behind the last change nothing more is to be seen.
    if let Some([before, last]) = kept.last_chunk::<2>()
        && says(before) == says(last)
    {
        kept.pop();
    }
    kept
}
