//! Bucket entries as versioned cells: versions of one value a key, members of the sets that multi-value buckets
//! contain.
//!
//! The version that is read is stored under the entry's own key; its writer, and the other versions, under the cell's
//! (see `versions`; a value of a multi-value bucket has versions without a value, each a dot that added it). An entry
//! without a cell is older than replication.

use isomer_data::{
    DataError, Dot, Transaction,
    internals::{footprint::Space, own_replica},
};
use isomer_layout::{
    keyspace::{self, push_terminated},
    replicated::codec::malformed,
};

use crate::{
    state::replication_of,
    versions::{self, Stamp, Version, push_versions, take_versions},
};

/// The versions of the entry under a key.
pub(crate) fn cell_versions(tx: &Transaction, stored: &[u8]) -> Result<Vec<Version>, DataError> {
    let cell = keyspace::cell(stored);
    let mut found = tx.read().get_many(&[&cell, stored])?;
    let (value, cell) = (found.pop().flatten(), found.pop().flatten());
    versions_in(tx, cell.as_deref(), value.as_deref())
}

pub(crate) fn versions_in(
    tx: &Transaction,
    cell: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Result<Vec<Version>, DataError> {
    match (cell, value) {
        (Some(mut cell), value) => {
            let versions = take_versions(&mut cell, value.unwrap_or_default());
            versions.ok_or_else(|| malformed("the metadata of an entry of a bucket"))
        }
        (None, Some(value)) => Ok(vec![Version {
            stamp: replication_of(tx.store()).base()?,
            value: value.to_vec(),
        }]),
        (None, None) => Ok(Vec::new()),
    }
}

/// Stores the versions of an entry and returns the index of the one that is read; the caller must put that one.
pub(crate) fn put_cell(
    tx: &mut Transaction,
    stored: &[u8],
    versions: &[Version],
) -> Result<Option<usize>, DataError> {
    let cell = keyspace::cell(stored);
    let read = versions::winner(versions, own_replica(tx.store()));
    if versions.is_empty() {
        tx.replication_mut().delete_row(&cell)?;
    } else {
        let mut bytes = Vec::with_capacity(24);
        push_versions(&mut bytes, versions, read);
        tx.replication_mut().put_row(&cell, &bytes)?;
    }
    let conflict = keyspace::conflict_in_cell(stored);
    match differ(versions) {
        true => tx.replication_mut().put_row(&conflict, &[])?,
        false if tx.read().get(&conflict)?.is_some() => {
            tx.replication_mut().delete_row(&conflict)?
        }
        false => {}
    }
    Ok(read)
}

/// A local transaction put an entry: it has seen all existing versions.
pub(crate) fn own_cell(tx: &mut Transaction, stored: &[u8], stamp: Stamp) -> Result<(), DataError> {
    let value = Vec::new(); // it is stored under the key itself
    put_cell(tx, stored, &[Version { stamp, value }]).map(drop)
}

/// A local transaction deleted an entry.
pub(crate) fn drop_cell(tx: &mut Transaction, stored: &[u8]) -> Result<(), DataError> {
    put_cell(tx, stored, &[]).map(drop)
}

/// Removes the seen versions of an entry. Returns the versions before and after.
pub(crate) fn see_cell(
    tx: &Transaction,
    stored: &[u8],
    seen: &dyn Fn(Dot) -> bool,
) -> Result<(Vec<Version>, Vec<Version>), DataError> {
    let before = cell_versions(tx, stored)?;
    let mut after = before.clone();
    versions::remove_seen(&mut after, seen);
    Ok((before, after))
}

/// Whether there are several explicitly written values; values that are copied (see `endpoint_keepers`) count only if
/// nothing else exists, and only if several transactions carried them.
pub(super) fn differ(versions: &[Version]) -> bool {
    let of = |dot: Dot| (dot.op > 0).then_some((dot.replica, dot.number));
    let Some(first) = versions.iter().map(|one| of(one.stamp.dot)).min() else {
        return false;
    };
    let mut counted = versions.iter().filter(|one| of(one.stamp.dot) == first);
    let one = counted.next();
    counted.any(|other| Some(&other.value) != one.map(|one| &one.value))
}

/// Observes whether a value is under a key of a multi-value bucket.
pub(crate) fn read_pair(tx: &Transaction, bucket: u32, key: &[u8], value: &[u8]) {
    let mut relative = Vec::with_capacity(key.len() + value.len() + 2);
    push_terminated(&mut relative, key);
    relative.extend_from_slice(value);
    tx.footprint()
        .read_fields(Space::Bucket(bucket), 2, &relative);
}
