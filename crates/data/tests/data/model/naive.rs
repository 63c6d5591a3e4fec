//! The reference model: plain maps, no index, no adjacency, every result by a full scan.

use std::collections::{BTreeMap, BTreeSet};

use isomer_data::Direction;
use isomer_value::{Map, Value, equality, order};

/// One step of a history. Nodes and relationships are named by their ids in the real store.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Op {
    CreateNode {
        labels: Vec<u32>,
        properties: Map,
    },
    CreateRel {
        rel_type: u32,
        source: u64,
        target: u64,
        properties: Map,
    },
    SetNode {
        id: u64,
        name: &'static str,
        value: Value,
    },
    ReplaceNode {
        id: u64,
        properties: Map,
    },
    AddLabel {
        id: u64,
        label: u32,
    },
    RemoveLabel {
        id: u64,
        label: u32,
    },
    DeleteNode {
        id: u64,
        detach: bool,
    },
    SetRel {
        id: u64,
        name: &'static str,
        value: Value,
    },
    DeleteRel {
        id: u64,
    },
    Node {
        id: u64,
    },
    Nodes {
        label: Option<u32>,
        after: Option<u64>,
        limit: usize,
    },
    Contents {
        ids: Vec<u64>,
    },
    Rels {
        rel_type: Option<u32>,
        limit: usize,
    },
    Rel {
        id: u64,
    },
    Expand {
        id: u64,
        direction: Direction,
        types: Vec<u32>,
    },
    Into {
        source: u64,
        target: u64,
        direction: Direction,
        types: Vec<u32>,
    },
    CountNodes {
        label: Option<u32>,
    },
    CountRels {
        rel_type: Option<u32>,
    },
    ByKey {
        label: u32,
        key: Value,
    },
    Keys {
        label: u32,
        from: Value,
    },
    SeekA {
        low: i64,
        high: i64,
    },
    SeekAB {
        a: i64,
    },
    SeekTag {
        tag: i64,
    },
}

/// The label whose nodes are indexed: `a` ordered, `u` unique, (`a`, `b`) composite, elements of `tags`.
pub const INDEXED: u32 = 0;

#[derive(Clone, Debug, Default)]
pub struct Naive {
    pub nodes: BTreeMap<u64, (BTreeSet<u32>, Map)>,
    pub rels: BTreeMap<u64, (u32, u64, u64, Map)>,
}

type Answer = Result<String, &'static str>;

impl Naive {
    /// Runs one step; `created` is the id that the real store assigned to what the step created.
    pub fn run(&mut self, op: &Op, created: Option<u64>) -> String {
        match self.answer(op, created) {
            Ok(answer) => answer,
            Err(kind) => format!("error {kind}"),
        }
    }

    fn answer(&mut self, op: &Op, created: Option<u64>) -> Answer {
        match op {
            Op::CreateNode { labels, properties } => {
                let node = (labels.iter().copied().collect(), without_nulls(properties));
                self.fits(None, &node)?;
                self.nodes.insert(created.unwrap_or(u64::MAX), node);
                Ok("created".into())
            }
            Op::CreateRel {
                rel_type,
                source,
                target,
                properties,
            } => {
                if !self.nodes.contains_key(source) || !self.nodes.contains_key(target) {
                    return Err("NotFound");
                }
                self.rels.insert(
                    created.unwrap_or(u64::MAX),
                    (*rel_type, *source, *target, without_nulls(properties)),
                );
                Ok("created".into())
            }
            Op::SetNode { id, name, value } => self.change(*id, |node| {
                set(&mut node.1, name, value);
                String::new()
            }),
            Op::ReplaceNode { id, properties } => self.change(*id, |node| {
                node.1 = without_nulls(properties);
                String::new()
            }),
            Op::AddLabel { id, label } => {
                self.change(*id, |node| node.0.insert(*label).to_string())
            }
            Op::RemoveLabel { id, label } => {
                self.change(*id, |node| node.0.remove(label).to_string())
            }
            Op::DeleteNode { id, detach } => {
                if !self.nodes.contains_key(id) {
                    return Ok("[]".into());
                }
                let hanging: Vec<u64> = self
                    .rels
                    .iter()
                    .filter(|(_, rel)| rel.1 == *id || rel.2 == *id)
                    .map(|(id, _)| *id)
                    .collect();
                if !detach && !hanging.is_empty() {
                    return Err("Invalid");
                }
                hanging.iter().for_each(|rel| drop(self.rels.remove(rel)));
                self.nodes.remove(id);
                Ok(format!("{hanging:?}"))
            }
            Op::SetRel { id, name, value } => match self.rels.get_mut(id) {
                Some(rel) => {
                    set(&mut rel.3, name, value);
                    Ok(String::new())
                }
                None => Err("NotFound"),
            },
            Op::DeleteRel { id } => Ok(self.rels.remove(id).is_some().to_string()),
            _ => Ok(self.read(op)),
        }
    }

    fn read(&self, op: &Op) -> String {
        match op {
            Op::Node { id } => show_node(self.nodes.get(id)),
            Op::Contents { ids } => ids
                .iter()
                .map(|id| show_node(self.nodes.get(id)))
                .collect::<Vec<_>>()
                .join(";"),
            Op::Nodes {
                label,
                after,
                limit,
            } => {
                let ids = self
                    .members(*label)
                    .filter(|id| after.is_none_or(|after| *id > after));
                format!("{:?}", ids.take(*limit).collect::<Vec<_>>())
            }
            Op::Rels { rel_type, limit } => {
                let rels = self
                    .rels
                    .iter()
                    .filter(|(_, rel)| rel_type.is_none_or(|own| own == rel.0));
                format!(
                    "{:?}",
                    rels.take(*limit)
                        .map(|(id, rel)| (*id, rel.0, rel.1, rel.2))
                        .collect::<Vec<_>>()
                )
            }
            Op::Rel { id } => match self.rels.get(id) {
                Some((rel_type, source, target, properties)) => {
                    format!("{rel_type} {source} {target} {}", show(properties))
                }
                None => "absent".into(),
            },
            Op::Expand {
                id,
                direction,
                types,
            } => format!("{:?}", self.expand(*id, None, *direction, types)),
            Op::Into {
                source,
                target,
                direction,
                types,
            } => {
                format!(
                    "{:?}",
                    self.expand(*source, Some(*target), *direction, types)
                )
            }
            Op::CountNodes { label } => self.members(*label).count().to_string(),
            Op::CountRels { rel_type } => self
                .rels
                .values()
                .filter(|rel| rel_type.is_none_or(|own| own == rel.0))
                .count()
                .to_string(),
            Op::ByKey { label, key } => format!("{:?}", self.by_key(*label, key)),
            Op::Keys { label, from } => {
                let mut keys: Vec<(&Value, u64)> = self
                    .members(Some(*label))
                    .filter_map(|id| Some((self.nodes[&id].1.get("_key")?, id)))
                    .filter(|(key, _)| {
                        key.type_name() == from.type_name() && order::cmp_order(key, from).is_ge()
                    })
                    .collect();
                keys.sort_by(|a, b| order::cmp_order(a.0, b.0));
                format!(
                    "{:?}",
                    keys.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
                )
            }
            Op::SeekA { low, high } => self.seek("a", |a| (*low..*high).contains(&a)),
            Op::SeekAB { a } => {
                let mut found: Vec<(i64, u64)> = self
                    .members(Some(INDEXED))
                    .filter(|id| self.nodes[id].1.get("a").and_then(Value::as_int) == Some(*a))
                    .filter_map(|id| Some((self.nodes[&id].1.get("b")?.as_int()?, id)))
                    .collect();
                found.sort_unstable();
                format!(
                    "{:?}",
                    found.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
                )
            }
            Op::SeekTag { tag } => {
                let has = |value: &Value| match value {
                    Value::List(items) => items.iter().any(|item| item.as_int() == Some(*tag)),
                    other => other.as_int() == Some(*tag),
                };
                let found = self
                    .members(Some(INDEXED))
                    .filter(|id| self.nodes[id].1.get("tags").is_some_and(has));
                format!("{:?}", found.collect::<Vec<_>>())
            }
            other => unreachable!("{other:?} is a write"),
        }
    }

    fn seek(&self, name: &str, holds: impl Fn(i64) -> bool) -> String {
        let mut found: Vec<(i64, u64)> = self
            .members(Some(INDEXED))
            .filter_map(|id| Some((self.nodes[&id].1.get(name)?.as_int()?, id)))
            .filter(|(value, _)| holds(*value))
            .collect();
        found.sort_unstable();
        format!(
            "{:?}",
            found.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
        )
    }

    fn members(&self, label: Option<u32>) -> impl Iterator<Item = u64> {
        self.nodes
            .iter()
            .filter(move |(_, node)| label.is_none_or(|label| node.0.contains(&label)))
            .map(|(id, _)| *id)
    }

    fn by_key(&self, label: u32, key: &Value) -> Option<u64> {
        self.members(Some(label)).find(|id| {
            self.nodes[id]
                .1
                .get("_key")
                .is_some_and(|own| equality::equivalent(own, key))
        })
    }

    fn expand(
        &self,
        node: u64,
        other: Option<u64>,
        direction: Direction,
        types: &[u32],
    ) -> Vec<(u64, u32, u64, u64)> {
        let wanted = |source: u64, target: u64| {
            let out = source == node && other.is_none_or(|other| other == target);
            let into = target == node && other.is_none_or(|other| other == source);
            match direction {
                Direction::Outgoing => out,
                Direction::Incoming => into,
                Direction::Both => out || into,
            }
        };
        self.rels
            .iter()
            .filter(|(_, rel)| types.is_empty() || types.contains(&rel.0))
            .filter(|(_, rel)| wanted(rel.1, rel.2))
            .map(|(id, rel)| (*id, rel.0, rel.1, rel.2))
            .collect()
    }

    fn change(
        &mut self,
        id: u64,
        change: impl FnOnce(&mut (BTreeSet<u32>, Map)) -> String,
    ) -> Answer {
        let mut node = self.nodes.get(&id).cloned().ok_or("NotFound")?;
        let answer = change(&mut node);
        self.fits(Some(id), &node)?;
        self.nodes.insert(id, node);
        Ok(answer)
    }

    /// Whether a node with this content is valid.
    fn fits(&self, id: Option<u64>, node: &(BTreeSet<u32>, Map)) -> Result<(), &'static str> {
        let others = || self.nodes.iter().filter(|(other, _)| Some(**other) != id);
        if let Some(key) = node.1.get("_key") {
            if !matches!(key, Value::Int(_) | Value::String(_)) {
                return Err("Invalid");
            }
            if others()
                .any(|(_, other)| other.1.get("_key") == Some(key) && !other.0.is_disjoint(&node.0))
            {
                return Err("Exists");
            }
        }
        if let Some(unique) = node.1.get("u").filter(|_| node.0.contains(&INDEXED))
            && others()
                .any(|(_, other)| other.0.contains(&INDEXED) && other.1.get("u") == Some(unique))
        {
            return Err("Exists");
        }
        Ok(())
    }
}

fn set(properties: &mut Map, name: &str, value: &Value) {
    if value.is_null() {
        properties.remove(name);
    } else {
        properties.insert(name, value.clone());
    }
}

fn without_nulls(properties: &Map) -> Map {
    properties
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn show_node(node: Option<&(BTreeSet<u32>, Map)>) -> String {
    match node {
        Some((labels, properties)) => format!("{labels:?} {}", show(properties)),
        None => "absent".into(),
    }
}

/// Properties in a form that both sides return.
pub fn show(properties: &Map) -> String {
    format!("{:?}", properties.iter().collect::<Vec<_>>())
}
