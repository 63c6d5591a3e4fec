//! One column of a chunk: typed where the type is known, dynamic values otherwise.

use std::sync::Arc;

use isomer_data::RelRow;
use isomer_value::{NodeId, Relationship, Value};

use crate::{function::node_value, value_size::value_bytes};

/// Values of one slot, one per row. The typed forms hold no nulls, except booleans, which are three-valued.
#[derive(Clone, Debug)]
pub(crate) enum Column {
    /// The same value in every row.
    Const(Value),
    /// Nodes.
    Nodes(Vec<NodeId>),
    /// Relationships.
    Rels(Vec<RelRow>),
    /// Integers.
    Ints(Vec<i64>),
    /// Floats.
    Floats(Vec<f64>),
    /// Truth values; none is null.
    Bools(Vec<Option<bool>>),
    /// Anything, nulls included.
    Values(Vec<Value>),
}

/// A relationship as a value.
pub(crate) fn relationship_value(row: RelRow) -> Value {
    Value::Relationship(Arc::new(relationship(row)))
}

/// A relationship as an entity of which only the row is known.
pub(crate) fn relationship(row: RelRow) -> Relationship {
    Relationship {
        id: row.id,
        type_id: row.type_id,
        source: row.source,
        target: row.target,
        content: None,
    }
}

/// The row of a relationship.
pub(crate) fn rel_row(relationship: &Relationship) -> RelRow {
    RelRow {
        id: relationship.id,
        type_id: relationship.type_id,
        source: relationship.source,
        target: relationship.target,
    }
}

macro_rules! each_typed {
    ($column:expr, $items:ident => $body:expr, $value:ident => $constant:expr) => {
        match $column {
            Column::Const($value) => $constant,
            Column::Nodes($items) => $body,
            Column::Rels($items) => $body,
            Column::Ints($items) => $body,
            Column::Floats($items) => $body,
            Column::Bools($items) => $body,
            Column::Values($items) => $body,
        }
    };
}

impl Column {
    /// The value in `row`.
    pub(crate) fn get(&self, row: usize) -> Value {
        match self {
            Self::Const(value) => value.clone(),
            Self::Nodes(ids) => node_value(ids[row]),
            Self::Rels(rows) => relationship_value(rows[row]),
            Self::Ints(items) => Value::Int(items[row]),
            Self::Floats(items) => Value::Float(items[row]),
            Self::Bools(items) => items[row].map_or(Value::Null, Value::Bool),
            Self::Values(items) => items[row].clone(),
        }
    }

    /// The node in `row`; none if it holds something else.
    pub(crate) fn node(&self, row: usize) -> Option<NodeId> {
        let value = match self {
            Self::Nodes(ids) => return Some(ids[row]),
            Self::Values(items) => &items[row],
            Self::Const(value) => value,
            _ => return None,
        };
        value.as_node().map(|node| node.id)
    }

    /// The relationship in `row`; none if it holds something else.
    pub(crate) fn rel(&self, row: usize) -> Option<RelRow> {
        let value = match self {
            Self::Rels(rows) => return Some(rows[row]),
            Self::Values(items) => &items[row],
            Self::Const(value) => value,
            _ => return None,
        };
        value.as_relationship().map(rel_row)
    }

    /// Whether `row` is null.
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Const(value) => value.is_null(),
            Self::Values(items) => items[row].is_null(),
            Self::Bools(items) => items[row].is_none(),
            _ => false,
        }
    }

    /// The truth value in `row`: none if null, an error value if it is something else.
    pub(crate) fn truth(&self, row: usize) -> Result<Option<bool>, Value> {
        let value = match self {
            Self::Bools(items) => return Ok(items[row]),
            Self::Const(value) => value,
            Self::Values(items) => &items[row],
            other => return Err(other.get(row)),
        };
        match value {
            Value::Bool(truth) => Ok(Some(*truth)),
            Value::Null => Ok(None),
            other => Err(other.clone()),
        }
    }

    /// Bytes per row in the column itself, without heap data of the values.
    pub(crate) fn row_bytes(&self) -> usize {
        match self {
            Self::Const(_) => 0,
            Self::Nodes(_) => size_of::<NodeId>(),
            Self::Rels(_) => size_of::<RelRow>(),
            Self::Ints(_) | Self::Floats(_) => 8,
            Self::Bools(_) => size_of::<Option<bool>>(),
            Self::Values(_) => size_of::<Value>(),
        }
    }

    /// The rows `rows`, in that order; rows may repeat.
    pub(crate) fn gather(&self, rows: &[u32]) -> Self {
        fn pick<T: Clone>(items: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter()
                .map(|&row| items[row as usize].clone())
                .collect()
        }
        match self {
            Self::Const(value) => Self::Const(value.clone()),
            Self::Nodes(items) => Self::Nodes(pick(items, rows)),
            Self::Rels(items) => Self::Rels(pick(items, rows)),
            Self::Ints(items) => Self::Ints(pick(items, rows)),
            Self::Floats(items) => Self::Floats(pick(items, rows)),
            Self::Bools(items) => Self::Bools(pick(items, rows)),
            Self::Values(items) => Self::Values(pick(items, rows)),
        }
    }

    /// Keeps the rows for which `keep` is true.
    pub(crate) fn retain(&mut self, keep: &[bool]) {
        each_typed!(self, items => {
            let mut row = 0;
            items.retain(|_| {
                row += 1;
                keep[row - 1]
            });
        }, _value => {});
    }

    /// Keeps the first `len` rows.
    pub(crate) fn truncate(&mut self, len: usize) {
        each_typed!(self, items => items.truncate(len), _value => {});
    }

    /// Drops the first `count` rows.
    pub(crate) fn skip(&mut self, count: usize) {
        each_typed!(self, items => { items.drain(..count.min(items.len())); }, _value => {});
    }

    /// Appends `other`'s rows: `len` and `other_len` are the numbers of rows of the two.
    pub(crate) fn append(&mut self, len: usize, other: Self, other_len: usize) {
        match (&mut *self, other) {
            (Self::Nodes(a), Self::Nodes(b)) => a.extend(b),
            (Self::Rels(a), Self::Rels(b)) => a.extend(b),
            (Self::Ints(a), Self::Ints(b)) => a.extend(b),
            (Self::Floats(a), Self::Floats(b)) => a.extend(b),
            (Self::Bools(a), Self::Bools(b)) => a.extend(b),
            (Self::Values(a), Self::Values(b)) => a.extend(b),
            (_, other) => {
                let mut values = std::mem::replace(self, Self::Const(Value::Null)).into_values(len);
                values.extend(other.into_values(other_len));
                *self = Self::Values(values);
            }
        }
    }

    /// As dynamic values; `len` is the number of rows.
    pub(crate) fn into_values(self, len: usize) -> Vec<Value> {
        match self {
            Self::Values(values) => values,
            Self::Const(value) => vec![value; len],
            Self::Ints(items) => items.into_iter().map(Value::Int).collect(),
            Self::Floats(items) => items.into_iter().map(Value::Float).collect(),
            other => (0..len).map(|row| other.get(row)).collect(),
        }
    }

    /// A column of these values: typed as nodes where all of them are nodes.
    pub(crate) fn of_values(values: Vec<Value>) -> Self {
        match values.first() {
            Some(Value::Node(_)) if values.iter().all(|value| matches!(value, Value::Node(_))) => {
                Self::Nodes(
                    values
                        .iter()
                        .filter_map(|value| value.as_node().map(|node| node.id))
                        .collect(),
                )
            }
            Some(Value::Int(_)) => match values.iter().map(Value::as_int).collect::<Option<_>>() {
                Some(items) => Self::Ints(items),
                None => Self::Values(values),
            },
            Some(Value::Float(_)) => {
                match values.iter().map(Value::as_float).collect::<Option<_>>() {
                    Some(items) => Self::Floats(items),
                    None => Self::Values(values),
                }
            }
            _ => Self::Values(values),
        }
    }

    /// Estimated bytes of `len` rows.
    pub(crate) fn bytes(&self, len: usize) -> usize {
        match self {
            Self::Const(_) => 32,
            Self::Nodes(_) | Self::Ints(_) | Self::Floats(_) => 8 * len,
            Self::Rels(_) => size_of::<RelRow>() * len,
            Self::Bools(_) => len,
            Self::Values(values) => values.iter().map(value_bytes).sum(),
        }
    }
}
