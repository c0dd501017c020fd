//! What every chart is made of: its frame, its axes, and the words around it.

use std::borrow::Cow;

use super::super::text_table::line;
use super::Escaped;
use crate::pictures::Layer;

/// A chart's width in its own units, which are pixels on a laptop.
pub(super) const WIDTH: f64 = 1040.0;

/// Where in a chart its marks stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Plot {
    /// With room for the values at its left and for times below.
    pub(super) fn of_height(height: f64) -> Self {
        Self { left: 84.0, top: 10.0, width: WIDTH - 84.0 - 16.0, height }
    }

    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The whole chart's height.
    fn outer_height(&self) -> f64 {
        self.bottom() + 48.0
    }

    /// One value of the vertical axis, with its line.
    pub(super) fn tick_y(&self, y: f64, label: &str) -> String {
        let (left, right, text) = (self.left, self.right(), self.left - 8.0);
        let label = Escaped(label);
        format!(
            "<path class=grid d=\"M{left:.1} {y:.1}H{right:.1}\"/><text class=y x={text:.1} y={:.1}>{label}</text>\n",
            y + 4.0
        )
    }

    /// One value of the horizontal axis, with its line.
    pub(super) fn tick_x(&self, x: f64, label: &str) -> String {
        let (top, bottom) = (self.top, self.bottom());
        let label = Escaped(label);
        // A label in the middle of the last line would leave the chart.
        let anchor = if x > self.right() - 20.0 { " class=e" } else { "" };
        format!(
            "<path class=grid d=\"M{x:.1} {top:.1}V{bottom:.1}\"/><text{anchor} x={x:.1} y={:.1}>{label}</text>\n",
            bottom + 18.0
        )
    }

    /// What the axes measure, and in what.
    pub(super) fn names(&self, x: &str, y: &str) -> String {
        let middle = self.top + self.height / 2.0;
        format!(
            "<text class=axis x={:.1} y={:.1}>{}</text>\n<text class=axis transform=\"translate(14 {middle:.1}) \
             rotate(-90)\">{}</text>\n",
            self.left + self.width / 2.0,
            self.bottom() + 40.0,
            Escaped(x),
            Escaped(y)
        )
    }
}

/// Where values of an axis stand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// The least and the largest value.
    pub(super) values: (f64, f64),
    /// Where those two stand.
    pub(super) places: (f64, f64),
    /// Equal ratios are equally far apart; the values are then above 0.
    pub(super) is_log: bool,
}

impl Scale {
    pub(super) fn at(&self, value: f64) -> f64 {
        let of = |value: f64| if self.is_log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (from, to) = (of(self.values.0), of(self.values.1));
        let share = if to > from { (of(value) - from) / (to - from) } else { 0.0 };
        self.places.0 + share.clamp(0.0, 1.0) * (self.places.1 - self.places.0)
    }

    /// Round values to write at the axis: powers of ten, of few decades 2 and 5 times as much too; or some five steps of 1, 2 or 5.
    pub(super) fn ticks(&self) -> Vec<f64> {
        let (from, to) = self.values;
        if self.is_log {
            let decades = (from.log10().floor() as i32)..=(to.log10().floor() as i32);
            // Of few decades also what lies between is written.
            let steps: &[f64] = if to < from * 2000.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let ticks = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
            return ticks.filter(|tick| (from..=to).contains(tick)).collect();
        }
        let step = round_step((to - from) / 5.0);
        (0..=10).map(|n| (from / step).ceil() * step + f64::from(n) * step).filter(|&value| value <= to).collect()
    }

    /// The same for what is counted, of which there are no halves.
    pub(super) fn whole_ticks(&self) -> Vec<f64> {
        self.ticks().into_iter().filter(|tick| tick.fract() == 0.0).collect()
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below `step`.
fn round_step(step: f64) -> f64 {
    if !step.is_finite() || step <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|n| n * power).find(|&round| round >= step).unwrap_or(10.0 * power)
}

/// A number at an axis or in a tooltip: `1,234`, `0.25`.
pub(super) fn number_text(value: f64) -> String {
    if value >= 100.0 || value.fract() == 0.0 {
        return super::super::count_text(value.round().max(0.0) as u64);
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What is written under a pointer, and how a keyboard finds it.
pub(super) fn hit(text: &str, (x, y, width, height): (f64, f64, f64, f64)) -> String {
    format!("<rect class=hit x={x:.1} y={y:.1} width={width:.1} height={height:.1} data-t=\"{}\"/>\n", Escaped(text))
}

/// One chart with the words around it.
pub(super) struct Figure {
    /// Its name in the page, for links and tests.
    pub(super) id: String,
    /// What is seen.
    pub(super) title: String,
    /// How to read it, in a sentence.
    pub(super) reading: Cow<'static, str>,
    /// What colours stand for.
    pub(super) legend: String,
    /// Its frame and its marks, or why there are none.
    pub(super) content: Result<(Plot, String), &'static str>,
}

impl Figure {
    pub(super) fn append_to(&self, page: &mut String) {
        let Self { id, title, reading, legend, content } = self;
        let title = Escaped(title);
        line(page, format_args!("<figure id={id}>\n<h3>{title}</h3>"));
        match content {
            Ok((plot, marks)) => {
                let height = plot.outer_height();
                page.push_str(legend);
                line(
                    page,
                    format_args!(
                        "<div class=chart><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=img tabindex=0 \
                         aria-label=\"{title}. {}\">\n{marks}</svg></div>",
                        Escaped(reading)
                    ),
                );
                line(page, format_args!("<figcaption>{}</figcaption>", Escaped(reading)));
            }
            Err(why) => line(page, format_args!("<p class=none>{}</p>", Escaped(why))),
        }
        line(page, format_args!("</figure>"));
    }
}

/// A legend of the layers: each a colour, and where areas are large a pattern too.
pub(super) fn legend(layers: &[Layer], has_patterns: bool) -> String {
    let mut text = String::from("<ul class=legend>");
    for &layer in layers {
        let place = layer as usize;
        let fill = if has_patterns { format!("fill=url(#p{place})") } else { format!("class=c{place}") };
        let name = Escaped(layer.as_str());
        text.push_str(&format!(
            "<li><svg width=18 height=14 aria-hidden=true><rect width=18 height=14 {fill} /></svg>{name}</li>"
        ));
    }
    text.push_str("</ul>\n");
    text
}

/// The layers' fills: classes are told apart without colour too.
pub(super) fn patterns() -> String {
    let lines = ["", "M0 8L8 0", "M0 4H8", "M4 0V8", "M0 0L8 8", "M3 4H5"];
    let mut text = String::from("<svg width=0 height=0 aria-hidden=true class=patterns><defs>\n");
    for (place, line) in lines.into_iter().enumerate() {
        text.push_str(&format!(
            "<pattern id=p{place} width=8 height=8 patternUnits=userSpaceOnUse><rect width=8 height=8 class=c{place} />\
             <path d=\"{line}\" class=hatch /></pattern>\n"
        ));
    }
    text.push_str("</defs></svg>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_stand_still_at_their_ends_and_tick_at_round_values() {
        let linear = Scale { values: (0.0, 930.0), places: (100.0, 0.0), is_log: false };
        assert_eq!([0.0, 465.0, 930.0, 2000.0].map(|value| linear.at(value)), [100.0, 50.0, 0.0, 0.0]);
        assert_eq!(linear.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(Scale { values: (0.0, 1.0), ..linear }.whole_ticks(), [0.0, 1.0]);
        let log = Scale { values: (1.0, 10_000.0), places: (0.0, 400.0), is_log: true };
        assert!((log.at(100.0) - 200.0).abs() < 1e-9);
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        let single = Scale { values: (1.0, 1.0), places: (0.0, 400.0), is_log: true };
        assert_eq!((single.at(1.0), single.ticks()), (0.0, vec![1.0]));
        assert_eq!([round_step(0.0), round_step(f64::NAN), round_step(0.3)], [1.0, 1.0, 0.5]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.25, 12.5, 1234.6].map(number_text), ["0", "0.25", "12.5", "1,235"]);
    }
}
