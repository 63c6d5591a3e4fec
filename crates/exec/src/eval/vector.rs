//! Vectorised evaluation of expressions.

use std::borrow::Cow;

use isomer_plan::{
    expr::{Arithmetic, BoundExpr, Comparison, LabelRef, PropRef, SlotId, TypeRef},
    function::{Function as Builtin, Purity},
};
use isomer_value::{LabelId, NodeId, RelId, Value};

use super::{
    arith,
    remembered::{self, READ_BYTES},
    row::{Row, value},
    strict::{self, equal_truth},
    truth::not_boolean,
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
    function::Function,
};

/// The rows of a chunk for which an expression is evaluated.
#[derive(Clone, Copy)]
pub(crate) enum Selection<'a> {
    /// All flat rows.
    All(usize),
    /// These, ascending.
    Rows(&'a [u32]),
}

impl Selection<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::All(len) => *len,
            Self::Rows(rows) => rows.len(),
        }
    }

    fn row(&self, at: usize) -> usize {
        match self {
            Self::All(_) => at,
            Self::Rows(rows) => rows[at] as usize,
        }
    }
}

/// The values of `expr` for the selected flat rows: entry `i` belongs to the selection's row `i`.
///
/// All recursion goes through this function: its arms are separate functions, so that a level of nesting uses little
/// stack.
pub(crate) fn column<'c>(
    expr: &BoundExpr,
    chunk: &'c Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Cow<'c, Column>> {
    let made = match expr {
        BoundExpr::Slot(slot) => return Ok(slot_column(chunk, *slot, rows)),
        BoundExpr::At { inner, place } => {
            return column(inner, chunk, rows, cx).map_err(|error| error.at(*place));
        }
        BoundExpr::Const(value) => Ok(Column::Const(value.clone())),
        BoundExpr::Param(param) => Ok(Column::Const(cx.run.parameters[param.index()].clone())),
        BoundExpr::Property { base, name, nested } => {
            property_column(base, (*name, *nested), chunk, rows, cx)
        }
        BoundExpr::And(terms) => conjunction(terms, false, chunk, rows, cx),
        BoundExpr::Or(terms) => conjunction(terms, true, chunk, rows, cx),
        BoundExpr::Early(condition) => early(expr, condition, chunk, rows, cx),
        BoundExpr::Not(term) => negation(term, chunk, rows, cx),
        BoundExpr::Compare { op, left, right } => comparison(*op, left, right, chunk, rows, cx),
        BoundExpr::Arith { op, left, right } => arithmetic(*op, left, right, chunk, rows, cx),
        BoundExpr::Index {
            base,
            index,
            nested,
        } => element(expr, (base, *nested), index, chunk, rows, cx),
        BoundExpr::IsNull(base) => null_test(base, true, chunk, rows, cx),
        BoundExpr::IsNotNull(base) => null_test(base, false, chunk, rows, cx),
        BoundExpr::HasLabels { entity, .. } | BoundExpr::HasType { entity, .. } => {
            membership(expr, entity, chunk, rows, cx)
        }
        BoundExpr::Case {
            subject,
            arms,
            otherwise,
        } => case(
            subject.as_deref(),
            arms,
            otherwise.as_deref(),
            chunk,
            rows,
            cx,
        ),
        BoundExpr::Call {
            function: Builtin::Coalesce,
            arguments,
        } => coalesce(arguments, chunk, rows, cx),
        BoundExpr::Call {
            function,
            arguments,
        } => call(*function, arguments, chunk, rows, cx),
        BoundExpr::Local(_)
        | BoundExpr::MapProjection { .. }
        | BoundExpr::ListComprehension { .. }
        | BoundExpr::Quantifier { .. }
        | BoundExpr::Reduce { .. }
        | BoundExpr::Subquery(_)
        | BoundExpr::BuildPath { .. } => row_by_row(expr, chunk, rows, cx),
        _ => strict_column(expr, chunk, rows, cx),
    };
    made.map(Cow::Owned)
}

fn slot_column<'c>(chunk: &'c Chunk, slot: SlotId, rows: Selection<'_>) -> Cow<'c, Column> {
    match (chunk.column(slot), rows) {
        (None, _) => Cow::Owned(Column::Const(Value::Null)),
        (Some(column), Selection::All(_)) => Cow::Borrowed(column),
        (Some(column), Selection::Rows(rows)) => Cow::Owned(column.gather(rows)),
    }
}

fn property_column(
    base: &BoundExpr,
    name: (PropRef, bool),
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let base = column(base, chunk, rows, cx)?;
    properties(&base, name, rows.len(), cx)
}

fn negation(
    term: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let mut truths = truths(term, "NOT", chunk, rows, cx)?;
    for truth in &mut truths {
        *truth = truth.map(|truth| !truth);
    }
    Ok(Column::Bools(truths))
}

/// A condition that is true where it fails: all rows at once if it fails for none.
fn early(
    expr: &BoundExpr,
    condition: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    match truths(condition, "WHERE", chunk, rows, cx) {
        Ok(truths) => Ok(Column::Bools(truths)),
        Err(ExecError::Raised { .. }) => row_by_row(expr, chunk, rows, cx),
        Err(error) => Err(error),
    }
}

fn comparison(
    op: Comparison,
    left: &BoundExpr,
    right: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let left = column(left, chunk, rows, cx)?;
    let right = column(right, chunk, rows, cx)?;
    if let (Column::Const(a), Column::Const(b)) = (&*left, &*right) {
        return Ok(Column::Const(
            strict::compare(op, a, b).map_or(Value::Null, Value::Bool),
        ));
    }
    Ok(Column::Bools(compare(op, &left, &right, rows.len())))
}

fn arithmetic(
    op: Arithmetic,
    left: &BoundExpr,
    right: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let left = column(left, chunk, rows, cx)?;
    let right = column(right, chunk, rows, cx)?;
    if let (Column::Const(a), Column::Const(b)) = (&*left, &*right)
        && rows.len() > 0
    {
        return arith::arithmetic(op, a, b, cx).map(Column::Const);
    }
    (0..rows.len())
        .map(|row| {
            let made = with(&left, row, |a| {
                with(&right, row, |b| arith::arithmetic(op, a, b, cx))
            })?;
            cx.count_computed(&made)?;
            Ok(made)
        })
        .collect::<Result<Vec<Value>>>()
        .map(Column::Values)
}

/// `base[index]`.
fn element(
    expr: &BoundExpr,
    (base, nested): (&BoundExpr, bool),
    index: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let base = column(base, chunk, rows, cx)?;
    let index = column(index, chunk, rows, cx)?;
    if matches!((&*base, &*index), (Column::Const(_), Column::Const(_))) {
        return strictly(expr, &[base, index], rows.len(), cx);
    }
    if let Some(made) = elements(&base, &index, rows.len()) {
        return Ok(made);
    }
    (0..rows.len())
        .map(|row| {
            with(&base, row, |base| {
                with(&index, row, |index| strict::index(base, index, nested, cx))
            })
        })
        .collect::<Result<Vec<Value>>>()
        .map(Column::of_values)
}

/// `base[index]` if these are lists and integers in all rows. Neither is copied, and elements of one kind are collected
/// into a typed column directly, which avoids the reference counting of values.
fn elements(base: &Column, index: &Column, len: usize) -> Option<Column> {
    const NULL: Value = Value::Null;
    let list = |row: usize| match base {
        Column::Const(Value::List(items)) => Some(&**items),
        Column::Values(lists) => match &lists[row] {
            Value::List(items) => Some(&**items),
            _ => None,
        },
        _ => None,
    };
    let place = |row: usize| match index {
        Column::Const(Value::Int(place)) => Some(*place),
        Column::Ints(places) => Some(places[row]),
        _ => None,
    };
    let element = |row: usize| {
        let (items, place) = (list(row)?, place(row)?);
        let at = if place < 0 {
            place.checked_add(items.len() as i64)
        } else {
            Some(place)
        };
        let at = at.and_then(|at| usize::try_from(at).ok());
        Some(at.and_then(|at| items.get(at)).unwrap_or(&NULL))
    };
    match (0..len).next().and_then(element)? {
        Value::Int(_) => {
            let ints = (0..len).map(|row| element(row)?.as_int());
            if let Some(ints) = ints.collect() {
                return Some(Column::Ints(ints));
            }
        }
        Value::Node(_) => {
            let nodes = (0..len).map(|row| Some(element(row)?.as_node()?.id));
            if let Some(nodes) = nodes.collect() {
                return Some(Column::Nodes(nodes));
            }
        }
        _ => {}
    }
    let values = (0..len).map(|row| element(row).cloned());
    values.collect::<Option<Vec<_>>>().map(Column::of_values)
}

fn null_test(
    base: &BoundExpr,
    null: bool,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let base = column(base, chunk, rows, cx)?;
    Ok(Column::Bools(
        (0..rows.len())
            .map(|row| Some(base.is_null(row) == null))
            .collect(),
    ))
}

/// `n:L` and `r:T`.
fn membership(
    expr: &BoundExpr,
    entity: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let base = column(entity, chunk, rows, cx)?;
    match (expr, &*base) {
        (BoundExpr::HasLabels { labels, .. }, Column::Nodes(nodes)) => {
            has_labels(nodes, labels, cx).map(Column::Bools)
        }
        (BoundExpr::HasType { types, .. }, Column::Rels(rels)) => {
            Ok(Column::Bools(has_type(rels, types, cx)))
        }
        _ => strictly(expr, &[base], rows.len(), cx),
    }
}

fn call(
    function: Builtin,
    arguments: &[BoundExpr],
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let columns = arguments
        .iter()
        .map(|argument| column(argument, chunk, rows, cx))
        .collect::<Result<Vec<_>>>()?;
    if function == Builtin::Id
        && let [Cow::Borrowed(Column::Nodes(nodes)) | Cow::Owned(Column::Nodes(nodes))] =
            columns.as_slice()
        && let Ok(ids) = nodes.iter().map(|node| i64::try_from(node.0)).collect()
    {
        return Ok(Column::Ints(ids));
    }
    let same_each_time = function.purity() != Purity::Volatile;
    let function = Function::of(function)?;
    if same_each_time && rows.len() > 0 && all_constant(&columns) {
        let operands: Vec<Value> = columns.iter().map(|column| column.get(0)).collect();
        return function.call(&operands, cx).map(Column::Const);
    }
    let mut operands = Vec::with_capacity(columns.len());
    let mut made = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        operands.clear();
        operands.extend(columns.iter().map(|column| column.get(row)));
        let value = function.call(&operands, cx)?;
        cx.count_computed(&value)?;
        made.push(value);
    }
    Ok(Column::of_values(made))
}

fn row_by_row(
    expr: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let mut made = Vec::with_capacity(rows.len());
    for at in 0..rows.len() {
        cx.tick(1)?;
        let row = rows.row(at);
        let value = value(expr, Row { chunk, row }, cx)?;
        cx.count_computed(&value)?;
        made.push(value);
    }
    Ok(Column::of_values(made))
}

fn strict_column(
    expr: &BoundExpr,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let mut children = Vec::with_capacity(3);
    expr.for_each_child(&mut |child| children.push(child));
    let columns = children
        .into_iter()
        .map(|child| column(child, chunk, rows, cx))
        .collect::<Result<Vec<_>>>()?;
    strictly(expr, &columns, rows.len(), cx)
}

/// The truth values of `expr`; anything but booleans and null is an error.
pub(crate) fn truths(
    expr: &BoundExpr,
    operator: &str,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Vec<Option<bool>>> {
    let column = column(expr, chunk, rows, cx)?;
    if let Cow::Owned(Column::Bools(truths)) = column {
        return Ok(truths);
    }
    (0..rows.len())
        .map(|row| {
            column
                .truth(row)
                .map_err(|value| not_boolean(&value, operator))
        })
        .collect()
}

/// Whether every row has the same operands.
fn all_constant(columns: &[Cow<'_, Column>]) -> bool {
    columns
        .iter()
        .all(|column| matches!(&**column, Column::Const(_)))
}

/// Passes the value of a row to `body`, without a copy if the column stores values.
fn with<T>(column: &Column, row: usize, body: impl FnOnce(&Value) -> T) -> T {
    match column {
        Column::Values(values) => body(&values[row]),
        Column::Const(value) => body(value),
        other => body(&other.get(row)),
    }
}

/// Row by row over columns of operands.
fn strictly(
    expr: &BoundExpr,
    columns: &[Cow<'_, Column>],
    len: usize,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    if len > 0 && all_constant(columns) && !matches!(expr, BoundExpr::CallRegistered { .. }) {
        let operands: Vec<Value> = columns.iter().map(|column| column.get(0)).collect();
        return strict::apply(expr, &operands, cx).map(Column::Const);
    }
    let mut operands = Vec::with_capacity(columns.len());
    let mut made = Vec::with_capacity(len);
    for row in 0..len {
        operands.clear();
        operands.extend(columns.iter().map(|column| column.get(row)));
        let value = strict::apply(expr, &operands, cx)?;
        cx.count_computed(&value)?;
        made.push(value);
    }
    Ok(Column::of_values(made))
}

/// One property of every row's node, relationship, map, …; entities are read in one batch. `nested` says whether the
/// property is within a map.
fn properties(
    base: &Column,
    (name, nested): (PropRef, bool),
    len: usize,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    match base {
        Column::Nodes(nodes) => {
            strict::check_nodes(nodes, cx)?;
            node_properties(nodes, name, cx).map(Column::Values)
        }
        Column::Rels(rels) if cx.run.deleted.rels.is_empty() => {
            let ids: Vec<RelId> = rels.iter().map(|rel| rel.id).collect();
            let Some(prop) = cx.prop(name) else {
                return Ok(Column::Const(Value::Null));
            };
            let mut column = [Vec::with_capacity(ids.len())];
            while column[0].len() < ids.len() {
                let from = column[0].len();
                cx.reader().relationship_properties_within(
                    &ids[from..],
                    &[prop],
                    READ_BYTES,
                    &mut column,
                )?;
                cx.count_all_computed(&column[0][from..])?;
            }
            let [values] = column;
            Ok(Column::Values(values))
        }
        // Nodes and nulls, as produced by OPTIONAL MATCH.
        Column::Values(values)
            if values
                .iter()
                .all(|value| matches!(value, Value::Node(_) | Value::Null)) =>
        {
            let nodes: Vec<NodeId> = values
                .iter()
                .filter_map(|value| value.as_node().map(|node| node.id))
                .collect();
            strict::check_nodes(&nodes, cx)?;
            let mut read = node_properties(&nodes, name, cx)?.into_iter();
            Ok(Column::Values(
                values
                    .iter()
                    .map(|value| {
                        if value.is_null() {
                            Value::Null
                        } else {
                            read.next().unwrap_or_default()
                        }
                    })
                    .collect(),
            ))
        }
        Column::Const(value) => {
            let plan = cx.run.plan.clone();
            if len == 0 {
                return Ok(Column::Const(Value::Null));
            }
            strict::property_of(value, plan.property_name(name), nested, cx).map(Column::Const)
        }
        other => {
            let plan = cx.run.plan.clone();
            let name = plan.property_name(name);
            let made: Result<Vec<Value>> = (0..len)
                .map(|row| {
                    let read = with(other, row, |value| {
                        strict::property_of(value, name, nested, cx)
                    })?;
                    cx.count_computed(&read)?;
                    Ok(read)
                })
                .collect();
            made.map(Column::of_values)
        }
    }
}

fn node_properties(nodes: &[NodeId], name: PropRef, cx: &mut Cx<'_>) -> Result<Vec<Value>> {
    match cx.prop(name) {
        Some(prop) => remembered::properties(nodes, prop, cx),
        None => Ok(vec![Value::Null; nodes.len()]),
    }
}

fn has_labels(nodes: &[NodeId], labels: &[LabelRef], cx: &mut Cx<'_>) -> Result<Vec<Option<bool>>> {
    strict::check_nodes(nodes, cx)?;
    let asked: Option<Vec<LabelId>> = labels.iter().map(|label| cx.label(*label)).collect();
    let any_at_all = labels.is_empty();
    remembered::labels(
        nodes,
        |carried| match &asked {
            Some(_) if any_at_all => !carried.is_empty(),
            Some(asked) => asked.iter().all(|label| carried.contains(label)),
            None => false, // one of the labels was never used
        },
        cx,
    )
}

fn has_type(rels: &[isomer_data::RelRow], types: &[TypeRef], cx: &mut Cx<'_>) -> Vec<Option<bool>> {
    let filter = cx.type_filter(types);
    rels.iter()
        .map(|rel| Some(filter.allows(rel.type_id)))
        .collect()
}

/// Comparisons; entities are compared by their ids without being converted to values.
fn compare(op: Comparison, left: &Column, right: &Column, len: usize) -> Vec<Option<bool>> {
    if matches!(op, Comparison::Equal | Comparison::NotEqual) {
        let same = matches!(op, Comparison::Equal);
        match (left, right) {
            (Column::Nodes(a), Column::Nodes(b)) => {
                return a
                    .iter()
                    .zip(b)
                    .map(|(a, b)| Some((a == b) == same))
                    .collect();
            }
            (Column::Nodes(nodes), Column::Const(Value::Node(one)))
            | (Column::Const(Value::Node(one)), Column::Nodes(nodes)) => {
                let one = one.id;
                return nodes
                    .iter()
                    .map(|node| Some((*node == one) == same))
                    .collect();
            }
            (Column::Rels(a), Column::Rels(b)) => {
                return a
                    .iter()
                    .zip(b)
                    .map(|(a, b)| Some((a.id == b.id) == same))
                    .collect();
            }
            _ => {}
        }
    }
    (0..len)
        .map(|row| {
            with(left, row, |a| {
                with(right, row, |b| strict::compare(op, a, b))
            })
        })
        .collect()
}

/// `AND` or `OR`: a term is evaluated only for the rows that earlier terms did not decide.
fn conjunction(
    terms: &[BoundExpr],
    or: bool,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let operator = if or { "OR" } else { "AND" };
    let mut result: Vec<Option<bool>> = vec![Some(!or); rows.len()];
    // Positions in the selection that are still undecided, and their rows.
    let mut open: Vec<u32> = (0..rows.len() as u32).collect();
    let mut open_rows: Vec<u32> = (0..rows.len()).map(|at| rows.row(at) as u32).collect();
    for (number, term) in terms.iter().enumerate() {
        let answers = if number == 0 {
            truths(term, operator, chunk, rows, cx)?
        } else {
            truths(term, operator, chunk, Selection::Rows(&open_rows), cx)?
        };
        let mut kept = 0;
        for (at, answer) in answers.into_iter().enumerate() {
            let position = open[at] as usize;
            match answer {
                Some(known) if known == or => {
                    result[position] = Some(or);
                    continue;
                }
                Some(_) => {}
                None => result[position] = None,
            }
            open[kept] = open[at];
            open_rows[kept] = open_rows[at];
            kept += 1;
        }
        open.truncate(kept);
        open_rows.truncate(kept);
        if open.is_empty() {
            break;
        }
    }
    Ok(Column::Bools(result))
}

/// `CASE`: each arm is evaluated only for the rows that take it.
fn case(
    subject: Option<&BoundExpr>,
    arms: &[(BoundExpr, BoundExpr)],
    otherwise: Option<&BoundExpr>,
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let mut result = vec![Value::Null; rows.len()];
    let mut open: Vec<u32> = (0..rows.len() as u32).collect();
    let row_of = |positions: &[u32]| -> Vec<u32> {
        positions
            .iter()
            .map(|&at| rows.row(at as usize) as u32)
            .collect()
    };
    let subject = subject
        .map(|subject| column(subject, chunk, rows, cx))
        .transpose()?;
    for (when, then) in arms {
        if open.is_empty() {
            break;
        }
        let open_rows = row_of(&open);
        let taken: Vec<bool> = match &subject {
            Some(subject) => {
                let when = column(when, chunk, Selection::Rows(&open_rows), cx)?;
                open.iter()
                    .enumerate()
                    .map(|(at, &position)| {
                        with(subject, position as usize, |a| {
                            with(&when, at, |b| equal_truth(a, b))
                        }) == Some(true)
                    })
                    .collect()
            }
            None => truths(when, "WHEN", chunk, Selection::Rows(&open_rows), cx)?
                .into_iter()
                .map(|truth| truth == Some(true))
                .collect(),
        };
        let mut taken_by = taken.iter();
        let (mine, rest): (Vec<u32>, Vec<u32>) = open
            .iter()
            .partition(|_| *taken_by.next().unwrap_or(&false));
        if !mine.is_empty() {
            let values = column(then, chunk, Selection::Rows(&row_of(&mine)), cx)?;
            for (at, &position) in mine.iter().enumerate() {
                result[position as usize] = values.get(at);
            }
        }
        open = rest;
    }
    if let Some(otherwise) = otherwise
        && !open.is_empty()
    {
        let values = column(otherwise, chunk, Selection::Rows(&row_of(&open)), cx)?;
        for (at, &position) in open.iter().enumerate() {
            result[position as usize] = values.get(at);
        }
    }
    Ok(Column::of_values(result))
}

/// `coalesce`: each argument is evaluated only for the rows in which earlier ones were null.
fn coalesce(
    arguments: &[BoundExpr],
    chunk: &Chunk,
    rows: Selection<'_>,
    cx: &mut Cx<'_>,
) -> Result<Column> {
    let mut result = vec![Value::Null; rows.len()];
    let mut open: Vec<u32> = (0..rows.len() as u32).collect();
    for argument in arguments {
        let open_rows: Vec<u32> = open
            .iter()
            .map(|&at| rows.row(at as usize) as u32)
            .collect();
        let values = column(argument, chunk, Selection::Rows(&open_rows), cx)?;
        let mut still = Vec::new();
        for (at, &position) in open.iter().enumerate() {
            if values.is_null(at) {
                still.push(position);
            } else {
                result[position as usize] = values.get(at);
            }
        }
        open = still;
        if open.is_empty() {
            break;
        }
    }
    Ok(Column::of_values(result))
}
