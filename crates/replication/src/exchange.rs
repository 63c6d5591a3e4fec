//! The messages between replicas: what each has, and what the other lacks.
//!
//! ```text
//! greeting  a page with items: 01 what was seen: vector, then id own replica; 06 of every other member: id replica, vector
//! entries   a page with items:
//!   02 entry    entry
//!   03 reached  id replica, id number, id number: nothing was committed above the first up to and including the second
//!   04 more     nothing: ask again with what was seen then
//!   05 behind   nothing: the log does not reach back so far, a state transfer is needed
//! ```
//! An exchange is stateless: the requester says what it has seen, so that an interrupted exchange continues where it
//! was.

use isomer_data::{
    DataError, DataStore, ReplicaId, ReplicaNo, Vector, after_prefix, internals::own_replica,
};
use isomer_layout::{
    convergent::clock::MAX_NUMBER,
    keyspace::{self, push_id, sole_id, take_id},
    replicated::codec::take_u32,
};
use isomer_storage::{KeyRange, Order, Page, PageLimit, Read};

use crate::{
    ahead::{self, HeldBack},
    apply::{self, CausalOrder, causal_order},
    begin,
    entry::LogEntry,
    log,
    mapping::{self, Mapper},
    members, scope,
    state::replication_of,
    state_transfer::receive,
    wire::{self, Incoming, Outgoing, tag},
};

/// What a page of entries did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Transactions applied.
    pub transactions: u64,
    /// Operations in them.
    pub operations: u64,
    /// Transactions that had been applied before.
    pub known: u64,
    /// Whether the peer has more that this database lacks.
    pub more: bool,
    /// Whether a state transfer is needed: the peer's log does not reach back far enough, or a state transfer was
    /// interrupted here and the peer's log does not complete it.
    pub behind: bool,
    /// Transactions that were held back, as they are stamped ahead of the clock, if any.
    pub held: Option<HeldBack>,
}

/// The greeting of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GreetingStatus {
    /// The peer's identity.
    pub replica: ReplicaId,
    /// What it has seen, in the numbers of this database.
    pub(crate) seen: Vector,
    /// Whether this database has seen all of that.
    pub is_past: bool,
    /// Whether the peer has seen all that this database has.
    pub is_ahead: bool,
}

fn replicated(store: &DataStore) -> Result<(), DataError> {
    match store.is_replicated() {
        true => store.numbering().give_up_begun(),
        false => Err(no_replica()),
    }
}

/// The greeting of this database: its name and what it has seen. All of it is durable.
///
/// # Errors
/// [`DataError::Denied`] in a database that is not a replica; those of the engine.
pub fn greeting(store: &DataStore) -> Result<Vec<u8>, DataError> {
    replicated(store)?;
    let own = begin::begin_replication(store)?;
    let snapshot = store.engine().snapshot()?;
    let seen = log::shippable(store, &*snapshot)?;
    store.engine().sync()?;
    let mut page = Outgoing::new(store);
    if scope::is_open(store, &*snapshot)? {
        page.push(tag::OPEN, &[]);
    }
    let mut content = Vec::new();
    mapping::vector(&mut page, &seen)?.push_local(&mut content);
    let own = own_replica(store).number(own);
    let own = own.ok_or_else(|| DataError::Internal("this replica has no name".into()))?;
    push_id(&mut content, page.replica(own)?.0.into());
    page.push(tag::SENDER, &content);
    for (id, seen) in members::acknowledged_vectors(store) {
        // Under any of its names.
        let Some(name) = own_replica(store).number_of(&id) else {
            continue;
        };
        let mut content = Vec::new();
        push_id(&mut content, page.replica(name)?.0.into());
        mapping::vector(&mut page, &seen)?.push_local(&mut content);
        page.push(tag::MEMBER, &content);
    }
    Ok(page.finish())
}

/// Checks that a page is a greeting of another replica with which this database may exchange. Nothing is written: a
/// database checks it before it becomes a replica.
///
/// # Errors
/// [`DataError::Invalid`] if it is not a greeting, is of a replica of another space, or has this database's own
/// name;
/// [`DataError::Unsupported`] for another format; [`DataError::Limit`] if it names too many replicas.
pub fn check_greeting(store: &DataStore, greeting: &[u8]) -> Result<(), DataError> {
    wire::check_greeting(store, greeting)
}

/// Reads the greeting of a peer.
///
/// # Errors
/// [`DataError::Invalid`] if it is not a greeting, or is of a replica of another space;
/// [`DataError::Unsupported`] for another format; [`DataError::Limit`] if it names too many replicas.
pub fn read_greeting(store: &DataStore, greeting: &[u8]) -> Result<GreetingStatus, DataError> {
    replicated(store)?;
    let (mut page, mut items) = Incoming::open(store, greeting)?;
    let Some((tag::SENDER, mut content)) = wire::take_item(&mut items)? else {
        return Err(mapping::bad_item());
    };
    let content = &mut content;
    let seen = Vector::take_local(content).ok_or_else(mapping::bad_item)?;
    let seen = mapping::vector(&mut page, &seen)?;
    let own = take_u32(content).filter(|_| content.is_empty());
    let own = page.replica(ReplicaNo(own.ok_or_else(mapping::bad_item)?))?;
    let replica = own_replica(store).name(own);
    let replica = replica.ok_or_else(mapping::bad_item)?;
    members::note_member(store, replica, &seen, true)?;
    while let Some((found, mut content)) = wire::take_item(&mut items)? {
        if found != tag::MEMBER {
            return Err(mapping::bad_item());
        }
        let content = &mut content;
        let other = take_u32(content).ok_or_else(mapping::bad_item)?;
        let other = page.replica(ReplicaNo(other))?;
        let heard = Vector::take_local(content).filter(|_| content.is_empty());
        let heard = mapping::vector(&mut page, &heard.ok_or_else(mapping::bad_item)?)?;
        if let Some(name) = own_replica(store).name(other) {
            members::note_member(store, name, &heard, false)?;
        }
    }
    let snapshot = store.engine().snapshot()?;
    let here = log::shippable(store, &*snapshot)?;
    Ok(GreetingStatus {
        replica,
        is_past: here.includes(&seen),
        is_ahead: seen.includes(&here),
        seen,
    })
}

/// A page of the entries that the sender of `greeting` lacks: about `max_bytes` of entries, one at least, in causal
/// order. Only durable entries.
///
/// # Errors
/// Those of [`read_greeting`].
pub fn entries_for(
    store: &DataStore,
    greeting: &[u8],
    max_bytes: usize,
) -> Result<Vec<u8>, DataError> {
    if store.is_joining() {
        return Err(isomer_data::internals::joining_error());
    }
    let mut theirs = read_greeting(store, greeting)?.seen;
    let snapshot = store.engine().snapshot()?;
    let read: &dyn Read = &*snapshot;
    let mut page = Outgoing::new(store);
    let here = log::shippable(store, read)?;
    let mut origins = Vec::new();
    for (replica, _) in here.iter() {
        let upto = here.reach(replica);
        let from = theirs.reach(replica);
        if from >= upto {
            continue;
        }
        // The log was trimmed beyond what the peer has seen: entries alone would leave a gap.
        if log::floor(read, replica)? > from {
            page.push(tag::BEHIND, &[]);
            return Ok(page.finish());
        }
        origins.push(Origin::new(replica, from, upto));
    }
    if origins.is_empty() {
        return Ok(page.finish());
    }
    // Only durable entries are sent: a crash here must not lose what another replica has.
    store.engine().sync()?;
    let is_full = |page: &Outgoing<'_>| page.items.len() >= max_bytes;
    // Each round takes what can be applied by then, of each replica at most its share of the page: if the receiver
    // holds back transactions of one replica, it still gets those of the others.
    let share = max_bytes / origins.len();
    loop {
        let mut progress = false;
        for origin in &mut origins {
            let end = page.items.len().saturating_add(share);
            while !is_full(&page)
                && page.items.len() <= end
                && origin.push_next(read, &mut page, &mut theirs)?
            {
                progress = true;
            }
        }
        if is_full(&page) {
            page.push(tag::MORE, &[]);
            break;
        }
        if !progress {
            // What is left waits for a transaction that is not here: made before a restore, and to be received from
            // another replica.
            break;
        }
    }
    Ok(page.finish())
}

/// A page with the newest entry of this replica.
#[cfg(test)]
pub(crate) fn last_entry_page(store: &DataStore) -> Result<Vec<u8>, DataError> {
    let snapshot = store.engine().snapshot()?;
    let own = own_replica(store).own();
    let own = own.ok_or_else(|| DataError::Internal("this replica has no name".into()))?;
    let mut last = None;
    isomer_layout::pairs::each_pair(&*snapshot, &keyspace::log_of(own.0), |_, value| {
        last = Some(LogEntry::decode(value)?);
        Ok(())
    })?;
    let mut page = Outgoing::new(store);
    if let Some(entry) = last {
        let spelled = entry.mapped(&mut page)?.encode();
        page.push(tag::ENTRY, &spelled);
    }
    Ok(page.finish())
}

/// As [`apply_page`], and an error where anything was held back.
///
/// # Errors
/// Those of [`apply_page`]; [`DataError::ClockAhead`], after all else was applied.
pub fn apply_entries(store: &DataStore, page: &[u8]) -> Result<Applied, DataError> {
    let applied = apply_page(store, page)?;
    match applied.held {
        Some(held) => Err(held.error()),
        None => Ok(applied),
    }
}

/// Applies a page of entries: each transaction entirely, or, where this fails, none of it and none after it.
/// Transactions that are stamped ahead of the clock are held back, with those that depend on them; the others are
/// applied. Applied transactions are durable when this returns.
///
/// # Errors
/// [`DataError::Invalid`] for impossible pages and transactions: forged, out of order; [`DataError::Exists`] if
/// a bucket is of another kind here; [`DataError::Storage`] (unavailable) while a state is being merged; those
/// of a commit.
pub fn apply_page(store: &DataStore, page: &[u8]) -> Result<Applied, DataError> {
    replicated(store)?;
    let _applying = replication_of(store).applying.lock();
    if receive::is_merging_state(store) {
        // Otherwise the pages of the state transfer would restore what the entries removed.
        return Err(isomer_data::internals::joining_error());
    }
    let (mut map, mut items) = Incoming::open(store, page)?;
    let mut applied = Applied::default();
    let done = apply_items(store, &mut map, &mut items, &mut applied);
    store.engine().sync()?;
    done?;
    receive::end_state_transfer(store)?;
    // The state is merged again from its first page: entries alone do not complete it.
    applied.behind |= !applied.more && receive::has_broken_state_transfer(store)?;
    Ok(applied)
}

fn apply_items(
    store: &DataStore,
    map: &mut Incoming<'_>,
    items: &mut &[u8],
    applied: &mut Applied,
) -> Result<(), DataError> {
    let snapshot = store.engine().snapshot()?;
    let mut here = store.numbering().seen_in(&*snapshot, None)?;
    drop(snapshot);
    while let Some((found, mut content)) = wire::take_item(items)? {
        let content = &mut content;
        match found {
            tag::ENTRY => {
                let entry = LogEntry::decode(content).map_err(|_| mapping::bad_item())?;
                let Some(entry) = entry_of(store, map, &entry, &here, applied)? else {
                    continue;
                };
                match causal_order(&entry, &here) {
                    CausalOrder::Applied => applied.known += 1,
                    CausalOrder::Waits if hold_back(applied) => {}
                    CausalOrder::Waits => {
                        return Err(DataError::invalid(format!(
                            "transaction {} of a replica arrived before transactions that it depends on: the peer is damaged, or its pages were reordered",
                            entry.number
                        )));
                    }
                    CausalOrder::Next => {
                        apply::apply_entry(store, &entry)?;
                        here.advance(entry.origin, entry.number);
                        applied.transactions += 1;
                        applied.operations += entry.ops.len() as u64;
                    }
                }
            }
            tag::REACHED => {
                let replica = take_u32(content).ok_or_else(mapping::bad_item)?;
                let from = take_id(content).ok_or_else(mapping::bad_item)?;
                let upto = take_id(content).filter(|_| content.is_empty());
                let upto = upto.filter(|upto| *upto <= MAX_NUMBER);
                let upto = upto.ok_or_else(mapping::bad_item)?;
                let replica = map.replica(ReplicaNo(replica))?;
                if own_replica(store).has_given(replica, upto) {
                    // This database gave the number up itself, and the peer heard of that in another exchange: the
                    // greeting was older.
                    continue;
                }
                check_origin(store, replica)?;
                if here.reach(replica) < from && applied.held.is_some() {
                    continue; // it follows what is held back
                }
                if here.reach(replica) < from {
                    return Err(DataError::invalid(format!(
                        "the notice that no transaction follows number {from} of a replica arrived before that transaction: the peer is damaged, or its pages were reordered"
                    )));
                }
                if here.reach(replica) < upto {
                    apply::merging(store, |tx| apply::store_applied_number(tx, replica, upto))?;
                    here.advance(replica, upto);
                }
            }
            tag::MORE => applied.more = true,
            tag::BEHIND => applied.behind = true,
            _ => return Err(mapping::bad_item()),
        }
    }
    Ok(())
}

/// After an exchange: numbers that a restored database lacks, and no member has, were never committed. Nothing is
/// given up before every member that was not evicted has been heard since the database was opened.
///
/// # Errors
/// Those of a commit.
pub fn give_up_unknown(store: &DataStore) -> Result<(), DataError> {
    let _applying = replication_of(store).applying.lock();
    if receive::is_merging_state(store) {
        return Ok(());
    }
    let snapshot = store.engine().snapshot()?;
    let here = store.numbering().seen_in(&*snapshot, None)?;
    let own = own_replica(store);
    let Some(id) = store.numbering().replica_id() else {
        return Ok(());
    };
    let names = (0..).map_while(|number| Some((ReplicaNo(number), own.name(ReplicaNo(number))?)));
    let former = names.filter(|(replica, name)| name.id == id && own.own() != Some(*replica));
    for (replica, _) in former.collect::<Vec<_>>() {
        // Others may have received later transactions than the backup has, and wait for the earlier ones.
        let beyond = here.upto(replica) + 1..=members::reported_upto(store, replica);
        // In ascending order: a number that a member has is received from it, and the later ones wait for that.
        let unknown = here.exceptions(replica).iter().copied().chain(beyond);
        let unknown =
            unknown.take_while(|number| members::is_lacked_by_all(store, replica, *number));
        if let Some(upto) = unknown.last() {
            apply::merging(store, |tx| apply::store_applied_number(tx, replica, upto))?;
        }
    }
    Ok(())
}

/// Refuses an entry that only this replica can have written.
fn check_origin(store: &DataStore, origin: ReplicaNo) -> Result<(), DataError> {
    let own = own_replica(store);
    if own.own() == Some(origin) {
        return Err(DataError::invalid(
            "received a transaction under this database's own name that it did not make: another copy of this database is being written, or a backup of it was restored without a new epoch",
        ));
    }
    Ok(())
}

/// An entry in the numbers of this database; none if it is stamped ahead of the clock and held back.
fn entry_of(
    store: &DataStore,
    map: &mut Incoming<'_>,
    came: &LogEntry,
    here: &Vector,
    applied: &mut Applied,
) -> Result<Option<LogEntry>, DataError> {
    let mapped = came.mapped(map);
    let checked = mapped.and_then(|entry| check_entry(store, &entry, here).map(|()| entry));
    let (time_ms, ahead_ms) = match checked {
        Err(DataError::ClockAhead { time_ms, ahead_ms }) => (time_ms, ahead_ms),
        checked => return checked.map(Some),
    };
    let origin = map.replica(came.origin)?;
    if here.saw(origin, came.number) {
        applied.known += 1; // it was accepted when it came first
        return Ok(None);
    }
    if !hold_back(applied) {
        let name = own_replica(store).name(origin);
        applied.held = Some(HeldBack {
            replica: name.ok_or_else(mapping::bad_item)?,
            number: came.number,
            time_ms,
            ahead_ms,
            transactions: 1,
        });
    }
    Ok(None)
}

fn check_entry(store: &DataStore, entry: &LogEntry, here: &Vector) -> Result<(), DataError> {
    if here.saw(entry.origin, entry.number) {
        return Ok(());
    }
    check_origin(store, entry.origin)?;
    if entry.number == 0 || entry.number > MAX_NUMBER {
        return Err(mapping::bad_item());
    }
    ahead::check_time(store, entry.time)?;
    scope::check_in_space(store, &entry.ops)
}

/// The error of a database that is not a replica.
pub(super) fn no_replica() -> DataError {
    DataError::Denied(
        "this database is not a replica: make it one with `isomer replica add`".into(),
    )
}

/// Counts a transaction that depends on one that is held back, where there is one.
fn hold_back(applied: &mut Applied) -> bool {
    let held = applied.held.as_mut();
    held.map(|held| held.transactions += 1).is_some()
}

/// The log of one replica, as far as the peer lacks it.
struct Origin {
    replica: ReplicaNo,
    /// The last number that was sent or is known to the peer.
    sent: u64,
    upto: u64,
    /// The next transactions, the next one last.
    ahead: Vec<LogEntry>,
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

    /// Puts the next transaction into the page, if it can be applied by then; after the last one, a note of how far the
    /// numbers go.
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
            self.push_applied_number(self.upto, page, theirs)?;
            return Ok(true);
        };
        if self.sent + 1 < entry.number {
            // Others may have seen that these were given up.
            self.push_applied_number(entry.number - 1, page, theirs)?;
            return Ok(true);
        }
        if !theirs.includes(&entry.seen_elsewhere()) {
            return Ok(false);
        }
        let spelled = entry.mapped(page)?.encode();
        page.push(tag::ENTRY, &spelled);
        theirs.advance(self.replica, entry.number);
        self.sent = entry.number;
        self.ahead.pop();
        Ok(true)
    }

    /// All numbers up to this one that were not sent were given up.
    fn push_applied_number(
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
            page.push(tag::REACHED, &content);
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
            self.ahead.push(LogEntry::decode(value)?);
        }
        self.ahead.reverse();
        Ok(())
    }
}
