//! Rules about the text of source files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::rust_text::RustText;
use crate::workspace;

/// Most lines of a Rust file, tests included.
const MAX_LINES: usize = 1_500;
/// Most columns of a line of Rust: rustfmt breaks code before, but neither comments nor the arguments of macros.
const MAX_COLUMNS: usize = 120;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = [
    "utils", "util", "common", "helpers", "helper", "misc", "shared",
];
/// How absolute paths of one machine begin.
const MACHINE_PATHS: [&str; 6] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("C:\\", "Users"),
];

/// Rust files longer than the limit.
pub fn long_files() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (file, text) in rust_files()? {
        let lines = text.lines().count();
        if lines > MAX_LINES {
            problems.push(format!(
                "{}: {lines} lines, the limit is {MAX_LINES}",
                file.display()
            ));
        }
    }
    Ok(problems)
}

/// Lines of Rust that are too long, but for those with a string literal, and tables and layouts in comments.
pub fn long_lines() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (file, text) in rust_files()? {
        for (line, columns) in too_long(&text) {
            problems.push(format!(
                "{}:{line}: {columns} columns, the limit is {MAX_COLUMNS}",
                file.display()
            ));
        }
    }
    Ok(problems)
}

/// Numbers (from 1) and lengths of the lines that are too long.
fn too_long(text: &str) -> Vec<(usize, usize)> {
    let parts = RustText::split(text);
    let comments: BTreeMap<usize, &str> = parts
        .comments
        .iter()
        .map(|(line, text)| (*line, text.as_str()))
        .collect();
    let mut is_layout = false;
    let mut found = Vec::new();
    for (at, (line, code)) in text.lines().zip(parts.code.lines()).enumerate() {
        let comment = comments
            .get(&(at + 1))
            .map(|comment| comment.trim_start_matches(['/', '!']).trim_start());
        match comment {
            None => is_layout = false,
            Some(comment) if comment.starts_with("```") => is_layout = !is_layout,
            Some(_) => {}
        }
        let columns = line.chars().count();
        let is_free = match comment {
            Some(comment) if code.trim().is_empty() => is_layout || comment.starts_with('|'),
            // The contents of literals are blank in the code: what is left of their lines begins or ends with a quote.
            _ => code.contains('"') || code.trim().len() <= MAX_COLUMNS / 2,
        };
        if columns > MAX_COLUMNS && !is_free {
            found.push((at + 1, columns));
        }
    }
    found
}

/// Files and folders with an empty name.
pub fn module_names() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for (file, _) in rust_files()? {
        // Cargo's own way to share code between the files of `tests/` is a folder `common`.
        if file.components().any(|part| part.as_os_str() == "tests") {
            continue;
        }
        let parts = file.iter().filter_map(|part| part.to_str());
        if let Some(part) = parts
            .map(|part| part.trim_end_matches(".rs"))
            .find(|part| EMPTY_NAMES.contains(part))
        {
            problems.push(format!(
                "{}: `{part}` says nothing about what is inside",
                file.display()
            ));
        }
    }
    Ok(problems)
}

/// Text files that name a path of one machine.
pub fn machine_paths() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in workspace::tracked_files()? {
        let Ok(text) = fs::read_to_string(workspace::root().join(&file)) else {
            continue;
        };
        for (at, line) in text.lines().enumerate() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| line.contains(**path)) {
                problems.push(format!("{}:{}: `{path}`", file.display(), at + 1));
            }
        }
    }
    Ok(problems)
}

/// Key prefixes outside the key map: in `layout`, `data` and `replication`, only `keyspace.rs` may declare one or name
/// a raw key byte.
pub fn key_prefixes() -> Result<Vec<String>> {
    let keyspace = Path::new("crates/layout/src/keyspace.rs");
    let mut problems = Vec::new();
    for (file, text) in rust_files()? {
        let writes_keys = ["layout", "data", "replication"]
            .iter()
            .any(|name| file.starts_with(Path::new("crates").join(name).join("src")));
        if !writes_keys || file == keyspace {
            continue;
        }
        for (at, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let declares =
                (code.contains("const ") || code.contains("static ")) && code.contains("PREFIX");
            let writes = [
                ".put(&[",
                ".put(b\"",
                ".delete(b\"",
                ".delete(&[",
                ".get(b\"",
                ".get(&[",
            ]
            .iter()
            .any(|call| code.contains(call));
            if declares || writes {
                problems.push(format!("{}:{}: {}", file.display(), at + 1, line.trim()));
            }
        }
    }
    Ok(problems)
}

fn rust_files() -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for file in workspace::tracked_files()? {
        if file.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(workspace::root().join(&file))?;
            files.push((file, text));
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_code_have_a_limit_and_tables_and_literals_have_none() {
        let long = "x".repeat(MAX_COLUMNS);
        let lines = |text: &str| {
            too_long(text)
                .into_iter()
                .map(|(line, _)| line)
                .collect::<Vec<_>>()
        };
        assert_eq!(lines(&format!("// {long}\nf();\n/// | {long}\n")), [1]);
        assert_eq!(
            lines(&format!("/// ```text\n/// {long}\n/// ```\n/// {long}\n")),
            [4]
        );
        assert_eq!(lines(&format!("f(\"{long}\");\nf({long});\n")), [2]);
        assert_eq!(lines(&format!("f(\"a\n{long}\nb\");\n")), [0; 0]);
    }
}
