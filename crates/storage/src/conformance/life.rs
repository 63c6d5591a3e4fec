//! Change stream, durability, checkpoints, bulk ingestion, verification.

use super::subject::{ALL, Make, Subject, SubjectOptions, get, put, scan};
use crate::{Durability, Engine, Granule, GuardMode, Order, StorageError, StreamEntry};

/// An input item of an ingestion.
type Pair = Result<(Vec<u8>, Vec<u8>), StorageError>;

/// Commits a pair with a stream entry.
fn put_streamed(engine: &dyn Engine, key: &[u8], bytes: &[u8], durability: Durability) -> u64 {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(key, bytes).expect("a put");
    transaction.append_stream(bytes);
    transaction.commit(durability).expect("a commit")
}

/// Stream entries come in commit order, each once, until they are trimmed.
pub fn stream_keeps_order_and_is_trimmed(make: Make) {
    let mut subject = make(SubjectOptions::default());
    let engine = subject.engine();
    for number in 0..20u8 {
        let version = put_streamed(&*engine, &[number], &[number; 10], Durability::Synced);
        assert_eq!(version, u64::from(number) * 2 + 1);
        put(&*engine, b"silent", &[number]);
    }
    let entry = |number: u8| StreamEntry {
        version: u64::from(number) * 2 + 1,
        bytes: vec![number; 10],
    };
    let all: Vec<StreamEntry> = (0..20).map(entry).collect();
    assert_eq!(
        engine.stream(0, 100, 1 << 20, false).expect("the stream"),
        all
    );
    assert_eq!(
        engine.stream(0, 100, 1 << 20, true).expect("the stream"),
        all
    );
    assert_eq!(
        engine
            .stream(all[4].version, 3, 1 << 20, false)
            .expect("the stream"),
        all[5..8]
    );
    assert_eq!(
        engine
            .stream(all[4].version - 1, 1, 0, false)
            .expect("the stream"),
        all[4..5],
        "at least one"
    );
    assert_eq!(
        engine.stream(0, 100, 25, false).expect("the stream"),
        all[..3],
        "about 25 bytes"
    );
    assert_eq!(
        engine
            .stream(all[19].version, 100, 100, false)
            .expect("the stream"),
        []
    );
    assert_eq!(
        engine
            .stream(u64::MAX, 100, 100, false)
            .expect("the stream"),
        []
    );
    assert_eq!(engine.stream_trimmed().expect("a version"), 0);
    engine.trim_stream(all[9].version).expect("trimmed");
    assert_eq!(engine.stream_trimmed().expect("a version"), all[9].version);
    engine.trim_stream(all[3].version).expect("was trimmed");
    assert_eq!(
        engine.stream(0, 100, 1 << 20, false).expect("the stream"),
        all[10..]
    );
    assert_eq!(engine.statistics().expect("statistics").stream_entries, 10);
    drop(engine);
    subject.reopen();
    let engine = subject.engine();
    assert_eq!(
        engine.stream(0, 100, 1 << 20, true).expect("the stream"),
        all[10..]
    );
    assert_eq!(engine.stream_trimmed().expect("a version"), all[9].version);
    // A transaction may have a stream entry and no other write.
    let mut transaction = engine.begin().expect("a transaction");
    transaction.append_stream(b"only");
    transaction.append_stream(b" words");
    let version = transaction.commit(Durability::Synced).expect("a commit");
    let last = engine
        .stream(all[19].version, 9, 99, false)
        .expect("the stream");
    assert_eq!(
        last,
        [StreamEntry {
            version,
            bytes: b"only words".to_vec()
        }]
    );
    engine.trim_stream(u64::MAX).expect("trimmed");
    assert_eq!(engine.stream(0, 100, 100, false).expect("the stream"), []);
    assert_eq!(engine.stream_trimmed().expect("a version"), version);
    assert_eq!(engine.version(), version);
}

/// Synced commits exist after reopening, with the version and the statistics.
pub fn commits_survive_reopening(make: Make) {
    let mut subject = make(SubjectOptions::default());
    let durable = subject.engine().capabilities().durable;
    for round in 1..=4u8 {
        let engine = subject.engine();
        for number in 0..50u8 {
            put(&*engine, &[round, number], &[number]);
        }
        let mut transaction = engine.begin().expect("a transaction");
        transaction
            .delete_range(super::between(&[round, 10], &[round, 20]))
            .expect("a delete");
        transaction.commit(Durability::Synced).expect("a commit");
        let before = scan(
            &*engine.snapshot().expect("a snapshot"),
            ALL,
            Order::Ascending,
            100,
        );
        let version = engine.version();
        assert_eq!(
            (before.len(), version),
            (usize::from(round) * 40, u64::from(round) * 51)
        );
        drop(engine);
        subject.reopen();
        let engine = subject.engine();
        assert_eq!(engine.version(), version);
        assert_eq!(
            scan(
                &*engine.snapshot().expect("a snapshot"),
                ALL,
                Order::Ascending,
                100
            ),
            before
        );
        let statistics = engine.statistics().expect("statistics");
        assert_eq!(statistics.key_count, before.len() as u64);
        assert!(statistics.stored_bytes > 0);
        assert!(!durable || statistics.commits == 0, "counted since opening");
    }
}

/// Buffered commits are visible at once, durable after a sync or a synced commit, and exist after closing.
pub fn buffered_commits_become_durable(make: Make) {
    let mut subject = make(SubjectOptions::default());
    let durable = subject.engine().capabilities().durable;
    {
        let engine = subject.engine();
        for number in 0..10u8 {
            put_streamed(&*engine, &[number], &[number], Durability::Buffered);
        }
        assert_eq!(engine.version(), 10);
        assert_eq!(get(&*engine, &[9]), Some(vec![9]));
        assert_eq!(
            engine.stream(0, 100, 100, false).expect("the stream").len(),
            10
        );
        let kept = engine.stream(0, 100, 100, true).expect("the stream").len();
        assert_eq!(kept, if durable { 0 } else { 10 });
        engine.sync().expect("a sync");
        assert_eq!(
            engine.stream(0, 100, 100, true).expect("the stream").len(),
            10
        );
        put_streamed(&*engine, &[10], &[10], Durability::Buffered);
        put_streamed(&*engine, &[11], &[11], Durability::Synced);
        assert_eq!(
            engine.stream(0, 100, 100, true).expect("the stream").len(),
            12
        );
        put_streamed(&*engine, &[12], &[12], Durability::Buffered);
    }
    subject.reopen();
    let engine = subject.engine();
    assert_eq!(engine.version(), 13, "closing keeps what was buffered");
    assert_eq!(get(&*engine, &[12]), Some(vec![12]));
    assert_eq!(put(&*engine, b"next", b"value"), 14);
}

/// A checkpoint of an open database is an independent database at one version; an engine without files returns
/// an error.
pub fn checkpoint_is_a_database_of_its_own(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    for number in 0..200u8 {
        put_streamed(
            &*engine,
            &[number],
            &vec![number; 100 * usize::from(number)],
            Durability::Buffered,
        );
    }
    let folder = tempfile_dir();
    let target = folder.join("copy");
    if !engine.capabilities().durable {
        let refused = engine.checkpoint(&target).expect_err("no files");
        assert!(refused.to_string().contains("export"), "{refused}");
        assert!(!target.exists());
        drop(std::fs::remove_dir_all(&folder));
        return;
    }
    engine.checkpoint(&target).expect("a checkpoint");
    assert!(target.read_dir().expect("a folder").next().is_some());
    let again = engine
        .checkpoint(&target)
        .expect_err("there is one already");
    assert!(matches!(again, StorageError::Invalid(_)), "{again}");
    put(&*engine, b"later", b"value");
    drop(std::fs::remove_dir_all(&folder));
}

/// A new folder, used by one test.
fn tempfile_dir() -> std::path::PathBuf {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!(
        "isomer-conformance-{}-{number}",
        std::process::id()
    ));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Bulk ingestion is one commit among existing keys, all or nothing, and conflicts with transactions that
/// observed an earlier version.
pub fn ingest_is_one_commit(make: Make) {
    let mut subject = make(SubjectOptions::default());
    let engine = subject.engine();
    for number in (0..3000u32).step_by(300) {
        put(&*engine, &number.to_be_bytes(), b"stored");
    }
    let before = engine.version();
    let fresh = |from: u32, to: u32| {
        (from..to)
            .filter(|number| number % 300 != 0)
            .map(|number| Ok((number.to_be_bytes().to_vec(), vec![7; 40])))
    };
    let mut observer = engine.begin().expect("a transaction");
    observer.guard(Granule(1), GuardMode::Read);
    observer.put(b"observer", b"value").expect("a put");
    let mut adder = engine.begin().expect("a transaction");
    adder.guard(Granule(1), GuardMode::Add);
    adder.put(b"adder", b"value").expect("a put");

    // Refused completely: an order that does not ascend, a duplicate key, an existing key, an error of the
    // source.
    let extra = |key: u32| -> Pair { Ok((key.to_be_bytes().to_vec(), vec![1])) };
    let bad: [Pair; 5] = [
        extra(500),
        extra(999),
        extra(1200),
        Ok((Vec::new(), vec![1])),
        Err(StorageError::Unavailable("the source ended".to_owned())),
    ];
    for bad in bad {
        let expected = bad
            .as_ref()
            .err()
            .map_or("", |_| "the source ended")
            .to_owned();
        let mut pairs = fresh(1, 1000)
            .chain(std::iter::once(bad))
            .chain(extra_range(2001..2002));
        let refused = engine
            .ingest(&mut pairs, Some(b"never"))
            .expect_err("refused");
        assert!(refused.to_string().contains(&expected), "{refused}");
        assert_eq!(
            (
                engine.version(),
                engine.statistics().expect("statistics").key_count
            ),
            (before, 10)
        );
        assert_eq!(engine.stream(0, 10, 1000, false).expect("the stream"), []);
    }

    // A refused ingestion does not make other transactions conflict.
    let mut passing = engine.begin().expect("a transaction");
    passing.guard(Granule(2), GuardMode::Write);
    passing.put(b"passing", b"value").expect("a put");
    let before = passing
        .commit(Durability::Synced)
        .expect("nothing happened");

    let version = engine
        .ingest(&mut fresh(1, 3000), Some(b"loaded"))
        .expect("ingested");
    assert_eq!(version, before + 1);
    assert!(matches!(
        observer.commit(Durability::Synced),
        Err(StorageError::Conflict { .. })
    ));
    adder.commit(Durability::Synced).expect("observed nothing");
    let entries = engine.stream(0, 10, 1000, true).expect("the stream");
    assert_eq!(
        entries,
        [StreamEntry {
            version,
            bytes: b"loaded".to_vec()
        }]
    );
    drop(engine);
    subject.reopen();
    check_ingested(&*subject);
}

fn extra_range(range: std::ops::Range<u32>) -> Vec<Pair> {
    range
        .map(|key| Ok((key.to_be_bytes().to_vec(), vec![1])))
        .collect()
}

fn check_ingested(subject: &dyn Subject) {
    let engine = subject.engine();
    let pairs = scan(
        &*engine.snapshot().expect("a snapshot"),
        super::between(&[0; 4], &[0, 1]),
        Order::Ascending,
        100,
    );
    assert_eq!(pairs.len(), 3000);
    for (number, (key, value)) in (0u32..).zip(pairs) {
        assert_eq!(key, number.to_be_bytes());
        assert_eq!(
            value,
            if number % 300 == 0 {
                b"stored".to_vec()
            } else {
                vec![7; 40]
            }
        );
    }
    assert_eq!(
        engine
            .ingest(&mut extra_range(4000..4001).into_iter(), None)
            .expect("one more"),
        engine.version()
    );
    assert_eq!(
        engine
            .ingest(&mut std::iter::empty(), None)
            .expect("nothing"),
        engine.version()
    );
}

/// Verification of an intact database finds nothing and reports its progress to the end.
pub fn verify_finds_nothing(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    for number in 0..50u8 {
        put_streamed(&*engine, &[number], &[number; 1000], Durability::Buffered);
    }
    let mut steps = Vec::new();
    let damage = engine
        .verify(&mut |done, total| steps.push((done, total)))
        .expect("verified");
    assert_eq!(damage, Vec::<String>::new());
    assert!(
        steps.is_sorted()
            && steps
                .last()
                .is_some_and(|(done, total)| done == total && *total > 0),
        "{steps:?}"
    );
    put(&*engine, b"after", b"value");
}
