//! The end of joining a state: local records that the other state has seen removed are removed; and what was seen is
//! stored.

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
    apply, cells, join_buckets, join_files, join_records,
    joining::{Ids, Sides},
    log,
    part::Part,
    records, scope,
    shadow::NodeShadow,
    versions::{Version, join},
};

/// Records that are read in one transaction of the last step.
const SWEPT: usize = 10_000;

/// Joins a part of the records that exist here alone; returns where to continue.
pub(crate) fn sweep(
    tx: &mut Transaction,
    place: &[u8],
    (nodes, rels, entries): (&Ids, &Ids, &FxHashSet<u128>),
    sides: &Sides<'_>,
) -> Result<Option<Vec<u8>>, DataError> {
    let parts = [
        vec![TAG_REL],
        vec![TAG_NODE],
        keyspace::shadows(IdSpace::Nodes),
        vec![keyspace::TAG_BUCKET_ENTRY],
        vec![keyspace::TAG_BUCKET_PAIR],
        vec![keyspace::TAG_BUCKET_SEQUENCE],
        vec![keyspace::TAG_BUCKET],
        keyspace::shadows(IdSpace::Files),
        keyspace::FOLDERS_MADE.to_vec(),
        vec![keyspace::TAG_FILE_CHUNK],
    ];
    let part = usize::from(place.first().copied().unwrap_or(0));
    let Some(prefix) = parts.get(part) else {
        return Ok(None);
    };
    let start = match place {
        [] | [_] => prefix.clone(),
        [_, from @ ..] => from.to_vec(),
    };
    let end = after_prefix(prefix);
    let (keys, next) = tx.raw().some_keys(&start, end.as_deref(), SWEPT)?;
    for key in &keys {
        let id = || sole_id(&key[prefix.len()..], "the key of a record");
        match part {
            0 => {
                let id = RelId(id()?);
                if rels.contains(id.0) || !scope::holds(tx, Part::Relationships, key)? {
                    continue;
                }
                let Some(shadow) = records::rel_shadow(tx, id)? else {
                    continue;
                };
                if sides.theirs.covers(shadow.life.dot) {
                    apply::purge_relationship(tx, id)?;
                }
            }
            1 | 2 => {
                let id = NodeId(id()?);
                if nodes.contains(id.0) || part == 1 && !scope::holds(tx, Part::Nodes, key)? {
                    continue;
                }
                let Some(shadow) = records::node_shadow(tx, id)? else {
                    continue;
                };
                join_records::join_absent_fields(tx, ConvergentOwner::Node(id), &[], sides)?;
                let absent = NodeShadow::new(shadow.identity);
                join_records::materialize_joined(tx, &absent, sides, false)?;
            }
            7..=9 => {
                if !entries.contains(&xxh3_128(key)) {
                    join_files::sweep_file(tx, key, sides)?;
                }
            }
            _ => {
                if entries.contains(&xxh3_128(key)) || !scope::holds(tx, Part::Buckets, key)? {
                    continue;
                }
                sweep_one(tx, part, key, sides)?;
            }
        }
    }
    Ok(Some(match next {
        Some(next) => [&[part as u8], &next[..]].concat(),
        None => vec![part as u8 + 1],
    }))
}

fn sweep_one(
    tx: &mut Transaction,
    part: usize,
    stored: &[u8],
    sides: &Sides<'_>,
) -> Result<(), DataError> {
    let mut rest = &stored[1..];
    let bucket = take_u32(&mut rest).ok_or_else(|| malformed("the key of a bucket"))?;
    let ours = cells::cell_versions(tx, stored)?;
    let joined: Vec<Version> = join(&ours, sides.here, &[], sides.theirs);
    match part {
        5 => join_buckets::join_lives(tx, bucket, Some(rest), &[], sides),
        6 => join_buckets::join_lives(tx, bucket, None, &[], sides),
        3 => apply::materialize_entry(tx, bucket, rest, &ours, joined),
        _ => {
            let key = keyspace::take_terminated(&mut rest);
            let key = key.ok_or_else(|| malformed("the key of a bucket"))?;
            apply::materialize_pair(tx, bucket, &key, rest, &ours, joined)
        }
    }
}

/// Everything that the other state has seen is here now, and not in the log.
pub(crate) fn put_joined(tx: &mut Transaction, sides: &Sides<'_>) -> Result<(), DataError> {
    let mut joined = sides.here.clone();
    joined.join(sides.theirs);
    let own = own_replica(tx.store()).own();
    for (replica, upto) in sides.theirs.iter() {
        let is_known = sides.here.upto(replica) == joined.upto(replica)
            && sides.here.exceptions(replica) == joined.exceptions(replica);
        if is_known || own == Some(replica) {
            continue; // a restored database continues under another name
        }
        let seen = encode_seen(joined.upto(replica), joined.exceptions(replica));
        tx.replication_mut()
            .put_row(&keyspace::seen(replica.0), &seen)?;
        let floor = log::floor(tx.read(), replica)?;
        let mut value = Vec::new();
        push_id(&mut value, upto.max(floor));
        tx.replication_mut()
            .put_row(&keyspace::floor(replica.0), &value)?;
    }
    Ok(())
}
