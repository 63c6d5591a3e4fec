//! Tests of the log: segments created in advance, losses of power, watermarks.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_storage::{Commit, StorageError, Version, WriteSet, conformance::Random};
use isomer_vfs::{Call, Disk, FaultHook, FaultyDisk, Loss, Seal, SimDisk};

use super::{Failure, Flushed, Keep, Log, LogOptions, SPARES};

const FOLDER: &str = "/db/log";

fn open(disk: &SimDisk, seen: &mut Vec<Version>) -> Log {
    open_on(Arc::new(disk.clone()), seen)
}

fn open_on(disk: Arc<dyn Disk>, seen: &mut Vec<Version>) -> Log {
    open_sized(disk, 8 << 10, &Flushed::default_from_one(), seen)
}

fn open_sized(
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    flushed: &Flushed,
    seen: &mut Vec<Version>,
) -> Log {
    let random = AtomicU64::new(1);
    let options = LogOptions {
        disk,
        seal: Seal::plain(),
        segment_bytes,
        random: Arc::new(move || Random(random.fetch_add(1, Ordering::SeqCst)).number()),
        read_only: false,
        chain: Arc::default(),
    };
    let opened = Log::open(Path::new(FOLDER), options, flushed, &mut |replayed| {
        seen.push(replayed.version);
        Ok(())
    });
    opened.expect("a log").0
}

fn append(log: &Log, version: Version, bytes: usize) {
    let mut writes = WriteSet::new();
    writes.put(&version.to_be_bytes(), &vec![version as u8; bytes]);
    let commit = Commit {
        version,
        writes: &writes,
        stream: b"entry",
    };
    log.append(&[commit], version).expect("a commit");
}

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_folder(Path::new("/db")).expect("a folder");
    disk.make_folder(Path::new(FOLDER)).expect("a folder");
    disk
}

/// A log on a disk on which the next sync of a segment fails, once, if `armed`.
fn with_failing_sync(armed: &Arc<AtomicBool>) -> Log {
    let armed = armed.clone();
    let hook = move |call: Call, _: &Path| match call {
        Call::Sync if armed.swap(false, Ordering::SeqCst) => {
            Err(std::io::Error::other("the disk is gone"))
        }
        _ => Ok(()),
    };
    let disk = FaultyDisk::new(Arc::new(disk()), Arc::new(hook));
    open_on(Arc::new(disk), &mut Vec::new())
}

/// Reading a page of the change stream costs no more than its contents, also at the end of a segment of an
/// earlier opening.
#[test]
fn pages_of_a_closed_segment_begin_where_the_last_one_ended() {
    let sim = disk();
    let from_one = Flushed::default_from_one();
    let log = open_sized(Arc::new(sim.clone()), 2 << 20, &from_one, &mut Vec::new());
    for version in 1..=1000 {
        append(&log, version, 1000);
    }
    // Everything is in tables, so that the next opening does not read it.
    let flushed = Flushed {
        version: 1000,
        needed_from: log.rotate(),
        ..Flushed::default()
    };
    log.close().expect("closed");
    drop(log);

    let reads = Arc::<AtomicU64>::default();
    let counted = reads.clone();
    let hook = move |call: Call, _: &Path| {
        counted.fetch_add(u64::from(call == Call::Read), Ordering::SeqCst);
        Ok(())
    };
    let disk = Arc::new(FaultyDisk::new(Arc::new(sim), Arc::new(hook)));
    let log = open_sized(disk, 2 << 20, &flushed, &mut Vec::new());
    let mut acknowledged = 0;
    while acknowledged < 1000 {
        reads.store(0, Ordering::SeqCst);
        for entry in log
            .stream(acknowledged, 1000, 10, usize::MAX)
            .expect("a page")
        {
            assert_eq!(entry.version, acknowledged + 1);
            acknowledged = entry.version;
        }
        let count = reads.load(Ordering::SeqCst);
        assert!(
            count <= 2,
            "{count} reads for the page up to {acknowledged}"
        );
    }
}

fn is_unknown(outcome: Result<(), Failure>) -> bool {
    match outcome {
        Err(Failure::Unknown(what)) => what.contains("the disk is gone"),
        _ => false,
    }
}

/// The operating system reports an error once: a later sync of the same file must fail as well.
#[test]
fn a_sync_that_failed_once_fails_for_all() {
    let armed = Arc::<AtomicBool>::default();
    let log = with_failing_sync(&armed);
    append(&log, 1, 100);
    log.rotate();
    append(&log, 2, 100);
    armed.store(true, Ordering::SeqCst);
    assert!(is_unknown(log.sync_closed(1)), "the flush fails");
    assert!(is_unknown(log.sync()), "and so does the commit");
    assert_eq!(log.durable(), 0);

    let log = with_failing_sync(&armed);
    append(&log, 1, 100);
    armed.store(true, Ordering::SeqCst);
    assert!(is_unknown(log.sync()), "the commit fails");
    log.rotate();
    assert!(is_unknown(log.sync_closed(1)), "and so does the flush");
    assert!(log.close_full().is_ok(), "what is not synced is not closed");
    assert!(!log.segments.read()[&1].state.lock().closing_written);
    assert!(log.close().is_err());
}

/// Files of segments created in advance are removed without blocking writers, which may reuse their numbers
/// concurrently.
#[test]
fn freeing_space_does_not_block_writers() {
    let sim = disk();
    for folder in ["/", "/db"] {
        sim.sync_folder(Path::new(folder)).expect("synced");
    }
    let (entered, is_entered) = std::sync::mpsc::channel();
    let (let_go, may_go) = std::sync::mpsc::channel::<()>();
    let may_go = std::sync::Mutex::new(may_go);
    let hook = move |call: Call, path: &Path| {
        if call == Call::Remove && path.extension().is_some_and(|ending| ending == "old") {
            let _ = entered.send(());
            let _ = may_go.lock().expect("whole").recv();
        }
        Ok(())
    };
    let faulty = FaultyDisk::new(Arc::new(sim.clone()), Arc::new(hook));
    let log = open_on(Arc::new(faulty), &mut Vec::new());
    append(&log, 1, 100);
    log.prepare().expect("prepared");
    std::thread::scope(|scope| {
        let shrinking = scope.spawn(|| log.shrink());
        is_entered.recv().expect("it removes a file");
        // The size of three segments.
        for version in 2..10 {
            append(&log, version, 3000);
        }
        assert!(!shrinking.is_finished());
        drop(let_go);
        shrinking.join().expect("no panic").expect("shrunk");
    });
    append(&log, 10, 9 << 10);
    log.sync().expect("synced");
    drop(log);
    for loss in Loss::ALL {
        let mut seen = Vec::new();
        drop(open(&sim.after_power_loss(loss, 7), &mut seen));
        assert_eq!(seen, (1..=10).collect::<Vec<_>>(), "{loss:?}");
    }
}

/// Files that were renamed are removed, also if the next one cannot be.
#[test]
fn renamed_files_are_removed_if_the_next_cannot_be() {
    let sim = disk();
    let stubborn = Path::new(FOLDER).join("0000000000000002.log");
    let hook = move |call: Call, path: &Path| match call {
        Call::Rename if path == stubborn => Err(std::io::Error::other("not now")),
        _ => Ok(()),
    };
    let faulty = FaultyDisk::new(Arc::new(sim.clone()), Arc::new(hook));
    let log = open_on(Arc::new(faulty), &mut Vec::new());
    append(&log, 1, 100);
    log.prepare().expect("prepared");
    assert!(log.shrink().is_err());
    let left = sim.list(Path::new(FOLDER)).expect("a folder");
    assert_eq!(left.len(), 2, "{left:?}");
    append(&log, 2, 9 << 10);
    log.sync().expect("synced");
}

#[test]
fn segments_made_ahead_follow_the_current_one_whatever_is_written() {
    for seed in 0..60 {
        let random = &mut Random(seed);
        let disk = disk();
        let mut log = open(&disk, &mut Vec::new());
        let mut last = 0;
        for _ in 0..120 {
            match random.below(12) {
                0..3 => log.prepare().expect("prepared"),
                3 => drop(log.rotate()),
                4 if random.below(3) == 0 => log.shrink().expect("shrunk"),
                4 => log.tidy(Keep::default()).expect("tidied"),
                5 if random.below(3) == 0 => {
                    if random.below(2) == 0 {
                        log.close().expect("closed");
                    }
                    let mut seen = Vec::new();
                    drop(log);
                    log = open(&disk, &mut seen);
                    assert_eq!(seen, (1..=last).collect::<Vec<_>>(), "seed {seed}");
                }
                // A commit that is larger than the segments created in advance.
                6 => {
                    last += 1;
                    append(&log, last, 9 << 10);
                }
                _ => {
                    last += 1;
                    append(&log, last, random.below(3000) as usize);
                }
            }
        }
        log.prepare().expect("prepared");
        assert_eq!(log.spares.lock().ready.len(), SPARES);
        log.close().expect("closed");
        let mut seen = Vec::new();
        drop(log);
        let log = open(&disk, &mut seen);
        assert_eq!(seen, (1..=last).collect::<Vec<_>>(), "seed {seed}");
        let stream = log.stream(0, last, usize::MAX, usize::MAX).expect("read");
        assert_eq!(stream.len() as u64, last);
    }
}

#[test]
fn a_writer_and_a_preparing_thread_leave_no_gaps_in_the_numbers() {
    let disk = disk();
    let log = open(&disk, &mut Vec::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                log.prepare().expect("prepared");
            }
        });
        for version in 1..=3000 {
            let bytes = if version % 5 == 0 { 9 << 10 } else { 700 };
            append(&log, version, bytes);
        }
        done.store(true, Ordering::Relaxed);
    });
    let mut seen = Vec::new();
    drop(log);
    open(&disk, &mut seen);
    assert_eq!(seen, (1..=3000).collect::<Vec<_>>());
}

/// What was acknowledged, and when (in changes of the disk).
#[derive(Default)]
struct Acknowledged {
    last: Version,
    /// Versions with an entry of the change stream.
    streams: BTreeSet<Version>,
    durable: Vec<(u64, Version)>,
    trims: Vec<(u64, Version)>,
    /// The contents of the manifest.
    flushed: Vec<(u64, Version, u64)>,
}

impl Acknowledged {
    fn flushed_at(&self, change: u64) -> Flushed {
        let before = self.flushed.iter().rev().find(|(at, ..)| *at <= change);
        let (version, needed_from) = before.map_or((0, 1), |(_, version, from)| (*version, *from));
        Flushed {
            version,
            needed_from,
            ingested: None,
            links: None,
        }
    }

    fn newest(acknowledged: &[(u64, Version)], change: u64) -> Version {
        let before = acknowledged.iter().filter(|(at, _)| *at <= change);
        before.map(|(_, version)| *version).max().unwrap_or(0)
    }
}

fn write(log: &Log, version: Version, bytes: usize, streams: bool) {
    let mut writes = WriteSet::new();
    writes.put(&version.to_be_bytes(), &vec![version as u8; bytes]);
    let commit = Commit {
        version,
        writes: &writes,
        stream: if streams { b"entry" } else { b"" },
    };
    log.append(&[commit], version).expect("a commit");
}

/// Commits with and without entries of the change stream, synced and not, larger than a segment and small;
/// flushes that complete or are interrupted; processes that are killed.
fn work(disk: &SimDisk, seed: u64) -> Acknowledged {
    let random = &mut Random(seed);
    let mut acknowledged = Acknowledged::default();
    let mut salts = seed << 32;
    let mut log = open_at(
        disk,
        &mut salts,
        &Flushed::default_from_one(),
        &mut Vec::new(),
    )
    .expect("a log")
    .0;
    let mut streams = true;
    for _ in 0..40 {
        match random.below(16) {
            0 => log.prepare().expect("prepared"),
            1 | 2 => streams = random.below(2) == 0,
            3 | 4 => {
                let next = log.rotate();
                log.sync_closed(acknowledged.last).expect("synced");
                log.close_full().expect("closed");
                if random.below(3) > 0 {
                    acknowledged
                        .flushed
                        .push((disk.changes(), acknowledged.last, next));
                    acknowledged
                        .durable
                        .push((disk.changes(), acknowledged.last));
                    log.note_durable(acknowledged.last);
                    let keep = Keep {
                        needed_from: next,
                        ..Keep::default()
                    };
                    log.tidy(keep).expect("tidied");
                }
            }
            5 => {
                log.sync().expect("synced");
                acknowledged
                    .durable
                    .push((disk.changes(), acknowledged.last));
            }
            6 => {
                let upto = random.below(acknowledged.last + 1);
                acknowledged.trims.push((disk.changes(), upto));
                log.trim(upto, acknowledged.last).expect("trimmed");
            }
            7 => drop(log.rotate()),
            8 => {
                drop(log);
                let flushed = acknowledged.flushed_at(u64::MAX);
                let (opened, last) =
                    open_at(disk, &mut salts, &flushed, &mut Vec::new()).expect("a log");
                assert_eq!(
                    last, acknowledged.last,
                    "seed {seed}: killed, and nothing lost"
                );
                log = opened;
                acknowledged
                    .durable
                    .push((disk.changes(), acknowledged.last));
            }
            large => {
                acknowledged.last += 1;
                let bytes = match large {
                    9 => 9 << 10,
                    _ => random.below(3000) as usize,
                };
                if streams {
                    acknowledged.streams.insert(acknowledged.last);
                }
                write(&log, acknowledged.last, bytes, streams);
            }
        }
    }
    acknowledged
}

impl Flushed {
    fn default_from_one() -> Self {
        Self {
            needed_from: 1,
            ..Self::default()
        }
    }
}

fn open_at(
    disk: &SimDisk,
    salts: &mut u64,
    flushed: &Flushed,
    seen: &mut Vec<Version>,
) -> Result<(Log, Version), StorageError> {
    *salts += 1 << 20;
    let random = AtomicU64::new(*salts);
    let options = LogOptions {
        disk: Arc::new(disk.clone()),
        seal: Seal::plain(),
        segment_bytes: 8 << 10,
        random: Arc::new(move || Random(random.fetch_add(1, Ordering::SeqCst)).number()),
        read_only: false,
        chain: Arc::default(),
    };
    Log::open(Path::new(FOLDER), options, flushed, &mut |replayed| {
        seen.push(replayed.version);
        Ok(())
    })
}

/// After a loss of power the log opens and has everything that was durable, also if the power is lost again
/// while opening.
fn check_left(disk: &SimDisk, acknowledged: &Acknowledged, change: u64, again: bool, what: &str) {
    let flushed = acknowledged.flushed_at(change);
    let salts = &mut (change << 36 | 1 << 35);
    if again {
        let copy = disk.after_power_loss(Loss::Everything, 0);
        let recorder = copy.record();
        open_at(&copy, salts, &flushed, &mut Vec::new())
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        let recording = recorder.finish();
        let mut replay = recording.replay();
        for at in recording.first()..=recording.end() {
            replay.forward_to(at);
            for loss in Loss::ALL {
                let found = replay.after_power_loss(loss, change ^ at);
                let what = format!("{what}, then {loss:?} at change {at} of opening");
                check_left(&found, acknowledged, change, false, &what);
            }
        }
        return;
    }
    let mut seen = Vec::new();
    let (log, last) =
        open_at(disk, salts, &flushed, &mut seen).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(
        last >= Acknowledged::newest(&acknowledged.durable, change),
        "{what}: {last}"
    );
    assert_eq!(
        seen,
        (flushed.version + 1..=last).collect::<Vec<_>>(),
        "{what}"
    );
    let entries = |log: &Log, upto| {
        let stream = log.stream(0, upto, usize::MAX, usize::MAX).expect("read");
        stream.iter().map(|entry| entry.version).collect::<Vec<_>>()
    };
    let trimmed = Acknowledged::newest(&acknowledged.trims, change);
    let kept = entries(&log, last);
    let expected = acknowledged.streams.range(trimmed + 1..).copied();
    let missing = expected
        .filter(|version| *version <= last)
        .find(|version| !kept.contains(version));
    assert_eq!(missing, None, "{what}: {kept:?} of the change stream");
    // A consumer that continues after the trim watermark misses nothing.
    let is_whole = |log: &Log, kept: &[Version]| {
        let behind = acknowledged.streams.range(log.trimmed() + 1..);
        let mut there = behind.take_while(|version| **version <= last);
        there.all(|version| kept.contains(version))
    };
    assert!(
        is_whole(&log, &kept),
        "{what}: {kept:?}, which is not all behind {}",
        log.trimmed()
    );
    // Later commits are in the stream, whatever was trimmed of the lost ones.
    for version in last + 1..last + 4 {
        write(&log, version, 2000, true);
    }
    log.sync().expect("synced");
    drop(log);
    seen.clear();
    let (log, end) = open_at(disk, salts, &flushed, &mut seen)
        .unwrap_or_else(|error| panic!("{what}: opened again: {error}"));
    assert_eq!(end, last + 3, "{what}");
    let (before, kept) = (kept, entries(&log, end));
    assert!(
        kept.starts_with(&before),
        "{what}: {kept:?}, {before:?} before"
    );
    assert!(is_whole(&log, &kept), "{what}: {kept:?}");
    assert!(
        kept.ends_with(&[last + 1, last + 2, last + 3]),
        "{what}: {kept:?}"
    );
}

#[test]
fn no_loss_of_power_is_mistaken_for_damage() {
    let quick = std::env::var_os("ISOMER_TEST_QUICK").is_some();
    let first = std::env::var("ISOMER_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or(0_u64)
        .wrapping_mul(1000);
    for seed in first..first + if quick { 20 } else { 80 } {
        let disk = disk();
        disk.sync_folder(Path::new("/")).expect("synced");
        disk.sync_folder(Path::new("/db")).expect("synced");
        let recorder = disk.record();
        let acknowledged = work(&disk, seed);
        let recording = recorder.finish();
        let mut replay = recording.replay();
        let mut random = Random(seed ^ 0x5eed);
        for change in recording.first()..=recording.end() {
            if random.below(4) > 0 {
                continue;
            }
            replay.forward_to(change);
            for loss in Loss::ALL {
                let chance = random.number();
                let found = replay.after_power_loss(loss, chance);
                let what = format!("seed {seed}, {loss:?} at change {change}");
                check_left(
                    &found,
                    &acknowledged,
                    change,
                    chance.is_multiple_of(20),
                    &what,
                );
            }
        }
    }
}

/// The process is killed, so that much is in the operating system's memory only; the power is lost during
/// recovery.
#[test]
fn power_may_be_lost_while_recovering_from_a_killed_process() {
    for seed in 0..40 {
        let disk = disk();
        disk.sync_folder(Path::new("/")).expect("synced");
        disk.sync_folder(Path::new("/db")).expect("synced");
        let acknowledged = work(&disk, seed);
        let change = disk.changes();
        let recorder = disk.record();
        let salts = &mut (seed << 34 | 1 << 33);
        open_at(
            &disk,
            salts,
            &acknowledged.flushed_at(u64::MAX),
            &mut Vec::new(),
        )
        .expect("a log");
        let recording = recorder.finish();
        let mut replay = recording.replay();
        for at in recording.first()..=recording.end() {
            replay.forward_to(at);
            for loss in Loss::ALL {
                let found = replay.after_power_loss(loss, at ^ seed);
                let what = format!("seed {seed}, {loss:?} at change {at} of opening");
                check_left(&found, &acknowledged, change, at % 5 == 0, &what);
            }
        }
    }
}

/// A trim that was only buffered, and segments removed because of it: a loss of power would lose the trim, and
/// the stream would silently begin in the middle.
#[test]
fn a_trim_is_recorded_before_segments_are_removed() {
    let disk = disk();
    disk.sync_folder(Path::new("/")).expect("synced");
    disk.sync_folder(Path::new("/db")).expect("synced");
    let log = open(&disk, &mut Vec::new());
    for version in 1..=20 {
        append(&log, version, 2000);
    }
    let needed_from = log.rotate();
    log.sync().expect("synced");
    log.close_full().expect("closed");
    log.note_durable(20);
    append(&log, 21, 100);
    log.trim(20, 21).expect("trimmed");
    let keep = Keep {
        needed_from,
        ..Keep::default()
    };
    log.tidy(keep).expect("tidied");
    assert_eq!(log.segments.read().len(), 1);
    let flushed = Flushed {
        version: 20,
        needed_from,
        ingested: None,
        links: None,
    };
    for loss in Loss::ALL {
        for seed in 0..8 {
            let left = disk.after_power_loss(loss, seed);
            let (log, last) = open_at(&left, &mut 77, &flushed, &mut Vec::new()).expect("a log");
            assert!(last >= 20, "{loss:?}");
            assert_eq!(log.trimmed(), 20, "{loss:?}");
        }
    }
    // The segment that records the watermark is removed only with a later one.
    let needed_from = log.rotate();
    log.sync().expect("synced");
    log.note_durable(21);
    append(&log, 22, 100);
    log.trim(21, 22).expect("trimmed");
    log.tidy(Keep {
        needed_from,
        ..keep
    })
    .expect("tidied");
    let flushed = Flushed {
        version: 21,
        needed_from,
        ingested: None,
        links: None,
    };
    let left = disk.after_power_loss(Loss::Everything, 1);
    let (log, _) = open_at(&left, &mut 78, &flushed, &mut Vec::new()).expect("a log");
    assert_eq!(log.trimmed(), 21);
}

/// A note is in the segment to which it was written: commits and syncs before it is durable do not move it.
#[test]
fn a_note_stays_in_its_segment() {
    for (commits, syncs) in [(false, false), (true, false), (false, true), (true, true)] {
        let sim = disk();
        for folder in ["/", "/db"] {
            sim.sync_folder(Path::new(folder)).expect("synced");
        }
        let log = open(&sim, &mut Vec::new());
        append(&log, 1, 100);
        log.rotate();
        append(&log, 2, 100);
        let note = super::Write::Trim {
            version: 2,
            upto: 1,
        };
        let segment = log.write(std::iter::once(note), 0).expect("written");
        if commits {
            log.rotate();
            append(&log, 3, 100);
        }
        if syncs {
            log.sync().expect("synced");
        }
        let acknowledged = log.make_note_durable(&segment, 1).expect("settled");
        let what = format!("commits: {commits}, syncs: {syncs}");
        assert_eq!(
            (acknowledged.segment, acknowledged.trimmed),
            (2, 1),
            "{what}"
        );
        let mut seen = Vec::new();
        let found = open(&sim.after_power_loss(Loss::Everything, 0), &mut seen);
        assert_eq!(found.trimmed(), 1, "{what}");
        assert!(seen.starts_with(&[1, 2]), "{what}: {seen:?}");
    }
}

/// A log of small segments on a new disk with a fault hook.
fn open_with(disk: &SimDisk, hook: FaultHook) -> Log {
    let random = AtomicU64::new(1);
    let options = LogOptions {
        disk: Arc::new(FaultyDisk::new(Arc::new(disk.clone()), hook)),
        seal: Seal::plain(),
        segment_bytes: 8 << 10,
        random: Arc::new(move || Random(random.fetch_add(1, Ordering::SeqCst)).number()),
        read_only: false,
        chain: Arc::default(),
    };
    let flushed = Flushed::default_from_one();
    let opened = Log::open(Path::new(FOLDER), options, &flushed, &mut |_| Ok(()));
    opened.expect("a log").0
}

/// Recording the trim watermark needs space, which a full disk does not have: what is recorded already is
/// removed, which frees some.
#[test]
fn a_full_disk_keeps_only_segments_whose_trim_is_not_recorded() {
    let full = Arc::new(AtomicU64::new(0));
    let hook = {
        let full = full.clone();
        Arc::new(move |call: Call, _: &Path| {
            if matches!(call, Call::Write) && full.load(Ordering::SeqCst) == 1 {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            Ok(())
        })
    };
    let log = open_with(&disk(), hook);
    let numbers = |log: &Log| log.segments.read().keys().copied().collect::<Vec<_>>();
    for version in 1..=20 {
        append(&log, version, 2000);
    }
    log.rotate();
    log.sync().expect("synced");
    log.close_full().expect("closed");
    log.note_durable(20);
    append(&log, 21, 100);
    log.trim(20, 21).expect("trimmed");
    let before = numbers(&log);
    let keep = |needed_from| Keep {
        needed_from,
        ..Keep::default()
    };
    log.tidy(keep(before[1])).expect("tidied");
    let telling = *before.last().expect("some");
    assert_eq!(numbers(&log), before[1..]);
    let needed_from = log.rotate();
    log.sync().expect("synced");
    log.close_full().expect("closed");
    log.note_durable(21);
    append(&log, 22, 100);
    log.trim(21, 22).expect("trimmed");

    full.store(1, Ordering::SeqCst);
    log.tidy(keep(needed_from)).expect("tidied");
    assert_eq!(numbers(&log), [telling, telling + 1]);
    full.store(0, Ordering::SeqCst);
    log.tidy(keep(needed_from)).expect("tidied");
    assert_eq!(numbers(&log), [telling + 1]);
}

/// A group larger than a segment arrives while the segment after the next is being created.
#[test]
fn a_large_group_meets_spares_that_are_being_made() {
    let sim = disk();
    let (slow, reached) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let hook = {
        let (slow, reached) = (slow.clone(), reached.clone());
        Arc::new(move |call: Call, path: &Path| {
            let second = path.ends_with("0000000000000003.new");
            if call == Call::Sync && second && slow.load(Ordering::SeqCst) == 1 {
                reached.store(1, Ordering::SeqCst);
                // A slow disk.
                std::thread::sleep(std::time::Duration::from_millis(300));
            }
            Ok(())
        })
    };
    let log = open_with(&sim, hook);
    append(&log, 1, 700);
    slow.store(1, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| log.prepare().expect("prepared"));
        while reached.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        append(&log, 2, 9 << 10);
    });
    for version in 3..40 {
        append(&log, version, 700);
        log.prepare().expect("prepared");
    }
    drop(log);
    let mut seen = Vec::new();
    open(&sim, &mut seen);
    assert_eq!(seen, (1..40).collect::<Vec<_>>());
}
