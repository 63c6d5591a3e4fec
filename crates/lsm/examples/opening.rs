//! Measures how long a process takes to open a shared database that another one has open, and to read its first pair:
//! with some pairs in tables, and some commits of one pair that are only in the log and have to be applied first.
//!
//! ```text
//! cargo run --profile quick -p isomer-lsm --example opening -- [PAIRS IN TABLES] [COMMITS IN THE LOG] [ROUNDS]
//! ```
//!
//! The other process is another engine of this one: they share nothing but files, locks and the shared log.

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine};

/// Pairs of a transaction that loads.
const BATCH: u64 = 10_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| match arguments.get(at) {
        Some(text) => text.parse(),
        None => Ok(otherwise),
    };
    let (pairs, commits, rounds) = (number(0, 100_000)?, number(1, 10_000)?, number(2, 11)?);
    let folder = tempfile::tempdir()?;
    let first = open(folder.path())?;
    for from in (0..pairs).step_by(BATCH as usize) {
        put(&first, from..pairs.min(from + BATCH))?;
    }
    first.wait_for_background_work()?;
    for number in pairs..pairs + commits {
        put(&first, number..number + 1)?;
    }
    let (mut opened, mut read) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let began = Instant::now();
        let engine = open(folder.path())?;
        opened.push(began.elapsed());
        let wanted = key(round * 7919 % (pairs + commits));
        let found = engine.snapshot()?.get(wanted.as_bytes())?;
        found.ok_or("each pair was committed")?;
        read.push(began.elapsed());
    }
    for (what, times) in [("opened", &mut opened), ("first pair", &mut read)] {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 100).copied();
        let [least, median] = [0, 50].map(|part| at(part).unwrap_or_default());
        println!("{what}: median {median:?} (least {least:?})");
    }
    Ok(())
}

fn key(number: u64) -> String {
    // Neighbours in time are not neighbours in the tables.
    format!("pair-{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn open(path: &Path) -> Result<LsmEngine, Box<dyn Error>> {
    let options = LsmOptions {
        sharing: LogSharing::Shared,
        maintainer_patience: Duration::from_secs(60),
        ..LsmOptions::default()
    };
    Ok(LsmEngine::open(path, options)?)
}

fn put(engine: &LsmEngine, numbers: std::ops::Range<u64>) -> Result<(), Box<dyn Error>> {
    let mut transaction = engine.begin()?;
    for number in numbers {
        let key = key(number);
        transaction.put(key.as_bytes(), key.as_bytes())?;
        transaction.append_stream(key.as_bytes());
    }
    transaction.commit(Durability::Buffered)?;
    Ok(())
}
