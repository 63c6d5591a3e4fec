//! Buckets: ordered keys and values.

use std::ops::ControlFlow;

use isomer_data::{
    BucketCursor, BucketOptions, DataError, Expiry, KeyRange, Order, PageLimit, after_prefix,
};
use isomer_value::Value;

use crate::{Cursor, Error, Result, Transaction};

/// A bucket of keys and values: see [`Transaction::bucket`]. Keys are bytes, ordered as bytes; values are of any type
/// that can be stored. The first write creates the bucket.
///
/// ```
/// use isomer_db::{Database, Expiry, Value};
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let mut sessions = tx.bucket("sessions");
///     sessions.put("s-1", "ada")?;
///     sessions.put_until("s-2", "bob", Expiry::After(60_000))?;
///     assert_eq!(sessions.get("s-1")?, Some(Value::from("ada")));
///     assert_eq!(sessions.scan("s-", 10)?.len(), 2);
///     sessions.delete("s-2")?;
///     assert_eq!(sessions.get("s-2")?, None);
///     Ok::<_, isomer_db::Error>(())
/// })?;
/// // The language sees the same keys.
/// assert_eq!(db.query("RETURN kv.get('sessions', 's-1') AS who", ())?.single()?.get::<String>("who")?, "ada");
/// # Ok::<(), isomer_db::Error>(())
/// ```
pub struct Bucket<'t> {
    transaction: &'t mut Transaction,
    name: String,
    /// Whether it can be written although it is reserved.
    is_open: bool,
}

/// Pairs per read of a scan.
const PAGE_BYTES: usize = 1 << 20;

impl<'t> Bucket<'t> {
    pub(crate) fn new(transaction: &'t mut Transaction, name: &str) -> Self {
        Self {
            transaction,
            name: name.to_owned(),
            is_open: false,
        }
    }

    pub(crate) fn reserved(transaction: &'t mut Transaction, name: &str) -> Self {
        Self {
            is_open: true,
            ..Self::new(transaction, name)
        }
    }

    /// Creates the bucket with options: several values per key, or reversible (the keys of a value can be looked up).
    /// `Exists` if it exists.
    ///
    /// ```
    /// use isomer_db::{BucketOptions, Database};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.transact(|tx| {
    ///     let mut emails = tx.bucket("emails");
    ///     emails.create(BucketOptions::reversible())?;
    ///     emails.put("ada", "ada@example.org")?;
    ///     assert_eq!(emails.keys_of("ada@example.org", 10)?, [b"ada".to_vec()]);
    ///     Ok::<_, isomer_db::Error>(())
    /// })?;
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn create(&mut self, options: BucketOptions) -> Result<()> {
        self.run(|data, name| data.create_bucket(name, options))
    }

    /// Its options; none if there is no such bucket.
    pub fn options(&mut self) -> Result<Option<BucketOptions>> {
        self.run(|data, name| data.bucket_options(name))
    }

    /// Drops the bucket with its content; false if there is none.
    pub fn drop_bucket(&mut self) -> Result<bool> {
        self.run(|data, name| data.drop_bucket(name))
    }

    /// The value under `key`.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = Value::Bytes(key.as_ref().into());
        let value = self.run(|data, name| data.kv_get_value(name, &key))?;
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    /// Writes `value` under `key`; null deletes the key.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl Into<Value>) -> Result<()> {
        self.put_until(key, value, Expiry::Never)
    }

    /// Writes `value` under `key` with an expiry.
    pub fn put_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl Into<Value>,
        expiry: Expiry,
    ) -> Result<()> {
        let (key, value) = (Value::Bytes(key.as_ref().into()), value.into());
        self.run(|data, name| data.kv_put_value(name, &key, &value, expiry))
    }

    /// The bytes under `key`, of any type: those of [`Bucket::put_bytes`], or of a text.
    pub fn get_bytes(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.run(|data, name| data.kv_get(name, key.as_ref()))
    }

    /// Writes bytes under `key`: like [`Bucket::put`], without creating a value.
    pub fn put_bytes(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.run(|data, name| data.kv_put(name, key.as_ref(), value.as_ref()))
    }

    /// Deletes `key`; not an error if it does not exist.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.run(|data, name| data.kv_delete(name, key.as_ref()))
    }

    /// Deletes every key from `from` (inclusive) to `to` (exclusive; none for the end).
    pub fn delete_range(&mut self, from: impl AsRef<[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.run(|data, name| {
            data.kv_delete_range(
                name,
                KeyRange {
                    start: from.as_ref(),
                    end: to,
                },
            )
        })
    }

    /// Deletes all pairs whose keys begin with `prefix`.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let start = prefix.as_ref();
        let end = after_prefix(start);
        self.delete_range(start, end.as_deref())
    }

    /// Compare-and-set: writes `new` (`None` deletes) if the bytes under `key` are `expected` (`None`: the key does not
    /// exist). Returns whether it did.
    pub fn compare_and_set(
        &mut self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        self.run(|data, name| data.kv_compare_and_set(name, key.as_ref(), expected, new))
    }

    /// Changes when `key` expires; false if it does not exist.
    pub fn expire(&mut self, key: impl AsRef<[u8]>, expiry: Expiry) -> Result<bool> {
        self.run(|data, name| data.kv_expire(name, key.as_ref(), expiry))
    }

    /// The values under `keys`, in their order, in one batch.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// let found = db.transact(|tx| {
    ///     let mut ages = tx.bucket("ages");
    ///     ages.put("ada", 36)?;
    ///     ages.put("bob", 17)?;
    ///     ages.get_many(&["bob", "carl", "ada"])
    /// })?;
    /// assert_eq!(found, [Some(17.into()), None, Some(36.into())]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn get_many(&mut self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let values = self.run(|data, name| data.kv_get_many_values(name, &keys))?;
        Ok(values
            .into_iter()
            .map(|value| Some(value).filter(|value| !value.is_null()))
            .collect())
    }

    /// The bytes under `keys`, in their order, in one batch: like [`Bucket::get_bytes`] of each, but faster for many
    /// keys.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// let found = db.transact(|tx| {
    ///     let mut names = tx.bucket("names");
    ///     names.put_bytes("user:1", "Ada")?;
    ///     names.get_many_bytes(&["user:2", "user:1"])
    /// })?;
    /// assert_eq!(found, [None, Some(b"Ada".to_vec())]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn get_many_bytes(&mut self, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.run(|data, name| data.kv_get_many(name, &keys))
    }

    /// Like [`Bucket::get_many_bytes`], but calls `visit` with the index of each key that has a value, and with the
    /// value borrowed in place. If this fails, it may have been called for some keys.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// let mut bytes = [0; 2];
    /// db.transact(|tx| {
    ///     let mut names = tx.bucket("names");
    ///     names.put_bytes("user:1", "Ada")?;
    ///     names.visit_many(&["user:2", "user:1"], |at, name| bytes[at] = name.len())
    /// })?;
    /// assert_eq!(bytes, [0, 3]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn visit_many(
        &mut self,
        keys: &[impl AsRef<[u8]>],
        mut visit: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        self.run(|data, name| data.kv_visit_many(name, &keys, &mut visit))
    }

    /// A cursor over all pairs, before the first of them.
    pub fn cursor(&self) -> Cursor {
        self.cursor_range(b"", None)
    }

    /// A cursor over the keys from `from` (inclusive) to `to` (exclusive; none for the end), before the first of them.
    pub fn cursor_range(&self, from: &[u8], to: Option<&[u8]>) -> Cursor {
        Cursor::new(BucketCursor::new(&self.name, from, to))
    }

    /// A cursor over the keys that begin with `prefix`, before the first of them.
    pub fn cursor_prefix(&self, prefix: impl AsRef<[u8]>) -> Cursor {
        Cursor::new(BucketCursor::over_prefix(&self.name, prefix.as_ref()))
    }

    /// The pairs whose keys begin with `prefix`, ascending, at most `limit`.
    pub fn scan(
        &mut self,
        prefix: impl AsRef<[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Value)>> {
        let start = prefix.as_ref().to_vec();
        let end = after_prefix(&start);
        self.range(&start, end.as_deref(), Order::Ascending, limit)
    }

    /// The pairs with keys from `from` (inclusive) to `to` (exclusive; none for the end), in either order, at most `limit`.
    ///
    /// ```
    /// use isomer_db::{Database, Order};
    ///
    /// let db = Database::open_in_memory()?;
    /// let newest = db.transact(|tx| {
    ///     let mut log = tx.bucket("log");
    ///     (1..=9u8).try_for_each(|day| log.put([day], i64::from(day)))?;
    ///     log.range(&[1], Some(&[6]), Order::Descending, 2)
    /// })?;
    /// assert_eq!(newest, [(vec![5], 5.into()), (vec![4], 4.into())]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn range(
        &mut self,
        from: &[u8],
        to: Option<&[u8]>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Value)>> {
        self.run(|data, name| {
            let mut pairs = Vec::new();
            let mut after = None;
            while pairs.len() < limit {
                let page = PageLimit {
                    keys: limit - pairs.len(),
                    bytes: PAGE_BYTES,
                };
                let range = KeyRange {
                    start: from,
                    end: to,
                };
                after = data.kv_scan_values(
                    name,
                    range,
                    order,
                    page,
                    after.as_ref(),
                    &mut |key, value| {
                        pairs.push((key_bytes(&key), value));
                    },
                )?;
                if after.is_none() {
                    break;
                }
            }
            Ok(pairs)
        })
    }

    /// Visits the pairs with keys from `from` (inclusive) to `to` (exclusive; none for the end), in either order, as
    /// bytes, until `visit` returns false. Nothing is buffered.
    ///
    /// ```
    /// use isomer_db::{Database, Order};
    ///
    /// let db = Database::open_in_memory()?;
    /// let bytes = db.transact(|tx| {
    ///     let mut notes = tx.bucket("notes");
    ///     notes.put("a", "one")?;
    ///     notes.put("b", "three")?;
    ///     let mut bytes = 0;
    ///     notes.visit(b"", None, Order::Ascending, |_, value| {
    ///         bytes += value.len();
    ///         true
    ///     })?;
    ///     Ok::<_, isomer_db::Error>(bytes)
    /// })?;
    /// assert_eq!(bytes, 8);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn visit(
        &mut self,
        from: &[u8],
        to: Option<&[u8]>,
        order: Order,
        mut visit: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let range = KeyRange {
            start: from,
            end: to,
        };
        self.run(|data, name| {
            data.kv_each(name, range, order, &mut |key, value| {
                if visit(key, value) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })
        })
    }

    /// The keys with the value `value`, ascending, at most `limit`. `Invalid` if the bucket is not reversible.
    pub fn keys_of(&mut self, value: impl AsRef<[u8]>, limit: usize) -> Result<Vec<Vec<u8>>> {
        self.run(|data, name| data.kv_keys_of(name, value.as_ref(), None, limit))
    }

    /// Adds `value` to the values of `key`, in a bucket with several values per key.
    ///
    /// ```
    /// use isomer_db::{BucketOptions, Database};
    ///
    /// let db = Database::open_in_memory()?;
    /// let tags = db.transact(|tx| {
    ///     let mut tags = tx.bucket("tags");
    ///     tags.create(BucketOptions::multi_value())?;
    ///     tags.add("post-1", "rust")?;
    ///     tags.add("post-1", "database")?;
    ///     assert!(tags.has("post-1", "rust")?);
    ///     assert_eq!(tags.count("post-1")?, 2);
    ///     tags.values("post-1", 10)
    /// })?;
    /// assert_eq!(tags, [b"database".to_vec(), b"rust".to_vec()]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn add(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.run(|data, name| data.kv_add(name, key.as_ref(), value.as_ref()))
    }

    /// Removes `value` from the values of `key`; not an error if it is missing.
    pub fn remove(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.run(|data, name| data.kv_remove(name, key.as_ref(), value.as_ref()))
    }

    /// Removes all values of `key`; returns how many there were.
    pub fn remove_all(&mut self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.run(|data, name| data.kv_remove_all(name, key.as_ref()))
    }

    /// Whether `value` is one of the values of `key`, in a bucket with several values per key.
    pub fn has(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.run(|data, name| data.kv_has(name, key.as_ref(), value.as_ref()))
    }

    /// The number of values of `key`, in a bucket with several values per key.
    pub fn count(&mut self, key: impl AsRef<[u8]>) -> Result<u64> {
        self.run(|data, name| data.kv_count(name, key.as_ref()))
    }

    /// The values of `key` in a bucket with several values per key, ascending, at most `limit`.
    pub fn values(&mut self, key: impl AsRef<[u8]>, limit: usize) -> Result<Vec<Vec<u8>>> {
        self.run(|data, name| data.kv_values(name, key.as_ref(), None, limit))
    }

    /// The next number of a gapless sequence of this bucket: one more than the last committed one, starting at 1.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// let number = || db.transact(|tx| tx.bucket("shop").next_number("invoice"));
    /// assert_eq!((number()?, number()?), (1, 2));
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn next_number(&mut self, sequence: &str) -> Result<u64> {
        self.run(|data, name| data.sequence_next(name, sequence))
    }

    /// The last number issued by a gapless sequence; 0 if there was none.
    pub fn last_number(&mut self, sequence: &str) -> Result<u64> {
        self.run(|data, name| data.sequence_last(name, sequence))
    }

    pub(crate) fn run<T>(
        &mut self,
        run: impl FnOnce(&mut isomer_data::Transaction, &str) -> Result<T, DataError>,
    ) -> Result<T, Error> {
        let (name, reserved) = (&self.name, self.transaction.db.reserved());
        let opened = reserved.filter(|_| !self.is_open);
        self.transaction.below(|data| {
            data.reserve_buckets(opened);
            let result = run(data, name);
            data.reserve_buckets(reserved);
            result
        })
    }
}

fn key_bytes(key: &Value) -> Vec<u8> {
    match key {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        other => unreachable!(
            "the keys of a bucket are text or bytes, not {}",
            other.type_name()
        ),
    }
}
