//! Scrubbing: two replicas that have seen the same transactions must hold the same state; a difference is damage.
//!
//! All records and entries are partitioned into [`RANGE_COUNT`] ranges by a hash of their names. Each range has a
//! fingerprint: a sum of hashes of its content, with names spelled out, so that neither ids nor order matter. Where two
//! fingerprints differ, the content of the range is exchanged, and each side adds what it lacks: records lost by one of
//! them are restored. (Records that one of them failed to remove come back, too: a scrub never removes anything.)
//!
//! ```text
//! fingerprints  a page with one item, `FINGERPRINTS`: vector, then u128 LE for each range
//! ranges        a page of items as in a state transfer
//! ```

use isomer_data::{
    Access, ConvergentKind, ConvergentOwner, DataError, DataStore, Transaction, Vector,
    after_prefix, internals::own_replica,
};
use isomer_layout::{
    convergent::{counter::amount as counter_amount, place::entry as entry_parts},
    keyspace::{self, sole_id, take_id},
    replicated::codec::malformed,
};
use isomer_value::{NodeId, PropId, RelId, record::decode_value};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    buckets, cells, conflicts,
    files::{self, decode_making},
    mapping,
    metadata::Properties,
    records, scope,
    spelling::{self, spell_stamp},
    state::replication_of,
    state_transfer::{
        merge_files::{self, file_of},
        receive,
        section::Section,
        send,
    },
    versions::{Stamp, Version},
    wire::{self, Incoming, Outgoing, tag},
};

/// The number of ranges.
pub const RANGE_COUNT: usize = 4096;
/// Ranges that are exchanged at a time, at most.
const MAX_RANGES_PER_PAGE: usize = 256;

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
    (xxh3_128(name) >> 64) as usize % RANGE_COUNT
}

/// The fingerprints of this database.
///
/// # Errors
/// Those of the engine; [`DataError::Corrupt`] for unreadable records.
pub fn fingerprints(store: &DataStore) -> Result<Vec<u8>, DataError> {
    let tx = store.begin(Access::Read)?;
    let mut sums = Sums(vec![0; RANGE_COUNT]);
    each_name(&tx, &mut |part, key, name| {
        add_to(&tx, &mut sums, part, key, name)
    })?;
    let mut page = Outgoing::new(store);
    let mut content = Vec::new();
    mapping::vector(&mut page, &store.numbering().seen_in(tx.read(), None)?)?
        .push_local(&mut content);
    for sum in &sums.0 {
        content.extend_from_slice(&sum.to_le_bytes());
    }
    page.push(tag::FINGERPRINTS, &content);
    Ok(page.finish())
}

/// The ranges in which another replica's fingerprints differ; none if the two have not seen the same
/// transactions.
///
/// # Errors
/// [`DataError::Invalid`] for bytes that are not fingerprints.
pub fn differing(store: &DataStore, theirs: &[u8]) -> Result<Option<Vec<u16>>, DataError> {
    let ours = fingerprints(store)?;
    let read = |page: &[u8]| -> Result<(Vector, Vec<u8>), DataError> {
        let (mut map, mut items) = Incoming::open(store, page)?;
        let Some((tag::FINGERPRINTS, mut content)) = wire::take_item(&mut items)? else {
            return Err(mapping::bad_item());
        };
        let seen = Vector::take_local(&mut content).ok_or_else(mapping::bad_item)?;
        match content.len() == RANGE_COUNT * 16 {
            true => Ok((mapping::vector(&mut map, &seen)?, content.to_vec())),
            false => Err(mapping::bad_item()),
        }
    };
    let ((here, ours), (there, theirs)) = (read(&ours)?, read(theirs)?);
    if !here.includes(&there) || !there.includes(&here) {
        return Ok(None);
    }
    let pairs = ours.chunks(16).zip(theirs.chunks(16)).enumerate();
    let differ = pairs.filter(|(_, (one, other))| one != other);
    Ok(Some(
        differ
            .map(|(at, _)| at as u16)
            .take(MAX_RANGES_PER_PAGE)
            .collect(),
    ))
}

/// The content of some ranges.
///
/// # Errors
/// Those of the engine.
pub fn ranges_page(store: &DataStore, ranges: &[u16]) -> Result<Vec<u8>, DataError> {
    let tx = store.begin(Access::Read)?;
    let mut page = Outgoing::new(store);
    let mut seen = Vec::new();
    mapping::vector(&mut page, &store.numbering().seen_in(tx.read(), None)?)?.push_local(&mut seen);
    page.push(tag::SEEN, &seen);
    let mut found = Vec::new();
    each_name(&tx, &mut |part, key, name| {
        if ranges.contains(&(range_of(name) as u16)) {
            found.push((part, key.to_vec()));
        }
        Ok(())
    })?;
    // Relationships follow the nodes that they need.
    for (part, key) in &found {
        push_found(&tx, *part, key, &mut page)?;
    }
    for (part, key) in &found {
        let owner = match part {
            Section::Nodes | Section::Ghosts => ConvergentOwner::Node(NodeId(id_in(*part, key)?)),
            Section::Relationships => ConvergentOwner::Relationship(RelId(id_in(*part, key)?)),
            _ => continue,
        };
        send::push_owner_fields(&tx, owner, &mut page)?;
    }
    store.engine().sync()?;
    Ok(page.finish())
}

/// Adds what is in another replica's ranges and missing here, where both have seen the same: otherwise it may have
/// been removed here.
///
/// # Errors
/// [`DataError::Invalid`] for bytes that are not a page of ranges; [`DataError::Storage`] (unavailable) where one
/// of the two was written concurrently, and while a state is being merged; those of a commit.
pub fn repair(store: &DataStore, page: &[u8]) -> Result<(), DataError> {
    let _applying = replication_of(store).applying.lock();
    if receive::is_merging_state(store) {
        return Err(isomer_data::internals::joining_error());
    }
    receive::join_union(store, page)?;
    store.engine().sync()?;
    Ok(())
}

fn id_in(part: Section, key: &[u8]) -> Result<u64, DataError> {
    sole_id(&key[part.prefix().len()..], "the key of a record")
}

/// Called with the part, the stored key and the name of an item.
type Named<'n> = dyn FnMut(Section, &[u8], &[u8]) -> Result<(), DataError> + 'n;

/// Visits everything that has a name: records, ghosts, entries of buckets.
fn each_name(tx: &Transaction, visit: &mut Named<'_>) -> Result<(), DataError> {
    for part in [
        Section::Nodes,
        Section::Ghosts,
        Section::Relationships,
        Section::Buckets,
        Section::Entries,
        Section::Values,
        Section::Sequences,
        Section::Files,
        Section::Folders,
        Section::Chunks,
    ] {
        let prefix = part.prefix();
        let end = after_prefix(&prefix);
        let mut start = prefix.clone();
        loop {
            let (keys, next) = tx.raw().some_keys(&start, end.as_deref(), 4096)?;
            for key in &keys {
                if !scope::holds(tx, part, key)? {
                    continue;
                }
                let name = match part {
                    Section::Nodes | Section::Ghosts => {
                        let id = NodeId(id_in(part, key)?);
                        let has_record = tx.read().get(&keyspace::node(id))?.is_some();
                        if part == Section::Ghosts && has_record {
                            continue;
                        }
                        conflicts::spelled(tx, id)?
                    }
                    Section::Relationships => {
                        let identity = records::rel_identity(tx, RelId(id_in(part, key)?))?;
                        [&[9][..], &spelling::spell_identity(tx, &identity)].concat()
                    }
                    Section::Files | Section::Folders | Section::Chunks => {
                        match merge_files::file_name(tx, key)? {
                            Some(name) => name,
                            None => continue,
                        }
                    }
                    _ => {
                        let mut rest = &key[1..];
                        let bucket = take_id(&mut rest);
                        let bucket = bucket.ok_or_else(|| malformed("the key of a bucket"))?;
                        let bucket = tx.kv().bucket_name(bucket as u32)?;
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
    tx: &Transaction,
    sums: &mut Sums,
    part: Section,
    key: &[u8],
    name: &[u8],
) -> Result<(), DataError> {
    match part {
        Section::Nodes | Section::Ghosts => {
            let id = NodeId(id_in(part, key)?);
            let metadata = records::node_metadata(tx, id)?;
            let metadata = metadata.ok_or_else(|| malformed("the metadata of a node"))?;
            for creation in &metadata.creations {
                sums.add(name, &[b"life", &spell_stamp(tx, *creation)]);
            }
            for (label, stamps) in &metadata.labels {
                let label = tx.names().label_name(*label).unwrap_or_default();
                for stamp in stamps {
                    sums.add(
                        name,
                        &[b"label", label.as_bytes(), &spell_stamp(tx, *stamp)],
                    );
                }
            }
            add_properties(tx, sums, name, &metadata.properties)?;
            add_fields(tx, sums, name, ConvergentOwner::Node(id))
        }
        Section::Relationships => {
            let id = RelId(id_in(part, key)?);
            let metadata = records::rel_metadata(tx, id)?;
            let metadata = metadata.ok_or_else(|| malformed("the metadata of a relationship"))?;
            sums.add(name, &[b"life", &spell_stamp(tx, metadata.creation)]);
            add_properties(tx, sums, name, &metadata.properties)?;
            add_fields(tx, sums, name, ConvergentOwner::Relationship(id))
        }
        Section::Files => {
            let number = file_of(key)?;
            let metadata = files::file_metadata(tx, number)?;
            let metadata = metadata.ok_or_else(|| malformed("the metadata of a file"))?;
            sums.add(name, &[b"life", &spell_stamp(tx, metadata.creation)]);
            add_versions(tx, sums, name, b"called", &metadata.called);
            add_versions(
                tx,
                sums,
                name,
                b"size",
                &buckets::creations(tx, &keyspace::file(number))?,
            );
            Ok(())
        }
        Section::Folders => {
            let stored = tx.read().get(key)?.unwrap_or_default();
            add_versions(tx, sums, name, b"made", &decode_making(&stored)?.1);
            Ok(())
        }
        Section::Chunks => {
            add_versions(tx, sums, name, b"chunk", &cells::cell_versions(tx, key)?);
            Ok(())
        }
        _ => {
            for version in cells::cell_versions(tx, key)? {
                let value = match part {
                    Section::Entries => format!("{:?}", tx.kv().stored_value(&version.value)?),
                    _ => String::new(),
                };
                let stamp = spell_stamp(tx, version.stamp);
                sums.add(name, &[b"entry", &stamp, value.as_bytes()]);
            }
            Ok(())
        }
    }
}

fn add_versions(tx: &Transaction, sums: &mut Sums, name: &[u8], what: &[u8], versions: &[Version]) {
    for version in versions {
        sums.add(
            name,
            &[what, &spell_stamp(tx, version.stamp), &version.value],
        );
    }
}

fn add_properties(
    tx: &Transaction,
    sums: &mut Sums,
    name: &[u8],
    properties: &Properties,
) -> Result<(), DataError> {
    let names = tx.names();
    for (prop, versions) in properties {
        let prop = names.prop_name(*prop).unwrap_or_default();
        for Version { stamp, value } in versions {
            let value = format!("{:?}", decode_value(value, &*names.names)?);
            let stamp = spell_stamp(tx, *stamp);
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
    tx: &Transaction,
    sums: &mut Sums,
    name: &[u8],
    owner: ConvergentOwner,
) -> Result<(), DataError> {
    if !own_replica(tx.store()).has_any() {
        return Ok(());
    }
    let prefix = owner.prefix();
    let end = after_prefix(&prefix);
    let mut counter: Option<(Vec<u8>, i128)> = None;
    let mut failed = None;
    tx.raw()
        .each_between(&prefix, end.as_deref(), &mut |key, value| {
            let mut add = || -> Result<(), DataError> {
                let below = &key[prefix.len()..];
                let parts = entry_parts(below)?;
                let mut rest = below;
                let prop = take_id(&mut rest).ok_or_else(|| malformed("a field"))?;
                let prop = tx.names().prop_name(PropId(prop as u32));
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
                    sums.add(name, &[b"field", &spelled, &spell_stamp(tx, stamp), value]);
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

fn push_found(
    tx: &Transaction,
    part: Section,
    key: &[u8],
    page: &mut Outgoing<'_>,
) -> Result<(), DataError> {
    let value = tx.read().get(key)?.unwrap_or_default();
    crate::state_transfer::send::push_row(tx, part, key, &value, page)
}
