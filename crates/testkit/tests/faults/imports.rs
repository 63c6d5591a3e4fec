//! Bad files: an error with cause and position, and nothing is partially imported. Files that are merely awkward are
//! read correctly.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use isomer_db::Database;
use isomer_testkit::{
    binary::{isomer, refused},
    crash,
    harness::{Harness, Outcome, Verdict, seed},
    random::Random,
};

use crate::full_disk::SmallDisk;

pub fn cases(harness: &mut Harness) {
    harness.case(
        "awkward_files_are_imported_right",
        awkward_files_are_imported_right,
    );
    harness.case(
        "bad_rows_stop_an_import_and_leave_nothing",
        bad_rows_stop_an_import_and_leave_nothing,
    );
    harness.case(
        "bad_rows_are_set_aside_when_asked",
        bad_rows_are_set_aside_when_asked,
    );
    harness.case(
        "a_relationship_without_its_end_stops_the_import",
        a_relationship_without_its_end_stops_the_import,
    );
    harness.case(
        "paths_that_are_not_files_are_refused",
        paths_that_are_not_files_are_refused,
    );
    harness.case(
        "a_full_disk_stops_an_import_and_leaves_nothing",
        a_full_disk_stops_an_import_and_leaves_nothing,
    );
}

/// A database and a file to import.
struct ImportCase {
    folder: tempfile::TempDir,
}

impl ImportCase {
    fn new() -> Result<Self> {
        Ok(Self {
            folder: tempfile::tempdir()?,
        })
    }

    fn db(&self) -> PathBuf {
        self.folder.path().join("db")
    }

    fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf> {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    }

    /// Imports nodes with the label `P`; returns the error if it was refused.
    fn nodes(&self, file: &Path, options: &[&str]) -> Result<Option<String>> {
        let mut command = isomer()?;
        command.current_dir(self.folder.path());
        command
            .arg("import")
            .arg(self.db())
            .arg("nodes")
            .arg(file)
            .args(["--label", "P", "--quiet"])
            .args(options);
        refused(&mut command)
    }

    fn count(&self) -> Result<u64> {
        if !self.db().exists() {
            return Ok(0);
        }
        Ok(Database::open(self.db())?
            .query("MATCH (p:P) RETURN count(*) AS n")?
            .single()?
            .get("n")?)
    }
}

fn awkward_files_are_imported_right() -> Outcome {
    for (name, bytes, rows) in [
        (
            "bom.csv",
            &b"\xEF\xBB\xBFid,name\r\n1,Ada\r\n2,\"Bob \"\"B\"\"\"\r\n"[..],
            2,
        ),
        ("last_line.csv", b"id,name\n1,Ada\n2,Bob", 2),
        ("quoted.csv", b"id,name\n1,\"a,b\nc\"\n", 1),
        ("comments.tsv", b"# from somewhere\nid\tname\n1\tAda\n", 1),
        (
            "lines.jsonl",
            b"{\"id\": 1}\n\n{\"id\": 2, \"x\": 9007199254740993}\n",
            2,
        ),
        ("array.json", b"[{\"id\": 1}, {\"id\": 2}]", 2),
        (
            "object.json",
            b"{\"1\": {\"x\": 1}, \"2\": {\"x\": [1, {\"y\": null}]}}",
            2,
        ),
    ] {
        let case = ImportCase::new()?;
        let file = case.file(name, bytes)?;
        let key: &[&str] = if name == "object.json" {
            &[]
        } else {
            &["--key", "id"]
        };
        let message = case.nodes(&file, key)?;
        ensure!(message.is_none(), "{name}: {}", message.unwrap_or_default());
        let count = case.count()?;
        ensure!(count == rows, "{name}: {count} rows");
    }
    let case = ImportCase::new()?;
    let file = case.file(
        "exact.jsonl",
        b"{\"id\": \"a\", \"x\": 9007199254740993, \"y\": -9223372036854775808}\n",
    )?;
    case.nodes(&file, &["--key", "id"])?;
    let db = Database::open(case.db())?;
    let exact: (i64, i64) = db
        .query("MATCH (p:P) RETURN p.x, p.y")?
        .single()?
        .deserialize()?;
    ensure!(exact == (9_007_199_254_740_993, i64::MIN), "{exact:?}");
    Ok(Verdict::Passed)
}

fn bad_rows_stop_an_import_and_leave_nothing() -> Outcome {
    let deep = |depth: usize| {
        format!(
            "{{\"id\": 1}}\n{{\"id\": 2, \"x\": {}{}}}\n",
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let (over, far_over) = (deep(129), deep(100_000));
    for (name, bytes, words) in [
        (
            "ragged.csv",
            &b"id,name\n1,Ada\n2,Bob,more,and more\n"[..],
            &["line 3"][..],
        ),
        ("short.csv", b"id,name,city\n1,Ada,Lucca\n2\n", &["line 3"]),
        (
            "quote.csv",
            b"id,name\n1,Ada\n2,\"never closed\n3,Eve\n",
            &["line 3", "quote"],
        ),
        ("utf8.csv", b"id,name\n1,Ada\n2,\xFF\xFE\n", &["line 3"]),
        ("twice.csv", b"id,name\n1,Ada\n1,Bob\n", &["1"]),
        ("keyless.csv", b"id,name\n1,Ada\n,Bob\n", &["line 3"]),
        (
            "type.csv",
            b"id:int,name\n1,Ada\ntwo,Bob\n",
            &["line 3", "two"],
        ),
        ("bad.jsonl", b"{\"id\": 1}\n{\"id\": 2,}\n", &["line 2"]),
        (
            "half.jsonl",
            b"{\"id\": 1}\n{\"id\": 2, \"x\": \"",
            &["line 2"],
        ),
        (
            "surrogate.jsonl",
            b"{\"id\": 1}\n{\"id\": 2, \"x\": \"\\ud800\"}\n",
            &["line 2", "surrogate"],
        ),
        (
            "duplicate.jsonl",
            b"{\"id\": 1}\n{\"id\": 2, \"x\": 1, \"x\": 2}\n",
            &["line 2", "x"],
        ),
        (
            "huge.jsonl",
            b"{\"id\": 1}\n{\"id\": 2, \"x\": 1e400}\n",
            &["line 2"],
        ),
        ("scalar.jsonl", b"{\"id\": 1}\n7\n", &["line 2"]),
        ("over.jsonl", over.as_bytes(), &["line 2", "128"]),
        ("far_over.jsonl", far_over.as_bytes(), &["line 2", "128"]),
    ] {
        let case = ImportCase::new()?;
        let file = case.file(name, bytes)?;
        let message = case
            .nodes(&file, &["--key", "id"])?
            .with_context(|| format!("{name} was accepted"))?;
        for word in words {
            ensure!(
                message.to_lowercase().contains(word),
                "{name}: no {word:?} in: {}",
                &message[..message.len().min(600)]
            );
        }
        ensure!(
            message.len() < 4_000,
            "{name}: a message of {} bytes",
            message.len()
        );
        let count = case.count()?;
        ensure!(count == 0, "{name}: {count} rows are there");
    }
    Ok(Verdict::Passed)
}

fn bad_rows_are_set_aside_when_asked() -> Outcome {
    let case = ImportCase::new()?;
    let file = case.file(
        "some.jsonl",
        b"{\"id\": 1}\nnonsense\n{\"id\": 2}\n{\"id\": 2}\n{\"id\": 3}\n",
    )?;
    let message = case.nodes(
        &file,
        &[
            "--key",
            "id",
            "--max-rejects",
            "2",
            "--rejects",
            "rejects.jsonl",
        ],
    )?;
    ensure!(message.is_none(), "{}", message.unwrap_or_default());
    let count = case.count()?;
    ensure!(count == 3, "{count} rows");
    let rejects = fs::read_to_string(case.folder.path().join("rejects.jsonl"))?;
    ensure!(
        rejects.lines().count() == 2 && rejects.contains("nonsense"),
        "{rejects}"
    );
    let one_less = case.nodes(&file, &["--key", "id", "--max-rejects", "1"])?;
    ensure!(
        one_less.is_some(),
        "more bad rows than allowed were accepted"
    );
    Ok(Verdict::Passed)
}

fn a_relationship_without_its_end_stops_the_import() -> Outcome {
    let case = ImportCase::new()?;
    case.nodes(&case.file("people.csv", b"id\na\nb\n")?, &["--key", "id"])?;
    let file = case.file("edges.csv", b"from,to\na,b\na,missing\n")?;
    let mut command = isomer()?;
    command
        .current_dir(case.folder.path())
        .arg("import")
        .arg(case.db())
        .arg("relationships")
        .arg(&file);
    command.args(["--type", "T", "--from", "P", "--to", "P", "--quiet"]);
    let message = refused(&mut command)?.context("it was accepted")?;
    ensure!(
        message.contains("missing") && message.contains("line 3"),
        "{message}"
    );
    let db = Database::open(case.db())?;
    let n: u64 = db
        .query("MATCH ()-[t:T]->() RETURN count(t) AS n")?
        .single()?
        .get("n")?;
    ensure!(n == 0, "{n} relationships are there");
    Ok(Verdict::Passed)
}

fn paths_that_are_not_files_are_refused() -> Outcome {
    let case = ImportCase::new()?;
    for file in [
        case.folder.path().join("none.csv"),
        case.folder.path().to_owned(),
    ] {
        let message = case
            .nodes(&file, &["--key", "id"])?
            .with_context(|| format!("{} was accepted", file.display()))?;
        ensure!(message.contains(&file.display().to_string()), "{message}");
    }
    let text = case.file("text.csv.gz", b"not compressed")?;
    ensure!(
        case.nodes(&text, &["--key", "id"])?.is_some(),
        "text was taken for gzip"
    );
    Ok(Verdict::Passed)
}

fn a_full_disk_stops_an_import_and_leaves_nothing() -> Outcome {
    let Some(disk) = SmallDisk::mount(28)? else {
        return Ok(Verdict::Skipped("needs root, to mount a small disk".into()));
    };
    let case = ImportCase::new()?;
    let rows = 60_000;
    // Incompressible, so that its size on disk does not depend on the engine.
    let mut random = Random::new(seed());
    let lines: String = (0..rows)
        .map(|id| {
            let text: String = (0..400)
                .map(|_| char::from(b'#' + random.below(50) as u8))
                .collect();
            format!("{{\"id\": {id}, \"text\": \"{text}\"}}\n")
        })
        .collect();
    let file = case.file("large.jsonl", lines.as_bytes())?;
    let db = disk.path.join("db");
    Database::open(&db)?.query("CREATE (:Kept {n: 1})")?;
    let ballast = disk.path.join("ballast");
    fs::write(&ballast, vec![0x5A; 4 << 20])?;
    let mut command = isomer()?;
    command
        .current_dir(case.folder.path())
        .arg("import")
        .arg(&db)
        .arg("nodes")
        .arg(&file);
    command.args(["--label", "P", "--key", "id", "--quiet"]);
    let message =
        refused(&mut command)?.context("24 MB fit on a disk of 24, with what a commit needs")?;
    ensure!(
        message.contains("full") || message.contains("space"),
        "{message}"
    );
    let opened = Database::open(&db)?;
    let (imported, kept): (u64, u64) = opened
        .query("OPTIONAL MATCH (p:P) WITH count(p) AS p MATCH (k:Kept) RETURN p, count(k) AS k")?
        .single()?
        .deserialize()?;
    ensure!(
        (imported, kept) == (0, 1),
        "{imported} rows of a refused import, {kept} kept"
    );
    fs::remove_file(ballast)?;
    opened
        .query("CREATE (:Kept {n: 2})")
        .context("writing continues when there is room")?;
    drop(opened);
    crash::check(&db)?;
    Ok(Verdict::Passed)
}
