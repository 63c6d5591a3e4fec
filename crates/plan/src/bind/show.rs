//! `SHOW`: a listing, restricted, filtered, and then projected like the rows of a query.

use std::sync::Arc;

use isomer_cypher::ast::{self, Clause, IndexType, ShowOnly, ShownRule, YieldItems};
use isomer_value::Value;

use super::projection::ProjectionClause;
use super::query::Column;
use super::scope::Variable;
use super::{Binder, Result};
use crate::error::PlanError;
use crate::expr::{BoundExpr, SlotId, StaticType};
use crate::logical::{LogicalStep, conjuncts};
use crate::schema::Listing;

/// The steps and the columns of a `SHOW`.
pub(crate) fn show_objects<'a>(
    binder: &mut Binder<'a>,
    show: &'a ast::Show,
) -> Result<(Vec<LogicalStep>, Vec<Column>)> {
    let kind = show_kind(show.kind);
    let fields = kind.fields();
    let slots: Vec<SlotId> = fields
        .iter()
        .map(|field| binder.arena.slot(*field, StaticType::Any))
        .collect();
    let columns = yielded(show, kind, &slots)?;
    // A condition may use every column: without `YIELD`, and by the name that it had before `YIELD … AS`. A new name
    // takes precedence.
    let all = all_columns(kind, &slots);
    for column in all.into_iter().chain(columns.iter().cloned()) {
        let variable = Variable {
            slot: column.slot,
            kind: StaticType::Any,
        };
        binder.frame().scope.set(column.name, variable);
    }
    let restrictions = restrictions(binder, show, kind, &slots)?;
    let mut steps = vec![LogicalStep::Show { show: kind, slots }];
    if !restrictions.is_empty() {
        steps.push(LogicalStep::Filter(restrictions));
    }
    if let Some(condition) = show
        .yields
        .as_ref()
        .and_then(|given| given.predicate.as_ref())
    {
        let mut terms = Vec::new();
        conjuncts(binder.bind_condition(condition)?, &mut terms);
        steps.push(LogicalStep::Filter(terms));
    }
    let columns = project(binder, &show.then, columns, &mut steps)?;
    Ok((steps, columns))
}

fn all_columns(kind: Listing, slots: &[SlotId]) -> Vec<Column> {
    let columns = kind.fields().iter().zip(slots);
    columns
        .map(|(name, slot)| Column {
            name: Arc::from(*name),
            slot: *slot,
            kind: StaticType::Any,
        })
        .collect()
}

/// The columns that `YIELD` names, or the default ones.
fn yielded(show: &ast::Show, kind: Listing, slots: &[SlotId]) -> Result<Vec<Column>> {
    let mut all = all_columns(kind, slots);
    match show.yields.as_ref().map(|given| &given.items) {
        Some(YieldItems::Named(items)) => items
            .iter()
            .map(|item| {
                let found = all.iter().find(|column| *column.name == *item.column.name);
                let column = found.ok_or_else(|| no_column(item, kind.fields()))?;
                Ok(Column {
                    name: item.variable().name.clone(),
                    ..column.clone()
                })
            })
            .collect(),
        Some(YieldItems::Star) => Ok(all),
        Some(YieldItems::Default | YieldItems::Nothing) | None => {
            all.truncate(kind.default_fields());
            Ok(all)
        }
    }
}

/// Binds what follows `YIELD`. `RETURN *` are the yielded columns, in their order.
fn project<'a>(
    binder: &mut Binder<'a>,
    then: &'a [Clause],
    mut columns: Vec<Column>,
    steps: &mut Vec<LogicalStep>,
) -> Result<Vec<Column>> {
    for clause in then {
        let Clause::Return(clause) = clause else {
            binder.bind_clause(clause, steps)?;
            for column in &mut columns {
                if let Some(variable) = binder.frame().scope.get(&column.name) {
                    column.slot = variable.slot;
                }
            }
            continue;
        };
        let projection = &clause.projection;
        let mut returned =
            binder.bind_projection(projection, None, ProjectionClause::Return, steps)?;
        if projection.star {
            let position = |column: &Column| {
                let mut names = columns.iter().map(|yielded| &yielded.name);
                names.position(|name| *name == column.name)
            };
            let is_item = |column: &Column| {
                let mut items = projection.items.iter();
                items.any(|item| *item.column() == column.name)
            };
            returned.retain(|column| position(column).is_some() || is_item(column));
            returned.sort_by_key(|column| position(column).unwrap_or(usize::MAX));
        }
        return Ok(returned);
    }
    Ok(columns)
}

/// The conditions that words and names before `YIELD` stand for.
fn restrictions<'a>(
    binder: &mut Binder<'a>,
    show: &'a ast::Show,
    kind: Listing,
    slots: &[SlotId],
) -> Result<Vec<BoundExpr>> {
    let slot = |field: &str| {
        let mut fields = kind.fields().iter();
        fields
            .position(|name| *name == field)
            .map(|at| slots[at])
            .ok_or_else(|| PlanError::syntax("UndefinedVariable", field.to_owned(), show.span))
    };
    let any_of = |slot: SlotId, values: Vec<BoundExpr>| BoundExpr::In {
        item: Box::new(BoundExpr::Slot(slot)),
        list: Box::new(BoundExpr::List(values)),
    };
    let mut found = Vec::new();
    if let Some(only) = show.only {
        let (field, values) = restriction(only);
        let values = values.into_iter().map(BoundExpr::Const).collect();
        found.push(any_of(slot(field)?, values));
    }
    if !show.names.is_empty() {
        let names = show.names.iter().map(|name| binder.bind_constant(name));
        let names = names.collect::<Result<Vec<_>>>()?;
        found.push(any_of(slot(kind.name_field())?, names));
    }
    Ok(found)
}

/// The column that a restriction compares, and its values. Which types of indexes exist decides the executor.
fn restriction(only: ShowOnly) -> (&'static str, Vec<Value>) {
    let of_nodes_and_relationships = |node: &str, relationship: &str, of_nodes: Option<bool>| {
        let mut types = Vec::new();
        if of_nodes != Some(false) {
            types.push(Value::from(node));
        }
        if of_nodes != Some(true) {
            types.push(Value::from(relationship));
        }
        types
    };
    match only {
        ShowOnly::Indexes(kind) => ("type", vec![kind_word(kind)]),
        ShowOnly::BuiltIn(is_built_in) => ("isBuiltIn", vec![Value::Bool(is_built_in)]),
        ShowOnly::Constraints(rule, of_nodes) => {
            let (node, relationship) = match rule {
                ShownRule::Unique => ("UNIQUENESS", "RELATIONSHIP_UNIQUENESS"),
                ShownRule::Key => ("NODE_KEY", "RELATIONSHIP_KEY"),
                ShownRule::Existence => {
                    ("NODE_PROPERTY_EXISTENCE", "RELATIONSHIP_PROPERTY_EXISTENCE")
                }
                ShownRule::PropertyType => ("NODE_PROPERTY_TYPE", "RELATIONSHIP_PROPERTY_TYPE"),
            };
            let types = of_nodes_and_relationships(node, relationship, of_nodes);
            ("type", types)
        }
    }
}

fn kind_word(kind: IndexType) -> Value {
    kind.word().into()
}

fn no_column(item: &ast::YieldItem, fields: &[&str]) -> PlanError {
    PlanError::syntax(
        "UndefinedVariable",
        format!("there is no column `{}` to be shown", item.column.name),
        item.column.span,
    )
    .with_near(&item.column.name, fields.iter().copied())
}

fn show_kind(kind: ast::ShowKind) -> Listing {
    match kind {
        ast::ShowKind::Indexes => Listing::Indexes,
        ast::ShowKind::Constraints => Listing::Constraints,
        ast::ShowKind::Labels => Listing::Labels,
        ast::ShowKind::Types => Listing::Types,
        ast::ShowKind::Properties => Listing::Properties,
        ast::ShowKind::Buckets => Listing::Buckets,
        ast::ShowKind::Conflicts => Listing::Conflicts,
        ast::ShowKind::Queries => Listing::Queries,
        ast::ShowKind::Functions => Listing::Functions,
        ast::ShowKind::Procedures => Listing::Procedures,
        ast::ShowKind::Databases => Listing::Databases,
        ast::ShowKind::DefaultDatabase => Listing::DefaultDatabase,
        ast::ShowKind::HomeDatabase => Listing::HomeDatabase,
        ast::ShowKind::Users => Listing::Users,
        ast::ShowKind::CurrentUser => Listing::CurrentUser,
        ast::ShowKind::Settings => Listing::Settings,
        ast::ShowKind::Transactions => Listing::Transactions,
    }
}
