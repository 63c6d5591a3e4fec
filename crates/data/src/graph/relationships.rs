//! Writing relationships: stored once, found from both ends.

use isomer_value::{
    Map, NodeId, RelId, TypeId, Value,
    record::{RecordBuilder, RecordRef},
};

use super::{
    nodes::{merge_top, without_nulls},
    records::row_of,
};
use crate::{
    ConvergentOwner, DataError, RelRow, Transaction,
    keyspace::{self, Side},
    properties::set_path,
    store::PropNames,
    stream::Change,
};

impl Transaction {
    /// Creates a relationship between two existing nodes. Nulls among `properties` are left out.
    ///
    /// # Errors
    /// [`DataError::NotFound`] where an end does not exist.
    pub fn create_relationship(
        &mut self,
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
        properties: &Map,
    ) -> Result<RelId, DataError> {
        self.check_writable()?;
        for (end, verb) in [(source, "starts"), (target, "ends")] {
            if self.note_end(end, verb)? {
                self.dirty_mut().link_end(end);
            }
        }
        let id = RelId(
            self.store()
                .shared()
                .relationships
                .allocate(&**self.store().engine(), type_id.0)?,
        );
        let row = RelRow {
            id,
            type_id,
            source,
            target,
        };
        let mut record = self.take_scratch();
        match properties.is_empty() {
            true => {
                RecordBuilder::relationship(type_id, source, target).finish_into(&mut record)?;
            }
            false => record = self.encode_relationship(row, &without_nulls(properties))?,
        }
        self.dirty_mut().link(type_id);
        self.footprint_mut()
            .create_relationship(id, type_id, source, target);
        let mut key = self.take_scratch();
        keyspace::push_relationship(&mut key, id);
        self.put(&key, &record)?;
        for (node, side, other) in [(source, Side::Out, target), (target, Side::In, source)] {
            key.clear();
            keyspace::push_adjacency(&mut key, node, side, type_id, other, id);
            self.put(&key, b"")?;
        }
        self.count_relationship(type_id, 1);
        self.log(&Change::RelationshipCreated {
            id,
            record: &record,
        });
        self.keep_scratch(record);
        self.keep_scratch(key);
        Ok(id)
    }

    /// As [`Transaction::set_node_property`].
    pub fn set_relationship_property(
        &mut self,
        id: RelId,
        path: &[&str],
        value: Value,
    ) -> Result<(), DataError> {
        if self.divert(ConvergentOwner::Relationship(id), path, &value)? {
            return Ok(());
        }
        self.update_relationship(id, |properties| set_path(properties, path, value))?;
        self.choose(ConvergentOwner::Relationship(id), path.first().copied())
    }

    /// As [`Transaction::replace_node_properties`].
    pub fn replace_relationship_properties(
        &mut self,
        id: RelId,
        properties: &Map,
    ) -> Result<(), DataError> {
        self.update_relationship(id, |own| {
            *own = without_nulls(properties);
            Ok(())
        })?;
        let names = properties.iter().map(|(name, _)| &**name);
        self.choose(ConvergentOwner::Relationship(id), names)
    }

    /// As [`Transaction::merge_node_properties`].
    pub fn merge_relationship_properties(
        &mut self,
        id: RelId,
        properties: &Map,
    ) -> Result<(), DataError> {
        for (name, _) in properties.iter().filter(|(_, value)| value.is_null()) {
            self.divert(ConvergentOwner::Relationship(id), &[name], &Value::Null)?;
        }
        self.update_relationship(id, |own| {
            merge_top(own, properties);
            Ok(())
        })?;
        let names = properties.iter().map(|(name, _)| &**name);
        self.choose(ConvergentOwner::Relationship(id), names)
    }

    /// Deletes a relationship; returns whether it was there.
    pub fn delete_relationship(&mut self, id: RelId) -> Result<bool, DataError> {
        self.check_writable()?;
        let Some((
            RelRow {
                type_id,
                source,
                target,
                ..
            },
            _,
        )) = self.load_relationship(id)?
        else {
            return Ok(false);
        };
        self.dirty_mut().link(type_id);
        self.dirty_mut().link_end(source);
        self.dirty_mut().link_end(target);
        self.footprint_mut()
            .delete_relationship(id, type_id, source, target);
        self.delete(&keyspace::relationship(id))?;
        self.delete(&keyspace::adjacency(source, Side::Out, type_id, target, id))?;
        self.delete(&keyspace::adjacency(target, Side::In, type_id, source, id))?;
        self.count_relationship(type_id, -1);
        self.drop_fields(ConvergentOwner::Relationship(id))?;
        self.log(&Change::RelationshipDeleted {
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
        self.check_writable()?;
        let (row, old) = self.load_relationship(id)?.ok_or_else(|| {
            DataError::NotFound(format!(
                "relationship {id} does not exist, or was deleted in this transaction"
            ))
        })?;
        let mut new = old.clone();
        change(&mut new)?;
        if !self.is_merging() {
            self.leave_fields(ConvergentOwner::Relationship(id), &old, &mut new)?;
        }
        if self.is_unchanged(&old, &new)? {
            return Ok(());
        }
        let record = self.encode_relationship(row, &new)?;
        let changes = self.property_changes(&old, &new)?;
        self.dirty_mut().relationship();
        self.footprint_mut().change_relationship(id, row.type_id);
        self.put(&keyspace::relationship(id), &record)?;
        let (set, removed) = changes.parts();
        self.log(&Change::RelationshipChanged {
            id,
            type_id: row.type_id,
            set,
            removed,
        });
        Ok(())
    }

    /// Type, ends and properties, observed.
    fn load_relationship(&self, id: RelId) -> Result<Option<(RelRow, Map)>, DataError> {
        let Some(bytes) = self.read().get(&keyspace::relationship(id))? else {
            self.footprint().read_type_members(None);
            return Ok(None);
        };
        let record = RecordRef::new(&bytes)?;
        let row = row_of(id, &record)?;
        self.footprint().read_relationship(id, row.type_id);
        Ok(Some((row, record.properties(&*self.catalog_ref().names)?)))
    }

    fn encode_relationship(&self, row: RelRow, properties: &Map) -> Result<Vec<u8>, DataError> {
        let mut names = PropNames::new(self.store());
        let mut builder = RecordBuilder::relationship(row.type_id, row.source, row.target);
        match builder.put_all(properties, &mut names) {
            Ok(()) => Ok(builder.finish()?),
            Err(error) => Err(names.explain(error)),
        }
    }

    /// Makes sure of an end, once for each node, as long as none is deleted; returns whether it was not known yet.
    fn note_end(&mut self, id: NodeId, verb: &str) -> Result<bool, DataError> {
        if self.ends_mut().contains(&id) {
            return Ok(false);
        }
        self.check_end(id, verb)?;
        self.ends_mut().insert(id);
        Ok(true)
    }

    fn check_end(&self, id: NodeId, verb: &str) -> Result<(), DataError> {
        let Some(bytes) = self.read().get(&keyspace::node(id))? else {
            self.footprint().read_absent_node();
            return Err(DataError::NotFound(format!(
                "the relationship {verb} at node {id}, which does not exist: create it first"
            )));
        };
        let home = RecordRef::new(&bytes)?.labels().next();
        self.footprint().read_exists(id, home);
        Ok(())
    }

    fn count_relationship(&mut self, type_id: TypeId, change: i64) {
        self.deltas_mut().add_relationships(type_id, change);
    }
}
