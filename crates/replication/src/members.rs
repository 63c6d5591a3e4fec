//! Members: all replicas that this one has heard of and what each has seen; and peers, with which it exchanges, kept
//! for `isomer_sync`.
//!
//! A greeting says what a replica has seen and what it has heard of all others, so that all members learn of each
//! other. The log is trimmed below what all members have seen. Increments of counters are folded below that too, once
//! everything that the members had written when they said so is here: then no removal can arrive any more that knows
//! only a part of them.
//!
//! A member that has not acknowledged for longer than transactions are kept is *away*: the log is trimmed without it,
//! and it returns by state transfer. What it wrote in between is in its log, and arrives unchanged, under its name: no
//! dots are given up for it, and increments of counters stay apart until it has seen them. So its removals are as exact
//! as those of any member. Only one that was evicted, manually and permanently, is not waited for in this respect,
//! either.
//!
//! ```text
//! member  u8 1 evicted + 2 away + 8 waited for, id time in ms when it was heard of, vector; where it is waited for: id time in ms
//!         when that was looked at last, id ms for which it has been, vector of what it has to acknowledge
//! ```
//! (4, of an earlier layout: id time in ms since when, vector.) No exchange adds more than a part of that time, however
//! far the clock moved: a clock that jumps, or that was wrong until it was set, makes no member away.

use std::sync::atomic::Ordering;

use isomer_data::{
    DataError, DataStore, ReplicaId, ReplicaNo, Vector,
    internals::{own_replica, replica_state},
};
use isomer_layout::{
    keyspace::{self, push_id},
    pairs::each_pair,
};
use isomer_storage::{Durability, Read};

use crate::{log, member::Member, state::replication_of};

/// Log entries that are trimmed in one transaction, at most.
const MAX_ENTRIES_PER_COMMIT: usize = 10_000;

/// A known replica, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its id.
    pub id: [u8; 16],
    /// When its last report arrived, in ms since 1970.
    pub last_contact_ms: u64,
    /// The number of transactions here that it had not seen then.
    pub lacks: u64,
    /// Whether the log is trimmed without it, permanently.
    pub is_evicted: bool,
    /// Whether it has not acknowledged for longer than the retention time: it returns by state transfer.
    pub is_away: bool,
}

/// The intersection: what both have seen; exceptions are cut at the first.
fn intersect(one: &Vector, other: &Vector) -> Vector {
    let mut met = Vector::new();
    for (replica, _) in one.iter() {
        let upto = one.reach(replica).min(other.reach(replica));
        met.set(replica, upto, Vec::new());
    }
    met
}

/// Records the vector that a member reported.
///
/// # Errors
/// [`DataError::Denied`] for a member that was evicted, where it is the peer itself.
pub(crate) fn note_member(
    store: &DataStore,
    name: ReplicaId,
    seen: &Vector,
    is_itself: bool,
) -> Result<(), DataError> {
    // Other members report this name, and it would never acknowledge.
    if store.numbering().replica_id() == Some(name.id) {
        return Ok(());
    }
    let now = store.options().clock.now_ms();
    let mut members = replication_of(store).members.lock();
    let is_new = !members.contains_key(&name.id);
    let member = members.entry(name.id).or_default();
    if is_itself && member.is_evicted {
        return Err(DataError::Denied(
            "this replica was evicted here: the other replicas no longer wait for it; export the data that only it has, create it again and add it again".into(),
        ));
    }
    if is_itself {
        member.reported = Some(seen.clone());
    }
    if seen.includes(&member.acked) {
        member.is_news |= member.acked != *seen;
        member.acked = seen.clone();
        if is_itself {
            member.last_contact_ms = now;
        }
    }
    if is_new {
        let mut tx = store.engine().begin()?;
        tx.put(&keyspace::replica_member(&name.id), &member.encode())?;
        tx.commit(Durability::Synced)?;
    }
    Ok(())
}

/// Stores the reports of members, so that they are known at the next opening. They may be lost: members report
/// again.
///
/// # Errors
/// Those of a commit.
pub fn record_members(store: &DataStore) -> Result<(), DataError> {
    let mut members = replication_of(store).members.lock();
    if !members.values().any(|member| member.is_news) {
        return Ok(());
    }
    let mut tx = store.engine().begin()?;
    for (id, member) in members.iter_mut().filter(|(_, member)| member.is_news) {
        member.is_news = false;
        tx.put(&keyspace::replica_member(id), &member.encode())?;
    }
    tx.commit(Durability::Buffered)?;
    Ok(())
}

/// All members but this one.
///
/// # Errors
/// Those of the engine.
pub fn replica_members(store: &DataStore) -> Result<Vec<MemberInfo>, DataError> {
    let snapshot = store.engine().snapshot()?;
    let here = store.numbering().seen_in(&*snapshot, None)?;
    let members = replication_of(store).members.lock();
    let lacks = |member: &Member| {
        here.iter()
            .map(|(replica, upto)| upto.saturating_sub(member.acked.upto(replica)))
            .sum()
    };
    Ok(members
        .iter()
        .map(|(id, member)| MemberInfo {
            id: *id,
            last_contact_ms: member.last_contact_ms,
            lacks: lacks(member),
            is_evicted: member.is_evicted,
            is_away: member.is_away && !member.is_evicted,
        })
        .collect())
}

/// Stops waiting for a member: the log is trimmed although it may lack entries, and it is not admitted any more.
/// Returns whether there was a member of that id.
///
/// # Errors
/// Those of a commit.
pub fn evict_member(store: &DataStore, id: &[u8; 16]) -> Result<bool, DataError> {
    {
        let mut members = replication_of(store).members.lock();
        let Some(member) = members.get_mut(id) else {
            return Ok(false);
        };
        member.is_evicted = true;
        let mut tx = store.engine().begin()?;
        tx.put(&keyspace::replica_member(id), &member.encode())?;
        tx.commit(Durability::Synced)?;
    }
    trim_log(store)?;
    Ok(true)
}

/// Restarts waiting for all members: the times in a backup are outdated.
pub(crate) fn wait_anew(store: &DataStore) -> Result<(), DataError> {
    let mut members = replication_of(store).members.lock();
    let waited: Vec<_> = members
        .iter_mut()
        .filter(|(_, member)| member.waited.is_some() || member.is_away)
        .collect();
    if waited.is_empty() {
        return Ok(());
    }
    let mut tx = store.engine().begin()?;
    for (id, member) in waited {
        (member.waited, member.is_away) = (None, false);
        tx.put(&keyspace::replica_member(id), &member.encode())?;
    }
    tx.commit(Durability::Synced)?;
    Ok(())
}

/// Whether no member has a number of a replica: every member has said so since this database was opened.
pub(crate) fn is_lacked_by_all(store: &DataStore, replica: ReplicaNo, number: u64) -> bool {
    let members = replication_of(store).members.lock();
    members
        .values()
        .filter(|member| !member.is_evicted)
        .all(|member| {
            let reported = member.reported.as_ref();
            reported.is_some_and(|reported| !reported.saw(replica, number))
        })
}

/// The greatest number of a replica that any member has reported.
pub(crate) fn reported_upto(store: &DataStore, replica: ReplicaNo) -> u64 {
    let members = replication_of(store).members.lock();
    let reported = members
        .values()
        .filter_map(|member| member.reported.as_ref());
    reported
        .map(|reported| reported.upto(replica))
        .max()
        .unwrap_or(0)
}

/// The known vectors of all members.
pub(crate) fn acknowledged_vectors(store: &DataStore) -> Vec<([u8; 16], Vector)> {
    let members = replication_of(store).members.lock();
    let heard = members.iter().filter(|(_, member)| !member.is_evicted);
    heard
        .map(|(id, member)| (*id, member.acked.clone()))
        .collect()
}

/// The retention time of transactions for a member that does not acknowledge them, in ms; 0 for ever.
pub fn log_retention_ms(store: &DataStore) -> u64 {
    replication_of(store).retention_ms.load(Ordering::Relaxed)
}

/// Sets the retention time of transactions for a member that does not acknowledge them, in ms; 0 for ever. A member
/// that stays away longer returns by state transfer; what it wrote is not lost.
///
/// # Errors
/// Those of a commit.
pub fn set_log_retention(store: &DataStore, retention_ms: u64) -> Result<(), DataError> {
    let mut value = Vec::new();
    push_id(&mut value, retention_ms);
    let mut tx = store.engine().begin()?;
    tx.put(keyspace::LOG_KEPT, &value)?;
    tx.commit(Durability::Synced)?;
    let replication = replication_of(store);
    replication
        .retention_ms
        .store(retention_ms, Ordering::Relaxed);
    Ok(())
}

/// Trims the log below what all members that are not away have seen, and lets counters be folded below what all
/// have seen.
///
/// # Errors
/// Those of a commit.
pub fn trim_log(store: &DataStore) -> Result<(), DataError> {
    let _applying = replication_of(store).applying.lock();
    let snapshot = store.engine().snapshot()?;
    let here = log::shippable(store, &*snapshot)?;
    let (mut cut, mut stable) = (here.clone(), here.clone());
    let (now_ms, retention_ms) = (store.options().clock.now_ms(), log_retention_ms(store));
    let mut judged = Vec::new();
    {
        let mut members = replication_of(store).members.lock();
        let waited: Vec<_> = members
            .iter_mut()
            .filter(|(_, member)| !member.is_evicted)
            .collect();
        if waited.is_empty() {
            return Ok(()); // no member has reported its vector yet
        }
        for (id, member) in waited {
            let own = own_replica(store);
            let is_here = member.acked.iter().all(|(replica, upto)| {
                let is_its = own.name(replica).is_some_and(|name| name.id == *id);
                !is_its || here.reach(replica) >= upto
            });
            // Usable for folding only once all that the member had written by then is here: a removal of it may
            // know only a part of the increments.
            if is_here {
                member.usable = member.acked.clone();
            }
            stable = intersect(&stable, &member.usable);
            if member.update_absence(&here, now_ms, retention_ms) {
                judged.push((keyspace::replica_member(id), member.encode()));
            }
            if !member.is_away {
                cut = intersect(&cut, &member.acked);
            }
        }
    }
    if !judged.is_empty() {
        let mut tx = store.engine().begin()?;
        for (key, member) in &judged {
            tx.put(key, member)?;
        }
        tx.commit(Durability::Buffered)?;
    }
    replica_state(store).set_stable(stable);
    let read: &dyn Read = &*snapshot;
    for (replica, upto) in cut.iter() {
        if log::floor(read, replica)? >= upto {
            continue;
        }
        let prefix = keyspace::log_of(replica.0);
        let end = keyspace::log_entry(replica.0, upto + 1);
        loop {
            let mut keys = Vec::new();
            let limit = isomer_storage::PageLimit {
                keys: MAX_ENTRIES_PER_COMMIT,
                bytes: 4 << 20,
            };
            let mut page = isomer_storage::Page::new();
            let mut tx = store.engine().begin()?;
            let range = isomer_storage::KeyRange {
                start: &prefix,
                end: Some(&end),
            };
            tx.scan(range, isomer_storage::Order::Ascending, limit, &mut page)?;
            keys.extend(page.iter().map(|(key, _)| key.to_vec()));
            for key in &keys {
                tx.delete(key)?;
            }
            // In the commit of every batch: a partly trimmed log must not look complete.
            log::put_floor(&mut *tx, replica, upto)?;
            tx.commit(Durability::Buffered)?;
            if page.next().is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Peers by name, with their stored settings.
///
/// # Errors
/// Those of the engine.
pub fn replica_peers(store: &DataStore) -> Result<Vec<(String, Vec<u8>)>, DataError> {
    let snapshot = store.engine().snapshot()?;
    let mut peers = Vec::new();
    each_pair(&*snapshot, keyspace::PEERS, |key, value| {
        let name = String::from_utf8_lossy(&key[keyspace::PEERS.len()..]);
        peers.push((name.into_owned(), value.to_vec()));
        Ok(())
    })?;
    Ok(peers)
}

/// Stores settings of a peer.
///
/// # Errors
/// [`DataError::Limit`] for a name that is too long; those of a commit.
pub fn put_replica_peer(store: &DataStore, name: &str, kept: &[u8]) -> Result<(), DataError> {
    isomer_data::internals::store::check_name("peer", name)?;
    let mut tx = store.engine().begin()?;
    tx.put(&keyspace::peer(name), kept)?;
    tx.commit(Durability::Synced)?;
    Ok(())
}

/// Removes a peer; returns whether it existed.
///
/// # Errors
/// Those of a commit.
pub fn remove_replica_peer(store: &DataStore, name: &str) -> Result<bool, DataError> {
    let mut tx = store.engine().begin()?;
    let was = tx.get(&keyspace::peer(name))?.is_some();
    tx.delete(&keyspace::peer(name))?;
    tx.commit(Durability::Synced)?;
    Ok(was)
}
