//! Real processes on one database, which are killed at random moments and within their calls: no acknowledged commit is
//! lost, and none is half there.
//!
//! `ISOMER_KILLS` sets how many processes are killed (a soak: 500), `ISOMER_TEST_SEED` the moments.

use std::{
    env, fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, Granule, GuardMode, StorageError, conformance::Random};
use isomer_vfs::{Call, FaultyDisk, RealDisk};

use super::{assert_sound, open, small};

pub const FOLDER: &str = "ISOMER_TEST_FOLDER";
const WRITER: &str = "ISOMER_TEST_WRITER";
const COUNTER: &[u8] = b"counter";
/// What a survivor waits at most for its commit.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

fn setting(variable: &str, otherwise: u64) -> u64 {
    let text = env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

fn key(writer: u64, count: u64) -> Vec<u8> {
    [b"w".as_slice(), &writer.to_be_bytes(), &count.to_be_bytes()].concat()
}

fn value(writer: u64, count: u64) -> Vec<u8> {
    let length = 10 + (writer * 31 + count * 977) % 700;
    vec![(writer + count) as u8; length as usize]
}

/// Commits the pair number `count` of a writer and adds to the counter of all; repeats after conflicts. Returns the
/// counter.
fn commit(engine: &LsmEngine, writer: u64, count: u64) -> Result<u64, StorageError> {
    loop {
        let mut transaction = engine.begin()?;
        transaction.guard(Granule(1), GuardMode::Write);
        let known = transaction.get(COUNTER)?;
        let known = known.map_or(0, |bytes| {
            u64::from_be_bytes(bytes.try_into().expect("eight bytes"))
        });
        transaction.put(COUNTER, &(known + 1).to_be_bytes())?;
        transaction.put(&key(writer, count), &value(writer, count))?;
        if count >= 40 {
            // A range of older pairs goes.
            let (start, end) = (key(writer, count - 40), key(writer, count - 39));
            transaction.delete_range(isomer_storage::KeyRange {
                start: &start,
                end: Some(&end),
            })?;
        }
        transaction.append_stream(&known.to_be_bytes());
        match transaction.commit(Durability::Synced) {
            Ok(_) => return Ok(known + 1),
            Err(StorageError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

fn kill_self() {
    let pid = std::process::id().to_string();
    let _ = Command::new("kill").args(["-9", &pid]).status();
    // The signal ends the process here: the call must not return.
    thread::sleep(Duration::from_secs(60));
}

/// A writer that acknowledges its commits in a file, until it is killed: by the test, or by itself within a call.
#[test]
#[ignore = "started by another test"]
fn write_until_killed() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let writer = setting(WRITER, 0);
    let mut random = Random(writer);
    // Every second one dies by itself.
    let calls_left = AtomicU64::new(match writer % 2 {
        0 => u64::MAX,
        _ => 60 + random.below(2500),
    });
    let dies = move |_: Call, _: &Path| {
        if calls_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            kill_self();
        }
        Ok(())
    };
    let dies = Arc::new(dies);
    let disk = FaultyDisk::new(Arc::new(RealDisk), dies.clone()).and_behind(dies);
    let options = LsmOptions {
        disk: Arc::new(disk),
        ..small(true)
    };
    let engine = open(&folder.join("db"), &options);
    let acknowledged = folder.join(format!("writer-{writer}"));
    let mut acknowledged = fs::File::create(acknowledged).expect("a file");
    for count in 0.. {
        let counter = commit(&engine, writer, count).expect("committed");
        writeln!(acknowledged, "{counter} {count}").expect("written");
        if random.below(60) == 0 && engine.maintains() {
            engine.flush().expect("flushed");
        }
    }
}

/// A process that runs a test of this file in `folder`.
fn test_process(test: &str, folder: &Path) -> Command {
    process_of(module_path!(), test, folder)
}

/// A process that runs an ignored test of the module with this path in `folder`.
pub fn process_of(module: &str, test: &str, folder: &Path) -> Command {
    let (_, module) = module.split_once("::").expect("a module");
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .arg(format!("{module}::{test}"))
        .args(["--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::null());
    command
}

fn start(folder: &Path, writer: u64) -> Child {
    let mut command = test_process("write_until_killed", folder);
    command.env(WRITER, writer.to_string());
    command.spawn().expect("a process")
}

/// Runs `count` writers until `kills` of them were killed, while this process commits. Returns the longest wait of a
/// commit here, and how many processes ended.
fn run(folder: &Path, count: usize, kills: u64, random: &mut Random) -> (Duration, u64) {
    let engine = open(&folder.join("db"), &small(true));
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let survivor = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            let mut acknowledged = fs::File::create(folder.join("writer-0")).expect("a file");
            for count in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                let began = Instant::now();
                let counter = commit(&engine, 0, count).expect("a survivor commits");
                longest = longest.max(began.elapsed());
                writeln!(acknowledged, "{counter} {count}").expect("written");
                // It leaves the log to the others most of the time.
                thread::sleep(Duration::from_millis(2));
            }
            longest
        });
        let (mut writers, mut ended) = (0, 0);
        let mut next = || {
            writers += 1;
            start(folder, writers)
        };
        let mut children: Vec<Child> = (0..count).map(|_| next()).collect();
        while ended < kills {
            // The kill comes at a random moment.
            thread::sleep(Duration::from_millis(20 + random.below(150)));
            let at = random.below(count as u64) as usize;
            let _ = children[at].kill();
            for child in &mut children {
                if child.try_wait().expect("a state").is_some() {
                    ended += 1;
                    *child = next();
                }
            }
        }
        for child in &mut children {
            let _ = child.kill();
            let _ = child.wait();
        }
        is_done.store(true, Ordering::Relaxed);
        (survivor.join().expect("no panic"), ended)
    })
}

/// Compares the database with what was acknowledged. Returns the number of commits that were.
fn check(folder: &Path) -> u64 {
    let engine = open(&folder.join("db"), &small(true));
    assert_sound(&engine);
    let snapshot = engine.snapshot().expect("a snapshot");
    let counter = snapshot.get(COUNTER).expect("readable").expect("it exists");
    let counter = u64::from_be_bytes(counter.try_into().expect("eight bytes"));
    assert_eq!(counter, engine.version(), "each commit adds one");
    let mut counters = std::collections::BTreeSet::new();
    for entry in fs::read_dir(folder).expect("names") {
        let path = entry.expect("a name").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("text");
        let Some(writer) = name.strip_prefix("writer-") else {
            continue;
        };
        let writer: u64 = writer.parse().expect("a number");
        let text = fs::read_to_string(&path).expect("a file");
        // The last line may be cut.
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let mut last = None;
        for line in complete.lines() {
            let (own, count) = line.split_once(' ').expect("two numbers");
            let own: u64 = own.parse().expect("a number");
            assert!(own <= counter, "{own} is lost: the counter is {counter}");
            assert!(counters.insert(own), "{own} was acknowledged twice");
            last = Some(count.parse::<u64>().expect("a number"));
        }
        // The next one may be there, too: its process was killed before it said so.
        let Some(last) = last else { continue };
        let found = snapshot.get(&key(writer, last + 1)).expect("readable");
        let from = (last + u64::from(found.is_some())).saturating_sub(39);
        for count in last.saturating_sub(60)..=last {
            let found = snapshot.get(&key(writer, count)).expect("readable");
            let expected = (count >= from).then(|| value(writer, count));
            assert_eq!(
                found, expected,
                "pair {count} of writer {writer}, of {last}"
            );
        }
    }
    counters.len() as u64
}

fn kill(processes: usize, kills: u64) {
    let kills = setting("ISOMER_KILLS", kills);
    let seed = setting("ISOMER_TEST_SEED", 1);
    let folder = tempfile::tempdir().expect("a folder");
    let (longest, ended) = run(folder.path(), processes, kills, &mut Random(seed));
    let acknowledged = check(folder.path());
    eprintln!(
        "{processes} processes, {ended} killed: {acknowledged} commits acknowledged, the longest wait {longest:?}"
    );
    assert!(acknowledged > 50, "{acknowledged}");
    assert!(longest <= LONGEST_WAIT, "a survivor waited {longest:?}");
}

#[test]
fn two_processes_are_killed_and_lose_nothing() {
    kill(2, 15);
}

#[test]
fn five_processes_are_killed_and_lose_nothing() {
    kill(5, 25);
}

/// Maintains the tables of a database until its input ends.
#[test]
#[ignore = "started by another test"]
fn maintain_until_input_ends() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let engine = open(&folder.join("db"), &small(true));
    assert!(engine.maintains());
    for count in 0..50 {
        commit(&engine, 1, count).expect("committed");
    }
    fs::write(folder.join("ready"), []).expect("written");
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

fn signal(child: &Child, signal: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.expect("the program `kill`").success(), "{signal}");
}

/// Waits for what another process does.
pub fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_done() {
        assert!(Instant::now() < until, "{what}");
        // Nothing tells this process.
        thread::sleep(Duration::from_millis(5));
    }
}

/// While the maintainer is stopped, the others commit and read, and do not take over: it would continue with what it
/// knows. When it continues, it flushes for them; when it is killed, another process takes over.
#[test]
fn a_stopped_maintainer_keeps_the_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let mut command = test_process("maintain_until_input_ends", folder);
    let mut maintainer = command.stdin(Stdio::piped()).spawn().expect("a process");
    wait_for("the maintainer begins", || folder.join("ready").exists());
    let engine = open(&folder.join("db"), &small(true));
    assert!(!engine.maintains());
    let pid = format!("process {} maintains", maintainer.id());
    let mut count = 0;
    let mut commit_some = |commits| {
        for _ in 0..commits {
            commit(&engine, 2, count).expect("committed");
            count += 1;
        }
        count
    };
    for _ in 0..3 {
        signal(&maintainer, "-STOP");
        commit_some(40);
        let refused = engine.compact().expect_err("it is done elsewhere");
        assert!(refused.to_string().contains(&pid), "{refused}");
        signal(&maintainer, "-CONT");
        engine.flush().expect("the maintainer flushes");
        assert!(!engine.maintains());
    }
    signal(&maintainer, "-STOP");
    let total = commit_some(40);
    maintainer.kill().expect("killed");
    maintainer.wait().expect("it ends");
    wait_for("it takes over", || {
        engine.follow().expect("follows");
        engine.maintains()
    });
    engine.flush().expect("flushed");
    engine.compact_all().expect("merged");
    assert_sound(&engine);
    drop(engine);
    let engine = open(&folder.join("db"), &small(true));
    assert_eq!(engine.version(), 50 + total);
    let snapshot = engine.snapshot().expect("a snapshot");
    for count in total - 39..total {
        let found = snapshot.get(&key(2, count)).expect("readable");
        assert_eq!(found, Some(value(2, count)), "pair {count} of {total}");
    }
}
