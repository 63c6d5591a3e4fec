//! Creating, merging, changing, deleting; and that a failed statement leaves no trace.

use isomer_data::GraphRead;
use isomer_plan::physical::{
    CreateItem, CreateNode, CreatePattern, CreateRelationship, CreatedType, EntityChange,
    Properties,
};

use super::*;
use crate::ErrorClass;

fn node_pattern(
    b: &mut Builder,
    label: &str,
    properties: Vec<(PropRef, BoundExpr)>,
) -> (CreatePattern, SlotId) {
    let node = b.slot();
    let labels = vec![b.label(label)];
    let item = CreateItem::Node(CreateNode {
        node,
        labels,
        dynamic_labels: Vec::new(),
        properties: Properties::Entries(properties),
    });
    (
        CreatePattern {
            items: vec![item],
            paths: Vec::new(),
        },
        node,
    )
}

fn unwind(b: &mut Builder, to: i64) -> (OpId, SlotId) {
    let input = b.op(Op::Argument);
    let element = b.slot();
    let list = BoundExpr::Call {
        function: isomer_plan::function::Function::Range,
        arguments: vec![BoundExpr::Const(1.into()), BoundExpr::Const(to.into())],
    };
    (
        b.op(Op::Unwind {
            input,
            list,
            element,
            position: None,
        }),
        element,
    )
}

fn count(tx: &Transaction, label: &str) -> u64 {
    tx.exact_node_count(tx.catalog().label_id(label)).unwrap()
}

#[test]
fn create_makes_a_pattern_per_row() {
    let store = open();
    let mut b = Builder::default();
    let (rows, i) = unwind(&mut b, 100);
    let name = b.prop("i");
    let (mut pattern, a) = node_pattern(&mut b, "A", vec![(name, BoundExpr::Slot(i))]);
    let relationship = b.slot();
    let rel_type = b.rel_type("LOOP");
    pattern
        .items
        .push(CreateItem::Relationship(CreateRelationship {
            relationship,
            rel_type: CreatedType::Fixed(rel_type),
            source: a,
            target: a,
            properties: Properties::Entries(Vec::new()),
        }));
    let create = b.op(Op::Create {
        input: rows,
        pattern,
    });
    let plan = b.produce(create, &[a, relationship], StatementClass::Write);
    let mut tx = store.begin(Access::Write).unwrap();
    let rows = run_in(&mut tx, &plan, &Map::new(), Limits::default()).unwrap();
    assert_eq!(rows.len(), 100);
    assert_eq!(count(&tx, "A"), 100);
    let rel = rows[7][1].as_relationship().unwrap();
    assert_eq!(
        (rel.source, rel.target),
        (
            rows[7][0].as_node().unwrap().id,
            rows[7][0].as_node().unwrap().id
        )
    );
}

#[test]
fn merge_sees_what_the_rows_before_it_created() {
    let store = open();
    let mut b = Builder::default();
    let (rows, i) = unwind(&mut b, 20);
    let name = b.prop("m");
    let key = BoundExpr::Arith {
        op: isomer_plan::expr::Arithmetic::Modulo,
        left: Box::new(BoundExpr::Slot(i)),
        right: Box::new(BoundExpr::Const(3.into())),
    };
    let (create, node) = node_pattern(&mut b, "M", vec![(name, key.clone())]);
    let argument = b.op(Op::Argument);
    let label = b.label("M");
    let scan = b.op(Op::LabelScan {
        input: argument,
        node,
        label,
    });
    let matching = b.op(Op::Filter {
        input: scan,
        predicates: vec![BoundExpr::equal(
            BoundExpr::property(BoundExpr::Slot(node), name),
            key,
        )],
    });
    let seen = b.prop("seen");
    let set = |value: BoundExpr| EntityChange::Property {
        entity: BoundExpr::Slot(node),
        name: seen,
        value,
    };
    let again = BoundExpr::Arith {
        op: isomer_plan::expr::Arithmetic::Add,
        left: Box::new(BoundExpr::property(BoundExpr::Slot(node), seen)),
        right: Box::new(BoundExpr::Const(1.into())),
    };
    let merge = b.op(Op::Merge(physical::MatchOrCreate {
        input: rows,
        matching,
        create,
        on_create: vec![set(BoundExpr::Const(1.into()))],
        on_match: vec![set(again)],
    }));
    let plan = b.produce(merge, &[node], StatementClass::Write);
    let mut tx = store.begin(Access::Write).unwrap();
    let rows = run_in(&mut tx, &plan, &Map::new(), Limits::default()).unwrap();
    assert_eq!((rows.len(), count(&tx, "M")), (20, 3));
    let mut nodes: Vec<NodeId> = rows
        .iter()
        .map(|row| row[0].as_node().unwrap().id)
        .collect();
    nodes.sort_unstable();
    nodes.dedup();
    let mut columns = [Vec::new()];
    tx.node_properties(
        &nodes,
        &[tx.catalog().prop_id("seen").unwrap()],
        &mut columns,
    )
    .unwrap();
    assert_eq!(
        columns[0]
            .iter()
            .map(|seen| seen.as_int().unwrap())
            .sum::<i64>(),
        20
    );
}

#[test]
fn a_null_in_a_merged_pattern_is_refused() {
    let store = open();
    let mut b = Builder::default();
    let input = b.op(Op::Argument);
    let name = b.prop("num");
    let (create, node) = node_pattern(&mut b, "M", vec![(name, BoundExpr::null())]);
    let argument = b.op(Op::Argument);
    let matching = b.op(Op::AllNodesScan {
        input: argument,
        node,
    });
    let merge = b.op(Op::Merge(physical::MatchOrCreate {
        input,
        matching,
        create,
        on_create: Vec::new(),
        on_match: Vec::new(),
    }));
    let plan = b.plan(PlanBody::Pipeline(merge), Vec::new(), StatementClass::Write);
    let mut tx = store.begin(Access::Write).unwrap();
    let error = run_in(&mut tx, &plan, &Map::new(), Limits::default()).unwrap_err();
    assert_eq!(
        error.classified(),
        Some((ErrorClass::SemanticError, "MergeReadOwnWrites"))
    );
}

fn delete_all(detach: bool, then_read: bool) -> Arc<Plan> {
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let delete = b.op(Op::Delete {
        input: scan,
        targets: vec![BoundExpr::Slot(node)],
        detach,
    });
    let out = b.slot();
    let age = b.property(node, "age");
    let columns = if then_read {
        vec![(out, age)]
    } else {
        vec![(out, BoundExpr::Const(1.into()))]
    };
    let project = b.op(Op::Project {
        input: delete,
        columns,
    });
    b.produce(project, &[out], StatementClass::Write)
}

#[test]
fn delete_of_connected_nodes_needs_detach_and_rolls_the_statement_back() {
    let store = open();
    people(&store, 10, &[(0, 9), (9, 9)]);
    let mut tx = store.begin(Access::Write).unwrap();
    let error = run_in(
        &mut tx,
        &delete_all(false, false),
        &Map::new(),
        Limits::default(),
    )
    .unwrap_err();
    assert_eq!(
        error.classified(),
        Some((
            ErrorClass::ConstraintVerificationFailed,
            "DeleteConnectedNode"
        ))
    );
    assert_eq!(
        count(&tx, "Person"),
        10,
        "what was deleted before the error is back"
    );
    assert_eq!(
        run_in(
            &mut tx,
            &delete_all(true, false),
            &Map::new(),
            Limits::default()
        )
        .unwrap()
        .len(),
        10
    );
    assert_eq!(count(&tx, "Person"), 0);
    tx.commit().unwrap();
}

#[test]
fn deleted_entities_have_no_properties_to_read() {
    let store = open();
    people(&store, 2, &[]);
    let mut tx = store.begin(Access::Write).unwrap();
    let error = run_in(
        &mut tx,
        &delete_all(true, true),
        &Map::new(),
        Limits::default(),
    )
    .unwrap_err();
    assert_eq!(
        error.classified(),
        Some((ErrorClass::EntityNotFound, "DeletedEntityAccess"))
    );
    assert_eq!(count(&tx, "Person"), 2);
}

#[test]
fn entities_cannot_be_properties() {
    let store = open();
    people(&store, 1, &[]);
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let name = b.prop("self");
    let value = BoundExpr::List(vec![BoundExpr::Slot(node)]);
    let set = b.op(Op::Set {
        input: scan,
        items: vec![EntityChange::Property {
            entity: BoundExpr::Slot(node),
            name,
            value,
        }],
    });
    let plan = b.plan(PlanBody::Pipeline(set), Vec::new(), StatementClass::Write);
    let mut tx = store.begin(Access::Write).unwrap();
    let error = run_in(&mut tx, &plan, &Map::new(), Limits::default()).unwrap_err();
    assert_eq!(
        error.classified(),
        Some((ErrorClass::TypeError, "InvalidPropertyType"))
    );
}
