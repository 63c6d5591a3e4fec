//! Whether a database is a replica, and since when.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use isomer_storage::{Durability, GuardMode, KeyRange, Order, Page, PageLimit, Read};
use parking_lot::{Mutex, RwLock};

use super::{
    ahead::Accepted,
    codec::malformed,
    file_log,
    keep::{Keepers, LifeCache},
    members::{self, Members},
    pushed::Pushing,
    served::Served,
    space::{self, Space},
    versions::{ReplicaNames, Stamp},
};
use crate::{
    DataError, DataStore,
    convergent::{ReplicaId, ReplicaNo, Vector, replica::OwnReplica},
    footprint::Item,
    keyspace,
};

/// The state of replication in an open store.
#[derive(Default)]
pub(crate) struct Replication {
    is_on: AtomicBool,
    /// The stamp of everything that is older than replication.
    base: RwLock<Option<Stamp>>,
    /// The replicated space; everything where none is declared.
    pub(super) space: RwLock<Option<Arc<Space>>>,
    /// What all members have seen, once their acknowledgements have arrived here.
    stable: RwLock<Vector>,
    /// Stamps ahead of the clock that are accepted nevertheless.
    pub(super) accepted: Accepted,
    /// Whether a state is being joined: transactions are refused.
    is_joining: AtomicBool,
    /// The number of joins begun.
    joins_begun: AtomicU64,
    /// Whether a state is being joined right now: nothing else is applied concurrently.
    pub(super) joins: Arc<AtomicBool>,
    /// The state that a peer is pushing.
    pub(super) session: Mutex<Pushing>,
    /// Reads of replicas that join this database's state.
    pub(super) served: Mutex<Vec<Served>>,
    pub(super) members: Mutex<Members>,
    /// The retention time of transactions for a member that does not acknowledge them, in ms; 0 for ever.
    pub(super) kept_ms: AtomicU64,
    /// Types whose relationships keep their ends.
    pub(super) keepers: RwLock<Keepers>,
    /// Cached knowledge on the relationships of nodes that are kept by them.
    pub(super) rested: Mutex<LifeCache>,
    /// Held while received entries are applied.
    pub(crate) applying: Mutex<()>,
}

impl Replication {
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let replication = Self {
            accepted: Accepted::load(read)?,
            ..Self::default()
        };
        if let Some(stored) = read.get(keyspace::REPLICATION)? {
            let mut rest = stored.as_slice();
            let base = Stamp::take(&mut rest).filter(|_| rest.is_empty());
            let base = base.ok_or_else(|| malformed("the beginning"))?;
            replication.switch(Some(base));
            *replication.members.lock() = members::load(read)?;
        }
        *replication.keepers.write() = super::keep::load(read)?;
        *replication.space.write() = space::load(read)?;
        let kept_ms = match read.get(keyspace::LOG_KEPT)? {
            Some(value) => keyspace::sole_id(&value, "how long the log is kept")?,
            None => members::KEPT_MS,
        };
        replication.kept_ms.store(kept_ms, Ordering::Relaxed);
        replication.set_joining(read.get(keyspace::JOINING)?.is_some());
        Ok(replication)
    }

    fn switch(&self, base: Option<Stamp>) {
        *self.base.write() = base;
        self.is_on.store(base.is_some(), Ordering::Release);
    }

    pub(crate) fn is_joining(&self) -> bool {
        self.is_joining.load(Ordering::Acquire)
    }

    /// Counts joins, before the first commit of each.
    pub(crate) fn joins_begun(&self) -> u64 {
        self.joins_begun.load(Ordering::Acquire)
    }

    pub(super) fn set_joining(&self, joining: bool) {
        if joining {
            self.joins_begun.fetch_add(1, Ordering::AcqRel);
        }
        self.is_joining.store(joining, Ordering::Release);
    }

    /// Sets whether a member has acknowledged a version, for tests.
    #[cfg(test)]
    pub(super) fn forget_joining(&self, forgotten: bool) {
        self.is_joining.store(!forgotten, Ordering::Release);
    }

    /// Whether the database is a replica.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// The stamp of everything without a shadow.
    pub(crate) fn base(&self) -> Result<Stamp, DataError> {
        let base = *self.base.read();
        base.ok_or_else(|| DataError::Internal("this database is not a replica".into()))
    }

    pub(crate) fn stable(&self) -> Vector {
        self.stable.read().clone()
    }

    pub(crate) fn set_stable(&self, stable: Vector) {
        *self.stable.write() = stable;
    }
}

/// Whether there is nothing that others could lack.
pub(super) fn is_empty(read: &dyn Read) -> Result<bool, DataError> {
    for start in keyspace::CONTENT {
        if has_any(read, &[*start])? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether there is a key with this prefix.
pub(super) fn has_any(read: &dyn Read, prefix: &[u8]) -> Result<bool, DataError> {
    let end = keyspace::after_prefix(prefix);
    let range = KeyRange {
        start: prefix,
        end: end.as_deref(),
    };
    let limit = PageLimit { keys: 1, bytes: 1 };
    let mut page = Page::new();
    read.scan(range, Order::Ascending, limit, &mut page)?;
    Ok(!page.is_empty())
}

impl ReplicaNames for OwnReplica {
    fn replica_name(&self, replica: ReplicaNo) -> Option<ReplicaId> {
        self.name(replica)
    }
}

impl DataStore {
    /// Whether this database is a replica: whether its transactions are kept for others.
    pub fn is_replicated(&self) -> bool {
        self.shared().replication.is_on()
    }

    /// Refuses operations that bypass transactions.
    pub(crate) fn refuse_in_replica(&self) -> Result<(), DataError> {
        match self.is_replicated() {
            false => Ok(()),
            true => Err(DataError::Unsupported(
                "a bulk load is not replicated, and this database is a replica: load before its first peer is added, or write in transactions (UNWIND $rows CREATE …)".into(),
            )),
        }
    }

    /// Makes this database a replica, for good: from now on its transactions are kept until all other replicas have
    /// them. Its existing content travels by snapshot. Transactions under way fail with a conflict. Costs two small
    /// writes for each existing file, in one commit, for which others wait.
    ///
    /// # Errors
    /// [`DataError::Denied`] where the database is opened for reading only; those of a commit.
    pub fn begin_replication(&self) -> Result<ReplicaId, DataError> {
        if self.options().read_only {
            return Err(DataError::Denied(
                "the database is opened for reading only".into(),
            ));
        }
        let replication = &self.shared().replication;
        let _applying = replication.applying.lock();
        if !replication.is_on() {
            // A unique number: existing content counts as put by it.
            let ticket = self.take_number()?;
            let now = self.options().clock.now_ms();
            let base = Stamp {
                dot: crate::Dot {
                    replica: ticket.replica,
                    number: ticket.number,
                    op: 0,
                },
                time: self.shared().own_replica.tick(now),
            };
            // Nothing is committed between reading the existing content and the commit.
            let _gate = self.shared().gate.write();
            let mut tx = self.engine().begin()?;
            let mut stored = Vec::new();
            base.push(&mut stored);
            tx.put(keyspace::REPLICATION, &stored)?;
            tx.put(&keyspace::own_number(ticket.number), &[])?;
            if !is_empty(&*tx)? {
                // Existing content is not in the log.
                self.put_floor(&mut *tx, ticket.replica, ticket.number)?;
            }
            if replication.space.read().is_none() {
                file_log::adopt(&mut *tx, base)?;
            }
            // A transaction that began earlier would not be sent: each has read the schema, and so conflicts.
            tx.guard(Item::Schema.granule(), GuardMode::Write);
            replication.switch(Some(base));
            let committed = tx.commit(Durability::Synced);
            super::rules::end_point();
            match committed {
                Ok(version) => ticket.committed(version),
                Err(error) => {
                    replication.switch(None);
                    return Err(error.into());
                }
            }
        }
        match self.replica() {
            Some(name) => Ok(name),
            // Nothing was written since the last opening: the name is created with the next number.
            None => {
                drop(self.take_number()?);
                self.replica()
                    .ok_or_else(|| DataError::Internal("this replica has no name".into()))
            }
        }
    }
}
