//! `LOAD CSV`: the rows of a file in the one folder that queries may read from.
//!
//! Without a configured folder `LOAD CSV` is disabled. A file is named by its path within the folder, or by a
//! `file:///` URL of it. Paths that lead out of the folder (by `..`, an absolute path or a symbolic link) and all other
//! URLs are refused.

use std::{
    fs::File,
    io::BufReader,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use isomer_plan::physical::{Notice, Op};
use isomer_value::{Map, Value};

use super::{
    Argument, Batch, Child, Operate, OperatorRef,
    input::{RowInput, set_live},
    scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    csv::{CsvError, Field, Records},
    error::{ErrorClass, ExecError, Result, shown},
    eval::value,
    value_size::value_bytes,
};

/// Rows of a file.
pub(super) struct LoadCsv {
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    file: Option<OpenFile>,
}

/// A file that is being read.
struct OpenFile {
    name: Arc<str>,
    records: Records<BufReader<File>>,
    headers: Option<Vec<Arc<str>>>,
    surplus: Surplus,
}

/// Rows with more fields than the first line names. Their further fields are ignored, as in Neo4j: files with unquoted
/// commas in their last column are common.
#[derive(Clone, Copy, Default)]
struct Surplus {
    first_line: u64,
    rows: u64,
}

/// Notices about files of one execution; a query may read many files.
const MAX_NOTICES: usize = 10;

impl LoadCsv {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            batch: Batch::default(),
            file: None,
        }
    }

    /// Ends the file that is being read; ignored fields become a notice.
    fn end_file(&mut self, cx: &mut Cx<'_>) {
        let notice = self.file.take().and_then(|file| file.notice());
        let notices = &mut cx.run.report.notices;
        if let Some(notice) = notice
            && notices.len() < MAX_NOTICES
            && !notices.contains(&notice)
        {
            notices.push(notice);
        }
    }
}

impl Operate for LoadCsv {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::LoadCsv {
            url,
            headers,
            field_terminator,
            row: slot,
            ..
        } = op_ref.op()
        else {
            return Err(misplaced(op_ref.op()));
        };
        let limit = self.batch.next();
        let (mut rows, mut values, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
        while values.len() < limit {
            let Some(file) = &mut self.file else {
                if !values.is_empty() && !self.input.has_more() {
                    break;
                }
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                let delimiter = match field_terminator {
                    None => ',',
                    Some(given) => delimiter(&value(given, self.input.row()?, cx)?)?,
                };
                let source = value(url, self.input.row()?, cx)?;
                self.file = Some(OpenFile::open(&source, delimiter, *headers, cx)?);
                continue;
            };
            cx.tick(1)?;
            let Some(record) = file.next()? else {
                self.end_file(cx);
                continue;
            };
            bytes += value_bytes(&record);
            // A file may be larger than the memory, and a single record may: what the batch holds is counted record
            // by record.
            cx.run.watch.allow(bytes)?;
            rows.push(self.input.position());
            values.push(record);
        }
        let mut chunk = self.input.gather(&op_ref, &rows);
        set_live(&op_ref, &mut chunk, *slot, Column::Values(values));
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.file = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.end_file(cx);
    }
}

impl OpenFile {
    fn open(source: &Value, delimiter: char, with_headers: bool, cx: &Cx<'_>) -> Result<Self> {
        let Value::String(name) = source else {
            return Err(ExecError::type_error(format!(
                "LOAD CSV takes the name of a file as a string, not {}",
                shown(source)
            )));
        };
        let folder = cx.run.host.csv_folder.as_deref().ok_or_else(|| {
            ExecError::Denied(
                "LOAD CSV is disabled: no folder is configured that queries may read files from; \
                 load files with `isomer import`, or set the folder where the database is opened (`--csv-folder`)"
                    .into(),
            )
        })?;
        let path = resolve(folder, name)?;
        let file = File::open(path).map_err(|error| unreadable(name, &error))?;
        let mut opened = Self {
            name: name.clone(),
            records: Records::new(BufReader::with_capacity(64 << 10, file), delimiter),
            headers: None,
            surplus: Surplus::default(),
        };
        if with_headers {
            opened.headers = Some(opened.read_headers()?);
        }
        Ok(opened)
    }

    /// The names in the first line.
    fn read_headers(&mut self) -> Result<Vec<Arc<str>>> {
        let fields = self.record()?.unwrap_or_default();
        let mut names: Vec<Arc<str>> = Vec::with_capacity(fields.len());
        for (at, field) in fields.into_iter().enumerate() {
            let Some(name) = field.filter(|name| !name.is_empty()) else {
                return Err(self.wrong(format!("column {} has no name", at + 1)));
            };
            if names.iter().any(|known| **known == *name) {
                return Err(self.wrong(format!("two columns are named `{name}`")));
            }
            names.push(name.into());
        }
        Ok(names)
    }

    fn record(&mut self) -> Result<Option<Vec<Field>>> {
        self.records.next().map_err(|error| match error {
            CsvError::Text { line, what } => malformed(&self.name, line, &what),
            CsvError::Io(error) => unreadable(&self.name, &error),
        })
    }

    /// The next row, as a list, or as a map by the names of the first line.
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(fields) = self.record()? else {
            return Ok(None);
        };
        let text = |field: Field| field.map_or(Value::Null, Value::from);
        let Some(headers) = &self.headers else {
            return Ok(Some(Value::from(
                fields.into_iter().map(text).collect::<Vec<_>>(),
            )));
        };
        if fields.len() > headers.len() {
            if self.surplus.rows == 0 {
                self.surplus.first_line = self.records.line();
            }
            self.surplus.rows += 1;
        }
        let mut fields = fields.into_iter();
        let row: Map = headers
            .iter()
            .map(|name| {
                (
                    name.clone(),
                    fields.next().flatten().map_or(Value::Null, Value::from),
                )
            })
            .collect();
        Ok(Some(Value::from(row)))
    }

    fn notice(&self) -> Option<Notice> {
        let Surplus { first_line, rows } = self.surplus;
        let subject = match rows {
            0 => return None,
            1 => format!("line {first_line} has"),
            rows => format!("{rows} rows, the first in line {first_line}, have"),
        };
        let message = format!(
            "{}: {subject} more fields than the first line names, and they were ignored: quote fields that contain the separator",
            self.name
        );
        Some(Notice::new("SurplusFields", message, None))
    }

    fn wrong(&self, what: String) -> ExecError {
        malformed(&self.name, self.records.line(), &what)
    }
}

fn malformed(name: &str, line: u64, what: &str) -> ExecError {
    ExecError::raised(
        ErrorClass::ArgumentError,
        "InvalidArgumentValue",
        format!("{name}, line {line}: {what}"),
    )
}

fn unreadable(name: &str, error: &std::io::Error) -> ExecError {
    ExecError::raised(
        ErrorClass::ArgumentError,
        "InvalidArgumentValue",
        format!("{name} cannot be read: {error}"),
    )
}

/// The field delimiter.
fn delimiter(given: &Value) -> Result<char> {
    let text = given.as_str().unwrap_or_default();
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(one), None) if !matches!(one, '"' | '\n' | '\r') => Ok(one),
        _ => Err(ExecError::raised(
            ErrorClass::ArgumentError,
            "InvalidArgumentValue",
            format!(
                "FIELDTERMINATOR takes one character, no quote and no line break, not {}",
                shown(given)
            ),
        )),
    }
}

/// The file that a query names, if it is in the folder.
fn resolve(folder: &Path, source: &str) -> Result<PathBuf> {
    let denied = |why: &str| {
        Err(ExecError::Denied(format!(
            "LOAD CSV may not read `{source}`: {why}; name a file in the folder that is configured for it"
        )))
    };
    let relative = match source.split_once("://") {
        None => source.to_owned(),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("file") => {
            let Some(path) = rest.strip_prefix('/') else {
                return denied("it is on another host");
            };
            match percent_decoded(path) {
                Some(path) => path,
                None => return denied("its URL has an invalid `%` escape"),
            }
        }
        Some(_) => return denied("it is not a `file:` URL"),
    };
    let relative = Path::new(&relative);
    let stays = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !stays {
        return denied("it leads out of the folder");
    }
    let root = std::fs::canonicalize(folder).map_err(|error| {
        ExecError::Denied(format!(
            "the folder that LOAD CSV may read from does not exist: {error}"
        ))
    })?;
    let path =
        std::fs::canonicalize(root.join(relative)).map_err(|error| unreadable(source, &error))?;
    if !path.starts_with(&root) {
        return denied("a symbolic link leads out of the folder");
    }
    let is_file = std::fs::metadata(&path).is_ok_and(|facts| facts.is_file());
    if is_file {
        Ok(path)
    } else {
        denied("it is not a regular file")
    }
}

/// Percent-decodes a URL path (`a%20b` is `a b`); none if an escape is invalid or the text is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let digits = std::str::from_utf8(&digits).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}
