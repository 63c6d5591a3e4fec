//! Loads a network into a database, by statements with parameters.

use isomer_db::{Database, Query, Result};
use isomer_value::{Map, Value, temporal::ZonedDateTime};

use super::{
    cell::{Cell, Parameters},
    network::Network,
    tables::{Column, Kind, Table, tables},
};

/// How times are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// As milliseconds: the interactive workload.
    Epoch,
    /// As `DATETIME`: the business-intelligence workload.
    DateTime,
}

/// Rows per statement.
const BATCH: usize = 5_000;
/// The labels whose ids and, for some, names are looked up.
const INDEXED: [(&str, &str); 14] = [
    ("City", "id"),
    ("Comment", "id"),
    ("Country", "id"),
    ("Country", "name"),
    ("Forum", "id"),
    ("Message", "id"),
    ("Organisation", "id"),
    ("Person", "firstName"),
    ("Person", "id"),
    ("Place", "id"),
    ("Post", "id"),
    ("Tag", "id"),
    ("Tag", "name"),
    ("TagClass", "id"),
];

/// Loads a network into an empty database, with the indexes that the workloads expect.
pub fn load(db: &Database, network: &Network, times: Times) -> Result<()> {
    for (label, property) in INDEXED {
        db.query(&*format!("CREATE INDEX FOR (n:{label}) ON (n.{property})"))?;
    }
    for table in tables(network) {
        let text = statement(&table, times);
        for rows in table.rows.chunks(BATCH) {
            let rows: Value = rows
                .iter()
                .map(|row| row.iter().map(|cell| value(cell, Times::Epoch)).collect())
                .collect();
            db.query(Query::new(&text).param("rows", rows))?;
        }
    }
    Ok(())
}

/// The statement that creates the rows of a table, given as `$rows`.
pub fn statement(table: &Table, times: Times) -> String {
    let first = match table.kind {
        Kind::Nodes { .. } => 0,
        Kind::Relationships { .. } => 2,
    };
    let columns = table
        .columns
        .iter()
        .enumerate()
        .map(|(at, (name, column))| {
            let cell = format!("r[{}]", at + first);
            match (column, times) {
                (Column::Time, Times::DateTime) => {
                    format!("{name}: datetime({{epochMillis: {cell}}})")
                }
                _ => format!("{name}: {cell}"),
            }
        });
    let properties = columns.collect::<Vec<_>>().join(", ");
    match table.kind {
        Kind::Nodes { labels } => {
            format!("UNWIND $rows AS r CREATE (:{labels} {{{properties}}})")
        }
        Kind::Relationships { from, name, to } => format!(
            "UNWIND $rows AS r MATCH (a:{from} {{id: r[0]}}), (b:{to} {{id: r[1]}}) \
             CREATE (a)-[:{name} {{{properties}}}]->(b)"
        ),
    }
}

/// A cell as a value of the database.
pub fn value(cell: &Cell, times: Times) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Bool(truth) => Value::Bool(*truth),
        Cell::Int(number) => Value::Int(*number),
        Cell::Float(number) => Value::Float(*number),
        Cell::Text(text) => text.as_str().into(),
        Cell::Time(time) => match times {
            Times::Epoch => Value::Int(*time),
            Times::DateTime => moment(*time),
        },
        Cell::List(cells) | Cell::Bag(cells) => {
            cells.iter().map(|cell| value(cell, times)).collect()
        }
    }
}

fn moment(time: i64) -> Value {
    let nanos = time.rem_euclid(1_000) as u32 * 1_000_000;
    let zone = isomer_value::jiff::tz::TimeZone::UTC;
    let made = ZonedDateTime::of_epoch(time.div_euclid(1_000), nanos, zone);
    Value::from(made.expect("times of a network are within the calendar"))
}

/// Parameters as values of the database.
pub fn parameters(given: &Parameters, times: Times) -> Map {
    let all = given.iter().map(|(name, cell)| (name, value(cell, times)));
    all.collect()
}
