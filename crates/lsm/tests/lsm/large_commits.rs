//! A commit larger than a memtable goes through several, which are flushed before it is published: it is atomic
//! for all readers, before and after, however the process ends, and it takes a bounded part of the budget.

use std::{fs, path::Path, sync::Arc};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{
    Durability, Engine, KeyRange, MemoryBudget, MemoryKind, Order, Read, StorageError,
};

const MEMTABLE: usize = 64 << 10;
const ENTRIES: u32 = 20_000;

fn options(memory: Option<&MemoryBudget>) -> LsmOptions {
    LsmOptions {
        memtable_bytes: MEMTABLE,
        segment_bytes: 128 << 10,
        cache_bytes: 1 << 20,
        memory: memory.cloned(),
        ..LsmOptions::default()
    }
}

fn open(folder: &Path, memory: Option<&MemoryBudget>) -> Arc<LsmEngine> {
    Arc::new(LsmEngine::open(folder, options(memory)).expect("opens"))
}

/// Replaces every key in one commit, and deletes another range.
fn replace_all(engine: &LsmEngine, round: u32) -> u64 {
    let mut transaction = engine.begin().expect("begins");
    let range = KeyRange {
        start: b"old",
        end: Some(b"olf"),
    };
    transaction.delete_range(range).expect("fits");
    for number in 0..ENTRIES {
        let key = format!("key{number:08}");
        match number % 5 == round % 5 {
            true => transaction.delete(key.as_bytes()),
            false => transaction.put(key.as_bytes(), &round.to_be_bytes().repeat(5)),
        }
        .expect("fits");
    }
    transaction.append_stream(&round.to_be_bytes());
    transaction.commit(Durability::Buffered).expect("committed")
}

fn check(read: &dyn Read, round: u32) {
    let mut found = 0;
    let all = KeyRange {
        start: b"",
        end: None,
    };
    read.visit(all, Order::Ascending, &mut |key, value| {
        let number: u32 = std::str::from_utf8(&key[3..])
            .expect("text")
            .parse()
            .expect("a number");
        assert!(number % 5 != round % 5, "round {round}: {number} is gone");
        assert_eq!(value, round.to_be_bytes().repeat(5), "of one commit only");
        found += 1;
        std::ops::ControlFlow::Continue(())
    })
    .expect("reads");
    assert_eq!(found, ENTRIES - ENTRIES / 5);
}

#[test]
fn a_commit_larger_than_a_memtable_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path(), None);
    let mut first = engine.begin().expect("begins");
    for number in 0..200 {
        first
            .put(format!("old{number}").as_bytes(), b"x")
            .expect("fits");
    }
    first.commit(Durability::Synced).expect("committed");
    let before = engine.snapshot().expect("a snapshot");
    replace_all(&engine, 1);
    let earlier = engine.snapshot().expect("a snapshot");
    replace_all(&engine, 2);
    assert_eq!(
        before.get(b"old7").expect("reads").as_deref(),
        Some(&b"x"[..])
    );
    assert_eq!(before.get(b"key00000007").expect("reads"), None);
    check(&*earlier, 1);
    check(&*engine.snapshot().expect("a snapshot"), 2);
    let entries = engine.stream(1, 10, usize::MAX, false).expect("read");
    assert_eq!(entries.len(), 2);
    drop((before, earlier));
    engine.flush().expect("flushed");
    engine.compact().expect("merged");
    check(&*engine.snapshot().expect("a snapshot"), 2);
    assert_eq!(
        engine.verify(&mut |_, _| {}).expect("read"),
        Vec::<String>::new()
    );
    drop(engine);
    check(
        &*open(folder.path(), None).snapshot().expect("a snapshot"),
        2,
    );
}

/// As a killed process leaves it: parts of the commit are in tables, the log has all of it.
#[test]
fn a_large_commit_is_whole_after_a_crash() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = open(folder.path(), None);
    for round in 1..4 {
        let version = replace_all(&engine, round);
        // A background thread may remove a file while it is copied: then the copy is repeated.
        let copies = (0..50).find_map(|_| {
            let copy = tempfile::tempdir().expect("a folder");
            copy_folder(folder.path(), copy.path()).ok()?;
            let recovered = LsmEngine::open(copy.path(), options(None)).ok()?;
            Some((copy, recovered))
        });
        let (_copy, recovered) = copies.expect("one that opens");
        assert_eq!(recovered.version(), version);
        check(&*recovered.snapshot().expect("a snapshot"), round);
        replace_all(&recovered, round + 1);
        check(&*recovered.snapshot().expect("a snapshot"), round + 1);
        check(&*engine.snapshot().expect("a snapshot"), round);
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|error| error.to_string())?;
    for entry in fs::read_dir(from).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let target = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy_folder(&path, &target)?,
            false => fs::copy(&path, &target)
                .map(drop)
                .map_err(|error| error.to_string())?,
        }
    }
    Ok(())
}

/// Memtables take a bounded part of the budget whatever is committed, and if it is exhausted, a commit is
/// refused completely.
#[test]
fn memtables_stay_within_the_budget() {
    let folder = tempfile::tempdir().expect("a folder");
    let memory = MemoryBudget::new(1 << 20);
    let engine = open(folder.path(), Some(&memory));
    let version = engine.version();
    let free = memory.free_bytes();
    let all = memory.reserve(MemoryKind::Queries, free).expect("free");
    let mut transaction = engine.begin().expect("begins");
    for number in 0..ENTRIES {
        transaction
            .put(&number.to_be_bytes(), &[7; 20])
            .expect("fits");
    }
    let error = transaction
        .commit(Durability::Synced)
        .expect_err("no memory");
    assert!(matches!(error, StorageError::TooLarge { .. }), "{error}");
    assert_eq!(engine.version(), version);
    // Small commits succeed.
    for number in 0..20_u32 {
        let mut small = engine.begin().expect("begins");
        small.put(&number.to_be_bytes(), &[7; 20]).expect("fits");
        small.commit(Durability::Buffered).expect("committed");
    }
    drop(all);
    for round in 1..4 {
        replace_all(&engine, round);
        let usage = memory.usage(MemoryKind::Memtables);
        assert!(usage.peak_bytes <= 6 * MEMTABLE, "{}", usage.peak_bytes);
    }
    drop(engine);
    assert_eq!(memory.used_bytes(), 0);
}
