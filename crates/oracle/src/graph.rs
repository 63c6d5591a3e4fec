//! A graph of maps.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Map;
use crate::notation::map_literal;
pub use crate::value::Node;

/// A relationship.
#[derive(Clone, Debug)]
pub struct Relationship {
    /// Where it starts.
    pub source: u64,
    /// Where it ends.
    pub target: u64,
    /// Its type.
    pub name: String,
    /// Its properties.
    pub properties: Map,
}

/// Nodes and relationships by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The nodes.
    pub nodes: BTreeMap<u64, Node>,
    /// The relationships.
    pub relationships: BTreeMap<u64, Relationship>,
    /// The next number.
    pub next: u64,
}

impl Graph {
    /// Adds a node.
    pub fn add_node(&mut self, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        number
    }

    /// Adds a relationship.
    pub fn add_relationship(&mut self, relationship: Relationship) -> u64 {
        let number = self.next;
        self.next += 1;
        self.relationships.insert(number, relationship);
        number
    }

    /// A query that creates it; `None` for the empty graph.
    pub fn to_cypher(&self) -> Option<String> {
        let mut parts = Vec::new();
        for (number, node) in &self.nodes {
            let labels: String = node
                .labels
                .iter()
                .map(|label| format!(":{label}"))
                .collect();
            parts.push(format!(
                "(n{number}{labels}{})",
                properties(&node.properties)
            ));
        }
        for one in self.relationships.values() {
            let mut text = format!("(n{})-[:{}", one.source, one.name);
            let _ = write!(text, "{}]->(n{})", properties(&one.properties), one.target);
            parts.push(text);
        }
        (!parts.is_empty()).then(|| format!("CREATE {}", parts.join(", ")))
    }

    /// A fingerprint without ids: equal for two graphs of the same shape and content (four rounds of
    /// neighbourhood hashing).
    pub fn shape(&self) -> Vec<String> {
        let own = |node: &Node| {
            let labels: Vec<&str> = node.labels.iter().map(String::as_str).collect();
            format!("{}{}", labels.join(":"), properties(&node.properties))
        };
        let mut seen: BTreeMap<u64, String> = self
            .nodes
            .iter()
            .map(|(number, node)| (*number, own(node)))
            .collect();
        for _ in 0..4 {
            let mut around: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            for one in self.relationships.values() {
                let text = format!("{}{}", one.name, properties(&one.properties));
                let (from, to) = (digest(&seen[&one.source]), digest(&seen[&one.target]));
                around
                    .entry(one.source)
                    .or_default()
                    .push(format!(">{text}{to:x}"));
                around
                    .entry(one.target)
                    .or_default()
                    .push(format!("<{text}{from:x}"));
            }
            for (number, text) in &mut seen {
                let mut neighbours = around.remove(number).unwrap_or_default();
                neighbours.sort();
                let own = text.split(" | ").next().unwrap_or_default().to_owned();
                *text = format!("{own} | {}", neighbours.join(" "));
            }
        }
        let mut shape: Vec<String> = seen.into_values().collect();
        shape.sort();
        shape
    }
}

/// FNV-1a: different texts almost surely have different hashes.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn properties(map: &Map) -> String {
    match map.is_empty() {
        true => String::new(),
        false => format!(" {}", map_literal(map)),
    }
}
