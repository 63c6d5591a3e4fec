//! Joining the state of another replica with this one's, as it comes in pages.
//!
//! What both hold stays; what one holds stays unless the other has seen it, and so has seen it go. A state that comes in one page is
//! joined in one transaction. One of several pages is joined in one transaction a page, and until all of it, and what
//! happened meanwhile, is here, the database answers nobody: it says that it is being brought up to date. That is
//! written down, so that it holds after a crash, too; joining begins anew then.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use isomer_storage::{Durability, StorageError};
use isomer_value::{NodeId, RelId};
use rustc_hash::FxHashSet;

use super::{
    codec::{malformed, take_byte},
    join_files::{CHUNK, FILE, FOLDER},
    join_records::Sides,
    sweep::Ids,
    wire::{self, Incoming},
};
use crate::{DataError, Store, convergent::Vector, keyspace::JOINING};

/// A state that is being joined.
pub struct Joining {
    _alone: Alone,
    /// What the first page had seen.
    theirs: Option<Vector>,
    place: Vec<u8>,
    pages: u64,
    nodes: Ids,
    relationships: Ids,
    entries: FxHashSet<u128>,
}

/// Held by the only one that joins.
struct Alone(Arc<AtomicBool>);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Store {
    /// Begins to join another replica's state. Nothing else is applied until it is dropped.
    ///
    /// # Errors
    /// [`DataError::Storage`] (unavailable) while another one is being joined.
    pub fn begin_join(&self) -> Result<Joining, DataError> {
        let replication = &self.shared().replication;
        // Whoever is applying comes to an end first.
        let _applying = replication.applying.lock();
        if replication.joins.swap(true, Ordering::AcqRel) {
            return Err(joining_error());
        }
        Ok(Joining {
            _alone: Alone(replication.joins.clone()),
            theirs: None,
            place: Vec::new(),
            pages: 0,
            nodes: Ids::default(),
            relationships: Ids::default(),
            entries: FxHashSet::default(),
        })
    }

    /// Whether somebody is joining a state right now.
    pub(super) fn is_being_joined(&self) -> bool {
        self.shared().replication.joins.load(Ordering::Acquire)
    }

    /// Whether a state is being joined, so that nobody else is answered.
    pub fn is_joining(&self) -> bool {
        self.shared().replication.is_joining()
    }

    /// Notes that nobody is answered before so much has been seen, of this state and of those whose joining broke off.
    fn mark_joining(&self, seen: &Vector, is_whole: bool) -> Result<(), DataError> {
        let mut tx = self.engine().begin()?;
        let mut until = match tx.get(JOINING)? {
            Some(stored) => decode_note(&stored)?.1,
            None => Vector::new(),
        };
        until.join(seen);
        let mut stored = vec![u8::from(is_whole)];
        until.push_local(&mut stored);
        if tx.get(JOINING)?.is_some_and(|noted| *noted == stored) && self.is_joining() {
            return Ok(()); // the page before said so, on disk
        }
        tx.put(JOINING, &stored)?;
        tx.commit(Durability::Synced)?;
        self.shared().replication.set_joining(true);
        Ok(())
    }

    /// Answers again, where everything that was joined has been completed from the log.
    pub(super) fn end_joining(&self) -> Result<(), DataError> {
        if !self.is_joining() {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        let Some(stored) = tx.get(JOINING)? else {
            self.shared().replication.set_joining(false);
            return Ok(());
        };
        let (is_whole, until) = decode_note(&stored)?;
        if !is_whole || !self.seen_in(&*tx, None)?.includes(&until) {
            return Ok(());
        }
        tx.delete(JOINING)?;
        tx.commit(Durability::Synced)?;
        self.shared().replication.set_joining(false);
        // Who follows was told nothing meanwhile.
        self.shared().signal.0.tell();
        Ok(())
    }
}

/// Layout: u8 whether all pages were joined, vector of what they had seen.
fn decode_note(stored: &[u8]) -> Result<(bool, Vector), DataError> {
    let mut rest = stored;
    let note = take_byte(&mut rest).zip(Vector::take_local(&mut rest));
    match note {
        Some((whole, until)) if rest.is_empty() => Ok((whole == 1, until)),
        _ => Err(malformed("the note of a snapshot")),
    }
}

/// Why nobody is answered.
pub(crate) fn joining_error() -> DataError {
    StorageError::Unavailable(
        "this database is being brought up to date from a snapshot of another replica: wait for `isomer sync`, or run it again".into(),
    )
    .into()
}

impl Joining {
    /// Where the next page begins; [`Store::snapshot_page`] of the other replica makes it.
    pub fn place(&self) -> &[u8] {
        &self.place
    }

    /// How many pages were joined.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Joins a page; answers whether it was the last. Exchange entries then: what happened since the first page is there.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a page that is none; those of a commit.
    pub fn join_page(&mut self, store: &Store, page: &[u8]) -> Result<bool, DataError> {
        let _applying = store.shared().replication.applying.lock();
        let (mut map, items) = Incoming::open(store, page)?;
        let (seen, is_last) = head(&mut map, items)?;
        let theirs = self.theirs.get_or_insert_with(|| seen.clone()).clone();
        let is_only = self.pages == 0 && is_last;
        if !is_only {
            store.mark_joining(&seen, false)?;
        }
        let mut place = Vec::new();
        let (mut nodes, mut rels) = (Vec::new(), Vec::new());
        let mut entries = Vec::new();
        store.merging(|tx| {
            // It may run several times.
            place.clear();
            nodes.clear();
            rels.clear();
            entries.clear();
            let mut rest = items;
            // Of this very state: what was removed here since the page before must not come back.
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
        })?;
        nodes.iter().for_each(|id| self.nodes.insert(id.0));
        rels.iter().for_each(|id| self.relationships.insert(id.0));
        self.entries.extend(entries);
        self.place = place;
        self.pages += 1;
        if is_last && !is_only {
            self.finish(store, &seen)?;
        } else if is_last && store.is_joining() {
            // One that broke off before left its note.
            store.mark_joining(&seen, true)?;
            store.end_joining()?;
        }
        // What is written from now on is later than all that came.
        store.shared().own_replica.reached(map.latest());
        if is_last {
            // What breaks off before begins anew: the note of it is on disk.
            store.engine().sync()?;
        }
        Ok(is_last)
    }

    /// Takes away what the other replica has seen go, and notes what was seen.
    fn finish(&mut self, store: &Store, last: &Vector) -> Result<(), DataError> {
        let theirs = self.theirs.clone().unwrap_or_default();
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

impl Store {
    /// Takes what is in a page and not here, and takes nothing away. Both must have seen the same.
    pub(super) fn join_union(&self, page: &[u8]) -> Result<(), DataError> {
        let (mut map, items) = Incoming::open(self, page)?;
        let (seen, _) = head(&mut map, items)?;
        let none = Vector::new();
        let sides = Sides {
            here: &none,
            theirs: &none,
        };
        self.merging(|tx| {
            let here = self.seen_in(tx.read(), None)?;
            if !here.includes(&seen) || !seen.includes(&here) {
                return Err(StorageError::Unavailable(
                    "something was written while the two were compared: compare them again".into(),
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

/// What a page's state has seen, and whether it is the last one.
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
