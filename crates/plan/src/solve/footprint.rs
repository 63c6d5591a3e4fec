//! Read and write sets of steps, as precise as needed to keep one clause from observing another's writes.
//!
//! The semantics of a query is that each clause is completed for all rows before the next begins. Rows stream anyway if
//! no read above or below a write could observe the difference; otherwise the planner adds a barrier (Eager).

use rustc_hash::FxHashSet;

use crate::arena::Arena;
use crate::catalog::ProcedureMode;
use crate::expr::{BoundExpr, LabelRef, MapItem, PropRef, StaticType, TypeRef};
use crate::function::{Function, Purity};
use crate::logical::{LogicalQuery, LogicalStep, QueryGraph, labels_of};
use crate::physical::{CreateItem, CreatePattern, CreatedType, EntityChange};

/// Some names, or all of them.
#[derive(Clone, Debug)]
struct NameSet<T> {
    all: bool,
    some: FxHashSet<T>,
}

impl<T> Default for NameSet<T> {
    fn default() -> Self {
        Self {
            all: false,
            some: FxHashSet::default(),
        }
    }
}

impl<T: Copy + Eq + std::hash::Hash> NameSet<T> {
    fn is_empty(&self) -> bool {
        !self.all && self.some.is_empty()
    }

    fn intersects(&self, other: &Self) -> bool {
        (self.all && !other.is_empty())
            || (other.all && !self.is_empty())
            || self.some.iter().any(|one| other.some.contains(one))
    }

    fn absorb(&mut self, other: &Self) {
        self.all |= other.all;
        self.some.extend(&other.some);
    }
}

/// The read set or the write set of a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footprint {
    /// Nodes found regardless of their labels; or nodes created.
    nodes: bool,
    /// Labels by which nodes are found, or that are tested; labels created, set or removed.
    labels: NameSet<LabelRef>,
    /// Types of relationships followed; of relationships created.
    types: NameSet<TypeRef>,
    /// Properties read of entities that other rows may share; properties changed.
    properties: NameSet<PropRef>,
    /// Entities are deleted; entities are read in any way.
    entities: bool,
    /// Anything: procedures, key-values.
    everything: bool,
}

impl Footprint {
    pub fn is_empty(&self) -> bool {
        !self.nodes
            && self.labels.is_empty()
            && self.types.is_empty()
            && self.properties.is_empty()
            && !self.entities
            && !self.everything
    }

    pub fn absorb(&mut self, other: &Footprint) {
        self.nodes |= other.nodes;
        self.labels.absorb(&other.labels);
        self.types.absorb(&other.types);
        self.properties.absorb(&other.properties);
        self.entities |= other.entities;
        self.everything |= other.everything;
    }

    /// Whether these reads could observe `writes`.
    pub fn disturbed_by(&self, writes: &Footprint) -> bool {
        if self.is_empty() || writes.is_empty() {
            return false;
        }
        self.everything
            || writes.everything
            // Nodes that are found by a label are disturbed only by writes of that label, so bulk statements such as
            // MATCH (:A) … CREATE (:B) need no barrier.
            || (self.nodes && writes.nodes)
            || self.labels.intersects(&writes.labels)
            || self.types.intersects(&writes.types)
            || self.properties.intersects(&writes.properties)
            || (self.entities && writes.entities)
    }

    fn read_graph(&mut self, graph: &QueryGraph, arena: &Arena) {
        self.entities |= !graph.nodes.is_empty() || !graph.relationships.is_empty();
        for node in &graph.nodes {
            // One label suffices: the pattern cannot observe nodes without it.
            match labels_of(&graph.predicates, *node).next() {
                Some(label) => {
                    self.labels.some.insert(label);
                }
                None => self.nodes = true,
            }
        }
        for relationship in &graph.relationships {
            if relationship.types.is_empty() {
                self.types.all = true;
            }
            self.types.some.extend(&relationship.types);
            relationship.for_each_expr(&mut |condition| self.read_expr(condition, arena));
        }
        for predicate in &graph.predicates {
            self.read_expr(predicate, arena);
        }
    }

    fn read_expr(&mut self, expr: &BoundExpr, arena: &Arena) {
        match expr {
            BoundExpr::Property { base, name, .. } if reads_entity(base, arena) => {
                self.properties.some.insert(*name);
                self.entities = true;
            }
            // `n[name]`: the name is known when the row is.
            BoundExpr::Index { base, .. } if reads_entity(base, arena) => {
                self.properties.all = true;
                self.entities = true;
            }
            BoundExpr::MapProjection { items, .. } => {
                self.entities = true;
                self.properties.all |= items.iter().any(|item| matches!(item, MapItem::All));
            }
            BoundExpr::HasLabels { labels, .. } => {
                self.labels.all |= labels.is_empty();
                self.labels.some.extend(labels);
                self.entities = true;
            }
            // A sub-plan may read anything; a finer answer would save a barrier, a wrong one would change results.
            BoundExpr::Subquery(_) => self.everything = true,
            BoundExpr::Call { function, .. } => match function {
                Function::Labels => {
                    self.labels.all = true;
                    self.entities = true;
                }
                Function::Keys | Function::Properties => {
                    self.properties.all = true;
                    self.entities = true;
                }
                Function::Type | Function::StartNode | Function::EndNode => self.entities = true,
                Function::Degree => self.types.all = true,
                other => {
                    self.everything |= other.purity() == Purity::Reads && *other != Function::Exists
                }
            },
            BoundExpr::CallRegistered { .. } => self.everything = true,
            _ => {}
        }
        expr.for_each_child(&mut |child| self.read_expr(child, arena));
    }

    fn write_pattern(&mut self, pattern: &CreatePattern) {
        for item in &pattern.items {
            match item {
                CreateItem::Node(node) => {
                    self.nodes = true;
                    self.labels.some.extend(&node.labels);
                    self.labels.all |= !node.dynamic_labels.is_empty();
                }
                CreateItem::Relationship(relationship) => match relationship.rel_type {
                    CreatedType::Fixed(rel_type) => {
                        self.types.some.insert(rel_type);
                    }
                    CreatedType::Dynamic(_) => self.types.all = true,
                },
            }
        }
    }

    fn write_item(&mut self, item: &EntityChange) {
        match item {
            EntityChange::Property { name, .. } => {
                self.properties.some.insert(*name);
            }
            EntityChange::NestedProperty { path, .. }
            | EntityChange::RemoveProperty { path, .. }
            | EntityChange::Converge { path, .. } => {
                self.properties.some.extend(path.first());
            }
            EntityChange::DynamicProperty { .. }
            | EntityChange::Replace { .. }
            | EntityChange::Merge { .. } => {
                self.properties.all = true;
            }
            EntityChange::AddLabels {
                labels, dynamic, ..
            }
            | EntityChange::RemoveLabels {
                labels, dynamic, ..
            } => {
                self.labels.some.extend(labels);
                self.labels.all |= !dynamic.is_empty();
            }
        }
    }
}

/// Whether the base of a property access may be an entity rather than a plain map.
fn reads_entity(base: &BoundExpr, arena: &Arena) -> bool {
    match base {
        BoundExpr::Slot(slot) => matches!(
            arena.kind(*slot),
            StaticType::Node | StaticType::Relationship | StaticType::Any
        ),
        BoundExpr::Map(_) | BoundExpr::Const(_) | BoundExpr::Param(_) => false,
        // The entry of a map may be an entity; a property of an entity, and all that is in it, is not.
        BoundExpr::Property { base, .. } => !is_property_or_parameter(base, arena),
        _ => true,
    }
}

/// Whether the properties of a value are never entities, because it is an entity itself, a part of one of its
/// properties, or comes from outside of the database.
fn is_property_or_parameter(base: &BoundExpr, arena: &Arena) -> bool {
    match base {
        BoundExpr::Slot(slot) => matches!(
            arena.kind(*slot),
            StaticType::Node | StaticType::Relationship
        ),
        BoundExpr::Const(_) | BoundExpr::Param(_) => true,
        BoundExpr::Property { base, .. } => is_property_or_parameter(base, arena),
        _ => false,
    }
}

/// The read set and the write set of a step.
pub(crate) fn of_step(step: &LogicalStep, arena: &Arena) -> (Footprint, Footprint) {
    let (mut reads, mut writes) = (Footprint::default(), Footprint::default());
    match step {
        LogicalStep::Match { graph, .. } => reads.read_graph(graph, arena),
        LogicalStep::Filter(predicates) => predicates
            .iter()
            .for_each(|one| reads.read_expr(one, arena)),
        LogicalStep::Project(columns) => columns
            .iter()
            .for_each(|(_, one)| reads.read_expr(one, arena)),
        LogicalStep::Aggregate { keys, aggregates } => {
            keys.iter().for_each(|(_, one)| reads.read_expr(one, arena));
            aggregates
                .iter()
                .flat_map(|(_, call)| &call.arguments)
                .for_each(|one| reads.read_expr(one, arena));
        }
        LogicalStep::Sort(keys) => keys
            .iter()
            .for_each(|key| reads.read_expr(&key.expr, arena)),
        LogicalStep::Distinct(_)
        | LogicalStep::Skip(_)
        | LogicalStep::Limit(_)
        | LogicalStep::Show { .. } => {}
        LogicalStep::Unwind { list, .. } => reads.read_expr(list, arena),
        LogicalStep::LoadCsv { url, .. } => reads.read_expr(url, arena),
        LogicalStep::Call {
            procedure,
            arguments,
            ..
        } => {
            arguments.iter().for_each(|one| reads.read_expr(one, arena));
            // What a procedure reads is not described, only whether it writes.
            reads.everything = true;
            writes.everything = procedure.mode != ProcedureMode::Read;
        }
        LogicalStep::Apply { query, .. } => of_query(query, arena, &mut reads, &mut writes),
        // The other clauses read the statement's snapshot, which its transactions do not change.
        LogicalStep::Batches(_) => {}
        LogicalStep::Create(pattern) => {
            read_pattern(pattern, arena, &mut reads);
            writes.write_pattern(pattern);
        }
        LogicalStep::Merge(merge) => {
            reads.read_graph(&merge.graph, arena);
            writes.write_pattern(&merge.create);
            for item in merge.on_create.iter().chain(&merge.on_match) {
                read_item(item, arena, &mut reads);
                writes.write_item(item);
            }
        }
        LogicalStep::Set(items) => {
            for item in items {
                read_item(item, arena, &mut reads);
                writes.write_item(item);
            }
        }
        LogicalStep::Delete { targets, .. } => {
            targets.iter().for_each(|one| reads.read_expr(one, arena));
            // A deletion disturbs every read of an entity: a deleted node has neither labels nor
            // properties. And with `DETACH` it removes relationships of any type.
            writes.entities = true;
            writes.types.all = true;
        }
        LogicalStep::ForEach { list, body, .. } => {
            reads.read_expr(list, arena);
            for inner in body {
                let (inner_reads, inner_writes) = of_step(inner, arena);
                reads.absorb(&inner_reads);
                writes.absorb(&inner_writes);
            }
        }
    }
    (reads, writes)
}

/// Whether an expression in one of two patterns could observe the creation of the other one: in one operator, that for
/// an earlier row.
pub(crate) fn sees_creation(one: &CreatePattern, other: &CreatePattern, arena: &Arena) -> bool {
    let sees = |reader: &CreatePattern, writer: &CreatePattern| {
        let (mut reads, mut writes) = (Footprint::default(), Footprint::default());
        read_pattern(reader, arena, &mut reads);
        writes.write_pattern(writer);
        reads.disturbed_by(&writes)
    };
    sees(one, other) || sees(other, one)
}

fn of_query(query: &LogicalQuery, arena: &Arena, reads: &mut Footprint, writes: &mut Footprint) {
    for step in query.branches.iter().flatten() {
        let (step_reads, step_writes) = of_step(step, arena);
        reads.absorb(&step_reads);
        writes.absorb(&step_writes);
    }
}

fn read_pattern(pattern: &CreatePattern, arena: &Arena, reads: &mut Footprint) {
    for item in &pattern.items {
        item.for_each_expr(&mut |expr| reads.read_expr(expr, arena));
    }
}

fn read_item(item: &EntityChange, arena: &Arena, reads: &mut Footprint) {
    match item {
        EntityChange::Property { value, .. } | EntityChange::NestedProperty { value, .. } => {
            reads.read_expr(value, arena)
        }
        EntityChange::Converge { arguments, .. } => arguments
            .iter()
            .for_each(|value| reads.read_expr(value, arena)),
        EntityChange::DynamicProperty { name, value, .. } => {
            reads.read_expr(name, arena);
            reads.read_expr(value, arena);
        }
        EntityChange::Replace { value, .. } | EntityChange::Merge { value, .. } => {
            reads.read_expr(value, arena);
            // Copies all properties of another entity.
            reads.properties.all |= !matches!(value, BoundExpr::Map(_) | BoundExpr::Param(_));
        }
        EntityChange::AddLabels { dynamic, .. } | EntityChange::RemoveLabels { dynamic, .. } => {
            dynamic
                .iter()
                .for_each(|names| reads.read_expr(names, arena));
        }
        EntityChange::RemoveProperty { .. } => {}
    }
}
