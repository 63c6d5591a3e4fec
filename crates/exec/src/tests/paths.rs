//! Walks of several relationships, and shortest ones.

use super::*;

fn var_expand(
    b: &mut Builder,
    input: OpId,
    from: SlotId,
    direction: Direction,
    min: u64,
    max: Option<u64>,
    ends: bool,
) -> (OpId, SlotId, SlotId) {
    let (to, relationships) = (b.slot(), b.slot());
    let op = Op::VarExpand(physical::VarExpand {
        input,
        from,
        to,
        into: false,
        direction,
        types: Vec::new(),
        min,
        max,
        relationships: (!ends).then_some(relationships),
        reversed: false,
        distinct_from: Vec::new(),
        step_predicate: None,
        distinct_ends: ends,
    });
    (b.op(op), to, relationships)
}

/// (start, end, length) of all walks, sorted; without lengths and duplicates where only ends are asked for.
fn walks(
    store: &DataStore,
    direction: Direction,
    min: u64,
    max: Option<u64>,
    ends: bool,
) -> Vec<(i64, i64, i64)> {
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let (expand, to, relationships) = var_expand(&mut b, scan, node, direction, min, max, ends);
    let (from_i, to_i, length) = (b.slot(), b.slot(), b.slot());
    let mut columns = vec![(from_i, b.property(node, "i")), (to_i, b.property(to, "i"))];
    let size = BoundExpr::Call {
        function: isomer_plan::function::Function::Size,
        arguments: vec![BoundExpr::Slot(relationships)],
    };
    columns.push((
        length,
        if ends {
            BoundExpr::Const(0.into())
        } else {
            size
        },
    ));
    let project = b.op(Op::Project {
        input: expand,
        columns,
    });
    let plan = b.produce(project, &[from_i, to_i, length], StatementClass::Read);
    let mut found: Vec<(i64, i64, i64)> = run(store, &plan)
        .iter()
        .map(|row| {
            (
                row[0].as_int().unwrap(),
                row[1].as_int().unwrap(),
                row[2].as_int().unwrap(),
            )
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn walks_use_no_relationship_twice() {
    let store = open();
    // A triangle with a tail: 0 -> 1 -> 2 -> 0, 2 -> 3.
    people(&store, 4, &[(0, 1), (1, 2), (2, 0), (2, 3)]);
    let from_0 = |found: Vec<(i64, i64, i64)>| {
        found
            .into_iter()
            .filter(|walk| walk.0 == 0)
            .map(|walk| (walk.1, walk.2))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        from_0(walks(&store, Direction::Outgoing, 1, None, false)),
        [(0, 3), (1, 1), (2, 2), (3, 3)]
    );
    assert_eq!(
        from_0(walks(&store, Direction::Outgoing, 0, Some(1), false)),
        [(0, 0), (1, 1)]
    );
    assert_eq!(
        from_0(walks(&store, Direction::Both, 2, Some(3), false)),
        [(0, 3), (0, 3), (1, 2), (2, 2), (3, 2), (3, 3)]
    );
    assert_eq!(
        from_0(walks(&store, Direction::Incoming, 3, Some(2), false)),
        []
    );
}

/// The search that visits each node once finds the ends that enumeration finds, on random graphs.
#[test]
fn distinct_ends_are_those_of_all_walks() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for round in 0..12 {
        let store = open();
        let knows: Vec<(u64, u64)> = (0..6 + round % 5).map(|_| (random(5), random(5))).collect();
        people(&store, 5, &knows);
        for direction in [Direction::Outgoing, Direction::Incoming, Direction::Both] {
            for (min, max) in [(0, Some(2)), (1, Some(1)), (1, Some(3)), (1, None)] {
                let mut all: Vec<(i64, i64, i64)> = walks(&store, direction, min, max, false)
                    .into_iter()
                    .map(|walk| (walk.0, walk.1, 0))
                    .collect();
                all.dedup();
                assert_eq!(
                    walks(&store, direction, min, max, true),
                    all,
                    "{knows:?} {direction:?} {min}..{max:?}"
                );
            }
        }
    }
}

/// Walks back to their start, too: over self loops, parallel relationships and cycles of all lengths.
#[test]
fn shortest_rounds_are_those_found_by_length() {
    let mut state = 11_u64;
    let mut random = move |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut lengths = std::collections::BTreeSet::new();
    for round in 0..24 {
        let store = open();
        let nodes = 4 + round % 4;
        let knows: Vec<(u64, u64)> = (0..nodes + round % 3)
            .map(|_| (random(nodes), random(nodes)))
            .collect();
        people(&store, nodes, &knows);
        for direction in [Direction::Outgoing, Direction::Incoming, Direction::Both] {
            for (all, max) in [
                (true, None),
                (false, None),
                (true, Some(2)),
                (false, Some(3)),
            ] {
                let found = shortest(&store, direction, all, 1, max, false);
                assert_eq!(
                    found,
                    shortest(&store, direction, all, 1, max, true),
                    "{knows:?} {direction:?} all: {all} ..{max:?}"
                );
                let rounds = found.iter().filter(|walk| walk.0 == walk.1);
                lengths.extend(rounds.map(|walk| walk.2));
            }
        }
    }
    assert!(
        (1..=4).all(|length| lengths.contains(&length)),
        "{lengths:?}"
    );
}

fn shortest(
    store: &DataStore,
    direction: Direction,
    all: bool,
    min: u64,
    max: Option<u64>,
    predicate: bool,
) -> Vec<(i64, i64, i64)> {
    let mut b = Builder::default();
    let (left, from) = b.scan("Person");
    let (right, to) = b.scan("Person");
    let pairs = b.op(Op::CartesianProduct { input: left, right });
    let path = b.slot();
    let length = BoundExpr::Call {
        function: isomer_plan::function::Function::Length,
        arguments: vec![BoundExpr::Slot(path)],
    };
    let op = Op::ShortestPath(physical::ShortestPath {
        input: pairs,
        from,
        to,
        direction,
        types: Vec::new(),
        min,
        max,
        all,
        path: Some(path),
        relationships: None,
        step_predicate: None,
        // True for every walk, but it forces the search that tries walks by length.
        predicate: predicate.then(|| compare(Comparison::GreaterOrEqual, length.clone(), 0)),
    });
    let op = b.op(op);
    let (from_i, to_i, out) = (b.slot(), b.slot(), b.slot());
    let columns = vec![
        (from_i, b.property(from, "i")),
        (to_i, b.property(to, "i")),
        (out, length),
    ];
    let project = b.op(Op::Project { input: op, columns });
    let plan = b.produce(project, &[from_i, to_i, out, path], StatementClass::Read);
    let rows = run(store, &plan);
    for row in &rows {
        let path = row[3].as_path().unwrap();
        assert_eq!(path.nodes.len(), path.relationships.len() + 1);
        for (at, rel) in path.relationships.iter().enumerate() {
            let (a, b) = (path.nodes[at].id, path.nodes[at + 1].id);
            assert!(
                (rel.source, rel.target) == (a, b) || (rel.target, rel.source) == (a, b),
                "the path hangs together"
            );
        }
    }
    let mut found: Vec<(i64, i64, i64)> = rows
        .iter()
        .map(|row| {
            (
                row[0].as_int().unwrap(),
                row[1].as_int().unwrap(),
                row[2].as_int().unwrap(),
            )
        })
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn shortest_paths_from_both_ends_are_those_found_by_length() {
    let store = open();
    // Two diamonds in a row, a shortcut, a separate pair.
    people(
        &store,
        9,
        &[
            (0, 1),
            (0, 2),
            (1, 3),
            (2, 3),
            (3, 4),
            (3, 5),
            (4, 6),
            (5, 6),
            (6, 0),
            (7, 8),
            (7, 8),
        ],
    );
    for direction in [Direction::Outgoing, Direction::Incoming, Direction::Both] {
        for all in [false, true] {
            for (min, max) in [(0, None), (1, None), (1, Some(3)), (0, Some(1))] {
                assert_eq!(
                    shortest(&store, direction, all, min, max, false),
                    shortest(&store, direction, all, min, max, true),
                    "{direction:?} all: {all} {min}..{max:?}"
                );
            }
        }
    }
    let found = shortest(&store, Direction::Outgoing, true, 1, None, false);
    assert_eq!(
        found
            .iter()
            .filter(|walk| (walk.0, walk.1) == (0, 6))
            .collect::<Vec<_>>(),
        [&(0, 6, 4); 4]
    );
    assert!(!found.iter().any(|walk| walk.0 < 7 && walk.1 >= 7));
}
