//! Calls of procedures, and what `SHOW` shows.

use std::{collections::VecDeque, sync::Arc};

use isomer_data::{BucketKind, ConstraintKind, GraphRead, IndexState};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureSignature},
    expr::{Kind, SlotId},
    function::{Aggregation, Function as Builtin},
    physical::Op,
    schema::ShowKind,
};
use isomer_value::Value;

use super::{Argument, Child, Operate, Spot, input::RowInput, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::{Column, value_bytes},
    context::Cx,
    describe,
    error::{ErrorClass, ExecError, Result, shown},
    eval::{is_of, value},
    limits::Watch,
    procedure::{self, Call},
};

/// Rows of a procedure that are put into one chunk.
const CHUNK_ROWS: usize = 4_096;

/// Calls a procedure for each row. What a call gives is held in typed columns until it is pulled.
pub(super) struct ProcedureCall {
    spot: Spot,
    input: RowInput,
    /// Rows of the present call, in chunks of columns.
    pending: VecDeque<(usize, Vec<Column>)>,
    /// Bytes held for them.
    pending_bytes: usize,
}

impl ProcedureCall {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
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

/// The rows of a call on their way into chunks.
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

    fn add(&mut self, row: &[Value], watch: &mut Watch) -> Result<()> {
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

    fn seal(&mut self, watch: &mut Watch) -> Result<()> {
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
        let spot = self.spot.clone();
        let Op::ProcedureCall(call) = spot.op() else {
            return Err(misplaced(spot.op()));
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
                .ok_or_else(|| procedure::gone(&signature.name))?;
            let mut gathered = Gathered::new(&call.yields);
            let mut sink = |row: Vec<Value>, watch: &mut Watch| gathered.add(&row, watch);
            let called = procedure.call(
                &arguments,
                &mut Call::new(cx.tx, &cx.run.views, &mut cx.run.watch, &mut sink),
            );
            let called = called.and_then(|()| gathered.seal(&mut cx.run.watch));
            self.pending_bytes = gathered.held_bytes;
            called?;
            match &*signature.name {
                crate::builtin::PUT => cx.run.counters.bucket_puts += 1,
                crate::builtin::DELETE => cx.run.counters.bucket_deletes += 1,
                _ => {}
            }
            if call.void {
                return Ok(Some(self.input.repeat(&spot, 1)));
            }
            self.pending = gathered.full;
        }
        let (rows, columns) = self.pending.pop_front().unwrap_or_default();
        let mut chunk = self.input.repeat(&spot, rows);
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

/// An argument as its parameter takes it.
fn accepted(
    value: Value,
    parameter: &ProcedureField,
    signature: &ProcedureSignature,
) -> Result<Value> {
    let fits = match (&parameter.kind, &value) {
        (_, Value::Null) => parameter.nullable,
        (Kind::Float, Value::Int(i)) => return Ok(Value::Float(*i as f64)),
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

/// Rows about the catalog and the running queries.
pub(super) struct Show {
    spot: Spot,
    input: RowInput,
}

impl Show {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input: RowInput::new(input),
        }
    }
}

impl Operate for Show {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Show { show, slots, .. } = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        if !self.input.advance(cx)? {
            return Ok(None);
        }
        let rows = shown_rows(*show, cx)?;
        let mut columns: Vec<Vec<Value>> = slots
            .iter()
            .map(|_| Vec::with_capacity(rows.len()))
            .collect();
        let count = rows.len();
        for row in rows {
            for (column, cell) in columns.iter_mut().zip(row) {
                column.push(cell);
            }
        }
        let mut chunk = self.input.repeat(&spot, count);
        for (slot, values) in slots.iter().zip(columns) {
            chunk.set(*slot, Column::Values(values));
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The rows of `SHOW`, one value per field of [`ShowKind::fields`].
fn shown_rows(show: ShowKind, cx: &mut Cx<'_>) -> Result<Vec<Vec<Value>>> {
    let catalog = cx.tx.catalog();
    let label = |id| catalog.label_name(id).map_or(Value::Null, Value::String);
    let text = |text: String| Value::from(text);
    // Names stay in the catalog when nothing bears them any more, or ever did: these are not shown.
    let used = |counted: Result<(Arc<str>, u64)>| match counted {
        Ok((_, 0)) => None,
        Ok((name, count)) => {
            let count = Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
            Some(Ok(vec![Value::String(name), count]))
        }
        Err(error) => Some(Err(error)),
    };
    Ok(match show {
        ShowKind::Indexes => catalog
            .indexes()
            .iter()
            .map(|index| {
                let fields: Vec<Value> = index
                    .fields
                    .iter()
                    .map(|field| {
                        text(if field.each {
                            format!("{}[*]", field.path)
                        } else {
                            field.path.to_string()
                        })
                    })
                    .collect();
                let state = match index.state {
                    IndexState::Building => "building",
                    IndexState::Ready => "ready",
                };
                vec![
                    Value::String(index.name.clone()),
                    state.into(),
                    "ordered".into(),
                    label(index.label),
                    Value::from(fields),
                    Value::Bool(index.unique),
                ]
            })
            .collect(),
        ShowKind::Constraints => catalog
            .constraints()
            .iter()
            .map(|constraint| {
                let (kind, fields): (String, Vec<Value>) = match &constraint.kind {
                    ConstraintKind::Unique { index } => (
                        "unique".into(),
                        catalog.index(*index).map_or(Vec::new(), |index| {
                            index
                                .fields
                                .iter()
                                .map(|field| text(field.path.to_string()))
                                .collect()
                        }),
                    ),
                    ConstraintKind::Required { path } => {
                        ("not null".into(), vec![text(path.to_string())])
                    }
                    ConstraintKind::Type { path, types } => {
                        (format!("type {types:?}"), vec![text(path.to_string())])
                    }
                    ConstraintKind::Check { checks } => (
                        "check".into(),
                        checks
                            .iter()
                            .map(|check| text(check.path.to_string()))
                            .collect(),
                    ),
                    ConstraintKind::Convergent { path, kind } => (
                        format!("convergent {}", kind.name().to_lowercase()),
                        vec![text(path.to_string())],
                    ),
                    ConstraintKind::Closed { names } => (
                        "closed".into(),
                        names
                            .iter()
                            .map(|name| Value::String(name.clone()))
                            .collect(),
                    ),
                };
                vec![
                    Value::String(constraint.name.clone()),
                    text(kind),
                    label(constraint.label),
                    Value::from(fields),
                ]
            })
            .chain(cx.tx.store().endpoint_keepers().into_iter().map(|keeper| {
                vec![
                    Value::String(keeper.name),
                    text("keep endpoints".into()),
                    Value::String(keeper.rel_type),
                    Value::from(Vec::<Value>::new()),
                ]
            }))
            .collect(),
        ShowKind::Labels => catalog
            .labels()
            .into_iter()
            .map(|(id, name)| Ok((name, cx.reader().node_count(Some(id))?)))
            .filter_map(used)
            .collect::<Result<_>>()?,
        ShowKind::Types => catalog
            .types()
            .into_iter()
            .map(|(id, name)| Ok((name, cx.reader().relationship_count(Some(id))?)))
            .filter_map(used)
            .collect::<Result<_>>()?,
        ShowKind::Properties => {
            let mut names: Vec<Arc<str>> =
                catalog.props().into_iter().map(|(_, name)| name).collect();
            names.sort_unstable();
            names
                .into_iter()
                .map(|name| vec![Value::String(name)])
                .collect()
        }
        ShowKind::Buckets => cx
            .tx
            .list_buckets()?
            .into_iter()
            .map(|(name, options)| {
                let kind = match (options.kind, options.reversible) {
                    (BucketKind::Multi, _) => "multi-value",
                    (BucketKind::Map, true) => "reversible",
                    (BucketKind::Map, false) => "plain",
                };
                vec![Value::String(name), kind.into()]
            })
            .collect(),
        ShowKind::Functions => functions(cx),
        ShowKind::Procedures => cx
            .run
            .registry
            .procedures()
            .into_iter()
            .map(|procedure| {
                let signature = procedure.signature();
                let fields = |fields: &[ProcedureField]| {
                    fields
                        .iter()
                        .map(|field| format!("{} :: {}", field.name, kind_name(&field.kind)))
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                vec![
                    Value::String(signature.name.clone()),
                    text(format!(
                        "{}({}) :: ({})",
                        signature.name,
                        fields(&signature.parameters),
                        fields(&signature.results)
                    )),
                    text(format!("{:?}", signature.mode).to_lowercase()),
                    describe::procedure(&signature.name).map_or(Value::Null, Value::from),
                ]
            })
            .collect(),
        ShowKind::Conflicts => cx
            .tx
            .conflicts()?
            .into_iter()
            .map(|conflict| {
                vec![
                    conflict.kind.name().into(),
                    conflict.id.map_or(Value::Null, |id| Value::Int(id as i64)),
                    text(conflict.record),
                    text(conflict.field),
                    conflict.value,
                    Value::from(conflict.others),
                ]
            })
            .collect(),
        ShowKind::Queries => cx.run.running.as_ref().map_or(Vec::new(), |running| {
            running.list().into_iter().map(Vec::from).collect()
        }),
    })
}

fn functions(cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let row = |name: &str, kind: &Kind, known: Option<(&'static str, &'static str)>| {
        let (parameters, description) = known.unwrap_or_default();
        let signature = match name.ends_with(')') {
            true => format!("{name} :: {}", kind_name(kind)),
            false => format!("{name}({parameters}) :: {}", kind_name(kind)),
        };
        vec![name.into(), Value::from(signature), description.into()]
    };
    let built_in = Builtin::ALL.iter().map(|function| {
        let name = function.name();
        row(name, &function.kind(), describe::function(name))
    });
    let aggregations = Aggregation::ALL.iter().map(|function| {
        let name = function.name();
        row(name, &function.kind(), describe::aggregation(name))
    });
    let registered = cx.run.registry.functions().into_iter().map(|function| {
        let signature = function.signature();
        let parameters: Vec<String> = signature
            .parameters
            .iter()
            .map(|field| format!("{} :: {}", field.name, kind_name(&field.kind)))
            .collect();
        vec![
            Value::String(signature.name.clone()),
            Value::from(format!(
                "{}({}) :: {}",
                signature.name,
                parameters.join(", "),
                kind_name(&signature.result)
            )),
            Value::Null,
        ]
    });
    built_in.chain(aggregations).chain(registered).collect()
}

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::List(of) => format!("LIST<{}>", kind_name(of)),
        other => format!("{other:?}").to_uppercase(),
    }
}
