//! Changing the schema concurrently with reads and writes.
//!
//! Every writing transaction has observed the schema, so a committed change conflicts with those that began before it:
//! from then on every commit maintains the new index or constraint. Existing records are indexed in batches, each a
//! transaction that observes the records it reads and nothing else; a batch with a conflict runs again, smaller. When
//! all are indexed, a second small commit makes the index usable, or the constraint final. If the process ends in
//! between, the next opening drops the unfinished one.

pub(crate) mod clash;
mod edit;

use std::time::Duration;

use isomer_layout::{
    DataError, ErrorKind,
    catalog::{
        keepers::default_keeper,
        names::NameKind,
        schema::{
            Constraint, ConstraintKind, ConstraintSpec, FieldPath, IndexDef, IndexField, IndexSpec,
            IndexState, RecordScope, Schema, SchemaChange, SchemaOutcome, ScopeName,
        },
    },
    graph::state::{EntryOwner, RecordId},
    keyspace::{self, SCHEMA_VERSION, after_prefix},
    stream::change::{self, Change, Deltas},
};
use isomer_storage::{Durability, GuardMode, ProcessLock, lock_error};
use isomer_value::{IndexId, LabelId, NodeId, RelId, TypeId};
use parking_lot::MutexGuard;

use crate::{
    Access, DataStore, Graph, GraphRead, IndexesMut,
    footprint::{Item, Space},
    schema_change::{
        clash::{Clash, Existing, resolve_clash},
        edit::Edit,
    },
    store::check_name,
};

/// Most fields of an index.
const MAX_FIELDS: usize = 16;
/// Records of one batch; halved after a conflict.
pub(crate) const BATCH: usize = 512;

/// How long a schema change waits for another one before it asks again whether to continue.
const TURN: Duration = Duration::from_millis(50);

/// Asks whether to continue.
pub(crate) fn check(should_continue: &mut dyn FnMut() -> bool) -> Result<(), DataError> {
    if should_continue() {
        Ok(())
    } else {
        Err(DataError::Cancelled)
    }
}

impl DataStore {
    /// Changes the schema in separate transactions; returns when the change is complete and durable.
    ///
    /// # Errors
    /// [`DataError::SchemaExists`], [`DataError::NotFound`]; [`DataError::SchemaBroken`] if existing records do not
    /// fit, after which everything is as before.
    pub fn change_schema(&self, change: SchemaChange) -> Result<SchemaOutcome, DataError> {
        self.change_schema_while(change, &mut || true)
    }

    /// As [`DataStore::change_schema`], asking between any two batches of records whether to continue;
    /// [`DataError::Cancelled`] if not, after which everything is as before.
    pub fn change_schema_while(
        &self,
        change: SchemaChange,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        SchemaEditor::begin_while(self, should_continue)?.apply(change, should_continue)
    }
}

/// Changes the schema of a store in separate transactions, one change at a time: it holds the lock of schema changes.
pub(crate) struct SchemaEditor<'s> {
    pub(crate) store: &'s DataStore,
    _alone: MutexGuard<'s, ()>,
    /// Held among the processes of a shared database.
    _process: Option<ProcessLock>,
}

impl<'s> SchemaEditor<'s> {
    /// What a new definition is compared with.
    fn existing(&self) -> Existing {
        Existing::new(self.store.catalog(), self.store.endpoint_keepers())
    }

    /// Waits until no other schema change is under way.
    pub(crate) fn begin(store: &'s DataStore) -> Result<Self, DataError> {
        Self::begin_while(store, &mut || true)
    }

    /// The same, unless another process changes the schema.
    pub(crate) fn begin_if_free(store: &'s DataStore) -> Result<Option<Self>, DataError> {
        let alone = store.shared().schema_change.lock();
        Self::begin_locked(store, alone)
    }

    /// As [`SchemaEditor::begin`], asking from time to time whether to continue.
    fn begin_while(
        store: &'s DataStore,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<Self, DataError> {
        loop {
            if let Some(alone) = store.shared().schema_change.try_lock_for(TURN) {
                if let Some(editor) = Self::begin_locked(store, alone)? {
                    return Ok(editor);
                }
                std::thread::sleep(TURN);
            }
            check(should_continue)?;
        }
    }

    fn begin_locked(
        store: &'s DataStore,
        alone: MutexGuard<'s, ()>,
    ) -> Result<Option<Self>, DataError> {
        let Some(locks) = &store.options().process_locks else {
            return Ok(Some(Self {
                store,
                _alone: alone,
                _process: None,
            }));
        };
        let Some(process) = locks.try_lock("schema").map_err(lock_error)? else {
            return Ok(None);
        };
        // What the last holder of the lock committed is known from here on.
        store.engine().snapshot()?;
        let editor = Self {
            store,
            _alone: alone,
            _process: Some(process),
        };
        // Left by a process that has ended.
        editor.drop_unfinished()?;
        Ok(Some(editor))
    }

    fn apply(
        &self,
        change: SchemaChange,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        match change {
            SchemaChange::CreateIndex {
                spec,
                if_not_exists,
            } => self.create_index(spec, if_not_exists, should_continue),
            SchemaChange::DropIndex { name, if_exists } => self.drop_index(&name, if_exists),
            SchemaChange::CreateConstraint {
                spec,
                if_not_exists,
            } => self.create_constraint(spec, if_not_exists, should_continue),
            SchemaChange::KeepEndpoints {
                name,
                rel_type,
                if_not_exists,
            } => self.create_keeper(name, &rel_type, if_not_exists),
            SchemaChange::DropConstraint { name, if_exists } => {
                self.drop_constraint(&name, if_exists)
            }
        }
    }

    /// Drops unfinished indexes and constraints of an earlier process, and stores keys of version 0.1 as one constraint
    /// each.
    pub(crate) fn drop_unfinished(&self) -> Result<(), DataError> {
        let mut schema = self.next_schema();
        let indexes: Vec<_> = schema
            .indexes
            .extract_if(.., |index| index.state == IndexState::Building)
            .collect();
        let constraints: Vec<_> = schema
            .constraints
            .extract_if(.., |constraint| constraint.state == IndexState::Building)
            .collect();
        let parts = std::mem::take(&mut schema.key_parts);
        if indexes.is_empty() && constraints.is_empty() && parts.is_empty() {
            return Ok(());
        }
        let mut edit = Edit::default();
        for part in &parts {
            edit.remove_constraint(part);
        }
        if !parts.is_empty() {
            let is_key = |one: &&Constraint| matches!(one.kind, ConstraintKind::Key { .. });
            for key in schema.constraints.iter().filter(is_key) {
                edit.put_constraint(key)?;
            }
        }
        for index in &indexes {
            edit.remove_index(index.id);
        }
        for constraint in &constraints {
            edit.remove_constraint(&constraint.name);
        }
        self.commit(schema, edit, "unfinished indexes and constraints")
    }

    fn create_index(
        &self,
        spec: IndexSpec,
        if_not_exists: bool,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        let index = self.plan_index(&spec)?;
        if let Some(clash) = self.existing().index_clash(&index) {
            return resolve_clash(clash, if_not_exists);
        }
        let records_read = self.build_index(index.clone(), None, should_continue)?;
        Ok(SchemaOutcome {
            created: vec![index.name.to_string()],
            dropped: Vec::new(),
            records_read,
        })
    }

    fn drop_index(&self, name: &str, if_exists: bool) -> Result<SchemaOutcome, DataError> {
        let mut schema = self.next_schema();
        let Some(at) = schema
            .indexes
            .iter()
            .position(|index| index.name.as_ref() == name)
        else {
            return absent("index", name, if_exists);
        };
        let id = schema.indexes[at].id;
        let keeps = |constraint: &&Constraint| constraint.kind.index() == Some(id);
        if let Some(constraint) = schema.constraints.iter().find(keeps) {
            return Err(DataError::invalid(format!(
                "index {name} keeps the constraint {}: drop the constraint instead",
                constraint.name
            )));
        }
        schema.indexes.remove(at);
        let mut edit = Edit::default();
        edit.remove_index(id);
        self.commit(schema, edit, name)?;
        Ok(SchemaOutcome {
            dropped: vec![name.to_owned()],
            ..SchemaOutcome::default()
        })
    }

    fn create_constraint(
        &self,
        spec: ConstraintSpec,
        if_not_exists: bool,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        check_rule(&spec)?;
        let scope = self.scope(&spec.scope)?;
        let name = match &spec.name {
            Some(name) => name.clone(),
            None => self.existing().free_name(&default_name(&spec)),
        };
        check_name("constraint", &name)?;
        if let Some(clash) = self.existing().constraint_clash(scope, &spec, &name)? {
            return resolve_clash(clash, if_not_exists);
        }
        let mut constraint = Constraint {
            name: name.as_str().into(),
            scope,
            kind: spec.kind,
            state: IndexState::Building,
        };
        let records_read = if constraint.kind.index().is_some() {
            let spec = IndexSpec {
                name: Some(name.clone()),
                scope: spec.scope,
                fields: spec.unique_fields,
                unique: true,
            };
            let index = self.plan_index(&spec)?;
            constraint.kind = match constraint.kind {
                ConstraintKind::Key { .. } => ConstraintKind::Key { index: index.id },
                _ => ConstraintKind::Unique { index: index.id },
            };
            self.build_index(index, Some(constraint), should_continue)?
        } else {
            self.build_rule(constraint, should_continue)?
        };
        Ok(SchemaOutcome {
            created: vec![name],
            dropped: Vec::new(),
            records_read,
        })
    }

    fn create_keeper(
        &self,
        name: Option<String>,
        rel_type: &str,
        if_not_exists: bool,
    ) -> Result<SchemaOutcome, DataError> {
        let name = name.unwrap_or_else(|| default_keeper(rel_type));
        check_name("constraint", &name)?;
        let keepers = self.store.endpoint_keepers();
        let twin = keepers.iter().find(|own| *own.rel_type == *rel_type);
        let clash = match twin {
            Some(twin) => Some(Clash::same("constraint", &name, &twin.name)),
            None => self.existing().name_clash("constraint", &name),
        };
        if let Some(clash) = clash {
            return resolve_clash(clash, if_not_exists);
        }
        self.keep_endpoints_as(rel_type, Some(&name))?;
        Ok(SchemaOutcome {
            created: vec![name],
            ..SchemaOutcome::default()
        })
    }

    fn drop_constraint(&self, name: &str, if_exists: bool) -> Result<SchemaOutcome, DataError> {
        let keepers = self.store.endpoint_keepers();
        if let Some(keeper) = keepers.iter().find(|own| *own.name == *name) {
            self.keep_endpoints_as(&keeper.rel_type, None)?;
            return Ok(SchemaOutcome {
                dropped: vec![name.to_owned()],
                ..SchemaOutcome::default()
            });
        }
        let mut schema = self.next_schema();
        let Some(at) = schema
            .constraints
            .iter()
            .position(|constraint| constraint.name.as_ref() == name)
        else {
            return absent("constraint", name, if_exists);
        };
        let mut edit = Edit::default();
        edit.remove_constraint(name);
        if let Some(index) = schema.constraints.remove(at).kind.index() {
            schema.indexes.retain(|own| own.id != index);
            edit.remove_index(index);
        }
        self.commit(schema, edit, name)?;
        Ok(SchemaOutcome {
            dropped: vec![name.to_owned()],
            ..SchemaOutcome::default()
        })
    }

    /// The definition of a new index, checked.
    fn plan_index(&self, spec: &IndexSpec) -> Result<IndexDef, DataError> {
        if spec.fields.is_empty() {
            return Err(DataError::invalid("an index needs at least one field"));
        }
        if spec.fields.len() > MAX_FIELDS {
            return Err(DataError::Limit {
                what: "the fields of an index".into(),
                size: spec.fields.len().to_string(),
                max: MAX_FIELDS.to_string(),
                advice: "index fewer fields",
            });
        }
        for (at, field) in spec.fields.iter().enumerate() {
            check_path(&field.path)?;
            if spec.fields[..at]
                .iter()
                .any(|other| other.path == field.path)
            {
                return Err(DataError::invalid(format!(
                    "field {} is named twice in the index",
                    field.path
                )));
            }
        }
        let name = spec
            .name
            .clone()
            .unwrap_or_else(|| index_name(spec.scope.name(), &spec.fields));
        check_name("index", &name)?;
        Ok(IndexDef {
            id: IndexId(self.store.catalog().schema.next_index),
            name: name.into(),
            scope: self.scope(&spec.scope)?,
            fields: spec.fields.clone(),
            unique: spec.unique,
            state: IndexState::Building,
        })
    }

    fn scope(&self, scope: &ScopeName) -> Result<RecordScope, DataError> {
        Ok(match scope {
            ScopeName::Label(name) => {
                RecordScope::Label(LabelId(self.store.intern(NameKind::Label, name)?))
            }
            ScopeName::Type(name) => {
                RecordScope::Type(TypeId(self.store.intern(NameKind::Type, name)?))
            }
        })
    }

    /// Adds the index, fills it and makes it usable, together with the constraint that it enforces.
    fn build_index(
        &self,
        mut index: IndexDef,
        constraint: Option<Constraint>,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let name = index.name.clone();
        let mut schema = self.next_schema();
        schema.next_index = index.id.0 + 1;
        schema.indexes.push(index.clone());
        let mut edit = Edit::default();
        edit.put_index(&index)?;
        // The per-record part of a key constraint is enforced from here on, as the index is maintained.
        let key = constraint
            .clone()
            .filter(|one| matches!(one.kind, ConstraintKind::Key { .. }));
        if let Some(key) = &key {
            edit.put_constraint(key)?;
            schema.constraints.push(key.clone());
        }
        self.commit(schema, edit, &name)?;

        let filled = self.fill_index(&index, key.as_ref(), should_continue);
        let filled = filled.and_then(|records_read| match self.store.is_given_up(index.id) {
            false => Ok(records_read),
            true => Err(DataError::invalid(format!(
                "index {name} cannot be made: another replica made a convergent field that it cannot hold, while it was built"
            ))),
        });
        match filled {
            Ok(records_read) => {
                index.state = IndexState::Ready;
                let mut schema = self.next_schema();
                schema.indexes.retain(|own| own.id != index.id);
                schema.indexes.push(index.clone());
                let mut edit = Edit::default();
                edit.put_index(&index)?;
                if let Some(mut constraint) = constraint {
                    constraint.state = IndexState::Ready;
                    edit.put_constraint(&constraint)?;
                    schema.constraints.retain(|own| own.name != name);
                    schema.constraints.push(constraint);
                }
                self.commit(schema, edit, &name)?;
                Ok(records_read)
            }
            Err(error) => {
                let mut schema = self.next_schema();
                schema.indexes.retain(|own| own.id != index.id);
                let mut edit = Edit::default();
                edit.remove_index(index.id);
                if key.is_some() {
                    schema.constraints.retain(|own| own.name != name);
                    edit.remove_constraint(&name);
                }
                self.commit(schema, edit, &name)?;
                Err(broken(&name, error))
            }
        }
    }

    fn fill_index(
        &self,
        index: &IndexDef,
        key: Option<&Constraint>,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let (mut after, mut size, mut records_read) = (None, BATCH, 0);
        loop {
            check(should_continue)?;
            let mut tx = self.store.begin(Access::Write)?;
            let mut ids = Vec::new();
            tx.graph()
                .records_after(index.scope, after, size, &mut ids)?;
            let Some(&last) = ids.last() else {
                return Ok(records_read);
            };
            for &id in &ids {
                tx.indexes_mut().enter(index, key, id)?;
            }
            match tx.commit_with(Durability::Buffered) {
                Ok(_) => {
                    records_read += ids.len() as u64;
                    after = Some(last);
                    size = (size * 2).min(BATCH);
                }
                Err(error) if error.kind() == ErrorKind::Retry => size = (size / 2).max(1),
                Err(error) => return Err(error),
            }
        }
    }

    /// Adds a rule, checks the existing records, makes it final.
    fn build_rule(
        &self,
        mut constraint: Constraint,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let name = constraint.name.clone();
        let put = |editor: &Self, constraint: &Constraint| {
            let mut schema = editor.next_schema();
            schema.constraints.retain(|own| own.name != constraint.name);
            schema.constraints.push(constraint.clone());
            let mut edit = Edit::default();
            edit.put_constraint(constraint)?;
            editor.commit(schema, edit, &constraint.name)
        };
        put(self, &constraint)?;
        match self.check_rule_on_all(&constraint, should_continue) {
            Ok(records_read) => {
                constraint.state = IndexState::Ready;
                put(self, &constraint)?;
                Ok(records_read)
            }
            Err(error) => {
                let mut schema = self.next_schema();
                schema.constraints.retain(|own| own.name != name);
                let mut edit = Edit::default();
                edit.remove_constraint(&name);
                self.commit(schema, edit, &name)?;
                Err(broken(&name, error))
            }
        }
    }

    /// One snapshot is enough: later commits enforce the rule.
    fn check_rule_on_all(
        &self,
        constraint: &Constraint,
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let tx = self.store.begin(Access::Read)?;
        let (mut after, mut ids, mut records_read) = (None, Vec::new(), 0);
        loop {
            check(should_continue)?;
            ids.clear();
            tx.graph()
                .records_after(constraint.scope, after, BATCH, &mut ids)?;
            let Some(&last) = ids.last() else {
                return Ok(records_read);
            };
            for &id in &ids {
                if let Some(properties) = tx.graph().properties_in(constraint.scope, id)? {
                    tx.fields()
                        .check_fields(id, |field, found| match &constraint.kind {
                            ConstraintKind::Convergent { path, kind } => {
                                *found == *kind || path.0.len() != 1 || *path.0[0] != *field
                            }
                            rule => !rule.rules_plain(field),
                        })?;
                    constraint.check(&tx.catalog(), Some(id), &properties)?;
                }
            }
            records_read += ids.len() as u64;
            after = Some(last);
        }
    }

    /// The current schema under its next version number.
    fn next_schema(&self) -> Schema {
        let mut schema = (*self.store.catalog().schema).clone();
        schema.version += 1;
        schema
    }

    fn commit(&self, schema: Schema, edit: Edit, what: &str) -> Result<(), DataError> {
        let (base, version) = (schema.version - 1, schema.version_value());
        self.store.shared().schema.publish(schema, || {
            let mut tx = self.store.engine().begin()?;
            // The lock between processes prevents this; the order of commits decides.
            let stored = tx.get(SCHEMA_VERSION)?;
            let stored = stored.as_deref().and_then(<[u8]>::first_chunk);
            if stored.map_or(0, |version| u64::from_be_bytes(*version)) != base {
                return Err(DataError::Conflict {
                    what: "the indexes or constraints".into(),
                    version: tx.version(),
                });
            }
            tx.guard(Item::Schema.granule(), GuardMode::Write);
            tx.put(SCHEMA_VERSION, &version)?;
            edit.write(&mut *tx)?;
            let mut operations = Vec::new();
            Change::SchemaChanged {
                name: what.as_bytes(),
            }
            .push(&mut operations);
            tx.append_stream(&change::entry(&Deltas::default(), &operations));
            let _gate = self.store.shared().gate.read();
            Ok(tx.commit(Durability::Synced)?)
        })
    }
}

/// The error of a constraint that existing records violate.
pub(crate) fn broken(name: &str, error: DataError) -> DataError {
    match error {
        DataError::Violates { .. } | DataError::NotUnique { .. } => DataError::SchemaBroken {
            name: name.to_owned(),
            cause: Box::new(error),
        },
        other => other,
    }
}

impl Graph<'_> {
    /// The records of a scope, without an observation: a transaction that adds one concurrently maintains the index
    /// being built itself.
    fn records_after(
        self,
        scope: RecordScope,
        after: Option<RecordId>,
        limit: usize,
        out: &mut Vec<RecordId>,
    ) -> Result<(), DataError> {
        let after = after.map(|after| after.parts().1);
        match scope {
            RecordScope::Label(label) => {
                let mut nodes = Vec::new();
                self.members_after(label, after.map(NodeId), limit, &mut nodes)?;
                out.extend(nodes.into_iter().map(RecordId::Node));
            }
            RecordScope::Type(type_id) => {
                let mut rels = Vec::new();
                self.unobserved_relationships(type_id, after.map(RelId), limit, &mut rels)?;
                out.extend(rels.into_iter().map(RecordId::Relationship));
            }
        }
        Ok(())
    }

    fn members_after(
        self,
        label: LabelId,
        after: Option<NodeId>,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        let prefix = keyspace::members_of(label);
        let start = match after {
            Some(after) => keyspace::member(label, NodeId(after.0.saturating_add(1))),
            None => prefix.clone(),
        };
        self.tx
            .raw()
            .each_pair(&start, after_prefix(&prefix).as_deref(), limit, |key, _| {
                out.push(NodeId(keyspace::sole_id(
                    &key[prefix.len()..],
                    "an entry of a label",
                )?));
                Ok(())
            })
    }
}

impl IndexesMut<'_> {
    /// Adds one record to an index that is being built; `key` is the constraint that the index will enforce.
    pub(crate) fn enter(
        &mut self,
        index: &IndexDef,
        key: Option<&Constraint>,
        id: RecordId,
    ) -> Result<(), DataError> {
        let Some(properties) = self.tx.graph().properties_in(index.scope, id)? else {
            return Ok(());
        };
        let owner = match id {
            RecordId::Node(id) => EntryOwner::Node(id),
            RecordId::Relationship(id) => match self.tx.graph().load_relationship(id)? {
                Some((row, _)) => EntryOwner::Relationship(row),
                None => return Ok(()),
            },
        };
        if let Some(key) = key {
            key.check(self.tx.names(), Some(id), &properties)?;
        }
        if index.unique {
            self.tx.fields().check_fields(id, |field, _| {
                !index.fields.iter().any(|one| *one.path.0[0] == *field)
            })?;
        }
        if self.tx.store().shared().own_replica.has_any() {
            self.tx.footprint().read_field(&id.prefix());
        } else {
            self.tx.footprint().read_convergent();
        }
        let entries = self
            .tx
            .indexes()
            .entries_or_refuse(index, id, &properties)?;
        for entry in entries.iter().filter(|entry| entry.unique) {
            if let Some(holder) = self.tx.indexes().observed_holder(entry, id)? {
                return Err(self.tx.constraints().not_unique(index, entry, id, holder));
            }
        }
        let value = owner.entry_value();
        for entry in &entries {
            self.tx.footprint_mut().change_entry(
                Space::Index(index.id.0),
                &entry.values,
                &entry.ends,
            );
            self.tx.put(&entry.key(owner), &value)?;
        }
        Ok(())
    }
}

pub(crate) fn absent(what: &str, name: &str, allowed: bool) -> Result<SchemaOutcome, DataError> {
    if allowed {
        Ok(SchemaOutcome::default())
    } else {
        Err(DataError::NotFound(format!(
            "there is no {what} `{name}`: see SHOW INDEXES and SHOW CONSTRAINTS, or say IF EXISTS"
        )))
    }
}

pub(crate) fn check_path(path: &FieldPath) -> Result<(), DataError> {
    if path.0.is_empty() {
        return Err(DataError::invalid(
            "the path of a field is empty: name a property",
        ));
    }
    path.0
        .iter()
        .try_for_each(|name| check_name("property", name))
}

fn check_rule(spec: &ConstraintSpec) -> Result<(), DataError> {
    match &spec.kind {
        ConstraintKind::Unique { .. } | ConstraintKind::Key { .. } => Ok(()),
        ConstraintKind::Required { path } | ConstraintKind::Convergent { path, .. } => {
            check_path(path)
        }
        ConstraintKind::Check { checks } => {
            if checks.is_empty() {
                return Err(DataError::invalid("a check needs at least one rule"));
            }
            checks.iter().try_for_each(|check| check_path(&check.path))
        }
        ConstraintKind::Type { path, types } => {
            if types.is_empty() {
                return Err(DataError::invalid(format!(
                    "the type constraint on {path} allows no type"
                )));
            }
            check_path(path)
        }
        ConstraintKind::Closed { names } => names
            .iter()
            .try_for_each(|name| check_name("property", name)),
    }
}

fn index_name(label: &str, fields: &[IndexField]) -> String {
    let fields: Vec<_> = fields.iter().map(|field| field.path.0.join("_")).collect();
    format!("{label}_{}", fields.join("_"))
}

fn default_name(spec: &ConstraintSpec) -> String {
    let label = spec.scope.name();
    match &spec.kind {
        ConstraintKind::Unique { .. } => {
            format!("{}_unique", index_name(label, &spec.unique_fields))
        }
        ConstraintKind::Key { .. } => format!("{}_key", index_name(label, &spec.unique_fields)),
        ConstraintKind::Convergent { path, .. } => {
            format!("{label}_{}_convergent", path.0.join("_"))
        }
        ConstraintKind::Required { path } => format!("{label}_{}_required", path.0.join("_")),
        ConstraintKind::Type { path, .. } => format!("{label}_{}_type", path.0.join("_")),
        ConstraintKind::Check { checks } => {
            let mut names: Vec<_> = checks.iter().map(|check| check.path.0.join("_")).collect();
            names.dedup();
            format!("{label}_{}_check", names.join("_"))
        }
        ConstraintKind::Closed { .. } => format!("{label}_closed"),
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Arc};

    use super::*;
    use crate::DataStoreOptions;
    use isomer_storage_redb::{RedbEngine, RedbOptions};
    use isomer_value::Map;

    fn open(path: &Path, read_only: bool) -> DataStore {
        let options = RedbOptions {
            read_only,
            ..RedbOptions::default()
        };
        let engine = RedbEngine::open(path, options).unwrap();
        let options = DataStoreOptions {
            read_only,
            ..DataStoreOptions::default()
        };
        DataStore::open(Arc::new(engine), options).unwrap()
    }

    fn spec() -> IndexSpec {
        IndexSpec {
            name: Some("age".into()),
            scope: ScopeName::label("P"),
            fields: vec![IndexField {
                path: FieldPath::new(["age"]),
                each: false,
            }],
            unique: false,
        }
    }

    fn add(store: &DataStore) {
        let mut tx = store.begin(Access::Write).unwrap();
        let label = tx.name_ids().intern_label("P").unwrap();
        let properties: Map = [("age", isomer_value::Value::Int(7))].into_iter().collect();
        tx.graph_mut().create_node(&[label], &properties).unwrap();
        tx.commit().unwrap();
    }

    /// An index whose creation was interrupted with the process is removed with all its entries at the next opening,
    /// and can be created again; opened read-only, the database has it and no query uses it.
    #[test]
    fn interrupted_schema_changes_are_dropped_at_the_next_opening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = open(&path, false);
        add(&store);
        let editor = SchemaEditor::begin(&store).unwrap();
        let index = editor.plan_index(&spec()).unwrap();
        let mut schema = editor.next_schema();
        schema.next_index = index.id.0 + 1;
        schema.indexes.push(index.clone());
        let mut edit = Edit::default();
        edit.put_index(&index).unwrap();
        editor.commit(schema, edit, "age").unwrap();
        drop(editor);
        add(&store);
        drop(store);

        let entries = |store: &DataStore| {
            let tx = store.begin(Access::Read).unwrap();
            let (start, mut count) = (keyspace::entries_of(index.id), 0);
            tx.raw()
                .each_pair(
                    &start,
                    after_prefix(&start).as_deref(),
                    usize::MAX,
                    |_, _| {
                        count += 1;
                        Ok(())
                    },
                )
                .unwrap();
            count
        };
        let reader = open(&path, true);
        assert_eq!(entries(&reader), 1);
        assert_eq!(reader.catalog().usable_indexes(index.scope).count(), 0);
        drop(reader);
        let store = open(&path, false);
        assert_eq!((entries(&store), store.catalog().indexes().len()), (0, 0));
        let change = SchemaChange::CreateIndex {
            spec: spec(),
            if_not_exists: false,
        };
        assert_eq!(store.change_schema(change).unwrap().records_read, 2);
        assert_eq!(store.catalog().usable_indexes(index.scope).count(), 1);
    }

    /// Version 0.1 stored a key as a unique constraint and one required field for each property: they are opened, shown
    /// and dropped as one constraint.
    #[test]
    fn a_key_in_parts_is_one_constraint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = open(&path, false);
        let create = |name: &str, kind: ConstraintKind, fields: &[&str]| {
            let field = |name: &&str| IndexField {
                path: FieldPath::top(name),
                each: false,
            };
            SchemaChange::CreateConstraint {
                spec: ConstraintSpec {
                    name: Some(name.into()),
                    scope: ScopeName::label("B"),
                    kind,
                    unique_fields: fields.iter().map(field).collect(),
                },
                if_not_exists: false,
            }
        };
        let required = |name: &str| ConstraintKind::Required {
            path: FieldPath::top(name),
        };
        let unique = ConstraintKind::Unique { index: IndexId(0) };
        for change in [
            create("c9", unique.clone(), &["x", "y"]),
            create("c9_2", required("x"), &[]),
            create("c9_3", required("y"), &[]),
            // Not a key: the second field is a different one.
            create("u", unique, &["z"]),
            create("u_2", required("x"), &[]),
        ] {
            // `u_2` has the same meaning as `c9_2`.
            let _ = store.change_schema(change);
        }
        drop(store);
        for read_only in [true, false, false] {
            let store = open(&path, read_only);
            let catalog = store.catalog();
            let shown = catalog.constraints().iter().map(|one| {
                let is_key = matches!(one.kind, ConstraintKind::Key { .. });
                (one.name.to_string(), is_key)
            });
            let shown: Vec<_> = shown.collect();
            assert_eq!(shown, [("c9".to_owned(), true), ("u".to_owned(), false)]);
        }
        let store = open(&path, false);
        let mut tx = store.begin(Access::Write).unwrap();
        let label = tx.name_ids().intern_label("B").unwrap();
        let refused = tx
            .graph_mut()
            .create_node(&[label], &Map::new())
            .unwrap_err();
        assert!(refused.to_string().contains("(c9)"), "{refused}");
        drop(tx);
        let change = SchemaChange::DropConstraint {
            name: "c9".into(),
            if_exists: false,
        };
        store.change_schema(change).unwrap();
        drop(store);
        let store = open(&path, false);
        assert_eq!(store.catalog().constraints().len(), 1);
        assert_eq!(store.catalog().indexes().len(), 1);
    }
}
