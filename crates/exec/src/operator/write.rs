//! Creating and changing nodes and relationships.

use std::sync::Arc;

use isomer_data::{ConvergentOwner, RelRow};
use isomer_plan::{
    expr::{BoundExpr, LabelRef, PropRef, SlotId, TypeRef},
    physical::{
        CreateItem, CreateNode, CreatePattern, CreateRelationship, CreatedType, EntityChange, Op,
        Properties,
    },
};
use isomer_value::{LabelId, Map, NodeId, Relationship, TypeId, Value};

use super::{Argument, Child, Operate, OperatorRef, converge, scan::misplaced};
use crate::{
    chunk::Chunk,
    column::Column,
    context::{Cx, write_error},
    error::{ErrorClass, ExecError, Result, shown},
    eval::{Row, properties_of, value},
    function::{Environment, computed_names},
    names::label_number,
};

/// Creates a pattern for each row.
pub(super) struct Create {
    op_ref: OperatorRef,
    input: Child,
}

impl Create {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

impl Operate for Create {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Create { pattern, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let Some(chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        let mut made = create_rows(pattern, chunk, NullProperty::LeftOut, cx)?;
        op_ref.prune(&mut made);
        Ok(Some(made))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// What a null property in a pattern means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NullProperty {
    /// `CREATE` ignores the property.
    LeftOut,
    /// `MERGE` fails.
    Refused,
}

/// Creates the pattern for each row of `chunk` and adds what it created to the rows.
pub(super) fn create_rows(
    pattern: &CreatePattern,
    mut chunk: Chunk,
    nulls: NullProperty,
    cx: &mut Cx<'_>,
) -> Result<Chunk> {
    if chunk.len() == 1 {
        return create_one(pattern, chunk, nulls, cx);
    }
    // Bulk loads create relationships between known nodes: one call per batch instead of one per row.
    if let Some((one, rel_type)) = sole_link(pattern) {
        return create_links(one, rel_type, chunk, cx);
    }
    // Nothing in the pattern reads another part of it, so columns can be filled without a row for each.
    if pattern.paths.is_empty() && !reads_created(pattern) {
        return create_all(pattern, chunk, nulls, cx);
    }
    let mut made = Chunk::default();
    for row in 0..chunk.len() {
        cx.tick(1)?;
        made.append(create_one(pattern, chunk.gather(&[row as u32]), nulls, cx)?);
    }
    chunk.truncate(0);
    Ok(made)
}

/// The slot that an item of a pattern fills.
fn created(item: &CreateItem) -> SlotId {
    match item {
        CreateItem::Node(node) => node.node,
        CreateItem::Relationship(one) => one.relationship,
    }
}

/// Whether properties of a pattern read something that the pattern creates.
fn reads_created(pattern: &CreatePattern) -> bool {
    let created: Vec<SlotId> = pattern.items.iter().map(created).collect();
    let mut reads = false;
    let mut look =
        |expr: &BoundExpr| expr.for_each_slot(&mut |slot| reads |= created.contains(&slot));
    for item in &pattern.items {
        item.for_each_expr(&mut look);
    }
    reads
}

/// The relationship of a pattern that creates a single relationship of a fixed type without properties, and nothing
/// else.
fn sole_link(pattern: &CreatePattern) -> Option<(&CreateRelationship, TypeRef)> {
    let [CreateItem::Relationship(one)] = &pattern.items[..] else {
        return None;
    };
    let CreatedType::Fixed(rel_type) = one.rel_type else {
        return None;
    };
    let bare = matches!(&one.properties, Properties::Entries(entries) if entries.is_empty());
    (bare && pattern.paths.is_empty()).then_some((one, rel_type))
}

/// Relationships per batch: few enough that cancellation is noticed soon.
const RELATIONSHIPS_PER_BATCH: usize = 1_024;

/// Creates a relationship without properties for each row of a chunk, one after the other, and adds a column of them.
fn create_links(
    one: &CreateRelationship,
    rel_type: TypeRef,
    mut chunk: Chunk,
    cx: &mut Cx<'_>,
) -> Result<Chunk> {
    let mut made = Vec::with_capacity(chunk.len());
    let mut ends = Vec::with_capacity(RELATIONSHIPS_PER_BATCH.min(chunk.len()));
    let mut rows = 0..chunk.len();
    while !rows.is_empty() {
        cx.tick(RELATIONSHIPS_PER_BATCH.min(rows.len()))?;
        ends.clear();
        // A row without ends fails only after the rows before it were created: they may fail first with their own
        // error.
        let mut next = rows.by_ref().take(RELATIONSHIPS_PER_BATCH);
        let refused: Result<()> = next.try_for_each(|row| {
            let source = end_at(&chunk, row, one.source, cx)?;
            ends.push((source, end_at(&chunk, row, one.target, cx)?));
            Ok(())
        });
        if !ends.is_empty() {
            // Only now does a new type get a number: a statement that creates no relationship
            // adds no name to the catalog.
            let type_id = fixed_type(rel_type, cx)?;
            cx.tx
                .graph_mut()
                .create_relationships(type_id, &ends, &mut made)
                .map_err(write_error)?;
        }
        refused?;
    }
    cx.run.report.counters.relationships_created += made.len() as u64;
    chunk.set(one.relationship, Column::Rels(made));
    Ok(chunk)
}

/// What an item of a pattern has created so far: one entity per row.
enum CreatedEntities {
    Nodes(Vec<NodeId>),
    Rels(Vec<RelRow>),
}

/// An end of a relationship that is created.
#[derive(Clone, Copy)]
enum End {
    /// Created by the item with this index, for the same row.
    Item(usize),
    /// A column of the rows.
    Column,
}

/// Creates the pattern for the rows of a chunk, one after the other, and adds columns of what was created.
fn create_all(
    pattern: &CreatePattern,
    mut chunk: Chunk,
    nulls: NullProperty,
    cx: &mut Cx<'_>,
) -> Result<Chunk> {
    let end_of = |slot: SlotId| {
        let item = pattern.items.iter().position(|item| created(item) == slot);
        item.map_or(End::Column, End::Item)
    };
    let mut made: Vec<CreatedEntities> = Vec::with_capacity(pattern.items.len());
    let mut ends = Vec::with_capacity(pattern.items.len());
    for item in &pattern.items {
        let (column, of_item) = match item {
            CreateItem::Node(_) => (
                CreatedEntities::Nodes(Vec::with_capacity(chunk.len())),
                None,
            ),
            CreateItem::Relationship(one) => (
                CreatedEntities::Rels(Vec::with_capacity(chunk.len())),
                Some((end_of(one.source), end_of(one.target))),
            ),
        };
        made.push(column);
        ends.push(of_item);
    }
    for row in 0..chunk.len() {
        cx.tick(1)?;
        let place = Row { chunk: &chunk, row };
        for (at, item) in pattern.items.iter().enumerate() {
            // Ends that this pattern creates come from the columns under construction: the chunk does not have them
            // yet.
            let node = |end: End, slot: SlotId, made: &[CreatedEntities], cx: &Cx<'_>| match end {
                End::Item(item) => match &made[item] {
                    CreatedEntities::Nodes(nodes) => Ok(nodes[row]),
                    CreatedEntities::Rels(_) => Err(no_node(&Value::Null, slot, cx)),
                },
                End::Column => end_at(&chunk, row, slot, cx),
            };
            match item {
                CreateItem::Node(one) => {
                    let id = create_node(one, place, nulls, cx)?;
                    if let CreatedEntities::Nodes(nodes) = &mut made[at] {
                        nodes.push(id);
                    }
                }
                CreateItem::Relationship(one) => {
                    // In the order of `create_one`: properties, ends, type. The same error is
                    // reported whichever of the two runs.
                    let properties = pattern_properties(&one.properties, place, nulls, cx)?;
                    let Some((source, target)) = ends[at] else {
                        continue;
                    };
                    let source = node(source, one.source, &made, cx)?;
                    let target = node(target, one.target, &made, cx)?;
                    let type_id = created_type(&one.rel_type, place, cx)?;
                    let rel = create_relationship(type_id, source, target, &properties, cx)?;
                    if let CreatedEntities::Rels(rels) = &mut made[at] {
                        rels.push(rel);
                    }
                }
            }
        }
    }
    for (item, column) in pattern.items.iter().zip(made) {
        let column = match column {
            CreatedEntities::Nodes(nodes) => Column::Nodes(nodes),
            CreatedEntities::Rels(rels) => Column::Rels(rels),
        };
        chunk.set(created(item), column);
    }
    Ok(chunk)
}

fn create_node(
    node: &CreateNode,
    row: Row<'_>,
    nulls: NullProperty,
    cx: &mut Cx<'_>,
) -> Result<NodeId> {
    let properties = pattern_properties(&node.properties, row, nulls, cx)?;
    let mut labels = Vec::with_capacity(node.labels.len());
    for label in &node.labels {
        labels.push(match cx.label(*label) {
            Some(id) => id,
            None => {
                let plan = cx.run.plan.clone();
                cx.tx.name_ids().intern_label(plan.label_name(*label))?
            }
        });
    }
    for name in names_of(&node.dynamic_labels, row, cx)? {
        let id = cx.tx.name_ids().intern_label(&name)?;
        // `labels.len()` is reported as the number of labels added; a computed
        // name may repeat a written one.
        if !labels.contains(&id) {
            labels.push(id);
        }
    }
    let id = cx
        .tx
        .graph_mut()
        .create_node(&labels, &properties)
        .map_err(write_error)?;
    cx.run.report.counters.nodes_created += 1;
    cx.run.report.counters.labels_added += labels.len() as u64;
    cx.run.report.counters.properties_set += properties.len() as u64;
    Ok(id)
}

fn create_relationship(
    type_id: TypeId,
    source: NodeId,
    target: NodeId,
    properties: &Map,
    cx: &mut Cx<'_>,
) -> Result<RelRow> {
    let id = cx
        .tx
        .graph_mut()
        .create_relationship(type_id, source, target, properties)
        .map_err(write_error)?;
    cx.run.report.counters.relationships_created += 1;
    cx.run.report.counters.properties_set += properties.len() as u64;
    Ok(RelRow {
        id,
        type_id,
        source,
        target,
    })
}

/// The type's number; a new name gets one.
fn fixed_type(rel_type: TypeRef, cx: &mut Cx<'_>) -> Result<TypeId> {
    match cx.rel_type(rel_type) {
        Some(id) => Ok(id),
        None => {
            let plan = cx.run.plan.clone();
            Ok(cx.tx.name_ids().intern_type(plan.type_name(rel_type))?)
        }
    }
}

/// The number of the type of a relationship to create.
fn created_type(rel_type: &CreatedType, row: Row<'_>, cx: &mut Cx<'_>) -> Result<TypeId> {
    let name = match rel_type {
        CreatedType::Fixed(rel_type) => return fixed_type(*rel_type, cx),
        CreatedType::Dynamic(name) => value(name, row, cx)?,
    };
    match computed_names(&name)?.as_slice() {
        [name] => Ok(cx.tx.name_ids().intern_type(name)?),
        names => Err(ExecError::raised(
            ErrorClass::ArgumentError,
            "InvalidArgumentValue",
            format!(
                "a relationship is created with one type, and {} were computed",
                names.len()
            ),
        )),
    }
}

/// The labels that expressions compute for a row.
fn names_of(labels: &[BoundExpr], row: Row<'_>, cx: &mut Cx<'_>) -> Result<Vec<Arc<str>>> {
    let mut names = Vec::new();
    for expr in labels {
        names.append(&mut computed_names(&value(expr, row, cx)?)?);
    }
    Ok(names)
}

/// Creates the pattern for a chunk of one row.
fn create_one(
    pattern: &CreatePattern,
    mut chunk: Chunk,
    nulls: NullProperty,
    cx: &mut Cx<'_>,
) -> Result<Chunk> {
    for item in &pattern.items {
        let row = Row {
            chunk: &chunk,
            row: 0,
        };
        match item {
            CreateItem::Node(node) => {
                let id = create_node(node, row, nulls, cx)?;
                // Set at once: properties of later items, and paths, may read what this item created.
                chunk.set(node.node, Column::Nodes(vec![id]));
            }
            CreateItem::Relationship(one) => {
                let properties = pattern_properties(&one.properties, row, nulls, cx)?;
                let source = end_at(&chunk, 0, one.source, cx)?;
                let target = end_at(&chunk, 0, one.target, cx)?;
                let type_id = created_type(&one.rel_type, row, cx)?;
                let rel = create_relationship(type_id, source, target, &properties, cx)?;
                chunk.set(one.relationship, Column::Rels(vec![rel]));
            }
        }
    }
    for (slot, path) in &pattern.paths {
        let path = value(
            path,
            Row {
                chunk: &chunk,
                row: 0,
            },
            cx,
        )?;
        chunk.set(*slot, Column::Values(vec![path]));
    }
    Ok(chunk)
}

fn end_at(chunk: &Chunk, row: usize, slot: SlotId, cx: &Cx<'_>) -> Result<NodeId> {
    let column = chunk.column(slot);
    match column.and_then(|column| column.node(row)) {
        Some(node) => {
            // An earlier row may have deleted the node, and this row was computed before that. A
            // relationship to it would have no end.
            cx.check_node(node)?;
            Ok(node)
        }
        None => Err(no_node(&chunk.value(slot, row), slot, cx)),
    }
}

fn no_node(value: &Value, slot: SlotId, cx: &Cx<'_>) -> ExecError {
    ExecError::raised(
        ErrorClass::SemanticError,
        "InvalidEndpoint",
        format!(
            "a relationship needs a node at both ends, `{}` is {}",
            cx.run.plan.slots[slot.index()].name,
            shown(value)
        ),
    )
}

/// The properties of a pattern for one row.
pub(super) fn pattern_properties(
    properties: &Properties,
    row: Row<'_>,
    nulls: NullProperty,
    cx: &mut Cx<'_>,
) -> Result<Map> {
    let mut map = Map::new();
    match properties {
        Properties::Entries(entries) => {
            for (name, expr) in entries {
                let value = value(expr, row, cx)?;
                put(&mut map, cx.run.plan.property_name(*name), value, nulls)?;
            }
        }
        Properties::Map(expr) => match value(expr, row, cx)? {
            Value::Map(given) => {
                for (name, item) in given.iter() {
                    put(&mut map, name, item.clone(), nulls)?;
                }
            }
            Value::Null => {}
            other => {
                return Err(ExecError::type_mismatch(format!(
                    "the properties of a pattern are a map, not {}",
                    shown(&other)
                )));
            }
        },
    }
    Ok(map)
}

fn put(map: &mut Map, name: &Arc<str>, value: Value, nulls: NullProperty) -> Result<()> {
    if value.is_null() {
        map.remove(name);
        return match nulls {
            NullProperty::LeftOut => Ok(()),
            NullProperty::Refused => Err(ExecError::raised(
                ErrorClass::SemanticError,
                "MergeReadOwnWrites",
                format!(
                    "MERGE cannot look for `{name}: null`: null equals nothing; leave the property out, or SET it afterwards"
                ),
            )),
        };
    }
    storable(name, &value)?;
    map.insert(name.clone(), value);
    Ok(())
}

/// Refuses values that cannot be stored as properties: entities, and lists that contain maps or entities.
pub(super) fn storable(name: &str, value: &Value) -> Result<()> {
    fn refused(name: &str, what: &Value) -> ExecError {
        ExecError::raised(
            ErrorClass::TypeError,
            "InvalidPropertyType",
            format!(
                "the property `{name}` cannot hold {}: store its properties or its key",
                shown(what)
            ),
        )
    }
    fn check(name: &str, value: &Value, levels: usize) -> Result<()> {
        match value {
            Value::Node(_) | Value::Relationship(_) | Value::Path(_) => Err(refused(name, value)),
            // Deeper nesting is refused by the data layer.
            Value::List(items) if levels > 0 => items
                .iter()
                .try_for_each(|item| check(name, item, levels - 1)),
            Value::Map(map) if levels > 0 => map
                .values()
                .try_for_each(|item| check(name, item, levels - 1)),
            _ => Ok(()),
        }
    }
    check(name, value, isomer_value::limits::MAX_NESTING)
}

/// Changes properties and labels for each row.
pub(super) struct Set {
    op_ref: OperatorRef,
    input: Child,
}

impl Set {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self { op_ref, input }
    }
}

impl Operate for Set {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Set { items, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        for row in 0..chunk.len() {
            cx.tick(1)?;
            // Row by row, and item by item: a later one reads what an earlier one has set.
            apply_items(items, Row { chunk: &chunk, row }, cx)?;
        }
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

/// The target of a change.
enum Entity {
    Node(NodeId),
    Relationship(Arc<Relationship>),
}

impl Entity {
    /// The entity; none if it is null: then the change is skipped.
    fn of(expr: &BoundExpr, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Option<Self>> {
        match value(expr, row, cx)? {
            // As after an `OPTIONAL MATCH` without a match.
            Value::Null => Ok(None),
            Value::Node(node) => {
                cx.check_node(node.id)?;
                Ok(Some(Self::Node(node.id)))
            }
            Value::Relationship(relationship) => {
                // The row has a copy of the relationship, which outlives its record.
                if cx.run.deleted.rels.contains(relationship.id.0) {
                    return Err(ExecError::deleted(format!(
                        "relationship {}",
                        relationship.id
                    )));
                }
                Ok(Some(Self::Relationship(relationship)))
            }
            other => Err(ExecError::type_mismatch(format!(
                "SET and REMOVE change nodes and relationships, not {}",
                shown(&other)
            ))),
        }
    }

    fn set(&self, path: &[&str], value: Value, cx: &mut Cx<'_>) -> Result<()> {
        if let Some(last) = path.last() {
            storable(last, &value)?;
        }
        match self {
            Self::Node(id) => cx.tx.graph_mut().set_node_property(*id, path, value),
            Self::Relationship(relationship) => {
                cx.tx
                    .graph_mut()
                    .set_relationship_property(relationship.id, path, value)
            }
        }
        .map_err(write_error)?;
        cx.run.report.counters.properties_set += 1;
        Ok(())
    }

    fn properties(&self, cx: &Cx<'_>) -> Result<Map> {
        match self {
            Self::Node(id) => cx.node_properties(*id),
            Self::Relationship(relationship) => cx.relationship_properties(relationship),
        }
    }
}

/// Makes the changes for one row, one after the other.
pub(super) fn apply_items(items: &[EntityChange], row: Row<'_>, cx: &mut Cx<'_>) -> Result<()> {
    items.iter().try_for_each(|item| apply_item(item, row, cx))
}

fn names<'p>(plan: &'p isomer_plan::Plan, path: &[PropRef]) -> Vec<&'p str> {
    path.iter()
        .map(|name| &**plan.property_name(*name))
        .collect()
}

fn apply_item(item: &EntityChange, row: Row<'_>, cx: &mut Cx<'_>) -> Result<()> {
    let plan = cx.run.plan.clone();
    match item {
        EntityChange::Property {
            entity,
            name,
            value: expr,
        } => {
            let Some(entity) = Entity::of(entity, row, cx)? else {
                return Ok(());
            };
            let new = value(expr, row, cx)?;
            entity.set(&[plan.property_name(*name)], new, cx)
        }
        EntityChange::NestedProperty {
            entity,
            path,
            value: expr,
        } => {
            let Some(entity) = Entity::of(entity, row, cx)? else {
                return Ok(());
            };
            let new = value(expr, row, cx)?;
            entity.set(&names(&plan, path), new, cx)
        }
        EntityChange::DynamicProperty {
            entity,
            name,
            value: expr,
        } => {
            let Some(entity) = Entity::of(entity, row, cx)? else {
                return Ok(());
            };
            let new = value(expr, row, cx)?;
            match value(name, row, cx)? {
                Value::String(name) => entity.set(&[&name], new, cx),
                other => Err(ExecError::type_mismatch(format!(
                    "a property is named by a string, not by {}",
                    shown(&other)
                ))),
            }
        }
        EntityChange::Converge {
            entity,
            path,
            operation,
            arguments,
        } => {
            let Some(entity) = Entity::of(entity, row, cx)? else {
                return Ok(());
            };
            let mut given = Vec::with_capacity(arguments.len());
            for argument in arguments {
                given.push(value(argument, row, cx)?);
            }
            let owner = match &entity {
                Entity::Node(id) => ConvergentOwner::Node(*id),
                Entity::Relationship(one) => ConvergentOwner::Relationship(one.id),
            };
            let path = names(&plan, path);
            for op in converge::operations(*operation, given)? {
                cx.tick(1)?;
                cx.tx
                    .fields_mut()
                    .converge(owner, &path, &op, None)
                    .map_err(write_error)?;
            }
            cx.run.report.counters.properties_set += 1;
            Ok(())
        }
        EntityChange::RemoveProperty { entity, path } => {
            let Some(entity) = Entity::of(entity, row, cx)? else {
                return Ok(());
            };
            entity.set(&names(&plan, path), Value::Null, cx)
        }
        EntityChange::Replace {
            entity,
            value: expr,
        } => change_all(entity, expr, row, true, cx),
        EntityChange::Merge {
            entity,
            value: expr,
        } => change_all(entity, expr, row, false, cx),
        EntityChange::AddLabels {
            entity,
            labels,
            dynamic,
        } => add_labels(entity, labels, dynamic, row, cx),
        EntityChange::RemoveLabels {
            entity,
            labels,
            dynamic,
        } => remove_labels(entity, labels, dynamic, row, cx),
    }
}

fn add_labels(
    entity: &BoundExpr,
    labels: &[LabelRef],
    dynamic: &[BoundExpr],
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let Some(node) = labelled(entity, row, cx)? else {
        return Ok(());
    };
    let plan = cx.run.plan.clone();
    let mut ids = Vec::with_capacity(labels.len());
    for label in labels {
        ids.push(match cx.label(*label) {
            Some(id) => id,
            None => cx.tx.name_ids().intern_label(plan.label_name(*label))?,
        });
    }
    for name in names_of(dynamic, row, cx)? {
        ids.push(cx.tx.name_ids().intern_label(&name)?);
    }
    for id in ids {
        cx.run.report.counters.labels_added +=
            u64::from(cx.tx.graph_mut().add_label(node, id).map_err(write_error)?);
    }
    Ok(())
}

fn remove_labels(
    entity: &BoundExpr,
    labels: &[LabelRef],
    dynamic: &[BoundExpr],
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let Some(node) = labelled(entity, row, cx)? else {
        return Ok(());
    };
    // Names without a number are on no node. They are not added to the catalog,
    // in contrast to `add_labels`.
    let mut ids: Vec<LabelId> = labels.iter().filter_map(|one| cx.label(*one)).collect();
    let names = names_of(dynamic, row, cx)?;
    ids.extend(names.iter().filter_map(|name| label_number(cx.tx, name)));
    for id in ids {
        let removed = cx.tx.graph_mut().remove_label(node, id);
        cx.run.report.counters.labels_removed += u64::from(removed.map_err(write_error)?);
    }
    Ok(())
}

fn labelled(entity: &BoundExpr, row: Row<'_>, cx: &mut Cx<'_>) -> Result<Option<NodeId>> {
    match Entity::of(entity, row, cx)? {
        None => Ok(None),
        Some(Entity::Node(id)) => Ok(Some(id)),
        Some(Entity::Relationship(_)) => Err(ExecError::type_mismatch(
            "only nodes have labels: a relationship's type cannot change",
        )),
    }
}

/// `SET e = map` and `SET e += map`.
fn change_all(
    entity: &BoundExpr,
    expr: &BoundExpr,
    row: Row<'_>,
    replace: bool,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let Some(entity) = Entity::of(entity, row, cx)? else {
        return Ok(());
    };
    let given = match value(expr, row, cx)? {
        Value::Null if !replace => return Ok(()),
        Value::Null => Map::new(),
        other => properties_of(&other, cx)?,
    };
    given
        .iter()
        .try_for_each(|(name, value)| storable(name, value))?;
    let changed = if replace {
        let before = entity.properties(cx)?;
        let given: Map = given
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        match &entity {
            Entity::Node(id) => cx.tx.graph_mut().replace_node_properties(*id, &given),
            Entity::Relationship(one) => cx
                .tx
                .graph_mut()
                .replace_relationship_properties(one.id, &given),
        }
        .map_err(write_error)?;
        given.len()
            + before
                .iter()
                .filter(|(name, _)| !given.contains(name))
                .count()
    } else {
        // The old properties are only read to count those that are removed.
        let removes = given.iter().any(|(_, value)| value.is_null());
        let before = removes.then(|| entity.properties(cx)).transpose()?;
        match &entity {
            Entity::Node(id) => cx.tx.graph_mut().merge_node_properties(*id, &given),
            Entity::Relationship(one) => cx
                .tx
                .graph_mut()
                .merge_relationship_properties(one.id, &given),
        }
        .map_err(write_error)?;
        given
            .iter()
            .filter(|(name, value)| {
                !value.is_null() || before.as_ref().is_some_and(|before| before.contains(name))
            })
            .count()
    };
    cx.run.report.counters.properties_set += changed as u64;
    Ok(())
}

/// Runs its body for each element of a list, then passes the row on.
pub(super) struct ForEach {
    op_ref: OperatorRef,
    input: Child,
    body: Child,
}

impl ForEach {
    pub(super) fn new(op_ref: OperatorRef, input: Child, body: Child) -> Self {
        Self {
            op_ref,
            input,
            body,
        }
    }
}

impl Operate for ForEach {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::ForEach { list, element, .. } = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let Some(mut chunk) = self.input.pull_flat(cx)? else {
            return Ok(None);
        };
        for row in 0..chunk.len() {
            let items = match value(list, Row { chunk: &chunk, row }, cx)? {
                Value::Null => continue,
                Value::List(items) => items,
                other => {
                    return Err(ExecError::type_mismatch(format!(
                        "FOREACH iterates over a list, not {}",
                        shown(&other)
                    )));
                }
            };
            for item in items.iter() {
                cx.tick(1)?;
                let mut outer = chunk.gather(&[row as u32]);
                outer.set(*element, Column::Values(vec![item.clone()]));
                // Each element runs the whole body before the next one is looked at: the body may read what an
                // earlier element has written, so elements cannot be passed to it as a chunk.
                self.body.open(&Argument::new(outer));
                while self.body.pull(cx)?.is_some() {}
                self.body.close(cx);
            }
        }
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.body.close(cx);
    }
}
