//! Dependencies of a statement's rows, for callers that need to know whether a commit may have changed them.
//!
//! The dependencies are labels, types and buckets, conservatively: a commit that touches none of them changes no row. A
//! statement whose rows may change without a commit (a clock, a random number), or that depends on things without such
//! a name (files, procedures), is refused with the reason.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use isomer_value::{Map, Value};
use thiserror::Error;

use crate::expr::{BoundExpr, LabelRef, SlotId, TypeRef};
use crate::function::{Aggregation, Function, Purity};
use crate::physical::{
    Aggregate, CountOf, Op, OpId, Plan, PlanBody, RelationshipIndexSeek, StatementClass,
    StatementMode,
};
use crate::solve::for_each_expr;

/// Some names, or any. Closed: these two cases are complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameFilter {
    /// Any name.
    Any,
    /// One of these.
    Only(BTreeSet<Arc<str>>),
}

impl Default for NameFilter {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl NameFilter {
    fn add(&mut self, name: &Arc<str>) {
        if let Self::Only(names) = self {
            names.insert(name.clone());
        }
    }

    /// Whether it is any name, or contains this one.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.contains(name),
        }
    }
}

/// The dependencies of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueryDependencies {
    /// Nodes with one of these labels: their existence and their content.
    pub labels: NameFilter,
    /// Relationships of one of these types.
    pub types: NameFilter,
    /// Keys of these buckets.
    pub buckets: BTreeSet<Arc<str>>,
}

/// Why the dependencies of a statement's rows cannot be derived.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UntrackedReads {
    /// It writes records, changes the schema or the server.
    #[error("it changes something")]
    Writes,
    /// Its rows describe a plan.
    #[error("it begins with EXPLAIN or PROFILE")]
    Explained,
    /// It is a command without rows.
    #[error("it reads no data")]
    NoData,
    /// A procedure may read anything.
    #[error("it calls the procedure {0}")]
    Procedure(Arc<str>),
    /// A function that the program registered may read anything.
    #[error("it calls the function {0}")]
    RegisteredFunction(Arc<str>),
    /// `LOAD CSV`.
    #[error("it reads a CSV file")]
    CsvFile,
    /// `SHOW`.
    #[error("it shows metadata")]
    Metadata,
    /// Files have no label, type or bucket.
    #[error("it reads files")]
    Files,
    /// The name of a bucket is known only while the statement runs; the function that reads it.
    #[error("the bucket of {0} is computed: give its name as a text or a parameter")]
    ComputedBucket(&'static str),
    /// A function with another value at each call, such as a random number.
    #[error("{0}() differs from call to call")]
    Volatile(&'static str),
}

impl Plan {
    /// The dependencies of the rows for the given `parameters`; otherwise the reason why they cannot be derived.
    pub fn reads(&self, parameters: &Map) -> Result<QueryDependencies, UntrackedReads> {
        if self.class != StatementClass::Read {
            return Err(UntrackedReads::Writes);
        }
        if self.mode != StatementMode::Run {
            return Err(UntrackedReads::Explained);
        }
        let mut reading = Reading {
            plan: self,
            parameters,
            reads: QueryDependencies::default(),
            read: HashSet::new(),
            unlabelled: HashSet::new(),
        };
        match &self.body {
            PlanBody::PointRead(point) => {
                reading.label(point.label);
                reading.expr(&point.key)?;
                for column in &point.columns {
                    reading.expr(column)?;
                }
            }
            PlanBody::Pipeline(_) => {
                for operator in &self.operators {
                    reading.operator(&operator.op)?;
                }
            }
            PlanBody::Schema(_) | PlanBody::KillQuery(_) => return Err(UntrackedReads::NoData),
        }
        Ok(reading.finished())
    }
}

/// Whether each evaluation makes a graph in memory.
fn makes_graph(aggregate: &Aggregate) -> bool {
    aggregate
        .aggregates
        .iter()
        .any(|(_, call)| call.function == Aggregation::ProjectGraph)
}

struct Reading<'p> {
    plan: &'p Plan,
    parameters: &'p Map,
    reads: QueryDependencies,
    /// Slots that are read.
    read: HashSet<SlotId>,
    /// Slots of nodes that were found without a label.
    unlabelled: HashSet<SlotId>,
}

impl Reading<'_> {
    fn label(&mut self, label: LabelRef) {
        self.reads.labels.add(self.plan.label_name(label));
    }

    fn types(&mut self, types: &[TypeRef]) {
        if types.is_empty() {
            self.reads.types = NameFilter::Any;
        }
        for one in types {
            self.reads.types.add(self.plan.type_name(*one));
        }
    }

    fn operator(&mut self, op: &Op) -> Result<(), UntrackedReads> {
        match op {
            Op::AllNodesScan { .. } | Op::NodeById { .. } => self.reads.labels = NameFilter::Any,
            Op::LabelScan { label, .. } | Op::NodeByKey { label, .. } => self.label(*label),
            Op::IndexSeek(seek) => self.label(seek.label),
            Op::RelationshipScan(scan)
            | Op::RelationshipIndexSeek(RelationshipIndexSeek { scan, .. }) => {
                self.types(&scan.types);
                self.unlabelled.extend([scan.from, scan.to]);
            }
            Op::RelationshipById { from, to, .. } => {
                self.reads.types = NameFilter::Any;
                self.unlabelled.extend([*from, *to]);
            }
            Op::Expand(expand) => {
                self.types(&expand.types);
                self.unlabelled.insert(expand.to);
            }
            Op::ExpandInto(expand) => self.types(&expand.types),
            Op::Degree(degree) => self.types(&degree.types),
            Op::VarExpand(expand) => {
                self.types(&expand.types);
                if !expand.into {
                    self.unlabelled.insert(expand.to);
                }
            }
            Op::ShortestPath(shortest) => {
                self.types(&shortest.types);
                if shortest.path.is_some() || shortest.predicate.is_some() {
                    self.reads.labels = NameFilter::Any;
                }
            }
            Op::PathSearch(search) => {
                // Conditions and lists read the intermediate nodes: nodes of any label.
                self.reads.labels = NameFilter::Any;
                for link in &search.walk.links {
                    link.steps.iter().for_each(|step| self.types(&step.types));
                }
            }
            Op::RelationshipEnds(ends) => {
                self.types(&ends.types);
                let found = [(ends.from, ends.from_bound), (ends.to, ends.to_bound)];
                let new = found.into_iter().filter(|(_, bound)| !bound);
                self.unlabelled.extend(new.map(|(slot, _)| slot));
            }
            Op::Count(count) => match &count.of {
                CountOf::Nodes(Some(label)) => self.label(*label),
                CountOf::Nodes(None) => self.reads.labels = NameFilter::Any,
                CountOf::Relationships(types) => self.types(types),
            },
            Op::Distinct { slots, .. } => self.read.extend(slots),
            Op::ProduceResult { columns, .. } => self.read.extend(columns),
            Op::ProcedureCall(call) => {
                return Err(UntrackedReads::Procedure(call.procedure.name.clone()));
            }
            Op::Aggregate(aggregate) if makes_graph(aggregate) => {
                let name = Aggregation::ProjectGraph.name();
                return Err(UntrackedReads::Procedure(name.into()));
            }
            Op::LoadCsv { .. } => return Err(UntrackedReads::CsvFile),
            Op::Show { .. } => return Err(UntrackedReads::Metadata),
            Op::Argument
            | Op::DistinctEnds(_)
            | Op::Apply { .. }
            | Op::BatchApply(_)
            | Op::OptionalApply { .. }
            | Op::SemiApply { .. }
            | Op::CountApply { .. }
            | Op::CartesianProduct { .. }
            | Op::HashJoin { .. }
            | Op::Union { .. }
            | Op::Filter { .. }
            | Op::Project { .. }
            | Op::Aggregate(_)
            | Op::CountByNode(_)
            | Op::CountByNeighbour(_)
            | Op::GroupByKey(_)
            | Op::CountByColumn(_)
            | Op::CountPaths(_)
            | Op::Exchange(_)
            | Op::Sort { .. }
            | Op::Top { .. }
            | Op::Skip { .. }
            | Op::Limit { .. }
            | Op::Unwind { .. }
            | Op::Eager { .. }
            | Op::Create { .. }
            | Op::Merge(_)
            | Op::Set { .. }
            | Op::Delete { .. }
            | Op::ForEach { .. } => {}
        }
        let mut outcome = Ok(());
        for_each_expr(op, &mut |expr| {
            if outcome.is_ok() {
                outcome = self.expr(expr);
            }
        });
        outcome
    }

    fn expr(&mut self, expr: &BoundExpr) -> Result<(), UntrackedReads> {
        match expr {
            BoundExpr::Slot(slot) => {
                self.read.insert(*slot);
            }
            // Nodes on a path may have any label.
            BoundExpr::BuildPath { .. } => self.reads.labels = NameFilter::Any,
            BoundExpr::CallRegistered { function, .. } => {
                let name = &self.plan.registered_functions[function.index()];
                return Err(UntrackedReads::RegisteredFunction(name.clone()));
            }
            BoundExpr::Call {
                function,
                arguments,
            } => self.call(*function, arguments)?,
            _ => {}
        }
        let mut outcome = Ok(());
        expr.for_each_child(&mut |child| {
            if outcome.is_ok() {
                outcome = self.expr(child);
            }
        });
        outcome
    }

    fn call(&mut self, function: Function, arguments: &[BoundExpr]) -> Result<(), UntrackedReads> {
        match function {
            Function::StartNode | Function::EndNode => self.reads.labels = NameFilter::Any,
            Function::Degree => self.reads.types = NameFilter::Any,
            Function::KvGet | Function::KvExists => {
                let bucket = arguments.first().and_then(|bucket| self.text(bucket));
                let Some(bucket) = bucket else {
                    return Err(UntrackedReads::ComputedBucket(function.name()));
                };
                self.reads.buckets.insert(bucket);
            }
            Function::FileExists
            | Function::FileSize
            | Function::FileText
            | Function::FileBytes => return Err(UntrackedReads::Files),
            _ if function.purity() == Purity::Volatile && !self.is_settled(function, arguments) => {
                return Err(UntrackedReads::Volatile(function.name()));
            }
            _ => {}
        }
        Ok(())
    }

    /// A string that is known before execution.
    fn text(&self, expr: &BoundExpr) -> Option<Arc<str>> {
        match expr {
            BoundExpr::Const(Value::String(text)) => Some(text.clone()),
            BoundExpr::At { inner, .. } => self.text(inner),
            BoundExpr::Param(parameter) => {
                match self.parameters.get(self.plan.parameter_name(*parameter)) {
                    Some(Value::String(text)) => Some(text.clone()),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn finished(mut self) -> QueryDependencies {
        for operator in &self.plan.operators {
            let Op::Filter { input, predicates } = &operator.op else {
                continue;
            };
            for predicate in predicates {
                if let BoundExpr::HasLabels { entity, labels } = predicate
                    && let (BoundExpr::Slot(slot), Some(label)) = (&**entity, labels.first())
                    && self.unlabelled.contains(slot)
                    && self.passes_all(*input, *slot)
                {
                    self.unlabelled.remove(slot);
                    self.label(*label);
                }
            }
        }
        if self.unlabelled.iter().any(|slot| self.read.contains(slot)) {
            self.reads.labels = NameFilter::Any;
        }
        self.reads
    }

    /// Whether every row with this slot passes from its binding to the reader of `from`, one by one: then no other
    /// operator has observed the rows that a filter there rejects.
    fn passes_all(&self, mut from: OpId, slot: SlotId) -> bool {
        loop {
            from = match &self.plan.operator(from).op {
                Op::Expand(expand) if expand.to == slot => return true,
                Op::DistinctEnds(ends) if ends.to == slot => return true,
                Op::VarExpand(expand) if expand.to == slot && !expand.into => return true,
                Op::RelationshipScan(scan)
                | Op::RelationshipIndexSeek(RelationshipIndexSeek { scan, .. })
                    if scan.from == slot || scan.to == slot =>
                {
                    return true;
                }
                Op::RelationshipById { from, to, .. } if *from == slot || *to == slot => {
                    return true;
                }
                Op::RelationshipEnds(ends)
                    if (ends.from == slot && !ends.from_bound)
                        || (ends.to == slot && !ends.to_bound) =>
                {
                    return true;
                }
                Op::Expand(expand) => expand.input,
                Op::DistinctEnds(ends) => ends.input,
                Op::ExpandInto(expand) => expand.input,
                Op::VarExpand(expand) => expand.input,
                Op::RelationshipEnds(ends) => ends.input,
                Op::RelationshipScan(scan) => scan.input,
                Op::RelationshipIndexSeek(seek) => seek.scan.input,
                Op::IndexSeek(seek) => seek.input,
                Op::Filter { input, .. }
                | Op::LabelScan { input, .. }
                | Op::NodeByKey { input, .. }
                | Op::RelationshipById { input, .. } => *input,
                _ => return false,
            };
        }
    }

    /// Whether a function of the clock has all the arguments that it would otherwise take from the clock.
    fn is_settled(&self, function: Function, arguments: &[BoundExpr]) -> bool {
        match function {
            // Without a date, a named zone is resolved to its current offset.
            Function::Time if arguments.iter().any(|it| self.may_name_zone(it)) => false,
            Function::TimeTruncate => {
                arguments.len() > 1 && !arguments.iter().skip(2).any(|it| self.may_name_zone(it))
            }
            Function::Date
            | Function::Time
            | Function::LocalTime
            | Function::DateTime
            | Function::LocalDateTime => {
                let of_clock = |argument| !self.is_no_zone(argument);
                !arguments.is_empty() && !arguments.iter().any(of_clock)
            }
            Function::DateTruncate
            | Function::LocalTimeTruncate
            | Function::DateTimeTruncate
            | Function::LocalDateTimeTruncate => arguments.len() > 1,
            _ => false,
        }
    }

    /// Whether an argument may be a map with a time zone in it.
    fn may_name_zone(&self, expr: &BoundExpr) -> bool {
        let names_zone = |value: &Value| match value {
            Value::Map(map) => map.names().any(|name| &**name == "timezone"),
            _ => false,
        };
        match expr {
            BoundExpr::Const(value) => names_zone(value),
            BoundExpr::At { inner, .. } => self.may_name_zone(inner),
            BoundExpr::Param(parameter) => {
                let given = self.parameters.get(self.plan.parameter_name(*parameter));
                given.is_none_or(names_zone)
            }
            BoundExpr::Map(fields) => fields.iter().any(|(name, _)| &**name == "timezone"),
            // Any expression that may be a map.
            expr => !self.is_no_zone(expr),
        }
    }

    /// Whether an argument is known not to be a map with a time zone alone, which makes the function read the clock.
    fn is_no_zone(&self, expr: &BoundExpr) -> bool {
        let is_no_zone = |value: &Value| match value {
            Value::Map(map) => map.names().any(|name| &**name != "timezone"),
            _ => true,
        };
        match expr {
            BoundExpr::Const(value) => is_no_zone(value),
            BoundExpr::At { inner, .. } => self.is_no_zone(inner),
            BoundExpr::Param(parameter) => {
                let given = self.parameters.get(self.plan.parameter_name(*parameter));
                given.is_some_and(is_no_zone)
            }
            BoundExpr::Map(fields) => fields.iter().any(|(name, _)| &**name != "timezone"),
            BoundExpr::Call { function, .. } => matches!(
                function,
                Function::ToString
                    | Function::Date
                    | Function::Time
                    | Function::LocalTime
                    | Function::DateTime
                    | Function::LocalDateTime
            ),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::physical::{Direction, Operator, PlanNames, RelationshipEnds, RelationshipScan};

    /// Relationships; what `middle` makes of them; those again between a new node and the bound end, which must be an
    /// `A`.
    fn plan(middle: Op) -> Plan {
        let (start, end, relationship, other) = (SlotId(0), SlotId(1), SlotId(2), SlotId(3));
        let operators = [
            Op::Argument,
            Op::RelationshipScan(RelationshipScan {
                input: OpId(0),
                relationship,
                from: start,
                to: end,
                direction: Direction::Outgoing,
                types: vec![TypeRef(0)],
            }),
            middle,
            Op::RelationshipEnds(RelationshipEnds {
                input: OpId(2),
                relationship,
                from: other,
                from_bound: false,
                to: end,
                to_bound: true,
                direction: Direction::Outgoing,
                types: Vec::new(),
                distinct_from: Vec::new(),
            }),
            Op::Filter {
                input: OpId(3),
                predicates: vec![BoundExpr::HasLabels {
                    entity: Box::new(BoundExpr::Slot(end)),
                    labels: vec![LabelRef(0)],
                }],
            },
            Op::ProduceResult {
                input: OpId(4),
                columns: vec![end],
            },
        ];
        let operator = |op| Operator {
            op,
            live: Vec::new(),
            rows: 1.0,
        };
        Plan {
            body: PlanBody::Pipeline(OpId(5)),
            operators: operators.into_iter().map(operator).collect(),
            slots: Vec::new(),
            local_count: 0,
            names: PlanNames {
                labels: vec!["A".into()],
                types: vec!["R".into()],
                properties: Vec::new(),
            },
            parameters: Vec::new(),
            registered_functions: Vec::new(),
            columns: vec!["b".into()],
            class: StatementClass::Read,
            mode: StatementMode::Run,
            notices: Vec::new(),
            skewed: Vec::new(),
            schema_version: 0,
        }
    }

    #[test]
    fn a_step_to_a_bound_node_is_not_where_it_comes_from() {
        // The first two were chosen among nodes of any label.
        let chosen = plan(Op::Limit {
            input: OpId(1),
            count: BoundExpr::Const(Value::Int(2)),
        });
        assert_eq!(chosen.reads(&Map::new()).unwrap().labels, NameFilter::Any);
        let all = plan(Op::Filter {
            input: OpId(1),
            predicates: Vec::new(),
        });
        let labels = all.reads(&Map::new()).unwrap().labels;
        assert!(labels.has("A") && !labels.has("C"), "{labels:?}");
    }
}
