//! Files: random histories against a naive model, conflicts, and removal without leftovers.

use std::collections::BTreeMap;

use isomer_data::{
    Access, CHUNK_BYTES, DataStore, ErrorKind, MAX_FILE_BYTES, PathKind, Transaction,
};
use proptest::prelude::*;

use crate::common::{memory, on_disk, second_process::needs_alone};

fn write<T>(store: &DataStore, run: impl FnOnce(&mut Transaction) -> T) -> T {
    let mut tx = store.begin(Access::Write).unwrap();
    let out = run(&mut tx);
    tx.commit().unwrap();
    out
}

fn content(tx: &Transaction, path: &str) -> Vec<u8> {
    let file = tx.files().file(path).unwrap();
    let mut bytes = vec![0xee; tx.files().file_bytes(file).unwrap() as usize];
    assert_eq!(
        tx.files().read_file(file, 0, &mut bytes).unwrap(),
        bytes.len()
    );
    bytes
}

/// The content of each path except the root's.
type Model = BTreeMap<String, Option<Vec<u8>>>;

#[derive(Clone, Debug)]
enum Step {
    CreateFile(String),
    CreateFolder(String),
    CreateFolders(String),
    Write(String, usize, Vec<u8>),
    Resize(String, usize),
    Read(String, usize, usize),
    Rename(String, String),
    Remove(String),
    RemoveAll(String),
    List(String),
    Commit,
    Rollback,
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![Just("a"), Just("b"), Just("ab")], 1..4)
        .prop_map(|names| format!("/{}", names.join("/")))
}

/// Positions around the borders of chunks.
fn place() -> impl Strategy<Value = usize> {
    let chunk = CHUNK_BYTES as usize;
    (0..3_usize, 0..40_usize, any::<bool>()).prop_map(move |(chunks, off, before)| {
        (chunks * chunk + off).saturating_sub(if before { 40 } else { 0 })
    })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..80),
        1 => (any::<u8>(), place()).prop_map(|(byte, length)| vec![byte; length]),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => path().prop_map(Step::CreateFile),
        3 => path().prop_map(Step::CreateFolder),
        1 => path().prop_map(Step::CreateFolders),
        8 => (path(), place(), bytes()).prop_map(|(path, at, bytes)| Step::Write(path, at, bytes)),
        3 => (path(), place()).prop_map(|(path, size)| Step::Resize(path, size)),
        4 => (path(), place(), place()).prop_map(|(path, at, length)| Step::Read(path, at, length)),
        4 => (path(), path()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => path().prop_map(Step::Remove),
        1 => path().prop_map(Step::RemoveAll),
        2 => path().prop_map(Step::List),
        2 => Just(Step::Commit),
        1 => Just(Step::Rollback),
    ]
}

fn parent(path: &str) -> &str {
    let at = path.rfind('/').unwrap();
    &path[..at]
}

fn is_folder(model: &Model, path: &str) -> bool {
    path.is_empty() || matches!(model.get(path), Some(None))
}

fn inside(model: &Model, path: &str) -> Vec<String> {
    let below = format!("{path}/");
    model
        .keys()
        .filter(|other| other.starts_with(&below))
        .cloned()
        .collect()
}

/// Runs a step on both; whether each succeeded must agree.
fn apply(tx: &mut Transaction, model: &mut Model, step: &Step) {
    match step {
        Step::CreateFile(path) | Step::CreateFolder(path) => {
            let file = matches!(step, Step::CreateFile(_));
            let allowed = is_folder(model, parent(path)) && !model.contains_key(path);
            let done = if file {
                tx.files_mut().create_file(path).map(drop)
            } else {
                tx.files_mut().create_folder(path)
            };
            assert_eq!(done.is_ok(), allowed, "{step:?} {done:?}");
            if allowed {
                model.insert(path.clone(), file.then(Vec::new));
            }
        }
        Step::CreateFolders(path) => {
            let ends = path
                .match_indices('/')
                .map(|(at, _)| at)
                .skip(1)
                .chain([path.len()]);
            let all: Vec<&str> = ends.map(|end| &path[..end]).collect();
            // Up to the first file.
            let free: Vec<_> = all
                .iter()
                .take_while(|path| !matches!(model.get(**path), Some(Some(_))))
                .collect();
            assert_eq!(
                tx.files_mut().create_folders(path).is_ok(),
                free.len() == all.len(),
                "{step:?}"
            );
            for path in free {
                model.insert((*path).to_string(), None);
            }
        }
        Step::Write(path, at, bytes) => {
            let found = tx.files().file(path);
            let Some(Some(own)) = model.get_mut(path) else {
                assert!(found.is_err());
                return;
            };
            tx.files_mut()
                .write_file(found.unwrap(), *at as u64, bytes)
                .unwrap();
            if !bytes.is_empty() {
                own.resize(own.len().max(at + bytes.len()), 0);
                own[*at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        Step::Resize(path, size) => {
            let Some(Some(own)) = model.get_mut(path) else {
                return;
            };
            let file = tx.files().file(path).unwrap();
            tx.files_mut().resize_file(file, *size as u64).unwrap();
            own.resize(*size, 0);
        }
        Step::Read(path, at, length) => {
            let Some(Some(own)) = model.get(path) else {
                return;
            };
            let mut read = vec![0xee; *length];
            let count = tx
                .files()
                .read_file(tx.files().file(path).unwrap(), *at as u64, &mut read)
                .unwrap();
            let expected = own.get(*at..).unwrap_or_default();
            assert_eq!(read[..count], expected[..expected.len().min(*length)]);
        }
        Step::Rename(from, to) => {
            let done = tx.files_mut().rename_path(from, to);
            let file = matches!(model.get(from), Some(Some(_)));
            let free = match model.get(to) {
                None => true,
                Some(there) => file && there.is_some(),
            };
            let allowed = model.contains_key(from)
                && (from == to
                    || (free
                        && is_folder(model, parent(to))
                        && !to.starts_with(&format!("{from}/"))));
            assert_eq!(done.is_ok(), allowed, "{step:?} {done:?}");
            if allowed && from != to {
                for old in [vec![from.clone()], inside(model, from)].concat() {
                    let moved = model.remove(&old).unwrap();
                    model.insert(format!("{to}{}", &old[from.len()..]), moved);
                }
            }
        }
        Step::Remove(path) => {
            let allowed = model.contains_key(path) && inside(model, path).is_empty();
            assert_eq!(
                tx.files_mut().remove_path(path).is_ok(),
                allowed,
                "{step:?}"
            );
            if allowed {
                model.remove(path);
            }
        }
        Step::RemoveAll(path) => {
            let gone = inside(model, path);
            let removed = tx.files_mut().remove_all(path);
            assert_eq!(removed.is_ok(), model.contains_key(path));
            if model.remove(path).is_some() {
                assert_eq!(removed.unwrap(), gone.len() as u64 + 1);
            }
            gone.iter().for_each(|path| drop(model.remove(path)));
        }
        Step::List(path) => {
            let listed = tx.files().list_folder(path, None, 100);
            assert_eq!(listed.is_ok(), is_folder(model, path), "{step:?}");
            if let Ok(listed) = listed {
                compare_folder(&listed, model, path);
            }
        }
        Step::Commit | Step::Rollback => unreachable!("done by the caller"),
    }
}

fn compare_folder(listed: &[(String, isomer_data::FileMetadata)], model: &Model, path: &str) {
    let listed: Vec<_> = listed
        .iter()
        .map(|(name, about)| {
            (
                name.clone(),
                (about.kind == PathKind::File).then_some(about.bytes),
            )
        })
        .collect();
    let expected: Vec<_> = inside(model, path)
        .into_iter()
        .filter(|inside| parent(inside) == path)
        .map(|inside| {
            let size = model[&inside].as_ref().map(|bytes| bytes.len() as u64);
            (inside[path.len() + 1..].to_owned(), size)
        })
        .collect();
    assert_eq!(listed, expected, "{path}");
}

fn compare(tx: &Transaction, model: &Model) {
    compare_folder(&tx.files().list_folder("/", None, 100).unwrap(), model, "");
    for (path, bytes) in model {
        match bytes {
            Some(bytes) => assert!(content(tx, path) == *bytes, "{path}"),
            None => compare_folder(
                &tx.files().list_folder(path, None, 100).unwrap(),
                model,
                path,
            ),
        }
    }
}

fn history(store: &DataStore, steps: &[Step]) {
    let (mut committed, mut model) = (Model::new(), Model::new());
    let mut tx = store.begin(Access::Write).unwrap();
    for step in steps {
        match step {
            Step::Commit => {
                tx.commit().unwrap();
                committed.clone_from(&model);
                tx = store.begin(Access::Write).unwrap();
            }
            Step::Rollback => {
                tx.rollback();
                model.clone_from(&committed);
                tx = store.begin(Access::Write).unwrap();
            }
            step => apply(&mut tx, &mut model, step),
        }
    }
    compare(&tx, &model);
    tx.commit().unwrap();
    compare(&store.begin(Access::Read).unwrap(), &model);
    assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
    // Nothing of a file stays once it is removed.
    write(store, |tx| {
        for (name, _) in tx.files().list_folder("/", None, 100).unwrap() {
            tx.files_mut().remove_all(&format!("/{name}")).unwrap();
        }
    });
    let left = store.engine().snapshot().unwrap();
    let mut page = isomer_data::Page::new();
    let range = isomer_data::KeyRange {
        start: &[0x28],
        end: Some(&[0x2b]),
    };
    let limit = isomer_data::PageLimit { keys: 1, bytes: 1 };
    left.scan(range, isomer_data::Order::Ascending, limit, &mut page)
        .unwrap();
    assert!(page.is_empty(), "{page:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn files_are_as_in_the_model(steps in prop::collection::vec(step(), 1..80)) {
        history(&memory(), &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn files_on_disk_are_as_in_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let (store, _folder) = on_disk();
        history(&store, &steps);
    }
}

#[test]
fn invalid_paths_are_refused() {
    let store = memory();
    let mut tx = store.begin(Access::Write).unwrap();
    let long = format!("/{}", "x".repeat(300));
    let deep = "/x".repeat(300);
    for (path, kind) in [
        ("a", ErrorKind::Invalid),
        ("", ErrorKind::Invalid),
        ("/", ErrorKind::Invalid),
        ("//a", ErrorKind::Invalid),
        ("/a/../b", ErrorKind::Invalid),
        ("/a/./b", ErrorKind::Invalid),
        ("/a\0", ErrorKind::Invalid),
        ("/none/a", ErrorKind::NotFound),
        (long.as_str(), ErrorKind::Limit),
        (deep.as_str(), ErrorKind::Limit),
    ] {
        assert_eq!(
            tx.files_mut().create_file(path).unwrap_err().kind(),
            kind,
            "{path}"
        );
    }
    let file = tx.files_mut().create_file("/a").unwrap();
    assert_eq!(
        tx.files_mut().create_file("/a/b").unwrap_err().kind(),
        ErrorKind::Invalid
    );
    assert_eq!(
        tx.files_mut().create_file("/a").unwrap_err().kind(),
        ErrorKind::Exists
    );
    for at in [MAX_FILE_BYTES, u64::MAX] {
        assert_eq!(
            tx.files_mut()
                .write_file(file, at, b"x")
                .unwrap_err()
                .kind(),
            ErrorKind::Limit
        );
    }
    tx.files_mut()
        .write_file(file, MAX_FILE_BYTES - 1, b"x")
        .unwrap();
    assert_eq!(tx.files().file_bytes(file).unwrap(), MAX_FILE_BYTES);
    tx.files_mut().remove_path("/a").unwrap();
    assert_eq!(
        tx.files_mut().write_file(file, 0, b"x").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        store
            .begin(Access::Read)
            .unwrap()
            .files_mut()
            .create_file("/r")
            .unwrap_err()
            .kind(),
        ErrorKind::Denied
    );
}

/// Two concurrent transactions, and whether the second one conflicts.
#[test]
fn writes_to_a_file_conflict_and_to_its_folder_do_not() {
    type Act = fn(&mut Transaction);
    let cases: [(&str, Act, Act, bool); 9] = [
        (
            "two files of a folder are made",
            |tx| {
                tx.files_mut().create_file("/f/x").unwrap();
            },
            |tx| {
                tx.files_mut().create_file("/f/y").unwrap();
            },
            false,
        ),
        (
            "one name is taken twice",
            |tx| {
                tx.files_mut().create_file("/f/x").unwrap();
            },
            |tx| tx.files_mut().create_folder("/f/x").unwrap(),
            true,
        ),
        (
            "two files are written",
            |tx| put(tx, "/f/one", 0),
            |tx| put(tx, "/f/two", 0),
            false,
        ),
        (
            "one file is written far apart",
            |tx| put(tx, "/f/one", 0),
            |tx| put(tx, "/f/one", 1 << 20),
            true,
        ),
        (
            "a file is read and written",
            |tx| put(tx, "/f/one", 0),
            |tx| {
                content(tx, "/f/one");
                put(tx, "/f/two", 0);
            },
            true,
        ),
        (
            "another file is read and written",
            |tx| put(tx, "/f/one", 0),
            |tx| {
                content(tx, "/f/two");
                put(tx, "/other", 0);
            },
            false,
        ),
        (
            "a folder is listed while a file comes",
            |tx| {
                tx.files_mut().create_file("/f/x").unwrap();
            },
            |tx| {
                tx.files().list_folder("/f", None, 9).unwrap();
                put(tx, "/other", 0);
            },
            true,
        ),
        (
            "a folder goes while a file comes into it",
            |tx| {
                tx.files_mut().create_file("/empty/x").unwrap();
            },
            |tx| tx.files_mut().remove_path("/empty").unwrap(),
            true,
        ),
        (
            "a folder moves while a file of it is found",
            |tx| tx.files_mut().rename_path("/f", "/g").unwrap(),
            |tx| put(tx, "/f/one", 0),
            true,
        ),
    ];
    fn put(tx: &mut Transaction, path: &str, at: u64) {
        let file = tx.files().file(path).unwrap();
        tx.files_mut().write_file(file, at, b"new").unwrap();
    }
    for (what, first, second, collides) in cases {
        let store = memory();
        write(&store, |tx| {
            tx.files_mut().create_folder("/f").unwrap();
            tx.files_mut().create_folder("/empty").unwrap();
            for path in ["/f/one", "/f/two", "/other"] {
                tx.files_mut().create_file(path).unwrap();
            }
        });
        let mut late = store.begin(Access::Write).unwrap();
        second(&mut late);
        write(&store, first);
        let outcome = late.commit();
        assert_eq!(outcome.is_err(), collides, "{what}: {outcome:?}");
        assert!(outcome.is_ok_and(|_| true) || collides);
    }
}

/// Many writes into one file name it once: another file is still written concurrently.
#[test]
fn a_large_file_does_not_make_other_files_conflict() {
    if needs_alone("a transaction of a shared database writes at most 64 MiB") {
        return;
    }
    let store = memory();
    write(&store, |tx| {
        tx.files_mut().create_file("/large").unwrap();
        tx.files_mut().create_file("/small").unwrap();
    });
    let mut large = store.begin(Access::Write).unwrap();
    let file = large.files().file("/large").unwrap();
    for at in 0..10_000 {
        large.files_mut().write_file(file, at * 7, b"x").unwrap();
    }
    write(&store, |tx| {
        let file = tx.files().file("/small").unwrap();
        tx.files_mut().write_file(file, 0, b"y").unwrap();
    });
    large.commit().unwrap();
}

#[test]
fn unnamed_files_get_a_path_atomically_or_are_removed() {
    let store = memory();
    let kept = write(&store, |tx| tx.files_mut().create_unnamed_file().unwrap());
    let lost = write(&store, |tx| tx.files_mut().create_unnamed_file().unwrap());
    for part in 0..20u64 {
        write(&store, |tx| {
            for file in [kept, lost] {
                tx.files_mut()
                    .write_file(file, part * 100_000, &[part as u8 + 1; 100_000])
                    .unwrap();
            }
        });
    }
    write(&store, |tx| {
        assert!(tx.files().list_folder("/", None, 9).unwrap().is_empty());
        let old = tx.files_mut().create_file("/old").unwrap();
        tx.files_mut().write_file(old, 0, b"old").unwrap();
    });
    write(&store, |tx| tx.files_mut().name_file(kept, "/old").unwrap());
    assert_eq!(
        write(&store, |tx| tx.files_mut().remove_unnamed_files().unwrap()),
        1
    );
    let tx = store.begin(Access::Read).unwrap();
    assert_eq!(content(&tx, "/old").len(), 2_000_000);
    assert!(
        content(&tx, "/old")
            .chunks(100_000)
            .zip(1u8..)
            .all(|(part, byte)| part.iter().all(|own| *own == byte))
    );
    assert!(tx.files().file_bytes(lost).is_err());
    assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
    let mut tx = store.begin(Access::Write).unwrap();
    assert_eq!(
        tx.files_mut().name_file(lost, "/x").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn numbers_are_never_given_twice() {
    let (store, folder) = on_disk();
    let mut numbers = std::collections::BTreeSet::new();
    for round in 0..3 {
        let path = |at| format!("/{round}-{at}");
        for at in 0..100 {
            assert!(numbers.insert(write(&store, |tx| {
                tx.files_mut().create_file(&path(at)).unwrap()
            })));
        }
        write(&store, |tx| {
            (0..100).for_each(|at| tx.files_mut().remove_path(&path(at)).unwrap())
        });
    }
    drop((store, folder));
}

#[test]
fn inconsistent_files_are_found() {
    let store = memory();
    write(&store, |tx| {
        let file = tx.files_mut().create_file("/f").unwrap();
        tx.files_mut().write_file(file, 0, b"content").unwrap();
    });
    assert!(store.check_files().unwrap().is_empty());
    for (key, value, says) in [
        (vec![0x29, 100], vec![0, 0, 0], "in no folder"),
        (vec![0x2a, 101, 0], vec![1], "after the end of the file"),
        (vec![0x28, 90, b'x'], vec![1, 102], "no folder names"),
    ] {
        let mut tx = store.engine().begin().unwrap();
        tx.put(&key, &value).unwrap();
        tx.commit(isomer_data::Durability::Buffered).unwrap();
        let found = store.check_files().unwrap();
        assert!(
            found.iter().any(|found| found.contains(says)),
            "{says}: {found:?}"
        );
    }
}
