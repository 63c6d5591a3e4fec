//! Joining the state of another replica with this one's, page by page.
//!
//! What both hold stays; what one holds stays unless the other has seen it, and so has seen it removed. A state of one
//! page is joined in one transaction. One of several pages is joined in one transaction a page, and until all of it,
//! and everything committed in between, is here, the database refuses transactions: it says that it is being brought up
//! to date. That is stored, so that it holds after a crash, too; joining starts again then.

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
    ahead, apply, crash_point, join_buckets, join_files, join_records,
    joining::{Ids, JoinGuard, Joining, Sides},
    mapping,
    state::replication_of,
    sweep,
    wire::{self, Incoming, tag},
};

/// The progress of a join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoiningStatus {
    /// When it began, in ms since 1970; 0 where that was not recorded.
    pub since_ms: u64,
    /// Whether all of its pages were joined, so that only later transactions are missing.
    pub is_whole: bool,
    /// The number of replicas of which transactions are missing, and of these transactions.
    pub lacks: Vec<(ReplicaId, u64)>,
}

/// The stored record of a join.
///
/// ```text
/// u8 1 all pages were joined + 2 the time follows, vector that has to be seen before transactions are accepted, id ms since
/// 1970 when it began
/// ```
struct JoinRecord {
    is_whole: bool,
    until: Vector,
    since_ms: u64,
}

impl JoinRecord {
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

/// Begins to join another replica's state. Nothing else is applied until the join is dropped.
///
/// # Errors
/// [`DataError::Storage`] (unavailable) while another state is being joined.
pub fn begin_join(store: &DataStore) -> Result<Joining, DataError> {
    let replication = replication_of(store);
    // Waits until a concurrent apply has ended.
    let _applying = replication.applying.lock();
    if replication.joins.swap(true, Ordering::AcqRel) {
        return Err(joining_error());
    }
    Ok(Joining {
        _guard: JoinGuard(replication.joins.clone()),
        theirs: None,
        place: Vec::new(),
        pages: 0,
        nodes: Ids::default(),
        relationships: Ids::default(),
        entries: FxHashSet::default(),
    })
}

/// Whether a state is being joined right now.
pub(crate) fn is_being_joined(store: &DataStore) -> bool {
    replication_of(store).joins.load(Ordering::Acquire)
}

/// The progress of the join; none where the database accepts transactions.
///
/// # Errors
/// Those of the engine.
pub fn joining_status(store: &DataStore) -> Result<Option<JoiningStatus>, DataError> {
    let snapshot = store.engine().snapshot()?;
    let Some(note) = JoinRecord::read(&*snapshot)? else {
        return Ok(None);
    };
    let here = store.numbering().seen_in(&*snapshot, None)?;
    let lacking = note.until.iter().filter_map(|(replica, upto)| {
        let lacks = upto.saturating_sub(here.reach(replica));
        let name = own_replica(store).name(replica)?;
        (lacks > 0).then_some((name, lacks))
    });
    Ok(Some(JoiningStatus {
        since_ms: note.since_ms,
        is_whole: note.is_whole,
        lacks: lacking.collect(),
    }))
}

/// Whether a state was joined in part: only a complete one, of any replica, makes the database available.
pub(crate) fn has_broken_join(store: &DataStore) -> Result<bool, DataError> {
    if !store.is_joining() {
        return Ok(false);
    }
    let note = JoinRecord::read(&*store.engine().snapshot()?)?;
    Ok(note.is_some_and(|note| !note.is_whole))
}

/// Records that transactions are refused until `seen` has been applied, of this state and of those whose joining
/// was interrupted.
fn mark_joining(store: &DataStore, seen: &Vector, is_whole: bool) -> Result<(), DataError> {
    let mut tx = store.engine().begin()?;
    let mut note = JoinRecord::read(&*tx)?.unwrap_or_else(|| JoinRecord {
        is_whole,
        until: Vector::new(),
        since_ms: store.options().clock.now_ms(),
    });
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

/// Accepts transactions again, if everything that was joined has been completed from the log.
pub(crate) fn end_joining(store: &DataStore) -> Result<(), DataError> {
    if !store.is_joining() {
        return Ok(());
    }
    let mut tx = store.engine().begin()?;
    let Some(note) = JoinRecord::read(&*tx)? else {
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
    // Watchers were not notified during the join.
    notify_readers(store);
    Ok(())
}

impl Joining {
    /// Where the next page begins; [`snapshot_page`](crate::snapshot_page) of the other replica produces it.
    pub fn place(&self) -> &[u8] {
        &self.place
    }

    /// The number of joined pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Joins a page; returns whether it was the last. Exchange entries then: transactions committed since the first
    /// page follow.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for bytes that are not a page; those of a commit.
    pub fn join_page(&mut self, store: &DataStore, page: &[u8]) -> Result<bool, DataError> {
        let _applying = replication_of(store).applying.lock();
        let (mut map, items) = Incoming::open(store, page)?;
        let (seen, is_last) = head(&mut map, items)?;
        // All pages are of the version of the first one.
        let theirs = self.theirs.get_or_insert_with(|| seen.clone()).clone();
        let is_only = self.pages == 0 && is_last;
        let mut place = Vec::new();
        let (mut nodes, mut rels) = (Vec::new(), Vec::new());
        let mut entries = Vec::new();
        let mut join = |tx: &mut Transaction| {
            // The closure may run several times.
            place.clear();
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
                        nodes.extend(join_records::join_node(tx, &mut map, content, &sides)?)
                    }
                    tag::RELATIONSHIP => rels.extend(join_records::join_relationship(
                        tx, &mut map, content, &sides,
                    )?),
                    tag::FIELD => join_records::join_field(tx, &mut map, content, &sides)?,
                    tag::ENTRY_OF_MAP | tag::ENTRY_OF_MULTI => entries.push(
                        join_buckets::join_entry(tx, &mut map, found, content, &sides)?,
                    ),
                    tag::SEQUENCE | tag::BUCKET => entries.push(join_buckets::join_bucket(
                        tx, &mut map, found, content, &sides,
                    )?),
                    tag::FILE | tag::FOLDER | tag::CHUNK => {
                        entries
                            .extend(join_files::join_file(tx, &mut map, found, content, &sides)?);
                    }
                    tag::NEXT => place = content.to_vec(),
                    _ => return Err(mapping::bad_item()),
                }
            }
            // A state of one page is joined in one transaction, so that no reader sees a part of it.
            if is_only {
                let (mut seen_nodes, mut seen_rels) = (Ids::default(), Ids::default());
                nodes.iter().for_each(|id: &NodeId| seen_nodes.insert(id.0));
                rels.iter().for_each(|id: &RelId| seen_rels.insert(id.0));
                let seen_entries = entries.iter().copied().collect();
                let mut from = Some(Vec::new());
                while let Some(place) = from {
                    let visited = (&seen_nodes, &seen_rels, &seen_entries);
                    from = sweep::sweep(tx, &place, visited, &sides)?;
                }
                sweep::put_joined(tx, &sides)?;
            }
            Ok(())
        };
        if !is_only {
            if !store.is_joining() {
                // An invalid page must not make the database unavailable.
                apply::try_merging(store, &mut join)?;
            }
            // Before the page is committed: also after a crash, no reader may see a part of a state.
            mark_joining(store, &seen, false)?;
        }
        apply::merging(store, join)?;
        nodes.iter().for_each(|id| self.nodes.insert(id.0));
        rels.iter().for_each(|id| self.relationships.insert(id.0));
        self.entries.extend(entries);
        self.place = place;
        self.pages += 1;
        if is_last && !is_only {
            self.finish(store, &seen)?;
        } else if is_last && store.is_joining() {
            // An interrupted join left its record.
            mark_joining(store, &seen, true)?;
            end_joining(store)?;
        }
        // Later local writes get later times than all that was received.
        ahead::reach_time(store, map.latest());
        if is_last {
            // An interrupted join starts again: its record is on disk.
            store.engine().sync()?;
        }
        Ok(is_last)
    }

    /// Removes what the other replica has seen removed, and stores what was seen.
    fn finish(&mut self, store: &DataStore, last: &Vector) -> Result<(), DataError> {
        let theirs = self.theirs.clone().unwrap_or_default();
        // After all pages: only now is it known which records exist here alone.
        let mut from = Some(Vec::new());
        while let Some(place) = from {
            from = apply::merging(store, |tx| {
                let here = store.numbering().seen_in(tx.read(), None)?;
                let sides = Sides {
                    here: &here,
                    theirs: &theirs,
                };
                let visited = (&self.nodes, &self.relationships, &self.entries);
                sweep::sweep(tx, &place, visited, &sides)
            })?;
        }
        apply::merging(store, |tx| {
            let here = store.numbering().seen_in(tx.read(), None)?;
            sweep::put_joined(
                tx,
                &Sides {
                    here: &here,
                    theirs: &theirs,
                },
            )
        })?;
        mark_joining(store, last, true)?;
        end_joining(store)
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
                tag::NODE => drop(join_records::join_node(tx, &mut map, content, &sides)?),
                tag::RELATIONSHIP => drop(join_records::join_relationship(
                    tx, &mut map, content, &sides,
                )?),
                tag::FIELD => join_records::join_field(tx, &mut map, content, &sides)?,
                tag::ENTRY_OF_MAP | tag::ENTRY_OF_MULTI => drop(join_buckets::join_entry(
                    tx, &mut map, found, content, &sides,
                )?),
                tag::SEQUENCE | tag::BUCKET => drop(join_buckets::join_bucket(
                    tx, &mut map, found, content, &sides,
                )?),
                tag::FILE | tag::FOLDER | tag::CHUNK => {
                    join_files::join_file(tx, &mut map, found, content, &sides)?;
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
