//! Tables compared with sorted lists, and damaged tables.

use std::{path::Path, sync::Arc, time::Duration};

use isomer_storage::{StorageError, Version};
use isomer_vfs::{Disk, OpenMode, Seal, SimDisk};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    Reading, Table, TableEntry, TableFile,
    block::{BlockCursor, ValueKind, entry_order},
    builder::{TableBuilder, TableOptions, TableTarget},
    cursor::TableCursor,
    filter::filter_hash,
    sealed::Handle,
};
use crate::{BlockCache, RangeTombstone, RangeTombstones, blob::BlobRef};

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Here(Vec<u8>),
    Deleted,
    Apart(BlobRef),
}

type Entry = (Vec<u8>, Version, Value);

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }
}

fn random_entries(random: &mut Random, count: u64) -> Vec<Entry> {
    let (letters, long) = (2 + random.below(20), 1 + random.below(12));
    let mut entries: Vec<Entry> = (0..count)
        .map(|_| {
            let len = 1 + random.below(long);
            let mut key: Vec<u8> = (0..len).map(|_| 97 + random.below(letters) as u8).collect();
            if random.below(300) == 0 {
                key.resize(9000, b'z');
            }
            let version = 1 + random.below(1000);
            let value = match random.below(10) {
                0 => Value::Deleted,
                1 => Value::Apart(BlobRef {
                    file: random.below(3),
                    handle: Handle {
                        offset: random.below(1 << 40),
                        len: random.below(1 << 20) as u32,
                    },
                    value_bytes: random.below(1 << 21),
                }),
                _ => {
                    let most = if random.below(100) == 0 { 30_000 } else { 60 };
                    let len = random.below(most);
                    let same = random.below(2) == 0;
                    Value::Here(
                        (0..len)
                            .map(|_| if same { 5 } else { random.below(256) as u8 })
                            .collect(),
                    )
                }
            };
            (key, version, value)
        })
        .collect();
    entries.sort_by(|a, b| entry_order((&a.0, a.1), (&b.0, b.1)));
    entries.dedup_by(|a, b| (&a.0, a.1) == (&b.0, b.1));
    entries
}

const PATH: &str = "table";

fn build(
    disk: &SimDisk,
    seal: &Seal,
    entries: &[Entry],
    range_tombstones: &RangeTombstones,
) -> TableFile {
    build_with(true, disk, seal, entries, range_tombstones)
}

fn build_with(
    compression: bool,
    disk: &SimDisk,
    seal: &Seal,
    entries: &[Entry],
    range_tombstones: &RangeTombstones,
) -> TableFile {
    let target = TableTarget {
        disk,
        path: PATH.into(),
        identity: 0x1234_5678_9abc,
        seal: seal.clone(),
        pace: None,
    };
    let options = TableOptions {
        filter_prefixes: vec![2],
        block_bytes: 512,
        compression,
    };
    let mut builder = TableBuilder::create(target, &options).unwrap();
    for (key, version, value) in entries {
        match value {
            Value::Here(value) => builder.add(key, *version, Some(value)).unwrap(),
            Value::Deleted => builder.add(key, *version, None).unwrap(),
            Value::Apart(reference) => builder.add_apart(key, *version, reference).unwrap(),
        }
    }
    let written = builder.finish(range_tombstones).unwrap();
    TableFile {
        number: 1,
        identity: 0x1234_5678_9abc,
        file_bytes: written.file_bytes,
        footer_sum: written.footer_sum,
    }
}

fn open(disk: &SimDisk, seal: &Seal, file: &TableFile) -> Result<Arc<Table>, StorageError> {
    let cache = BlockCache::new(1 << 20, None);
    Table::open(disk, PATH.into(), file, &cache, seal.clone()).map(Arc::new)
}

fn here(cursor: &TableCursor) -> Option<Entry> {
    cursor.valid().then(|| {
        let value = match cursor.held() {
            ValueKind::Value => Value::Here(cursor.value().to_vec()),
            ValueKind::Deletion => Value::Deleted,
            ValueKind::Apart => Value::Apart(cursor.blob_ref().unwrap().unwrap()),
        };
        (cursor.key().to_vec(), cursor.version(), value)
    })
}

/// The result of looking up a key.
fn find(
    table: &Table,
    key: &[u8],
    version: Version,
) -> Result<Option<(Version, Value)>, StorageError> {
    let Some(candidate) = table.candidate(key, version, filter_hash(key))? else {
        return Ok(None);
    };
    table.look_up(&candidate, key, version, |version, got| {
        let value = match got {
            TableEntry::Value(value) => Value::Here(value.to_vec()),
            TableEntry::Deletion => Value::Deleted,
            TableEntry::InBlobFile(reference) => Value::Apart(reference),
        };
        Ok((version, value))
    })
}

fn held(entry: &Entry) -> (Version, Value) {
    (entry.1, entry.2.clone())
}

#[test]
fn tables_answer_as_sorted_lists_do() {
    for seed in 0..40 {
        let mut random = Random(seed * 7919 + 1);
        let count = [0, 1, 50, 4000][seed as usize % 4];
        let entries = random_entries(&mut random, count);
        let range_tombstones = RangeTombstones::of((0..random.below(4)).map(|at| RangeTombstone {
            start: Box::new([97 + at as u8]),
            end: (at != 2).then(|| Box::from([100 + at as u8])),
            version: 5 + at,
        }));
        let disk = SimDisk::new();
        let seal = if seed % 3 == 0 {
            Seal::ephemeral().unwrap()
        } else {
            Seal::plain()
        };
        let file = build(&disk, &seal, &entries, &range_tombstones);
        let table = open(&disk, &seal, &file).unwrap();
        assert_eq!(*table.range_tombstones, range_tombstones);
        table.verify(&mut |_| Ok(())).unwrap();
        let reading = if seed % 2 == 0 {
            Reading::Cached
        } else {
            Reading::Bulk
        };
        let mut cursor = TableCursor::new(table.clone(), reading);
        cursor.first().unwrap();
        for entry in &entries {
            assert_eq!(here(&cursor).as_ref(), Some(entry));
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        cursor.seek_before(None).unwrap();
        for entry in entries.iter().rev() {
            assert_eq!(here(&cursor).as_ref(), Some(entry));
            cursor.prev().unwrap();
        }
        assert!(!cursor.valid());
        let probes = random_entries(&mut random, 300);
        for (key, version, _) in probes.iter().chain(entries.iter().step_by(7)) {
            let version = version + random.below(3) - 1;
            let at = entries.partition_point(|e| entry_order((&e.0, e.1), (key, version)).is_lt());
            let expected = entries.get(at).filter(|entry| entry.0 == *key).map(held);
            assert_eq!(find(&table, key, version).unwrap(), expected);
            cursor.seek(key, version).unwrap();
            assert_eq!(here(&cursor).as_ref(), entries.get(at));
            let before = entries.partition_point(|e| e.0 < *key);
            cursor.seek_before(Some(key)).unwrap();
            let expected = before.checked_sub(1).map(|at| &entries[at]);
            assert_eq!(here(&cursor).as_ref(), expected);
            if let Some(prefix) = key.get(..2) {
                let there = entries.iter().any(|entry| entry.0.starts_with(prefix));
                let may = table.may_hold_prefix(prefix, filter_hash(prefix)).unwrap();
                assert!(may || !there);
            }
        }
    }
}

/// Blocks that a full cache does not admit are read correctly, including packed and encrypted ones.
#[test]
fn a_full_cache_changes_no_answer() {
    for seed in 0..4 {
        let mut random = Random(seed * 6151 + 9);
        let entries = random_entries(&mut random, 8000);
        let disk = SimDisk::new();
        let seal = if seed % 2 == 0 {
            Seal::ephemeral().unwrap()
        } else {
            Seal::plain()
        };
        let file = build_with(seed < 2, &disk, &seal, &entries, &RangeTombstones::new());
        let cache = BlockCache::new(0, None);
        let table = Table::open(&disk, PATH.into(), &file, &cache, seal.clone()).unwrap();
        let mut refused = 0;
        for round in 0..20_000 {
            let (key, version, _) = &entries[random.below(entries.len() as u64) as usize];
            let version = version + random.below(3) - 1;
            let at = entries.partition_point(|e| entry_order((&e.0, e.1), (key, version)).is_lt());
            let expected = entries.get(at).filter(|entry| entry.0 == *key).map(held);
            assert_eq!(find(&table, key, version).unwrap(), expected);
            refused += u32::from(!cache.admits((u64::MAX, round)));
        }
        assert!(refused > 10_000, "{refused}");
    }
}

/// A table with one read-ahead thread, which is released if nothing was read for `patience`, and its cache.
fn open_with_helper(
    disk: &SimDisk,
    seal: &Seal,
    file: &TableFile,
    patience: Duration,
) -> (Arc<Table>, BlockCache) {
    let cache = BlockCache::new(8 << 20, None);
    cache.allow_helpers(1, patience);
    let table = Table::open(disk, PATH.into(), file, &cache, seal.clone()).unwrap();
    (Arc::new(table), cache)
}

/// The thread reads the same blocks as the scan would, in any direction and to any end.
#[test]
fn long_scans_read_ahead() {
    for seed in 0..6 {
        let mut random = Random(seed * 6007 + 5);
        let entries = random_entries(&mut random, 30_000);
        let disk = SimDisk::new();
        let seal = if seed % 3 == 0 {
            Seal::ephemeral().unwrap()
        } else {
            Seal::plain()
        };
        let file = build_with(
            seed % 2 == 0,
            &disk,
            &seal,
            &entries,
            &RangeTombstones::new(),
        );
        let (table, cache) = open_with_helper(&disk, &seal, &file, Duration::MAX);
        let mut cursor = TableCursor::new(table.clone(), Reading::Cached);
        cursor.first().unwrap();
        let mut helped = 0;
        for entry in &entries {
            assert_eq!(here(&cursor).as_ref(), Some(entry), "seed {seed}");
            helped += usize::from(cursor.reads_ahead());
            cursor.next().unwrap();
        }
        assert!(!cursor.valid());
        assert!(helped > entries.len() / 2, "{helped} entries of a thread");
        // From any position, with changes of direction and jumps.
        let mut at = 0;
        cursor.first().unwrap();
        for _ in 0..40 {
            for _ in 0..random.below(6000) {
                assert_eq!(here(&cursor).as_ref(), entries.get(at), "seed {seed}");
                if at == entries.len() {
                    break;
                }
                cursor.next().unwrap();
                at += 1;
            }
            match random.below(3) {
                0 => {
                    for _ in 0..random.below(60).min(at as u64) {
                        if cursor.valid() {
                            cursor.prev().unwrap();
                            at -= 1;
                        }
                    }
                }
                1 => {
                    at = random.below(entries.len() as u64) as usize;
                    cursor.seek(&entries[at].0, entries[at].1).unwrap();
                }
                _ => {}
            }
        }
        drop(cursor);
        assert_eq!(Arc::strong_count(&table), 1, "the thread is gone");
        assert!(cache.helper().is_some(), "and another may come");
    }
}

/// Blocks that are small as stored take no more memory than counted once they are read.
#[test]
fn reading_ahead_takes_what_it_counts() {
    let mut entries = Vec::new();
    for number in 0..20_000_u64 {
        let value = Value::Here(vec![7; 900]);
        entries.push((number.to_be_bytes().to_vec(), 1, value));
    }
    let disk = SimDisk::new();
    let file = build(&disk, &Seal::plain(), &entries, &RangeTombstones::new());
    assert!(file.file_bytes < 4 << 20, "{} bytes", file.file_bytes);
    let table = open(&disk, &Seal::plain(), &file).unwrap();
    let mut cursor = TableCursor::new(table, Reading::Cached);
    cursor.first().unwrap();
    let mut walk = cursor.walk();
    let (mut blocks, mut bytes) = (0, 0);
    while let Some((more, held)) = walk.next_batch() {
        assert!(
            held <= (256 << 10) + (16 << 10),
            "{held} bytes of {more} blocks"
        );
        blocks += more;
        bytes += held;
    }
    assert!(
        blocks > 1000 && bytes > 16 << 20,
        "{blocks} of {bytes} bytes"
    );
}

/// A scan that stops reading releases its thread for others.
#[test]
fn an_idle_scan_releases_its_thread() {
    let entries = random_entries(&mut Random(9), 30_000);
    let disk = SimDisk::new();
    let seal = Seal::plain();
    let file = build(&disk, &seal, &entries, &RangeTombstones::new());
    let (table, cache) = open_with_helper(&disk, &seal, &file, Duration::ZERO);
    let pinned = cache.pinned_bytes();
    let mut cursor = TableCursor::new(table, Reading::Cached);
    cursor.first().unwrap();
    let mut at = 0;
    while !cursor.reads_ahead() {
        cursor.next().unwrap();
        at += 1;
    }
    // The ready batches are enough, and none of them is taken.
    cursor.wait_for_thread();
    assert!(cache.helper().is_some(), "it keeps its thread");
    // The parts of the index that were read stay.
    assert!(
        cache.pinned_bytes() <= pinned + (1 << 20),
        "it keeps its memory"
    );
    for entry in &entries[at..] {
        assert_eq!(here(&cursor).as_ref(), Some(entry));
        cursor.next().unwrap();
    }
    assert!(!cursor.valid());
}

/// A scan reports damage when it reaches it, whether it or the thread read that block.
#[test]
fn damage_ahead_of_a_scan_is_reported_in_place() {
    for seed in 0..20 {
        let mut random = Random(seed * 3571 + 11);
        let entries = random_entries(&mut random, 12_000);
        let disk = SimDisk::new();
        let seal = Seal::plain();
        let file = build(&disk, &seal, &entries, &RangeTombstones::new());
        let handle = disk.open(Path::new(PATH), OpenMode::Write).unwrap();
        let at = file.file_bytes / 4 + random.below(file.file_bytes / 4);
        let mut byte = [0];
        handle.read_exact_at(&mut byte, at).unwrap();
        byte[0] ^= 1 << random.below(8);
        handle.write_all_at(&byte, at).unwrap();
        let scan = |table: Arc<Table>| {
            let mut cursor = TableCursor::new(table, Reading::Cached);
            let mut seen = 0;
            let mut outcome = cursor.first();
            while outcome.is_ok() && cursor.valid() {
                assert_eq!(here(&cursor).as_ref(), Some(&entries[seen]));
                seen += 1;
                outcome = cursor.next();
            }
            (seen, outcome.map_err(|error| error.to_string()))
        };
        let alone = scan(open(&disk, &seal, &file).unwrap());
        let helped = scan(open_with_helper(&disk, &seal, &file, Duration::MAX).0);
        assert!(alone.1.is_err() && alone.0 > 0, "seed {seed}");
        assert_eq!(alone, helped, "seed {seed}");
    }
}

/// After any change of a file: the right answer or an error.
#[test]
fn damaged_tables_give_errors_and_no_wrong_answers() {
    let mut noticed = 0;
    let rounds = 150;
    for seed in 0..rounds {
        let mut random = Random(seed * 104_729 + 3);
        let entries = random_entries(&mut random, 600);
        let range_tombstones = RangeTombstones::of([RangeTombstone {
            start: Box::from(*b"b"),
            end: None,
            version: 3,
        }]);
        let disk = SimDisk::new();
        let seal = Seal::plain();
        let file = build(&disk, &seal, &entries, &range_tombstones);
        let handle = disk.open(Path::new(PATH), OpenMode::Write).unwrap();
        if random.below(4) == 0 {
            handle.set_len(random.below(file.file_bytes)).unwrap();
        } else {
            let at = random.below(file.file_bytes);
            let mut byte = [0];
            handle.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << random.below(8);
            handle.write_all_at(&byte, at).unwrap();
        }
        let table = match open(&disk, &seal, &file) {
            Ok(table) => table,
            Err(StorageError::Corrupt(message)) => {
                assert!(
                    message.contains(PATH) && message.contains("byte"),
                    "{message}"
                );
                noticed += 1;
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!(*table.range_tombstones, range_tombstones);
        noticed += u64::from(table.verify(&mut |_| Ok(())).is_err());
        for entry in &entries {
            if let Ok(answer) = find(&table, &entry.0, entry.1) {
                assert_eq!(answer, Some(held(entry)), "seed {seed}");
            }
        }
        let mut cursor = TableCursor::new(table.clone(), Reading::Bulk);
        let mut walk = || -> Result<(), StorageError> {
            cursor.first()?;
            for entry in &entries {
                assert_eq!(here(&cursor).as_ref(), Some(entry), "seed {seed}");
                cursor.next()?;
            }
            assert!(!cursor.valid());
            Ok(())
        };
        let _ = walk();
    }
    assert_eq!(noticed, rounds);
}

#[test]
fn another_table_under_the_name_is_refused() {
    let disk = SimDisk::new();
    let seal = Seal::plain();
    let mut random = Random(5);
    let file = build(
        &disk,
        &seal,
        &random_entries(&mut random, 50),
        &RangeTombstones::new(),
    );
    let other = build(
        &disk,
        &seal,
        &random_entries(&mut random, 50),
        &RangeTombstones::new(),
    );
    assert!(matches!(
        open(&disk, &seal, &file),
        Err(StorageError::Corrupt(_))
    ));
    assert!(open(&disk, &seal, &other).is_ok());
}

/// Overwrites a block with other bytes of the same length, with a correct checksum.
fn rewrite(table: &Table, disk: &SimDisk, handle: Handle, change: impl FnOnce(&mut [u8])) {
    let file = disk.open(Path::new(PATH), OpenMode::Write).unwrap();
    let mut stored = vec![0; handle.len as usize];
    file.read_exact_at(&mut stored, handle.offset).unwrap();
    let (body, sum) = stored.split_at_mut(handle.len as usize - 8);
    let (how, payload) = body.split_last_mut().unwrap();
    assert_eq!(*how, 0, "not compressed");
    change(payload);
    let identity = table.identity();
    let seed = identity as u64 ^ (identity >> 64) as u64 ^ handle.offset;
    sum.copy_from_slice(&xxh3_64_with_seed(body, seed).to_le_bytes());
    file.write_all_at(&stored, handle.offset).unwrap();
}

/// The result of verifying a table in which `change` rewrote something, given its first partition and its first
/// block of entries.
fn verdict(change: impl FnOnce(&Table, &SimDisk, Handle, Handle)) -> String {
    let disk = SimDisk::new();
    let seal = Seal::plain();
    let entries: Vec<Entry> = (0..400_u16)
        .map(|number| {
            let key = format!("key {number:05}").into_bytes();
            (key, 1 + u64::from(number % 7), Value::Here(vec![7; 20]))
        })
        .collect();
    let file = build_with(false, &disk, &seal, &entries, &RangeTombstones::new());
    let table = open(&disk, &seal, &file).unwrap();
    table.verify(&mut |_| Ok(())).unwrap();
    let mut top = BlockCursor::new();
    top.set(table.top.block().clone());
    top.first().unwrap();
    let partition_handle = table.handle(top.value(), 0).unwrap();
    let mut index = BlockCursor::new();
    index.set(table.read_partition(partition_handle).unwrap());
    index.first().unwrap();
    let block_handle = table.handle(index.value(), 0).unwrap();
    change(&table, &disk, partition_handle, block_handle);
    match open(&disk, &seal, &file).and_then(|table| table.verify(&mut |_| Ok(()))) {
        Err(StorageError::Corrupt(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn replace(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let at = bytes.windows(old.len()).position(|part| part == old);
    let at = at.expect("it is there");
    bytes[at..at + old.len()].copy_from_slice(new);
}

/// Inconsistencies that no checksum detects: order, filters, indexes and counts are compared with the entries.
#[test]
fn inconsistencies_with_correct_checksums_are_found() {
    let order = verdict(|table, disk, _, block| {
        rewrite(table, disk, block, |bytes| {
            replace(bytes, b"key 00000", b"key 00001");
        });
    });
    assert!(order.contains("entries are not in order"), "{order}");

    let filter = verdict(|table, disk, partition, _| {
        rewrite(table, disk, partition, |bytes| {
            let (rest, len) = bytes.split_last_chunk_mut::<4>().unwrap();
            let len = u32::from_le_bytes(*len) as usize;
            let from = rest.len() - len;
            rest[from..].fill(0);
        });
    });
    assert!(
        filter.contains("a filter denies an existing key"),
        "{filter}"
    );

    let index = verdict(|table, disk, partition, _| {
        rewrite(table, disk, partition, |bytes| {
            replace(bytes, b"key 000", b"key !00");
        });
    });
    assert!(
        index.contains("an index does not match its blocks"),
        "{index}"
    );

    let version = verdict(|table, disk, _, block| {
        rewrite(table, disk, block, |bytes| {
            // The base of the versions, before count, interval and width.
            let at = bytes.len() - 12;
            bytes[at] += 100;
        });
    });
    assert!(
        version.contains("a version is outside of the table's range"),
        "{version}"
    );

    let counts = verdict(|table, disk, _, _| {
        let footer = {
            let file = disk.open(Path::new(PATH), OpenMode::Read).unwrap();
            let mut bytes = [0; super::FOOTER_BYTES];
            let from = table.file_bytes() - bytes.len() as u64;
            file.read_exact_at(&mut bytes, from).unwrap();
            super::Footer::parse(&bytes).unwrap().0
        };
        rewrite(table, disk, footer.properties, |bytes| {
            // After the first and the last key: the number of entries, as a varint of two bytes.
            let at = 2 * (1 + b"key 00000".len());
            bytes[at] ^= 1;
        });
    });
    assert!(
        counts.contains("the table does not match its properties"),
        "{counts}"
    );
}
