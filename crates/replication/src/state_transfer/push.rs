//! A state that a peer pushes without having been asked: its pages are collected in a file outside the database, and
//! merged when the last one has arrived. A peer that disconnects before leaves nothing behind.
//!
//! The pages of one push carry the session number, which the receiver assigns to the first one, the sender's name, and
//! the cursor at which the previous page ended. One state is collected at a time.

use std::io::{Read as _, Write as _};

use isomer_data::{DataError, DataStore};
use isomer_storage::StorageError;
use parking_lot::MutexGuard;

use crate::{
    state::replication_of,
    state_transfer::{
        progress::{EndedPush, PushState, PushedPage, PushedPages, StateTransfer},
        receive,
        send::next_cursor,
    },
};

/// After this time without a page of one state, another one may begin.
pub(crate) const PUSH_TIMEOUT_MS: u64 = 2 * 60 * 1000;

fn unavailable(why: &str) -> DataError {
    StorageError::Unavailable(why.into()).into()
}

/// Receives a page of a state that a peer pushes without having been asked; the last one merges them all. Returns
/// the session number, and whether this was the last page.
///
/// # Errors
/// [`DataError::JoinRunning`] while another request merges a state; [`DataError::Storage`] (unavailable) while
/// another one is being received, and for a page that does not follow the one before it; [`DataError::Invalid`] for
/// bytes that are not a page; those of [`StateTransfer::merge_page`].
pub fn merge_pushed(store: &DataStore, pushed: &PushedPage<'_>) -> Result<(u128, bool), DataError> {
    // Merging may take minutes, with this lock held. A sender that waited for it would time
    // out and send the page again.
    let session = replication_of(store).session.try_lock();
    let mut session = session.ok_or(DataError::JoinRunning)?;
    let next = next_cursor(pushed.page)?;
    let merged = session.merged.as_ref();
    if merged.is_some_and(|merged| merged.ended_with(pushed)) {
        return Ok((pushed.session, true)); // the answer to it was lost, or took too long
    }
    if pushed.session == 0 {
        begin_session(store, &mut session, pushed)?;
    }
    let is_its = |collected: &&mut PushedPages| {
        collected.from == pushed.from && [0, collected.session].contains(&pushed.session)
    };
    let collected = session.collected.as_mut().filter(is_its).ok_or_else(|| {
        unavailable("received a page of a snapshot without its first page: start again")
    })?;
    let number = collected.session;
    if !collected.pages.is_empty() && collected.last == pushed.cursor {
        return Ok((number, false)); // the answer to it was lost
    }
    if collected.next != pushed.cursor {
        session.collected = None;
        return Err(unavailable(
            "received a page of a snapshot out of order: start again",
        ));
    }
    collected.last_page_ms = store.options().clock.passed_ms();
    // The last page: only now does the database change. Until here a sender that disconnects leaves
    // nothing but a temporary file.
    let Some(next) = next else {
        let done = session.collected.take().map(|collected| {
            let mut transfer = receive::begin_state_transfer(store)?;
            collected.merge(store, &mut transfer, pushed.page)
        });
        done.transpose()?;
        // After the merge. If it fails, the sender repeats the push from its first page.
        session.merged = Some(EndedPush {
            session: number,
            from: pushed.from,
            cursor: pushed.cursor.to_vec(),
        });
        return Ok((number, true));
    };
    let kept = collected.keep(pushed.page);
    if let Err(error) = kept {
        session.collected = None;
        return Err(store.spill_folder().explain(&error).into());
    }
    (collected.last, collected.next) = (pushed.cursor.to_vec(), next);
    Ok((number, false))
}

fn begin_session(
    store: &DataStore,
    session: &mut MutexGuard<'_, PushState>,
    pushed: &PushedPage<'_>,
) -> Result<(), DataError> {
    let now = store.options().clock.passed_ms();
    let other = session
        .collected
        .as_ref()
        .filter(|other| other.from != pushed.from);
    if other.is_some_and(|other| now < other.last_page_ms.saturating_add(PUSH_TIMEOUT_MS)) {
        return Err(unavailable(
            "another replica is pushing its state: push this one later",
        ));
    }
    if receive::is_merging_state(store) {
        return Err(isomer_data::internals::joining_error());
    }
    let folder = store.spill_folder();
    session.collected = Some(PushedPages {
        session: uuid::Uuid::new_v4().as_u128(),
        from: pushed.from,
        file: folder.file().map_err(|error| folder.explain(&error))?,
        pages: Vec::new(),
        last: Vec::new(),
        next: Vec::new(),
        last_page_ms: now,
    });
    Ok(())
}

impl PushedPages {
    fn keep(&mut self, page: &[u8]) -> std::io::Result<()> {
        let mut writer = self.file.writer();
        writer.write_all(page)?;
        self.pages.push(writer.finish()?);
        Ok(())
    }

    fn merge(
        self,
        store: &DataStore,
        transfer: &mut StateTransfer,
        last: &[u8],
    ) -> Result<(), DataError> {
        for run in &self.pages {
            let mut page = Vec::new();
            let read = run.reader().read_to_end(&mut page);
            read.map_err(|error| store.spill_folder().explain(&error))?;
            transfer.merge_page(store, &page)?;
        }
        transfer.merge_page(store, last).map(drop)
    }
}
