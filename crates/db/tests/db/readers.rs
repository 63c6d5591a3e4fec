//! Slow readers of changes: the change stream is retained for them up to a limit; beyond it they get an error, on every
//! engine.

use std::time::Duration;

use isomer_db::{
    Database, Durability, EngineKind, ErrorKind, KvChangeKind, Watch, WatchScope,
    internals::DatabaseInternals as _,
};

use crate::place::Opening as _;

const ENGINES: [EngineKind; 3] = [EngineKind::Lsm, EngineKind::Redb, EngineKind::Memory];

fn open(engine: EngineKind, folder: &std::path::Path, hold_bytes: u64) -> Database {
    Database::builder()
        .engine(engine)
        .memory(64 << 20)
        .durability(Durability::Buffered)
        .change_retention(hold_bytes, Duration::from_secs(3600))
        .open_at(folder)
        .unwrap()
}

/// This number of commits of one key each, with values of 100 bytes.
fn put(db: &Database, from: u32, count: u32) {
    for number in from..from + count {
        db.transact(|tx| {
            tx.bucket("b")
                .put(number.to_be_bytes(), [7; 100].as_slice())
        })
        .unwrap();
    }
}

/// Reads the available changes; returns the numbers of the keys.
fn take(watch: &mut Watch, count: usize) -> Vec<u32> {
    let number = |change: isomer_db::KvChange| match change.kind {
        KvChangeKind::Put { key, .. } => u32::from_be_bytes(key.try_into().unwrap()),
        other => panic!("{other:?}"),
    };
    (0..count)
        .map(|_| number(watch.next_change().unwrap()))
        .collect()
}

fn stream_entries(db: &Database) -> u64 {
    let store = db.store().unwrap();
    store.engine().statistics().unwrap().stream_entries
}

#[test]
fn a_slow_reader_misses_nothing_within_the_limit() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let db = open(engine, folder.path(), 1 << 30);
        put(&db, 0, 1);
        let mut slow = db.watch("b", WatchScope::All, None).unwrap();
        // Much more than is retained without readers (10,000 entries).
        put(&db, 1, 14_000);
        assert!(stream_entries(&db) >= 14_000, "{engine:?}");
        assert_eq!(take(&mut slow, 14_000), (1..=14_000).collect::<Vec<_>>());
        // Once it is read, it may be trimmed.
        drop(slow);
        put(&db, 14_001, 1_100);
        assert!(stream_entries(&db) < 12_000, "{engine:?}");
    }
}

#[test]
fn a_reader_beyond_the_limit_gets_an_error() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let db = open(engine, folder.path(), 200_000);
        put(&db, 0, 10);
        let mut stopped = db.watch("b", WatchScope::All, None).unwrap();
        let seen = stopped.version();
        put(&db, 10, 5);
        assert_eq!(take(&mut stopped, 5), [10, 11, 12, 13, 14]);
        let behind = stopped.version();
        assert!(behind > seen);
        put(&db, 15, 14_000);
        assert!(
            stream_entries(&db) < 12_500,
            "{engine:?}: it fills the disk although no one reads"
        );
        let error = stopped.next_change().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{engine:?}: {error}");
        assert!(
            error
                .to_string()
                .contains(&format!("after version {behind} are incomplete")),
            "{engine:?}: {error}"
        );
        // The error is repeated, instead of returning the remaining changes.
        assert!(stopped.next_change().is_err());
        drop(stopped);
        // Resuming from there gives the same error; a new watch does not.
        let refused = db.watch("b", WatchScope::All, Some(behind)).unwrap_err();
        assert_eq!(refused.to_string(), error.to_string(), "{engine:?}");
        let mut anew = db.watch("b", WatchScope::All, None).unwrap();
        put(&db, 99_999, 1);
        assert_eq!(take(&mut anew, 1), [99_999]);
        drop(anew);
        db.close().unwrap();
        if engine == EngineKind::Memory {
            continue;
        }
        // Reopening does not change what was trimmed.
        let db = open(engine, folder.path(), 200_000);
        assert_eq!(
            db.watch("b", WatchScope::All, Some(behind))
                .unwrap_err()
                .kind(),
            ErrorKind::Invalid,
            "{engine:?}"
        );
    }
}
