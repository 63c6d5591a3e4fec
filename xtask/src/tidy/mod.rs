//! What no compiler checks: the project's own rules.

mod arrows;
mod layout;
mod licences;
mod links;
mod source;

use anyhow::{Context, Result};

/// One rule and the function that looks for what breaks it.
pub struct Check {
    /// Short.
    pub name: &'static str,
    /// The rule, for the one who broke it.
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
        rule: "key prefixes are written down in crates/data/src/keyspace.rs alone",
        find: source::key_prefixes,
    },
    Check {
        name: "names",
        rule: "modules are named for the domain",
        find: source::module_names,
    },
    Check {
        name: "length",
        rule: "a source file tells one story: split it when it grows a second",
        find: source::long_files,
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
];

impl Check {
    /// What breaks the rule; empty where it holds.
    pub fn run(&self) -> Result<Vec<String>> {
        (self.find)().with_context(|| format!("tidy {}", self.name))
    }
}
