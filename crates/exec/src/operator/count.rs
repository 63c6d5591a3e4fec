//! Stored counts: the nodes of a label, the relationships of a type.

use isomer_data::GraphRead;
use isomer_plan::physical::{CountOf, Op};

use super::{Argument, Child, Operate, OperatorRef, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, TypeFilter},
    error::Result,
};

/// Adds a stored count to each row.
pub(super) struct Count {
    op_ref: OperatorRef,
    input: Child,
}

impl Count {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

impl Operate for Count {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Count(count) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let number = i64::try_from(number(&count.of, cx)?).unwrap_or(i64::MAX);
        for slot in &count.counts {
            chunk.set(*slot, Column::Ints(vec![number; chunk.len()]));
        }
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The count as seen by this transaction. Records the same footprint as a scan would: the membership of the label or
/// type.
fn number(of: &CountOf, cx: &mut Cx<'_>) -> Result<u64> {
    match of {
        CountOf::Nodes(None) => Ok(cx.reader().exact_node_count(None)?),
        CountOf::Nodes(Some(label)) => match cx.label(*label) {
            Some(label) => Ok(cx.reader().exact_node_count(Some(label))?),
            None => Ok(0), // the label was never used
        },
        CountOf::Relationships(types) => match cx.type_filter(types) {
            TypeFilter::Nothing => Ok(0),
            TypeFilter::Any => Ok(cx.reader().exact_relationship_count(None)?),
            TypeFilter::These(types) => types.iter().try_fold(0u64, |sum, one| {
                let count = cx.reader().exact_relationship_count(Some(*one))?;
                Ok(sum.saturating_add(count))
            }),
        },
    }
}
