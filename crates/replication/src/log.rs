//! The log: transactions that other replicas may lack, by replica and number, until all members have acknowledged them.

use isomer_data::{
    DataError, DataStore, ReplicaNo, Vector,
    internals::{convergent::decode_seen, own_replica},
};
use isomer_layout::keyspace::{self, push_id, sole_id};
use isomer_storage::Read;

/// The log lacks the transactions of a replica up to and including a number.
pub(crate) fn put_floor(
    tx: &mut dyn isomer_storage::EngineTransaction,
    replica: ReplicaNo,
    number: u64,
) -> Result<(), DataError> {
    let mut value = Vec::new();
    push_id(&mut value, number);
    Ok(tx.put(&keyspace::floor(replica.0), &value)?)
}

/// The number up to which the log lacks transactions of a replica.
pub(crate) fn floor(read: &dyn Read, replica: ReplicaNo) -> Result<u64, DataError> {
    match read.get(&keyspace::floor(replica.0))? {
        Some(value) => sole_id(&value, "where the log begins"),
        None => Ok(0),
    }
}

/// The part of a state that can be sent: of this replica only transactions before everything under way.
pub(crate) fn shippable(store: &DataStore, read: &dyn Read) -> Result<Vector, DataError> {
    let settled = own_replica(store).settled_in(read.version());
    let mut seen = store.numbering().seen_in(read, None)?;
    if let Some((own, settled)) = settled {
        let stored = match read.get(&keyspace::seen(own.0))? {
            Some(value) => decode_seen(&value)?.0,
            None => 0,
        };
        seen.set(own, settled.unwrap_or(0).max(stored), Vec::new());
    }
    Ok(seen)
}
