//! A diagnosis as one self-contained page: findings in words, charts as SVG, then the tables of the text report.
//!
//! The page loads nothing: its style and script stand in it, and its content security policy forbids anything else.

mod charts;
mod heat;
mod lines;
mod miss_ratio;
mod reuse;
mod stacked;
mod svg;
mod time_axis;

use std::fmt;

use super::diagnosis_text::{access, completeness_text, tables};
use super::text_table::line;
use crate::diagnosis::Report;
use crate::pictures::{Layer, Pictures};
use svg::Figure;

const STYLE: &str = concat!("\n", include_str!("page.css"));
const SCRIPT: &str = concat!("\n", include_str!("page.js"));

/// The content of the page's `style` and of its `script`, byte for byte: whoever shows the page under a content security policy
/// of its own lets them through by their hashes.
pub const INLINE_PARTS: [&str; 2] = [STYLE, SCRIPT];

/// Maps of blocks that are drawn: the hottest relations, some 50 KiB each.
const MAPS_DRAWN: usize = 4;

/// Text from anywhere, so that it stands in an element or a quoted attribute as it is.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            char => write!(f, "{char}"),
        })
    }
}

/// The diagnosis as one HTML file that needs nothing else.
pub fn diagnosis_html(report: &Report, pictures: &Pictures) -> String {
    let mut page = String::new();
    line(&mut page, format_args!("<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>"));
    page.push_str(
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n<meta name=viewport content=\"width=device-width, \
         initial-scale=1\">\n<meta name=color-scheme content=\"light dark\">\n<title>pagesniff report</title>\n",
    );
    // Without an icon of its own a browser asks for one.
    line(&mut page, format_args!("<link rel=icon href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>"));
    line(&mut page, format_args!("<main>\n<h1>pagesniff report</h1>"));
    paragraphs(&completeness_text(report), &mut page);
    findings(report, &mut page);
    line(&mut page, format_args!("<h2>Charts</h2>\n{}", svg::patterns()));
    figures(report, pictures).iter().for_each(|figure| figure.append_to(&mut page));
    line(&mut page, format_args!("<h2>Tables</h2>"));
    tables(report).into_iter().for_each(|table| table.append_html_to(&mut page));
    let mut closing = String::new();
    access(report, &mut closing);
    paragraphs(&closing, &mut page);
    line(&mut page, format_args!("</main>\n<div id=tip role=status hidden></div>\n<script>{SCRIPT}</script>"));
    line(&mut page, format_args!("</body>\n</html>"));
    page
}

fn paragraphs(text: &str, page: &mut String) {
    for sentence in text.lines().filter(|sentence| !sentence.is_empty()) {
        line(page, format_args!("<p>{}</p>", Escaped(sentence)));
    }
}

fn findings(report: &Report, page: &mut String) {
    line(page, format_args!("<h2>Findings</h2>"));
    if report.findings.is_empty() {
        line(page, format_args!("<p>There is nothing to say: no request was seen.</p>"));
        return;
    }
    line(page, format_args!("<ul class=findings>"));
    for finding in &report.findings {
        let severity = finding.severity.as_str();
        line(page, format_args!("<li class={severity}><b>{severity}</b> {}</li>", Escaped(&finding.text)));
    }
    line(page, format_args!("</ul>"));
}

/// All charts, in the order in which they are read.
fn figures(report: &Report, pictures: &Pictures) -> Vec<Figure> {
    let mut figures = vec![stacked::rate(report), stacked::relations(report)];
    figures.extend(miss_ratio::figures(report));
    figures.push(reuse::working_set(report));
    if pictures.maps.is_empty() {
        figures.push(heat::no_map());
    }
    // A page trace does not say who asked, so its pages have no class.
    let layers: &[Layer] = if report.refetch.is_some() { &Layer::ALL } else { &[] };
    let maps = pictures.maps.iter().take(MAPS_DRAWN).enumerate();
    figures.extend(maps.map(|(place, map)| heat::blocks((place, map), pictures, layers)));
    figures.push(charts::popularity(report, pictures));
    figures.push(reuse::distance(report));
    figures.push(reuse::times(report, pictures));
    figures.push(heat::latency(pictures));
    figures.push(charts::latency_share(pictures));
    figures.push(charts::wait_and_service(report));
    figures.push(charts::depth(pictures));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Diagnosis, InputFacts, Limits};

    #[test]
    fn text_from_traces_cannot_leave_its_place() {
        let hostile = "</script><img src=x onerror=\"alert('&')\">";
        let expected = "&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;&amp;&#39;)&quot;&gt;";
        assert_eq!(Escaped(hostile).to_string(), expected);
        let mut diagnosis = Diagnosis::with_pictures(Limits::CAPTURE);
        let facts = InputFacts { notes: vec![hostile.to_owned()], ..InputFacts::default() };
        let page = diagnosis_html(&diagnosis.report(facts), &diagnosis.pictures().unwrap());
        assert!(page.contains(expected) && !page.contains("<img"));
    }

    #[test]
    fn charts_without_data_say_why() {
        let mut diagnosis = Diagnosis::with_pictures(Limits::CAPTURE);
        let page = diagnosis_html(&diagnosis.report(InputFacts::default()), &diagnosis.pictures().unwrap());
        assert_eq!(page.matches("<figure ").count(), 12);
        assert_eq!(page.matches("<p class=none>").count(), 12, "{page}");
    }
}
