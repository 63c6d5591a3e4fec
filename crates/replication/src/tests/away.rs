//! Members that stay away for longer than transactions are kept for them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use isomer_data::{Access, Clock, ConvergentOp, ConvergentOwner, DataStore, DataStoreOptions};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::Value;

use super::{
    dump::dump,
    small::{both, find, person, send, write},
};
use crate::{
    MemberInfo, begin, conflicts,
    member::LOG_RETENTION_MS,
    members, scrub,
    state_transfer::{receive, send},
    status,
};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug)]
struct Set(AtomicU64);

impl Clock for Set {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn passed_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct World {
    clock: Arc<Set>,
    engine: Arc<MemoryEngine>,
    a: DataStore,
    b: DataStore,
    c: DataStore,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(Set(AtomicU64::new(1_700_000_000_000)));
        let engine = Arc::new(MemoryEngine::new());
        let open = || replica(&clock, Arc::new(MemoryEngine::new()));
        let (a, b, c) = (replica(&clock, engine.clone()), open(), open());
        write(&a, |tx| person(tx, "ada", &[("p", Value::Int(0))]));
        let world = Self {
            clock,
            engine,
            a,
            b,
            c,
        };
        count(&world.a, 1);
        for _ in 0..3 {
            both(&world.a, &world.b);
            both(&world.a, &world.c);
        }
        world.rest();
        assert_eq!(world.log(), 0, "everybody has everything");
        world
    }

    fn pass(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
    }

    fn rest(&self) {
        members::trim_log(&self.a).unwrap();
        members::trim_log(&self.b).unwrap();
    }

    fn log(&self) -> u64 {
        status::replication_status(&self.a).unwrap().log_entries
    }

    fn member(&self, store: &DataStore) -> MemberInfo {
        let id = store.replica().unwrap().id;
        let members = members::replica_members(&self.a).unwrap();
        members.into_iter().find(|one| one.id == id).unwrap()
    }
}

fn replica(clock: &Arc<Set>, engine: Arc<MemoryEngine>) -> DataStore {
    let mut options = DataStoreOptions::default();
    options.clock = clock.clone();
    let engine: Arc<dyn Engine> = engine;
    let store = crate::open(engine, options).unwrap();
    begin::begin_replication(&store).unwrap();
    store
}

fn change(store: &DataStore, op: &ConvergentOp) {
    write(store, |tx| {
        let owner = ConvergentOwner::Node(find(tx, "ada"));
        tx.fields_mut().converge(owner, &["n"], op, None).unwrap();
    });
}

fn count(store: &DataStore, by: i64) {
    change(store, &ConvergentOp::Count(by));
}

fn set(store: &DataStore, value: i64) {
    write(store, |tx| {
        let ada = find(tx, "ada");
        tx.graph_mut()
            .set_node_property(ada, &["p"], Value::Int(value))
            .unwrap();
    });
}

/// Exchanges in both directions, by state transfer where the logs do not reach back.
fn exchange_both(one: &DataStore, other: &DataStore) -> bool {
    let mut merged = false;
    for (from, to) in [(one, other), (other, one)] {
        if send(from, to).behind {
            merged = true;
            let mut transfer = receive::begin_state_transfer(to).unwrap();
            loop {
                let page = send::state_page(from, transfer.cursor(), 200).unwrap();
                if transfer.merge_page(to, &page).unwrap() {
                    break;
                }
            }
            drop(transfer);
            send(from, to);
        }
    }
    send(one, other);
    merged
}

/// The log is kept for a member that does not connect until its retention is over, also over restarts; then it is
/// trimmed, and the member returns by state transfer. What it wrote in between is kept, and what it removed of a
/// counter is exactly what it had seen.
#[test]
fn a_member_that_was_away_comes_back_by_a_snapshot() {
    let mut world = World::new();
    assert_eq!(members::log_retention_ms(&world.a), LOG_RETENTION_MS);
    members::set_log_retention(&world.a, 30 * DAY_MS).unwrap();
    // C has not seen: increments of A and B, one a transaction; and C writes.
    change(&world.c, &ConvergentOp::Clear);
    count(&world.c, 1000);
    set(&world.c, 3);
    write(&world.c, |tx| person(tx, "cyd", &[]));
    for _ in 0..3 {
        count(&world.a, 10);
        count(&world.b, 100);
        both(&world.a, &world.b);
    }
    world.pass(1000);
    set(&world.b, 2);
    both(&world.a, &world.b);
    world.rest();
    assert_eq!(world.log(), 7);
    for day in 0..29 {
        world.pass(DAY_MS);
        both(&world.a, &world.b);
        world.rest();
        if day % 7 == 6 {
            let World { clock, engine, .. } = &world;
            world.a = replica(clock, engine.clone());
            both(&world.a, &world.b);
        }
        assert!(!world.member(&world.c).is_away, "day {day}");
        assert_eq!(world.log(), 7);
    }
    world.pass(3 * DAY_MS);
    both(&world.a, &world.b);
    world.rest();
    assert_eq!(world.log(), 0, "the log is trimmed");
    assert!(world.member(&world.c).is_away);
    assert!(!world.member(&world.b).is_away);
    // Stored, too.
    let World { clock, engine, .. } = &world;
    world.a = replica(clock, engine.clone());
    assert!(world.member(&world.c).is_away);

    assert!(
        exchange_both(&world.a, &world.c),
        "C must learn that it lacks too much"
    );
    both(&world.a, &world.c);
    both(&world.a, &world.b);
    let lines = dump(&world.a);
    assert_eq!(lines, dump(&world.c));
    // C had seen the first increment only.
    assert!(
        lines
            .iter()
            .any(|line| line.contains("n: Int(1330)") && line.contains("p: Int(2)")),
        "{lines:?}"
    );
    assert!(lines.iter().any(|line| line.contains("cyd")), "{lines:?}");
    for (one, other) in [(&world.a, &world.c), (&world.a, &world.b)] {
        assert_eq!(
            scrub::differing(one, &scrub::fingerprints(other).unwrap()).unwrap(),
            Some(vec![])
        );
    }
    let tx = world.b.begin(Access::Read).unwrap();
    assert_eq!(
        conflicts::conflicts(&tx).unwrap().len(),
        1,
        "C's value is listed"
    );
    drop(tx);
    world.rest();
    assert!(!world.member(&world.c).is_away);
    // It is waited for again.
    count(&world.a, 1);
    both(&world.a, &world.b);
    world.rest();
    assert_eq!(world.log(), 1);
}

/// Two halves of which each has given up on the other one converge by state transfer from one another.
#[test]
fn separated_halves_converge_again() {
    let world = World::new();
    both(&world.b, &world.c);
    members::set_log_retention(&world.c, DAY_MS).unwrap();
    members::set_log_retention(&world.a, DAY_MS).unwrap();
    let d = replica(&world.clock, Arc::new(MemoryEngine::new()));
    exchange_both(&world.c, &d);
    for day in 0..4 {
        count(&world.a, 1);
        count(&world.c, 1);
        set(&d, day);
        both(&world.a, &world.b);
        both(&world.c, &d);
        for _ in 0..18 {
            for store in [&world.a, &world.b, &world.c, &d] {
                members::trim_log(store).unwrap();
            }
            world.pass(DAY_MS / 16);
        }
    }
    assert!(exchange_both(&world.a, &world.c));
    both(&world.a, &world.c);
    exchange_both(&world.a, &world.b);
    exchange_both(&world.c, &d);
    exchange_both(&world.a, &d);
    exchange_both(&world.a, &world.b);
    let lines = dump(&world.a);
    assert!(
        lines.iter().any(|line| line.contains("n: Int(9)")),
        "{lines:?}"
    );
    for store in [&world.b, &world.c, &d] {
        assert_eq!(lines, dump(store));
    }
}

/// For ever, where it is set so.
#[test]
fn a_log_may_be_kept_for_ever() {
    let world = World::new();
    members::set_log_retention(&world.a, 0).unwrap();
    count(&world.a, 1);
    both(&world.a, &world.b);
    for _ in 0..10 {
        world.pass(1000 * DAY_MS);
        both(&world.a, &world.b);
        world.rest();
    }
    assert_eq!(world.log(), 1);
    assert!(!world.member(&world.c).is_away);
    assert!(!exchange_both(&world.a, &world.c));
}

/// A clock that jumps, or is set after an exchange, makes no member away; nor does an old backup.
#[test]
fn clocks_that_jump_make_no_member_away() {
    let world = World::new();
    count(&world.a, 1);
    both(&world.a, &world.b);
    for _ in 0..5 {
        world.pass(3650 * DAY_MS);
        both(&world.a, &world.b);
        world.rest();
        assert!(!world.member(&world.c).is_away);
        world.clock.0.fetch_sub(3650 * DAY_MS, Ordering::Relaxed);
        both(&world.a, &world.b);
        world.rest();
    }
    assert_eq!(world.log(), 1, "the log is there for C");
    // It has been waited for, for almost as long as the log is kept, when a backup is made.
    for _ in 0..11 {
        world.pass(LOG_RETENTION_MS / 16);
        both(&world.a, &world.b);
        world.rest();
    }
    assert!(!world.member(&world.c).is_away);
    let backup = super::small::copy(&world.a);
    world.pass(100 * DAY_MS);
    let a = replica(&world.clock, backup);
    a.numbering().begin_epoch().unwrap();
    count(&a, 1);
    both(&a, &world.b);
    members::trim_log(&a).unwrap();
    let away = |store: &DataStore| {
        members::replica_members(store)
            .unwrap()
            .iter()
            .any(|one| one.is_away)
    };
    assert!(!away(&a), "no member had the chance to acknowledge");
    assert!(!exchange_both(&a, &world.c), "its log reaches back");
}
