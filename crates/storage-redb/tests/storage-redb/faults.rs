//! Failing calls, full disks, damaged files: an error or the right result, nothing lost, nothing half done.

use std::{
    fs,
    io::{self, BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use isomer_storage::{
    Durability, Engine, KeyRange, Order, Page, PageLimit, StorageError,
    conformance::{Random, scan},
};
use isomer_storage_redb::{RedbEngine, RedbOptions};
use isomer_vfs::{Call, FaultHook, FaultyDisk, RealDisk};

const ALL: KeyRange<'static> = KeyRange {
    start: b"",
    end: None,
};

fn open(path: &Path) -> Result<RedbEngine, StorageError> {
    RedbEngine::open(path, RedbOptions::default())
}

fn put(engine: &RedbEngine, key: u32, durability: Durability) -> Result<u64, StorageError> {
    let mut transaction = engine.begin()?;
    // Two keys, so that half a commit would be detected.
    transaction.put(format!("left {key:05}").as_bytes(), &[key as u8; 700])?;
    transaction.put(format!("right {key:05}").as_bytes(), &[key as u8; 900])?;
    transaction.append_stream(&key.to_be_bytes());
    transaction.commit(durability)
}

/// The numbers whose pairs are complete; panics if a pair is incomplete or wrong.
fn whole(engine: &RedbEngine) -> Vec<u32> {
    let pairs = scan(
        &*engine.snapshot().expect("a snapshot"),
        ALL,
        Order::Ascending,
        100,
    );
    let number = |key: &[u8], name: &str| -> Option<u32> {
        std::str::from_utf8(key)
            .ok()?
            .strip_prefix(name)?
            .trim()
            .parse()
            .ok()
    };
    let side = |name: &str, len: usize| -> Vec<u32> {
        let of_side = pairs
            .iter()
            .filter_map(|(key, value)| Some((number(key, name)?, value)));
        of_side
            .map(|(number, value)| {
                assert_eq!(value, &vec![number as u8; len]);
                number
            })
            .collect()
    };
    let (left, right) = (side("left", 700), side("right", 900));
    assert_eq!(left, right, "half a commit");
    let stream = engine
        .stream(0, 1 << 20, 1 << 30, false)
        .expect("the stream");
    let mut streamed: Vec<u32> = stream
        .iter()
        .map(|entry| u32::from_be_bytes(entry.bytes[..].try_into().expect("a number")))
        .collect();
    streamed.sort_unstable();
    assert_eq!(left, streamed, "stream and pairs differ");
    left
}

/// Fails the n-th call of one kind from now on, and optionally later ones.
#[derive(Clone)]
struct Fault {
    left: Arc<AtomicI64>,
    call: Call,
    error: i32,
    forever: bool,
}

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

impl Fault {
    fn new(call: Call, error: i32, forever: bool) -> Self {
        Self {
            left: Arc::new(AtomicI64::new(i64::MAX)),
            call,
            error,
            forever,
        }
    }

    fn after(&self, calls: i64) {
        self.left.store(calls, Ordering::SeqCst);
    }

    fn hook(&self) -> FaultHook {
        let fault = self.clone();
        Arc::new(move |call, _| {
            if call != fault.call {
                return Ok(());
            }
            let left = fault.left.fetch_sub(1, Ordering::SeqCst);
            if left == 0 || (left < 0 && fault.forever) {
                Err(io::Error::from_raw_os_error(fault.error))
            } else {
                Ok(())
            }
        })
    }
}

fn with_fault(path: &Path, fault: &Fault) -> RedbEngine {
    RedbEngine::open(
        path,
        RedbOptions {
            disk: Arc::new(FaultyDisk::new(Arc::new(RealDisk), fault.hook())),
            ..RedbOptions::default()
        },
    )
    .expect("opens")
}

/// A failed sync ends the handle: the outcome is unknown, and nothing is trusted before reopening.
#[test]
fn a_failed_sync_poisons_the_handle() {
    for earlier in 0..3 {
        let folder = tempfile::tempdir().expect("a folder");
        let fault = Fault::new(Call::Sync, EIO, false);
        let engine = with_fault(folder.path(), &fault);
        put(&engine, 1, Durability::Synced).expect("a commit");
        let snapshot = engine.snapshot().expect("a snapshot");
        fault.after(0);
        let key = 2 + earlier;
        let result = put(&engine, key, Durability::Synced);
        assert!(
            matches!(&result, Err(StorageError::CommitUnknown(text)) if text.contains("reopen")),
            "{result:?}"
        );
        for _ in 0..3 {
            assert!(
                matches!(put(&engine, 9, Durability::Synced), Err(StorageError::Unavailable(text)) if text.contains("reopened"))
            );
            assert!(matches!(
                engine.snapshot().map(drop),
                Err(StorageError::Unavailable(_))
            ));
            assert!(matches!(
                engine.begin().map(drop),
                Err(StorageError::Unavailable(_))
            ));
            assert!(matches!(engine.sync(), Err(StorageError::Unavailable(_))));
        }
        drop((snapshot, engine));
        let engine = open(folder.path()).expect("opens");
        let found = whole(&engine);
        assert!(found == [1] || found == [1, key], "{found:?}");
        put(&engine, 7, Durability::Synced).expect("the engine keeps working");
    }
}

/// A write that fails in the middle of a commit fails that commit only: reads keep working, and so do writes
/// once the disk works again.
#[test]
fn a_full_disk_refuses_the_commit_alone() {
    for (call, error) in [
        (Call::Write, ENOSPC),
        (Call::Write, EIO),
        (Call::SetLen, ENOSPC),
    ] {
        for calls in [0, 1, 2, 5, 9] {
            let folder = tempfile::tempdir().expect("a folder");
            let fault = Fault::new(call, error, true);
            let engine = with_fault(folder.path(), &fault);
            for key in 0..20 {
                put(&engine, key, Durability::Synced).expect("a commit");
            }
            let held = engine.snapshot().expect("a snapshot");
            fault.after(calls);
            let mut kept: Vec<u32> = (0..20).collect();
            let mut refused = 0;
            for key in 20..60 {
                match put(&engine, key, Durability::Synced) {
                    Ok(_) => kept.push(key),
                    Err(StorageError::Unavailable(text)) => {
                        assert!(
                            error != ENOSPC || text.contains("full: free some space"),
                            "{text}"
                        );
                        refused += 1;
                        assert_eq!(whole(&engine), kept, "reads go on");
                    }
                    Err(other) => panic!("{other}"),
                }
                if refused == 4 {
                    fault.after(i64::MAX);
                }
            }
            // The file grows in large increments: not every run needs one.
            assert!(
                refused == 4 || (call == Call::SetLen && refused == 0),
                "{refused} refused"
            );
            assert_eq!(whole(&engine), kept, "writes go on");
            drop(held);
            drop(engine);
            assert_eq!(whole(&open(folder.path()).expect("opens")), kept);
        }
    }
}

/// If a failed write loses buffered commits, the error says so, and the handle ends.
#[test]
fn lost_buffered_commits_are_not_hidden() {
    let folder = tempfile::tempdir().expect("a folder");
    let fault = Fault::new(Call::Write, EIO, true);
    let engine = with_fault(folder.path(), &fault);
    put(&engine, 0, Durability::Synced).expect("a commit");
    put(&engine, 1, Durability::Buffered).expect("a commit");
    put(&engine, 2, Durability::Buffered).expect("a commit");
    fault.after(0);
    assert!(put(&engine, 3, Durability::Synced).is_err());
    fault.after(i64::MAX);
    match engine.snapshot().map(drop) {
        Err(StorageError::Unavailable(text)) => assert!(text.contains("reopened"), "{text}"),
        other => panic!("{other:?}"),
    }
    drop(engine);
    assert_eq!(whole(&open(folder.path()).expect("opens")), [0]);
}

/// A failed read is an error; then the handle recovers automatically or reports that it must be reopened.
#[test]
fn a_failed_read_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path()).expect("made");
    for key in 0..200 {
        put(&engine, key, Durability::Buffered).expect("a commit");
    }
    drop(engine);
    let fault = Fault::new(Call::Read, EIO, false);
    let engine = with_fault(folder.path(), &fault);
    fault.after(3);
    let mut page = Page::new();
    let snapshot = engine.snapshot().expect("a snapshot");
    let result = snapshot.scan(
        ALL,
        Order::Ascending,
        PageLimit {
            keys: 1 << 20,
            bytes: 1 << 30,
        },
        &mut page,
    );
    assert!(
        matches!(result, Err(StorageError::Unavailable(_))),
        "{result:?}"
    );
    drop(snapshot);
    assert_eq!(whole(&engine).len(), 200, "commits succeed again");
    put(&engine, 200, Durability::Synced).expect("commits succeed again");
}

/// On a real, small file system: commits and bulk loads are rejected when it is full, existing data stays
/// readable, and commits succeed again after space is freed.
#[test]
fn a_small_file_system_fills_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"])
        .arg(folder.path())
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        // Only root may mount; the fault hooks above test the same without it.
        return;
    }
    struct Unmount<'a>(&'a Path);
    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            drop(
                std::process::Command::new("umount")
                    .arg("-l")
                    .arg(self.0)
                    .output(),
            );
        }
    }
    let _unmount = Unmount(folder.path());
    let path = folder.path().join("db");
    let ballast = folder.path().join("ballast");
    fs::write(&ballast, vec![1; 2 << 20]).expect("ballast");
    let engine = open(&path).expect("made");
    let mut kept = Vec::new();
    let mut refused = 0;
    for key in 0..4000 {
        match put(&engine, key, Durability::Synced) {
            Ok(_) => kept.push(key),
            Err(StorageError::Unavailable(text)) => {
                assert!(text.contains("full"), "{text}");
                refused += 1;
                if refused > 5 {
                    break;
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 5 && kept.len() > 100, "{} kept", kept.len());
    assert_eq!(whole(&engine), kept);
    let mut pairs =
        (0..10_000u32).map(|number| Ok((format!("load {number:06}").into_bytes(), vec![1; 1000])));
    assert!(
        matches!(engine.ingest(&mut pairs, None), Err(StorageError::Unavailable(text)) if text.contains("full"))
    );
    assert_eq!(whole(&engine), kept);
    fs::remove_file(&ballast).expect("room");
    let mut pairs =
        (0..10_000u32).map(|number| Ok((format!("load {number:06}").into_bytes(), vec![1; 1000])));
    assert!(
        matches!(engine.ingest(&mut pairs, None), Err(StorageError::Unavailable(text)) if text.contains("full")),
        "10 MB"
    );
    assert_eq!(whole(&engine), kept);
    for key in 5000..5100 {
        put(&engine, key, Durability::Synced).expect("there is room again");
        kept.push(key);
    }
    assert_eq!(whole(&engine), kept);
    drop(engine);
    let engine = open(&path).expect("opens");
    assert_eq!(whole(&engine), kept);
    assert_eq!(
        engine.verify(&mut |_, _| {}).expect("verified"),
        Vec::<String>::new()
    );
}

/// Every flipped bit and every truncation of a closed file is detected on opening, detected on reading, or
/// harmless; no result is wrong, and verification finds the relevant damage.
#[test]
fn damaged_files_are_never_believed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let engine = open(&path).expect("made");
    for key in 0..300 {
        put(&engine, key, Durability::Buffered).expect("a commit");
    }
    drop(engine);
    let data = path.join("data");
    let intact = fs::read(&data).expect("the file");
    let expected: Vec<u32> = (0..300).collect();
    let mut random = Random(42);
    let (mut refused, mut met, mut harmless, mut found) = (0, 0, 0, 0);
    for trial in 0..400 {
        let mut bytes = intact.clone();
        if trial % 8 == 0 {
            let cut = if trial % 16 == 0 {
                random.below(bytes.len() as u64)
            } else {
                random.below(bytes.len() as u64 / 4096) * 4096
            };
            bytes.truncate(cut as usize);
        } else {
            // Half of the flips hit an area that is in use.
            let within = if trial % 2 == 0 {
                bytes.len()
            } else {
                bytes.len().min(700 << 10)
            };
            let at = random.below(within as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        fs::write(&data, &bytes).expect("damaged");
        let engine = match open(&path) {
            Err(StorageError::Corrupt(_)) => {
                refused += 1;
                continue;
            }
            Err(other) => panic!("trial {trial}: {other}"),
            Ok(engine) => engine,
        };
        let snapshot = engine.snapshot().expect("a snapshot");
        let mut damage = false;
        for key in 0..301u32 {
            match snapshot.get(format!("right {key:05}").as_bytes()) {
                Ok(value) => assert_eq!(
                    value,
                    (key < 300).then(|| vec![key as u8; 900]),
                    "trial {trial}, key {key}"
                ),
                Err(StorageError::Corrupt(_)) => damage = true,
                Err(other) => panic!("trial {trial}: {other}"),
            }
        }
        for order in [Order::Ascending, Order::Descending] {
            let mut page = Page::new();
            match snapshot.scan(
                ALL,
                order,
                PageLimit {
                    keys: 10_000,
                    bytes: 1 << 30,
                },
                &mut page,
            ) {
                Ok(()) => assert_eq!(page.len(), 600, "trial {trial}"),
                Err(StorageError::Corrupt(_)) => damage = true,
                Err(other) => panic!("trial {trial}: {other}"),
            }
        }
        if engine.stream(0, 10_000, 1 << 30, false).is_err() {
            damage = true;
        }
        // A commit either fails or is right.
        drop(snapshot);
        let written = put(&engine, 300, Durability::Synced);
        if damage {
            met += 1;
            let damage = engine.verify(&mut |_, _| {});
            assert!(
                damage.as_ref().is_err() || damage.as_ref().is_ok_and(|damage| !damage.is_empty()),
                "trial {trial}: not found, {written:?}, {damage:?}"
            );
            found += 1;
        } else {
            harmless += 1;
            match written {
                Ok(_) => assert_eq!(whole(&engine)[..300], expected),
                // The damage is where only writes read.
                Err(StorageError::Corrupt(_)) => {}
                Err(other) => panic!("trial {trial}: {other}"),
            }
        }
    }
    assert_eq!(refused + met + harmless, 400);
    assert!(
        refused > 30 && met > 30 && found == met,
        "{refused} refused, {met} met, {harmless} harmless, {found} found"
    );
    println!("{refused} refused at opening, {met} met when read, {harmless} harmless");
}

/// Whichever part of the last writes reached the disk before a power cut, the database opens with every
/// synced commit.
#[test]
fn torn_writes_lose_nothing_synced() {
    let mut random = Random(7);
    for round in 0..40 {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("db");
        let engine = open(&path).expect("made");
        let synced = 20 + random.below(30) as u32;
        for key in 0..synced {
            put(&engine, key, Durability::Synced).expect("a commit");
        }
        // The file as of the last sync, and after more writes that may or may not have reached the disk.
        let before = fs::read(path.join("data")).expect("the file");
        put(&engine, synced, Durability::Synced).expect("a commit");
        let after = fs::read(path.join("data")).expect("the file");
        drop(engine);
        let mut torn = after.clone();
        let sectors = torn.len() / 512;
        // The commit was not acknowledged before the power cut: no record says that it was durable.
        torn[..4096].copy_from_slice(&before[..4096]);
        for sector in 8..sectors {
            if random.below(3) == 0 {
                let at = sector * 512..(sector + 1) * 512;
                let old = before
                    .get(at.clone())
                    .map_or_else(|| vec![0; 512], <[u8]>::to_vec);
                torn[at].copy_from_slice(&old);
            }
        }
        fs::write(path.join("data"), &torn).expect("torn");
        let engine = open(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let found = whole(&engine);
        assert!(
            found.len() as u32 == synced || found.len() as u32 == synced + 1,
            "round {round}: {} of {synced}",
            found.len()
        );
        put(&engine, 9999, Durability::Synced).expect("the engine keeps working");
        assert_eq!(
            engine.verify(&mut |_, _| {}).expect("verified"),
            Vec::<String>::new(),
            "round {round}"
        );
        drop(engine);
        assert_eq!(whole(&open(&path).expect("opens")).len(), found.len() + 1);
    }
}

/// A database that was not closed cleanly and is damaged too is rejected or complete: the file records that
/// its last commits were durable, so damage to them cannot pass for an interrupted commit.
#[test]
fn damage_after_a_crash_takes_no_commit() {
    let mut random = Random(11);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let engine = open(&path).expect("made");
    for key in 0..40 {
        put(&engine, key, Durability::Synced).expect("a commit");
    }
    let crashed = fs::read(path.join("data")).expect("the file");
    drop(engine);
    let (mut refused, mut answered) = (0, 0);
    for trial in 0..200 {
        let mut bytes = crashed.clone();
        for _ in 0..=trial % 3 {
            // The area in use: the file is mostly empty.
            let at = loop {
                let at = random.below(bytes.len() as u64) as usize;
                if bytes[at & !511..][..512.min(bytes.len() - (at & !511))]
                    .iter()
                    .any(|&byte| byte != 0)
                {
                    break at;
                }
            };
            bytes[at] ^= 1 << random.below(8);
        }
        fs::write(path.join("data"), &bytes).expect("damaged");
        match open(&path) {
            Err(StorageError::Corrupt(_)) => refused += 1,
            Err(other) => panic!("trial {trial}: {other}"),
            Ok(engine) => {
                answered += 1;
                assert_eq!(whole(&engine).len(), 40, "trial {trial}");
            }
        }
    }
    println!("{refused} refused, {answered} whole");
    assert!(
        refused > 50 && answered > 5,
        "{refused} refused, {answered} whole"
    );
    // Truncated after a crash, too.
    for cut in (0..crashed.len()).step_by(crashed.len() / 40 + 1) {
        fs::write(path.join("data"), &crashed[..cut]).expect("cut");
        match open(&path) {
            Err(StorageError::Corrupt(_)) => {}
            Err(other) => panic!("cut at {cut}: {other}"),
            Ok(engine) => assert_eq!(whole(&engine).len(), 40, "cut at {cut}"),
        }
    }
}

/// Twenty writers with synced commits share their syncs (group commit).
#[test]
fn writers_share_syncs() {
    let folder = tempfile::tempdir().expect("a folder");
    // A disk with the sync latency of a good SSD.
    let slow: FaultHook = Arc::new(|call, _| {
        if call == Call::Sync {
            thread::sleep(Duration::from_millis(3));
        }
        Ok(())
    });
    let engine = RedbEngine::open(
        folder.path(),
        RedbOptions {
            disk: Arc::new(FaultyDisk::new(Arc::new(RealDisk), slow)),
            ..RedbOptions::default()
        },
    )
    .expect("made");
    let before = engine.statistics().expect("statistics").syncs;
    let commits = AtomicU64::new(0);
    thread::scope(|scope| {
        for writer in 0..20 {
            let (engine, commits) = (&engine, &commits);
            scope.spawn(move || {
                for number in 0..40 {
                    put(engine, writer * 100 + number, Durability::Synced).expect("a commit");
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let statistics = engine.statistics().expect("statistics");
    let syncs = statistics.syncs - before;
    let commits = commits.into_inner();
    assert_eq!((commits, statistics.commits), (800, 800));
    println!("{commits} commits shared {syncs} syncs");
    assert!(commits >= 8 * syncs, "{commits} commits, {syncs} syncs");
    assert_eq!(whole(&engine).len(), 800);
}

/// A process killed at any moment leaves every acknowledged commit complete, and no commit half done.
#[test]
fn kills_lose_nothing_acknowledged() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random(99);
    let mut acknowledged = 0;
    for round in 0..15 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "faults::commit_until_killed",
                "--ignored",
                "--nocapture",
            ])
            .env("ISOMER_TEST_COMMIT", folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let reader = thread::spawn(move || {
            let of_line = |line: io::Result<String>| {
                line.ok()?
                    .strip_prefix("acknowledged ")?
                    .parse::<u32>()
                    .ok()
            };
            lines.filter_map(of_line).max()
        });
        // The kill comes at a random moment.
        thread::sleep(Duration::from_millis(80 + random.below(250)));
        child.kill().expect("killed");
        child.wait().expect("gone");
        acknowledged = reader
            .join()
            .expect("no panic")
            .unwrap_or(acknowledged)
            .max(acknowledged);
        let engine = open(folder.path()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let found = whole(&engine);
        assert_eq!(
            found,
            (0..found.len() as u32).collect::<Vec<_>>(),
            "round {round}"
        );
        assert!(
            found.len() as u32 >= acknowledged,
            "round {round}: {acknowledged} acknowledged, {} there",
            found.len()
        );
        if round % 5 == 0 {
            assert_eq!(
                engine.verify(&mut |_, _| {}).expect("verified"),
                Vec::<String>::new(),
                "round {round}"
            );
        }
    }
    assert!(acknowledged > 20, "{acknowledged} acknowledged");
}

/// The other process of `kills_lose_nothing_acknowledged`.
#[test]
#[ignore = "started by another test"]
fn commit_until_killed() {
    let Some(path) = std::env::var_os("ISOMER_TEST_COMMIT") else {
        return;
    };
    let engine = open(Path::new(&path)).expect("opens");
    let first = whole(&engine).len() as u32;
    for key in first.. {
        let durability = if key % 4 == 0 {
            Durability::Synced
        } else {
            Durability::Buffered
        };
        put(&engine, key, durability).expect("a commit");
        if durability == Durability::Synced {
            println!("\nacknowledged {}", key + 1);
        }
    }
}
