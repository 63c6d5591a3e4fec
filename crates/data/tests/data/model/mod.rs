//! Random histories of interleaved transactions against a model of plain maps.
//!
//! Inside a transaction every result must be what the model, copied when the transaction began, returns. When a commit
//! succeeds, the transaction's steps run once more on the model's *current* state: were any result different there, the
//! transaction would not be serializable at its commit. Some histories run with a footprint limit of three things, so
//! that nearly everything is widened.

mod naive;

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use crate::common::{int, list, on_disk, text};
use isomer_data::{
    Access, DataError, DataStore, DataStoreOptions, Direction, ErrorKind, FieldPath, GraphRead,
    IndexCursor, IndexField, IndexSeek, IndexSpec, Neighbours, NodeLabels, Order, RelRow,
    Savepoint, SchemaChange, ScopeName, Transaction,
};
use isomer_value::{LabelId, Map, NodeId, RelId, TypeId, Value};
use naive::{INDEXED, Naive, Op, show};

const LABELS: u32 = 3;
const TYPES: u32 = 2;

/// Splitmix: the same seed, the same history.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

struct OpenTransaction {
    tx: Transaction,
    model: Naive,
    steps: Vec<(Op, Option<u64>, String)>,
    marks: Vec<(Savepoint, Naive, usize)>,
}

/// The outcome of a history.
#[derive(Default)]
struct Tally {
    committed: usize,
    conflicts: usize,
}

fn history(store: &DataStore, seed: u64, length: usize) -> Tally {
    prepare(store);
    let mut store = store.clone();
    let mut rng = Rng(seed);
    let mut committed = Naive::default();
    let mut open: Vec<OpenTransaction> = Vec::new();
    let mut tally = Tally::default();
    for _ in 0..length {
        if open.is_empty() && rng.below(2) == 0 {
            // Names, extents of ids, indexes and counts come back as they were.
            store = DataStore::open(store.engine().clone(), store.options().clone()).unwrap();
        }
        if open.len() < 4 && rng.below(4) == 0 || open.is_empty() {
            let tx = store.begin(Access::Write).unwrap();
            open.push(OpenTransaction {
                tx,
                model: committed.clone(),
                steps: Vec::new(),
                marks: Vec::new(),
            });
            continue;
        }
        let at = rng.below(open.len() as u64) as usize;
        match rng.below(20) {
            0 => drop(open.swap_remove(at)),
            1..=3 => {
                let OpenTransaction { tx, steps, .. } = open.swap_remove(at);
                let wrote = tx.has_writes();
                match tx.commit() {
                    // A read-only transaction is at the version that it read.
                    Ok(_) if !wrote => {}
                    Ok(_) => {
                        tally.committed += 1;
                        for (op, created, answer) in steps {
                            let again = committed.run(&op, created);
                            assert_eq!(
                                again, answer,
                                "seed {seed}: {op:?} is not serializable at its commit"
                            );
                        }
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Retry, "seed {seed}: {error}");
                        tally.conflicts += 1;
                    }
                }
            }
            4 => {
                let one = &mut open[at];
                let mark = one.tx.savepoint();
                one.marks.push((mark, one.model.clone(), one.steps.len()));
            }
            5 => {
                let one = &mut open[at];
                if let Some((mark, model, steps)) = one.marks.pop() {
                    one.tx.rollback_to(mark).unwrap();
                    one.tx.release(mark);
                    one.model = model;
                    // Reads since then stay observed, but their results may depend on rolled-back writes.
                    one.steps.truncate(steps);
                }
            }
            _ => {
                let one = &mut open[at];
                let op = random_op(&mut rng, &one.model);
                let (answer, created) = run(&mut one.tx, &op);
                let expected = one.model.run(&op, created);
                assert_eq!(answer, expected, "seed {seed}: {op:?}");
                one.steps.push((op, created, answer));
            }
        }
    }
    drop(open);
    final_state(&store, &mut committed, seed);
    tally
}

/// Labels, types, properties and indexes, in a fixed order.
fn prepare(store: &DataStore) {
    let tx = store.begin(Access::Write).unwrap();
    (0..LABELS).for_each(|label| {
        assert_eq!(
            tx.name_ids().intern_label(&format!("L{label}")).unwrap().0,
            label
        )
    });
    (0..TYPES).for_each(|rel_type| {
        assert_eq!(
            tx.name_ids()
                .intern_type(&format!("T{rel_type}"))
                .unwrap()
                .0,
            rel_type
        )
    });
    drop(tx);
    let plain = |name: &str| IndexField {
        path: FieldPath::top(name),
        each: false,
    };
    let each = IndexField {
        path: FieldPath::top("tags"),
        each: true,
    };
    for (fields, unique) in [
        (vec![plain("a")], false),
        (vec![plain("a"), plain("b")], false),
        (vec![each], false),
        (vec![plain("u")], true),
    ] {
        let spec = IndexSpec {
            name: None,
            scope: ScopeName::Label(format!("L{INDEXED}")),
            fields,
            unique,
        };
        store
            .change_schema(SchemaChange::CreateIndex {
                spec,
                if_not_exists: false,
            })
            .unwrap();
    }
}

fn random_key(rng: &mut Rng) -> Value {
    match rng.below(12) {
        0 => Value::Float(1.0),
        1..=5 => int(rng.below(6) as i64),
        _ => text(&format!("k{}", rng.below(6))),
    }
}

fn random_value(rng: &mut Rng, name: &str) -> Value {
    match (name, rng.below(6)) {
        (_, 0) => Value::Null,
        ("_key", _) => random_key(rng),
        ("tags", _) => list(&[int(rng.below(4) as i64), int(rng.below(4) as i64)]),
        ("a", 1) => text("not a number"),
        _ => int(rng.below(10) as i64),
    }
}

const NAMES: [&str; 5] = ["_key", "a", "b", "u", "tags"];

fn random_properties(rng: &mut Rng) -> Map {
    let mut properties = Map::new();
    for name in NAMES {
        if rng.below(if name == "u" { 6 } else { 2 }) == 0 {
            properties.insert(name, random_value(rng, name));
        }
    }
    properties
}

fn random_op(rng: &mut Rng, model: &Naive) -> Op {
    let some_id = |rng: &mut Rng, ids: Vec<u64>| match ids.len() {
        0 => 3,
        _ if rng.below(30) == 0 => 9_999,
        _ => rng.pick(&ids),
    };
    let node = |rng: &mut Rng| some_id(rng, model.nodes.keys().copied().collect());
    let rel = |rng: &mut Rng| some_id(rng, model.rels.keys().copied().collect());
    let label = |rng: &mut Rng| rng.below(u64::from(LABELS)) as u32;
    let direction =
        |rng: &mut Rng| rng.pick(&[Direction::Outgoing, Direction::Incoming, Direction::Both]);
    let types = |rng: &mut Rng| rng.pick(&[&[][..], &[0], &[1], &[0, 1]]).to_vec();
    match rng.below(40) {
        0..=5 => {
            let labels = (0..LABELS).filter(|_| rng.below(2) == 0).collect();
            Op::CreateNode {
                labels,
                properties: random_properties(rng),
            }
        }
        6..=10 => Op::CreateRel {
            rel_type: rng.below(u64::from(TYPES)) as u32,
            source: node(rng),
            target: node(rng),
            properties: random_properties(rng),
        },
        11..=13 => {
            let name = rng.pick(&NAMES);
            Op::SetNode {
                id: node(rng),
                name,
                value: random_value(rng, name),
            }
        }
        14 => Op::ReplaceNode {
            id: node(rng),
            properties: random_properties(rng),
        },
        15 => Op::AddLabel {
            id: node(rng),
            label: label(rng),
        },
        16 => Op::RemoveLabel {
            id: node(rng),
            label: label(rng),
        },
        17 => Op::DeleteNode {
            id: node(rng),
            detach: rng.below(2) == 0,
        },
        18 => {
            let name = rng.pick(&["a", "b"]);
            Op::SetRel {
                id: rel(rng),
                name,
                value: random_value(rng, name),
            }
        }
        19 => Op::DeleteRel { id: rel(rng) },
        20..=22 => Op::Node { id: node(rng) },
        23 => {
            let label = [None, Some(label(rng))][rng.below(2) as usize];
            let after = [None, Some(node(rng))][rng.below(2) as usize];
            Op::Nodes {
                label,
                after,
                limit: 1 + rng.below(20) as usize,
            }
        }
        24 => Op::Contents {
            ids: model.nodes.keys().copied().chain([9_999]).collect(),
        },
        25 => {
            let rel_type = rng.pick(&[None, Some(0), Some(1)]);
            Op::Rels {
                rel_type,
                limit: 1 + rng.below(20) as usize,
            }
        }
        26..=27 => Op::Rel { id: rel(rng) },
        28..=30 => Op::Expand {
            id: node(rng),
            direction: direction(rng),
            types: types(rng),
        },
        31..=32 => Op::Into {
            source: node(rng),
            target: node(rng),
            direction: direction(rng),
            types: types(rng),
        },
        33 => Op::CountNodes {
            label: [None, Some(label(rng))][rng.below(2) as usize],
        },
        34 => Op::CountRels {
            rel_type: rng.pick(&[None, Some(0), Some(1)]),
        },
        35 => Op::ByKey {
            label: label(rng),
            key: random_key(rng),
        },
        36 => Op::Keys {
            label: label(rng),
            from: rng.pick(&[0, 3]).into(),
        },
        37 => {
            let low = rng.below(8) as i64;
            Op::SeekA {
                low,
                high: low + 1 + rng.below(4) as i64,
            }
        }
        38 => Op::SeekAB {
            a: rng.below(10) as i64,
        },
        _ => Op::SeekTag {
            tag: rng.below(4) as i64,
        },
    }
}

fn run(tx: &mut Transaction, op: &Op) -> (String, Option<u64>) {
    let mut created = None;
    let answer = answer(tx, op, &mut created);
    let text = match answer {
        Ok(answer) => answer,
        Err(error) => format!("error {}", error.kind().name()),
    };
    (text, created)
}

fn answer(tx: &mut Transaction, op: &Op, created: &mut Option<u64>) -> Result<String, DataError> {
    let types = |types: &[u32]| types.iter().map(|id| TypeId(*id)).collect::<Vec<_>>();
    Ok(match op {
        Op::CreateNode { labels, properties } => {
            let labels: Vec<_> = labels.iter().map(|label| LabelId(*label)).collect();
            *created = Some(tx.graph_mut().create_node(&labels, properties)?.0);
            "created".into()
        }
        Op::CreateRel {
            rel_type,
            source,
            target,
            properties,
        } => {
            let id = tx.graph_mut().create_relationship(
                TypeId(*rel_type),
                NodeId(*source),
                NodeId(*target),
                properties,
            )?;
            *created = Some(id.0);
            "created".into()
        }
        Op::SetNode { id, name, value } => {
            tx.graph_mut()
                .set_node_property(NodeId(*id), &[name], value.clone())?;
            String::new()
        }
        Op::ReplaceNode { id, properties } => {
            tx.graph_mut()
                .replace_node_properties(NodeId(*id), properties)?;
            String::new()
        }
        Op::AddLabel { id, label } => tx
            .graph_mut()
            .add_label(NodeId(*id), LabelId(*label))?
            .to_string(),
        Op::RemoveLabel { id, label } => tx
            .graph_mut()
            .remove_label(NodeId(*id), LabelId(*label))?
            .to_string(),
        Op::DeleteNode { id, detach } => {
            let mut rels: Vec<u64> = tx
                .graph_mut()
                .delete_node(NodeId(*id), *detach)?
                .into_iter()
                .map(|rel| rel.0)
                .collect();
            rels.sort_unstable();
            format!("{rels:?}")
        }
        Op::SetRel { id, name, value } => {
            tx.graph_mut()
                .set_relationship_property(RelId(*id), &[name], value.clone())?;
            String::new()
        }
        Op::DeleteRel { id } => tx.graph_mut().delete_relationship(RelId(*id))?.to_string(),
        Op::Node { id } => node(tx, *id)?,
        Op::Contents { ids } => contents(tx, ids)?,
        Op::Nodes {
            label,
            after,
            limit,
        } => {
            let mut out = Vec::new();
            tx.scan_nodes(label.map(LabelId), after.map(NodeId), *limit, &mut out)?;
            show_ids(&out)
        }
        Op::Rels { rel_type, limit } => {
            let mut out = Vec::new();
            tx.scan_relationships(rel_type.map(TypeId), None, *limit, &mut out)?;
            format!("{:?}", out.iter().map(plain).collect::<Vec<_>>())
        }
        Op::Rel { id } => {
            let (mut rows, mut contents) = (Vec::new(), Vec::new());
            tx.relationship_rows(&[RelId(*id)], &mut rows)?;
            tx.relationship_contents(&[RelId(*id)], &mut contents)?;
            match (&rows[0], &contents[0]) {
                (Some(row), Some(content)) => {
                    assert_eq!(content.type_name.as_ref(), format!("T{}", row.type_id));
                    format!(
                        "{} {} {} {}",
                        row.type_id,
                        row.source,
                        row.target,
                        show(&content.properties)
                    )
                }
                (None, None) => "absent".into(),
                other => panic!("row and content disagree: {other:?}"),
            }
        }
        Op::Expand {
            id,
            direction,
            types: wanted,
        } => {
            let (mut out, mut degrees) = (Neighbours::new(), Vec::new());
            tx.expand(&[NodeId(*id)], *direction, &types(wanted), &mut out)?;
            tx.degree(&[NodeId(*id)], *direction, &types(wanted), &mut degrees)?;
            assert_eq!(degrees[0], out.of(0).len() as u64);
            sorted_rows(out.of(0))
        }
        Op::Into {
            source,
            target,
            direction,
            types: wanted,
        } => {
            let mut out = Neighbours::new();
            tx.expand_into(
                &[(NodeId(*source), NodeId(*target))],
                *direction,
                &types(wanted),
                &mut out,
            )?;
            sorted_rows(out.of(0))
        }
        Op::CountNodes { label } => tx.exact_node_count(label.map(LabelId))?.to_string(),
        Op::CountRels { rel_type } => tx
            .exact_relationship_count(rel_type.map(TypeId))?
            .to_string(),
        Op::ByKey { label, key } => {
            format!("{:?}", tx.node_by_key(LabelId(*label), key)?.map(|id| id.0))
        }
        Op::Keys { label, from } => {
            let range = (Bound::Included(from), Bound::Unbounded);
            let found = tx.documents().scan(&format!("L{label}"), range, 1000)?;
            show_ids(&found.into_iter().map(|(_, id)| id).collect::<Vec<_>>())
        }
        Op::SeekA { low, high } => {
            let (low, high) = (int(*low), int(*high));
            seek(
                tx,
                "L0_a",
                &[],
                (Bound::Included(&low), Bound::Excluded(&high)),
            )?
        }
        Op::SeekAB { a } => {
            // Strings under `b` cannot be; unbounded behind the prefix.
            seek(
                tx,
                "L0_a_b",
                &[int(*a)],
                (Bound::Unbounded, Bound::Unbounded),
            )?
        }
        Op::SeekTag { tag } => seek(
            tx,
            "L0_tags",
            &[int(*tag)],
            (Bound::Unbounded, Bound::Unbounded),
        )?,
    })
}

fn seek(
    tx: &Transaction,
    index: &str,
    prefix: &[Value],
    range: (Bound<&Value>, Bound<&Value>),
) -> Result<String, DataError> {
    let index = tx.catalog().index_named(index).expect("was made").id;
    let (mut cursor, mut out) = (IndexCursor::default(), Vec::new());
    while !cursor.is_done() {
        tx.index_seek(
            &IndexSeek {
                index,
                prefix,
                range,
                order: Order::Ascending,
            },
            &mut cursor,
            2,
            &mut out,
        )?;
    }
    Ok(show_ids(&out))
}

fn node(tx: &Transaction, id: u64) -> Result<String, DataError> {
    let mut exists = Vec::new();
    tx.nodes_exist(&[NodeId(id)], &mut exists)?;
    let text = contents(tx, &[id])?;
    assert_eq!(exists[0], text != "absent");
    Ok(text)
}

/// Labels, columns and contents, which must agree.
fn contents(tx: &Transaction, ids: &[u64]) -> Result<String, DataError> {
    let ids: Vec<_> = ids.iter().map(|id| NodeId(*id)).collect();
    let props: Vec<_> = NAMES
        .iter()
        .map(|name| tx.name_ids().intern_prop(name))
        .collect::<Result<_, _>>()?;
    let (mut labels, mut contents) = (NodeLabels::new(), Vec::new());
    let mut columns = vec![Vec::new(); props.len()];
    tx.node_labels(&ids, &mut labels)?;
    tx.node_properties(&ids, &props, &mut columns)?;
    tx.node_contents(&ids, &mut contents)?;
    let mut shown = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let Some(content) = content else {
            assert!(labels.of(at).is_empty() && columns.iter().all(|column| column[at].is_null()));
            shown.push("absent".to_owned());
            continue;
        };
        for (name, column) in NAMES.iter().zip(&columns) {
            assert_eq!(
                column[at],
                content.properties.get(name).cloned().unwrap_or_default()
            );
        }
        let labels: BTreeSet<u32> = labels.of(at).iter().map(|label| label.0).collect();
        let names: Vec<_> = labels.iter().map(|label| format!("L{label}")).collect();
        assert_eq!(
            content
                .labels
                .iter()
                .map(|name| name.to_string())
                .collect::<Vec<_>>(),
            names
        );
        shown.push(format!("{labels:?} {}", show(&content.properties)));
    }
    Ok(shown.join(";"))
}

fn plain(row: &RelRow) -> (u64, u32, u64, u64) {
    (row.id.0, row.type_id.0, row.source.0, row.target.0)
}

fn sorted_rows(rows: &[RelRow]) -> String {
    let mut rows: Vec<_> = rows.iter().map(plain).collect();
    rows.sort_unstable();
    format!("{rows:?}")
}

fn show_ids(ids: &[NodeId]) -> String {
    format!("{:?}", ids.iter().map(|id| id.0).collect::<Vec<_>>())
}

/// Everything that was committed reads back, from a read-only transaction too.
fn final_state(store: &DataStore, model: &mut Naive, seed: u64) {
    let mut ops = vec![
        Op::Nodes {
            label: None,
            after: None,
            limit: 10_000,
        },
        Op::Rels {
            rel_type: None,
            limit: 10_000,
        },
    ];
    ops.extend(model.nodes.keys().map(|id| Op::Node { id: *id }));
    ops.extend(model.nodes.keys().map(|id| Op::Expand {
        id: *id,
        direction: Direction::Both,
        types: Vec::new(),
    }));
    ops.extend(model.rels.keys().map(|id| Op::Rel { id: *id }));
    ops.extend((0..LABELS).map(|label| Op::CountNodes { label: Some(label) }));
    ops.extend((0..10).map(|a| Op::SeekAB { a }));
    ops.push(Op::SeekA { low: 0, high: 10 });
    let findings =
        isomer_check::check(store, &mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    assert_eq!(findings, Vec::<String>::new(), "seed {seed}");
    for access in [Access::Read, Access::Write] {
        let mut tx = store.begin(access).unwrap();
        for op in &ops {
            assert_eq!(
                run(&mut tx, op).0,
                model.run(op, None),
                "seed {seed}: {op:?} at the end"
            );
        }
    }
}

#[test]
fn random_histories_are_what_plain_maps_say() {
    let mut tally = Tally::default();
    for seed in 0..120 {
        let mut options = DataStoreOptions::default();
        options.footprint_limit = if seed % 2 == 0 {
            4096
        } else {
            1 + seed as usize % 5
        };
        let store =
            DataStore::open(Arc::new(isomer_storage::MemoryEngine::new()), options).unwrap();
        let one = history(&store, seed, 400);
        tally.committed += one.committed;
        tally.conflicts += one.conflicts;
    }
    assert!(
        tally.committed > 1500,
        "{} committed, {} conflicts",
        tally.committed,
        tally.conflicts
    );
    assert!(
        tally.conflicts > 500,
        "{} committed, {} conflicts",
        tally.committed,
        tally.conflicts
    );
}

#[test]
fn random_histories_on_redb_too() {
    for seed in 1000..1004 {
        let (store, _folder) = on_disk();
        let tally = history(&store, seed, 300);
        assert!(tally.committed > 5);
    }
}
