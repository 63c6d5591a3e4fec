//! CSV and TSV, one row at a time.
//!
//! The dialect of RFC 4180: fields in double quotes may contain delimiters, line ends and doubled quotes. Lines end
//! with LF, CRLF or CR, determined by the first one; empty lines are skipped. Lines that start with `#` are ordinary
//! rows, unless an option names a comment character; in TSV those before the first row are comments, as in the edge
//! lists of SNAP.

use std::{borrow::Cow, collections::VecDeque, io::BufRead, sync::Arc};

use anyhow::{Context, anyhow, bail};
use isomer_db::Value;

use super::{
    column_type::ColumnType,
    columns::{
        Column, Declared, Inference, Role, check_distinct, declared_in, is_value, old_types,
        read_inferred,
    },
    excerpt::excerpt,
    record::{MAX_ROW_BYTES, ReadError, Record, RecordReader, RowError},
};

/// Rows that are read ahead to infer the types of columns.
const SAMPLE_ROWS: usize = 1_000;

/// How rows are split into fields, and the known columns.
#[derive(Clone, Debug)]
pub struct Dialect {
    /// Between fields.
    pub delimiter: u8,
    /// Whether double quotes quote.
    pub quotes: bool,
    /// Whether the delimiter was given by an option.
    pub delimiter_given: bool,
    /// Which lines are comments.
    pub comments: Comments,
    /// Whether the header's cells are names without types or roles.
    pub plain_header: bool,
    /// Names and types; from the first line if absent.
    pub columns: Option<Vec<Column>>,
    /// Types by name, taking precedence over those in the header.
    pub types: Vec<Column>,
    /// Columns that are strings unless declared otherwise: the keys.
    pub text_columns: TextColumns,
}

/// Which lines are comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comments {
    /// None.
    No,
    /// Lines before the first row that start with `#`.
    Leading,
    /// All that start with this character.
    All(char),
}

/// The line ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineEnd {
    /// Not detected yet.
    Unknown,
    /// LF, also after CR.
    Feed,
    /// `\r` alone, as in classic Mac OS.
    Return,
}

/// Which columns are keys.
#[derive(Clone, Debug, Default)]
pub struct TextColumns {
    /// Those with these names.
    pub names: Vec<String>,
    /// The first columns, this many.
    pub first: usize,
}

/// One field of a row; `quoted` distinguishes an empty string from a missing value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Field {
    text: String,
    quoted: bool,
}

/// How a column's texts become values.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Declared(Declared),
    Inferred(ColumnType),
}

/// Reads rows of delimited text.
pub struct DelimitedReader {
    name: String,
    text: Box<dyn BufRead>,
    dialect: Dialect,
    columns: Vec<Column>,
    readings: Vec<Reading>,
    /// Rows read ahead while types were inferred.
    ahead: VecDeque<Result<Row, RowError>>,
    sampled: bool,
    line_end: LineEnd,
    /// Whether a row was read.
    begun: bool,
    line: u64,
    raw: Vec<u8>,
    last: String,
    comment_lines: u64,
}

struct Row {
    line: u64,
    fields: Vec<Field>,
    text: String,
}

impl DelimitedReader {
    /// Reads the header unless the dialect names the columns.
    pub fn new(name: String, text: Box<dyn BufRead>, dialect: Dialect) -> anyhow::Result<Self> {
        let mut reader = Self {
            name,
            text,
            columns: Vec::new(),
            readings: Vec::new(),
            ahead: VecDeque::new(),
            sampled: false,
            line_end: LineEnd::Unknown,
            begun: false,
            line: 0,
            raw: Vec::new(),
            last: String::new(),
            comment_lines: 0,
            dialect,
        };
        reader.columns = match reader.dialect.columns.take() {
            Some(columns) => columns,
            None => reader.header()?,
        };
        for typed in &reader.dialect.types {
            let Some(column) = reader
                .columns
                .iter_mut()
                .find(|column| column.name == typed.name)
            else {
                let known: Vec<&str> = reader
                    .columns
                    .iter()
                    .map(|column| column.name.as_ref())
                    .collect();
                bail!(
                    "{} has no column `{}`; it has {}",
                    reader.name,
                    typed.name,
                    known.join(", ")
                );
            };
            column.declared = typed.declared;
            column.role = typed.role;
        }
        reader.check_roles()?;
        Ok(reader)
    }

    fn header(&mut self) -> anyhow::Result<Vec<Column>> {
        match self.next_row() {
            Ok(Some(row)) => {
                let place = || format!("{}, line {}", self.name, row.line);
                let columns = self.header_columns(&row).with_context(place)?;
                check_distinct(&columns).with_context(place)?;
                Ok(columns)
            }
            Ok(None) => bail!(
                "{} is empty: a header was expected in its first line (or name the columns with --columns)",
                self.name
            ),
            Err(ReadError::Row(row)) => bail!("{}, line {}: {}", self.name, row.line, row.reason),
            Err(ReadError::Fatal(error)) => Err(error),
        }
    }

    fn header_columns(&self, row: &Row) -> anyhow::Result<Vec<Column>> {
        if self.dialect.plain_header {
            return Ok(row
                .fields
                .iter()
                .map(|field| Column::named(&field.text))
                .collect());
        }
        // Also within quotes: some programs quote every cell.
        let is_data = |field: &&Field| is_value(&field.text);
        if let Some(field) = row.fields.iter().find(is_data) {
            bail!(
                "the first line should name the columns, and `{}` in it is a value: if it is a row, name \
                 the columns with --columns (for example --columns {}); if it is the header, say --plain-header",
                excerpt(&field.text),
                example_columns(row.fields.len())
            );
        }
        if let [only] = row.fields.as_slice()
            && !self.dialect.delimiter_given
            && let Some(other) = [',', ';', '\t', '|']
                .into_iter()
                .find(|one| only.text.contains(*one))
        {
            bail!(
                "the header is one column, `{}`: say --delimiter '{}' if that separates the columns, or \
                 --delimiter '{}' if it does not",
                excerpt(&only.text),
                other.escape_default(),
                char::from(self.dialect.delimiter).escape_default()
            );
        }
        let columns = row.fields.iter().map(|field| Column::parse(&field.text));
        let mut columns = columns.collect::<Result<Vec<_>, _>>().map_err(|reason| {
            anyhow!("{reason}; or say --plain-header if the colon belongs to the name")
        })?;
        // neo4j-admin has no marker for optional: in its files an empty field is a missing value in any column.
        if columns.iter().any(|column| column.role != Role::Property) {
            let declared = columns
                .iter_mut()
                .filter_map(|column| column.declared.as_mut());
            declared.for_each(|declared| declared.optional = true);
        }
        Ok(columns)
    }

    /// Labels and types are not read from columns.
    fn check_roles(&self) -> anyhow::Result<()> {
        for (role, what, option) in [
            (Role::Labels, "labels", "--label"),
            (Role::Type, "types", "--type"),
        ] {
            if let Some(column) = self
                .columns
                .iter()
                .find(|column| column.role == role && column.declared.is_none())
            {
                bail!(
                    "{}: column `{1}` holds {what}, and an import gives every row the one of {option}: import the \
                     rows of each from a separate file, and leave the column out with --types '{1}:ignore'",
                    self.name,
                    column.name
                );
            }
        }
        Ok(())
    }

    /// The next row's fields; comments and empty lines are skipped.
    fn next_row(&mut self) -> Result<Option<Row>, ReadError> {
        loop {
            self.raw.clear();
            if !self.read_line()? {
                return Ok(None);
            }
            let line = self.line;
            if self.is_comment() {
                self.comment_lines += 1;
                continue;
            }
            let content = trim_end(&self.raw);
            if content.is_empty() {
                continue;
            }
            self.begun = true;
            let fields = if self.dialect.quotes && content.contains(&b'"') {
                self.quoted_row(line)?
            } else {
                if let Some(reason) = self.stray_line_end(content) {
                    return Err(self.bad(line, reason));
                }
                let text = self.utf8(line)?;
                let delimiter = char::from(self.dialect.delimiter);
                text.split(delimiter)
                    .map(|field| Field {
                        text: field.to_owned(),
                        quoted: false,
                    })
                    .collect()
            };
            let text = String::from_utf8_lossy(trim_end(&self.raw)).into_owned();
            return Ok(Some(Row { line, fields, text }));
        }
    }

    /// Appends the next line to `raw`; false at the end of the text.
    fn read_line(&mut self) -> Result<bool, ReadError> {
        let mut total = 0;
        loop {
            let buffer = self.text.fill_buf().with_context(|| {
                format!("{} cannot be read after line {}", self.name, self.line)
            })?;
            if buffer.is_empty() {
                break;
            }
            let end = buffer
                .iter()
                .position(|&byte| match self.line_end {
                    LineEnd::Feed => byte == b'\n',
                    LineEnd::Return => byte == b'\r',
                    LineEnd::Unknown => matches!(byte, b'\n' | b'\r'),
                })
                .map(|at| at + 1);
            let count = end.unwrap_or(buffer.len());
            self.raw.extend_from_slice(&buffer[..count]);
            self.text.consume(count);
            total += count;
            let end = match self.line_end {
                LineEnd::Unknown if end.is_some() => self.first_line_end()?,
                _ => end,
            };
            if self.raw.len() > MAX_ROW_BYTES {
                let limit = MAX_ROW_BYTES >> 20;
                return Err(anyhow!("{}: the row that ends after line {} is longer than {limit} MiB: is a line end or a closing quote missing?", self.name, self.line).into());
            }
            if end.is_some() {
                break;
            }
        }
        self.line += u64::from(total > 0);
        Ok(total > 0)
    }

    /// Called at the first line end, or at one within quotes: detects the line ending. Returns whether a line ended.
    fn first_line_end(&mut self) -> Result<Option<usize>, ReadError> {
        let quotes = self.raw.iter().filter(|&&byte| byte == b'"').count();
        let in_quotes = self.dialect.quotes && quotes % 2 == 1;
        if self.raw.ends_with(b"\r") {
            let next = self.text.fill_buf().with_context(|| {
                format!("{} cannot be read after line {}", self.name, self.line)
            })?;
            if next.first() == Some(&b'\n') {
                self.raw.push(b'\n');
                self.text.consume(1);
            }
        }
        if in_quotes {
            return Ok(None);
        }
        self.line_end = match self.raw.last() {
            Some(b'\n') => LineEnd::Feed,
            _ => LineEnd::Return,
        };
        Ok(Some(self.raw.len()))
    }

    /// The error for an unquoted field that contains another line ending than the file's.
    fn stray_line_end(&self, field: &[u8]) -> Option<String> {
        if !self.dialect.quotes || !field.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
            return None;
        }
        let (stray, own) = match self.line_end {
            LineEnd::Return => ("a line feed", "a carriage return alone"),
            _ => ("a carriage return alone", "a line feed"),
        };
        Some(format!(
            "there is {stray} in a field without quotes, and the file's lines end with {own}: quote the \
             field, or give all lines the same end"
        ))
    }

    fn is_comment(&self) -> bool {
        match self.dialect.comments {
            Comments::No => false,
            Comments::Leading => !self.begun && self.raw.starts_with(b"#"),
            Comments::All(sign) => self
                .raw
                .starts_with(sign.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }

    fn utf8(&self, line: u64) -> Result<Cow<'_, str>, ReadError> {
        let content = trim_end(&self.raw);
        match std::str::from_utf8(content) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(error) => Err(self.bad(
                line,
                format!(
                    "byte {} of the row is not UTF-8: convert the file, for example with iconv",
                    error.valid_up_to() + 1
                ),
            )),
        }
    }

    fn bad(&self, line: u64, reason: String) -> ReadError {
        ReadError::Row(RowError {
            line,
            reason,
            text: String::from_utf8_lossy(trim_end(&self.raw)).into_owned(),
        })
    }

    /// Splits a row that contains quotes; reads on while a quote is open.
    fn quoted_row(&mut self, line: u64) -> Result<Vec<Field>, ReadError> {
        let delimiter = self.dialect.delimiter;
        let mut fields = Vec::new();
        let mut field: Vec<u8> = Vec::new();
        let mut at = 0;
        loop {
            // At the start of a field.
            let quoted = self.raw.get(at) == Some(&b'"');
            if quoted {
                let opened = (self.line, at + 1);
                at += 1;
                loop {
                    match self.raw.get(at).copied() {
                        Some(b'"') if self.raw.get(at + 1) == Some(&b'"') => {
                            field.push(b'"');
                            at += 2;
                        }
                        Some(b'"') => {
                            at += 1;
                            break;
                        }
                        Some(byte) => {
                            field.push(byte);
                            at += 1;
                        }
                        None if self.read_line()? => {}
                        None => {
                            let what = format!(
                                "{}, line {}: the quote opened at byte {} is never closed (the text ends in line {})",
                                self.name, opened.0, opened.1, self.line
                            );
                            return Err(anyhow!("{what}: close it, double it if it is part of the text, or say --no-quotes").into());
                        }
                    }
                }
                let rest = trim_end(&self.raw[at.min(self.raw.len())..]);
                if !rest.is_empty() && rest[0] != delimiter {
                    let reason = format!(
                        "field {} continues after its closing quote: double quotes inside a quoted field, or say --no-quotes",
                        fields.len() + 1
                    );
                    return Err(self.bad(line, reason));
                }
            } else {
                let end = trim_end(&self.raw).len().max(at);
                let stop = self.raw[at..end]
                    .iter()
                    .position(|&byte| byte == delimiter)
                    .map_or(end, |found| at + found);
                if let Some(reason) = self.stray_line_end(&self.raw[at..stop]) {
                    return Err(self.bad(line, reason));
                }
                field.extend_from_slice(&self.raw[at..stop]);
                at = stop;
            }
            let text = match String::from_utf8(std::mem::take(&mut field)) {
                Ok(text) => text,
                Err(_) => {
                    return Err(self.bad(
                        line,
                        format!(
                            "field {} is not UTF-8: convert the file, for example with iconv",
                            fields.len() + 1
                        ),
                    ));
                }
            };
            fields.push(Field { text, quoted });
            if self.raw.get(at) == Some(&delimiter) {
                at += 1;
            } else {
                return Ok(fields);
            }
        }
    }

    /// Reads ahead and determines how each column is read.
    fn sample(&mut self) -> Result<(), ReadError> {
        self.sampled = true;
        let key = |at: usize, column: &Column, keys: &TextColumns| {
            at < keys.first
                || matches!(column.role, Role::Key | Role::Start | Role::End)
                || keys.names.iter().any(|name| name == column.name.as_ref())
        };
        let undeclared = |(at, column): (usize, &Column)| {
            column.declared.is_none() && !key(at, column, &self.dialect.text_columns)
        };
        let mut inferences = vec![Inference::default(); self.columns.len()];
        if self.columns.iter().enumerate().any(undeclared) {
            while self.ahead.len() < SAMPLE_ROWS {
                let row = match self.next_row() {
                    Ok(None) => break,
                    Ok(Some(row)) => Ok(row),
                    Err(ReadError::Row(row)) => Err(row),
                    Err(ReadError::Fatal(error)) => return Err(ReadError::Fatal(error)),
                };
                if let Ok(row) = &row {
                    inferences
                        .iter_mut()
                        .zip(&row.fields)
                        .for_each(|(inference, field)| inference.see(&field.text));
                }
                self.ahead.push_back(row);
            }
        }
        self.readings = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| match column.declared {
                Some(declared) => Reading::Declared(declared),
                None if key(at, column, &self.dialect.text_columns) => {
                    Reading::Inferred(ColumnType::String)
                }
                None => Reading::Inferred(inferences[at].column_type()),
            })
            .collect();
        Ok(())
    }

    fn record(&self, row: &Row) -> Result<Record, RowError> {
        let bad = |reason: String| RowError {
            line: row.line,
            reason,
            text: row.text.clone(),
        };
        if row.fields.len() != self.columns.len() {
            return Err(bad(format!(
                "the row has {}, expected {}",
                fields(row.fields.len()),
                self.columns.len()
            )));
        }
        let mut record = Record {
            line: row.line,
            fields: Vec::with_capacity(row.fields.len()),
            member: None,
        };
        for ((field, column), reading) in row.fields.iter().zip(&self.columns).zip(&self.readings) {
            let value = match *reading {
                // A quoted empty field is the empty string, an unquoted one is a missing value.
                Reading::Declared(declared) if field.quoted && field.text.is_empty() && declared.is_text() => Some(Value::String("".into())),
                Reading::Declared(declared) => declared.read(&field.text).map_err(|reason| bad(format!("column `{}` {reason}", column.name)))?,
                Reading::Inferred(column_type)
                    if field.text.is_empty()
                        && !(field.quoted && column_type == ColumnType::String) =>
                {
                    None
                }
                Reading::Inferred(column_type) => {
                    Some(read_inferred(column_type, &field.text).map_err(|reason| {
                        bad(format!(
                            "column `{0}` {reason}; its type was inferred from the first {SAMPLE_ROWS} rows: \
                             say --types '{0}:string' or the like",
                            column.name
                        ))
                    })?)
                }
            };
            if let Some(value) = value {
                record.fields.push((column.name.clone(), value));
            }
        }
        Ok(record)
    }
}

impl RecordReader for DelimitedReader {
    fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        if !self.sampled {
            self.sample()?;
        }
        let row = match self.ahead.pop_front() {
            Some(row) => row.map_err(ReadError::Row)?,
            None => match self.next_row()? {
                Some(row) => row,
                None => return Ok(None),
            },
        };
        let record = self.record(&row).map_err(ReadError::Row);
        self.last = row.text;
        record.map(Some)
    }

    fn last_text(&self) -> String {
        self.last.clone()
    }

    fn declared(&self, field: &str) -> Option<Declared> {
        declared_in(&self.columns, field)
    }

    fn columns(&self) -> Option<Vec<Arc<str>>> {
        Some(
            self.columns
                .iter()
                .map(|column| column.name.clone())
                .collect(),
        )
    }

    fn with_role(&self, role: Role) -> Option<Arc<str>> {
        let column = self.columns.iter().find(|column| column.role == role)?;
        Some(column.name.clone())
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = old_types(&self.columns);
        remarks.extend(old_types(&self.dialect.types));
        match self.comment_lines {
            0 => {}
            1 => remarks.push("1 comment line skipped".into()),
            count => remarks.push(format!("{count} comment lines skipped")),
        }
        remarks
    }
}

fn fields(count: usize) -> String {
    if count == 1 {
        "1 field".into()
    } else {
        format!("{count} fields")
    }
}

/// Names for this number of columns, for a message.
fn example_columns(count: usize) -> String {
    let names = ["source", "target", "c", "d", "e", "f"];
    match count {
        0..=6 => names[..count].join(","),
        _ => format!("{},…", names.join(",")),
    }
}

fn trim_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialect() -> Dialect {
        Dialect {
            delimiter: b',',
            quotes: true,
            delimiter_given: false,
            comments: Comments::All('#'),
            plain_header: false,
            columns: None,
            types: Vec::new(),
            text_columns: TextColumns::default(),
        }
    }

    fn open(text: &'static [u8], dialect: Dialect) -> anyhow::Result<DelimitedReader> {
        DelimitedReader::new("t.csv".into(), Box::new(text), dialect)
    }

    fn all(text: &'static [u8], dialect: Dialect) -> Vec<Result<Vec<(String, Value)>, String>> {
        let mut reader = open(text, dialect).expect("the header is right");
        let mut records = Vec::new();
        loop {
            match reader.next_record() {
                Ok(None) => return records,
                Ok(Some(record)) => records.push(Ok(record
                    .fields
                    .into_iter()
                    .map(|(name, value)| (name.to_string(), value))
                    .collect())),
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

    fn text(text: &str) -> Value {
        Value::String(text.into())
    }

    #[test]
    fn header_types_quotes_crlf_comments_and_blank_lines() {
        let records = all(b"# from somewhere\r\nname,age:int?,note\r\n\r\n\"Ada, \"\"the first\"\"\",36,\"two\r\nlines\"\r\nBob,,\r\n# end\r\n", dialect());
        assert_eq!(
            records,
            [
                Ok(vec![
                    ("name".into(), text("Ada, \"the first\"")),
                    ("age".into(), Value::Int(36)),
                    ("note".into(), text("two\r\nlines"))
                ]),
                Ok(vec![("name".into(), text("Bob"))]),
            ]
        );
    }

    #[test]
    fn columns_are_inferred_and_keys_are_not() {
        let keys = TextColumns {
            names: vec!["id".into()],
            first: 0,
        };
        let records = all(
            b"id,age,score\n1,30,1\n2,,2.5\n",
            Dialect {
                text_columns: keys,
                ..dialect()
            },
        );
        assert_eq!(
            records,
            [
                Ok(vec![
                    ("id".into(), text("1")),
                    ("age".into(), Value::Int(30)),
                    ("score".into(), Value::Float(1.0))
                ]),
                Ok(vec![
                    ("id".into(), text("2")),
                    ("score".into(), Value::Float(2.5))
                ]),
            ]
        );
    }

    #[test]
    fn a_headless_table_takes_its_columns_from_the_option() {
        let columns = Some(Column::list("source:int,target:int").expect("columns"));
        let records = all(
            b"# SNAP\n1\t2\n3\t4",
            Dialect {
                delimiter: b'\t',
                columns,
                ..dialect()
            },
        );
        assert_eq!(records.len(), 2);
        assert_eq!(
            records[1],
            Ok(vec![
                ("source".into(), Value::Int(3)),
                ("target".into(), Value::Int(4))
            ])
        );
    }

    #[test]
    fn bad_rows_are_reported_with_their_line() {
        let records = all(b"a,b\n1,2\n1\n1,2,3\n\"x\"y,2\n\xff,2\n5,6\n", dialect());
        let reasons: Vec<&str> = records
            .iter()
            .filter_map(|record| record.as_ref().err().map(String::as_str))
            .collect();
        assert_eq!(records.len(), 6);
        assert!(
            reasons[0].starts_with("3: the row has 1 field, expected 2"),
            "{reasons:?}"
        );
        assert!(
            reasons[1].starts_with("4: the row has 3 fields"),
            "{reasons:?}"
        );
        assert!(
            reasons[2].starts_with("5: field 1 continues after its closing quote"),
            "{reasons:?}"
        );
        assert!(
            reasons[3].starts_with("6: byte 1 of the row is not UTF-8"),
            "{reasons:?}"
        );
        assert!(records[5].is_ok());
    }

    #[test]
    fn a_quote_that_is_never_closed_stops_the_reading_and_names_its_line() {
        let records = all(b"a,b\n1,2\n3,\"open\n5,6\n7,8\n", dialect());
        let Err(reason) = &records[records.len() - 1] else {
            panic!("{records:?}")
        };
        assert!(
            reason.contains("line 3") && reason.contains("never closed"),
            "{reason}"
        );
        let tolerant = Dialect {
            quotes: false,
            ..dialect()
        };
        assert_eq!(all(b"a,b\n1,2\n3,\"open\n5,6\n", tolerant).len(), 3);
    }

    #[test]
    fn a_value_that_breaks_an_inferred_type_says_what_to_do() {
        let mut table = String::from("n\n");
        (0..SAMPLE_ROWS).for_each(|number| table += &format!("{number}\n"));
        table += "many\n";
        let records = all(Box::leak(table.into_bytes().into_boxed_slice()), dialect());
        let Err(reason) = &records[SAMPLE_ROWS] else {
            panic!("the last row is accepted")
        };
        assert!(reason.contains("--types 'n:string'"), "{reason}");
    }

    #[test]
    fn headers_that_cannot_be_are_refused() {
        let message = |text: &'static [u8]| {
            format!("{:#}", open(text, dialect()).err().expect("it is refused"))
        };
        assert!(message(b"").contains("is empty"));
        assert!(message(b"# only a comment\n").contains("is empty"));
        assert!(message(b"a,b,a\n").contains("column `a` occurs twice"));
    }
}
