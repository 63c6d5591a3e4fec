//! Serde serialisation of Rust types to values.

use std::{fmt, sync::Arc};

use isomer_value::{
    Map, Value,
    limits::MAX_NESTING,
    serialize::{NAME, capture},
};
use serde_core::ser::{self, Serialize};

use crate::error::{Error, ErrorKind};

/// Converts anything that serde can serialise to a value: structures become maps, unit variants strings, other variants
/// maps of one entry. A [`Value`] or [`Map`] remains what it is. Refused: integers beyond 64 bits, maps with keys that
/// are not strings, nesting beyond 128 levels.
///
/// ```
/// #[derive(serde::Serialize)]
/// struct Person { name: &'static str, age: u8 }
///
/// let ada = isomerdb::to_value(&Person { name: "Ada", age: 36 })?;
/// assert_eq!(ada, isomerdb::params! { "name" => "Ada", "age" => 36 }.into());
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<Value, Error> {
    value
        .serialize(ValueSerializer { depth: 0 })
        .map_err(Into::into)
}

/// Converts a structure or a map to named values, as parameters of a query or as a document.
///
/// ```
/// #[derive(serde::Serialize)]
/// struct Key { id: u32 }
///
/// let db = isomerdb::Database::open_in_memory()?;
/// let row = db.query(("RETURN $id + 1 AS next", isomerdb::to_map(&Key { id: 41 })?))?;
/// assert_eq!(row.single()?.get::<u32>("next")?, 42);
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub fn to_map<T: Serialize + ?Sized>(value: &T) -> Result<Map, Error> {
    to_shared_map(value).map(Arc::unwrap_or_clone)
}

/// As [`to_map`]; a map that is a value already is not copied.
pub(crate) fn to_shared_map<T: Serialize + ?Sized>(value: &T) -> Result<Arc<Map>, Error> {
    match to_value(value)? {
        Value::Map(map) => Ok(map),
        other => Err(Error::new(
            ErrorKind::Invalid,
            format!("a structure or a map is needed, not {}", other.type_name()),
        )),
    }
}

#[derive(Debug)]
pub(crate) struct SerError {
    kind: ErrorKind,
    message: String,
}

impl fmt::Display for SerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl SerError {
    fn invalid(message: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Invalid,
            message: message.into(),
        }
    }

    fn nested_too_deep() -> Self {
        Self {
            kind: ErrorKind::Limit,
            message: format!(
                "the value is nested deeper than {MAX_NESTING} levels: flatten it or store its parts as nodes"
            ),
        }
    }
}

impl std::error::Error for SerError {}

impl ser::Error for SerError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::invalid(message.to_string())
    }
}

impl From<SerError> for Error {
    fn from(error: SerError) -> Self {
        Self::new(error.kind, error.message)
    }
}

/// `depth` is the number of enclosing lists and maps.
#[derive(Clone, Copy)]
struct ValueSerializer {
    depth: usize,
}

impl ValueSerializer {
    fn inside(self) -> Result<Self, SerError> {
        if self.depth >= MAX_NESTING {
            return Err(SerError::nested_too_deep());
        }
        Ok(Self {
            depth: self.depth + 1,
        })
    }
}

fn variant(name: &'static str, value: Value) -> Value {
    Value::Map(Arc::new([(name, value)].into_iter().collect()))
}

impl ser::Serializer for ValueSerializer {
    type Ok = Value;
    type Error = SerError;
    type SerializeSeq = ListSerializer;
    type SerializeTuple = ListSerializer;
    type SerializeTupleStruct = ListSerializer;
    type SerializeTupleVariant = ListSerializer;
    type SerializeMap = MapSerializer;
    type SerializeStruct = MapSerializer;
    type SerializeStructVariant = MapSerializer;

    fn serialize_bool(self, value: bool) -> Result<Value, SerError> {
        Ok(Value::Bool(value))
    }
    fn serialize_i8(self, value: i8) -> Result<Value, SerError> {
        Ok(Value::Int(value.into()))
    }
    fn serialize_i16(self, value: i16) -> Result<Value, SerError> {
        Ok(Value::Int(value.into()))
    }
    fn serialize_i32(self, value: i32) -> Result<Value, SerError> {
        Ok(Value::Int(value.into()))
    }
    fn serialize_i64(self, value: i64) -> Result<Value, SerError> {
        Ok(Value::Int(value))
    }
    fn serialize_i128(self, value: i128) -> Result<Value, SerError> {
        i64::try_from(value).map(Value::Int).map_err(|_| {
            SerError::invalid(format!(
                "{value} does not fit into 64 bits: store it as a string"
            ))
        })
    }
    fn serialize_u8(self, value: u8) -> Result<Value, SerError> {
        Ok(Value::Int(value.into()))
    }
    fn serialize_u16(self, value: u16) -> Result<Value, SerError> {
        Ok(Value::Int(value.into()))
    }
    fn serialize_u32(self, value: u32) -> Result<Value, SerError> {
        Ok(Value::Int(value.into()))
    }
    fn serialize_u64(self, value: u64) -> Result<Value, SerError> {
        self.serialize_i128(value.into())
    }
    fn serialize_u128(self, value: u128) -> Result<Value, SerError> {
        i64::try_from(value).map(Value::Int).map_err(|_| {
            SerError::invalid(format!(
                "{value} does not fit into 64 bits: store it as a string"
            ))
        })
    }
    fn serialize_f32(self, value: f32) -> Result<Value, SerError> {
        Ok(Value::Float(value.into()))
    }
    fn serialize_f64(self, value: f64) -> Result<Value, SerError> {
        Ok(Value::Float(value))
    }
    fn serialize_char(self, value: char) -> Result<Value, SerError> {
        Ok(Value::String(value.to_string().into()))
    }
    fn serialize_str(self, value: &str) -> Result<Value, SerError> {
        Ok(Value::String(value.into()))
    }
    fn serialize_bytes(self, value: &[u8]) -> Result<Value, SerError> {
        Ok(Value::Bytes(value.into()))
    }
    fn serialize_none(self) -> Result<Value, SerError> {
        Ok(Value::Null)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, SerError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<Value, SerError> {
        Ok(Value::Null)
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Result<Value, SerError> {
        Ok(Value::Null)
    }
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Value, SerError> {
        Ok(Value::String(variant.into()))
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Value, SerError> {
        if name == NAME
            && let Some(value) = capture(|| value.serialize(self).map(drop))?
        {
            if value.nests_deeper(MAX_NESTING - self.depth) {
                return Err(SerError::nested_too_deep());
            }
            return Ok(value);
        }
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        name: &'static str,
        value: &T,
    ) -> Result<Value, SerError> {
        Ok(variant(name, value.serialize(self.inside()?)?))
    }
    fn serialize_seq(self, length: Option<usize>) -> Result<ListSerializer, SerError> {
        Ok(ListSerializer {
            inner: self.inside()?,
            items: Vec::with_capacity(length.unwrap_or(0).min(1 << 16)),
            variant: None,
        })
    }
    fn serialize_tuple(self, length: usize) -> Result<ListSerializer, SerError> {
        self.serialize_seq(Some(length))
    }
    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        length: usize,
    ) -> Result<ListSerializer, SerError> {
        self.serialize_seq(Some(length))
    }
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<ListSerializer, SerError> {
        Ok(ListSerializer {
            variant: Some(variant),
            ..self.inside()?.serialize_seq(Some(length))?
        })
    }
    fn serialize_map(self, length: Option<usize>) -> Result<MapSerializer, SerError> {
        Ok(MapSerializer {
            inner: self.inside()?,
            entries: Vec::with_capacity(length.unwrap_or(0).min(1 << 16)),
            name: None,
            variant: None,
        })
    }
    fn serialize_struct(
        self,
        _name: &'static str,
        length: usize,
    ) -> Result<MapSerializer, SerError> {
        self.serialize_map(Some(length))
    }
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<MapSerializer, SerError> {
        Ok(MapSerializer {
            variant: Some(variant),
            ..self.inside()?.serialize_map(Some(length))?
        })
    }
}

struct ListSerializer {
    inner: ValueSerializer,
    items: Vec<Value>,
    variant: Option<&'static str>,
}

impl ListSerializer {
    fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerError> {
        self.items.push(value.serialize(self.inner)?);
        Ok(())
    }

    fn done(self) -> Value {
        let list = Value::List(Arc::new(self.items));
        match self.variant {
            Some(name) => variant(name, list),
            None => list,
        }
    }
}

impl ser::SerializeSeq for ListSerializer {
    type Ok = Value;
    type Error = SerError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerError> {
        self.push(value)
    }
    fn end(self) -> Result<Value, SerError> {
        Ok(self.done())
    }
}

impl ser::SerializeTuple for ListSerializer {
    type Ok = Value;
    type Error = SerError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerError> {
        self.push(value)
    }
    fn end(self) -> Result<Value, SerError> {
        Ok(self.done())
    }
}

impl ser::SerializeTupleStruct for ListSerializer {
    type Ok = Value;
    type Error = SerError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerError> {
        self.push(value)
    }
    fn end(self) -> Result<Value, SerError> {
        Ok(self.done())
    }
}

impl ser::SerializeTupleVariant for ListSerializer {
    type Ok = Value;
    type Error = SerError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerError> {
        self.push(value)
    }
    fn end(self) -> Result<Value, SerError> {
        Ok(self.done())
    }
}

struct MapSerializer {
    inner: ValueSerializer,
    entries: Vec<(Arc<str>, Value)>,
    name: Option<Arc<str>>,
    variant: Option<&'static str>,
}

impl MapSerializer {
    fn done(self) -> Value {
        let map = Value::Map(Arc::new(self.entries.into_iter().collect()));
        match self.variant {
            Some(name) => variant(name, map),
            None => map,
        }
    }
}

impl ser::SerializeMap for MapSerializer {
    type Ok = Value;
    type Error = SerError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), SerError> {
        self.name = Some(match key.serialize(self.inner)? {
            Value::String(name) => name,
            Value::Int(number) => number.to_string().into(),
            Value::Bool(truth) => truth.to_string().into(),
            other => {
                return Err(SerError::invalid(format!(
                    "the keys of a map must be texts, not {}",
                    other.type_name()
                )));
            }
        });
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), SerError> {
        let name = self
            .name
            .take()
            .ok_or_else(|| SerError::invalid("a map's value came before its key"))?;
        self.entries.push((name, value.serialize(self.inner)?));
        Ok(())
    }
    fn end(self) -> Result<Value, SerError> {
        Ok(self.done())
    }
}

impl ser::SerializeStruct for MapSerializer {
    type Ok = Value;
    type Error = SerError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), SerError> {
        self.entries
            .push((name.into(), value.serialize(self.inner)?));
        Ok(())
    }
    fn end(self) -> Result<Value, SerError> {
        Ok(self.done())
    }
}

impl ser::SerializeStructVariant for MapSerializer {
    type Ok = Value;
    type Error = SerError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), SerError> {
        self.entries
            .push((name.into(), value.serialize(self.inner)?));
        Ok(())
    }
    fn end(self) -> Result<Value, SerError> {
        Ok(self.done())
    }
}
