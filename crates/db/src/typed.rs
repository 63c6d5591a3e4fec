//! Buckets with typed keys and values.

use std::{
    marker::PhantomData,
    ops::{Deref, RangeBounds},
};

use isomer_data::{BucketKey, DataError, Expiry, FromBucketKey, encode_key};
use isomer_value::Value;
use serde_core::{Serialize, de::DeserializeOwned};

use crate::{
    ReadBucket, ReadTransaction, Result, TypedPairs, WriteTransaction,
    bounds::{ByteRange, encoded},
    from_value, to_value,
};

/// A bucket whose keys are of type `K` and whose values are of type `V`, in a transaction that reads: see
/// [`ReadTransaction::typed_bucket`].
pub struct ReadTypedBucket<'t, K, V> {
    bucket: ReadBucket<'t>,
    types: PhantomData<fn(K) -> V>,
}

/// A bucket whose keys are of type `K` and whose values are of type `V`: see [`WriteTransaction::typed_bucket`]. All
/// methods of [`ReadTypedBucket`] are available.
///
/// Keys are numbers, strings, bytes, tuples of them and other types that implement [`BucketKey`]; they are encoded in
/// bytes that sort as the values do, so that the first parts of a tuple are a key prefix. Values are anything that
/// serde can serialise; the query language sees them with their types.
///
/// ```
/// use isomerdb::{Database, Result};
///
/// let db = Database::open_in_memory()?;
/// db.transact(|tx| {
///     let orders = tx.typed_bucket::<(String, u32), f64>("orders");
///     orders.put(&("ada".into(), 1), &9.5)?;
///     orders.put(&("ada".into(), 2), &3.25)?;
///     orders.put(&("bob".into(), 1), &1.0)?;
///     assert_eq!(orders.get(&("ada".into(), 2))?, Some(3.25));
///     let of_ada = orders.prefix(&"ada").collect::<Result<Vec<_>>>()?;
///     assert_eq!(of_ada, [(("ada".to_owned(), 1), 9.5), (("ada".to_owned(), 2), 3.25)]);
///     assert_eq!(orders.range(..("b".into(), 0)).count(), 2);
///     assert_eq!(orders.last()?, Some((("bob".to_owned(), 1), 1.0)));
///     Ok(())
/// })?;
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub struct TypedBucket<'t, K, V> {
    read: ReadTypedBucket<'t, K, V>,
}

impl<'t, K, V> Deref for TypedBucket<'t, K, V> {
    type Target = ReadTypedBucket<'t, K, V>;

    fn deref(&self) -> &ReadTypedBucket<'t, K, V> {
        &self.read
    }
}

impl ReadTransaction {
    /// A bucket whose keys and values have types.
    pub fn typed_bucket<K, V>(&self, name: &str) -> ReadTypedBucket<'_, K, V> {
        ReadTypedBucket {
            bucket: self.bucket(name),
            types: PhantomData,
        }
    }
}

impl WriteTransaction {
    /// A bucket whose keys and values have types.
    pub fn typed_bucket<K, V>(&self, name: &str) -> TypedBucket<'_, K, V> {
        TypedBucket {
            read: ReadTransaction::typed_bucket(self, name),
        }
    }
}

impl<'t, K: BucketKey + FromBucketKey, V: DeserializeOwned> ReadTypedBucket<'t, K, V> {
    /// The value under `key`.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        match self.bucket.get(encode_key(key))? {
            Some(value) => from_value(&value).map(Some),
            None => Ok(None),
        }
    }

    /// The values under `keys`, in their order, in one batch.
    pub fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(encode_key).collect();
        let found = self.bucket.get_many(&keys)?;
        found
            .into_iter()
            .map(|value| value.as_ref().map(from_value).transpose())
            .collect()
    }

    /// The pairs with keys in `range`, ascending; `.rev()` iterates in descending order.
    pub fn range(&self, range: impl RangeBounds<K>) -> TypedPairs<'t, K, V> {
        TypedPairs::new(self.bucket.range(encoded(range, encode_key)))
    }

    /// The pairs whose keys begin with `part`, such as the first part of a tuple, ascending; `.rev()` iterates in
    /// descending order.
    pub fn prefix(&self, part: &impl BucketKey) -> TypedPairs<'t, K, V> {
        TypedPairs::new(self.bucket.prefix(encode_key(part)))
    }

    /// The first pair.
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.range(..).limit(1).next().transpose()
    }

    /// The last pair.
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.range(..).limit(1).next_back().transpose()
    }
}

impl<K: BucketKey, V: Serialize> TypedBucket<'_, K, V> {
    /// Writes `value` under `key`. A value that serialises to null deletes the key.
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.put_until(key, value, Expiry::Never)
    }

    /// Writes `value` under `key` with an expiry.
    pub fn put_until(&self, key: &K, value: &V, expiry: Expiry) -> Result<()> {
        let (key, value) = (Value::Bytes(encode_key(key).into()), to_value(value)?);
        self.write(|data, name| data.kv_mut().put_value(name, &key, &value, expiry))
    }

    /// Deletes `key`; not an error if it does not exist.
    pub fn delete(&self, key: &K) -> Result<()> {
        let key = encode_key(key);
        self.write(|data, name| data.kv_mut().delete(name, &key))
    }

    /// Deletes the pairs with keys in `range`.
    pub fn delete_range(&self, range: impl RangeBounds<K>) -> Result<()> {
        let bounds = encoded(range, encode_key);
        let keys = ByteRange::new(&bounds);
        self.write(|data, name| data.kv_mut().delete_range(name, keys.keys()))
    }

    /// Deletes all pairs whose keys begin with `part`.
    pub fn delete_prefix(&self, part: &impl BucketKey) -> Result<()> {
        let prefix = encode_key(part);
        let keys = ByteRange::prefix(&prefix);
        self.write(|data, name| data.kv_mut().delete_range(name, keys.keys()))
    }

    fn write<T>(
        &self,
        write: impl FnOnce(&mut isomer_data::Transaction, &str) -> Result<T, DataError>,
    ) -> Result<T> {
        self.read.bucket.write(false, write)
    }
}
