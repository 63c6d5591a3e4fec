//! `isomer import DB relationships`.

use std::{collections::VecDeque, sync::Arc};

use anyhow::{Result, bail};
use clap::Args;
use isomer_db::{
    Database, Map, Value,
    internals::{
        DatabaseInternals as _, LayerResult as _, TransactionInternals as _,
        bulk::{BulkEnds, BulkOptions, BulkRelationship, KeyTypes, key_types, load_relationships},
        data::{DataError, GraphRead},
    },
};
use isomer_value::{LabelId, NodeId};

use super::{
    LoadMode,
    columns::{Role, article},
    delimited::TextColumns,
    feed::{Feed, LoadProgress, Summary},
    input::InputOptions,
    record::{Record, RecordReader},
};

/// Options of `isomer import DB relationships`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer import people.db relationships friends.csv --type FRIEND --from User --to User
  isomer import people.db relationships edges.tsv.gz --type FOLLOWS --from User --to User --columns source,target
  isomer import people.db relationships likes.jsonl --type LIKES --from User --to Genre --from-field user --to-field genre
  isomer import people.db relationships genres.json --type LIKES --from User --to Genre --create-missing

The last file is one JSON object of the form {\"user\": [\"genre\", …], …}: its names are the start nodes,
and a list at the other end gives one relationship per element.")]
pub struct RelationshipsOptions {
    /// The type of the relationships
    #[arg(long = "type", value_name = "TYPE")]
    pub rel_type: String,
    /// The label of the start nodes
    #[arg(long, value_name = "LABEL")]
    pub from: String,
    /// The label of the end nodes
    #[arg(long, value_name = "LABEL")]
    pub to: String,
    /// The field with the key of the start [default: `_from`, `from`, `source` or `start`; the first column]
    #[arg(long, value_name = "FIELD")]
    pub from_field: Option<String>,
    /// The field with the key of the end [default: `_to`, `to`, `target` or `end`; the second column]
    #[arg(long, value_name = "FIELD")]
    pub to_field: Option<String>,
    /// Creates a node with the key alone if an end is missing, instead of refusing the row
    #[arg(long)]
    pub create_missing: bool,
    #[command(flatten)]
    pub input: InputOptions,
}

const FROM_NAMES: [&str; 4] = ["_from", "from", "source", "start"];
const TO_NAMES: [&str; 4] = ["_to", "to", "target", "end"];

/// Runs the import.
pub fn import(db: &Database, options: &RelationshipsOptions) -> Result<Summary> {
    let mut names: Vec<String> = options
        .from_field
        .iter()
        .chain(&options.to_field)
        .cloned()
        .collect();
    names.extend(
        FROM_NAMES
            .iter()
            .chain(&TO_NAMES)
            .map(|&name| name.to_owned()),
    );
    let first = if options.from_field.is_none() && options.to_field.is_none() {
        2
    } else {
        0
    };
    let (source, reader) = options
        .input
        .open(TextColumns { names, first }, Some("value"))?;
    let fields = EndFields::determine(options, reader.as_ref(), &source.name)?;
    let store = db.store()?;
    let keys = |label: &str| key_types(&store, label).lift();
    let (from, to) = (
        End::new(&options.from, keys(&options.from)?),
        End::new(&options.to, keys(&options.to)?),
    );
    let feed = Feed::new(&source, reader, &options.input);
    let convert = |record: &mut Record, relationships: &mut VecDeque<BulkRelationship>| {
        fields.relationships(record, &from, &to, relationships)
    };
    let mode = LoadMode::of(&store)?;
    let is_single =
        options.create_missing || from.is_mixed() || to.is_mixed() || !mode.is_past_transactions();
    let outcome = if is_single {
        one_by_one(db, options, &feed, &from, &to, convert)
    } else {
        let ends = BulkEnds {
            rel_type: &options.rel_type,
            from: &options.from,
            to: &options.to,
        };
        let loaded = load_relationships(
            &store,
            ends,
            &BulkOptions::default(),
            &mut feed.items(convert),
            &mut LoadProgress(&feed),
        );
        loaded.map(|outcome| vec![("relationship", outcome.loaded)])
    };
    mode.explain(feed.finish(outcome))
}

/// The fields with the ends; `None` if each record determines them.
struct EndFields {
    from: Option<String>,
    to: Option<String>,
}

impl EndFields {
    fn determine(
        options: &RelationshipsOptions,
        reader: &dyn RecordReader,
        source: &str,
    ) -> Result<Self> {
        let Some(columns) = reader.columns() else {
            return Ok(Self {
                from: options.from_field.clone(),
                to: options.to_field.clone(),
            });
        };
        let given = |option: &Option<String>, role| {
            let of_header = || Some(reader.with_role(role)?.to_string());
            option.clone().or_else(of_header)
        };
        let (from, to) = (
            given(&options.from_field, Role::Start),
            given(&options.to_field, Role::End),
        );
        let from = choose_column(&columns, &from, &FROM_NAMES, 0, source)?;
        let to = choose_column(&columns, &to, &TO_NAMES, 1, source)?;
        if from == to {
            bail!(
                "start and end are both in column `{from}`: name them with --from-field and --to-field"
            );
        }
        Ok(Self {
            from: Some(from),
            to: Some(to),
        })
    }

    /// The relationships of one record: one, or one per element if the end is a list.
    fn relationships(
        &self,
        record: &mut Record,
        from: &End,
        to: &End,
        out: &mut VecDeque<BulkRelationship>,
    ) -> Result<(), String> {
        let (field, value) = self.start(record)?;
        let source = from.key(&field, &value)?;
        let (field, value) = self.end(record)?;
        let targets = match &value {
            Value::List(items) => items
                .iter()
                .map(|item| to.key(&field, item))
                .collect::<Result<Vec<_>, _>>()?,
            one => vec![to.key(&field, one)?],
        };
        let properties: Map = record.fields.drain(..).collect();
        out.extend(targets.into_iter().map(|target| BulkRelationship {
            row: record.line,
            source: source.clone(),
            target,
            properties: properties.clone(),
        }));
        Ok(())
    }

    fn start(&self, record: &mut Record) -> Result<(String, Value), String> {
        if let Some(name) = &self.from {
            return record
                .take(name)
                .map(|value| (name.clone(), value))
                .ok_or_else(|| format!("the start, `{name}`, is missing"));
        }
        if let Some(member) = &record.member {
            return Ok(("the object's name".into(), Value::String(member.clone())));
        }
        take_any(record, &FROM_NAMES).ok_or_else(|| "the record has no field `_from`, `from`, `source` or `start`: name it with --from-field".into())
    }

    fn end(&self, record: &mut Record) -> Result<(String, Value), String> {
        if let Some(name) = &self.to {
            return record
                .take(name)
                .map(|value| (name.clone(), value))
                .ok_or_else(|| format!("the end, `{name}`, is missing"));
        }
        if let Some(found) = take_any(record, &TO_NAMES) {
            return Ok(found);
        }
        // An object of the form {"start": ["end", …]}: the value is the end.
        if record.member.is_some() && record.fields.len() == 1 {
            let (name, value) = record.fields.remove(0);
            return Ok((name.to_string(), value));
        }
        Err(
            "the record has no field `_to`, `to`, `target` or `end`: name it with --to-field"
                .into(),
        )
    }
}

fn choose_column(
    columns: &[Arc<str>],
    given: &Option<String>,
    usual: &[&str],
    at: usize,
    source: &str,
) -> Result<String> {
    let has = |name: &str| columns.iter().any(|column| column.as_ref() == name);
    match given {
        Some(name) if has(name) => return Ok(name.clone()),
        Some(name) => bail!(
            "{source} has no column `{name}`; it has {}",
            columns.join(", ")
        ),
        None => {}
    }
    if let Some(name) = usual.iter().find(|name| has(name)) {
        return Ok((*name).to_owned());
    }
    match columns.get(at) {
        Some(name) => Ok(name.to_string()),
        None => bail!(
            "{source} has one column, `{}`: two are needed, the start and the end of each relationship (is the delimiter right?)",
            columns.join(", ")
        ),
    }
}

fn take_any(record: &mut Record, names: &[&str]) -> Option<(String, Value)> {
    names
        .iter()
        .find_map(|name| Some(((*name).to_owned(), record.take(name)?)))
}

/// The label at one end and the types of its keys.
struct End {
    label: String,
    keys: KeyTypes,
}

impl End {
    fn new(label: &str, keys: KeyTypes) -> Self {
        Self {
            label: label.to_owned(),
            keys,
        }
    }

    /// Whether a text may be a string or an integer.
    fn is_mixed(&self) -> bool {
        self.keys.strings && self.keys.integers
    }

    /// The value as a key of the type of the label's keys: a string if there are none.
    fn key(&self, field: &str, value: &Value) -> Result<Value, String> {
        match value {
            Value::String(text) if self.keys.integers && !self.keys.strings => {
                match text.trim().parse() {
                    Ok(number) => Ok(Value::Int(number)),
                    Err(_) => Err(format!(
                        "`{field}` is `{}`, and the keys of {} are integers",
                        super::excerpt::excerpt(text),
                        self.label
                    )),
                }
            }
            Value::Int(number) if !self.keys.integers => {
                Ok(Value::String(number.to_string().into()))
            }
            Value::String(_) | Value::Int(_) => Ok(value.clone()),
            other => Err(format!(
                "`{field}` is {}, where the key of a {} is expected",
                article(other),
                self.label
            )),
        }
    }

    /// The alternative type of a key, if the label has keys of both types.
    fn other_reading(&self, key: &Value) -> Option<Value> {
        match key {
            _ if !self.is_mixed() => None,
            Value::Int(number) => Some(Value::String(number.to_string().into())),
            other => other.as_str()?.parse().ok().map(Value::Int),
        }
    }

    fn find(
        &self,
        data: &isomer_db::internals::data::Transaction,
        label: LabelId,
        key: &Value,
    ) -> Result<Option<NodeId>, DataError> {
        match (data.node_by_key(label, key)?, self.other_reading(key)) {
            (None, Some(other)) => data.node_by_key(label, &other),
            (found, _) => Ok(found),
        }
    }
}

/// Relationships whose ends may have to be created, or looked up twice, are created by ordinary transactions.
fn one_by_one(
    db: &Database,
    options: &RelationshipsOptions,
    feed: &Feed,
    from: &End,
    to: &End,
    convert: impl FnMut(&mut Record, &mut VecDeque<BulkRelationship>) -> Result<(), String>,
) -> Result<Vec<(&'static str, u64)>, DataError> {
    let transaction = db
        .begin()
        .map_err(|error| DataError::Closed(error.message().to_owned()))?;
    let mut data = transaction.into_data();
    let rel_type = data.name_ids().intern_type(&options.rel_type)?;
    let (from_label, to_label) = (
        data.name_ids().intern_label(&from.label)?,
        data.name_ids().intern_label(&to.label)?,
    );
    let (mut relationships, mut nodes) = (0, 0);
    for item in feed.items(convert) {
        let item = item?;
        let mark = data.savepoint();
        let made = (|| {
            let mut made = 0;
            let mut ends = [NodeId(0); 2];
            for (at, (end, label, key)) in [
                (from, from_label, &item.source),
                (to, to_label, &item.target),
            ]
            .into_iter()
            .enumerate()
            {
                ends[at] = match end.find(&data, label, key)? {
                    Some(node) => node,
                    None if options.create_missing => {
                        made += 1;
                        data.graph_mut()
                            .create_node(&[label], &[("_key", key.clone())].into_iter().collect())?
                    }
                    None => {
                        return Err(DataError::NotFound(format!(
                            "there is no {} with the key {}: import the nodes first, or say --create-missing",
                            end.label,
                            shown(key)
                        )));
                    }
                };
            }
            data.graph_mut()
                .create_relationship(rel_type, ends[0], ends[1], &item.properties)?;
            Ok(made)
        })();
        match made {
            Ok(made) => {
                nodes += made;
                relationships += 1;
            }
            Err(error) if super::is_rows_fault(&error) => {
                data.rollback_to(mark)?;
                feed.reject(item.row, error.to_string())?;
            }
            Err(error) => return Err(error),
        }
    }
    feed.stage("committing");
    data.commit()?;
    Ok(if nodes > 0 {
        vec![("relationship", relationships), ("node", nodes)]
    } else {
        vec![("relationship", relationships)]
    })
}

/// A key for messages: strings in quotes.
fn shown(key: &Value) -> String {
    match key {
        Value::String(text) => format!("\"{}\"", super::excerpt::excerpt(text)),
        other => crate::output::text(other),
    }
}
