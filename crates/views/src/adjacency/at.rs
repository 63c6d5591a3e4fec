//! Adjacency at one version, for operators.

use std::sync::Arc;

use isomer_value::TypeId;

use super::{AdjacencyBase, Link, Side, overlay};
use crate::slot::Pinned;

/// The relationships of one type, or of several, seen from one end at one version. Clones share it; it may be used from
/// any thread, for as long as wanted.
///
/// Node ids are 32 bits: nodes with larger ids have no relationships here, as a database that has one is not answered
/// from views. Cost: a node without changes since the base was made is a slice of it, found in four loads from memory;
/// others are merged into the caller's scratch.
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
    side: Side,
    pinned: Pinned<AdjacencyBase>,
}

/// Buffers for [`AdjacencyAt::relationships`], to be used again and again.
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

/// The relationships of a node: two slices of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Links<'s> {
    /// The other ends, ascending.
    pub others: &'s [u32],
    /// The relationships; ascending where their other end is the same.
    pub ids: &'s [u32],
}

impl AdjacencyAt {
    pub(crate) fn one(type_id: TypeId, side: Side, pinned: Pinned<AdjacencyBase>) -> Self {
        Self(Parts::One(Part {
            type_id,
            side,
            pinned,
        }))
    }

    pub(crate) fn many(parts: Vec<Self>) -> Self {
        match <[Self; 1]>::try_from(parts) {
            Ok([one]) => one,
            Err(parts) => Self(Parts::Many(parts.into())),
        }
    }

    /// The other ends of `node`'s relationships, ascending; parallel relationships repeat theirs, a self loop's is the
    /// node itself.
    #[inline]
    pub fn neighbours<'s>(&'s self, node: u32, scratch: &'s mut Vec<u32>) -> &'s [u32] {
        match &self.0 {
            Parts::One(part) if !part.pinned.touched(node) => part.pinned.base().others(node),
            _ => self.gathered(node, scratch),
        }
    }

    /// As [`AdjacencyAt::neighbours`], with the relationships; only where [`AdjacencyAt::has_relationships`].
    #[inline]
    pub fn relationships<'s>(&'s self, node: u32, scratch: &'s mut LinkScratch) -> Links<'s> {
        match &self.0 {
            Parts::One(part) if !part.pinned.touched(node) => Links {
                others: part.pinned.base().others(node),
                ids: part.pinned.base().ids(node),
            },
            Parts::One(part) => {
                part.overlay(node, scratch);
                Links {
                    others: &scratch.others,
                    ids: &scratch.ids,
                }
            }
            Parts::Many(_) => Links {
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

    /// All ids of nodes at either end lie below it.
    pub fn id_bound(&self) -> u32 {
        match &self.0 {
            Parts::One(part) => part.pinned.base().bound(),
            Parts::Many(parts) => parts.iter().map(Self::id_bound).max().unwrap_or(0),
        }
    }

    /// Whether anything changed since the base was made: if not, every answer is a slice of the base.
    pub fn has_delta(&self) -> bool {
        match &self.0 {
            Parts::One(part) => part.pinned.overlaid,
            Parts::Many(parts) => parts.iter().any(Self::has_delta),
        }
    }

    /// Number of relationships, about where there is a delta.
    pub fn relationship_count(&self) -> u64 {
        match &self.0 {
            Parts::One(part) => part.pinned.base().count,
            Parts::Many(parts) => parts.iter().map(Self::relationship_count).sum(),
        }
    }

    /// Whether [`AdjacencyAt::relationships`] may be asked: it holds one type, with the relationships' ids.
    pub fn has_relationships(&self) -> bool {
        match &self.0 {
            Parts::One(part) => part.pinned.base().with_ids,
            Parts::Many(_) => false,
        }
    }

    /// The parts of one type each.
    pub fn parts(&self) -> &[Self] {
        match &self.0 {
            Parts::One(_) => std::slice::from_ref(self),
            Parts::Many(parts) => parts,
        }
    }

    /// The type, of adjacency of one type.
    pub fn type_id(&self) -> Option<TypeId> {
        match &self.0 {
            Parts::One(part) => Some(part.type_id),
            Parts::Many(_) => None,
        }
    }

    /// The end from which relationships are seen, of adjacency of one type.
    pub fn side(&self) -> Option<Side> {
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
        overlay::settle(&mut scratch.changes);
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
