//! Merging buckets, their entries and sequences of two states.

use isomer_data::{DataError, Transaction};
use isomer_layout::{
    catalog::names::NameKind,
    keyspace,
    kv::options::decode_options,
    replicated::codec::{take_bytes, take_u32},
};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    apply,
    buckets::{self, sequence_key},
    cells,
    mapping::{self, Mapper, entry_versions},
    scope,
    state_transfer::progress::Sides,
    versions::{Version, merge, take_versions},
    wire::{Incoming, tag},
};

/// Merges an entry of a bucket; returns its key.
pub(crate) fn merge_entry(
    tx: &mut Transaction,
    map: &mut Incoming<'_>,
    found: u8,
    content: &[u8],
    sides: &Sides<'_>,
) -> Result<u128, DataError> {
    let mut rest = content;
    let bucket = take_u32(&mut rest).ok_or_else(mapping::bad_item)?;
    let bucket = map.name(NameKind::Bucket, bucket)?;
    scope::check_bucket(tx.store(), bucket)?;
    let key = take_bytes(&mut rest).ok_or_else(mapping::bad_item)?;
    let value = match found {
        tag::ENTRY_OF_MAP => &[],
        _ => take_bytes(&mut rest).ok_or_else(mapping::bad_item)?,
    };
    let theirs = take_versions(&mut rest, &[]).ok_or_else(mapping::bad_item)?;
    let theirs = entry_versions(map, &theirs)?;
    let stored = match found {
        tag::ENTRY_OF_MAP => keyspace::bucket_entry(bucket, key),
        _ => keyspace::bucket_pair(bucket, key, value),
    };
    let ours = cells::cell_versions(tx, &stored)?;
    let merged = merge(&ours, sides.here, &theirs, sides.theirs);
    match found {
        tag::ENTRY_OF_MAP => apply::materialize_entry(tx, bucket, key, &ours, merged)?,
        _ => apply::materialize_pair(tx, bucket, key, value, &ours, merged)?,
    }
    Ok(xxh3_128(&stored))
}

/// Merges the definition of a bucket, or a sequence; returns its key.
pub(crate) fn merge_bucket(
    tx: &mut Transaction,
    map: &mut Incoming<'_>,
    found: u8,
    content: &[u8],
    sides: &Sides<'_>,
) -> Result<u128, DataError> {
    let mut rest = content;
    let bucket = take_u32(&mut rest).ok_or_else(mapping::bad_item)?;
    let bucket = map.name(NameKind::Bucket, bucket)?;
    scope::check_bucket(tx.store(), bucket)?;
    let name = match found {
        tag::SEQUENCE => Some(take_bytes(&mut rest).ok_or_else(mapping::bad_item)?),
        _ => None,
    };
    let theirs = take_versions(&mut rest, &[]).ok_or_else(mapping::bad_item)?;
    let theirs = mapping::versions(map, &theirs, |_, value| Ok(value.to_vec()))?;
    let is_bad = |version: &Version| match name {
        Some(_) => version.value.len() != 8,
        None => decode_options(&version.value).is_err(),
    };
    // Checked before anything is stored: readers of buckets rely on these lengths, and a
    // peer may be damaged or hostile.
    if theirs.iter().any(is_bad) {
        return Err(mapping::bad_item());
    }
    let stored = match name {
        Some(name) => sequence_key(bucket, name)?,
        None => keyspace::bucket(bucket),
    };
    merge_creations(tx, bucket, name, &theirs, sides)?;
    Ok(xxh3_128(&stored))
}

pub(crate) fn merge_creations(
    tx: &mut Transaction,
    bucket: u32,
    sequence: Option<&[u8]>,
    theirs: &[Version],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let stored = match sequence {
        Some(name) => sequence_key(bucket, name)?,
        None => keyspace::bucket(bucket),
    };
    let ours = buckets::creations(tx, &stored)?;
    let merged = merge(&ours, sides.here, theirs, sides.theirs);
    if merged == ours {
        return Ok(());
    }
    match sequence {
        Some(name) => buckets::materialize_sequence(tx, bucket, name, merged),
        None => {
            buckets::touch_bucket(tx, bucket)?;
            buckets::put_creations(tx, &stored, merged)?;
            buckets::materialize_bucket(tx, bucket, None)
        }
    }
}
