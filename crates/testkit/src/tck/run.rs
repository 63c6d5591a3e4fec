//! Runs one scenario.

use std::collections::BTreeMap;
use std::path::Path;

use isomer_db::Phase;
use isomer_value::Map;

use super::gherkin::Step;
use super::notation::{self, Noted};
use super::procedure::TableProcedure;
use super::scenario::Scenario;
use super::subject::{Answer, Failure, State, Subject};
use crate::naive::subject::Mode;

/// Outcome of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Passed.
    Passed,
    /// An error where a result was expected, or a different error.
    Failed(String),
    /// It has an unknown step, or the suite marks it as ignored.
    Skipped(String),
    /// A different result, or a result where an error was expected.
    Wrong(String),
}

/// Runs a scenario on a new database. `graphs` is the folder of the suite's named graphs.
pub fn run(scenario: &Scenario, graphs: Option<&Path>, mode: Option<Mode>) -> Outcome {
    if scenario.is_ignored {
        return Outcome::Skipped("the suite marks it as ignored".into());
    }
    match Run::start(scenario, mode).and_then(|mut run| {
        scenario
            .steps
            .iter()
            .try_for_each(|step| run.run_step(step, graphs))
    }) {
        Ok(()) => Outcome::Passed,
        Err(outcome) => outcome,
    }
}

struct Run {
    subject: Subject,
    parameters: Map,
    /// Result of the last query.
    result: Option<Result<Answer, Failure>>,
    before: State,
}

impl Run {
    fn start(scenario: &Scenario, mode: Option<Mode>) -> Result<Self, Outcome> {
        let declarations = scenario
            .steps
            .iter()
            .filter_map(|step| Some((step.text.strip_prefix("there exists a procedure ")?, step)));
        let procedures = declarations
            .map(|(text, step)| {
                TableProcedure::parse(text, step.table.as_deref().unwrap_or_default())
            })
            .collect::<anyhow::Result<Vec<_>>>()
            .map_err(|error| {
                Outcome::Skipped(format!("a procedure is not understood: {error:#}"))
            })?;
        let subject = Subject::open(procedures, mode)
            .map_err(|error| Outcome::Failed(format!("no database: {error:#}")))?;
        Ok(Self {
            subject,
            parameters: Map::new(),
            result: None,
            before: State::default(),
        })
    }

    fn run_step(&mut self, step: &Step, graphs: Option<&Path>) -> Result<(), Outcome> {
        let text = step.text.trim_end_matches(':').trim();
        let query = || {
            step.docstring
                .as_deref()
                .ok_or_else(|| Outcome::Skipped(format!("`{text}` has no text")))
        };
        match text {
            "an empty graph" | "any graph" => Ok(()),
            "having executed" => self.set_up(query()?),
            "parameters are" => self.take_parameters(step),
            "executing query" => {
                self.before = self
                    .subject
                    .state()
                    .map_err(|failure| failed("the state before", &failure))?;
                self.result = Some(self.subject.execute(query()?, &self.parameters));
                Ok(())
            }
            "executing control query" => {
                self.answer()?;
                self.result = Some(self.subject.execute(query()?, &self.parameters));
                Ok(())
            }
            "the result should be empty" => {
                let answer = self.answer()?;
                match answer.rows.len() {
                    0 => Ok(()),
                    count => Err(Outcome::Wrong(format!(
                        "{count} rows where none were expected, the first {}",
                        shown(&answer.rows[0])
                    ))),
                }
            }
            "no side effects" => self.check_side_effects(&[]),
            "the side effects should be" => {
                self.check_side_effects(step.table.as_deref().unwrap_or_default())
            }
            _ if text.starts_with("the result should be") => {
                self.check_result(text, step.table.as_deref().unwrap_or_default())
            }
            _ if text.starts_with("there exists a procedure ") => Ok(()),
            _ if text.contains("should be raised at") => self.check_error(text),
            _ => match text
                .strip_prefix("the ")
                .and_then(|text| text.strip_suffix(" graph"))
            {
                Some(name) => self.load_graph(name, graphs),
                None => Err(Outcome::Skipped(format!("the step `{text}` is not known"))),
            },
        }
    }

    fn set_up(&mut self, query: &str) -> Result<(), Outcome> {
        self.subject
            .execute(query, &self.parameters)
            .map(|_| ())
            .map_err(|failure| failed("set-up", &failure))
    }

    fn load_graph(&mut self, name: &str, graphs: Option<&Path>) -> Result<(), Outcome> {
        let file = graphs.map(|folder| folder.join(name).join(format!("{name}.cypher")));
        let Some(script) = file.and_then(|file| std::fs::read_to_string(file).ok()) else {
            return Err(Outcome::Skipped(format!("the graph `{name}` is not there")));
        };
        let statements = isomer_cypher::editor::statements(&script);
        statements
            .into_iter()
            .try_for_each(|statement| self.set_up(statement.slice(&script)))
    }

    fn take_parameters(&mut self, step: &Step) -> Result<(), Outcome> {
        for row in step.table.iter().flatten() {
            let [name, text] = row.as_slice() else {
                return Err(Outcome::Skipped(
                    "a parameter has a name and a value".into(),
                ));
            };
            let value = noted(text)?;
            let value = value
                .to_value()
                .ok_or_else(|| Outcome::Skipped(format!("{text} cannot be a parameter")))?;
            self.parameters.insert(name.as_str(), value);
        }
        Ok(())
    }

    fn answer(&self) -> Result<&Answer, Outcome> {
        match &self.result {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(failure)) => Err(failed("an answer was expected", failure)),
            None => Err(Outcome::Skipped("no query was executed".into())),
        }
    }

    fn check_result(&self, text: &str, table: &[Vec<String>]) -> Result<(), Outcome> {
        let answer = self.answer()?;
        let Some((columns, rows)) = table.split_first() else {
            return Err(Outcome::Skipped("the expected result has no table".into()));
        };
        if *columns != answer.columns {
            return Err(Outcome::Wrong(format!(
                "columns {:?} where {columns:?} were expected",
                answer.columns
            )));
        }
        let ignores_lists = text.contains("ignoring element order for lists");
        let arrange = |value: Noted| {
            if ignores_lists {
                value.with_sorted_lists()
            } else {
                value
            }
        };
        let mut expected = Vec::new();
        for row in rows {
            let cells = row
                .iter()
                .map(|cell| Ok(arrange(noted(cell)?)))
                .collect::<Result<Vec<Noted>, Outcome>>()?;
            expected.push(shown(&cells));
        }
        let mut actual: Vec<String> = answer
            .rows
            .iter()
            .map(|row| shown(&row.iter().cloned().map(arrange).collect::<Vec<_>>()))
            .collect();
        let is_ordered = text.contains("in order");
        if !is_ordered {
            expected.sort();
            actual.sort();
        }
        if expected == actual {
            return Ok(());
        }
        let cut = |rows: &[String]| rows.iter().take(5).cloned().collect::<Vec<_>>().join("; ");
        Err(Outcome::Wrong(format!(
            "{} rows [{}] where {} were expected [{}]",
            actual.len(),
            cut(&without(&actual, &expected)),
            expected.len(),
            cut(&without(&expected, &actual))
        )))
    }

    fn check_side_effects(&self, table: &[Vec<String>]) -> Result<(), Outcome> {
        let after = self
            .subject
            .state()
            .map_err(|failure| failed("the state after", &failure))?;
        let mut actual: BTreeMap<String, usize> = BTreeMap::new();
        for (sign, changes) in [
            ("+", after.minus(&self.before)),
            ("-", self.before.minus(&after)),
        ] {
            actual.extend(
                changes
                    .into_iter()
                    .filter(|(_, count)| *count > 0)
                    .map(|(what, count)| (format!("{sign}{what}"), count)),
            );
        }
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        for row in table {
            let count = row.get(1).and_then(|count| count.parse().ok());
            let (Some(what), Some(count)) = (row.first(), count) else {
                return Err(Outcome::Skipped(format!(
                    "the side effect {row:?} is not understood"
                )));
            };
            if count > 0 {
                expected.insert(what.clone(), count);
            }
        }
        match actual == expected {
            true => Ok(()),
            false => Err(Outcome::Wrong(format!(
                "side effects {actual:?} where {expected:?} were expected"
            ))),
        }
    }

    /// `a TypeError should be raised at runtime: InvalidArgumentValue`
    fn check_error(&self, text: &str) -> Result<(), Outcome> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let class = words.get(1).copied().unwrap_or_default();
        let (phase, detail) = match text
            .split_once("should be raised at ")
            .and_then(|(_, rest)| rest.split_once(':'))
        {
            Some((phase, detail)) => (phase.trim(), detail.trim()),
            None => {
                return Err(Outcome::Skipped(format!(
                    "the step `{text}` is not understood"
                )));
            }
        };
        let failure = match &self.result {
            Some(Err(failure)) => failure,
            Some(Ok(answer)) => {
                let first = answer
                    .rows
                    .first()
                    .map_or("no row".into(), |row| shown(row));
                return Err(Outcome::Wrong(format!(
                    "{} rows where {class} {detail} was expected, the first {first}",
                    answer.rows.len()
                )));
            }
            None => return Err(Outcome::Skipped("no query was executed".into())),
        };
        let fits = failure.named.is_some_and(|(at, name, what)| {
            let phase_fits = match phase {
                "compile time" => at == Phase::Prepare,
                "runtime" => at == Phase::Run,
                _ => true,
            };
            phase_fits && name == class && (detail == "*" || what == detail)
        });
        match fits {
            true => Ok(()),
            false => Err(failed(
                &format!("{class} {detail} at {phase} was expected"),
                failure,
            )),
        }
    }
}

fn noted(text: &str) -> Result<Noted, Outcome> {
    notation::parse(text)
        .map_err(|error| Outcome::Skipped(format!("the value {text} is not understood: {error:#}")))
}

fn shown(row: &[Noted]) -> String {
    row.iter()
        .map(Noted::to_string)
        .collect::<Vec<_>>()
        .join(" | ")
}

/// The rows that are in one list and not in the other; all if there are none.
fn without(rows: &[String], others: &[String]) -> Vec<String> {
    let mut others: Vec<&String> = others.iter().collect();
    let mut rest = Vec::new();
    for row in rows {
        match others.iter().position(|other| *other == row) {
            Some(at) => {
                others.swap_remove(at);
            }
            None => rest.push(row.clone()),
        }
    }
    if rest.is_empty() { rows.to_vec() } else { rest }
}

fn failed(what: &str, failure: &Failure) -> Outcome {
    let named = match &failure.named {
        Some((phase, class, detail)) => format!(" [{phase:?} {class} {detail}]"),
        None => String::new(),
    };
    Outcome::Failed(format!("{what}:{named} {}", failure.message))
}
