//! Segments made ahead.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_storage::{Commit, Version, WriteSet, conformance::Random};
use isomer_vfs::{Disk, Seal, SimDisk};

use super::{Flushed, Keep, Log, LogOptions, SPARES};

const FOLDER: &str = "/db/log";

fn open(disk: &SimDisk, seen: &mut Vec<Version>) -> Log {
    let random = AtomicU64::new(1);
    let options = LogOptions {
        disk: Arc::new(disk.clone()),
        seal: Seal::plain(),
        segment_bytes: 8 << 10,
        random: Arc::new(move || Random(random.fetch_add(1, Ordering::SeqCst)).number()),
        read_only: false,
    };
    let flushed = Flushed {
        needed_from: 1,
        ..Flushed::default()
    };
    let opened = Log::open(Path::new(FOLDER), options, &flushed, &mut |replayed| {
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
        stream: b"told",
    };
    log.append(&[commit], version).expect("a commit");
}

fn disk() -> SimDisk {
    let disk = SimDisk::new();
    disk.make_folder(Path::new("/db")).expect("a folder");
    disk.make_folder(Path::new(FOLDER)).expect("a folder");
    disk
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
                // A commit that no segment made ahead has room for.
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
fn a_writer_and_who_prepares_for_it_keep_the_numbers_without_gaps() {
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
