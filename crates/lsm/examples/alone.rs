//! Measures what sharing costs a process that is alone: commits of one pair, in an exclusive and in a shared database by
//! turns, so that both see the same machine.
//!
//! ```text
//! cargo run --profile quick -p isomer-lsm --example alone -- [ROUNDS] [buffered|synced] [exclusive|shared]
//! ```
//!
//! The median of all commits of each, in nanoseconds, and the ratio of the medians. With the third argument only that
//! one runs, for a profiler.

use std::{
    error::Error,
    path::Path,
    time::{Duration, Instant},
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine};

const COMMITS: u64 = 20_000;
const SYNCED_COMMITS: u64 = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize| arguments.get(at).map(String::as_str);
    let rounds: u64 = text(0).unwrap_or("10").parse()?;
    let durability = match text(1) {
        Some("synced") => Durability::Synced,
        _ => Durability::Buffered,
    };
    let folder = tempfile::tempdir()?;
    let modes = [
        ("exclusive", LogSharing::Exclusive),
        ("shared", LogSharing::Shared),
    ];
    let mut times: [Vec<Duration>; 2] = Default::default();
    for round in 0..rounds {
        for (at, (name, sharing)) in modes.iter().enumerate() {
            if text(2).is_none_or(|only| only == *name) {
                let path = folder.path().join(name);
                commit(&path, sharing.clone(), durability, round, &mut times[at])?;
            }
        }
    }
    let mut medians = [0.0; 2];
    for ((name, _), (times, median)) in modes.iter().zip(times.iter_mut().zip(&mut medians)) {
        times.sort();
        let at = |part: usize| times.get(times.len() * part / 100).copied();
        let [p10, p50, p90] = [10, 50, 90].map(|part| at(part).unwrap_or_default());
        *median = p50.as_nanos() as f64;
        println!("{name}: median {p50:?} (10 % {p10:?}, 90 % {p90:?})");
    }
    println!("shared / exclusive: {:.3}", medians[1] / medians[0]);
    Ok(())
}

fn commit(
    path: &Path,
    sharing: LogSharing,
    durability: Durability,
    round: u64,
    times: &mut Vec<Duration>,
) -> Result<(), Box<dyn Error>> {
    let options = LsmOptions {
        sharing,
        ..LsmOptions::default()
    };
    let engine = LsmEngine::open(path, options)?;
    let commits = match durability {
        Durability::Synced => SYNCED_COMMITS,
        _ => COMMITS,
    };
    for number in 0..commits {
        let key = format!("pair-{round:04}-{number:09}");
        let began = Instant::now();
        let mut transaction = engine.begin()?;
        transaction.put(key.as_bytes(), &number.to_le_bytes())?;
        transaction.commit(durability)?;
        times.push(began.elapsed());
    }
    Ok(())
}
