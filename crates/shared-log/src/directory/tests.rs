//! Tests of the log in a directory that need its files or faults of the disk.

use std::{
    fs, io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_vfs::{Call, Disk as _, FaultyDisk, Loss, RealDisk, SharedPage, SimDisk};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    DirectoryLog, DirectoryMode, DirectoryOptions,
    frame::{self, HEAD_BYTES, frame_bytes},
    page::PAGE_BYTES,
    segments::{self, Segments},
};
use crate::{Append, LogError, Position, SharedLog as _};

const CHECK_WORD: usize = 9;
const END_WORD: usize = 8;
const SYNCED_WORD: usize = 11;
const RESERVATION_WORD: usize = 26;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn open(folder: &TempDir) -> DirectoryLog {
    opened(folder.path(), &DirectoryOptions::default())
}

fn opened(folder: &Path, options: &DirectoryOptions) -> DirectoryLog {
    DirectoryLog::open(folder, options).expect("it opens")
}

fn refused(folder: &TempDir, options: &DirectoryOptions) -> LogError {
    DirectoryLog::open(folder.path(), options).expect_err("it is refused")
}

fn read_only() -> DirectoryOptions {
    DirectoryOptions {
        mode: DirectoryMode::ReadOnly,
        ..DirectoryOptions::default()
    }
}

/// The record at a position.
fn record(at: Position) -> Vec<u8> {
    let length = (at * 37 % 400) as usize;
    (0..length).map(|byte| (at as usize + byte) as u8).collect()
}

fn append(log: &DirectoryLog, count: u64) {
    for _ in 0..count {
        let at = log.end().expect("an end");
        assert_eq!(log.append(at, &record(at)), Ok(Append::Appended));
    }
}

/// The log has the records from `first` on, below `end`.
fn check(log: &DirectoryLog, first: Position, end: Position) {
    assert_eq!((log.first(), log.end()), (Ok(first), Ok(end)));
    let mut at = first;
    while at < end {
        let page = log.read(at, 1000).expect("records");
        assert!(!page.is_empty(), "{at} of {end}");
        for found in page {
            assert_eq!(found, record(at), "{at}");
            at += 1;
        }
    }
    assert_eq!(log.read(end, 1000), Ok(Vec::new()));
}

fn newest_segment(folder: &Path) -> PathBuf {
    let all = Segments::list(&RealDisk, folder).expect("names");
    segments::path(folder, *all.last().expect("a segment"))
}

/// Where the frame of each record begins in a single segment, and where the last one ends.
fn offsets(end: Position) -> Vec<u64> {
    let mut offsets = vec![frame::HEADER_BYTES as u64];
    for at in 1..end {
        offsets.push(offsets[at as usize - 1] + frame_bytes(record(at).len()));
    }
    offsets
}

/// Changes bytes of a file, and makes it no longer.
fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.write_all_at(bytes, offset))
        .expect("written");
}

fn shared_page(folder: &TempDir) -> SharedPage {
    SharedPage::open(&folder.path().join("page"), PAGE_BYTES).expect("the page")
}

#[test]
fn two_handles_see_one_log() {
    let folder = folder();
    let (one, other) = (open(&folder), open(&folder));
    assert_eq!((one.id(), one.grace()), (other.id(), other.grace()));
    append(&one, 3);
    append(&other, 3);
    append(&one, 1);
    check(&one, 1, 8);
    check(&other, 1, 8);
    assert_eq!(one.append(3, b"x"), Ok(Append::Taken));
    assert_eq!(other.sync(8), Ok(()));
    assert_eq!(one.processes().len(), 2);
    drop(one);
    assert_eq!(other.processes().len(), 1);
    assert_eq!(other.processes()[0].id.pid, std::process::id());
}

#[test]
fn users_share_a_manifest_number_and_see_each_other() {
    let folder = folder();
    let kind = |kind: &str| DirectoryOptions {
        kind: kind.into(),
        ..DirectoryOptions::default()
    };
    let one = opened(folder.path(), &kind("server"));
    let other = opened(folder.path(), &kind("cli"));
    let reader = opened(folder.path(), &read_only());
    let seen = || -> Vec<(String, Position)> {
        let all = one.processes().into_iter();
        all.map(|process| (process.kind, process.applied)).collect()
    };
    assert_eq!(seen(), [("server".into(), 0), ("cli".into(), 0)]);
    other.note_applied(7);
    reader.note_applied(9);
    assert_eq!(seen(), [("server".into(), 0), ("cli".into(), 7)]);
    assert_eq!(one.manifest_number(), 0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| other.wait_manifest_number(4, Duration::from_secs(60)));
        assert_eq!(one.raise_manifest_number(4), Ok(()));
        assert_eq!(one.raise_manifest_number(5), Ok(()));
        assert_eq!(waiter.join().expect("no panic"), 5);
    });
    assert_eq!(other.raise_manifest_number(3), Ok(()));
    assert_eq!(one.manifest_number(), 5);
    let soon = Duration::from_millis(5);
    assert_eq!(one.wait_manifest_number(5, soon), 5);
    for refused in [
        one.raise_manifest_number(1 << 48),
        reader.raise_manifest_number(6),
    ] {
        assert!(matches!(refused, Err(LogError::Refused(_))), "{refused:?}");
    }
    assert_eq!(
        (
            reader.manifest_number(),
            reader.wait_manifest_number(0, soon)
        ),
        (0, 0)
    );
    assert_eq!(one.raise_manifest_number((1 << 48) - 1), Ok(()));
    assert_eq!(other.manifest_number(), (1 << 48) - 1);
    // A damaged word is none, and the next raise repairs it.
    shared_page(&folder).words()[20].store(77, Ordering::SeqCst);
    assert_eq!(one.manifest_number(), 0);
    assert_eq!(other.raise_manifest_number(6), Ok(()));
    assert_eq!(one.manifest_number(), 6);
    // The page is made again while a process lives, and after all have closed it.
    shared_page(&folder).words()[CHECK_WORD].store(0, Ordering::SeqCst);
    append(&one, 1);
    assert_eq!(one.manifest_number(), 6);
    drop((one, other));
    let log = open(&folder);
    assert_eq!(log.manifest_number(), 0);
    assert_eq!(log.processes().len(), 1);
}

/// A process was killed: its entry stays in the page, and is gone when the log is opened without others.
#[test]
fn an_entry_of_a_killed_process_is_not_listed() {
    let folder = folder();
    let log = open(&folder);
    let page = shared_page(&folder);
    // It had the second entry.
    let numbering = page.words()[66].load(Ordering::SeqCst);
    page.words()[74].store(numbering, Ordering::SeqCst);
    page.words()[72].store(4_000_000_000, Ordering::SeqCst);
    assert_eq!(log.processes().len(), 1);
    drop(log);
    let log = open(&folder);
    assert_eq!(page.words()[72].load(Ordering::SeqCst), 0);
    assert_eq!(log.processes().len(), 1);
}

#[test]
fn an_existing_log_keeps_its_identity_and_grace_period() {
    let folder = folder();
    let options = DirectoryOptions {
        grace: Duration::from_secs(7),
        ..DirectoryOptions::default()
    };
    let log = opened(folder.path(), &options);
    let (id, grace) = (log.id(), log.grace());
    assert_eq!(grace, Duration::from_secs(7));
    append(&log, 2);
    drop(log);
    let log = open(&folder);
    assert_eq!((log.id(), log.grace()), (id, grace));
    check(&log, 1, 3);
}

/// Whatever part of a frame was written, the record is not in the log and the next one takes its place.
#[test]
fn torn_tails_of_every_length_are_dropped() {
    let folder = folder();
    let log = open(&folder);
    append(&log, 4);
    drop(log);
    let path = newest_segment(folder.path());
    let whole = fs::read(&path).expect("a segment");
    let offsets = offsets(5);
    let (start, end) = (offsets[3] as usize, offsets[4] as usize);
    let content_end = start + HEAD_BYTES + record(4).len();
    for cut in start..=end {
        for others_live in [false, true] {
            let mut torn = whole.clone();
            torn[cut..].fill(0);
            // A loss of power may also keep the end of the frame and lose its beginning.
            let keeps_end = cut % 3 == 0 && !others_live && cut < content_end - 8;
            if keeps_end {
                torn[cut..end].copy_from_slice(&whole[cut..end]);
                torn[start..cut.max(start + 1)].fill(0);
            }
            fs::write(&path, &torn).expect("written");
            // No receipt says that it was durable.
            fs::write(folder.path().join("page"), []).expect("written");
            let log = open(&folder);
            let expected = if cut >= content_end { 5 } else { 4 };
            assert_eq!(log.end(), Ok(expected), "cut at {cut}");
            if others_live {
                // A process that lives on finds the same when another one is killed.
                append(&log, 1);
                let offset = self::offsets(expected + 2)[expected as usize];
                overwrite(&path, offset, &torn[start..cut]);
                shared_page(&folder).words()[CHECK_WORD].store(0, Ordering::SeqCst);
                append(&log, 1);
                check(&log, 1, expected + 2);
            } else {
                append(&log, 2);
                check(&log, 1, expected + 2);
                drop(log);
                check(&open(&folder), 1, expected + 2);
            }
        }
    }
}

/// A process was killed after its frame was complete, and before the page said so.
#[test]
fn a_complete_frame_is_part_of_the_log() {
    let folder = folder();
    let log = open(&folder);
    append(&log, 3);
    let before: Vec<u64> = {
        let page = shared_page(&folder);
        page.words()[..CHECK_WORD]
            .iter()
            .map(|word| word.load(Ordering::SeqCst))
            .collect()
    };
    append(&log, 1);
    let page = shared_page(&folder);
    for (word, value) in page.words().iter().zip(before) {
        word.store(value, Ordering::SeqCst);
    }
    page.words()[CHECK_WORD].store(0, Ordering::SeqCst);
    let other = open(&folder);
    assert_eq!(other.append(4, b"x"), Ok(Append::Taken));
    append(&log, 1);
    check(&other, 1, 6);
}

#[test]
fn a_damaged_page_is_made_again() {
    let folder = folder();
    let log = open(&folder);
    let reader = opened(folder.path(), &read_only());
    let mut end = 1;
    for word in (0..18).chain(20..26) {
        for value in [0, 1, 77, u64::MAX, 1 << 40] {
            if matches!(word, 1 | 13) {
                // Another format, and a failed sync, are refused: see below.
                continue;
            }
            append(&log, 1);
            end += 1;
            let page = shared_page(&folder);
            page.words()[word].store(value, Ordering::SeqCst);
            // The end is not compared while the page says that it changes.
            let other = open(&folder);
            check(&other, 1, end);
            check(&log, 1, end);
            check(&reader, 1, end);
            assert_eq!(log.sync(end), Ok(()));
        }
    }
    let page = shared_page(&folder);
    page.words()[1].store(3, Ordering::SeqCst);
    let why = refused(&folder, &DirectoryOptions::default());
    assert!(
        why.to_string().contains("format 3 of shared memory"),
        "{why}"
    );
    drop((log, reader));
    // Without other processes it is made again, whatever it is.
    for content in [&b"foreign"[..], &[0xff; PAGE_BYTES], &[0; PAGE_BYTES], b""] {
        fs::write(folder.path().join("page"), content).expect("written");
        let log = open(&folder);
        check(&log, 1, end);
        append(&log, 1);
        end += 1;
        check(&log, 1, end);
    }
}

#[test]
fn a_page_that_others_use_is_not_replaced() {
    let folder = folder();
    let log = open(&folder);
    append(&log, 1);
    fs::remove_file(folder.path().join("page")).expect("removed");
    let why = refused(&folder, &DirectoryOptions::default());
    assert!(why.to_string().contains("close them all"), "{why}");
    fs::write(folder.path().join("page"), b"x").expect("written");
    let why = refused(&folder, &DirectoryOptions::default());
    assert!(matches!(why, LogError::Refused(_)), "{why}");
    drop(log);
    check(&open(&folder), 1, 2);
}

#[test]
fn damage_is_an_error() {
    let folder = folder();
    let log = open(&folder);
    append(&log, 6);
    log.sync(7).expect("synced");
    let path = newest_segment(folder.path());
    let whole = fs::read(&path).expect("a segment");
    let offsets = offsets(7);
    drop(log);
    let page = fs::read(folder.path().join("page")).expect("the page");
    for (at, offset) in (1..).zip(&offsets[..6]) {
        for delta in [0, 9, 20, 30, 40, HEAD_BYTES as u64 + 1] {
            let mut changed = whole.clone();
            changed[(offset + delta) as usize] ^= 1;
            fs::write(&path, &changed).expect("written");
            fs::write(folder.path().join("page"), &page).expect("written");
            let opened = DirectoryLog::open(folder.path(), &DirectoryOptions::default());
            // The records before the last durable one are compared when they are read.
            assert_eq!(opened.is_ok(), at < 6, "{at} {delta}");
            let read = opened.and_then(|log| log.read(1, 1 << 20));
            assert!(
                matches!(read, Err(LogError::Damaged(_))),
                "{at} {delta}: {read:?}"
            );
        }
    }
    // Without the receipt, the frames that were written after a sync tell that an earlier record was durable.
    fs::write(&path, &whole).expect("written");
    let log = open(&folder);
    append(&log, 1);
    drop(log);
    let mut changed = fs::read(&path).expect("a segment");
    changed[offsets[2] as usize + 50] ^= 1;
    fs::write(&path, &changed).expect("written");
    fs::write(folder.path().join("page"), []).expect("written");
    let why = refused(&folder, &DirectoryOptions::default());
    assert!(matches!(why, LogError::Damaged(_)), "{why}");
    // While the log is open, a reader notices.
    fs::write(&path, &whole).expect("written");
    let log = open(&folder);
    let reader = opened(folder.path(), &read_only());
    append(&log, 1);
    assert_eq!(reader.end(), Ok(8));
    overwrite(&path, offsets[2] + 50, &[0xee]);
    let log_reads = opened(folder.path(), &DirectoryOptions::default()).read(1, 1 << 20);
    assert!(
        matches!(log_reads, Err(LogError::Damaged(_))),
        "{log_reads:?}"
    );
    assert!(matches!(reader.read(3, 0), Err(LogError::Damaged(_))));
    assert_eq!(
        log.read(4, 0).map(|page| page.len()),
        Ok(1),
        "others can be read"
    );
}

/// A process that opens the log reads the records after the last sync, and not those before.
#[test]
fn a_log_is_opened_from_its_last_sync_on() {
    let folder = folder();
    let reads = Arc::new(AtomicU64::new(0));
    let counted = reads.clone();
    let disk = FaultyDisk::new(
        Arc::new(RealDisk),
        Arc::new(move |call, _: &Path| {
            counted.fetch_add(u64::from(call == Call::Read), Ordering::Relaxed);
            Ok(())
        }),
    );
    let shared = DirectoryOptions {
        disk: Arc::new(disk),
        ..DirectoryOptions::default()
    };
    let only_reading = DirectoryOptions {
        mode: DirectoryMode::ReadOnly,
        ..shared.clone()
    };
    let reads_of = |options: &DirectoryOptions, end| {
        reads.store(0, Ordering::Relaxed);
        assert_eq!(opened(folder.path(), options).end(), Ok(end));
        reads.load(Ordering::Relaxed)
    };
    let log = open(&folder);
    append(&log, 20_000);
    drop(log);
    // All records are read once, and are durable then.
    let whole = reads_of(&shared, 20_001);
    let path = folder.path().join("page");
    let early = fs::read(&path).expect("the page");
    let log = open(&folder);
    append(&log, 10_000);
    log.sync(30_001).expect("synced");
    append(&log, 3);
    drop(log);
    let late = fs::read(&path).expect("the page");
    let (quick, quick_reader) = (reads_of(&only_reading, 30_004), reads_of(&shared, 30_004));
    assert!(
        quick < 12 && quick_reader < 12 && whole > 20,
        "{whole} {quick} {quick_reader}"
    );
    // A page that is older than the segments, and one that is damaged.
    for page in [&early[..], &[0xff; PAGE_BYTES], &[0; PAGE_BYTES]] {
        fs::write(&path, page).expect("written");
        check(&opened(folder.path(), &read_only()), 1, 30_004);
        check(&open(&folder), 1, 30_004);
    }
    // A segment that is older than the page has lost durable records.
    fs::write(&path, &late).expect("written");
    let segment = newest_segment(folder.path());
    let mut lost = fs::read(&segment).expect("a segment");
    lost[offsets(20_001)[20_000] as usize..].fill(0);
    fs::write(&segment, &lost).expect("written");
    let why = refused(&folder, &DirectoryOptions::default());
    assert!(matches!(why, LogError::Damaged(_)), "{why}");
    assert_eq!(opened(folder.path(), &read_only()).end(), Ok(20_001));
}

#[test]
fn missing_files_and_other_formats_are_refused() {
    let small = DirectoryOptions {
        segment_bytes: 500,
        ..DirectoryOptions::default()
    };
    let folder = folder();
    append(&opened(folder.path(), &small), 20);
    let manifest = folder.path().join("manifest");
    let bytes = fs::read(&manifest).expect("a manifest");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(&manifest, &changed).expect("written");
        let why = refused(&folder, &small);
        assert!(matches!(why, LogError::Damaged(_)), "{at}: {why}");
        assert!(refused(&folder, &read_only()) == why);
    }
    let mut other_format = bytes.clone();
    other_format[8] = 7;
    let (fields, checksum) = other_format.split_at_mut(bytes.len() - 8);
    checksum.copy_from_slice(&xxh3_64(fields).to_le_bytes());
    fs::write(&manifest, &other_format).expect("written");
    let why = refused(&folder, &small);
    assert!(why.to_string().contains("has the format 7"), "{why}");
    fs::remove_file(&manifest).expect("removed");
    assert!(matches!(refused(&folder, &small), LogError::Damaged(_)));
    fs::write(&manifest, &bytes).expect("written");
    let all = Segments::list(&RealDisk, folder.path()).expect("names");
    assert!(all.len() > 4);
    for first in all {
        let path = segments::path(folder.path(), first);
        let content = fs::read(&path).expect("a segment");
        fs::remove_file(&path).expect("removed");
        let read = DirectoryLog::open(folder.path(), &small)
            .and_then(|log| (1..21).try_for_each(|at| log.read(at, 0).map(drop)));
        assert!(
            matches!(read, Err(LogError::Damaged(_))),
            "{first}: {read:?}"
        );
        fs::write(&path, &content).expect("written");
    }
    check(&opened(folder.path(), &small), 1, 21);
}

#[test]
fn full_segments_are_followed_by_others_and_trimmed_whole() {
    let small = DirectoryOptions {
        segment_bytes: 1000,
        ..DirectoryOptions::default()
    };
    let folder = folder();
    let (one, other) = (opened(folder.path(), &small), opened(folder.path(), &small));
    let reader = opened(folder.path(), &read_only());
    let idle = opened(folder.path(), &read_only());
    for _ in 0..20 {
        append(&one, 1);
        append(&other, 1);
    }
    for log in [&one, &other, &reader] {
        check(log, 1, 41);
    }
    let count = || {
        Segments::list(&RealDisk, folder.path())
            .expect("names")
            .len()
    };
    let before = count();
    assert!(before > 5, "{before}");
    assert_eq!(one.trim(30), Ok(()));
    assert!(count() < before / 2, "{} of {before}", count());
    for log in [&one, &other, &reader, &idle] {
        check(log, 30, 41);
        assert_eq!(log.read(29, 0), Err(LogError::Trimmed { first: 30 }));
    }
    assert_eq!(other.append(7, b"x"), Err(LogError::Trimmed { first: 30 }));
    assert_eq!(other.trim(41), Ok(()));
    append(&one, 2);
    for log in [&one, &other, &reader, &idle] {
        check(log, 41, 43);
    }
    drop((one, other, reader, idle));
    check(&opened(folder.path(), &small), 41, 43);
    // A record larger than a segment has its own.
    let log = opened(folder.path(), &small);
    let large = vec![7; 3 << 20];
    assert_eq!(log.append(43, &large), Ok(Append::Appended));
    assert_eq!(log.append(44, b"small"), Ok(Append::Appended));
    assert_eq!(log.read(43, 1 << 30), Ok(vec![large, b"small".to_vec()]));
}

#[test]
fn a_reader_writes_nothing() {
    let folder = folder();
    let why = refused(&folder, &read_only());
    assert!(why.to_string().contains("has no log"), "{why}");
    let log = open(&folder);
    append(&log, 3);
    drop(log);
    let content = || {
        let entries = fs::read_dir(folder.path()).expect("names");
        let mut all: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("a name").path();
                let content = fs::read(&path).expect("a file");
                (path, content)
            })
            .collect();
        all.sort();
        all
    };
    let before = content();
    let reader = opened(folder.path(), &read_only());
    check(&reader, 1, 4);
    assert_eq!(reader.wait(3, Duration::ZERO), Ok(4));
    assert_eq!(reader.wait(4, Duration::from_millis(5)), Ok(4));
    for outcome in [
        reader.append(4, b"x").map(drop),
        reader.trim(2),
        reader.sync(4),
    ] {
        assert!(matches!(outcome, Err(LogError::Refused(_))), "{outcome:?}");
    }
    assert!(content() == before);
    let log = open(&folder);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| reader.wait(4, Duration::from_secs(60)));
        append(&log, 1);
        assert_eq!(waiter.join().expect("no panic"), Ok(5));
    });
}

/// Handles append by turns: each maps other parts of the segment, and makes the file longer by other steps. Records
/// that are too large for that, and those that follow a sync, are written with calls.
#[test]
fn handles_that_map_other_parts_append_by_turns() {
    let folder = folder();
    let with_step = |segment_bytes| DirectoryOptions {
        segment_bytes,
        ..DirectoryOptions::default()
    };
    // Steps of 5,000 bytes, of 100,000, and the largest one.
    let handles = [5_000, 100_000, 64 << 20].map(|bytes| opened(folder.path(), &with_step(bytes)));
    let lengths = [0, 1, 47, 300, 4_000, 30_000, 70_000, 200_000];
    let record = |at: Position| {
        let length = lengths[(at * 5 % 8) as usize];
        (0..length)
            .map(|byte| (at as usize * 31 + byte) as u8)
            .collect::<Vec<u8>>()
    };
    let last = 400;
    for at in 1..=last {
        let handle = &handles[(at * 7 / 3 % 3) as usize];
        assert_eq!(handle.append(at, &record(at)), Ok(Append::Appended), "{at}");
        if at % 150 == 0 {
            assert_eq!(handle.sync(at + 1), Ok(()));
        }
    }
    let reader = opened(folder.path(), &read_only());
    for log in handles.iter().chain([&reader]) {
        for at in 1..=last {
            assert!(log.read(at, 0) == Ok(vec![record(at)]), "{at}");
        }
        assert_eq!(log.end(), Ok(last + 1));
    }
    drop(handles);
    assert_eq!(open(&folder).end(), Ok(last + 1));
}

/// The disk becomes full at any call, and an append that failed is not in the log.
#[test]
fn a_full_disk_loses_nothing() {
    for fails_at in 0..60 {
        let folder = folder();
        let writes = Arc::new(AtomicU64::new(0));
        let is_full = Arc::new(AtomicBool::new(true));
        let (counted, full) = (writes.clone(), is_full.clone());
        let disk = FaultyDisk::new(
            Arc::new(RealDisk),
            Arc::new(move |call, _: &Path| {
                let is_counted = matches!(call, Call::Write | Call::Open | Call::Rename);
                let fails = is_counted
                    && counted.fetch_add(1, Ordering::Relaxed) >= fails_at
                    && full.load(Ordering::Relaxed);
                match fails {
                    true => Err(io::ErrorKind::StorageFull.into()),
                    false => Ok(()),
                }
            }),
        );
        let options = DirectoryOptions {
            segment_bytes: 900,
            disk: Arc::new(disk),
            ..DirectoryOptions::default()
        };
        let mut end = 1;
        if let Ok(log) = DirectoryLog::open(folder.path(), &options) {
            let other = DirectoryLog::open(folder.path(), &options);
            loop {
                match log.append(end, &record(end)) {
                    Ok(Append::Appended) => end += 1,
                    Err(LogError::Refused(why)) => {
                        assert!(why.contains("manifest") || why.contains(".log"), "{why}");
                        break;
                    }
                    // Not even the beginning of its frame could be cleared.
                    Ok(Append::Unknown(_)) => break,
                    other => panic!("{other:?}"),
                }
            }
            is_full.store(false, Ordering::Relaxed);
            assert_eq!(log.append(end, &record(end)), Ok(Append::Appended));
            end += 1;
            check(&log, 1, end);
            if let Ok(other) = other {
                append(&other, 1);
                end += 1;
                check(&other, 1, end);
            }
        }
        is_full.store(false, Ordering::Relaxed);
        let log = open(&folder);
        check(&log, 1, end);
        append(&log, 1);
    }
}

#[test]
fn after_a_failed_sync_all_processes_refuse_until_the_log_is_opened_again() {
    let folder = folder();
    let fails = Arc::new(AtomicBool::new(false));
    let hook = fails.clone();
    let disk = FaultyDisk::new(
        Arc::new(RealDisk),
        Arc::new(
            move |call, _: &Path| match call == Call::Sync && hook.load(Ordering::Relaxed) {
                true => Err(io::Error::other("a bad sector")),
                false => Ok(()),
            },
        ),
    );
    let faulty = DirectoryOptions {
        disk: Arc::new(disk),
        ..DirectoryOptions::default()
    };
    let (one, other) = (opened(folder.path(), &faulty), open(&folder));
    append(&other, 2);
    fails.store(true, Ordering::Relaxed);
    let why = one.sync(3).expect_err("it fails");
    assert!(why.to_string().contains("bad sector"), "{why}");
    fails.store(false, Ordering::Relaxed);
    for log in [&one, &other] {
        for outcome in [log.sync(3), log.append(3, b"x").map(drop)] {
            let why = outcome.expect_err("it is refused");
            assert!(why.to_string().contains("open it again"), "{why}");
        }
    }
    check(&other, 1, 3);
    drop(one);
    assert!(
        open(&folder).sync(3).is_err(),
        "another process has it open"
    );
    drop(other);
    let log = open(&folder);
    assert_eq!(log.sync(3), Ok(()));
    append(&log, 1);
    check(&log, 1, 4);
}

/// A process that is stopped within an append holds others up, and they say which one it is.
#[test]
fn waiting_for_an_append_ends() {
    let folder = folder();
    let options = DirectoryOptions {
        patience: Duration::from_millis(50),
        ..DirectoryOptions::default()
    };
    let log = opened(folder.path(), &options);
    append(&log, 1);
    let stopped = isomer_vfs::LockFile::open(&folder.path().join("page")).expect("the page");
    assert!(
        stopped
            .try_lock(isomer_vfs::LockMode::Exclusive)
            .expect("no error")
    );
    shared_page(&folder).words()[10].store(4711, Ordering::SeqCst);
    let why = log.append(2, b"x").expect_err("it waits");
    assert!(matches!(why, LogError::Unavailable(_)), "{why}");
    assert!(why.to_string().contains("process 4711"), "{why}");
    assert_eq!(log.end(), Ok(2), "others can read");
    drop(stopped);
    append(&log, 1);
    check(&log, 1, 3);
}

/// A process that appends alone takes the lock without a system call. Others take that back without waiting for it,
/// unless it is within an append.
#[test]
fn appends_of_others_wait_while_a_position_is_reserved() {
    let folder = folder();
    let (one, other) = (open(&folder), open(&folder));
    // It is favoured, and takes the lock without a system call.
    append(&other, 200);
    let at = one.end().expect("an end");
    one.reserve(Duration::from_secs(60)).expect("reserved");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| (other.append(at, b"other"), Instant::now()));
        // A wait without an event: nothing happens in this time.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(other.end(), Ok(at), "it waits");
        assert_eq!(one.append(at, &record(at)), Ok(Append::Appended));
        let released = Instant::now();
        one.release();
        let (outcome, returned) = waiter.join().expect("no panic");
        assert_eq!(outcome, Ok(Append::Taken));
        assert!(returned >= released, "it waited for the release");
    });
    append(&other, 100);
    append(&one, 1);
    check(&other, 1, at + 102);
}

#[test]
fn a_reservation_ends_with_its_time_and_its_process() {
    let folder = folder();
    let (one, other) = (open(&folder), open(&folder));
    let began = Instant::now();
    one.reserve(Duration::from_millis(80)).expect("reserved");
    append(&other, 1);
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(80), "{waited:?}");
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    // The lock is still there, and no obstacle.
    append(&other, 1);
    one.release();
    // The process that wrote this one has ended: it has no lock.
    let page = shared_page(&folder);
    page.words()[RESERVATION_WORD].store(7 << 32 | 4_000, Ordering::SeqCst);
    let began = Instant::now();
    append(&other, 1);
    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    assert_eq!(load(&page, RESERVATION_WORD), 0);
    // The first process that opens the log forgets reservations.
    page.words()[RESERVATION_WORD].store(7 << 32 | 4_000, Ordering::SeqCst);
    drop((one, other));
    let again = open(&folder);
    assert_eq!(load(&page, RESERVATION_WORD), 0);
    append(&again, 1);
    check(&again, 1, 5);
}

#[test]
fn reservations_of_several_processes_follow_each_other() {
    let folder = folder();
    let handles: Vec<DirectoryLog> = (0..4).map(|_| open(&folder)).collect();
    thread::scope(|scope| {
        for log in &handles {
            scope.spawn(|| {
                for _ in 0..20 {
                    log.reserve(Duration::from_secs(5)).expect("reserved");
                    let at = log.end().expect("an end");
                    // No append of another handle began before the reservation.
                    assert_eq!(log.append(at, &record(at)), Ok(Append::Appended));
                    log.release();
                }
            });
        }
    });
    check(&handles[0], 1, 81);
}

#[test]
fn others_take_the_favour_of_a_process_back() {
    let folder = folder();
    let options = DirectoryOptions {
        patience: Duration::from_millis(50),
        ..DirectoryOptions::default()
    };
    let (one, other) = (
        opened(folder.path(), &options),
        opened(folder.path(), &options),
    );
    let favoured = || shared_page(&folder).words()[18].load(Ordering::SeqCst);
    append(&one, 60);
    assert_eq!(favoured(), 0);
    append(&one, 40);
    let first = favoured();
    assert_ne!(first, 0);
    append(&other, 1);
    assert_eq!(favoured(), 0);
    append(&one, 1);
    append(&other, 100);
    assert!(![0, first].contains(&favoured()));
    append(&one, 1);
    append(&other, 1);
    append(&one, 100);
    assert_eq!(favoured(), first);
    check(&other, 1, 305);
    // The favoured process is stopped within an append.
    let busy = &shared_page(&folder);
    busy.words()[19].store(1, Ordering::SeqCst);
    let why = other.append(305, b"x").expect_err("it waits");
    assert!(matches!(why, LogError::Unavailable(_)), "{why}");
    // It continues, and others go on.
    append(&one, 1);
    append(&other, 1);
    // It has ended within an append.
    drop(one);
    busy.words()[19].store(1, Ordering::SeqCst);
    busy.words()[CHECK_WORD].store(0, Ordering::SeqCst);
    append(&other, 1);
    check(&other, 1, 308);
}

/// Power is lost at every change of the disk, with the page as it was then, or as it was earlier, or without it.
#[test]
fn a_loss_of_power_loses_no_synced_record_and_keeps_no_half_one() {
    let run = |disk: &SimDisk, folder: &Path| {
        // What is durable, and what was appended.
        let (mut durable, mut end, mut first) = (1, 1, 1);
        let options = DirectoryOptions {
            segment_bytes: 700,
            disk: Arc::new(disk.clone()),
            ..DirectoryOptions::default()
        };
        let mut work = || -> Result<(), LogError> {
            let log = DirectoryLog::open(folder, &options)?;
            while end < 16 {
                match log.append(end, &record(end))? {
                    Append::Appended => end += 1,
                    Append::Unknown(_) => return Ok(()),
                    Append::Taken => panic!("no other process appends"),
                }
                if end % 3 == 0 {
                    log.sync(end)?;
                    durable = end;
                }
                if end % 7 == 0 {
                    // The checkpoint of the records before is durable elsewhere.
                    log.sync(end - 2)?;
                    durable = durable.max(end - 2);
                    log.trim(end - 2)?;
                    first = end - 2;
                }
            }
            Ok(())
        };
        let outcome = work();
        (outcome, durable, end, first)
    };
    let disk = SimDisk::new();
    let whole = folder();
    let (outcome, ..) = run(&disk, whole.path());
    outcome.expect("no loss");
    let changes = disk.changes();
    assert!(changes > 50, "{changes}");
    for cut in 0..changes {
        for (seed, loss) in Loss::ALL.into_iter().enumerate() {
            let folder = folder();
            let disk = SimDisk::new();
            disk.cut_power_at(cut, loss, cut * 31 + seed as u64);
            let (_, durable, end, first) = run(&disk, folder.path());
            disk.restart();
            if seed == 1 {
                let local = disk.local_folder(folder.path()).expect("a folder");
                fs::write(local.join("page"), []).expect("written");
            }
            let options = DirectoryOptions {
                segment_bytes: 700,
                disk: Arc::new(disk.clone()),
                ..DirectoryOptions::default()
            };
            let log = opened(folder.path(), &options);
            let found = log.end().expect("an end");
            // An append or a trim that was interrupted may have taken effect.
            assert!(
                (durable..=end + 1).contains(&found),
                "{cut}: {durable} {found} {end}"
            );
            let found_first = log.first().expect("a position");
            assert!(
                found_first >= first && found_first <= found,
                "{cut}: {first} {found_first}"
            );
            append(&log, 3);
            check(&log, found_first, found + 3);
            drop(log);
            check(&opened(folder.path(), &options), found_first, found + 3);
        }
    }
}

/// All waiting syncs of all handles share those of the disk.
/// A sync looks at the page without a lock, while another process stores the place behind its record.
#[test]
fn a_sync_beside_an_append_remembers_no_mixed_place() {
    let folder = folder();
    let (one, other) = (open(&folder), open(&folder));
    append(&one, 3);
    let page = shared_page(&folder);
    let before = load(&page, END_WORD);
    append(&other, 1);
    let (check_word, end) = (load(&page, CHECK_WORD), load(&page, END_WORD));
    // As in the middle of that: the end is stored last.
    page.words()[CHECK_WORD].store(0, Ordering::SeqCst);
    page.words()[END_WORD].store(before, Ordering::SeqCst);
    assert_eq!(one.sync(4), Ok(()));
    page.words()[END_WORD].store(end, Ordering::SeqCst);
    page.words()[CHECK_WORD].store(check_word, Ordering::SeqCst);
    check(&one, 1, 5);
    assert_eq!(one.read(4, 1), Ok(vec![record(4)]));
    append(&other, 1);
    assert_eq!(one.sync(6), Ok(()));
    drop((one, other));
    check(&open(&folder), 1, 6);
}

fn load(page: &SharedPage, word: usize) -> u64 {
    page.words()[word].load(Ordering::SeqCst)
}

#[test]
fn waiting_syncs_are_shared() {
    let folder = folder();
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    let disk = FaultyDisk::new(
        Arc::new(RealDisk),
        Arc::new(move |call, path: &Path| {
            if call == Call::Sync && path.extension().is_some_and(|ending| ending == "log") {
                counted.fetch_add(1, Ordering::Relaxed);
                // A disk with the sync latency of a good SSD.
                thread::sleep(Duration::from_millis(2));
            }
            Ok(())
        }),
    );
    let options = DirectoryOptions {
        disk: Arc::new(disk),
        ..DirectoryOptions::default()
    };
    let logs = [(); 4].map(|()| opened(folder.path(), &options));
    let before = syncs.load(Ordering::Relaxed);
    let own_before: u64 = logs.iter().map(|log| log.syncs()).sum();
    let done = Mutex::new(0);
    thread::scope(|scope| {
        for log in &logs {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        loop {
                            let at = log.end().expect("an end");
                            if log.append(at, b"x") == Ok(Append::Appended) {
                                log.sync(at + 1).expect("synced");
                                break;
                            }
                        }
                        *done.lock().expect("no panic") += 1;
                    }
                });
            }
        }
    });
    let syncs = syncs.load(Ordering::Relaxed) - before;
    let own: u64 = logs.iter().map(|log| log.syncs()).sum();
    assert_eq!(own - own_before, syncs, "each handle counts its own");
    assert_eq!(*done.lock().expect("no panic"), 160);
    assert_eq!(logs[0].end(), Ok(161));
    assert!(syncs < 100, "{syncs} syncs for 160 records");
    let synced = shared_page(&folder).words()[SYNCED_WORD].load(Ordering::SeqCst);
    assert_eq!(synced, 161);
}
