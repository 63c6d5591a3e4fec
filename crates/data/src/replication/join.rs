//! Joining the state of another replica with this one's, page by page.
//!
//! What both hold stays; what one holds stays unless the other has seen it, and so has seen it removed. A state of one
//! page is joined in one transaction. One of several pages is joined in one transaction a page, and until all of it,
//! and everything committed in between, is here, the database refuses transactions: it says that it is being brought up
//! to date. That is stored, so that it holds after a crash, too; joining starts again then.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use isomer_storage::{Durability, Read, StorageError};
use isomer_value::{NodeId, RelId};
use rustc_hash::FxHashSet;

use super::{
    codec::{malformed, take_byte},
    join_files::{CHUNK, FILE, FOLDER},
    join_records::Sides,
    rules::end_point,
    sweep::Ids,
    wire::{self, Incoming},
};
use crate::{
    DataError, DataStore, Transaction,
    convergent::{ReplicaId, Vector},
    keyspace::{JOINING, push_id, take_id},
};

/// A state that is being joined.
pub struct Joining {
    _guard: JoinGuard,
    /// What the first page had seen.
    theirs: Option<Vector>,
    place: Vec<u8>,
    pages: u64,
    nodes: Ids,
    relationships: Ids,
    entries: FxHashSet<u128>,
}

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

/// Held by the only join in progress.
struct JoinGuard(Arc<AtomicBool>);

impl Drop for JoinGuard {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl DataStore {
    /// Begins to join another replica's state. Nothing else is applied until the join is dropped.
    ///
    /// # Errors
    /// [`DataError::Storage`] (unavailable) while another state is being joined.
    pub fn begin_join(&self) -> Result<Joining, DataError> {
        let replication = &self.shared().replication;
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
    pub(super) fn is_being_joined(&self) -> bool {
        self.shared().replication.joins.load(Ordering::Acquire)
    }

    /// Whether a state is being joined, so that transactions are refused.
    pub fn is_joining(&self) -> bool {
        self.shared().replication.is_joining()
    }

    /// The progress of the join; none where the database accepts transactions.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn joining_status(&self) -> Result<Option<JoiningStatus>, DataError> {
        let snapshot = self.engine().snapshot()?;
        let Some(note) = JoinRecord::read(&*snapshot)? else {
            return Ok(None);
        };
        let here = self.seen_in(&*snapshot, None)?;
        let lacking = note.until.iter().filter_map(|(replica, upto)| {
            let lacks = upto.saturating_sub(here.reach(replica));
            let name = self.shared().own_replica.name(replica)?;
            (lacks > 0).then_some((name, lacks))
        });
        Ok(Some(JoiningStatus {
            since_ms: note.since_ms,
            is_whole: note.is_whole,
            lacks: lacking.collect(),
        }))
    }

    /// Whether a state was joined in part: only a complete one, of any replica, makes the database available.
    pub(super) fn has_broken_join(&self) -> Result<bool, DataError> {
        if !self.is_joining() {
            return Ok(false);
        }
        let note = JoinRecord::read(&*self.engine().snapshot()?)?;
        Ok(note.is_some_and(|note| !note.is_whole))
    }

    /// Records that transactions are refused until `seen` has been applied, of this state and of those whose joining
    /// was interrupted.
    fn mark_joining(&self, seen: &Vector, is_whole: bool) -> Result<(), DataError> {
        let mut tx = self.engine().begin()?;
        let mut note = JoinRecord::read(&*tx)?.unwrap_or_else(|| JoinRecord {
            is_whole,
            until: Vector::new(),
            since_ms: self.options().clock.now_ms(),
        });
        note.until.join(seen);
        note.is_whole = is_whole;
        let stored = note.encode();
        if tx.get(JOINING)?.is_some_and(|noted| *noted == stored) && self.is_joining() {
            return Ok(()); // the page before said so, on disk
        }
        tx.put(JOINING, &stored)?;
        tx.commit(Durability::Synced)?;
        end_point();
        self.shared().replication.set_joining(true);
        Ok(())
    }

    /// Accepts transactions again, if everything that was joined has been completed from the log.
    pub(super) fn end_joining(&self) -> Result<(), DataError> {
        if !self.is_joining() {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        let Some(note) = JoinRecord::read(&*tx)? else {
            self.shared().replication.set_joining(false);
            return Ok(());
        };
        if !note.is_whole || !self.seen_in(&*tx, None)?.includes(&note.until) {
            return Ok(());
        }
        end_point();
        tx.delete(JOINING)?;
        tx.commit(Durability::Synced)?;
        end_point();
        self.shared().replication.set_joining(false);
        // Watchers were not notified during the join.
        self.shared().signal.0.notify();
        Ok(())
    }
}

/// Why transactions are refused.
pub(crate) fn joining_error() -> DataError {
    StorageError::Unavailable(
        "this database is being brought up to date from a snapshot of another replica, and is unavailable until the snapshot is complete: run `isomer sync once` here or at a peer (`isomer replica status` shows what is missing)".into(),
    )
    .into()
}

impl Joining {
    /// Where the next page begins; [`DataStore::snapshot_page`] of the other replica produces it.
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
        let _applying = store.shared().replication.applying.lock();
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
            let here = store.seen_in(tx.read(), None)?;
            let sides = Sides {
                here: &here,
                theirs: &theirs,
            };
            while let Some((tag, content)) = wire::take_item(&mut rest)? {
                match tag {
                    10 | 18 => {}
                    11 => nodes.extend(tx.join_node(&mut map, content, &sides)?),
                    12 => rels.extend(tx.join_relationship(&mut map, content, &sides)?),
                    13 => tx.join_field(&mut map, content, &sides)?,
                    14 | 15 => entries.push(tx.join_entry(&mut map, tag, content, &sides)?),
                    16 | 19 => entries.push(tx.join_bucket(&mut map, tag, content, &sides)?),
                    FILE | FOLDER | CHUNK => {
                        entries.extend(tx.join_file(&mut map, tag, content, &sides)?);
                    }
                    17 => place = content.to_vec(),
                    _ => return Err(wire::bad_item()),
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
                    from = tx.sweep(&place, visited, &sides)?;
                }
                tx.put_joined(&sides)?;
            }
            Ok(())
        };
        if !is_only {
            if !store.is_joining() {
                // An invalid page must not make the database unavailable.
                store.try_merging(&mut join)?;
            }
            // Before the page is committed: also after a crash, no reader may see a part of a state.
            store.mark_joining(&seen, false)?;
        }
        store.merging(join)?;
        nodes.iter().for_each(|id| self.nodes.insert(id.0));
        rels.iter().for_each(|id| self.relationships.insert(id.0));
        self.entries.extend(entries);
        self.place = place;
        self.pages += 1;
        if is_last && !is_only {
            self.finish(store, &seen)?;
        } else if is_last && store.is_joining() {
            // An interrupted join left its record.
            store.mark_joining(&seen, true)?;
            store.end_joining()?;
        }
        // Later local writes get later times than all that was received.
        store.reach_time(map.latest());
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
            from = store.merging(|tx| {
                let here = store.seen_in(tx.read(), None)?;
                let sides = Sides {
                    here: &here,
                    theirs: &theirs,
                };
                let visited = (&self.nodes, &self.relationships, &self.entries);
                tx.sweep(&place, visited, &sides)
            })?;
        }
        store.merging(|tx| {
            let here = store.seen_in(tx.read(), None)?;
            tx.put_joined(&Sides {
                here: &here,
                theirs: &theirs,
            })
        })?;
        store.mark_joining(last, true)?;
        store.end_joining()
    }
}

impl DataStore {
    /// Adds what is in a page and missing here, and removes nothing. Both must have seen the same.
    pub(super) fn join_union(&self, page: &[u8]) -> Result<(), DataError> {
        let (mut map, items) = Incoming::open(self, page)?;
        let (seen, _) = head(&mut map, items)?;
        // With empty vectors nothing counts as seen, so that nothing is removed.
        let none = Vector::new();
        let sides = Sides {
            here: &none,
            theirs: &none,
        };
        self.merging(|tx| {
            let here = self.seen_in(tx.read(), None)?;
            if !here.includes(&seen) || !seen.includes(&here) {
                return Err(StorageError::Unavailable(
                    "one of the two databases was written during the comparison: compare them again".into(),
                )
                .into());
            }
            let mut rest = items;
            while let Some((tag, content)) = wire::take_item(&mut rest)? {
                match tag {
                    10 => {}
                    11 => drop(tx.join_node(&mut map, content, &sides)?),
                    12 => drop(tx.join_relationship(&mut map, content, &sides)?),
                    13 => tx.join_field(&mut map, content, &sides)?,
                    14 | 15 => drop(tx.join_entry(&mut map, tag, content, &sides)?),
                    16 | 19 => drop(tx.join_bucket(&mut map, tag, content, &sides)?),
                    FILE | FOLDER | CHUNK => {
                        tx.join_file(&mut map, tag, content, &sides)?;
                    }
                    _ => return Err(wire::bad_item()),
                }
            }
            Ok(())
        })
    }
}

/// The vector of a page's state, and whether it is the last page.
fn head(map: &mut Incoming<'_>, mut items: &[u8]) -> Result<(Vector, bool), DataError> {
    let (mut seen, mut is_last) = (None, false);
    while let Some((tag, mut content)) = wire::take_item(&mut items)? {
        match tag {
            10 => {
                let vector = Vector::take_local(&mut content).ok_or_else(wire::bad_item)?;
                seen = Some(wire::vector(map, &vector)?);
            }
            18 => is_last = true,
            _ => {}
        }
    }
    Ok((seen.ok_or_else(wire::bad_item)?, is_last))
}
