//! A reference model of the database: plain maps with naive algorithms.
//!
//! Nodes and relationships have a number in the property `uid`, by which both sides identify them.

use std::collections::{BTreeMap, BTreeSet};

use isomer_value::{Map, Value, equality};

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// Its labels.
    pub labels: BTreeSet<&'static str>,
    /// Its properties, `uid` not among them; never null.
    pub properties: BTreeMap<String, Value>,
}

/// A relationship.
#[derive(Clone, Debug, PartialEq)]
pub struct Relationship {
    /// Its type.
    pub kind: &'static str,
    /// `uid` of the node where it starts.
    pub source: u64,
    /// `uid` of the node where it ends.
    pub target: u64,
    /// One property, `w`.
    pub weight: i64,
}

/// A graph. Cloning it begins a transaction, dropping the clone rolls it back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// Nodes by `uid`.
    pub nodes: BTreeMap<u64, Node>,
    /// Relationships by `uid`.
    pub relationships: BTreeMap<u64, Relationship>,
}

/// Which ends of a relationship count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `(n)-[r]->()`
    Out,
    /// `(n)<-[r]-()`
    In,
    /// `(n)-[r]-()`: a self loop counts once.
    Both,
}

impl Model {
    /// The `uid`s of nodes with `label` whose property makes `test` true (not null).
    pub fn matching(
        &self,
        label: &str,
        property: &str,
        test: impl Fn(&Value) -> Option<bool>,
    ) -> Vec<u64> {
        let matches = |node: &Node| node.properties.get(property).and_then(&test) == Some(true);
        let nodes = self
            .nodes
            .iter()
            .filter(|(_, node)| node.labels.contains(label) && matches(node));
        nodes.map(|(uid, _)| *uid).collect()
    }

    /// Nodes with `label` whose property equals `value`, as `=` of the language.
    pub fn equal(&self, label: &str, property: &str, value: &Value) -> Vec<u64> {
        self.matching(label, property, |other| equality::equal(other, value))
    }

    /// Nodes with `label` whose property is less than `value`, as `<` of the language.
    pub fn less(&self, label: &str, property: &str, value: &Value) -> Vec<u64> {
        self.matching(label, property, |other| {
            equality::compare(other, value).less()
        })
    }

    /// Nodes with `label` whose property is greater than or equal to `value`, as `>=` of the language.
    pub fn greater_or_equal(&self, label: &str, property: &str, value: &Value) -> Vec<u64> {
        self.matching(label, property, |other| {
            equality::compare(other, value).greater_or_equal()
        })
    }

    /// Relationships of a node.
    pub fn degree(&self, node: u64, side: Side, kind: Option<&str>) -> u64 {
        let counts = |relationship: &&Relationship| {
            let end = match side {
                Side::Out => relationship.source == node,
                Side::In => relationship.target == node,
                Side::Both => relationship.source == node || relationship.target == node,
            };
            end && kind.is_none_or(|kind| relationship.kind == kind)
        };
        self.relationships.values().filter(counts).count() as u64
    }

    /// `uid`s of nodes at the ends of paths of exactly two different relationships out of `node`; with
    /// repetitions.
    pub fn two_steps(&self, node: u64) -> Vec<u64> {
        let out = |from: u64| {
            self.relationships
                .iter()
                .filter(move |(_, relationship)| relationship.source == from)
        };
        let mut ends: Vec<u64> = out(node)
            .flat_map(|(first, middle)| {
                out(middle.target)
                    .filter(move |(second, _)| *second != first)
                    .map(|(_, end)| end.target)
            })
            .collect();
        ends.sort_unstable();
        ends
    }

    /// Number of relationships on the shortest undirected path between two different nodes.
    pub fn distance(&self, from: u64, to: u64) -> Option<u64> {
        let mut reached = BTreeSet::from([from]);
        let mut border = vec![from];
        for steps in 1.. {
            let mut next = Vec::new();
            for relationship in self.relationships.values() {
                for (here, there) in [
                    (relationship.source, relationship.target),
                    (relationship.target, relationship.source),
                ] {
                    if border.contains(&here) && reached.insert(there) {
                        next.push(there);
                    }
                }
            }
            if reached.contains(&to) {
                return Some(steps);
            }
            if next.is_empty() {
                return None;
            }
            border = next;
        }
        unreachable!("a graph has fewer nodes than numbers")
    }

    /// Removes a node with its relationships.
    pub fn detach_delete(&mut self, node: u64) {
        self.nodes.remove(&node);
        self.relationships
            .retain(|_, relationship| relationship.source != node && relationship.target != node);
    }
}

impl Node {
    /// Its properties and `uid`, as the database stores them.
    pub fn stored(&self, uid: u64) -> Map {
        let own = self
            .properties
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()));
        own.chain([("uid", Value::Int(uid as i64))]).collect()
    }

    /// Sets a property; null removes it.
    pub fn set(&mut self, name: &str, value: Value) {
        if value.is_null() {
            self.properties.remove(name);
        } else {
            self.properties.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1 -> 2 -> 3`, `2 -> 2`, and `4` alone.
    fn small() -> Model {
        let mut model = Model::default();
        for uid in 1..=4 {
            model.nodes.insert(uid, Node::default());
        }
        for (uid, source, target) in [(1, 1, 2), (2, 2, 3), (3, 2, 2)] {
            model.relationships.insert(
                uid,
                Relationship {
                    kind: "T",
                    source,
                    target,
                    weight: 0,
                },
            );
        }
        model
    }

    #[test]
    fn degrees_count_a_self_loop_once() {
        let model = small();
        assert_eq!(model.degree(2, Side::Out, None), 2);
        assert_eq!(model.degree(2, Side::In, Some("T")), 2);
        assert_eq!(model.degree(2, Side::Both, None), 3);
        assert_eq!(model.degree(2, Side::Both, Some("U")), 0);
    }

    #[test]
    fn paths_use_no_relationship_twice() {
        let model = small();
        assert_eq!(model.two_steps(1), [2, 3]);
        assert_eq!(model.two_steps(2), [3]);
        assert_eq!(
            (
                model.distance(1, 3),
                model.distance(3, 1),
                model.distance(1, 4)
            ),
            (Some(2), Some(2), None)
        );
    }

    #[test]
    fn detaching_takes_relationships_along() {
        let mut model = small();
        model.detach_delete(3);
        assert_eq!(model.relationships.len(), 2);
        model.detach_delete(2);
        assert!(model.relationships.is_empty() && model.nodes.len() == 2);
    }
}
