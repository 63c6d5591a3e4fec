//! Databases that are opened as they are stored: which new ones, and which copies, several processes can open.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions, backup::RestoreTarget};
use isomer_storage::{Durability, Engine, StorageError};
use isomer_vfs::{Disk, DiskFile, FileType, Lock, LockError, LockMode, OpenMode, RealDisk};

use super::{Ending, all, assert_sound, commit, open, small};

/// The real disk, of which the test says that it is a network file system.
#[derive(Debug)]
struct Remote(&'static str);

impl Disk for Remote {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        RealDisk.open(path, how)
    }

    fn kind(&self, path: &Path) -> io::Result<FileType> {
        RealDisk.kind(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(folder)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_folder(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_folder(folder)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
        RealDisk.lock(path, mode)
    }

    fn remote_file_system(&self, _: &Path) -> io::Result<Option<&'static str>> {
        Ok(Some(self.0))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        RealDisk.free_bytes(path)
    }
}

fn as_stored() -> LsmOptions {
    LsmOptions {
        sharing: LogSharing::AsStored,
        ..small(false)
    }
}

fn remote(kind: &'static str) -> LsmOptions {
    LsmOptions {
        disk: Arc::new(Remote(kind)),
        ..as_stored()
    }
}

fn exclusive() -> LsmOptions {
    LsmOptions {
        sharing: LogSharing::Exclusive,
        ..small(false)
    }
}

/// The bytes of the file `STORE` for the format, and for the mark of a copy of a shared database.
fn format_and_mark(path: &Path) -> (u8, u8) {
    let store = fs::read(path.join("STORE")).expect("a file");
    (store[8], store[12])
}

fn is_shared_at(path: &Path) -> bool {
    LsmEngine::is_shared_at(path, &LsmOptions::default()).expect("readable")
}

/// What the error says if a second process opens the database for writing as it is stored; none if it can.
fn refused(path: &Path, options: LsmOptions) -> Option<String> {
    match LsmEngine::open(path, options) {
        Ok(_) => None,
        Err(error @ StorageError::InUse { .. }) => Some(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_new_database_is_a_shared_one_and_an_exclusive_one_stays_exclusive() {
    let folder = tempfile::tempdir().expect("a folder");
    let (new, own) = (folder.path().join("new"), folder.path().join("own"));
    let first = open(&new, &as_stored());
    assert!(first.is_shared() && is_shared_at(&new));
    commit(&first, &[(b"a", b"1")]);
    let second = open(&new, &as_stored());
    assert_eq!(all(&second).len(), 1);
    assert_eq!(format_and_mark(&new), (3, 0));

    drop(open(&own, &exclusive()));
    let before = fs::read(own.join("STORE")).expect("a file");
    let alone = open(&own, &as_stored());
    assert!(!alone.is_shared() && !is_shared_at(&own));
    commit(&alone, &[(b"a", b"1")]);
    assert!(refused(&own, as_stored()).is_some());
    drop(alone);
    assert_eq!(fs::read(own.join("STORE")).expect("a file"), before);
}

/// Where processes cannot share a database, a new one is an exclusive one, and a shared one is refused with the reason.
#[test]
fn a_folder_on_a_network_file_system_has_exclusive_databases() {
    for kind in ["NFS", "FUSE"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (new, shared) = (folder.path().join("new"), folder.path().join("shared"));
        let reason = LsmEngine::check_sharing(folder.path(), &remote(kind)).expect_err("remote");
        assert!(
            reason.to_string().contains(&format!("is on {kind}")),
            "{reason}"
        );
        assert!(LsmEngine::check_sharing(folder.path(), &as_stored()).is_ok());
        let engine = open(&new, &remote(kind));
        assert!(!engine.is_shared());
        commit(&engine, &[(b"a", b"1")]);
        assert!(refused(&new, remote(kind)).is_some());
        drop(engine);
        let engine = open(&new, &remote(kind));
        assert_eq!(all(&engine).len(), 1);
        drop(engine);
        // It stays one when it is moved to a local disk.
        assert!(!is_shared_at(&new));
        assert_eq!(format_and_mark(&new), (2, 0));

        drop(open(&shared, &as_stored()));
        let before = fs::read(shared.join("STORE")).expect("a file");
        let sharing = [
            LogSharing::AsStored,
            LogSharing::Shared,
            LogSharing::Exclusive,
        ];
        for sharing in sharing {
            let options = LsmOptions {
                sharing,
                ..remote(kind)
            };
            let error = LsmEngine::open(&shared, options).expect_err("it is remote");
            assert!(
                error.to_string().contains(&format!("is on {kind}")),
                "{error}"
            );
        }
        assert_eq!(fs::read(shared.join("STORE")).expect("a file"), before);
    }
}

/// Makes a checkpoint, and restores a backup.
fn copies(engine: &LsmEngine, folder: &Path) -> [PathBuf; 2] {
    let [copy, backups, restored] = ["copy", "backups", "restored"].map(|name| folder.join(name));
    engine.checkpoint(&copy).expect("copied");
    let mut quiet = |_: u64, _: u64| {};
    engine
        .backup(&RealDisk, &backups, &mut quiet)
        .expect("backed up");
    let newest = RestoreTarget::Newest;
    let options = LsmOptions::default();
    LsmEngine::restore(
        &RealDisk, &backups, &restored, newest, None, &options, &mut quiet,
    )
    .expect("restored");
    [copy, restored]
}

/// A copy of a shared database becomes a shared one when it is first opened for writing, or says from then on that it
/// is an exclusive one.
#[test]
fn copies_are_as_their_source_was_open() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, wanted) in [LogSharing::AsStored, LogSharing::Exclusive]
        .iter()
        .enumerate()
    {
        let root = folder.path().join(number.to_string());
        let path = root.join("db");
        let engine = open(&path, &as_stored());
        commit(&engine, &[(b"a", b"1")]);
        commit(&engine, &[(b"b", b"2")]);
        for copy in copies(&engine, &root) {
            assert_eq!(format_and_mark(&copy), (2, 1));
            let reads = LsmOptions {
                read_only: true,
                ..as_stored()
            };
            assert_eq!(all(&open(&copy, &reads)).len(), 2);
            assert_eq!(format_and_mark(&copy), (2, 1), "a reader decides nothing");
            assert!(is_shared_at(&copy));
            let options = LsmOptions {
                sharing: wanted.clone(),
                ..as_stored()
            };
            let opened = open(&copy, &options);
            assert_eq!(all(&opened).len(), 2);
            commit(&opened, &[(b"c", b"3")]);
            assert_sound(&opened);
            let is_shared = matches!(wanted, LogSharing::AsStored);
            assert_eq!(opened.is_shared(), is_shared);
            assert_eq!(refused(&copy, as_stored()).is_none(), is_shared);
            drop(opened);
            assert_eq!(is_shared_at(&copy), is_shared);
            assert_eq!(format_and_mark(&copy), (if is_shared { 3 } else { 2 }, 0));
            assert_eq!(all(&open(&copy, &as_stored())).len(), 3);
        }
        drop(engine);
        // A source that is open exclusively has exclusive copies.
        let engine = open(&path, &exclusive());
        for copy in copies(&engine, &root.join("alone")) {
            assert_eq!(format_and_mark(&copy), (2, 0));
            assert!(!open(&copy, &as_stored()).is_shared());
        }
    }
}

/// The process that opens a copy for the first time may end at each call that changes something.
#[test]
fn the_first_opening_of_a_copy_may_end_at_any_call() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(&folder.path().join("db"), &as_stored());
    for number in 0..60_u32 {
        commit(&engine, &[(&number.to_be_bytes(), &[7; 300])]);
    }
    let expected = all(&engine);
    for sharing in [LogSharing::AsStored, LogSharing::Exclusive] {
        for calls in 1.. {
            let copy = folder.path().join("copy");
            engine.checkpoint(&copy).expect("copied");
            let ending = Ending::new();
            ending.end_at(calls);
            let options = LsmOptions {
                sharing: sharing.clone(),
                ..as_stored()
            };
            let opened = LsmEngine::open(&copy, ending.options(options));
            let is_done = opened.is_ok() && !ending.has_ended();
            drop(opened);
            let again = open(&copy, &as_stored());
            assert_eq!(all(&again), expected, "it ended at call {calls}");
            assert_sound(&again);
            drop(again);
            fs::remove_dir_all(&copy).expect("removed");
            if is_done {
                assert!(calls > 5, "it ended {calls} times");
                break;
            }
        }
    }
}

/// A load into tables, and commits without writes, as the last ones: a copy that becomes a shared database has all of
/// them, and continues at the same version.
#[test]
fn copies_of_loads_and_of_empty_commits_are_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    for (number, has_empty_commit) in [false, true].into_iter().enumerate() {
        let root = folder.path().join(number.to_string());
        let engine = open(&root.join("db"), &as_stored());
        commit(&engine, &[(b"a", b"1")]);
        let mut pairs = (0..20_u8).map(|n| Ok((vec![1, n], vec![n])));
        engine.ingest(&mut pairs, Some(b"a load")).expect("loaded");
        if has_empty_commit {
            let mut transaction = engine.begin().expect("begins");
            transaction.append_stream(b"nothing was written");
            transaction.commit(Durability::Synced).expect("committed");
        }
        let (expected, version) = (all(&engine), engine.version());
        assert_eq!(expected.len(), 21);
        for copy in copies(&engine, &root) {
            for _ in 0..2 {
                let opened = open(&copy, &as_stored());
                assert_eq!(
                    (all(&opened), opened.version()),
                    (expected.clone(), version)
                );
                assert_sound(&opened);
            }
            let opened = open(&copy, &as_stored());
            assert_eq!(commit(&opened, &[(b"b", b"2")]), version + 1);
            drop(opened);
            assert_eq!(all(&open(&copy, &as_stored())).len(), 22);
        }
    }
}
