//! Options for reading a file, and the reader that they select.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::{
    column_type::TYPE_NAMES,
    columns::Column,
    delimited::{Comments, DelimitedReader, Dialect, TextColumns},
    json::{JsonRecords, Shape},
    record::RecordReader,
    source::Source,
};

/// File formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values (RFC 4180).
    Csv,
    /// Tab-separated values.
    Tsv,
    /// One JSON object per line.
    Jsonl,
    /// An array of objects, or one object whose names are the keys.
    Json,
}

/// How the file is read.
#[derive(Clone, Debug, Args)]
pub struct InputOptions {
    /// The file; `-` for standard input. Gzip and Zstandard are recognised by their first bytes
    pub file: PathBuf,
    /// The file's format; by default determined by its name, or by its first character
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub input_format: Option<Format>,
    /// Names (and types) of the columns, for a file without a header: `id:int,name,age:int?`
    #[arg(long, value_name = "COLUMNS")]
    pub columns: Option<String>,
    #[arg(long, value_name = "TYPES", help = format!("Types by name, for a file with a header or JSON: `age:int?,born:date`. Types: {TYPE_NAMES}; `[]` after one for a list with `;` between, `?` for optional"))]
    pub types: Option<String>,
    /// The delimiter
    #[arg(long, value_name = "CHARACTER")]
    pub delimiter: Option<char>,
    /// Treats double quotes as ordinary characters
    #[arg(long)]
    pub no_quotes: bool,
    /// Uses the header's cells unchanged as names, including numbers and the text after a colon
    #[arg(long, conflicts_with = "columns")]
    pub plain_header: bool,
    /// Skips lines that start with this character. By default every line is a row; in TSV, `#` lines before the first
    /// row are skipped
    #[arg(long, value_name = "CHARACTER")]
    pub comment: Option<char>,
    /// The default (an option of earlier versions), except for `#` lines at the head of a TSV file
    #[arg(long, hide = true, conflicts_with = "comment")]
    pub no_comments: bool,
    /// The field for values that are not objects, in a JSON object whose names are the keys
    #[arg(long, value_name = "NAME")]
    pub value_field: Option<String>,
    /// Number of bad rows that are skipped; at 0 the first one stops the import and nothing is imported
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_rejects: u64,
    /// File for bad rows, with line and reason [default: FILE.rejects.jsonl in the current folder]
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
    /// Opens the file and creates its reader. `text_columns` are read as strings unless declared otherwise.
    /// `value_field` is the default field for values that are not objects.
    pub fn open(
        &self,
        text_columns: TextColumns,
        value_field: Option<&str>,
    ) -> Result<(Source, Box<dyn RecordReader>)> {
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
                            "`{character}` cannot separate fields: give an ASCII character other than a quote or line end"
                        ),
                    },
                };
                let dialect = Dialect {
                    delimiter,
                    quotes: !self.no_quotes,
                    delimiter_given: self.delimiter.is_some(),
                    comments: match self.comment {
                        Some(sign) => Comments::All(sign),
                        None if format == Format::Tsv && !self.no_comments => Comments::Leading,
                        None => Comments::No,
                    },
                    plain_header: self.plain_header,
                    columns: self.columns.as_deref().map(Column::list).transpose()?,
                    types,
                    text_columns,
                };
                Box::new(DelimitedReader::new(source.name.clone(), text, dialect)?)
            }
            Format::Json | Format::Jsonl => {
                if self.columns.is_some() {
                    bail!(
                        "--columns names the columns of CSV and TSV: JSON contains its own names (declare types with --types)"
                    );
                }
                let shape = if format == Format::Json {
                    Shape::Whole
                } else {
                    Shape::Lines
                };
                Box::new(JsonRecords::new(
                    source.name.clone(),
                    text,
                    shape,
                    types,
                    self.value_field.as_deref().or(value_field),
                ))
            }
        };
        Ok((source, reader))
    }

    /// The file for bad rows; none if none is allowed and no file is named.
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
                "the format of {} is not clear from its name or its first line: give --input-format csv, tsv, jsonl or json",
                source.name
            ),
        }
    }
}
