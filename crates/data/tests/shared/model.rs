//! What a database holds, as a process reads it, and as it should be.

use std::collections::{BTreeMap, BTreeSet};

use isomer_data::{
    Access, ConvergentOwner, DataStore, Direction, Expiry, GraphRead, IndexCursor, IndexSeek,
    Neighbours, Order,
};
use isomer_value::{Map, Value};

/// Collections of documents.
pub const COLLECTIONS: [&str; 3] = ["Person", "City", "Book"];
/// Types of relationships.
pub const TYPES: [&str; 2] = ["KNOWS", "LIKES"];
/// The collection of the nodes with convergent fields.
pub const COUNTED: &str = "Counted";

/// Documents, by collection and key.
pub type Documents = BTreeMap<(String, i64), BTreeMap<String, Value>>;

/// A document, by collection and key.
pub type DocumentKey = (String, i64);

/// The pairs of a bucket with one value a key: the value, and when it expires.
pub type BucketPairs = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// The pairs of a bucket with several values a key.
pub type MultiPairs = BTreeSet<(Vec<u8>, Vec<u8>)>;

/// The content of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    pub documents: Documents,
    /// Relationships: type, and the documents at the ends, with how many there are.
    pub links: BTreeMap<(String, DocumentKey, DocumentKey), u64>,
    /// Buckets with one value a key: the value, and when it expires.
    pub buckets: BTreeMap<String, BucketPairs>,
    /// Buckets with several values a key.
    pub multis: BTreeMap<String, MultiPairs>,
    /// Gapless sequences.
    pub sequences: BTreeMap<(String, String), u64>,
    /// Counters and sets, by the key of their node.
    pub counters: BTreeMap<i64, i64>,
    pub sets: BTreeMap<i64, BTreeSet<i64>>,
    pub indexes: BTreeSet<String>,
    pub constraints: BTreeSet<String>,
    pub keepers: BTreeSet<String>,
}

/// The plain properties of a document.
pub fn plain(document: &Map) -> BTreeMap<String, Value> {
    let pairs = document.iter().filter(|(name, _)| ***name != *"_key");
    pairs
        .map(|(name, value)| (name.to_string(), value.clone()))
        .collect()
}

impl Content {
    /// Without what has expired, which a sweep may have deleted or not.
    pub fn at(mut self, now_ms: u64) -> Self {
        for bucket in self.buckets.values_mut() {
            bucket.retain(|_, (_, expires)| expires.is_none_or(|expires| expires > now_ms));
        }
        self
    }

    /// Reads everything through `store`, in each way that there is: they agree.
    pub fn read(store: &DataStore, expected: &Self) -> Self {
        let tx = store.begin(Access::Read).expect("begun");
        let mut read = Self::default();
        for collection in COLLECTIONS {
            let label = tx.name_ids().find_label(collection);
            let keys: Vec<i64> = match label {
                None => Vec::new(),
                Some(label) => {
                    let mut nodes = Vec::new();
                    tx.scan_nodes(Some(label), None, usize::MAX, &mut nodes)
                        .expect("scanned");
                    let count = tx.exact_node_count(Some(label)).expect("counted");
                    assert_eq!(count, nodes.len() as u64, "{collection}");
                    let prop = tx.name_ids().find_prop("_key").expect("each node has one");
                    let mut columns = [Vec::new()];
                    tx.node_properties(&nodes, &[prop], &mut columns)
                        .expect("read");
                    columns[0].iter().filter_map(Value::as_int).collect()
                }
            };
            for key in keys {
                let found = tx.documents().get(collection, &Value::Int(key));
                let document = found.expect("read").expect("its label has it");
                read.documents
                    .insert((collection.to_owned(), key), plain(&document));
            }
        }
        read.read_links(&tx);
        read.read_buckets(&tx);
        for (bucket, sequence) in expected.sequences.keys() {
            let last = tx.kv().sequence_last(bucket, sequence).expect("read");
            read.sequences
                .insert((bucket.clone(), sequence.clone()), last);
        }
        for key in expected.counters.keys() {
            let node = tx.documents().node(COUNTED, &Value::Int(*key));
            let owner = ConvergentOwner::Node(node.expect("read").expect("it is never deleted"));
            let value = |name| tx.fields().value(owner, &[name]).expect("read");
            let count = value("count").and_then(|count| count.as_int());
            read.counters.insert(*key, count.unwrap_or(0));
            let elements = match value("tags") {
                Some(Value::List(elements)) => elements.iter().filter_map(Value::as_int).collect(),
                _ => BTreeSet::new(),
            };
            read.sets.insert(*key, elements);
        }
        let catalog = tx.catalog();
        let indexes = catalog.indexes().iter();
        read.indexes = indexes.map(|index| index.name.to_string()).collect();
        let constraints = catalog.constraints().iter();
        read.constraints = constraints.map(|one| one.name.to_string()).collect();
        let keepers = store.endpoint_keepers().into_iter();
        read.keepers = keepers.map(|one| one.rel_type.to_string()).collect();
        read.check_indexes(&tx);
        read
    }

    fn read_links(&mut self, tx: &isomer_data::Transaction) {
        for rel_type in TYPES {
            let Some(type_id) = tx.name_ids().find_type(rel_type) else {
                continue;
            };
            for (collection, key) in self.documents.keys().cloned().collect::<Vec<_>>() {
                let node = tx.documents().node(&collection, &Value::Int(key));
                let node = node.expect("read").expect("it was just read");
                let mut out = Neighbours::new();
                tx.expand(&[node], Direction::Outgoing, &[type_id], &mut out)
                    .expect("read");
                for row in out.rows() {
                    let mut contents = Vec::new();
                    tx.node_contents(&[row.target], &mut contents)
                        .expect("read");
                    let other = contents[0].as_ref().expect("both ends exist");
                    let other_key = other.properties.get("_key").and_then(Value::as_int);
                    let other = (other.labels[0].to_string(), other_key.expect("a key"));
                    let link = (rel_type.to_owned(), (collection.clone(), key), other);
                    *self.links.entry(link).or_default() += 1;
                }
            }
            let count = self.links.iter().filter(|((of, ..), _)| of == rel_type);
            let count: u64 = count.map(|(_, count)| count).sum();
            let counted = tx.exact_relationship_count(Some(type_id)).expect("counted");
            assert_eq!(counted, count, "{rel_type}");
        }
    }

    fn read_buckets(&mut self, tx: &isomer_data::Transaction) {
        for (name, options) in tx.kv().list_buckets().expect("listed") {
            assert_eq!(
                tx.kv().bucket_options(&name).expect("read"),
                Some(options),
                "{name}"
            );
            if options.kind == isomer_data::BucketKind::Multi {
                let pairs = self.multis.entry(name.to_string()).or_default();
                for key in 0..8_u8 {
                    let values = tx.kv().values(&name, &[key], None, usize::MAX);
                    let values = values.expect("read").into_iter();
                    pairs.extend(values.map(|value| (vec![key], value)));
                }
                continue;
            }
            let entries = self.buckets.entry(name.to_string()).or_default();
            for key in 0..8_u8 {
                let Some(value) = tx.kv().get(&name, &[key]).expect("read") else {
                    continue;
                };
                if options.reversible {
                    let keys = tx.kv().keys_of(&name, &value, None, usize::MAX);
                    assert!(keys.expect("read").contains(&vec![key]));
                }
                let expires = match tx.kv().expiry(&name, &[key]).expect("read") {
                    Some(Expiry::At(at)) => Some(at),
                    _ => None,
                };
                entries.insert(vec![key], (value, expires));
            }
        }
    }

    /// Each usable index finds as many nodes as have a value.
    fn check_indexes(&self, tx: &isomer_data::Transaction) {
        let catalog = tx.catalog();
        for index in catalog.indexes() {
            let label = catalog.scope_name(index.scope).expect("a name");
            if catalog
                .usable_indexes(index.scope)
                .all(|one| one.id != index.id)
                || !COLLECTIONS.contains(&&*label)
            {
                continue;
            }
            let seek = IndexSeek {
                index: index.id,
                prefix: &[],
                range: (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
                order: Order::Ascending,
            };
            let (mut cursor, mut found) = (IndexCursor::default(), Vec::new());
            while !cursor.is_done() {
                tx.index_seek(&seek, &mut cursor, 100, &mut found)
                    .expect("read");
            }
            let field = &index.fields[0].path.0[0];
            let with = self.documents.iter().filter(|((collection, _), values)| {
                **collection == *label && values.contains_key(&**field)
            });
            assert_eq!(found.len(), with.count(), "{}", index.name);
        }
    }
}
