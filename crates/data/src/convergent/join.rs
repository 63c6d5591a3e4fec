//! Joining two states without their histories: for a replica that is new, or far behind.

use std::collections::BTreeSet;

use super::{
    clock::{Dot, ReplicaNo, Vector},
    counter,
    place::{ConvergentKind, entry},
    rules::{self, Mutant},
};
use crate::DataError;

/// An entry of a state: its key without what stands before the field, and its value.
pub(crate) type Row = (Vec<u8>, Vec<u8>);

/// One state: what it has seen and what it holds, ascending, of one owner.
pub(crate) struct State<'a> {
    pub(crate) seen: &'a Vector,
    pub(crate) rows: &'a [Row],
}

/// The entries of the joined state, ascending. An entry that both hold stays; one that one side holds stays unless the other
/// has seen it, and so has seen it go. Replicas must have the same numbers on both sides.
///
/// Cost: linear; what is held in memory is the rows of one owner.
pub(crate) fn join(one: &State<'_>, other: &State<'_>) -> Result<Vec<Row>, DataError> {
    let sums = Sums::of(one, other)?;
    let mut joined = Vec::with_capacity(one.rows.len().max(other.rows.len()));
    let (mut left, mut right) = (one.rows, other.rows);
    loop {
        // The row that comes next, and the state that lacks it.
        let (row, lacking) = match (left.split_first(), right.split_first()) {
            (None, None) => break,
            (Some((ours, left_rest)), Some((theirs, right_rest))) if ours.0 == theirs.0 => {
                (left, right) = (left_rest, right_rest);
                // One operation, but one side may have folded it with earlier ones.
                let folded = entry(&theirs.0)?.kind == ConvergentKind::Counter
                    && counter::amount(&theirs.1)?.1.is_some();
                (if folded { theirs } else { ours }, None)
            }
            (Some((ours, rest)), theirs) if theirs.is_none_or(|(theirs, _)| ours.0 < theirs.0) => {
                left = rest;
                (ours, Some(other))
            }
            (_, Some((theirs, rest))) => {
                right = rest;
                (theirs, Some(one))
            }
            (Some(_), None) => break, // the arm before has it
        };
        let parts = entry(&row.0)?;
        let field = &row.0[..parts.field];
        let stays = match sums.standing(parts.kind, field, parts.dot) {
            Standing::Summed => rules::broken(Mutant::JoinCountsFoldedTwice),
            Standing::Sum(stays) => stays,
            Standing::Alone => lacking.is_none_or(|lacking| {
                !lacking.seen.covers(parts.dot) || rules::broken(Mutant::JoinIgnoresVector)
            }),
        };
        if stays {
            joined.push(row.clone());
        }
    }
    Ok(joined)
}

/// The entries of one owner in the joined state, of what either side has seen and holds.
pub(crate) fn join_rows(
    one: (&Vector, &[Row]),
    other: (&Vector, &[Row]),
) -> Result<Vec<Row>, DataError> {
    let state = |(seen, rows)| State { seen, rows };
    join(&state(one), &state(other))
}

/// The greatest sums of folded increments, by field and replica.
struct Sums(Vec<(Vec<u8>, ReplicaNo, Dot, bool)>);

enum Standing {
    /// No sum has to do with it.
    Alone,
    /// It is the greatest sum, and stays or not.
    Sum(bool),
    /// It is in a greater sum.
    Summed,
}

impl Sums {
    fn of(one: &State<'_>, other: &State<'_>) -> Result<Self, DataError> {
        let mut greatest: Vec<(Vec<u8>, ReplicaNo, Dot, bool)> = Vec::new();
        for (state, lacking) in [(one, other), (other, one)] {
            let keys: BTreeSet<&[u8]> = lacking.rows.iter().map(|(key, _)| &**key).collect();
            for (key, value) in state.rows {
                let parts = entry(key)?;
                if parts.kind != ConvergentKind::Counter || counter::amount(value)?.1.is_none() {
                    continue;
                }
                // The other side holds its last increment, or has not seen it: else it has removed them all.
                let stays = keys.contains(&key[..]) || !lacking.seen.covers(parts.dot);
                let field = key[..parts.field].to_vec();
                let same = |sum: &&mut (Vec<u8>, ReplicaNo, Dot, bool)| {
                    sum.0 == field && sum.1 == parts.dot.replica
                };
                match greatest.iter_mut().find(same) {
                    Some(sum) if sum.2 < parts.dot => (sum.2, sum.3) = (parts.dot, stays),
                    Some(sum) if sum.2 == parts.dot => sum.3 |= stays,
                    Some(_) => {}
                    None => greatest.push((field, parts.dot.replica, parts.dot, stays)),
                }
            }
        }
        Ok(Self(greatest))
    }

    fn standing(&self, kind: ConvergentKind, field: &[u8], dot: Dot) -> Standing {
        if kind != ConvergentKind::Counter {
            return Standing::Alone;
        }
        let sum = self
            .0
            .iter()
            .find(|sum| sum.0 == field && sum.1 == dot.replica);
        match sum {
            Some((.., last, stays)) if *last == dot => Standing::Sum(*stays),
            Some((.., last, _)) if dot < *last => Standing::Summed,
            _ => Standing::Alone,
        }
    }
}
