//! Rules about the text of source files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::workspace;

/// Most lines of a Rust file, tests included.
const MAX_LINES: usize = 1_500;
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

/// Key prefixes outside the key map: in `layout`, `data` and `replication`, only `keyspace.rs` may declare one or name a raw key
/// byte.
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
