//! Views written during a bulk load: their files equal the rows, exist as soon as the load is durable, and
//! are written only if the label or type was empty.

use std::{collections::BTreeSet, fs, ops::ControlFlow, path::Path, sync::Arc};

use isomer_bulk::{
    BulkEnds, BulkNode, BulkOptions, BulkPhase, BulkRelationship, BulkWatch, load_nodes,
    load_relationships,
};
use isomer_data::{
    Access, DataError, DataStore, DataStoreOptions, FieldPath, IndexField, IndexSpec, SchemaChange,
    ScopeName,
};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::{Map, Value};
use isomer_views::{AdjacencySide, Owner, ViewKind, ViewOptions, Views};

use crate::common::{Random, World, compare};

fn options(folder: &Path, keep_at_least: u64) -> ViewOptions {
    let mut options = ViewOptions::default();
    options.demand = u64::MAX >> 20;
    options.folder = Some(folder.to_owned());
    options.keep_at_least = keep_at_least;
    options
}

fn open(engine: &Arc<dyn Engine>) -> DataStore {
    DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap()
}

/// A person: `p` is often an integer, `q` a string, `r` of varying type, with a nested map in some records.
fn person(random: &mut Random, row: u64) -> Map {
    let mut map = Map::new();
    map.insert("_key", Value::Int(row as i64));
    if random.below(3) > 0 {
        map.insert("p", Value::Int(random.below(90) as i64));
    }
    map.insert("q", format!("text {row}").as_str().into());
    let mixed = [Value::Float(0.5), Value::Bool(true), "x".into()];
    map.insert("r", mixed[random.below(3)].clone());
    if random.below(4) == 0 {
        let inner: Map = [("x", Value::Int(row as i64))].into_iter().collect();
        map.insert("m", Value::Map(Arc::new(inner)));
    }
    map
}

fn load_people(store: &DataStore, label: &str, count: u64, random: &mut Random) {
    let mut rows = (0..count).map(|row| {
        Ok(BulkNode {
            row,
            properties: person(random, row),
        })
    });
    load_nodes(store, label, &BulkOptions::default(), &mut rows, &mut ()).unwrap();
}

fn links(people: u64, count: u64, random: &mut Random) -> Vec<BulkRelationship> {
    (0..count)
        .map(|row| {
            let mut any = || Value::Int(random.below(people as usize) as i64);
            BulkRelationship {
                row,
                source: any(),
                target: any(),
                properties: [("p", Value::Float(row as f64 / 3.0))]
                    .into_iter()
                    .collect(),
            }
        })
        .collect()
}

fn load_links(
    store: &DataStore,
    rel_type: &str,
    label: &str,
    links: Vec<BulkRelationship>,
    watch: &mut dyn BulkWatch,
) -> Result<(), DataError> {
    let ends = BulkEnds {
        rel_type,
        from: label,
        to: label,
    };
    let mut rows = links.into_iter().map(Ok);
    load_relationships(store, ends, &BulkOptions::default(), &mut rows, watch)?;
    Ok(())
}

/// The views whose files have at least the second newest version.
fn kept(views: &Views) -> BTreeSet<ViewKind> {
    let all = views.status().into_iter();
    all.filter(|view| view.stored_version.is_some())
        .map(|view| view.kind)
        .collect()
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    entries.map(|entry| name(entry.unwrap())).collect()
}

#[test]
fn a_load_leaves_the_files_of_its_views() {
    for (seed, people) in [(1, 20), (2, 3000), (3, 9000)] {
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let engine: Arc<dyn Engine> = match seed {
            2 => Arc::new(MemoryEngine::new()),
            _ => {
                let path = folder.path().join("db");
                crate::common::engine_at(&path)
            }
        };
        let path = folder.path().join("views");
        let store = open(&engine);
        let world = World::new(&store);
        let spec = IndexSpec {
            name: None,
            scope: ScopeName::label("A"),
            fields: vec![IndexField {
                path: FieldPath::top("q"),
                each: false,
            }],
            unique: false,
        };
        let create = SchemaChange::CreateIndex {
            spec,
            if_not_exists: false,
        };
        store.change_schema(create).unwrap();
        let views = Views::open(&store, options(&path, 1)).unwrap();
        load_people(&store, "A", people, &mut random);
        let friendships = links(people, people * 5, &mut random);
        load_links(&store, "R", "A", friendships, &mut ()).unwrap();
        let catalog = store.catalog();
        let (a, r) = (
            catalog.label_id("A").unwrap(),
            catalog.type_id("R").unwrap(),
        );
        let column = |owner: Owner, name| owner.column([catalog.prop_id(name).unwrap()].into());
        let expected = BTreeSet::from([
            ViewKind::Members(None),
            ViewKind::Members(Some(a)),
            ViewKind::Adjacency(r, AdjacencySide::Out),
            column(Owner::Nodes(a), "_key"),
            column(Owner::Nodes(a), "p"),
            column(Owner::Nodes(a), "q"),
            column(Owner::Relationships(r), "p"),
        ]);
        assert_eq!(kept(&views), expected);
        // They are read on request, never rebuilt, and equal the rows.
        let version = |kind: &ViewKind| {
            let all = views.status();
            let one = all.iter().find(|one| one.kind == *kind).unwrap();
            (one.version, one.stored_version)
        };
        for kind in &expected {
            let (_, stored) = version(kind);
            views.make(kind).unwrap();
            assert_eq!(version(kind), (stored.unwrap(), stored), "{kind:?}");
        }
        let check = views.check(&mut |_| {});
        assert_eq!((check.sound, check.wrong.len()), (expected.len(), 0));
        // The other side is transposed from the stored one, and not written.
        let into = ViewKind::Adjacency(r, AdjacencySide::In);
        views.make(&into).unwrap();
        assert_eq!(kept(&views), expected);
        assert_eq!(views.check(&mut |_| {}).wrong, []);
        let mut used = BTreeSet::new();
        if people < 1000 {
            let tx = store.begin(Access::Read).unwrap();
            compare(&world, &tx, &views, &mut random, &mut used);
            assert!(used.contains("column of relationships"), "{used:?}");
        }
        // Later commits are applied to them, also after another opening.
        let mut tx = store.begin(Access::Write).unwrap();
        world.write(&mut tx, &mut random);
        tx.commit().unwrap();
        assert_eq!(views.check(&mut |_| {}).wrong, []);
        views.close();
        drop((views, store));
        let store = open(&engine);
        let views = Views::open(&store, options(&path, 1)).unwrap();
        assert!(kept(&views).is_superset(&expected)); // the comparison requested more views
        assert!(!kept(&views).contains(&into));
        views.make(&into).unwrap();
        let stands = |kind: &ViewKind| {
            let all = views.status();
            all.iter().any(|one| one.kind == *kind && one.version > 0)
        };
        assert!(stands(&into) && stands(&ViewKind::Adjacency(r, AdjacencySide::Out)));
        let check = views.check(&mut |_| {});
        assert!(check.sound >= expected.len() && check.wrong.is_empty());
        assert!(names(&path).iter().all(|name| name.ends_with(".view")));
    }
}

#[test]
fn what_is_not_all_there_is_leaves_no_files() {
    let mut random = Random::new(7);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("views");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let views = Views::open(&store, options(&path, 10)).unwrap();
    // Too few records.
    load_people(&store, "A", 9, &mut random);
    assert_eq!(kept(&views), BTreeSet::new());
    // The label already had nodes.
    load_people(&store, "B", 100, &mut random);
    let b = store.catalog().label_id("B").unwrap();
    assert!(kept(&views).contains(&ViewKind::Members(Some(b))));
    assert!(!kept(&views).contains(&ViewKind::Members(None)));
    // The type already has relationships.
    let friendships = links(100, 5, &mut random);
    load_links(&store, "R", "B", friendships, &mut ()).unwrap();
    let friendships = links(100, 300, &mut random);
    load_links(&store, "R", "B", friendships, &mut ()).unwrap();
    let r = store.catalog().type_id("R").unwrap();
    assert!(!kept(&views).contains(&ViewKind::Adjacency(r, AdjacencySide::Out)));
    // A view of a type that was emptied and is loaded again.
    views
        .make(&ViewKind::Adjacency(r, AdjacencySide::Out))
        .unwrap();
    assert_eq!(views.check(&mut |_| {}).wrong, []);
    // A load into a type that has relationships: the ready view is rebuilt automatically.
    let standing = || {
        let all = views.status();
        let own = all
            .iter()
            .find(|one| one.kind == ViewKind::Adjacency(r, AdjacencySide::Out));
        own.map_or(0, |one| one.count)
    };
    let before = standing();
    assert!(before > 0);
    let friendships = links(100, 200, &mut random);
    load_links(&store, "R", "B", friendships, &mut ()).unwrap();
    views.wait_ready();
    assert_eq!(standing(), before + 200);
    assert_eq!(views.check(&mut |_| {}).wrong, []);
    // A load that is cancelled while it is written.
    struct Stops;
    impl BulkWatch for Stops {
        fn progress(&mut self, phase: BulkPhase, _: u64, _: Option<u64>) -> ControlFlow<()> {
            match phase {
                BulkPhase::Reading => ControlFlow::Continue(()),
                BulkPhase::Writing => ControlFlow::Break(()),
            }
        }
    }
    let friendships = links(100, 9000, &mut random);
    let stopped = load_links(&store, "S", "B", friendships, &mut Stops);
    assert!(matches!(stopped, Err(DataError::Cancelled)), "{stopped:?}");
    let s = store.catalog().type_id("S").unwrap();
    assert!(!kept(&views).contains(&ViewKind::Adjacency(s, AdjacencySide::Out)));
    let rubbish = |name: &String| name.ends_with(".new");
    assert!(!names(&path).iter().any(rubbish), "{:?}", names(&path));
}
