//! Adjacency: the relationships of nodes, between nodes, and their number.

use isomer_layout::{
    DataError,
    graph::rows::RelRow,
    keyspace::{self, Side, after_prefix, push_id, push_link, take_adjacency},
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};
use isomer_value::{NodeId, RelId, TypeId};

use crate::{Direction, Graph, Neighbours, Transaction, dirty::sides};

/// With at most this number of types in the catalog, "any type" between two nodes is looked up type by type.
const FEW_TYPES: usize = 16;

/// One entry of a node's adjacency.
#[derive(Clone, Copy)]
struct Link {
    side: Side,
    type_id: TypeId,
    other: NodeId,
    rel: RelId,
}

impl Link {
    fn row(self, node: NodeId) -> RelRow {
        let (source, target) = match self.side {
            Side::Out => (node, self.other),
            Side::In => (self.other, node),
        };
        RelRow {
            id: self.rel,
            type_id: self.type_id,
            source,
            target,
        }
    }
}

fn sorted(types: &[TypeId]) -> Vec<TypeId> {
    let mut types = types.to_vec();
    types.sort_unstable();
    types.dedup();
    types
}

impl Graph<'_> {
    #[doc(hidden)]
    pub fn expand_rows(
        self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        let types = sorted(types);
        let mut walk = Walk::new(self.tx);
        for &node in nodes {
            walk.links(node, direction, &types, &mut |link| {
                out.push(link.row(node))
            })?;
            out.end_group();
        }
        Ok(())
    }

    /// All relationships of a node: 8 bytes each, where [`Graph::expand_rows`] takes 32.
    pub(super) fn relationships_of(self, node: NodeId) -> Result<Vec<RelId>, DataError> {
        let mut rels = Vec::new();
        Walk::new(self.tx).links(node, Direction::Both, &[], &mut |link| rels.push(link.rel))?;
        Ok(rels)
    }

    pub(super) fn degrees(
        self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Vec<u64>,
    ) -> Result<(), DataError> {
        let types = sorted(types);
        let mut walk = Walk::new(self.tx);
        for &node in nodes {
            let mut degree = 0;
            walk.links(node, direction, &types, &mut |_| degree += 1)?;
            out.push(degree);
        }
        Ok(())
    }

    pub(super) fn expand_pairs(
        self,
        pairs: &[(NodeId, NodeId)],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        let types = sorted(types);
        let all: Vec<TypeId>;
        let looked_up = if types.is_empty() {
            all = self
                .tx
                .names()
                .types()
                .into_iter()
                .map(|(id, _)| id)
                .collect();
            &all
        } else {
            &types
        };
        let mut walk = Walk::new(self.tx);
        for &(node, other) in pairs {
            self.tx
                .view_reads()
                .note_presence(node, other, direction, &types);
            for &side in sides(direction) {
                if node == other && side == Side::In && direction == Direction::Both {
                    continue; // a self.tx loop appears once
                }
                let mut push = |link: Link| {
                    if link.other == other {
                        out.push(link.row(node));
                    }
                };
                if types.is_empty() && looked_up.len() > FEW_TYPES {
                    walk.side(node, side, None, None, &mut push)?;
                } else {
                    for &type_id in looked_up {
                        walk.side(node, side, Some(type_id), Some(other), &mut push)?;
                    }
                }
            }
            out.end_group();
        }
        Ok(())
    }
}

/// Reads adjacency with buffers that are reused for all nodes of a batch.
struct Walk<'a> {
    tx: &'a Transaction,
    watched: bool,
    start: Vec<u8>,
    page: Page,
}

impl<'a> Walk<'a> {
    fn new(tx: &'a Transaction) -> Self {
        Self {
            tx,
            watched: tx.footprint().active(),
            start: Vec::with_capacity(32),
            page: Page::new(),
        }
    }

    /// All relationships of one node; `types` empty means all. Declares the footprint.
    fn links(
        &mut self,
        node: NodeId,
        direction: Direction,
        types: &[TypeId],
        visit: &mut dyn FnMut(Link),
    ) -> Result<(), DataError> {
        if self.watched {
            self.tx.view_reads().note_adjacency(node, direction, types);
        }
        let both = direction == Direction::Both;
        // A self loop is stored on both sides; together they are one relationship.
        let mut once = |link: Link| {
            if !(both && link.side == Side::In && link.other == node) {
                visit(link);
            }
        };
        if both && types.is_empty() {
            self.start = keyspace::adjacency_of(node);
            let skip = self.start.len();
            return self.scan(skip, &mut once);
        }
        for &side in sides(direction) {
            if types.is_empty() {
                self.side(node, side, None, None, &mut once)?;
            }
            for &type_id in types {
                self.side(node, side, Some(type_id), None, &mut once)?;
            }
        }
        Ok(())
    }

    /// One side of one node, of one type or all, to one other end or all. Declares no footprint.
    fn side(
        &mut self,
        node: NodeId,
        side: Side,
        type_id: Option<TypeId>,
        other: Option<NodeId>,
        visit: &mut dyn FnMut(Link),
    ) -> Result<(), DataError> {
        self.start = keyspace::adjacency_of(node);
        let skip = self.start.len();
        let Some(type_id) = type_id else {
            // Links of one side share bit 7 of their first byte.
            let mut end = self.start.clone();
            self.start.push((side as u8) << 7);
            match side {
                Side::Out => end.push(0x80),
                Side::In => end.push(0xff), // no link begins with it
            }
            return self.scan_to(skip, Some(end), visit);
        };
        push_link(&mut self.start, side, type_id);
        if let Some(other) = other {
            push_id(&mut self.start, other.0);
        }
        self.scan(skip, visit)
    }

    /// All entries with the prefix `start`, whose first `skip` bytes name the node.
    fn scan(&mut self, skip: usize, visit: &mut dyn FnMut(Link)) -> Result<(), DataError> {
        let end = after_prefix(&self.start);
        self.scan_to(skip, end, visit)
    }

    fn scan_to(
        &mut self,
        skip: usize,
        end: Option<Vec<u8>>,
        visit: &mut dyn FnMut(Link),
    ) -> Result<(), DataError> {
        let mut rest = Some((std::mem::take(&mut self.start), end));
        while let Some((start, end)) = rest.take() {
            let limit = PageLimit {
                keys: 8192,
                bytes: 1 << 20,
            };
            let range = KeyRange {
                start: &start,
                end: end.as_deref(),
            };
            self.tx
                .read()
                .scan(range, Order::Ascending, limit, &mut self.page)?;
            for (key, _) in self.page.iter() {
                let (side, type_id, other, rel) = take_adjacency(&key[skip..])?;
                visit(Link {
                    side,
                    type_id,
                    other,
                    rel,
                });
            }
            rest = self
                .page
                .next()
                .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
            self.start = start;
        }
        Ok(())
    }
}
