//! Buckets: ordered keys and values.

use std::ops::{ControlFlow, Deref};

use isomer_data::{BucketCursor, BucketOptions, DataError, Expiry, Order};
use isomer_value::Value;

use crate::{
    Cursor, Items, KeyBounds, Pairs, ReadTransaction, Result, WriteTransaction, bounds::ByteRange,
};

impl ReadTransaction {
    /// A bucket of keys and values.
    pub fn bucket(&self, name: &str) -> ReadBucket<'_> {
        ReadBucket::new(self, name)
    }
}

impl WriteTransaction {
    /// A bucket of keys and values.
    pub fn bucket(&self, name: &str) -> Bucket<'_> {
        Bucket::new(self, name)
    }
}

/// A bucket of keys and values in a transaction that reads: see [`ReadTransaction::bucket`]. Keys are bytes, ordered as
/// bytes.
pub struct ReadBucket<'t> {
    transaction: &'t ReadTransaction,
    name: String,
}

/// A bucket of keys and values: see [`WriteTransaction::bucket`]. Keys are bytes, ordered as bytes; values are of any
/// type that can be stored. The first write creates the bucket. All methods of [`ReadBucket`] are available.
///
/// ```
/// use isomerdb::{Database, Expiry, Value};
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let sessions = tx.bucket("sessions");
///     sessions.put("s-1", "ada")?;
///     sessions.put_until("s-2", "bob", Expiry::After(60_000))?;
///     assert_eq!(sessions.get("s-1")?, Some(Value::from("ada")));
///     assert_eq!(sessions.prefix("s-").count(), 2);
///     sessions.delete("s-2")?;
///     assert_eq!(sessions.get("s-2")?, None);
///     Ok(())
/// })?;
/// // The language sees the same keys.
/// assert_eq!(db.query("RETURN kv.get('sessions', 's-1') AS who")?.single()?.get::<String>("who")?, "ada");
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub struct Bucket<'t> {
    read: ReadBucket<'t>,
    /// Whether it can be written although it is reserved.
    is_open: bool,
}

impl<'t> Deref for Bucket<'t> {
    type Target = ReadBucket<'t>;

    fn deref(&self) -> &ReadBucket<'t> {
        &self.read
    }
}

impl<'t> ReadBucket<'t> {
    pub(crate) fn new(transaction: &'t ReadTransaction, name: &str) -> Self {
        Self {
            transaction,
            name: name.to_owned(),
        }
    }

    /// Its options; none if there is no such bucket.
    pub fn options(&self) -> Result<Option<BucketOptions>> {
        self.read(|data, name| data.kv().bucket_options(name))
    }

    /// The value under `key`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = Value::Bytes(key.as_ref().into());
        let value = self.read(|data, name| data.kv().get_value(name, &key))?;
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    /// The bytes under `key`, of any type: those of [`Bucket::put_bytes`], or of a text.
    pub fn get_bytes(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(|data, name| data.kv().get(name, key.as_ref()))
    }

    /// The values under `keys`, in their order, in one batch.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let found = db.transact(|tx| {
    ///     let ages = tx.bucket("ages");
    ///     ages.put("ada", 36)?;
    ///     ages.put("bob", 17)?;
    ///     ages.get_many(&["bob", "carl", "ada"])
    /// })?;
    /// assert_eq!(found, [Some(17.into()), None, Some(36.into())]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn get_many(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let values = self.read(|data, name| data.kv().get_many_values(name, &keys))?;
        Ok(values
            .into_iter()
            .map(|value| Some(value).filter(|value| !value.is_null()))
            .collect())
    }

    /// The bytes under `keys`, in their order, in one batch: like [`ReadBucket::get_bytes`] of each, but faster for
    /// many keys.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let found = db.transact(|tx| {
    ///     let names = tx.bucket("names");
    ///     names.put_bytes("user:1", "Ada")?;
    ///     names.get_many_bytes(&["user:2", "user:1"])
    /// })?;
    /// assert_eq!(found, [None, Some(b"Ada".to_vec())]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn get_many_bytes(&self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.read(|data, name| data.kv().get_many(name, &keys))
    }

    /// Like [`ReadBucket::get_many_bytes`], but calls `visit` with the index of each key that has a value, and with the
    /// value borrowed in place. If this fails, it may have been called for some keys.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let mut bytes = [0; 2];
    /// db.transact(|tx| {
    ///     let names = tx.bucket("names");
    ///     names.put_bytes("user:1", "Ada")?;
    ///     names.visit_many(&["user:2", "user:1"], |at, name| bytes[at] = name.len())
    /// })?;
    /// assert_eq!(bytes, [0, 3]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn visit_many(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut visit: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.read(|data, name| data.kv().visit_many(name, &keys, &mut visit))
    }

    /// A cursor over all pairs, before the first of them.
    pub fn cursor(&self) -> Cursor {
        self.cursor_range(..)
    }

    /// A cursor over the keys in `range`, before the first of them.
    pub fn cursor_range<R: KeyBounds<Key: AsRef<[u8]>>>(&self, range: R) -> Cursor {
        let bounds = range.into_bounds();
        let keys = ByteRange::new(&bounds);
        Cursor::new(BucketCursor::new(
            &self.name,
            &keys.start,
            keys.end.as_deref(),
        ))
    }

    /// A cursor over the keys that begin with `prefix`, before the first of them.
    pub fn cursor_prefix(&self, prefix: impl AsRef<[u8]>) -> Cursor {
        Cursor::new(BucketCursor::over_prefix(&self.name, prefix.as_ref()))
    }

    /// The pairs with keys in `range`, ascending; `.rev()` iterates in descending order.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let newest = db.transact(|tx| {
    ///     let log = tx.bucket("log");
    ///     (1..=9).try_for_each(|day: u8| log.put([day], i64::from(day)))?;
    ///     log.range([1]..[6]).rev().take(2).collect::<isomerdb::Result<Vec<_>>>()
    /// })?;
    /// assert_eq!(newest, [(vec![5], 5.into()), (vec![4], 4.into())]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn range<R: KeyBounds<Key: AsRef<[u8]>>>(&self, range: R) -> Pairs<'t> {
        let bounds = range.into_bounds();
        Pairs::new(self.transaction, &self.name, &ByteRange::new(&bounds))
    }

    /// The pairs whose keys begin with `prefix`, ascending; `.rev()` iterates in descending order.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Pairs<'t> {
        Pairs::new(
            self.transaction,
            &self.name,
            &ByteRange::prefix(prefix.as_ref()),
        )
    }

    /// Visits the pairs with keys in `range`, in either order, as bytes in place, until `visit` returns false. Nothing
    /// is buffered. `visit` may read through the transaction; its writes and queries are refused (`Invalid`).
    ///
    /// ```
    /// use isomerdb::{Database, Order};
    ///
    /// let db = Database::open_in_memory()?;
    /// let bytes = db.transact(|tx| {
    ///     let notes = tx.bucket("notes");
    ///     notes.put("a", "one")?;
    ///     notes.put("b", "three")?;
    ///     let mut bytes = 0;
    ///     notes.visit(.., Order::Ascending, |_, value| {
    ///         bytes += value.len();
    ///         true
    ///     })?;
    ///     Ok(bytes)
    /// })?;
    /// assert_eq!(bytes, 8);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn visit<R: KeyBounds<Key: AsRef<[u8]>>>(
        &self,
        range: R,
        order: Order,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let bounds = range.into_bounds();
        let keys = ByteRange::new(&bounds);
        self.read(|data, name| {
            data.kv().each(name, keys.keys(), order, &mut |key, value| {
                if visit(key, value) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        })
    }

    /// The keys with the value `value`, ascending. `Invalid` if the bucket is not reversible.
    pub fn keys_of(&self, value: impl AsRef<[u8]>) -> Items<'t, Vec<u8>> {
        let (transaction, name, value) =
            (self.transaction, self.name.clone(), value.as_ref().to_vec());
        Items::new(move |after: Option<&Vec<u8>>, limit| {
            let after = after.map(Vec::as_slice);
            transaction.reading(|data| data.kv().keys_of(&name, &value, after, limit))
        })
    }

    /// Whether `value` is one of the values of `key`, in a bucket with several values per key.
    pub fn has(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.read(|data, name| data.kv().has(name, key.as_ref(), value.as_ref()))
    }

    /// The number of values of `key`, in a bucket with several values per key.
    pub fn count(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.read(|data, name| data.kv().count(name, key.as_ref()))
    }

    /// The values of `key` in a bucket with several values per key, ascending.
    pub fn values(&self, key: impl AsRef<[u8]>) -> Items<'t, Vec<u8>> {
        let (transaction, name, key) = (self.transaction, self.name.clone(), key.as_ref().to_vec());
        Items::new(move |after: Option<&Vec<u8>>, limit| {
            let after = after.map(Vec::as_slice);
            transaction.reading(|data| data.kv().values(&name, &key, after, limit))
        })
    }

    /// The last number issued by a gapless sequence; 0 if there was none.
    pub fn last_number(&self, sequence: &str) -> Result<u64> {
        self.read(|data, name| data.kv().sequence_last(name, sequence))
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&isomer_data::Transaction, &str) -> Result<T, DataError>,
    ) -> Result<T> {
        self.transaction.reading(|data| read(data, &self.name))
    }

    /// Writes, for the handles of transactions that may; `is_open` if it can be written although it is reserved.
    pub(crate) fn write<T>(
        &self,
        is_open: bool,
        write: impl FnOnce(&mut isomer_data::Transaction, &str) -> Result<T, DataError>,
    ) -> Result<T> {
        let reserved = self.transaction.db.reserved();
        self.transaction.writing(|data| {
            data.kv_mut().reserve_buckets(reserved.filter(|_| !is_open));
            let result = write(data, &self.name);
            data.kv_mut().reserve_buckets(reserved);
            result
        })
    }
}

impl<'t> Bucket<'t> {
    pub(crate) fn new(transaction: &'t WriteTransaction, name: &str) -> Self {
        Self {
            read: ReadBucket::new(transaction, name),
            is_open: false,
        }
    }

    pub(crate) fn reserved(transaction: &'t WriteTransaction, name: &str) -> Self {
        Self {
            is_open: true,
            ..Self::new(transaction, name)
        }
    }

    /// Creates the bucket with options: several values per key, or reversible (the keys of a value can be looked up).
    /// `Exists` if it exists.
    ///
    /// ```
    /// use isomerdb::{BucketOptions, Database};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.transact(|tx| {
    ///     let emails = tx.bucket("emails");
    ///     emails.create(BucketOptions::reversible())?;
    ///     emails.put("ada", "ada@example.org")?;
    ///     let keys = emails.keys_of("ada@example.org").collect::<isomerdb::Result<Vec<_>>>()?;
    ///     assert_eq!(keys, [b"ada".to_vec()]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn create(&self, options: BucketOptions) -> Result<()> {
        self.write(|data, name| data.kv_mut().create_bucket(name, options))
    }

    /// Drops the bucket with its content; false if there is none.
    pub fn drop_bucket(&self) -> Result<bool> {
        self.write(|data, name| data.kv_mut().drop_bucket(name))
    }

    /// Writes `value` under `key`; null deletes the key.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl Into<Value>) -> Result<()> {
        self.put_until(key, value, Expiry::Never)
    }

    /// Writes `value` under `key` with an expiry.
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        expiry: Expiry,
    ) -> Result<()> {
        let (key, value) = (Value::Bytes(key.as_ref().into()), value.into());
        self.write(|data, name| data.kv_mut().put_value(name, &key, &value, expiry))
    }

    /// Writes bytes under `key`: like [`Bucket::put`], without creating a value.
    pub fn put_bytes(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|data, name| data.kv_mut().put(name, key.as_ref(), value.as_ref()))
    }

    /// Deletes `key`; not an error if it does not exist.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(|data, name| data.kv_mut().delete(name, key.as_ref()))
    }

    /// Deletes the pairs with keys in `range`.
    pub fn delete_range<R: KeyBounds<Key: AsRef<[u8]>>>(&self, range: R) -> Result<()> {
        let bounds = range.into_bounds();
        let keys = ByteRange::new(&bounds);
        self.write(|data, name| data.kv_mut().delete_range(name, keys.keys()))
    }

    /// Deletes all pairs whose keys begin with `prefix`.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let keys = ByteRange::prefix(prefix.as_ref());
        self.write(|data, name| data.kv_mut().delete_range(name, keys.keys()))
    }

    /// Compare-and-set: writes `new` (`None` deletes) if the bytes under `key` are `expected` (`None`: the key does not
    /// exist). Returns whether it did.
    pub fn compare_and_set(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.write(|data, name| {
            data.kv_mut()
                .compare_and_set(name, key.as_ref(), expected, new)
        })
    }

    /// Changes when `key` expires; false if it does not exist.
    pub fn expire(&self, key: impl AsRef<[u8]>, expiry: Expiry) -> Result<bool> {
        self.write(|data, name| data.kv_mut().expire(name, key.as_ref(), expiry))
    }

    /// Adds `value` to the values of `key`, in a bucket with several values per key.
    ///
    /// ```
    /// use isomerdb::{BucketOptions, Database};
    ///
    /// let db = Database::open_in_memory()?;
    /// let tags = db.transact(|tx| {
    ///     let tags = tx.bucket("tags");
    ///     tags.create(BucketOptions::multi_value())?;
    ///     tags.add("post-1", "rust")?;
    ///     tags.add("post-1", "database")?;
    ///     assert!(tags.has("post-1", "rust")?);
    ///     assert_eq!(tags.count("post-1")?, 2);
    ///     tags.values("post-1").collect::<isomerdb::Result<Vec<_>>>()
    /// })?;
    /// assert_eq!(tags, [b"database".to_vec(), b"rust".to_vec()]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn add(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|data, name| data.kv_mut().add(name, key.as_ref(), value.as_ref()))
    }

    /// Removes `value` from the values of `key`; not an error if it is missing.
    pub fn remove(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(|data, name| data.kv_mut().remove(name, key.as_ref(), value.as_ref()))
    }

    /// Removes all values of `key`; returns how many there were.
    pub fn remove_all(&self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.write(|data, name| data.kv_mut().remove_all(name, key.as_ref()))
    }

    /// The next number of a gapless sequence of this bucket: one more than the last committed one, starting at 1.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let number = || db.transact(|tx| tx.bucket("shop").next_number("invoice"));
    /// assert_eq!((number()?, number()?), (1, 2));
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn next_number(&self, sequence: &str) -> Result<u64> {
        self.write(|data, name| data.kv_mut().sequence_next(name, sequence))
    }

    fn write<T>(
        &self,
        write: impl FnOnce(&mut isomer_data::Transaction, &str) -> Result<T, DataError>,
    ) -> Result<T> {
        self.read.write(self.is_open, write)
    }
}
