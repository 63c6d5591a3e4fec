//! Pattern matching by enumeration of all matches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use isomer_cypher::ast::{
    Direction, Expr, Ident, LabelExpr, LabelExprKind, MatchMode, NodePattern, PathMode,
    PathPattern, PathSelector, PatternLink, QuantifiedPath, RelationshipPattern,
};

use super::{Interpreter, MAX_ROWS, Row, with};
use crate::fault::{Fault, Result, raised};
use crate::logic::equal;
use crate::notation::literal;
use crate::{Datum, NodeValue, PathValue};

/// A predicate inside a pattern, evaluated when all variables are bound: a map that the entity's properties
/// must equal, or an expression.
#[derive(Clone)]
struct Check<'q> {
    entity: Datum,
    /// Those with computed names, which may read any variable of the clause.
    labels: Option<&'q LabelExpr>,
    properties: Option<&'q Expr>,
    predicate: Option<&'q Expr>,
}

/// A partial match.
#[derive(Clone)]
struct Trail<'q> {
    row: Row,
    /// Nodes and relationships of the current path.
    nodes: Vec<u64>,
    relationships: Vec<u64>,
    /// All relationships of the clause so far: none is used twice.
    used: Vec<u64>,
    /// Whether relationships may repeat.
    repeats: bool,
    checks: Vec<Check<'q>>,
}

/// All rows that extend `row` by matches of all paths together.
pub(super) fn matches(
    world: &Interpreter<'_>,
    paths: &[&PathPattern],
    row: &Row,
) -> Result<Vec<Row>> {
    matches_in(world, MatchMode::DifferentRelationships, paths, row)
}

/// Like [`matches`], with a match mode.
pub(super) fn matches_in(
    world: &Interpreter<'_>,
    mode: MatchMode,
    paths: &[&PathPattern],
    row: &Row,
) -> Result<Vec<Row>> {
    let mut trails = vec![Trail {
        row: row.clone(),
        nodes: Vec::new(),
        relationships: Vec::new(),
        used: Vec::new(),
        repeats: false,
        checks: Vec::new(),
    }];
    for path in paths {
        let mut longer = Vec::new();
        for trail in &mut trails {
            if mode == MatchMode::RepeatableElements {
                trail.used.clear();
                trail.repeats = matches!(path.mode, None | Some(PathMode::Walk));
            }
            longer.extend(match_path(world, path, trail)?);
            if longer.len() > MAX_ROWS {
                return Err(Fault::TooLarge);
            }
        }
        trails = longer;
    }
    let mut rows = Vec::new();
    for trail in trails {
        if checked(world, &trail)? {
            rows.push(trail.row);
        }
    }
    Ok(rows)
}

/// `shortestPath(…)` and `allShortestPaths(…)` as values.
pub(super) fn shortest_path(
    world: &Interpreter<'_>,
    path: &PathPattern,
    row: &Row,
) -> Result<Datum> {
    let name: Arc<str> = "shortest path of the expression".into();
    let mut path = path.clone();
    path.variable = Some(Ident::new(name.clone(), path.span));
    let found = matches(world, &[&path], row)?;
    let mut paths = found.into_iter().filter_map(|mut row| row.remove(&name));
    Ok(match path.selector {
        Some(PathSelector::AllShortestPathsFunction) => paths.collect(),
        _ => paths.next().unwrap_or_default(),
    })
}

/// All matches of one path, with its variable bound and its selector applied.
fn match_path<'q>(
    world: &Interpreter<'_>,
    path: &'q PathPattern,
    before: &Trail<'q>,
) -> Result<Vec<Trail<'q>>> {
    let outer_checks = before.checks.len();
    let mut start = before.clone();
    // A selector applies to its path alone, before relationships are checked to differ from those of
    // other paths; `shortestPath(…)` is not even checked.
    if path.selector.is_some() {
        start.used.clear();
    }
    start.nodes.clear();
    start.relationships.clear();
    let mut trails = steps(world, path, start)?;
    if path.predicate.is_some() || path.selector.is_some() {
        let mut kept = Vec::new();
        for mut trail in trails {
            let own = trail.checks.split_off(outer_checks);
            let inner = Trail {
                checks: own,
                ..trail.clone()
            };
            let holds = match &path.predicate {
                Some(predicate) => world.holds(predicate, &trail.row)?,
                None => true,
            };
            if holds && checked(world, &inner)? {
                kept.push(trail);
            }
        }
        trails = kept;
    }
    if let Some(mode @ (PathMode::Acyclic | PathMode::Simple)) = path.mode {
        trails.retain(|trail| {
            let nodes = trail.nodes.as_slice();
            let closes = nodes.len() > 1 && nodes.first() == nodes.last();
            let checked = match mode {
                PathMode::Simple if closes => &nodes[1..],
                _ => nodes,
            };
            let distinct: BTreeSet<u64> = checked.iter().copied().collect();
            distinct.len() == checked.len()
        });
    }
    if let Some(selector) = path.selector {
        trails = select(world, selector, trails)?;
        let is_function = matches!(
            selector,
            PathSelector::ShortestPathFunction | PathSelector::AllShortestPathsFunction
        );
        if !is_function {
            trails.retain(|trail| {
                let is_free = |one: &u64| !before.used.contains(one);
                trail.relationships.iter().all(is_free)
            });
        }
        for trail in &mut trails {
            trail.used.clone_from(&before.used);
            if !is_function {
                trail.used.extend(&trail.relationships);
            }
        }
    }
    if let Some(variable) = &path.variable {
        for trail in &mut trails {
            let value = path_value(world, trail)?;
            trail.row.insert(variable.name.clone(), value);
        }
    }
    Ok(trails)
}

fn path_value(world: &Interpreter<'_>, trail: &Trail<'_>) -> Result<Datum> {
    Ok(Datum::Path(Arc::new(PathValue {
        nodes: trail
            .nodes
            .iter()
            .map(|id| NodeValue {
                id: *id,
                content: None,
            })
            .collect(),
        relationships: trail
            .relationships
            .iter()
            .map(|id| world.relationship(*id))
            .collect::<Result<_>>()?,
    })))
}

/// The nodes and links of a path, from its first node on.
fn steps<'q>(
    world: &Interpreter<'_>,
    path: &'q PathPattern,
    start: Trail<'q>,
) -> Result<Vec<Trail<'q>>> {
    let all: Vec<u64> = world.graph.borrow().nodes.keys().copied().collect();
    let mut trails = Vec::new();
    for node in all {
        let mut trail = start.clone();
        trail.nodes.push(node);
        trails.extend(take_node(world, &path.start, trail)?);
    }
    steps_after(world, path, trails)
}

fn steps_after<'q>(
    world: &Interpreter<'_>,
    path: &'q PathPattern,
    mut trails: Vec<Trail<'q>>,
) -> Result<Vec<Trail<'q>>> {
    for step in &path.steps {
        let mut longer = Vec::new();
        for trail in trails {
            let ends = match &step.link {
                PatternLink::Relationship(pattern) => follow(world, pattern, trail)?,
                PatternLink::Quantified(path) => repeat(world, path, trail)?,
            };
            for end in ends {
                longer.extend(take_node(world, &step.node, end)?);
            }
            if longer.len() > MAX_ROWS {
                return Err(Fault::TooLarge);
            }
        }
        trails = longer;
    }
    Ok(trails)
}

/// The partial match, if its last node matches the pattern.
fn take_node<'q>(
    world: &Interpreter<'_>,
    pattern: &'q NodePattern,
    mut trail: Trail<'q>,
) -> Result<Option<Trail<'q>>> {
    world.count_operation()?;
    let id = *trail.nodes.last().unwrap_or(&0);
    if let Some(labels) = &pattern.labels {
        let graph = world.graph.borrow();
        let carried = &graph.nodes[&id].labels;
        if !labels.is_dynamic()
            && !fits(labels, &|name| carried.contains(name), !carried.is_empty())
        {
            return Ok(None);
        }
    }
    let node = Datum::node(id);
    if let Some(variable) = &pattern.variable {
        match trail.row.get(&variable.name) {
            Some(known) if known.is_null() => return Ok(None),
            Some(known @ Datum::Node(_)) if equal(known, &node) != Some(true) => {
                return Ok(None);
            }
            Some(Datum::Node(_)) => {}
            Some(other) => return raised(format!("{} is not a node", literal(other))),
            None => {
                trail.row.insert(variable.name.clone(), node.clone());
            }
        }
    }
    note(
        &mut trail,
        node,
        pattern.labels.as_ref(),
        pattern.properties.as_ref(),
        pattern.predicate.as_ref(),
    );
    Ok(Some(trail))
}

/// Relationships from the last node on: one, or as many as the pattern's length allows.
fn follow<'q>(
    world: &Interpreter<'_>,
    pattern: &'q RelationshipPattern,
    trail: Trail<'q>,
) -> Result<Vec<Trail<'q>>> {
    let (least, most) = match pattern.length {
        None => (1, 1),
        Some(length) => (length.min, length.max.unwrap_or(u64::MAX)),
    };
    let first = trail.relationships.len();
    let mut ends = Vec::new();
    let mut front = vec![trail];
    let mut length = 0;
    while !front.is_empty() {
        if length >= least {
            ends.extend(front.iter().cloned());
        }
        if length >= most {
            break;
        }
        let mut longer = Vec::new();
        for trail in &front {
            longer.extend(one_further(world, pattern, trail)?);
        }
        front = longer;
        length += 1;
        if ends.len() + front.len() > MAX_ROWS {
            return Err(Fault::TooLarge);
        }
    }
    let mut bound = Vec::new();
    for mut trail in ends {
        let gone = trail.relationships[first..].to_vec();
        let mut values = Vec::new();
        for id in &gone {
            values.push(Datum::Relationship(world.relationship(*id)?.into()));
        }
        let value = match pattern.length {
            None => values.into_iter().next().unwrap_or_default(),
            Some(_) => values.into(),
        };
        if let Some(variable) = &pattern.variable {
            match trail.row.get(&variable.name) {
                Some(known) if known.is_null() => continue,
                Some(known @ (Datum::Relationship(_) | Datum::List(_))) => {
                    if equal(known, &value) != Some(true) {
                        continue;
                    }
                }
                Some(other) => {
                    return raised(format!("{} is not a relationship", literal(other)));
                }
                None => {
                    trail.row.insert(variable.name.clone(), value.clone());
                }
            }
        }
        if pattern.length.is_none() {
            note(
                &mut trail,
                value,
                pattern.types.as_ref(),
                pattern.properties.as_ref(),
                pattern.predicate.as_ref(),
            );
        }
        bound.push(trail);
    }
    Ok(bound)
}

/// The partial match extended by a matching relationship.
fn one_further<'q>(
    world: &Interpreter<'_>,
    pattern: &'q RelationshipPattern,
    trail: &Trail<'q>,
) -> Result<Vec<Trail<'q>>> {
    world.count_operation()?;
    let at = *trail.nodes.last().unwrap_or(&0);
    let mut out = Vec::new();
    let candidates: Vec<(u64, u64)> = {
        let graph = world.graph.borrow();
        let fitting = graph.relationships.iter().filter(|(id, one)| {
            let types = pattern.types.as_ref();
            !trail.used.contains(id)
                && types.is_none_or(|types| {
                    types.is_dynamic() || fits(types, &|name| one.name == name, true)
                })
        });
        fitting
            .filter_map(|(id, one)| {
                let end = match pattern.direction {
                    Direction::Outgoing => (one.source == at).then_some(one.target),
                    Direction::Incoming => (one.target == at).then_some(one.source),
                    Direction::Both if one.source == at => Some(one.target),
                    Direction::Both => (one.target == at).then_some(one.source),
                };
                end.map(|end| (*id, end))
            })
            .collect()
    };
    for (id, end) in candidates {
        let mut longer = trail.clone();
        longer.relationships.push(id);
        if !longer.repeats {
            longer.used.push(id);
        }
        longer.nodes.push(end);
        if pattern.length.is_some() {
            // The predicate applies to each relationship separately.
            let value = Datum::Relationship(world.relationship(id)?.into());
            let row = match &pattern.variable {
                Some(variable) => with(&longer.row, &variable.name, value.clone()),
                None => longer.row.clone(),
            };
            let check = Check {
                entity: value,
                labels: pattern.types.as_ref().filter(|types| types.is_dynamic()),
                properties: pattern.properties.as_ref(),
                predicate: pattern.predicate.as_ref(),
            };
            if !check_holds(world, &check, &row)? {
                continue;
            }
        }
        out.push(longer);
    }
    Ok(out)
}

/// A quantified path; its variables become lists.
fn repeat<'q>(
    world: &Interpreter<'_>,
    quantified: &'q QuantifiedPath,
    trail: Trail<'q>,
) -> Result<Vec<Trail<'q>>> {
    let names = variables_of(&quantified.path);
    if names.iter().any(|name| trail.row.contains_key(name)) {
        return Err(Fault::Unknown(
            "a quantified path with a variable from outside".into(),
        ));
    }
    let (least, most) = (
        quantified.length.min,
        quantified.length.max.unwrap_or(u64::MAX),
    );
    let lists: BTreeMap<Arc<str>, Vec<Datum>> = names
        .iter()
        .map(|name| (name.clone(), Vec::new()))
        .collect();
    let mut front = vec![(trail, lists)];
    let mut ends = Vec::new();
    let mut rounds = 0;
    while !front.is_empty() {
        if rounds >= least {
            for (trail, lists) in &front {
                let mut trail = trail.clone();
                for (name, values) in lists {
                    trail.row.insert(name.clone(), values.clone().into());
                }
                ends.push(trail);
            }
        }
        if rounds >= most || rounds > 200 {
            break;
        }
        let mut longer = Vec::new();
        for (trail, lists) in front {
            for (mut end, round) in round(world, quantified, &trail)? {
                let mut lists = lists.clone();
                for (name, values) in &mut lists {
                    values.push(round.get(name).cloned().unwrap_or_default());
                }
                end.row = trail.row.clone();
                longer.push((end, lists));
            }
        }
        front = longer;
        rounds += 1;
        if ends.len() + front.len() > MAX_ROWS {
            return Err(Fault::TooLarge);
        }
    }
    Ok(ends)
}

/// One repetition: its end, and its variables.
fn round<'q>(
    world: &Interpreter<'_>,
    quantified: &'q QuantifiedPath,
    trail: &Trail<'q>,
) -> Result<Vec<(Trail<'q>, Row)>> {
    let outer_checks = trail.checks.len();
    let Some(start) = take_node(world, &quantified.path.start, trail.clone())? else {
        return Ok(Vec::new());
    };
    let mut rounds = Vec::new();
    for mut end in steps_after(world, &quantified.path, vec![start])? {
        let own = end.checks.split_off(outer_checks);
        let inner = Trail {
            checks: own,
            ..end.clone()
        };
        let holds = match &quantified.path.predicate {
            Some(predicate) => world.holds(predicate, &end.row)?,
            None => true,
        };
        if holds && checked(world, &inner)? {
            let row = end.row.clone();
            rounds.push((end, row));
        }
    }
    Ok(rounds)
}

fn checked(world: &Interpreter<'_>, trail: &Trail<'_>) -> Result<bool> {
    for check in &trail.checks {
        if !check_holds(world, check, &trail.row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_holds(world: &Interpreter<'_>, check: &Check<'_>, row: &Row) -> Result<bool> {
    if let Some(labels) = check.labels
        && !world.carries(&check.entity, labels, row)?
    {
        return Ok(false);
    }
    if let Some(properties) = check.properties {
        let wanted = match world.eval(properties, row)? {
            Datum::Map(map) => map,
            other => return raised(format!("{} is not a map of properties", literal(&other))),
        };
        let held = world.properties(&check.entity)?;
        for (name, value) in wanted.iter() {
            let held = held.get(name).cloned().unwrap_or_default();
            if equal(&held, value) != Some(true) {
                return Ok(false);
            }
        }
    }
    match check.predicate {
        Some(predicate) => world.holds(predicate, row),
        None => Ok(true),
    }
}

/// Applies the selector to the paths between each pair of end nodes.
fn select<'q>(
    world: &Interpreter<'_>,
    selector: PathSelector,
    trails: Vec<Trail<'q>>,
) -> Result<Vec<Trail<'q>>> {
    let mut partitions: BTreeMap<(u64, u64), Vec<Trail<'q>>> = BTreeMap::new();
    for trail in world.in_any_order(trails)? {
        let ends = (trail.nodes[0], *trail.nodes.last().unwrap_or(&0));
        partitions.entry(ends).or_default().push(trail);
    }
    let mut kept = Vec::new();
    for mut trails in partitions.into_values() {
        if !matches!(selector, PathSelector::Any(_)) {
            trails.sort_by_key(|trail| trail.relationships.len());
        }
        match selector {
            PathSelector::Any(count) | PathSelector::Shortest(count) => {
                trails.truncate(count as usize)
            }
            PathSelector::ShortestPathFunction => trails.truncate(1),
            PathSelector::AllShortest | PathSelector::AllShortestPathsFunction => {
                shortest_groups(&mut trails, 1)
            }
            PathSelector::ShortestGroups(count) => shortest_groups(&mut trails, count),
        }
        kept.extend(trails);
    }
    Ok(kept)
}

fn shortest_groups(sorted: &mut Vec<Trail<'_>>, groups: u64) {
    let mut lengths: Vec<usize> = sorted
        .iter()
        .map(|trail| trail.relationships.len())
        .collect();
    lengths.dedup();
    let longest = lengths.into_iter().take(groups as usize).next_back();
    sorted.retain(|trail| Some(trail.relationships.len()) <= longest);
}

fn note<'q>(
    trail: &mut Trail<'q>,
    entity: Datum,
    labels: Option<&'q LabelExpr>,
    properties: Option<&'q Expr>,
    predicate: Option<&'q Expr>,
) {
    let labels = labels.filter(|labels| labels.is_dynamic());
    if labels.is_some() || properties.is_some() || predicate.is_some() {
        trail.checks.push(Check {
            entity,
            labels,
            properties,
            predicate,
        });
    }
}

/// The variables of a path, inner ones included.
pub(super) fn variables_of(path: &PathPattern) -> Vec<Arc<str>> {
    let mut names = Vec::new();
    names.extend(path.variable.as_ref().map(|variable| variable.name.clone()));
    names.extend(
        path.start
            .variable
            .as_ref()
            .map(|variable| variable.name.clone()),
    );
    for step in &path.steps {
        match &step.link {
            PatternLink::Relationship(one) => {
                names.extend(one.variable.as_ref().map(|variable| variable.name.clone()))
            }
            PatternLink::Quantified(inner) => names.extend(variables_of(&inner.path)),
        }
        names.extend(
            step.node
                .variable
                .as_ref()
                .map(|variable| variable.name.clone()),
        );
    }
    names
}

/// Whether a label expression matches.
pub(super) fn fits(labels: &LabelExpr, has: &dyn Fn(&str) -> bool, any: bool) -> bool {
    match &labels.kind {
        LabelExprKind::Name(name) => has(name.as_str()),
        LabelExprKind::Any => any,
        LabelExprKind::Not(inner) => !fits(inner, has, any),
        LabelExprKind::And(parts) => parts.iter().all(|part| fits(part, has, any)),
        LabelExprKind::Or(parts) => parts.iter().any(|part| fits(part, has, any)),
        // Replaced by its names before.
        LabelExprKind::Dynamic { .. } => false,
    }
}
