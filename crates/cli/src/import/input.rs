//! Options that say how a file is read, and the reader they make.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::{
    columns::{Column, TYPE_NAMES},
    delimited::{DelimitedReader, Dialect, TextColumns},
    json::{JsonReader, Shape},
    record::RecordReader,
    source::Source,
};

/// How rows stand in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values (RFC 4180).
    Csv,
    /// Tab-separated values.
    Tsv,
    /// One JSON object a line.
    Jsonl,
    /// An array of objects, or one object whose names are the keys.
    Json,
}

/// How the file is read.
#[derive(Clone, Debug, Args)]
pub struct InputOptions {
    /// The file; `-` for standard input. Gzip and Zstandard are recognised by their first bytes
    pub file: PathBuf,
    /// The file's format; told by its name, or by its first character, unless given
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub input_format: Option<Format>,
    /// Names (and types) of the columns, for a file without a header: `id:int,name,age:int?`
    #[arg(long, value_name = "COLUMNS")]
    pub columns: Option<String>,
    #[arg(long, value_name = "TYPES", help = format!("Types by name, for a file with a header or JSON: `age:int?,born:date`. Types: {TYPE_NAMES}; `[]` after one for a list with `;` between, `?` for optional"))]
    pub types: Option<String>,
    /// The character between fields
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<char>,
    /// Takes double quotes as they stand instead of as quotes
    #[arg(long)]
    pub no_quotes: bool,
    /// Takes lines that start with `#` as rows instead of as comments
    #[arg(long)]
    pub no_comments: bool,
    /// The field for values that are no objects, in a JSON object whose names are the keys
    #[arg(long, value_name = "NAME", default_value = "value")]
    pub value_field: String,
    /// Goes on past so many bad rows; at 0 the first one stops the import and nothing is imported
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_rejects: u64,
    /// Where bad rows go, with line and reason [default: FILE.rejects.jsonl in the current folder]
    #[arg(long, value_name = "FILE")]
    pub rejects: Option<PathBuf>,
    /// Reads and checks everything, changes nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Shows no progress
    #[arg(long, short)]
    pub quiet: bool,
}

impl InputOptions {
    /// Opens the file and makes its reader. `text_columns` are read as texts unless declared otherwise.
    pub fn open(&self, text_columns: TextColumns) -> Result<(Source, Box<dyn RecordReader>)> {
        let mut source = Source::open(&self.file)?;
        let format = match self.input_format {
            Some(format) => format,
            None => self.guess(&mut source)?,
        };
        let types = self
            .types
            .as_deref()
            .map(Column::list)
            .transpose()?
            .unwrap_or_default();
        let text = std::mem::replace(&mut source.text, Box::new(std::io::empty()));
        let reader: Box<dyn RecordReader> = match format {
            Format::Csv | Format::Tsv => {
                let default = if format == Format::Csv { b',' } else { b'\t' };
                let delimiter = match self.delimiter {
                    None => default,
                    Some(character) => match u8::try_from(character) {
                        Ok(byte)
                            if byte.is_ascii()
                                && byte != b'"'
                                && byte != b'\n'
                                && byte != b'\r' =>
                        {
                            byte
                        }
                        _ => bail!(
                            "`{character}` cannot separate fields: give an ASCII character that is no quote and no line end"
                        ),
                    },
                };
                let dialect = Dialect {
                    delimiter,
                    quotes: !self.no_quotes,
                    comments: !self.no_comments,
                    columns: self.columns.as_deref().map(Column::list).transpose()?,
                    types,
                    text_columns,
                };
                Box::new(DelimitedReader::new(source.name.clone(), text, dialect)?)
            }
            Format::Json | Format::Jsonl => {
                if self.columns.is_some() {
                    bail!(
                        "--columns names the columns of CSV and TSV: JSON has names of its own (declare types with --types)"
                    );
                }
                let shape = if format == Format::Json {
                    Shape::Whole
                } else {
                    Shape::Lines
                };
                Box::new(JsonReader::new(
                    source.name.clone(),
                    text,
                    shape,
                    types,
                    &self.value_field,
                ))
            }
        };
        Ok((source, reader))
    }

    /// Where bad rows go: nowhere if none is allowed and no file is named.
    pub fn rejects_path(&self) -> Option<PathBuf> {
        if self.rejects.is_some() || self.max_rejects == 0 {
            return self.rejects.clone();
        }
        let name = self
            .file
            .file_name()
            .filter(|name| *name != "-")
            .map_or("stdin".into(), |name| name.to_string_lossy());
        Some(PathBuf::from(format!("{name}.rejects.jsonl")))
    }

    fn guess(&self, source: &mut Source) -> Result<Format> {
        let extension = Path::new(&source.plain_name)
            .extension()
            .map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("csv") => return Ok(Format::Csv),
            Some("tsv" | "tab") => return Ok(Format::Tsv),
            Some("jsonl" | "ndjson") => return Ok(Format::Jsonl),
            Some("json") => return Ok(Format::Json),
            _ => {}
        }
        let start = source.text.fill_buf()?;
        let first_line = start
            .split(|&byte| byte == b'\n')
            .find(|line| !line.is_empty() && line[0] != b'#')
            .unwrap_or_default();
        match first_line.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{') => Ok(Format::Jsonl),
            Some(b'[') => Ok(Format::Json),
            Some(_) if first_line.contains(&b'\t') => Ok(Format::Tsv),
            Some(_) if first_line.contains(&b',') => Ok(Format::Csv),
            _ => bail!(
                "the format of {} is not told by its name or its first line: say --input-format csv, tsv, jsonl or json",
                source.name
            ),
        }
    }
}
