//! Whole queries over a graph of maps. No plan, no index, no stream: each clause is a function from a list of
//! rows to a list of rows. Slow, small, readable.
//!
//! Where the language leaves a choice (the order of rows, which of several shortest paths is returned,
//! whether the second operand of `AND` is evaluated), a [`Variation`] makes it, so that two runs show whether
//! a query depends on it.

mod aggregate;
mod clause;
mod expression;
mod function;
mod pattern;
mod projection;
mod write;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isomer_cypher::ast::{Clause, RegularQuery, Statement, StatementBody, UnionKind};

use crate::fault::{Fault, Result, raised};
use crate::graph::Graph;
use crate::{Datum, Map, RelationshipValue, logic};

/// Variables and their values.
pub type Row = BTreeMap<Arc<str>, Datum>;

/// The choices that the language leaves open.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variation {
    /// Seed for shuffling rows whose order is undefined; 0 keeps the order.
    pub order: u64,
    /// Whether all operands of `AND`, `OR`, `CASE` and `coalesce` are evaluated.
    pub eager: bool,
    /// Whether the predicate of a `WITH` is evaluated before the columns that it does not read.
    pub late: bool,
}

/// Rows with named columns.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The names.
    pub columns: Vec<Arc<str>>,
    /// The rows.
    pub rows: Vec<Vec<Datum>>,
    /// If the last clause orders its rows: all of them with their sort keys, and the range that is returned.
    pub ordered: Option<Ordered>,
}

/// The rows of an `ORDER BY` before paging.
#[derive(Clone, Debug)]
pub struct Ordered {
    /// Sort key and row, in order.
    pub rows: Vec<(Vec<Datum>, Vec<Datum>)>,
    /// The first returned row.
    pub from: usize,
    /// One past the last returned row.
    pub to: usize,
}

/// Maximum number of operations per run.
const MAX_STEPS: usize = 60_000;
/// Maximum number of rows between two clauses.
const MAX_ROWS: usize = 3_000;

/// A run of one query.
pub struct Interpreter<'p> {
    graph: RefCell<Graph>,
    parameters: &'p Map,
    variation: Variation,
    shuffle: Cell<u64>,
    steps: Cell<usize>,
    /// Relationships deleted with a node, which a `DELETE` must still name.
    owed: RefCell<BTreeSet<u64>>,
    /// The types of deleted relationships, which can still be read.
    types_of_deleted: RefCell<BTreeMap<u64, String>>,
    /// What the current subquery sees of the queries around it, also after its `WITH`.
    imported: RefCell<Row>,
}

/// Runs a statement on a copy of the graph; returns its result and the graph afterwards.
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
        shuffle: Cell::new(variation.order),
        steps: Cell::new(0),
        owed: RefCell::default(),
        types_of_deleted: RefCell::default(),
        imported: RefCell::default(),
    };
    let answer = interpreter.query(query, &Row::new())?;
    if !interpreter.owed.borrow().is_empty() {
        return raised("a deleted node still had relationships");
    }
    Ok((answer, interpreter.graph.into_inner()))
}

impl Interpreter<'_> {
    /// Counts operations, and stops at the limit.
    fn count_operation(&self) -> Result<()> {
        self.steps.set(self.steps.get() + 1);
        match self.steps.get() > MAX_STEPS {
            true => Err(Fault::TooLarge),
            false => Ok(()),
        }
    }

    /// The next number of the sequence of this order of rows (splitmix64).
    fn drawn(&self) -> u64 {
        let state = self.shuffle.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.shuffle.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// The rows in one of the possible orders.
    fn in_any_order<T>(&self, mut rows: Vec<T>) -> Result<Vec<T>> {
        if rows.len() > MAX_ROWS {
            return Err(Fault::TooLarge);
        }
        if self.variation.order > 0 {
            for at in (1..rows.len()).rev() {
                rows.swap(at, (self.drawn() % (at as u64 + 1)) as usize);
            }
        }
        Ok(rows)
    }

    fn relationship(&self, id: u64) -> Result<RelationshipValue> {
        match self.graph.borrow().relationships.get(&id) {
            Some(one) => Ok(RelationshipValue {
                id,
                source: one.source,
                target: one.target,
                content: None,
            }),
            None => raised("the relationship was deleted"),
        }
    }

    /// A subquery that sees the variables of `outer`.
    fn query(&self, query: &RegularQuery, outer: &Row) -> Result<Answer> {
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

    /// Runs a subquery whose clauses see `imported`, whatever its `WITH` keeps.
    fn importing<T>(&self, imported: Row, run: impl FnOnce() -> Result<T>) -> Result<T> {
        let around = self.imported.replace(imported);
        let result = run();
        self.imported.replace(around);
        result
    }

    /// The row with what the subquery imports; its own variables hide imported ones.
    fn with_imports(&self, row: Row) -> Row {
        let mut whole = self.imported.borrow().clone();
        whole.extend(row);
        whole
    }

    /// Runs clauses in sequence: the remaining rows, and the result.
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
fn distinct(rows: Vec<Vec<Datum>>) -> Vec<Vec<Datum>> {
    let mut kept: Vec<Vec<Datum>> = Vec::new();
    for row in rows {
        if !kept.iter().any(|one| logic::same_group(one, &row)) {
            kept.push(row);
        }
    }
    kept
}

/// A row with one additional or replaced variable.
fn with(row: &Row, name: &Arc<str>, value: Datum) -> Row {
    let mut row = row.clone();
    row.insert(name.clone(), value);
    row
}
