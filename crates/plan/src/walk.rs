//! Path patterns that are found by a search: single steps and repeated groups, one after the other.
//!
//! `(a)-[r:R]->(m) ((x)-[s:S]->(y) WHERE x.v < y.v)+ (b)` is a walk of two links, the step `r` and the group, with one
//! junction between them, `m`. Its ends `a` and `b` are slots of the operator that carries it.
//!
//! Elements of a link are numbered along it: 0 is the node where it starts, 1 its first relationship, 2 the node after
//! that, and so on. While the search is in a link the [`LocalId`]s of its elements stand for what they are bound to in the
//! repetition at hand; outside, the slot of an element of a group holds the list of what it was bound to, one for each
//! repetition, and that of any other element the element itself.

use crate::expr::{Expr, LocalId, SlotId, TypeRef};
use crate::physical::Direction;

/// What a search walks along.
#[derive(Clone, Debug)]
pub struct Walk {
    /// One after the other; at least one.
    pub links: Vec<WalkLink>,
    /// The nodes between the links: one fewer than these.
    pub junctions: Vec<Junction>,
}

/// A node between two links.
#[derive(Clone, Debug)]
pub struct Junction {
    /// Stands for the node in `checks`.
    pub local: LocalId,
    /// Gets the node; absent if nobody reads it.
    pub slot: Option<SlotId>,
    /// Must be true of the node. May read slots of the input.
    pub checks: Vec<Expr>,
}

/// One step, or a group of steps that is repeated.
#[derive(Clone, Debug)]
pub struct WalkLink {
    /// How often, both ends included, and no upper bound if absent; absent for a step that is no group.
    pub repeat: Option<(u64, Option<u64>)>,
    /// Where each repetition starts.
    pub start: Element,
    /// At least one.
    pub steps: Vec<WalkStep>,
    /// What must be true in each repetition.
    pub checks: Vec<Check>,
}

/// A relationship and the node that it leads to.
#[derive(Clone, Debug)]
pub struct WalkStep {
    /// Which way.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// The relationship.
    pub relationship: Element,
    /// The node.
    pub node: Element,
}

/// A node or relationship of a link.
#[derive(Clone, Copy, Debug)]
pub struct Element {
    /// Stands for it in the checks of the link.
    pub local: LocalId,
    /// Gets it, or the list of those of all repetitions; absent if nobody reads it.
    pub slot: Option<SlotId>,
}

/// A condition on elements of one repetition.
#[derive(Clone, Debug)]
pub struct Check {
    /// The first element that it reads.
    pub first: usize,
    /// The last one: it can be tested once this is bound.
    pub last: usize,
    /// The condition. May read slots of the input.
    pub condition: Expr,
}

/// Which of the walks between two nodes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// So many of the shortest.
    Paths(u64),
    /// All of so many shortest lengths.
    Groups(u64),
}

impl Walk {
    /// The walk from its other end.
    pub fn reversed(&self) -> Self {
        Self {
            links: self.links.iter().rev().map(WalkLink::reversed).collect(),
            junctions: self.junctions.iter().rev().cloned().collect(),
        }
    }

    /// The slots that it binds.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        let links = self.links.iter().flat_map(WalkLink::elements);
        links
            .filter_map(|element| element.slot)
            .chain(self.junctions.iter().filter_map(|junction| junction.slot))
    }

    /// Calls `visit` for every slot that it binds, which may take it away.
    pub(crate) fn for_each_slot_mut(&mut self, visit: &mut dyn FnMut(&mut Option<SlotId>)) {
        for link in &mut self.links {
            visit(&mut link.start.slot);
            for step in &mut link.steps {
                visit(&mut step.relationship.slot);
                visit(&mut step.node.slot);
            }
        }
        for junction in &mut self.junctions {
            visit(&mut junction.slot);
        }
    }

    /// Calls `visit` for every condition.
    pub fn for_each_expr<'w>(&'w self, visit: &mut dyn FnMut(&'w Expr)) {
        for link in &self.links {
            link.checks.iter().for_each(|check| visit(&check.condition));
        }
        for junction in &self.junctions {
            junction.checks.iter().for_each(&mut *visit);
        }
    }

    /// Whether its length has an upper bound.
    pub fn is_bounded(&self) -> bool {
        self.links
            .iter()
            .all(|link| !matches!(link.repeat, Some((_, None))))
    }

    /// The types that its relationships may have: none if any.
    pub(crate) fn types(&self) -> Vec<TypeRef> {
        let mut types = Vec::new();
        for step in self.links.iter().flat_map(|link| &link.steps) {
            if step.types.is_empty() {
                return Vec::new();
            }
            types.extend(&step.types);
        }
        types.sort_unstable();
        types.dedup();
        types
    }
}

impl WalkLink {
    fn reversed(&self) -> Self {
        let last = 2 * self.steps.len();
        let nodes: Vec<Element> = std::iter::once(self.start)
            .chain(self.steps.iter().map(|step| step.node))
            .collect();
        Self {
            repeat: self.repeat,
            start: *nodes.last().expect("a link has a step"),
            steps: self
                .steps
                .iter()
                .enumerate()
                .rev()
                .map(|(at, step)| WalkStep {
                    direction: step.direction.reversed(),
                    types: step.types.clone(),
                    relationship: step.relationship,
                    node: nodes[at],
                })
                .collect(),
            checks: self
                .checks
                .iter()
                .map(|check| Check {
                    first: last - check.last,
                    last: last - check.first,
                    condition: check.condition.clone(),
                })
                .collect(),
        }
    }

    /// Its elements, in their order.
    pub fn elements(&self) -> impl Iterator<Item = Element> + '_ {
        std::iter::once(self.start).chain(
            self.steps
                .iter()
                .flat_map(|step| [step.relationship, step.node]),
        )
    }
}
