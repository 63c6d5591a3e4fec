//! Whether a database is a replica, and since when.

use isomer_data::{
    DataError, DataStore, ReplicaId,
    internals::{footprint::Item, hold_commits, own_replica, replica_state, replication_state},
};
use isomer_layout::keyspace;
use isomer_storage::{Durability, GuardMode};

use crate::{file_log, log, scope::is_empty, state::replication_of, versions::Stamp};

/// Makes this database a replica, for good: from now on its transactions are kept until all other replicas have
/// them. Its existing content is sent by state transfer. Transactions under way fail with a conflict. Costs two small
/// writes for each existing file, in one commit, for which others wait.
///
/// # Errors
/// [`DataError::Denied`] if the database is opened for reading only; those of a commit.
pub fn begin_replication(store: &DataStore) -> Result<ReplicaId, DataError> {
    if store.options().read_only {
        return Err(DataError::read_only());
    }
    if replication_state(store).is_none() {
        return Err(DataError::Unsupported(
            "this database was opened without replication: open it by `isomer_replication::open`"
                .into(),
        ));
    }
    store.become_exclusive()?;
    let replication = replication_of(store);
    let _applying = replication.applying.lock();
    if !replica_state(store).is_on() {
        // A unique number: existing content counts as put by it.
        let ticket = store.numbering().take()?;
        let now = store.options().clock.now_ms();
        let base = Stamp {
            dot: isomer_data::Dot {
                replica: ticket.replica,
                number: ticket.number,
                op: 0,
            },
            time: own_replica(store).tick(now),
        };
        // Nothing is committed between reading the existing content and the commit.
        let _gate = hold_commits(store);
        let mut tx = store.engine().begin()?;
        let mut stored = Vec::new();
        base.push(&mut stored);
        tx.put(keyspace::REPLICATION, &stored)?;
        tx.put(&keyspace::own_number(ticket.number), &[])?;
        if !is_empty(&*tx)? {
            // Existing content is not in the log.
            log::put_floor(&mut *tx, ticket.replica, ticket.number)?;
        }
        if replication.space.read().is_none() {
            file_log::adopt(&mut *tx, base)?;
        }
        // A transaction that began earlier would not be sent: each has read the schema, and so conflicts.
        tx.guard(Item::Schema.granule(), GuardMode::Write);
        replication.switch(store, Some(base));
        let committed = tx.commit(Durability::Synced);
        crate::crash_point();
        match committed {
            Ok(version) => ticket.committed(version),
            Err(error) => {
                replication.switch(store, None);
                return Err(error.into());
            }
        }
    }
    match store.replica() {
        Some(name) => Ok(name),
        // Nothing was written since the last opening: the name is created with the next number.
        None => {
            drop(store.numbering().take()?);
            store
                .replica()
                .ok_or_else(|| DataError::Internal("this replica has no name".into()))
        }
    }
}
