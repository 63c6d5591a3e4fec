//! Function calls: found by name, checked for number and kind of arguments.

use std::sync::Arc;

use isomer_cypher::Span;
use isomer_cypher::ast::{self, ExprKind};
use isomer_value::Value;

use super::expression::boolean;
use super::grouping::Aggregating;
use super::types::wrong_kind;
use super::{Binder, Result, Typed};
use crate::error::PlanError;
use crate::expr::{BoundExpr, StaticType};
use crate::function::{Aggregation, Convergence, Function};

impl<'a> Binder<'a> {
    pub(super) fn bind_function(
        &mut self,
        name: &ast::QualifiedName,
        distinct: bool,
        arguments: &'a [ast::Expr],
        span: Span,
    ) -> Result<Typed> {
        let dotted = name.dotted();
        if distinct {
            return Err(PlanError::syntax(
                "UnexpectedSyntax",
                format!("DISTINCT is used in `{dotted}()`, which is not an aggregate function"),
                span,
            ));
        }
        match Function::by_name(&dotted) {
            Some(Function::Exists) => bind_exists_function(self, arguments, span),
            Some(function @ (Function::LineNumber | Function::CsvFile)) if arguments.is_empty() => {
                bind_csv_origin(self, function, span)
            }
            Some(function) => bind_builtin(self, function, arguments, span),
            None if Convergence::by_name(&dotted).is_some() => Err(PlanError::syntax(
                "UnexpectedSyntax",
                format!(
                    "`{dotted}()` changes a convergent field, and is only allowed on the right side of SET"
                ),
                span,
            )
            .with_hint(format!(
                "SET n.field = {dotted}(n.field, …), once for each field"
            ))),
            None => bind_registered(self, &dotted, arguments, name.span, span),
        }
    }

    /// A query on the convergent field that `field` may be, which does not load it: the call, if the property is
    /// convergent in any record. It returns null if it is not convergent in the current record.
    pub(super) fn bind_field_query(
        &mut self,
        look: Function,
        field: &'a ast::Expr,
        item: Option<BoundExpr>,
    ) -> Result<Option<BoundExpr>> {
        let mut names = Vec::new();
        let mut at = field;
        while let ExprKind::Property { base, key } = &at.kind {
            names.push(key.name.clone());
            at = base;
        }
        names.reverse();
        if !names
            .first()
            .is_some_and(|name| self.catalog.is_convergent(name))
        {
            return Ok(None);
        }
        let base = self.bind_expr(at)?;
        if !matches!(
            base.kind,
            StaticType::Node | StaticType::Relationship | StaticType::Any
        ) {
            return Ok(None);
        }
        let names = names.into_iter().map(Value::String).collect();
        let mut arguments = vec![base.expr, BoundExpr::Const(names)];
        arguments.extend(item);
        Ok(Some(BoundExpr::Call {
            function: look,
            arguments,
        }))
    }

    /// Like [`Binder::bind_field_query`], for the value under `last` in the map that `base` may be.
    pub(super) fn bind_inner_look(
        &mut self,
        base: &'a ast::Expr,
        last: &Arc<str>,
    ) -> Result<Option<BoundExpr>> {
        let mut look = self.bind_field_query(Function::ConvergentValue, base, None)?;
        if let Some(BoundExpr::Call { arguments, .. }) = &mut look
            && let Some(BoundExpr::Const(Value::List(names))) = arguments.get_mut(1)
        {
            Arc::make_mut(names).push(Value::String(last.clone()));
        }
        Ok(look)
    }
}

fn bind_exists_function<'a>(
    binder: &mut Binder<'a>,
    arguments: &'a [ast::Expr],
    span: Span,
) -> Result<Typed> {
    let [argument] = arguments else {
        return Err(wrong_count("exists", 1, 1, arguments.len(), span));
    };
    if let ExprKind::PatternPredicate(path) = &argument.kind {
        return binder.bind_pattern_predicate(path, argument.span);
    }
    Ok(boolean(BoundExpr::IsNotNull(Box::new(
        binder.bind_expr(argument)?.expr,
    ))))
}

/// `linenumber()`, `file()`
fn bind_csv_origin(binder: &mut Binder<'_>, function: Function, span: Span) -> Result<Typed> {
    let Some(origin) = binder.csv_origin() else {
        return Ok(Typed::new(BoundExpr::Const(Value::Null), function.kind()));
    };
    if matches!(binder.aggregating, Aggregating::After(_)) {
        return Err(PlanError::syntax(
            "AmbiguousAggregationExpression",
            format!(
                "`{}()` is not constant within a group of rows",
                function.name()
            ),
            span,
        )
        .with_hint("give it a name in a WITH before the aggregation"));
    }
    let slot = match function {
        Function::LineNumber => origin.line,
        _ => origin.file,
    };
    Ok(Typed::new(BoundExpr::Slot(slot), function.kind()))
}

fn bind_builtin<'a>(
    binder: &mut Binder<'a>,
    function: Function,
    arguments: &'a [ast::Expr],
    span: Span,
) -> Result<Typed> {
    let (fewest, most) = function.arity();
    if arguments.len() < fewest || arguments.len() > most {
        return Err(wrong_count(
            function.name(),
            fewest,
            most,
            arguments.len(),
            span,
        ));
    }
    let mut bound = Vec::with_capacity(arguments.len());
    let mut kinds = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let typed = binder.bind_expr(argument)?;
        check_argument(function, kinds.len(), &typed.kind, argument.span)?;
        bound.push(typed.expr);
        kinds.push(typed.kind);
    }
    let kind = result_kind(function, &kinds);
    let known = match (function, arguments) {
        (Function::Size, [argument]) => {
            binder.bind_field_query(Function::ConvergentSize, argument, None)?
        }
        _ => None,
    };
    let made = BoundExpr::Call {
        function,
        arguments: bound,
    };
    let made = if may_refuse(function) {
        made.at((span.start, span.end))
    } else {
        made
    };
    Ok(Typed::new(convergent_or_plain(known, made), kind))
}

fn bind_registered<'a>(
    binder: &mut Binder<'a>,
    name: &str,
    arguments: &'a [ast::Expr],
    name_span: Span,
    span: Span,
) -> Result<Typed> {
    let Some(signature) = binder.catalog.function(name) else {
        let known = Function::ALL
            .iter()
            .map(|one| one.name())
            .chain(Aggregation::ALL.iter().map(|one| one.name()));
        return Err(PlanError::syntax(
            "UnknownFunction",
            format!("there is no function `{name}()`"),
            name_span,
        )
        .with_near(name, known));
    };
    let fewest = signature
        .parameters
        .iter()
        .filter(|one| one.default.is_none())
        .count();
    let most = signature.parameters.len();
    if arguments.len() < fewest || arguments.len() > most {
        return Err(wrong_count(
            &signature.name,
            fewest,
            most,
            arguments.len(),
            span,
        ));
    }
    let mut bound = Vec::with_capacity(most);
    for argument in arguments {
        bound.push(binder.bind_expr(argument)?.expr);
    }
    let left_out = signature.parameters.iter().skip(arguments.len());
    bound.extend(left_out.map(|one| BoundExpr::Const(one.default.clone().unwrap_or_default())));
    let function = binder.arena.registered(&signature.name);
    Ok(Typed::new(
        BoundExpr::CallRegistered {
            function,
            arguments: bound,
            is_volatile: !signature.deterministic,
        },
        signature.result.clone(),
    ))
}

/// The result of a convergent field query, with the plain expression as fallback.
pub(super) fn convergent_or_plain(convergent: Option<BoundExpr>, plain: BoundExpr) -> BoundExpr {
    match convergent {
        Some(convergent) => BoundExpr::Call {
            function: Function::Coalesce,
            arguments: vec![convergent, plain],
        },
        None => plain,
    }
}

pub(super) fn wrong_count(
    name: &str,
    fewest: usize,
    most: usize,
    found: usize,
    span: Span,
) -> PlanError {
    let name = name.trim_end_matches("(*)");
    let expected = match (fewest, most) {
        (0, 0) => "no arguments".to_owned(),
        (1, 1) => "one argument".to_owned(),
        (fewest, most) if fewest == most => format!("{fewest} arguments"),
        (fewest, usize::MAX) => format!("{fewest} or more arguments"),
        (fewest, most) => format!("{fewest} to {most} arguments"),
    };
    PlanError::syntax(
        "InvalidNumberOfArguments",
        format!("`{name}()` takes {expected}, not {found}"),
        span,
    )
}

/// Rejects arguments that the function accepts for no value.
fn check_argument(
    function: Function,
    position: usize,
    kind: &StaticType,
    span: Span,
) -> Result<()> {
    if position > 0 || *kind == StaticType::Any {
        return Ok(());
    }
    let (fits, expected) = match function {
        Function::Labels => (*kind == StaticType::Node, "a node"),
        Function::Type | Function::StartNode | Function::EndNode => {
            (*kind == StaticType::Relationship, "a relationship")
        }
        Function::Nodes | Function::Relationships => (*kind == StaticType::Path, "a path"),
        Function::Length => (*kind == StaticType::Path, "a path"),
        Function::Size => (
            matches!(
                kind,
                StaticType::String | StaticType::List(_) | StaticType::Map | StaticType::Bytes
            ),
            "a string or a list",
        ),
        Function::Properties | Function::Keys => (
            matches!(
                kind,
                StaticType::Node | StaticType::Relationship | StaticType::Map
            ),
            "a node, relationship or map",
        ),
        Function::Id | Function::ElementId => (
            matches!(kind, StaticType::Node | StaticType::Relationship),
            "a node or a relationship",
        ),
        _ => return Ok(()),
    };
    if fits {
        Ok(())
    } else {
        Err(wrong_kind(
            &format!("`{}()`", function.name()),
            expected,
            kind,
            span,
        ))
    }
}

fn result_kind(function: Function, arguments: &[StaticType]) -> StaticType {
    match (function, arguments) {
        (Function::Coalesce, kinds) => super::types::join_all(kinds),
        (Function::Head | Function::Last, [list]) => list.element(),
        (Function::Tail | Function::Reverse, [StaticType::List(element)]) => {
            StaticType::List(element.clone())
        }
        (Function::Reverse, [StaticType::String]) => StaticType::String,
        (Function::Abs, [kind @ (StaticType::Integer | StaticType::Float)]) => kind.clone(),
        _ => function.kind(),
    }
}

/// Functions that refuse some values of the right type, or of a type that is not known statically.
fn may_refuse(function: Function) -> bool {
    use Function::*;
    function.kind() == StaticType::Temporal
        || matches!(
            function,
            ToInteger
                | ToFloat
                | ToBoolean
                | ToString
                | Substring
                | Left
                | Right
                | Split
                | Replace
                | Round
                | Point
        )
}
