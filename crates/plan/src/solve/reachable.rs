//! The operators that a plan reaches from its roots, and whether they run for outer rows.

use crate::arena::Arena;
use crate::expr::BoundExpr;
use crate::physical::{Op, OpId};

use super::live_slots::for_each_expr;

/// The operators of a plan and of its sub-plans, each with the outer rows that its leaves return.
pub(super) struct ReachableOperators {
    reached: Vec<bool>,
    right_sides: Vec<bool>,
    outer_rows: Vec<bool>,
}

impl ReachableOperators {
    /// Of the operators under `root` and of all sub-plans.
    pub(super) fn of(arena: &Arena, root: Option<OpId>) -> Self {
        let count = arena.operators.len();
        let mut reachable = Self {
            reached: vec![false; count],
            right_sides: vec![false; count],
            outer_rows: vec![false; count],
        };
        let subplans = arena.subplans.iter().map(|(root, _)| *root);
        let roots = root.into_iter().chain(subplans);
        // Operators to visit: whether on a right side, and whether for outer rows.
        let mut open: Vec<(OpId, bool, bool)> = roots.map(|root| (root, false, false)).collect();
        while let Some((id, right, outer)) = open.pop() {
            let at = id.index();
            // Plans share operators, so one may be reached several times. It is visited again only if that
            // adds a property, which bounds the visits to three per operator.
            let is_known = reachable.right_sides[at] >= right && reachable.outer_rows[at] >= outer;
            if std::mem::replace(&mut reachable.reached[at], true) && is_known {
                continue;
            }
            reachable.right_sides[at] |= right;
            reachable.outer_rows[at] |= outer;
            let (right, outer) = (reachable.right_sides[at], reachable.outer_rows[at]);
            let op = &arena.operators[at].op;
            for_each_expr(op, &mut |expr| open_subplans(expr, &mut open));
            let is_apply = matches!(
                op,
                Op::Apply { .. }
                    | Op::BatchApply(_)
                    | Op::OptionalApply { .. }
                    | Op::SemiApply { .. }
                    | Op::CountApply { .. }
            );
            for (position, child) in op.children().into_iter().enumerate() {
                let is_right = is_apply && position == 1;
                open.push((child, right || is_right, outer || is_right));
            }
        }
        reachable
    }

    /// Whether it is part of the plan: a rewrite may have disconnected it.
    pub(super) fn contains(&self, at: usize) -> bool {
        self.reached[at]
    }

    /// Whether it is on the right side of an apply.
    pub(super) fn is_right_side(&self, at: usize) -> bool {
        self.right_sides[at]
    }

    /// Whether its leaves return a row with slots: that of an apply, or the arguments of a sub-plan.
    pub(super) fn has_outer_rows(&self, at: usize) -> bool {
        self.outer_rows[at]
    }
}

/// The sub-plans of an expression: those with arguments run for a row.
fn open_subplans(expr: &BoundExpr, open: &mut Vec<(OpId, bool, bool)>) {
    if let BoundExpr::Subquery(subquery) = expr {
        open.push((subquery.root, false, !subquery.arguments.is_empty()));
    }
    expr.for_each_child(&mut |child| open_subplans(child, open));
}
