//! Kinds of convergent fields, and the layout of their entries below an owner.
//!
//! ```text
//! field   id property, kind; below a map: text name, kind; and so on
//! kind    u8, below; a sketch's is followed by u8 precision
//! entry   field, item, dot (three ids)
//! item    counter, registers, flag: nothing    sets: the element, order-preserving    sketch: u16 place, u8 rank
//! value   counter: see `counter`    sets: the element as in records where its key does not tell it exactly, else nothing
//!         registers: u64 hybrid time, then the value as in records    flag, sketch: nothing
//! ```
//! Each key contains the whole path: a field is one range of keys, and so is everything below it.

use isomer_value::{PropId, Value, key};

use crate::{
    DataError,
    convergent::clock::Dot,
    keyspace::{push_id, push_terminated, take_id, take_terminated},
};

/// The kind of a convergent field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
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

    /// The kind as spelled in the language and its messages.
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

    /// The operations that change a field of this kind, as the language names them.
    pub fn operations(self) -> &'static str {
        match self {
            Self::Counter => "counter.add",
            Self::Set => "set.add and set.remove",
            Self::GrowSet => "growset.add",
            Self::Register => "register.set",
            Self::MultiRegister => "multi.set",
            Self::Flag => "flag.enable and flag.disable",
            Self::Sketch => "hll.add",
            Self::Map => "the operations of its fields",
        }
    }

    /// Whether an index can hold fields of this kind; `by_element`: it has entries for the elements of one field.
    pub fn is_indexable(self, by_element: bool) -> bool {
        match self {
            Self::Counter | Self::Register | Self::MultiRegister | Self::Flag => true,
            Self::Set | Self::GrowSet => by_element,
            Self::Sketch | Self::Map => false,
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
/// The default precision of a sketch: an error of about 0.8%.
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
pub fn take_kind(bytes: &mut &[u8]) -> Option<(ConvergentKind, u8)> {
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

/// A name at the front of `bytes`.
pub fn take_name(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_terminated(bytes)?).ok()
}

/// A decoded entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldEntry {
    /// The kind of the field.
    pub kind: ConvergentKind,
    /// Bytes of the field.
    pub field: usize,
    /// Bytes of field and item.
    pub item: usize,
    /// The operation that made it.
    pub dot: Dot,
}

/// Decodes the part of an entry's key after the owner.
pub fn entry(below_owner: &[u8]) -> Result<FieldEntry, DataError> {
    let (kind, field) = field(below_owner).ok_or_else(malformed)?;
    entry_in(below_owner, kind, field)
}

/// The kind and the bytes of the field that an entry is in.
fn field(below_owner: &[u8]) -> Option<(ConvergentKind, usize)> {
    let mut rest = below_owner;
    take_id(&mut rest)?;
    loop {
        match take_kind(&mut rest)?.0 {
            ConvergentKind::Map => drop(take_terminated(&mut rest)?),
            kind => return Some((kind, below_owner.len() - rest.len())),
        }
    }
}

fn entry_in(
    below_owner: &[u8],
    kind: ConvergentKind,
    field: usize,
) -> Result<FieldEntry, DataError> {
    let mut rest = &below_owner[field..];
    skip_item(kind, &mut rest)?;
    let item = below_owner.len() - rest.len();
    let dot = Dot::sole(rest).ok_or_else(malformed)?;
    Ok(FieldEntry {
        kind,
        field,
        item,
        dot,
    })
}

/// A decoder for many entries of one field in a row.
#[derive(Default)]
pub struct Entries {
    /// The field of the previous entry, whole.
    field: Vec<u8>,
    kind: Option<ConvergentKind>,
}

impl Entries {
    /// As [`entry`]. No field is a prefix of another one, so a key with the prefix of the last field is in it.
    pub fn entry(&mut self, below_owner: &[u8]) -> Result<FieldEntry, DataError> {
        if let Some(kind) = self.kind
            && below_owner.starts_with(&self.field)
        {
            return entry_in(below_owner, kind, self.field.len());
        }
        let (kind, length) = field(below_owner).ok_or_else(malformed)?;
        self.field.clear();
        self.field.extend_from_slice(&below_owner[..length]);
        self.kind = Some(kind);
        entry_in(below_owner, kind, length)
    }
}

/// The dot in the part of an entry's key after the owner.
pub fn entry_dot(below_owner: &[u8]) -> Result<Dot, DataError> {
    Ok(entry(below_owner)?.dot)
}

/// Takes an item from the front of `bytes`.
pub fn skip_item(kind: ConvergentKind, bytes: &mut &[u8]) -> Result<(), DataError> {
    let length = match kind {
        ConvergentKind::Set | ConvergentKind::GrowSet => element_len(bytes)?,
        ConvergentKind::Sketch => 3,
        _ => 0,
    };
    *bytes = bytes.get(length..).ok_or_else(malformed)?;
    Ok(())
}

/// Bytes of the element at the front of `bytes`. Texts, the most frequent case, are skipped without being decoded.
fn element_len(bytes: &[u8]) -> Result<usize, DataError> {
    let Some((&TEXT, mut rest)) = bytes.split_first() else {
        return Ok(key::decode_prefix(bytes)?.1);
    };
    loop {
        let low = rest.iter().position(|byte| *byte < 2);
        let (run, after) = low
            .and_then(|at| rest.split_at_checked(at))
            .ok_or_else(malformed)?;
        if std::str::from_utf8(run).is_err() {
            return Err(malformed());
        }
        match after {
            [0, ..] => return Ok(bytes.len() - after.len() + 1),
            [_, 1..=2, after @ ..] => rest = after,
            _ => return Err(malformed()),
        }
    }
}

/// The first byte of a text as [`key::encode`] writes it. A 0 ends it; a 1 escapes a 0 or a 1, which follows
/// incremented.
const TEXT: u8 = 0x38;

/// The key of an element, and the value to store with it, from which the element is decoded exactly.
pub fn element(value: &Value) -> Result<(Vec<u8>, Vec<u8>), DataError> {
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
    let key_is_exact = match value {
        // Most elements; decoding their keys returns exactly the element.
        Value::String(_) | Value::Bool(_) | Value::Bytes(_) | Value::Int(_) => true,
        other => is_same(&key::decode(&encoded)?, other),
    };
    let exact = if key_is_exact {
        Vec::new()
    } else {
        payload(value)?
    };
    Ok((encoded, exact))
}

/// Longest element of a set, encoded.
pub const MAX_ELEMENT_BYTES: usize = 2048;

fn is_same(one: &Value, other: &Value) -> bool {
    payload(one).ok() == payload(other).ok()
}

/// A scalar in the encoding of records.
pub fn payload(value: &Value) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    isomer_value::record::encode_value(value, &mut NoNames, &mut bytes)?;
    Ok(bytes)
}

/// Decodes the result of [`payload`].
pub fn from_payload(bytes: &[u8]) -> Result<Value, DataError> {
    Ok(isomer_value::record::decode_value(bytes, &NoNames)?)
}

/// Refuses a value that is not a scalar.
pub fn check_scalar(value: &Value, what: &str) -> Result<(), DataError> {
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

/// The error for an entry that does not decode.
pub fn malformed() -> DataError {
    DataError::corrupt("an entry of a convergent field is malformed")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Skipping and decoding agree on the length.
    #[test]
    fn texts_are_passed_as_the_codec_reads_them() {
        for text in [
            "",
            "a",
            "grüße",
            "a\0b",
            "\u{1}",
            "\0\u{1}\0",
            "\u{2}x",
            "0123456789",
        ] {
            let mut encoded = key::encode(&Value::from(text)).unwrap();
            assert_eq!(encoded[0], TEXT);
            let length = encoded.len();
            encoded.extend_from_slice(b"\x03dot\0");
            assert_eq!(element_len(&encoded).unwrap(), length, "{text:?}");
            assert_eq!(key::decode_prefix(&encoded).unwrap().1, length);
        }
        for wrong in [
            &[TEXT][..],
            &[TEXT, b'a'],
            &[TEXT, 1],
            &[TEXT, 1, 3, 0],
            &[TEXT, 0xff, 0],
        ] {
            assert!(key::decode_prefix(wrong).is_err());
            assert!(element_len(wrong).is_err(), "{wrong:?}");
        }
    }
}
