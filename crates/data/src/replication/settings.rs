//! Whether a database is a replica, and since when.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use isomer_storage::{Durability, GuardMode, KeyRange, Order, Page, PageLimit, Read};
use parking_lot::{Mutex, RwLock};

use super::{
    codec::malformed,
    file_seal,
    keep::{Keepers, Rested},
    members::{self, Members},
    pushed::Collected,
    served::Served,
    space::{self, Space},
    versions::{ReplicaNames, Stamp},
};
use crate::{
    DataError, Store,
    convergent::{ReplicaId, ReplicaNo, Vector, replica::OwnReplica},
    footprint::Item,
    keyspace,
};

/// What an opened store knows of replication.
#[derive(Default)]
pub(crate) struct Replication {
    is_on: AtomicBool,
    /// Put all that was there before.
    base: RwLock<Option<Stamp>>,
    /// What is replicated; everything where none is declared.
    pub(super) space: RwLock<Option<Arc<Space>>>,
    /// What everybody has seen, and everybody's having seen it has arrived here.
    stable: RwLock<Vector>,
    /// Whether a state is being joined: nobody else is answered.
    is_joining: AtomicBool,
    /// How often that began.
    joins_begun: AtomicU64,
    /// Whether somebody is joining a state right now: nothing else is applied meanwhile.
    pub(super) joins: Arc<AtomicBool>,
    /// The state that a peer is handing over.
    pub(super) session: Mutex<Option<Collected>>,
    /// Reads of those who join this database's state.
    pub(super) served: Mutex<Vec<Served>>,
    pub(super) members: Mutex<Members>,
    /// How long transactions are kept for a member that does not acknowledge them, in ms; 0 for ever.
    pub(super) kept_ms: AtomicU64,
    /// Types whose relationships keep their ends.
    pub(super) keepers: RwLock<Keepers>,
    /// What is known of the relationships of nodes that are kept by them.
    pub(super) rested: Mutex<Rested>,
    /// Held by whoever applies what arrived.
    pub(crate) applying: Mutex<()>,
}

impl Replication {
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let replication = Self::default();
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

    /// Counts joins, before the first thing of each is committed.
    pub(crate) fn joins_begun(&self) -> u64 {
        self.joins_begun.load(Ordering::Acquire)
    }

    pub(super) fn set_joining(&self, joining: bool) {
        if joining {
            self.joins_begun.fetch_add(1, Ordering::AcqRel);
        }
        self.is_joining.store(joining, Ordering::Release);
    }

    /// As if nobody had been told, or had.
    #[cfg(test)]
    pub(super) fn forget_joining(&self, forgotten: bool) {
        self.is_joining.store(!forgotten, Ordering::Release);
    }

    /// Whether the database is a replica.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// What put all that has no shadow.
    pub(crate) fn base(&self) -> Result<Stamp, DataError> {
        let base = *self.base.read();
        base.ok_or_else(|| DataError::Internal("this database is no replica".into()))
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

/// Whether there is a key that begins so.
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

impl Store {
    /// Whether this database is a replica: whether its transactions are kept for others.
    pub fn is_replicated(&self) -> bool {
        self.shared().replication.is_on()
    }

    /// Refuses what does not go through transactions.
    pub(crate) fn refuse_in_replica(&self) -> Result<(), DataError> {
        match self.is_replicated() {
            false => Ok(()),
            true => Err(DataError::Unsupported(
                "a bulk load tells other replicas nothing, and this database is a replica: load before its first peer is added, or write in transactions (UNWIND $rows CREATE …)".into(),
            )),
        }
    }

    /// Makes this database a replica, for good: from now on its transactions are kept until all other replicas have them.
    /// What is in it already travels by snapshot. Transactions under way are told to run again. Costs two small writes for each file that
    /// is there, in one commit, for which others wait.
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
            // A number that nothing else has: what is here counts as put by it.
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
            // Nothing is committed between the look at what is there and the commit.
            let _gate = self.shared().gate.write();
            let mut tx = self.engine().begin()?;
            let mut stored = Vec::new();
            base.push(&mut stored);
            tx.put(keyspace::REPLICATION, &stored)?;
            tx.put(&keyspace::own_number(ticket.number), &[])?;
            if !is_empty(&*tx)? {
                // What is here is in no log.
                self.put_floor(&mut *tx, ticket.replica, ticket.number)?;
            }
            if replication.space.read().is_none() {
                file_seal::adopt(&mut *tx, base)?;
            }
            // Whoever began before this and writes would not be told of: each has looked at the schema.
            tx.guard(Item::Schema.granule(), GuardMode::Write);
            replication.switch(Some(base));
            match tx.commit(Durability::Synced) {
                Ok(version) => ticket.committed(version),
                Err(error) => {
                    replication.switch(None);
                    return Err(error.into());
                }
            }
        }
        match self.replica() {
            Some(name) => Ok(name),
            // Nothing was written since the last opening: the name is made with the next number.
            None => {
                drop(self.take_number()?);
                self.replica()
                    .ok_or_else(|| DataError::Internal("this replica has no name".into()))
            }
        }
    }
}
