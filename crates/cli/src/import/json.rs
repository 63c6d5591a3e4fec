//! JSON in three shapes: lines, an array, and one object whose names are keys. One element is in memory at a time.

use std::{io::BufRead, sync::Arc};

use anyhow::{Context, anyhow};
use isomer_db::{Value, json as codec};
use isomer_value::ValueError;

use super::{
    columns::{Column, Declared, article, declared_in, old_types, parse_json},
    excerpt::excerpt,
    record::{MAX_ROW_BYTES, ReadError, Record, RecordReader, RowError},
};

/// Start of an element: its line, and its name in an object.
type Start = (u64, Option<Arc<str>>);

/// Layout of the records in a JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One object after the other.
    Lines,
    /// The elements of one array, or the members of one object: determined by the first character.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    InLines,
    InArray { first: bool },
    InObject { first: bool },
    End,
}

/// Reads records of JSON.
pub struct JsonRecords {
    name: String,
    text: Box<dyn BufRead>,
    shape: Shape,
    state: State,
    types: Vec<Column>,
    /// The field for a value that is not an object; none if such a value is an error.
    value_field: Option<Arc<str>>,
    line: u64,
    element: Vec<u8>,
    codec: codec::JsonReader,
}

impl JsonRecords {
    /// A reader that converts the fields named in `types`.
    pub fn new(
        name: String,
        text: Box<dyn BufRead>,
        shape: Shape,
        types: Vec<Column>,
        value_field: Option<&str>,
    ) -> Self {
        Self {
            name,
            text,
            shape,
            state: State::Start,
            types,
            value_field: value_field.map(Into::into),
            line: 1,
            element: Vec::new(),
            codec: codec::JsonReader::new(),
        }
    }

    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        let buffer = self
            .text
            .fill_buf()
            .with_context(|| format!("{} cannot be read after line {}", self.name, self.line))?;
        Ok(buffer.first().copied())
    }

    fn skip_space(&mut self) -> Result<Option<u8>, ReadError> {
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.line += u64::from(byte == b'\n');
            self.text.consume(1);
        }
        Ok(None)
    }

    fn fatal(&self, what: &str) -> ReadError {
        anyhow!("{}, line {}: {what}", self.name, self.line).into()
    }

    fn bad(&self, line: u64, reason: String) -> ReadError {
        ReadError::Row(RowError {
            line,
            reason,
            text: String::from_utf8_lossy(&self.element).into_owned(),
        })
    }

    /// Copies one JSON value into `element` without parsing it: up to its closing bracket or quote, or up to the
    /// delimiter of a word or a number. Its nesting costs a counter only.
    fn take_element(&mut self) -> Result<(), ReadError> {
        self.element.clear();
        let opened = self.line;
        let (mut depth, mut in_text, mut escaped) = (0u64, false, false);
        loop {
            let buffer = self.text.fill_buf().with_context(|| {
                format!("{} cannot be read after line {}", self.name, self.line)
            })?;
            if buffer.is_empty() {
                if depth > 0 || in_text {
                    return Err(anyhow!("{}: the text ends inside the value that starts in line {opened}: is the file cut off?", self.name).into());
                }
                return Ok(());
            }
            let (mut count, mut complete) = (0, false);
            for &byte in buffer {
                if in_text {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' => escaped = true,
                        b'"' => {
                            in_text = false;
                            complete = depth == 0;
                        }
                        _ => {}
                    }
                } else {
                    match byte {
                        b'"' => in_text = true,
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' if depth > 0 => {
                            depth -= 1;
                            complete = depth == 0;
                        }
                        b'}' | b']' | b',' | b':' if depth == 0 => break,
                        _ if depth == 0 && byte.is_ascii_whitespace() => break,
                        _ => {}
                    }
                }
                self.line += u64::from(byte == b'\n');
                count += 1;
                if complete {
                    break;
                }
            }
            let stopped = complete || count < buffer.len();
            self.element.extend_from_slice(&buffer[..count]);
            self.text.consume(count);
            if stopped {
                return Ok(());
            }
            if self.element.len() > MAX_ROW_BYTES {
                return Err(anyhow!("{}: the value that starts in line {opened} is longer than {} MiB: is a bracket or a quote missing?", self.name, MAX_ROW_BYTES >> 20).into());
            }
        }
    }

    /// Reads one line, with any content.
    fn take_line(&mut self) -> Result<(), ReadError> {
        self.element.clear();
        loop {
            let buffer = self.text.fill_buf().with_context(|| {
                format!("{} cannot be read after line {}", self.name, self.line)
            })?;
            let end = buffer.iter().position(|&byte| byte == b'\n');
            let count = end.unwrap_or(buffer.len());
            self.element.extend_from_slice(&buffer[..count]);
            self.text.consume(count);
            if end.is_some() || count == 0 {
                break;
            }
            if self.element.len() > MAX_ROW_BYTES {
                return Err(anyhow!(
                    "{}: line {} is longer than {} MiB",
                    self.name,
                    self.line,
                    MAX_ROW_BYTES >> 20
                )
                .into());
            }
        }
        while self.element.last().is_some_and(u8::is_ascii_whitespace) {
            self.element.pop();
        }
        Ok(())
    }

    /// Moves to the next element. Returns the line of its start and its name in an object; `None` at the end.
    fn advance(&mut self) -> Result<Option<Start>, ReadError> {
        loop {
            let next = self.skip_space()?;
            match (self.state, next) {
                (State::Start, None) => {
                    self.state = State::End;
                    let what = "is empty: objects were expected (one a line, in an array, or in one object)";
                    return if self.shape == Shape::Lines {
                        Ok(None)
                    } else {
                        Err(anyhow!("{} {what}", self.name).into())
                    };
                }
                (State::Start, Some(byte)) => self.state = self.start(byte)?,
                (State::InLines, None) | (State::End, None) => return Ok(None),
                (State::InLines, Some(_)) => {
                    let line = self.line;
                    self.take_line()?;
                    return Ok(Some((line, None)));
                }
                (State::InArray { .. }, Some(b']')) | (State::InObject { .. }, Some(b'}')) => {
                    self.text.consume(1);
                    self.state = State::End;
                }
                (
                    State::InArray { first: false } | State::InObject { first: false },
                    Some(byte),
                ) if byte != b',' => {
                    return Err(self
                        .fatal("a comma or the closing bracket is expected between the elements"));
                }
                (State::InArray { first }, Some(_)) => {
                    if !first {
                        self.comma()?;
                    }
                    self.state = State::InArray { first: false };
                    let line = self.line;
                    self.take_element()?;
                    if self.element.is_empty() {
                        return Err(self.fatal("an element is missing"));
                    }
                    return Ok(Some((line, None)));
                }
                (State::InObject { first }, Some(_)) => {
                    if !first {
                        self.comma()?;
                    }
                    self.state = State::InObject { first: false };
                    return self.member().map(Some);
                }
                (State::InArray { .. } | State::InObject { .. }, None) => {
                    return Err(self
                        .fatal("the text ends before its closing bracket: is the file cut off?"));
                }
                (State::End, Some(_)) => {
                    return Err(self.fatal("there is data after the end of the JSON value: for one object a line, say --input-format jsonl"));
                }
            }
        }
    }

    fn start(&mut self, byte: u8) -> Result<State, ReadError> {
        match (self.shape, byte) {
            (Shape::Lines, _) => Ok(State::InLines),
            (Shape::Whole, b'[') => {
                self.text.consume(1);
                Ok(State::InArray { first: true })
            }
            (Shape::Whole, b'{') => {
                self.text.consume(1);
                Ok(State::InObject { first: true })
            }
            _ => {
                Err(self
                    .fatal("an array of objects, or one object whose names are keys, was expected"))
            }
        }
    }

    fn comma(&mut self) -> Result<(), ReadError> {
        self.text.consume(1);
        match self.skip_space()? {
            Some(b']' | b'}') | None => Err(self.fatal("an element is missing after the comma")),
            Some(_) => Ok(()),
        }
    }

    fn member(&mut self) -> Result<Start, ReadError> {
        let line = self.line;
        self.take_element()?;
        let name = match parse_json(&self.element) {
            Ok(Value::String(name)) => name,
            _ => return Err(self.fatal("a name in double quotes was expected")),
        };
        if self.skip_space()? != Some(b':') {
            return Err(self.fatal("a colon was expected after the name"));
        }
        self.text.consume(1);
        self.skip_space()?;
        self.take_element()?;
        if self.element.is_empty() {
            return Err(self.fatal("a value was expected after the colon"));
        }
        Ok((line, Some(name)))
    }

    /// A parser's error with its position in the file instead of in the element.
    fn place(&self, start: u64, error: ValueError) -> String {
        match error {
            ValueError::Json {
                line: 1,
                column,
                reason,
            } if self.shape == Shape::Lines => format!("column {column}: {reason}"),
            ValueError::Json { line, reason, .. } if line > 1 => {
                format!("{reason} (in line {})", start + line as u64 - 1)
            }
            ValueError::Json { reason, .. } => reason,
            other => other.to_string(),
        }
    }

    fn record(&mut self, line: u64, member: Option<Arc<str>>) -> Result<Record, ReadError> {
        let value = match self.codec.read_bytes(&self.element) {
            Ok(value) => value,
            Err(error) => return Err(self.bad(line, self.place(line, error))),
        };
        let mut fields: Vec<(Arc<str>, Value)> = match value {
            Value::Map(map) => map
                .iter()
                .map(|(name, value)| (name.clone(), codec::from_exact(value.clone())))
                .collect(),
            value if let (Some(member), None) = (&member, &self.value_field) => {
                return Err(self.bad(
                    line,
                    format!(
                        "`{}` is {}, where an object was expected: if the file is one record, say \
                         --input-format jsonl (one a line) or put it into an array; if its names are keys and their \
                         values plain, say --value-field NAME",
                        excerpt(member),
                        article(&value)
                    ),
                ));
            }
            value if let (Some(_), Some(field)) = (&member, &self.value_field) => {
                vec![(field.clone(), codec::from_exact(value))]
            }
            value => {
                return Err(self.bad(
                    line,
                    format!("an object was expected, not {}", article(&value)),
                ));
            }
        };
        for typed in &self.types {
            let (Some(declared), Some(at)) = (
                typed.declared,
                fields.iter().position(|(name, _)| *name == typed.name),
            ) else {
                continue;
            };
            let value = std::mem::take(&mut fields[at].1);
            match declared.convert(value) {
                Ok(value) => fields[at].1 = value.unwrap_or(Value::Null),
                Err(reason) => {
                    return Err(self.bad(line, format!("field `{}` {reason}", typed.name)));
                }
            }
        }
        fields.retain(|(_, value)| !value.is_null());
        Ok(Record {
            line,
            fields,
            member,
        })
    }
}

impl RecordReader for JsonRecords {
    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        match self.advance()? {
            None => Ok(None),
            Some((line, member)) => self.record(line, member).map(Some),
        }
    }

    fn declared(&self, field: &str) -> Option<Declared> {
        declared_in(&self.types, field)
    }

    fn last_text(&self) -> String {
        String::from_utf8_lossy(&self.element).into_owned()
    }

    fn remarks(&self) -> Vec<String> {
        old_types(&self.types)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, shape: Shape) -> Vec<Result<Record, String>> {
        let text: &'static [u8] = Box::leak(text.as_bytes().to_vec().into_boxed_slice());
        let types = Column::list("born:date,id:string").expect("types");
        // A buffer of three bytes splits the text at every position in turn.
        let mut reader = JsonRecords::new(
            "t.json".into(),
            Box::new(std::io::BufReader::with_capacity(3, text)),
            shape,
            types,
            Some("value"),
        );
        let mut records = Vec::new();
        loop {
            match reader.next_record() {
                Ok(None) => return records,
                Ok(Some(record)) => records.push(Ok(record)),
                Err(ReadError::Row(row)) => {
                    records.push(Err(format!("{}: {}", row.line, row.reason)))
                }
                Err(ReadError::Fatal(error)) => {
                    records.push(Err(format!("fatal: {error}")));
                    return records;
                }
            }
        }
    }

    fn good(text: &str, shape: Shape) -> Vec<Record> {
        all(text, shape)
            .into_iter()
            .map(|record| record.expect("a good record"))
            .collect()
    }

    #[test]
    fn lines_arrays_and_objects_give_the_same_records() {
        let lines = good(
            "{\"id\": 1, \"a\": {\"b\": [1, \"}\"]}}\r\n\n{\"id\": 2}\n",
            Shape::Lines,
        );
        let array = good(
            " [\n{\"id\": 1, \"a\": {\"b\": [1, \"}\"]}},{\"id\": 2}\n] \n",
            Shape::Whole,
        );
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].fields, array[0].fields);
        assert_eq!(lines[1].fields, array[1].fields);
        assert_eq!((lines[0].line, lines[1].line), (1, 3));
        assert_eq!(lines[0].get("id"), Some(&Value::String("1".into())));
        let object = good(
            "{\"x\": {\"id\": 1}, \"y\\n\": [\"Rock\", \"Pop\"],\n \"z\": 7}",
            Shape::Whole,
        );
        assert_eq!(object[0].member.as_deref(), Some("x"));
        assert_eq!(object[1].member.as_deref(), Some("y\n"));
        assert!(matches!(object[1].get("value"), Some(Value::List(items)) if items.len() == 2));
        assert_eq!(object[2].get("value"), Some(&Value::Int(7)));
        assert_eq!(object[2].line, 2);
    }

    #[test]
    fn empty_containers_hold_no_records() {
        assert!(good("[]", Shape::Whole).is_empty());
        assert!(good(" { } ", Shape::Whole).is_empty());
        assert!(good("\n\n", Shape::Lines).is_empty());
    }

    #[test]
    fn a_bad_line_is_reported_and_the_next_is_read() {
        let records = all(
            "{\"id\":1}\n{\"id\":\n[1]\n{\"born\":\"2023-02-30\"}\n{\"born\":\"2024-02-29\"}\n",
            Shape::Lines,
        );
        assert_eq!(records.len(), 5);
        assert!(
            records[1]
                .as_ref()
                .is_err_and(|reason| reason.starts_with("2: ")),
            "{records:?}"
        );
        assert!(
            records[2]
                .as_ref()
                .is_err_and(|reason| reason.contains("an object was expected")),
            "{records:?}"
        );
        assert!(
            records[3]
                .as_ref()
                .is_err_and(|reason| reason.contains("field `born`")),
            "{records:?}"
        );
        assert!(records[4].is_ok());
    }

    #[test]
    fn broken_structure_stops_the_reading_and_names_the_line() {
        for (text, part) in [
            ("", "is empty"),
            ("7", "line 1: an array of objects"),
            ("[{\"a\":1}\n{\"a\":2}]", "line 2: a comma"),
            ("[{\"a\":1},\n]", "line 2: an element is missing"),
            ("[{\"a\":1}", "cut off"),
            ("[{\"a\":\n\n\"", "value that starts in line 1"),
            ("{\"a\" 1}", "a colon was expected"),
            ("{a: 1}", "a name in double quotes"),
            ("{\"a\":{}}\n{\"b\":{}}", "--input-format jsonl"),
        ] {
            let records = all(text, Shape::Whole);
            let last = records.last().expect("something is said");
            assert!(
                last.as_ref()
                    .is_err_and(|reason| reason.starts_with("fatal") && reason.contains(part)),
                "{text}: {last:?}"
            );
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_stack_overflow() {
        let deep = format!("{{\"a\":{}{}}}\n", "[".repeat(100_000), "]".repeat(100_000));
        let records = all(&deep, Shape::Lines);
        assert!(
            records.len() == 1 && records[0].is_err(),
            "{:?}",
            records.len()
        );
        let whole = all(&format!("[{}]", deep.trim()), Shape::Whole);
        assert!(whole.len() == 1 && whole[0].is_err());
    }
}
