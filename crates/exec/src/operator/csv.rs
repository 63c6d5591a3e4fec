//! `LOAD CSV`: the rows of a file in the one folder that queries may read from, or at an allowed address.
//!
//! Without a configured folder and without allowed addresses `LOAD CSV` is disabled. A file is named by its path within
//! the folder, or by a `file:///` URL of it. Paths that lead out of the folder (by `..`, an absolute path or a symbolic
//! link) are refused, and so are addresses that are not allowed (`download`). Files that begin as gzip does are
//! decompressed, whatever their names.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
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
    download::{percent_decoded, query_error},
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
    /// What `file()` gives: its path in the folder, from `/` on, or its address.
    path: Value,
    records: Records<Box<dyn BufRead + Send>>,
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
            line: line_slot,
            file: file_slot,
            ..
        } = op_ref.op()
        else {
            return Err(misplaced(op_ref.op()));
        };
        let limit = self.batch.next();
        let (mut rows, mut values, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
        let (mut lines, mut files) = (Vec::new(), Vec::new());
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
            lines.push(Value::Int(
                i64::try_from(file.records.line()).unwrap_or(i64::MAX),
            ));
            files.push(file.path.clone());
        }
        let mut chunk = self.input.gather(&op_ref, &rows);
        for (slot, values) in [(slot, values), (line_slot, lines), (file_slot, files)] {
            set_live(&op_ref, &mut chunk, *slot, Column::Values(values));
        }
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
        let (path, content) = open_source(name, cx)?;
        let content = plain(content).map_err(|error| unreadable(name, error))?;
        let mut opened = Self {
            name: name.clone(),
            path,
            records: Records::new(content, delimiter),
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
            CsvError::Io(error) => unreadable(&self.name, error),
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

fn unreadable(name: &str, error: io::Error) -> ExecError {
    query_error(error).unwrap_or_else(|error| {
        ExecError::raised(
            ErrorClass::ArgumentError,
            "InvalidArgumentValue",
            format!("{name} cannot be read: {error}"),
        )
    })
}

fn is_web_address(name: &str) -> bool {
    name.split_once("://").is_some_and(|(scheme, _)| {
        ["http", "https"]
            .iter()
            .any(|known| scheme.eq_ignore_ascii_case(known))
    })
}

/// Opens a file of the folder, or at an allowed address. Returns what `file()` gives for it, too.
fn open_source(name: &str, cx: &Cx<'_>) -> Result<(Value, Box<dyn Read + Send>)> {
    let host = &cx.run.host;
    let is_remote = is_web_address(name);
    if is_remote && let Some(urls) = &host.csv_urls {
        let download = urls.open(name, cx.run.watch.stop())?;
        return Ok((name.into(), Box::new(download)));
    }
    let Some(folder) = host.csv_folder.as_deref() else {
        let (what, option) = match is_remote {
            true => (
                "no address is allowed that",
                "allow addresses (`--csv-url`)",
            ),
            false => (
                "no folder is configured that",
                "set the folder where the database is opened (`--csv-folder`)",
            ),
        };
        return Err(ExecError::Denied(format!(
            "LOAD CSV is disabled: {what} queries may read files from; load files with `isomer import`, or {option}"
        )));
    };
    let (relative, path) = resolve(folder, name)?;
    let file = File::open(path).map_err(|error| unreadable(name, error))?;
    Ok((format!("/{relative}").into(), Box::new(file)))
}

/// The text of a file: decompressed if it begins as gzip does, which no UTF-8 text does.
fn plain(mut content: Box<dyn Read + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let mut start = Vec::with_capacity(2);
    content.by_ref().take(2).read_to_end(&mut start)?;
    let is_gzip = start == [0x1f, 0x8b];
    let whole = io::Cursor::new(start).chain(content);
    let stored = BufReader::with_capacity(64 << 10, whole);
    if is_gzip {
        return gunzip(stored);
    }
    Ok(Box::new(stored))
}

#[cfg(feature = "gzip")]
fn gunzip(stored: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let text = flate2::bufread::MultiGzDecoder::new(stored);
    Ok(Box::new(BufReader::with_capacity(64 << 10, text)))
}

#[cfg(not(feature = "gzip"))]
fn gunzip(_stored: impl BufRead + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    Err(io::Error::other(
        "it is compressed with gzip, and this program is built without the feature `gzip`: decompress it",
    ))
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

/// The file that a query names, if it is in the folder: its path there with `/` between names, and its full path.
fn resolve(folder: &Path, source: &str) -> Result<(String, PathBuf)> {
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
            let path = percent_decoded(path).map(String::from_utf8);
            match path {
                Some(Ok(path)) => path,
                _ => return denied("its URL has an invalid `%` escape"),
            }
        }
        Some(_) if is_web_address(source) => return denied("no address is allowed (`--csv-url`)"),
        Some(_) => return denied("it is neither a `file:` nor an `http:` or `https:` URL"),
    };
    let mut names = Vec::new();
    for part in Path::new(&relative).components() {
        match part {
            Component::Normal(name) => names.push(name.to_string_lossy()),
            Component::CurDir => {}
            _ => return denied("it leads out of the folder"),
        }
    }
    let within = names.join("/");
    let root = std::fs::canonicalize(folder).map_err(|error| {
        ExecError::Denied(format!(
            "the folder that LOAD CSV may read from does not exist: {error}"
        ))
    })?;
    let path =
        std::fs::canonicalize(root.join(&relative)).map_err(|error| unreadable(source, error))?;
    if !path.starts_with(&root) {
        return denied("a symbolic link leads out of the folder");
    }
    let is_file = std::fs::metadata(&path).is_ok_and(|facts| facts.is_file());
    if is_file {
        Ok((within, path))
    } else {
        denied("it is not a regular file")
    }
}
