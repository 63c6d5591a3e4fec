//! Calls of procedures, and what `SHOW` shows.

use std::sync::Arc;

use isomer_data::{BucketKind, ConstraintKind, GraphRead, IndexState};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureSignature},
    expr::Kind,
    function::Function as Builtin,
    physical::Op,
    schema::ShowKind,
};
use isomer_value::Value;

use super::{Argument, Child, Operate, Spot, input::RowInput, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::{Column, value_bytes},
    context::Cx,
    error::{ErrorClass, ExecError, Result, shown},
    eval::{is_of, value},
    procedure,
};

/// Calls a procedure for each row.
pub(super) struct ProcedureCall {
    spot: Spot,
    input: RowInput,
}

impl ProcedureCall {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
            input: RowInput::new(input),
        }
    }
}

impl Operate for ProcedureCall {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::ProcedureCall(call) = spot.op() else {
            return Err(misplaced(spot.op()));
        };
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
        let mut columns: Vec<Vec<Value>> = call.yields.iter().map(|_| Vec::new()).collect();
        let (mut count, mut bytes) = (0_usize, 0_usize);
        let watch = &mut cx.run.watch;
        procedure.call(&arguments, cx.tx, &mut |row| {
            watch.tick(1)?;
            count += 1;
            for (column, (position, _)) in columns.iter_mut().zip(&call.yields) {
                let cell = row.get(*position).cloned().unwrap_or_default();
                bytes += value_bytes(&cell);
                column.push(cell);
            }
            watch.allow(bytes)
        })?;
        match &*signature.name {
            crate::builtin::PUT => cx.run.counters.bucket_puts += 1,
            crate::builtin::DELETE => cx.run.counters.bucket_deletes += 1,
            _ => {}
        }
        let mut chunk = self.input.repeat(&spot, if call.void { 1 } else { count });
        if !call.void {
            for ((_, slot), values) in call.yields.iter().zip(columns) {
                chunk.set(*slot, Column::of_values(values));
            }
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

/// Files are read by import, not by queries, until queries may be told which files they may open.
pub(super) struct LoadCsv {
    input: Child,
}

impl LoadCsv {
    pub(super) fn new(input: Child) -> Self {
        Self { input }
    }
}

impl Operate for LoadCsv {
    fn next(&mut self, _: &mut Cx<'_>) -> Result<Option<Chunk>> {
        Err(ExecError::Unsupported(
            "LOAD CSV is not available: queries may not open files; load them with `isomer import`, or pass the rows as a parameter".into(),
        ))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
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
            .collect(),
        ShowKind::Labels => catalog
            .labels()
            .into_iter()
            .map(|(id, name)| Ok((name, cx.tx.node_count(Some(id))?)))
            .filter_map(used)
            .collect::<Result<_>>()?,
        ShowKind::Types => catalog
            .types()
            .into_iter()
            .map(|(id, name)| Ok((name, cx.tx.relationship_count(Some(id))?)))
            .filter_map(used)
            .collect::<Result<_>>()?,
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
                    Value::Null,
                ]
            })
            .collect(),
        ShowKind::Queries => cx.run.running.as_ref().map_or(Vec::new(), |running| {
            running.list().into_iter().map(Vec::from).collect()
        }),
    })
}

fn functions(cx: &Cx<'_>) -> Vec<Vec<Value>> {
    let built_in = Builtin::ALL.iter().map(|function| {
        let (min, max) = function.arity();
        let count = match (min, max) {
            (_, usize::MAX) => format!("{min} or more arguments"),
            _ if min == max => format!("{min} arguments"),
            _ => format!("{min} to {max} arguments"),
        };
        vec![
            function.name().into(),
            Value::from(format!(
                "{}: {count} :: {}",
                function.name(),
                kind_name(&function.kind())
            )),
            Value::Null,
        ]
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
    built_in.chain(registered).collect()
}

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::List(of) => format!("LIST<{}>", kind_name(of)),
        other => format!("{other:?}").to_uppercase(),
    }
}
