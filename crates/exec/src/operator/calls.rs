//! Calls of procedures.

use std::collections::VecDeque;

use isomer_plan::{
    catalog::{ProcedureField, ProcedureSignature},
    expr::{SlotId, StaticType},
    physical::Op,
};
use isomer_value::Value;

use super::{Argument, Child, Operate, OperatorRef, input::RowInput, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ErrorClass, ExecError, Result, shown},
    eval::{is_of, value},
    limits::LimitGuard,
    procedure::{self, CallContext},
    value_size::value_bytes,
};

/// Rows of a procedure per chunk.
const CHUNK_ROWS: usize = 4_096;

/// Calls a procedure for each row. The rows of a call are buffered in typed columns until they are pulled.
pub(super) struct ProcedureCall {
    op_ref: OperatorRef,
    input: RowInput,
    /// Rows of the current call, in chunks of columns.
    pending: VecDeque<(usize, Vec<Column>)>,
    /// Bytes held for them.
    pending_bytes: usize,
}

impl ProcedureCall {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            pending: VecDeque::new(),
            pending_bytes: 0,
        }
    }

    fn drop_pending(&mut self, cx: &mut Cx<'_>) {
        self.pending.clear();
        cx.run
            .watch
            .release(std::mem::take(&mut self.pending_bytes));
    }
}

/// The rows of a call that are being collected into chunks.
struct Gathered<'a> {
    yields: &'a [(usize, SlotId)],
    rows: usize,
    columns: Vec<Vec<Value>>,
    full: VecDeque<(usize, Vec<Column>)>,
    held_bytes: usize,
    /// Bytes of the values that are not in a full chunk yet.
    loose_bytes: usize,
}

impl<'a> Gathered<'a> {
    fn new(yields: &'a [(usize, SlotId)]) -> Self {
        Self {
            yields,
            rows: 0,
            columns: vec![Vec::new(); yields.len()],
            full: VecDeque::new(),
            held_bytes: 0,
            loose_bytes: 0,
        }
    }

    fn add(&mut self, row: &[Value], watch: &mut LimitGuard) -> Result<()> {
        for (column, (position, _)) in self.columns.iter_mut().zip(self.yields) {
            let cell = row.get(*position).cloned().unwrap_or_default();
            self.loose_bytes += value_bytes(&cell);
            column.push(cell);
        }
        self.rows += 1;
        watch.allow(self.loose_bytes)?;
        if self.rows == CHUNK_ROWS {
            self.seal(watch)?;
        }
        Ok(())
    }

    fn seal(&mut self, watch: &mut LimitGuard) -> Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let columns: Vec<Column> = self
            .columns
            .iter_mut()
            .map(|values| Column::of_values(std::mem::take(values)))
            .collect();
        let bytes = columns.iter().map(|column| column.bytes(rows)).sum();
        watch.hold(bytes)?;
        self.held_bytes += bytes;
        self.loose_bytes = 0;
        self.full.push_back((rows, columns));
        Ok(())
    }
}

impl Operate for ProcedureCall {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::ProcedureCall(call) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if self.pending.is_empty() {
            self.drop_pending(cx);
            if !self.input.advance(cx)? {
                return Ok(None);
            }
            let signature = &call.procedure;
            let mut arguments = Vec::with_capacity(call.arguments.len());
            for (expr, parameter) in call.arguments.iter().zip(&signature.parameters) {
                arguments.push(accepted(
                    value(expr, self.input.row()?, cx)?,
                    parameter,
                    signature,
                )?);
            }
            let procedure = cx
                .run
                .registry
                .procedure(&signature.name)
                .cloned()
                .ok_or_else(|| procedure::procedure_not_found(&signature.name))?;
            let mut gathered = Gathered::new(&call.yields);
            let mut sink = |row: Vec<Value>, watch: &mut LimitGuard| gathered.add(&row, watch);
            let run = &mut *cx.run;
            let (running, host) = (run.host.running.clone(), run.host.program.clone());
            let running_call = CallContext::new(cx.tx, &run.views, &mut run.watch, &mut sink);
            let mut running_call = running_call.with_program(running, host);
            #[cfg(feature = "algorithms")]
            {
                let planner = run.host.planner.clone();
                let database = planner.map(|planner| procedure::CallDatabase {
                    planner,
                    registry: run.registry.clone(),
                    views: run.host.views.clone(),
                });
                running_call = running_call.with_database(database);
            }
            let called = procedure.call(&arguments, &mut running_call);
            run.report.counters.add(&running_call.counters);
            drop(running_call);
            let called = called.and_then(|()| gathered.seal(&mut cx.run.watch));
            self.pending_bytes = gathered.held_bytes;
            called?;
            match &*signature.name {
                crate::builtin::PUT => cx.run.report.counters.bucket_puts += 1,
                crate::builtin::DELETE => cx.run.report.counters.bucket_deletes += 1,
                _ => {}
            }
            if call.void {
                return Ok(Some(self.input.repeat(&op_ref, 1)));
            }
            self.pending = gathered.full;
        }
        let (rows, columns) = self.pending.pop_front().unwrap_or_default();
        let mut chunk = self.input.repeat(&op_ref, rows);
        for ((_, slot), column) in call.yields.iter().zip(columns) {
            chunk.set(*slot, column);
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.pending.clear();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.drop_pending(cx);
    }
}

/// An argument, converted to the parameter's type.
fn accepted(
    value: Value,
    parameter: &ProcedureField,
    signature: &ProcedureSignature,
) -> Result<Value> {
    let fits = match (&parameter.kind, &value) {
        (_, Value::Null) => parameter.nullable,
        (StaticType::Float, Value::Int(i)) => return Ok(Value::Float(*i as f64)),
        (kind, value) => is_of(value, kind),
    };
    if fits {
        return Ok(value);
    }
    Err(ExecError::raised(
        ErrorClass::SyntaxError,
        "InvalidArgumentType",
        format!(
            "the parameter `{}` of {} does not take {}",
            parameter.name,
            signature.name,
            shown(&value)
        ),
    ))
}
