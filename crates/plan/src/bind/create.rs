//! `CREATE` and `MERGE` patterns: what is created, and for `MERGE` also what is matched.

use isomer_cypher::ast::{self, ExprKind, LabelExprKind, PatternLink};

use super::expression::{has_names, type_has_names};
use super::pattern::{BoundPattern, parameter_map};
use super::{Binder, Result, already_bound};
use crate::error::PlanError;
use crate::expr::{BoundExpr, LabelRef, PathSegment, SlotId, StaticType};
use crate::function::Function;
use crate::logical::{Length, PatternRelationship, QueryGraph};
use crate::physical::{
    CreateItem, CreateNode, CreatePattern, CreateRelationship, CreatedType, Direction, Properties,
};

/// The clause that contains the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatternClause {
    Create,
    Merge,
}

impl PatternClause {
    fn keyword(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Merge => "MERGE",
        }
    }
}

/// A pattern to create.
pub(super) struct MadePattern {
    pub create: CreatePattern,
    /// Relationships that `MERGE` matches in either direction.
    undirected: Vec<SlotId>,
    /// Variables of unknown kind that are used as nodes.
    pub casts: Vec<(SlotId, BoundExpr)>,
}

impl<'a> Binder<'a> {
    /// Labels to create, set or remove: the fixed ones, each once, and the expressions of the dynamic ones. None for
    /// any other label expression.
    pub(super) fn bind_labels(
        &mut self,
        labels: &'a ast::LabelExpr,
    ) -> Result<Option<(Vec<LabelRef>, Vec<BoundExpr>)>> {
        let Some(parts) = labels.as_labels() else {
            return Ok(None);
        };
        let (mut fixed, mut dynamic) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            match &part.kind {
                LabelExprKind::Dynamic { names, .. } => dynamic.push(self.bind_expr(names)?.expr),
                _ => {
                    let label = part.as_name().map(|name| self.label(name));
                    fixed.extend(label.filter(|label| !fixed.contains(label)));
                }
            }
        }
        Ok(Some((fixed, dynamic)))
    }

    /// Binds the paths of a `CREATE` or `MERGE`.
    pub(super) fn bind_made_pattern(
        &mut self,
        paths: &'a [ast::PathPattern],
        making: PatternClause,
    ) -> Result<MadePattern> {
        let mut made = MadePattern {
            create: CreatePattern::default(),
            undirected: Vec::new(),
            casts: Vec::new(),
        };
        for path in paths {
            bind_made_path(self, path, making, &mut made)?;
        }
        Ok(made)
    }

    /// The pattern that a `MERGE` matches before it creates.
    pub(super) fn graph_to_find(&mut self, made: &MadePattern) -> QueryGraph {
        self.clause_count += 1;
        let mut graph = QueryGraph::default();
        for item in &made.create.items {
            match item {
                CreateItem::Node(node) => {
                    graph.nodes.push(node.node);
                    let entity = BoundExpr::Slot(node.node);
                    graph
                        .predicates
                        .extend(node.labels.iter().map(|label| BoundExpr::HasLabels {
                            entity: Box::new(entity.clone()),
                            labels: vec![*label],
                        }));
                    graph
                        .predicates
                        .extend(node.dynamic_labels.iter().map(|names| {
                            let arguments = vec![entity.clone()];
                            let carried = BoundExpr::Call {
                                function: Function::Labels,
                                arguments,
                            };
                            has_names(carried, names.clone(), false)
                        }));
                    require(&mut graph, entity, &node.properties);
                }
                CreateItem::Relationship(made_relationship) => {
                    let slot = made_relationship.relationship;
                    let undirected = made.undirected.contains(&slot);
                    let types = match &made_relationship.rel_type {
                        CreatedType::Fixed(rel_type) => vec![*rel_type],
                        CreatedType::Dynamic(name) => {
                            let test = type_has_names(BoundExpr::Slot(slot), name.clone(), false);
                            graph.predicates.push(test);
                            Vec::new()
                        }
                    };
                    graph.relationships.push(PatternRelationship {
                        slot,
                        bound: false,
                        from: made_relationship.source,
                        to: made_relationship.target,
                        direction: if undirected {
                            Direction::Both
                        } else {
                            Direction::Outgoing
                        },
                        types,
                        length: Length::One,
                        clause: self.clause_count,
                        step_predicate: None,
                    });
                    require(
                        &mut graph,
                        BoundExpr::Slot(slot),
                        &made_relationship.properties,
                    );
                }
            }
        }
        graph.paths.clone_from(&made.create.paths);
        graph
    }
}

fn bind_made_path<'a>(
    binder: &mut Binder<'a>,
    path: &'a ast::PathPattern,
    making: PatternClause,
    made: &mut MadePattern,
) -> Result<()> {
    if path.selector.is_some() || path.predicate.is_some() {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            format!(
                "{} makes plain paths: no selector, no condition",
                making.keyword()
            ),
            path.span,
        ));
    }
    if let Some(variable) = &path.variable {
        binder.must_be_new(variable)?;
    }
    let start = bind_made_node(binder, &path.start, path.steps.is_empty(), making, made)?;
    let mut from = start;
    let mut steps = Vec::with_capacity(path.steps.len());
    for step in &path.steps {
        let relationship = match &step.link {
            PatternLink::Relationship(relationship) if relationship.length.is_none() => {
                relationship
            }
            _ => {
                return Err(PlanError::syntax(
                    "CreatingVarLength",
                    format!(
                        "{} makes single relationships, not paths of varying length",
                        making.keyword()
                    ),
                    path.span,
                ));
            }
        };
        let to = bind_made_node(binder, &step.node, false, making, made)?;
        let slot = bind_made_relationship(binder, relationship, (from, to), making, made)?;
        steps.push(PathSegment {
            relationship: slot,
            node: to,
        });
        from = to;
    }
    if let Some(variable) = &path.variable {
        let slot = binder.declare_new(variable, StaticType::Path)?;
        made.create
            .paths
            .push((slot, BoundExpr::BuildPath { start, steps }));
    }
    Ok(())
}

fn bind_made_node<'a>(
    binder: &mut Binder<'a>,
    node: &'a ast::NodePattern,
    alone: bool,
    making: PatternClause,
    made: &mut MadePattern,
) -> Result<SlotId> {
    if node.predicate.is_some() {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            format!("a node to {} has no condition", making.keyword()),
            node.span,
        ));
    }
    if let Some(variable) = &node.variable {
        let mut casts = BoundPattern::default();
        let bound = binder.bound_entity(variable, StaticType::Node, &mut casts)?;
        made.casts.append(&mut casts.casts);
        if let Some(slot) = bound {
            if alone || node.labels.is_some() || node.properties.is_some() {
                return Err(already_bound(&variable.name, variable.span)
                    .with_hint("a bound node can only be the end of a relationship, without labels and properties"));
            }
            return Ok(slot);
        }
    }
    let (labels, dynamic_labels) = match &node.labels {
        Some(labels) => made_labels(binder, labels, making)?,
        None => Default::default(),
    };
    let properties = bind_made_properties(binder, node.properties.as_ref(), making)?;
    let slot = match &node.variable {
        Some(variable) => binder.declare_new(variable, StaticType::Node)?,
        None => binder.arena.slot("", StaticType::Node),
    };
    made.create.items.push(CreateItem::Node(CreateNode {
        node: slot,
        labels,
        dynamic_labels,
        properties,
    }));
    Ok(slot)
}

fn made_labels<'a>(
    binder: &mut Binder<'a>,
    labels: &'a ast::LabelExpr,
    making: PatternClause,
) -> Result<(Vec<LabelRef>, Vec<BoundExpr>)> {
    let Some(bound) = binder.bind_labels(labels)? else {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            format!(
                "a node to {} has plain labels: no `|`, `!` or `%`",
                making.keyword()
            ),
            labels.span,
        ));
    };
    Ok(bound)
}

fn bind_made_properties<'a>(
    binder: &mut Binder<'a>,
    properties: Option<&'a ast::Expr>,
    making: PatternClause,
) -> Result<Properties> {
    let Some(properties) = properties else {
        return Ok(Properties::Entries(Vec::new()));
    };
    match &properties.kind {
        ExprKind::Map(entries) => {
            let mut bound = Vec::with_capacity(entries.len());
            for entry in entries {
                let value = binder.bind_expr(&entry.value)?.expr;
                bound.push((binder.arena.property(&entry.key.name), value));
            }
            Ok(Properties::Entries(bound))
        }
        _ if making == PatternClause::Merge => Err(parameter_map(properties.span)),
        _ => Ok(Properties::Map(binder.bind_expr(properties)?.expr)),
    }
}

fn bind_made_relationship<'a>(
    binder: &mut Binder<'a>,
    relationship: &'a ast::RelationshipPattern,
    (from, to): (SlotId, SlotId),
    making: PatternClause,
    made: &mut MadePattern,
) -> Result<SlotId> {
    if relationship.predicate.is_some() {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            format!("a relationship to {} has no condition", making.keyword()),
            relationship.span,
        ));
    }
    if let Some(variable) = &relationship.variable {
        binder.must_be_new(variable)?;
    }
    let rel_type = match relationship.types.as_ref().map(|types| &types.kind) {
        Some(LabelExprKind::Name(name)) => CreatedType::Fixed(binder.rel_type(name)),
        Some(LabelExprKind::Dynamic { names, any: false }) => {
            CreatedType::Dynamic(binder.bind_expr(names)?.expr)
        }
        _ => {
            return Err(PlanError::syntax(
                "NoSingleRelationshipType",
                format!(
                    "a relationship to {} has exactly one type",
                    making.keyword()
                ),
                relationship.span,
            )
            .with_hint("write -[:TYPE]->"));
        }
    };
    let direction = relationship.direction;
    if direction == Direction::Both && making == PatternClause::Create {
        return Err(PlanError::syntax(
            "RequiresDirectedRelationship",
            "a relationship to CREATE has a direction",
            relationship.span,
        )
        .with_hint("write --> or <--"));
    }
    let properties = bind_made_properties(binder, relationship.properties.as_ref(), making)?;
    let slot = match &relationship.variable {
        Some(variable) => binder.declare_new(variable, StaticType::Relationship)?,
        None => binder.arena.slot("", StaticType::Relationship),
    };
    let (source, target) = if direction == Direction::Incoming {
        (to, from)
    } else {
        (from, to)
    };
    if direction == Direction::Both {
        made.undirected.push(slot);
    }
    made.create
        .items
        .push(CreateItem::Relationship(CreateRelationship {
            relationship: slot,
            rel_type,
            source,
            target,
            properties,
        }));
    Ok(slot)
}

fn require(graph: &mut QueryGraph, entity: BoundExpr, properties: &Properties) {
    if let Properties::Entries(entries) = properties {
        let equalities = entries.iter().map(|(name, value)| {
            BoundExpr::equal(BoundExpr::property(entity.clone(), *name), value.clone())
        });
        graph.predicates.extend(equalities);
    }
}
