//! Buckets with typed keys and values.

use std::marker::PhantomData;

use isomer_data::{
    BucketKey, DataError, Expiry, FromBucketKey, KeyRange, Order, after_prefix, decode_key,
    encode_key,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Bucket, Result, Transaction, from_value, to_value};

/// A bucket whose keys are of type `K` and whose values are of type `V`: see [`Transaction::typed_bucket`].
///
/// Keys are numbers, strings, bytes, tuples of them and other types that implement [`BucketKey`]; they are encoded in
/// bytes that sort as the values do, so that the first parts of a tuple are a key prefix. Values are anything that
/// serde can serialise; the query language sees them with their types.
///
/// ```
/// use isomer_db::Database;
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let mut orders = tx.typed_bucket::<(String, u32), f64>("orders");
///     orders.put(&("ada".into(), 1), &9.5)?;
///     orders.put(&("ada".into(), 2), &3.25)?;
///     orders.put(&("bob".into(), 1), &1.0)?;
///     assert_eq!(orders.get(&("ada".into(), 2))?, Some(3.25));
///     assert_eq!(orders.prefix(&"ada", 10)?, [(("ada".to_owned(), 1), 9.5), (("ada".to_owned(), 2), 3.25)]);
///     assert_eq!(orders.last()?, Some((("bob".to_owned(), 1), 1.0)));
///     Ok::<_, isomer_db::Error>(())
/// })?;
/// # Ok::<(), isomer_db::Error>(())
/// ```
pub struct TypedBucket<'t, K, V> {
    bucket: Bucket<'t>,
    types: PhantomData<fn(K) -> V>,
}

impl Transaction {
    /// A bucket whose keys and values have types.
    pub fn typed_bucket<K, V>(&mut self, name: &str) -> TypedBucket<'_, K, V> {
        TypedBucket {
            bucket: self.bucket(name),
            types: PhantomData,
        }
    }
}

impl<K: BucketKey + FromBucketKey, V: Serialize + DeserializeOwned> TypedBucket<'_, K, V> {
    /// The value under `key`.
    pub fn get(&mut self, key: &K) -> Result<Option<V>> {
        match self.bucket.get(encode_key(key))? {
            Some(value) => from_value(&value).map(Some),
            None => Ok(None),
        }
    }

    /// The values under `keys`, in their order, in one batch.
    pub fn get_many(&mut self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(encode_key).collect();
        let found = self.bucket.get_many(&keys)?;
        found
            .into_iter()
            .map(|value| value.as_ref().map(from_value).transpose())
            .collect()
    }

    /// Writes `value` under `key`. A value that serialises to null deletes the key.
    pub fn put(&mut self, key: &K, value: &V) -> Result<()> {
        self.bucket.put(encode_key(key), to_value(value)?)
    }

    /// Writes `value` under `key` with an expiry.
    pub fn put_until(&mut self, key: &K, value: &V, expiry: Expiry) -> Result<()> {
        self.bucket
            .put_until(encode_key(key), to_value(value)?, expiry)
    }

    /// Deletes `key`; not an error if it does not exist.
    pub fn delete(&mut self, key: &K) -> Result<()> {
        self.bucket.delete(encode_key(key))
    }

    /// The pairs from `from` (inclusive) to `to` (exclusive; none for the end), in either order, at most `limit`.
    pub fn range(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        let from = from.map(encode_key).unwrap_or_default();
        let to = to.map(encode_key);
        self.pairs(&from, to.as_deref(), order, limit)
    }

    /// The pairs whose keys begin with `part`, such as the first part of a tuple, ascending, at most `limit`.
    pub fn prefix(&mut self, part: &impl BucketKey, limit: usize) -> Result<Vec<(K, V)>> {
        let from = encode_key(part);
        let to = after_prefix(&from);
        self.pairs(&from, to.as_deref(), Order::Ascending, limit)
    }

    /// The first pair.
    pub fn first(&mut self) -> Result<Option<(K, V)>> {
        Ok(self.pairs(b"", None, Order::Ascending, 1)?.pop())
    }

    /// The last pair.
    pub fn last(&mut self) -> Result<Option<(K, V)>> {
        Ok(self.pairs(b"", None, Order::Descending, 1)?.pop())
    }

    /// Deletes all pairs whose keys begin with `part`.
    pub fn delete_prefix(&mut self, part: &impl BucketKey) -> Result<()> {
        let start = encode_key(part);
        let end = after_prefix(&start);
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        self.bucket
            .run(|data, name| -> Result<(), DataError> { data.kv_delete_range(name, range) })
    }

    fn pairs(
        &mut self,
        from: &[u8],
        to: Option<&[u8]>,
        order: Order,
        limit: usize,
    ) -> Result<Vec<(K, V)>> {
        let found = self.bucket.range(from, to, order, limit)?;
        found
            .into_iter()
            .map(|(key, value)| Ok((decode_key(&key)?, from_value(&value)?)))
            .collect()
    }
}
