//! The tree of an execution: the states of its operators, each over an operator of the plan.

use std::sync::Arc;

use isomer_plan::{
    Plan,
    expr::SlotId,
    physical::{Op, OpId},
};

use crate::{chunk::Chunk, context::Cx, error::Result, profiler::Call};

/// Rows in the first chunk of a source: small, so that LIMIT and point queries stay cheap.
const FIRST_BATCH: usize = 64;

/// Rows in a chunk at full size.
pub(crate) const FULL_BATCH: usize = 2048;

/// Rows per chunk, growing from one chunk to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch(usize);

impl Default for Batch {
    fn default() -> Self {
        Self(FIRST_BATCH)
    }
}

impl Batch {
    /// Target size of the next chunk.
    pub(crate) fn next(&mut self) -> usize {
        let now = self.0;
        self.0 = (now * 2).min(FULL_BATCH);
        now
    }
}

/// The outer rows that a tree's leaves return: one row, or many if the tree treats each row independently.
#[derive(Clone)]
pub(crate) struct Argument(Arc<Chunk>);

impl Argument {
    /// One row without slots.
    pub(crate) fn root() -> Self {
        Self(Arc::new(Chunk::new(1, 0)))
    }

    /// These rows.
    pub(crate) fn new(rows: Chunk) -> Self {
        Self(Arc::new(rows))
    }

    pub(crate) fn chunk(&self) -> &Chunk {
        &self.0
    }
}

/// The state of one operator.
pub(crate) trait Operate: Send {
    /// The next rows; none at the end. A chunk may be empty.
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>>;
    /// Restarts with these outer rows.
    fn open(&mut self, argument: &Argument);
    /// Releases its memory: no more rows will be pulled.
    fn close(&mut self, cx: &mut Cx<'_>);
}

/// An operator in the tree of its execution.
pub(crate) struct Child {
    pub(super) op_ref: OperatorRef,
    pub(super) state: Box<dyn Operate>,
    /// Whether its rows were counted for `PROFILE` before, and its calls are part of the reader's.
    pub(super) is_counted: bool,
}

/// An operator's position in its plan.
#[derive(Clone)]
pub(crate) struct OperatorRef {
    pub(crate) plan: Arc<Plan>,
    pub(crate) id: OpId,
}

impl OperatorRef {
    /// The operator.
    pub(crate) fn op(&self) -> &Op {
        &self.plan.operator(self.id).op
    }

    /// The slots that are read above.
    pub(crate) fn live(&self) -> &[SlotId] {
        &self.plan.operator(self.id).live
    }

    /// Whether `slot` is read above. Slots past the plan's own carry the executor's bookkeeping and always are.
    pub(crate) fn is_live(&self, slot: SlotId) -> bool {
        slot.index() >= self.plan.slots.len() || self.live().binary_search(&slot).is_ok()
    }

    /// Drops the columns that no operator above reads.
    pub(crate) fn prune(&self, chunk: &mut Chunk) {
        chunk.prune(|slot| self.is_live(slot));
    }
}

impl Child {
    /// The state of an operator.
    pub(super) fn of(op_ref: OperatorRef, state: Box<dyn Operate>) -> Self {
        Self {
            op_ref,
            state,
            is_counted: false,
        }
    }

    /// Which operator it is.
    pub(crate) fn id(&self) -> OpId {
        self.op_ref.id
    }

    /// The operator's position in its plan.
    pub(crate) fn op_ref(&self) -> &OperatorRef {
        &self.op_ref
    }

    /// The next rows; none at the end. A chunk may be empty. Checks the query's limits.
    pub(crate) fn pull(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let call = self.begin_call(cx);
        let outcome = self.state.next(cx);
        if let (Some(call), Some(profiler)) = (call, &mut cx.run.report.profiler) {
            profiler.end(self.op_ref.id, call, &cx.run.watch);
            let profile = profiler.operator(self.op_ref.id);
            profile.calls += 1;
            if let Ok(Some(chunk)) = &outcome {
                profile.rows += chunk.row_count() as u64;
            }
        }
        let chunk = outcome?;
        // The one place that every operator passes: a query stops within about a chunk of work, whatever its plan.
        cx.tick(chunk.as_ref().map_or(1, |chunk| chunk.len() + 1))?;
        Ok(chunk)
    }

    /// Begins to measure a call for `PROFILE`.
    fn begin_call(&self, cx: &mut Cx<'_>) -> Option<Call> {
        if self.is_counted {
            return None;
        }
        let profiler = cx.run.report.profiler.as_mut()?;
        Some(profiler.begin(&cx.run.watch))
    }

    /// Like [`Child::pull`], with rows multiplied out and at least one row.
    pub(crate) fn pull_flat(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        // An empty chunk does not end the input: a filter may reject a whole chunk.
        while let Some(mut chunk) = self.pull(cx)? {
            chunk.flatten();
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Restarts with these outer rows.
    pub(crate) fn open(&mut self, argument: &Argument) {
        self.state.open(argument);
    }

    /// Releases the memory of the tree.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        let call = self.begin_call(cx);
        self.state.close(cx);
        if let (Some(call), Some(profiler)) = (call, &mut cx.run.report.profiler) {
            profiler.end(self.op_ref.id, call, &cx.run.watch);
        }
    }
}
