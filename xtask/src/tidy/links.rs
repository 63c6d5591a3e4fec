//! Relative links in Markdown files, and the places in the code that documents name.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::Result;

use crate::workspace;

/// Links whose file or heading does not exist.
pub fn find() -> Result<Vec<String>> {
    let root = workspace::root();
    let mut problems = Vec::new();
    for file in workspace::tracked_files()? {
        if file.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = fs::read_to_string(root.join(&file))?;
        for (line, link) in links(&text) {
            if let Some(problem) = check(&root, &file, &text, &link) {
                problems.push(format!("{}:{line}: {problem}", file.display()));
            }
        }
    }
    Ok(problems)
}

/// Documents that lead a reader to files and names in the code.
const MAPS: [&str; 3] = [
    "docs/glossary.md",
    "docs/contributing-map.md",
    "ARCHITECTURE.md",
];

/// Source files and names in these documents that do not exist.
pub fn glossary() -> Result<Vec<String>> {
    let root = workspace::root();
    let mut problems = Vec::new();
    for map in MAPS {
        let text = fs::read_to_string(root.join(map))?;
        for (name, path) in code_places(&text) {
            match (fs::read_to_string(root.join(&path)), name) {
                (Err(_), _) => problems.push(format!("{map}: `{path}` does not exist")),
                (Ok(source), Some(name)) if !source.contains(&name) => {
                    problems.push(format!("{map}: `{path}` has no `{name}`"));
                }
                (Ok(_), _) => {}
            }
        }
    }
    Ok(problems)
}

/// Source files in backticks, each with the name before it where the text says "`name` in `file`".
fn code_places(text: &str) -> Vec<(Option<String>, String)> {
    let parts: Vec<&str> = text.split('`').collect();
    let is_path = |part: &&str| part.starts_with("crates/") && part.ends_with(".rs");
    let paths = (1..parts.len())
        .step_by(2)
        .filter(|at| is_path(&parts[*at]));
    let place = |at: usize| {
        let named = at >= 3 && parts[at - 1].trim() == "in" && !is_path(&parts[at - 2]);
        let name = named.then(|| parts[at - 2].rsplit("::").next().unwrap_or_default());
        (name.map(str::to_owned), parts[at].to_owned())
    };
    paths.map(place).collect()
}

fn check(root: &Path, file: &Path, text: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = root
        .join(file)
        .parent()
        .expect("a file has a folder")
        .join(path);
    if !path.is_empty() && !target.exists() {
        return Some(format!("`{link}` does not exist"));
    }
    if heading.is_empty() {
        return None;
    }
    let there = if path.is_empty() {
        text.to_owned()
    } else {
        fs::read_to_string(&target).unwrap_or_default()
    };
    (!headings(&there).contains(heading)).then(|| format!("`{link}`: there is no such heading"))
}

/// Targets of `[text](target)` outside code, with their line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, line) in prose(text) {
        let mut rest = line.as_str();
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            found.push((
                at,
                rest[..end]
                    .split_whitespace()
                    .next()
                    .unwrap_or("")
                    .to_owned(),
            ));
            rest = &rest[end..];
        }
    }
    found
}

/// Lines outside fenced blocks, with inline code blanked, and their numbers from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        let parts: Vec<&str> = line.split('`').step_by(2).collect();
        (!fenced).then(|| (at + 1, parts.join("")))
    })
}

/// Headings as they appear in links: lower case, spaces as hyphens, punctuation dropped.
fn headings(text: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut slugs = BTreeSet::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with('#') {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            slugs.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    slugs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_do_not_count() {
        let text = "[a](b.md) and `[c](d)` [e](f#g \"title\")\n```\n[h](i)\n```\n";
        assert_eq!(links(text), [(1, "b.md".to_owned()), (1, "f#g".to_owned())]);
    }

    #[test]
    fn code_places_have_paths_and_names() {
        let text = "Code: `A::b` in\n  `crates/a/src/b.rs`, `crates/c.rs`; see `d` and `e` in `f`.";
        let expected = [
            (Some("b".to_owned()), "crates/a/src/b.rs".to_owned()),
            (None, "crates/c.rs".to_owned()),
        ];
        assert_eq!(code_places(text), expected);
    }

    #[test]
    fn headings_become_slugs() {
        let text = "# What it is\n## Keys, and `values`!\n```\n# no heading\n```\n";
        assert_eq!(
            headings(text),
            BTreeSet::from(["what-it-is".to_owned(), "keys-and-values".to_owned()])
        );
    }
}
