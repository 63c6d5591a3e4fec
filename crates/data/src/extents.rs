//! Ids: dense, never reused, handed out in extents per first label or per type.
//!
//! An extent is reserved in a small separate commit before any of its ids is used, so that concurrent transactions
//! never conflict over ids. That commit is buffered: the ids are used in later commits, and if it is lost, so are
//! those. Extents grow from 16 to 65,536 ids as an owner proves busy; the unused rest of one when the process ends is
//! skipped, since a tail may have been used and deleted.
//!
//! The extents in memory are the current ones. A reader of an older version may see more of them than its version has:
//! that adds ranges without records and costs only the lookup.

use std::{collections::BTreeMap, ops::Range};

use isomer_layout::{
    DataError,
    keyspace::{self, IdSpace, TAG_EXTENT, push_id, sole_id, take_id},
    pairs::each_pair,
};
use isomer_storage::{Durability, Engine, Read};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

const FIRST_EXTENT: u64 = 16;
const LARGEST_EXTENT: u64 = 1 << 16;
/// No id above this is ever assigned: 2⁶², far enough from the end to avoid overflow in sums.
const LAST_ID: u64 = 1 << 62;

/// The ids of one space.
#[derive(Debug)]
pub(crate) struct Extents {
    space: IdSpace,
    open: Mutex<OpenExtents>,
    /// (owner, first id) → number of ids.
    list: RwLock<BTreeMap<(u32, u64), u64>>,
}

#[derive(Debug, Default)]
struct OpenExtents {
    /// First id never reserved.
    next: u64,
    cursors: FxHashMap<u32, Cursor>,
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
            let parsed = (|| {
                let (owner, mut first) = key.get(2..)?.split_first_chunk::<4>()?;
                Some((u32::from_be_bytes(*owner), take_id(&mut first)?))
            })();
            let key =
                parsed.ok_or_else(|| DataError::corrupt("the key of an extent is malformed"))?;
            list.insert(key, sole_id(value, "the length of an extent")?);
            Ok(())
        })?;
        let open = OpenExtents {
            next,
            cursors: FxHashMap::default(),
        };
        Ok(Self {
            space,
            open: Mutex::new(open),
            list: RwLock::new(list),
        })
    }

    /// The upper bound of all assigned ids.
    pub(crate) fn end(&self) -> u64 {
        self.open.lock().next
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
        let mut open = self.open.lock();
        let size = match open.cursors.get_mut(&owner) {
            Some(cursor) if cursor.next < cursor.end => return Ok(cursor.take(most)),
            Some(cursor) => (cursor.size * 2).min(LARGEST_EXTENT),
            None => FIRST_EXTENT,
        };
        let first = self.reserve_locked(engine, &mut open, owner, size)?;
        let mut cursor = Cursor {
            next: first,
            end: first + size,
            size,
        };
        let run = cursor.take(most);
        open.cursors.insert(owner, cursor);
        Ok(run)
    }

    /// `count` consecutive new ids, for bulk loads.
    pub(crate) fn reserve(
        &self,
        engine: &dyn Engine,
        owner: u32,
        count: u64,
    ) -> Result<u64, DataError> {
        let mut open = self.open.lock();
        self.reserve_locked(engine, &mut open, owner, count)
    }

    fn reserve_locked(
        &self,
        engine: &dyn Engine,
        open: &mut OpenExtents,
        owner: u32,
        count: u64,
    ) -> Result<u64, DataError> {
        let first = open.next;
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
        let mut tx = engine.begin()?;
        let mut value = Vec::new();
        push_id(&mut value, length);
        tx.put(&keyspace::extent(self.space, owner, at), &value)?;
        value.clear();
        push_id(&mut value, end);
        tx.put(&keyspace::reserved(self.space), &value)?;
        tx.commit(Durability::Buffered)?;
        open.next = end;
        self.list.write().insert((owner, at), length);
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
