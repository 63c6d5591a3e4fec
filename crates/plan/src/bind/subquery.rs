//! Queries inside queries: `CALL { … }`, `EXISTS`, `COUNT`, `COLLECT`, pattern predicates and comprehensions.
//!
//! A sub-plan of an expression is planned immediately: its root becomes part of the expression. Variables from outside
//! keep their slots; only variables of enclosing comprehensions get new slots inside.

use isomer_cypher::Span;
use isomer_cypher::ast::{self, Clause, ProjectionItem, SubqueryImports};
use isomer_value::Value;

use super::expression::boolean;
use super::grouping::Aggregating;
use super::pattern::{BoundPattern, NewNames};
use super::query::{BoundQuery, QueryContext};
use super::scope::{Frame, Variable, Visibility};
use super::{Binder, Result, Typed, already_bound};
use crate::error::PlanError;
use crate::expr::{BoundExpr, SlotId, StaticType, Subquery, SubqueryResult};
use crate::logical::{BatchStep, LogicalQuery, LogicalStep};
use crate::solve::plan_subquery;

impl<'a> Binder<'a> {
    /// `(a)-->(b)` as a condition.
    pub(super) fn bind_pattern_predicate(
        &mut self,
        path: &'a ast::PathPattern,
        _span: Span,
    ) -> Result<Typed> {
        let (pattern, arguments) = in_open_frame(self, |binder| {
            binder.bind_pattern(std::iter::once(path), None, NewNames::Refused)
        })?;
        let logical = single(pattern_steps(pattern), Vec::new());
        Ok(boolean(subquery(
            self,
            SubqueryResult::Exists,
            logical,
            arguments,
        )?))
    }

    /// `[(a)-->(b) WHERE predicate | projection]`
    pub(super) fn bind_pattern_comprehension(
        &mut self,
        path: &'a ast::PathPattern,
        predicate: Option<&'a ast::Expr>,
        projection: &'a ast::Expr,
        _span: Span,
    ) -> Result<Typed> {
        let ((mut steps, value), arguments) = in_open_frame(self, |binder| {
            let pattern =
                binder.bind_pattern(std::iter::once(path), predicate, NewNames::Allowed)?;
            let value = binder.bind_expr(projection)?;
            Ok((pattern_steps(pattern), value))
        })?;
        let slot = self.arena.slot("", value.kind.clone());
        steps.push(LogicalStep::Project(vec![(slot, value.expr)]));
        let expr = subquery(
            self,
            SubqueryResult::Collect(slot),
            single(steps, vec![slot]),
            arguments,
        )?;
        Ok(Typed::new(expr, StaticType::List(Box::new(value.kind))))
    }

    /// `shortestPath(…)` as a value: the path, or null; of `allShortestPaths` the list of them.
    pub(super) fn bind_shortest_path_value(
        &mut self,
        path: &'a ast::PathPattern,
        span: Span,
    ) -> Result<Typed> {
        let all = matches!(
            path.selector,
            Some(ast::PathSelector::AllShortestPathsFunction)
        );
        let (mut pattern, arguments) = in_open_frame(self, |binder| {
            binder.bind_pattern(std::iter::once(path), None, NewNames::Refused)
        })?;
        let slot = self.arena.slot("", StaticType::Path);
        let Some(crate::logical::Length::Shortest { path, .. }) = pattern
            .graph
            .relationships
            .first_mut()
            .map(|relationship| &mut relationship.length)
        else {
            return Err(PlanError::syntax(
                "UnexpectedSyntax",
                "a shortest path has one relationship pattern",
                span,
            ));
        };
        *path = Some(slot);
        let logical = single(pattern_steps(pattern), vec![slot]);
        let list = subquery(self, SubqueryResult::Collect(slot), logical, arguments)?;
        if all {
            return Ok(Typed::new(
                list,
                StaticType::List(Box::new(StaticType::Path)),
            ));
        }
        let head = BoundExpr::Call {
            function: crate::function::Function::Head,
            arguments: vec![list],
        };
        Ok(Typed::new(head, StaticType::Path))
    }

    /// `EXISTS { … }`, `COUNT { … }`, `COLLECT { … }`
    pub(super) fn bind_subquery(
        &mut self,
        kind: ast::SubqueryKind,
        query: &'a ast::RegularQuery,
        span: Span,
    ) -> Result<Typed> {
        let standing = match kind {
            ast::SubqueryKind::Exists | ast::SubqueryKind::Count => QueryContext::Test,
            ast::SubqueryKind::Collect => QueryContext::Collect,
        };
        let aggregating = std::mem::replace(
            &mut self.aggregating,
            Aggregating::Forbidden("in a subquery"),
        );
        let bound = self.bind_query(query, standing, &mut |_, _| {
            Ok((Frame::new(Visibility::Open), 0))
        });
        self.aggregating = aggregating;
        let (bound, arguments) = bound?;
        let BoundQuery { logical, columns } = bound;
        match kind {
            ast::SubqueryKind::Exists => Ok(boolean(subquery(
                self,
                SubqueryResult::Exists,
                logical,
                arguments,
            )?)),
            ast::SubqueryKind::Count => Ok(Typed::new(
                subquery(self, SubqueryResult::Count, logical, arguments)?,
                StaticType::Integer,
            )),
            ast::SubqueryKind::Collect => {
                let columns = columns.unwrap_or_default();
                let [column] = columns.as_slice() else {
                    return Err(PlanError::syntax(
                        "InvalidClauseComposition",
                        format!(
                            "COLLECT takes a query with one column, not {}",
                            columns.len()
                        ),
                        span,
                    ));
                };
                let element = column.kind.clone();
                let expr = subquery(
                    self,
                    SubqueryResult::Collect(column.slot),
                    logical,
                    arguments,
                )?;
                Ok(Typed::new(expr, StaticType::List(Box::new(element))))
            }
        }
    }

    /// `CALL { … }`
    pub(super) fn bind_call_subquery(
        &mut self,
        clause: &'a ast::CallSubquery,
        steps: &mut Vec<LogicalStep>,
    ) -> Result<()> {
        if let Some(transactions) = &clause.transactions {
            check_transactions(self, transactions)?;
        }
        let outside = self.frame().scope.clone();
        let outer_imports = self.frame().imports.clone();
        let (bound, _) =
            self.bind_query(&clause.query, QueryContext::Call, &mut |binder, branch| {
                let mut frame = Frame::new(Visibility::Closed);
                let mut skipped = 0;
                let find = |name: &str| {
                    outside
                        .get(name)
                        .or_else(|| outer_imports.get(name))
                        .cloned()
                };
                match &clause.imports {
                    SubqueryImports::Star => {
                        // What the outer query has imported itself is visible there as well.
                        for (name, variable) in
                            outer_imports.sorted().into_iter().chain(outside.sorted())
                        {
                            frame.imports.set(name, variable);
                        }
                    }
                    SubqueryImports::Named(names) => {
                        for name in names {
                            let Some(variable) = find(&name.name) else {
                                return Err(binder.undefined(&name.name, name.span));
                            };
                            frame.imports.set(name.name.clone(), variable);
                        }
                    }
                    SubqueryImports::ByWith => {
                        if let Some(Clause::With(with)) = branch.clauses.first()
                            && let Some(names) = importing_with(with)
                        {
                            skipped = 1;
                            if with.projection.star {
                                for (name, variable) in outside.sorted() {
                                    frame.scope.set(name, variable);
                                }
                            }
                            for (name, span) in names {
                                let Some(variable) = find(name) else {
                                    return Err(binder.undefined(name, span));
                                };
                                frame.scope.set(name.into(), variable);
                            }
                        }
                    }
                }
                Ok((frame, skipped))
            })?;
        for column in bound.columns.iter().flatten() {
            if outside.get(&column.name).is_some() {
                return Err(already_bound(&column.name, clause.span)
                    .with_hint("rename the subquery's column with AS"));
            }
            let variable = Variable {
                slot: column.slot,
                kind: column.kind.clone(),
            };
            self.frame().scope.set(column.name.clone(), variable);
        }
        let (query, optional) = (bound.logical, clause.optional);
        let Some(transactions) = &clause.transactions else {
            steps.push(LogicalStep::Apply { query, optional });
            return Ok(());
        };
        let batch_rows = match &transactions.batch_rows {
            Some(rows) => Some(self.bind_row_count(rows)?),
            None => None,
        };
        let concurrency = match &transactions.concurrency {
            Some(ast::Concurrency::Count(count)) => Some(self.bind_row_count(count)?),
            Some(ast::Concurrency::Default) => Some(BoundExpr::Const(Value::Int(0))),
            None => None,
        };
        let status = match &transactions.status {
            Some(variable) => Some(self.declare_new(variable, StaticType::Map)?),
            None => None,
        };
        steps.push(LogicalStep::Batches(Box::new(BatchStep {
            query,
            optional,
            batch_rows,
            concurrency,
            on_error: transactions.on_error,
            status,
        })));
        Ok(())
    }

    /// A number of rows or transactions: it is the same for all rows, and reads none.
    fn bind_row_count(&mut self, count: &'a ast::Expr) -> Result<BoundExpr> {
        let bound = self.bind_expr(count)?;
        let mut reads_row = false;
        bound.expr.for_each_slot(&mut |_| reads_row = true);
        if reads_row
            || !matches!(
                bound.kind,
                StaticType::Integer | StaticType::Number | StaticType::Any
            )
        {
            return Err(PlanError::syntax(
                "InvalidArgumentType",
                "the number of rows or transactions is an integer that no variable changes",
                count.span,
            ));
        }
        Ok(bound.expr)
    }
}

/// A subquery runs in separate transactions only where the statement is not inside of one already.
fn check_transactions(binder: &Binder<'_>, transactions: &ast::InTransactions) -> Result<()> {
    if binder.frames.len() != STATEMENT_DEPTH {
        return Err(PlanError::syntax(
            "InvalidClauseComposition",
            "CALL { … } IN TRANSACTIONS inside another subquery",
            transactions.span,
        )
        .with_hint("move it to the top level of the statement"));
    }
    Ok(())
}

/// Frames on the stack while the clauses of a statement are bound: the binder's own and the query's.
const STATEMENT_DEPTH: usize = 2;

/// Runs `body` in the frame of an expression's sub-plan.
fn in_open_frame<'a, T>(
    binder: &mut Binder<'a>,
    body: impl FnOnce(&mut Binder<'a>) -> Result<T>,
) -> Result<(T, Vec<(SlotId, BoundExpr)>)> {
    let aggregating = std::mem::replace(
        &mut binder.aggregating,
        Aggregating::Forbidden("in a subquery"),
    );
    binder.frames.push(Frame::new(Visibility::Open));
    let result = body(binder);
    let frame = binder.frames.pop().expect("pushed above");
    binder.aggregating = aggregating;
    Ok((result?, frame.arguments))
}

fn subquery(
    binder: &mut Binder<'_>,
    kind: SubqueryResult,
    logical: LogicalQuery,
    arguments: Vec<(SlotId, BoundExpr)>,
) -> Result<BoundExpr> {
    let wanted = match kind {
        SubqueryResult::Collect(slot) => vec![slot],
        _ => Vec::new(),
    };
    let bound: Vec<SlotId> = arguments.iter().map(|(slot, _)| *slot).collect();
    let root = plan_subquery(
        &mut binder.arena,
        binder.catalog,
        logical,
        &bound,
        kind == SubqueryResult::Exists,
    )?;
    binder.arena.subplans.push((root, wanted));
    Ok(BoundExpr::Subquery(Box::new(Subquery {
        kind,
        root,
        arguments,
    })))
}

/// The names that a `WITH a, b` at the start of a `CALL { … }` imports, if it does only that.
fn importing_with(with: &ast::With) -> Option<Vec<(&str, Span)>> {
    let projection = &with.projection;
    let plain = !projection.distinct
        && projection.order_by.is_empty()
        && projection.skip.is_none()
        && projection.limit.is_none()
        && with.predicate.is_none();
    if !plain {
        return None;
    }
    let name = |item: &'_ ProjectionItem| match (&item.alias, item.expr.as_variable()) {
        (None, Some(_)) => Some(item.span),
        (Some(alias), Some(name)) if alias.name == *name => Some(item.span),
        _ => None,
    };
    projection
        .items
        .iter()
        .map(|item| {
            name(item).map(|span| (&**item.expr.as_variable().expect("checked above"), span))
        })
        .collect()
}

fn pattern_steps(pattern: BoundPattern) -> Vec<LogicalStep> {
    let mut steps = Vec::new();
    if !pattern.casts.is_empty() {
        steps.push(LogicalStep::Project(pattern.casts));
    }
    steps.push(LogicalStep::Match {
        graph: pattern.graph,
        optional: false,
    });
    steps
}

fn single(steps: Vec<LogicalStep>, outputs: Vec<SlotId>) -> LogicalQuery {
    LogicalQuery {
        branches: vec![steps],
        outputs,
        distinct: false,
    }
}
