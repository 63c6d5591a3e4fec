//! The chain: the segments that make up the log. The manifest names them, so that a segment that is missing or
//! was replaced by another one is detected when the database is opened.
//!
//! A segment is identified by its number and its salt, and, once it is closed, by its end and its versions as
//! well. The order of writes ensures that a loss of power is not mistaken for damage:
//!
//! - A segment is durable before the manifest names it, and the manifest names it durably before a record is
//!   written to it.
//! - The manifest no longer names a segment, durably, before its file is removed or reused.
//! - A segment is named as closed after its closing part was synced.
//!
//! So each file that the manifest names must exist, and every other segment is empty or no longer needed. The
//! manifest is written once per segment, by the thread that creates segments in advance, and not for each
//! commit.

use std::{collections::BTreeMap, fmt, sync::OnceLock};

use isomer_storage::sync::Mutex;
use isomer_storage::{StorageError, Version};

use super::segment::Closing;

/// A segment as the manifest names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its salt, unique to the segment.
    pub salt: u64,
    /// How it ends, once it is closed.
    pub ended: Option<Ended>,
}

/// How a closed segment ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// End of the records.
    pub end: u64,
    /// First and last commit; 0 if there is none.
    pub first: Version,
    pub last: Version,
}

impl From<Closing> for Ended {
    fn from(closing: Closing) -> Self {
        Self {
            end: closing.end,
            first: closing.first,
            last: closing.last,
        }
    }
}

/// Segments by their numbers.
pub type Links = BTreeMap<u64, Link>;

/// Writes the manifest, with the chain at the time of the call.
pub type WriteManifest = dyn Fn() -> Result<(), StorageError> + Send + Sync;

/// The chain in memory, and as the manifest on disk has it. Its lock is the innermost one: the manifest is
/// written under the lock of the tables, and takes the chain's.
#[derive(Default)]
pub struct Chain {
    state: Mutex<State>,
    write: OnceLock<Box<WriteManifest>>,
}

#[derive(Default)]
struct State {
    links: Links,
    /// What the manifest names durably.
    stored: Links,
    /// The names in a manifest that is being written, or whose write failed: it may be on disk.
    pending: Option<Links>,
}

impl State {
    /// Whether the manifest on disk may name a segment for which `is_meant` holds.
    fn may_name(&self, is_meant: impl Fn(u64) -> bool) -> bool {
        let pending = self.pending.iter().flat_map(BTreeMap::keys);
        self.stored
            .keys()
            .chain(pending)
            .any(|number| is_meant(*number))
    }
}

impl Chain {
    /// Sets the function that writes the manifest. Without it nothing is written: for tests of the log alone.
    pub fn set_writer(&self, write: Box<WriteManifest>) {
        // It is set once, when the tables are opened.
        let _ = self.write.set(write);
    }

    /// Sets the chain that the manifest names, when opening.
    pub fn load(&self, links: Links) {
        let mut state = self.state.lock();
        (state.links, state.stored) = (links.clone(), links);
    }

    /// The current chain.
    pub(super) fn links(&self) -> Links {
        self.state.lock().links.clone()
    }

    /// The chain for a manifest that is about to be written. One is written at a time.
    pub fn begin_storing(&self) -> Links {
        let mut state = self.state.lock();
        state.pending = Some(state.links.clone());
        state.links.clone()
    }

    /// Records that the manifest for which [`Chain::begin_storing`] was last called is durable.
    pub fn end_storing(&self) {
        let mut state = self.state.lock();
        if let Some(links) = state.pending.take() {
            state.stored = links;
        }
    }

    /// Writes the current chain to the manifest, durably.
    pub fn store(&self) -> Result<(), StorageError> {
        {
            let mut state = self.state.lock();
            if state.pending.is_none() && state.links == state.stored {
                return Ok(());
            }
            if self.write.get().is_none() {
                state.stored = state.links.clone();
                return Ok(());
            }
        }
        self.write.get().map_or(Ok(()), |write| write())
    }

    /// Replaces the whole chain.
    pub(super) fn replace(&self, links: Links) {
        self.state.lock().links = links;
    }

    /// Adds a segment that is durable under its name.
    pub(super) fn name(&self, number: u64, salt: u64) {
        let link = Link { salt, ended: None };
        self.state.lock().links.insert(number, link);
    }

    /// Marks a segment as closed.
    pub(super) fn close(&self, number: u64, ended: Ended) {
        if let Some(link) = self.state.lock().links.get_mut(&number) {
            link.ended = Some(ended);
        }
    }

    /// Removes segments from the chain, durably; on an error they stay in it.
    pub(super) fn forget(&self, goes: impl Fn(u64) -> bool + Copy) -> Result<(), StorageError> {
        let gone: Links = {
            let mut state = self.state.lock();
            let gone = state.links.extract_if(.., |number, _| goes(*number));
            gone.collect()
        };
        // Other changes may wait for the next write of the manifest.
        if !self.state.lock().may_name(goes) {
            return Ok(());
        }
        self.store().inspect_err(|_| {
            self.state.lock().links.extend(gone);
        })
    }

    /// Ensures that the manifest names a segment before anything is written to it.
    pub(super) fn ensure_stored(&self, number: u64, salt: u64) -> Result<(), StorageError> {
        let is_stored = {
            let state = self.state.lock();
            let stored = state.stored.get(&number);
            stored.is_some_and(|link| link.salt == salt)
        };
        if is_stored { Ok(()) } else { self.store() }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        formatter
            .debug_struct("Chain")
            .field("links", &state.links)
            .finish_non_exhaustive()
    }
}
