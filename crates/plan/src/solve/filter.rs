//! The order in which conditions are tested, and the operators that test them.
//!
//! Cheap conditions come first: plain ones, then those that count with a sub-plan, then those that ask whether a
//! sub-plan has a row. A condition that can fail is never tested before one that precedes it in the list: `n.x <> 0 AND
//! 10 / n.x > 1` succeeds for every graph.

use crate::arena::Arena;
use crate::expr::BoundExpr;
use crate::physical::Op;

use super::failure::{condition_can_fail, early};
use super::{Flow, Planner, cost, count_subqueries, exists_subqueries};

/// How a condition is tested. The order is that of the costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TestKind {
    Plain,
    /// Sub-plans that count run below the filter.
    Counting,
    /// A semi-apply.
    Existence,
}

/// A condition of a filter.
struct Test {
    condition: BoundExpr,
    kind: TestKind,
    weight: u32,
    can_fail: bool,
}

impl Test {
    fn new(condition: BoundExpr, arena: &Arena) -> Self {
        let kind = if !arena.plain && exists_subqueries::existence(&condition, arena).is_some() {
            TestKind::Existence
        } else if count_subqueries::counts(&condition, arena) {
            TestKind::Counting
        } else {
            TestKind::Plain
        };
        Self {
            kind,
            weight: match kind {
                TestKind::Counting => 0,
                TestKind::Plain | TestKind::Existence => cost::weight(&condition),
            },
            can_fail: condition_can_fail(&condition, arena),
            condition,
        }
    }
}

/// The conditions in the order of their tests.
fn in_test_order(conditions: Vec<BoundExpr>, arena: &Arena) -> Vec<Test> {
    let mut tests: Vec<Test> = Vec::with_capacity(conditions.len());
    for condition in conditions {
        let test = Test::new(condition, arena);
        // It waits for sub-plans that precede it, and they should run for few rows.
        let waits = test.can_fail && tests.iter().any(|other| other.kind > test.kind);
        if waits && test.kind == TestKind::Plain {
            tests.extend(early(&test.condition).map(|copy| Test::new(copy, arena)));
        }
        tests.push(test);
    }
    if !tests.iter().any(|test| test.can_fail) {
        tests.sort_by_key(|test| (test.kind, test.weight));
        return tests;
    }
    let mut ordered = Vec::with_capacity(tests.len());
    while !tests.is_empty() {
        // One that can fail is ready when all that precede it are done.
        let ready = tests.iter().enumerate();
        let ready = ready.filter(|(at, test)| *at == 0 || !test.can_fail);
        let next = ready.min_by_key(|(at, test)| (test.kind, test.weight, *at));
        let at = next.map_or(0, |(at, _)| at);
        ordered.push(tests.remove(at));
    }
    ordered
}

impl Planner<'_> {
    /// Adds operators that keep the rows for which all conditions are true.
    pub(super) fn filter(&mut self, flow: &mut Flow, conditions: Vec<BoundExpr>) {
        let conditions = self.in_place_of_early(flow, conditions);
        let mut tests = in_test_order(conditions, self.arena).into_iter().peekable();
        while let Some(first) = tests.next() {
            let kind = first.kind;
            if kind == TestKind::Existence {
                semi_apply(self, flow, &first.condition);
                continue;
            }
            let mut conditions = vec![first.condition];
            while let Some(next) = tests.next_if(|next| next.kind == kind) {
                conditions.push(next.condition);
            }
            match kind {
                TestKind::Counting => filter_by_counts(self, flow, conditions),
                TestKind::Plain | TestKind::Existence => filter_plainly(self, flow, conditions),
            }
        }
    }

    /// Where the filter of the early copy of a condition is the last operator, the condition replaces the copy; returns
    /// the other conditions.
    fn in_place_of_early(&mut self, flow: &Flow, conditions: Vec<BoundExpr>) -> Vec<BoundExpr> {
        let mut at = flow.op;
        while let Op::Project { input, columns } = &self.arena.operators[at.index()].op
            && columns
                .iter()
                .all(|(_, expr)| matches!(expr, BoundExpr::Slot(_)))
        {
            at = *input;
        }
        let Op::Filter { predicates, .. } = &mut self.arena.operators[at.index()].op else {
            return conditions;
        };
        let mut others: Vec<BoundExpr> = Vec::new();
        for condition in conditions {
            // In their order: one that follows a condition of a filter above must stay above it.
            let copy = predicates.iter().position(|one| match one {
                BoundExpr::Early(inner) => others.is_empty() && **inner == condition,
                _ => false,
            });
            match copy {
                Some(at) => {
                    predicates.remove(at);
                    predicates.push(condition);
                }
                None => others.push(condition),
            }
        }
        others
    }
}

fn filter_plainly(planner: &mut Planner<'_>, flow: &mut Flow, predicates: Vec<BoundExpr>) {
    let selectivity: f64 = predicates
        .iter()
        .map(|predicate| planner.costs.selectivity(predicate, planner.arena))
        .product();
    let rows = planner.rows(flow) * selectivity;
    planner.push(flow, |input| Op::Filter { input, predicates }, rows);
}

fn filter_by_counts(planner: &mut Planner<'_>, flow: &mut Flow, mut predicates: Vec<BoundExpr>) {
    for predicate in &mut predicates {
        planner.decorrelate_counts(flow, predicate);
    }
    let rows = planner.rows(flow) * 0.3f64.powi(predicates.len().min(8) as i32);
    planner.push(flow, |input| Op::Filter { input, predicates }, rows);
}

fn semi_apply(planner: &mut Planner<'_>, flow: &mut Flow, predicate: &BoundExpr) {
    let Some((root, anti)) = exists_subqueries::existence(predicate, planner.arena) else {
        return;
    };
    // A copy: the original sub-plan may be the value of the same expression elsewhere, and its
    // leaves return one row, while those of the copy return the rows below this apply.
    let right = exists_subqueries::graft(planner.arena, root, flow.op);
    let rows = planner.rows(flow) * 0.5;
    planner.push(flow, |input| Op::SemiApply { input, right, anti }, rows);
}
