//! Measures the log in a directory: appends a second, syncs a record, how soon another process sees a record, and how
//! long opening takes.
//!
//! ```sh
//! cargo run --release -p isomer-shared-log --example processes -- [seconds of each run] [folder]
//! ```

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_shared_log::{
    Append, DirectoryLog, DirectoryMode, DirectoryOptions, LogError, Position, SharedLog,
};
use isomer_vfs::{BootTime, Call, FaultyDisk, RealDisk, Time};

type Outcome<T> = Result<T, Box<dyn Error>>;

const RECORD_BYTES: usize = 200;
const RECORDS_SEEN: usize = 500;
const OPENINGS: usize = 7;

/// What writers did.
#[derive(Clone, Copy, Default)]
struct Work {
    records: u64,
    syncs: u64,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let text = |at: usize| arguments.get(at).map(String::as_str);
    if text(0) == Some("writer") {
        let [folder, seconds, synced, threads] =
            [1, 2, 3, 4].map(|at| text(at).unwrap_or_default());
        let time = Duration::from_secs_f64(seconds.parse()?);
        let work = write(
            Path::new(folder),
            time,
            synced == "synced",
            threads.parse()?,
        )?;
        println!("{} {}", work.records, work.syncs);
        return Ok(());
    }
    if text(0) == Some("watcher") {
        return watch(Path::new(text(1).unwrap_or_default()));
    }
    let seconds = text(0).unwrap_or("3").parse()?;
    let folder = match text(1) {
        Some(folder) => PathBuf::from(folder),
        None => env::temp_dir().join(format!("isomer-shared-log-{}", std::process::id())),
    };
    let outcome = measure(&folder, seconds);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn measure(folder: &Path, seconds: f64) -> Outcome<()> {
    for synced in [false, true] {
        for (processes, threads) in [(1, 1), (1, 2), (2, 1), (1, 8), (8, 1)] {
            let own = folder.join(format!("log-{synced}-{processes}-{threads}"));
            let work = run(&own, seconds, processes, threads, synced)?;
            let per_second = work.records as f64 / seconds;
            let kind = if synced { "synced" } else { "not synced" };
            print!("{processes} processes of {threads} threads, {kind}: {per_second:.0} records/s");
            match synced {
                true => println!(
                    ", {:.2} syncs a record",
                    work.syncs as f64 / work.records as f64
                ),
                false => println!(),
            }
        }
    }
    visible(&folder.join("log-visible"))?;
    opening(&folder.join("log-opened"))?;
    calls(&folder.join("log-false-1-1"))
}

/// Runs each writer in a separate process; returns what they did together.
fn run(
    folder: &Path,
    seconds: f64,
    processes: usize,
    threads: usize,
    synced: bool,
) -> Outcome<Work> {
    drop(DirectoryLog::open(folder, &DirectoryOptions::default())?);
    let synced = if synced { "synced" } else { "not" };
    let start = |_| -> Outcome<Child> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("writer").arg(folder);
        command.args([&seconds.to_string(), synced, &threads.to_string()]);
        Ok(command.stdout(Stdio::piped()).spawn()?)
    };
    let children: Vec<Child> = (0..processes).map(start).collect::<Outcome<_>>()?;
    let mut all = Work::default();
    for child in children {
        let output = child.wait_with_output()?;
        let text = String::from_utf8(output.stdout)?;
        let (records, syncs) = text.trim().split_once(' ').ok_or("a writer failed")?;
        all.records += records.parse::<u64>()?;
        all.syncs += syncs.parse::<u64>()?;
    }
    Ok(all)
}

fn write(folder: &Path, time: Duration, synced: bool, threads: usize) -> Outcome<Work> {
    let syncs = Arc::new(AtomicU64::new(0));
    let counted = syncs.clone();
    let disk = FaultyDisk::new(
        Arc::new(RealDisk),
        Arc::new(move |call, _: &Path| {
            counted.fetch_add(u64::from(call == Call::Sync), Ordering::Relaxed);
            Ok(())
        }),
    );
    let options = DirectoryOptions {
        disk: Arc::new(disk),
        ..DirectoryOptions::default()
    };
    let log = DirectoryLog::open(folder, &options)?;
    let until = Instant::now() + time;
    let record = [7; RECORD_BYTES];
    let work = || -> Result<u64, LogError> {
        let mut records = 0;
        while Instant::now() < until {
            let at = append(&log, &record)?;
            if synced {
                log.sync(at + 1)?;
            }
            records += 1;
        }
        Ok(records)
    };
    let records = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let all = all.into_iter().map(|thread| thread.join());
        all.map(|records| records.unwrap_or(Ok(0)))
            .sum::<Result<u64, LogError>>()
    })?;
    Ok(Work {
        records,
        syncs: syncs.load(Ordering::Relaxed),
    })
}

fn append(log: &DirectoryLog, record: &[u8]) -> Result<Position, LogError> {
    loop {
        let at = log.end()?;
        if log.append(at, record)? == Append::Appended {
            return Ok(at);
        }
    }
}

/// How soon a process that waits has a record in its hands, from before its append and from when it returned.
fn visible(folder: &Path) -> Outcome<()> {
    let log = DirectoryLog::open(folder, &DirectoryOptions::default())?;
    let mut command = Command::new(env::current_exe()?);
    command.arg("watcher").arg(folder).stdout(Stdio::piped());
    let watcher = command.spawn()?;
    thread::sleep(Duration::from_millis(300));
    let mut appended = Vec::new();
    for _ in 0..RECORDS_SEEN {
        thread::sleep(Duration::from_millis(2));
        let before = BootTime.now();
        append(&log, &[7; RECORD_BYTES])?;
        appended.push((before, BootTime.now()));
    }
    let output = watcher.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    let seen: Vec<u64> = text.lines().map(str::parse).collect::<Result<_, _>>()?;
    let seen = seen.into_iter().map(Duration::from_nanos);
    let pairs: Vec<_> = seen.zip(appended).collect();
    let percentiles = |mut times: Vec<Duration>| {
        times.sort();
        let at = |part: usize| times[times.len() * part / 100];
        (at(50), at(99))
    };
    let from_begin = pairs
        .iter()
        .map(|(seen, (before, _))| seen.saturating_sub(*before));
    let from_end = pairs
        .iter()
        .map(|(seen, (_, after))| seen.saturating_sub(*after));
    let (p50, p99) = percentiles(from_begin.collect());
    println!("seen by a waiting process after the append began: p50 {p50:?}, p99 {p99:?}");
    let (p50, p99) = percentiles(from_end.collect());
    println!("seen by a waiting process after the append returned: p50 {p50:?}, p99 {p99:?}");
    Ok(())
}

fn watch(folder: &Path) -> Outcome<()> {
    let log = DirectoryLog::open(folder, &DirectoryOptions::default())?;
    let mut next = 1;
    let mut seen = Vec::new();
    while seen.len() < RECORDS_SEEN {
        log.wait(next, Duration::from_secs(10))?;
        let records = log.read(next, 1 << 20)?;
        let now = BootTime.now();
        next += records.len() as u64;
        seen.extend(records.iter().map(|_| now.as_nanos()));
    }
    for time in seen.iter().take(RECORDS_SEEN) {
        println!("{time}");
    }
    Ok(())
}

/// How long opening a log with a segment that is nearly full takes: the median of several times.
fn opening(folder: &Path) -> Outcome<()> {
    let options = DirectoryOptions::default();
    let log = DirectoryLog::open(folder, &options)?;
    let records = options.segment_bytes / 250;
    for _ in 0..records {
        append(&log, &[7; RECORD_BYTES])?;
    }
    log.sync(log.end()?)?;
    let read_only = DirectoryOptions {
        mode: DirectoryMode::ReadOnly,
        ..DirectoryOptions::default()
    };
    let open = |options: &DirectoryOptions, before: &dyn Fn() -> Outcome<()>| {
        let time = || -> Outcome<Duration> {
            before()?;
            let began = Instant::now();
            DirectoryLog::open(folder, options)?;
            Ok(began.elapsed())
        };
        let times: Outcome<Vec<Duration>> = (0..OPENINGS).map(|_| time()).collect();
        let mut times = times?;
        times.sort();
        Outcome::Ok(times[OPENINGS / 2])
    };
    let nothing = || Ok(());
    let other = open(&options, &nothing)?;
    println!("open, {records} records, while another process has it open: {other:?}");
    drop(log);
    println!("open, alone: {:?}", open(&options, &nothing)?);
    println!("open, read-only: {:?}", open(&read_only, &nothing)?);
    let forget = || Ok(std::fs::remove_file(folder.join("page"))?);
    println!("open, without its page: {:?}", open(&options, &forget)?);
    Ok(())
}

/// Calls of one process on a log that others have written.
fn calls(folder: &Path) -> Outcome<()> {
    let log = DirectoryLog::open(folder, &DirectoryOptions::default())?;
    let read_only = DirectoryOptions {
        mode: DirectoryMode::ReadOnly,
        ..DirectoryOptions::default()
    };
    let reader = DirectoryLog::open(folder, &read_only)?;
    const CALLS: u32 = 100_000;
    for (name, log) in [("end", &log), ("end, read-only", &reader)] {
        let began = Instant::now();
        for _ in 0..CALLS {
            std::hint::black_box(log.end()?);
        }
        println!("{name}: {:?}", began.elapsed() / CALLS);
    }
    let began = Instant::now();
    let (mut next, end) = (1, log.end()?);
    while next < end {
        next += log.read(next, 4 << 20)?.len() as u64;
    }
    let time = began.elapsed();
    println!("read of {} records: {time:?}", end - 1);
    Ok(())
}
