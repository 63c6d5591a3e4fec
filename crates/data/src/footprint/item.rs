//! The items that a footprint names, and the granules that represent them.

#![allow(missing_docs)] // the variants are granules; what they are of, their fields say

use isomer_layout::{
    catalog::{Catalog, names::NameKind},
    keyspace::Side,
};
use isomer_storage::Granule;
use isomer_value::{IndexId, LabelId, PropId, TypeId};
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// Represents "no label" and "any type".
pub const NONE: u32 = u32::MAX;

/// An ordered set of keys that is observed by point and by range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
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
    /// The entries of all folders.
    Folders,
    /// Files and folders by number, each with its whole content.
    Files,
}

/// An item that can be observed or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
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
    /// The content of the nodes of a label, whole and bulk.
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
    /// The content of the relationships of a type, whole and bulk.
    TypeContent(u32),
    TypeContentBulk(u32),
    /// A key, or keys with common leading bytes (`level` many; [`EXACT`] for the whole key): see [`Item::cell`].
    Cell {
        space: Space,
        level: u8,
        hash: u128,
    },
    SpaceWhole(Space),
    SpaceBulk(Space),
    /// Whether a name of a kind is in the catalog: no record can have a label, type or property without a name.
    Name {
        kind: u8,
        hash: u128,
    },
    /// Whether a property is convergent anywhere, and whether any is.
    Convergent(u32),
    AnyConvergent,
    /// The content of a convergent field, by its place; of an owner, or of a map, all that is below.
    Field(u128),
    /// One element of a convergent set.
    Element(u128),
    /// Whether a field was cleared as a whole.
    Cleared(u128),
    /// Whether a counter was folded.
    Folded(u128),
    /// Whether the record contains a convergent property as a plain value.
    Plain(u128),
    /// All convergent fields, whole and bulk.
    FieldsWhole,
    FieldsBulk,
    /// The replication metadata of a node or relationship, and the record that has an identity; whole and bulk.
    Metadata {
        of_rel: bool,
        id: u64,
    },
    Named(u128),
    MetadataWhole,
    MetadataBulk,
    /// What only small separate commits observe and change, so that two processes do not reserve the same: the next
    /// number of a kind of names, the end of the reserved ids of a space, the next number of a file, own transaction
    /// numbers.
    NextName(u8),
    ReservedIds(u8),
    FileNumbers,
    OwnNumbers,
    /// Whether the transactions with own numbers of a span may still commit.
    NumberSpan(u64),
    /// The saved counts, the eras, and the identity of the database.
    SavedCounts,
    Eras,
    Identity,
}

/// Own numbers of a span, whose transactions are given up together in a shared database.
pub(crate) const NUMBERS_IN_SPAN: u64 = 256;

/// The level of a whole key.
pub(crate) const EXACT: u8 = 255;
/// The levels of equality on an index's leading fields: this plus their number.
pub(crate) const FIELDS: u8 = 200;

impl Item {
    /// The entry of a name in the catalog, which a transaction that adds the name declares too.
    pub fn name(kind: NameKind, name: &str) -> Self {
        let hash = xxh3_128(name.as_bytes());
        Self::Name {
            kind: kind as u8,
            hash,
        }
    }

    /// The cell of a space in which `bytes` lie at a level. Its hash is its granule: changing a key declares many
    /// cells.
    pub fn cell(space: Space, level: u8, bytes: &[u8]) -> Self {
        let hash = xxh3_128_with_seed(bytes, space.number() << 8 | u64::from(level));
        Self::Cell { space, level, hash }
    }

    /// The granule: a hash over the item's kind and numbers.
    pub fn granule(&self) -> Granule {
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
            Self::Cell { hash, .. } => return Granule(hash),
            Self::SpaceWhole(space) => (16, put(&mut bytes, &[space.number()])),
            Self::SpaceBulk(space) => (17, put(&mut bytes, &[space.number()])),
            Self::Name { kind, hash } => (
                18,
                put(&mut bytes, &[kind.into(), (hash >> 64) as u64, hash as u64]),
            ),
            Self::Convergent(prop) => (19, put(&mut bytes, &[prop.into()])),
            Self::AnyConvergent => (20, 1),
            Self::Field(hash) => (21, put(&mut bytes, &halves(hash))),
            Self::Element(hash) => (22, put(&mut bytes, &halves(hash))),
            Self::Cleared(hash) => (23, put(&mut bytes, &halves(hash))),
            Self::Folded(hash) => (24, put(&mut bytes, &halves(hash))),
            Self::Plain(hash) => (25, put(&mut bytes, &halves(hash))),
            Self::FieldsWhole => (26, 1),
            Self::FieldsBulk => (27, 1),
            Self::Metadata { of_rel, id } => (28, put(&mut bytes, &[id, of_rel.into()])),
            Self::Named(hash) => (29, put(&mut bytes, &halves(hash))),
            Self::MetadataWhole => (30, 1),
            Self::MetadataBulk => (31, 1),
            Self::NextName(kind) => (32, put(&mut bytes, &[kind.into()])),
            Self::ReservedIds(space) => (33, put(&mut bytes, &[space.into()])),
            Self::FileNumbers => (34, 1),
            Self::OwnNumbers => (35, 1),
            Self::NumberSpan(span) => (36, put(&mut bytes, &[span])),
            Self::SavedCounts => (37, 1),
            Self::Eras => (38, 1),
            Self::Identity => (39, 1),
        };
        bytes[0] = kind;
        Granule(xxh3_128(&bytes[..length]))
    }

    pub(super) fn describe(&self, catalog: &Catalog) -> String {
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
            Self::Convergent(prop) => format!(
                "whether {} is a convergent field",
                catalog.prop_name(PropId(prop)).unwrap_or_default()
            ),
            Self::AnyConvergent => "which properties are convergent fields".into(),
            Self::Field(_) | Self::Cleared(_) | Self::Folded(_) | Self::Plain(_) => {
                "a convergent field".into()
            }
            Self::Element(_) => "an element of a convergent set".into(),
            Self::FieldsWhole | Self::FieldsBulk => "the convergent fields".into(),
            Self::Metadata { of_rel: false, id } => {
                format!("the replication metadata of node {id}")
            }
            Self::Metadata { of_rel: true, id } => {
                format!("the replication metadata of relationship {id}")
            }
            Self::Named(_) => "the replication identity of a record".into(),
            Self::MetadataWhole | Self::MetadataBulk => {
                "the replication metadata of records".into()
            }
            Self::NextName(_) | Self::ReservedIds(_) | Self::FileNumbers | Self::OwnNumbers => {
                "what another process reserved".into()
            }
            Self::NumberSpan(_) => "the number of the transaction, which has taken too long".into(),
            Self::SavedCounts => "the saved counts".into(),
            Self::Eras => "the eras".into(),
            Self::Identity => "the identity of the database".into(),
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
            Self::Folders => 6 << 32,
            Self::Files => 7 << 32,
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
            Self::Folders => "the names in a folder".into(),
            Self::Files => "a file".into(),
        }
    }
}

fn named_bucket(catalog: &Catalog, id: u32) -> String {
    match catalog.bucket_name(id) {
        Some(name) => format!("bucket {name}"),
        None => format!("bucket number {id}"),
    }
}

fn halves(hash: u128) -> [u64; 2] {
    [(hash >> 64) as u64, hash as u64]
}

/// Writes the numbers behind the kind's byte and returns the length.
fn put(bytes: &mut [u8; 32], numbers: &[u64]) -> usize {
    for (at, number) in numbers.iter().enumerate() {
        bytes[1 + at * 8..9 + at * 8].copy_from_slice(&number.to_le_bytes());
    }
    1 + numbers.len() * 8
}
