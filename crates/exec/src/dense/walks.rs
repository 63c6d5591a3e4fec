//! Neighbours from the read views.

use isomer_data::Direction;
use isomer_value::{NodeId, TypeId};
use isomer_views::{AdjacencyAt, AdjacencySide, ViewsAt};

use crate::context::{Cx, TypeFilter};

/// An id as views store it; nodes with larger ids are in no view.
#[inline]
pub(crate) fn small(node: NodeId) -> Option<u32> {
    u32::try_from(node.0).ok()
}

/// The relationships of some types in one direction, at the transaction's version. Only if views are available and no
/// footprint must be recorded: in a transaction that reads.
#[derive(Clone, Debug)]
pub(crate) struct Walks {
    first: AdjacencyAt,
    /// The reverse adjacency, if the direction is both.
    second: Option<AdjacencyAt>,
}

/// Buffers for [`Walks::neighbours`].
#[derive(Debug, Default)]
pub(crate) struct WalkScratch {
    one: Vec<u32>,
    both: Vec<u32>,
}

impl Walks {
    fn new(views: &ViewsAt, filter: &TypeFilter, direction: Direction) -> Option<Self> {
        let of = |side| match filter {
            TypeFilter::Any => views.adjacency(None, side),
            TypeFilter::Nothing => None,
            TypeFilter::These(types) => match types.as_slice() {
                [one] => views.adjacency(Some(*one), side),
                types => of_types(views, types, side),
            },
        };
        Some(match direction {
            Direction::Outgoing => Self {
                first: of(AdjacencySide::Out)?,
                second: None,
            },
            Direction::Incoming => Self {
                first: of(AdjacencySide::In)?,
                second: None,
            },
            Direction::Both => {
                let (out, into) = (of(AdjacencySide::Out), of(AdjacencySide::In));
                Self {
                    first: out?,
                    second: Some(into?),
                }
            }
        })
    }

    /// The other ends of `node`'s relationships, once per relationship; a self loop counts once. Ascending, except if
    /// the direction is both.
    #[inline]
    pub(crate) fn neighbours<'s>(&'s self, node: u32, scratch: &'s mut WalkScratch) -> &'s [u32] {
        match &self.second {
            None => self.first.neighbours(node, &mut scratch.one),
            Some(second) => self.both(second, node, scratch),
        }
    }

    fn both<'s>(&self, second: &AdjacencyAt, node: u32, scratch: &'s mut WalkScratch) -> &'s [u32] {
        scratch.both.clear();
        let out = self.first.neighbours(node, &mut scratch.one);
        scratch.both.extend_from_slice(out);
        let into = second.neighbours(node, &mut scratch.one);
        scratch
            .both
            .extend(into.iter().filter(|other| **other != node));
        &scratch.both
    }

    /// The degree of `node`.
    pub(crate) fn degree(&self, node: u32, scratch: &mut WalkScratch) -> u64 {
        let out = u64::from(self.first.degree(node));
        match &self.second {
            None => out,
            Some(second) => {
                let loops = self.loops(node, scratch);
                out + u64::from(second.degree(node)) - loops
            }
        }
    }

    /// How many relationships connect `node` with `other`.
    pub(crate) fn between(&self, node: u32, other: u32, scratch: &mut WalkScratch) -> u64 {
        let count = |others: &[u32]| {
            let first = others.partition_point(|one| *one < other);
            let same = others[first..].iter().take_while(|one| **one == other);
            same.count() as u64
        };
        let out = count(self.first.neighbours(node, &mut scratch.one));
        match &self.second {
            Some(second) if node != other => out + count(second.neighbours(node, &mut scratch.one)),
            _ => out,
        }
    }

    /// How many self loops `node` has.
    pub(crate) fn loops(&self, node: u32, scratch: &mut WalkScratch) -> u64 {
        let others = self.first.neighbours(node, &mut scratch.one);
        let start = others.partition_point(|other| *other < node);
        others[start..]
            .iter()
            .take_while(|other| **other == node)
            .count() as u64
    }

    /// All ids of nodes at either end are below it.
    pub(crate) fn id_bound(&self) -> u32 {
        let second = self.second.as_ref().map_or(0, AdjacencyAt::id_bound);
        self.first.id_bound().max(second)
    }
}

fn of_types(views: &ViewsAt, types: &[TypeId], side: AdjacencySide) -> Option<AdjacencyAt> {
    (!types.is_empty()).then(|| views.adjacency_of_types(types, side))?
}

impl Cx<'_> {
    /// Neighbours from the views, if views of these types are available and no footprint must be recorded.
    pub(crate) fn walks(&self, filter: &TypeFilter, direction: Direction) -> Option<Walks> {
        let reader = self.reader();
        if !reader.is_plain() {
            return None;
        }
        Walks::new(reader.views(), filter, direction)
    }
}
