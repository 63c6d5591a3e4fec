//! JSON text to values.

use std::sync::Arc;

use crate::{Map, Value, ValueError, limits::MAX_NESTING};

/// The value of a JSON text.
///
/// # Errors
/// `Json` with line, column and cause.
pub fn parse(text: &str) -> Result<Value, ValueError> {
    JsonReader::new().read(text)
}

/// The value of a JSON text in bytes.
///
/// # Errors
/// `Json`, also for bytes that are not UTF-8.
pub fn parse_bytes(bytes: &[u8]) -> Result<Value, ValueError> {
    JsonReader::new().read_bytes(bytes)
}

/// Size of the name cache; a power of two.
const NAME_CACHE: usize = 256;

/// Reads consecutive JSON texts and interns recurring names: one allocation per name, not one per record.
pub struct JsonReader {
    names: Vec<Option<Arc<str>>>,
}

impl Default for JsonReader {
    fn default() -> Self {
        Self::new()
    }
}

impl JsonReader {
    /// A reader with an empty name cache.
    pub fn new() -> Self {
        Self { names: Vec::new() }
    }

    /// The value of a JSON text; surrounding white space is allowed.
    ///
    /// # Errors
    /// Like [`parse`].
    pub fn read(&mut self, text: &str) -> Result<Value, ValueError> {
        let (value, used) = self.read_prefix(text)?;
        let mut parser = Parser {
            text,
            at: used,
            names: self,
        };
        parser.skip_space();
        match parser.peek() {
            None => Ok(value),
            Some(_) => Err(parser.error("unexpected text after the value: one value is expected")),
        }
    }

    /// Like [`JsonReader::read`], for bytes.
    ///
    /// # Errors
    /// Like [`parse_bytes`].
    pub fn read_bytes(&mut self, bytes: &[u8]) -> Result<Value, ValueError> {
        match str::from_utf8(bytes) {
            Ok(text) => self.read(text),
            Err(error) => {
                let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                Err(error_at(
                    valid,
                    valid.len(),
                    "the text is not UTF-8: convert it first".into(),
                ))
            }
        }
    }

    /// The first value of `text`, and its length in bytes.
    ///
    /// # Errors
    /// Like [`parse`].
    pub fn read_prefix(&mut self, text: &str) -> Result<(Value, usize), ValueError> {
        let mut parser = Parser {
            text,
            at: 0,
            names: self,
        };
        parser.skip_space();
        let value = parser.value(MAX_NESTING)?;
        Ok((value, parser.at))
    }

    fn share(&mut self, name: &str) -> Arc<str> {
        if name.len() > 64 {
            return name.into();
        }
        if self.names.is_empty() {
            self.names.resize(NAME_CACHE, None);
        }
        let hash = name.bytes().fold(name.len(), |hash, byte| {
            hash.wrapping_mul(31) ^ usize::from(byte)
        });
        let slot = &mut self.names[(hash ^ hash >> 8) % NAME_CACHE];
        match slot {
            Some(known) if **known == *name => known.clone(),
            _ => slot.insert(name.into()).clone(),
        }
    }
}

struct Parser<'a, 'n> {
    text: &'a str,
    at: usize,
    names: &'n mut JsonReader,
}

impl<'a> Parser<'a, '_> {
    fn value(&mut self, depth_left: usize) -> Result<Value, ValueError> {
        match self.peek() {
            Some(b'"') => Ok(Value::String(self.string()?.as_str().into())),
            Some(b'{') => self.object(depth_left),
            Some(b'[') => self.array(depth_left),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            Some(0xef) if self.text[self.at..].starts_with('\u{feff}') => {
                Err(self.error("a byte order mark is not JSON: remove it"))
            }
            Some(_) => Err(self.unexpected("a value")),
            None => Err(self.error("the text ends where a value is expected")),
        }
    }

    fn object(&mut self, depth_left: usize) -> Result<Value, ValueError> {
        let depth_left = self.deeper(depth_left)?;
        let mut entries: Vec<(Arc<str>, Value)> = Vec::new();
        let mut starts = Vec::new();
        self.open();
        if self.eat(b'}') {
            return Ok(Value::from(Map::new()));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            starts.push(self.at);
            let name = match self.string()? {
                Text::Plain(text) => self.names.share(text),
                Text::Escaped(text) => text.into(),
            };
            self.skip_space();
            if !self.eat(b':') {
                return Err(self.unexpected("`:` after the key"));
            }
            self.skip_space();
            entries.push((name, self.value(depth_left)?));
            self.skip_space();
            if self.eat(b'}') {
                return self.map(entries, &starts);
            }
            if !self.eat(b',') {
                return Err(self.unexpected("`,` or `}`"));
            }
            self.skip_space();
        }
    }

    /// The map of these entries, each with its start offset in the text.
    fn map(
        &self,
        mut entries: Vec<(Arc<str>, Value)>,
        starts: &[usize],
    ) -> Result<Value, ValueError> {
        if !entries.is_sorted_by(|a, b| a.0 < b.0) {
            let mut order: Vec<usize> = (0..entries.len()).collect();
            // Stable: of duplicate keys the later one in the text stays later.
            order.sort_by(|a, b| entries[*a].0.cmp(&entries[*b].0));
            let twice = order
                .windows(2)
                .filter(|pair| entries[pair[0]].0 == entries[pair[1]].0);
            if let Some(later) = twice.map(|pair| pair[1]).min() {
                let reason = format!(
                    "the key `{}` comes twice in one object",
                    shorten(&entries[later].0)
                );
                return Err(self.error_at(starts[later], reason));
            }
            entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        }
        Ok(Value::from(Map::from_sorted(entries)))
    }

    fn array(&mut self, depth_left: usize) -> Result<Value, ValueError> {
        let depth_left = self.deeper(depth_left)?;
        let mut items = Vec::new();
        self.open();
        if self.eat(b']') {
            return Ok(Value::from(items));
        }
        loop {
            items.push(self.value(depth_left)?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Value::from(items));
            }
            if !self.eat(b',') {
                return Err(self.unexpected("`,` or `]`"));
            }
            self.skip_space();
        }
    }

    fn deeper(&self, depth_left: usize) -> Result<usize, ValueError> {
        depth_left.checked_sub(1).ok_or_else(|| {
            self.error(format!(
                "arrays and objects are nested deeper than {MAX_NESTING} levels: flatten them"
            ))
        })
    }

    /// Skips a bracket and following white space.
    fn open(&mut self) {
        self.at += 1;
        self.skip_space();
    }

    fn number(&mut self) -> Result<Value, ValueError> {
        let start = self.at;
        self.eat(b'-');
        let whole = self.digits();
        if whole == 0 {
            return Err(self.unexpected("a digit after `-`"));
        }
        let first = self.at - whole;
        if whole > 1 && self.text.as_bytes()[first] == b'0' {
            return Err(self.error_at(first, "a number must not start with 0".into()));
        }
        let mut is_float = false;
        if self.eat(b'.') {
            is_float = true;
            if self.digits() == 0 {
                return Err(self.unexpected("a digit after the decimal point"));
            }
        }
        if self.eat(b'e') || self.eat(b'E') {
            is_float = true;
            let _sign = self.eat(b'+') || self.eat(b'-');
            if self.digits() == 0 {
                return Err(self.unexpected("a digit in the exponent"));
            }
        }
        let literal = &self.text[start..self.at];
        if is_float {
            literal
                .parse()
                .ok()
                .filter(|float: &f64| float.is_finite())
                .map(Value::Float)
                .ok_or_else(|| {
                    let reason = format!(
                        "{} is too large for a float: write it as a string",
                        shorten(literal)
                    );
                    self.error_at(start, reason)
                })
        } else {
            literal.parse().map(Value::Int).map_err(|_| {
                let reason = format!(
                    "{} does not fit into 64 bits and would lose digits as a float: write it as a string, or with a decimal point",
                    shorten(literal)
                );
                self.error_at(start, reason)
            })
        }
    }

    /// Skips digits and returns their number.
    fn digits(&mut self) -> usize {
        let count = self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        self.at += count;
        count
    }

    fn string(&mut self) -> Result<Text<'a>, ValueError> {
        let start = self.at + 1;
        self.at = start;
        let mut escaped = None::<String>;
        let mut run = start;
        loop {
            self.at += self
                .rest()
                .iter()
                .take_while(|byte| is_plain(**byte))
                .count();
            match self.peek() {
                Some(b'"') => {
                    let last = &self.text[run..self.at];
                    self.at += 1;
                    return Ok(match escaped {
                        None => Text::Plain(last),
                        Some(text) => Text::Escaped(text + last),
                    });
                }
                Some(b'\\') => {
                    let text = escaped.get_or_insert_default();
                    text.push_str(&self.text[run..self.at]);
                    text.push(self.escape()?);
                    run = self.at;
                }
                Some(byte) => {
                    return Err(self.error(format!(
                        "the control character U+{byte:04X} in a string must be written as \\u{byte:04x}"
                    )));
                }
                None => {
                    return Err(
                        self.error_at(start - 1, "the string that starts here does not end".into())
                    );
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, ValueError> {
        let start = self.at;
        self.at += 2;
        Ok(match self.text.as_bytes().get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            _ => {
                let reason = "after `\\` one of \" \\ / b f n r t u is expected";
                return Err(self.error_at(start, reason.into()));
            }
        })
    }

    fn unicode_escape(&mut self, start: usize) -> Result<char, ValueError> {
        let lone = "unpaired surrogate: a character over U+FFFF takes two \\u escapes";
        let first = self.hex(start)?;
        let code = match first {
            0xd800..=0xdbff => {
                let low_start = self.at;
                if !(self.eat(b'\\') && self.eat(b'u')) {
                    return Err(self.error_at(start, lone.into()));
                }
                match self.hex(low_start)? {
                    low @ 0xdc00..=0xdfff => 0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00),
                    _ => return Err(self.error_at(start, lone.into())),
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or_else(|| self.error_at(start, lone.into()))
    }

    fn hex(&mut self, start: usize) -> Result<u32, ValueError> {
        let digits = self
            .rest()
            .first_chunk::<4>()
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let Some(digits) = digits else {
            return Err(self.error_at(start, "`\\u` takes four hexadecimal digits".into()));
        };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or_default();
        let code = digits.iter().fold(0, |code, byte| code * 16 + digit(byte));
        self.at += 4;
        Ok(code)
    }

    fn literal(&mut self, word: &str, value: Value) -> Result<Value, ValueError> {
        let rest = &self.text[self.at..];
        let len = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_alphanumeric())
            .count();
        if &rest[..len] != word {
            return Err(self.unexpected("a value"));
        }
        self.at += len;
        Ok(value)
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at.min(self.text.len())..]
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn skip_space(&mut self) {
        self.at += self
            .rest()
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
            .count();
    }

    #[cold]
    fn unexpected(&self, expected: &str) -> ValueError {
        match self
            .text
            .get(self.at..)
            .and_then(|rest| rest.chars().next())
        {
            Some(found) => self.error(format!(
                "{expected} is expected, not `{}`",
                found.escape_debug()
            )),
            None => self.error(format!("the text ends where {expected} is expected")),
        }
    }

    #[cold]
    fn error(&self, reason: impl Into<String>) -> ValueError {
        self.error_at(self.at, reason.into())
    }

    #[cold]
    fn error_at(&self, at: usize, reason: String) -> ValueError {
        error_at(self.text, at, reason)
    }
}

enum Text<'a> {
    Plain(&'a str),
    Escaped(String),
}

impl Text<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Plain(text) => text,
            Self::Escaped(text) => text,
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

fn error_at(text: &str, at: usize, reason: String) -> ValueError {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    ValueError::Json {
        line: 1 + before.bytes().filter(|byte| *byte == b'\n').count(),
        column: 1 + before[line_start..].chars().count(),
        reason,
    }
}

/// At most 40 characters of user input, for messages.
fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
