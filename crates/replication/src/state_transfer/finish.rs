//! The end of a state transfer: local records that the other state has seen removed are removed, and the merged version
//! vector is stored.

use isomer_data::{
    ConvergentOwner, DataError, Transaction, after_prefix,
    internals::{convergent::encode_seen, own_replica},
};
use isomer_layout::{
    keyspace::{self, IdSpace, TAG_NODE, TAG_REL, push_id, sole_id},
    replicated::codec::{malformed, take_u32},
};
use isomer_value::{NodeId, RelId};
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    apply, cells, log,
    metadata::NodeMetadata,
    records, scope,
    state_transfer::{
        merge_buckets, merge_files, merge_records,
        progress::{Ids, Sides},
        section::Section,
    },
    versions::{Version, merge},
};

/// Records that are read in one transaction of the last step.
const MAX_ROWS_PER_COMMIT: usize = 10_000;

/// Merges a part of the records that exist here alone; returns where to continue.
pub(crate) fn merge_local_rows(
    tx: &mut Transaction,
    cursor: &[u8],
    (nodes, rels, entries): (&Ids, &Ids, &FxHashSet<u128>),
    sides: &Sides<'_>,
) -> Result<Option<Vec<u8>>, DataError> {
    // What both sides have was merged with the pages; these are the rows that no page has visited.
    let parts = [
        vec![TAG_REL],
        vec![TAG_NODE],
        keyspace::metadata_rows(IdSpace::Nodes),
        vec![keyspace::TAG_BUCKET_ENTRY],
        vec![keyspace::TAG_BUCKET_PAIR],
        vec![keyspace::TAG_BUCKET_SEQUENCE],
        vec![keyspace::TAG_BUCKET],
        keyspace::metadata_rows(IdSpace::Files),
        keyspace::FOLDERS_MADE.to_vec(),
        vec![keyspace::TAG_FILE_CHUNK],
    ];
    let part = usize::from(cursor.first().copied().unwrap_or(0));
    let Some(prefix) = parts.get(part) else {
        return Ok(None);
    };
    let start = match cursor {
        [] | [_] => prefix.clone(),
        [_, from @ ..] => from.to_vec(),
    };
    let end = after_prefix(prefix);
    let (keys, next) = tx
        .raw()
        .some_keys(&start, end.as_deref(), MAX_ROWS_PER_COMMIT)?;
    for key in &keys {
        let id = || sole_id(&key[prefix.len()..], "the key of a record");
        match part {
            0 => {
                let id = RelId(id()?);
                if rels.contains(id.0) || !scope::holds(tx, Section::Relationships, key)? {
                    continue;
                }
                let Some(metadata) = records::rel_metadata(tx, id)? else {
                    continue;
                };
                // The other side has seen the creation and has no such relationship, so it has seen it removed.
                // There is no other record of removals.
                if sides.theirs.covers(metadata.creation.dot) {
                    apply::purge_relationship(tx, id)?;
                }
            }
            1 | 2 => {
                let id = NodeId(id()?);
                if nodes.contains(id.0) || part == 1 && !scope::holds(tx, Section::Nodes, key)? {
                    continue;
                }
                let Some(metadata) = records::node_metadata(tx, id)? else {
                    continue;
                };
                // Fields first, while the node's id is the one under which they are stored: a node that
                // becomes a ghost gets another one.
                merge_records::merge_absent_fields(tx, ConvergentOwner::Node(id), &[], sides)?;
                // To the other side the node does not exist: merged with empty metadata, all
                // dots that it has seen disappear.
                let absent = NodeMetadata::new(metadata.identity);
                merge_records::materialize_merged(tx, &absent, sides, false)?;
            }
            7..=9 => {
                if !entries.contains(&xxh3_128(key)) {
                    merge_files::merge_local_file(tx, key, sides)?;
                }
            }
            _ => {
                if entries.contains(&xxh3_128(key)) || !scope::holds(tx, Section::Buckets, key)? {
                    continue;
                }
                merge_local_entry(tx, part, key, sides)?;
            }
        }
    }
    Ok(Some(match next {
        Some(next) => [&[part as u8], &next[..]].concat(),
        None => vec![part as u8 + 1],
    }))
}

fn merge_local_entry(
    tx: &mut Transaction,
    part: usize,
    stored: &[u8],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let mut rest = &stored[1..];
    let bucket = take_u32(&mut rest).ok_or_else(|| malformed("the key of a bucket"))?;
    let ours = cells::cell_versions(tx, stored)?;
    let merged: Vec<Version> = merge(&ours, sides.here, &[], sides.theirs);
    match part {
        5 => merge_buckets::merge_creations(tx, bucket, Some(rest), &[], sides),
        6 => merge_buckets::merge_creations(tx, bucket, None, &[], sides),
        3 => apply::materialize_entry(tx, bucket, rest, &ours, merged),
        _ => {
            let key = keyspace::take_terminated(&mut rest);
            let key = key.ok_or_else(|| malformed("the key of a bucket"))?;
            apply::materialize_pair(tx, bucket, &key, rest, &ours, merged)
        }
    }
}

/// Everything that the other state has seen is here now, and not in the log.
pub(crate) fn put_merged_vector(tx: &mut Transaction, sides: &Sides<'_>) -> Result<(), DataError> {
    let mut merged = sides.here.clone();
    merged.join(sides.theirs);
    let own = own_replica(tx.store()).own();
    for (replica, upto) in sides.theirs.iter() {
        let is_known = sides.here.upto(replica) == merged.upto(replica)
            && sides.here.exceptions(replica) == merged.exceptions(replica);
        if is_known || own == Some(replica) {
            continue; // a restored database continues under another name
        }
        let seen = encode_seen(merged.upto(replica), merged.exceptions(replica));
        tx.replication_mut()
            .put_row(&keyspace::seen(replica.0), &seen)?;
        // The transactions of this replica came as a state and not as log entries. A peer that needs
        // them must get a state as well, so the log begins behind them.
        let floor = log::floor(tx.read(), replica)?;
        let mut value = Vec::new();
        push_id(&mut value, upto.max(floor));
        tx.replication_mut()
            .put_row(&keyspace::floor(replica.0), &value)?;
    }
    Ok(())
}
