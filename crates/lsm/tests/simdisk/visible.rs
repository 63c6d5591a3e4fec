//! Commits are as durable as requested when readers see them: they become visible only after their sync.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_storage::Durability;
use isomer_vfs::{Call, FaultyDisk};

use crate::{
    power::disk,
    subject::{self, DATABASE, Tended},
};

#[test]
fn a_commit_is_visible_only_when_it_is_durable() {
    let sim = disk();
    let engine: Arc<OnceLock<Weak<Tended>>> = Arc::default();
    let seen = Arc::new(AtomicU64::new(0));
    // The version that others see during a sync.
    let hook = {
        let (engine, seen) = (engine.clone(), seen.clone());
        move |call: Call, path: &Path| {
            let of_log = path.parent().is_some_and(|folder| folder.ends_with("log"));
            if call == Call::Sync
                && of_log
                && let Some(tended) = engine.get().and_then(Weak::upgrade)
            {
                seen.store(tended.engine().version(), Ordering::SeqCst);
            }
            Ok(())
        }
    };
    let faulty = FaultyDisk::new(Arc::new(sim.clone()), Arc::new(hook));
    let tended = Arc::new(subject::open(Arc::new(faulty), Path::new(DATABASE)).expect("opens"));
    engine.set(Arc::downgrade(&tended)).expect("once");
    for round in 1..20_u64 {
        let mut transaction = tended.engine().begin().expect("begins");
        transaction.put(b"key", &round.to_be_bytes()).expect("put");
        seen.store(u64::MAX, Ordering::SeqCst);
        let version = transaction.commit(Durability::Synced).expect("commits");
        assert_eq!(version, round);
        assert_eq!(
            seen.load(Ordering::SeqCst),
            round - 1,
            "version {round} was seen before it was on disk"
        );
    }
}
