//! Backups of a database in use, and databases restored from them: completely, at a version, at a time;
//! encrypted as well.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_lsm::{
    LsmEngine, LsmOptions,
    backup::{RestoreTarget, keep_last, list},
};
use isomer_storage::{
    Durability, Engine, StorageError,
    conformance::{ALL, scan},
};
use isomer_vfs::{
    Disk, SimDisk,
    keys::{self, MasterKey},
};

const DB: &str = "/db";
const TARGET: &str = "/backups";
const AGAIN: &str = "/again";

/// A database whose clock advances by ten with each commit, from 1000.
struct Subject {
    disk: SimDisk,
    options: LsmOptions,
    time: Arc<AtomicU64>,
    engine: LsmEngine,
    master: Option<MasterKey>,
}

impl Subject {
    fn new(master: Option<&MasterKey>) -> Self {
        let disk = SimDisk::new();
        disk.make_folder(Path::new(DB)).unwrap();
        let time = Arc::new(AtomicU64::new(1000));
        let clock = time.clone();
        let options = LsmOptions {
            disk: Arc::new(disk.clone()),
            seal: keys::open(&disk, Path::new(DB), master, true).unwrap(),
            background: false,
            segment_bytes: 8 << 10,
            memtable_bytes: 16 << 10,
            clock: Arc::new(move || clock.load(Ordering::Relaxed)),
            ..LsmOptions::default()
        };
        let engine = LsmEngine::open(DB, options.clone()).unwrap();
        Self {
            disk,
            options,
            time,
            engine,
            master: master.cloned(),
        }
    }

    /// The database in another folder.
    fn other(&self, folder: &Path) -> Self {
        Self {
            disk: self.disk.clone(),
            options: self.options.clone(),
            time: self.time.clone(),
            engine: LsmEngine::open(folder, self.options.clone()).unwrap(),
            master: self.master.clone(),
        }
    }

    /// Commits `count` pairs, one by one; the value of a key is the number of its commit.
    fn commit(&self, count: u64) {
        for _ in 0..count {
            self.time.fetch_add(10, Ordering::Relaxed);
            let next = self.engine.version() + 1;
            let mut transaction = self.engine.begin().unwrap();
            let key = format!("key {:03}", next % 50);
            transaction
                .put(key.as_bytes(), &next.to_be_bytes().repeat(20))
                .unwrap();
            transaction.append_stream(&next.to_be_bytes());
            transaction.commit(Durability::Buffered).unwrap();
        }
    }

    fn backup(&self) -> isomer_lsm::backup::BackupResult {
        let disk = self.disk.clone();
        self.engine
            .backup(&disk, Path::new(TARGET), &mut |_, _| {})
            .unwrap()
    }

    fn restore(&self, point: RestoreTarget) -> Result<(u64, LsmEngine), StorageError> {
        let again = Path::new(AGAIN);
        isomer_lsm::backup::remove_folder(&self.disk, again).unwrap();
        let restored = LsmEngine::restore(
            &self.disk,
            Path::new(TARGET),
            again,
            point,
            self.master.as_ref(),
            &self.options,
            &mut |done, total| assert!(done <= total),
        )?;
        let engine = LsmEngine::open(again, self.options.clone())?;
        assert_eq!(engine.version(), restored.version);
        assert_eq!(engine.verify(&mut |_, _| {}).unwrap(), Vec::<String>::new());
        Ok((restored.version, engine))
    }
}

/// Checks the contents after commits up to `version`, and their entries in the change stream; then continues.
fn assert_at(engine: &LsmEngine, version: u64) {
    assert_eq!(engine.version(), version);
    let found = scan(
        &*engine.snapshot().unwrap(),
        ALL,
        isomer_storage::Order::Ascending,
        1000,
    );
    let mut expected = std::collections::BTreeMap::new();
    for number in 1..=version {
        let key = format!("key {:03}", number % 50).into_bytes();
        expected.insert(key, number.to_be_bytes().repeat(20));
    }
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>());
    let stream = engine.stream(0, 10_000, 1 << 30, false).unwrap();
    assert_eq!(stream.len() as u64, version);
    assert!(
        stream
            .iter()
            .all(|entry| entry.bytes == entry.version.to_be_bytes())
    );
    let mut transaction = engine.begin().unwrap();
    transaction.put(b"on", b"it goes").unwrap();
    assert_eq!(transaction.commit(Durability::Synced).unwrap(), version + 1);
}

#[test]
fn a_backup_is_restored_to_any_version_and_time() {
    let subject = Subject::new(None);
    subject.commit(120);
    let first = subject.backup();
    assert_eq!((first.number, first.version), (1, 120));
    subject.commit(130);
    let second = subject.backup();
    assert_eq!((second.number, second.version), (2, 250));
    assert!(second.copied.1 > 0);
    for version in [120, 121, 187, 249, 250] {
        let (found, engine) = subject.restore(RestoreTarget::Version(version)).unwrap();
        assert_eq!(found, version);
        assert_at(&engine, version);
    }
    assert_at(&subject.restore(RestoreTarget::Newest).unwrap().1, 250);
    // Commit n has the time 1000 + 10 n.
    for (time, version) in [
        (2200, 120),
        (2209, 120),
        (2210, 121),
        (3000, 200),
        (9999, 250),
    ] {
        let (found, engine) = subject.restore(RestoreTarget::Time(time)).unwrap();
        assert_eq!(found, version, "at {time}");
        assert_at(&engine, version);
    }
    for point in [
        RestoreTarget::Version(119),
        RestoreTarget::Version(251),
        RestoreTarget::Time(1500),
    ] {
        let error = subject.restore(point).map(drop).unwrap_err();
        assert!(matches!(error, StorageError::Invalid(_)), "{error}");
    }
    // A database that continues from an earlier point has another history: its backups are not mixed with the
    // first one's.
    let other = subject.restore(RestoreTarget::Version(187)).unwrap().1;
    let error = other.backup(&subject.disk, Path::new(TARGET), &mut |_, _| {});
    let error = error.unwrap_err().to_string();
    assert!(error.contains("another database"), "{error}");
    drop(other);
    subject.commit(5);
    assert_eq!(subject.engine.version(), 255, "the original has continued");
    let again = subject.backup();
    assert_eq!(again.version, 255);
    assert_eq!(keep_last(&subject.disk, Path::new(TARGET), 1).unwrap(), 2);
    assert_eq!(list(&subject.disk, Path::new(TARGET)).unwrap().len(), 1);
    assert_at(&subject.restore(RestoreTarget::Newest).unwrap().1, 255);
    assert!(
        !subject
            .disk
            .exists(&Path::new(DB).join("backup.tmp"))
            .unwrap(),
        "no temporary files are left"
    );
}

/// The time of a backup is never earlier than its last commit, so that no later state is restored for a time,
/// even if the clock was set back before or between backups.
#[test]
fn a_clock_that_goes_back_restores_no_later_state() {
    let subject = Subject::new(None);
    subject.commit(20);
    let before = subject.time.load(Ordering::Relaxed);
    subject.commit(20);
    subject.time.store(10, Ordering::Relaxed);
    subject.backup();
    let error = subject
        .restore(RestoreTarget::Time(before))
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, StorageError::Invalid(_)), "{error}");
    assert!(
        error.to_string().contains("no backup reaches back"),
        "{error}"
    );
    // The times of commits do not decrease, so those made now are as late as the one before the clock was set
    // back.
    subject.commit(20);
    subject.backup();
    for backup in list(&subject.disk, Path::new(TARGET)).unwrap() {
        assert!(backup.time_ms >= before + 200, "{}", backup.time_ms);
    }
    let error = subject
        .restore(RestoreTarget::Time(before))
        .map(drop)
        .unwrap_err();
    assert!(matches!(error, StorageError::Invalid(_)), "{error}");
    subject.time.store(before + 1_000, Ordering::Relaxed);
    subject.commit(10);
    subject.backup();
    let (version, engine) = subject.restore(RestoreTarget::Time(before + 200)).unwrap();
    assert_eq!(version, 60, "the last one that is not later");
    assert_at(&engine, 60);
    drop(engine);
    assert_eq!(subject.restore(RestoreTarget::Version(45)).unwrap().0, 45);
}

/// Copies of the database that are written to independently do not add their backups to its own: a point
/// between two of them would be read from either log.
#[test]
fn copies_do_not_add_backups_to_those_of_the_original() {
    let subject = Subject::new(None);
    subject.commit(20);
    subject.backup();
    let copied = Path::new("/copied");
    subject.engine.checkpoint(copied).unwrap();
    assert_refused(&subject.other(copied), "another database");
    // Files that are copied while the database is closed have its identity.
    let (earlier, parallel) = (Path::new("/earlier"), Path::new("/parallel"));
    let closed = subject.other(copied);
    drop(subject);
    copy_files(&closed.disk, Path::new(DB), earlier);
    copy_files(&closed.disk, Path::new(DB), parallel);
    let subject = closed.other(Path::new(DB));
    subject.commit(5);
    assert_eq!(subject.backup().version, 25);
    assert_refused(&subject.other(earlier), "other commits");
    let parallel = subject.other(parallel);
    parallel.commit(9);
    assert_eq!(parallel.engine.version(), 29);
    assert_refused(&parallel, "other commits");
    drop(parallel);
    subject.commit(5);
    assert_eq!(subject.backup().number, 3);
    for version in 20..=30 {
        assert_at(
            &subject.restore(RestoreTarget::Version(version)).unwrap().1,
            version,
        );
    }
}

fn assert_refused(subject: &Subject, why: &str) {
    let before = list(&subject.disk, Path::new(TARGET)).unwrap();
    let engine = &subject.engine;
    let error = engine.backup(&subject.disk, Path::new(TARGET), &mut |_, _| {});
    let error = error.unwrap_err();
    assert!(matches!(error, StorageError::Invalid(_)), "{error}");
    assert!(error.to_string().contains(why), "{error}");
    assert_eq!(list(&subject.disk, Path::new(TARGET)).unwrap(), before);
}

fn copy_files(disk: &SimDisk, from: &Path, to: &Path) {
    for (path, bytes) in contents(disk, from) {
        let path = to.join(path.strip_prefix(from).unwrap());
        disk.make_folder(path.parent().unwrap()).unwrap();
        let file = disk.open(&path, isomer_vfs::OpenMode::Create).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
    }
}

#[test]
fn an_encrypted_database_has_encrypted_backups() {
    let master = MasterKey::generate().unwrap();
    let subject = Subject::new(Some(&master));
    let secret = b"very secret text".repeat(4);
    let mut transaction = subject.engine.begin().unwrap();
    transaction.put(b"a secret key", &secret).unwrap();
    transaction.append_stream(b"a secret entry");
    transaction.commit(Durability::Synced).unwrap();
    subject.backup();
    subject.commit(20);
    subject.backup();
    let copy = Path::new("/copy");
    subject.engine.checkpoint(copy).unwrap();
    for folder in [DB, TARGET, "/copy"] {
        for (path, bytes) in contents(&subject.disk, Path::new(folder)) {
            assert!(
                !bytes.windows(6).any(|six| six == b"secret"),
                "{} contains plain text",
                path.display()
            );
        }
    }
    let (version, engine) = subject.restore(RestoreTarget::Version(10)).unwrap();
    assert_eq!(version, 10);
    assert_eq!(
        engine.snapshot().unwrap().get(b"a secret key").unwrap(),
        Some(secret)
    );
    drop(engine);
    for folder in [AGAIN, "/copy"] {
        let folder = Path::new(folder);
        assert!(keys::open(&subject.disk, folder, None, false).is_err());
        let wrong = MasterKey::generate().unwrap();
        assert!(keys::open(&subject.disk, folder, Some(&wrong), false).is_err());
        let seal = keys::open(&subject.disk, folder, Some(&master), false).unwrap();
        let options = LsmOptions {
            seal,
            ..subject.options.clone()
        };
        LsmEngine::open(folder, options).unwrap();
    }
}

fn contents(disk: &SimDisk, folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for name in disk.list(folder).unwrap() {
        let path = folder.join(name);
        if disk.kind(&path).unwrap() == isomer_vfs::FileType::Folder {
            found.extend(contents(disk, &path));
            continue;
        }
        let file = disk.open(&path, isomer_vfs::OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        found.push((path, bytes));
    }
    found
}

/// Backups on a real disk concurrent with commits, bulk loads, flushes and compactions: each is one version,
/// complete.
#[test]
fn backups_are_taken_while_writes_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let options = LsmOptions {
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        ..LsmOptions::default()
    };
    let engine = LsmEngine::open(path("db"), options.clone()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let versions: Vec<u64> = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut round = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                if round.is_multiple_of(40) {
                    let mut pairs = (0..200_u32).map(|number| {
                        let key = format!("load {round:06} {number:04}");
                        Ok((key.into_bytes(), round.to_be_bytes().to_vec()))
                    });
                    engine.ingest(&mut pairs, None).unwrap();
                    continue;
                }
                let mut transaction = engine.begin().unwrap();
                for number in 0..20_u64 {
                    let key = format!("key {:04}", (round * 37 + number * 113) % 2000);
                    transaction
                        .put(key.as_bytes(), &[round as u8; 100])
                        .unwrap();
                }
                // Two keys that always change together.
                transaction.put(b"left", &round.to_be_bytes()).unwrap();
                transaction.put(b"right", &round.to_be_bytes()).unwrap();
                let durability = if round.is_multiple_of(5) {
                    Durability::Synced
                } else {
                    Durability::Buffered
                };
                transaction.commit(durability).unwrap();
            }
        });
        let versions = (0..6)
            .map(|_| {
                // Backups of several moments, while commits go on.
                std::thread::sleep(std::time::Duration::from_millis(60));
                let taken = engine.backup(&isomer_vfs::RealDisk, &path("backups"), &mut |_, _| {});
                taken.unwrap().version
            })
            .collect();
        stop.store(true, Ordering::Relaxed);
        versions
    });
    assert!(versions.is_sorted() && versions[0] < versions[5]);
    for version in versions {
        let target = path(&format!("again{version}"));
        let restored = LsmEngine::restore(
            &isomer_vfs::RealDisk,
            &path("backups"),
            &target,
            RestoreTarget::Version(version),
            None,
            &options,
            &mut |_, _| {},
        );
        assert_eq!(restored.unwrap().version, version);
        let engine = LsmEngine::open(&target, options.clone()).unwrap();
        assert_eq!(engine.version(), version);
        assert_eq!(engine.verify(&mut |_, _| {}).unwrap(), Vec::<String>::new());
        let snapshot = engine.snapshot().unwrap();
        let (left, right) = (snapshot.get(b"left"), snapshot.get(b"right"));
        assert_eq!(left.unwrap(), right.unwrap(), "half a commit");
        let loads = scan(&*snapshot, ALL, isomer_storage::Order::Ascending, 1000);
        let loaded = loads
            .iter()
            .filter(|(key, _)| key.starts_with(b"load"))
            .count();
        assert!(loaded.is_multiple_of(200), "half a bulk load: {loaded}");
    }
}
