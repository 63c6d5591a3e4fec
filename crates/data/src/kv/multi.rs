//! Multi-value buckets: several values a key, each once, sorted.

use isomer_layout::{
    DataError,
    keyspace::{self, after_prefix, push_terminated},
    kv::options::BucketKind,
    stream::change::Change,
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};

use crate::{
    Kv, KvMut,
    kv::bucket::{Bucket, PAGE, check_key, check_value, wrong_kind},
};

impl KvMut<'_> {
    /// Adds `value` to the values of `key`; a value that exists already is kept. Reads nothing: two transactions may
    /// add to one key concurrently.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a bucket that is not a multi-value bucket, or does not exist;
    /// [`DataError::Limit`] for keys and values over 16 KiB.
    pub fn add(&mut self, bucket: &str, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.tx.kv().check_bucket_writable(bucket)?;
        let Some(found) = self.tx.kv().multi_bucket(bucket)? else {
            return Err(DataError::invalid(format!(
                "there is no bucket `{bucket}`: create it as a multi-value bucket first"
            )));
        };
        self.set_pair(found, key, value, true)
    }

    /// Adds or deletes a value.
    pub(super) fn set_pair(
        &mut self,
        found: Bucket,
        key: &[u8],
        value: &[u8],
        is_there: bool,
    ) -> Result<(), DataError> {
        let (stored, bucket) = (keyspace::bucket_pair(found.id, key, value), found.id);
        if is_there {
            check_key(found, key)?;
            check_value(found, value)?;
            self.tx.put(&stored, b"")?;
            self.tx.log(&Change::ValueAdded { bucket, key, value });
        } else {
            self.tx.delete(&stored)?;
            self.tx.log(&Change::ValueRemoved { bucket, key, value });
        }
        self.change_pair(found, key, value);
        Ok(())
    }

    /// Deletes `value` from the values of `key`; no error if it does not exist.
    pub fn remove(&mut self, bucket: &str, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.tx.kv().check_bucket_writable(bucket)?;
        let Some(found) = self.tx.kv().multi_bucket(bucket)? else {
            return Ok(());
        };
        self.set_pair(found, key, value, false)
    }

    /// Deletes all values of `key`; returns their number.
    pub fn remove_all(&mut self, bucket: &str, key: &[u8]) -> Result<u64, DataError> {
        self.tx.kv().check_bucket_writable(bucket)?;
        let mut removed = 0;
        loop {
            let values = self.tx.kv().values(bucket, key, None, PAGE.keys)?;
            for value in &values {
                self.remove(bucket, key, value)?;
            }
            removed += values.len() as u64;
            if values.len() < PAGE.keys {
                return Ok(removed);
            }
        }
    }

    fn change_pair(&mut self, bucket: Bucket, key: &[u8], value: &[u8]) {
        self.touch_pair(bucket.id, key, value);
    }

    /// Declares a change of a value's metadata.
    #[doc(hidden)]
    pub fn touch_pair(&mut self, bucket: u32, key: &[u8], value: &[u8]) {
        let (relative, end) = pair(key, value);
        let ends = [end, relative.len()];
        self.tx.footprint_mut().change_entry(
            crate::footprint::Space::Bucket(bucket),
            &relative,
            &ends,
        );
    }
}

impl Kv<'_> {
    /// Whether `value` is one of the values of `key`.
    pub fn has(self, bucket: &str, key: &[u8], value: &[u8]) -> Result<bool, DataError> {
        let Some(found) = self.multi_bucket(bucket)? else {
            return Ok(false);
        };
        let (relative, _) = pair(key, value);
        self.tx.footprint().read_fields(found.space(), 2, &relative);
        Ok(self
            .tx
            .read()
            .get(&keyspace::bucket_pair(found.id, key, value))?
            .is_some())
    }

    /// The values of `key`, ascending, at most `limit`, those after `after` where given.
    pub fn values(
        self,
        bucket: &str,
        key: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, DataError> {
        let mut values = Vec::new();
        self.each_value(bucket, key, after, limit, |value| {
            values.push(value.to_vec())
        })?;
        Ok(values)
    }

    /// How many values `key` has.
    pub fn count(self, bucket: &str, key: &[u8]) -> Result<u64, DataError> {
        let mut count = 0;
        self.each_value(bucket, key, None, usize::MAX, |_| count += 1)?;
        Ok(count)
    }

    fn each_value(
        self,
        bucket: &str,
        key: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), DataError> {
        let Some(found) = self.multi_bucket(bucket)? else {
            return Ok(());
        };
        let (relative, end) = pair(key, b"");
        self.tx
            .footprint()
            .read_fields(found.space(), 1, &relative[..end]);
        let prefix = keyspace::bucket_pair(found.id, key, b"");
        let mut start = prefix.clone();
        if let Some(after) = after {
            start.extend_from_slice(after);
            start.push(0);
        }
        let end = after_prefix(&prefix);
        let (mut left, mut page) = (limit, Page::new());
        while left > 0 {
            let page_limit = PageLimit {
                keys: left.min(PAGE.keys),
                bytes: PAGE.bytes,
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
            page.iter()
                .for_each(|(stored, _)| visit(&stored[prefix.len()..]));
            left -= page.len();
            match page.next() {
                Some(rest) => start = rest.start.to_vec(),
                None => break,
            }
        }
        Ok(())
    }

    fn multi_bucket(self, name: &str) -> Result<Option<Bucket>, DataError> {
        match self.bucket(name)? {
            Some(bucket) if bucket.options.kind != BucketKind::Multi => {
                Err(wrong_kind(name, bucket.options.kind))
            }
            found => Ok(found),
        }
    }
}

/// Key and value from the stored key, and where the key ends.
fn pair(key: &[u8], value: &[u8]) -> (Vec<u8>, usize) {
    let mut relative = Vec::with_capacity(key.len() + value.len() + 2);
    push_terminated(&mut relative, key);
    let end = relative.len();
    relative.extend_from_slice(value);
    (relative, end)
}
