//! How embedded stores handle damage: `damage-peers [--trials N] [--seed S] [--systems a,b]`.
//!
//! Each trial starts from a database of 4,000 keys, partly rewritten and partly deleted, and closed. It flips
//! one bit of one of its files (in a non-zero area), or truncates one file; a child process opens the
//! database, reads every key, missing keys, and all of it in order, and compares. All files are hit equally
//! often. Prints one JSON line per outcome and system:
//!
//! | outcome | what |
//! |---|---|
//! | `refused` | opening returned an error |
//! | `error` | a read returned an error, and no result was wrong |
//! | `harmless` | every result was right |
//! | `wrong` | a result differed from what was written, without an error |
//! | `panic`, `killed` | the process panicked, or ended by a signal |
//! | `hang` | the process did not end within 20 seconds |

mod stores;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use stores::{SYSTEMS, Store, open};

/// Initial number of keys.
const KEYS: u64 = 4_000;
/// A process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Trials per database; the next one has other pairs.
const TRIALS_A_DATABASE: u64 = 100;
const OUTCOMES: [&str; 7] = ["refused", "error", "harmless", "wrong", "panic", "killed", "hang"];

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    pub fn below(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }
}

/// The final content of a database.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// One transaction: keys with their values, or none to delete.
pub type Batch = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The transactions that build a database, and its final content.
fn history(seed: u64) -> (Vec<Batch>, Pairs) {
    let mut random = Random(seed);
    let key = |number: u64| format!("key/{:016x}", Random(seed ^ number).next()).into_bytes();
    let mut batches: Vec<Batch> = Vec::new();
    let mut pairs = Pairs::new();
    let mut put = |batches: &mut Vec<Batch>, number: u64, value: Option<Vec<u8>>| {
        if batches.last().is_none_or(|batch| batch.len() >= 100) {
            batches.push(Batch::new());
        }
        match &value {
            Some(value) => drop(pairs.insert(key(number), value.clone())),
            None => drop(pairs.remove(&key(number))),
        }
        let batch = batches.last_mut().expect("there is one");
        batch.push((key(number), value));
    };
    let value = |random: &mut Random| {
        let len = if random.below(50) == 0 { 3_000 } else { 20 + random.below(100) };
        // Neither constant nor random: it compresses to about half.
        let word = random.next().to_le_bytes();
        (0..len).map(|at| if at % 16 < 8 { word[at as usize % 8] } else { random.next() as u8 }).collect::<Vec<u8>>()
    };
    for number in 0..KEYS {
        let value = value(&mut random);
        put(&mut batches, number, Some(value));
    }
    for _ in 0..KEYS / 4 {
        let number = random.below(KEYS);
        let value = (random.below(3) > 0).then(|| value(&mut random));
        put(&mut batches, number, value);
    }
    (batches, pairs)
}

/// Keys that do not exist.
fn absent(seed: u64) -> Vec<Vec<u8>> {
    (0..50).map(|number| format!("key/{:016x}", Random(!seed ^ number).next()).into_bytes()).collect()
}

/// Reads everything; `wrong` if a result is wrong, else `error` if a read failed.
fn read(store: &dyn Store, seed: u64, pairs: &Pairs) -> &'static str {
    let mut failed = false;
    for key in pairs.keys().chain(&absent(seed)) {
        match store.get(key) {
            Ok(value) if value.as_ref() == pairs.get(key) => {}
            Ok(_) => return "wrong",
            Err(_) => failed = true,
        }
    }
    match store.scan() {
        Ok(found) if found.iter().map(|(key, value)| (key, value)).eq(pairs.iter()) => {}
        Ok(_) => return "wrong",
        Err(_) => failed = true,
    }
    if failed { "error" } else { "harmless" }
}

/// The child process that reads one damaged database.
fn look(system: &str, folder: &Path, seed: u64) {
    let (_, pairs) = history(seed);
    let outcome = match open(system, folder, false) {
        Ok(store) => read(&*store, seed, &pairs),
        Err(_) => "refused",
    };
    println!("{outcome}");
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            found.extend(files(&path)?);
        } else if entry.metadata()?.len() > 0 && !["LOCK", "lock.mdb"].iter().any(|name| path.ends_with(name)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// One bit flip in a non-zero area, or one truncation.
fn damage(folder: &Path, random: &mut Random) -> Result<()> {
    let files = files(folder)?;
    let path = &files[random.below(files.len() as u64) as usize];
    let mut bytes = fs::read(path)?;
    if random.below(8) == 0 {
        bytes.truncate(random.below(bytes.len() as u64) as usize);
    } else {
        let mut at = random.below(bytes.len() as u64) as usize;
        for _ in 0..50 {
            let line = &bytes[at & !15..bytes.len().min((at & !15) + 16)];
            if line.iter().any(|byte| *byte != 0) {
                break;
            }
            at = random.below(bytes.len() as u64) as usize;
        }
        bytes[at] ^= 1 << random.below(8);
    }
    Ok(fs::write(path, bytes)?)
}

/// Runs the child process.
fn outcome(system: &str, folder: &Path, seed: u64) -> Result<&'static str> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--look", system, &seed.to_string()])
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if begun.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                return Ok("hang");
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    if status.signal().is_some() {
        return Ok("killed");
    }
    let mut told = String::new();
    let mut out = child.stdout.take().context("a pipe")?;
    std::io::Read::read_to_string(&mut out, &mut told)?;
    Ok(OUTCOMES.into_iter().find(|one| *one == told.trim()).unwrap_or("panic"))
}

fn try_system(system: &str, trials: u64, seed: u64) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("damage-{system}-{}", std::process::id()));
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut random = Random(seed);
    for trial in 0..trials {
        let history_seed = seed.wrapping_add(trial / TRIALS_A_DATABASE);
        let sound = folder.join("sound");
        if trial % TRIALS_A_DATABASE == 0 {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&sound)?;
            let store = open(system, &sound, true)?;
            let (batches, _) = history(history_seed);
            for batch in &batches {
                store.commit(batch)?;
            }
            store.close()?;
            let found = outcome(system, &sound, history_seed)?;
            if found != "harmless" {
                bail!("{system}: the sound database is {found}");
            }
        }
        let bad = folder.join("bad");
        let _ = fs::remove_dir_all(&bad);
        copy(&sound, &bad)?;
        damage(&bad, &mut random)?;
        *counts.entry(outcome(system, &bad, history_seed)?).or_default() += 1;
    }
    fs::remove_dir_all(&folder)?;
    for outcome in OUTCOMES {
        let count = counts.get(outcome).copied().unwrap_or(0);
        println!(r#"{{"bench": "damage", "system": "{system}", "case": "{outcome}", "value": {count}, "unit": "databases", "n": {trials}}}"#);
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [look_at, system, seed, folder] = &arguments[..]
        && look_at == "--look"
    {
        look(system, Path::new(folder), seed.parse()?);
        return Ok(());
    }
    let (mut trials, mut seed) = (1_000, 1);
    let mut systems: Vec<String> = SYSTEMS.map(str::to_owned).to_vec();
    for pair in arguments.chunks(2) {
        match pair {
            [name, value] if name == "--trials" => trials = value.parse()?,
            [name, value] if name == "--seed" => seed = value.parse()?,
            [name, value] if name == "--systems" => systems = value.split(',').map(str::to_owned).collect(),
            _ => bail!("usage: damage-peers [--trials N] [--seed S] [--systems {}]", SYSTEMS.join(",")),
        }
    }
    for system in &systems {
        try_system(system, trials, seed)?;
    }
    Ok(())
}
