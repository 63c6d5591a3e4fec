//! One process maintains the tables; the others adopt them, and take over.

use std::{
    fs, io,
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions, backup::RestoreTarget};
use isomer_storage::{
    Durability, Engine, KeyRange, Order, StorageError,
    conformance::{ALL, Random, scan},
};
use isomer_vfs::{Call, Disk, FaultyDisk, LockFile, LockMode, RealDisk, SimDisk, keys::MasterKey};

use super::{Map, all, assert_sound, commit, contents, open, processes::wait_for, small};

fn detail(engine: &LsmEngine, name: &str) -> u64 {
    let statistics = engine.statistics().expect("statistics");
    let found = statistics.details.iter().find(|(own, _)| own == name);
    found.expect("a detail").1.parse().expect("a number")
}

/// What a process needs to be durable when it opens the database, the first one that has it open has made durable. So
/// it waits for no disk before its first read.
#[test]
fn a_process_that_joins_syncs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = open(folder.path(), &small(false));
    commit(&first, &[(b"a", b"1")]);
    first.flush().expect("flushed");
    commit(&first, &[(b"b", b"2")]);
    first.sync().expect("durable");
    let fails = |call: Call, path: &Path| match call {
        Call::Sync | Call::SyncFolder => {
            Err(io::Error::other(format!("a sync of {}", path.display())))
        }
        _ => Ok(()),
    };
    let options = LsmOptions {
        disk: Arc::new(FaultyDisk::new(Arc::new(RealDisk), Arc::new(fails))),
        ..small(false)
    };
    let second = open(folder.path(), &options);
    let expected: Map = [(b"a", b"1"), (b"b", b"2")]
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .into();
    assert_eq!(all(&second), expected);
    drop(first);
    drop(second);
    // The first one of all does.
    assert!(LsmEngine::open(folder.path(), options).is_err());
}

/// What a process has to apply before its first read, the first one that opens the database flushes, so that later ones
/// do not apply it again. They read the same.
#[test]
fn what_is_replayed_is_flushed() {
    let folder = tempfile::tempdir().expect("a folder");
    // Large memtables: nothing is flushed because it is full.
    let options = LsmOptions {
        sharing: LogSharing::Shared,
        ..LsmOptions::default()
    };
    let mut expected = Map::new();
    let engine = open(folder.path(), &options);
    for number in 0..3000_u32 {
        let (key, value) = ((number * 7919 % 2000).to_be_bytes(), [number as u8; 150]);
        commit(&engine, &[(&key, &value)]);
        expected.insert(key.to_vec(), value.to_vec());
    }
    engine.sync().expect("durable");
    drop(engine);
    let engine = open(folder.path(), &options);
    assert!(all(&engine) == expected, "all is applied from the log");
    let flushed = |engine: &LsmEngine| detail(engine, "flushed_position");
    wait_for("what was applied is flushed", || {
        flushed(&engine) == detail(&engine, "applied_position")
    });
    let other = open(folder.path(), &options);
    assert_eq!(flushed(&other), detail(&other, "applied_position"));
    for engine in [&engine, &other] {
        assert!(all(engine) == expected, "all is in tables");
        assert_sound(engine);
    }
}

/// Bytes of the files of the shared log.
fn log_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder.join("shared")).expect("names");
    let files = files.map(|entry| entry.expect("a name"));
    let segments = files.filter(|entry| entry.path().extension().is_some_and(|it| it == "log"));
    segments
        .map(|entry| entry.metadata().expect("a file").len())
        .sum()
}

/// After a compaction the log takes no more space than it has to, although its records are younger than the grace
/// period, unless another process may still need them.
#[test]
fn a_compaction_of_a_process_that_is_alone_trims_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LsmOptions {
        sharing: LogSharing::Shared,
        ..LsmOptions::default()
    };
    let mut expected = Map::new();
    let engine = open(folder.path(), &options);
    let other = open(folder.path(), &options);
    let mut write = |round: u32| {
        for number in 0..400_u32 {
            let key = [round.to_be_bytes(), number.to_be_bytes()].concat();
            let value = vec![number as u8; 10_000];
            commit(&engine, &[(&key, &value)]);
            expected.insert(key, value);
        }
        engine.trim_stream(engine.version()).expect("trimmed");
        expected.clone()
    };
    let written = write(1);
    Engine::compact(&engine).expect("compacted");
    assert!(log_bytes(folder.path()) > 4_000_000, "the other needs it");
    assert!(all(&other) == written, "it applies what it needs");
    drop(other);
    Engine::compact(&engine).expect("compacted");
    let bytes = log_bytes(folder.path());
    assert!(bytes < 1_000_000, "{bytes}");
    assert!(all(&engine) == written);
    let other = open(folder.path(), &options);
    assert!(all(&other) == written, "nothing is missing");
    let written = write(2);
    assert!(all(&other) == written);
    assert_sound(&other);
    drop((engine, other));
    // The next process begins with what is left.
    let engine = open(folder.path(), &options);
    assert!(all(&engine) == written);
    assert_sound(&engine);
}

/// Processes that live for less than the grace period, one after the other, keep the log short, too.
#[test]
fn short_processes_trim_the_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut expected = Map::new();
    for round in 0..6_u32 {
        let engine = open(folder.path(), &small(true));
        for number in 0..1_200_u32 {
            let key = [round.to_be_bytes(), number.to_be_bytes()].concat();
            commit(&engine, &[(&key, &[round as u8; 200])]);
            expected.insert(key, vec![round as u8; 200]);
        }
        engine.trim_stream(engine.version()).expect("trimmed");
        engine.flush().expect("flushed");
    }
    let engine = open(folder.path(), &small(true));
    let most = 6 * (64 << 10);
    let began = Instant::now();
    wait_for("the log is trimmed", || log_bytes(folder.path()) <= most);
    let grace = Duration::from_secs(60);
    assert!(began.elapsed() < grace, "not only by its age");
    assert!(all(&engine) == expected);
    assert_sound(&engine);
    drop(engine);
    assert!(all(&open(folder.path(), &small(false))) == expected);
}

/// What the maintainer publishes, a follower adopts: it drops its memtable, and later takes over.
#[test]
fn a_follower_adopts_tables_and_takes_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small(false);
    let first = open(folder.path(), &options);
    let second = open(folder.path(), &options);
    assert!(first.maintains() && !second.maintains());
    let (processes, maintainer) = second.processes();
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| process.kind == "library"));
    assert_eq!(maintainer, Some(std::process::id()));
    commit(&first, &[(b"a", b"1"), (b"b", b"1")]);
    assert_eq!(commit(&second, &[(b"b", b"2")]), 2);
    let error = second.compact().expect_err("not the maintainer");
    let pid = format!("process {}", std::process::id());
    assert!(error.to_string().contains(&pid), "{error}");
    assert!(detail(&second, "memtable_bytes") > 0);
    first.flush().expect("flushed");
    first.compact_all().expect("merged");
    second.follow().expect("follows");
    assert_eq!(detail(&second, "adopted_tables"), 1);
    assert_eq!(
        detail(&second, "memtable_bytes"),
        detail(&first, "memtable_bytes")
    );
    let expected: Map = [(b"a", b"1"), (b"b", b"2")]
        .map(|(key, value)| (key.to_vec(), value.to_vec()))
        .into();
    assert_eq!(all(&second), expected);
    // What was committed since is in memtables of both, and in no table.
    commit(&first, &[(b"c", b"3")]);
    assert!(second.get_last(b"c").is_some());
    drop(first);
    second.follow().expect("follows");
    assert!(second.maintains());
    commit(&second, &[(b"d", b"4")]);
    second.flush().expect("flushed");
    second.compact_all().expect("merged");
    assert_sound(&second);
    drop(second);
    let third = open(folder.path(), &options);
    assert!(third.maintains());
    assert_eq!(all(&third).len(), 4);
    assert_sound(&third);
}

/// A process that is to compact everything becomes the maintainer; the one before it can become it again.
#[test]
fn the_maintainer_hands_over_to_a_process_that_compacts() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LsmOptions {
        maintainer_patience: Duration::from_secs(20),
        ..small(true)
    };
    let first = open(folder.path(), &options);
    let second = open(folder.path(), &options);
    commit(&first, &[(b"a", b"1")]);
    assert!(first.maintains());
    second.compact_all().expect("compacted");
    assert!(second.maintains() && !first.maintains());
    commit(&first, &[(b"b", b"2")]);
    commit(&second, &[(b"c", b"3")]);
    first.compact_all().expect("compacted");
    assert!(first.maintains() && !second.maintains());
    drop(second);
    assert_eq!(all(&first).len(), 3);
    assert_sound(&first);

    // A process that does not answer keeps the lease, and the error has its number.
    let idle = LsmOptions {
        maintainer_patience: Duration::from_millis(50),
        ..small(false)
    };
    drop(first);
    let first = open(folder.path(), &idle);
    let second = open(folder.path(), &idle);
    let refused = second.compact_all().expect_err("it does not answer");
    let pid = format!("process {} maintains", std::process::id());
    assert!(refused.to_string().contains(&pid), "{refused}");
    assert!(first.maintains());
}

/// What is committed, and trimmed, while a copy is made is no part of it.
#[test]
fn a_copy_knows_nothing_of_later_trims() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Arc::new(OnceLock::<Weak<LsmEngine>>::new());
    let (copied, is_later) = (engine.clone(), AtomicBool::new(false));
    // The first call for the log of the copy is after the version of the copy is known.
    let during = move |_: Call, path: &Path| {
        if path.ends_with("copy/log")
            && !is_later.swap(true, Ordering::SeqCst)
            && let Some(engine) = copied.get().and_then(Weak::upgrade)
        {
            let version = commit(&engine, &[(b"c", b"3")]);
            engine.trim_stream(version).expect("trimmed");
        }
        Ok(())
    };
    let disk = FaultyDisk::new(Arc::new(RealDisk), Arc::new(during));
    let options = LsmOptions {
        disk: Arc::new(disk),
        ..small(false)
    };
    let first = Arc::new(open(&folder.path().join("db"), &options));
    engine.set(Arc::downgrade(&first)).expect("set once");
    commit(&first, &[(b"a", b"1")]);
    commit(&first, &[(b"b", b"2")]);
    let target = folder.path().join("copy");
    first.checkpoint(&target).expect("copied");
    assert_eq!((first.version(), all(&first).len()), (3, 3));
    let alone = LsmOptions {
        sharing: LogSharing::Exclusive,
        ..small(false)
    };
    let copy = open(&target, &alone);
    assert_eq!((copy.version(), all(&copy).len()), (2, 2));
    // Its version is the one of the commit that the original has trimmed.
    assert_eq!(commit(&copy, &[(b"d", b"4")]), 3);
    drop(copy);
    let copy = open(&target, &alone);
    let entries = copy.stream(2, 10, 1 << 20, false).expect("readable");
    assert_eq!(entries.len(), 1);
    assert_sound(&copy);
}

/// A process that only reads requests no flush, even if the log has more than its memtables take.
#[test]
fn a_reader_writes_nothing_however_much_it_applies() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = LsmOptions {
        memtable_bytes: 8 << 20,
        ..small(false)
    };
    let first = open(folder.path(), &large);
    for number in 0..1500_u16 {
        commit(&first, &[(&number.to_be_bytes(), &[7; 400])]);
    }
    let expected = all(&first);
    let refuse = |call: Call, path: &Path| match call {
        Call::Open if !path.ends_with("FLUSH") => Ok(()),
        Call::Read | Call::List | Call::Lock => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::ReadOnlyFilesystem)),
    };
    let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(Arc::new(RealDisk), Arc::new(refuse)));
    for background in [false, true] {
        let options = LsmOptions {
            read_only: true,
            create: false,
            disk: disk.clone(),
            ..small(background)
        };
        let began = Instant::now();
        let reader = open(folder.path(), &options);
        assert_eq!(all(&reader), expected);
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    assert!(!folder.path().join("FLUSH").exists());
}

/// A process that is stopped within an append delays the commits of others for a limited time, and no reads.
#[test]
fn a_stopped_appender_is_waited_for_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path(), &small(false));
    commit(&engine, &[(b"a", b"1")]);
    let stopped = LockFile::open(&folder.path().join("shared/page")).expect("a file");
    stopped.lock(LockMode::Exclusive).expect("free");
    let began = Instant::now();
    let mut transaction = engine.begin().expect("begins");
    transaction.put(b"b", b"2").expect("fits");
    let refused = transaction.commit(Durability::Buffered);
    assert!(
        matches!(&refused, Err(StorageError::Unavailable(what)) if what.contains("stopped")),
        "{refused:?}"
    );
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(9), "{waited:?}");
    assert_eq!(all(&engine).len(), 1);
    stopped.unlock().expect("unlocked");
    commit(&engine, &[(b"b", b"2")]);
    assert_eq!(all(&engine).len(), 2);
}

/// The log may go on, behind the last commit in tables, with records for which nothing is flushed.
#[test]
fn a_follower_does_not_wait_for_a_flush_of_notes() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small(false);
    let first = open(folder.path(), &options);
    let second = open(folder.path(), &options);
    commit(&first, &[(b"a", b"1")]);
    assert!(second.get_last(b"a").is_some());
    first.flush().expect("flushed");
    first.trim_stream(1).expect("trimmed");
    assert_eq!(second.stream_trimmed().expect("known"), 1);
    let began = Instant::now();
    second.flush().expect("its commits are in tables");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(
        detail(&second, "memtable_bytes"),
        detail(&first, "memtable_bytes")
    );
    assert!(second.get_last(b"a").is_some());
    commit(&second, &[(b"b", b"2")]);
    assert_eq!(all(&first).len(), 2);
    assert_eq!(all(&second), all(&first));
}

trait Last {
    fn get_last(&self, key: &[u8]) -> Option<Vec<u8>>;
}

impl Last for LsmEngine {
    /// What a new transaction reads.
    fn get_last(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.begin().expect("begins").get(key).expect("readable")
    }
}

/// The maintainer does not know what others read: a follower's snapshots stay as they are when it adopts tables without
/// their versions.
#[test]
fn snapshots_of_a_follower_outlive_their_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small(false);
    let first = open(folder.path(), &options);
    let second = open(folder.path(), &options);
    let mut held = Vec::new();
    for round in 0..6_u8 {
        for number in 0..60_u8 {
            let value = vec![round; 20 + usize::from(number) * 15];
            commit(&first, &[(&[number], &value), (b"round", &[round])]);
        }
        let mut transaction = second.begin().expect("begins");
        let range = KeyRange {
            start: &[round * 5],
            end: Some(&[round * 5 + 3]),
        };
        transaction.delete_range(range).expect("fits");
        transaction.commit(Durability::Buffered).expect("committed");
        let snapshot = second.snapshot().expect("a snapshot");
        let expected = contents(&*snapshot);
        held.push((snapshot, expected));
        if round % 2 == 1 {
            first.flush().expect("flushed");
            first.compact_all().expect("merged");
            second.follow().expect("follows");
        }
    }
    assert_eq!(detail(&second, "adopted_tables"), 3);
    let mut random = Random(5);
    while !held.is_empty() {
        for (snapshot, expected) in &held {
            assert!(contents(&**snapshot) == *expected);
            let found = scan(&**snapshot, ALL, Order::Descending, 7);
            assert!(found.into_iter().eq(expected.clone().into_iter().rev()));
            for number in 0..60_u8 {
                let found = snapshot.get(&[number]).expect("readable");
                assert_eq!(found.as_ref(), expected.get(&[number][..]));
            }
        }
        held.swap_remove(random.below(held.len() as u64) as usize);
    }
    // The follower does not offer versions that the tables lack.
    let oldest = second.oldest_version();
    assert!(second.snapshot_at(oldest).is_ok());
    assert!(matches!(
        second.snapshot_at(1),
        Err(StorageError::Invalid(_))
    ));
    assert!(all(&first) == all(&second));
}

/// A process that takes over may have entries in memory that are in tables as well. They change no answer, neither
/// before nor after they are written again and merged.
#[test]
fn entries_in_memory_and_in_tables_are_one() {
    for seed in 0..40 {
        let folder = tempfile::tempdir().expect("a folder");
        let options = small(false);
        let mut random = Random(seed);
        let mut engines = vec![open(folder.path(), &options), open(folder.path(), &options)];
        let mut model = Map::new();
        for step in 0..120_u32 {
            let at = random.below(engines.len() as u64) as usize;
            let mut transaction = engines[at].begin().expect("begins");
            match random.below(6) {
                0 => {
                    let start = random.below(50) as u8;
                    let end = start + random.below(40) as u8;
                    let (start, end) = (vec![start], vec![end]);
                    let range = KeyRange {
                        start: &start,
                        end: Some(&end),
                    };
                    transaction.delete_range(range).expect("fits");
                    model.retain(|key, _| *key < start || *key >= end);
                }
                1 => {
                    let key = vec![random.below(60) as u8];
                    transaction.delete(&key).expect("fits");
                    model.remove(&key);
                }
                _ => {
                    for _ in 0..random.below(40) {
                        let key = vec![random.below(60) as u8];
                        let bytes = random.below(700) as usize;
                        let value = step.to_be_bytes().repeat(1 + bytes / 4);
                        transaction.put(&key, &value).expect("fits");
                        model.insert(key, value);
                    }
                }
            }
            transaction.commit(Durability::Buffered).expect("committed");
            let at = random.below(engines.len() as u64) as usize;
            match random.below(10) {
                0..3 if engines[at].maintains() => engines[at].flush().expect("flushed"),
                3 if engines[at].maintains() => engines[at].compact_all().expect("merged"),
                4 => {
                    // A transaction applies what is in the log, and nothing is adopted.
                    drop(engines[at].begin().expect("begins"));
                }
                5 => engines[at].follow().expect("follows"),
                6 => {
                    // Perhaps the maintainer: another one takes over, with what it has in memory.
                    drop(engines.swap_remove(at));
                    engines.push(open(folder.path(), &options));
                }
                _ => {}
            }
            let at = random.below(engines.len() as u64) as usize;
            let found = contents(&*engines[at].begin().expect("begins"));
            assert!(found == model, "seed {seed}, step {step}");
        }
        for engine in &engines {
            assert_sound(engine);
        }
    }
}

/// Processes that share a database and one that wants it alone exclude each other; a process that only reads does not.
#[test]
fn who_excludes_whom() {
    let folder = tempfile::tempdir().expect("a folder");
    let shared = small(false);
    let exclusive = LsmOptions {
        sharing: LogSharing::Exclusive,
        ..shared.clone()
    };
    let read_only = LsmOptions {
        read_only: true,
        ..shared.clone()
    };
    let alone = open(folder.path(), &exclusive);
    commit(&alone, &[(b"a", b"1")]);
    let refused = LsmEngine::open(folder.path(), shared.clone()).expect_err("in use");
    assert!(matches!(refused, StorageError::InUse { .. }), "{refused}");
    drop(alone);

    let first = open(folder.path(), &shared);
    let second = open(folder.path(), &shared);
    let refused = LsmEngine::open(folder.path(), exclusive.clone()).expect_err("in use");
    let StorageError::InUse { pid, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(pid, Some(std::process::id()));
    let reader = open(folder.path(), &read_only);
    commit(&second, &[(b"b", b"2")]);
    assert_eq!(reader.get_last(b"b").as_deref(), Some(&b"2"[..]));
    first.flush().expect("flushed");
    reader.follow().expect("follows");
    commit(&first, &[(b"c", b"3")]);
    assert_eq!(all_seen(&reader), 3);
    let mut transaction = reader.begin().expect("begins");
    transaction.put(b"d", b"4").expect("fits");
    assert!(
        transaction.commit(Durability::Buffered).is_err(),
        "it is read-only"
    );
    drop((first, second));
    reader.follow().expect("follows");
    assert!(!reader.maintains());
    drop(reader);

    // Alone, it stays a shared database.
    let alone = open(folder.path(), &exclusive);
    assert!(alone.maintains());
    commit(&alone, &[(b"e", b"5")]);
    assert_eq!(all(&alone).len(), 4);
    let refused = LsmEngine::open(folder.path(), shared.clone()).expect_err("in use");
    assert!(matches!(refused, StorageError::InUse { .. }), "{refused}");
    drop(alone);
    assert_eq!(all(&open(folder.path(), &shared)).len(), 4);
    assert_eq!(fs::read(folder.path().join("STORE")).expect("a file")[8], 3);
}

fn all_seen(engine: &LsmEngine) -> usize {
    contents(&*engine.begin().expect("begins")).len()
}

/// The disk becomes full while two processes write: their commits are refused, they read, and both go on when there is
/// space.
#[test]
fn a_full_disk_stops_commits_until_there_is_space() {
    const LARGE: u64 = 1 << 40;
    let (disk, folder) = (SimDisk::new(), Path::new("/db"));
    let options = LsmOptions {
        disk: Arc::new(disk.clone()),
        memtable_bytes: 32 << 20,
        segment_bytes: 8 << 20,
        ..small(false)
    };
    let engines = [open(folder, &options), open(folder, &options)];
    // More than what is allocated of the log.
    let value = vec![7; 600 << 10];
    commit(&engines[1], &[(b"a", &value)]);
    disk.set_capacity(Some(LARGE));
    let free = disk.free_bytes(folder).expect("known").expect("limited");
    disk.set_capacity(Some(LARGE - free + (700 << 10)));
    for (engine, key) in engines.iter().zip([b"b", b"c"]) {
        let refused = (0..4).find_map(|_| {
            let mut transaction = engine.begin().expect("begins");
            transaction.put(key, &value).expect("fits");
            transaction.commit(Durability::Buffered).err()
        });
        let refused = refused.expect("the disk is full");
        assert!(matches!(refused, StorageError::Unavailable(_)), "{refused}");
        assert!(refused.to_string().contains("free some space"), "{refused}");
    }
    let known = all(&engines[0]);
    assert_eq!(all(&engines[1]), known);
    disk.set_capacity(None);
    commit(&engines[1], &[(b"d", b"1")]);
    commit(&engines[0], &[(b"e", b"2")]);
    assert_eq!(all(&engines[1]).len(), known.len() + 2);
    assert_sound(&engines[0]);
    drop(engines);
    assert_eq!(all(&open(folder, &options)).len(), known.len() + 2);
}

/// A follower with small memtables asks the maintainer, whose memtables are large, to flush.
#[test]
fn a_full_follower_asks_for_a_flush() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = LsmOptions {
        memtable_bytes: 64 << 20,
        ..small(true)
    };
    let first = open(folder.path(), &large);
    let second = open(folder.path(), &small(true));
    for number in 0..3000_u32 {
        commit(&second, &[(&number.to_be_bytes(), &[7; 400])]);
    }
    assert!(first.maintains());
    assert!(detail(&second, "adopted_tables") > 0);
    assert!(detail(&second, "memtable_bytes") < 2 << 20);
    // Asked for by a call.
    second.flush().expect("flushed there");
    assert_eq!(
        detail(&first, "flushed_position"),
        detail(&first, "applied_position")
    );
    assert!(all(&first) == all(&second));
    assert_sound(&second);
}

/// A maintainer that does not know which manifest is on the disk refuses further work, and lets another process go on.
#[test]
fn a_maintainer_that_gives_up_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let fails = Arc::new(AtomicBool::new(false));
    let is_due = fails.clone();
    let fault = move |call: Call, path: &Path| {
        // The manifest may have its name in spite of the error.
        let is_tables = path
            .parent()
            .is_some_and(|folder| folder.ends_with("tables"));
        match call == Call::Rename && is_tables && is_due.load(Ordering::SeqCst) {
            true => Err(io::Error::other("an injected fault")),
            false => Ok(()),
        }
    };
    let faulty = LsmOptions {
        disk: Arc::new(FaultyDisk::new(Arc::new(RealDisk), Arc::new(fault))),
        ..small(true)
    };
    let first = open(folder.path(), &faulty);
    let second = open(folder.path(), &small(true));
    commit(&first, &[(b"a", b"1")]);
    assert!(first.maintains() && !second.maintains());
    fails.store(true, Ordering::SeqCst);
    let until = Instant::now() + Duration::from_secs(20);
    while !second.maintains() {
        assert!(Instant::now() < until, "no process took over");
        let _ = first.flush();
        commit(&second, &[(b"b", b"2")]);
    }
    assert!(!first.maintains());
    let mut transaction = match first.begin() {
        Ok(transaction) => transaction,
        Err(error) => {
            assert!(error.to_string().contains("must be reopened"), "{error}");
            return assert_second(&second);
        }
    };
    transaction.put(b"c", b"3").expect("fits");
    assert!(transaction.commit(Durability::Buffered).is_err());
    assert_second(&second);
}

fn assert_second(engine: &LsmEngine) {
    engine.flush().expect("flushed");
    engine.compact_all().expect("merged");
    assert!(engine.get_last(b"a").is_some() && engine.get_last(b"b").is_some());
    assert_sound(engine);
}

/// Threads of several engines read and write while tables change hands.
#[test]
fn engines_with_threads_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small(true);
    let folder = folder.path();
    let until = Instant::now() + Duration::from_secs(4);
    let total: u64 = thread::scope(|scope| {
        let workers = [0_u64, 1, 2].map(|worker| {
            let options = options.clone();
            scope.spawn(move || {
                let mut random = Random(worker);
                let mut added = 0;
                while Instant::now() < until {
                    let engine = open(folder, &options);
                    for _ in 0..random.below(400) {
                        added += add(&engine, &mut random);
                    }
                }
                added
            })
        });
        workers
            .into_iter()
            .map(|worker| worker.join().expect("no panic"))
            .sum()
    });
    let engine = open(folder, &options);
    let sum: u64 = all(&engine).values().map(|value| number(value)).sum();
    assert_eq!(sum, total);
    assert!(total > 200, "{total}");
    assert_sound(&engine);
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value[..8].try_into().expect("eight bytes"))
}

/// Adds to two counters in a transaction that conflicts with others that do; returns what was added.
fn add(engine: &LsmEngine, random: &mut Random) -> u64 {
    let mut transaction = engine.begin().expect("begins");
    for _ in 0..2 {
        let key = [random.below(40) as u8];
        let granule = isomer_storage::Granule(key[0].into());
        transaction.guard(granule, isomer_storage::GuardMode::Write);
        let known = transaction.get(&key).expect("readable");
        let next = known.map_or(0, |value| number(&value)) + 1;
        let mut value = next.to_be_bytes().to_vec();
        value.resize(8 + random.below(900) as usize, 1);
        transaction.put(&key, &value).expect("fits");
    }
    match transaction.commit(Durability::Buffered) {
        Ok(_) => 2,
        Err(StorageError::Conflict { .. }) => 0,
        Err(error) => panic!("{error}"),
    }
}

/// A commit that is larger than a memtable is atomic, also for an engine that opens or takes over in the middle of its
/// flushes.
#[test]
fn large_commits_are_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = small(false);
    let mut engines = vec![open(folder.path(), &options), open(folder.path(), &options)];
    for round in 0..8_u32 {
        let engine = &engines[round as usize % 2];
        let mut transaction = engine.begin().expect("begins");
        for number in 0..2000_u32 {
            let value = round.to_be_bytes().repeat(20);
            transaction
                .put(&number.to_be_bytes(), &value)
                .expect("fits");
        }
        transaction.commit(Durability::Buffered).expect("committed");
        commit(&engines[0], &[(b"last", &round.to_be_bytes())]);
        if round % 3 == 0 {
            engines[1].follow().expect("follows");
        }
        if round % 4 == 3 {
            drop(engines.remove(0));
            engines[0].follow().expect("follows");
            engines.push(open(folder.path(), &options));
        }
        for engine in &engines {
            let found = contents(&*engine.begin().expect("begins"));
            assert_eq!(found.len(), 2001);
            let value = round.to_be_bytes().repeat(20);
            let whole = found
                .iter()
                .filter(|(key, _)| key.len() == 4 && *key != b"last");
            assert!(
                whole.clone().count() == 2000 && whole.into_iter().all(|(_, own)| *own == value)
            );
        }
    }
    let maintainer = engines
        .iter()
        .find(|engine| engine.maintains())
        .expect("one");
    maintainer.flush().expect("flushed");
    maintainer.compact_all().expect("merged");
    engines.iter().for_each(assert_sound);
}

/// A follower goes through several memtables while it applies a large commit. Tables that hold everything before that
/// commit replace none of them.
#[test]
fn parts_of_a_large_commit_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = LsmOptions {
        memtable_bytes: 64 << 20,
        ..small(false)
    };
    let first = open(folder.path(), &large);
    let second = open(folder.path(), &small(false));
    commit(&first, &[(b"before", b"1")]);
    first.flush().expect("flushed");
    let mut transaction = first.begin().expect("begins");
    for number in 0..3000_u32 {
        transaction
            .put(&number.to_be_bytes(), &[3; 100])
            .expect("fits");
    }
    transaction.commit(Durability::Buffered).expect("committed");
    assert_eq!(all_seen(&second), 3001);
    assert!(detail(&second, "sealed_memtables") > 1);
    second.follow().expect("follows");
    assert_eq!(detail(&second, "adopted_tables"), 1);
    assert_eq!(all_seen(&second), 3001);
    first.flush().expect("flushed");
    second.follow().expect("follows");
    assert_eq!(detail(&second, "sealed_memtables"), 0);
    assert_eq!(all_seen(&second), 3001);
}

/// Records, tables and copies of an encrypted database hold nothing that can be read without the key.
#[test]
fn an_encrypted_database_is_shared() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let key = MasterKey::from_bytes(&[0x42; 32]).expect("a key");
    let options = LsmOptions {
        key: Some(key.clone()),
        ..small(false)
    };
    let first = open(&path, &options);
    let second = open(&path, &options);
    let secret = b"a secret that is long enough";
    commit(&first, &[(secret, secret)]);
    commit(&second, &[(b"key", secret)]);
    first.flush().expect("flushed");
    second.follow().expect("follows");
    commit(&first, &[(b"other", secret)]);
    assert_eq!(all_seen(&second), 3);
    assert_sound(&second);
    let copy = folder.path().join("copy");
    second.checkpoint(&copy).expect("copied");
    drop((first, second));
    for place in [&path, &copy] {
        assert_no_file_holds(place, secret);
    }
    let refused = LsmEngine::open(
        &path,
        LsmOptions {
            key: None,
            ..options.clone()
        },
    );
    assert!(refused.is_err());
    let alone = LsmOptions {
        sharing: LogSharing::Exclusive,
        ..options
    };
    assert_eq!(all(&open(&copy, &alone)).len(), 3);
}

fn assert_no_file_holds(folder: &Path, secret: &[u8]) {
    for entry in fs::read_dir(folder).expect("names") {
        let path = entry.expect("a name").path();
        if path.is_dir() {
            assert_no_file_holds(&path, secret);
            continue;
        }
        let bytes = fs::read(&path).expect("a file");
        let found = bytes.windows(secret.len()).any(|part| part == secret);
        assert!(!found, "{}", path.display());
    }
}

/// Copies and backups come from any process, and are databases with a private log.
#[test]
fn copies_and_backups() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, backups) = (folder.path().join("db"), folder.path().join("backups"));
    let options = small(false);
    let first = open(&path, &options);
    let second = open(&path, &options);
    let mut states = Vec::new();
    for round in 0..4_u8 {
        for number in 0..80_u8 {
            let engine = [&first, &second][usize::from(number % 2)];
            commit(
                engine,
                &[(&[number % 50], &[round; 300]), (&[200, number], &[round])],
            );
        }
        if round == 1 {
            first.trim_stream(40).expect("trimmed");
            first.flush().expect("flushed");
            first.compact_all().expect("merged");
        }
        let engine = [&first, &second][usize::from(round % 2)];
        let taken = engine
            .backup(&RealDisk, &backups, &mut |_, _| {})
            .expect("a backup");
        states.push((taken.version, contents(&*engine.begin().expect("begins"))));
        if round > 1 {
            assert!(
                taken.shared.0 > 0,
                "files of the backup before are used: {taken:?}"
            );
        }
    }
    let copy = folder.path().join("copy");
    second.checkpoint(&copy).expect("copied");
    let alone = LsmOptions {
        sharing: LogSharing::Exclusive,
        ..options.clone()
    };
    let copied = open(&copy, &alone);
    assert_eq!(fs::read(copy.join("STORE")).expect("a file")[8], 2);
    assert!(all(&copied) == states[3].1);
    assert_eq!(copied.version(), states[3].0);
    assert_eq!(copied.stream_trimmed().expect("known"), 40);
    let entries = |engine: &LsmEngine| engine.stream(0, 1000, 1 << 20, false).expect("readable");
    assert_eq!(entries(&copied), entries(&first));
    assert_eq!(entries(&first).len(), 4 * 80 - 40);
    assert_sound(&copied);
    drop(copied);
    for (number, (version, expected)) in states.iter().enumerate() {
        for version in [*version, *version - 1] {
            let target = folder.path().join(format!("restored {number} {version}"));
            let restored = LsmEngine::restore(
                &RealDisk,
                &backups,
                &target,
                RestoreTarget::Version(version),
                None,
                &alone,
                &mut |_, _| {},
            );
            // Before the first backup there is none to begin with.
            if number == 0 && version < states[0].0 {
                restored.expect_err("no backup reaches back");
                continue;
            }
            assert_eq!(restored.expect("restored").version, version);
            let engine = open(&target, &alone);
            assert_eq!(engine.version(), version);
            if version == states[number].0 {
                assert!(all(&engine) == *expected, "backup {number}");
            }
            assert_sound(&engine);
            drop(engine);
            // It can be shared in turn.
            let engine = open(&target, &options);
            assert_eq!(engine.version(), version);
            assert_sound(&engine);
        }
    }
}

/// Earlier versions within the time that they are kept can be read in every process.
#[test]
fn versions_are_kept_for_their_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = Arc::new(AtomicU64::new(1_000_000));
    let clock = now.clone();
    let options = LsmOptions {
        retention: isomer_lsm::Retention {
            versions_ms: 1000,
            ..isomer_lsm::Retention::default()
        },
        clock: Arc::new(move || clock.load(Ordering::SeqCst)),
        ..small(false)
    };
    let first = open(folder.path(), &options);
    let second = open(folder.path(), &options);
    for round in 0..100_u32 {
        now.fetch_add(50, Ordering::SeqCst);
        let version = commit(&first, &[(b"key", &round.to_be_bytes())]);
        drop(second.begin().expect("begins"));
        if round % 7 == 0 {
            first.flush().expect("flushed");
            first.compact_all().expect("merged");
            second.follow().expect("follows");
        }
        for engine in [&first, &second] {
            for back in 0..20.min(version) {
                let snapshot = engine.snapshot_at(version - back).expect("it is kept");
                let expected = (round - back as u32).to_be_bytes();
                let found = snapshot.get(b"key").expect("readable");
                assert_eq!(found.as_deref(), Some(&expected[..]));
            }
        }
    }
    assert!(first.oldest_version() > 50, "{}", first.oldest_version());
    assert!(second.oldest_version() > 50, "{}", second.oldest_version());
}

/// A check reads the records of the shared log, also those whose commits are in tables.
#[test]
fn a_check_reads_the_shared_log() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path(), &small(false));
    for number in 0..50_u8 {
        commit(&engine, &[(&[number], &[number; 99])]);
    }
    engine.flush().expect("flushed");
    commit(&engine, &[(b"later", b"value")]);
    let mut last = (0, 0);
    let mut progress = |done: u64, total: u64| {
        assert!(done <= total && done >= last.0);
        last = (done, total);
    };
    let found = engine.verify(&mut progress).expect("readable");
    assert_eq!(found, Vec::<String>::new());
    assert_eq!(last.0, last.1);
    let logs = fs::read_dir(folder.path().join("shared")).expect("names");
    let logs = logs.map(|entry| entry.expect("a name").path());
    let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "log");
    let path = logs.filter(is_log).min().expect("a segment");
    let mut bytes = fs::read(&path).expect("a file");
    let at = bytes.windows(99).position(|part| part == [20; 99]);
    bytes[at.expect("the record of the key 20") + 50] ^= 1;
    fs::write(&path, bytes).expect("written");
    let found = engine.verify(&mut |_, _| {}).expect("readable");
    assert_eq!(found.len(), 1, "{found:?}");
}
