//! The index entries of a record, and their changes.

use isomer_value::{IndexId, Map, Value, key};

use crate::{
    DataError,
    catalog::{Catalog, schema::IndexDef},
    graph::state::{EntryOwner, RecordState},
    keyspace::{self, push_id},
    properties::{at_path, brief},
};

/// Longest encoded values of one entry in bytes.
const MAX_ENTRY_BYTES: usize = 4096;
/// Most entries of one record in one index.
const MAX_ENTRIES: usize = 10_000;

/// One entry of a record in an index, without the record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexEntry {
    /// The index.
    pub index: IndexId,
    /// The encoded values.
    pub values: Vec<u8>,
    /// The ends of the first one, two, … values.
    pub ends: Vec<usize>,
    /// Whether the index is unique.
    pub unique: bool,
}

impl IndexEntry {
    /// The stored key.
    pub fn key(&self, owner: EntryOwner) -> Vec<u8> {
        let mut key = self.prefix();
        push_id(&mut key, owner.number());
        key
    }

    /// The stored key without the record.
    pub fn prefix(&self) -> Vec<u8> {
        let mut key = keyspace::entries_of(self.index);
        key.extend_from_slice(&self.values);
        key
    }

    /// Its values for a message: `"a", 7`.
    pub fn brief(&self) -> String {
        brief_values(&self.values)
    }

    /// Fields and values for a message: `User.email = "a"`.
    pub fn described(&self, index: &IndexDef, catalog: &Catalog) -> String {
        let label = catalog.scope_name(index.scope).unwrap_or_default();
        let values = key::decode_all(&self.values).unwrap_or_default();
        let pairs = index.fields.iter().zip(&values);
        let pairs =
            pairs.map(|(field, value)| format!("{label}.{} = {}", field.path, brief(value)));
        pairs.collect::<Vec<_>>().join(" and ")
    }
}

/// Entries that are removed and added.
#[derive(Debug, Default)]
pub struct EntryChanges {
    /// Entries that the record loses.
    pub removed: Vec<IndexEntry>,
    /// Entries that it gets.
    pub added: Vec<IndexEntry>,
}

impl EntryChanges {
    /// The entries of these indexes that a change from `old` to `new` changes.
    pub fn between(
        indexes: &[IndexDef],
        old: Option<&impl RecordState>,
        new: Option<&impl RecordState>,
    ) -> Result<Self, DataError> {
        fn entries(
            index: &IndexDef,
            state: Option<&impl RecordState>,
        ) -> Result<Vec<IndexEntry>, DataError> {
            match state {
                Some(state) if state.is_in(index.scope) => entries_of(index, state.properties()),
                _ => Ok(Vec::new()),
            }
        }
        let mut changes = Self::default();
        for index in indexes {
            changes.extend(Self::from_sorted(
                &entries(index, old)?,
                entries(index, new)?,
            ));
        }
        Ok(changes)
    }

    /// The difference between the entries of an index, both ascending.
    pub fn from_sorted(before: &[IndexEntry], after: Vec<IndexEntry>) -> Self {
        let removed = before
            .iter()
            .filter(|entry| after.binary_search(entry).is_err())
            .cloned()
            .collect();
        let added = after
            .into_iter()
            .filter(|entry| before.binary_search(entry).is_err())
            .collect();
        Self { removed, added }
    }

    /// Adds the changes of `other`.
    pub fn extend(&mut self, other: Self) {
        self.removed.extend(other.removed);
        self.added.extend(other.added);
    }
}

/// The entries of a record with these properties, which the index is about: ascending, distinct.
pub fn entries_of(index: &IndexDef, properties: &Map) -> Result<Vec<IndexEntry>, DataError> {
    entries_within(index, properties, MAX_ENTRIES)
}

/// As [`entries_of`], with another limit for the entries of a record.
pub fn entries_within(
    index: &IndexDef,
    properties: &Map,
    most: usize,
) -> Result<Vec<IndexEntry>, DataError> {
    let seed = IndexEntry {
        index: index.id,
        values: Vec::new(),
        ends: Vec::new(),
        unique: index.unique,
    };
    let mut entries = vec![seed];
    for field in &index.fields {
        let Some(value) = at_path(properties, &field.path) else {
            return Ok(Vec::new());
        };
        let values = match value {
            Value::List(items) if field.each => {
                items.iter().filter(|item| !item.is_null()).collect()
            }
            value => vec![value],
        };
        let mut encoded = values
            .into_iter()
            .map(key::encode)
            .collect::<Result<Vec<_>, _>>()?;
        encoded.sort_unstable();
        encoded.dedup();
        if entries.len() * encoded.len() > most {
            return Err(DataError::Limit {
                what: format!("the entries of one record in index {}", index.name),
                size: (entries.len() * encoded.len()).to_string(),
                max: most.to_string(),
                advice: "index fewer list elements, or store them as separate nodes",
            });
        }
        entries = entries
            .iter()
            .flat_map(|entry| {
                encoded.iter().map(move |value| {
                    let mut entry = entry.clone();
                    entry.values.extend_from_slice(value);
                    entry.ends.push(entry.values.len());
                    entry
                })
            })
            .collect();
    }
    for entry in &entries {
        if entry.values.len() > MAX_ENTRY_BYTES {
            return Err(DataError::Limit {
                what: format!("a value in index {}", index.name),
                size: format!("{} bytes", entry.values.len()),
                max: format!("{MAX_ENTRY_BYTES} bytes"),
                advice: "shorten the value, or drop the index",
            });
        }
    }
    entries.sort_unstable();
    Ok(entries)
}

/// Encoded values in a message.
pub fn brief_values(values: &[u8]) -> String {
    match key::decode_all(values) {
        Ok(values) => values.iter().map(brief).collect::<Vec<_>>().join(", "),
        Err(_) => "a value".into(),
    }
}
