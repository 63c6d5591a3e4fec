//! Compares results of the database with answers of the independent computation.

use anyhow::{Result, bail, ensure};
use isomer_db::{Counters, QueryResult};
use isomer_testkit::ldbc::cell::{Answer, Cell, Parameters};
use isomer_value::Value;

/// Compares rows, in order.
pub fn rows(found: &QueryResult, expected: &Answer) -> Result<()> {
    let mut rows: Vec<Vec<Value>> = found
        .rows()
        .iter()
        .map(|row| row.values().to_vec())
        .collect();
    let mut wanted = expected.rows.clone();
    if let Some(column) = expected.tied_by {
        // The order by that column is checked here, and then ties get one order on both sides.
        ensure!(
            rows.len() == wanted.len()
                && rows
                    .iter()
                    .zip(&wanted)
                    .all(|(row, cells)| is(&row[column], &cells[column])),
            "the column {column} is in another order: {rows:?} instead of {wanted:?}"
        );
        rows.sort_by_cached_key(|row| format!("{row:?}"));
        let mut left = std::mem::take(&mut wanted);
        for row in &rows {
            let at = left
                .iter()
                .position(|cells| row.iter().zip(cells).all(|(value, cell)| is(value, cell)));
            let Some(at) = at else {
                bail!("{row:?} is not among the rows expected: {left:?}");
            };
            wanted.push(left.swap_remove(at));
        }
    }
    for (at, (row, cells)) in rows.iter().zip(&wanted).enumerate() {
        ensure!(
            row.len() == cells.len(),
            "row {at} has {} values instead of {}",
            row.len(),
            cells.len()
        );
        for (column, (value, cell)) in row.iter().zip(cells).enumerate() {
            ensure!(
                is(value, cell),
                "row {at}, column {}: {value:?} instead of {cell:?}; the row is {row:?}",
                found.columns()[column]
            );
        }
    }
    ensure!(
        rows.len() == wanted.len(),
        "{} rows instead of {}",
        rows.len(),
        wanted.len()
    );
    Ok(())
}

/// Whether a value is the one expected.
fn is(value: &Value, cell: &Cell) -> bool {
    match (value, cell) {
        (Value::Null, Cell::Null) => true,
        (Value::Bool(value), Cell::Bool(cell)) => value == cell,
        (Value::Int(value), Cell::Int(cell) | Cell::Time(cell)) => value == cell,
        (Value::Float(value), Cell::Float(cell)) => {
            (value - cell).abs() <= 1e-9 * cell.abs().max(1.0)
        }
        (Value::String(value), Cell::Text(cell)) => **value == **cell,
        (Value::ZonedDateTime(value), Cell::Time(cell)) => {
            value.epoch_nanos() == i128::from(*cell) * 1_000_000
        }
        (Value::List(values), Cell::List(cells)) => {
            values.len() == cells.len()
                && values
                    .iter()
                    .zip(cells)
                    .all(|(value, cell)| is(value, cell))
        }
        (Value::List(values), Cell::Bag(cells)) => {
            let mut left: Vec<&Cell> = cells.iter().collect();
            values.len() == cells.len()
                && values.iter().all(|value| {
                    let at = left.iter().position(|cell| is(value, cell));
                    at.map(|at| left.swap_remove(at)).is_some()
                })
        }
        _ => false,
    }
}

/// Checks what an update reports: nodes, relationships and labels.
pub fn counters(found: &Counters, update: usize, given: &Parameters) -> Result<()> {
    let tags = match update {
        1 | 4 | 6 | 7 => match given.get("tagIds") {
            Cell::List(tags) => tags.len() as u64,
            other => bail!("tags are a list, not {other:?}"),
        },
        _ => 0,
    };
    let (nodes, relationships, labels) = match update {
        // A city, a university and a company.
        1 => (1, 3 + tags, 1),
        4 => (1, 1 + tags, 1),
        6 | 7 => (1, 3 + tags, 2),
        _ => (0, 1, 0),
    };
    let seen = (
        found.nodes_created,
        found.relationships_created,
        found.labels_added,
    );
    let wanted = (nodes, relationships, labels);
    ensure!(
        seen == wanted,
        "the update changed {seen:?} instead of {wanted:?}"
    );
    Ok(())
}
