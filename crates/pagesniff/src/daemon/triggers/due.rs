//! When a rule acts: how long it has held of which timeline, and what holds it back.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use analysis::live::Row;
use record::TenantTimeline;

use super::rule::Rule;

/// What a rule remembers.
#[derive(Debug, Default)]
pub(super) struct RuleState {
    /// For how many ticks it has held; only of those of which it holds now.
    holds: HashMap<TenantTimeline, u64>,
    /// Until when nothing is done for them. No more than the budget of two days.
    cooling: HashMap<TenantTimeline, Instant>,
    /// The day that is counted, since 1970, and how often something was done on it.
    today: (u64, u32),
    /// How often something was done, and was not since it had been, or the day's budget was spent.
    pub(super) acted: u64,
    pub(super) cooled_down: u64,
    pub(super) over_budget: u64,
}

/// What a rule is to act on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Due {
    pub(super) owner: TenantTimeline,
    pub(super) value: f64,
}

impl RuleState {
    /// A tick of a second is over, with these rows by tenant. Says for whom the rule acts, and counts that it does.
    pub(super) fn tick(&mut self, rule: &Rule, rows: &[Row], (now, day): (Instant, u64)) -> Vec<Due> {
        self.cooling.retain(|_, until| *until > now);
        if self.today.0 != day {
            self.today = (day, 0);
        }
        let before = std::mem::take(&mut self.holds);
        let mut due = Vec::new();
        for row in rows {
            let Some(owner) = owner(row).filter(|owner| rule.is_of(owner.tenant)) else { continue };
            let value = rule.figure.of(&row.figures, rule.least_requests);
            let Some(value) = value.filter(|value| *value > rule.above.get()) else { continue };
            let held = before.get(&owner).map_or(1, |ticks| ticks.saturating_add(1));
            self.holds.insert(owner, held);
            if held < rule.for_secs {
                continue;
            }
            // What is held back is counted once for each time that it holds, not every second.
            let is_new = held == rule.for_secs;
            if self.cooling.contains_key(&owner) {
                self.cooled_down = self.cooled_down.saturating_add(is_new.into());
            } else if self.today.1 >= rule.most_per_day {
                self.over_budget = self.over_budget.saturating_add(is_new.into());
            } else {
                self.today.1 = self.today.1.saturating_add(1);
                self.acted = self.acted.saturating_add(1);
                let until = now.checked_add(Duration::from_secs(rule.cool_down_secs));
                self.cooling.insert(owner, until.unwrap_or(now));
                due.push(Due { owner, value });
            }
        }
        due
    }
}

fn owner(row: &Row) -> Option<TenantTimeline> {
    let tenant = row.name.tenant.as_ref()?.parse().ok()?;
    let timeline = row.name.timeline.as_ref()?.parse().ok()?;
    Some(TenantTimeline { tenant, timeline })
}

#[cfg(test)]
mod tests {
    use analysis::live::{Figures, RowName};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn row(tenant: u8, requests_per_s: f64) -> Row {
        let id = format!("{tenant:032x}");
        let name = RowName { tenant: Some(id.clone()), timeline: Some(id), ..RowName::default() };
        Row { name, figures: Figures { requests: 1_000, requests_per_s, ..Figures::default() } }
    }

    fn rule(more: &str) -> Rule {
        let least = "name = \"busy\"\nfigure = \"requests_per_s\"\nabove = 100\naction = \"capture\"\n";
        toml::from_str(&format!("{least}{more}")).unwrap()
    }

    /// In which seconds the rule acts, where these are the rates of each.
    fn acts(rule: &Rule, state: &mut RuleState, rates: &[&[f64]]) -> Vec<(usize, u8)> {
        let start = Instant::now();
        let mut acted = Vec::new();
        for (second, rates) in rates.iter().enumerate() {
            let rows: Vec<_> = (1_u8..).zip(*rates).map(|(tenant, &rate)| row(tenant, rate)).collect();
            let now = start + SECOND * u32::try_from(second).unwrap();
            for due in state.tick(rule, &rows, (now, 7)) {
                let id = due.owner.tenant.to_string();
                acted.push((second, u8::from_str_radix(&id[30..], 16).unwrap()));
            }
        }
        acted
    }

    #[test]
    fn it_acts_where_it_holds_without_a_break_and_then_pauses() {
        let (rule, mut state) = (rule("for_secs = 3\ncool_down_secs = 5"), RuleState::default());
        let (low, high): (&[f64], &[f64]) = (&[100.0], &[100.1]);
        let rates = [high, high, low, high, high, high, high, high, high, high, high, high];
        assert_eq!(acts(&rule, &mut state, &rates), [(5, 1), (10, 1)]);
        assert_eq!((state.acted, state.cooled_down), (2, 0));
        let mut state = RuleState::default();
        assert_eq!(acts(&rule, &mut state, &[high, high, high, low, high, high, high]), [(2, 1)]);
        assert_eq!((state.acted, state.cooled_down), (1, 1));
    }

    #[test]
    fn a_days_budget_is_for_all_timelines() {
        let (rule, mut state) = (rule("for_secs = 1\ncool_down_secs = 0\nmost_per_day = 3"), RuleState::default());
        let both: &[f64] = &[200.0, 300.0];
        assert_eq!(acts(&rule, &mut state, &[both, both]), [(0, 1), (0, 2), (1, 1)]);
        let (rows, later) = ([row(1, 200.0)], Instant::now() + SECOND * 10);
        assert_eq!(state.tick(&rule, &rows, (later, 7)), []);
        assert_eq!(state.tick(&rule, &rows, (later, 8)).len(), 1, "it is another day");
    }

    #[test]
    fn only_figures_of_enough_requests_and_of_its_tenants_count() {
        let mut state = RuleState::default();
        let other = rule(&format!("for_secs = 1\ntenants = [\"{:032x}\"]", 2));
        assert_eq!(acts(&other, &mut state, &[&[200.0, 50.0]]), []);
        assert_eq!(acts(&rule("for_secs = 1\nleast_requests = 1001"), &mut state, &[&[200.0]]), []);
    }
}
