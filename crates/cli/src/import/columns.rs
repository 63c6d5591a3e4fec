//! Types of columns: declared (`age:int?`) or inferred from the first rows.

use std::sync::Arc;

use anyhow::{Result, bail};
use isomer_db::{Value, jiff};

use super::{json::parse_json, record::excerpt};

/// What a column's texts are read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Text as it stands.
    String,
    /// 64-bit integer.
    Int,
    /// Double.
    Float,
    /// `true` or `false`.
    Bool,
    /// `2026-02-28`.
    Date,
    /// `17:30:00`.
    Time,
    /// `2026-02-28T17:30:00`.
    DateTime,
    /// `2026-02-28T17:30:00+01:00` or with a zone: `…[Europe/Rome]`.
    Instant,
    /// Any JSON.
    Json,
}

/// The names of the types, for messages and help.
pub const TYPE_NAMES: &str = "string, int, float, bool, date, time, datetime, instant, json";

impl ColumnType {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "string" | "str" | "text" => Self::String,
            "int" | "integer" | "long" => Self::Int,
            "float" | "double" => Self::Float,
            "bool" | "boolean" => Self::Bool,
            "date" => Self::Date,
            "time" => Self::Time,
            "datetime" => Self::DateTime,
            "instant" | "timestamp" => Self::Instant,
            "json" => Self::Json,
            _ => return None,
        })
    }

    fn noun(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Int => "an integer",
            Self::Float => "a number",
            Self::Bool => "true or false",
            Self::Date => "a date such as 2026-02-28",
            Self::Time => "a time such as 17:30:00",
            Self::DateTime => "a date and time such as 2026-02-28T17:30:00",
            Self::Instant => "an instant such as 2026-02-28T17:30:00+01:00",
            Self::Json => "JSON",
        }
    }
}

/// A type as it is declared: a list of it, and whether a value may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The type of the value or of a list's elements.
    pub column_type: ColumnType,
    /// Whether the text is a list with `;` between the elements.
    pub list: bool,
    /// Whether an empty text means that there is no value.
    pub optional: bool,
}

impl Declared {
    /// Reads `int`, `int?`, `string[]`, `date[]?`.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, optional) = text
            .strip_suffix('?')
            .map_or((text, false), |text| (text, true));
        let (text, list) = text
            .strip_suffix("[]")
            .map_or((text, false), |text| (text, true));
        Some(Self {
            column_type: ColumnType::parse(text)?,
            list,
            optional,
        })
    }

    /// Whether a text is read as it stands.
    pub fn is_text(self) -> bool {
        self.column_type == ColumnType::String && !self.list
    }

    /// Reads a field's text. `None` where there is no value.
    pub fn read(self, text: &str) -> Result<Option<Value>, String> {
        if text.is_empty() && self.optional {
            return Ok(None);
        }
        if self.list {
            let items: Result<Vec<Value>, String> = match text {
                "" => Ok(Vec::new()),
                text => text
                    .split(';')
                    .map(|item| read_one(self.column_type, item))
                    .collect(),
            };
            return Ok(Some(Value::List(Arc::new(items?))));
        }
        if text.is_empty() && self.column_type != ColumnType::String {
            return Err(format!(
                "is empty, where {} is expected: declare it optional (`?`) or fill it",
                self.column_type.noun()
            ));
        }
        read_one(self.column_type, text).map(Some)
    }

    /// Reads a value that came with a type of its own (from JSON): texts and exact numbers are converted.
    pub fn convert(self, value: Value) -> Result<Option<Value>, String> {
        let wrong = |value: &Value| {
            Err(format!(
                "is {}, where {} is expected",
                article(value),
                self.column_type.noun()
            ))
        };
        match (self.column_type, value) {
            (_, Value::Null) => Ok(None),
            (_, Value::List(items)) if self.list => {
                let one = Self {
                    list: false,
                    ..self
                };
                let items: Result<Vec<Value>, String> = items
                    .iter()
                    .filter_map(|item| one.convert(item.clone()).transpose())
                    .collect();
                Ok(Some(Value::List(Arc::new(items?))))
            }
            (_, value) if self.list => wrong(&value),
            (ColumnType::String, value @ Value::String(_))
            | (ColumnType::Int, value @ Value::Int(_))
            | (ColumnType::Float, value @ Value::Float(_))
            | (ColumnType::Bool, value @ Value::Bool(_)) => Ok(Some(value)),
            (ColumnType::Json, Value::String(text)) => self.read(&text),
            (ColumnType::Json, value) => Ok(Some(value)),
            (ColumnType::String, Value::Int(number)) => {
                Ok(Some(Value::String(number.to_string().into())))
            }
            (ColumnType::String, Value::Bool(truth)) => {
                Ok(Some(Value::String(truth.to_string().into())))
            }
            (ColumnType::Float, Value::Int(number))
                if (number as f64) as i128 == i128::from(number) =>
            {
                Ok(Some(Value::Float(number as f64)))
            }
            (ColumnType::Int, Value::Float(number))
                if number.fract() == 0.0 && number.abs() < 9.0e15 =>
            {
                Ok(Some(Value::Int(number as i64)))
            }
            (_, Value::String(text)) => self.read(&text),
            (_, value) => wrong(&value),
        }
    }
}

/// `INTEGER` as `an integer`.
pub fn article(value: &Value) -> String {
    let name = value.type_name().to_lowercase();
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {name}")
}

fn read_one(column_type: ColumnType, text: &str) -> Result<Value, String> {
    let wrong = || {
        format!(
            "is `{}`, which is not {}",
            excerpt(text),
            column_type.noun()
        )
    };
    let trimmed = text.trim();
    Ok(match column_type {
        ColumnType::String => Value::String(text.into()),
        ColumnType::Int => Value::Int(trimmed.parse().map_err(|_| {
            let digits = trimmed.strip_prefix('-').unwrap_or(trimmed);
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
                format!(
                    "is `{}`, which does not fit into 64 bits: declare it `string` or `float`",
                    excerpt(text)
                )
            } else {
                wrong()
            }
        })?),
        ColumnType::Float => Value::Float(read_float(trimmed).ok_or_else(wrong)?),
        ColumnType::Bool => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "1" => Value::Bool(true),
            "false" | "f" | "no" | "0" => Value::Bool(false),
            _ => return Err(wrong()),
        },
        ColumnType::Date => Value::Date(trimmed.parse().map_err(|_| wrong())?),
        ColumnType::Time => Value::LocalTime(trimmed.parse().map_err(|_| wrong())?),
        ColumnType::DateTime => Value::LocalDateTime(trimmed.parse().map_err(|_| wrong())?),
        ColumnType::Instant => {
            Value::ZonedDateTime(Arc::new(read_instant(trimmed).ok_or_else(wrong)?))
        }
        ColumnType::Json => {
            parse_json(text.as_bytes()).map_err(|reason| format!("is not JSON: {reason}"))?
        }
    })
}

fn read_float(text: &str) -> Option<f64> {
    match text {
        "NaN" | "nan" => Some(f64::NAN),
        "Infinity" | "inf" | "+inf" => Some(f64::INFINITY),
        "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
        // Rust reads 1e400 as infinity: that would be another number than the file says.
        _ => text.parse().ok().filter(|number: &f64| number.is_finite()),
    }
}

fn read_instant(text: &str) -> Option<jiff::Zoned> {
    if let Ok(zoned) = text.parse() {
        return Some(zoned);
    }
    let pieces = jiff::fmt::temporal::Pieces::parse(text).ok()?;
    let offset = match pieces.offset()? {
        jiff::fmt::temporal::PiecesOffset::Zulu => jiff::tz::Offset::UTC,
        jiff::fmt::temporal::PiecesOffset::Numeric(numeric) => numeric.offset(),
        _ => return None,
    };
    pieces
        .date()
        .to_datetime(pieces.time()?)
        .to_zoned(jiff::tz::TimeZone::fixed(offset))
        .ok()
}

/// A column: its name and how its texts are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The property's name.
    pub name: Arc<str>,
    /// The type that was declared; `None` where it is to be inferred.
    pub declared: Option<Declared>,
}

impl Column {
    /// Reads a header's cell: `age:int?`. A suffix that is no type belongs to the name.
    pub fn of_header(cell: &str) -> Self {
        let typed = cell
            .rsplit_once(':')
            .and_then(|(name, suffix)| Some((name, Declared::parse(suffix)?)));
        match typed {
            Some((name, declared)) => Self {
                name: name.into(),
                declared: Some(declared),
            },
            None => Self {
                name: cell.into(),
                declared: None,
            },
        }
    }

    /// Reads an option's `name[:type]`, where a wrong type is an error.
    pub fn of_option(text: &str) -> Result<Self> {
        match text.rsplit_once(':') {
            None => Ok(Self {
                name: text.trim().into(),
                declared: None,
            }),
            Some((name, suffix)) => match Declared::parse(suffix.trim()) {
                Some(declared) => Ok(Self {
                    name: name.trim().into(),
                    declared: Some(declared),
                }),
                None => bail!(
                    "`{suffix}` in `{text}` is not a type: {TYPE_NAMES}; `[]` after it for a list, `?` for optional"
                ),
            },
        }
    }

    /// Reads `a,b:int,c:float?`.
    pub fn list(text: &str) -> Result<Vec<Self>> {
        let columns: Result<Vec<Self>> = text.split(',').map(Self::of_option).collect();
        let columns = columns?;
        check_distinct(&columns)?;
        Ok(columns)
    }
}

/// The type that one of `columns` declares for `field`.
pub fn declared_in(columns: &[Column], field: &str) -> Option<Declared> {
    columns
        .iter()
        .find(|column| column.name.as_ref() == field)?
        .declared
}

/// Refuses a name that occurs twice.
pub fn check_distinct(columns: &[Column]) -> Result<()> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at]
            .iter()
            .any(|before| before.name == column.name)
        {
            bail!(
                "column `{}` occurs twice: rename one, or name the columns with --columns",
                column.name
            );
        }
    }
    Ok(())
}

/// The narrowest type that every text seen so far has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inference {
    seen: bool,
    not_int: bool,
    not_float: bool,
    not_bool: bool,
}

impl Inference {
    /// Looks at one more text.
    pub fn see(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.seen = true;
        self.not_int |= !is_plain_int(text);
        self.not_float |= !is_plain_float(text);
        self.not_bool |= !matches!(text, "true" | "false" | "True" | "False" | "TRUE" | "FALSE");
    }

    /// The type; strings where nothing was seen.
    pub fn column_type(self) -> ColumnType {
        match self {
            Self { seen: false, .. } => ColumnType::String,
            Self { not_int: false, .. } => ColumnType::Int,
            Self {
                not_float: false, ..
            } => ColumnType::Float,
            Self {
                not_bool: false, ..
            } => ColumnType::Bool,
            _ => ColumnType::String,
        }
    }
}

/// Whether the text is how an integer is written: `007`, `+5` and what does not fit into 64 bits stay texts.
fn is_plain_int(text: &str) -> bool {
    text.parse::<i64>()
        .is_ok_and(|number| number.to_string() == text)
}

/// Whether the text is a number that a double keeps: at most 17 digits, no leading zeros, no words.
fn is_plain_float(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let count = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let leading_zero = digits.len() > 1
        && digits.starts_with('0')
        && !digits.starts_with("0.")
        && !digits.starts_with("0e");
    let plain = digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    plain && (1..=17).contains(&count) && !leading_zero && read_float(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(declared: &str, text: &str) -> Result<Option<Value>, String> {
        Declared::parse(declared)
            .expect("the declaration is right")
            .read(text)
    }

    #[test]
    fn declared_types_read_what_they_name() {
        assert_eq!(read("int", "-42"), Ok(Some(Value::Int(-42))));
        assert_eq!(
            read("int", "9223372036854775807"),
            Ok(Some(Value::Int(i64::MAX)))
        );
        assert_eq!(read("float", "1.5"), Ok(Some(Value::Float(1.5))));
        assert_eq!(read("bool", "True"), Ok(Some(Value::Bool(true))));
        assert_eq!(read("string", ""), Ok(Some(Value::String("".into()))));
        assert_eq!(read("string?", ""), Ok(None));
        assert_eq!(read("int?", ""), Ok(None));
        assert_eq!(
            read("int[]", "1;2"),
            Ok(Some(Value::List(Arc::new(vec![
                Value::Int(1),
                Value::Int(2)
            ]))))
        );
        assert!(matches!(
            read("date", "2024-02-29"),
            Ok(Some(Value::Date(_)))
        ));
        assert!(matches!(
            read("instant", "2024-02-29T12:00:00+01:00"),
            Ok(Some(Value::ZonedDateTime(_)))
        ));
        assert!(matches!(
            read("json", "{\"a\":[1]}"),
            Ok(Some(Value::Map(_)))
        ));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_a_reason() {
        for (declared, text, part) in [
            ("int", "", "empty"),
            ("int", "12x", "not an integer"),
            ("int", "9223372036854775808", "64 bits"),
            ("float", "1e400", "not a number"),
            ("bool", "maybe", "true or false"),
            ("date", "2023-02-29", "not a date"),
            ("json", "{", "JSON"),
        ] {
            let reason = read(declared, text).expect_err(text);
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[test]
    fn inference_keeps_exactly_what_is_written() {
        let infer = |texts: &[&str]| {
            let mut inference = Inference::default();
            texts.iter().for_each(|text| inference.see(text));
            inference.column_type()
        };
        assert_eq!(infer(&["1", "", "-7"]), ColumnType::Int);
        assert_eq!(infer(&["1", "2.5"]), ColumnType::Float);
        assert_eq!(infer(&["true", "False"]), ColumnType::Bool);
        assert_eq!(infer(&["007"]), ColumnType::String);
        assert_eq!(infer(&["9223372036854775808"]), ColumnType::String);
        assert_eq!(infer(&["0.12345678901234567890"]), ColumnType::String);
        assert_eq!(infer(&["NaN"]), ColumnType::String);
        assert_eq!(infer(&["", ""]), ColumnType::String);
        assert_eq!(infer(&["true", "1"]), ColumnType::String);
    }

    #[test]
    fn header_cells_carry_types_and_options_refuse_unknown_ones() {
        assert_eq!(Column::of_header("id:int").declared, Declared::parse("int"));
        assert_eq!(Column::of_header("a:b").name.as_ref(), "a:b");
        assert!(Column::of_option("a:itn").is_err());
        assert!(Column::list("a,b,a").is_err());
    }
}
