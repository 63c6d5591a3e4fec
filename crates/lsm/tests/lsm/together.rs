//! Concurrent readers, writers, flushes and compactions: every snapshot is one version, complete.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{
    Durability, Engine, KeyRange, Order, Snapshot,
    conformance::{ALL, Random, scan},
};

const KEYS: u64 = 400;

fn key(number: u64) -> Vec<u8> {
    format!("key {:05}", number * 7919 % 100_003).into_bytes()
}

/// Every commit writes its number under some keys, and always under the first key; all keys of a round are
/// written before the next round begins, so that a snapshot determines the values to expect.
fn value(round: u64, number: u64) -> Vec<u8> {
    let mut value = round.to_be_bytes().to_vec();
    // Some values go into blob files.
    value.resize(8 + (round * 31 + number * 17) as usize % 900, number as u8);
    value
}

fn check(snapshot: &dyn Snapshot, random: &mut Random) {
    let rounds = snapshot.get(b"rounds").expect("a get");
    let round = rounds.map_or(0, |bytes| {
        u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
    });
    if round == 0 {
        return;
    }
    // In every third round the even keys are deleted, one by one or as ranges.
    let holds = |number: u64| !round.is_multiple_of(3) || number % 2 == 1;
    for _ in 0..30 {
        let number = random.below(KEYS);
        let found = snapshot.get(&key(number)).expect("a get");
        let expected = holds(number).then(|| value(round, number));
        assert!(
            found == expected,
            "key {number} in round {round}: {:?}",
            found.map(|value| value.len())
        );
    }
    let order = if random.below(2) == 0 {
        Order::Ascending
    } else {
        Order::Descending
    };
    let pairs = scan(snapshot, ALL, order, 1 + random.below(100) as usize);
    let count = (0..KEYS).filter(|number| holds(*number)).count();
    assert_eq!(pairs.len(), count + 1, "round {round}");
    for (_, found) in pairs.iter().filter(|(key, _)| key.starts_with(b"key")) {
        assert_eq!(
            found[..8],
            round.to_be_bytes(),
            "another round's value in round {round}"
        );
    }
}

#[test]
fn snapshots_are_whole_under_concurrency() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = LsmOptions {
        segment_bytes: 64 << 10,
        memtable_bytes: 256 << 10,
        blob_threshold_bytes: 600,
        cache_bytes: 2 << 20,
        ..LsmOptions::default()
    };
    let engine = LsmEngine::open(folder.path(), options.clone()).expect("opens");
    let (done, checks) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut rounds = 0u64;
    thread::scope(|scope| {
        for seed in 0..2 {
            let (engine, done, checks) = (&engine, &done, &checks);
            scope.spawn(move || {
                let random = &mut Random(seed);
                let mut held = engine.snapshot().expect("a snapshot");
                while !done.load(Ordering::Relaxed) {
                    let snapshot = engine.snapshot().expect("a snapshot");
                    check(&*snapshot, random);
                    check(&*held, random);
                    if random.below(10) == 0 {
                        held = snapshot;
                    }
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // On a busy machine it takes longer, until there was enough to check.
        let (until, at_most) = (Duration::from_secs(4), Duration::from_secs(60));
        let begun = Instant::now();
        let mut ordered: Vec<u64> = (0..KEYS).collect();
        ordered.sort_by_key(|number| key(*number));
        // A panic of a reader is reported when the scope ends.
        loop {
            let checked = checks.load(Ordering::Relaxed);
            let is_enough = rounds > 20 && checked > 5 && begun.elapsed() >= until;
            if is_enough || (rounds >= 2000 && checked >= 20) || begun.elapsed() >= at_most {
                break;
            }
            rounds += 1;
            let mut transaction = engine.begin().expect("a transaction");
            if rounds.is_multiple_of(9) {
                // All of them, which are enough to become a range tombstone.
                let range = KeyRange {
                    start: b"key",
                    end: Some(b"kez"),
                };
                transaction.delete_range(range).expect("a delete");
            }
            for number in &ordered {
                if rounds.is_multiple_of(3) && number.is_multiple_of(2) {
                    transaction.delete(&key(*number)).expect("a delete");
                } else {
                    transaction
                        .put(&key(*number), &value(rounds, *number))
                        .expect("a put");
                }
            }
            transaction
                .put(b"rounds", &rounds.to_be_bytes())
                .expect("a put");
            let durability = if rounds.is_multiple_of(50) {
                Durability::Synced
            } else {
                Durability::Buffered
            };
            transaction.commit(durability).expect("a commit");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(rounds > 20, "{rounds} rounds");
    assert!(checks.load(Ordering::Relaxed) > 5);
    check(&*engine.snapshot().expect("a snapshot"), &mut Random(5));
    engine.compact_all().expect("merged");
    check(&*engine.snapshot().expect("a snapshot"), &mut Random(6));
    let statistics = engine.statistics().expect("statistics");
    let entries = statistics
        .details
        .iter()
        .find(|(name, _)| name == "entries")
        .expect("a detail");
    assert_eq!(
        entries.1,
        statistics.key_count.to_string(),
        "old versions are gone"
    );
    assert_eq!(
        engine.verify(&mut |_, _| {}).expect("verified"),
        Vec::<String>::new()
    );
    drop(engine);
    let engine = LsmEngine::open(folder.path(), options).expect("opens");
    assert_eq!(engine.version(), rounds);
    check(&*engine.snapshot().expect("a snapshot"), &mut Random(7));
}

/// A metric of the engine.
fn metric(engine: &LsmEngine, name: &str) -> u64 {
    let statistics = engine.statistics().expect("counted");
    let found = statistics.details.iter().find(|one| one.0 == name);
    found.expect("reported").1.parse().expect("a number")
}

/// A large replay of the log is flushed when opening.
#[test]
fn a_large_replay_is_flushed() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = || LsmOptions {
        memtable_bytes: 1 << 20,
        ..LsmOptions::default()
    };
    for (keys, is_much) in [(100, false), (KEYS, true)] {
        let engine = LsmEngine::open(folder.path(), options()).expect("opened");
        for number in 0..keys {
            let mut tx = engine.begin().expect("begun");
            tx.put(&key(number), &value(keys, number)).expect("put");
            tx.commit(Durability::Buffered).expect("committed");
        }
        drop(engine);
        let engine = LsmEngine::open(folder.path(), options()).expect("opened");
        let until = Instant::now() + Duration::from_secs(60);
        while is_much && metric(&engine, "runs") == 0 {
            assert!(Instant::now() < until, "nothing is flushed");
            // A thread of the engine flushes: only the metric shows it.
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(metric(&engine, "runs"), u64::from(is_much));
        let snapshot = engine.snapshot().expect("a snapshot");
        for number in 0..keys {
            let found = snapshot.get(&key(number)).expect("read");
            assert_eq!(found, Some(value(keys, number)));
        }
        // Later commits continue after it.
        let mut tx = engine.begin().expect("begun");
        tx.put(b"later", b"value").expect("put");
        tx.commit(Durability::Synced).expect("committed");
        drop((snapshot, engine));
        let engine = LsmEngine::open(folder.path(), options()).expect("opened");
        let snapshot = engine.snapshot().expect("a snapshot");
        assert!(snapshot.get(b"later").expect("read").is_some());
        assert_eq!(snapshot.get(&key(7)).expect("read"), Some(value(keys, 7)));
    }
}

/// Reads alone make the engine's thread compact a few runs into one.
#[test]
fn reads_alone_compact_a_few_runs_into_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = LsmEngine::open(folder.path(), LsmOptions::default()).expect("opened");
    let runs = 4;
    for run in 0..runs {
        let mut tx = engine.begin().expect("begun");
        for number in (run..KEYS).step_by(runs as usize) {
            tx.put(&key(number), &value(run, number)).expect("put");
        }
        tx.commit(Durability::Buffered).expect("committed");
        engine.flush().expect("flushed");
    }
    let runs_now = || metric(&engine, "runs");
    assert_eq!(runs_now(), runs);
    let snapshot = engine.snapshot().expect("a snapshot");
    let oldest: Vec<u64> = (0..KEYS).step_by(runs as usize).collect();
    let until = Instant::now() + Duration::from_secs(60);
    while runs_now() > 1 {
        assert!(Instant::now() < until, "{} runs are left", runs_now());
        for _ in 0..100 {
            for number in &oldest {
                let found = snapshot.get(&key(*number)).expect("read");
                assert_eq!(found, Some(value(0, *number)));
            }
        }
    }
}
