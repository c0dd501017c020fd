//! How pages are asked for again: different pages by time, and how far requests for a page lie apart.

use super::super::units::{bytes_text, count_text, duration_text, time_text};
use super::lines::{Line, lines_legend};
use super::miss_ratio::{SIZES_WRITTEN, percent, size_text};
use super::stacked::listed;
use super::svg::{Figure, Plot, Scale, hit, legend, number_text};
use super::time_axis::{time_name, time_ticks};
use crate::diagnosis::Report;
use crate::pictures::{Layer, Pictures, reuse_time_begin_ns};
use crate::reuse::{Granularity, MissRatioCurve, PAGE_BYTES, WindowReport};

/// How many different pages are asked for in windows of time.
pub(super) fn working_set(report: &Report) -> Figure {
    let all = report.working_set.iter().find(|of| of.cache.is_none());
    let estimate = match all.map_or(1.0, |all| all.sampling_rate) {
        rate if rate < 1.0 => {
            format!(" Estimates, at the end from one page in {}.", count_text((1.0 / rate).round() as u64))
        }
        _ => String::new(),
    };
    Figure {
        id: "working-set".to_owned(),
        title: "Working set: different pages within a window of time".to_owned(),
        reading: format!(
            "A line's height is how many different pages of 8 KiB all computes together asked for within the window; the \
             first and the last window may be partial.{estimate}"
        )
        .into(),
        legend: all.map_or(String::new(), |all| {
            let names: Vec<String> = all.windows.iter().map(|window| window_name(window.window_ns)).collect();
            lines_legend(&names.iter().map(String::as_str).collect::<Vec<_>>())
        }),
        content: all
            .and_then(|all| windows_content(&all.windows, report))
            .ok_or("No fetch of a page by a known tenant was seen."),
    }
}

fn window_name(window_ns: u64) -> String {
    match window_ns / 60_000_000_000 {
        60 => "1 hour".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

fn windows_content(windows: &[WindowReport], report: &Report) -> Option<(Plot, String)> {
    let (first, last) = report.window.first_time_ns.zip(report.window.last_time_ns)?;
    // A single moment has a width as well.
    let last = last.max(first.saturating_add(1_000_000));
    let most = windows.iter().map(|window| window.peak_pages).max().filter(|&most| most > 0)?;
    let plot = Plot::of_height(230.0);
    let x = Scale { values: (0.0, (last - first) as f64), places: (plot.left, plot.right()), is_log: false };
    let y = Scale { values: (0.0, most as f64), places: (plot.bottom(), plot.top), is_log: false };
    let at = |time_ns: u64| x.at(time_ns.saturating_sub(first) as f64);
    let mut marks: String =
        y.whole_ticks().iter().map(|&pages| plot.tick_y(y.at(pages), &number_text(pages))).collect();
    marks.push_str(&time_ticks(&plot, first, last));
    marks.push_str(&plot.names(&time_name(first, last), "pages"));
    for (place, window) in windows.iter().enumerate() {
        let steps = window.points.iter().flat_map(|point| {
            let (from, to) = (at(point.time_ns), at(point.time_ns.saturating_add(window.span_ns)));
            let height = y.at(point.pages as f64);
            [(from, height), (to, height)]
        });
        // The shortest window's steps stand on the ground, so that they are seen under the others where all are alike.
        let points: Vec<(f64, f64)> = steps.collect();
        if place == 0 {
            let (left, right) = (points.first()?.0, points.last()?.0);
            let outline: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            let bottom = plot.bottom();
            marks.push_str(&format!(
                "<path class=\"m band\" d=\"M{left:.1} {bottom:.1}L{}L{right:.1} {bottom:.1}z\"/>\n",
                outline.join("L")
            ));
        }
        marks.push_str(&Line { place, points }.path());
    }
    let shortest = windows.first()?;
    let hits = shortest.points.iter().map(|point| {
        let (from, to) = (at(point.time_ns), at(point.time_ns.saturating_add(shortest.span_ns)));
        let middle = point.time_ns.saturating_add(shortest.span_ns / 2).clamp(first, last);
        hit(&pages_told(windows, middle), (from, plot.top, to - from, plot.height))
    });
    Some((plot, marks + &hits.collect::<String>()))
}

/// The pages of each window that holds a time.
fn pages_told(windows: &[WindowReport], time_ns: u64) -> String {
    let of = |window: &WindowReport| {
        let point = window.points.iter().rfind(|point| point.time_ns <= time_ns)?;
        let size = bytes_text(point.pages.saturating_mul(PAGE_BYTES));
        Some(format!("{} in {} ({size})", count_text(point.pages), window_name(window.window_ns)))
    };
    let parts: Vec<String> = windows.iter().filter_map(of).collect();
    format!("around {}, pages: {}", time_text(time_ns), parts.join(", "))
}

/// How much else was asked for since the same page was, from the curve's steps.
pub(super) fn distance(report: &Report) -> Figure {
    let pages = |curve: &&MissRatioCurve| curve.cache.is_none() && curve.granularity == Granularity::Pages;
    let curve = report.mrc.iter().find(pages);
    Figure {
        id: "reuse-distance".to_owned(),
        title: "Reuse distance: different pages asked for since the same page was".to_owned(),
        reading: "Each bar is the share of the fetches that an LRU cache of that size, shared by all computes, would have \
                  answered, and one of half the size would not. The last bar is of pages that had not been asked for before."
            .into(),
        legend: String::new(),
        content: curve.and_then(distance_content).ok_or("No fetch of a page by a known tenant was seen."),
    }
}

/// The share of the fetches by power of two of the pages, and of those never asked for before.
fn distances(curve: &MissRatioCurve) -> (Vec<f64>, f64) {
    let (mut shares, mut missed) = (Vec::new(), 1.0);
    for point in &curve.points {
        let pages = (point.bytes / PAGE_BYTES).max(1);
        let power = pages.next_power_of_two().ilog2() as usize;
        shares.resize(shares.len().max(power + 1), 0.0);
        shares.get_mut(power).into_iter().for_each(|share| *share += missed - point.miss_ratio);
        missed = point.miss_ratio;
    }
    (shares, missed)
}

fn distance_content(curve: &MissRatioCurve) -> Option<(Plot, String)> {
    let (shares, never) = distances(curve);
    let most = shares.iter().copied().fold(never, f64::max);
    let plot = Plot::of_height(200.0);
    let y = Scale { values: (0.0, most.max(0.01)), places: (plot.bottom(), plot.top), is_log: false };
    let mut marks: String = y.ticks().iter().map(|&share| plot.tick_y(y.at(share), &percent(share))).collect();
    let width = plot.width / (shares.len() + 1) as f64;
    let each = shares.len().div_ceil(SIZES_WRITTEN as usize).max(1);
    let mut hits = String::new();
    for (place, &share) in shares.iter().chain([&never]).enumerate() {
        let is_never = place == shares.len();
        let (x, top) = (plot.left + place as f64 * width, y.at(share));
        if share > 0.0 {
            let fill = if is_never { "class=m fill=url(#p5)" } else { "class=\"m dot\"" };
            marks.push_str(&format!(
                "<rect {fill} x={:.1} y={top:.2} width={:.1} height={:.2} />\n",
                x + width * 0.08,
                width * 0.84,
                plot.bottom() - top
            ));
        }
        let size = size_text(place as u32 + PAGE_BYTES.ilog2());
        let text = match is_never {
            true => format!("not asked for before: {} of the fetches", percent(share)),
            false => format!("{} pages ({size}): {} of the fetches", count_text(1 << place), percent(share)),
        };
        if is_never || place % each == 0 && place + 1 < shares.len().max(2) {
            let label = if is_never { "never" } else { &size };
            let (at, below) = (x + width / 2.0, plot.bottom() + 18.0);
            marks.push_str(&format!("<text x={at:.1} y={below:.1}>{label}</text>\n"));
        }
        hits.push_str(&hit(&text, (x, plot.top, width, plot.height)));
    }
    marks.push_str(&plot.names("size of the cache that would have answered", "fetches"));
    Some((plot, marks + &hits))
}

/// How long after its last fetch a page is asked for again.
pub(super) fn times(report: &Report, pictures: &Pictures) -> Figure {
    let one_in = report.completeness.followed_one_in;
    // What has no classes does not say who asked either.
    let has_classes = report.refetch.is_some();
    let (since, latest, classes) = if has_classes {
        (
            "the same compute fetched the same page",
            " by the same compute since its start",
            "; its parts are the classes",
        )
    } else {
        ("the same page was asked for", "", "")
    };
    let followed = match one_in {
        0 | 1 => String::new(),
        _ => format!(" (one page in {} is followed)", count_text(one_in)),
    };
    let title = format!("Reuse time: since {since}{followed}");
    Figure {
        id: "reuse-time".to_owned(),
        title,
        reading: format!(
            "Each bar counts the GetPage that came so long after the latest fetch of their page{latest}{classes}; \
             equal distances are equal ratios. Pages that come back soon were hardly kept at all."
        )
        .into(),
        legend: if has_classes { legend(&Layer::ALL[1..], true) } else { String::new() },
        content: times_content(report, pictures).ok_or(match has_classes {
            true => "No page that is followed was asked for again by the same compute.",
            false => "No page that is followed was asked for again.",
        }),
    }
}

/// Times that are written at the axis.
const TIMES_WRITTEN: [(u64, &str); 14] = [
    (1_000, "1 µs"),
    (10_000, "10 µs"),
    (100_000, "100 µs"),
    (1_000_000, "1 ms"),
    (10_000_000, "10 ms"),
    (100_000_000, "100 ms"),
    (1_000_000_000, "1 s"),
    (10_000_000_000, "10 s"),
    (60_000_000_000, "1 min"),
    (600_000_000_000, "10 min"),
    (3_600_000_000_000, "1 h"),
    (36_000_000_000_000, "10 h"),
    (864_000_000_000_000, "10 days"),
    (31_536_000_000_000_000, "1 year"),
];

fn times_content(report: &Report, pictures: &Pictures) -> Option<(Plot, String)> {
    let sum = |layers: &[u64; Layer::ALL.len()]| layers.iter().sum::<u64>();
    let bins = &pictures.reuse_time;
    let (first, last) = (bins.iter().position(|bin| sum(bin) > 0)?, bins.iter().rposition(|bin| sum(bin) > 0)?);
    let most = bins.iter().map(sum).max()?;
    let plot = Plot::of_height(200.0);
    let begin = |bin: usize| reuse_time_begin_ns(bin) as f64;
    let x = Scale { values: (begin(first), begin(last + 1)), places: (plot.left, plot.right()), is_log: true };
    let y = Scale { values: (0.0, most as f64), places: (plot.bottom(), plot.top), is_log: false };
    let mut marks: String =
        y.whole_ticks().iter().map(|&count| plot.tick_y(y.at(count), &number_text(count))).collect();
    let written = TIMES_WRITTEN.iter().filter(|(ns, _)| (x.values.0..x.values.1).contains(&(*ns as f64)));
    marks.extend(written.map(|(ns, label)| plot.tick_x(x.at(*ns as f64), label)));
    let mut hits = String::new();
    for (bin, layers) in bins.iter().enumerate().take(last + 1).skip(first) {
        let (from, to) = (x.at(begin(bin)), x.at(begin(bin + 1)));
        let width = to - from;
        let mut below = 0u64;
        for (layer, &count) in layers.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bottom = y.at(below as f64);
            below += count;
            let (top, layer) = (y.at(below as f64), if report.refetch.is_some() { layer } else { 0 });
            marks.push_str(&format!(
                "<rect class=m fill=url(#p{layer}) x={:.1} y={top:.2} width={:.1} height={:.2} />\n",
                from + width * 0.05,
                width * 0.9,
                bottom - top
            ));
        }
        let span = match bin {
            0 => format!("below {}", age(1)),
            _ => format!("{} to {}", age(bin), age(bin + 1)),
        };
        let text = format!("{span}: {} GetPage{}", count_text(sum(layers)), listed(layers, report));
        hits.push_str(&hit(&text, (from, plot.top, width, plot.height)));
    }
    marks.push_str(&plot.names("time since the latest fetch of the same page", "GetPage"));
    Some((plot, marks + &hits))
}

/// Where a bin begins, in the largest unit of which there are two.
fn age(bin: usize) -> String {
    let begin_ns = reuse_time_begin_ns(bin);
    let ns = begin_ns as f64;
    let units = [(86_400e9, "days"), (3_600e9, "h"), (60e9, "min")];
    match units.into_iter().find(|(unit_ns, _)| ns >= 2.0 * unit_ns) {
        Some((unit_ns, name)) => format!("{:.1} {name}", ns / unit_ns),
        None => duration_text(begin_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reuse::{CurvePoint, Method};

    #[test]
    fn distances_are_what_each_doubling_of_the_cache_adds() {
        let point = |pages: u64, miss_ratio| {
            let bytes = pages * PAGE_BYTES;
            CurvePoint { bytes, miss_ratio, miss_ratio_low: None, miss_ratio_high: None }
        };
        // Of the sizes 3 and 4 pages only the last says something; both belong to the third bar.
        let points = vec![point(1, 0.875), point(2, 0.875), point(4, 0.5), point(5, 0.25), point(8, 0.125)];
        let curve = MissRatioCurve {
            cache: None,
            granularity: Granularity::Pages,
            chunk_blocks: 1,
            method: Method::Exact,
            sampling_rate: 1.0,
            requests: 8,
            points,
        };
        assert_eq!(distances(&curve), (vec![0.125, 0.0, 0.375, 0.375], 0.125));
    }

    #[test]
    fn times_have_the_unit_in_which_they_are_read() {
        let texts = [0, 20, 27, 32, 37].map(age);
        assert_eq!(texts, ["1.02 µs", "1.07 s", "2.3 min", "73.3 min", "39.1 h"]);
        assert_eq!(age(44), "208.5 days");
    }
}
