//! Decorrelates `COUNT { … }`: its sub-plan becomes the right side of an apply that runs for whole chunks, instead of
//! an expression that runs once per row.

use crate::arena::Arena;
use crate::expr::{BoundExpr, SlotId, StaticType, Subquery, SubqueryResult};
use crate::function::Function;
use crate::physical::{Op, OpId};

use super::exists_subqueries::{graft, treats_rows_independently};
use super::{Flow, Planner};

impl Planner<'_> {
    /// Takes the counting sub-plans out of an expression if they are evaluated for each row in any case, and replaces
    /// them by slots that are computed below.
    pub(super) fn decorrelate_counts(&mut self, flow: &mut Flow, expr: &mut BoundExpr) {
        if self.arena.plain {
            return;
        }
        // One after the other: each replaced count is a slot, and the next
        // apply is above the one before.
        while let Some(root) = first_count(expr, self.arena) {
            let right = graft(self.arena, root, flow.op);
            // A degree at the top has the count in a slot already: it is added up instead of counting rows.
            let factor = match &self.arena.operators[right.index()].op {
                Op::Degree(degree) => Some(degree.count),
                _ => None,
            };
            let count = self.arena.slot("", StaticType::Integer);
            let rows = self.rows(flow);
            flow.bound.insert(count);
            self.push(
                flow,
                |input| Op::CountApply {
                    input,
                    right,
                    count,
                    factor,
                },
                rows,
            );
            replace(expr, root, count);
        }
    }
}

/// Whether an expression contains a sub-plan that can be taken out.
pub(super) fn counts(expr: &BoundExpr, arena: &Arena) -> bool {
    !arena.plain && first_count(expr, arena).is_some()
}

/// Whether a sub-plan counts, reads only slots from outside, and treats each row independently.
fn counted(subquery: &Subquery, arena: &Arena) -> bool {
    let plain = |(slot, outside): &(SlotId, BoundExpr)| matches!(outside, BoundExpr::Slot(same) if same == slot);
    // One without arguments is the same for all rows: counting again for each row would gain nothing.
    subquery.kind == SubqueryResult::Count
        && !subquery.arguments.is_empty()
        && subquery.arguments.iter().all(plain)
        && treats_rows_independently(arena, subquery.root)
}

/// Whether all operands of an expression are always evaluated.
fn is_strict(expr: &BoundExpr) -> bool {
    match expr {
        BoundExpr::Compare { .. }
        | BoundExpr::Arith { .. }
        | BoundExpr::ArithChain { .. }
        | BoundExpr::At { .. }
        | BoundExpr::Negate(_)
        | BoundExpr::Plus(_)
        | BoundExpr::Not(_)
        | BoundExpr::List(_)
        | BoundExpr::Map(_)
        | BoundExpr::IsNull(_)
        | BoundExpr::IsNotNull(_) => true,
        BoundExpr::Call { function, .. } => *function != Function::Coalesce,
        _ => false,
    }
}

fn first_count(expr: &BoundExpr, arena: &Arena) -> Option<OpId> {
    match expr {
        BoundExpr::Subquery(subquery) if counted(subquery, arena) => Some(subquery.root),
        expr if is_strict(expr) => {
            let mut found = None;
            expr.for_each_child(&mut |child| {
                if found.is_none() {
                    found = first_count(child, arena);
                }
            });
            found
        }
        _ => None,
    }
}

/// Replaces the sub-plan by the slot.
fn replace(expr: &mut BoundExpr, root: OpId, slot: SlotId) {
    if matches!(expr, BoundExpr::Subquery(subquery) if subquery.root == root) {
        *expr = BoundExpr::Slot(slot);
    } else if is_strict(expr) {
        expr.for_each_child_mut(&mut |child| replace(child, root, slot));
    }
}
