//! Sizes: lines per crate, lines of functions, methods per type.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
    fs,
    path::Path,
};

use anyhow::Result;

use super::rust_text::RustText;
use crate::workspace;

/// Functions and types that are listed.
const LISTED: usize = 10;

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// Line of `fn`, from 1.
    line: usize,
    /// From `fn` to the closing brace.
    lines: usize,
    /// The type of the inherent `impl` block around it.
    owner: Option<String>,
}

/// Sizes of the code in `src` folders, without test modules and test files.
#[derive(Default)]
pub struct Sizes {
    /// Lines of each function, the longest first, with its file, line and name.
    pub functions: Vec<(usize, Place)>,
    /// Inherent methods of each type, the most first, with its crate and name.
    pub methods: Vec<(usize, String)>,
    /// Lines of each crate.
    lines: BTreeMap<String, usize>,
}

/// Where a function is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Path of the file.
    pub file: String,
    /// Line of `fn`, from 1.
    pub line: usize,
    /// Name of the function.
    pub name: String,
}

/// Counts.
pub fn sizes() -> Result<Sizes> {
    let mut sizes = Sizes::default();
    let mut methods: BTreeMap<String, usize> = BTreeMap::new();
    for file in workspace::tracked_files()? {
        let Some(part) = product_part(&file) else {
            continue;
        };
        let text = fs::read_to_string(workspace::root().join(&file))?;
        let code = without_tests(&RustText::split(&text).code);
        *sizes.lines.entry(part.clone()).or_default() += code.lines().count();
        for function in functions_of(&code) {
            if let Some(owner) = &function.owner {
                *methods.entry(format!("{part}::{owner}")).or_default() += 1;
            }
            let place = Place {
                file: file.display().to_string(),
                line: function.line,
                name: function.name,
            };
            sizes.functions.push((function.lines, place));
        }
    }
    sizes.functions.sort_by(|a, b| b.cmp(a));
    sizes.methods = methods.into_iter().map(|(a, b)| (b, a)).collect();
    sizes.methods.sort_by(|a, b| b.cmp(a));
    Ok(sizes)
}

/// The figures as lines of text.
pub fn report() -> Result<Vec<String>> {
    let sizes = sizes()?;
    let mut report = vec!["lines of source per crate, without tests".to_owned()];
    let lines = sizes.lines.iter();
    report.extend(lines.map(|(part, lines)| format!("{lines:>7} {part}")));
    report.push("longest functions, in lines".to_owned());
    report.extend(top(&sizes.functions));
    report.push("types with the most inherent methods".to_owned());
    report.extend(top(&sizes.methods));
    Ok(report)
}

fn top<T: Display>(rows: &[(usize, T)]) -> impl Iterator<Item = String> {
    let listed = rows.iter().take(LISTED);
    listed.map(|(number, name)| format!("{number:>7} {name}"))
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} {}", self.file, self.line, self.name)
    }
}

/// The crate of a file of source code that is not a test.
pub fn product_part(file: &Path) -> Option<String> {
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let part = match parts.as_slice() {
        ["crates", name, "src", ..] => name,
        ["xtask", "src", ..] => "xtask",
        _ => return None,
    };
    let test = parts
        .iter()
        .any(|part| matches!(*part, "tests" | "tests.rs"));
    (!test && file.extension().is_some_and(|ending| ending == "rs")).then(|| part.to_owned())
}

/// Code up to the first test module, which ends a file.
pub fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut lines = code.lines().peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().map_or("", |next| next.trim_start());
        if line.trim() == "#[cfg(test)]" && next.starts_with("mod ") && next.ends_with('{') {
            break;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// Functions in code whose comments and literals are blank.
fn functions_of(code: &str) -> Vec<Function> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    // Blocks that are open: depth of their brace, and what opened it.
    let mut open: Vec<(usize, Opened)> = Vec::new();
    let mut pending: Option<Opened> = None;
    let (mut head, mut brackets) = (String::new(), 0_i32);
    for (at, line) in code.lines().enumerate() {
        // Where rustfmt formats, only a block begins a line with `impl`, not a type.
        let opens_impl = line
            .trim_start()
            .trim_start_matches("unsafe ")
            .starts_with("impl");
        for token in tokens(line) {
            match token {
                "fn" => {
                    pending = Some(Opened::Function(String::new(), at + 1));
                    brackets = 0;
                }
                "impl" if pending.is_none() && opens_impl => {
                    pending = Some(Opened::Impl);
                    head.clear();
                }
                "(" | "[" => brackets += 1,
                ")" | "]" => brackets -= 1,
                ";" if brackets == 0 => pending = None,
                "{" => {
                    depth += 1;
                    match pending.take() {
                        Some(Opened::Impl) => open.push((depth, Opened::Type(owner_of(&head)))),
                        Some(opened) => open.push((depth, opened)),
                        None => {}
                    }
                    brackets = 0;
                }
                "}" => {
                    if open.last().is_some_and(|(at, _)| *at == depth)
                        && let Some((_, Opened::Function(name, line))) = open.pop()
                    {
                        let owner = match open.last() {
                            Some((_, Opened::Type(owner))) => owner.clone(),
                            _ => None,
                        };
                        found.push(Function {
                            name,
                            line,
                            lines: at + 2 - line,
                            owner,
                        });
                    }
                    depth = depth.saturating_sub(1);
                }
                word => match &mut pending {
                    Some(Opened::Function(name, _)) if name.is_empty() => word.clone_into(name),
                    Some(Opened::Impl) => {
                        head.push_str(word);
                        head.push(' ');
                    }
                    _ => {}
                },
            }
        }
    }
    found
}

/// What a brace opens.
enum Opened {
    /// A function: its name and line.
    Function(String, usize),
    /// An `impl` whose brace is not reached yet.
    Impl,
    /// The block of an `impl`: its type, unless it implements a trait.
    Type(Option<String>),
}

/// The type in the head of an `impl`, as tokens with spaces; none for the implementation of a trait.
fn owner_of(head: &str) -> Option<String> {
    let mut angle = 0;
    let mut owner = None;
    for token in head.split(' ') {
        match token {
            "<" => angle += 1,
            ">" => angle -= 1,
            "for" if angle == 0 => return None,
            "where" if angle == 0 => break,
            word if angle == 0 && word.starts_with(char::is_alphabetic) => {
                owner = Some(word.to_owned());
            }
            _ => {}
        }
    }
    owner
}

/// Words and single signs of a line; an arrow is not a bracket.
fn tokens(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let word = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let length = match word {
            0 if rest.starts_with("->") || rest.starts_with("=>") => 2,
            0 => rest.chars().next()?.len_utf8(),
            _ => word,
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_names_lines_and_owners() {
        let code = "impl<T: Fn(u8) -> u8> Tree<T> {\n    fn new() -> Self {\n        if x { y }\n    }\n}\n\
                    impl Drop for Tree {\n    fn drop(&mut self) {}\n}\nfn free(a: [u8; 3]) {\n}\n\
                    trait A {\n    fn none(&self);\n}\n";
        let found = functions_of(code);
        let seen: Vec<_> = found
            .iter()
            .map(|f| (f.name.as_str(), f.line, f.lines, f.owner.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                ("new", 2, 3, Some("Tree")),
                ("drop", 7, 1, None),
                ("free", 9, 2, None)
            ]
        );
    }

    #[test]
    fn types_that_implement_something_in_an_argument_open_no_block() {
        let found = functions_of("fn f(a: impl Fn()) -> impl Iterator<Item = u8> {\n    g()\n}\n");
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].lines), ("f", 3));
    }

    #[test]
    fn test_modules_and_test_files_are_left_out() {
        assert_eq!(without_tests("a\n#[cfg(test)]\nmod tests {\nb\n}\n"), "a\n");
        assert_eq!(
            without_tests("a\n#[cfg(test)]\nmod tests;\nb\n"),
            "a\n#[cfg(test)]\nmod tests;\nb\n"
        );
        let product = product_part(Path::new("crates/data/src/lib.rs"));
        assert_eq!(product.as_deref(), Some("data"));
        assert_eq!(
            product_part(Path::new("crates/data/src/graph/tests.rs")),
            None
        );
        assert_eq!(product_part(Path::new("crates/data/tests/a.rs")), None);
    }
}
