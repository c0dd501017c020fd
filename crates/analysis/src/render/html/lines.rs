//! Several lines in one chart, told apart by colour and dashes.

use super::Escaped;

/// Styles that lines have; further ones begin anew.
const STYLES: usize = 5;

/// One line of a chart.
pub(super) struct Line {
    /// Its place among the lines of the chart, which gives its style.
    pub(super) place: usize,
    /// In the chart's units.
    pub(super) points: Vec<(f64, f64)>,
}

impl Line {
    /// As what the chart is about.
    pub(super) fn mark(&self) -> String {
        self.path_of("m ")
    }

    /// As what stands beside a mark.
    pub(super) fn path(&self) -> String {
        self.path_of("")
    }

    fn path_of(&self, class: &str) -> String {
        let points: Vec<String> = self.points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        let style = self.place % STYLES;
        match points.is_empty() {
            true => String::new(),
            false => format!("<path class=\"{class}line l{style}\" d=\"M{}\"/>\n", points.join("L")),
        }
    }
}

/// What lines stand for, in their order.
pub(super) fn lines_legend(names: &[&str]) -> String {
    let item = |(place, name): (usize, &&str)| {
        let (style, name) = (place % STYLES, Escaped(name));
        format!(
            "<li><svg width=30 height=14 aria-hidden=true><path class=\"line l{style}\" d=\"M0 7H30\"/></svg>{name}</li>"
        )
    };
    match names {
        [] | [_] => String::new(),
        _ => format!("<ul class=legend>{}</ul>\n", names.iter().enumerate().map(item).collect::<String>()),
    }
}
