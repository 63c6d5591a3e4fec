//! The operations of `isomer bench convergent`, for an in-memory system.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::{
    measure::{Stopwatch, micros, millis},
    peer::Peer,
    random::Random,
    report::{Case, Report},
};

const SIZES: [u64; 7] = [100, 1_000, 3_000, 10_000, 20_000, 100_000, 1_000_000];

/// The size of a run.
pub struct Plan {
    /// Elements of the largest set.
    pub largest: u64,
    /// Time limit of a system.
    pub limit: Duration,
}

/// Measures one system.
pub fn run<P: Peer>(plan: &Plan, report: &mut dyn Report) -> Result<()> {
    let started = Instant::now();
    let is_late = || started.elapsed() > plan.limit;
    let mut work = Work {
        peer: P::new()?,
        size: 0,
        random: Random::new(5),
    };
    report.stage("five counters");
    work.counters(report)?;
    for size in SIZES.into_iter().filter(|size| *size <= plan.largest) {
        report.stage(&format!("a set of {size} elements"));
        while work.size < size && !is_late() {
            work.add((size - work.size).min(1_000))?;
        }
        if work.size < size {
            report.note(&format!(
                "stopped at {} elements: {:.0} s are over",
                work.size,
                plan.limit.as_secs_f64()
            ));
            report.case(Case::new(
                "convergent",
                "gave_up_at",
                work.size as f64,
                "elements",
                plan.limit.as_secs(),
            ));
            break;
        }
        work.at_size(report, &is_late)?;
    }
    Ok(())
}

struct Work<P> {
    peer: P,
    /// Number of elements in the set: the numbers from 1, as text.
    size: u64,
    random: Random,
}

fn elements(first: u64, count: u64) -> Vec<String> {
    (first..first + count).map(|n| n.to_string()).collect()
}

impl<P: Peer> Work<P> {
    fn add(&mut self, count: u64) -> Result<Vec<u8>> {
        let sent = self.peer.add(&elements(self.size + 1, count))?;
        self.size += count;
        Ok(sent)
    }

    fn at_size(&mut self, report: &mut dyn Report, is_late: &dyn Fn() -> bool) -> Result<()> {
        let size = self.size;
        let mut record = |case: &str, value: f64, unit: &'static str, n: u64| {
            let case = format!("{case}_{size}");
            report.case(Case::new("convergent", case, value, unit, n));
        };
        let watch = Stopwatch::start();
        let mut done = 0;
        let mut sent = 0;
        while done < 200 && !(is_late() && done > 0) {
            sent += self.add(1)?.len();
            done += 1;
        }
        record("add_us", micros(watch.read().1) / done as f64, "us", done);
        record("add_bytes", sent as f64 / done as f64, "bytes", done);

        let watch = Stopwatch::start();
        let mut batches = 0;
        while batches < 20 && !(is_late() && batches > 0) {
            self.add(100)?;
            batches += 1;
        }
        let count = batches * 100;
        record(
            "add_of_100_us",
            micros(watch.read().1) / count as f64,
            "us",
            count,
        );

        let added = self.size - size;
        let watch = Stopwatch::start();
        for number in size + 1..=size + done {
            self.peer.remove(&number.to_string())?;
        }
        record(
            "remove_us",
            micros(watch.read().1) / done as f64,
            "us",
            done,
        );
        for number in size + done + 1..=size + added {
            self.peer.remove(&number.to_string())?;
        }
        self.size = size;

        const LOOKS: u64 = 2_000;
        let wanted: Vec<String> = (0..LOOKS)
            .map(|_| (1 + self.random.below(size as usize * 2)).to_string())
            .collect();
        let watch = Stopwatch::start();
        let mut found = 0;
        for element in &wanted {
            found += u64::from(self.peer.contains(element)?);
        }
        record(
            "contains_us",
            micros(watch.read().1) / LOOKS as f64,
            "us",
            LOOKS,
        );
        ensure!(
            found > LOOKS / 4 && found < LOOKS * 3 / 4,
            "{found} of {LOOKS} were found"
        );

        let watch = Stopwatch::start();
        let all = self.peer.read_all()?;
        record("read_all_ms", millis(watch.read().1), "ms", 1);
        ensure!(
            all.len() as u64 == size,
            "{} of {size} were read",
            all.len()
        );
        drop(all);
        self.whole(report)
    }

    /// Operations on the whole state: saving, loading, joining, and an addition to a set stored as one
    /// object.
    fn whole(&mut self, report: &mut dyn Report) -> Result<()> {
        let size = self.size;
        let mut record = |case: &str, value: f64, unit: &'static str, n: u64| {
            let case = format!("{case}_{size}");
            report.case(Case::new("convergent", case, value, unit, n));
        };
        let watch = Stopwatch::start();
        let state = self.peer.save()?;
        record("save_ms", millis(watch.read().1), "ms", 1);
        record(
            "bytes_per_element",
            state.len() as f64 / size as f64,
            "bytes",
            size,
        );
        let watch = Stopwatch::start();
        let mut other = P::load(&state)?;
        let all = other.read_all()?.len() as u64;
        record("load_and_read_all_ms", millis(watch.read().1), "ms", 1);
        ensure!(all == size, "{all} of {size} were loaded");

        let watch = Stopwatch::start();
        let mut stored = P::load(&state)?;
        stored.add(&elements(size + 1, 1))?;
        stored.save()?;
        record("add_stored_us", micros(watch.read().1), "us", 1);
        drop(stored);

        // One per cent more elements here, in transactions of one each; the other replica requests them.
        let news = (size / 100).min(10_000);
        if news > 0 {
            let version = other.version()?;
            let mut sent = Vec::new();
            for _ in 0..news {
                sent.push(self.add(1)?);
            }
            let watch = Stopwatch::start();
            match self.peer.news(&version)? {
                Some(news) => other.apply(&news)?,
                None => {
                    for op in &sent {
                        other.apply(op)?;
                    }
                }
            }
            record(
                "sync_us_per_op",
                micros(watch.read().1) / news as f64,
                "us",
                news,
            );
            let all = other.read_all()?.len() as u64;
            ensure!(
                all == size + news,
                "{all} of {} after the exchange",
                size + news
            );
            if let Some(bytes) = {
                let version = other.version()?;
                self.peer.news(&version)?
            } {
                record("sync_equal_bytes", bytes.len() as f64, "bytes", 1);
            }
        }

        // Each has something that the other lacks; one merges the state of the other.
        other.add(&["other".to_owned()])?;
        let watch = Stopwatch::start();
        let state = other.save()?;
        self.peer.join(&state)?;
        record("join_ms", millis(watch.read().1), "ms", size);
        ensure!(self.peer.contains("other")?, "a joined element is missing");
        self.peer.remove("other")?;
        for number in size + 1..=size + news {
            self.peer.remove(&number.to_string())?;
        }
        self.size = size;
        Ok(())
    }

    fn counters(&mut self, report: &mut dyn Report) -> Result<()> {
        const EACH: u64 = 200;
        let watch = Stopwatch::start();
        let Some(sums) = P::count(EACH)? else {
            report.note("has no counters");
            return Ok(());
        };
        let each = micros(watch.read().1) / (5 * EACH) as f64;
        ensure!(sums == [5 * EACH as i64; 5], "the sums are {sums:?}");
        report.case(Case::new(
            "convergent",
            "counter_of_5_us",
            each,
            "us",
            5 * EACH,
        ));
        Ok(())
    }
}
