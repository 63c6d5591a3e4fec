//! Bulk loads into a shared database: into tables if no other process has it open, otherwise through the log.

use std::{fs, path::Path, time::Duration};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions, backup::RestoreTarget};
use isomer_storage::{Engine, StorageError, Version};
use isomer_vfs::RealDisk;

use super::{Ending, all, assert_sound, commit, open, small};

fn key(number: usize) -> Vec<u8> {
    format!("load/{number:05}").into_bytes()
}

/// Loads `count` pairs with values of `bytes` bytes.
fn load(engine: &LsmEngine, count: usize, bytes: usize) -> Result<Version, StorageError> {
    let mut pairs = (0..count).map(|number| Ok((key(number), vec![number as u8; bytes])));
    engine.ingest(&mut pairs, Some(b"loaded"))
}

fn get(engine: &LsmEngine, key: &[u8]) -> Option<Vec<u8>> {
    let transaction = engine.begin().expect("begins");
    transaction.get(key).expect("readable")
}

fn load_file(path: &Path) -> std::path::PathBuf {
    path.join("tables").join("MANIFEST.load")
}

#[test]
fn a_load_of_any_size_needs_the_database_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LsmOptions {
        memtable_bytes: 1 << 20,
        segment_bytes: 80 << 20,
        ..small(true)
    };
    let first = open(folder.path(), &options);
    commit(&first, &[(b"a", b"1")]);
    let second = open(folder.path(), &options);
    let (count, bytes) = (1_100, 64 << 10);
    let refused = load(&first, count, bytes).expect_err("too large for a record");
    assert!(
        matches!(refused, StorageError::TooLarge { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("end the other processes"),
        "{refused}"
    );
    let refused = first.hold_alone(Duration::ZERO).expect_err("in use");
    assert!(
        matches!(refused, StorageError::NeedsAlone { .. }),
        "{refused}"
    );
    let own = format!("end these processes: {} (library)", std::process::id());
    assert!(refused.to_string().contains(&own), "{refused}");
    // A small load goes through the log.
    let record = std::iter::once(Ok((b"b".to_vec(), b"2".to_vec())));
    first.ingest(&mut { record }, None).expect("loaded");
    assert_eq!(get(&second, b"b").as_deref(), Some(&b"2"[..]));
    drop(second);

    let version = load(&first, count, bytes).expect("it has the database alone");
    assert_eq!(version, first.version());
    assert_eq!(all(&first).len(), 2 + count);
    commit(&first, &[(b"c", b"3"), (&key(1), b"newer")]);
    let second = open(folder.path(), &options);
    for engine in [&first, &second] {
        assert_eq!(all(engine).len(), 3 + count);
        assert_eq!(get(engine, &key(1)).as_deref(), Some(&b"newer"[..]));
        assert_eq!(get(engine, &key(2)).map(|value| value.len()), Some(bytes));
    }
    let entries = second
        .stream(version - 1, 10, 1 << 20, false)
        .expect("a stream");
    assert_eq!(entries[0].bytes, b"loaded");
    drop(first);
    second.follow().expect("takes over");
    second.compact_all().expect("merged");
    assert_eq!(all(&second).len(), 3 + count);
    assert_sound(&second);
}

#[test]
fn a_process_that_has_the_database_alone_keeps_others_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small(false);
    let read_only = LsmOptions {
        read_only: true,
        ..options.clone()
    };
    let exclusive = LsmOptions {
        sharing: LogSharing::Exclusive,
        ..options.clone()
    };
    let first = open(folder.path(), &options);
    let (held, again) = (
        first.hold_alone(Duration::ZERO).expect("it is alone"),
        first.hold_alone(Duration::ZERO).expect("it is alone"),
    );
    drop(again);
    for other in [&options, &read_only, &exclusive] {
        let refused = LsmEngine::open(folder.path(), other.clone()).expect_err("in use");
        let StorageError::InUse { pid, .. } = refused else {
            panic!("{refused}");
        };
        assert_eq!(pid, Some(std::process::id()));
    }
    drop(held);
    let reader = open(folder.path(), &read_only);
    let refused = first.hold_alone(Duration::ZERO).expect_err("it is read");
    assert!(
        refused.to_string().contains("have it open to read"),
        "{refused}"
    );
    let refused = LsmEngine::open(folder.path(), exclusive).expect_err("in use");
    assert!(matches!(refused, StorageError::InUse { .. }), "{refused}");
    drop(reader);
    let second = open(folder.path(), &options);
    commit(&second, &[(b"a", b"1")]);
    assert_eq!(get(&first, b"a").as_deref(), Some(&b"1"[..]));
    // It follows, and waits for the one that maintains the tables.
    let refused = second.hold_alone(Duration::ZERO).expect_err("in use");
    assert!(
        matches!(refused, StorageError::NeedsAlone { .. }),
        "{refused}"
    );
    drop(first);
    let held = second.hold_alone(Duration::from_secs(5));
    drop(held.expect("it is alone"));
}

/// A process that ends at any call of a load has loaded everything or nothing, and the next one finds out which.
#[test]
fn a_load_that_is_interrupted_is_complete_or_absent() {
    let mut outcomes = [0, 0];
    for calls in 1.. {
        let folder = tempfile::tempdir().expect("a folder");
        let (options, ending) = (small(false), Ending::new());
        let engine = open(folder.path(), &ending.options(options.clone()));
        commit(&engine, &[(b"a", b"1")]);
        engine.flush().expect("flushed");
        commit(&engine, &[(b"b", b"2")]);
        ending.end_at(calls);
        let loaded = load(&engine, 50, 100);
        let has_ended = ending.has_ended();
        drop(engine);
        let was_open = load_file(folder.path()).exists();
        let engine = open(folder.path(), &options);
        let count = all(&engine).len();
        assert!(
            count == 2 || count == 52,
            "{count} pairs after {calls} calls"
        );
        assert!(loaded.is_err() || count == 52, "{calls}: {loaded:?}");
        assert!(!load_file(folder.path()).exists());
        outcomes[usize::from(count == 52)] += usize::from(was_open);
        let mut expected = 52;
        if count == 2 {
            // The version that the load would have had is given to another commit: nothing of the load appears with it.
            commit(&engine, &[(b"d", b"4")]);
            assert_eq!(all(&engine).len(), 3, "after {calls} calls");
            load(&engine, 50, 100).expect("loaded");
            expected += 1;
        }
        commit(&engine, &[(b"c", b"3")]);
        assert_eq!(all(&engine).len(), expected + 1);
        assert_sound(&engine);
        drop(engine);
        assert_eq!(all(&open(folder.path(), &options)).len(), expected + 1);
        if !has_ended {
            break;
        }
    }
    let [absent, complete] = outcomes;
    assert!(absent > 0 && complete > 0, "{absent} and {complete}");
}

/// A process that only reads cannot end a load that was interrupted.
#[test]
fn an_interrupted_load_is_ended_by_a_process_that_writes() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small(false);
    let engine = open(folder.path(), &options);
    load(&engine, 50, 100).expect("loaded");
    drop(engine);
    // The load that is interrupted before its record: as long as its manifest exists, it may have been committed.
    let manifest = folder.path().join("tables").join("MANIFEST");
    fs::copy(&manifest, load_file(folder.path())).expect("copied");
    let read_only = LsmOptions {
        read_only: true,
        ..options.clone()
    };
    let refused = LsmEngine::open(folder.path(), read_only.clone()).expect_err("unsettled");
    assert!(
        refused.to_string().contains("open it for writing once"),
        "{refused}"
    );
    assert_eq!(all(&open(folder.path(), &options)).len(), 50);
    assert_eq!(all(&open(folder.path(), &read_only)).len(), 50);
}

/// Copies and backups have what was written before the database was shared, and what was loaded into tables: the log
/// has neither, and the integrity check of a copy knows that.
#[test]
fn copies_have_what_only_tables_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (db, copy) = (folder.path().join("db"), folder.path().join("copy"));
    let (backups, restored) = (
        folder.path().join("backups"),
        folder.path().join("restored"),
    );
    let shared = small(false);
    let own = LsmOptions {
        sharing: LogSharing::Exclusive,
        ..shared.clone()
    };
    let engine = open(&db, &own);
    commit(&engine, &[(b"a", b"1"), (b"b", b"1")]);
    load(&engine, 20, 10).expect("loaded");
    commit(&engine, &[(b"a", b"2")]);
    drop(engine);
    let engine = open(&db, &shared);
    let backed_up = engine.backup(&RealDisk, &backups, &mut |_, _| {});
    backed_up.expect("backed up");
    commit(&engine, &[(b"c", b"3")]);
    let mut pairs = (0..20).map(|number| Ok((format!("x{number:02}").into_bytes(), vec![7])));
    engine.ingest(&mut pairs, Some(b"loaded")).expect("loaded");
    let mut none = std::iter::empty();
    engine.ingest(&mut none, Some(b"nothing")).expect("loaded");
    commit(&engine, &[(b"d", b"4")]);
    let expected = all(&engine);
    assert_eq!(expected.len(), 44);
    engine.checkpoint(&copy).expect("copied");
    let backed_up = engine.backup(&RealDisk, &backups, &mut |_, _| {});
    backed_up.expect("backed up");
    assert_sound(&engine);
    let version = engine.version();
    drop(engine);
    let newest = RestoreTarget::Newest;
    let outcome = LsmEngine::restore(
        &RealDisk,
        &backups,
        &restored,
        newest,
        None,
        &own,
        &mut |_, _| {},
    );
    outcome.expect("restored");
    for path in [&copy, &restored] {
        for options in [&own, &shared] {
            let engine = open(path, options);
            assert_eq!(
                (all(&engine), engine.version()),
                (expected.clone(), version)
            );
            assert_sound(&engine);
        }
    }
}
