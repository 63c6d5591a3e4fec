//! Engines on a log in a directory.

use std::{path::Path, sync::Arc, thread};

use isomer_shared_log::{DirectoryLog, DirectoryOptions};
use isomer_storage::{
    Durability, Engine, Granule, GuardMode, MemoryEngine, SharedOptions, StorageError,
};

const COUNTER: &[u8] = b"counter";

/// The counter that [`raise`] raises.
pub fn counter(engine: &dyn Engine) -> u64 {
    let snapshot = engine.snapshot().expect("a snapshot");
    number(snapshot.get(COUNTER).expect("a value in memory"))
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| {
        u64::from_be_bytes(value.try_into().expect("eight bytes"))
    })
}

/// Raises the counter that many times, each time in a transaction that is repeated after a conflict.
pub fn raise(engine: &dyn Engine, times: u64, is_synced: bool) {
    let durability = match is_synced {
        true => Durability::Synced,
        false => Durability::Buffered,
    };
    for _ in 0..times {
        loop {
            let mut transaction = engine.begin().expect("a transaction");
            transaction.guard(Granule(1), GuardMode::Write);
            let value = number(transaction.get(COUNTER).expect("a value in memory")) + 1;
            transaction
                .put(COUNTER, &value.to_be_bytes())
                .expect("a put");
            transaction.append_stream(&value.to_be_bytes());
            match transaction.commit(durability) {
                Ok(_) => break,
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

fn open(folder: &Path) -> MemoryEngine {
    let options = DirectoryOptions {
        segment_bytes: 64 << 10,
        ..DirectoryOptions::default()
    };
    let log = DirectoryLog::open(folder, &options).expect("a log");
    MemoryEngine::shared(Arc::new(log), SharedOptions::default()).expect("the log can be read")
}

/// Three engines, each with its own handle of the log, as three processes have. All close and open again in between.
#[test]
fn three_engines_on_a_log_in_a_directory() {
    const ROUNDS: u64 = 3;
    const RAISES: u64 = 150;
    let folder = tempfile::tempdir().expect("a folder");
    let witness = open(folder.path());
    thread::scope(|scope| {
        for is_synced in [true, false, false] {
            let folder = folder.path();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let engine = open(folder);
                    thread::scope(|scope| {
                        for _ in 0..2 {
                            scope.spawn(|| raise(&engine, RAISES / 2, is_synced));
                        }
                    });
                }
            });
        }
    });
    let total = 3 * ROUNDS * RAISES;
    for engine in [witness, open(folder.path())] {
        assert_eq!(counter(&engine), total);
        assert_eq!(engine.version(), total);
        let entries = engine.stream(total - 10, 100, 1 << 20, false);
        let entries = entries.expect("the change stream");
        let read: Vec<u64> = entries
            .iter()
            .map(|it| number(Some(it.bytes.clone())))
            .collect();
        assert!(read.into_iter().eq(total - 9..=total));
        let statistics = engine.statistics().expect("statistics");
        assert_eq!(statistics.stream_entries, total);
        engine.sync().expect("a sync");
        let durable = engine.stream(0, usize::MAX, usize::MAX, true);
        assert_eq!(durable.expect("the change stream").len() as u64, total);
    }
}
