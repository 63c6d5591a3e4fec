//! `isomer backup`, `isomer restore`, `isomer checkpoint`, `isomer rotate-key`, `isomer compact`.

use std::{io::IsTerminal, path::PathBuf, time::Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use isomer_db::{
    Database, MasterKey, RestorePoint, internals::DatabaseInternals as _, jiff::Timestamp,
};

use crate::{
    open,
    style::{bytes, count, counted, duration, line},
};

/// Options of `isomer backup`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer backup people.db /backups/people              # the first one copies everything, the next ones what is new
  isomer backup people.db /backups/people --keep 14    # and forgets all but the last fourteen
  isomer backup --list /backups/people

The database may be open elsewhere. An exclusive one (`isomer share --help`), or a replica, is backed up by the program or the
server that has it open.")]
pub struct BackupOptions {
    /// The database
    #[arg(required_unless_present = "list")]
    pub db: Option<PathBuf>,
    /// Folder of backups of this database; created if it is missing
    #[arg(required_unless_present = "list")]
    pub target: Option<PathBuf>,
    /// Afterwards deletes all backups in the folder except the last N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: Option<u64>,
    /// Lists the backups in a folder instead
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["db", "target", "keep"])]
    pub list: Option<PathBuf>,
    /// Shows no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `isomer restore`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer restore /backups/people people.db
  isomer restore /backups/people people.db --to-version 181223
  isomer restore /backups/people people.db --to-time 2026-11-20T18:30:00Z

Any version or time between the oldest and the newest backup can be restored, as far as the log in the backups reaches
(`isomer backup --list`). All checksums are verified.")]
pub struct RestoreArguments {
    /// Folder of backups
    pub source: PathBuf,
    /// The database to create: an empty or missing folder
    pub target: PathBuf,
    /// Restores this version instead of the newest
    #[arg(long, value_name = "N", conflicts_with = "to_time")]
    pub to_version: Option<u64>,
    /// Restores the state at this time, such as 2026-11-20T18:30:00Z. Commits after the clock was set back have the
    /// time of the last one before that, until the clock has caught up: --to-version distinguishes them
    #[arg(long, value_name = "TIME")]
    pub to_time: Option<Timestamp>,
    /// Shows no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Options of `isomer rotate-key`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  openssl rand -hex 32 > new.key && chmod 600 new.key
  isomer --key-file old.key rotate-key people.db --new-key-file new.key

The database must not be open. Existing data stays as it is and opens with the new key; later writes are
encrypted with a new data key. Earlier backups keep the key with which they were made.")]
pub struct RotateOptions {
    /// The encrypted database
    pub db: PathBuf,
    /// File with the new key: 32 bytes, or 64 hexadecimal digits
    #[arg(long, value_name = "FILE", required_unless_present = "new_key_env")]
    pub new_key_file: Option<PathBuf>,
    /// Environment variable with the new key: 64 hexadecimal digits
    #[arg(long, value_name = "NAME", conflicts_with = "new_key_file")]
    pub new_key_env: Option<String>,
}

/// Options of `isomer compact`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer compact people.db

The engine compacts by itself when it pays. This command frees the rest of the space, after large deletions for example.")]
pub struct CompactOptions {
    /// The database
    pub db: PathBuf,
}

/// Options of `isomer checkpoint`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  isomer checkpoint people.db /snapshots/people-before-import

The copy is a separate database. On the same file system its tables are hard links to the same files: it is created
immediately, and takes disk space only as the two diverge. For copies on another disk, see `isomer backup`.")]
pub struct CheckpointOptions {
    /// The database
    pub db: PathBuf,
    /// The copy to create: an empty or missing folder
    pub target: PathBuf,
}

/// Runs `isomer checkpoint`.
pub fn checkpoint(options: &CheckpointOptions) -> Result<()> {
    let start = Instant::now();
    let db = open::open_existing(&options.db)?;
    let bar = spinner("copying", false)?;
    let made = db.checkpoint(&options.target);
    bar.finish_and_clear();
    made?;
    let version = db.version()?;
    db.close()?;
    line(&format!(
        "{} is a copy of {} at version {} ({})",
        options.target.display(),
        options.db.display(),
        count(version),
        duration(start.elapsed())
    ))?;
    Ok(())
}

/// Runs `isomer compact`.
pub fn compact(options: &CompactOptions) -> Result<()> {
    let start = Instant::now();
    let db = open::open_existing(&options.db)?;
    let size = || -> Result<u64> { Ok(db.store()?.engine().statistics()?.stored_bytes) };
    let before = size()?;
    let bar = spinner("merging tables", false)?;
    let compacted = db.compact();
    bar.finish_and_clear();
    compacted?;
    let after = size()?;
    db.close()?;
    line(&format!(
        "{}: {} before, {} now ({})",
        options.db.display(),
        bytes(before),
        bytes(after),
        duration(start.elapsed())
    ))?;
    Ok(())
}

/// Runs `isomer backup`.
pub fn backup(options: &BackupOptions) -> Result<()> {
    if let Some(folder) = &options.list {
        return list(folder);
    }
    let (Some(db), Some(target)) = (&options.db, &options.target) else {
        bail!("give a database and a folder");
    };
    let start = Instant::now();
    let db = open::open_existing(db)?;
    let bar = bar(options.quiet)?;
    let made = db.backup(target).progress(|done, total| {
        bar.set_length(total.max(1));
        bar.set_position(done);
    });
    let made = made.run();
    bar.finish_and_clear();
    let made = made?;
    db.close()?;
    line(&format!(
        "backup {} in {} holds version {}: {} copied, {} shared with earlier ones, {}",
        made.number,
        target.display(),
        count(made.version),
        bytes(made.copied_bytes),
        bytes(made.shared_bytes),
        duration(start.elapsed())
    ))?;
    if let Some(keep) = options.keep {
        let gone = Database::keep_backups(target, usize::try_from(keep)?)?;
        if gone > 0 {
            line(&format!(
                "{} forgotten",
                counted(gone as u64, "older backup")
            ))?;
        }
    }
    Ok(())
}

fn list(folder: &std::path::Path) -> Result<()> {
    for backup in Database::backups(folder)? {
        let time = i64::try_from(backup.time_ms)
            .ok()
            .and_then(|time| Timestamp::from_millisecond(time).ok())
            .map_or_else(String::new, |time| time.to_string());
        line(&format!(
            "{:>5}  {time}  version {}  {}",
            backup.number,
            count(backup.version),
            bytes(backup.bytes)
        ))?;
    }
    Ok(())
}

/// Runs `isomer restore`.
pub fn restore(options: &RestoreArguments) -> Result<()> {
    let start = Instant::now();
    let point = match (options.to_version, options.to_time) {
        (Some(version), _) => RestorePoint::Version(version),
        (None, Some(time)) => RestorePoint::Time(
            u64::try_from(time.as_millisecond()).context("no backup is older than 1970")?,
        ),
        (None, None) => RestorePoint::Newest,
    };
    let key = open::key()?;
    let bar = bar(options.quiet)?;
    let restoring = Database::restore(&options.source, &options.target)
        .point(point)
        .key(key)
        .progress(|done, total| {
            bar.set_length(total.max(1));
            bar.set_position(done);
        });
    let restored = restoring.run();
    bar.finish_and_clear();
    let restored = restored?;
    line(&format!(
        "{} is at version {}, from backup {} ({})",
        options.target.display(),
        count(restored.version),
        restored.backup,
        duration(start.elapsed())
    ))?;
    Ok(())
}

/// Runs `isomer rotate-key`.
pub fn rotate_key(options: &RotateOptions) -> Result<()> {
    let Some(old) = open::key()? else {
        bail!(
            "the current key is missing: give it by --key-file, or in the environment variable {}",
            open::KEY_VARIABLE
        );
    };
    let new = match (&options.new_key_file, &options.new_key_env) {
        (Some(path), _) => MasterKey::from_file(path)?,
        (None, Some(name)) => MasterKey::from_env(name)?,
        (None, None) => bail!("the new key is missing: give it by --new-key-file"),
    };
    open::refuse_others(&options.db)?;
    Database::rotate_key(&options.db, &old, &new)?;
    line(&format!(
        "{} opens with the new key from now on",
        options.db.display()
    ))?;
    Ok(())
}

fn draw_target(quiet: bool) -> ProgressDrawTarget {
    if quiet || !std::io::stderr().is_terminal() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr_with_hz(10)
    }
}

/// A spinner for work of unknown length.
fn spinner(what: &'static str, quiet: bool) -> Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(None, draw_target(quiet));
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}, {elapsed}")?);
    bar.set_message(what);
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    Ok(bar)
}

fn bar(quiet: bool) -> Result<ProgressBar> {
    let bar = ProgressBar::with_draw_target(Some(1), draw_target(quiet));
    let template = "{bar:30} {percent:>3}%  {bytes} of {total_bytes}  {eta} left";
    bar.set_style(ProgressStyle::with_template(template)?.progress_chars("━╸─"));
    Ok(bar)
}
