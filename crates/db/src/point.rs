//! Point reads of prepared texts: a record by its key, without an execution.
//!
//! `MATCH (n:Label {_key: $key}) RETURN n, n.name` takes too little time to be cancelled or listed among the running
//! queries, and needs no clock, no operators and almost no memory. Anything else runs as a pipeline.

use std::{sync::Arc, time::Duration};

use isomer_exec::Limits;
use isomer_plan::{
    Plan,
    expr::BoundExpr,
    physical::{PlanBody, StatementClass, StatementMode},
};
use isomer_value::{Map, Node, Value};

use crate::{
    QueryOptions, QueryResult, Result, cache::Ready, layers::LayerResult as _, rows::Batch,
};

/// The key and columns of a point read.
#[derive(Debug)]
pub(crate) struct Point {
    label: Arc<str>,
    key: Key,
    cells: Vec<Cell>,
}

#[derive(Debug)]
enum Key {
    Parameter(Arc<str>),
    Const(Value),
}

#[derive(Debug)]
enum Cell {
    /// The node itself.
    Node,
    /// One of its properties.
    Property(Arc<str>),
}

/// A larger record is read by the pipeline, which accounts for memory.
const MAX_BYTES: usize = 64 << 10;

impl Point {
    /// The point read of a plan, if its columns are the node or its properties.
    pub(crate) fn of(plan: &Plan) -> Option<Self> {
        let PlanBody::PointRead(point) = &plan.body else {
            return None;
        };
        if plan.mode != StatementMode::Run || plan.class != StatementClass::Read {
            return None;
        }
        let key = match &point.key {
            BoundExpr::Param(param) => Key::Parameter(plan.parameters.get(param.index())?.clone()),
            BoundExpr::Const(value) => Key::Const(value.clone()),
            _ => return None,
        };
        let cell = |column: &BoundExpr| match column {
            BoundExpr::Slot(slot) if *slot == point.node => Some(Cell::Node),
            BoundExpr::Property { base, name, .. } => match **base {
                BoundExpr::Slot(slot) if slot == point.node => {
                    Some(Cell::Property(plan.property_name(*name).clone()))
                }
                _ => None,
            },
            _ => None,
        };
        Some(Self {
            label: plan.label_name(point.label).clone(),
            key,
            cells: point.columns.iter().map(cell).collect::<Option<_>>()?,
        })
    }

    /// Executes it; none if the pipeline must run.
    pub(crate) fn read(
        &self,
        transaction: &isomer_data::Transaction,
        ready: &Ready,
        parameters: &Map,
        options: &QueryOptions,
        limits: &Limits,
    ) -> Result<Option<QueryResult>> {
        if !is_ordinary(options, limits) || !transaction.graph().reads_plain_records() {
            return Ok(None);
        }
        let key = match &self.key {
            Key::Const(value) => Some(value),
            Key::Parameter(name) => ready.lifted.get(name).or_else(|| parameters.get(name)),
        };
        let Some(key @ (Value::String(_) | Value::Int(_))) = key else {
            return Ok(None);
        };
        // The pipeline reports a missing parameter.
        let mut named = ready.plan.parameters.iter();
        if !named.all(|name| ready.lifted.contains(name) || parameters.contains(name)) {
            return Ok(None);
        }
        let found = match transaction.name_ids().find_label(&self.label) {
            Some(label) => transaction.graph().record_by_key(label, key).lift()?,
            None => None,
        };
        let mut result = QueryResult::of(ready.columns.clone(), ready.plan.class);
        if !ready.plan.notices.is_empty() {
            result.notices = ready.plan.notices.clone();
        }
        let Some(record) = found else {
            return Ok(Some(result));
        };
        if record.len() > MAX_BYTES {
            return Ok(None);
        }
        let mut values = Vec::with_capacity(self.cells.len());
        for cell in &self.cells {
            values.push(match cell {
                Cell::Node => Value::Null,
                Cell::Property(name) => transaction.graph().property_of(&record, name).lift()?,
            });
        }
        if self.cells.iter().any(|cell| matches!(cell, Cell::Node)) {
            let id = record.id();
            let content = Some(Arc::new(transaction.graph().content_of(record).lift()?));
            let node = Arc::new(Node { id, content });
            for (value, cell) in values.iter_mut().zip(&self.cells) {
                if let Cell::Node = cell {
                    *value = Value::Node(node.clone());
                }
            }
        }
        result.push(Batch::new(ready.columns.clone(), values, 1));
        Ok(Some(result))
    }
}

/// Whether the limits and the cancel handle permit the read of one small record.
fn is_ordinary(options: &QueryOptions, limits: &Limits) -> bool {
    let limits = options.limits.as_ref().unwrap_or(limits);
    let time = options.time_limit.or(limits.time);
    limits.rows.is_none()
        && limits.memory_bytes >= 16 * MAX_BYTES
        && time.is_none_or(|time| time >= Duration::from_millis(1))
        && !options.cancel.is_cancelled()
}
