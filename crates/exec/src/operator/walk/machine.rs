//! The pattern as a state machine: which steps a partial walk may take next.
//!
//! A partial walk is a chain of [`SearchStep`]s. They are stored in one vector and refer to their predecessor by index.
//! The pattern positions that a step has reached determine which steps may follow and whether the walk may end there.

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::{
    expr::LocalId,
    physical,
    walk::{Walk, WalkLink},
};
use isomer_value::{NodeId, RelId, Value};
use rustc_hash::FxHashSet;

use super::super::{expand::end_of, varlength::too_long};
use crate::{
    column::relationship_value,
    context::{Cx, TypeFilter},
    error::Result,
    eval::{Row, holds},
    function::node_value,
};

/// Bytes that a step of a partial walk is counted with: the step, and a share of the relationships read for it.
pub(super) const STEP_BYTES: usize = size_of::<SearchStep>() + size_of::<RelRow>() / 4;

/// One step of a finished walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct WalkHop {
    pub(super) link: usize,
    pub(super) step: usize,
    pub(super) rel: RelRow,
    pub(super) node: NodeId,
}

/// A position in the pattern: the link, the step within it, and the repetition (counted from 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PatternPosition {
    pub(super) link: u32,
    pub(super) step: u32,
    pub(super) round: u64,
}

/// One step of a partial walk, or its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchStep {
    /// Index of the preceding step; the start refers to itself.
    pub(super) parent: u32,
    pub(super) depth: u32,
    /// The step taken; none for the start.
    pub(super) taken: Option<(PatternPosition, RelRow)>,
    /// Where it led.
    pub(super) node: NodeId,
    /// Whether its successors were generated.
    expanded: bool,
}

impl SearchStep {
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

/// The partial walk of a depth-first enumeration: a stack of steps.
pub(super) struct Enumeration {
    entries: Vec<SearchStep>,
}

impl Enumeration {
    pub(super) fn new(from: NodeId) -> Self {
        Self {
            entries: vec![SearchStep::start(from)],
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
            cx.reader().expand(&[node], direction, types, found)?;
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

    /// Whether the conditions that read only one element hold.
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

    /// Whether a walk may end at a search step, and the steps that may follow it.
    pub(super) fn openings(
        &self,
        walk: &Walk,
        entry: &SearchStep,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(bool, Vec<PatternPosition>)> {
        let mut open = Vec::new();
        let node = entry.node;
        let mut junction = match entry.taken {
            None => Some(0),
            Some((place, _)) => {
                let link = &walk.links[place.link as usize];
                if (place.step as usize) + 1 < link.steps.len() {
                    open.push(PatternPosition {
                        step: place.step + 1,
                        ..place
                    });
                    None
                } else {
                    self.after_round(walk, place.link, place.round + 1, node, &mut open, row, cx)?
                }
            }
        };
        // Links that allow zero repetitions can be skipped.
        while let Some(at) = junction {
            if at == walk.links.len() {
                return Ok((self.into.is_none_or(|into| into == node), open));
            }
            junction = match walk.links[at].repeat {
                Some(_) => self.after_round(walk, at as u32, 0, node, &mut open, row, cx)?,
                None => {
                    open.push(PatternPosition {
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

    /// After the given number of repetitions of a link: starts another one if the pattern allows it, and returns the
    /// junction after the link if the link may be left.
    #[expect(clippy::too_many_arguments, reason = "one state's worth of facts")]
    fn after_round(
        &self,
        walk: &Walk,
        at: u32,
        rounds: u64,
        node: NodeId,
        open: &mut Vec<PatternPosition>,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<usize>> {
        let link = &walk.links[at as usize];
        let (min, max) = link.repeat.unwrap_or((1, Some(1)));
        if max.is_none_or(|max| rounds < max)
            && self.element_holds(link, 0, || node_value(node), row, cx)?
        {
            open.push(PatternPosition {
                link: at,
                step: 0,
                round: rounds,
            });
        }
        let next = at as usize + 1;
        let leaves = rounds >= min && self.joins(walk, next, node, row, cx)?;
        Ok(leaves.then_some(next))
    }

    /// The steps that a pattern position allows from the search step at `at`.
    pub(super) fn follow(
        &self,
        walk: &Walk,
        entries: &[SearchStep],
        at: u32,
        place: PatternPosition,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<SearchStep>> {
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
        // The steps share their beginnings, so the set is collected on demand.
        let used = match walk.repeats {
            true => FxHashSet::default(),
            false => used(entries, at),
        };
        let element = 2 * step_at + 1;
        let mut next = Vec::new();
        for rel in found.rows() {
            if used.contains(&rel.id) || self.is_barred(rel.id) {
                continue;
            }
            let entry = SearchStep {
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

    /// Whether the conditions hold that read several elements of a repetition and whose last element was bound by this
    /// step.
    fn round_holds(
        &self,
        link: &WalkLink,
        entries: &[SearchStep],
        entry: &SearchStep,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<bool> {
        let Some((place, _)) = entry.taken else {
            return Ok(true);
        };
        let last = 2 * place.step as usize + 2;
        let due = |check: &&isomer_plan::walk::WalkCheck| {
            // A step binds two elements, its relationship and its node: conditions that end at either are
            // due now, as early as possible.
            check.first != check.last && (check.last == last || check.last + 1 == last)
        };
        if !link.checks.iter().any(|check| due(&check)) {
            return Ok(true);
        }
        // The steps of the repetition, from the last back to the first.
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
    ) -> Result<Option<Vec<WalkHop>>> {
        let entries = &mut enumeration.entries;
        loop {
            cx.tick(1)?;
            let Some(last) = entries.last_mut() else {
                return Ok(None);
            };
            // All continuations of this step were enumerated: back to the step before.
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
            // Pushed in reverse, so that they are popped in the order in which they were found.
            entries[at as usize + 1..].reverse();
            cx.run.watch.allow(entries.len() * STEP_BYTES)?;
            // After its continuations were pushed: the walk is returned now, and
            // the longer ones by later calls.
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

/// The relationships of the walk that ends at a search step.
fn used(entries: &[SearchStep], mut at: u32) -> FxHashSet<RelId> {
    let mut used = FxHashSet::default();
    while let Some((_, rel)) = entries[at as usize].taken {
        used.insert(rel.id);
        at = entries[at as usize].parent;
    }
    used
}

/// The steps of the walk that ends at a search step.
pub(super) fn chain(entries: &[SearchStep], mut at: u32) -> Vec<WalkHop> {
    let mut steps = Vec::with_capacity(entries[at as usize].depth as usize);
    while let Some((place, rel)) = entries[at as usize].taken {
        steps.push(WalkHop {
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
