//! A small random world, and the comparison of views with rows.
use std::{collections::BTreeSet, sync::Arc};

use isomer_bulk::{
    BulkEnds, BulkNode, BulkOptions, BulkRelationship, load_nodes, load_relationships,
};
use isomer_data::{
    Access, ConvergentOp, ConvergentOwner, DataError, DataStore, Direction, GraphRead, Neighbours,
    NodeLabels, ScalarField, Transaction,
};
use isomer_value::{LabelId, Map, NodeId, PropId, RelId, TypeId, Value};
use isomer_views::{
    AdjacencySide, Cell, LinkScratch, PAGE_ROWS, ViewKind, ViewReader, Views, ViewsAt,
};

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

pub struct World {
    labels: Vec<LabelId>,
    types: Vec<TypeId>,
    props: Vec<PropId>,
}

const LABELS: [&str; 3] = ["A", "B", "C"];
const TYPES: [&str; 2] = ["R", "S"];
/// The last one is convergent in some runs.
const PROPS: [&str; 5] = ["_key", "p", "q", "m", "f"];
const FIELD: usize = PROPS.len() - 1;

impl World {
    pub fn new(store: &DataStore) -> Self {
        let tx = store.begin(Access::Write).unwrap();
        Self {
            labels: LABELS
                .map(|name| tx.name_ids().intern_label(name).unwrap())
                .into(),
            types: TYPES
                .map(|name| tx.name_ids().intern_type(name).unwrap())
                .into(),
            props: PROPS
                .iter()
                .chain(&["x"])
                .map(|name| tx.name_ids().intern_prop(name).unwrap())
                .collect(),
        }
    }

    fn paths(&self) -> Vec<Vec<PropId>> {
        let (names, inner) = self.props.split_at(PROPS.len());
        let mut paths: Vec<_> = names.iter().map(|prop| vec![*prop]).collect();
        paths.push(vec![names[3], inner[0]]);
        paths.push(vec![names[FIELD], inner[0]]);
        paths
    }

    pub fn kinds(&self) -> Vec<ViewKind> {
        let mut kinds = vec![ViewKind::Members(None)];
        for &type_id in &self.types {
            kinds.extend(AdjacencySide::BOTH.map(|side| ViewKind::Adjacency(type_id, side)));
            let paths = self.paths().into_iter();
            kinds.extend(paths.map(|path| ViewKind::RelColumn(type_id, path.into())));
        }
        for &label in &self.labels {
            kinds.push(ViewKind::Members(Some(label)));
            let paths = self.paths().into_iter();
            kinds.extend(paths.map(|path| ViewKind::Column(label, path.into())));
        }
        kinds
    }

    fn value(&self, random: &mut Random) -> Value {
        match random.below(9) {
            0 => Value::Null,
            1 => Value::Int(random.below(10) as i64),
            2 => Value::Int(i64::MIN + random.below(300) as i64),
            3 => Value::Float(random.below(5) as f64 / 2.0),
            4 => Value::Bool(random.below(2) == 0),
            5 => ["x", "y", "z"][random.below(3)].into(),
            6 => format!("text {}", random.below(1000)).as_str().into(),
            7 => Value::List(Arc::new(vec![Value::Int(1), "l".into()])),
            _ => {
                let inner = match random.below(3) {
                    0 => Value::Null,
                    1 => Value::Int(random.below(100) as i64),
                    _ => "inner".into(),
                };
                let map: Map = [("x", inner), ("y", Value::Int(2))].into_iter().collect();
                Value::Map(Arc::new(map))
            }
        }
    }

    fn properties(&self, random: &mut Random) -> Map {
        let mut map = Map::new();
        if random.below(2) == 0 {
            map.insert("_key", Value::Int((random.next() >> 1) as i64));
        }
        for name in &PROPS[1..FIELD] {
            if random.below(2) == 0 {
                map.insert(*name, self.value(random));
            }
        }
        if random.below(8) == 0 {
            map.insert(PROPS[FIELD], self.value(random));
        }
        map
    }

    fn some_node(&self, tx: &Transaction, random: &mut Random) -> Option<NodeId> {
        let mut ids = Vec::new();
        tx.scan_nodes(None, None, usize::MAX, &mut ids).unwrap();
        (!ids.is_empty()).then(|| ids[random.below(ids.len())])
    }

    /// The node, or one of its relationships.
    fn some_owner(&self, tx: &Transaction, node: NodeId, random: &mut Random) -> ConvergentOwner {
        let mut found = Neighbours::new();
        tx.expand(&[node], Direction::Both, &[], &mut found)
            .unwrap();
        match found.rows() {
            [.., one] if random.below(3) == 0 => ConvergentOwner::Relationship(one.id),
            _ => ConvergentOwner::Node(node),
        }
    }

    /// A random operation. A rejected one is fine.
    pub fn write(&self, tx: &mut Transaction, random: &mut Random) {
        let label = self.labels[random.below(3)];
        let node = self.some_node(tx, random);
        match (random.below(28), node) {
            (0..4, _) | (_, None) => {
                let count = random.below(3);
                let labels: Vec<_> = (0..count).map(|_| self.labels[random.below(3)]).collect();
                drop(
                    tx.graph_mut()
                        .create_node(&labels, &self.properties(random)),
                );
            }
            (4..7, Some(node)) => {
                let name = PROPS[random.below(PROPS.len())];
                let value = if name == "_key" {
                    Value::Int((random.next() >> 1) as i64)
                } else {
                    self.value(random)
                };
                drop(tx.graph_mut().set_node_property(node, &[name], value));
            }
            (7, Some(node)) => {
                let value = self.value(random);
                drop(tx.graph_mut().set_node_property(node, &["m", "x"], value));
            }
            (8, Some(node)) => drop(
                tx.graph_mut()
                    .replace_node_properties(node, &self.properties(random)),
            ),
            (9..11, Some(node)) => drop(tx.graph_mut().add_label(node, label)),
            (11..13, Some(node)) => drop(tx.graph_mut().remove_label(node, label)),
            (13, Some(node)) => drop(tx.graph_mut().delete_node(node, true)),
            (14..19, Some(node)) => {
                let other = self.some_node(tx, random).unwrap_or(node);
                let type_id = self.types[random.below(2)];
                let count = 1 + random.below(2);
                for _ in 0..count {
                    let properties = match random.below(2) {
                        0 => Map::new(),
                        _ => self.properties(random),
                    };
                    drop(
                        tx.graph_mut()
                            .create_relationship(type_id, node, other, &properties),
                    );
                }
            }
            (19, Some(node)) => {
                let mut found = Neighbours::new();
                tx.expand(&[node], Direction::Both, &[], &mut found)
                    .unwrap();
                if !found.rows().is_empty() {
                    let one = found.rows()[random.below(found.rows().len())];
                    let name = PROPS[random.below(PROPS.len())];
                    match random.below(3) {
                        0 => drop(tx.graph_mut().delete_relationship(one.id)),
                        1 => {
                            let value = self.value(random);
                            drop(
                                tx.graph_mut()
                                    .set_relationship_property(one.id, &[name], value),
                            );
                        }
                        _ => {
                            let value = self.value(random);
                            drop(tx.graph_mut().set_relationship_property(
                                one.id,
                                &["m", "x"],
                                value,
                            ));
                        }
                    }
                }
            }
            (_, Some(node)) => converge(tx, self.some_owner(tx, node, random), random),
        }
    }

    /// Nodes of a label and relationships of a type that had none, loaded in bulk; from now on they belong to
    /// this world.
    pub fn load_apart(&mut self, store: &DataStore, random: &mut Random) {
        let bulk = BulkOptions::default();
        let nodes: Vec<_> = (0..50)
            .map(|row| {
                let mut properties = self.properties(random);
                properties.insert("_key", Value::Int(row as i64));
                properties.insert("p", Value::Int(row as i64 % 7));
                Ok(BulkNode { row, properties })
            })
            .collect();
        load_nodes(store, "Loaded", &bulk, &mut nodes.into_iter(), &mut ()).unwrap();
        let rows: Vec<_> = (0..200)
            .map(|row| {
                Ok(BulkRelationship {
                    row,
                    source: Value::Int(random.below(50) as i64),
                    target: Value::Int(random.below(50) as i64),
                    properties: self.properties(random),
                })
            })
            .collect();
        let ends = BulkEnds {
            rel_type: "LOADED",
            from: "Loaded",
            to: "Loaded",
        };
        load_relationships(store, ends, &bulk, &mut rows.into_iter(), &mut ()).unwrap();
        let catalog = store.catalog();
        self.labels.push(catalog.label_id("Loaded").unwrap());
        self.types.push(catalog.type_id("LOADED").unwrap());
    }

    /// A bulk load of nodes, or of relationships between the nodes of a label that have keys.
    pub fn load(&self, store: &DataStore, random: &mut Random) {
        let label = LABELS[random.below(3)];
        let bulk = BulkOptions::default();
        if random.below(2) == 0 {
            let count = 1 + random.below(20) as u64;
            let nodes: Vec<_> = (0..count)
                .map(|row| {
                    Ok(BulkNode {
                        row,
                        properties: self.properties(random),
                    })
                })
                .collect();
            load_nodes(store, label, &bulk, &mut nodes.into_iter(), &mut ()).unwrap();
            return;
        }
        let tx = store.begin(Access::Read).unwrap();
        let keyed = tx
            .documents()
            .scan(
                label,
                (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
                100,
            )
            .unwrap();
        if keyed.is_empty() {
            return;
        }
        let rows: Vec<_> = (0..1 + random.below(20) as u64)
            .map(|row| {
                let key = |random: &mut Random| keyed[random.below(keyed.len())].0.clone();
                Ok(BulkRelationship {
                    row,
                    source: key(random),
                    target: key(random),
                    properties: self.properties(random),
                })
            })
            .collect();
        let ends = BulkEnds {
            rel_type: TYPES[random.below(2)],
            from: label,
            to: label,
        };
        load_relationships(store, ends, &bulk, &mut rows.into_iter(), &mut ()).unwrap();
    }
}

/// Commits. A transaction that read a property before its own first operation made it convergent conflicts,
/// which is fine.
pub fn commit(tx: Transaction) {
    match tx.commit() {
        Ok(_) | Err(DataError::Conflict { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// A random operation on a convergent field of any kind.
fn converge(tx: &mut Transaction, owner: ConvergentOwner, random: &mut Random) {
    let number = Value::Int(random.below(5) as i64);
    let op = match random.below(16) {
        0..6 => ConvergentOp::Count(random.below(7) as i64 - 2),
        6..8 => ConvergentOp::Assign(number),
        8 => ConvergentOp::AssignMulti(number),
        9 => ConvergentOp::Enable,
        10 => ConvergentOp::Disable,
        11 => ConvergentOp::Insert(number),
        12 => ConvergentOp::Remove(number),
        13 => ConvergentOp::Observe(number, None),
        _ => ConvergentOp::Clear,
    };
    let path: &[&str] = match random.below(10) {
        0 => &["f", "x"],
        _ => &["f"],
    };
    drop(tx.fields_mut().converge(owner, path, &op, None));
}

/// Runs the same reads on views and rows at the version of `tx`. Records in `used` which kinds of view
/// answered.
pub fn compare(
    world: &World,
    tx: &Transaction,
    views: &Views,
    random: &mut Random,
    used: &mut BTreeSet<&'static str>,
) {
    let at = views.at(tx);
    let reader = ViewReader::new(tx, &at);
    let mut ids = Vec::new();
    tx.scan_nodes(None, None, usize::MAX, &mut ids).unwrap();
    let bound = ids.last().map_or(0, |id| id.0) + 3;
    let mut asked: Vec<NodeId> = (0..bound).map(NodeId).collect();
    asked.push(NodeId(1 << 33));
    if random.below(2) == 0 {
        asked.reverse();
        asked.truncate(1 + random.below(40));
    }
    relationships(world, tx, &reader, &asked, random);
    nodes(world, tx, &reader, &asked, random);
    values_of_relationships(world, tx, &reader, random);
    if reader.is_plain() {
        directly(world, tx, &at, &asked, used);
    }
}

fn relationships(
    world: &World,
    tx: &Transaction,
    reader: &ViewReader<'_>,
    asked: &[NodeId],
    random: &mut Random,
) {
    let (one, two) = (world.types[0], world.types[1]);
    let pairs: Vec<(NodeId, NodeId)> = (0..30)
        .map(|_| {
            let mut any = || asked[random.below(asked.len())];
            (any(), any())
        })
        .collect();
    for direction in [Direction::Outgoing, Direction::Incoming, Direction::Both] {
        for types in [&[][..], &[one], &[two, one, two]] {
            let ask = |read: &dyn GraphRead| {
                let (mut rows, mut between) = (Neighbours::new(), Neighbours::new());
                let mut degrees = Vec::new();
                read.expand(asked, direction, types, &mut rows).unwrap();
                read.expand_into(&pairs, direction, types, &mut between)
                    .unwrap();
                read.degree(asked, direction, types, &mut degrees).unwrap();
                let parts = |found: Neighbours| (found.offsets().to_vec(), found.rows().to_vec());
                (parts(rows), parts(between), degrees)
            };
            assert_eq!(ask(reader), ask(tx), "{direction:?} {types:?}");
        }
    }
}

fn nodes(
    world: &World,
    tx: &Transaction,
    reader: &ViewReader<'_>,
    asked: &[NodeId],
    random: &mut Random,
) {
    let some: Vec<_> = world.labels.iter().copied().map(Some).collect();
    for label in some.into_iter().chain([None]) {
        let after = [None, Some(NodeId(random.below(50) as u64))][random.below(2)];
        let limit = [5, 2000][random.below(2)];
        let ask = |read: &dyn GraphRead| {
            let mut found = Vec::new();
            read.scan_nodes(label, after, limit, &mut found).unwrap();
            found
        };
        assert_eq!(ask(reader), ask(tx), "{label:?} after {after:?}");
    }
    let ask = |read: &dyn GraphRead| {
        let (mut exist, mut labels) = (Vec::new(), NodeLabels::new());
        read.nodes_exist(asked, &mut exist).unwrap();
        read.node_labels(asked, &mut labels).unwrap();
        let labels: Vec<_> = (0..labels.len()).map(|at| labels.of(at).to_vec()).collect();
        (exist, labels)
    };
    assert_eq!(ask(reader), ask(tx));
    let props = &world.props[random.below(PROPS.len())..PROPS.len()];
    let ask = |read: &dyn GraphRead| {
        let mut values = vec![vec![Value::Int(0)]; props.len()];
        read.node_properties(asked, props, &mut values).unwrap();
        values
    };
    assert_eq!(ask(reader), ask(tx));
}

fn values_of_relationships(
    world: &World,
    tx: &Transaction,
    reader: &ViewReader<'_>,
    random: &mut Random,
) {
    let mut rows = Vec::new();
    tx.scan_relationships(None, None, usize::MAX, &mut rows)
        .unwrap();
    let bound = rows.last().map_or(0, |row| row.id.0) + 3;
    let ids: Vec<RelId> = (0..bound).rev().map(RelId).collect();
    let props = &world.props[random.below(PROPS.len())..PROPS.len()];
    let ask = |read: &dyn GraphRead| {
        let mut values = vec![vec![Value::Int(0)]; props.len()];
        read.relationship_properties(&ids, props, &mut values)
            .unwrap();
        values
    };
    assert_eq!(ask(reader), ask(tx));
}

/// The accessors that operators use on the views themselves.
fn directly(
    world: &World,
    tx: &Transaction,
    at: &ViewsAt,
    asked: &[NodeId],
    used: &mut BTreeSet<&'static str>,
) {
    let small: Vec<u32> = asked
        .iter()
        .filter_map(|id| u32::try_from(id.0).ok())
        .collect();
    for (side, direction) in [
        (AdjacencySide::Out, Direction::Outgoing),
        (AdjacencySide::In, Direction::Incoming),
    ] {
        for type_id in [None, Some(world.types[0]), Some(world.types[1])] {
            let Some(adjacency) = at.adjacency(type_id, side) else {
                continue;
            };
            used.insert("adjacency");
            if adjacency.has_delta() {
                used.insert("adjacency with delta");
            }
            let types: Vec<TypeId> = type_id.into_iter().collect();
            let mut scratch = Vec::new();
            let mut links = LinkScratch::new();
            for &node in &small {
                let id = NodeId(node.into());
                let mut rows = Neighbours::new();
                tx.expand(&[id], direction, &types, &mut rows).unwrap();
                let mut expected: Vec<u32> = rows
                    .rows()
                    .iter()
                    .map(|row| {
                        let other = match side {
                            AdjacencySide::Out => row.target,
                            AdjacencySide::In => row.source,
                        };
                        other.0 as u32
                    })
                    .collect();
                expected.sort_unstable();
                assert_eq!(adjacency.neighbours(node, &mut scratch), expected);
                assert_eq!(adjacency.degree(node) as usize, expected.len());
                let bound = adjacency.id_bound();
                assert!(expected.iter().all(|other| *other < bound));
                assert!(expected.is_empty() || node < bound);
                if adjacency.has_relationships() {
                    let found = adjacency.relationships(node, &mut links);
                    let ids: Vec<u64> = found.ids.iter().map(|id| u64::from(*id)).collect();
                    let rows: Vec<u64> = rows.rows().iter().map(|row| row.id.0).collect();
                    assert_eq!(ids, rows);
                    used.insert("relationships");
                }
            }
        }
    }
    for &type_id in &world.types {
        let mut rows = Vec::new();
        tx.scan_relationships(Some(type_id), None, usize::MAX, &mut rows)
            .unwrap();
        let members: Vec<u64> = rows.iter().map(|row| row.id.0).collect();
        let asked: Vec<u64> = (0..members.last().map_or(0, |last| last + 3)).collect();
        for path in world.paths() {
            if let Some(column) = at.rel_column(type_id, &path) {
                used.insert("column of relationships");
                let properties = |id| {
                    let mut contents = Vec::new();
                    tx.relationship_contents(&[RelId(id)], &mut contents)
                        .unwrap();
                    Some(contents.pop()??.properties.clone())
                };
                cells(tx, &column, &members, &path, &asked, properties);
                if path == [world.props[FIELD]] {
                    let owner = |id| ConvergentOwner::Relationship(RelId(id));
                    fields(tx, &column, &members, owner, used);
                }
            }
        }
    }
    for &label in &world.labels {
        let mut members = Vec::new();
        tx.scan_nodes(Some(label), None, usize::MAX, &mut members)
            .unwrap();
        if let Some(set) = at.label_set(Some(label)) {
            used.insert("members");
            let found: Vec<_> = set.iter().map(|id| NodeId(id.into())).collect();
            assert_eq!(found, members);
        }
        for path in world.paths() {
            if let Some(column) = at.column(label, &path) {
                used.insert("column");
                if column.has_delta() {
                    used.insert("column with delta");
                }
                let members: Vec<u64> = members.iter().map(|id| id.0).collect();
                let asked: Vec<u64> = asked.iter().map(|id| id.0).collect();
                let properties = |id| {
                    let mut contents = Vec::new();
                    tx.node_contents(&[NodeId(id)], &mut contents).unwrap();
                    Some(contents.pop()??.properties.clone())
                };
                cells(tx, &column, &members, &path, &asked, properties);
                if path == [world.props[FIELD]] {
                    let owner = |id| ConvergentOwner::Node(NodeId(id));
                    fields(tx, &column, &members, owner, used);
                }
            }
        }
    }
}

/// Records whether the column held convergent fields, and whether it left some to the rows that it could
/// hold.
fn fields(
    tx: &Transaction,
    column: &isomer_views::ColumnAt,
    members: &[u64],
    owner: impl Fn(u64) -> ConvergentOwner,
    used: &mut BTreeSet<&'static str>,
) {
    for &id in members {
        let field = tx.fields().scalar(owner(id), column.path()[0]).unwrap();
        match (field, column.cell(id as u32)) {
            (ScalarField::Value(_), Cell::Value(_)) => drop(used.insert("field")),
            (ScalarField::Value(_), _) => drop(used.insert("changed field")),
            (ScalarField::Large, Cell::Value(value)) => panic!("{value:?} of a large field"),
            _ => {}
        }
    }
}

fn cells(
    tx: &Transaction,
    column: &isomer_views::ColumnAt,
    members: &[u64],
    path: &[PropId],
    asked: &[u64],
    properties: impl Fn(u64) -> Option<Map>,
) {
    let names = tx.names();
    let name = |prop: PropId| names.prop_name(prop).unwrap();
    for &id in asked {
        let Ok(node) = u32::try_from(id) else {
            continue;
        };
        let cell = column.cell(node);
        let expected = properties(id).map(|properties| {
            let first = properties.get(&name(path[0])).cloned();
            let first = first.unwrap_or_default();
            match (&path[1..], &first) {
                ([], _) => Some(first),
                ([_], Value::Null) => Some(Value::Null),
                ([rest], Value::Map(map)) => {
                    Some(map.get(&name(*rest)).cloned().unwrap_or_default())
                }
                _ => None, // not a map: only the rows answer
            }
        });
        let member = members.binary_search(&id).is_ok();
        match (cell, expected) {
            (Cell::Absent, _) => assert!(!member, "{node}"),
            (Cell::Value(value), Some(Some(expected))) => {
                assert!(member, "{node}");
                assert_eq!(value, expected, "{node}");
            }
            (Cell::Rows, _) => assert!(member, "{node}"),
            (cell, expected) => panic!("{node}: {cell:?} for {expected:?}"),
        }
        // Apart from changed nodes, the pages of the base hold the same values.
        if column.changed().binary_search(&node).is_err() {
            let page = column.pages().get(node as usize / PAGE_ROWS);
            let page = page.and_then(|page| page.as_deref());
            let row = node as usize % PAGE_ROWS;
            assert_eq!(page.is_some_and(|page| page.is_member(row)), member);
        }
    }
}

/// A durable engine: the one that ISOMER_ENGINE names, or the default one.
pub fn engine_at(path: &std::path::Path) -> std::sync::Arc<dyn isomer_storage::Engine> {
    use std::sync::Arc;
    match std::env::var("ISOMER_ENGINE").as_deref() {
        Ok("redb") => {
            Arc::new(isomer_storage_redb::RedbEngine::open(path, Default::default()).unwrap())
        }
        _ => Arc::new(isomer_lsm::LsmEngine::open(path, Default::default()).unwrap()),
    }
}
