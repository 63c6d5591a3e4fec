//! Mutated queries: for every text, a database returns a result or an error that is not an internal one.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use isomer_cypher::token::{Keyword, Symbol, TokenKind};
use isomer_cypher::tokenize;
use isomer_db::{Database, ErrorKind, Query, QueryOptions};
use isomer_value::Map;

use crate::random::Random;

/// A database with data of every kind.
const GRAPH: &str = "CREATE (a:A:B {name: 'a', num: 1, list: [1, 2]}), (b:B {name: 'b', num: 2.5, map: {x: {y: 1}}}), (c:C {name: 'c', num: null}),
    (a)-[:T {num: 1}]->(b), (b)-[:T {num: 2}]->(c), (c)-[:U]->(a), (a)-[:LOOP]->(a), (:D {day: date('2020-02-29')})";

/// Result of a run.
#[derive(Debug, Default)]
pub struct Mutated {
    /// Queries with a result.
    pub answered: usize,
    /// Queries rejected or failed with an error that the user can understand.
    pub refused: usize,
    /// Panics and internal errors, each with a query.
    pub faults: BTreeMap<String, String>,
}

/// Runs `count` mutations of `originals`; deterministic by seed.
pub fn run(originals: &[String], count: usize, seed: u64) -> Mutated {
    let pieces: Vec<Vec<Word<'_>>> = originals
        .iter()
        .map(|text| words(text))
        .filter(|words| !words.is_empty())
        .collect();
    let mut random = Random::new(seed);
    let mut outcome = Mutated::default();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut database = None;
    for at in 0..count {
        // Some queries write: restart from time to time.
        if at % 200 == 0 {
            database = fresh();
        }
        let Some(open) = &database else { break };
        let query = mutate(&pieces, &mut random);
        match catch_unwind(AssertUnwindSafe(|| execute(open, &query))) {
            Ok(Ok(())) => outcome.answered += 1,
            Ok(Err(None)) => outcome.refused += 1,
            Ok(Err(Some(fault))) => {
                outcome.faults.entry(fault).or_insert(query);
            }
            Err(panic) => {
                let message = super::suite::message(panic.as_ref());
                outcome
                    .faults
                    .entry(format!("panic: {message}"))
                    .or_insert(query);
                database = fresh();
            }
        }
    }
    std::panic::set_hook(hook);
    outcome
}

fn fresh() -> Option<Database> {
    let database = Database::open_in_memory().ok()?;
    database.query(GRAPH).ok()?;
    Some(database)
}

/// Returns the text of an internal error.
fn execute(database: &Database, query: &str) -> Result<(), Option<String>> {
    let parameters: Map = [("param", 1_i64), ("p", 2), ("x", 3)]
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    let options = QueryOptions::new().time_limit(Duration::from_millis(500));
    match database.query(Query::new(query).params(parameters).options(&options)) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::Internal | ErrorKind::Corrupt) => {
            Err(Some(error.message().to_owned()))
        }
        Err(_) => Err(None),
    }
}

type Word<'t> = (TokenKind, &'t str);

fn words(text: &str) -> Vec<Word<'_>> {
    tokenize(text)
        .into_iter()
        .filter(|token| token.kind != TokenKind::End)
        .map(|token| (token.kind, token.span.slice(text)))
        .collect()
}

/// Mostly valid: words are replaced by others of their kind, from the same query or another one; sometimes
/// the query is crossed with another one, or a word is removed, duplicated or swapped.
fn mutate(pieces: &[Vec<Word<'_>>], random: &mut Random) -> String {
    let mut query = random.pick(pieces).clone();
    let other = random.pick(pieces);
    for _ in 0..=random.below(3) {
        let at = place(&query, random);
        match random.below(12) {
            0 if query.len() > 1 => {
                query.remove(at);
            }
            1 => query.insert(at, *random.pick(other)),
            2 => {
                let with = place(&query, random);
                query.swap(at, with);
            }
            3 | 4 => cross(&mut query, other, random),
            kind => {
                let source = if kind % 2 == 0 { other } else { &query.clone() };
                let alike: Vec<Word<'_>> = source
                    .iter()
                    .filter(|(kind, _)| is_alike(*kind, query[at].0))
                    .copied()
                    .collect();
                if !alike.is_empty() {
                    query[at] = *random.pick(&alike);
                }
            }
        }
    }
    query
        .iter()
        .map(|(_, text)| *text)
        .collect::<Vec<_>>()
        .join(" ")
}

fn place(words: &[Word<'_>], random: &mut Random) -> usize {
    random.below(words.len() as u64) as usize
}

/// The first part of one query, everything in scope, then the last part of the other.
fn cross<'t>(query: &mut Vec<Word<'t>>, other: &[Word<'t>], random: &mut Random) {
    let starts = |words: &[Word<'t>]| -> Vec<usize> {
        let is_start = |kind| {
            matches!(
                kind,
                TokenKind::Keyword(
                    Keyword::Match
                        | Keyword::With
                        | Keyword::Unwind
                        | Keyword::Return
                        | Keyword::Create
                        | Keyword::Merge
                )
            )
        };
        (0..words.len())
            .filter(|at| is_start(words[*at].0))
            .collect()
    };
    let (here, there) = (starts(query), starts(other));
    if here.is_empty() || there.is_empty() {
        return;
    }
    query.truncate(*random.pick(&here));
    if !query.is_empty() {
        query.extend([
            (TokenKind::Keyword(Keyword::With), "WITH"),
            (TokenKind::Symbol(Symbol::Star), "*"),
        ]);
    }
    query.extend_from_slice(&other[*random.pick(&there)..]);
}

/// Whether a word of one kind can usually replace one of another.
fn is_alike(a: TokenKind, b: TokenKind) -> bool {
    let is_value = |kind| {
        matches!(
            kind,
            TokenKind::Name
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::String
                | TokenKind::Parameter
        )
    };
    let is_operator = |kind| {
        matches!(
            kind,
            TokenKind::Symbol(
                Symbol::Plus
                    | Symbol::Minus
                    | Symbol::Star
                    | Symbol::Slash
                    | Symbol::Percent
                    | Symbol::Caret
                    | Symbol::Equal
                    | Symbol::NotEqual
                    | Symbol::Less
                    | Symbol::Greater
            ) | TokenKind::Keyword(
                Keyword::And | Keyword::Or | Keyword::Xor | Keyword::In | Keyword::Contains
            )
        )
    };
    a == b || (is_value(a) && is_value(b)) || (is_operator(a) && is_operator(b))
}
