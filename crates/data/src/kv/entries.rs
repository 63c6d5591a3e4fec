//! Entries of maps: one value a key.

use std::ops::ControlFlow;

use isomer_layout::{
    DataError,
    keyspace::{self, after_prefix},
    kv::{
        content::{BucketEntry, Content, ENTRY_HEAD},
        options::{BucketKind, BucketOptions},
    },
    stream::change::Change,
};
use isomer_storage::{KeyRange, Order, Page};
use isomer_value::Value;

use super::reverse::has_reverse;
use crate::{
    Kv, KvMut,
    batch::KeyBatch,
    footprint::Space,
    kv::bucket::{Bucket, Expiry, PAGE, check_key, check_value, wrong_kind},
};

impl Kv<'_> {
    /// The value under `key`; nothing if there is none, or it has expired.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a multi-value bucket.
    pub fn get(self, bucket: &str, key: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
        let Some(bucket) = self.map_bucket(bucket)? else {
            return Ok(None);
        };
        let Some(mut stored) = self.stored(bucket, key)? else {
            return Ok(None);
        };
        let skipped = stored.len() - BucketEntry::decode(&stored)?.value.len();
        stored.drain(..skipped);
        Ok(Some(stored))
    }

    /// The values under `keys`, in their order, in one batch.
    pub fn get_many(self, bucket: &str, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, DataError> {
        let mut values = vec![None; keys.len()];
        self.visit_many(bucket, keys, &mut |at, value| {
            values[at] = Some(value.to_vec());
        })?;
        Ok(values)
    }

    /// As [`Kv::get_many`], without copies: `visit` gets each existing value with the position of its key.
    pub fn visit_many(
        self,
        bucket: &str,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, &[u8]),
    ) -> Result<(), DataError> {
        self.each_of(bucket, keys, &mut |at, entry| {
            visit(at, entry.value);
            Ok(())
        })
    }

    /// Reads the live entries of `keys` in one batch; `visit` gets each with the position of its key.
    fn each_of(
        self,
        bucket: &str,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, BucketEntry<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let Some(bucket) = self.map_bucket(bucket)? else {
            return Ok(());
        };
        let bytes = keys.iter().map(|key| key.len() + 6).sum();
        let mut stored_keys = KeyBatch::with_room(keys.len(), bytes);
        for key in keys {
            self.tx.footprint().read_key(bucket.space(), key);
            stored_keys.push(|stored| keyspace::push_bucket_entry(stored, bucket.id, key));
        }
        let now = self.tx.now_ms();
        let _ = stored_keys.visit(self.tx.read(), |at, stored| {
            if let Some(entry) = stored.map(BucketEntry::decode).transpose()?
                && entry.is_live(now)
            {
                visit(at, entry)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }

    /// As [`Kv::get_many`], with typed values; null if there is none.
    pub fn get_many_values(self, bucket: &str, keys: &[&[u8]]) -> Result<Vec<Value>, DataError> {
        let mut values = vec![Value::Null; keys.len()];
        self.each_of(bucket, keys, &mut |at, entry| {
            values[at] = self.typed(entry)?;
            Ok(())
        })?;
        Ok(values)
    }

    /// When an entry expires: nothing if it does not exist, [`Expiry::Never`] or [`Expiry::At`] if it does.
    pub fn expiry(self, bucket: &str, key: &[u8]) -> Result<Option<Expiry>, DataError> {
        let Some(bucket) = self.map_bucket(bucket)? else {
            return Ok(None);
        };
        let Some(stored) = self.stored(bucket, key)? else {
            return Ok(None);
        };
        Ok(Some(
            BucketEntry::decode(&stored)?
                .expires
                .map_or(Expiry::Never, Expiry::At),
        ))
    }

    /// A bucket that must be a map.
    pub(crate) fn map_bucket(self, name: &str) -> Result<Option<Bucket>, DataError> {
        match self.bucket(name)? {
            Some(bucket) if bucket.options.kind != BucketKind::Map => {
                Err(wrong_kind(name, bucket.options.kind))
            }
            found => Ok(found),
        }
    }

    /// The stored form of a live entry.
    pub(crate) fn stored(self, bucket: Bucket, key: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
        self.tx.footprint().read_key(bucket.space(), key);
        let Some(stored) = self
            .tx
            .read()
            .get(&keyspace::bucket_entry(bucket.id, key))?
        else {
            return Ok(None);
        };
        let live = BucketEntry::decode(&stored)?.is_live(self.tx.now_ms());
        Ok(live.then_some(stored))
    }

    pub(crate) fn expires_at(self, expiry: Expiry) -> Option<u64> {
        match expiry {
            Expiry::Never => None,
            Expiry::At(time) => Some(time),
            Expiry::After(ms) => Some(self.tx.now_ms().saturating_add(ms)),
        }
    }
}

impl KvMut<'_> {
    /// Puts `value` under `key`, without expiry. Reads nothing, except in a reversible bucket.
    ///
    /// # Errors
    /// [`DataError::Limit`] and [`DataError::Invalid`] for keys and values outside the limits, or a multi-value bucket.
    pub fn put(&mut self, bucket: &str, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.put_with(bucket, key, value, Expiry::Never)
    }

    /// Puts `value` under `key` until it expires; a time that has passed makes it invisible immediately.
    pub fn put_with(
        &mut self,
        bucket: &str,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
    ) -> Result<(), DataError> {
        let expires = self.tx.kv().expires_at(expiry);
        self.put_entry(
            bucket,
            key,
            BucketEntry {
                content: Content::Bytes,
                expires,
                value,
            },
        )
    }

    /// Deletes `key`; no error if it does not exist. Reads nothing, except in a reversible bucket.
    pub fn delete(&mut self, bucket: &str, key: &[u8]) -> Result<(), DataError> {
        self.tx.kv().check_bucket_writable(bucket)?;
        let name = bucket;
        let Some(bucket) = self.tx.kv().bucket(name)? else {
            return Ok(());
        };
        if bucket.options.kind != BucketKind::Map {
            return Err(wrong_kind(name, bucket.options.kind));
        }
        self.delete_entry(bucket, key)
    }

    /// Deletes every key of `range`: one by one in a reversible bucket.
    pub fn delete_range(&mut self, bucket: &str, range: KeyRange<'_>) -> Result<(), DataError> {
        self.tx.kv().check_bucket_writable(bucket)?;
        let name = bucket;
        let Some(bucket) = self.tx.kv().bucket(name)? else {
            return Ok(());
        };
        if bucket.options.kind != BucketKind::Map {
            return Err(wrong_kind(name, bucket.options.kind));
        }
        if range.end.is_some_and(|end| end <= range.start) {
            return Ok(());
        }
        if bucket.options.reversible {
            return self.delete_one_by_one(bucket, range);
        }
        let start = keyspace::bucket_entry(bucket.id, range.start);
        let end = match range.end {
            Some(end) => Some(keyspace::bucket_entry(bucket.id, end)),
            None => after_prefix(&keyspace::bucket_entry(bucket.id, b"")),
        };
        self.tx.write(start.len(), |tx| {
            tx.delete_range(KeyRange {
                start: &start,
                end: end.as_deref(),
            })
        })?;
        self.tx.footprint_mut().change_space(bucket.space());
        self.tx.log(&Change::KeysDeleted {
            bucket: bucket.id,
            start: range.start,
            end: range.end,
        });
        Ok(())
    }

    /// Puts `new` (`None`: deletes) if the value under `key` is `expected` (`None`: there is none); returns whether it
    /// did. The new entry never expires.
    pub fn compare_and_set(
        &mut self,
        bucket: &str,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool, DataError> {
        self.tx.kv().check_bucket_writable(bucket)?;
        if self.tx.kv().get(bucket, key)?.as_deref() != expected {
            return Ok(false);
        }
        match new {
            Some(value) => self.put(bucket, key, value)?,
            None => self.delete(bucket, key)?,
        }
        Ok(true)
    }

    /// Changes when an entry expires; returns whether it exists.
    pub fn expire(&mut self, bucket: &str, key: &[u8], expiry: Expiry) -> Result<bool, DataError> {
        self.tx.kv().check_bucket_writable(bucket)?;
        let Some(found) = self.tx.kv().map_bucket(bucket)? else {
            return Ok(false);
        };
        let Some(stored) = self.tx.kv().stored(found, key)? else {
            return Ok(false);
        };
        let expires = self.tx.kv().expires_at(expiry);
        self.put_entry(
            bucket,
            key,
            BucketEntry {
                expires,
                ..BucketEntry::decode(&stored)?
            },
        )?;
        Ok(true)
    }

    pub(crate) fn put_entry(
        &mut self,
        name: &str,
        key: &[u8],
        entry: BucketEntry<'_>,
    ) -> Result<(), DataError> {
        let bucket = self.bucket_to_write(name)?;
        if bucket.options.kind != BucketKind::Map {
            return Err(wrong_kind(name, bucket.options.kind));
        }
        let is_led_to = bucket.options.reversible
            && (!self.tx.replication().is_merging()
                || has_reverse(bucket.options, key, entry.value));
        // An entry of another replica was perhaps put when the bucket was not reversible.
        let options = BucketOptions::new(BucketKind::Map, is_led_to);
        check_key(Bucket { options, ..bucket }, key)?;
        check_value(Bucket { options, ..bucket }, entry.value)?;
        if bucket.options.reversible {
            self.delete_reverse(bucket, key)?;
        }
        if is_led_to {
            self.put_reverse(bucket, key, entry)?;
        }
        // The pair in one piece: its key, and the entry behind it.
        let mut pair =
            keyspace::bucket_entry_with_room(bucket.id, key, ENTRY_HEAD + entry.value.len());
        let at = pair.len();
        entry.encode(&mut pair);
        let (stored_key, stored) = pair.split_at(at);
        self.tx.put(stored_key, stored)?;
        if let Some(time) = entry.expires {
            self.tx
                .put(&keyspace::bucket_expiry(time, bucket.id, key), b"")?;
        }
        self.tx
            .footprint_mut()
            .change_key(bucket.space(), key, bucket.options.reversible);
        match entry.expires {
            None => self.tx.log(&Change::KeyPut {
                bucket: bucket.id,
                key,
                value: entry.value,
                content: entry.content,
            }),
            Some(expires_ms) => {
                self.tx.log(&Change::KeyPutUntil {
                    bucket: bucket.id,
                    key,
                    value: entry.value,
                    content: entry.content,
                    expires_ms,
                });
            }
        }
        Ok(())
    }

    fn delete_entry(&mut self, bucket: Bucket, key: &[u8]) -> Result<(), DataError> {
        if bucket.options.reversible {
            self.delete_reverse(bucket, key)?;
        }
        self.tx.delete(&keyspace::bucket_entry(bucket.id, key))?;
        self.tx
            .footprint_mut()
            .change_key(bucket.space(), key, bucket.options.reversible);
        self.tx.log(&Change::KeyDeleted {
            bucket: bucket.id,
            key,
        });
        Ok(())
    }

    fn delete_one_by_one(&mut self, bucket: Bucket, range: KeyRange<'_>) -> Result<(), DataError> {
        self.tx
            .footprint_mut()
            .read_range(bucket.space(), range.start, range.end);
        let prefix = keyspace::bucket_entry(bucket.id, b"");
        let mut start = keyspace::bucket_entry(bucket.id, range.start);
        let end = match range.end {
            Some(end) => Some(keyspace::bucket_entry(bucket.id, end)),
            None => after_prefix(&prefix),
        };
        let mut page = Page::new();
        loop {
            self.tx.read().scan(
                KeyRange {
                    start: &start,
                    end: end.as_deref(),
                },
                Order::Ascending,
                PAGE,
                &mut page,
            )?;
            for (key, _) in page.iter() {
                self.delete_entry(bucket, &key[prefix.len()..])?;
            }
            match page.next() {
                Some(rest) => start = rest.start.to_vec(),
                None => return Ok(()),
            }
        }
    }
}

impl Bucket {
    /// The space of its values, where it is reversible.
    pub(crate) fn reverse_space(self) -> Space {
        Space::Reverse(self.id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use isomer_layout::kv::content::encode_entry;

    proptest! {
        /// Entries come back as they were stored, and no bytes make decoding panic.
        #[test]
        fn entries_come_back(content in 0..3, expires: Option<u64>, value: Vec<u8>, now: u64) {
            let content = [Content::Bytes, Content::Text, Content::Value][content as usize];
            let entry = BucketEntry { content, expires, value: &value };
            let stored = encode_entry(content, expires, &value);
            prop_assert_eq!(BucketEntry::decode(&stored).unwrap(), entry);
            prop_assert_eq!(entry.is_live(now), expires.is_none() || expires > Some(now));
            let _ = BucketEntry::decode(&value);
        }
    }
}
