//! Hints: what `USING INDEX`, `USING SCAN` and `USING JOIN` ask for, checked against the pattern and the catalog.

use isomer_cypher::Span;
use isomer_cypher::ast;

use super::{Binder, Result};
use crate::catalog::IndexInfo;
use crate::error::PlanError;
use crate::expr::{BoundExpr, SlotId};
use crate::logical::{HintKind, Length, PatternHint, PatternRelationship, QueryGraph, labels_of};

/// What a variable of a hint is in the pattern.
enum Subject<'g> {
    Node(SlotId),
    Relationship(&'g PatternRelationship),
}

/// Adds a hint to the pattern that it is about. A hint for an index that does not exist is a notice, as in Neo4j.
pub(super) fn bind_hint(
    binder: &mut Binder<'_>,
    hint: &ast::Hint,
    graph: &mut QueryGraph,
) -> Result<()> {
    let kind = match &hint.kind {
        ast::HintKind::Join(variables) => {
            let mut nodes = Vec::with_capacity(variables.len());
            for variable in variables {
                match subject(binder, variable, graph)? {
                    Subject::Node(node) => nodes.push(node),
                    Subject::Relationship(_) => {
                        return Err(unusable(
                            format!(
                                "`{}` is a relationship, and a join is on nodes",
                                variable.name
                            ),
                            variable.span,
                        ));
                    }
                }
            }
            Some(HintKind::Join(nodes))
        }
        ast::HintKind::Scan { variable, label } => Some(match subject(binder, variable, graph)? {
            Subject::Node(node) => HintKind::LabelScan {
                node,
                label: required_label(binder, node, label, graph)?,
            },
            Subject::Relationship(one) => {
                check_type(binder, one, label)?;
                HintKind::TypeScan {
                    relationship: one.slot,
                }
            }
        }),
        ast::HintKind::Index {
            variable,
            label,
            properties,
        } => index_hint(binder, hint, (variable, label, properties), graph)?,
    };
    // Without optimiser rules, there is nothing that a hint could choose.
    if let Some(kind) = kind
        && !binder.arena.plain
    {
        let span = hint.span;
        graph.hints.push(PatternHint { kind, span });
    }
    Ok(())
}

fn index_hint(
    binder: &mut Binder<'_>,
    hint: &ast::Hint,
    (variable, label, properties): (&ast::Ident, &ast::Ident, &[ast::Ident]),
    graph: &QueryGraph,
) -> Result<Option<HintKind>> {
    let has_paths = |index: &IndexInfo| {
        !index.each_element
            && index.paths.len() == properties.len()
            && index
                .paths
                .iter()
                .zip(properties)
                .all(|(path, name)| matches!(&**path, [only] if **only == *name.name))
    };
    let kind = match subject(binder, variable, graph)? {
        Subject::Node(node) => {
            let in_pattern = required_label(binder, node, label, graph)?;
            let known = binder.catalog.label(&label.name);
            let mut indexes = known.map_or(Vec::new(), |known| binder.catalog.indexes(known));
            indexes.retain(has_paths);
            let index = indexes.first().map(|index| index.id);
            let is_key = matches!(properties, [only] if &*only.name == "_key");
            (index.is_some() || is_key).then_some(HintKind::NodeIndex {
                node,
                label: in_pattern,
                index,
            })
        }
        Subject::Relationship(one) => {
            check_type(binder, one, label)?;
            let known = binder.catalog.relationship_type(&label.name);
            let mut indexes = known.map_or(Vec::new(), |known| {
                binder.catalog.relationship_indexes(known)
            });
            indexes.retain(has_paths);
            indexes.first().map(|index| HintKind::RelationshipIndex {
                relationship: one.slot,
                index: index.id,
            })
        }
    };
    if kind.is_none() {
        let names: Vec<&str> = properties.iter().map(|name| &*name.name).collect();
        let message = format!(
            "there is no index on `{}` ({}): the hint is ignored",
            label.name,
            names.join(", ")
        );
        binder.notice("MissingIndexHint", message, hint.span);
    }
    Ok(kind)
}

/// The node or relationship of this name, which the pattern must search.
fn subject<'g>(
    binder: &mut Binder<'_>,
    variable: &ast::Ident,
    graph: &'g QueryGraph,
) -> Result<Subject<'g>> {
    let Some(known) = binder.lookup(&variable.name) else {
        return Err(binder.undefined(&variable.name, variable.span));
    };
    if let BoundExpr::Slot(slot) = known.expr {
        if graph.nodes.contains(&slot) {
            return Ok(Subject::Node(slot));
        }
        let mut relationships = graph.relationships.iter();
        let single = |one: &&PatternRelationship| {
            one.slot == slot && !one.bound && matches!(one.length, Length::One)
        };
        if let Some(one) = relationships.find(single) {
            return Ok(Subject::Relationship(one));
        }
    }
    Err(unusable(
        format!(
            "this MATCH does not find a node or a single relationship `{}`",
            variable.name
        ),
        variable.span,
    ))
}

/// The label, if the pattern requires it of the node.
fn required_label(
    binder: &mut Binder<'_>,
    node: SlotId,
    label: &ast::Ident,
    graph: &QueryGraph,
) -> Result<crate::expr::LabelRef> {
    let wanted = binder.label(label);
    if labels_of(&graph.predicates, node).any(|one| one == wanted) {
        return Ok(wanted);
    }
    Err(unusable(
        format!("the pattern does not require the label `{}`", label.name),
        label.span,
    ))
}

fn check_type(
    binder: &mut Binder<'_>,
    relationship: &PatternRelationship,
    name: &ast::Ident,
) -> Result<()> {
    let wanted = binder.rel_type(name);
    if relationship.types == [wanted] {
        return Ok(());
    }
    Err(unusable(
        format!(
            "the pattern does not require the type `{}` alone",
            name.name
        ),
        name.span,
    ))
}

fn unusable(why: String, span: Span) -> PlanError {
    PlanError::syntax(
        "InvalidHint",
        format!("the hint cannot be used: {why}"),
        span,
    )
    .with_hint(
        "name a variable, a label or type, and the properties of an index as the MATCH has them",
    )
}
