//! What each caller has running, and how fast it asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::caller::Caller;
use super::reply::Refusal;

/// So many callers are followed: tokens and scopes, not addresses, so only an operator can make more.
const MOST_CALLERS: usize = 4096;

/// One caller's use.
#[derive(Debug)]
struct Use {
    /// Requests that it may send at once.
    allowance: f64,
    at: Instant,
    /// Page traces that it reads.
    streams: usize,
    /// Captures that it has begun, some of which run.
    captures: Vec<String>,
}

/// All callers' use.
#[derive(Debug)]
pub(super) struct Quota {
    per_second: f64,
    uses: Mutex<HashMap<String, Use>>,
}

/// A page trace that is being read; gives its place back.
#[derive(Debug)]
pub(super) struct Stream {
    quota: Arc<Quota>,
    name: String,
}

impl Quota {
    /// So many requests a second of each caller, and as many at once.
    pub(super) fn new(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second), uses: Mutex::default() }
    }

    /// Counts a request.
    ///
    /// # Errors
    ///
    /// It comes too soon.
    pub(super) fn request(&self, caller: &Caller, now: Instant) -> Result<(), Refusal> {
        let mut uses = self.uses();
        let used = self.of(&mut uses, &caller.name, now)?;
        let passed = now.saturating_duration_since(used.at).as_secs_f64();
        used.allowance = (used.allowance + passed * self.per_second).min(self.per_second);
        used.at = now;
        if used.allowance < 1.0 {
            return Err(Refusal::too_many(format!("more than {} requests a second: wait", self.per_second)));
        }
        used.allowance -= 1.0;
        Ok(())
    }

    /// Takes a place for a page trace, beside the captures of this caller that `is_running` says run.
    ///
    /// # Errors
    ///
    /// It has as many as it may.
    pub(super) fn stream(
        self: &Arc<Self>,
        caller: &Caller,
        is_running: impl Fn(&str) -> bool,
    ) -> Result<Stream, Refusal> {
        let mut uses = self.uses();
        let used = self.of(&mut uses, &caller.name, Instant::now())?;
        used.check(caller, is_running)?;
        used.streams = used.streams.saturating_add(1);
        Ok(Stream { quota: Arc::clone(self), name: caller.name.clone() })
    }

    /// Begins a capture with `begin`, which gives its name, where there is a place for it.
    ///
    /// # Errors
    ///
    /// The caller has as many as it may, or it does not begin.
    pub(super) fn capture<T>(
        &self,
        caller: &Caller,
        is_running: impl Fn(&str) -> bool,
        begin: impl FnOnce() -> Result<(String, T), Refusal>,
    ) -> Result<T, Refusal> {
        let mut uses = self.uses();
        let used = self.of(&mut uses, &caller.name, Instant::now())?;
        used.check(caller, is_running)?;
        let (id, begun) = begin()?;
        used.captures.push(id);
        Ok(begun)
    }

    fn of<'a>(&self, uses: &'a mut HashMap<String, Use>, name: &str, now: Instant) -> Result<&'a mut Use, Refusal> {
        if uses.len() >= MOST_CALLERS && !uses.contains_key(name) {
            // Who has asked for nothing in the last second and has nothing running loses nothing by being forgotten.
            uses.retain(|_, used| {
                used.streams > 0 || !used.captures.is_empty() || now.saturating_duration_since(used.at).as_secs() < 1
            });
            if uses.len() >= MOST_CALLERS {
                return Err(Refusal::too_many("too many callers at once: wait"));
            }
        }
        let unused = || Use { allowance: self.per_second, at: now, streams: 0, captures: Vec::new() };
        Ok(uses.entry(name.to_owned()).or_insert_with(unused))
    }

    /// A panic elsewhere leaves the table whole: every change of it is one step.
    fn uses(&self) -> MutexGuard<'_, HashMap<String, Use>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Use {
    fn check(&mut self, caller: &Caller, is_running: impl Fn(&str) -> bool) -> Result<(), Refusal> {
        self.captures.retain(|id| is_running(id));
        if self.captures.len().saturating_add(self.streams) >= caller.bounds.running {
            return Err(Refusal::too_many(format!(
                "{} captures and page traces of yours run already: wait for one, or end one",
                caller.bounds.running
            )));
        }
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(used) = self.quota.uses().get_mut(&self.name) {
            used.streams = used.streams.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::caller::Bounds;
    use super::*;

    fn caller(name: &str) -> Caller {
        Caller::admin(name, Bounds { duration: Duration::from_secs(1), bytes: 1, running: 2 })
    }

    #[test]
    fn each_caller_has_its_own_rate() {
        let (quota, begin) = (Quota::new(3), Instant::now());
        let taken = |name: &str, after_ms: u64| {
            let now = begin + Duration::from_millis(after_ms);
            (0..10).filter(|_| quota.request(&caller(name), now).is_ok()).count()
        };
        assert_eq!((taken("a", 0), taken("b", 0)), (3, 3));
        assert_eq!((taken("a", 100), taken("a", 400)), (0, 1));
        assert_eq!(taken("a", 60_000), 3);
    }

    #[test]
    fn captures_and_page_traces_share_the_places_of_a_caller() {
        let quota = Arc::new(Quota::new(3));
        let (a, b) = (caller("a"), caller("b"));
        let stream = quota.stream(&a, |_| true).unwrap();
        quota.capture(&a, |_| true, || Ok(("1".to_owned(), ()))).unwrap();
        assert!(quota.stream(&a, |_| true).is_err());
        assert!(quota.capture(&a, |_| true, || -> Result<(String, ()), _> { panic!("no place") }).is_err());
        quota.stream(&b, |_| true).unwrap();
        drop(stream);
        let stream = quota.stream(&a, |_| true).unwrap();
        // Its capture has ended.
        quota.capture(&a, |id| id != "1", || Ok(("2".to_owned(), ()))).unwrap();
        assert!(quota.stream(&a, |_| true).is_err());
        drop(stream);
    }
}
