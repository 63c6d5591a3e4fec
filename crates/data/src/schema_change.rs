//! Changing the schema while reads and writes go on.
//!
//! Every writing transaction has observed the schema, so a committed change refuses those that began before it: from then
//! on every commit keeps the new index or constraint. What existed before is entered in batches, each a transaction that
//! observes the records it reads and nothing else; a batch that loses a race runs again, smaller. When all is entered, a
//! second small commit makes the index usable, or the constraint final. If the process ends in between, the next opening
//! drops the unfinished one.

use isomer_storage::{Durability, GuardMode, KeyRange};
use isomer_value::{IndexId, LabelId, NodeId};

use crate::{
    Access, Constraint, ConstraintKind, ConstraintSpec, ConvergentOwner, DataError, ErrorKind,
    FieldPath, GraphRead, IndexDef, IndexField, IndexSpec, IndexState, SchemaChange, SchemaOutcome,
    Store, Transaction,
    catalog::{NameKind, Schema, stored},
    footprint::{Item, Space},
    index::{Entry, EntryChanges},
    keyspace::{self, SCHEMA_VERSION, after_prefix},
    store::check_name,
    stream::{self, Change, Deltas},
};

/// Most fields of an index.
const MAX_FIELDS: usize = 16;
/// Records of one batch; halved after a lost race.
const BATCH: usize = 512;

/// How long a schema change waits for another before it asks again whether to go on.
const TURN: std::time::Duration = std::time::Duration::from_millis(50);

/// Asks whether to go on.
fn check(go_on: &mut dyn FnMut() -> bool) -> Result<(), DataError> {
    if go_on() {
        Ok(())
    } else {
        Err(DataError::Cancelled)
    }
}

impl Store {
    /// Changes the schema in transactions of its own; returns when the change is complete and durable.
    ///
    /// # Errors
    /// [`DataError::NameExists`], [`DataError::NotFound`]; [`DataError::NotUnique`] and [`DataError::Violates`] where
    /// existing records do not fit, after which everything is as before.
    pub fn change_schema(&self, change: SchemaChange) -> Result<SchemaOutcome, DataError> {
        self.change_schema_while(change, &mut || true)
    }

    /// As [`Store::change_schema`], asking between any two batches of records whether to go on;
    /// [`DataError::Cancelled`] where not, after which everything is as before.
    pub fn change_schema_while(
        &self,
        change: SchemaChange,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        let _alone = loop {
            match self.shared().schema_change.try_lock_for(TURN) {
                Some(alone) => break alone,
                None => check(go_on)?,
            }
        };
        match change {
            SchemaChange::CreateIndex {
                spec,
                if_not_exists,
            } => self.create_index(spec, if_not_exists, go_on),
            SchemaChange::DropIndex { name, if_exists } => self.drop_index(&name, if_exists),
            SchemaChange::CreateConstraint {
                spec,
                if_not_exists,
            } => self.create_constraint(spec, if_not_exists, go_on),
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

    /// Drops what was being built when the process ended.
    pub(crate) fn drop_unfinished(&self) -> Result<(), DataError> {
        let _alone = self.shared().schema_change.lock();
        let mut schema = self.next_schema();
        let indexes: Vec<_> = schema
            .indexes
            .extract_if(.., |index| index.state == IndexState::Building)
            .collect();
        let constraints: Vec<_> = schema
            .constraints
            .extract_if(.., |constraint| constraint.state == IndexState::Building)
            .collect();
        if indexes.is_empty() && constraints.is_empty() {
            return Ok(());
        }
        let mut edit = Edit::default();
        for index in &indexes {
            edit.remove_index(index.id);
        }
        for constraint in &constraints {
            edit.removed
                .push(keyspace::constraint_definition(&constraint.name));
        }
        self.commit_schema(schema, edit, "unfinished indexes and constraints")
    }

    fn create_index(
        &self,
        spec: IndexSpec,
        if_not_exists: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        let index = self.plan_index(&spec)?;
        let catalog = self.catalog();
        let twin = catalog
            .indexes()
            .iter()
            .find(|own| own.label == index.label && own.fields == index.fields);
        if let Some(holder) = twin
            .map(|twin| &twin.name)
            .or(self.name_taken(&index.name).as_ref())
        {
            return if if_not_exists {
                Ok(SchemaOutcome::default())
            } else {
                Err(DataError::NameExists {
                    what: "an index or constraint named",
                    name: holder.to_string(),
                })
            };
        }
        let nodes_read = self.build_index(index.clone(), None, go_on)?;
        Ok(SchemaOutcome {
            created: vec![index.name.to_string()],
            dropped: Vec::new(),
            nodes_read,
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
        let keeps = |constraint: &&Constraint| matches!(constraint.kind, ConstraintKind::Unique { index } if index == id);
        if let Some(constraint) = schema.constraints.iter().find(keeps) {
            return Err(DataError::invalid(format!(
                "index {name} keeps the constraint {}: drop the constraint instead",
                constraint.name
            )));
        }
        schema.indexes.remove(at);
        let mut edit = Edit::default();
        edit.remove_index(id);
        self.commit_schema(schema, edit, name)?;
        Ok(SchemaOutcome {
            dropped: vec![name.to_owned()],
            ..SchemaOutcome::default()
        })
    }

    fn create_constraint(
        &self,
        spec: ConstraintSpec,
        if_not_exists: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        check_rule(&spec)?;
        let label = LabelId(self.intern(NameKind::Label, &spec.label)?);
        let twin = self.twin(label, &spec)?;
        let name = match (&spec.name, twin) {
            (Some(name), _) => name.clone(),
            (None, Some(twin)) => twin,
            (None, None) => self.free_name(&default_name(&spec)),
        };
        check_name("constraint", &name)?;
        if self.name_taken(&name).is_some() {
            return if if_not_exists {
                Ok(SchemaOutcome::default())
            } else {
                Err(DataError::NameExists {
                    what: "an index or constraint named",
                    name,
                })
            };
        }
        let mut constraint = Constraint {
            name: name.as_str().into(),
            label,
            kind: spec.kind,
            state: IndexState::Building,
        };
        let nodes_read = if let ConstraintKind::Unique { .. } = constraint.kind {
            let spec = IndexSpec {
                name: Some(name.clone()),
                label: spec.label,
                fields: spec.unique_fields,
                unique: true,
            };
            let index = self.plan_index(&spec)?;
            constraint.kind = ConstraintKind::Unique { index: index.id };
            constraint.state = IndexState::Ready;
            self.build_index(index, Some(constraint), go_on)?
        } else {
            self.build_rule(constraint, go_on)?
        };
        Ok(SchemaOutcome {
            created: vec![name],
            dropped: Vec::new(),
            nodes_read,
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
        let keepers = self.endpoint_keepers();
        let twin = keepers.iter().find(|own| *own.rel_type == *rel_type);
        let taken = twin.map(|twin| twin.name.clone());
        if let Some(holder) = taken.or_else(|| self.name_taken(&name)) {
            return match if_not_exists {
                true => Ok(SchemaOutcome::default()),
                false => Err(DataError::NameExists {
                    what: "an index or constraint named",
                    name: holder.to_string(),
                }),
            };
        }
        self.keep_endpoints_as(rel_type, Some(&name))?;
        Ok(SchemaOutcome {
            created: vec![name],
            ..SchemaOutcome::default()
        })
    }

    fn drop_constraint(&self, name: &str, if_exists: bool) -> Result<SchemaOutcome, DataError> {
        let keepers = self.endpoint_keepers();
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
        edit.removed.push(keyspace::constraint_definition(name));
        if let ConstraintKind::Unique { index } = schema.constraints.remove(at).kind {
            schema.indexes.retain(|own| own.id != index);
            edit.remove_index(index);
        }
        self.commit_schema(schema, edit, name)?;
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
            .unwrap_or_else(|| index_name(&spec.label, &spec.fields));
        check_name("index", &name)?;
        Ok(IndexDef {
            id: IndexId(self.catalog().schema.next_index),
            name: name.into(),
            label: LabelId(self.intern(NameKind::Label, &spec.label)?),
            fields: spec.fields.clone(),
            unique: spec.unique,
            state: IndexState::Building,
        })
    }

    /// Enters the index, fills it and makes it usable, together with the constraint that it keeps.
    fn build_index(
        &self,
        mut index: IndexDef,
        constraint: Option<Constraint>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let name = index.name.clone();
        let mut schema = self.next_schema();
        schema.next_index = index.id.0 + 1;
        schema.indexes.push(index.clone());
        let mut edit = Edit::default();
        edit.put_index(&index)?;
        self.commit_schema(schema, edit, &name)?;

        let filled = self.fill_index(&index, go_on);
        let filled = filled.and_then(|nodes_read| match self.is_given_up(index.id) {
            false => Ok(nodes_read),
            true => Err(DataError::invalid(format!(
                "index {name} cannot be made: another replica made a convergent field that it cannot hold, while it was built"
            ))),
        });
        match filled {
            Ok(nodes_read) => {
                index.state = IndexState::Ready;
                let mut schema = self.next_schema();
                schema.indexes.retain(|own| own.id != index.id);
                schema.indexes.push(index.clone());
                let mut edit = Edit::default();
                edit.put_index(&index)?;
                if let Some(constraint) = constraint {
                    edit.put_constraint(&constraint)?;
                    schema.constraints.push(constraint);
                }
                self.commit_schema(schema, edit, &name)?;
                Ok(nodes_read)
            }
            Err(error) => {
                let mut schema = self.next_schema();
                schema.indexes.retain(|own| own.id != index.id);
                let mut edit = Edit::default();
                edit.remove_index(index.id);
                self.commit_schema(schema, edit, &name)?;
                Err(error)
            }
        }
    }

    fn fill_index(
        &self,
        index: &IndexDef,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let (mut after, mut size, mut nodes_read) = (None, BATCH, 0);
        loop {
            check(go_on)?;
            let mut tx = self.begin(Access::Write)?;
            let mut ids = Vec::new();
            tx.members_after(index.label, after, size, &mut ids)?;
            let Some(&last) = ids.last() else {
                return Ok(nodes_read);
            };
            for &id in &ids {
                tx.enter(index, id)?;
            }
            match tx.commit_with(Durability::Buffered) {
                Ok(_) => {
                    nodes_read += ids.len() as u64;
                    after = Some(last);
                    size = (size * 2).min(BATCH);
                }
                Err(error) if error.kind() == ErrorKind::Retry => size = (size / 2).max(1),
                Err(error) => return Err(error),
            }
        }
    }

    /// Enters a rule, checks the existing records, makes it final.
    fn build_rule(
        &self,
        mut constraint: Constraint,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let name = constraint.name.clone();
        let put = |store: &Self, constraint: &Constraint| {
            let mut schema = store.next_schema();
            schema.constraints.retain(|own| own.name != constraint.name);
            schema.constraints.push(constraint.clone());
            let mut edit = Edit::default();
            edit.put_constraint(constraint)?;
            store.commit_schema(schema, edit, &constraint.name)
        };
        put(self, &constraint)?;
        match self.check_rule_on_all(&constraint, go_on) {
            Ok(nodes_read) => {
                constraint.state = IndexState::Ready;
                put(self, &constraint)?;
                Ok(nodes_read)
            }
            Err(error) => {
                let mut schema = self.next_schema();
                schema.constraints.retain(|own| own.name != name);
                let mut edit = Edit::default();
                edit.removed.push(keyspace::constraint_definition(&name));
                self.commit_schema(schema, edit, &name)?;
                Err(error)
            }
        }
    }

    /// One snapshot is enough: what is committed after it keeps the rule.
    fn check_rule_on_all(
        &self,
        constraint: &Constraint,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<u64, DataError> {
        let tx = self.begin(Access::Read)?;
        let (mut after, mut ids, mut nodes_read) = (None, Vec::new(), 0);
        loop {
            check(go_on)?;
            ids.clear();
            tx.members_after(constraint.label, after, BATCH, &mut ids)?;
            let Some(&last) = ids.last() else {
                return Ok(nodes_read);
            };
            for &id in &ids {
                if let Some(node) = tx.load_node(id)? {
                    tx.check_fields(id, |field, found| match &constraint.kind {
                        ConstraintKind::Convergent { path, kind } => {
                            *found == *kind || path.0.len() != 1 || *path.0[0] != *field
                        }
                        rule => !rule.rules_plain(field),
                    })?;
                    constraint.check(&tx.catalog(), &node)?;
                }
            }
            nodes_read += ids.len() as u64;
            after = Some(last);
        }
    }

    /// The present schema under its next version number. The caller holds the lock of schema changes.
    fn next_schema(&self) -> Schema {
        let mut schema = (*self.catalog().schema).clone();
        schema.version += 1;
        schema
    }

    /// The name of the constraint that demands the same of the same label.
    fn twin(&self, label: LabelId, spec: &ConstraintSpec) -> Result<Option<String>, DataError> {
        let catalog = self.catalog();
        let nameless = |kind: ConstraintKind| {
            stored::constraint_value(&Constraint {
                name: "".into(),
                label,
                kind,
                state: IndexState::Ready,
            })
        };
        let wanted = nameless(spec.kind.clone())?;
        for own in catalog
            .constraints()
            .iter()
            .filter(|own| own.label == label)
        {
            let same = match (&own.kind, &spec.kind) {
                (ConstraintKind::Unique { index }, ConstraintKind::Unique { .. }) => catalog
                    .index(*index)
                    .is_some_and(|index| index.fields == spec.unique_fields),
                _ => nameless(own.kind.clone())? == wanted,
            };
            if same {
                return Ok(Some(own.name.to_string()));
            }
        }
        Ok(None)
    }

    /// `name`, or with a number behind it if it is taken.
    fn free_name(&self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        std::iter::once(name.to_owned())
            .chain(numbered)
            .find(|name| self.name_taken(name).is_none())
            .expect("numbers do not run out")
    }

    pub(crate) fn name_taken(&self, name: &str) -> Option<std::sync::Arc<str>> {
        let catalog = self.catalog();
        let mut names = catalog
            .indexes()
            .iter()
            .map(|index| &index.name)
            .chain(catalog.constraints().iter().map(|one| &one.name));
        let found = names.find(|own| own.as_ref() == name).cloned();
        let kept = || {
            let mut keepers = self.endpoint_keepers().into_iter();
            keepers.find(|own| *own.name == *name).map(|own| own.name)
        };
        found.or_else(kept)
    }

    fn commit_schema(&self, schema: Schema, edit: Edit, what: &str) -> Result<(), DataError> {
        let version = schema.version_value();
        self.publish_schema(schema, || {
            let mut tx = self.engine().begin()?;
            tx.guard(Item::Schema.granule(), GuardMode::Write);
            tx.put(SCHEMA_VERSION, &version)?;
            for key in &edit.removed {
                tx.delete(key)?;
            }
            for (key, value) in &edit.put {
                tx.put(key, value)?;
            }
            for prefix in &edit.erased {
                tx.delete_range(KeyRange {
                    start: prefix,
                    end: after_prefix(prefix).as_deref(),
                })?;
            }
            let mut operations = Vec::new();
            Change::SchemaChanged {
                name: what.as_bytes(),
            }
            .push(&mut operations);
            tx.append_stream(&stream::entry(&Deltas::default(), &operations));
            let _gate = self.shared().gate.read();
            Ok(tx.commit(Durability::Synced)?)
        })
    }
}

/// What a schema change writes.
#[derive(Default)]
struct Edit {
    put: Vec<(Vec<u8>, Vec<u8>)>,
    removed: Vec<Vec<u8>>,
    /// Prefixes under which everything goes.
    erased: Vec<Vec<u8>>,
}

impl Edit {
    fn put_index(&mut self, index: &IndexDef) -> Result<(), DataError> {
        self.put.push((
            keyspace::index_definition(index.id),
            stored::index_value(index)?,
        ));
        Ok(())
    }

    fn put_constraint(&mut self, constraint: &Constraint) -> Result<(), DataError> {
        self.put.push((
            keyspace::constraint_definition(&constraint.name),
            stored::constraint_value(constraint)?,
        ));
        Ok(())
    }

    fn remove_index(&mut self, id: IndexId) {
        self.removed.push(keyspace::index_definition(id));
        self.removed.push(keyspace::given_up(id));
        self.erased.push(keyspace::entries_of(id));
    }
}

impl Transaction {
    /// Members of a label, unobserved: whoever joins the label meanwhile keeps the index being built himself.
    fn members_after(
        &self,
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
        self.each_pair(&start, after_prefix(&prefix).as_deref(), limit, |key, _| {
            out.push(NodeId(keyspace::sole_id(
                &key[prefix.len()..],
                "an entry of a label",
            )?));
            Ok(())
        })
    }

    /// Enters one node into an index that is being built.
    fn enter(&mut self, index: &IndexDef, id: NodeId) -> Result<(), DataError> {
        let Some(node) = self.load_node(id)? else {
            return Ok(());
        };
        if index.unique {
            self.check_fields(id, |field, _| {
                !index.fields.iter().any(|one| *one.path.0[0] == *field)
            })?;
        }
        let prefix = ConvergentOwner::Node(id).prefix();
        if self.store().shared().own_replica.has_any() {
            self.footprint().read_field(&prefix);
        } else {
            self.footprint().read_convergent();
        }
        let changes = EntryChanges {
            removed: Vec::new(),
            added: self.entries_or_refuse(index, id, &node)?,
        };
        self.check_entries_free(id, &changes)?;
        for entry in &changes.added {
            self.footprint_mut()
                .change_entry(Space::Index(index.id.0), &entry.values, &entry.ends);
            self.put(&entry.key(id), &Entry::value(id))?;
        }
        Ok(())
    }
}

fn absent(what: &str, name: &str, allowed: bool) -> Result<SchemaOutcome, DataError> {
    if allowed {
        Ok(SchemaOutcome::default())
    } else {
        Err(DataError::NotFound(format!(
            "there is no {what} `{name}`: see SHOW INDEXES and SHOW CONSTRAINTS, or say IF EXISTS"
        )))
    }
}

fn check_path(path: &FieldPath) -> Result<(), DataError> {
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
        ConstraintKind::Unique { .. } => Ok(()),
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

/// What the constraint is called by which a type's relationships keep their ends, where nobody says.
pub(crate) fn default_keeper(rel_type: &str) -> String {
    format!("{rel_type}_keep_endpoints")
}

fn default_name(spec: &ConstraintSpec) -> String {
    let label = &spec.label;
    match &spec.kind {
        ConstraintKind::Unique { .. } => {
            format!("{}_unique", index_name(label, &spec.unique_fields))
        }
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

    use isomer_storage_redb::{RedbEngine, RedbOptions};
    use isomer_value::Map;

    use super::*;
    use crate::StoreOptions;

    fn open(path: &Path, read_only: bool) -> Store {
        let options = RedbOptions {
            read_only,
            ..RedbOptions::default()
        };
        let engine = RedbEngine::open(path, options).unwrap();
        let options = StoreOptions {
            read_only,
            ..StoreOptions::default()
        };
        Store::open(Arc::new(engine), options).unwrap()
    }

    fn spec() -> IndexSpec {
        IndexSpec {
            name: Some("age".into()),
            label: "P".into(),
            fields: vec![IndexField {
                path: FieldPath::new(["age"]),
                each: false,
            }],
            unique: false,
        }
    }

    fn add(store: &Store) {
        let mut tx = store.begin(Access::Write).unwrap();
        let label = tx.intern_label("P").unwrap();
        let properties: Map = [("age", isomer_value::Value::Int(7))].into_iter().collect();
        tx.create_node(&[label], &properties).unwrap();
        tx.commit().unwrap();
    }

    /// An index whose making broke off with the process is gone with all its entries after the next opening, and can be
    /// made again; opened to read, the database has it and nobody uses it.
    #[test]
    fn what_broke_off_is_dropped_at_the_next_opening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let store = open(&path, false);
        add(&store);
        let index = store.plan_index(&spec()).unwrap();
        let mut schema = store.next_schema();
        schema.next_index = index.id.0 + 1;
        schema.indexes.push(index.clone());
        let mut edit = Edit::default();
        edit.put_index(&index).unwrap();
        store.commit_schema(schema, edit, "age").unwrap();
        add(&store);
        drop(store);

        let entries = |store: &Store| {
            let tx = store.begin(Access::Read).unwrap();
            let (start, mut count) = (keyspace::entries_of(index.id), 0);
            tx.each_pair(
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
        assert_eq!(reader.catalog().usable_indexes(index.label).count(), 0);
        drop(reader);
        let store = open(&path, false);
        assert_eq!((entries(&store), store.catalog().indexes().len()), (0, 0));
        let change = SchemaChange::CreateIndex {
            spec: spec(),
            if_not_exists: false,
        };
        assert_eq!(store.change_schema(change).unwrap().nodes_read, 2);
        assert_eq!(store.catalog().usable_indexes(index.label).count(), 1);
    }
}
