//! Replicas whose clocks run ahead, or ran ahead.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use isomer_data::{
    Access, Clock, ConvergentOp, ConvergentOwner, DataStore, DataStoreOptions, ErrorKind, Expiry,
    ReplicaId, internals::convergent::MAX_AHEAD_MS,
};
use isomer_storage::{Engine, MemoryEngine};
use isomer_value::Value;

use super::{
    dump::dump,
    small::{both, person, write},
    world::Numbers,
};
use crate::{
    Applied, ahead, begin, exchange, scrub,
    state_transfer::{receive, send},
};

const NOW_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 60 * 60 * 1000;

#[derive(Debug)]
struct Set(AtomicU64);

impl Clock for Set {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A replica and its clock.
struct Replica {
    clock: Arc<Set>,
    engine: Arc<MemoryEngine>,
    store: DataStore,
}

impl Replica {
    fn new() -> Self {
        let clock = Arc::new(Set(AtomicU64::new(NOW_MS)));
        let engine = Arc::new(MemoryEngine::new());
        let store = open(engine.clone(), &clock);
        begin::begin_replication(&store).unwrap();
        Self {
            clock,
            engine,
            store,
        }
    }

    fn is_at(&self, ms: u64) {
        self.clock.0.store(ms, Ordering::Relaxed);
    }

    fn reopen(self) -> Self {
        drop(self.store);
        let store = open(self.engine.clone(), &self.clock);
        Self { store, ..self }
    }

    fn name(&self) -> ReplicaId {
        self.store.replica().unwrap()
    }

    fn person(&self, key: &str) {
        write(&self.store, |tx| {
            person(tx, key, &[("by", Value::from(key))])
        });
    }

    /// The stamp of its newest transaction, in ms.
    fn stamped_ms(&self) -> u64 {
        let page = exchange::last_entry_page(&self.store).unwrap();
        let mut items = crate::wire::items(&page).unwrap();
        let (_, entry) = crate::wire::take_item(&mut items).unwrap().unwrap();
        crate::entry::LogEntry::decode(entry).unwrap().time >> 16
    }
}

fn open(engine: Arc<dyn Engine>, clock: &Arc<Set>) -> DataStore {
    let mut options = DataStoreOptions::default();
    options.clock = clock.clone();
    crate::open(engine, options).unwrap()
}

/// `to` receives what it lacks of `from`, in pages of `bytes`.
fn take(from: &DataStore, to: &DataStore, bytes: usize) -> Applied {
    let mut all = Applied::default();
    loop {
        let page = exchange::entries_for(from, &exchange::greeting(to).unwrap(), bytes).unwrap();
        let applied = exchange::apply_page(to, &page).unwrap();
        all.transactions += applied.transactions;
        all.held = applied.held.or(all.held);
        assert!(!applied.behind);
        if !applied.more || applied.transactions == 0 {
            return all;
        }
    }
}

fn has(store: &DataStore, key: &str) -> bool {
    let tx = store.begin(Access::Read).unwrap();
    tx.documents()
        .node("Person", &Value::from(key))
        .unwrap()
        .is_some()
}

/// Transactions stamped ahead are held back with those that depend on them; everything before them, in the other
/// direction or of other replicas, is exchanged.
#[test]
fn only_what_is_stamped_ahead_is_held_back() {
    let (a, b, c) = (Replica::new(), Replica::new(), Replica::new());
    b.person("before");
    b.is_at(NOW_MS + 24 * HOUR_MS);
    b.person("ahead");
    b.is_at(NOW_MS);
    b.person("after");
    a.person("here");
    c.person("other");
    take(&c.store, &b.store, 1 << 20);
    let applied = take(&b.store, &a.store, 1 << 20);
    let held = applied.held.expect("something is held back");
    assert_eq!(
        (held.replica, held.time_ms),
        (b.name(), NOW_MS + 24 * HOUR_MS)
    );
    assert_eq!((held.ahead_ms, held.transactions), (24 * HOUR_MS, 2));
    for (key, is_here) in [
        ("before", true),
        ("other", true),
        ("ahead", false),
        ("after", false),
    ] {
        assert_eq!(has(&a.store, key), is_here, "{key}");
    }
    assert_eq!(take(&a.store, &b.store, 1 << 20).held, None);
    assert!(has(&b.store, "here"));
    // The older function reports an error, after all else was applied.
    let page =
        exchange::entries_for(&b.store, &exchange::greeting(&a.store).unwrap(), 1 << 20).unwrap();
    let error = exchange::apply_entries(&a.store, &page).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("seconds from now"), "{error}");
    // Once the clock reaches the time, it is applied without further action.
    a.is_at(NOW_MS + 24 * HOUR_MS - MAX_AHEAD_MS);
    assert_eq!(take(&b.store, &a.store, 1 << 20).held, None);
    both(&a.store, &b.store);
    assert!(has(&a.store, "after"));
}

/// Accepted transactions are applied with their stamps, and do not advance the clock: later writes are stamped by the
/// clock, and a third replica has to accept nothing but these.
#[test]
fn what_is_accepted_drives_no_clock() {
    let (a, b, c) = (Replica::new(), Replica::new(), Replica::new());
    let far_ms = NOW_MS + 70 * 365 * 24 * HOUR_MS;
    b.is_at(far_ms);
    b.person("ahead");
    b.is_at(NOW_MS);
    b.person("after");
    assert_eq!(
        b.stamped_ms(),
        NOW_MS,
        "a clock that was set back is followed"
    );
    let (applied, latest_ms) =
        ahead::accept_clock_during(&a.store, || take(&b.store, &a.store, 1 << 20)).unwrap();
    assert_eq!((applied.held, latest_ms), (None, Some(far_ms)));
    assert_eq!(ahead::accepted_clock_ms(&a.store), far_ms);
    let a = a.reopen();
    assert_eq!(ahead::accepted_clock_ms(&a.store), far_ms);
    a.person("here");
    assert_eq!(a.stamped_ms(), NOW_MS);
    // The third one accepts separately; until then it receives what does not depend on them.
    c.person("other");
    let held = take(&a.store, &c.store, 1 << 20).held.unwrap();
    assert_eq!((held.replica, held.time_ms), (b.name(), far_ms));
    ahead::accept_clock(&c.store, far_ms).unwrap();
    assert_eq!(take(&a.store, &c.store, 1 << 20).held, None);
    assert!(has(&c.store, "here") && has(&c.store, "after"));
    both(&a.store, &b.store);
    both(&b.store, &c.store);
    both(&a.store, &c.store);
    // A write that has seen a value replaces it, whatever its stamp.
    write(&a.store, |tx| {
        let node = super::small::find(tx, "ahead");
        tx.graph_mut()
            .set_node_property(node, &["by"], Value::from("a"))
            .unwrap();
    });
    both(&a.store, &b.store);
    assert!(
        dump(&b.store).iter().any(|line| line.contains("\"a\"")),
        "{:?}",
        dump(&b.store)
    );
    // Accepting ends: applied transactions stay, also where their pages arrive again.
    ahead::accept_clock(&a.store, 0).unwrap();
    let again =
        exchange::apply_page(&a.store, &exchange::last_entry_page(&b.store).unwrap()).unwrap();
    assert_eq!((again.known, again.held), (1, None));
    both(&a.store, &b.store);
}

/// Held-back transactions of a replica leave space in each page for those of others.
#[test]
fn a_long_log_that_is_held_back_does_not_stop_others() {
    let (hub, ahead, other, to) = (
        Replica::new(),
        Replica::new(),
        Replica::new(),
        Replica::new(),
    );
    ahead.is_at(NOW_MS + HOUR_MS);
    for key in 0..50 {
        ahead.person(&format!("ahead{key}"));
        other.person(&format!("other{key}"));
    }
    ahead::accept_clock(&hub.store, u64::MAX >> 1).unwrap();
    take(&ahead.store, &hub.store, 1 << 20);
    take(&other.store, &hub.store, 1 << 20);
    // Pages hold a few transactions each.
    let applied = take(&hub.store, &to.store, 600);
    assert!(applied.held.is_some());
    assert!((0..50).all(|key| has(&to.store, &format!("other{key}"))));
    assert!(!(0..50).any(|key| has(&to.store, &format!("ahead{key}"))));
    ahead::accept_clock(&to.store, NOW_MS + HOUR_MS).unwrap();
    take(&hub.store, &to.store, 600);
    assert_eq!(dump(&to.store), dump(&hub.store));
}

/// A state with stamps ahead of the clock does not make the database unavailable; when they were accepted it is merged.
#[test]
fn a_state_that_is_stamped_ahead_is_refused_before_it_is_joined() {
    let (a, b) = (Replica::new(), Replica::new());
    b.is_at(NOW_MS + HOUR_MS);
    (0..20).for_each(|key| b.person(&format!("b{key}")));
    b.is_at(NOW_MS);
    a.person("here");
    let mut transfer = receive::begin_state_transfer(&a.store).unwrap();
    let page = send::state_page(&b.store, &[], 100).unwrap();
    let refused = transfer.merge_page(&a.store, &page).unwrap_err();
    assert!(
        matches!(refused, isomer_data::DataError::ClockAhead { .. }),
        "{refused}"
    );
    drop(transfer);
    assert!(!a.store.is_joining());
    assert!(has(&a.store, "here"));
    ahead::accept_clock(&a.store, NOW_MS + HOUR_MS).unwrap();
    super::small::transfer_state(&b.store, &a.store, 100);
    take(&a.store, &b.store, 1 << 20);
    both(&a.store, &b.store);
    a.person("later");
    assert_eq!(a.stamped_ms(), NOW_MS);
}

/// Random histories: clocks run ahead and back, pages are sent in all directions, and in the end, when all clocks are
/// right, the times have come or were accepted, and all hold the same.
#[test]
fn histories_with_clocks_ahead_converge() {
    let quick = std::env::var_os("ISOMER_TEST_QUICK").is_some();
    let histories = if quick { 30 } else { 300 };
    let mut held_back = 0;
    for seed in 0..histories {
        held_back += history(seed);
    }
    assert!(
        held_back > histories,
        "{held_back} pages were held back in {histories} histories"
    );
}

fn history(seed: u64) -> u64 {
    let mut numbers = Numbers(seed);
    let count = 3 + numbers.below(3) as usize;
    let mut all: Vec<Replica> = (0..count).map(|_| Replica::new()).collect();
    let (mut now_ms, mut held_back) = (NOW_MS, 0);
    for _ in 0..80 {
        now_ms += numbers.below(1000);
        let at = numbers.below(count as u64) as usize;
        let other = numbers.below(count as u64) as usize;
        match numbers.below(12) {
            0 => {
                let ahead = [0, 0, HOUR_MS, 24 * HOUR_MS, 50 * 365 * 24 * HOUR_MS];
                all[at].is_at(now_ms + numbers.of(&ahead));
            }
            1 if numbers.below(4) == 0 => {
                let until_ms = now_ms + 24 * HOUR_MS;
                ahead::accept_clock(&all[at].store, until_ms).unwrap();
            }
            2 => {
                let replica = all.remove(at);
                all.insert(at, replica.reopen());
            }
            3..=6 if at != other => {
                let bytes = 200 + numbers.below(2000) as usize;
                let applied = take(&all[other].store, &all[at].store, bytes);
                held_back += u64::from(applied.held.is_some());
            }
            _ => change(&all[at].store, &mut numbers),
        }
    }
    // Clocks are right again; half of the histories wait until the times are reached, the others accept them.
    let latest_ms = now_ms + 50 * 365 * 24 * HOUR_MS + HOUR_MS;
    let waits = seed.is_multiple_of(2);
    for replica in &all {
        match waits {
            true => replica.is_at(latest_ms),
            false => {
                replica.is_at(now_ms);
                ahead::accept_clock(&replica.store, latest_ms).unwrap();
            }
        }
    }
    for _ in 0..count {
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            if from != to {
                let applied = take(&all[from].store, &all[to].store, 1 << 20);
                assert_eq!(applied.held, None, "seed {seed}");
            }
        }
    }
    let wanted = dump(&all[0].store);
    for replica in &all {
        assert_eq!(dump(&replica.store), wanted, "seed {seed}");
        assert_eq!(
            replica.store.check_convergent().unwrap(),
            Vec::<String>::new(),
            "seed {seed}"
        );
        let differing =
            scrub::differing(&replica.store, &scrub::fingerprints(&all[0].store).unwrap());
        assert_eq!(differing.unwrap(), Some(Vec::new()), "seed {seed}");
    }
    if !waits {
        for replica in &all {
            replica.person("last");
            assert!(
                replica.stamped_ms() <= now_ms + MAX_AHEAD_MS + 1,
                "seed {seed}"
            );
        }
    }
    held_back
}

fn change(store: &DataStore, numbers: &mut Numbers) {
    let key = *numbers.of(&["a", "b", "c"]);
    let number = numbers.below(100) as i64;
    write(store, |tx| {
        let found = tx.documents().node("Person", &Value::from(key)).unwrap();
        let Some(node) = found else {
            person(tx, key, &[("p", Value::Int(number))]);
            return;
        };
        match numbers.below(6) {
            0 => drop(tx.graph_mut().delete_node(node, true).unwrap()),
            1 => tx
                .fields_mut()
                .converge(
                    ConvergentOwner::Node(node),
                    &["n"],
                    &ConvergentOp::Count(number),
                    None,
                )
                .map(drop)
                .unwrap(),
            2 => {
                let value = Value::Int(number);
                tx.kv_mut()
                    .put_value("b", &Value::from(key), &value, Expiry::Never)
                    .unwrap();
            }
            _ => tx
                .graph_mut()
                .set_node_property(node, &["p"], Value::Int(number))
                .unwrap(),
        }
    });
}
