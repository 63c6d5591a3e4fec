//! `kill -9` in the middle of commits: acknowledged commits are present and complete; others are complete or
//! absent.
//!
//! The same with a power cut of a file system, if one can be mounted (see [`power`]).
//!
//! `ISOMER_TEST_SEED` selects other moments, `ISOMER_TEST_QUICK` fewer of them.

mod power;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, ensure};
use isomer_db::{Database, Sharing};
use isomer_testkit::{
    binary,
    crash::{self, Journal},
    harness::{Harness, Outcome, Verdict, is_quick, seed},
    random::Random,
    second_process,
};

/// The processes that have the database open while it is written.
#[derive(Clone, Copy, PartialEq)]
enum Processes {
    /// One, of a database that is not shared.
    One,
    /// One, of a shared database.
    OneOfShared,
    /// Two: one of them is killed, and the other one writes, too.
    Two,
}

impl Processes {
    /// Creates the database in `path` for them.
    fn create(self, path: &Path) -> Result<()> {
        let sharing = match self {
            Self::One => Sharing::Exclusive,
            Self::OneOfShared | Self::Two => Sharing::Shared,
        };
        let builder = Database::builder().sharing(sharing);
        builder.open(path)?.close()?;
        if self == Self::Two {
            second_process::start(&[], path)?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    second_process::run_if_asked();
    let mut harness = Harness::new();
    for (processes, name) in [
        (Processes::One, ""),
        (Processes::OneOfShared, "_of_a_shared_database"),
        (Processes::Two, "_of_one_of_two_processes"),
    ] {
        harness.case(
            format!("acknowledged_transactions_survive_kill{name}"),
            move || acknowledged_transactions_survive_kill(processes),
        );
    }
    for (processes, name) in [
        (Processes::One, ""),
        (Processes::OneOfShared, "_of_a_shared_database"),
    ] {
        harness.case(
            format!("acknowledged_transactions_survive_power_cuts{name}"),
            move || power::acknowledged_transactions_survive_power_cuts(processes),
        );
    }
    for (processes, name) in [
        (Processes::One, ""),
        (Processes::OneOfShared, "_of_a_shared_database"),
    ] {
        harness.case(
            format!("a_killed_import{name}_is_there_whole_or_not_at_all"),
            move || a_killed_import_is_there_whole_or_not_at_all(processes),
        );
        harness.case(
            format!("a_killed_process{name}_leaves_no_lock"),
            move || a_killed_process_leaves_no_lock(processes),
        );
    }
    harness.case(
        "a_second_process_learns_which_process_holds_the_database",
        a_second_process_learns_which_process_holds_the_database,
    );
    harness.run()
}

fn child(role: &str, path: &Path) -> Result<Child> {
    child_with_errors(role, path, Stdio::inherit())
}

fn child_with_errors(role: &str, path: &Path, errors: Stdio) -> Result<Child> {
    Command::new(env!("CARGO_BIN_EXE_crash_child"))
        .arg(role)
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .context("the child does not start")
}

fn acknowledged_transactions_survive_kill(processes: Processes) -> Outcome {
    let kills = if is_quick() { 15 } else { 100 };
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    processes.create(&path)?;
    let mut random = Random::new(seed());
    let mut journal = Journal::default();
    let mut views = 0;
    for kill in 0..kills {
        // Moments during opening, recovery, the first commits, and steady operation.
        let lifetime = Duration::from_millis(*random.pick(&[5, 30, 100, 200, 400]))
            + Duration::from_millis(random.below(60));
        write_for(&path, lifetime, &mut journal)?;
        let db = crash::open(&path).with_context(|| format!("opening after kill {kill}"))?;
        crash::verify(&db, &mut journal).with_context(|| format!("after kill {kill}"))?;
        drop(db);
        if kill % 10 == 0 || kill + 1 == kills {
            views += crash::check(&path).with_context(|| format!("check after kill {kill}"))?;
        }
    }
    second_process::end_all();
    println!(
        "{kills} kills, {} transactions acknowledged, {views} read views came from their files",
        journal.acknowledged()
    );
    // Of several processes one writes the files of views: the one that is not killed.
    ensure!(
        views > 0 || processes == Processes::Two,
        "no view was found on disk after a kill"
    );
    ensure!(
        journal.acknowledged() > kills,
        "too few transactions between kills to be significant"
    );
    Ok(Verdict::Passed)
}

/// Lets a child write and kills it; its complete lines go to the journal.
fn write_for(path: &Path, lifetime: Duration, journal: &mut Journal) -> Result<()> {
    let mut child = child("write", path)?;
    let out = child.stdout.take().context("its standard output is ours")?;
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut out = BufReader::new(out);
        let mut line = String::new();
        while matches!(out.read_line(&mut line), Ok(count) if count > 0) {
            if line.ends_with('\n') && sender.send(std::mem::take(&mut line)).is_err() {
                return;
            }
        }
    });
    // The kill comes at a random moment.
    std::thread::sleep(lifetime);
    let alive = child.try_wait()?.is_none();
    child.kill()?;
    child.wait()?;
    reader.join().map_err(|_| anyhow!("the reader panicked"))?;
    lines.iter().try_for_each(|line| journal.read_line(&line))?;
    ensure!(alive, "the child ended by itself");
    Ok(())
}

/// The binary, quiet.
fn isomer() -> Result<Command> {
    let mut command = binary::isomer()?;
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Imports of nodes and of relationships, which also write view files.
fn a_killed_import_is_there_whole_or_not_at_all(processes: Processes) -> Outcome {
    let kills = if is_quick() { 8 } else { 60 };
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("network");
    let generated = isomer()?
        .arg("generate")
        .arg(&data)
        .args(["--scale", "0.003"])
        .status()?;
    ensure!(generated.success(), "generating");
    let count = |file: &str| -> Result<u64> {
        let text = fs::read_to_string(data.join(file))?;
        Ok(text.lines().filter(|line| !line.starts_with('#')).count() as u64)
    };
    let loads = [
        Load {
            command: "nodes",
            options: "--label Person",
            file: data.join("profiles.jsonl"),
            question: "MATCH (p:Person) RETURN count(p) AS n",
            count: count("profiles.jsonl")?,
        },
        Load {
            command: "relationships",
            options: "--columns from,to --type FRIEND --from Person --to Person",
            file: data.join("edges.tsv"),
            question: "MATCH ()-[r:FRIEND]->() RETURN count(r) AS n",
            count: count("edges.tsv")?,
        },
    ];
    let mut random = Random::new(seed());
    let (mut nothing, mut all, mut views) = (0, 0, 0);
    let mut path = folder.path().join("db");
    processes.create(&path)?;
    // Duration of each import without a kill.
    let mut usual = [Duration::ZERO; 2];
    for (load, usual) in loads.iter().zip(&mut usual) {
        let started = Instant::now();
        let status = load.import(&folder.path().join("whole"))?.status()?;
        ensure!(status.success(), "importing {}", load.command);
        *usual = started.elapsed();
    }
    let (mut at, mut round) = (0, 0);
    for kill in 0..kills {
        let load = &loads[at];
        let mut child = load.import(&path)?.spawn()?;
        // The kill comes at a random moment, or after the end.
        std::thread::sleep(usual[at].mul_f64(random.below(1_000) as f64 / 700.0));
        child.kill()?;
        child.wait()?;
        let db = Database::open(&path).with_context(|| format!("opening after kill {kill}"))?;
        let found: u64 = db.query(load.question)?.single()?.get("n")?;
        drop(db);
        ensure!(
            found == 0 || found == load.count,
            "kill {kill}: {found} of {} {}",
            load.count,
            load.command
        );
        // Every view that has a file is compared with the rows.
        views += crash::check(&path).with_context(|| format!("check after kill {kill}"))?;
        let unfinished = unfinished(&path.join("views"))?;
        ensure!(unfinished.is_empty(), "left behind: {unfinished:?}");
        if found == 0 {
            nothing += 1;
            continue;
        }
        all += 1;
        at += 1;
        if at == loads.len() {
            (at, round) = (0, round + 1);
            path = folder.path().join(format!("db{round}"));
            processes.create(&path)?;
        }
    }
    println!(
        "{kills} kills: {nothing} left nothing, {all} came too late; {views} read views came from their files"
    );
    ensure!(nothing > 0, "every kill came too late to be significant");
    ensure!(views > 0 || is_quick(), "no view was found on disk");
    Ok(Verdict::Passed)
}

/// One import.
struct Load {
    command: &'static str,
    options: &'static str,
    file: PathBuf,
    question: &'static str,
    count: u64,
}

impl Load {
    fn import(&self, db: &Path) -> Result<Command> {
        let mut command = isomer()?;
        command
            .arg("import")
            .arg(db)
            .arg(self.command)
            .arg(&self.file)
            .args(self.options.split(' '));
        Ok(command)
    }
}

/// Temporary files left over.
fn unfinished(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "new") {
            found.push(path);
        }
    }
    Ok(found)
}

fn a_killed_process_leaves_no_lock(processes: Processes) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    processes.create(&path)?;
    let mut holder = hold(&path)?;
    holder.kill()?;
    holder.wait()?;
    let started = Instant::now();
    let builder = Database::builder().sharing(Sharing::Exclusive);
    builder.open(&path)?;
    ensure!(
        started.elapsed() < Duration::from_secs(5),
        "opening took {:?}",
        started.elapsed()
    );
    Ok(Verdict::Passed)
}

fn a_second_process_learns_which_process_holds_the_database() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    Processes::One.create(&path)?;
    let mut holder = hold(&path)?;
    let refused = Database::open(&path)
        .err()
        .map(|error| (error.kind(), error.to_string()));
    let pid = holder.id().to_string();
    drop(holder.stdin.take());
    holder.wait()?;
    let (kind, message) = refused.context("a second process could open it")?;
    ensure!(
        kind == isomer_db::ErrorKind::Unavailable && message.contains(&pid),
        "{kind:?}: {message}"
    );
    Database::open(&path).context("after the first one closed")?;
    Ok(Verdict::Passed)
}

/// A child that has the database open.
fn hold(path: &Path) -> Result<Child> {
    let mut child = child("hold", path)?;
    let out = child
        .stdout
        .as_mut()
        .context("its standard output is ours")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    ensure!(line == "open\n", "unexpected line from the child: {line:?}");
    Ok(child)
}
