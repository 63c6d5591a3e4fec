//! HyperLogLog: an estimate of the number of distinct values.
//!
//! A value's 64-bit hash chooses one of 2^precision places by its first bits; the rank is the number of leading zeros
//! of the rest, plus one. A place keeps the greatest rank. The error is about 1.04 / √(2^precision). (Flajolet et al.,
//! "HyperLogLog", 2007; small numbers by linear counting; a 64-bit hash needs no correction of large ones.)
//!
//! Each (place, rank) that counts is an entry with a dot, like an element of a set: so resetting a sketch in a map is
//! as exact as for other fields.

use isomer_value::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::DataError;

/// The place and the rank of a value in a sketch of this precision.
pub fn noted(value: &Value, precision: u8) -> Result<(u16, u8), DataError> {
    super::place::check_scalar(value, "what a sketch counts")?;
    let hash = xxh3_64(&isomer_value::key::encode(value)?);
    let place = (hash >> (64 - precision)) as u16;
    let rest = hash << precision;
    let rank = rest.leading_zeros().min(u32::from(64 - precision)) as u8 + 1;
    Ok((place, rank))
}

/// The greatest rank of each place.
pub struct Ranks(Vec<u8>);

impl Ranks {
    /// An empty sketch of this precision.
    pub fn new(precision: u8) -> Self {
        Self(vec![0; 1 << precision])
    }

    /// Keeps `rank` at `place`, unless a greater one is there; places beyond the precision are ignored.
    pub fn note(&mut self, place: u16, rank: u8) {
        if let Some(held) = self.0.get_mut(usize::from(place)) {
            *held = (*held).max(rank);
        }
    }

    /// The places that hold something, with their ranks.
    pub fn held(&self) -> Vec<(u16, u8)> {
        let places = (0_u16..).zip(&self.0);
        places
            .filter(|(_, rank)| **rank > 0)
            .map(|(place, rank)| (place, *rank))
            .collect()
    }

    /// The estimated number of distinct values.
    pub fn estimate(&self) -> i64 {
        let count = self.0.len() as f64;
        let sum: f64 = self.0.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
        let alpha = match self.0.len() {
            16 => 0.673,
            32 => 0.697,
            64 => 0.709,
            _ => 0.7213 / (1.0 + 1.079 / count),
        };
        let raw = alpha * count * count / sum;
        let empty = self.0.iter().filter(|&&rank| rank == 0).count();
        let estimate = if raw <= 2.5 * count && empty > 0 {
            count * (count / empty as f64).ln()
        } else {
            raw
        };
        estimate.round() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convergent::place::SKETCH_PRECISIONS;

    #[test]
    fn estimates_keep_to_their_error() {
        for precision in SKETCH_PRECISIONS {
            let mut ranks = Ranks::new(precision);
            assert_eq!(ranks.estimate(), 0);
            let mut count = 0;
            for upto in [10_i64, 1_000, 100_000] {
                for value in count..upto {
                    let (place, rank) = noted(&Value::Int(value), precision).unwrap();
                    ranks.note(place, rank);
                    ranks.note(place, 1);
                }
                count = upto;
                let error = (ranks.estimate() - count).abs() as f64 / count as f64;
                let bound = 4.0 * 1.04 / f64::from(1_u32 << precision).sqrt() + 0.02;
                assert!(error <= bound, "precision {precision}, {count}: {error}");
            }
        }
    }
}
