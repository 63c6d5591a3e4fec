//! Kinds of convergent fields, and where their entries stand below an owner.
//!
//! ```text
//! field   id property, kind; below a map: text name, kind; and so on
//! kind    u8, below; a sketch's is followed by u8 precision
//! entry   field, item, dot (three ids)
//! item    counter, registers, flag: nothing    sets: the element, order-preserving    sketch: u16 place, u8 rank
//! value   counter: see `counter`    sets: the element as in records where its key does not tell it exactly, else nothing
//!         registers: u64 hybrid time, then the value as in records    flag, sketch: nothing
//! ```
//! The whole path stands in each key: a field is one range of keys, and so is everything below it.

use isomer_value::{PropId, Value, key};

use super::clock::Dot;
use crate::{
    DataError,
    keyspace::{push_id, push_terminated, take_id, take_terminated},
};

/// What a convergent field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ConvergentKind {
    /// Counts up and down.
    Counter = 1,
    /// A set; an addition that a removal has not seen survives it.
    Set = 2,
    /// A set that only grows.
    GrowSet = 3,
    /// Holds one value: of concurrent ones the last by hybrid time.
    Register = 4,
    /// Holds all values that were set concurrently.
    MultiRegister = 5,
    /// On or off; an enabling that a disabling has not seen survives it.
    Flag = 6,
    /// Estimates how many distinct values were added (HyperLogLog).
    Sketch = 7,
    /// Named fields, each of any kind.
    Map = 8,
}

impl ConvergentKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Counter,
        Self::Set,
        Self::GrowSet,
        Self::Register,
        Self::MultiRegister,
        Self::Flag,
        Self::Sketch,
        Self::Map,
    ];

    /// The kind as the language and its messages spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "COUNTER",
            Self::Set => "SET",
            Self::GrowSet => "GROW SET",
            Self::Register => "REGISTER",
            Self::MultiRegister => "MULTI REGISTER",
            Self::Flag => "FLAG",
            Self::Sketch => "HLL",
            Self::Map => "MAP",
        }
    }

    /// The kind of that name, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }
}

/// The precisions that a sketch may have.
pub const SKETCH_PRECISIONS: std::ops::RangeInclusive<u8> = 4..=16;
/// The precision of a sketch of which nothing else was said: an error of about 0.8%.
pub const SKETCH_PRECISION: u8 = 14;

pub(crate) fn push_property(place: &mut Vec<u8>, prop: PropId) {
    push_id(place, prop.0.into());
}

pub(crate) fn push_name(place: &mut Vec<u8>, name: &str) {
    push_terminated(place, name.as_bytes());
}

pub(crate) fn push_kind(place: &mut Vec<u8>, kind: ConvergentKind, precision: u8) {
    place.push(kind as u8);
    if kind == ConvergentKind::Sketch {
        place.push(precision);
    }
}

/// A kind at the front of `bytes`, with a sketch's precision (else 0).
pub(crate) fn take_kind(bytes: &mut &[u8]) -> Option<(ConvergentKind, u8)> {
    let (&code, rest) = bytes.split_first()?;
    *bytes = rest;
    let kind = ConvergentKind::from_code(code)?;
    if kind != ConvergentKind::Sketch {
        return Some((kind, 0));
    }
    let (&precision, rest) = bytes.split_first()?;
    *bytes = rest;
    SKETCH_PRECISIONS
        .contains(&precision)
        .then_some((kind, precision))
}

pub(crate) fn take_name(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_terminated(bytes)?).ok()
}

/// An entry, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: ConvergentKind,
    /// Bytes of the field.
    pub(crate) field: usize,
    /// Bytes of field and item.
    pub(crate) item: usize,
    pub(crate) dot: Dot,
}

/// Takes apart what follows the owner in the key of an entry.
pub(crate) fn entry(below_owner: &[u8]) -> Result<Entry, DataError> {
    let mut rest = below_owner;
    let parsed = (|| {
        take_id(&mut rest)?;
        loop {
            match take_kind(&mut rest)?.0 {
                ConvergentKind::Map => drop(take_terminated(&mut rest)?),
                kind => break Some(kind),
            }
        }
    })();
    let kind = parsed.ok_or_else(malformed)?;
    let field = below_owner.len() - rest.len();
    skip_item(kind, &mut rest)?;
    let item = below_owner.len() - rest.len();
    let dot = Dot::sole(rest).ok_or_else(malformed)?;
    Ok(Entry {
        kind,
        field,
        item,
        dot,
    })
}

/// The dot in what follows the owner in the key of an entry.
pub(crate) fn entry_dot(below_owner: &[u8]) -> Result<Dot, DataError> {
    Ok(entry(below_owner)?.dot)
}

/// Takes an item from the front of `bytes`.
pub(crate) fn skip_item(kind: ConvergentKind, bytes: &mut &[u8]) -> Result<(), DataError> {
    let length = match kind {
        ConvergentKind::Set | ConvergentKind::GrowSet => key::decode_prefix(bytes)?.1,
        ConvergentKind::Sketch => 3,
        _ => 0,
    };
    *bytes = bytes.get(length..).ok_or_else(malformed)?;
    Ok(())
}

/// The key of an element, and what to store beside it so that it comes back exactly.
pub(crate) fn element(value: &Value) -> Result<(Vec<u8>, Vec<u8>), DataError> {
    check_scalar(value, "an element of a set")?;
    let encoded = key::encode(value)?;
    if encoded.len() > MAX_ELEMENT_BYTES {
        return Err(DataError::Limit {
            what: "an element of a set".into(),
            size: format!("{} bytes", encoded.len()),
            max: format!("{MAX_ELEMENT_BYTES} bytes"),
            advice: "use a shorter one, or a hash of it",
        });
    }
    let told = match value {
        // Most elements; what their keys give back is what they are.
        Value::String(_) | Value::Bool(_) | Value::Bytes(_) | Value::Int(_) => true,
        other => is_same(&key::decode(&encoded)?, other),
    };
    let exact = if told { Vec::new() } else { payload(value)? };
    Ok((encoded, exact))
}

/// Longest element of a set, encoded.
pub(crate) const MAX_ELEMENT_BYTES: usize = 2048;

fn is_same(one: &Value, other: &Value) -> bool {
    payload(one).ok() == payload(other).ok()
}

/// A scalar as records store it.
pub(crate) fn payload(value: &Value) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    isomer_value::record::encode_value(value, &mut NoNames, &mut bytes)?;
    Ok(bytes)
}

/// What [`payload`] made.
pub(crate) fn from_payload(bytes: &[u8]) -> Result<Value, DataError> {
    Ok(isomer_value::record::decode_value(bytes, &NoNames)?)
}

/// Refuses what is no scalar.
pub(crate) fn check_scalar(value: &Value, what: &str) -> Result<(), DataError> {
    match value {
        Value::Null
        | Value::List(_)
        | Value::Map(_)
        | Value::Node(_)
        | Value::Relationship(_)
        | Value::Path(_) => Err(DataError::invalid(format!(
            "{what} is a {}: it must be a scalar (text, number, boolean, bytes, date, time, duration, point)",
            value.type_name()
        ))),
        _ => Ok(()),
    }
}

/// Scalars hold no names.
struct NoNames;

impl isomer_value::Interner for NoNames {
    fn intern(&mut self, _: &str) -> Result<PropId, isomer_value::ValueError> {
        Err(isomer_value::ValueError::Fields {
            what: "convergent value",
            reason: "a scalar holds no names".into(),
        })
    }
}

impl isomer_value::Names for NoNames {
    fn name(&self, _: PropId) -> Option<std::sync::Arc<str>> {
        None
    }
}

pub(crate) fn malformed() -> DataError {
    DataError::corrupt("an entry of a convergent field is malformed")
}
