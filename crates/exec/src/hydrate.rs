//! Hydration: entities get their contents when they leave a query, read in batches, once per distinct entity.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use isomer_data::{GraphRead, RelRow, Transaction};
use isomer_plan::physical::{Op, OpId};
use isomer_value::{
    Map, Node, NodeContent, NodeId, Path, RelId, Relationship, RelationshipContent, TypeId, Value,
};
use rustc_hash::FxHashMap;

use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
    result::ResultRows,
    value_size::{own_content_bytes, own_relationship_bytes},
};

/// Turns a chunk of `ProduceResult` into rows. Where there is no room for the contents of all of its entities
/// ([`ExecError::BatchFull`]), the chunk is as it was.
pub(crate) fn produce(
    cx: &mut Cx<'_>,
    chunk: &mut Chunk,
    root: OpId,
    rows: &mut ResultRows,
) -> Result<()> {
    let plan = cx.run.plan.clone();
    let Op::ProduceResult { columns, .. } = &plan.operator(root).op else {
        return Err(ExecError::Internal("a result without its operator".into()));
    };
    chunk.flatten();
    let len = chunk.len();
    // All is read before a column is taken.
    let mut read = Vec::with_capacity(columns.len());
    for slot in columns {
        read.push(match chunk.column(*slot) {
            Some(Column::Nodes(nodes)) => Read::Nodes(whole_nodes(cx, nodes)?),
            Some(Column::Values(values)) => Read::Contents(Contents::of(cx, values)?),
            Some(Column::Const(value)) => {
                Read::Contents(Contents::of(cx, std::slice::from_ref(value))?)
            }
            Some(Column::Rels(rels)) => Read::Contents(Contents::of_relationships(cx, rels)?),
            _ => Read::Contents(None),
        });
    }
    let mut filled = Vec::with_capacity(columns.len());
    // A column is copied only if another column of the result uses the same slot.
    let mut uses = vec![0_u32; plan.slots.len()];
    columns.iter().for_each(|slot| uses[slot.index()] += 1);
    for (slot, read) in columns.iter().zip(read) {
        uses[slot.index()] -= 1;
        filled.push(match read {
            Read::Nodes(nodes) => nodes,
            Read::Contents(contents) => {
                let column = match uses[slot.index()] {
                    0 => chunk.take(*slot),
                    _ => chunk.column(*slot).cloned(),
                };
                let column = column.unwrap_or(Column::Const(Value::Null));
                let mut values = column.into_values(len);
                if let Some(contents) = contents {
                    values.iter_mut().for_each(|value| contents.place(value));
                }
                values
            }
        });
    }
    let values = rows.values_mut();
    match filled.as_mut_slice() {
        [only] => values.append(only),
        _ => {
            values.reserve(len * columns.len());
            let mut filled: Vec<_> = filled.into_iter().map(Vec::into_iter).collect();
            for _ in 0..len {
                values.extend(filled.iter_mut().filter_map(Iterator::next));
            }
        }
    }
    rows.add_rows(len);
    Ok(())
}

/// What was read for a column of the result.
enum Read {
    /// All of its values.
    Nodes(Vec<Value>),
    /// The contents of the entities in it, where there are some.
    Contents(Option<Contents>),
}

/// Nodes with their contents, in the order of the ids; each is read once.
fn whole_nodes(cx: &mut Cx<'_>, nodes: &[NodeId]) -> Result<Vec<Value>> {
    let make = |id, content: Option<_>| {
        let content = Some(content.unwrap_or_default());
        Value::Node(Arc::new(Node { id, content }))
    };
    // They are often in order and without duplicates.
    if nodes.is_sorted_by(|one, next| one < next) {
        return read_nodes(cx, nodes, make);
    }
    let mut order: Vec<(NodeId, usize)> = nodes.iter().copied().zip(0..).collect();
    order.sort_unstable();
    let mut ids: Vec<NodeId> = order.iter().map(|(id, _)| *id).collect();
    ids.dedup();
    let mut whole = read_nodes(cx, &ids, make)?.into_iter();
    let mut placed = vec![Value::Null; nodes.len()];
    for same in order.chunk_by(|one, next| one.0 == next.0) {
        let node = whole.next().unwrap_or_default();
        for (_, at) in &same[1..] {
            placed[*at] = node.clone();
        }
        placed[same[0].1] = node;
    }
    Ok(placed)
}

/// Below this number of records per thread, starting a thread costs more than it saves.
const RECORDS_PER_THREAD: usize = 256;

/// Applies `make` to labels and properties of nodes, whose ids ascend. Large batches are read by several threads.
fn read_nodes<T: Send>(
    cx: &mut Cx<'_>,
    ids: &[NodeId],
    make: impl Fn(NodeId, Option<Arc<NodeContent>>) -> T + Sync,
) -> Result<Vec<T>> {
    let room = Room::new(cx);
    let read = read_in(&room, cx, ids, make);
    // What was read is counted, also where it was too much for one batch.
    cx.run.watch.count_computed(room.bytes())?;
    read
}

fn read_in<T: Send>(
    room: &Room,
    cx: &mut Cx<'_>,
    ids: &[NodeId],
    make: impl Fn(NodeId, Option<Arc<NodeContent>>) -> T + Sync,
) -> Result<Vec<T>> {
    let threads = (ids.len() / RECORDS_PER_THREAD).min(cx.run.threads.workers);
    let forks: Option<Vec<Transaction>> = (1..threads).map(|_| cx.tx.fork()).collect();
    let mut made = Vec::with_capacity(ids.len());
    let forks = match forks {
        Some(forks) if !forks.is_empty() => forks,
        _ => {
            room.read(cx.tx, ids, &make, &mut made)?;
            return Ok(made);
        }
    };
    let (own, others) = ids.split_at(ids.len() / threads);
    let parts = others.chunks(others.len().div_ceil(forks.len()));
    std::thread::scope(|scope| {
        let helpers: Vec<_> = forks
            .into_iter()
            .zip(parts)
            .map(|(fork, part)| {
                let make = &make;
                scope.spawn(move || {
                    let mut made = Vec::with_capacity(part.len());
                    room.read(&fork, part, make, &mut made).map(|()| made)
                })
            })
            .collect();
        room.read(cx.tx, own, &make, &mut made)?;
        for helper in helpers {
            match helper.join() {
                Ok(more) => made.extend(more?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(made)
    })
}

/// Bytes of records that are read at once, before they are counted. Smaller batches are not counted, to keep small
/// records fast.
const READ_BYTES: usize = 256 << 10;

/// What the records that several threads read may take.
struct Room {
    bytes: AtomicUsize,
    /// More ends the batch early.
    most: usize,
}

impl Room {
    fn new(cx: &Cx<'_>) -> Self {
        Self {
            bytes: AtomicUsize::new(0),
            most: cx.run.watch.computable_bytes(),
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Reads labels and properties of nodes.
    fn read<T>(
        &self,
        transaction: &Transaction,
        ids: &[NodeId],
        make: &impl Fn(NodeId, Option<Arc<NodeContent>>) -> T,
        made: &mut Vec<T>,
    ) -> Result<()> {
        let mut found = Vec::with_capacity(ids.len());
        let mut rest = ids;
        loop {
            transaction
                .graph()
                .node_contents_within(rest, READ_BYTES, &mut found)?;
            let is_last = found.len() >= rest.len();
            // Of the last records, which are small together, only the last one may be large.
            let counted = if is_last {
                &found[found.len().saturating_sub(1)..]
            } else {
                &found[..]
            };
            let bytes: usize = counted.iter().flatten().map(own_content_bytes).sum();
            let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
            if before > 0 && before.saturating_add(bytes) > self.most {
                return Err(ExecError::BatchFull);
            }
            let (read, later) = rest.split_at(found.len());
            let read = read.iter().zip(found.drain(..));
            made.extend(read.map(|(id, content)| make(*id, content)));
            rest = later;
            if is_last {
                return Ok(());
            }
        }
    }
}

/// About what an entity takes while a result is made, its content aside.
const ENTITY_BYTES: usize = 128;

/// The entities in some values, and their contents.
#[derive(Default)]
struct Contents {
    nodes: FxHashMap<NodeId, Option<Arc<NodeContent>>>,
    rels: FxHashMap<RelId, Option<Arc<RelationshipContent>>>,
    /// Contains the names of relationships that this statement deleted: they still have their type.
    type_names: FxHashMap<TypeId, Arc<str>>,
}

/// Reads the contents of all entities in `values`, including those in lists, maps and paths.
pub(crate) fn fill(cx: &mut Cx<'_>, values: &mut [Value]) -> Result<()> {
    if let [Value::Node(node)] = values {
        let id = node.id;
        let content = read_nodes(cx, &[id], |_, content| content)?.pop().flatten();
        values[0] = Value::Node(Arc::new(Node {
            id,
            content: Some(content.unwrap_or_default()),
        }));
        return Ok(());
    }
    if let Some(contents) = Contents::of(cx, values)? {
        values.iter_mut().for_each(|value| contents.place(value));
    }
    Ok(())
}

impl Contents {
    /// The contents of all entities in `values`, those in lists, maps and paths too; none if there are no entities.
    fn of(cx: &mut Cx<'_>, values: &[Value]) -> Result<Option<Self>> {
        let mut contents = Self::default();
        for value in values {
            contents.note(value);
        }
        contents.filled(cx)
    }

    /// The contents of relationships.
    fn of_relationships(cx: &mut Cx<'_>, rels: &[RelRow]) -> Result<Option<Self>> {
        let mut contents = Self::default();
        contents.rels.extend(rels.iter().map(|rel| (rel.id, None)));
        contents.filled(cx)
    }

    fn filled(mut self, cx: &mut Cx<'_>) -> Result<Option<Self>> {
        if self.nodes.is_empty() && self.rels.is_empty() {
            return Ok(None);
        }
        let entities = self.nodes.len() + self.rels.len();
        cx.run.watch.count_computed(entities * ENTITY_BYTES)?;
        self.read(cx)?;
        Ok(Some(self))
    }

    fn note(&mut self, value: &Value) {
        match value {
            Value::Node(node) => {
                self.nodes.entry(node.id).or_default();
            }
            Value::Relationship(relationship) => {
                self.rels.entry(relationship.id).or_default();
            }
            Value::Path(path) => {
                for node in &path.nodes {
                    self.nodes.entry(node.id).or_default();
                }
                for relationship in &path.relationships {
                    self.rels.entry(relationship.id).or_default();
                }
            }
            Value::List(items) => items.iter().for_each(|item| self.note(item)),
            Value::Map(map) => map.values().for_each(|item| self.note(item)),
            _ => {}
        }
    }

    fn read(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let mut ids: Vec<NodeId> = self.nodes.keys().copied().collect();
        ids.sort_unstable();
        self.nodes
            .extend(read_nodes(cx, &ids, |id, content| (id, content))?);
        let mut ids: Vec<RelId> = self.rels.keys().copied().collect();
        ids.sort_unstable();
        let mut rest = &ids[..];
        let mut found = Vec::with_capacity(ids.len());
        while !rest.is_empty() {
            cx.tx
                .graph()
                .relationship_contents_within(rest, READ_BYTES, &mut found)?;
            let bytes = found.iter().flatten().map(own_relationship_bytes).sum();
            cx.run.watch.count_computed(bytes)?;
            let (read, later) = rest.split_at(found.len());
            self.rels.extend(read.iter().copied().zip(found.drain(..)));
            rest = later;
        }
        if self.rels.values().any(Option::is_none) {
            self.type_names = cx.tx.catalog().types().into_iter().collect();
        }
        let gone = Arc::new(NodeContent::default());
        for content in self.nodes.values_mut().filter(|content| content.is_none()) {
            *content = Some(gone.clone());
        }
        Ok(())
    }

    fn node(&self, id: NodeId) -> Node {
        Node {
            id,
            content: self.nodes.get(&id).cloned().flatten(),
        }
    }

    fn relationship(&self, relationship: &Relationship) -> Relationship {
        let content = self
            .rels
            .get(&relationship.id)
            .cloned()
            .flatten()
            // One of a graph in memory has no record, and brings its content.
            .or_else(|| relationship.content.clone())
            .or_else(|| {
                let type_name = self.type_names.get(&relationship.type_id)?.clone();
                Some(Arc::new(RelationshipContent {
                    type_name,
                    properties: Map::new(),
                }))
            });
        Relationship {
            content,
            ..relationship.clone()
        }
    }

    fn place(&self, value: &mut Value) {
        match value {
            Value::Node(node) => *node = Arc::new(self.node(node.id)),
            Value::Relationship(relationship) => {
                *relationship = Arc::new(self.relationship(relationship))
            }
            Value::Path(path) => {
                *path = Arc::new(Path {
                    nodes: path.nodes.iter().map(|node| self.node(node.id)).collect(),
                    relationships: path
                        .relationships
                        .iter()
                        .map(|one| self.relationship(one))
                        .collect(),
                });
            }
            Value::List(items) if items.iter().any(holds_entity) => {
                Arc::make_mut(items)
                    .iter_mut()
                    .for_each(|item| self.place(item));
            }
            Value::Map(map) if map.values().any(holds_entity) => {
                let filled = map
                    .iter()
                    .map(|(name, value)| {
                        let mut value = value.clone();
                        self.place(&mut value);
                        (name.clone(), value)
                    })
                    .collect();
                *map = Arc::new(Map::from_sorted(filled));
            }
            _ => {}
        }
    }
}

/// Whether a value is or contains a node, relationship or path.
fn holds_entity(value: &Value) -> bool {
    match value {
        Value::Node(_) | Value::Relationship(_) | Value::Path(_) => true,
        Value::List(items) => items.iter().any(holds_entity),
        Value::Map(map) => map.values().any(holds_entity),
        _ => false,
    }
}
