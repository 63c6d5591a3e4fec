//! The commands of golden scripts that work on buckets.

use std::ops::Bound;

use anyhow::{Context, Result, bail};
use isomer_db::{Value, WriteTransaction, json};

/// Maximum number of pairs that a scan prints.
const MAX_PAIRS: usize = 100;

/// Runs a command in a transaction:
///
/// `put BUCKET/KEY VALUE`, `get BUCKET/KEY`, `delete BUCKET/KEY`, `scan BUCKET/FROM [TO] [reverse]`. A value
/// is JSON, or else literal text.
pub(super) fn run(tx: &WriteTransaction, command: &str) -> Result<isomer_db::Result<String>> {
    let mut words = command.split_whitespace();
    let (word, place) = (
        words.next().context("a command")?,
        words.next().context("a place")?,
    );
    let (bucket, key) = place.split_once('/').context("a place is BUCKET/KEY")?;
    let bucket = tx.bucket(bucket);
    Ok(match word {
        "put" => {
            let text = command
                .splitn(3, ' ')
                .nth(2)
                .context("put BUCKET/KEY VALUE")?;
            let value = json::parse(text).unwrap_or_else(|_| Value::from(text));
            bucket.put(key, value).map(|()| String::new())
        }
        "get" => bucket
            .get(key)
            .map(|value| value.as_ref().map_or("(nothing)".to_owned(), shown)),
        "delete" => bucket.delete(key).map(|()| String::new()),
        "scan" => {
            let rest: Vec<&str> = words.collect();
            let reverse = rest.last() == Some(&"reverse");
            let end = rest
                .first()
                .filter(|end| **end != "reverse")
                .map(|end| end.as_bytes());
            let end = end.map_or(Bound::Unbounded, Bound::Excluded);
            let pairs = bucket.range((Bound::Included(key.as_bytes()), end));
            let line = |pair: isomer_db::Result<(Vec<u8>, Value)>| {
                let (key, value) = pair?;
                Ok(format!(
                    "{} {}",
                    String::from_utf8_lossy(&key),
                    shown(&value)
                ))
            };
            let lines: isomer_db::Result<Vec<String>> = match reverse {
                true => pairs.limit(MAX_PAIRS).rev().map(line).collect(),
                false => pairs.limit(MAX_PAIRS).map(line).collect(),
            };
            lines.map(|lines| {
                lines.join(
                    "
",
                )
            })
        }
        other => bail!("there is no command `{other}`"),
    })
}

/// Whether a command is a bucket command rather than a query.
pub(super) fn is_command(command: &str) -> bool {
    let mut words = command.split_whitespace();
    matches!(words.next(), Some("put" | "get" | "delete" | "scan"))
        && words.next().is_some_and(|place| place.contains('/'))
}

fn shown(value: &Value) -> String {
    json::to_string(value).unwrap_or_else(|error| error.to_string())
}
