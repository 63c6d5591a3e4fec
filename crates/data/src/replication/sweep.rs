//! The end of joining a state: local records that the other state has seen removed are removed; and what was seen is
//! stored.

use isomer_value::{NodeId, RelId};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use super::{
    codec::{malformed, take_u32},
    join_records::Sides,
    shadow::NodeShadow,
    snapshot::Part,
    versions::{Version, join},
};
use crate::{
    ConvergentOwner, DataError, Transaction,
    convergent::replica::encode_seen,
    keyspace::{self, IdSpace, TAG_NODE, TAG_REL, after_prefix, push_id, sole_id},
};

/// Records that are read in one transaction of the last step.
const SWEPT: usize = 10_000;

/// A set of ids: a bit each.
#[derive(Default)]
pub(super) struct Ids(FxHashMap<u64, u64>);

impl Ids {
    pub(super) fn insert(&mut self, id: u64) {
        *self.0.entry(id >> 6).or_default() |= 1 << (id & 63);
    }

    pub(super) fn contains(&self, id: u64) -> bool {
        self.0
            .get(&(id >> 6))
            .is_some_and(|bits| bits >> (id & 63) & 1 == 1)
    }
}

impl Transaction {
    /// Joins a part of the records that exist here alone; returns where to continue.
    pub(super) fn sweep(
        &mut self,
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
        let (keys, next) = self.some_keys(&start, end.as_deref(), SWEPT)?;
        for key in &keys {
            let id = || sole_id(&key[prefix.len()..], "the key of a record");
            match part {
                0 => {
                    let id = RelId(id()?);
                    if rels.contains(id.0) || !self.holds(Part::Relationships, key)? {
                        continue;
                    }
                    let Some(shadow) = self.rel_shadow(id)? else {
                        continue;
                    };
                    if sides.theirs.covers(shadow.life.dot) {
                        self.purge_relationship(id)?;
                    }
                }
                1 | 2 => {
                    let id = NodeId(id()?);
                    if nodes.contains(id.0) || part == 1 && !self.holds(Part::Nodes, key)? {
                        continue;
                    }
                    let Some(shadow) = self.node_shadow(id)? else {
                        continue;
                    };
                    self.join_absent_fields(ConvergentOwner::Node(id), &[], sides)?;
                    let absent = NodeShadow::new(shadow.identity);
                    self.materialize_joined(&absent, sides, false)?;
                }
                7..=9 => {
                    if !entries.contains(&xxh3_128(key)) {
                        self.sweep_file(key, sides)?;
                    }
                }
                _ => {
                    if entries.contains(&xxh3_128(key)) || !self.holds(Part::Buckets, key)? {
                        continue;
                    }
                    self.sweep_one(part, key, sides)?;
                }
            }
        }
        Ok(Some(match next {
            Some(next) => [&[part as u8], &next[..]].concat(),
            None => vec![part as u8 + 1],
        }))
    }

    fn sweep_one(
        &mut self,
        part: usize,
        stored: &[u8],
        sides: &Sides<'_>,
    ) -> Result<(), DataError> {
        let mut rest = &stored[1..];
        let bucket = take_u32(&mut rest).ok_or_else(|| malformed("the key of a bucket"))?;
        let ours = self.cell_versions(stored)?;
        let joined: Vec<Version> = join(&ours, sides.here, &[], sides.theirs);
        match part {
            5 => self.join_lives(bucket, Some(rest), &[], sides),
            6 => self.join_lives(bucket, None, &[], sides),
            3 => self.materialize_entry(bucket, rest, &ours, joined),
            _ => {
                let key = keyspace::take_terminated(&mut rest);
                let key = key.ok_or_else(|| malformed("the key of a bucket"))?;
                self.materialize_pair(bucket, &key, rest, &ours, joined)
            }
        }
    }

    /// Everything that the other state has seen is here now, and not in the log.
    pub(super) fn put_joined(&mut self, sides: &Sides<'_>) -> Result<(), DataError> {
        let mut joined = sides.here.clone();
        joined.join(sides.theirs);
        let own = self.shared().own_replica.own();
        for (replica, upto) in sides.theirs.iter() {
            let is_known = sides.here.upto(replica) == joined.upto(replica)
                && sides.here.exceptions(replica) == joined.exceptions(replica);
            if is_known || own == Some(replica) {
                continue; // a restored database continues under another name
            }
            let seen = encode_seen(joined.upto(replica), joined.exceptions(replica));
            self.put(&keyspace::seen(replica.0), &seen)?;
            let floor = self.store().floor(self.read(), replica)?;
            let mut value = Vec::new();
            push_id(&mut value, upto.max(floor));
            self.put(&keyspace::floor(replica.0), &value)?;
        }
        Ok(())
    }
}
