//! The project's own rules, which no compiler checks.

mod arrows;
mod circles;
mod debug_text;
mod figures;
mod interface;
mod layout;
mod licences;
mod limits;
mod links;
mod names;
mod platforms;
mod rust_text;
mod sleeps;
mod source;
mod words;

use anyhow::{Context, Result};

use crate::mutants;

/// A rule and the function that finds violations.
pub struct Check {
    /// Short name.
    pub name: &'static str,
    /// The rule, as shown for a violation.
    pub rule: &'static str,
    find: fn() -> Result<Vec<String>>,
}

/// All checks.
pub const CHECKS: &[Check] = &[
    Check {
        name: "arrows",
        rule: "crates depend on one another exactly as the table in ARCHITECTURE.md says",
        find: arrows::find,
    },
    Check {
        name: "crates",
        rule: "a crate bears its folder's name and opens with a module doc",
        find: layout::crates,
    },
    Check {
        name: "keyspace",
        rule: "key prefixes are declared in crates/layout/src/keyspace.rs alone",
        find: source::key_prefixes,
    },
    Check {
        name: "names",
        rule: "modules are named for the domain",
        find: source::module_names,
    },
    Check {
        name: "identifiers",
        rule: "a name says what it is: a noun of the field, a verb with an object, a limit with its unit",
        find: names::words,
    },
    Check {
        name: "types",
        rule: "two crates do not declare public types of one name",
        find: names::shared,
    },
    Check {
        name: "interface",
        rule: "crates/isomerdb/interface.txt is the public interface (UPDATE_GOLDEN=1 cargo xtask tidy writes it)",
        find: interface::find,
    },
    Check {
        name: "length",
        rule: "a source file tells one story: split it when it grows a second",
        find: source::long_files,
    },
    Check {
        name: "lines",
        rule: "lines of Rust fit in 120 columns, but for literals and tables",
        find: source::long_lines,
    },
    Check {
        name: "circles",
        rule: "few files import one another: what several need is a file below them",
        find: limits::circles,
    },
    Check {
        name: "methods",
        rule: "a type has one story and few methods: those of one area belong to a type for that area",
        find: limits::methods,
    },
    Check {
        name: "functions",
        rule: "a function is short, or what is long in it is a table",
        find: limits::functions,
    },
    Check {
        name: "debug",
        rule: "a message has no Debug output (`{:?}`): say what the value is in words",
        find: debug_text::in_messages,
    },
    Check {
        name: "sleeps",
        rule: "a test awaits an event (`poll` of the testkit, a channel, the end of a thread); if it sleeps, it says why",
        find: sleeps::without_reason,
    },
    Check {
        name: "platforms",
        rule: "only `vfs` and `cli` contain code for one operating system",
        find: platforms::find,
    },
    Check {
        name: "paths",
        rule: "no absolute path of one machine",
        find: source::machine_paths,
    },
    Check {
        name: "size",
        rule: "files and the whole checkout stay small",
        find: layout::sizes,
    },
    Check {
        name: "built",
        rule: "built output is not committed",
        find: layout::built_output,
    },
    Check {
        name: "toolchain",
        rule: "no file that makes rustup download a toolchain; Cargo.lock is committed",
        find: layout::toolchain,
    },
    Check {
        name: "licences",
        rule: "dependencies come under a licence of the list",
        find: licences::find,
    },
    Check {
        name: "links",
        rule: "relative links in Markdown lead somewhere",
        find: links::find,
    },
    Check {
        name: "columns",
        rule: "lines of documents fit in 140 columns, but for tables and code",
        find: layout::long_document_lines,
    },
    Check {
        name: "glossary",
        rule: "the glossary, the contributing map and ARCHITECTURE.md name source files and types that exist",
        find: links::glossary,
    },
    Check {
        name: "mutants",
        rule: "each patch in tests/mutants applies to the code as it is",
        find: mutants::find_outdated,
    },
    Check {
        name: "words",
        rule: "say it in the field's words (docs/glossary.md): an area never has more house words than its budget",
        find: words::find,
    },
];

/// Figures that are printed after the checks and not enforced.
pub fn report() -> Result<Vec<String>> {
    let mut lines = words::report()?;
    lines.extend(figures::report()?);
    lines.extend(circles::report()?);
    Ok(lines)
}

impl Check {
    /// Violations of the rule; empty if it holds.
    pub fn run(&self) -> Result<Vec<String>> {
        (self.find)().with_context(|| format!("tidy {}", self.name))
    }
}
