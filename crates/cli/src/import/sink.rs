//! Where records go: one transaction, so that an import is there whole or not at all.

use std::{ops::Bound, sync::Arc};

use anyhow::{Context, Result, anyhow};
use isomer_db::{
    Database, Error, ErrorKind, Map, Transaction, Value,
    data::{DataError, GraphRead, Mark},
};
use isomer_value::{LabelId, NodeId, TypeId};

/// A row that the database refuses; the next may be good.
#[derive(Debug)]
pub enum Refusal {
    /// This row only.
    Row(String),
    /// Everything.
    Fatal(anyhow::Error),
}

impl From<DataError> for Refusal {
    fn from(error: DataError) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Exists | ErrorKind::Invalid | ErrorKind::NotFound => {
                Self::Row(error.message().to_owned())
            }
            _ => Self::Fatal(error.into()),
        }
    }
}

/// Which types the keys of a label have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTypes {
    /// Some are strings.
    pub strings: bool,
    /// Some are integers.
    pub integers: bool,
}

impl KeyTypes {
    /// Looks at the keys of `label`.
    pub fn of(transaction: &Transaction, label: &str) -> Result<Self> {
        let data = transaction.data_ref();
        let first = |from: Value, to: Bound<&Value>| {
            data.scan_documents(label, (Bound::Included(&from), to), 1)
                .context("the keys cannot be read")
        };
        let strings = first("".into(), Bound::Unbounded)?;
        let integers = first(Value::Int(i64::MIN), Bound::Included(&Value::Int(i64::MAX)))?;
        Ok(Self {
            strings: strings
                .first()
                .is_some_and(|(key, _)| matches!(key, Value::String(_))),
            integers: integers
                .first()
                .is_some_and(|(key, _)| matches!(key, Value::Int(_))),
        })
    }

    /// The keys that a value from a file may stand for, the likeliest first.
    pub fn readings(self, value: &Value) -> Vec<Value> {
        let as_text = match value {
            Value::String(_) => Some(value.clone()),
            Value::Int(number) => Some(Value::String(number.to_string().into())),
            _ => None,
        };
        let as_integer = match value {
            Value::Int(_) => Some(value.clone()),
            Value::String(text) => text.trim().parse().ok().map(Value::Int),
            _ => None,
        };
        let mut readings = Vec::new();
        if self.strings || !self.integers {
            readings.extend(as_text);
        }
        if self.integers {
            readings.extend(as_integer);
        }
        readings
    }
}

/// Creates nodes and relationships in one transaction.
pub struct Sink {
    transaction: Transaction,
    db: Database,
}

impl Sink {
    /// A transaction of its own.
    pub fn new(db: &Database) -> Result<Self> {
        Ok(Self {
            transaction: db.begin()?,
            db: db.clone(),
        })
    }

    /// The transaction.
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// The label's number, made where the name is new.
    pub fn label(&self, name: &str) -> Result<LabelId> {
        Ok(self
            .transaction
            .data_ref()
            .intern_label(name)
            .map_err(Error::from)?)
    }

    /// The relationship type's number, made where the name is new.
    pub fn rel_type(&self, name: &str) -> Result<TypeId> {
        Ok(self
            .transaction
            .data_ref()
            .intern_type(name)
            .map_err(Error::from)?)
    }

    /// Creates a node; its key is in `properties`, or it gets a new one.
    pub fn node(&mut self, labels: &[LabelId], properties: &Map) -> Result<NodeId, Refusal> {
        Ok(self.transaction.data().create_node(labels, properties)?)
    }

    /// Creates a node with a key of its own making.
    pub fn node_without_key(&mut self, labels: &[String], properties: &Map) -> Result<(), Refusal> {
        let data = self.transaction.data();
        let (first, others) = labels
            .split_first()
            .expect("a node that is imported has a label");
        let key = data.insert_document(first, properties)?;
        if !others.is_empty() {
            let first = data.intern_label(first)?;
            let node = data.node_by_key(first, &key)?;
            for label in others {
                let label = data.intern_label(label)?;
                if let Some(node) = node {
                    data.add_label(node, label)?;
                }
            }
        }
        Ok(())
    }

    /// Creates a relationship.
    pub fn relationship(
        &mut self,
        rel_type: TypeId,
        source: NodeId,
        target: NodeId,
        properties: &Map,
    ) -> Result<(), Refusal> {
        self.transaction
            .data()
            .create_relationship(rel_type, source, target, properties)?;
        Ok(())
    }

    /// The node with this key, read as any of the types that the label's keys have.
    pub fn find(
        &self,
        label: LabelId,
        types: KeyTypes,
        key: &Value,
    ) -> Result<Option<NodeId>, Refusal> {
        for reading in types.readings(key) {
            if let Some(node) = self.transaction.data_ref().node_by_key(label, &reading)? {
                return Ok(Some(node));
            }
        }
        Ok(None)
    }

    /// Marks the state before a row.
    pub fn mark(&mut self) -> Mark {
        self.transaction.data().mark()
    }

    /// Undoes a row that was refused.
    pub fn undo(&mut self, mark: Mark) -> Result<()> {
        Ok(self
            .transaction
            .data()
            .rollback_to(mark)
            .map_err(Error::from)?)
    }

    /// Makes everything visible and durable at once.
    pub fn finish(self) -> Result<()> {
        let db = self.db;
        self.transaction.commit().map_err(|error| {
            let what = if error.kind() == ErrorKind::OutcomeUnknown {
                "the import may or may not have happened"
            } else {
                "nothing was imported"
            };
            anyhow!("{error}\n{what}")
        })?;
        db.sync()?;
        Ok(())
    }

    /// Drops everything.
    pub fn discard(self) {
        self.transaction.rollback();
    }
}

/// A key for people: strings in quotes.
pub fn shown(key: &Value) -> String {
    match key {
        Value::String(text) => format!("\"{}\"", super::record::excerpt(text)),
        Value::Int(number) => number.to_string(),
        other => super::columns::article(other),
    }
}

/// The name of the key's property.
pub fn key_name() -> Arc<str> {
    "_key".into()
}
