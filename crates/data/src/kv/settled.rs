//! How buckets were made, for all transactions: a transaction that meets a bucket need not look it up.

use isomer_storage::{StorageError, Version};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use super::BucketOptions;

/// What was looked up since a bucket was last made, dropped or changed.
pub(crate) struct SettledBuckets(RwLock<Settled>);

struct Settled {
    /// The last commit that changed a bucket, or what was there at the opening: what is known holds from here on.
    since: Version,
    /// Commits under way that change one. What they make of it, and when, cannot be said.
    changing: usize,
    /// By number; nothing where there is no such bucket.
    options: FxHashMap<u32, Option<BucketOptions>>,
}

impl Settled {
    fn holds_at(&self, version: Version) -> bool {
        self.changing == 0 && self.since <= version
    }
}

impl SettledBuckets {
    /// Nothing is known; no bucket has changed since that version.
    pub(crate) fn new(since: Version) -> Self {
        Self(RwLock::new(Settled {
            since,
            changing: 0,
            options: FxHashMap::default(),
        }))
    }

    /// How a bucket was made, as of that version, where it is known.
    pub(super) fn get(&self, bucket: u32, version: Version) -> Option<Option<BucketOptions>> {
        let settled = self.0.read();
        let known = settled.options.get(&bucket).copied();
        known.filter(|_| settled.holds_at(version))
    }

    /// Notes what was read at that version.
    pub(super) fn note(&self, bucket: u32, options: Option<BucketOptions>, version: Version) {
        let mut settled = self.0.write();
        if settled.holds_at(version) {
            settled.options.insert(bucket, options);
        }
    }

    /// Before a commit that changes a bucket is handed over.
    pub(crate) fn changes(&self) {
        self.0.write().changing += 1;
    }

    /// When that commit has ended.
    pub(crate) fn changed(&self, committed: &Result<Version, StorageError>) {
        let mut settled = self.0.write();
        match committed {
            Ok(version) => {
                settled.since = settled.since.max(*version);
                settled.options.clear();
            }
            // Perhaps it took place: nothing is said of buckets any more.
            Err(StorageError::CommitUnknown(_)) => return,
            Err(_) => {}
        }
        settled.changing -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isomer_storage::{Durability, MemoryEngine};

    use crate::{Access, BucketKind, BucketOptions, Store, StoreOptions, Transaction};

    const MULTI: BucketOptions = BucketOptions {
        kind: BucketKind::Multi,
        reversible: false,
    };

    fn store() -> Store {
        Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).unwrap()
    }

    fn make(store: &Store, options: BucketOptions) {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.create_bucket("b", options).unwrap();
        tx.commit_with(Durability::Buffered).unwrap();
    }

    fn seen(tx: &Transaction) -> Option<BucketKind> {
        tx.bucket_options("b").unwrap().map(|options| options.kind)
    }

    /// Each transaction goes on seeing what was there when it began, whoever looked it up first.
    #[test]
    fn each_version_has_its_buckets() {
        let store = store();
        let begin = || store.begin(Access::Read).unwrap();
        let without = begin();
        assert_eq!(seen(&begin()), None);
        make(&store, BucketOptions::default());
        let plain = begin();
        // What is known now is not what was known before, and does not come back with who began before.
        assert_eq!(seen(&begin()), Some(BucketKind::Map));
        assert_eq!(seen(&without), None);
        assert_eq!(seen(&begin()), Some(BucketKind::Map));

        let mut dropping = store.begin(Access::Write).unwrap();
        dropping.drop_bucket("b").unwrap();
        assert_eq!(seen(&dropping), None);
        assert_eq!(seen(&begin()), Some(BucketKind::Map), "not committed");
        dropping.create_bucket("b", MULTI).unwrap();
        assert_eq!(seen(&dropping), Some(BucketKind::Multi));
        dropping.commit_with(Durability::Buffered).unwrap();
        assert_eq!(seen(&begin()), Some(BucketKind::Multi));
        assert_eq!(seen(&plain), Some(BucketKind::Map));
        assert_eq!(seen(&begin()), Some(BucketKind::Multi));
    }

    /// One that does not come to be leaves what is known; so does one that is given up.
    #[test]
    fn a_lost_race_changes_nothing() {
        let store = store();
        let mut loser = store.begin(Access::Write).unwrap();
        loser.create_bucket("b", MULTI).unwrap();
        make(&store, BucketOptions::default());
        loser.commit_with(Durability::Buffered).unwrap_err();
        let known = |store: &Store| {
            let id = store.catalog().bucket_id("b").unwrap();
            let version = store.engine().version();
            store.shared().settled_buckets.get(id, version)
        };
        assert_eq!(known(&store), None);
        assert_eq!(
            seen(&store.begin(Access::Read).unwrap()),
            Some(BucketKind::Map)
        );
        assert_eq!(known(&store), Some(Some(BucketOptions::default())));
        let mut given_up = store.begin(Access::Write).unwrap();
        given_up.drop_bucket("b").unwrap();
        drop(given_up);
        assert_eq!(known(&store), Some(Some(BucketOptions::default())));
    }

    /// From when a change is handed over until it has ended nothing is known: some see it before whoever made it hears of it.
    #[test]
    fn nothing_is_known_while_one_changes() {
        let store = store();
        make(&store, BucketOptions::default());
        let reader = store.begin(Access::Read).unwrap();
        seen(&reader);
        let id = store.catalog().bucket_id("b").unwrap();
        let known = |version| store.shared().settled_buckets.get(id, version);
        assert!(known(store.engine().version()).is_some());
        let mut dropping = store.begin(Access::Write).unwrap();
        dropping.drop_bucket("b").unwrap();
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
