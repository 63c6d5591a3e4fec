//! Files in histories: operations, visible content, and the expected content; and single cases.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use isomer_data::{
    Access, CHUNK_BYTES, ConflictKind, DataError, DataStore, DataStoreOptions, Dot, PathKind,
    Transaction, internals::own_replica,
};
use isomer_layout::{
    files::Stored,
    keyspace::{self, IdSpace},
    pairs::each_pair,
    replicated::identity::Identity,
};
use isomer_storage::MemoryEngine;

use super::{
    small::{both, copy, map, open, send, transfer_state, write},
    world::Numbers,
};
use crate::{
    apply, begin, buckets, conflicts,
    entry::{LogEntry, Op},
    exchange,
    files::{self, folder_of, substitute_base},
    hooks::Hooks,
    scope, scrub, spelling,
    state::NameHash,
    state_transfer::merge_files::file_of,
    versions::ReplicaNames,
};

const PATHS: [&str; 6] = ["/a", "/b", "/d", "/d/a", "/d/e", "/d/e/a"];

/// One operation on files. `seen` are substitute names of files that were seen somewhere.
pub(super) fn operate(
    n: &mut Numbers,
    tx: &mut Transaction,
    seen: &mut Vec<String>,
) -> Result<(), DataError> {
    let mut all = Vec::new();
    walk(tx, "", &mut all)?;
    let substitute = all
        .iter()
        .map(|(path, _)| path)
        .filter(|path| path.contains('~'));
    seen.extend(substitute.cloned());
    seen.sort();
    seen.dedup();
    // Such a name may be taken by another file, or a folder.
    let mut any = || match n.below(8) {
        0 if !seen.is_empty() => n.of(seen).clone(),
        1 if !seen.is_empty() => format!("{}/a", n.of(seen)),
        _ => (*n.of(&PATHS)).to_owned(),
    };
    let (path, other) = (&*any(), &*any());
    // Files under substitute names are changed, too.
    let there = match n.below(3) {
        0 if !all.is_empty() => n.of(&all).0.clone(),
        _ => path.to_owned(),
    };
    let text = n.below(1000).to_string();
    let offset = *n.of(&[0, 2, CHUNK_BYTES, CHUNK_BYTES - 1]);
    match n.below(14) {
        0..=2 => {
            let file = tx.files_mut().create_file(path)?;
            tx.files_mut().write_file(file, offset, text.as_bytes())
        }
        3 => tx.files_mut().create_folder(path),
        4 => tx.files_mut().create_folders(path),
        5 | 6 => {
            let file = tx.files().file(&there)?;
            tx.files_mut().write_file(file, offset, text.as_bytes())
        }
        7 => {
            let file = tx.files().file(&there)?;
            tx.files_mut()
                .resize_file(file, *n.of(&[0, 1, CHUNK_BYTES, CHUNK_BYTES + 2]))
        }
        8 | 9 => tx.files_mut().rename_path(&there, other),
        10 => tx.files_mut().remove_path(&there),
        11 => tx.files_mut().remove_all(&there).map(drop),
        choice => {
            let file = tx.files_mut().create_unnamed_file()?;
            tx.files_mut().write_file(file, 0, text.as_bytes())?;
            match choice {
                12 => tx.files_mut().name_file(file, path),
                _ => Ok(()),
            }
        }
    }
}

fn walk(
    tx: &Transaction,
    folder: &str,
    all: &mut Vec<(String, isomer_data::FileMetadata)>,
) -> Result<(), DataError> {
    let path = if folder.is_empty() { "/" } else { folder };
    for (name, about) in tx.files().list_folder(path, None, usize::MAX)? {
        let path = format!("{folder}/{name}");
        all.push((path.clone(), about));
        if about.kind == PathKind::Folder {
            walk(tx, &path, all)?;
        }
    }
    Ok(())
}

fn line(path: &str, content: &[u8]) -> String {
    let shown: Vec<String> = content
        .split(|byte| *byte == 0)
        .filter(|part| !part.is_empty())
        .map(|part| String::from_utf8_lossy(part).into_owned())
        .collect();
    format!("file {path} of {} bytes: {shown:?}", content.len())
}

/// The visible files and folders.
pub(super) fn lines(store: &DataStore) -> Vec<String> {
    let tx = store.begin(Access::Read).unwrap();
    let mut all = Vec::new();
    walk(&tx, "", &mut all).unwrap();
    let mut lines: Vec<String> = all
        .iter()
        .map(|(path, about)| match about.file {
            None => format!("folder {path}"),
            Some(file) => {
                let mut content = vec![0; about.bytes as usize];
                tx.files().read_file(file, 0, &mut content).unwrap();
                line(path, &content)
            }
        })
        .collect();
    lines.sort();
    lines
}

/// The metadata of files, as text that is the same in every replica.
pub(super) fn known(tx: &Transaction) -> Vec<String> {
    let mut lines = Vec::new();
    each_pair(
        tx.read(),
        &keyspace::metadata_rows(IdSpace::Files),
        |key, _| {
            let number = file_of(key)?;
            let metadata = files::file_metadata(tx, number)?.unwrap();
            let mut called: Vec<String> = metadata
                .called
                .iter()
                .map(|own| String::from_utf8_lossy(&own.value).into_owned())
                .collect();
            called.sort();
            let record = tx.files().file_record(isomer_data::FileId(number))?;
            let name = spelling::spell_identity(tx, &metadata.identity);
            let (name, shown) = (name.escape_ascii(), &metadata.shown);
            let sizes = buckets::creations(tx, &keyspace::file(number))?.len();
            lines.push(format!(
                "file {name} called {called:?} at {shown} {record:?} by {sizes}"
            ));
            Ok(())
        },
    )
    .unwrap();
    let mut all = Vec::new();
    walk(tx, "", &mut all).unwrap();
    for (path, about) in all {
        if about.kind == PathKind::Folder {
            lines.push(format!("folder {path} of {}", about.created_ms));
        }
    }
    lines
}

// ---- the expected content

/// An item that was put, and its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ItemKey {
    Life(Identity),
    Called(Identity),
    Size(Identity),
    Chunk(Identity, u64),
    Folder(String),
}

struct VersionedItem {
    place: ItemKey,
    at: (usize, usize),
    value: Vec<u8>,
    dot: Dot,
    time: u64,
}

fn takes(op: &Op, place: &ItemKey) -> bool {
    match (op, place) {
        (
            Op::FileDeleted { file },
            ItemKey::Life(own) | ItemKey::Called(own) | ItemKey::Size(own) | ItemKey::Chunk(own, _),
        ) => file == own,
        (Op::FileRenamed { file, .. }, ItemKey::Called(own))
        | (Op::FileResized { file, .. }, ItemKey::Size(own)) => file == own,
        (Op::ChunkPut { file, chunk, .. }, ItemKey::Chunk(own, at)) => file == own && chunk == at,
        (Op::ChunksDeleted { file, from }, ItemKey::Chunk(own, at)) => file == own && at >= from,
        (Op::FolderCreated { path, .. } | Op::FolderDeleted { path }, ItemKey::Folder(own)) => {
            path == own
        }
        _ => false,
    }
}

fn put(op: &Op) -> Option<(ItemKey, Vec<u8>)> {
    Some(match op {
        Op::FileCreated { file, .. } => (ItemKey::Life(file.clone()), Vec::new()),
        Op::FileRenamed { file, path } => {
            (ItemKey::Called(file.clone()), path.clone().into_bytes())
        }
        Op::FileResized { file, bytes, .. } => {
            (ItemKey::Size(file.clone()), bytes.to_be_bytes().to_vec())
        }
        Op::ChunkPut { file, chunk, bytes } => {
            (ItemKey::Chunk(file.clone(), *chunk), bytes.clone())
        }
        Op::FolderCreated { path, .. } => (ItemKey::Folder(path.clone()), Vec::new()),
        _ => return None,
    })
}

/// The visible files and folders, computed from a history of transactions.
pub(super) fn said(store: &DataStore, entries: &[LogEntry]) -> Vec<String> {
    let mut things = Vec::new();
    for (entry, one) in entries.iter().enumerate() {
        for (op, done) in one.ops.iter().enumerate() {
            things.extend(put(done).map(|(place, value)| VersionedItem {
                place,
                at: (entry, op),
                value,
                dot: one.stamp().dot,
                time: one.time,
            }));
        }
    }
    let stands = |thing: &&VersionedItem| {
        !entries.iter().enumerate().any(|(at, other)| {
            other.ops.iter().enumerate().any(|(op, done)| {
                let later = match at == thing.at.0 {
                    true => op > thing.at.1,
                    false => other.seen.covers(thing.dot),
                };
                later && takes(done, &thing.place)
            })
        })
    };
    let rank = |thing: &VersionedItem| {
        let name = own_replica(store).replica_name(thing.dot.replica);
        (thing.time, name, thing.dot.number)
    };
    let mut read: BTreeMap<&ItemKey, &VersionedItem> = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for thing in things.iter().filter(stands) {
        match read.get(&thing.place) {
            Some(other) if rank(other) > rank(thing) => {}
            _ => drop(read.insert(&thing.place, thing)),
        }
        if let ItemKey::Size(file) = &thing.place {
            let bytes = u64::from_be_bytes(thing.value[..].try_into().unwrap());
            let size: &mut u64 = sizes.entry(file).or_default();
            *size = bytes.max(*size);
        }
    }
    // Files by path, the latest first.
    let mut called: BTreeMap<String, Vec<(_, &Identity)>> = BTreeMap::new();
    let mut folders = BTreeSet::new();
    let mut around = |path: &str| {
        let mut path = folder_of(path);
        while !path.is_empty() {
            folders.insert(path.to_owned());
            path = folder_of(path);
        }
    };
    for (place, thing) in &read {
        match place {
            ItemKey::Called(file) if read.contains_key(&ItemKey::Life(file.clone())) => {
                let path = String::from_utf8(thing.value.clone()).unwrap();
                around(&path);
                called.entry(path).or_default().push((rank(thing), file));
            }
            ItemKey::Folder(path) => around(&format!("{path}/x")),
            _ => {}
        }
    }
    let tx = store.begin(Access::Read).unwrap();
    let mut lines: Vec<String> = folders
        .iter()
        .map(|path| format!("folder {path}"))
        .collect();
    for (path, mut files) in called.clone() {
        files.sort_by(|one, other| other.cmp(one));
        for (at, (_, file)) in files.iter().enumerate() {
            let place = match at == 0 && !folders.contains(&path) {
                true => path.clone(),
                false => {
                    let base = substitute_base(&tx, &path, file);
                    let mut places = (0..).map(|count| match count {
                        0 => base.clone(),
                        _ => format!("{base}~{count}"),
                    });
                    let is_free =
                        |place: &String| !called.contains_key(place) && !folders.contains(place);
                    places.find(is_free).unwrap()
                }
            };
            let mut content = vec![0; sizes.get(file).copied().unwrap_or(0) as usize];
            for (chunk, thing) in &read {
                if let ItemKey::Chunk(own, number) = chunk
                    && own == *file
                {
                    let begin = (number * CHUNK_BYTES) as usize;
                    content[begin..begin + thing.value.len()].copy_from_slice(&thing.value);
                }
            }
            lines.push(line(&place, &content));
        }
    }
    lines.sort();
    lines
}

// ---- cases

fn save(tx: &mut Transaction, path: &str, content: &[u8]) {
    let file = match tx.files().file_metadata(path).unwrap() {
        Some(_) => tx.files().file(path).unwrap(),
        None => tx.files_mut().create_file(path).unwrap(),
    };
    tx.files_mut().write_file(file, 0, content).unwrap();
}

fn read(store: &DataStore, path: &str) -> Vec<u8> {
    let tx = store.begin(Access::Read).unwrap();
    let file = tx.files().file(path).unwrap();
    let mut content = vec![0; tx.files().file_bytes(file).unwrap() as usize];
    tx.files().read_file(file, 0, &mut content).unwrap();
    content
}

fn paths(store: &DataStore) -> Vec<String> {
    let tx = store.begin(Access::Read).unwrap();
    let mut all = Vec::new();
    walk(&tx, "", &mut all).unwrap();
    all.into_iter().map(|(path, _)| path).collect()
}

#[test]
fn files_and_folders_travel() {
    let (a, b) = (open(), open());
    let long: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
    write(&a, |tx| {
        tx.files_mut().create_folders("/docs/2026").unwrap();
        save(tx, "/docs/2026/long", &long);
        save(tx, "/docs/note", b"hello");
    });
    both(&a, &b);
    assert_eq!(
        paths(&b),
        ["/docs", "/docs/2026", "/docs/2026/long", "/docs/note"]
    );
    assert_eq!(read(&b, "/docs/2026/long"), long);
    write(&b, |tx| {
        tx.files_mut().rename_path("/docs", "/papers").unwrap();
        save(tx, "/papers/note", b"J");
        tx.files_mut().remove_path("/papers/2026/long").unwrap();
    });
    both(&a, &b);
    assert_eq!(paths(&a), ["/papers", "/papers/2026", "/papers/note"]);
    assert_eq!(read(&a, "/papers/note"), b"Jello");
    write(&a, |tx| tx.files_mut().remove_all("/papers").unwrap());
    both(&a, &b);
    assert_eq!(paths(&b), Vec::<String>::new());
    // Nothing is left of them except in the log.
    for prefix in [
        &[0x46, 0x02][..],
        &[0x47, 0x02],
        &[0x48],
        &[0x4c],
        &[0x2a],
        &[0x29],
    ] {
        for store in [&a, &b] {
            let tx = store.begin(Access::Read).unwrap();
            let mut left = Vec::new();
            each_pair(tx.read(), prefix, |key, _| {
                left.push(key.to_vec());
                Ok(())
            })
            .unwrap();
            assert_eq!(left, Vec::<Vec<u8>>::new());
        }
    }
}

#[test]
fn a_file_that_is_written_over_several_transactions_is_seen_once_it_has_a_name() {
    let (a, b) = (open(), open());
    let file = write(&a, |tx| {
        let file = tx.files_mut().create_unnamed_file().unwrap();
        tx.files_mut().write_file(file, 0, &[1; 100_000]).unwrap();
        file
    });
    both(&a, &b);
    assert_eq!(paths(&b), Vec::<String>::new());
    // Opening the other one does not take it for a leftover.
    assert_eq!(b.remove_unnamed_files().unwrap(), 0);
    write(&a, |tx| {
        tx.files_mut()
            .write_file(file, 100_000, &[2; 100_000])
            .unwrap()
    });
    write(&a, |tx| tx.files_mut().name_file(file, "/whole").unwrap());
    both(&a, &b);
    assert_eq!(read(&b, "/whole"), [[1; 100_000], [2; 100_000]].concat());
    // A file that is never finished is replicated, too.
    write(&a, |tx| {
        let file = tx.files_mut().create_unnamed_file().unwrap();
        tx.files_mut().write_file(file, 0, b"half").unwrap();
    });
    both(&a, &b);
    assert_eq!(a.remove_unnamed_files().unwrap(), 1);
    both(&a, &b);
    assert_eq!(known(&b.begin(Access::Read).unwrap()).len(), 1);
}

#[test]
fn two_creations_of_one_folder_make_one_folder() {
    let (a, b) = (open(), open());
    for (store, name) in [(&a, "one"), (&b, "two")] {
        write(store, |tx| {
            tx.files_mut().create_folders("/in/box").unwrap();
            save(tx, &format!("/in/box/{name}"), b"x");
        });
    }
    both(&a, &b);
    assert_eq!(paths(&a), ["/in", "/in/box", "/in/box/one", "/in/box/two"]);
    assert_eq!(
        conflicts::conflicts(&a.begin(Access::Read).unwrap()).unwrap(),
        []
    );
}

#[test]
fn two_files_of_one_name_both_stay_and_are_a_conflict() {
    let (a, b) = (open(), open());
    write(&a, |tx| save(tx, "/r.txt", b"from a"));
    write(&b, |tx| save(tx, "/r.txt", b"from b"));
    both(&a, &b);
    let now = paths(&a);
    assert_eq!(now.len(), 2, "{now:?}");
    let mut contents: Vec<_> = now.iter().map(|path| read(&a, path)).collect();
    contents.sort();
    assert_eq!(contents, [b"from a", b"from b"]);
    let substitute = now[1].clone();
    assert!(substitute.starts_with("/r.txt~"), "{substitute}");
    let conflicts = conflicts::conflicts(&b.begin(Access::Read).unwrap()).unwrap();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].kind, ConflictKind::File);
    assert_eq!(conflicts[0].value, isomer_value::Value::from(&*substitute));
    // Removing the file that has the name gives it to the other.
    write(&b, |tx| tx.files_mut().remove_path("/r.txt").unwrap());
    both(&a, &b);
    assert_eq!(paths(&a), ["/r.txt"]);
    assert_eq!(
        conflicts::conflicts(&a.begin(Access::Read).unwrap()).unwrap(),
        []
    );
}

#[test]
fn renaming_the_other_of_two_files_resolves_the_conflict() {
    let (a, b) = (open(), open());
    write(&a, |tx| save(tx, "/r", b"a"));
    write(&b, |tx| save(tx, "/r", b"b"));
    both(&a, &b);
    let substitute = paths(&a)[1].clone();
    write(&a, |tx| {
        tx.files_mut().rename_path(&substitute, "/s").unwrap()
    });
    both(&a, &b);
    assert_eq!(paths(&b), ["/r", "/s"]);
    assert_eq!(
        conflicts::conflicts(&b.begin(Access::Read).unwrap()).unwrap(),
        []
    );
}

#[test]
fn adding_to_a_folder_that_is_removed_keeps_it() {
    let (a, b) = (open(), open());
    write(&a, |tx| tx.files_mut().create_folders("/d/e").unwrap());
    both(&a, &b);
    write(&a, |tx| tx.files_mut().remove_all("/d").unwrap());
    write(&b, |tx| save(tx, "/d/e/new", b"new"));
    both(&a, &b);
    assert_eq!(paths(&a), ["/d", "/d/e", "/d/e/new"]);
    // The folders that are left have no creation: they are removed with their content.
    write(&a, |tx| tx.files_mut().remove_path("/d/e/new").unwrap());
    both(&a, &b);
    assert_eq!(paths(&b), Vec::<String>::new());
}

#[test]
fn a_folder_hides_a_file_of_its_name() {
    let (a, b) = (open(), open());
    write(&a, |tx| save(tx, "/x", b"file"));
    write(&b, |tx| {
        tx.files_mut().create_folder("/x").unwrap();
        save(tx, "/x/in", b"in");
    });
    both(&a, &b);
    let now = paths(&a);
    assert_eq!(now[..2], ["/x", "/x/in"]);
    assert_eq!(read(&b, &now[2]), b"file");
    write(&b, |tx| tx.files_mut().remove_all("/x").unwrap());
    both(&a, &b);
    assert_eq!(paths(&a), ["/x"]);
    assert_eq!(read(&a, "/x"), b"file");
}

#[test]
fn a_removal_deletes_a_file_that_is_renamed_or_written_concurrently() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        save(tx, "/x", b"1");
        save(tx, "/y", b"2");
    });
    both(&a, &b);
    write(&a, |tx| {
        tx.files_mut().remove_path("/x").unwrap();
        tx.files_mut().remove_path("/y").unwrap();
    });
    write(&b, |tx| {
        tx.files_mut().rename_path("/x", "/z").unwrap();
        save(tx, "/y", b"3");
    });
    both(&a, &b);
    assert_eq!(paths(&a), Vec::<String>::new());
}

#[test]
fn chunks_that_two_replicas_write_concurrently_are_conflicts() {
    let (a, b) = (open(), open());
    write(&a, |tx| save(tx, "/x", &[0; 200_000]));
    both(&a, &b);
    for (store, byte) in [(&a, 1), (&b, 2)] {
        write(store, |tx| {
            let file = tx.files().file("/x").unwrap();
            tx.files_mut().write_file(file, 5, &[byte]).unwrap();
            // Separate chunks: both stay.
            tx.files_mut()
                .write_file(file, CHUNK_BYTES * u64::from(byte), &[byte])
                .unwrap();
        });
    }
    both(&a, &b);
    let content = read(&a, "/x");
    assert_eq!(content[CHUNK_BYTES as usize], 1);
    assert_eq!(content[2 * CHUNK_BYTES as usize], 2);
    let conflicts = conflicts::conflicts(&a.begin(Access::Read).unwrap()).unwrap();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(
        (&*conflicts[0].record, &*conflicts[0].field),
        ("file /x", "bytes 0 to 65535")
    );
    write(&b, |tx| save(tx, "/x", b"chosen"));
    both(&a, &b);
    assert_eq!(
        conflicts::conflicts(&a.begin(Access::Read).unwrap()).unwrap(),
        []
    );
}

/// Concurrent local transactions and merges lose nothing of one another.
#[test]
fn files_change_while_others_are_merged() {
    let (a, b) = (open(), open());
    let work = |store: &DataStore, seed: u64| {
        let (mut n, mut seen) = (Numbers(seed), Vec::new());
        for _ in 0..150 {
            let mut tx = store.begin(Access::Write).unwrap();
            for _ in 0..1 + n.below(3) {
                let mark = tx.savepoint();
                if operate(&mut n, &mut tx, &mut seen).is_err() {
                    tx.rollback_to(mark).unwrap();
                }
            }
            if let Err(error) = tx.commit() {
                assert_eq!(error.kind(), isomer_data::ErrorKind::Retry, "{error}");
            }
        }
    };
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers = [(&a, 1), (&a, 2), (&b, 3), (&b, 4)]
            .map(|(store, seed)| scope.spawn(move || work(store, seed)));
        let merges = scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                send(&a, &b);
                send(&b, &a);
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::Release);
        merges.join().unwrap();
    });
    both(&a, &b);
    assert_eq!(lines(&a), lines(&b));
    assert_eq!(
        scrub::differing(&b, &scrub::fingerprints(&a).unwrap()).unwrap(),
        Some(Vec::new())
    );
    for store in [&a, &b] {
        assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn files_older_than_replication_travel_by_snapshot() {
    let engine = std::sync::Arc::new(isomer_storage::MemoryEngine::new());
    let a = crate::open(engine, isomer_data::DataStoreOptions::default()).unwrap();
    let unnamed = write(&a, |tx| {
        tx.files_mut().create_folders("/old/deep").unwrap();
        save(tx, "/old/deep/x", &[7; 100_000]);
        save(tx, "/old/y", b"y");
        tx.files_mut().create_unnamed_file().unwrap()
    });
    begin::begin_replication(&a).unwrap();
    let b = open();
    transfer_state(&a, &b, 1000);
    both(&a, &b);
    assert_eq!(read(&b, "/old/deep/x"), [7; 100_000]);
    write(&b, |tx| {
        tx.files_mut().rename_path("/old/deep", "/new").unwrap();
        let file = tx.files().file("/old/y").unwrap();
        tx.files_mut().resize_file(file, 0).unwrap();
    });
    write(&a, |tx| tx.files_mut().name_file(unnamed, "/late").unwrap());
    both(&a, &b);
    assert_eq!(paths(&a), ["/late", "/new", "/new/x", "/old", "/old/y"]);
    assert_eq!(read(&a, "/old/y"), b"");
    for store in [&a, &b] {
        assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_transaction_that_no_page_could_hold_is_refused() {
    let a = open();
    let mut tx = a.begin(Access::Write).unwrap();
    let file = tx.files_mut().create_file("/large").unwrap();
    for part in 0..5 {
        tx.files_mut()
            .write_file(file, part << 24, &vec![1; 1 << 24])
            .unwrap();
    }
    let error = tx.commit().unwrap_err();
    assert_eq!(error.kind(), isomer_data::ErrorKind::Limit, "{error}");
    assert!(
        error.to_string().contains("several transactions"),
        "{error}"
    );
    assert_eq!(paths(&a), Vec::<String>::new());
}

/// Files with one hash, which an attacker could make, do not displace one another endlessly.
#[test]
fn files_of_one_hash_all_have_paths() {
    static COLLIDING: Hooks = Hooks {
        name_hash: NameHash(|_| 7),
    };
    let stores = [(); 4].map(|()| {
        let (engine, options) = (Arc::new(MemoryEngine::new()), DataStoreOptions::default());
        let store = DataStore::open_with(engine, options, Some(&COLLIDING)).unwrap();
        begin::begin_replication(&store).unwrap();
        store
    });
    for store in &stores {
        write(store, |tx| save(tx, "/x", b"x"));
    }
    for _ in 0..2 {
        for (from, to) in (0..16).map(|pair| (pair / 4, pair % 4)) {
            if from != to {
                send(&stores[from], &stores[to]);
            }
        }
    }
    for store in &stores {
        let substitute = "/x~0000000000000007";
        let expected = [
            "/x",
            substitute,
            &format!("{substitute}~1"),
            &format!("{substitute}~2"),
        ];
        assert_eq!(paths(store), expected);
        assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
    }
}

/// However many paths an attacker who knows them has taken, and however long the name is.
#[test]
fn substitute_paths_do_not_run_out() {
    let (a, b) = (open(), open());
    let path = format!("/{}", "é".repeat(127));
    let number = write(&a, |tx| {
        save(tx, &path, b"first");
        tx.files().file(&path).unwrap().0
    });
    let base = {
        let tx = a.begin(Access::Read).unwrap();
        let identity = files::file_metadata(&tx, number).unwrap().unwrap().identity;
        substitute_base(&tx, &path, &identity)
    };
    let taken = |count| match count {
        0 => base.clone(),
        _ => format!("{base}~{count}"),
    };
    for count in 0..30 {
        write(&b, |tx| save(tx, &taken(count), b"taken"));
    }
    write(&b, |tx| save(tx, &path, b"last"));
    both(&a, &b);
    for store in [&a, &b] {
        assert_eq!(read(store, &path), b"last");
        assert_eq!(read(store, &taken(30)), b"first");
        assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
    }
    // When its path is free again the file gets it.
    write(&b, |tx| tx.files_mut().remove_path(&taken(3)).unwrap());
    both(&a, &b);
    assert_eq!(paths(&a), paths(&b));
    assert_eq!(read(&a, &taken(3)), b"first");
}

/// The database that continues under the former name may have finished it.
#[test]
fn what_was_being_written_when_a_copy_was_made_is_not_removed_by_the_copy() {
    let a = open();
    let file = write(&a, |tx| {
        let file = tx.files_mut().create_unnamed_file().unwrap();
        tx.files_mut().write_file(file, 0, b"whole").unwrap();
        file
    });
    let copied = crate::open(copy(&a), isomer_data::DataStoreOptions::default()).unwrap();
    copied.numbering().begin_epoch().unwrap();
    assert_eq!(copied.remove_unnamed_files().unwrap(), 1);
    assert_eq!(copied.remove_unnamed_files().unwrap(), 0);
    write(&copied, |tx| save(tx, "/other", b"other"));
    write(&a, |tx| tx.files_mut().name_file(file, "/whole").unwrap());
    both(&a, &copied);
    assert_eq!(paths(&a), ["/other", "/whole"]);
    assert_eq!(read(&copied, "/whole"), b"whole");
    for store in [&a, &copied] {
        assert_eq!(store.check_files().unwrap(), Vec::<String>::new());
    }
    write(&copied, |tx| tx.files_mut().remove_path("/whole").unwrap());
    both(&a, &copied);
    assert_eq!(paths(&a), ["/other"]);
}

/// Size and time alone do not suffice: both writes may have been made before the later one's time.
#[test]
fn merged_contents_have_different_versions() {
    let (a, b) = (open(), open());
    let mark = |store: &DataStore| {
        let tx = store.begin(Access::Read).unwrap();
        tx.files().file_metadata("/x").unwrap().unwrap().merge_mark
    };
    write(&a, |tx| save(tx, "/x", &[0; 200_000]));
    both(&a, &b);
    let change = |store: &DataStore, at: u64| {
        write(store, |tx| {
            let file = tx.files().file("/x").unwrap();
            tx.files_mut().write_file(file, at, b"x").unwrap();
        });
        assert_eq!(mark(store), 0);
    };
    change(&a, 0);
    change(&b, CHUNK_BYTES);
    both(&a, &b);
    assert_ne!(mark(&a), 0);
    assert_eq!(mark(&a), mark(&b));
    change(&a, 0);
    both(&a, &b);
    assert_eq!(mark(&b), 0);
}

#[test]
fn sizes_and_times_of_peers_are_what_those_of_a_file_can_be() {
    let a = open();
    let number = write(&a, |tx| {
        save(tx, "/x", b"x");
        tx.files().file("/x").unwrap().0
    });
    let said = Stored {
        bytes: u64::MAX,
        created_ms: 0,
        modified_ms: u64::MAX,
    };
    apply::merging(&a, |tx| {
        let mut sizes = buckets::creations(tx, &keyspace::file(number))?;
        sizes[0].value = said.encode();
        files::materialize_size(tx, number, sizes)
    })
    .unwrap();
    let tx = a.begin(Access::Read).unwrap();
    let about = tx.files().file_metadata("/x").unwrap().unwrap();
    assert_eq!(about.bytes, isomer_data::MAX_FILE_BYTES);
    let time = i64::try_from(about.modified_ms).unwrap();
    assert!(isomer_value::jiff::Timestamp::from_millisecond(time).is_ok());
}

/// No other replica could apply them.
#[test]
fn what_has_paths_of_too_many_names_does_not_become_a_replica() {
    let engine = std::sync::Arc::new(isomer_storage::MemoryEngine::new());
    let a = crate::open(engine, isomer_data::DataStoreOptions::default()).unwrap();
    write(&a, |tx| {
        tx.files_mut().create_folders(&"/a".repeat(200)).unwrap();
        tx.files_mut().create_folders(&"/b".repeat(100)).unwrap();
        tx.files_mut()
            .rename_path("/a", &format!("{}/a", "/b".repeat(100)))
            .unwrap();
    });
    let error = begin::begin_replication(&a).unwrap_err();
    assert_eq!(error.kind(), isomer_data::ErrorKind::Limit, "{error}");
    assert!(!a.is_replicated());
    write(&a, |tx| {
        tx.files_mut()
            .rename_path(&format!("{}/a", "/b".repeat(100)), "/a")
            .unwrap();
    });
    begin::begin_replication(&a).unwrap();
}

#[test]
fn a_declared_space_has_no_files() {
    let (a, b) = (open(), open());
    let space = crate::ReplicatedSpace {
        name: "shared".into(),
        labels: ["L".to_owned()].into(),
        ..crate::ReplicatedSpace::default()
    };
    scope::declare_space(&a, &space).unwrap();
    scope::declare_space(&b, &space).unwrap();
    write(&a, |tx| {
        save(tx, "/mine", b"x");
        let label = tx.name_ids().intern_label("L").unwrap();
        tx.graph_mut().create_node(&[label], &map(&[])).unwrap();
    });
    send(&a, &b);
    assert_eq!(paths(&b), Vec::<String>::new());
    // A peer that sends one nevertheless is refused.
    let (c, d) = (open(), open());
    write(&c, |tx| save(tx, "/x", b"x"));
    let page = exchange::entries_for(&c, &exchange::greeting(&d).unwrap(), 1 << 20).unwrap();
    let error = exchange::apply_entries(&b, &page).unwrap_err().to_string();
    assert!(error.contains("do not replicate the same"), "{error}");
}

#[test]
fn damage_to_files_is_found_and_repaired() {
    let (a, b) = (open(), open());
    write(&a, |tx| {
        tx.files_mut().create_folders("/d").unwrap();
        save(tx, "/d/x", &[3; 70_000]);
    });
    both(&a, &b);
    assert_eq!(
        scrub::differing(&b, &scrub::fingerprints(&a).unwrap()).unwrap(),
        Some(Vec::new())
    );
    // A lost chunk.
    let mut tx = b.engine().begin().unwrap();
    let number = {
        let tx = b.begin(Access::Read).unwrap();
        tx.files().file("/d/x").unwrap().0
    };
    for key in [
        keyspace::file_chunk(number, 1),
        keyspace::cell(&keyspace::file_chunk(number, 1)),
    ] {
        tx.delete(&key).unwrap();
    }
    tx.commit(isomer_data::Durability::Buffered).unwrap();
    let ranges = scrub::differing(&b, &scrub::fingerprints(&a).unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(ranges.len(), 1);
    scrub::repair(&b, &scrub::ranges_page(&a, &ranges).unwrap()).unwrap();
    assert_eq!(
        scrub::differing(&b, &scrub::fingerprints(&a).unwrap()).unwrap(),
        Some(Vec::new())
    );
    assert_eq!(read(&b, "/d/x"), [3; 70_000]);
}

#[test]
fn a_peer_that_sends_an_invalid_file_is_refused() {
    for path in ["xxxxx", "/../x", "/a//b", "/aaa/", "/./xx", "/aaa\0"] {
        let (a, b) = (open(), open());
        write(&a, |tx| {
            tx.files_mut().create_file("/1234").unwrap();
        });
        let page = exchange::entries_for(&a, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
        let at = page.windows(5).position(|part| part == b"/1234").unwrap();
        let page = [&page[..at], path.as_bytes(), &page[at + path.len()..]].concat();
        let error = exchange::apply_entries(&b, &page).unwrap_err();
        assert_eq!(
            error.kind(),
            isomer_data::ErrorKind::Invalid,
            "{path}: {error}"
        );
        assert_eq!(known(&b.begin(Access::Read).unwrap()), Vec::<String>::new());
    }
}
