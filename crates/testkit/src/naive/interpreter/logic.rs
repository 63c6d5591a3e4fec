//! Three-valued equality and comparison, and the order of all values, by the letter of openCypher: nothing is shared with
//! the crate `value` but the values themselves and how single temporal values and points relate.

use std::cmp::Ordering;

use isomer_value::{Value, order::cmp_order};

/// `a = b`; `None` is unknown.
pub fn equal(a: &Value, b: &Value) -> Option<bool> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Int(a), Value::Int(b)) => Some(a == b),
        (Value::Float(a), Value::Float(b)) => Some(a == b),
        (Value::Int(a), Value::Float(b)) | (Value::Float(b), Value::Int(a)) => {
            Some(number_order(&Value::Int(*a), &Value::Float(*b)) == Some(Ordering::Equal))
        }
        (Value::Bool(a), Value::Bool(b)) => Some(a == b),
        (Value::String(a), Value::String(b)) => Some(a == b),
        (Value::Node(a), Value::Node(b)) => Some(a.id == b.id),
        (Value::Relationship(a), Value::Relationship(b)) => Some(a.id == b.id),
        (Value::Path(a), Value::Path(b)) => Some(a == b),
        (Value::List(a), Value::List(b)) => match a.len() == b.len() {
            true => every(a.iter().zip(b.iter()).map(|(a, b)| equal(a, b))),
            false => Some(false),
        },
        (Value::Map(a), Value::Map(b)) => match a.names().eq(b.names()) {
            true => every(a.values().zip(b.values()).map(|(a, b)| equal(a, b))),
            false => Some(false),
        },
        (a, b) if a.type_name() == b.type_name() => Some(cmp_order(a, b).is_eq()),
        _ => Some(false),
    }
}

/// Conjunction of what is known.
pub fn every(terms: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut answer = Some(true);
    for term in terms {
        match term {
            Some(true) => {}
            Some(false) => return Some(false),
            None => answer = None,
        }
    }
    answer
}

/// How two numbers compare, exactly; `None` where one is NaN or no number.
fn number_order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Float(_), Value::Int(_)) => number_order(b, a).map(Ordering::reverse),
        (Value::Int(_), Value::Float(b)) if b.is_nan() => None,
        (Value::Int(_), Value::Float(b)) if *b >= 9.3e18 => Some(Ordering::Less),
        (Value::Int(_), Value::Float(b)) if *b <= -9.3e18 => Some(Ordering::Greater),
        (Value::Int(a), Value::Float(b)) => {
            let whole = b.trunc();
            let order = i128::from(*a).cmp(&(whole as i128));
            Some(order.then_with(|| 0.0.partial_cmp(&(b - whole)).unwrap_or(Ordering::Equal)))
        }
        _ => None,
    }
}

/// What `<` and its like are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// `a < b` and its like; `None` is unknown: null, or types that do not compare.
pub fn compare(asked: Asked, a: &Value, b: &Value) -> Option<bool> {
    let order = match (a, b) {
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
            match number_order(a, b) {
                Some(order) => order,
                None => return Some(false), // NaN
            }
        }
        (Value::String(a), Value::String(b)) => a.chars().cmp(b.chars()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let differing = a
                .iter()
                .zip(b.iter())
                .find(|(a, b)| equal(a, b) != Some(true));
            match differing {
                Some((a, b)) => return compare(asked, a, b),
                None => a.len().cmp(&b.len()),
            }
        }
        (a, b) if is_instant(a) && a.type_name() == b.type_name() => cmp_order(a, b),
        _ => return None,
    };
    Some(match asked {
        Asked::Less => order.is_lt(),
        Asked::LessOrEqual => order.is_le(),
        Asked::Greater => order.is_gt(),
        Asked::GreaterOrEqual => order.is_ge(),
    })
}

fn is_instant(value: &Value) -> bool {
    value.is_temporal() && !matches!(value, Value::Duration(_))
}

/// Where a type stands in the order of all values.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Map(_) => 0,
        Value::Node(_) => 1,
        Value::Relationship(_) => 2,
        Value::List(_) => 3,
        Value::Path(_) => 4,
        Value::Point(_) => 5,
        Value::ZonedDateTime(_) => 6,
        Value::LocalDateTime(_) => 7,
        Value::Date(_) => 8,
        Value::ZonedTime(_) => 9,
        Value::LocalTime(_) => 10,
        Value::Duration(_) => 11,
        Value::Bytes(_) => 12,
        Value::String(_) => 13,
        Value::Bool(_) => 14,
        Value::Float(float) if float.is_nan() => 16,
        Value::Int(_) | Value::Float(_) => 15,
        Value::Null => 17,
    }
}

/// The order of `ORDER BY`, `min` and `max`; what stands equal in it is one group.
pub fn order(a: &Value, b: &Value) -> Ordering {
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Value::Int(_) | Value::Float(_), _) => number_order(a, b).unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.chars().cmp(b.chars()),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => items(a, b),
        (Value::Map(a), Value::Map(b)) => a
            .len()
            .cmp(&b.len())
            .then_with(|| a.names().cmp(b.names()))
            .then_with(|| {
                let pairs = a.values().zip(b.values());
                pairs.fold(Ordering::Equal, |so_far, (a, b)| {
                    so_far.then_with(|| order(a, b))
                })
            }),
        _ => cmp_order(a, b),
    })
}

fn items(a: &[Value], b: &[Value]) -> Ordering {
    let pairs = a.iter().zip(b);
    pairs
        .fold(Ordering::Equal, |so_far, (a, b)| {
            so_far.then_with(|| order(a, b))
        })
        .then_with(|| a.len().cmp(&b.len()))
}

/// Whether two rows of values are one group.
pub fn same_group(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| order(a, b).is_eq())
}
