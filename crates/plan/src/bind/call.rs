//! `CALL procedure(…)`.

use std::sync::Arc;

use isomer_cypher::Span;
use isomer_cypher::ast::{self, YieldItems};

use super::query::Column;
use super::types::wrong_kind;
use super::{Binder, Result};
use crate::catalog::{ProcedureField, ProcedureSignature};
use crate::error::{PlanError, PlanErrorKind};
use crate::expr::{BoundExpr, SlotId, StaticType};
use crate::logical::{LogicalQuery, LogicalStep, conjuncts};

impl<'a> Binder<'a> {
    /// A call among other clauses.
    pub(super) fn bind_call(
        &mut self,
        call: &'a ast::CallProcedure,
        steps: &mut Vec<LogicalStep>,
    ) -> Result<()> {
        if !call.optional {
            return self.bind_required_call(call, steps).map(drop);
        }
        let mut inner = Vec::new();
        let outputs = self.bind_required_call(call, &mut inner)?;
        steps.push(LogicalStep::Apply {
            query: LogicalQuery {
                branches: vec![inner],
                outputs,
                distinct: false,
            },
            optional: true,
        });
        Ok(())
    }

    /// Binds a call and returns the slots of its columns.
    fn bind_required_call(
        &mut self,
        call: &'a ast::CallProcedure,
        steps: &mut Vec<LogicalStep>,
    ) -> Result<Vec<SlotId>> {
        let procedure = find_procedure(self, call)?;
        let Some(arguments) = &call.arguments else {
            return Err(PlanError::syntax(
                "InvalidArgumentPassingMode",
                format!(
                    "`{}` is called without arguments inside a query",
                    procedure.name
                ),
                call.span,
            )
            .with_hint("only a stand-alone call takes its arguments from the parameters"));
        };
        let arguments = bind_arguments(self, &procedure, arguments, call.span)?;
        let mut yields = Vec::new();
        if let Some(given) = &call.yields {
            match &given.items {
                YieldItems::Star | YieldItems::Default => {
                    return Err(PlanError::syntax(
                        "UnexpectedSyntax",
                        "YIELD * is only allowed in a stand-alone call",
                        given.span,
                    )
                    .with_hint("name the columns"));
                }
                YieldItems::Nothing => {}
                YieldItems::Named(items) => {
                    for item in items {
                        let (position, kind) = find_result(&procedure, &item.column)?;
                        yields.push((position, self.declare_new(item.variable(), kind)?));
                    }
                }
            }
        }
        let outputs = yields.iter().map(|(_, slot)| *slot).collect();
        steps.push(LogicalStep::Call {
            procedure,
            arguments,
            yields,
        });
        if let Some(predicate) = call
            .yields
            .as_ref()
            .and_then(|given| given.predicate.as_ref())
        {
            let bound = self.bind_condition(predicate)?;
            let mut terms = Vec::new();
            conjuncts(bound, &mut terms);
            steps.push(LogicalStep::Filter(terms));
        }
        Ok(outputs)
    }

    /// A call that is the whole statement: its columns are the result.
    pub(super) fn bind_standalone_call(
        &mut self,
        call: &'a ast::CallProcedure,
        steps: &mut Vec<LogicalStep>,
    ) -> Result<Vec<Column>> {
        let procedure = find_procedure(self, call)?;
        let arguments = match &call.arguments {
            Some(arguments) => bind_arguments(self, &procedure, arguments, call.span)?,
            None => procedure
                .parameters
                .iter()
                .map(|one| BoundExpr::Param(self.arena.parameter(&one.name)))
                .collect(),
        };
        let mut yields = Vec::new();
        let mut columns = Vec::new();
        match call.yields.as_ref().map(|given| &given.items) {
            None | Some(YieldItems::Star | YieldItems::Default) => {
                for (position, result) in procedure.results.iter().enumerate() {
                    let slot = self.declare(&result.name, result.kind.clone());
                    yields.push((position, slot));
                    columns.push(Column {
                        name: result.name.clone(),
                        slot,
                        kind: result.kind.clone(),
                    });
                }
            }
            Some(YieldItems::Nothing) => {}
            Some(YieldItems::Named(items)) => {
                for item in items {
                    let (position, kind) = find_result(&procedure, &item.column)?;
                    let slot = self.declare_new(item.variable(), kind.clone())?;
                    yields.push((position, slot));
                    columns.push(Column {
                        name: item.variable().name.clone(),
                        slot,
                        kind,
                    });
                }
            }
        }
        steps.push(LogicalStep::Call {
            procedure,
            arguments,
            yields,
        });
        if let Some(predicate) = call
            .yields
            .as_ref()
            .and_then(|given| given.predicate.as_ref())
        {
            let bound = self.bind_condition(predicate)?;
            steps.push(LogicalStep::Filter(vec![bound]));
        }
        Ok(columns)
    }
}

fn find_procedure(
    binder: &Binder<'_>,
    call: &ast::CallProcedure,
) -> Result<Arc<ProcedureSignature>> {
    let name = call.name.dotted();
    binder.catalog.procedure(&name).ok_or_else(|| {
        let known = binder.catalog.procedure_names();
        let error = PlanError::new(
            PlanErrorKind::ProcedureError,
            "ProcedureNotFound",
            format!("there is no procedure `{name}`"),
            call.name.span,
        );
        let is_algorithm = |name: &str| name.to_ascii_lowercase().starts_with("algo.");
        // No algorithm is known: the program lacks them all.
        if is_algorithm(&name) && !known.iter().any(|known| is_algorithm(known)) {
            let hint =
                "this program was built without graph algorithms: enable the feature `algorithms`";
            return error.with_hint(hint);
        }
        error.with_near(&name, known.iter().map(|known| &**known))
    })
}

fn bind_arguments<'a>(
    binder: &mut Binder<'a>,
    procedure: &ProcedureSignature,
    arguments: &'a [ast::Expr],
    span: Span,
) -> Result<Vec<BoundExpr>> {
    let fewest = procedure
        .parameters
        .iter()
        .filter(|one| one.default.is_none())
        .count();
    let most = procedure.parameters.len();
    if arguments.len() < fewest || arguments.len() > most {
        return Err(super::function::wrong_count(
            &procedure.name,
            fewest,
            most,
            arguments.len(),
            span,
        ));
    }
    let mut bound = Vec::with_capacity(most);
    for (argument, parameter) in arguments.iter().zip(&procedure.parameters) {
        let typed = binder.bind_expr(argument)?;
        if !accepts(parameter, &typed.kind) {
            let what = format!("parameter `{}` of `{}`", parameter.name, procedure.name);
            return Err(wrong_kind(
                &what,
                parameter.kind.describe(),
                &typed.kind,
                argument.span,
            ));
        }
        bound.push(typed.expr);
    }
    let left_out = procedure.parameters.iter().skip(arguments.len());
    bound.extend(left_out.map(|one| BoundExpr::Const(one.default.clone().unwrap_or_default())));
    Ok(bound)
}

/// Whether a parameter may take a value of this kind.
fn accepts(parameter: &ProcedureField, kind: &StaticType) -> bool {
    match (&parameter.kind, kind) {
        (_, StaticType::Any) | (StaticType::Any, _) => true,
        (StaticType::List(_), StaticType::List(_)) => true,
        (
            StaticType::Float | StaticType::Number,
            StaticType::Integer | StaticType::Float | StaticType::Number,
        ) => true,
        (StaticType::Integer, StaticType::Number) => true,
        (StaticType::Map, StaticType::Node | StaticType::Relationship) => true,
        (expected, found) => expected == found,
    }
}

fn find_result(procedure: &ProcedureSignature, column: &ast::Ident) -> Result<(usize, StaticType)> {
    procedure
        .results
        .iter()
        .position(|result| *result.name == *column.name)
        .map(|position| (position, procedure.results[position].kind.clone()))
        .ok_or_else(|| {
            PlanError::syntax(
                "UndefinedVariable",
                format!("`{}` has no column `{}`", procedure.name, column.name),
                column.span,
            )
            .with_near(
                &column.name,
                procedure.results.iter().map(|result| &*result.name),
            )
        })
}
