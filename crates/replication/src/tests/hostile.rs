//! Malicious and faulty peers.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use isomer_data::{
    Access, Clock, DataError, DataStore, DataStoreOptions, ErrorKind, Transaction, Vector,
    internals::own_replica,
};
use isomer_storage::MemoryEngine;
use isomer_value::Value;

use super::{
    dump::dump,
    small::{both, copy, map, open, send, write},
};
use crate::{
    PushedPage, begin, conflicts, exchange,
    mapping::Mapper,
    next_cursor, scrub,
    state_transfer::{push, receive, send},
    wire::{self, Outgoing},
};

fn add(tx: &mut Transaction, key: i64) -> isomer_value::NodeId {
    let label = tx.name_ids().intern_label("L").unwrap();
    tx.graph_mut()
        .create_node(&[label], &map(&[("_key", Value::Int(key))]))
        .unwrap()
}

fn remove(tx: &mut Transaction, key: i64) {
    let node = tx.documents().node("L", &Value::Int(key)).unwrap().unwrap();
    tx.graph_mut().delete_node(node, true).unwrap();
}

/// A state that is being pushed.
struct Push<'s> {
    from: &'s DataStore,
    session: u128,
    cursor: Vec<u8>,
}

impl<'s> Push<'s> {
    fn new(from: &'s DataStore) -> Self {
        Self {
            from,
            session: 0,
            cursor: Vec::new(),
        }
    }

    /// Pushes the next page; returns whether it was the last.
    fn page(&mut self, to: &DataStore) -> Result<bool, DataError> {
        let page = send::state_page(self.from, &self.cursor, 100).unwrap();
        let (session, is_last) = push::merge_pushed(
            to,
            &PushedPage {
                session: self.session,
                from: self.from.replica().unwrap().id,
                cursor: &self.cursor,
                page: &page,
            },
        )?;
        self.session = session;
        self.cursor = next_cursor(&page).unwrap().unwrap_or_default();
        Ok(is_last)
    }

    fn rest(&mut self, to: &DataStore) {
        while !self.page(to).unwrap() {}
    }
}

/// Two peers that push their states concurrently do not disturb each other.
#[test]
fn snapshots_of_two_peers_are_not_mixed() {
    let (p1, p2, s) = (open(), open(), open());
    write(&p1, |tx| {
        (0..20).for_each(|key| {
            add(tx, key);
        })
    });
    both(&p1, &p2);
    write(&p2, |tx| {
        (20..40).for_each(|key| {
            add(tx, key);
        })
    });
    let (mut one, mut two) = (Push::new(&p1), Push::new(&p2));
    for _ in 0..3 {
        assert!(!one.page(&s).unwrap());
    }
    // Nothing of it is visible yet, and writing continues.
    write(&s, |tx| add(tx, 100));
    let refused = two.page(&s).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    // A page of another session, and one that does not follow.
    let stranger = push::merge_pushed(
        &s,
        &PushedPage {
            session: one.session,
            from: p2.replica().unwrap().id,
            cursor: &one.cursor,
            page: &send::state_page(&p2, &[], 100).unwrap(),
        },
    );
    assert_eq!(stranger.unwrap_err().kind(), ErrorKind::Unavailable);
    one.rest(&s);
    assert_eq!(dump(&s).len(), 21);
    two.rest(&s);
    assert_eq!(dump(&s).len(), 41);
    send(&s, &p1);
    send(&p2, &p1);
    both(&s, &p2);
    both(&s, &p1);
    // The response to a page was lost: it is sent again.
    let t = open();
    let mut push = Push::new(&p1);
    push.page(&t).unwrap();
    let again = push.cursor.clone();
    push.page(&t).unwrap();
    push.cursor = again;
    push.rest(&t);
    assert_eq!(dump(&t), dump(&p1));
    // Its first page never arrived.
    let mut push = Push::new(&p1);
    push.session = 7;
    assert_eq!(push.page(&t).unwrap_err().kind(), ErrorKind::Unavailable);
}

/// A clock that is set back while time passes.
#[derive(Debug)]
struct SetBack(AtomicU64);

impl Clock for SetBack {
    fn now_ms(&self) -> u64 {
        isomer_data::SystemClock.now_ms() - self.passed_ms()
    }

    fn passed_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A push without its next page ends after a time, also where the clock is set back.
#[test]
fn an_abandoned_push_ends() {
    let (p1, p2) = (open(), open());
    write(&p1, |tx| {
        (0..20).for_each(|key| {
            add(tx, key);
        })
    });
    both(&p1, &p2);
    let clock = Arc::new(SetBack(AtomicU64::new(0)));
    let mut options = DataStoreOptions::default();
    options.clock = clock.clone();
    let s = crate::open(Arc::new(MemoryEngine::new()), options).unwrap();
    begin::begin_replication(&s).unwrap();
    assert!(!Push::new(&p1).page(&s).unwrap());
    clock.0.store(push::PUSH_TIMEOUT_MS - 1, Ordering::Relaxed);
    let refused = Push::new(&p2).page(&s).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    clock.0.store(push::PUSH_TIMEOUT_MS, Ordering::Relaxed);
    Push::new(&p2).rest(&s);
    assert_eq!(dump(&s).len(), 20);
}

/// A peer that leaves in the middle leaves an available database, and another one may push.
#[test]
fn an_interrupted_snapshot_removes_nothing() {
    let (p1, p2, s) = (open(), open(), open());
    write(&p1, |tx| {
        (0..20).for_each(|key| {
            add(tx, key);
        })
    });
    write(&p2, |tx| {
        (20..40).for_each(|key| {
            add(tx, key);
        })
    });
    write(&s, |tx| add(tx, 100));
    let mut one = Push::new(&p1);
    one.page(&s).unwrap();
    one.page(&s).unwrap();
    assert!(!s.is_joining());
    assert_eq!(dump(&s).len(), 1);
    // It may start again any number of times.
    let mut one = Push::new(&p1);
    one.page(&s).unwrap();
    one.rest(&s);
    Push::new(&p2).rest(&s);
    assert!(!s.is_joining());
    assert_eq!(dump(&s).len(), 41);
}

/// Records that others remove during a state transfer do not come back with it.
#[test]
fn nothing_is_applied_while_a_state_is_joined() {
    let (a, b, c) = (open(), open(), open());
    write(&a, |tx| {
        add(tx, 1);
        add(tx, 2);
    });
    both(&a, &c);
    write(&c, |tx| remove(tx, 1));
    let mut transfer = receive::begin_state_transfer(&b).unwrap();
    let page = send::state_page(&a, &[], 1 << 20).unwrap();
    let news = exchange::entries_for(&c, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    let refused = exchange::apply_entries(&b, &news).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert!(receive::begin_state_transfer(&b).is_err());
    assert!(transfer.merge_page(&b, &page).unwrap());
    drop(transfer);
    assert_eq!(dump(&b).len(), 2);
    both(&c, &b);
    assert_eq!(dump(&b).len(), 1);
}

/// Records written and removed here between two pages stay removed.
#[test]
fn records_removed_during_a_state_transfer_stay_removed() {
    let (a, b) = (open(), open());
    both(&a, &b);
    let mut transfer = receive::begin_state_transfer(&b).unwrap();
    write(&b, |tx| add(tx, 1));
    send(&b, &a);
    let page = send::state_page(&a, &[], 1 << 20).unwrap();
    write(&b, |tx| remove(tx, 1));
    transfer.merge_page(&b, &page).unwrap();
    drop(transfer);
    assert_eq!(dump(&b), Vec::<String>::new());
    both(&a, &b);
    assert_eq!(dump(&a), Vec::<String>::new());
}

/// Numbers that no replica can have given are refused, and not kept.
#[test]
fn impossible_numbers_are_refused() {
    let (a, b) = (open(), open());
    both(&a, &b);
    let name = own_replica(&a).own().unwrap();
    let forged = |upto: u64, except: &[u64]| {
        let mut page = Outgoing::new(&a);
        let spelled = page.replica(name).unwrap();
        let mut content = vec![];
        for number in [1, u64::from(spelled.0), upto, except.len() as u64] {
            isomer_layout::keyspace::push_id(&mut content, number);
        }
        for number in except.iter().chain(&[u64::from(spelled.0)]) {
            isomer_layout::keyspace::push_id(&mut content, *number);
        }
        page.push(1, &content);
        page.finish()
    };
    assert!(exchange::read_greeting(&b, &forged(5, &[3])).is_ok());
    for (upto, except) in [(5, &[0][..]), (u64::MAX, &[]), (1 << 60, &[7])] {
        let refused = exchange::read_greeting(&b, &forged(upto, except)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    for upto in [u64::MAX, 1 << 60] {
        let mut page = Outgoing::new(&a);
        let mut content = Vec::new();
        isomer_layout::keyspace::push_id(&mut content, page.replica(name).unwrap().0.into());
        isomer_layout::keyspace::push_id(&mut content, 0);
        isomer_layout::keyspace::push_id(&mut content, upto);
        page.push(3, &content);
        let refused = exchange::apply_entries(&b, &page.finish()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    let mut vector = Vector::new();
    vector.set(name, 5, vec![0, 3]);
    assert_eq!(vector.reach(name), 2);
    write(&a, |tx| add(tx, 1));
    both(&a, &b);
}

/// A state with stamps from the future is refused; writes after a state transfer are later than everything in it.
#[test]
fn times_in_snapshots_are_checked() {
    let minutes = |ahead: u64| {
        let a = open();
        let now = a.options().clock.now_ms();
        own_replica(&a).advance_time((now + ahead * 60_000) << 16);
        write(&a, |tx| add(tx, 1));
        a
    };
    let (ahead, far) = (minutes(4), minutes(60));
    let b = open();
    let page = send::state_page(&far, &[], 1 << 20).unwrap();
    let refused = receive::begin_state_transfer(&b)
        .unwrap()
        .merge_page(&b, &page)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    assert_eq!(dump(&b), Vec::<String>::new());
    let page = send::state_page(&ahead, &[], 1 << 20).unwrap();
    receive::begin_state_transfer(&b)
        .unwrap()
        .merge_page(&b, &page)
        .unwrap();
    let now = b.options().clock.now_ms();
    assert!(own_replica(&b).tick(now) >> 16 > now + 3 * 60_000);
}

/// A greeting of ten thousand origins is refused as a whole: none of their names is kept.
#[test]
fn ten_thousand_origins_are_refused() {
    let (a, b) = (open(), open());
    both(&a, &b);
    let mut page = vec![wire::FORMAT, 0, 0, 0, 0];
    isomer_layout::keyspace::push_id(&mut page, 10_000);
    let mut vector = Vector::new();
    for number in 0..10_000_u32 {
        page.extend_from_slice(&[8; 12]);
        page.extend_from_slice(&number.to_be_bytes());
        page.extend_from_slice(&0_u32.to_be_bytes());
        vector.set(isomer_data::ReplicaNo(number), 7, Vec::new());
    }
    let mut content = Vec::new();
    vector.push_local(&mut content);
    isomer_layout::keyspace::push_id(&mut content, 0);
    page.push(1);
    isomer_layout::replicated::codec::push_bytes(&mut page, &content);
    for refused in [
        exchange::read_greeting(&b, &page).unwrap_err(),
        exchange::entries_for(&b, &page, 1 << 20).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    }
    assert_eq!(own_replica(&b).number_of(&[8; 16]), None);
    write(&a, |tx| add(tx, 1));
    both(&a, &b);
}

/// A truncated page: its whole transactions are applied, and the next exchange brings the rest.
#[test]
fn pages_that_are_cut_off() {
    let a = open();
    for key in 0..4 {
        write(&a, |tx| add(tx, key));
    }
    let greeter = open();
    let page = exchange::entries_for(&a, &exchange::greeting(&greeter).unwrap(), 1 << 20).unwrap();
    for length in 0..page.len() {
        let b = open();
        let Err(refused) = exchange::apply_entries(&b, &page[..length]) else {
            // It is cut at the end of an item.
            assert!(wire::items(&page[..length]).is_ok());
            both(&a, &b);
            continue;
        };
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        assert_eq!(dump(&b), Vec::<String>::new(), "{length}");
        both(&a, &b);
    }
}

/// Repeated pages have no effect, also after their items were removed.
#[test]
fn repeated_pages_are_harmless() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, 1));
    let page = exchange::entries_for(&a, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    assert_eq!(exchange::apply_entries(&b, &page).unwrap().transactions, 1);
    write(&b, |tx| remove(tx, 1));
    let again = exchange::apply_entries(&b, &page).unwrap();
    assert_eq!((again.transactions, again.known), (0, 1));
    both(&a, &b);
    assert!(!dump(&a).iter().any(|line| line.starts_with("node")));
}

/// A page from which a transaction was removed is not accepted as one in which it was given up.
#[test]
fn a_transaction_that_is_missing_was_not_given_up() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, 1));
    // A number that is given up.
    drop(a.numbering().take().unwrap());
    let page = exchange::entries_for(&a, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    let items = wire::items(&page).unwrap();
    let mut without = page[..page.len() - items.len()].to_vec();
    let (mut rest, mut tags) = (items, Vec::new());
    loop {
        let before = rest;
        let Some((tag, _)) = wire::take_item(&mut rest).unwrap() else {
            break;
        };
        tags.push(tag);
        if tag != 2 {
            without.extend_from_slice(&before[..before.len() - rest.len()]);
        }
    }
    // The number of the beginning, the transaction, and the one that was given up.
    assert_eq!(tags, [3, 2, 3]);
    let refused = exchange::apply_entries(&b, &without).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    both(&a, &b);
    assert_eq!(
        dump(&b)
            .iter()
            .filter(|line| line.starts_with("node"))
            .count(),
        1
    );
}

/// Another format is refused by name, older ones too.
#[test]
fn another_format_is_refused_by_name() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, 1));
    let page = exchange::entries_for(&a, &exchange::greeting(&b).unwrap(), 1 << 20).unwrap();
    for format in [1, 2, 4] {
        let mut other = page.clone();
        other[0] = format;
        let refused = exchange::apply_entries(&b, &other).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        assert!(
            refused.to_string().contains(&format!("format {format}")),
            "{refused}"
        );
    }
    both(&a, &b);
}

/// A constraint of one replica that another one does not have does not stop replication: the record arrives, and is
/// listed.
#[test]
fn a_peer_with_another_schema() {
    let (a, b) = (open(), open());
    let spec = isomer_data::ConstraintSpec {
        name: None,
        scope: isomer_data::ScopeName::label("L"),
        kind: isomer_data::ConstraintKind::Required {
            path: isomer_data::FieldPath::top("demanded"),
        },
        unique_fields: Vec::new(),
    };
    b.change_schema(isomer_data::SchemaChange::CreateConstraint {
        spec,
        if_not_exists: false,
    })
    .unwrap();
    write(&a, |tx| {
        let label = tx.name_ids().intern_label("L").unwrap();
        tx.graph_mut()
            .create_node(&[label], &isomer_value::Map::new())
            .unwrap();
    });
    both(&a, &b);
    let conflicts = conflicts::conflicts(&b.begin(Access::Read).unwrap()).unwrap();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].kind, isomer_data::ConflictKind::Constraint);
    assert_eq!(
        conflicts::conflicts(&a.begin(Access::Read).unwrap()).unwrap(),
        []
    );
}

/// A page that names replicas without saying anything of them enters none; one that names too many is refused as a
/// whole.
#[test]
fn names_of_replicas_are_not_used_up_by_pages_that_only_name_them() {
    let (a, b) = (open(), open());
    both(&a, &b);
    let page_with = |count: u32| {
        let mut page = vec![wire::FORMAT, 0, 0, 0, 0];
        isomer_layout::keyspace::push_id(&mut page, count.into());
        for number in 0..count {
            page.extend_from_slice(&[9; 12]);
            page.extend_from_slice(&number.to_be_bytes());
            page.extend_from_slice(&0_u32.to_be_bytes());
        }
        page
    };
    let refused = exchange::apply_entries(&b, &page_with(2000)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit, "{refused}");
    assert_eq!(
        exchange::apply_entries(&b, &page_with(1000))
            .unwrap()
            .transactions,
        0
    );
    let c = open();
    write(&c, |tx| add(tx, 1));
    both(&b, &c);
    assert!(wire::items(&page_with(3)).unwrap().is_empty());
}

/// Two nodes of one transaction that had one key one after the other are two nodes in all replicas.
#[test]
fn keys_that_change_owner_within_a_transaction() {
    let set_key = |tx: &mut Transaction, node, key: i64| {
        tx.graph_mut()
            .set_node_property(node, &["_key"], Value::Int(key))
            .unwrap();
    };
    let (a, b) = (open(), open());
    write(&a, |tx| {
        let one = add(tx, 1);
        set_key(tx, one, 2);
        let two = add(tx, 1);
        set_key(tx, two, 3);
    });
    both(&a, &b);
    assert_eq!(dump(&a).len(), 2, "{:?}", dump(&a));
    // The label changes its node.
    write(&a, |tx| {
        let (l, m) = (
            tx.name_ids().intern_label("L").unwrap(),
            tx.name_ids().intern_label("M").unwrap(),
        );
        for _ in 0..2 {
            let node = add(tx, 7);
            tx.graph_mut().remove_label(node, l).unwrap();
            tx.graph_mut()
                .set_node_property(node, &["_key"], Value::Null)
                .unwrap();
            tx.graph_mut().add_label(node, m).unwrap();
        }
    });
    both(&a, &b);
    assert_eq!(dump(&a).len(), 4, "{:?}", dump(&a));
    // An older node releases its key.
    let old = crate::open(
        std::sync::Arc::new(isomer_storage::MemoryEngine::new()),
        isomer_data::DataStoreOptions::default(),
    )
    .unwrap();
    let first = write(&old, |tx| add(tx, 1));
    begin::begin_replication(&old).unwrap();
    write(&old, |tx| {
        set_key(tx, first, 2);
        let second = add(tx, 1);
        set_key(tx, second, 3);
    });
    let c = open();
    let page = send::state_page(&old, &[], 1 << 20).unwrap();
    receive::begin_state_transfer(&c)
        .unwrap()
        .merge_page(&c, &page)
        .unwrap();
    both(&old, &c);
    assert_eq!(dump(&c).len(), 2, "{:?}", dump(&c));
    // Created, deleted and created again in one transaction, it is the node of that key.
    let (d, e) = (open(), open());
    write(&d, |tx| {
        add(tx, 1);
        remove(tx, 1);
        add(tx, 1);
    });
    write(&e, |tx| add(tx, 1));
    both(&d, &e);
    assert_eq!(dump(&d).len(), 1);
}

/// Earlier numbers that a backup lacks are given up once every member has reported that it does not have them, not
/// earlier; transactions that depend on them wait without an error.
#[test]
fn numbers_lost_in_a_restore_are_requested_from_all_members() {
    for committed in [false, true] {
        let (a, b, c) = (open(), open(), open());
        write(&a, |tx| add(tx, 1));
        both(&a, &b);
        both(&a, &c);
        let count = |tx: &mut Transaction| {
            let node = tx.documents().node("L", &Value::Int(1)).unwrap().unwrap();
            let owner = isomer_data::ConvergentOwner::Node(node);
            tx.fields_mut()
                .converge(owner, &["n"], &isomer_data::ConvergentOp::Count(5), None)
                .unwrap();
        };
        let mut slow = a.begin(isomer_data::Access::Write).unwrap();
        count(&mut slow);
        write(&a, |tx| add(tx, 2));
        let backup = copy(&a);
        if committed {
            slow.commit().unwrap();
            both(&a, &b);
        } else {
            drop(slow);
        }
        drop(a);
        let a = crate::open(backup, isomer_data::DataStoreOptions::default()).unwrap();
        a.numbering().begin_epoch().unwrap();
        write(&a, |tx| add(tx, 3));
        // A replica that lacks it, too, comes first.
        let exchange = |other: &DataStore| {
            for (from, to) in [(other, &a), (&a, other)] {
                let page =
                    exchange::entries_for(from, &exchange::greeting(to).unwrap(), 1 << 20).unwrap();
                exchange::apply_entries(to, &page).unwrap();
            }
            exchange::give_up_unknown(&a).unwrap();
        };
        exchange(&c);
        exchange(&b);
        exchange(&c);
        exchange(&b);
        assert_eq!(dump(&a), dump(&b));
        assert_eq!(dump(&a), dump(&c));
        let lines = dump(&a);
        assert_eq!(lines.len(), 3, "{lines:?}");
        let counted = lines.iter().any(|line| line.contains("n: Int(5)"));
        assert_eq!(counted, committed, "{lines:?}");
    }
}

/// Records removed after two replicas were compared do not come back with the repair.
#[test]
fn a_repair_of_what_was_written_since_is_refused() {
    let (a, b) = (open(), open());
    write(&a, |tx| add(tx, 1));
    both(&a, &b);
    let all: Vec<u16> = (0..crate::RANGE_COUNT as u16).collect();
    let page = scrub::ranges_page(&a, &all).unwrap();
    scrub::repair(&b, &page).unwrap();
    write(&b, |tx| remove(tx, 1));
    let refused = scrub::repair(&b, &page).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    assert_eq!(dump(&b), Vec::<String>::new());
    both(&a, &b);
}
