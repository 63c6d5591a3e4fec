//! Earlier versions can be read as long as they are kept, across flushes, compactions and reopening; not later.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_lsm::{LsmEngine, LsmOptions, Retention};
use isomer_storage::{
    Durability, Engine, KeyRange, MemoryEngine, Order, StorageError,
    conformance::{ALL, Random, put, scan},
};
use isomer_vfs::SimDisk;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Subject {
    options: LsmOptions,
    now: Arc<AtomicU64>,
    engine: Option<LsmEngine>,
}

impl Subject {
    fn new(retention: Retention) -> Self {
        let now = Arc::new(AtomicU64::new(1_000_000));
        let clock = now.clone();
        let random = AtomicU64::new(1);
        let options = LsmOptions {
            disk: Arc::new(SimDisk::new()),
            segment_bytes: 8 << 10,
            memtable_bytes: 32 << 10,
            cache_bytes: 1 << 20,
            background: false,
            retention,
            clock: Arc::new(move || clock.load(Ordering::SeqCst)),
            random: Arc::new(move || Random(random.fetch_add(1, Ordering::SeqCst)).number()),
            ..LsmOptions::default()
        };
        let mut subject = Self {
            options,
            now,
            engine: None,
        };
        subject.reopen();
        subject
    }

    fn reopen(&mut self) {
        self.engine = None;
        self.engine = Some(LsmEngine::open("/db", self.options.clone()).expect("opens"));
    }

    fn engine(&self) -> &LsmEngine {
        self.engine.as_ref().expect("open")
    }

    fn pass(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }
}

/// Commits a random change; the model follows.
fn commit(engine: &LsmEngine, random: &mut Random, map: &mut Map) -> u64 {
    let key = |random: &mut Random| format!("key {:03}", random.below(200)).into_bytes();
    let mut transaction = engine.begin().expect("a transaction");
    if random.below(10) == 0 {
        let (one, other) = (key(random), key(random));
        let (start, end) = (one.clone().min(other.clone()), one.max(other));
        transaction
            .delete_range(KeyRange {
                start: &start,
                end: Some(&end),
            })
            .expect("a delete");
        map.retain(|key, _| *key < start || *key >= end);
    }
    for _ in 0..random.below(6) {
        let (key, value) = (
            key(random),
            vec![random.below(256) as u8; random.below(1500) as usize],
        );
        if random.below(4) == 0 {
            transaction.delete(&key).expect("a delete");
            map.remove(&key);
        } else {
            transaction.put(&key, &value).expect("a put");
            map.insert(key, value);
        }
    }
    transaction.append_stream(b"an entry");
    transaction.commit(Durability::Buffered).expect("a commit")
}

fn pairs(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.clone().into_iter().collect()
}

/// Within the retention window every version and every time can be read, across concurrent flushes, compactions
/// and reopening.
#[test]
fn versions_within_the_retention_window_can_be_read() {
    for seed in 0..4 {
        let random = &mut Random(seed);
        let retention = Retention {
            versions_ms: 40_000,
            ..Retention::default()
        };
        let mut subject = Subject::new(retention);
        let mut map = Map::new();
        let mut history: BTreeMap<u64, (u64, Map)> = BTreeMap::new();
        for _ in 0..400 {
            subject.pass(random.below(500));
            let version = commit(subject.engine(), random, &mut map);
            history.insert(version, (subject.now.load(Ordering::SeqCst), map.clone()));
            match random.below(60) {
                0 => subject.engine().flush().expect("flushed"),
                1 => subject.engine().compact().expect("merged"),
                2 => subject.engine().compact_all().expect("merged"),
                3 => subject.reopen(),
                _ => {}
            }
            if random.below(20) == 0 {
                let since = subject.now.load(Ordering::SeqCst) - 40_000;
                let engine = subject.engine();
                let (last_before, _) = history
                    .iter()
                    .rev()
                    .find(|(_, (time, _))| *time <= since)
                    .unwrap_or_else(|| history.iter().next().expect("there are commits"));
                let kept = *last_before + random.below(version - last_before + 1);
                let snapshot = engine.snapshot_at(kept).expect("within the window");
                assert_eq!(snapshot.version(), kept);
                assert_eq!(
                    scan(&*snapshot, ALL, Order::Ascending, 50),
                    pairs(&history[&kept].1)
                );
                let time = history[&kept].0;
                let at_time = engine
                    .version_at(time)
                    .expect("a version")
                    .expect("is known");
                assert!(
                    at_time >= kept && history[&at_time].0 <= time,
                    "{at_time} for the time of {kept}"
                );
                assert!(
                    history
                        .range(at_time + 1..)
                        .all(|(_, (later, _))| *later > time)
                );
            }
        }
        subject.pass(100_000);
        let last = commit(subject.engine(), random, &mut map);
        subject.pass(100_000);
        let last = commit(subject.engine(), random, &mut map).max(last);
        let engine = subject.engine();
        engine.compact_all().expect("merged");
        assert!(
            engine.oldest_version() >= last - 1,
            "{} of {last}",
            engine.oldest_version()
        );
        let refused = engine.snapshot_at(last - 30).err().expect("gone");
        assert!(
            matches!(&refused, StorageError::Invalid(text) if text.contains("not kept")),
            "{refused}"
        );
        let refused = engine.snapshot_at(last + 1).err().expect("not yet");
        assert!(
            matches!(&refused, StorageError::Invalid(text) if text.contains("does not exist yet")),
            "{refused}"
        );
    }
}

/// A snapshot keeps its contents without any retention window; when it is dropped its versions are collected.
#[test]
fn held_snapshots_outlast_merges() {
    let subject = Subject::new(Retention::default());
    let random = &mut Random(9);
    let (mut map, mut held) = (Map::new(), Vec::new());
    for step in 0..300 {
        let version = commit(subject.engine(), random, &mut map);
        if step % 40 == 0 {
            held.push((
                subject.engine().snapshot().expect("a snapshot"),
                map.clone(),
            ));
            let again = subject.engine().snapshot_at(version).expect("the last one");
            assert_eq!(again.version(), version);
        }
        if step % 25 == 0 {
            subject.engine().compact_all().expect("merged");
        }
    }
    subject.engine().compact_all().expect("merged");
    for (snapshot, map) in &held {
        assert_eq!(scan(&**snapshot, ALL, Order::Ascending, 20), pairs(map));
        let backwards: Vec<_> = pairs(map).into_iter().rev().collect();
        assert_eq!(scan(&**snapshot, ALL, Order::Descending, 20), backwards);
        let again = subject
            .engine()
            .snapshot_at(snapshot.version())
            .expect("it is held");
        assert_eq!(again.version(), snapshot.version());
    }
    let entries = |subject: &Subject| {
        let details = subject.engine().statistics().expect("statistics").details;
        let (_, entries) = details
            .into_iter()
            .find(|(name, _)| name == "entries")
            .expect("a detail");
        entries.parse::<usize>().expect("a number")
    };
    assert!(entries(&subject) > map.len());
    held.clear();
    // A compaction drops versions without readers: a change creates a run that makes the others part of one.
    map.insert(b"one more".to_vec(), b"value".to_vec());
    put(subject.engine(), b"one more", b"value");
    subject.engine().compact_all().expect("merged");
    assert_eq!(entries(&subject), map.len());
}

/// Engines that keep one version report that.
#[test]
fn the_memory_engine_keeps_the_last_version_only() {
    let memory = MemoryEngine::new();
    put(&memory, b"key", b"one");
    let last = put(&memory, b"key", b"two");
    assert_eq!(
        memory.snapshot_at(last).expect("the last one").version(),
        last
    );
    let refused = memory.snapshot_at(last - 1).err().expect("not kept");
    assert!(
        matches!(&refused, StorageError::Invalid(text) if text.contains("not kept")),
        "{refused}"
    );
    assert_eq!(
        (
            memory.oldest_version(),
            memory.version_at(0).expect("an answer")
        ),
        (last, None)
    );
}
