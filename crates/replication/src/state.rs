//! The state of replication that an open store keeps, in memory.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use isomer_data::{
    DataError, DataStore, Dot, Vector,
    internals::{replica_state, replication_state},
};
use isomer_layout::{keyspace, replicated::codec::malformed};
use isomer_storage::{Read, Snapshot, Version};
use isomer_value::NodeId;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    member::{self, Members},
    space::{self, Space},
    state_transfer::progress::PushState,
    versions::Stamp,
};

/// Which stamps ahead of the clock are accepted.
#[derive(Debug, Default)]
pub(crate) struct Accepted {
    /// Stamps up to this time, in ms.
    pub(crate) until_ms: AtomicU64,
    /// Whether all stamps are accepted temporarily.
    pub(crate) is_any: AtomicBool,
    /// The latest stamp that was accepted during that time, in ms.
    pub(crate) latest_ms: AtomicU64,
}

impl Accepted {
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let accepted = Self::default();
        if let Some(value) = read.get(keyspace::CLOCK_ACCEPTED)? {
            let until_ms = keyspace::sole_id(&value, "up to when stamps are accepted")?;
            accepted.until_ms.store(until_ms, Ordering::Relaxed);
        }
        Ok(accepted)
    }
}

/// Nodes in the cache of creations, at most; a full cache is cleared.
pub(crate) const MAX_CACHED_NODES: usize = 10_000;

/// A cache for nodes at which many relationships are created that keep their ends: all relationships of the node, in a
/// state, depend on one of these creations. This holds while only local ones are created, as these depend on all
/// existing creations.
#[derive(Default)]
pub(crate) struct CreationCache {
    pub(crate) nodes: FxHashMap<NodeId, (Version, Vec<Dot>)>,
    /// Merges under way, and the version of the last one.
    pub(crate) merging: u32,
    pub(crate) merged: Version,
    /// Relationships read, for tests.
    pub(crate) relationships_read: u64,
}

/// How long a snapshot is held after a page was made: a page that takes longer to arrive is not requested again.
pub(crate) const PAGE_TIMEOUT_MS: u64 = 10 * 60 * 1000;

/// Idle time after which a new state transfer may replace it, and after which a completed one is released.
pub(crate) const IDLE_TIMEOUT_MS: u64 = 2 * 60 * 1000;

/// The total time for which it is held.
pub(crate) const TRANSFER_TIMEOUT_MS: u64 = 6 * 60 * 60 * 1000;

/// The sending side of a state transfer: the snapshot of which the pages are made.
#[derive(Clone)]
pub(crate) struct OutgoingTransfer {
    pub(crate) number: u128,
    pub(crate) snapshot: Arc<dyn Snapshot>,
    /// What it has seen, as sent.
    pub(crate) seen: Vector,
    pub(crate) begun_ms: u64,
    pub(crate) asked_ms: u64,
    /// Whether its last page was made.
    pub(crate) is_done: bool,
}

impl OutgoingTransfer {
    pub(crate) fn is_idle(&self, now_ms: u64) -> bool {
        now_ms >= self.asked_ms.saturating_add(IDLE_TIMEOUT_MS)
    }

    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.asked_ms.saturating_add(PAGE_TIMEOUT_MS)
            || now_ms >= self.begun_ms.saturating_add(TRANSFER_TIMEOUT_MS)
            || self.is_done && self.is_idle(now_ms)
    }
}

/// The hash of a file's identity, in the file's substitute path.
#[derive(Clone, Copy)]
pub(crate) struct NameHash(pub(crate) fn(&[u8]) -> u64);

impl NameHash {
    /// The hash of all databases. Tests choose another one, under which identities collide.
    pub(crate) const XXH3: Self = Self(|identity| xxh3_128(identity) as u64);
}

impl Default for NameHash {
    fn default() -> Self {
        Self::XXH3
    }
}

/// The state of replication in an open store.
#[derive(Default)]
pub(crate) struct Replication {
    /// The stamp of everything that is older than replication.
    pub(crate) base: RwLock<Option<Stamp>>,
    /// The replicated space; everything where none is declared.
    pub(crate) space: RwLock<Option<Arc<Space>>>,
    /// Stamps ahead of the clock that are accepted nevertheless.
    pub(crate) accepted: Accepted,
    /// Whether a state is being merged right now: nothing else is applied concurrently.
    pub(crate) is_transferring: Arc<AtomicBool>,
    /// The state that a peer is pushing.
    pub(crate) session: Mutex<PushState>,
    /// Snapshots for replicas that merge this database's state.
    pub(crate) outgoing: Mutex<Vec<OutgoingTransfer>>,
    pub(crate) members: Mutex<Members>,
    /// The retention time of transactions for a member that does not acknowledge them, in ms; 0 for ever.
    pub(crate) retention_ms: AtomicU64,
    /// For nodes that relationships keep: whether all relationships depend on known creations.
    pub(crate) creation_cache: Mutex<CreationCache>,
    /// Held while received entries are applied.
    pub(crate) applying: Mutex<()>,
    pub(crate) name_hash: NameHash,
}

impl Replication {
    pub(crate) fn load(read: &dyn Read, name_hash: NameHash) -> Result<Self, DataError> {
        let replication = Self {
            accepted: Accepted::load(read)?,
            name_hash,
            ..Self::default()
        };
        if let Some(stored) = read.get(keyspace::REPLICATION)? {
            let mut rest = stored.as_slice();
            let base = Stamp::take(&mut rest).filter(|_| rest.is_empty());
            let base = base.ok_or_else(|| malformed("the beginning"))?;
            *replication.base.write() = Some(base);
            *replication.members.lock() = member::load(read)?;
        }
        *replication.space.write() = space::load(read)?;
        let retention_ms = match read.get(keyspace::LOG_KEPT)? {
            Some(value) => keyspace::sole_id(&value, "how long the log is kept")?,
            None => member::LOG_RETENTION_MS,
        };
        replication
            .retention_ms
            .store(retention_ms, Ordering::Relaxed);
        Ok(replication)
    }

    pub(crate) fn switch(&self, store: &DataStore, base: Option<Stamp>) {
        *self.base.write() = base;
        replica_state(store).switch(base.is_some());
    }

    /// The stamp of everything without a metadata row.
    pub(crate) fn base(&self) -> Result<Stamp, DataError> {
        let base = *self.base.read();
        base.ok_or_else(|| DataError::Internal("this database is not a replica".into()))
    }
}

/// The state of replication in a store.
///
/// # Panics
/// Where the store was opened without the hooks of replication: what needs this state is reached in replicas alone, and
/// a replica is not opened without them.
pub(crate) fn replication_of(store: &DataStore) -> &Replication {
    replication_state(store)
        .and_then(|state| state.downcast_ref())
        .expect("a store that replicates is opened by `isomer_replication::open`")
}
