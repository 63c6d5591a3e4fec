//! The log: which parts are kept, which are removed, and how damage is handled when opening.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use isomer_lsm::{LsmEngine, LsmOptions, Retention};
use isomer_storage::{Durability, Engine, StorageError, conformance::Random, conformance::put};
use isomer_vfs::{Call, Disk, FaultyDisk, OpenMode, SimDisk};

fn options(disk: Arc<dyn Disk>) -> LsmOptions {
    let (random, time) = (AtomicU64::new(1), AtomicU64::new(1_000));
    LsmOptions {
        disk,
        segment_bytes: 16 << 10,
        memtable_bytes: 64 << 10,
        cache_bytes: 1 << 20,
        background: false,
        clock: Arc::new(move || time.fetch_add(1, Ordering::SeqCst)),
        random: Arc::new(move || Random(random.fetch_add(1, Ordering::SeqCst)).number()),
        ..LsmOptions::default()
    }
}

fn open(options: &LsmOptions) -> LsmEngine {
    LsmEngine::open("/db", options.clone()).expect("opens")
}

fn commit(
    engine: &LsmEngine,
    number: u32,
    streams: bool,
    durability: Durability,
) -> Result<u64, StorageError> {
    let mut transaction = engine.begin()?;
    transaction.put(&number.to_be_bytes(), &[number as u8; 500])?;
    if streams {
        transaction.append_stream(&number.to_be_bytes());
    }
    transaction.commit(durability)
}

fn segments(disk: &dyn Disk) -> Vec<PathBuf> {
    let mut names = disk.list(Path::new("/db/log")).expect("a folder");
    names.sort();
    names
        .iter()
        .map(|name| Path::new("/db/log").join(name))
        .collect()
}

fn stream_count(engine: &LsmEngine) -> usize {
    engine
        .stream(0, 1 << 20, 1 << 30, false)
        .expect("the stream")
        .len()
}

/// Commits that are in tables and not in the change stream are removed from the log; its files are reused.
#[test]
fn the_log_stays_small() {
    let disk = SimDisk::new();
    let options = options(Arc::new(disk.clone()));
    let engine = open(&options);
    for number in 0..2000 {
        commit(&engine, number, false, Durability::Buffered).expect("a commit");
        if number % 50 == 0 {
            engine.flush().expect("flushed");
            assert!(segments(&disk).len() <= 4, "{:?}", segments(&disk));
        }
    }
    engine.flush().expect("flushed");
    drop(engine);
    let engine = open(&options);
    assert_eq!(engine.version(), 2000);
    assert_eq!(engine.statistics().expect("statistics").key_count, 2000);
    assert_eq!(put(&engine, b"next", b"value"), 2001);
}

/// The change stream keeps its segments until it is trimmed, across flushes and reopening.
#[test]
fn the_change_stream_stays_until_it_is_trimmed() {
    let disk = SimDisk::new();
    let options = options(Arc::new(disk.clone()));
    let mut engine = open(&options);
    for number in 0..1000 {
        commit(&engine, number, number % 2 == 0, Durability::Buffered).expect("a commit");
        if number % 100 == 99 {
            engine.flush().expect("flushed");
            drop(engine);
            engine = open(&options);
            assert_eq!(stream_count(&engine), number as usize / 2 + 1);
        }
    }
    let before = segments(&disk).len();
    assert!(before > 20, "{before} segments");
    engine.trim_stream(901).expect("trimmed");
    engine.flush().expect("flushed");
    assert_eq!(stream_count(&engine), 49);
    assert_eq!(engine.statistics().expect("statistics").stream_entries, 49);
    assert!(segments(&disk).len() < before / 4, "{:?}", segments(&disk));
    drop(engine);
    let engine = open(&options);
    assert_eq!(stream_count(&engine), 49);
    let first = &engine.stream(0, 1, 1, true).expect("the stream")[0];
    assert_eq!(
        (first.version, &first.bytes[..]),
        (903, &902u32.to_be_bytes()[..])
    );
}

/// A limit on the log's bytes trims the stream automatically, in whole segments.
#[test]
fn retention_by_size_trims_the_stream() {
    let disk = SimDisk::new();
    let mut options = options(Arc::new(disk.clone()));
    options.retention = Retention {
        stream_bytes: Some(64 << 10),
        ..Retention::default()
    };
    let engine = open(&options);
    for number in 0..1000 {
        commit(&engine, number, true, Durability::Buffered).expect("a commit");
        if number % 50 == 49 {
            engine.flush().expect("flushed");
        }
    }
    let kept = stream_count(&engine);
    assert!(
        (80..200).contains(&kept),
        "{kept} entries of about 530 bytes of log in 64 KiB"
    );
    let last = engine
        .stream(0, 1 << 20, 1 << 30, false)
        .expect("the stream")
        .pop();
    assert_eq!(last.expect("not empty").version, 1000);
}

/// So does a limit on their age, and a consumer that is behind can detect it.
#[test]
fn retention_by_age_trims_the_stream() {
    let disk = SimDisk::new();
    let mut options = options(Arc::new(disk.clone()));
    let now = Arc::new(AtomicU64::new(1_000));
    let clock = now.clone();
    options.clock = Arc::new(move || clock.load(Ordering::SeqCst));
    options.retention = Retention {
        stream_ms: Some(10_000),
        ..Retention::default()
    };
    let engine = open(&options);
    for number in 0..400 {
        commit(&engine, number, true, Durability::Buffered).expect("a commit");
        now.fetch_add(100, Ordering::SeqCst);
    }
    assert_eq!(stream_count(&engine), 400, "nothing was checked yet");
    assert_eq!(engine.stream_trimmed().expect("a version"), 0);
    engine.flush().expect("flushed");
    let kept = stream_count(&engine);
    // A segment holds about thirty of them.
    assert!((100..140).contains(&kept), "{kept} entries of 100 in 10 s");
    let trimmed = engine.stream_trimmed().expect("a version");
    assert_eq!(trimmed, 400 - kept as u64);
    drop(engine);
    let engine = open(&options);
    assert_eq!(stream_count(&engine), kept);
}

/// Damage before durable data is refused with segment and offset; a torn tail is dropped.
#[test]
fn damage_is_refused_and_a_torn_tail_dropped() {
    let whole = SimDisk::new();
    let sizes: Vec<u64> = {
        let engine = open(&options(Arc::new(whole.clone())));
        let sizes = (0..12).map(|number| {
            commit(&engine, number, true, Durability::Synced).expect("a commit");
            engine.version()
        });
        let sizes = sizes.collect();
        // As if the process had been killed: the engine is not closed.
        std::mem::forget(engine);
        sizes
    };
    assert_eq!(sizes.len(), 12);
    let path = segments(&whole)[0].clone();
    // Records of these commits have the same size.
    let file = whole.open(&path, OpenMode::Read).expect("opens");
    let mut bytes = vec![0; 16 << 10];
    file.read_exact_at(&mut bytes, 0).expect("reads");
    let used = bytes.iter().rposition(|byte| *byte != 0).expect("records") as u64 + 1;
    let record = (used - 1024).div_ceil(12).next_multiple_of(8);
    for broken in 0..12 {
        let disk = SimDisk::new();
        disk.make_folder(Path::new("/db/log")).expect("a folder");
        copy(&whole, &disk, Path::new("/db"));
        let file = disk.open(&path, OpenMode::Write).expect("opens");
        file.write_all_at(&[0x55; 20], 1024 + broken * record + 30)
            .expect("writes");
        let opened = LsmEngine::open("/db", options(Arc::new(disk)));
        // The next commit proves that it was durable, and for the last one the receipt does.
        match opened {
            Err(StorageError::Corrupt(text)) => {
                assert!(
                    text.contains("0000000000000001.log") && text.contains("offset"),
                    "{text}"
                );
            }
            Err(other) => panic!("{other}"),
            Ok(engine) => panic!("opened at {}", engine.version()),
        }
    }
}

/// The state that a process leaves that was killed after some commits, the last ones not synced; if `flushing`,
/// during a flush, right after the new manifest was written.
fn killed(synced: u32, unsynced: u32, flushing: bool) -> SimDisk {
    let disk = SimDisk::new();
    let stage = Arc::new(AtomicUsize::new(0));
    let hook = {
        let stage = stage.clone();
        Arc::new(move |call: Call, path: &Path| {
            let is_manifest = call == Call::Rename && path.ends_with("tables/MANIFEST.new");
            match stage.load(Ordering::SeqCst) {
                1 if is_manifest => stage.store(2, Ordering::SeqCst),
                2 => return Err(io::Error::other("killed")),
                _ => {}
            }
            Ok(())
        })
    };
    let faulty = FaultyDisk::new(Arc::new(disk.clone()), hook);
    let engine = open(&options(Arc::new(faulty)));
    for number in 0..synced + unsynced {
        let durability = match number < synced {
            true => Durability::Synced,
            false => Durability::Buffered,
        };
        commit(&engine, number, true, durability).expect("a commit");
    }
    if flushing {
        stage.store(1, Ordering::SeqCst);
        engine.flush().expect_err("killed");
    }
    std::mem::forget(engine);
    disk
}

/// A copy of a disk, without an open database.
fn left(whole: &SimDisk) -> SimDisk {
    let disk = SimDisk::new();
    disk.make_folder(Path::new("/db/log")).expect("a folder");
    copy(whole, &disk, Path::new("/db"));
    disk
}

/// After a process was killed any bit of the log is flipped: either every synced commit is found, with its
/// entry of the change stream, or the damage is reported. It makes no difference whether the commit is in
/// tables.
#[test]
fn no_flipped_bit_of_a_log_left_open_loses_what_was_synced() {
    for (synced, unsynced, flushing) in [(3, 0, false), (3, 2, false), (5, 0, true), (4, 3, true)] {
        let whole = killed(synced, unsynced, flushing);
        let what = format!("{synced} synced, {unsynced} not, flushing: {flushing}");
        let kept = u64::from(synced + if flushing { unsynced } else { 0 });
        let (mut refused, mut read) = (0, 0);
        for path in segments(&whole) {
            let file = whole.open(&path, OpenMode::Read).expect("opens");
            let mut bytes = vec![0; file.len().expect("a length") as usize];
            file.read_exact_at(&mut bytes, 0).expect("reads");
            let used = bytes.iter().rposition(|byte| *byte != 0).expect("a head") as u64;
            for at in (0..=used).step_by(13) {
                let disk = left(&whole);
                disk.flip(&path, at, (at % 8) as u8).expect("flipped");
                let what = format!("{what}: byte {at} of {}", path.display());
                match LsmEngine::open("/db", options(Arc::new(disk))) {
                    Err(StorageError::Corrupt(_)) => refused += 1,
                    Err(other) => panic!("{what}: {other}"),
                    Ok(engine) => {
                        assert!(engine.version() >= kept, "{what}: {}", engine.version());
                        let stream = match engine.stream(0, 100, 1 << 20, false) {
                            Err(StorageError::Corrupt(_)) => {
                                refused += 1;
                                continue;
                            }
                            other => other.expect("the stream"),
                        };
                        let versions: Vec<u64> = stream.iter().map(|entry| entry.version).collect();
                        let all: Vec<u64> = (1..=engine.version()).collect();
                        assert_eq!(versions, all, "{what}");
                        read += 1;
                    }
                }
            }
        }
        assert!(
            refused > 20 && read > 5,
            "{what}: {refused} refused, {read} read"
        );
    }
}

fn copy(from: &SimDisk, to: &SimDisk, folder: &Path) {
    to.make_folder(folder).expect("a folder");
    for name in from.list(folder).expect("a folder") {
        let path = folder.join(name);
        let Ok(file) = from.open(&path, OpenMode::Read) else {
            copy(from, to, &path);
            continue;
        };
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("reads");
        let new = to.open(&path, OpenMode::Create).expect("opens");
        new.write_all_at(&bytes, 0).expect("writes");
    }
}

/// A failed sync makes the handle unusable; a full disk refuses commits until there is space.
#[test]
fn failed_syncs_end_the_handle_and_full_disks_do_not() {
    let sim = SimDisk::new();
    let faults = Arc::new(AtomicUsize::new(0));
    let hook = {
        let faults = faults.clone();
        Arc::new(move |call: Call, path: &Path| {
            let (kind, in_log) = (faults.load(Ordering::SeqCst), path.starts_with("/db/log"));
            match (kind, call) {
                (1, Call::Sync) if in_log => Err(io::Error::from_raw_os_error(5)),
                (2, Call::Write) if in_log => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        })
    };
    let options = options(Arc::new(FaultyDisk::new(Arc::new(sim), hook)));
    let engine = open(&options);
    commit(&engine, 1, true, Durability::Synced).expect("a commit");
    faults.store(2, Ordering::SeqCst);
    let refused = commit(&engine, 2, true, Durability::Synced).expect_err("full");
    assert!(
        matches!(&refused, StorageError::Unavailable(text) if text.contains("full")),
        "{refused}"
    );
    faults.store(0, Ordering::SeqCst);
    assert_eq!(
        commit(&engine, 3, true, Durability::Synced).expect("there is room"),
        2
    );
    faults.store(1, Ordering::SeqCst);
    let unknown = commit(&engine, 4, true, Durability::Synced).expect_err("no sync");
    assert!(
        matches!(unknown, StorageError::CommitUnknown(_)),
        "{unknown}"
    );
    faults.store(0, Ordering::SeqCst);
    for refused in [
        commit(&engine, 5, true, Durability::Synced).expect_err("poisoned"),
        engine.snapshot().err().expect("poisoned"),
    ] {
        assert!(
            matches!(&refused, StorageError::Unavailable(text) if text.contains("reopened")),
            "{refused}"
        );
    }
    drop(engine);
    let engine = open(&options);
    let snapshot = engine.snapshot().expect("a snapshot");
    let has = |number: u32| {
        snapshot
            .get(&number.to_be_bytes())
            .expect("a get")
            .is_some()
    };
    assert_eq!([has(1), has(2), has(3), has(5)], [true, false, true, false]);
}
