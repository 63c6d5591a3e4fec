//! Folders, sizes, and what must or must not be committed.

use std::{fs, path::Path};

use anyhow::Result;

use crate::workspace;

/// Longest line of a document. Tables and code are exempt, as they cannot be wrapped.
const MAX_DOCUMENT_COLUMNS: usize = 140;
/// Largest tracked file.
const MAX_FILE_BYTES: u64 = 512 * 1024;
/// Largest sum of all tracked files.
const MAX_TOTAL_BYTES: u64 = 24 * 1024 * 1024;
/// Endings of what compilers and packagers write.
const BUILT_ENDINGS: [&str; 16] = [
    "a", "class", "d", "dll", "dylib", "exe", "jar", "node", "o", "pdb", "profraw", "pyc", "rlib",
    "so", "wasm", "whl",
];
/// Folders that builds fill.
const BUILT_FOLDERS: [&str; 6] = [
    "target",
    "node_modules",
    "dist",
    "__pycache__",
    ".venv",
    "build",
];
/// Built files that are committed on purpose, each with the reason.
const BUILT_ALLOWED: [&str; 1] = ["tests/formats"]; // databases written by released versions

/// The crate that users depend on. Its package has no prefix; all others are called `isomer-` and the folder's name.
const PUBLISHED: &str = "isomerdb";

/// Crates that do not bear their folder's name, or do not open with a module doc.
pub fn crates() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let root = workspace::root();
    let mut folders: Vec<_> = fs::read_dir(root.join("crates"))?.collect::<Result<_, _>>()?;
    folders.sort_by_key(|folder| folder.file_name());
    for folder in folders {
        if !folder.file_type()?.is_dir() {
            continue;
        }
        let name = folder.file_name().to_string_lossy().into_owned();
        let package = match name.as_str() {
            PUBLISHED => name.clone(),
            _ => format!("isomer-{name}"),
        };
        let manifest = fs::read_to_string(folder.path().join("Cargo.toml")).unwrap_or_default();
        if !manifest
            .lines()
            .any(|line| line == format!("name = \"{package}\""))
        {
            problems.push(format!(
                "crates/{name}/Cargo.toml: the package must be called {package}"
            ));
        }
        for file in ["src/lib.rs", "src/main.rs"] {
            let Ok(text) = fs::read_to_string(folder.path().join(file)) else {
                continue;
            };
            let first = text.lines().next().unwrap_or("");
            if !first.starts_with("//! ") || first.contains("placeholder") {
                problems.push(format!(
                    "crates/{name}/{file}: open with `//!`: what the crate is for and keeps true"
                ));
            }
        }
    }
    Ok(problems)
}

/// Files over the limit, and the whole checkout.
pub fn sizes() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut total = 0;
    for file in workspace::tracked_files()? {
        let bytes = fs::metadata(workspace::root().join(&file))?.len();
        total += bytes;
        if bytes > MAX_FILE_BYTES {
            problems.push(format!(
                "{}: {bytes} bytes, the limit is {MAX_FILE_BYTES}",
                file.display()
            ));
        }
    }
    if total > MAX_TOTAL_BYTES {
        problems.push(format!(
            "all tracked files: {total} bytes, the limit is {MAX_TOTAL_BYTES}"
        ));
    }
    Ok(problems)
}

/// Lines of documents (at the root and in `docs`) that are longer than the limit.
pub fn long_document_lines() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in workspace::tracked_files()? {
        let is_document = file.starts_with("docs") || file.components().count() == 1;
        if !is_document || file.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let text = fs::read_to_string(workspace::root().join(&file))?;
        for (line, columns) in long_lines(&text) {
            problems.push(format!(
                "{}:{line}: {columns} columns, the limit is {MAX_DOCUMENT_COLUMNS}: wrap it",
                file.display()
            ));
        }
    }
    Ok(problems)
}

/// Numbers (from 1) and lengths of the lines of Markdown that are too long, outside tables and fenced code.
fn long_lines(text: &str) -> Vec<(usize, usize)> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let columns = line.chars().count();
        if !fenced && !line.trim_start().starts_with('|') && columns > MAX_DOCUMENT_COLUMNS {
            found.push((at + 1, columns));
        }
    }
    found
}

/// Tracked files that a build writes.
pub fn built_output() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in workspace::tracked_files()? {
        if BUILT_ALLOWED.iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        if is_built(&file) || is_executable_image(&workspace::root().join(&file)) {
            problems.push(format!(
                "{}: take it out of version control",
                file.display()
            ));
        }
    }
    Ok(problems)
}

fn is_built(file: &Path) -> bool {
    let ending = file
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or("");
    let folders = file.parent().into_iter().flat_map(Path::components);
    let mut folders = folders.filter_map(|part| part.as_os_str().to_str());
    BUILT_ENDINGS.contains(&ending)
        || folders.any(|folder| BUILT_FOLDERS.contains(&folder) || folder.ends_with(".isomer"))
}

/// ELF, Mach-O or Windows executables, whatever they are called.
fn is_executable_image(file: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 4];
    let read = fs::File::open(file).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok()
        && (magic == *b"\x7fELF" || magic == [0xcf, 0xfa, 0xed, 0xfe] || magic[..3] == *b"MZ\x90")
}

/// Toolchain files, and the lock.
pub fn toolchain() -> Result<Vec<String>> {
    let root = workspace::root();
    let mut problems = Vec::new();
    for name in ["rust-toolchain", "rust-toolchain.toml"] {
        if root.join(name).exists() {
            problems.push(format!("{name}: set `rust-version` in Cargo.toml instead"));
        }
    }
    for name in ["Cargo.lock", ".cargo/config.toml", "LICENSE", ".ci/run"] {
        if !root.join(name).is_file() {
            problems.push(format!("{name} is missing"));
        }
    }
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    if !manifest.contains("rust-version") {
        problems.push("Cargo.toml has no rust-version".to_owned());
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_count_outside_tables_and_code() {
        let long = "é".repeat(MAX_DOCUMENT_COLUMNS + 1);
        let fits = "é".repeat(MAX_DOCUMENT_COLUMNS);
        let text = format!("{long}\n{fits}\n| {long} |\n```text\n{long}\n```\n- {long}\n");
        assert_eq!(
            long_lines(&text),
            [(1, MAX_DOCUMENT_COLUMNS + 1), (7, MAX_DOCUMENT_COLUMNS + 3)]
        );
    }

    #[test]
    fn built_files_are_known_by_ending_or_folder() {
        for file in [
            "a/b.so",
            "target/debug/x",
            "console/node_modules/x.js",
            "demo.isomer/data",
        ] {
            assert!(is_built(Path::new(file)), "{file}");
        }
        for file in [
            "crates/data/src/lib.rs",
            "README.md",
            "crates/bench/src/build.rs",
        ] {
            assert!(!is_built(Path::new(file)), "{file}");
        }
    }
}
