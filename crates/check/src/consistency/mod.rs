//! Consistency check: everything derived is compared with its source.
//!
//! Sources are the records of nodes and relationships; derived from them are label membership, keys, index entries,
//! adjacency on both sides, the ranges of ids and the counts. The newest operations of the change stream are checked,
//! too (see [`change_stream`]). One pass reads the records and sums up, per structure, the hashes of the pairs that
//! should exist; another one sums up the pairs that exist. Only where the sums differ, a slower search finds which pair
//! is missing and which one is superfluous. Memory: a bit per id ever used.

mod change_stream;
mod search;

use std::ops::ControlFlow;

use isomer_data::{
    Access, Catalog, Counted, DataError, DataStore, IndexDef, IndexState, RelRow, Transaction,
    after_prefix, stored_pairs::StoredPairs,
};
use isomer_layout::{
    catalog::rules::described,
    graph::{
        key::encode_key,
        rows::{self, row_of},
        state::{EntryOwner, KEY, NodeState, RecordState, RelState},
    },
    keyspace::{
        self, IdSpace, TAG_ADJACENCY, TAG_KEY, TAG_LABEL, TAG_NODE, TAG_REL, push_id, sole_id,
    },
};
use isomer_value::{LabelId, NodeId, RelId, TypeId, record::RecordRef};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Most findings that are reported.
const MAX_FINDINGS: usize = 100;
/// Pairs between two calls of the progress callback.
const REPORT_EVERY: u64 = 8192;

/// Pairs as a number and a sum of hashes: equal for equal sets, in whatever order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    pairs: u64,
    hashes: u128,
}

impl Sum {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let hash = if value.is_empty() {
            xxh3_128(key)
        } else {
            let mut hasher = Xxh3::new();
            hasher.update(&(key.len() as u64).to_le_bytes());
            hasher.update(key);
            hasher.update(value);
            hasher.digest128()
        };
        self.pairs += 1;
        self.hashes = self.hashes.wrapping_add(hash);
    }
}

/// What should exist.
#[derive(Default)]
struct Expected {
    members: Sum,
    keys: Sum,
    adjacency: Sum,
    entries: Vec<Sum>,
    labels: FxHashMap<LabelId, u64>,
    types: FxHashMap<TypeId, u64>,
    nodes: u64,
    relationships: u64,
}

/// Which ids are used, a bit each.
#[derive(Default)]
struct Ids(FxHashMap<u64, [u64; 64]>);

impl Ids {
    fn insert(&mut self, id: u64) {
        self.0.entry(id >> 12).or_insert([0; 64])[(id >> 6 & 63) as usize] |= 1 << (id & 63);
    }

    fn contains(&self, id: u64) -> bool {
        self.0
            .get(&(id >> 12))
            .is_some_and(|bits| bits[(id >> 6 & 63) as usize] >> (id & 63) & 1 == 1)
    }
}

struct Check<'a> {
    tx: Transaction,
    progress: &'a mut dyn FnMut(&'static str, u64) -> ControlFlow<()>,
    done: u64,
    findings: Vec<String>,
}

/// Checks every derived structure of the last version against the records, buckets included, and the stored state
/// against the newest operations of the change stream, as far back as it is kept; reads and writes continue
/// concurrently. Returns the findings, at most 100; none means that the database is consistent. `progress` receives
/// what is being read and the number of pairs read, and may stop the check.
///
/// # Errors
/// [`DataError::Cancelled`]; errors of the engine where the bytes themselves cannot be read.
pub fn check(
    store: &DataStore,
    progress: &mut dyn FnMut(&'static str, u64) -> ControlFlow<()>,
) -> Result<Vec<String>, DataError> {
    let mut check = Check {
        tx: store.begin(Access::Read)?,
        progress,
        done: 0,
        findings: Vec::new(),
    };
    let (expected, nodes) = check.nodes()?;
    let expected = check.relationships(expected, &nodes)?;
    drop(nodes);
    check.derived(&expected)?;
    check.counts(&expected)?;
    check.findings.extend(store.check_buckets()?);
    check.findings.extend(store.check_files()?);
    check.findings.extend(store.check_convergent()?);
    // A database that is inconsistent already would only be reported twice.
    if check.findings.is_empty() {
        check.check_change_stream()?;
    }
    check.findings.truncate(MAX_FINDINGS);
    Ok(check.findings)
}

impl Check<'_> {
    fn pairs(&self) -> StoredPairs<'_> {
        self.tx.stored_pairs()
    }

    fn find(&mut self, what: String) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(what);
        }
    }

    fn report_progress(&mut self, what: &'static str) -> Result<(), DataError> {
        self.done += 1;
        if self.done.is_multiple_of(REPORT_EVERY) && (self.progress)(what, self.done).is_break() {
            return Err(DataError::Cancelled);
        }
        Ok(())
    }

    /// Calls `visit` with every pair under `prefix`, in pages, so that `visit` may read as well.
    fn scan(
        &mut self,
        what: &'static str,
        prefix: &[u8],
        mut visit: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let mut start = prefix.to_vec();
        let end = after_prefix(prefix);
        loop {
            let mut pairs = Vec::new();
            self.pairs()
                .scan(&start, end.as_deref(), 4096, |key, value| {
                    pairs.push((key.to_vec(), value.to_vec()));
                    Ok(())
                })?;
            for (key, value) in &pairs {
                self.report_progress(what)?;
                visit(self, key, value)?;
            }
            let Some((mut last, _)) = pairs.pop() else {
                return Ok(());
            };
            last.push(0);
            start = last;
        }
    }

    /// Every node's record, and what should be derived from it.
    fn nodes(&mut self) -> Result<(Expected, Ids), DataError> {
        let catalog = self.tx.names().clone();
        let indexes: Vec<IndexDef> = ready(&self.tx);
        let mut expected = Expected {
            entries: vec![Sum::default(); indexes.len()],
            ..Expected::default()
        };
        let mut ids = Ids::default();
        let reserved = self.reserved(IdSpace::Nodes)?;
        self.scan("nodes", &[TAG_NODE], |check, key, value| {
            let id = NodeId(sole_id(&key[1..], "the key of a node")?);
            ids.insert(id.0);
            expected.nodes += 1;
            if id.0 >= reserved {
                check.find(format!(
                    "node {id} has an id that was never reserved: it would be given out again"
                ));
            }
            let state = match node_state(value, &catalog) {
                Ok(state) => state,
                Err(error) => {
                    check.find(format!("the record of node {id} cannot be read: {error}"));
                    return Ok(());
                }
            };
            for &label in &state.labels {
                if catalog.label_name(label).is_none() {
                    check.find(format!(
                        "node {id} has label number {label}, which has no name"
                    ));
                }
                expected.members.add(&keyspace::member(label, id), b"");
                *expected.labels.entry(label).or_default() += 1;
            }
            if let Err(error) = expect_keys(&mut expected.keys, id, &state) {
                check.find(format!("node {id}: {error}"));
            }
            check.expect_schema(
                &indexes,
                &mut expected.entries,
                EntryOwner::Node(id),
                &state,
            );
            Ok(())
        })?;
        Ok((expected, ids))
    }

    /// Every relationship's record, and the adjacency that should be derived from it.
    fn relationships(
        &mut self,
        mut expected: Expected,
        nodes: &Ids,
    ) -> Result<Expected, DataError> {
        let catalog = self.tx.names().clone();
        let indexes: Vec<IndexDef> = ready(&self.tx);
        let reserved = self.reserved(IdSpace::Relationships)?;
        let mut extents: FxHashMap<TypeId, Vec<(u64, u64)>> = FxHashMap::default();
        self.scan("relationships", &[TAG_REL], |check, key, value| {
            let id = RelId(sole_id(&key[1..], "the key of a relationship")?);
            expected.relationships += 1;
            if id.0 >= reserved {
                check.find(format!("relationship {id} has an id that was never reserved: it would be given out again"));
            }
            let (row, state) = match rel_state(id, value, &catalog) {
                Ok(read) => read,
                Err(error) => {
                    check.find(format!("the record of relationship {id} cannot be read: {error}"));
                    return Ok(());
                }
            };
            if catalog.type_name(row.type_id).is_none() {
                check.find(format!("relationship {id} has type number {}, which has no name", row.type_id));
            }
            let extents = extents
                .entry(row.type_id)
                .or_insert_with(|| check.tx.store().relationship_extents(row.type_id));
            let at = extents.partition_point(|(first, _)| *first <= id.0);
            if at.checked_sub(1).is_none_or(|at| id.0 - extents[at].0 >= extents[at].1) {
                check.find(format!("relationship {id} is outside the ids of its type: a scan of the type misses it"));
            }
            for (end, name) in [(row.source, "source"), (row.target, "target")] {
                if !nodes.contains(end.0) {
                    check.find(format!("relationship {id} has node {end} as its {name}, which does not exist"));
                }
            }
            *expected.types.entry(row.type_id).or_default() += 1;
            expected.adjacency.add(&rows::adjacency(&row, true), b"");
            expected.adjacency.add(&rows::adjacency(&row, false), b"");
            let owner = EntryOwner::Relationship(row);
            check.expect_schema(&indexes, &mut expected.entries, owner, &state);
            Ok(())
        })?;
        Ok(expected)
    }

    /// The index entries that a record should have, and the constraints that it must satisfy.
    fn expect_schema(
        &mut self,
        indexes: &[IndexDef],
        sums: &mut [Sum],
        owner: EntryOwner,
        state: &impl RecordState,
    ) {
        let (id, value) = (owner.record(), owner.entry_value());
        for (index, sum) in indexes.iter().zip(sums) {
            match self.pairs().required_entries(index, id, state) {
                Ok(entries) => entries
                    .iter()
                    .for_each(|entry| sum.add(&entry.key(owner), &value)),
                Err(error) => self.find(format!(
                    "{} does not fit into index {}: {error}",
                    described(Some(id), None),
                    index.name
                )),
            }
        }
        if let Err(error) = self.tx.names().check_existing(id, state) {
            self.find(format!("a constraint is broken: {error}"));
        }
    }

    /// What exists, compared with what should.
    fn derived(&mut self, expected: &Expected) -> Result<(), DataError> {
        if self.sum("labels", &[TAG_LABEL])? != expected.members {
            self.search_members()?;
        }
        if self.sum("keys", &[TAG_KEY])? != expected.keys {
            self.search_keys()?;
        }
        if self.sum("adjacency", &[TAG_ADJACENCY])? != expected.adjacency {
            self.search_adjacency()?;
        }
        let indexes = ready(&self.tx);
        for (index, expected) in indexes.iter().zip(&expected.entries) {
            if self.sum("indexes", &keyspace::entries_of(index.id))? != *expected {
                self.search_entries(index)?;
            }
        }
        Ok(())
    }

    fn sum(&mut self, what: &'static str, prefix: &[u8]) -> Result<Sum, DataError> {
        let mut sum = Sum::default();
        self.scan(what, prefix, |_, key, value| {
            sum.add(key, value);
            Ok(())
        })?;
        Ok(sum)
    }

    fn counts(&mut self, expected: &Expected) -> Result<(), DataError> {
        let catalog = self.tx.names().clone();
        let mut pairs = vec![
            (Counted::Nodes, expected.nodes, "nodes".to_owned()),
            (
                Counted::Relationships,
                expected.relationships,
                "relationships".to_owned(),
            ),
        ];
        for (label, name) in catalog.labels() {
            let number = expected.labels.get(&label).copied().unwrap_or_default();
            pairs.push((Counted::Label(label), number, format!("nodes :{name}")));
        }
        for (type_id, name) in catalog.types() {
            let number = expected.types.get(&type_id).copied().unwrap_or_default();
            pairs.push((
                Counted::Type(type_id),
                number,
                format!("relationships :{name}"),
            ));
        }
        for (counted, number, what) in pairs {
            let kept = self.pairs().count(counted)?;
            if kept.is_some_and(|kept| kept != number) {
                self.find(format!(
                    "{} {what} are counted, {number} exist",
                    kept.unwrap_or_default()
                ));
            }
        }
        Ok(())
    }

    fn reserved(&self, space: IdSpace) -> Result<u64, DataError> {
        match self.pairs().get(&keyspace::reserved(space))? {
            Some(value) => sole_id(&value, "the end of the reserved ids"),
            None => Ok(0),
        }
    }
}

/// The indexes that are complete, in a fixed order.
fn ready(tx: &Transaction) -> Vec<IndexDef> {
    tx.names()
        .indexes()
        .iter()
        .filter(|index| index.state == IndexState::Ready)
        .filter(|index| index.unique || !tx.store().is_given_up(index.id))
        .cloned()
        .collect()
}

/// A node's labels and properties, every byte of its record read.
fn node_state(value: &[u8], names: &Catalog) -> Result<NodeState, DataError> {
    let record = RecordRef::new(value)?;
    record.check(names)?;
    if record.endpoints().is_some() {
        return Err(DataError::corrupt("it is a relationship's"));
    }
    Ok(NodeState {
        labels: record.labels().collect(),
        properties: record.properties(names)?,
    })
}

/// A relationship's ends, type and properties, every byte of its record read.
fn rel_state(id: RelId, value: &[u8], names: &Catalog) -> Result<(RelRow, RelState), DataError> {
    let record = RecordRef::new(value)?;
    record.check(names)?;
    let row = row_of(id, &record)?;
    let state = RelState {
        type_id: row.type_id,
        properties: record.properties(names)?,
    };
    Ok((row, state))
}

/// The keys that a node has in its labels, as stored.
fn stored_keys(state: &NodeState) -> Result<Vec<Vec<u8>>, DataError> {
    let Some(key) = state.properties.get(KEY) else {
        return Ok(Vec::new());
    };
    let encoded = encode_key(key)?;
    Ok(state
        .labels
        .iter()
        .map(|label| [keyspace::keys_of(*label), encoded.clone()].concat())
        .collect())
}

fn expect_keys(sum: &mut Sum, id: NodeId, state: &NodeState) -> Result<(), DataError> {
    let mut value = Vec::new();
    push_id(&mut value, id.0);
    stored_keys(state)?
        .iter()
        .for_each(|key| sum.add(key, &value));
    Ok(())
}
