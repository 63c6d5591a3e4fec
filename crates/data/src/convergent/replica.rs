//! This database as a replica: its name, the numbers of its transactions, hybrid time, and which properties are
//! convergent anywhere.
//!
//! Numbers are reserved in blocks of a thousand in a small separate commit, as ids are. A transaction takes one at its
//! first convergent operation and leaves a key with it behind when it commits; a number that is given up leaves none.
//! With the next reservation the keys below every number under way are replaced by one: *seen up to here*.
//!
//! A number is never used for two transactions that another replica can have received: the first reservation after
//! opening is on disk before its first number is used, and says *open*; a clean shutdown says *closed*. When opening
//! finds *open*, commits that were only buffered may be lost and their numbers with them, and a new epoch begins.
//! [`DataStore::begin_epoch`] begins one after a backup was restored.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_storage::{
    Durability, Engine, GuardMode, KeyRange, Order, Page, PageLimit, Read, Version,
};
use isomer_value::{IndexId, PropId};
use parking_lot::{Mutex, RwLock};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::{ReplicaId, ReplicaNo, Vector};
use crate::{
    DataError, DataStore,
    footprint::Item,
    keyspace::{
        self, GIVEN_UP, NUMBERS, TAG_CONVERGENT_PROPERTY, TAG_OWN_NUMBER, TAG_REPLICA,
        after_prefix, push_id, sole_id, take_id,
    },
    replication::MAX_AHEAD_MS,
};

/// Numbers reserved at a time.
const RESERVED: u64 = 1024;
/// Most replicas, with all their names: every transaction has a vector with an entry for each.
const MOST_REPLICAS: usize = 1024;
/// Increments of a counter after which it is folded.
const FOLD_AFTER: u32 = 128;
/// Most counters whose increments are counted.
const MOST_COUNTED: usize = 10_000;

/// The state of this database as a replica, in an open store.
#[derive(Debug, Default)]
pub(crate) struct OwnReplica {
    numbers: Mutex<Numbers>,
    /// Whether the numbers that the last epoch committed are not stored as seen yet: it was not shut down cleanly.
    is_unclean: AtomicBool,
    /// The last hybrid time assigned.
    time: AtomicU64,
    /// The latest clock value, in ms.
    shown_ms: AtomicU64,
    any: AtomicBool,
    properties: RwLock<FxHashSet<PropId>>,
    /// Indexes that were given up, as they cannot hold fields that other replicas made.
    given_up: RwLock<FxHashSet<IndexId>>,
    /// Increments since a counter was folded.
    unfolded: Mutex<FxHashMap<Vec<u8>, u32>>,
    /// Gaps in the keys of folded counters.
    gaps: RwLock<FxHashMap<Vec<u8>, Arc<Gap>>>,
}

/// A part of a counter's keys that is empty in every state of a version or a later one: it was folded. An engine may
/// skip deleted keys one by one, so readers skip the whole part.
#[derive(Debug)]
pub(crate) struct Gap {
    since: Version,
    /// Whether it is the first range: it is of the replica with the lowest number.
    pub(crate) is_first: bool,
    /// Where it begins.
    pub(crate) from: Vec<u8>,
    /// The first key after it.
    pub(crate) to: Vec<u8>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// All known replicas, by number.
    names: Vec<ReplicaId>,
    own: Option<ReplicaNo>,
    /// The replica that this database was before an epoch ended.
    before: Option<ReplicaNo>,
    next: u64,
    /// First number not reserved.
    end: u64,
    under_way: BTreeSet<u64>,
    /// All own numbers up to this one are in every state of this version or a later one, or were given up.
    settled: u64,
    settled_at: Version,
    /// Whether this opening has stored that.
    open: bool,
    /// Whether numbers of the last epoch that are missing here may exist in other replicas.
    restored: bool,
    /// Whether the numbers that it began and did not commit were given up.
    gave_up: bool,
}

impl OwnReplica {
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let (mut numbers, mut is_unclean) = (Numbers::default(), false);
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
            // An epoch that was left open is not continued.
            if open {
                numbers.before = Some(own);
                is_unclean = true;
            } else {
                numbers.own = Some(own);
                (numbers.next, numbers.end, numbers.settled) = (next, next, next - 1);
            }
        }
        let own = Self {
            numbers: Mutex::new(numbers),
            is_unclean: AtomicBool::new(is_unclean),
            ..Self::default()
        };
        each(read, &[TAG_CONVERGENT_PROPERTY], |key, _| {
            let prop = sole_id(&key[1..], "a convergent property")?;
            own.enter(PropId(u32::try_from(prop).unwrap_or(u32::MAX)));
            Ok(())
        })?;
        each(read, GIVEN_UP, |key, _| {
            let index = sole_id(&key[GIVEN_UP.len()..], "an index that was given up")?;
            let index = IndexId(u32::try_from(index).unwrap_or(u32::MAX));
            own.given_up.write().insert(index);
            Ok(())
        })?;
        Ok(own)
    }

    fn enter(&self, prop: PropId) {
        self.properties.write().insert(prop);
        self.any.store(true, Ordering::Release);
    }

    /// Whether some record has this property as a convergent field, or had it.
    pub(crate) fn has_property(&self, prop: PropId) -> bool {
        self.any.load(Ordering::Acquire) && self.properties.read().contains(&prop)
    }

    /// Whether any record has a convergent field, or had one.
    pub(crate) fn has_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Milliseconds since 1970 in the upper 48 bits, and a counter that makes it monotonic.
    pub(crate) fn tick(&self, now_ms: u64) -> u64 {
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
    pub(crate) fn follow_clock(&self, now_ms: u64) {
        let shown_ms = self.shown_ms.fetch_max(now_ms, Ordering::AcqRel);
        if shown_ms > now_ms.saturating_add(MAX_AHEAD_MS) {
            self.shown_ms.store(now_ms, Ordering::Release);
            self.time.store(now_ms << 16, Ordering::Release);
        }
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
                if unfolded.len() == MOST_COUNTED {
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
        if gaps.len() >= MOST_COUNTED {
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
        let numbers = self.numbers.lock();
        let mut settled = Vector::new();
        if let Some(own) = numbers.own {
            let id = numbers.names[own.0 as usize].id;
            for (at, name) in numbers.names.iter().enumerate() {
                if name.id == id && at != own.0 as usize {
                    settled.advance(ReplicaNo(at as u32), u64::MAX >> 1);
                }
            }
            settled.advance(own, numbers.settled);
        }
        settled
    }

    /// The number of this database, and up to which number its transactions are in a state of a version, or were given
    /// up; unknown for a version that is older than the last of them.
    pub(crate) fn settled_in(&self, version: Version) -> Option<(ReplicaNo, Option<u64>)> {
        let numbers = self.numbers.lock();
        let settled = (version >= numbers.settled_at).then_some(numbers.settled);
        numbers.own.map(|own| (own, settled))
    }

    /// A transaction with this hybrid time has been applied: later ones get a later time.
    pub(crate) fn reached(&self, time: u64) {
        self.time.fetch_max(time, Ordering::AcqRel);
    }

    /// Some number of a replica, under any of its names.
    pub(crate) fn number_of(&self, id: &[u8; 16]) -> Option<ReplicaNo> {
        let numbers = self.numbers.lock();
        let at = numbers.names.iter().rposition(|known| known.id == *id)?;
        Some(ReplicaNo(at as u32))
    }

    /// All own numbers up to this one are in every later state, or were given up.
    pub(crate) fn settled_now(&self) -> u64 {
        self.numbers.lock().settled
    }

    /// The number of known replica names, and its limit.
    pub(crate) fn names(&self) -> (u64, u64) {
        (self.numbers.lock().names.len() as u64, MOST_REPLICAS as u64)
    }

    pub(crate) fn name(&self, replica: ReplicaNo) -> Option<ReplicaId> {
        self.numbers.lock().names.get(replica.0 as usize).copied()
    }

    /// Whether this database gave that number to one of its transactions, or gave it up, under its current name.
    pub(crate) fn has_given(&self, replica: ReplicaNo, number: u64) -> bool {
        let numbers = self.numbers.lock();
        numbers.own == Some(replica) && number < numbers.next
    }

    /// The number of this database.
    pub(crate) fn own(&self) -> Option<ReplicaNo> {
        self.numbers.lock().own
    }

    /// The number of this database; before the first transaction after an unclean shutdown, that of the previous epoch.
    pub(crate) fn latest(&self) -> Option<ReplicaNo> {
        let numbers = self.numbers.lock();
        numbers.own.or(numbers.before)
    }

    pub(crate) fn number(&self, name: ReplicaId) -> Option<ReplicaNo> {
        let numbers = self.numbers.lock();
        let at = numbers.names.iter().position(|known| *known == name)?;
        Some(ReplicaNo(at as u32))
    }
}

/// Random bits.
fn random_bits() -> u128 {
    #[cfg(test)]
    if let Some(bits) = seeded::next() {
        return bits;
    }
    uuid::Uuid::new_v4().as_u128()
}

/// The number of a transaction under way; given up when this is dropped, unless it was committed.
pub(crate) struct Ticket {
    store: DataStore,
    pub(crate) replica: ReplicaNo,
    pub(crate) number: u64,
    done: bool,
}

impl Ticket {
    /// The transaction is in every state from `version` on.
    pub(crate) fn committed(mut self, version: Version) {
        self.done = true;
        let mut numbers = self.store.shared().own_replica.numbers.lock();
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
            let mut numbers = self.store.shared().own_replica.numbers.lock();
            numbers.complete(self.number);
        }
    }
}

impl Numbers {
    fn complete(&mut self, number: u64) {
        self.under_way.remove(&number);
        let first = self.under_way.first().copied().unwrap_or(self.next);
        self.settled = self.settled.max(first - 1);
    }
}

impl DataStore {
    /// The name under which this database writes convergent operations; none before its first one.
    pub fn replica(&self) -> Option<ReplicaId> {
        let numbers = self.shared().own_replica.numbers.lock();
        numbers.own.map(|own| numbers.names[own.0 as usize])
    }

    /// The common part of the names of this database, also between an unclean shutdown and the first number of the next
    /// epoch.
    pub(crate) fn replica_id(&self) -> Option<[u8; 16]> {
        let numbers = self.shared().own_replica.numbers.lock();
        let own = numbers.own.or(numbers.before);
        own.map(|own| numbers.names[own.0 as usize].id)
    }

    /// Begins a new epoch: operations are distinguished from all that were written before, in this copy of the database
    /// or in another one. Call it after a backup was restored, before anything is written; no transaction may be under
    /// way.
    ///
    /// # Errors
    /// [`DataError::Denied`] while transactions with convergent operations are under way; those of a commit.
    pub fn begin_epoch(&self) -> Result<(), DataError> {
        self.wait_anew()?;
        let mut numbers = self.shared().own_replica.numbers.lock();
        if !numbers.under_way.is_empty() {
            return Err(DataError::Denied(
                "a new epoch cannot begin while transactions with convergent operations are under way".into(),
            ));
        }
        let Some(own) = numbers.own.or(numbers.before) else {
            return Ok(()); // nothing was ever written
        };
        (numbers.own, numbers.before) = (None, Some(own));
        numbers.restored = true;
        self.reserve(&mut numbers)
    }

    /// Whether some record has this property as a convergent field, or had it: the values are not in records.
    pub fn is_convergent(&self, prop: PropId) -> bool {
        self.shared().own_replica.has_property(prop)
    }

    /// The number of properties that are convergent fields of some record, or were.
    pub fn convergent_properties(&self) -> usize {
        let own = &self.shared().own_replica;
        match own.has_any() {
            true => own.properties.read().len(),
            false => 0,
        }
    }

    /// Adds a property to the convergent ones, in a separate commit.
    pub(crate) fn enter_convergent(&self, prop: PropId) -> Result<(), DataError> {
        let own = &self.shared().own_replica;
        if own.has_property(prop) {
            return Ok(());
        }
        let _numbers = own.numbers.lock();
        if own.has_property(prop) {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        tx.put(&keyspace::convergent_property(prop.0), &[])?;
        tx.guard(Item::Convergent(prop.0).granule(), GuardMode::Add);
        tx.guard(Item::AnyConvergent.granule(), GuardMode::Add);
        tx.commit(Durability::Buffered)?; // transactions that use it commit later
        own.enter(prop);
        Ok(())
    }

    /// Whether an index was given up: another replica made fields that it cannot hold, and its entries are incomplete.
    pub fn is_given_up(&self, index: IndexId) -> bool {
        let own = &self.shared().own_replica;
        own.has_any() && own.given_up.read().contains(&index)
    }

    /// How many indexes were given up.
    pub fn indexes_given_up(&self) -> usize {
        let own = &self.shared().own_replica;
        match own.has_any() {
            true => own.given_up.read().len(),
            false => 0,
        }
    }

    /// Records that an index is incomplete, in a separate commit, before the entries that it lacks are committed.
    pub(crate) fn give_up_index(&self, index: IndexId) -> Result<(), DataError> {
        if self.is_given_up(index) {
            return Ok(());
        }
        let own = &self.shared().own_replica;
        let mut tx = self.engine().begin()?;
        tx.put(&keyspace::given_up(index), &[])?;
        tx.commit(Durability::Buffered)?; // the entries that it lacks commit later
        own.given_up.write().insert(index);
        Ok(())
    }

    /// A number for a transaction.
    pub(crate) fn take_number(&self) -> Result<Ticket, DataError> {
        let mut numbers = self.shared().own_replica.numbers.lock();
        if numbers.own.is_none() || numbers.next == numbers.end || !numbers.open {
            self.reserve(&mut numbers)?;
        }
        let (Some(replica), number) = (numbers.own, numbers.next) else {
            return Err(DataError::Internal("this replica has no name".into()));
        };
        numbers.next += 1;
        numbers.under_way.insert(number);
        Ok(Ticket {
            store: self.clone(),
            replica,
            number,
            done: false,
        })
    }

    fn reserve(&self, numbers: &mut Numbers) -> Result<(), DataError> {
        let mut tx = self.engine().begin()?;
        let is_new = numbers.own.is_none();
        let own = match numbers.own {
            Some(own) => own,
            None => {
                let name = match numbers.before {
                    Some(before) => {
                        let id = numbers.names[before.0 as usize].id;
                        // Random instead of the next number: if an older backup was restored, that one has been used.
                        let mut epoch = 0;
                        while epoch == 0 || numbers.names.contains(&ReplicaId { id, epoch }) {
                            epoch = random_bits() as u32;
                        }
                        ReplicaId { id, epoch }
                    }
                    None => ReplicaId {
                        id: random_bits().to_be_bytes(),
                        epoch: 0,
                    },
                };
                if let Some(stored) = tx.get(NUMBERS)?
                    && let Some((before, next, open)) = decode_numbers(&stored)
                {
                    if open && numbers.restored {
                        put_restored(&mut *tx, before)?;
                    } else {
                        // Numbers that the last epoch reserved and did not use are given up.
                        put_seen(&mut *tx, before.0, next - 1)?;
                    }
                }
                tx.delete_range(KeyRange {
                    start: &[TAG_OWN_NUMBER],
                    end: Some(&[TAG_OWN_NUMBER + 1]),
                })?;
                let own = ReplicaNo(numbers.names.len() as u32);
                tx.put(&keyspace::replica(own.0), &name.to_bytes())?;
                numbers.names.push(name);
                numbers.own = Some(own);
                (numbers.next, numbers.end, numbers.settled) = (1, 1, 0);
                numbers.open = false;
                own
            }
        };
        sum_up(&mut *tx, own, numbers)?;
        let end = numbers.end + RESERVED;
        tx.put(NUMBERS, &encode_numbers(own, end, true))?;
        // The first reservation of an opening is on disk before its first number is used: a crash must not lose it.
        let durability = match numbers.open {
            true => Durability::Buffered,
            false => Durability::Synced,
        };
        let committed = tx.commit(durability);
        if committed.is_err() && !numbers.open && is_new {
            // The name may be stored or not: a missing one is rolled back, a stored one is an epoch without
            // transactions.
            if self
                .engine()
                .snapshot()?
                .get(&keyspace::replica(own.0))?
                .is_none()
            {
                numbers.names.pop();
            }
            numbers.own = None;
        }
        committed?;
        numbers.restored = false;
        (numbers.end, numbers.open) = (end, true);
        Ok(())
    }

    /// Compacts the own transaction numbers: one number is left of all that were committed. It is done whenever numbers
    /// are reserved, and when the database is closed; call it before space is measured.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn sum_up_numbers(&self) -> Result<(), DataError> {
        let numbers = self.shared().own_replica.numbers.lock();
        let Some(own) = numbers.own.filter(|_| numbers.open) else {
            return Ok(());
        };
        let mut tx = self.engine().begin()?;
        sum_up(&mut *tx, own, &numbers)?;
        tx.commit(Durability::Buffered)?;
        Ok(())
    }

    /// Before a transaction that writes begins: the snapshot that it reads must contain the committed numbers of the
    /// last epoch as seen. Otherwise its number, of another epoch, would treat the own transactions of that one as
    /// unseen.
    pub(crate) fn store_last_epoch(&self) -> Result<(), DataError> {
        if !self.shared().own_replica.is_unclean.load(Ordering::Acquire) {
            return Ok(());
        }
        self.give_up_begun()?;
        let own_replica = &self.shared().own_replica;
        own_replica.is_unclean.store(false, Ordering::Release);
        Ok(())
    }

    /// After an unclean shutdown: gives up the numbers that the last epoch began and did not commit, so that replicas
    /// which need later transactions do not wait for them. The next epoch begins with its first number and not earlier:
    /// a process that is often killed and writes nothing uses no names.
    pub(crate) fn give_up_begun(&self) -> Result<(), DataError> {
        let mut numbers = self.shared().own_replica.numbers.lock();
        let is_unclean = numbers.own.is_none() && !numbers.restored && !numbers.gave_up;
        let Some(before) = numbers.before.filter(|_| is_unclean) else {
            return Ok(());
        };
        if self.options().read_only {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        if let Some(stored) = tx.get(NUMBERS)?
            && let Some((_, next, true)) = decode_numbers(&stored)
        {
            put_seen(&mut *tx, before.0, next - 1)?;
            tx.commit(Durability::Synced)?;
        }
        numbers.gave_up = true;
        Ok(())
    }

    /// Refuses names of replicas beyond the limit.
    pub(crate) fn check_room(&self, names: &[ReplicaId]) -> Result<(), DataError> {
        let numbers = self.shared().own_replica.numbers.lock();
        let known: FxHashSet<&ReplicaId> = numbers.names.iter().collect();
        let new: FxHashSet<&ReplicaId> =
            names.iter().filter(|name| !known.contains(name)).collect();
        match known.len() + new.len() > MOST_REPLICAS {
            true => Err(too_many(known.len() + new.len())),
            false => Ok(()),
        }
    }

    /// The number of a replica; a new name is stored immediately, in a separate commit.
    pub(crate) fn enter_replica(&self, name: ReplicaId) -> Result<ReplicaNo, DataError> {
        let mut numbers = self.shared().own_replica.numbers.lock();
        if let Some(at) = numbers.names.iter().position(|known| *known == name) {
            return Ok(ReplicaNo(at as u32));
        }
        if numbers.names.len() >= MOST_REPLICAS {
            return Err(too_many(numbers.names.len() + 1));
        }
        let no = ReplicaNo(numbers.names.len() as u32);
        let mut tx = self.engine().begin()?;
        tx.put(&keyspace::replica(no.0), &name.to_bytes())?;
        tx.commit(Durability::Buffered)?; // transactions that use it commit later
        numbers.names.push(name);
        Ok(no)
    }

    /// The vector of a state. `read` is its snapshot; `before` an own number that it cannot have seen, nor any above.
    pub(crate) fn seen_in(
        &self,
        read: &dyn Read,
        before: Option<u64>,
    ) -> Result<Vector, DataError> {
        let (own, settled, settled_at, names) = {
            let numbers = self.shared().own_replica.numbers.lock();
            let names = numbers.names.len() as u32;
            // After an unclean shutdown the next name is created with the next number.
            let own = numbers.own.or(numbers.before);
            (own, numbers.settled, numbers.settled_at, names)
        };
        let mut seen = Vector::new();
        // One by one: a scan would pass the numbers behind it, which are added and removed with every transaction.
        let keys: Vec<Vec<u8>> = (0..names).map(keyspace::seen).collect();
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for (replica, value) in (0..names).zip(read.get_many(&slices)?) {
            if let Some(value) = value {
                let (upto, except) = decode_seen(&value)?;
                seen.set(ReplicaNo(replica), upto, except);
            }
        }
        let Some(own) = own else { return Ok(seen) };
        let base = match read.version() >= settled_at {
            true => settled.max(seen.upto(own)),
            false => seen.upto(own),
        };
        let mut numbers = Vec::new();
        let end = before.map_or_else(|| vec![TAG_OWN_NUMBER + 1], keyspace::own_number);
        each_between(read, &keyspace::own_number(base + 1), &end, |key, _| {
            numbers.push(sole_id(&key[1..], "the number of a transaction")?);
            Ok(())
        })?;
        let upto = numbers.last().copied().unwrap_or(base);
        let here: BTreeSet<u64> = numbers.into_iter().collect();
        let lacking = (base + 1..=upto).filter(|number| !here.contains(number));
        seen.set(own, upto, lacking.collect());
        Ok(seen)
    }
}

fn too_many(count: usize) -> DataError {
    DataError::Limit {
        what: "the number of replicas heard of, all their epochs included".into(),
        size: count.to_string(),
        max: MOST_REPLICAS.to_string(),
        advice: "do not exchange with this peer; export and import begin a replication anew",
    }
}

/// At a clean shutdown: all commits are on disk, and numbers continue where they ended.
pub(crate) fn close(own: &OwnReplica, engine: &dyn Engine) {
    let numbers = own.numbers.lock();
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

/// One number represents the own transactions that are in every later state, or were given up.
fn sum_up(
    tx: &mut dyn isomer_storage::EngineTransaction,
    own: ReplicaNo,
    numbers: &Numbers,
) -> Result<(), DataError> {
    let settled = numbers.under_way.first().copied().unwrap_or(numbers.next) - 1;
    if settled > 0 {
        put_seen(tx, own.0, settled)?;
        tx.delete_range(KeyRange {
            start: &[TAG_OWN_NUMBER],
            end: Some(&keyspace::own_number(settled + 1)),
        })?;
    }
    Ok(())
}

fn put_seen(
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
fn put_restored(
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

pub(crate) fn encode_seen(upto: u64, except: &[u64]) -> Vec<u8> {
    let mut value = Vec::new();
    push_id(&mut value, upto);
    except
        .iter()
        .for_each(|number| push_id(&mut value, *number));
    value
}

/// The number up to which a replica's transactions are here, and the exceptions.
pub(crate) fn decode_seen(mut bytes: &[u8]) -> Result<(u64, Vec<u64>), DataError> {
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

fn encode_numbers(own: ReplicaNo, next: u64, open: bool) -> Vec<u8> {
    let mut value = Vec::new();
    push_id(&mut value, own.0.into());
    push_id(&mut value, next);
    value.push(u8::from(open));
    value
}

fn decode_numbers(mut bytes: &[u8]) -> Option<(ReplicaNo, u64, bool)> {
    let own = ReplicaNo(u32::try_from(take_id(&mut bytes)?).ok()?);
    let next = take_id(&mut bytes)?;
    match bytes {
        [0] if next > 0 => Some((own, next, false)),
        [1] if next > 0 => Some((own, next, true)),
        _ => None,
    }
}

fn each(
    read: &dyn Read,
    prefix: &[u8],
    visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
) -> Result<(), DataError> {
    let end = after_prefix(prefix).unwrap_or_default();
    each_between(read, prefix, &end, visit)
}

fn each_between(
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
#[cfg(test)]
pub(crate) mod seeded {
    use std::cell::Cell;

    thread_local! {
        static NEXT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// From now on, on this thread.
    pub(crate) fn begin(seed: u64) {
        NEXT.set(Some(seed));
    }

    pub(super) fn next() -> Option<u128> {
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
