//! What a transaction observed and changed, in terms of the data model: the granules for serializable validation.
//!
//! In addition to granules of single things, a label, type, index or bucket has two granules:
//! - **whole**: declared by every writer of a thing in it ([`GuardMode::Add`]), read by transactions that observed all
//!   of it or too many single things;
//! - **bulk**: read by every reader of a single thing in it, declared by transactions that changed too many single
//!   things to name.
//!
//! So a footprint stays bounded, and still no observation is missed. Writers never conflict through either, as both are
//! only added to. Nothing is declared for nodes and relationships that the transaction itself created: no other
//! transaction can have seen them.

mod cells;
mod item;
mod runs;

use std::collections::hash_map::Entry;

use isomer_layout::{
    catalog::{Catalog, names::NameKind},
    convergent::place::ConvergentKind,
    keyspace::Side,
};
use isomer_storage::{Granule, GuardMode};
use isomer_value::{LabelId, NodeId, PropId, RelId, TypeId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use xxhash_rust::xxh3::xxh3_128;

use cells::{Head, cells_of, cover, head};
use runs::Runs;

pub use item::{Item, NONE, Space};

pub(crate) use item::{EXACT, FIELDS, NUMBERS_IN_SPAN};

const READ: u8 = 1;
const ADD: u8 = 2;

/// The footprint of one writing transaction. Empty in a reading one.
#[derive(Debug)]
pub struct Footprint {
    active: bool,
    limit: usize,
    items: FxHashMap<Item, u8>,
    /// Granules that were only added to, which are never looked up. May repeat.
    added: Vec<Granule>,
    /// The space whose change was declared last.
    changed: Option<Space>,
    /// The key whose cells were added last. Keys often arrive in order, and the next one is in most of these cells too.
    last_key: Option<(Space, Head)>,
    /// The type of which a relationship was created or deleted last.
    linked: Option<TypeId>,
    own_nodes: Runs,
    own_rels: Runs,
    /// Single things declared so far: nodes read, written, adjacency read, written, relationships read, written, keys
    /// read, written, metadata read, written.
    used: [usize; 10],
}

#[derive(Clone, Copy)]
enum Count {
    NodesRead,
    NodesWritten,
    LinksRead,
    LinksWritten,
    RelsRead,
    RelsWritten,
    KeysRead,
    KeysWritten,
    MetadataRead,
    MetadataWritten,
}

impl Footprint {
    pub fn new(active: bool, limit: usize) -> Self {
        // Enough for a statement that changes a record and adds another; growing there costs more than recording.
        let usual = if active { 28 } else { 0 };
        Self {
            active,
            limit,
            items: FxHashMap::with_capacity_and_hasher(usual, FxBuildHasher),
            added: Vec::new(),
            changed: None,
            last_key: None,
            linked: None,
            own_nodes: Runs::default(),
            own_rels: Runs::default(),
            used: [0; 10],
        }
    }

    /// Whether anything is recorded at all: readers skip work that only feeds the footprint.
    pub(crate) fn active(&self) -> bool {
        self.active
    }

    fn read(&mut self, item: Item) -> bool {
        self.note(item, READ)
    }

    fn add(&mut self, item: Item) -> bool {
        self.note(item, ADD)
    }

    /// Returns whether the item was not recorded in this mode before.
    fn note(&mut self, item: Item, mode: u8) -> bool {
        match self.items.entry(item) {
            Entry::Occupied(mut entry) => {
                let modes = entry.get_mut();
                let fresh = *modes & mode != mode;
                *modes |= mode;
                fresh
            }
            Entry::Vacant(entry) => {
                entry.insert(mode);
                true
            }
        }
    }

    /// Whether another single thing of this sort may be declared; else its container is declared instead.
    fn room(&mut self, count: Count) -> bool {
        self.used[count as usize] < self.limit
    }

    fn spend(&mut self, count: Count, fresh: bool) {
        self.used[count as usize] += usize::from(fresh);
    }

    /// Whether anything but the catalog was observed or changed.
    pub(crate) fn is_engaged(&self) -> bool {
        let of_catalog = |item: &Item| matches!(item, Item::Schema | Item::Name { .. });
        !(self.added.is_empty() && self.items.keys().all(of_catalog))
    }

    // ---- schema, membership

    /// Observed that a name is not in the catalog yet; returns whether that is new.
    pub(crate) fn read_absent_name(&mut self, kind: NameKind, name: &str) -> bool {
        self.active && self.read(Item::name(kind, name))
    }

    /// The transaction has an own number, which may be settled before it is committed.
    pub(crate) fn read_number(&mut self, number: u64) {
        if self.active {
            self.read(Item::NumberSpan(number / NUMBERS_IN_SPAN));
        }
    }

    pub(crate) fn read_schema(&mut self) {
        if self.active {
            self.read(Item::Schema);
        }
    }

    /// Observed which nodes carry `label`, or exist.
    pub(crate) fn read_members(&mut self, label: Option<LabelId>) {
        if self.active {
            self.read(label.map_or(Item::AllNodes, |label| Item::Members(label.0)));
        }
    }

    /// A node got or lost a label.
    pub(crate) fn change_member(&mut self, label: LabelId) {
        self.add(Item::Members(label.0));
    }

    /// Observed which relationships of `type_id`, or of any type, exist.
    pub(crate) fn read_type_members(&mut self, type_id: Option<TypeId>) {
        if self.active {
            self.read(Item::TypeMembers(type_id.map_or(NONE, |id| id.0)));
        }
    }

    // ---- nodes

    /// The transaction created this node.
    pub fn create_node(&mut self, id: NodeId) {
        self.own_nodes.insert(id.0);
        self.add(Item::AllNodes);
    }

    /// Observed that a node exists; `home` is its first label.
    pub(crate) fn read_exists(&mut self, id: NodeId, home: Option<LabelId>) {
        if !self.active || self.own_nodes.contains(id.0) {
            return;
        }
        let home = home.map_or(NONE, |label| label.0);
        if self.room(Count::NodesRead) {
            self.read(Item::LabelBulk(home));
            let fresh = self.read(Item::NodeExists(id.0));
            self.spend(Count::NodesRead, fresh);
        } else {
            self.read(Item::LabelContent(home));
        }
    }

    /// Observed that a node does not exist.
    pub(crate) fn read_absent_node(&mut self) {
        if self.active {
            self.read(Item::AllNodes);
        }
    }

    /// Observed labels or properties of a node; `home` is its first label.
    pub(crate) fn read_node(&mut self, id: NodeId, home: Option<LabelId>) {
        if !self.active || self.own_nodes.contains(id.0) {
            return;
        }
        let home = home.map_or(NONE, |label| label.0);
        if self.room(Count::NodesRead) {
            // Conflicts with writers that changed too many nodes to name this one.
            self.read(Item::LabelBulk(home));
            let fresh = self.read(Item::Node(id.0));
            self.spend(Count::NodesRead, fresh);
        } else {
            self.read(Item::LabelContent(home));
        }
    }

    /// Changed labels or properties of a node, having observed them; call it with the labels before and after.
    pub fn change_node(&mut self, id: NodeId, labels: &[LabelId]) {
        if self.own_nodes.contains(id.0) {
            return;
        }
        self.declare_node(labels, Item::Node(id.0));
    }

    /// Deleted a node that carried `labels`.
    pub fn delete_node(&mut self, id: NodeId, labels: &[LabelId]) {
        self.add(Item::AllNodes);
        if !self.own_nodes.contains(id.0) {
            self.declare_node(labels, Item::Node(id.0));
            self.declare_node(labels, Item::NodeExists(id.0));
        }
    }

    fn declare_node(&mut self, labels: &[LabelId], item: Item) {
        let single = self.room(Count::NodesWritten);
        if single {
            self.read(Item::LabelBulk(home(labels)));
            let fresh = self.note(item, READ | ADD);
            self.spend(Count::NodesWritten, fresh);
        } else {
            self.read(Item::LabelContent(home(labels)));
        }
        let homeless = [LabelId(NONE)];
        for label in if labels.is_empty() { &homeless } else { labels } {
            // For readers that observed too many nodes to name this one; under all labels, as they use the first label
            // of the version that they read.
            self.add(Item::LabelContent(label.0));
            if !single {
                self.add(Item::LabelBulk(label.0));
            }
        }
    }

    // ---- relationships

    /// Observed a node's relationships of one type (`None`: any) on one side.
    pub fn read_adjacency(&mut self, node: NodeId, side: Side, type_id: Option<TypeId>) {
        if !self.active || self.own_nodes.contains(node.0) {
            return;
        }
        let type_id = type_id.map_or(NONE, |id| id.0);
        if self.room(Count::LinksRead) {
            self.read(Item::TypeBulk(type_id));
            let fresh = self.read(Item::Adjacency {
                node: node.0,
                side,
                type_id,
            });
            self.spend(Count::LinksRead, fresh);
        } else {
            self.read(Item::TypeMembers(type_id));
        }
    }

    /// Observed whether there is a relationship of one type (`None`: any) between two nodes.
    pub(crate) fn read_presence(
        &mut self,
        source: NodeId,
        target: NodeId,
        type_id: Option<TypeId>,
    ) {
        if !self.active || self.own_nodes.contains(source.0) || self.own_nodes.contains(target.0) {
            return;
        }
        let type_id = type_id.map_or(NONE, |id| id.0);
        if self.room(Count::LinksRead) {
            self.read(Item::TypeBulk(type_id));
            let fresh = self.read(Item::Presence {
                source: source.0,
                target: target.0,
                type_id,
            });
            self.spend(Count::LinksRead, fresh);
        } else {
            self.read(Item::TypeMembers(type_id));
        }
    }

    /// The transaction created this relationship.
    pub fn create_relationship(
        &mut self,
        id: RelId,
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
    ) {
        self.own_rels.insert(id.0);
        self.change_links(type_id, source, target);
    }

    /// Deleted a relationship.
    pub fn delete_relationship(
        &mut self,
        id: RelId,
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
    ) {
        self.change_links(type_id, source, target);
        self.change_relationship(id, type_id);
    }

    fn change_links(&mut self, type_id: TypeId, source: NodeId, target: NodeId) {
        if self.linked != Some(type_id) {
            self.add(Item::TypeMembers(type_id.0));
            self.add(Item::TypeMembers(NONE));
            self.linked = Some(type_id);
        }
        let (own_source, own_target) = (
            self.own_nodes.contains(source.0),
            self.own_nodes.contains(target.0),
        );
        if own_source && own_target {
            return;
        }
        if !self.room(Count::LinksWritten) {
            self.add(Item::TypeBulk(type_id.0));
            self.add(Item::TypeBulk(NONE));
            return;
        }
        for type_id in [type_id.0, NONE] {
            if !own_source {
                self.add(Item::Adjacency {
                    node: source.0,
                    side: Side::Out,
                    type_id,
                });
            }
            if !own_target {
                self.add(Item::Adjacency {
                    node: target.0,
                    side: Side::In,
                    type_id,
                });
            }
            if !own_source && !own_target {
                self.add(Item::Presence {
                    source: source.0,
                    target: target.0,
                    type_id,
                });
            }
        }
        self.spend(Count::LinksWritten, true);
    }

    /// Observed the properties, or the existence, of a relationship.
    pub(crate) fn read_relationship(&mut self, id: RelId, type_id: TypeId) {
        if !self.active || self.own_rels.contains(id.0) {
            return;
        }
        if self.room(Count::RelsRead) {
            self.read(Item::TypeContentBulk(type_id.0));
            let fresh = self.read(Item::Rel(id.0));
            self.spend(Count::RelsRead, fresh);
        } else {
            self.read(Item::TypeContent(type_id.0));
        }
    }

    /// Changed or deleted a relationship, having observed it.
    pub(crate) fn change_relationship(&mut self, id: RelId, type_id: TypeId) {
        if self.own_rels.contains(id.0) {
            return;
        }
        self.add(Item::TypeContent(type_id.0));
        if self.room(Count::RelsWritten) {
            self.read(Item::TypeContentBulk(type_id.0));
            let fresh = self.note(Item::Rel(id.0), READ | ADD);
            self.spend(Count::RelsWritten, fresh);
        } else {
            self.read(Item::TypeContent(type_id.0));
            self.add(Item::TypeContentBulk(type_id.0));
        }
    }

    // ---- keys, indexes, buckets

    /// Observed the row under one key.
    pub fn read_key(&mut self, space: Space, key: &[u8]) {
        self.read_cell(space, EXACT, key);
    }

    /// Observed all entries of an index whose first `fields` fields encode to `prefix`.
    pub fn read_fields(&mut self, space: Space, fields: usize, prefix: &[u8]) {
        self.read_cell(space, FIELDS + fields as u8, prefix);
    }

    fn read_cell(&mut self, space: Space, level: u8, bytes: &[u8]) {
        if !self.active {
            return;
        }
        if self.room(Count::KeysRead) {
            self.read(Item::SpaceBulk(space));
            let fresh = self.read(Item::cell(space, level, bytes));
            self.spend(Count::KeysRead, fresh);
        } else {
            self.read(Item::SpaceWhole(space));
        }
    }

    /// Observed all keys from `start` up to `end` (`None`: the last). Both are relative to the space.
    pub fn read_range(&mut self, space: Space, start: &[u8], end: Option<&[u8]>) {
        if !self.active {
            return;
        }
        let cells = end.and_then(|end| cover(start, end));
        match cells {
            Some(cells) if self.room(Count::KeysRead) => {
                self.read(Item::SpaceBulk(space));
                for (level, cell) in cells {
                    let fresh = self.read(Item::cell(space, level, &cell));
                    self.spend(Count::KeysRead, fresh);
                }
            }
            _ => {
                self.read(Item::SpaceWhole(space));
            }
        }
    }

    /// Put or deleted one key; `observed` says whether the write depends on the previous row.
    pub fn change_key(&mut self, space: Space, key: &[u8], observed: bool) {
        if self.changed != Some(space) {
            self.add(Item::SpaceWhole(space));
            self.changed = Some(space);
        }
        if !self.room(Count::KeysWritten) {
            self.add(Item::SpaceBulk(space));
            if observed {
                self.read(Item::SpaceWhole(space));
            }
            return;
        }
        // A blind write reads nothing, so that concurrent blind writes of one key do not conflict.
        let cell = Item::cell(space, EXACT, key);
        if observed {
            self.read(Item::SpaceBulk(space));
            self.note(cell, READ | ADD);
        } else {
            self.added.push(cell.granule());
        }
        self.spend(Count::KeysWritten, true);
        self.add_levels(space, key);
    }

    /// As [`Footprint::change_key`] of a key that is observed and may change many times: it is declared once.
    pub(crate) fn change_key_once(&mut self, space: Space, key: &[u8]) {
        if self.items.get(&Item::cell(space, EXACT, key)) != Some(&(READ | ADD)) {
            self.change_key(space, key, true);
        }
    }

    /// Deleted keys of a space without naming or reading them.
    pub(crate) fn change_space(&mut self, space: Space) {
        self.add(Item::SpaceWhole(space));
        self.add(Item::SpaceBulk(space));
    }

    /// Put or deleted an entry of an index; `ends` are the lengths of its first one, two, … fields.
    pub(crate) fn change_entry(&mut self, space: Space, values: &[u8], ends: &[usize]) {
        self.add(Item::SpaceWhole(space));
        if !self.room(Count::KeysWritten) {
            self.add(Item::SpaceBulk(space));
            return;
        }
        for (at, &end) in ends.iter().enumerate() {
            let cell = Item::cell(space, FIELDS + at as u8 + 1, &values[..end]);
            self.added.push(cell.granule());
        }
        self.spend(Count::KeysWritten, true);
        self.add_levels(space, values);
    }

    fn add_levels(&mut self, space: Space, key: &[u8]) {
        let key = head(key);
        let last = self.last_key.filter(|(of, _)| *of == space);
        cells_of(&key, last.as_ref().map(|(_, key)| key), |level, cell| {
            self.added.push(Item::cell(space, level, cell).granule());
        });
        self.last_key = Some((space, key));
    }

    // ---- convergent fields: `levels` are the places from the owner down to the field, the owner's first

    /// Observed that a property is not a convergent field of any record.
    pub(crate) fn read_not_convergent(&mut self, prop: PropId) {
        if self.active {
            self.read(Item::Convergent(prop.0));
        }
    }

    /// Observed which properties are convergent fields.
    pub(crate) fn read_convergent(&mut self) {
        if self.active {
            self.read(Item::AnyConvergent);
        }
    }

    /// Observed all that is at a place and below.
    pub fn read_field(&mut self, place: &[u8]) {
        self.read_of_fields(Item::Field(xxh3_128(place)));
    }

    /// Observed one element of the set at the last of `levels`.
    pub(crate) fn read_element(&mut self, levels: &[&[u8]], element: &[u8]) {
        let Some(set) = levels.last() else { return };
        self.read_of_fields(element_of(set, element));
        self.read_whether_cleared(levels);
    }

    /// Observed that no transaction cleared any of these.
    pub(crate) fn read_whether_cleared(&mut self, levels: &[&[u8]]) {
        for place in levels {
            self.read_of_fields(Item::Cleared(xxh3_128(place)));
        }
    }

    fn read_of_fields(&mut self, item: Item) {
        if !self.active {
            return;
        }
        if self.room(Count::KeysRead) {
            self.read(Item::FieldsBulk);
            let fresh = self.read(item);
            self.spend(Count::KeysRead, fresh);
        } else {
            self.read(Item::FieldsWhole);
        }
    }

    /// Changed the field at the last of `levels`, without reading it.
    pub(crate) fn change_field(&mut self, levels: &[&[u8]]) {
        self.add(Item::FieldsWhole);
        if !self.room(Count::KeysWritten) {
            self.add(Item::FieldsBulk);
            return;
        }
        for place in levels {
            let fresh = self.add(Item::Field(xxh3_128(place)));
            self.spend(Count::KeysWritten, fresh);
        }
    }

    /// Created the field at a place with a kind, having observed that it was absent. Conflicts with a concurrent
    /// creation with another kind, and not with one of the same kind.
    pub(crate) fn create_field(&mut self, place: &[u8], kind: ConvergentKind) {
        for other in ConvergentKind::ALL {
            if other == kind {
                continue;
            }
            if !self.room(Count::KeysWritten) {
                self.add(Item::FieldsBulk);
                break;
            }
            let fresh = self.add(created_as(place, other));
            self.spend(Count::KeysWritten, fresh);
        }
        self.read_of_fields(created_as(place, kind));
    }

    /// Changed one element of the set at the last of `levels`; `observed` says whether the change depends on the
    /// previous state.
    pub(crate) fn change_element(&mut self, levels: &[&[u8]], element: &[u8], observed: bool) {
        let Some(set) = levels.last() else { return };
        self.change_field(levels);
        if self.room(Count::KeysWritten) {
            let fresh = self.add(element_of(set, element));
            self.spend(Count::KeysWritten, fresh);
        } else {
            self.add(Item::FieldsBulk);
        }
        if observed {
            self.read_element(levels, element);
        }
    }

    /// Cleared what is at the last of `levels` and below, having observed it.
    pub(crate) fn clear_field(&mut self, levels: &[&[u8]]) {
        let Some(place) = levels.last() else { return };
        self.change_field(levels);
        self.read_field(place);
        let hash = xxh3_128(place);
        self.add(Item::Cleared(hash));
        self.read(Item::Folded(hash));
    }

    /// A convergent field's record: `set` says whether the property was set there as a plain value, else it was only
    /// read.
    pub(crate) fn plain_field(&mut self, place: &[u8], set: bool) {
        let item = Item::Plain(xxh3_128(place));
        if set {
            self.add(item);
        } else if self.active {
            self.read(item);
        }
    }

    // ---- replication: `item` is [`Item::Metadata`] or [`Item::Named`]

    /// Observed the replication metadata of a record.
    pub fn read_metadata(&mut self, item: Item) {
        if !self.active {
            return;
        }
        if self.room(Count::MetadataRead) {
            self.read(Item::MetadataBulk);
            let fresh = self.read(item);
            self.spend(Count::MetadataRead, fresh);
        } else {
            self.read(Item::MetadataWhole);
        }
    }

    /// Changed the replication metadata of a record, having observed it.
    pub fn change_metadata(&mut self, item: Item) {
        self.add(Item::MetadataWhole);
        if self.room(Count::MetadataWritten) {
            self.read(Item::MetadataBulk);
            let fresh = self.note(item, READ | ADD);
            self.spend(Count::MetadataWritten, fresh);
        } else {
            self.read(Item::MetadataWhole);
            self.add(Item::MetadataBulk);
        }
    }

    // ---- commit

    /// Declares everything to the engine.
    pub(crate) fn declare(&self, guard: &mut dyn FnMut(Granule, GuardMode)) {
        for (item, &modes) in &self.items {
            let mode = match modes {
                READ => GuardMode::Read,
                ADD => GuardMode::Add,
                _ => GuardMode::Write,
            };
            guard(item.granule(), mode);
        }
        for &granule in &self.added {
            guard(granule, GuardMode::Add);
        }
    }

    /// Describes a conflict.
    pub(crate) fn describe(&self, granule: Granule, catalog: &Catalog) -> String {
        match self.items.keys().find(|item| item.granule() == granule) {
            Some(item) => item.describe(catalog),
            None => "something that this transaction observed".into(),
        }
    }
}

fn element_of(set: &[u8], element: &[u8]) -> Item {
    Item::Element(xxh3_128(&[set, &[0], element].concat()))
}

/// What a creation of the field at a place with this kind reads, and one with another kind changes.
fn created_as(place: &[u8], kind: ConvergentKind) -> Item {
    Item::Field(xxh3_128(&[place, &[0, kind as u8]].concat()))
}

fn home(labels: &[LabelId]) -> u32 {
    labels.first().map_or(NONE, |label| label.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Keys in any order, of two alternating spaces, declare each of their cells, whatever was declared before.
        #[test]
        fn every_cell_of_a_changed_key_is_named(
            keys in prop::collection::vec((0..2_u32, prop::collection::vec(0..3_u8, 0..25)), 0..40),
        ) {
            let mut footprint = Footprint::new(true, 1_000);
            let mut expected = BTreeSet::new();
            for (label, key) in &keys {
                let space = Space::Keys(*label);
                footprint.change_key(space, key, false);
                expected.insert(Item::cell(space, EXACT, key).granule());
                cells_of(&head(key), None, |level, cell| {
                    expected.insert(Item::cell(space, level, cell).granule());
                });
            }
            let added: BTreeSet<Granule> = footprint.added.iter().copied().collect();
            prop_assert_eq!(added, expected);
        }
    }
}
