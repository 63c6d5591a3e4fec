//! Merging the state of another replica with this one's, page by page.
//!
//! An item that both have stays; an item that one has stays unless the other has seen it, and so has seen it removed
//! (an observed-remove set). A state of one page is merged in one transaction. One of several pages is merged in one
//! transaction a page; until all pages, and everything committed in between, have been applied, the database refuses
//! transactions with the error that it is being brought up to date. That is stored, so that it holds after a crash,
//! too; the state transfer starts again then.

use std::sync::atomic::Ordering;

use isomer_data::{
    DataError, DataStore, ReplicaId, Transaction, Vector,
    internals::{joining_error, notify_readers, own_replica, replica_state},
};
use isomer_layout::{
    keyspace::{JOINING, push_id, take_id},
    replicated::codec::{malformed, take_byte},
};
use isomer_storage::{Durability, Read, StorageError};
use isomer_value::{NodeId, RelId};
use rustc_hash::FxHashSet;

use crate::{
    ahead, apply, crash_point, mapping,
    state::replication_of,
    state_transfer::{
        finish, merge_buckets, merge_files, merge_records,
        progress::{Ids, Sides, StateTransfer, StateTransferGuard},
    },
    wire::{self, Incoming, tag},
};

/// The progress of a state transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTransferStatus {
    /// When it began, in ms since 1970; 0 if that was not recorded.
    pub since_ms: u64,
    /// Whether all of its pages were merged, so that only later transactions are missing.
    pub is_whole: bool,
    /// The number of replicas of which transactions are missing, and of these transactions.
    pub lacks: Vec<(ReplicaId, u64)>,
}

/// The stored record of a state transfer.
///
/// ```text
/// u8 1 all pages were merged + 2 the time follows, vector that has to be seen before transactions are accepted, id ms since
/// 1970 when it began
/// ```
struct StateTransferRecord {
    is_whole: bool,
    until: Vector,
    since_ms: u64,
}

impl StateTransferRecord {
    fn read(read: &dyn Read) -> Result<Option<Self>, DataError> {
        let stored = read.get(JOINING)?;
        stored.map(|stored| Self::decode(&stored)).transpose()
    }

    fn encode(&self) -> Vec<u8> {
        let is_timed = self.since_ms > 0;
        let mut stored = vec![u8::from(self.is_whole) + 2 * u8::from(is_timed)];
        self.until.push_local(&mut stored);
        if is_timed {
            push_id(&mut stored, self.since_ms);
        }
        stored
    }

    fn decode(mut stored: &[u8]) -> Result<Self, DataError> {
        let rest = &mut stored;
        let note = take_byte(rest)
            .filter(|flags| *flags < 4)
            .and_then(|flags| {
                Some(Self {
                    is_whole: flags & 1 > 0,
                    until: Vector::take_local(rest)?,
                    since_ms: if flags & 2 > 0 { take_id(rest)? } else { 0 },
                })
            });
        let note = note.filter(|_| stored.is_empty());
        note.ok_or_else(|| malformed("the note of a snapshot"))
    }
}

/// Begins to merge another replica's state. Nothing else is applied until the state transfer is dropped.
///
/// # Errors
/// [`DataError::Storage`] (unavailable) while another state is being merged.
pub fn begin_state_transfer(store: &DataStore) -> Result<StateTransfer, DataError> {
    store.become_exclusive()?;
    let replication = replication_of(store);
    // Waits until a concurrent apply has ended.
    let _applying = replication.applying.lock();
    if replication.is_transferring.swap(true, Ordering::AcqRel) {
        return Err(joining_error());
    }
    Ok(StateTransfer {
        _guard: StateTransferGuard(replication.is_transferring.clone()),
        theirs: None,
        cursor: Vec::new(),
        pages: 0,
        nodes: Ids::default(),
        relationships: Ids::default(),
        entries: FxHashSet::default(),
    })
}

/// Whether a state is being merged right now.
pub(crate) fn is_merging_state(store: &DataStore) -> bool {
    replication_of(store)
        .is_transferring
        .load(Ordering::Acquire)
}

/// The progress of the state transfer; none if the database accepts transactions.
///
/// # Errors
/// Those of the engine.
pub fn state_transfer_status(store: &DataStore) -> Result<Option<StateTransferStatus>, DataError> {
    let snapshot = store.engine().snapshot()?;
    let Some(note) = StateTransferRecord::read(&*snapshot)? else {
        return Ok(None);
    };
    let here = store.numbering().seen_in(&*snapshot, None)?;
    let lacking = note.until.iter().filter_map(|(replica, upto)| {
        let lacks = upto.saturating_sub(here.reach(replica));
        let name = own_replica(store).name(replica)?;
        (lacks > 0).then_some((name, lacks))
    });
    Ok(Some(StateTransferStatus {
        since_ms: note.since_ms,
        is_whole: note.is_whole,
        lacks: lacking.collect(),
    }))
}

/// Whether a state was merged in part: only a complete one, of any replica, makes the database available.
pub(crate) fn has_broken_state_transfer(store: &DataStore) -> Result<bool, DataError> {
    if !store.is_joining() {
        return Ok(false);
    }
    let note = StateTransferRecord::read(&*store.engine().snapshot()?)?;
    Ok(note.is_some_and(|note| !note.is_whole))
}

/// Records that transactions are refused until `seen` has been applied, of this state and of those whose merging
/// was interrupted.
fn record_state_transfer(
    store: &DataStore,
    seen: &Vector,
    is_whole: bool,
) -> Result<(), DataError> {
    let mut tx = store.engine().begin()?;
    let mut note = StateTransferRecord::read(&*tx)?.unwrap_or_else(|| StateTransferRecord {
        is_whole,
        until: Vector::new(),
        since_ms: store.options().clock.now_ms(),
    });
    // The vectors of interrupted transfers are kept: their pages are merged in part, and only what
    // they had seen makes the state consistent.
    note.until.join(seen);
    note.is_whole = is_whole;
    let stored = note.encode();
    if tx.get(JOINING)?.is_some_and(|noted| *noted == stored) && store.is_joining() {
        return Ok(()); // the page before said so, on disk
    }
    tx.put(JOINING, &stored)?;
    tx.commit(Durability::Synced)?;
    crash_point();
    replica_state(store).set_joining(true);
    Ok(())
}

/// Accepts transactions again, if everything that was merged has been completed from the log.
pub(crate) fn end_state_transfer(store: &DataStore) -> Result<(), DataError> {
    if !store.is_joining() {
        return Ok(());
    }
    let mut tx = store.engine().begin()?;
    let Some(note) = StateTransferRecord::read(&*tx)? else {
        replica_state(store).set_joining(false);
        return Ok(());
    };
    if !note.is_whole || !store.numbering().seen_in(&*tx, None)?.includes(&note.until) {
        return Ok(());
    }
    crash_point();
    tx.delete(JOINING)?;
    tx.commit(Durability::Synced)?;
    crash_point();
    replica_state(store).set_joining(false);
    // Watchers were not notified during the state transfer.
    notify_readers(store);
    Ok(())
}

impl StateTransfer {
    /// Where the next page begins; [`state_page`](crate::state_page) of the other replica produces it.
    pub fn cursor(&self) -> &[u8] {
        &self.cursor
    }

    /// The number of merged pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Merges a page; returns whether it was the last. Exchange entries then: transactions committed since the first
    /// page follow.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for bytes that are not a page; those of a commit.
    pub fn merge_page(&mut self, store: &DataStore, page: &[u8]) -> Result<bool, DataError> {
        let _applying = replication_of(store).applying.lock();
        let (mut map, items) = Incoming::open(store, page)?;
        let (seen, is_last) = head(&mut map, items)?;
        // All pages are of the version of the first one.
        let theirs = self.theirs.get_or_insert_with(|| seen.clone()).clone();
        let is_only = self.pages == 0 && is_last;
        let mut cursor = Vec::new();
        let (mut nodes, mut rels) = (Vec::new(), Vec::new());
        let mut entries = Vec::new();
        let mut merge = |tx: &mut Transaction| {
            // The closure may run several times.
            cursor.clear();
            nodes.clear();
            rels.clear();
            entries.clear();
            let mut rest = items;
            // Of the current state: records removed here since the previous page must not come back.
            let here = store.numbering().seen_in(tx.read(), None)?;
            let sides = Sides {
                here: &here,
                theirs: &theirs,
            };
            while let Some((found, content)) = wire::take_item(&mut rest)? {
                match found {
                    tag::SEEN | tag::END => {}
                    tag::NODE => {
                        nodes.extend(merge_records::merge_node(tx, &mut map, content, &sides)?)
                    }
                    tag::RELATIONSHIP => rels.extend(merge_records::merge_relationship(
                        tx, &mut map, content, &sides,
                    )?),
                    tag::FIELD => merge_records::merge_field(tx, &mut map, content, &sides)?,
                    tag::ENTRY_OF_MAP | tag::ENTRY_OF_MULTI => entries.push(
                        merge_buckets::merge_entry(tx, &mut map, found, content, &sides)?,
                    ),
                    tag::SEQUENCE | tag::BUCKET => entries.push(merge_buckets::merge_bucket(
                        tx, &mut map, found, content, &sides,
                    )?),
                    tag::FILE | tag::FOLDER | tag::CHUNK => {
                        entries.extend(merge_files::merge_file(
                            tx, &mut map, found, content, &sides,
                        )?);
                    }
                    tag::NEXT => cursor = content.to_vec(),
                    _ => return Err(mapping::bad_item()),
                }
            }
            // A state of one page is merged in one transaction, so that no reader sees a part of it.
            if is_only {
                let (mut seen_nodes, mut seen_rels) = (Ids::default(), Ids::default());
                nodes.iter().for_each(|id: &NodeId| seen_nodes.insert(id.0));
                rels.iter().for_each(|id: &RelId| seen_rels.insert(id.0));
                let seen_entries = entries.iter().copied().collect();
                let mut from = Some(Vec::new());
                while let Some(cursor) = from {
                    let visited = (&seen_nodes, &seen_rels, &seen_entries);
                    from = finish::merge_local_rows(tx, &cursor, visited, &sides)?;
                }
                finish::put_merged_vector(tx, &sides)?;
            }
            Ok(())
        };
        if !is_only {
            if !store.is_joining() {
                // An invalid page must not make the database unavailable.
                apply::try_merging(store, &mut merge)?;
            }
            // Before the page is committed: also after a crash, no reader may see a part of a state.
            record_state_transfer(store, &seen, false)?;
        }
        apply::merging(store, merge)?;
        nodes.iter().for_each(|id| self.nodes.insert(id.0));
        rels.iter().for_each(|id| self.relationships.insert(id.0));
        self.entries.extend(entries);
        self.cursor = cursor;
        self.pages += 1;
        if is_last && !is_only {
            self.finish(store, &seen)?;
        } else if is_last && store.is_joining() {
            // An interrupted state transfer left its record.
            record_state_transfer(store, &seen, true)?;
            end_state_transfer(store)?;
        }
        // Later local writes get later times than all that was received.
        ahead::advance_time(store, map.latest());
        if is_last {
            // An interrupted state transfer starts again: its record is on disk.
            store.engine().sync()?;
        }
        Ok(is_last)
    }

    /// Removes what the other replica has seen removed, and stores what was seen.
    fn finish(&mut self, store: &DataStore, last: &Vector) -> Result<(), DataError> {
        let theirs = self.theirs.clone().unwrap_or_default();
        // After all pages: only now is it known which records exist here alone.
        let mut from = Some(Vec::new());
        while let Some(cursor) = from {
            from = apply::merging(store, |tx| {
                let here = store.numbering().seen_in(tx.read(), None)?;
                let sides = Sides {
                    here: &here,
                    theirs: &theirs,
                };
                let visited = (&self.nodes, &self.relationships, &self.entries);
                finish::merge_local_rows(tx, &cursor, visited, &sides)
            })?;
        }
        apply::merging(store, |tx| {
            let here = store.numbering().seen_in(tx.read(), None)?;
            finish::put_merged_vector(
                tx,
                &Sides {
                    here: &here,
                    theirs: &theirs,
                },
            )
        })?;
        record_state_transfer(store, last, true)?;
        end_state_transfer(store)
    }
}

/// Adds what is in a page and missing here, and removes nothing. Both must have seen the same.
pub(crate) fn join_union(store: &DataStore, page: &[u8]) -> Result<(), DataError> {
    let (mut map, items) = Incoming::open(store, page)?;
    let (seen, _) = head(&mut map, items)?;
    // With empty vectors nothing counts as seen, so that nothing is removed.
    let none = Vector::new();
    let sides = Sides {
        here: &none,
        theirs: &none,
    };
    apply::merging(store, |tx| {
        let here = store.numbering().seen_in(tx.read(), None)?;
        if !here.includes(&seen) || !seen.includes(&here) {
            return Err(StorageError::Unavailable(
                "one of the two databases was written during the comparison: compare them again"
                    .into(),
            )
            .into());
        }
        let mut rest = items;
        while let Some((found, content)) = wire::take_item(&mut rest)? {
            match found {
                tag::SEEN => {}
                tag::NODE => drop(merge_records::merge_node(tx, &mut map, content, &sides)?),
                tag::RELATIONSHIP => drop(merge_records::merge_relationship(
                    tx, &mut map, content, &sides,
                )?),
                tag::FIELD => merge_records::merge_field(tx, &mut map, content, &sides)?,
                tag::ENTRY_OF_MAP | tag::ENTRY_OF_MULTI => drop(merge_buckets::merge_entry(
                    tx, &mut map, found, content, &sides,
                )?),
                tag::SEQUENCE | tag::BUCKET => drop(merge_buckets::merge_bucket(
                    tx, &mut map, found, content, &sides,
                )?),
                tag::FILE | tag::FOLDER | tag::CHUNK => {
                    merge_files::merge_file(tx, &mut map, found, content, &sides)?;
                }
                _ => return Err(mapping::bad_item()),
            }
        }
        Ok(())
    })
}

/// The vector of a page's state, and whether it is the last page.
fn head(map: &mut Incoming<'_>, mut items: &[u8]) -> Result<(Vector, bool), DataError> {
    let (mut seen, mut is_last) = (None, false);
    while let Some((found, mut content)) = wire::take_item(&mut items)? {
        match found {
            tag::SEEN => {
                let vector = Vector::take_local(&mut content).ok_or_else(mapping::bad_item)?;
                seen = Some(mapping::vector(map, &vector)?);
            }
            tag::END => is_last = true,
            _ => {}
        }
    }
    Ok((seen.ok_or_else(mapping::bad_item)?, is_last))
}
