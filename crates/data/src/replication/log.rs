//! The log: transactions that other replicas may lack, by replica and number, until all members have acknowledged them.

use std::fmt::Write;

use isomer_storage::Read;

use super::space::ReplicatedSpace;
use crate::{
    DataError, Store,
    convergent::{ReplicaNo, Vector, replica::decode_seen},
    keyspace::{self, push_id, sole_id},
    read::each_pair,
};

/// How a replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationStatus {
    /// What of the database is replicated; everything where none is declared.
    pub space: Option<ReplicatedSpace>,
    /// Its name: 32 hexadecimal digits and its epoch.
    pub name: String,
    /// Transactions in its log: own ones and those of others.
    pub log_entries: u64,
    /// Conflicts noted, some of which may have been resolved.
    pub conflicts: u64,
    /// Names of replicas that are known here, each epoch apart; they are never forgotten.
    pub names: u64,
    /// How many there may be.
    pub most_names: u64,
    /// Replicas that are joining this one's state in pages right now, for which an old version is kept.
    pub joins_served: u64,
    /// For how many ms the first of them has been.
    pub served_ms: u64,
}

impl Store {
    /// How this replica is.
    ///
    /// # Errors
    /// [`DataError::Denied`] in a database that is no replica; those of the engine.
    pub fn replication_status(&self) -> Result<ReplicationStatus, DataError> {
        let own = self.begin_replication()?;
        let snapshot = self.engine().snapshot()?;
        let mut name = String::new();
        for byte in own.id {
            let _ = write!(name, "{byte:02x}"); // a string takes everything
        }
        let _ = write!(name, " epoch {}", own.epoch);
        let count = |prefix: &[u8]| -> Result<u64, DataError> {
            let mut count = 0;
            each_pair(&*snapshot, prefix, |_, _| {
                count += 1;
                Ok(())
            })?;
            Ok(count)
        };
        let (joins_served, served_ms) = self.joins_served();
        let (names, most_names) = self.shared().own_replica.names();
        Ok(ReplicationStatus {
            names,
            most_names,
            joins_served,
            served_ms,
            space: self.replicated_space(),
            name,
            log_entries: count(keyspace::LOG)?,
            conflicts: count(keyspace::CONFLICTS)?,
        })
    }

    /// The log holds nothing of a replica up to and including a number.
    pub(super) fn put_floor(
        &self,
        tx: &mut dyn isomer_storage::Transaction,
        replica: ReplicaNo,
        number: u64,
    ) -> Result<(), DataError> {
        let mut value = Vec::new();
        push_id(&mut value, number);
        Ok(tx.put(&keyspace::floor(replica.0), &value)?)
    }

    /// Up to which number the log holds nothing of a replica.
    pub(super) fn floor(&self, read: &dyn Read, replica: ReplicaNo) -> Result<u64, DataError> {
        match read.get(&keyspace::floor(replica.0))? {
            Some(value) => sole_id(&value, "where the log begins"),
            None => Ok(0),
        }
    }

    /// What can be handed on of a state: of this replica only what comes before everything under way.
    pub(super) fn shippable(&self, read: &dyn Read) -> Result<Vector, DataError> {
        let settled = self.shared().own_replica.settled_in(read.version());
        let mut seen = self.seen_in(read, None)?;
        if let Some((own, settled)) = settled
            && !super::rules::broken(super::rules::Mutant::ShipsUnsettled)
        {
            let stored = match read.get(&keyspace::seen(own.0))? {
                Some(value) => decode_seen(&value)?.0,
                None => 0,
            };
            seen.set(own, settled.unwrap_or(0).max(stored), Vec::new());
        }
        Ok(seen)
    }
}
