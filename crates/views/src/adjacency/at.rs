//! Adjacency at one version, for operators.

use std::sync::Arc;

use isomer_value::TypeId;

use super::{AdjacencyBase, Link, overlay};
use crate::{side::AdjacencySide, slot::Pinned};

/// The relationships of one type, or of several, seen from one end at one version. Cheap to clone; may be
/// used from any thread and kept as long as needed.
///
/// Node ids are 32 bits: larger ids have no relationships here, because a database that has one is never
/// answered from views. Cost: a node without changes since the base was built is a slice of the base, found
/// with four memory loads; other nodes are merged into the caller's scratch buffers.
#[derive(Clone)]
pub struct AdjacencyAt(Parts);

#[derive(Clone)]
enum Parts {
    One(Part),
    Many(Arc<[AdjacencyAt]>),
}

#[derive(Clone)]
struct Part {
    type_id: TypeId,
    side: AdjacencySide,
    pinned: Pinned<AdjacencyBase>,
}

/// Reusable buffers for [`AdjacencyAt::relationships`].
#[derive(Debug, Default)]
pub struct LinkScratch {
    changes: Vec<Link>,
    others: Vec<u32>,
    ids: Vec<u32>,
}

impl LinkScratch {
    /// Empty buffers.
    pub fn new() -> Self {
        Self::default()
    }
}

/// The relationships of a node: two slices of equal length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLinks<'s> {
    /// The other ends, ascending.
    pub others: &'s [u32],
    /// The relationships; ascending among parallel relationships.
    pub ids: &'s [u32],
}

impl AdjacencyAt {
    pub(crate) fn of_type(
        type_id: TypeId,
        side: AdjacencySide,
        pinned: Pinned<AdjacencyBase>,
    ) -> Self {
        Self(Parts::One(Part {
            type_id,
            side,
            pinned,
        }))
    }

    pub(crate) fn of_types(parts: Vec<Self>) -> Self {
        match <[Self; 1]>::try_from(parts) {
            Ok([one]) => one,
            Err(parts) => Self(Parts::Many(parts.into())),
        }
    }

    /// The other ends of `node`'s relationships, ascending; parallel relationships repeat theirs, and the
    /// other end of a self loop is the node itself.
    #[inline]
    pub fn neighbours<'s>(&'s self, node: u32, scratch: &'s mut Vec<u32>) -> &'s [u32] {
        match &self.0 {
            Parts::One(part) if !part.pinned.touched(node) => part.pinned.base().others(node),
            _ => self.gathered(node, scratch),
        }
    }

    /// As [`AdjacencyAt::neighbours`], with the relationship ids; requires
    /// [`AdjacencyAt::has_relationships`].
    #[inline]
    pub fn relationships<'s>(&'s self, node: u32, scratch: &'s mut LinkScratch) -> NodeLinks<'s> {
        match &self.0 {
            Parts::One(part) if !part.pinned.touched(node) => NodeLinks {
                others: part.pinned.base().others(node),
                ids: part.pinned.base().ids(node),
            },
            Parts::One(part) => {
                part.overlay(node, scratch);
                NodeLinks {
                    others: &scratch.others,
                    ids: &scratch.ids,
                }
            }
            Parts::Many(_) => NodeLinks {
                others: &[],
                ids: &[],
            },
        }
    }

    /// Number of `node`'s relationships.
    #[inline]
    pub fn degree(&self, node: u32) -> u32 {
        match &self.0 {
            Parts::One(part) => part.degree(node),
            Parts::Many(parts) => parts.iter().map(|part| part.degree(node)).sum(),
        }
    }

    /// Upper bound (exclusive) of all node ids at either end.
    pub fn id_bound(&self) -> u32 {
        match &self.0 {
            Parts::One(part) => part.pinned.base().bound(),
            Parts::Many(parts) => parts.iter().map(Self::id_bound).max().unwrap_or(0),
        }
    }

    /// Whether the delta holds changes: if not, every result is a slice of the base.
    pub fn has_delta(&self) -> bool {
        match &self.0 {
            Parts::One(part) => part.pinned.overlaid,
            Parts::Many(parts) => parts.iter().any(Self::has_delta),
        }
    }

    /// Number of relationships, approximate if there is a delta.
    pub fn relationship_count(&self) -> u64 {
        match &self.0 {
            Parts::One(part) => part.pinned.base().count,
            Parts::Many(parts) => parts.iter().map(Self::relationship_count).sum(),
        }
    }

    /// Whether [`AdjacencyAt::relationships`] may be called: the view holds one type, with relationship ids.
    pub fn has_relationships(&self) -> bool {
        match &self.0 {
            Parts::One(part) => part.pinned.base().with_ids,
            Parts::Many(_) => false,
        }
    }

    /// The single-type views it consists of.
    pub fn parts(&self) -> &[Self] {
        match &self.0 {
            Parts::One(_) => std::slice::from_ref(self),
            Parts::Many(parts) => parts,
        }
    }

    /// The type, for a view of one type.
    pub fn type_id(&self) -> Option<TypeId> {
        match &self.0 {
            Parts::One(part) => Some(part.type_id),
            Parts::Many(_) => None,
        }
    }

    /// The end from which relationships are seen, for a view of one type.
    pub fn side(&self) -> Option<AdjacencySide> {
        match &self.0 {
            Parts::One(part) => Some(part.side),
            Parts::Many(_) => None,
        }
    }

    #[cold]
    fn gathered<'s>(&'s self, node: u32, scratch: &'s mut Vec<u32>) -> &'s [u32] {
        scratch.clear();
        match &self.0 {
            Parts::One(part) => {
                let mut buffers = LinkScratch::default();
                part.overlay(node, &mut buffers);
                std::mem::swap(scratch, &mut buffers.others);
            }
            Parts::Many(parts) => {
                let mut one = Vec::new();
                for part in parts.iter() {
                    scratch.extend_from_slice(part.neighbours(node, &mut one));
                }
                scratch.sort_unstable();
            }
        }
        scratch
    }
}

impl std::fmt::Debug for AdjacencyAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdjacencyAt")
            .field("relationships", &self.relationship_count())
            .field("has_delta", &self.has_delta())
            .finish_non_exhaustive()
    }
}

impl Part {
    #[inline]
    fn degree(&self, node: u32) -> u32 {
        let base = self.pinned.base().degree(node) as u32;
        if !self.pinned.touched(node) {
            return base;
        }
        let mut change = 0_i64;
        self.pinned.newest_first(node, |link| {
            change += if link.added { 1 } else { -1 };
        });
        u32::try_from(i64::from(base) + change).unwrap_or(0)
    }

    fn overlay(&self, node: u32, scratch: &mut LinkScratch) {
        scratch.changes.clear();
        scratch.others.clear();
        scratch.ids.clear();
        self.pinned
            .newest_first(node, |link| scratch.changes.push(*link));
        overlay::normalise(&mut scratch.changes);
        let base = self.pinned.base();
        overlay::apply(
            base.others(node),
            base.ids(node),
            &scratch.changes,
            &mut scratch.others,
            &mut scratch.ids,
        );
    }
}
