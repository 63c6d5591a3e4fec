//! Conditions that can fail for a row: with a division by zero, a value of the wrong type, an invalid regular
//! expression.
//!
//! A condition that can fail must not be tested for a row that a condition written before it drops: `WITH n WHERE
//! n.x <> 0 WITH n WHERE 10 / n.x > 1` succeeds for every graph. The functions here err on one side only: they may say
//! that a condition can fail although it cannot.

use isomer_value::Value;

use crate::arena::Arena;
use crate::expr::{BoundExpr, LocalId, MapItem, SlotId, StaticType, StringTest, Subquery};
use crate::function::{Aggregation, Function};
use crate::physical::{Op, OpId};

use super::live_slots::for_each_expr;

/// Whether the test of a condition can end the statement with an error.
pub(crate) fn condition_can_fail(condition: &BoundExpr, arena: &Arena) -> bool {
    !Safety::new(arena).is_safe_condition(condition)
}

/// Whether the evaluation of an expression can end the statement with an error.
pub(crate) fn value_can_fail(expr: &BoundExpr, arena: &Arena) -> bool {
    !Safety::new(arena).is_safe(expr)
}

/// Whether the test of a condition on the relationships of a walk can end the statement with an error; the local is a
/// relationship.
pub(crate) fn step_can_fail(local: LocalId, condition: &BoundExpr, arena: &Arena) -> bool {
    let mut safety = Safety::new(arena);
    safety.entity_locals.push(local);
    !safety.is_safe_condition(condition)
}

/// The copy of a condition that is tested before its turn. A sub-plan is not run twice to drop rows early.
pub(crate) fn early(condition: &BoundExpr) -> Option<BoundExpr> {
    (!condition.has_subquery()).then(|| BoundExpr::Early(Box::new(condition.clone())))
}

/// The slots that an expression reads.
pub(crate) fn slots_of(expr: &BoundExpr) -> Vec<SlotId> {
    let mut slots = Vec::new();
    expr.for_each_slot(&mut |slot| slots.push(slot));
    slots
}

struct Safety<'a> {
    arena: &'a Arena,
    /// Locals that are nodes or relationships.
    entity_locals: Vec<LocalId>,
}

impl<'a> Safety<'a> {
    fn new(arena: &'a Arena) -> Self {
        Self {
            arena,
            entity_locals: Vec::new(),
        }
    }

    fn is_safe_condition(&mut self, condition: &BoundExpr) -> bool {
        self.is_boolean(condition) && self.is_safe(condition)
    }

    /// Whether the value is a boolean or null.
    fn is_boolean(&self, expr: &BoundExpr) -> bool {
        match expr {
            BoundExpr::Const(value) => matches!(value, Value::Bool(_) | Value::Null),
            BoundExpr::Not(_)
            | BoundExpr::And(_)
            | BoundExpr::Or(_)
            | BoundExpr::Xor(_)
            | BoundExpr::Compare { .. }
            | BoundExpr::StringTest { .. }
            | BoundExpr::In { .. }
            | BoundExpr::IsNull(_)
            | BoundExpr::IsNotNull(_)
            | BoundExpr::IsTyped { .. }
            | BoundExpr::HasLabels { .. }
            | BoundExpr::HasType { .. }
            | BoundExpr::Early(_)
            | BoundExpr::Quantifier { .. } => true,
            BoundExpr::At { inner, .. } => self.is_boolean(inner),
            BoundExpr::Slot(slot) => matches!(self.arena.kind(*slot), StaticType::Boolean),
            BoundExpr::Call {
                function: Function::Coalesce,
                arguments,
            } => arguments.iter().all(|argument| self.is_boolean(argument)),
            BoundExpr::Call { function, .. } => function.kind() == StaticType::Boolean,
            BoundExpr::Subquery(subquery) => {
                matches!(subquery.kind, crate::expr::SubqueryResult::Exists)
            }
            _ => false,
        }
    }

    fn all_safe(&mut self, exprs: &[BoundExpr]) -> bool {
        exprs.iter().all(|expr| self.is_safe(expr))
    }

    fn all_safe_conditions(&mut self, terms: &[BoundExpr]) -> bool {
        terms.iter().all(|term| self.is_safe_condition(term))
    }

    /// Whether the expression has a value for every row.
    fn is_safe(&mut self, expr: &BoundExpr) -> bool {
        match expr {
            BoundExpr::Slot(_)
            | BoundExpr::Local(_)
            | BoundExpr::Const(_)
            | BoundExpr::Param(_)
            | BoundExpr::Early(_)
            | BoundExpr::BuildPath { .. } => true,
            BoundExpr::Property { base, nested, .. } => {
                (*nested || self.has_fields(base)) && self.is_safe(base)
            }
            BoundExpr::HasLabels { entity: base, .. } | BoundExpr::HasType { entity: base, .. } => {
                self.is_entity(base) && self.is_safe(base)
            }
            BoundExpr::At { inner, .. }
            | BoundExpr::IsNull(inner)
            | BoundExpr::IsNotNull(inner)
            | BoundExpr::IsTyped { operand: inner, .. } => self.is_safe(inner),
            BoundExpr::List(items) => self.all_safe(items),
            BoundExpr::Map(items) => items.iter().all(|(_, item)| self.is_safe(item)),
            BoundExpr::MapProjection { base, items } => {
                self.has_fields(base)
                    && self.is_safe(base)
                    && items.iter().all(|item| match item {
                        MapItem::All => true,
                        MapItem::Entry(_, value) => self.is_safe(value),
                    })
            }
            BoundExpr::Not(term) => self.is_safe_condition(term),
            BoundExpr::And(terms) | BoundExpr::Or(terms) | BoundExpr::Xor(terms) => {
                self.all_safe_conditions(terms)
            }
            BoundExpr::Compare { left, right, .. } => self.is_safe(left) && self.is_safe(right),
            BoundExpr::StringTest { op, left, right } => {
                *op != StringTest::Matches && self.is_safe(left) && self.is_safe(right)
            }
            BoundExpr::In { item, list } => {
                self.is_list(list) && self.is_safe(item) && self.is_safe(list)
            }
            BoundExpr::Case {
                subject,
                arms,
                otherwise,
            } => {
                let has_subject = subject.is_some();
                subject.as_deref().is_none_or(|expr| self.is_safe(expr))
                    && otherwise.as_deref().is_none_or(|expr| self.is_safe(expr))
                    && arms.iter().all(|(when, then)| {
                        (has_subject || self.is_boolean(when))
                            && self.is_safe(when)
                            && self.is_safe(then)
                    })
            }
            BoundExpr::Call {
                function,
                arguments,
            } => self.is_safe_call(*function, arguments) && self.all_safe(arguments),
            BoundExpr::ListComprehension {
                list,
                local,
                predicate,
                result,
            } => {
                self.is_safe_list(list, *local)
                    && predicate
                        .as_deref()
                        .is_none_or(|one| self.is_safe_condition(one))
                    && result.as_deref().is_none_or(|one| self.is_safe(one))
            }
            BoundExpr::Quantifier {
                list,
                local,
                predicate,
                ..
            } => self.is_safe_list(list, *local) && self.is_safe_condition(predicate),
            BoundExpr::Subquery(subquery) => self.is_safe_subquery(subquery),
            BoundExpr::Index { .. }
            | BoundExpr::Slice { .. }
            | BoundExpr::Arith { .. }
            | BoundExpr::ArithChain { .. }
            | BoundExpr::Negate(_)
            | BoundExpr::Plus(_)
            | BoundExpr::Cast { .. }
            | BoundExpr::CallRegistered { .. }
            | BoundExpr::Reduce { .. } => false,
        }
    }

    /// Whether a list is one, and notes what its elements are.
    fn is_safe_list(&mut self, list: &BoundExpr, element: LocalId) -> bool {
        if matches!(
            self.kind(list).element(),
            StaticType::Node | StaticType::Relationship
        ) {
            self.entity_locals.push(element);
        }
        self.is_list(list) && self.is_safe(list)
    }

    fn kind(&self, expr: &BoundExpr) -> StaticType {
        match expr {
            BoundExpr::Slot(slot) => self.arena.kind(*slot).clone(),
            BoundExpr::Call { function, .. } => function.kind(),
            BoundExpr::At { inner, .. } => self.kind(inner),
            _ => StaticType::Any,
        }
    }

    /// Whether the value is a node, a relationship or null.
    fn is_entity(&self, expr: &BoundExpr) -> bool {
        match expr {
            BoundExpr::Local(local) => self.entity_locals.contains(local),
            other => matches!(
                self.kind(other),
                StaticType::Node | StaticType::Relationship
            ),
        }
    }

    /// Whether the value is an entity, a map or null.
    fn has_fields(&self, expr: &BoundExpr) -> bool {
        self.is_entity(expr)
            || matches!(self.kind(expr), StaticType::Map)
            || matches!(expr, BoundExpr::Map(_))
    }

    /// Whether the value is a list or null. A parameter is assumed to be one: if it is not, the statement is wrong for
    /// every graph.
    fn is_list(&self, expr: &BoundExpr) -> bool {
        match expr {
            BoundExpr::Const(value) => matches!(value, Value::List(_) | Value::Null),
            BoundExpr::List(_) | BoundExpr::Param(_) | BoundExpr::ListComprehension { .. } => true,
            BoundExpr::Subquery(subquery) => {
                matches!(subquery.kind, crate::expr::SubqueryResult::Collect(_))
            }
            other => matches!(self.kind(other), StaticType::List(_)),
        }
    }

    /// Whether a function has a value for all values of these arguments.
    fn is_safe_call(&self, function: Function, arguments: &[BoundExpr]) -> bool {
        let first_is = |fits: &dyn Fn(&BoundExpr) -> bool| arguments.first().is_some_and(fits);
        match function {
            Function::Coalesce
            | Function::NullIf
            | Function::ValueType
            | Function::Exists
            | Function::ToIntegerOrNull
            | Function::ToFloatOrNull
            | Function::ToBooleanOrNull
            | Function::ToStringOrNull
            | Function::NodeIdOf
            | Function::RelationshipIdOf
            | Function::NodeIdsOf
            | Function::RelationshipIdsOf => true,
            Function::Id
            | Function::ElementId
            | Function::Labels
            | Function::Keys
            | Function::Properties
            | Function::ConvergentKind
            | Function::ConvergentValue
            | Function::ConvergentContains
            | Function::ConvergentSize
            | Function::Type
            | Function::StartNode
            | Function::EndNode => first_is(&|one| self.is_entity(one)),
            Function::Nodes | Function::Relationships | Function::Length => {
                first_is(&|one| matches!(self.kind(one), StaticType::Path))
            }
            Function::Size | Function::Head | Function::Last | Function::Tail => {
                first_is(&|one| self.is_list(one))
            }
            _ => false,
        }
    }

    fn is_safe_subquery(&mut self, subquery: &Subquery) -> bool {
        let arena = self.arena;
        let mut open: Vec<OpId> = vec![subquery.root];
        while let Some(id) = open.pop() {
            let op = &arena.operators[id.index()].op;
            open.extend(op.children());
            let mut safe = match op {
                Op::Filter { predicates, .. } => self.all_safe_conditions(predicates),
                // The numbers of rows are constants, or a value that must be checked.
                Op::Skip { count, .. } | Op::Limit { count, .. } => {
                    matches!(count, BoundExpr::Const(_))
                }
                Op::Top { limit, .. } => matches!(limit, BoundExpr::Const(_)),
                Op::VarExpand(expand) => expand
                    .step_predicate
                    .iter()
                    .all(|(local, one)| !step_can_fail(*local, one, arena)),
                Op::Unwind { list, .. } => self.is_list(list),
                Op::Aggregate(aggregate) => aggregate.aggregates.iter().all(|(_, call)| {
                    matches!(
                        call.function,
                        Aggregation::CountRows | Aggregation::Count | Aggregation::Collect
                    )
                }),
                Op::Argument
                | Op::AllNodesScan { .. }
                | Op::LabelScan { .. }
                | Op::NodeByKey { .. }
                | Op::NodeById { .. }
                | Op::IndexSeek(_)
                | Op::RelationshipScan(_)
                | Op::RelationshipIndexSeek(_)
                | Op::RelationshipById { .. }
                | Op::Expand(_)
                | Op::ExpandInto(_)
                | Op::Degree(_)
                | Op::RelationshipEnds(_)
                | Op::Apply { .. }
                | Op::OptionalApply { .. }
                | Op::SemiApply { .. }
                | Op::CountApply { .. }
                | Op::CartesianProduct { .. }
                | Op::HashJoin { .. }
                | Op::Union { .. }
                | Op::Distinct { .. }
                | Op::Sort { .. }
                | Op::Project { .. } => true,
                // Searches with conditions of their own, procedures, files.
                _ => false,
            };
            if !matches!(op, Op::Filter { .. } | Op::VarExpand(_)) {
                for_each_expr(op, &mut |expr| safe = safe && self.is_safe(expr));
            }
            if !safe {
                return false;
            }
        }
        let arguments = subquery.arguments.iter();
        arguments.into_iter().all(|(_, value)| self.is_safe(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Arithmetic, Comparison};

    fn divided(by: BoundExpr) -> BoundExpr {
        BoundExpr::Compare {
            op: Comparison::Greater,
            left: Box::new(BoundExpr::Arith {
                op: Arithmetic::Divide,
                left: Box::new(BoundExpr::Const(Value::Int(10))),
                right: Box::new(by),
            }),
            right: Box::new(BoundExpr::Const(Value::Int(1))),
        }
    }

    #[test]
    fn properties_of_entities_are_safe_and_arithmetic_is_not() {
        let mut arena = Arena::default();
        let node = arena.slot("n", StaticType::Node);
        let any = arena.slot("row", StaticType::Any);
        let x = arena.property("x");
        let read = |slot| BoundExpr::property(BoundExpr::Slot(slot), x);
        let is_one = |slot| BoundExpr::equal(read(slot), BoundExpr::Const(Value::Int(1)));
        assert!(!condition_can_fail(&is_one(node), &arena));
        assert!(condition_can_fail(&is_one(any), &arena));
        assert!(condition_can_fail(&divided(read(node)), &arena));
        let both = BoundExpr::And(vec![is_one(node), divided(read(node))]);
        assert!(condition_can_fail(&both, &arena));
        // A property need not be a boolean.
        assert!(condition_can_fail(&read(node), &arena));
        assert!(!value_can_fail(&read(node), &arena));
        let early = BoundExpr::Early(Box::new(divided(read(node))));
        assert!(!condition_can_fail(&early, &arena));
    }
}
