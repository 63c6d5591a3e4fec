//! Lower bound of the remaining length of a walk: the heuristic of the A* search.
//!
//! A breadth-first search backwards from the end, expanded level by level on demand. It ignores that relationships must
//! not repeat and does not count repetitions, so the bound is admissible: the A* search finds walks in order of length.

use isomer_data::Neighbours;
use isomer_plan::walk::Walk;
use isomer_value::NodeId;
use rustc_hash::FxHashMap;

use super::{super::expand::end_of, machine::Machine, machine::SearchStep};
use crate::{
    column::relationship_value, context::Cx, error::Result, eval::Row, function::node_value,
};

/// Position of a node between the steps of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Position {
    /// Between two links: before the link with this index.
    Junction(u32),
    /// Between two repetitions of a group.
    Round(u32),
    /// Within a repetition of a group, after this number of its steps.
    Inside(u32, u32),
}

/// State of the backward search.
pub(super) struct Ahead {
    /// Distance to the end.
    distances: FxHashMap<(Position, NodeId), u32>,
    frontier: Vec<(Position, NodeId)>,
    depth: u32,
}

/// What the backward search knows about the distance to the end.
pub(super) enum Distance {
    /// This many steps, if relationships may repeat.
    Known(u32),
    /// At least this many.
    AtLeast(u32),
    /// The end cannot be reached.
    Never,
}

impl Ahead {
    pub(super) fn new(
        machine: &Machine,
        walk: &Walk,
        end: NodeId,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Self> {
        let mut ahead = Self {
            distances: FxHashMap::default(),
            frontier: Vec::new(),
            depth: 0,
        };
        let last = Position::Junction(walk.links.len() as u32);
        ahead.add_closure(machine, walk, last, end, row, cx)?;
        Ok(ahead)
    }

    /// Distance to the end from the node that a search step reached.
    pub(super) fn distance(&self, walk: &Walk, entry: &SearchStep) -> Distance {
        let position = match entry.taken {
            None => Position::Junction(0),
            Some((place, _)) => {
                let link = &walk.links[place.link as usize];
                match (place.step as usize + 1 < link.steps.len(), link.repeat) {
                    (true, _) => Position::Inside(place.link, place.step + 1),
                    (false, Some(_)) => Position::Round(place.link),
                    (false, None) => Position::Junction(place.link + 1),
                }
            }
        };
        match self.distances.get(&(position, entry.node)) {
            Some(distance) => Distance::Known(*distance),
            // The search is exhausted: whatever it did not reach does not reach the end.
            None if self.frontier.is_empty() => Distance::Never,
            None => Distance::AtLeast(self.depth + 1),
        }
    }

    /// Expands the search by one level.
    pub(super) fn grow(
        &mut self,
        machine: &Machine,
        walk: &Walk,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        self.depth += 1;
        let mut found = Neighbours::new();
        for (position, node) in std::mem::take(&mut self.frontier) {
            // Backwards: the step that ends here, and the position before it.
            let Some((link_at, step_at, before)) = step_to(walk, position) else {
                continue;
            };
            let link = &walk.links[link_at];
            let element = 2 * step_at + 1;
            if !machine.element_holds(link, element + 1, || node_value(node), row, cx)? {
                continue;
            }
            let direction = machine.read(walk, (link_at, step_at), node, true, &mut found, cx)?;
            for rel in found.rows() {
                let origin = end_of(rel, node, direction);
                if machine.is_barred(rel.id)
                    || self.distances.contains_key(&(before, origin))
                    || !machine.element_holds(
                        link,
                        element,
                        || relationship_value(*rel),
                        row,
                        cx,
                    )?
                {
                    continue;
                }
                // The first node of a repetition is bound when a repetition begins, which backwards is its end.
                if matches!(before, Position::Round(_))
                    && !machine.element_holds(link, 0, || node_value(origin), row, cx)?
                {
                    continue;
                }
                self.add_closure(machine, walk, before, origin, row, cx)?;
            }
            cx.run.watch.allow(self.bytes())?;
        }
        Ok(())
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        (self.distances.capacity() + self.frontier.capacity()) * 32
    }

    /// Adds a node on the current level, with all positions that are reachable without a step (the epsilon closure).
    fn add_closure(
        &mut self,
        machine: &Machine,
        walk: &Walk,
        position: Position,
        node: NodeId,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let mut next = Some(position);
        while let Some(position) = next {
            if self.distances.contains_key(&(position, node)) {
                return Ok(());
            }
            if let Position::Junction(at) = position
                && !machine.joins(walk, at as usize, node, row, cx)?
            {
                return Ok(());
            }
            self.distances.insert((position, node), self.depth);
            self.frontier.push((position, node));
            // A link that may repeat can be left after a repetition and entered without one, neither of which takes a
            // step.
            next = match position {
                Position::Junction(at) => at
                    .checked_sub(1)
                    .filter(|before| walk.links[*before as usize].repeat.is_some())
                    .map(Position::Round),
                Position::Round(link) => Some(Position::Junction(link)),
                Position::Inside(..) => None,
            };
        }
        Ok(())
    }
}

/// The step that leads to a position, and the position before that step.
fn step_to(walk: &Walk, position: Position) -> Option<(usize, usize, Position)> {
    let before = |link: u32, step: usize| match step {
        0 => Position::Round(link),
        step => Position::Inside(link, step as u32),
    };
    match position {
        Position::Junction(at) => {
            let link = at.checked_sub(1)?;
            let single = walk.links[link as usize].repeat.is_none();
            single.then_some((link as usize, 0, Position::Junction(link)))
        }
        Position::Round(link) => {
            let step = walk.links[link as usize].steps.len() - 1;
            Some((link as usize, step, before(link, step)))
        }
        Position::Inside(link, after) => {
            let step = after as usize - 1;
            Some((link as usize, step, before(link, step)))
        }
    }
}
