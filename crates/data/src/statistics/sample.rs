//! Taking samples: runs of neighbouring records at random places.

use isomer_layout::{
    DataError,
    catalog::{
        Catalog,
        schema::{FieldPath, IndexDef, RecordScope},
    },
    graph::state::NodeState,
    index::entries_of,
    keyspace::{self, after_prefix, push_id, sole_id},
    pairs::each_pair,
};
use isomer_storage::{KeyRange, Order, Page, PageLimit, Read};
use isomer_value::{LabelId, Map, NodeId, TypeId, key, record::RecordRef};
use rustc_hash::FxHashMap;

use super::{
    IndexStatistics, LabelStatistics, TypeStatistics,
    values::{count_distinct, summarise},
};
use crate::DataStore;

/// Records sampled of a larger label or type.
const SAMPLED_RECORDS: u64 = 2_000;
/// Up to this number of records all are read, and the statistics are exact.
const ALL_OF: u64 = 3 * SAMPLED_RECORDS;
/// Neighbours read at each place.
const RUN_RECORDS: u64 = 8;
/// After this number of property values the sample ends, if it has [`MIN_RECORDS`] records.
const MAX_VALUES: usize = 40_000;
const MIN_RECORDS: usize = 400;
/// Most properties of a label with statistics.
const MAX_PROPERTIES: usize = 64;
/// Most labels of one node that are distinguished.
const MAX_LABELS: usize = 8;

/// Deterministic pseudo-random numbers: SplitMix64 (Steele, Lea, Flood 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A random position in ranges of ids (first, number), each id with the same probability.
    fn within(&mut self, ranges: &[(u64, u64)]) -> u64 {
        let mut place = self.below(ranges.iter().map(|(_, length)| length).sum::<u64>().max(1));
        for (first, length) in ranges {
            if place < *length {
                return first + place;
            }
            place -= length;
        }
        ranges.first().map_or(0, |(first, _)| *first)
    }
}

pub fn label(store: &DataStore, label: LabelId, nodes: u64) -> Result<LabelStatistics, DataError> {
    let snapshot = store.engine().snapshot()?;
    let read: &dyn Read = &*snapshot;
    let members = members(store, read, label, nodes)?;
    let states = states(store, read, &members)?;
    let sampled = states.len() as u64;
    // A sample that ended early has read only a part of the listed records.
    let whole = nodes.max(sampled);
    let mut together: FxHashMap<LabelId, u64> = FxHashMap::default();
    for state in &states {
        for other in state.labels.iter().filter(|other| **other != label) {
            *together.entry(*other).or_default() += 1;
        }
    }
    let contents: Vec<&Map> = states.iter().map(|state| &state.properties).collect();
    let indexes = indexes(store, label.into(), &contents, whole)?;
    Ok(LabelStatistics {
        version: read.version(),
        nodes,
        sampled,
        together: scaled(together, sampled, whole),
        properties: properties(&states, sampled, whole)?,
        indexes,
    })
}

/// Members of a label, in no particular order: all of a small one.
fn members(
    store: &DataStore,
    read: &dyn Read,
    label: LabelId,
    nodes: u64,
) -> Result<Vec<NodeId>, DataError> {
    let prefix = keyspace::members_of(label);
    let end = after_prefix(&prefix);
    let mut found = Vec::new();
    let mut random = SplitMix64(u64::from(label.0) << 32 | 1);
    if nodes <= ALL_OF {
        each_pair(read, &prefix, |key, _| {
            found.push(member(&prefix, key)?);
            Ok(())
        })?;
        shuffle(&mut found, &mut random);
        return Ok(found);
    }
    // Nodes have ids of their first label's extents; members with a different first label are searched between the
    // label's ends.
    let mut ranges = store.shared().nodes.of(label.0);
    if ranges.iter().map(|(_, length)| length).sum::<u64>() < nodes / 2 {
        let first = one_member(read, &prefix, end.as_deref(), Order::Ascending)?;
        let last = one_member(read, &prefix, end.as_deref(), Order::Descending)?;
        ranges = vec![(first, last.saturating_sub(first) + 1)];
    }
    let mut page = Page::new();
    for _ in 0..SAMPLED_RECORDS / RUN_RECORDS {
        let mut start = prefix.clone();
        push_id(&mut start, random.within(&ranges));
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        read.scan(range, Order::Ascending, run(), &mut page)?;
        for (key, _) in page.iter() {
            found.push(member(&prefix, key)?);
        }
    }
    // A node found twice would make its values look common.
    found.sort_unstable();
    found.dedup();
    shuffle(&mut found, &mut random);
    Ok(found)
}

/// Shuffled, so that any prefix is a fair sample.
fn shuffle(nodes: &mut [NodeId], random: &mut SplitMix64) {
    for at in (1..nodes.len()).rev() {
        nodes.swap(at, random.below(at as u64 + 1) as usize);
    }
}

fn run() -> PageLimit {
    PageLimit {
        keys: RUN_RECORDS as usize,
        bytes: 1 << 20,
    }
}

fn member(prefix: &[u8], key: &[u8]) -> Result<NodeId, DataError> {
    Ok(NodeId(sole_id(
        &key[prefix.len()..],
        "an entry of a label",
    )?))
}

fn one_member(
    read: &dyn Read,
    prefix: &[u8],
    end: Option<&[u8]>,
    order: Order,
) -> Result<u64, DataError> {
    let mut page = Page::new();
    let range = KeyRange { start: prefix, end };
    let limit = PageLimit { keys: 1, bytes: 1 };
    read.scan(range, order, limit, &mut page)?;
    let first = page.iter().next();
    first.map_or(Ok(0), |(key, _)| member(prefix, key).map(|node| node.0))
}

/// Labels and properties of the nodes, until enough values were read.
fn states(
    store: &DataStore,
    read: &dyn Read,
    members: &[NodeId],
) -> Result<Vec<NodeState>, DataError> {
    let names = store.catalog().names.clone();
    let (mut states, mut values) = (Vec::new(), 0);
    for some in members.chunks(MIN_RECORDS) {
        let keys: Vec<Vec<u8>> = some.iter().map(|id| keyspace::node(*id)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for bytes in read.get_many(&keys)?.into_iter().flatten() {
            let record = RecordRef::new(&bytes)?;
            let properties = record.properties(&*names)?;
            values += properties.len();
            states.push(NodeState {
                labels: record.labels().collect(),
                properties,
            });
        }
        if values > MAX_VALUES {
            break;
        }
    }
    Ok(states)
}

fn properties(
    states: &[NodeState],
    sampled: u64,
    whole: u64,
) -> Result<Vec<(FieldPath, super::ValueStatistics)>, DataError> {
    let mut columns: FxHashMap<&str, Vec<Vec<u8>>> = FxHashMap::default();
    for state in states {
        for (name, value) in state.properties.iter() {
            columns.entry(name).or_default().push(key::encode(value)?);
        }
    }
    let mut columns: Vec<(&str, Vec<Vec<u8>>)> = columns.into_iter().collect();
    columns.sort_by(|(a, one), (b, other)| other.len().cmp(&one.len()).then_with(|| a.cmp(b)));
    columns.truncate(MAX_PROPERTIES);
    columns.sort_by_key(|(name, _)| *name);
    Ok(columns
        .iter()
        .map(|(name, values)| {
            let values = values.iter().map(Vec::as_slice).collect();
            (FieldPath::top(name), summarise(values, sampled, whole))
        })
        .collect())
}

/// The indexes of a scope that have statistics: convergent values are not in records.
pub(super) fn sampled_indexes<'c>(
    store: &'c DataStore,
    catalog: &'c Catalog,
    scope: RecordScope,
) -> impl Iterator<Item = &'c IndexDef> {
    catalog.usable_indexes(scope).filter(|index| {
        index.fields.iter().all(|field| {
            let prop = catalog.prop_id(&field.path.0[0]);
            !prop.is_some_and(|prop| store.is_convergent(prop))
        })
    })
}

/// The statistics of all usable indexes of a scope, from the properties of sampled records.
fn indexes(
    store: &DataStore,
    scope: RecordScope,
    sample: &[&Map],
    whole: u64,
) -> Result<Vec<IndexStatistics>, DataError> {
    let catalog = store.catalog();
    sampled_indexes(store, &catalog, scope)
        .map(|index| index_statistics(index, sample, whole))
        .collect()
}

fn index_statistics(
    index: &IndexDef,
    sample: &[&Map],
    whole: u64,
) -> Result<IndexStatistics, DataError> {
    let sampled = sample.len() as u64;
    let mut entries = Vec::new();
    for properties in sample {
        entries.extend(entries_of(index, properties)?);
    }
    let prefix = |fields: usize| -> Vec<&[u8]> {
        entries
            .iter()
            .map(|entry| &entry.values[..entry.ends[fields - 1]])
            .collect()
    };
    let scale = whole as f64 / sampled.max(1) as f64;
    let count = (entries.len() as f64 * scale).round() as u64;
    let distinct = (1..=index.fields.len())
        .map(|fields| {
            if index.unique && fields == index.fields.len() {
                count
            } else {
                count_distinct(prefix(fields), count)
            }
        })
        .collect();
    Ok(IndexStatistics {
        index: index.id,
        entries: count,
        distinct,
        first: summarise(prefix(1), sampled, whole),
    })
}

pub(super) fn relationships(
    store: &DataStore,
    type_id: TypeId,
    relationships: u64,
) -> Result<TypeStatistics, DataError> {
    let snapshot = store.engine().snapshot()?;
    let read: &dyn Read = &*snapshot;
    let RelSample { ends, contents } = sampled_relationships(store, read, type_id, relationships)?;
    let labels = labels(read, &ends)?;
    let (mut sources, mut targets, mut both) = <(
        FxHashMap<LabelId, u64>,
        FxHashMap<LabelId, u64>,
        FxHashMap<(LabelId, LabelId), u64>,
    )>::default();
    let none = Vec::new();
    for (source, target) in &ends {
        let (from, to) = (
            labels.get(source).unwrap_or(&none),
            labels.get(target).unwrap_or(&none),
        );
        from.iter()
            .for_each(|label| *sources.entry(*label).or_default() += 1);
        to.iter()
            .for_each(|label| *targets.entry(*label).or_default() += 1);
        for a in from {
            for b in to {
                *both.entry((*a, *b)).or_default() += 1;
            }
        }
    }
    let sampled = ends.len() as u64;
    let whole = relationships.max(sampled);
    Ok(TypeStatistics {
        version: read.version(),
        relationships,
        sampled,
        relabelled: 0,
        sources: scaled(sources, sampled, whole),
        targets: scaled(targets, sampled, whole),
        both: scaled(both, sampled, whole),
        indexes: indexes(
            store,
            type_id.into(),
            &contents.iter().collect::<Vec<_>>(),
            whole,
        )?,
    })
}

/// Relationships of a sample.
#[derive(Default)]
struct RelSample {
    ends: Vec<(NodeId, NodeId)>,
    /// Their properties, where an index reads them.
    contents: Vec<Map>,
}

/// Relationships of a type: all of them where they are few.
fn sampled_relationships(
    store: &DataStore,
    read: &dyn Read,
    type_id: TypeId,
    relationships: u64,
) -> Result<RelSample, DataError> {
    let extents = store.shared().relationships.of(type_id.0);
    let catalog = store.catalog();
    let reads_properties = sampled_indexes(store, &catalog, type_id.into())
        .next()
        .is_some();
    let mut found = RelSample::default();
    let mut take = |bytes: &[u8]| -> Result<(), DataError> {
        let record = RecordRef::new(bytes)?;
        if let Some((_, source, target)) = record.endpoints() {
            found.ends.push((source, target));
            if reads_properties {
                found.contents.push(record.properties(&*catalog.names)?);
            }
        }
        Ok(())
    };
    let key = |id: u64| keyspace::relationship(isomer_value::RelId(id));
    let mut page = Page::new();
    if relationships <= ALL_OF {
        for (first, length) in &extents {
            let mut rest = Some((key(*first), Some(key(first + length))));
            while let Some((start, end)) = rest.take() {
                let range = KeyRange {
                    start: &start,
                    end: end.as_deref(),
                };
                let limit = PageLimit {
                    keys: 4_096,
                    bytes: 1 << 20,
                };
                read.scan(range, Order::Ascending, limit, &mut page)?;
                for (_, value) in page.iter() {
                    take(value)?;
                }
                rest = page
                    .next()
                    .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
            }
        }
        return Ok(found);
    }
    let mut random = SplitMix64(u64::from(type_id.0) << 32 | 2);
    for _ in 0..SAMPLED_RECORDS / RUN_RECORDS {
        let place = random.within(&extents);
        let extent = extents
            .iter()
            .find(|(first, length)| (*first..first + length).contains(&place));
        let Some((first, length)) = extent else {
            break;
        };
        let (start, end) = (key(place), key(first + length));
        let range = KeyRange {
            start: &start,
            end: Some(&end),
        };
        read.scan(range, Order::Ascending, run(), &mut page)?;
        for (_, value) in page.iter() {
            take(value)?;
        }
    }
    Ok(found)
}

/// The labels of all ends, each node read once.
fn labels(
    read: &dyn Read,
    ends: &[(NodeId, NodeId)],
) -> Result<FxHashMap<NodeId, Vec<LabelId>>, DataError> {
    let mut nodes: Vec<NodeId> = ends.iter().flat_map(|(a, b)| [*a, *b]).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut labels = FxHashMap::default();
    for some in nodes.chunks(1_024) {
        let keys: Vec<Vec<u8>> = some.iter().map(|id| keyspace::node(*id)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for (node, bytes) in some.iter().zip(read.get_many(&keys)?) {
            if let Some(bytes) = bytes {
                let found = RecordRef::new(&bytes)?.labels().take(MAX_LABELS).collect();
                labels.insert(*node, found);
            }
        }
    }
    Ok(labels)
}

/// Scales numbers of a sample to all records, by key.
fn scaled<K: Ord>(counts: FxHashMap<K, u64>, sampled: u64, whole: u64) -> Vec<(K, u64)> {
    let scale = whole as f64 / sampled.max(1) as f64;
    let mut scaled: Vec<(K, u64)> = counts
        .into_iter()
        .map(|(key, count)| (key, (count as f64 * scale).round() as u64))
        .collect();
    scaled.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    scaled
}
