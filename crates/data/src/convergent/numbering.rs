//! What an open store does as a replica: it takes numbers for its transactions, enters the names of others, and begins
//! epochs.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use isomer_layout::{
    DataError,
    convergent::clock::{ReplicaId, ReplicaNo, Vector},
    keyspace::{self, NUMBERS, TAG_OWN_NUMBER, sole_id},
};
use isomer_storage::{Durability, EngineTransaction, GuardMode, KeyRange, Read};
use rustc_hash::FxHashSet;

use crate::{
    DataStore,
    convergent::replica::{
        MAX_REPLICAS, Numbers, RESERVED, Ticket, decode_numbers, decode_seen, each_between,
        encode_numbers, put_restored, put_seen, random_bits, settle_below, sum_up, too_many,
    },
    footprint::{Item, NUMBERS_IN_SPAN},
    small_commit::commit_small,
};

/// Most numbers that a process of a shared database reserves at a time; it begins with one. Numbers that are reserved
/// and not used are exceptions in the vectors of all transactions until they are settled.
const MAX_RESERVED_SHARED: u64 = 64;

/// Settles the numbers of whole spans that are at least one span before `next`: their transactions are in this state,
/// or conflict with this commit. Returns up to where numbers are settled.
fn settle_old(tx: &mut dyn EngineTransaction, own: ReplicaNo, next: u64) -> Result<u64, DataError> {
    let settled = match tx.get(&keyspace::seen(own.0))? {
        Some(stored) => decode_seen(&stored)?.0,
        None => 0,
    };
    let spans = (next / NUMBERS_IN_SPAN).saturating_sub(1);
    let below = spans * NUMBERS_IN_SPAN;
    if below <= settled + 1 {
        return Ok(settled);
    }
    for span in (settled + 1) / NUMBERS_IN_SPAN..spans {
        tx.guard(Item::NumberSpan(span).granule(), GuardMode::Write);
    }
    settle_below(tx, own, below)?;
    Ok(below - 1)
}

/// The names of an open store and of others as replicas, and the numbers of its transactions.
#[derive(Clone, Copy)]
pub struct Numbering<'s> {
    store: &'s DataStore,
}

impl DataStore {
    /// Names of replicas, and numbers of transactions.
    pub fn numbering(&self) -> Numbering<'_> {
        Numbering { store: self }
    }

    /// The name under which this database writes convergent operations; none before its first one.
    pub fn replica(&self) -> Option<ReplicaId> {
        let numbers = self.shared().own_replica.numbers();
        numbers.own.map(|own| numbers.names[own.0 as usize])
    }
}

impl Numbering<'_> {
    /// The common part of the names of this database, also between an unclean shutdown and the first number of the next
    /// epoch.
    #[doc(hidden)]
    pub fn replica_id(self) -> Option<[u8; 16]> {
        let numbers = self.store.shared().own_replica.numbers();
        let own = numbers.own.or(numbers.before);
        own.map(|own| numbers.names[own.0 as usize].id)
    }

    /// Begins a new epoch: operations are distinguished from all that were written before, in this copy of the database
    /// or in another one. Call it after a backup was restored, before anything is written; no transaction may be under
    /// way.
    ///
    /// # Errors
    /// [`DataError::Denied`] while transactions with convergent operations are under way; those of a commit.
    pub fn begin_epoch(self) -> Result<(), DataError> {
        let _alone = self.store.hold_alone()?;
        self.begin_epoch_alone()
    }

    /// The same, in a shared database while it is opened: no other process has it open.
    pub(crate) fn begin_epoch_alone(self) -> Result<(), DataError> {
        if let Some(hooks) = self.store.hooks() {
            hooks.epoch_begun(self.store)?;
        }
        let mut numbers = self.store.shared().own_replica.numbers();
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
        self.reserve(&mut numbers)?;
        if numbers.is_shared {
            // Blocks are smaller from now on.
            numbers.next = numbers.end;
        }
        Ok(())
    }

    /// No other process takes numbers from now on: all that were reserved are settled, and the next ones are reserved
    /// as in a database that was opened exclusively. `begun` is called before the next one is taken. Returns false, and
    /// changes nothing, while transactions with convergent operations are under way.
    pub(crate) fn become_exclusive(self, begun: impl FnOnce()) -> Result<bool, DataError> {
        let mut numbers = self.store.shared().own_replica.numbers();
        if !numbers.is_shared {
            return Ok(true);
        }
        if !numbers.under_way.is_empty() {
            return Ok(false);
        }
        let engine = self.store.engine();
        // Numbers of commits that are lost with the power must not be used again.
        engine.sync()?;
        let reserved = commit_small(&**engine, Durability::Synced, |tx| {
            let stored = tx.get(NUMBERS)?;
            let reserved = stored.as_deref().and_then(decode_numbers);
            if let Some((own, next, _)) = reserved {
                settle_below(tx, own, next)?;
                tx.put(NUMBERS, &encode_numbers(own, next, false))?;
            }
            // Each transaction under way has read the schema. Its number could be one of those that are settled.
            tx.guard(Item::Schema.granule(), GuardMode::Write);
            Ok(reserved)
        })?;
        if let Some((own, next, _)) = reserved {
            numbers.own = Some(own);
            (numbers.next, numbers.end) = (next, next);
            numbers.mark_settled(next - 1, engine.version());
        }
        (numbers.is_shared, numbers.open) = (false, false);
        begun();
        Ok(true)
    }

    /// A number for a transaction.
    #[doc(hidden)]
    pub fn take(self) -> Result<Ticket, DataError> {
        let mut numbers = self.store.shared().own_replica.numbers();
        if numbers.is_shared {
            if numbers.is_used_up() {
                self.reserve_shared(&mut numbers)?;
            }
        } else if numbers.own.is_none() || numbers.next == numbers.end || !numbers.open {
            self.reserve(&mut numbers)?;
        }
        let (Some(replica), number) = (numbers.own, numbers.next) else {
            return Err(DataError::Internal("this replica has no name".into()));
        };
        numbers.next += 1;
        numbers.under_way.insert(number);
        Ok(Ticket {
            numbers: self.store.shared().own_replica.numbers.clone(),
            replica,
            number,
            done: false,
        })
    }

    /// Reserves a block of numbers in a shared database, and settles those before it that are old enough.
    fn reserve_shared(self, numbers: &mut Numbers) -> Result<(), DataError> {
        let own_replica = &self.store.shared().own_replica;
        let size = (numbers.block * 2).clamp(1, MAX_RESERVED_SHARED);
        let reserved = commit_small(&**self.store.engine(), Durability::Buffered, |tx| {
            own_replica.apply_remote_changes(numbers);
            let stored = tx.get(NUMBERS)?;
            let stored = stored.map(|stored| {
                decode_numbers(&stored)
                    .ok_or_else(|| DataError::corrupt("the reservation of numbers is malformed"))
            });
            let (own, first, name) = match stored.transpose()? {
                Some((own, next, _)) => (own, next, None),
                None => {
                    let own = ReplicaNo(numbers.names.len() as u32);
                    let name = ReplicaId {
                        id: random_bits().to_be_bytes(),
                        epoch: 0,
                    };
                    tx.put(&keyspace::replica(own.0), &name.to_bytes())?;
                    (own, 1, Some(name))
                }
            };
            let settled = settle_old(tx, own, first)?;
            tx.put(NUMBERS, &encode_numbers(own, first + size, true))?;
            tx.guard(Item::OwnNumbers.granule(), GuardMode::Write);
            Ok((own, first, name, settled))
        });
        let (own, first, name, settled) = reserved?;
        numbers.names.extend(name);
        numbers.own = Some(own);
        (numbers.next, numbers.end) = (first, first + size);
        (numbers.block, numbers.open) = (size, true);
        // Of which version is not needed: what is settled in a state is read from it.
        numbers.mark_settled(settled, 0);
        Ok(())
    }

    pub(crate) fn reserve(self, numbers: &mut Numbers) -> Result<(), DataError> {
        let mut tx = self.store.engine().begin()?;
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
                .store
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
    pub fn sum_up(self) -> Result<(), DataError> {
        let numbers = self.store.shared().own_replica.numbers();
        // In a shared database, those of other processes may be under way.
        let Some(own) = numbers.own.filter(|_| numbers.open && !numbers.is_shared) else {
            return Ok(());
        };
        let mut tx = self.store.engine().begin()?;
        sum_up(&mut *tx, own, &numbers)?;
        tx.commit(Durability::Buffered)?;
        Ok(())
    }

    /// Before a transaction that writes begins: the snapshot that it reads must contain the committed numbers of the
    /// last epoch as seen. Otherwise its number, of another epoch, would treat the own transactions of that one as
    /// unseen.
    pub(crate) fn store_last_epoch(self) -> Result<(), DataError> {
        if !self
            .store
            .shared()
            .own_replica
            .is_unclean
            .load(Ordering::Acquire)
        {
            return Ok(());
        }
        self.give_up_begun()?;
        let own_replica = &self.store.shared().own_replica;
        own_replica.is_unclean.store(false, Ordering::Release);
        Ok(())
    }

    /// After an unclean shutdown: gives up the numbers that the last epoch began and did not commit, so that replicas
    /// which need later transactions do not wait for them. The next epoch begins with its first number and not earlier:
    /// a process that is often killed and writes nothing uses no names.
    #[doc(hidden)]
    pub fn give_up_begun(self) -> Result<(), DataError> {
        let mut numbers = self.store.shared().own_replica.numbers();
        let is_unclean = numbers.own.is_none() && !numbers.restored && !numbers.gave_up;
        let Some(before) = numbers.before.filter(|_| is_unclean) else {
            return Ok(());
        };
        if self.store.options().read_only {
            return Ok(());
        }
        let mut tx = self.store.engine().begin()?;
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
    #[doc(hidden)]
    pub fn check_room(self, names: &[ReplicaId]) -> Result<(), DataError> {
        let numbers = self.store.shared().own_replica.numbers();
        let known: FxHashSet<&ReplicaId> = numbers.names.iter().collect();
        let new: FxHashSet<&ReplicaId> =
            names.iter().filter(|name| !known.contains(name)).collect();
        match known.len() + new.len() > MAX_REPLICAS {
            true => Err(too_many(known.len() + new.len())),
            false => Ok(()),
        }
    }

    /// The number of a replica; a new name is stored immediately, in a separate commit.
    #[doc(hidden)]
    pub fn enter(self, name: ReplicaId) -> Result<ReplicaNo, DataError> {
        let mut numbers = self.store.shared().own_replica.numbers();
        if let Some(at) = numbers.names.iter().position(|known| *known == name) {
            return Ok(ReplicaNo(at as u32));
        }
        if numbers.names.len() >= MAX_REPLICAS {
            return Err(too_many(numbers.names.len() + 1));
        }
        let no = ReplicaNo(numbers.names.len() as u32);
        let mut tx = self.store.engine().begin()?;
        tx.put(&keyspace::replica(no.0), &name.to_bytes())?;
        tx.commit(Durability::Buffered)?; // transactions that use it commit later
        numbers.names.push(name);
        Ok(no)
    }

    /// The vector of a state. `read` is its snapshot; `before` an own number that it cannot have seen, nor any above,
    /// unless the database is shared.
    #[doc(hidden)]
    pub fn seen_in(self, read: &dyn Read, before: Option<u64>) -> Result<Vector, DataError> {
        let (own, settled, settled_at, names, is_shared) = {
            let numbers = self.store.shared().own_replica.numbers();
            let names = numbers.names.len() as u32;
            // After an unclean shutdown the next name is created with the next number.
            let own = numbers.own.or(numbers.before);
            let (settled, settled_at) = (numbers.settled, numbers.settled_at);
            (own, settled, settled_at, names, numbers.is_shared)
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
        let base = match read.version() >= settled_at && !is_shared {
            true => settled.max(seen.upto(own)),
            false => seen.upto(own),
        };
        let mut numbers = Vec::new();
        let before = before.filter(|_| !is_shared);
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
