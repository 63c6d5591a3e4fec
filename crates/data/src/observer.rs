//! Observers follow every commit before it becomes visible: read views.

use std::sync::Arc;

use isomer_storage::{Commit, CommitHook, Version};
use isomer_value::{LabelId, NodeId, RelId, TypeId};
use parking_lot::RwLock;

use crate::{counts::ReportedCounts, remote::Remote};

/// Follows every commit, in the order of the versions, before it is visible to readers. Runs on the thread that applies
/// the commit: it delays all commits, and it must not read or write the store.
///
/// An observer that begins at a version it has read (say, in a transaction begun after [`DataStore::observe`]) and
/// applies the reported later versions misses nothing and applies nothing twice.
pub trait CommitObserver: Send + Sync {
    /// The commit `version` is about to become visible. `changes` is its entry in the change stream (see
    /// [`isomer_layout::stream::change::ChangeSet`]), empty if the commit changed nothing that is readable.
    fn committing(&self, version: Version, changes: &[u8]);
    /// The reported commits with a version of `from` and above did not happen; their versions may be reused.
    fn abandoned(&self, from: Version) {
        let _ = from;
    }
    /// The outcome of the reported commits with a version of `from` and above is unknown: an observer must not answer
    /// for those versions. No others follow in this opening.
    fn unsettled(&self, from: Version) {
        let _ = from;
    }
    /// A bulk load into a label or type that seems to be empty has read its rows and is about to be written. An
    /// observer that builds something from its records returns a sink for them. Other commits continue during the load;
    /// the store may be read and written.
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

/// Receives the records of a bulk load, as they are written, on the thread that writes them. Dropped where the load
/// fails, or where its label or type was not empty after all.
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
    /// The label or type was not empty after all, so that the records of the load are not all of its records.
    /// [`LoadSink::loaded`] follows where the load succeeds.
    fn not_alone(&mut self) {}
    /// Everything is on disk as the commit `version`. Until then the label or type had no records; `first` is true if
    /// there were no nodes, or no relationships, at all.
    fn loaded(self: Box<Self>, version: Version, first: bool);
}

/// The sinks of one load.
#[derive(Default)]
pub struct LoadSinks(pub(crate) Vec<Box<dyn LoadSink>>);

impl LoadSinks {
    /// Calls `visit` with each of them.
    pub fn each(&mut self, mut visit: impl FnMut(&mut dyn LoadSink)) {
        self.0.iter_mut().for_each(|sink| visit(&mut **sink));
    }

    /// Ends each with [`LoadSink::loaded`].
    pub fn loaded(self, version: Version, first: bool) {
        self.0
            .into_iter()
            .for_each(|sink| sink.loaded(version, first));
    }
}

impl std::fmt::Debug for LoadSinks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LoadSinks").field(&self.0.len()).finish()
    }
}

/// All observers of a store.
#[derive(Default)]
pub(crate) struct Observers {
    pub(crate) others: RwLock<Vec<Arc<dyn CommitObserver>>>,
    /// How the commits reported so far changed the counts.
    pub(crate) counted: ReportedCounts,
    /// The commits of other processes.
    pub(crate) remote: Remote,
}

impl CommitHook for Observers {
    fn committing(&self, version: Version, stream: &[u8]) {
        self.counted.committing(version, stream);
        self.others
            .read()
            .iter()
            .for_each(|observer| observer.committing(version, stream));
    }

    fn committing_remote(&self, commit: &Commit<'_>) {
        // The caches first: observers use them.
        self.remote.committing(commit);
        self.committing(commit.version, commit.stream);
        self.remote.announce(commit.version);
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
