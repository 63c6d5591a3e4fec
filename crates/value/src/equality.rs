//! The language's two equalities and its comparison operators.
//!
//! - [`equal`] and [`compare`] are three-valued: an operand that contains null may make the result unknown.
//! - [`equivalent`] is the relation of `DISTINCT`, grouping and unique keys: two-valued, null equals null and
//!   NaN equals NaN.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use crate::{
    Map, Value,
    number::{cmp_int_float, exact_int, ordered_bits},
    order::{cmp_order, type_rank},
    point::point_rank,
    temporal::parts::{zoned_parts, zoned_time_rank},
};

/// `a = b`: `None` is unknown. Values of different types are unequal, an integer and a float are compared exactly,
/// NaN equals nothing. A list or map is unequal if one pair certainly differs, else unknown if one is unknown.
pub fn equal(a: &Value, b: &Value) -> Option<bool> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Float(a), Value::Float(b)) => Some(a == b),
        (Value::Int(int), Value::Float(float)) | (Value::Float(float), Value::Int(int)) => {
            Some(!float.is_nan() && cmp_int_float(*int, *float).is_eq())
        }
        (Value::List(a), Value::List(b)) if a.len() == b.len() => all_equal(a.iter().zip(b.iter())),
        (Value::Map(a), Value::Map(b)) if same_names(a, b) => all_equal(a.values().zip(b.values())),
        (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) => Some(false),
        (Value::Point(a), Value::Point(b)) => Some(a == b),
        _ => Some(cmp_order(a, b).is_eq()),
    }
}

fn same_names(a: &Map, b: &Map) -> bool {
    a.len() == b.len() && a.names().eq(b.names())
}

fn all_equal<'a>(pairs: impl Iterator<Item = (&'a Value, &'a Value)>) -> Option<bool> {
    let mut answer = Some(true);
    for (a, b) in pairs {
        match equal(a, b) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => answer = None,
        }
    }
    answer
}

/// Result of comparing two values for `<`, `<=`, `>` and `>=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonResult {
    /// Both values are known and comparable.
    Ordered(Ordering),
    /// One value is NaN: every comparison is false.
    Never,
    /// One value is null, or the types are not comparable: every comparison is null.
    Unknown,
}

impl ComparisonResult {
    /// `a < b`.
    pub fn less(self) -> Option<bool> {
        self.holds(Ordering::is_lt)
    }

    /// `a <= b`.
    pub fn less_or_equal(self) -> Option<bool> {
        self.holds(Ordering::is_le)
    }

    /// `a > b`.
    pub fn greater(self) -> Option<bool> {
        self.holds(Ordering::is_gt)
    }

    /// `a >= b`.
    pub fn greater_or_equal(self) -> Option<bool> {
        self.holds(Ordering::is_ge)
    }

    fn holds(self, test: fn(Ordering) -> bool) -> Option<bool> {
        match self {
            Self::Ordered(order) => Some(test(order)),
            Self::Never => Some(false),
            Self::Unknown => None,
        }
    }
}

/// Compares for `<`, `<=`, `>` and `>=`. Numbers, strings, booleans, bytes and temporal instants compare with
/// their own kind, and lists item by item. Maps, nodes, relationships, paths, points and durations are not
/// comparable.
pub fn compare(a: &Value, b: &Value) -> ComparisonResult {
    match (a, b) {
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            let is_nan = |value: &Value| matches!(value, Value::Float(float) if float.is_nan());
            if is_nan(a) || is_nan(b) {
                ComparisonResult::Never
            } else {
                ComparisonResult::Ordered(cmp_order(a, b))
            }
        }
        (Value::String(_), Value::String(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Bytes(_), Value::Bytes(_))
        | (Value::Date(_), Value::Date(_))
        | (Value::LocalTime(_), Value::LocalTime(_))
        | (Value::ZonedTime(_), Value::ZonedTime(_))
        | (Value::LocalDateTime(_), Value::LocalDateTime(_))
        | (Value::ZonedDateTime(_), Value::ZonedDateTime(_)) => {
            ComparisonResult::Ordered(cmp_order(a, b))
        }
        (Value::List(a), Value::List(b)) => compare_items(a, b),
        _ => ComparisonResult::Unknown,
    }
}

/// The first pair that is not certainly equal decides; after a common prefix the shorter list is less.
fn compare_items(a: &[Value], b: &[Value]) -> ComparisonResult {
    a.iter()
        .zip(b)
        .find(|(a, b)| equal(a, b) != Some(true))
        .map_or(
            ComparisonResult::Ordered(a.len().cmp(&b.len())),
            |(a, b)| compare(a, b),
        )
}

/// Whether both values belong to one group: equal, or both null, or both NaN, at every depth. `1` and `1.0`
/// are one group.
pub fn equivalent(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b,
        _ => cmp_order(a, b).is_eq(),
    }
}

/// Hashes `value` such that equivalent values have equal hashes.
pub fn hash<H: Hasher>(value: &Value, state: &mut H) {
    match value {
        Value::Float(float) => {
            if let Some(int) = exact_int(*float) {
                return hash(&Value::Int(int), state);
            }
            state.write_u8(type_rank(value));
            state.write_u64(ordered_bits(*float));
            return;
        }
        _ => state.write_u8(type_rank(value)),
    }
    match value {
        Value::Null | Value::Float(_) => {}
        Value::Bool(value) => value.hash(state),
        Value::Int(value) => value.hash(state),
        Value::String(value) => value.hash(state),
        Value::Bytes(value) => value.hash(state),
        Value::List(items) => {
            state.write_usize(items.len());
            items.iter().for_each(|item| hash(item, state));
        }
        Value::Map(map) => {
            state.write_usize(map.len());
            for (name, value) in map.iter() {
                name.hash(state);
                hash(value, state);
            }
        }
        Value::Node(node) => node.id.hash(state),
        Value::Relationship(relationship) => relationship.id.hash(state),
        Value::Path(path) => {
            path.nodes.iter().for_each(|node| node.id.hash(state));
            path.relationships
                .iter()
                .for_each(|relationship| relationship.id.hash(state));
        }
        Value::Date(date) => date.hash(state),
        Value::LocalTime(time) => time.hash(state),
        Value::ZonedTime(time) => zoned_time_rank(time).hash(state),
        Value::LocalDateTime(date_time) => date_time.hash(state),
        Value::ZonedDateTime(zoned) => zoned_parts(zoned).hash(state),
        Value::Duration(duration) => duration.hash(state),
        Value::Point(point) => point_rank(point).hash(state),
    }
}

/// A value as a key of hash maps and ordered maps: equal keys are [`equivalent`] values, sorted by
/// [`cmp_order`].
#[derive(Clone, Debug, Default)]
pub struct GroupKey(pub Value);

impl PartialEq for GroupKey {
    fn eq(&self, other: &Self) -> bool {
        equivalent(&self.0, &other.0)
    }
}

impl Eq for GroupKey {}

impl PartialOrd for GroupKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for GroupKey {
    fn cmp(&self, other: &Self) -> Ordering {
        cmp_order(&self.0, &other.0)
    }
}

impl Hash for GroupKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash(&self.0, state);
    }
}

impl From<Value> for GroupKey {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[Value]) -> Value {
        items.to_vec().into()
    }

    fn map(entries: &[(&'static str, Value)]) -> Value {
        entries.iter().cloned().collect::<Map>().into()
    }

    fn int(value: i64) -> Value {
        value.into()
    }

    #[test]
    fn equality_is_three_valued() {
        let null = Value::Null;
        let nan = Value::Float(f64::NAN);
        let cases = [
            (null.clone(), null.clone(), None),
            (int(1), null.clone(), None),
            (int(1), 1.0.into(), Some(true)),
            (int(1), "1".into(), Some(false)),
            (nan.clone(), nan.clone(), Some(false)),
            (nan.clone(), "a".into(), Some(false)),
            (nan, int(1), Some(false)),
            (list(&[int(1), int(2)]), list(&[int(1)]), Some(false)),
            (list(std::slice::from_ref(&null)), list(&[int(1)]), None),
            (list(&["a".into()]), list(&[int(1)]), Some(false)),
            (
                list(&[list(&[int(1)])]),
                list(&[list(&[int(1)]), list(std::slice::from_ref(&null))]),
                Some(false),
            ),
            (
                list(&[null.clone(), int(2)]),
                list(&[int(1), int(3)]),
                Some(false),
            ),
            (list(&[]), map(&[]), Some(false)),
            (map(&[]), map(&[("k", null.clone())]), Some(false)),
            (
                map(&[("k", null.clone())]),
                map(&[("k", null.clone())]),
                None,
            ),
            (
                map(&[("k", int(1)), ("l", null.clone())]),
                map(&[("k", null), ("l", int(1))]),
                None,
            ),
            (map(&[("k", int(1))]), map(&[("k", 1.0.into())]), Some(true)),
        ];
        for (a, b, expected) in cases {
            assert_eq!(equal(&a, &b), expected, "{a:?} = {b:?}");
            assert_eq!(equal(&b, &a), expected, "{b:?} = {a:?}");
        }
    }

    #[test]
    fn comparison_is_three_valued() {
        let null = Value::Null;
        let nan = Value::Float(f64::NAN);
        let cases = [
            (list(&[int(1), int(0)]), list(&[int(1)]), Some(true)),
            (list(&[int(1), null.clone()]), list(&[int(1)]), Some(true)),
            (list(&[int(1), int(2)]), list(&[int(1), null.clone()]), None),
            (
                list(&[int(1), "a".into()]),
                list(&[int(1), null.clone()]),
                None,
            ),
            (
                list(&[int(1), int(2)]),
                list(&[int(3), null.clone()]),
                Some(false),
            ),
            (int(1), null, None),
            (int(1), "1".into(), None),
            (nan.clone(), int(1), Some(false)),
            (nan.clone(), nan.clone(), Some(false)),
            (nan, "a".into(), None),
            (true.into(), false.into(), Some(true)),
            (map(&[]), map(&[]), None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(
                compare(&a, &b).greater_or_equal(),
                expected,
                "{a:?} >= {b:?}"
            );
        }
    }

    #[test]
    fn groups_hold_nulls_nans_and_equal_numbers_together() {
        let groups: std::collections::HashSet<GroupKey> = [
            Value::Null,
            Value::Null,
            f64::NAN.into(),
            (-f64::NAN).into(),
            int(1),
            1.0.into(),
            0.0.into(),
            (-0.0).into(),
            list(&[int(1), Value::Null]),
            list(&[1.0.into(), Value::Null]),
        ]
        .into_iter()
        .map(GroupKey)
        .collect();
        assert_eq!(groups.len(), 5);
    }
}
