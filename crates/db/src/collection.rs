//! Documents by key: the nodes of one label, seen as a collection.

use std::ops::Deref;

use isomer_data::{ConvergentOwner, DataError};
use isomer_value::{Map, NodeId, Value};
use serde_core::{Serialize, de::DeserializeOwned};

use crate::{
    Documents, Field, KeyBounds, ReadField, ReadTransaction, Result, WriteTransaction, from_value,
    ser::to_shared_map,
};

impl ReadTransaction {
    /// The documents of a label.
    pub fn collection(&self, label: &str) -> ReadCollection<'_> {
        ReadCollection::new(self, label)
    }
}

impl WriteTransaction {
    /// The documents of a label: insert, get, replace, patch, remove, by key.
    pub fn collection(&self, label: &str) -> Collection<'_> {
        Collection::new(self, label)
    }
}

/// The documents of one label in a transaction that reads: see [`ReadTransaction::collection`]. A document is a node of
/// that label with a `_key`, a string or an integer that is unique in the label.
pub struct ReadCollection<'t> {
    transaction: &'t ReadTransaction,
    label: String,
}

/// The documents of one label: see [`WriteTransaction::collection`]. A document is a node of that label with a `_key`,
/// a string or an integer that is unique in the label. All methods of [`ReadCollection`] are available.
///
/// Documents are written as anything that serde can serialise to a map, such as a structure or a [`Map`].
///
/// ```
/// use isomerdb::{Database, params};
///
/// #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
/// struct User { _key: String, name: String }
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let users = tx.collection("User");
///     users.insert(&User { _key: "ada".into(), name: "Ada".into() })?;
///     users.patch("ada", &params! { "address" => params! { "city" => "London" } })?;
///     let key = users.insert(&params! { "name" => "somebody" })?; // a UUIDv7
///     assert!(users.remove(key)?);
///     let ada: User = users.get_as("ada")?.expect("it was inserted");
///     assert_eq!(ada.name, "Ada");
///     Ok(())
/// })?;
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub struct Collection<'t> {
    read: ReadCollection<'t>,
}

impl<'t> Deref for Collection<'t> {
    type Target = ReadCollection<'t>;

    fn deref(&self) -> &ReadCollection<'t> {
        &self.read
    }
}

impl<'t> ReadCollection<'t> {
    pub(crate) fn new(transaction: &'t ReadTransaction, label: &str) -> Self {
        Self {
            transaction,
            label: label.to_owned(),
        }
    }

    /// The document under `key`.
    pub fn get(&self, key: impl Into<Value>) -> Result<Option<Map>> {
        let (label, key) = (&self.label, key.into());
        self.transaction
            .reading(|data| data.documents().get(label, &key))
    }

    /// The document under `key` as a Rust type.
    pub fn get_as<T: DeserializeOwned>(&self, key: impl Into<Value>) -> Result<Option<T>> {
        self.get(key)?
            .map(|document| from_value(&document.into()))
            .transpose()
    }

    /// The convergent field at `path` (one name, or names through maps) of the document under `key`. `NotFound` if
    /// there is none.
    pub fn field(&self, key: impl Into<Value>, path: &[&str]) -> Result<ReadField<'t>> {
        let node = self.node(&key.into())?;
        Ok(self.transaction.field(ConvergentOwner::Node(node), path))
    }

    fn node(&self, key: &Value) -> Result<NodeId> {
        let label = &self.label;
        self.transaction.reading(|data| {
            data.documents().node(label, key)?.ok_or_else(|| {
                DataError::NotFound(format!(
                    "{label} has no document with this _key: insert it first"
                ))
            })
        })
    }

    /// The documents with keys in `range`, in key order, integers after strings. A bound that is a string excludes all
    /// integers, and the reverse.
    ///
    /// ```
    /// # let db = isomerdb::Database::open_in_memory()?;
    /// db.query("UNWIND range(1, 9) AS n CREATE (:Day {_key: n})")?;
    /// let tx = db.begin_read()?;
    /// let mut days = Vec::new();
    /// for day in tx.collection("Day").scan(3..6) {
    ///     days.push(day?.0.as_int().unwrap());
    /// }
    /// assert_eq!(days, [3, 4, 5]);
    /// assert_eq!(tx.collection("Day").scan(..).count(), 9);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn scan<R: KeyBounds<Key: Into<Value>>>(&self, range: R) -> Documents<'t> {
        let (from, to) = range.into_bounds();
        let range = (from.map(Into::into), to.map(Into::into));
        Documents::new(self.transaction, &self.label, range)
    }
}

impl<'t> Collection<'t> {
    pub(crate) fn new(transaction: &'t WriteTransaction, label: &str) -> Self {
        Self {
            read: ReadCollection::new(transaction, label),
        }
    }

    /// Inserts a document and returns its key: that under `_key`, or a new UUIDv7. `Exists` if the key is taken.
    pub fn insert<T: Serialize + ?Sized>(&self, document: &T) -> Result<Value> {
        let document = to_shared_map(document)?;
        self.write(|data, label| data.documents_mut().insert(label, &document))
    }

    /// Replaces the document under `key`. `NotFound` if there is none.
    pub fn replace<T: Serialize + ?Sized>(
        &self,
        key: impl Into<Value>,
        document: &T,
    ) -> Result<()> {
        let (key, document) = (key.into(), to_shared_map(document)?);
        self.write(|data, label| data.documents_mut().replace(label, &key, &document))
    }

    /// Merges `patch` into the document under `key`, nested maps too; a null removes a property. `NotFound` if there is
    /// none.
    pub fn patch<T: Serialize + ?Sized>(&self, key: impl Into<Value>, patch: &T) -> Result<()> {
        let (key, patch) = (key.into(), to_shared_map(patch)?);
        self.write(|data, label| data.documents_mut().patch(label, &key, &patch))
    }

    /// Removes the document under `key`; false if there is none. `Invalid` if it has relationships: see
    /// [`Collection::remove_detached`].
    pub fn remove(&self, key: impl Into<Value>) -> Result<bool> {
        let key = key.into();
        self.write(|data, label| data.documents_mut().remove(label, &key, false))
    }

    /// Removes the document under `key` and its relationships; false if there is none.
    pub fn remove_detached(&self, key: impl Into<Value>) -> Result<bool> {
        let key = key.into();
        self.write(|data, label| data.documents_mut().remove(label, &key, true))
    }

    /// The convergent field at `path` (one name, or names through maps) of the document under `key`. `NotFound` if
    /// there is none.
    pub fn field(&self, key: impl Into<Value>, path: &[&str]) -> Result<Field<'t>> {
        let node = self.read.node(&key.into())?;
        let owner = ConvergentOwner::Node(node);
        Ok(Field::new(self.read.transaction.field(owner, path)))
    }

    fn write<T>(
        &self,
        write: impl FnOnce(&mut isomer_data::Transaction, &str) -> Result<T, DataError>,
    ) -> Result<T> {
        let ReadCollection { transaction, label } = &self.read;
        transaction.writing(|data| write(data, label))
    }
}
