//! Whether a database is a replica, and what its transactions need to know of that.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use isomer_layout::{DataError, convergent::clock::Vector, keyspace};
use isomer_storage::{Read, StorageError};
use parking_lot::RwLock;

/// The part of the state of replication that `data` reads. The crate `replication` changes it.
#[derive(Default)]
pub struct ReplicaState {
    is_on: AtomicBool,
    /// What all members have seen, once their acknowledgements have arrived here.
    stable: RwLock<Vector>,
    /// Whether a state is being joined: transactions are refused.
    is_joining: AtomicBool,
    /// The number of joins begun.
    joins_begun: AtomicU64,
}

impl ReplicaState {
    /// Loads the state of a database.
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let state = Self::default();
        state.switch(read.get(keyspace::REPLICATION)?.is_some());
        state.set_joining(read.get(keyspace::JOINING)?.is_some());
        Ok(state)
    }

    /// Sets whether the database is a replica.
    pub fn switch(&self, on: bool) {
        self.is_on.store(on, Ordering::Release);
    }

    /// Whether the database is a replica.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether the state of another replica is being joined.
    pub fn is_joining(&self) -> bool {
        self.is_joining.load(Ordering::Acquire)
    }

    /// Counts joins, before the first commit of each.
    pub fn joins_begun(&self) -> u64 {
        self.joins_begun.load(Ordering::Acquire)
    }

    /// Begins or ends a join: transactions are refused until it ends.
    pub fn set_joining(&self, joining: bool) {
        if joining {
            self.joins_begun.fetch_add(1, Ordering::AcqRel);
        }
        self.is_joining.store(joining, Ordering::Release);
    }

    /// Lets transactions read in the middle of a join, for tests.
    pub fn forget_joining(&self, forgotten: bool) {
        self.is_joining.store(!forgotten, Ordering::Release);
    }

    /// What all members have seen.
    pub fn stable(&self) -> Vector {
        self.stable.read().clone()
    }

    /// Sets what all members have seen.
    pub fn set_stable(&self, stable: Vector) {
        *self.stable.write() = stable;
    }
}

/// Why transactions are refused.
pub fn joining_error() -> DataError {
    StorageError::Unavailable(
        "this database is being brought up to date from a snapshot of another replica, and is unavailable until the snapshot is complete: run `isomer sync once` here or at a peer (`isomer replica status` shows what is missing)".into(),
    )
    .into()
}
