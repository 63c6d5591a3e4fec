//! The workload, for any store: `bench-peers` compiles this file for the others.

use std::{
    collections::BTreeMap,
    hint::black_box,
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use super::pairs::{Pair, pair};
use crate::{
    measure::{disk_bytes, free_bytes, mib, millis, peak_memory, reset_peak_memory},
    random::Random,
    report::{Case, Report},
};

/// Pairs per transaction.
pub const BATCH: u64 = 100;
/// Bytes per pair, as the application counts them.
const PAIR_BYTES: u64 = 72;
/// The disk is never filled beyond this.
const MIN_FREE_BYTES: u64 = 1 << 30;

/// An open store, shared by threads.
pub trait Subject: Sync {
    /// Puts all pairs in one transaction; durable when it returns if `synced`.
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()>;
    /// The read handle of one thread.
    fn reader(&self) -> Result<Box<dyn Reader + '_>>;
    /// Waits until background work is done: everything flushed, all pending compactions finished.
    fn finish_background_work(&self) -> Result<()>;
    /// Compacts the files as much as this store can, and truncates logs.
    fn compact(&self) -> Result<()>;
}

/// Receives a pair; its error ends a scan.
pub type Visit<'v> = dyn FnMut(&[u8], &[u8]) -> Result<()> + 'v;

/// Reads of one thread.
pub trait Reader {
    /// Copies the value under `key` into `value`; false if there is none.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    /// Visits all pairs, ascending, until the visitor returns an error.
    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()>;
}

/// Opens or creates a store in a folder.
pub type OpenStore<'a> = dyn Fn(&Path) -> Result<Box<dyn Subject>> + 'a;

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Pairs of the first load.
    pub pairs: u64,
    /// Random reads per thread.
    pub reads: u64,
    /// Duration of the synced-transaction measurement, per number of threads.
    pub synced_time: Duration,
    /// Seconds after which the first load is cut short; what was written counts.
    pub limit: Duration,
    /// Prefix of the case names.
    pub prefix: &'static str,
}

impl Plan {
    /// 10 million pairs at scale 1.
    pub fn at_scale(scale: f64) -> Self {
        let pairs = ((1e7 * scale) as u64).max(10 * BATCH) / (10 * BATCH) * (10 * BATCH);
        Self {
            pairs,
            reads: ((1e6 * scale.min(1.0)) as u64).max(100),
            synced_time: if scale < 0.01 {
                Duration::from_millis(300)
            } else {
                Duration::from_secs(5)
            },
            limit: Duration::MAX,
            prefix: "",
        }
    }

    /// Peak disk usage: logs, tables, and the outputs of compactions.
    fn disk_bytes(&self) -> u64 {
        6 * self.pairs * PAIR_BYTES + MIN_FREE_BYTES
    }
}

/// Runs the whole workload in `folder`, which must be empty.
pub fn run(open: &OpenStore<'_>, folder: &Path, plan: Plan, report: &mut dyn Report) -> Result<()> {
    let mut run = Run {
        plan,
        report,
        stored: 0,
    };
    let (free, needed) = (free_bytes(folder)?, plan.disk_bytes());
    if free < needed {
        bail!(
            "{} pairs need about {:.1} GiB of disk on the way, {} has {:.1} GiB free: choose another folder or a smaller scale",
            plan.pairs,
            mib(needed) / 1024.0,
            folder.display(),
            mib(free) / 1024.0
        );
    }
    reset_peak_memory();
    let subject = open(folder)?;
    run.load(&*subject, folder)?;
    run.space(&*subject, folder)?;
    run.scan(&*subject)?;
    run.reads(&*subject, "")?;
    run.misses(&*subject)?;
    run.peak("peak_rss_mib")?;
    drop(subject);

    run.report.stage("opening again");
    let start = Instant::now();
    let subject = open(folder)?;
    run.case("reopen_ms", millis(start.elapsed()), "ms", 1);
    run.reads(&*subject, "reopened_")?;
    run.concurrent_reader(&*subject)?;
    for threads in [1, 16] {
        run.synced(&*subject, threads)?;
    }
    run.two_writers(&*subject)?;
    run.peak("peak_rss_mib_whole")?;
    Ok(())
}

struct Run<'a> {
    plan: Plan,
    report: &'a mut dyn Report,
    /// Pairs written so far: all numbers below this exist.
    stored: u64,
}

impl Run<'_> {
    fn case(&mut self, name: &str, value: f64, unit: &'static str, n: u64) {
        let name = format!("{}{name}", self.plan.prefix);
        self.report.case(Case::new("uuid", name, value, unit, n));
    }

    /// One thread, transactions of 100, without syncs.
    fn load(&mut self, subject: &dyn Subject, folder: &Path) -> Result<()> {
        self.report.stage("writing");
        let pairs = self.plan.pairs;
        let slice = if pairs >= 2_000_000 {
            1_000_000
        } else {
            pairs / 10
        };
        let start = Instant::now();
        let (mut slices, mut worst) = (Vec::new(), Duration::ZERO);
        let (mut slice_start, mut written) = (start, 0);
        while written < pairs {
            worst = worst.max(put_batch(subject, written, false)?.0);
            written += BATCH;
            if written.is_multiple_of(slice) {
                let now = Instant::now();
                slices.push(now - slice_start);
                slice_start = now;
                self.report.progress(written, Some(pairs));
                if free_bytes(folder)? < MIN_FREE_BYTES {
                    bail!(
                        "the disk is nearly full after {written} pairs: choose another folder or a smaller scale"
                    );
                }
                if now - start > self.plan.limit {
                    self.report.note(&format!("stopped after {written} pairs"));
                    break;
                }
            }
        }
        let time = start.elapsed();
        self.plan.pairs = written;
        self.stored = written;
        self.case("writes_per_s", per_second(written, time), "puts/s", written);
        let rates: Vec<String> = slices
            .iter()
            .map(|time| format!("{:.0}k", per_second(slice, *time) / 1e3))
            .collect();
        self.report
            .note(&format!("each {slice} pairs: {} puts/s", rates.join(" ")));
        for (number, time) in slices.iter().enumerate() {
            let name = format!("writes_per_s_of_slice_{}", number + 1);
            self.case(&name, per_second(slice, *time), "puts/s", slice);
        }
        if let (Some(first), Some(last)) = (slices.first(), slices.last()) {
            let ratio = last.as_secs_f64() / first.as_secs_f64();
            self.case("last_to_first_million", ratio, "ratio", slice);
        }
        self.case("worst_commit_ms", millis(worst), "ms", written / BATCH);
        self.peak("peak_rss_mib_load")?;

        self.report.stage("finishing background work");
        subject.finish_background_work()?;
        self.case(
            "settled_writes_per_s",
            per_second(written, start.elapsed()),
            "puts/s",
            written,
        );
        Ok(())
    }

    fn space(&mut self, subject: &dyn Subject, folder: &Path) -> Result<()> {
        let raw = (self.stored * PAIR_BYTES) as f64;
        let settled = disk_bytes(folder)? as f64 / raw;
        self.case(
            "settled_disk_bytes_per_raw_byte",
            settled,
            "ratio",
            self.stored,
        );
        self.report.stage("compacting");
        let start = Instant::now();
        subject.compact()?;
        self.case("compact_s", start.elapsed().as_secs_f64(), "s", 1);
        let bytes = disk_bytes(folder)?;
        self.report.note(&format!("{:.0} MiB on disk", mib(bytes)));
        self.case(
            "disk_bytes_per_raw_byte",
            bytes as f64 / raw,
            "ratio",
            self.stored,
        );
        Ok(())
    }

    /// Full forward scan, decoded into strings.
    fn scan(&mut self, subject: &dyn Subject) -> Result<()> {
        self.report.stage("reading everything");
        let start = Instant::now();
        let (mut found, mut last) = (0u64, String::new());
        subject.reader()?.scan(&mut |key, value| {
            let key = String::from_utf8(key.to_vec())?;
            black_box(String::from_utf8(value.to_vec())?);
            ensure!(key > last, "the key {key} comes after {last}");
            last = key;
            found += 1;
            Ok(())
        })?;
        let time = start.elapsed();
        ensure!(
            found == self.stored,
            "found {found} pairs, expected {}",
            self.stored
        );
        self.case("scan_per_s", per_second(found, time), "pairs/s", found);
        Ok(())
    }

    /// Random existing keys; every value is compared.
    fn reads(&mut self, subject: &dyn Subject, prefix: &str) -> Result<()> {
        for threads in [1u64, 2] {
            self.report
                .stage(&format!("random reads, {threads} at once"));
            let (reads, stored) = (self.plan.reads, self.plan.pairs);
            let time = together(threads, |thread| {
                let mut reader = subject.reader()?;
                let mut random = Random::for_item(7, prefix.len() as u64, threads << 8 | thread);
                let mut value = Vec::new();
                for _ in 0..reads {
                    let wanted = pair(random.below(stored as usize) as u64);
                    let there = reader.get(wanted.key.as_bytes(), &mut value)?;
                    ensure!(
                        there && value == wanted.value.as_bytes(),
                        "the value of {} is not what was written",
                        wanted.key.as_str()
                    );
                }
                Ok(())
            })?;
            let name = format!("{prefix}reads_per_s_{threads}");
            self.case(
                &name,
                per_second(reads * threads, time),
                "reads/s",
                reads * threads,
            );
        }
        Ok(())
    }

    /// Random missing keys.
    fn misses(&mut self, subject: &dyn Subject) -> Result<()> {
        self.report.stage("reads of missing keys");
        let (mut reader, mut value) = (subject.reader()?, Vec::new());
        let reads = self.plan.reads;
        let start = Instant::now();
        for number in 0..reads {
            let absent = pair(u64::MAX - number);
            ensure!(
                !reader.get(absent.key.as_bytes(), &mut value)?,
                "found a key that was never written"
            );
        }
        self.case(
            "misses_per_s",
            per_second(reads, start.elapsed()),
            "reads/s",
            reads,
        );
        Ok(())
    }

    /// The slowest transaction during a concurrent read.
    fn concurrent_reader(&mut self, subject: &dyn Subject) -> Result<()> {
        self.report.stage("writing concurrently with a reader");
        let (stop, ready, reads) = (AtomicBool::new(false), Barrier::new(2), AtomicU64::new(0));
        let (first, count, loaded) = (self.stored, self.plan.pairs / 10, self.plan.pairs);
        let (time, worst) = std::thread::scope(|scope| -> Result<_> {
            let reading = scope.spawn(|| -> Result<()> {
                let mut random = Random::new(11);
                let mut value = Vec::new();
                ready.wait();
                while !stop.load(Ordering::Relaxed) {
                    let mut reader = subject.reader()?;
                    for _ in 0..1000 {
                        let wanted = pair(random.below(loaded as usize) as u64);
                        ensure!(
                            reader.get(wanted.key.as_bytes(), &mut value)?,
                            "a key is missing"
                        );
                    }
                    reads.fetch_add(1000, Ordering::Relaxed);
                }
                Ok(())
            });
            ready.wait();
            let start = Instant::now();
            let written = put_range(subject, first, count, false);
            let time = start.elapsed();
            stop.store(true, Ordering::Relaxed);
            reading.join().ok().context("the reader panicked")??;
            Ok((time, written?))
        })?;
        self.stored += count;
        self.report.note(&format!(
            "{} concurrent reads",
            reads.load(Ordering::Relaxed)
        ));
        self.case(
            "writes_per_s_beside_a_reader",
            per_second(count, time),
            "puts/s",
            count,
        );
        self.case(
            "worst_commit_ms_beside_a_reader",
            millis(worst),
            "ms",
            count / BATCH,
        );
        Ok(())
    }

    /// Transactions of 100 puts, each durable when it returns.
    fn synced(&mut self, subject: &dyn Subject, threads: u64) -> Result<()> {
        self.report
            .stage(&format!("synced transactions, {threads} at once"));
        let (next, worst) = (AtomicU64::new(self.stored / BATCH), AtomicU64::new(0));
        let deadline = Instant::now() + self.plan.synced_time;
        let time = together(threads, |_| {
            while Instant::now() < deadline {
                let first = next.fetch_add(1, Ordering::Relaxed) * BATCH;
                let (took, _) = put_batch(subject, first, true)?;
                worst.fetch_max(took.as_micros() as u64, Ordering::Relaxed);
            }
            Ok(())
        })?;
        let commits = next.load(Ordering::Relaxed) - self.stored / BATCH;
        self.stored += commits * BATCH;
        self.report
            .note(&format!("worst {} us", worst.load(Ordering::Relaxed)));
        let name = format!("synced_commits_per_s_{threads}");
        self.case(&name, per_second(commits, time), "commits/s", commits);
        Ok(())
    }

    fn two_writers(&mut self, subject: &dyn Subject) -> Result<()> {
        self.report.stage("two writers");
        let (first, count) = (
            self.stored,
            (self.plan.pairs / 10).max(BATCH) / BATCH * BATCH,
        );
        let time = together(2, |thread| {
            put_range(subject, first + thread * count, count, false).map(drop)
        })?;
        self.stored += 2 * count;
        self.case(
            "writes_per_s_2_writers",
            per_second(2 * count, time),
            "puts/s",
            2 * count,
        );
        Ok(())
    }

    fn peak(&mut self, name: &str) -> Result<()> {
        let Some(bytes) = peak_memory() else {
            bail!("/proc/self/status does not report the peak memory here");
        };
        self.case(name, mib(bytes), "MiB", 1);
        Ok(())
    }
}

/// Puts the batch that starts at `first`; returns its duration and the start of the next one.
fn put_batch(subject: &dyn Subject, first: u64, synced: bool) -> Result<(Duration, u64)> {
    let pairs: [Pair; BATCH as usize] = std::array::from_fn(|at| pair(first + at as u64));
    let start = Instant::now();
    subject.put_all(&pairs, synced)?;
    Ok((start.elapsed(), first + BATCH))
}

/// Puts `count` pairs from `first`, a multiple of the batch; returns the longest transaction.
fn put_range(subject: &dyn Subject, first: u64, count: u64, synced: bool) -> Result<Duration> {
    let mut worst = Duration::ZERO;
    let mut next = first;
    while next < first + count {
        let (took, after) = put_batch(subject, next, synced)?;
        worst = worst.max(took);
        next = after;
    }
    Ok(worst)
}

/// Runs `work` on this many threads; measures from the common start to the end of the last one.
fn together(threads: u64, work: impl Fn(u64) -> Result<()> + Sync) -> Result<Duration> {
    let ready = Barrier::new(threads as usize + 1);
    std::thread::scope(|scope| {
        let running: BTreeMap<u64, _> = (0..threads)
            .map(|thread| {
                let (ready, work) = (&ready, &work);
                let running = scope.spawn(move || {
                    ready.wait();
                    work(thread)
                });
                (thread, running)
            })
            .collect();
        ready.wait();
        let start = Instant::now();
        for (_, thread) in running {
            thread.join().ok().context("a thread panicked")??;
        }
        Ok(start.elapsed())
    })
}

fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9)
}
