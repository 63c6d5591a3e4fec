//! Patterns as text, close to how a statement writes them: of scans of relationships, expands, walks and searches.

use super::expression::Printer;
use crate::expr::{Expr, LocalId, SlotId, TypeRef};
use crate::physical::{
    CountPaths, Degree, Direction, DistinctEnds, Expand, ExpandInto, PathSearch, RelationshipEnds,
    RelationshipScan, ShortestPath, Step, VarExpand,
};
use crate::walk::{Selector, WalkStep};

pub(super) fn relationship_scan(p: &Printer<'_>, scan: &RelationshipScan) -> String {
    let link = link(p, Some(scan.relationship), &scan.types, "", scan.direction);
    between(p, scan.from, &link, scan.to)
}

/// One relationship of any type.
pub(super) fn relationship(
    p: &Printer<'_>,
    relationship: SlotId,
    from: SlotId,
    direction: Direction,
    to: SlotId,
) -> String {
    let link = link(p, Some(relationship), &[], "", direction);
    between(p, from, &link, to)
}

pub(super) fn expand(p: &Printer<'_>, expand: &Expand) -> String {
    let link = link(p, expand.relationship, &expand.types, "", expand.direction);
    between(p, expand.from, &link, expand.to) + &distinct(p, &expand.distinct_from)
}

pub(super) fn expand_into(p: &Printer<'_>, expand: &ExpandInto) -> String {
    let link = link(p, expand.relationship, &expand.types, "", expand.direction);
    between(p, expand.from, &link, expand.to) + &distinct(p, &expand.distinct_from)
}

pub(super) fn relationship_ends(p: &Printer<'_>, ends: &RelationshipEnds) -> String {
    let link = link(p, Some(ends.relationship), &ends.types, "", ends.direction);
    between(p, ends.from, &link, ends.to) + &distinct(p, &ends.distinct_from)
}

pub(super) fn distinct_ends(p: &Printer<'_>, ends: &DistinctEnds) -> String {
    steps(p, &p.slot(ends.from), &ends.steps, &p.slot(ends.to)) + different(ends.differ)
}

pub(super) fn degree(p: &Printer<'_>, degree: &Degree) -> String {
    let link = link(p, None, &degree.types, "", degree.direction);
    let (from, count) = (p.slot(degree.from), p.slot(degree.count));
    format!("({from}){link}() as {count}") + &distinct(p, &degree.distinct_from)
}

pub(super) fn count_paths(p: &Printer<'_>, count: &CountPaths) -> String {
    let first = Step {
        direction: count.first.direction.reversed(),
        types: count.first.types.clone(),
    };
    let over = steps(p, "", &[first, count.second.clone()], "");
    let counts = p.slots(&count.counts);
    format!("{counts} over {over}{}", different(count.differ))
}

pub(super) fn var_expand(p: &Printer<'_>, expand: &VarExpand) -> String {
    let length = length(expand.min, expand.max);
    let link = link(
        p,
        expand.relationships,
        &expand.types,
        &length,
        expand.direction,
    );
    let mut text = between(p, expand.from, &link, expand.to);
    if expand.into {
        text.push_str(" into");
    }
    if expand.distinct_ends {
        text.push_str(" distinct ends");
    }
    text + &each(p, &expand.step_predicate) + &distinct(p, &expand.distinct_from)
}

pub(super) fn shortest_path(p: &Printer<'_>, shortest: &ShortestPath) -> String {
    let length = length(shortest.min, shortest.max);
    let link = link(
        p,
        shortest.relationships,
        &shortest.types,
        &length,
        shortest.direction,
    );
    let path = shortest.path.map(|path| format!("{} = ", p.slot(path)));
    path.unwrap_or_default()
        + &between(p, shortest.from, &link, shortest.to)
        + &each(p, &shortest.step_predicate)
        + &on_whole(p, shortest.predicate.as_ref())
}

/// A walk as it would be written.
pub(super) fn path_search(p: &Printer<'_>, search: &PathSearch) -> String {
    let mut text = match search.selector {
        None => String::new(),
        Some(Selector::Paths(count)) => format!("SHORTEST {count} "),
        Some(Selector::Groups(count)) => format!("SHORTEST {count} GROUPS "),
    };
    if let Some(path) = search.path {
        text = format!("{} = {text}", p.slot(path));
    }
    text.push_str(&format!("({})", p.slot(search.from)));
    for (at, link) in search.walk.links.iter().enumerate() {
        if let Some(junction) = at
            .checked_sub(1)
            .and_then(|before| search.walk.junctions.get(before))
        {
            text.push_str(&format!("({})", optional(p, junction.slot)));
        }
        let step = |step: &WalkStep| {
            let relationship = step.relationship.slot;
            self::link(p, relationship, &step.types, "", step.direction)
        };
        match link.repeat {
            None => link.steps.iter().for_each(|one| text.push_str(&step(one))),
            Some((min, max)) => {
                text.push_str(&format!("(({})", optional(p, link.start.slot)));
                for one in &link.steps {
                    text.push_str(&format!("{}({})", step(one), optional(p, one.node.slot)));
                }
                let max = max.map(|max| max.to_string()).unwrap_or_default();
                text.push_str(&format!("){{{min},{max}}}"));
            }
        }
    }
    text.push_str(&format!("({})", p.slot(search.to)));
    if search.into {
        text.push_str(" into");
    }
    let mut checks = Vec::new();
    search
        .walk
        .for_each_expr(&mut |one| checks.push(p.expr(one)));
    if !checks.is_empty() {
        text.push_str(&format!(" each {}", checks.join(", ")));
    }
    text + &on_whole(p, search.predicate.as_ref()) + &distinct(p, &search.distinct_from)
}

fn optional(p: &Printer<'_>, slot: Option<SlotId>) -> String {
    slot.map(|slot| p.slot(slot)).unwrap_or_default()
}

/// A relationship, or a walk of this length, in brackets and with its direction.
fn link(
    p: &Printer<'_>,
    relationship: Option<SlotId>,
    of: &[TypeRef],
    length: &str,
    direction: Direction,
) -> String {
    let (before, after) = match direction {
        Direction::Outgoing => ("-", "->"),
        Direction::Incoming => ("<-", "-"),
        Direction::Both => ("-", "-"),
    };
    let (name, types) = (optional(p, relationship), types(p, of));
    format!("{before}[{name}{types}{length}]{after}")
}

/// A link and its ends.
fn between(p: &Printer<'_>, from: SlotId, link: &str, to: SlotId) -> String {
    format!("({}){link}({})", p.slot(from), p.slot(to))
}

/// Steps from one node to another, of which nothing else is read.
pub(super) fn steps(p: &Printer<'_>, from: &str, steps: &[Step], to: &str) -> String {
    let one = |step: &Step| link(p, None, &step.types, "", step.direction);
    let steps: Vec<String> = steps.iter().map(one).collect();
    format!("({from}){}({to})", steps.join("()"))
}

/// How many relationships a walk has.
fn length(min: u64, max: Option<u64>) -> String {
    let max = max.map(|max| max.to_string()).unwrap_or_default();
    format!("*{min}..{max}")
}

/// A condition on each step of a walk.
fn each(p: &Printer<'_>, predicate: &Option<(LocalId, Expr)>) -> String {
    match predicate {
        Some((_, predicate)) => format!(" each {}", p.expr(predicate)),
        None => String::new(),
    }
}

/// A condition on a whole walk.
fn on_whole(p: &Printer<'_>, predicate: Option<&Expr>) -> String {
    match predicate {
        Some(predicate) => format!(" where {}", p.expr(predicate)),
        None => String::new(),
    }
}

/// The relationships that the pattern must not use.
fn distinct(p: &Printer<'_>, from: &[SlotId]) -> String {
    if from.is_empty() {
        String::new()
    } else {
        format!(" not {}", p.slots(from))
    }
}

/// Whether relationships must differ.
fn different(differ: bool) -> &'static str {
    if differ {
        " different relationships"
    } else {
        ""
    }
}

/// The types that a relationship may have; nothing if it may have any.
pub(super) fn types(p: &Printer<'_>, types: &[TypeRef]) -> String {
    if types.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = types.iter().map(|one| &**p.plan.type_name(*one)).collect();
    format!(":{}", names.join("|"))
}
