//! Prints the engine's costs on this machine, one metric per line:
//! `cargo run --release -p isomer-storage-redb --example measure [CACHE_MIB]`.

use std::{fs, hint::black_box, thread, time::Instant};

use isomer_storage::{Durability, Engine, KeyRange, Order, Page, PageLimit, StorageError};
use isomer_storage_redb::{RedbEngine, RedbOptions};

type Outcome<T = ()> = Result<T, StorageError>;

const PAIRS: u64 = 2_000_000;

fn key(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
    [&b"k"[..], &mixed.to_be_bytes(), &number.to_be_bytes()].concat()
}

/// Wall and processor time since its creation; on a busy machine the processor time is more reliable.
struct Clock {
    wall: Instant,
    cpu_ns: u64,
}

impl Clock {
    fn start() -> Self {
        Self {
            wall: Instant::now(),
            cpu_ns: cpu_ns(),
        }
    }

    fn per_call(self, name: &str, calls: u64) {
        let (wall, cpu) = (
            self.wall.elapsed().as_secs_f64() * 1e6,
            (cpu_ns() - self.cpu_ns) as f64 / 1e3,
        );
        println!(
            "{name}: {:.2} us a call, of this thread {:.2} us",
            wall / calls as f64,
            cpu / calls as f64
        );
    }
}

/// Processor time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok())
        .unwrap_or(0)
}

fn main() -> Outcome {
    let cache_mib = std::env::args()
        .nth(1)
        .and_then(|mib| mib.parse().ok())
        .unwrap_or(256);
    let folder = std::env::temp_dir().join(format!("isomer-measure-{}", std::process::id()));
    let engine = RedbEngine::open(
        &folder,
        RedbOptions {
            cache_bytes: cache_mib << 20,
            ..RedbOptions::default()
        },
    )?;
    let outcome = measure(&engine);
    drop(engine);
    let cold = outcome.and_then(|()| measure_cold(&folder));
    drop(fs::remove_dir_all(&folder));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    println!(
        "{}",
        status
            .lines()
            .find(|line| line.starts_with("VmHWM"))
            .unwrap_or_default()
    );
    cold
}

fn measure(engine: &RedbEngine) -> Outcome {
    let mut sorted: Vec<Vec<u8>> = (0..PAIRS).map(key).collect();
    sorted.sort_unstable();
    let clock = Clock::start();
    engine.ingest(
        &mut sorted.iter().map(|key| Ok((key.clone(), vec![7; 30]))),
        None,
    )?;
    clock.per_call("ingest into an empty database", PAIRS);
    let clock = Clock::start();
    engine.ingest(
        &mut sorted
            .iter()
            .map(|key| Ok(([&key[..], b"2"].concat(), vec![7; 30]))),
        None,
    )?;
    clock.per_call("ingest between other keys", PAIRS);

    let clock = Clock::start();
    for number in 0..200_000 {
        black_box(engine.snapshot()?.get(&key(number * 7 % PAIRS))?);
    }
    clock.per_call("snapshot and point read", 200_000);
    let snapshot = engine.snapshot()?;
    let clock = Clock::start();
    for number in 0..200_000 {
        black_box(snapshot.get(&key(number * 7 % PAIRS))?);
    }
    clock.per_call("point read", 200_000);
    let mut page = Page::new();
    let clock = Clock::start();
    for number in 0..200_000 {
        let start = key(number * 7 % PAIRS);
        snapshot.scan(
            KeyRange {
                start: &start,
                end: None,
            },
            Order::Ascending,
            PageLimit {
                keys: 10,
                bytes: 4096,
            },
            &mut page,
        )?;
        black_box(page.len());
    }
    clock.per_call("scan of 10 pairs", 200_000);
    let clock = Clock::start();
    let mut pairs = 0;
    let mut start = Vec::new();
    loop {
        snapshot.scan(
            KeyRange {
                start: &start,
                end: None,
            },
            Order::Ascending,
            PageLimit {
                keys: 4096,
                bytes: 1 << 20,
            },
            &mut page,
        )?;
        pairs += page.len() as u64;
        match page.next() {
            Some(rest) => start = rest.start.to_vec(),
            None => break,
        }
    }
    clock.per_call("pair of a full scan", pairs);
    drop(snapshot);

    let commit = |number: u64, puts: u64, durability| -> Outcome {
        let mut transaction = engine.begin()?;
        for put in 0..puts {
            transaction.put(&key(PAIRS + number * puts + put), &[1; 30])?;
        }
        transaction.append_stream(b"entry");
        transaction.commit(durability).map(drop)
    };
    let clock = Clock::start();
    for number in 0..20_000 {
        commit(number, 1, Durability::Buffered)?;
    }
    clock.per_call("buffered commit of 1 put", 20_000);
    let clock = Clock::start();
    for number in 0..2_000 {
        commit(1000 + number, 100, Durability::Buffered)?;
    }
    clock.per_call("buffered commit of 100 puts", 2_000);
    let clock = Clock::start();
    for number in 0..500 {
        commit(1_000_000 + number, 1, Durability::Synced)?;
    }
    clock.per_call("synced commit, 1 writer", 500);
    let before = engine.statistics()?;
    let clock = Clock::start();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|writer| {
                scope.spawn(move || {
                    (0..100).try_for_each(|number| {
                        commit(2_000_000 + writer * 1000 + number, 1, Durability::Synced)
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let after = engine.statistics()?;
    clock.per_call("synced commit, 20 writers", 2_000);
    println!(
        "  {} commits shared {} syncs",
        after.commits - before.commits,
        after.syncs - before.syncs
    );
    println!("  {after:?}");
    Ok(())
}

/// Reads that miss the cache, each block verified.
fn measure_cold(folder: &std::path::Path) -> Outcome {
    let clock = Clock::start();
    let engine = RedbEngine::open(
        folder,
        RedbOptions {
            cache_bytes: 4 << 20,
            ..RedbOptions::default()
        },
    )?;
    println!(
        "opening: {:.1} ms",
        clock.wall.elapsed().as_secs_f64() * 1e3
    );
    let snapshot = engine.snapshot()?;
    let clock = Clock::start();
    for number in 0..100_000 {
        black_box(snapshot.get(&key(number * 13 % PAIRS))?);
    }
    clock.per_call("point read with a cache of 4 MiB", 100_000);
    let clock = Clock::start();
    let damage = engine.verify(&mut |_, _| {})?;
    println!(
        "verification: {:.2} s, {} findings",
        clock.wall.elapsed().as_secs_f64(),
        damage.len()
    );
    Ok(())
}
