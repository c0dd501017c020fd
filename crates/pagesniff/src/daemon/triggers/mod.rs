//! Rules on live figures: where one holds of a timeline for long enough, a capture begins or a snapshot is taken.
//!
//! ```text
//! every record → Subscription → Watched ─(once a second)→ rows by tenant → RuleState::tick → Hub::begin_trace, Hub::snapshot
//! ```
//!
//! The rules are those of the configuration as it is now. Without any, nothing is read for them.

mod due;
mod rule;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use analysis::live::{By, Wanted as WantedRows};
use serde::Deserialize;

pub(super) use rule::check;
pub(crate) use rule::{Action, Figure, Rule};

use super::control::words::{Firing, TriggerStatus, Wanted};
use super::hub::Hub;
use super::subscription::Subscription;
use super::watched::{TICK_NS, Watched};
use crate::clock::wall_clock;
use crate::flags::RawFilter;
use crate::terminal::say;
use due::{Due, RuleState};

/// How often the records that have come are taken: their channel holds a tenth of a second of the busiest node.
const LOOK: Duration = Duration::from_millis(50);

/// The figures' tick.
const TICK: Duration = Duration::from_nanos(TICK_NS);

/// A subscription is renewed after so long, the longest there is.
const SUBSCRIBED_FOR: Duration = Duration::from_secs(24 * 3_600);

/// Rows that are looked at, the busiest first: as many as there are.
const ROWS: usize = 128;

/// What its directory says of why a capture or snapshot was taken.
pub(super) const CAUSE: &str = "trigger.json";

/// The rule by which what is in a directory was taken, if it was one.
pub(super) fn trigger_of(directory: &Path) -> Option<String> {
    /// Of the file, what is wanted here.
    #[derive(Deserialize)]
    struct Cause {
        trigger: String,
    }
    let text = fs::read(directory.join(CAUSE)).ok()?;
    serde_json::from_slice::<Cause>(&text).ok().map(|cause| cause.trigger)
}

const SECONDS_OF_A_DAY: u64 = 24 * 3_600;

/// Looks at the rules until `stop`.
pub(super) fn start(hub: Arc<Hub>, stop: Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    let run = move || {
        let mut engine = Engine { hub, watching: None, rules: Vec::new() };
        let mut tick_at = Instant::now() + TICK;
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
            engine.take_records();
            let now = Instant::now();
            if now >= tick_at {
                tick_at = now + TICK;
                engine.tick(now);
            }
        }
    };
    thread::Builder::new().name("triggers".into()).spawn(run)
}

/// The rules, and what they look at.
struct Engine {
    hub: Arc<Hub>,
    /// Nothing while there is no rule.
    watching: Option<(Subscription, Watched)>,
    rules: Vec<(Rule, RuleState, TriggerStatus)>,
}

impl Engine {
    fn take_records(&mut self) {
        let Some((subscription, watched)) = &mut self.watching else { return };
        if !subscription.take_ready(|records| watched.observe(records)) {
            // Its time is over: the next tick begins another, whose figures begin anew.
            self.watching = None;
        }
    }

    fn tick(&mut self, now: Instant) {
        self.follow_configuration();
        if self.rules.is_empty() {
            self.watching = None;
            return;
        }
        if let Err(problem) = self.look(now) {
            self.rules.iter_mut().for_each(|(_, _, status)| status.problem = Some(problem.clone()));
        }
        let status = self.rules.iter().map(|(_, state, status)| counted(state, status)).collect();
        self.hub.set_triggers(status);
    }

    /// Takes over the rules as they are now; what one remembers it keeps as long as it has its name.
    fn follow_configuration(&mut self) {
        let config = self.hub.config();
        if self.rules.len() == config.triggers.len() && self.rules.iter().map(|(rule, ..)| rule).eq(&config.triggers) {
            return;
        }
        let mut before = std::mem::take(&mut self.rules);
        for rule in &config.triggers {
            let known = before.iter().position(|(earlier, ..)| earlier.name == rule.name);
            let (state, status) = match known.map(|index| before.swap_remove(index)) {
                Some((_, state, status)) => (state, status),
                None => (RuleState::default(), TriggerStatus { name: rule.name.clone(), ..TriggerStatus::default() }),
            };
            self.rules.push((rule.clone(), state, status));
        }
        if self.rules.is_empty() {
            self.hub.set_triggers(Vec::new());
        }
    }

    fn look(&mut self, now: Instant) -> Result<(), String> {
        let workers = self.hub.workers()?;
        let (subscription, watched) = match &mut self.watching {
            Some(watching) => watching,
            None => {
                let everything = Wanted::new(&RawFilter::default(), SUBSCRIBED_FOR, None);
                self.watching.insert((self.hub.subscribe(&everything)?, Watched::new()))
            }
        };
        let at = wall_clock();
        watched.tick(at, &workers, subscription.too_slow());
        let snapshot = watched.snapshot(WantedRows { by: &[By::Tenant], rows: ROWS });
        let rows = snapshot.views.first().map_or(&[][..], |view| &view.rows);
        let day = Duration::from_nanos(at.0).as_secs() / SECONDS_OF_A_DAY;
        for (rule, state, status) in &mut self.rules {
            status.problem = None;
            for due in state.tick(rule, rows, (now, day)) {
                let firing = act(&self.hub, rule, due, at.0);
                say(format_args!("{firing}"));
                status.last = Some(firing);
            }
        }
        Ok(())
    }
}

fn counted(state: &RuleState, status: &TriggerStatus) -> TriggerStatus {
    let RuleState { acted, cooled_down, over_budget, .. } = *state;
    TriggerStatus { acted, cooled_down, over_budget, ..status.clone() }
}

/// Does what the rule says, and says what came of it.
fn act(hub: &Hub, rule: &Rule, due: Due, time_ns: u64) -> Firing {
    let Due { owner, value } = due;
    let (tenant, timeline) = (owner.tenant.to_string(), owner.timeline.to_string());
    let duration = Duration::from_secs(rule.duration_secs);
    let taken = match rule.action {
        Action::Capture => {
            let wanted = Wanted { timeline: vec![timeline.clone()], ..Wanted::of_tenant(tenant.clone(), duration) };
            hub.begin_trace(&wanted).map(|status| (status.id, status.directory))
        }
        Action::Snapshot => hub.snapshot(&tenant, duration).map(|snapshot| (snapshot.id, snapshot.directory)),
    };
    let (id, directory, problem) = match taken {
        Ok((id, directory)) => (Some(id), Some(directory), None),
        Err(problem) => (None, None, Some(problem)),
    };
    let firing = Firing {
        trigger: rule.name.clone(),
        time_ns,
        tenant,
        timeline,
        figure: rule.figure,
        value,
        above: rule.above.get(),
        action: rule.action,
        id,
        problem,
    };
    if let Some(directory) = directory {
        hub.took(&firing, &directory);
    }
    firing
}
