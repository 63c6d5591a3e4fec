//! What is reserved, held and begun once for all processes.

use std::{sync::mpsc, thread, time::Duration};

use isomer_data::{
    Access, ConvergentOp, ConvergentOwner, DataStore, Durability, ErrorKind, FieldPath, GraphRead,
    IndexField, IndexSpec, KvChangeKind, SchemaChange, ScopeName, WatchScope,
};
use isomer_layout::keyspace::TAG_NODE;
use isomer_value::{Map, Value};

use crate::processes::{SharedDatabase, assert_sound};

fn put(store: &DataStore, bucket: &str, key: &[u8], value: &[u8]) {
    let mut tx = store.begin(Access::Write).expect("begun");
    tx.kv_mut().put(bucket, key, value).expect("put");
    tx.commit().expect("no conflict");
}

fn a_node(store: &DataStore, label: &str) -> isomer_value::NodeId {
    let mut tx = store.begin(Access::Write).expect("begun");
    let label = tx.name_ids().intern_label(label).expect("a name");
    let mut properties = Map::new();
    properties.insert("p", Value::Int(1));
    let id = tx.graph_mut().create_node(&[label], &properties);
    let id = id.expect("created");
    tx.commit().expect("no conflict");
    id
}

/// A name that was absent when a transaction looked, and and that another process has used since, is a conflict.
#[test]
fn the_absence_of_a_name_is_observed_across_processes() {
    let database = SharedDatabase::new(false);
    let (one, other) = (database.open(), database.open());
    let mut tx = one.begin(Access::Write).expect("begun");
    assert_eq!(tx.name_ids().find_label("New"), None);
    tx.kv_mut().put("b", b"k", b"no node is new").expect("put");
    a_node(&other, "New");
    let error = tx.commit().expect_err("the other one has a new node");
    assert_eq!(error.kind(), ErrorKind::Retry);
}

/// A commit of another process that cannot be decoded: the first transaction that would see it is refused, as all later
/// ones are, for the caches do not follow it. A transaction that began before goes on with what it sees.
#[test]
fn an_unreadable_commit_of_another_process_is_met_by_the_first_transaction() {
    let database = SharedDatabase::new(false);
    let one = database.open();
    a_node(&one, "L");
    let earlier = one.begin(Access::Read).expect("begun");
    let other = database.open_engine();
    let mut raw = other.begin().expect("begun");
    raw.put(&[TAG_NODE], b"no record").expect("put");
    raw.append_stream(b"no entry of a change stream");
    raw.commit(Durability::Buffered).expect("committed");
    for _ in 0..2 {
        let refused = one.begin(Access::Read).map(drop).expect_err("refused");
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
    }
    assert_eq!(earlier.exact_node_count(None).expect("counted"), 1);
}

/// Opening reads no change stream. When the counts are asked for, another process may have stored newer ones, and have
/// trimmed what was missing.
#[test]
fn counts_are_right_when_another_process_has_trimmed_the_stream() {
    let database = SharedDatabase::new(false);
    let one = database.open();
    for _ in 0..10 {
        a_node(&one, "L");
    }
    let other = database.open();
    for _ in 0..2500 {
        a_node(&one, "L");
    }
    // As it does when the change stream has become long enough; the counts were stored after 2048 commits.
    one.engine().trim_stream(2000).expect("trimmed");
    let counted = |store: &DataStore| {
        let tx = store.begin(Access::Read).expect("begun");
        let label = tx.name_ids().find_label("L").expect("a name");
        (
            store.counts().nodes_now(Some(label)),
            tx.exact_node_count(Some(label)).expect("counted"),
        )
    };
    assert_eq!(counted(&other), (2510, 2510));
    a_node(&other, "L");
    assert_eq!(counted(&one), (2511, 2511));
    assert_eq!(counted(&other), (2511, 2511));
    let late = database.open();
    assert_eq!(counted(&late), (2511, 2511));
}

/// A watch in one process gets the changes of another one, and needs no own commit.
#[test]
fn a_watch_hears_of_other_processes() {
    let database = SharedDatabase::new(true);
    let (one, other) = (database.open(), database.open());
    let (sender, receiver) = mpsc::channel();
    let mut watch = one
        .watch("sessions", WatchScope::All, None)
        .expect("watched");
    let watching = thread::spawn(move || {
        for _ in 0..20 {
            sender.send(watch.next_change()).expect("received");
        }
    });
    for number in 0..20_u8 {
        put(&other, "sessions", &[number], b"v");
        let change = receiver.recv_timeout(Duration::from_secs(10));
        let change = change.expect("in time").expect("a change");
        assert!(matches!(change.kind, KvChangeKind::Put { key, .. } if key == [number]));
    }
    watching.join().expect("no panic");
}

/// An index that another process builds is not taken for a leftover, and is one after the process has ended.
#[test]
fn only_the_index_of_a_process_that_ended_is_a_leftover() {
    let database = SharedDatabase::new(false);
    let one = database.open();
    for _ in 0..3 {
        a_node(&one, "L");
    }
    let change = |name: &str| SchemaChange::CreateIndex {
        spec: IndexSpec {
            name: Some(name.to_owned()),
            scope: ScopeName::label("L"),
            fields: vec![IndexField {
                path: FieldPath::top("p"),
                each: false,
            }],
            unique: false,
        },
        if_not_exists: false,
    };
    let mut opened = None;
    let mut asked = 0;
    let made = one.change_schema_while(change("i"), &mut || {
        asked += 1;
        if asked == 2 {
            // While it is being built.
            let other = database.open();
            assert_eq!(other.catalog().indexes().len(), 1);
            a_node(&other, "L");
            opened = Some(other);
        }
        true
    });
    made.expect("it was built");
    let other = opened.expect("it was opened in between");
    for store in [&one, &other] {
        let tx = store.begin(Access::Read).expect("begun");
        let label = tx.name_ids().find_label("L").expect("a name");
        assert_eq!(tx.catalog().usable_indexes(label).count(), 1);
        assert_eq!(tx.exact_node_count(Some(label)).expect("counted"), 4);
        assert_sound(store);
    }
}

/// One process holds the stream, another one trims it.
#[test]
fn what_a_process_holds_is_not_trimmed_by_another_one() {
    let database = SharedDatabase::new(false);
    let (one, other) = (database.open(), database.open());
    put(&one, "b", b"k", b"0");
    let since = one.engine().version();
    let mut watch = one
        .watch("b", WatchScope::All, Some(since))
        .expect("watched");
    // Far more than what is retained without readers.
    for number in 0..13_000_u32 {
        let mut tx = other.begin(Access::Write).expect("begun");
        tx.kv_mut()
            .put("b", b"k", &number.to_be_bytes())
            .expect("put");
        tx.commit_with(isomer_data::Durability::Buffered)
            .expect("no conflict");
    }
    let trimmed = other.engine().stream_trimmed().expect("read");
    assert!(trimmed <= since, "{trimmed} > {since}");
    for number in 0..13_000_u32 {
        let change = watch.next_change().expect("nothing was forgotten");
        let KvChangeKind::Put { value, .. } = change.kind else {
            panic!("no other change was made");
        };
        assert_eq!(value, Value::Bytes(number.to_be_bytes()[..].into()));
    }
    drop(watch);
    for number in 0..3_000_u32 {
        put(&other, "b", b"k", &number.to_be_bytes());
    }
    assert!(other.engine().stream_trimmed().expect("read") > since);
}

/// Numbers of transactions with convergent operations that are under way for long are given up: the transaction runs
/// again under another one.
#[test]
fn a_transaction_that_takes_too_long_gets_another_number() {
    let database = SharedDatabase::new(false);
    let (one, other) = (database.open(), database.open());
    let node = a_node(&one, "L");
    let count = |store: &DataStore| {
        let mut tx = store.begin(Access::Write).expect("begun");
        let owner = ConvergentOwner::Node(node);
        let counted = tx
            .fields_mut()
            .converge(owner, &["n"], &ConvergentOp::Count(1), None);
        counted.expect("counted");
        tx
    };
    let slow = count(&one);
    for _ in 0..1_500 {
        let fast = count(&other);
        fast.commit_with(isomer_data::Durability::Buffered)
            .expect("no conflict");
    }
    let error = slow.commit().expect_err("its number was given up");
    assert_eq!(error.kind(), ErrorKind::Retry);
    // A block of numbers that was reserved long ago is not used.
    for _ in 0..100 {
        count(&one).commit().expect("no conflict");
    }
    for store in [&one, &other, &database.open()] {
        let tx = store.begin(Access::Read).expect("begun");
        let value = tx.fields().value(ConvergentOwner::Node(node), &["n"]);
        assert_eq!(value.expect("read"), Some(Value::Int(1_600)));
        assert_sound(store);
    }
}

#[test]
fn what_only_one_process_may_do_is_refused() {
    let database = SharedDatabase::new(false);
    let store = database.open();
    let refused = [
        (store.begin_ingest().map(drop), "open it exclusively"),
        (store.numbering().begin_epoch(), "open it exclusively"),
    ];
    for (outcome, advice) in refused {
        let error = outcome.expect_err("it is refused");
        assert!(error.to_string().contains(advice), "{error}");
    }
}
