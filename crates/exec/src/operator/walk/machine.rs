//! Where a walk may go next.
//!
//! A walk under search is a chain of [`Entry`]s, each one step; they lie in one vector and name the step before them by its
//! position. What an entry has reached says which steps may follow, and whether the walk may end there.

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::{
    expr::LocalId,
    physical,
    walk::{Walk, WalkLink},
};
use isomer_value::{NodeId, RelId, Value};
use rustc_hash::FxHashSet;

use super::{
    super::{expand::end_of, varlength::too_long},
    STEP_BYTES,
};
use crate::{
    column::relationship_value,
    context::{Cx, TypeFilter, data_direction},
    error::Result,
    eval::{Row, holds},
    function::node_value,
};

/// One step of a finished walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) link: usize,
    pub(super) step: usize,
    pub(super) rel: RelRow,
    pub(super) node: NodeId,
}

/// Where in the pattern a step is: of which link, which step of it, in which repetition (counted from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) link: u32,
    pub(super) step: u32,
    pub(super) round: u64,
}

/// One step of a walk under search, or its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The entry before it; the start names itself.
    pub(super) parent: u32,
    pub(super) depth: u32,
    /// The step taken; none for the start.
    pub(super) taken: Option<(Place, RelRow)>,
    /// Where it led.
    pub(super) node: NodeId,
    /// Its successors were looked for.
    expanded: bool,
}

impl Entry {
    pub(super) fn start(node: NodeId) -> Self {
        Self {
            parent: 0,
            depth: 0,
            taken: None,
            node,
            expanded: false,
        }
    }
}

/// The walk under search in a depth-first enumeration: a stack of entries.
pub(super) struct Enumeration {
    entries: Vec<Entry>,
}

impl Enumeration {
    pub(super) fn new(from: NodeId) -> Self {
        Self {
            entries: vec![Entry::start(from)],
        }
    }
}

/// The pattern, prepared for one row.
pub(super) struct Machine {
    pub(super) from: NodeId,
    pub(super) into: Option<NodeId>,
    /// Per link and step.
    filters: Vec<Vec<TypeFilter>>,
    barred: FxHashSet<RelId>,
    /// Most steps of a walk without an upper bound.
    most_steps: Option<u64>,
}

impl Machine {
    pub(super) fn new(
        plan: &physical::PathSearch,
        from: NodeId,
        into: Option<NodeId>,
        barred: Vec<RelId>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut filter = |link: &WalkLink| {
            let steps = link.steps.iter();
            steps.map(|step| cx.type_filter(&step.types)).collect()
        };
        let filters = plan.walk.links.iter().map(&mut filter).collect();
        let limit = cx.run.watch.limits().path_steps;
        Self {
            from,
            into,
            filters,
            barred: barred.into_iter().collect(),
            most_steps: (!plan.walk.is_bounded()).then_some(limit),
        }
    }

    /// The relationships that a step may take at a node, in the step's direction or against it.
    pub(super) fn read(
        &self,
        walk: &Walk,
        (link, step): (usize, usize),
        node: NodeId,
        against: bool,
        found: &mut Neighbours,
        cx: &mut Cx<'_>,
    ) -> Result<physical::Direction> {
        let mut direction = walk.links[link].steps[step].direction;
        if against {
            direction = direction.reversed();
        }
        found.clear();
        if let Some(types) = self.filters[link][step].ids() {
            cx.reader()
                .expand(&[node], data_direction(direction), types, found)?;
        }
        cx.tick(found.rows().len() + 1)?;
        Ok(direction)
    }

    pub(super) fn is_barred(&self, rel: RelId) -> bool {
        self.barred.contains(&rel)
    }

    /// Whether the conditions on an inner node between two links hold. `junction` counts the start of the walk as 0.
    pub(super) fn joins(
        &self,
        walk: &Walk,
        junction: usize,
        node: NodeId,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<bool> {
        let inner = junction
            .checked_sub(1)
            .and_then(|at| walk.junctions.get(at));
        let Some(inner) = inner else { return Ok(true) };
        if inner.checks.is_empty() {
            return Ok(true);
        }
        cx.set_local(inner.local, node_value(node));
        for check in &inner.checks {
            if !holds(check, row, cx)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the conditions on one element alone hold.
    pub(super) fn element_holds(
        &self,
        link: &WalkLink,
        element: usize,
        value: impl Fn() -> Value,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<bool> {
        let mut bound = false;
        for check in &link.checks {
            if (check.first, check.last) != (element, element) {
                continue;
            }
            if !bound {
                cx.set_local(local_of(link, element), value());
                bound = true;
            }
            if !holds(&check.condition, row, cx)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a walk may end at an entry, and the steps that may follow it.
    pub(super) fn openings(
        &self,
        walk: &Walk,
        entry: &Entry,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(bool, Vec<Place>)> {
        let mut open = Vec::new();
        let node = entry.node;
        let mut junction = match entry.taken {
            None => Some(0),
            Some((place, _)) => {
                let link = &walk.links[place.link as usize];
                if (place.step as usize) + 1 < link.steps.len() {
                    open.push(Place {
                        step: place.step + 1,
                        ..place
                    });
                    None
                } else {
                    self.after_round(walk, place.link, place.round + 1, node, &mut open, row, cx)?
                }
            }
        };
        // Through links that may be repeated no time at all.
        while let Some(at) = junction {
            if at == walk.links.len() {
                return Ok((self.into.is_none_or(|into| into == node), open));
            }
            junction = match walk.links[at].repeat {
                Some(_) => self.after_round(walk, at as u32, 0, node, &mut open, row, cx)?,
                None => {
                    open.push(Place {
                        link: at as u32,
                        step: 0,
                        round: 0,
                    });
                    None
                }
            };
        }
        Ok((false, open))
    }

    /// After so many rounds of a link: opens another one where there may be one, and gives the junction after the link
    /// where it may be left.
    #[expect(clippy::too_many_arguments, reason = "one state's worth of facts")]
    fn after_round(
        &self,
        walk: &Walk,
        at: u32,
        rounds: u64,
        node: NodeId,
        open: &mut Vec<Place>,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<usize>> {
        let link = &walk.links[at as usize];
        let (min, max) = link.repeat.unwrap_or((1, Some(1)));
        if max.is_none_or(|max| rounds < max)
            && self.element_holds(link, 0, || node_value(node), row, cx)?
        {
            open.push(Place {
                link: at,
                step: 0,
                round: rounds,
            });
        }
        let next = at as usize + 1;
        let leaves = rounds >= min && self.joins(walk, next, node, row, cx)?;
        Ok(leaves.then_some(next))
    }

    /// The steps that a place allows from the entry at `at`.
    pub(super) fn follow(
        &self,
        walk: &Walk,
        entries: &[Entry],
        at: u32,
        place: Place,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Entry>> {
        let from = entries[at as usize];
        if let Some(most) = self.most_steps
            && u64::from(from.depth) >= most
        {
            return Err(too_long(most));
        }
        let (link_at, step_at) = (place.link as usize, place.step as usize);
        let link = &walk.links[link_at];
        let mut found = Neighbours::new();
        let direction = self.read(walk, (link_at, step_at), from.node, false, &mut found, cx)?;
        let used = used(entries, at);
        let element = 2 * step_at + 1;
        let mut next = Vec::new();
        for rel in found.rows() {
            if used.contains(&rel.id) || self.is_barred(rel.id) {
                continue;
            }
            let entry = Entry {
                parent: at,
                depth: from.depth + 1,
                taken: Some((place, *rel)),
                node: end_of(rel, from.node, direction),
                expanded: false,
            };
            let holds = self.element_holds(link, element, || relationship_value(*rel), row, cx)?
                && self.element_holds(link, element + 1, || node_value(entry.node), row, cx)?
                && self.round_holds(link, entries, &entry, row, cx)?;
            if holds {
                next.push(entry);
            }
        }
        Ok(next)
    }

    /// Whether the conditions hold that read several elements of a round, the last of them in the step just taken.
    fn round_holds(
        &self,
        link: &WalkLink,
        entries: &[Entry],
        entry: &Entry,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<bool> {
        let Some((place, _)) = entry.taken else {
            return Ok(true);
        };
        let last = 2 * place.step as usize + 2;
        let due = |check: &&isomer_plan::walk::Check| {
            check.first != check.last && (check.last == last || check.last + 1 == last)
        };
        if !link.checks.iter().any(|check| due(&check)) {
            return Ok(true);
        }
        // The steps of the round, from the last back to the first.
        let mut one = *entry;
        while let Some((place, rel)) = one.taken {
            let step = place.step as usize;
            cx.set_local(local_of(link, 2 * step + 1), relationship_value(rel));
            cx.set_local(local_of(link, 2 * step + 2), node_value(one.node));
            one = entries[one.parent as usize];
            if step == 0 {
                cx.set_local(local_of(link, 0), node_value(one.node));
                break;
            }
        }
        for check in link.checks.iter().filter(due) {
            if !holds(&check.condition, row, cx)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next walk of an enumeration; none at its end.
    pub(super) fn next(
        &self,
        walk: &Walk,
        enumeration: &mut Enumeration,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<Taken>>> {
        let entries = &mut enumeration.entries;
        loop {
            cx.tick(1)?;
            let Some(last) = entries.last_mut() else {
                return Ok(None);
            };
            if last.expanded {
                entries.pop();
                continue;
            }
            last.expanded = true;
            let entry = *last;
            let at = entries.len() as u32 - 1;
            let (accepts, open) = self.openings(walk, &entry, row, cx)?;
            for place in open {
                let next = self.follow(walk, entries, at, place, row, cx)?;
                entries.extend(next);
            }
            // The last one is tried first: in the order in which they were found.
            entries[at as usize + 1..].reverse();
            cx.run.watch.allow(entries.len() * STEP_BYTES)?;
            if accepts {
                return Ok(Some(chain(entries, at)));
            }
        }
    }
}

fn local_of(link: &WalkLink, element: usize) -> LocalId {
    match element.checked_sub(1) {
        None => link.start.local,
        Some(at) if at % 2 == 0 => link.steps[at / 2].relationship.local,
        Some(at) => link.steps[at / 2].node.local,
    }
}

/// The relationships of the walk that ends at an entry.
fn used(entries: &[Entry], mut at: u32) -> FxHashSet<RelId> {
    let mut used = FxHashSet::default();
    while let Some((_, rel)) = entries[at as usize].taken {
        used.insert(rel.id);
        at = entries[at as usize].parent;
    }
    used
}

/// The steps of the walk that ends at an entry.
pub(super) fn chain(entries: &[Entry], mut at: u32) -> Vec<Taken> {
    let mut steps = Vec::with_capacity(entries[at as usize].depth as usize);
    while let Some((place, rel)) = entries[at as usize].taken {
        steps.push(Taken {
            link: place.link as usize,
            step: place.step as usize,
            rel,
            node: entries[at as usize].node,
        });
        at = entries[at as usize].parent;
    }
    steps.reverse();
    steps
}
