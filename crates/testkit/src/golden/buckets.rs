//! The commands of golden scripts that work on buckets.
//!
//! A place is `BUCKET/KEY`. A value is JSON, or else literal text; the values of a multi-value bucket are text.

use std::ops::Bound;

use anyhow::{Context, Result, bail};
use isomer_db::{
    BucketOptions, Expiry, KvChangeKind, ReadTransaction, Value, WriteTransaction, json,
};

/// Maximum number of pairs that a scan prints.
const MAX_PAIRS: usize = 100;

/// What a command prints, or the database's error.
type Printed = isomer_db::Result<String>;

/// Whether a command is a bucket command rather than a query.
pub(super) fn is_command(command: &str) -> bool {
    let mut words = command.split_whitespace();
    match words.next() {
        Some("put" | "get" | "delete" | "scan" | "cas" | "expire" | "add" | "remove") => {
            words.next().is_some_and(|place| place.contains('/'))
        }
        Some("values" | "count" | "number") => {
            words.next().is_some_and(|place| place.contains('/')) && words.next().is_none()
        }
        Some("bucket" | "keys") => words.count() == 2,
        _ => false,
    }
}

/// Runs a command that only reads; `None` if it is one that writes.
///
/// `get PLACE`, `scan BUCKET/FROM [TO] [reverse]`, `values PLACE`, `count PLACE`, `keys BUCKET VALUE`.
pub(super) fn read(tx: &ReadTransaction, command: &str) -> Result<Option<Printed>> {
    let (word, first, rest) = words(command)?;
    if word == "keys" {
        let keys = tx.bucket(first).keys_of(rest);
        return Ok(Some(lines(keys)));
    }
    if !matches!(word, "get" | "scan" | "values" | "count") {
        return Ok(None);
    }
    let (bucket, key) = place(first)?;
    let bucket = tx.bucket(bucket);
    Ok(Some(match word {
        "get" => bucket
            .get(key)
            .map(|value| value.as_ref().map_or("(nothing)".to_owned(), shown)),
        "values" => lines(bucket.values(key)),
        "count" => bucket.count(key).map(|count| count.to_string()),
        _ => {
            let rest: Vec<&str> = rest.split_whitespace().collect();
            let end = rest.first().filter(|end| **end != "reverse");
            let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_bytes()));
            let pairs = bucket.range((Bound::Included(key.as_bytes()), end));
            let line = |pair: isomer_db::Result<(Vec<u8>, Value)>| {
                pair.map(|(key, value)| format!("{} {}", text(&key), shown(&value)))
            };
            let pairs = pairs.limit(MAX_PAIRS);
            let lines: isomer_db::Result<Vec<String>> = match rest.last() == Some(&"reverse") {
                true => pairs.rev().map(line).collect(),
                false => pairs.map(line).collect(),
            };
            lines.map(|lines| lines.join("\n"))
        }
    }))
}

/// Runs a command.
///
/// In addition to those of [`read`]: `bucket NAME map|reversible|multi`, `put PLACE VALUE`, `cas PLACE OLD NEW`,
/// `delete PLACE`, `expire PLACE MS` (after 1970), `add PLACE VALUE`, `remove PLACE VALUE`, `number BUCKET/SEQUENCE`.
pub(super) fn run(tx: &WriteTransaction, command: &str) -> Result<Printed> {
    if let Some(printed) = read(tx, command)? {
        return Ok(printed);
    }
    let (word, first, rest) = words(command)?;
    if word == "bucket" {
        let options = match rest {
            "map" => BucketOptions::default(),
            "reversible" => BucketOptions::reversible(),
            "multi" => BucketOptions::multi_value(),
            other => bail!("there is no kind of bucket `{other}`"),
        };
        return Ok(tx.bucket(first).create(options).map(|()| String::new()));
    }
    let (bucket, key) = place(first)?;
    let bucket = tx.bucket(bucket);
    Ok(match word {
        "put" => {
            let value = json::parse(rest).unwrap_or_else(|_| Value::from(rest));
            bucket.put(key, value).map(|()| String::new())
        }
        "cas" => {
            let (old, new) = rest.split_once(' ').context("cas PLACE OLD NEW")?;
            let old = Some(old).filter(|old| *old != "(nothing)");
            bucket
                .compare_and_set(key, old.map(str::as_bytes), Some(new.as_bytes()))
                .map(|done| done.to_string())
        }
        "delete" => bucket.delete(key).map(|()| String::new()),
        "expire" => {
            let at = Expiry::At(rest.parse().context("expire PLACE MS")?);
            bucket.expire(key, at).map(|existed| existed.to_string())
        }
        "add" => bucket.add(key, rest).map(|()| String::new()),
        "remove" => bucket.remove(key, rest).map(|()| String::new()),
        "number" => bucket.next_number(key).map(|number| number.to_string()),
        other => bail!("there is no command `{other}`"),
    })
}

/// A change that a watch reports.
pub(super) fn change(kind: &KvChangeKind) -> String {
    match kind {
        KvChangeKind::Put { key, value, .. } => format!("put {} {}", text(key), shown(value)),
        KvChangeKind::Deleted { key } => format!("deleted {}", text(key)),
        KvChangeKind::RangeDeleted { start, end } => {
            let end = end.as_deref().map_or("the end".to_owned(), text);
            format!("deleted from {} to {end}", text(start))
        }
        KvChangeKind::Added { key, value } => format!("added {} {}", text(key), text(value)),
        KvChangeKind::Removed { key, value } => format!("removed {} {}", text(key), text(value)),
        KvChangeKind::Dropped => "dropped".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The command's name, the word behind it, and the rest.
fn words(command: &str) -> Result<(&str, &str, &str)> {
    let (word, rest) = command.split_once(' ').context("a command has a place")?;
    let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    Ok((word, first, rest))
}

fn place(word: &str) -> Result<(&str, &str)> {
    word.split_once('/').context("a place is BUCKET/KEY")
}

fn lines(items: impl Iterator<Item = isomer_db::Result<Vec<u8>>>) -> Printed {
    let lines: isomer_db::Result<Vec<String>> = items
        .take(MAX_PAIRS)
        .map(|item| item.map(|item| text(&item)))
        .collect();
    lines.map(|lines| lines.join("\n"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn shown(value: &Value) -> String {
    json::to_string(value).unwrap_or_else(|error| error.to_string())
}
