//! Applies commits to the views: a commit is handed in before it becomes visible, and applied before a reader
//! looks at a view at its version.

use std::sync::atomic::Ordering;

use isomer_data::{
    Catalog, Change, ChangeSet, CommitObserver, ConvergentOwner, DataError, DataStore, LoadSink,
    Loading, Version,
};
use isomer_value::{LabelId, NodeId, PropId, TypeId, Value, record::RecordRef};

use crate::{
    Cell, Owner, Views,
    adjacency::Link,
    column::{CellChange, cell_at, cell_of},
    id::small,
    inbox::{AfterPut, Commits, Inbox},
    loading::LoadFiles,
    registry::Registry,
    side::AdjacencySide,
    slot::Slot,
    views::Feed,
    worker::Job,
};

/// A delta is merged when it reaches this fraction of its base: a merge rewrites the base, and a longer delta
/// slows down readers of changed nodes.
const MERGED_SHARE: u64 = 64;

/// A delta with this many heap bytes (strings, lists, maps) is merged regardless of its number of changes.
const MERGED_HEAP_BYTES: usize = 16 << 20;
/// From this many heap bytes on, a delta is accounted in the memory budget.
const ACCOUNTED_HEAP_BYTES: usize = 1 << 20;

/// A relationship that was created or deleted.
struct LinkChange {
    type_id: TypeId,
    source: NodeId,
    target: NodeId,
    rel: u64,
    added: bool,
}

/// Applies the changes of one commit.
struct CommitApplier<'a> {
    registry: &'a Registry,
    store: &'a DataStore,
    catalog: &'a Catalog,
    version: Version,
}

impl CommitApplier<'_> {
    fn change(&self, change: &Change<'_>) -> Result<(), DataError> {
        match change {
            Change::RelationshipCreated { id, record } => {
                if self.registry.adjacency.is_empty() && self.registry.columns.is_empty() {
                    return Ok(());
                }
                let record = RecordRef::new(record)?;
                let ends = record.endpoints();
                let (type_id, source, target) = ends.ok_or_else(|| DataError::Corrupt {
                    what: format!(
                        "the change stream has a record without end nodes for relationship {id}"
                    ),
                })?;
                self.link(&LinkChange {
                    type_id,
                    source,
                    target,
                    rel: id.0,
                    added: true,
                });
                self.columns(Owner::Relationships(type_id), id.0, |path| {
                    Ok(CellChange::Is(self.cell_in(&record, path)?))
                })?;
            }
            Change::RelationshipChanged {
                id,
                type_id,
                set,
                removed,
            } => self.values(Owner::Relationships(*type_id), id.0, set, removed)?,
            Change::RelationshipDeleted {
                id,
                type_id,
                source,
                target,
            } => {
                self.link(&LinkChange {
                    type_id: *type_id,
                    source: *source,
                    target: *target,
                    rel: id.0,
                    added: false,
                });
                self.columns(Owner::Relationships(*type_id), id.0, |_| {
                    Ok(CellChange::Gone)
                })?;
            }
            Change::RelationshipsLoaded { type_id, .. } => {
                self.stop_columns(Owner::Relationships(*type_id));
                for side in AdjacencySide::BOTH {
                    if let Some(slot) = self.registry.adjacency.get(&(*type_id, side)) {
                        slot.stop_answering(self.version);
                    }
                }
            }
            Change::NodeCreated { id, record } => {
                let record = RecordRef::new(record)?;
                self.member(None, *id, true);
                for label in record.labels() {
                    self.member(Some(label), *id, true);
                    self.columns(Owner::Nodes(label), id.0, |path| {
                        Ok(CellChange::Is(self.cell_in(&record, path)?))
                    })?;
                }
            }
            Change::NodeChanged {
                id,
                labels_added,
                labels_removed,
                set,
                removed,
            } => self.node(*id, labels_added, labels_removed, set, removed)?,
            Change::NodeDeleted { id, labels, .. } => {
                self.member(None, *id, false);
                for &label in labels {
                    self.member(Some(label), *id, false);
                    self.columns(Owner::Nodes(label), id.0, |_| Ok(CellChange::Gone))?;
                }
            }
            Change::NodesLoaded { label, .. } => {
                for label in [None, Some(*label)] {
                    if let Some(slot) = self.registry.members.get(&label) {
                        slot.stop_answering(self.version);
                    }
                }
                self.stop_columns(Owner::Nodes(*label));
            }
            change => {
                if let Some((owner, prop)) = change.field() {
                    self.field(owner, prop);
                }
            }
        }
        Ok(())
    }

    /// Whether a property may be a convergent field: its value is not the one in the record, and a single
    /// operation does not determine it. Such cells refer to the rows until a merge reads them.
    fn is_field(&self, path: &[PropId]) -> bool {
        path.first()
            .is_some_and(|prop| self.store.is_convergent(*prop))
    }

    /// The cell of a created record at a path. The record may have existed before, with convergent fields
    /// that outlived it.
    fn cell_in(&self, record: &RecordRef<'_>, path: &[PropId]) -> Result<Cell, DataError> {
        if self.is_field(path) {
            Ok(Cell::Rows)
        } else {
            cell_of(record, path, self.catalog)
        }
    }

    /// A convergent field changed. The change does not name the label or type, but each column knows its own
    /// nodes.
    fn field(&self, owner: ConvergentOwner, prop: PropId) {
        for (of, columns) in &self.registry.columns {
            let id = match (owner, of) {
                (ConvergentOwner::Node(id), Owner::Nodes(_)) => id.0,
                (ConvergentOwner::Relationship(id), Owner::Relationships(_)) => id.0,
                _ => continue,
            };
            for (path, slot) in columns {
                if path.first() == Some(&prop) {
                    self.cell(slot, id, &CellChange::Set(Cell::Rows));
                }
            }
        }
    }

    fn link(&self, change: &LinkChange) {
        let ids = (
            small(change.source.0),
            small(change.target.0),
            small(change.rel),
        );
        for side in AdjacencySide::BOTH {
            let Some(slot) = self.registry.adjacency.get(&(change.type_id, side)) else {
                continue;
            };
            let (Some(source), Some(target), Some(rel)) = ids else {
                slot.stop_answering(self.version);
                continue;
            };
            let (node, other) = match side {
                AdjacencySide::Out => (source, target),
                AdjacencySide::In => (target, source),
            };
            let added = change.added;
            slot.apply(self.version, node, &Link { other, rel, added }, |_| true);
        }
    }

    fn member(&self, label: Option<LabelId>, id: NodeId, member: bool) {
        if let Some(slot) = self.registry.members.get(&label) {
            match small(id.0) {
                Some(node) => slot.apply(self.version, node, &member, |_| true),
                None => slot.stop_answering(self.version),
            }
        }
    }

    fn columns(
        &self,
        owner: Owner,
        id: u64,
        change: impl Fn(&[PropId]) -> Result<CellChange, DataError>,
    ) -> Result<(), DataError> {
        let columns = self.registry.columns.get(&owner);
        for (path, slot) in columns.into_iter().flatten() {
            self.cell(slot, id, &change(path)?);
        }
        Ok(())
    }

    /// The change stream does not list the records of a bulk load.
    fn stop_columns(&self, owner: Owner) {
        let columns = self.registry.columns.get(&owner);
        for (_, slot) in columns.into_iter().flatten() {
            slot.stop_answering(self.version);
        }
    }

    fn cell(&self, slot: &Slot<crate::column::ColumnBase>, id: u64, change: &CellChange) {
        match small(id) {
            Some(node) => slot.apply(self.version, node, change, |generation| {
                // A property set on nodes of other labels does not concern this column.
                !matches!(change, CellChange::Set(_))
                    || generation.base.is_member(node)
                    || generation.delta.touched(node)
            }),
            None => slot.stop_answering(self.version),
        }
    }

    fn node(
        &self,
        id: NodeId,
        labels_added: &[LabelId],
        labels_removed: &[LabelId],
        set: &[(PropId, &[u8])],
        removed: &[PropId],
    ) -> Result<(), DataError> {
        for &label in labels_removed {
            self.member(Some(label), id, false);
            self.columns(Owner::Nodes(label), id.0, |_| Ok(CellChange::Gone))?;
        }
        for &label in labels_added {
            self.member(Some(label), id, true);
            self.columns(Owner::Nodes(label), id.0, |_| Ok(CellChange::Joined))?;
        }
        if set.is_empty() && removed.is_empty() {
            return Ok(());
        }
        // The change does not list the node's labels: each column knows its own nodes.
        for &owner in self.registry.columns.keys() {
            if matches!(owner, Owner::Nodes(label) if !labels_removed.contains(&label)) {
                self.values(owner, id.0, set, removed)?;
            }
        }
        Ok(())
    }

    /// Applies set and removed properties to a record's columns; a column ignores records that are not its
    /// own.
    fn values(
        &self,
        owner: Owner,
        id: u64,
        set: &[(PropId, &[u8])],
        removed: &[PropId],
    ) -> Result<(), DataError> {
        let columns = self.registry.columns.get(&owner);
        for (path, slot) in columns.into_iter().flatten() {
            let Some((first, rest)) = path.split_first() else {
                continue;
            };
            let cell = if let Some((_, raw)) = set.iter().find(|(prop, _)| prop == first) {
                if self.is_field(path) {
                    Cell::Rows
                } else {
                    cell_at(raw, rest, self.catalog)?
                }
            } else if removed.contains(first) {
                if self.is_field(path) {
                    Cell::Rows
                } else {
                    Cell::Value(Value::Null)
                }
            } else {
                continue;
            };
            self.cell(slot, id, &CellChange::Set(cell));
        }
        Ok(())
    }
}

/// Commits being applied. If that panics, they are not applied again (some would be applied twice); instead
/// no view answers from the first of them on.
struct Unfinished<'a> {
    inbox: &'a Inbox,
    registry: &'a Registry,
    applying: &'a mut Commits,
    done: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.done {
            // Each version separately: the base of a view under construction may already include the first
            // ones.
            for (version, _) in self.applying.iter() {
                self.registry.each(|_, slot| slot.stop_answering(version));
            }
        }
        self.applying.clear();
        self.inbox.mark_applied();
    }
}

/// While a commit is applied, the deltas are accounted in the memory budget after this many bytes of its changes.
const ACCOUNTED_CHANGE_BYTES: usize = 1 << 16;

#[cfg(test)]
thread_local! {
    /// Test hook: applying this commit panics on this thread.
    pub(crate) static PANICS_AT: std::cell::Cell<Version> = const { std::cell::Cell::new(0) };
}

/// Drops the views whose delta no longer fits into the memory budget: they are built again when a reader requests them.
fn drop_oversized(registry: &Registry) {
    registry.each(|_, slot| {
        slot.account_building();
        if !slot.account_delta() {
            drop(slot.clear());
        }
    });
}

impl Views {
    /// Applies a commit to the views of `registry`.
    pub(crate) fn apply_commit(
        &self,
        registry: &Registry,
        version: Version,
        changes: &[u8],
    ) -> Result<(), DataError> {
        match self.store.upgrade() {
            Some(store) => {
                Self::apply_with_catalog(registry, &store, &store.catalog(), version, changes)
            }
            None => Ok(()),
        }
    }

    /// As [`Views::apply_commit`], with the catalog that the changes refer to.
    fn apply_with_catalog(
        registry: &Registry,
        store: &DataStore,
        catalog: &Catalog,
        version: Version,
        changes: &[u8],
    ) -> Result<(), DataError> {
        let applying = CommitApplier {
            registry,
            store,
            catalog,
            version,
        };
        #[cfg(test)]
        assert!(PANICS_AT.get() != version, "injected panic");
        let mut changes = ChangeSet::changes_in(changes)?;
        let mut unaccounted = changes.remaining_bytes();
        while let Some(change) = changes.next() {
            applying.change(&change?)?;
            if unaccounted - changes.remaining_bytes() >= ACCOUNTED_CHANGE_BYTES {
                unaccounted = changes.remaining_bytes();
                drop_oversized(registry);
            }
        }
        Ok(())
    }

    /// Applies all commits in the inbox. The caller holds the feed.
    pub(crate) fn apply_waiting(&self, feed: &mut Feed) {
        let Feed { applied, applying } = feed;
        *applied = self.inbox.take(applying);
        if applying.is_empty() {
            return;
        }
        let store = self.store.upgrade();
        let known = store.as_ref().map(|store| (store, store.catalog()));
        let registry = self.registry.read();
        let mut unfinished = Unfinished {
            inbox: &self.inbox,
            registry: &registry,
            applying,
            done: false,
        };
        for (version, changes) in unfinished.applying.iter() {
            // The database is closed: no reader is left.
            let Some((store, catalog)) = &known else {
                break;
            };
            if Self::apply_with_catalog(&registry, store, catalog, version, changes).is_err() {
                // The change stream is corrupt: views stop answering, and the rows report the error.
                registry.each(|_, slot| slot.stop_answering(version));
            }
        }
        unfinished.done = true;
        drop(unfinished);
        self.maintain(&registry);
    }

    /// Applies a commit that did not fit into the inbox, directly from the caller's buffer, after those in
    /// the inbox.
    fn apply_at_once(&self, version: Version, changes: &[u8]) {
        let mut feed = self.feed();
        let registry = self.registry.read();
        if self.apply_commit(&registry, version, changes).is_err() {
            registry.each(|_, slot| slot.stop_answering(version));
        }
        feed.applied = version;
        self.inbox.applied_at_once(version);
        self.maintain(&registry);
    }

    /// Schedules merges of long deltas; drops views that cannot answer the newest versions, or whose delta no
    /// longer fits into the budget.
    fn maintain(&self, registry: &Registry) {
        registry.each(|kind, slot| {
            slot.account_building();
            let Some(lengths) = slot.lengths() else {
                return;
            };
            let many = lengths.delta >= self.options.merge_after;
            if !many && lengths.delta_heap_bytes < ACCOUNTED_HEAP_BYTES {
                return;
            }
            if !lengths.newest || !slot.account_delta() {
                drop(slot.clear());
                return;
            }
            let share = usize::try_from(lengths.base / MERGED_SHARE).unwrap_or(usize::MAX);
            let far = many && lengths.delta >= share;
            if (far || lengths.delta_heap_bytes >= MERGED_HEAP_BYTES)
                && !slot.busy().swap(true, Ordering::AcqRel)
                && !self.worker.push(&self.this, Job::Merge(kind))
            {
                drop(slot.clear());
                slot.busy().store(false, Ordering::Release);
            }
        });
    }
}

impl CommitObserver for Views {
    fn committing(&self, version: Version, changes: &[u8]) {
        if changes.is_empty() {
            return;
        }
        let then = self.inbox.put(version, changes);
        if let Some(keeping) = &self.keeping
            && keeping.note_streamed(changes.len())
        {
            self.worker.push(&self.this, Job::ReviewFiles);
        }
        // If the worker accepts no job, this thread applies the commits.
        let woken = then == AfterPut::WakeWorker && self.worker.push(&self.this, Job::ApplyCommits);
        match then {
            AfterPut::ApplyNow => self.apply_at_once(version, changes),
            AfterPut::WakeWorker if !woken => drop(self.feed()),
            _ => {}
        }
    }

    fn abandoned(&self, from: Version) {
        let mut feed = self.feed();
        self.inbox.abandon(from);
        self.inbox.mark_applied();
        feed.applied = feed.applied.min(from.saturating_sub(1));
        self.registry.read().each(|_, slot| slot.abandon(from));
    }

    fn unsettled(&self, from: Version) {
        let mut feed = self.feed();
        self.inbox.abandon(from);
        self.inbox.mark_applied();
        // Readers of earlier snapshots need not wait for them.
        feed.applied = feed.applied.min(from.saturating_sub(1));
        self.registry
            .read()
            .each(|_, slot| slot.stop_answering(from));
    }

    fn loading(&self, load: &Loading) -> Option<Box<dyn LoadSink>> {
        let files = LoadFiles::begin(self.this.upgrade()?, load)?;
        Some(Box::new(files))
    }
}
