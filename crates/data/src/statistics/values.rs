//! The distribution of the values of a sample, extrapolated to all.

use isomer_value::key;

use super::ValueStatistics;

/// Most common values that are kept.
const COMMON: usize = 16;
/// Parts of equal size that the bounds make.
const PARTS: usize = 32;
/// Encoded values longer than this are counted, but neither kept as common ones nor as bounds.
const LONGEST: usize = 256;

/// Summarises encoded values found in `sampled` of `all` records. The values may be in any order.
pub(super) fn summarise(mut values: Vec<&[u8]>, sampled: u64, all: u64) -> ValueStatistics {
    values.sort_unstable();
    let scale = all as f64 / sampled.max(1) as f64;
    let scaled = |count: usize| ((count as f64 * scale).round() as u64).max(1);
    let mut runs: Vec<(usize, &[u8])> = Vec::new();
    for value in &values {
        match runs.last_mut() {
            Some((count, last)) if last == value => *count += 1,
            _ => runs.push((1, value)),
        }
    }
    let present = if values.is_empty() {
        0
    } else {
        scaled(values.len())
    };
    let distinct = distinct(values.len(), &runs, present);
    // Of a sample only frequent values are listed as common; of all records everything is known.
    let fewest = if sampled >= all { 1 } else { 2 };
    let average = values.len() as f64 / runs.len().max(1) as f64;
    runs.retain(|(count, value)| {
        *count >= fewest
            && (*count as f64 > 1.2 * average || distinct <= COMMON as u64)
            && value.len() <= LONGEST
    });
    runs.sort_by(|(a, _), (b, _)| b.cmp(a));
    let common = runs
        .iter()
        .take(COMMON)
        .filter_map(|(count, value)| Some((key::decode(value).ok()?, scaled(*count))))
        .collect();
    let parts = PARTS.min(values.len().saturating_sub(1));
    let bounds = (0..=parts)
        .filter_map(|part| values.get(part * values.len().saturating_sub(1) / parts.max(1)))
        .filter(|value| value.len() <= LONGEST)
        .filter_map(|value| key::decode(value).ok())
        .collect();
    ValueStatistics {
        present,
        distinct,
        common,
        bounds,
    }
}

/// Estimated number of distinct values among `present`, from those of a sample: the estimator of Haas and Stokes
/// (1998), n·d / (n − f₁ + f₁·n/N), with f₁ the values seen once.
pub(super) fn distinct(sampled: usize, runs: &[(usize, &[u8])], present: u64) -> u64 {
    let once = runs.iter().filter(|(count, _)| *count == 1).count() as f64;
    let (n, d, all) = (sampled as f64, runs.len() as f64, present as f64);
    if sampled == 0 {
        return 0;
    }
    let estimate = n * d / (n - once + once * n / all.max(n));
    (estimate.round() as u64).clamp(runs.len() as u64, present.max(runs.len() as u64))
}

/// The distinct values among sampled ones, scaled.
pub(super) fn count_distinct(mut values: Vec<&[u8]>, present: u64) -> u64 {
    values.sort_unstable();
    let mut runs: Vec<(usize, &[u8])> = Vec::new();
    for value in &values {
        match runs.last_mut() {
            Some((count, last)) if last == value => *count += 1,
            _ => runs.push((1, value)),
        }
    }
    distinct(values.len(), &runs, present)
}

#[cfg(test)]
mod tests {
    use isomer_value::Value;

    use super::*;

    fn encoded(values: impl Iterator<Item = i64>) -> Vec<Vec<u8>> {
        values
            .map(|value| key::encode(&Value::Int(value)).expect("a number"))
            .collect()
    }

    fn slices(values: &[Vec<u8>]) -> Vec<&[u8]> {
        values.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn a_whole_is_summarised_exactly() {
        let values = encoded((0..1_000).map(|at| if at < 900 { 7 } else { at }));
        let found = summarise(slices(&values), 1_000, 1_000);
        assert_eq!((found.present, found.distinct), (1_000, 101));
        assert_eq!(found.common[0], (Value::Int(7), 900));
        assert_eq!(found.common.len(), 1, "the others do not stand out");
        assert_eq!(found.bounds.first(), Some(&Value::Int(7)));
        assert_eq!(found.bounds.last(), Some(&Value::Int(999)));
        assert_eq!(
            found
                .bounds
                .iter()
                .filter(|one| **one == Value::Int(7))
                .count(),
            29,
            "nine tenths of the parts"
        );
    }

    #[test]
    fn a_sample_tells_unique_values_from_repeated_ones() {
        let unique = encoded(0..500);
        let found = summarise(slices(&unique), 500, 100_000);
        assert_eq!(found.distinct, 100_000);
        assert!(found.common.is_empty());
        let few = encoded((0..500).map(|at| at % 10));
        let found = summarise(slices(&few), 500, 100_000);
        assert_eq!((found.present, found.distinct), (100_000, 10));
        assert_eq!(found.common.len(), 10);
        assert_eq!(found.common[0].1, 10_000);
    }

    #[test]
    fn nothing_is_summarised_as_nothing() {
        assert_eq!(
            summarise(Vec::new(), 100, 1_000),
            ValueStatistics::default()
        );
        let one = encoded(0..1);
        let found = summarise(slices(&one), 100, 1_000);
        assert_eq!((found.present, found.bounds.len()), (10, 1));
    }
}
