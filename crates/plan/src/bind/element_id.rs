//! Comparisons of element ids.
//!
//! An element id has two input forms: the result of `elementId()`, and the plain number (see
//! [`isomer_value::DatabaseId`]). So a comparison with `elementId(x)` compares numbers if it is known whether `x` is a
//! node or a relationship: `elementId(n) = $id` becomes `id(n) = nodeIdOf($id)`, which is a lookup like every
//! comparison with `id(n)`. Otherwise the other side is converted to the full form: `elementId(x) = elementIdLike(x,
//! $id)`. `elementId(n) IN $ids` is the same with `nodeIdsOf` and `elementIdsLike`, which take lists.

use crate::arena::Arena;
use crate::expr::{BoundExpr, Comparison, StaticType};
use crate::function::Function;

/// The functions that convert what an element id is compared with.
struct Conversions {
    of_node: Function,
    of_relationship: Function,
    of_either: Function,
}

/// For one element id.
const ONE: Conversions = Conversions {
    of_node: Function::NodeIdOf,
    of_relationship: Function::RelationshipIdOf,
    of_either: Function::ElementIdLike,
};

/// For a list of them.
const EACH: Conversions = Conversions {
    of_node: Function::NodeIdsOf,
    of_relationship: Function::RelationshipIdsOf,
    of_either: Function::ElementIdsLike,
};

/// `left op right`, if element ids are compared in either of their forms.
pub(super) fn compare(
    op: Comparison,
    left: BoundExpr,
    right: BoundExpr,
    arena: &Arena,
) -> BoundExpr {
    let (left, right) = match op {
        Comparison::Equal | Comparison::NotEqual => match (argument(&left), argument(&right)) {
            (Some(entity), None) => sides(entity.clone(), right, &ONE, arena),
            (None, Some(entity)) => {
                let (right, left) = sides(entity.clone(), left, &ONE, arena);
                (left, right)
            }
            _ => (left, right),
        },
        _ => (left, right),
    };
    BoundExpr::Compare {
        op,
        left: Box::new(left),
        right: Box::new(right),
    }
}

/// `item IN list`, if element ids are compared in either of their forms.
pub(super) fn contains(item: BoundExpr, list: BoundExpr, arena: &Arena) -> BoundExpr {
    let (item, list) = match argument(&item) {
        Some(entity) => sides(entity.clone(), list, &EACH, arena),
        None => (item, list),
    };
    BoundExpr::In {
        item: Box::new(item),
        list: Box::new(list),
    }
}

/// The entity whose element id an expression is.
fn argument(expr: &BoundExpr) -> Option<&BoundExpr> {
    match expr {
        BoundExpr::Call {
            function: Function::ElementId,
            arguments,
        } => arguments.first(),
        _ => None,
    }
}

/// Both sides of a comparison of the element id of `entity` with `other`.
fn sides(
    entity: BoundExpr,
    other: BoundExpr,
    conversions: &Conversions,
    arena: &Arena,
) -> (BoundExpr, BoundExpr) {
    let kind = match &entity {
        BoundExpr::Slot(slot) => arena.kind(*slot).clone(),
        BoundExpr::Call { function, .. } => function.kind(),
        _ => StaticType::Any,
    };
    let number_of = match kind {
        StaticType::Node => conversions.of_node,
        StaticType::Relationship => conversions.of_relationship,
        _ => {
            let like = call(conversions.of_either, vec![entity.clone(), other]);
            return (call(Function::ElementId, vec![entity]), like);
        }
    };
    (
        call(Function::Id, vec![entity]),
        call(number_of, vec![other]),
    )
}

fn call(function: Function, arguments: Vec<BoundExpr>) -> BoundExpr {
    BoundExpr::Call {
        function,
        arguments,
    }
}
