//! Entries of convergent fields: they follow the field's value, in the transaction that changes it.
//!
//! | field | entries |
//! |---|---|
//! | counter, register, flag | the value that is read |
//! | multi register | the value; of several the list of them, or each of them where the index is over elements |
//! | sets, in an index of their elements alone | each element |
//!
//! Other kinds of fields, and unique indexes, have no entries: an operation that would put such a field under the index
//! is refused. An operation from another replica is not refused: the index is given up then, permanently
//! (`keyspace::given_up`).
//!
//! The entry of an element is computed from the element alone: whether it exists after the operation. It is put again
//! where it existed before, so that adding needs no reads. All other entries are computed from the value before and
//! after.
//!
//! An operation observes that no concurrent transaction changed the labels or the plain fields by which the node is
//! indexed, as such a change declares all of the node's convergent fields cleared; the field's value, where its entry
//! depends on all of it (a counter); all fields of an index with several. An operation that changes which kind is read
//! at a place (also the first and the last operation of a field) declares it cleared, and where several kinds are at
//! one place each operation observes all of it.

use std::collections::BTreeMap;

use isomer_layout::{
    DataError, ErrorKind,
    catalog::{
        names::NameKind,
        schema::{FieldPath, IndexDef, IndexField},
    },
    convergent::{
        effect::Action,
        place::{ConvergentKind, skip_item, take_kind},
        position::FieldPosition,
    },
    graph::{
        rows::row_of,
        state::{EntryOwner, RecordId, RecordState},
    },
    index::{EntryChanges, IndexEntry, entries_of, entries_within},
    keyspace,
    properties::{at_path, set_path},
};
use isomer_value::{Map, PropId, key, record::RecordRef};

use crate::{Indexes, IndexesMut};

/// The state of the path of an index's field.
enum FieldState {
    /// The first name is not a convergent field.
    Plain,
    /// The first name is one, and the path leads to no field.
    Nothing,
    Field(ConvergentKind, FieldPosition),
}

/// The entries that a record should have.
pub(crate) enum RequiredEntries {
    Entries(Vec<IndexEntry>),
    /// A convergent field that the index cannot hold.
    NotIndexable(ConvergentKind),
}

/// Index entries of a record before one of its convergent properties changes.
pub struct FieldEntries {
    owner: EntryOwner,
    /// The property, where it is plain; its other plain properties where an index has several fields.
    properties: Map,
    indexes: Vec<IndexBefore>,
    /// The position of an operation, and the kinds that were read at the enclosing levels, as far as the index's path.
    way: Option<(FieldPosition, Vec<Option<ConvergentKind>>)>,
}

struct IndexBefore {
    index: IndexDef,
    /// The kind at the path of an index with one field.
    kind: Option<ConvergentKind>,
    /// Entries computed from the value.
    entries: Vec<IndexEntry>,
}

/// Whether a field of an index can hold convergent fields of a kind.
fn holds(index: &IndexDef, field: &IndexField, kind: ConvergentKind) -> bool {
    !index.unique && kind.is_indexable(field.each && index.fields.len() == 1)
}

fn is_set(kind: Option<ConvergentKind>) -> bool {
    matches!(kind, Some(ConvergentKind::Set | ConvergentKind::GrowSet))
}

fn not_indexable(index: &IndexDef, path: &str, kind: ConvergentKind) -> DataError {
    let how = match kind {
        _ if index.unique => "unique indexes cannot hold convergent fields: use another property",
        ConvergentKind::Set | ConvergentKind::GrowSet => {
            "sets are indexed by element: create the index over the elements of this one property, with [] behind its name"
        }
        _ => "fields of that kind cannot be indexed: drop the index, or use another property",
    };
    DataError::invalid(format!(
        "{path} is a convergent {} and indexed by {}: {how}",
        kind.name(),
        index.name
    ))
}

impl Indexes<'_> {
    /// The number of a name that an index is over. A missing number is not observed: then there is nothing convergent
    /// under it, which is observed instead.
    fn indexed_prop(self, name: &str) -> Option<PropId> {
        let known = self.tx.names().names.find(NameKind::Prop, name);
        let known = known.or_else(|| self.tx.store().find_after_interning(NameKind::Prop, name));
        known.map(PropId)
    }

    /// Whether one of an index's fields may be convergent.
    fn may_converge(self, index: &IndexDef) -> bool {
        index.fields.iter().any(|field| {
            let prop = self.indexed_prop(&field.path.0[0]);
            prop.is_some_and(|prop| self.tx.store().is_convergent(prop))
        })
    }

    fn field_state(self, id: RecordId, path: &FieldPath) -> Result<FieldState, DataError> {
        let Some(prop) = self.indexed_prop(&path.0[0]) else {
            return Ok(FieldState::Plain);
        };
        if !self.tx.store().is_convergent(prop) {
            return Ok(FieldState::Plain);
        }
        let below: Vec<&str> = path.0[1..].iter().map(|name| &**name).collect();
        let position = FieldPosition::new(id, prop, &below);
        let levels = position.levels();
        for (depth, level) in levels.iter().enumerate().skip(1) {
            match self.tx.fields().kind_at(level)? {
                None if depth == 1 => return Ok(FieldState::Plain),
                Some((kind, _)) if depth + 1 == levels.len() => {
                    return Ok(FieldState::Field(kind, position));
                }
                Some((ConvergentKind::Map, _)) => {}
                _ => break,
            }
        }
        Ok(FieldState::Nothing)
    }

    /// The entries that a record with these plain properties has in an index that is about it, convergent fields
    /// included.
    pub(crate) fn wanted_entries(
        self,
        index: &IndexDef,
        id: RecordId,
        plain: &Map,
    ) -> Result<RequiredEntries, DataError> {
        if index.unique || !self.may_converge(index) {
            return entries_of(index, plain).map(RequiredEntries::Entries);
        }
        let mut properties: Option<Map> = None;
        let mut hidden: Vec<&str> = Vec::new();
        for field in &index.fields {
            let state = self.field_state(id, &field.path)?;
            if matches!(state, FieldState::Plain) {
                continue;
            }
            let properties = properties.get_or_insert_with(|| plain.clone());
            let top = &*field.path.0[0];
            if !hidden.contains(&top) {
                hidden.push(top);
                properties.remove(top);
            }
            let FieldState::Field(kind, position) = state else {
                continue;
            };
            if !holds(index, field, kind) {
                return Ok(RequiredEntries::NotIndexable(kind));
            }
            if let Some(value) = self.tx.fields().value_at(position.named())? {
                let names: Vec<&str> = field.path.0.iter().map(|name| &**name).collect();
                set_path(properties, &names, value)?;
            }
        }
        let Some(properties) = properties else {
            return entries_of(index, plain).map(RequiredEntries::Entries);
        };
        entries_within(index, &properties, usize::MAX).map(RequiredEntries::Entries)
    }

    /// As [`Indexes::wanted_entries`]; where the index cannot hold a field, the operation is refused, or the index
    /// given up if the operation is of another replica.
    pub(crate) fn entries_or_refuse(
        self,
        index: &IndexDef,
        id: RecordId,
        plain: &Map,
    ) -> Result<Vec<IndexEntry>, DataError> {
        match self.wanted_entries(index, id, plain) {
            Ok(RequiredEntries::Entries(entries)) => Ok(entries),
            Ok(RequiredEntries::NotIndexable(_)) if self.tx.replication().is_merging() => {
                self.tx.store().give_up_index(index.id)?;
                Ok(Vec::new())
            }
            Ok(RequiredEntries::NotIndexable(kind)) => {
                Err(not_indexable(index, &fields_of(index), kind))
            }
            Err(error)
                if error.kind() == ErrorKind::Limit && self.tx.replication().is_merging() =>
            {
                self.tx.store().give_up_index(index.id)?;
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses a record that has convergent fields in a unique index.
    fn refuse_fields(self, index: &IndexDef, id: RecordId) -> Result<(), DataError> {
        for field in &index.fields {
            let kind = match self.field_state(id, &field.path)? {
                FieldState::Plain => continue,
                FieldState::Nothing => ConvergentKind::Map,
                FieldState::Field(kind, _) => kind,
            };
            return Err(not_indexable(index, &field.path.to_string(), kind));
        }
        Ok(())
    }

    fn has_fields(self, id: RecordId) -> Result<bool, DataError> {
        let prefix = id.prefix();
        let end = keyspace::after_prefix(&prefix);
        Ok(self.tx.raw().first_key(&prefix, end.as_deref())?.is_some())
    }

    // ---- operations, merges and joins

    /// Refuses an operation that makes a field which an index of its record cannot hold.
    pub(crate) fn check_indexable(
        self,
        id: RecordId,
        path: &[&str],
        kind: ConvergentKind,
    ) -> Result<(), DataError> {
        let catalog = self.tx.names();
        let named = |index: &&IndexDef| {
            index
                .fields
                .iter()
                .any(|field| *field.path.0[0] == *path[0])
        };
        if !catalog.schema.indexes().iter().any(|index| named(&index)) {
            return Ok(());
        }
        let Some(bytes) = self.tx.read().get(&id.record_key())? else {
            return Ok(());
        };
        let record = RecordRef::new(&bytes)?;
        for index in catalog.schema.indexes().iter().filter(named) {
            if !index.scope.covers(&record) || self.tx.store().is_given_up(index.id) {
                continue;
            }
            for field in &index.fields {
                let names = &field.path.0;
                let is_on_the_way = names.len() <= path.len()
                    && names.iter().zip(path).all(|(own, name)| **own == **name);
                let found = match names.len() == path.len() {
                    true => kind,
                    false => ConvergentKind::Map,
                };
                let refused = match is_on_the_way {
                    true => !holds(index, field, found),
                    false => index.unique && *names[0] == *path[0],
                };
                if refused {
                    return Err(not_indexable(index, &path.join("."), found));
                }
            }
        }
        Ok(())
    }

    /// The kind of the convergent field that is at the path of an index with one field.
    fn sole_kind(
        self,
        index: &IndexDef,
        id: RecordId,
    ) -> Result<Option<ConvergentKind>, DataError> {
        let [field] = &index.fields[..] else {
            return Ok(None);
        };
        Ok(match self.field_state(id, &field.path)? {
            FieldState::Field(kind, _) => Some(kind),
            _ => None,
        })
    }

    fn has_field_of(self, index: &IndexDef, id: RecordId) -> Result<bool, DataError> {
        for field in &index.fields {
            if matches!(self.field_state(id, &field.path)?, FieldState::Field(..)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Elements of a set that may have been added or removed, and whether they exist.
    fn elements_after(
        self,
        index: &IndexDef,
        id: RecordId,
        (before, now): (Option<ConvergentKind>, Option<ConvergentKind>),
        touched: &[Vec<u8>],
    ) -> Result<BTreeMap<Vec<u8>, bool>, DataError> {
        let mut elements = BTreeMap::new();
        let path = &index.fields[0].path.0;
        let Some(prop) = self.indexed_prop(&path[0]) else {
            return Ok(elements);
        };
        let below: Vec<&str> = path[1..].iter().map(|name| &**name).collect();
        let position = FieldPosition::new(id, prop, &below);
        for kind in [ConvergentKind::Set, ConvergentKind::GrowSet] {
            let place = position.clone().kind(kind, 0).place;
            let mut note = |key: &[u8], is_there: Option<bool>| -> Result<(), DataError> {
                let Some(below) = key.strip_prefix(&place[..]) else {
                    return Ok(());
                };
                let mut rest = below;
                skip_item(kind, &mut rest)?;
                let element = &below[..below.len() - rest.len()];
                let is_there = match is_there {
                    _ if now != Some(kind) => false,
                    Some(is_there) => is_there,
                    None => {
                        let key = [&place[..], element].concat();
                        let end = keyspace::after_prefix(&key);
                        self.tx.raw().first_key(&key, end.as_deref())?.is_some()
                    }
                };
                *elements.entry(element.to_vec()).or_insert(false) |= is_there;
                Ok(())
            };
            for key in touched {
                note(key, None)?;
            }
            // A field of another kind shadowed all of it, or does now, at this level or an enclosing one.
            if before != now {
                let end = keyspace::after_prefix(&place);
                for key in self.tx.raw().keys_between(&place, end.as_deref())? {
                    note(&key, Some(true))?;
                }
            }
        }
        Ok(elements)
    }

    /// The places of elements that an operation at `position` may change.
    pub(crate) fn touched_by(
        self,
        position: &FieldPosition,
        action: &Action,
    ) -> Result<Vec<Vec<u8>>, DataError> {
        Ok(match action {
            Action::Insert { element, .. } | Action::Remove { element, .. } => {
                vec![[&position.place[..], element].concat()]
            }
            Action::Clear { .. } => {
                let end = keyspace::after_prefix(&position.place);
                self.tx
                    .raw()
                    .keys_between(&position.place, end.as_deref())?
            }
            _ => Vec::new(),
        })
    }

    /// Whether the kind that is read at a place shadows another.
    fn has_kind_behind(
        self,
        named: &[u8],
        kind: Option<ConvergentKind>,
    ) -> Result<bool, DataError> {
        let Some(kind) = kind else { return Ok(false) };
        let Some(behind) = keyspace::after_prefix(&[named, &[kind as u8]].concat()) else {
            return Ok(false);
        };
        let end = keyspace::after_prefix(named);
        Ok(self.tx.raw().first_key(&behind, end.as_deref())?.is_some())
    }
}

impl IndexesMut<'_> {
    // ---- changes of records

    /// The entries that a change of a record changes, in all indexes.
    pub(crate) fn entry_changes(
        &mut self,
        id: RecordId,
        old: Option<&impl RecordState>,
        new: Option<&impl RecordState>,
    ) -> Result<EntryChanges, DataError> {
        let catalog = self.tx.names().clone();
        let indexes = catalog.schema.indexes();
        if indexes.is_empty() {
            return Ok(EntryChanges::default());
        }
        if !self.tx.store().shared().own_replica.has_any() {
            let mut observes = indexes.iter().map(|index| {
                let was_in = old.is_some_and(|one| one.is_in(index.scope));
                let is_in = new.is_some_and(|one| one.is_in(index.scope));
                was_in != is_in || was_in && index.fields.len() > 1
            });
            if old.is_some() && observes.any(|observes| observes) {
                self.tx.footprint().read_convergent();
            }
            return EntryChanges::between(indexes, old, new);
        }
        let mut changes = EntryChanges::default();
        let (is_new, mut is_observed) = (old.is_none(), false);
        for index in indexes {
            let (old, new) = (
                old.filter(|one| one.is_in(index.scope)),
                new.filter(|one| one.is_in(index.scope)),
            );
            if old.is_none() && new.is_none() {
                continue;
            }
            let only = std::slice::from_ref(index);
            if index.unique || !self.tx.indexes().may_converge(index) {
                let is_other = old.is_some() != new.is_some() || index.fields.len() > 1;
                let is_gained = old.is_none() && !is_new && !self.tx.replication().is_merging();
                if index.unique && is_gained && self.tx.indexes().may_converge(index) {
                    self.tx.indexes().refuse_fields(index, id)?;
                    is_observed = true;
                }
                if !is_new && is_other {
                    self.tx.footprint().read_convergent();
                }
                changes.extend(EntryChanges::between(only, old, new)?);
                continue;
            }
            if let (Some(old), Some(new)) = (old, new)
                && same_fields(index, old.properties(), new.properties())?
            {
                continue;
            }
            if self.tx.store().is_given_up(index.id) {
                continue;
            }
            let before = match old {
                Some(old) => self
                    .tx
                    .indexes()
                    .wanted_entries(index, id, old.properties())?,
                None => RequiredEntries::Entries(Vec::new()),
            };
            let before = match before {
                RequiredEntries::Entries(entries) => entries,
                RequiredEntries::NotIndexable(_) => Vec::new(),
            };
            let after = match new {
                Some(new) => {
                    let indexes = self.tx.indexes();
                    indexes.entries_or_refuse(index, id, new.properties())?
                }
                None => Vec::new(),
            };
            changes.extend(EntryChanges::from_sorted(&before, after));
            is_observed = true;
        }
        if is_observed && (!is_new || self.tx.indexes().has_fields(id)?) {
            self.tx.footprint_mut().clear_field(&[&id.prefix()]);
        }
        Ok(changes)
    }

    /// To be called before entries of a record's convergent property change; none if no index is affected.
    #[doc(hidden)]
    pub fn fields_before(
        &mut self,
        id: RecordId,
        prop: PropId,
    ) -> Result<Option<FieldEntries>, DataError> {
        let catalog = self.tx.names().clone();
        if catalog.schema.indexes().is_empty() {
            return Ok(None);
        }
        let is_about =
            |field: &IndexField| self.tx.indexes().indexed_prop(&field.path.0[0]) == Some(prop);
        let mut indexes: Vec<&IndexDef> = catalog
            .schema
            .indexes()
            .iter()
            .filter(|index| index.fields.iter().any(is_about))
            .filter(|index| !self.tx.store().is_given_up(index.id))
            .collect();
        if indexes.is_empty() {
            return Ok(None);
        }
        let Some(bytes) = self.tx.read().get(&id.record_key())? else {
            return Ok(None);
        };
        let record = RecordRef::new(&bytes)?;
        let owner = match id {
            RecordId::Node(id) => EntryOwner::Node(id),
            RecordId::Relationship(id) => EntryOwner::Relationship(row_of(id, &record)?),
        };
        // Changes of the labels, or of plain fields by which the record is indexed, declare this.
        self.tx.footprint().read_whether_cleared(&[&id.prefix()]);
        indexes.retain(|index| index.scope.covers(&record));
        if indexes.is_empty() {
            return Ok(None);
        }
        let mut properties = Map::new();
        if indexes.iter().any(|index| index.fields.len() > 1) {
            properties = record.properties(&*catalog.names)?;
        } else if let Some(plain) = record.get(prop, &*catalog.names)? {
            properties.insert(indexes[0].fields[0].path.0[0].clone(), plain);
        }
        let mut before = Vec::new();
        for index in indexes {
            let kind = self.tx.indexes().sole_kind(index, id)?;
            let entries = match is_set(kind) || index.unique {
                true => Vec::new(),
                false => match self.tx.indexes().wanted_entries(index, id, &properties)? {
                    RequiredEntries::Entries(entries) => entries,
                    RequiredEntries::NotIndexable(_) => Vec::new(),
                },
            };
            before.push(IndexBefore {
                index: index.clone(),
                kind,
                entries,
            });
        }
        Ok(Some(FieldEntries {
            owner,
            properties,
            indexes: before,
            way: None,
        }))
    }

    /// Updates the entries after a change of the property. `touched` are the places of elements added to and removed
    /// from sets: their keys, at least up to the element.
    #[doc(hidden)]
    pub fn fields_after(
        &mut self,
        before: Option<FieldEntries>,
        touched: &[Vec<u8>],
    ) -> Result<(), DataError> {
        let Some(FieldEntries {
            owner,
            properties,
            indexes,
            way,
        }) = before
        else {
            return Ok(());
        };
        let id = owner.record();
        if let Some((position, kinds)) = way {
            let levels = position.levels();
            for (level, before) in kinds.into_iter().enumerate() {
                let now = self
                    .tx
                    .fields()
                    .kind_at(levels[level + 1])?
                    .map(|(kind, _)| kind);
                if now != before {
                    self.tx.footprint_mut().clear_field(&levels[..level + 2]);
                }
            }
        }
        for IndexBefore {
            index,
            kind,
            entries,
        } in indexes
        {
            let now = self.tx.indexes().sole_kind(&index, id)?;
            if index.unique {
                // Its entries depend on plain values: a field that it does not know was made by another replica.
                if self.tx.replication().is_merging()
                    && self.tx.indexes().has_field_of(&index, id)?
                {
                    self.tx.store().give_up_index(index.id)?;
                }
                continue;
            }
            let mut changes = EntryChanges::default();
            if is_set(kind) || is_set(now) {
                let elements =
                    self.tx
                        .indexes()
                        .elements_after(&index, id, (kind, now), touched)?;
                for (element, is_there) in elements {
                    let entry = IndexEntry {
                        index: index.id,
                        ends: vec![element.len()],
                        values: element,
                        unique: false,
                    };
                    match is_there {
                        true => changes.added.push(entry),
                        false => changes.removed.push(entry),
                    }
                }
            }
            let after = match is_set(now) && holds(&index, &index.fields[0], ConvergentKind::Set) {
                true => Vec::new(),
                false => self
                    .tx
                    .indexes()
                    .entries_or_refuse(&index, id, &properties)?,
            };
            changes.removed.extend(
                entries
                    .into_iter()
                    .filter(|entry| after.binary_search(entry).is_err()),
            );
            // Put again where they existed: an operation that did not read the field may have to.
            changes.added.extend(after);
            if !self.tx.store().is_given_up(index.id) {
                self.tx.graph_mut().move_entries(owner, &changes)?;
            }
        }
        Ok(())
    }

    /// Records what an operation on a property of an index observes in addition. Before it is applied.
    pub(crate) fn note_indexed(
        &mut self,
        before: &mut FieldEntries,
        position: &FieldPosition,
        action: &Action,
    ) -> Result<(), DataError> {
        let owner = before.owner.record();
        let levels = position.levels();
        self.tx.footprint().read_whether_cleared(&levels);
        // It shadows a plain value that may have existed under the name.
        let is_first = self.tx.fields().kind_at(position.top())?.is_none();
        let (mut depth, mut is_followed) = (1, false);
        for IndexBefore { index, .. } in &before.indexes {
            let mut others = Vec::new();
            let mut follows = false;
            for field in &index.fields {
                let Some(prop) = self.tx.indexes().indexed_prop(&field.path.0[0]) else {
                    // It may become one: no narrower place is known.
                    others.push(owner.prefix());
                    continue;
                };
                let below: Vec<&str> = field.path.0[1..].iter().map(|name| &**name).collect();
                let own = FieldPosition::new(owner, prop, &below);
                let own_levels = own.levels();
                let common = own_levels
                    .iter()
                    .zip(&levels)
                    .take_while(|(one, other)| one == other)
                    .count();
                depth = depth.max(common - 1);
                follows |= common == own_levels.len().min(levels.len());
                others.push(own.top().to_vec());
            }
            is_followed |= follows;
            if index.fields.len() > 1 && (follows || is_first) {
                for place in others {
                    self.tx.footprint().read_field(&place);
                }
            }
        }
        if is_followed && matches!(action, Action::Count(_)) {
            self.tx.footprint().read_field(position.named());
        }
        let mut kinds = Vec::with_capacity(depth);
        for &level in &levels[1..=depth] {
            let kind = self.tx.fields().kind_at(level)?.map(|(kind, _)| kind);
            let own = take_kind(&mut &position.place[level.len()..]).map(|(kind, _)| kind);
            if own.is_some() && own != kind || self.tx.indexes().has_kind_behind(level, kind)? {
                self.tx.footprint().read_field(level);
            }
            kinds.push(kind);
        }
        before.way = Some((position.clone(), kinds));
        Ok(())
    }
}

fn fields_of(index: &IndexDef) -> String {
    let paths: Vec<String> = index
        .fields
        .iter()
        .map(|field| field.path.to_string())
        .collect();
    paths.join(", ")
}

/// Whether the plain values of an index's fields are the same, to the last bit of their entries.
fn same_fields(index: &IndexDef, old: &Map, new: &Map) -> Result<bool, DataError> {
    for field in &index.fields {
        let (one, other) = (at_path(old, &field.path), at_path(new, &field.path));
        let same = match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => key::encode(one)? == key::encode(other)?,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}
