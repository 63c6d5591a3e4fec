//! Writing in a transaction: own writes, range deletions, savepoints, limits.

use super::subject::{ALL, Make, SubjectOptions, between, get, pairs, put, scan};
use crate::{Durability, EngineSavepoint, EngineTransaction, KeyRange, Order, StorageError};

/// A transaction reads its own writes; others do not before its commit.
pub fn own_writes_are_read(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    put(&*engine, b"kept", b"old");
    put(&*engine, b"gone", b"old");
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(b"kept", b"new").expect("a put");
    transaction.put(b"kept", b"newer").expect("a put");
    transaction.delete(b"gone").expect("a delete");
    transaction.put(b"fresh", b"new").expect("a put");
    transaction.put(b"brief", b"new").expect("a put");
    transaction.delete(b"brief").expect("a delete");
    assert!(transaction.write_bytes() > 0);
    let own = pairs(&[("fresh", "new"), ("kept", "newer")]);
    assert_eq!(scan(&*transaction, ALL, Order::Ascending, 10), own);
    assert_eq!(transaction.get(b"gone").expect("a get"), None);
    assert_eq!(
        transaction.get(b"kept").expect("a get"),
        Some(b"newer".to_vec())
    );
    assert_eq!(get(&*engine, b"kept"), Some(b"old".to_vec()));
    assert_eq!(get(&*engine, b"fresh"), None);
    let version = transaction.commit(Durability::Synced).expect("a commit");
    assert_eq!(version, 3);
    assert_eq!(
        scan(
            &*engine.snapshot().expect("a snapshot"),
            ALL,
            Order::Ascending,
            10
        ),
        own
    );
}

/// Deleted ranges cover stored pairs and earlier own writes, and nothing that is written later.
pub fn delete_ranges_and_own_writes(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    let mut transaction = engine.begin().expect("a transaction");
    for key in "abcdefghijklmnopqrst".chars() {
        transaction
            .put(key.to_string().as_bytes(), b"old")
            .expect("a put");
    }
    transaction.commit(Durability::Synced).expect("a commit");

    let keys = |transaction: &dyn EngineTransaction, order| -> String {
        scan(transaction, ALL, order, 3)
            .into_iter()
            .map(|(key, _)| String::from_utf8(key).expect("text"))
            .collect()
    };
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(b"cc", b"own").expect("a put");
    transaction
        .delete_range(between(b"c", b"e"))
        .expect("a delete");
    assert_eq!(keys(&*transaction, Order::Ascending), "abefghijklmnopqrst");
    transaction.put(b"d", b"own").expect("a put");
    transaction
        .delete_range(between(b"e", b"g"))
        .expect("touching");
    assert_eq!(keys(&*transaction, Order::Ascending), "abdghijklmnopqrst");
    transaction
        .delete_range(between(b"k", b"m"))
        .expect("a delete");
    transaction
        .delete_range(between(b"i", b"l"))
        .expect("overlapping");
    transaction
        .delete_range(between(b"o", b"o"))
        .expect("empty");
    transaction
        .delete_range(between(b"p", b"a"))
        .expect("backwards");
    assert_eq!(keys(&*transaction, Order::Ascending), "abdghmnopqrst");
    assert_eq!(keys(&*transaction, Order::Descending), "tsrqponmhgdba");
    transaction
        .delete_range(between(b"d", b"d\0"))
        .expect("a delete");
    transaction.delete(b"j").expect("deleted already");
    transaction.put(b"j", b"own").expect("a put");
    transaction
        .delete_range(KeyRange {
            start: b"r",
            end: None,
        })
        .expect("to the end");
    transaction.put(b"z", b"own").expect("a put");
    assert_eq!(keys(&*transaction, Order::Ascending), "abghjmnopqz");
    assert_eq!(
        scan(&*transaction, between(b"h", b"n"), Order::Descending, 1),
        pairs(&[("m", "old"), ("j", "own"), ("h", "old")])
    );
    let expected = scan(&*transaction, ALL, Order::Ascending, 100);
    transaction.commit(Durability::Synced).expect("a commit");
    assert_eq!(
        scan(
            &*engine.snapshot().expect("a snapshot"),
            ALL,
            Order::Ascending,
            100
        ),
        expected
    );

    let mut transaction = engine.begin().expect("a transaction");
    transaction.delete_range(ALL).expect("everything");
    assert_eq!(keys(&*transaction, Order::Descending), "");
    transaction.commit(Durability::Synced).expect("a commit");
    assert_eq!(
        scan(
            &*engine.snapshot().expect("a snapshot"),
            ALL,
            Order::Ascending,
            100
        ),
        []
    );
    assert_eq!(engine.statistics().expect("statistics").key_count, 0);
}

/// A failed statement can be rolled back alone, nested, with its range deletions and stream bytes.
pub fn savepoints_nest(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    for key in [b"a", b"b", b"c"] {
        put(&*engine, key, b"old");
    }
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(b"a", b"1").expect("a put");
    transaction.append_stream(b"one");
    let outer = transaction.savepoint();
    transaction.put(b"a", b"2").expect("a put");
    transaction.delete(b"b").expect("a delete");
    transaction.put(b"d", b"2").expect("a put");
    transaction.append_stream(b"two");
    let at_inner = scan(&*transaction, ALL, Order::Ascending, 10);
    let bytes_at_inner = transaction.write_bytes();
    let inner = transaction.savepoint();
    transaction
        .delete_range(between(b"a", b"c"))
        .expect("a delete");
    transaction
        .delete_range(between(b"b", b"e"))
        .expect("a delete");
    transaction.put(b"bb", b"3").expect("a put");
    transaction.delete_range(ALL).expect("a delete");
    transaction.put(b"x", b"3").expect("a put");
    transaction.append_stream(b"three");
    assert_eq!(
        scan(&*transaction, ALL, Order::Ascending, 10),
        pairs(&[("x", "3")])
    );
    transaction.rollback_to(inner);
    assert_eq!(scan(&*transaction, ALL, Order::Ascending, 10), at_inner);
    assert_eq!(transaction.write_bytes(), bytes_at_inner);
    transaction.put(b"y", b"4").expect("a put");
    transaction.rollback_to(inner);
    assert_eq!(
        scan(&*transaction, ALL, Order::Ascending, 10),
        at_inner,
        "a savepoint may be used twice"
    );
    transaction.rollback_to(outer);
    assert_eq!(
        scan(&*transaction, ALL, Order::Ascending, 10),
        pairs(&[("a", "1"), ("b", "old"), ("c", "old")])
    );
    transaction.rollback_to(inner);
    transaction.rollback_to(EngineSavepoint(99));
    transaction.put(b"b", b"5").expect("a put");
    transaction.rollback_to(outer);
    transaction.put(b"c", b"6").expect("a put");
    transaction.release(outer);
    transaction.rollback_to(outer);
    let version = transaction.commit(Durability::Synced).expect("a commit");
    assert_eq!(
        scan(
            &*engine.snapshot().expect("a snapshot"),
            ALL,
            Order::Ascending,
            10
        ),
        pairs(&[("a", "1"), ("b", "old"), ("c", "6")])
    );
    let stream = engine.stream(0, 10, 1 << 20, false).expect("the stream");
    assert_eq!(
        stream
            .last()
            .map(|entry| (entry.version, entry.bytes.as_slice())),
        Some((version, &b"one"[..]))
    );
}

/// Dropping a transaction changes nothing, and neither does a refused one.
pub fn dropped_transactions_leave_no_trace(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    put(&*engine, b"a", b"1");
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(b"a", b"2").expect("a put");
    transaction.append_stream(b"never");
    drop(transaction);
    assert_eq!(
        (engine.version(), get(&*engine, b"a")),
        (1, Some(b"1".to_vec()))
    );
    assert_eq!(engine.stream(0, 10, 100, false).expect("the stream"), []);
}

/// The undo log counts as well: with a savepoint, writing one key repeatedly does not bypass the limit.
pub fn what_can_be_undone_is_limited(make: Make) {
    let subject = make(SubjectOptions {
        max_transaction_bytes: 1 << 20,
    });
    let engine = subject.engine();
    let mut transaction = engine.begin().expect("a transaction");
    let savepoint = transaction.savepoint();
    let refused = (0..200).find_map(|at| transaction.put(b"key", &[at; 10_000]).err());
    assert!(
        matches!(refused, Some(StorageError::TooLarge { max, .. }) if max == 1 << 20),
        "{refused:?}"
    );
    transaction.rollback_to(savepoint);
    assert_eq!(transaction.write_bytes(), 0);
    transaction.release(savepoint);
    for at in 0..200 {
        transaction.put(b"key", &[at; 10_000]).expect("a put");
    }
    transaction.commit(Durability::Synced).expect("a commit");
    assert_eq!(get(&*engine, b"key"), Some(vec![199; 10_000]));
}

/// A pair that is too large and an empty key are errors with advice; the transaction continues without them.
pub fn limits_are_errors(make: Make) {
    let subject = make(SubjectOptions {
        max_transaction_bytes: 1 << 20,
    });
    let engine = subject.engine();
    let limits = engine.capabilities();
    assert_eq!(limits.max_transaction_bytes, 1 << 20);
    let mut transaction = engine.begin().expect("a transaction");
    assert!(matches!(
        transaction.put(b"", b"value"),
        Err(StorageError::Invalid(_))
    ));
    let too_long = vec![7; limits.max_key_bytes + 1];
    let refused = transaction.put(&too_long, b"value");
    assert!(
        matches!(refused, Err(StorageError::TooLarge { size, max, .. })
            if size == max + 1 && max == limits.max_key_bytes)
    );
    let refused = transaction.put(b"key", &vec![7; limits.max_value_bytes + 1]);
    assert!(
        matches!(refused, Err(StorageError::TooLarge { size, max, .. })
            if size == max + 1 && max == limits.max_value_bytes)
    );
    let mut taken = 0;
    let refused = loop {
        match transaction.put(format!("key {taken}").as_bytes(), &[7; 10_000]) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(
        (90..110).contains(&taken),
        "{taken} values of 10 kB in a transaction of 1 MiB"
    );
    assert!(
        matches!(refused, StorageError::TooLarge { max, .. } if max == 1 << 20),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("commit in smaller parts"),
        "{refused}"
    );
    assert_eq!(
        transaction.get(b"key 0").expect("a get"),
        Some(vec![7; 10_000])
    );
    transaction.commit(Durability::Synced).expect("what fitted");
    let count = scan(
        &*engine.snapshot().expect("a snapshot"),
        ALL,
        Order::Ascending,
        1000,
    )
    .len();
    assert_eq!(count, taken);
}
