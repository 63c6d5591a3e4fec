//! `isomer query`.

use std::{io::Write, path::PathBuf, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use isomer_db::{
    At, CancelHandle, Counters, Database, Limits, Map, Query, QueryOptions as RunOptions,
    QueryResult, jiff,
};

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
    /// A parameter as JSON: `--param id=7 --param name='"Ada"'`. Text that is not JSON is a string, except numbers that
    /// are out of range
    #[arg(long = "param", short, value_name = "NAME=JSON")]
    pub params: Vec<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Mode::Table)]
    pub format: Mode,
    /// Reads the database at this version
    #[arg(long, value_name = "VERSION", conflicts_with = "at_time")]
    pub at_version: Option<u64>,
    /// Reads the database as of this time: 2026-11-21T15:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub at_time: Option<u64>,
    /// Prints the query's time on standard error
    #[arg(long)]
    pub timer: bool,
    /// Timeout
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub time_limit: u64,
    /// Memory limit of the query
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    pub memory_limit: usize,
}

/// Runs the command.
pub fn command(options: &QueryOptions) -> Result<()> {
    let text = match options.text.as_str() {
        "-" => std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?,
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
    // Without a handler Ctrl-C still ends the process: the query is not cancelled first.
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
    let mut output = Output {
        mode: options.format,
        skips_empty: false,
        out: &mut out,
    };
    let printed = match at {
        Some(at) => {
            let result = db
                .begin_at(at)?
                .query(Query::new(&text).params(&params).options(&run))?;
            print_result(&text, result, &mut output)?
        }
        None => print(&db, &text, &params, &run, &mut output)?,
    };
    print_changes(&printed.counters, "", &mut output)?;
    let rows = printed.rows;
    out.flush()?;
    drop(out);
    if options.timer {
        report!("{} in {}", counted(rows, "row"), duration(start.elapsed()));
    }
    Ok(db.close()?)
}

/// A time in milliseconds since 1970.
fn parse_time(text: &str) -> Result<u64, String> {
    let time: jiff::Timestamp = text
        .parse()
        .map_err(|_| format!("invalid time `{text}`: write 2026-11-21T15:00:00Z"))?;
    u64::try_from(time.as_millisecond()).map_err(|_| format!("`{text}` is before 1970"))
}

/// What was printed, and the changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printed {
    pub rows: u64,
    pub counters: Counters,
}

/// Output and its options.
pub struct Output<'w> {
    pub mode: Mode,
    /// Results without columns are omitted, even if their format could represent them.
    pub skips_empty: bool,
    pub out: &'w mut dyn Write,
}

/// Runs a query in an implicit transaction and prints its rows as they arrive.
pub fn print(
    db: &Database,
    text: &str,
    params: &Map,
    run: &RunOptions,
    output: &mut Output<'_>,
) -> Result<Printed> {
    let prepared = db.prepare(text)?;
    if prepared.is_explain() || prepared.is_profile() || !prepared.is_read_only() {
        // Small results, and those that may have to be repeated after a conflict.
        return print_result(text, prepared.query((params, run))?, output);
    }
    let mut stream = db.stream(Query::new(text).params(params).options(run))?;
    let columns = stream.columns().to_vec();
    let mut printer = Printer::new(output.out, output.mode, &columns, TABLE_ROWS)?;
    for row in &mut stream {
        printer.row(row?)?;
    }
    let rows = printer.finish()?;
    let notices = stream.notices();
    notices.iter().for_each(|notice| report!("note: {notice}"));
    Ok(Printed {
        rows,
        counters: Counters::default(),
    })
}

/// Prints the collected result of a query, or its plan.
pub fn print_result(text: &str, result: QueryResult, output: &mut Output<'_>) -> Result<Printed> {
    let printed = Printed {
        rows: result.len() as u64,
        counters: *result.counters(),
    };
    match (result.plan(), result.plan_json(), output.mode) {
        (Some(plan), _, Mode::Table) => {
            // The rows of `EXPLAIN` are the plan itself.
            if !result.is_empty() && !is_explain(text) {
                print_rows(result.columns(), result.rows().to_vec(), output)?;
            }
            writeln!(output.out, "{}", plan.trim_end())?;
        }
        (_, Some(plan), Mode::Json | Mode::Jsonl) => writeln!(output.out, "{plan}")?,
        _ => {
            let notices = result.notices().to_vec();
            let columns = result.columns().to_vec();
            print_rows(&columns, result.into_rows(), output)?;
            notices.iter().for_each(|notice| report!("note: {notice}"));
        }
    }
    Ok(printed)
}

fn is_explain(text: &str) -> bool {
    let first = isomer_cypher::tokenize(text)[0];
    first.span.slice(text).eq_ignore_ascii_case("EXPLAIN")
}

/// Prints the changes and `note`: after the result in formats for people, otherwise on standard error.
pub fn print_changes(counters: &Counters, note: &str, output: &mut Output<'_>) -> Result<()> {
    match (changes(counters), output.mode) {
        (None, _) => {}
        (Some(changes), Mode::Table) => writeln!(output.out, "{changes}{note}")?,
        (Some(changes), _) => report!("{changes}{note}"),
    }
    Ok(())
}

fn print_rows(
    columns: &[std::sync::Arc<str>],
    rows: Vec<isomer_db::Row>,
    output: &mut Output<'_>,
) -> Result<()> {
    if columns.is_empty() && (output.mode == Mode::Table || output.skips_empty) {
        return Ok(());
    }
    let mut printer = Printer::new(output.out, output.mode, columns, TABLE_ROWS)?;
    for row in rows {
        printer.row(row)?;
    }
    printer.finish()?;
    Ok(())
}

/// Whether a text is a number in JSON syntax, of any size.
fn is_number(text: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_whole = is_digits(whole) && (whole == "0" || !whole.starts_with('0'));
    is_whole && is_digits(fraction) && is_digits(exponent)
}

/// Parses `name=json` pairs; text that is not JSON is a string. A number that is out of range is an error.
pub fn parameters(pairs: &[String]) -> Result<Map> {
    let mut map = Map::new();
    for pair in pairs {
        let Some((name, text)) = pair.split_once('=') else {
            bail!(
                "invalid parameter `{pair}`: write --param name=json, for example --param id=7 or --param name='\"Ada\"'"
            );
        };
        let name = name.trim().trim_start_matches('$');
        if name.is_empty() {
            bail!("`{pair}` has no name before the `=`");
        }
        let value = match isomer_db::json::parse(text) {
            Ok(value) => value,
            // A bracket or a quote at the start, or a number out of range, was meant as JSON.
            Err(error)
                if text.trim_start().starts_with(['{', '[', '"']) || is_number(text.trim()) =>
            {
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
        // Texts that look like numbers but are not in JSON syntax.
        for text in [
            "02134",
            "2024-01-01",
            "+5",
            ".5",
            "5.",
            "1e",
            "NaN",
            "-",
            "1.2.3",
        ] {
            let map = parameters(&[format!("a={text}")]).expect(text);
            assert_eq!(map.get("a"), Some(&text.into()));
        }
        let too_large = [
            "a=9223372036854775808",
            "a=-9223372036854775809",
            "a=1e400",
            "a= -1.5E+999 ",
        ];
        for wrong in ["id", "=1", "a={", "a=\"x"].into_iter().chain(too_large) {
            assert!(parameters(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(parameters(&["a=1".into(), "a=2".into()]).is_err());
    }
}
