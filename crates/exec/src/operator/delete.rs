//! Deleting. All rows are taken first; what they name is deleted together, relationships before nodes, so that
//! `DELETE r, n` and `DELETE n, r` are the same.
//!
//! Where another `DELETE` of the statement may still name them, the relationships of a node go with it and are *owed*:
//! the statement fails at its end if one of them was never named, so that `DELETE n DELETE r` is the same, too.

use isomer_data::{DataError, GraphRead};
use isomer_plan::physical::{self, Op};
use isomer_value::{NodeId, RelId, Value};
use rustc_hash::FxHashSet;

use super::{
    Argument, Child, Operate, Spot,
    blocking::{Drain, Kept},
    scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, write_error},
    error::{ErrorClass, ExecError, Result, shown},
    eval::{Selection, column},
};

/// Deletes nodes, relationships and paths.
pub(super) struct Delete {
    spot: Spot,
    input: Child,
    kept: Option<Drain>,
    held: usize,
}

/// What the rows name, in order, each once.
#[derive(Default)]
struct Targets {
    nodes: Vec<NodeId>,
    rels: Vec<RelId>,
    seen_nodes: FxHashSet<NodeId>,
    seen_rels: FxHashSet<RelId>,
}

/// Bytes of a target: in a list, and in two sets of what was seen and what is deleted.
const TARGET_BYTES: usize = 40;

impl Targets {
    fn len(&self) -> usize {
        self.nodes.len() + self.rels.len()
    }

    fn add(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Null => {}
            Value::Node(node) => self.add_node(node.id),
            Value::Relationship(one) => self.add_rel(one.id),
            Value::Path(path) => {
                path.nodes.iter().for_each(|node| self.add_node(node.id));
                path.relationships
                    .iter()
                    .for_each(|one| self.add_rel(one.id));
            }
            other => {
                return Err(ExecError::raised(
                    ErrorClass::TypeError,
                    "InvalidArgumentType",
                    format!(
                        "DELETE takes nodes, relationships and paths, not {}",
                        shown(other)
                    ),
                ));
            }
        }
        Ok(())
    }

    fn add_column(&mut self, column: &Column, len: usize) -> Result<()> {
        match column {
            Column::Nodes(nodes) => nodes.iter().for_each(|node| self.add_node(*node)),
            Column::Rels(rels) => rels.iter().for_each(|rel| self.add_rel(rel.id)),
            other => (0..len).try_for_each(|row| self.add(&other.get(row)))?,
        }
        Ok(())
    }

    fn add_node(&mut self, id: NodeId) {
        if self.seen_nodes.insert(id) {
            self.nodes.push(id);
        }
    }

    fn add_rel(&mut self, id: RelId) {
        if self.seen_rels.insert(id) {
            self.rels.push(id);
        }
    }
}

impl Delete {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input,
            kept: None,
            held: 0,
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Result<Drain> {
        let spot = self.spot.clone();
        let Op::Delete {
            targets, detach, ..
        } = spot.op()
        else {
            return Err(misplaced(spot.op()));
        };
        let kept = Kept::take(spot.id, &mut self.input, &mut self.held, cx)?;
        let mut all = Targets::default();
        kept.each(cx, |chunk, cx| {
            let before = all.len();
            for target in targets {
                let values = column(target, chunk, Selection::All(chunk.len()), cx)?;
                all.add_column(&values, chunk.len())?;
            }
            let bytes = (all.len() - before) * TARGET_BYTES;
            cx.run.watch.hold(bytes)?;
            self.held += bytes;
            Ok(())
        })?;
        for rel in all.rels {
            cx.tick(1)?;
            cx.run.owed_rels.remove(&rel);
            if cx.run.deleted_rels.insert(rel)
                && cx.tx.delete_relationship(rel).map_err(write_error)?
            {
                cx.run.counters.relationships_deleted += 1;
            }
        }
        let is_delete = |operator: &physical::Operator| matches!(operator.op, Op::Delete { .. });
        let deletes_again = spot
            .plan
            .operators
            .iter()
            .filter(|one| is_delete(one))
            .count()
            > 1;
        let mut exist = Vec::with_capacity(all.nodes.len());
        cx.reader().nodes_exist(&all.nodes, &mut exist)?;
        for (node, exists) in all.nodes.into_iter().zip(exist) {
            cx.tick(1)?;
            if !exists {
                cx.run.deleted_nodes.insert(node);
                continue;
            }
            let owes = !*detach && deletes_again;
            let mut stopped = None;
            let deleted = cx.tx.delete_node_while(node, *detach || owes, &mut || {
                stopped = cx.run.watch.tick(1).err();
                stopped.is_none()
            });
            if let Some(stopped) = stopped {
                return Err(stopped);
            }
            let detached = deleted.map_err(write_error)?;
            if owes {
                let owed = detached.iter().map(|rel| (*rel, node));
                cx.run.owed_rels.extend(owed);
            }
            cx.run.deleted_nodes.insert(node);
            cx.run.counters.nodes_deleted += 1;
            cx.run.counters.relationships_deleted += detached.len() as u64;
            cx.run.deleted_rels.extend(detached);
        }
        Ok(kept.drain())
    }
}

/// At the end of a statement: nothing may be owed.
pub(crate) fn settle(cx: &Cx<'_>) -> Result<()> {
    match cx.run.owed_rels.values().min() {
        None => Ok(()),
        Some(node) => Err(write_error(DataError::StillConnected { node: node.0 })),
    }
}

impl Operate for Delete {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let kept = match self.kept.take() {
            Some(kept) => kept,
            None => self.run(cx)?,
        };
        let mut chunk = self.kept.insert(kept).next(&mut self.held, cx)?;
        if let Some(chunk) = &mut chunk {
            self.spot.prune(chunk);
        }
        Ok(chunk)
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.kept = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.kept = None;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}
