//! Numbers that are kept: how many nodes a label has, how many relationships a type.

use isomer_data::GraphRead;
use isomer_plan::physical::{CountOf, Op};

use super::{Argument, Child, Operate, Spot, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, TypeFilter},
    error::Result,
};

/// Writes a kept number beside each row.
pub(super) struct Count {
    spot: Spot,
    input: Child,
}

impl Count {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self { spot, input }
    }
}

impl Operate for Count {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Count(count) = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let number = i64::try_from(number(&count.of, cx)?).unwrap_or(i64::MAX);
        for slot in &count.counts {
            chunk.set(*slot, Column::Ints(vec![number; chunk.len()]));
        }
        spot.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The number in this transaction. Notes the same as observed as a scan would: the membership of the label or type.
fn number(of: &CountOf, cx: &mut Cx<'_>) -> Result<u64> {
    match of {
        CountOf::Nodes(None) => Ok(cx.reader().exact_node_count(None)?),
        CountOf::Nodes(Some(label)) => match cx.label(*label) {
            Some(label) => Ok(cx.reader().exact_node_count(Some(label))?),
            None => Ok(0), // no node ever had the label
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
