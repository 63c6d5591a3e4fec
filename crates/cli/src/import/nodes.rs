//! `isomer import DB nodes`.

use anyhow::{Result, bail};
use clap::Args;
use isomer_db::{Database, Map, Value};

use super::{
    columns::{Column, ColumnType, Declared},
    delimited::TextColumns,
    input::InputOptions,
    run::{Counted, Row, run},
    sink::{Refusal, Sink, key_name},
};

/// Options of `isomer import DB nodes`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer import people.db nodes people.csv --label Person --key id
  isomer import people.db nodes people.csv.gz --label Person --key id:int --types 'born:date?'
  isomer import people.db nodes profiles.jsonl --label Person
  isomer import people.db nodes genres.json --label User --value-field genres
  zcat snap.txt.gz | isomer import g.db nodes - --label Page --columns id --key id --input-format tsv")]
pub struct NodesOptions {
    /// The label of the nodes; several times for several labels
    #[arg(long, required = true, value_name = "LABEL")]
    pub label: Vec<String>,
    /// The field that holds the key: it becomes `_key`. Keys are strings unless declared otherwise: `id:int`
    /// [default: `_key` where the file has it, otherwise every node gets a new UUID]
    #[arg(long, value_name = "FIELD")]
    pub key: Option<String>,
    #[command(flatten)]
    pub input: InputOptions,
}

/// Runs the import.
pub fn import(db: &Database, options: &NodesOptions) -> Result<Counted> {
    let key = match &options.key {
        Some(key) => Column::of_option(key)?,
        None => Column {
            name: key_name(),
            declared: None,
        },
    };
    let declared = key.declared.unwrap_or(Declared {
        column_type: ColumnType::String,
        list: false,
        optional: false,
    });
    if declared.list || !matches!(declared.column_type, ColumnType::String | ColumnType::Int) {
        bail!("the key `{}` must be a string or an int", key.name);
    }
    let text_columns = TextColumns {
        names: vec![key.name.to_string()],
        first: 0,
    };
    let (source, reader) = options.input.open(text_columns, None)?;
    if let Some(columns) = reader.columns()
        && options.key.is_some()
        && !columns.contains(&key.name)
    {
        bail!(
            "{} has no column `{}` for the key; it has {}",
            source.name,
            key.name,
            columns.join(", ")
        );
    }
    let sink = Sink::new(db)?;
    let labels = options
        .label
        .iter()
        .map(|label| sink.label(label))
        .collect::<Result<Vec<_>>>()?;
    let names = options.label.clone();
    let named = options.key.is_some();
    run(
        source,
        reader,
        sink,
        &options.input,
        "node",
        move |sink: &mut Sink, row: Row<'_>| {
            let record = row.record;
            let found = record
                .take(&key.name)
                .or_else(|| record.member.clone().map(Value::String));
            let value = match found {
                Some(value) => declared
                    .convert(value)
                    .map_err(|reason| Refusal::Row(format!("the key `{}` {reason}", key.name)))?,
                None => None,
            };
            let mut properties: Map = record.fields.drain(..).collect();
            match value {
                Some(value) => {
                    properties.insert(key_name(), value);
                }
                None if named => {
                    return Err(Refusal::Row(format!("the key `{}` is missing", key.name)));
                }
                None => {
                    sink.node_without_key(&names, &properties)?;
                    return Ok(1);
                }
            }
            sink.node(&labels, &properties)?;
            Ok(1)
        },
    )
}
