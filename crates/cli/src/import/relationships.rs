//! `isomer import DB relationships`.

use std::collections::HashMap;

use anyhow::{Result, bail};
use clap::Args;
use isomer_db::{Database, Map, Value};
use isomer_value::{LabelId, NodeId};

use super::{
    columns::article,
    delimited::TextColumns,
    input::InputOptions,
    record::RecordReader,
    run::{Counted, Row, run},
    sink::{KeyTypes, Refusal, Sink, key_name, shown},
};

/// Options of `isomer import DB relationships`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer import people.db relationships friends.csv --type FRIEND --from User --to User
  isomer import people.db relationships edges.tsv.gz --type FOLLOWS --from User --to User --columns source,target
  isomer import people.db relationships likes.jsonl --type LIKES --from User --to Genre --from-field user --to-field genre
  isomer import people.db relationships genres.json --type LIKES --from User --to Genre --create-missing

The last file is one JSON object of the form {\"user\": [\"genre\", …], …}: its names are where relationships start,
and a list at the other end makes one relationship per element.")]
pub struct RelationshipsOptions {
    /// The type of the relationships
    #[arg(long = "type", value_name = "TYPE")]
    pub rel_type: String,
    /// The label of the nodes where they start
    #[arg(long, value_name = "LABEL")]
    pub from: String,
    /// The label of the nodes where they end
    #[arg(long, value_name = "LABEL")]
    pub to: String,
    /// The field with the key of the start [default: `_from`, `from` or `source`; the first column]
    #[arg(long, value_name = "FIELD")]
    pub from_field: Option<String>,
    /// The field with the key of the end [default: `_to`, `to` or `target`; the second column]
    #[arg(long, value_name = "FIELD")]
    pub to_field: Option<String>,
    /// Makes a node with the key alone where an end is missing, instead of refusing the row
    #[arg(long)]
    pub create_missing: bool,
    #[command(flatten)]
    pub input: InputOptions,
}

const FROM_NAMES: [&str; 4] = ["_from", "from", "source", "start"];
const TO_NAMES: [&str; 4] = ["_to", "to", "target", "end"];

/// Runs the import.
pub fn import(db: &Database, options: &RelationshipsOptions) -> Result<Counted> {
    let mut names = Vec::new();
    names.extend(options.from_field.clone());
    names.extend(options.to_field.clone());
    names.extend(
        FROM_NAMES
            .iter()
            .chain(&TO_NAMES)
            .map(|&name| name.to_owned()),
    );
    let text_columns = TextColumns {
        names,
        first: if options.from_field.is_none() && options.to_field.is_none() {
            2
        } else {
            0
        },
    };
    let (source, reader) = options.input.open(text_columns, None)?;
    let fields = EndFields::choose(options, reader.as_ref(), &source.name)?;
    let sink = Sink::new(db)?;
    let rel_type = sink.rel_type(&options.rel_type)?;
    let mut from = End::new(&sink, &options.from, options.create_missing)?;
    let mut to = End::new(&sink, &options.to, options.create_missing)?;
    if options.from == options.to {
        to.keys = from.keys;
    }
    let same_label = options.from == options.to;
    run(
        source,
        reader,
        sink,
        &options.input,
        "relationship",
        move |sink: &mut Sink, row: Row<'_>| {
            let record = row.record;
            let source = fields.from(record)?;
            let target = fields.to(record, &source.1)?;
            let properties: Map = record.fields.drain(..).collect();
            let start = from.node(sink, &source.0, &source.1)?;
            let end = if same_label { &mut from } else { &mut to };
            let targets = match &target.1 {
                Value::List(items) => items.to_vec(),
                one => vec![one.clone()],
            };
            for key in &targets {
                let node = end.node(sink, &target.0, key)?;
                sink.relationship(rel_type, start, node, &properties)?;
            }
            Ok(targets.len() as u64)
        },
    )
}

/// Which fields hold the ends.
struct EndFields {
    from: Option<String>,
    to: Option<String>,
}

impl EndFields {
    fn choose(
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
        let has = |name: &str| columns.iter().any(|column| column.as_ref() == name);
        let choose = |given: &Option<String>,
                      usual: &[&str],
                      at: usize,
                      what: &str|
         -> Result<String> {
            if let Some(name) = given {
                if !has(name) {
                    bail!(
                        "{source} has no column `{name}`; it has {}",
                        columns.join(", ")
                    );
                }
                return Ok(name.clone());
            }
            if let Some(name) = usual.iter().find(|name| has(name)) {
                return Ok((*name).to_owned());
            }
            match columns.get(at) {
                Some(name) => Ok(name.to_string()),
                None => bail!(
                    "{source} has {} only: two are needed, the start and the end of each relationship (is the delimiter right?)",
                    crate::style::counted(columns.len() as u64, what)
                ),
            }
        };
        let from = choose(&options.from_field, &FROM_NAMES, 0, "column")?;
        let to = choose(&options.to_field, &TO_NAMES, 1, "column")?;
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

    fn from(&self, record: &mut super::record::Record) -> Result<(String, Value), Refusal> {
        if let Some(name) = &self.from {
            return match record.take(name) {
                Some(value) => Ok((name.clone(), value)),
                None => Err(Refusal::Row(format!("the start, `{name}`, is missing"))),
            };
        }
        if let Some(member) = &record.member {
            return Ok(("the object's name".into(), Value::String(member.clone())));
        }
        take_any(record, &FROM_NAMES).ok_or_else(|| {
            Refusal::Row(
                "no field `_from`, `from`, `source` or `start`: name the field with --from-field"
                    .into(),
            )
        })
    }

    fn to(
        &self,
        record: &mut super::record::Record,
        _from: &Value,
    ) -> Result<(String, Value), Refusal> {
        if let Some(name) = &self.to {
            return match record.take(name) {
                Some(value) => Ok((name.clone(), value)),
                None => Err(Refusal::Row(format!("the end, `{name}`, is missing"))),
            };
        }
        if let Some(found) = take_any(record, &TO_NAMES) {
            return Ok(found);
        }
        // An object of the form {"start": ["end", …]}: the value is all there is.
        if record.member.is_some() && record.fields.len() == 1 {
            let (name, value) = record.fields.remove(0);
            return Ok((name.to_string(), value));
        }
        Err(Refusal::Row(
            "no field `_to`, `to`, `target` or `end`: name the field with --to-field".into(),
        ))
    }
}

fn take_any(record: &mut super::record::Record, names: &[&str]) -> Option<(String, Value)> {
    names
        .iter()
        .find_map(|name| Some(((*name).to_owned(), record.take(name)?)))
}

/// Finds the nodes at one end, and remembers those found.
struct End {
    label: LabelId,
    label_name: String,
    keys: KeyTypes,
    create: bool,
    known: HashMap<Key, NodeId>,
}

/// A key for a hash map.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Text(std::sync::Arc<str>),
    Number(i64),
}

/// Most nodes that are remembered: about 60 bytes each.
const MAX_KNOWN: usize = 4_000_000;

impl End {
    fn new(sink: &Sink, label: &str, create: bool) -> Result<Self> {
        let keys = KeyTypes::of(sink.transaction(), label)?;
        Ok(Self {
            label: sink.label(label)?,
            label_name: label.to_owned(),
            keys,
            create,
            known: HashMap::new(),
        })
    }

    fn node(&mut self, sink: &mut Sink, field: &str, key: &Value) -> Result<NodeId, Refusal> {
        let name = match key {
            Value::String(text) => Key::Text(text.clone()),
            Value::Int(number) => Key::Number(*number),
            other => {
                return Err(Refusal::Row(format!(
                    "`{field}` is {}, where the key of a {} is expected",
                    article(other),
                    self.label_name
                )));
            }
        };
        if let Some(node) = self.known.get(&name) {
            return Ok(*node);
        }
        let node = match sink.find(self.label, self.keys, key)? {
            Some(node) => node,
            None if self.create => self.create(sink, key)?,
            None => {
                return Err(Refusal::Row(format!(
                    "`{field}`: there is no {} with the key {}: import the nodes first, or say --create-missing",
                    self.label_name,
                    shown(key)
                )));
            }
        };
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(name, node);
        Ok(node)
    }

    fn create(&mut self, sink: &mut Sink, key: &Value) -> Result<NodeId, Refusal> {
        let Some(key) = self.keys.readings(key).into_iter().next() else {
            return Err(Refusal::Row(format!(
                "{} is no key that a {} can have",
                shown(key),
                self.label_name
            )));
        };
        let properties: Map = [(key_name(), key)].into_iter().collect();
        sink.node(&[self.label], &properties)
    }
}
