//! The handles through which a transaction reads and changes its buckets.

use isomer_layout::DataError;

use crate::{Transaction, kv::BucketCache};

/// Buckets as one transaction sees them: entries, values of multi-value buckets, keys by value, sequences.
///
/// A lookup is one read of the engine and enters the footprint as that key. A scan enters it as the range that it has
/// returned. The options of a bucket are looked up once in a transaction.
#[derive(Clone, Copy)]
pub struct Kv<'t> {
    pub(crate) tx: &'t Transaction,
}

/// Creates and drops buckets, and changes their content and sequences.
///
/// A put or a deletion reads nothing, except in a reversible bucket, where it reads the entry before. Each change is
/// also an operation of the change stream.
pub struct KvMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// Reads of the buckets.
    pub fn kv(&self) -> Kv<'_> {
        Kv { tx: self }
    }

    /// Changes of the buckets.
    pub fn kv_mut(&mut self) -> KvMut<'_> {
        KvMut { tx: self }
    }
}

impl KvMut<'_> {
    /// Refuses writes to buckets whose names begin with `prefix`, from now on; to none if there is none.
    pub fn reserve_buckets(&mut self, prefix: Option<&'static str>) {
        self.tx.buckets.reserve(prefix);
    }
}

impl<'t> Kv<'t> {
    /// The known buckets, where this transaction has not changed one itself.
    pub(crate) fn bucket_cache(self) -> Option<&'t BucketCache> {
        (!self.tx.buckets.is_changed()).then(|| &*self.tx.shared().bucket_cache)
    }

    /// As [`Transaction::check_writable`], for the bucket of that name.
    pub(crate) fn check_bucket_writable(self, name: &str) -> Result<(), DataError> {
        self.tx.check_writable()?;
        self.tx.buckets.check_not_reserved(name)
    }
}
