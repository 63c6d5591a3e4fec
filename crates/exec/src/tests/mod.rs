//! Operators on the memory engine, through hand-made plans: their rows, their chunks, and their limits.

mod drivers;
mod language;
mod limits;
mod paths;
mod reads;
mod writes;

use std::sync::Arc;

use isomer_data::{Access, DataStore, DataStoreOptions, Transaction};
use isomer_plan::{
    Plan,
    expr::{
        AggregateCall, BoundExpr, Comparison, LabelRef, LocalId, ParamId, PropRef, SlotId,
        StaticType, TypeRef,
    },
    function::Aggregation,
    physical::{
        self, Direction, Op, OpId, Operator, PlanBody, PlanNames, SlotInfo, StatementClass,
        StatementMode,
    },
};
use isomer_storage::MemoryEngine;
use isomer_value::{Map, NodeId, Value};

use crate::{Execution, ExecutionOptions, Limits, Result, ResultRows};

/// Builds a plan, children first. Slots are live everywhere.
#[derive(Default)]
struct Builder {
    ops: Vec<Op>,
    slots: u32,
    names: PlanNames,
    parameters: Vec<Arc<str>>,
    locals: usize,
}

fn intern(table: &mut Vec<Arc<str>>, name: &str) -> u32 {
    let at = table
        .iter()
        .position(|known| &**known == name)
        .unwrap_or_else(|| {
            table.push(name.into());
            table.len() - 1
        });
    at as u32
}

impl Builder {
    fn slot(&mut self) -> SlotId {
        self.slots += 1;
        SlotId(self.slots - 1)
    }

    fn local(&mut self) -> LocalId {
        self.locals += 1;
        LocalId(self.locals as u32 - 1)
    }

    fn label(&mut self, name: &str) -> LabelRef {
        LabelRef(intern(&mut self.names.labels, name))
    }

    fn rel_type(&mut self, name: &str) -> TypeRef {
        TypeRef(intern(&mut self.names.types, name))
    }

    fn prop(&mut self, name: &str) -> PropRef {
        PropRef(intern(&mut self.names.properties, name))
    }

    fn param(&mut self, name: &str) -> BoundExpr {
        BoundExpr::Param(ParamId(intern(&mut self.parameters, name)))
    }

    fn property(&mut self, slot: SlotId, name: &str) -> BoundExpr {
        let name = self.prop(name);
        BoundExpr::property(BoundExpr::Slot(slot), name)
    }

    fn op(&mut self, op: Op) -> OpId {
        self.ops.push(op);
        OpId(self.ops.len() as u32 - 1)
    }

    /// All nodes of a label at the root of the plan.
    fn scan(&mut self, label: &str) -> (OpId, SlotId) {
        let input = self.op(Op::Argument);
        let (node, label) = (self.slot(), self.label(label));
        (self.op(Op::LabelScan { input, node, label }), node)
    }

    fn expand(
        &mut self,
        input: OpId,
        from: SlotId,
        direction: Direction,
        group: bool,
    ) -> (OpId, SlotId, SlotId) {
        let (relationship, to) = (self.slot(), self.slot());
        let expand = physical::Expand {
            input,
            from,
            direction,
            types: Vec::new(),
            relationship: Some(relationship),
            to,
            distinct_from: Vec::new(),
            group,
        };
        (self.op(Op::Expand(expand)), relationship, to)
    }

    fn count(
        &mut self,
        input: OpId,
        keys: Vec<(SlotId, BoundExpr)>,
        factors: Vec<SlotId>,
    ) -> (OpId, SlotId) {
        let count = self.slot();
        let call = AggregateCall {
            function: Aggregation::CountRows,
            distinct: false,
            arguments: Vec::new(),
        };
        let aggregate = physical::Aggregate {
            input,
            keys,
            aggregates: vec![(count, call)],
            factors,
        };
        (self.op(Op::Aggregate(aggregate)), count)
    }

    fn produce(mut self, input: OpId, columns: &[SlotId], class: StatementClass) -> Arc<Plan> {
        let root = self.op(Op::ProduceResult {
            input,
            columns: columns.to_vec(),
        });
        let names = columns
            .iter()
            .map(|slot| format!("c{}", slot.0).into())
            .collect();
        self.plan(PlanBody::Pipeline(root), names, class)
    }

    fn plan(self, body: PlanBody, columns: Vec<Arc<str>>, class: StatementClass) -> Arc<Plan> {
        let live: Vec<SlotId> = (0..self.slots).map(SlotId).collect();
        Arc::new(Plan {
            body,
            operators: self
                .ops
                .into_iter()
                .map(|op| Operator {
                    op,
                    live: live.clone(),
                    rows: 1.0,
                })
                .collect(),
            slots: live
                .iter()
                .map(|slot| SlotInfo {
                    name: format!("s{}", slot.0).into(),
                    kind: StaticType::Any,
                })
                .collect(),
            local_count: self.locals,
            names: self.names,
            parameters: self.parameters,
            registered_functions: Vec::new(),
            columns,
            class,
            mode: StatementMode::Run,
            notices: Vec::new(),
            skewed: Vec::new(),
            schema_version: 0,
        })
    }
}

/// `left op right`
fn compare(op: Comparison, left: BoundExpr, right: impl Into<Value>) -> BoundExpr {
    BoundExpr::Compare {
        op,
        left: Box::new(left),
        right: Box::new(BoundExpr::Const(right.into())),
    }
}

fn open() -> DataStore {
    DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("an empty memory engine opens")
}

/// People 0 to `count - 1` with the property `age = i % 10`, and KNOWS from each to the pairs given.
fn people(store: &DataStore, count: u64, knows: &[(u64, u64)]) -> Vec<NodeId> {
    let mut tx = store.begin(Access::Write).expect("a transaction begins");
    let label = tx
        .name_ids()
        .intern_label("Person")
        .expect("a label is new");
    let knows_id = tx.name_ids().intern_type("KNOWS").expect("a type is new");
    let nodes: Vec<NodeId> = (0..count)
        .map(|i| {
            let properties = Map::from_iter([
                ("i", Value::Int(i as i64)),
                ("age", Value::Int((i % 10) as i64)),
            ]);
            tx.graph_mut()
                .create_node(&[label], &properties)
                .expect("a node is created")
        })
        .collect();
    for (from, to) in knows {
        tx.graph_mut()
            .create_relationship(
                knows_id,
                nodes[*from as usize],
                nodes[*to as usize],
                &Map::new(),
            )
            .expect("a relationship is created");
    }
    tx.commit().expect("nothing conflicts");
    nodes
}

fn run_in(
    tx: &mut Transaction,
    plan: &Arc<Plan>,
    parameters: &Map,
    limits: Limits,
) -> Result<Vec<Vec<Value>>> {
    let options = ExecutionOptions {
        limits,
        ..ExecutionOptions::default()
    };
    let mut execution = Execution::start(plan.clone(), parameters, &options, tx)?;
    let mut all = Vec::new();
    let mut rows = ResultRows::new();
    loop {
        let more = execution.next_rows(tx, &mut rows)?;
        all.extend(rows.iter().map(<[Value]>::to_vec));
        if !more {
            return Ok(all);
        }
    }
}

fn run(store: &DataStore, plan: &Arc<Plan>) -> Vec<Vec<Value>> {
    let mut tx = store.begin(Access::Read).expect("a transaction begins");
    run_in(&mut tx, plan, &Map::new(), Limits::default()).expect("the plan runs")
}

fn ints(rows: &[Vec<Value>], column: usize) -> Vec<i64> {
    let mut found: Vec<i64> = rows
        .iter()
        .map(|row| row[column].as_int().expect("an integer"))
        .collect();
    found.sort_unstable();
    found
}
