//! The benchmark `processes`: what sharing a database costs a process that is alone, and what several processes reach
//! together. The other processes are *members*: this program, started again with [`member`].

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use isomer_db::{Database, Durability, EngineKind, Sharing, internals::DatabaseInternals as _};

use crate::{
    measure::{Timed, mib, micros, peak_memory, time_each},
    random::Random,
    report::{Case, Report},
};

const NAME: &str = "processes";
const BUCKET: &str = "pairs";
/// Pairs at scale 1.
const PAIRS: f64 = 10_000_000.0;
/// Pairs of one transaction while loading.
const BATCH: u64 = 10_000;
/// Memory of each process.
const MEMORY_BYTES: usize = 256 << 20;
/// Rounds in each mode, in turns: the machine's speed changes with time.
const ROUNDS: usize = 5;
const READS: usize = 10_000;
const WRITES: usize = 200;
const BUFFERED_WRITES: usize = 2_000;
/// How long writers write together; shorter at the scale of a test.
const WRITING_TIME: Duration = Duration::from_secs(3);
const SHORT_WRITING_TIME: Duration = Duration::from_millis(300);
const TEST_SCALE: f64 = 0.005;
const LOOKS: usize = 200;
const STARTS: usize = 10;

fn key(number: u64) -> String {
    format!("pair-{number:09}")
}

fn open(path: &Path, sharing: Sharing) -> Result<Database> {
    let builder = Database::builder()
        .engine(EngineKind::Lsm)
        .memory(MEMORY_BYTES)
        .sharing(sharing)
        .process_kind("bench");
    Ok(builder.open(path)?)
}

/// Runs every case in `folder`; `command` starts this program as a member.
pub fn run(
    folder: &Path,
    scale: f64,
    command: &dyn Fn() -> Command,
    report: &mut dyn Report,
) -> Result<()> {
    let pairs = ((PAIRS * scale) as u64).max(BATCH);
    let (own, shared) = (folder.join("exclusive"), folder.join("shared"));
    for (path, sharing) in [(&own, Sharing::Exclusive), (&shared, Sharing::Shared)] {
        report.stage(&format!("loading {pairs} pairs"));
        load(path, sharing, pairs, report)?;
    }
    alone(&own, &shared, pairs, report)?;
    let time = match scale < TEST_SCALE {
        true => SHORT_WRITING_TIME,
        false => WRITING_TIME,
    };
    for count in [2, 8] {
        together(&own, &shared, count, time, command, report)?;
    }
    visible(&shared, command, report)?;
    first_read(&shared, pairs, command, report)?;
    reader_memory(&shared, pairs, command, report)
}

fn load(path: &Path, sharing: Sharing, pairs: u64, report: &mut dyn Report) -> Result<()> {
    let db = open(path, sharing)?;
    for first in (0..pairs).step_by(BATCH as usize) {
        db.transact(|tx| {
            let bucket = tx.bucket(BUCKET);
            (first..pairs.min(first + BATCH))
                .try_for_each(|number| bucket.put(key(number), number as i64))
        })?;
        report.progress(first, Some(pairs));
    }
    Ok(db.close()?)
}

/// One process, in both modes by turns: point reads, buffered and synced writes. The largest of the overheads is that
/// of the benchmark.
fn alone(own: &Path, shared: &Path, pairs: u64, report: &mut dyn Report) -> Result<()> {
    report.stage("one process, exclusive and shared");
    let modes = [(own, Sharing::Exclusive), (shared, Sharing::Shared)];
    let mut timed: [[Timed; 2]; 3] = Default::default();
    let mut random = Random::new(1);
    for _ in 0..ROUNDS {
        for (mode, (path, sharing)) in modes.iter().enumerate() {
            let db = open(path, *sharing)?;
            let numbers = (0..READS).map(|_| random.below(pairs as usize) as u64);
            let numbers: Vec<u64> = numbers.collect();
            let read = time_each(&numbers, |number| {
                let tx = db.begin_read()?;
                let found = tx.bucket(BUCKET).get(key(*number))?;
                found
                    .context("every pair that is read was loaded")
                    .map(drop)
            })?;
            let buffered = time_each(0..BUFFERED_WRITES, |number| {
                let tx = db.begin()?;
                tx.bucket("written")
                    .put(format!("buffered-{number}"), number as i64)?;
                tx.set_durability(Durability::Buffered);
                Ok(tx.commit().map(drop)?)
            })?;
            db.sync()?;
            let written = time_each(0..WRITES, |number| Ok(write(&db, "alone", number as u64)?))?;
            for (timed, new) in timed.iter_mut().zip([read, buffered, written]) {
                timed[mode].times.extend(new.times);
            }
            db.close()?;
        }
    }
    let mut largest = f64::NEG_INFINITY;
    let mut count = 0;
    for (what, timed) in ["reads", "buffered", "synced"].into_iter().zip(&timed) {
        let [exclusive, shared] = timed.each_ref().map(|timed| micros(timed.percentile(0.5)));
        report.note(&format!(
            "median {exclusive:.1} us exclusively, {shared:.1} us shared"
        ));
        let percent = (shared / exclusive - 1.0) * 100.0;
        let case = format!("alone_{what}_overhead_percent");
        report.case(Case::new(NAME, case, percent, "%", timed[1].count()));
        largest = largest.max(percent);
        count += timed[1].count();
    }
    report.case(Case::new(
        NAME,
        "alone_overhead_percent",
        largest,
        "%",
        count,
    ));
    Ok(())
}

fn write(db: &Database, who: &str, number: u64) -> isomer_db::Result<()> {
    db.transact(|tx| {
        tx.bucket("written")
            .put(format!("{who}-{number}"), number as i64)
    })
}

/// Writes synced until the time is over; returns how often.
fn write_for(db: &Database, who: &str, time: Duration) -> Result<u64> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        write(db, who, count)?;
        count += 1;
    }
    Ok(count)
}

/// What writers reached together.
#[derive(Clone, Copy, Default)]
struct Written {
    commits: u64,
    syncs: u64,
}

impl Written {
    fn commits_per_sync(self) -> f64 {
        self.commits as f64 / self.syncs.max(1) as f64
    }
}

/// Writers of one process with the database for itself, and as many processes with one each: their rates, and as a
/// share of what threads reach, the rate and the commits that share a sync.
fn together(
    own: &Path,
    shared: &Path,
    count: usize,
    time: Duration,
    command: &dyn Fn() -> Command,
    report: &mut dyn Report,
) -> Result<()> {
    report.stage(&format!("{count} writers"));
    let db = open(own, Sharing::Exclusive)?;
    let syncs = db.statistics()?.syncs;
    let commits: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|at| {
                scope.spawn({
                    let db = &db;
                    move || write_for(db, &format!("thread-{at}"), time)
                })
            })
            .collect();
        let counts = threads.into_iter().map(|thread| {
            let count = thread.join();
            count.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        counts.sum::<Result<u64>>()
    })?;
    let threads = Written {
        commits,
        syncs: db.statistics()?.syncs - syncs,
    };
    db.close()?;
    let mut members = Vec::new();
    for at in 0..count {
        let mut member = Member::start(command(), shared, &format!("process-{at}"))?;
        member.say("ready 0")?;
        member.heard()?;
        members.push(member);
    }
    for member in &mut members {
        member.say(&format!("write {}", time.as_millis()))?;
    }
    let mut processes = Written::default();
    for member in &mut members {
        let heard = member.heard()?;
        let (commits, syncs) = heard.split_once(' ').context("two numbers")?;
        processes.commits += commits.parse::<u64>()?;
        processes.syncs += syncs.parse::<u64>()?;
    }
    for member in members {
        member.end()?;
    }
    let seconds = time.as_secs_f64();
    for (who, written) in [("threads", threads), ("processes", processes)] {
        report.note(&format!(
            "{} commits, {} syncs: {:.2} commits a sync",
            written.commits,
            written.syncs,
            written.commits_per_sync()
        ));
        let case = format!("{who}_{count}_synced_writes_per_s");
        let rate = written.commits as f64 / seconds;
        report.case(Case::new(NAME, case, rate, "writes/s", written.commits));
    }
    for (case, share) in [
        ("rate", processes.commits as f64 / threads.commits as f64),
        (
            "syncs",
            processes.commits_per_sync() / threads.commits_per_sync(),
        ),
    ] {
        let case = format!("processes_{count}_{case}_share");
        report.case(Case::new(
            NAME,
            case,
            share,
            "of threads",
            processes.commits,
        ));
    }
    Ok(())
}

/// How long after another process's commit has returned this one has read it.
fn visible(shared: &Path, command: &dyn Fn() -> Command, report: &mut dyn Report) -> Result<()> {
    report.stage("commits of another process");
    let db = open(shared, Sharing::Shared)?;
    let mut member = Member::start(command(), shared, "seen")?;
    let mut seen = Timed::default();
    for number in 0..LOOKS {
        member.say(&format!("once {number}"))?;
        member.heard()?;
        let began = Instant::now();
        let key = format!("seen-{number}");
        while db.begin_read()?.bucket("written").get(&key)?.is_none() {}
        seen.times.push(began.elapsed());
    }
    member.end()?;
    db.close()?;
    let last = micros(seen.percentile(0.99));
    report.note(&format!("99th percentile {last:.1} us"));
    let median = micros(seen.percentile(0.5));
    report.case(Case::new(
        NAME,
        "visible_after_us",
        median,
        "us",
        seen.count(),
    ));
    Ok(())
}

/// How long a new process takes until it has read a pair, while this one has the database open: with the commits of the
/// measurements before in the log only, which each process replays, and then with all of them in tables.
fn first_read(
    shared: &Path,
    pairs: u64,
    command: &dyn Fn() -> Command,
    report: &mut dyn Report,
) -> Result<()> {
    report.stage("first reads of new processes");
    let db = open(shared, Sharing::Shared)?;
    for case in ["first_read_with_replay_ms", "first_read_ms"] {
        if case == "first_read_ms" {
            db.store()?.engine().wait_for_background_work()?;
        }
        let mut first = Timed::default();
        for at in 0..STARTS {
            let began = Instant::now();
            let mut member = Member::start(command(), shared, "first")?;
            member.say(&format!("read {}", at as u64 * 7919 % pairs))?;
            member.heard()?;
            first.times.push(began.elapsed());
            member.end()?;
        }
        let median = first.percentile(0.5).as_secs_f64() * 1000.0;
        report.note("from the start of the process");
        report.case(Case::new(NAME, case, median, "ms", first.count()));
    }
    Ok(db.close()?)
}

/// The peak of the memory of a process that only reads, beyond its cache, while this one writes: it applies the commits
/// that are not in tables.
fn reader_memory(
    shared: &Path,
    pairs: u64,
    command: &dyn Fn() -> Command,
    report: &mut dyn Report,
) -> Result<()> {
    report.stage("memory of a process that reads");
    let db = open(shared, Sharing::Shared)?;
    let mut member = Member::start(command(), shared, "reader")?;
    for round in 0..ROUNDS {
        for number in 0..BUFFERED_WRITES {
            let tx = db.begin()?;
            let key = format!("reader-{round}-{number}");
            tx.bucket("written").put(key, number as i64)?;
            tx.set_durability(Durability::Buffered);
            tx.commit()?;
        }
        member.say(&format!("reads {pairs}"))?;
        member.heard()?;
    }
    member.say("memory 0")?;
    let heard = member.heard()?;
    let (peak, cache) = heard.split_once(' ').context("two numbers")?;
    let (peak, cache): (u64, u64) = (peak.parse()?, cache.parse()?);
    member.end()?;
    db.close()?;
    report.note(&format!("{:.1} MiB of cache", mib(cache)));
    let beyond = mib(peak.saturating_sub(cache));
    report.case(Case::new(NAME, "reader_memory_mib", beyond, "MiB", 1));
    Ok(())
}

/// Another process that has the database open.
struct Member {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Member {
    /// Starts it; returns when it has the database open.
    fn start(mut command: Command, path: &Path, who: &str) -> Result<Self> {
        let mut child = command
            .env(PATH, path)
            .env(WHO, who)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("a pipe")?;
        let answers = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut member = Self {
            child,
            orders,
            answers,
        };
        member.heard()?;
        Ok(member)
    }

    fn say(&mut self, order: &str) -> Result<()> {
        Ok(writeln!(self.orders, "{order}")?)
    }

    fn heard(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("a process of the benchmark ended: {}", self.child.wait()?);
        }
        Ok(line.trim_end().to_owned())
    }

    fn end(mut self) -> Result<()> {
        drop(self.orders);
        let status = self.child.wait()?;
        if !status.success() {
            bail!("a process of the benchmark failed: {status}");
        }
        Ok(())
    }
}

const PATH: &str = "ISOMER_BENCH_DATABASE";
const WHO: &str = "ISOMER_BENCH_WRITER";

/// Acts as a member: does what it reads from `orders`, one order per line, and answers each with a line, until there
/// are no more.
pub fn member(orders: &mut dyn BufRead, answers: &mut dyn Write) -> Result<()> {
    let path = std::env::var_os(PATH).with_context(|| format!("{PATH} is not set"))?;
    let who = std::env::var(WHO).with_context(|| format!("{WHO} is not set"))?;
    let db = open(Path::new(&path), Sharing::Shared)?;
    writeln!(answers, "open")?;
    answers.flush()?;
    let mut syncs = 0;
    for order in orders.lines() {
        let order = order?;
        let (what, number) = order.split_once(' ').context("an order has a number")?;
        let number: u64 = number.parse()?;
        let answer = match what {
            // Apart from the others: it may count all pairs.
            "ready" => {
                syncs = db.statistics()?.syncs;
                number.to_string()
            }
            "write" => {
                let commits = write_for(&db, &who, Duration::from_millis(number))?;
                format!("{commits} {}", db.statistics()?.syncs - syncs)
            }
            "once" => {
                write(&db, &who, number)?;
                number.to_string()
            }
            "read" => {
                let found = db.begin_read()?.bucket(BUCKET).get(key(number))?;
                found.context("every pair that is read was loaded")?;
                number.to_string()
            }
            "reads" => {
                let mut random = Random::new(3);
                for _ in 0..READS {
                    let key = key(random.below(number as usize) as u64);
                    let found = db.begin_read()?.bucket(BUCKET).get(key)?;
                    found.context("every pair that is read was loaded")?;
                }
                number.to_string()
            }
            "memory" => {
                let peak = peak_memory().context("the peak of the memory is not reported here")?;
                let statistics = db.store()?.engine().statistics()?;
                let cache = ["cache_bytes", "pinned_bytes"].map(|name| {
                    let detail = statistics.details.iter().find(|(known, _)| known == name);
                    detail.and_then(|(_, value)| value.parse::<u64>().ok())
                });
                let cache = cache.into_iter().sum::<Option<u64>>();
                format!("{peak} {}", cache.context("the cache is not reported")?)
            }
            _ => bail!("unknown order `{order}`"),
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(db.close()?)
}
