//! Databases that earlier programs wrote, kept in `tests/formats`, open with what was in them.
//!
//! `ISOMER_WRITE_FORMAT=1` writes the present format's anew: only when the number of the format changes, under its new name.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::{
    Durability, Engine, KeyRange, Order,
    conformance::{ALL, scan},
};
use isomer_store::{StoreEngine, StoreOptions};
use isomer_vfs::keys::MasterKey;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats")
}

fn options(key: Option<MasterKey>) -> StoreOptions {
    StoreOptions {
        create: false,
        key,
        background: false,
        segment_bytes: 4 << 10,
        memtable_bytes: 16 << 10,
        clock: Arc::new(|| 1_800_000_000_000),
        ..StoreOptions::default()
    }
}

/// The key of the encrypted ones. It hides nothing.
fn key() -> MasterKey {
    MasterKey::from_bytes(&[0x42; 32]).expect("a key")
}

/// What the databases hold. Written in steps, with tables and log between them.
fn write(engine: &StoreEngine) {
    let commit = |step: u32, durability| {
        let mut transaction = engine.begin().unwrap();
        for number in 0..12_u32 {
            let key = format!("key {:02}", (step * 5 + number * 7) % 60);
            let value = vec![step as u8 + 1; (number * 9) as usize];
            transaction.put(key.as_bytes(), &value).unwrap();
        }
        if step == 4 {
            let range = KeyRange {
                start: b"key 10",
                end: Some(b"key 20"),
            };
            transaction.delete_range(range).unwrap();
            transaction.put(b"large", &[7; 3000]).unwrap();
        }
        transaction.delete(b"key 33").unwrap();
        transaction.append_stream(&step.to_be_bytes());
        transaction.commit(durability).unwrap();
    };
    for step in 0..6 {
        commit(step, Durability::Buffered);
        if step % 2 == 1 {
            engine.flush().unwrap();
        }
    }
    engine.compact().unwrap();
    let mut load = (0..20_u32).map(|n| Ok((format!("load {n:02}").into_bytes(), vec![b'l'; 5])));
    engine.ingest(&mut load, Some(b"load")).unwrap();
    engine.trim_stream(2).unwrap();
    commit(6, Durability::Synced);
}

fn expected() -> Pairs {
    let mut pairs = Pairs::new();
    for step in 0..7_u32 {
        for number in 0..12_u32 {
            let key = format!("key {:02}", (step * 5 + number * 7) % 60).into_bytes();
            pairs.insert(key, vec![step as u8 + 1; (number * 9) as usize]);
        }
        if step == 4 {
            pairs.retain(|key, _| !(&b"key 10"[..]..b"key 20").contains(&&key[..]));
            pairs.insert(b"large".to_vec(), vec![7; 3000]);
        }
        pairs.remove(&b"key 33"[..]);
    }
    for number in 0..20_u32 {
        pairs.insert(format!("load {number:02}").into_bytes(), vec![b'l'; 5]);
    }
    pairs
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

fn check(name: &str, key: Option<MasterKey>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    if std::env::var_os("ISOMER_WRITE_FORMAT").is_some() {
        let made = StoreOptions {
            create: true,
            ..options(key.clone())
        };
        write(&StoreEngine::open(&path, made).unwrap());
        let target = kept().join(name);
        let _ = fs::remove_dir_all(&target);
        copy(&path, &target);
        fs::remove_dir_all(&path).unwrap();
    }
    copy(&kept().join(name), &path);
    let expected = expected();
    for round in 0..2 {
        let engine = StoreEngine::open(&path, options(key.clone())).unwrap();
        assert_eq!(engine.verify(&mut |_, _| {}).unwrap(), Vec::<String>::new());
        assert_eq!(engine.version(), 8 + round);
        let snapshot = engine.snapshot().unwrap();
        for order in [Order::Ascending, Order::Descending] {
            let found: Pairs = scan(&*snapshot, ALL, order, 7).into_iter().collect();
            assert!(found == expected, "{name}, round {round}");
        }
        assert_eq!(snapshot.get(b"key 33").unwrap(), None);
        let stream = engine.stream(2, 100, 1 << 20, false).unwrap();
        let stream: Vec<_> = stream
            .into_iter()
            .filter(|entry| entry.version <= 8)
            .map(|entry| (entry.version, entry.bytes))
            .collect();
        let mut told: Vec<_> = (2..6_u32)
            .map(|step| (u64::from(step) + 1, step.to_be_bytes().to_vec()))
            .collect();
        told.push((7, b"load".to_vec()));
        told.push((8, 6_u32.to_be_bytes().to_vec()));
        assert_eq!(stream, told, "{name}");
        // It is written on by this program, and read again.
        let mut transaction = engine.begin().unwrap();
        transaction
            .put(b"key 00", &expected[&b"key 00"[..]])
            .unwrap();
        transaction.commit(Durability::Synced).unwrap();
        engine.flush().unwrap();
        engine.compact().unwrap();
    }
}

#[test]
fn a_store_of_format_1_opens() {
    check("store-1", None);
}

#[test]
fn an_encrypted_store_of_format_1_opens() {
    check("store-1-encrypted", Some(key()));
}

/// Its loaded pairs are packed by columns.
#[test]
fn a_store_with_tables_of_format_2_opens() {
    check("store-2", None);
}
