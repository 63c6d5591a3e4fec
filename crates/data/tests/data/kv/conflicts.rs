//! Conflicts between transactions over buckets.

use std::{ops::ControlFlow, thread};

use isomer_data::{Access, DataError, ErrorKind, KeyRange, Order, Page, PageLimit, Transaction};

use super::{MULTI, REVERSIBLE, clean, read, write};
use crate::common::memory;

/// What conflicts and what does not: readers with changes of what they read, blind writers with no other transaction.
#[test]
fn only_real_conflicts_are_reported() {
    let store = memory();
    write(&store, |tx| {
        tx.kv_mut().create_bucket("m", MULTI)?;
        tx.kv_mut().create_bucket("r", REVERSIBLE)?;
        tx.kv_mut().put("r", b"k", b"v")?;
        (0..50u8).try_for_each(|key| tx.kv_mut().put("b", &[b'k', key], b"v"))
    })
    .unwrap();
    type Step = fn(&mut Transaction) -> Result<(), DataError>;
    fn scan_part(
        tx: &mut Transaction,
        start: &[u8],
        end: Option<&[u8]>,
        keys: usize,
    ) -> Result<(), DataError> {
        let limit = PageLimit {
            keys,
            bytes: 1 << 20,
        };
        tx.kv()
            .scan(
                "b",
                KeyRange { start, end },
                Order::Ascending,
                limit,
                None,
                &mut Page::new(),
            )
            .map(drop)
    }
    fn visit_part(
        tx: &mut Transaction,
        start: &[u8],
        end: Option<&[u8]>,
        order: Order,
        keys: usize,
    ) -> Result<(), DataError> {
        let mut left = keys;
        tx.kv()
            .each("b", KeyRange { start, end }, order, &mut |_, _| {
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })
    }
    let cases: &[(&str, Step, Step, bool)] = &[
        (
            "a visit and a phantom",
            |tx| visit_part(tx, b"k", Some(b"l"), Order::Ascending, 1000),
            |tx| tx.kv_mut().put("b", b"k\x09x", b"n"),
            true,
        ),
        (
            "a visit that ended and what comes after it",
            |tx| visit_part(tx, b"k\x07", Some(b"k\x30"), Order::Ascending, 3),
            |tx| tx.kv_mut().put("b", b"k\x20", b"n"),
            false,
        ),
        (
            "a visit that ended and what it ended at",
            |tx| visit_part(tx, b"k\x07", Some(b"k\x30"), Order::Ascending, 1),
            |tx| tx.kv_mut().put("b", b"k\x07", b"n"),
            true,
        ),
        (
            "a visit backwards that ended and what comes after it",
            |tx| visit_part(tx, b"k\x07", Some(b"k\x30"), Order::Descending, 3),
            |tx| tx.kv_mut().put("b", b"k\x20", b"n"),
            false,
        ),
        (
            "a visit backwards that ended and what it ended at",
            |tx| visit_part(tx, b"k\x07", Some(b"k\x21"), Order::Descending, 1),
            |tx| tx.kv_mut().put("b", b"k\x20", b"n"),
            true,
        ),
        (
            "two blind puts of one key",
            |tx| tx.kv_mut().put("b", b"x", b"1"),
            |tx| tx.kv_mut().put("b", b"x", b"2"),
            false,
        ),
        (
            "a read and a put of one key",
            |tx| tx.kv().get("b", b"x").map(drop),
            |tx| tx.kv_mut().put("b", b"x", b"3"),
            true,
        ),
        (
            "a read and a put of two keys",
            |tx| tx.kv().get("b", b"x").map(drop),
            |tx| tx.kv_mut().put("b", b"y", b"3"),
            false,
        ),
        (
            "a read and a deletion",
            |tx| tx.kv().get("b", b"k\x01").map(drop),
            |tx| tx.kv_mut().delete("b", b"k\x01"),
            true,
        ),
        (
            "a read and a range deletion",
            |tx| tx.kv().get("b", b"k\x02").map(drop),
            |tx| {
                tx.kv_mut().delete_range(
                    "b",
                    KeyRange {
                        start: b"k\x02",
                        end: Some(b"k\x03"),
                    },
                )
            },
            true,
        ),
        (
            "a put and a range deletion",
            |tx| tx.kv_mut().put("b", b"k\x05", b"n"),
            |tx| {
                tx.kv_mut().delete_range(
                    "b",
                    KeyRange {
                        start: b"k\x05",
                        end: Some(b"k\x06"),
                    },
                )
            },
            false,
        ),
        (
            "a scan and a phantom",
            |tx| scan_part(tx, b"k", Some(b"l"), 1000),
            |tx| tx.kv_mut().put("b", b"k\x09x", b"n"),
            true,
        ),
        (
            "a page and what comes after it",
            |tx| scan_part(tx, b"k\x07", Some(b"k\x30"), 3),
            |tx| tx.kv_mut().put("b", b"k\x20", b"n"),
            false,
        ),
        (
            "a page and what it holds",
            |tx| scan_part(tx, b"k\x0a", Some(b"k\x30"), 3),
            |tx| tx.kv_mut().put("b", b"k\x0b", b"n"),
            true,
        ),
        (
            "a whole scan and a new key",
            |tx| scan_part(tx, b"", None, 1000),
            |tx| tx.kv_mut().put("b", b"zzz", b"n"),
            true,
        ),
        (
            "a scan and another bucket",
            |tx| scan_part(tx, b"", None, 1000),
            |tx| tx.kv_mut().put("c", b"zzz", b"n"),
            false,
        ),
        (
            "two additions of one value",
            |tx| tx.kv_mut().add("m", b"k", b"1"),
            |tx| tx.kv_mut().add("m", b"k", b"1"),
            false,
        ),
        (
            "values and an addition",
            |tx| tx.kv().values("m", b"k", None, 9).map(drop),
            |tx| tx.kv_mut().add("m", b"k", b"2"),
            true,
        ),
        (
            "values and another key's",
            |tx| tx.kv().values("m", b"k", None, 9).map(drop),
            |tx| tx.kv_mut().add("m", b"kk", b"2"),
            false,
        ),
        (
            "one value and another",
            |tx| tx.kv().has("m", b"k", b"9").map(drop),
            |tx| tx.kv_mut().add("m", b"k", b"8"),
            false,
        ),
        (
            "one value and its addition",
            |tx| tx.kv().has("m", b"k", b"7").map(drop),
            |tx| tx.kv_mut().add("m", b"k", b"7"),
            true,
        ),
        (
            "two puts in a reversible bucket",
            |tx| tx.kv_mut().put("r", b"k", b"1"),
            |tx| tx.kv_mut().put("r", b"k", b"2"),
            true,
        ),
        (
            "keys of a value and a new one",
            |tx| tx.kv().keys_of("r", b"w", None, 9).map(drop),
            |tx| tx.kv_mut().put("r", b"n", b"w"),
            true,
        ),
        (
            "keys of a value and another's",
            |tx| tx.kv().keys_of("r", b"w", None, 9).map(drop),
            |tx| tx.kv_mut().put("r", b"o", b"ww"),
            false,
        ),
        (
            "a put and the bucket's end",
            |tx| tx.kv_mut().put("c", b"a", b"1"),
            |tx| tx.kv_mut().drop_bucket("c").map(drop),
            true,
        ),
        (
            "an absent bucket and its first key",
            |tx| tx.kv().get("new", b"a").map(drop),
            |tx| tx.kv_mut().put("new", b"b", b"1"),
            true,
        ),
        (
            "the list and a new bucket",
            |tx| tx.kv().list_buckets().map(drop),
            |tx| tx.kv_mut().create_bucket("newer", MULTI),
            true,
        ),
    ];
    for (name, mine, others, collide) in cases {
        let mut me = store.begin(Access::Write).unwrap();
        mine(&mut me).unwrap();
        me.kv_mut().put("mine", b"k", b"v").unwrap();
        write(&store, others).unwrap();
        match me.commit() {
            Ok(_) => assert!(!collide, "{name}: not noticed"),
            Err(error) => {
                assert!(
                    *collide && error.kind() == ErrorKind::Retry,
                    "{name}: {error}"
                );
                assert!(error.to_string().contains("bucket"), "{name}: {error}");
            }
        }
        // The first commit of a case may have made the bucket.
        let _ = write(&store, |tx| tx.kv_mut().put("mine", b"k", b"v"));
    }
    assert_eq!(
        read(&store).kv().get("b", b"x").unwrap(),
        Some(b"3".to_vec())
    );
    clean(&store);
}

/// Lost updates are refused whatever the interleaving: counters over threads add up.
#[test]
fn counters_add_up() {
    let store = memory();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    loop {
                        let raised = write(&store, |tx| {
                            let value = tx
                                .kv()
                                .get("b", b"counter")?
                                .map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()));
                            tx.kv_mut().put("b", b"counter", &(value + 1).to_be_bytes())
                        });
                        match raised {
                            Ok(()) => break,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Retry),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(
        read(&store).kv().get("b", b"counter").unwrap(),
        Some(400u64.to_be_bytes().to_vec())
    );
}
