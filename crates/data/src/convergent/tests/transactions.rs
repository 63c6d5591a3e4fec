//! Convergent fields in transactions: every kind, concurrent, folded, reopened; the change stream is complete.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use isomer_layout::{
    convergent::{
        clock::Vector,
        effect::Action,
        place::malformed,
        testing::{Dice, MemoryRows, Parcel},
        value::OwnerReading,
    },
    stream::change::Change,
};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::{Map, NodeId, Value};

use crate::{
    Access, ChangeSet, ConvergentKind, ConvergentOp, ConvergentOwner, DataError, DataStore,
    DataStoreOptions, Direction, ErrorKind, GraphRead, Transaction,
};

fn open(engine: &Arc<dyn Engine>) -> DataStore {
    DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap()
}

fn memory() -> Arc<dyn Engine> {
    Arc::new(MemoryEngine::new())
}

fn a_node(store: &DataStore) -> NodeId {
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("Post").unwrap();
    let id = tx.graph_mut().create_node(&[label], &Map::new()).unwrap();
    tx.commit().unwrap();
    id
}

fn int(value: i64) -> Value {
    Value::Int(value)
}

fn list(values: &[i64]) -> Value {
    values.iter().copied().map(int).collect()
}

fn doing(
    store: &DataStore,
    node: NodeId,
    ops: &[(&[&str], ConvergentOp)],
) -> Result<(), DataError> {
    let mut tx = store.begin(Access::Write)?;
    for (path, op) in ops {
        tx.fields_mut()
            .converge(ConvergentOwner::Node(node), path, op, None)?;
    }
    tx.commit().map(drop)
}

fn value(tx: &Transaction, node: NodeId, name: &str) -> Value {
    let mut columns = [Vec::new()];
    let prop = tx.name_ids().intern_prop(name).unwrap();
    tx.node_properties(&[node], &[prop], &mut columns).unwrap();
    let [mut column] = columns;
    let value = column.pop().unwrap();
    let read = tx
        .fields()
        .value(ConvergentOwner::Node(node), &[name])
        .unwrap();
    assert_eq!(read.unwrap_or_default(), value);
    value
}

#[test]
fn every_kind_reads_as_a_plain_value() {
    let store = open(&memory());
    let node = a_node(&store);
    let text = |text: &str| Value::from(text);
    doing(
        &store,
        node,
        &[
            (&["likes"], ConvergentOp::Count(5)),
            (&["likes"], ConvergentOp::Count(-2)),
            (&["tags"], ConvergentOp::Insert(text("b"))),
            (&["tags"], ConvergentOp::Insert(text("a"))),
            (&["tags"], ConvergentOp::Insert(Value::Float(1.0))),
            (&["grown"], ConvergentOp::InsertGrowing(int(1))),
            (&["title"], ConvergentOp::Assign(text("one"))),
            (&["title"], ConvergentOp::Assign(text("two"))),
            (&["moods"], ConvergentOp::AssignMulti(text("good"))),
            (&["open"], ConvergentOp::Enable),
            (&["visitors"], ConvergentOp::Observe(text("ann"), None)),
            (&["visitors"], ConvergentOp::Observe(text("bob"), None)),
            (&["visitors"], ConvergentOp::Observe(text("ann"), None)),
            (&["stats", "views"], ConvergentOp::Count(7)),
            (&["stats", "by", "day"], ConvergentOp::Insert(int(3))),
        ],
    )
    .unwrap();
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(value(&tx, node, "likes"), int(3));
    let tags: Value = [Value::from("a"), Value::from("b"), Value::Float(1.0)]
        .into_iter()
        .collect();
    assert_eq!(
        format!("{:?}", value(&tx, node, "tags")),
        format!("{tags:?}")
    );
    assert_eq!(value(&tx, node, "title"), text("two"));
    assert_eq!(value(&tx, node, "moods"), text("good"));
    assert_eq!(value(&tx, node, "open"), Value::Bool(true));
    assert_eq!(value(&tx, node, "visitors"), int(2));
    let owner = ConvergentOwner::Node(node);
    assert_eq!(
        tx.fields().value(owner, &["stats", "views"]).unwrap(),
        Some(int(7))
    );
    assert_eq!(
        tx.fields().contains(owner, &["tags"], &text("a")).unwrap(),
        Some(true)
    );
    assert_eq!(
        tx.fields().contains(owner, &["tags"], &text("c")).unwrap(),
        Some(false)
    );
    assert_eq!(
        tx.fields().contains(owner, &["likes"], &text("c")).unwrap(),
        None
    );
    assert_eq!(tx.fields().size(owner, &["tags"]).unwrap(), Some(3));
    assert_eq!(tx.fields().size(owner, &["stats"]).unwrap(), Some(2));
    assert_eq!(
        tx.fields()
            .page(owner, &["tags"], Bound::Excluded(&text("a")), 1)
            .unwrap(),
        Some(vec![text("b")])
    );
    assert_eq!(
        tx.fields().kind(owner, &["stats"]).unwrap(),
        Some(ConvergentKind::Map)
    );

    let mut contents = Vec::new();
    tx.node_contents(&[node], &mut contents).unwrap();
    let properties = &contents[0].as_ref().unwrap().properties;
    assert_eq!(properties.len(), 8);
    let Some(Value::Map(stats)) = properties.get("stats") else {
        panic!("{properties:?}")
    };
    assert_eq!(stats.get("views"), Some(&int(7)));
}

/// All keys of the engine, and the number of own transactions that are not yet summed up.
fn keys(engine: &Arc<dyn Engine>) -> (Vec<Vec<u8>>, usize) {
    let snapshot = engine.snapshot().unwrap();
    let (mut keys, mut numbers) = (Vec::new(), 0);
    isomer_layout::pairs::each_pair(&*snapshot, &[], |key, _| {
        match key[0] {
            isomer_layout::keyspace::TAG_OWN_NUMBER => numbers += 1,
            _ => keys.push(key.to_vec()),
        }
        Ok(())
    })
    .unwrap();
    (keys, numbers)
}

/// Entries that were added and removed leave no rows, whether removed one by one or in one operation. Numbers of
/// transactions are compacted when the next ones are reserved.
#[test]
fn added_and_removed_entries_leave_no_row() {
    let engine = memory();
    let store = open(&engine);
    let node = a_node(&store);
    let set: &[&str] = &["map", "set"];
    let one = |count: i64| {
        for number in 0..count {
            doing(&store, node, &[(set, ConvergentOp::Insert(int(number)))]).unwrap();
        }
    };
    one(1_200);
    doing(&store, node, &[(&["map"], ConvergentOp::Clear)]).unwrap();
    let (before, _) = keys(&engine);
    one(3_000);
    assert!(keys(&engine).0.len() >= before.len() + 3_000);
    for number in 0..1_500 {
        doing(&store, node, &[(set, ConvergentOp::Remove(int(number)))]).unwrap();
    }
    doing(&store, node, &[(&["map"], ConvergentOp::Clear)]).unwrap();
    let (after, numbers) = keys(&engine);
    assert_eq!(after, before);
    assert!(
        numbers <= 1024,
        "{numbers} numbers of transactions are left"
    );
    // Nor of the numbers, after they are compacted: explicitly, or at closing. They continue where they were.
    let context = || {
        let tx = store.begin(Access::Read).unwrap();
        tx.fields().context().unwrap()
    };
    let before = context();
    store.numbering().sum_up().unwrap();
    assert_eq!((keys(&engine), context()), ((after.clone(), 0), before));
    one(3);
    doing(&store, node, &[(&["map"], ConvergentOp::Clear)]).unwrap();
    let seen = context();
    assert!(keys(&engine).1 > 0);
    drop(store);
    assert_eq!(keys(&engine), (after, 0));
    let store = open(&engine);
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(tx.fields().context().unwrap(), seen);
}

#[test]
fn relationships_and_documents_have_fields_and_delete_them() {
    let store = open(&memory());
    let node = a_node(&store);
    let mut tx = store.begin(Access::Write).unwrap();
    let likes = tx.name_ids().intern_type("LIKES").unwrap();
    let rel = tx
        .graph_mut()
        .create_relationship(likes, node, node, &Map::new())
        .unwrap();
    tx.fields_mut()
        .converge(
            ConvergentOwner::Relationship(rel),
            &["times"],
            &ConvergentOp::Count(2),
            None,
        )
        .unwrap();
    let key = tx.documents_mut().insert("users", &Map::new()).unwrap();
    let user = tx.documents().node("users", &key).unwrap().unwrap();
    tx.fields_mut()
        .converge(
            ConvergentOwner::Node(user),
            &["tags"],
            &ConvergentOp::Insert(int(1)),
            None,
        )
        .unwrap();
    tx.commit().unwrap();

    let mut tx = store.begin(Access::Write).unwrap();
    let mut contents = Vec::new();
    tx.relationship_contents(&[rel], &mut contents).unwrap();
    assert_eq!(
        contents[0].as_ref().unwrap().properties.get("times"),
        Some(&int(2))
    );
    let document = tx.documents().get("users", &key).unwrap().unwrap();
    assert_eq!(document.get("tags"), Some(&list(&[1])));
    // A value that was read can be written back; another value is refused.
    tx.documents_mut()
        .replace("users", &key, &document)
        .unwrap();
    let mut other = document.clone();
    other.insert("tags", int(7));
    let refused = tx
        .documents_mut()
        .replace("users", &key, &other)
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("tags is a convergent SET here"),
        "{refused}"
    );
    tx.documents_mut().remove("users", &key, true).unwrap();
    tx.graph_mut().delete_node(node, true).unwrap();
    tx.commit().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    let left = isomer_layout::convergent::rows::Rows::scan(&tx, &[0x40], &[], 1, &mut |key, _| {
        panic!("{key:?} is left")
    });
    left.unwrap();
    let mut found = crate::Neighbours::new();
    tx.expand(&[node], Direction::Both, &[], &mut found)
        .unwrap();
    assert!(found.rows().is_empty());
}

#[test]
fn what_does_not_fit_is_refused_with_a_reason() {
    let store = open(&memory());
    let node = a_node(&store);
    let refused = |path: &[&str], op: ConvergentOp| {
        doing(&store, node, &[(path, op)]).unwrap_err().to_string()
    };
    doing(&store, node, &[(&["likes"], ConvergentOp::Count(1))]).unwrap();
    doing(
        &store,
        node,
        &[(&["v"], ConvergentOp::Observe(int(1), Some(4)))],
    )
    .unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    tx.graph_mut()
        .set_node_property(node, &["plain"], int(1))
        .unwrap();
    tx.commit().unwrap();
    for (path, op, reason) in [
        (
            &["likes"][..],
            ConvergentOp::Insert(int(1)),
            "likes is a COUNTER here, not a SET",
        ),
        (
            &["likes", "x"],
            ConvergentOp::Count(1),
            "likes is a COUNTER here, not a MAP",
        ),
        (
            &["plain"],
            ConvergentOp::Count(1),
            "plain holds 1 as a plain value here",
        ),
        (&["_key"], ConvergentOp::Count(1), "_key names the record"),
        (
            &["s"],
            ConvergentOp::Insert(list(&[1])),
            "an element of a set is a LIST",
        ),
        (
            &["s"],
            ConvergentOp::Insert(Value::Null),
            "an element of a set is a NULL",
        ),
        (
            &["s"],
            ConvergentOp::Insert("x".repeat(3000).as_str().into()),
            "an element of a set is 30",
        ),
        (
            &["v"],
            ConvergentOp::Observe(int(1), Some(5)),
            "v has precision 4, not 5",
        ),
        (
            &["w"],
            ConvergentOp::Observe(int(1), Some(17)),
            "the precision of a sketch is 17",
        ),
        (&[], ConvergentOp::Enable, "the path of a property is empty"),
    ] {
        let message = refused(path, op);
        assert!(message.starts_with(reason), "{message}");
    }
    let mut tx = store.begin(Access::Write).unwrap();
    let message = tx
        .graph_mut()
        .set_node_property(node, &["likes"], int(1))
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("likes is a convergent COUNTER here"),
        "{message}"
    );
    let gone = tx.fields_mut().converge(
        ConvergentOwner::Node(NodeId(9)),
        &["x"],
        &ConvergentOp::Enable,
        None,
    );
    assert_eq!(gone.unwrap_err().kind(), ErrorKind::NotFound);
    let odd = tx.fields_mut().converge(
        ConvergentOwner::Node(node),
        &["likes"],
        &ConvergentOp::Clear,
        Some(b"no context"),
    );
    assert_eq!(odd.unwrap_err().kind(), ErrorKind::Invalid);
    // A null removes the field, and then it may be of any kind.
    tx.graph_mut()
        .set_node_property(node, &["likes"], Value::Null)
        .unwrap();
    tx.graph_mut()
        .set_node_property(node, &["likes"], int(9))
        .unwrap();
    tx.commit().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(value_of(&tx, node, "likes"), int(9));
}

fn value_of(tx: &Transaction, node: NodeId, name: &str) -> Value {
    let mut columns = [Vec::new()];
    let Some(prop) = tx.name_ids().find_prop(name) else {
        return Value::Null;
    };
    tx.node_properties(&[node], &[prop], &mut columns).unwrap();
    columns[0].pop().unwrap()
}

/// A removal removes what its reader saw.
#[test]
fn a_context_does_not_remove_later_entries() {
    let engine = memory();
    let store = open(&engine);
    let node = a_node(&store);
    let owner = ConvergentOwner::Node(node);
    let add = |value: i64| {
        doing(
            &store,
            node,
            &[
                (&["m", "set"], ConvergentOp::Insert(int(value))),
                (&["m", "count"], ConvergentOp::Count(value)),
                (&["m", "on"], ConvergentOp::Enable),
            ],
        )
        .unwrap();
    };
    add(1);
    let context = store
        .begin(Access::Read)
        .unwrap()
        .fields()
        .context()
        .unwrap();
    add(1);
    add(2);
    let remove = |path: &[&str], op: ConvergentOp| {
        let mut tx = store.begin(Access::Write).unwrap();
        tx.fields_mut()
            .converge(owner, path, &op, Some(&context))
            .unwrap();
        tx.commit().unwrap();
    };
    remove(&["m", "set"], ConvergentOp::Remove(int(1)));
    remove(&["m", "on"], ConvergentOp::Disable);
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(
        tx.fields().value(owner, &["m", "set"]).unwrap(),
        Some(list(&[1, 2]))
    );
    assert_eq!(
        tx.fields().value(owner, &["m", "on"]).unwrap(),
        Some(Value::Bool(true))
    );
    remove(&["m"], ConvergentOp::Clear);
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(
        tx.fields().value(owner, &["m", "count"]).unwrap(),
        Some(int(3))
    );
    assert_eq!(
        tx.fields().value(owner, &["m", "set"]).unwrap(),
        Some(list(&[1, 2]))
    );
    // Another database has not seen it.
    let other = open(&memory());
    let there = a_node(&other);
    let mut tx = other.begin(Access::Write).unwrap();
    let refused = tx.fields_mut().converge(
        ConvergentOwner::Node(there),
        &["m"],
        &ConvergentOp::Clear,
        Some(&context),
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .starts_with("the context is unknown")
    );
    // Only removals take one.
    let refused = tx.fields_mut().converge(
        ConvergentOwner::Node(there),
        &["m"],
        &ConvergentOp::Enable,
        Some(&context),
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .starts_with("only removals")
    );
}

/// A counter stays small after many increments, keeps its value, and refuses a context that would split a sum.
#[test]
fn counters_are_folded() {
    let store = open(&memory());
    let node = a_node(&store);
    let owner = ConvergentOwner::Node(node);
    let one = [(&["m", "n"][..], ConvergentOp::Count(1))];
    doing(&store, node, &one).unwrap();
    let early = store
        .begin(Access::Read)
        .unwrap()
        .fields()
        .context()
        .unwrap();
    for _ in 0..999 {
        doing(&store, node, &one).unwrap();
    }
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(
        tx.fields().value(owner, &["m", "n"]).unwrap(),
        Some(int(1000))
    );
    let mut entries = 0;
    isomer_layout::convergent::rows::Rows::scan(&tx, &owner.prefix(), &[], 1, &mut |_, _| {
        entries += 1;
        Ok(true)
    })
    .unwrap();
    assert!(entries <= 200, "{entries} entries");
    let late = tx.fields().context().unwrap();
    let mut tx = store.begin(Access::Write).unwrap();
    let refused = tx
        .fields_mut()
        .converge(owner, &["m"], &ConvergentOp::Clear, Some(&early))
        .unwrap_err();
    assert!(
        refused.to_string().starts_with("the context is too old"),
        "{refused}"
    );
    tx.fields_mut()
        .converge(owner, &["m"], &ConvergentOp::Clear, Some(&late))
        .unwrap();
    tx.commit().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(tx.fields().value(owner, &["m"]).unwrap(), None);
}

#[test]
fn commuting_operations_do_not_conflict_and_reads_do() {
    let store = open(&memory());
    let node = a_node(&store);
    let owner = ConvergentOwner::Node(node);
    let begin = || store.begin(Access::Write).unwrap();
    let all = |tx: &mut Transaction, value: i64| {
        for (name, op) in [
            ("n", ConvergentOp::Count(value)),
            ("s", ConvergentOp::Insert(int(value))),
            ("s", ConvergentOp::Insert(int(0))),
            ("f", ConvergentOp::Enable),
            ("v", ConvergentOp::Observe(int(value), None)),
        ] {
            tx.fields_mut().converge(owner, &[name], &op, None).unwrap();
        }
    };
    let mut first = begin();
    all(&mut first, 1);
    first.commit().unwrap();
    let (mut a, mut b) = (begin(), begin());
    all(&mut a, 2);
    all(&mut b, 3);
    b.commit().unwrap();
    a.commit().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(value(&tx, node, "n"), int(6));
    assert_eq!(value(&tx, node, "s"), list(&[0, 1, 2, 3]));

    // A reader conflicts: of a value, an element, a record; and the deletion of the node too.
    let loses = |read: &dyn Fn(&mut Transaction), change: &dyn Fn(&mut Transaction)| {
        let (mut reader, mut writer) = (begin(), begin());
        read(&mut reader);
        change(&mut writer);
        writer.commit().unwrap();
        // A write, so that the transaction is validated.
        reader.graph_mut().create_node(&[], &Map::new()).unwrap();
        reader
            .commit()
            .is_err_and(|error| error.kind() == ErrorKind::Retry)
    };
    let count = |tx: &mut Transaction| {
        tx.fields_mut()
            .converge(owner, &["n"], &ConvergentOp::Count(1), None)
            .unwrap()
    };
    let insert = |value: i64| {
        move |tx: &mut Transaction| {
            tx.fields_mut()
                .converge(owner, &["s"], &ConvergentOp::Insert(int(value)), None)
                .unwrap()
        }
    };
    let remove = |tx: &mut Transaction| {
        tx.fields_mut()
            .converge(owner, &["s"], &ConvergentOp::Remove(int(1)), None)
            .unwrap()
    };
    let clear = |tx: &mut Transaction| {
        tx.fields_mut()
            .converge(owner, &["s"], &ConvergentOp::Clear, None)
            .unwrap()
    };
    let has = |element: i64| {
        move |tx: &mut Transaction| {
            tx.fields().contains(owner, &["s"], &int(element)).unwrap();
        }
    };
    let whole = |tx: &mut Transaction| tx.node_contents(&[node], &mut Vec::new()).unwrap();
    let size = |tx: &mut Transaction| {
        tx.fields().size(owner, &["s"]).unwrap();
    };
    let plain = |tx: &mut Transaction| {
        tx.graph_mut()
            .set_node_property(node, &["other"], int(1))
            .unwrap()
    };
    assert!(loses(&|tx| drop(value(tx, node, "n")), &count));
    assert!(loses(&whole, &count));
    assert!(loses(&has(9), &insert(9)));
    assert!(loses(&size, &insert(9)));
    assert!(loses(&remove, &insert(1)));
    assert!(loses(&has(1), &clear));
    assert!(loses(&clear, &insert(1)));
    assert!(!loses(&has(9), &insert(8)), "another element");
    assert!(
        !loses(&|tx| drop(value(tx, node, "n")), &insert(8)),
        "another field"
    );
    assert!(!loses(&count, &plain), "another property");
    assert!(!loses(&plain, &count), "another property");
    assert!(!loses(&insert(5), &clear), "it was added later");
    assert!(loses(&count, &|tx| drop(
        tx.graph_mut().delete_node(node, true).unwrap()
    )));
}

/// The first use of a property as a convergent field conflicts with transactions that have read it as a plain one.
#[test]
fn a_property_becomes_convergent_under_a_reader() {
    let store = open(&memory());
    let node = a_node(&store);
    let prop = store
        .begin(Access::Write)
        .unwrap()
        .name_ids()
        .intern_prop("late")
        .unwrap();
    for whole in [false, true] {
        let mut reader = store.begin(Access::Write).unwrap();
        if whole {
            reader.node_contents(&[node], &mut Vec::new()).unwrap();
        } else {
            reader
                .node_properties(&[node], &[prop], &mut [Vec::new()])
                .unwrap();
        }
        let name = if whole { "later" } else { "late" };
        doing(&store, node, &[(&[name], ConvergentOp::Count(1))]).unwrap();
        reader.graph_mut().create_node(&[], &Map::new()).unwrap();
        assert_eq!(reader.commit().unwrap_err().kind(), ErrorKind::Retry);
    }
}

#[test]
fn a_check_finds_invalid_entries() {
    use isomer_layout::keyspace::{self, IdSpace};
    use std::ops::ControlFlow;
    let store = open(&memory());
    let node = a_node(&store);
    let owner = ConvergentOwner::Node(node);
    doing(
        &store,
        node,
        &[
            (&["n"], ConvergentOp::Count(1)),
            (&["m", "s"], ConvergentOp::Insert(int(1))),
        ],
    )
    .unwrap();
    let findings = |key: &[u8], value: &[u8]| {
        let mut tx = store.engine().begin().unwrap();
        tx.put(key, value).unwrap();
        tx.commit(isomer_storage::Durability::Buffered).unwrap();
        let found =
            crate::consistency::check(&store, &mut |_, _| ControlFlow::Continue(())).unwrap();
        let mut tx = store.engine().begin().unwrap();
        tx.delete(key).unwrap();
        tx.commit(isomer_storage::Durability::Buffered).unwrap();
        found.join("; ")
    };
    assert_eq!(findings(&[0x01, 0x02], b""), "");
    let tx = store.begin(Access::Read).unwrap();
    let counter = [
        &owner.prefix()[..],
        &[tx.name_ids().find_prop("n").unwrap().0 as u8, 1],
    ]
    .concat();
    let entry = |replica: u8, number: u8| [&counter[..], &[replica, number, 0]].concat();
    assert!(findings(&entry(0, 100), &[0, 2]).contains("not among those that were seen"));
    assert!(findings(&entry(9, 1), &[0, 2]).contains("not among those that were seen"));
    assert!(findings(&entry(0, 1)[..counter.len() + 1], b"").contains("malformed"));
    assert!(findings(&[&counter[..], &[0, 1, 7]].concat(), &[9]).contains("malformed"));
    let unknown = [&owner.prefix()[..], &[99, 1, 0, 1, 0]].concat();
    assert!(findings(&unknown, &[0, 2]).contains("property number 99"));
    let no_dots = keyspace::convergent_owner(IdSpace::Nodes, 77);
    assert!(
        findings(&[&no_dots[..], &[0, 1, 0, 1, 0]].concat(), &[0, 2])
            .contains("node 77 has convergent fields")
    );
}

/// The expected behaviour, by a model of plain values.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    count: i64,
    counted: bool,
    set: BTreeSet<i64>,
    register: Option<i64>,
    multi: Option<i64>,
    flag: bool,
}

impl Model {
    fn read(&self) -> [Value; 5] {
        [
            if self.counted {
                int(self.count)
            } else {
                Value::Null
            },
            if self.set.is_empty() {
                Value::Null
            } else {
                self.set.iter().copied().map(int).collect()
            },
            self.register.map_or(Value::Null, int),
            self.multi.map_or(Value::Null, int),
            if self.flag {
                Value::Bool(true)
            } else {
                Value::Null
            },
        ]
    }
}

const NAMES: [&str; 5] = ["count", "set", "register", "multi", "flag"];

/// Concurrent transactions, partly rolled back, on an engine that is reopened from time to time: those that commit are
/// serializable, and the change stream alone brings another replica to the same state.
#[test]
fn concurrent_transactions_are_serializable() {
    for seed in 1..80 {
        let mut dice = Dice::new(seed);
        let engine = memory();
        let mut store = open(&engine);
        let node = a_node(&store);
        let owner = ConvergentOwner::Node(node);
        let mut model = Model::default();
        struct OpenTransaction {
            tx: Transaction,
            done: Vec<(ConvergentOp, usize)>,
            reads: Vec<(usize, usize, Value)>,
        }
        let mut running: Vec<OpenTransaction> = Vec::new();
        for _ in 0..120 {
            let which = dice.below(4);
            if running.len() <= which {
                running.push(OpenTransaction {
                    tx: store.begin(Access::Write).unwrap(),
                    done: Vec::new(),
                    reads: Vec::new(),
                });
                continue;
            }
            let one = &mut running[which];
            match dice.below(8) {
                0 => {
                    let name = dice.below(5);
                    let read = value_of(&one.tx, node, NAMES[name]);
                    one.reads.push((one.done.len(), name, read));
                }
                1 => {
                    let one = running.swap_remove(which);
                    match one.tx.commit() {
                        // Read-only transactions are as of their snapshot.
                        Ok(_) if one.done.is_empty() => {}
                        Ok(_) => {
                            for (at, (op, name)) in one.done.iter().enumerate() {
                                check_reads(&model, &one.reads, at, seed);
                                apply(&mut model, op, *name);
                            }
                            check_reads(&model, &one.reads, one.done.len(), seed);
                            let tx = store.begin(Access::Read).unwrap();
                            for (name, expected) in NAMES.iter().zip(model.read()) {
                                assert_eq!(
                                    value_of(&tx, node, name),
                                    expected,
                                    "seed {seed}: {name}"
                                );
                            }
                        }
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Retry, "{error}"),
                    }
                }
                2 => {
                    let mark = one.tx.savepoint();
                    let (op, name) = an_operation(&mut dice);
                    one.tx
                        .fields_mut()
                        .converge(owner, &[NAMES[name]], &op, None)
                        .unwrap();
                    one.tx.rollback_to(mark).unwrap();
                    one.tx.release(mark);
                }
                _ => {
                    let (op, name) = an_operation(&mut dice);
                    one.tx
                        .fields_mut()
                        .converge(owner, &[NAMES[name]], &op, None)
                        .unwrap();
                    one.done.push((op, name));
                }
            }
            if dice.below(40) == 0 {
                running.clear();
                drop(store);
                store = open(&engine);
            }
        }
        drop(running);
        same_from_the_stream(&engine, &store, node, seed);
    }
}

fn check_reads(model: &Model, reads: &[(usize, usize, Value)], at: usize, seed: u64) {
    for (_, name, value) in reads.iter().filter(|read| read.0 == at) {
        assert_eq!(value, &model.read()[*name], "seed {seed}: {}", NAMES[*name]);
    }
}

fn an_operation(dice: &mut Dice) -> (ConvergentOp, usize) {
    let value = dice.below(4) as i64;
    match dice.below(12) {
        0..=2 => (ConvergentOp::Count(value + 1), 0),
        3..=5 => (ConvergentOp::Insert(int(value)), 1),
        6 => (ConvergentOp::Remove(int(value)), 1),
        7 => (ConvergentOp::Assign(int(value)), 2),
        8 => (ConvergentOp::AssignMulti(int(value)), 3),
        9 => (ConvergentOp::Enable, 4),
        10 => (ConvergentOp::Disable, 4),
        _ => (ConvergentOp::Clear, dice.below(5)),
    }
}

fn apply(model: &mut Model, op: &ConvergentOp, name: usize) {
    let whole = |value: &Value| value.as_int().unwrap();
    match op {
        ConvergentOp::Count(by) => (model.count, model.counted) = (model.count + by, true),
        ConvergentOp::Insert(value) => drop(model.set.insert(whole(value))),
        ConvergentOp::Remove(value) => drop(model.set.remove(&whole(value))),
        ConvergentOp::Assign(value) => model.register = Some(whole(value)),
        ConvergentOp::AssignMulti(value) => model.multi = Some(whole(value)),
        ConvergentOp::Enable => model.flag = true,
        ConvergentOp::Disable => model.flag = false,
        ConvergentOp::Clear => {
            let empty = Model::default();
            match name {
                0 => (model.count, model.counted) = (0, false),
                1 => model.set = empty.set,
                2 => model.register = None,
                3 => model.multi = None,
                _ => model.flag = false,
            }
        }
        other => panic!("{other:?} is not in these histories"),
    }
}

/// The convergent part of a commit, if any.
fn parcel_of(entry: &ChangeSet<'_>) -> Result<Option<Parcel>, DataError> {
    let mut operations = Vec::new();
    for change in &entry.changes {
        match change {
            Change::Converged {
                owner,
                op,
                place,
                action,
            } => {
                let action = Action::decode(action).ok_or_else(malformed)?;
                operations.push((*op, [&owner.prefix()[..], place].concat(), action));
            }
            Change::ConvergedBy {
                replica,
                number,
                time,
                seen,
            } => {
                return Ok(Some(Parcel {
                    origin: *replica,
                    number: *number,
                    time: *time,
                    seen: seen.clone(),
                    operations,
                }));
            }
            _ => {}
        }
    }
    match operations.is_empty() {
        true => Ok(None),
        false => Err(malformed()),
    }
}

/// Applies the change stream, in the order of the numbers, and compares.
fn same_from_the_stream(engine: &Arc<dyn Engine>, store: &DataStore, node: NodeId, seed: u64) {
    let mut parcels = Vec::new();
    for entry in engine.stream(0, usize::MAX, usize::MAX, false).unwrap() {
        let changes = ChangeSet::decode(&entry.bytes).unwrap();
        parcels.extend(parcel_of(&changes).unwrap());
    }
    parcels.sort_by_key(|parcel| (parcel.origin, parcel.number));
    let (mut rows, mut seen) = (MemoryRows::default(), Vector::new());
    for parcel in &parcels {
        // Numbers that were given up are not in the stream.
        seen.advance(parcel.origin, parcel.number - 1);
        assert!(parcel.follows(&seen), "seed {seed}");
        parcel.apply(&mut rows).unwrap();
        seen.advance(parcel.origin, parcel.number);
    }
    let prefix = ConvergentOwner::Node(node).prefix();
    let mut reading = OwnerReading::default();
    for (key, value) in &rows.0 {
        reading.push(&key[prefix.len()..], value).unwrap();
    }
    let rows: Vec<_> = reading.finish().unwrap();
    let tx = store.begin(Access::Read).unwrap();
    let mut count = 0;
    for name in NAMES {
        let prop = tx.name_ids().find_prop(name);
        let there = rows
            .iter()
            .find(|(own, _)| Some(*own) == prop)
            .map(|(_, value)| value.clone());
        count += usize::from(there.is_some());
        assert_eq!(
            value_of(&tx, node, name),
            there.unwrap_or_default(),
            "seed {seed}: {name}"
        );
    }
    assert_eq!(count, rows.len());
}

/// Numbers continue after a clean shutdown; after any other a new epoch begins, and no dot is used twice.
#[test]
fn numbers_are_not_used_twice() {
    let engine = memory();
    let store = open(&engine);
    let node = a_node(&store);
    assert_eq!(store.replica(), None);
    let one = [(&["n"][..], ConvergentOp::Count(1))];
    doing(&store, node, &one).unwrap();
    let first = store.replica().unwrap();
    drop(store);
    let store = open(&engine);
    doing(&store, node, &one).unwrap();
    assert_eq!(store.replica(), Some(first), "a clean end");
    std::mem::forget(store.clone()); // never closed
    drop(store);
    let store = open(&engine);
    doing(&store, node, &one).unwrap();
    let second = store.replica().unwrap();
    assert_eq!(second.id, first.id);
    assert_ne!(second.epoch, first.epoch);
    store.numbering().begin_epoch().unwrap();
    doing(&store, node, &one).unwrap();
    let third = store.replica().unwrap();
    assert_eq!(third.id, first.id);
    assert!(third.epoch != first.epoch && third.epoch != second.epoch);
    let mut tx = store.begin(Access::Write).unwrap();
    tx.fields_mut()
        .converge(
            ConvergentOwner::Node(node),
            &["n"],
            &ConvergentOp::Count(1),
            None,
        )
        .unwrap();
    assert_eq!(
        store.numbering().begin_epoch().unwrap_err().kind(),
        ErrorKind::Denied
    );
    drop(tx);

    let mut dots = BTreeSet::new();
    for entry in engine.stream(0, usize::MAX, usize::MAX, false).unwrap() {
        let changes = ChangeSet::decode(&entry.bytes).unwrap();
        if let Some(parcel) = parcel_of(&changes).unwrap() {
            assert!(dots.insert((parcel.origin, parcel.number)), "used twice");
        }
    }
    assert_eq!(dots.len(), 4);
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(value(&tx, node, "n"), int(4));
}

/// A declared field accepts the operations of its kind and no plain value; indexes and constraints on plain values are
/// refused for a convergent field.
#[test]
fn the_schema_knows_convergent_fields() {
    use crate::{ConstraintKind, ConstraintSpec, FieldPath, SchemaChange, ScopeName};
    let store = open(&memory());
    let node = a_node(&store);
    let declare = |name: &str, kind: ConstraintKind| SchemaChange::CreateConstraint {
        spec: ConstraintSpec {
            name: Some(format!("{name}_rule")),
            scope: ScopeName::label("Post"),
            kind,
            unique_fields: Vec::new(),
        },
        if_not_exists: false,
    };
    let convergent = |name: &str, kind| ConstraintKind::Convergent {
        path: FieldPath::top(name),
        kind,
    };
    let change = |change| store.begin(Access::Write).unwrap().change_schema(change);
    change(declare(
        "likes",
        convergent("likes", ConvergentKind::Counter),
    ))
    .unwrap();
    doing(&store, node, &[(&["likes"], ConvergentOp::Count(1))]).unwrap();
    let refused = doing(
        &store,
        node,
        &[
            (&["likes"], ConvergentOp::Clear),
            (&["likes"], ConvergentOp::Enable),
        ],
    );
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("is a COUNTER, not a FLAG")
    );
    let mut tx = store.begin(Access::Write).unwrap();
    let label = tx.name_ids().intern_label("Post").unwrap();
    let plain: Map = [("likes", int(1))].into_iter().collect();
    let refused = tx.graph_mut().create_node(&[label], &plain).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("a convergent COUNTER is required"),
        "{refused}"
    );
    drop(tx);

    doing(&store, node, &[(&["tags"], ConvergentOp::Insert(int(1)))]).unwrap();
    for wrong in [
        declare("tags", convergent("tags", ConvergentKind::Flag)),
        declare(
            "tags",
            ConstraintKind::Required {
                path: FieldPath::top("tags"),
            },
        ),
        declare(
            "only",
            ConstraintKind::Closed {
                names: vec!["likes".into()],
            },
        ),
    ] {
        let refused = change(wrong).unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("tags is a convergent SET on node"),
            "{refused}"
        );
    }
}
