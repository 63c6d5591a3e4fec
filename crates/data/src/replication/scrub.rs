//! Scrubbing: two replicas that have seen the same transactions must hold the same state; a difference is damage.
//!
//! All records and entries are partitioned into [`RANGES`] ranges by a hash of their names. Each range has a
//! fingerprint: a sum of hashes of its content, with names spelled out, so that neither ids nor order matter. Where two
//! fingerprints differ, the content of the range is exchanged, and each side adds what it lacks: records lost by one of
//! them are restored. (Records that one of them failed to remove come back, too: a scrub never removes anything.)
//!
//! ```text
//! fingerprints  a page with one item: 20: vector, then u128 LE for each range
//! ranges        a page of items as in a snapshot
//! ```

use isomer_value::{NodeId, PropId, RelId, record::decode_value};
use xxhash_rust::xxh3::xxh3_128;

use super::{
    codec::malformed,
    files::decode_making,
    join_files::file_of,
    shadow::Properties,
    snapshot::Part,
    versions::{Stamp, Version},
    wire::{self, Incoming, Outgoing},
};
use crate::{
    Access, ConvergentOwner, DataError, DataStore, Transaction,
    convergent::{ConvergentKind, Vector, counter_amount, entry_parts},
    keyspace::{self, after_prefix, sole_id, take_id},
};

/// The number of ranges.
pub const RANGES: usize = 4096;
/// Most ranges that are exchanged at a time.
const AT_ONCE: usize = 256;

/// The fingerprints of all ranges, while they are computed.
struct Sums(Vec<u128>);

impl Sums {
    fn add(&mut self, name: &[u8], what: &[&[u8]]) {
        let mut bytes = name.to_vec();
        for part in what {
            bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        let sum = &mut self.0[range_of(name)];
        *sum = sum.wrapping_add(xxh3_128(&bytes));
    }
}

fn range_of(name: &[u8]) -> usize {
    (xxh3_128(name) >> 64) as usize % RANGES
}

impl DataStore {
    /// The fingerprints of this database.
    ///
    /// # Errors
    /// Those of the engine; [`DataError::Corrupt`] for unreadable records.
    pub fn fingerprints(&self) -> Result<Vec<u8>, DataError> {
        let tx = self.begin(Access::Read)?;
        let mut sums = Sums(vec![0; RANGES]);
        tx.each_name(&mut |part, key, name| tx.add_to(&mut sums, part, key, name))?;
        let mut page = Outgoing::new(self);
        let mut content = Vec::new();
        wire::vector(&mut page, &self.seen_in(tx.read(), None)?)?.push_local(&mut content);
        for sum in &sums.0 {
            content.extend_from_slice(&sum.to_le_bytes());
        }
        page.push(20, &content);
        Ok(page.finish())
    }

    /// The ranges in which another replica's fingerprints differ; none where the two have not seen the same
    /// transactions.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for bytes that are not fingerprints.
    pub fn differing(&self, theirs: &[u8]) -> Result<Option<Vec<u16>>, DataError> {
        let ours = self.fingerprints()?;
        let read = |page: &[u8]| -> Result<(Vector, Vec<u8>), DataError> {
            let (mut map, mut items) = Incoming::open(self, page)?;
            let Some((20, mut content)) = wire::take_item(&mut items)? else {
                return Err(wire::bad_item());
            };
            let seen = Vector::take_local(&mut content).ok_or_else(wire::bad_item)?;
            match content.len() == RANGES * 16 {
                true => Ok((wire::vector(&mut map, &seen)?, content.to_vec())),
                false => Err(wire::bad_item()),
            }
        };
        let ((here, ours), (there, theirs)) = (read(&ours)?, read(theirs)?);
        if !here.includes(&there) || !there.includes(&here) {
            return Ok(None);
        }
        let pairs = ours.chunks(16).zip(theirs.chunks(16)).enumerate();
        let differ = pairs.filter(|(_, (one, other))| one != other);
        Ok(Some(
            differ.map(|(at, _)| at as u16).take(AT_ONCE).collect(),
        ))
    }

    /// The content of some ranges.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn ranges_page(&self, ranges: &[u16]) -> Result<Vec<u8>, DataError> {
        let tx = self.begin(Access::Read)?;
        let mut page = Outgoing::new(self);
        let mut seen = Vec::new();
        wire::vector(&mut page, &self.seen_in(tx.read(), None)?)?.push_local(&mut seen);
        page.push(10, &seen);
        let mut found = Vec::new();
        tx.each_name(&mut |part, key, name| {
            if ranges.contains(&(range_of(name) as u16)) {
                found.push((part, key.to_vec()));
            }
            Ok(())
        })?;
        // Relationships follow the nodes that they need.
        for (part, key) in &found {
            tx.push_found(*part, key, &mut page)?;
        }
        for (part, key) in &found {
            let owner = match part {
                Part::Nodes | Part::Ghosts => ConvergentOwner::Node(NodeId(id_in(*part, key)?)),
                Part::Relationships => ConvergentOwner::Relationship(RelId(id_in(*part, key)?)),
                _ => continue,
            };
            tx.push_owner_fields(owner, &mut page)?;
        }
        self.engine().sync()?;
        Ok(page.finish())
    }

    /// Adds what is in another replica's ranges and missing here, where both have seen the same: otherwise it may have
    /// been removed here.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for bytes that are not a page of ranges; [`DataError::Storage`] (unavailable) where one
    /// of the two was written concurrently, and while a snapshot is being joined; those of a commit.
    pub fn repair(&self, page: &[u8]) -> Result<(), DataError> {
        let _applying = self.shared().replication.applying.lock();
        if self.is_being_joined() {
            return Err(super::join::joining_error());
        }
        self.join_union(page)?;
        self.engine().sync()?;
        Ok(())
    }
}

fn id_in(part: Part, key: &[u8]) -> Result<u64, DataError> {
    sole_id(&key[part.prefix().len()..], "the key of a record")
}

/// Called with the part, the stored key and the name of an item.
type Named<'n> = dyn FnMut(Part, &[u8], &[u8]) -> Result<(), DataError> + 'n;

impl Transaction {
    /// Visits everything that has a name: records, ghosts, entries of buckets.
    fn each_name(&self, visit: &mut Named<'_>) -> Result<(), DataError> {
        for part in [
            Part::Nodes,
            Part::Ghosts,
            Part::Relationships,
            Part::Buckets,
            Part::Entries,
            Part::Values,
            Part::Sequences,
            Part::Files,
            Part::Folders,
            Part::Chunks,
        ] {
            let prefix = part.prefix();
            let end = after_prefix(&prefix);
            let mut start = prefix.clone();
            loop {
                let (keys, next) = self.some_keys(&start, end.as_deref(), 4096)?;
                for key in &keys {
                    if !self.holds(part, key)? {
                        continue;
                    }
                    let name = match part {
                        Part::Nodes | Part::Ghosts => {
                            let id = NodeId(id_in(part, key)?);
                            let has_record = self.read().get(&keyspace::node(id))?.is_some();
                            if part == Part::Ghosts && has_record {
                                continue;
                            }
                            self.spelled(id)?
                        }
                        Part::Relationships => {
                            let identity = self.rel_identity(RelId(id_in(part, key)?))?;
                            [&[9][..], &self.spell_identity(&identity)].concat()
                        }
                        Part::Files | Part::Folders | Part::Chunks => match self.file_name(key)? {
                            Some(name) => name,
                            None => continue,
                        },
                        _ => {
                            let mut rest = &key[1..];
                            let bucket = take_id(&mut rest);
                            let bucket = bucket.ok_or_else(|| malformed("the key of a bucket"))?;
                            let bucket = self.bucket_name(bucket as u32)?;
                            [&[key[0]], bucket.as_bytes(), &[0], rest].concat()
                        }
                    };
                    visit(part, key, &name)?;
                }
                match next {
                    Some(next) => start = next,
                    None => break,
                }
            }
        }
        Ok(())
    }

    fn add_to(
        &self,
        sums: &mut Sums,
        part: Part,
        key: &[u8],
        name: &[u8],
    ) -> Result<(), DataError> {
        match part {
            Part::Nodes | Part::Ghosts => {
                let id = NodeId(id_in(part, key)?);
                let shadow = self.node_shadow(id)?;
                let shadow = shadow.ok_or_else(|| malformed("the metadata of a node"))?;
                for life in &shadow.lives {
                    sums.add(name, &[b"life", &self.spell_stamp(*life)]);
                }
                for (label, stamps) in &shadow.labels {
                    let label = self.catalog_ref().label_name(*label).unwrap_or_default();
                    for stamp in stamps {
                        sums.add(
                            name,
                            &[b"label", label.as_bytes(), &self.spell_stamp(*stamp)],
                        );
                    }
                }
                self.add_properties(sums, name, &shadow.properties)?;
                self.add_fields(sums, name, ConvergentOwner::Node(id))
            }
            Part::Relationships => {
                let id = RelId(id_in(part, key)?);
                let shadow = self.rel_shadow(id)?;
                let shadow = shadow.ok_or_else(|| malformed("the metadata of a relationship"))?;
                sums.add(name, &[b"life", &self.spell_stamp(shadow.life)]);
                self.add_properties(sums, name, &shadow.properties)?;
                self.add_fields(sums, name, ConvergentOwner::Relationship(id))
            }
            Part::Files => {
                let number = file_of(key)?;
                let shadow = self.file_shadow(number)?;
                let shadow = shadow.ok_or_else(|| malformed("the metadata of a file"))?;
                sums.add(name, &[b"life", &self.spell_stamp(shadow.life)]);
                self.add_versions(sums, name, b"called", &shadow.called);
                self.add_versions(sums, name, b"size", &self.lives(&keyspace::file(number))?);
                Ok(())
            }
            Part::Folders => {
                let stored = self.read().get(key)?.unwrap_or_default();
                self.add_versions(sums, name, b"made", &decode_making(&stored)?.1);
                Ok(())
            }
            Part::Chunks => {
                self.add_versions(sums, name, b"chunk", &self.cell_versions(key)?);
                Ok(())
            }
            _ => {
                for version in self.cell_versions(key)? {
                    let value = match part {
                        Part::Entries => format!("{:?}", self.stored_value(&version.value)?),
                        _ => String::new(),
                    };
                    let stamp = self.spell_stamp(version.stamp);
                    sums.add(name, &[b"entry", &stamp, value.as_bytes()]);
                }
                Ok(())
            }
        }
    }

    fn add_versions(&self, sums: &mut Sums, name: &[u8], what: &[u8], versions: &[Version]) {
        for version in versions {
            sums.add(
                name,
                &[what, &self.spell_stamp(version.stamp), &version.value],
            );
        }
    }

    fn add_properties(
        &self,
        sums: &mut Sums,
        name: &[u8],
        properties: &Properties,
    ) -> Result<(), DataError> {
        let names = self.catalog_ref();
        for (prop, versions) in properties {
            let prop = names.prop_name(*prop).unwrap_or_default();
            for Version { stamp, value } in versions {
                let value = format!("{:?}", decode_value(value, &*names.names)?);
                let stamp = self.spell_stamp(*stamp);
                sums.add(
                    name,
                    &[b"property", prop.as_bytes(), &stamp, value.as_bytes()],
                );
            }
        }
        Ok(())
    }

    /// Entries of convergent fields; of counters the sum, as each replica folds at a different time.
    fn add_fields(
        &self,
        sums: &mut Sums,
        name: &[u8],
        owner: ConvergentOwner,
    ) -> Result<(), DataError> {
        if !self.shared().own_replica.has_any() {
            return Ok(());
        }
        let prefix = owner.prefix();
        let end = after_prefix(&prefix);
        let mut counter: Option<(Vec<u8>, i128)> = None;
        let mut failed = None;
        self.each_between(&prefix, end.as_deref(), &mut |key, value| {
            let mut add = || -> Result<(), DataError> {
                let below = &key[prefix.len()..];
                let parts = entry_parts(below)?;
                let mut rest = below;
                let prop = take_id(&mut rest).ok_or_else(|| malformed("a field"))?;
                let prop = self.catalog_ref().prop_name(PropId(prop as u32));
                let place = &below[below.len() - rest.len()..parts.item];
                let spelled = [prop.unwrap_or_default().as_bytes(), &[0], place].concat();
                if parts.kind == ConvergentKind::Counter {
                    let by = counter_amount(value)?.0;
                    match &mut counter {
                        Some((field, sum)) if *field == spelled => *sum += by,
                        other => {
                            if let Some((field, sum)) = other.replace((spelled, by)) {
                                sums.add(name, &[b"counter", &field, &sum.to_le_bytes()]);
                            }
                        }
                    }
                } else {
                    let stamp = Stamp {
                        dot: parts.dot,
                        time: u64::from(parts.dot.op),
                    };
                    sums.add(name, &[b"field", &spelled, &self.spell_stamp(stamp), value]);
                }
                Ok(())
            };
            if failed.is_none()
                && let Err(error) = add()
            {
                failed = Some(error);
            }
        })?;
        if let Some((field, sum)) = counter {
            sums.add(name, &[b"counter", &field, &sum.to_le_bytes()]);
        }
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn spell_stamp(&self, stamp: Stamp) -> Vec<u8> {
        let name = self.shared().own_replica.name(stamp.dot.replica);
        let mut bytes = name
            .map(|name| name.to_bytes().to_vec())
            .unwrap_or_default();
        bytes.extend_from_slice(&stamp.dot.number.to_le_bytes());
        bytes.extend_from_slice(&stamp.time.to_le_bytes());
        bytes
    }

    fn push_found(&self, part: Part, key: &[u8], page: &mut Outgoing<'_>) -> Result<(), DataError> {
        let value = self.read().get(key)?.unwrap_or_default();
        super::snapshot::push_row(self, part, key, &value, page)
    }
}
