//! Reversible buckets: the keys of a value.
//!
//! A reverse entry's own value is empty, or the time at which the entry expires (`u64` ms, big endian).

use isomer_layout::{
    DataError,
    keyspace::{self, after_prefix, push_terminated},
    kv::{
        content::BucketEntry,
        options::{BucketOptions, MAX_PAIR_PART_BYTES},
    },
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};

use crate::{
    Kv, KvMut,
    kv::bucket::{Bucket, PAGE},
};

impl Kv<'_> {
    /// The keys with `value`, ascending, at most `limit`, those after `after` where given.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a bucket that is not reversible.
    pub fn keys_of(
        self,
        bucket: &str,
        value: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, DataError> {
        let name = bucket;
        let Some(bucket) = self.bucket(name)? else {
            return Ok(Vec::new());
        };
        if !bucket.options.reversible {
            return Err(DataError::invalid(format!(
                "bucket `{name}` is not reversible: create it as reversible to look up the keys of a value"
            )));
        }
        let mut relative = Vec::with_capacity(value.len() + 2);
        push_terminated(&mut relative, value);
        self.tx
            .footprint()
            .read_fields(bucket.reverse_space(), 1, &relative);
        let prefix = keyspace::bucket_reverse(bucket.id, value, b"");
        let mut start = prefix.clone();
        if let Some(after) = after {
            start.extend_from_slice(after);
            start.push(0);
        }
        let end = after_prefix(&prefix);
        let (now, mut keys, mut page) = (self.tx.now_ms(), Vec::new(), Page::new());
        while keys.len() < limit {
            let page_limit = PageLimit {
                keys: limit - keys.len(),
                bytes: 1 << 20,
            };
            self.tx.read().scan(
                KeyRange {
                    start: &start,
                    end: end.as_deref(),
                },
                Order::Ascending,
                page_limit,
                &mut page,
            )?;
            for (key, expires) in page.iter() {
                if expires_at(expires)?.is_none_or(|time| time > now) {
                    keys.push(key[prefix.len()..].to_vec());
                }
            }
            match page.next() {
                Some(rest) => start = rest.start.to_vec(),
                None => break,
            }
        }
        Ok(keys)
    }
}

impl KvMut<'_> {
    /// Creates all reverse entries of a bucket.
    pub(super) fn make_reverses(&mut self, bucket: Bucket) -> Result<(), DataError> {
        let prefix = keyspace::bucket_entry(bucket.id, b"");
        let end = after_prefix(&prefix);
        let (mut start, mut page) = (prefix.clone(), Page::new());
        self.tx.footprint().read_range(bucket.space(), b"", None);
        loop {
            let range = KeyRange {
                start: &start,
                end: end.as_deref(),
            };
            self.tx
                .read()
                .scan(range, Order::Ascending, PAGE, &mut page)?;
            for (key, stored) in page.iter() {
                let (key, entry) = (&key[prefix.len()..], BucketEntry::decode(stored)?);
                if has_reverse(bucket.options, key, entry.value) {
                    self.put_reverse(bucket, key, entry)?;
                }
            }
            match page.next() {
                Some(rest) => start = rest.start.to_vec(),
                None => return Ok(()),
            }
        }
    }

    /// Adds the reverse entry of an entry that is being put.
    pub(super) fn put_reverse(
        &mut self,
        bucket: Bucket,
        key: &[u8],
        entry: BucketEntry<'_>,
    ) -> Result<(), DataError> {
        let expires = entry.expires.map(u64::to_be_bytes);
        let stored = expires.as_ref().map_or(&[][..], |time| &time[..]);
        self.tx.put(
            &keyspace::bucket_reverse(bucket.id, entry.value, key),
            stored,
        )?;
        self.change_reverse(bucket, key, entry.value);
        Ok(())
    }

    /// Deletes the reverse entry of the entry under `key`, expired or not.
    pub(super) fn delete_reverse(&mut self, bucket: Bucket, key: &[u8]) -> Result<(), DataError> {
        let Some(stored) = self
            .tx
            .read()
            .get(&keyspace::bucket_entry(bucket.id, key))?
        else {
            return Ok(());
        };
        let entry = BucketEntry::decode(&stored)?;
        self.tx
            .delete(&keyspace::bucket_reverse(bucket.id, entry.value, key))?;
        self.change_reverse(bucket, key, entry.value);
        Ok(())
    }

    fn change_reverse(&mut self, bucket: Bucket, key: &[u8], value: &[u8]) {
        let mut relative = Vec::with_capacity(value.len() + key.len() + 2);
        push_terminated(&mut relative, value);
        let end = relative.len();
        relative.extend_from_slice(key);
        self.tx
            .footprint_mut()
            .change_entry(bucket.reverse_space(), &relative, &[end]);
    }
}

/// Whether an entry has a reverse one. Entries of merged buckets that are too long for a reverse entry have none: no
/// lookup can ask for them.
pub(super) fn has_reverse(options: BucketOptions, key: &[u8], value: &[u8]) -> bool {
    options.reversible && key.len() <= MAX_PAIR_PART_BYTES && value.len() <= MAX_PAIR_PART_BYTES
}

/// When a reverse entry expires.
pub(super) fn expires_at(stored: &[u8]) -> Result<Option<u64>, DataError> {
    match stored.len() {
        0 => Ok(None),
        _ => match stored.try_into() {
            Ok(time) => Ok(Some(u64::from_be_bytes(time))),
            Err(_) => Err(DataError::corrupt(
                "a reverse entry of a bucket is malformed",
            )),
        },
    }
}
