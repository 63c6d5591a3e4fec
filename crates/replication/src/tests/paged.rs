//! States that are merged in pages while they change, and the result of merging two states.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use isomer_data::{
    Access, BucketKind, BucketOptions, Clock, DataStore, DataStoreOptions, ErrorKind, GraphRead,
    internals::replica_state,
};
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};

use super::{
    dump::dump,
    small::{both, find, map, open, person, send, write},
};
use crate::{
    begin, conflicts, members, records, scrub,
    state::{IDLE_TIMEOUT_MS, PAGE_TIMEOUT_MS, TRANSFER_TIMEOUT_MS, replication_of},
    state_transfer::{
        outgoing::{self, MAX_TRANSFERS},
        receive, send,
    },
};

/// A deleted record is created again while the pages of its state are requested.
#[test]
fn pages_of_one_join_are_of_one_version() {
    let (p, f, e, j) = (open(), open(), open(), open());
    write(&p, |tx| {
        person(tx, "d", &[]);
        person(tx, "z", &[("long", Value::from("z".repeat(200).as_str()))]);
    });
    both(&p, &f);
    // The deletion has not seen what is set concurrently: that is kept, without a record.
    write(&f, |tx| {
        let d = find(tx, "d");
        tx.graph_mut()
            .set_node_property(d, &["p"], Value::Int(7))
            .unwrap();
    });
    write(&p, |tx| {
        let d = find(tx, "d");
        tx.graph_mut().delete_node(d, false).unwrap();
    });
    both(&p, &f);
    let mut transfer = receive::begin_state_transfer(&j).unwrap();
    let page = send::state_page(&p, transfer.cursor(), 100).unwrap();
    assert!(!transfer.merge_page(&j, &page).unwrap());
    assert_eq!(
        transfer.cursor()[16],
        1,
        "all records were sent, but not the leftovers"
    );
    write(&e, |tx| person(tx, "d", &[("q", Value::Int(8))]));
    send(&e, &p);
    loop {
        let page = send::state_page(&p, transfer.cursor(), 100).unwrap();
        if transfer.merge_page(&j, &page).unwrap() {
            break;
        }
    }
    drop(transfer);
    send(&p, &j);
    let whole = dump(&p).iter().any(|line| line.contains("p: Int(7)"));
    assert!(whole, "{:?}", dump(&p));
    assert_eq!(dump(&p), dump(&j));
    assert!(
        replication_of(&p)
            .outgoing
            .lock()
            .iter()
            .all(|one| one.is_done)
    );
}

#[derive(Debug)]
struct Set(AtomicU64);

impl Clock for Set {
    /// The clock is set back and forward all the time.
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed) % 1000 * 1_000_000_000
    }

    fn passed_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Reads that are held for state transfers are released when no page is requested, and their number is bounded.
#[test]
fn a_held_version_is_released() {
    let clock = Arc::new(Set(AtomicU64::new(1_700_000_000_000)));
    let mut options = DataStoreOptions::default();
    options.clock = clock.clone();
    let a = crate::open(Arc::new(MemoryEngine::new()), options).unwrap();
    begin::begin_replication(&a).unwrap();
    for key in ["a", "b", "c", "d"] {
        write(&a, |tx| person(tx, key, &[]));
    }
    let next = |cursor: &[u8]| {
        let page = send::state_page(&a, cursor, 50)?;
        super::super::next_cursor(&page)
    };
    let held = || replication_of(&a).outgoing.lock().len();
    let cursors: Vec<_> = (0..MAX_TRANSFERS)
        .map(|_| next(&[]).unwrap().unwrap())
        .collect();
    let full = next(&[]).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Unavailable);
    assert!(
        full.to_string().contains("8 replicas are joining"),
        "{full}"
    );
    // A state transfer in progress continues; an idle one is replaced.
    clock.0.fetch_add(IDLE_TIMEOUT_MS, Ordering::Relaxed);
    for cursor in &cursors[1..] {
        next(cursor).unwrap();
    }
    let last = &next(&[]).unwrap().unwrap();
    assert_eq!(held(), MAX_TRANSFERS);
    let gone = next(&cursors[0]).unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Unavailable);
    assert!(
        gone.to_string().contains("from its first page on"),
        "{gone}"
    );
    assert_eq!(next(&[]).unwrap_err().kind(), ErrorKind::Unavailable);
    // The same page may be requested twice.
    assert_eq!(next(last).unwrap(), next(last).unwrap());
    clock.0.fetch_add(PAGE_TIMEOUT_MS - 1, Ordering::Relaxed);
    next(last).unwrap();
    clock.0.fetch_add(PAGE_TIMEOUT_MS - 1, Ordering::Relaxed);
    next(last).unwrap();
    assert_eq!((held(), outgoing::outgoing_transfers(&a).0), (1, 1));
    clock.0.fetch_add(PAGE_TIMEOUT_MS, Ordering::Relaxed);
    outgoing::release_idle_reads(&a);
    assert_eq!(held(), 0);
    assert_eq!(next(last).unwrap_err().kind(), ErrorKind::Unavailable);
    // Nor does a state transfer that continues to ask keep a version for ever.
    let cursor = next(&[]).unwrap().unwrap();
    for _ in 0..TRANSFER_TIMEOUT_MS / (PAGE_TIMEOUT_MS / 2) - 1 {
        clock.0.fetch_add(PAGE_TIMEOUT_MS / 2, Ordering::Relaxed);
        next(&cursor).unwrap();
    }
    clock.0.fetch_add(PAGE_TIMEOUT_MS / 2, Ordering::Relaxed);
    assert_eq!(next(&cursor).unwrap_err().kind(), ErrorKind::Unavailable);
    for cursor in [&[1_u8][..], &[0; 16], &[9; 17]] {
        assert!(next(cursor).is_err());
    }
    // The last page may be lost on its way.
    let mut cursor = next(&[]).unwrap();
    let mut before = None;
    while let Some(from) = cursor {
        cursor = next(&from).unwrap();
        before = Some(from);
    }
    assert_eq!((next(&before.unwrap()).unwrap(), held()), (None, 1));
    clock.0.fetch_add(IDLE_TIMEOUT_MS, Ordering::Relaxed);
    assert_eq!(outgoing::outgoing_transfers(&a), (0, 0));
    // The receiver starts again, and gets everything.
    let b = open();
    let mut transfer = receive::begin_state_transfer(&b).unwrap();
    let page = send::state_page(&a, &[], 50).unwrap();
    transfer.merge_page(&b, &page).unwrap();
    clock.0.fetch_add(PAGE_TIMEOUT_MS, Ordering::Relaxed);
    assert!(send::state_page(&a, transfer.cursor(), 50).is_err());
    drop(transfer);
    assert!(b.is_joining());
    let mut transfer = receive::begin_state_transfer(&b).unwrap();
    while !transfer
        .merge_page(&b, &send::state_page(&a, transfer.cursor(), 50).unwrap())
        .unwrap()
    {}
    drop(transfer);
    assert_eq!(dump(&a), dump(&b));
}

/// A node is kept by an older relationship that keeps its ends, and was created again in addition: a second such
/// relationship deletes nothing of the first one, in its replica or others.
#[test]
fn a_life_that_a_relationship_rests_on_is_not_replaced() {
    let (a, b, e) = (open(), open(), open());
    b.keep_endpoints("NEEDS", true).unwrap();
    let relate = || {
        write(&b, |tx| {
            let kind = tx.name_ids().intern_type("NEEDS").unwrap();
            let (from, to) = (find(tx, "d"), find(tx, "m"));
            tx.graph_mut()
                .create_relationship(kind, from, to, &Map::new())
                .unwrap();
        });
    };
    let all = || {
        for _ in 0..2 {
            both(&a, &b);
            both(&b, &e);
            both(&a, &e);
        }
        for store in [&a, &b, &e] {
            members::trim_log(store).unwrap();
        }
    };
    write(&e, |tx| person(tx, "d", &[]));
    write(&a, |tx| {
        person(tx, "d", &[]);
        person(tx, "m", &[]);
    });
    both(&a, &b);
    relate();
    write(&a, |tx| {
        let d = find(tx, "d");
        tx.graph_mut().delete_node(d, true).unwrap();
    });
    all();
    let count = |store: &DataStore| {
        let lines = dump(store);
        let links = lines.iter().filter(|line| line.contains("-NEEDS->"));
        links.count()
    };
    assert_eq!(count(&a), 1);
    for made in 2..12 {
        relate();
        all();
        for store in [&a, &b, &e] {
            assert_eq!(count(store), made);
        }
    }
    // Where no relationship depends on them alone, creations do not accumulate.
    write(&a, |tx| {
        let (d, m) = (find(tx, "d"), find(tx, "m"));
        tx.graph_mut().delete_node(d, true).unwrap();
        tx.graph_mut().delete_node(m, true).unwrap();
    });
    all();
    write(&a, |tx| {
        person(tx, "d", &[]);
        person(tx, "m", &[]);
    });
    all();
    for _ in 0..10 {
        relate();
        all();
    }
    let tx = a.begin(Access::Read).unwrap();
    let metadata = records::node_metadata(&tx, find(&tx, "d"))
        .unwrap()
        .unwrap();
    assert!(metadata.creations.len() <= 2, "{:?}", metadata.creations);
    assert_eq!(count(&e), 10);
}

/// A bucket that is older than replication keeps its options, whatever options it is created with elsewhere.
#[test]
fn a_bucket_of_before_keeps_what_it_was_made_as() {
    let several = BucketOptions::multi_value();
    let a = crate::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
    write(&a, |tx| {
        tx.kv_mut().create_bucket("k", several).unwrap();
    });
    begin::begin_replication(&a).unwrap();
    let (b, c) = (open(), open());
    write(&b, |tx| {
        tx.kv_mut()
            .create_bucket("k", BucketOptions::default())
            .unwrap();
    });
    both(&b, &c);
    // Dropped during a put: a map without a creation, because it is not empty.
    write(&b, |tx| assert!(tx.kv_mut().drop_bucket("k").unwrap()));
    write(&c, |tx| tx.kv_mut().put("k", b"x", b"1").unwrap());
    both(&b, &c);
    let page = send::state_page(&b, &[], 1 << 20).unwrap();
    assert!(
        receive::begin_state_transfer(&a)
            .unwrap()
            .merge_page(&a, &page)
            .unwrap()
    );
    let page = send::state_page(&a, &[], 1 << 20).unwrap();
    assert!(
        receive::begin_state_transfer(&b)
            .unwrap()
            .merge_page(&b, &page)
            .unwrap()
    );
    both(&a, &b);
    write(&b, |tx| tx.kv_mut().delete("k", b"x").unwrap());
    both(&a, &b);
    for store in [&a, &b] {
        let tx = store.begin(Access::Read).unwrap();
        let buckets = tx.kv().list_buckets().unwrap();
        let kinds: Vec<_> = buckets.iter().map(|(_, options)| options.kind).collect();
        assert_eq!(kinds, [BucketKind::Multi]);
        assert_eq!(conflicts::conflicts(&tx).unwrap(), []);
    }
}

/// 0.0 and -0.0 are equal, but differ in bytes: of two versions the same one is read in all replicas, bit by bit.
#[test]
fn equal_values_of_other_bytes_are_merged_too() {
    for later_is_negative in [true, false] {
        let (a, b) = (open(), open());
        write(&a, |tx| {
            let (one, other) = (person(tx, "d", &[]), person(tx, "m", &[]));
            let kind = tx.name_ids().intern_type("T").unwrap();
            tx.graph_mut()
                .create_relationship(kind, one, other, &Map::new())
                .unwrap();
        });
        both(&a, &b);
        for (store, negative) in [(&a, !later_is_negative), (&b, later_is_negative)] {
            let value = if negative { -0.0 } else { 0.0 };
            write(store, |tx| {
                let d = find(tx, "d");
                tx.graph_mut()
                    .set_node_property(d, &["p"], Value::Float(value))
                    .unwrap();
                let mut rels = Vec::new();
                tx.scan_relationships(None, None, 9, &mut rels).unwrap();
                let properties = map(&[("p", Value::Float(value))]);
                tx.graph_mut()
                    .replace_relationship_properties(rels[0].id, &properties)
                    .unwrap();
            });
        }
        both(&a, &b);
        assert_eq!(
            scrub::differing(&a, &scrub::fingerprints(&b).unwrap()).unwrap(),
            Some(vec![])
        );
        let bits = |store: &DataStore| {
            let tx = store.begin(Access::Read).unwrap();
            let mut contents = Vec::new();
            tx.node_contents(&[find(&tx, "d")], &mut contents).unwrap();
            let content = contents.pop().flatten().unwrap();
            match content.properties.get("p") {
                Some(Value::Float(float)) => float.to_bits(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(bits(&a), bits(&b));
    }
}

/// Nine concurrent state transfers, a page each in turn, all complete.
#[test]
fn more_joins_than_can_be_served_all_complete() {
    let a = open();
    for key in ["a", "b", "c", "d", "e", "f"] {
        write(&a, |tx| person(tx, key, &[]));
    }
    let others: Vec<_> = (0..MAX_TRANSFERS + 3).map(|_| open()).collect();
    let mut transfer: Vec<_> = others.iter().map(|_| None).collect();
    let mut done = vec![false; others.len()];
    for round in 0.. {
        assert!(round < 100, "{done:?}");
        for (at, other) in others
            .iter()
            .enumerate()
            .filter(|(at, _)| !done[*at])
            .collect::<Vec<_>>()
        {
            let own: &mut crate::StateTransfer =
                transfer[at].get_or_insert_with(|| receive::begin_state_transfer(other).unwrap());
            match send::state_page(&a, own.cursor(), 50) {
                Ok(page) => done[at] = own.merge_page(other, &page).unwrap(),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unavailable);
                    assert_eq!(own.pages(), 0, "a join in progress is not replaced");
                }
            }
        }
        if done.iter().all(|done| *done) {
            break;
        }
    }
    drop(transfer);
    for other in &others {
        assert_eq!(dump(&a), dump(other));
    }
}

/// No reader sees a partly merged state: neither one that checked a moment before, nor a reader of an earlier version,
/// nor a watch of a bucket.
#[test]
fn a_partly_joined_state_is_not_visible() {
    let (a, b) = (open(), open());
    for key in ["a", "b", "c", "d", "e", "f"] {
        write(&a, |tx| {
            person(tx, key, &[]);
            tx.kv_mut().put("left", key.as_bytes(), b"1").unwrap();
        });
    }
    write(&b, |tx| person(tx, "own", &[]));
    let mut watch = b.watch("left", isomer_data::WatchScope::All, None).unwrap();
    let mut transfer = receive::begin_state_transfer(&b).unwrap();
    let wait = std::time::Duration::ZERO;
    for _ in 0..200 {
        let page = send::state_page(&a, transfer.cursor(), 50).unwrap();
        if transfer.merge_page(&b, &page).unwrap() {
            break;
        }
        assert!(
            watch.next_within(wait).unwrap().is_none(),
            "half a state is visible"
        );
        let version = b.engine().version();
        assert_eq!(
            b.begin(Access::Read).err().map(|error| error.kind()),
            Some(ErrorKind::Unavailable)
        );
        assert_eq!(
            b.begin_at(version, None).err().map(|error| error.kind()),
            Some(ErrorKind::Unavailable)
        );
        // As if they had checked before it began.
        replica_state(&b).forget_joining(true);
        assert_eq!(
            send::state_page(&b, &[], 50).unwrap_err().kind(),
            ErrorKind::Unavailable
        );
        replica_state(&b).forget_joining(false);
    }
    drop(transfer);
    assert!(!b.is_joining());
    let mut count = 0;
    while watch.next_within(wait).unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 6);
    let held = dump(&b);
    assert!(dump(&a).iter().all(|line| held.contains(line)));
    assert!(held.iter().any(|line| line.contains("own")));
}

/// The creations on which relationships depend are read once, however many relationships are created at a node.
#[test]
fn relationships_that_keep_a_hub_cost_the_same() {
    let (a, b) = (open(), open());
    a.keep_endpoints("NEEDS", true).unwrap();
    write(&a, |tx| {
        person(tx, "hub", &[]);
        person(tx, "x", &[]);
    });
    both(&a, &b);
    let looked = || replication_of(&a).creation_cache.lock().relationships_read;
    let relate = || {
        write(&a, |tx| {
            let (hub, x) = (find(tx, "hub"), find(tx, "x"));
            let needs = tx.name_ids().intern_type("NEEDS").unwrap();
            tx.graph_mut()
                .create_relationship(needs, x, hub, &Map::new())
                .unwrap();
        });
    };
    for _ in 0..300 {
        relate();
        members::trim_log(&a).unwrap();
        // All members have seen it, as far as A knows.
        let seen = a
            .numbering()
            .seen_in(&*a.engine().snapshot().unwrap(), None)
            .unwrap();
        replica_state(&a).set_stable(seen);
    }
    assert!(looked() <= 10, "{} relationships were looked at", looked());
    send(&a, &b);
    assert_eq!(dump(&a), dump(&b));
    // Merged relationships may depend on other creations.
    write(&b, |tx| {
        let (hub, x) = (find(tx, "hub"), find(tx, "x"));
        let knows = tx.name_ids().intern_type("KNOWS").unwrap();
        tx.graph_mut()
            .create_relationship(knows, x, hub, &Map::new())
            .unwrap();
    });
    send(&b, &a);
    let before = looked();
    relate();
    assert!(looked() > before);
}

/// Constraints that keep ends have unique names.
#[test]
fn endpoint_constraints_have_unique_names() {
    let a = open();
    a.change_schema(isomer_data::SchemaChange::CreateIndex {
        spec: isomer_data::IndexSpec {
            name: Some("T_keep_endpoints".into()),
            scope: isomer_data::ScopeName::label("L"),
            fields: vec![isomer_data::IndexField {
                path: isomer_data::FieldPath::top("p"),
                each: false,
            }],
            unique: false,
        },
        if_not_exists: false,
    })
    .unwrap();
    let taken = a.keep_endpoints("T", true).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Exists, "{taken}");
    assert!(a.endpoint_keepers().is_empty());
    a.keep_endpoints("U", true).unwrap();
    a.keep_endpoints("U", true).unwrap();
    assert_eq!(a.endpoint_keepers().len(), 1);
}
