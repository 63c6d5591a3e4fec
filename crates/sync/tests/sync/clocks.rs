//! Exchanges between databases whose clocks differ.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use isomer_data::{Access, Clock, DataStore, DataStoreOptions};
use isomer_db::{Map, Value};
use isomer_storage::MemoryEngine;
use isomer_sync::{Cause, PeerConnection, Result, SyncError, answer, exchange};

const NOW_MS: u64 = 1_700_000_000_000;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

#[derive(Debug, Default)]
struct Set(AtomicU64);

impl Clock for Set {
    fn now_ms(&self) -> u64 {
        NOW_MS + self.0.load(Ordering::Relaxed)
    }
}

struct Replica {
    store: DataStore,
    clock: Arc<Set>,
}

impl Replica {
    fn new() -> Self {
        let clock = Arc::new(Set::default());
        let mut options = DataStoreOptions::default();
        options.clock = clock.clone();
        let store = isomer_replication::open(Arc::new(MemoryEngine::new()), options).unwrap();
        Self { store, clock }
    }

    fn is_ahead(&self, ms: u64) {
        self.clock.0.store(ms, Ordering::Relaxed);
    }

    fn put(&self, key: &str, bytes: usize) {
        let mut tx = self.store.begin(Access::Write).unwrap();
        let label = tx.name_ids().intern_label("P").unwrap();
        let mut properties = Map::new();
        properties.insert("_key", Value::from(key));
        properties.insert("text", Value::from("x".repeat(bytes).as_str()));
        tx.graph_mut().create_node(&[label], &properties).unwrap();
        tx.commit().unwrap();
    }

    fn has(&self, key: &str) -> bool {
        let tx = self.store.begin(Access::Read).unwrap();
        tx.documents()
            .node("P", &Value::from(key))
            .unwrap()
            .is_some()
    }
}

impl PeerConnection for &Replica {
    fn name(&self) -> &str {
        "peer"
    }

    fn request(&mut self, frame: &[u8]) -> Result<Vec<u8>> {
        Ok(answer(&self.store, frame))
    }
}

/// Transactions with a timestamp a day ahead are held back on the side that lacks them, whichever side exchanges;
/// both report which transaction it is.
#[test]
fn both_sides_report_what_is_held_back() {
    let (a, b) = (Replica::new(), Replica::new());
    isomer_replication::begin_replication(&a.store).unwrap();
    isomer_replication::begin_replication(&b.store).unwrap();
    b.is_ahead(DAY_MS);
    b.put("ahead", 1);
    b.is_ahead(0);
    b.put("after", 1);
    a.put("here", 1);
    let pulled = exchange(&a.store, &mut &b, &mut |_| ()).unwrap();
    let held = pulled.held.expect("held back here");
    assert_eq!((held.time_ms, held.transactions), (NOW_MS + DAY_MS, 2));
    assert_eq!((pulled.held_there, pulled.sent), (None, 1));
    let text = pulled.held_text().unwrap();
    assert!(
        text.contains("has the timestamp 2023-11-15T22:13:20Z")
            && text.contains("it and 1 that follow"),
        "{text}"
    );
    a.put("more", 1);
    let pushed = exchange(&b.store, &mut &a, &mut |_| ()).unwrap();
    assert_eq!((pushed.held, pushed.received), (None, 1));
    assert_eq!(pushed.held_there, Some(held));
    let text = pushed.held_text().unwrap();
    assert!(text.contains("ahead of the peer's clock"), "{text}");
    assert!(b.has("here") && b.has("more") && !a.has("ahead") && !a.has("after"));
    // Once accepted, they are applied; later exchanges hold nothing back.
    let (done, latest_ms) = isomer_replication::accept_clock_during(&a.store, || {
        exchange(&a.store, &mut &b, &mut |_| ())
    })
    .unwrap();
    assert_eq!(
        (done.unwrap().held, latest_ms),
        (None, Some(NOW_MS + DAY_MS))
    );
    assert!(a.has("ahead") && a.has("after"));
    let again = exchange(&b.store, &mut &a, &mut |_| ()).unwrap();
    assert_eq!((again.held, again.held_there, again.sent), (None, None, 0));
    assert_eq!(
        isomer_replication::differing(
            &a.store,
            &isomer_replication::fingerprints(&b.store).unwrap()
        )
        .unwrap(),
        Some(Vec::new())
    );
}

/// A state whose records all have timestamps ahead of the clock is refused in either direction, and neither
/// quarantines the peer nor makes the other database unreadable; once accepted, it is joined.
#[test]
fn a_state_ahead_of_the_clock_waits_for_its_acceptance() {
    for pushes in [false, true] {
        let (a, b) = (Replica::new(), Replica::new());
        b.is_ahead(DAY_MS);
        for key in 0..4 {
            b.put(&format!("b{key}"), 1 << 20);
        }
        isomer_replication::begin_replication(&b.store).unwrap();
        b.is_ahead(0);
        a.put("own", 1);
        isomer_replication::begin_replication(&a.store).unwrap();
        let run = || match pushes {
            true => exchange(&b.store, &mut &a, &mut |_| ()),
            false => exchange(&a.store, &mut &b, &mut |_| ()),
        };
        let refused: SyncError = run().unwrap_err();
        assert_eq!(refused.cause(), Cause::Clock, "{refused}");
        assert!(!refused.quarantines(), "{refused}");
        assert!(!a.store.is_joining());
        assert!(a.has("own"));
        isomer_replication::accept_clock(&a.store, NOW_MS + DAY_MS).unwrap();
        run().unwrap();
        assert!(a.has("own") && a.has("b3") && b.has("own"));
        assert_eq!(
            isomer_replication::differing(
                &a.store,
                &isomer_replication::fingerprints(&b.store).unwrap()
            )
            .unwrap(),
            Some(Vec::new())
        );
    }
}
