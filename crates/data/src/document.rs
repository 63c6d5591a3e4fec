//! Documents: nodes of a label (the collection) found by their `_key`.

use std::ops::Bound;

use isomer_layout::{
    DataError,
    convergent::position::ConvergentOwner,
    graph::{key::encode_key, state::KEY},
    keyspace::{self, after_prefix, sole_id},
    properties::{brief, merge_deep, without_nulls},
};
use isomer_value::{LabelId, Map, NodeId, Value, key};
use uuid::Uuid;

use crate::{Access, Transaction, footprint::Space, index::value_range};

/// A generated key: a UUIDv7 as text, greater than those generated before on this machine.
pub fn new_key() -> Value {
    Value::String(Uuid::now_v7().hyphenated().to_string().into())
}

/// Documents as one transaction sees them, by collection and `_key`. A lookup reads the key and the record.
#[derive(Clone, Copy)]
pub struct Collections<'t> {
    pub(crate) tx: &'t Transaction,
}

/// Inserts, changes and removes documents. Each is the change of one node; see [`crate::GraphMut`].
pub struct CollectionsMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// Reads of documents.
    pub fn documents(&self) -> Collections<'_> {
        Collections { tx: self }
    }

    /// Changes of documents.
    pub fn documents_mut(&mut self) -> CollectionsMut<'_> {
        CollectionsMut { tx: self }
    }
}

impl CollectionsMut<'_> {
    /// Inserts a document: a node of the label `collection` with a `_key`, generated (UUIDv7) where `document` does not
    /// contain one. Returns its key.
    ///
    /// # Errors
    /// [`DataError::KeyExists`] if the key is taken.
    pub fn insert(&mut self, collection: &str, document: &Map) -> Result<Value, DataError> {
        let label = self.tx.name_ids().intern_label(collection)?;
        let mut document = without_nulls(document);
        let key = match document.get(KEY) {
            Some(key) => key.clone(),
            None => {
                let key = new_key();
                document.insert(KEY, key.clone());
                key
            }
        };
        self.tx.graph_mut().insert_node(&[label], document)?;
        Ok(key)
    }

    /// Replaces the document under `key`, which must exist; the key stays.
    ///
    /// # Errors
    /// [`DataError::NotFound`] if there is none, [`DataError::Invalid`] if `document` has another `_key`.
    pub fn replace(
        &mut self,
        collection: &str,
        key: &Value,
        document: &Map,
    ) -> Result<(), DataError> {
        let id = self.tx.documents().existing(collection, key)?;
        let mut document = without_nulls(document);
        keep_key(&document, key)?;
        self.tx.graph_mut().update_node(id, |state| {
            if let Some(own) = state.properties.get(KEY) {
                document.insert(KEY, own.clone());
            }
            state.properties = document;
            Ok(())
        })
    }

    /// Merges `patch` into the document under `key`, nested maps too; nulls remove.
    ///
    /// # Errors
    /// As [`CollectionsMut::replace`].
    pub fn patch(&mut self, collection: &str, key: &Value, patch: &Map) -> Result<(), DataError> {
        let id = self.tx.documents().existing(collection, key)?;
        keep_key(patch, key)?;
        for (name, _) in patch.iter().filter(|(_, value)| value.is_null()) {
            self.tx.fields_mut().route_to_convergent_field(
                ConvergentOwner::Node(id),
                &[name],
                &Value::Null,
            )?;
        }
        self.tx
            .graph_mut()
            .update_node(id, |state| merge_deep(&mut state.properties, patch))
    }

    /// Removes the document under `key`; returns whether it existed. Refused while it has relationships, unless
    /// `detach`.
    pub fn remove(
        &mut self,
        collection: &str,
        key: &Value,
        detach: bool,
    ) -> Result<bool, DataError> {
        self.tx.check_writable()?;
        match self.tx.documents().node(collection, key)? {
            Some(id) => self.tx.graph_mut().delete_node(id, detach).map(|_| true),
            None => Ok(false),
        }
    }
}

impl Collections<'_> {
    /// The document under `key`.
    pub fn get(self, collection: &str, key: &Value) -> Result<Option<Map>, DataError> {
        match self.node(collection, key)? {
            Some(id) => {
                let Some(mut state) = self.tx.graph().load_node(id)? else {
                    return Ok(None);
                };
                self.tx
                    .fields()
                    .overlay_map(ConvergentOwner::Node(id), &mut state.properties)?;
                Ok(Some(state.properties))
            }
            None => Ok(None),
        }
    }

    /// Whether there is a document under `key`.
    pub fn exists(self, collection: &str, key: &Value) -> Result<bool, DataError> {
        Ok(self.node(collection, key)?.is_some())
    }

    /// The node that is the document under `key`.
    pub fn node(self, collection: &str, key: &Value) -> Result<Option<NodeId>, DataError> {
        match self.collection(collection)? {
            Some(label) => self.tx.graph().find_key(label, key),
            None => Ok(None),
        }
    }

    /// Documents in the order of their keys (integers after strings), from the bounds given, at most `limit`. A bound
    /// of one kind reaches the end of that kind only.
    pub fn scan(
        self,
        collection: &str,
        range: (Bound<&Value>, Bound<&Value>),
        limit: usize,
    ) -> Result<Vec<(Value, NodeId)>, DataError> {
        let Some(label) = self.collection(collection)? else {
            return Ok(Vec::new());
        };
        let base = keyspace::keys_of(label);
        let (start, end) = match range {
            (Bound::Unbounded, Bound::Unbounded) => (Vec::new(), None),
            range => match value_range(&[], range)? {
                Some((start, end)) => (start, Some(end)),
                None => return Ok(Vec::new()),
            },
        };
        self.tx
            .footprint()
            .read_range(Space::Keys(label.0), &start, end.as_deref());
        let stored_end = match &end {
            Some(end) => Some([&base[..], end].concat()),
            None => after_prefix(&base),
        };
        let mut found = Vec::new();
        self.tx.raw().each_pair(
            &[&base[..], &start].concat(),
            stored_end.as_deref(),
            limit,
            |key, value| {
                let node = NodeId(sole_id(value, "the node under a key")?);
                found.push((key::decode(&key[base.len()..])?, node));
                Ok(())
            },
        )?;
        Ok(found)
    }

    /// The collection's label. A transaction that writes adds a new name: if it only observed that the name is absent,
    /// its own insert would conflict with that observation.
    fn collection(self, name: &str) -> Result<Option<LabelId>, DataError> {
        match self.tx.access() {
            Access::Read => Ok(self.tx.name_ids().find_label(name)),
            Access::Write => self.tx.name_ids().intern_label(name).map(Some),
        }
    }

    fn existing(self, collection: &str, key: &Value) -> Result<NodeId, DataError> {
        self.tx.check_writable()?;
        self.node(collection, key)?.ok_or_else(|| {
            DataError::NotFound(format!(
                "{collection} has no document with _key {}",
                brief(key)
            ))
        })
    }
}

/// Refuses a document that would change its key.
fn keep_key(document: &Map, key: &Value) -> Result<(), DataError> {
    match document.get(KEY) {
        Some(own) if encode_key(own)? != encode_key(key)? => Err(DataError::invalid(format!(
            "_key is {} in the document and {} in the call: a document keeps its key, insert another one instead",
            brief(own),
            brief(key)
        ))),
        _ => Ok(()),
    }
}
