//! The status of a replica.

use std::fmt::Write;

use isomer_data::{DataError, DataStore, internals::own_replica};
use isomer_layout::{keyspace, pairs::each_pair};

use crate::{
    ahead, begin,
    exchange::no_replica,
    scope,
    space::ReplicatedSpace,
    state_transfer::{
        outgoing,
        receive::{self, StateTransferStatus},
    },
};

/// The status of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationStatus {
    /// The replicated space; everything where none is declared.
    pub space: Option<ReplicatedSpace>,
    /// The progress of its state transfer, if any.
    pub joining: Option<StateTransferStatus>,
    /// Up to which time stamps ahead of its clock are accepted, in ms since 1970; 0 if none are.
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
    /// Replicas that are merging this one's state in pages right now, for which an old version is kept.
    pub outgoing_transfers: u64,
    /// The age of the oldest of these transfers, in ms.
    pub outgoing_ms: u64,
}

/// The status of this replica.
///
/// # Errors
/// [`DataError::Denied`] in a database that is not a replica; those of the engine.
pub fn replication_status(store: &DataStore) -> Result<ReplicationStatus, DataError> {
    if !store.is_replicated() {
        return Err(no_replica());
    }
    let own = begin::begin_replication(store)?;
    let snapshot = store.engine().snapshot()?;
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
    let (outgoing_transfers, outgoing_ms) = outgoing::outgoing_transfers(store);
    let (names, most_names) = own_replica(store).names();
    Ok(ReplicationStatus {
        names,
        most_names,
        outgoing_transfers,
        outgoing_ms,
        space: scope::replicated_space(store),
        joining: receive::state_transfer_status(store)?,
        accepted_clock_ms: ahead::accepted_clock_ms(store),
        name,
        log_entries: count(keyspace::LOG)?,
        conflicts: count(keyspace::CONFLICTS)?,
    })
}
