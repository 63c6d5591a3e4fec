//! `isomer import DB nodes`.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use clap::Args;
use isomer_db::{
    Database, Error, Map, Value,
    data::{BulkNode, BulkOptions, DataError},
};

use super::{
    columns::{Column, ColumnType, Declared},
    delimited::TextColumns,
    feed::{Feed, Summary, Watch},
    input::InputOptions,
    record::{Record, RecordReader},
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

/// Where a record's key is and what type it has.
struct Key {
    column: Column,
    declared: Declared,
    /// It must be there.
    required: bool,
}

/// What a key is unless something else is declared.
const TEXT: Declared = Declared {
    column_type: ColumnType::String,
    list: false,
    optional: false,
};

/// Runs the import.
pub fn import(db: &Database, options: &NodesOptions) -> Result<Summary> {
    let mut key = Key::of(options.key.as_deref())?;
    let text_columns = TextColumns {
        names: vec![key.column.name.to_string()],
        first: 0,
    };
    let (source, reader) = options.input.open(text_columns)?;
    key.settle(reader.as_ref())?;
    if let Some(columns) = reader.columns()
        && key.required
        && !columns.contains(&key.column.name)
    {
        bail!(
            "{} has no column `{}` for the key; it has {}",
            source.name,
            key.column.name,
            columns.join(", ")
        );
    }
    let feed = Feed::new(&source, reader, &options.input);
    let convert = |record: &mut Record, nodes: &mut VecDeque<BulkNode>| {
        nodes.push_back(BulkNode {
            row: record.line,
            properties: key.properties(record)?,
        });
        Ok(())
    };
    let outcome = match options.label.as_slice() {
        [label] => {
            let loaded = db.store()?.bulk_nodes(
                label,
                &BulkOptions::default(),
                &mut feed.items(convert),
                &mut Watch(&feed),
            );
            loaded.map(|outcome| outcome.loaded)
        }
        labels => several_labels(db, labels, &feed, convert),
    };
    feed.finish(outcome.map(|loaded| vec![("node", loaded)]))
}

impl Key {
    fn of(option: Option<&str>) -> Result<Self> {
        let column = match option {
            Some(key) => Column::of_option(key)?,
            None => Column {
                name: "_key".into(),
                declared: None,
            },
        };
        Ok(Self {
            column,
            declared: TEXT,
            required: option.is_some(),
        })
    }

    /// Settles the key's type: as `--key` says, else as the file, `--columns` or `--types` do, else a string.
    fn settle(&mut self, reader: &dyn RecordReader) -> Result<()> {
        let said = self.column.declared;
        let declared = said.or_else(|| reader.declared(&self.column.name));
        self.declared = declared.unwrap_or(TEXT);
        let Declared {
            column_type, list, ..
        } = self.declared;
        if list || !matches!(column_type, ColumnType::String | ColumnType::Int) {
            bail!("the key `{}` must be a string or an int", self.column.name);
        }
        Ok(())
    }

    /// The record's properties, its key among them as `_key`.
    fn properties(&self, record: &mut Record) -> Result<Map, String> {
        let found = record
            .take(&self.column.name)
            .or_else(|| record.member.clone().map(Value::String));
        let key = match found {
            Some(value) => self
                .declared
                .convert(value)
                .map_err(|reason| format!("the key `{}` {reason}", self.column.name))?,
            None => None,
        };
        let mut properties: Map = record.fields.drain(..).collect();
        match key {
            Some(key) => {
                properties.insert("_key", key);
            }
            None if self.required => {
                return Err(format!("the key `{}` is missing", self.column.name));
            }
            None => {
                properties.insert("_key", isomer_db::data::new_key());
            }
        }
        Ok(properties)
    }
}

/// Nodes of several labels go the way of an ordinary transaction.
fn several_labels(
    db: &Database,
    labels: &[String],
    feed: &Feed,
    convert: impl FnMut(&mut Record, &mut VecDeque<BulkNode>) -> Result<(), String>,
) -> Result<u64, DataError> {
    let closed = |error: Error| DataError::Closed(error.message().to_owned());
    let mut transaction = db.begin().map_err(closed)?;
    let labels = labels
        .iter()
        .map(|label| transaction.data().intern_label(label))
        .collect::<Result<Vec<_>, _>>()?;
    let mut loaded = 0;
    for node in feed.items(convert) {
        let node = node?;
        let data = transaction.data();
        let mark = data.mark();
        match data.create_node(&labels, &node.properties) {
            Ok(_) => loaded += 1,
            Err(error) if super::is_rows_fault(&error) => {
                data.rollback_to(mark)?;
                feed.reject(node.row, error.to_string())?;
            }
            Err(error) => return Err(error),
        }
    }
    feed.stage("committing");
    transaction.into_data().commit()?;
    Ok(loaded)
}
