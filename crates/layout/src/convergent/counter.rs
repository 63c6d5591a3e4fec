//! Counters: an entry for each increment, until all members have seen it.
//!
//! ```text
//! 00, id zigzag     one increment
//! 01, id first, i128   the sum of increments of one replica, folded: of all of the field up to and including the entry's dot,
//!                   of which the earliest is of its transaction `first`
//! ```
//! Removing a field removes the increments that were seen and no other, which a running sum could not distinguish. So
//! only *stable* increments are folded: those that every member of the replication has seen, and whose acknowledgements
//! have arrived here, so that no removal can arrive any more that knows some of them and not the others.

use crate::{
    DataError,
    convergent::{
        clock::{Dot, Vector},
        effect::{unzigzag, zigzag},
        place::malformed,
        rows::RowsMut,
    },
    keyspace::{push_id, take_id},
};

/// The value of an entry that is one increment.
pub fn plain(by: i64) -> Vec<u8> {
    let mut value = vec![0];
    push_id(&mut value, zigzag(by));
    value
}

fn folded(first: u64, sum: i128) -> Vec<u8> {
    let mut value = vec![1];
    push_id(&mut value, first);
    value.extend_from_slice(&sum.to_be_bytes());
    value
}

/// The amount of an entry, and the number of its earliest transaction where it is folded.
pub fn amount(value: &[u8]) -> Result<(i128, Option<u64>), DataError> {
    let parsed = match value.split_first() {
        Some((0, mut rest)) => take_id(&mut rest)
            .filter(|_| rest.is_empty())
            .map(|by| (unzigzag(by).into(), None)),
        Some((1, mut rest)) => take_id(&mut rest)
            .and_then(|first| Some((i128::from_be_bytes(rest.try_into().ok()?), Some(first)))),
        _ => None,
    };
    parsed.ok_or_else(malformed)
}

/// Folds the stable increments of the counter at `place`, each replica's separately, except for the `keep` newest of
/// each, so that clients can still remove with slightly older contexts. Returns the dots of the new sums: of their
/// replicas nothing is left below them.
pub fn fold(
    rows: &mut (impl RowsMut + ?Sized),
    place: &[u8],
    stable: &Vector,
    keep: usize,
) -> Result<Vec<Dot>, DataError> {
    let mut entries: Vec<(Dot, i128, u64)> = Vec::new();
    rows.scan(place, &[], 256, &mut |key, value| {
        let dot = Dot::sole(&key[place.len()..]).ok_or_else(malformed)?;
        if stable.covers(dot) {
            let (by, first) = amount(value)?;
            entries.push((dot, by, first.unwrap_or(dot.number)));
        }
        Ok(true)
    })?;
    let mut sums = Vec::new();
    // A sum per replica: a context covers the numbers of each replica separately, and one sum of
    // several replicas would be split by nearly all of them.
    for own in entries.chunk_by(|a, b| a.0.replica == b.0.replica) {
        let own = &own[..own.len().saturating_sub(keep)];
        let [rest @ .., last] = own else { continue };
        if rest.is_empty() {
            continue;
        }
        for (dot, ..) in rest {
            rows.delete_row(&super::effect::keyed(place, &[], *dot))?;
        }
        let sum = own.iter().map(|(_, by, _)| by).sum();
        let first = own.iter().map(|(.., first)| *first).min();
        let sum = folded(first.unwrap_or(last.2), sum);
        // Under the newest dot: a context that covers it covers the whole sum (see `is_split_by`).
        // The newest increment is overwritten with the sum, in the transaction that deletes
        // the others: no state has both.
        rows.put_row(&super::effect::keyed(place, &[], last.0), &sum)?;
        sums.push(last.0);
    }
    Ok(sums)
}

/// Whether `context` covers some of the increments of a folded entry and not all: they cannot be separated any more.
pub fn is_split_by(dot: Dot, value: &[u8], context: &Vector) -> Result<bool, DataError> {
    let first = amount(value)?.1;
    Ok(first.is_some_and(|first| !context.covers(dot) && context.upto(dot.replica) >= first))
}
