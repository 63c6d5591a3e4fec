//! The work of `isomer bench processes` on SQLite and LMDB: synced writes of several processes, how soon another
//! process sees a commit, and the first read of a new process.
//!
//! ```text
//! cargo run --release --manifest-path bench-peers/processes/Cargo.toml -- [--scale 0.1] [--folder FOLDER] [--systems
//! sqlite,lmdb]
//! ```
//!
//! One JSON object per line, with the names of the cases of `isomer bench processes`. SQLite is in WAL mode with
//! `synchronous=FULL`; LMDB syncs each commit. Both have one writer at a time, and wait for it.

mod lmdb;
mod members;
mod sqlite;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::members::{Member, write_for};

/// Pairs at scale 1.
const PAIRS: f64 = 10_000_000.0;
const BATCH: u64 = 10_000;
const WRITING_TIME: Duration = Duration::from_secs(3);
const LOOKS: usize = 200;
const STARTS: usize = 10;

/// A store that one process has open.
pub trait Store: Send + Sync {
    /// Puts all pairs in one transaction, and makes it durable.
    fn put(&self, pairs: &mut dyn Iterator<Item = (String, i64)>) -> Result<()>;
    fn get(&self, key: &str) -> Result<Option<i64>>;
}

pub fn open(system: &str, folder: &Path) -> Result<Box<dyn Store>> {
    match system {
        "sqlite" => Ok(Box::new(sqlite::Sqlite::open(folder)?)),
        "lmdb" => Ok(Box::new(lmdb::Lmdb::open(folder)?)),
        _ => bail!("unknown system `{system}`: give sqlite or lmdb"),
    }
}

pub fn key(number: u64) -> String {
    format!("pair-{number:09}")
}

fn main() -> Result<()> {
    if std::env::args().nth(1).as_deref() == Some("member") {
        return members::serve();
    }
    let (mut scale, mut systems) = (0.1, "sqlite,lmdb".to_owned());
    let mut folder: Option<PathBuf> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments
            .next()
            .with_context(|| format!("{name} has no value"))?;
        match name.as_str() {
            "--scale" => scale = value.parse()?,
            "--systems" => systems = value,
            "--folder" => folder = Some(value.into()),
            _ => bail!("unknown option {name}"),
        }
    }
    let scratch = match folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    for system in systems.split(',') {
        let folder = scratch.path().join(system);
        std::fs::create_dir(&folder)?;
        measure(system, &folder, ((PAIRS * scale) as u64).max(BATCH))?;
    }
    Ok(())
}

fn print(system: &str, case: &str, value: f64, unit: &str) {
    println!(
        r#"{{"system":"{system}","bench":"processes","case":"{case}","value":{value:.3},"unit":"{unit}"}}"#
    );
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn measure(system: &str, folder: &Path, pairs: u64) -> Result<()> {
    let store = open(system, folder)?;
    for first in (0..pairs).step_by(BATCH as usize) {
        let numbers = first..pairs.min(first + BATCH);
        store.put(&mut numbers.map(|number| (key(number), number as i64)))?;
    }
    drop(store);
    for count in [2, 8] {
        together(system, folder, count)?;
    }
    let store = open(system, folder)?;
    let mut member = Member::start(system, folder, "seen")?;
    let mut seen = Vec::new();
    for number in 0..LOOKS {
        member.ask(&format!("once {number}"))?;
        let began = Instant::now();
        let key = format!("seen-{number}");
        while store.get(&key)?.is_none() {}
        seen.push(began.elapsed());
    }
    member.end()?;
    print(
        system,
        "visible_after_us",
        median(seen).as_secs_f64() * 1e6,
        "us",
    );
    let mut starts = Vec::new();
    for at in 0..STARTS {
        let began = Instant::now();
        let mut member = Member::start(system, folder, "first")?;
        member.ask(&format!("read {}", at as u64 * 7919 % pairs))?;
        starts.push(began.elapsed());
        member.end()?;
    }
    print(
        system,
        "first_read_ms",
        median(starts).as_secs_f64() * 1e3,
        "ms",
    );
    Ok(())
}

/// Synced writes of the threads of one process, and of as many processes.
fn together(system: &str, folder: &Path, count: usize) -> Result<()> {
    let seconds = WRITING_TIME.as_secs_f64();
    let store = open(system, folder)?;
    let commits = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|at| {
                let store = &store;
                scope.spawn(move || write_for(&**store, &format!("thread-{at}"), WRITING_TIME))
            })
            .collect();
        let counts = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")));
        counts.sum::<Result<u64>>()
    })?;
    drop(store);
    print(
        system,
        &format!("threads_{count}_synced_writes_per_s"),
        commits as f64 / seconds,
        "writes/s",
    );
    let mut members = Vec::new();
    for at in 0..count {
        members.push(Member::start(system, folder, &format!("process-{at}"))?);
    }
    for member in &mut members {
        member.say(&format!("write {}", WRITING_TIME.as_millis()))?;
    }
    let mut commits = 0;
    for member in &mut members {
        commits += member.heard()?.parse::<u64>()?;
    }
    for member in members {
        member.end()?;
    }
    print(
        system,
        &format!("processes_{count}_synced_writes_per_s"),
        commits as f64 / seconds,
        "writes/s",
    );
    Ok(())
}
