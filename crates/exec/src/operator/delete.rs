//! Deletion. All rows are read first; then the entities that they name are deleted together, relationships before
//! nodes, so that `DELETE r, n` and `DELETE n, r` do the same.
//!
//! If another `DELETE` of the statement may still name them, the relationships of a node are deleted with it and
//! recorded as *owed*: the statement fails at its end if one of them was never named. So `DELETE n DELETE r` does the
//! same, too.

use isomer_data::{DataError, GraphRead, IdSet};
use isomer_plan::physical::{self, Op};
use isomer_value::{NodeId, RelId, Value};

use super::{
    Argument, Child, Operate, OperatorRef,
    blocking::{BufferedRows, Drain},
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
    op_ref: OperatorRef,
    input: Child,
    kept: Option<Drain>,
    held: usize,
}

/// The entities that the rows name, in order, each once.
#[derive(Default)]
struct Targets {
    nodes: Vec<NodeId>,
    rels: Vec<RelId>,
    seen_nodes: IdSet,
    seen_rels: IdSet,
}

/// Bytes per target: its entry in a growing list, and in the sets of seen and deleted entities.
const TARGET_BYTES: usize = 14;

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
        if self.seen_nodes.insert(id.0) {
            self.nodes.push(id);
        }
    }

    fn add_rel(&mut self, id: RelId) {
        if self.seen_rels.insert(id.0) {
            self.rels.push(id);
        }
    }
}

impl Delete {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            kept: None,
            held: 0,
        }
    }

    fn run(&mut self, cx: &mut Cx<'_>) -> Result<Drain> {
        let op_ref = self.op_ref.clone();
        let Op::Delete {
            targets, detach, ..
        } = op_ref.op()
        else {
            return Err(misplaced(op_ref.op()));
        };
        // All rows before the first deletion: the operators below must not meet an entity that is half gone.
        let kept = BufferedRows::take(op_ref.id, &mut self.input, &mut self.held, cx)?;
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
        // Relationships first, so that a node whose relationships are deleted in the same clause counts as
        // unconnected.
        for rel in all.rels {
            cx.tick(1)?;
            cx.run.deleted.owed_rels.remove(&rel);
            if cx.run.deleted.rels.insert(rel.0)
                && cx
                    .tx
                    .graph_mut()
                    .delete_relationship(rel)
                    .map_err(write_error)?
            {
                cx.run.report.counters.relationships_deleted += 1;
            }
        }
        let is_delete = |operator: &physical::Operator| matches!(operator.op, Op::Delete { .. });
        let deletes_again = op_ref
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
                // It does not exist any more: nothing to delete, but reading it must fail.
                cx.run.deleted.nodes.insert(node.0);
                continue;
            }
            // A later DELETE may name the relationships that are still there: until the end of the statement they are
            // owed, then they are an error.
            let owes = !*detach && deletes_again;
            let mut stopped = None;
            let deleted = cx
                .tx
                .graph_mut()
                .delete_node_while(node, *detach || owes, &mut || {
                    stopped = cx.run.watch.tick(1).err();
                    stopped.is_none()
                });
            if let Some(stopped) = stopped {
                return Err(stopped);
            }
            let detached = deleted.map_err(write_error)?;
            if owes {
                let owed = detached.iter().map(|rel| (*rel, node));
                cx.run.deleted.owed_rels.extend(owed);
            }
            cx.run.deleted.nodes.insert(node.0);
            cx.run.report.counters.nodes_deleted += 1;
            cx.run.report.counters.relationships_deleted += detached.len() as u64;
            cx.run.deleted.rels.extend(detached.iter().map(|rel| rel.0));
        }
        Ok(kept.drain())
    }
}

/// At the end of a statement: no relationship may be owed.
pub(crate) fn check_owed_relationships(cx: &Cx<'_>) -> Result<()> {
    match cx.run.deleted.owed_rels.values().min() {
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
            self.op_ref.prune(chunk);
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
