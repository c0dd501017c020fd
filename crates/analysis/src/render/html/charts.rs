//! Curves and bars without time: popularity, shares of latency, waiting and service, depth.

use record::Kind;

use super::super::units::{count_text, duration_text};
use super::Escaped;
use super::svg::{Figure, Plot, Scale, hit, number_text};
use crate::diagnosis::{Durations, Report};
use crate::pictures::{LATENCY_BINS, Pictures, latency_bin_begin_ns};

/// How high a row of waiting and service is.
const ROW: f64 = 26.0;

/// How often pages were asked for, from the most popular to the least.
pub(super) fn popularity(report: &Report, pictures: &Pictures) -> Figure {
    let one_in = report.completeness.followed_one_in;
    let title = match one_in {
        0 | 1 => "Popularity of pages".to_owned(),
        _ => format!("Popularity of pages (one page in {} is followed)", count_text(one_in)),
    };
    Figure {
        id: "popularity".to_owned(),
        title,
        reading: "The pages of each compute in order of how often it asked for them, both axes in equal ratios: a steep line \
                  means that a small cache holds most, a level one that all pages are alike.".into(),
        legend: String::new(),
        content: popularity_content(pictures).ok_or("No page could be followed."),
    }
}

fn popularity_content(pictures: &Pictures) -> Option<(Plot, String)> {
    let points = &pictures.popularity;
    let (first, last) = (points.first()?, points.last()?);
    let plot = Plot::of_height(230.0);
    let x = Scale { values: (1.0, (last.rank as f64).max(2.0)), places: (plot.left, plot.right()), is_log: true };
    let y = Scale { values: (1.0, (first.requests as f64).max(2.0)), places: (plot.bottom(), plot.top), is_log: true };
    let curve: Vec<Point> = points
        .iter()
        .map(|point| Point {
            at: (x.at(point.rank as f64), y.at(point.requests as f64)),
            text: format!(
                "page {}: {} GetPage; the pages up to here have {:.1} % of all",
                count_text(point.rank),
                count_text(point.requests),
                point.share * 100.0
            ),
        })
        .collect();
    let ticks = (x.ticks(), y.ticks());
    let mut marks: String = ticks.0.iter().map(|&rank| plot.tick_x(x.at(rank), &number_text(rank))).collect();
    marks.extend(ticks.1.iter().map(|&count| plot.tick_y(y.at(count), &number_text(count))));
    marks.push_str(&plot.names("place of the page, the most popular is 1", "GetPage"));
    Some((plot, marks + &line_marks(&plot, &curve)))
}

/// How many answers came within which time.
pub(super) fn latency_share(pictures: &Pictures) -> Figure {
    Figure {
        id: "latency-share".to_owned(),
        title: "Share of GetPage answered within a time".to_owned(),
        reading:
            "The height of the line is the share of answers that began within the time below it; it is exact at the \
                  points, which are at most a quarter apart."
                .into(),
        legend: String::new(),
        content: share_content(pictures)
            .ok_or("No latency of a GetPage is known: page traces have none, nor have answers that were not seen."),
    }
}

fn share_content(pictures: &Pictures) -> Option<(Plot, String)> {
    let mut counts: Vec<u64> = Vec::new();
    for ((_, row), layers) in pictures.latency.cells() {
        counts.resize(counts.len().max(row + 1), 0);
        counts.get_mut(row).into_iter().for_each(|count| *count += layers.iter().map(|&n| u64::from(n)).sum::<u64>());
    }
    let least = counts.iter().position(|&count| count > 0)?;
    let all: u64 = counts.iter().sum();
    let plot = Plot::of_height(230.0);
    let ends = (latency_bin_begin_ns(least) as f64, latency_bin_begin_ns(counts.len()) as f64);
    let x = Scale { values: ends, places: (plot.left, plot.right()), is_log: true };
    let y = Scale { values: (0.0, 1.0), places: (plot.bottom(), plot.top), is_log: false };
    let mut sum = 0;
    // The first bin has no begin of its own, the last no end.
    let begin_ns = if least == 0 { 0 } else { latency_bin_begin_ns(least) };
    let first = format!("none within {}", duration_text(begin_ns));
    let mut curve = vec![Point { at: (plot.left, plot.bottom()), text: first }];
    for (bin, &count) in counts.iter().enumerate().skip(least) {
        sum += count;
        let (share, end) = (sum as f64 / all as f64, latency_bin_begin_ns(bin + 1));
        let text = match bin + 1 < LATENCY_BINS {
            true => format!("{:.2} % within {}", share * 100.0, duration_text(end)),
            false => format!("the rest took {} and more", duration_text(latency_bin_begin_ns(bin))),
        };
        curve.push(Point { at: (x.at(end as f64), y.at(share)), text });
    }
    let mut marks = duration_ticks(&plot, &x);
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        marks.push_str(&plot.tick_y(y.at(share), &format!("{:.0} %", share * 100.0)));
    }
    marks.push_str(&plot.names("latency", "share of answers"));
    Some((plot, marks + &line_marks(&plot, &curve)))
}

fn duration_ticks(plot: &Plot, x: &Scale) -> String {
    x.ticks().iter().map(|&ns| plot.tick_x(x.at(ns), &duration_text(ns as u64))).collect()
}

/// A point of a curve, and what it says.
struct Point {
    at: (f64, f64),
    text: String,
}

/// A line with its points. Each point is found from anywhere above or below it.
fn line_marks(plot: &Plot, points: &[Point]) -> String {
    let path: Vec<String> = points.iter().map(|point| format!("{:.1} {:.1}", point.at.0, point.at.1)).collect();
    let mut marks = format!("<path class=line d=\"M{}\"/>\n", path.join("L"));
    for Point { at: (x, y), .. } in points {
        marks.push_str(&format!("<circle class=\"m dot\" cx={x:.1} cy={y:.1} r=2.5 />\n"));
    }
    let middle = |one: &Point, other: &Point| (one.at.0 + other.at.0) / 2.0;
    for (place, point) in points.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| points.get(before));
        let from = before.map_or(plot.left, |before| middle(before, point));
        let to = points.get(place + 1).map_or(plot.right(), |next| middle(point, next));
        marks.push_str(&hit(&point.text, (from, plot.top, to - from, plot.height)));
    }
    marks
}

/// Waiting and service of each kind.
pub(super) fn wait_and_service(report: &Report) -> Figure {
    let shapes = QUANTILES.map(|(name, shape, _)| {
        format!("<li><svg width=16 height=14 aria-hidden=true><path class=dot transform=\"translate(8 7)\" d=\"{shape}\"/></svg>{name}</li>")
    });
    Figure {
        id: "wait-service".to_owned(),
        title: "Waiting and service, by kind of request".to_owned(),
        reading: "Waiting is the time behind earlier requests of the same connection, service the rest of the latency; \
                  where waiting lies further right than service, connections are the bottleneck. Zero stands at the left \
                  edge.".into(),
        legend: format!("<ul class=legend>{}</ul>\n", shapes.concat()),
        content: wait_content(report).ok_or("The input has no latencies whose requests are certain."),
    }
}

/// A quantile: its name, its shape around the origin, and its value.
type Quantile = (&'static str, &'static str, fn(&Durations) -> Option<u64>);

const QUANTILES: [Quantile; 4] = [
    ("p50", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z", |durations| durations.p50_ns),
    ("p90", "M0 -6L6 0L0 6L-6 0z", |durations| durations.p90_ns),
    ("p99", "M0 -6L6 5H-6z", |durations| durations.p99_ns),
    ("max", "M-5 -5H5V5H-5z", |durations| durations.max_ns),
];

fn wait_content(report: &Report) -> Option<(Plot, String)> {
    let queueing = report.queueing.as_ref()?;
    let kinds = Kind::ALL.iter().map(|&kind| (kind, queueing.of(kind)));
    let parts =
        kinds.flat_map(|(kind, of)| [(format!("{kind} wait"), of.wait), (format!("{kind} service"), of.service)]);
    let rows: Vec<(String, Durations)> = parts.filter(|(_, durations)| durations.count > 0).collect();
    let times = || rows.iter().flat_map(|(_, row)| QUANTILES.iter().filter_map(|(_, _, of)| of(row)));
    let (least, most) = (times().filter(|&ns| ns > 0).min().unwrap_or(1), times().max()?);
    let plot = Plot { left: 150.0, height: ROW * rows.len() as f64, ..Plot::of_height(0.0) };
    let plot = Plot { width: super::svg::WIDTH - plot.left - 20.0, ..plot };
    let ends = (least as f64 / 2.0, (most as f64 * 1.5).max(least as f64));
    let x = Scale { values: ends, places: (plot.left, plot.right()), is_log: true };
    let mut marks = duration_ticks(&plot, &x);
    let mut hits = String::new();
    for (place, (name, row)) in rows.iter().enumerate() {
        let middle = plot.top + (place as f64 + 0.5) * ROW;
        marks.push_str(&plot.tick_y(middle, name));
        let mut told = Vec::new();
        for (quantile, shape, of) in QUANTILES {
            let Some(ns) = of(row) else { continue };
            let at = x.at(ns as f64);
            marks.push_str(&format!(
                "<path class=\"m dot\" transform=\"translate({at:.1} {middle:.1})\" d=\"{shape}\"/>\n"
            ));
            told.push(format!("{quantile} {}", duration_text(ns)));
        }
        let text = format!("{name} of {}: {}", count_text(row.count), told.join(", "));
        hits.push_str(&hit(&text, (plot.left, middle - ROW / 2.0, plot.width, ROW)));
    }
    marks.push_str(&plot.names("time", ""));
    Some((plot, marks + &hits))
}

/// How many requests were in flight when one arrived.
pub(super) fn depth(pictures: &Pictures) -> Figure {
    Figure {
        id: "depth".to_owned(),
        title: "Requests in flight on a connection when one arrives".to_owned(),
        reading:
            "Each bar counts the requests that found so many in flight on their connection, themselves included; bars \
                  at the right mean deep prefetching."
                .into(),
        legend: String::new(),
        content: depth_content(pictures).ok_or("No depth is known: page traces do not tell connections apart."),
    }
}

fn depth_content(pictures: &Pictures) -> Option<(Plot, String)> {
    let last = pictures.depth.iter().rposition(|&count| count > 0)?;
    let most = pictures.depth.iter().copied().max()?;
    let plot = Plot::of_height(180.0);
    let y = Scale { values: (0.0, most as f64), places: (plot.bottom(), plot.top), is_log: false };
    let width = plot.width / (last + 1) as f64;
    let mut marks: String =
        y.whole_ticks().iter().map(|&count| plot.tick_y(y.at(count), &number_text(count))).collect();
    let mut hits = String::new();
    for (bin, &count) in pictures.depth.iter().enumerate().take(last + 1) {
        let (from, to) = (1u64 << bin, (2u64 << bin) - 1);
        let name = if from == to { from.to_string() } else { format!("{from} to {to}") };
        let x = plot.left + bin as f64 * width;
        let (top, height) = (y.at(count as f64), plot.bottom() - y.at(count as f64));
        if count > 0 {
            marks.push_str(&format!(
                "<rect class=\"m dot\" x={:.1} y={top:.1} width={:.1} height={height:.1} />\n",
                x + width * 0.1,
                width * 0.8
            ));
        }
        let (at, below) = (x + width / 2.0, plot.bottom() + 18.0);
        marks.push_str(&format!("<text x={at:.1} y={below:.1}>{}</text>\n", Escaped(&name)));
        let text = format!("{name} in flight: {} requests", count_text(count));
        hits.push_str(&hit(&text, (x, plot.top, width, plot.height)));
    }
    marks.push_str(&plot.names("requests in flight, itself included", "requests"));
    Some((plot, marks + &hits))
}
