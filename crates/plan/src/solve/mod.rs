//! The planner: from logical steps to operators.
//!
//! Steps are planned in order, each on top of the operators before it. A pattern is ordered by cost ([`pattern`]);
//! writes are separated by barriers from the reads that could observe them ([`footprint`]); then slots that are not
//! read are dropped ([`live_slots`]); last, operators are chosen among those that return the same rows
//! ([`distinct_ends`], [`choose`]).

mod choose;
mod cost;
mod count;
mod count_subqueries;
mod distinct_ends;
mod eager_aggregation;
mod exists_subqueries;
mod factor;
mod failure;
mod filter;
mod footprint;
mod index_order;
mod live_slots;
mod pattern;
mod reachable;
mod rules;
mod seek;
mod selectivity;

use rustc_hash::FxHashSet;

use crate::arena::Arena;
use crate::catalog::PlannerCatalog;
use crate::error::{PlanError, PlanErrorKind};
use crate::expr::{AggregateCall, Arithmetic, BoundExpr, SlotId};
use crate::logical::{BatchStep, CsvOrigin, LogicalQuery, LogicalStep, MergeStep, QueryGraph};
use crate::physical::{
    self, BatchApply, MatchOrCreate, Op, OpId, ProcedureCall, SortKey, constant_count,
};

use cost::Costs;
use footprint::Footprint;

pub(crate) use choose::choose_operators;
pub(crate) use distinct_ends::search_distinct_ends;
pub(crate) use footprint::sees_creation;
pub(crate) use live_slots::{for_each_expr, mark_live};

/// A practical limit: executors may recurse over inputs.
const MAX_OPERATORS: usize = 4_000;

/// A larger pattern takes too long to plan.
const MAX_PATTERN: usize = 2_000;

fn too_large(message: String) -> PlanError {
    PlanError {
        kind: PlanErrorKind::Limit,
        detail: "QueryTooLarge",
        message,
        span: None,
        hint: Some("split it, or pass the data as a list parameter and UNWIND it".to_owned()),
    }
}

pub(crate) type Result<T> = std::result::Result<T, PlanError>;

/// The rows at a point of the plan: the operator that returns them, and its properties.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub op: OpId,
    /// Slots that are bound.
    pub bound: FxHashSet<SlotId>,
    /// What was read since the last barrier.
    reads: Footprint,
    /// What was written since the last barrier.
    writes: Footprint,
}

/// The start of a chain of steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start<'s> {
    /// One row without slots.
    Statement,
    /// A row passed by an expression.
    Subplan(&'s [SlotId]),
    /// The rows of this operator, one at a time.
    Outer(OpId, &'s FxHashSet<SlotId>),
}

/// Plans with an arena and a catalog at hand.
pub(crate) struct Planner<'p> {
    pub arena: &'p mut Arena,
    pub costs: Costs<'p>,
    /// The operator whose rows the leaves of the current chain return.
    outer: Option<OpId>,
    /// Slots of the row that the leaves return.
    context: FxHashSet<SlotId>,
    /// Whether every clause ends with a barrier.
    barriers_everywhere: bool,
}

/// How a statement is planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planning {
    /// Whether its outputs are a result.
    pub returns: bool,
    /// Whether every clause ends with a barrier.
    pub barriers_everywhere: bool,
}

/// Plans the query of the statement, up to the result.
pub(crate) fn plan_statement(
    arena: &mut Arena,
    catalog: &dyn PlannerCatalog,
    query: LogicalQuery,
    planning: Planning,
) -> Result<OpId> {
    let columns = query.outputs.clone();
    let mut planner = Planner::new(arena, catalog);
    planner.barriers_everywhere = planning.barriers_everywhere;
    let mut flow = planner.query(query, Start::Statement)?;
    if !planning.returns {
        return Ok(flow.op);
    }
    // All writes happen before the first row is returned: a client that stops reading early changes nothing.
    if !flow.writes.is_empty() {
        eager(&mut planner, &mut flow);
    }
    let rows = planner.rows(&flow);
    Ok(planner.arena.push(
        Op::ProduceResult {
            input: flow.op,
            columns,
        },
        rows,
    ))
}

/// Plans a sub-plan of an expression.
pub(crate) fn plan_subquery(
    arena: &mut Arena,
    catalog: &dyn PlannerCatalog,
    query: LogicalQuery,
    arguments: &[SlotId],
    first_only: bool,
) -> Result<OpId> {
    let mut planner = Planner::new(arena, catalog);
    let mut flow = planner.query(query, Start::Subplan(arguments))?;
    // The value of an expression is decided by the first row: without a limit, an operator
    // would fill a whole chunk for it.
    if first_only && !matches!(planner.arena.operators[flow.op.index()].op, Op::Argument) {
        planner.push(
            &mut flow,
            |input| Op::Limit {
                input,
                count: BoundExpr::Const(isomer_value::Value::Int(1)),
            },
            1.0,
        );
    }
    Ok(flow.op)
}

impl<'p> Planner<'p> {
    fn new(arena: &'p mut Arena, catalog: &'p dyn PlannerCatalog) -> Self {
        Self {
            arena,
            costs: Costs::new(catalog),
            outer: None,
            context: FxHashSet::default(),
            barriers_everywhere: false,
        }
    }

    fn rows(&self, flow: &Flow) -> f64 {
        self.arena.rows(flow.op)
    }

    fn push(&mut self, flow: &mut Flow, op: impl FnOnce(OpId) -> Op, rows: f64) {
        flow.op = self.arena.push(op(flow.op), rows);
    }

    /// A leaf in the current context.
    fn argument(&mut self) -> OpId {
        let leaf = self.arena.push(Op::Argument, 1.0);
        if let Some(outer) = self.outer {
            self.arena.outer_of.insert(leaf, outer);
        }
        leaf
    }

    fn query(&mut self, query: LogicalQuery, start: Start<'_>) -> Result<Flow> {
        let mut flows = Vec::with_capacity(query.branches.len());
        for branch in query.branches {
            flows.push(self.chain(branch, start)?);
        }
        let mut flow = if flows.len() == 1 {
            flows.remove(0)
        } else {
            let rows = flows.iter().map(|flow| self.rows(flow)).sum();
            let inputs = flows.iter().map(|flow| flow.op).collect();
            let op = self.arena.push(Op::Union { inputs }, rows);
            let mut first = flows.remove(0);
            for other in flows {
                first.reads.absorb(&other.reads);
                first.writes.absorb(&other.writes);
                // A slot is bound after the union only if every branch binds it.
                first.bound.retain(|slot| other.bound.contains(slot));
            }
            first.bound.extend(&query.outputs);
            Flow { op, ..first }
        };
        if query.distinct {
            let rows = self.rows(&flow);
            let slots = query.outputs;
            self.push(&mut flow, |input| Op::Distinct { input, slots }, rows);
        }
        Ok(flow)
    }

    /// Plans a chain of steps in a separate context.
    fn chain(&mut self, steps: Vec<LogicalStep>, start: Start<'_>) -> Result<Flow> {
        let (outer, context) = match start {
            Start::Statement => (None, FxHashSet::default()),
            Start::Subplan(slots) => (None, slots.iter().copied().collect()),
            Start::Outer(op, bound) => (Some(op), bound.clone()),
        };
        let before = (
            std::mem::replace(&mut self.outer, outer),
            std::mem::replace(&mut self.context, context),
        );
        let steps = rules::separate_volatile(steps);
        let steps = if self.arena.plain {
            rules::separate_deferred(steps, self.arena)
        } else {
            rules::rewrite(steps, self.arena)
        };
        let flow = chain_in_context(self, steps);
        (self.outer, self.context) = before;
        flow
    }

    fn merge(&mut self, flow: &mut Flow, merge: MergeStep) -> Result<()> {
        let MergeStep {
            graph,
            create,
            on_create,
            on_match,
        } = merge;
        let right = self.chain(
            vec![LogicalStep::Match {
                graph,
                optional: false,
            }],
            Start::Outer(flow.op, &flow.bound),
        )?;
        let rows = self.rows(flow) * self.rows(&right).max(1.0);
        // Whether the pattern is found or created, it binds the same slots.
        flow.bound.extend(create.slots());
        let merge = |input| {
            Op::Merge(MatchOrCreate {
                input,
                matching: right.op,
                create,
                on_create,
                on_match,
            })
        };
        self.push(flow, merge, rows);
        Ok(())
    }

    fn for_each(
        &mut self,
        flow: &mut Flow,
        list: BoundExpr,
        element: SlotId,
        body: Vec<LogicalStep>,
    ) -> Result<()> {
        let mut plain = flow.bound.clone();
        plain.insert(element);
        let body = self.chain(body, Start::Outer(flow.op, &plain))?;
        let rows = self.rows(flow);
        self.push(
            flow,
            |input| Op::ForEach {
                input,
                list,
                element,
                body: body.op,
            },
            rows,
        );
        Ok(())
    }
}

fn chain_in_context(planner: &mut Planner<'_>, steps: Vec<LogicalStep>) -> Result<Flow> {
    // An aggregation drops the slots of the outer row; if one follows, the chain up to it becomes the right side of
    // an apply whose left side is that row again.
    let mut kept = Vec::new();
    let outside = planner.outer;
    if !planner.context.is_empty() {
        for _ in steps
            .iter()
            .filter(|step| matches!(step, LogicalStep::Aggregate { .. }))
        {
            // Each aggregation gets a leaf: it returns the outer row once more, to be joined
            // with the groups of that row.
            let leaf = planner.argument();
            kept.push(leaf);
            planner.outer = Some(leaf);
        }
    }
    let leaf = planner.argument();
    let mut flow = Flow {
        op: leaf,
        bound: planner.context.clone(),
        reads: Footprint::default(),
        writes: Footprint::default(),
    };
    let mut steps = steps.into_iter().peekable();
    while let Some(step) = steps.next() {
        let step = match step {
            LogicalStep::Sort(keys) => {
                if !matches!(steps.peek(), Some(LogicalStep::Skip(_))) {
                    sort(planner, &mut flow, keys, steps.peek(), None);
                    continue;
                }
                let Some(LogicalStep::Skip(skip)) = steps.next() else {
                    unreachable!("looked at above")
                };
                // The sort may stop at skip + limit rows.
                let both = match steps.peek() {
                    Some(LogicalStep::Limit(limit)) if !planner.arena.plain => {
                        Some(sum(&skip, limit))
                    }
                    _ => None,
                };
                sort(planner, &mut flow, keys, None, both);
                LogicalStep::Skip(skip)
            }
            step => step,
        };
        let aggregates = matches!(step, LogicalStep::Aggregate { .. });
        plan_step(planner, &mut flow, step)?;
        // The groups of one outer row, on the right side, with the slots of that row, on the left.
        if aggregates && let Some(left) = kept.pop() {
            let rows = planner.rows(&flow);
            flow.op = planner.arena.push(
                Op::Apply {
                    input: left,
                    right: flow.op,
                },
                rows,
            );
            flow.bound.extend(planner.context.iter().copied());
            planner.outer = match kept.last() {
                Some(leaf) => Some(*leaf),
                None => outside,
            };
        }
        if planner.barriers_everywhere {
            eager(planner, &mut flow);
        }
        if planner.arena.operators.len() > MAX_OPERATORS {
            return Err(too_large(format!(
                "the statement needs more than {MAX_OPERATORS} operators"
            )));
        }
    }
    Ok(flow)
}

fn plan_step(planner: &mut Planner<'_>, flow: &mut Flow, step: LogicalStep) -> Result<()> {
    // Before the step: a barrier above it would be too late for what it reads.
    add_barriers(planner, flow, &step);
    let rows = planner.rows(flow);
    match step {
        LogicalStep::Match { graph, optional } => {
            if optional {
                optional_match(planner, flow, graph)?
            } else {
                required_match(planner, flow, graph)?
            }
        }
        LogicalStep::Filter(predicates) => planner.filter(flow, predicates),
        LogicalStep::Project(columns) => project(planner, flow, columns),
        LogicalStep::Aggregate { keys, aggregates } => aggregate(planner, flow, keys, aggregates),
        LogicalStep::Distinct(slots) => {
            let rows = (rows * 0.9).max(rows.min(1.0));
            planner.push(flow, |input| Op::Distinct { input, slots }, rows);
        }
        LogicalStep::Sort(keys) => sort(planner, flow, keys, None, None),
        LogicalStep::Skip(count) => {
            let rows = (rows - constant_count(&count).unwrap_or(0.0)).max(0.0);
            planner.push(flow, |input| Op::Skip { input, count }, rows);
        }
        LogicalStep::Limit(count) => {
            let rows = rows.min(constant_count(&count).unwrap_or(100.0));
            planner.push(flow, |input| Op::Limit { input, count }, rows);
        }
        LogicalStep::Unwind {
            list,
            element,
            position,
        } => {
            let rows = rows * cost::list_length(&list);
            flow.bound.insert(element);
            flow.bound.extend(position.map(|(slot, _)| slot));
            let unwind = |input| Op::Unwind {
                input,
                list,
                element,
                position,
            };
            planner.push(flow, unwind, rows);
        }
        LogicalStep::LoadCsv {
            url,
            headers,
            field_terminator,
            row,
            origin: CsvOrigin { line, file },
        } => {
            flow.bound.extend([row, line, file]);
            let load = |input| Op::LoadCsv {
                input,
                url,
                headers,
                field_terminator,
                row,
                line,
                file,
            };
            planner.push(flow, load, rows * 1_000.0);
        }
        LogicalStep::Call {
            procedure,
            arguments,
            yields,
        } => {
            let void = procedure.results.is_empty();
            flow.bound.extend(yields.iter().map(|(_, slot)| *slot));
            let call = |input| ProcedureCall {
                input,
                procedure,
                arguments,
                yields,
                void,
            };
            let rows = rows * if void { 1.0 } else { 10.0 };
            planner.push(flow, |input| Op::ProcedureCall(call(input)), rows);
        }
        LogicalStep::Apply { query, optional } => apply(planner, flow, query, optional)?,
        LogicalStep::Batches(step) => batches(planner, flow, *step)?,
        LogicalStep::Create(pattern) => {
            flow.bound.extend(pattern.slots());
            planner.push(flow, |input| Op::Create { input, pattern }, rows);
        }
        LogicalStep::Merge(merge) => planner.merge(flow, *merge)?,
        LogicalStep::Set(items) => {
            planner.push(flow, |input| Op::Set { input, items }, rows);
        }
        LogicalStep::Delete { targets, detach } => {
            let delete = |input| Op::Delete {
                input,
                targets,
                detach,
            };
            planner.push(flow, delete, rows);
        }
        LogicalStep::ForEach {
            list,
            element,
            body,
        } => planner.for_each(flow, list, element, body)?,
        LogicalStep::Show { show, slots } => {
            flow.bound.extend(&slots);
            planner.push(flow, |input| Op::Show { input, show, slots }, 10.0);
        }
    }
    Ok(())
}

/// A `MATCH` that is not optional.
fn required_match(planner: &mut Planner<'_>, flow: &mut Flow, graph: QueryGraph) -> Result<()> {
    if graph.relationships.len() + graph.nodes.len() > MAX_PATTERN {
        return Err(too_large(format!(
            "a pattern has more than {MAX_PATTERN} nodes and relationships"
        )));
    }
    planner.pattern(flow, graph)
}

fn project(planner: &mut Planner<'_>, flow: &mut Flow, mut columns: Vec<(SlotId, BoundExpr)>) {
    for (_, column) in &mut columns {
        planner.decorrelate_counts(flow, column);
    }
    let rows = planner.rows(flow);
    flow.bound.extend(columns.iter().map(|(slot, _)| *slot));
    planner.push(flow, |input| Op::Project { input, columns }, rows);
}

/// Adds a barrier if this step, or the ones before it, could otherwise observe writes that they must not see.
fn add_barriers(planner: &mut Planner<'_>, flow: &mut Flow, step: &LogicalStep) {
    let (reads, writes) = footprint::of_step(step, planner.arena);
    // A limit pulls no more rows than it passes: writes below it would not run for the others.
    let stops_early = matches!(step, LogicalStep::Limit(_)) && !flow.writes.is_empty();
    if stops_early || flow.reads.disturbed_by(&writes) || reads.disturbed_by(&flow.writes) {
        eager(planner, flow);
    }
    // Both read all their input before they return a row, which is a barrier by itself.
    if matches!(step, LogicalStep::Aggregate { .. } | LogicalStep::Sort(_)) {
        flow.reads = Footprint::default();
        flow.writes = Footprint::default();
    } else {
        flow.reads.absorb(&reads);
        flow.writes.absorb(&writes);
    }
}

fn eager(planner: &mut Planner<'_>, flow: &mut Flow) {
    let rows = planner.rows(flow);
    planner.push(flow, |input| Op::Eager { input }, rows);
    flow.reads = Footprint::default();
    flow.writes = Footprint::default();
}

fn aggregate(
    planner: &mut Planner<'_>,
    flow: &mut Flow,
    keys: Vec<(SlotId, BoundExpr)>,
    aggregates: Vec<(SlotId, AggregateCall)>,
) {
    let rows = planner.rows(flow);
    let groups = index_order::groups(&planner.costs, planner.arena, &keys, rows);
    if !planner.arena.plain && keys.is_empty() {
        planner.end_of_index(flow, &aggregates);
    }
    flow.bound = keys
        .iter()
        .map(|(slot, _)| *slot)
        .chain(aggregates.iter().map(|(slot, _)| *slot))
        .collect();
    let mut aggregate = physical::Aggregate {
        input: flow.op,
        keys,
        aggregates,
        factors: Vec::new(),
    };
    if !planner.arena.plain {
        // From the cheapest replacement to the most general: a stored count needs no rows at all, a degree replaces
        // the last expand, and eager aggregation merges rows below the expands that remain.
        if let Some(count) = count::kept_count(planner.arena, &aggregate) {
            flow.op = planner.arena.push(count, 1.0);
            return;
        }
        factor::count_instead_of_expanding(planner.arena, &mut aggregate);
        eager_aggregation::group_early(planner.arena, &planner.costs, &mut aggregate);
        eager_aggregation::keep_grouped(planner.arena, aggregate.input);
    }
    flow.op = planner.arena.push(Op::Aggregate(aggregate), groups);
}

/// A sort, or a top if a limit follows directly.
fn sort(
    planner: &mut Planner<'_>,
    flow: &mut Flow,
    keys: Vec<SortKey>,
    next: Option<&LogicalStep>,
    limit: Option<BoundExpr>,
) {
    let limit = limit.or_else(|| match next {
        Some(LogicalStep::Limit(limit)) if !planner.arena.plain => Some(limit.clone()),
        _ => None,
    });
    if !planner.arena.plain
        && !planner.barriers_everywhere
        && planner.in_order(flow, &keys, limit.as_ref())
    {
        // No operator here reads all its input first: reads below continue while rows are returned.
        let (reads, _) = footprint::of_step(&LogicalStep::Sort(keys), planner.arena);
        flow.reads.absorb(&reads);
        return;
    }
    let rows = planner.rows(flow);
    let step = LogicalStep::Sort(keys);
    add_barriers(planner, flow, &step);
    let LogicalStep::Sort(keys) = step else {
        unreachable!("made above")
    };
    match limit {
        None => planner.push(flow, |input| Op::Sort { input, keys }, rows),
        Some(limit) => {
            let rows = rows.min(constant_count(&limit).unwrap_or(100.0));
            planner.push(flow, |input| Op::Top { input, keys, limit }, rows);
        }
    }
}

fn optional_match(planner: &mut Planner<'_>, flow: &mut Flow, graph: QueryGraph) -> Result<()> {
    let nulls: Vec<SlotId> = graph.bound_slots().collect();
    // Planned with the slots of the row as bound, so that it begins at nodes that are known. Its
    // rows are joined with the outer row by the apply.
    let right = planner.chain(
        vec![LogicalStep::Match {
            graph,
            optional: false,
        }],
        Start::Outer(flow.op, &flow.bound),
    )?;
    let rows = planner.rows(flow) * planner.rows(&right).max(1.0);
    flow.bound.extend(&nulls);
    planner.push(
        flow,
        |input| Op::OptionalApply {
            input,
            right: right.op,
            nulls,
        },
        rows,
    );
    Ok(())
}

fn apply(
    planner: &mut Planner<'_>,
    flow: &mut Flow,
    query: LogicalQuery,
    optional: bool,
) -> Result<()> {
    let outputs = query.outputs.clone();
    let right = planner.query(query, Start::Outer(flow.op, &flow.bound))?;
    if outputs.is_empty() {
        // A subquery without a result runs for its side effects: the row passes once.
        // As `FOREACH` over a list of one element, which no expression reads.
        let element = planner.arena.slot("", crate::expr::StaticType::Any);
        let list = BoundExpr::Const(isomer_value::Value::List(std::sync::Arc::new(vec![
            isomer_value::Value::Null,
        ])));
        let rows = planner.rows(flow);
        planner.push(
            flow,
            |input| Op::ForEach {
                input,
                list,
                element,
                body: right.op,
            },
            rows,
        );
        return Ok(());
    }
    let rows = planner.rows(flow) * planner.rows(&right);
    flow.bound.extend(outputs.iter().copied());
    let right = right.op;
    let apply = |input| match optional {
        true => Op::OptionalApply {
            input,
            right,
            nulls: outputs,
        },
        false => Op::Apply { input, right },
    };
    planner.push(flow, apply, rows);
    Ok(())
}

/// A subquery in separate transactions.
fn batches(planner: &mut Planner<'_>, flow: &mut Flow, step: BatchStep) -> Result<()> {
    let BatchStep {
        query,
        optional,
        batch_rows,
        concurrency,
        on_error,
        status,
    } = step;
    let outputs = query.outputs.clone();
    let right = planner.query(query, Start::Outer(flow.op, &flow.bound))?;
    let times = match outputs.is_empty() {
        true => 1.0,
        false => planner.rows(&right),
    };
    let rows = planner.rows(flow) * times;
    flow.bound.extend(outputs.iter().copied().chain(status));
    let apply = |input| BatchApply {
        input,
        right: right.op,
        batch_rows,
        concurrency,
        on_error,
        status,
        outputs,
        optional,
    };
    planner.push(flow, |input| Op::BatchApply(apply(input)), rows);
    // What follows reads the state after all transactions.
    eager(planner, flow);
    Ok(())
}

/// The number of rows up to the end of `skip` and `limit` together.
fn sum(skip: &BoundExpr, limit: &BoundExpr) -> BoundExpr {
    match (constant_count(skip), constant_count(limit)) {
        (Some(skip), Some(limit)) if skip + limit < 1e15 => {
            BoundExpr::Const(isomer_value::Value::Int((skip + limit) as i64))
        }
        _ => BoundExpr::Arith {
            op: Arithmetic::Add,
            left: Box::new(skip.clone()),
            right: Box::new(limit.clone()),
        },
    }
}
