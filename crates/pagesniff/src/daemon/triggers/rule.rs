//! The sections `[[triggers]]` of the daemon's configuration.

use analysis::live::Figures;
use record::TenantId;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Rules that are looked at every second.
pub(in crate::daemon) const MOST_RULES: usize = 32;

/// A capture for longer is the flight recorder's business.
const LONGEST_SECONDS: u64 = 3_600;

/// One rule: what has to be how, and what is done then.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it is called in the status and the log.
    pub name: String,
    /// Whose requests it is of; each tenant's by itself, and all of them where it is empty.
    #[serde(default)]
    pub tenants: Vec<String>,
    /// What is looked at, over the last ten seconds of one timeline.
    pub figure: Figure,
    /// It has to be more than this.
    pub above: Threshold,
    /// For so long without a break.
    #[serde(default = "default_for_secs")]
    pub for_secs: u64,
    /// A figure of fewer requests says nothing.
    #[serde(default = "default_least_requests")]
    pub least_requests: u64,
    /// What is done.
    pub action: Action,
    /// How long the capture takes, or how far back the snapshot goes.
    #[serde(default = "default_duration_secs")]
    pub duration_secs: u64,
    /// After that, nothing is done for the same timeline for so long.
    #[serde(default = "default_cool_down_secs")]
    pub cool_down_secs: u64,
    /// How often it is done on one day (UTC), for all timelines together.
    #[serde(default = "default_most_per_day")]
    pub most_per_day: u32,
}

/// Long enough that one slow second does not count.
fn default_for_secs() -> u64 {
    3
}

/// The 99th percentile of fewer is their slowest.
fn default_least_requests() -> u64 {
    100
}

fn default_duration_secs() -> u64 {
    60
}

fn default_cool_down_secs() -> u64 {
    1_800
}

fn default_most_per_day() -> u32 {
    10
}

/// What a rule looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// 99 of 100 requests took at most so many milliseconds.
    P99LatencyMs,
    /// The share of GetPage that were proven to bring a page that had not changed, 0 to 1.
    RedundantRatio,
    /// Requests a second.
    RequestsPerS,
    /// The share of requests that were answered with an error, 0 to 1.
    ErrorRatio,
}

impl Figure {
    /// Its word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::P99LatencyMs => "p99_latency_ms",
            Self::RedundantRatio => "redundant_ratio",
            Self::RequestsPerS => "requests_per_s",
            Self::ErrorRatio => "error_ratio",
        }
    }

    fn is_ratio(self) -> bool {
        matches!(self, Self::RedundantRatio | Self::ErrorRatio)
    }

    /// How it is, of at least so many requests.
    pub(super) fn of(self, figures: &Figures, least_requests: u64) -> Option<f64> {
        let compared = figures.getpage.saturating_sub(figures.not_followed);
        let (value, of) = match self {
            Self::P99LatencyMs => (figures.latency_ns.p99? as f64 / 1e6, figures.latency_ns.measured),
            Self::RedundantRatio => (figures.classes.redundant as f64 / compared as f64, compared),
            Self::RequestsPerS => (figures.requests_per_s, figures.requests),
            Self::ErrorRatio => (figures.errors as f64 / figures.requests as f64, figures.requests),
        };
        (of > 0 && of >= least_requests).then_some(value)
    }
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A capture of the timeline from then on.
    Capture,
    /// A snapshot of the tenant out of the flight recorder.
    Snapshot,
}

/// A number to compare with; finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold(f64);

/// It is never NaN.
impl Eq for Threshold {}

impl Threshold {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(from)?;
        if number.is_finite() { Ok(Self(number)) } else { Err(D::Error::custom("give a number")) }
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        let wrong = |key: &str, what: &str| Err(format!("triggers: {}: {key}: {what}", self.name));
        if self.name.is_empty() || self.name.len() > 64 {
            return Err("triggers: name: give each a name of its own, of up to 64 bytes".to_owned());
        }
        if let Some(tenant) = self.tenants.iter().find(|text| text.parse::<TenantId>().is_err()) {
            return wrong(
                "tenants",
                &format!("{tenant} is no tenant id, which has 32 hex digits; leave it out for all"),
            );
        }
        let (above, is_ratio) = (self.above.get(), self.figure.is_ratio());
        if above < 0.0 || (is_ratio && above >= 1.0) {
            return wrong("above", if is_ratio { "give 0 to less than 1" } else { "give 0 or more" });
        }
        if self.duration_secs == 0 || self.duration_secs > LONGEST_SECONDS {
            return wrong("duration_secs", &format!("give 1 to {LONGEST_SECONDS}"));
        }
        if self.for_secs == 0 || self.most_per_day == 0 {
            return wrong("for_secs and most_per_day", "give at least 1");
        }
        Ok(())
    }

    /// Whether it is of this tenant.
    pub(super) fn is_of(&self, tenant: TenantId) -> bool {
        self.tenants.is_empty() || self.tenants.iter().any(|text| text.parse() == Ok(tenant))
    }
}

/// Checks all of them.
///
/// # Errors
///
/// One line: the rule, the key, what is wrong and what to do.
pub(in crate::daemon) fn check(rules: &[Rule], has_recorder: bool) -> Result<(), String> {
    if rules.len() > MOST_RULES {
        return Err(format!("triggers: at most {MOST_RULES} are looked at"));
    }
    for (index, rule) in rules.iter().enumerate() {
        rule.check()?;
        if rules.iter().take(index).any(|earlier| earlier.name == rule.name) {
            return Err(format!("triggers: name: {} is there twice", rule.name));
        }
        if rule.action == Action::Snapshot && !has_recorder {
            let name = &rule.name;
            return Err(format!(
                "triggers: {name}: action: a snapshot takes recorder.enabled = true, or say \"capture\""
            ));
        }
    }
    Ok(())
}
