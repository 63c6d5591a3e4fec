//! The implementations pass the scripts of their contracts.

use isomer_shared_log::{MemoryBlobs, MemoryLog, conformance};

#[test]
fn the_log_in_memory_conforms() {
    conformance::log(MemoryLog::new);
    conformance::log(MemoryLog::forgetful);
}

#[test]
fn the_objects_in_memory_conform() {
    conformance::blobs(MemoryBlobs::default);
}
