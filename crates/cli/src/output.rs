//! Results as tables, JSON, JSON lines and CSV.

use std::{
    io::Write,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use isomer_cypher::quote_name;
use isomer_db::{Counters, Node, Relationship, Row, Value, json, temporal};

use crate::style::{colours, counted};

/// Output formats.
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

/// Whether the reader of the output has gone, as with `| head`.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Maximum number of rows that a table shows.
pub const TABLE_ROWS: usize = 1_000;
/// Bytes of the texts in it: it is laid out in memory, several times as large.
const TABLE_BYTES: usize = 2 << 20;
/// Bytes of one text in it; a longer one is cut.
const CELL_BYTES: usize = 256 << 10;

/// Prints rows as they arrive; a table buffers its rows first.
pub struct Printer<'w> {
    out: &'w mut dyn Write,
    mode: Mode,
    columns: Vec<Arc<str>>,
    table: Grid,
    max_rows: usize,
    rows: u64,
}

/// The texts of a table.
#[derive(Default)]
struct Grid {
    rows: Vec<Vec<String>>,
    bytes: usize,
    /// Columns in which something is neither a number nor null.
    texts: Vec<bool>,
}

impl Grid {
    fn push(&mut self, values: &[Value]) {
        self.texts.resize(values.len(), false);
        let cells = values.iter().zip(&mut self.texts);
        let cells = cells.map(|(value, is_text)| {
            *is_text |= !value.is_number() && !value.is_null();
            cell(value)
        });
        let cells: Vec<String> = cells.collect();
        self.bytes += cells.iter().map(String::len).sum::<usize>();
        self.rows.push(cells);
    }

    fn is_full(&self, max_rows: usize) -> bool {
        self.rows.len() >= max_rows || self.bytes >= TABLE_BYTES
    }
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
            table: Grid::default(),
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
            Mode::Table if !self.table.is_full(self.max_rows) => self.table.push(row.values()),
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
                let shown = self.table.rows.len() as u64;
                writeln!(self.out, "{}", laid_out(&self.columns, self.table, None))?;
                if self.rows > shown {
                    writeln!(
                        self.out,
                        "{} more: add LIMIT, or use another --format",
                        counted(self.rows - shown, "row")
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

/// The changes of a query, for display; `None` if there are none.
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

/// A table as wide as the terminal, or at most `max_width`, with box-drawing characters on a terminal and plain ASCII
/// in redirected output.
pub fn table(columns: &[Arc<str>], rows: &[Row], max_width: Option<u16>) -> String {
    let mut grid = Grid::default();
    rows.iter().for_each(|row| grid.push(row.values()));
    laid_out(columns, grid, max_width)
}

fn laid_out(columns: &[Arc<str>], grid: Grid, max_width: Option<u16>) -> String {
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
    for row in grid.rows {
        table.add_row(row);
    }
    for (at, is_text) in grid.texts.iter().enumerate() {
        if !is_text && let Some(column) = table.column_mut(at) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.to_string()
}

fn terminal_width() -> Option<u16> {
    terminal_size::terminal_size_of(std::io::stdout())
        .map(|(width, _)| width.0)
        .filter(|width| *width >= 20)
}

/// A value in the syntax of the query language, for display.
pub fn text(value: &Value) -> String {
    let mut out = Shown {
        text: String::new(),
        most: usize::MAX,
    };
    write_text(value, true, &mut out);
    out.text
}

/// The same for a table, where a long text is cut.
fn cell(value: &Value) -> String {
    let mut out = Shown {
        text: String::new(),
        most: CELL_BYTES,
    };
    write_text(value, true, &mut out);
    if out.is_full() {
        let end = out.text.floor_char_boundary(CELL_BYTES);
        out.text.truncate(end);
        out.text
            .push_str("… (cut: use another --format for all of it)");
    }
    out.text
}

/// A text that is written until it is as long as it may be, about.
struct Shown {
    text: String,
    most: usize,
}

impl Shown {
    fn is_full(&self) -> bool {
        self.text.len() > self.most
    }
}

impl Deref for Shown {
    type Target = String;

    fn deref(&self) -> &String {
        &self.text
    }
}

impl DerefMut for Shown {
    fn deref_mut(&mut self) -> &mut String {
        &mut self.text
    }
}

/// `outer` strings are not quoted.
fn write_text(value: &Value, outer: bool, out: &mut Shown) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => out.push_str(&number.to_string()),
        Value::Float(number) => out.push_str(&format!("{number:?}")),
        Value::String(text) if outer => {
            for character in text.chars() {
                if out.is_full() {
                    break;
                }
                push_shown(character, out);
            }
        }
        Value::String(text) => {
            out.push('\'');
            for character in text.chars() {
                if out.is_full() {
                    break;
                }
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
                if out.is_full() {
                    break;
                }
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
                if out.is_full() {
                    break;
                }
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

/// Control characters are escaped, because they would move the terminal's cursor.
fn push_shown(character: char, out: &mut String) {
    match character {
        '\n' | '\t' => out.push(character),
        control if control.is_control() => {
            out.push_str(&format!("\\u{{{:x}}}", u32::from(control)))
        }
        other => out.push(other),
    }
}

fn write_map(map: &isomer_db::Map, out: &mut Shown) {
    out.push('{');
    for (at, (name, value)) in map.iter().enumerate() {
        if out.is_full() {
            break;
        }
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(&quote_name(name));
        out.push_str(": ");
        write_text(value, false, out);
    }
    out.push('}');
}

fn write_node(node: &Node, out: &mut Shown) {
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

fn write_relationship(relationship: &Relationship, out: &mut Shown) {
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

/// A value as a CSV cell: empty for null, quotes around an empty string, JSON for nested values.
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

/// Quotes a text if CSV requires it.
pub fn csv_cell(text: &str) -> String {
    let needs_quotes = text.contains([',', '"', '\n', '\r'])
        || text.starts_with(['#', ' ', '\u{feff}'])
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
    fn a_long_text_is_cut_in_a_table_only() {
        let long = Value::from("ä".repeat(CELL_BYTES));
        assert_eq!(text(&long).len(), 2 * CELL_BYTES);
        let nested: Value = vec![long.clone(); 8].into();
        for value in [long, nested] {
            let cell = cell(&value);
            assert!(cell.ends_with("use another --format for all of it)"));
            assert!(cell.len() < CELL_BYTES + 64);
        }
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
