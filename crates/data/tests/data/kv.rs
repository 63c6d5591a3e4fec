//! Buckets: content, expiry, durability.

mod conflicts;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use isomer_data::{
    Access, BucketKind, BucketOptions, Change, ChangeSet, Clock, Content, DataError, DataStore,
    DataStoreOptions, ErrorKind, Expiry, KeyRange, KvChangeKind, MAX_BUCKET_KEY_BYTES,
    MAX_BUCKET_VALUE_BYTES, MAX_PAIR_PART_BYTES, Order, Page, PageLimit, Transaction, WatchScope,
};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::Value;

use crate::common::{engine_at, int, list, memory, nested, second_process::needs_alone, text};

const MULTI: BucketOptions = BucketOptions::new(BucketKind::Multi, false);
const REVERSIBLE: BucketOptions = BucketOptions::new(BucketKind::Map, true);
const ALL: KeyRange<'static> = KeyRange {
    start: b"",
    end: None,
};

/// A clock that a test sets.
#[derive(Debug, Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn with_clock() -> (DataStore, Arc<TestClock>) {
    let clock = Arc::new(TestClock::default());
    clock.0.store(1_000_000, Ordering::SeqCst);
    let mut options = DataStoreOptions::default();
    options.clock = clock.clone();
    (
        DataStore::open(Arc::new(MemoryEngine::new()), options).unwrap(),
        clock,
    )
}

fn write<T>(
    store: &DataStore,
    run: impl FnOnce(&mut Transaction) -> Result<T, DataError>,
) -> Result<T, DataError> {
    let mut tx = store.begin(Access::Write)?;
    let answer = run(&mut tx)?;
    tx.commit()?;
    Ok(answer)
}

fn read(store: &DataStore) -> Transaction {
    store.begin(Access::Read).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, DataError>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// All pairs of a range, in pages.
fn scan(
    tx: &Transaction,
    bucket: &str,
    range: KeyRange<'_>,
    order: Order,
    keys: usize,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let (mut pairs, mut page, mut after) = (Vec::new(), Page::new(), None);
    loop {
        let limit = PageLimit {
            keys,
            bytes: 1 << 20,
        };
        after = tx
            .kv()
            .scan(bucket, range, order, limit, after.as_ref(), &mut page)
            .unwrap();
        assert!(page.len() <= keys);
        pairs.extend(
            page.iter()
                .map(|(key, value)| (key.to_vec(), value.to_vec())),
        );
        if after.is_none() {
            break;
        }
    }
    // A visit sees the same, and no more than it requests.
    for wanted in [usize::MAX, keys] {
        let mut seen = 0;
        tx.kv()
            .each(bucket, range, order, &mut |key, value| {
                assert_eq!((key, value), (&pairs[seen].0[..], &pairs[seen].1[..]));
                seen += 1;
                if seen == wanted {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .unwrap();
        assert_eq!(seen, pairs.len().min(wanted));
    }
    pairs
}

fn keys(tx: &Transaction, bucket: &str, range: KeyRange<'_>, order: Order) -> Vec<String> {
    let pairs = scan(tx, bucket, range, order, 3);
    pairs
        .into_iter()
        .map(|(key, _)| String::from_utf8(key).unwrap())
        .collect()
}

fn owned(values: &[&str]) -> Vec<Vec<u8>> {
    values
        .iter()
        .map(|value| value.as_bytes().to_vec())
        .collect()
}

fn clean(store: &DataStore) {
    assert_eq!(store.check_buckets().unwrap(), Vec::<String>::new());
}

/// Values are put, read, replaced and deleted; a bucket exists from its first write on.
#[test]
fn values_come_and_go() {
    if needs_alone("it lists all buckets") {
        return;
    }
    let store = memory();
    assert_eq!(read(&store).kv().get("sessions", b"a").unwrap(), None);
    assert_eq!(read(&store).kv().list_buckets().unwrap(), []);
    write(&store, |tx| {
        tx.kv_mut().put("sessions", b"a", b"1")?;
        tx.kv_mut().put("sessions", b"b", b"")?;
        assert_eq!(tx.kv().get("sessions", b"a")?, Some(b"1".to_vec()));
        tx.kv_mut().put("sessions", b"a", b"2")?;
        tx.kv_mut().put("sessions", b"gone", b"x")?;
        tx.kv_mut().delete("sessions", b"gone")?;
        tx.kv_mut().delete("sessions", b"never there")?;
        tx.kv_mut().delete("no such bucket", b"a")
    })
    .unwrap();
    let tx = read(&store);
    assert_eq!(tx.kv().get("sessions", b"a").unwrap(), Some(b"2".to_vec()));
    assert_eq!(tx.kv().get("sessions", b"b").unwrap(), Some(Vec::new()));
    assert_eq!(tx.kv().get("sessions", b"gone").unwrap(), None);
    assert_eq!(tx.kv().get("other", b"a").unwrap(), None);
    let many = tx.kv().get_many("sessions", &[b"b", b"x", b"a"]).unwrap();
    assert_eq!(many, [Some(Vec::new()), None, Some(b"2".to_vec())]);
    assert_eq!(tx.kv().get_many("other", &[b"b"]).unwrap(), [None]);
    assert_eq!(
        tx.kv().list_buckets().unwrap(),
        [("sessions".into(), BucketOptions::default())]
    );
    let mut tx = read(&store);
    assert_eq!(
        kind(tx.kv_mut().put("sessions", b"a", b"3")),
        ErrorKind::Denied
    );
    assert_eq!(
        kind(tx.kv_mut().delete("sessions", b"a")),
        ErrorKind::Denied
    );
    clean(&store);
}

/// Buckets are created once, listed, dropped as a whole, and created again.
#[test]
fn buckets_come_and_go() {
    if needs_alone("it lists all buckets") {
        return;
    }
    let store = memory();
    write(&store, |tx| {
        tx.kv_mut().create_bucket("tags", MULTI)?;
        tx.kv_mut().create_bucket("emails", REVERSIBLE)?;
        tx.kv_mut().put("plain", b"k", b"v")?;
        tx.kv_mut().put("emails", b"ada", b"ada@example.org")?;
        tx.kv_mut().add("tags", b"ada", b"x")?;
        tx.kv_mut().sequence_next("plain", "n").map(drop)
    })
    .unwrap();
    let listed = read(&store).kv().list_buckets().unwrap();
    let expected = [
        ("emails".into(), REVERSIBLE),
        ("plain".into(), BucketOptions::default()),
        ("tags".into(), MULTI),
    ];
    assert_eq!(listed, expected);
    assert_eq!(
        kind(write(&store, |tx| tx.kv_mut().create_bucket("tags", MULTI))),
        ErrorKind::Exists
    );
    assert_eq!(
        kind(write(&store, |tx| tx
            .kv_mut()
            .create_bucket("plain", BucketOptions::default()))),
        ErrorKind::Exists
    );
    assert_eq!(
        kind(write(&store, |tx| tx.kv_mut().create_bucket("", MULTI))),
        ErrorKind::Invalid
    );
    let both = BucketOptions::new(BucketKind::Multi, true);
    assert_eq!(
        kind(write(&store, |tx| tx.kv_mut().create_bucket("both", both))),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(write(&store, |tx| tx
            .kv_mut()
            .create_bucket(&"x".repeat(20_000), MULTI))),
        ErrorKind::Limit
    );
    assert_eq!(
        kind(write(&store, |tx| tx.kv_mut().put("tags", b"a", b"b"))),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(write(&store, |tx| tx.kv_mut().add("plain", b"a", b"b"))),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(write(&store, |tx| tx.kv_mut().add("missing", b"a", b"b"))),
        ErrorKind::Invalid
    );
    assert_eq!(
        kind(read(&store).kv().keys_of("plain", b"v", None, 9)),
        ErrorKind::Invalid
    );
    for bucket in ["tags", "emails", "plain"] {
        assert!(write(&store, |tx| tx.kv_mut().drop_bucket(bucket)).unwrap());
        assert!(!write(&store, |tx| tx.kv_mut().drop_bucket(bucket)).unwrap());
    }
    assert_eq!(read(&store).kv().list_buckets().unwrap(), []);
    assert_eq!(read(&store).kv().get("plain", b"k").unwrap(), None);
    write(&store, |tx| {
        tx.kv_mut().create_bucket("tags", REVERSIBLE)?;
        assert_eq!(tx.kv().get("tags", b"ada")?, None);
        tx.kv_mut().put("tags", b"k", b"v")?;
        assert_eq!(tx.kv().get("emails", b"ada")?, None);
        assert_eq!(
            tx.kv_mut().sequence_next("plain", "n")?,
            1,
            "it begins anew"
        );
        Ok(())
    })
    .unwrap();
    clean(&store);
}

/// Empty and too long keys and values are clear errors; the longest allowed ones come back.
#[test]
fn limits_are_errors() {
    if needs_alone("a transaction of a shared database writes at most 64 MiB") {
        return;
    }
    let store = memory();
    write(&store, |tx| {
        tx.kv_mut().create_bucket("multi", MULTI)?;
        tx.kv_mut().create_bucket("reversible", REVERSIBLE)
    })
    .unwrap();
    let (key, value) = (
        vec![0; MAX_BUCKET_KEY_BYTES],
        vec![7; MAX_BUCKET_VALUE_BYTES],
    );
    let part = vec![0; MAX_PAIR_PART_BYTES];
    write(&store, |tx| {
        tx.kv_mut().put("map", &key, b"long")?;
        tx.kv_mut().put("map", b"large", &value)?;
        tx.kv_mut().put("reversible", &part, &part)?;
        tx.kv_mut().add("multi", &part, &part)?;
        tx.kv_mut().add("multi", &part, b"")
    })
    .unwrap();
    let tx = read(&store);
    assert_eq!(tx.kv().get("map", &key).unwrap(), Some(b"long".to_vec()));
    assert!(tx.kv().get("map", b"large").unwrap() == Some(value.clone()));
    assert_eq!(
        tx.kv().keys_of("reversible", &part, None, 9).unwrap(),
        std::slice::from_ref(&part)
    );
    assert_eq!(
        tx.kv().values("multi", &part, None, 9).unwrap(),
        [Vec::new(), part.clone()]
    );
    let (long_key, long_value, long_part) = (
        [&key[..], b"x"].concat(),
        [&value[..], b"x"].concat(),
        [&part[..], b"x"].concat(),
    );
    let mut tx = store.begin(Access::Write).unwrap();
    let empty = tx.kv_mut().put("map", b"", b"v").unwrap_err();
    assert!(
        empty.kind() == ErrorKind::Invalid && empty.to_string().contains("at least one byte"),
        "{empty}"
    );
    let long = tx
        .kv_mut()
        .put("map", &long_key, b"v")
        .unwrap_err()
        .to_string();
    assert!(
        long.contains("32769 bytes") && long.contains("32768 bytes"),
        "{long}"
    );
    assert_eq!(
        kind(tx.kv_mut().put("map", b"k", &long_value)),
        ErrorKind::Limit
    );
    assert_eq!(
        kind(tx.kv_mut().put("reversible", &long_part, b"v")),
        ErrorKind::Limit
    );
    assert_eq!(
        kind(tx.kv_mut().put("reversible", b"k", &long_part)),
        ErrorKind::Limit
    );
    assert_eq!(
        kind(tx.kv_mut().add("multi", &long_part, b"v")),
        ErrorKind::Limit
    );
    assert_eq!(
        kind(tx.kv_mut().add("multi", b"k", &long_part)),
        ErrorKind::Limit
    );
    assert_eq!(
        kind(tx.kv_mut().add("multi", b"", b"v")),
        ErrorKind::Invalid
    );
    tx.kv_mut().put("map", b"after", b"v").unwrap();
    tx.commit().unwrap();
    assert_eq!(
        read(&store).kv().get("map", b"after").unwrap(),
        Some(b"v".to_vec())
    );
    clean(&store);
}

/// Scans work in both directions, by pages, within ranges, with own writes, and stay in their bucket.
#[test]
fn scans_go_both_ways() {
    let store = memory();
    write(&store, |tx| {
        for bucket in ["before", "b", "after"] {
            for key in ["a", "b", "c", "d", "e", "f", "g"] {
                tx.kv_mut().put(bucket, key.as_bytes(), bucket.as_bytes())?;
            }
        }
        tx.kv_mut().put("b", &[0xff, 0xff], b"last")?;
        tx.kv_mut().delete("b", &[0xff, 0xff])
    })
    .unwrap();
    let tx = read(&store);
    let between = |start: &'static [u8], end: &'static [u8]| KeyRange {
        start,
        end: Some(end),
    };
    assert_eq!(
        keys(&tx, "b", ALL, Order::Ascending),
        ["a", "b", "c", "d", "e", "f", "g"]
    );
    assert_eq!(
        keys(&tx, "b", ALL, Order::Descending),
        ["g", "f", "e", "d", "c", "b", "a"]
    );
    assert_eq!(
        keys(&tx, "b", between(b"b", b"e"), Order::Ascending),
        ["b", "c", "d"]
    );
    assert_eq!(
        keys(&tx, "b", between(b"b", b"e"), Order::Descending),
        ["d", "c", "b"]
    );
    assert_eq!(
        keys(
            &tx,
            "b",
            KeyRange {
                start: b"f",
                end: None
            },
            Order::Descending
        ),
        ["g", "f"]
    );
    assert_eq!(
        keys(&tx, "b", between(b"e", b"b"), Order::Ascending),
        Vec::<String>::new()
    );
    assert_eq!(
        keys(&tx, "none", ALL, Order::Ascending),
        Vec::<String>::new()
    );
    let mut tx = store.begin(Access::Write).unwrap();
    tx.kv_mut().put("b", b"bb", b"own").unwrap();
    tx.kv_mut().delete("b", b"d").unwrap();
    tx.kv_mut().delete_range("b", between(b"f", b"z")).unwrap();
    assert_eq!(
        keys(&tx, "b", ALL, Order::Ascending),
        ["a", "b", "bb", "c", "e"]
    );
    assert_eq!(
        keys(&tx, "b", ALL, Order::Descending),
        ["e", "c", "bb", "b", "a"]
    );
    tx.kv_mut().delete_range("b", ALL).unwrap();
    assert_eq!(keys(&tx, "b", ALL, Order::Descending), Vec::<String>::new());
    tx.commit().unwrap();
    assert_eq!(
        scan(&read(&store), "after", ALL, Order::Ascending, 100).len(),
        7
    );
    let mut page = Page::new();
    let limit = PageLimit {
        keys: 100,
        bytes: 1,
    };
    let next = read(&store)
        .kv()
        .scan("after", ALL, Order::Ascending, limit, None, &mut page)
        .unwrap();
    assert!(
        page.len() == 1 && next.is_some(),
        "a page holds at least one pair"
    );
}

/// A value is replaced only if it is the expected one.
#[test]
fn compare_and_set_compares() {
    let store = memory();
    let mut tx = store.begin(Access::Write).unwrap();
    assert!(
        tx.kv_mut()
            .compare_and_set("b", b"k", None, Some(b"1"))
            .unwrap()
    );
    assert!(
        !tx.kv_mut()
            .compare_and_set("b", b"k", None, Some(b"2"))
            .unwrap()
    );
    assert!(
        !tx.kv_mut()
            .compare_and_set("b", b"k", Some(b"0"), None)
            .unwrap()
    );
    assert!(
        tx.kv_mut()
            .compare_and_set("b", b"k", Some(b"1"), Some(b"2"))
            .unwrap()
    );
    assert!(
        tx.kv_mut()
            .compare_and_set("b", b"other", None, None)
            .unwrap()
    );
    assert_eq!(tx.kv().get("b", b"k").unwrap(), Some(b"2".to_vec()));
    assert!(
        tx.kv_mut()
            .compare_and_set("b", b"k", Some(b"2"), None)
            .unwrap()
    );
    assert_eq!(tx.kv().get("b", b"k").unwrap(), None);
    tx.commit().unwrap();
    // Of several that compare at once, one sets.
    let winners: Vec<bool> = (0..4u8)
        .map(|number| {
            let mut tx = store.begin(Access::Write).unwrap();
            assert!(
                tx.kv_mut()
                    .compare_and_set("b", b"lock", None, Some(&[number]))
                    .unwrap()
            );
            tx
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|tx| tx.commit().is_ok())
        .collect();
    assert_eq!(winners, [true, false, false, false]);
}

/// An expired entry is invisible for every read, from that millisecond on; a sweep deletes it, and an entry that was
/// put again stays.
#[test]
fn entries_expire() {
    let (store, clock) = with_clock();
    let at = |ms: u64| clock.0.store(ms, Ordering::SeqCst);
    write(&store, |tx| {
        tx.kv_mut().create_bucket("r", REVERSIBLE)?;
        for bucket in ["b", "r"] {
            tx.kv_mut()
                .put_with(bucket, b"soon", b"v", Expiry::After(500))?;
            tx.kv_mut()
                .put_with(bucket, b"later", b"v", Expiry::At(1_002_000))?;
            tx.kv_mut()
                .put_with(bucket, b"renewed", b"v", Expiry::After(500))?;
            tx.kv_mut().put(bucket, b"never", b"v")?;
            tx.kv_mut()
                .put_with(bucket, b"past", b"v", Expiry::At(999_999))?;
            assert_eq!(tx.kv().get(bucket, b"past")?, None, "invisible at once");
        }
        Ok(())
    })
    .unwrap();
    let long_running = read(&store);
    assert_eq!(
        long_running.kv().get("b", b"soon").unwrap(),
        Some(b"v".to_vec())
    );
    write(&store, |tx| {
        for bucket in ["b", "r"] {
            assert!(
                tx.kv_mut()
                    .expire(bucket, b"renewed", Expiry::After(10_000))?
            );
            assert!(!tx.kv_mut().expire(bucket, b"past", Expiry::Never)?);
            assert_eq!(
                tx.kv().expiry(bucket, b"soon")?,
                Some(Expiry::At(1_000_500))
            );
            assert_eq!(tx.kv().expiry(bucket, b"never")?, Some(Expiry::Never));
            assert_eq!(tx.kv().expiry(bucket, b"past")?, None);
        }
        Ok(())
    })
    .unwrap();
    at(1_000_499);
    assert_eq!(
        keys(&read(&store), "b", ALL, Order::Ascending),
        ["later", "never", "renewed", "soon"]
    );
    at(1_000_500);
    let tx = read(&store);
    for bucket in ["b", "r"] {
        assert_eq!(tx.kv().get(bucket, b"soon").unwrap(), None);
        assert_eq!(
            tx.kv().get_many(bucket, &[b"soon", b"never"]).unwrap(),
            [None, Some(b"v".to_vec())]
        );
        assert_eq!(
            keys(&tx, bucket, ALL, Order::Descending),
            ["renewed", "never", "later"]
        );
    }
    assert_eq!(
        tx.kv().keys_of("r", b"v", None, 9).unwrap(),
        owned(&["later", "never", "renewed"])
    );
    assert_eq!(
        tx.kv().keys_of("r", b"v", None, 2).unwrap(),
        owned(&["later", "never"])
    );
    assert_eq!(
        long_running.kv().get("b", b"soon").unwrap(),
        Some(b"v".to_vec()),
        "one present for a transaction"
    );
    clean(&store);
    // Six expiry entries are due, two of them outdated.
    assert_eq!(store.sweep_expired(1).unwrap(), 1);
    assert_eq!(store.sweep_expired(100).unwrap(), 5);
    assert_eq!(store.sweep_expired(100).unwrap(), 0);
    clean(&store);
    assert_eq!(
        read(&store).kv().get("b", b"renewed").unwrap(),
        Some(b"v".to_vec())
    );
    // An expired entry that is put again without expiry stays, whatever its earlier expiry entries say.
    at(1_002_500);
    write(&store, |tx| {
        tx.kv_mut().put("b", b"later", b"again")?;
        tx.kv_mut().put("r", b"later", b"again")
    })
    .unwrap();
    assert_eq!(
        read(&store).kv().keys_of("r", b"v", None, 9).unwrap(),
        owned(&["never", "renewed"])
    );
    assert_eq!(store.sweep_expired(100).unwrap(), 2);
    clean(&store);
    assert_eq!(
        keys(&read(&store), "r", ALL, Order::Ascending),
        ["later", "never", "renewed"]
    );
    // Setting the clock back does not restore swept entries, and shows those that were not swept.
    at(0);
    assert_eq!(read(&store).kv().get("b", b"soon").unwrap(), None);
    at(u64::MAX);
    assert_eq!(
        keys(&read(&store), "b", ALL, Order::Ascending),
        ["later", "never"]
    );
    assert_eq!(store.sweep_expired(u64::MAX).unwrap(), 2);
    // Expiry entries of a dropped bucket are deleted, and do not affect the next one of that name.
    write(&store, |tx| {
        tx.kv_mut().put_with("b", b"x", b"old", Expiry::At(5))
    })
    .unwrap();
    write(&store, |tx| tx.kv_mut().drop_bucket("b")).unwrap();
    write(&store, |tx| tx.kv_mut().put("b", b"x", b"new")).unwrap();
    assert_eq!(store.sweep_expired(100).unwrap(), 1);
    assert_eq!(
        read(&store).kv().get("b", b"x").unwrap(),
        Some(b"new".to_vec())
    );
    clean(&store);
}

/// A sweep conflicts with concurrent puts, and with no reader.
#[test]
fn sweeping_conflicts_with_puts_only() {
    let (store, clock) = with_clock();
    write(&store, |tx| {
        (0..1000u32).try_for_each(|key| {
            tx.kv_mut()
                .put_with("b", &key.to_be_bytes(), b"v", Expiry::After(1))
        })
    })
    .unwrap();
    clock.0.store(2_000_000, Ordering::SeqCst);
    let mut reader = store.begin(Access::Write).unwrap();
    assert_eq!(reader.kv().get("b", &5u32.to_be_bytes()).unwrap(), None);
    reader.kv_mut().put("log", b"seen", b"nothing").unwrap();
    let mut writer = store.begin(Access::Write).unwrap();
    writer
        .kv_mut()
        .put("b", &7u32.to_be_bytes(), b"anew")
        .unwrap();
    assert_eq!(store.sweep_expired(10_000).unwrap(), 1000);
    reader.commit().unwrap();
    writer.commit().unwrap();
    assert_eq!(
        scan(&read(&store), "b", ALL, Order::Ascending, 10),
        [(7u32.to_be_bytes().to_vec(), b"anew".to_vec())]
    );
    // The background thread does the same.
    write(&store, |tx| {
        tx.kv_mut().put_with("b", b"x", b"v", Expiry::At(1))
    })
    .unwrap();
    let before = store.engine().statistics().unwrap().key_count;
    let mut watch = store
        .watch("b", WatchScope::Key(b"x".to_vec()), None)
        .unwrap();
    let sweeper = store.start_sweeper(Duration::from_millis(5)).unwrap();
    let swept = watch.next_within(Duration::from_secs(60)).unwrap();
    let swept = swept.map(|change| change.kind);
    assert_eq!(swept, Some(KvChangeKind::Deleted { key: b"x".to_vec() }));
    drop(sweeper);
    assert_eq!(store.engine().statistics().unwrap().key_count, before - 2);
    clean(&store);
}

/// Several values a key: sorted, each once, with keys that are prefixes of one another kept apart.
#[test]
fn multi_value_buckets_keep_sorted_sets() {
    let store = memory();
    write(&store, |tx| {
        tx.kv_mut().create_bucket("m", MULTI)?;
        for (key, value) in [
            ("a", "3"),
            ("a", "1"),
            ("a", "2"),
            ("a", "1"),
            ("a\0", "x"),
            ("aa", "y"),
            ("b", ""),
        ] {
            tx.kv_mut().add("m", key.as_bytes(), value.as_bytes())?;
        }
        Ok(())
    })
    .unwrap();
    let tx = read(&store);
    assert_eq!(
        tx.kv().values("m", b"a", None, 9).unwrap(),
        owned(&["1", "2", "3"])
    );
    assert_eq!(
        tx.kv().values("m", b"a", Some(b"1"), 1).unwrap(),
        owned(&["2"])
    );
    assert_eq!(tx.kv().values("m", b"a\0", None, 9).unwrap(), owned(&["x"]));
    assert_eq!(tx.kv().values("m", b"none", None, 9).unwrap(), owned(&[]));
    assert_eq!(
        (
            tx.kv().count("m", b"a").unwrap(),
            tx.kv().count("m", b"b").unwrap()
        ),
        (3, 1)
    );
    assert!(tx.kv().has("m", b"a", b"2").unwrap() && !tx.kv().has("m", b"a", b"x").unwrap());
    let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    let mut all = vec![
        pair("a", "1"),
        pair("a", "2"),
        pair("a", "3"),
        pair("a\0", "x"),
        pair("aa", "y"),
        pair("b", ""),
    ];
    for page in 1..8 {
        assert_eq!(scan(&tx, "m", ALL, Order::Ascending, page), all);
        let range = KeyRange {
            start: b"a\0",
            end: Some(b"b"),
        };
        assert_eq!(scan(&tx, "m", range, Order::Ascending, page), all[3..5]);
        let range = KeyRange {
            start: b"a",
            end: Some(b"a\0"),
        };
        assert_eq!(scan(&tx, "m", range, Order::Ascending, page), all[..3]);
    }
    all.reverse();
    for page in 1..8 {
        assert_eq!(scan(&tx, "m", ALL, Order::Descending, page), all);
    }
    write(&store, |tx| {
        tx.kv_mut().remove("m", b"a", b"2")?;
        tx.kv_mut().remove("m", b"a", b"none")?;
        assert_eq!(tx.kv_mut().remove_all("m", b"aa")?, 1);
        (0..3000u32).try_for_each(|value| tx.kv_mut().add("m", b"many", &value.to_be_bytes()))?;
        assert_eq!(tx.kv().count("m", b"many")?, 3000);
        assert_eq!(tx.kv_mut().remove_all("m", b"many")?, 3000);
        Ok(())
    })
    .unwrap();
    assert_eq!(scan(&read(&store), "m", ALL, Order::Ascending, 9).len(), 4);
    clean(&store);
}

/// A reversible bucket finds the keys of a value through every change.
#[test]
fn reversible_buckets_lead_back() {
    let store = memory();
    write(&store, |tx| {
        tx.kv_mut().create_bucket("r", REVERSIBLE)?;
        for (key, value) in [("ada", "x"), ("bob", "y"), ("cid", "x"), ("dan", "x\0")] {
            tx.kv_mut().put("r", key.as_bytes(), value.as_bytes())?;
        }
        assert_eq!(tx.kv().keys_of("r", b"x", None, 9)?, owned(&["ada", "cid"]));
        Ok(())
    })
    .unwrap();
    write(&store, |tx| {
        tx.kv_mut().put("r", b"ada", b"y")?;
        tx.kv_mut().put("r", b"ada", b"y")?;
        tx.kv_mut().delete("r", b"cid")?;
        tx.kv_mut().put("r", b"eva", b"")
    })
    .unwrap();
    let tx = read(&store);
    assert_eq!(tx.kv().keys_of("r", b"x", None, 9).unwrap(), owned(&[]));
    assert_eq!(
        tx.kv().keys_of("r", b"y", None, 9).unwrap(),
        owned(&["ada", "bob"])
    );
    assert_eq!(
        tx.kv().keys_of("r", b"y", Some(b"ada"), 9).unwrap(),
        owned(&["bob"])
    );
    assert_eq!(
        tx.kv().keys_of("r", b"x\0", None, 9).unwrap(),
        owned(&["dan"])
    );
    assert_eq!(tx.kv().keys_of("r", b"", None, 9).unwrap(), owned(&["eva"]));
    assert_eq!(tx.kv().keys_of("none", b"", None, 9).unwrap(), owned(&[]));
    clean(&store);
    write(&store, |tx| {
        assert!(
            tx.kv_mut()
                .compare_and_set("r", b"bob", Some(b"y"), Some(b"z"))?
        );
        tx.kv_mut().delete_range(
            "r",
            KeyRange {
                start: b"d",
                end: None,
            },
        )
    })
    .unwrap();
    clean(&store);
    assert_eq!(
        keys(&read(&store), "r", ALL, Order::Ascending),
        ["ada", "bob"]
    );
    assert_eq!(
        read(&store).kv().keys_of("r", b"z", None, 9).unwrap(),
        owned(&["bob"])
    );
}

/// Gapless numbers are consecutive over commits and rollbacks; two concurrent transactions that take one conflict.
#[test]
fn gapless_sequences_have_no_gaps() {
    let store = memory();
    assert_eq!(read(&store).kv().sequence_last("b", "n").unwrap(), 0);
    for expected in 1..=3 {
        assert_eq!(
            write(&store, |tx| tx.kv_mut().sequence_next("b", "n")).unwrap(),
            expected
        );
        let mut tx = store.begin(Access::Write).unwrap();
        assert_eq!(tx.kv_mut().sequence_next("b", "n").unwrap(), expected + 1);
        assert_eq!(tx.kv_mut().sequence_next("b", "n").unwrap(), expected + 2);
        tx.rollback();
    }
    let mut one = store.begin(Access::Write).unwrap();
    let mut two = store.begin(Access::Write).unwrap();
    let mut other = store.begin(Access::Write).unwrap();
    assert_eq!(
        (
            one.kv_mut().sequence_next("b", "n").unwrap(),
            two.kv_mut().sequence_next("b", "n").unwrap()
        ),
        (4, 4)
    );
    assert_eq!(other.kv_mut().sequence_next("b", "m").unwrap(), 1);
    one.commit().unwrap();
    assert_eq!(kind(two.commit()), ErrorKind::Retry);
    other.commit().unwrap();
    assert_eq!(read(&store).kv().sequence_last("b", "n").unwrap(), 4);
    assert_eq!(
        keys(&read(&store), "b", ALL, Order::Ascending),
        Vec::<String>::new(),
        "sequences are no entries"
    );
}

/// Gapped numbers are unique over threads, restarts and a mix with gapless ones.
#[test]
fn gapped_sequences_never_repeat() {
    let folder = tempfile::tempdir().unwrap();
    let open = || DataStore::open(engine_at(folder.path()), DataStoreOptions::default()).unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let store = open();
        let taken: Vec<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..200)
                            .map(|_| store.sequence_take("b", "n").unwrap())
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| {
                    let taken = thread.join().unwrap();
                    assert!(taken.is_sorted(), "each taker sees them grow");
                    taken
                })
                .collect()
        });
        assert_eq!(taken.len(), 800);
        for number in taken {
            assert!(number > 0 && seen.insert(number), "{number} came twice");
        }
        let gapless = write(&store, |tx| tx.kv_mut().sequence_next("b", "n")).unwrap();
        assert!(seen.insert(gapless));
    }
    let store = open();
    write(&store, |tx| tx.kv_mut().drop_bucket("b")).unwrap();
    assert_eq!(
        store.sequence_take("b", "n").unwrap(),
        1,
        "a dropped bucket begins anew"
    );
}

/// Each change has its operation in the change stream; an undone statement does not.
#[test]
fn changes_are_in_the_stream() {
    let store = memory();
    let mut tx = store.begin(Access::Write).unwrap();
    tx.kv_mut().put("b", b"k", b"v").unwrap();
    let mark = tx.savepoint();
    tx.kv_mut().create_bucket("undone", MULTI).unwrap();
    tx.kv_mut().add("undone", b"k", b"v").unwrap();
    tx.rollback_to(mark).unwrap();
    assert_eq!(
        kind(tx.kv_mut().add("undone", b"k", b"v")),
        ErrorKind::Invalid,
        "the bucket is undone"
    );
    tx.kv_mut().create_bucket("m", MULTI).unwrap();
    tx.kv_mut().add("m", b"k", b"v").unwrap();
    tx.kv_mut().remove("m", b"k", b"w").unwrap();
    tx.kv_mut()
        .put_with("b", b"t", b"v", Expiry::At(77))
        .unwrap();
    tx.kv_mut().delete("b", b"k").unwrap();
    tx.kv_mut()
        .delete_range(
            "b",
            KeyRange {
                start: b"a",
                end: Some(b"c"),
            },
        )
        .unwrap();
    tx.kv_mut().sequence_next("b", "n").unwrap();
    tx.kv_mut().drop_bucket("m").unwrap();
    let version = tx.commit().unwrap();
    let entries = store
        .engine()
        .stream(version - 1, 1, 1 << 20, true)
        .unwrap();
    let (b, m) = (
        store.catalog().bucket_id("b").unwrap(),
        store.catalog().bucket_id("m").unwrap(),
    );
    assert_eq!(
        ChangeSet::decode(&entries[0].bytes).unwrap().changes,
        [
            Change::BucketCreated {
                bucket: b,
                multi: false,
                reversible: false
            },
            Change::KeyPut {
                bucket: b,
                key: b"k",
                value: b"v",
                content: Content::Bytes
            },
            Change::BucketCreated {
                bucket: m,
                multi: true,
                reversible: false
            },
            Change::ValueAdded {
                bucket: m,
                key: b"k",
                value: b"v"
            },
            Change::ValueRemoved {
                bucket: m,
                key: b"k",
                value: b"w"
            },
            Change::KeyPutUntil {
                bucket: b,
                key: b"t",
                value: b"v",
                content: Content::Bytes,
                expires_ms: 77
            },
            Change::KeyDeleted {
                bucket: b,
                key: b"k"
            },
            Change::KeysDeleted {
                bucket: b,
                start: b"a",
                end: Some(b"c")
            },
            Change::SequenceAdvanced {
                bucket: b,
                name: b"n",
                last: 1
            },
            Change::BucketDropped { bucket: m },
        ]
    );
}

/// Typed values keep their types; text and bytes are the same in both interfaces.
#[test]
fn typed_values_keep_their_types() {
    let store = memory();
    let values = [
        int(i64::MIN),
        Value::Float(1.0),
        Value::Float(f64::NAN),
        Value::Bool(false),
        text("text"),
        Value::Bytes((*b"\xff\0").into()),
        list(&[int(1), Value::Null, text("")]),
        nested(&[
            ("user", text("ada")),
            ("", nested(&[("a.b", Value::Float(f64::NEG_INFINITY))])),
        ]),
    ];
    write(&store, |tx| {
        for (number, value) in values.iter().enumerate() {
            tx.kv_mut()
                .put_value("b", &text(&format!("k{number}")), value, Expiry::Never)?;
        }
        tx.kv_mut().put("b", b"raw", b"bytes")
    })
    .unwrap();
    let tx = read(&store);
    for (number, value) in values.iter().enumerate() {
        assert_eq!(
            &tx.kv()
                .get_value("b", &text(&format!("k{number}")))
                .unwrap(),
            value
        );
    }
    assert_eq!(tx.kv().get("b", b"k4").unwrap(), Some(b"text".to_vec()));
    assert_eq!(
        tx.kv()
            .get_value("b", &Value::Bytes((*b"raw").into()))
            .unwrap(),
        Value::Bytes((*b"bytes").into())
    );
    assert_eq!(tx.kv().get_value("b", &text("none")).unwrap(), Value::Null);
    assert_eq!(kind(tx.kv().get_value("b", &int(1))), ErrorKind::Invalid);
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let limit = PageLimit {
            keys: 2,
            bytes: 1 << 20,
        };
        after = tx
            .kv()
            .scan_values(
                "b",
                ALL,
                Order::Descending,
                limit,
                after.as_ref(),
                &mut |key, value| found.push((key, value)),
            )
            .unwrap();
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 9);
    assert_eq!(found[0], (text("raw"), Value::Bytes((*b"bytes").into())));
    assert_eq!(found[8], (text("k0"), int(i64::MIN)));
    write(&store, |tx| {
        tx.kv_mut()
            .put_value("b", &text("k0"), &Value::Null, Expiry::Never)
    })
    .unwrap();
    assert_eq!(read(&store).kv().get("b", b"k0").unwrap(), None);
}

/// Random changes of three buckets, with dropped transactions and reopening, give the same results as plain maps, and
/// everything derived matches its source.
#[test]
fn random_changes_match_plain_maps() {
    for (seed, durable) in [
        (1, false),
        (2, false),
        (3, false),
        (4, false),
        (5, true),
        (6, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock::default());
        let open = |engine: Arc<dyn Engine>| {
            let mut options = DataStoreOptions::default();
            options.clock = clock.clone();
            DataStore::open(engine, options).unwrap()
        };
        let on_disk = || engine_at(folder.path());
        let mut store = open(if durable {
            on_disk()
        } else {
            Arc::new(MemoryEngine::new())
        });
        write(&store, |tx| {
            tx.kv_mut().create_bucket("r", REVERSIBLE)?;
            tx.kv_mut().create_bucket("m", MULTI)
        })
        .unwrap();
        let mut random = Random(seed);
        let mut model = Model::default();
        for round in 0..150 {
            let mut tx = store.begin(Access::Write).unwrap();
            let before = model.clone();
            clock.0.fetch_add(random.below(4), Ordering::SeqCst);
            model.expire(clock.now_ms());
            for _ in 0..random.below(12) {
                model.act(&mut tx, &mut random, clock.now_ms());
            }
            model.compare(&tx, &mut random);
            if random.below(4) == 0 {
                tx.rollback();
                model = before;
            } else {
                tx.commit_with(isomer_data::Durability::Buffered).unwrap();
            }
            model.expire(clock.now_ms());
            model.compare(&read(&store), &mut random);
            if random.below(6) == 0 {
                store.sweep_expired(1 + random.below(50)).unwrap();
            }
            if round % 10 == 0 {
                clean(&store);
            }
            if durable && round % 30 == 29 {
                drop(store);
                store = open(on_disk());
            }
        }
        clean(&store);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn bytes(&mut self) -> Vec<u8> {
        (0..=self.below(2))
            .map(|_| [0, 1, b'a', 0xff][self.below(4) as usize])
            .collect()
    }
}

/// Two maps (plain `b`, reversible `r`) with times of expiry, and one sorted set of pairs (`m`).
#[derive(Clone, Default)]
struct Model {
    maps: [ModelMap; 2],
    pairs: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

/// Key to value and time of expiry.
type ModelMap = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

const MAPS: [&str; 2] = ["b", "r"];

impl Model {
    fn expire(&mut self, now: u64) {
        self.maps
            .iter_mut()
            .for_each(|map| map.retain(|_, (_, time)| time.is_none_or(|time| time > now)));
    }

    fn act(&mut self, tx: &mut Transaction, random: &mut Random, now: u64) {
        let which = random.below(2) as usize;
        let (bucket, map) = (MAPS[which], &mut self.maps[which]);
        let (key, value) = (random.bytes(), random.bytes());
        match random.below(12) {
            0..3 => {
                tx.kv_mut().put(bucket, &key, &value).unwrap();
                map.insert(key, (value, None));
            }
            3 | 4 => {
                let time = now + random.below(8);
                tx.kv_mut()
                    .put_with(bucket, &key, &value, Expiry::At(time))
                    .unwrap();
                map.insert(key, (value, Some(time)));
                self.expire(now);
            }
            5 | 6 => {
                tx.kv_mut().delete(bucket, &key).unwrap();
                map.remove(&key);
            }
            7 => {
                let end = value;
                tx.kv_mut()
                    .delete_range(
                        bucket,
                        KeyRange {
                            start: &key,
                            end: Some(&end),
                        },
                    )
                    .unwrap();
                map.retain(|stored, _| *stored < key || *stored >= end);
            }
            8 => {
                let found = map.contains_key(&key);
                assert_eq!(
                    tx.kv_mut().expire(bucket, &key, Expiry::After(5)).unwrap(),
                    found
                );
                if let Some((_, time)) = map.get_mut(&key) {
                    *time = Some(now + 5);
                }
            }
            9 | 10 => {
                tx.kv_mut().add("m", &key, &value).unwrap();
                self.pairs.insert((key, value));
            }
            _ => {
                tx.kv_mut().remove("m", &key, &value).unwrap();
                self.pairs.remove(&(key, value));
            }
        }
    }

    fn compare(&self, tx: &Transaction, random: &mut Random) {
        let order = if random.below(2) == 0 {
            Order::Ascending
        } else {
            Order::Descending
        };
        let (start, end) = (random.bytes(), random.bytes());
        let range = KeyRange {
            start: &start,
            end: (random.below(3) > 0).then_some(&end[..]),
        };
        let inside = |key: &[u8]| key >= range.start && range.end.is_none_or(|end| key < end);
        let ordered = |mut pairs: Vec<(Vec<u8>, Vec<u8>)>| {
            if order == Order::Descending {
                pairs.reverse();
            }
            pairs
        };
        let page = 1 + random.below(9) as usize;
        for (bucket, map) in MAPS.into_iter().zip(&self.maps) {
            let expected = map
                .iter()
                .filter(|(key, _)| inside(key))
                .map(|(key, (value, _))| (key.clone(), value.clone()));
            assert_eq!(
                scan(tx, bucket, range, order, page),
                ordered(expected.collect())
            );
            let key = random.bytes();
            assert_eq!(
                tx.kv().get(bucket, &key).unwrap(),
                map.get(&key).map(|(value, _)| value.clone())
            );
        }
        let expected = self.pairs.iter().filter(|(key, _)| inside(key)).cloned();
        assert_eq!(
            scan(tx, "m", range, order, page),
            ordered(expected.collect())
        );
        let (key, value) = (random.bytes(), random.bytes());
        let values: Vec<Vec<u8>> = self
            .pairs
            .iter()
            .filter(|pair| pair.0 == key)
            .map(|pair| pair.1.clone())
            .collect();
        assert_eq!(tx.kv().values("m", &key, None, 1000).unwrap(), values);
        let of_value: Vec<Vec<u8>> = self.maps[1]
            .iter()
            .filter(|(_, (stored, _))| *stored == value)
            .map(|(key, _)| key.clone())
            .collect();
        assert_eq!(tx.kv().keys_of("r", &value, None, 1000).unwrap(), of_value);
    }
}
