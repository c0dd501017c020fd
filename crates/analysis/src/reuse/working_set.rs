//! How many different pages are asked for in windows of time.

use record::Timestamp;
use serde::Serialize;

/// The windows' lengths: what a query, a busy spell and a working hour need.
pub const WINDOWS_S: [u32; 3] = [300, 900, 3600];

/// Points of each series at most; when there are more, each stands for two as many windows.
pub const MOST_WINDOWS: usize = 256;

const NS_PER_SECOND: u64 = 1_000_000_000;

/// The pages of one cache, or of all, by time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowReport {
    /// The window's length. Windows begin at multiples of it since 1970, so that the first and the last may be partial.
    pub window_ns: u64,
    /// Most pages in a window.
    pub peak_pages: u64,
    /// From one point to the next: a multiple of `window_ns`.
    pub span_ns: u64,
    /// In the order of time, also where nothing was asked for; at most [`MOST_WINDOWS`].
    pub points: Vec<WindowPoint>,
}

/// The pages at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WindowPoint {
    /// When the first of its windows begins, unix ns.
    pub time_ns: u64,
    /// Different pages in a window; where the point stands for several, in the one with most.
    pub pages: u64,
}

/// A time as whole seconds, which suffice for windows of minutes, and fit until 2106.
pub(super) fn seconds_of(time: Timestamp) -> u32 {
    u32::try_from(time.0 / NS_PER_SECOND).unwrap_or(u32::MAX)
}

/// Counts pages in all windows.
#[derive(Debug, Clone, Default)]
pub(super) struct WorkingSet {
    series: [Series; WINDOWS_S.len()],
}

impl WorkingSet {
    /// Takes a request that stands for as many pages as `weight` says. `previous_s` is when its page was asked for before.
    pub(super) fn observe(&mut self, now_s: u32, previous_s: Option<u32>, weight: u64) {
        for (series, window_s) in self.series.iter_mut().zip(WINDOWS_S) {
            if now_s >= series.end_s {
                series.enter(now_s / window_s, window_s);
            }
            if previous_s.is_none_or(|previous| previous < series.begin_s) {
                series.pages = series.pages.saturating_add(weight);
            }
        }
    }

    /// The series, each count times `captured_one_in`.
    pub(super) fn report(&self, captured_one_in: u64) -> Vec<WindowReport> {
        let all = self.series.iter().zip(WINDOWS_S);
        all.map(|(series, window_s)| series.clone().report(u64::from(window_s), captured_one_in)).collect()
    }
}

#[derive(Debug, Clone, Default)]
struct Series {
    /// The open window.
    begin_s: u32,
    end_s: u32,
    pages: u64,
    /// The place of the open window, in windows since 1970.
    window: u32,
    /// The first point's, in points since 1970.
    first: u32,
    /// Windows of a point, as a power of two.
    doublings: u32,
    points: Vec<u64>,
}

impl Series {
    /// Closes the open window and opens another.
    fn enter(&mut self, window: u32, window_s: u32) {
        self.close();
        // Records come in order of time, and a window that was closed is not opened again.
        let window = window.max(self.window);
        self.window = window;
        self.begin_s = window.saturating_mul(window_s);
        self.end_s = self.begin_s.saturating_add(window_s);
        self.pages = 0;
    }

    /// Takes the open window among the points.
    fn close(&mut self) {
        if self.end_s == 0 {
            return;
        }
        if self.points.is_empty() {
            self.first = self.window >> self.doublings;
        }
        while (self.window >> self.doublings).saturating_sub(self.first) as usize >= MOST_WINDOWS {
            self.widen();
        }
        let place = (self.window >> self.doublings).saturating_sub(self.first) as usize;
        if place >= self.points.len() {
            self.points.resize(place + 1, 0);
        }
        self.points.get_mut(place).into_iter().for_each(|most| *most = self.pages.max(*most));
    }

    /// Each point becomes that of two.
    fn widen(&mut self) {
        let mut wider: Vec<u64> = Vec::with_capacity(self.points.len() / 2 + 1);
        for (place, &pages) in (self.first..).zip(&self.points) {
            let at = (place / 2).saturating_sub(self.first / 2) as usize;
            match wider.get_mut(at) {
                Some(most) => *most = pages.max(*most),
                None => wider.push(pages),
            }
        }
        (self.points, self.first, self.doublings) = (wider, self.first / 2, self.doublings + 1);
    }

    fn report(mut self, window_s: u64, captured_one_in: u64) -> WindowReport {
        self.close();
        let window_ns = window_s.saturating_mul(NS_PER_SECOND);
        let span_ns = window_ns.checked_shl(self.doublings).unwrap_or(u64::MAX);
        let point = |(place, pages): (u32, u64)| WindowPoint {
            time_ns: u64::from(place).saturating_mul(span_ns),
            pages: pages.saturating_mul(captured_one_in),
        };
        let points: Vec<WindowPoint> = (self.first..).zip(self.points).map(point).collect();
        let peak_pages = points.iter().map(|point| point.pages).max().unwrap_or(0);
        WindowReport { window_ns, peak_pages, span_ns, points }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet, HashMap};

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn windows_hold_as_many_pages_as_sets_say(steps in prop::collection::vec((0u32..2000, 0u32..40), 1..400)) {
            let mut working_set = WorkingSet::default();
            let (mut now_s, mut last, mut sets) = (1_000_000, HashMap::new(), BTreeMap::new());
            for (step_s, page) in steps {
                now_s += step_s;
                working_set.observe(now_s, last.insert(page, now_s), 1);
                sets.entry(now_s / 300).or_insert_with(BTreeSet::new).insert(page);
            }
            let five_minutes = &working_set.report(1)[0];
            let windows_of_point = five_minutes.span_ns / five_minutes.window_ns;
            let mut expected: BTreeMap<u64, u64> = BTreeMap::new();
            for (window, pages) in &sets {
                let most = expected.entry(u64::from(*window) / windows_of_point).or_default();
                *most = (pages.len() as u64).max(*most);
            }
            prop_assert!(five_minutes.points.len() <= MOST_WINDOWS);
            let points = five_minutes.points.iter().filter(|point| point.pages > 0);
            let found: BTreeMap<u64, u64> = points.map(|point| (point.time_ns / five_minutes.span_ns, point.pages)).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn any_leap_of_time_is_bounded() {
        let mut working_set = WorkingSet::default();
        for now_s in [0, 1, u32::MAX - 1, u32::MAX, u32::MAX, 5] {
            working_set.observe(now_s, None, 1);
        }
        for window in working_set.report(u64::MAX) {
            assert!(window.points.len() <= MOST_WINDOWS && window.peak_pages == u64::MAX);
        }
    }
}
