//! A snapshot that a peer hands over without having been asked: its pages are collected beside the database, and joined when the
//! last one is here. A peer that leaves in between leaves nothing behind.
//!
//! Pages of one snapshot bear the number of its session, which the receiver makes for the first one, the sender's name, and the
//! place that the page before said to go on at. One snapshot is collected at a time.

use std::io::{Read, Write};

use isomer_storage::StorageError;
use parking_lot::MutexGuard;

use super::{join::Joining, snapshot::next_place};
use crate::{
    DataError, Store,
    spill::{SpillFile, SpillRun},
};

/// After so long without a page of one snapshot another one may be begun.
const PATIENCE_MS: u64 = 2 * 60 * 1000;

/// A page of a snapshot that is handed over.
#[derive(Clone, Copy, Debug)]
pub struct PushedPage<'p> {
    /// The number that the first page was answered with; 0 in the first one.
    pub session: u128,
    /// Whose state it is.
    pub from: [u8; 16],
    /// Where the page before said to go on; empty in the first one.
    pub place: &'p [u8],
    /// The page, as [`Store::snapshot_page`] makes it.
    pub page: &'p [u8],
}

/// The pages that came so far.
pub(crate) struct Collected {
    session: u128,
    from: [u8; 16],
    file: SpillFile,
    pages: Vec<SpillRun>,
    /// Of the page that came last, and of the next one.
    last: Vec<u8>,
    next: Vec<u8>,
    heard_ms: u64,
}

fn unavailable(why: &str) -> DataError {
    StorageError::Unavailable(why.into()).into()
}

impl Store {
    /// Takes a page of a snapshot that a peer hands over without having been asked; the last one joins them all. Answers the
    /// number of the session, and whether this was the last page.
    ///
    /// # Errors
    /// [`DataError::Storage`] (unavailable) where another snapshot is on its way, and for a page that does not follow the one before
    /// it; [`DataError::Invalid`] for what is no page; those of [`Joining::join_page`].
    pub fn join_pushed(&self, pushed: &PushedPage<'_>) -> Result<(u128, bool), DataError> {
        let session = self.shared().replication.session.try_lock();
        let mut session = session
            .ok_or_else(|| unavailable("a snapshot is being joined: hand this one over later"))?;
        let next = next_place(pushed.page)?;
        if pushed.session == 0 {
            self.begin_session(&mut session, pushed)?;
        }
        let is_its = |collected: &&mut Collected| {
            collected.from == pushed.from && [0, collected.session].contains(&pushed.session)
        };
        let collected = session.as_mut().filter(is_its).ok_or_else(|| {
            unavailable("a page of a snapshot came whose first one is not here: begin anew")
        })?;
        let number = collected.session;
        if !collected.pages.is_empty() && collected.last == pushed.place {
            return Ok((number, false)); // the answer to it was lost
        }
        if collected.next != pushed.place {
            *session = None;
            return Err(unavailable(
                "a page of a snapshot came that does not follow the one before it: begin anew",
            ));
        }
        collected.heard_ms = self.options().clock.now_ms();
        let Some(next) = next else {
            let done = session.take().map(|collected| {
                let mut joining = self.begin_join()?;
                collected.join(self, &mut joining, pushed.page)
            });
            done.transpose()?;
            return Ok((number, true));
        };
        let kept = collected.keep(pushed.page);
        if let Err(error) = kept {
            *session = None;
            return Err(self.spill_folder().error(&error));
        }
        (collected.last, collected.next) = (pushed.place.to_vec(), next);
        Ok((number, false))
    }

    fn begin_session(
        &self,
        session: &mut MutexGuard<'_, Option<Collected>>,
        pushed: &PushedPage<'_>,
    ) -> Result<(), DataError> {
        let now = self.options().clock.now_ms();
        let other = session.as_ref().filter(|other| other.from != pushed.from);
        if other.is_some_and(|other| now < other.heard_ms.saturating_add(PATIENCE_MS)) {
            return Err(unavailable(
                "another replica is handing its state over: hand this one over later",
            ));
        }
        if self.is_being_joined() {
            return Err(super::join::joining_error());
        }
        let folder = self.spill_folder();
        **session = Some(Collected {
            session: uuid::Uuid::new_v4().as_u128(),
            from: pushed.from,
            file: folder.file().map_err(|error| folder.error(&error))?,
            pages: Vec::new(),
            last: Vec::new(),
            next: Vec::new(),
            heard_ms: now,
        });
        Ok(())
    }
}

impl Collected {
    fn keep(&mut self, page: &[u8]) -> std::io::Result<()> {
        let mut writer = self.file.writer();
        writer.write_all(page)?;
        self.pages.push(writer.finish()?);
        Ok(())
    }

    fn join(self, store: &Store, joining: &mut Joining, last: &[u8]) -> Result<(), DataError> {
        for run in &self.pages {
            let mut page = Vec::new();
            let read = run.reader().read_to_end(&mut page);
            read.map_err(|error| store.spill_folder().error(&error))?;
            joining.join_page(store, &page)?;
        }
        joining.join_page(store, last).map(drop)
    }
}
