//! `isomer export`, and `isomer import DB all`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use isomer_db::{
    Error, Map, Value,
    data::{Access, GraphRead, Transaction},
    json,
};
use isomer_value::{LabelId, TypeId};

use crate::{
    dump, open,
    output::{csv_cell, csv_value},
    style::counted,
};

/// Options of `isomer export`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer export people.db nodes --label Person --output people.jsonl.gz
  isomer export people.db relationships --type FRIEND --format csv
  isomer export people.db all --output everything.jsonl.zst

Everything that is exported can be imported again.")]
pub struct ExportOptions {
    /// The database
    pub db: PathBuf,
    #[command(subcommand)]
    pub what: What,
}

/// What is exported.
#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// The nodes of a label, one row each
    #[command(after_help = "Example:
  isomer export people.db nodes --label Person --format csv --output people.csv")]
    Nodes {
        /// The label
        #[arg(long, value_name = "LABEL")]
        label: String,
        #[command(flatten)]
        target: Target,
    },
    /// The relationships of a type, one row each, with the keys of their ends as `_from` and `_to`
    #[command(after_help = "Example:
  isomer export people.db relationships --type FRIEND --output friends.jsonl")]
    Relationships {
        /// The type
        #[arg(long = "type", value_name = "TYPE")]
        rel_type: String,
        #[command(flatten)]
        target: Target,
    },
    /// The whole database: records, buckets, indexes, constraints
    #[command(after_help = "Example:
  isomer export people.db all --output everything.jsonl.gz
  isomer import copy.db all everything.jsonl.gz")]
    All {
        /// Where it goes; compressed where the name ends in .gz or .zst [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Where rows go, and how.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// Where they go; compressed where the name ends in .gz or .zst [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How rows are written; told by the file's name unless given, JSON lines otherwise
    #[arg(long, short, value_enum)]
    pub format: Option<Format>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values with a header that names the types.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// One JSON array of objects.
    Json,
}

/// Records read at once.
const BATCH: usize = 1_000;

/// Runs the command.
pub fn command(options: &ExportOptions) -> Result<()> {
    let db = open::open_existing(&options.db)?;
    let told = match &options.what {
        What::Nodes { label, target } => {
            let store = db.store()?;
            let Some(id) = store.catalog().label_id(label) else {
                bail!(
                    "no node has ever had the label `{label}`: `isomer stats` lists those there are"
                )
            };
            let transaction = store.begin(Access::Read).map_err(Error::from)?;
            rows(target, &mut |each| nodes(&transaction, id, each))
                .map(|rows| counted(rows, "node"))?
        }
        What::Relationships { rel_type, target } => {
            let store = db.store()?;
            let Some(id) = store.catalog().type_id(rel_type) else {
                bail!(
                    "no relationship has ever had the type `{rel_type}`: `isomer stats` lists those there are"
                )
            };
            let transaction = store.begin(Access::Read).map_err(Error::from)?;
            rows(target, &mut |each| relationships(&transaction, id, each))
                .map(|rows| counted(rows, "relationship"))?
        }
        What::All { output } => {
            let mut out = Output::create(output.as_deref())?;
            let dumped = dump::write(&db, &mut out)?;
            out.finish()?;
            format!(
                "{}, {}, {} and {}",
                counted(dumped.nodes, "node"),
                counted(dumped.relationships, "relationship"),
                counted(dumped.keys, "bucket key"),
                counted(dumped.files, "file")
            )
        }
    };
    eprintln!("exported {told}");
    Ok(db.close()?)
}

/// Reads a dump into a database that must not be there yet: it is made beside its place and moved there when it is whole.
pub fn import_all(path: &Path, file: &Path) -> Result<()> {
    if path.exists() {
        bail!(
            "{} is there already: a whole database is imported into a new one",
            path.display()
        );
    }
    let mut source = crate::import::source::Source::open(file)?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = tempfile::Builder::new()
        .prefix(".isomer-import-")
        .tempdir_in(parent)
        .with_context(|| format!("no folder can be made in {}", parent.display()))?;
    let made = folder.path().join("db");
    let db = open::keyed_builder()?
        .durability(isomer_db::Durability::Buffered)
        .open(&made)?;
    let mut progress = crate::import::progress::Progress::new(&source, false);
    let dumped = dump::read(&db, &mut *source.text, &mut || progress.row())
        .with_context(|| format!("{}: nothing was imported", source.name))?;
    db.sync()?;
    db.close()?;
    drop(db);
    std::fs::rename(&made, path)
        .with_context(|| format!("{} cannot be moved to {}", made.display(), path.display()))?;
    let (_, time) = progress.finish();
    let told = format!(
        "{}, {}, {} and {}",
        counted(dumped.nodes, "node"),
        counted(dumped.relationships, "relationship"),
        counted(dumped.keys, "bucket key"),
        counted(dumped.files, "file")
    );
    crate::style::line(&format!(
        "imported {told} in {}",
        crate::style::duration(time)
    ))?;
    Ok(())
}

type Each<'e> = dyn FnMut(&Map) -> Result<()> + 'e;

/// Writes rows that `scan` gives, each time it is called, in the same order.
fn rows(target: &Target, scan: &mut dyn FnMut(&mut Each<'_>) -> Result<()>) -> Result<u64> {
    let mut out = Output::create(target.output.as_deref())?;
    let format = target
        .format
        .unwrap_or_else(|| guess(target.output.as_deref()));
    let mut number = 0u64;
    match format {
        Format::Csv => {
            let columns = columns(scan)?;
            let header: Vec<String> = columns
                .iter()
                .map(|(name, kind)| csv_cell(&kind.header(name)))
                .collect();
            writeln!(out, "{}", header.join(","))?;
            scan(&mut |row| {
                number += 1;
                let cells: Result<Vec<String>> = columns
                    .iter()
                    .map(|(name, kind)| kind.cell(row.get(name).unwrap_or(&Value::Null)))
                    .collect();
                Ok(writeln!(out, "{}", cells?.join(","))?)
            })?;
        }
        Format::Jsonl | Format::Json => {
            let whole = format == Format::Json;
            if whole {
                out.write_all(b"[")?;
            }
            scan(&mut |row| {
                number += 1;
                let text = json::to_string(&row.clone().into())?;
                match (whole, number) {
                    (false, _) => writeln!(out, "{text}")?,
                    (true, 1) => write!(out, "\n{text}")?,
                    (true, _) => write!(out, ",\n{text}")?,
                }
                Ok(())
            })?;
            if whole {
                out.write_all(b"\n]\n")?;
            }
        }
    }
    out.finish()?;
    Ok(number)
}

fn guess(path: Option<&Path>) -> Format {
    let name = path
        .map(|path| path.display().to_string())
        .unwrap_or_default();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    if name.ends_with(".csv") {
        Format::Csv
    } else if name.ends_with(".json") {
        Format::Json
    } else {
        Format::Jsonl
    }
}

fn nodes(transaction: &Transaction, label: LabelId, each: &mut Each<'_>) -> Result<()> {
    let mut after = None;
    loop {
        let (mut ids, mut contents) = (Vec::new(), Vec::new());
        transaction
            .scan_nodes(Some(label), after, BATCH, &mut ids)
            .map_err(Error::from)?;
        transaction
            .node_contents(&ids, &mut contents)
            .map_err(Error::from)?;
        for content in contents.iter().flatten() {
            each(&content.properties)?;
        }
        after = ids.last().copied();
        if ids.len() < BATCH {
            return Ok(());
        }
    }
}

fn relationships(transaction: &Transaction, rel_type: TypeId, each: &mut Each<'_>) -> Result<()> {
    let Some(key) = transaction.catalog().prop_id("_key") else {
        bail!("no node has a `_key`: export the whole database instead (`isomer export DB all`)")
    };
    let mut after = None;
    loop {
        let (mut found, mut contents) = (Vec::new(), Vec::new());
        transaction
            .scan_relationships(Some(rel_type), after, BATCH, &mut found)
            .map_err(Error::from)?;
        let ids: Vec<_> = found.iter().map(|row| row.id).collect();
        let ends: Vec<_> = found
            .iter()
            .flat_map(|row| [row.source, row.target])
            .collect();
        transaction
            .relationship_contents(&ids, &mut contents)
            .map_err(Error::from)?;
        let mut keys = [Vec::with_capacity(ends.len())];
        transaction
            .node_properties(&ends, &[key], &mut keys)
            .map_err(Error::from)?;
        for (at, content) in contents.iter().enumerate() {
            let Some(content) = content else { continue };
            let mut row = content.properties.clone();
            for (name, end) in [("_from", 2 * at), ("_to", 2 * at + 1)] {
                let key = keys[0][end].clone();
                if key.is_null() {
                    bail!(
                        "node {} has no `_key`, so its relationships cannot be told apart: export the whole database instead (`isomer export DB all`)",
                        ends[end]
                    );
                }
                if row.insert(name, key).is_some() {
                    bail!(
                        "a relationship has a property `{name}`, which is the column of its end: export the whole database instead (`isomer export DB all`)"
                    );
                }
            }
            each(&row)?;
        }
        after = ids.last().copied();
        if found.len() < BATCH {
            return Ok(());
        }
    }
}

/// How a column of CSV is written, so that it is read as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain(&'static str),
    Json,
}

impl Kind {
    fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Bool(_) => Self::Plain("bool"),
            Value::Int(_) => Self::Plain("int"),
            Value::Float(number) if number.is_finite() => Self::Plain("float"),
            Value::String(_) => Self::Plain("string"),
            Value::Date(_) => Self::Plain("date"),
            Value::LocalTime(_) => Self::Plain("time"),
            Value::LocalDateTime(_) => Self::Plain("datetime"),
            Value::ZonedDateTime(_) => Self::Plain("instant"),
            _ => Self::Json,
        })
    }

    fn header(self, name: &str) -> String {
        match self {
            // Keys and ends have the types that their label's keys have.
            Self::Plain("string") if matches!(name, "_key" | "_from" | "_to") => name.to_owned(),
            Self::Plain(kind) => format!("{name}:{kind}?"),
            Self::Json => format!("{name}:json?"),
        }
    }

    fn cell(self, value: &Value) -> Result<String> {
        match (self, value) {
            (_, Value::Null) => Ok(String::new()),
            (Self::Plain(_), value) => csv_value(value),
            (Self::Json, value) => Ok(csv_cell(&json::to_string(value)?)),
        }
    }
}

/// The names and kinds of all columns: `_key`, `_from` and `_to` first, then by name.
fn columns(scan: &mut dyn FnMut(&mut Each<'_>) -> Result<()>) -> Result<Vec<(Arc<str>, Kind)>> {
    let mut kinds: BTreeMap<(bool, Arc<str>), Kind> = BTreeMap::new();
    scan(&mut |row| {
        for (name, value) in row.iter() {
            let Some(kind) = Kind::of(value) else {
                continue;
            };
            let first = matches!(name.as_ref(), "_key" | "_from" | "_to");
            kinds
                .entry((!first, name.clone()))
                .and_modify(|before| {
                    if *before != kind {
                        *before = Kind::Json
                    }
                })
                .or_insert(kind);
        }
        Ok(())
    })?;
    Ok(kinds
        .into_iter()
        .map(|((_, name), kind)| (name, kind))
        .collect())
}

/// A file that appears when it is whole, or standard output.
struct Output {
    out: Encoder,
    place: Option<(PathBuf, PathBuf)>,
}

enum Encoder {
    Plain(Box<dyn Write>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Output {
    fn create(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            return Ok(Self {
                out: Encoder::Plain(Box::new(BufWriter::new(std::io::stdout()))),
                place: None,
            });
        };
        let part = PathBuf::from(format!("{}.part", path.display()));
        let file = BufWriter::with_capacity(
            1 << 18,
            File::create(&part).with_context(|| format!("{} cannot be written", part.display()))?,
        );
        let out = match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Encoder::Gzip(flate2::write::GzEncoder::new(
                file,
                flate2::Compression::default(),
            )),
            Some("zst") => Encoder::Zstd(zstd::stream::write::Encoder::new(file, 0)?),
            _ => Encoder::Plain(Box::new(file)),
        };
        Ok(Self {
            out,
            place: Some((part, path.to_owned())),
        })
    }

    fn finish(mut self) -> Result<()> {
        let out = std::mem::replace(&mut self.out, Encoder::Plain(Box::new(std::io::sink())));
        match out {
            Encoder::Plain(mut out) => out.flush()?,
            Encoder::Gzip(out) => out.finish()?.flush()?,
            Encoder::Zstd(out) => out.finish()?.flush()?,
        }
        if let Some((part, path)) = self.place.take() {
            std::fs::rename(&part, &path).with_context(|| {
                format!("{} cannot be moved to {}", part.display(), path.display())
            })?;
        }
        Ok(())
    }
}

impl Drop for Output {
    /// An export that failed leaves no half file.
    fn drop(&mut self) {
        if let Some((part, _)) = &self.place {
            let _ = std::fs::remove_file(part);
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match &mut self.out {
            Encoder::Plain(out) => out.write(bytes),
            Encoder::Gzip(out) => out.write(bytes),
            Encoder::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match &mut self.out {
            Encoder::Plain(out) => out.flush(),
            Encoder::Gzip(out) => out.flush(),
            Encoder::Zstd(out) => out.flush(),
        }
    }
}
