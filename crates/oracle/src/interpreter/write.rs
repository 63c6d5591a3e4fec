//! Writing clauses: row by row; each row sees the writes of earlier rows.

use std::collections::BTreeSet;

use super::pattern::matches;
use super::{Interpreter, Row};
use crate::fault::{Fault, Result, raised};
use crate::notation::literal;
use crate::{Datum, Map, NodeValue, PathValue, graph};
use isomer_cypher::ast::{
    Create, Delete, Direction, Expr, ExprKind, Merge, MergeEvent, NodePattern, PathPattern,
    PatternLink, RemoveItem, SetItem,
};

impl Interpreter<'_> {
    pub(super) fn create(&self, clause: &Create, rows: Vec<Row>) -> Result<Vec<Row>> {
        let one = |mut row: Row| {
            for path in &clause.pattern.paths {
                self.create_path(path, &mut row, false)?;
            }
            Ok(row)
        };
        rows.into_iter().map(one).collect()
    }

    /// Creates the missing parts of the path.
    fn create_path(&self, path: &PathPattern, row: &mut Row, refuses_nulls: bool) -> Result<()> {
        let mut nodes = vec![self.create_node(&path.start, row, refuses_nulls)?];
        let mut ends = Vec::new();
        // Nodes first, in order, then the relationships between them.
        for step in &path.steps {
            nodes.push(self.create_node(&step.node, row, refuses_nulls)?);
        }
        for (at, step) in path.steps.iter().enumerate() {
            let PatternLink::Relationship(pattern) = &step.link else {
                return raised("a quantified path is not created");
            };
            let names = match &pattern.types {
                Some(types) => self.label_names(types, row)?,
                None => Vec::new(),
            };
            let [name] = names.as_slice() else {
                return raised("a relationship is created with one type");
            };
            let (source, target) = match pattern.direction {
                Direction::Incoming => (nodes[at + 1], nodes[at]),
                Direction::Outgoing | Direction::Both => (nodes[at], nodes[at + 1]),
            };
            let properties =
                self.new_properties(pattern.properties.as_ref(), row, refuses_nulls)?;
            let id = self
                .graph
                .borrow_mut()
                .add_relationship(graph::Relationship {
                    source,
                    target,
                    name: name.clone(),
                    properties,
                });
            ends.push(id);
            if let Some(variable) = &pattern.variable {
                row.insert(
                    variable.name.clone(),
                    Datum::Relationship(self.relationship(id)?.into()),
                );
            }
        }
        if let Some(variable) = &path.variable {
            let relationships = ends
                .iter()
                .map(|id| self.relationship(*id))
                .collect::<Result<_>>()?;
            let nodes = nodes
                .iter()
                .map(|id| NodeValue {
                    id: *id,
                    content: None,
                })
                .collect();
            row.insert(
                variable.name.clone(),
                Datum::Path(
                    PathValue {
                        nodes,
                        relationships,
                    }
                    .into(),
                ),
            );
        }
        Ok(())
    }

    fn create_node(
        &self,
        pattern: &NodePattern,
        row: &mut Row,
        refuses_nulls: bool,
    ) -> Result<u64> {
        if let Some(variable) = &pattern.variable {
            match row.get(&variable.name) {
                Some(Datum::Node(node)) if self.graph.borrow().nodes.contains_key(&node.id) => {
                    return Ok(node.id);
                }
                Some(other) => {
                    return raised(format!(
                        "{} is not an end of a relationship",
                        literal(other)
                    ));
                }
                None => {}
            }
        }
        let labels: BTreeSet<String> = match &pattern.labels {
            None => BTreeSet::new(),
            Some(labels) => self.label_names(labels, row)?.into_iter().collect(),
        };
        let properties = self.new_properties(pattern.properties.as_ref(), row, refuses_nulls)?;
        let id = self
            .graph
            .borrow_mut()
            .add_node(graph::Node { labels, properties });
        if let Some(variable) = &pattern.variable {
            row.insert(variable.name.clone(), Datum::node(id));
        }
        Ok(id)
    }

    fn new_properties(
        &self,
        properties: Option<&Expr>,
        row: &Row,
        refuses_nulls: bool,
    ) -> Result<Map> {
        let given = match properties
            .map(|properties| self.eval(properties, row))
            .transpose()?
        {
            None | Some(Datum::Null) => return Ok(Map::new()),
            Some(Datum::Map(map)) => map,
            Some(other) => {
                return raised(format!("{} is not a map of properties", literal(&other)));
            }
        };
        let mut map = Map::new();
        for (name, value) in given.iter() {
            match value {
                Datum::Null if refuses_nulls => return raised("MERGE does not accept null"),
                Datum::Null => {}
                value => {
                    storable(value)?;
                    map.insert(name.clone(), value.clone());
                }
            }
        }
        Ok(map)
    }

    pub(super) fn merge(&self, clause: &Merge, rows: Vec<Row>) -> Result<Vec<Row>> {
        let mut out = Vec::new();
        for row in rows {
            self.refuse_nulls(&clause.path, &row)?;
            let mut found = matches(self, &[&clause.path], &row)?;
            let event = if found.is_empty() {
                MergeEvent::Create
            } else {
                MergeEvent::Match
            };
            if found.is_empty() {
                let mut row = row;
                self.create_path(&clause.path, &mut row, true)?;
                found.push(row);
            }
            for row in found {
                for action in clause.actions.iter().filter(|action| action.event == event) {
                    self.set_items(&action.items, &row)?;
                }
                out.push(row);
            }
        }
        self.in_any_order(out)
    }

    /// A null in the pattern of a `MERGE` is an error, whether or not there is a match.
    fn refuse_nulls(&self, path: &PathPattern, row: &Row) -> Result<()> {
        let mut all: Vec<Option<&Expr>> =
            path.nodes().map(|node| node.properties.as_ref()).collect();
        for step in &path.steps {
            if let PatternLink::Relationship(pattern) = &step.link {
                all.push(pattern.properties.as_ref());
            }
        }
        for properties in all.into_iter().flatten() {
            if let Datum::Map(map) = self.eval(properties, row)?
                && map.values().any(Datum::is_null)
            {
                return raised("MERGE does not accept null");
            }
        }
        Ok(())
    }

    pub(super) fn set_items(&self, items: &[SetItem], row: &Row) -> Result<()> {
        for item in items {
            match item {
                SetItem::Property { target, value } => {
                    let value = self.eval(value, row)?;
                    self.set_property(target, value, row)?;
                }
                SetItem::Replace { variable, value } => {
                    self.set_all(&variable.name, self.eval(value, row)?, row, true)?;
                }
                SetItem::Merge { variable, value } => {
                    self.set_all(&variable.name, self.eval(value, row)?, row, false)?;
                }
                SetItem::Labels { variable, labels } => {
                    let names = self.label_names(labels, row)?;
                    self.change_labels(&variable.name, row, |carried| carried.extend(names))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn remove_items(&self, items: &[RemoveItem], row: &Row) -> Result<()> {
        for item in items {
            match item {
                RemoveItem::Property(target) => self.set_property(target, Datum::Null, row)?,
                RemoveItem::Labels { variable, labels } => {
                    let names = self.label_names(labels, row)?;
                    self.change_labels(&variable.name, row, |carried| {
                        carried.retain(|name| !names.contains(name));
                    })?;
                }
            }
        }
        Ok(())
    }

    fn change_labels(
        &self,
        name: &str,
        row: &Row,
        change: impl FnOnce(&mut BTreeSet<String>),
    ) -> Result<()> {
        match row.get(name) {
            Some(Datum::Null) => Ok(()),
            Some(Datum::Node(node)) => match self.graph.borrow_mut().nodes.get_mut(&node.id) {
                Some(node) => {
                    change(&mut node.labels);
                    Ok(())
                }
                None => raised("the node was deleted"),
            },
            _ => raised("only nodes have labels"),
        }
    }

    /// Changes an entity's properties; null changes nothing.
    fn change(&self, entity: &Datum, change: impl FnOnce(&mut Map) -> Result<()>) -> Result<()> {
        let mut graph = self.graph.borrow_mut();
        let properties = match entity {
            Datum::Null => return Ok(()),
            Datum::Node(node) => graph
                .nodes
                .get_mut(&node.id)
                .map(|node| &mut node.properties),
            Datum::Relationship(one) => graph
                .relationships
                .get_mut(&one.id)
                .map(|one| &mut one.properties),
            other => return raised(format!("{} has no properties to set", literal(other))),
        };
        match properties {
            Some(properties) => change(properties),
            None => raised("the entity was deleted"),
        }
    }

    /// `n.a = …`, `n.a.b = …`, `n['a'] = …`
    fn set_property(&self, target: &Expr, value: Datum, row: &Row) -> Result<()> {
        let mut path = Vec::new();
        let mut base = target;
        loop {
            match &base.kind {
                ExprKind::Property { base: inner, key } => {
                    path.push(key.as_str().to_owned());
                    base = inner;
                }
                ExprKind::Index { base: inner, index } => match self.eval(index, row)? {
                    Datum::Text(name) => {
                        path.push(name.to_string());
                        base = inner;
                    }
                    other => return raised(format!("{} is not a property name", literal(&other))),
                },
                _ => break,
            }
        }
        path.reverse();
        storable(&value)?;
        let entity = self.eval(base, row)?;
        self.change(&entity, |properties| set_in(properties, &path, value))
    }

    fn set_all(&self, name: &str, given: Datum, row: &Row, replaces: bool) -> Result<()> {
        let Some(entity) = row.get(name) else {
            return raised(format!("the variable {name} is not defined"));
        };
        if entity.is_null() {
            return Ok(());
        }
        let given = match given {
            Datum::Null => Map::new(),
            other => self.properties(&other)?,
        };
        given.values().try_for_each(storable)?;
        self.change(entity, |properties| {
            if replaces {
                *properties = Map::new();
            }
            for (name, value) in given.iter() {
                match value {
                    Datum::Null => properties.remove(name),
                    value => properties.insert(name.clone(), value.clone()),
                };
            }
            Ok(())
        })
    }

    /// All rows name what is deleted; the deletion is done for all rows together.
    pub(super) fn delete(&self, clause: &Delete, rows: Vec<Row>) -> Result<Vec<Row>> {
        let (mut nodes, mut relationships) = (BTreeSet::new(), BTreeSet::new());
        for row in &rows {
            for target in &clause.targets {
                match self.eval(target, row)? {
                    Datum::Null => {}
                    Datum::Node(node) => {
                        nodes.insert(node.id);
                    }
                    Datum::Relationship(one) => {
                        relationships.insert(one.id);
                    }
                    Datum::Path(path) => {
                        nodes.extend(path.nodes.iter().map(|node| node.id));
                        relationships.extend(path.relationships.iter().map(|one| one.id));
                    }
                    other => return raised(format!("{} cannot be deleted", literal(&other))),
                }
            }
        }
        // Remaining relationships are checked at the end of the statement: another `DELETE` may name them.
        let mut owed = self.owed.borrow_mut();
        let mut graph = self.graph.borrow_mut();
        owed.retain(|id| !relationships.contains(id));
        let mut deleted = self.types_of_deleted.borrow_mut();
        graph.relationships.retain(|id, one| {
            let goes_along = nodes.contains(&one.source) || nodes.contains(&one.target);
            if goes_along && !clause.detach && !relationships.contains(id) {
                owed.insert(*id);
            }
            let stays = !relationships.contains(id) && !goes_along;
            if !stays {
                deleted.insert(*id, one.name.clone());
            }
            stays
        });
        graph.nodes.retain(|id, _| !nodes.contains(id));
        drop(graph);
        Ok(rows)
    }
}

/// Sets, or with null removes, the value at a path of names; creates missing maps on the path.
fn set_in(map: &mut Map, path: &[String], value: Datum) -> Result<()> {
    match path {
        [] => raised("a variable itself is not set"),
        [name] if value.is_null() => {
            map.remove(name.as_str());
            Ok(())
        }
        [name] => {
            map.insert(name.as_str().into(), value);
            Ok(())
        }
        [name, rest @ ..] => {
            let mut inner = match map.get(name.as_str()) {
                Some(Datum::Map(inner)) => Map::clone(inner),
                None if value.is_null() => return Ok(()),
                None => Map::new(),
                Some(other) => return raised(format!("{} has no fields", literal(other))),
            };
            set_in(&mut inner, rest, value)?;
            map.insert(name.as_str().into(), inner.into());
            Ok(())
        }
    }
}

/// Entities cannot be properties, nor elements of lists and maps in properties.
fn storable(value: &Datum) -> Result<()> {
    match value {
        Datum::Node(_) | Datum::Relationship(_) | Datum::Path(_) => Err(Fault::Raised(format!(
            "{} cannot be a property",
            literal(value)
        ))),
        Datum::List(items) => items.iter().try_for_each(storable),
        Datum::Map(map) => map.values().try_for_each(storable),
        _ => Ok(()),
    }
}
