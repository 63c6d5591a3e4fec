//! Integers and doubles on one exact number line.

use std::cmp::Ordering;

/// 2^63, the first double above every integer.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// Compares exactly: the integer is never rounded to a double. `float` must not be NaN.
pub(crate) fn cmp_int_float(int: i64, float: f64) -> Ordering {
    debug_assert!(!float.is_nan());
    if float >= TWO_63 {
        return Ordering::Less;
    }
    if float < -TWO_63 {
        return Ordering::Greater;
    }
    let whole = float.trunc(); // fits by the two checks above
    int.cmp(&(whole as i64))
        .then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal))
}

/// Compares doubles; NaN is equal to itself and above all others, the two zeros are equal.
pub(crate) fn cmp_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The integer that is exactly this double, if there is one.
pub(crate) fn exact_int(float: f64) -> Option<i64> {
    ((-TWO_63..TWO_63).contains(&float) && float.trunc() == float).then_some(float as i64)
}

/// The largest double that is not above `int`, and how far `int` is above it (below 1024).
pub(crate) fn floor_double(int: i64) -> (f64, u16) {
    let near = int as f64;
    let floor = if cmp_int_float(int, near) == Ordering::Less {
        near.next_down()
    } else {
        near
    };
    let rest = i128::from(int) - floor as i128;
    debug_assert!((0..1024).contains(&rest));
    (floor, rest as u16)
}

/// The double's bits, arranged so that unsigned comparison is numeric comparison. One zero, one NaN.
pub(crate) fn ordered_bits(float: f64) -> u64 {
    let float = if float == 0.0 {
        0.0
    } else if float.is_nan() {
        f64::NAN
    } else {
        float
    };
    let bits = float.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// The double of [`ordered_bits`].
pub(crate) fn float_of_ordered_bits(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 {
        bits ^ (1 << 63)
    } else {
        !bits
    })
}

/// Whether integers near `float` are further apart as doubles than 1, or just stop being so: from 2^53 on.
pub(crate) fn has_rest(float: f64) -> bool {
    let size = float.abs();
    size >= 9_007_199_254_740_992.0 && (size < TWO_63 || float == -TWO_63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_meet_exactly() {
        let two_53 = 9_007_199_254_740_992_i64;
        assert_eq!(cmp_int_float(two_53 + 1, two_53 as f64), Ordering::Greater);
        assert_eq!(
            cmp_int_float(two_53 + 1, (two_53 + 2) as f64),
            Ordering::Less
        );
        assert_eq!(cmp_int_float(i64::MAX, TWO_63), Ordering::Less);
        assert_eq!(cmp_int_float(i64::MIN, -TWO_63), Ordering::Equal);
        assert_eq!(cmp_int_float(-1, -1.5), Ordering::Greater);
        assert_eq!(cmp_int_float(-2, -1.5), Ordering::Less);
        assert_eq!(cmp_int_float(0, f64::NEG_INFINITY), Ordering::Greater);
        assert_eq!(cmp_int_float(0, -0.0), Ordering::Equal);
    }

    #[test]
    fn a_floor_double_and_its_rest_give_the_integer_back() {
        for int in [
            0,
            1,
            -1,
            i64::MAX,
            i64::MIN,
            (1 << 53) + 1,
            -(1 << 53) - 1,
            i64::MAX - 511,
        ] {
            let (floor, rest) = floor_double(int);
            assert_eq!(floor as i128 + i128::from(rest), i128::from(int));
            assert!(rest == 0 || has_rest(floor), "{int}");
        }
    }
}
