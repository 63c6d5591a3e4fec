//! Greedy search: the moves possible in a state, their costs, and their results.

use super::{Move, Problem, Progress};
use crate::expr::SlotId;
use crate::logical::{Length, PatternRelationship};
use crate::solve::Planner;
use crate::solve::seek::{Access, Facts, RelAccess, best_access, best_rel_access, hinted_access};
use rustc_hash::FxHashSet;

/// Fixed cost of a scan, in rows: a transaction that scanned conflicts with every writer of the label or type, so that
/// a lookup is better even if there is almost nothing to scan.
pub(super) const SCAN_COST: f64 = 10.0;

impl Planner<'_> {
    /// The cheapest move from the bound slots; none if no unsolved element touches them.
    pub(super) fn next_move(&self, problem: &Problem, progress: &Progress) -> Option<Move> {
        let mut best: Option<(f64, Move)> = None;
        let mut consider = |cost: f64, next: Move| {
            if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                best = Some((cost, next));
            }
        };
        for (at, relationship) in problem.graph.relationships.iter().enumerate() {
            if !progress.relationship_open[at] {
                continue;
            }
            let ready = problem.condition_slots[at]
                .iter()
                .all(|slot| progress.bound.contains(slot));
            let from = progress.bound.contains(&relationship.from);
            let to = progress.bound.contains(&relationship.to);
            // An end that another component has already found: this relationship waits until the components are joined.
            if self.is_elsewhere(problem, progress, relationship.from)
                || self.is_elsewhere(problem, progress, relationship.to)
            {
                continue;
            }
            match (&relationship.length, relationship.bound, from, to) {
                // The relationship is in the row already: reading its ends needs no lookup.
                (_, true, ..) => {
                    if progress.bound.contains(&relationship.slot) {
                        consider(progress.rows * 0.5, Move::Check(at));
                    }
                }
                (_, _, true, true) if relationship.needs_both_ends() && ready => {
                    // A shortest path between two bound nodes: a search for each row, which does not multiply the
                    // rows.
                    consider(progress.rows * 3.0, Move::Close(at))
                }
                _ if relationship.needs_both_ends() => {}
                // A condition of the walk reads an element that is not found yet: it waits for that element.
                _ if !ready && (from || to) => {}
                (_, _, true, true) => {
                    // A walk between two bound nodes explores as many paths as one to any node.
                    let tried = match relationship.length {
                        Length::One => closing_rows(self, problem, relationship),
                        _ => 1.0 + self.fan_out(problem, relationship, relationship.from),
                    };
                    consider(progress.rows * tried, Move::Close(at));
                }
                (_, _, true, false) | (_, _, false, true) => {
                    let (near, far) = if from {
                        (relationship.from, relationship.to)
                    } else {
                        (relationship.to, relationship.from)
                    };
                    if problem.is_hinted(far)
                        && let Some(node) = problem.positions.get(&far)
                    {
                        let access = self.access(problem, progress, far);
                        let cost = progress.rows * (1.0 + access.rows);
                        consider(cost, Move::Find(*node, access));
                        continue;
                    }
                    let fan_out = self.fan_out(problem, relationship, near);
                    let kept = bound_selectivity(self, problem, progress, far, relationship.slot);
                    consider(
                        // Half a row of work for each neighbour that is read, and a whole one for each that remains.
                        progress.rows * (1.0 + fan_out * (0.5 + kept)),
                        Move::Follow(at, from),
                    );
                    // If the far end is a single lookup away, it is cheaper than expanding a node of high degree.
                    if let Some(node) = problem.graph.nodes.iter().position(|slot| *slot == far)
                        && matches!(relationship.length, Length::One)
                    {
                        let access = self.access(problem, progress, far);
                        if access.is_seek() && access.rows <= 2.0 && fan_out > 4.0 {
                            consider(
                                progress.rows * (1.0 + access.rows),
                                Move::Find(node, access),
                            );
                        }
                    }
                }
                // Nothing leads here yet.
                (_, _, false, false) => {}
            }
        }
        if best.is_none() {
            // A condition that waits for something found over this very walk would never be met.
            best = stuck_move(problem, progress).map(|next| (0.0, next));
        }
        best.map(|(_, next)| next)
    }

    /// Whether a node of the pattern is found, but not in the component that is being solved.
    pub(super) fn is_elsewhere(
        &self,
        problem: &Problem,
        progress: &Progress,
        node: SlotId,
    ) -> bool {
        let position = problem.positions.get(&node);
        position.is_some_and(|at| !progress.node_open[*at]) && !progress.bound.contains(&node)
    }

    pub(super) fn access(&self, problem: &Problem, progress: &Progress, node: SlotId) -> Access {
        self.access_with(problem, progress, node, &progress.bound)
    }

    /// The best access path when only the slots in `bound` are known.
    pub(super) fn access_with(
        &self,
        problem: &Problem,
        progress: &Progress,
        node: SlotId,
        bound: &FxHashSet<SlotId>,
    ) -> Access {
        let facts = Facts {
            predicates: &problem.graph.predicates,
            open: &progress.predicate_open,
            about: problem.about(node),
            labels: problem.labels(node),
        };
        if let Some(hint) = problem.hinted.get(&node)
            && let Some(access) = hinted_access(&self.costs, self.arena, &facts, node, bound, hint)
        {
            return access;
        }
        best_access(&self.costs, self.arena, &facts, node, bound)
    }

    /// The best access path to a relationship and both its ends when only the slots in `bound` are known.
    pub(super) fn rel_access(
        &self,
        problem: &Problem,
        progress: &Progress,
        at: usize,
        bound: &FxHashSet<SlotId>,
    ) -> RelAccess {
        let one = &problem.graph.relationships[at];
        let facts = Facts {
            predicates: &problem.graph.predicates,
            open: &progress.predicate_open,
            about: problem.about(one.slot),
            labels: &[],
        };
        let hint = problem.hinted.get(&one.slot);
        best_rel_access(&self.costs, self.arena, &facts, one, bound, hint)
    }

    pub(super) fn fan_out(
        &self,
        problem: &Problem,
        relationship: &PatternRelationship,
        near: SlotId,
    ) -> f64 {
        let direction = if near == relationship.from {
            relationship.direction
        } else {
            relationship.direction.reversed()
        };
        self.costs
            .fan_out(relationship, problem.labels(near), direction, self.arena)
    }

    /// Applies a move in the search: its bindings, and the estimated rows.
    pub(super) fn advance(&self, problem: &Problem, progress: &mut Progress, next: &Move) {
        let rows = progress.rows;
        let (found, covers): (f64, &[usize]) = match next {
            Move::Find(node, access) => {
                if !access.is_seek() {
                    progress.work += SCAN_COST;
                }
                progress.node_open[*node] = false;
                progress.bound.insert(problem.graph.nodes[*node]);
                (rows * access.rows, &access.covers)
            }
            Move::Scan(at, access) => {
                if !access.is_seek() {
                    progress.work += SCAN_COST;
                }
                bind_relationship(problem, progress, *at);
                (rows * access.rows, &access.covers)
            }
            Move::Follow(at, from) => {
                let relationship = &problem.graph.relationships[*at];
                let near = if *from {
                    relationship.from
                } else {
                    relationship.to
                };
                let fan_out = self.fan_out(problem, relationship, near);
                bind_relationship(problem, progress, *at);
                (rows * fan_out, &[])
            }
            Move::Close(at) => {
                let relationship = &problem.graph.relationships[*at];
                if matches!(relationship.length, Length::Walk { .. } | Length::Repeat(_)) {
                    progress.work += rows * self.fan_out(problem, relationship, relationship.from);
                }
                let share = match relationship.length {
                    _ if relationship.needs_both_ends() => 1.0,
                    _ => closing_rows(self, problem, relationship),
                };
                bind_relationship(problem, progress, *at);
                (rows * share, &[])
            }
            Move::Check(at) => {
                bind_relationship(problem, progress, *at);
                (rows, &[])
            }
        };
        progress.work += rows + found;
        progress.rows = found;
        for at in covers {
            progress.predicate_open[*at] = false;
        }
    }

    /// Marks the predicates that can be tested now as tested, and returns them, together with the paths whose parts are
    /// bound.
    pub(super) fn testable(
        &self,
        problem: &Problem,
        progress: &mut Progress,
    ) -> (Vec<usize>, Vec<usize>) {
        let mut paths = Vec::new();
        for (at, (slot, _)) in problem.graph.paths.iter().enumerate() {
            let ready = problem.path_slots[at]
                .iter()
                .all(|slot| progress.bound.contains(slot));
            // A path is built before the predicates that read it are tested, hence in the same pass.
            if progress.path_open[at] && ready {
                progress.path_open[at] = false;
                progress.bound.insert(*slot);
                paths.push(at);
            }
        }
        let mut predicates = Vec::new();
        for (at, slots) in problem.predicate_slots.iter().enumerate() {
            if progress.predicate_open[at] && slots.iter().all(|slot| progress.bound.contains(slot))
            {
                progress.predicate_open[at] = false;
                predicates.push(at);
            }
        }
        (paths, predicates)
    }

    /// In the search: reduces the estimated rows by the predicates that can be tested.
    pub(super) fn thin(&self, problem: &Problem, progress: &mut Progress) {
        let (_, predicates) = self.testable(problem, progress);
        for at in predicates {
            progress.work += progress.rows * 0.5;
            progress.rows *= self
                .costs
                .selectivity(&problem.graph.predicates[at], self.arena);
        }
    }
}

/// Moves whose conditions can never be met first: a walk whose step condition reads something found later in the
/// pattern is followed last.
fn stuck_move(problem: &Problem, progress: &Progress) -> Option<Move> {
    if progress.node_open.iter().filter(|open| **open).count() > 0 {
        return None;
    }
    problem
        .graph
        .relationships
        .iter()
        .enumerate()
        .find_map(|(at, one)| {
            // In a component that is solved separately, an end may belong to another component: then it waits for
            // the join.
            let both = progress.bound.contains(&one.from) && progress.bound.contains(&one.to);
            (progress.relationship_open[at] && both).then_some(Move::Close(at))
        })
}

fn closing_rows(
    planner: &Planner<'_>,
    problem: &Problem,
    relationship: &PatternRelationship,
) -> f64 {
    let fan_out = planner.fan_out(problem, relationship, relationship.from);
    (fan_out / planner.costs.nodes(None, planner.arena)).min(1.0)
}

/// The combined selectivity of the predicates on a node and relationship that were just bound.
pub(super) fn bound_selectivity(
    planner: &Planner<'_>,
    problem: &Problem,
    progress: &Progress,
    node: SlotId,
    relationship: SlotId,
) -> f64 {
    let mut kept = 1.0;
    for at in problem
        .about(node)
        .iter()
        .chain(problem.about(relationship))
    {
        let testable = problem.predicate_slots[*at]
            .iter()
            .all(|slot| *slot == node || *slot == relationship || progress.bound.contains(slot));
        if progress.predicate_open[*at] && testable {
            kept *= planner
                .costs
                .selectivity(&problem.graph.predicates[*at], planner.arena);
        }
    }
    kept
}

fn bind_relationship(problem: &Problem, progress: &mut Progress, at: usize) {
    let relationship = &problem.graph.relationships[at];
    progress.relationship_open[at] = false;
    progress
        .bound
        .extend([relationship.slot, relationship.from, relationship.to]);
    progress.bound.extend(relationship.inner_slots());
    for (node, open) in problem.graph.nodes.iter().zip(&mut progress.node_open) {
        if *node == relationship.from || *node == relationship.to {
            *open = false;
        }
    }
}
