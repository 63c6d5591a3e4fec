//! Expressions give the same results whether they are evaluated for a chunk or row by row.

use isomer_plan::{
    expr::{Arithmetic, QuantifierKind, StringTest},
    function::Function,
};

use super::*;

/// A linear congruential generator: the same expressions on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }
}

/// The slots that a generated expression may read.
struct Scope {
    slots: Vec<SlotId>,
    node: SlotId,
    age: PropRef,
    local: LocalId,
}

fn constant(dice: &mut Dice) -> Value {
    match dice.roll(10) {
        0 => Value::Null,
        1 => true.into(),
        2 => false.into(),
        3 => 0.into(),
        4 => 2.into(),
        5 => 2.0.into(),
        6 => "a".into(),
        7 => [Value::Int(1), Value::Null].into_iter().collect(),
        8 => i64::MAX.into(),
        _ => Map::from_iter([("k", Value::Int(1))]).into(),
    }
}

fn expression(dice: &mut Dice, scope: &Scope, depth: usize) -> BoundExpr {
    if depth == 0 {
        return match dice.roll(4) {
            0 => BoundExpr::Const(constant(dice)),
            1 => BoundExpr::property(BoundExpr::Slot(scope.node), scope.age),
            _ => BoundExpr::Slot(scope.slots[dice.roll(scope.slots.len())]),
        };
    }
    let mut one = || Box::new(expression(dice, scope, depth - 1));
    let (a, b, c) = (one(), one(), one());
    match dice.roll(16) {
        0 => BoundExpr::And(vec![*a, *b, *c]),
        1 => BoundExpr::Or(vec![*a, *b, *c]),
        2 => BoundExpr::Xor(vec![*a, *b]),
        3 => BoundExpr::Not(a),
        4 | 5 => {
            let op = [
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
                Comparison::GreaterOrEqual,
            ][dice.roll(4)];
            BoundExpr::Compare {
                op,
                left: a,
                right: b,
            }
        }
        6 | 7 => {
            let op = [
                Arithmetic::Add,
                Arithmetic::Subtract,
                Arithmetic::Divide,
                Arithmetic::Power,
            ][dice.roll(4)];
            BoundExpr::Arith {
                op,
                left: a,
                right: b,
            }
        }
        8 => BoundExpr::IsNull(a),
        9 => BoundExpr::Case {
            subject: None,
            arms: vec![(*a, *b)],
            otherwise: Some(c),
        },
        10 => BoundExpr::Case {
            subject: Some(a),
            arms: vec![
                (*b, BoundExpr::Const(1.into())),
                (BoundExpr::Const(2.into()), *c),
            ],
            otherwise: None,
        },
        11 => BoundExpr::Call {
            function: Function::Coalesce,
            arguments: vec![*a, *b],
        },
        12 => BoundExpr::Call {
            function: [Function::ToString, Function::Size, Function::Abs][dice.roll(3)],
            arguments: vec![*a],
        },
        13 => BoundExpr::In {
            item: a,
            list: Box::new(BoundExpr::List(vec![*b, *c])),
        },
        14 => BoundExpr::StringTest {
            op: StringTest::Contains,
            left: a,
            right: b,
        },
        _ => BoundExpr::Quantifier {
            kind: QuantifierKind::Any,
            list: Box::new(BoundExpr::List(vec![*a, *b])),
            local: scope.local,
            predicate: Box::new(BoundExpr::IsNotNull(Box::new(BoundExpr::Local(
                scope.local,
            )))),
        },
    }
}

/// The values of a random expression over a few rows, or its error.
fn evaluate(store: &DataStore, seed: u64, row_by_row: bool) -> Option<Vec<Value>> {
    let mut b = Builder::default();
    let (scan, node) = b.scan("Person");
    let (list, out) = (b.slot(), b.slot());
    let local = b.local();
    let age = b.prop("age");
    let mut dice = Dice(seed);
    let values: Vec<BoundExpr> = (0..6)
        .map(|_| BoundExpr::Const(constant(&mut dice)))
        .collect();
    let unwind = b.op(Op::Unwind {
        input: scan,
        list: BoundExpr::List(values),
        element: list,
        position: None,
    });
    let constant_slot = b.slot();
    let fixed = constant(&mut dice);
    let project = b.op(Op::Project {
        input: unwind,
        columns: vec![(constant_slot, BoundExpr::Const(fixed))],
    });
    let scope = Scope {
        slots: vec![list, constant_slot],
        node,
        age,
        local,
    };
    let depth = 1 + dice.roll(3);
    let mut expr = expression(&mut dice, &scope, depth);
    if row_by_row {
        // The body of a comprehension is evaluated row by row.
        let element = b.local();
        let wrapped = BoundExpr::ListComprehension {
            list: Box::new(BoundExpr::List(vec![BoundExpr::Const(1.into())])),
            local: element,
            predicate: None,
            result: Some(Box::new(expr)),
        };
        expr = BoundExpr::Index {
            base: Box::new(wrapped),
            index: Box::new(BoundExpr::Const(0.into())),
            nested: false,
        };
    }
    let project = b.op(Op::Project {
        input: project,
        columns: vec![(out, expr)],
    });
    let plan = b.produce(project, &[out], StatementClass::Read);
    let mut tx = store.begin(Access::Read).unwrap();
    let rows = run_in(&mut tx, &plan, &Map::new(), Limits::default()).ok()?;
    Some(rows.into_iter().map(|mut row| row.remove(0)).collect())
}

#[test]
fn chunks_and_rows_agree_on_random_expressions() {
    let store = open();
    people(&store, 3, &[]);
    let (mut answered, mut failed) = (0, 0);
    for seed in 0..3000 {
        let (chunked, row_by_row) = (evaluate(&store, seed, false), evaluate(&store, seed, true));
        assert_eq!(chunked, row_by_row, "seed {seed}");
        if chunked.is_some() {
            answered += 1
        } else {
            failed += 1
        }
    }
    // Both outcomes must occur: otherwise the test proves nothing.
    assert!(
        answered > 500 && failed > 200,
        "{answered} answered, {failed} failed"
    );
}
