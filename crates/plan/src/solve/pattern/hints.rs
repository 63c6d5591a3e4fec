//! Hints: the searches prefer plans that follow them by [`UNFULFILLED`], and a finished plan is checked.

use crate::error::PlanError;
use crate::expr::{BoundExpr, SlotId};
use crate::logical::{HintKind, PatternHint};
use crate::physical::{Op, Operator};
use crate::solve::Result;

/// Cost of finding an element otherwise than its hint asks: more than any plan without it.
pub(super) const UNFULFILLED: f64 = 1e15;

/// Fails for the first hint that none of the operators of a pattern follows.
pub(super) fn check(hints: &[PatternHint], operators: &[Operator]) -> Result<()> {
    let unmet = hints
        .iter()
        .find(|hint| !operators.iter().any(|one| follows(&one.op, &hint.kind)));
    match unmet {
        None => Ok(()),
        Some(hint) => Err(PlanError::syntax(
            "UnfulfillableHint",
            format!("no plan follows this hint: {}", reason(&hint.kind)),
            hint.span,
        )
        .with_hint("leave the hint out, or change the condition or the pattern that it is about")),
    }
}

fn follows(op: &Op, hint: &HintKind) -> bool {
    match (op, hint) {
        (
            Op::IndexSeek(seek),
            HintKind::NodeIndex {
                node,
                index: Some(index),
                ..
            },
        ) => seek.node == *node && seek.index == *index,
        (
            Op::NodeByKey { node: found, .. },
            HintKind::NodeIndex {
                node, index: None, ..
            },
        ) => found == node,
        (
            Op::LabelScan {
                node: found,
                label: of,
                ..
            },
            HintKind::LabelScan { node, label },
        ) => found == node && of == label,
        (
            Op::RelationshipIndexSeek(seek),
            HintKind::RelationshipIndex {
                relationship,
                index,
            },
        ) => seek.scan.relationship == *relationship && seek.index == *index,
        (Op::RelationshipScan(scan), HintKind::TypeScan { relationship }) => {
            scan.relationship == *relationship
        }
        (Op::HashJoin { input_keys, .. }, HintKind::Join(nodes)) => nodes
            .iter()
            .all(|node| input_keys.iter().any(|key| is_slot(key, *node))),
        _ => false,
    }
}

fn is_slot(expr: &BoundExpr, slot: SlotId) -> bool {
    matches!(expr, BoundExpr::Slot(at) if *at == slot)
}

fn reason(hint: &HintKind) -> &'static str {
    match hint {
        HintKind::NodeIndex { .. } | HintKind::RelationshipIndex { .. } => {
            "no condition on the properties of the index can be answered by it at the start of the pattern"
        }
        HintKind::LabelScan { .. } | HintKind::TypeScan { .. } => {
            "the element is bound before, or another hint asks for something else"
        }
        HintKind::Join(_) => {
            "a join needs two parts of the pattern, each with relationships, that have exactly these nodes in common, \
             and neither of which depends on variables bound before"
        }
    }
}
