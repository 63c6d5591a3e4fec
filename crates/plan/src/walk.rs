//! Path patterns that are matched by a search: sequences of single steps and repeated groups.
//!
//! `(a)-[r:R]->(m) ((x)-[s:S]->(y) WHERE x.v < y.v)+ (b)` is a walk of two links, the step `r` and the group, with one
//! junction between them, `m`. Its ends `a` and `b` are slots of the operator that carries it.
//!
//! Elements of a link are numbered along it: 0 is its start node, 1 its first relationship, 2 the next node, and so on.
//! While the search is in a link, the [`LocalId`]s of its elements are bound to the entities of the current repetition;
//! outside, the slot of an element of a group holds the list of its bindings, one per repetition, and that of any other
//! element the entity itself.

use crate::expr::{BoundExpr, LocalId, SlotId, TypeRef};
use isomer_value::Direction;

/// The pattern of a walk search.
#[derive(Clone, Debug)]
pub struct Walk {
    /// In order; at least one.
    pub links: Vec<WalkLink>,
    /// The nodes between the links: one fewer than there are links.
    pub junctions: Vec<Junction>,
    /// Whether it may use a relationship more than once: `REPEATABLE ELEMENTS`. Only a bounded walk without a selector
    /// may.
    pub repeats: bool,
}

/// A node between two links.
#[derive(Clone, Debug)]
pub struct Junction {
    /// Bound to the node in `checks`.
    pub local: LocalId,
    /// Receives the node; absent if it is not read.
    pub slot: Option<SlotId>,
    /// Must be true of the node. May read slots of the input.
    pub checks: Vec<BoundExpr>,
}

/// One step, or a group of steps that is repeated.
#[derive(Clone, Debug)]
pub struct WalkLink {
    /// Number of repetitions, inclusive; no upper bound if absent; absent for a single step.
    pub repeat: Option<(u64, Option<u64>)>,
    /// The start node of each repetition.
    pub start: WalkElement,
    /// At least one.
    pub steps: Vec<WalkStep>,
    /// Conditions on each repetition.
    pub checks: Vec<WalkCheck>,
}

/// A relationship and the node that it leads to.
#[derive(Clone, Debug)]
pub struct WalkStep {
    /// Which way.
    pub direction: Direction,
    /// One of these; any if empty.
    pub types: Vec<TypeRef>,
    /// The relationship.
    pub relationship: WalkElement,
    /// The node.
    pub node: WalkElement,
}

/// A node or relationship of a link.
#[derive(Clone, Copy, Debug)]
pub struct WalkElement {
    /// Bound to it in the checks of the link.
    pub local: LocalId,
    /// Receives it, or the list over all repetitions; absent if it is not read.
    pub slot: Option<SlotId>,
}

/// A condition on elements of one repetition.
#[derive(Clone, Debug)]
pub struct WalkCheck {
    /// The first element that it reads.
    pub first: usize,
    /// The last one: the condition can be checked once this is bound.
    pub last: usize,
    /// The condition. May read slots of the input.
    pub condition: BoundExpr,
}

/// Which of the walks between two nodes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector {
    /// This number of shortest walks.
    Paths(u64),
    /// All walks of this number of shortest lengths.
    Groups(u64),
}

impl Walk {
    /// The reversed walk.
    pub fn reversed(&self) -> Self {
        Self {
            links: self.links.iter().rev().map(WalkLink::reversed).collect(),
            junctions: self.junctions.iter().rev().cloned().collect(),
            repeats: self.repeats,
        }
    }

    /// The slots that it binds.
    pub fn slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        let links = self.links.iter().flat_map(WalkLink::elements);
        links
            .filter_map(|element| element.slot)
            .chain(self.junctions.iter().filter_map(|junction| junction.slot))
    }

    /// Calls `visit` for every slot that it binds; `visit` may remove the slot.
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
    pub fn for_each_expr<'w>(&'w self, visit: &mut dyn FnMut(&'w BoundExpr)) {
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

    /// The types that its relationships may have; empty if any type is allowed.
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
        let nodes: Vec<WalkElement> = std::iter::once(self.start)
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
                .map(|check| WalkCheck {
                    first: last - check.last,
                    last: last - check.first,
                    condition: check.condition.clone(),
                })
                .collect(),
        }
    }

    /// Its elements, in their order.
    pub fn elements(&self) -> impl Iterator<Item = WalkElement> + '_ {
        std::iter::once(self.start).chain(
            self.steps
                .iter()
                .flat_map(|step| [step.relationship, step.node]),
        )
    }
}
