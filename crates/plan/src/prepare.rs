//! From text to plan: the entry point of the crate.

use std::sync::Arc;

use isomer_cypher::ParseLimits;
use isomer_cypher::ast::{self, StatementBody};

use crate::arena::Arena;
use crate::bind::query::QueryContext;
use crate::bind::{Binder, schema, show, statement_frame};
use crate::catalog::PlannerCatalog;
use crate::error::{PlanError, PlanErrorKind};
use crate::logical::{LogicalQuery, LogicalStep};
use crate::physical::{Notice, Op, Operator, Plan, PlanBody, StatementClass, StatementMode};
use crate::point;
use crate::schema::Listing;
use crate::solve::{Planning, choose_operators, mark_live, plan_statement, search_distinct_ends};

/// Options of the caller.
#[derive(Clone, Debug, Default)]
pub struct PlanningOptions {
    /// Limits on the size and nesting of a text.
    pub limits: ParseLimits,
    /// Plans a lookup by key as a pipeline instead of a point read.
    pub no_point_reads: bool,
    /// Adds a barrier after every clause: slow, and the literal semantics of the language. Tests compare the other
    /// plans with it.
    pub barriers_everywhere: bool,
    /// Disables every optional optimiser rule: no point reads, no seeks by key, id or index, no joins, no counting
    /// instead of enumerating, no decorrelated sub-plans, no merged clauses, no truncated sorts. Scans, expands and
    /// filters, clause by clause, remain. Tests compare the other plans with it.
    pub plain: bool,
    /// Applies eager aggregation wherever it is correct, even if it does not pay. Tests compare the results.
    pub group_always: bool,
}

/// Parses, binds and plans one statement.
pub fn prepare(
    text: &str,
    catalog: &dyn PlannerCatalog,
    options: &PlanningOptions,
) -> Result<Arc<Plan>, PlanError> {
    let statement = isomer_cypher::parse_within(text, options.limits)?;
    prepare_parsed(&statement, text, catalog, options)
}

/// Binds and plans a statement that was parsed from `text`.
pub fn prepare_parsed(
    statement: &ast::Statement,
    text: &str,
    catalog: &dyn PlannerCatalog,
    options: &PlanningOptions,
) -> Result<Arc<Plan>, PlanError> {
    let mut binder = Binder::new(text, catalog);
    binder.arena.updates =
        matches!(&statement.body, StatementBody::Query(query) if query.updates());
    binder.arena.plain = options.plain;
    binder.arena.group_always = options.group_always;
    let (body, columns) = match &statement.body {
        StatementBody::Query(query) => prepare_query(&mut binder, query, options)?,
        StatementBody::CreateIndex(command) => (
            PlanBody::Schema(schema::create_index(&mut binder, command)?),
            Vec::new(),
        ),
        StatementBody::CreateLookupIndex(command) => (
            PlanBody::Schema(schema::create_lookup_index(command)),
            Vec::new(),
        ),
        StatementBody::CreateConstraint(command) => (
            PlanBody::Schema(schema::create_constraint(&mut binder, command)?),
            Vec::new(),
        ),
        StatementBody::DropIndex(command) => (
            PlanBody::Schema(schema::drop_index(&mut binder, command)),
            Vec::new(),
        ),
        StatementBody::DropConstraint(command) => (
            PlanBody::Schema(schema::drop_constraint(&mut binder, command)),
            Vec::new(),
        ),
        StatementBody::Show(show) => prepare_show(&mut binder, show)?,
        StatementBody::KillQuery(kill) => (
            PlanBody::KillQuery(binder.bind_constant(&kill.id)?),
            Vec::new(),
        ),
    };
    let root = match &body {
        PlanBody::Pipeline(root) => Some(*root),
        _ => None,
    };
    mark_live(&mut binder.arena, root)?;
    if !options.plain {
        search_distinct_ends(&mut binder.arena, root, catalog);
    }
    let class = classify(&body, &binder.arena);
    choose_operators(&mut binder.arena, root, class);
    note_products(&mut binder);
    Ok(Arc::new(finish(
        binder,
        body,
        columns,
        class,
        statement.mode,
    )))
}

fn finish(
    binder: Binder<'_>,
    body: PlanBody,
    columns: Vec<Arc<str>>,
    class: StatementClass,
    mode: StatementMode,
) -> Plan {
    let schema_version = binder.catalog.schema_version();
    let Binder { arena, notices, .. } = binder;
    let parameters = arena.parameters();
    let skewed = arena
        .skewed
        .take()
        .into_iter()
        .map(|(parameter, values)| (parameters[parameter.index()].clone(), values))
        .collect();
    Plan {
        body,
        skewed,
        local_count: arena.local_count as usize,
        names: arena.names(),
        parameters,
        registered_functions: arena.registered_functions(),
        columns,
        class,
        mode,
        notices,
        schema_version,
        operators: arena.operators,
        slots: arena.slots,
    }
}

/// Adds a notice for a Cartesian product of two unconnected parts of a pattern.
fn note_products(binder: &mut Binder<'_>) {
    let is_product = |operator: &Operator| matches!(operator.op, Op::CartesianProduct { .. });
    if binder.arena.operators.iter().any(is_product) {
        binder.notices.push(Notice {
            code: "CartesianProduct",
            message: "parts of the pattern are not connected: each row of one is combined with each of the other".to_owned(),
            span: None,
        });
    }
}

type Prepared = Result<(PlanBody, Vec<Arc<str>>), PlanError>;

fn prepare_query<'a>(
    binder: &mut Binder<'a>,
    query: &'a ast::RegularQuery,
    options: &PlanningOptions,
) -> Prepared {
    let (bound, _) = binder.bind_query(query, QueryContext::Statement, &mut |_, _| {
        Ok((statement_frame(), 0))
    })?;
    let names: Vec<Arc<str>> = bound
        .columns
        .iter()
        .flatten()
        .map(|column| column.name.clone())
        .collect();
    if !options.no_point_reads
        && !options.plain
        && let Some(read) = point::point_read(&bound.logical, &binder.arena)
    {
        return Ok((PlanBody::PointRead(read), names));
    }
    let returns = bound.columns.is_some();
    let planning = Planning {
        returns,
        barriers_everywhere: options.barriers_everywhere,
    };
    let batches = bound.logical.branches.iter().flatten();
    let has_batches = batches
        .clone()
        .any(|step| matches!(step, LogicalStep::Batches(_)));
    if has_batches {
        check_batches(query, batches)?;
    }
    let root = plan_statement(&mut binder.arena, binder.catalog, bound.logical, planning)?;
    Ok((PlanBody::Pipeline(root), names))
}

/// The transactions of a subquery commit on their own: what the statement does outside of them could neither be undone
/// with them, nor see them.
fn check_batches<'s>(
    query: &ast::RegularQuery,
    mut steps: impl Iterator<Item = &'s LogicalStep>,
) -> Result<(), PlanError> {
    let refused = |message: &str, hint: &str| {
        Err(PlanError::syntax("InvalidClauseComposition", message, query.span).with_hint(hint))
    };
    if query.branches.len() > 1 {
        return refused(
            "CALL { … } IN TRANSACTIONS in a UNION",
            "run the parts of the UNION as separate statements",
        );
    }
    if steps.any(writes_in_statement) {
        return refused(
            "a clause that writes outside of CALL { … } IN TRANSACTIONS",
            "put it into a CALL { … } IN TRANSACTIONS as well, or into a separate statement",
        );
    }
    Ok(())
}

/// Whether a step writes in the transaction of the statement.
fn writes_in_statement(step: &LogicalStep) -> bool {
    match step {
        LogicalStep::Create(_)
        | LogicalStep::Merge(_)
        | LogicalStep::Set(_)
        | LogicalStep::Delete { .. }
        | LogicalStep::ForEach { .. } => true,
        LogicalStep::Call { procedure, .. } => {
            procedure.mode != crate::catalog::ProcedureMode::Read
        }
        LogicalStep::Apply { query, .. } => {
            query.branches.iter().flatten().any(writes_in_statement)
        }
        LogicalStep::Batches(_)
        | LogicalStep::Match { .. }
        | LogicalStep::Filter(_)
        | LogicalStep::Project(_)
        | LogicalStep::Aggregate { .. }
        | LogicalStep::Distinct(_)
        | LogicalStep::Sort(_)
        | LogicalStep::Skip(_)
        | LogicalStep::Limit(_)
        | LogicalStep::Unwind { .. }
        | LogicalStep::LoadCsv { .. }
        | LogicalStep::Show { .. } => false,
    }
}

fn prepare_show<'a>(binder: &mut Binder<'a>, show: &'a ast::Show) -> Prepared {
    let (steps, columns) = show::show_objects(binder, show)?;
    let names = columns.iter().map(|column| column.name.clone()).collect();
    let query = LogicalQuery {
        branches: vec![steps],
        outputs: columns.iter().map(|column| column.slot).collect(),
        distinct: false,
    };
    let planning = Planning {
        returns: true,
        barriers_everywhere: false,
    };
    let root = plan_statement(&mut binder.arena, binder.catalog, query, planning)?;
    Ok((PlanBody::Pipeline(root), names))
}

fn classify(body: &PlanBody, arena: &Arena) -> StatementClass {
    match body {
        PlanBody::Schema(_) => StatementClass::Schema,
        PlanBody::KillQuery(_) => StatementClass::Admin,
        PlanBody::PointRead(_) => StatementClass::Read,
        PlanBody::Pipeline(_) => {
            let class = |op: &Op| match op {
                Op::Show {
                    show:
                        Listing::Queries | Listing::Transactions | Listing::Users | Listing::Settings,
                    ..
                } => StatementClass::Admin,
                Op::ProcedureCall(call) => match call.procedure.mode {
                    crate::catalog::ProcedureMode::Read => StatementClass::Read,
                    crate::catalog::ProcedureMode::Write => StatementClass::Write,
                    crate::catalog::ProcedureMode::Schema => StatementClass::Schema,
                    crate::catalog::ProcedureMode::Admin => StatementClass::Admin,
                },
                op if op.writes() => StatementClass::Write,
                _ => StatementClass::Read,
            };
            arena
                .operators
                .iter()
                .map(|operator| class(&operator.op))
                .max()
                .unwrap_or(StatementClass::Read)
        }
    }
}

impl From<isomer_cypher::ParseError> for PlanError {
    fn from(error: isomer_cypher::ParseError) -> Self {
        let kind = match error.detail {
            isomer_cypher::Detail::LimitExceeded => PlanErrorKind::Limit,
            _ => PlanErrorKind::SyntaxError,
        };
        Self {
            kind,
            detail: error.detail.name(),
            message: error.message,
            span: Some(error.span),
            hint: error.hint,
        }
    }
}

impl PlanError {
    /// The error, with the line of `text` that it is about and a caret under its position if known.
    pub fn render(&self, text: &str) -> String {
        match self.span {
            Some(span) => {
                isomer_cypher::diagnostic::render(text, span, &self.message, self.hint.as_deref())
            }
            None => self.to_string(),
        }
    }
}
