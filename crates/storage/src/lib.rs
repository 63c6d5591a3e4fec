//! The contract between IsomerDB and its storage engines: an ordered key-value **transaction**.
//!
//! Synchronous and batched, so that an engine behind a network can implement it with one round trip per batch.
//! Every engine keeps these invariants: a snapshot never changes; a commit is applied completely or not at all, and is
//! refused if what it observed was changed since. With a private log, others see a commit only when it is as durable
//! as requested; on a shared log, when it is appended, and a later synced commit makes all before it durable.
//!
//! [`MemoryEngine`] is the simplest engine and the model of the others. [`Optimistic`] makes an engine out of a
//! small [`Backend`]: the overlay of own writes, guards, validation and group commit are implemented once.
//!
//! [`MemoryBudget`] is here because all components that hold much memory need it and this is the lowest crate: one
//! budget for the process.

mod backend;
mod budget;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod contract;
mod engine;
mod errors;
mod group_commit;
mod guards;
mod log_node;
mod memory;
mod optimistic;
#[cfg(all(test, feature = "model"))]
mod optimistic_model;
mod process_locks;
mod process_memory;
mod spill;
mod state;
pub mod sync;
mod tree;
mod view;
mod write_set;

pub use backend::{Backend, Commit, LogPoint, LoggedEnd, PairIterator};
pub use budget::{
    MemoryBudget, MemoryKind, MemoryUse, OverBudget, Reclaim, Reservation, SLAB_BYTES,
    machine_bytes,
};
pub use contract::{
    Capabilities, Durability, EngineCommit, EngineSavepoint, EngineTransaction, Granule, GuardMode,
    KeyRange, Order, Page, PageLimit, Parked, Read, Snapshot, Statistics, StorageError,
    StreamEntry, ValueVisitor, Version, Visitor, version_not_kept,
};
pub use engine::{AloneHold, CommitHook, Engine};
pub use errors::{damaged, hex, io_error, key_exists};
pub use guards::{GuardSet, GuardTable};
pub use log_node::{
    GROUP_FORMAT, GroupEncoder, GroupError, GroupHead, GroupRecord, LogClock, LogRetention,
    LoggedCommit, LoggedFootprint, SharedOptions, Watermarks,
};
pub use memory::{MAX_KEY_BYTES, MAX_TRANSACTION_BYTES, MAX_VALUE_BYTES, MemoryEngine};
pub use optimistic::Optimistic;
pub use process_locks::{
    LastProcess, ProcessLock, ProcessLocks, SharedLock, files_named, lock_error, try_lock_file,
};
pub use process_memory::{MemoryPart, ProcessMemory, count_allocations};
pub use spill::{
    SPILL_BLOCK_BYTES, SpillFault, SpillFile, SpillFolder, SpillParts, SpillReader, SpillRun,
    SpillWriter,
};
pub use view::View;
pub use write_set::WriteSet;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{
        Engine, MemoryEngine,
        conformance::{Make, Subject, SubjectOptions, random_history},
    };

    struct MemoryBudget(Arc<MemoryEngine>);

    impl Subject for MemoryBudget {
        fn engine(&self) -> Arc<dyn Engine> {
            self.0.clone()
        }

        fn reopen(&mut self) {}
    }

    fn memory(options: SubjectOptions) -> Box<dyn Subject> {
        Box::new(MemoryBudget(Arc::new(
            MemoryEngine::with_max_transaction_bytes(options.max_transaction_bytes),
        )))
    }

    crate::conformance_tests!(memory);

    /// The memory engine agrees with the model on many random histories.
    #[test]
    fn random_histories_match_the_model() {
        let make: Make = memory;
        for seed in 0..60 {
            random_history(seed, 1500, &mut [make(SubjectOptions::default())]);
        }
    }
}
