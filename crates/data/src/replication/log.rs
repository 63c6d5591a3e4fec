//! The log: transactions that other replicas may lack, by replica and number, until all members have acknowledged them.

use std::fmt::Write;

use isomer_storage::Read;

use super::{exchange::no_replica, join::JoiningStatus, space::ReplicatedSpace};
use crate::{
    DataError, DataStore,
    convergent::{ReplicaNo, Vector, replica::decode_seen},
    keyspace::{self, push_id, sole_id},
    read::each_pair,
};

/// The status of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationStatus {
    /// The replicated space; everything where none is declared.
    pub space: Option<ReplicatedSpace>,
    /// The progress of its join, if any.
    pub joining: Option<JoiningStatus>,
    /// Up to which time stamps ahead of its clock are accepted, in ms since 1970; 0 where none are.
    pub accepted_clock_ms: u64,
    /// Its name: 32 hexadecimal digits and its epoch.
    pub name: String,
    /// Transactions in its log: own ones and those of others.
    pub log_entries: u64,
    /// Recorded conflicts, some of which may have been resolved.
    pub conflicts: u64,
    /// Names of known replicas, each epoch separately; they are never forgotten.
    pub names: u64,
    /// The limit of these.
    pub most_names: u64,
    /// Replicas that are joining this one's state in pages right now, for which an old version is kept.
    pub joins_served: u64,
    /// The age of the oldest of these joins, in ms.
    pub served_ms: u64,
}

impl DataStore {
    /// The status of this replica.
    ///
    /// # Errors
    /// [`DataError::Denied`] in a database that is not a replica; those of the engine.
    pub fn replication_status(&self) -> Result<ReplicationStatus, DataError> {
        if !self.is_replicated() {
            return Err(no_replica());
        }
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
            joining: self.joining_status()?,
            accepted_clock_ms: self.accepted_clock_ms(),
            name,
            log_entries: count(keyspace::LOG)?,
            conflicts: count(keyspace::CONFLICTS)?,
        })
    }

    /// The log lacks the transactions of a replica up to and including a number.
    pub(super) fn put_floor(
        &self,
        tx: &mut dyn isomer_storage::EngineTransaction,
        replica: ReplicaNo,
        number: u64,
    ) -> Result<(), DataError> {
        let mut value = Vec::new();
        push_id(&mut value, number);
        Ok(tx.put(&keyspace::floor(replica.0), &value)?)
    }

    /// The number up to which the log lacks transactions of a replica.
    pub(super) fn floor(&self, read: &dyn Read, replica: ReplicaNo) -> Result<u64, DataError> {
        match read.get(&keyspace::floor(replica.0))? {
            Some(value) => sole_id(&value, "where the log begins"),
            None => Ok(0),
        }
    }

    /// The part of a state that can be sent: of this replica only transactions before everything under way.
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
