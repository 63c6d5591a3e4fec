//! Reads that are held for replicas that join this database's state in pages: all pages of one join are of one version.
//!
//! A place that a page names begins with the number of its read. At most [`MOST`] are held, each until nobody has asked for a page for
//! [`PATIENCE_MS`] of time that has passed (no setting of a clock changes it), and in all no longer than [`ALL_MS`]. A newcomer takes the
//! place of one whose last page was made, or of which nothing was heard for [`IDLE_MS`]; where there is none, it is told to come
//! later: it has nothing to lose, and those who are at work have. One whose last page was made stays for a while, as that page may
//! have been lost on its way. A read that is held keeps what it reads from being cleaned away, nothing else. Whoever asks for a page of
//! one that is not held any more is told to begin anew.

use std::sync::Arc;

use isomer_storage::{Snapshot, StorageError};

use super::rules::{self, Mutant};
use crate::{DataError, Store, convergent::Vector, keyspace::JOINING};

/// Joins that are served at once.
pub(super) const MOST: usize = 8;
/// How long a read is held after a page was made: a page that takes longer to arrive than this is not asked for again.
pub(super) const PATIENCE_MS: u64 = 10 * 60 * 1000;
/// After so long a newcomer may take its place, and after so long one goes whose last page was made.
pub(super) const IDLE_MS: u64 = 2 * 60 * 1000;
/// How long it is held in all.
pub(super) const ALL_MS: u64 = 6 * 60 * 60 * 1000;

/// A version that is handed over in pages.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) number: u128,
    pub(super) snapshot: Arc<dyn Snapshot>,
    /// What it has seen, as it is told.
    pub(super) seen: Vector,
    begun_ms: u64,
    asked_ms: u64,
    /// Whether its last page was made.
    pub(super) is_done: bool,
}

impl Served {
    fn is_idle(&self, now_ms: u64) -> bool {
        now_ms >= self.asked_ms.saturating_add(IDLE_MS)
    }

    fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.asked_ms.saturating_add(PATIENCE_MS)
            || now_ms >= self.begun_ms.saturating_add(ALL_MS)
            || self.is_done && self.is_idle(now_ms)
    }
}

impl Store {
    /// The read of a join: a new one, or the one of that number.
    pub(super) fn serve(&self, number: Option<u128>) -> Result<Served, DataError> {
        let now_ms = self.options().clock.passed_ms();
        self.let_go(now_ms);
        let Some(number) = number else {
            let snapshot = self.engine().snapshot()?;
            // Of the very state that is handed over: a join may have begun a moment ago.
            if snapshot.get(JOINING)?.is_some() {
                return Err(super::join::joining_error());
            }
            return Ok(Served {
                number: uuid::Uuid::new_v4().as_u128(),
                seen: self.shippable(&*snapshot)?,
                snapshot,
                begun_ms: now_ms,
                asked_ms: now_ms,
                is_done: false,
            });
        };
        let mut held = self.shared().replication.served.lock();
        let found = held.iter_mut().find(|one| one.number == number);
        let found = found.ok_or_else(|| {
            StorageError::Unavailable(
                "the state that these pages were of is not held any more, as no page was asked for in ten minutes, it took six hours, or the database was opened anew: join it from its first page on".into(),
            )
        })?;
        found.asked_ms = now_ms;
        let mut found = found.clone();
        if rules::broken(Mutant::PagesOfAnyState) {
            found.snapshot = self.engine().snapshot()?;
        }
        Ok(found)
    }

    /// Holds a read of which a page was made, the last one or not.
    ///
    /// # Errors
    /// [`DataError::Storage`] (unavailable) for a new one while there is no room.
    pub(super) fn hold_served(&self, mut served: Served, is_done: bool) -> Result<(), DataError> {
        let now_ms = self.options().clock.passed_ms();
        let mut held = self.shared().replication.served.lock();
        if let Some(own) = held.iter_mut().find(|one| one.number == served.number) {
            (own.asked_ms, own.is_done) = (now_ms, own.is_done || is_done);
            return Ok(());
        }
        if is_done {
            return Ok(()); // all of it was one page, or it was let go meanwhile
        }
        if held.len() >= MOST {
            let free = |one: &&Served| one.is_done || one.is_idle(now_ms);
            let longest = held.iter().filter(free).min_by_key(|one| one.asked_ms);
            let number = longest.map(|one| one.number).ok_or_else(|| {
                StorageError::Unavailable(format!(
                    "{MOST} replicas are joining this one's state: come again when one of them is done"
                ))
            })?;
            held.retain(|one| one.number != number);
        }
        served.asked_ms = now_ms;
        held.push(served);
        Ok(())
    }

    /// How many replicas are joining this one's state in pages, and for how many ms the first of them has been.
    pub fn joins_served(&self) -> (u64, u64) {
        let now_ms = self.options().clock.passed_ms();
        self.let_go(now_ms);
        let held = self.shared().replication.served.lock();
        let longest = held.iter().map(|one| now_ms.saturating_sub(one.begun_ms));
        (held.len() as u64, longest.max().unwrap_or(0))
    }

    /// Lets go what nobody asks for any more. A sweeper does so now and then.
    pub(crate) fn let_go_of_served(&self) {
        self.let_go(self.options().clock.passed_ms());
    }

    fn let_go(&self, now_ms: u64) {
        let mut held = self.shared().replication.served.lock();
        held.retain(|one| !one.is_over(now_ms));
    }
}
