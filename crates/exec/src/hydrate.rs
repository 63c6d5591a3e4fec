//! Entities get their contents when they leave a query: read in batches, once per distinct entity.

use std::sync::Arc;

use isomer_data::{GraphRead, Transaction};
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
    result::Rows,
};

/// Turns a chunk of `ProduceResult` into rows.
pub(crate) fn produce(
    cx: &mut Cx<'_>,
    mut chunk: Chunk,
    root: OpId,
    rows: &mut Rows,
) -> Result<()> {
    let plan = cx.run.plan.clone();
    let Op::ProduceResult { columns, .. } = &plan.operator(root).op else {
        return Err(ExecError::Internal("a result without its operator".into()));
    };
    chunk.flatten();
    let len = chunk.len();
    let mut filled = Vec::with_capacity(columns.len());
    // A column is copied only where another column of the result is the same.
    let mut uses = vec![0_u32; plan.slots.len()];
    columns.iter().for_each(|slot| uses[slot.index()] += 1);
    for slot in columns {
        uses[slot.index()] -= 1;
        filled.push(match chunk.column(*slot) {
            Some(Column::Nodes(nodes)) => whole_nodes(cx, nodes)?,
            column => {
                let column = match uses[slot.index()] {
                    0 => chunk.take(*slot),
                    _ => column.cloned(),
                };
                let column = column.unwrap_or(Column::Const(Value::Null));
                let holds_entities = matches!(
                    column,
                    Column::Values(_) | Column::Const(_) | Column::Rels(_)
                );
                let mut values = column.into_values(len);
                if holds_entities {
                    fill(cx, &mut values)?;
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

/// Nodes with their contents, in the order of the ids; each is read once.
fn whole_nodes(cx: &mut Cx<'_>, nodes: &[NodeId]) -> Result<Vec<Value>> {
    let make = |id, content: Option<_>| {
        let content = Some(content.unwrap_or_default());
        Value::Node(Arc::new(Node { id, content }))
    };
    // Often they come in order and each once.
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

/// Below so many records for each thread, starting it costs more than it saves.
const RECORDS_PER_THREAD: usize = 256;

/// What `make` makes of labels and properties of nodes, whose ids ascend. Many are read by several threads.
fn read_nodes<T: Send>(
    cx: &mut Cx<'_>,
    ids: &[NodeId],
    make: impl Fn(NodeId, Option<Arc<NodeContent>>) -> T + Sync,
) -> Result<Vec<T>> {
    let threads = (ids.len() / RECORDS_PER_THREAD).min(cx.run.workers);
    let forks: Option<Vec<Transaction>> = (1..threads).map(|_| cx.tx.fork()).collect();
    let read = |reader: &dyn GraphRead, ids: &[NodeId], made: &mut Vec<T>| -> Result<()> {
        let mut found = Vec::with_capacity(ids.len());
        reader.node_contents(ids, &mut found)?;
        made.extend(
            ids.iter()
                .zip(found)
                .map(|(id, content)| make(*id, content)),
        );
        Ok(())
    };
    let mut made = Vec::with_capacity(ids.len());
    let forks = match forks {
        Some(forks) if !forks.is_empty() => forks,
        _ => {
            read(&cx.reader(), ids, &mut made)?;
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
                scope.spawn(|| {
                    let (fork, mut made) = (fork, Vec::with_capacity(part.len()));
                    read(&fork, part, &mut made).map(|()| made)
                })
            })
            .collect();
        read(&cx.reader(), own, &mut made)?;
        for helper in helpers {
            match helper.join() {
                Ok(more) => made.extend(more?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(made)
    })
}

/// The entities in some values, and their contents.
#[derive(Default)]
struct Contents {
    nodes: FxHashMap<NodeId, Option<Arc<NodeContent>>>,
    rels: FxHashMap<RelId, Option<Arc<RelationshipContent>>>,
    /// Names for relationships that this statement deleted: they still have their type.
    type_names: FxHashMap<TypeId, Arc<str>>,
}

/// Reads the contents of all entities in `values`, those in lists, maps and paths too.
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
    let mut contents = Contents::default();
    for value in values.iter() {
        contents.note(value);
    }
    if contents.nodes.is_empty() && contents.rels.is_empty() {
        return Ok(());
    }
    contents.read(cx)?;
    for value in values.iter_mut() {
        contents.place(value);
    }
    Ok(())
}

impl Contents {
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
        let mut found = Vec::with_capacity(ids.len());
        cx.reader().relationship_contents(&ids, &mut found)?;
        for (id, content) in ids.into_iter().zip(found) {
            self.rels.insert(id, content);
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
