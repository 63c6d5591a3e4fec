//! This database as a replica: its name, the numbers of its transactions, hybrid time, and which properties are
//! convergent anywhere.
//!
//! Numbers are reserved in blocks of a thousand in a small separate commit, as ids are. A transaction takes one at its
//! first convergent operation and leaves a key with it behind when it commits; a number that is given up leaves none.
//! With the next reservation the keys below every number under way are replaced by one: *seen up to here*.
//!
//! **Shared databases.** Several processes take numbers under one name, in smaller blocks. None of them knows which
//! numbers of the others are under way. So numbers are settled by decree: when many have been reserved since, the older
//! ones are declared to be seen or given up, in a commit that changes their *spans*. A transaction observes the span of
//! its number, and conflicts if it is that old. What is settled is then what is stored as seen in the state that is
//! read. Numbers that were lost in a crash are given up in the same way; no epoch begins, as no other replica can have
//! received them: a replica is not shared.
//!
//! A number is never used for two transactions that another replica can have received: the first reservation after
//! opening is on disk before its first number is used, and says *open*; a clean shutdown says *closed*. When opening
//! finds *open*, commits that were only buffered may be lost and their numbers with them, and a new epoch begins.
//! [`Numbering::begin_epoch`](crate::Numbering::begin_epoch) begins one after a backup was restored.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_layout::{
    DataError,
    convergent::clock::{ReplicaId, ReplicaNo, Vector},
    keyspace::{
        self, GIVEN_UP, NUMBERS, TAG_CONVERGENT_PROPERTY, TAG_OWN_NUMBER, TAG_REPLICA, TAG_SEEN,
        after_prefix, push_id, sole_id, take_id,
    },
};
use isomer_storage::{Durability, Engine, KeyRange, Order, Page, PageLimit, Read, Version};
use isomer_value::{IndexId, PropId};
use parking_lot::{Mutex, MutexGuard, RwLock};
use rustc_hash::{FxHashMap, FxHashSet};

/// How far the clocks of replicas may differ, in ms.
pub const MAX_AHEAD_MS: u64 = 5 * 60_000;
/// Numbers reserved at a time.
pub(crate) const RESERVED: u64 = 1024;
/// Most replicas, with all their names: every transaction has a vector with an entry for each.
pub(crate) const MAX_REPLICAS: usize = 1024;
/// Increments of a counter after which it is folded.
const FOLD_AFTER: u32 = 128;
/// Most counters whose increments are counted.
const MAX_COUNTERS: usize = 10_000;

/// The state of this database as a replica, in an open store.
#[derive(Debug, Default)]
pub struct OwnReplica {
    pub(crate) numbers: Arc<Mutex<Numbers>>,
    /// What other processes stored about them, not entered yet: numbers are locked while they are reserved, in a
    /// commit.
    remote_changes: Mutex<Vec<RemoteChange>>,
    /// Whether the numbers that the last epoch committed are not stored as seen yet: it was not shut down cleanly.
    pub(crate) is_unclean: AtomicBool,
    /// The last hybrid time assigned.
    pub(crate) time: AtomicU64,
    /// The latest clock value, in ms.
    shown_ms: AtomicU64,
    pub(crate) any: AtomicBool,
    pub(crate) properties: RwLock<FxHashSet<PropId>>,
    /// Indexes that were given up, as they cannot hold fields that other replicas made.
    pub(crate) given_up: RwLock<FxHashSet<IndexId>>,
    /// Increments since a counter was folded.
    unfolded: Mutex<FxHashMap<Vec<u8>, u32>>,
    /// How far counters are from the bounds of 64 bits, at least: see [`OwnReplica::take_room`].
    room: Mutex<FxHashMap<Vec<u8>, u64>>,
    /// Gaps in the keys of folded counters.
    gaps: RwLock<FxHashMap<Vec<u8>, Arc<Gap>>>,
}

/// A part of a counter's keys that is empty in every state of a version or a later one: it was folded. An engine may
/// skip deleted keys one by one, so readers skip the whole part.
#[derive(Debug)]
pub(crate) struct Gap {
    pub(crate) since: Version,
    /// Whether it is the first range: it is of the replica with the lowest number.
    pub(crate) is_first: bool,
    /// Where it begins.
    pub(crate) from: Vec<u8>,
    /// The first key after it.
    pub(crate) to: Vec<u8>,
}

/// What another process stored about the numbers.
#[derive(Debug)]
enum RemoteChange {
    Name(u32, ReplicaId),
    /// The first number not reserved.
    Reserved(ReplicaNo),
    /// Up to where a replica's numbers are settled, in states of a version or a later one.
    Settled(u32, u64, Version),
}

impl RemoteChange {
    fn is_replaced_by(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Reserved(one), Self::Reserved(other)) => one == other,
            (Self::Settled(one, ..), Self::Settled(other, ..)) => one == other,
            _ => false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Whether several processes have the database open.
    pub(crate) is_shared: bool,
    /// The size of the last block that was reserved in a shared database.
    pub(crate) block: u64,
    /// All known replicas, by number.
    pub(crate) names: Vec<ReplicaId>,
    pub(crate) own: Option<ReplicaNo>,
    /// The replica that this database was before an epoch ended.
    pub(crate) before: Option<ReplicaNo>,
    pub(crate) next: u64,
    /// First number not reserved.
    pub(crate) end: u64,
    pub(crate) under_way: BTreeSet<u64>,
    /// All own numbers up to this one are in every state of this version or a later one, or were given up.
    pub(crate) settled: u64,
    pub(crate) settled_at: Version,
    /// Whether this opening has stored that.
    pub(crate) open: bool,
    /// Whether numbers of the last epoch that are missing here may exist in other replicas.
    pub(crate) restored: bool,
    /// Whether the numbers that it began and did not commit were given up.
    pub(crate) gave_up: bool,
}

impl OwnReplica {
    /// Loads the state of a database.
    pub fn load(read: &dyn Read, is_shared: bool) -> Result<Self, DataError> {
        let (mut numbers, mut is_unclean) = (Numbers::default(), false);
        numbers.is_shared = is_shared;
        each(read, &[TAG_REPLICA], |_, value| {
            let name = ReplicaId::from_bytes(value)
                .ok_or_else(|| DataError::corrupt("the name of a replica is malformed"))?;
            numbers.names.push(name);
            Ok(())
        })?;
        if let Some(stored) = read.get(NUMBERS)? {
            let (own, next, open) = decode_numbers(&stored)
                .filter(|(own, ..)| (own.0 as usize) < numbers.names.len())
                .ok_or_else(|| DataError::corrupt("the reservation of numbers is malformed"))?;
            // An epoch that was left open is not continued, except by the processes that share the database.
            if is_shared {
                numbers.own = Some(own);
                if let Some(seen) = read.get(&keyspace::seen(own.0))? {
                    numbers.settled = decode_seen(&seen)?.0;
                }
            } else if open {
                numbers.before = Some(own);
                is_unclean = true;
            } else {
                numbers.own = Some(own);
                (numbers.next, numbers.end, numbers.settled) = (next, next, next - 1);
            }
        }
        let own = Self {
            numbers: Arc::new(Mutex::new(numbers)),
            is_unclean: AtomicBool::new(is_unclean),
            ..Self::default()
        };
        each(read, &[TAG_CONVERGENT_PROPERTY], |key, _| {
            own.enter_stored(key)
        })?;
        each(read, GIVEN_UP, |key, _| own.give_up_stored(key, true))?;
        Ok(own)
    }

    /// Enters a stored convergent property.
    pub(crate) fn enter_stored(&self, key: &[u8]) -> Result<(), DataError> {
        let prop = sole_id(&key[1..], "a convergent property")?;
        self.enter(PropId(u32::try_from(prop).unwrap_or(u32::MAX)));
        Ok(())
    }

    /// Enters the stored record that an index was given up, or removes it.
    pub(crate) fn give_up_stored(&self, key: &[u8], given_up: bool) -> Result<(), DataError> {
        let index = sole_id(&key[GIVEN_UP.len()..], "an index that was given up")?;
        let index = IndexId(u32::try_from(index).unwrap_or(u32::MAX));
        let mut known = self.given_up.write();
        match given_up {
            true => known.insert(index),
            false => known.remove(&index),
        };
        Ok(())
    }

    /// Another process stored a name, a reservation of numbers, or what is settled, in the commit `version`.
    pub(crate) fn apply_remote_change(
        &self,
        version: Version,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), DataError> {
        let malformed = || DataError::corrupt("the numbers of another process are malformed");
        let change = match key.split_first() {
            Some((&TAG_REPLICA, at)) => {
                let at = at.try_into().map(u32::from_be_bytes).ok();
                let name = ReplicaId::from_bytes(value);
                let (at, name) = at.zip(name).ok_or_else(malformed)?;
                RemoteChange::Name(at, name)
            }
            Some((&TAG_SEEN, replica)) => {
                let replica = sole_id(replica, "a replica")?;
                let replica = u32::try_from(replica).map_err(|_| malformed())?;
                RemoteChange::Settled(replica, decode_seen(value)?.0, version)
            }
            _ => RemoteChange::Reserved(decode_numbers(value).ok_or_else(malformed)?.0),
        };
        let mut all = self.remote_changes.lock();
        // A process that takes no numbers keeps many of them: what is out of date is replaced.
        let known = all.iter_mut().find(|known| known.is_replaced_by(&change));
        match known {
            Some(known) => *known = change,
            None => all.push(change),
        }
        Ok(())
    }

    /// Enters what other processes stored.
    pub(crate) fn apply_remote_changes(&self, numbers: &mut Numbers) {
        let changes = std::mem::take(&mut *self.remote_changes.lock());
        changes.into_iter().for_each(|one| numbers.enter(one));
    }

    /// The numbers, locked.
    pub(crate) fn numbers(&self) -> MutexGuard<'_, Numbers> {
        let mut numbers = self.numbers.lock();
        self.apply_remote_changes(&mut numbers);
        numbers
    }

    pub(crate) fn enter(&self, prop: PropId) {
        self.properties.write().insert(prop);
        self.any.store(true, Ordering::Release);
    }

    /// Whether some record has this property as a convergent field, or had it.
    pub(crate) fn has_property(&self, prop: PropId) -> bool {
        self.any.load(Ordering::Acquire) && self.properties.read().contains(&prop)
    }

    /// Whether any record has a convergent field, or had one.
    pub fn has_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Milliseconds since 1970 in the upper 48 bits, and a counter that makes it monotonic.
    pub fn tick(&self, now_ms: u64) -> u64 {
        let now = now_ms << 16;
        let last = self
            .time
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
                Some(now.max(last + 1))
            });
        last.map_or(now, |last| now.max(last + 1))
    }

    /// If the clock was set back by more than clocks may differ, it ran ahead before: later writes are stamped by its
    /// current value, as after a restart. (A write replaces what it has seen whatever its stamp.)
    pub fn follow_clock(&self, now_ms: u64) {
        let shown_ms = self.shown_ms.fetch_max(now_ms, Ordering::AcqRel);
        if shown_ms > now_ms.saturating_add(MAX_AHEAD_MS) {
            self.shown_ms.store(now_ms, Ordering::Release);
            self.time.store(now_ms << 16, Ordering::Release);
        }
    }

    /// Takes the room of an increment from what is known of the counter at `place`; returns false if that is too
    /// little, or nothing is known: then the sum must be read. O(1).
    pub(crate) fn take_room(&self, place: &[u8], by: u64) -> bool {
        let mut room = self.room.lock();
        let left = room.get_mut(place);
        let left = left.and_then(|room| Some((room.checked_sub(by)?, room)));
        left.map(|(left, room)| *room = left).is_some()
    }

    /// The counter at `place` can be changed by `left` in either direction.
    pub(crate) fn note_room(&self, place: &[u8], left: u64) {
        let mut room = self.room.lock();
        if room.len() >= MAX_COUNTERS {
            room.clear();
        }
        room.insert(place.to_vec(), left);
    }

    /// Counts increments of the counter at `place`; returns whether it should be folded.
    pub(crate) fn note_count(&self, place: &[u8]) -> bool {
        let mut unfolded = self.unfolded.lock();
        match unfolded.get_mut(place) {
            Some(count) => {
                *count += 1;
                let due = *count >= FOLD_AFTER;
                if due {
                    *count = 0;
                }
                due
            }
            None => {
                if unfolded.len() == MAX_COUNTERS {
                    unfolded.clear();
                }
                unfolded.insert(place.to_vec(), 1);
                false
            }
        }
    }

    /// The counter at `place` was folded in the commit `version`: of a replica whose keys begin with `from` nothing is
    /// left below `to`.
    pub(crate) fn note_gap(
        &self,
        place: &[u8],
        since: Version,
        from: Vec<u8>,
        to: Vec<u8>,
        is_first: bool,
    ) {
        let mut gaps = self.gaps.write();
        if gaps.len() >= MAX_COUNTERS {
            gaps.clear();
        }
        let gap = Gap {
            since,
            is_first,
            from,
            to,
        };
        gaps.insert(place.to_vec(), Arc::new(gap));
    }

    /// The gap of the counter at `place` in a state of this version.
    pub(crate) fn gap(&self, place: &[u8], version: Version) -> Option<Arc<Gap>> {
        if !self.has_any() {
            return None;
        }
        let gaps = self.gaps.read();
        gaps.get(place).filter(|gap| gap.since <= version).cloned()
    }

    /// What every later snapshot has seen, of this database under all its names; nothing of others.
    pub(crate) fn settled(&self) -> Vector {
        let upto = self.numbers().settled;
        self.settled_upto(upto)
    }

    /// The same for a state of a shared database.
    pub(crate) fn settled_stored(&self, read: &dyn Read) -> Result<Vector, DataError> {
        let own = self.own();
        let seen = own.map_or(Ok(None), |own| read.get(&keyspace::seen(own.0)))?;
        let upto = seen.map_or(Ok(0), |seen| decode_seen(&seen).map(|(upto, _)| upto))?;
        Ok(self.settled_upto(upto))
    }

    fn settled_upto(&self, upto: u64) -> Vector {
        let numbers = self.numbers();
        let mut settled = Vector::new();
        if let Some(own) = numbers.own {
            let id = numbers.names[own.0 as usize].id;
            for (at, name) in numbers.names.iter().enumerate() {
                if name.id == id && at != own.0 as usize {
                    settled.advance(ReplicaNo(at as u32), u64::MAX >> 1);
                }
            }
            settled.advance(own, upto);
        }
        settled
    }

    /// The number of this database, and up to which number its transactions are in a state of a version, or were given
    /// up; unknown for a version that is older than the last of them.
    pub fn settled_in(&self, version: Version) -> Option<(ReplicaNo, Option<u64>)> {
        let numbers = self.numbers();
        let settled = (version >= numbers.settled_at).then_some(numbers.settled);
        numbers.own.map(|own| (own, settled))
    }

    /// A transaction with this hybrid time has been applied: later ones get a later time.
    pub fn advance_time(&self, time: u64) {
        self.time.fetch_max(time, Ordering::AcqRel);
    }

    /// Some number of a replica, under any of its names.
    pub fn number_of(&self, id: &[u8; 16]) -> Option<ReplicaNo> {
        let numbers = self.numbers();
        let at = numbers.names.iter().rposition(|known| known.id == *id)?;
        Some(ReplicaNo(at as u32))
    }

    /// All own numbers up to this one are in every later state, or were given up.
    pub(crate) fn settled_now(&self) -> u64 {
        self.numbers().settled
    }

    /// The number of known replica names, and its limit.
    pub fn names(&self) -> (u64, u64) {
        (self.numbers().names.len() as u64, MAX_REPLICAS as u64)
    }

    /// The name of a replica.
    pub fn name(&self, replica: ReplicaNo) -> Option<ReplicaId> {
        self.numbers().names.get(replica.0 as usize).copied()
    }

    /// Whether this database gave that number to one of its transactions, or gave it up, under its current name.
    pub fn has_given(&self, replica: ReplicaNo, number: u64) -> bool {
        let numbers = self.numbers();
        numbers.own == Some(replica) && number < numbers.next
    }

    /// The number of this database.
    pub fn own(&self) -> Option<ReplicaNo> {
        self.numbers().own
    }

    /// The number of this database; before the first transaction after an unclean shutdown, that of the previous epoch.
    pub fn latest(&self) -> Option<ReplicaNo> {
        let numbers = self.numbers();
        numbers.own.or(numbers.before)
    }

    /// The number of a replica.
    pub fn number(&self, name: ReplicaId) -> Option<ReplicaNo> {
        let numbers = self.numbers();
        let at = numbers.names.iter().position(|known| *known == name)?;
        Some(ReplicaNo(at as u32))
    }
}

/// Random bits.
pub(crate) fn random_bits() -> u128 {
    if let Some(bits) = seeded::next() {
        return bits;
    }
    uuid::Uuid::new_v4().as_u128()
}

/// The number of a transaction under way; given up when this is dropped, unless it was committed.
pub struct Ticket {
    pub(crate) numbers: Arc<Mutex<Numbers>>,
    pub replica: ReplicaNo,
    pub number: u64,
    pub(crate) done: bool,
}

impl Ticket {
    /// The transaction is in every state from `version` on.
    pub fn committed(mut self, version: Version) {
        self.done = true;
        let mut numbers = self.numbers.lock();
        numbers.settled_at = numbers.settled_at.max(version);
        numbers.complete(self.number);
    }

    /// The outcome is unknown: the number stays under way until the store is opened again.
    pub(crate) fn unknown(mut self) {
        self.done = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.done {
            let mut numbers = self.numbers.lock();
            numbers.complete(self.number);
        }
    }
}

impl Numbers {
    fn enter(&mut self, change: RemoteChange) {
        match change {
            RemoteChange::Name(at, name) if at as usize == self.names.len() => {
                self.names.push(name)
            }
            // It was read from a state that has it.
            RemoteChange::Name(..) => {}
            RemoteChange::Reserved(own) => self.own = self.own.or(Some(own)),
            RemoteChange::Settled(replica, upto, version) => {
                if self.own == Some(ReplicaNo(replica)) {
                    self.mark_settled(upto, version);
                }
            }
        }
    }

    /// The numbers up to this one are settled in states of that version and later ones.
    pub(crate) fn mark_settled(&mut self, upto: u64, version: Version) {
        self.settled = self.settled.max(upto);
        self.settled_at = self.settled_at.max(version);
    }

    /// Whether a block of a shared database has no number left that can be committed.
    pub(crate) fn is_used_up(&self) -> bool {
        self.own.is_none() || self.next == self.end || self.next <= self.settled
    }

    pub(crate) fn complete(&mut self, number: u64) {
        self.under_way.remove(&number);
        if self.is_shared {
            return;
        }
        let first = self.under_way.first().copied().unwrap_or(self.next);
        self.settled = self.settled.max(first - 1);
    }
}

pub(crate) fn too_many(count: usize) -> DataError {
    DataError::Limit {
        what: "the number of replicas that this database knows, all their epochs included".into(),
        size: count.to_string(),
        max: MAX_REPLICAS.to_string(),
        advice: "do not exchange with this peer; export and import begin a replication anew",
    }
}

/// At a clean shutdown: all commits are on disk, and numbers continue where they ended.
pub(crate) fn close(own: &OwnReplica, engine: &dyn Engine) {
    let numbers = own.numbers();
    let Some(own) = numbers
        .own
        .filter(|_| numbers.open && numbers.under_way.is_empty())
    else {
        return;
    };
    // Where this fails, the next opening begins an epoch.
    let closed = (|| -> Result<(), DataError> {
        engine.sync()?;
        let mut tx = engine.begin()?;
        sum_up(&mut *tx, own, &numbers)?;
        tx.put(NUMBERS, &encode_numbers(own, numbers.next, false))?;
        tx.commit(Durability::Synced)?;
        Ok(())
    })();
    drop(closed);
}

/// The same for the last process that has a shared database open.
pub(crate) fn close_shared(engine: &dyn Engine) -> Result<(), DataError> {
    engine.sync()?;
    let mut tx = engine.begin()?;
    let stored = tx.get(NUMBERS)?;
    if let Some((own, next, true)) = stored.as_deref().and_then(decode_numbers) {
        settle_below(&mut *tx, own, next)?;
        tx.put(NUMBERS, &encode_numbers(own, next, false))?;
        tx.commit(Durability::Synced)?;
    }
    Ok(())
}

/// One number represents all own transactions with numbers below `next`.
pub(crate) fn settle_below(
    tx: &mut dyn isomer_storage::EngineTransaction,
    own: ReplicaNo,
    next: u64,
) -> Result<(), DataError> {
    if next > 1 {
        put_seen(tx, own.0, next - 1)?;
        tx.delete_range(KeyRange {
            start: &[TAG_OWN_NUMBER],
            end: Some(&keyspace::own_number(next)),
        })?;
    }
    Ok(())
}

/// One number represents the own transactions that are in every later state, or were given up.
pub(crate) fn sum_up(
    tx: &mut dyn isomer_storage::EngineTransaction,
    own: ReplicaNo,
    numbers: &Numbers,
) -> Result<(), DataError> {
    settle_below(
        tx,
        own,
        numbers.under_way.first().copied().unwrap_or(numbers.next),
    )
}

pub(crate) fn put_seen(
    tx: &mut dyn isomer_storage::EngineTransaction,
    replica: u32,
    upto: u64,
) -> Result<(), DataError> {
    let mut value = Vec::new();
    push_id(&mut value, upto);
    Ok(tx.put(&keyspace::seen(replica), &value)?)
}

/// After a backup was restored: the committed numbers of the last epoch, and those that had been given up before. The
/// others may have been committed after the backup, and exist in other replicas.
pub(crate) fn put_restored(
    tx: &mut dyn isomer_storage::EngineTransaction,
    before: ReplicaNo,
) -> Result<(), DataError> {
    let base = match tx.get(&keyspace::seen(before.0))? {
        Some(stored) => decode_seen(&stored)?.0,
        None => 0,
    };
    let (mut here, mut settled) = (BTreeSet::new(), base);
    each(&*tx, &[TAG_OWN_NUMBER], |key, value| {
        here.insert(sole_id(&key[1..], "the number of a transaction")?);
        if !value.is_empty() {
            settled = settled.max(sole_id(value, "the number of a transaction")?);
        }
        Ok(())
    })?;
    let upto = here.last().copied().unwrap_or(base).max(settled);
    let except: Vec<u64> = (settled + 1..=upto)
        .filter(|number| !here.contains(number))
        .collect();
    Ok(tx.put(&keyspace::seen(before.0), &encode_seen(upto, &except))?)
}

/// Appends up to which number transactions were seen, and those that were not.
pub fn encode_seen(upto: u64, except: &[u64]) -> Vec<u8> {
    let mut value = Vec::new();
    push_id(&mut value, upto);
    except
        .iter()
        .for_each(|number| push_id(&mut value, *number));
    value
}

/// The number up to which a replica's transactions are here, and the exceptions.
pub fn decode_seen(mut bytes: &[u8]) -> Result<(u64, Vec<u64>), DataError> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        let number = take_id(&mut bytes);
        numbers.push(
            number.ok_or_else(|| DataError::corrupt("what was seen of a replica is malformed"))?,
        );
    }
    match numbers.split_first() {
        Some((upto, except)) => Ok((*upto, except.to_vec())),
        None => Err(DataError::corrupt(
            "what was seen of a replica is malformed",
        )),
    }
}

pub(crate) fn encode_numbers(own: ReplicaNo, next: u64, open: bool) -> Vec<u8> {
    let mut value = Vec::new();
    push_id(&mut value, own.0.into());
    push_id(&mut value, next);
    value.push(u8::from(open));
    value
}

pub(crate) fn decode_numbers(mut bytes: &[u8]) -> Option<(ReplicaNo, u64, bool)> {
    let own = ReplicaNo(u32::try_from(take_id(&mut bytes)?).ok()?);
    let next = take_id(&mut bytes)?;
    match bytes {
        [0] if next > 0 => Some((own, next, false)),
        [1] if next > 0 => Some((own, next, true)),
        _ => None,
    }
}

pub(crate) fn each(
    read: &dyn Read,
    prefix: &[u8],
    visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let end = after_prefix(prefix).unwrap_or_default();
    each_between(read, prefix, &end, visit)
}

pub(crate) fn each_between(
    read: &dyn Read,
    start: &[u8],
    end: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let mut page = Page::new();
    let mut rest = Some((start.to_vec(), end.to_vec()));
    while let Some((start, end)) = rest.take() {
        let range = KeyRange {
            start: &start,
            end: Some(&end),
        };
        let limit = PageLimit {
            keys: 1024,
            bytes: 1 << 16,
        };
        read.scan(range, Order::Ascending, limit, &mut page)?;
        for (key, value) in page.iter() {
            visit(key, value)?;
        }
        rest = page
            .next()
            .map(|next| (next.start.to_vec(), next.end.unwrap_or(&end).to_vec()));
    }
    Ok(())
}

/// Deterministic names from a seed, so that a failing history can be repeated.
pub mod seeded {
    use std::cell::Cell;

    thread_local! {
        static NEXT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From now on, on this thread.
    pub fn begin(seed: u64) {
        NEXT.set(Some(seed));
    }

    pub(crate) fn next() -> Option<u128> {
        let half = || {
            let next = NEXT.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
            NEXT.set(Some(next));
            let next = (next ^ next >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let next = (next ^ next >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            Some(u128::from(next ^ next >> 31))
        };
        Some(half()? << 64 | half()?)
    }
}
