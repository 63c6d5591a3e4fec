//! Who follows every commit before it becomes visible: read views, later.

use std::sync::Arc;

use isomer_storage::{CommitHook, Version};
use parking_lot::RwLock;

use crate::Store;

/// Follows every commit, in the order of the versions, before anybody can see it. Runs on the thread that applies the
/// commit: what it does delays all commits, and it must not read or write the store.
///
/// An observer that begins at a version it has read (say, in a transaction begun after [`Store::observe`]) and applies
/// what it was told of later versions misses nothing and applies nothing twice.
pub trait CommitObserver: Send + Sync {
    /// The commit `version` is about to become visible. `changes` is its entry in the change stream (see
    /// [`crate::ChangeSet`]), empty where nothing that anybody can read has changed.
    fn committing(&self, version: Version, changes: &[u8]);
    /// The commits told of with a version of `from` and above did not happen; their versions may come again.
    fn abandoned(&self, from: Version) {
        let _ = from;
    }
}

/// All observers of a store.
#[derive(Default)]
pub(crate) struct Observers(RwLock<Vec<Arc<dyn CommitObserver>>>);

impl CommitHook for Observers {
    fn committing(&self, version: Version, stream: &[u8]) {
        self.0
            .read()
            .iter()
            .for_each(|observer| observer.committing(version, stream));
    }

    fn abandoned(&self, from: Version) {
        self.0
            .read()
            .iter()
            .for_each(|observer| observer.abandoned(from));
    }
}

impl Store {
    /// Lets `observer` follow every commit from now on, for as long as the store is open. Waits for commits that are
    /// under way: each is either visible when this returns or told of.
    pub fn observe(&self, observer: Arc<dyn CommitObserver>) {
        let _settled = self.shared().gate.write();
        self.shared().observers.0.write().push(observer);
    }
}

#[cfg(test)]
mod tests {
    use isomer_storage::MemoryEngine;
    use isomer_value::{Map, NodeId};
    use parking_lot::Mutex;

    use super::*;
    use crate::{Access, BulkNode, BulkOptions, Change, ChangeSet, GraphRead, StoreOptions};

    #[derive(Default)]
    struct Log {
        seen: Mutex<Vec<(Version, usize)>>,
        store: Mutex<Option<Store>>,
    }

    impl CommitObserver for Log {
        fn committing(&self, version: Version, changes: &[u8]) {
            // Not visible yet.
            if let Some(store) = &*self.store.lock() {
                assert!(store.engine().version() < version);
            }
            if !changes.is_empty() {
                let changes = ChangeSet::decode(changes).unwrap().changes;
                self.seen.lock().push((version, changes.len()));
            }
        }
    }

    #[test]
    fn an_observer_is_told_of_each_commit_before_it_is_visible() {
        let store = Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).unwrap();
        let log = Arc::new(Log::default());
        *log.store.lock() = Some(store.clone());
        store.observe(log.clone());
        let mut tx = store.begin(Access::Write).unwrap();
        let label = tx.intern_label("A").unwrap();
        tx.create_node(&[label], &Map::new()).unwrap();
        tx.create_node(&[label], &Map::new()).unwrap();
        let first = tx.commit().unwrap();
        let mut tx = store.begin(Access::Write).unwrap();
        tx.delete_node(NodeId(0), false).unwrap();
        let second = tx.commit().unwrap();
        let mut rows = (0..3).map(|row| {
            Ok(BulkNode {
                row,
                properties: Map::new(),
            })
        });
        let third = store
            .bulk_nodes("A", &BulkOptions::default(), &mut rows, &mut ())
            .unwrap()
            .version;
        assert_eq!(*log.seen.lock(), [(first, 2), (second, 1), (third, 1)]);

        // What was told is what the change stream keeps.
        let entries = store.engine().stream(0, 100, 1 << 20, false).unwrap();
        let kept: Vec<_> = entries.iter().map(|entry| entry.version).collect();
        assert_eq!(kept, [first, second, third]);
        let changes = ChangeSet::decode(&entries[1].bytes).unwrap().changes;
        assert_eq!(
            changes,
            [Change::NodeDeleted {
                id: NodeId(0),
                labels: vec![label],
                key: b""
            }]
        );
        assert_eq!(
            store
                .begin(Access::Read)
                .unwrap()
                .exact_node_count(Some(label))
                .unwrap(),
            4
        );
        *log.store.lock() = None;
    }
}
