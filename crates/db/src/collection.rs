//! Documents by key: the nodes of one label, seen as a collection.

use std::ops::Bound;

use isomer_data::{ConvergentOwner, DataError, GraphRead};
use isomer_value::{Map, Value};
use serde::de::DeserializeOwned;

use crate::{Field, Result, Transaction, from_value};

/// The documents of one label: see [`Transaction::collection`]. A document is a node of that label with a `_key`, a
/// string or an integer that is unique in the label.
///
/// ```
/// use isomer_db::{Database, params};
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let mut users = tx.collection("User");
///     users.insert(&params! { "_key" => "ada", "name" => "Ada" })?;
///     users.patch("ada", &params! { "address" => params! { "city" => "London" } })?;
///     let key = users.insert(&params! { "name" => "somebody" })?; // a UUIDv7
///     assert!(users.remove(key)?);
///     let ada = users.get("ada")?.expect("it was inserted");
///     assert_eq!(ada.get("name"), Some(&"Ada".into()));
///     Ok::<_, isomer_db::Error>(())
/// })?;
/// # Ok::<(), isomer_db::Error>(())
/// ```
pub struct Collection<'t> {
    transaction: &'t mut Transaction,
    label: String,
}

impl<'t> Collection<'t> {
    pub(crate) fn new(transaction: &'t mut Transaction, label: &str) -> Self {
        Self {
            transaction,
            label: label.to_owned(),
        }
    }

    /// Inserts a document and returns its key: that under `_key`, or a new UUIDv7. `Exists` if the key is taken.
    pub fn insert(&mut self, document: &Map) -> Result<Value> {
        let label = &self.label;
        self.transaction
            .below(|data| data.insert_document(label, document))
    }

    /// The document under `key`.
    pub fn get(&mut self, key: impl Into<Value>) -> Result<Option<Map>> {
        let (label, key) = (&self.label, key.into());
        self.transaction
            .below(|data| data.get_document(label, &key))
    }

    /// The document under `key` as a Rust type.
    pub fn get_as<T: DeserializeOwned>(&mut self, key: impl Into<Value>) -> Result<Option<T>> {
        self.get(key)?
            .map(|document| from_value(&document.into()))
            .transpose()
    }

    /// Replaces the document under `key`. `NotFound` if there is none.
    pub fn replace(&mut self, key: impl Into<Value>, document: &Map) -> Result<()> {
        let (label, key) = (&self.label, key.into());
        self.transaction
            .below(|data| data.replace_document(label, &key, document))
    }

    /// The convergent field at `path` (one name, or names through maps) of the document under `key`. `NotFound` if there is
    /// none.
    pub fn field<'f>(&'f mut self, key: impl Into<Value>, path: &[&str]) -> Result<Field<'f>> {
        let (label, key) = (&self.label, key.into());
        let node = self.transaction.below(|data| {
            data.document_node(label, &key)?.ok_or_else(|| {
                DataError::NotFound(format!(
                    "{label} has no document with this _key: insert it first"
                ))
            })
        })?;
        Ok(self.transaction.field(ConvergentOwner::Node(node), path))
    }

    /// Merges `patch` into the document under `key`, nested maps too; a null removes a property. `NotFound` if there is
    /// none.
    pub fn patch(&mut self, key: impl Into<Value>, patch: &Map) -> Result<()> {
        let (label, key) = (&self.label, key.into());
        self.transaction
            .below(|data| data.patch_document(label, &key, patch))
    }

    /// Removes the document under `key`; false if there is none. `Invalid` if it has relationships: see
    /// [`Collection::remove_detached`].
    pub fn remove(&mut self, key: impl Into<Value>) -> Result<bool> {
        let (label, key) = (&self.label, key.into());
        self.transaction
            .below(|data| data.remove_document(label, &key, false))
    }

    /// Removes the document under `key` and its relationships; false if there is none.
    pub fn remove_detached(&mut self, key: impl Into<Value>) -> Result<bool> {
        let (label, key) = (&self.label, key.into());
        self.transaction
            .below(|data| data.remove_document(label, &key, true))
    }

    /// Documents in key order, within the given bounds, at most `limit`.
    ///
    /// ```
    /// use std::ops::Bound;
    /// # let db = isomer_db::Database::open_in_memory()?;
    /// db.query("UNWIND range(1, 9) AS n CREATE (:Day {_key: n})", ())?;
    /// let days = db.begin_read()?.collection("Day").scan(Bound::Included(3.into()), Bound::Excluded(6.into()), 100)?;
    /// assert_eq!(days.iter().map(|(key, _)| key.as_int().unwrap()).collect::<Vec<_>>(), [3, 4, 5]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn scan(
        &mut self,
        from: Bound<Value>,
        to: Bound<Value>,
        limit: usize,
    ) -> Result<Vec<(Value, Map)>> {
        let label = &self.label;
        self.transaction.below(|data| {
            let found = data.scan_documents(label, (from.as_ref(), to.as_ref()), limit)?;
            let ids: Vec<_> = found.iter().map(|(_, id)| *id).collect();
            let mut contents = Vec::with_capacity(ids.len());
            data.node_contents(&ids, &mut contents)?;
            let document = |content: Option<std::sync::Arc<isomer_value::NodeContent>>| {
                content
                    .map(|content| content.properties.clone())
                    .unwrap_or_default()
            };
            Ok(found
                .into_iter()
                .zip(contents)
                .map(|((key, _), content)| (key, document(content)))
                .collect())
        })
    }
}
