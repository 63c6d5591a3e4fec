//! Several processes on one log in a directory. They are killed and stopped at random moments, and within their calls;
//! afterwards the log is whole: every record that was acknowledged is in it where it was acknowledged, and once.
//!
//! A process that only reads follows them and finds the same.
//!
//! `ISOMER_KILLS` sets how many processes are killed in each run, `ISOMER_TEST_SEED` the moments: `cargo xtask
//! soak-shared`.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_shared_log::{
    Append, Blobs, Created, DirectoryBlobs, DirectoryLog, DirectoryMode, DirectoryOptions,
    LogError, Position, Replaced, SharedLog,
};
use isomer_vfs::{Call, Disk as _, FaultyDisk, OpenMode, RealDisk};

const FOLDER: &str = "ISOMER_TEST_FOLDER";
const WRITER: &str = "ISOMER_TEST_WRITER";
/// What a survivor waits at most for its commit.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// How long a process is stopped at most: it may have the append lock.
const LONGEST_STOP_MS: u64 = 300;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

fn number(variable: &str, otherwise: u64) -> u64 {
    let text = env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// The record that a writer appends as its `count`th.
fn record(writer: u64, count: u64) -> Vec<u8> {
    let mut random = Random(writer << 32 | count);
    // Some are larger than a page of memory, and may be cut when the process is killed.
    let length = match random.below(8) {
        0 => random.below(100_000),
        _ => random.below(300),
    };
    let mut bytes = [writer.to_le_bytes(), count.to_le_bytes()].concat();
    bytes.extend((0..length).map(|_| random.next() as u8));
    bytes
}

/// Writer and count of a record.
fn author(record: &[u8]) -> (u64, u64) {
    let word = |at: usize| {
        let bytes = record[at..at + 8].try_into();
        u64::from_le_bytes(bytes.expect("8 bytes"))
    };
    (word(0), word(8))
}

fn options(disk: Arc<dyn isomer_vfs::Disk>) -> DirectoryOptions {
    DirectoryOptions {
        segment_bytes: 2 << 20,
        disk,
        ..DirectoryOptions::default()
    }
}

/// Appends a record; returns its position.
fn append(log: &DirectoryLog, record: &[u8]) -> Result<Position, LogError> {
    loop {
        let at = log.end()?;
        match log.append(at, record)? {
            Append::Appended => return Ok(at),
            Append::Taken => {}
            Append::Unknown(why) => panic!("{why}"),
        }
    }
}

/// Appends a record and makes it durable; returns its position.
fn commit(log: &DirectoryLog, record: &[u8]) -> Result<Position, LogError> {
    let at = append(log, record)?;
    log.sync(at + 1)?;
    Ok(at)
}

/// Uses the words of shared memory that are there for users of the log.
fn publish(log: &DirectoryLog, at: Position) {
    log.note_applied(at + 1);
    let before = log.manifest_number();
    log.raise_manifest_number(at).expect("it fits");
    let after = log.manifest_number();
    assert!(after >= at.max(before), "{before} {at} {after}");
}

/// Ends this process as `kill -9` does.
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
    let writer = number(WRITER, 0);
    let mut random = Random(writer);
    // Every second one dies by itself.
    let calls_left = AtomicU64::new(match writer % 2 {
        0 => u64::MAX,
        _ => 20 + random.below(3000),
    });
    let dies = move |_: Call, _: &Path| {
        if calls_left.fetch_sub(1, Ordering::Relaxed) == 1 {
            kill_self();
        }
        Ok(())
    };
    let dies = Arc::new(dies);
    let disk = FaultyDisk::new(Arc::new(RealDisk), dies.clone()).and_behind(dies);
    let own = DirectoryOptions {
        kind: format!("writer {writer}"),
        ..options(Arc::new(disk))
    };
    let log = DirectoryLog::open(&folder.join("log"), &own).expect("it opens");
    let acknowledged = folder.join(format!("writer-{writer}"));
    let mut acknowledged = fs::File::create(acknowledged).expect("a file");
    let mut counts = 0..;
    loop {
        // Now and then a writer appends enough records without a sync to become the favoured one.
        let records = match random.below(20) {
            0 => 200,
            _ => 1,
        };
        let appended = counts.by_ref().take(records).map(|count| {
            let at = append(&log, &record(writer, count))?;
            Ok((at, count))
        });
        let appended: Result<Vec<_>, LogError> = appended.collect();
        let synced = appended.and_then(|appended| {
            let end = appended.last().map_or(1, |(at, _)| at + 1);
            log.sync(end).map(|()| appended)
        });
        match synced {
            Ok(appended) => {
                for (at, count) in appended {
                    writeln!(acknowledged, "{at} {count}").expect("written");
                    publish(&log, at);
                }
            }
            // Another process has been stopped for long.
            Err(LogError::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
        if random.below(50) == 0 {
            // The others write while this one does not.
            thread::sleep(Duration::from_millis(random.below(20)));
        }
    }
}

/// Starts a test of this program in another process.
fn start(test: &str, folder: &Path, writer: u64) -> Child {
    let program = env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env(WRITER, writer.to_string())
        .stdout(Stdio::null());
    command.spawn().expect("a process")
}

fn signal(child: &Child, name: &str) {
    let mut command = Command::new("kill");
    command.args([name, &child.id().to_string()]);
    // It may have ended.
    let _ = command.stderr(Stdio::null()).status();
}

/// Runs `count` writers until `kills` of them were killed, while a survivor commits. Returns the longest wait of the
/// survivor.
fn run(folder: &Path, count: usize, kills: u64, random: &mut Random) -> Duration {
    let log = DirectoryLog::open(&folder.join("log"), &options(Arc::new(RealDisk)));
    let log = log.expect("it opens");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| follow(&folder.join("log"), &is_done));
        let survivor = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            let mut acknowledged = fs::File::create(folder.join("writer-0")).expect("a file");
            for count in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                let began = Instant::now();
                let at = commit(&log, &record(0, count)).expect("a survivor commits");
                longest = longest.max(began.elapsed());
                writeln!(acknowledged, "{at} {count}").expect("written");
                publish(&log, at);
                check_processes(&log, at + 1);
            }
            longest
        });
        let mut writers = 0;
        let mut next = || {
            writers += 1;
            start("write_until_killed", folder, writers)
        };
        let mut children: Vec<Child> = (0..count).map(|_| next()).collect();
        for _ in 0..kills {
            // The signal comes at a random moment.
            thread::sleep(Duration::from_millis(random.below(120)));
            let at = random.below(count as u64) as usize;
            if random.below(2) == 0 {
                signal(&children[at], "-STOP");
                // It stays stopped for a random time.
                thread::sleep(Duration::from_millis(random.below(LONGEST_STOP_MS)));
                signal(&children[at], "-CONT");
            }
            let at = random.below(count as u64) as usize;
            let _ = children[at].kill();
            for child in &mut children {
                if child.try_wait().expect("a state").is_some() {
                    *child = next();
                }
            }
            let is_running = children[at].try_wait().expect("a state").is_none();
            if is_running && random.below(2) == 0 {
                // The next one starts before this one has ended.
                let _ = children[at].kill();
                let mut before = std::mem::replace(&mut children[at], next());
                let _ = before.wait();
            }
        }
        for child in &mut children {
            let _ = child.kill();
            let _ = child.wait();
        }
        is_done.store(true, Ordering::Relaxed);
        let followed = reader.join().expect("no panic");
        let longest = survivor.join().expect("no panic");
        assert!(followed > 1 && followed <= log.end().expect("an end"));
        longest
    })
}

/// The list of processes has this one, which has applied the records below `applied`, and no writer twice.
fn check_processes(log: &DirectoryLog, applied: Position) {
    let all = log.processes();
    let own = all.iter().find(|process| process.kind == "library");
    assert_eq!(own.map(|own| own.applied), Some(applied), "{all:?}");
    let numbers: BTreeSet<u32> = all.iter().map(|process| process.id.pid).collect();
    assert_eq!(numbers.len(), all.len(), "{all:?}");
}

/// Reads all records as a process that writes nothing, until the others are done; returns the position after the last.
fn follow(log: &Path, is_done: &AtomicBool) -> Position {
    let options = DirectoryOptions {
        mode: DirectoryMode::ReadOnly,
        ..DirectoryOptions::default()
    };
    let log = DirectoryLog::open(log, &options).expect("it opens");
    let mut next = 1;
    while !is_done.load(Ordering::Relaxed) {
        let end = log.wait(next, Duration::from_millis(50)).expect("an end");
        assert!(end >= next, "{end} {next}");
        for bytes in log.read(next, 1 << 20).expect("the chain is whole") {
            let (writer, count) = author(&bytes);
            let is_same = bytes == record(writer, count);
            assert!(is_same, "the record {next} is another one");
            next += 1;
        }
    }
    next
}

/// Compares the log with what was acknowledged.
fn check(folder: &Path) -> usize {
    let log = DirectoryLog::open(&folder.join("log"), &options(Arc::new(RealDisk)));
    let log = log.expect("it opens");
    let end = log.end().expect("an end");
    let mut found = BTreeMap::new();
    let mut authors = BTreeSet::new();
    let mut at = 1;
    while at < end {
        for bytes in log.read(at, 1 << 20).expect("the chain is whole") {
            let (writer, count) = author(&bytes);
            assert!(
                bytes == record(writer, count),
                "the record {at} is another one"
            );
            assert!(
                authors.insert((writer, count)),
                "{writer} {count} is there twice"
            );
            found.insert(at, (writer, count));
            at += 1;
        }
    }
    let mut acknowledged = 0;
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
        for line in complete.lines() {
            let (at, count) = line.split_once(' ').expect("two numbers");
            let at: Position = at.parse().expect("a number");
            let count = count.parse().expect("a number");
            assert_eq!(found.get(&at), Some(&(writer, count)), "lost: {at}");
            acknowledged += 1;
        }
    }
    acknowledged
}

fn kill_and_stop(processes: usize, kills: u64) {
    let kills = number("ISOMER_KILLS", kills);
    let seed = number("ISOMER_TEST_SEED", 1);
    let folder = tempfile::tempdir().expect("a folder");
    let longest = run(folder.path(), processes, kills, &mut Random(seed));
    let acknowledged = check(folder.path());
    eprintln!(
        "{processes} processes, {kills} rounds of kills: {acknowledged} acknowledged, the longest wait {longest:?}"
    );
    assert!(acknowledged > 20, "{acknowledged}");
    assert!(longest <= LONGEST_WAIT, "a survivor waited {longest:?}");
}

#[test]
fn two_processes_are_killed_and_lose_nothing() {
    kill_and_stop(2, 20);
}

#[test]
fn eight_processes_are_killed_and_lose_nothing() {
    kill_and_stop(8, 25);
}

/// System calls of this process that wrote, so far; `None` where the system does not say it.
fn write_calls() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("syscw: "))?;
    line.parse().ok()
}

/// Appends without a sync, and prints how many records and how many calls that wrote.
#[test]
#[ignore = "started by another test"]
fn append_alone() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let log = DirectoryLog::open(&folder, &DirectoryOptions::default()).expect("it opens");
    let record = [7; 200];
    // Until this process is the favoured one.
    for _ in 0..100 {
        append(&log, &record).expect("appended");
    }
    let before = write_calls();
    for _ in 0..RECORDS_ALONE {
        append(&log, &record).expect("appended");
    }
    if let Some((before, after)) = before.zip(write_calls()) {
        let calls = after - before;
        fs::write(folder.join("calls"), calls.to_string()).expect("written");
    }
}

const RECORDS_ALONE: u64 = 10_000;

/// A process that is alone copies its records into the file, and makes it longer now and then.
#[test]
fn a_process_alone_appends_without_a_system_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let probe = folder.path().join("probe");
    let file = RealDisk.open(&probe, OpenMode::Create).expect("a file");
    file.write_all_at(&[0; 100], 0).expect("written");
    if file.map(0, 100).expect("no error").is_none() {
        eprintln!("skipped: files of this file system are not mapped");
        return;
    }
    let log = folder.path().join("log");
    let status = start("append_alone", &log, 1).wait().expect("it ends");
    assert!(status.success(), "{status}");
    let Ok(calls) = fs::read_to_string(log.join("calls")) else {
        eprintln!("skipped: the system does not count calls");
        return;
    };
    let calls: u64 = calls.parse().expect("a number");
    // Zeros ahead of 2.5 MB, page by page.
    let most = RECORDS_ALONE / 10;
    assert!(calls <= most, "{calls} calls for {RECORDS_ALONE} records");
    let log = DirectoryLog::open(&log, &DirectoryOptions::default()).expect("it opens");
    assert_eq!(log.end(), Ok(RECORDS_ALONE + 101));
}

/// Counts in an object until it is killed.
#[test]
#[ignore = "started by another test"]
fn count_until_killed() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let writer = number(WRITER, 0);
    let blobs = DirectoryBlobs::open(&folder.join("objects")).expect("it opens");
    let acknowledged = folder.join(format!("writer-{writer}"));
    let mut acknowledged = fs::File::create(acknowledged).expect("a file");
    loop {
        let (content, tag) = blobs.get("counter").expect("an answer").expect("it exists");
        let text = String::from_utf8(content).expect("text");
        let next = text.parse::<u64>().expect("a number") + 1;
        match blobs.replace("counter", &tag, next.to_string().as_bytes()) {
            Ok(Replaced::Replaced(_)) => writeln!(acknowledged, "{next}").expect("written"),
            Ok(Replaced::Changed) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Each number is acknowledged to one process at most, and none is lost.
#[test]
fn processes_that_replace_an_object_lose_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let objects = folder.path().join("objects");
    let blobs = DirectoryBlobs::open(&objects).expect("it opens");
    let created = blobs.create("counter", b"0");
    assert!(matches!(created, Ok(Created::Created(_))), "{created:?}");
    let mut random = Random(number("ISOMER_TEST_SEED", 1));
    let mut writers = 0..;
    let mut next = || {
        start(
            "count_until_killed",
            folder.path(),
            writers.next().expect("endless"),
        )
    };
    let mut children: Vec<Child> = (0..4).map(|_| next()).collect();
    for _ in 0..number("ISOMER_KILLS", 10) {
        // The kill comes at a random moment.
        thread::sleep(Duration::from_millis(random.below(200)));
        let at = random.below(4) as usize;
        let _ = children[at].kill();
        let _ = children[at].wait();
        children[at] = next();
    }
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    let (content, _) = blobs.get("counter").expect("an answer").expect("it exists");
    let last: u64 = String::from_utf8(content)
        .expect("text")
        .parse()
        .expect("a number");
    let mut all = BTreeSet::new();
    for entry in fs::read_dir(folder.path()).expect("names") {
        let path = entry.expect("a name").path();
        if !path.is_file() {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a file");
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        for number in complete.lines() {
            let number: u64 = number.parse().expect("a number");
            assert!(number <= last, "{number} is lost: the counter is {last}");
            assert!(all.insert(number), "{number} was acknowledged twice");
        }
    }
    eprintln!("counted to {last}, of which {} acknowledged", all.len());
    assert!(last > 4 && all.len() as u64 <= last);
    // What killed processes left is removed when the objects are opened again.
    drop(blobs);
    DirectoryBlobs::open(&objects).expect("it opens");
    let names = fs::read_dir(&objects).expect("names");
    let left = names.filter(|entry| {
        let name = entry.as_ref().expect("a name").file_name();
        name.to_string_lossy().starts_with('#')
    });
    assert_eq!(left.count(), 0);
}
