//! Results as tables, JSON, JSON lines and CSV.

use std::{io::Write, sync::Arc};

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use isomer_cypher::quote_name;
use isomer_db::{Counters, Node, Relationship, Row, Value, json, temporal};

use crate::style::{colours, counted};

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// A table for people.
    Table,
    /// One JSON array of objects.
    Json,
    /// One JSON object a line.
    Jsonl,
    /// Comma-separated values with a header.
    Csv,
}

/// Rows that a table shows at most before it says that there are more.
pub const TABLE_ROWS: usize = 1_000;

/// Prints rows as they come; a table gathers its rows first.
pub struct Printer<'w> {
    out: &'w mut dyn Write,
    mode: Mode,
    columns: Vec<Arc<str>>,
    table: Vec<Row>,
    max_rows: usize,
    rows: u64,
}

impl<'w> Printer<'w> {
    /// Begins a result.
    pub fn new(
        out: &'w mut dyn Write,
        mode: Mode,
        columns: &[Arc<str>],
        max_rows: usize,
    ) -> Result<Self> {
        let printer = Self {
            out,
            mode,
            columns: columns.to_vec(),
            table: Vec::new(),
            max_rows,
            rows: 0,
        };
        match mode {
            Mode::Json => printer.out.write_all(b"[")?,
            Mode::Csv if !columns.is_empty() => {
                let header: Vec<String> =
                    printer.columns.iter().map(|name| csv_cell(name)).collect();
                writeln!(printer.out, "{}", header.join(","))?;
            }
            Mode::Table | Mode::Jsonl | Mode::Csv => {}
        }
        Ok(printer)
    }

    /// Prints one row.
    pub fn row(&mut self, row: Row) -> Result<()> {
        self.rows += 1;
        match self.mode {
            Mode::Table if self.table.len() < self.max_rows => self.table.push(row),
            Mode::Table => {}
            Mode::Json => {
                let comma = if self.rows == 1 { "\n " } else { ",\n " };
                write!(self.out, "{comma}{}", object(&row)?)?;
            }
            Mode::Jsonl => writeln!(self.out, "{}", object(&row)?)?,
            Mode::Csv => {
                let cells: Result<Vec<String>> = row.values().iter().map(csv_value).collect();
                writeln!(self.out, "{}", cells?.join(","))?;
            }
        }
        Ok(())
    }

    /// Ends the result. Returns the number of rows.
    pub fn finish(self) -> Result<u64> {
        match self.mode {
            Mode::Table if !self.columns.is_empty() && self.rows == 0 => {
                writeln!(self.out, "(no rows)")?;
            }
            Mode::Table if !self.columns.is_empty() => {
                writeln!(self.out, "{}", table(&self.columns, &self.table, None))?;
                if self.rows > self.table.len() as u64 {
                    writeln!(
                        self.out,
                        "{} more: add LIMIT, or use another --format",
                        counted(self.rows - self.table.len() as u64, "row")
                    )?;
                }
            }
            Mode::Json if self.rows == 0 => self.out.write_all(b"]\n")?,
            Mode::Json => self.out.write_all(b"\n]\n")?,
            Mode::Table | Mode::Jsonl | Mode::Csv => {}
        }
        self.out.flush()?;
        Ok(self.rows)
    }
}

/// What a query changed, for people; `None` where it changed nothing.
pub fn changes(counters: &Counters) -> Option<String> {
    let changes: Vec<String> = counters
        .changes()
        .into_iter()
        .map(|(what, number)| change(what, number))
        .collect();
    (!changes.is_empty()).then(|| changes.join(", "))
}

/// `nodes created` with its number: `1 node created`.
fn change(what: &str, number: u64) -> String {
    match what.split_once(' ') {
        Some((nouns, verb)) => {
            let noun = match nouns {
                "properties" => "property",
                "indexes" => {
                    return format!(
                        "{} {verb}",
                        if number == 1 {
                            "1 index".into()
                        } else {
                            format!("{number} indexes")
                        }
                    );
                }
                plural => plural.strip_suffix('s').unwrap_or(plural),
            };
            format!("{} {verb}", counted(number, noun))
        }
        None => format!("{number} {what}"),
    }
}

/// A table as wide as the terminal, or at most `max_width`, with rules for people who look and plain ASCII for those who redirect.
pub fn table(columns: &[Arc<str>], rows: &[Row], max_width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(if colours() {
        presets::UTF8_FULL_CONDENSED
    } else {
        presets::ASCII_FULL_CONDENSED
    });
    table.set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = max_width.or_else(terminal_width) {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    table.set_header(columns.iter().map(|name| name.to_string()));
    for row in rows {
        table.add_row(row.values().iter().map(text));
    }
    for at in 0..columns.len() {
        let numbers = rows.iter().all(|row| {
            row.values()
                .get(at)
                .is_some_and(|value| value.is_number() || value.is_null())
        });
        if numbers
            && !rows.is_empty()
            && let Some(column) = table.column_mut(at)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn terminal_width() -> Option<u16> {
    use std::io::IsTerminal;
    if !std::io::stdout().is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| size.ws_col)
        .filter(|width| *width >= 20)
}

/// A value as the language writes it, for people.
pub fn text(value: &Value) -> String {
    let mut out = String::new();
    write_text(value, true, &mut out);
    out
}

/// `outer` strings stand without quotes.
fn write_text(value: &Value, outer: bool, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&format!("{number:?}")),
        Value::String(text) if outer => text
            .chars()
            .for_each(|character| push_shown(character, out)),
        Value::String(text) => {
            out.push('\'');
            for character in text.chars() {
                match character {
                    '\'' => out.push_str("\\'"),
                    '\\' => out.push_str("\\\\"),
                    other => push_shown(other, out),
                }
            }
            out.push('\'');
        }
        Value::Bytes(bytes) => {
            out.push_str("0x");
            bytes
                .iter()
                .take(32)
                .for_each(|byte| out.push_str(&format!("{byte:02x}")));
            if bytes.len() > 32 {
                out.push_str(&format!("… ({} bytes)", bytes.len()));
            }
        }
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_text(item, false, out);
            }
            out.push(']');
        }
        Value::Map(map) => write_map(map, out),
        Value::Node(node) => write_node(node, out),
        Value::Relationship(relationship) => write_relationship(relationship, out),
        Value::Path(path) => {
            write_node(&path.nodes[0], out);
            for (at, relationship) in path.relationships.iter().enumerate() {
                let forth = relationship.source == path.nodes[at].id;
                out.push_str(if forth { "-" } else { "<-" });
                write_relationship(relationship, out);
                out.push_str(if forth { "->" } else { "-" });
                write_node(&path.nodes[at + 1], out);
            }
        }
        Value::Point(point) => out.push_str(&format!(
            "point({}: {}, {}{})",
            point.crs.name(),
            point.x,
            point.y,
            if point.crs.has_z() {
                format!(", {}", point.z)
            } else {
                String::new()
            }
        )),
        other => out.push_str(&temporal::to_text(other).unwrap_or_default()),
    }
}

/// Characters that would move the cursor of a terminal are shown by their number.
fn push_shown(character: char, out: &mut String) {
    match character {
        '\n' | '\t' => out.push(character),
        control if control.is_control() => {
            out.push_str(&format!("\\u{{{:x}}}", u32::from(control)))
        }
        other => out.push(other),
    }
}

fn write_map(map: &isomer_db::Map, out: &mut String) {
    out.push('{');
    for (at, (name, value)) in map.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(&quote_name(name));
        out.push_str(": ");
        write_text(value, false, out);
    }
    out.push('}');
}

fn write_node(node: &Node, out: &mut String) {
    out.push('(');
    if let Some(content) = &node.content {
        for label in content.labels.iter() {
            out.push(':');
            out.push_str(&quote_name(label));
        }
        if !content.properties.is_empty() {
            if !content.labels.is_empty() {
                out.push(' ');
            }
            write_map(&content.properties, out);
        }
    } else {
        out.push_str(&format!("#{}", node.id));
    }
    out.push(')');
}

fn write_relationship(relationship: &Relationship, out: &mut String) {
    out.push('[');
    if let Some(content) = &relationship.content {
        out.push(':');
        out.push_str(&quote_name(&content.type_name));
        if !content.properties.is_empty() {
            out.push(' ');
            write_map(&content.properties, out);
        }
    } else {
        out.push_str(&format!("#{}", relationship.id));
    }
    out.push(']');
}

/// A row as a JSON object, its columns in their order.
pub fn object(row: &Row) -> Result<String> {
    let mut out = String::from("{");
    for (at, (name, value)) in row.columns().iter().zip(row.values()).enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        json::write(&Value::String(name.clone()), &mut out)?;
        out.push_str(": ");
        json::write(value, &mut out).with_context(|| format!("column `{name}`"))?;
    }
    out.push('}');
    Ok(out)
}

/// A value as a cell of CSV: nothing for null, quotes around an empty text, JSON for what is nested.
pub fn csv_value(value: &Value) -> Result<String> {
    Ok(match value {
        Value::Null => String::new(),
        Value::String(text) if text.is_empty() => "\"\"".into(),
        Value::String(text) => csv_cell(text),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => text(value),
        other => match temporal::to_text(other) {
            Some(text) => csv_cell(&text),
            None => csv_cell(&json::to_string(other)?),
        },
    })
}

/// Quotes a text where CSV needs it.
pub fn csv_cell(text: &str) -> String {
    let needs_quotes = text.contains([',', '"', '\n', '\r'])
        || text.starts_with(['#', ' '])
        || text.ends_with(' ');
    if needs_quotes {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_db::params;

    #[test]
    fn values_are_shown_as_the_language_writes_them() {
        let value: Value = params! { "name" => "it's", "list" => vec![Value::Int(1), Value::Null, Value::Float(2.0)] }.into();
        assert_eq!(text(&value), "{list: [1, null, 2.0], name: 'it\\'s'}");
        assert_eq!(
            text(&params! { "a.b" => 1, "" => 2 }.into()),
            "{``: 2, `a.b`: 1}"
        );
        assert_eq!(text(&"a\u{1b}[31m".into()), "a\\u{1b}[31m");
        assert_eq!(text(&vec![1u8, 255].into()), "0x01ff");
    }

    #[test]
    fn csv_cells_tell_null_from_empty() {
        assert_eq!(csv_value(&Value::Null).expect("a cell"), "");
        assert_eq!(csv_value(&"".into()).expect("a cell"), "\"\"");
        assert_eq!(
            csv_value(&"a,\"b\"".into()).expect("a cell"),
            "\"a,\"\"b\"\"\""
        );
        assert_eq!(
            csv_value(&vec![Value::Int(1)].into()).expect("a cell"),
            "[1]"
        );
    }

    #[test]
    fn changes_agree_with_their_numbers() {
        assert_eq!(change("nodes created", 1), "1 node created");
        assert_eq!(change("properties set", 1234), "1,234 properties set");
        assert_eq!(change("indexes added", 2), "2 indexes added");
    }
}
