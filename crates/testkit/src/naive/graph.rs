//! Small random graphs.

use std::fmt::Write as _;

use crate::random::Random;

/// Labels that nodes may have.
pub const LABELS: [&str; 3] = ["A", "B", "C"];
/// Types that relationships have.
pub const TYPES: [&str; 3] = ["T", "U", "V"];

/// A node; its number is its index in the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// By index into [`LABELS`].
    pub labels: Vec<usize>,
    /// The property `v`, where it has one.
    pub v: Option<i64>,
}

/// A relationship; its number is its index in the graph.
#[derive(Clone, Copy, Debug)]
pub struct Relationship {
    /// Where it starts.
    pub source: usize,
    /// Where it ends.
    pub target: usize,
    /// By index into [`TYPES`].
    pub name: usize,
    /// The property `w`.
    pub w: i64,
}

/// Nodes and relationships, including loops and parallel ones.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The relationships.
    pub relationships: Vec<Relationship>,
}

impl Graph {
    /// A graph of up to six nodes and nine relationships.
    pub fn random(random: &mut Random) -> Self {
        let nodes: Vec<Node> = (0..2 + random.below(5))
            .map(|_| Node {
                labels: (0..LABELS.len()).filter(|_| random.once_in(2)).collect(),
                v: (!random.once_in(4)).then(|| random.below(3) as i64),
            })
            .collect();
        let place = |random: &mut Random| random.below(nodes.len() as u64) as usize;
        let relationships = (0..random.below(10))
            .map(|_| Relationship {
                source: place(random),
                target: place(random),
                name: random.below(TYPES.len() as u64) as usize,
                w: random.below(3) as i64,
            })
            .collect();
        Self {
            nodes,
            relationships,
        }
    }

    /// A query that creates it; `i` is the number of a node or relationship.
    pub fn to_cypher(&self) -> String {
        let mut text = String::from("CREATE ");
        for (at, node) in self.nodes.iter().enumerate() {
            let labels: String = node
                .labels
                .iter()
                .map(|label| format!(":{}", LABELS[*label]))
                .collect();
            let v = node.v.map_or(String::new(), |v| format!(", v: {v}"));
            let _ = write!(
                text,
                "{}(n{at}{labels} {{i: {at}{v}}})",
                if at > 0 { ", " } else { "" }
            );
        }
        for (at, one) in self.relationships.iter().enumerate() {
            let _ = write!(
                text,
                ", (n{})-[:{} {{i: {at}, w: {}}}]->(n{})",
                one.source, TYPES[one.name], one.w, one.target
            );
        }
        text
    }
}
