//! Creating, changing, dropping and listing buckets.

use std::sync::Arc;

use isomer_layout::{
    DataError,
    catalog::names::NameKind,
    keyspace::{self, after_prefix},
    kv::{
        content::BucketEntry,
        options::{BucketKind, BucketOptions, decode_options, encode_options},
    },
    pairs::each_pair,
    stream::change::Change,
};
use isomer_storage::KeyRange;

use crate::{Kv, KvMut, footprint::Space, kv::bucket::Bucket};

impl KvMut<'_> {
    /// Creates a bucket.
    ///
    /// # Errors
    /// [`DataError::NameExists`] if it exists; [`DataError::Invalid`] for a multi-value bucket that is reversible.
    pub fn create_bucket(&mut self, name: &str, options: BucketOptions) -> Result<(), DataError> {
        self.tx.kv().check_bucket_writable(name)?;
        if options.kind == BucketKind::Multi && options.reversible {
            return Err(DataError::invalid(
                "a multi-value bucket cannot be reversible: keep a second bucket from value to key",
            ));
        }
        if self.tx.kv().bucket(name)?.is_some() {
            return Err(DataError::NameExists {
                what: "bucket",
                name: name.to_owned(),
            });
        }
        self.define(name, options).map(drop)
    }

    /// Drops a bucket with its content, sequences included; returns whether it existed.
    pub fn drop_bucket(&mut self, name: &str) -> Result<bool, DataError> {
        self.tx.kv().check_bucket_writable(name)?;
        let Some(bucket) = self.tx.kv().bucket(name)? else {
            return Ok(false);
        };
        if let Some(hooks) = self.tx.replication().logging_hooks() {
            hooks.keep_bucket_metadata(self.tx, bucket.id)?;
        }
        // In a replica there may be shadowed entries of the other kind, too: they stay, and become visible.
        let kept = match bucket.options.kind {
            BucketKind::Map => keyspace::bucket_pairs(bucket.id),
            BucketKind::Multi => keyspace::bucket_entry(bucket.id, b""),
        };
        let prefixes = keyspace::bucket_prefixes(bucket.id);
        for prefix in prefixes.into_iter().filter(|prefix| *prefix != kept) {
            let end = after_prefix(&prefix);
            self.tx.write(prefix.len(), |tx| {
                tx.delete_range(KeyRange {
                    start: &prefix,
                    end: end.as_deref(),
                })
            })?;
        }
        self.change_bucket(name);
        let footprint = self.tx.footprint_mut();
        for space in [
            Space::Bucket(bucket.id),
            Space::Reverse(bucket.id),
            Space::Sequences(bucket.id),
        ] {
            footprint.change_space(space);
        }
        self.tx.log(&Change::BucketDropped { bucket: bucket.id });
        self.tx.buckets.known().note(bucket.id, None);
        self.tx.buckets.note_dropped(name);
        Ok(true)
    }

    /// Declares that it creates, drops or changes a bucket.
    #[doc(hidden)]
    pub fn change_bucket(&mut self, name: &str) {
        self.tx.buckets.note_changed();
        self.tx
            .footprint_mut()
            .change_key(Space::Buckets, name.as_bytes(), true);
    }

    /// The bucket to write to; a plain map is created where it does not exist.
    pub(crate) fn bucket_to_write(&mut self, name: &str) -> Result<Bucket, DataError> {
        self.tx.kv().check_bucket_writable(name)?;
        match self.tx.kv().bucket(name)? {
            Some(bucket) => Ok(bucket),
            None => self.define(name, BucketOptions::default()),
        }
    }

    fn define(&mut self, name: &str, options: BucketOptions) -> Result<Bucket, DataError> {
        if name.is_empty() {
            return Err(DataError::invalid(
                "the name of a bucket is empty: give it a name",
            ));
        }
        let id = self.tx.name_ids().intern(NameKind::Bucket, name)?;
        self.tx
            .put(&keyspace::bucket(id), &encode_options(options))?;
        self.change_bucket(name);
        self.tx.log(&Change::BucketCreated {
            bucket: id,
            multi: options.kind == BucketKind::Multi,
            reversible: options.reversible,
        });
        self.tx.buckets.known().note(id, Some(options));
        Ok(Bucket { id, options })
    }
}

impl Kv<'_> {
    /// The options of a bucket; none if it does not exist.
    pub fn bucket_options(self, name: &str) -> Result<Option<BucketOptions>, DataError> {
        Ok(self.bucket(name)?.map(|bucket| bucket.options))
    }

    /// All buckets, by name.
    pub fn list_buckets(self) -> Result<Vec<(Arc<str>, BucketOptions)>, DataError> {
        self.tx.footprint().read_range(Space::Buckets, b"", None);
        let names = self.tx.names().clone();
        let mut buckets = Vec::new();
        each_pair(self.tx.read(), &[keyspace::TAG_BUCKET], |key, value| {
            let id = keyspace::sole_id(&key[1..], "the number of a bucket")?;
            let name = u32::try_from(id).ok().and_then(|id| names.bucket_name(id));
            let name =
                name.ok_or_else(|| DataError::corrupt(format!("bucket number {id} has no name")))?;
            buckets.push((name, decode_options(value)?));
            Ok(())
        })?;
        buckets.sort_by(|(one, _), (two, _)| one.cmp(two));
        Ok(buckets)
    }

    /// The bucket of that name, where it exists in this transaction.
    #[doc(hidden)]
    pub fn bucket(self, name: &str) -> Result<Option<Bucket>, DataError> {
        // A known state was observed when it was read.
        if let Some(bucket) = self.tx.buckets.known().latest(name) {
            return Ok(Some(bucket));
        }
        if let Some(id) = self.tx.names().bucket_id(name)
            && let Some(known) = self.tx.buckets.known().look_up(name, id)
        {
            return Ok(known);
        }
        self.tx
            .footprint()
            .read_key(Space::Buckets, name.as_bytes());
        let Some(id) = self.tx.names().bucket_id(name) else {
            return Ok(None);
        };
        let options = match self.bucket_cache() {
            None => self.stored_options(id)?,
            Some(cache) => {
                let version = self.tx.read().version();
                match cache.get(id, version) {
                    Some(known) => known,
                    None => {
                        let stored = self.stored_options(id)?;
                        cache.insert(id, stored, version);
                        stored
                    }
                }
            }
        };
        self.tx.buckets.known().note(id, options);
        Ok(options.map(|options| Bucket { id, options }))
    }

    fn stored_options(self, id: u32) -> Result<Option<BucketOptions>, DataError> {
        let stored = self.tx.read().get(&keyspace::bucket(id))?;
        stored.map(|stored| decode_options(&stored)).transpose()
    }
}

/// For replication: buckets by their numbers.
impl Kv<'_> {
    /// The name of a bucket.
    #[doc(hidden)]
    pub fn bucket_name(self, bucket: u32) -> Result<Arc<str>, DataError> {
        let name = self.tx.names().bucket_name(bucket);
        name.ok_or_else(|| DataError::corrupt(format!("bucket number {bucket} has no name")))
    }
}

/// For replication: buckets by their numbers.
impl KvMut<'_> {
    /// Sets the options of a bucket, whatever its content is; a missing bucket is created. Reverse entries are added or
    /// removed accordingly.
    #[doc(hidden)]
    pub fn redefine_bucket(
        &mut self,
        bucket: u32,
        options: Option<BucketOptions>,
    ) -> Result<(), DataError> {
        let name = self.tx.kv().bucket_name(bucket)?;
        let before = self.tx.kv().bucket(&name)?.map(|found| found.options);
        let Some(options) = options.filter(|_| before != options) else {
            return Ok(());
        };
        let was_reversible = before.is_some_and(|before| before.reversible);
        if was_reversible {
            let start = keyspace::bucket_reverses(bucket);
            let end = after_prefix(&start);
            self.tx.write(start.len(), |tx| {
                tx.delete_range(KeyRange {
                    start: &start,
                    end: end.as_deref(),
                })
            })?;
            self.tx.footprint_mut().change_space(Space::Reverse(bucket));
        }
        let bucket = self.define(&name, options)?;
        if options.reversible {
            self.make_reverses(bucket)?;
        }
        Ok(())
    }

    /// Adds or deletes a value of a key, whatever kind the bucket is read as.
    #[doc(hidden)]
    pub fn replace_pair(
        &mut self,
        bucket: u32,
        key: &[u8],
        value: &[u8],
        is_there: bool,
    ) -> Result<(), DataError> {
        let options = BucketOptions::multi_value();
        self.set_pair(
            Bucket {
                id: bucket,
                options,
            },
            key,
            value,
            is_there,
        )
    }

    /// Puts or deletes the stored form of an entry.
    #[doc(hidden)]
    pub fn replace_entry(
        &mut self,
        bucket: u32,
        key: &[u8],
        stored: Option<&[u8]>,
    ) -> Result<(), DataError> {
        let name = self.tx.kv().bucket_name(bucket)?;
        match stored {
            Some(stored) => self.put_entry(&name, key, BucketEntry::decode(stored)?),
            None => self.delete(&name, key),
        }
    }
}
