//! Random commits and readers at random versions: views and rows return the same results, in the same order.
//!
//! First with one client thread and the views' worker: commits, bulk loads, rolled back commits, views built,
//! merged and dropped in between, long-lived readers, transactions with writes. Then with many threads.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::common::{Random, World, commit, compare};
use isomer_data::{Access, CommitObserver, DataStore, DataStoreOptions, Transaction};
use isomer_storage::{Engine, MemoryEngine};
use isomer_views::{ViewOptions, Views};

fn options(demand: u64, merge_after: usize) -> ViewOptions {
    let mut options = ViewOptions::default();
    options.demand = demand;
    options.merge_after = merge_after;
    options
}

fn open(engine: Arc<dyn Engine>) -> DataStore {
    DataStore::open(engine, DataStoreOptions::default()).unwrap()
}

/// One random history.
fn history(engine: Arc<dyn Engine>, seed: u64, steps: usize) -> BTreeSet<&'static str> {
    let mut random = Random::new(seed);
    let store = open(engine);
    let merge_after = [1, 4, 1 << 20][random.below(3)];
    // Reads through the reader request no builds here; the operations below do, and so do direct requests on
    // the worker.
    let views = Views::open(&store, options(u64::MAX >> 20, merge_after)).unwrap();
    let world = World::new(&store);
    let kinds = world.kinds();
    let mut readers: Vec<Transaction> = Vec::new();
    let mut used = BTreeSet::new();
    for _ in 0..steps {
        match random.below(20) {
            0..8 => {
                let mut tx = store.begin(Access::Write).unwrap();
                for _ in 0..1 + random.below(6) {
                    world.write(&mut tx, &mut random);
                }
                if random.below(4) == 0 {
                    compare(&world, &tx, &views, &mut random, &mut used);
                }
                if random.below(8) > 0 {
                    commit(tx);
                }
            }
            8..12 => drop(views.make(&kinds[random.below(kinds.len())])),
            12 => drop(views.make_plain(&kinds[random.below(kinds.len())])),
            13 => views.merge_now(&kinds[random.below(kinds.len())]).unwrap(),
            14 => world.load(&store, &mut random),
            15 => {
                // A commit that the engine rolls back after it was applied to the views.
                let version = store.engine().version();
                let entries = store.engine().stream(0, usize::MAX, usize::MAX, false);
                for (at, entry) in entries.unwrap().iter().rev().take(2).enumerate() {
                    views.committing(version + 1 + at as u64, &entry.bytes);
                }
                views.abandoned(version + 1);
            }
            16 if random.below(8) == 0 => views.clear(),
            16..18 => {
                if readers.len() > 4 {
                    readers.swap_remove(random.below(5));
                }
                readers.push(store.begin(Access::Read).unwrap());
            }
            _ => {
                for tx in &readers {
                    compare(&world, tx, &views, &mut random, &mut used);
                }
                let now = store.begin(Access::Read).unwrap();
                compare(&world, &now, &views, &mut random, &mut used);
            }
        }
    }
    views.close();
    assert!(used.len() >= 3, "seed {seed}: views answered only {used:?}");
    used
}

#[test]
fn views_answer_what_rows_answer_in_memory() {
    let mut used = BTreeSet::new();
    for seed in 0..24 {
        used.append(&mut history(Arc::new(MemoryEngine::new()), seed, 120));
    }
    assert!(
        used.contains("field") && used.contains("changed field"),
        "{used:?}"
    );
}

#[test]
fn views_answer_what_rows_answer_on_disk() {
    for seed in 1000..1004 {
        let folder = tempfile::tempdir().unwrap();
        history(
            crate::common::engine_at(&folder.path().join("db")),
            seed,
            80,
        );
    }
}

/// Writers, readers, the merging thread, and a thread that drops views, all concurrently.
#[test]
fn views_answer_what_rows_answer_to_many_threads() {
    let folder = tempfile::tempdir().unwrap();
    let on_disk = crate::common::engine_at(&folder.path().join("db"));
    let engines: [(Arc<dyn Engine>, usize); 2] =
        [(Arc::new(MemoryEngine::new()), 400), (on_disk, 60)];
    for (engine, commits) in engines {
        let store = open(engine);
        let views = Views::open(&store, options(1, 16)).unwrap();
        let world = World::new(&store);
        {
            let mut random = Random::new(7);
            let mut tx = store.begin(Access::Write).unwrap();
            for _ in 0..60 {
                world.write(&mut tx, &mut random);
            }
            commit(tx);
        }
        let done = AtomicBool::new(false);
        let used = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let (store, world) = (&store, &world);
                    scope.spawn(move || {
                        let mut random = Random::new(100 + writer);
                        for _ in 0..commits {
                            let mut tx = store.begin(Access::Write).unwrap();
                            for _ in 0..1 + random.below(4) {
                                world.write(&mut tx, &mut random);
                            }
                            // A conflict is fine.
                            let _ = tx.commit_with(isomer_data::Durability::Buffered);
                        }
                    })
                })
                .collect();
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let (store, world, views, done) = (&store, &world, &views, &done);
                    scope.spawn(move || {
                        let mut random = Random::new(200 + reader);
                        let mut used = BTreeSet::new();
                        while !done.load(Ordering::Relaxed) || used.len() < 3 {
                            let tx = store.begin(Access::Read).unwrap();
                            for _ in 0..1 + random.below(3) {
                                compare(world, &tx, views, &mut random, &mut used);
                            }
                            if random.below(200) == 0 {
                                views.clear();
                            }
                        }
                        used
                    })
                })
                .collect();
            for writer in writers {
                writer.join().unwrap();
            }
            done.store(true, Ordering::Relaxed);
            let used = readers.into_iter().map(|reader| reader.join().unwrap());
            used.flatten().collect::<BTreeSet<_>>()
        });
        assert!(used.len() >= 3, "views answered only {used:?}");
        views.wait_ready();
        views.close();
    }
}

/// A commit is always in flight: building a view must not wait for a pause.
#[test]
fn views_are_made_while_commits_never_cease() {
    let store = open(Arc::new(MemoryEngine::new()));
    let views = Views::open(&store, options(1, 1 << 20)).unwrap();
    let world = World::new(&store);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (store, world, done) = (&store, &world, &done);
            scope.spawn(move || {
                let mut random = Random::new(300 + writer);
                while !done.load(Ordering::Relaxed) {
                    let mut tx = store.begin(Access::Write).unwrap();
                    world.write(&mut tx, &mut random);
                    let _ = tx.commit_with(isomer_data::Durability::Buffered);
                }
            });
        }
        let mut random = Random::new(17);
        let mut used = BTreeSet::new();
        for round in 0..3 {
            for kind in world.kinds() {
                let made = views.make(&kind);
                assert!(made.is_ok(), "{round} {kind:?}: {made:?}");
            }
            let tx = store.begin(Access::Read).unwrap();
            compare(&world, &tx, &views, &mut random, &mut used);
            views.clear();
        }
        done.store(true, Ordering::Relaxed);
        assert!(used.len() >= 3, "views answered only {used:?}");
    });
    views.close();
}
