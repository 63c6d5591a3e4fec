//! A call takes effect but reports an error, or the process ends after it: the engine's state and the disk must
//! not diverge. One small case for each place where they did; `calls` tries every call of a workload.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use isomer_storage::{Durability, KeyRange, StorageError};
use isomer_vfs::{
    Call, Disk, FaultyDisk, Loss, SimDisk,
    keys::{MasterKey, rotate},
};

use crate::{
    inspect::verify,
    power::disk,
    subject::{self, DATABASE, Tended},
};

/// A disk that denies one call, which `chosen` selects, once it is armed.
fn denying(
    sim: &SimDisk,
    chosen: impl Fn(Call, &Path) -> bool + Send + Sync + 'static,
) -> (Arc<FaultyDisk>, Arc<AtomicBool>) {
    let armed: Arc<AtomicBool> = Arc::default();
    let behind = {
        let armed = armed.clone();
        move |call: Call, path: &Path| {
            if chosen(call, path) && armed.swap(false, Ordering::SeqCst) {
                return Err(io::Error::other("denied"));
            }
            Ok(())
        }
    };
    let disk = FaultyDisk::new(Arc::new(sim.clone()), Arc::new(|_, _| Ok(())));
    (Arc::new(disk.and_behind(Arc::new(behind))), armed)
}

fn open(disk: Arc<dyn Disk>) -> Tended {
    subject::open(disk, Path::new(DATABASE)).expect("opens")
}

fn put(tended: &Tended, key: &str, len: usize) {
    let mut transaction = tended.engine().begin().expect("begins");
    transaction.put(key.as_bytes(), &vec![7; len]).expect("put");
    transaction.append_stream(key.as_bytes());
    transaction.commit(Durability::Synced).expect("commits");
}

fn load(tended: &Tended, key: &str) -> Result<u64, StorageError> {
    let mut pairs = std::iter::once(Ok((key.as_bytes().to_vec(), vec![7; 9])));
    tended.engine().ingest(&mut pairs, Some(b"load"))
}

/// After all unsynced data is lost the database has these keys, and nothing is damaged.
fn holds(sim: &SimDisk, folder: &str, keys: &[&str], what: &str) {
    let found = sim.after_power_loss(Loss::Everything, 0);
    let tended = subject::open_existing(Arc::new(found), Path::new(folder))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let pairs = isomer_storage::conformance::scan(
        &*tended.engine().snapshot().expect("a snapshot"),
        KeyRange {
            start: b"",
            end: None,
        },
        isomer_storage::Order::Ascending,
        100,
    );
    let found: Vec<_> = pairs
        .iter()
        .map(|(key, _)| String::from_utf8_lossy(key).into_owned())
        .collect();
    assert_eq!(found, keys, "{what}");
    verify(&tended, what);
}

/// The manifest was renamed, and its folder was not synced: opening syncs it, before commits and removals of
/// files depend on it.
#[test]
fn a_manifest_that_was_found_is_durable_before_anything_rests_upon_it() {
    let renamed = |call: Call, path: &Path| call == Call::Rename && path.ends_with("MANIFEST.new");
    for bulk in [true, false] {
        let sim = disk();
        let (faulty, armed) = denying(&sim, renamed);
        let tended = open(faulty);
        put(&tended, "a", 9);
        armed.store(true, Ordering::SeqCst);
        let error = match bulk {
            true => load(&tended, "b").map(drop),
            false => tended.flush(),
        };
        error.expect_err("it was denied");
        drop(tended);
        let tended = open(Arc::new(sim.clone()));
        match bulk {
            true => {
                put(&tended, "c", 9);
                holds(&sim, DATABASE, &["a", "b", "c"], "behind a bulk load");
            }
            false => {
                // Everything is in tables, and the log may be trimmed.
                tended.engine().trim_stream(1).expect("trims");
                tended.flush().expect("flushes");
                holds(&sim, DATABASE, &["a"], "behind a flush");
            }
        }
    }
}

/// After a link whose outcome is unknown, the copy must not be written into the linked file.
#[test]
fn a_link_that_was_made_all_the_same_is_not_written_into() {
    let sim = disk();
    let (faulty, armed) = denying(&sim, |call, _| call == Call::Link);
    let tended = open(faulty);
    put(&tended, "a", 5000);
    tended.flush().expect("flushes");
    armed.store(true, Ordering::SeqCst);
    let copy = Path::new("/copy");
    tended.engine().checkpoint(copy).expect("copies");
    assert!(!armed.load(Ordering::SeqCst), "a link was denied");
    verify(&tended, "the database");
    holds(&sim, "/copy", &["a"], "the copy");
    let changed = subject::open_existing(Arc::new(sim.clone()), copy).expect("opens");
    put(&changed, "b", 9);
    drop(changed);
    holds(&sim, DATABASE, &["a"], "the database");
}

/// A segment created in advance was renamed for removal, but the call reported an error: nothing is written
/// into it any more.
#[test]
fn a_segment_whose_name_went_takes_no_commits() {
    let sim = disk();
    let of_log = |path: &Path| path.extension().is_some_and(|ending| ending == "log");
    let (faulty, armed) = denying(&sim, move |call, path| call == Call::Rename && of_log(path));
    let tended = open(faulty);
    put(&tended, "a", 9);
    tended.prepare().expect("makes segments ahead");
    armed.store(true, Ordering::SeqCst);
    tended.compact_all().expect_err("it was denied");
    // Each needs its own segment.
    for key in ["b", "c", "d"] {
        put(&tended, key, 5000);
    }
    holds(&sim, DATABASE, &["a", "b", "c", "d"], "behind it");
    drop(tended);
    holds(&sim, DATABASE, &["a", "b", "c", "d"], "closed");
}

/// Renaming the last of the segments created in advance failed, and it kept its name: no earlier one is missing
/// when the database is reopened.
#[test]
fn segments_that_were_not_renamed_leave_no_gap() {
    let sim = disk();
    let armed: Arc<AtomicBool> = Arc::default();
    let hook = {
        let armed = armed.clone();
        move |call: Call, path: &Path| {
            let of_log = path.extension().is_some_and(|ending| ending == "log");
            match call == Call::Rename && of_log && armed.swap(false, Ordering::SeqCst) {
                true => Err(io::Error::other("refused")),
                false => Ok(()),
            }
        }
    };
    let tended = open(Arc::new(FaultyDisk::new(
        Arc::new(sim.clone()),
        Arc::new(hook),
    )));
    put(&tended, "a", 9);
    tended.prepare().expect("makes segments ahead");
    armed.store(true, Ordering::SeqCst);
    tended.compact_all().expect_err("it was refused");
    drop(tended);
    holds(&sim, DATABASE, &["a"], "closed");
}

/// A new database is found under its whole path, whichever process created its folders, and also after an
/// interrupted creation.
#[test]
fn a_created_database_keeps_its_name() {
    for folder in ["/a/b/c", "a", "a/b"] {
        let sim = SimDisk::new();
        let tended = subject::open(Arc::new(sim.clone()), Path::new(folder)).expect("opens");
        put(&tended, "a", 9);
        holds(&sim, folder, &["a"], folder);
        tended.backup(Path::new("/x/y/backups")).expect("backs up");
        let found = sim.after_power_loss(Loss::Everything, 0);
        let listed = isomer_lsm::backup::list(&found, Path::new("/x/y/backups"));
        assert_eq!(listed.expect("listed").len(), 1);
        tended
            .engine()
            .checkpoint(Path::new("/x/z/copy"))
            .expect("copies");
        holds(&sim, "/x/z/copy", &["a"], "the copy");
    }
    let sim = SimDisk::new();
    let (faulty, armed) = denying(&sim, |call, path| {
        call == Call::Rename && path.ends_with("STORE.new")
    });
    armed.store(true, Ordering::SeqCst);
    let refused = subject::open(faulty, Path::new(DATABASE));
    refused.map(drop).expect_err("it was denied");
    let tended = open(Arc::new(sim.clone()));
    put(&tended, "a", 9);
    holds(&sim, DATABASE, &["a"], "made in two attempts");
}

/// The key was changed, but the call reported an error: commits under the new key stay readable.
#[test]
fn keys_that_were_found_are_durable_before_anything_is_sealed_with_them() {
    let sim = disk();
    sim.make_folder(Path::new(subject::ENCRYPTED))
        .expect("made");
    sim.sync_folder(Path::new("/")).expect("synced");
    put(&open(Arc::new(sim.clone())), "a", 9);
    let [own, other] = [0x42, 0x43].map(|byte| MasterKey::from_bytes(&[byte; 32]).expect("a key"));
    let folder = Path::new(DATABASE);
    rotate(&sim, folder, &own, &other).expect("rotates");
    let (faulty, armed) = denying(&sim, |call, path| {
        call == Call::Rename && path.ends_with("KEYS.new")
    });
    armed.store(true, Ordering::SeqCst);
    rotate(&*faulty, folder, &other, &own).expect_err("it was denied");
    let tended = open(Arc::new(sim.clone()));
    put(&tended, "b", 9);
    holds(&sim, DATABASE, &["a", "b"], "under another key");
}
