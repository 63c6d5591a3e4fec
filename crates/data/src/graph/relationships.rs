//! Writing relationships: stored once, with adjacency entries for both ends.

use std::ops::Range;

use isomer_layout::{
    DataError,
    convergent::position::ConvergentOwner,
    graph::{
        rows::{RelRow, row_of},
        state::{EntryOwner, RecordId, RelState},
    },
    index::EntryChanges,
    keyspace::{self, Side},
    properties::{merge_top, set_path, without_nulls},
    stream::change::Change,
};
use isomer_value::{
    Map, NodeId, RelId, TypeId, Value,
    record::{RecordBuilder, RecordRef},
};

use crate::{Graph, GraphMut, store::PropNames};

impl GraphMut<'_> {
    /// Creates a relationship between two existing nodes. Nulls among `properties` are left out.
    ///
    /// # Errors
    /// [`DataError::NotFound`] if an end does not exist; [`DataError::Violates`] and [`DataError::NotUnique`] if
    /// it breaks a constraint of its type.
    pub fn create_relationship(
        &mut self,
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
        properties: &Map,
    ) -> Result<RelId, DataError> {
        self.tx.check_writable()?;
        self.note_ends(source, target)?;
        let id = self.tx.graph().allocate_relationships(type_id, 1)?.start;
        let row = RelRow {
            id: RelId(id),
            type_id,
            source,
            target,
        };
        let properties = without_nulls(properties);
        let mut record = self.tx.scratch.take();
        match properties.is_empty() {
            true => bare_record(row, &mut record)?,
            false => record = self.tx.graph().encode_relationship(row, &properties)?,
        }
        let entries = self.check_change_of_relationship(row, None, Some(&properties))?;
        let mut key = self.tx.scratch.take();
        self.put_relationship(row, &record, &mut key)?;
        self.move_entries(EntryOwner::Relationship(row), &entries)?;
        self.tx.scratch.keep(record);
        self.tx.scratch.keep(key);
        Ok(row.id)
    }

    /// Creates relationships of one type without properties, from the first to the second of each two `ends`, in order,
    /// and appends them to `made`: equivalent to [`GraphMut::create_relationship`] for each of them, with less work.
    ///
    /// # Errors
    /// As there. Where an end does not exist, none is created.
    pub fn create_relationships(
        &mut self,
        type_id: TypeId,
        ends: &[(NodeId, NodeId)],
        made: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        self.tx.check_writable()?;
        for &(source, target) in ends {
            self.note_ends(source, target)?;
        }
        let is_ruled = self.tx.names().schema.concerns_type(type_id);
        let (mut record, mut key) = (self.tx.scratch.take(), self.tx.scratch.take());
        let mut left = ends;
        while !left.is_empty() {
            let ids = self
                .tx
                .graph()
                .allocate_relationships(type_id, left.len() as u64)?;
            let (now, later) = left.split_at((ids.end - ids.start) as usize);
            left = later;
            for (id, &(source, target)) in ids.zip(now) {
                let row = RelRow {
                    id: RelId(id),
                    type_id,
                    source,
                    target,
                };
                record.clear();
                bare_record(row, &mut record)?;
                if is_ruled {
                    // Without properties it has no entries.
                    self.check_change_of_relationship(row, None, Some(&Map::new()))?;
                }
                self.put_relationship(row, &record, &mut key)?;
                made.push(row);
            }
        }
        self.tx.scratch.keep(record);
        self.tx.scratch.keep(key);
        Ok(())
    }

    /// Writes a new relationship, whose ends exist. `key` is a buffer for keys.
    fn put_relationship(
        &mut self,
        row: RelRow,
        record: &[u8],
        key: &mut Vec<u8>,
    ) -> Result<(), DataError> {
        let RelRow {
            id,
            type_id,
            source,
            target,
        } = row;
        self.tx.changes.dirty.link(type_id);
        self.tx
            .footprint_mut()
            .create_relationship(id, type_id, source, target);
        key.clear();
        keyspace::push_relationship(key, id);
        self.tx.put(key, record)?;
        for (node, side, other) in [(source, Side::Out, target), (target, Side::In, source)] {
            key.clear();
            keyspace::push_adjacency(key, node, side, type_id, other, id);
            self.tx.put(key, b"")?;
        }
        self.count_relationship(type_id, 1);
        self.tx.log(&Change::RelationshipCreated { id, record });
        Ok(())
    }

    /// As [`GraphMut::set_node_property`].
    pub fn set_relationship_property(
        &mut self,
        id: RelId,
        path: &[&str],
        value: Value,
    ) -> Result<(), DataError> {
        if self.tx.fields_mut().route_to_convergent_field(
            ConvergentOwner::Relationship(id),
            path,
            &value,
        )? {
            return Ok(());
        }
        self.update_relationship(id, |properties| set_path(properties, path, value))?;
        self.tx.replication_mut().resolve_conflicts(
            ConvergentOwner::Relationship(id),
            &mut path.first().copied().into_iter(),
        )
    }

    /// As [`GraphMut::replace_node_properties`].
    pub fn replace_relationship_properties(
        &mut self,
        id: RelId,
        properties: &Map,
    ) -> Result<(), DataError> {
        self.update_relationship(id, |own| {
            *own = without_nulls(properties);
            Ok(())
        })?;
        let mut names = properties.iter().map(|(name, _)| &**name);
        self.tx
            .replication_mut()
            .resolve_conflicts(ConvergentOwner::Relationship(id), &mut names)
    }

    /// As [`GraphMut::merge_node_properties`].
    pub fn merge_relationship_properties(
        &mut self,
        id: RelId,
        properties: &Map,
    ) -> Result<(), DataError> {
        for (name, _) in properties.iter().filter(|(_, value)| value.is_null()) {
            self.tx.fields_mut().route_to_convergent_field(
                ConvergentOwner::Relationship(id),
                &[name],
                &Value::Null,
            )?;
        }
        self.update_relationship(id, |own| {
            merge_top(own, properties);
            Ok(())
        })?;
        let mut names = properties.iter().map(|(name, _)| &**name);
        self.tx
            .replication_mut()
            .resolve_conflicts(ConvergentOwner::Relationship(id), &mut names)
    }

    /// Deletes a relationship; returns whether it existed.
    pub fn delete_relationship(&mut self, id: RelId) -> Result<bool, DataError> {
        self.tx.check_writable()?;
        let Some((row, old)) = self.tx.graph().load_relationship(id)? else {
            return Ok(false);
        };
        let RelRow {
            type_id,
            source,
            target,
            ..
        } = row;
        let entries = self.check_change_of_relationship(row, Some(&old), None)?;
        self.tx.changes.dirty.link(type_id);
        self.tx.changes.dirty.link_end(source);
        self.tx.changes.dirty.link_end(target);
        self.tx
            .footprint_mut()
            .delete_relationship(id, type_id, source, target);
        self.tx.delete(&keyspace::relationship(id))?;
        self.tx
            .delete(&keyspace::adjacency(source, Side::Out, type_id, target, id))?;
        self.tx
            .delete(&keyspace::adjacency(target, Side::In, type_id, source, id))?;
        self.count_relationship(type_id, -1);
        self.move_entries(EntryOwner::Relationship(row), &entries)?;
        self.tx
            .fields_mut()
            .drop_fields(ConvergentOwner::Relationship(id))?;
        self.tx.log(&Change::RelationshipDeleted {
            id,
            type_id,
            source,
            target,
        });
        Ok(true)
    }

    fn update_relationship(
        &mut self,
        id: RelId,
        change: impl FnOnce(&mut Map) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.tx.check_writable()?;
        let (row, old) = self.tx.graph().load_relationship(id)?.ok_or_else(|| {
            DataError::NotFound(format!(
                "relationship {id} does not exist, or was deleted in this transaction"
            ))
        })?;
        let mut new = old.clone();
        change(&mut new)?;
        if !self.tx.replication().is_merging() {
            self.tx.fields_mut().strip_convergent_fields(
                ConvergentOwner::Relationship(id),
                &old,
                &mut new,
            )?;
        }
        if self.tx.graph().is_unchanged(&old, &new)? {
            return Ok(());
        }
        let record = self.tx.graph().encode_relationship(row, &new)?;
        let changes = self.tx.graph().property_changes(&old, &new)?;
        let entries = self.check_change_of_relationship(row, Some(&old), Some(&new))?;
        self.tx.changes.dirty.relationship();
        self.tx.footprint_mut().change_relationship(id, row.type_id);
        self.tx.put(&keyspace::relationship(id), &record)?;
        self.move_entries(EntryOwner::Relationship(row), &entries)?;
        let (set, removed) = changes.parts();
        self.tx.log(&Change::RelationshipChanged {
            id,
            type_id: row.type_id,
            set,
            removed,
        });
        Ok(())
    }

    /// Refuses a change of a relationship's properties from `old` (absent: it is created) to `new` (absent: it is
    /// deleted) that breaks a constraint of its type; while changes of another replica are applied, records it instead.
    /// Returns the index entries that change.
    fn check_change_of_relationship(
        &mut self,
        row: RelRow,
        old: Option<&Map>,
        new: Option<&Map>,
    ) -> Result<EntryChanges, DataError> {
        let RelRow { id, type_id, .. } = row;
        if !self.tx.names().schema.concerns_type(type_id) {
            return Ok(EntryChanges::default());
        }
        let state = |properties: Option<&Map>| {
            properties.map(|properties| RelState {
                type_id,
                properties: properties.clone(),
            })
        };
        let (old, new) = (state(old), state(new));
        let record = RecordId::Relationship(id);
        let mut indexes = self.tx.indexes_mut();
        let entries = indexes.entry_changes(record, old.as_ref(), new.as_ref())?;
        if self.tx.replication().is_merging() {
            let hooks = self.tx.replication().hooks();
            let hooks = hooks.expect("only replication merges");
            hooks.note_refused_relationship(self.tx, id, new.as_ref(), &entries)?;
        } else {
            let mut constraints = self.tx.constraints_mut();
            constraints.check_change(record, new.as_ref(), &entries)?;
        }
        Ok(entries)
    }

    /// Checks that both ends of a new relationship exist.
    fn note_ends(&mut self, source: NodeId, target: NodeId) -> Result<(), DataError> {
        for (end, verb) in [(source, "starts"), (target, "ends")] {
            if self.note_end(end, verb)? {
                self.tx.changes.dirty.link_end(end);
            }
        }
        Ok(())
    }

    /// Checks that an end exists, once for each node, as long as none is deleted; returns whether it was not known yet.
    fn note_end(&mut self, id: NodeId, verb: &str) -> Result<bool, DataError> {
        if self.tx.changes.ends.contains(id.0) {
            return Ok(false);
        }
        self.tx.graph().check_end(id, verb)?;
        self.tx.changes.ends.insert(id.0);
        Ok(true)
    }

    fn count_relationship(&mut self, type_id: TypeId, change: i64) {
        self.tx.changes.deltas.add_relationships(type_id, change);
    }
}

impl Graph<'_> {
    /// New ids of relationships of a type: as many as are available, at most `most`.
    fn allocate_relationships(self, type_id: TypeId, most: u64) -> Result<Range<u64>, DataError> {
        let store = self.tx.store();
        let ids = &store.shared().relationships;
        ids.allocate_run(&**store.engine(), type_id.0, most)
    }

    /// Type, ends and properties, observed.
    pub(crate) fn load_relationship(self, id: RelId) -> Result<Option<(RelRow, Map)>, DataError> {
        let Some(bytes) = self.tx.read().get(&keyspace::relationship(id))? else {
            self.tx.footprint().read_type_members(None);
            return Ok(None);
        };
        let record = RecordRef::new(&bytes)?;
        let row = row_of(id, &record)?;
        self.tx.footprint().read_relationship(id, row.type_id);
        Ok(Some((row, record.properties(&*self.tx.names().names)?)))
    }

    /// Type and properties, observed.
    pub(crate) fn load_rel_state(self, id: RelId) -> Result<Option<RelState>, DataError> {
        let loaded = self.load_relationship(id)?;
        Ok(loaded.map(|(row, properties)| RelState {
            type_id: row.type_id,
            properties,
        }))
    }

    fn encode_relationship(self, row: RelRow, properties: &Map) -> Result<Vec<u8>, DataError> {
        let mut names = PropNames::new(self.tx.store());
        let mut builder = RecordBuilder::relationship(row.type_id, row.source, row.target);
        match builder.put_all(properties, &mut names) {
            Ok(()) => Ok(builder.finish()?),
            Err(error) => Err(names.explain(error)),
        }
    }

    fn check_end(self, id: NodeId, verb: &str) -> Result<(), DataError> {
        let Some(bytes) = self.tx.read().get(&keyspace::node(id))? else {
            self.tx.footprint().read_absent_node();
            return Err(DataError::NotFound(format!(
                "the relationship {verb} at node {id}, which does not exist: create it first"
            )));
        };
        let home = RecordRef::new(&bytes)?.labels().next();
        self.tx.footprint().read_exists(id, home);
        Ok(())
    }
}

/// Appends the record of a relationship without properties.
fn bare_record(row: RelRow, out: &mut Vec<u8>) -> Result<(), DataError> {
    RecordBuilder::relationship(row.type_id, row.source, row.target).finish_into(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isomer_storage::MemoryEngine;

    use super::*;
    use crate::{Access, DataStore, DataStoreOptions, Transaction};

    const NODES: usize = 6;

    /// A store with some nodes, the first of which had a relationship before.
    fn store() -> (DataStore, Vec<NodeId>) {
        let engine = Arc::new(MemoryEngine::new());
        let store = DataStore::open(engine, DataStoreOptions::default()).unwrap();
        let mut tx = store.begin(Access::Write).unwrap();
        let new = |_| tx.graph_mut().create_node(&[], &Map::new()).unwrap();
        let nodes: Vec<NodeId> = (0..NODES).map(new).collect();
        let known = tx.name_ids().intern_type("KNOWS").unwrap();
        tx.graph_mut()
            .create_relationship(known, nodes[0], nodes[1], &Map::new())
            .unwrap();
        tx.commit().unwrap();
        (store, nodes)
    }

    fn create_one_by_one(
        tx: &mut Transaction,
        type_id: TypeId,
        ends: &[(NodeId, NodeId)],
    ) -> Vec<RelRow> {
        let create = |&(source, target): &(NodeId, NodeId)| RelRow {
            id: tx
                .graph_mut()
                .create_relationship(type_id, source, target, &Map::new())
                .unwrap(),
            type_id,
            source,
            target,
        };
        ends.iter().map(create).collect()
    }

    /// Creating many in one call, over several extents of ids, writes and logs the same as one by one: with existing
    /// nodes and a node of the transaction itself, with loops and parallel relationships.
    #[test]
    fn many_are_created_as_one_by_one() {
        let written = |at_once: bool| {
            let (store, mut nodes) = store();
            let mut tx = store.begin(Access::Write).unwrap();
            nodes.push(tx.graph_mut().create_node(&[], &Map::new()).unwrap());
            let of = |number: usize| nodes[number % nodes.len()];
            let ends: Vec<_> = (0..300).map(|at| (of(at), of(at / 3))).collect();
            let (one, other) = ends.split_at(200);
            let mut made = Vec::new();
            for (ends, name) in [(one, "KNOWS"), (&[][..], "KNOWS"), (other, "LIKES")] {
                let type_id = tx.name_ids().intern_type(name).unwrap();
                match at_once {
                    true => tx
                        .graph_mut()
                        .create_relationships(type_id, ends, &mut made)
                        .unwrap(),
                    false => made.extend(create_one_by_one(&mut tx, type_id, ends)),
                }
            }
            let mut guards = Vec::new();
            tx.footprint()
                .declare(&mut |granule, mode| guards.push((granule, format!("{mode:?}"))));
            guards.sort();
            let dirty = (
                tx.view_reads().dirty().linked().len(),
                tx.view_reads().dirty().types().len(),
            );
            let version = tx.commit().unwrap();
            let engine = store.engine();
            let entries = engine.stream(version - 1, 10, usize::MAX, false).unwrap();
            let mut pairs = Vec::new();
            let all = engine.snapshot().unwrap();
            isomer_layout::pairs::each_pair(&*all, &[], |key, value| {
                // Each database has a random identity.
                if key != isomer_layout::keyspace::IDENTITY {
                    pairs.push((key.to_vec(), value.to_vec()));
                }
                Ok(())
            })
            .unwrap();
            let entries: Vec<_> = entries.into_iter().map(|entry| entry.bytes).collect();
            (made, guards, dirty, entries, pairs)
        };
        let (at_once, one_by_one) = (written(true), written(false));
        assert_eq!(at_once.0.len(), 300);
        assert_eq!(at_once, one_by_one);
    }

    /// A missing end: nothing is created, also not for rows before it, and the transaction continues.
    #[test]
    fn a_missing_end_refuses_all() {
        let (store, nodes) = store();
        let mut tx = store.begin(Access::Write).unwrap();
        let known = tx.name_ids().intern_type("KNOWS").unwrap();
        let ends = [
            (nodes[0], nodes[1]),
            (nodes[2], NodeId(999)),
            (nodes[2], nodes[3]),
        ];
        let mut made = Vec::new();
        let refused = tx
            .graph_mut()
            .create_relationships(known, &ends, &mut made)
            .unwrap_err();
        assert!(
            refused.to_string().contains("ends at node 999"),
            "{refused}"
        );
        assert!(made.is_empty() && !tx.has_writes());
        tx.graph_mut()
            .create_relationships(known, &ends[..1], &mut made)
            .unwrap();
        assert_eq!(made.len(), 1);
        tx.commit().unwrap();
    }
}
