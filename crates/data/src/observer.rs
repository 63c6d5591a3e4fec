//! Who follows every commit before it becomes visible: read views.

use std::sync::Arc;

use isomer_storage::{CommitHook, Version};
use isomer_value::{LabelId, NodeId, RelId, TypeId};
use parking_lot::RwLock;

use crate::{Store, counts::Told};

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
    /// Nobody knows whether the commits told of with a version of `from` and above happened: nothing may be said of those
    /// versions. No others follow in this opening.
    fn unsettled(&self, from: Version) {
        let _ = from;
    }
    /// A bulk load into a label or type that seems to be empty has read its rows and is about to be written. Who wants to
    /// make something of its records while they pass by answers with a sink. Other commits go on meanwhile; the store may
    /// be read and written.
    fn loading(&self, load: &Loading) -> Option<Box<dyn LoadSink>> {
        let _ = load;
        None
    }
}

/// A bulk load whose rows have all been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loading {
    /// Nodes with consecutive ids.
    Nodes {
        /// Their label.
        label: LabelId,
        /// The first one's id.
        first: NodeId,
        /// How many there are.
        count: u64,
    },
    /// Relationships with consecutive ids.
    Relationships {
        /// Their type.
        type_id: TypeId,
        /// The first one's id.
        first: RelId,
        /// How many there are.
        count: u64,
        /// The largest id of a node where one starts.
        last_source: NodeId,
        /// The largest id of a node where one ends.
        last_target: NodeId,
    },
}

/// Takes what a bulk load writes, as it is written, on the thread that writes. Dropped where the load is not made, or where
/// its label or type was not empty after all.
pub trait LoadSink: Send {
    /// A node; ids ascend.
    fn node(&mut self, id: NodeId, record: &[u8]) {
        let _ = (id, record);
    }
    /// A relationship; ids ascend.
    fn relationship(&mut self, id: RelId, record: &[u8]) {
        let _ = (id, record);
    }
    /// A relationship seen from one end, in the order of the rows of adjacency: by `node`, outgoing before incoming, by
    /// `other`, by `id`.
    fn link(&mut self, node: NodeId, outgoing: bool, other: NodeId, id: RelId) {
        let _ = (node, outgoing, other, id);
    }
    /// The label or type was not empty after all, so that what passes by is not all there is. [`LoadSink::loaded`] follows
    /// where the load succeeds.
    fn not_alone(&mut self) {}
    /// Everything is on disk as the commit `version`. Until then the label or type had no records; `first` says that there
    /// were no nodes, or no relationships, at all.
    fn loaded(self: Box<Self>, version: Version, first: bool);
}

/// The sinks of one load.
#[derive(Default)]
pub(crate) struct Sinks(pub(crate) Vec<Box<dyn LoadSink>>);

impl Sinks {
    pub(crate) fn each(&mut self, mut tell: impl FnMut(&mut dyn LoadSink)) {
        self.0.iter_mut().for_each(|sink| tell(&mut **sink));
    }

    pub(crate) fn loaded(self, version: Version, first: bool) {
        self.0
            .into_iter()
            .for_each(|sink| sink.loaded(version, first));
    }
}

/// All observers of a store.
#[derive(Default)]
pub(crate) struct Observers {
    others: RwLock<Vec<Arc<dyn CommitObserver>>>,
    /// How the commits told of so far changed the numbers.
    pub(crate) counted: Told,
}

impl CommitHook for Observers {
    fn committing(&self, version: Version, stream: &[u8]) {
        self.counted.committing(version, stream);
        self.others
            .read()
            .iter()
            .for_each(|observer| observer.committing(version, stream));
    }

    fn abandoned(&self, from: Version) {
        self.counted.abandoned();
        self.others
            .read()
            .iter()
            .for_each(|observer| observer.abandoned(from));
    }

    fn unsettled(&self, from: Version) {
        self.counted.abandoned();
        self.others
            .read()
            .iter()
            .for_each(|observer| observer.unsettled(from));
    }
}

impl Store {
    /// Those who want to see what a load writes.
    pub(crate) fn sinks(&self, load: &Loading) -> Sinks {
        // Not under the lock: they may commit something of their own.
        let observers: Vec<_> = self.shared().observers.others.read().clone();
        Sinks(
            observers
                .iter()
                .filter_map(|one| one.loading(load))
                .collect(),
        )
    }

    /// Lets `observer` follow every commit from now on, for as long as the store is open. Waits for commits that are
    /// under way: each is either visible when this returns or told of.
    pub fn observe(&self, observer: Arc<dyn CommitObserver>) {
        let _settled = self.shared().gate.write();
        self.shared().observers.others.write().push(observer);
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
