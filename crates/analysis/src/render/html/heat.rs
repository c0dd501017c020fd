//! Heat maps against time: of blocks by class, and of latencies.

use serde_json::json;

use super::super::units::{count_text, duration_text, time_text};
use super::svg::{Figure, Plot, legend};
use super::time_axis::{time_name, time_ticks};
use crate::pictures::{BLOCK_BINS, BlockMap, Grid, LATENCY_BINS, Layer, MAX_COLUMNS, Pictures, latency_bin_begin_ns};

/// Shades of a colour. More could not be told apart beside six colours.
const SHADES: usize = 4;

/// Rows that are written at the axis.
const LABELS: usize = 6;

/// What is drawn of a grid.
struct View<'a> {
    id: &'a str,
    grid: &'a Grid,
    /// The rows that are shown, from the lowest.
    rows: std::ops::RangeInclusive<usize>,
    /// What colours stand for; none: all are alike.
    layers: &'a [Layer],
    /// What a row is called at the axis, and in a tooltip.
    names: [&'a dyn Fn(usize) -> String; 2],
    y_name: &'a str,
}

/// The map of a relation.
pub(super) fn blocks((place, map): (usize, &BlockMap), pictures: &Pictures, layers: &[Layer]) -> Figure {
    let id = format!("blocks{place}");
    let blocks = map.blocks_per_row;
    let begin = |row: usize| row as u64 * blocks;
    let label = |row: usize| count_text(begin(row));
    let tooltip = |row: usize| match blocks {
        1 => format!("block {}", count_text(begin(row))),
        _ => format!("blocks {} to {}", count_text(begin(row)), count_text(begin(row + 1) - 1)),
    };
    let last = map.grid.cells().map(|((_, row), _)| row).max().unwrap_or(0).min(BLOCK_BINS - 1);
    let view = View { id: &id, grid: &map.grid, rows: 0..=last, layers, names: [&label, &tooltip], y_name: "block" };
    let content = view.content(pictures).ok_or("No GetPage of this relation was seen.");
    Figure {
        title: format!("Blocks of {} over time ({} GetPage)", map.relation, count_text(map.getpage)),
        reading: reading(layers, map.getpage.saturating_sub(map.requests)).into(),
        legend: legend(layers, false),
        content,
        id,
    }
}

/// How to read a map, and what is not on it.
fn reading(layers: &[Layer], missing: u64) -> String {
    let class = if layers.is_empty() { "" } else { "; its colour is the class of most of its GetPage" };
    let missing = match missing {
        0 => String::new(),
        _ => format!(
            " Not on the map are the relation's first GetPage, before it was among the hottest: {}.",
            count_text(missing)
        ),
    };
    format!(
        "Each cell is a range of blocks during a span of time, stronger where more was asked for{class}. Lines that rise \
         are scans, level ones are pages that stay hot.{missing}"
    )
}

/// In place of maps where there are none.
pub(super) fn no_map() -> Figure {
    Figure {
        id: "blocks0".to_owned(),
        title: "Blocks over time".to_owned(),
        reading: "".into(),
        legend: String::new(),
        content: Err("No GetPage was seen."),
    }
}

/// Latencies against time.
pub(super) fn latency(pictures: &Pictures) -> Figure {
    let begin = |row: usize| duration_text(latency_bin_begin_ns(row));
    // The first and the last row have no end of their own.
    let tooltip = |row: usize| match row {
        0 => format!("below {}", begin(1)),
        _ if row + 1 >= LATENCY_BINS => format!("{} and more", begin(row)),
        _ => format!("{} to {}", begin(row), begin(row + 1)),
    };
    let used = || pictures.latency.cells().map(|((_, row), _)| row);
    let content = used().min().zip(used().max()).and_then(|(least, most)| {
        let view = View {
            id: "latency",
            grid: &pictures.latency,
            rows: least..=most,
            layers: &[],
            names: [&begin, &tooltip],
            y_name: "latency",
        };
        view.content(pictures)
    });
    Figure {
        id: "latency".to_owned(),
        title: "Latency of GetPage over time".to_owned(),
        reading: "Each cell is a range of latencies during a span of time, stronger where more answers took so long; \
                  equal distances are equal ratios."
            .into(),
        legend: String::new(),
        content: content
            .ok_or("No latency of a GetPage is known: page traces have none, nor have answers that were not seen."),
    }
}

impl View<'_> {
    /// The frame and the marks, or `None` where the grid is empty.
    fn content(&self, pictures: &Pictures) -> Option<(Plot, String)> {
        let columns = self.grid.cells().map(|((column, _), _)| column).max()?.min(MAX_COLUMNS - 1) + 1;
        let (least, rows) = (*self.rows.start(), self.rows.end() - self.rows.start() + 1);
        // Few rows stay readable as wide bands.
        let plot = Plot::of_height((rows as f64 * 5.0).clamp(120.0, 320.0));
        let (width, height) = (plot.width / columns as f64, plot.height / rows as f64);
        let begins: Vec<u64> = (0..columns).map(|column| pictures.axis.begin_ns(column)).collect();
        let (first, end) = (pictures.axis.begin_ns(0), pictures.axis.begin_ns(columns));
        let mut marks = time_ticks(&plot, first, end);
        for row in (0..rows).step_by(rows.div_ceil(LABELS)) {
            marks.push_str(&plot.tick_y(plot.bottom() - row as f64 * height, &(self.names[0])(least + row)));
        }
        marks.push_str(&plot.names(&time_name(first, end), self.y_name));
        marks.push_str(&format!(
            "<g class=m transform=\"translate({:.2} {:.2}) scale({width:.4} {:.4})\">\n{}</g>\n",
            plot.left,
            plot.bottom(),
            -height,
            self.paths()
        ));
        let Plot { left, top, .. } = plot;
        marks.push_str(&format!(
            "<rect class=hit data-grid={} x={left:.1} y={top:.1} width={:.1} height={:.1} />\n\
             <rect class=cursor visibility=hidden width={width:.2} height={height:.2} />\n",
            self.id, plot.width, plot.height
        ));
        Some((plot, marks + &self.data(&begins)))
    }

    /// The layer that most of a cell belongs to, and all of it.
    fn told(&self, layers: &[u32]) -> (usize, u32) {
        let sum = layers.iter().fold(0u32, |sum, &count| sum.saturating_add(count));
        let most = layers.iter().enumerate().max_by_key(|&(place, &count)| (count, std::cmp::Reverse(place)));
        (if self.layers.is_empty() { 0 } else { most.map_or(0, |(place, _)| place) }, sum)
    }

    /// One path for each colour and shade.
    fn paths(&self) -> String {
        let most = self.grid.cells().map(|(_, layers)| self.told(layers).1).max().unwrap_or(1);
        let mut paths = [const { [const { String::new() }; SHADES] }; Layer::ALL.len()];
        for ((column, row), layers) in self.grid.cells() {
            let (layer, sum) = self.told(layers);
            let share = f64::from(sum).ln_1p() / f64::from(most).ln_1p();
            let shade = ((share * SHADES as f64).ceil() as usize).clamp(1, SHADES) - 1;
            let path = paths.get_mut(layer).and_then(|shades| shades.get_mut(shade));
            path.into_iter().for_each(|path| path.push_str(&format!("M{column} {}v1h1v-1z", row - self.rows.start())));
        }
        let mut text = String::new();
        for (layer, shades) in paths.iter().enumerate() {
            for (shade, path) in shades.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                text.push_str(&format!("<path class=\"c{layer} s{shade}\" d=\"{path}\"/>\n"));
            }
        }
        text
    }

    /// What tooltips say, as JSON: the script looks a cell up by its place.
    fn data(&self, begins: &[u64]) -> String {
        let cells: Vec<u64> = self
            .grid
            .cells()
            .flat_map(|((column, row), layers)| {
                let (layer, sum) = self.told(layers);
                [column as u64, (row - self.rows.start()) as u64, layer as u64, sum.into()]
            })
            .collect();
        let data = json!({
            "columns": begins.iter().map(|&begin| time_text(begin)).collect::<Vec<_>>(),
            "rows": self.rows.clone().map(self.names[1]).collect::<Vec<_>>(),
            "layers": self.layers.iter().map(|layer| layer.as_str()).collect::<Vec<_>>(),
            "cells": cells,
        });
        // Within a script element only `<` could end it.
        let data = data.to_string().replace('<', "\\u003c");
        format!("<script type=application/json id={}-data>{data}</script>\n", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_names_classes_only_where_there_are_some_and_says_what_is_missing() {
        let (with, without) = (reading(&Layer::ALL, 0), reading(&[], 1234));
        assert!(with.contains("class") && !with.contains("Not on the map"), "{with}");
        assert!(!without.contains("class") && without.contains("among the hottest: 1,234."), "{without}");
    }
}
