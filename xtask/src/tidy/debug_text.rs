//! Debug output (`{:?}`) in text that users see: it shows how the code is made, and changes with it.

use std::{collections::BTreeMap, fs};

use anyhow::Result;

use super::{limits::Limit, names::product_crate, rust_text::RustText};
use crate::workspace;

/// Parts of the names of macros and functions whose text only developers read: failed assertions, reports of bugs.
const FOR_DEVELOPERS: &[&str] = &["assert", "panic", "unreachable", "Internal", "internal"];
/// Crates that are never shipped, or measure.
const NOT_SHIPPED: &[&str] = &["bench", "oracle", "testkit"];

const DEBUG_TEXTS: Limit = Limit {
    unit: "texts with Debug output",
    most: 0,
    exceptions: &[
        // Floats: Debug is the shortest text that reads back as the same float, and has a `.0`.
        ("crates/cli/src/output.rs", 1),
        ("crates/cypher/src/print/expr.rs", 1),
        ("crates/exec/src/error.rs", 1),
        ("crates/exec/src/function/convert.rs", 2),
        ("crates/plan/src/explain/expression.rs", 1),
        ("crates/server/src/http/query_api.rs", 2),
        ("crates/server/src/http/typed_json.rs", 1),
        ("crates/value/src/json/write.rs", 1),
        // Texts of TOML, in quotes.
        ("crates/cli/src/serve.rs", 1),
        // Hashed, never shown.
        ("crates/replication/src/scrub.rs", 2),
        ("crates/server/src/http/files.rs", 1),
        ("crates/server/src/http/graph.rs", 2),
    ],
    file: file!(),
};

/// Files of product code with Debug output in texts, other than those of assertions.
pub fn in_messages() -> Result<Vec<String>> {
    let mut lines_of: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for file in workspace::tracked_files()? {
        let is_shipped =
            product_crate(&file).is_some_and(|name| !NOT_SHIPPED.contains(&name.as_str()));
        if is_shipped {
            let text = fs::read_to_string(workspace::root().join(&file))?;
            let product = text.split("\nmod tests {").next().unwrap_or_default();
            lines_of.insert(file.display().to_string(), debug_lines(product));
        }
    }
    let counts = lines_of.iter().map(|(file, lines)| (lines.len(), file));
    let mut problems = DEBUG_TEXTS.problems(counts);
    for problem in &mut problems {
        let (file, _) = problem.split_once(':').unwrap_or_default();
        let lines = lines_of.get(file).into_iter().flatten();
        let lines: Vec<String> = lines.map(usize::to_string).collect();
        *problem += &format!(" (lines {})", lines.join(", "));
    }
    Ok(problems)
}

/// The lines, from 1, of string literals with Debug output that are not for developers.
fn debug_lines(source: &str) -> Vec<usize> {
    let parts = RustText::split(source);
    let shows_debug = |text: &str| text.contains(":?}") || text.contains(":#?}");
    let literals = parts.strings.iter().filter(|(_, text)| shows_debug(text));
    let lines = literals.map(|(line, _)| *line);
    lines
        .filter(|line| !is_for_developers(&parts.code, *line))
        .collect()
}

/// Whether the last literal on a line is an argument of a call, however deep, whose text only developers read.
fn is_for_developers(code: &str, line: usize) -> bool {
    let before: usize = code
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    let own = code[before..].lines().next().unwrap_or_default();
    let literal = before + own.rfind('"').unwrap_or_default();
    callers(&code[..literal])
        .iter()
        .any(|name| FOR_DEVELOPERS.iter().any(|part| name.contains(part)))
}

/// The names before the parentheses that are open at the end of `code`, within its statement; the innermost first.
fn callers(code: &str) -> Vec<&str> {
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '!');
    let (mut names, mut closed) = (Vec::new(), 0);
    for (at, c) in code.char_indices().rev() {
        match c {
            ')' | ']' | '}' => closed += 1,
            '(' | '[' | '{' if closed > 0 => closed -= 1,
            '(' => {
                let start = code[..at].trim_end_matches(in_name).len();
                names.push(&code[start..at]);
            }
            ';' if closed == 0 => break,
            // The body of a function or of a branch; the braces of a closure are inside of a call.
            '{' if names.is_empty() => break,
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_and_assertions_are_not() {
        let source = "fn f() {\n    bail!(\"a {x:?}\");\n    assert!(ok, \"{:#?}\", y);\n    \
                      Err(Error::Internal(format!(\n        \"no {other:?}\"\n    )))\n}\n";
        assert_eq!(debug_lines(source), [2]);
    }

    #[test]
    fn attributes_of_errors_are_messages() {
        assert_eq!(
            debug_lines("#[error(\"{kind:?} is wrong\")]\nstruct E;"),
            [1]
        );
    }

    #[test]
    fn comments_and_other_placeholders_do_not_count() {
        assert!(debug_lines("// {x:?}\nlet a = format!(\"{x}:?\");").is_empty());
    }

    #[test]
    fn callers_end_at_the_statement() {
        assert_eq!(callers("g(1); h(f(2), k!("), ["k!", "h"]);
        assert_eq!(callers("assert!(a); match x { Y => format!("), ["format!"]);
    }
}
