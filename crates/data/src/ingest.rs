//! The write path of bulk loads: past transactions, as one commit of the engine.
//!
//! `isomer-bulk` encodes and sorts; this module reserves ids, writes the change-stream entry and lets observers follow.

use isomer_layout::{
    DataError,
    catalog::names::NameKind,
    stream::change::{Change, ChangeSet, Counted},
};
use isomer_storage::{AloneHold, StorageError, Version};
use isomer_value::{LabelId, Map, NodeId, RelId, TypeId, record::RecordBuilder};
use parking_lot::RwLockWriteGuard;

use crate::{DataStore, LoadSinks, Loading, StreamHold, store::PropNames};

/// One bulk load. While it exists, the change stream is kept from its beginning on, so that the load can find out what
/// was committed concurrently.
pub struct Ingest {
    store: DataStore,
    _hold: StreamHold,
    /// Other processes would not find the pairs in the log that they share.
    _alone: AloneHold,
}

impl DataStore {
    /// Begins a bulk load. In a shared database, no other process can open it until the load ends.
    ///
    /// # Errors
    /// [`DataError::Unsupported`] in a replica, where a load is not replicated; [`StorageError::NeedsAlone`] in a
    /// shared database that other processes have open.
    pub fn begin_ingest(&self) -> Result<Ingest, DataError> {
        self.refuse_in_replica()?;
        Ok(Ingest {
            _alone: self.hold_alone()?,
            store: self.clone(),
            _hold: self.change_stream().hold_firmly(self.engine().version()),
        })
    }
}

impl Ingest {
    /// The store into which is loaded.
    pub fn store(&self) -> &DataStore {
        &self.store
    }

    /// The number of a label; a new name is stored immediately.
    pub fn label(&self, name: &str) -> Result<LabelId, DataError> {
        self.store.intern(NameKind::Label, name).map(LabelId)
    }

    /// The number of a relationship type; a new name is stored immediately.
    pub fn rel_type(&self, name: &str) -> Result<TypeId, DataError> {
        self.store.intern(NameKind::Type, name).map(TypeId)
    }

    /// The record of `builder` with these properties; new names of properties are stored immediately.
    pub fn encode(
        &self,
        mut builder: RecordBuilder,
        properties: &Map,
    ) -> Result<Vec<u8>, DataError> {
        let mut names = PropNames::new(&self.store);
        match builder.put_all(properties, &mut names) {
            Ok(()) => Ok(builder.finish()?),
            Err(error) => Err(names.explain(error)),
        }
    }

    /// The first of `count` consecutive new ids for nodes of a label.
    pub fn reserve_nodes(&self, label: LabelId, count: u64) -> Result<NodeId, DataError> {
        let extents = &self.store.shared().nodes;
        let first = extents.reserve(&**self.store.engine(), label.0, count)?;
        Ok(NodeId(first))
    }

    /// The first of `count` consecutive new ids for relationships of a type.
    pub fn reserve_relationships(&self, type_id: TypeId, count: u64) -> Result<RelId, DataError> {
        let extents = &self.store.shared().relationships;
        let first = extents.reserve(&**self.store.engine(), type_id.0, count)?;
        Ok(RelId(first))
    }

    /// What the store's observers build from the records of the load.
    pub fn sinks(&self, loading: &Loading) -> LoadSinks {
        self.store.sinks(loading)
    }

    /// Blocks all commits until the result is dropped, and waits for those that are under way.
    pub fn block_commits(&self) -> BlockedCommits<'_> {
        BlockedCommits {
            store: &self.store,
            gate: self.store.shared().gate.write(),
        }
    }
}

/// The second phase of a bulk load, in which it alone commits.
pub struct BlockedCommits<'a> {
    store: &'a DataStore,
    gate: RwLockWriteGuard<'a, ()>,
}

impl BlockedCommits<'_> {
    /// Whether the label or type of the load has no record yet.
    pub fn is_alone(&self, loading: &Loading) -> Result<bool, DataError> {
        let (own, _) = counted(loading);
        Ok(self.store.counts().now(own)? == 0)
    }

    /// Whether it has no nodes, or no relationships, yet.
    pub fn is_first(&self, loading: &Loading) -> Result<bool, DataError> {
        let (_, all) = counted(loading);
        Ok(self.store.counts().now(all)? == 0)
    }

    /// Commits the pairs of the load, which ascend, all or nothing. Then other commits continue. Returns the version at
    /// which the records are visible.
    ///
    /// # Errors
    /// The first error among the pairs; errors of the engine.
    pub fn ingest(
        self,
        loading: &Loading,
        pairs: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
    ) -> Result<Version, DataError> {
        let entry = entry(loading);
        let version = self.store.engine().ingest(pairs, Some(&entry))?;
        // What follows may commit.
        drop(self.gate);
        self.store.counts().committed(entry.len());
        Ok(version)
    }
}

/// How the records of a load are counted: of their label or type, and in total.
fn counted(loading: &Loading) -> (Counted, Counted) {
    match loading {
        Loading::Nodes { label, .. } => (Counted::Label(*label), Counted::Nodes),
        Loading::Relationships { type_id, .. } => (Counted::Type(*type_id), Counted::Relationships),
    }
}

/// The change-stream entry of a load.
fn entry(loading: &Loading) -> Vec<u8> {
    let (count, change) = match *loading {
        Loading::Nodes {
            label,
            first,
            count,
        } => {
            let change = Change::NodesLoaded {
                label,
                first,
                count,
            };
            (count, change)
        }
        Loading::Relationships {
            type_id,
            first,
            count,
            ..
        } => {
            let change = Change::RelationshipsLoaded {
                type_id,
                first,
                count,
            };
            (count, change)
        }
    };
    let (own, all) = counted(loading);
    ChangeSet {
        counts: vec![(own, count as i64), (all, count as i64)],
        changes: vec![change],
    }
    .encode()
}
