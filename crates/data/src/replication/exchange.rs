//! What one replica says to another one: what it has, and what the other one lacks.
//!
//! ```text
//! greeting  a page with items: 01 what was seen: vector, then id own replica; 06 of every other member: id replica, vector
//! entries   a page with items:
//!   02 entry    entry
//!   03 reached  id replica, id number, id number: nothing was committed above the first up to and including the second
//!   04 more     nothing: ask again with what was seen then
//!   05 behind   nothing: the log does not reach back so far, a snapshot is needed
//! ```
//! Nothing is remembered of an exchange: who asks says what it has, so that whatever breaks off goes on where it was.

use isomer_storage::{KeyRange, Order, Page, PageLimit, Read};

use super::{
    apply::{Turn, turn},
    codec::take_u32,
    entry::Entry,
    rules::{self, Mutant},
    wire::{self, Incoming, Mapper, Outgoing},
};
use crate::{
    DataError, Store,
    convergent::{MAX_NUMBER, ReplicaId, ReplicaNo, Vector},
    keyspace::{self, after_prefix, push_id, sole_id, take_id},
};

/// How far ahead of this database's clock a transaction may claim to be.
const MAX_AHEAD_MS: u64 = 5 * 60 * 1000;

/// What a page of entries did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Transactions applied.
    pub transactions: u64,
    /// Operations in them.
    pub operations: u64,
    /// Transactions that were here before.
    pub known: u64,
    /// Whether the other one has more that this one lacks.
    pub more: bool,
    /// Whether the other one's log does not reach back far enough: a snapshot is needed.
    pub behind: bool,
}

/// Somebody's greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeted {
    /// Who it is.
    pub replica: ReplicaId,
    /// What it has seen, in the numbers of this database.
    pub(crate) seen: Vector,
    /// Whether this database has seen all of that.
    pub is_past: bool,
    /// Whether it has seen all that this database has.
    pub is_ahead: bool,
}

impl Store {
    fn replicated(&self) -> Result<(), DataError> {
        match self.is_replicated() {
            true => self.give_up_begun(),
            false => Err(DataError::Denied(
                "this database is no replica: make it one with `isomer replica add`".into(),
            )),
        }
    }

    /// What this database says of itself: who it is and what it has seen. All of it is durable.
    ///
    /// # Errors
    /// [`DataError::Denied`] in a database that is no replica; those of the engine.
    pub fn greeting(&self) -> Result<Vec<u8>, DataError> {
        self.replicated()?;
        let own = self.begin_replication()?;
        let snapshot = self.engine().snapshot()?;
        let seen = self.shippable(&*snapshot)?;
        self.engine().sync()?;
        let mut page = Outgoing::new(self);
        if self.is_open(&*snapshot)? {
            page.push(wire::OPEN, &[]);
        }
        let mut content = Vec::new();
        wire::vector(&mut page, &seen)?.push_local(&mut content);
        let own = self.shared().own_replica.number(own);
        let own = own.ok_or_else(|| DataError::Internal("this replica has no name".into()))?;
        push_id(&mut content, page.replica(own)?.0.into());
        page.push(1, &content);
        for (id, seen) in self.members_heard() {
            // By any of its names.
            let Some(name) = self.shared().own_replica.number_of(&id) else {
                continue;
            };
            let mut content = Vec::new();
            push_id(&mut content, page.replica(name)?.0.into());
            wire::vector(&mut page, &seen)?.push_local(&mut content);
            page.push(6, &content);
        }
        Ok(page.finish())
    }

    /// Reads somebody's greeting.
    ///
    /// # Errors
    /// [`DataError::Invalid`] where it is none, and of a replica of another space; [`DataError::Unsupported`] for another format; [`DataError::Limit`] where it names
    /// too many replicas.
    pub fn greeted(&self, greeting: &[u8]) -> Result<Greeted, DataError> {
        self.replicated()?;
        let (mut page, mut items) = Incoming::open(self, greeting)?;
        let Some((1, mut content)) = wire::take_item(&mut items)? else {
            return Err(wire::bad_item());
        };
        let content = &mut content;
        let seen = Vector::take_local(content).ok_or_else(wire::bad_item)?;
        let seen = wire::vector(&mut page, &seen)?;
        let own = take_u32(content).filter(|_| content.is_empty());
        let own = page.replica(ReplicaNo(own.ok_or_else(wire::bad_item)?))?;
        let replica = self.shared().own_replica.name(own);
        let replica = replica.ok_or_else(wire::bad_item)?;
        self.note_member(replica, &seen, true)?;
        while let Some((tag, mut content)) = wire::take_item(&mut items)? {
            if tag != 6 {
                return Err(wire::bad_item());
            }
            let content = &mut content;
            let other = take_u32(content).ok_or_else(wire::bad_item)?;
            let other = page.replica(ReplicaNo(other))?;
            let heard = Vector::take_local(content).filter(|_| content.is_empty());
            let heard = wire::vector(&mut page, &heard.ok_or_else(wire::bad_item)?)?;
            if let Some(name) = self.shared().own_replica.name(other) {
                self.note_member(name, &heard, false)?;
            }
        }
        let snapshot = self.engine().snapshot()?;
        let here = self.shippable(&*snapshot)?;
        Ok(Greeted {
            replica,
            is_past: here.includes(&seen),
            is_ahead: seen.includes(&here),
            seen,
        })
    }

    /// A page of what somebody lacks who has sent `greeting`: about `max_bytes` of entries, one at least, in causal order. Only
    /// what is durable.
    ///
    /// # Errors
    /// Those of [`Store::greeted`].
    pub fn entries_for(&self, greeting: &[u8], max_bytes: usize) -> Result<Vec<u8>, DataError> {
        if self.is_joining() {
            return Err(super::join::joining_error());
        }
        let mut theirs = self.greeted(greeting)?.seen;
        let snapshot = self.engine().snapshot()?;
        let read: &dyn Read = &*snapshot;
        let mut page = Outgoing::new(self);
        let here = self.shippable(read)?;
        let mut origins = Vec::new();
        for (replica, _) in here.iter() {
            let upto = match rules::broken(Mutant::ShipsUnsettled) {
                true => here.upto(replica),
                false => here.reach(replica),
            };
            let from = theirs.reach(replica);
            if from >= upto {
                continue;
            }
            if self.floor(read, replica)? > from {
                page.push(5, &[]);
                return Ok(page.finish());
            }
            origins.push(Origin::new(replica, from, upto));
        }
        if origins.is_empty() {
            return Ok(page.finish());
        }
        self.engine().sync()?;
        let is_full = |page: &Outgoing<'_>| page.items.len() >= max_bytes;
        // Round and round: each time what has become possible.
        loop {
            let mut progress = false;
            for origin in &mut origins {
                while !is_full(&page) && origin.push_next(read, &mut page, &mut theirs)? {
                    progress = true;
                }
            }
            if is_full(&page) {
                page.push(4, &[]);
                break;
            }
            if !progress {
                // What is left waits for a transaction that is not here: of before a restore, and on its way from somebody else.
                break;
            }
        }
        Ok(page.finish())
    }

    /// A page with the newest entry of this replica.
    #[cfg(test)]
    pub(super) fn last_entry_page(&self) -> Result<Vec<u8>, DataError> {
        let snapshot = self.engine().snapshot()?;
        let own = self.shared().own_replica.own();
        let own = own.ok_or_else(|| DataError::Internal("this replica has no name".into()))?;
        let mut last = None;
        crate::read::each_pair(&*snapshot, &keyspace::log_of(own.0), |_, value| {
            last = Some(Entry::decode(value)?);
            Ok(())
        })?;
        let mut page = Outgoing::new(self);
        if let Some(entry) = last {
            let spelled = wire::entry(&mut page, &entry)?.encode();
            page.push(2, &spelled);
        }
        Ok(page.finish())
    }

    /// Applies a page of entries: each transaction entirely, or, where this fails, none of it and none after it. What is applied is
    /// durable when this returns.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for pages and transactions that cannot be: forged, out of order, from the future;
    /// [`DataError::Exists`] where a bucket is of another kind here; [`DataError::Storage`] (unavailable) while a snapshot is being
    /// joined; those of a commit.
    pub fn apply_entries(&self, page: &[u8]) -> Result<Applied, DataError> {
        self.replicated()?;
        let _applying = self.shared().replication.applying.lock();
        if self.is_being_joined() {
            // What it removed would come back with the pages.
            return Err(super::join::joining_error());
        }
        let (mut map, mut items) = Incoming::open(self, page)?;
        let mut applied = Applied::default();
        let done = self.apply_items(&mut map, &mut items, &mut applied);
        self.engine().sync()?;
        done?;
        self.end_joining()?;
        Ok(applied)
    }

    fn apply_items(
        &self,
        map: &mut Incoming<'_>,
        items: &mut &[u8],
        applied: &mut Applied,
    ) -> Result<(), DataError> {
        let snapshot = self.engine().snapshot()?;
        let mut here = self.seen_in(&*snapshot, None)?;
        drop(snapshot);
        while let Some((tag, mut content)) = wire::take_item(items)? {
            let content = &mut content;
            match tag {
                2 => {
                    let entry = Entry::decode(content).map_err(|_| wire::bad_item())?;
                    let entry = wire::entry(map, &entry)?;
                    self.check_entry(&entry, &here)?;
                    match turn(&entry, &here) {
                        Turn::Past => applied.known += 1,
                        Turn::Later => {
                            return Err(DataError::invalid(format!(
                                "transaction {} of a replica came before what it has seen: the peer is damaged, or its pages were mixed up",
                                entry.number
                            )));
                        }
                        Turn::Now => {
                            self.apply_entry(&entry)?;
                            here.advance(entry.origin, entry.number);
                            applied.transactions += 1;
                            applied.operations += entry.ops.len() as u64;
                        }
                    }
                }
                3 => {
                    let replica = take_u32(content).ok_or_else(wire::bad_item)?;
                    let from = take_id(content).ok_or_else(wire::bad_item)?;
                    let upto = take_id(content).filter(|_| content.is_empty());
                    let upto = upto.filter(|upto| *upto <= MAX_NUMBER);
                    let upto = upto.ok_or_else(wire::bad_item)?;
                    let replica = map.replica(ReplicaNo(replica))?;
                    if self.shared().own_replica.has_given(replica, upto) {
                        // What this database gave up itself, told by somebody who heard of that from another exchange than the one
                        // that asked: the greeting was older.
                        continue;
                    }
                    self.check_origin(replica)?;
                    if here.reach(replica) < from {
                        return Err(DataError::invalid(format!(
                            "that nothing follows transaction {from} of a replica came before that transaction: the peer is damaged, or its pages were mixed up"
                        )));
                    }
                    if here.reach(replica) < upto {
                        self.merging(|tx| tx.put_reached(replica, upto))?;
                        here.advance(replica, upto);
                    }
                }
                4 => applied.more = true,
                5 => applied.behind = true,
                _ => return Err(wire::bad_item()),
            }
        }
        Ok(())
    }

    /// After an exchange: what a restored database did not bring along, and no member has, was never committed. Nothing is given
    /// up before every member that was not evicted has been heard since the database was opened.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn give_up_unknown(&self) -> Result<(), DataError> {
        let _applying = self.shared().replication.applying.lock();
        if self.is_being_joined() {
            return Ok(());
        }
        let snapshot = self.engine().snapshot()?;
        let here = self.seen_in(&*snapshot, None)?;
        let own = &self.shared().own_replica;
        let Some(id) = self.replica_id() else {
            return Ok(());
        };
        let names =
            (0..).map_while(|number| Some((ReplicaNo(number), own.name(ReplicaNo(number))?)));
        let former = names.filter(|(replica, name)| name.id == id && own.own() != Some(*replica));
        for (replica, _) in former.collect::<Vec<_>>() {
            // Others may have heard of what the backup is too old for, and wait for what came before that.
            let beyond = here.upto(replica) + 1..=self.told_upto(replica);
            // In their order: what one member has comes from it, and what is behind that waits.
            let unknown = here.exceptions(replica).iter().copied().chain(beyond);
            let unknown = unknown.take_while(|number| self.nobody_has(replica, *number));
            if let Some(upto) = unknown.last() {
                self.merging(|tx| tx.put_reached(replica, upto))?;
            }
        }
        Ok(())
    }

    /// Refuses what nobody else can have written.
    fn check_origin(&self, origin: ReplicaNo) -> Result<(), DataError> {
        let own = &self.shared().own_replica;
        if own.own() == Some(origin) {
            return Err(DataError::invalid(
                "a transaction came that bears this database's own name and that it did not make: another copy of this database is being written, or a backup of it was restored without a new epoch",
            ));
        }
        Ok(())
    }

    /// Refuses a hybrid time that is too far ahead of this database's clock.
    pub(super) fn check_time(&self, time: u64) -> Result<(), DataError> {
        let now = self.options().clock.now_ms();
        let claimed = time >> 16;
        if claimed > now.saturating_add(MAX_AHEAD_MS) {
            return Err(DataError::invalid(format!(
                "a transaction of a replica claims to be made {} seconds from now: set the clocks right, here or there",
                (claimed - now) / 1000
            )));
        }
        Ok(())
    }

    fn check_entry(&self, entry: &Entry, here: &Vector) -> Result<(), DataError> {
        if here.saw(entry.origin, entry.number) {
            return Ok(());
        }
        self.check_origin(entry.origin)?;
        if entry.number == 0 || entry.number > MAX_NUMBER {
            return Err(wire::bad_item());
        }
        self.check_time(entry.time)?;
        self.check_in_space(&entry.ops)
    }
}

/// The log of one replica, as far as somebody lacks it.
struct Origin {
    replica: ReplicaNo,
    /// The last number that was sent or is known there.
    sent: u64,
    upto: u64,
    /// The next transactions, the next one last.
    ahead: Vec<Entry>,
    is_done: bool,
}

impl Origin {
    fn new(replica: ReplicaNo, from: u64, upto: u64) -> Self {
        Self {
            replica,
            sent: from,
            upto,
            ahead: Vec::new(),
            is_done: false,
        }
    }

    /// Puts the next transaction into the page, where it is its turn; or, after the last one, how far this goes.
    fn push_next(
        &mut self,
        read: &dyn Read,
        page: &mut Outgoing<'_>,
        theirs: &mut Vector,
    ) -> Result<bool, DataError> {
        if self.is_done {
            return Ok(false);
        }
        if self.ahead.is_empty() {
            self.load(read)?;
        }
        let Some(entry) = self.ahead.last() else {
            self.is_done = true;
            self.push_reached(self.upto, page, theirs)?;
            return Ok(true);
        };
        if self.sent + 1 < entry.number && !rules::broken(Mutant::NoGapGate) {
            // Others may have seen that these were given up.
            self.push_reached(entry.number - 1, page, theirs)?;
            return Ok(true);
        }
        if !theirs.includes(&entry.seen_elsewhere()) && !rules::broken(Mutant::NoCausalGate) {
            return Ok(false);
        }
        let spelled = wire::entry(page, entry)?.encode();
        page.push(2, &spelled);
        theirs.advance(self.replica, entry.number);
        self.sent = entry.number;
        self.ahead.pop();
        Ok(true)
    }

    /// All numbers up to this one that were not sent were given up.
    fn push_reached(
        &mut self,
        upto: u64,
        page: &mut Outgoing<'_>,
        theirs: &mut Vector,
    ) -> Result<(), DataError> {
        if self.sent < upto {
            let mut content = Vec::new();
            push_id(&mut content, page.replica(self.replica)?.0.into());
            push_id(&mut content, self.sent);
            push_id(&mut content, upto);
            page.push(3, &content);
            theirs.advance(self.replica, upto);
            self.sent = upto;
        }
        Ok(())
    }

    /// Reads the next transactions: as many as a page of the engine holds.
    fn load(&mut self, read: &dyn Read) -> Result<(), DataError> {
        let prefix = keyspace::log_of(self.replica.0);
        let start = keyspace::log_entry(self.replica.0, self.sent + 1);
        let end = after_prefix(&prefix);
        let range = KeyRange {
            start: &start,
            end: end.as_deref(),
        };
        let mut page = Page::new();
        let limit = PageLimit {
            keys: 256,
            bytes: 1 << 16,
        };
        read.scan(range, Order::Ascending, limit, &mut page)?;
        for (key, value) in page.iter() {
            let number = sole_id(&key[prefix.len()..], "the number of a transaction")?;
            if number > self.upto {
                break;
            }
            self.ahead.push(Entry::decode(value)?);
        }
        self.ahead.reverse();
        Ok(())
    }
}
