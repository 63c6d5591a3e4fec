//! Reading snapshots and transactions.

use std::ops::ControlFlow;

use super::subject::{ALL, Make, SubjectOptions, between, get, pairs, put, scan};
use crate::{Durability, KeyRange, Order, Page, PageLimit};

/// A commit is visible to snapshots taken after it, not to those taken before.
pub fn reads_see_commits(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    assert_eq!(engine.version(), 0);
    let empty = engine.snapshot().expect("a snapshot");
    assert_eq!(put(&*engine, b"a", b"1"), 1);
    let first = engine.snapshot().expect("a snapshot");
    assert_eq!(put(&*engine, b"a", b"2"), 2);
    assert_eq!(put(&*engine, b"b", b""), 3);
    assert_eq!(engine.version(), 3);
    assert_eq!((empty.version(), first.version()), (0, 1));
    assert_eq!(empty.get(b"a").expect("a get"), None);
    assert_eq!(first.get(b"a").expect("a get"), Some(b"1".to_vec()));
    assert_eq!(first.get(b"b").expect("a get"), None);
    assert_eq!(get(&*engine, b"a"), Some(b"2".to_vec()));
    assert_eq!(
        get(&*engine, b"b"),
        Some(Vec::new()),
        "an empty value is a value"
    );
    assert_eq!(get(&*engine, b""), None);
    assert_eq!(get(&*engine, b"aa"), None);
    assert_eq!(scan(&*empty, ALL, Order::Ascending, 10), []);
    assert_eq!(
        scan(&*first, ALL, Order::Ascending, 10),
        pairs(&[("a", "1")])
    );
    let transaction = engine.begin().expect("a transaction");
    assert_eq!(transaction.version(), 3);
    assert_eq!(
        transaction
            .commit(Durability::Synced)
            .expect("nothing to commit"),
        3
    );
    assert_eq!(
        engine.version(),
        3,
        "a transaction without writes must not be a commit"
    );
}

/// A batched read returns values in the order of its keys, including repeated keys and own writes.
pub fn get_many_keeps_order(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    for number in 0..100u8 {
        put(&*engine, &[number], &[number, number]);
    }
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(&[7], b"own").expect("a put");
    transaction.delete(&[8]).expect("a delete");
    transaction
        .delete_range(between(&[50], &[60]))
        .expect("a delete");
    transaction.put(&[55], b"back").expect("a put");
    let keys: [&[u8]; 8] = [&[99], &[7], &[200], &[8], &[7], &[54], &[55], &[0]];
    let expected = [
        Some(vec![99, 99]),
        Some(b"own".to_vec()),
        None,
        None,
        Some(b"own".to_vec()),
        None,
        Some(b"back".to_vec()),
        Some(vec![0, 0]),
    ];
    assert_eq!(transaction.get_many(&keys).expect("a batch"), expected);
    let committed = engine
        .snapshot()
        .expect("a snapshot")
        .get_many(&keys)
        .expect("a batch");
    assert_eq!(committed[1..4], [Some(vec![7, 7]), None, Some(vec![8, 8])]);
    assert_eq!(
        transaction.get_many(&[]).expect("a batch"),
        Vec::<Option<Vec<u8>>>::new()
    );
    // A visit stops where it breaks, at a value of the snapshot or at an own write.
    for upto in 1..=keys.len() {
        let mut seen = Vec::new();
        let visited = transaction.visit_many(&keys, &mut |value| {
            seen.push(value.map(<[u8]>::to_vec));
            match seen.len() == upto {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        visited.expect("a visit");
        assert_eq!(seen, expected[..upto]);
    }
}

/// Keys and values of every size up to the limits come back, in order.
pub fn values_of_all_sizes(make: Make) {
    let mut subject = make(SubjectOptions::default());
    let limits = subject.engine().capabilities();
    let sizes = [0, 1, 127, 128, 4095, 4096, 4097, 65_535, 65_536, 1 << 20];
    let mut transaction = subject.engine().begin().expect("a transaction");
    for (number, size) in sizes.into_iter().enumerate() {
        transaction
            .put(
                format!("size {number}").as_bytes(),
                &vec![number as u8; size],
            )
            .expect("a put");
    }
    let longest = vec![0xff; limits.max_key_bytes];
    transaction.put(&longest, b"longest").expect("a put");
    transaction.put(&[0], b"nul").expect("a put");
    transaction.commit(Durability::Synced).expect("a commit");
    subject.reopen();
    let engine = subject.engine();
    for (number, size) in sizes.into_iter().enumerate() {
        assert_eq!(
            get(&*engine, format!("size {number}").as_bytes()),
            Some(vec![number as u8; size])
        );
    }
    let snapshot = engine.snapshot().expect("a snapshot");
    let all = scan(&*snapshot, ALL, Order::Ascending, 3);
    assert_eq!(all.len(), sizes.len() + 2);
    assert!(all.is_sorted_by(|one, two| one.0 < two.0));
    assert_eq!(
        (all[0].0.as_slice(), &all[sizes.len() + 1].0),
        (&[0][..], &longest)
    );
}

/// Scans work in both directions, in pages of any size, and return where to continue.
pub fn pages_in_both_directions(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    let mut transaction = engine.begin().expect("a transaction");
    for number in 0..500u16 {
        transaction
            .put(&(number * 2).to_be_bytes(), &number.to_le_bytes())
            .expect("a put");
    }
    transaction.commit(Durability::Synced).expect("a commit");
    let snapshot = engine.snapshot().expect("a snapshot");
    for (from, to) in [
        (0u16, 1000u16),
        (0, 0),
        (1, 2),
        (1, 3),
        (2, 3),
        (7, 801),
        (8, 800),
        (998, 2000),
        (999, 2000),
        (600, 400),
    ] {
        let (start, end) = (from.to_be_bytes(), to.to_be_bytes());
        let expected: Vec<u16> = (from..to.max(from))
            .filter(|number| number % 2 == 0 && *number < 1000)
            .collect();
        for keys in [1, 2, 7, 100, 10_000] {
            for order in [Order::Ascending, Order::Descending] {
                let mut found: Vec<u16> = scan(&*snapshot, between(&start, &end), order, keys)
                    .into_iter()
                    .map(|(key, value)| {
                        let key = u16::from_be_bytes(key.try_into().expect("two bytes"));
                        assert_eq!(value, (key / 2).to_le_bytes());
                        key
                    })
                    .collect();
                if order == Order::Descending {
                    found.reverse();
                }
                assert_eq!(
                    found, expected,
                    "{from}..{to} in pages of {keys}, {order:?}"
                );
            }
        }
    }
    // A page that ends with the range has no continuation; a page with a small byte limit still holds one pair.
    let mut page = Page::new();
    snapshot
        .scan(
            between(&[0, 0], &[0, 4]),
            Order::Ascending,
            PageLimit {
                keys: 2,
                bytes: 1 << 20,
            },
            &mut page,
        )
        .expect("a scan");
    assert_eq!((page.len(), page.next()), (2, None));
    snapshot
        .scan(
            ALL,
            Order::Descending,
            PageLimit { keys: 0, bytes: 0 },
            &mut page,
        )
        .expect("a scan");
    assert_eq!(
        (page.len(), page.pair(0).0),
        (1, &999u16.saturating_sub(1).to_be_bytes()[..])
    );
    snapshot
        .scan(
            ALL,
            Order::Ascending,
            PageLimit {
                keys: 100,
                bytes: 10,
            },
            &mut page,
        )
        .expect("a scan");
    assert_eq!(page.len(), 3, "4 bytes a pair, and about 10 in all");
    assert_eq!(
        page.next(),
        Some(KeyRange {
            start: &6u16.to_be_bytes(),
            end: None
        })
    );
}

/// Pages merge own writes with stored pairs, in both directions and across page borders.
pub fn pages_under_own_writes(make: Make) {
    let subject = make(SubjectOptions::default());
    let engine = subject.engine();
    let mut transaction = engine.begin().expect("a transaction");
    for key in ["b", "d", "f", "h", "j"] {
        transaction.put(key.as_bytes(), b"old").expect("a put");
    }
    transaction.commit(Durability::Synced).expect("a commit");
    let mut transaction = engine.begin().expect("a transaction");
    for (key, value) in [
        ("a", "new"),
        ("d", "new"),
        ("e", "new"),
        ("k", "new"),
        ("l", "new"),
    ] {
        transaction
            .put(key.as_bytes(), value.as_bytes())
            .expect("a put");
    }
    transaction.delete(b"f").expect("a delete");
    transaction.delete(b"nothing").expect("a delete");
    transaction.delete(b"l").expect("a delete");
    let mut expected = pairs(&[
        ("a", "new"),
        ("b", "old"),
        ("d", "new"),
        ("e", "new"),
        ("h", "old"),
        ("j", "old"),
        ("k", "new"),
    ]);
    for keys in 1..9 {
        assert_eq!(scan(&*transaction, ALL, Order::Ascending, keys), expected);
    }
    assert_eq!(
        scan(&*transaction, between(b"b", b"h"), Order::Ascending, 2),
        expected[1..4]
    );
    assert_eq!(
        scan(&*transaction, between(b"c", b"i"), Order::Ascending, 2),
        expected[2..5]
    );
    expected.reverse();
    for keys in 1..9 {
        assert_eq!(scan(&*transaction, ALL, Order::Descending, keys), expected);
    }
    assert_eq!(
        scan(&*transaction, between(b"b", b"h"), Order::Descending, 1),
        expected[3..6]
    );
    assert_eq!(
        scan(
            &*engine.snapshot().expect("a snapshot"),
            ALL,
            Order::Ascending,
            10
        )
        .len(),
        5
    );
}
