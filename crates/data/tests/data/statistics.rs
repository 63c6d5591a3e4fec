//! Statistics: exact where all records are read, near where a sample is taken, sampled again after many changes, kept
//! over reopening.

use std::sync::Arc;

use isomer_data::{
    Access, DataStore, DataStoreOptions, FieldPath, IndexField, IndexSpec, SchemaChange, ScopeName,
    ValueStatistics,
};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::{LabelId, Map, NodeId, TypeId, Value};

fn open(engine: &Arc<MemoryEngine>) -> DataStore {
    let engine: Arc<dyn Engine> = engine.clone();
    DataStore::open(engine, DataStoreOptions::default()).expect("a store")
}

fn properties(pairs: &[(&str, Value)]) -> Map {
    pairs
        .iter()
        .map(|(name, value)| (*name, value.clone()))
        .collect()
}

struct Made {
    person: LabelId,
    admin: LabelId,
    city: LabelId,
    lives: TypeId,
    people: Vec<NodeId>,
}

/// `people` people, each tenth an admin, nine of ten in the state `open`, all living in one of ten cities.
fn make(store: &DataStore, people: i64) -> Made {
    let mut tx = store.begin(Access::Write).expect("a transaction");
    let person = tx.name_ids().intern_label("Person").expect("a label");
    let admin = tx.name_ids().intern_label("Admin").expect("a label");
    let city = tx.name_ids().intern_label("City").expect("a label");
    let lives = tx.name_ids().intern_type("LIVES").expect("a type");
    let cities: Vec<NodeId> = (0..10)
        .map(|at| {
            let name = properties(&[("name", Value::Int(at))]);
            tx.graph_mut().create_node(&[city], &name).expect("a city")
        })
        .collect();
    let made = (0..people)
        .map(|at| {
            let state = if at % 10 == 3 { "frozen" } else { "open" };
            let of = properties(&[
                ("number", Value::Int(at)),
                ("state", Value::from(state)),
                ("age", Value::Int(at % 50)),
            ]);
            let labels: &[LabelId] = if at % 10 == 5 {
                &[person, admin]
            } else {
                &[person]
            };
            let node = tx.graph_mut().create_node(labels, &of).expect("a person");
            let home = cities[at as usize % 10];
            tx.graph_mut()
                .create_relationship(lives, node, home, &Map::new())
                .expect("a home");
            node
        })
        .collect();
    tx.commit().expect("committed");
    Made {
        person,
        admin,
        city,
        lives,
        people: made,
    }
}

fn near(found: u64, expected: u64) -> bool {
    found.abs_diff(expected) * 5 <= expected
}

fn share(values: &ValueStatistics, of: &str) -> u64 {
    let found = values
        .common
        .iter()
        .find(|(one, _)| *one == Value::from(of));
    found.map_or(0, |(_, count)| *count)
}

#[test]
fn statistics_of_a_few_thousand_records_are_exact() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let made = make(&store, 1_000);
    let found = store
        .statistics()
        .of_label(made.person)
        .expect("read")
        .expect("enough of them");
    assert_eq!((found.nodes, found.sampled), (1_000, 1_000));
    assert_eq!(found.with_label(made.admin), 100);
    assert_eq!(found.with_label(made.city), 0);
    let number = found.property(&["number"]).expect("a property");
    assert_eq!((number.present, number.distinct), (1_000, 1_000));
    assert!(number.common.is_empty());
    let state = found.property(&["state"]).expect("a property");
    assert_eq!(state.distinct, 2);
    assert_eq!((share(state, "open"), share(state, "frozen")), (900, 100));
    let ends = store
        .statistics()
        .of_type(made.lives)
        .expect("read")
        .expect("enough of them");
    let (person, admin, city) = (Some(made.person), Some(made.admin), Some(made.city));
    assert_eq!(ends.between(None, None), 1_000);
    assert_eq!(ends.between(person, city), 1_000);
    assert_eq!(ends.between(admin, city), 100);
    assert_eq!(ends.between(admin, None), 100);
    assert_eq!(ends.between(None, admin), 0);
    assert!(
        store
            .statistics()
            .of_label(made.city)
            .expect("read")
            .is_none(),
        "ten cities are not worth it"
    );
}

#[test]
fn statistics_of_many_records_are_estimated_from_a_sample() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let made = make(&store, 20_000);
    let found = store
        .statistics()
        .of_label(made.person)
        .expect("read")
        .expect("enough of them");
    assert!(found.sampled < 4_000, "{} of 20,000", found.sampled);
    assert!(near(found.with_label(made.admin), 2_000));
    let number = found.property(&["number"]).expect("a property");
    assert!(near(number.distinct, 20_000), "{}", number.distinct);
    let age = found.property(&["age"]).expect("a property");
    assert_eq!(age.distinct, 50);
    let state = found.property(&["state"]).expect("a property");
    assert!(near(share(state, "open"), 18_000) && near(share(state, "frozen"), 2_000));
    // An admin is a person first: a second label has no extents, so its nodes are found through those of the first.
    let admins = store
        .statistics()
        .of_label(made.admin)
        .expect("read")
        .expect("enough of them");
    assert_eq!(admins.with_label(made.person), 2_000);
    let ends = store
        .statistics()
        .of_type(made.lives)
        .expect("read")
        .expect("enough of them");
    assert!(ends.sampled < 4_000, "{} of 20,000", ends.sampled);
    assert!(near(ends.between(Some(made.admin), Some(made.city)), 2_000));
}

#[test]
fn what_has_changed_a_lot_is_sampled_again() {
    let store = open(&Arc::new(MemoryEngine::new()));
    let made = make(&store, 1_000);
    let state = |store: &DataStore| {
        let found = store
            .statistics()
            .of_label(made.person)
            .expect("read")
            .expect("known");
        let state = found.property(&["state"]).expect("a property");
        (share(state, "open"), share(state, "closed"))
    };
    assert_eq!(state(&store), (900, 0));
    let close = |from: usize, to: usize| {
        let mut tx = store.begin(Access::Write).expect("a transaction");
        for node in &made.people[from..to] {
            tx.graph_mut()
                .set_node_property(*node, &["state"], Value::from("closed"))
                .expect("set");
        }
        tx.commit().expect("committed");
    };
    close(0, 100);
    assert_eq!(
        state(&store),
        (900, 0),
        "a change of a tenth does not cause a new sample"
    );
    close(100, 400);
    assert_eq!(state(&store).1, 400);
    // Labels added to nodes at the ends of relationships count for the type.
    let of_admins = |store: &DataStore| {
        let found = store
            .statistics()
            .of_type(made.lives)
            .expect("read")
            .expect("known");
        found.between(Some(made.admin), Some(made.city))
    };
    assert_eq!(of_admins(&store), 100);
    let mut tx = store.begin(Access::Write).expect("a transaction");
    for node in &made.people[..500] {
        tx.graph_mut()
            .add_label(*node, made.admin)
            .expect("a label");
    }
    tx.commit().expect("committed");
    assert_eq!(of_admins(&store), 550);
}

#[test]
fn an_index_has_statistics_and_all_survive_reopening() {
    let engine = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let made = make(&store, 1_000);
    let before = store
        .statistics()
        .of_label(made.person)
        .expect("read")
        .expect("known");
    assert!(before.indexes.is_empty());
    let field = |name: &str| IndexField {
        path: FieldPath::top(name),
        each: false,
    };
    store
        .change_schema(SchemaChange::CreateIndex {
            spec: IndexSpec {
                name: None,
                scope: ScopeName::label("Person"),
                fields: vec![field("state"), field("age")],
                unique: false,
            },
            if_not_exists: false,
        })
        .expect("an index");
    let found = store
        .statistics()
        .of_label(made.person)
        .expect("read")
        .expect("known");
    let index = &found.indexes[0];
    assert_eq!(index.entries, 1_000);
    // Frozen people are those of the ages 3, 13, 23, 33 and 43.
    assert_eq!(index.distinct, [2, 50]);
    assert_eq!(share(&index.first, "open"), 900);
    let ends = store
        .statistics()
        .of_type(made.lives)
        .expect("read")
        .expect("known");
    store.statistics().save().expect("stored");
    drop(store);

    let store = open(&engine);
    let again = store
        .statistics()
        .of_label(made.person)
        .expect("read")
        .expect("known");
    assert_eq!(again, found, "not sampled again: the version is the same");
    assert_eq!(again.version, found.version);
    let again = store
        .statistics()
        .of_type(made.lives)
        .expect("read")
        .expect("known");
    assert_eq!(again.version, ends.version);
    assert_eq!(again.both, ends.both);
}
