//! Operations that evaluate all their operands.

use std::sync::Arc;

use isomer_data::{GraphRead, NodeLabels};
use isomer_plan::expr::{
    BoundExpr, Comparison, LabelRef, StaticType, StringTest, TypeExpr, TypeRef,
};
use isomer_value::{Map, NodeId, Value, equality};

use super::{arith, membership, truth::truth};
use crate::{
    context::Cx,
    error::{ErrorClass, ExecError, Result, shown},
    function::{Environment, Function},
    procedure,
};

/// Applies the operation of `expr` to the values of its children, in the order of [`BoundExpr::for_each_child`].
pub(super) fn apply(expr: &BoundExpr, operands: &[Value], cx: &mut Cx<'_>) -> Result<Value> {
    match expr {
        BoundExpr::Property { name, nested, .. } => {
            let plan = cx.run.plan.clone();
            property_of(&operands[0], plan.property_name(*name), *nested, cx)
        }
        BoundExpr::Index { nested, .. } => index(&operands[0], &operands[1], *nested, cx),
        BoundExpr::Slice { from, .. } => {
            let (from, to) = if from.is_some() {
                (operands.get(1), operands.get(2))
            } else {
                (None, operands.get(1))
            };
            slice(&operands[0], from, to)
        }
        BoundExpr::List(_) => Ok(Value::List(Arc::new(operands.to_vec()))),
        BoundExpr::Map(entries) => Ok(Value::from(
            entries
                .iter()
                .zip(operands)
                .map(|((name, _), value)| (name.clone(), value.clone()))
                .collect::<Map>(),
        )),
        BoundExpr::Not(_) => {
            Ok(truth(&operands[0], "NOT")?.map_or(Value::Null, |truth| Value::Bool(!truth)))
        }
        BoundExpr::Xor(_) => {
            let mut result = Some(false);
            for operand in operands {
                let term = truth(operand, "XOR")?;
                result = result.zip(term).map(|(a, b)| a != b);
            }
            Ok(result.map_or(Value::Null, Value::Bool))
        }
        BoundExpr::Compare { op, .. } => {
            Ok(compare(*op, &operands[0], &operands[1]).map_or(Value::Null, Value::Bool))
        }
        BoundExpr::Arith { op, .. } => arith::arithmetic(*op, &operands[0], &operands[1], cx),
        BoundExpr::ArithChain { ops, .. } => {
            let mut operands = operands.iter();
            let first = operands.next().cloned().unwrap_or_default();
            ops.iter()
                .zip(operands)
                .try_fold(first, |left, (op, right)| {
                    cx.tick(1)?;
                    arith::arithmetic(*op, &left, right, cx)
                })
        }
        BoundExpr::Negate(_) => arith::negate(&operands[0]),
        BoundExpr::Plus(_) => arith::plus(&operands[0]),
        BoundExpr::StringTest { op, .. } => string_test(*op, &operands[0], &operands[1], cx),
        BoundExpr::In { .. } => membership::contains(&operands[1], &operands[0], cx),
        BoundExpr::IsNull(_) => Ok(Value::Bool(operands[0].is_null())),
        BoundExpr::IsNotNull(_) => Ok(Value::Bool(!operands[0].is_null())),
        BoundExpr::IsTyped { value_type, .. } => {
            Ok(Value::Bool(is_typed(&operands[0], value_type)))
        }
        BoundExpr::Cast { kind, .. } => cast(&operands[0], kind),
        BoundExpr::HasLabels { labels, .. } => has_labels(&operands[0], labels, cx),
        BoundExpr::HasType { types, .. } => has_type(&operands[0], types, cx),
        BoundExpr::Call { function, .. } => Function::of(*function)?.call(operands, cx),
        BoundExpr::CallRegistered { function, .. } => {
            let plan = cx.run.plan.clone();
            let name = &plan.registered_functions[function.index()];
            let function = cx
                .run
                .registry
                .function(name)
                .cloned()
                .ok_or_else(|| procedure::procedure_not_found(name))?;
            function.call(operands)
        }
        other => Err(ExecError::Internal(format!(
            "no strict operation for {other:?}"
        ))),
    }
}

/// A three-valued comparison.
pub(super) fn compare(op: Comparison, left: &Value, right: &Value) -> Option<bool> {
    match op {
        Comparison::Equal => equality::equal(left, right),
        Comparison::NotEqual => equality::equal(left, right).map(|equal| !equal),
        Comparison::Less => equality::compare(left, right).less(),
        Comparison::LessOrEqual => equality::compare(left, right).less_or_equal(),
        Comparison::Greater => equality::compare(left, right).greater(),
        Comparison::GreaterOrEqual => equality::compare(left, right).greater_or_equal(),
    }
}

/// `a = b`
pub(crate) fn equal_truth(a: &Value, b: &Value) -> Option<bool> {
    equality::equal(a, b)
}

/// `base.name`; with `nested`, null for a value without fields.
pub(crate) fn property_of(
    base: &Value,
    name: &str,
    nested: bool,
    env: &dyn Environment,
) -> Result<Value> {
    match base {
        Value::Null => Ok(Value::Null),
        Value::Map(map) => Ok(map.get(name).cloned().unwrap_or_default()),
        Value::Node(node) => env.node_property(node.id, name),
        Value::Relationship(relationship) => env.relationship_property(relationship, name),
        other => match crate::function::field_of(other, name) {
            Some(Err(error)) if nested && error.is_no_field() => Ok(Value::Null),
            Some(field) => field,
            None if nested => Ok(Value::Null),
            None => Err(ExecError::type_mismatch(format!(
                "{} has no field `.{name}`: only maps, nodes, relationships, temporal values and points have fields",
                shown(other)
            ))),
        },
    }
}

/// All properties of a map, node or relationship.
pub(crate) fn properties_of(base: &Value, env: &dyn Environment) -> Result<Map> {
    match base {
        Value::Map(map) => Ok(Map::clone(map)),
        Value::Node(node) => env.node_properties(node.id),
        Value::Relationship(relationship) => env.relationship_properties(relationship),
        other => Err(ExecError::type_mismatch(format!(
            "{} has no properties: use a map, node or relationship",
            shown(other)
        ))),
    }
}

/// `base[index]`; with `nested`, null for a value that is neither list nor map, or whose index is of the other type.
pub(super) fn index(
    base: &Value,
    index: &Value,
    nested: bool,
    env: &dyn Environment,
) -> Result<Value> {
    match (base, index) {
        (Value::Null, _) => Ok(Value::Null),
        (Value::List(items), Value::Int(at)) => {
            let at = if *at < 0 {
                at.checked_add(items.len() as i64)
            } else {
                Some(*at)
            };
            Ok(at
                .and_then(|at| usize::try_from(at).ok())
                .and_then(|at| items.get(at))
                .cloned()
                .unwrap_or_default())
        }
        (Value::List(_) | Value::Map(_) | Value::Node(_) | Value::Relationship(_), Value::Null) => {
            Ok(Value::Null)
        }
        (Value::List(_), Value::String(_)) | (Value::Map(_), Value::Int(_)) if nested => {
            Ok(Value::Null)
        }
        (Value::List(_), other) => Err(ExecError::type_mismatch(format!(
            "a list is indexed by an integer, not {}",
            shown(other)
        ))),
        (Value::Map(_) | Value::Node(_) | Value::Relationship(_), Value::String(name)) => {
            property_of(base, name, nested, env)
        }
        (Value::Map(_), other) => Err(ExecError::raised(
            ErrorClass::TypeError,
            "MapElementAccessByNonString",
            format!("a map is indexed by a string, not {}", shown(other)),
        )),
        (Value::Node(_) | Value::Relationship(_), other) => Err(ExecError::raised(
            ErrorClass::TypeError,
            "MapElementAccessByNonString",
            format!("properties are indexed by a string, not {}", shown(other)),
        )),
        _ if nested => Ok(Value::Null),
        (other, _) => Err(ExecError::type_mismatch(format!(
            "{} cannot be indexed: only lists, maps and entities can",
            shown(other)
        ))),
    }
}

/// `base[from..to]`; a null bound gives null.
fn slice(base: &Value, from: Option<&Value>, to: Option<&Value>) -> Result<Value> {
    let items = match base {
        Value::Null => return Ok(Value::Null),
        Value::List(items) => items,
        other => {
            return Err(ExecError::type_mismatch(format!(
                "`[..]` takes a piece of a list, not of {}",
                shown(other)
            )));
        }
    };
    let len = items.len() as i64;
    let bound = |bound: Option<&Value>, default: i64| match bound {
        None => Ok(Some(default)),
        Some(Value::Null) => Ok(None),
        Some(Value::Int(at)) => Ok(Some(if *at < 0 {
            at.saturating_add(len).max(0)
        } else {
            (*at).min(len)
        })),
        Some(other) => Err(ExecError::type_mismatch(format!(
            "bounds of `[..]` are integers, not {}",
            shown(other)
        ))),
    };
    let (Some(from), Some(to)) = (bound(from, 0)?, bound(to, len)?) else {
        return Ok(Value::Null);
    };
    Ok(Value::from(if from < to {
        items[from as usize..to as usize].to_vec()
    } else {
        Vec::new()
    }))
}

/// Matching cannot be interrupted and takes up to a quarter of a microsecond per byte.
const MAX_MATCHED_BYTES: usize = 4 << 20;

fn string_test(
    op: StringTest,
    left: &Value,
    right: &Value,
    env: &dyn Environment,
) -> Result<Value> {
    let (Value::String(text), Value::String(pattern)) = (left, right) else {
        return Ok(Value::Null);
    };
    Ok(Value::Bool(match op {
        StringTest::StartsWith => text.starts_with(&**pattern),
        StringTest::EndsWith => text.ends_with(&**pattern),
        StringTest::Contains => text.contains(&**pattern),
        StringTest::Matches => {
            if text.len() > MAX_MATCHED_BYTES {
                return Err(ExecError::limit(
                    format!("{MAX_MATCHED_BYTES} bytes of text for a regular expression"),
                    "match a part of the text (substring), or look for words with CONTAINS",
                ));
            }
            env.allow_bytes(text.len())?;
            env.regex(pattern)?.is_match(text)
        }
    }))
}

/// `x IS :: TYPE`. Null has every type that does not say `NOT NULL`.
fn is_typed(value: &Value, word: &TypeExpr) -> bool {
    match (word, value) {
        (TypeExpr::NotNull(inner), value) => !value.is_null() && is_typed(value, inner),
        (TypeExpr::Union(words), value) => words.iter().any(|word| is_typed(value, word)),
        (TypeExpr::Any | TypeExpr::Null, Value::Null) => true,
        (TypeExpr::Null, _) => false,
        (TypeExpr::Any, _) | (_, Value::Null) => true,
        (TypeExpr::List(of), Value::List(items)) => items.iter().all(|item| is_typed(item, of)),
        (TypeExpr::Number, value) => value.is_number(),
        (word, value) => matches!(
            (word, value),
            (TypeExpr::Boolean, Value::Bool(_))
                | (TypeExpr::Integer, Value::Int(_))
                | (TypeExpr::Float, Value::Float(_))
                | (TypeExpr::String, Value::String(_))
                | (TypeExpr::Bytes, Value::Bytes(_))
                | (TypeExpr::Date, Value::Date(_))
                | (TypeExpr::LocalTime, Value::LocalTime(_))
                | (TypeExpr::ZonedTime, Value::ZonedTime(_))
                | (TypeExpr::LocalDateTime, Value::LocalDateTime(_))
                | (TypeExpr::ZonedDateTime, Value::ZonedDateTime(_))
                | (TypeExpr::Duration, Value::Duration(_))
                | (TypeExpr::Point, Value::Point(_))
                | (TypeExpr::Map, Value::Map(_))
                | (TypeExpr::Node, Value::Node(_))
                | (TypeExpr::Relationship, Value::Relationship(_))
                | (TypeExpr::Path, Value::Path(_))
        ),
    }
}

/// The value itself if it is of this kind, or null; otherwise a type error.
fn cast(value: &Value, kind: &StaticType) -> Result<Value> {
    if value.is_null() || is_of(value, kind) {
        return Ok(value.clone());
    }
    Err(ExecError::type_mismatch(format!(
        "a pattern uses a variable as {}, and it holds {}",
        match kind {
            StaticType::Node => "a node",
            StaticType::Relationship => "a relationship",
            StaticType::List(_) => "a list of relationships",
            _ => "something else",
        },
        shown(value)
    )))
}

/// Whether a non-null value is of a kind; elements of lists may be null.
pub(crate) fn is_of(value: &Value, kind: &StaticType) -> bool {
    match kind {
        StaticType::Any => true,
        StaticType::Node => matches!(value, Value::Node(_)),
        StaticType::Relationship => matches!(value, Value::Relationship(_)),
        StaticType::Path => matches!(value, Value::Path(_)),
        StaticType::List(of) => value
            .as_list()
            .is_some_and(|items| items.iter().all(|item| item.is_null() || is_of(item, of))),
        StaticType::Map => matches!(
            value,
            Value::Map(_) | Value::Node(_) | Value::Relationship(_)
        ),
        StaticType::Boolean => matches!(value, Value::Bool(_)),
        StaticType::Integer => matches!(value, Value::Int(_)),
        StaticType::Float => matches!(value, Value::Float(_)),
        StaticType::Number => value.is_number(),
        StaticType::String => matches!(value, Value::String(_)),
        StaticType::Bytes => matches!(value, Value::Bytes(_)),
        StaticType::Temporal => value.is_temporal(),
        StaticType::Point => matches!(value, Value::Point(_)),
    }
}

fn has_labels(entity: &Value, labels: &[LabelRef], cx: &mut Cx<'_>) -> Result<Value> {
    match entity {
        Value::Null => Ok(Value::Null),
        Value::Node(node) => {
            let mut carried = NodeLabels::new();
            cx.check_node(node.id)?;
            cx.reader().node_labels(&[node.id], &mut carried)?;
            Ok(Value::Bool(carries(&carried, 0, labels, cx)))
        }
        Value::Relationship(relationship) => {
            let name = cx.type_name(relationship.type_id)?;
            let plan = cx.run.plan.clone();
            Ok(Value::Bool(
                labels.iter().all(|label| *plan.label_name(*label) == name),
            ))
        }
        other => Err(ExecError::type_mismatch(format!(
            "only nodes have labels, not {}",
            shown(other)
        ))),
    }
}

/// Whether node number `at` carries all of `labels`.
pub(super) fn carries(
    carried: &NodeLabels,
    at: usize,
    labels: &[LabelRef],
    cx: &mut Cx<'_>,
) -> bool {
    if labels.is_empty() {
        return !carried.of(at).is_empty();
    }
    labels.iter().all(|label| {
        cx.label(*label)
            .is_some_and(|id| carried.of(at).contains(&id))
    })
}

fn has_type(entity: &Value, types: &[TypeRef], cx: &mut Cx<'_>) -> Result<Value> {
    match entity {
        Value::Null => Ok(Value::Null),
        Value::Relationship(relationship) => {
            Ok(Value::Bool(types.iter().any(|one| {
                cx.rel_type(*one) == Some(relationship.type_id)
            })))
        }
        other => Err(ExecError::type_mismatch(format!(
            "only relationships have types, not {}",
            shown(other)
        ))),
    }
}

/// Fails if one of the nodes was deleted by this statement.
pub(super) fn check_nodes(nodes: &[NodeId], cx: &Cx<'_>) -> Result<()> {
    if cx.run.deleted.nodes.is_empty() {
        return Ok(());
    }
    nodes.iter().try_for_each(|node| cx.check_node(*node))
}
