//! Exchanging transactions with other replicas (feature `replication`).

use isomer_db::internals::{DatabaseInternals as _, error};
use isomer_sync::{Local, SyncError};

use crate::{Database, Error, Result};

/// What an exchange did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchanged {
    /// Transactions that this database applied.
    pub received: u64,
    /// Transactions that the other database applied.
    pub sent: u64,
}

/// Exchanges transactions with another open database until neither lacks anything that the other one has. Both become
/// replicas, if they are none yet. Concurrent changes of convergent fields ([`crate::Update`]) merge; of concurrent
/// plain values, the latest is visible.
///
/// What was exchanged before an error is kept; the next exchange continues.
///
/// ```
/// use isomerdb::{Database, replication};
///
/// let (here, there) = (Database::open_in_memory()?, Database::open_in_memory()?);
/// here.query("CREATE (:Note {_key: 1, text: 'made here'})")?;
/// replication::exchange(&here, &there)?;
/// assert_eq!(there.query("MATCH (n:Note {_key: 1}) RETURN n")?.len(), 1);
/// # Ok::<(), isomerdb::Error>(())
/// ```
pub fn exchange(here: &Database, there: &Database) -> Result<Exchanged> {
    let run = || -> Result<isomer_sync::Exchanged, SyncError> {
        let (store, other) = (here.store()?, there.store()?);
        for one in [&store, &other] {
            if !one.is_replicated() {
                isomer_replication::begin_replication(one)?;
            }
        }
        let mut peer = Local::new("the other database", there)?;
        isomer_sync::exchange(&store, &mut peer, &mut |_| {})
    };
    let done = run().map_err(|failed| -> Error {
        match failed {
            SyncError::Database(failed) => failed,
            failed => error(failed.kind(), failed.to_string()),
        }
    })?;
    Ok(Exchanged {
        received: done.received,
        sent: done.sent,
    })
}
