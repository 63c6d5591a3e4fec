//! One random history on several engines and on a simple model: all results must be equal.

use std::{collections::BTreeMap, fmt::Debug};

use super::subject::{Random, Subject, scan};
use crate::{
    Durability, EngineSavepoint, EngineTransaction, Granule, GuardMode, KeyRange, Order, Snapshot,
    StorageError, Version,
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// The model: a map, and everything that was ever changed.
#[derive(Default)]
struct Model {
    committed: Map,
    version: Version,
    changes: Vec<(Version, Granule)>,
    stream: BTreeMap<Version, Vec<u8>>,
}

/// One transaction, on the model and on every engine.
struct OpenTransaction {
    snapshot: Version,
    map: Map,
    writes: Vec<Write>,
    stream: Vec<u8>,
    guards: Vec<(Granule, GuardMode)>,
    savepoints: Vec<(Map, usize, usize, Vec<EngineSavepoint>)>,
    on: Vec<Box<dyn EngineTransaction>>,
}

#[derive(Clone)]
enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

impl Write {
    fn apply(&self, map: &mut Map) {
        match self {
            Self::Put(key, value) => drop(map.insert(key.clone(), value.clone())),
            Self::Delete(key) => drop(map.remove(key)),
            Self::DeleteRange(start, end) => {
                map.retain(|key, _| key < start || end.as_ref().is_some_and(|end| key >= end))
            }
        }
    }
}

/// Snapshots held across commits, with their expected contents.
struct HeldSnapshots {
    map: Map,
    on: Vec<std::sync::Arc<dyn Snapshot>>,
}

/// Runs `steps` random operations with the seed `seed` on all `subjects`, which must be empty, and compares
/// every result with a sorted map. Panics on a difference.
pub fn random_history(seed: u64, steps: usize, subjects: &mut [Box<dyn Subject>]) {
    let random = &mut Random(seed);
    let mut model = Model::default();
    let mut open: Vec<OpenTransaction> = Vec::new();
    let mut held: Vec<HeldSnapshots> = Vec::new();
    for step in 0..steps {
        match random.below(100) {
            0..12 if open.len() < 5 => open.push(begin(&model, subjects)),
            0..62 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                act(&mut open[at], random, step);
            }
            62..80 if !open.is_empty() => {
                let at = random.below(open.len() as u64) as usize;
                let durability = if random.below(3) == 0 {
                    Durability::Synced
                } else {
                    Durability::Buffered
                };
                commit(open.swap_remove(at), &mut model, durability);
            }
            80..84 if !open.is_empty() => {
                drop(open.swap_remove(random.below(open.len() as u64) as usize))
            }
            84..88 if held.len() < 4 => held.push(HeldSnapshots {
                map: model.committed.clone(),
                on: subjects
                    .iter()
                    .map(|subject| subject.engine().snapshot().expect("a snapshot"))
                    .collect(),
            }),
            88..93 if !held.is_empty() => {
                let snapshot = &held[random.below(held.len() as u64) as usize];
                snapshot
                    .on
                    .iter()
                    .for_each(|read| compare_scan(&**read, &snapshot.map, random));
                if random.below(3) == 0 {
                    held.swap_remove(0);
                }
            }
            93..96 => compare_stream(&mut model, subjects, random),
            96..98 => {
                // A reopened engine has no open transactions and snapshots.
                open.clear();
                held.clear();
                subjects.iter_mut().for_each(|subject| subject.reopen());
            }
            _ => {
                for subject in &*subjects {
                    let snapshot = subject.engine().snapshot().expect("a snapshot");
                    assert_eq!(snapshot.version(), model.version);
                    compare_scan(&*snapshot, &model.committed, random);
                    let statistics = subject.engine().statistics().expect("statistics");
                    assert_eq!(statistics.key_count, model.committed.len() as u64);
                }
            }
        }
    }
    for subject in subjects {
        let found = scan(
            &*subject.engine().snapshot().expect("a snapshot"),
            super::ALL,
            Order::Ascending,
            1000,
        );
        assert_eq!(
            found,
            model.committed.clone().into_iter().collect::<Vec<_>>()
        );
    }
}

fn begin(model: &Model, subjects: &[Box<dyn Subject>]) -> OpenTransaction {
    OpenTransaction {
        snapshot: model.version,
        map: model.committed.clone(),
        writes: Vec::new(),
        stream: Vec::new(),
        guards: Vec::new(),
        savepoints: Vec::new(),
        on: subjects
            .iter()
            .map(|subject| subject.engine().begin().expect("a transaction"))
            .collect(),
    }
}

/// One of a few hundred keys, often adjacent to another one.
fn key(random: &mut Random) -> Vec<u8> {
    let length = 1 + random.below(3) as usize;
    (0..length).map(|_| b'a' + random.below(7) as u8).collect()
}

fn value(random: &mut Random, step: usize) -> Vec<u8> {
    let length = match random.below(20) {
        0 => random.below(9000),
        _ => random.below(30),
    };
    let mut value = step.to_be_bytes().to_vec();
    value.resize(8 + length as usize, step as u8);
    value
}

fn act(open: &mut OpenTransaction, random: &mut Random, step: usize) {
    match random.below(20) {
        0..7 => write(open, Write::Put(key(random), value(random, step))),
        7..10 => write(open, Write::Delete(key(random))),
        10 => {
            let end = (random.below(4) > 0).then(|| key(random));
            write(open, Write::DeleteRange(key(random), end));
        }
        11 | 12 => {
            let mode =
                [GuardMode::Read, GuardMode::Write, GuardMode::Add][random.below(3) as usize];
            let granule = Granule(u128::from(random.below(12)));
            open.guards.push((granule, mode));
            open.on
                .iter_mut()
                .for_each(|transaction| transaction.guard(granule, mode));
        }
        13 => {
            let savepoints = open
                .on
                .iter_mut()
                .map(|transaction| transaction.savepoint())
                .collect();
            open.savepoints.push((
                open.map.clone(),
                open.writes.len(),
                open.stream.len(),
                savepoints,
            ));
        }
        14 if !open.savepoints.is_empty() => {
            let at = random.below(open.savepoints.len() as u64) as usize;
            if random.below(4) == 0 {
                let (_, _, _, savepoints) = open.savepoints[at].clone();
                open.savepoints.truncate(at);
                open.on
                    .iter_mut()
                    .zip(savepoints)
                    .for_each(|(transaction, savepoint)| transaction.release(savepoint));
            } else {
                open.savepoints.truncate(at + 1);
                let (map, writes, stream, savepoints) = open.savepoints[at].clone();
                open.map = map;
                open.writes.truncate(writes);
                open.stream.truncate(stream);
                open.on
                    .iter_mut()
                    .zip(savepoints)
                    .for_each(|(transaction, savepoint)| transaction.rollback_to(savepoint));
            }
        }
        15 => {
            open.stream.extend_from_slice(&step.to_be_bytes());
            open.on
                .iter_mut()
                .for_each(|transaction| transaction.append_stream(&step.to_be_bytes()));
        }
        16 | 17 => {
            let keys: Vec<Vec<u8>> = (0..5).map(|_| key(random)).collect();
            let expected: Vec<_> = keys.iter().map(|key| open.map.get(key).cloned()).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            for transaction in &open.on {
                same(&transaction.get_many(&keys).expect("a batch"), &expected);
                same(&transaction.get(keys[0]).expect("a get"), &expected[0]);
            }
        }
        _ => open
            .on
            .iter()
            .for_each(|transaction| compare_scan(&**transaction, &open.map, random)),
    }
}

fn write(open: &mut OpenTransaction, write: Write) {
    write.apply(&mut open.map);
    for transaction in &mut open.on {
        match &write {
            Write::Put(key, value) => transaction.put(key, value),
            Write::Delete(key) => transaction.delete(key),
            Write::DeleteRange(start, end) => transaction.delete_range(KeyRange {
                start,
                end: end.as_deref(),
            }),
        }
        .expect("a write");
    }
    open.writes.push(write);
}

fn commit(open: OpenTransaction, model: &mut Model, durability: Durability) {
    // An engine may keep a write that changes nothing, or detect it: the model cannot tell whether such a
    // transaction is a commit, so each transaction changes something.
    let mut open = open;
    if open
        .writes
        .iter()
        .all(|write| !matches!(write, Write::Put(..)))
        && open.stream.is_empty()
    {
        write(&mut open, Write::Put(b"always".to_vec(), b"one".to_vec()));
    }
    let conflict = open.guards.iter().any(|(granule, mode)| {
        *mode != GuardMode::Add
            && model
                .changes
                .iter()
                .any(|(version, changed)| *version > open.snapshot && changed == granule)
    });
    for transaction in open.on {
        match transaction.commit(durability) {
            Ok(version) => {
                assert!(!conflict, "a conflict was missed");
                assert_eq!(version, model.version + 1);
            }
            Err(StorageError::Conflict { .. }) => assert!(conflict, "a conflict that is none"),
            Err(other) => panic!("{other}"),
        }
    }
    if !conflict {
        model.version += 1;
        open.writes
            .iter()
            .for_each(|write| write.apply(&mut model.committed));
        let changed = open
            .guards
            .iter()
            .filter(|(_, mode)| *mode != GuardMode::Read);
        model
            .changes
            .extend(changed.map(|(granule, _)| (model.version, *granule)));
        if !open.stream.is_empty() {
            model.stream.insert(model.version, open.stream);
        }
    }
}

fn compare_scan<R: crate::Read + ?Sized>(read: &R, map: &Map, random: &mut Random) {
    let (start, end) = (key(random), key(random));
    let range = KeyRange {
        start: if random.below(5) == 0 { b"" } else { &start },
        end: (random.below(5) > 0).then_some(&end[..]),
    };
    let order = if random.below(2) == 0 {
        Order::Ascending
    } else {
        Order::Descending
    };
    let keys = 1 + random.below(40) as usize;
    let mut expected: Vec<_> = map
        .iter()
        .filter(|(key, _)| {
            key.as_slice() >= range.start && range.end.is_none_or(|end| key.as_slice() < end)
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if order == Order::Descending {
        expected.reverse();
    }
    let found = scan(read, range, order, keys);
    same(&found, &expected);
}

fn compare_stream(model: &mut Model, subjects: &[Box<dyn Subject>], random: &mut Random) {
    let after = random.below(model.version + 1);
    if random.below(4) == 0 {
        model.stream.retain(|version, _| *version > after);
        subjects
            .iter()
            .for_each(|subject| subject.engine().trim_stream(after).expect("trimmed"));
    }
    let expected: Vec<_> = model
        .stream
        .iter()
        .filter(|(version, _)| **version > after)
        .take(10)
        .collect();
    for subject in subjects {
        let found = subject
            .engine()
            .stream(after, 10, usize::MAX, false)
            .expect("the stream");
        same(
            &found
                .iter()
                .map(|entry| (&entry.version, &entry.bytes))
                .collect::<Vec<_>>(),
            &expected,
        );
    }
}

fn same<T: PartialEq + Debug>(found: &T, expected: &T) {
    assert_eq!(found, expected);
}
