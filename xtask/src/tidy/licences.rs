//! Licences of everything that is linked or built.

use anyhow::Result;

use crate::workspace;

/// Licences compatible with an Apache-2.0 work that require no more than attribution.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "bzip2-1.0.6",
];

/// Dependencies without a licence from the list.
pub fn find() -> Result<Vec<String>> {
    let metadata = workspace::metadata(true)?;
    let mut problems = Vec::new();
    // `packages` lists what Cargo.lock holds for every platform; `resolve` what this one uses.
    let used = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| node["id"].as_str());
    let used: std::collections::HashSet<&str> = used.collect();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if !package["id"].as_str().is_some_and(|id| used.contains(id)) {
            continue;
        }
        let name = package["name"].as_str().unwrap_or("?");
        match package["license"].as_str() {
            None => problems.push(format!("{name} has no licence")),
            Some(expression) if !is_allowed(expression) => {
                problems.push(format!("{name}: {expression}"))
            }
            Some(_) => {}
        }
    }
    Ok(problems)
}

/// Whether an SPDX expression is satisfied by the list: `OR` needs one side, `AND` both.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let allowed = alternatives(&words, &mut at);
    allowed && at == words.len()
}

fn alternatives(words: &[&str], at: &mut usize) -> bool {
    let mut any = conjunction(words, at);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        any |= conjunction(words, at);
    }
    any
}

fn conjunction(words: &[&str], at: &mut usize) -> bool {
    let mut all = licence(words, at);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        all &= licence(words, at);
    }
    all
}

fn licence(words: &[&str], at: &mut usize) -> bool {
    let Some(word) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if *word == "(" {
        let inner = alternatives(words, at);
        *at += 1; // the closing bracket
        return inner;
    }
    let mut name = (*word).to_owned();
    if words.get(*at) == Some(&"WITH") {
        name = format!("{name} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    ALLOWED.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_reads_them() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT",
            "MIT GPL-3.0",
            "Apache-2.0 WITH other",
        ] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }
}
