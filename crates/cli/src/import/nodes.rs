//! `isomer import DB nodes`.

use std::collections::VecDeque;

use anyhow::{Result, bail};
use clap::Args;
use isomer_db::{
    Database, Error, Map, Value,
    internals::{
        DatabaseInternals as _, TransactionInternals as _,
        bulk::{BulkNode, BulkOptions, load_nodes},
        data::DataError,
    },
};

use super::{
    LoadMode,
    column_type::ColumnType,
    columns::{Column, Declared, Role, article},
    delimited::TextColumns,
    feed::{Feed, LoadProgress, Summary},
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
    /// The label of the nodes; may be repeated for several labels
    #[arg(long, required = true, value_name = "LABEL")]
    pub label: Vec<String>,
    /// The field with the key: it becomes `_key`. Keys are strings unless declared otherwise: `id:int` [default: `_key`
    /// if the file has it, otherwise every node gets a new UUID]
    #[arg(long, value_name = "FIELD")]
    pub key: Option<String>,
    #[command(flatten)]
    pub input: InputOptions,
}

/// The field and the type of a record's key.
struct Key {
    column: Column,
    /// None if keys have the types of their JSON values.
    declared: Option<Declared>,
    /// It is required.
    required: bool,
}

/// The default type of a key.
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
    let (source, reader) = options.input.open(text_columns, None)?;
    if options.key.is_none()
        && let Some(name) = reader.with_role(Role::Key)
    {
        key.column = Column::named(&name);
        key.required = true;
    }
    key.determine_key_type(reader.as_ref())?;
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
    let store = db.store()?;
    let mode = LoadMode::of(&store)?;
    let feed = Feed::new(&source, reader, &options.input);
    let convert = |record: &mut Record, nodes: &mut VecDeque<BulkNode>| {
        nodes.push_back(BulkNode {
            row: record.line,
            properties: key.properties(record)?,
        });
        Ok(())
    };
    let outcome = match options.label.as_slice() {
        [label] if mode.is_past_transactions() => {
            let loaded = load_nodes(
                &store,
                label,
                &BulkOptions::default(),
                &mut feed.items(convert),
                &mut LoadProgress(&feed),
            );
            loaded.map(|outcome| outcome.loaded)
        }
        labels => several_labels(db, labels, &feed, convert),
    };
    mode.explain(feed.finish(outcome.map(|loaded| vec![("node", loaded)])))
}

impl Key {
    fn of(option: Option<&str>) -> Result<Self> {
        let column = match option {
            Some(key) => Column::of_option(key)?,
            None => Column::named("_key"),
        };
        Ok(Self {
            column,
            declared: Some(TEXT),
            required: option.is_some(),
        })
    }

    /// Determines the key's type: as declared by `--key`, otherwise by the file, `--columns` or `--types`, otherwise a
    /// string. In JSON, a field `_key` is a key already, with its own type.
    fn determine_key_type(&mut self, reader: &dyn RecordReader) -> Result<()> {
        let said = self.column.declared;
        let declared = said.or_else(|| reader.declared(&self.column.name));
        self.declared = match declared {
            // As written by an export if a label has keys of both types.
            Some(Declared {
                column_type: ColumnType::Json,
                list: false,
                ..
            }) => None,
            Some(declared)
                if declared.list
                    || !matches!(declared.column_type, ColumnType::String | ColumnType::Int) =>
            {
                bail!("the key `{}` must be a string or an int", self.column.name)
            }
            Some(declared) => Some(declared),
            None if reader.columns().is_none() && &*self.column.name == "_key" => None,
            None => Some(TEXT),
        };
        Ok(())
    }

    /// The record's properties, with its key as `_key`.
    fn properties(&self, record: &mut Record) -> Result<Map, String> {
        let found = record
            .take(&self.column.name)
            .or_else(|| record.member.clone().map(Value::String));
        let key = match (found, self.declared) {
            (Some(value), Some(declared)) => declared
                .convert(value)
                .map_err(|reason| format!("the key `{}` {reason}", self.column.name))?,
            (Some(value @ (Value::String(_) | Value::Int(_))), None) => Some(value),
            (Some(value), None) => {
                return Err(format!(
                    "the key `{}` is {}, where a string or an integer is expected",
                    self.column.name,
                    article(&value)
                ));
            }
            (None, _) => None,
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
                properties.insert("_key", isomer_db::internals::data::new_key());
            }
        }
        Ok(properties)
    }
}

/// Nodes with several labels, and all in a shared database, are created by an ordinary transaction.
fn several_labels(
    db: &Database,
    labels: &[String],
    feed: &Feed,
    convert: impl FnMut(&mut Record, &mut VecDeque<BulkNode>) -> Result<(), String>,
) -> Result<u64, DataError> {
    let closed = |error: Error| DataError::Closed(error.message().to_owned());
    let mut data = db.begin().map_err(closed)?.into_data();
    let labels = labels
        .iter()
        .map(|label| data.name_ids().intern_label(label))
        .collect::<Result<Vec<_>, _>>()?;
    let mut loaded = 0;
    for node in feed.items(convert) {
        let node = node?;
        let mark = data.savepoint();
        match data.graph_mut().create_node(&labels, &node.properties) {
            Ok(_) => loaded += 1,
            Err(error) if super::is_rows_fault(&error) => {
                data.rollback_to(mark)?;
                feed.reject(node.row, error.to_string())?;
            }
            Err(error) => return Err(error),
        }
    }
    feed.stage("committing");
    data.commit()?;
    Ok(loaded)
}
