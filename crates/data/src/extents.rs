//! Ids: dense, never reused, handed out in extents per first label or per type.
//!
//! An extent is reserved in a small separate commit before any of its ids is used, so that concurrent transactions
//! never conflict over ids. That commit is buffered: the ids are used in later commits, and if it is lost, so are
//! those. Extents grow from 16 to 65,536 ids as an owner proves busy; the unused rest of one when the process ends is
//! skipped, since a tail may have been used and deleted.
//!
//! Several processes may reserve: each reservation reads where the last one ended, and two at a time conflict.
//!
//! The extents in memory are the current ones. A reader of an older version may see more of them than its version has:
//! that adds ranges without records and costs only the lookup.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

use isomer_layout::{
    DataError,
    keyspace::{self, IdSpace, TAG_EXTENT, push_id, sole_id, take_id},
    pairs::each_pair,
};
use isomer_storage::{Durability, Engine, GuardMode, Read};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::{footprint::Item, small_commit::commit_small};

const FIRST_EXTENT: u64 = 16;
const LARGEST_EXTENT: u64 = 1 << 16;
/// No id above this is ever assigned: 2⁶², far enough from the end to avoid overflow in sums.
const LAST_ID: u64 = 1 << 62;

/// The ids of one space.
#[derive(Debug)]
pub(crate) struct Extents {
    space: IdSpace,
    /// First id never reserved.
    next: AtomicU64,
    /// The ids that this process has reserved and not used, by owner. Locked while ids are reserved.
    cursors: Mutex<FxHashMap<u32, Cursor>>,
    /// (owner, first id) → number of ids.
    list: RwLock<BTreeMap<(u32, u64), u64>>,
}

#[derive(Debug)]
struct Cursor {
    next: u64,
    end: u64,
    size: u64,
}

impl Cursor {
    fn take(&mut self, most: u64) -> Range<u64> {
        let first = self.next;
        self.next = self.end.min(first + most);
        first..self.next
    }
}

impl Extents {
    /// Loads the stored extents.
    pub(crate) fn load(space: IdSpace, read: &dyn Read) -> Result<Self, DataError> {
        let next = match read.get(&keyspace::reserved(space))? {
            Some(value) => sole_id(&value, "the end of the reserved ids")?,
            None => 0,
        };
        let mut list = BTreeMap::new();
        each_pair(read, &[TAG_EXTENT, space as u8], |key, value| {
            let (at, length) = decode_extent(key, value)?;
            list.insert(at, length);
            Ok(())
        })?;
        Ok(Self {
            space,
            next: AtomicU64::new(next),
            cursors: Mutex::default(),
            list: RwLock::new(list),
        })
    }

    /// Whether a key of the tag [`TAG_EXTENT`] or [`TAG_RESERVED`] is of this space.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        key.get(1) == Some(&(self.space as u8))
    }

    /// Another process stored an extent.
    pub(crate) fn enter_extent(&self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        let (at, length) = decode_extent(key, value)?;
        self.enter(at, length);
        Ok(())
    }

    /// Another process stored the end of the reserved ids.
    pub(crate) fn enter_end(&self, value: &[u8]) -> Result<(), DataError> {
        let end = sole_id(value, "the end of the reserved ids")?;
        self.next.fetch_max(end, Ordering::AcqRel);
        Ok(())
    }

    /// An extent only grows: of two lengths, the longer one is the later one.
    fn enter(&self, at: (u32, u64), length: u64) {
        let mut list = self.list.write();
        let known = list.entry(at).or_default();
        *known = length.max(*known);
    }

    /// The upper bound of all assigned ids.
    pub(crate) fn end(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// One new id.
    pub(crate) fn allocate(&self, engine: &dyn Engine, owner: u32) -> Result<u64, DataError> {
        Ok(self.allocate_run(engine, owner, 1)?.start)
    }

    /// Consecutive new ids: at least one, at most `most`, which is not 0.
    pub(crate) fn allocate_run(
        &self,
        engine: &dyn Engine,
        owner: u32,
        most: u64,
    ) -> Result<Range<u64>, DataError> {
        let mut cursors = self.cursors.lock();
        let size = match cursors.get_mut(&owner) {
            Some(cursor) if cursor.next < cursor.end => return Ok(cursor.take(most)),
            Some(cursor) => (cursor.size * 2).min(LARGEST_EXTENT),
            None => FIRST_EXTENT,
        };
        let first = self.reserve_committed(engine, owner, size)?;
        let mut cursor = Cursor {
            next: first,
            end: first + size,
            size,
        };
        let run = cursor.take(most);
        cursors.insert(owner, cursor);
        Ok(run)
    }

    /// `count` consecutive new ids, for bulk loads.
    pub(crate) fn reserve(
        &self,
        engine: &dyn Engine,
        owner: u32,
        count: u64,
    ) -> Result<u64, DataError> {
        let _alone = self.cursors.lock();
        self.reserve_committed(engine, owner, count)
    }

    /// Reserves ids in a commit; the caller holds the lock of the cursors, so that the threads of this process do not
    /// conflict.
    fn reserve_committed(
        &self,
        engine: &dyn Engine,
        owner: u32,
        count: u64,
    ) -> Result<u64, DataError> {
        let reserved_key = keyspace::reserved(self.space);
        let (first, at, length) = commit_small(engine, Durability::Buffered, |tx| {
            let first = match tx.get(&reserved_key)? {
                Some(value) => sole_id(&value, "the end of the reserved ids")?,
                None => 0,
            };
            let end = first
                .checked_add(count)
                .filter(|end| *end <= LAST_ID)
                .ok_or_else(|| DataError::Limit {
                    what: "the number of ids ever used".into(),
                    size: format!("{first} + {count}"),
                    max: LAST_ID.to_string(),
                    advice: "export the database and import it into a new one",
                })?;
            // An extent that follows the owner's last one extends it.
            let last = self
                .list
                .read()
                .range((owner, 0)..=(owner, u64::MAX))
                .next_back()
                .map(|(&(_, at), &length)| (at, length));
            let (at, length) = match last {
                Some((at, length)) if at + length == first => (at, length + count),
                _ => (first, count),
            };
            let mut value = Vec::new();
            push_id(&mut value, length);
            tx.put(&keyspace::extent(self.space, owner, at), &value)?;
            value.clear();
            push_id(&mut value, end);
            tx.put(&reserved_key, &value)?;
            tx.guard(
                Item::ReservedIds(self.space as u8).granule(),
                GuardMode::Write,
            );
            Ok((first, at, length))
        })?;
        self.next.fetch_max(first + count, Ordering::AcqRel);
        self.enter((owner, at), length);
        Ok(first)
    }

    /// The owner of the extent that contains an id.
    pub(crate) fn owner_of(&self, id: u64) -> Option<u32> {
        let list = self.list.read();
        let mut owners = list
            .iter()
            .filter(|((_, first), length)| (*first..*first + **length).contains(&id));
        owners.next().map(|((owner, _), _)| *owner)
    }

    /// The ranges of ids (first, number) of an owner, ascending.
    pub(crate) fn of(&self, owner: u32) -> Vec<(u64, u64)> {
        self.list
            .read()
            .range((owner, 0)..=(owner, u64::MAX))
            .map(|(&(_, first), &length)| (first, length))
            .collect()
    }
}

/// Owner and first id, and the number of ids, of a stored extent.
fn decode_extent(key: &[u8], value: &[u8]) -> Result<((u32, u64), u64), DataError> {
    let parsed = (|| {
        let (owner, mut first) = key.get(2..)?.split_first_chunk::<4>()?;
        let at = (u32::from_be_bytes(*owner), take_id(&mut first)?);
        first.is_empty().then_some(at)
    })();
    let at = parsed.ok_or_else(|| DataError::corrupt("the key of an extent is malformed"))?;
    Ok((at, sole_id(value, "the length of an extent")?))
}
