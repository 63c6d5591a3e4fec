//! The workload on `data`: buckets, documents, relationships, indexes and labels in one transaction.

use std::{ops::Bound, sync::Arc};

use anyhow::Result;
use isomer_data::{
    DataError, DataStore, DataStoreOptions, Direction, Durability, ErrorKind, FieldPath, GraphRead,
    IndexCursor, IndexField, IndexSeek, IndexSpec, Neighbours, Order, SchemaChange, ScopeName,
    Transaction,
};
use isomer_storage::{Engine, KeyRange, Page, PageLimit};
use isomer_testkit::isolation::{
    Element,
    workload::{Access, Failure, Kind, Steps, Subject},
};
use isomer_value::{IndexId, LabelId, Map, NodeId, PropId, RelId, TypeId, Value};

/// A store with the names that the workload uses.
pub struct Records {
    store: DataStore,
    names: Names,
}

#[derive(Clone, Copy)]
struct Names {
    shared: LabelId,
    member: LabelId,
    item: LabelId,
    item_group: IndexId,
    part_group: IndexId,
    has: TypeId,
    part: TypeId,
    list: PropId,
    register: PropId,
    element: PropId,
    group: PropId,
}

impl Records {
    pub fn open(engine: Arc<dyn Engine>) -> Result<Self> {
        let store = DataStore::open(engine, DataStoreOptions::default())?;
        for (name, scope) in [
            ("item_group", ScopeName::label("Item")),
            ("part_group", ScopeName::rel_type("PART")),
        ] {
            store.change_schema(SchemaChange::CreateIndex {
                spec: IndexSpec {
                    name: Some(name.into()),
                    scope,
                    fields: vec![IndexField {
                        path: FieldPath::top("group"),
                        each: false,
                    }],
                    unique: false,
                },
                if_not_exists: false,
            })?;
        }
        let catalog = store.catalog();
        let index = |name: &str| catalog.index_named(name).expect("it was just made").id;
        let tx = store.begin(isomer_data::Access::Write)?;
        let item = tx.name_ids().intern_label("Item")?;
        let names = Names {
            item,
            item_group: index("item_group"),
            part_group: index("part_group"),
            part: tx.name_ids().intern_type("PART")?,
            shared: tx.name_ids().intern_label("Shared")?,
            member: tx.name_ids().intern_label("Member")?,
            has: tx.name_ids().intern_type("HAS")?,
            list: tx.name_ids().intern_prop("list")?,
            register: tx.name_ids().intern_prop("register")?,
            element: tx.name_ids().intern_prop("element")?,
            group: tx.name_ids().intern_prop("group")?,
        };
        drop(tx);
        Ok(Self { store, names })
    }
}

impl Subject for Records {
    /// One document per object, which is also the hub of its relationships.
    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        let mut tx = self.store.begin(isomer_data::Access::Write)?;
        for object in from..to {
            let document = Map::from_iter([
                ("_key", Value::Int(object as i64)),
                ("list", Value::empty_list()),
            ]);
            tx.documents_mut().insert("Shared", &document)?;
        }
        tx.commit_with(Durability::Buffered)?;
        Ok(())
    }

    fn begin(&self, access: Access) -> Result<Box<dyn Steps + '_>> {
        let access = match access {
            Access::Read => isomer_data::Access::Read,
            Access::Write => isomer_data::Access::Write,
        };
        Ok(Box::new(OpenTransaction {
            tx: self.store.begin(access)?,
            names: self.names,
        }))
    }
}

struct OpenTransaction {
    tx: Transaction,
    names: Names,
}

fn failure(error: DataError) -> Failure {
    match error.kind() {
        ErrorKind::Retry => Failure::Retry,
        ErrorKind::OutcomeUnknown => Failure::Unknown,
        _ => Failure::Broken(error.into()),
    }
}

fn element_of(value: &Value) -> Element {
    value.as_int().expect("the workload stores integers alone") as Element
}

impl OpenTransaction {
    fn bucket_numbers(&self, key: &[u8]) -> Result<Vec<Element>, DataError> {
        let bytes = self.tx.kv().get("shared", key)?.unwrap_or_default();
        Ok(bytes
            .as_chunks()
            .0
            .iter()
            .map(|chunk| u64::from_be_bytes(*chunk))
            .collect())
    }

    /// Keys of a range, a few per page; for every other object in reverse order.
    fn bucket_range(&self, object: u64) -> Result<Vec<Element>, DataError> {
        let (start, end) = (object.to_be_bytes(), (object + 1).to_be_bytes());
        let range = KeyRange {
            start: &start,
            end: Some(&end),
        };
        let order = if object.is_multiple_of(2) {
            Order::Ascending
        } else {
            Order::Descending
        };
        let limit = PageLimit {
            keys: 5,
            bytes: 1 << 20,
        };
        let mut seen = Vec::new();
        let mut page = Page::new();
        let mut cursor = None;
        loop {
            cursor = self
                .tx
                .kv()
                .scan("range", range, order, limit, cursor.as_ref(), &mut page)?;
            let element =
                |key: &[u8]| u64::from_be_bytes(key[8..].try_into().expect("keys are two numbers"));
            seen.extend(page.iter().map(|(key, _)| element(key)));
            if cursor.is_none() {
                return Ok(seen);
            }
        }
    }

    fn document(&self, object: u64) -> Result<NodeId, DataError> {
        let node = self
            .tx
            .node_by_key(self.names.shared, &Value::Int(object as i64))?;
        Ok(node.expect("documents are made before they are used and never deleted"))
    }

    fn property(&self, object: u64, prop: PropId) -> Result<Value, DataError> {
        let mut out = [Vec::new()];
        self.tx
            .node_properties(&[self.document(object)?], &[prop], &mut out)?;
        Ok(out[0].remove(0))
    }

    /// Members found through an index: those of one group alone, or (for every other object) as a part of a
    /// range.
    fn each_page(
        &self,
        index: IndexId,
        object: u64,
        mut page: impl FnMut(&IndexSeek<'_>, &mut IndexCursor) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let (group, next) = (Value::Int(object as i64), Value::Int(object as i64 + 1));
        let by_range = object % 2 == 1;
        let range = if by_range {
            (Bound::Included(&group), Bound::Excluded(&next))
        } else {
            (Bound::Unbounded, Bound::Unbounded)
        };
        let prefix = if by_range {
            &[][..]
        } else {
            std::slice::from_ref(&group)
        };
        let order = if object % 4 < 2 {
            Order::Ascending
        } else {
            Order::Descending
        };
        let seek = IndexSeek {
            index,
            prefix,
            range,
            order,
        };
        let mut cursor = IndexCursor::default();
        while !cursor.is_done() {
            page(&seek, &mut cursor)?;
        }
        Ok(())
    }

    fn indexed_nodes(&self, object: u64) -> Result<Vec<NodeId>, DataError> {
        let mut nodes = Vec::new();
        self.each_page(self.names.item_group, object, |seek, cursor| {
            self.tx.index_seek(seek, cursor, 20, &mut nodes)
        })?;
        Ok(nodes)
    }

    fn indexed_relationships(&self, object: u64) -> Result<Vec<RelId>, DataError> {
        let mut rows = Vec::new();
        self.each_page(self.names.part_group, object, |seek, cursor| {
            self.tx.relationship_index_seek(seek, cursor, 20, &mut rows)
        })?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    fn labelled_nodes(&self, label: LabelId) -> Result<Vec<NodeId>, DataError> {
        let mut nodes = Vec::new();
        loop {
            let before = nodes.len();
            self.tx
                .scan_nodes(Some(label), nodes.last().copied(), 50, &mut nodes)?;
            if nodes.len() - before < 50 {
                return Ok(nodes);
            }
        }
    }

    /// Members as nodes: all with the label, or those of the label `Member` with the right group.
    fn member_nodes(&self, kind: Kind, object: u64) -> Result<Vec<(NodeId, Element)>, DataError> {
        let nodes = match kind {
            Kind::Index => self.indexed_nodes(object)?,
            Kind::Label => match self.tx.name_ids().find_label(&label_name(object)) {
                Some(label) => self.labelled_nodes(label)?,
                None => Vec::new(),
            },
            _ => self.labelled_nodes(self.names.member)?,
        };
        let mut columns = [Vec::new(), Vec::new()];
        self.tx.node_properties(
            &nodes,
            &[self.names.element, self.names.group],
            &mut columns,
        )?;
        let [elements, groups] = columns;
        let fits = |group: &Value| kind == Kind::Label || *group == Value::Int(object as i64);
        let members = nodes
            .into_iter()
            .zip(elements)
            .zip(groups)
            .filter(|(_, group)| fits(group));
        Ok(members
            .map(|((node, element), _)| (node, element_of(&element)))
            .collect())
    }

    fn member_relationships(
        &self,
        kind: Kind,
        object: u64,
    ) -> Result<Vec<(RelId, Element)>, DataError> {
        let ids = match kind {
            Kind::RelationshipIndex => self.indexed_relationships(object)?,
            _ => {
                let mut out = Neighbours::new();
                self.tx.expand(
                    &[self.document(object)?],
                    Direction::Outgoing,
                    &[self.names.has],
                    &mut out,
                )?;
                out.rows().iter().map(|row| row.id).collect()
            }
        };
        let mut columns = [Vec::new()];
        self.tx
            .relationship_properties(&ids, &[self.names.element], &mut columns)?;
        Ok(ids
            .into_iter()
            .zip(columns[0].iter().map(element_of))
            .collect())
    }

    fn read_members(&self, kind: Kind, object: u64) -> Result<Vec<Element>, DataError> {
        Ok(match kind {
            Kind::BucketRange => self.bucket_range(object)?,
            Kind::Adjacency | Kind::RelationshipIndex => self
                .member_relationships(kind, object)?
                .into_iter()
                .map(|(_, element)| element)
                .collect(),
            _ => self
                .member_nodes(kind, object)?
                .into_iter()
                .map(|(_, element)| element)
                .collect(),
        })
    }

    fn add_member(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), DataError> {
        if kind == Kind::BucketRange {
            return self
                .tx
                .kv_mut()
                .put("range", &range_key(object, element), b"");
        }
        let element = ("element", Value::Int(element as i64));
        match kind {
            Kind::Adjacency => {
                // A hub, and as its other end the hub of the next object: two transactions may add at both
                // ends.
                let (source, target) = (self.document(object)?, self.document(object)?);
                self.tx.graph_mut().create_relationship(
                    self.names.has,
                    source,
                    target,
                    &Map::from_iter([element]),
                )?;
            }
            Kind::RelationshipIndex => {
                let graph = &mut self.tx.graph_mut();
                let end = graph.create_node(&[], &Map::new())?;
                let group = ("group", Value::Int(object as i64));
                let properties = Map::from_iter([element, group]);
                graph.create_relationship(self.names.part, end, end, &properties)?;
            }
            Kind::Label => {
                let label = self.tx.name_ids().intern_label(&label_name(object))?;
                self.tx
                    .graph_mut()
                    .create_node(&[label], &Map::from_iter([element]))?;
            }
            _ => {
                let group = ("group", Value::Int(object as i64));
                let label = if kind == Kind::Index {
                    self.names.item
                } else {
                    self.names.member
                };
                self.tx
                    .graph_mut()
                    .create_node(&[label], &Map::from_iter([element, group]))?;
            }
        }
        Ok(())
    }

    fn remove_member(
        &mut self,
        kind: Kind,
        object: u64,
        element: Element,
    ) -> Result<(), DataError> {
        match kind {
            Kind::BucketRange => self
                .tx
                .kv_mut()
                .delete("range", &range_key(object, element))?,
            Kind::Adjacency | Kind::RelationshipIndex => {
                let found = self
                    .member_relationships(kind, object)?
                    .into_iter()
                    .find(|(_, other)| *other == element);
                let rel = found.expect("the member was just seen").0;
                let graph = &mut self.tx.graph_mut();
                // A member leaves by losing the group as well as by deletion.
                if kind == Kind::RelationshipIndex && element.is_multiple_of(2) {
                    graph.set_relationship_property(rel, &["group"], Value::Int(-1))?;
                } else {
                    graph.delete_relationship(rel)?;
                }
            }
            _ => {
                let found = self
                    .member_nodes(kind, object)?
                    .into_iter()
                    .find(|(_, other)| *other == element);
                let node = found.expect("the member was just seen").0;
                match kind {
                    // A member leaves by losing the label or the group as well as by deletion.
                    Kind::Label if element.is_multiple_of(2) => {
                        let label = self.tx.name_ids().intern_label(&label_name(object))?;
                        self.tx.graph_mut().remove_label(node, label)?;
                    }
                    Kind::Scan | Kind::Index if element.is_multiple_of(2) => self
                        .tx
                        .graph_mut()
                        .set_node_property(node, &["group"], Value::Int(-1))?,
                    _ => drop(self.tx.graph_mut().delete_node(node, false)?),
                }
            }
        }
        Ok(())
    }
}

/// The key of a register or list of a bucket.
fn bucket_key(kind: Kind, object: u64) -> Vec<u8> {
    format!("{kind:?}/{object}").into_bytes()
}

fn range_key(object: u64, element: Element) -> Vec<u8> {
    [object.to_be_bytes(), element.to_be_bytes()].concat()
}

fn label_name(object: u64) -> String {
    format!("L{object}")
}

impl Steps for OpenTransaction {
    fn list(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure> {
        if kind == Kind::BucketList {
            return self
                .bucket_numbers(&bucket_key(kind, object))
                .map_err(failure);
        }
        let value = self.property(object, self.names.list).map_err(failure)?;
        Ok(value
            .as_list()
            .unwrap_or_default()
            .iter()
            .map(element_of)
            .collect())
    }

    fn put_list(&mut self, kind: Kind, object: u64, elements: &[Element]) -> Result<(), Failure> {
        if kind == Kind::BucketList {
            let bytes: Vec<u8> = elements
                .iter()
                .flat_map(|element| element.to_be_bytes())
                .collect();
            return self
                .tx
                .kv_mut()
                .put("shared", &bucket_key(kind, object), &bytes)
                .map_err(failure);
        }
        let value = elements
            .iter()
            .map(|element| Value::Int(*element as i64))
            .collect();
        let node = self.document(object).map_err(failure)?;
        self.tx
            .graph_mut()
            .set_node_property(node, &["list"], value)
            .map_err(failure)
    }

    fn register(&mut self, kind: Kind, object: u64) -> Result<Option<Element>, Failure> {
        if kind == Kind::BucketRegister {
            let numbers = self
                .bucket_numbers(&bucket_key(kind, object))
                .map_err(failure)?;
            return Ok(numbers.first().copied());
        }
        let value = self
            .property(object, self.names.register)
            .map_err(failure)?;
        Ok((!value.is_null()).then(|| element_of(&value)))
    }

    fn put_register(&mut self, kind: Kind, object: u64, value: Element) -> Result<(), Failure> {
        if kind == Kind::BucketRegister {
            return self
                .tx
                .kv_mut()
                .put("shared", &bucket_key(kind, object), &value.to_be_bytes())
                .map_err(failure);
        }
        let node = self.document(object).map_err(failure)?;
        self.tx
            .graph_mut()
            .set_node_property(node, &["register"], Value::Int(value as i64))
            .map_err(failure)
    }

    fn members(&mut self, kind: Kind, object: u64) -> Result<Vec<Element>, Failure> {
        self.read_members(kind, object).map_err(failure)
    }

    fn add(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure> {
        self.add_member(kind, object, element).map_err(failure)
    }

    fn remove(&mut self, kind: Kind, object: u64, element: Element) -> Result<(), Failure> {
        self.remove_member(kind, object, element).map_err(failure)
    }

    fn commit(self: Box<Self>) -> Result<(), Failure> {
        self.tx
            .commit_with(Durability::Buffered)
            .map(drop)
            .map_err(failure)
    }
}
