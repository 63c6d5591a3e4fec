//! Patterns as text, close to how a statement writes them: of scans of relationships, expands, walks and searches.

use super::expression::ExprPrinter;
use crate::expr::{BoundExpr, LocalId, SlotId, TypeRef};
use crate::physical::{
    CountPaths, Degree, Direction, DistinctEnds, Expand, ExpandInto, ExpandStep, PathSearch,
    RelationshipEnds, RelationshipScan, ShortestPath, VarExpand,
};
use crate::walk::{Selector, WalkStep};

pub(super) fn relationship_scan(p: &ExprPrinter<'_>, scan: &RelationshipScan) -> String {
    let relationship = Some(scan.relationship);
    pattern(
        p,
        scan.from,
        relationship,
        &scan.types,
        "",
        scan.direction,
        scan.to,
    )
}

/// One relationship of any type.
pub(super) fn relationship(
    p: &ExprPrinter<'_>,
    relationship: SlotId,
    from: SlotId,
    direction: Direction,
    to: SlotId,
) -> String {
    pattern(p, from, Some(relationship), &[], "", direction, to)
}

pub(super) fn expand(p: &ExprPrinter<'_>, expand: &Expand) -> String {
    let (from, to) = (expand.from, expand.to);
    let text = pattern(
        p,
        from,
        expand.relationship,
        &expand.types,
        "",
        expand.direction,
        to,
    );
    text + &distinct(p, &expand.distinct_from)
}

pub(super) fn expand_into(p: &ExprPrinter<'_>, expand: &ExpandInto) -> String {
    let (from, to) = (expand.from, expand.to);
    let text = pattern(
        p,
        from,
        expand.relationship,
        &expand.types,
        "",
        expand.direction,
        to,
    );
    text + &distinct(p, &expand.distinct_from)
}

pub(super) fn relationship_ends(p: &ExprPrinter<'_>, ends: &RelationshipEnds) -> String {
    let relationship = Some(ends.relationship);
    let text = pattern(
        p,
        ends.from,
        relationship,
        &ends.types,
        "",
        ends.direction,
        ends.to,
    );
    text + &distinct(p, &ends.distinct_from)
}

pub(super) fn distinct_ends(p: &ExprPrinter<'_>, ends: &DistinctEnds) -> String {
    steps(p, &p.slot(ends.from), &ends.steps, &p.slot(ends.to)) + different(ends.differ)
}

pub(super) fn degree(p: &ExprPrinter<'_>, degree: &Degree) -> String {
    let (before, after) = arrows(degree.direction);
    let text = format!(
        "({}){before}[{}]{after}() as {}",
        p.slot(degree.from),
        types(p, &degree.types),
        p.slot(degree.count)
    );
    text + &distinct(p, &degree.distinct_from)
}

pub(super) fn count_paths(p: &ExprPrinter<'_>, count: &CountPaths) -> String {
    let first = ExpandStep {
        direction: count.first.direction.reversed(),
        types: count.first.types.clone(),
    };
    let over = steps(p, "", &[first, count.second.clone()], "");
    let counts = p.slots(&count.counts);
    format!("{counts} over {over}{}", different(count.differ))
}

pub(super) fn var_expand(p: &ExprPrinter<'_>, expand: &VarExpand) -> String {
    let mut text = pattern(
        p,
        expand.from,
        expand.relationships,
        &expand.types,
        &length(expand.min, expand.max),
        expand.direction,
        expand.to,
    );
    if expand.into {
        text.push_str(" into");
    }
    if expand.distinct_ends {
        text.push_str(" distinct ends");
    }
    text + &each(p, &expand.step_predicate) + &distinct(p, &expand.distinct_from)
}

pub(super) fn shortest_path(p: &ExprPrinter<'_>, shortest: &ShortestPath) -> String {
    let text = pattern(
        p,
        shortest.from,
        shortest.relationships,
        &shortest.types,
        &length(shortest.min, shortest.max),
        shortest.direction,
        shortest.to,
    );
    let path = shortest.path.map(|path| format!("{} = ", p.slot(path)));
    path.unwrap_or_default()
        + &text
        + &each(p, &shortest.step_predicate)
        + &on_whole(p, shortest.predicate.as_ref())
}

/// A walk as it would be written.
pub(super) fn path_search(p: &ExprPrinter<'_>, search: &PathSearch) -> String {
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
            let (before, after) = arrows(step.direction);
            let name = optional(p, step.relationship.slot);
            format!("{before}[{name}{}]{after}", types(p, &step.types))
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

fn optional(p: &ExprPrinter<'_>, slot: Option<SlotId>) -> String {
    slot.map(|slot| p.slot(slot)).unwrap_or_default()
}

fn pattern(
    p: &ExprPrinter<'_>,
    from: SlotId,
    relationship: Option<SlotId>,
    of: &[TypeRef],
    length: &str,
    direction: Direction,
    to: SlotId,
) -> String {
    let (before, after) = arrows(direction);
    let name = relationship.map(|slot| p.slot(slot)).unwrap_or_default();
    format!(
        "({}){before}[{name}{}{length}]{after}({})",
        p.slot(from),
        types(p, of),
        p.slot(to)
    )
}

/// Steps from one node to another, of which nothing else is read.
pub(super) fn steps(p: &ExprPrinter<'_>, from: &str, steps: &[ExpandStep], to: &str) -> String {
    let one = |step: &ExpandStep| {
        let (before, after) = arrows(step.direction);
        format!("{before}[{}]{after}", types(p, &step.types))
    };
    let steps: Vec<String> = steps.iter().map(one).collect();
    format!("({from}){}({to})", steps.join("()"))
}

/// How many relationships a walk has.
fn length(min: u64, max: Option<u64>) -> String {
    let max = max.map(|max| max.to_string()).unwrap_or_default();
    format!("*{min}..{max}")
}

/// A condition on each step of a walk.
fn each(p: &ExprPrinter<'_>, predicate: &Option<(LocalId, BoundExpr)>) -> String {
    match predicate {
        Some((_, predicate)) => format!(" each {}", p.expr(predicate)),
        None => String::new(),
    }
}

/// A condition on a whole walk.
fn on_whole(p: &ExprPrinter<'_>, predicate: Option<&BoundExpr>) -> String {
    match predicate {
        Some(predicate) => format!(" where {}", p.expr(predicate)),
        None => String::new(),
    }
}

/// The relationships that the pattern must not use.
fn distinct(p: &ExprPrinter<'_>, from: &[SlotId]) -> String {
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
pub(super) fn types(p: &ExprPrinter<'_>, types: &[TypeRef]) -> String {
    if types.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = types.iter().map(|one| &**p.plan.type_name(*one)).collect();
    format!(":{}", names.join("|"))
}

/// Before and after the brackets of a relationship.
fn arrows(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Outgoing => ("-", "->"),
        Direction::Incoming => ("<-", "-"),
        Direction::Both => ("-", "-"),
    }
}
