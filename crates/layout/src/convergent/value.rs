//! Reading entries as plain values.
//!
//! | kind | value |
//! |---|---|
//! | counter | integer; beyond 64 bits the nearest one |
//! | sets | list of the elements, in their order |
//! | register | the value; of several the one with the greatest hybrid time, then the greatest encoding |
//! | multi register | the value; of several the list of them, in their order, each once |
//! | flag | true |
//! | sketch | integer, an estimate |
//! | map | map; where replicas made fields of one name and several kinds, the first kind in the order of their codes |
//!
//! A field without entries is absent: an empty set reads as null, like a flag that is off.

use std::sync::Arc;

use isomer_value::{Map, PropId, Value, key, order::cmp_order};

use crate::{
    DataError,
    convergent::{
        clock::Dot,
        counter,
        place::{self, ConvergentKind, from_payload, malformed},
        sketch::Ranks,
    },
    keyspace::take_id,
};

/// Computes the value of one field from its entries, in the order of their keys.
pub struct Reading(Kind);

enum Kind {
    Counter(i128),
    Set {
        elements: Vec<Value>,
        /// The key of the last element.
        last: Vec<u8>,
    },
    Register {
        time: u64,
        arrived: Option<Dot>,
        value: Vec<u8>,
    },
    Multi(Vec<Vec<u8>>),
    Flag,
    Sketch(Ranks),
    Map {
        done: Map,
        open: Option<OpenField>,
    },
}

/// The field of a map whose entries are being read.
struct OpenField {
    /// Its name and kind as in the key.
    head: Vec<u8>,
    name: String,
    field: Box<Reading>,
}

impl Reading {
    /// No entry has been read. `precision` matters for a sketch alone.
    pub fn new(kind: ConvergentKind, precision: u8) -> Self {
        Self(match kind {
            ConvergentKind::Counter => Kind::Counter(0),
            ConvergentKind::Set | ConvergentKind::GrowSet => Kind::Set {
                elements: Vec::new(),
                last: Vec::new(),
            },
            ConvergentKind::Register => Kind::Register {
                time: 0,
                arrived: None,
                value: Vec::new(),
            },
            ConvergentKind::MultiRegister => Kind::Multi(Vec::new()),
            ConvergentKind::Flag => Kind::Flag,
            ConvergentKind::Sketch => Kind::Sketch(Ranks::new(precision)),
            ConvergentKind::Map => Kind::Map {
                done: Map::new(),
                open: None,
            },
        })
    }

    /// Adds an entry: the part of its key after the field, and its value.
    pub fn push(&mut self, rest: &[u8], value: &[u8]) -> Result<(), DataError> {
        match &mut self.0 {
            Kind::Counter(sum) => *sum = sum.saturating_add(counter::amount(value)?.0),
            Kind::Set { elements, last } => {
                if !last.is_empty() && rest.starts_with(last) {
                    return Ok(());
                }
                let (element, length) = key::decode_prefix(rest)?;
                last.clear();
                last.extend_from_slice(&rest[..length]);
                elements.push(if value.is_empty() {
                    element
                } else {
                    from_payload(value)?
                });
            }
            Kind::Register {
                time,
                arrived,
                value: held,
            } => {
                let (at, stored) = value.split_first_chunk::<8>().ok_or_else(malformed)?;
                let at = u64::from_be_bytes(*at);
                let later = (at, stored) > (*time, &**held);
                if arrived.is_none() || later {
                    (*time, *held) = (at, stored.to_vec());
                    *arrived = Dot::sole(rest);
                }
            }
            Kind::Multi(values) => {
                let stored = value.get(8..).ok_or_else(malformed)?;
                values.push(stored.to_vec());
            }
            Kind::Flag => {}
            Kind::Sketch(ranks) => {
                let (item, _) = rest.split_first_chunk::<3>().ok_or_else(malformed)?;
                ranks.note(u16::from_be_bytes([item[0], item[1]]), item[2]);
            }
            Kind::Map { done, open } => return push_field(done, open, rest, value),
        }
        Ok(())
    }

    /// The value.
    pub fn finish(self) -> Result<Value, DataError> {
        Ok(match self.0 {
            Kind::Counter(sum) => Value::Int(nearest(sum)),
            Kind::Set { elements, .. } => Value::List(Arc::new(elements)),
            Kind::Register { value, .. } => from_payload(&value)?,
            Kind::Multi(mut stored) => {
                stored.sort_unstable();
                stored.dedup();
                let mut values: Vec<Value> = stored
                    .iter()
                    .map(|value| from_payload(value))
                    .collect::<Result<_, _>>()?;
                match values.len() {
                    1 => values.remove(0),
                    _ => {
                        values.sort_by(cmp_order);
                        Value::List(Arc::new(values))
                    }
                }
            }
            Kind::Flag => Value::Bool(true),
            Kind::Sketch(ranks) => Value::Int(ranks.estimate()),
            Kind::Map { mut done, open } => {
                if let Some(open) = open {
                    close(&mut done, open)?;
                }
                Value::Map(Arc::new(done))
            }
        })
    }
}

fn nearest(sum: i128) -> i64 {
    sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn push_field(
    done: &mut Map,
    open: &mut Option<OpenField>,
    rest: &[u8],
    value: &[u8],
) -> Result<(), DataError> {
    if !open
        .as_ref()
        .is_some_and(|open| rest.starts_with(&open.head))
    {
        if let Some(open) = open.take() {
            close(done, open)?;
        }
        let mut below = rest;
        let name = place::take_name(&mut below).ok_or_else(malformed)?;
        let (kind, precision) = place::take_kind(&mut below).ok_or_else(malformed)?;
        *open = Some(OpenField {
            head: rest[..rest.len() - below.len()].to_vec(),
            name,
            field: Box::new(Reading::new(kind, precision)),
        });
    }
    match open {
        Some(open) => open.field.push(&rest[open.head.len()..], value),
        None => Ok(()),
    }
}

/// Of several kinds under one name, the first stays; of several precisions too.
fn close(done: &mut Map, open: OpenField) -> Result<(), DataError> {
    let value = open.field.finish()?;
    if !done.contains(&open.name) {
        done.insert(open.name.as_str(), value);
    }
    Ok(())
}

/// Computes the values of all convergent properties of an owner from its entries, in the order of their keys: the part
/// after the owner, and the value.
#[derive(Default)]
pub struct OwnerReading {
    open: Option<(Vec<u8>, PropId, Reading)>,
    done: Vec<(PropId, Value)>,
}

impl OwnerReading {
    /// Reads the next entry, in the order of keys: the part of its key after the owner, and its value.
    pub fn push(&mut self, below_owner: &[u8], value: &[u8]) -> Result<(), DataError> {
        let continues = matches!(&self.open, Some((head, ..)) if below_owner.starts_with(head));
        if !continues {
            self.close()?;
            let mut rest = below_owner;
            let prop = take_id(&mut rest).and_then(|prop| u32::try_from(prop).ok());
            let prop = PropId(prop.ok_or_else(malformed)?);
            let (kind, precision) = place::take_kind(&mut rest).ok_or_else(malformed)?;
            let head = below_owner[..below_owner.len() - rest.len()].to_vec();
            self.open = Some((head, prop, Reading::new(kind, precision)));
        }
        match &mut self.open {
            Some((head, _, reading)) => reading.push(&below_owner[head.len()..], value),
            None => Ok(()),
        }
    }

    fn close(&mut self) -> Result<(), DataError> {
        if let Some((_, prop, reading)) = self.open.take() {
            let value = reading.finish()?;
            if self.done.last().is_none_or(|(last, _)| *last != prop) {
                self.done.push((prop, value));
            }
        }
        Ok(())
    }

    /// The properties, ascending.
    pub fn finish(mut self) -> Result<Vec<(PropId, Value)>, DataError> {
        self.close()?;
        Ok(self.done)
    }
}
