//! Measures what sharing costs a process that is alone: commits of one pair, or of several with an entry of the change
//! stream as large as they are, in an exclusive and in a shared database by turns, so that both see the same machine.
//!
//! ```text
//! cargo run --profile quick -p isomer-lsm --example alone -- [ROUNDS] [buffered|synced] [PAIRS] [exclusive|shared]
//! ```
//!
//! The median of all commits of each, in nanoseconds, and the ratio of the medians. With the fourth argument only
//! that one runs, for a profiler.

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
    let pairs: u64 = text(2).unwrap_or("1").parse()?;
    let folder = tempfile::tempdir()?;
    let modes = [
        ("exclusive", LogSharing::Exclusive),
        ("shared", LogSharing::Shared),
    ];
    let mut times: [Vec<Duration>; 2] = Default::default();
    for round in 0..rounds {
        for (at, (name, sharing)) in modes.iter().enumerate() {
            if text(3).is_none_or(|only| only == *name) {
                let path = folder.path().join(name);
                let work = Work {
                    durability,
                    round,
                    pairs,
                };
                commit(&path, sharing.clone(), work, &mut times[at])?;
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

/// What one round commits.
#[derive(Clone, Copy)]
struct Work {
    durability: Durability,
    round: u64,
    /// Pairs of a commit.
    pairs: u64,
}

fn commit(
    path: &Path,
    sharing: LogSharing,
    work: Work,
    times: &mut Vec<Duration>,
) -> Result<(), Box<dyn Error>> {
    let options = LsmOptions {
        sharing,
        ..LsmOptions::default()
    };
    let engine = LsmEngine::open(path, options)?;
    let Work {
        durability,
        round,
        pairs,
    } = work;
    let commits = match durability {
        Durability::Synced => SYNCED_COMMITS,
        _ => COMMITS / pairs,
    };
    for number in 0..commits {
        let key = |pair: u64| format!("pair-{round:04}-{number:09}-{pair:04}");
        let keys: Vec<String> = (0..pairs).map(key).collect();
        let began = Instant::now();
        let mut transaction = engine.begin()?;
        for key in &keys {
            transaction.put(key.as_bytes(), key.as_bytes())?;
            if pairs > 1 {
                transaction.append_stream(key.as_bytes());
                transaction.append_stream(key.as_bytes());
            }
        }
        transaction.commit(durability)?;
        times.push(began.elapsed());
    }
    Ok(())
}
