//! `isomer export`, and `isomer import DB all`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use isomer_db::{
    Map, Value,
    internals::{
        DatabaseInternals as _, LayerResult as _,
        data::{Access, ConvergentOwner, GraphRead, NodeLabels, RelRow, Transaction},
    },
    json,
};
use isomer_value::{LabelId, PropId, TypeId};

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

All exports can be imported again.")]
pub struct ExportOptions {
    /// The database
    pub db: PathBuf,
    #[command(subcommand)]
    pub what: ExportKind,
}

/// What to export.
#[derive(Clone, Debug, Subcommand)]
pub enum ExportKind {
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
    #[command(after_help = "Examples:
  isomer export people.db relationships --type FRIEND --output friends.jsonl
  isomer export people.db relationships --type LIKES --from Person --to Genre --output genres.csv

An import finds the ends by their keys among the nodes of one label each. So all relationships of an export begin at nodes with a common \
label, and end at such nodes: otherwise export them in parts with --from and --to.")]
    Relationships {
        /// The type
        #[arg(long = "type", value_name = "TYPE")]
        rel_type: String,
        /// Only those that begin at nodes of this label
        #[arg(long, value_name = "LABEL")]
        from: Option<String>,
        /// Only those that end at nodes of this label
        #[arg(long, value_name = "LABEL")]
        to: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// The whole database: records, buckets, indexes, constraints
    #[command(after_help = "Example:
  isomer export people.db all --output everything.jsonl.gz
  isomer import copy.db all everything.jsonl.gz")]
    All {
        /// The target; compressed if the name ends in .gz or .zst [default: standard output]
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

/// Target and format of rows.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// The target; compressed if the name ends in .gz or .zst [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of rows; by default determined by the file's name, otherwise JSON lines
    #[arg(long, short, value_enum)]
    pub format: Option<Format>,
    /// For other programs: dates, times, points and the like as plain texts and objects, no types in CSV headers,
    /// convergent fields as their values. These types are lost in a re-import
    #[arg(long)]
    pub plain: bool,
}

/// Formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values with a header that names the types.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// One JSON array of objects.
    Json,
}

/// Records per read.
const BATCH: usize = 1_000;

/// Runs the command.
pub fn command(options: &ExportOptions) -> Result<()> {
    let db = open::open_existing(&options.db)?;
    let summary = match &options.what {
        ExportKind::Nodes { label, target } => {
            let store = db.store()?;
            let Some(id) = store.catalog().label_id(label) else {
                bail!(
                    "no node has ever had the label `{label}`: `isomer stats` lists those there are"
                )
            };
            let transaction = store.begin(Access::Read).lift()?;
            let mut several_labels = 0;
            let rows = rows(target, &["_key"], &mut |each| {
                several_labels = nodes(&transaction, id, target.plain, each)?;
                Ok(())
            })?;
            let summary = counted(rows, "node");
            match several_labels {
                0 => summary,
                count => format!(
                    "{summary}; {count} of them with further labels, which only `isomer export DB all` keeps"
                ),
            }
        }
        ExportKind::Relationships {
            rel_type,
            from,
            to,
            target,
        } => {
            let store = db.store()?;
            let Some(id) = store.catalog().type_id(rel_type) else {
                bail!(
                    "no relationship has ever had the type `{rel_type}`: `isomer stats` lists those there are"
                )
            };
            let transaction = store.begin(Access::Read).lift()?;
            let label = |name: &Option<String>| match name {
                None => Ok(None),
                Some(name) => match store.catalog().label_id(name) {
                    Some(id) => Ok(Some(id)),
                    None => bail!(
                        "no node has ever had the label `{name}`: `isomer stats` lists those there are"
                    ),
                },
            };
            let selection = Selection {
                transaction: &transaction,
                rel_type: id,
                ends: [label(from)?, label(to)?],
            };
            let found_by = match target.plain {
                true => None,
                false => selection.labels_for_import(rel_type)?,
            };
            let rows = rows(target, &["_from", "_to"], &mut |each| {
                selection.rows(target.plain, each)
            })?;
            let rows = counted(rows, "relationship");
            match found_by {
                None => rows,
                Some([from, to]) => format!(
                    "{rows}; they are imported with --type {} --from {} --to {}",
                    quoted(rel_type),
                    quoted(&from),
                    quoted(&to)
                ),
            }
        }
        ExportKind::All { output } => {
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
    report!("exported {summary}");
    Ok(db.close()?)
}

/// Loads a dump into a database that must not exist yet: it is built under a temporary name and renamed when it is
/// complete.
pub fn import_all(path: &Path, file: &Path, quiet: bool) -> Result<()> {
    if path.exists() {
        bail!(
            "{} already exists: a whole database is imported into a new one",
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
        .with_context(|| format!("cannot create a folder in {}", parent.display()))?;
    let made = folder.path().join("db");
    let db = open::keyed_builder()?
        .durability(isomer_db::Durability::Buffered)
        .open(&made)?;
    let mut progress = crate::import::progress::Progress::new(&source, quiet);
    let dumped = dump::read(&db, &mut *source.text, &mut || progress.row())
        .with_context(|| format!("{}: nothing was imported", source.name))?;
    db.sync()?;
    db.close()?;
    drop(db);
    std::fs::rename(&made, path)
        .with_context(|| format!("cannot move {} to {}", made.display(), path.display()))?;
    let (_, time) = progress.finish();
    let summary = format!(
        "{}, {}, {} and {}",
        counted(dumped.nodes, "node"),
        counted(dumped.relationships, "relationship"),
        counted(dumped.keys, "bucket key"),
        counted(dumped.files, "file")
    );
    crate::style::line(&format!(
        "imported {summary} in {}",
        crate::style::duration(time)
    ))?;
    Ok(())
}

type Each<'e> = dyn FnMut(&Map) -> Result<()> + 'e;

/// Calls its argument with every row, each time in the same order.
type Scan<'s> = dyn FnMut(&mut Each<'_>) -> Result<()> + 's;

/// Writes the rows that `scan` gives; `keys` are the fields that hold keys.
fn rows(target: &Target, keys: &[&str], scan: &mut Scan<'_>) -> Result<u64> {
    let mut out = Output::create(target.output.as_deref())?;
    let format = target
        .format
        .unwrap_or_else(|| guess(target.output.as_deref()));
    let mut number = 0u64;
    match format {
        Format::Csv => {
            let sheet = Sheet::of(scan, keys, target.plain)?;
            writeln!(out, "{}", sheet.header())?;
            scan(&mut |row| {
                number += 1;
                Ok(writeln!(out, "{}", sheet.line(row)?)?)
            })?;
        }
        Format::Jsonl | Format::Json => {
            let whole = format == Format::Json;
            if whole {
                out.write_all(b"[")?;
            }
            scan(&mut |row| {
                number += 1;
                let text = match target.plain {
                    true => json::to_string(&row.clone().into())?,
                    false => json::to_string(&exact_row(row))?,
                };
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

/// The fields of a row in forms that JSON represents exactly.
fn exact_row(row: &Map) -> Value {
    row.iter()
        .map(|(name, value)| (name.clone(), json::to_exact(value)))
        .collect::<Map>()
        .into()
}

/// Fails for a record with a convergent field: a row would contain its value, but not its operations.
fn refuse_convergent(
    transaction: &Transaction,
    owner: ConvergentOwner,
    properties: &Map,
) -> Result<()> {
    if let Some((name, kind)) = transaction.fields().field_among(owner, properties)? {
        bail!(
            "`{name}` is a convergent field ({}), which neither CSV nor JSON holds: export the whole database (`isomer export DB \
             all`), or only its value with --plain",
            kind.name()
        );
    }
    Ok(())
}

/// Passes the nodes of a label on. Returns how many of them have further labels.
fn nodes(
    transaction: &Transaction,
    label: LabelId,
    plain: bool,
    each: &mut Each<'_>,
) -> Result<u64> {
    let mut after = None;
    let mut several_labels = 0;
    loop {
        let (mut ids, mut contents) = (Vec::new(), Vec::new());
        transaction
            .scan_nodes(Some(label), after, BATCH, &mut ids)
            .lift()?;
        transaction.node_contents(&ids, &mut contents).lift()?;
        for (id, content) in ids.iter().zip(&contents) {
            let Some(content) = content else { continue };
            if !plain {
                refuse_convergent(transaction, ConvergentOwner::Node(*id), &content.properties)?;
            }
            several_labels += u64::from(content.labels.len() > 1);
            each(&content.properties)?;
        }
        after = ids.last().copied();
        if ids.len() < BATCH {
            return Ok(several_labels);
        }
    }
}

/// The relationships to export.
struct Selection<'t> {
    transaction: &'t Transaction,
    rel_type: TypeId,
    /// Labels that their starts and ends must have.
    ends: [Option<LabelId>; 2],
}

/// The labels of the starts, or of the ends, of all relationships so far.
#[derive(Default)]
struct EndLabels {
    /// Those that all of them have; `None` before the first one.
    common: Option<Vec<LabelId>>,
    /// Those that any of them has.
    all: BTreeSet<LabelId>,
}

impl EndLabels {
    fn add(&mut self, labels: &[LabelId]) {
        self.all.extend(labels);
        match &mut self.common {
            None => self.common = Some(labels.to_vec()),
            Some(common) => common.retain(|label| labels.contains(label)),
        }
    }
}

/// Receives a batch of relationships, with the labels of their starts and ends in turn.
type EachBatch<'a> = dyn FnMut(&[RelRow], &[&[LabelId]]) -> Result<()> + 'a;

impl Selection<'_> {
    /// Passes the relationships on in batches.
    fn scan(&self, each: &mut EachBatch<'_>) -> Result<()> {
        let mut after = None;
        loop {
            let (mut found, mut labels) = (Vec::new(), NodeLabels::default());
            self.transaction
                .scan_relationships(Some(self.rel_type), after, BATCH, &mut found)
                .lift()?;
            let ends: Vec<_> = found
                .iter()
                .flat_map(|row| [row.source, row.target])
                .collect();
            self.transaction.node_labels(&ends, &mut labels).lift()?;
            let (mut kept, mut labels_of_kept) = (Vec::new(), Vec::new());
            for (at, row) in found.iter().enumerate() {
                let labels = [labels.of(2 * at), labels.of(2 * at + 1)];
                let mut needed = self.ends.iter().zip(labels);
                if needed.all(|(label, has)| label.is_none_or(|label| has.contains(&label))) {
                    kept.push(*row);
                    labels_of_kept.extend(labels);
                }
            }
            each(&kept, &labels_of_kept)?;
            after = found.last().map(|row| row.id);
            if found.len() < BATCH {
                return Ok(());
            }
        }
    }

    /// The labels with which an import finds the starts and ends again; `None` if there are no relationships. Keys are
    /// unique per label: under two labels, the same key would be that of two nodes.
    fn labels_for_import(&self, rel_type: &str) -> Result<Option<[String; 2]>> {
        let mut sides = [EndLabels::default(), EndLabels::default()];
        self.scan(&mut |_, labels| {
            for pair in labels.chunks_exact(2) {
                sides[0].add(pair[0]);
                sides[1].add(pair[1]);
            }
            Ok(())
        })?;
        let catalog = self.transaction.catalog();
        let name = |label: LabelId| {
            let name = catalog.label_name(label);
            name.map_or_else(|| label.to_string(), |name| name.to_string())
        };
        let mut names = Vec::new();
        for ((side, option), wanted) in sides.iter().zip(["--from", "--to"]).zip(self.ends) {
            let Some(common) = &side.common else {
                return Ok(None);
            };
            let Some(label) = wanted.or(common.first().copied()) else {
                let all: Vec<String> = side.all.iter().copied().map(name).collect();
                let verb = if option == "--from" { "begin" } else { "end" };
                bail!(
                    "relationships of the type `{rel_type}` {verb} at nodes that have no common label ({}), and an import finds nodes by \
                     one label: export them in parts with {option} LABEL, or the whole database (`isomer export DB all`)",
                    if all.is_empty() {
                        "no labels at all".to_owned()
                    } else {
                        format!("labels: {}", all.join(", "))
                    }
                );
            };
            names.push(name(label));
        }
        Ok(names.try_into().ok())
    }

    fn rows(&self, plain: bool, each: &mut Each<'_>) -> Result<()> {
        let Some(key) = self.transaction.catalog().prop_id("_key") else {
            bail!(
                "no node has a `_key`: export the whole database instead (`isomer export DB all`)"
            )
        };
        self.scan(&mut |found, _| self.batch(found, key, plain, each))
    }

    fn batch(&self, found: &[RelRow], key: PropId, plain: bool, each: &mut Each<'_>) -> Result<()> {
        let ids: Vec<_> = found.iter().map(|row| row.id).collect();
        let ends: Vec<_> = found
            .iter()
            .flat_map(|row| [row.source, row.target])
            .collect();
        let mut contents = Vec::new();
        self.transaction
            .relationship_contents(&ids, &mut contents)
            .lift()?;
        let mut keys = [Vec::with_capacity(ends.len())];
        self.transaction
            .node_properties(&ends, &[key], &mut keys)
            .lift()?;
        for (at, content) in contents.iter().enumerate() {
            let Some(content) = content else { continue };
            if !plain {
                let owner = ConvergentOwner::Relationship(ids[at]);
                refuse_convergent(self.transaction, owner, &content.properties)?;
            }
            let mut row = content.properties.clone();
            for (name, end) in [("_from", 2 * at), ("_to", 2 * at + 1)] {
                let key = keys[0][end].clone();
                if key.is_null() {
                    bail!(
                        "node {} has no `_key`, so its relationships cannot be identified: export the whole database instead (`isomer export DB all`)",
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
        Ok(())
    }
}

/// A name as an argument in a shell.
pub fn quoted(name: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./".contains(character);
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

/// How a column of CSV is written, so that reading it gives the same values.
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
            Value::Float(_) => Self::Plain("float"),
            Value::String(_) => Self::Plain("string"),
            Value::Date(_) => Self::Plain("date"),
            Value::LocalTime(_) => Self::Plain("localtime"),
            Value::ZonedTime(_) => Self::Plain("time"),
            Value::LocalDateTime(_) => Self::Plain("localdatetime"),
            Value::ZonedDateTime(_) => Self::Plain("datetime"),
            Value::Duration(_) => Self::Plain("duration"),
            Value::Point(_) => Self::Plain("point"),
            _ => Self::Json,
        })
    }

    /// The name of the type.
    fn name(self) -> &'static str {
        match self {
            Self::Plain(name) => name,
            Self::Json => "json",
        }
    }

    fn cell(self, value: &Value) -> Result<String> {
        match (self, value) {
            (_, Value::Null) => Ok(String::new()),
            (Self::Plain(_), value) => csv_value(value),
            (Self::Json, value) => Ok(csv_cell(&json::to_string(&json::to_exact(value))?)),
        }
    }
}

/// Writes rows as lines of CSV.
struct Sheet<'k> {
    /// Names and kinds: the keys first, then by name.
    columns: Vec<(Arc<str>, Kind)>,
    keys: &'k [&'k str],
    /// Without types.
    plain: bool,
    /// Columns without a value are written so that no line is empty: readers skip empty lines.
    padding: usize,
}

impl<'k> Sheet<'k> {
    fn of(scan: &mut Scan<'_>, keys: &'k [&'k str], plain: bool) -> Result<Self> {
        let mut kinds: BTreeMap<(bool, Arc<str>), Kind> = BTreeMap::new();
        let (mut row_count, mut value_count) = (0u64, 0u64);
        scan(&mut |row| {
            row_count += 1;
            for (name, value) in row.iter() {
                let Some(kind) = Kind::of(value) else {
                    continue;
                };
                value_count += 1;
                kinds
                    .entry((!keys.contains(&&**name), name.clone()))
                    .and_modify(|before| {
                        if *before != kind {
                            *before = Kind::Json
                        }
                    })
                    .or_insert(kind);
            }
            Ok(())
        })?;
        let columns: Vec<_> = kinds
            .into_iter()
            .map(|((_, name), kind)| (name, kind))
            .collect();
        let padding = match columns.len() {
            _ if plain => 0,
            0 => 2,
            1 if value_count < row_count => 1,
            _ => 0,
        };
        Ok(Self {
            columns,
            keys,
            plain,
            padding,
        })
    }

    fn header(&self) -> String {
        let cell = |(name, kind): &(Arc<str>, Kind)| {
            // Strings in a column of keys have the type of the label's keys.
            let is_bare = *kind == Kind::Plain("string") && self.keys.contains(&&**name);
            match self.plain || is_bare {
                true => csv_cell(name),
                false => csv_cell(&format!("{name}:{}?", kind.name())),
            }
        };
        let padding = (0..self.padding).map(|_| ":ignore".to_owned());
        let cells: Vec<String> = self.columns.iter().map(cell).chain(padding).collect();
        cells.join(",")
    }

    fn line(&self, row: &Map) -> Result<String> {
        let mut cells = Vec::with_capacity(self.columns.len() + self.padding);
        for (name, kind) in &self.columns {
            let value = row.get(name).unwrap_or(&Value::Null);
            cells.push(match self.plain {
                true => csv_value(value)?,
                false => kind.cell(value)?,
            });
        }
        cells.extend((0..self.padding).map(|_| String::new()));
        Ok(cells.join(","))
    }
}

/// A file that appears when it is complete, or standard output.
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
            File::create(&part).with_context(|| format!("cannot write {}", part.display()))?,
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
            std::fs::rename(&part, &path)
                .with_context(|| format!("cannot move {} to {}", part.display(), path.display()))?;
        }
        Ok(())
    }
}

impl Drop for Output {
    /// An export that failed leaves no partial file.
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
