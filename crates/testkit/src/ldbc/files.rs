//! Writes a network as files: CSV with the headers of Neo4j's importer, one file per table.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::{
    cell::Cell,
    network::Network,
    tables::{Column, Kind, Table, tables},
};

/// Writes `N-nodes-LABELS.csv` and `N-relationships-TYPE.csv` into an existing folder, with labels separated by
/// dots, as the importer takes file names for regular expressions.
/// Each table is separated by commas, texts are quoted, and its first line is a header.
pub fn write(network: &Network, folder: &Path) -> io::Result<()> {
    for (number, table) in tables(network).iter().enumerate() {
        let name = match table.kind {
            Kind::Nodes { labels } => format!("nodes-{}", labels.replace(':', ".")),
            Kind::Relationships { name, .. } => format!("relationships-{name}"),
        };
        let mut out = BufWriter::new(File::create(folder.join(format!("{number}-{name}.csv")))?);
        writeln!(out, "{}", header(table))?;
        for row in &table.rows {
            // Nodes have their id twice: as the key of the import, and as a property.
            let key = matches!(table.kind, Kind::Nodes { .. }).then(|| &row[0]);
            let cells: Vec<String> = key.into_iter().chain(row).map(text).collect();
            writeln!(out, "{}", cells.join(","))?;
        }
        out.flush()?;
    }
    Ok(())
}

/// The group of a label's ids: labels whose ids are shared are one group.
fn group(labels: &str) -> &str {
    labels.rsplit(':').next().unwrap_or(labels)
}

fn header(table: &Table) -> String {
    let keys = match table.kind {
        Kind::Nodes { labels } => vec![format!(":ID({})", group(labels))],
        Kind::Relationships { from, to, .. } => {
            vec![format!(":START_ID({from})"), format!(":END_ID({to})")]
        }
    };
    let columns = table.columns.iter().map(|(name, column)| match column {
        Column::Int | Column::Time => format!("{name}:long"),
        Column::Text => format!("{name}:string"),
        Column::Texts => format!("{name}:string[]"),
    });
    keys.into_iter()
        .chain(columns)
        .collect::<Vec<_>>()
        .join(",")
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Null => String::new(),
        Cell::Bool(truth) => truth.to_string(),
        Cell::Int(number) | Cell::Time(number) => number.to_string(),
        Cell::Float(number) => number.to_string(),
        Cell::Text(text) => format!("\"{}\"", text.replace('"', "\"\"")),
        Cell::List(cells) | Cell::Bag(cells) => {
            let parts = cells.iter().map(|cell| match cell {
                Cell::Text(text) => text.clone(),
                other => text(other),
            });
            format!("\"{}\"", parts.collect::<Vec<_>>().join(";"))
        }
    }
}
