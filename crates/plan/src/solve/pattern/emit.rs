//! From moves to operators.

use super::{Move, Problem, Progress};
use crate::expr::{BoundExpr, Comparison, LocalId, QuantifierKind, SlotId, TypeRef};
use crate::logical::{Length, PatternRelationship};
use crate::physical::{
    Direction, Expand, ExpandInto, Op, OpId, PathSearch, RelationshipEnds, RelationshipIndexSeek,
    RelationshipScan, ShortestPath, VarExpand,
};
use crate::solve::seek::{Access, AccessKind, RelAccess};
use crate::solve::{Flow, Planner};

impl Planner<'_> {
    /// Emits the operator of a move that [`advance`](Self::advance) has applied.
    pub(super) fn emit(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
        next: Move,
        solved: &mut Vec<usize>,
    ) {
        let rows = progress.rows;
        let mut apart: Vec<usize> = Vec::new();
        let relationship = match &next {
            Move::Scan(at, _) | Move::Follow(at, _) | Move::Close(at) | Move::Check(at) => {
                Some(*at)
            }
            Move::Find(..) => None,
        };
        match next {
            Move::Find(node, access) => {
                let node = problem.graph.nodes[node];
                match access.kind {
                    AccessKind::Union(parts) => {
                        let part = |part: Access| {
                            (part.rows, move |input| part.clone().operator(input, node))
                        };
                        self.union_of(flow, parts.into_iter().map(part), Some(vec![node]), rows);
                    }
                    _ => self.push(flow, |input| access.operator(input, node), rows),
                }
            }
            Move::Scan(at, access) => {
                emit_scan(self, flow, &problem.graph.relationships[at], access, rows);
                // Expands compare what they find with earlier relationships (`distinct_from`). A scan does not, so a
                // filter above it does.
                apart.push(at);
            }
            Move::Follow(at, from) => emit_follow(self, problem, flow, at, from, solved, rows),
            Move::Close(at) => emit_close(self, problem, flow, at, solved, rows),
            Move::Check(at) => emit_check(self, problem, flow, at, solved, rows),
        }
        if let Some(at) = relationship {
            let apart = apart
                .iter()
                .flat_map(|at| overlapping(problem, *at, solved))
                .map(|other| (at, other))
                .collect();
            self.keep_apart(problem, flow, apart);
            solved.push(at);
        }
        self.compute_outer_values(problem, progress, flow);
        self.emit_testable(problem, progress, flow);
    }

    /// What each of the parts finds for a row of `flow`; with `distinct`, each combination of these slots once.
    fn union_of<F: Fn(OpId) -> Op>(
        &mut self,
        flow: &mut Flow,
        parts: impl Iterator<Item = (f64, F)>,
        distinct: Option<Vec<SlotId>>,
        rows: f64,
    ) {
        let is_first = matches!(self.arena.operators[flow.op.index()].op, Op::Argument);
        // Each part begins with the row below. If that is a leaf already, the parts replace it;
        // otherwise they are the right side of an apply.
        let outer = match is_first {
            true => self.outer,
            false => Some(flow.op),
        };
        let before = std::mem::replace(&mut self.outer, outer);
        let mut inputs = Vec::new();
        for (rows, op) in parts {
            let leaf = self.argument();
            inputs.push(self.arena.push(op(leaf), rows));
        }
        self.outer = before;
        let mut right = self.arena.push(Op::Union { inputs }, rows);
        if let Some(slots) = distinct {
            let input = right;
            right = self.arena.push(Op::Distinct { input, slots }, rows);
        }
        match is_first {
            true => flow.op = right,
            false => self.push(flow, |input| Op::Apply { input, right }, rows),
        }
    }

    /// Tests that relationships of separately solved components differ.
    pub(super) fn keep_apart(
        &mut self,
        problem: &Problem,
        flow: &mut Flow,
        pairs: Vec<(usize, usize)>,
    ) {
        let tests = pairs
            .into_iter()
            .map(|(a, b)| {
                let local = self.arena.local();
                different(
                    &problem.graph.relationships[a],
                    &problem.graph.relationships[b],
                    local,
                )
            })
            .collect();
        self.filter(flow, tests);
    }
}

/// A scan of a relationship's types, a seek in an index over one of them, or several seeks.
fn emit_scan(
    planner: &mut Planner<'_>,
    flow: &mut Flow,
    one: &PatternRelationship,
    access: RelAccess,
    rows: f64,
) {
    let scan = |input| RelationshipScan {
        input,
        relationship: one.slot,
        from: one.from,
        to: one.to,
        direction: one.direction,
        types: one.types.clone(),
    };
    let overlaps = access.overlaps;
    let count = access.seeks.len().max(1) as f64;
    let mut seeks = access.seeks.into_iter().map(|(of_type, seek)| {
        let op = move |input| {
            Op::RelationshipIndexSeek(RelationshipIndexSeek {
                scan: RelationshipScan {
                    types: vec![of_type],
                    ..scan(input)
                },
                index: seek.index,
                prefix: seek.prefix.clone(),
                range: seek.range.clone(),
                descending: false,
            })
        };
        (access.rows / count, op)
    });
    match seeks.len() {
        0 => planner.push(flow, |input| Op::RelationshipScan(scan(input)), rows),
        1 => {
            if let Some((_, op)) = seeks.next() {
                planner.push(flow, op, rows);
            }
        }
        // Without a direction, a relationship is found once from each end.
        _ => {
            let distinct = overlaps.then(|| vec![one.slot, one.from, one.to]);
            planner.union_of(flow, seeks, distinct, rows);
        }
    }
}

fn emit_follow(
    planner: &mut Planner<'_>,
    problem: &Problem,
    flow: &mut Flow,
    at: usize,
    forward: bool,
    solved: &[usize],
    rows: f64,
) {
    let one = &problem.graph.relationships[at];
    let (from, to) = if forward {
        (one.from, one.to)
    } else {
        (one.to, one.from)
    };
    let direction = if forward {
        one.direction
    } else {
        one.direction.reversed()
    };
    let distinct_from = slots(problem, overlapping(problem, at, solved));
    let types = one.types.clone();
    // Both ends may be one node: `(a)-->(a)`.
    if from == to {
        return emit_close(planner, problem, flow, at, solved, rows);
    }
    match &one.length {
        Length::One => planner.push(
            flow,
            |input| {
                Op::Expand(Expand {
                    input,
                    from,
                    direction,
                    types,
                    relationship: Some(one.slot),
                    to,
                    distinct_from,
                    group: false,
                })
            },
            rows,
        ),
        Length::Walk { .. } => emit_walk(
            planner,
            problem,
            flow,
            at,
            (from, to),
            direction,
            false,
            solved,
            rows,
        ),
        Length::Repeat(walk) => {
            // The lists that the walk binds are in the order of the pattern, whichever end it starts from.
            let reversed = from == one.to;
            let walk = if reversed {
                walk.reversed()
            } else {
                (**walk).clone()
            };
            let search = |input| {
                Op::PathSearch(PathSearch {
                    input,
                    from,
                    to,
                    into: false,
                    walk,
                    reversed,
                    selector: None,
                    path: None,
                    relationships: Some(one.slot),
                    distinct_from,
                    predicate: None,
                })
            };
            planner.push(flow, search, rows);
        }
        Length::Shortest { .. } | Length::Selected(_) => {
            unreachable!("a shortest path is never followed from one end")
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "one operator's worth of facts")]
fn emit_walk(
    planner: &mut Planner<'_>,
    problem: &Problem,
    flow: &mut Flow,
    at: usize,
    (from, to): (SlotId, SlotId),
    direction: Direction,
    into: bool,
    solved: &[usize],
    rows: f64,
) {
    let one = &problem.graph.relationships[at];
    let Length::Walk { min, max } = one.length else {
        return;
    };
    let walk = |input| {
        Op::VarExpand(VarExpand {
            input,
            from,
            to,
            into,
            direction,
            types: one.types.clone(),
            min,
            max,
            relationships: Some(one.slot),
            reversed: from == one.to && one.from != one.to,
            distinct_from: slots(problem, overlapping(problem, at, solved)),
            step_predicate: one.step_predicate.clone(),
            distinct_ends: false,
        })
    };
    planner.push(flow, walk, rows);
}

fn emit_close(
    planner: &mut Planner<'_>,
    problem: &Problem,
    flow: &mut Flow,
    at: usize,
    solved: &[usize],
    rows: f64,
) {
    let one = &problem.graph.relationships[at];
    let distinct_from = slots(problem, overlapping(problem, at, solved));
    let (from, to, direction, types) = (one.from, one.to, one.direction, one.types.clone());
    match &one.length {
        Length::One => {
            let relationship = Some(one.slot);
            planner.push(
                flow,
                |input| {
                    Op::ExpandInto(ExpandInto {
                        input,
                        from,
                        to,
                        direction,
                        types,
                        relationship,
                        distinct_from,
                    })
                },
                rows,
            );
        }
        Length::Walk { .. } => emit_walk(
            planner,
            problem,
            flow,
            at,
            (from, to),
            direction,
            true,
            solved,
            rows,
        ),
        Length::Shortest {
            min,
            max,
            all,
            path,
            predicate,
            ..
        } => {
            let shortest = |input| {
                Op::ShortestPath(ShortestPath {
                    input,
                    from,
                    to,
                    direction,
                    types,
                    min: *min,
                    max: *max,
                    all: *all,
                    path: *path,
                    relationships: Some(one.slot),
                    step_predicate: one.step_predicate.clone(),
                    predicate: predicate.clone(),
                })
            };
            planner.push(flow, shortest, rows);
            keep_selected_apart(planner, problem, flow, at, solved);
        }
        Length::Repeat(walk) => {
            let search = |input| {
                Op::PathSearch(PathSearch {
                    input,
                    from,
                    to,
                    into: true,
                    walk: (**walk).clone(),
                    reversed: false,
                    selector: None,
                    path: None,
                    relationships: Some(one.slot),
                    distinct_from,
                    predicate: None,
                })
            };
            planner.push(flow, search, rows);
        }
        Length::Selected(selected) => {
            let search = |input| {
                Op::PathSearch(PathSearch {
                    input,
                    from,
                    to,
                    into: true,
                    walk: selected.walk.clone(),
                    reversed: false,
                    selector: Some(selected.selector),
                    path: selected.path,
                    relationships: Some(one.slot),
                    // Not excluded during the search: the selector would then pick other walks than the
                    // shortest ones. They are compared afterwards (`keep_selected_apart`).
                    distinct_from: Vec::new(),
                    predicate: selected.predicate.clone(),
                })
            };
            planner.push(flow, search, rows);
            keep_selected_apart(planner, problem, flow, at, solved);
        }
    }
}

/// Paths are selected before their relationships are compared with those of the clause's other patterns.
fn keep_selected_apart(
    planner: &mut Planner<'_>,
    problem: &Problem,
    flow: &mut Flow,
    at: usize,
    solved: &[usize],
) {
    let pairs: Vec<(usize, usize)> = overlapping(problem, at, solved)
        .map(|other| (at, other))
        .collect();
    if !pairs.is_empty() {
        planner.keep_apart(problem, flow, pairs);
    }
}

fn emit_check(
    planner: &mut Planner<'_>,
    problem: &Problem,
    flow: &mut Flow,
    at: usize,
    solved: &[usize],
    rows: f64,
) {
    let one = &problem.graph.relationships[at];
    let ends = |input| {
        Op::RelationshipEnds(RelationshipEnds {
            input,
            relationship: one.slot,
            from: one.from,
            // An end that is bound is compared; one that is not gets its value from the relationship.
            from_bound: flow.bound.contains(&one.from),
            to: one.to,
            to_bound: flow.bound.contains(&one.to),
            direction: one.direction,
            types: one.types.clone(),
            distinct_from: slots(problem, overlapping(problem, at, solved)),
        })
    };
    flow.op = planner.arena.push(ends(flow.op), rows);
}

/// Relationships solved earlier from which the one at `at` must differ: of the same clause, and possibly the same.
pub(super) fn overlapping<'s>(
    problem: &'s Problem,
    at: usize,
    solved: &'s [usize],
) -> impl Iterator<Item = usize> + 's {
    let one = &problem.graph.relationships[at];
    solved.iter().copied().filter(move |other| {
        let other = &problem.graph.relationships[*other];
        // `shortestPath(…)` ignores the other paths of its clause.
        let alone = |one: &PatternRelationship| {
            matches!(
                one.length,
                Length::Shortest {
                    takes_conditions: true,
                    ..
                }
            )
        };
        other.clause == one.clause
            && !alone(one)
            && !alone(other)
            // Relationships of different types are different ones: nothing to compare.
            && types_overlap(&one.types, &other.types)
    })
}

fn types_overlap(a: &[TypeRef], b: &[TypeRef]) -> bool {
    a.is_empty() || b.is_empty() || a.iter().any(|one| b.contains(one))
}

pub(super) fn slots(problem: &Problem, relationships: impl Iterator<Item = usize>) -> Vec<SlotId> {
    relationships
        .map(|at| problem.graph.relationships[at].slot)
        .collect()
}

/// The test that two pattern relationships share no relationship.
pub(super) fn different(
    a: &PatternRelationship,
    b: &PatternRelationship,
    local: LocalId,
) -> BoundExpr {
    let single = |one: &PatternRelationship| matches!(one.length, Length::One);
    let slot = |one: &PatternRelationship| Box::new(BoundExpr::Slot(one.slot));
    match (single(a), single(b)) {
        (true, true) => BoundExpr::Compare {
            op: Comparison::NotEqual,
            left: slot(a),
            right: slot(b),
        },
        (true, false) => BoundExpr::Not(Box::new(BoundExpr::In {
            item: slot(a),
            list: slot(b),
        })),
        (false, true) => BoundExpr::Not(Box::new(BoundExpr::In {
            item: slot(b),
            list: slot(a),
        })),
        (false, false) => BoundExpr::Quantifier {
            kind: QuantifierKind::None,
            list: slot(a),
            local,
            predicate: Box::new(BoundExpr::In {
                item: Box::new(BoundExpr::Local(local)),
                list: slot(b),
            }),
        },
    }
}
