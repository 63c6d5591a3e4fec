//! A log in a directory in unusual surroundings: more processes than its list takes in, no shared memory, a user
//! without rights.

use std::{
    env, fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use isomer_shared_log::{Append, DirectoryLog, DirectoryOptions, LogError, SharedLog};

const FOLDER: &str = "ISOMER_TEST_FOLDER";
/// Openings of the log in each process.
const OPENINGS: usize = 103;
const PROCESSES: usize = 10;
/// What the list of processes takes in.
const LISTED: usize = 1015;

fn open(folder: &Path) -> Result<DirectoryLog, LogError> {
    DirectoryLog::open(folder, &DirectoryOptions::default())
}

/// Appends one record, however many others do.
fn append(log: &DirectoryLog, record: &[u8]) {
    loop {
        let end = log.end().expect("an end");
        match log.append(end, record).expect("appended") {
            Append::Appended => return,
            Append::Taken => {}
            Append::Unknown(why) => panic!("{why}"),
        }
    }
}

fn records(log: &DirectoryLog) -> usize {
    let (mut at, end) = (
        log.first().expect("a first one"),
        log.end().expect("an end"),
    );
    let mut count = 0;
    while at < end {
        let page = log.read(at, 1 << 20).expect("readable");
        at += page.len() as u64;
        count += page.iter().filter(|record| !record.is_empty()).count();
    }
    count
}

/// Opens the log many times, appends with each handle, and keeps them until its input ends.
#[test]
#[ignore = "started by another test"]
fn a_process_that_opens_the_log_many_times() {
    let Some(folder) = env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let logs: Vec<_> = (0..OPENINGS)
        .map(|_| open(&folder).expect("opened"))
        .collect();
    for log in &logs {
        append(log, b"a record");
    }
    println!("\nready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("its end");
    for log in &logs {
        append(log, b"a later record");
        assert!(records(log) >= OPENINGS);
    }
}

/// More than 1,000 openings by several processes: those that the list does not take in work like the others.
#[test]
fn more_processes_than_are_listed_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let log = open(&path).expect("opened");
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|_| {
            let mut command = Command::new(env::current_exe().expect("this program"));
            command
                .args(["--exact", "a_process_that_opens_the_log_many_times"])
                .args(["--ignored", "--nocapture"])
                .env(FOLDER, &path)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            command.spawn().expect("a process")
        })
        .collect();
    let outputs: Vec<_> = children
        .iter_mut()
        .map(|child| {
            let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
            let is_ready = lines
                .by_ref()
                .map_while(Result::ok)
                .any(|line| line == "ready");
            assert!(is_ready, "a process has failed");
            lines
        })
        .collect();
    assert_eq!(records(&log), PROCESSES * OPENINGS);
    assert_eq!(log.processes().len(), LISTED);
    append(&log, b"its own");
    for child in &mut children {
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(b"\n").expect("sent");
    }
    for (child, lines) in children.iter_mut().zip(outputs) {
        lines.for_each(drop);
        assert!(child.wait().expect("it ends").success());
    }
    assert_eq!(records(&log), 2 * PROCESSES * OPENINGS + 1);
    assert_eq!(log.processes().len(), 1);
}

/// Where a file cannot be mapped, the log is refused, and its records stay.
#[test]
fn a_log_without_shared_memory_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = open(folder.path()).expect("opened");
    append(&log, b"a record");
    drop(log);
    let page = folder.path().join("page");
    fs::remove_file(&page).expect("removed");
    fs::create_dir(&page).expect("made");
    let error = open(folder.path()).expect_err("no file can be mapped there");
    assert!(matches!(error, LogError::Refused(_)), "{error}");
    assert!(error.to_string().contains("page"), "{error}");
    fs::remove_dir(&page).expect("removed");
    assert_eq!(records(&open(folder.path()).expect("opened")), 1);
}

/// Opens the log as the user that this process has; prints the error.
#[test]
#[ignore = "started by another test"]
fn a_process_of_another_user() {
    if let Some(folder) = env::var_os(FOLDER) {
        let error = open(Path::new(&folder)).expect_err("it has no rights");
        println!("\nerror: {error}");
    }
}

#[cfg(unix)]
#[test]
fn a_user_without_rights_is_refused_and_changes_nothing() {
    use std::os::unix::{fs::PermissionsExt as _, process::CommandExt as _};
    /// The user `nobody`.
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().expect("a folder");
    // Others may enter it, and not what the log makes in it.
    let open_to_all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(folder.path(), open_to_all).expect("changed");
    let path = folder.path().join("log");
    let log = open(&path).expect("opened");
    append(&log, b"a record");
    // A copy that every user can run: the folder of the build may be closed to others.
    let program = folder.path().join("program");
    fs::copy(env::current_exe().expect("this program"), &program).expect("copied");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("changed");
    let run = |as_nobody: bool| {
        let mut command = Command::new(&program);
        command
            .args(["--exact", "a_process_of_another_user"])
            .args(["--ignored", "--nocapture"])
            .env(FOLDER, &path);
        if as_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output()
    };
    let output = match run(true) {
        Ok(output) => output,
        // Only the administrator can start processes of other users: here the owner loses its rights.
        Err(_) => {
            let none = fs::Permissions::from_mode(0o0);
            fs::set_permissions(&path, none).expect("changed");
            let output = run(false).expect("it runs");
            let own = fs::Permissions::from_mode(0o700);
            fs::set_permissions(&path, own).expect("changed");
            output
        }
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("error: ") && said.contains("as a user with the right to write to it"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    append(&log, b"another record");
    assert_eq!(records(&log), 2);
}
