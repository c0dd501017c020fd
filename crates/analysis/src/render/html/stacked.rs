//! Bars of classes on top of one another: by time, and by relation.

use super::super::units::{count_text, time_text};
use super::Escaped;
use super::svg::{Figure, Plot, Scale, WIDTH, hit, legend, number_text};
use super::time_axis::{time_name, time_ticks};
use crate::diagnosis::{RefetchCounts, RelationRow, Report};
use crate::pictures::Layer;

/// Relations with a bar: as many as the tables have rows.
const MOST_BARS: usize = 15;

/// How high a relation's bar is, and its row.
const BAR: (f64, f64) = (16.0, 24.0);

/// Where bars begin: names stand before.
const NAMES_WIDTH: f64 = 240.0;

/// The longest name that stands beside a bar; the tables have it whole.
const NAME_CHARS: usize = 32;

/// GetPage by layer.
fn layers_of(counts: &RefetchCounts) -> [u64; Layer::ALL.len()] {
    Layer::ALL.map(|layer| match layer {
        Layer::First => counts.first,
        Layer::Redundant => counts.redundant,
        Layer::InFlight => counts.in_flight,
        Layer::SameContent => counts.same_content,
        Layer::Changed => counts.changed + counts.raced + counts.contradictions,
        Layer::Unproven => counts.unproven,
    })
}

/// The same where the input says who asked; otherwise all in the first layer, which then has no name.
fn stack(refetch: Option<&RefetchCounts>, getpage: u64) -> [u64; Layer::ALL.len()] {
    refetch.map_or([getpage, 0, 0, 0, 0, 0], layers_of)
}

fn legend_of(report: &Report) -> String {
    report.refetch.as_ref().map_or(String::new(), |_| legend(&Layer::ALL, true))
}

/// Classes are named only where there are some.
fn titled(what: &str, by_class: &str, report: &Report) -> String {
    format!("{what}{}", if report.refetch.is_some() { by_class } else { "" })
}

/// `first 12, redundant 30`.
pub(super) fn listed(counts: &[u64; Layer::ALL.len()], report: &Report) -> String {
    if report.refetch.is_none() {
        return String::new();
    }
    let some = Layer::ALL.iter().zip(counts).filter(|(_, count)| **count > 0);
    let parts: Vec<String> = some.map(|(layer, &count)| format!("{} {}", layer.as_str(), count_text(count))).collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) }
}

/// GetPage a second, by class.
pub(super) fn rate(report: &Report) -> Figure {
    Figure {
        id: "rate".to_owned(),
        title: titled("GetPage a second over time", ", by class", report),
        reading: match report.refetch {
            Some(_) => {
                "Each column is one span of time; its height is the rate of GetPage, its parts are their classes from \
                 first at the bottom to unproven at the top."
            }
            None => "Each column is one span of time; its height is the rate of GetPage.",
        }
        .into(),
        legend: legend_of(report),
        content: rate_content(report).ok_or("No GetPage was seen."),
    }
}

fn rate_content(report: &Report) -> Option<(Plot, String)> {
    let spans = &report.over_time.spans;
    let seconds = report.over_time.span_ns as f64 / 1e9;
    let most = spans.iter().map(|span| span.getpage).max().filter(|&most| most > 0)?;
    let plot = Plot::of_height(230.0);
    let y = Scale { values: (0.0, most as f64 / seconds), places: (plot.bottom(), plot.top), is_log: false };
    let width = plot.width / spans.len() as f64;
    let mut marks: String = y.ticks().iter().map(|&rate| plot.tick_y(y.at(rate), &number_text(rate))).collect();
    let first = spans.first()?.time_ns;
    let end = first.saturating_add(report.over_time.span_ns.saturating_mul(spans.len() as u64));
    marks.push_str(&time_ticks(&plot, first, end));
    let mut paths = [const { String::new() }; Layer::ALL.len()];
    let mut hits = String::new();
    for (place, span) in spans.iter().enumerate() {
        let x = plot.left + place as f64 * width;
        let counts = stack(span.refetch.as_ref(), span.getpage);
        let mut sum = 0u64;
        for (path, &count) in paths.iter_mut().zip(&counts).filter(|(_, count)| **count > 0) {
            let below = y.at(sum as f64 / seconds);
            sum += count;
            let height = below - y.at(sum as f64 / seconds);
            path.push_str(&format!("M{x:.1} {below:.2}v{:.2}h{width:.2}v{height:.2}z", -height));
        }
        if span.getpage > 0 {
            let rate = number_text(span.getpage as f64 / seconds);
            let text = format!("{}: {rate} GetPage/s{}", time_text(span.time_ns), listed(&counts, report));
            hits.push_str(&hit(&text, (x, plot.top, width, plot.height)));
        }
    }
    for (place, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        marks.push_str(&format!("<path class=m fill=url(#p{place}) d=\"{path}\"/>\n"));
    }
    marks.push_str(&plot.names(&time_name(first, end), "GetPage / s"));
    Some((plot, marks + &hits))
}

/// GetPage of the busiest relations, by class.
pub(super) fn relations(report: &Report) -> Figure {
    Figure {
        id: "relations".to_owned(),
        title: titled("GetPage by relation", " and class", report),
        reading: match report.refetch {
            Some(_) => {
                "Each bar is one fork of a relation, the busiest first; its parts are the classes from first at the left \
                 to unproven at the right."
            }
            None => "Each bar is one fork of a relation, the busiest first.",
        }
        .into(),
        legend: legend_of(report),
        content: relations_content(report).ok_or("No GetPage was seen."),
    }
}

/// Whether bars are of several tenants, or of several timelines of one.
enum Owners {
    One,
    Timelines,
    Tenants,
}

impl Owners {
    fn of(rows: &[&RelationRow]) -> Self {
        let differ = |of: fn(&RelationRow) -> &Option<String>| {
            rows.windows(2).any(|pair| matches!(pair, [one, other] if of(one) != of(other)))
        };
        match (differ(|row| &row.tenant), differ(|row| &row.timeline)) {
            (true, _) => Self::Tenants,
            (false, true) => Self::Timelines,
            (false, false) => Self::One,
        }
    }

    /// Whose a relation is, in whole and by the first digits of what tells it apart; both empty where there is but one owner.
    fn names(&self, row: &RelationRow) -> (String, String) {
        let apart = match self {
            Self::One => None,
            Self::Timelines => row.timeline.as_ref(),
            Self::Tenants => row.tenant.as_ref(),
        };
        let (Some(apart), Some(tenant), Some(timeline)) = (apart, &row.tenant, &row.timeline) else {
            return (String::new(), String::new());
        };
        let digits: String = apart.chars().take(8).collect();
        (format!(" of {tenant}/{timeline}"), format!(" {digits}…"))
    }
}

fn relations_content(report: &Report) -> Option<(Plot, String)> {
    let rows: Vec<_> = report.relations.iter().filter(|row| row.getpage > 0).take(MOST_BARS).collect();
    let most = rows.iter().map(|row| row.getpage).max()?;
    let owners = Owners::of(&rows);
    let plot =
        Plot { left: NAMES_WIDTH, top: 6.0, width: WIDTH - NAMES_WIDTH - 20.0, height: BAR.1 * rows.len() as f64 };
    let x = Scale { values: (0.0, most as f64), places: (plot.left, plot.right()), is_log: false };
    let mut marks: String =
        x.whole_ticks().iter().map(|&count| plot.tick_x(x.at(count), &number_text(count))).collect();
    let mut hits = String::new();
    for (place, row) in rows.iter().enumerate() {
        let top = plot.top + place as f64 * BAR.1;
        let name = row.rel.as_deref().unwrap_or("(further relations)");
        let (owner, initials) = owners.names(row);
        let short: String = format!("{name}{initials}").chars().take(NAME_CHARS).collect();
        let (text_x, text_y) = (plot.left - 8.0, top + 16.0);
        marks.push_str(&format!("<text class=y x={text_x:.1} y={text_y:.1}>{}</text>\n", Escaped(&short)));
        let counts = stack(row.refetch.as_ref(), row.getpage);
        let mut sum = 0u64;
        for (layer, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let from = x.at(sum as f64);
            sum += count;
            let (top, height, width) = (top + (BAR.1 - BAR.0) / 2.0, BAR.0, x.at(sum as f64) - from);
            marks.push_str(&format!(
                "<rect class=m fill=url(#p{layer}) x={from:.1} y={top:.1} width={width:.2} height={height:.1} />\n"
            ));
        }
        let text = format!("{name}{owner}: {} GetPage{}", count_text(row.getpage), listed(&counts, report));
        hits.push_str(&hit(&text, (plot.left, top, plot.width, BAR.1)));
    }
    marks.push_str(&plot.names("GetPage", ""));
    Some((plot, marks + &hits))
}
