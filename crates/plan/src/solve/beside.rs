//! `COUNT { … }` beside the rows: its sub-plan runs for whole chunks at once, not once for each row in the middle of an
//! expression.

use crate::arena::Arena;
use crate::expr::{Expr, Kind, SlotId, Subquery, SubqueryKind};
use crate::function::Function;
use crate::physical::{Op, OpId};

use super::semi::{graft, is_row_wise};
use super::{Flow, Planner};

impl Planner<'_> {
    /// Takes the counting sub-plans out of an expression, where they are evaluated for each row in any case, and puts
    /// slots in their place, which are filled below.
    pub(super) fn count_beside(&mut self, flow: &mut Flow, expr: &mut Expr) {
        if self.arena.plain {
            return;
        }
        while let Some(root) = first_count(expr, self.arena) {
            let right = graft(self.arena, root, flow.op);
            let factor = match &self.arena.operators[right.index()].op {
                Op::Degree(degree) => Some(degree.count),
                _ => None,
            };
            let count = self.arena.slot("", Kind::Integer);
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

/// Whether there is something to take out of an expression.
pub(super) fn counts(expr: &Expr, arena: &Arena) -> bool {
    !arena.plain && first_count(expr, arena).is_some()
}

/// Whether a sub-plan counts, takes only slots from around it, and treats each row by itself.
fn counted(subquery: &Subquery, arena: &Arena) -> bool {
    let plain =
        |(slot, outside): &(SlotId, Expr)| matches!(outside, Expr::Slot(same) if same == slot);
    // One that takes nothing is the same for all rows: nothing is gained by counting again for each.
    subquery.kind == SubqueryKind::Count
        && !subquery.arguments.is_empty()
        && subquery.arguments.iter().all(plain)
        && is_row_wise(arena, subquery.root)
}

/// Whether all operands of an expression are evaluated whenever it is.
fn is_strict(expr: &Expr) -> bool {
    match expr {
        Expr::Compare { .. }
        | Expr::Arith { .. }
        | Expr::ArithChain { .. }
        | Expr::At { .. }
        | Expr::Negate(_)
        | Expr::Plus(_)
        | Expr::Not(_)
        | Expr::List(_)
        | Expr::Map(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_) => true,
        Expr::Call { function, .. } => *function != Function::Coalesce,
        _ => false,
    }
}

fn first_count(expr: &Expr, arena: &Arena) -> Option<OpId> {
    match expr {
        Expr::Subquery(subquery) if counted(subquery, arena) => Some(subquery.root),
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

/// Puts the slot in the place of the sub-plan.
fn replace(expr: &mut Expr, root: OpId, slot: SlotId) {
    if matches!(expr, Expr::Subquery(subquery) if subquery.root == root) {
        *expr = Expr::Slot(slot);
    } else if is_strict(expr) {
        expr.for_each_child_mut(&mut |child| replace(child, root, slot));
    }
}
