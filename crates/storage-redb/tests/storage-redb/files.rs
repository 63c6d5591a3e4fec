//! Errors of opening files and folders that are not databases or not available, and the content of copies.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use isomer_storage::{Durability, Engine, KeyRange, Order, StorageError, conformance::scan};
use isomer_storage_redb::{RedbEngine, RedbOptions};

const ALL: KeyRange<'static> = KeyRange {
    start: b"",
    end: None,
};

fn open(path: &Path) -> Result<RedbEngine, StorageError> {
    RedbEngine::open(path, RedbOptions::default())
}

fn put(engine: &RedbEngine, key: &[u8], value: &[u8]) -> Result<u64, StorageError> {
    let mut transaction = engine.begin()?;
    transaction.put(key, value)?;
    transaction.append_stream(key);
    transaction.commit(Durability::Synced)
}

fn corrupt(result: Result<RedbEngine, StorageError>) -> String {
    match result {
        Err(StorageError::Corrupt(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn in_use(result: Result<RedbEngine, StorageError>) -> String {
    match result {
        Err(error @ StorageError::InUse { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn unavailable<T: std::fmt::Debug>(result: Result<T, StorageError>) -> String {
    match result {
        Err(StorageError::Unavailable(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// A path with other content is rejected with a message that says what it is and what to do; it is not
/// changed.
#[test]
fn foreign_files_and_folders_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, b"").expect("a file");
    assert!(corrupt(open(&file)).contains("is not a database: it is a file"));
    let foreign = folder.path().join("foreign");
    fs::create_dir(&foreign).expect("a folder");
    fs::write(foreign.join("letter.txt"), b"dear").expect("a file");
    let text = corrupt(open(&foreign));
    assert!(
        text.contains("letter.txt") && text.contains("give an empty or a new directory"),
        "{text}"
    );
    assert_eq!(fs::read_dir(&foreign).expect("a folder").count(), 1);
    for (name, content, expected) in [
        ("empty", Vec::new(), "its file `data` is empty"),
        (
            "random",
            (0..100_000u32).flat_map(u32::to_le_bytes).collect(),
            "was not written by this program",
        ),
        (
            "sqlite",
            b"SQLite format 3\0".repeat(1000),
            "was not written by this program",
        ),
        (
            "short",
            b"IsomerDB pairs\r\n".to_vec(),
            "was not written by this program",
        ),
        ("zeros", vec![0; 1 << 20], "was not written by this program"),
    ] {
        let directory = folder.path().join(name);
        fs::create_dir(&directory).expect("a folder");
        fs::write(directory.join("data"), &content).expect("a file");
        let text = corrupt(open(&directory));
        assert!(text.contains(expected) && text.contains(name), "{text}");
        assert_eq!(fs::read(directory.join("data")).expect("the file"), content);
    }
    let closed = RedbOptions {
        create: false,
        ..RedbOptions::default()
    };
    let missing = folder.path().join("missing");
    assert!(
        unavailable(RedbEngine::open(&missing, closed.clone())).contains("there is no database at")
    );
    assert!(!missing.exists());
    fs::create_dir(&missing).expect("a folder");
    assert!(corrupt(RedbEngine::open(&missing, closed)).contains("it is empty"));
    let long = folder.path().join("x".repeat(5000));
    assert!(unavailable(open(&long)).contains("too long"));
    assert!(unavailable(open(Path::new("a\0b"))).contains("opening"));
}

/// A newer format is reported as such, not misread.
#[test]
fn a_newer_format_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path()).expect("made");
    put(&engine, b"a", b"b").expect("a commit");
    drop(engine);
    let path = folder.path().join("data");
    let mut bytes = fs::read(&path).expect("the file");
    bytes[16] = 7;
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..24]);
    bytes[24..32].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, bytes).expect("written");
    let text = corrupt(open(folder.path()));
    assert!(
        text.contains("written in format 7") && text.contains("up to format 1"),
        "{text}"
    );
}

/// The files are accessible by their owner only, and unusual names work.
#[test]
fn files_are_private() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["plain", "with space", "ünïcødé", "deep/er/down"] {
        let path = folder.path().join(name);
        let engine = open(&path).expect("made");
        put(&engine, b"a", b"b").expect("a commit");
        let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
        assert_eq!(
            (
                mode(&path),
                mode(&path.join("data")),
                mode(&path.join("LOCK"))
            ),
            (0o700, 0o600, 0o600)
        );
    }
}

/// A second opener gets an error that names the process holding the lock, in the same process or another; a
/// killed process holds no lock.
#[test]
fn only_one_may_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path()).expect("made");
    put(&engine, b"a", b"b").expect("a commit");
    let text = in_use(open(folder.path()));
    assert!(
        text.contains(&format!(
            "already open in this process ({})",
            std::process::id()
        )),
        "{text}"
    );
    let read_only = RedbOptions {
        read_only: true,
        ..RedbOptions::default()
    };
    assert!(in_use(RedbEngine::open(folder.path(), read_only)).contains("already open"));
    drop(engine);

    // Runs this test again, as the other process.
    let mut holder = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "files::hold_until_killed",
            "--ignored",
            "--nocapture",
        ])
        .env("ISOMER_TEST_HOLD", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(holder.stdout.take().expect("its output")).lines();
    assert!(
        lines.any(|line| line.expect("a line").contains("holding")),
        "the other process did not open it"
    );
    let text = in_use(open(folder.path()));
    assert!(
        text.contains(&format!("in use by process {}", holder.id())),
        "{text}"
    );
    holder.kill().expect("killed");
    holder.wait().expect("gone");
    let engine = open(folder.path()).expect("opens at once");
    let pairs = scan(
        &*engine.snapshot().expect("a snapshot"),
        ALL,
        Order::Ascending,
        1000,
    );
    assert_eq!(pairs.len(), 101);
}

/// The other process of `only_one_may_open`.
#[test]
#[ignore = "started by another test"]
fn hold_until_killed() {
    let Some(path) = std::env::var_os("ISOMER_TEST_HOLD") else {
        return;
    };
    let engine = open(Path::new(&path)).expect("opens");
    for number in 0..100u8 {
        put(&engine, &[b'k', number], b"value").expect("a commit");
    }
    println!("\nholding");
    // The other test kills this process; the sleep bounds its life if that test has ended.
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// A database may be read where it may not be written; commits are rejected, and no byte changes.
#[test]
fn read_only_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path()).expect("made");
    for number in 0..100u8 {
        put(&engine, &[number], &[number; 500]).expect("a commit");
    }
    drop(engine);
    let before = fs::read(folder.path().join("data")).expect("the file");
    let read_only = RedbOptions {
        read_only: true,
        ..RedbOptions::default()
    };
    let one = RedbEngine::open(folder.path(), read_only.clone()).expect("opens");
    let two = RedbEngine::open(folder.path(), read_only.clone()).expect("several may read");
    for engine in [&one, &two] {
        assert_eq!(
            scan(
                &*engine.snapshot().expect("a snapshot"),
                ALL,
                Order::Descending,
                7
            )
            .len(),
            100
        );
        assert_eq!(engine.version(), 100);
        assert!(unavailable(put(engine, b"new", b"value")).contains("read-only"));
        assert!(unavailable(engine.ingest(&mut std::iter::empty(), None)).contains("read-only"));
        assert_eq!(
            engine.verify(&mut |_, _| {}).expect("verified"),
            Vec::<String>::new()
        );
    }
    assert!(
        in_use(open(folder.path())).contains("already open"),
        "readers keep writers out"
    );
    drop((one, two));
    assert_eq!(
        fs::read(folder.path().join("data")).expect("the file"),
        before
    );
    let copy = folder.path().join("copy");
    fs::create_dir(&copy).expect("a folder");
    fs::copy(folder.path().join("data"), copy.join("data")).expect("copied");
    let engine = RedbEngine::open(&copy, read_only).expect("without a lock file too");
    assert_eq!(engine.version(), 100);
}

/// A checkpoint of a database in use has the version at its start, stream included, while writers continue.
#[test]
fn a_checkpoint_holds_one_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(&folder.path().join("live")).expect("made");
    for number in 0..2000u32 {
        let mut transaction = engine.begin().expect("a transaction");
        transaction
            .put(&number.to_be_bytes(), &[7; 300])
            .expect("a put");
        transaction.append_stream(&number.to_be_bytes());
        transaction.commit(Durability::Buffered).expect("a commit");
    }
    let target = folder.path().join("copy");
    let mut written = 0;
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| engine.checkpoint(&target));
        while !copying.is_finished() || written == 0 {
            put(&engine, &[b'n', written], b"later").expect("a commit");
            written += 1;
        }
        copying.join().expect("no panic").expect("a checkpoint");
    });
    let copy = open(&target).expect("an independent database");
    let version = copy.version();
    assert!(
        (2000..=2000 + u64::from(written)).contains(&version),
        "{version}"
    );
    let pairs = scan(
        &*copy.snapshot().expect("a snapshot"),
        ALL,
        Order::Ascending,
        1000,
    );
    assert_eq!(pairs.len() as u64, version);
    assert_eq!(
        copy.stream(0, 10_000, 1 << 30, true)
            .expect("the stream")
            .len() as u64,
        version
    );
    assert_eq!(
        copy.verify(&mut |_, _| {}).expect("verified"),
        Vec::<String>::new()
    );
    assert_eq!(
        put(&copy, b"next", b"value").expect("a commit"),
        version + 1
    );
    assert_eq!(engine.version(), 2000 + u64::from(written));
}

/// The next commit detects that the file was deleted while it was open, not only the next opening.
#[test]
fn a_deleted_file_is_noticed() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path()).expect("made");
    put(&engine, b"a", b"b").expect("a commit");
    fs::remove_file(folder.path().join("data")).expect("deleted");
    assert!(unavailable(put(&engine, b"c", b"d")).contains("deleted"));
    assert!(unavailable(engine.begin().map(drop)).contains("reopened"));
}
