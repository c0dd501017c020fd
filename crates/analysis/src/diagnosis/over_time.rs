//! What happened when: requests and classes in a bounded number of equal spans of time.

use record::{Record, Status, Timestamp};
use serde::Serialize;

use super::report::RefetchCounts;
use crate::refetch::{Class, ClassCounts};

/// Spans at most. Widths grow tenfold, so that at least a tenth of them are in use on longer traces.
const MAX_SPANS: usize = 300;

/// The first width, 1 ms.
const FIRST_WIDTH_NS: u64 = 1_000_000;

/// So much wider the spans become when there are too many.
const WIDENING: u64 = 10;

/// Counts by time.
#[derive(Debug)]
pub(super) struct OverTime {
    width_ns: u64,
    /// The first span's begin, in widths since 1970.
    begin: u64,
    spans: Vec<Span>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    requests: u64,
    errors: u64,
    unanswered: u64,
    classes: ClassCounts,
}

impl Span {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.unanswered += other.unanswered;
        self.classes.merge(&other.classes);
    }
}

/// One span of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SpanReport {
    /// Its begin, unix ns.
    pub time_ns: u64,
    /// Requests of all kinds.
    pub requests: u64,
    /// Answered with an error; null where the input does not say.
    pub errors: Option<u64>,
    /// Without answer; null where the input does not say.
    pub unanswered: Option<u64>,
    /// GetPage.
    pub getpage: u64,
    /// Those by class; left out where the input does not say who asked.
    #[serde(flatten)]
    pub refetch: Option<RefetchCounts>,
}

/// What happened when.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct OverTimeReport {
    /// How long each span is.
    pub span_ns: u64,
    /// The spans in order, also those in which nothing happened.
    pub spans: Vec<SpanReport>,
}

impl OverTime {
    pub(super) fn new() -> Self {
        Self { width_ns: FIRST_WIDTH_NS, begin: 0, spans: Vec::new() }
    }

    /// Takes the next record in the order of time, and the class of a GetPage.
    pub(super) fn observe(&mut self, record: &Record, class: Option<Class>, is_primary: bool) {
        let Some(span) = self.span_of(record.time) else { return };
        span.requests += 1;
        span.errors += u64::from(record.status == Status::Error);
        span.unanswered += u64::from(record.status == Status::Unanswered);
        if let Some(class) = class {
            span.classes.add(class, is_primary);
        }
    }

    fn span_of(&mut self, time: Timestamp) -> Option<&mut Span> {
        if self.spans.is_empty() {
            self.begin = time.0 / self.width_ns;
        }
        loop {
            // What comes out of order, and before the first, counts there.
            let place = (time.0 / self.width_ns).saturating_sub(self.begin);
            match usize::try_from(place) {
                Ok(place) if place < MAX_SPANS => {
                    if place >= self.spans.len() {
                        self.spans.resize(place + 1, Span::default());
                    }
                    return self.spans.get_mut(place);
                }
                _ => self.widen(),
            }
        }
    }

    fn widen(&mut self) {
        let begin = self.begin / WIDENING;
        let mut wider: Vec<Span> = Vec::new();
        for (at, span) in self.spans.iter().enumerate() {
            let place = usize::try_from((self.begin + at as u64) / WIDENING - begin).unwrap_or(MAX_SPANS);
            if place >= wider.len() {
                wider.resize(place + 1, Span::default());
            }
            if let Some(merged) = wider.get_mut(place) {
                merged.merge(span);
            }
        }
        (self.begin, self.spans) = (begin, wider);
        self.width_ns = self.width_ns.saturating_mul(WIDENING);
    }

    pub(super) fn report(&self, says_who: bool) -> OverTimeReport {
        let spans = self.spans.iter().enumerate().map(|(at, span)| SpanReport {
            time_ns: (self.begin + at as u64).saturating_mul(self.width_ns),
            requests: span.requests,
            errors: says_who.then_some(span.errors),
            unanswered: says_who.then_some(span.unanswered),
            getpage: span.classes.sum(),
            refetch: says_who.then(|| RefetchCounts::of(&span.classes)),
        });
        OverTimeReport { span_ns: self.width_ns, spans: spans.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::samples;

    #[test]
    fn spans_widen_and_lose_nothing() {
        let mut over_time = OverTime::new();
        let mut time = 1_796_094_784_000_000_000;
        for n in 0..5000u64 {
            let record = Record { time: Timestamp(time), ..samples::getpage() };
            over_time.observe(&record, Some(Class::First), true);
            time += 1 + n * 40_000;
        }
        let report = over_time.report(true);
        assert!(report.spans.len() <= MAX_SPANS && report.spans.len() > MAX_SPANS / 10, "{}", report.spans.len());
        assert_eq!(report.spans.iter().map(|span| span.getpage).sum::<u64>(), 5000);
        assert!(report.spans.windows(2).all(|pair| pair[1].time_ns - pair[0].time_ns == report.span_ns));
        let (first, last) = (&report.spans[0], report.spans.last().unwrap());
        assert!((first.time_ns..first.time_ns + report.span_ns).contains(&1_796_094_784_000_000_000));
        assert!(last.requests > 0 && last.time_ns < time);
    }

    #[test]
    fn the_ends_of_time_fit() {
        let mut over_time = OverTime::new();
        for time in [0, u64::MAX, 5] {
            over_time.observe(&Record { time: Timestamp(time), ..samples::unanswered() }, None, true);
        }
        let report = over_time.report(true);
        assert_eq!(report.spans.iter().filter_map(|span| span.unanswered).sum::<u64>(), 3);
    }
}
