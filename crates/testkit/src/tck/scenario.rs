//! From feature files to scenarios: outlines expanded, backgrounds prepended.

use std::path::{Path, PathBuf};

use super::gherkin::{self, Feature, ScenarioText, Step};
use anyhow::{Context, Result};

/// One scenario, ready to run.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The feature's name.
    pub feature: String,
    /// The scenario's name; for an outline with the number of its example, from 1.
    pub name: String,
    /// The file, relative to the folder it was found in.
    pub file: PathBuf,
    /// The line of the scenario in its file.
    pub line: usize,
    /// Whether the suite marks it as ignored.
    pub is_ignored: bool,
    /// The steps in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Its unique name in the suite: feature and scenario.
    pub fn id(&self) -> String {
        format!("{} / {}", self.feature, self.name)
    }
}

/// All scenarios of the `.feature` files in a folder and those below it, in the order of their paths.
pub fn load_folder(folder: &Path) -> Result<Vec<Scenario>> {
    let mut files = Vec::new();
    collect_files(folder, &mut files)?;
    files.sort();
    let mut scenarios = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("{} cannot be read", file.display()))?;
        let feature = gherkin::parse(&text)
            .with_context(|| format!("{} is not a feature file", file.display()))?;
        let relative = file.strip_prefix(folder).unwrap_or(&file);
        expand_feature(&feature, relative, &mut scenarios);
    }
    Ok(scenarios)
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if folder.is_file() {
        files.push(folder.to_path_buf());
        return Ok(());
    }
    for entry in
        std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?
    {
        let path = entry?.path();
        if path.is_dir() {
            collect_files(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "feature")
        {
            files.push(path);
        }
    }
    Ok(())
}

fn expand_feature(feature: &Feature, file: &Path, out: &mut Vec<Scenario>) {
    for scenario in &feature.scenarios {
        let make = |name: String, row: &[(String, String)]| Scenario {
            feature: feature.name.clone(),
            name,
            file: file.to_path_buf(),
            line: scenario.line,
            is_ignored: scenario.tags.iter().any(|tag| tag == "@ignore"),
            steps: feature
                .background
                .iter()
                .chain(&scenario.steps)
                .map(|step| expand_step(step, row))
                .collect(),
        };
        let rows = example_rows(scenario);
        match scenario.examples.is_empty() {
            true => out.push(make(scenario.name.clone(), &[])),
            false => out.extend(rows.iter().zip(1..).map(|(row, number)| {
                make(
                    format!("{} (example {number})", substitute(&scenario.name, row)),
                    row,
                )
            })),
        }
    }
}

/// The examples of an outline, each as pairs of name and value.
fn example_rows(scenario: &ScenarioText) -> Vec<Vec<(String, String)>> {
    let mut rows = Vec::new();
    for table in &scenario.examples {
        let Some((names, values)) = table.split_first() else {
            continue;
        };
        for row in values {
            rows.push(
                names
                    .iter()
                    .zip(row)
                    .map(|(name, value)| (format!("<{name}>"), value.clone()))
                    .collect(),
            );
        }
    }
    rows
}

fn expand_step(step: &Step, row: &[(String, String)]) -> Step {
    let expand_row = |cells: &Vec<String>| cells.iter().map(|cell| substitute(cell, row)).collect();
    Step {
        text: substitute(&step.text, row),
        docstring: step.docstring.as_ref().map(|text| substitute(text, row)),
        table: step
            .table
            .as_ref()
            .map(|table| table.iter().map(expand_row).collect()),
    }
}

fn substitute(text: &str, row: &[(String, String)]) -> String {
    row.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    })
}
