//! Fast path of point reads: one record by its key, without a pipeline.

use isomer_plan::{expr::BoundExpr, physical::PlanBody};

use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
    eval::{Row, value},
    operator::node_by_key,
    result::ResultRows,
};

/// Reads the record and makes its row.
pub(crate) fn read(cx: &mut Cx<'_>, rows: &mut ResultRows) -> Result<()> {
    let plan = cx.run.plan.clone();
    let PlanBody::PointRead(point) = &plan.body else {
        return Err(ExecError::Internal("a point read without its plan".into()));
    };
    let empty = Chunk::default();
    let key = match &point.key {
        BoundExpr::Param(param) => cx.run.parameters[param.index()].clone(),
        other => value(
            other,
            Row {
                chunk: &empty,
                row: 0,
            },
            cx,
        )?,
    };
    let Some(label) = cx.label(point.label) else {
        return Ok(());
    };
    let Some(node) = node_by_key(label, &key, cx)? else {
        return Ok(());
    };
    let mut chunk = Chunk::new(1, point.node.index() + 1);
    chunk.set(point.node, Column::Nodes(vec![node]));
    for column in &point.columns {
        let mut cell = value(
            column,
            Row {
                chunk: &chunk,
                row: 0,
            },
            cx,
        )?;
        crate::hydrate::fill(cx, std::slice::from_mut(&mut cell))?;
        rows.values_mut().push(cell);
    }
    rows.add_rows(1);
    Ok(())
}
