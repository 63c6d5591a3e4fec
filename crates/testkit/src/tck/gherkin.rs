//! The subset of Gherkin used by conformance suites: features, backgrounds, rules, scenarios, outlines with
//! examples, steps with a text in triple quotes or a table.
//!
//! Parsed line by line. The `gherkin` crate rejects cells with a single backslash, which the suite contains.

use anyhow::{Result, bail};

/// One feature file.
#[derive(Debug, Default)]
pub(super) struct Feature {
    pub(super) name: String,
    pub(super) background: Vec<Step>,
    pub(super) scenarios: Vec<ScenarioText>,
}

/// A scenario or an outline.
#[derive(Debug, Default)]
pub(super) struct ScenarioText {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) tags: Vec<String>,
    pub(super) steps: Vec<Step>,
    /// The tables of `Examples:`; each starts with the names.
    pub(super) examples: Vec<Vec<Vec<String>>>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// The line without its keyword.
    pub text: String,
    /// The text in triple quotes below it.
    pub docstring: Option<String>,
    /// The table below it, its first row included.
    pub table: Option<Vec<Vec<String>>>,
}

/// The part that the previous line belongs to.
#[derive(PartialEq)]
enum Part {
    Nothing,
    Feature,
    Background,
    Scenario,
    Examples,
}

/// Reads a feature file.
pub(super) fn parse(text: &str) -> Result<Feature> {
    let mut feature = Feature::default();
    let mut part = Part::Nothing;
    let mut tags: Vec<String> = Vec::new();
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    while let Some((at, raw)) = lines.next() {
        let line = raw.trim();
        let number = at + 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('@') {
            tags.extend(line.split_whitespace().map(str::to_owned));
        } else if let Some(name) = header(line, &["Feature"]) {
            feature.name = name;
            part = Part::Feature;
            tags.clear();
        } else if header(line, &["Rule"]).is_some() {
            tags.clear();
        } else if header(line, &["Background"]).is_some() {
            part = Part::Background;
        } else if let Some(name) = header(
            line,
            &[
                "Scenario Outline",
                "Scenario Template",
                "Scenario",
                "Example",
            ],
        ) {
            feature.scenarios.push(ScenarioText {
                name,
                line: number,
                tags: std::mem::take(&mut tags),
                ..ScenarioText::default()
            });
            part = Part::Scenario;
        } else if let (Some(_), Some(scenario)) = (
            header(line, &["Examples", "Scenarios"]),
            feature.scenarios.last_mut(),
        ) {
            scenario.examples.push(Vec::new());
            part = Part::Examples;
            tags.clear();
        } else if let Some(quote) = ["\"\"\"", "```"]
            .into_iter()
            .find(|quote| line.starts_with(quote))
        {
            let indent = raw.len() - raw.trim_start().len();
            let text = docstring(&mut lines, quote, indent);
            match (
                steps(&mut feature, &part).and_then(<[Step]>::last_mut),
                text,
            ) {
                (Some(step), Some(text)) => step.docstring = Some(text),
                (None, _) => bail!("line {number}: a text without a step"),
                (_, None) => bail!("line {number}: the text is not closed by {quote}"),
            }
        } else if line.starts_with('|') {
            let row = cells(line);
            match (
                &part,
                feature
                    .scenarios
                    .last_mut()
                    .and_then(|scenario| scenario.examples.last_mut()),
            ) {
                (Part::Examples, Some(table)) => table.push(row),
                _ => match steps(&mut feature, &part).and_then(<[Step]>::last_mut) {
                    Some(step) => step.table.get_or_insert_default().push(row),
                    None => bail!("line {number}: a table without a step"),
                },
            }
        } else if let Some(text) = step_text(line) {
            let step = Step {
                text: text.to_owned(),
                ..Step::default()
            };
            match part {
                Part::Background => feature.background.push(step),
                Part::Scenario => match feature.scenarios.last_mut() {
                    Some(scenario) => scenario.steps.push(step),
                    None => bail!("line {number}: a step without a scenario"),
                },
                // A description may start with such a word.
                _ => {}
            }
        }
        // Anything else is a description.
    }
    match part {
        Part::Nothing => bail!("no line starts with `Feature:`"),
        _ => Ok(feature),
    }
}

fn steps<'f>(feature: &'f mut Feature, part: &Part) -> Option<&'f mut [Step]> {
    match part {
        Part::Background => Some(&mut feature.background),
        _ => feature
            .scenarios
            .last_mut()
            .map(|scenario| scenario.steps.as_mut_slice()),
    }
}

/// The name after `Keyword:`.
fn header(line: &str, keywords: &[&str]) -> Option<String> {
    keywords
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword)?.strip_prefix(':'))
        .map(|name| name.trim().to_owned())
}

fn step_text(line: &str) -> Option<&str> {
    ["Given ", "When ", "Then ", "And ", "But ", "* "]
        .iter()
        .find_map(|keyword| line.strip_prefix(keyword))
        .map(str::trim)
}

/// The lines up to the closing quote, without the indentation of the opening one.
fn docstring<'t>(
    lines: &mut impl Iterator<Item = (usize, &'t str)>,
    quote: &str,
    indent: usize,
) -> Option<String> {
    let mut text: Vec<&str> = Vec::new();
    for (_, line) in lines {
        if line.trim() == quote {
            return Some(text.join("\n"));
        }
        let blanks = line.len() - line.trim_start().len();
        text.push(line.get(indent.min(blanks)..).unwrap_or(line));
    }
    None
}

/// The cells of a row. In a cell `\|` is a bar, `\\` a backslash and `
/// ` a new line; other backslashes are literal.
fn cells(line: &str) -> Vec<String> {
    let mut cells = Vec::new();
    let mut cell = String::new();
    let mut characters = line.chars().skip(1).peekable();
    while let Some(character) = characters.next() {
        match (character, characters.peek()) {
            ('|', _) => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            ('\\', Some(&escaped @ ('|' | '\\' | 'n'))) => {
                characters.next();
                cell.push(if escaped == 'n' { '\n' } else { escaped });
            }
            _ => cell.push(character),
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"#encoding: utf-8
@tag
Feature: Things - of some kind
  Given a description that looks like a step

  Background:
    Given an empty graph

  @a @b
  Scenario Outline: [1] One
    When executing query:
      """
      RETURN
        <x>
      """
    # a comment
    Then the result should be:
      | x   | y     |
      | <x> | 'a\|\\b\'' |
    And no side effects

    Examples:
      | x |
      | 1 |
      | 2 |
"#;

    #[test]
    fn a_feature_is_read() {
        let feature = parse(TEXT).expect("a feature");
        assert_eq!(feature.name, "Things - of some kind");
        assert_eq!(feature.background.len(), 1);
        let [scenario] = feature.scenarios.as_slice() else {
            panic!("one scenario")
        };
        assert_eq!(
            (scenario.name.as_str(), scenario.line, scenario.tags.len()),
            ("[1] One", 10, 2)
        );
        assert_eq!(scenario.steps.len(), 3);
        assert_eq!(
            scenario.steps[0].docstring.as_deref(),
            Some("RETURN\n  <x>")
        );
        assert_eq!(
            scenario.steps[1].table.as_ref().expect("a table")[1],
            ["<x>", r"'a|\b\''"]
        );
        assert_eq!(scenario.examples, [[["x"], ["1"], ["2"]]]);
    }

    #[test]
    fn an_invalid_feature_is_rejected() {
        for text in [
            "",
            "Scenario: x\n\"\"\"\nopen",
            "Feature: f\nScenario: s\n| a |",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
