//! `isomer query`.

use std::{io::Write, path::PathBuf, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use isomer_db::{At, CancelHandle, Database, Limits, Map, QueryOptions as RunOptions, jiff};

use crate::{
    open,
    output::{Mode, Printer, TABLE_ROWS, changes},
    style::{counted, duration},
};

/// Options of `isomer query`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer query people.db 'MATCH (p:Person) RETURN p.name AS name ORDER BY name LIMIT 10'
  isomer query people.db 'MATCH (p:Person {_key: $id}) RETURN p' --param id='\"ada\"' --format json
  isomer query people.db 'EXPLAIN MATCH (p:Person)-[:FRIEND]->(f) RETURN count(f)'
  echo 'RETURN 6 * 7 AS answer' | isomer query :memory: -")]
pub struct QueryOptions {
    /// The database, which must exist; `:memory:` for an empty one in memory
    pub db: PathBuf,
    /// The query; `-` reads it from standard input
    pub text: String,
    /// A parameter as JSON: `--param id=7 --param name='"Ada"'`. What is no JSON is taken as text
    #[arg(long = "param", short, value_name = "NAME=JSON")]
    pub params: Vec<String>,
    /// How the result is printed
    #[arg(long, short, value_enum, default_value_t = Mode::Table)]
    pub format: Mode,
    /// Reads the database as it was at a version
    #[arg(long, value_name = "VERSION", conflicts_with = "at_time")]
    pub at_version: Option<u64>,
    /// Reads the database as it was at a time: 2026-11-21T15:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at_time: Option<u64>,
    /// Says on standard error how long the query took
    #[arg(long)]
    pub timer: bool,
    /// Longest running time
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub time_limit: u64,
    /// Most memory the query may hold
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory_limit: usize,
}

/// Runs the command.
pub fn command(options: &QueryOptions) -> Result<()> {
    let text = match options.text.as_str() {
        "-" => {
            std::io::read_to_string(std::io::stdin()).context("standard input cannot be read")?
        }
        text => text.to_owned(),
    };
    let params = parameters(&options.params)?;
    let db = if options.db.as_os_str() == ":memory:" {
        open::open_in_memory()?
    } else {
        open::open_existing(&options.db)?
    };
    let cancel = CancelHandle::new();
    let on_interrupt = cancel.clone();
    // Without a handler Ctrl-C still ends the process: the query is merely not told.
    let _ = ctrlc::set_handler(move || on_interrupt.cancel());
    let mut limits = Limits::default();
    limits.time = Some(std::time::Duration::from_secs(options.time_limit));
    limits.memory_bytes = options.memory_limit << 20;
    let run = RunOptions::new().cancel(cancel).limits(limits);
    let start = Instant::now();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let at = match (options.at_version, options.at_time) {
        (Some(version), _) => Some(At::Version(version)),
        (None, time) => time.map(At::Time),
    };
    let rows = match at {
        Some(at) => print_at(&db, at, &text, &params, &run, options.format, &mut out)?,
        None => print(&db, &text, &params, &run, options.format, &mut out)?,
    };
    out.flush()?;
    drop(out);
    if options.timer {
        eprintln!("{} in {}", counted(rows, "row"), duration(start.elapsed()));
    }
    Ok(db.close()?)
}

/// A time in milliseconds since 1970.
fn parse_time(text: &str) -> Result<u64, String> {
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("`{text}` is no time: write 2026-11-21T15:00:00Z"))?;
    u64::try_from(time.as_millisecond()).map_err(|_| format!("`{text}` is before 1970"))
}

/// Runs a query on the database as it was.
fn print_at(
    db: &Database,
    at: At,
    text: &str,
    params: &Map,
    run: &RunOptions,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<u64> {
    let mut tx = db.begin_at(at)?;
    let result = tx.query_with(text, params, run)?;
    let rows = result.len() as u64;
    let columns = result.columns().to_vec();
    print_rows(&columns, result.into_rows(), mode, out)?;
    Ok(rows)
}

/// Runs a query in a transaction of its own and prints its rows as they come. Returns their number.
pub fn print(
    db: &Database,
    text: &str,
    params: &Map,
    run: &RunOptions,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<u64> {
    let prepared = db.prepare(text)?;
    if prepared.is_explain() || prepared.is_profile() || !prepared.is_read_only() {
        // Small answers, and those that a lost race may have to make again.
        let result = prepared.query_with(params, run)?;
        if let Some(plan) = result.plan()
            && mode == Mode::Table
        {
            if !result.is_empty() && !prepared.is_explain() {
                print_rows(result.columns(), result.rows().to_vec(), mode, out)?;
            }
            writeln!(out, "{}", plan.trim_end())?;
            return Ok(result.len() as u64);
        }
        if let Some(plan) = result.plan_json()
            && matches!(mode, Mode::Json | Mode::Jsonl)
        {
            writeln!(out, "{plan}")?;
            return Ok(result.len() as u64);
        }
        let rows = result.len() as u64;
        let (counters, notices) = (*result.counters(), result.notices().to_vec());
        let columns = result.columns().to_vec();
        print_rows(&columns, result.into_rows(), mode, out)?;
        notices
            .iter()
            .for_each(|notice| eprintln!("note: {notice}"));
        if let Some(changes) = changes(&counters) {
            match mode {
                Mode::Table => writeln!(out, "{changes}")?,
                _ => eprintln!("{changes}"),
            }
        }
        return Ok(rows);
    }
    let stream = db.stream_with(text, params, run)?;
    let columns = stream.columns().to_vec();
    let notices = stream.notices();
    let mut printer = Printer::new(out, mode, &columns, TABLE_ROWS)?;
    for row in stream {
        printer.row(row?)?;
    }
    let rows = printer.finish()?;
    notices
        .iter()
        .for_each(|notice| eprintln!("note: {notice}"));
    Ok(rows)
}

fn print_rows(
    columns: &[std::sync::Arc<str>],
    rows: Vec<isomer_db::Row>,
    mode: Mode,
    out: &mut dyn Write,
) -> Result<()> {
    if columns.is_empty() && mode == Mode::Table {
        return Ok(());
    }
    let mut printer = Printer::new(out, mode, columns, TABLE_ROWS)?;
    for row in rows {
        printer.row(row)?;
    }
    printer.finish()?;
    Ok(())
}

/// Reads `name=json` pairs; what is no JSON is taken as text.
pub fn parameters(pairs: &[String]) -> Result<Map> {
    let mut map = Map::new();
    for pair in pairs {
        let Some((name, text)) = pair.split_once('=') else {
            bail!(
                "`{pair}` is no parameter: write --param name=json, for example --param id=7 or --param name='\"Ada\"'"
            );
        };
        let name = name.trim().trim_start_matches('$');
        if name.is_empty() {
            bail!("`{pair}` has no name before the `=`");
        }
        let value = match isomer_db::json::parse(text) {
            Ok(value) => value,
            // A bracket, a quote or a digit at the start was meant as JSON.
            Err(error) if text.trim_start().starts_with(['{', '[', '"']) => {
                return Err(error).with_context(|| format!("parameter `{name}`"));
            }
            Err(_) => text.into(),
        };
        if map.insert(name, value).is_some() {
            bail!("parameter `{name}` is given twice");
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_db::Value;

    #[test]
    fn parameters_are_json_or_text() {
        let given = [
            "id=7",
            "$name=\"Ada\"",
            "city=Lucca",
            "list=[1,null]",
            "empty=",
        ]
        .map(String::from);
        let map = parameters(&given).expect("all are right");
        assert_eq!(map.get("id"), Some(&Value::Int(7)));
        assert_eq!(map.get("name"), Some(&"Ada".into()));
        assert_eq!(map.get("city"), Some(&"Lucca".into()));
        assert_eq!(
            map.get("list"),
            Some(&vec![Value::Int(1), Value::Null].into())
        );
        assert_eq!(map.get("empty"), Some(&"".into()));
        for wrong in ["id", "=1", "a={", "a=\"x"] {
            assert!(parameters(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(parameters(&["a=1".into(), "a=2".into()]).is_err());
    }
}
