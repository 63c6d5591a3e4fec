//! Calls of procedures, and what `SHOW` shows.

use std::{collections::VecDeque, sync::Arc};

use isomer_data::{
    BucketKind, Catalog, ConstraintKind, FieldPath, GraphRead, IndexDef, IndexState, ValueType,
};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureSignature},
    expr::{Kind, SlotId},
    function::{Aggregation, Function as Builtin},
    physical::Op,
    schema::ShowKind,
};
use isomer_value::{LabelId, Value};

use super::{Argument, Child, Operate, OperatorRef, input::RowInput, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    describe,
    error::{ErrorClass, ExecError, Result, shown},
    eval::{is_of, value},
    limits::Watch,
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
                .ok_or_else(|| procedure::gone(&signature.name))?;
            let mut gathered = Gathered::new(&call.yields);
            let mut sink = |row: Vec<Value>, watch: &mut Watch| gathered.add(&row, watch);
            let called = procedure.call(
                &arguments,
                &mut CallContext::new(cx.tx, &cx.run.views, &mut cx.run.watch, &mut sink),
            );
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
    op_ref: OperatorRef,
    input: RowInput,
}

impl Show {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
        }
    }
}

impl Operate for Show {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Show { show, slots, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
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
        let mut chunk = self.input.repeat(&op_ref, count);
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
    let text = |text: String| Value::from(text);
    // Names stay in the catalog after their last use, and may never have been used: these are not shown.
    let used = |counted: Result<(Arc<str>, u64)>| match counted {
        Ok((_, 0)) => None,
        Ok((name, count)) => {
            let count = Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
            Some(Ok(vec![Value::String(name), count]))
        }
        Err(error) => Some(Err(error)),
    };
    Ok(match show {
        ShowKind::Indexes => indexes(&catalog),
        ShowKind::Constraints => constraints(&catalog, cx),
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
            .kv()
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
        ShowKind::Procedures => procedures(cx),
        ShowKind::Conflicts => cx
            .tx
            .replication()
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
        ShowKind::Queries => cx.run.host.running.as_ref().map_or(Vec::new(), |running| {
            running.list().into_iter().map(Vec::from).collect()
        }),
    })
}

fn label_value(catalog: &Catalog, id: LabelId) -> Value {
    catalog.label_name(id).map_or(Value::Null, Value::String)
}

/// The rows of `SHOW INDEXES`. Properties read as `CREATE INDEX` declares them.
fn indexes(catalog: &Catalog) -> Vec<Vec<Value>> {
    let row = |index: &IndexDef| {
        let fields = index.fields.iter();
        let fields: Vec<Value> = fields.map(|field| field.to_string().into()).collect();
        let state = match index.state {
            IndexState::Building => "building",
            IndexState::Ready => "ready",
        };
        vec![
            Value::String(index.name.clone()),
            state.into(),
            "ordered".into(),
            label_value(catalog, index.label),
            Value::from(fields),
            Value::Bool(index.unique),
        ]
    };
    catalog.indexes().iter().map(row).collect()
}

/// The rows of `SHOW CONSTRAINTS`.
fn constraints(catalog: &Catalog, cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let rules = catalog.constraints().iter().map(|constraint| {
        let (kind, fields) = rule(catalog, &constraint.kind);
        vec![
            Value::String(constraint.name.clone()),
            kind.into(),
            label_value(catalog, constraint.label),
            Value::from(fields),
        ]
    });
    let keepers = cx.tx.store().endpoint_keepers().into_iter().map(|keeper| {
        vec![
            Value::String(keeper.name),
            "keep endpoints".into(),
            Value::String(keeper.rel_type),
            Value::from(Vec::<Value>::new()),
        ]
    });
    rules.chain(keepers).collect()
}

/// The kind of a constraint, with types as `CREATE CONSTRAINT` declares them, and its properties.
fn rule(catalog: &Catalog, kind: &ConstraintKind) -> (String, Vec<Value>) {
    let one = |path: &FieldPath| vec![path.to_string().into()];
    let indexed = |index| {
        let fields = catalog.index(index).map_or(&[][..], |index| &index.fields);
        let paths = fields.iter().map(|field| field.path.to_string().into());
        paths.collect()
    };
    match kind {
        ConstraintKind::Unique { index } => ("unique".into(), indexed(*index)),
        ConstraintKind::Key { index } => ("node key".into(), indexed(*index)),
        ConstraintKind::Required { path } => ("not null".into(), one(path)),
        ConstraintKind::Type { path, types } => {
            (format!("type {}", ValueType::declaration(types)), one(path))
        }
        ConstraintKind::Check { checks } => {
            let paths = checks.iter().map(|check| check.path.to_string().into());
            ("check".into(), paths.collect())
        }
        ConstraintKind::Convergent { path, kind } => {
            let kind = kind.name().to_lowercase();
            (format!("convergent {kind}"), one(path))
        }
        ConstraintKind::Closed { names } => {
            let names = names.iter().map(|name| Value::String(name.clone()));
            ("closed".into(), names.collect())
        }
    }
}

/// The rows of `SHOW PROCEDURES`.
fn procedures(cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let fields = |fields: &[ProcedureField]| {
        let fields = fields.iter();
        let fields = fields.map(|field| format!("{} :: {}", field.name, kind_name(&field.kind)));
        fields.collect::<Vec<_>>().join(", ")
    };
    let row = |signature: &ProcedureSignature| {
        let (parameters, results) = (fields(&signature.parameters), fields(&signature.results));
        vec![
            Value::String(signature.name.clone()),
            format!("{}({parameters}) :: ({results})", signature.name).into(),
            format!("{:?}", signature.mode).to_lowercase().into(),
            describe::procedure(&signature.name).map_or(Value::Null, Value::from),
        ]
    };
    let procedures = cx.run.registry.procedures().into_iter();
    procedures
        .map(|procedure| row(procedure.signature()))
        .collect()
}

fn functions(cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let row = |name: &str, signature: String, kind: &Kind, description: &str| {
        let signature = format!("{signature} :: {}", kind_name(kind));
        vec![name.into(), Value::from(signature), description.into()]
    };
    let built_in = Builtin::ALL.iter().map(|function| {
        let (name, kind) = (function.name(), function.kind());
        row(name, function.signature(), &kind, function.description())
    });
    let aggregations = Aggregation::ALL.iter().map(|function| {
        let (name, kind) = (function.name(), function.kind());
        row(name, function.signature(), &kind, function.description())
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
