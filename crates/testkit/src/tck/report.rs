//! Report of a run of the suite.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::json;

use super::run::Outcome;
use super::scenario::Scenario;

/// Known deviations, with the reason.
#[derive(Debug, Default)]
pub struct Deviations {
    reasons: BTreeMap<String, String>,
}

impl Deviations {
    /// Parses lines of `feature / scenario | reason`; `#` starts a comment. A line for an outline applies to
    /// all of its examples.
    pub fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let reasons = lines
            .filter_map(|line| line.rsplit_once(" | "))
            .map(|(id, reason)| (id.trim().to_owned(), reason.trim().to_owned()));
        Self {
            reasons: reasons.collect(),
        }
    }

    fn reason(&self, scenario: &Scenario) -> Option<&str> {
        let id = scenario.id();
        let outline = id
            .split_once(" (example ")
            .map_or(id.as_str(), |(outline, _)| outline);
        self.reasons
            .get(&id)
            .or_else(|| self.reasons.get(outline))
            .map(String::as_str)
    }
}

/// All outcomes of a run, in the order of the scenarios.
#[derive(Debug)]
pub struct Report {
    entries: Vec<ScenarioEntry>,
}

#[derive(Debug)]
struct ScenarioEntry {
    scenario: Scenario,
    outcome: Outcome,
    deviation: Option<String>,
}

/// Counts of outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Passed.
    pub passed: usize,
    /// Failed with an error.
    pub failed: usize,
    /// Skipped.
    pub skipped: usize,
    /// Wrong result.
    pub wrong: usize,
    /// Known deviation.
    pub deviations: usize,
}

impl Tally {
    /// All of them.
    pub fn total(&self) -> usize {
        self.passed + self.failed + self.skipped + self.wrong + self.deviations
    }

    /// A percentage of all; 0 if there are none.
    pub fn percent(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.total().max(1) as f64
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "passed {} failed {} skipped {} wrong {} deviations {} (of {}: {:.1}% passed, {:.2}% wrong)",
            self.passed,
            self.failed,
            self.skipped,
            self.wrong,
            self.deviations,
            self.total(),
            self.percent(self.passed),
            self.percent(self.wrong)
        )
    }
}

impl Report {
    /// Builds the report from scenarios and their outcomes.
    pub fn new(outcomes: Vec<(Scenario, Outcome)>, deviations: &Deviations) -> Self {
        let entries = outcomes.into_iter().map(|(scenario, outcome)| {
            let deviation = deviations
                .reason(&scenario)
                .filter(|_| outcome != Outcome::Passed)
                .map(str::to_owned);
            ScenarioEntry {
                scenario,
                outcome,
                deviation,
            }
        });
        Self {
            entries: entries.collect(),
        }
    }

    /// The counts.
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for entry in &self.entries {
            let count = match (&entry.deviation, &entry.outcome) {
                (Some(_), _) => &mut tally.deviations,
                (None, Outcome::Passed) => &mut tally.passed,
                (None, Outcome::Failed(_)) => &mut tally.failed,
                (None, Outcome::Skipped(_)) => &mut tally.skipped,
                (None, Outcome::Wrong(_)) => &mut tally.wrong,
            };
            *count += 1;
        }
        tally
    }

    /// One line for each scenario that did not pass.
    pub fn failures(&self) -> Vec<String> {
        let failures = self
            .entries
            .iter()
            .filter(|entry| entry.outcome != Outcome::Passed);
        failures
            .map(|entry| {
                let (word, reason) = entry.words();
                let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
                format!(
                    "{word}: {} ({}:{}): {reason}",
                    entry.scenario.id(),
                    entry.scenario.file.display(),
                    entry.scenario.line
                )
            })
            .collect()
    }

    /// The whole report: the counts, and every scenario.
    pub fn to_json(&self) -> serde_json::Value {
        let tally = self.tally();
        let scenarios: Vec<serde_json::Value> = self
            .entries
            .iter()
            .map(|entry| {
                let (word, reason) = entry.words();
                json!({
                    "feature": entry.scenario.feature,
                    "scenario": entry.scenario.name,
                    "file": entry.scenario.file.display().to_string(),
                    "line": entry.scenario.line,
                    "outcome": word,
                    "reason": reason,
                })
            })
            .collect();
        json!({
            "passed": tally.passed,
            "failed": tally.failed,
            "skipped": tally.skipped,
            "wrong": tally.wrong,
            "deviations": tally.deviations,
            "scenarios": scenarios,
        })
    }
}

impl ScenarioEntry {
    fn words(&self) -> (&'static str, &str) {
        match (&self.deviation, &self.outcome) {
            (Some(reason), _) => ("deviation", reason),
            (None, Outcome::Passed) => ("passed", ""),
            (None, Outcome::Failed(reason)) => ("failed", reason),
            (None, Outcome::Skipped(reason)) => ("skipped", reason),
            (None, Outcome::Wrong(reason)) => ("wrong", reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_counted_apart() {
        let scenario = |name: &str| Scenario {
            feature: "F".into(),
            name: name.into(),
            file: "f.feature".into(),
            line: 1,
            is_ignored: false,
            steps: Vec::new(),
        };
        let deviations = Deviations::parse("# chosen\nF / [1] a | nested maps are allowed\n");
        let outcomes = vec![
            (scenario("[1] a (example 2)"), Outcome::Wrong("x".into())),
            (scenario("[1] a"), Outcome::Passed),
            (scenario("[2] b"), Outcome::Failed("y".into())),
        ];
        let report = Report::new(outcomes, &deviations);
        assert_eq!(
            report.tally(),
            Tally {
                passed: 1,
                failed: 1,
                deviations: 1,
                ..Tally::default()
            }
        );
        assert_eq!(report.failures().len(), 2);
        assert_eq!(
            report.to_json()["scenarios"][0]["reason"],
            "nested maps are allowed"
        );
    }
}
