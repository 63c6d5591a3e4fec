//! Serde deserialisation of values to Rust types.

use std::fmt;

use isomer_value::{Map, Point, Value, temporal::to_text};
use serde_core::de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};

use crate::error::{Error, ErrorKind};

/// Converts a value to any type that serde can deserialise.
///
/// A node or relationship is deserialised as the map of its properties, a path as the list of its nodes; dates, times
/// and durations as ISO 8601 strings, points as maps, bytes as bytes. Integers never become floats if that would change
/// them.
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Person { name: String, age: Option<u32> }
///
/// let ada: Person = isomerdb::from_value(&isomerdb::params! { "name" => "Ada" }.into())?;
/// assert_eq!((ada.name.as_str(), ada.age), ("Ada", None));
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub fn from_value<T: de::DeserializeOwned>(value: &Value) -> Result<T, Error> {
    T::deserialize(ValueDeserializer { value }).map_err(Into::into)
}

/// Converts named values to a structure.
pub(crate) fn from_pairs<T: de::DeserializeOwned>(
    names: &[std::sync::Arc<str>],
    values: &[Value],
) -> Result<T, Error> {
    T::deserialize(RowDeserializer { names, values }).map_err(Into::into)
}

/// Why a value does not fit a type.
#[derive(Debug)]
pub(crate) struct DeError(String);

impl fmt::Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeError {}

impl de::Error for DeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl From<DeError> for Error {
    fn from(error: DeError) -> Self {
        Self::new(
            ErrorKind::Invalid,
            format!("the value does not fit the requested type: {error}"),
        )
    }
}

#[derive(Clone, Copy)]
struct ValueDeserializer<'v> {
    value: &'v Value,
}

impl<'v> ValueDeserializer<'v> {
    fn of(value: &'v Value) -> Self {
        Self { value }
    }
}

impl<'de> de::Deserializer<'de> for ValueDeserializer<'de> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Int(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Value::List(items) => visitor.visit_seq(Items {
                items: items.iter(),
            }),
            Value::Map(map) => visitor.visit_map(Entries::of(map)),
            Value::Node(node) => match &node.content {
                Some(content) => visitor.visit_map(Entries::of(&content.properties)),
                None => Err(de::Error::custom("the node's properties were not read")),
            },
            Value::Relationship(relationship) => match &relationship.content {
                Some(content) => visitor.visit_map(Entries::of(&content.properties)),
                None => Err(de::Error::custom(
                    "the relationship's properties were not read",
                )),
            },
            Value::Path(path) => {
                let nodes: Vec<Value> = path
                    .nodes
                    .iter()
                    .map(|node| Value::Node(std::sync::Arc::new(node.clone())))
                    .collect();
                visit_owned(Value::List(std::sync::Arc::new(nodes)), visitor)
            }
            Value::Point(point) => visit_owned(of_point(point), visitor),
            temporal => visitor.visit_string(to_text(temporal).unwrap_or_default()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.value {
            Value::Int(number) if (*number as f64) as i128 == i128::from(*number) => {
                visitor.visit_f64(*number as f64)
            }
            Value::Int(number) => Err(de::Error::custom(format_args!(
                "the integer {number} is not exact as a float: read it as an integer"
            ))),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match self.value {
            Value::String(name) => visitor.visit_enum(
                IntoDeserializer::<DeError>::into_deserializer(name.as_ref()),
            ),
            Value::Map(map) if map.len() == 1 => {
                visitor.visit_enum(de::value::MapAccessDeserializer::new(Entries::of(map)))
            }
            other => Err(de::Error::custom(format_args!(
                "a string or a map of one entry is needed, not {}",
                other.type_name()
            ))),
        }
    }

    serde_core::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn of_point(point: &Point) -> Value {
    let mut map = Map::new();
    map.insert("crs", point.crs.name().into());
    map.insert("x", point.x.into());
    map.insert("y", point.y.into());
    if point.crs.has_z() {
        map.insert("z", point.z.into());
    }
    map.into()
}

/// Visits a value with a shorter lifetime than the input: borrowed data is copied.
fn visit_owned<'de, V: Visitor<'de>>(value: Value, visitor: V) -> Result<V::Value, DeError> {
    struct Owned<V>(V);
    impl<'de, V: Visitor<'de>> Owned<V> {
        fn visit(self, value: Value) -> Result<V::Value, DeError> {
            match value {
                Value::List(items) => self.0.visit_seq(OwnedItems {
                    items: items.iter().cloned().collect::<Vec<_>>().into_iter(),
                }),
                Value::Map(map) => self.0.visit_map(OwnedEntries {
                    entries: (*map).clone().into_iter(),
                    value: None,
                }),
                other => OwnedDeserializer(other).visit(self.0),
            }
        }
    }
    Owned(visitor).visit(value)
}

/// Deserialises an owned value.
struct OwnedDeserializer(Value);

impl OwnedDeserializer {
    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(truth) => visitor.visit_bool(truth),
            Value::Int(number) => visitor.visit_i64(number),
            Value::Float(number) => visitor.visit_f64(number),
            Value::String(text) => visitor.visit_string(text.as_ref().to_owned()),
            Value::Bytes(bytes) => visitor.visit_byte_buf(bytes.to_vec()),
            Value::Node(node) => match &node.content {
                Some(content) => visitor.visit_map(OwnedEntries {
                    entries: content.properties.clone().into_iter(),
                    value: None,
                }),
                None => Err(de::Error::custom("the node's properties were not read")),
            },
            other @ (Value::List(_) | Value::Map(_)) => visit_owned(other, visitor),
            Value::Point(point) => visit_owned(of_point(&point), visitor),
            other => visitor.visit_string(to_text(&other).unwrap_or_default()),
        }
    }
}

impl<'de> de::Deserializer<'de> for OwnedDeserializer {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    serde_core::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct OwnedItems {
    items: std::vec::IntoIter<Value>,
}

impl<'de> SeqAccess<'de> for OwnedItems {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DeError> {
        self.items
            .next()
            .map(|item| seed.deserialize(OwnedDeserializer(item)))
            .transpose()
    }
}

struct OwnedEntries {
    entries: std::vec::IntoIter<(std::sync::Arc<str>, Value)>,
    value: Option<Value>,
}

impl<'de> MapAccess<'de> for OwnedEntries {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DeError> {
        let Some((name, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(name.as_ref().into_deserializer())
            .map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DeError> {
        seed.deserialize(OwnedDeserializer(self.value.take().unwrap_or_default()))
    }
}

struct Items<'v> {
    items: std::slice::Iter<'v, Value>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DeError> {
        self.items
            .next()
            .map(|item| seed.deserialize(ValueDeserializer::of(item)))
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// Names with their values, in order.
struct Entries<'v, I> {
    entries: I,
    value: Option<&'v Value>,
}

impl<'v> Entries<'v, ()> {
    fn of(map: &'v Map) -> Entries<'v, impl Iterator<Item = (&'v str, &'v Value)>> {
        Entries {
            entries: map.iter().map(|(name, value)| (name.as_ref(), value)),
            value: None,
        }
    }
}

impl<'de, I: Iterator<Item = (&'de str, &'de Value)>> MapAccess<'de> for Entries<'de, I> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DeError> {
        let Some((name, value)) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(de::value::BorrowedStrDeserializer::new(name))
            .map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DeError> {
        seed.deserialize(ValueDeserializer::of(
            self.value.take().unwrap_or(&Value::Null),
        ))
    }
}

/// A row: as a structure by the names of its columns, as a tuple by their order, or as its single value.
struct RowDeserializer<'v> {
    names: &'v [std::sync::Arc<str>],
    values: &'v [Value],
}

impl<'de> de::Deserializer<'de> for RowDeserializer<'de> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.values {
            [only] => ValueDeserializer::of(only).deserialize_any(visitor),
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.values {
            [only] => ValueDeserializer::of(only).deserialize_option(visitor),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        let entries = self.names.iter().map(AsRef::as_ref).zip(self.values);
        visitor.visit_map(Entries {
            entries,
            value: None,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        // `RETURN n` fills a structure from its node's properties, unless the structure has a field of the column's
        // name.
        match (self.names, self.values) {
            ([name], [only @ (Value::Node(_) | Value::Relationship(_) | Value::Map(_))])
                if !fields.contains(&name.as_ref()) =>
            {
                ValueDeserializer::of(only).deserialize_any(visitor)
            }
            _ => self.deserialize_map(visitor),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.values {
            [only @ Value::List(_)] => ValueDeserializer::of(only).deserialize_any(visitor),
            _ => visitor.visit_seq(Items {
                items: self.values.iter(),
            }),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_seq(Items {
            items: self.values.iter(),
        })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_seq(Items {
            items: self.values.iter(),
        })
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.values {
            [only] => ValueDeserializer::of(only).deserialize_f64(visitor),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        match self.values {
            [only] => ValueDeserializer::of(only).deserialize_enum(name, variants, visitor),
            _ => Err(de::Error::custom(
                "a row of several columns does not fit an enum",
            )),
        }
    }

    serde_core::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 char str string bytes byte_buf unit unit_struct
        identifier ignored_any
    }
}
