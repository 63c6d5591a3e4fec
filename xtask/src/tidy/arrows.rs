//! The arrows between crates, compared with the table in ARCHITECTURE.md.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace;

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Differences between the table and the manifests, both ways, and any cycle among dev-dependencies' targets.
pub fn find() -> Result<Vec<String>> {
    let text =
        fs::read_to_string(workspace::root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let written = table(&text);
    if written.is_empty() {
        return Ok(vec![
            "ARCHITECTURE.md has no table of crates with a column `uses`".to_owned(),
        ]);
    }
    Ok(compare(&written, &manifests(&workspace::metadata(false)?)))
}

/// Reads the rows of the table whose header's first cell is `crate` and last is `uses`.
fn table(text: &str) -> Arrows {
    let mut arrows = Arrows::new();
    let mut inside = false;
    for line in text.lines() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        if !line.trim().starts_with('|') {
            inside = false;
        } else if cells.first() == Some(&"crate") && cells.last() == Some(&"uses") {
            inside = true;
        } else if inside && let (Some(first), Some(last)) = (cells.first(), cells.last()) {
            let names = quoted(last);
            for name in quoted(first) {
                arrows.insert(name, names.clone());
            }
        }
    }
    arrows
}

/// The words between backticks.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

fn manifests(metadata: &Value) -> Arrows {
    let short = |name: &str| name.strip_prefix("isomer-").unwrap_or(name).to_owned();
    let packages: Vec<&Value> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let ours: BTreeSet<String> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .map(short)
        .collect();
    let mut arrows = Arrows::new();
    for package in &packages {
        let name = short(package["name"].as_str().unwrap_or_default());
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let targets = dependencies
            .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string())
            .filter_map(|dependency| dependency["name"].as_str())
            .map(short)
            .filter(|target| ours.contains(target))
            .collect();
        arrows.insert(name, targets);
    }
    arrows
}

fn compare(written: &Arrows, real: &Arrows) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, targets) in real {
        let Some(allowed) = written.get(name) else {
            problems.push(format!("crate `{name}` is not in the table"));
            continue;
        };
        for target in targets.difference(allowed) {
            problems.push(format!(
                "`{name}` uses `{target}`: the table does not allow it"
            ));
        }
        for target in allowed.difference(targets) {
            problems.push(format!(
                "`{name}` does not use `{target}`, though the table says so"
            ));
        }
    }
    for name in written.keys().filter(|name| !real.contains_key(*name)) {
        problems.push(format!(
            "the table has a crate `{name}` that does not exist"
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| other | table |
|---|---|
| `x` | `y` |

| crate | holds | uses |
|---|---|---|
| `value` | values | – |
| `data` | records | `value` `storage` |
";

    #[test]
    fn the_table_is_read_by_its_header() {
        let arrows = table(TABLE);
        assert_eq!(arrows.len(), 2);
        assert!(arrows["value"].is_empty());
        assert_eq!(
            arrows["data"],
            BTreeSet::from(["storage".to_owned(), "value".to_owned()])
        );
    }

    #[test]
    fn differences_show_both_ways() {
        let real = Arrows::from([
            ("value".to_owned(), BTreeSet::from(["data".to_owned()])),
            ("data".to_owned(), BTreeSet::from(["value".to_owned()])),
            ("exec".to_owned(), BTreeSet::new()),
        ]);
        let problems = compare(&table(TABLE), &real);
        assert_eq!(
            problems,
            [
                "`data` does not use `storage`, though the table says so",
                "crate `exec` is not in the table",
                "`value` uses `data`: the table does not allow it",
            ]
        );
    }
}
