//! Following commits: each is handed in before anybody can see it, and told to the views before anybody looks at it there.

use std::sync::atomic::Ordering;

use isomer_data::{
    Catalog, Change, ChangeSet, CommitObserver, ConvergentOwner, DataError, LoadSink, Loading,
    Store, Version,
};
use isomer_value::{LabelId, NodeId, PropId, TypeId, Value, record::RecordRef};

use crate::{
    Cell, Owner, Side, Views,
    adjacency::{Link, small},
    column::{CellChange, cell_at, cell_of},
    inbox::{Commits, Inbox, Then},
    loading::LoadFiles,
    registry::Registry,
    slot::Slot,
    views::Feed,
    worker::Job,
};

/// A delta is merged when it has this part of its base: a merge writes the base anew, and readers of changed nodes are
/// the slower the more of them there are.
const MERGED_SHARE: u64 = 64;

/// So many bytes of texts, lists and maps in a delta are merged however few changes they are ...
const MERGED_HEAP_BYTES: usize = 16 << 20;
/// ... and from so many on the budget is told of them.
const SETTLED_HEAP_BYTES: usize = 1 << 20;

/// A relationship that came or went.
struct LinkChange {
    type_id: TypeId,
    source: NodeId,
    target: NodeId,
    rel: u64,
    added: bool,
}

/// One commit being told.
struct Telling<'a> {
    registry: &'a Registry,
    store: &'a Store,
    catalog: &'a Catalog,
    version: Version,
}

impl Telling<'_> {
    fn change(&self, change: &Change<'_>) -> Result<(), DataError> {
        match change {
            Change::RelationshipCreated { id, record } => {
                if self.registry.adjacency.is_empty() && self.registry.columns.is_empty() {
                    return Ok(());
                }
                let record = RecordRef::new(record)?;
                let ends = record.endpoints();
                let (type_id, source, target) = ends.ok_or_else(|| DataError::Corrupt {
                    what: format!("the change stream tells of relationship {id} as of a node"),
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
                self.lose_columns(Owner::Relationships(*type_id));
                for side in Side::BOTH {
                    if let Some(slot) = self.registry.adjacency.get(&(*type_id, side)) {
                        slot.lose(self.version);
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
                        slot.lose(self.version);
                    }
                }
                self.lose_columns(Owner::Nodes(*label));
            }
            change => {
                if let Some((owner, prop)) = change.field() {
                    self.field(owner, prop);
                }
            }
        }
        Ok(())
    }

    /// Whether a property may be a convergent field: what a record holds of it is not what is read, and what an operation did to
    /// it is not told by the operation alone. The rows say it, until a merge has read them.
    fn is_field(&self, path: &[PropId]) -> bool {
        path.first()
            .is_some_and(|prop| self.store.is_convergent(*prop))
    }

    /// What a new record has at a path. It may have been there before, with fields that outlived it.
    fn cell_in(&self, record: &RecordRef<'_>, path: &[PropId]) -> Result<Cell, DataError> {
        match self.is_field(path) {
            true => Ok(Cell::Rows),
            false => cell_of(record, path, self.catalog),
        }
    }

    /// A convergent field changed: of whose label or type is not told, but a column knows its own.
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
        for side in Side::BOTH {
            let Some(slot) = self.registry.adjacency.get(&(change.type_id, side)) else {
                continue;
            };
            let (Some(source), Some(target), Some(rel)) = ids else {
                slot.lose(self.version);
                continue;
            };
            let (node, other) = match side {
                Side::Out => (source, target),
                Side::In => (target, source),
            };
            let added = change.added;
            slot.tell(self.version, node, &Link { other, rel, added }, |_| true);
        }
    }

    fn member(&self, label: Option<LabelId>, id: NodeId, member: bool) {
        if let Some(slot) = self.registry.members.get(&label) {
            match small(id.0) {
                Some(node) => slot.tell(self.version, node, &member, |_| true),
                None => slot.lose(self.version),
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

    /// Records of a bulk load are not told one by one.
    fn lose_columns(&self, owner: Owner) {
        let columns = self.registry.columns.get(&owner);
        for (_, slot) in columns.into_iter().flatten() {
            slot.lose(self.version);
        }
    }

    fn cell(&self, slot: &Slot<crate::column::ColumnBase>, id: u64, change: &CellChange) {
        match small(id) {
            Some(node) => slot.tell(self.version, node, change, |generation| {
                // What is set on nodes of other labels is nothing of this column's.
                !matches!(change, CellChange::Set(_))
                    || generation.base.is_member(node)
                    || generation.delta.touched(node)
            }),
            None => slot.lose(self.version),
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
        // Which labels the node carries is not told: a column knows its own nodes.
        for &owner in self.registry.columns.keys() {
            if matches!(owner, Owner::Nodes(label) if !labels_removed.contains(&label)) {
                self.values(owner, id.0, set, removed)?;
            }
        }
        Ok(())
    }

    /// Properties were set and removed on a record, which is this owner's if its columns say so.
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
                match self.is_field(path) {
                    true => Cell::Rows,
                    false => cell_at(raw, rest, self.catalog)?,
                }
            } else if removed.contains(first) {
                match self.is_field(path) {
                    true => Cell::Rows,
                    false => Cell::Value(Value::Null),
                }
            } else {
                continue;
            };
            self.cell(slot, id, &CellChange::Set(cell));
        }
        Ok(())
    }
}

/// Commits that are being told. Where that panics, they are not told again, some of them twice: no view answers from the first
/// of them on.
struct Unfinished<'a> {
    inbox: &'a Inbox,
    registry: &'a Registry,
    telling: &'a mut Commits,
    done: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.done {
            // Each by itself: a view that is being made may have read the first ones already.
            for (version, _) in self.telling.iter() {
                self.registry.each(|_, slot| slot.lose(version));
            }
        }
        self.telling.clear();
        self.inbox.told();
    }
}

#[cfg(test)]
thread_local! {
    /// Telling of this commit panics on this thread.
    pub(crate) static PANICS_AT: std::cell::Cell<Version> = const { std::cell::Cell::new(0) };
}

impl Views {
    /// Tells a commit to the views of `registry`.
    pub(crate) fn tell(
        &self,
        registry: &Registry,
        version: Version,
        changes: &[u8],
    ) -> Result<(), DataError> {
        match self.store.upgrade() {
            Some(store) => Self::tell_of(registry, &store, &store.catalog(), version, changes),
            None => Ok(()),
        }
    }

    /// As [`Views::tell`], with the names that the changes are told in.
    fn tell_of(
        registry: &Registry,
        store: &Store,
        catalog: &Catalog,
        version: Version,
        changes: &[u8],
    ) -> Result<(), DataError> {
        let telling = Telling {
            registry,
            store,
            catalog,
            version,
        };
        #[cfg(test)]
        assert!(PANICS_AT.get() != version, "as told");
        let set = ChangeSet::decode(changes)?;
        set.changes
            .iter()
            .try_for_each(|change| telling.change(change))
    }

    /// Tells what was handed in. The feed is held.
    pub(crate) fn tell_waiting(&self, feed: &mut Feed) {
        let Feed { told, telling } = feed;
        *told = self.inbox.take(telling);
        if telling.is_empty() {
            return;
        }
        let store = self.store.upgrade();
        let known = store.as_ref().map(|store| (store, store.catalog()));
        let registry = self.registry.read();
        let mut unfinished = Unfinished {
            inbox: &self.inbox,
            registry: &registry,
            telling,
            done: false,
        };
        for (version, changes) in unfinished.telling.iter() {
            // Where nobody has the database any more, nobody asks.
            let Some((store, catalog)) = &known else {
                break;
            };
            if Self::tell_of(&registry, store, catalog, version, changes).is_err() {
                // The rows will say what is wrong.
                registry.each(|_, slot| slot.lose(version));
            }
        }
        unfinished.done = true;
        drop(unfinished);
        self.tend(&registry);
    }

    /// Tells a commit that was not handed in, from where it lies, behind those that were.
    fn tell_at_once(&self, version: Version, changes: &[u8]) {
        let mut feed = self.feed();
        let registry = self.registry.read();
        if self.tell(&registry, version, changes).is_err() {
            registry.each(|_, slot| slot.lose(version));
        }
        feed.told = version;
        self.inbox.told_at_once(version);
        self.tend(&registry);
    }

    /// Merges deltas that have grown far, and drops those that nobody can be answered from or that the budget has no
    /// room for.
    fn tend(&self, registry: &Registry) {
        registry.each(|kind, slot| {
            slot.settle_building();
            let Some(lengths) = slot.lengths() else {
                return;
            };
            let many = lengths.delta >= self.options.merge_after;
            if !many && lengths.delta_heap_bytes < SETTLED_HEAP_BYTES {
                return;
            }
            if !lengths.newest || !slot.settle_budget() {
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
            && keeping.told(changes.len())
        {
            self.worker.push(&self.this, Job::LookAfterFiles);
        }
        // Where the worker takes nothing, who looks tells it.
        let woken = then == Then::Wake && self.worker.push(&self.this, Job::Tell);
        match then {
            Then::Tell => self.tell_at_once(version, changes),
            Then::Wake if !woken => drop(self.feed()),
            _ => {}
        }
    }

    fn abandoned(&self, from: Version) {
        let mut feed = self.feed();
        self.inbox.abandon(from);
        self.inbox.told();
        feed.told = feed.told.min(from.saturating_sub(1));
        self.registry.read().each(|_, slot| slot.abandon(from));
    }

    fn unsettled(&self, from: Version) {
        let mut feed = self.feed();
        self.inbox.abandon(from);
        self.inbox.told();
        // Who reads a snapshot of before need not wait for them.
        feed.told = feed.told.min(from.saturating_sub(1));
        self.registry.read().each(|_, slot| slot.lose(from));
    }

    fn loading(&self, load: &Loading) -> Option<Box<dyn LoadSink>> {
        let files = LoadFiles::begin(self.this.upgrade()?, load)?;
        Some(Box::new(files))
    }
}
