//! Snapshots that are held for replicas that fetch this database's state in pages: all pages of one state transfer read
//! one version.
//!
//! The cursor in a page begins with the number of its transfer. At most [`MAX_TRANSFERS`] snapshots are held, each
//! until no page was requested for [`PAGE_TIMEOUT_MS`] of elapsed time (setting the clock has no effect), and in total
//! no longer than [`TRANSFER_TIMEOUT_MS`]. A new transfer replaces one whose last page was made, or that was idle for
//! [`IDLE_TIMEOUT_MS`]; otherwise it is refused and retries later: it has nothing to lose, in contrast to transfers in
//! progress. One whose last page was made stays for a while, as that page may have been lost on its way. A held
//! snapshot only retains the versions that it reads. A request for a page of a transfer that is not held any more is
//! answered with an error, and the receiver starts again.

use isomer_data::{DataError, DataStore};
use isomer_layout::keyspace::JOINING;
use isomer_storage::StorageError;

use crate::{
    log,
    state::{OutgoingTransfer, replication_of},
};

/// State transfers that are sent concurrently, at most.
pub(crate) const MAX_TRANSFERS: usize = 8;

/// A new state transfer, or the one of that number.
pub(crate) fn open_outgoing(
    store: &DataStore,
    number: Option<u128>,
) -> Result<OutgoingTransfer, DataError> {
    let now_ms = store.options().clock.passed_ms();
    release_idle(store, now_ms);
    let Some(number) = number else {
        let snapshot = store.engine().snapshot()?;
        // Of the state that is being sent: a state transfer may have begun a moment ago.
        if snapshot.get(JOINING)?.is_some() {
            return Err(isomer_data::internals::joining_error());
        }
        return Ok(OutgoingTransfer {
            number: uuid::Uuid::new_v4().as_u128(),
            seen: log::shippable(store, &*snapshot)?,
            snapshot,
            begun_ms: now_ms,
            asked_ms: now_ms,
            is_done: false,
        });
    };
    let mut held = replication_of(store).outgoing.lock();
    let found = held.iter_mut().find(|one| one.number == number);
    let found = found.ok_or_else(|| {
        StorageError::Unavailable(
            "the state of these pages is no longer held, as no page was requested for ten minutes, it took six hours, or the database was reopened: join it from its first page on".into(),
        )
    })?;
    found.asked_ms = now_ms;
    Ok(found.clone())
}

/// Holds the read of a page, the last one or not.
///
/// # Errors
/// [`DataError::Storage`] (unavailable) for a new one while the limit is reached.
pub(crate) fn keep_outgoing(
    store: &DataStore,
    mut outgoing: OutgoingTransfer,
    is_done: bool,
) -> Result<(), DataError> {
    let now_ms = store.options().clock.passed_ms();
    let mut held = replication_of(store).outgoing.lock();
    if let Some(own) = held.iter_mut().find(|one| one.number == outgoing.number) {
        (own.asked_ms, own.is_done) = (now_ms, own.is_done || is_done);
        return Ok(());
    }
    if is_done {
        return Ok(()); // a single page was enough, or the read was released
    }
    // Each snapshot keeps old versions from being removed, so their number is bounded. A
    // transfer in progress is never replaced: its receiver would have to begin again, and
    // under load none would complete.
    if held.len() >= MAX_TRANSFERS {
        let free = |one: &&OutgoingTransfer| one.is_done || one.is_idle(now_ms);
        let longest = held.iter().filter(free).min_by_key(|one| one.asked_ms);
        let number = longest.map(|one| one.number).ok_or_else(|| {
            StorageError::Unavailable(format!(
                "{MAX_TRANSFERS} replicas are joining this one's state: retry when one of them is done"
            ))
        })?;
        held.retain(|one| one.number != number);
    }
    outgoing.asked_ms = now_ms;
    held.push(outgoing);
    Ok(())
}

/// How many replicas are merging this one's state in pages, and the age of the oldest transfer in ms.
pub fn outgoing_transfers(store: &DataStore) -> (u64, u64) {
    let now_ms = store.options().clock.passed_ms();
    release_idle(store, now_ms);
    let held = replication_of(store).outgoing.lock();
    let longest = held.iter().map(|one| now_ms.saturating_sub(one.begun_ms));
    (held.len() as u64, longest.max().unwrap_or(0))
}

/// Releases reads that are no longer requested. A sweeper does so periodically.
pub(crate) fn release_idle_reads(store: &DataStore) {
    release_idle(store, store.options().clock.passed_ms());
}

fn release_idle(store: &DataStore, now_ms: u64) {
    let mut held = replication_of(store).outgoing.lock();
    held.retain(|one| !one.is_over(now_ms));
}
