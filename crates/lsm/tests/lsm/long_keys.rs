//! Long keys with common prefixes: indexes of tables contain them nearly completely.

use std::sync::Arc;

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{Durability, Engine, KeyRange, Order, PageLimit};
use isomer_vfs::SimDisk;

fn open(disk: &SimDisk) -> LsmEngine {
    let options = LsmOptions {
        disk: Arc::new(disk.clone()),
        background: false,
        ..LsmOptions::default()
    };
    LsmEngine::open("/db", options).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    let mut key = vec![b'k'; 3000];
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// Thousands of keys that differ at their ends only are flushed, compacted, and found.
#[test]
fn keys_with_a_long_common_beginning() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    for round in 0..2_u32 {
        let mut transaction = engine.begin().unwrap();
        for number in 0..2000_u32 {
            transaction
                .put(&key(number), &(number + round).to_be_bytes())
                .unwrap();
        }
        transaction.commit(Durability::Buffered).unwrap();
        engine.flush().unwrap();
    }
    engine.compact_all().unwrap();
    assert_eq!(engine.verify(&mut |_, _| {}).unwrap(), Vec::<String>::new());
    drop(engine);
    let engine = open(&disk);
    let snapshot = engine.snapshot().unwrap();
    for number in [0_u32, 1, 777, 1998, 1999] {
        let expected = (number + 1).to_be_bytes().to_vec();
        assert_eq!(snapshot.get(&key(number)).unwrap(), Some(expected));
    }
    assert_eq!(snapshot.get(&key(2000)).unwrap(), None);
    let mut page = isomer_storage::Page::new();
    let range = KeyRange {
        start: &key(100),
        end: Some(&key(200)),
    };
    let limit = PageLimit {
        keys: 1000,
        bytes: 1 << 20,
    };
    snapshot
        .scan(range, Order::Ascending, limit, &mut page)
        .unwrap();
    assert_eq!(page.len(), 100);
}

/// Many versions of one key of the maximum length, all of which are still read by snapshots.
#[test]
fn versions_of_the_longest_key() {
    let disk = SimDisk::new();
    let engine = open(&disk);
    let key = vec![b'x'; isomer_storage::MAX_KEY_BYTES];
    let mut snapshots = Vec::new();
    for number in 0..40_u32 {
        let mut transaction = engine.begin().unwrap();
        transaction.put(&key, &number.to_be_bytes()).unwrap();
        transaction.commit(Durability::Buffered).unwrap();
        snapshots.push(engine.snapshot().unwrap());
    }
    engine.flush().unwrap();
    engine.compact_all().unwrap();
    assert_eq!(engine.verify(&mut |_, _| {}).unwrap(), Vec::<String>::new());
    for (number, snapshot) in snapshots.iter().enumerate() {
        let expected = (number as u32).to_be_bytes().to_vec();
        assert_eq!(snapshot.get(&key).unwrap(), Some(expected));
    }
}
