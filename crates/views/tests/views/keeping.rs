//! Persisted views: what a reopened database answers, and how it handles files that are damaged, foreign, too
//! old or too new. Every check compares views with rows.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::common::{Random, World, commit, compare};
use isomer_data::{Access, CommitObserver, DataStore, DataStoreOptions};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::NodeId;
use isomer_views::{ViewKind, ViewOptions, ViewState, Views};

fn options(folder: &Path) -> ViewOptions {
    let mut options = ViewOptions::default();
    options.demand = u64::MAX >> 20; // views are built explicitly
    options.folder = Some(folder.to_owned());
    options.keep_at_least = 1;
    options
}

fn open(engine: &Arc<dyn Engine>) -> DataStore {
    DataStore::open(engine.clone(), DataStoreOptions::default()).unwrap()
}

fn on_disk(path: &Path) -> Arc<dyn Engine> {
    crate::common::engine_at(path)
}

fn write(store: &DataStore, world: &World, random: &mut Random, commits: usize) {
    for _ in 0..commits {
        let mut tx = store.begin(Access::Write).unwrap();
        for _ in 0..1 + random.below(8) {
            world.write(&mut tx, random);
        }
        commit(tx);
    }
}

fn make_all(views: &Views, world: &World) {
    for kind in world.kinds() {
        views.make(&kind).unwrap();
    }
    views.wait_ready();
}

/// Compares all views with the rows at the newest version; returns the kinds of views that answered.
fn check(
    store: &DataStore,
    views: &Views,
    world: &World,
    random: &mut Random,
) -> BTreeSet<&'static str> {
    let mut used = BTreeSet::new();
    let tx = store.begin(Access::Read).unwrap();
    for _ in 0..2 {
        compare(world, &tx, views, random, &mut used);
    }
    used
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn stored(views: &Views, kind: &ViewKind) -> Option<u64> {
    let all = views.status();
    all.iter().find(|one| one.kind == *kind)?.stored_version
}

fn version(views: &Views, kind: &ViewKind) -> u64 {
    let all = views.status();
    let one = all.iter().find(|one| one.kind == *kind).unwrap();
    assert_eq!(one.state, ViewState::Standing, "{kind:?}");
    one.version
}

/// Random histories with reopenings: files are read, and later commits are replayed.
#[test]
fn a_reopened_database_continues_from_its_files() {
    let mut restored = 0;
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let on_disk = seed % 4 == 0;
        let engine: Arc<dyn Engine> = if on_disk {
            crate::common::engine_at(&folder.path().join("db"))
        } else {
            Arc::new(MemoryEngine::new())
        };
        let kept = folder.path().join("views");
        for _ in 0..8 {
            let store = open(&engine);
            let world = World::new(&store);
            let views = Views::open(&store, options(&kept)).unwrap();
            let before: Vec<_> = world
                .kinds()
                .iter()
                .map(|kind| stored(&views, kind))
                .collect();
            let commits = random.below(20);
            write(&store, &world, &mut random, commits);
            if random.below(6) == 0 {
                world.load(&store, &mut random);
            }
            for (kind, before) in world.kinds().iter().zip(before) {
                if random.below(3) == 0 {
                    continue;
                }
                views.make(kind).unwrap();
                restored += usize::from(before == Some(version(&views, kind)));
                if random.below(3) == 0 {
                    views.merge_now(kind).unwrap();
                }
            }
            check(&store, &views, &world, &mut random);
            write(&store, &world, &mut random, 3);
            check(&store, &views, &world, &mut random);
            let found = views.check(&mut |_| {});
            assert!(
                found.wrong.is_empty() && found.skipped.is_empty(),
                "{found:?}"
            );
            views.close();
        }
    }
    assert!(restored > 300, "only {restored} views came from files");
}

/// Bit flips, truncations and garbage: never a wrong result, never a panic, always rebuilt.
#[test]
fn damaged_files_are_never_answered_from() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("views");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let mut world = World::new(&store);
    let mut random = Random::new(5);
    write(&store, &world, &mut random, 60);
    let views = Views::open(&store, options(&kept)).unwrap();
    // Files written during a bulk load of another label and type have the same format.
    world.load_apart(&store, &mut random);
    let by_loads = files(&kept);
    assert!(by_loads.len() > 4, "{by_loads:?}");
    make_all(&views, &world);
    views.close();
    write(&store, &world, &mut random, 2);
    let whole: Vec<(PathBuf, Vec<u8>)> = files(&kept)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert!(whole.len() > 10, "{whole:?}");

    let views = Views::open(&store, options(&kept)).unwrap();
    let kinds = world.kinds();
    let kinds: Vec<_> = kinds
        .iter()
        .filter_map(|kind| Some((kind, stored(&views, kind)?)))
        .collect();
    assert_eq!(kinds.len(), whole.len(), "all files are usable");
    views.close();
    // Maps each file to its view.
    let owner = |path: &PathBuf| {
        let aside = path.with_extension("aside");
        fs::rename(path, &aside).unwrap();
        let views = Views::open(&store, options(&kept)).unwrap();
        let lost = kinds
            .iter()
            .find(|(kind, _)| stored(&views, kind).is_none());
        views.close();
        fs::rename(&aside, path).unwrap();
        *lost.unwrap()
    };
    let owners: Vec<_> = whole.iter().map(|(path, _)| owner(path)).collect();
    let count = match std::env::var_os("ISOMER_TEST_QUICK") {
        Some(_) => 200,
        None => 1_000,
    };
    for round in 0..count {
        let chosen = random.below(whole.len());
        let (path, bytes) = &whole[chosen];
        let mut damaged = bytes.clone();
        let at = random.below(damaged.len());
        match round % 10 {
            0..6 => damaged[at] ^= 1 << random.below(8),
            6..8 => damaged.truncate(at),
            8 => damaged[at..].fill(0),
            _ => damaged.extend_from_slice(&bytes[at..]),
        }
        if damaged == *bytes {
            continue; // zeros over zeros
        }
        fs::write(path, &damaged).unwrap();
        let views = Views::open(&store, options(&kept)).unwrap();
        let (kind, from_file) = owners[chosen];
        views.make(kind).unwrap();
        assert_ne!(version(&views, kind), from_file, "{path:?} at {at}");
        let damaged = views.damaged();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            matches!(&damaged[..], [file] if file.name == name),
            "{damaged:?} of {name}"
        );
        if round % 20 == 0 {
            for (kind, from_file) in &kinds {
                views.make(kind).unwrap();
                assert_eq!(
                    version(&views, kind) != *from_file,
                    *kind == owners[chosen].0
                );
            }
            let used = check(&store, &views, &world, &mut random);
            assert!(used.len() > 4, "{used:?}");
        }
        views.close();
        assert_eq!(files(&kept).len(), whole.len(), "the file was rewritten");
        fs::write(path, bytes).unwrap();
    }
}

/// A transient read error does not condemn the file.
#[test]
fn a_file_that_cannot_be_read_now_is_read_another_time() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("views");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let mut random = Random::new(21);
    let store = open(&engine);
    let world = World::new(&store);
    write(&store, &world, &mut random, 20);
    let kind = ViewKind::Members(None);
    let views = Views::open(&store, options(&kept)).unwrap();
    views.make(&kind).unwrap();
    views.close();
    let views = Views::open(&store, options(&kept)).unwrap();
    let file = files(&kept).remove(0);
    let aside = folder.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    fs::create_dir(&file).unwrap();
    views.make(&kind).unwrap();
    check(&store, &views, &world, &mut random);
    assert!(stored(&views, &kind).is_some());
    fs::remove_dir(&file).unwrap();
    fs::rename(&aside, &file).unwrap();
    views.close();
    let views = Views::open(&store, options(&kept)).unwrap();
    assert!(stored(&views, &kind).is_some());
    views.close();
}

/// All files of a folder, for any engine.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// A database restored to an earlier state and then changed has the same version numbers with another
/// history.
#[test]
fn files_of_another_past_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("db"), folder.path().join("views"));
    let backup = folder.path().join("backup");
    let mut random = Random::new(9);
    let kind = ViewKind::Members(None);
    {
        let engine = on_disk(&path);
        let store = open(&engine);
        let world = World::new(&store);
        write(&store, &world, &mut random, 10);
        let views = Views::open(&store, options(&kept)).unwrap();
        views.make(&kind).unwrap();
        views.close();
        engine.checkpoint(&backup).unwrap();
        write(&store, &world, &mut random, 30);
    }
    let early = fs::read(&files(&kept)[0]).unwrap();
    let late = {
        let engine = on_disk(&path);
        let store = open(&engine);
        let views = Views::open(&store, options(&kept)).unwrap();
        assert!(stored(&views, &kind).is_some());
        views.make(&kind).unwrap();
        views.merge_now(&kind).unwrap();
        views.close();
        fs::read(&files(&kept)[0]).unwrap()
    };
    assert_ne!(early, late);
    // The file from the time of the backup is usable, the later one never, however many commits follow.
    for (bytes, commits, of_use) in [(&late, 0, false), (&late, 60, false), (&early, 0, true)] {
        let copy = tempfile::tempdir().unwrap();
        fs::remove_dir_all(&kept).unwrap();
        let data = copy.path().join("db");
        copy_folder(&backup, &data);
        {
            let engine = on_disk(&data);
            let store = open(&engine);
            let world = World::new(&store);
            write(&store, &world, &mut random, commits);
        }
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("members-all.view"), bytes).unwrap();
        let engine = on_disk(&data);
        let store = open(&engine);
        let world = World::new(&store);
        let views = Views::open(&store, options(&kept)).unwrap();
        assert_eq!(stored(&views, &kind).is_some(), of_use, "{commits} commits");
        assert_eq!(files(&kept).len(), usize::from(of_use), "removed");
        make_all(&views, &world);
        check(&store, &views, &world, &mut random);
        views.close();
    }
    // A different database.
    fs::write(kept.join("members-all.view"), &early).unwrap();
    let store = open(&(Arc::new(MemoryEngine::new()) as Arc<dyn Engine>));
    let world = World::new(&store);
    write(&store, &world, &mut random, 40);
    let views = Views::open(&store, options(&kept)).unwrap();
    assert_eq!(stored(&views, &kind), None);
    views.close();
}

#[test]
fn reading_only_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("views");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let mut random = Random::new(3);
    {
        let store = open(&engine);
        let world = World::new(&store);
        write(&store, &world, &mut random, 10);
        let views = Views::open(&store, options(&kept)).unwrap();
        views.make(&ViewKind::Members(None)).unwrap();
        views.close();
    }
    fs::write(kept.join("members-7.view"), b"rubbish").unwrap();
    let before: Vec<_> = files(&kept)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    let engine_version = engine.version();
    let world = World::new(&open(&engine));
    let opened_again = engine.version();
    assert_eq!(opened_again, engine_version + 1, "a new era");

    let mut read_only = DataStoreOptions::default();
    read_only.read_only = true;
    let store = DataStore::open(engine.clone(), read_only).unwrap();
    let views = Views::open(&store, options(&kept)).unwrap();
    let kind = ViewKind::Members(None);
    let from_file = stored(&views, &kind).unwrap();
    make_all(&views, &world);
    assert_eq!(version(&views, &kind), from_file);
    check(&store, &views, &world, &mut random);
    views.close();
    let after: Vec<_> = files(&kept)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    assert_eq!(before, after);
    assert_eq!(engine.version(), opened_again);
}

/// The change stream is retained for a file, and a file that the stream does not reach is not used.
#[test]
fn the_change_stream_reaches_back_to_the_files() {
    for held in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("views");
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let mut random = Random::new(4);
        let mut short = DataStoreOptions::default();
        short.stream_retention = 10;
        let open = || DataStore::open(engine.clone(), short.clone()).unwrap();
        let kind = ViewKind::Members(None);
        let store = open();
        let world = World::new(&store);
        write(&store, &world, &mut random, 5);
        let views = Views::open(&store, options(&kept)).unwrap();
        views.make(&kind).unwrap();
        views.wait_ready();
        let from_file = stored(&views, &kind).unwrap();
        let views = if held {
            views
        } else {
            views.close();
            let mut none = ViewOptions::default();
            none.enabled = false;
            Views::open(&store, none).unwrap()
        };
        for _ in 0..2_500 {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.graph_mut()
                .create_node(&[], &isomer_value::Map::new())
                .unwrap();
            tx.commit().unwrap();
        }
        // A few commits have no entry.
        let first = engine.stream(0, 1, 1, false).unwrap()[0].version;
        assert_eq!(first < from_file + 10, held);
        views.close();
        drop((store, views));

        let store = open();
        let views = Views::open(&store, options(&kept)).unwrap();
        assert_eq!(stored(&views, &kind), held.then_some(from_file));
        make_all(&views, &world);
        assert_eq!(version(&views, &kind) == from_file, held);
        check(&store, &views, &world, &mut random);
        views.close();
    }
}

/// A small view that is thousands of commits behind is rebuilt from its rows, which is cheaper than
/// replaying, and its file is rewritten.
#[test]
fn a_small_file_that_is_far_behind_is_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("views");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let kind = ViewKind::Members(None);
    for (commits, is_far) in [(4_000, false), (5_000, true)] {
        let store = open(&engine);
        let views = Views::open(&store, options(&kept)).unwrap();
        if stored(&views, &kind).is_none() {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.graph_mut()
                .create_node(&[], &isomer_value::Map::new())
                .unwrap();
            tx.commit().unwrap();
            views.make(&kind).unwrap();
            views.wait_ready();
        }
        let before = stored(&views, &kind).unwrap();
        views.close();
        while store.engine().version() < before + commits {
            let mut tx = store.begin(Access::Write).unwrap();
            let at = isomer_value::Value::Int(store.engine().version() as i64);
            tx.graph_mut()
                .set_node_property(NodeId(0), &["at"], at)
                .unwrap();
            tx.commit().unwrap();
        }
        drop((store, views));

        let store = open(&engine);
        let views = Views::open(&store, options(&kept)).unwrap();
        views.make(&kind).unwrap();
        views.wait_ready();
        let made = version(&views, &kind);
        assert_eq!(made != before, is_far, "{made} after {before}");
        assert_eq!(stored(&views, &kind), Some(made));
        let found = views.check(&mut |_| {});
        assert!(found.wrong.is_empty(), "{found:?}");
        views.close();
    }
}

/// A merge rewrites a file that is far behind, in commits or in bytes of changes, and not each time.
#[test]
fn a_file_is_written_anew_where_much_was_merged() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("views");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let kind = ViewKind::Members(None);
    let store = open(&engine);
    let create = |text: &str| {
        let mut tx = store.begin(Access::Write).unwrap();
        let mut properties = isomer_value::Map::new();
        properties.insert("text", text.into());
        tx.graph_mut().create_node(&[], &properties).unwrap();
        tx.commit().unwrap();
    };
    create("");
    let views = Views::open(&store, options(&kept)).unwrap();
    views.make(&kind).unwrap();
    views.wait_ready();
    let merge = |is_written: bool| {
        let before = stored(&views, &kind).unwrap();
        views.merge_now(&kind).unwrap();
        views.wait_ready();
        let merged = version(&views, &kind);
        assert_eq!(merged, store.engine().version());
        let expected = if is_written { merged } else { before };
        assert_eq!(stored(&views, &kind), Some(expected));
    };
    (0..4_000).for_each(|_| create(""));
    merge(false);
    (0..200).for_each(|_| create(""));
    merge(true);
    let long = "long ".repeat(400_000);
    (0..8).for_each(|_| create(&long));
    merge(false);
    create(&long);
    merge(true);
    views.close();
}

/// A file is rewritten before its era is forgotten, over more than a hundred openings.
#[test]
fn many_openings_do_not_lose_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("views");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let mut random = Random::new(8);
    let kind = ViewKind::Members(None);
    for opening in 0..250 {
        let store = open(&engine);
        let views = Views::open(&store, options(&kept)).unwrap();
        if opening == 0 {
            let world = World::new(&store);
            write(&store, &world, &mut random, 10);
        } else {
            assert!(stored(&views, &kind).is_some(), "opening {opening}");
        }
        views.make(&kind).unwrap();
        views.wait_ready();
        views.close();
    }
}

/// A view does not answer for a commit whose outcome is unknown.
#[test]
fn a_commit_with_unknown_outcome_is_left_to_the_rows() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = open(&engine);
    let world = World::new(&store);
    let mut random = Random::new(11);
    write(&store, &world, &mut random, 30);
    let views = Views::open(&store, ViewOptions::default()).unwrap();
    for kind in world.kinds() {
        views.make(&kind).unwrap();
    }
    let before = store.begin(Access::Read).unwrap();
    // In this test the commit did succeed.
    write(&store, &world, &mut random, 1);
    views.unsettled(store.engine().version());
    let standing = |view: &isomer_views::ViewStatus| view.state == ViewState::Standing;
    assert!(!views.status().iter().any(standing), "none answers");
    let mut used = BTreeSet::new();
    compare(&world, &before, &views, &mut random, &mut used);
    assert!(used.len() > 4, "older versions are answered: {used:?}");
    check(&store, &views, &world, &mut random);
}
