//! Cursors, batches of reads and watching: against a model, inside transactions and concurrent with them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, ControlFlow},
    sync::mpsc,
    thread,
    time::Duration,
};

use isomer_data::{
    Access, BucketCursor, BucketKind, BucketOptions, DataError, DataStore, ErrorKind, Expiry,
    KeyRange, KvChangeKind, Transaction, WatchScope, decode_key, encode_key,
};
use isomer_value::Value;
use proptest::prelude::*;

use crate::common::{int, list, memory, text};

const MULTI: BucketOptions = BucketOptions::new(BucketKind::Multi, false);

fn write(store: &DataStore, run: impl FnOnce(&mut Transaction)) -> u64 {
    let mut tx = store.begin(Access::Write).unwrap();
    run(&mut tx);
    tx.commit().unwrap()
}

/// What a step does.
#[derive(Clone, Debug)]
enum Step {
    Next,
    Previous,
    Seek(Vec<u8>),
    Start,
    End,
    Put(Vec<u8>, u8),
    Delete(Vec<u8>),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(7), Just(255)], 1..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Next),
        4 => Just(Step::Previous),
        1 => key().prop_map(Step::Seek),
        1 => Just(Step::Start),
        1 => Just(Step::End),
        1 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        1 => key().prop_map(Step::Delete),
    ]
}

/// Pairs, and a gap between them: everything below `at` is in front of it.
struct Model {
    pairs: BTreeSet<(Vec<u8>, Vec<u8>)>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    /// The first pair that may follow, and whether it itself may.
    at: Bound<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn inside(&self) -> impl DoubleEndedIterator<Item = &(Vec<u8>, Vec<u8>)> {
        self.pairs
            .iter()
            .filter(|(key, _)| *key >= self.low && self.high.as_ref().is_none_or(|high| key < high))
    }

    fn is_behind(&self, pair: &(Vec<u8>, Vec<u8>)) -> bool {
        match &self.at {
            Bound::Included(at) => pair >= at,
            Bound::Excluded(at) => pair > at,
            Bound::Unbounded => false,
        }
    }

    fn next(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let found = self.inside().find(|pair| self.is_behind(pair)).cloned();
        self.at = found.clone().map_or(Bound::Unbounded, Bound::Excluded);
        found
    }

    fn previous(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        let found = self.inside().rfind(|pair| !self.is_behind(pair)).cloned();
        self.at = Bound::Included(found.clone().unwrap_or_default());
        found
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// A cursor moves as one over a sorted set does, own writes included, in buckets of both kinds.
    #[test]
    fn a_cursor_walks_as_the_model_does(
        multi: bool, stored in prop::collection::vec((key(), any::<u8>()), 0..40),
        range in prop::option::of((key(), prop::option::of(key()))),
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let store = memory();
        let mut model = Model {
            pairs: BTreeSet::new(),
            low: range.clone().map(|range| range.0).unwrap_or_default(),
            high: range.and_then(|range| range.1),
            at: Bound::Included(Default::default()),
        };
        let put = |tx: &mut Transaction, model: &mut Model, key: &[u8], value: u8| {
            if multi {
                tx.kv_mut().add("b", key, &[value]).unwrap();
            } else {
                tx.kv_mut().put("b", key, &[value]).unwrap();
                model.pairs.retain(|(other, _)| other != key);
            }
            model.pairs.insert((key.to_vec(), vec![value]));
        };
        let mut tx = store.begin(Access::Write).unwrap();
        if multi {
            tx.kv_mut().create_bucket("b", MULTI).unwrap();
        }
        for (key, value) in &stored {
            put(&mut tx, &mut model, key, *value);
        }
        tx.commit().unwrap();
        let mut tx = store.begin(Access::Write).unwrap();
        let mut cursor = BucketCursor::new("b", &model.low, model.high.as_deref());
        for step in steps {
            match step {
                Step::Next => {
                    // Where a put replaced the value at the gap, the key alone decides.
                    if !multi { forget_value(&mut model.at); }
                    prop_assert_eq!(cursor.next(&tx).unwrap(), model.next());
                }
                Step::Previous => {
                    if !multi { forget_value(&mut model.at); }
                    prop_assert_eq!(cursor.previous(&tx).unwrap(), model.previous());
                }
                Step::Seek(key) => {
                    cursor.seek(&key);
                    model.at = Bound::Included((key, Vec::new()));
                }
                Step::Start => {
                    cursor.to_start();
                    model.at = Bound::Included(Default::default());
                }
                Step::End => {
                    cursor.to_end();
                    model.at = Bound::Unbounded;
                }
                Step::Put(key, value) => put(&mut tx, &mut model, &key, value),
                Step::Delete(key) if multi => {
                    tx.kv_mut().remove_all("b", &key).unwrap();
                    model.pairs.retain(|(other, _)| *other != key);
                }
                Step::Delete(key) => {
                    tx.kv_mut().delete("b", &key).unwrap();
                    model.pairs.retain(|(other, _)| *other != key);
                }
            }
        }
    }
}

/// The gap behind or before a key, whatever its value is.
fn forget_value(at: &mut Bound<(Vec<u8>, Vec<u8>)>) {
    match at {
        Bound::Included((_, value)) => value.clear(),
        Bound::Excluded((_, value)) => *value = vec![255; 2],
        Bound::Unbounded => {}
    }
}

#[test]
fn a_cursor_of_a_reader_does_not_see_later_writes() {
    let store = memory();
    write(&store, |tx| {
        for number in 0..2000u32 {
            tx.kv_mut()
                .put("b", &encode_key(&("n", number)), b"")
                .unwrap();
        }
    });
    let tx = store.begin(Access::Read).unwrap();
    let mut cursor = BucketCursor::over_prefix("b", &encode_key(&"n"));
    let mut seen = Vec::new();
    while let Some((key, _)) = cursor.next(&tx).unwrap() {
        let (_, number) = decode_key::<(String, u32)>(&key).unwrap();
        if number % 500 == 0 {
            write(&store, |tx| {
                tx.kv_mut()
                    .delete("b", &encode_key(&("n", number + 1)))
                    .unwrap();
                tx.kv_mut()
                    .put("b", &encode_key(&("n", number + 3000)), b"")
                    .unwrap();
            });
        }
        seen.push(number);
    }
    assert!(seen.into_iter().eq(0..2000));
    assert_eq!(cursor.next(&tx).unwrap(), None);
    let last = cursor.previous(&tx).unwrap().unwrap().0;
    assert_eq!(decode_key::<(String, u32)>(&last).unwrap().1, 1999);
    // The same cursor in a later transaction sees what that one sees.
    let later = store.begin(Access::Read).unwrap();
    cursor.to_end();
    let last = cursor.previous(&later).unwrap().unwrap().0;
    assert_eq!(decode_key::<(String, u32)>(&last).unwrap().1, 4500);
}

#[test]
fn a_cursor_gives_types_and_no_expired_entry() {
    let store = memory();
    write(&store, |tx| {
        let keys = ["a", "b", "c"].map(|key| Value::Bytes(key.as_bytes().into()));
        tx.kv_mut()
            .put_value("b", &keys[0], &list(&[int(1), text("x")]), Expiry::Never)
            .unwrap();
        tx.kv_mut()
            .put_value("b", &keys[1], &int(2), Expiry::At(1))
            .unwrap();
        tx.kv_mut()
            .put_value("b", &keys[2], &text("three"), Expiry::Never)
            .unwrap();
    });
    let tx = store.begin(Access::Read).unwrap();
    let mut cursor = BucketCursor::new("b", b"", None);
    let first = cursor.next_value(&tx).unwrap().unwrap();
    assert_eq!(first, (b"a".to_vec(), list(&[int(1), text("x")])));
    let second = cursor.next_value(&tx).unwrap().unwrap();
    assert_eq!(second, (b"c".to_vec(), text("three")));
    assert_eq!(cursor.next_value(&tx).unwrap(), None);
    assert_eq!(cursor.previous_value(&tx).unwrap(), Some(second));
    assert_eq!(cursor.previous_value(&tx).unwrap(), Some(first));
    assert_eq!(cursor.previous_value(&tx).unwrap(), None);
    let keys: [&[u8]; 4] = [b"c", b"b", b"nothing", b"a"];
    assert_eq!(
        tx.kv().get_many_values("b", &keys).unwrap(),
        [
            text("three"),
            Value::Null,
            Value::Null,
            list(&[int(1), text("x")])
        ]
    );
    assert!(
        BucketCursor::new("none", b"", None)
            .next(&tx)
            .unwrap()
            .is_none()
    );
}

/// Pairs returned by a cursor are observed: a change there makes the writer conflict, one far behind it does not.
#[test]
fn pairs_returned_by_a_cursor_are_observed() {
    let store = memory();
    write(&store, |tx| {
        for key in 0..=255u8 {
            tx.kv_mut().put("b", &[b'r', b'o', b'w', key], b"").unwrap();
        }
    });
    for (changed, collides) in [(1u8, true), (200, false)] {
        let mut tx = store.begin(Access::Write).unwrap();
        let mut cursor = BucketCursor::over_prefix("b", b"row");
        for _ in 0..3 {
            cursor.next(&tx).unwrap().unwrap();
        }
        tx.kv_mut().put("other", b"k", b"").unwrap();
        write(&store, |tx| {
            tx.kv_mut()
                .delete("b", &[b'r', b'o', b'w', changed])
                .unwrap()
        });
        let outcome = tx.commit();
        assert_eq!(outcome.is_err(), collides);
        assert!(outcome.is_ok() || matches!(outcome, Err(DataError::Conflict { .. })));
    }
}

#[test]
fn changes_are_delivered_in_order_with_their_types_and_from_any_version() {
    let store = memory();
    let begin = store.engine().version();
    let mut watch = store.watch("b", WatchScope::All, None).unwrap();
    let mut of_key = store
        .watch("b", WatchScope::Key(b"user/1".to_vec()), None)
        .unwrap();
    let mut of_prefix = store
        .watch("b", WatchScope::Prefix(b"user/".to_vec()), None)
        .unwrap();
    assert_eq!(watch.next_within(Duration::ZERO).unwrap(), None);
    let first = write(&store, |tx| {
        tx.kv_mut()
            .put_value("b", &text("user/1"), &int(7), Expiry::Never)
            .unwrap();
        tx.kv_mut()
            .put_value("b", &text("user/2"), &text("two"), Expiry::At(u64::MAX))
            .unwrap();
        tx.kv_mut().put("other", b"user/1", b"").unwrap();
        tx.kv_mut().put("b", b"z", b"\xff").unwrap();
    });
    let second = write(&store, |tx| {
        tx.kv_mut().delete("b", b"user/1").unwrap();
        let range = KeyRange {
            start: b"user/2",
            end: Some(b"user/9"),
        };
        tx.kv_mut().delete_range("b", range).unwrap();
    });
    let third = write(&store, |tx| assert!(tx.kv_mut().drop_bucket("b").unwrap()));
    let put = |key: &[u8], value, expires_ms| KvChangeKind::Put {
        key: key.to_vec(),
        value,
        expires_ms,
    };
    let one = put(b"user/1", int(7), None);
    let two = put(b"user/2", text("two"), Some(u64::MAX));
    let deleted = KvChangeKind::Deleted {
        key: b"user/1".to_vec(),
    };
    let cleared = KvChangeKind::RangeDeleted {
        start: b"user/2".to_vec(),
        end: Some(b"user/9".to_vec()),
    };
    let last = put(b"z", Value::Bytes(b"\xff".as_slice().into()), None);
    let mut changes = Vec::new();
    while let Some(change) = watch.next_within(Duration::ZERO).unwrap() {
        changes.push((change.version, change.kind));
    }
    let all = [
        (first, one.clone()),
        (first, two.clone()),
        (first, last),
        (second, deleted.clone()),
        (second, cleared.clone()),
        (third, KvChangeKind::Dropped),
    ];
    assert_eq!(changes, all);
    assert_eq!(watch.version(), store.engine().version());
    let kinds = |watch: &mut isomer_data::BucketWatch| {
        std::iter::from_fn(|| watch.next_within(Duration::ZERO).unwrap())
            .map(|change| change.kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&mut of_key),
        [one, deleted.clone(), KvChangeKind::Dropped]
    );
    assert_eq!(of_prefix.next_change().unwrap().version, first);
    // In the middle of a commit it continues before that commit.
    assert!(of_prefix.version() < first && of_prefix.version() >= begin);
    let mut again = store
        .watch("b", WatchScope::All, Some(of_prefix.version()))
        .unwrap();
    assert_eq!(kinds(&mut again).len(), 6);
    let mut rest = store
        .watch("b", WatchScope::Prefix(b"user/".to_vec()), Some(first))
        .unwrap();
    assert_eq!(kinds(&mut rest), [deleted, cleared, KvChangeKind::Dropped]);
    let error = store
        .watch("b", WatchScope::All, Some(third + 1000))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn waiting_watches_are_woken_and_end_with_the_store() {
    let store = memory();
    let (sender, received) = mpsc::channel();
    let watcher = store
        .on_change("b", WatchScope::All, None, move |change| {
            let change = change.unwrap();
            sender.send(change.version).unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    let (once, only) = mpsc::channel();
    let first_only = store
        .on_change("b", WatchScope::Key(b"k".to_vec()), None, move |change| {
            once.send(change.unwrap().version).unwrap();
            ControlFlow::Break(())
        })
        .unwrap();
    let mut versions = Vec::new();
    for number in 0..50u8 {
        versions.push(write(&store, |tx| {
            tx.kv_mut().put("b", b"k", &[number]).unwrap()
        }));
    }
    for version in &versions {
        assert_eq!(
            received.recv_timeout(Duration::from_secs(20)).unwrap(),
            *version
        );
    }
    assert_eq!(only.recv().unwrap(), versions[0]);
    assert!(only.recv().is_err(), "it continued");
    assert!(watcher.is_running());
    drop((watcher, first_only));
    write(&store, |tx| tx.kv_mut().put("b", b"k", b"").unwrap());
    assert!(received.recv().is_err(), "it continued");

    let mut watch = store.watch("b", WatchScope::All, None).unwrap();
    let waiting = thread::spawn(move || watch.next_change());
    drop(store);
    assert!(matches!(waiting.join().unwrap(), Err(DataError::Closed(_))));
}

/// The stream is kept for a watch, however long it takes.
#[test]
fn the_stream_is_retained_for_a_watch() {
    let store = DataStore::open(std::sync::Arc::new(isomer_storage::MemoryEngine::new()), {
        let mut options = isomer_data::DataStoreOptions::default();
        options.stream_retention = 10;
        options
    })
    .unwrap();
    let begin = store.engine().version();
    let mut watch = store.watch("b", WatchScope::All, None).unwrap();
    let mut expected = BTreeMap::new();
    for number in 0..3000u32 {
        let version = write(&store, |tx| {
            tx.kv_mut().put("b", b"k", &number.to_be_bytes()).unwrap()
        });
        expected.insert(version, number);
    }
    for (version, number) in expected {
        let change = watch.next_within(Duration::ZERO).unwrap().unwrap();
        assert_eq!(change.version, version);
        let KvChangeKind::Put {
            value: Value::Bytes(bytes),
            ..
        } = change.kind
        else {
            panic!("{change:?}");
        };
        assert_eq!(*bytes, number.to_be_bytes());
    }
    drop(watch);
    for _ in 0..3000 {
        write(&store, |tx| tx.kv_mut().put("b", b"k", b"").unwrap());
    }
    let error = store.watch("b", WatchScope::All, Some(begin)).unwrap_err();
    assert!(error.to_string().contains("read the data anew"), "{error}");
}
