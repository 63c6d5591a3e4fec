//! What a transaction observed and changed, in the words of the model: the granules of its serializability.
//!
//! Two kinds of granule stand for a label, type, index or bucket beside the single things in it:
//! - **whole**: declared by every writer of a thing in it ([`Mode::Add`]), read by who observed all of it or too many
//!   single things;
//! - **bulk**: read by every reader of a single thing in it, declared by who changed too many single things to name.
//!
//! So a footprint stays bounded and still no observation is missed. Writers never collide through either, as both are
//! only added to. Nothing is declared for nodes and relationships that the transaction itself made: nobody else can
//! have seen them.

use std::collections::hash_map::Entry;

use isomer_storage::{Granule, GuardMode};
use isomer_value::{IndexId, LabelId, NodeId, RelId, TypeId};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use crate::{Catalog, catalog::NameKind, keyspace::Side};

/// Stands for "no label" and "any type".
pub(crate) const NONE: u32 = u32::MAX;

/// An ordered set of keys that is observed by point and by range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Space {
    /// The `_key`s of a label.
    Keys(u32),
    /// The entries of an index.
    Index(u32),
    /// The keys of a bucket.
    Bucket(u32),
    /// The values of a reversible bucket, and their keys.
    Reverse(u32),
    /// The sequences of a bucket.
    Sequences(u32),
    /// The names of the buckets.
    Buckets,
}

/// One thing that can be observed or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Item {
    /// The version of indexes and constraints.
    Schema,
    /// Whether a node exists.
    NodeExists(u64),
    /// Labels and properties of a node.
    Node(u64),
    /// Which nodes exist.
    AllNodes,
    /// Which nodes carry a label.
    Members(u32),
    /// What the nodes of a label hold, whole and bulk.
    LabelContent(u32),
    LabelBulk(u32),
    /// Properties of a relationship.
    Rel(u64),
    /// A node's relationships of one type (or any) on one side.
    Adjacency {
        node: u64,
        side: Side,
        type_id: u32,
    },
    /// Whether there is a relationship of a type (or any) between two nodes.
    Presence {
        source: u64,
        target: u64,
        type_id: u32,
    },
    /// Which relationships of a type (or any) exist; bulk for adjacency and presence too.
    TypeMembers(u32),
    TypeBulk(u32),
    /// What the relationships of a type hold, whole and bulk.
    TypeContent(u32),
    TypeContentBulk(u32),
    /// A key, or keys with common leading bytes (`level` many; [`EXACT`] for the whole key).
    Cell {
        space: Space,
        level: u8,
        hash: u128,
    },
    SpaceWhole(Space),
    SpaceBulk(Space),
    /// Whether a name of a kind is in the catalog: nothing can have a label, type or property that is not.
    Name {
        kind: u8,
        hash: u128,
    },
}

/// The level of a whole key.
pub(crate) const EXACT: u8 = 255;
/// The levels of equality on an index's leading fields: this plus their number.
pub(crate) const FIELDS: u8 = 200;
/// The numbers of leading bytes by which ranges are cut into cells. Few at the front, where floats and texts differ, and
/// near nine, where the last bytes of integers are.
const LEVELS: [usize; 9] = [2, 3, 4, 5, 7, 8, 9, 12, 20];
/// Most cells that a range is covered with.
const MAX_CELLS: usize = 16;

const READ: u8 = 1;
const ADD: u8 = 2;

/// The footprint of one writing transaction. Empty and idle in a reading one.
#[derive(Debug)]
pub(crate) struct Footprint {
    active: bool,
    limit: usize,
    items: FxHashMap<Item, u8>,
    own_nodes: FxHashSet<u64>,
    own_rels: FxHashSet<u64>,
    /// Single things declared so far: nodes read, written, adjacency read, written, relationships read, written, keys
    /// read, written.
    used: [usize; 8],
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
}

impl Footprint {
    pub(crate) fn new(active: bool, limit: usize) -> Self {
        Self {
            active,
            limit,
            items: FxHashMap::default(),
            own_nodes: FxHashSet::default(),
            own_rels: FxHashSet::default(),
            used: [0; 8],
        }
    }

    /// Whether anything is noted at all: readers skip work that only feeds the footprint.
    pub(crate) fn active(&self) -> bool {
        self.active
    }

    fn read(&mut self, item: Item) -> bool {
        self.note(item, READ)
    }

    fn add(&mut self, item: Item) -> bool {
        self.note(item, ADD)
    }

    /// Returns whether the item was not noted in this mode before.
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

    /// Whether another single thing of this sort may be named; else its container is declared instead.
    fn room(&mut self, count: Count) -> bool {
        self.used[count as usize] < self.limit
    }

    fn spend(&mut self, count: Count, fresh: bool) {
        self.used[count as usize] += usize::from(fresh);
    }

    /// Whether anything but the catalog was observed or changed.
    pub(crate) fn is_engaged(&self) -> bool {
        let of_catalog = |item: &Item| matches!(item, Item::Schema | Item::Name { .. });
        !self.items.keys().all(of_catalog)
    }

    // ---- schema, membership

    /// Observed that a name is not in the catalog yet; returns whether that is news.
    pub(crate) fn read_absent_name(&mut self, kind: NameKind, name: &str) -> bool {
        self.active && self.read(Item::name(kind, name))
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

    /// A node came to carry a label, or ceased to.
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

    /// The transaction made this node.
    pub(crate) fn create_node(&mut self, id: NodeId) {
        self.own_nodes.insert(id.0);
        self.add(Item::AllNodes);
    }

    /// Observed that a node exists; `home` is its first label.
    pub(crate) fn read_exists(&mut self, id: NodeId, home: Option<LabelId>) {
        if !self.active || self.own_nodes.contains(&id.0) {
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
        if !self.active || self.own_nodes.contains(&id.0) {
            return;
        }
        let home = home.map_or(NONE, |label| label.0);
        if self.room(Count::NodesRead) {
            self.read(Item::LabelBulk(home));
            let fresh = self.read(Item::Node(id.0));
            self.spend(Count::NodesRead, fresh);
        } else {
            self.read(Item::LabelContent(home));
        }
    }

    /// Changed labels or properties of a node, having observed them; call it with the labels before and after.
    pub(crate) fn change_node(&mut self, id: NodeId, labels: &[LabelId]) {
        if self.own_nodes.contains(&id.0) {
            return;
        }
        self.declare_node(labels, Item::Node(id.0));
    }

    /// Deleted a node that carried `labels`.
    pub(crate) fn delete_node(&mut self, id: NodeId, labels: &[LabelId]) {
        self.add(Item::AllNodes);
        if !self.own_nodes.contains(&id.0) {
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
            self.add(Item::LabelContent(label.0));
            if !single {
                self.add(Item::LabelBulk(label.0));
            }
        }
    }

    // ---- relationships

    /// Observed a node's relationships of one type (`None`: any) on one side.
    pub(crate) fn read_adjacency(&mut self, node: NodeId, side: Side, type_id: Option<TypeId>) {
        if !self.active || self.own_nodes.contains(&node.0) {
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
        if !self.active || self.own_nodes.contains(&source.0) || self.own_nodes.contains(&target.0)
        {
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

    /// The transaction made this relationship.
    pub(crate) fn create_relationship(
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
    pub(crate) fn delete_relationship(
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
        self.add(Item::TypeMembers(type_id.0));
        self.add(Item::TypeMembers(NONE));
        let (own_source, own_target) = (
            self.own_nodes.contains(&source.0),
            self.own_nodes.contains(&target.0),
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
        if !self.active || self.own_rels.contains(&id.0) {
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
        if self.own_rels.contains(&id.0) {
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

    /// Observed what stands under one key.
    pub(crate) fn read_key(&mut self, space: Space, key: &[u8]) {
        self.read_cell(space, EXACT, key);
    }

    /// Observed all entries of an index whose first `fields` fields encode to `prefix`.
    pub(crate) fn read_fields(&mut self, space: Space, fields: usize, prefix: &[u8]) {
        self.read_cell(space, FIELDS + fields as u8, prefix);
    }

    fn read_cell(&mut self, space: Space, level: u8, bytes: &[u8]) {
        if !self.active {
            return;
        }
        if self.room(Count::KeysRead) {
            self.read(Item::SpaceBulk(space));
            let fresh = self.read(Item::Cell {
                space,
                level,
                hash: xxh3_128(bytes),
            });
            self.spend(Count::KeysRead, fresh);
        } else {
            self.read(Item::SpaceWhole(space));
        }
    }

    /// Observed all keys from `start` up to `end` (`None`: the last). Both are relative to the space.
    pub(crate) fn read_range(&mut self, space: Space, start: &[u8], end: Option<&[u8]>) {
        if !self.active {
            return;
        }
        let cells = end.and_then(|end| cover(start, end));
        match cells {
            Some((level, cells)) if self.room(Count::KeysRead) => {
                self.read(Item::SpaceBulk(space));
                for cell in cells {
                    let fresh = self.read(Item::Cell {
                        space,
                        level: level as u8,
                        hash: xxh3_128(&cell),
                    });
                    self.spend(Count::KeysRead, fresh);
                }
            }
            _ => {
                self.read(Item::SpaceWhole(space));
            }
        }
    }

    /// Put or took out one key; `observed` says whether what stood there mattered.
    pub(crate) fn change_key(&mut self, space: Space, key: &[u8], observed: bool) {
        self.add(Item::SpaceWhole(space));
        if !self.room(Count::KeysWritten) {
            self.add(Item::SpaceBulk(space));
            if observed {
                self.read(Item::SpaceWhole(space));
            }
            return;
        }
        if observed {
            self.read(Item::SpaceBulk(space));
        }
        let mode = if observed { READ | ADD } else { ADD };
        self.note(
            Item::Cell {
                space,
                level: EXACT,
                hash: xxh3_128(key),
            },
            mode,
        );
        self.spend(Count::KeysWritten, true);
        self.add_levels(space, key);
    }

    /// Took out keys of a space without naming or reading them.
    pub(crate) fn change_space(&mut self, space: Space) {
        self.add(Item::SpaceWhole(space));
        self.add(Item::SpaceBulk(space));
    }

    /// Put or took out an entry of an index; `ends` are the lengths of its first one, two, … fields.
    pub(crate) fn change_entry(&mut self, space: Space, values: &[u8], ends: &[usize]) {
        self.add(Item::SpaceWhole(space));
        if !self.room(Count::KeysWritten) {
            self.add(Item::SpaceBulk(space));
            return;
        }
        for (at, &end) in ends.iter().enumerate() {
            self.add(Item::Cell {
                space,
                level: FIELDS + at as u8 + 1,
                hash: xxh3_128(&values[..end]),
            });
        }
        self.spend(Count::KeysWritten, true);
        self.add_levels(space, values);
    }

    fn add_levels(&mut self, space: Space, key: &[u8]) {
        let mut padded = [0; LEVELS[LEVELS.len() - 1]];
        let length = key.len().min(padded.len());
        padded[..length].copy_from_slice(&key[..length]);
        for level in LEVELS {
            self.add(Item::Cell {
                space,
                level: level as u8,
                hash: xxh3_128(&padded[..level]),
            });
        }
    }

    // ---- commit

    /// Hands everything to the engine.
    pub(crate) fn declare(&self, guard: &mut dyn FnMut(Granule, GuardMode)) {
        for (item, &modes) in &self.items {
            let mode = match modes {
                READ => GuardMode::Read,
                ADD => GuardMode::Add,
                _ => GuardMode::Write,
            };
            guard(item.granule(), mode);
        }
    }

    /// What collided, in words.
    pub(crate) fn describe(&self, granule: Granule, catalog: &Catalog) -> String {
        match self.items.keys().find(|item| item.granule() == granule) {
            Some(item) => item.describe(catalog),
            None => "something that this transaction observed".into(),
        }
    }
}

fn home(labels: &[LabelId]) -> u32 {
    labels.first().map_or(NONE, |label| label.0)
}

/// The deepest level at which few cells cover `start..end`, and these cells; `None` where only the whole space does.
fn cover(start: &[u8], end: &[u8]) -> Option<(usize, Vec<Vec<u8>>)> {
    LEVELS.iter().rev().find_map(|&level| {
        let cut = |bytes: &[u8]| {
            let mut cell = bytes[..bytes.len().min(level)].to_vec();
            cell.resize(level, 0);
            cell
        };
        let (first, last) = (cut(start), cut(end));
        if first > last {
            return Some((level, Vec::new())); // an empty range observes nothing
        }
        let mut cells = vec![first];
        while cells[cells.len() - 1] != last {
            if cells.len() == MAX_CELLS {
                return None;
            }
            let mut next = cells[cells.len() - 1].clone();
            for byte in next.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
            cells.push(next);
        }
        Some((level, cells))
    })
}

impl Item {
    /// The place of a name in the catalog, which whoever enters the name declares too.
    pub(crate) fn name(kind: NameKind, name: &str) -> Self {
        let hash = xxh3_128(name.as_bytes());
        Self::Name {
            kind: kind as u8,
            hash,
        }
    }

    /// The granule: a hash over the item's kind and numbers.
    pub(crate) fn granule(&self) -> Granule {
        let mut bytes = [0_u8; 32];
        let (kind, length) = match *self {
            Self::Schema => (1, 1),
            Self::NodeExists(id) => (2, put(&mut bytes, &[id])),
            Self::Node(id) => (3, put(&mut bytes, &[id])),
            Self::AllNodes => (4, 1),
            Self::Members(id) => (5, put(&mut bytes, &[id.into()])),
            Self::LabelContent(id) => (6, put(&mut bytes, &[id.into()])),
            Self::LabelBulk(id) => (7, put(&mut bytes, &[id.into()])),
            Self::Rel(id) => (8, put(&mut bytes, &[id])),
            Self::Adjacency {
                node,
                side,
                type_id,
            } => (
                9,
                put(&mut bytes, &[node, u64::from(type_id) << 1 | side as u64]),
            ),
            Self::Presence {
                source,
                target,
                type_id,
            } => (10, put(&mut bytes, &[source, target, type_id.into()])),
            Self::TypeMembers(id) => (11, put(&mut bytes, &[id.into()])),
            Self::TypeBulk(id) => (12, put(&mut bytes, &[id.into()])),
            Self::TypeContent(id) => (13, put(&mut bytes, &[id.into()])),
            Self::TypeContentBulk(id) => (14, put(&mut bytes, &[id.into()])),
            Self::Cell { space, level, hash } => (
                15,
                put(
                    &mut bytes,
                    &[
                        space.number() << 8 | u64::from(level),
                        (hash >> 64) as u64,
                        hash as u64,
                    ],
                ),
            ),
            Self::SpaceWhole(space) => (16, put(&mut bytes, &[space.number()])),
            Self::SpaceBulk(space) => (17, put(&mut bytes, &[space.number()])),
            Self::Name { kind, hash } => (
                18,
                put(&mut bytes, &[kind.into(), (hash >> 64) as u64, hash as u64]),
            ),
        };
        bytes[0] = kind;
        Granule(xxh3_128(&bytes[..length]))
    }

    fn describe(&self, catalog: &Catalog) -> String {
        let label = |id: u32| match catalog.label_name(LabelId(id)) {
            Some(name) => format!(":{name}"),
            None => "nodes without a label".into(),
        };
        let of_type = |id: u32| match catalog.type_name(TypeId(id)) {
            Some(name) => format!("relationships of type {name}"),
            None => "relationships".into(),
        };
        match *self {
            Self::Schema => "the indexes or constraints".into(),
            Self::NodeExists(id) => format!("the existence of node {id}"),
            Self::Node(id) => format!("node {id}"),
            Self::AllNodes => "the set of all nodes".into(),
            Self::Members(id) => format!("the set of nodes {}", label(id)),
            Self::LabelContent(id) | Self::LabelBulk(id) => format!("records of {}", label(id)),
            Self::Rel(id) => format!("relationship {id}"),
            Self::Adjacency {
                node,
                side: Side::Out,
                type_id,
            } => format!("the outgoing {} of node {node}", of_type(type_id)),
            Self::Adjacency {
                node,
                side: Side::In,
                type_id,
            } => format!("the incoming {} of node {node}", of_type(type_id)),
            Self::Presence {
                source,
                target,
                type_id,
            } => format!(
                "the {} from node {source} to node {target}",
                of_type(type_id)
            ),
            Self::TypeMembers(id) | Self::TypeBulk(id) => format!("the set of {}", of_type(id)),
            Self::TypeContent(id) | Self::TypeContentBulk(id) => {
                format!("the content of {}", of_type(id))
            }
            Self::Cell {
                space,
                level: EXACT,
                ..
            } => format!("one key of {}", space.describe(catalog)),
            Self::Cell { space, .. } => format!("a range of {}", space.describe(catalog)),
            Self::SpaceWhole(space) | Self::SpaceBulk(space) => space.describe(catalog),
            Self::Name { .. } => "a name that was new".into(),
        }
    }
}

impl Space {
    fn number(self) -> u64 {
        match self {
            Self::Keys(id) => u64::from(id),
            Self::Index(id) => 1 << 32 | u64::from(id),
            Self::Bucket(id) => 2 << 32 | u64::from(id),
            Self::Reverse(id) => 3 << 32 | u64::from(id),
            Self::Sequences(id) => 4 << 32 | u64::from(id),
            Self::Buckets => 5 << 32,
        }
    }

    fn describe(self, catalog: &Catalog) -> String {
        match self {
            Self::Keys(id) => format!(
                "the keys of :{}",
                catalog.label_name(LabelId(id)).unwrap_or_default()
            ),
            Self::Index(id) => match catalog.index(IndexId(id)) {
                Some(index) => format!("index {}", index.name),
                None => format!("index number {id}"),
            },
            Self::Bucket(id) => named_bucket(catalog, id),
            Self::Reverse(id) => format!("the values of {}", named_bucket(catalog, id)),
            Self::Sequences(id) => format!("the sequences of {}", named_bucket(catalog, id)),
            Self::Buckets => "the set of buckets".into(),
        }
    }
}

fn named_bucket(catalog: &Catalog, id: u32) -> String {
    match catalog.bucket_name(id) {
        Some(name) => format!("bucket {name}"),
        None => format!("bucket number {id}"),
    }
}

/// Writes the numbers behind the kind's byte and returns the length.
fn put(bytes: &mut [u8; 32], numbers: &[u64]) -> usize {
    for (at, number) in numbers.iter().enumerate() {
        bytes[1 + at * 8..9 + at * 8].copy_from_slice(&number.to_le_bytes());
    }
    1 + numbers.len() * 8
}
