//! Scans, filters, expands, aggregates, sorts.

use isomer_plan::physical::SortKey;

use super::*;

#[test]
fn a_scan_gives_every_node_once_over_many_chunks() {
    let store = open();
    people(&store, 5000, &[]);
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let i = b.slot();
    let expr = b.property(node, "i");
    let project = b.op(Op::Project {
        input: scan,
        columns: vec![(i, expr)],
    });
    let plan = b.produce(project, &[i], StatementClass::Read);
    assert_eq!(ints(&run(&store, &plan), 0), (0..5000).collect::<Vec<_>>());
}

#[test]
fn a_filter_keeps_true_rows_and_evaluates_terms_lazily() {
    let store = open();
    people(&store, 30, &[]);
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let (i, age) = (b.property(node, "i"), b.property(node, "age"));
    // 100 / age fails for age 0: the first term shields it.
    let quotient = BoundExpr::Arith {
        op: isomer_plan::expr::Arithmetic::Divide,
        left: Box::new(BoundExpr::Const(100.into())),
        right: Box::new(age.clone()),
    };
    let predicate = BoundExpr::And(vec![
        compare(Comparison::Greater, age, 0),
        compare(Comparison::Equal, quotient, 50),
    ]);
    let filter = b.op(Op::Filter {
        input: scan,
        predicates: vec![predicate],
    });
    let out = b.slot();
    let project = b.op(Op::Project {
        input: filter,
        columns: vec![(out, i)],
    });
    let plan = b.produce(project, &[out], StatementClass::Read);
    assert_eq!(ints(&run(&store, &plan), 0), [2, 12, 22]);
}

#[test]
fn groups_count_alike_flat_factorised_and_by_degrees() {
    let store = open();
    let knows: Vec<(u64, u64)> = (0..40)
        .flat_map(|from| (0..from % 4).map(move |to| (from, to)))
        .collect();
    people(&store, 40, &knows);
    let mut answers = Vec::new();
    for group in [false, true] {
        let mut b = Builder::default();
        let (scan, node) = b.scan("Person");
        let (expand, _, _) = b.expand(scan, node, Direction::Outgoing, group);
        let key = b.slot();
        let age = b.property(node, "age");
        let (aggregate, count) = b.count(expand, vec![(key, age)], Vec::new());
        let plan = b.produce(aggregate, &[key, count], StatementClass::Read);
        answers.push(run(&store, &plan));
    }
    let mut b = Builder::default();
    let (scan, from) = b.scan("Person");
    let count = b.slot();
    let degree = physical::Degree {
        input: scan,
        from,
        direction: Direction::Outgoing,
        types: Vec::new(),
        distinct_from: Vec::new(),
        count,
    };
    let degree = b.op(Op::Degree(degree));
    let key = b.slot();
    let age = b.property(from, "age");
    let (aggregate, total) = b.count(degree, vec![(key, age)], vec![count]);
    let plan = b.produce(aggregate, &[key, total], StatementClass::Read);
    answers.push(run(&store, &plan));

    for answer in &mut answers {
        answer.sort_by(|a, b| a[0].as_int().cmp(&b[0].as_int()));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0], answers[2]);
    // Ages of people without a friend in any of their tens (0, 4 and 8 of some tens) still occur in others.
    assert_eq!(ints(&answers[0], 1).iter().sum::<i64>(), knows.len() as i64);
}

#[test]
fn two_hops_count_without_those_that_use_a_relationship_twice() {
    let store = open();
    // A star of 50 leaves around 0, and a self loop.
    let mut knows: Vec<(u64, u64)> = (1..51).map(|leaf| (0, leaf)).collect();
    knows.push((0, 0));
    people(&store, 51, &knows);
    let run_with = |degrees: bool| {
        let mut b = Builder::default();
        let (scan, node) = b.scan("Person");
        let (first, rel, middle) = b.expand(scan, node, Direction::Both, false);
        let (input, factors) = if degrees {
            let count = b.slot();
            let degree = physical::Degree {
                input: first,
                from: middle,
                direction: Direction::Both,
                types: Vec::new(),
                distinct_from: vec![rel],
                count,
            };
            (b.op(Op::Degree(degree)), vec![count])
        } else {
            let (relationship, to) = (b.slot(), b.slot());
            let expand = physical::Expand {
                input: first,
                from: middle,
                direction: Direction::Both,
                types: Vec::new(),
                relationship: Some(relationship),
                to,
                distinct_from: vec![rel],
                group: true,
            };
            (b.op(Op::Expand(expand)), Vec::new())
        };
        let (aggregate, count) = b.count(input, Vec::new(), factors);
        let plan = b.produce(aggregate, &[count], StatementClass::Read);
        ints(&run(&store, &plan), 0)
    };
    // Leaf to leaf 50 * 49; from 0 over the loop and out 50; out of a leaf and over the loop 50.
    assert_eq!(run_with(true), [50 * 49 + 100]);
    assert_eq!(run_with(false), run_with(true));
}

#[test]
fn top_equals_sort_and_limit() {
    let store = open();
    people(&store, 20_000, &[]);
    let run_with = |top: bool| {
        let mut b = Builder::default();
        let (scan, node) = b.scan("Person");
        let (i, age) = (b.property(node, "i"), b.property(node, "age"));
        let keys = vec![
            SortKey {
                expr: age,
                descending: true,
            },
            SortKey {
                expr: i.clone(),
                descending: false,
            },
        ];
        let limit = BoundExpr::Const(7.into());
        let sorted = if top {
            b.op(Op::Top {
                input: scan,
                keys,
                limit,
            })
        } else {
            let sort = b.op(Op::Sort { input: scan, keys });
            b.op(Op::Limit {
                input: sort,
                count: limit,
            })
        };
        let out = b.slot();
        let project = b.op(Op::Project {
            input: sorted,
            columns: vec![(out, i)],
        });
        let plan = b.produce(project, &[out], StatementClass::Read);
        run(&store, &plan)
            .into_iter()
            .map(|row| row[0].as_int().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(run_with(true), [9, 19, 29, 39, 49, 59, 69]);
    assert_eq!(run_with(false), run_with(true));
}

/// Merging sorted pieces gives the same order as one stable sort.
#[test]
fn long_sorts_are_stable() {
    let store = open();
    let mut b = Builder::default();
    let input = b.op(Op::Argument);
    let (x, out) = (b.slot(), b.slot());
    let range = BoundExpr::Call {
        function: isomer_plan::function::Function::Range,
        arguments: vec![BoundExpr::Const(0.into()), BoundExpr::Const(200_000.into())],
    };
    let unwind = b.op(Op::Unwind {
        input,
        list: range,
        element: x,
        position: None,
    });
    let key = BoundExpr::Arith {
        op: isomer_plan::expr::Arithmetic::Modulo,
        left: Box::new(BoundExpr::Slot(x)),
        right: Box::new(BoundExpr::Const(1000.into())),
    };
    let project = b.op(Op::Project {
        input: unwind,
        columns: vec![(out, key)],
    });
    let sort = b.op(Op::Sort {
        input: project,
        keys: vec![SortKey {
            expr: BoundExpr::Slot(out),
            descending: true,
        }],
    });
    let plan = b.produce(sort, &[x], StatementClass::Read);
    let given: Vec<i64> = run(&store, &plan)
        .iter()
        .map(|row| row[0].as_int().unwrap())
        .collect();
    let mut expected: Vec<i64> = (0..=200_000).collect();
    expected.sort_by_key(|x| std::cmp::Reverse(x % 1000));
    assert_eq!(given, expected);
}

#[test]
fn optional_rows_keep_their_place_whether_run_in_chunks_or_one_by_one() {
    let store = open();
    people(&store, 6, &[(1, 2), (1, 3), (4, 0)]);
    for batched in [true, false] {
        let mut b = Builder::default();
        let (scan, node) = b.scan("Person");
        let argument = b.op(Op::Argument);
        let (mut right, _, to) = b.expand(argument, node, Direction::Outgoing, false);
        if !batched {
            right = b.op(Op::Limit {
                input: right,
                count: BoundExpr::Const(100.into()),
            });
        }
        let optional = b.op(Op::OptionalApply {
            input: scan,
            right,
            nulls: vec![to],
        });
        let (left, friend) = (b.slot(), b.slot());
        let columns = vec![(left, b.property(node, "i")), (friend, b.property(to, "i"))];
        let project = b.op(Op::Project {
            input: optional,
            columns,
        });
        let plan = b.produce(project, &[left, friend], StatementClass::Read);
        let rows: Vec<(Option<i64>, Option<i64>)> = run(&store, &plan)
            .iter()
            .map(|row| (row[0].as_int(), row[1].as_int()))
            .collect();
        let none = |i| (Some(i), None);
        let some = |i, friend| (Some(i), Some(friend));
        assert_eq!(
            rows,
            [
                none(0),
                some(1, 2),
                some(1, 3),
                none(2),
                none(3),
                some(4, 0),
                none(5)
            ],
            "batched: {batched}"
        );
    }
}

#[test]
fn semi_apply_and_its_negation_split_the_rows() {
    let store = open();
    people(&store, 5, &[(1, 2), (1, 3), (4, 0)]);
    let run_with = |anti: bool| {
        let mut b = Builder::default();
        let (scan, node) = b.scan("Person");
        let argument = b.op(Op::Argument);
        let (right, _, _) = b.expand(argument, node, Direction::Outgoing, false);
        let semi = b.op(Op::SemiApply {
            input: scan,
            right,
            anti,
        });
        let out = b.slot();
        let columns = vec![(out, b.property(node, "i"))];
        let project = b.op(Op::Project {
            input: semi,
            columns,
        });
        let plan = b.produce(project, &[out], StatementClass::Read);
        ints(&run(&store, &plan), 0)
    };
    assert_eq!(run_with(false), [1, 4]);
    assert_eq!(run_with(true), [0, 2, 3]);
}

#[test]
fn joins_pair_equal_keys_and_nulls_with_nothing() {
    let store = open();
    people(&store, 12, &[]);
    let mut b = Builder::default();
    let (left, a) = b.scan("Person");
    let (right, c) = b.scan("Person");
    let (left_age, right_age, missing) = (
        b.property(a, "age"),
        b.property(c, "age"),
        b.property(c, "nope"),
    );
    let join = b.op(Op::HashJoin {
        input: left,
        right,
        input_keys: vec![left_age.clone()],
        right_keys: vec![right_age],
    });
    let (aggregate, count) = b.count(join, Vec::new(), Vec::new());
    let plan = b.produce(aggregate, &[count], StatementClass::Read);
    assert_eq!(ints(&run(&store, &plan), 0), [8 + 2 * 4]); // 2..=9 alone, 0 and 1 twice

    let mut b2 = Builder::default();
    let (left, _) = b2.scan("Person");
    let (right, _) = b2.scan("Person");
    b2.names = PlanNames {
        labels: vec!["Person".into()],
        types: Vec::new(),
        properties: vec!["age".into(), "nope".into()],
    };
    let join = b2.op(Op::HashJoin {
        input: left,
        right,
        input_keys: vec![missing.clone()],
        right_keys: vec![missing],
    });
    let (aggregate, count) = b2.count(join, Vec::new(), Vec::new());
    let plan = b2.produce(aggregate, &[count], StatementClass::Read);
    assert_eq!(ints(&run(&store, &plan), 0), [0]);
}

#[test]
fn unwind_streams_ranges_and_lists() {
    let store = open();
    let mut b = Builder::default();
    let input = b.op(Op::Argument);
    let (x, y) = (b.slot(), b.slot());
    let range = |from: i64, to: i64| BoundExpr::Call {
        function: isomer_plan::function::Function::Range,
        arguments: vec![BoundExpr::Const(from.into()), BoundExpr::Const(to.into())],
    };
    let outer = b.op(Op::Unwind {
        input,
        list: range(1, 1_000_000_000_000),
        element: x,
        position: None,
    });
    let list = BoundExpr::List(vec![BoundExpr::Slot(x), BoundExpr::Const(Value::Null)]);
    let inner = b.op(Op::Unwind {
        input: outer,
        list,
        element: y,
        position: None,
    });
    let limit = b.op(Op::Limit {
        input: inner,
        count: BoundExpr::Const(5.into()),
    });
    let plan = b.produce(limit, &[x, y], StatementClass::Read);
    let rows = run(&store, &plan);
    let expected: Vec<Vec<Value>> = [
        (1, Some(1)),
        (1, None),
        (2, Some(2)),
        (2, None),
        (3, Some(3)),
    ]
    .map(|(x, y): (i64, Option<i64>)| vec![x.into(), y.into()])
    .to_vec();
    assert_eq!(rows, expected);
}

#[test]
fn nodes_come_out_with_their_contents() {
    let store = open();
    people(&store, 2, &[(0, 1)]);
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let (expand, rel, to) = b.expand(scan, node, Direction::Outgoing, false);
    let list = b.slot();
    let made = BoundExpr::Map(vec![
        ("rel".into(), BoundExpr::Slot(rel)),
        (
            "ends".into(),
            BoundExpr::List(vec![BoundExpr::Slot(node), BoundExpr::Slot(to)]),
        ),
    ]);
    let project = b.op(Op::Project {
        input: expand,
        columns: vec![(list, made)],
    });
    let plan = b.produce(project, &[list], StatementClass::Read);
    let rows = run(&store, &plan);
    let map = rows[0][0].as_map().unwrap();
    let rel = map.get("rel").unwrap().as_relationship().unwrap();
    assert_eq!(&*rel.content.as_ref().unwrap().type_name, "KNOWS");
    let end = map.get("ends").unwrap().as_list().unwrap()[1]
        .as_node()
        .unwrap()
        .clone();
    let content = end.content.unwrap();
    assert_eq!(*content.labels, ["Person".into()]);
    assert_eq!(content.properties.get("i"), Some(&Value::Int(1)));
}

#[test]
fn a_point_read_needs_no_pipeline() {
    let store = open();
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("User").unwrap();
    tx.graph_mut()
        .create_node(
            &[label],
            &Map::from_iter([("_key", Value::from("u1")), ("x", 7.into())]),
        )
        .unwrap();
    tx.commit().unwrap();
    let mut b = Builder::default();
    let (node, label, key) = (b.slot(), b.label("User"), b.param("k"));
    let x = b.property(node, "x");
    let point = physical::PointRead {
        label,
        key,
        node,
        columns: vec![x, BoundExpr::Slot(node)],
    };
    let plan = b.plan(
        PlanBody::PointRead(point),
        vec!["x".into(), "u".into()],
        StatementClass::Read,
    );
    let mut tx = store.begin(Access::Read).unwrap();
    for (key, found) in [
        (Value::from("u1"), 1),
        ("u2".into(), 0),
        (Value::Null, 0),
        (1.into(), 0),
        (Value::empty_list(), 0),
    ] {
        let rows = run_in(
            &mut tx,
            &plan,
            &Map::from_iter([("k", key.clone())]),
            Limits::default(),
        )
        .unwrap();
        assert_eq!(rows.len(), found, "{key:?}");
        if let Some(row) = rows.first() {
            assert_eq!(row[0], Value::Int(7));
            assert!(row[1].as_node().unwrap().content.is_some());
        }
    }
    let missing = run_in(&mut tx, &plan, &Map::new(), Limits::default()).unwrap_err();
    assert_eq!(
        missing.classified().map(|(class, _)| class),
        Some(crate::ErrorClass::ParameterMissing)
    );
}
