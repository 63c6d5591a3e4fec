//! Exact sums of numbers, rounded once, so that they do not depend on the order; means likewise.
//!
//! The sum is kept as non-overlapping doubles (Shewchuk 1997, as in Python's `math.fsum`), usually one to three of
//! them. Large numbers have a separate sum, scaled down, so that nothing overflows.

use std::borrow::Cow;

use isomer_value::Value;

/// Integers up to this are exact as doubles: 2⁵³.
const WHOLE: u64 = 1 << 53;
/// Numbers from here on are summed scaled: 2⁹⁰⁰. Numbers below it, times any 64-bit number and added as often as can be
/// counted, stay below the greatest double.
const LARGE: f64 = f64::from_bits((1023 + 900) << 52);
/// Scale of large numbers, an exact division: 2⁶⁰⁰.
const SCALE: f64 = f64::from_bits((1023 + 600) << 52);
/// Large numbers whose sum is below it are added to the others unscaled: 2¹⁰⁰⁰. The others stay far below it.
const HUGE: f64 = f64::from_bits((1023 + 1000) << 52);

/// Quotients smaller than its reciprocal are compared after multiplication with it: 2⁴⁰⁰.
const SMALL: f64 = f64::from_bits((1023 + 400) << 52);

/// A sum.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactSum {
    /// Ascending by magnitude, non-overlapping.
    parts: Vec<f64>,
    /// The sum of large numbers, divided by [`SCALE`].
    large: Vec<f64>,
    /// The sum of infinities and NaNs, if there were any.
    other: Option<f64>,
}

impl ExactSum {
    /// Adds `x`, `times` times.
    pub(crate) fn add(&mut self, x: f64, times: u64) {
        if !x.is_finite() {
            self.other = Some(self.other.unwrap_or_default() + x);
            return;
        }
        let (parts, x) = if x.abs() >= LARGE {
            (&mut self.large, x / SCALE)
        } else {
            (&mut self.parts, x)
        };
        grow_by(parts, x, times);
    }

    /// Adds an integer, in pieces that are exact doubles.
    pub(crate) fn add_integer(&mut self, integer: i128) {
        let (mut rest, mut weight) = (integer.unsigned_abs(), 1.0);
        let sign = if integer < 0 { -1.0 } else { 1.0 };
        while rest > 0 {
            let piece = rest % u128::from(WHOLE);
            grow(&mut self.parts, sign * piece as f64 * weight);
            rest /= u128::from(WHOLE);
            weight *= WHOLE as f64;
        }
    }

    /// Heap bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        (self.parts.capacity() + self.large.capacity()) * size_of::<f64>()
    }

    /// The sum.
    pub(crate) fn sum(&self) -> f64 {
        self.mean(1)
    }

    /// The sum divided by `count`, which is not 0.
    pub(crate) fn mean(&self, count: u64) -> f64 {
        if let Some(other) = self.other {
            return other;
        }
        let (parts, scale) = self.whole();
        quotient(&parts, count) * scale
    }

    /// Large numbers and others in one sum, and its scale.
    fn whole(&self) -> (Cow<'_, [f64]>, f64) {
        if self.large.is_empty() {
            return (Cow::Borrowed(&self.parts), 1.0);
        }
        if rounded(&self.large).abs() < HUGE / SCALE {
            let mut whole = self.parts.clone();
            self.large
                .iter()
                .for_each(|part| grow(&mut whole, part * SCALE));
            return (Cow::Owned(whole), 1.0);
        }
        let mut whole = self.large.clone();
        // Parts too small to be scaled only decide which of two doubles is nearer: the largest of them suffices.
        let small = self
            .parts
            .iter()
            .rev()
            .find(|part| **part / SCALE * SCALE != **part);
        let scaled = self.parts.iter().map(|part| part / SCALE);
        scaled
            .filter(|part| part.is_normal())
            .chain(small.map(|small| f64::MIN_POSITIVE.copysign(*small)))
            .for_each(|part| grow(&mut whole, part));
        (Cow::Owned(whole), SCALE)
    }

    /// As a value, from which the sum can be restored.
    pub(crate) fn into_value(self) -> Value {
        let list = |parts: Vec<f64>| parts.into_iter().map(Value::Float).collect::<Value>();
        let other = self.other.map_or(Value::Null, Value::Float);
        [list(self.parts), list(self.large), other]
            .into_iter()
            .collect()
    }

    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        let list = |value: &Value| -> Option<Vec<f64>> {
            value.as_list()?.iter().map(Value::as_float).collect()
        };
        let [parts, large, other] = value.as_list()? else {
            return None;
        };
        Some(Self {
            parts: list(parts)?,
            large: list(large)?,
            other: other.as_float(),
        })
    }
}

/// Adds `x` to a sum in parts, exactly.
fn grow(parts: &mut Vec<f64>, mut x: f64) {
    let mut kept = 0;
    for at in 0..parts.len() {
        let mut part = parts[at];
        if x.abs() < part.abs() {
            std::mem::swap(&mut x, &mut part);
        }
        let high = x + part;
        let low = part - (high - x);
        if low != 0.0 {
            parts[kept] = low;
            kept += 1;
        }
        x = high;
    }
    parts.truncate(kept);
    if x != 0.0 {
        parts.push(x);
    }
}

/// Adds `x` to a sum in parts, `times` times; exact unless `x` is near the smallest numbers.
fn grow_by(parts: &mut Vec<f64>, x: f64, times: u64) {
    if times == 1 {
        return grow(parts, x);
    }
    // Each half of `times` is a double, and the product of two doubles is a double plus its error.
    let low = times & 0xffff_ffff;
    for half in [(times - low) as f64, low as f64] {
        let product = x * half;
        grow(parts, product);
        grow(parts, x.mul_add(half, -product));
    }
}

/// The double nearest to a sum in parts divided by `count`; ties to even.
fn quotient(parts: &[f64], count: u64) -> f64 {
    let near = rounded(parts) / count as f64;
    if count == 1 || parts.len() < 2 && count <= WHOLE || !near.is_finite() {
        return near;
    }
    // With several roundings it may be off by one double. Products with small numbers would lose their error terms.
    let up = if near.abs() < 1.0 / SMALL { SMALL } else { 1.0 };
    let distance = |quotient: f64| {
        let mut rest: Vec<f64> = parts.iter().map(|part| part * up).collect();
        grow_by(&mut rest, -quotient * up, count);
        let negative = rest.last().is_some_and(|part| *part < 0.0);
        rest.iter_mut().for_each(|part| {
            if negative {
                *part = -*part;
            }
        });
        rest
    };
    // A divisor, a sum and a quotient, each rounded, are off by less than three doubles in total.
    let mut nearest = near;
    for step in [f64::next_down, f64::next_up] {
        loop {
            let other = step(nearest);
            let mut difference = distance(other);
            distance(nearest)
                .iter()
                .for_each(|part| grow(&mut difference, -part));
            match difference.last() {
                Some(part) if *part > 0.0 => break,
                None if other.to_bits() & 1 == 1 => break,
                _ => nearest = other,
            }
        }
    }
    nearest
}

/// The double nearest to a sum in parts; ties to even.
fn rounded(parts: &[f64]) -> f64 {
    let Some((&last, mut rest)) = parts.split_last() else {
        return 0.0;
    };
    let mut sum = last;
    let mut low = 0.0;
    while let Some((&part, below)) = rest.split_last() {
        let high = sum + part;
        low = part - (high - sum);
        sum = high;
        rest = below;
        if low != 0.0 {
            break;
        }
    }
    // Half-way between two doubles, the smaller parts decide which one is nearer.
    if let Some(below) = rest.last()
        && (low < 0.0) == (*below < 0.0)
        && low != 0.0
    {
        let twice = low * 2.0;
        let other = sum + twice;
        if twice == other - sum {
            return other;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;
    use proptest::prelude::*;

    use super::*;

    fn sum_of(values: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        values.iter().for_each(|value| sum.add(*value, 1));
        sum
    }

    #[test]
    fn nothing_is_lost() {
        assert_eq!(sum_of(&[1e16, 1.0, 1e32, 1.0, -1e32, -1e16]).sum(), 2.0);
        assert_eq!(sum_of(&[0.1; 10]).sum(), 1.0);
        assert_eq!(sum_of(&[f64::MAX, f64::MAX, -f64::MAX]).sum(), f64::MAX);
        assert_eq!(sum_of(&[f64::MAX, 1.0, -f64::MAX]).sum(), 1.0);
        assert_eq!(sum_of(&[f64::MAX, f64::MAX]).sum(), f64::INFINITY);
        assert_eq!(sum_of(&[f64::MAX, f64::MAX]).mean(2), f64::MAX);
        assert_eq!(sum_of(&[1.0, f64::INFINITY]).sum(), f64::INFINITY);
        assert!(sum_of(&[f64::NEG_INFINITY, f64::INFINITY]).sum().is_nan());
        assert_eq!(sum_of(&[]).sum(), 0.0);
        // Half-way, and a little more.
        assert_eq!(sum_of(&[1e16, 1.0, 1e-16]).sum(), 1e16 + 2.0);
        assert_eq!(sum_of(&[1e16, 1.0]).sum(), 1e16);
    }

    /// A double times 2¹¹³⁴, which makes any an integer.
    fn scaled(x: f64) -> BigInt {
        let (bits, power) = (x.to_bits(), (x.to_bits() >> 52 & 0x7ff) as u32);
        let mantissa = bits & ((1 << 52) - 1);
        let magnitude = match power {
            0 => BigInt::from(mantissa) << 60,
            power => BigInt::from(mantissa | 1 << 52) << (power - 1 + 60),
        };
        if x < 0.0 { -magnitude } else { magnitude }
    }

    /// Whether `mean` is the double nearest to `sum / count`, in integer arithmetic.
    fn is_nearest(mean: f64, sum: &BigInt, count: u64) -> bool {
        if !mean.is_finite() {
            return (sum / count).magnitude() >= scaled(f64::MAX).magnitude();
        }
        let distance = |x: f64| (sum - scaled(x) * count).magnitude().clone();
        let own = distance(mean);
        [mean.next_down(), mean.next_up()]
            .into_iter()
            .filter(|other| other.is_finite())
            .all(|other| own < distance(other) || own == distance(other) && mean.to_bits() & 1 == 0)
    }

    #[test]
    fn means_and_integers_are_rounded_once() {
        let mean = |values: &[f64]| sum_of(values).mean(values.len() as u64);
        assert_eq!(mean(&[9007199254740992.0, 1.0, 2.0]), 3002399751580331.5);
        let tiny = sum_of(&[2.0_f64.powi(1000), 2.0_f64.powi(947), 5e-324]).sum();
        assert_eq!(tiny, 2.0_f64.powi(1000).next_up());
        let left = sum_of(&[
            2.0_f64.powi(900),
            -2.0_f64.powi(899),
            -2.0_f64.powi(899),
            5e-324,
        ]);
        assert_eq!(left.sum(), 5e-324);
        let mut integers = ExactSum::default();
        integers.add_integer(9007199254740993);
        integers.add_integer(-9007199254740992);
        assert_eq!(integers.mean(2), 0.5);
        integers.add_integer(i128::MIN);
        integers.add_integer(i128::MAX);
        assert_eq!(integers.sum(), 0.0);
        integers.add_integer(9007199254740993);
        integers.add(0.5, 1);
        assert_eq!(integers.sum(), 9007199254740994.0);
        // The divisor is not exact as a double, and the quotient of its neighbour is further away than one step.
        let (mut sum, divisor) = (ExactSum::default(), 95966042231627241);
        sum.add(f64::MAX, 287);
        assert!(is_nearest(
            sum.mean(divisor),
            &(scaled(f64::MAX) * 287),
            divisor
        ));
    }

    fn number() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => -1e3..1e3_f64,
            2 => (-1e3..1e3_f64, -1074..1023_i32).prop_map(|(x, power)| x * 2.0_f64.powi(power)),
            1 => prop_oneof![Just(f64::MAX), Just(f64::MIN), Just(5e-324), Just(-0.0)],
        ]
        .prop_filter("finite", |x| x.is_finite())
    }

    proptest! {
        #[test]
        fn sums_and_means_are_the_nearest_doubles(
            values in prop::collection::vec((number(), 1..1000_u64), 1..20), divisor in 1..u64::MAX
        ) {
            let (mut sum, mut exact) = (ExactSum::default(), BigInt::ZERO);
            for (value, times) in &values {
                // Products of the smallest numbers and a count are not exact.
                let times = if value.abs() < 1e-200 { 1 } else { *times };
                sum.add(*value, times);
                exact += scaled(*value) * times;
            }
            prop_assert!(is_nearest(sum.sum(), &exact, 1));
            for divisor in [divisor, divisor % 1000 + 1] {
                prop_assert!(is_nearest(sum.mean(divisor), &exact, divisor), "/ {divisor}");
            }
        }

        /// In any order, saved and restored in between, and with repetition counts: the same bits.
        #[test]
        fn order_and_repetition_do_not_show(
            values in prop::collection::vec(number(), 1..40), seed: u64, cut in 0..40_usize, times in 1..50_u64
        ) {
            let sum = sum_of(&values).sum();
            let mut mixed = values.clone();
            let mut state = seed;
            for at in (1..mixed.len()).rev() {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                mixed.swap(at, (state >> 33) as usize % (at + 1));
            }
            prop_assert_eq!(sum_of(&mixed).sum().to_bits(), sum.to_bits());
            let cut = cut.min(mixed.len());
            let saved = sum_of(&mixed[..cut]).into_value();
            let mut resumed = ExactSum::from_value(&saved).expect("a sum");
            mixed[cut..].iter().for_each(|value| resumed.add(*value, 1));
            prop_assert_eq!(resumed.sum().to_bits(), sum.to_bits());
            let mut at_once = ExactSum::default();
            let mut one_by_one = ExactSum::default();
            for value in &values {
                at_once.add(*value, times);
                (0..times).for_each(|_| one_by_one.add(*value, 1));
            }
            prop_assert_eq!(at_once.sum().to_bits(), one_by_one.sum().to_bits());
        }
    }
}
