//! What was looked at, what was found, and what can be done: in words and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::survey::Survey;

/// How much a finding stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Good to know.
    Info,
    /// Figures are poorer for it.
    Warning,
    /// Requests cannot be seen, or not be captured.
    Problem,
}

impl Level {
    /// Its name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }

    const fn mark(self) -> &'static str {
        match self {
            Self::Ok => "ok      ",
            Self::Info => "-       ",
            Self::Warning => "!       ",
            Self::Problem => "PROBLEM ",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What it is about; fixed.
    pub id: &'static str,
    /// How much it stands in the way.
    pub level: Level,
    /// What was found, a sentence without its full stop.
    pub text: String,
    /// What to do; empty where there is nothing to do, or the text says it.
    pub advice: String,
}

impl Check {
    fn new((id, level): (&'static str, Level), text: String, advice: &str) -> Self {
        Self { id, level, text, advice: advice.to_owned() }
    }

    pub(super) fn ok(id: &'static str, text: String) -> Self {
        Self::new((id, Level::Ok), text, "")
    }

    pub(super) fn info(id: &'static str, text: String, advice: &str) -> Self {
        Self::new((id, Level::Info), text, advice)
    }

    pub(super) fn warning(id: &'static str, text: String, advice: &str) -> Self {
        Self::new((id, Level::Warning), text, advice)
    }

    pub(super) fn problem(id: &'static str, text: String, advice: &str) -> Self {
        Self::new((id, Level::Problem), text, advice)
    }
}

/// A line for each, and one below it that says what to do.
pub(super) fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for Check { level, text: found, advice, .. } in checks {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}{found}", level.mark());
        if !advice.is_empty() {
            let _ = writeln!(text, "        → {advice}");
        }
    }
    text
}

/// All of it as JSON; the names are fixed.
pub(super) fn json(checks: &[Check], survey: &Survey) -> String {
    let worst = [Level::Problem, Level::Warning, Level::Info].into_iter();
    let worst = worst.into_iter().find(|&level| checks.iter().any(|check| check.level == level)).unwrap_or(Level::Ok);
    let checks: Vec<Value> = checks
        .iter()
        .map(|Check { id, level, text, advice }| {
            let advice = Some(advice).filter(|advice| !advice.is_empty());
            json!({ "id": id, "level": level.as_str(), "text": text, "advice": advice })
        })
        .collect();
    let ports: Vec<Value> = survey.ports().map(|port| port.to_json()).collect();
    format!("{:#}\n", json!({ "level": worst.as_str(), "checks": checks, "ports": ports }))
}
