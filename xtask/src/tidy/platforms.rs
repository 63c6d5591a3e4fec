//! Code for one operating system: in the crates `vfs` and `cli` alone, so that the rest reads the same everywhere.

use std::{fs, path::Path};

use anyhow::Result;

use super::rust_text::RustText;
use crate::workspace;

/// Where such code may be, each with the reason.
const ALLOWED: [&str; 4] = [
    "crates/vfs",    // the system calls that the product uses
    "crates/cli",    // terminals and signals
    "xtask",         // depends on no crate of the project, because it is built first
    "examples/chat", // an application, which uses the public API alone
];
/// Paths of the standard library and of other crates that only some systems have.
const SYSTEM_PATHS: [&str; 9] = [
    "os::unix",
    "os::linux",
    "os::macos",
    "os::fd",
    "os::windows",
    "rustix::",
    "libc::",
    "nix::",
    "windows_sys::",
];
/// Conditions on the system, inside `cfg(…)`, `cfg!(…)` and `cfg_attr(…)`.
const SYSTEM_CONDITIONS: [&str; 5] = [
    "unix",
    "windows",
    "target_os",
    "target_family",
    "target_vendor",
];

/// Lines of code for one operating system outside the crates that may have it.
pub fn find() -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in workspace::tracked_files()? {
        if !is_checked(&file) {
            continue;
        }
        let text = fs::read_to_string(workspace::root().join(&file))?;
        for (line, found) in system_code(&text) {
            problems.push(format!(
                "{}:{line}: `{found}`: use `isomer_vfs`",
                file.display()
            ));
        }
    }
    Ok(problems)
}

/// Whether a file is product code outside the allowed folders. Tests are exempt: they run on Linux, and make symbolic
/// links, change permissions and read `/proc` to observe the product from outside.
fn is_checked(file: &Path) -> bool {
    let is_rust = file.extension().is_some_and(|ending| ending == "rs");
    let is_test = file.iter().any(|part| {
        part.to_str()
            .is_some_and(|part| part == "tests" || part.ends_with("tests.rs"))
    });
    let is_member = ["crates", "xtask", "examples"]
        .iter()
        .any(|folder| file.starts_with(folder));
    is_rust && is_member && !is_test && !ALLOWED.iter().any(|folder| file.starts_with(folder))
}

/// Lines (from 1) with code for one system, and what it is; at most one for each line.
fn system_code(source: &str) -> Vec<(usize, String)> {
    let code = RustText::split(source).code;
    let lines = super::figures::without_tests(&code);
    // A nested import, `use std::{os::unix::…}`, has no `std::` in front.
    let found = lines.lines().enumerate().filter_map(|(at, line)| {
        let path = SYSTEM_PATHS.into_iter().find(|path| has_word(line, path));
        let found = path.or_else(|| condition(line))?;
        Some((at + 1, found.to_owned()))
    });
    found.collect()
}

/// The first condition on the system in a line with `cfg`.
fn condition(line: &str) -> Option<&'static str> {
    let conditions = &line[line.find("cfg")?..];
    SYSTEM_CONDITIONS
        .into_iter()
        .find(|word| has_word(conditions, word))
}

/// Whether `text` contains `word` with no letter, digit or `_` before it, nor after it.
fn has_word(text: &str, word: &str) -> bool {
    let is_inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        let ends_open = word.ends_with(':') || !after.starts_with(is_inside);
        !before.ends_with(is_inside) && ends_open
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(source: &str) -> Vec<usize> {
        system_code(source)
            .into_iter()
            .map(|(line, _)| line)
            .collect()
    }

    #[test]
    fn imports_and_conditions_are_found() {
        let source = "\
use std::{
    fs,
    os::unix::fs::FileExt,
};
use rustix::fs::flock;
#[cfg(unix)]
fn a() { std::os::fd::AsFd::as_fd(&x); }
#[cfg(all(test, not(target_os = \"linux\")))]
fn b() { if cfg!(windows) { libc::exit(1) } }
";
        assert_eq!(lines(source), [3, 5, 6, 7, 8, 9]);
        assert_eq!(system_code("#[cfg(not(unix))]\n"), [(1, "unix".to_owned())]);
    }

    #[test]
    fn text_comments_and_longer_words_are_not_code() {
        let source = "\
// std::os::unix and #[cfg(unix)]
let text = \"libc::exit, cfg(windows)\";
#[cfg(feature = \"unix\")]
let windows = unix_time(cfg!(test));
mylibc::call();
let unix = 1;
";
        assert_eq!(lines(source), Vec::<usize>::new());
    }

    #[test]
    fn tests_and_the_two_crates_are_exempt() {
        for file in [
            "crates/vfs/src/real.rs",
            "crates/cli/src/output.rs",
            "crates/db/tests/language.rs",
            "crates/lsm/src/memtable/tests.rs",
            "crates/lsm/src/tree_tests.rs",
            "fuzz/src/main.rs",
            "crates/lsm/Cargo.toml",
        ] {
            assert!(!is_checked(Path::new(file)), "{file}");
        }
        for file in ["crates/server/src/quick.rs", "crates/lsm/examples/puts.rs"] {
            assert!(is_checked(Path::new(file)), "{file}");
        }
        assert_eq!(
            lines("fn a() {}\n#[cfg(test)]\nmod tests {\n    use std::os::unix::fs::symlink;\n}\n"),
            Vec::<usize>::new()
        );
    }
}
