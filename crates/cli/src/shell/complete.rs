//! Completion of names from the live catalog, and detection of complete inputs.

use isomer_cypher::{editor, quote_name, script::Splitter};
use isomer_db::{Database, internals::DatabaseInternals as _};
use rustyline::{
    Context, Helper,
    completion::{Completer, Pair},
    highlight::Highlighter,
    hint::Hinter,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::commands::COMMANDS;

/// Keywords offered for completion.
const KEYWORDS: [&str; 62] = [
    "MATCH",
    "OPTIONAL MATCH",
    "WHERE",
    "RETURN",
    "WITH",
    "UNWIND",
    "CREATE",
    "MERGE",
    "SET",
    "REMOVE",
    "DELETE",
    "DETACH DELETE",
    "ORDER BY",
    "SKIP",
    "LIMIT",
    "DISTINCT",
    "AS",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "IN",
    "IS NULL",
    "IS NOT NULL",
    "STARTS WITH",
    "ENDS WITH",
    "CONTAINS",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "UNION",
    "UNION ALL",
    "CALL",
    "YIELD",
    "FOREACH",
    "ON CREATE SET",
    "ON MATCH SET",
    "EXPLAIN",
    "PROFILE",
    "CREATE INDEX",
    "CREATE CONSTRAINT",
    "DROP INDEX",
    "DROP CONSTRAINT",
    "SHOW QUERIES",
    "EXISTS",
    "COUNT",
    "ASC",
    "DESC",
    "count(",
    "collect(",
    "sum(",
    "avg(",
    "min(",
    "max(",
    "size(",
    "shortestPath(",
    "allShortestPaths(",
    "labels(",
    "type(",
    "range(",
];

/// Helper of the line editor.
pub struct ShellHelper {
    db: Database,
}

impl ShellHelper {
    pub fn new(db: Database) -> Self {
        Self { db }
    }

    /// Candidates at the end of `before`: the start of the word, and the words.
    fn candidates(&self, before: &str) -> (usize, Vec<String>) {
        let start = before
            .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
            .map_or(0, |at| {
                at + before[at..].chars().next().map_or(1, char::len_utf8)
            });
        let word = &before[start..];
        if let Some(rest) = before.trim_start().strip_prefix(':')
            && rest.chars().all(char::is_alphanumeric)
        {
            let at = before.len() - rest.len() - 1;
            return (
                at,
                fitting(
                    COMMANDS.iter().map(|(name, _, _)| (*name).to_owned()),
                    &before[at..],
                ),
            );
        }
        let Ok(store) = self.db.store() else {
            return (start, Vec::new());
        };
        let catalog = store.catalog();
        match before[..start].chars().next_back() {
            Some(':' | '|') if in_brackets(before) => (
                start,
                fitting(
                    catalog
                        .types()
                        .into_iter()
                        .map(|(_, name)| quote_name(&name)),
                    word,
                ),
            ),
            Some(':') => (
                start,
                fitting(
                    catalog
                        .labels()
                        .into_iter()
                        .map(|(_, name)| quote_name(&name)),
                    word,
                ),
            ),
            Some('.') => (
                start,
                fitting(
                    catalog
                        .props()
                        .into_iter()
                        .map(|(_, name)| quote_name(&name)),
                    word,
                ),
            ),
            _ if word.is_empty() => (start, Vec::new()),
            // Inside the braces of a pattern: property names.
            _ if in_braces(before) => (
                start,
                fitting(
                    catalog
                        .props()
                        .into_iter()
                        .map(|(_, name)| quote_name(&name)),
                    word,
                ),
            ),
            _ => (
                start,
                fitting(KEYWORDS.iter().map(|word| (*word).to_owned()), word),
            ),
        }
    }
}

/// Names that begin with `word`, case-insensitive, in order; quoted if the language requires it.
fn fitting(names: impl Iterator<Item = String>, word: &str) -> Vec<String> {
    let lower = word.to_lowercase();
    let mut names: Vec<String> = names
        .filter(|name| name.to_lowercase().starts_with(&lower))
        .collect();
    names.sort();
    names.dedup();
    names.truncate(200);
    names
}

fn in_brackets(before: &str) -> bool {
    before.rfind('[').is_some_and(|open| {
        before.rfind(']').is_none_or(|close| close < open)
            && before.rfind('(').is_none_or(|paren| paren < open)
    })
}

fn in_braces(before: &str) -> bool {
    before.rfind('{').is_some_and(|open| {
        before.rfind('}').is_none_or(|close| close < open)
            && before.rfind(':').is_none_or(|colon| colon < open)
    })
}

impl Completer for ShellHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, names) = self.candidates(&line[..position]);
        Ok((
            start,
            names
                .into_iter()
                .map(|name| Pair {
                    display: name.clone(),
                    replacement: name,
                })
                .collect(),
        ))
    }
}

impl Validator for ShellHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input();
        if is_complete(input) {
            return Ok(ValidationResult::Valid(None));
        }
        // An empty line does not end a statement; if only the semicolon is missing, the message says so.
        let is_unterminated = input.ends_with('\n')
            && editor::completeness(input) == editor::Completeness::Unterminated;
        Ok(match is_unterminated {
            true => ValidationResult::Invalid(Some("\n  (a statement ends with `;`)".into())),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Hinter for ShellHelper {
    type Hint = String;
}

impl Highlighter for ShellHelper {}

impl Helper for ShellHelper {}

/// Whether the input is complete: a command, or statements with their semicolons.
fn is_complete(text: &str) -> bool {
    let mut splitter = Splitter::new();
    splitter.push(text);
    // A command or a comment ends with its line.
    splitter.push("\n");
    splitter.is_between()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_db::{
        internals::{LayerResult as _, TransactionInternals as _},
        params,
    };

    fn complete(before: &str) -> Vec<String> {
        let db = Database::open_in_memory().expect("a database");
        db.transact(|tx| {
            tx.collection("Person")
                .insert(&params! { "_key" => "a", "nickname" => "x" })?;
            tx.data_ref().name_ids().intern_type("PERSUADES").lift()?;
            Ok(())
        })
        .expect("a document");
        ShellHelper::new(db).candidates(before).1
    }

    #[test]
    fn names_come_from_the_place_and_the_catalog() {
        assert_eq!(complete("MATCH (p:Per"), ["Person"]);
        assert_eq!(complete("MATCH (p)-[:per"), ["PERSUADES"]);
        assert_eq!(complete("MATCH (p:Person) RETURN p.nick"), ["nickname"]);
        assert_eq!(complete("MATCH (p:Person {nick"), ["nickname"]);
        assert_eq!(complete("OPTI"), ["OPTIONAL MATCH"]);
        assert_eq!(complete(":sch"), [":schema"]);
        assert!(complete("MATCH (p:Nosuch").is_empty());
    }

    #[test]
    fn a_semicolon_ends_the_input_and_an_empty_line_does_not() {
        for whole in [
            "RETURN 1;",
            "RETURN 1; \n",
            "RETURN 1; // done",
            "  ",
            "// nothing",
            ":begin",
            "RETURN 1; :commit",
        ] {
            assert!(is_complete(whole), "{whole}");
        }
        for part in [
            "MATCH (n)\n",
            "MATCH (n)\nRETURN n\n\n",
            "RETURN ';",
            "RETURN 1; RETURN",
            "RETURN 1 // ;",
            "/* ; ",
        ] {
            assert!(!is_complete(part), "{part}");
        }
    }
}
