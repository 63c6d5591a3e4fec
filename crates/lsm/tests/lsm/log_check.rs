//! Verification compares the log with the tables. Each of them is intact here: the tables of one history are
//! combined with the log of another one.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, KeyRange, StorageError, conformance::Random};
use isomer_vfs::{Disk, FileType, OpenMode, SimDisk};

fn open(disk: &SimDisk, folder: &str) -> LsmEngine {
    let (random, time) = (AtomicU64::new(1), AtomicU64::new(1_000));
    let options = LsmOptions {
        disk: Arc::new(disk.clone()),
        segment_bytes: 64 << 10,
        memtable_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        background: false,
        clock: Arc::new(move || time.fetch_add(1, Ordering::SeqCst)),
        random: Arc::new(move || Random(random.fetch_add(1, Ordering::SeqCst)).number()),
        ..LsmOptions::default()
    };
    LsmEngine::open(folder, options).expect("opens")
}

/// What one commit does.
#[derive(Clone, Copy)]
enum Step {
    Put(&'static str, &'static str),
    Delete(&'static str),
    /// Keys from the first one up to the second one, more of them than are deleted one by one.
    DeleteRange(&'static str, &'static str),
    /// A change that both histories make.
    Nothing,
    Load(&'static str),
    Flush,
    Compact,
}
use Step::{Compact, Delete, DeleteRange, Flush, Load, Nothing, Put};

impl Step {
    /// Bytes of the step's writes in the log. The entry of the change stream fills them up to 100, so that the
    /// logs of all histories end at the same offset, which the manifest in the folder of the tables names.
    fn bytes(self) -> usize {
        match self {
            Put(key, value) => 2 + key.len() + value.len(),
            Delete(key) => 2 + key.len(),
            DeleteRange(from, until) => 2 + from.len() + until.len(),
            Nothing => Put("zz", "the same").bytes(),
            Load(_) | Flush | Compact => 0,
        }
    }
}

fn run(disk: &SimDisk, folder: &str, steps: &[Step]) {
    let engine = open(disk, folder);
    for step in steps {
        let mut transaction = engine.begin().expect("begins");
        transaction.append_stream(&vec![b'e'; 100 - step.bytes()]);
        match step {
            Put(key, value) => transaction.put(key.as_bytes(), value.as_bytes()),
            Delete(key) => transaction.delete(key.as_bytes()),
            DeleteRange(from, until) => transaction.delete_range(KeyRange {
                start: from.as_bytes(),
                end: Some(until.as_bytes()),
            }),
            Nothing => transaction.put(b"zz", b"the same"),
            Load(key) => {
                let pair = (key.as_bytes().to_vec(), b"loaded".to_vec());
                engine
                    .ingest(&mut std::iter::once(Ok(pair)), Some(b"entry"))
                    .expect("loads");
                continue;
            }
            Flush => {
                engine.flush().expect("flushed");
                continue;
            }
            Compact => {
                engine.compact_all().expect("merged");
                continue;
            }
        }
        .expect("written");
        transaction.commit(Durability::Synced).expect("commits");
    }
    engine.flush().expect("flushed");
}

fn copy(disk: &SimDisk, from: &Path, to: &Path) {
    disk.make_folder(to).expect("a folder");
    for name in disk.list(from).expect("a folder") {
        let (from, to) = (from.join(&name), to.join(&name));
        if disk.kind(&from).expect("there") == FileType::Folder {
            copy(disk, &from, &to);
            continue;
        }
        let file = disk.open(&from, OpenMode::Read).expect("opens");
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("reads");
        let file = disk.open(&to, OpenMode::Create).expect("opens");
        file.write_all_at(&bytes, 0).expect("writes");
    }
}

fn verify(engine: &LsmEngine) -> Vec<String> {
    let mut last = (0, 0);
    let damage = engine
        .verify(&mut |done, total| {
            assert!(done >= last.0 && done <= total, "{done} of {total}");
            last = (done, total);
        })
        .expect("verified");
    assert_eq!(last.0, last.1);
    damage
}

/// The findings for the log of `said` and the tables of `done`.
fn differences(said: &[Step], done: &[Step]) -> Vec<String> {
    let disk = SimDisk::new();
    for (folder, steps) in [("/said", said), ("/done", done)] {
        run(&disk, folder, steps);
        let damage = verify(&open(&disk, folder));
        assert_eq!(damage, Vec::<String>::new(), "{folder}");
    }
    for part in ["STORE", "tables", "log"] {
        let from = if part == "tables" { "/done" } else { "/said" };
        let (from, to) = (Path::new(from).join(part), Path::new("/both").join(part));
        if part == "STORE" {
            disk.make_folder(Path::new("/both")).expect("a folder");
            let file = disk.open(&from, OpenMode::Read).expect("opens");
            let mut bytes = vec![0; file.len().expect("a length") as usize];
            file.read_exact_at(&mut bytes, 0).expect("reads");
            let file = disk.open(&to, OpenMode::Create).expect("opens");
            file.write_all_at(&bytes, 0).expect("writes");
        } else {
            copy(&disk, &from, &to);
        }
    }
    verify(&open(&disk, "/both"))
}

fn finds(said: &[Step], done: &[Step], what: &str) {
    let damage = differences(said, done);
    assert_eq!(damage.len(), 1, "{damage:#?}");
    assert!(damage[0].contains(what), "{damage:#?}");
}

#[test]
fn histories_that_agree_are_sound() {
    let steps = [
        Put("a", "1"),
        Put("b", "2"),
        Flush,
        Delete("a"),
        Put("c", "3"),
        Put("b", "4"),
        Load("d"),
        Delete("d"),
        Flush,
        Load("d"),
        Compact,
        Put("a", "5"),
    ];
    assert_eq!(differences(&steps, &steps), Vec::<String>::new());
}

#[test]
fn a_value_that_was_not_put_is_found() {
    finds(
        &[Put("a", "1"), Put("b", "2")],
        &[Put("a", "1"), Put("b", "22")],
        "the key `b` has a value of 2 bytes in the tables, but the log says that commit 2 put another one of 1 bytes",
    );
}

#[test]
fn a_put_that_the_tables_lack_is_found() {
    finds(
        &[Put("a", "1"), Nothing],
        &[Nothing, Nothing],
        "the log says that commit 1 put the key `a`, but the tables do not have it",
    );
}

/// Pairs in the last level have lost their version: their value must be the last one in the log.
#[test]
fn pairs_without_a_version_have_the_last_value_of_the_log() {
    let said = [
        Put("a", "1"),
        Put("a", "2"),
        Put("b", "1"),
        Compact,
        Nothing,
    ];
    assert_eq!(differences(&said, &said), Vec::<String>::new());
    finds(
        &said,
        &[Put("a", "1"), Nothing, Put("b", "1"), Compact, Nothing],
        "the log says that commit 2 put the key `a`, but the tables do not have it",
    );
    finds(
        &[
            Put("b", "1"),
            Put("a", "1"),
            Delete("a"),
            Compact,
            Put("b", "1"),
        ],
        &[
            Put("b", "1"),
            Put("a", "1"),
            Put("b", "1"),
            Compact,
            Nothing,
        ],
        "the key `a` is in the tables, but the log says that commit 3 deleted it",
    );
}

#[test]
fn an_older_value_is_found() {
    finds(
        &[Put("a", "1"), Put("a", "2")],
        &[Put("a", "1"), Nothing],
        "the log says that commit 2 put the key `a`, but the tables do not have it",
    );
}

#[test]
fn a_pair_that_the_log_lacks_is_found() {
    finds(
        &[Nothing, Delete("b")],
        &[Nothing, Put("a", "1")],
        "the key `a` is in the tables since commit 2, but the log has no such put",
    );
}

#[test]
fn a_deletion_that_did_not_take_place_is_found() {
    finds(
        &[Put("a", "1"), Delete("a"), Put("b", "2"), Compact],
        &[Put("a", "1"), Nothing, Put("b", "2")],
        "the key `a` is in the tables, but the log says that commit 2 deleted it",
    );
}

/// Deletions are dropped when tables are compacted: earlier puts of their keys are not reported as missing.
#[test]
fn deleted_and_collected_keys_are_not_reported_as_missing() {
    let steps = [Put("a", "1"), Flush, Delete("a"), Compact, Put("b", "2")];
    assert_eq!(differences(&steps, &steps), Vec::<String>::new());
}

#[test]
fn a_deleted_range_that_did_not_take_place_is_found() {
    let many: Vec<Step> = (0..50)
        .map(|number| Put(["k1", "k2", "k3", "k4", "k5"][number % 5], "value"))
        .collect();
    let erased = [&many[..], &[DeleteRange("k1", "k5"), Put("k2", "again")]].concat();
    let not = [&many[..], &[Nothing, Put("k2", "again")]].concat();
    assert_eq!(differences(&erased, &erased), Vec::<String>::new());
    let damage = differences(&erased, &not);
    let findings: Vec<&str> = damage.iter().map(String::as_str).collect();
    assert_eq!(
        findings,
        ["k1", "k3", "k4"].map(|key| format!(
            "the key `{key}` is in the tables, but the log says that commit 51 deleted its range"
        ))
    );
}

/// A log that ends before the last commit that is not in tables cannot be opened that way; one whose beginning
/// was trimmed is compared as far as it goes.
#[test]
fn a_trimmed_log_is_compared_from_where_it_begins() {
    let disk = SimDisk::new();
    let mut steps = vec![Put("old", "1")];
    steps.extend([Nothing; 40]);
    steps.push(Flush);
    run(&disk, "/db", &steps);
    let engine = open(&disk, "/db");
    engine.trim_stream(30).expect("trimmed");
    engine.flush().expect("flushed");
    let mut transaction = engine.begin().expect("begins");
    transaction.put(b"new", b"2").expect("put");
    transaction.commit(Durability::Buffered).expect("commits");
    assert_eq!(verify(&engine), Vec::<String>::new());
    let read: Result<_, StorageError> = engine.stream(0, 100, 1 << 20, false);
    assert_eq!(read.expect("the stream").first().expect("kept").version, 31);
}

/// More keys than fit into memory at once are compared in several passes.
#[test]
fn many_keys_that_were_put_and_deleted_are_compared() {
    let disk = SimDisk::new();
    let engine = open(&disk, "/db");
    let key = |number: u64| [&number.to_be_bytes()[..], &[b'k'; 900]].concat();
    // 45 MiB of keys, none of which is left: tracking them takes 32 MiB.
    for batch in 0..50_u64 {
        let mut transaction = engine.begin().expect("begins");
        for number in batch * 1000..(batch + 1) * 1000 {
            transaction.put(&key(number), b"v").expect("put");
        }
        transaction.append_stream(b"entry");
        transaction.commit(Durability::Buffered).expect("commits");
    }
    for batch in 0..50_u64 {
        let mut transaction = engine.begin().expect("begins");
        for number in batch * 1000..(batch + 1) * 1000 {
            transaction.delete(&key(number)).expect("deleted");
        }
        transaction.append_stream(b"entry");
        transaction.commit(Durability::Buffered).expect("commits");
    }
    engine.compact_all().expect("merged");
    assert_eq!(engine.statistics().expect("statistics").key_count, 0);
    assert_eq!(verify(&engine), Vec::<String>::new());
}
