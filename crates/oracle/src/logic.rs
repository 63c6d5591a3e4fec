//! Three-valued equality and comparison, and the order of all values, as openCypher defines them.

use std::cmp::Ordering;

use crate::{Datum, Map, PathValue, PointValue, temporal};

/// `a = b`; `None` is unknown.
pub fn equal(a: &Datum, b: &Datum) -> Option<bool> {
    match (a, b) {
        (Datum::Null, _) | (_, Datum::Null) => None,
        (Datum::List(a), Datum::List(b)) => match a.len() == b.len() {
            true => every(a.iter().zip(b.iter()).map(|(a, b)| equal(a, b))),
            false => Some(false),
        },
        (Datum::Map(a), Datum::Map(b)) => match a.keys().eq(b.keys()) {
            true => every(a.values().zip(b.values()).map(|(a, b)| equal(a, b))),
            false => Some(false),
        },
        // NaN equals nothing, not even itself.
        (Datum::Float(a), _) if a.is_nan() => Some(false),
        (_, Datum::Float(b)) if b.is_nan() => Some(false),
        (a, b) => Some(order(a, b).is_eq()),
    }
}

/// Three-valued conjunction.
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

/// Exact comparison of two numbers, neither of which is NaN. An integer is never rounded: a double is a whole number
/// and a fraction, and the whole numbers are compared first.
fn number_order(a: &Datum, b: &Datum) -> Ordering {
    /// A whole number, and what is above it; doubles beyond 64 bits stay beyond every integer.
    fn split(value: &Datum) -> (i128, f64) {
        match value {
            Datum::Int(value) => (i128::from(*value), 0.0),
            Datum::Float(value) => {
                let below = value.floor().clamp(-1e38, 1e38);
                let fraction = if value.is_finite() {
                    value - value.floor()
                } else {
                    0.0
                };
                (below as i128, fraction)
            }
            _ => (0, 0.0),
        }
    }
    if let (Datum::Float(a), Datum::Float(b)) = (a, b) {
        return a.partial_cmp(b).unwrap_or(Ordering::Equal);
    }
    let ((a, above), (b, over)) = (split(a), split(b));
    a.cmp(&b)
        .then(above.partial_cmp(&over).unwrap_or(Ordering::Equal))
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// `a < b` and so on; `None` is unknown: null, or incomparable types.
pub fn compare(comparison: Comparison, a: &Datum, b: &Datum) -> Option<bool> {
    let order = match (a, b) {
        (a, b) if a.is_number() && b.is_number() => {
            let has_nan = [a, b]
                .iter()
                .any(|one| one.to_f64().is_some_and(f64::is_nan));
            if has_nan {
                return Some(false);
            }
            number_order(a, b)
        }
        (Datum::Text(a), Datum::Text(b)) => a.chars().cmp(b.chars()),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::List(a), Datum::List(b)) => {
            let differing = a
                .iter()
                .zip(b.iter())
                .find(|(a, b)| equal(a, b) != Some(true));
            match differing {
                Some((a, b)) => return compare(comparison, a, b),
                None => a.len().cmp(&b.len()),
            }
        }
        // Durations are equal or not, but which one is longer depends on the month.
        (a, b) if a.is_instant() => temporal::order(a, b)?,
        _ => return None,
    };
    Some(match comparison {
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// The order of `ORDER BY`, `min` and `max`; equal values are one group.
pub fn order(a: &Datum, b: &Datum) -> Ordering {
    let values = || match (a, b) {
        (Datum::Text(a), Datum::Text(b)) => a.chars().cmp(b.chars()),
        (Datum::Bytes(a), Datum::Bytes(b)) => a.cmp(b),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::List(a), Datum::List(b)) => items(a.iter(), b.iter()),
        (Datum::Map(a), Datum::Map(b)) => maps(a, b),
        (Datum::Node(a), Datum::Node(b)) => a.id.cmp(&b.id),
        (Datum::Relationship(a), Datum::Relationship(b)) => a.id.cmp(&b.id),
        (Datum::Path(a), Datum::Path(b)) => walked(a).cmp(&walked(b)),
        (Datum::Point(a), Datum::Point(b)) => points(a, b),
        (a, b) if a.is_number() && b.is_number() => number_order(a, b),
        (a, b) => temporal::order(a, b).unwrap_or(Ordering::Equal),
    };
    a.kind().cmp(&b.kind()).then_with(|| match a.kind() {
        crate::Kind::NotANumber => Ordering::Equal,
        _ => values(),
    })
}

/// Item by item; a list that another one continues is less.
fn items<'v>(a: impl Iterator<Item = &'v Datum>, b: impl Iterator<Item = &'v Datum>) -> Ordering {
    let (a, b): (Vec<&Datum>, Vec<&Datum>) = (a.collect(), b.collect());
    let differing = a.iter().zip(&b).map(|(a, b)| order(a, b));
    let first = differing.into_iter().find(|order| order.is_ne());
    first.unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Fewer entries first, then the names, then the values.
fn maps(a: &Map, b: &Map) -> Ordering {
    a.len()
        .cmp(&b.len())
        .then_with(|| a.keys().cmp(b.keys()))
        .then_with(|| items(a.values(), b.values()))
}

/// A path as the numbers of its first node, and of each relationship with the node after it.
fn walked(path: &PathValue) -> Vec<u64> {
    let nodes = path.nodes.iter().map(|node| node.id);
    let mut numbers: Vec<u64> = nodes.clone().take(1).collect();
    for (relationship, node) in path.relationships.iter().zip(nodes.skip(1)) {
        numbers.extend([relationship.id, node]);
    }
    numbers
}

fn points(a: &PointValue, b: &PointValue) -> Ordering {
    let coordinates = a.coordinates.iter().zip(&b.coordinates);
    let differing = coordinates.map(|(a, b)| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    a.system.cmp(&b.system).then(
        differing
            .into_iter()
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal),
    )
}

/// Whether two rows of values are one group.
pub fn same_group(a: &[Datum], b: &[Datum]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| order(a, b).is_eq())
}

#[cfg(test)]
mod tests;
