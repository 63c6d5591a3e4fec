//! A shared cache of bucket options: a transaction need not look up a bucket that is cached.

use isomer_layout::kv::options::BucketOptions;
use isomer_storage::{StorageError, Version};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

/// The buckets that were looked up since a bucket was last created, dropped or changed.
pub(crate) struct BucketCache(RwLock<CachedOptions>);

struct CachedOptions {
    /// The last commit that changed a bucket, or the version at opening: the cache is valid from here on.
    since: Version,
    /// Commits under way that change a bucket. Their outcome and version are unknown.
    changing: usize,
    /// By number; nothing for a bucket that does not exist.
    options: FxHashMap<u32, Option<BucketOptions>>,
}

impl CachedOptions {
    fn is_valid_at(&self, version: Version) -> bool {
        self.changing == 0 && self.since <= version
    }
}

impl BucketCache {
    /// An empty cache; no bucket has changed since that version.
    pub(crate) fn new(since: Version) -> Self {
        Self(RwLock::new(CachedOptions {
            since,
            changing: 0,
            options: FxHashMap::default(),
        }))
    }

    /// The options of a bucket as of that version, if cached.
    pub(super) fn get(&self, bucket: u32, version: Version) -> Option<Option<BucketOptions>> {
        let cache = self.0.read();
        let known = cache.options.get(&bucket).copied();
        known.filter(|_| cache.is_valid_at(version))
    }

    /// Caches what was read at that version.
    pub(super) fn insert(&self, bucket: u32, options: Option<BucketOptions>, version: Version) {
        let mut cache = self.0.write();
        if cache.is_valid_at(version) {
            cache.options.insert(bucket, options);
        }
    }

    /// Another process changed a bucket in the commit `version`, which is not visible yet.
    pub(crate) fn changed(&self, version: Version) {
        let mut cache = self.0.write();
        cache.since = cache.since.max(version);
        cache.options.clear();
    }

    /// Before a commit that changes a bucket is handed over.
    pub(crate) fn begin_change(&self) {
        self.0.write().changing += 1;
    }

    /// When that commit has ended.
    pub(crate) fn end_change(&self, committed: &Result<Version, StorageError>) {
        let mut cache = self.0.write();
        match committed {
            Ok(version) => {
                cache.since = cache.since.max(*version);
                cache.options.clear();
            }
            // Its outcome is unknown: the cache is disabled.
            Err(StorageError::CommitUnknown(_)) => return,
            Err(_) => {}
        }
        cache.changing -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isomer_storage::{Durability, MemoryEngine};

    use crate::{Access, BucketKind, BucketOptions, DataStore, DataStoreOptions, Transaction};

    const MULTI: BucketOptions = BucketOptions::new(BucketKind::Multi, false);

    fn store() -> DataStore {
        DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap()
    }

    fn make(store: &DataStore, options: BucketOptions) {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.kv_mut().create_bucket("b", options).unwrap();
        tx.commit_with(Durability::Buffered).unwrap();
    }

    fn seen(tx: &Transaction) -> Option<BucketKind> {
        tx.kv()
            .bucket_options("b")
            .unwrap()
            .map(|options| options.kind)
    }

    /// Each transaction continues to see the state at its begin, whichever transaction looked it up first.
    #[test]
    fn each_version_has_its_buckets() {
        let store = store();
        let begin = || store.begin(Access::Read).unwrap();
        let without = begin();
        assert_eq!(seen(&begin()), None);
        make(&store, BucketOptions::default());
        let plain = begin();
        // The current state differs from the earlier one, and is not cached by transactions that began before.
        assert_eq!(seen(&begin()), Some(BucketKind::Map));
        assert_eq!(seen(&without), None);
        assert_eq!(seen(&begin()), Some(BucketKind::Map));

        let mut dropping = store.begin(Access::Write).unwrap();
        dropping.kv_mut().drop_bucket("b").unwrap();
        assert_eq!(seen(&dropping), None);
        assert_eq!(seen(&begin()), Some(BucketKind::Map), "not committed");
        dropping.kv_mut().create_bucket("b", MULTI).unwrap();
        assert_eq!(seen(&dropping), Some(BucketKind::Multi));
        dropping.commit_with(Durability::Buffered).unwrap();
        assert_eq!(seen(&begin()), Some(BucketKind::Multi));
        assert_eq!(seen(&plain), Some(BucketKind::Map));
        assert_eq!(seen(&begin()), Some(BucketKind::Multi));
    }

    /// A commit that fails leaves the cache valid; so does one that is abandoned.
    #[test]
    fn a_lost_race_changes_nothing() {
        let store = store();
        let mut loser = store.begin(Access::Write).unwrap();
        loser.kv_mut().create_bucket("b", MULTI).unwrap();
        make(&store, BucketOptions::default());
        loser.commit_with(Durability::Buffered).unwrap_err();
        let known = |store: &DataStore| {
            let id = store.catalog().bucket_id("b").unwrap();
            let version = store.engine().version();
            store.shared().bucket_cache.get(id, version)
        };
        assert_eq!(known(&store), None);
        assert_eq!(
            seen(&store.begin(Access::Read).unwrap()),
            Some(BucketKind::Map)
        );
        assert_eq!(known(&store), Some(Some(BucketOptions::default())));
        let mut given_up = store.begin(Access::Write).unwrap();
        given_up.kv_mut().drop_bucket("b").unwrap();
        drop(given_up);
        assert_eq!(known(&store), Some(Some(BucketOptions::default())));
    }

    /// From when a change is handed over until it has ended nothing is known: other threads may see it before its
    /// writer is notified.
    #[test]
    fn nothing_is_known_while_one_changes() {
        let store = store();
        make(&store, BucketOptions::default());
        let reader = store.begin(Access::Read).unwrap();
        seen(&reader);
        let id = store.catalog().bucket_id("b").unwrap();
        let known = |version| store.shared().bucket_cache.get(id, version);
        assert!(known(store.engine().version()).is_some());
        let mut dropping = store.begin(Access::Write).unwrap();
        dropping.kv_mut().drop_bucket("b").unwrap();
        let commit = dropping.start_commit(Durability::Buffered);
        assert_eq!(known(store.engine().version()), None);
        assert_eq!(seen(&store.begin(Access::Read).unwrap()), None);
        assert_eq!(seen(&reader), Some(BucketKind::Map));
        assert_eq!(known(store.engine().version()), None);
        drop(commit);
        assert_eq!(seen(&store.begin(Access::Read).unwrap()), None);
        assert_eq!(known(store.engine().version()), Some(None));
    }
}
