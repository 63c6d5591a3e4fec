//! Trees of states that may never run: those of fallbacks, and the inputs of operators that have one.

use isomer_plan::physical::OpId;

use super::{Argument, Child, OperatorRef};
use crate::{chunk::Chunk, context::Cx, error::Result};

/// The states of a part of the plan, built when a row is first pulled from it.
///
/// An operator and its fallback may read the same input, each with separate states: built at once, nested ones would
/// take exponentially many.
pub(super) struct LazyChild {
    op_ref: OperatorRef,
    argument: Argument,
    child: Option<Child>,
}

impl LazyChild {
    /// Of the operator `id` in the plan of `reader`.
    pub(super) fn new(reader: &OperatorRef, id: OpId, argument: &Argument) -> Self {
        Self {
            op_ref: OperatorRef {
                plan: reader.plan.clone(),
                id,
            },
            argument: argument.clone(),
            child: None,
        }
    }

    /// The outer rows that its leaves return.
    pub(super) fn argument(&self) -> &Argument {
        &self.argument
    }

    fn child(&mut self) -> &mut Child {
        let (op_ref, argument) = (&self.op_ref, &self.argument);
        self.child
            .get_or_insert_with(|| Child::build(&op_ref.plan, op_ref.id, argument))
    }

    /// Like [`Child::pull`].
    pub(super) fn pull(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        self.child().pull(cx)
    }

    /// Like [`Child::pull_flat`].
    pub(super) fn pull_flat(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        self.child().pull_flat(cx)
    }

    /// Restarts with these outer rows.
    pub(super) fn open(&mut self, argument: &Argument) {
        self.argument = argument.clone();
        if let Some(child) = &mut self.child {
            child.open(argument);
        }
    }

    /// Releases the memory of the tree.
    pub(super) fn close(&mut self, cx: &mut Cx<'_>) {
        if let Some(child) = &mut self.child {
            child.close(cx);
        }
    }
}
