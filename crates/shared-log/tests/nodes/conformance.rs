//! The implementations in memory pass the scripts of their contracts.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use isomer_shared_log::{LogId, MemoryBlobs, MemoryLog, conformance};

const GRACE: Duration = Duration::from_secs(60);

#[test]
fn the_log_in_memory_conforms() {
    let ids = AtomicU64::new(1);
    let id = || LogId(ids.fetch_add(1, Ordering::Relaxed).into());
    conformance::log(|| MemoryLog::new(id(), GRACE));
    conformance::log(|| MemoryLog::forgetful(id(), GRACE));
}

#[test]
fn the_objects_in_memory_conform() {
    conformance::blobs(MemoryBlobs::default);
}
