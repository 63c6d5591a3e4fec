//! `isomer stats` and the shell's `:schema`.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::Result;
use clap::Args;
use isomer_db::{
    Database, MemoryKind, ProcessMemory, SharingProcess,
    internals::{
        DatabaseInternals as _, LayerResult as _,
        data::{Access, Catalog, ConstraintKind, GraphRead, IndexState, RecordScope, ValueType},
    },
};

use serde_json::json;

use crate::{
    open,
    style::{Style, bytes, count, counted, duration},
};

/// Options of `isomer stats`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer stats people.db
  isomer stats people.db --processes --json")]
pub struct StatsOptions {
    /// The database
    pub db: PathBuf,
    /// Shows only the processes that have the database open
    #[arg(long)]
    pub processes: bool,
    /// Prints one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn command(options: &StatsOptions) -> Result<()> {
    let db = open::open_existing(&options.db)?;
    match (options.json, options.processes) {
        (true, only_processes) => {
            crate::style::line(&as_json(&db, only_processes)?.to_string())?;
        }
        (false, true) => {
            let lines = processes(&db)?;
            match lines.is_empty() {
                true => crate::style::line("this database is not a shared one")?,
                false => {
                    let mut text = String::new();
                    write_lines(&mut text, &lines);
                    crate::style::line(text.trim_end())?;
                }
            }
        }
        (false, false) => crate::style::line(described(&db)?.trim_end())?,
    }
    Ok(db.close()?)
}

/// Everything, as text.
fn described(db: &Database) -> Result<String> {
    let style = Style::stdout();
    let mut text = schema(db, style)?;
    let statistics = db.store()?.engine().statistics()?;
    let capabilities = db.store()?.engine().capabilities();
    let _ = writeln!(text, "{}", style.heading("Storage"));
    let mut lines = vec![
        ("engine".to_owned(), capabilities.name.to_owned()),
        ("keys".to_owned(), count(statistics.key_count)),
        ("size".to_owned(), bytes(statistics.stored_bytes)),
        ("version".to_owned(), count(db.store()?.engine().version())),
        (
            "change-stream entries".to_owned(),
            count(statistics.stream_entries),
        ),
    ];
    let details = statistics
        .details
        .into_iter()
        .filter(|(_, value)| says_something(value));
    lines.extend(details.map(displayed));
    write_lines(&mut text, &lines);
    let processes = processes(db)?;
    if !processes.is_empty() {
        let _ = writeln!(text, "{}", style.heading("Processes"));
        write_lines(&mut text, &processes);
    }
    let views = views(db)?;
    if !views.is_empty() {
        let _ = writeln!(text, "{}", style.heading("Read views"));
        write_lines(&mut text, &views);
    }
    let _ = writeln!(text, "{}", style.heading("Memory"));
    write_lines(&mut text, &memory(db)?);
    Ok(text)
}

/// The processes that have the database open: numbers, and what they are and do.
fn processes(db: &Database) -> Result<Vec<(String, String)>> {
    let line = |process: SharingProcess| {
        let mut parts = vec![process.kind];
        if process.pid == std::process::id() {
            parts.push("this command".to_owned());
        }
        if let Some(age) = process.age {
            parts.push(format!("since {}", duration(age)));
        }
        match process.behind {
            Some(0) => parts.push("up to date".to_owned()),
            Some(behind) => parts.push(format!("{} behind", counted(behind, "record"))),
            None => {}
        }
        if process.maintains {
            parts.push("maintains the tables".to_owned());
        }
        (process.pid.to_string(), parts.join(", "))
    };
    Ok(db.processes()?.into_iter().map(line).collect())
}

/// The statistics as a JSON object.
fn as_json(db: &Database, only_processes: bool) -> Result<serde_json::Value> {
    let process = |process: SharingProcess| {
        json!({
            "pid": process.pid,
            "kind": process.kind,
            "age_s": process.age.map(|age| age.as_secs_f64()),
            "applied": process.applied,
            "behind": process.behind,
            "maintains": process.maintains,
            "own": process.pid == std::process::id(),
        })
    };
    let processes: Vec<_> = db.processes()?.into_iter().map(process).collect();
    if only_processes {
        return Ok(json!({ "processes": processes }));
    }
    let store = db.store()?;
    let statistics = store.engine().statistics()?;
    let capabilities = store.engine().capabilities();
    let details = statistics.details.into_iter().map(|(name, value)| {
        let number = value.parse::<u64>().map(serde_json::Value::from);
        let value = number.unwrap_or_else(|_| value.into());
        (name, value)
    });
    Ok(json!({
        "engine": capabilities.name,
        "shared": capabilities.several_processes,
        "version": store.engine().version(),
        "keys": statistics.key_count,
        "stored_bytes": statistics.stored_bytes,
        "change_stream_entries": statistics.stream_entries,
        "details": details.collect::<serde_json::Map<_, _>>(),
        "processes": processes,
    }))
}

/// Whether a metric of the engine is worth a line: not zero, and not a level without runs.
fn says_something(value: &str) -> bool {
    value != "0" && !value.starts_with("0 ")
}

/// A metric of the engine, for display: sizes in units, no underscores.
fn displayed((name, value): (String, String)) -> (String, String) {
    let number = value.parse().ok();
    match (name.strip_suffix("_bytes"), number) {
        (Some(of), Some(size)) => (of.replace('_', " "), bytes(size)),
        (_, Some(number)) => (name.replace('_', " "), count(number)),
        (_, None) => (name.replace('_', " "), value),
    }
}

/// The read views that have files, or are in memory.
fn views(db: &Database) -> Result<Vec<(String, String)>> {
    let catalog = db.store()?.catalog();
    let mut lines = Vec::new();
    for view in db.views().status() {
        let mut parts = Vec::new();
        if let Some(version) = view.stored_version {
            let size = bytes(view.stored_bytes);
            parts.push(format!("{size} on disk, version {}", count(version)));
        }
        if view.bytes > 0 {
            parts.push(format!("{} in memory", bytes(view.bytes)));
        }
        if !parts.is_empty() {
            lines.push((view.kind.describe(&catalog), parts.join("; ")));
        }
    }
    Ok(lines)
}

/// Memory use by kind; kinds that have used nothing are left out.
fn memory(db: &Database) -> Result<Vec<(String, String)>> {
    let memory = db.memory()?;
    let size = |size: usize| bytes(size as u64);
    let mut lines = vec![("budget".to_owned(), size(memory.total_bytes()))];
    let usages = MemoryKind::ALL.map(|kind| memory.usage(kind));
    for usage in usages.into_iter().filter(|usage| usage.peak_bytes > 0) {
        let most = if usage.ceiling_bytes < memory.total_bytes() {
            format!(", at most {}", size(usage.ceiling_bytes))
        } else {
            String::new()
        };
        lines.push((
            usage.kind.name().to_owned(),
            format!(
                "{} (peak {}{most})",
                size(usage.used_bytes),
                size(usage.peak_bytes)
            ),
        ));
    }
    lines.push(("free".to_owned(), size(memory.free_bytes())));
    if let Some(process) = ProcessMemory::now() {
        lines.push((
            "process".to_owned(),
            format!("{} resident", size(process.resident_bytes)),
        ));
        let parts = process.parts(|kind| memory.usage(kind).used_bytes);
        let lines_of_parts = parts.into_iter().filter(|part| part.bytes > 0);
        lines.extend(lines_of_parts.map(|part| (format!("  {}", part.name), size(part.bytes))));
    }
    Ok(lines)
}

/// Names, counts, indexes, constraints and buckets.
pub fn schema(db: &Database, style: Style) -> Result<String> {
    let store = db.store()?;
    let transaction = store.begin(Access::Read).lift()?;
    let catalog = transaction.catalog();
    let mut text = String::new();
    let counted =
        |result: Result<u64, isomer_db::internals::data::DataError>| result.map(count).lift();
    let mut labels = Vec::new();
    for (id, name) in catalog.labels() {
        labels.push((
            name.to_string(),
            counted(transaction.exact_node_count(Some(id)))?,
        ));
    }
    let mut types = Vec::new();
    for (id, name) in catalog.types() {
        types.push((
            name.to_string(),
            counted(transaction.exact_relationship_count(Some(id)))?,
        ));
    }
    let nodes = counted(transaction.exact_node_count(None))?;
    let relationships = counted(transaction.exact_relationship_count(None))?;
    section(&mut text, style, &format!("Nodes: {nodes}"), &labels);
    section(
        &mut text,
        style,
        &format!("Relationships: {relationships}"),
        &types,
    );
    let props: Vec<String> = catalog
        .props()
        .into_iter()
        .map(|(_, name)| name.to_string())
        .collect();
    if !props.is_empty() {
        let _ = writeln!(text, "{}", style.heading("Properties"));
        let _ = writeln!(text, "{}", wrapped(&props));
    }
    section(&mut text, style, "Indexes", &indexes(&catalog));
    section(&mut text, style, "Constraints", &constraints(&catalog));
    let buckets: Vec<String> = catalog
        .buckets()
        .into_iter()
        .map(|(_, name)| name.to_string())
        .collect();
    if !buckets.is_empty() {
        let _ = writeln!(text, "{}", style.heading("Buckets"));
        let _ = writeln!(text, "{}", wrapped(&buckets));
    }
    Ok(text)
}

fn section(text: &mut String, style: Style, title: &str, lines: &[(String, String)]) {
    if lines.is_empty() && !title.contains(':') {
        return;
    }
    let _ = writeln!(text, "{}", style.heading(title));
    write_lines(text, lines);
}

/// Two columns, the second to the right where it is a number.
fn write_lines(text: &mut String, lines: &[(String, String)]) {
    let left = lines
        .iter()
        .map(|(name, _)| name.chars().count())
        .max()
        .unwrap_or(0);
    let right = lines
        .iter()
        .map(|(_, value)| value.chars().count())
        .max()
        .unwrap_or(0);
    for (name, value) in lines {
        let gap = " ".repeat(left - name.chars().count());
        let number = value.starts_with(|c: char| c.is_ascii_digit())
            && lines
                .iter()
                .all(|(_, value)| value.chars().all(|c| c.is_ascii_digit() || c == ','));
        let pad = if number {
            " ".repeat(right - value.chars().count())
        } else {
            String::new()
        };
        let _ = writeln!(text, "  {name}{gap}  {pad}{value}");
    }
}

/// Names separated by commas, in lines of at most 100 characters.
fn wrapped(names: &[String]) -> String {
    let mut out = String::from(" ");
    let mut width = 1;
    for (at, name) in names.iter().enumerate() {
        let comma = if at + 1 < names.len() { "," } else { "" };
        let length = name.chars().count() + 1 + comma.len();
        if width + length > 100 && width > 1 {
            out.push_str("\n ");
            width = 1;
        }
        let _ = write!(out, " {name}{comma}");
        width += length;
    }
    out
}

fn label_name(catalog: &Catalog, id: isomer_value::LabelId) -> String {
    catalog
        .label_name(id)
        .map_or_else(|| format!("#{id}"), |name| name.to_string())
}

/// The records that an index or constraint is about: `:Label`, `[:TYPE]`.
fn scope(catalog: &Catalog, scope: RecordScope) -> String {
    match scope {
        RecordScope::Label(label) => format!(":{}", label_name(catalog, label)),
        RecordScope::Type(type_id) => {
            let name = catalog.type_name(type_id);
            format!(
                "[:{}]",
                name.unwrap_or_else(|| format!("#{type_id}").into())
            )
        }
    }
}

fn indexes(catalog: &Catalog) -> Vec<(String, String)> {
    let index = |index: &isomer_db::internals::data::IndexDef| {
        let fields: Vec<String> = index.fields.iter().map(ToString::to_string).collect();
        let unique = if index.unique { ", unique" } else { "" };
        let building = if index.state == IndexState::Building {
            ", still being built"
        } else {
            ""
        };
        (
            index.name.to_string(),
            format!(
                "{} ({}){unique}{building}",
                scope(catalog, index.scope),
                fields.join(", ")
            ),
        )
    };
    catalog.indexes().iter().map(index).collect()
}

/// Constraints, in the words of `CREATE CONSTRAINT` where it can declare them.
fn constraints(catalog: &Catalog) -> Vec<(String, String)> {
    let fields = |index| {
        let fields = catalog.index(index).map_or(&[][..], |index| &index.fields);
        let paths = fields.iter().map(|field| field.path.to_string());
        paths.collect::<Vec<_>>().join(", ")
    };
    let constraint = |constraint: &isomer_db::internals::data::Constraint| {
        let what = match &constraint.kind {
            ConstraintKind::Unique { index } => format!("({}) IS UNIQUE", fields(*index)),
            ConstraintKind::Key { index } => format!("({}) IS NODE KEY", fields(*index)),
            ConstraintKind::Required { path } => format!("{path} IS NOT NULL"),
            ConstraintKind::Type { path, types } => {
                format!("{path} IS :: {}", ValueType::declaration(types))
            }
            ConstraintKind::Check { checks } => {
                let paths: Vec<_> = checks.iter().map(|check| check.path.to_string()).collect();
                format!("{} is checked", paths.join(", "))
            }
            ConstraintKind::Closed { names } => format!("only {}", names.join(", ")),
            ConstraintKind::Convergent { path, kind } => {
                format!("{path} IS CONVERGENT {}", kind.name())
            }
        };
        (
            constraint.name.to_string(),
            format!("{} {what}", scope(catalog, constraint.scope)),
        )
    };
    catalog.constraints().iter().map(constraint).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_formatted_for_display() {
        let of = |name: &str, value: &str| displayed((name.to_owned(), value.to_owned()));
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(of("log_bytes", "8192"), pair("log", "8.0 KiB"));
        assert_eq!(of("cache_hits", "7"), pair("cache hits", "7"));
        assert_eq!(of("level_0", "2 runs"), pair("level 0", "2 runs"));
    }

    #[test]
    fn zeros_are_hidden() {
        for hidden in ["0", "0 runs, 0 tables, 0 bytes, 0 entries"] {
            assert!(!says_something(hidden), "{hidden}");
        }
        for shown in ["10", "1 runs, 0 tables", "07:00", "a compaction failed"] {
            assert!(says_something(shown), "{shown}");
        }
    }
}
