//! Aggregate functions and their intermediate states.

use isomer_plan::{expr::Arithmetic, function::Aggregation};
use isomer_value::{GroupKey, Value, order::cmp_order};
use rustc_hash::FxHashSet;

use crate::{
    error::{ExecError, Result, shown},
    eval::arithmetic,
    exact::ExactSum,
    function::Environment,
    value_size::value_bytes,
};

/// One aggregation of one group.
#[derive(Debug)]
pub(crate) struct Accumulator {
    state: State,
    /// The values seen, for `DISTINCT`.
    seen: Option<FxHashSet<GroupKey>>,
}

#[derive(Debug)]
enum State {
    Count(i64),
    Sum(Sum),
    /// Sum and number of values.
    Avg(Mean, u64),
    Min(Value),
    Max(Value),
    Collect(Vec<Value>),
    /// The rows of a graph.
    Graph(Vec<Value>),
    /// Welford's running mean and sum of squared distances; whether it is a sample deviation.
    Deviation {
        count: f64,
        mean: f64,
        squares: f64,
        sample: bool,
    },
    Percentile {
        values: Vec<Value>,
        at: Option<f64>,
        interpolated: bool,
    },
}

/// A sum that does not depend on the order of the rows: several threads may deliver them.
#[derive(Debug)]
enum Sum {
    /// Integers, exactly, of any size; and floats, if there are any.
    Number {
        ints: i128,
        floats: Option<ExactSum>,
        /// Whether there was any.
        seen: bool,
    },
    /// Durations.
    Other(Value),
}

#[derive(Debug)]
enum Mean {
    Number(ExactSum),
    Other(Value),
}

impl Mean {
    /// Heap bytes.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Number(sum) => sum.held_bytes(),
            Self::Other(_) => 0,
        }
    }
}

impl Default for Sum {
    fn default() -> Self {
        Self::Number {
            ints: 0,
            floats: None,
            seen: false,
        }
    }
}

impl Sum {
    /// Adds `value`, `times` times.
    fn add(&mut self, value: &Value, times: u64, env: &dyn Environment) -> Result<()> {
        match (&mut *self, value) {
            (Self::Number { ints, seen, .. }, Value::Int(value)) => {
                *seen = true;
                let part = i128::from(*value) * i128::from(times); // 63 and 64 bits
                *ints = ints.checked_add(part).ok_or_else(sum_overflow)?;
            }
            (Self::Number { floats, seen, .. }, Value::Float(value)) => {
                *seen = true;
                floats.get_or_insert_default().add(*value, times);
            }
            (Self::Number { seen: false, .. }, Value::Duration(_)) => {
                *self = Self::Other(add_sum(&Value::Int(0), value, times, env)?)
            }
            (Self::Number { .. }, Value::Duration(_)) => {
                return Err(ExecError::type_error(
                    "sum() adds numbers or durations, not some of each",
                ));
            }
            (Self::Other(sum), _) => *sum = add_sum(sum, value, times, env)?,
            (Self::Number { .. }, _) => {
                add_sum(&Value::Int(0), value, times, env)?; // returns the error that describes the value
            }
        }
        Ok(())
    }

    /// Heap bytes.
    fn held_bytes(&self) -> usize {
        match self {
            Self::Number { floats, .. } => floats.as_ref().map_or(0, ExactSum::held_bytes),
            Self::Other(_) => 0,
        }
    }

    /// As values, from which the state can be restored.
    fn into_parts(self) -> Vec<Value> {
        match self {
            Self::Number { ints, floats, seen } => vec![
                Value::Int((ints >> 64) as i64),
                Value::Int(ints as i64),
                floats.map_or(Value::Null, ExactSum::into_value),
                Value::Bool(seen),
            ],
            Self::Other(sum) => vec![sum],
        }
    }

    fn from_parts(parts: &[Value]) -> Option<Self> {
        match parts {
            [Value::Int(high), Value::Int(low), floats, Value::Bool(seen)] => Some(Self::Number {
                ints: i128::from(*high) << 64 | i128::from(*low as u64),
                floats: match floats {
                    Value::Null => None,
                    floats => Some(ExactSum::from_value(floats)?),
                },
                seen: *seen,
            }),
            [sum] => Some(Self::Other(sum.clone())),
            _ => None,
        }
    }

    fn finish(self) -> Result<Value> {
        match self {
            Self::Number {
                ints, floats: None, ..
            } => {
                let sum = i64::try_from(ints).map_err(|_| sum_overflow())?;
                Ok(Value::Int(sum))
            }
            Self::Number {
                ints,
                floats: Some(mut floats),
                ..
            } => {
                floats.add_integer(ints);
                Ok(Value::Float(floats.sum()))
            }
            Self::Other(sum) => Ok(sum),
        }
    }
}

fn sum_overflow() -> ExecError {
    ExecError::overflow("sum() does not fit into 64 bits")
}

impl Accumulator {
    /// The initial state.
    pub(crate) fn new(function: Aggregation, distinct: bool) -> Self {
        let state = match function {
            Aggregation::CountRows | Aggregation::Count => State::Count(0),
            Aggregation::Sum => State::Sum(Sum::default()),
            Aggregation::Avg => State::Avg(Mean::Number(ExactSum::default()), 0),
            Aggregation::Min => State::Min(Value::Null),
            Aggregation::Max => State::Max(Value::Null),
            Aggregation::Collect => State::Collect(Vec::new()),
            Aggregation::ProjectGraph => State::Graph(Vec::new()),
            Aggregation::StDev | Aggregation::StDevP => State::Deviation {
                count: 0.0,
                mean: 0.0,
                squares: 0.0,
                sample: function == Aggregation::StDev,
            },
            Aggregation::PercentileCont | Aggregation::PercentileDisc => State::Percentile {
                values: Vec::new(),
                at: None,
                interpolated: function == Aggregation::PercentileCont,
            },
        };
        Self {
            state,
            seen: distinct.then(FxHashSet::default),
        }
    }

    /// Counts rows, whatever their values: `count(*)`.
    pub(crate) fn add_rows(&mut self, times: u64) -> Result<()> {
        match &mut self.state {
            State::Count(count) => add_count(count, times),
            _ => Err(ExecError::Internal("only count(*) counts rows".into())),
        }
    }

    /// Adds `value`, `times` times; returns how many more bytes are held.
    pub(crate) fn add(
        &mut self,
        value: &Value,
        percentile: Option<&Value>,
        times: u64,
        env: &dyn Environment,
    ) -> Result<usize> {
        if let (State::Percentile { at, .. }, Some(percentile)) = (&mut self.state, percentile) {
            *at = Some(checked_percentile(percentile)?);
        }
        if value.is_null() || times == 0 {
            return Ok(0);
        }
        let mut bytes = 0;
        let mut times = times;
        if let Some(seen) = &mut self.seen {
            if !seen.insert(GroupKey(value.clone())) {
                return Ok(0);
            }
            bytes += value_bytes(value) + 16;
            // Repetitions of the row add nothing to a set.
            times = 1;
        }
        match &mut self.state {
            State::Count(count) => add_count(count, times)?,
            State::Sum(sum) => {
                let before = sum.held_bytes();
                sum.add(value, times, env)?;
                bytes += sum.held_bytes().saturating_sub(before);
            }
            State::Avg(mean, count) => {
                let before = mean.held_bytes();
                add_mean(mean, *count, value, times, env)?;
                bytes += mean.held_bytes().saturating_sub(before);
                *count += times;
            }
            State::Min(min) if min.is_null() || cmp_order(value, min).is_lt() => {
                bytes += value_bytes(value).saturating_sub(value_bytes(min));
                *min = value.clone();
            }
            State::Max(max) if max.is_null() || cmp_order(value, max).is_gt() => {
                bytes += value_bytes(value).saturating_sub(value_bytes(max));
                *max = value.clone();
            }
            State::Min(_) | State::Max(_) => {}
            State::Collect(values) | State::Graph(values) => {
                for _ in 0..times {
                    values.push(value.clone());
                }
                bytes += value_bytes(value).saturating_mul(times as usize);
            }
            State::Deviation {
                count,
                mean,
                squares,
                ..
            } => {
                let x = number(value, "stDev")?;
                for _ in 0..times {
                    *count += 1.0;
                    // The difference to the running mean is small, so that squares of large numbers do not cancel.
                    let distance = x - *mean;
                    *mean += distance / *count;
                    *squares += distance * (x - *mean);
                }
            }
            State::Percentile { values, .. } => {
                number(value, "percentile")?;
                for _ in 0..times {
                    values.push(value.clone());
                }
                bytes += size_of::<Value>().saturating_mul(times as usize);
            }
        }
        Ok(bytes)
    }

    /// The intermediate state as a value: see [`Accumulator::restore`].
    pub(crate) fn into_state(self) -> Value {
        let count = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let state = match self.state {
            State::Count(count) => vec![Value::Int(count)],
            State::Sum(sum) => sum.into_parts(),
            State::Min(value) | State::Max(value) => vec![value],
            State::Avg(Mean::Number(numbers), times) => {
                vec![Value::Bool(false), numbers.into_value(), count(times)]
            }
            State::Avg(Mean::Other(sum), times) => vec![Value::Bool(true), sum, count(times)],
            State::Collect(values) | State::Graph(values) => vec![Value::from(values)],
            State::Deviation {
                count,
                mean,
                squares,
                ..
            } => [count, mean, squares].map(Value::Float).into(),
            State::Percentile { values, at, .. } => {
                vec![Value::from(values), at.map_or(Value::Null, Value::Float)]
            }
        };
        let seen = self.seen.map(|seen| {
            let seen = seen.into_iter().map(|key| key.0);
            Value::from(seen.collect::<Vec<_>>())
        });
        Value::from(vec![Value::from(state), seen.unwrap_or_default()])
    }

    /// Restores an intermediate state of the same aggregation; no value was added yet. Returns how many bytes are held.
    pub(crate) fn restore(&mut self, from: &Value) -> Result<usize> {
        let lost = || ExecError::Internal("the state of an aggregation does not fit it".into());
        let [parts, saved] = from.as_list().ok_or_else(lost)? else {
            return Err(lost());
        };
        let parts = parts.as_list().ok_or_else(lost)?;
        let times = |value: &Value| value.as_int().and_then(|times| u64::try_from(times).ok());
        match (&mut self.state, parts) {
            (State::Count(count), [Value::Int(saved)]) => *count = *saved,
            (State::Sum(sum), parts) => *sum = Sum::from_parts(parts).ok_or_else(lost)?,
            (State::Min(value) | State::Max(value), [saved]) => {
                *value = saved.clone();
            }
            (State::Avg(mean, count), [Value::Bool(other), saved, number]) => {
                *mean = if *other {
                    Mean::Other(saved.clone())
                } else {
                    Mean::Number(ExactSum::from_value(saved).ok_or_else(lost)?)
                };
                *count = times(number).ok_or_else(lost)?;
            }
            (State::Collect(values) | State::Graph(values), [Value::List(saved)]) => {
                *values = saved.to_vec();
            }
            (
                State::Deviation {
                    count,
                    mean,
                    squares,
                    ..
                },
                [Value::Float(a), Value::Float(b), Value::Float(c)],
            ) => (*count, *mean, *squares) = (*a, *b, *c),
            (State::Percentile { values, at, .. }, [Value::List(saved), percentile]) => {
                *values = saved.to_vec();
                *at = percentile.as_float();
            }
            _ => return Err(lost()),
        }
        let mut bytes: usize = parts.iter().map(value_bytes).sum();
        if let Some(seen) = &mut self.seen {
            let saved = saved.as_list().ok_or_else(lost)?;
            bytes += saved
                .iter()
                .map(|value| value_bytes(value) + 16)
                .sum::<usize>();
            seen.extend(saved.iter().cloned().map(GroupKey));
        }
        Ok(bytes)
    }

    /// The result.
    pub(crate) fn finish(self, env: &dyn Environment) -> Result<Value> {
        Ok(match self.state {
            State::Count(count) => Value::Int(count),
            State::Sum(sum) => sum.finish()?,
            State::Avg(_, 0) => Value::Null,
            State::Avg(Mean::Number(numbers), count) => Value::Float(numbers.mean(count)),
            State::Avg(Mean::Other(sum), count) => arithmetic(
                Arithmetic::Divide,
                &sum,
                &Value::Int(i64::try_from(count).unwrap_or(i64::MAX)),
                env,
            )?,
            State::Min(value) | State::Max(value) => value,
            State::Collect(values) => Value::from(values),
            State::Graph(rows) => env.project_graph(&rows)?,
            State::Deviation {
                count,
                squares,
                sample,
                ..
            } => {
                let divisor = if sample { count - 1.0 } else { count };
                Value::Float(if divisor <= 0.0 {
                    0.0
                } else {
                    (squares / divisor).sqrt()
                })
            }
            State::Percentile {
                values,
                at,
                interpolated,
            } => {
                if values.is_empty() {
                    return Ok(Value::Null);
                }
                let at = at.unwrap_or(0.0);
                if interpolated {
                    interpolate(&values, at)
                } else {
                    nearest_rank(&values, at)
                }
            }
        })
    }
}

fn add_count(count: &mut i64, times: u64) -> Result<()> {
    *count = i64::try_from(times)
        .ok()
        .and_then(|times| count.checked_add(times))
        .ok_or_else(|| ExecError::overflow("count() does not fit into 64 bits"))?;
    Ok(())
}

fn add_sum(sum: &Value, value: &Value, times: u64, env: &dyn Environment) -> Result<Value> {
    if !matches!(value, Value::Int(_) | Value::Float(_) | Value::Duration(_)) {
        return Err(ExecError::type_error(format!(
            "sum() adds numbers or durations, not {}",
            shown(value)
        )));
    }
    let value = if times == 1 {
        value.clone()
    } else {
        arithmetic(
            Arithmetic::Multiply,
            value,
            &Value::Int(i64::try_from(times).unwrap_or(i64::MAX)),
            env,
        )?
    };
    match (sum, &value) {
        (Value::Int(0), Value::Duration(_)) => Ok(value),
        _ => arithmetic(Arithmetic::Add, sum, &value, env),
    }
}

fn add_mean(
    mean: &mut Mean,
    count: u64,
    value: &Value,
    times: u64,
    env: &dyn Environment,
) -> Result<()> {
    match (&mut *mean, value) {
        (Mean::Number(so_far), Value::Int(_) | Value::Float(_)) => {
            match value {
                // 63 and 64 bits.
                Value::Int(value) => so_far.add_integer(i128::from(*value) * i128::from(times)),
                value => so_far.add(number(value, "avg")?, times),
            }
        }
        (Mean::Number(_), Value::Duration(_)) if count == 0 => {
            *mean = Mean::Other(add_sum(&Value::Int(0), value, times, env)?)
        }
        (Mean::Other(sum), Value::Duration(_)) => *sum = add_sum(sum, value, times, env)?,
        _ => {
            return Err(ExecError::type_error(format!(
                "avg() takes numbers or durations, not {}",
                shown(value)
            )));
        }
    }
    Ok(())
}

fn number(value: &Value, function: &str) -> Result<f64> {
    value.to_f64().ok_or_else(|| {
        ExecError::type_error(format!("{function}() takes numbers, not {}", shown(value)))
    })
}

fn checked_percentile(percentile: &Value) -> Result<f64> {
    match percentile.to_f64() {
        Some(at) if (0.0..=1.0).contains(&at) => Ok(at),
        Some(at) => Err(ExecError::out_of_range(format!(
            "the percentile {at} must be between 0.0 and 1.0"
        ))),
        None => Err(ExecError::type_error(format!(
            "a percentile is a number between 0.0 and 1.0, not {}",
            shown(percentile)
        ))),
    }
}

fn interpolate(values: &[Value], at: f64) -> Value {
    let number = |rank: usize| ranked(values, rank).to_f64().unwrap_or(f64::NAN);
    let position = at * (values.len() - 1) as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    let low = number(below);
    Value::Float(if below == above {
        low
    } else {
        low + (number(above) - low) * (position - below as f64)
    })
}

fn nearest_rank(values: &[Value], at: f64) -> Value {
    let rank = (at * values.len() as f64).ceil() as usize;
    ranked(values, rank.clamp(1, values.len()) - 1).clone()
}

/// The value at index `rank` of the sorted values, the first seen first among equals: a selection in linear time, so
/// that cancellation is noticed with millions of values, too.
fn ranked(values: &[Value], rank: usize) -> &Value {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    let (_, at, _) = order.select_nth_unstable_by(rank, |a, b| {
        cmp_order(&values[*a as usize], &values[*b as usize]).then(a.cmp(b))
    });
    &values[*at as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorClass, function::tests::Stub};

    fn run(function: Aggregation, distinct: bool, values: &[Value]) -> Result<Value> {
        let mut accumulator = Accumulator::new(function, distinct);
        for value in values {
            accumulator.add(value, Some(&Value::Float(0.5)), 1, &Stub)?;
        }
        accumulator.finish(&Stub)
    }

    fn ints(values: &[i64]) -> Vec<Value> {
        values.iter().copied().map(Value::Int).collect()
    }

    #[test]
    fn a_mean_is_the_same_in_any_order_and_keeps_its_range() {
        let mean = |values: &[f64]| {
            let values: Vec<Value> = values.iter().copied().map(Value::Float).collect();
            run(Aggregation::Avg, false, &values).unwrap()
        };
        assert_eq!(mean(&[4.5, 1.5, 1.5, 4.5, 3.0]), Value::Float(3.0));
        assert_eq!(mean(&[1e16, 1.0, -1e16, 1.0]), Value::Float(0.5));
        assert_eq!(mean(&[f64::MAX, f64::MAX]), Value::Float(f64::MAX));
        assert_eq!(
            mean(&[1.0, f64::INFINITY, 2.0]),
            Value::Float(f64::INFINITY)
        );
        assert_eq!(mean(&[1.0, f64::NAN]), Value::Float(f64::NAN));
    }

    #[test]
    fn nulls_are_left_out_and_nothing_has_its_own_answers() {
        let none = [Value::Null];
        for (function, answer) in [
            (Aggregation::Count, Value::Int(0)),
            (Aggregation::Sum, Value::Int(0)),
            (Aggregation::Avg, Value::Null),
            (Aggregation::Min, Value::Null),
            (Aggregation::Collect, Value::empty_list()),
            (Aggregation::StDev, Value::Float(0.0)),
            (Aggregation::PercentileDisc, Value::Null),
        ] {
            assert_eq!(run(function, false, &none).unwrap(), answer, "{function:?}");
        }
    }

    #[test]
    fn figures() {
        assert_eq!(
            run(Aggregation::Sum, false, &ints(&[1, 2, 3])).unwrap(),
            Value::Int(6)
        );
        assert_eq!(
            run(Aggregation::Sum, false, &[Value::Int(1), Value::Float(0.5)]).unwrap(),
            Value::Float(1.5)
        );
        assert_eq!(
            run(Aggregation::Avg, false, &ints(&[1, 2, 3, 4])).unwrap(),
            Value::Float(2.5)
        );
        assert_eq!(
            run(
                Aggregation::Count,
                true,
                &[Value::Int(1), Value::Float(1.0), "1".into()]
            )
            .unwrap(),
            Value::Int(2)
        );
        assert_eq!(
            run(
                Aggregation::Max,
                false,
                &[Value::Int(1), "a".into(), Value::empty_list()]
            )
            .unwrap(),
            Value::Int(1)
        );
        assert_eq!(
            run(Aggregation::StDevP, false, &ints(&[2, 4, 4, 4, 5, 5, 7, 9])).unwrap(),
            Value::Float(2.0)
        );
        assert_eq!(
            run(Aggregation::PercentileCont, false, &ints(&[10, 20])).unwrap(),
            Value::Float(15.0)
        );
        assert_eq!(
            run(Aggregation::PercentileDisc, false, &ints(&[10, 20])).unwrap(),
            Value::Int(10)
        );
    }

    #[test]
    fn a_sum_leaves_64_bits_only_as_an_error() {
        let error = run(Aggregation::Sum, false, &ints(&[i64::MAX, 1])).unwrap_err();
        assert_eq!(
            error.classified(),
            Some((ErrorClass::ArithmeticError, "IntegerOverflow"))
        );
        assert!(run(Aggregation::Sum, false, &["a".into()]).is_err());
    }

    #[test]
    fn numbers_and_durations_do_not_add_up() {
        let hour = Value::from(isomer_value::Duration::default());
        for values in [[Value::Int(0), hour.clone()], [hour.clone(), Value::Int(0)]] {
            assert!(run(Aggregation::Sum, false, &values).is_err(), "{values:?}");
        }
        assert_eq!(
            run(Aggregation::Sum, false, &[hour.clone(), hour.clone()]).unwrap(),
            hour
        );
    }

    #[test]
    fn a_sum_is_the_same_in_any_order() {
        let whole = ints(&[i64::MAX, 1, -1]);
        let floats = [1e16, 1.0, -1e16].map(Value::Float);
        let mixed = [
            Value::Int(i64::MAX),
            Value::Float(0.5),
            Value::Int(-i64::MAX),
        ];
        for (values, sum) in [
            (&whole[..], Value::Int(i64::MAX)),
            (&floats[..], Value::Float(1.0)),
            (&mixed[..], Value::Float(0.5)),
        ] {
            for order in [
                [0, 1, 2],
                [0, 2, 1],
                [1, 0, 2],
                [1, 2, 0],
                [2, 0, 1],
                [2, 1, 0],
            ] {
                let ordered = order.map(|at| values[at].clone());
                let found = run(Aggregation::Sum, false, &ordered).unwrap();
                assert_eq!(found, sum, "{ordered:?}");
                // And after its state was saved and restored.
                let mut first = Accumulator::new(Aggregation::Sum, false);
                first.add(&ordered[0], None, 1, &Stub).unwrap();
                first.add(&ordered[1], None, 1, &Stub).unwrap();
                let mut second = Accumulator::new(Aggregation::Sum, false);
                second.restore(&first.into_state()).unwrap();
                second.add(&ordered[2], None, 1, &Stub).unwrap();
                assert_eq!(second.finish(&Stub).unwrap(), sum, "{ordered:?}");
            }
        }
        let infinite = [f64::MAX, f64::MAX, 1.0].map(Value::Float);
        let found = run(Aggregation::Sum, false, &infinite).unwrap();
        assert_eq!(found, Value::Float(f64::INFINITY));
    }

    #[test]
    fn repetitions_multiply() {
        let mut sum = Accumulator::new(Aggregation::Sum, false);
        sum.add(&Value::Int(3), None, 1_000_000_000_000, &Stub)
            .unwrap();
        assert_eq!(sum.finish(&Stub).unwrap(), Value::Int(3_000_000_000_000));
        let mut distinct = Accumulator::new(Aggregation::Sum, true);
        distinct.add(&Value::Int(3), None, 5, &Stub).unwrap();
        assert_eq!(distinct.finish(&Stub).unwrap(), Value::Int(3));
    }

    #[test]
    fn percentiles_lie_between_0_and_1() {
        let mut accumulator = Accumulator::new(Aggregation::PercentileCont, false);
        let error = accumulator
            .add(&Value::Int(1), Some(&Value::Float(1.1)), 1, &Stub)
            .unwrap_err();
        assert_eq!(
            error.classified(),
            Some((ErrorClass::ArgumentError, "NumberOutOfRange"))
        );
    }
}
