//! The buffers of a column.

use isomer_db::{Value, json};

use super::{
    DoesNotFit,
    kind::{Kind, amount_of, days_since_1970, nanos_of_day, since_1970, zone_of},
};

/// Values of one kind, in the buffers of Arrow's layout. Memory: that of the values.
#[derive(Debug)]
pub struct Column {
    kind: Kind,
    rows: usize,
    nulls: usize,
    /// Validity bitmap: a bit per value, 0 for null.
    there: Vec<u8>,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Nothing,
    Bits(Vec<u8>),
    /// Values of one width.
    Fixed(Vec<u8>),
    /// Value `n` is `offsets[n]..offsets[n + 1]` of the bytes.
    Varying(Vec<i32>, Vec<u8>),
    Lists(Vec<i32>, Box<Column>),
}

fn set_bit(bits: &mut Vec<u8>, at: usize, set: bool) {
    if at.is_multiple_of(8) {
        bits.push(0);
    }
    if let Some(last) = bits.last_mut() {
        *last |= u8::from(set) << (at % 8);
    }
}

impl Column {
    /// Creates an empty column.
    pub fn new(kind: &Kind) -> Self {
        let content = match kind {
            Kind::Null => Content::Nothing,
            Kind::Bool => Content::Bits(Vec::new()),
            Kind::Int { .. }
            | Kind::Float
            | Kind::Date
            | Kind::Time
            | Kind::Instant { .. }
            | Kind::Amount => Content::Fixed(Vec::new()),
            Kind::Text | Kind::Bytes | Kind::Json => Content::Varying(vec![0], Vec::new()),
            Kind::List(kind) => Content::Lists(vec![0], Box::new(Self::new(kind))),
        };
        Self {
            kind: kind.clone(),
            rows: 0,
            nulls: 0,
            there: Vec::new(),
            content,
        }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        let content = match &self.content {
            Content::Nothing => 0,
            Content::Bits(bytes) | Content::Fixed(bytes) => bytes.len(),
            Content::Varying(offsets, bytes) => 4 * offsets.len() + bytes.len(),
            Content::Lists(offsets, items) => 4 * offsets.len() + items.bytes(),
        };
        self.there.len() + content
    }

    /// Appends a value. After an error, the column must not be used any further.
    pub fn push(&mut self, value: &Value) -> Result<(), DoesNotFit> {
        let fits = match value {
            Value::Null => {
                self.put_null();
                true
            }
            value => self.put(value)?,
        };
        if !fits {
            return Err(DoesNotFit {
                value: value.type_name(),
                column: self.kind.name(),
            });
        }
        set_bit(&mut self.there, self.rows, !value.is_null());
        self.rows += 1;
        Ok(())
    }

    fn put_null(&mut self) {
        self.nulls += 1;
        match &mut self.content {
            Content::Nothing => {}
            Content::Bits(bits) => set_bit(bits, self.rows, false),
            Content::Fixed(bytes) => {
                let width = match self.kind {
                    Kind::Date => 4,
                    Kind::Amount => 16,
                    _ => 8,
                };
                bytes.resize(bytes.len() + width, 0);
            }
            Content::Varying(offsets, _) | Content::Lists(offsets, _) => {
                offsets.extend(offsets.last().copied());
            }
        }
    }

    /// Appends a value that is not null; returns whether it fits.
    fn put(&mut self, value: &Value) -> Result<bool, DoesNotFit> {
        match (&self.kind, &mut self.content) {
            (Kind::Bool, Content::Bits(bits)) => match value {
                Value::Bool(truth) => set_bit(bits, self.rows, *truth),
                _ => return Ok(false),
            },
            (kind, Content::Fixed(bytes)) => return Ok(put_fixed(kind, value, bytes)),
            (kind, Content::Varying(offsets, bytes)) => {
                match (kind, value) {
                    (Kind::Text, Value::String(text)) => bytes.extend(text.as_bytes()),
                    (Kind::Bytes, Value::Bytes(some)) => bytes.extend(some.iter()),
                    (Kind::Json, value) => match json::to_string(value) {
                        Ok(text) => bytes.extend(text.as_bytes()),
                        Err(_) => return Ok(false),
                    },
                    _ => return Ok(false),
                }
                let Ok(end) = i32::try_from(bytes.len()) else {
                    return Ok(false);
                };
                offsets.push(end);
            }
            (Kind::List(_), Content::Lists(offsets, items)) => {
                let Some(values) = value.as_list() else {
                    return Ok(false);
                };
                for value in values {
                    items.push(value)?;
                }
                let Ok(end) = i32::try_from(items.rows) else {
                    return Ok(false);
                };
                offsets.push(end);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Appends the column's rows and null counts to the nodes of a batch, and its buffers to the body, each aligned
    /// to 8 bytes.
    pub(super) fn write(
        &self,
        nodes: &mut Vec<(i64, i64)>,
        buffers: &mut Vec<(i64, i64)>,
        body: &mut Vec<u8>,
    ) {
        nodes.push((self.rows as i64, self.nulls as i64));
        let mut add = |bytes: &[u8], body: &mut Vec<u8>| {
            buffers.push((body.len() as i64, bytes.len() as i64));
            body.extend(bytes);
            body.resize(body.len().next_multiple_of(8), 0);
        };
        if !matches!(self.content, Content::Nothing) {
            // The bitmap may be left out if no value is null.
            add(if self.nulls > 0 { &self.there } else { &[] }, body);
        }
        let of_offsets = |offsets: &[i32]| -> Vec<u8> {
            offsets.iter().flat_map(|one| one.to_le_bytes()).collect()
        };
        match &self.content {
            Content::Nothing => {}
            Content::Bits(bytes) | Content::Fixed(bytes) => add(bytes, body),
            Content::Varying(offsets, bytes) => {
                add(&of_offsets(offsets), body);
                add(bytes, body);
            }
            Content::Lists(offsets, items) => {
                add(&of_offsets(offsets), body);
                items.write(nodes, buffers, body);
            }
        }
    }
}

fn put_fixed(kind: &Kind, value: &Value, bytes: &mut Vec<u8>) -> bool {
    let number = match (kind, value) {
        (Kind::Int { .. }, Value::Int(int)) => *int,
        (Kind::Float, Value::Float(float)) => float.to_bits() as i64,
        (Kind::Float, Value::Int(int)) if Kind::of(value) == (Kind::Int { exact: true }) => {
            (*int as f64).to_bits() as i64
        }
        (Kind::Date, Value::Date(date)) => {
            bytes.extend(days_since_1970(*date).to_le_bytes());
            return true;
        }
        (Kind::Time, Value::LocalTime(time)) => nanos_of_day(*time),
        (Kind::Amount, Value::Duration(amount)) => {
            let Some((months, days, nanos)) = amount_of(amount) else {
                return false;
            };
            bytes.extend(months.to_le_bytes());
            bytes.extend(days.to_le_bytes());
            bytes.extend(nanos.to_le_bytes());
            return true;
        }
        (
            Kind::Instant {
                micros,
                zone,
                any_zone,
                ..
            },
            value,
        ) => {
            let (seconds, nanos) = match (value, zone) {
                (Value::LocalDateTime(time), None) => since_1970(*time),
                // A column requested in UTC accepts instants of any zone.
                (Value::ZonedDateTime(zoned), Some(_)) if *any_zone || zone_of(zoned) == *zone => (
                    zoned.epoch_seconds(),
                    zoned.subsec_nanosecond().cast_signed(),
                ),
                _ => return false,
            };
            let (per_second, part) = match micros {
                true if nanos % 1000 != 0 => return false,
                true => (1_000_000, i64::from(nanos / 1000)),
                false => (1_000_000_000, i64::from(nanos)),
            };
            let whole = seconds.checked_mul(per_second);
            match whole.and_then(|whole| whole.checked_add(part)) {
                Some(number) => number,
                None => return false,
            }
        }
        _ => return false,
    };
    bytes.extend(number.to_le_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_have_arrows_layout() {
        let mut texts = Column::new(&Kind::Text);
        for value in ["a".into(), Value::Null, "bcd".into()] {
            texts.push(&value).unwrap();
        }
        let (mut nodes, mut buffers, mut body) = (Vec::new(), Vec::new(), Vec::new());
        texts.write(&mut nodes, &mut buffers, &mut body);
        assert_eq!(nodes, [(3, 1)]);
        assert_eq!(buffers, [(0, 1), (8, 16), (24, 4)]);
        assert_eq!(body[0], 0b101);
        assert_eq!(
            body[8..24],
            [0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0]
        );
        assert_eq!(&body[24..28], b"abcd");
        assert_eq!(body.len(), 32);

        let kind = Kind::of_name("[int]").unwrap();
        let mut lists = Column::new(&kind);
        let list =
            |items: &[i64]| Value::from(items.iter().map(|n| Value::Int(*n)).collect::<Vec<_>>());
        for value in [list(&[1, 2]), list(&[]), Value::Null] {
            lists.push(&value).unwrap();
        }
        let (mut nodes, mut buffers, mut body) = (Vec::new(), Vec::new(), Vec::new());
        lists.write(&mut nodes, &mut buffers, &mut body);
        assert_eq!(nodes, [(3, 1), (2, 0)]);
        assert_eq!(buffers[2], (24, 0), "no item is null");
        assert_eq!(
            body[8..24],
            [0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]
        );
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_and_not_converted() {
        let refused = |kind: &str, value: Value| {
            Column::new(&Kind::of_name(kind).unwrap())
                .push(&value)
                .unwrap_err()
        };
        assert_eq!(
            refused("int", "1".into()).value,
            Value::from("1").type_name()
        );
        assert_eq!(refused("float", Value::Int((1 << 53) + 1)).column, "float");
        assert_eq!(
            refused("[int]", Value::from(vec![Value::Bool(true)])).column,
            "int"
        );
        assert_eq!(refused("string", Value::Int(1)).column, "string");
        let mut floats = Column::new(&Kind::Float);
        floats.push(&Value::Int(1 << 53)).unwrap();
        let mut json = Column::new(&Kind::Json);
        json.push(&Value::from(vec![Value::Int(1), "x".into()]))
            .unwrap();
        assert!(matches!(&json.content, Content::Varying(_, bytes) if bytes == b"[1,\"x\"]"));
    }
}
