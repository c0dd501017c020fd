//! What there is to say of cache sizes.

use serde_json::json;

use super::findings::{CLIENTS_NAMED, Finding, STANDING_OUT_SHARE, Severity, is_notable, share};
use super::redundant_findings::role;
use super::report::Report;
use crate::render::{bytes_text, count_text};
use crate::reuse::{CurvePoint, Granularity, Method, MissRatioCurve};

/// The size that is named spares this share of what any size would: what comes after it costs more and more for less and
/// less.
const MOST_OF_IT: f64 = 0.9;

/// Of each compute that stands out, what an added cache would have spared; of all together where computes are not told
/// apart. What it would have spared many small ones stands in the table.
pub(super) fn cache_sizes(report: &Report, findings: &mut Vec<Finding>) {
    let is_named = report.mrc.iter().any(|curve| curve.cache.is_some());
    let all = report.mrc.iter().filter(|curve| curve.granularity == Granularity::Pages);
    let of_all = all.clone().find(|curve| curve.cache.is_none()).map_or(0, |curve| curve.requests);
    let curves = all.filter(|curve| {
        curve.cache.is_some() == is_named && share(curve.requests, of_all) >= STANDING_OUT_SHARE && curve.requests > 0
    });
    findings.extend(curves.filter_map(|curve| of(report, curve)).take(CLIENTS_NAMED));
}

fn of(report: &Report, curve: &MissRatioCurve) -> Option<Finding> {
    let best = 1.0 - curve.points.iter().map(|point| point.miss_ratio).fold(1.0, f64::min);
    if !is_notable((best * curve.requests as f64) as u64, curve.requests) {
        return None;
    }
    let point = curve.points.iter().find(|point| 1.0 - point.miss_ratio >= best * MOST_OF_IT)?;
    let hit_ratio = 1.0 - point.miss_ratio;
    let whose = match &curve.cache {
        Some(cache) => format!(" of tenant {} by {} at {}", cache.tenant, role(cache.primary), cache.client),
        None => String::new(),
    };
    let mut text = format!(
        "An added LRU cache of {} would have answered {} of these {} fetches{whose}, and one of any size {}{}.",
        bytes_text(point.bytes),
        ratio_text(hit_ratio),
        count_text(curve.requests),
        ratio_text(best),
        sure(report, curve, point),
    );
    let now = report.completeness.cache_now_bytes.filter(|_| curve.cache.is_some());
    let range = now.map(|now| (now.max(point.bytes), now.saturating_add(point.bytes)));
    if let Some(((least, most), now)) = range.zip(now) {
        text += &format!(
            " These are what the present cache of {} missed: one cache in its place that spares as much has between {} and {}.",
            bytes_text(now),
            bytes_text(least),
            bytes_text(most)
        );
    }
    let evidence = json!({
        "cache": curve.cache, "requests": curve.requests, "added_bytes": point.bytes, "hit_ratio": hit_ratio,
        "best_hit_ratio": best, "method": curve.method, "sampling_rate": curve.sampling_rate,
        "miss_ratio_low": point.miss_ratio_low, "miss_ratio_high": point.miss_ratio_high,
        "size_low_bytes": range.map(|(least, _)| least), "size_high_bytes": range.map(|(_, most)| most),
    });
    Some(Finding { id: "cache_size", severity: Severity::Info, text, evidence })
}

/// How sure it is.
fn sure(report: &Report, curve: &MissRatioCurve, point: &CurvePoint) -> String {
    let of_what = if report.completeness.complete { "" } else { " of what was captured" };
    let interval = point.miss_ratio_low.zip(point.miss_ratio_high);
    match (curve.method, interval) {
        (Method::Exact, _) => format!(" (exact{of_what})"),
        (Method::Shards, Some((low, high))) => format!(
            " (estimated{of_what} from one page in {}: the first figure lies between {} and {})",
            one_in(curve),
            ratio_text(1.0 - high),
            ratio_text(1.0 - low)
        ),
        (Method::Shards, None) => format!(" (estimated{of_what} from one page in {})", one_in(curve)),
    }
}

fn one_in(curve: &MissRatioCurve) -> String {
    count_text((1.0 / curve.sampling_rate).round() as u64)
}

/// `61.0 %`.
fn ratio_text(ratio: f64) -> String {
    format!("{:.1} %", ratio * 100.0)
}
