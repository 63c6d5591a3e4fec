//! Files that do not belong together are refused: the manifest names the segments of the log, the tables and
//! the database.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, StorageError};

fn options() -> LsmOptions {
    LsmOptions {
        background: false,
        segment_bytes: 8 << 10,
        memtable_bytes: 64 << 10,
        ..LsmOptions::default()
    }
}

fn open(path: &Path) -> Result<LsmEngine, StorageError> {
    LsmEngine::open(path, options())
}

fn commit(engine: &LsmEngine, count: u32) {
    for _ in 0..count {
        let number = engine.version() + 1;
        let mut transaction = engine.begin().unwrap();
        transaction
            .put(&number.to_be_bytes(), &[number as u8; 400])
            .unwrap();
        transaction.append_stream(&number.to_be_bytes());
        transaction.commit(Durability::Synced).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if target.file_name().is_some_and(|name| name != "LOCK") {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

/// All files of a database with their contents, without the lock.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for path in files(path) {
        if path.is_dir() {
            found.extend(contents(&path));
        } else if path.file_name().is_some_and(|name| name != "LOCK") {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

/// The error of an opening that is refused and changes no file.
fn refusal(path: &Path, what: &str) -> StorageError {
    let before = contents(path);
    let error = open(path)
        .err()
        .unwrap_or_else(|| panic!("{what}: it opened"));
    let after = contents(path);
    for (file, bytes) in &before {
        let same = after.get(file).is_some_and(|now| now == bytes);
        assert!(same, "{what}: {} is lost or changed", file.display());
    }
    assert_eq!(before.len(), after.len(), "{what}: a file was added");
    error
}

/// The state of a database with tables and a log of several segments, while it is open, and closed.
fn make(folder: &Path) -> (PathBuf, PathBuf) {
    let (path, in_use, closed) = (
        folder.join("db"),
        folder.join("in use"),
        folder.join("closed"),
    );
    let engine = open(&path).unwrap();
    commit(&engine, 40);
    engine.flush().unwrap();
    commit(&engine, 40);
    engine.prepare().unwrap();
    copy(&path, &in_use);
    drop(engine);
    copy(&path, &closed);
    (in_use, closed)
}

/// Opening is refused, names the file, and changes nothing: with the original file, everything is intact.
fn assert_refused(path: &Path, named: &Path, what: &str) {
    let error = refusal(path, what);
    assert!(matches!(error, StorageError::Corrupt(_)), "{what}: {error}");
    let named = named.file_name().unwrap().to_str().unwrap();
    assert!(error.to_string().contains(named), "{what}: {error}");
}

#[test]
fn each_file_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (in_use, closed) = make(folder.path());
    for state in [in_use, closed] {
        let path = folder.path().join("trial");
        copy(&state, &path);
        let mut all = [files(&path.join("log")), files(&path.join("tables"))].concat();
        all.push(path.join("STORE"));
        assert!(all.len() > 5);
        for file in all {
            let bytes = fs::read(&file).unwrap();
            fs::remove_file(&file).unwrap();
            assert_refused(&path, &file, &format!("without {}", file.display()));
            fs::write(&file, bytes).unwrap();
        }
        for folder in ["log", "tables"] {
            let hidden = path.join("hidden");
            fs::rename(path.join(folder), &hidden).unwrap();
            fs::create_dir(path.join(folder)).unwrap();
            assert!(open(&path).is_err(), "without {folder}");
            fs::remove_dir(path.join(folder)).unwrap();
            fs::rename(hidden, path.join(folder)).unwrap();
        }
        let engine = open(&path).unwrap();
        assert_eq!(engine.version(), 80);
        assert_eq!(engine.verify(&mut |_, _| {}).unwrap(), Vec::<String>::new());
        drop(engine);
        fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn a_segment_in_the_place_of_another_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (in_use, closed) = make(folder.path());
    for state in [in_use, closed] {
        let segments = files(&state.join("log"));
        for from in &segments {
            for to in segments.iter().filter(|to| *to != from) {
                let path = folder.path().join("trial");
                copy(&state, &path);
                let target = path.join("log").join(to.file_name().unwrap());
                fs::copy(from, &target).unwrap();
                assert_refused(
                    &path,
                    &target,
                    &format!("{} over {}", from.display(), to.display()),
                );
                fs::remove_dir_all(&path).unwrap();
            }
        }
    }
}

/// Where a segment is a leftover by its name: below and above the segments in use, half made, and half removed.
fn leftover_names(segment: &Path) -> [PathBuf; 4] {
    [
        segment.with_file_name("0000000000000000.log"),
        segment.with_file_name("00000000000000ff.log"),
        segment.with_extension("new"),
        segment.with_extension("old"),
    ]
}

/// A segment with commits under a name that the manifest does not contain is evidence of a file that was renamed:
/// it is refused, and stays. An empty one is removed.
#[test]
fn a_renamed_segment_is_removed_only_if_it_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let (in_use, closed) = make(folder.path());
    let foreign = folder.path().join("foreign");
    make(&foreign);
    let (mut refused, mut removed) = (0, 0);
    for state in [&in_use, &closed] {
        let sources = [&in_use, &closed, &foreign.join("in use")].map(|path| path.join("log"));
        for source in sources.iter().flat_map(|log| files(log)) {
            let bytes = fs::read(&source).unwrap();
            // The first record, or zeros.
            let is_empty = bytes[1024..1032] == [0; 8];
            let path = folder.path().join("trial");
            let own = path.join("log").join(source.file_name().unwrap());
            for name in leftover_names(&own) {
                copy(state, &path);
                fs::copy(&source, &name).unwrap();
                let what = format!("{} as {}", source.display(), name.display());
                if is_empty {
                    assert_eq!(open(&path).unwrap().version(), 80, "{what}");
                    assert!(!name.exists(), "{what}");
                    removed += 1;
                } else {
                    assert_refused(&path, &name, &what);
                    fs::remove_file(&name).unwrap();
                    assert_eq!(open(&path).unwrap().version(), 80, "{what}");
                    refused += 1;
                }
                fs::remove_dir_all(&path).unwrap();
            }
        }
    }
    assert!(refused > 40 && removed > 10, "{refused} {removed}");
}

/// The beginning of a record that a loss of power left in an empty segment is dropped. If a second loss of power, or a
/// kill, undoes what that opening removed, the next opening does not take the segment for a foreign one.
#[test]
fn a_torn_first_record_is_dropped_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (in_use, closed) = make(folder.path());
    let record = files(&in_use.join("log"))
        .into_iter()
        .map(|file| fs::read(file).unwrap()[1024..1064].to_vec())
        .find(|bytes| bytes[..8] != [0; 8])
        .expect("a segment with commits");
    let (path, killed) = (folder.path().join("trial"), folder.path().join("killed"));
    let mut tried = 0;
    for state in [&in_use, &closed] {
        for segment in files(&state.join("log")) {
            let mut bytes = fs::read(&segment).unwrap();
            if bytes[1024..1032] != [0; 8] {
                continue;
            }
            bytes[1024..1064].copy_from_slice(&record);
            copy(state, &path);
            let name = segment.file_name().unwrap();
            fs::write(path.join("log").join(name), &bytes).unwrap();
            let what = segment.display().to_string();
            let engine = open(&path).expect(&what);
            assert_eq!(engine.version(), 80, "{what}");
            copy(&path, &killed);
            drop(engine);
            let again = killed.join("log").join(name);
            if !again.exists() {
                fs::write(&again, &bytes).unwrap();
            }
            assert_eq!(open(&killed).expect(&what).version(), 80, "{what}");
            fs::remove_dir_all(&path).unwrap();
            fs::remove_dir_all(&killed).unwrap();
            tried += 1;
        }
    }
    assert!(tried > 0);
}

/// Parts of a database from two points in time are refused: the manifest of one with the log of the other, and
/// single segments.
#[test]
fn parts_of_another_time_or_database_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (in_use, closed) = make(folder.path());
    let later = folder.path().join("later");
    copy(&closed, &later);
    let engine = open(&later).unwrap();
    commit(&engine, 60);
    engine.flush().unwrap();
    commit(&engine, 30);
    drop(engine);
    let other = folder.path().join("other database");
    let engine = open(&other).unwrap();
    commit(&engine, 80);
    engine.flush().unwrap();
    commit(&engine, 40);
    drop(engine);
    let path = folder.path().join("trial");
    for (base, part) in [
        (&later, &in_use),
        (&later, &closed),
        (&closed, &later),
        (&in_use, &later),
        (&closed, &other),
        (&other, &closed),
    ] {
        for what in ["log", "tables", "tables/MANIFEST"] {
            copy(base, &path);
            let (from, to) = (part.join(what), path.join(what));
            if from.is_dir() {
                fs::remove_dir_all(&to).unwrap();
                copy(&from, &to);
            } else {
                fs::copy(from, to).unwrap();
            }
            let case = format!("{what} of {} in {}", part.display(), base.display());
            refusal(&path, &case);
            fs::remove_dir_all(&path).unwrap();
        }
    }
    // Only the identity differs.
    copy(&closed, &path);
    fs::copy(other.join("STORE"), path.join("STORE")).unwrap();
    assert_refused(&path, Path::new("MANIFEST"), "another database's STORE");
}

/// A closed log that was cut at its end is detected, however it was done.
#[test]
fn the_end_of_a_closed_log_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let (_, closed) = make(folder.path());
    let path = folder.path().join("trial");
    let last = files(&closed.join("log")).pop().unwrap();
    let bytes = fs::read(&last).unwrap();
    let name = last.file_name().unwrap();
    // Cut, and cut so that it looks like an open segment: no closing part, and as long as its header says.
    for len in [0, 48, 600, bytes.len() - 8] {
        copy(&closed, &path);
        fs::write(path.join("log").join(name), &bytes[..len]).unwrap();
        assert_refused(&path, &last, &format!("cut to {len}"));
        fs::remove_dir_all(&path).unwrap();
    }
    copy(&closed, &path);
    let mut open_again = bytes.clone();
    open_again[512..592].fill(0);
    open_again.resize(8 << 10, 0);
    open_again[2048..].fill(0);
    fs::write(path.join("log").join(name), &open_again).unwrap();
    assert_refused(&path, &last, "without its closing part");
}
