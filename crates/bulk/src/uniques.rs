//! Keys and unique values of one load: each may occur once.
//!
//! They are stored as 128-bit hashes, 17 to 40 bytes each, and a row is refused as it is read. Where they exceed their
//! share of the load's memory they are sorted on disk instead, and rows are refused after the last was read: the same
//! rows with the same errors.

use std::{
    cmp::Ordering,
    io::{self, Read, Write},
    sync::Arc,
};

use rustc_hash::FxHashSet;

use crate::sorter::{Sortable, Sorter, read_bytes, write_bytes};
use isomer_data::{DataError, SpillFolder};

/// A key or value that a row claims exclusively.
pub(super) struct Claim {
    pub(super) hash: u128,
    /// For the message: zero for the key, else one more than the index's place in the catalog.
    pub(super) place: u32,
    /// For the message: the value as text.
    pub(super) value: String,
}

/// A claim of the row `number` of the records, or of one that was accepted already where it is zero.
struct Placed {
    hash: u128,
    /// One more than the record's number.
    number: u64,
    row: u64,
    place: u32,
    value: Vec<u8>,
}

/// A row with a claim of an earlier one.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) number: u64,
    pub(super) row: u64,
    pub(super) place: u32,
    pub(super) value: String,
}

/// This number of repetitions can be checked however little memory there is.
const MIN_REPETITIONS: usize = 1000;

pub(super) struct Uniques {
    taken: FxHashSet<u128>,
    budget: usize,
    folder: Arc<SpillFolder>,
    sorted: Option<Sorter<Placed>>,
}

impl Uniques {
    pub(super) fn new(budget: usize, folder: &Arc<SpillFolder>) -> Self {
        Self {
            taken: FxHashSet::default(),
            budget,
            folder: folder.clone(),
            sorted: None,
        }
    }

    /// Whether an earlier row has it, as far as it is in memory.
    pub(super) fn is_taken(&self, hash: u128) -> bool {
        self.taken.contains(&hash)
    }

    /// Adds a claim of the record `number`, input row `row`.
    pub(super) fn take(&mut self, number: u64, row: u64, claims: Vec<Claim>) -> io::Result<()> {
        for claim in claims {
            if self.sorted.is_none() && self.is_full() {
                self.spill()?;
            }
            match &mut self.sorted {
                None => {
                    self.taken.insert(claim.hash);
                }
                Some(sorted) => sorted.push(Placed {
                    hash: claim.hash,
                    number: number + 1,
                    row,
                    place: claim.place,
                    value: claim.value.into_bytes(),
                })?,
            }
        }
        Ok(())
    }

    /// Whether one hash more would make the table double, and the old and the new table together exceed the memory.
    fn is_full(&self) -> bool {
        let buckets = self.taken.capacity() / 7 * 8;
        self.taken.len() == self.taken.capacity()
            && 3 * buckets * (size_of::<u128>() + 1) > self.budget
    }

    fn spill(&mut self) -> io::Result<()> {
        let mut sorted = Sorter::new(self.budget, &self.folder);
        for hash in std::mem::take(&mut self.taken) {
            sorted.push(Placed {
                hash,
                number: 0,
                row: 0,
                place: 0,
                value: Vec::new(),
            })?;
        }
        self.sorted = Some(sorted);
        Ok(())
    }

    /// The rows that were accepted in memory and repeat a claim of an earlier accepted row, in order.
    pub(super) fn finish(self) -> Result<Vec<Refused>, DataError> {
        let Some(sorted) = self.sorted else {
            return Ok(Vec::new());
        };
        let failed = |error: io::Error| self.folder.explain(&error);
        // Claims whose hash another row has too: only these can be violations.
        let mut contested: Vec<Placed> = Vec::new();
        let most = (self.budget / 128).max(MIN_REPETITIONS);
        let mut last: Option<Placed> = None;
        for placed in sorted.finish().map_err(failed)? {
            let placed = placed.map_err(failed)?;
            let same = last.as_ref().is_some_and(|last| last.hash == placed.hash);
            if same || contested.last().is_some_and(|one| one.hash == placed.hash) {
                contested.extend(last.take());
                contested.push(placed);
            } else {
                last = Some(placed);
            }
            if contested.len() > most {
                return Err(DataError::Limit {
                    what: "the number of repeated keys or unique values in this load".into(),
                    size: format!("more than {most}"),
                    max: format!("{most} with this load's memory"),
                    advice: "take repeated rows out of the input, or give the load more memory",
                });
            }
        }
        Ok(resolve(contested))
    }
}

/// In the order of their rows: a row is accepted if no earlier accepted row has any of its claims.
fn resolve(mut contested: Vec<Placed>) -> Vec<Refused> {
    contested.sort_unstable_by_key(|placed| placed.number);
    let mut taken: FxHashSet<u128> = FxHashSet::default();
    let mut refused = Vec::new();
    for row in contested.chunk_by(|a, b| a.number == b.number) {
        let number = row[0].number;
        // The first rows' claims, made before memory was full, belong to no single row.
        let collision = row.iter().filter(|_| number > 0);
        match collision.into_iter().find(|one| taken.contains(&one.hash)) {
            None => taken.extend(row.iter().map(|one| one.hash)),
            Some(one) => refused.push(Refused {
                number: number - 1,
                row: one.row,
                place: one.place,
                value: String::from_utf8_lossy(&one.value).into_owned(),
            }),
        }
    }
    refused
}

impl PartialEq for Placed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Placed {}

impl PartialOrd for Placed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Placed {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.hash, self.number, self.place).cmp(&(other.hash, other.number, other.place))
    }
}

impl Sortable for Placed {
    fn heap_bytes(&self) -> usize {
        self.value.capacity() + 16
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.hash.to_le_bytes())?;
        out.write_all(&self.number.to_le_bytes())?;
        out.write_all(&self.row.to_le_bytes())?;
        out.write_all(&self.place.to_le_bytes())?;
        write_bytes(out, &self.value)
    }

    fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut hash = [0; 16];
        let (mut number, mut row, mut place) = ([0; 8], [0; 8], [0; 4]);
        input.read_exact(&mut hash)?;
        input.read_exact(&mut number)?;
        input.read_exact(&mut row)?;
        input.read_exact(&mut place)?;
        Ok(Self {
            hash: u128::from_le_bytes(hash),
            number: u64::from_le_bytes(number),
            row: u64::from_le_bytes(row),
            place: u32::from_le_bytes(place),
            value: read_bytes(input)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Which rows are refused, as a load does it.
    fn refused(budget: usize, rows: &[Vec<u8>]) -> (Vec<u64>, bool) {
        let outer = tempfile::tempdir().unwrap();
        let mut uniques = Uniques::new(budget, &Arc::new(SpillFolder::new(outer.path())));
        let (mut refused, mut numbers) = (Vec::new(), Vec::new());
        for (row, values) in rows.iter().enumerate() {
            let claims = || {
                values.iter().enumerate().map(|(place, value)| Claim {
                    hash: u128::from(*value) << 8 | place as u128,
                    place: place as u32,
                    value: value.to_string(),
                })
            };
            if claims().any(|claim| uniques.is_taken(claim.hash)) {
                refused.push(row as u64);
            } else {
                let number = numbers.len() as u64;
                numbers.push(row as u64);
                uniques
                    .take(number, row as u64, claims().collect())
                    .unwrap();
            }
        }
        let spilled = uniques.sorted.is_some();
        for late in uniques.finish().unwrap() {
            assert_eq!(numbers[late.number as usize], late.row);
            refused.push(late.row);
        }
        (refused, spilled)
    }

    proptest! {
        /// The same rows are refused, however little memory there is: also rows that conflict only with refused ones.
        #[test]
        fn the_result_is_independent_of_memory(
            rows in prop::collection::vec(prop::collection::vec(0..60_u8, 2), 0..200)
        ) {
            let (all, spilled) = refused(1 << 20, &rows);
            prop_assert!(!spilled);
            let (few, spilled) = refused(60_000, &rows);
            prop_assert!(!spilled);
            prop_assert_eq!(&few, &all);
            let (mut tiny, _) = refused(300, &rows);
            tiny.sort_unstable();
            prop_assert_eq!(tiny, all);
        }
    }

    /// A load that cannot be decided in the available memory is an error.
    #[test]
    fn a_load_of_repetitions_is_refused_whole() {
        let outer = tempfile::tempdir().unwrap();
        let mut uniques = Uniques::new(300, &Arc::new(SpillFolder::new(outer.path())));
        for number in 0..2000 {
            let claim = Claim {
                hash: 7 + u128::from(number < 10) * u128::from(number),
                place: 0,
                value: "7".into(),
            };
            uniques.take(number, number, vec![claim]).unwrap();
        }
        assert!(matches!(uniques.finish(), Err(DataError::Limit { .. })));
    }
}
