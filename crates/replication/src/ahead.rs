//! Transactions stamped by a clock that runs ahead.
//!
//! A hybrid time more than [`MAX_AHEAD_MS`] ahead of this database's clock is not accepted: a transaction with such a
//! time is *held back*, with all that follows it in causal order, while the rest of its page is applied. This is not
//! stored: the transaction arrives again with each exchange, and is applied once the clock has reached its time, or
//! once an administrator *accepts* such times ([`accept_clock`]). Dots and stamps are never adjusted: a stamp
//! that each replica adjusted by itself would differ between replicas.
//!
//! An accepted time never advances this database's own hybrid clock (the paper on hybrid logical clocks, Kulkarni and
//! others 2014, bounds it in the same way): later local writes are stamped by the clock again, and no third replica has
//! to accept them. The transaction still replaces what it has seen, as that is decided by dots; times decide only
//! between concurrent values.
//!
//! ```text
//! 49 0a  accepted   id ms since 1970: stamps up to this time are accepted
//! ```

use std::sync::atomic::Ordering;

use isomer_data::{
    DataError, DataStore, ReplicaId,
    internals::{convergent::MAX_AHEAD_MS, own_replica},
};
use isomer_layout::keyspace::{self, push_id};
use isomer_storage::Durability;

use crate::state::replication_of;

/// Why transactions of a page were not applied: the first of them that is stamped ahead of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// The replica that wrote it.
    pub replica: ReplicaId,
    /// Its number in that replica.
    pub number: u64,
    /// Its stamp, in ms since 1970.
    pub time_ms: u64,
    /// How far that is ahead of this database's clock, in ms.
    pub ahead_ms: u64,
    /// How many transactions of the page were held back, this one and those that follow it.
    pub transactions: u64,
}

impl HeldBack {
    pub(super) fn error(&self) -> DataError {
        DataError::ClockAhead {
            time_ms: self.time_ms,
            ahead_ms: self.ahead_ms,
        }
    }
}

/// Refuses a hybrid time that is too far ahead of this database's clock, unless it was accepted.
///
/// # Errors
/// [`DataError::ClockAhead`].
pub(crate) fn check_time(store: &DataStore, time: u64) -> Result<(), DataError> {
    let Some(ahead_ms) = ahead_ms(store, time) else {
        return Ok(());
    };
    let time_ms = time >> 16;
    let accepted = &replication_of(store).accepted;
    if accepted.is_any.load(Ordering::Relaxed) {
        accepted.latest_ms.fetch_max(time_ms, Ordering::Relaxed);
        return Ok(());
    }
    match time_ms <= accepted.until_ms.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(DataError::ClockAhead { time_ms, ahead_ms }),
    }
}

/// By how much a hybrid time is ahead of the clock, where that is too much.
pub(crate) fn ahead_ms(store: &DataStore, time: u64) -> Option<u64> {
    let ahead_ms = (time >> 16).saturating_sub(store.options().clock.now_ms());
    (ahead_ms > MAX_AHEAD_MS).then_some(ahead_ms)
}

/// Later local writes get later times than this one, unless it is too far ahead of the clock.
pub(crate) fn advance_time(store: &DataStore, time: u64) {
    if ahead_ms(store, time).is_none() {
        let own = own_replica(store);
        own.follow_clock(store.options().clock.now_ms());
        own.advance_time(time);
    }
}

/// Up to which time stamps ahead of the clock are accepted, in ms since 1970; 0 if none are.
pub fn accepted_clock_ms(store: &DataStore) -> u64 {
    let accepted = &replication_of(store).accepted;
    accepted.until_ms.load(Ordering::Relaxed)
}

/// Accepts transactions of other replicas that are stamped up to this time, in ms since 1970, as if the clock had
/// reached it; 0 resets this. Applied transactions stay.
///
/// # Errors
/// Those of a commit.
pub fn accept_clock(store: &DataStore, until_ms: u64) -> Result<(), DataError> {
    let mut value = Vec::new();
    push_id(&mut value, until_ms);
    let mut tx = store.engine().begin()?;
    match until_ms {
        0 => tx.delete(keyspace::CLOCK_ACCEPTED)?,
        _ => tx.put(keyspace::CLOCK_ACCEPTED, &value)?,
    }
    tx.commit(Durability::Synced)?;
    let accepted = &replication_of(store).accepted;
    accepted.until_ms.store(until_ms, Ordering::Relaxed);
    Ok(())
}

/// Accepts all stamps while `exchange` runs, and continues to accept those up to the latest stamp received. Returns
/// that time too, in ms since 1970, if a stamp was received that was not accepted before.
///
/// # Errors
/// Those of a commit.
pub fn accept_clock_during<T>(
    store: &DataStore,
    exchange: impl FnOnce() -> T,
) -> Result<(T, Option<u64>), DataError> {
    let accepted = &replication_of(store).accepted;
    accepted.latest_ms.store(0, Ordering::Relaxed);
    accepted.is_any.store(true, Ordering::Relaxed);
    let done = exchange();
    accepted.is_any.store(false, Ordering::Relaxed);
    let latest_ms = accepted.latest_ms.load(Ordering::Relaxed);
    let is_new = latest_ms > accepted_clock_ms(store);
    if is_new {
        accept_clock(store, latest_ms)?;
    }
    Ok((done, is_new.then_some(latest_ms)))
}
