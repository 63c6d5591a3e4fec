//! Selectivity of predicates on a property, from its histogram and most common values.

use std::cmp::Ordering;

use isomer_value::equality::{ComparisonResult, compare};
use isomer_value::order::cmp_order;
use isomer_value::{Value, equality::equal};

use crate::catalog::ValueFacts;

/// A bound of a range whose value may be unknown when the plan is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RangeBound<'v> {
    /// No bound.
    Open,
    /// A bound whose value is known only when the plan runs.
    Unknown,
    /// A bound.
    At(&'v Value),
}

impl ValueFacts {
    fn share(&self, nodes: f64) -> f64 {
        (nodes / self.nodes.max(1.0)).clamp(0.0, 1.0)
    }

    /// Nodes that have any value.
    pub(crate) fn present_share(&self) -> f64 {
        self.share(self.present)
    }

    /// Nodes that have this value; for an unknown value, the average number of nodes per value.
    pub(crate) fn equal_share(&self, value: Option<&Value>) -> f64 {
        let Some(value) = value else {
            return self.share(self.present / self.distinct.max(1.0));
        };
        let known = |(common, _): &&(Value, f64)| equal(common, value) == Some(true);
        if let Some((_, count)) = self.common.iter().find(known) {
            return self.share(*count);
        }
        // The remaining values share the remaining nodes evenly: the common ones, which would distort this, are
        // listed.
        let common: f64 = self.common.iter().map(|(_, count)| count).sum();
        let others = self.distinct - self.common.len() as f64;
        if others < 0.5 {
            // All values are listed, and this one is not among them: it may have been added since.
            return self.share(0.5);
        }
        self.share(((self.present - common) / others).max(0.5))
    }

    /// Nodes whose value is within the range.
    pub(crate) fn range_share(&self, low: RangeBound<'_>, high: RangeBound<'_>) -> f64 {
        let unknown = |sides: f64| self.present_share() * 0.3f64.powf(sides).max(0.1);
        match (low, high) {
            (RangeBound::Unknown, RangeBound::Unknown) => return unknown(2.0),
            (RangeBound::Unknown, _) | (_, RangeBound::Unknown) => return unknown(1.0),
            _ if self.bounds.len() < 2 => return unknown(1.0),
            _ => {}
        }
        // An open bound reaches to the end of the kind of values that the other bound has.
        let kind = match (low, high) {
            (RangeBound::At(value), _) | (_, RangeBound::At(value)) => Some(value),
            _ => None,
        };
        let comparable = |value: &Value| {
            kind.is_none_or(|kind| !matches!(compare(value, kind), ComparisonResult::Unknown))
        };
        let of_kind: Vec<&Value> = self.bounds.iter().filter(|one| comparable(one)).collect();
        if of_kind.len() < 2 {
            return self.share(0.5);
        }
        let from = match low {
            RangeBound::At(value) => place(&of_kind, value),
            _ => 0.0,
        };
        let to = match high {
            RangeBound::At(value) => place(&of_kind, value),
            _ => 1.0,
        };
        // The histogram has equal depth: each of its intervals holds the same number of nodes.
        let parts = (of_kind.len() - 1) as f64 / (self.bounds.len() - 1) as f64;
        self.share(((to - from).max(0.0) * parts * self.present).max(0.5))
    }

    /// Nodes whose value is a string with this prefix.
    pub(crate) fn prefix_share(&self, prefix: Option<&str>) -> f64 {
        match prefix {
            Some(prefix) if self.bounds.len() > 8 => {
                let fits = |value: &&Value| matches!(value, Value::String(text) if text.starts_with(prefix));
                let fitting = self.bounds.iter().filter(fits).count() as f64;
                // Values between two adjacent bounds are not visible in the histogram.
                let parts = (fitting + 0.3) / self.bounds.len() as f64;
                self.share(parts.min(1.0) * self.present)
            }
            _ => self.present_share() * 0.05,
        }
    }
}

/// The position of a value among the bounds, from 0 to 1.
fn place(bounds: &[&Value], value: &Value) -> f64 {
    let parts = (bounds.len() - 1) as f64;
    let below = bounds.partition_point(|bound| cmp_order(bound, value) == Ordering::Less);
    if below == 0 {
        return 0.0;
    }
    if below == bounds.len() {
        return 1.0;
    }
    // Within an interval, numbers are assumed to be spread evenly; of other values nothing is known.
    let within = match (
        number(bounds[below - 1]),
        number(bounds[below]),
        number(value),
    ) {
        (Some(low), Some(high), Some(value)) if high > low => (value - low) / (high - low),
        _ => 0.5,
    };
    ((below - 1) as f64 + within.clamp(0.0, 1.0)) / parts
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ages() -> ValueFacts {
        ValueFacts {
            nodes: 1_000.0,
            present: 900.0,
            distinct: 91.0,
            common: vec![(Value::Int(18), 450.0)],
            bounds: (0..=10).map(|at| Value::Int(at * 10)).collect(),
        }
    }

    #[test]
    fn common_values_have_exact_selectivities() {
        let ages = ages();
        assert_eq!(ages.equal_share(Some(&Value::Int(18))), 0.45);
        assert_eq!(ages.equal_share(Some(&Value::Float(18.0))), 0.45);
        assert_eq!(ages.equal_share(Some(&Value::Int(19))), 0.005);
        assert!((ages.equal_share(None) - 900.0 / 91.0 / 1_000.0).abs() < 1e-9);
    }

    #[test]
    fn ranges_are_measured_between_the_bounds() {
        let ages = ages();
        let at = |value: i64| Value::Int(value);
        let (ten, thirty) = (at(10), at(35));
        let share = ages.range_share(RangeBound::At(&ten), RangeBound::At(&thirty));
        assert!((share - 0.225).abs() < 1e-9, "{share}");
        assert!((ages.range_share(RangeBound::At(&at(90)), RangeBound::Open) - 0.09).abs() < 1e-9);
        assert!(
            (ages.range_share(RangeBound::Open, RangeBound::At(&at(1_000))) - 0.9).abs() < 1e-9
        );
        assert!(ages.range_share(RangeBound::At(&at(500)), RangeBound::Open) < 0.001);
        let text = Value::from("x");
        assert!(ages.range_share(RangeBound::At(&text), RangeBound::Open) < 0.001);
        assert!((ages.range_share(RangeBound::Unknown, RangeBound::Open) - 0.27).abs() < 1e-9);
    }
}
