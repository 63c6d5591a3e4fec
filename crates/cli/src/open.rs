//! Opening databases for commands.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use anyhow::Result;
use clap::ValueEnum;
use isomer_db::{Builder, Database, EngineKind, MasterKey, Memory};

/// The memory that the command line gives; all databases that a command opens share it.
static MEMORY: OnceLock<Memory> = OnceLock::new();

/// Lets all databases that are opened from here on share so many bytes.
pub fn set_memory(bytes: usize) {
    // Only the command line sets it, once.
    let _ = MEMORY.set(Memory::new(bytes));
}

/// The folder that queries may read files from, where the command line gives one.
static CSV_FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Lets the queries of all databases that are opened from here on read files of a folder.
pub fn set_csv_folder(folder: PathBuf) {
    // Only the command line sets it, once.
    let _ = CSV_FOLDER.set(folder);
}

/// How much of the changes is kept for slow readers, where the command line says it.
static HOLD_CHANGES: OnceLock<u64> = OnceLock::new();

/// A slow reader is waited for no longer than this.
const HOLD_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Lets all databases that are opened from here on keep so many bytes of changes for slow readers.
pub fn set_hold_changes(bytes: u64) {
    // Only the command line sets it, once.
    let _ = HOLD_CHANGES.set(bytes);
}

/// The engine that the command line gives.
static ENGINE: OnceLock<EngineKind> = OnceLock::new();

/// Engines that the command line can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Our own log-structured engine
    Store,
    /// redb
    Redb,
    /// In memory: nothing is kept
    Memory,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Store => Self::Store,
            Engine::Redb => Self::Redb,
            Engine::Memory => Self::Memory,
        }
    }
}

/// Lets all databases that are opened from here on be of an engine.
pub fn set_engine(engine: EngineKind) {
    // Only the command line sets it, once.
    let _ = ENGINE.set(engine);
}

/// How long versions are kept, where the command line says it.
static KEEP_VERSIONS: OnceLock<Duration> = OnceLock::new();

/// Lets all databases that are opened from here on keep versions for so long.
pub fn set_keep_versions(time: Duration) {
    // Only the command line sets it, once.
    let _ = KEEP_VERSIONS.set(time);
}

/// How fast work in the background may write, where the command line says it.
static BACKGROUND_RATE: OnceLock<u64> = OnceLock::new();

/// Lets all databases that are opened from here on write in the background at most so many bytes per second.
pub fn set_background_rate(bytes_per_second: u64) {
    // Only the command line sets it, once.
    let _ = BACKGROUND_RATE.set(bytes_per_second);
}

/// The engine that the command line gives, or the default one.
pub fn engine() -> EngineKind {
    ENGINE.get().copied().unwrap_or_default()
}

/// The environment variable that may hold the key of encrypted databases.
pub const KEY_VARIABLE: &str = "ISOMER_KEY";

/// The file that the command line names for the key.
static KEY_FILE: OnceLock<PathBuf> = OnceLock::new();

/// Lets all databases that are opened from here on be encrypted with the key in a file.
pub fn set_key_file(file: PathBuf) {
    // Only the command line sets it, once.
    let _ = KEY_FILE.set(file);
}

/// The key of encrypted databases, where one is given: in a file, else in the environment. Never an argument: others on
/// the machine can read those.
pub fn key() -> Result<Option<MasterKey>> {
    match KEY_FILE.get() {
        Some(file) => Ok(Some(MasterKey::from_file(file)?)),
        None if std::env::var_os(KEY_VARIABLE).is_some() => {
            Ok(Some(MasterKey::from_env(KEY_VARIABLE)?))
        }
        None => Ok(None),
    }
}

/// How databases in directories are opened here.
pub fn keyed_builder() -> Result<Builder> {
    let builder = builder();
    Ok(match key()? {
        Some(key) => builder.key(key),
        None => builder,
    })
}

/// How databases are opened here, but for their key.
pub fn builder() -> Builder {
    let builder = match MEMORY.get() {
        Some(memory) => Database::builder().shared_memory(memory),
        None => Database::builder(),
    };
    let builder = match KEEP_VERSIONS.get() {
        Some(time) => builder.keep_versions(*time),
        None => builder,
    };
    let builder = match ENGINE.get() {
        Some(engine) => builder.engine(*engine),
        None => builder,
    };
    let builder = match HOLD_CHANGES.get() {
        Some(bytes) => builder.hold_changes(*bytes, HOLD_TIME),
        None => builder,
    };
    let builder = match BACKGROUND_RATE.get() {
        Some(rate) => builder.background_bytes_per_second(*rate),
        None => builder,
    };
    match CSV_FOLDER.get() {
        Some(folder) => builder.csv_folder(folder),
        None => builder,
    }
}

/// How databases are opened that share one budget, also where the command line gives none.
pub fn shared_builder() -> Builder {
    match MEMORY.get() {
        Some(_) => builder(),
        None => builder().shared_memory(&Memory::of_this_machine()),
    }
}

/// Opens a database, or makes it.
pub fn open(path: &Path) -> Result<Database> {
    Ok(keyed_builder()?.open(path)?)
}

/// Opens a database that must be there.
pub fn open_existing(path: &Path) -> Result<Database> {
    Ok(keyed_builder()?.create(false).open(path)?)
}

/// Opens an empty database in memory.
pub fn open_in_memory() -> Result<Database> {
    Ok(builder().open_in_memory()?)
}

/// A number of bytes: `64MiB`, `1.5 GiB`, `500MB`, `1073741824`.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("`{text}` is no size: write 512MiB, 2GiB, 500MB or a number of bytes");
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let bytes = number * unit as f64;
    // Exact far beyond any memory.
    if bytes < 1.0 || bytes > (1_u64 << 52) as f64 {
        return Err(wrong());
    }
    Ok(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1", 1),
            ("64MiB", 64 << 20),
            ("1.5 GiB", 3 << 29),
            ("2g", 2 << 30),
            ("500MB", 500_000_000),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1 parsec", "0", "1e99GiB"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
