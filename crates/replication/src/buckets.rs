//! Buckets themselves, and their sequences, between replicas.
//!
//! The definition of a bucket and each sequence have a cell, as entries have: versions with dots (of a definition its
//! *creations*, each with the options with which it was created; of a sequence the last number that was given). Every
//! operation removes what its transaction has seen and puts one version. The visible state is derived from the
//! versions:
//!
//! - A kind of a bucket (one value a key, or several) exists while it has a creation of that kind, or an entry. A
//!   bucket without either that has sequences left is a map.
//! - Where both kinds exist, the map is read; the other kind is kept, and listed among the conflicts, until the map is
//!   dropped: dropping removes the kind that is read.
//! - A map is reversible where all its creations say so. In a map that was made reversible by merging, entries that are
//!   too long for a reverse entry have none: no lookup can ask for them.
//! - The value of a sequence is the greatest number of its versions.

use isomer_data::{
    BucketKind, BucketOptions, Change, DataError, Dot, Transaction, after_prefix,
    internals::footprint::Space,
};
use isomer_layout::{keyspace, kv::options::decode_options, replicated::codec::malformed};

use crate::{
    cells,
    versions::{Version, push_versions, remove_seen},
};

/// The state of a bucket, derived from its versions and entries.
struct BucketState {
    map: bool,
    multi: bool,
    /// The visible options.
    options: Option<BucketOptions>,
    /// Whether its creators did not agree.
    is_contested: bool,
}

pub(super) fn kind_of(creation: &Version) -> Result<BucketKind, DataError> {
    Ok(decode_options(&creation.value)?.kind)
}

/// Creations of a bucket, or versions of a sequence, from the cell of their key.
pub(crate) fn creations(tx: &Transaction, stored: &[u8]) -> Result<Vec<Version>, DataError> {
    cells::cell_versions(tx, stored)
}

/// Stores creations of a bucket or versions of a sequence. An empty list differs from a missing row: the latter means
/// that the bucket is older than replication.
pub(crate) fn put_creations(
    tx: &mut Transaction,
    stored: &[u8],
    mut creations: Vec<Version>,
) -> Result<(), DataError> {
    creations.sort_unstable_by_key(|creation| creation.stamp.dot);
    let mut bytes = Vec::with_capacity(16);
    push_versions(&mut bytes, &creations, None);
    tx.replication_mut()
        .put_row(&keyspace::cell(stored), &bytes)
}

/// Stores the implied metadata of a bucket that is older than replication.
pub(crate) fn store_bucket_cells(tx: &mut Transaction, bucket: u32) -> Result<(), DataError> {
    let stored = keyspace::bucket(bucket);
    match tx.read().get(&keyspace::cell(&stored))? {
        Some(_) => Ok(()),
        None => {
            let creations = creations(tx, &stored)?;
            put_creations(tx, &stored, creations)
        }
    }
}

/// The kind that a local transaction has dropped: the kind that was read before. The cells of its entries still
/// exist.
pub(crate) fn dropped_kind(tx: &Transaction, bucket: u32) -> Result<BucketKind, DataError> {
    for creation in creations(tx, &keyspace::bucket(bucket))? {
        if kind_of(&creation)? == BucketKind::Map {
            return Ok(BucketKind::Map);
        }
    }
    let has = |prefix: Vec<u8>| -> Result<bool, DataError> {
        let cells = keyspace::cell(&prefix);
        Ok(tx
            .raw()
            .first_key(&cells, after_prefix(&cells).as_deref())?
            .is_some())
    };
    let is_map = has(keyspace::bucket_entry(bucket, b""))?;
    let no_pairs = !has(keyspace::bucket_pairs(bucket))?;
    let creations = creations(tx, &keyspace::bucket(bucket))?;
    Ok(match is_map || no_pairs && creations.is_empty() {
        true => BucketKind::Map,
        false => BucketKind::Multi,
    })
}

/// Puts a creation, replacing the seen ones, or removes the seen creations of a kind.
pub(crate) fn change_lives(
    tx: &mut Transaction,
    bucket: u32,
    kind: Option<BucketKind>,
    saw: &dyn Fn(Dot) -> bool,
    new: Option<Version>,
) -> Result<(), DataError> {
    touch_bucket(tx, bucket)?;
    let stored = keyspace::bucket(bucket);
    let mut creations = Vec::new();
    for creation in self::creations(tx, &stored)? {
        let is_meant = kind.is_none_or(|kind| kind_of(&creation).is_ok_and(|own| own == kind));
        if !is_meant || !saw(creation.stamp.dot) {
            creations.push(creation);
        }
    }
    creations.extend(new);
    put_creations(tx, &stored, creations)
}

/// Declares a change of a bucket's metadata.
pub(crate) fn touch_bucket(tx: &mut Transaction, bucket: u32) -> Result<(), DataError> {
    let name = tx.kv().bucket_name(bucket)?;
    tx.kv_mut().change_bucket(&name);
    Ok(())
}

/// At the end of a local transaction that created or dropped a bucket, or deleted entries of it.
pub(crate) fn end_bucket(tx: &mut Transaction, bucket: u32) -> Result<(), DataError> {
    let stored = keyspace::bucket(bucket);
    if tx.read().get(&stored)?.is_some() {
        return drop_bucket_without_lives(tx, bucket);
    }
    materialize_bucket(tx, bucket, None)
}

/// Adds the existing values to the change stream: for its consumers, dropping a map deleted everything in the
/// bucket. Not sent to replicas, which know these values.
pub(crate) fn stream_existing_values(tx: &mut Transaction, bucket: u32) -> Result<(), DataError> {
    let prefix = keyspace::bucket_pairs(bucket);
    let mut is_whole = true;
    let mut changes = Vec::new();
    tx.raw().each_between(
        &prefix,
        after_prefix(&prefix).as_deref(),
        &mut |stored, _| {
            let mut value = &stored[prefix.len()..];
            match keyspace::take_terminated(&mut value) {
                Some(key) => Change::ValueAdded {
                    bucket,
                    key: &key,
                    value,
                }
                .push(&mut changes),
                None => is_whole = false,
            }
        },
    )?;
    if !is_whole {
        return Err(malformed("an entry of a bucket"));
    }
    tx.log_bytes(&changes);
    Ok(())
}

fn held(
    tx: &Transaction,
    bucket: u32,
    coming: Option<BucketKind>,
) -> Result<BucketState, DataError> {
    let (mut maps, mut multi, mut creations) = (Vec::new(), false, 0);
    for creation in self::creations(tx, &keyspace::bucket(bucket))? {
        let options = decode_options(&creation.value)?;
        creations += 1;
        match options.kind {
            BucketKind::Map => maps.push(options.reversible),
            BucketKind::Multi => multi = true,
        }
    }
    let space = Space::Bucket(bucket);
    let has = |prefix: &[u8], space: Space| -> Result<bool, DataError> {
        tx.footprint().read_range(space, b"", None);
        Ok(tx
            .raw()
            .first_key(prefix, after_prefix(prefix).as_deref())?
            .is_some())
    };
    let map = !maps.is_empty()
        || coming == Some(BucketKind::Map)
        || has(&keyspace::bucket_entry(bucket, b""), space)?;
    let multi =
        multi || coming == Some(BucketKind::Multi) || has(&keyspace::bucket_pairs(bucket), space)?;
    let reversible = !maps.is_empty() && maps.iter().all(|reversible| *reversible);
    let as_map = BucketOptions::new(BucketKind::Map, reversible);
    let options = match (map, multi) {
        (true, _) => Some(as_map),
        (false, true) => Some(BucketOptions::multi_value()),
        (false, false) => {
            let sequences = keyspace::bucket_sequence(bucket, "");
            let has_any = has(&sequences, Space::Sequences(bucket))?;
            (creations > 0 || has_any).then_some(as_map)
        }
    };
    let differ = maps.iter().any(|reversible| *reversible) && !reversible;
    Ok(BucketState {
        map,
        multi,
        options,
        is_contested: map && multi || differ,
    })
}

/// Materializes a bucket from its creations and entries. An entry of the kind `coming` is about to be put.
pub(crate) fn materialize_bucket(
    tx: &mut Transaction,
    bucket: u32,
    coming: Option<BucketKind>,
) -> Result<(), DataError> {
    let held = held(tx, bucket, coming)?;
    let stored = keyspace::bucket(bucket);
    let note = keyspace::conflict_in_bucket(bucket);
    match held.is_contested {
        true => tx.replication_mut().put_row(&note, &[])?,
        false if tx.read().get(&note)?.is_some() => tx.replication_mut().delete_row(&note)?,
        false => {}
    }
    match held.options {
        None => {
            let name = tx.kv().bucket_name(bucket)?;
            tx.kv_mut().drop_bucket(&name)?;
            return tx.replication_mut().delete_row(&keyspace::cell(&stored));
        }
        // A bucket without a cell counts as older than replication, with its stored options: the cell is stored
        // before these change.
        Some(_) => store_bucket_cells(tx, bucket)?,
    }
    tx.kv_mut().redefine_bucket(bucket, held.options)
}

/// Prepares a bucket for an entry that a merge is about to put.
pub(crate) fn expect_entry(
    tx: &mut Transaction,
    bucket: u32,
    kind: BucketKind,
) -> Result<(), DataError> {
    let name = tx.kv().bucket_name(bucket)?;
    match tx.kv().bucket(&name)? {
        Some(found) if found.options.kind == kind => Ok(()),
        _ => materialize_bucket(tx, bucket, Some(kind)),
    }
}

/// After entries of a kind were deleted: a bucket without a creation is dropped with its last entry.
pub(crate) fn drop_bucket_without_lives(
    tx: &mut Transaction,
    bucket: u32,
) -> Result<(), DataError> {
    let stored = keyspace::bucket(bucket);
    let name = tx.kv().bucket_name(bucket)?;
    tx.footprint().read_key(Space::Buckets, name.as_bytes());
    if tx.read().get(&stored)?.is_none() {
        return Ok(());
    }
    let (mut map, mut multi) = (false, false);
    for creation in creations(tx, &stored)? {
        match kind_of(&creation)? {
            BucketKind::Map => map = true,
            BucketKind::Multi => multi = true,
        }
    }
    let note = keyspace::conflict_in_bucket(bucket);
    let is_contested = tx.read().get(&note)?.is_some();
    match (map || multi) && !is_contested {
        true => Ok(()),
        false => materialize_bucket(tx, bucket, None),
    }
}

// ---- sequences

/// Removes the seen versions of a sequence, and puts that of a transaction.
pub(crate) fn change_sequence(
    tx: &mut Transaction,
    bucket: u32,
    name: &[u8],
    saw: &dyn Fn(Dot) -> bool,
    new: Option<Version>,
) -> Result<(), DataError> {
    let stored = sequence_key(bucket, name)?;
    let mut after = creations(tx, &stored)?;
    remove_seen(&mut after, saw);
    after.extend(new);
    materialize_sequence(tx, bucket, name, after)
}

/// Materializes a sequence from its versions.
pub(crate) fn materialize_sequence(
    tx: &mut Transaction,
    bucket: u32,
    name: &[u8],
    after: Vec<Version>,
) -> Result<(), DataError> {
    let stored = sequence_key(bucket, name)?;
    tx.footprint_mut()
        .change_key(Space::Sequences(bucket), name, true);
    let mut last = None;
    for version in &after {
        let number = version.value.as_slice().try_into().map(u64::from_be_bytes);
        last = last.max(Some(number.map_err(|_| malformed("a sequence"))?));
    }
    let before = tx.read().get(&stored)?;
    let Some(last) = last else {
        tx.replication_mut().delete_row(&keyspace::cell(&stored))?;
        if before.is_some() {
            tx.replication_mut().delete_row(&stored)?;
            tx.log(&Change::SequenceAdvanced {
                bucket,
                name,
                last: 0,
            });
            drop_bucket_without_lives(tx, bucket)?;
        }
        return Ok(());
    };
    put_creations(tx, &stored, after)?;
    if before.as_deref() == Some(&last.to_be_bytes()[..]) {
        return Ok(());
    }
    tx.replication_mut().put_row(&stored, &last.to_be_bytes())?;
    tx.log(&Change::SequenceAdvanced { bucket, name, last });
    let bucket_name = tx.kv().bucket_name(bucket)?;
    match tx.kv().bucket(&bucket_name)? {
        Some(_) => Ok(()),
        None => materialize_bucket(tx, bucket, None),
    }
}

/// Removes the seen versions of all sequences of a bucket.
pub(crate) fn take_sequences(
    tx: &mut Transaction,
    bucket: u32,
    saw: &dyn Fn(Dot) -> bool,
) -> Result<(), DataError> {
    let prefix = keyspace::bucket_sequence(bucket, "");
    for key in tx
        .raw()
        .keys_between(&prefix, after_prefix(&prefix).as_deref())?
    {
        change_sequence(tx, bucket, &key[prefix.len()..], saw, None)?;
    }
    Ok(())
}

// ---- conflicts

/// The visible options of a bucket, and the shadowed ones.
pub(crate) fn bucket_conflict(
    tx: &Transaction,
    bucket: u32,
) -> Result<Option<(&'static str, Vec<&'static str>)>, DataError> {
    let held = held(tx, bucket, None)?;
    let Some(options) = held.options.filter(|_| held.is_contested) else {
        return Ok(None);
    };
    let mut others = Vec::new();
    if held.map && held.multi {
        others.push("several values a key");
    }
    let creations = creations(tx, &keyspace::bucket(bucket))?;
    let differs = |creation: &Version| {
        decode_options(&creation.value)
            .is_ok_and(|own| own.kind == BucketKind::Map && own.reversible)
    };
    if !options.reversible && creations.iter().any(differs) {
        others.push("one value a key, reversible");
    }
    let value = match options.kind {
        BucketKind::Map => "one value a key",
        BucketKind::Multi => "several values a key",
    };
    Ok(Some((value, others)))
}

pub(super) fn sequence_key(bucket: u32, name: &[u8]) -> Result<Vec<u8>, DataError> {
    let name = std::str::from_utf8(name).map_err(|_| malformed("a sequence"))?;
    isomer_data::internals::store::check_name("sequence", name)?;
    Ok(keyspace::bucket_sequence(bucket, name))
}
