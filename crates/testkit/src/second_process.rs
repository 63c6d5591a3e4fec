//! Tests with a second process that writes to the same database: with `ISOMER_TEST_SHARED=1`, the databases that tests
//! open by [`open`] and [`open_empty`] are in folders, shared, and a second process writes to each of them until the
//! test ends.
//!
//! The second process is the test program itself, started with the arguments of a [`Program`]: it calls
//! [`run_if_asked`]. It writes to the bucket [`BUCKET`], and creates and deletes nodes, so that names, ids and numbers
//! are reserved by two processes at the same time. It reads the whole graph, so that it conflicts with the test. What
//! it has committed must stay.
//!
//! A test that cannot run in this way calls [`needs_alone`] with the reason.

use std::{
    cell::RefCell,
    collections::HashMap,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio, exit},
    thread,
    time::Duration,
};

use anyhow::ensure;
use isomer_db::{Builder, Database, EngineKind, Result, Sharing, WriteTransaction};
use tempfile::TempDir;

use crate::harness::Verdict;

/// The bucket to which a second process writes.
pub const BUCKET: &str = "of the second process";
/// Set for tests with a second process.
const WANTED: &str = "ISOMER_TEST_SHARED";
/// Set for the second process: the folder of the database.
const FOLDER: &str = "ISOMER_TEST_SECOND_PROCESS";
/// The first line that it prints.
const READY: &str = "ready";
/// The pause between its transactions.
const PAUSE: Duration = Duration::from_millis(3);

/// How a test program becomes a second process: its arguments.
pub type Program = &'static [&'static str];

/// The arguments of a program of `cargo test` whose test `name` calls [`run_if_asked`], and is ignored.
#[macro_export]
macro_rules! second_process_test {
    ($name:literal) => {
        &["--exact", $name, "--ignored", "--nocapture"]
    };
}

/// Whether tests have a second process.
pub fn is_wanted() -> bool {
    std::env::var_os(WANTED).is_some_and(|value| value != "0" && !value.is_empty())
}

/// Reports that a test is not run with a second process, if there are any; returns whether to skip it.
pub fn needs_alone(reason: &str) -> bool {
    if is_wanted() {
        let reason = format!("it needs the database alone: {reason}");
        Verdict::NotOnThisMachine(reason).report();
    }
    is_wanted()
}

/// Opens the database in `path`; it has a second process from now on, if tests do.
pub fn open(program: Program, builder: Builder, path: &Path) -> Result<Database> {
    if !is_wanted() {
        return builder.open(path);
    }
    let db = builder
        .engine(EngineKind::Lsm)
        .sharing(Sharing::Shared)
        .open(path)?;
    let started = start(program, path);
    started.unwrap_or_else(|error| panic!("the second process does not start: {error}"));
    Ok(db)
}

/// Starts a second process for the shared database in `path`, unless there is one; it has committed when this returns.
/// It ends with the thread of the caller, or by [`end_all`].
pub fn start(program: Program, path: &Path) -> io::Result<()> {
    RUNNING.with_borrow_mut(|running| running.start(program, path))
}

/// Ends the second processes that this thread has started, and removes their databases.
pub fn end_all() {
    RUNNING.with_borrow_mut(|running| *running = Running::default());
}

/// Opens an empty database: in memory, or if tests have a second process, in a folder that it shares.
pub fn open_empty(program: Program, builder: Builder) -> Result<Database> {
    if !is_wanted() {
        return builder.open_in_memory();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    RUNNING.with_borrow_mut(|running| running.folders.push(folder));
    open(program, builder, &path)
}

thread_local! {
    /// What the test on this thread has started.
    static RUNNING: RefCell<Running> = RefCell::default();
}

#[derive(Default)]
struct Running {
    // Dropped in this order.
    processes: HashMap<PathBuf, SecondProcess>,
    folders: Vec<TempDir>,
}

struct SecondProcess {
    child: Child,
    folder: PathBuf,
    /// The other end of its standard output stays open: the harness of tests ends when it cannot write.
    _output: Option<Box<dyn Iterator<Item = String>>>,
}

impl Running {
    fn start(&mut self, program: Program, path: &Path) -> io::Result<()> {
        if self.processes.contains_key(path) {
            return Ok(());
        }
        let child = Command::new(std::env::current_exe()?)
            .args(program)
            .env(FOLDER, path)
            .env_remove(WANTED)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut process = SecondProcess {
            child,
            folder: path.to_owned(),
            _output: None,
        };
        let output = process.child.stdout.take();
        let lines = output.map(|output| BufReader::new(output).lines());
        let mut lines = lines.into_iter().flatten().map_while(io::Result::ok);
        assert!(
            lines.any(|line| line == READY),
            "the second process of `{}` ended before its first commit",
            path.display()
        );
        process._output = Some(Box::new(lines));
        self.processes.insert(path.to_owned(), process);
        Ok(())
    }
}

impl Drop for SecondProcess {
    fn drop(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait()
            && !status.success()
        {
            // This thread ends, and a panic would hide the reason.
            eprintln!(
                "the second process of `{}` failed: {status}",
                self.folder.display()
            );
            exit(101);
        }
        // It may have ended in between.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // It may have made files after the test has removed the folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Does nothing, unless this program was started as a second process: then it writes until it is killed, or the
/// database is gone, and does not return.
pub fn run_if_asked() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    match write(&folder) {
        Err(error) if folder.exists() => {
            eprintln!("the second process: {error}");
            exit(1);
        }
        Ok(()) | Err(_) => exit(0),
    }
}

/// Writes to the database in `folder` until that is gone.
fn write(folder: &Path) -> anyhow::Result<()> {
    let builder = Database::builder()
        .sharing(Sharing::Shared)
        .process_kind("second process")
        .memory(64 << 20)
        .max_retries(1_000_000)
        .create(false);
    let db = builder.open(folder)?;
    thread::spawn(|| {
        // The test program has ended: nothing else would end this one then.
        let _ = io::stdin().lines().next();
        exit(0);
    });
    let mut number = 0;
    while folder.exists() {
        number += 1;
        db.transact(|tx| write_one(tx, number))?;
        let found = db.begin_read()?.bucket(BUCKET).get_bytes("number")?;
        ensure!(
            found.as_deref() == Some(&number.to_be_bytes()[..]),
            "it has committed {number}, and reads {found:?}"
        );
        if number == 1 {
            // The harness may have begun a line.
            println!("\n{READY}");
            io::stdout().flush()?;
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

fn write_one(tx: &WriteTransaction, number: u64) -> Result<()> {
    let bucket = tx.bucket(BUCKET);
    if number % 16 == 1 {
        // Leaves nothing behind but names; ids are used up.
        tx.query("CREATE (a:OfTheSecondProcess)-[r:OF_THE_SECOND_PROCESS]->(b) DELETE r, a, b")?;
    }
    if number % 8 == 3 {
        let count = tx.query("MATCH (n) RETURN count(n) AS n")?;
        let count: u64 = count.single()?.get("n")?;
        bucket.put_bytes("nodes", count.to_be_bytes())?;
    }
    bucket.put_bytes("number", number.to_be_bytes())
}
