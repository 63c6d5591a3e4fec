//! A second opinion on whole queries: an interpreter of the syntax tree over a graph of maps, straight from what the
//! language says. No plan, no index, no stream: each clause is a function from a list of rows to a list of rows. Slow,
//! small, readable; it shares no code with what it checks but the parser and the type of values.
//!
//! Where the language leaves something open (in which order rows come, which of several shortest paths is taken, whether
//! the second operand of `AND` is looked at), a [`Variation`] chooses, so that two runs tell whether a query depends on it.

mod aggregate;
mod clause;
mod expression;
mod function;
pub mod graph;
pub mod logic;
pub mod notation;
mod pattern;
mod projection;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isomer_cypher::ast::{Clause, Query, Statement, StatementBody, UnionKind};
use isomer_value::{Map, Value};

use crate::random::Random;
use graph::Graph;

/// Variables and their values.
pub type Row = BTreeMap<Arc<str>, Value>;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The query is in error.
    Raised(String),
    /// It is in error for a row that a predicate was asked about, which another order of predicates may never meet.
    Asked(String),
    /// It takes more steps or rows than are worth it.
    TooLarge,
    /// This interpreter does not know it.
    Unknown(String),
}

/// Short for results of this module.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

/// The result of a predicate.
fn asked<T>(result: Result<T>) -> Result<T> {
    result.map_err(|fault| match fault {
        Fault::Raised(message) => Fault::Asked(message),
        other => other,
    })
}

/// An error of the query.
fn raised<T>(message: impl Into<String>) -> Result<T> {
    Err(Fault::Raised(message.into()))
}

/// What is chosen where the language leaves a choice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variation {
    /// How rows are shuffled where their order is open; 0 leaves them as they come.
    pub order: u64,
    /// Whether all operands of `AND`, `OR`, `CASE` and `coalesce` are looked at.
    pub eager: bool,
    /// Whether the condition of a `WITH` is asked before the columns that it does not read are made.
    pub late: bool,
}

/// Rows with named columns.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The names.
    pub columns: Vec<Arc<str>>,
    /// The rows.
    pub rows: Vec<Vec<Value>>,
    /// Where the last clause orders its rows: all of them with what they are ordered by, and which part is the answer.
    pub ordered: Option<Ordered>,
}

/// The rows of an `ORDER BY` before they are cut.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// What each row is ordered by, and the row, in order.
    pub rows: Vec<(Vec<Value>, Vec<Value>)>,
    /// The first row of the answer.
    pub from: usize,
    /// One behind the last.
    pub to: usize,
}

/// Most steps of one run.
const MAX_STEPS: usize = 60_000;
/// Most rows between two clauses.
const MAX_ROWS: usize = 3_000;

/// A run of one query.
pub struct Interpreter<'p> {
    graph: RefCell<Graph>,
    parameters: &'p Map,
    variation: Variation,
    random: RefCell<Random>,
    steps: Cell<usize>,
    /// Relationships that went with a node and that a `DELETE` still has to name.
    owed: RefCell<BTreeSet<u64>>,
    /// The types of deleted relationships, which stay known.
    types_of_deleted: RefCell<BTreeMap<u64, String>>,
}

/// Runs a statement on a copy of the graph: its answer, and the graph afterwards.
pub fn run(
    statement: &Statement,
    graph: &Graph,
    parameters: &Map,
    variation: Variation,
) -> Result<(Answer, Graph)> {
    let StatementBody::Query(query) = &statement.body else {
        return Err(Fault::Unknown("statements about the schema".into()));
    };
    let interpreter = Interpreter {
        graph: RefCell::new(graph.clone()),
        parameters,
        variation,
        random: RefCell::new(Random::new(variation.order)),
        steps: Cell::new(0),
        owed: RefCell::default(),
        types_of_deleted: RefCell::default(),
    };
    let answer = interpreter.query(query, &Row::new())?;
    if !interpreter.owed.borrow().is_empty() {
        return raised("a deleted node still had relationships");
    }
    Ok((answer, interpreter.graph.into_inner()))
}

impl Interpreter<'_> {
    /// Counts work, and gives up where there is too much.
    fn step(&self) -> Result<()> {
        self.steps.set(self.steps.get() + 1);
        match self.steps.get() > MAX_STEPS {
            true => Err(Fault::TooLarge),
            false => Ok(()),
        }
    }

    /// The rows in an order that the language leaves open.
    fn in_any_order<T>(&self, mut rows: Vec<T>) -> Result<Vec<T>> {
        if rows.len() > MAX_ROWS {
            return Err(Fault::TooLarge);
        }
        if self.variation.order > 0 {
            let mut random = self.random.borrow_mut();
            for at in (1..rows.len()).rev() {
                rows.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        Ok(rows)
    }

    /// A query that sees the variables of `outer`.
    fn query(&self, query: &Query, outer: &Row) -> Result<Answer> {
        let mut whole = Answer::default();
        for branch in &query.branches {
            let (_, answer) = self.clauses(&branch.clauses, vec![outer.clone()])?;
            let answer = answer.unwrap_or_default();
            if whole.columns.is_empty() {
                whole.columns = answer.columns;
                whole.ordered = answer.ordered;
                whole.rows = answer.rows;
                continue;
            }
            let places: Option<Vec<usize>> = whole
                .columns
                .iter()
                .map(|name| answer.columns.iter().position(|other| other == name))
                .collect();
            let Some(places) = places else {
                return raised("the parts of a union have different columns");
            };
            whole.rows.extend(
                answer
                    .rows
                    .into_iter()
                    .map(|row| places.iter().map(|at| row[*at].clone()).collect::<Vec<_>>()),
            );
        }
        if query.branches.len() > 1 {
            whole.ordered = None;
            whole.rows = self.in_any_order(whole.rows)?;
            if query.union == UnionKind::Distinct {
                whole.rows = distinct(whole.rows);
            }
        }
        Ok(whole)
    }

    /// Clauses one after the other: the rows that are left, and what is returned.
    fn clauses(&self, clauses: &[Clause], rows: Vec<Row>) -> Result<(Vec<Row>, Option<Answer>)> {
        let mut rows = rows;
        for clause in clauses {
            if let Clause::Return(clause) = clause {
                let (_, answer) = self.project(&clause.projection, rows)?;
                return Ok((Vec::new(), Some(answer)));
            }
            rows = self.clause(clause, rows)?;
            if rows.len() > MAX_ROWS {
                return Err(Fault::TooLarge);
            }
        }
        Ok((rows, None))
    }
}

/// The first row of each group of equal ones.
fn distinct(rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let mut kept: Vec<Vec<Value>> = Vec::new();
    for row in rows {
        if !kept.iter().any(|one| logic::same_group(one, &row)) {
            kept.push(row);
        }
    }
    kept
}
