//! What it costs one process to commit through a shared log: `cargo run --release -p isomer-storage --example
//! shared_overhead -- [ROUNDS]`.
//!
//! Commits of one pair, buffered, and empty transactions that only begin and read, on engines in memory: local, over a log
//! in memory, and over a log in a directory. Rounds of each kind alternate; medians are printed, in ns.

use std::{error::Error, hint::black_box, sync::Arc, time::Instant};

use isomer_shared_log::{DirectoryLog, DirectoryOptions, LogId, MemoryLog, SharedLog};
use isomer_storage::{Durability, Engine, Granule, GuardMode, MemoryEngine, SharedOptions};

const COMMITS: u64 = 20_000;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = match std::env::args().nth(1) {
        Some(rounds) => rounds.parse()?,
        None => 7,
    };
    let mut times: [Vec<[u64; 2]>; 3] = Default::default();
    for _ in 0..rounds {
        let folder = tempfile::tempdir()?;
        let memory = MemoryLog::new(LogId(1), std::time::Duration::from_secs(60));
        let directory = DirectoryLog::open(folder.path(), &DirectoryOptions::default())?;
        let shared = |log: Arc<dyn SharedLog>| MemoryEngine::shared(log, SharedOptions::default());
        let engines = [
            MemoryEngine::new(),
            shared(Arc::new(memory))?,
            shared(Arc::new(directory))?,
        ];
        for (engine, times) in engines.iter().zip(&mut times) {
            times.push([commits(engine)?, reads(engine)?]);
        }
    }
    println!(
        "{:<24}{:>12}{:>12}",
        "engine in memory", "commit", "begin+get"
    );
    for (name, times) in ["local", "log in memory", "log in a directory"]
        .iter()
        .zip(&mut times)
    {
        let [commit, read] = [0, 1].map(|kind| {
            let mut all: Vec<u64> = times.iter().map(|times| times[kind]).collect();
            all.sort_unstable();
            all[all.len() / 2]
        });
        println!("{name:<24}{commit:>9} ns{read:>9} ns");
    }
    Ok(())
}

/// Nanoseconds of a commit.
fn commits(engine: &dyn Engine) -> Result<u64, Box<dyn Error>> {
    let began = Instant::now();
    for number in 0..COMMITS {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let mut transaction = engine.begin()?;
        transaction.guard(Granule(number.into()), GuardMode::Write);
        transaction.put(&key, &[7; 64])?;
        transaction.commit(Durability::Buffered)?;
    }
    Ok(began.elapsed().as_nanos() as u64 / COMMITS)
}

/// Nanoseconds of a transaction that reads one key.
fn reads(engine: &dyn Engine) -> Result<u64, Box<dyn Error>> {
    let began = Instant::now();
    for number in 0..COMMITS {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        black_box(engine.begin()?.get(&key)?);
    }
    Ok(began.elapsed().as_nanos() as u64 / COMMITS)
}
