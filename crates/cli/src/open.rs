//! Opening databases for commands.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use isomer_db::{
    Builder, Database, EngineKind, Error, MasterKey, Memory, Sharing, SharingProcess,
    internals::is_in_use,
};
use isomer_sync::FileDownloads;

/// The memory budget given on the command line; all databases of a command share it.
static MEMORY: OnceLock<Memory> = OnceLock::new();

/// Sets the shared memory budget of all databases that are opened from here on.
pub fn set_memory(bytes: usize) {
    // Set at most once, from the command line.
    let _ = MEMORY.set(Memory::new(bytes));
}

/// The folder that queries may read files from, if the command line gives one.
static CSV_FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Lets the queries of all databases that are opened from here on read files of a folder.
pub fn set_csv_folder(folder: PathBuf) {
    // Set at most once, from the command line.
    let _ = CSV_FOLDER.set(folder);
}

/// The addresses that queries may read files from, and the certificates for them.
static CSV_URLS: OnceLock<(Vec<String>, Option<PathBuf>)> = OnceLock::new();

/// Checks an address below which queries may read files.
pub fn parse_csv_url(text: &str) -> Result<String, isomer_db::Error> {
    let client = Arc::new(FileDownloads::default());
    Database::builder().csv_urls([text], client)?;
    Ok(text.to_owned())
}

/// Lets the queries of all databases that are opened from here on read files at these addresses, which
/// [`parse_csv_url`] has checked.
pub fn set_csv_urls(urls: Vec<String>, certificates: Option<PathBuf>) {
    // Set at most once, from the command line.
    let _ = CSV_URLS.set((urls, certificates));
}

/// The limit on retained changes, if the command line gives one.
static HOLD_CHANGES: OnceLock<u64> = OnceLock::new();

/// Maximum time for which changes are retained for a slow reader.
const CHANGE_RETENTION_TIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Sets the limit on retained changes of all databases that are opened from here on.
pub fn set_change_retention(bytes: u64) {
    // Set at most once, from the command line.
    let _ = HOLD_CHANGES.set(bytes);
}

/// The engine that the command line gives.
static ENGINE: OnceLock<EngineKind> = OnceLock::new();

/// Storage engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// The LSM engine (in version 0.1.0: store)
    #[value(alias = "store")]
    Lsm,
    /// redb
    Redb,
    /// In memory: nothing is stored on disk
    Memory,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Lsm => Self::Lsm,
            Engine::Redb => Self::Redb,
            Engine::Memory => Self::Memory,
        }
    }
}

/// Sets the engine of all databases that are opened from here on.
pub fn set_engine(engine: EngineKind) {
    // Set at most once, from the command line.
    let _ = ENGINE.set(engine);
}

/// Retention time of versions, if the command line gives one.
static KEEP_VERSIONS: OnceLock<Duration> = OnceLock::new();

/// Sets the retention time of versions of all databases that are opened from here on.
pub fn set_keep_versions(time: Duration) {
    // Set at most once, from the command line.
    let _ = KEEP_VERSIONS.set(time);
}

/// Limit on background writes, if the command line gives one.
static BACKGROUND_RATE: OnceLock<u64> = OnceLock::new();

/// Limits the background writes of all databases that are opened from here on, in bytes per second.
pub fn set_background_rate(bytes_per_second: u64) {
    // Set at most once, from the command line.
    let _ = BACKGROUND_RATE.set(bytes_per_second);
}

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SharingOption {
    /// Other processes may have it open, too; a database that was not shared becomes a shared one
    Shared,
    /// By this process alone
    Exclusive,
}

/// Whether other processes may have the databases open at the same time, if the command line says so.
static SHARING: OnceLock<Sharing> = OnceLock::new();

/// Sets how all databases are opened from here on.
pub fn set_sharing(sharing: SharingOption) {
    // Set at most once, from the command line.
    let _ = SHARING.set(match sharing {
        SharingOption::Shared => Sharing::Shared,
        SharingOption::Exclusive => Sharing::Exclusive,
    });
}

/// Whether the command line says how databases are opened.
pub fn sharing() -> Option<Sharing> {
    SHARING.get().copied()
}

/// The engine that the command line gives.
pub fn engine_option() -> Option<EngineKind> {
    ENGINE.get().copied()
}

/// The engine that the command line gives, or the default one.
pub fn engine() -> EngineKind {
    engine_option().unwrap_or_default()
}

/// The environment variable that may hold the key of encrypted databases.
pub const KEY_VARIABLE: &str = "ISOMER_KEY";

/// The key file given on the command line.
static KEY_FILE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the key file of all databases that are opened from here on.
pub fn set_key_file(file: PathBuf) {
    // Set at most once, from the command line.
    let _ = KEY_FILE.set(file);
}

/// The key of encrypted databases, if one is given: in a file, otherwise in the environment. Never an argument, because
/// other users of the machine can read arguments.
pub fn key() -> Result<Option<MasterKey>> {
    match KEY_FILE.get() {
        Some(file) => Ok(Some(MasterKey::from_file(file)?)),
        None if std::env::var_os(KEY_VARIABLE).is_some() => {
            Ok(Some(MasterKey::from_env(KEY_VARIABLE)?))
        }
        None => Ok(None),
    }
}

/// A builder with the options of the command line.
pub fn keyed_builder() -> Result<Builder> {
    let builder = builder();
    Ok(match key()? {
        Some(key) => builder.key(key),
        None => builder,
    })
}

/// Like [`builder`], but without the key.
pub fn builder() -> Builder {
    let builder = Database::builder()
        .sharing(sharing().unwrap_or(Sharing::AsStored))
        .process_kind("cli");
    let builder = match MEMORY.get() {
        Some(memory) => builder.shared_memory(memory),
        None => builder,
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
        Some(bytes) => builder.change_retention(*bytes, CHANGE_RETENTION_TIME),
        None => builder,
    };
    let builder = match BACKGROUND_RATE.get() {
        Some(rate) => builder.background_bytes_per_second(*rate),
        None => builder,
    };
    let builder = match CSV_FOLDER.get() {
        Some(folder) => builder.csv_folder(folder),
        None => builder,
    };
    match CSV_URLS.get() {
        Some((urls, certificates)) if !urls.is_empty() => {
            let certificates = certificates.clone();
            let client = Arc::new(FileDownloads { certificates });
            let allowed = builder.csv_urls(urls, client);
            allowed.expect("the command line's addresses were checked when it was parsed")
        }
        _ => builder,
    }
}

/// A builder for databases that share one budget, even if the command line gives none.
pub fn shared_builder() -> Builder {
    match MEMORY.get() {
        Some(_) => builder(),
        None => builder().shared_memory(&Memory::of_this_machine()),
    }
}

/// Opens a database; creates it if there is none.
pub fn open(path: &Path) -> Result<Database> {
    let opened = keyed_builder()?.open(path);
    opened.map_err(|error| in_use(path, error))
}

/// Opens an existing database.
pub fn open_existing(path: &Path) -> Result<Database> {
    let opened = keyed_builder()?.create(false).open(path);
    opened.map_err(|error| match path.try_exists() {
        Ok(false) => missing(path),
        _ => in_use(path, error),
    })
}

/// Opens a database that is, or becomes, a replica; creates it if there is none. Only one process at a time can have it
/// open.
pub fn open_replica(path: &Path) -> Result<Database> {
    let sharing = sharing().unwrap_or(Sharing::Exclusive);
    let opened = keyed_builder()?.sharing(sharing).open(path);
    opened.map_err(|error| in_use(path, error))
}

/// Refuses work that needs a database alone, if other processes have it open.
pub fn refuse_others(path: &Path) -> Result<()> {
    if Sharing::at(path) != Some(Sharing::Shared) {
        return Ok(());
    }
    match processes(path)? {
        others if others.is_empty() => Ok(()),
        others => Err(needs_alone(path, &others)),
    }
}

fn needs_alone(path: &Path, others: &[SharingProcess]) -> anyhow::Error {
    let others: Vec<_> = others.iter().map(described).collect();
    anyhow!(
        "the database `{}` is in use, and this needs it alone: end these processes: {}",
        path.display(),
        others.join(", ")
    )
}

/// Adds to the error for a database that is open elsewhere why it excludes this process, and what to do: a shared one
/// names its processes.
pub fn in_use(path: &Path, error: Error) -> anyhow::Error {
    let (true, Some(engine)) = (is_in_use(&error), EngineKind::at(path)) else {
        return error.into();
    };
    if engine != EngineKind::Lsm {
        return anyhow!(
            "{error}\n  one process at a time can have a database of the engine {} open: export it, and import it into \
             one of the engine {}",
            engine.name(),
            EngineKind::Lsm.name()
        );
    }
    let argument = crate::export::quoted(&path.display().to_string());
    if Sharing::at(path) != Some(Sharing::Shared) {
        let advice = sharing_advice(&argument, Sharing::check_folder(path));
        return anyhow!("{error}\n  {advice}");
    }
    match processes(path) {
        Ok(others) if !others.is_empty() => needs_alone(path, &others),
        // One process has it exclusively, or an import needs it alone.
        _ => anyhow!(
            "{error}, wait until its import ends, or open it there as a shared one; a replica can be open in one process \
             at a time"
        ),
    }
}

/// Why one process at a time can have an exclusive database open, and what to do.
fn sharing_advice(argument: &str, allowed: Result<(), Error>) -> String {
    match allowed {
        Ok(()) => format!(
            "it is an exclusive database, which one process at a time can have open: close it, and run \
             `isomer share {argument}`, unless it is a replica"
        ),
        Err(reason) => format!("one process at a time can have a database open there: {reason}"),
    }
}

/// The other processes that have a shared database open.
fn processes(path: &Path) -> Result<Vec<SharingProcess>> {
    let builder = keyed_builder()?.sharing(Sharing::Shared).create(false);
    let db = builder.open(path)?;
    let mut processes = db.processes()?;
    db.close()?;
    processes.retain(|process| process.pid != std::process::id());
    Ok(processes)
}

/// A process in a sentence.
fn described(process: &SharingProcess) -> String {
    format!("{} ({})", process.pid, process.kind)
}

/// The error for a path without a database: unlike the library's it names the commands that create one.
fn missing(path: &Path) -> anyhow::Error {
    let (path, argument) = (
        path.display(),
        crate::export::quoted(&path.display().to_string()),
    );
    anyhow!(
        "there is no database at `{path}`: check the path, or create it with \
         `isomer shell {argument}` or `isomer import {argument} …`"
    )
}

/// Opens an empty database in memory.
pub fn open_in_memory() -> Result<Database> {
    Ok(builder().open_in_memory()?)
}

/// A number of bytes: `64MiB`, `1.5 GiB`, `500MB`, `1073741824`.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("invalid size `{text}`: write 512MiB, 2GiB, 500MB or a number of bytes");
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
    // Exact far beyond any memory size.
    if bytes < 1.0 || bytes > (1_u64 << 52) as f64 {
        return Err(wrong());
    }
    Ok(bytes as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_database_says_why() {
        let said = sharing_advice("people", Ok(()));
        assert!(said.contains("`isomer share people`"), "{said}");
        let missing = Sharing::check_folder("/this/folder/does/not/exist");
        let said = sharing_advice("people", missing);
        assert!(
            said.contains("open there: ") && said.contains("/this/folder/does/not/exist"),
            "{said}"
        );
    }

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
