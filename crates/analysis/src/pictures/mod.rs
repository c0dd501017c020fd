//! What a page of charts needs beside the report: where in a relation and when pages were asked for, when answers were
//! slow, how deep connections were filled, how popular pages were.
//!
//! Collected only where pictures are asked for. Everything has a fixed size: an axis that is full folds, and each of its
//! bins is twice as wide from then on.

mod axis;
mod grid;
mod maps;

use record::{Kind, Record, Target};

pub use axis::{LATENCY_BINS, TimeAxis, latency_bin_begin_ns};
pub use grid::{Grid, MAX_COLUMNS};
pub use maps::MAX_MAPS;

use crate::refetch::{Class, Observation};
use axis::latency_bin;
use maps::Maps;

/// Bins of blocks: at 4 pixels each a map is 256 pixels high, and lines of a scan stay apart.
pub const BLOCK_BINS: usize = 64;

/// Depths by powers of two: 1, 2 to 3, 4 to 7, and so on to the largest u32.
pub const DEPTH_BINS: usize = 32;

/// Times between requests for a page, by powers of two. The first bin holds all below 2^11 ns, some 2 µs: requests of one
/// packet have the same time.
pub const REUSE_TIME_BINS: usize = (u64::BITS - FIRST_REUSE_POWER) as usize;

/// The first bin begins at 2^10 ns, as far as a chart is concerned.
const FIRST_REUSE_POWER: u32 = 10;

/// Where a bin of times between requests begins.
pub fn reuse_time_begin_ns(bin: usize) -> u64 {
    u32::try_from(bin).ok().and_then(|bin| 1u64.checked_shl(FIRST_REUSE_POWER.saturating_add(bin))).unwrap_or(u64::MAX)
}

/// Points of the popularity curve at most: four an octave of ranks, which look like a line.
const POINTS_PER_OCTAVE: u32 = 4;

/// What charts tell apart by colour: the classes, those together that a reader treats alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// No earlier fetch was seen.
    First,
    /// Proven to have brought a page that had not changed.
    Redundant,
    /// Asked for while the same page was on its way.
    InFlight,
    /// The same content, why is not proven.
    SameContent,
    /// The content differs, whatever had been promised.
    Changed,
    /// Nothing is claimed.
    Unproven,
}

impl Layer {
    /// Every layer, in the order in which they are stacked.
    pub const ALL: [Self; 6] =
        [Self::First, Self::Redundant, Self::InFlight, Self::SameContent, Self::Changed, Self::Unproven];

    /// Its name in legends.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Redundant => "redundant",
            Self::InFlight => "in flight",
            Self::SameContent => "same content",
            Self::Changed => "changed, raced or contradicted",
            Self::Unproven => "unproven",
        }
    }

    /// The layer of a class.
    pub const fn of(class: Class) -> Self {
        match class {
            Class::First => Self::First,
            Class::RedundantR1 | Class::RedundantR2 | Class::RedundantR3 => Self::Redundant,
            Class::InFlight => Self::InFlight,
            Class::SameContent => Self::SameContent,
            Class::Changed | Class::Raced | Class::Contradiction => Self::Changed,
            Class::Unproven => Self::Unproven,
        }
    }
}

/// Collects what pictures need.
#[derive(Debug)]
pub(crate) struct Collector {
    axis: TimeAxis,
    maps: Maps,
    latency: Grid,
    depth: [u64; DEPTH_BINS],
    reuse_time: [[u64; Layer::ALL.len()]; REUSE_TIME_BINS],
}

impl Collector {
    pub(crate) fn new() -> Self {
        Self {
            axis: TimeAxis::default(),
            maps: Maps::default(),
            latency: Grid::new(LATENCY_BINS, 1),
            depth: [0; DEPTH_BINS],
            reuse_time: [[0; Layer::ALL.len()]; REUSE_TIME_BINS],
        }
    }

    /// Takes the next record in the order of time.
    pub(crate) fn observe(&mut self, record: &Record, observation: &Observation) {
        let column = self.column(record);
        if let Some(depth) = record.depth.and_then(u32::checked_ilog2)
            && let Some(count) = self.depth.get_mut(depth as usize)
        {
            *count += 1;
        }
        if record.target.kind() != Kind::GetPage {
            return;
        }
        if let Some(latency_ns) = record.latency_ns {
            self.latency.add((column, latency_bin(latency_ns)), 0);
        }
        let Target::GetPage { blkno, .. } = record.target else { return };
        let layer = Layer::of(observation.class.unwrap_or(Class::Unproven));
        if let Some(bin) =
            observation.reused_after_ns.map(|ns| ns.max(1 << FIRST_REUSE_POWER).ilog2() - FIRST_REUSE_POWER)
        {
            let count = self.reuse_time.get_mut(bin as usize).and_then(|layers| layers.get_mut(layer as usize));
            count.into_iter().for_each(|count| *count += 1);
        }
        if let Some(relation) = observation.relation {
            self.maps.observe(relation, (column, blkno), layer);
        }
    }

    fn column(&mut self, record: &Record) -> usize {
        loop {
            match self.axis.column(record.time) {
                Some(column) => return column,
                None => {
                    let is_odd = self.axis.widen();
                    self.latency.fold_columns(is_odd);
                    self.maps.fold_columns(is_odd);
                }
            }
        }
    }

    /// What was collected, the hottest relation first. `name_of` gives a relation's name, `requests` how often each page was
    /// asked for.
    pub(crate) fn pictures(&self, name_of: impl Fn(usize) -> Option<String>, requests: Vec<u32>) -> Pictures {
        Pictures {
            axis: self.axis,
            maps: self.maps.finish(name_of),
            latency: self.latency.clone(),
            depth: self.depth,
            reuse_time: self.reuse_time,
            popularity: popularity(requests),
        }
    }
}

/// Where in one relation pages were asked for, and when.
#[derive(Debug, Clone)]
pub struct BlockMap {
    /// As it prints, with whose it is where there are several owners.
    pub relation: String,
    /// GetPage for it.
    pub getpage: u64,
    /// Those on the map. The others are its first: it was not yet among the hottest.
    pub requests: u64,
    /// Blocks in each row.
    pub blocks_per_row: u64,
    /// Columns are those of [`Pictures::axis`], rows are blocks from 0 up, layers are [`Layer::ALL`].
    pub grid: Grid,
}

/// One point of the popularity curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PopularityPoint {
    /// The page's place among all, the most popular is 1.
    pub rank: u64,
    /// GetPage for it.
    pub requests: u64,
    /// GetPage for it and all more popular ones, of all; 0 to 1.
    pub share: f64,
}

/// What pictures need beside a report.
#[derive(Debug, Clone)]
pub struct Pictures {
    /// The columns of all grids.
    pub axis: TimeAxis,
    /// Of the [`MAX_MAPS`] hottest relations, most GetPage first. One without a map may be hotter than the last of them by an
    /// eighth.
    pub maps: Vec<BlockMap>,
    /// GetPage by time and latency; rows begin at [`latency_bin_begin_ns`].
    pub latency: Grid,
    /// Requests by how many were in flight, at place n from 2^n on.
    pub depth: [u64; DEPTH_BINS],
    /// GetPage of followed pages by how long before the same compute had fetched the same; bins begin at
    /// [`reuse_time_begin_ns`], and have a count for each of [`Layer::ALL`].
    pub reuse_time: [[u64; Layer::ALL.len()]; REUSE_TIME_BINS],
    /// How often the pages were asked for, from the most popular to the least.
    pub popularity: Vec<PopularityPoint>,
}

fn popularity(mut requests: Vec<u32>) -> Vec<PopularityPoint> {
    requests.sort_unstable_by(|a, b| b.cmp(a));
    let all: u64 = requests.iter().map(|&count| u64::from(count)).sum();
    let (mut points, mut sum, mut next) = (Vec::new(), 0u64, 1u64);
    for (rank, &count) in (1u64..).zip(&requests) {
        sum += u64::from(count);
        if rank >= next || rank == requests.len() as u64 {
            points.push(PopularityPoint { rank, requests: count.into(), share: sum as f64 / all.max(1) as f64 });
            // Whole ranks at first, then equal steps of the logarithm.
            next = (rank + 1).max((rank as f64 * 2f64.powf(1.0 / f64::from(POINTS_PER_OCTAVE))) as u64);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use record::Timestamp;

    use super::*;
    use crate::render::samples;

    fn at(time: u64, blkno: u32) -> Record {
        let sample = samples::getpage();
        let Some(rel) = sample.target.rel() else { panic!("a GetPage has a relation") };
        Record { time: Timestamp(time), target: Target::GetPage { rel, blkno }, depth: Some(5), ..sample }
    }

    fn seen(relation: Option<usize>, class: Class) -> Observation {
        Observation {
            class: Some(class),
            cache: None,
            relation,
            connection: 0,
            connection_id: 0,
            asked_ago: None,
            reused_after_ns: (class != Class::First).then_some(1500),
        }
    }

    #[test]
    fn folding_loses_no_request() {
        let mut collector = Collector::new();
        let mut time = 1_796_094_784_000_000_000;
        for n in 0..4000u32 {
            let class = if n % 4 == 0 { Class::First } else { Class::RedundantR2 };
            collector.observe(&at(time, n * 37), &seen(Some(3), class));
            time += u64::from(n) * 1_000_000;
        }
        collector.observe(&at(time, u32::MAX), &seen(Some(3), Class::Changed));
        let pictures = collector.pictures(|relation| Some(relation.to_string()), vec![]);
        let map = &pictures.maps[0];
        let of = |layer: Layer| map.grid.cells().map(|(_, layers)| u64::from(layers[layer as usize])).sum::<u64>();
        assert_eq!([Layer::First, Layer::Redundant, Layer::Changed, Layer::InFlight].map(of), [1000, 3000, 1, 0]);
        assert_eq!((map.requests, map.relation.as_str(), map.blocks_per_row), (4001, "3", 1 << 26));
        assert_eq!(pictures.latency.cells().map(|(_, layers)| layers[0]).sum::<u32>(), 4001);
        assert_eq!(pictures.depth[2], 4001);
        assert_eq!(pictures.reuse_time[0], [0, 3000, 0, 0, 1, 0]);
        assert_eq!(pictures.reuse_time.iter().flatten().sum::<u64>(), 3001);
    }

    #[test]
    fn a_cell_stands_at_its_time_after_folding() {
        let mut collector = Collector::new();
        let begin = 1_796_094_784_123_456_789u64;
        let times: Vec<u64> = (0..50).map(|n| begin + n * n * 700_000_000).collect();
        times.iter().for_each(|&time| collector.observe(&at(time, 0), &seen(Some(0), Class::First)));
        let pictures = collector.pictures(|_| None, vec![]);
        let mut expected = vec![0u32; MAX_COLUMNS];
        for &time in &times {
            let column = (time - pictures.axis.begin_ns(0)) / pictures.axis.width_ns();
            expected[column as usize] += 1;
        }
        let mut found = vec![0u32; MAX_COLUMNS];
        pictures.maps[0].grid.cells().for_each(|((column, _), layers)| found[column] += layers[0]);
        assert_eq!(found, expected);
    }

    #[test]
    fn the_ends_of_time_and_more_relations_than_maps_fit() {
        let mut collector = Collector::new();
        for time in [5, u64::MAX, 0] {
            collector.observe(&at(time, 0), &seen(None, Class::Unproven));
        }
        for relation in 0..MAX_MAPS + 10 {
            collector.observe(&at(u64::MAX, 0), &seen(Some(relation), Class::First));
        }
        let pictures = collector.pictures(|_| None, vec![]);
        assert_eq!(pictures.maps.len(), MAX_MAPS);
    }

    #[test]
    fn popularity_goes_from_the_first_page_to_the_last() {
        let points = popularity((1..=5000).rev().collect());
        let (first, last) = (points[0], *points.last().unwrap());
        assert_eq!((first.rank, first.requests, last.rank, last.requests), (1, 5000, 5000, 1));
        assert!((last.share - 1.0).abs() < 1e-12 && points.len() < 80, "{}", points.len());
        assert!(points.windows(2).all(|pair| pair[0].rank < pair[1].rank && pair[0].share < pair[1].share));
        assert_eq!(popularity(vec![]), []);
    }
}
