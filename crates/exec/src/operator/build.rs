//! From the operators of a plan to their states.

use std::sync::Arc;

use isomer_plan::{
    Plan,
    physical::{Op, OpId},
};

use super::{
    Argument, Child, Operate, OperatorRef, aggregate, apply, batch, blocking, calls, count,
    count_by_column, count_by_node, count_paths, csv, delete, distinct_ends, exchange, expand,
    expand_into, group_by_key, join, listing, merge, row, scan, seek, shortest, source, varlength,
    walk, write,
};

impl Child {
    /// The states of `id` and everything below, opened with `argument`.
    pub(crate) fn build(plan: &Arc<Plan>, id: OpId, argument: &Argument) -> Self {
        let op_ref = OperatorRef {
            plan: plan.clone(),
            id,
        };
        let builder = StateBuilder {
            op_ref: &op_ref,
            argument,
        };
        let state = builder.state();
        Self::of(op_ref, state)
    }
}

/// Builds the state of one operator, and before it the states of its inputs.
struct StateBuilder<'a> {
    op_ref: &'a OperatorRef,
    argument: &'a Argument,
}

impl StateBuilder<'_> {
    /// The table from operators to the types of their states.
    fn state(&self) -> Box<dyn Operate> {
        match self.op_ref.op() {
            Op::Argument => Box::new(source::ArgumentRows::new(self.argument)),
            // Scans and lookups.
            Op::AllNodesScan { input, .. } => self.unary(scan::NodeScan::new, *input),
            Op::LabelScan { input, .. } => self.unary(scan::NodeScan::new, *input),
            Op::NodeByKey { input, .. } => self.unary(scan::NodeLookup::new, *input),
            Op::NodeById { input, .. } => self.unary(scan::NodeLookup::new, *input),
            Op::IndexSeek(seek) => self.unary(seek::SeekNodes::new, seek.input),
            Op::RelationshipScan(scan) => self.unary(scan::RelationshipScan::new, scan.input),
            Op::RelationshipIndexSeek(seek) => {
                self.unary(seek::SeekRelationships::new, seek.scan.input)
            }
            Op::RelationshipById { input, .. } => self.unary(scan::RelationshipLookup::new, *input),
            // Traversals.
            Op::Expand(expand) => self.unary(expand::Expand::new, expand.input),
            Op::DistinctEnds(ends) => self.with_fallback(distinct_ends::DistinctEnds::new, ends),
            Op::ExpandInto(expand) => self.unary(expand_into::ExpandInto::new, expand.input),
            Op::Degree(degree) => self.unary(expand::Degree::new, degree.input),
            Op::RelationshipEnds(ends) => self.unary(expand::RelationshipEnds::new, ends.input),
            Op::VarExpand(expand) => self.unary(varlength::VarExpand::new, expand.input),
            Op::ShortestPath(shortest) => self.unary(shortest::ShortestPath::new, shortest.input),
            Op::PathSearch(search) => self.unary(walk::PathSearch::new, search.input),
            // Two inputs, or more.
            Op::Apply { input, right } => self.binary(apply::Apply::new, *input, *right),
            // Each of its transactions builds the right side again.
            Op::BatchApply(batches) => self.unary(batch::BatchApply::new, batches.input),
            Op::OptionalApply { input, right, .. } => {
                self.binary(apply::OptionalApply::new, *input, *right)
            }
            Op::SemiApply { input, right, .. } => {
                self.binary(apply::SemiApply::new, *input, *right)
            }
            Op::CountApply { input, right, .. } => {
                self.binary(apply::CountApply::new, *input, *right)
            }
            Op::CartesianProduct { input, right } => {
                self.binary(join::CartesianProduct::new, *input, *right)
            }
            Op::HashJoin { input, right, .. } => self.binary(join::HashJoin::new, *input, *right),
            Op::Union { inputs } => {
                let inputs = inputs.iter().map(|input| self.child(*input)).collect();
                Box::new(row::Union::new(self.op_ref.clone(), inputs))
            }
            Op::Exchange(exchange) => {
                let (scan, chain) = (exchange.scan, self.child(exchange.input));
                let op_ref = self.op_ref.clone();
                Box::new(exchange::Exchange::new(op_ref, scan, chain, self.argument))
            }
            // Rows.
            Op::Filter { input, .. } => self.unary(row::Filter::new, *input),
            Op::Project { input, .. } => self.unary(row::Project::new, *input),
            Op::Distinct { input, .. } => self.unary(row::Distinct::new, *input),
            Op::Sort { input, .. } => self.unary(blocking::Sort::new, *input),
            Op::Top { input, .. } => self.unary(blocking::Sort::new, *input),
            Op::Skip { input, .. } => self.unary(row::SkipLimit::new, *input),
            Op::Limit { input, .. } => self.unary(row::SkipLimit::new, *input),
            Op::Unwind { input, .. } => self.unary(row::Unwind::new, *input),
            Op::Eager { input } => self.unary(blocking::Eager::new, *input),
            Op::ProduceResult { input, .. } => {
                Box::new(row::ProduceResult::new(self.child(*input)))
            }
            // Aggregations.
            Op::Count(count) => self.unary(count::Count::new, count.input),
            Op::Aggregate(groups) => self.unary(aggregate::Aggregate::new, groups.input),
            Op::CountByNode(groups) => self.unary(count_by_node::CountByNode::new, groups.input),
            Op::CountByNeighbour(count) => {
                self.with_fallback(count_by_node::CountByNeighbour::new, count)
            }
            Op::GroupByKey(group) => {
                self.unary(group_by_key::GroupByKey::new, group.aggregate.input)
            }
            Op::CountByColumn(count) => {
                self.with_fallback(count_by_column::CountByColumn::new, count)
            }
            Op::CountPaths(count) => self.with_fallback(count_paths::CountPaths::new, count),
            // Calls.
            Op::ProcedureCall(call) => self.unary(calls::ProcedureCall::new, call.input),
            Op::LoadCsv { input, .. } => self.unary(csv::LoadCsv::new, *input),
            Op::Show { input, .. } => self.unary(listing::Show::new, *input),
            // Writes.
            Op::Create { input, .. } => self.unary(write::Create::new, *input),
            Op::Merge(merge) => self.binary(merge::Merge::new, merge.input, merge.matching),
            Op::Set { input, .. } => self.unary(write::Set::new, *input),
            Op::Delete { input, .. } => self.unary(delete::Delete::new, *input),
            Op::ForEach { input, body, .. } => self.binary(write::ForEach::new, *input, *body),
        }
    }

    fn child(&self, id: OpId) -> Child {
        Child::build(&self.op_ref.plan, id, self.argument)
    }

    /// An operator with one input.
    fn unary<S: Operate + 'static>(
        &self,
        new: impl FnOnce(OperatorRef, Child) -> S,
        input: OpId,
    ) -> Box<dyn Operate> {
        Box::new(new(self.op_ref.clone(), self.child(input)))
    }

    /// An operator with two inputs.
    fn binary<S: Operate + 'static>(
        &self,
        new: impl FnOnce(OperatorRef, Child, Child) -> S,
        input: OpId,
        right: OpId,
    ) -> Box<dyn Operate> {
        let (input, right) = (self.child(input), self.child(right));
        Box::new(new(self.op_ref.clone(), input, right))
    }

    /// An operator with a fallback. It builds its input, or the fallback, when it returns its first rows.
    fn with_fallback<P, S: Operate + 'static>(
        &self,
        new: impl FnOnce(OperatorRef, &P, &Argument) -> S,
        plan: &P,
    ) -> Box<dyn Operate> {
        Box::new(new(self.op_ref.clone(), plan, self.argument))
    }
}
