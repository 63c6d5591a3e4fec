//! Quantified path patterns, and paths with a selector: the construction of a [`Walk`].
//!
//! The variables of a group are single elements inside it and lists outside. A path with a selector is one search
//! between its ends, which binds everything between them.

use std::sync::Arc;

use isomer_cypher::ast::{self, PathSelector, PatternLink};
use rustc_hash::FxHashMap;

use super::pattern::{BoundPattern, NewNames, conflict};
use super::{Binder, Result, already_bound};
use crate::error::PlanError;
use crate::expr::{BoundExpr, LocalId, SlotId, StaticType, TypeRef};
use crate::logical::{Length, PatternRelationship, QueryGraph, Selected, conjuncts};
use crate::physical::Direction;
use crate::walk::{Junction, Selector, Walk, WalkCheck, WalkElement, WalkLink, WalkStep};

/// A group whose conditions are not bound yet.
pub(super) struct Group<'a> {
    /// Its names, their bindings inside, and their kinds there.
    names: Vec<(Arc<str>, LocalId, StaticType)>,
    /// Nodes and relationships as written, by their element.
    nodes: Vec<(usize, &'a ast::NodePattern)>,
    relationships: Vec<(usize, &'a ast::RelationshipPattern)>,
    predicate: Option<&'a ast::Expr>,
    link: WalkLink,
}

/// A path with a selector whose conditions are not bound yet.
pub(super) struct SelectedPath<'a> {
    path: &'a ast::PathPattern,
    /// Its index among the relationships of the graph.
    index: usize,
    links: Vec<SelectedLink<'a>>,
    /// Nodes between the links.
    junctions: Vec<(&'a ast::NodePattern, WalkElement)>,
    /// Conditions on variables that are bound elsewhere.
    predicates: Vec<BoundExpr>,
}

/// A link of a path with a selector.
enum SelectedLink<'a> {
    Group(Box<Group<'a>>),
    Step(&'a ast::RelationshipPattern, Box<WalkLink>),
}

/// Which paths a selector keeps, if it needs the walk search.
pub(super) fn selector_of(selector: PathSelector) -> Option<Selector> {
    match selector {
        PathSelector::Any(count) | PathSelector::Shortest(count) => Some(Selector::Paths(count)),
        PathSelector::ShortestGroups(count) => Some(Selector::Groups(count)),
        PathSelector::AllShortest => Some(Selector::Groups(1)),
        PathSelector::ShortestPathFunction | PathSelector::AllShortestPathsFunction => None,
    }
}

impl<'a> Binder<'a> {
    /// Declares the variables of a quantified path.
    pub(super) fn declare_group(
        &mut self,
        quantified: &'a ast::QuantifiedPath,
        new_names: NewNames,
    ) -> Result<Group<'a>> {
        let path = &quantified.path;
        let mut group = Group {
            names: Vec::new(),
            nodes: Vec::new(),
            relationships: Vec::new(),
            predicate: path.predicate.as_ref(),
            link: WalkLink {
                repeat: Some((quantified.length.min, quantified.length.max)),
                start: WalkElement {
                    local: LocalId(0),
                    slot: None,
                },
                steps: Vec::with_capacity(path.steps.len()),
                checks: Vec::new(),
            },
        };
        if path.steps.is_empty() {
            return Err(PlanError::syntax(
                "UnexpectedSyntax",
                "a quantified path has at least one relationship",
                quantified.span,
            ));
        }
        if path.selector.is_some() {
            return Err(PlanError::syntax(
                "UnexpectedSyntax",
                "a path inside a quantified one has no selector",
                path.span,
            )
            .with_hint("put the selector in front of the whole path"));
        }
        group.link.start = group_node(self, &mut group, 0, &path.start, new_names)?;
        for (at, step) in path.steps.iter().enumerate() {
            let PatternLink::Relationship(relationship) = &step.link else {
                return Err(nested_quantifier(path));
            };
            if relationship.length.is_some() {
                return Err(nested_quantifier(path));
            }
            let element =
                group_relationship(self, &mut group, 2 * at + 1, relationship, new_names)?;
            let node = group_node(self, &mut group, 2 * at + 2, &step.node, new_names)?;
            group.link.steps.push(WalkStep {
                direction: relationship.direction,
                types: step_types(self, relationship),
                relationship: element,
                node,
            });
        }
        Ok(group)
    }

    /// Binds the conditions of a group, checked in each repetition.
    pub(super) fn bind_group(&mut self, mut group: Group<'a>) -> Result<WalkLink> {
        let names = std::mem::take(&mut group.names);
        let hidden = self.frame().locals.len();
        self.frame().locals.extend(names);
        let bound = group_terms(self, &group);
        self.frame().locals.truncate(hidden);
        for (known, term) in bound? {
            let mut terms = Vec::new();
            conjuncts(term, &mut terms);
            for condition in terms {
                let (first, last) = known.map_or_else(
                    || elements_read(&group.link, &condition),
                    |at| {
                        let (first, last) = elements_read(&group.link, &condition);
                        (first.min(at), last.max(at))
                    },
                );
                group.link.checks.push(WalkCheck {
                    first,
                    last,
                    condition,
                });
            }
        }
        Ok(group.link)
    }

    /// Declares the variable of a relationship of several steps as that of a group of one step.
    pub(super) fn declare_repeated(
        &mut self,
        relationship: &'a ast::RelationshipPattern,
        new_names: NewNames,
    ) -> Result<Group<'a>> {
        let link = selected_step(self, relationship, new_names)?;
        let local = link.steps[0].relationship.local;
        let name = relationship.variable.as_ref();
        let name = name.map(|name| (name.name.clone(), local, StaticType::Relationship));
        Ok(Group {
            names: name.into_iter().collect(),
            nodes: Vec::new(),
            relationships: vec![(1, relationship)],
            predicate: None,
            link,
        })
    }

    /// A quantified path between two nodes, as a relationship of the graph. With `repeats`, relationships may repeat.
    pub(super) fn push_group(
        &mut self,
        group: &Group<'a>,
        (from, to): (SlotId, SlotId),
        repeats: bool,
        graph: &mut QueryGraph,
    ) -> usize {
        let walk = Walk {
            links: vec![group.link.clone()],
            junctions: Vec::new(),
            repeats,
        };
        let types = walk.types();
        push_walk(
            self,
            (from, to),
            types,
            Length::Repeat(Box::new(walk)),
            graph,
        )
    }

    /// Declares a path with a selector: its ends as nodes of the graph, everything between them as bindings of its
    /// search.
    pub(super) fn declare_selected(
        &mut self,
        path: &'a ast::PathPattern,
        selector: Selector,
        new_names: NewNames,
        pattern: &mut BoundPattern,
        nodes: &mut Vec<(&'a ast::NodePattern, SlotId)>,
    ) -> Result<SelectedPath<'a>> {
        let from = self.declare_node(&path.start, new_names, pattern)?;
        nodes.push((&path.start, from));
        let mut links = Vec::with_capacity(path.steps.len());
        let mut junctions = Vec::new();
        let mut predicates = Vec::new();
        let mut to = from;
        for (at, step) in path.steps.iter().enumerate() {
            links.push(match &step.link {
                PatternLink::Quantified(quantified) => {
                    SelectedLink::Group(Box::new(self.declare_group(quantified, new_names)?))
                }
                PatternLink::Relationship(relationship) => {
                    let link = selected_step(self, relationship, new_names)?;
                    SelectedLink::Step(relationship, Box::new(link))
                }
            });
            if at + 1 == path.steps.len() {
                to = self.declare_node(&step.node, new_names, pattern)?;
                nodes.push((&step.node, to));
            } else {
                let element = junction(self, &step.node, new_names, &mut predicates)?;
                junctions.push((&step.node, element));
            }
        }
        let slot = match &path.variable {
            Some(variable) => Some(self.declare_new(variable, StaticType::Path)?),
            None => None,
        };
        let selected = Selected {
            walk: Walk {
                links: Vec::new(),
                junctions: Vec::new(),
                repeats: false,
            },
            selector,
            path: slot,
            predicate: None,
        };
        let length = Length::Selected(Box::new(selected));
        let index = push_walk(self, (from, to), Vec::new(), length, &mut pattern.graph);
        Ok(SelectedPath {
            path,
            index,
            links,
            junctions,
            predicates,
        })
    }

    /// Binds the conditions of a path with a selector, and adds its walk to the graph.
    pub(super) fn bind_selected(
        &mut self,
        selected: SelectedPath<'a>,
        graph: &mut QueryGraph,
    ) -> Result<()> {
        let mut terms = selected.predicates;
        // Single elements, and where a condition that reads only one of them is checked.
        let mut places: FxHashMap<SlotId, (LocalId, Option<usize>, usize)> = FxHashMap::default();
        let mut links = Vec::with_capacity(selected.links.len());
        for (at, link) in selected.links.into_iter().enumerate() {
            links.push(match link {
                SelectedLink::Group(group) => self.bind_group(*group)?,
                SelectedLink::Step(pattern, mut link) => {
                    let element = link.steps[0].relationship;
                    if pattern.length.is_some() {
                        bind_walk_step(self, pattern, element.local, &mut link)?;
                    } else if let Some(slot) = element.slot {
                        places.insert(slot, (element.local, Some(at), 1));
                        self.relationship_conditions(pattern, &BoundExpr::Slot(slot), &mut terms)?;
                    }
                    *link
                }
            });
        }
        let mut junctions = Vec::with_capacity(selected.junctions.len());
        for (at, (node, element)) in selected.junctions.into_iter().enumerate() {
            if let Some(slot) = element.slot {
                places.insert(slot, (element.local, None, at));
                self.node_conditions(node, &BoundExpr::Slot(slot), &mut terms)?;
            }
            junctions.push(Junction {
                local: element.local,
                slot: element.slot,
                checks: Vec::new(),
            });
        }
        if let Some(predicate) = &selected.path.predicate {
            terms.push(self.bind_condition(predicate)?);
        }
        let mut walk = Walk {
            links,
            junctions,
            repeats: false,
        };
        let mut all = Vec::new();
        terms.into_iter().for_each(|term| conjuncts(term, &mut all));
        let bound: Vec<SlotId> = walk.slots().collect();
        let mut later = Vec::new();
        for mut term in all {
            let mut read = Vec::new();
            term.for_each_slot(&mut |slot| {
                if bound.contains(&slot) && !read.contains(&slot) {
                    read.push(slot);
                }
            });
            let place = match read.as_slice() {
                [slot] => places.get(slot).map(|place| (*slot, *place)),
                _ => None,
            };
            let Some((slot, (local, link, at))) = place else {
                later.push(term);
                continue;
            };
            term.slot_to_local(slot, local);
            match link {
                Some(link) => walk.links[link].checks.push(WalkCheck {
                    first: at,
                    last: at,
                    condition: term,
                }),
                None => walk.junctions[at].checks.push(term),
            }
        }
        let relationship = &mut graph.relationships[selected.index];
        relationship.types = walk.types();
        if let Length::Selected(length) = &mut relationship.length {
            length.walk = walk;
            length.predicate = (!later.is_empty()).then(|| BoundExpr::all_of(later));
        }
        Ok(())
    }
}

fn group_node<'a>(
    binder: &mut Binder<'a>,
    group: &mut Group<'a>,
    at: usize,
    node: &'a ast::NodePattern,
    new_names: NewNames,
) -> Result<WalkElement> {
    group.nodes.push((at, node));
    group_element(
        binder,
        group,
        at,
        node.variable.as_ref(),
        StaticType::Node,
        new_names,
    )
}

fn group_relationship<'a>(
    binder: &mut Binder<'a>,
    group: &mut Group<'a>,
    at: usize,
    relationship: &'a ast::RelationshipPattern,
    new_names: NewNames,
) -> Result<WalkElement> {
    group.relationships.push((at, relationship));
    let variable = relationship.variable.as_ref();
    group_element(
        binder,
        group,
        at,
        variable,
        StaticType::Relationship,
        new_names,
    )
}

fn group_element<'a>(
    binder: &mut Binder<'a>,
    group: &mut Group<'a>,
    at: usize,
    variable: Option<&ast::Ident>,
    kind: StaticType,
    new_names: NewNames,
) -> Result<WalkElement> {
    let local = binder.arena.local();
    let Some(variable) = variable else {
        return Ok(WalkElement { local, slot: None });
    };
    let known = group.names.iter().find(|(name, ..)| *name == variable.name);
    if let Some((_, other, known_kind)) = known {
        if *known_kind != kind {
            return Err(conflict(&variable.name, &kind, known_kind, variable.span));
        }
        if kind == StaticType::Relationship {
            return Err(PlanError::syntax(
                "RelationshipUniquenessViolation",
                format!(
                    "relationship `{}` occurs twice in one pattern",
                    variable.name
                ),
                variable.span,
            ));
        }
        // The same node at two positions of the group.
        group.link.checks.push(WalkCheck {
            first: 0,
            last: at,
            condition: BoundExpr::equal(BoundExpr::Local(*other), BoundExpr::Local(local)),
        });
        return Ok(WalkElement { local, slot: None });
    }
    if binder.lookup(&variable.name).is_some() {
        return Err(already_bound(&variable.name, variable.span)
            .with_hint("inside a quantified path names are new, and lists outside it"));
    }
    if new_names == NewNames::Refused {
        return Err(binder.undefined(&variable.name, variable.span));
    }
    group
        .names
        .push((variable.name.clone(), local, kind.clone()));
    let slot = binder.declare(&variable.name, StaticType::List(Box::new(kind)));
    Ok(WalkElement {
        local,
        slot: Some(slot),
    })
}

/// The types of a step, if they are a plain choice.
fn step_types<'a>(
    binder: &mut Binder<'a>,
    relationship: &'a ast::RelationshipPattern,
) -> Vec<TypeRef> {
    relationship
        .types
        .as_ref()
        .map_or(Vec::new(), |types| binder.plain_types(types))
}

/// The conditions of a group; those on one element with its number.
fn group_terms<'a>(
    binder: &mut Binder<'a>,
    group: &Group<'a>,
) -> Result<Vec<(Option<usize>, BoundExpr)>> {
    let locals: Vec<LocalId> = group.link.elements().map(|element| element.local).collect();
    let mut terms = Vec::new();
    for (at, node) in &group.nodes {
        let entity = BoundExpr::Local(locals[*at]);
        let mut found = Vec::new();
        binder.node_conditions(node, &entity, &mut found)?;
        terms.extend(found.into_iter().map(|term| (Some(*at), term)));
    }
    for (at, relationship) in &group.relationships {
        let entity = BoundExpr::Local(locals[*at]);
        let mut found = Vec::new();
        binder.relationship_conditions(relationship, &entity, &mut found)?;
        terms.extend(found.into_iter().map(|term| (Some(*at), term)));
    }
    if let Some(predicate) = group.predicate {
        terms.push((None, binder.bind_condition(predicate)?));
    }
    Ok(terms)
}

fn push_walk(
    binder: &mut Binder<'_>,
    (from, to): (SlotId, SlotId),
    types: Vec<TypeRef>,
    length: Length,
    graph: &mut QueryGraph,
) -> usize {
    let slot = binder
        .arena
        .slot("", StaticType::List(Box::new(StaticType::Relationship)));
    graph.relationships.push(PatternRelationship {
        slot,
        bound: false,
        from,
        to,
        direction: Direction::Outgoing,
        types,
        length,
        clause: binder.clause_count,
        step_predicate: None,
    });
    graph.relationships.len() - 1
}

/// A node between two links. If it is already bound, it must be that node.
fn junction<'a>(
    binder: &mut Binder<'a>,
    node: &'a ast::NodePattern,
    new_names: NewNames,
    predicates: &mut Vec<BoundExpr>,
) -> Result<WalkElement> {
    let local = binder.arena.local();
    let Some(variable) = &node.variable else {
        let slot = Some(binder.arena.slot("", StaticType::Node));
        return Ok(WalkElement { local, slot });
    };
    let slot = match binder.lookup(&variable.name) {
        Some(known) if matches!(known.kind, StaticType::Node | StaticType::Any) => {
            let slot = binder.arena.slot("", StaticType::Node);
            predicates.push(BoundExpr::equal(BoundExpr::Slot(slot), known.expr));
            slot
        }
        Some(known) => {
            return Err(conflict(
                &variable.name,
                &StaticType::Node,
                &known.kind,
                variable.span,
            ));
        }
        None if new_names == NewNames::Refused => {
            return Err(binder.undefined(&variable.name, variable.span));
        }
        None => binder.declare(&variable.name, StaticType::Node),
    };
    Ok(WalkElement {
        local,
        slot: Some(slot),
    })
}

/// A relationship pattern, of one relationship or of several.
fn selected_step<'a>(
    binder: &mut Binder<'a>,
    relationship: &'a ast::RelationshipPattern,
    new_names: NewNames,
) -> Result<WalkLink> {
    let kind = match relationship.length {
        None => StaticType::Relationship,
        Some(_) => StaticType::List(Box::new(StaticType::Relationship)),
    };
    let slot = match &relationship.variable {
        None => binder.arena.slot("", kind),
        Some(variable) if new_names == NewNames::Refused => {
            return Err(binder.undefined(&variable.name, variable.span));
        }
        Some(variable) => binder.declare_new(variable, kind)?,
    };
    let unbound = |local| WalkElement { local, slot: None };
    let start = unbound(binder.arena.local());
    let element = WalkElement {
        local: binder.arena.local(),
        slot: Some(slot),
    };
    let node = unbound(binder.arena.local());
    Ok(WalkLink {
        repeat: relationship.length.map(|length| (length.min, length.max)),
        start,
        steps: vec![WalkStep {
            direction: relationship.direction,
            types: step_types(binder, relationship),
            relationship: element,
            node,
        }],
        checks: Vec::new(),
    })
}

/// Binds the conditions of `-[r:T* {…} WHERE …]->`, which hold for each relationship.
fn bind_walk_step<'a>(
    binder: &mut Binder<'a>,
    pattern: &'a ast::RelationshipPattern,
    local: LocalId,
    link: &mut WalkLink,
) -> Result<()> {
    let name: Arc<str> = pattern
        .variable
        .as_ref()
        .map_or_else(|| "".into(), |variable| variable.name.clone());
    binder
        .frame()
        .locals
        .push((name, local, StaticType::Relationship));
    let mut terms = Vec::new();
    let bound = binder.relationship_conditions(pattern, &BoundExpr::Local(local), &mut terms);
    binder.frame().locals.pop();
    bound?;
    link.checks
        .extend(terms.into_iter().map(|condition| WalkCheck {
            first: 1,
            last: 1,
            condition,
        }));
    Ok(())
}

fn nested_quantifier(path: &ast::PathPattern) -> PlanError {
    PlanError::unsupported("a quantifier inside a quantified path", path.span)
        .with_hint("repeat the inner part by writing it out, or take it out of the parentheses")
}

/// The first and the last element of a link that a condition reads; the start if it reads none.
fn elements_read(link: &WalkLink, condition: &BoundExpr) -> (usize, usize) {
    let locals: Vec<LocalId> = link.elements().map(|element| element.local).collect();
    let mut read: Option<(usize, usize)> = None;
    condition.for_each_local(&mut |local| {
        if let Some(at) = locals.iter().position(|one| *one == local) {
            read = Some(match read {
                None => (at, at),
                Some((first, last)) => (first.min(at), last.max(at)),
            });
        }
    });
    read.unwrap_or((0, 0))
}
