//! Measures the engine through the storage contract: puts of random UUIDs in transactions of 100, gets, a scan.
//!
//! ```text
//! cargo run --profile quick -p isomer-lsm --example puts -- [MILLIONS] [FOLDER] [buffered|synced] [streamed]
//! ```
//!
//! One JSON object per line; keys and values are 36 bytes of text.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, KeyRange, Order, conformance::Random};
use isomer_vfs::{Disk, DiskFile, OpenMode, RealDisk};

const PER_TRANSACTION: u64 = 100;

fn uuid(number: u64, out: &mut [u8; 36]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut random = Random(number);
    let bits = u128::from(random.number()) << 64 | u128::from(random.number());
    let mut shift = 128;
    for (at, byte) in out.iter_mut().enumerate() {
        if matches!(at, 8 | 13 | 18 | 23) {
            *byte = b'-';
        } else {
            shift -= 4;
            *byte = HEX[(bits >> shift) as usize & 15];
        }
    }
}

fn print_result(case: &str, value: f64, unit: &str) {
    println!(r#"{{"bench": "lsm", "case": "{case}", "value": {value:.3}, "unit": "{unit}"}}"#);
}

/// Seconds of processor time of this thread.
fn cpu_s() -> f64 {
    let status = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = status
        .split(' ')
        .next()
        .and_then(|text| text.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// Where the time of this thread goes, according to the kernel: milliseconds on a processor, and waiting for
/// one.
struct Schedule(Option<Arc<dyn DiskFile>>);

impl Schedule {
    fn new() -> Self {
        let path = Path::new("/proc/thread-self/schedstat");
        Self(RealDisk.open(path, OpenMode::Read).ok())
    }

    fn now(&self) -> (f64, f64) {
        let mut bytes = [0; 128];
        let len = self
            .0
            .as_ref()
            .and_then(|file| file.read_at(&mut bytes, 0).ok());
        let text = std::str::from_utf8(&bytes[..len.unwrap_or(0)]).unwrap_or_default();
        let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or(0.0));
        let mut next = || numbers.next().unwrap_or(0.0) / 1e6;
        (next(), next())
    }
}

/// Peak memory of the process.
fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches(" kB")
            .trim()
            .parse::<f64>()
            .ok()
    });
    kib.unwrap_or(0.0) / 1024.0
}

/// Random gets, all of which are checked, and a scan to strings.
fn read_all(
    engine: &dyn Engine,
    count: u64,
    prefix: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut key, mut value) = ([0; 36], [0; 36]);
    let (began, cpu) = (Instant::now(), cpu_s());
    let snapshot = engine.snapshot()?;
    let mut random = Random(7);
    let gets = 500_000.min(count);
    for _ in 0..gets {
        let number = random.below(count);
        uuid(number, &mut key);
        uuid(!number, &mut value);
        if snapshot.get(&key)?.as_deref() != Some(&value[..]) {
            return Err(format!("pair {number} is not what was put").into());
        }
    }
    print_result(
        &format!("{prefix}gets_per_s"),
        gets as f64 / began.elapsed().as_secs_f64(),
        "1/s",
    );

    print_result(
        &format!("{prefix}gets_per_s_on_a_processor"),
        gets as f64 / (cpu_s() - cpu),
        "1/s",
    );
    let (began, cpu) = (Instant::now(), cpu_s());
    let (mut found, mut bytes, mut fault) = (0u64, 0, None);
    let all = KeyRange {
        start: b"",
        end: None,
    };
    snapshot.visit(all, Order::Ascending, &mut |key, value| {
        match (
            String::from_utf8(key.to_vec()),
            String::from_utf8(value.to_vec()),
        ) {
            (Ok(key), Ok(value)) => bytes += key.len() + value.len(),
            (Err(error), _) | (_, Err(error)) => {
                fault = Some(error);
                return ControlFlow::Break(());
            }
        }
        found += 1;
        ControlFlow::Continue(())
    })?;
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    if found != count || bytes as u64 != count * 72 {
        return Err(format!("{found} pairs found, {count} put").into());
    }
    print_result(
        &format!("{prefix}scan_per_s"),
        found as f64 / began.elapsed().as_secs_f64(),
        "1/s",
    );
    print_result(
        &format!("{prefix}scan_per_s_on_a_processor"),
        found as f64 / (cpu_s() - cpu),
        "1/s",
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let millions: f64 = arguments.next().map_or(Ok(1.0), |text| text.parse())?;
    let given: Option<PathBuf> = arguments.next().map(Into::into);
    let synced = arguments.next().is_some_and(|text| text == "synced");
    let scratch = tempfile::tempdir()?;
    let folder = given.unwrap_or_else(|| scratch.path().join("store"));
    let durability = if synced {
        Durability::Synced
    } else {
        Durability::Buffered
    };
    // With an entry of the change stream in each transaction, as large as its writes.
    let streamed = std::env::args().any(|argument| argument == "streamed");
    let store = LsmEngine::open(&folder, LsmOptions::default())?;
    let engine: &dyn Engine = &store;

    let count = (millions * 1e6) as u64 / PER_TRANSACTION * PER_TRANSACTION;
    let (mut key, mut value) = ([0; 36], [0; 36]);
    let (mut worst, mut made) = (Duration::ZERO, Duration::ZERO);
    let mut slow = Vec::new();
    let mut marks = vec![(0, Instant::now())];
    let cpu = cpu_s();
    let schedule = Schedule::new();
    let mut before = schedule.now();
    let mut pairs = Vec::with_capacity(PER_TRANSACTION as usize);
    for first in (0..count).step_by(PER_TRANSACTION as usize) {
        let began = Instant::now();
        pairs.clear();
        for number in first..first + PER_TRANSACTION {
            uuid(number, &mut key);
            uuid(!number, &mut value);
            pairs.push((key, value));
        }
        made += began.elapsed();
        let began = Instant::now();
        let mut transaction = engine.begin()?;
        for (key, value) in &pairs {
            transaction.put(key, value)?;
            if streamed {
                transaction.append_stream(key);
                transaction.append_stream(value);
            }
        }
        transaction.commit(durability)?;
        let took = began.elapsed();
        worst = worst.max(took);
        let now = schedule.now();
        if took > Duration::from_millis(5) {
            let took = took.as_secs_f64() * 1e3;
            let (working, waiting) = (now.0 - before.0, now.1 - before.1);
            slow.push((
                first / PER_TRANSACTION,
                [took, working, waiting, took - working - waiting].map(|ms| ms.round() as i64),
            ));
        }
        before = now;
        let done = first + PER_TRANSACTION;
        if done.is_multiple_of(1_000_000) || done == count {
            marks.push((done, Instant::now()));
        }
    }
    let took = marks[marks.len() - 1].1 - marks[0].1;
    print_result("puts_per_s", count as f64 / took.as_secs_f64(), "1/s");
    print_result(
        "puts_per_s_without_making_them",
        count as f64 / (took - made).as_secs_f64(),
        "1/s",
    );
    let cpu = cpu_s() - cpu;
    print_result(
        "puts_per_s_of_this_thread_on_a_processor",
        count as f64 / cpu,
        "1/s",
    );
    print_result("share_of_a_processor", cpu / took.as_secs_f64(), "ratio");
    let rates: Vec<f64> = marks
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) as f64 / (pair[1].1 - pair[0].1).as_secs_f64())
        .collect();
    if let [first, .., last] = rates.as_slice() {
        print_result("last_to_first_million_time", first / last, "ratio");
    }
    let rounded: Vec<u64> = rates.iter().map(|rate| (rate / 1000.0) as u64).collect();
    eprintln!("thousand puts/s by million: {rounded:?}");
    eprintln!(
        "{} commits above 5 ms; the worst, with ms in all, working, waiting for a processor, and for other reasons:",
        slow.len()
    );
    slow.sort_by_key(|(_, [.., blocked])| -blocked);
    eprintln!("{:?}", &slow[..slow.len().min(20)]);
    print_result("worst_commit", worst.as_secs_f64() * 1e3, "ms");
    print_result("peak_rss_after_puts", peak_mib(), "MiB");

    read_all(engine, count, "")?;
    let began = Instant::now();
    engine.compact()?;
    print_result("compact_s", began.elapsed().as_secs_f64(), "s");
    read_all(engine, count, "compacted_")?;
    print_result("peak_rss", peak_mib(), "MiB");
    let statistics = engine.statistics()?;
    print_result(
        "disk_bytes_per_raw_byte",
        statistics.stored_bytes as f64 / (count * 72) as f64,
        "ratio",
    );
    eprintln!("{:?}", statistics.details);
    let began = Instant::now();
    drop(store);
    eprintln!("closed in {:?}", began.elapsed());
    Ok(())
}
