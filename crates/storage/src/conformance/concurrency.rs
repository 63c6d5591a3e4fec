//! Several transactions and threads concurrently.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    task::{Poll, Wake, Waker},
    thread,
};

use super::subject::{ALL, Make, SubjectOptions, get, put, scan};
use crate::sync::Mutex;
use crate::{
    Durability, Engine, EngineCommit, EngineTransaction, Granule, GuardMode, Order, Read,
    StorageError,
};

/// The table at [`GuardMode`], line by line, and the cases outside of it.
pub fn guards_matrix(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    let modes = [GuardMode::Read, GuardMode::Write, GuardMode::Add];
    let begin = |key: &[u8]| {
        let mut transaction = engine.begin().expect("a transaction");
        transaction.put(key, b"value").expect("a put");
        transaction
    };
    for (number, (mine, others)) in modes
        .into_iter()
        .flat_map(|mine| modes.map(|others| (mine, others)))
        .enumerate()
    {
        let granule = Granule(number as u128);
        let (mut me, mut other) = (begin(b"mine"), begin(b"other"));
        me.guard(granule, mine);
        other.guard(granule, others);
        let version = other.commit(Durability::Synced).expect("the first passes");
        let result = me.commit(Durability::Synced);
        let conflicts = mine != GuardMode::Add && others != GuardMode::Read;
        match result {
            Err(StorageError::Conflict {
                granule: found,
                version: at,
            }) => {
                assert!(conflicts, "{mine:?} after {others:?}");
                assert_eq!((found, at), (granule, version));
                assert_ne!(get(&*engine, b"mine").as_deref(), Some(&b"refused"[..]));
            }
            Ok(_) => assert!(!conflicts, "{mine:?} after {others:?}"),
            Err(other) => panic!("{other}"),
        }
    }
    // A change before the snapshot, or of another granule, does not conflict.
    let mut before = begin(b"before");
    before.guard(Granule(100), GuardMode::Write);
    before.commit(Durability::Synced).expect("a commit");
    let mut after = begin(b"after");
    after.guard(Granule(100), GuardMode::Read);
    let mut elsewhere = begin(b"elsewhere");
    elsewhere.guard(Granule(101), GuardMode::Write);
    elsewhere.commit(Durability::Synced).expect("a commit");
    after.commit(Durability::Synced).expect("no conflict");
    // Reading alone never conflicts, whatever was observed; writing after it does.
    let mut reader = engine.begin().expect("a transaction");
    reader.guard(Granule(102), GuardMode::Read);
    let mut writer = begin(b"writer");
    writer.guard(Granule(102), GuardMode::Write);
    writer.commit(Durability::Synced).expect("a commit");
    let seen = reader.version();
    assert_eq!(
        reader.commit(Durability::Synced).expect("wrote nothing"),
        seen
    );
    // A refused transaction changes nothing, not even for transactions that observe its granules.
    let mut old = begin(b"old");
    old.guard(Granule(103), GuardMode::Write);
    old.guard(Granule(104), GuardMode::Write);
    let mut witness = begin(b"witness");
    witness.guard(Granule(104), GuardMode::Read);
    let mut first = begin(b"first");
    first.guard(Granule(103), GuardMode::Add);
    first.commit(Durability::Synced).expect("a commit");
    assert!(old.commit(Durability::Synced).is_err());
    assert_eq!(get(&*engine, b"old"), None);
    witness
        .commit(Durability::Synced)
        .expect("the refused one does not count");
    assert!(engine.statistics().expect("statistics").conflicts >= 5);
}

/// Transactions of one group are validated against one another: of many that observed and changed one granule,
/// each commit sees the one before it.
pub fn guards_see_the_group_before_them(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    for round in 0..20u64 {
        let transactions: Vec<Box<dyn EngineTransaction>> = (0..8)
            .map(|number| {
                let mut transaction = engine.begin().expect("a transaction");
                transaction.guard(Granule(7), GuardMode::Write);
                transaction
                    .put(&[number], &round.to_be_bytes())
                    .expect("a put");
                transaction
            })
            .collect();
        let committed = thread::scope(|scope| {
            let threads: Vec<_> = transactions
                .into_iter()
                .map(|transaction| scope.spawn(|| transaction.commit(Durability::Synced).is_ok()))
                .collect();
            threads
                .into_iter()
                .filter(|_| true)
                .map(|thread| thread.join().expect("no panic"))
                .filter(|&passed| passed)
                .count()
        });
        assert_eq!(committed, 1, "in round {round}");
    }
    assert_eq!(engine.version(), 20);
}

/// Counters that several threads increment, each in a transaction that is retried on conflict.
pub fn concurrent_counters(make: Make) {
    const THREADS: u64 = 4;
    const RAISES: u64 = 60;
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    let retries = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, retries) = (&engine, &retries);
            scope.spawn(move || {
                for raise in 0..RAISES {
                    let counter = (thread + raise) % 3;
                    while let Err(error) = try_raise(&**engine, counter) {
                        assert!(matches!(error, StorageError::Conflict { .. }), "{error}");
                        retries.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let total: u64 = (0..3)
        .map(|counter| read_counter(&*engine.snapshot().expect("a snapshot"), counter))
        .sum();
    assert_eq!(total, THREADS * RAISES);
    assert_eq!(engine.version(), THREADS * RAISES);
    let statistics = engine.statistics().expect("statistics");
    assert_eq!(
        (statistics.commits, statistics.conflicts),
        (THREADS * RAISES, retries.into_inner())
    );
}

fn read_counter(read: &(impl Read + ?Sized), counter: u64) -> u64 {
    let value = read.get(&counter.to_be_bytes()).expect("a get");
    value.map_or(0, |value| {
        u64::from_be_bytes(value.try_into().expect("eight bytes"))
    })
}

fn try_raise(engine: &dyn Engine, counter: u64) -> Result<u64, StorageError> {
    let mut transaction = engine.begin()?;
    transaction.guard(Granule(u128::from(counter)), GuardMode::Write);
    let value = read_counter(&*transaction, counter) + 1;
    transaction.put(&counter.to_be_bytes(), &value.to_be_bytes())?;
    transaction.commit(Durability::Buffered)
}

/// A thread that sleeps until its waker is called.
struct Sleeper(thread::Thread);

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A waker that commits.
struct Committer {
    engine: Arc<dyn Engine>,
    done: mpsc::Sender<u64>,
}

impl Wake for Committer {
    fn wake(self: Arc<Self>) {
        let version = put(&*self.engine, b"woken", b"there");
        self.done.send(version).expect("the test waits");
    }
}

/// A waker that panics.
struct Failing;

impl Wake for Failing {
    fn wake(self: Arc<Self>) {
        panic!("a waker of this test fails");
    }
}

/// A waker that waits for another commit.
struct Forgetting(Mutex<Option<Box<dyn EngineCommit>>>);

impl Wake for Forgetting {
    fn wake(self: Arc<Self>) {
        if let Some(commit) = self.0.lock().take() {
            commit.wait().expect("no conflict");
        }
    }
}

fn awaited(mut commit: Box<dyn EngineCommit>) -> Result<u64, StorageError> {
    let waker = Waker::from(Arc::new(Sleeper(thread::current())));
    loop {
        match commit.poll(&waker) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park(),
        }
    }
}

/// Asynchronous commits: one thread has many under way, concurrently with threads that wait for theirs. They
/// complete whether they are polled, awaited or dropped, and those that are queued when the engine is dropped
/// are committed.
pub fn started_commits_end(make: Make) {
    const KEY_COUNT: u64 = 200;
    let mut subject = make(SubjectOptions::default());
    let engine = subject.engine();
    let start = |key: u64, granule: u64| {
        let mut transaction = engine.begin().expect("a transaction");
        transaction.guard(Granule(u128::from(granule)), GuardMode::Write);
        transaction
            .put(&key.to_be_bytes(), b"there")
            .expect("a put");
        transaction.start_commit(Durability::Synced, Box::new(()))
    };
    let empty = engine.begin().expect("a transaction");
    let version =
        awaited(empty.start_commit(Durability::Synced, Box::new(()))).expect("no conflict");
    assert_eq!(version, 0, "nothing was written");
    thread::scope(|scope| {
        let waiting = || {
            (0..KEY_COUNT).for_each(|key| {
                put(&*engine, &key.to_le_bytes(), b"x");
            })
        };
        let threads = [scope.spawn(waiting), scope.spawn(waiting)];
        let mut versions: Vec<u64> = (0..KEY_COUNT)
            .map(|key| start(key, key))
            .collect::<Vec<_>>()
            .into_iter()
            .enumerate()
            .map(|(at, commit)| match at % 2 {
                0 => awaited(commit),
                _ => commit.wait(),
            })
            .map(|outcome| outcome.expect("no conflict"))
            .collect();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(
            versions.len() as u64,
            KEY_COUNT,
            "the versions are distinct"
        );
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
    assert_eq!(engine.version(), 3 * KEY_COUNT);

    let granule = u64::MAX;
    let of_one_state: Vec<_> = (0..3)
        .map(|key| {
            let mut transaction = engine.begin().expect("a transaction");
            transaction.guard(Granule(u128::from(granule)), GuardMode::Write);
            transaction.put(&[key], b"one of three").expect("a put");
            transaction
        })
        .collect();
    let outcomes: Vec<_> = of_one_state
        .into_iter()
        .map(|transaction| transaction.start_commit(Durability::Synced, Box::new(())))
        .collect();
    let won = outcomes
        .into_iter()
        .map(awaited)
        .filter(|outcome| match outcome {
            Ok(_) => true,
            Err(error) => {
                assert!(matches!(error, StorageError::Conflict { .. }), "{error}");
                false
            }
        });
    assert_eq!(won.count(), 1);

    let (done, over) = mpsc::channel();
    let mut first = start(KEY_COUNT, KEY_COUNT);
    let committing = Committer {
        engine: engine.clone(),
        done,
    };
    let waker = Waker::from(Arc::new(committing));
    match first.poll(&waker) {
        Poll::Ready(outcome) => drop(outcome.expect("no conflict")),
        Poll::Pending => drop(over.recv().expect("a waker may commit")),
    }
    drop((first, waker));

    // Wakers that panic or block do not delay other commits.
    let mut failing = start(KEY_COUNT, KEY_COUNT + 1);
    drop(failing.poll(&Waker::from(Arc::new(Failing))));
    let later = start(KEY_COUNT, KEY_COUNT + 2);
    let waker = Waker::from(Arc::new(Forgetting(Mutex::new(Some(later)))));
    let mut earlier = start(KEY_COUNT, KEY_COUNT + 3);
    drop(earlier.poll(&waker));
    drop((failing, earlier));
    awaited(start(KEY_COUNT, KEY_COUNT + 4)).expect("no conflict");
    let commits = engine.version();

    let (during, over) = mpsc::channel::<()>();
    let mut transaction = engine.begin().expect("a transaction");
    transaction
        .put(&KEY_COUNT.to_be_bytes(), b"there")
        .expect("a put");
    drop(transaction.start_commit(Durability::Synced, Box::new(during)));
    assert!(over.recv().is_err(), "`during` is dropped at the end");
    drop(engine);
    subject.reopen();
    let engine = subject.engine();
    assert_eq!(engine.version(), commits + 1, "a dropped commit took place");
    assert!(get(&*engine, &KEY_COUNT.to_be_bytes()).is_some());
}

/// Snapshots on other threads never change and never see half a commit while transactions run.
pub fn snapshots_stay_while_others_write(make: Make) {
    const KEYS: u16 = 50;
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    let stop = AtomicBool::new(false);
    let first = engine.snapshot().expect("a snapshot");
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|number| {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || {
                    let mut seen = 0;
                    let mut held = Vec::new();
                    while !stop.load(Ordering::Relaxed) || seen < 5 {
                        let snapshot = engine.snapshot().expect("a snapshot");
                        check_whole(&*snapshot, KEYS);
                        if seen % 8 == number {
                            held.push(snapshot);
                        }
                        seen += 1;
                    }
                    held.iter()
                        .for_each(|snapshot| check_whole(&**snapshot, KEYS));
                    seen
                })
            })
            .collect();
        for _ in 0..60 {
            let mut transaction = engine.begin().expect("a transaction");
            let next = (transaction.version() + 1).to_be_bytes();
            for key in 0..KEYS {
                transaction.put(&key.to_be_bytes(), &next).expect("a put");
            }
            transaction.commit(Durability::Buffered).expect("a commit");
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("no panic") >= 5);
        }
    });
    assert_eq!(
        scan(&*first, ALL, Order::Ascending, 10),
        [],
        "the first snapshot is still empty"
    );
    let kept: Arc<dyn crate::Snapshot> = engine.snapshot().expect("a snapshot");
    let moved = kept.clone();
    let version = thread::spawn(move || {
        check_whole(&*moved, KEYS);
        moved.version()
    });
    assert_eq!(version.join().expect("no panic"), 60);
    put(&*engine, b"later", b"value");
    assert_eq!(kept.get(b"later").expect("a get"), None);
}

/// Every key holds the snapshot's version.
fn check_whole(snapshot: &dyn crate::Snapshot, keys: u16) {
    let pairs = scan(snapshot, ALL, Order::Descending, 7);
    let expected = if snapshot.version() == 0 {
        0
    } else {
        keys as usize
    };
    assert_eq!(pairs.len(), expected, "at version {}", snapshot.version());
    for (_, value) in pairs {
        assert_eq!(
            u64::from_be_bytes(value.try_into().expect("eight bytes")),
            snapshot.version()
        );
    }
}
