//! Joining two states without their histories: for a replica that is new, or far behind.

use crate::{
    DataError,
    convergent::{
        clock::{Dot, ReplicaNo, Vector},
        counter,
        place::{ConvergentKind, FieldEntry, entry},
    },
};

/// An entry of a state: its key after the prefix of the field, and its value.
pub type StateRow = (Vec<u8>, Vec<u8>);

/// One state: its vector and its entries, ascending, of one owner.
#[derive(Clone, Copy)]
pub struct State<'a> {
    /// What the state has seen.
    pub seen: &'a Vector,
    /// Its entries.
    pub rows: &'a [StateRow],
}

/// The entries of the joined state, ascending. An entry that both hold stays; one that one side holds stays unless the
/// other has seen it, and so has seen it removed. Replicas must have the same numbers on both sides.
///
/// Cost: linear, except for folded counters; the rows of one owner are in memory.
pub fn join<'a>(one: State<'a>, other: State<'a>) -> Result<Vec<&'a StateRow>, DataError> {
    let (ours_parts, theirs_parts) = (parts_of(one.rows)?, parts_of(other.rows)?);
    // Folded counters first: whether an increment stays depends on a sum that may have a greater
    // key, or be on the other side.
    let sums = Sums::of((one, &ours_parts), (other, &theirs_parts))?;
    let mut joined = Vec::with_capacity(one.rows.len().max(other.rows.len()));
    let (mut left, mut right) = (0, 0);
    loop {
        // The next row, and the state that lacks it.
        let (row, parts, lacking) = match (one.rows.get(left), other.rows.get(right)) {
            (None, None) => break,
            (Some(ours), Some(theirs)) if ours.0 == theirs.0 => {
                let parts = &theirs_parts[right];
                (left, right) = (left + 1, right + 1);
                // One operation, but one side may have folded it with earlier ones.
                let folded = parts.kind == ConvergentKind::Counter
                    && counter::amount(&theirs.1)?.1.is_some();
                (if folded { theirs } else { ours }, parts, None)
            }
            (Some(ours), theirs) if theirs.is_none_or(|(theirs, _)| ours.0 < *theirs) => {
                left += 1;
                (ours, &ours_parts[left - 1], Some(other))
            }
            (_, Some(theirs)) => {
                right += 1;
                (theirs, &theirs_parts[right - 1], Some(one))
            }
            (Some(_), None) => break, // the arm before has it
        };
        // An increment within a sum may be on the other side, as an entry: the sum alone stays, or the
        // increment would count twice.
        let stays = match sums.sum_role(parts, &row.0) {
            SumRole::Summed => false,
            SumRole::Sum(stays) => stays,
            SumRole::Alone => lacking.is_none_or(|lacking| stays_alone(parts.dot, lacking.seen)),
        };
        if stays {
            joined.push(row);
        }
    }
    Ok(joined)
}

/// Whether an entry of one side stays where the other side lacks it and has seen this vector. (Counters are decided by
/// their sums.)
pub fn stays_alone(dot: Dot, lacking: &Vector) -> bool {
    !lacking.covers(dot)
}

fn parts_of(rows: &[StateRow]) -> Result<Vec<FieldEntry>, DataError> {
    rows.iter().map(|(key, _)| entry(key)).collect()
}

/// The entries of one owner in the joined state, from the vectors and entries of both sides.
pub fn join_rows<'a>(
    one: (&'a Vector, &'a [StateRow]),
    other: (&'a Vector, &'a [StateRow]),
) -> Result<Vec<&'a StateRow>, DataError> {
    let state = |(seen, rows)| State { seen, rows };
    join(state(one), state(other))
}

/// The greatest sums of folded increments, by field and replica.
struct Sums(Vec<(Vec<u8>, ReplicaNo, Dot, bool)>);

/// What the sums say of an entry.
enum SumRole {
    /// Not covered by a sum.
    Alone,
    /// It is the greatest sum, and stays or not.
    Sum(bool),
    /// A greater sum includes it.
    Summed,
}

impl Sums {
    fn of(
        one: (State<'_>, &[FieldEntry]),
        other: (State<'_>, &[FieldEntry]),
    ) -> Result<Self, DataError> {
        // Linear search below: a field has a sum per replica at most, and few counters are
        // folded in the rows of one owner.
        let mut greatest: Vec<(Vec<u8>, ReplicaNo, Dot, bool)> = Vec::new();
        for ((state, parts), (lacking, _)) in [(one, other), (other, one)] {
            for ((key, value), parts) in state.rows.iter().zip(parts) {
                if parts.kind != ConvergentKind::Counter || counter::amount(value)?.1.is_none() {
                    continue;
                }
                // The other side holds its last increment, or has not seen it; otherwise it has removed them all.
                let is_there = lacking.rows.binary_search_by(|row| row.0.cmp(key)).is_ok();
                let stays = is_there || !lacking.seen.covers(parts.dot);
                let field = key[..parts.field].to_vec();
                let same = |sum: &&mut (Vec<u8>, ReplicaNo, Dot, bool)| {
                    sum.0 == field && sum.1 == parts.dot.replica
                };
                match greatest.iter_mut().find(same) {
                    // Each replica folds all stable increments of a replica up to some dot, so the sum with the
                    // greatest dot includes the others. Where it was removed, they were removed with it: a fold
                    // is stable, so no removal can tell its parts apart.
                    Some(sum) if sum.2 < parts.dot => (sum.2, sum.3) = (parts.dot, stays),
                    Some(sum) if sum.2 == parts.dot => sum.3 |= stays,
                    Some(_) => {}
                    None => greatest.push((field, parts.dot.replica, parts.dot, stays)),
                }
            }
        }
        Ok(Self(greatest))
    }

    fn sum_role(&self, parts: &FieldEntry, key: &[u8]) -> SumRole {
        if parts.kind != ConvergentKind::Counter {
            return SumRole::Alone;
        }
        let (field, dot) = (&key[..parts.field], parts.dot);
        let sum = self
            .0
            .iter()
            .find(|sum| sum.0 == field && sum.1 == dot.replica);
        match sum {
            Some((.., last, stays)) if *last == dot => SumRole::Sum(*stays),
            Some((.., last, _)) if dot < *last => SumRole::Summed,
            _ => SumRole::Alone,
        }
    }
}
