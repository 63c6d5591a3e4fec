//! Readers of changes that are slow: the change stream is kept for them up to a limit, and beyond it they are told, on every
//! engine.

use std::time::Duration;

use isomer_db::{Database, Durability, EngineKind, ErrorKind, KvChangeKind, Watch, Watched};

const ENGINES: [EngineKind; 3] = [EngineKind::Store, EngineKind::Redb, EngineKind::Memory];

fn open(engine: EngineKind, folder: &std::path::Path, hold_bytes: u64) -> Database {
    Database::builder()
        .engine(engine)
        .memory(64 << 20)
        .durability(Durability::Buffered)
        .hold_changes(hold_bytes, Duration::from_secs(3600))
        .open(folder)
        .unwrap()
}

/// So many commits of a key each, with values of 100 bytes.
fn put(db: &Database, from: u32, count: u32) {
    for number in from..from + count {
        db.transact(|tx| {
            tx.bucket("b")
                .put(number.to_be_bytes(), [7; 100].as_slice())
        })
        .unwrap();
    }
}

/// Takes what there is; the numbers of the keys.
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
        let mut slow = db.watch("b", Watched::All, None).unwrap();
        // Much more than is kept where nobody reads (10,000 entries).
        put(&db, 1, 14_000);
        assert!(stream_entries(&db) >= 14_000, "{engine:?}");
        assert_eq!(take(&mut slow, 14_000), (1..=14_000).collect::<Vec<_>>());
        // Once it is read, it may go.
        drop(slow);
        put(&db, 14_001, 1_100);
        assert!(stream_entries(&db) < 12_000, "{engine:?}");
    }
}

#[test]
fn a_reader_beyond_the_limit_is_told_that_it_missed_something() {
    for engine in ENGINES {
        let folder = tempfile::tempdir().unwrap();
        let db = open(engine, folder.path(), 200_000);
        put(&db, 0, 10);
        let mut stopped = db.watch("b", Watched::All, None).unwrap();
        let seen = stopped.version();
        put(&db, 10, 5);
        assert_eq!(take(&mut stopped, 5), [10, 11, 12, 13, 14]);
        let behind = stopped.version();
        assert!(behind > seen);
        put(&db, 15, 14_000);
        assert!(
            stream_entries(&db) < 12_500,
            "{engine:?}: it fills the disk for nobody"
        );
        let told = stopped.next_change().unwrap_err();
        assert_eq!(told.kind(), ErrorKind::Invalid, "{engine:?}: {told}");
        assert!(
            told.to_string()
                .contains(&format!("after version {behind},")),
            "{engine:?}: {told}"
        );
        // It is told again and again, instead of being given what is left.
        assert!(stopped.next_change().is_err());
        drop(stopped);
        // Coming back from there is refused in the same words; reading anew is not.
        let refused = db.watch("b", Watched::All, Some(behind)).unwrap_err();
        assert_eq!(refused.to_string(), told.to_string(), "{engine:?}");
        let mut anew = db.watch("b", Watched::All, None).unwrap();
        put(&db, 99_999, 1);
        assert_eq!(take(&mut anew, 1), [99_999]);
        drop(anew);
        db.close().unwrap();
        if engine == EngineKind::Memory {
            continue;
        }
        // Reopening forgets nothing of what was forgotten.
        let db = open(engine, folder.path(), 200_000);
        assert_eq!(
            db.watch("b", Watched::All, Some(behind))
                .unwrap_err()
                .kind(),
            ErrorKind::Invalid,
            "{engine:?}"
        );
    }
}
