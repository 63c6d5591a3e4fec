//! Whether the right side of an apply runs once for a whole chunk of outer rows, or once for each row.

use crate::physical::{Op, OpId, Plan};

impl Plan {
    /// Whether each operator at and below `id` treats each row of its `Argument` independently and keeps their order.
    /// Then the rows of a chunk may pass through all of them together; the result is the same. Time: the number of
    /// operators.
    pub fn runs_batched(&self, id: OpId) -> bool {
        match &self.operator(id).op {
            Op::Argument => true,
            op @ (Op::AllNodesScan { .. }
            | Op::LabelScan { .. }
            | Op::NodeByKey { .. }
            | Op::NodeById { .. }
            | Op::IndexSeek(_)
            | Op::RelationshipScan(_)
            | Op::RelationshipIndexSeek(_)
            | Op::RelationshipById { .. }
            | Op::Expand(_)
            | Op::ExpandInto(_)
            | Op::Degree(_)
            | Op::VarExpand(_)
            | Op::ShortestPath(_)
            | Op::PathSearch(_)
            | Op::RelationshipEnds(_)
            | Op::Filter { .. }
            | Op::Project { .. }
            | Op::Unwind { .. }) => op
                .children()
                .into_iter()
                .all(|child| self.runs_batched(child)),
            // An apply opens its right side for the rows of its input alone, whichever outer row they belong to.
            Op::Apply { input, .. }
            | Op::OptionalApply { input, .. }
            | Op::SemiApply { input, .. }
            | Op::CountApply { input, .. } => self.runs_batched(*input),
            // Rows of several outer rows would be counted, grouped, sorted or joined together.
            Op::DistinctEnds(_)
            | Op::CartesianProduct { .. }
            | Op::HashJoin { .. }
            | Op::Union { .. }
            | Op::Count(_)
            | Op::Aggregate(_)
            | Op::CountByNode(_)
            | Op::CountByNeighbour(_)
            | Op::GroupByKey(_)
            | Op::CountByColumn(_)
            | Op::CountPaths(_)
            | Op::Exchange(_)
            | Op::Distinct { .. }
            | Op::Sort { .. }
            | Op::Top { .. }
            | Op::Skip { .. }
            | Op::Limit { .. }
            | Op::Eager { .. } => false,
            // Effects are made for one outer row after the other.
            Op::BatchApply(_)
            | Op::ProcedureCall(_)
            | Op::LoadCsv { .. }
            | Op::Create { .. }
            | Op::Merge(_)
            | Op::Set { .. }
            | Op::Delete { .. }
            | Op::ForEach { .. }
            | Op::ProduceResult { .. }
            | Op::Show { .. } => false,
        }
    }
}
