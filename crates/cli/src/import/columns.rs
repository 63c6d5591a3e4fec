//! Types of columns: declared (`age:int?`) or inferred from the first rows.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use isomer_db::{Map, Value, json};

use super::{
    column_type::{ColumnType, TYPE_NAMES},
    excerpt::excerpt,
    moment,
};

/// A declared type: the element type, whether it is a list, and whether a value may be missing.
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

    /// Whether the text is used unchanged.
    pub fn is_text(self) -> bool {
        self.column_type == ColumnType::String && !self.list
    }

    /// A description of the expected values, for messages.
    fn noun(self) -> String {
        match self.list {
            true => format!("a list, each element {},", self.column_type.noun()),
            false => self.column_type.noun().to_owned(),
        }
    }

    /// Parses a field's text. `None` if there is no value.
    pub fn read(self, text: &str) -> Result<Option<Value>, String> {
        if self.column_type == ColumnType::Ignore || (text.is_empty() && self.optional) {
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
                self.noun()
            ));
        }
        let value = read_one(self.column_type, text)?;
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    /// Converts a typed value (from JSON): strings and exact numbers are converted.
    pub fn convert(self, value: Value) -> Result<Option<Value>, String> {
        if self.column_type == ColumnType::Ignore || value.is_null() {
            return Ok(None);
        }
        if self.list {
            let Value::List(items) = value else {
                return Err(format!(
                    "is {}, where {} is expected",
                    article(&value),
                    self.noun()
                ));
            };
            let one = Self {
                list: false,
                ..self
            };
            let items: Result<Vec<Value>, String> = items
                .iter()
                .map(|item| Ok(one.convert(item.clone())?.unwrap_or_default()))
                .collect();
            return Ok(Some(Value::List(Arc::new(items?))));
        }
        if self.column_type.is_of(&value) {
            return Ok(Some(value));
        }
        match (self.column_type, value) {
            (ColumnType::Json, value) if !matches!(value, Value::String(_)) => Ok(Some(value)),
            (ColumnType::String, Value::Int(number)) => {
                Ok(Some(Value::String(number.to_string().into())))
            }
            (ColumnType::String, Value::Bool(truth)) => {
                Ok(Some(Value::String(truth.to_string().into())))
            }
            (ColumnType::Float, Value::Int(number)) => match (number as f64) as i128 {
                float if float == i128::from(number) => Ok(Some(Value::Float(number as f64))),
                _ => Err(inexact(&number.to_string())),
            },
            (ColumnType::Int, Value::Float(number))
                if number.fract() == 0.0 && number.abs() < 9.0e15 =>
            {
                Ok(Some(Value::Int(number as i64)))
            }
            (ColumnType::Point, Value::Map(map)) => point(&map).map(Some).ok_or_else(|| {
                let text = json::to_string(&Value::Map(map)).unwrap_or_else(|_| "a map".into());
                format!("is {}, which is not {}", excerpt(&text), self.noun())
            }),
            (_, Value::String(text)) => self.read(&text),
            (_, value) => Err(format!(
                "is {}, where {} is expected",
                article(&value),
                self.noun()
            )),
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
            if is_digits(trimmed) {
                format!(
                    "is `{}`, which does not fit into 64 bits: declare it `string`",
                    excerpt(text)
                )
            } else {
                wrong()
            }
        })?),
        ColumnType::Float => Value::Float(read_float(trimmed).ok_or_else(|| {
            if is_digits(trimmed) {
                inexact(trimmed)
            } else {
                wrong()
            }
        })?),
        ColumnType::Bool => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "t" | "yes" | "1" => Value::Bool(true),
            "false" | "f" | "no" | "0" => Value::Bool(false),
            _ => return Err(wrong()),
        },
        ColumnType::Date
        | ColumnType::LocalTime
        | ColumnType::ZonedTime
        | ColumnType::LocalDateTime
        | ColumnType::ZonedDateTime => {
            moment::read(column_type, trimmed).map_err(|reason| format!("{}: {reason}", wrong()))?
        }
        ColumnType::Duration => {
            moment::read_duration(trimmed).map_err(|reason| format!("{}{reason}", wrong()))?
        }
        ColumnType::Point => parse_json(text.as_bytes())
            .ok()
            .and_then(|value| point(value.as_map()?))
            .ok_or_else(wrong)?,
        ColumnType::Bytes => {
            let tagged = Map::from_iter([("$bytes", Value::from(trimmed))]);
            Some(json::from_exact(tagged.into()))
                .filter(|value| value.as_bytes().is_some())
                .ok_or_else(wrong)?
        }
        ColumnType::Json => parse_json(text.as_bytes())
            .map(json::from_exact)
            .map_err(|reason| format!("is not JSON: {reason}"))?,
        ColumnType::Ignore => Value::Null,
    })
}

/// Parses one JSON text; the error names the position.
pub fn parse_json(bytes: &[u8]) -> Result<Value, String> {
    json::parse_bytes(bytes).map_err(|error| error.to_string())
}

fn inexact(digits: &str) -> String {
    format!(
        "is `{}`, which a float would round: declare it `int` or `string`",
        excerpt(digits)
    )
}

/// The point of an object: as exported to JSON, or with the names that `point()` accepts.
fn point(map: &Map) -> Option<Value> {
    if let Some(point) = json::exact::point(map) {
        return Some(point.into());
    }
    let systems = [
        ("cartesian", &["x", "y"][..]),
        ("cartesian-3d", &["x", "y", "z"]),
        ("wgs-84", &["longitude", "latitude"]),
        ("wgs-84-3d", &["longitude", "latitude", "height"]),
    ];
    let is_of =
        |names: &[&str]| names.len() == map.len() && names.iter().all(|name| map.contains(name));
    let (system, names) = systems.into_iter().find(|(_, names)| is_of(names))?;
    let mut plain = Map::from_iter([("crs", Value::from(system))]);
    for (own, name) in ["x", "y", "z"].into_iter().zip(names) {
        plain.insert(own, map.get(name)?.clone());
    }
    json::exact::point(&plain).map(Value::from)
}

fn is_digits(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A double; none for a number that it does not represent: `1e400` would become infinity, an integer beyond 2^53 a
/// different number.
fn read_float(text: &str) -> Option<f64> {
    match text {
        "NaN" | "nan" => Some(f64::NAN),
        "Infinity" | "inf" | "+inf" => Some(f64::INFINITY),
        "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
        _ => text
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && keeps_integer(text, *number)),
    }
}

/// Whether `number` is exactly the integer in `text`: digits, with nothing but zeros after a decimal point.
fn keeps_integer(text: &str, number: f64) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    if whole.is_empty() || !is_digits(whole) || fraction.bytes().any(|byte| byte != b'0') {
        return true;
    }
    // All digits of the double, as many as an integer of its size has.
    format!("{:.0}", number.abs()) == whole.trim_start_matches('0') || number == 0.0
}

/// The role of a column, if its header gives one in the syntax of neo4j-admin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A property.
    Property,
    /// `:ID`: the key of a node.
    Key,
    /// `:START_ID`: the key of a relationship's start.
    Start,
    /// `:END_ID`: the key of its end.
    End,
    /// `:LABEL`.
    Labels,
    /// `:TYPE`.
    Type,
}

impl Role {
    /// The roles `ID`, `ID(Person)`, `START_ID` …, except `:IGNORE`.
    fn parse(text: &str) -> Option<Self> {
        let name = match text.split_once('(') {
            Some((name, group)) if group.ends_with(')') => name,
            Some(_) => return None,
            None => text,
        };
        Some(match name {
            "ID" => Self::Key,
            "START_ID" => Self::Start,
            "END_ID" => Self::End,
            "LABEL" => Self::Labels,
            "TYPE" => Self::Type,
            _ => return None,
        })
    }
}

/// A column: its name and how its texts are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The property's name.
    pub name: Arc<str>,
    /// The declared type; `None` if it is inferred.
    pub declared: Option<Declared>,
    /// The role of the column.
    pub role: Role,
    /// The declared type name, if later versions will not accept it any more.
    pub old_type: Option<Arc<str>>,
}

impl Column {
    /// A column with that name and nothing else.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.into(),
            declared: None,
            role: Role::Property,
            old_type: None,
        }
    }

    /// Parses `name`, `name:type`, or with a role: `name:ID`, `:START_ID(Person)`.
    ///
    /// # Errors
    /// The text after the last colon is neither a type nor a role.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((name, suffix)) = text.rsplit_once(':') else {
            return Ok(Self::named(text));
        };
        let suffix = suffix.trim();
        if let Some(declared) = Declared::parse(suffix) {
            let base = suffix.trim_end_matches(['?', '[', ']']);
            let is_old = ["instant", "timestamp"]
                .iter()
                .any(|old| base.eq_ignore_ascii_case(old));
            return Ok(Self {
                declared: Some(declared),
                old_type: is_old.then(|| base.into()),
                ..Self::named(name)
            });
        }
        let role = Role::parse(suffix).ok_or_else(|| {
            format!(
                "`{suffix}` in `{text}` is not a type: {TYPE_NAMES}, in any case; `[]` after it for a list, `?` for \
                 optional; or, as neo4j-admin has it, ID, START_ID, END_ID, IGNORE"
            )
        })?;
        // The names of ends are not properties, and may be equal: `Person.id:START_ID,Person.id:END_ID`.
        let name = match role {
            Role::Start | Role::End => text,
            _ if name.is_empty() => text,
            _ => name,
        };
        Ok(Self {
            role,
            ..Self::named(name)
        })
    }

    /// Reads an option's `name[:type]`.
    pub fn of_option(text: &str) -> Result<Self> {
        let column = Self::parse(text.trim()).map_err(|reason| anyhow!("{reason}"))?;
        let name = column.name.trim().into();
        Ok(Self { name, ..column })
    }

    /// Reads `a,b:int,c:float?`.
    pub fn list(text: &str) -> Result<Vec<Self>> {
        let columns: Result<Vec<Self>> = text.split(',').map(Self::of_option).collect();
        let columns = columns?;
        check_distinct(&columns)?;
        Ok(columns)
    }
}

/// Warnings for types declared by a deprecated name.
pub fn old_types(columns: &[Column]) -> Vec<String> {
    let old = columns
        .iter()
        .filter_map(|column| Some((column, column.old_type.as_ref()?)));
    old.map(|(column, old)| {
        format!(
            "the type `{old}` of `{0}` is called `datetime` now: say `{0}:datetime`, \
             the next version does not know `{old}`",
            column.name
        )
    })
    .collect()
}

/// The type that one of `columns` declares for `field`.
pub fn declared_in(columns: &[Column], field: &str) -> Option<Declared> {
    columns
        .iter()
        .find(|column| column.name.as_ref() == field)?
        .declared
}

/// Refuses duplicate names among columns that are not ignored.
pub fn check_distinct(columns: &[Column]) -> Result<()> {
    let is_read = |column: &&Column| {
        column
            .declared
            .is_none_or(|declared| declared.column_type != ColumnType::Ignore)
    };
    let columns: Vec<&Column> = columns.iter().filter(is_read).collect();
    for (at, column) in columns.iter().enumerate() {
        if columns[..at]
            .iter()
            .any(|before| before.name == column.name)
        {
            return Err(anyhow!(
                "column `{}` occurs twice: rename one, or name the columns with --columns",
                column.name
            ));
        }
    }
    Ok(())
}

/// The narrowest type that fits every text seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inference {
    seen: bool,
    not_int: bool,
    not_float: bool,
    not_bool: bool,
}

impl Inference {
    /// Adds one more text.
    pub fn see(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.seen = true;
        self.not_int |= plain_int(text).is_none();
        self.not_float |= plain_float(text).is_none();
        self.not_bool |= plain_bool(text).is_none();
    }

    /// The type; string if no text was seen.
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

/// Parses a text with the same test with which [`Inference`] found the type.
pub fn read_inferred(column_type: ColumnType, text: &str) -> Result<Value, String> {
    let value = match column_type {
        ColumnType::Int => plain_int(text).map(Value::Int),
        ColumnType::Float => plain_float(text).map(Value::Float),
        ColumnType::Bool => plain_bool(text).map(Value::Bool),
        _ => Some(Value::String(text.into())),
    };
    value.ok_or_else(|| {
        format!(
            "is `{}`, which is not written as {} is",
            excerpt(text),
            column_type.noun()
        )
    })
}

/// Whether a text in a header looks like a value: a number, a boolean, a date.
pub fn is_value(text: &str) -> bool {
    let number = || text.parse::<f64>().is_ok() && text.bytes().any(|byte| byte.is_ascii_digit());
    plain_bool(text).is_some() || number() || moment::is_moment(text)
}

/// The integer whose canonical form is the text: `007`, `+5` and numbers beyond 64 bits stay strings.
fn plain_int(text: &str) -> Option<i64> {
    text.parse::<i64>()
        .ok()
        .filter(|number| number.to_string() == text)
}

fn plain_bool(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// The number, if a double represents it: an integer exactly, another one of at most 17 digits; no leading zeros, no
/// words, a `+` only in the exponent.
fn plain_float(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let count = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let leading_zero = whole.len() > 1 && whole.starts_with('0');
    let all_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let written = all_digits(whole) && all_digits(fraction) && count <= 17 && !leading_zero;
    written.then(|| read_float(text)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_db::temporal;

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
            read("datetime", "2024-02-29T12:00:00+01:00"),
            Ok(Some(Value::ZonedDateTime(_)))
        ));
        assert!(matches!(
            read("json", "{\"a\":[1]}"),
            Ok(Some(Value::Map(_)))
        ));
    }

    #[test]
    fn values_that_do_not_fit_are_refused_with_a_reason() {
        for (declared, text, part) in [
            ("int", "", "empty"),
            ("int", "12x", "not an integer"),
            ("int", "9223372036854775808", "64 bits"),
            ("float", "1e400", "not a number"),
            ("bool", "maybe", "true or false"),
            ("date", "2023-02-29", "not a date"),
            ("float", "9007199254740993", "a float would round"),
            ("float", "-9007199254740993.00", "not a number"),
            (
                "float",
                "123456789012345678901234567890",
                "a float would round",
            ),
            ("datetime", "2024-01-01T10:00", "declare it `localdatetime`"),
            ("datetime", "2024-01-01", "declare it `date`"),
            (
                "localdatetime",
                "2024-01-01T10:00Z",
                "declare it `datetime`",
            ),
            (
                "localdatetime",
                "2024-01-01 10:00:00+02",
                "declare it `datetime`",
            ),
            ("date", "2024-01-01T23:59:59-12:00", "declare it `datetime`"),
            ("date", "2024-01-01 23:59", "declare it `localdatetime`"),
            ("localtime", "10:00+05:00", "declare it `time`"),
            ("time", "10:00", "declare it `localtime`"),
            (
                "localtime",
                "2024-01-01T10:00",
                "declare it `localdatetime`",
            ),
            (
                "localdatetime",
                "2024-01-01T23:59:60",
                "second is out of range",
            ),
            ("localtime", "10:00:00.1234567891", "nine decimals"),
            (
                "datetime",
                "2023-07-05T01:40-08:00[America/Los_Angeles]",
                "is at -07:00 then",
            ),
            ("duration", "1 day", "not a duration"),
            ("duration", "PT0.1234567891S", "nine decimals"),
            (
                "point",
                "{\"x\": 9007199254740993, \"y\": 0}",
                "not a point",
            ),
            (
                "point",
                "{\"crs\": \"wgs-84\", \"x\": 0, \"y\": 91}",
                "not a point",
            ),
            ("point", "{\"x\": 1}", "not a point"),
            (
                "point",
                "{\"longitude\": 181, \"latitude\": 0}",
                "not a point",
            ),
            ("bytes", "AA=", "not bytes"),
            ("int[]", "1;x", "not an integer"),
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
    fn columns_carry_types_and_roles_and_unknown_ones_are_refused() {
        let column = |text| Column::parse(text).expect(text);
        assert_eq!(column("id:int").declared, Declared::parse("int"));
        assert_eq!(column("a:STRING[]?").declared, Declared::parse("string[]?"));
        assert_eq!(column("a:int:Double").name.as_ref(), "a:int");
        for (text, name, role) in [
            ("id:ID(Person)", "id", Role::Key),
            (":ID", ":ID", Role::Key),
            (":START_ID(Person)", ":START_ID(Person)", Role::Start),
            ("id:START_ID", "id:START_ID", Role::Start),
            ("id:END_ID(A)", "id:END_ID(A)", Role::End),
            (":LABEL", ":LABEL", Role::Labels),
            (":TYPE", ":TYPE", Role::Type),
        ] {
            let column = column(text);
            assert_eq!((column.name.as_ref(), column.role), (name, role));
        }
        let ignored = column(":IGNORE").declared.expect("a type");
        assert_eq!(ignored.column_type, ColumnType::Ignore);
        assert_eq!(
            old_types(&[column("at:instant?"), column("b:datetime")]).len(),
            1
        );
        for unknown in ["a:b", "a:itn", "a:int[", "a:ID(x", "a:VECTOR", "10:30"] {
            let reason = Column::parse(unknown).expect_err(unknown);
            assert!(reason.contains("localdatetime"), "{reason}");
            assert!(Column::of_option(unknown).is_err());
        }
        assert!(Column::list("a,b,a").is_err());
    }

    /// Each text alone in a column: its type and its value, as the documentation of imports states them.
    #[test]
    fn inferred_types_and_values() {
        let infer = |text: &str| {
            let mut inference = Inference::default();
            inference.see(text);
            inference.column_type()
        };
        for (text, int) in [
            ("0", 0),
            ("-7", -7),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(infer(text), ColumnType::Int, "{text}");
            assert_eq!(read_inferred(ColumnType::Int, text), Ok(Value::Int(int)));
        }
        for (text, float) in [
            ("0.5", 0.5),
            ("-1.50", -1.5),
            ("-0", -0.0),
            ("1e3", 1e3),
            ("1e+3", 1e3),
            ("2.5E-7", 2.5e-7),
            ("9007199254740992.0", 9_007_199_254_740_992.0),
        ] {
            assert_eq!(infer(text), ColumnType::Float, "{text}");
            assert_eq!(
                read_inferred(ColumnType::Float, text),
                Ok(Value::Float(float))
            );
        }
        // Telephone numbers, postcodes and the like are not numbers.
        for text in [
            "+5",
            "+1.5",
            "+491701234567",
            "+007",
            "-+5",
            "+-5",
            "007",
            "-007",
            "00.5",
            "01.5",
            " 5",
            "5 ",
            ".5",
            "5.",
            "1,5",
            "1_000",
            "0x1F",
            "1e",
            "e5",
            "1e5.5",
            "1.2.3",
            "1-2",
            "NaN",
            "inf",
            "Infinity",
            "1e400",
            "9223372036854775808",
            "0.123456789012345678",
            "t",
            "yes",
            " true",
            "\u{661}",
            "\u{bd}",
        ] {
            assert_eq!(infer(text), ColumnType::String, "{text}");
            for column_type in [ColumnType::Int, ColumnType::Float, ColumnType::Bool] {
                let read = read_inferred(column_type, text);
                assert!(read.is_err(), "{column_type:?} {text}");
            }
        }
    }

    /// An inferred type accepts the texts from which it was inferred, and no other texts that the declared type
    /// accepts.
    #[test]
    fn an_inferred_type_is_read_by_the_test_that_found_it() {
        let texts = [
            "0",
            "-7",
            "007",
            "+5",
            " 5",
            "5 ",
            "-0",
            "01234",
            "-007",
            "9007199254740993",
            "12345678901234567",
            "0.5",
            "01.5",
            "+1.5",
            ".5",
            "5.",
            "1e3",
            "1e400",
            "00e1",
            "NaN",
            "inf",
            "Infinity",
            "true",
            "True",
            "t",
            "yes",
            "no",
            " true",
            "1.0",
            "9007199254740992",
            "9223372036854775807",
            "9223372036854775808",
            "1_000",
            "1,5",
            "x",
            "0x1F",
            "-",
            "e5",
            "1e",
            "0.30000000000000004",
            "1234567890.12345678",
        ];
        let infer = |texts: &[&str]| {
            let mut inference = Inference::default();
            texts.iter().for_each(|text| inference.see(text));
            inference.column_type()
        };
        for (first, column_type) in [
            (&["1"][..], ColumnType::Int),
            (&["1", "0.5"], ColumnType::Float),
            (&["true"], ColumnType::Bool),
        ] {
            assert_eq!(infer(first), column_type);
            for text in texts {
                let with = infer(&[first, &[text]].concat());
                let read = read_inferred(column_type, text);
                assert_eq!(read.is_ok(), with == column_type, "{column_type:?} {text}");
            }
        }
        // A number that a double does not represent makes a column of strings.
        for large in [
            "9007199254740993",
            "12345678901234567",
            "9007199254740993.0",
        ] {
            assert_eq!(infer(&["0.5", large]), ColumnType::String, "{large}");
        }
        assert_eq!(infer(&["0.5", "9007199254740992"]), ColumnType::Float);
    }

    /// Every type of date or time accepts what the language's function of that type accepts, and gives the same value;
    /// texts that the function would complete from the clock's zone are refused.
    #[test]
    fn dates_and_times_are_those_of_the_language() {
        let days = [
            "2024-02-29",
            "20240229",
            "2023-02-29",
            "2024-W09-4",
            "2024-060",
            "2024",
            "2024-02",
            "-0044-03-15",
            "29.02.2024",
        ];
        let clocks = [
            "",
            "T10:00",
            " 10:00:30",
            "T103000",
            "T10",
            "T24:00",
            "T23:59:60",
            "T10:00:00.123456789",
            "T10:00,5",
            "  10:00",
        ];
        let zones = [
            "",
            "Z",
            "z",
            "+02",
            "+02:00",
            "-0530",
            "+02:00[Europe/Rome]",
            "+01:00[Europe/Rome]",
            "[Europe/Rome]",
            "[X/Y]",
            " CET",
        ];
        let mut texts: Vec<String> = Vec::new();
        for day in days.into_iter().chain([""]) {
            for clock in clocks {
                let clock = if day.is_empty() {
                    clock.trim_start_matches(['T', ' '])
                } else {
                    clock
                };
                texts.extend(zones.map(|zone| format!("{day}{clock}{zone}")));
            }
        }
        let now = temporal::Now::utc(isomer_db::jiff::Timestamp::UNIX_EPOCH);
        let call = |name: &str, text: &str| {
            let function = temporal::function(name).expect(name);
            function.call(&[text.into()], &now)
        };
        let types = [
            ("date", "date", None),
            ("localtime", "localtime", None),
            ("time", "time", Some("localtime")),
            ("localdatetime", "localdatetime", None),
            ("datetime", "datetime", Some("localdatetime")),
        ];
        let (mut taken, mut refused) = (0, 0);
        for text in &texts {
            // SQL has a space where the language has a `T`.
            let iso = match text.split_once(' ') {
                Some((day, clock))
                    if day.len() > 3 && clock.starts_with(|c: char| c.is_ascii_digit()) =>
                {
                    format!("{day}T{clock}")
                }
                _ => text.clone(),
            };
            for (declared, function, without_zone) in types {
                let completed = without_zone.is_some_and(|local| call(local, &iso).is_ok());
                let expected = call(function, &iso).ok().filter(|_| !completed);
                match (read(declared, text), expected) {
                    (Ok(read), Some(expected)) => {
                        assert_eq!(read, Some(expected), "{declared} {text}");
                        taken += 1;
                    }
                    (Err(_), None) => refused += 1,
                    (read, expected) => {
                        panic!("{declared} `{text}`: {read:?}, the language gives {expected:?}")
                    }
                }
            }
        }
        assert!(taken > 200 && refused > 2_000, "{taken} {refused}");
    }
}
