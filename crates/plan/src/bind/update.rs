//! `SET`, `REMOVE`, `DELETE`.

use isomer_cypher::Span;
use isomer_cypher::ast::{self, ExprKind};

use super::function::wrong_count;
use super::pattern::conflict;
use super::types::wrong_kind;
use super::{Binder, Result, Typed};
use crate::error::PlanError;
use crate::expr::{BoundExpr, PropRef, StaticType};
use crate::function::Convergence;
use crate::logical::LogicalStep;
use crate::physical::EntityChange;

impl<'a> Binder<'a> {
    pub(super) fn bind_set_items(
        &mut self,
        items: &'a [ast::SetItem],
    ) -> Result<Vec<EntityChange>> {
        items.iter().map(|item| bind_set_item(self, item)).collect()
    }

    pub(super) fn bind_remove_items(
        &mut self,
        items: &'a [ast::RemoveItem],
    ) -> Result<Vec<EntityChange>> {
        items
            .iter()
            .map(|item| bind_remove_item(self, item))
            .collect()
    }

    pub(super) fn bind_delete(&mut self, delete: &'a ast::Delete) -> Result<LogicalStep> {
        let mut targets = Vec::with_capacity(delete.targets.len());
        for target in &delete.targets {
            if matches!(target.kind, ExprKind::HasLabels { .. }) {
                return Err(PlanError::syntax(
                    "InvalidDelete",
                    "DELETE takes nodes, relationships and paths",
                    target.span,
                )
                .with_hint("take a label off with REMOVE"));
            }
            let bound = self.bind_expr(target)?;
            match bound.kind {
                StaticType::Node
                | StaticType::Relationship
                | StaticType::Path
                | StaticType::Any => targets.push(bound.expr),
                other => {
                    return Err(wrong_kind(
                        "DELETE",
                        "nodes, relationships and paths",
                        &other,
                        target.span,
                    ));
                }
            }
        }
        Ok(LogicalStep::Delete {
            targets,
            detach: delete.detach,
        })
    }
}

fn bind_set_item<'a>(binder: &mut Binder<'a>, item: &'a ast::SetItem) -> Result<EntityChange> {
    match item {
        ast::SetItem::Property { target, value } => {
            if let ExprKind::Function {
                name, arguments, ..
            } = &value.kind
                && let Some(operation) = Convergence::by_name(&name.dotted())
            {
                return bind_convergence(binder, target, operation, arguments, value.span);
            }
            let target = bind_target(binder, target)?;
            let value = binder.bind_expr(value)?.expr;
            Ok(match target {
                Target::Path(entity, mut path) if path.len() == 1 => EntityChange::Property {
                    entity,
                    name: path.remove(0),
                    value,
                },
                Target::Path(entity, path) => EntityChange::NestedProperty {
                    entity,
                    path,
                    value,
                },
                Target::Dynamic(entity, name) => EntityChange::DynamicProperty {
                    entity,
                    name,
                    value,
                },
            })
        }
        ast::SetItem::Replace { variable, value } => {
            let entity = bind_entity(binder, variable)?;
            let value = bind_properties_value(binder, value)?;
            Ok(EntityChange::Replace { entity, value })
        }
        ast::SetItem::Merge { variable, value } => {
            let entity = bind_entity(binder, variable)?;
            let value = bind_properties_value(binder, value)?;
            Ok(EntityChange::Merge { entity, value })
        }
        ast::SetItem::Labels { variable, labels } => {
            let entity = bind_labelled(binder, variable)?;
            let (labels, dynamic) = binder.bind_labels(labels)?.unwrap_or_default();
            Ok(EntityChange::AddLabels {
                entity,
                labels,
                dynamic,
            })
        }
    }
}

/// `SET n.x = counter.add(n.x, 1)`
fn bind_convergence<'a>(
    binder: &mut Binder<'a>,
    target: &'a ast::Expr,
    (operation, fewest, most): (Convergence, usize, usize),
    arguments: &'a [ast::Expr],
    span: Span,
) -> Result<EntityChange> {
    let name = operation.name();
    if arguments.len() < fewest + 1 || arguments.len() > most + 1 {
        return Err(wrong_count(
            name,
            fewest + 1,
            most + 1,
            arguments.len(),
            span,
        ));
    }
    let Target::Path(entity, path) = bind_target(binder, target)? else {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            "a convergent field is named by its path, not by an expression",
            target.span,
        ));
    };
    // The field that is set must be the one that is read: any other would have to be loaded, and would not
    // converge.
    if field(&arguments[0]).is_none() || field(&arguments[0]) != field(target) {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            format!("the first argument of `{name}()` is the field that is set"),
            arguments[0].span,
        )
        .with_hint(format!("SET n.field = {name}(n.field, …)")));
    }
    let mut bound = Vec::with_capacity(arguments.len() - 1);
    for argument in &arguments[1..] {
        bound.push(binder.bind_expr(argument)?.expr);
    }
    Ok(EntityChange::Converge {
        entity,
        path,
        operation,
        arguments: bound,
    })
}

fn bind_remove_item<'a>(
    binder: &mut Binder<'a>,
    item: &'a ast::RemoveItem,
) -> Result<EntityChange> {
    match item {
        ast::RemoveItem::Property(target) => Ok(match bind_target(binder, target)? {
            Target::Path(entity, path) => EntityChange::RemoveProperty { entity, path },
            Target::Dynamic(entity, name) => EntityChange::DynamicProperty {
                entity,
                name,
                value: BoundExpr::null(),
            },
        }),
        ast::RemoveItem::Labels { variable, labels } => {
            let entity = bind_labelled(binder, variable)?;
            let (labels, dynamic) = binder.bind_labels(labels)?.unwrap_or_default();
            Ok(EntityChange::RemoveLabels {
                entity,
                labels,
                dynamic,
            })
        }
    }
}

/// The target of a property change: `n.a`, `n.a.b`, `(expression).a`, `n[expression]`.
fn bind_target<'a>(binder: &mut Binder<'a>, target: &'a ast::Expr) -> Result<Target> {
    match &target.kind {
        ExprKind::Index { base, index } => {
            let entity = binder.bind_expr(base)?;
            expect_entity(&entity, base.span)?;
            let name = binder.bind_expr(index)?.expr;
            Ok(Target::Dynamic(entity.expr, name))
        }
        ExprKind::Property { .. } => {
            let mut path = Vec::new();
            let mut at = target;
            while let ExprKind::Property { base, key } = &at.kind {
                path.push(binder.arena.property(&key.name));
                at = base;
            }
            path.reverse();
            let entity = binder.bind_expr(at)?;
            expect_entity(&entity, at.span)?;
            Ok(Target::Path(entity.expr, path))
        }
        _ => Err(PlanError::syntax(
            "UnexpectedSyntax",
            "only properties and labels can be set",
            target.span,
        )),
    }
}

fn bind_entity(binder: &mut Binder<'_>, variable: &ast::Ident) -> Result<BoundExpr> {
    let known = binder
        .lookup(&variable.name)
        .ok_or_else(|| binder.undefined(&variable.name, variable.span))?;
    expect_entity(&known, variable.span)?;
    Ok(known.expr)
}

fn bind_labelled(binder: &mut Binder<'_>, variable: &ast::Ident) -> Result<BoundExpr> {
    let known = binder
        .lookup(&variable.name)
        .ok_or_else(|| binder.undefined(&variable.name, variable.span))?;
    match known.kind {
        StaticType::Node | StaticType::Any => Ok(known.expr),
        other => Err(conflict(
            &variable.name,
            &StaticType::Node,
            &other,
            variable.span,
        )),
    }
}

fn bind_properties_value<'a>(binder: &mut Binder<'a>, value: &'a ast::Expr) -> Result<BoundExpr> {
    let bound = binder.bind_expr(value)?;
    match bound.kind {
        StaticType::Map | StaticType::Node | StaticType::Relationship | StaticType::Any => {
            Ok(bound.expr)
        }
        other => Err(wrong_kind(
            "setting all properties",
            "a map, node or relationship",
            &other,
            value.span,
        )),
    }
}

/// A variable and property names below it: the name of a field.
fn field(expr: &ast::Expr) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut at = expr;
    loop {
        match &at.kind {
            ExprKind::Property { base, key } => {
                names.push(&*key.name);
                at = base;
            }
            ExprKind::Variable(name) => {
                names.push(name);
                return Some(names);
            }
            _ => return None,
        }
    }
}

enum Target {
    Path(BoundExpr, Vec<PropRef>),
    Dynamic(BoundExpr, BoundExpr),
}

fn expect_entity(entity: &Typed, span: Span) -> Result<()> {
    match &entity.kind {
        StaticType::Node | StaticType::Relationship | StaticType::Any | StaticType::Map => Ok(()),
        other => Err(wrong_kind(
            "setting a property",
            "a node or a relationship",
            other,
            span,
        )),
    }
}
