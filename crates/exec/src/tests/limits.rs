//! Limits hold inside operators that otherwise would run without end or buffer everything.

use std::time::Duration;

use super::*;
use crate::{CancelHandle, ExecError};

fn product() -> Arc<Plan> {
    let mut b = Builder::default();
    let (mut op, _) = b.scan("Person");
    for _ in 0..4 {
        let (right, _) = b.scan("Person");
        op = b.op(Op::CartesianProduct { input: op, right });
    }
    let (aggregate, count) = b.count(op, Vec::new(), Vec::new());
    b.produce(aggregate, &[count], StatementClass::Read)
}

/// Every walk in a complete graph.
fn endless_walks() -> Arc<Plan> {
    let mut b = Builder::default();
    let (scan, from) = b.scan("Person");
    let to = b.slot();
    let op = Op::VarExpand(physical::VarExpand {
        input: scan,
        from,
        to,
        into: false,
        direction: Direction::Both,
        types: Vec::new(),
        min: 1,
        max: None,
        relationships: None,
        reversed: false,
        distinct_from: Vec::new(),
        step_predicate: None,
        distinct_ends: false,
    });
    let op = b.op(op);
    let (aggregate, count) = b.count(op, Vec::new(), Vec::new());
    b.produce(aggregate, &[count], StatementClass::Read)
}

fn complete_graph() -> DataStore {
    let store = open();
    let knows: Vec<(u64, u64)> = (0..30).flat_map(|a| (0..30).map(move |b| (a, b))).collect();
    people(&store, 1000, &knows);
    store
}

#[test]
fn time_stops_products_and_walks() {
    let store = complete_graph();
    for plan in [product(), endless_walks()] {
        let mut tx = store.begin(Access::Read).unwrap();
        let started = std::time::Instant::now();
        let error = run_in(
            &mut tx,
            &plan,
            &Map::new(),
            Limits {
                time: Some(Duration::from_millis(50)),
                ..Limits::default()
            },
        )
        .unwrap_err();
        assert!(
            matches!(&error, ExecError::Limit { limit, .. } if limit.contains("time")),
            "{error}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(2),
            "stopped after {:?}",
            started.elapsed()
        );
    }
}

#[test]
fn a_handle_stops_a_query_from_another_thread() {
    let store = complete_graph();
    let cancel = CancelHandle::new();
    let options = ExecutionOptions {
        cancel: cancel.clone(),
        ..ExecutionOptions::default()
    };
    let mut tx = store.begin(Access::Read).unwrap();
    let mut execution = Execution::start(endless_walks(), &Map::new(), &options, &mut tx).unwrap();
    let stopper = std::thread::spawn(move || {
        // In the middle of the query, which has no end.
        std::thread::sleep(Duration::from_millis(30));
        cancel.cancel();
    });
    let error = execution
        .next_rows(&mut tx, &mut ResultRows::new())
        .unwrap_err();
    stopper.join().unwrap();
    assert!(matches!(error, ExecError::Cancelled), "{error}");
}

#[test]
fn sorts_groups_and_distincts_spill_and_lists_are_refused() {
    let store = open();
    people(&store, 20_000, &[]);
    let limits = || Limits {
        memory_bytes: 200_000,
        ..Limits::default()
    };
    let plans: Vec<Arc<Plan>> = (0..4)
        .map(|which| {
            let mut b = Builder::default();
            let (scan, node) = b.scan("Person");
            let out = b.slot();
            let i = b.property(node, "i");
            let op = match which {
                0 => {
                    let project = b.op(Op::Project {
                        input: scan,
                        columns: vec![(out, i)],
                    });
                    b.op(Op::Sort {
                        input: project,
                        keys: vec![physical::SortKey {
                            expr: BoundExpr::Slot(out),
                            descending: false,
                        }],
                    })
                }
                1 => {
                    let project = b.op(Op::Project {
                        input: scan,
                        columns: vec![(out, i)],
                    });
                    b.op(Op::Distinct {
                        input: project,
                        slots: vec![out],
                    })
                }
                2 => b.count(scan, vec![(out, i)], Vec::new()).0,
                _ => {
                    let call = AggregateCall {
                        function: Aggregation::Collect,
                        distinct: false,
                        arguments: vec![i],
                    };
                    b.op(Op::Aggregate(physical::Aggregate {
                        input: scan,
                        keys: Vec::new(),
                        aggregates: vec![(out, call)],
                        factors: Vec::new(),
                    }))
                }
            };
            b.produce(op, &[out], StatementClass::Read)
        })
        .collect();
    for (which, plan) in plans.iter().enumerate() {
        let mut tx = store.begin(Access::Read).unwrap();
        let outcome = run_in(&mut tx, plan, &Map::new(), limits());
        if which < 3 {
            assert_eq!(outcome.unwrap().len(), 20_000, "{which}");
            continue;
        }
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, ExecError::Limit { limit, .. } if limit.contains("memory")),
            "{which}: {error}"
        );
    }
    assert!(store.spill_folder().written_bytes() > 100_000);
    assert_eq!(store.spill_folder().open_files(), 0);
}

#[test]
fn a_row_limit_leaves_the_transaction_usable() {
    let store = open();
    people(&store, 100, &[]);
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let plan = b.produce(scan, &[node], StatementClass::Read);
    let mut tx = store.begin(Access::Read).unwrap();
    let error = run_in(
        &mut tx,
        &plan,
        &Map::new(),
        Limits {
            rows: Some(99),
            ..Limits::default()
        },
    )
    .unwrap_err();
    assert!(
        matches!(&error, ExecError::Limit { limit, .. } if limit.contains("rows")),
        "{error}"
    );
    assert_eq!(
        run_in(
            &mut tx,
            &plan,
            &Map::new(),
            Limits {
                rows: Some(100),
                ..Limits::default()
            }
        )
        .unwrap()
        .len(),
        100
    );
}

#[test]
fn reduce_cannot_nest_without_bound() {
    let store = open();
    let mut b = Builder::default();
    let input = b.op(Op::Argument);
    let (out, acc, x) = (b.slot(), b.local(), b.local());
    let list = BoundExpr::Call {
        function: isomer_plan::function::Function::Range,
        arguments: vec![BoundExpr::Const(1.into()), BoundExpr::Const(100_000.into())],
    };
    let nested = BoundExpr::Reduce {
        accumulator: acc,
        init: Box::new(BoundExpr::List(Vec::new())),
        element: x,
        list: Box::new(list),
        step: Box::new(BoundExpr::List(vec![BoundExpr::Local(acc)])),
    };
    let project = b.op(Op::Project {
        input,
        columns: vec![(out, nested)],
    });
    let plan = b.produce(project, &[out], StatementClass::Read);
    let mut tx = store.begin(Access::Read).unwrap();
    let error = run_in(&mut tx, &plan, &Map::new(), Limits::default()).unwrap_err();
    assert!(error.to_string().contains("nested"), "{error}");
}
