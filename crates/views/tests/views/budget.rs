//! An exhausted memory budget makes reads slower, never wrong.

use std::{collections::BTreeSet, sync::Arc};

use crate::common::{Random, World, compare};
use isomer_data::{Access, DataStore, DataStoreOptions};
use isomer_storage::{MemoryBudget, MemoryEngine, MemoryKind};
use isomer_value::{Map, NodeId};
use isomer_views::{AdjacencySide, ViewError, ViewKind, ViewOptions, ViewState, Views};

fn fixture(budget: usize) -> (DataStore, Arc<Views>, World, MemoryBudget) {
    let memory = MemoryBudget::new(budget);
    let mut options = DataStoreOptions::default();
    options.memory = memory.clone();
    let store = DataStore::open(Arc::new(MemoryEngine::new()), options).unwrap();
    let views = Views::open(&store, ViewOptions::default()).unwrap();
    let world = World::new(&store);
    let mut random = Random::new(5);
    let mut tx = store.begin(Access::Write).unwrap();
    for _ in 0..400 {
        world.write(&mut tx, &mut random);
    }
    tx.commit().unwrap();
    (store, views, world, memory)
}

fn standing(views: &Views) -> Vec<ViewKind> {
    let all = views.status().into_iter();
    all.filter(|view| view.state == ViewState::Standing)
        .map(|view| view.kind)
        .collect()
}

#[test]
fn the_least_recently_used_view_gives_way() {
    let (store, views, world, memory) = fixture(96 << 10);
    let mut random = Random::new(9);
    let mut used = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for round in 0..3 {
        for kind in world.kinds() {
            match views.make(&kind) {
                Ok(()) => assert!(standing(&views).contains(&kind)),
                Err(ViewError::NoRoom(_)) => {}
                Err(error) => panic!("{error}"),
            }
            let count = standing(&views).len();
            seen.insert(count);
            assert!(memory.used_bytes() <= memory.total_bytes());
            if round == 2 {
                let tx = store.begin(Access::Read).unwrap();
                compare(&world, &tx, &views, &mut random, &mut used);
                views.wait_ready(); // the reads above requested views themselves
            }
        }
    }
    // Several views were ready, but never all of them.
    assert!(seen.last() < Some(&world.kinds().len()), "{seen:?}");
    assert!(seen.last() > Some(&2), "{seen:?}");
    assert!(!used.is_empty());
    views.close();
    assert_eq!(memory.usage(MemoryKind::Views).used_bytes, 0);
}

#[test]
fn views_give_way_to_queries() {
    let (store, views, world, memory) = fixture(8 << 20);
    for kind in world.kinds() {
        views.make(&kind).unwrap();
    }
    assert_eq!(standing(&views).len(), world.kinds().len());
    let held = memory.usage(MemoryKind::Views).used_bytes;
    assert!(held > 0);
    // Free memory plus the memory of the views.
    let wanted = memory.total_bytes() - held / 4;
    let query = memory.reserve(MemoryKind::Queries, wanted).unwrap();
    assert!(standing(&views).len() < world.kinds().len());
    let tx = store.begin(Access::Read).unwrap();
    let mut used = BTreeSet::new();
    compare(&world, &tx, &views, &mut Random::new(1), &mut used);
    drop(query);
}

#[test]
fn a_delta_that_finds_no_room_is_dropped_with_its_view() {
    let (store, views, world, memory) = fixture(4 << 20);
    let tx = store.begin(Access::Read).unwrap();
    let r = tx.names().type_id("R").unwrap();
    let kind = ViewKind::Adjacency(r, AdjacencySide::Out);
    views.make(&kind).unwrap();
    // Enough for a small commit, too little for what all of them add to the delta.
    let rest = memory.free_bytes() - (256 << 10);
    let _query = memory.reserve(MemoryKind::Queries, rest).unwrap();
    let mut writer = store.begin(Access::Write).unwrap();
    let nodes: Vec<NodeId> = (0..2)
        .map(|_| writer.graph_mut().create_node(&[], &Map::new()).unwrap())
        .collect();
    writer.commit().unwrap();
    for _ in 0..100 {
        let mut writer = store.begin(Access::Write).unwrap();
        for _ in 0..200 {
            writer
                .graph_mut()
                .create_relationship(r, nodes[0], nodes[1], &Map::new())
                .unwrap();
        }
        writer.commit().unwrap();
    }
    assert!(!standing(&views).contains(&kind));
    let tx = store.begin(Access::Read).unwrap();
    let mut used = BTreeSet::new();
    compare(&world, &tx, &views, &mut Random::new(1), &mut used);
}
