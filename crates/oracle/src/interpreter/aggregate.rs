//! Aggregations of the rows of one group.

use super::{Interpreter, Row};
use crate::fault::{Fault, Result, raised};
use crate::logic::order;
use crate::notation::literal;
use crate::{Datum, temporal};
use isomer_cypher::ast::Expr;

pub(super) fn is_aggregate(name: &str) -> bool {
    [
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "collect",
        "stdev",
        "stdevp",
        "percentilecont",
        "percentiledisc",
    ]
    .contains(&name)
}

impl Interpreter<'_> {
    /// The aggregate of a group.
    pub(super) fn aggregate(
        &self,
        name: &str,
        distinct: bool,
        arguments: &[Expr],
        rows: &[Row],
    ) -> Result<Datum> {
        let Some(first) = arguments.first() else {
            return raised(format!("{name}() needs an argument"));
        };
        let mut values = Vec::new();
        let mut share = None;
        for row in rows {
            let value = self.eval(first, row)?;
            if let Some(second) = arguments.get(1) {
                share = Some(self.eval(second, row)?);
                check_share(share.as_ref())?;
            }
            let is_new = || !values.iter().any(|one| order(one, &value).is_eq());
            if !value.is_null() && (!distinct || is_new()) {
                values.push(value);
            }
        }
        match name {
            "count" => Ok(Datum::Int(values.len() as i64)),
            "collect" => Ok(values.into()),
            "min" => Ok(values.into_iter().min_by(order).unwrap_or_default()),
            "max" => Ok(values
                .into_iter()
                .reduce(|a, b| if order(&b, &a).is_gt() { b } else { a })
                .unwrap_or_default()),
            "sum" => sum(&values),
            "avg" if values.is_empty() => Ok(Datum::Null),
            "avg"
                if values
                    .iter()
                    .any(|value| matches!(value, Datum::Duration(_))) =>
            {
                let sum = sum_of_durations(&values)?;
                let count = Datum::Int(values.len() as i64);
                temporal::arithmetic('/', &sum, &count).unwrap_or(Ok(Datum::Null))
            }
            "avg" => {
                let numbers = numbers(&values)?;
                Ok(Datum::Float(
                    numbers.iter().sum::<f64>() / numbers.len() as f64,
                ))
            }
            "stdev" | "stdevp" => {
                let numbers = numbers(&values)?;
                let count = numbers.len() as f64;
                let mean = numbers.iter().sum::<f64>() / count;
                let squares: f64 = numbers.iter().map(|x| (x - mean) * (x - mean)).sum();
                let divisor = if name == "stdev" { count - 1.0 } else { count };
                Ok(Datum::Float(if divisor <= 0.0 {
                    0.0
                } else {
                    (squares / divisor).sqrt()
                }))
            }
            _ => {
                numbers(&values)?;
                values.sort_by(order);
                Ok(percentile(
                    &values,
                    share.and_then(|share| share.to_f64()).unwrap_or(0.0),
                    name == "percentilecont",
                ))
            }
        }
    }
}

fn check_share(share: Option<&Datum>) -> Result<()> {
    match share.and_then(Datum::to_f64) {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(()),
        _ => raised("a percentile lies between 0 and 1"),
    }
}

/// Integers exactly; floats, also mixed with integers, as if added exactly and rounded once.
fn sum(values: &[Datum]) -> Result<Datum> {
    if values
        .iter()
        .any(|value| matches!(value, Datum::Duration(_)))
    {
        return sum_of_durations(values);
    }
    let mut whole = 0_i128;
    let mut floats = Vec::new();
    for value in values {
        match value {
            Datum::Int(value) => whole += i128::from(*value),
            Datum::Float(value) => floats.push(*value),
            other => return raised(format!("{} is not added", literal(other))),
        }
    }
    if floats.is_empty() {
        return match i64::try_from(whole) {
            Ok(whole) => Ok(Datum::Int(whole)),
            Err(_) => raised("a sum has more than 64 bits"),
        };
    }
    floats.push(whole as f64);
    // Non-overlapping partial sums (Shewchuk 1997), the smallest first.
    let mut parts: Vec<f64> = Vec::new();
    for &float in &floats {
        let mut top = float;
        let mut next = Vec::new();
        for part in parts {
            let (large, small) = if top.abs() < part.abs() {
                (part, top)
            } else {
                (top, part)
            };
            top = large + small;
            let lost = small - (top - large);
            if lost != 0.0 {
                next.push(lost);
            }
        }
        next.push(top);
        parts = next;
    }
    let exact: f64 = parts.iter().rev().sum();
    Ok(Datum::Float(if exact.is_finite() {
        exact
    } else {
        floats.iter().sum()
    }))
}

/// Part by part; a duration is not added to a number.
fn sum_of_durations(values: &[Datum]) -> Result<Datum> {
    let mut sum = Datum::from(temporal::Span::default());
    for value in values {
        sum = match value {
            Datum::Duration(_) => temporal::arithmetic('+', &sum, value).unwrap_or(Ok(sum))?,
            other => return raised(format!("{} is not added to a duration", literal(other))),
        };
    }
    Ok(sum)
}

fn numbers(values: &[Datum]) -> Result<Vec<f64>> {
    let number = |value: &Datum| match value {
        Datum::Duration(_) => Err(Fault::Unknown("statistics of durations".into())),
        value => match value.to_f64() {
            Some(number) => Ok(number),
            None => raised(format!("{} is not a number", literal(value))),
        },
    };
    values.iter().map(number).collect()
}

/// Of sorted numbers: the nearest rank, or interpolated between the two nearest.
fn percentile(sorted: &[Datum], share: f64, between: bool) -> Datum {
    if sorted.is_empty() {
        return Datum::Null;
    }
    if !between {
        let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
        return sorted[rank - 1].clone();
    }
    let place = share * (sorted.len() - 1) as f64;
    let at = |place: f64| sorted[place as usize].to_f64().unwrap_or_default();
    let (low, high) = (at(place.floor()), at(place.ceil()));
    Datum::Float(low + (high - low) * place.fract())
}
