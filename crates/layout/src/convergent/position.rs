//! The position of a field: its owner, the enclosing names, its kind.

use isomer_value::{NodeId, PropId, RelId};

use crate::{
    convergent::place::{
        ConvergentKind, push_kind, push_name, push_property, take_kind, take_name,
    },
    keyspace::{self, IdSpace, take_id},
};

/// The owner of convergent fields. Closed: records of a graph are nodes and relationships.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConvergentOwner {
    /// A node, or the document that it is.
    Node(NodeId),
    /// A relationship.
    Relationship(RelId),
}

impl ConvergentOwner {
    /// The space of its id, and the id.
    #[doc(hidden)]
    pub fn parts(self) -> (IdSpace, u64) {
        match self {
            Self::Node(id) => (IdSpace::Nodes, id.0),
            Self::Relationship(id) => (IdSpace::Relationships, id.0),
        }
    }

    /// The record of the same kind with another id.
    #[doc(hidden)]
    pub fn with_number(self, id: u64) -> Self {
        match self {
            Self::Node(_) => Self::Node(NodeId(id)),
            Self::Relationship(_) => Self::Relationship(RelId(id)),
        }
    }

    /// The key of its record.
    #[doc(hidden)]
    pub fn record_key(self) -> Vec<u8> {
        match self {
            Self::Node(id) => keyspace::node(id),
            Self::Relationship(id) => keyspace::relationship(id),
        }
    }

    /// The prefix of all its keys.
    #[doc(hidden)]
    pub fn prefix(self) -> Vec<u8> {
        let (space, id) = self.parts();
        keyspace::convergent_owner(space, id)
    }
}

/// A place, with the end offset of each level: the owner, then each name.
#[derive(Clone, Debug)]
pub struct FieldPosition {
    /// The bytes of the place.
    pub place: Vec<u8>,
    ends: Vec<usize>,
}

impl FieldPosition {
    /// A field of any kind, by its path; not empty.
    pub fn new(owner: ConvergentOwner, top: PropId, below: &[&str]) -> Self {
        let mut place = owner.prefix();
        let mut ends = vec![place.len()];
        push_property(&mut place, top);
        ends.push(place.len());
        for name in below {
            push_kind(&mut place, ConvergentKind::Map, 0);
            push_name(&mut place, name);
            ends.push(place.len());
        }
        Self { place, ends }
    }

    /// Parses the position from an operation's bytes, which follow the owner.
    pub fn parse(owner: ConvergentOwner, below: &[u8]) -> Option<Self> {
        let mut place = owner.prefix();
        let start = place.len();
        let mut ends = vec![start];
        place.extend_from_slice(below);
        let mut rest = below;
        take_id(&mut rest)?;
        ends.push(start + below.len() - rest.len());
        while !rest.is_empty() {
            let (kind, _) = take_kind(&mut rest)?;
            match kind {
                ConvergentKind::Map if !rest.is_empty() => {
                    take_name(&mut rest)?;
                    ends.push(start + below.len() - rest.len());
                }
                _ if rest.is_empty() => {}
                _ => return None,
            }
        }
        Some(Self { place, ends })
    }

    /// The property that contains it.
    pub fn property(&self) -> Option<PropId> {
        let prop = take_id(&mut &self.place[self.ends[0]..])?;
        u32::try_from(prop).ok().map(PropId)
    }

    /// Sets the kind of the field.
    pub fn kind(mut self, kind: ConvergentKind, precision: u8) -> Self {
        push_kind(&mut self.place, kind, precision);
        self
    }

    /// The owner, then each name.
    pub fn levels(&self) -> Vec<&[u8]> {
        self.ends.iter().map(|&end| &self.place[..end]).collect()
    }

    /// Bytes of the owner.
    pub fn owner(&self) -> usize {
        self.ends[0]
    }

    /// The place of the top-level property.
    pub fn top(&self) -> &[u8] {
        &self.place[..self.ends[1]]
    }

    /// The place of the field without its kind.
    pub fn named(&self) -> &[u8] {
        &self.place[..self.ends[self.ends.len() - 1]]
    }
}
