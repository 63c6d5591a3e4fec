//! The suite's notation for values, and conversion of results to it.
//!
//! `1`, `1.5`, `'a'`, `true`, `null`, `NaN`, `[1, 2]`, `{a: 1}`, `(:A:B {a: 1})`, `[:T {a: 1}]`,
//! `<(:A)-[:T]->()<-[:U]-(:B)>`. Temporal values are written as strings.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail};
use isomer_value::{Map, Node, Relationship, Value, temporal};

/// A value as the suite sees it: entities by content, not by id.
#[derive(Clone, Debug, PartialEq)]
pub enum Noted {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`
    Int(i64),
    /// `1.5`, `NaN`, `Inf`
    Float(f64),
    /// `'a'`; also every temporal value
    String(String),
    /// `[1, 2]`
    List(Vec<Noted>),
    /// `{a: 1}`
    Map(BTreeMap<String, Noted>),
    /// `(:A {a: 1})`
    Node(NotedNode),
    /// `[:T {a: 1}]`
    Relationship(NotedRelationship),
    /// `<(:A)-[:T]->()>`
    Path(NotedNode, Vec<(bool, NotedRelationship, NotedNode)>),
}

/// Labels, sorted, and properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotedNode {
    labels: Vec<String>,
    properties: BTreeMap<String, Noted>,
}

/// Type and properties.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NotedRelationship {
    name: String,
    properties: BTreeMap<String, Noted>,
}

impl Noted {
    /// A result of the database in the suite's notation.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Float(value) => Self::Float(*value),
            Value::String(value) => Self::String(value.to_string()),
            Value::Bytes(value) => Self::String(format!("{value:?}")),
            Value::List(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Map(map) => Self::Map(noted_map(map)),
            Value::Node(node) => Self::Node(noted_node(node)),
            Value::Relationship(relationship) => {
                Self::Relationship(noted_relationship(relationship))
            }
            Value::Path(path) => {
                let Some((start, rest)) = path.nodes.split_first() else {
                    return Self::Null;
                };
                let mut at = start.id;
                let mut steps = Vec::new();
                for (relationship, node) in path.relationships.iter().zip(rest) {
                    steps.push((
                        relationship.source == at,
                        noted_relationship(relationship),
                        noted_node(node),
                    ));
                    at = node.id;
                }
                Self::Path(noted_node(start), steps)
            }
            other => match temporal::to_text(other) {
                Some(text) => Self::String(text),
                None => Self::String(format!("{other:?}")),
            },
        }
    }

    /// As a parameter or the result of a procedure. Entities are not allowed.
    pub fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Float(value) => Value::Float(*value),
            Self::String(value) => Value::from(value.as_str()),
            Self::List(items) => items
                .iter()
                .map(Self::to_value)
                .collect::<Option<Vec<_>>>()?
                .into(),
            Self::Map(entries) => {
                let entries: Option<Vec<(String, Value)>> = entries
                    .iter()
                    .map(|(name, value)| Some((name.clone(), value.to_value()?)))
                    .collect();
                Value::from(entries?.into_iter().collect::<Map>())
            }
            Self::Node(_) | Self::Relationship(_) | Self::Path(..) => return None,
        })
    }

    /// The same with the elements of every list sorted.
    pub fn with_sorted_lists(self) -> Self {
        match self {
            Self::List(items) => {
                let mut items: Vec<Noted> =
                    items.into_iter().map(Self::with_sorted_lists).collect();
                items.sort_by_key(Self::to_string);
                Self::List(items)
            }
            Self::Map(entries) => Self::Map(
                entries
                    .into_iter()
                    .map(|(name, value)| (name, value.with_sorted_lists()))
                    .collect(),
            ),
            other => other,
        }
    }
}

fn noted_map(map: &Map) -> BTreeMap<String, Noted> {
    map.iter()
        .map(|(name, value)| (name.to_string(), Noted::of(value)))
        .collect()
}

fn noted_node(node: &Node) -> NotedNode {
    let Some(content) = &node.content else {
        return NotedNode::default();
    };
    let mut labels: Vec<String> = content.labels.iter().map(ToString::to_string).collect();
    labels.sort();
    NotedNode {
        labels,
        properties: noted_map(&content.properties),
    }
}

fn noted_relationship(relationship: &Relationship) -> NotedRelationship {
    match &relationship.content {
        Some(content) => NotedRelationship {
            name: content.type_name.to_string(),
            properties: noted_map(&content.properties),
        },
        None => NotedRelationship::default(),
    }
}

/// Canonical text: equal for equal values only.
impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            // The suite has no negative zero.
            Self::Float(value) if *value == 0.0 => f.write_str("0.0"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::String(value) => f.write_str(&isomer_cypher::quote_string(value)),
            Self::List(items) => {
                f.write_str("[")?;
                separated(f, items.iter(), |f, item| item.fmt(f))?;
                f.write_str("]")
            }
            Self::Map(entries) => write_map(f, entries),
            Self::Node(node) => node.fmt(f),
            Self::Relationship(relationship) => relationship.fmt(f),
            Self::Path(start, steps) => {
                write!(f, "<{start}")?;
                for (forward, relationship, node) in steps {
                    match forward {
                        true => write!(f, "-{relationship}->{node}")?,
                        false => write!(f, "<-{relationship}-{node}")?,
                    }
                }
                f.write_str(">")
            }
        }
    }
}

impl fmt::Display for NotedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        self.labels
            .iter()
            .try_for_each(|label| write!(f, ":{label}"))?;
        if !self.properties.is_empty() {
            f.write_str(if self.labels.is_empty() { "" } else { " " })?;
            write_map(f, &self.properties)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for NotedRelationship {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[:{}", self.name)?;
        if !self.properties.is_empty() {
            f.write_str(" ")?;
            write_map(f, &self.properties)?;
        }
        f.write_str("]")
    }
}

fn write_map(f: &mut fmt::Formatter<'_>, entries: &BTreeMap<String, Noted>) -> fmt::Result {
    f.write_str("{")?;
    separated(f, entries.iter(), |f, (name, value)| {
        write!(f, "{name}: {value}")
    })?;
    f.write_str("}")
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, T) -> fmt::Result,
) -> fmt::Result {
    for (at, item) in items.enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write(f, item)?;
    }
    Ok(())
}

/// Parses a value in the suite's notation.
pub fn parse(text: &str) -> Result<Noted> {
    let mut reader = Reader { rest: text.trim() };
    let value = reader.value()?;
    reader.blanks();
    match reader.rest.is_empty() {
        true => Ok(value),
        false => bail!("`{}` is left over behind a value", reader.rest),
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, text: &str) -> bool {
        self.blanks();
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        match self.eat(text) {
            true => Ok(()),
            false => bail!("expected `{text}` at `{}`", self.rest),
        }
    }

    fn word(&mut self) -> &'t str {
        self.blanks();
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+')))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn name(&mut self) -> Result<String> {
        self.blanks();
        if let Some(rest) = self.rest.strip_prefix('`') {
            let Some((name, rest)) = rest.split_once('`') else {
                bail!("a name is not closed")
            };
            self.rest = rest;
            return Ok(name.to_owned());
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        match name.is_empty() {
            false => Ok(name.to_owned()),
            true => bail!("expected a name at `{}`", self.rest),
        }
    }

    fn value(&mut self) -> Result<Noted> {
        self.blanks();
        match self.rest.chars().next() {
            Some('\'') => self.string(),
            Some('[') if self.is_relationship() => self.relationship().map(Noted::Relationship),
            Some('[') => self.list(),
            Some('{') => self.map().map(Noted::Map),
            Some('(') => self.node().map(Noted::Node),
            Some('<') => self.path(),
            Some(_) => self.scalar(),
            None => bail!("a value is missing"),
        }
    }

    fn is_relationship(&self) -> bool {
        self.rest[1..].trim_start().starts_with(':')
    }

    fn scalar(&mut self) -> Result<Noted> {
        let word = self.word();
        Ok(match word {
            "null" => Noted::Null,
            "true" => Noted::Bool(true),
            "false" => Noted::Bool(false),
            "NaN" => Noted::Float(f64::NAN),
            "Inf" | "Infinity" => Noted::Float(f64::INFINITY),
            "-Inf" | "-Infinity" => Noted::Float(f64::NEG_INFINITY),
            _ => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(number), _) => Noted::Int(number),
                (Err(_), Ok(number)) => Noted::Float(number),
                _ => bail!("`{word}{}` is not a value", self.rest),
            },
        })
    }

    fn string(&mut self) -> Result<Noted> {
        let mut value = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\'' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Noted::String(value));
                }
                '\\' => match characters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, 'r')) => value.push('\r'),
                    Some((_, other)) => value.push(other),
                    None => bail!("a string ends with a backslash"),
                },
                other => value.push(other),
            }
        }
        bail!("a string is not closed: {}", self.rest)
    }

    fn list(&mut self) -> Result<Noted> {
        self.expect("[")?;
        let mut items = Vec::new();
        if self.eat("]") {
            return Ok(Noted::List(items));
        }
        loop {
            items.push(self.value()?);
            if !self.eat(",") {
                self.expect("]")?;
                return Ok(Noted::List(items));
            }
        }
    }

    fn map(&mut self) -> Result<BTreeMap<String, Noted>> {
        self.expect("{")?;
        let mut entries = BTreeMap::new();
        if self.eat("}") {
            return Ok(entries);
        }
        loop {
            let name = self.name()?;
            self.expect(":")?;
            entries.insert(name, self.value()?);
            if !self.eat(",") {
                self.expect("}")?;
                return Ok(entries);
            }
        }
    }

    fn optional_map(&mut self) -> Result<BTreeMap<String, Noted>> {
        self.blanks();
        match self.rest.starts_with('{') {
            true => self.map(),
            false => Ok(BTreeMap::new()),
        }
    }

    fn node(&mut self) -> Result<NotedNode> {
        self.expect("(")?;
        let mut labels = Vec::new();
        while self.eat(":") {
            labels.push(self.name()?);
        }
        labels.sort();
        let properties = self.optional_map()?;
        self.expect(")")?;
        Ok(NotedNode { labels, properties })
    }

    fn relationship(&mut self) -> Result<NotedRelationship> {
        self.expect("[")?;
        self.expect(":")?;
        let name = self.name()?;
        let properties = self.optional_map()?;
        self.expect("]")?;
        Ok(NotedRelationship { name, properties })
    }

    fn path(&mut self) -> Result<Noted> {
        self.expect("<")?;
        let start = self.node()?;
        let mut steps = Vec::new();
        while !self.eat(">") {
            let forward = !self.eat("<");
            self.expect("-")?;
            let relationship = self.relationship()?;
            self.expect("-")?;
            if forward {
                self.expect(">")?;
            }
            steps.push((forward, relationship, self.node()?));
        }
        Ok(Noted::Path(start, steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notation_is_read() {
        for (text, canonical) in [
            ("1", "1"),
            ("-1.50", "-1.5"),
            ("-0.0", "0.0"),
            ("NaN", "NaN"),
            (r"'it\'s'", r"'it\'s'"),
            ("[ 1 ,[], null]", "[1, [], null]"),
            ("{b: 1, a: {}}", "{a: {}, b: 1}"),
            ("(:B:A {x: 'a'})", "(:A:B {x: 'a'})"),
            ("({x: 1})", "({x: 1})"),
            ("[:T {x: 1}]", "[:T {x: 1}]"),
            ("[[:T]]", "[[:T]]"),
            (
                "<(:A)-[:T]->()<-[:U {x: 1}]-(:B)>",
                "<(:A)-[:T]->()<-[:U {x: 1}]-(:B)>",
            ),
            ("<()>", "<()>"),
        ] {
            assert_eq!(parse(text).expect(text).to_string(), canonical);
        }
        for text in ["", "x", "'a", "[1", "(:A", "{a}", "1 2", "<()-[:T]>"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn order_of_lists_can_be_ignored() {
        let sorted = |text: &str| parse(text).expect(text).with_sorted_lists();
        assert_eq!(
            sorted("[2, [3, 1], {a: [2, 1]}]"),
            sorted("[{a: [1, 2]}, [1, 3], 2]")
        );
    }
}
