//! PackStream: values as bytes, big-endian, each after a marker with its type and its size.
//!
//! | marker | value |
//! |---|---|
//! | `F0`-`7F` | integer -16 to 127 |
//! | `C8` `C9` `CA` `CB` | integer of 1, 2, 4, 8 bytes |
//! | `C1` | float of 8 bytes |
//! | `C0` `C2` `C3` | null, false, true |
//! | `80`-`8F`, `D0` `D1` `D2` | string: size in the marker, or in 1, 2, 4 bytes; then UTF-8 |
//! | `CC` `CD` `CE` | bytes |
//! | `90`-`9F`, `D4` `D5` `D6` | list: count as for strings; then the values |
//! | `A0`-`AF`, `D8` `D9` `DA` | dictionary: count as for strings; then pairs of a string and a value |
//! | `B0`-`BF` | structure: number of fields; one byte of tag, then the fields |
//!
//! Parsing never allocates memory for an announced size alone: as every value takes at least a byte, a size beyond
//! the rest of the message is refused, and the values of a message share one memory budget.

use std::sync::Arc;

use isomer_db::{Map, Value};
use isomer_value::{DatabaseId, limits::MAX_NESTING};

use super::structure;

/// Elements for which memory is reserved before they were read: the announced count may be wrong.
const MAX_RESERVED_ELEMENTS: usize = 1_024;

/// Why bytes could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A protocol violation: the connection cannot be used any further.
    Malformed(String),
    /// A valid message with unsupported content; the next message can be handled.
    Refused(String),
}

/// Result of parsing.
pub type ParseResult<T> = Result<T, Unreadable>;

pub(super) fn malformed<T>(what: impl Into<String>) -> ParseResult<T> {
    Err(Unreadable::Malformed(what.into()))
}

pub(super) fn refused<T>(what: impl Into<String>) -> ParseResult<T> {
    Err(Unreadable::Refused(what.into()))
}

/// Parses values from a message.
pub struct Reader<'m> {
    rest: &'m [u8],
    /// Nesting limit of lists and dictionaries.
    depth: usize,
    /// Remaining memory budget of the values, in bytes.
    budget: usize,
}

impl<'m> Reader<'m> {
    /// Reads `message`: values nested at most `depth` deep, which take at most `budget` bytes of memory.
    pub fn new(message: &'m [u8], depth: usize, budget: usize) -> Self {
        Self {
            rest: message,
            depth: depth.min(MAX_NESTING + 1),
            budget,
        }
    }

    /// The tag and the number of fields of the message's structure.
    pub fn head(&mut self) -> ParseResult<(u8, usize)> {
        let marker = self.byte()?;
        if marker & 0xf0 != 0xb0 {
            return malformed("a message must be a structure");
        }
        Ok((self.byte()?, usize::from(marker & 0x0f)))
    }

    /// Fails if bytes are left after the message.
    pub fn end(&self) -> ParseResult<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        malformed(format!(
            "the message has {} bytes after its end",
            self.rest.len()
        ))
    }

    /// The next value.
    pub fn value(&mut self) -> ParseResult<Value> {
        self.value_at(0)
    }

    /// The next value, which must be a dictionary or null.
    pub fn dictionary(&mut self) -> ParseResult<Map> {
        match self.value()? {
            Value::Map(map) => Ok(Arc::unwrap_or_clone(map)),
            Value::Null => Ok(Map::new()),
            other => malformed(format!(
                "expected a dictionary, not a {}",
                other.type_name()
            )),
        }
    }

    fn value_at(&mut self, depth: usize) -> ParseResult<Value> {
        self.charge(size_of::<Value>())?;
        let marker = self.byte()?;
        Ok(match marker {
            0x00..=0x7f => Value::Int(i64::from(marker)),
            0xf0..=0xff => Value::Int(i64::from(marker.cast_signed())),
            0xc0 => Value::Null,
            0xc1 => Value::Float(f64::from_be_bytes(self.array()?)),
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc8 => Value::Int(i64::from(i8::from_be_bytes(self.array()?))),
            0xc9 => Value::Int(i64::from(i16::from_be_bytes(self.array()?))),
            0xca => Value::Int(i64::from(i32::from_be_bytes(self.array()?))),
            0xcb => Value::Int(i64::from_be_bytes(self.array()?)),
            0xcc..=0xce => {
                let size = self.size(marker - 0xcc)?;
                let bytes = self.take(size)?;
                self.charge(size)?;
                Value::Bytes(bytes.into())
            }
            0x80..=0x8f | 0xd0..=0xd2 => Value::String(self.text(marker)?),
            0x90..=0x9f => self.list(usize::from(marker & 0x0f), depth)?,
            0xd4..=0xd6 => {
                let count = self.size(marker - 0xd4)?;
                self.list(count, depth)?
            }
            0xa0..=0xaf => self.map(usize::from(marker & 0x0f), depth)?,
            0xd8..=0xda => {
                let count = self.size(marker - 0xd8)?;
                self.map(count, depth)?
            }
            0xb0..=0xbf => {
                let count = usize::from(marker & 0x0f);
                let tag = self.byte()?;
                self.deeper(count, depth)?;
                let mut fields = Vec::with_capacity(count);
                for _ in 0..count {
                    fields.push(self.value_at(depth + 1)?);
                }
                structure::read(tag, &fields)?
            }
            _ => return malformed(format!("invalid marker {marker:02X} of a value")),
        })
    }

    fn list(&mut self, count: usize, depth: usize) -> ParseResult<Value> {
        self.deeper(count, depth)?;
        let mut items = Vec::with_capacity(count.min(MAX_RESERVED_ELEMENTS));
        for _ in 0..count {
            items.push(self.value_at(depth + 1)?);
        }
        Ok(items.into())
    }

    fn map(&mut self, count: usize, depth: usize) -> ParseResult<Value> {
        self.deeper(count.saturating_mul(2), depth)?;
        let mut entries: Vec<(Arc<str>, Value)> =
            Vec::with_capacity(count.min(MAX_RESERVED_ELEMENTS));
        for _ in 0..count {
            self.charge(2 * size_of::<usize>())?;
            let marker = self.byte()?;
            let name = self.text(marker)?;
            entries.push((name, self.value_at(depth + 1)?));
        }
        Ok(entries.into_iter().collect::<Map>().into())
    }

    /// Checks a count and the depth before anything is allocated for them.
    fn deeper(&self, count: usize, depth: usize) -> ParseResult<()> {
        if count > self.rest.len() {
            return malformed(format!(
                "{count} values are announced and {} bytes are left",
                self.rest.len()
            ));
        }
        if depth >= self.depth {
            return refused(format!(
                "lists and dictionaries are nested more than {} levels deep: flatten the value",
                // The dictionary of all parameters does not count as a level.
                self.depth.min(MAX_NESTING)
            ));
        }
        if count.saturating_mul(size_of::<Value>()) > self.budget {
            return self.too_many();
        }
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> ParseResult<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => self.too_many(),
        }
    }

    fn too_many<T>(&self) -> ParseResult<T> {
        refused("the values of the message exceed the memory limit: split it")
    }

    fn text(&mut self, marker: u8) -> ParseResult<Arc<str>> {
        let size = match marker {
            0x80..=0x8f => usize::from(marker & 0x0f),
            0xd0..=0xd2 => self.size(marker - 0xd0)?,
            _ => return malformed(format!("invalid marker {marker:02X} of a string")),
        };
        let bytes = self.take(size)?;
        self.charge(size)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.into()),
            Err(_) => malformed("a string is not valid UTF-8"),
        }
    }

    /// A size in 1, 2 or 4 bytes.
    fn size(&mut self, width: u8) -> ParseResult<usize> {
        let size = match width {
            0 => u32::from(self.byte()?),
            1 => u32::from(u16::from_be_bytes(self.array()?)),
            _ => u32::from_be_bytes(self.array()?),
        };
        Ok(size as usize)
    }

    fn byte(&mut self) -> ParseResult<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const N: usize>(&mut self) -> ParseResult<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((array, rest)) => {
                self.rest = rest;
                Ok(*array)
            }
            None => malformed("the message ends in the middle of a value"),
        }
    }

    fn take(&mut self, size: usize) -> ParseResult<&'m [u8]> {
        match self.rest.split_at_checked(size) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => malformed(format!(
                "{size} bytes are announced and {} are left",
                self.rest.len()
            )),
        }
    }
}

/// Writes values.
///
/// After a value that is nested too deep, [`Writer::is_too_deep`] is true and the output must be discarded.
pub struct Writer<'b> {
    bytes: &'b mut Vec<u8>,
    forms: structure::Forms,
    database: DatabaseId,
    too_deep: bool,
}

impl<'b> Writer<'b> {
    /// Appends to `bytes`, encoding structures in these forms.
    pub fn new(bytes: &'b mut Vec<u8>, forms: structure::Forms) -> Self {
        Self {
            bytes,
            forms,
            database: DatabaseId::default(),
            too_deep: false,
        }
    }

    /// How structures are encoded. Sets the database of the nodes and relationships.
    pub fn of_database(self, database: DatabaseId) -> Self {
        Self { database, ..self }
    }

    /// The database in element ids.
    pub(super) fn database(&self) -> DatabaseId {
        self.database
    }

    pub(super) fn forms(&self) -> structure::Forms {
        self.forms
    }

    /// Whether a value exceeded the nesting limit.
    pub fn is_too_deep(&self) -> bool {
        self.too_deep
    }

    /// The header of a structure; its fields follow.
    pub fn structure(&mut self, tag: u8, fields: u8) {
        self.bytes.extend_from_slice(&[0xb0 | fields, tag]);
    }

    /// The header of a list; its items follow.
    pub fn list(&mut self, count: usize) {
        self.head(count, 0x90, [0xd4, 0xd5, 0xd6]);
    }

    /// The header of a dictionary; its keys and values follow.
    pub fn dictionary(&mut self, count: usize) {
        self.head(count, 0xa0, [0xd8, 0xd9, 0xda]);
    }

    /// A string.
    pub fn text(&mut self, text: &str) {
        self.head(text.len(), 0x80, [0xd0, 0xd1, 0xd2]);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// An integer, in the shortest encoding.
    pub fn integer(&mut self, number: i64) {
        if let Ok(tiny @ -16..) = i8::try_from(number) {
            self.bytes.push(tiny.cast_unsigned());
        } else if let Ok(short) = i8::try_from(number) {
            self.bytes.push(0xc8);
            self.bytes.extend_from_slice(&short.to_be_bytes());
        } else if let Ok(short) = i16::try_from(number) {
            self.bytes.push(0xc9);
            self.bytes.extend_from_slice(&short.to_be_bytes());
        } else if let Ok(half) = i32::try_from(number) {
            self.bytes.push(0xca);
            self.bytes.extend_from_slice(&half.to_be_bytes());
        } else {
            self.bytes.push(0xcb);
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// A float.
    pub fn float(&mut self, number: f64) {
        self.bytes.push(0xc1);
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    /// A value.
    pub fn value(&mut self, value: &Value) {
        self.value_at(value, 0);
    }

    fn map_at(&mut self, map: &Map, depth: usize) {
        self.dictionary(map.len());
        for (name, value) in map.iter() {
            self.text(name);
            self.value_at(value, depth + 1);
        }
    }

    /// Recursion is bounded by [`MAX_NESTING`].
    pub(super) fn value_at(&mut self, value: &Value, depth: usize) {
        if depth > MAX_NESTING {
            self.too_deep = true;
            self.bytes.push(0xc0);
            return;
        }
        match value {
            Value::Null => self.bytes.push(0xc0),
            Value::Bool(truth) => self.bytes.push(0xc2 + u8::from(*truth)),
            Value::Int(number) => self.integer(*number),
            Value::Float(number) => self.float(*number),
            Value::String(text) => self.text(text),
            Value::Bytes(bytes) => {
                match bytes.len() {
                    size @ 0..=0xff => self.bytes.extend_from_slice(&[0xcc, size as u8]),
                    size => self.long_head(size, [0xcd, 0xce]),
                }
                self.bytes.extend_from_slice(bytes);
            }
            Value::List(items) => {
                self.list(items.len());
                for item in items.iter() {
                    self.value_at(item, depth + 1);
                }
            }
            Value::Map(map) => self.map_at(map, depth),
            structured => structure::write(self, structured, depth),
        }
    }

    fn head(&mut self, count: usize, tiny: u8, markers: [u8; 3]) {
        match count {
            0..=15 => self.bytes.push(tiny | count as u8),
            16..=0xff => self.bytes.extend_from_slice(&[markers[0], count as u8]),
            _ => self.long_head(count, [markers[1], markers[2]]),
        }
    }

    fn long_head(&mut self, count: usize, [short, long]: [u8; 2]) {
        match u16::try_from(count) {
            Ok(count) => {
                self.bytes.push(short);
                self.bytes.extend_from_slice(&count.to_be_bytes());
            }
            Err(_) => {
                // Asserted: a size that does not fit would make all that follows another message.
                let count = u32::try_from(count).expect("memory limits are below 4 GiB a value");
                self.bytes.push(long);
                self.bytes.extend_from_slice(&count.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use isomer_value::{Crs, Duration, Point, ZonedDateTime, ZonedTime, jiff};
    use structure::Forms;

    use super::*;

    fn written(value: &Value, forms: Forms) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, forms);
        writer.value(value);
        assert!(!writer.is_too_deep());
        bytes
    }

    fn read(bytes: &[u8]) -> ParseResult<Value> {
        let mut reader = Reader::new(bytes, MAX_NESTING, 1 << 20);
        let value = reader.value()?;
        reader.end()?;
        Ok(value)
    }

    const NEW: Forms = Forms {
        element_ids: true,
        utc: true,
    };
    const OLD: Forms = Forms {
        element_ids: false,
        utc: false,
    };

    #[test]
    fn integers_take_the_shortest_form_and_round_trip() {
        for (number, bytes) in [
            (0, vec![0x00]),
            (127, vec![0x7f]),
            (-1, vec![0xff]),
            (-16, vec![0xf0]),
            (-17, vec![0xc8, 0xef]),
            (-128, vec![0xc8, 0x80]),
            (128, vec![0xc9, 0x00, 0x80]),
            (-32_768, vec![0xc9, 0x80, 0x00]),
            (32_768, vec![0xca, 0x00, 0x00, 0x80, 0x00]),
            (i64::MIN, vec![0xcb, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(written(&Value::Int(number), NEW), bytes, "{number}");
            assert_eq!(read(&bytes), Ok(Value::Int(number)));
        }
    }

    #[test]
    fn values_of_every_type_round_trip_in_either_form() {
        let zone = |name| jiff::tz::TimeZone::get(name).unwrap();
        let instant = |seconds| jiff::Timestamp::new(seconds, 42).unwrap();
        let offset = |seconds| jiff::tz::Offset::from_seconds(seconds).unwrap();
        let time = jiff::civil::time(23, 59, 59, 999_999_999);
        let point = |crs, z| {
            Value::from(Point {
                crs,
                x: 1.5,
                y: -2.5,
                z,
            })
        };
        let ends = |text: &str| Value::from(text.parse::<ZonedDateTime>().unwrap());
        let mut values = vec![
            Value::Null,
            true.into(),
            Value::Float(f64::MIN_POSITIVE),
            Value::Float(f64::INFINITY),
            "".into(),
            "ä".repeat(300).as_str().into(),
            "x".repeat(70_000).as_str().into(),
            vec![0_u8, 255].into(),
            vec![7_u8; 70_000].into(),
            (0..300).map(Value::Int).collect(),
            Map::from_iter([("a", Value::Int(1)), ("b", Value::empty_list())]).into(),
            jiff::civil::date(-9999, 1, 1).into(),
            jiff::civil::date(9999, 12, 31).into(),
            jiff::civil::date(1969, 12, 31).into(),
            time.into(),
            ZonedTime {
                time,
                offset: offset(-12_600),
            }
            .into(),
            jiff::civil::date(1, 2, 3).to_datetime(time).into(),
            instant(-1).to_zoned(jiff::tz::TimeZone::UTC).into(),
            instant(1_700_000_000)
                .to_zoned(jiff::tz::TimeZone::fixed(offset(5_400)))
                .into(),
            instant(1_700_000_000).to_zoned(zone("Europe/Rome")).into(),
            ends("9999-12-31T23:59:59.999999999Z"),
            ends("9999-12-31T23:59:59-18:00"),
            ends("-9999-01-01T00:00+18:00"),
            ends("9999-12-31T23:59:59[America/New_York]"),
            Duration::new(-14, 3, -5, 500_000_000).unwrap().into(),
            point(Crs::Wgs84, 0.0),
            point(Crs::Cartesian3d, 3.5),
        ];
        values.push(values.clone().into());
        for value in &values {
            for forms in [NEW, OLD] {
                let bytes = written(value, forms);
                assert_eq!(read(&bytes).as_ref(), Ok(value), "{bytes:02X?}");
                for end in 0..bytes.len().min(200) {
                    assert!(
                        matches!(read(&bytes[..end]), Err(Unreadable::Malformed(_))),
                        "a part of {value:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn wrong_sizes_allocate_nothing() {
        for marker in [0xce, 0xd2, 0xd6, 0xda] {
            let bytes = [marker, 0x7f, 0xff, 0xff, 0xff, 0x00];
            assert!(
                matches!(read(&bytes), Err(Unreadable::Malformed(_))),
                "{marker:02X}"
            );
        }
        // A list of a million nulls takes a megabyte on the wire and 24 in memory.
        let mut bytes = vec![0xd6, 0x00, 0x0f, 0x42, 0x40];
        bytes.resize(5 + 1_000_000, 0xc0);
        assert!(matches!(read(&bytes), Err(Unreadable::Refused(_))));
    }

    #[test]
    fn nesting_is_limited_on_both_sides() {
        let nested = |depth: usize| {
            let mut bytes = vec![0x91; depth];
            bytes.push(0xc0);
            bytes
        };
        assert!(read(&nested(MAX_NESTING)).is_ok());
        assert!(matches!(
            read(&nested(MAX_NESTING + 1)),
            Err(Unreadable::Refused(_))
        ));
        assert!(matches!(
            read(&nested(100_000)),
            Err(Unreadable::Refused(_))
        ));
        let mut deep = Value::Null;
        for _ in 0..1_000 {
            deep = vec![deep].into();
        }
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, NEW);
        writer.value(&deep);
        assert!(writer.is_too_deep());
    }

    #[test]
    fn arbitrary_bytes_are_parsed_or_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut taken = 0;
        for _ in 0..200_000 {
            let size = random() % 24;
            let bytes: Vec<u8> = (0..size).map(|_| random() as u8).collect();
            taken += usize::from(read(&bytes).is_ok());
        }
        assert!(taken > 100);
    }
}
