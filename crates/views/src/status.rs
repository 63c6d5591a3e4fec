//! Status of views, for display.

use std::sync::Arc;

use isomer_data::{Catalog, Version};
use isomer_value::{LabelId, Names, PropId, TypeId};

use crate::side::AdjacencySide;

/// What a view holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ViewKind {
    /// The relationships of a type seen from one end.
    Adjacency(TypeId, AdjacencySide),
    /// The nodes of a label, or all.
    Members(Option<LabelId>),
    /// The values at a path of a label's nodes.
    Column(LabelId, Arc<[PropId]>),
    /// The values at a path of a type's relationships.
    RelColumn(TypeId, Arc<[PropId]>),
}

impl ViewKind {
    /// The view of the same relationships from the other end, for adjacency.
    pub fn reversed(&self) -> Option<Self> {
        match self {
            Self::Adjacency(type_id, side) => Some(Self::Adjacency(*type_id, side.reversed())),
            _ => None,
        }
    }
}

/// The records whose values a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Owner {
    /// The nodes that have a label.
    Nodes(LabelId),
    /// The relationships of a type.
    Relationships(TypeId),
}

impl Owner {
    /// The view of the values at a path of these records.
    pub fn column(self, path: Arc<[PropId]>) -> ViewKind {
        match self {
            Self::Nodes(label) => ViewKind::Column(label, path),
            Self::Relationships(type_id) => ViewKind::RelColumn(type_id, path),
        }
    }
}

/// The two kinds of records that columns hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Records {
    Nodes,
    Relationships,
}

impl Records {
    pub(crate) fn of(owner: Owner) -> Self {
        match owner {
            Owner::Nodes(_) => Self::Nodes,
            Owner::Relationships(_) => Self::Relationships,
        }
    }
}

impl ViewKind {
    /// Owner and path, for a column.
    pub fn as_column(&self) -> Option<(Owner, &Arc<[PropId]>)> {
        match self {
            Self::Column(label, path) => Some((Owner::Nodes(*label), path)),
            Self::RelColumn(type_id, path) => Some((Owner::Relationships(*type_id), path)),
            Self::Adjacency(..) | Self::Members(_) => None,
        }
    }

    /// A readable name with the names of the catalog: `relationships KNOWS by start`, `nodes Person`, `values
    /// Person.address.city`, `values [KNOWS].since`.
    pub fn describe(&self, catalog: &Catalog) -> String {
        let label = |id: LabelId| {
            catalog
                .label_name(id)
                .map_or_else(|| format!("label {}", id.0), |name| name.to_string())
        };
        let rel_type = |id: TypeId| {
            catalog
                .type_name(id)
                .map_or_else(|| format!("type {}", id.0), |name| name.to_string())
        };
        let values = |owner: String, path: &[PropId]| {
            let mut text = format!("values {owner}");
            for prop in path {
                text.push('.');
                match Names::name(catalog, *prop) {
                    Some(name) => text.push_str(&name),
                    None => text.push_str(&prop.0.to_string()),
                }
            }
            text
        };
        match self {
            Self::Adjacency(type_id, side) => {
                let end = match side {
                    AdjacencySide::Out => "start",
                    AdjacencySide::In => "end",
                };
                format!("relationships {} by {end}", rel_type(*type_id))
            }
            Self::Members(None) => "all nodes".into(),
            Self::Members(Some(id)) => format!("nodes {}", label(*id)),
            Self::Column(id, path) => values(label(*id), path),
            Self::RelColumn(id, path) => values(format!("[{}]", rel_type(*id)), path),
        }
    }
}

/// State of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewState {
    /// Ready: it answers the newest versions.
    Standing,
    /// Under construction; reads use the rows.
    Building,
    /// Requested or ready earlier; reads use the rows.
    Absent,
}

/// One view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewStatus {
    /// What it holds.
    pub kind: ViewKind,
    /// Its state.
    pub state: ViewState,
    /// The version of its base.
    pub version: Version,
    /// Relationships, nodes or values in its base.
    pub count: u64,
    /// Changes in its delta.
    pub delta_count: u64,
    /// Bytes of memory.
    pub bytes: u64,
    /// The version in its file, if it has one.
    pub stored_version: Option<Version>,
    /// Size of its file in bytes.
    pub stored_bytes: u64,
}
