//! The share of the fetches that caches of all sizes would have missed.

use super::super::units::{bytes_text, count_text};
use super::lines::{Line, lines_legend};
use super::svg::{Figure, Plot, Scale, hit, number_text};
use crate::diagnosis::Report;
use crate::reuse::{Granularity, Method, MissRatioCurve};

/// Computes with a line of their own: as many as are told apart by their dashes.
const MOST_COMPUTES: usize = 5;

/// Sizes at which values are told, in equal ratios.
const SIZES_TOLD: usize = 96;

/// Sizes that are written at the axis.
pub(super) const SIZES_WRITTEN: u32 = 8;

/// For one cache that all computes share, and for each one's own.
pub(super) fn figures(report: &Report) -> Vec<Figure> {
    let of_all: Vec<&MissRatioCurve> = report.mrc.iter().filter(|curve| curve.cache.is_none()).collect();
    let names = of_all.iter().map(|curve| match curve.granularity {
        Granularity::Pages => "pages".to_owned(),
        Granularity::Chunks => format!("chunks of {} pages", count_text(curve.chunk_blocks.into())),
    });
    let all = curves_figure(
        ("mrc", "Miss ratio by the size of an added LRU cache that all computes share".to_owned()),
        of_all.iter().copied().zip(names).collect(),
        "The share of these fetches that would still have crossed the wire; where a line stays level, more memory spares \
         nothing. The fetches are what the computes' present caches missed.",
    );
    let own = |curve: &&MissRatioCurve| curve.granularity == Granularity::Pages && curve.cache.is_some();
    let own: Vec<&MissRatioCurve> = report.mrc.iter().filter(own).collect();
    if own.len() < 2 {
        return vec![all];
    }
    let title = match own.len() > MOST_COMPUTES {
        true => format!(
            "Miss ratio by the size of each compute's own added cache ({MOST_COMPUTES} busiest of {})",
            own.len()
        ),
        false => "Miss ratio by the size of each compute's own added cache".to_owned(),
    };
    let names = own.iter().filter_map(|curve| {
        let cache = curve.cache.as_ref()?;
        let asks = if cache.primary { "" } else { ", standby" };
        let tenant: String = cache.tenant.chars().take(8).collect();
        Some(format!("{}{asks} (tenant {tenant}…)", cache.client))
    });
    let lines = own.iter().copied().zip(names).take(MOST_COMPUTES).collect();
    vec![all, curves_figure(("mrc-computes", title), lines, "Each line is one compute, pages only.")]
}

fn curves_figure((id, title): (&str, String), curves: Vec<(&MissRatioCurve, String)>, reading: &str) -> Figure {
    let sampled = curves.iter().find(|(curve, _)| curve.method == Method::Shards);
    let method = sampled.map_or(" Exact.".to_owned(), |(curve, name)| {
        let one_in = count_text((1.0 / curve.sampling_rate).round() as u64);
        let has_interval = curve.points.iter().any(|point| point.miss_ratio_low.is_some());
        let interval = match has_interval {
            true => {
                "; the true ratio lies in the band, and in the interval under the pointer, with a confidence of 99 %"
            }
            false => "",
        };
        format!(" Estimated (SHARDS), that of {name} from one in {one_in}{interval}.")
    });
    let names: Vec<&str> = curves.iter().map(|(_, name)| name.as_str()).collect();
    Figure {
        id: id.to_owned(),
        title,
        reading: format!("{reading}{method}").into(),
        legend: lines_legend(&names),
        content: curves_content(&curves).ok_or("No fetch of a page by a known tenant was seen."),
    }
}

fn curves_content(curves: &[(&MissRatioCurve, String)]) -> Option<(Plot, String)> {
    let sizes = || curves.iter().flat_map(|(curve, _)| curve.points.iter().map(|point| point.bytes));
    let (least, most) = (sizes().min()?, sizes().max()?);
    let plot = Plot::of_height(260.0);
    // Behind the last point the lines are level, which is seen only if there is a little more.
    let ends = (least as f64, most as f64 * 2.0);
    let x = Scale { values: ends, places: (plot.left, plot.right()), is_log: true };
    let y = Scale { values: (0.0, 1.0), places: (plot.bottom(), plot.top), is_log: false };
    let mut marks = size_ticks(&plot, &x);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        marks.push_str(&plot.tick_y(y.at(share), &percent(share)));
    }
    marks.push_str(&plot.names("size of the added cache", "missed"));
    marks.push_str(&band(curves.first()?.0, (&x, &y)));
    for (place, (curve, _)) in curves.iter().enumerate() {
        let at = |bytes: f64, ratio: f64| (x.at(bytes), y.at(ratio));
        let points = curve.points.iter().map(|point| at(point.bytes as f64, point.miss_ratio));
        let last = curve.points.last().map(|last| at(ends.1, last.miss_ratio));
        marks.push_str(&Line { place, points: points.chain(last).collect() }.mark());
    }
    Some((plot, marks + &sizes_told(curves, (&plot, &x))))
}

/// Between which ratios a sampled curve's truth lies.
fn band(curve: &MissRatioCurve, (x, y): (&Scale, &Scale)) -> String {
    let at = |bytes: u64, ratio: f64| format!("{:.1} {:.1}", x.at(bytes as f64), y.at(ratio));
    let low = curve.points.iter().filter_map(|point| Some(at(point.bytes, point.miss_ratio_low?)));
    let high = curve.points.iter().rev().filter_map(|point| Some(at(point.bytes, point.miss_ratio_high?)));
    let outline: Vec<String> = low.chain(high).collect();
    if outline.is_empty() { String::new() } else { format!("<path class=band d=\"M{}z\"/>\n", outline.join("L")) }
}

/// What stands under the pointer: of each curve the ratio of the largest size that is known and not above the one pointed at.
fn sizes_told(curves: &[(&MissRatioCurve, String)], (plot, x): (&Plot, &Scale)) -> String {
    let width = plot.width / SIZES_TOLD as f64;
    let ratio = (x.values.1 / x.values.0).powf(1.0 / SIZES_TOLD as f64);
    let told = |place: usize| {
        // Half a pixel's rounding must not hide the first size.
        let bytes = x.values.0 * ratio.powf(place as f64 + 0.5) * (1.0 + f64::EPSILON);
        let of = |(curve, name): &(&MissRatioCurve, String)| {
            let known = curve.points.iter().rfind(|point| point.bytes as f64 <= bytes)?;
            let range = known.miss_ratio_low.zip(known.miss_ratio_high);
            let range = range.map_or(String::new(), |(low, high)| format!(" ({} to {})", percent(low), percent(high)));
            Some(format!("{name} {}{range}", percent(known.miss_ratio)))
        };
        let parts: Vec<String> = curves.iter().filter_map(of).collect();
        let text = format!("{} added, missed: {}", bytes_text(bytes as u64), parts.join(", "));
        hit(&text, (plot.left + place as f64 * width, plot.top, width, plot.height))
    };
    (0..SIZES_TOLD).map(told).collect()
}

pub(super) fn percent(share: f64) -> String {
    format!("{} %", number_text((share * 1000.0).round() / 10.0))
}

/// Sizes along an axis: powers of two, few enough to be read.
fn size_ticks(plot: &Plot, x: &Scale) -> String {
    let (from, to) = (x.values.0.log2().ceil() as u32, x.values.1.log2().floor() as u32);
    let step = to.saturating_sub(from).div_ceil(SIZES_WRITTEN).max(1);
    let powers = (from..=to).step_by(step as usize);
    powers.map(|power| plot.tick_x(x.at(2f64.powi(power as i32)), &size_text(power))).collect()
}

/// `8 KiB`, where `bytes_text` would have `8.0 KiB`.
pub(super) fn size_text(power: u32) -> String {
    bytes_text(1u64.checked_shl(power).unwrap_or(u64::MAX)).replace(".0 ", " ")
}
