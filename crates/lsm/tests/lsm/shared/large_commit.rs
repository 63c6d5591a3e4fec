//! A commit of many megabytes while another process commits small ones all the time: both get through, and the end of
//! the process with the large one, at any moment, delays the other one for a moment only.
//!
//! `ISOMER_LARGE_COMMIT_MIB` sets its size. The latencies are printed.

use std::{
    env, fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, Granule, GuardMode};

use super::{
    assert_sound, open,
    processes::{FOLDER, process_of, wait_for},
};

const VALUE_BYTES: usize = 1 << 10;
/// The small writer commits that often.
const PAUSE: Duration = Duration::from_millis(1);
/// What the large commit takes at most, also in a debug build on a busy machine. Without a reservation it never ends.
const LONGEST: Duration = Duration::from_secs(60);
/// What a small commit waits at most: for a reservation, and for applying the large commit.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

fn options() -> LsmOptions {
    LsmOptions {
        sharing: LogSharing::Shared,
        // Room for the large commit without a flush.
        memtable_bytes: 128 << 20,
        ..LsmOptions::default()
    }
}

/// Commits pairs of `bytes` bytes together, as the part `part` of the keys.
fn commit_large(engine: &LsmEngine, part: u64, bytes: usize) -> Duration {
    let mut transaction = engine.begin().expect("begins");
    for number in 0..pairs_of(bytes) {
        let key = [part.to_be_bytes(), number.to_be_bytes()].concat();
        let granule = u128::from(part + 1) << 64 | u128::from(number);
        transaction.guard(Granule(granule), GuardMode::Write);
        let value = [number as u8; VALUE_BYTES];
        transaction.put(&key, &value).expect("fits");
    }
    let began = Instant::now();
    transaction.commit(Durability::Synced).expect("committed");
    began.elapsed()
}

/// Pairs that take `bytes` bytes in the log.
fn pairs_of(bytes: usize) -> u64 {
    (bytes / (VALUE_BYTES + 24)) as u64
}

fn commit_small(engine: &LsmEngine, number: u64) {
    let mut transaction = engine.begin().expect("begins");
    let key = [b"small".as_slice(), &number.to_be_bytes()].concat();
    transaction.guard(Granule(u128::from(number)), GuardMode::Write);
    transaction.put(&key, b"value").expect("fits");
    transaction.commit(Durability::Buffered).expect("committed");
}

/// Commits small transactions until its input ends; then it writes what each took into the file `waits`.
#[test]
#[ignore = "started by another test"]
fn commit_small_until_input_ends() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let engine = open(&folder.join("db"), &options());
    let is_done = AtomicBool::new(false);
    let waits = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut waits = Vec::new();
            while !is_done.load(Ordering::Relaxed) {
                let began = Instant::now();
                commit_small(&engine, waits.len() as u64);
                waits.push(began.elapsed());
                if waits.len() == 50 {
                    fs::write(folder.join("ready"), []).expect("written");
                }
                // The load of the test: a commit each millisecond.
                thread::sleep(PAUSE);
            }
            waits
        });
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        is_done.store(true, Ordering::Relaxed);
        writer.join().expect("no panic")
    });
    let lines = waits.iter().map(|wait| format!("{}\n", wait.as_micros()));
    fs::write(folder.join("waits"), lines.collect::<String>()).expect("written");
}

fn waits(folder: &Path) -> Vec<Duration> {
    let text = fs::read_to_string(folder.join("waits")).expect("a file");
    let waits = text
        .lines()
        .map(|line| Duration::from_micros(line.parse().expect("a number")));
    let mut waits: Vec<_> = waits.collect();
    waits.sort();
    waits
}

#[test]
fn a_large_commit_gets_through_beside_a_constant_writer() {
    let megabytes = env::var("ISOMER_LARGE_COMMIT_MIB").ok();
    let megabytes: usize = megabytes.map_or(32, |text| text.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let engine = open(&folder.join("db"), &options());
    let mut command = process_of(module_path!(), "commit_small_until_input_ends", folder);
    let mut writer = command.stdin(Stdio::piped()).spawn().expect("a process");
    wait_for("the writer begins", || folder.join("ready").exists());
    let took = [0, 1].map(|part| commit_large(&engine, part, megabytes << 20));
    drop(writer.stdin.take());
    assert!(writer.wait().expect("it ends").success());
    let waits = waits(folder);
    let at = |part: usize| waits[(waits.len() - 1) * part / 100];
    let (median, late, longest) = (at(50), at(99), at(100));
    eprintln!(
        "commits of {megabytes} MiB took {took:?}; concurrently {} small ones took {median:?}, at most {late:?} (99 %) \
         and {longest:?}",
        waits.len()
    );
    assert!(took.iter().all(|took| *took <= LONGEST), "{took:?}");
    assert!(longest <= LONGEST_WAIT, "{longest:?}");
    assert!(waits.len() > 50, "they went on");
    assert_sound(&engine);
}

const FIRST_PART: &str = "ISOMER_TEST_FIRST_PART";
/// Parts of the keys that each process has.
const PARTS: u64 = 1 << 20;
const KILLED_BYTES: usize = 2 << 20;
const KILLS: u64 = 6;
/// What a small commit waits at most while processes with large ones are killed, in a debug build on a busy machine.
const LONGEST_WAIT_FOR_KILLED: Duration = Duration::from_secs(4);

/// Commits large transactions until it is killed. Their keys begin with numbers from that of the writer on.
#[test]
#[ignore = "started by another test"]
fn commit_large_until_killed() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let first = env::var(FIRST_PART).expect("the first part");
    let first: u64 = first.parse().expect("a number");
    let engine = open(&folder.join("db"), &options());
    for part in first.. {
        commit_large(&engine, part, KILLED_BYTES);
        fs::write(folder.join("ready"), []).expect("written");
    }
}

#[test]
fn a_process_that_is_killed_in_a_large_commit_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let engine = open(&folder.join("db"), &options());
    let (mut longest, mut number) = (Duration::ZERO, 0);
    let mut commit_for = |time: Duration| {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let began = Instant::now();
            commit_small(&engine, number);
            longest = longest.max(began.elapsed());
            number += 1;
            // The load of the test: a commit each millisecond.
            thread::sleep(PAUSE);
        }
    };
    for kill in 0..KILLS {
        let _ = fs::remove_file(folder.join("ready"));
        let mut command = process_of(module_path!(), "commit_large_until_killed", folder);
        command.env(FIRST_PART, (kill * PARTS).to_string());
        let mut child = command.spawn().expect("a process");
        wait_for("the first large commit", || {
            commit_for(Duration::from_millis(20));
            folder.join("ready").exists()
        });
        commit_for(Duration::from_millis(40 + 37 * kill));
        child.kill().expect("killed");
        child.wait().expect("it ends");
        commit_for(Duration::from_millis(50));
    }
    eprintln!("{number} small commits, of which the longest took {longest:?}");
    assert!(longest <= LONGEST_WAIT_FOR_KILLED, "{longest:?}");
    assert_sound(&engine);
    let snapshot = engine.snapshot().expect("a snapshot");
    let mut parts = 0;
    for kill in 0..KILLS {
        for part in kill * PARTS.. {
            let is_there = |number: u64| {
                let key = [part.to_be_bytes(), number.to_be_bytes()].concat();
                snapshot.get(&key).expect("readable").is_some()
            };
            let count = (0..pairs_of(KILLED_BYTES))
                .filter(|number| is_there(*number))
                .count();
            if count == 0 {
                break;
            }
            assert_eq!(count as u64, pairs_of(KILLED_BYTES), "part {part} is whole");
            parts += 1;
        }
    }
    assert!(parts >= KILLS, "{parts}");
}
