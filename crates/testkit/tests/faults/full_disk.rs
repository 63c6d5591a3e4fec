//! A disk of a few megabytes runs out of space.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail, ensure};
use isomer_db::{Database, ErrorKind, Sharing, params};
use isomer_testkit::{
    crash,
    harness::{Harness, Outcome, Verdict},
};

pub fn cases(harness: &mut Harness) {
    for (sharing, of) in [
        (Sharing::Exclusive, ""),
        (Sharing::Shared, "_of_a_shared_database"),
    ] {
        harness.case(
            format!("a_full_disk{of}_refuses_commits_and_recovers"),
            move || a_full_disk_refuses_commits_and_recovers(sharing),
        );
        harness.case(
            format!("a_full_disk{of}_refuses_one_large_transaction"),
            move || a_full_disk_refuses_one_large_transaction(sharing),
        );
    }
}

/// A file system in memory, unmounted when dropped.
pub struct SmallDisk {
    _folder: tempfile::TempDir,
    /// Where it is mounted.
    pub path: PathBuf,
}

impl SmallDisk {
    /// Mounts one of `mebibytes`; `None` if that needs privileges that are missing.
    pub fn mount(mebibytes: u32) -> Result<Option<Self>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("disk");
        fs::create_dir(&path)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"])
            .arg(&path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Ok(Some(Self {
                _folder: folder,
                path,
            })),
            _ => Ok(None),
        }
    }

    /// Refuses all writes from now on, root's too.
    pub fn make_read_only(&self) -> Result<()> {
        let done = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(&self.path)
            .status()?;
        ensure!(done.success(), "remounting {}", self.path.display());
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount")
            .arg("--lazy")
            .arg(&self.path)
            .status()
            .ok();
    }
}

fn skipped() -> Outcome {
    Ok(Verdict::Skipped("needs root, to mount a small disk".into()))
}

/// Fills the rest of the disk; releases it on drop.
fn ballast(path: &Path, bytes: usize) -> Result<PathBuf> {
    let file = path.join("ballast");
    fs::write(&file, vec![0x5A; bytes])?;
    Ok(file)
}

fn open(path: &Path, sharing: Sharing) -> Result<Database, isomer_db::Error> {
    Database::builder().sharing(sharing).open(path)
}

fn put(db: &Database, key: i64) -> Result<(), isomer_db::Error> {
    let params = params! { "k" => key, "text" => format!("{key} {}", "x".repeat(10_000)) };
    db.query(("CREATE (:D {_key: $k, text: $text})", params))
        .map(drop)
}

fn keys(db: &Database) -> Result<Vec<i64>> {
    Ok(db
        .query("MATCH (d:D) WHERE size(d.text) > 10000 RETURN d._key AS k ORDER BY k")?
        .deserialize()?)
}

fn a_full_disk_refuses_commits_and_recovers(sharing: Sharing) -> Outcome {
    let Some(disk) = SmallDisk::mount(24)? else {
        return skipped();
    };
    let ballast = ballast(&disk.path, 10 << 20)?;
    let path = disk.path.join("db");
    let db = open(&path, sharing)?;
    let mut acknowledged = Vec::new();
    let full = loop {
        let key = acknowledged.len() as i64;
        match put(&db, key) {
            Ok(()) => acknowledged.push(key),
            Err(error) => break error,
        }
        ensure!(key < 5_000, "the disk never ran full");
    };
    ensure!(
        matches!(
            full.kind(),
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown
        ),
        "{:?}: {full}",
        full.kind()
    );
    ensure!(
        acknowledged.len() > 20,
        "full after {} documents: {full}",
        acknowledged.len()
    );
    println!("after {} documents: {full}", acknowledged.len());

    // Stored data stays readable; if an outcome is unknown, one more transaction may exist.
    let found = keys(&db)?;
    ensure!(
        found.starts_with(&acknowledged) && found.len() <= acknowledged.len() + 1,
        "{} of {} readable",
        found.len(),
        acknowledged.len()
    );

    fs::remove_file(ballast)?;
    let next = 10_000;
    let db = match put(&db, next) {
        Ok(()) => db,
        Err(error) if full.kind() == ErrorKind::OutcomeUnknown => {
            println!("asks to be opened again: {error}");
            drop(db);
            let db = open(&path, sharing)?;
            put(&db, next)?;
            db
        }
        Err(error) => bail!("writes do not go on when there is room: {error}"),
    };
    drop(db);
    let db = open(&path, sharing)?;
    let found = keys(&db)?;
    ensure!(
        found.starts_with(&acknowledged) && found.last() == Some(&next),
        "{} after opening again",
        found.len()
    );
    drop(db);
    crash::check(&path)?;
    Ok(Verdict::Passed)
}

fn a_full_disk_refuses_one_large_transaction(sharing: Sharing) -> Outcome {
    let Some(disk) = SmallDisk::mount(16)? else {
        return skipped();
    };
    let path = disk.path.join("db");
    let db = open(&path, sharing)?;
    (0..10).try_for_each(|key| put(&db, key))?;
    let large = db.transact(|tx| {
        for key in 100..5_000_i64 {
            let params = params! { "k" => key, "text" => "y".repeat(20_000) };
            tx.query(("CREATE (:D {_key: $k, text: $text})", params))?;
        }
        Ok::<(), isomer_db::Error>(())
    });
    let Err(error) = large else {
        bail!("100 MB fit on a disk of 16")
    };
    let kind = error.kind();
    ensure!(
        matches!(
            kind,
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Limit
        ),
        "{kind:?}: {error}"
    );
    println!("{error}");
    ensure!(
        keys(&db)? == (0..10).collect::<Vec<i64>>(),
        "the refused transaction left something"
    );
    let db = match put(&db, 10) {
        Ok(()) => db,
        Err(_) if kind == ErrorKind::OutcomeUnknown => {
            drop(db);
            open(&path, sharing)?
        }
        Err(error) => bail!("small writes do not go on: {error}"),
    };
    drop(db);
    ensure!(keys(&open(&path, sharing)?)?.len() >= 10);
    crash::check(&path)?;
    Ok(Verdict::Passed)
}
