//! A database with a private log becomes a shared one, also if that is interrupted.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_shared_log::{LogId, MemoryLog};
use isomer_storage::{Durability, Engine, StreamEntry, Version};
use isomer_vfs::{Disk, Loss, OpenMode, SimDisk};

use super::{Ending, Map, all, assert_sound, commit, open, small};

fn exclusive(options: &LsmOptions) -> LsmOptions {
    LsmOptions {
        sharing: LogSharing::Exclusive,
        ..options.clone()
    }
}

/// What a database shows.
#[derive(Debug, PartialEq)]
struct Shown {
    pairs: Map,
    version: Version,
    stream: Vec<StreamEntry>,
    trimmed: Version,
    times: Vec<Option<Version>>,
}

fn shown(engine: &LsmEngine) -> Shown {
    Shown {
        pairs: all(engine),
        version: engine.version(),
        stream: engine.stream(0, 10_000, 1 << 24, false).expect("readable"),
        trimmed: engine.stream_trimmed().expect("known"),
        times: (1000..1200)
            .step_by(7)
            .map(|time| engine.version_at(time).expect("readable"))
            .collect(),
    }
}

/// Tables, several segments of the log, a trimmed change stream, commits that only the log has.
fn fill(engine: &LsmEngine, now: &AtomicU64) {
    for number in 0..150_u32 {
        let key = (number % 40).to_be_bytes();
        commit(engine, &[(&key, &number.to_be_bytes().repeat(60))]);
        now.fetch_add(1, Ordering::SeqCst);
        if number % 50 == 20 {
            engine.flush().expect("flushed");
        }
        if number == 60 {
            engine.trim_stream(30).expect("trimmed");
        }
    }
}

fn options(now: &Arc<AtomicU64>) -> LsmOptions {
    let clock = now.clone();
    LsmOptions {
        clock: Arc::new(move || clock.load(Ordering::SeqCst)),
        segment_bytes: 8 << 10,
        ..small(false)
    }
}

fn format(path: &Path) -> u8 {
    fs::read(path.join("STORE")).expect("a file")[8]
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("names") {
        let path = entry.expect("a name").path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).expect("copied")),
        }
    }
}

fn segments(path: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(path.join("log")).expect("names");
    names.map(|entry| entry.expect("a name").path()).collect()
}

/// The process ends at each of its calls that change something. Afterwards the database is shared or still has its own
/// log, and opens in both ways with the same contents.
#[test]
fn the_process_may_end_at_any_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = folder.path().join("before");
    let now = Arc::new(AtomicU64::new(1000));
    let options = options(&now);
    let engine = open(&before, &exclusive(&options));
    fill(&engine, &now);
    let expected = shown(&engine);
    assert_eq!((expected.version, expected.trimmed), (150, 30));
    assert_eq!(expected.stream.len(), 120);
    drop(engine);
    assert_eq!(format(&before), 2);
    let (mut as_before, mut as_shared) = (0, 0);
    for calls in 1.. {
        let path = folder.path().join(format!("{calls}"));
        copy(&before, &path);
        let ending = Ending::new();
        ending.end_at(calls);
        let opened = LsmEngine::open(&path, ending.options(options.clone()));
        let is_done = opened.is_ok() && !ending.has_ended();
        drop(opened);
        match format(&path) {
            2 => as_before += 1,
            _ => as_shared += 1,
        }
        if calls % 2 == 0 {
            // It may be opened alone first.
            let engine = open(&path, &exclusive(&options));
            assert_eq!(shown(&engine), expected, "call {calls}");
        }
        let engine = open(&path, &options);
        assert_eq!(shown(&engine), expected, "call {calls}");
        assert_eq!(format(&path), 3);
        assert_eq!(
            fs::read(path.join("tables/MANIFEST")).expect("a file")[16],
            3
        );
        assert_eq!(
            segments(&path),
            Vec::<PathBuf>::new(),
            "the old log is removed"
        );
        commit(&engine, &[(b"new", b"1")]);
        engine.flush().expect("flushed");
        engine.compact_all().expect("merged");
        assert_sound(&engine);
        drop(engine);
        let engine = open(&path, &options);
        assert_eq!(engine.version(), 151);
        assert_eq!(all(&engine).len(), expected.pairs.len() + 1);
        drop(engine);
        fs::remove_dir_all(&path).expect("removed");
        if is_done {
            break;
        }
    }
    assert!(as_before > 20 && as_shared > 2, "{as_before}, {as_shared}");
}

/// The same for a database that is made as a shared one.
#[test]
fn creating_may_end_at_any_call() {
    let folder = tempfile::tempdir().expect("a folder");
    for calls in 1.. {
        let path = folder.path().join(format!("{calls}"));
        let ending = Ending::new();
        ending.end_at(calls);
        let opened = LsmEngine::open(&path, ending.options(small(false)));
        let is_done = opened.is_ok() && !ending.has_ended();
        drop(opened);
        let options = match calls % 3 {
            // It may become one with a private log, unless it was complete.
            0 => exclusive(&small(false)),
            _ => small(false),
        };
        drop(open(&path, &options));
        let engine = open(&path, &small(false));
        assert_eq!(engine.version(), 0, "call {calls}");
        commit(&engine, &[(b"a", b"1")]);
        drop(engine);
        let engine = open(&path, &small(false));
        assert_eq!((engine.version(), all(&engine).len()), (1, 1));
        assert_eq!(format(&path), 3);
        if is_done {
            assert!(calls > 10, "{calls}");
            break;
        }
    }
}

/// The power is lost at each change of the disk. The shared log is elsewhere, and a new one for each attempt.
#[test]
fn the_power_may_be_lost_at_any_change() {
    let now = Arc::new(AtomicU64::new(1000));
    for loss in Loss::ALL {
        for step in 0.. {
            let disk = SimDisk::new();
            let options = |log: &MemoryLog| LsmOptions {
                disk: Arc::new(disk.clone()),
                sharing: LogSharing::Over(Arc::new(log.clone())),
                ..options(&now)
            };
            let new_log = || MemoryLog::new(LogId(9), Duration::from_secs(60));
            now.store(1000, Ordering::SeqCst);
            let log = new_log();
            let path = Path::new("/db");
            let engine = open(path, &exclusive(&options(&log)));
            fill(&engine, &now);
            engine.sync().expect("synced");
            let expected = shown(&engine);
            drop(engine);
            let cut = disk.changes() + 1 + step * 3;
            disk.cut_power_at(cut, loss, step);
            let opened = LsmEngine::open(path, options(&log));
            let is_done = opened.is_ok() && !disk.is_off();
            drop(opened);
            disk.restart();
            // The log of an attempt that did not succeed is made anew.
            let log = match format_on(&disk) {
                2 => {
                    let engine = open(path, &exclusive(&options(&log)));
                    assert_eq!(shown(&engine), expected, "{loss:?}, change {step}");
                    new_log()
                }
                _ => log,
            };
            let engine = open(path, &options(&log));
            assert_eq!(shown(&engine), expected, "{loss:?}, change {step}");
            assert_sound(&engine);
            if is_done {
                break;
            }
        }
    }
}

fn format_on(disk: &SimDisk) -> u8 {
    let file = disk.open(Path::new("/db/STORE"), OpenMode::Read);
    let mut head = [0; 9];
    let read = file.and_then(|file| file.read_exact_at(&mut head, 0));
    read.expect("readable");
    head[8]
}

/// Buffered commits before the conversion are not lost with it, and a new commit follows them.
#[test]
fn a_converted_database_continues() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let options = small(true);
    let engine = open(path, &exclusive(&options));
    let mut transaction = engine.begin().expect("begins");
    transaction.put(b"a", b"1").expect("fits");
    transaction.commit(Durability::Buffered).expect("committed");
    drop(engine);
    let engines = [open(path, &options), open(path, &options)];
    assert_eq!(commit(&engines[1], &[(b"b", b"2")]), 2);
    assert_eq!(commit(&engines[0], &[(b"c", b"3")]), 3);
    assert_eq!(all(&engines[0]).len(), 3);
    drop(engines);
    // A missing shared log is not replaced by an empty one.
    fs::rename(path.join("shared"), path.join("moved")).expect("renamed");
    let error = LsmEngine::open(path, options.clone()).expect_err("it is missing");
    assert!(
        error.to_string().contains("shared log is missing"),
        "{error}"
    );
    fs::rename(path.join("moved"), path.join("shared")).expect("renamed");
    assert_eq!(all(&open(path, &options)).len(), 3);
}
