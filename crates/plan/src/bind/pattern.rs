//! `MATCH` patterns become a query graph.
//!
//! Variables are declared in a first pass over all paths and conditions are bound in a second, so that a property map
//! may refer to any variable of its clause.

use std::sync::Arc;

use isomer_cypher::Span;
use isomer_cypher::ast::{
    self, ExprKind, LabelExprKind, MatchMode, PathMode, PathSelector, PatternLink,
};

use super::scope::Variable;
use super::walk::{Group, SelectedPath, selector_of};
use super::{Binder, Result};
use crate::error::PlanError;
use crate::expr::{BoundExpr, LocalId, PathSegment, QuantifierKind, SlotId, StaticType, TypeRef};
use crate::function::Function;
use crate::logical::{Length, PatternRelationship, QueryGraph, conjuncts};

/// Whether a pattern may bind variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewNames {
    /// As in `MATCH`.
    Allowed,
    /// As in a pattern predicate, which only tests.
    Refused,
}

/// The state of binding a clause's pattern.
#[derive(Default)]
pub(super) struct BoundPattern {
    pub graph: QueryGraph,
    /// Variables of unknown kind that the pattern uses as nodes or relationships: they are projected before it.
    pub casts: Vec<(SlotId, BoundExpr)>,
    pub mode: MatchMode,
}

/// Data of a relationship for the second pass.
struct Declared<'a> {
    pattern: &'a ast::RelationshipPattern,
    /// Its index in the graph.
    index: usize,
}

/// Work of the second pass.
#[derive(Default)]
struct Unfinished<'a> {
    nodes: Vec<(&'a ast::NodePattern, SlotId)>,
    relationships: Vec<Declared<'a>>,
    /// With their index in the graph.
    groups: Vec<(usize, Group<'a>)>,
    selected: Vec<SelectedPath<'a>>,
}

impl<'a> Binder<'a> {
    /// Binds the paths and the condition of one `MATCH`.
    pub(super) fn bind_pattern(
        &mut self,
        paths: impl Iterator<Item = &'a ast::PathPattern> + Clone,
        predicate: Option<&'a ast::Expr>,
        new_names: NewNames,
    ) -> Result<BoundPattern> {
        let mode = MatchMode::DifferentRelationships;
        self.bind_pattern_in(mode, paths, predicate, new_names)
    }

    /// Like [`Binder::bind_pattern`], with a match mode.
    pub(super) fn bind_pattern_in(
        &mut self,
        mode: MatchMode,
        paths: impl Iterator<Item = &'a ast::PathPattern> + Clone,
        predicate: Option<&'a ast::Expr>,
        new_names: NewNames,
    ) -> Result<BoundPattern> {
        self.clause_count += 1;
        let mut pattern = BoundPattern {
            graph: QueryGraph::default(),
            casts: Vec::new(),
            mode,
        };
        let mut unfinished = Unfinished::default();
        // First pass: all variables of the clause. A property map or an inline condition may refer
        // to a variable of a later path.
        for path in paths.clone() {
            declare_path(self, path, new_names, &mut pattern, &mut unfinished)?;
        }
        for (node, slot) in unfinished.nodes {
            self.node_conditions(node, &BoundExpr::Slot(slot), &mut pattern.graph.predicates)?;
        }
        for declared in &unfinished.relationships {
            bind_relationship_conditions(self, declared, &mut pattern.graph)?;
        }
        for (index, group) in unfinished.groups {
            let link = self.bind_group(group)?;
            if let Length::Repeat(walk) = &mut pattern.graph.relationships[index].length {
                walk.links = vec![link];
            }
        }
        for selected in unfinished.selected {
            self.bind_selected(selected, &mut pattern.graph)?;
        }
        for path in paths {
            if let Some(condition) = &path.predicate
                && !is_selected(path)
            {
                let bound = self.bind_condition(condition)?;
                conjuncts(bound, &mut pattern.graph.predicates);
            }
        }
        if let Some(condition) = predicate {
            let bound = self.bind_condition(condition)?;
            conjuncts(bound, &mut pattern.graph.predicates);
        }
        // At the end, when all conditions are known: the condition of the
        // clause may concern a walk as well.
        push_into_walks(&mut pattern.graph);
        Ok(pattern)
    }

    pub(super) fn declare_node(
        &mut self,
        node: &'a ast::NodePattern,
        new_names: NewNames,
        pattern: &mut BoundPattern,
    ) -> Result<SlotId> {
        let Some(variable) = &node.variable else {
            let slot = self.arena.slot("", StaticType::Node);
            pattern.graph.nodes.push(slot);
            return Ok(slot);
        };
        if let Some(bound) = self.bound_entity(variable, StaticType::Node, pattern)? {
            return Ok(bound);
        }
        if new_names == NewNames::Refused {
            return Err(self.undefined(&variable.name, variable.span));
        }
        let slot = self.declare(&variable.name, StaticType::Node);
        pattern.graph.nodes.push(slot);
        Ok(slot)
    }

    /// The slot of a variable that is already bound, checked to hold an entity of this kind.
    pub(super) fn bound_entity(
        &mut self,
        variable: &ast::Ident,
        kind: StaticType,
        pattern: &mut BoundPattern,
    ) -> Result<Option<SlotId>> {
        let Some(known) = self.lookup(&variable.name) else {
            return Ok(None);
        };
        if known.kind != kind && known.kind != StaticType::Any {
            return Err(conflict(&variable.name, &kind, &known.kind, variable.span));
        }
        match known.expr {
            BoundExpr::Slot(slot) if known.kind == kind => Ok(Some(slot)),
            expr => {
                // The slot of the unknown value stays as it is, for the clauses before. From here on the name
                // is the slot of the cast value, so that expands can rely on its kind.
                let slot = self.arena.slot(variable.name.clone(), kind.clone());
                pattern.casts.push((
                    slot,
                    BoundExpr::Cast {
                        operand: Box::new(expr),
                        kind: kind.clone(),
                    },
                ));
                rebind(self, &variable.name, Variable { slot, kind });
                Ok(Some(slot))
            }
        }
    }

    /// The types, if they are a plain choice of names; otherwise none, and the condition is bound in the second pass.
    pub(super) fn plain_types(&mut self, types: &ast::LabelExpr) -> Vec<TypeRef> {
        let names = types.as_disjunction().unwrap_or_default();
        let mut found: Vec<TypeRef> = names.into_iter().map(|name| self.rel_type(name)).collect();
        found.dedup();
        found
    }

    /// The conditions of a node pattern on `entity`.
    pub(super) fn node_conditions(
        &mut self,
        node: &'a ast::NodePattern,
        entity: &BoundExpr,
        predicates: &mut Vec<BoundExpr>,
    ) -> Result<()> {
        if let Some(labels) = &node.labels {
            notice_unknown_labels(self, labels);
            match labels.as_conjunction() {
                Some(names) => {
                    for name in names {
                        let labels = vec![self.label(name)];
                        predicates.push(BoundExpr::HasLabels {
                            entity: Box::new(entity.clone()),
                            labels,
                        });
                    }
                }
                None => {
                    let predicate = self.label_predicate(entity, labels)?;
                    conjuncts(predicate, predicates);
                }
            }
        }
        bind_property_map(self, node.properties.as_ref(), entity, predicates)?;
        if let Some(condition) = &node.predicate {
            let bound = self.bind_condition(condition)?;
            conjuncts(bound, predicates);
        }
        Ok(())
    }

    /// The conditions of a relationship pattern on `entity`, except plain types.
    pub(super) fn relationship_conditions(
        &mut self,
        pattern: &'a ast::RelationshipPattern,
        entity: &BoundExpr,
        predicates: &mut Vec<BoundExpr>,
    ) -> Result<()> {
        if let Some(types) = &pattern.types {
            notice_unknown_types(self, types);
        }
        if let Some(types) = &pattern.types
            && types.as_disjunction().is_none()
            && !matches!(types.kind, LabelExprKind::Any)
        {
            let predicate = self.type_predicate(entity, types)?;
            predicates.push(predicate);
        }
        bind_property_map(self, pattern.properties.as_ref(), entity, predicates)?;
        if let Some(condition) = &pattern.predicate {
            let bound = self.bind_condition(condition)?;
            conjuncts(bound, predicates);
        }
        Ok(())
    }
}

fn declare_path<'a>(
    binder: &mut Binder<'a>,
    path: &'a ast::PathPattern,
    new_names: NewNames,
    pattern: &mut BoundPattern,
    unfinished: &mut Unfinished<'a>,
) -> Result<()> {
    if let Some(selector) = path.selector.and_then(selector_of)
        && is_selected(path)
    {
        let selected =
            binder.declare_selected(path, selector, new_names, pattern, &mut unfinished.nodes)?;
        unfinished.selected.push(selected);
        return Ok(());
    }
    // Relationships with the same number of their clause differ: with `REPEATABLE ELEMENTS`, those of one trail do.
    let repeats = pattern.mode == MatchMode::RepeatableElements;
    let is_walk = repeats && matches!(path.mode, None | Some(PathMode::Walk));
    if repeats {
        check_repeatable(path, is_walk)?;
        binder.clause_count += 1;
    }
    let shortest = shortest_selector(path)?;
    let takes_conditions = path
        .selector
        .is_some_and(|selector| selector_of(selector).is_none());
    let known_nodes = pattern.graph.nodes.len();
    let start = binder.declare_node(&path.start, new_names, pattern)?;
    unfinished.nodes.push((&path.start, start));
    if path.steps.is_empty() && pattern.graph.nodes.len() == known_nodes {
        // A bound node without relationships in the pattern must still be checked: it may be null.
        let is_null = BoundExpr::IsNull(Box::new(BoundExpr::Slot(start)));
        pattern
            .graph
            .predicates
            .push(BoundExpr::Not(Box::new(is_null)));
    }
    let mut from = start;
    let mut steps = Vec::with_capacity(path.steps.len());
    for step in &path.steps {
        let to = declare_step(
            binder,
            step,
            (from, is_walk),
            new_names,
            pattern,
            unfinished,
        )?;
        let last = pattern.graph.relationships.last();
        steps.push(PathSegment {
            relationship: last.expect("the step's relationship").slot,
            node: to,
        });
        from = to;
    }
    let mode = path.mode.and_then(mode_function);
    if let Some(mode) = mode
        && path.variable.is_none()
    {
        // The mode is a condition on the path as a whole.
        let slot = binder.arena.slot("", StaticType::Path);
        let steps = steps.clone();
        pattern
            .graph
            .paths
            .push((slot, BoundExpr::BuildPath { start, steps }));
        pattern.graph.predicates.push(mode_condition(mode, slot));
    }
    if let Some(variable) = &path.variable {
        binder.must_be_new(variable)?;
        let slot = binder.declare(&variable.name, StaticType::Path);
        if let Some(mode) = mode {
            pattern.graph.predicates.push(mode_condition(mode, slot));
        }
        if shortest.is_none() {
            pattern
                .graph
                .paths
                .push((slot, BoundExpr::BuildPath { start, steps }));
        } else if let Some(last) = unfinished.relationships.last() {
            let relationship = &mut pattern.graph.relationships[last.index];
            let (min, max) = length_bounds(&relationship.length);
            let all = shortest == Some(true);
            relationship.length = Length::Shortest {
                min,
                max,
                all,
                path: Some(slot),
                predicate: None,
                takes_conditions,
            };
        }
    } else if let (Some(all), Some(last)) = (shortest, unfinished.relationships.last()) {
        let relationship = &mut pattern.graph.relationships[last.index];
        let (min, max) = length_bounds(&relationship.length);
        relationship.length = Length::Shortest {
            min,
            max,
            all,
            path: None,
            predicate: None,
            takes_conditions,
        };
    }
    Ok(())
}

/// Declares a step of a path: the node that it leads to, and its link, which becomes the last relationship of the
/// graph. `is_walk`: whether relationships may repeat.
fn declare_step<'a>(
    binder: &mut Binder<'a>,
    step: &'a ast::PathStep,
    (from, is_walk): (SlotId, bool),
    new_names: NewNames,
    pattern: &mut BoundPattern,
    unfinished: &mut Unfinished<'a>,
) -> Result<SlotId> {
    let to = binder.declare_node(&step.node, new_names, pattern)?;
    unfinished.nodes.push((&step.node, to));
    if is_walk {
        binder.clause_count += 1;
    }
    let group = match &step.link {
        PatternLink::Relationship(relationship) if is_walk && relationship.length.is_some() => {
            binder.declare_repeated(relationship, new_names)?
        }
        PatternLink::Relationship(relationship) => {
            let ends = (from, to);
            let index = declare_relationship(binder, relationship, ends, new_names, pattern)?;
            unfinished.relationships.push(Declared {
                pattern: relationship,
                index,
            });
            return Ok(to);
        }
        PatternLink::Quantified(quantified) => binder.declare_group(quantified, new_names)?,
    };
    let index = binder.push_group(&group, (from, to), is_walk, &mut pattern.graph);
    unfinished.groups.push((index, group));
    Ok(to)
}

/// With `REPEATABLE ELEMENTS`, a walk without an upper bound never ends in a graph with a cycle.
fn check_repeatable(path: &ast::PathPattern, is_walk: bool) -> Result<()> {
    if path.selector.is_some() {
        return Err(PlanError::unsupported(
            "a path selector together with REPEATABLE ELEMENTS",
            path.span,
        )
        .with_hint("shortest paths repeat no relationship: leave out REPEATABLE ELEMENTS"));
    }
    let unbounded = path.steps.iter().find_map(|step| {
        let length = match &step.link {
            PatternLink::Relationship(relationship) => relationship.length,
            PatternLink::Quantified(quantified) => Some(quantified.length),
        };
        length.filter(|length| length.max.is_none())
    });
    match unbounded.filter(|_| is_walk) {
        Some(length) => Err(PlanError::syntax(
            "InvalidRelationshipPattern",
            "the pattern may have infinitely many matches with REPEATABLE ELEMENTS",
            length.span,
        )
        .with_hint(
            "give the quantifier an upper bound, such as `{1,5}`, or the path the mode TRAIL",
        )),
        None => Ok(()),
    }
}

/// The test of a path mode, if relationships that differ are not enough.
fn mode_function(mode: PathMode) -> Option<Function> {
    match mode {
        PathMode::Walk | PathMode::Trail => None,
        PathMode::Acyclic => Some(Function::IsAcyclic),
        PathMode::Simple => Some(Function::IsSimple),
    }
}

/// Whether the path in `slot` is one of a mode.
fn mode_condition(function: Function, slot: SlotId) -> BoundExpr {
    BoundExpr::Call {
        function,
        arguments: vec![BoundExpr::Slot(slot)],
    }
}

/// Whether only shortest paths are wanted by a single relationship pattern: any one (false) or all (true).
fn shortest_selector(path: &ast::PathPattern) -> Result<Option<bool>> {
    let all = match path.selector {
        None => return Ok(None),
        Some(PathSelector::ShortestPathFunction | PathSelector::Shortest(1)) => false,
        Some(
            PathSelector::AllShortestPathsFunction
            | PathSelector::AllShortest
            | PathSelector::ShortestGroups(1),
        ) => true,
        Some(PathSelector::Any(1)) => false,
        Some(_) => return Ok(None), // a single node has one path
    };
    if path.steps.is_empty() {
        return Ok(None);
    }
    let [step] = path.steps.as_slice() else {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            "a shortest path has exactly one relationship pattern between two nodes",
            path.span,
        ));
    };
    if let PatternLink::Relationship(relationship) = &step.link
        && let Some(length) = relationship.length
        && length.min > 1
    {
        return Err(PlanError::syntax(
            "UnexpectedSyntax",
            format!(
                "a shortest path starts at length 0 or 1, not {}",
                length.min
            ),
            length.span,
        ));
    }
    Ok(Some(all))
}

/// Maps a name to another slot, in all scopes of this query.
fn rebind(binder: &mut Binder<'_>, name: &Arc<str>, variable: Variable) {
    let frame = binder.frame();
    if frame.scope.get(name).is_some() {
        frame.scope.set(name.clone(), variable);
    } else {
        frame.imports.set(name.clone(), variable);
    }
}

fn declare_relationship<'a>(
    binder: &mut Binder<'a>,
    relationship: &'a ast::RelationshipPattern,
    (from, to): (SlotId, SlotId),
    new_names: NewNames,
    pattern: &mut BoundPattern,
) -> Result<usize> {
    let length = match relationship.length {
        None => Length::One,
        Some(length) => Length::Walk {
            min: length.min,
            max: length.max,
        },
    };
    let (slot, bound) = relationship_slot(binder, relationship, new_names, pattern)?;
    let types = match &relationship.types {
        Some(types) => binder.plain_types(types),
        None => Vec::new(),
    };
    pattern.graph.relationships.push(PatternRelationship {
        slot,
        bound,
        from,
        to,
        direction: relationship.direction,
        types,
        length,
        clause: binder.clause_count,
        step_predicate: None,
    });
    Ok(pattern.graph.relationships.len() - 1)
}

fn relationship_slot<'a>(
    binder: &mut Binder<'a>,
    relationship: &'a ast::RelationshipPattern,
    new_names: NewNames,
    pattern: &mut BoundPattern,
) -> Result<(SlotId, bool)> {
    let walk = relationship.length.is_some();
    let kind = if walk {
        StaticType::List(Box::new(StaticType::Relationship))
    } else {
        StaticType::Relationship
    };
    let Some(variable) = &relationship.variable else {
        return Ok((binder.arena.slot("", kind), false));
    };
    let Some(known) = binder.lookup(&variable.name) else {
        if new_names == NewNames::Refused {
            return Err(binder.undefined(&variable.name, variable.span));
        }
        return Ok((binder.declare(&variable.name, kind), false));
    };
    // A relationship bound by an earlier clause may be used again; the rule that each relationship
    // is used once applies within one clause.
    let in_clause = |slot: SlotId| {
        let mut relationships = pattern.graph.relationships.iter();
        relationships.any(|one| one.slot == slot)
    };
    if matches!(known.expr, BoundExpr::Slot(slot) if in_clause(slot)) {
        return Err(PlanError::syntax(
            "RelationshipUniquenessViolation",
            format!(
                "relationship `{}` occurs twice in one pattern",
                variable.name
            ),
            variable.span,
        )
        .with_hint("one MATCH uses no relationship twice: give the second one another name"));
    }
    if !walk {
        let slot = binder.bound_entity(variable, StaticType::Relationship, pattern)?;
        return Ok((slot.expect("the variable is known"), true));
    }
    if !matches!(known.kind, StaticType::Any | StaticType::List(_)) {
        return Err(conflict(&variable.name, &kind, &known.kind, variable.span));
    }
    // A list that was bound before: the walk must equal it.
    let slot = binder.arena.slot("", kind);
    pattern
        .graph
        .predicates
        .push(BoundExpr::equal(BoundExpr::Slot(slot), known.expr));
    Ok((slot, false))
}

fn notice_unknown_labels(binder: &mut Binder<'_>, labels: &ast::LabelExpr) {
    let Some(name) = labels.as_name() else { return };
    if binder.catalog.label(&name.name).is_none() {
        let hint = hint(&name.name, &binder.catalog.label_names());
        binder.notice(
            "UnknownLabel",
            format!("no node has the label `{}`{hint}", name.name),
            name.span,
        );
    }
}

fn notice_unknown_types(binder: &mut Binder<'_>, types: &ast::LabelExpr) {
    for name in types.as_disjunction().unwrap_or_default() {
        if binder.catalog.relationship_type(&name.name).is_none() {
            let hint = hint(&name.name, &binder.catalog.type_names());
            binder.notice(
                "UnknownType",
                format!("no relationship has the type `{}`{hint}", name.name),
                name.span,
            );
        }
    }
}

/// `{a: 1}` after an entity: each property must equal its value.
fn bind_property_map<'a>(
    binder: &mut Binder<'a>,
    properties: Option<&'a ast::Expr>,
    entity: &BoundExpr,
    predicates: &mut Vec<BoundExpr>,
) -> Result<()> {
    let Some(properties) = properties else {
        return Ok(());
    };
    let ExprKind::Map(entries) = &properties.kind else {
        return Err(parameter_map(properties.span));
    };
    for entry in entries {
        let value = binder.bind_expr(&entry.value)?.expr;
        let name = binder.arena.property(&entry.key.name);
        predicates.push(BoundExpr::equal(
            BoundExpr::property(entity.clone(), name),
            value,
        ));
    }
    Ok(())
}

fn bind_relationship_conditions<'a>(
    binder: &mut Binder<'a>,
    declared: &Declared<'a>,
    graph: &mut QueryGraph,
) -> Result<()> {
    let Declared { pattern, index } = declared;
    let slot = graph.relationships[*index].slot;
    if matches!(graph.relationships[*index].length, Length::One) {
        return binder.relationship_conditions(
            pattern,
            &BoundExpr::Slot(slot),
            &mut graph.predicates,
        );
    }
    let name: Arc<str> = pattern
        .variable
        .as_ref()
        .map_or_else(|| "".into(), |variable| variable.name.clone());
    let mut terms = Vec::new();
    let (local, ()) = binder.with_local(&name, StaticType::Relationship, |binder| {
        // The number that `with_local` has just given to the local of this body.
        let local = LocalId(binder.arena.local_count - 1);
        binder.relationship_conditions(pattern, &BoundExpr::Local(local), &mut terms)
    })?;
    if !terms.is_empty() {
        graph.relationships[*index].step_predicate = Some((local, BoundExpr::all_of(terms)));
    }
    Ok(())
}

/// Moves conditions on the steps of a walk, or on a shortest path, into the search.
fn push_into_walks(graph: &mut QueryGraph) {
    // A walk that fails its condition at an early step has exponentially many extensions, which a
    // filter after the enumeration would discard one by one. For the functions `shortestPath` and
    // `allShortestPaths` the result depends on it: they return the shortest paths for which the
    // conditions hold, not those of the shortest paths for which they hold. `SHORTEST k` and its
    // like are defined the other way round (`takes_conditions`).
    for relationship in &mut graph.relationships {
        let path = match (&relationship.length, graph.paths.as_slice()) {
            (Length::One | Length::Repeat(_) | Length::Selected(_), _) => continue,
            (
                Length::Shortest {
                    takes_conditions: false,
                    ..
                },
                _,
            ) => continue,
            (Length::Shortest { path, .. }, _) => *path,
            (Length::Walk { .. }, paths) => paths.iter().find_map(|(slot, built)| match built {
                BoundExpr::BuildPath { steps, .. }
                    if steps.len() == 1 && steps[0].relationship == relationship.slot =>
                {
                    Some(*slot)
                }
                _ => None,
            }),
        };
        let predicates = std::mem::take(&mut graph.predicates);
        for predicate in predicates {
            match step_condition(&predicate, relationship.slot, path) {
                Some((local, condition)) => add_step_condition(relationship, local, condition),
                None => graph.predicates.push(predicate),
            }
        }
        let slot = relationship.slot;
        // What cannot be tested step by step but reads the path is tested on each candidate path.
        if let Length::Shortest { predicate, .. } = &mut relationship.length {
            let (about, others) = std::mem::take(&mut graph.predicates).into_iter().partition(
                |predicate: &BoundExpr| {
                    let mut found = false;
                    predicate
                        .for_each_slot(&mut |read| found |= read == slot || Some(read) == path);
                    found
                },
            );
            graph.predicates = others;
            let about: Vec<BoundExpr> = about;
            if !about.is_empty() {
                *predicate = Some(BoundExpr::all_of(about));
            }
        }
    }
}

fn add_step_condition(
    relationship: &mut PatternRelationship,
    local: LocalId,
    condition: BoundExpr,
) {
    relationship.step_predicate = Some(match relationship.step_predicate.take() {
        None => (local, condition),
        Some((first, known)) => {
            let mut condition = condition;
            // Both conditions are evaluated with one local, that of the first.
            condition.rename_local(local, first);
            (first, BoundExpr::And(vec![known, condition]))
        }
    });
}

/// Whether a path has a selector that needs the general walk search: one of the shortest paths along a single
/// relationship pattern has a faster operator.
fn is_selected(path: &ast::PathPattern) -> bool {
    let Some(selector) = path.selector else {
        return false;
    };
    if path.steps.is_empty() || selector_of(selector).is_none() {
        return false;
    }
    let simple = matches!(
        selector,
        PathSelector::Any(1)
            | PathSelector::Shortest(1)
            | PathSelector::AllShortest
            | PathSelector::ShortestGroups(1)
    );
    let single = match path.steps.as_slice() {
        [step] => match &step.link {
            PatternLink::Relationship(one) => one.length.is_none_or(|length| length.min <= 1),
            PatternLink::Quantified(_) => false,
        },
        _ => false,
    };
    !(simple && single && path.predicate.is_none())
}

fn length_bounds(length: &Length) -> (u64, Option<u64>) {
    match length {
        Length::One => (1, Some(1)),
        Length::Walk { min, max } | Length::Shortest { min, max, .. } => (*min, *max),
        Length::Repeat(_) | Length::Selected(_) => (0, None),
    }
}

pub(super) fn conflict(
    name: &str,
    expected: &StaticType,
    found: &StaticType,
    span: Span,
) -> PlanError {
    PlanError::syntax(
        "VariableTypeConflict",
        format!(
            "variable `{name}` is {}, but is used as {} here",
            found.describe(),
            expected.describe()
        ),
        span,
    )
}

/// A parameter must not be the whole property map in a pattern to match.
pub(super) fn parameter_map(span: Span) -> PlanError {
    PlanError::syntax(
        "InvalidParameterUse",
        "a parameter cannot be the property map of a pattern to match",
        span,
    )
    .with_hint("write the properties out: {name: $map.name}")
}

/// The condition on single relationships that `all(r IN relationships(p) WHERE …)` and `none(…)` amount to, for the
/// walk in `slot` or its path.
fn step_condition(
    predicate: &BoundExpr,
    slot: SlotId,
    path: Option<SlotId>,
) -> Option<(LocalId, BoundExpr)> {
    let BoundExpr::Quantifier {
        kind,
        list,
        local,
        predicate,
    } = predicate
    else {
        return None;
    };
    let over_walk = match &**list {
        BoundExpr::Slot(read) => *read == slot,
        BoundExpr::Call {
            function: Function::Relationships,
            arguments,
        } => {
            matches!(arguments.as_slice(), [BoundExpr::Slot(read)] if Some(*read) == path)
        }
        _ => false,
    };
    // A condition that also reads the walk as a whole cannot be evaluated
    // before the walk is complete.
    let mut about_itself = false;
    predicate.for_each_slot(&mut |read| about_itself |= read == slot || Some(read) == path);
    if !over_walk || about_itself {
        return None;
    }
    // Only `all` and `none` hold for a walk exactly if their condition, or its negation, holds for
    // each step. `any` and `single` may become true with a later step.
    match kind {
        QuantifierKind::All => Some((*local, (**predicate).clone())),
        QuantifierKind::None => Some((*local, BoundExpr::Not(predicate.clone()))),
        _ => None,
    }
}

fn hint(name: &str, known: &[Arc<str>]) -> String {
    crate::error::nearest(name, known.iter().map(|known| &**known))
        .map(|near| format!(", did you mean `{near}`?"))
        .unwrap_or_default()
}
