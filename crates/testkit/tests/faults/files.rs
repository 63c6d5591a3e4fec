//! Opening things that are not a database, not readable, or missing.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::{Result, ensure};
use isomer_db::{Database, ErrorKind, Sharing};
use isomer_testkit::harness::{Harness, Outcome, Verdict};

use crate::{full_disk::SmallDisk, refused};

const UNUSABLE: [ErrorKind; 4] = [
    ErrorKind::Invalid,
    ErrorKind::Corrupt,
    ErrorKind::Unavailable,
    ErrorKind::NotFound,
];

pub fn cases(harness: &mut Harness) {
    harness.case(
        "a_file_instead_of_a_folder_is_refused",
        a_file_instead_of_a_folder_is_refused,
    );
    harness.case(
        "a_folder_of_something_else_is_refused_and_untouched",
        a_folder_of_something_else_is_refused_and_untouched,
    );
    harness.case("an_empty_data_file_is_refused", || foreign_data_file(b""));
    harness.case("a_data_file_of_random_bytes_is_refused", || {
        foreign_data_file(&[0xA5; 100_000])
    });
    harness.case(
        "an_empty_folder_becomes_a_database",
        an_empty_folder_becomes_a_database,
    );
    harness.case(
        "a_missing_database_is_not_made_unless_asked",
        a_missing_database_is_not_made_unless_asked,
    );
    harness.case(
        "awkward_paths_work_or_are_refused",
        awkward_paths_work_or_are_refused,
    );
    harness.case(
        "opening_an_exclusive_database_twice_in_one_process_is_refused",
        opening_an_exclusive_database_twice_in_one_process_is_refused,
    );
    harness.case(
        "a_shared_database_may_be_opened_twice_in_one_process",
        a_shared_database_may_be_opened_twice_in_one_process,
    );
    harness.case(
        "a_folder_that_cannot_be_written_is_a_clear_error",
        a_folder_that_cannot_be_written_is_a_clear_error,
    );
}

/// Names and contents of all files below `path`.
fn contents(path: &Path) -> Result<Vec<(std::path::PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(contents(&path)?);
        } else {
            found.push((path.clone(), fs::read(&path)?));
        }
    }
    found.sort();
    Ok(found)
}

fn a_file_instead_of_a_folder_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"hello"),
        ("sqlite", b"SQLite format 3\0"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, bytes)?;
        refused(Database::open(&path), &UNUSABLE, name)?;
        ensure!(fs::read(&path)? == bytes, "the file was changed");
    }
    Ok(Verdict::Passed)
}

fn a_folder_of_something_else_is_refused_and_untouched() -> Outcome {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("holiday.jpg"), b"not a database")?;
    fs::create_dir(folder.path().join("letters"))?;
    fs::write(folder.path().join("letters/one.txt"), b"dear reader")?;
    let before = contents(folder.path())?;
    refused(Database::open(folder.path()), &UNUSABLE, "database")?;
    ensure!(contents(folder.path())? == before, "the folder was changed");
    Ok(Verdict::Passed)
}

/// Replaces the largest file of a database.
fn foreign_data_file(bytes: &[u8]) -> Outcome {
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("db");
        let db = Database::builder().sharing(sharing).open(&path)?;
        db.query("CREATE (:A {n: 1})")?;
        db.close()?;
        let data = contents(&path)?
            .into_iter()
            .max_by_key(|(_, bytes)| bytes.len())
            .map(|(path, _)| path);
        fs::write(data.expect("a database has files"), bytes)?;
        refused(Database::open(&path), &UNUSABLE, "")?;
    }
    Ok(Verdict::Passed)
}

fn an_empty_folder_becomes_a_database() -> Outcome {
    let folder = tempfile::tempdir()?;
    Database::open(folder.path())?.query("CREATE (:A {n: 1})")?;
    let n: i64 = Database::open(folder.path())?
        .query("MATCH (a:A) RETURN a.n AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 1);
    Ok(Verdict::Passed)
}

fn a_missing_database_is_not_made_unless_asked() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("none");
    refused(
        Database::builder().create(false).open(&path),
        &[ErrorKind::NotFound, ErrorKind::Unavailable],
        "none",
    )?;
    ensure!(!path.exists(), "it was made");
    Ok(Verdict::Passed)
}

fn awkward_paths_work_or_are_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    for name in [
        "with spaces",
        "ünïcödé 名前",
        "quote'\"",
        "-dash",
        "new\nline",
    ] {
        let path = folder.path().join(name);
        Database::open(&path)?.query("CREATE (:A)")?;
        let n: i64 = Database::open(&path)?
            .query("MATCH (a:A) RETURN count(*) AS n")?
            .single()?
            .get("n")?;
        ensure!(n == 1, "{name}: {n}");
    }
    let long = folder.path().join("x".repeat(4_096));
    refused(Database::open(long), &UNUSABLE, "")?;
    refused(
        Database::open(folder.path().join("nul\0nul")),
        &UNUSABLE,
        "",
    )?;
    let knot = folder.path().join("knot");
    std::os::unix::fs::symlink(&knot, &knot)?;
    refused(Database::open(&knot), &UNUSABLE, "")?;
    Ok(Verdict::Passed)
}

fn a_shared_database_may_be_opened_twice_in_one_process() -> Outcome {
    let folder = tempfile::tempdir()?;
    let open = || {
        let builder = Database::builder().sharing(Sharing::Shared);
        builder.open(folder.path())
    };
    let (first, second) = (open()?, open()?);
    first.query("CREATE (:A)")?;
    let n: i64 = second
        .query("MATCH (a:A) RETURN count(*) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 1, "{n}");
    drop(first);
    second.query("CREATE (:A)")?;
    Ok(Verdict::Passed)
}

fn opening_an_exclusive_database_twice_in_one_process_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let builder = Database::builder().sharing(Sharing::Exclusive);
    let first = builder.open(folder.path())?;
    refused(
        Database::open(folder.path()),
        &[ErrorKind::Unavailable],
        &std::process::id().to_string(),
    )?;
    first.query("CREATE (:A)")?;
    drop(first);
    Database::open(folder.path())?;
    Ok(Verdict::Passed)
}

fn a_folder_that_cannot_be_written_is_a_clear_error() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("locked");
    fs::create_dir(&path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o500))?;
    if fs::write(path.join("probe"), b"").is_err() {
        refused(Database::open(&path), &UNUSABLE, "locked")?;
        return Ok(Verdict::Passed);
    }
    // Permissions do not restrict root; a read-only mount does.
    let Some(disk) = SmallDisk::mount(16)? else {
        return Ok(Verdict::Skipped(
            "needs root with permission to mount, or a user other than root".into(),
        ));
    };
    let old = disk.path.join("old");
    Database::open(&old)?.query("CREATE (:A {n: 1})")?;
    disk.make_read_only()?;
    refused(Database::open(disk.path.join("new")), &UNUSABLE, "new")?;
    refused(Database::open(&old), &UNUSABLE, "old")?;
    let reader = Database::builder().read_only(true).open(&old)?;
    let n: i64 = reader
        .query("MATCH (a:A) RETURN a.n AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 1, "{n}");
    refused(
        reader.query("CREATE (:A)"),
        &[ErrorKind::Denied, ErrorKind::Unavailable],
        "",
    )?;
    Ok(Verdict::Passed)
}
