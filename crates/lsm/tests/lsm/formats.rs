//! Databases written by earlier versions of the program, in `tests/formats`, open with their contents.
//!
//! `ISOMER_WRITE_FORMAT=1` rewrites that of the present format: only when the number of the format changes,
//! under its new name.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_storage::{
    Durability, Engine, KeyRange, Order,
    conformance::{ALL, scan},
};
use isomer_vfs::keys::MasterKey;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats")
}

fn options(key: Option<MasterKey>) -> LsmOptions {
    LsmOptions {
        create: false,
        key,
        background: false,
        segment_bytes: 4 << 10,
        memtable_bytes: 16 << 10,
        clock: Arc::new(|| 1_800_000_000_000),
        ..LsmOptions::default()
    }
}

/// The key of the encrypted ones. It is not secret.
fn key() -> MasterKey {
    MasterKey::from_bytes(&[0x42; 32]).expect("a key")
}

/// The contents of the databases. Written in steps, with tables and log between them.
fn write(engine: &LsmEngine) {
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

/// What only running processes need.
const OF_PROCESSES: [&str; 5] = [
    "LOCK",
    "MAINTENANCE",
    "BACKUP-LOCK",
    "shared/page",
    "shared/favoured",
];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if !OF_PROCESSES.iter().any(|own| path.ends_with(own)) {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn check(name: &str, key: Option<MasterKey>) {
    check_format(name, key, false);
}

fn check_format(name: &str, key: Option<MasterKey>, is_shared: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    if std::env::var_os("ISOMER_WRITE_FORMAT").is_some() {
        let made = LsmOptions {
            create: true,
            ..options(key.clone())
        };
        write(&LsmEngine::open(&path, made.clone()).unwrap());
        if is_shared {
            let sharing = LogSharing::Shared;
            drop(LsmEngine::open(&path, LsmOptions { sharing, ..made }).unwrap());
        }
        let target = kept().join(name);
        let _ = fs::remove_dir_all(&target);
        copy(&path, &target);
        fs::remove_dir_all(&path).unwrap();
    }
    copy(&kept().join(name), &path);
    let expected = expected();
    for round in 0..2 {
        let engine = LsmEngine::open(&path, options(key.clone())).unwrap();
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
        let mut entries: Vec<_> = (2..6_u32)
            .map(|step| (u64::from(step) + 1, step.to_be_bytes().to_vec()))
            .collect();
        entries.push((7, b"load".to_vec()));
        entries.push((8, 6_u32.to_be_bytes().to_vec()));
        assert_eq!(stream, entries, "{name}");
        // It is modified by this program, and read again.
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

/// The manifest names the segments of the log.
#[test]
fn a_store_of_format_2_opens() {
    check("store-3", None);
}

#[test]
fn an_encrypted_store_of_format_2_opens() {
    check("store-3-encrypted", Some(key()));
}

/// Its log is shared by processes. It opens alone, too.
#[test]
fn a_store_of_format_3_opens() {
    check_format("store-4", None, true);
}

#[test]
fn an_encrypted_store_of_format_3_opens() {
    check_format("store-4-encrypted", Some(key()), true);
}

/// The bytes of the file `STORE` of a shared database.
#[test]
fn the_file_of_format_3_is_as_specified() {
    let folder = tempfile::tempdir().unwrap();
    let options = LsmOptions {
        create: true,
        sharing: LogSharing::Shared,
        random: Arc::new(|| 0x0102_0304_0506_0708),
        ..options(None)
    };
    drop(LsmEngine::open(folder.path(), options).unwrap());
    let bytes = fs::read(folder.path().join("STORE")).unwrap();
    assert_eq!(bytes.len(), 40);
    assert_eq!(bytes[..16], *b"isomerST\x03\0\0\0\0\0\0\0");
    let identity = 0x0102_0304_0506_0708_u64.to_le_bytes().repeat(2);
    assert_eq!(bytes[16..32], identity);
    assert_eq!(
        fs::read(folder.path().join("tables/MANIFEST")).unwrap()[16],
        3
    );
}

/// The first opening for writing upgrades a database to the newest format: from then on an earlier program
/// refuses it because of its number, and a missing part is detected.
#[test]
fn a_store_of_format_1_is_raised() {
    let format = |path: &Path| fs::read(path.join("STORE")).unwrap()[8];
    for (name, key) in [
        ("store-1", None),
        ("store-1-encrypted", Some(key())),
        ("store-2", None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        copy(&kept().join(name), &path);
        assert_eq!(format(&path), 1);
        let read_only = LsmOptions {
            read_only: true,
            ..options(key.clone())
        };
        drop(LsmEngine::open(&path, read_only).unwrap());
        assert_eq!(format(&path), 1, "it was opened read-only");
        drop(LsmEngine::open(&path, options(key.clone())).unwrap());
        assert_eq!(format(&path), 2);
        assert_eq!(fs::read(path.join("tables/MANIFEST")).unwrap()[16], 2);
        let segments = fs::read_dir(path.join("log")).unwrap();
        for segment in segments.map(|entry| entry.unwrap().path()) {
            let bytes = fs::read(&segment).unwrap();
            fs::remove_file(&segment).unwrap();
            let error = LsmEngine::open(&path, options(key.clone())).unwrap_err();
            assert!(error.to_string().contains("is missing"), "{error}");
            fs::write(&segment, bytes).unwrap();
        }
        let old = kept().join(name).join("tables/MANIFEST");
        fs::copy(old, path.join("tables/MANIFEST")).unwrap();
        let error = LsmEngine::open(&path, options(key)).unwrap_err();
        assert!(error.to_string().contains("outdated"), "{error}");
    }
}
