//! Members: all replicas that this one has heard of and what each has seen; and peers, with which it exchanges, kept
//! for `isomer_sync`.
//!
//! A greeting says what a replica has seen and what it has heard of all others, so that all members learn of each
//! other. The log is trimmed below what all members have seen. Increments of counters are folded below that too, once
//! everything that the members had written when they said so is here: then no removal can arrive any more that knows
//! only a part of them.
//!
//! A member that has not acknowledged for longer than transactions are kept is *away*: the log is trimmed without it,
//! and it comes back by a snapshot. What it wrote in between is in its log, and arrives unchanged, under its name: no
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

use std::{collections::BTreeMap, sync::atomic::Ordering};

use isomer_storage::{Durability, Read};

use super::codec::{malformed, take_byte};
use crate::{
    DataError, DataStore,
    convergent::{ReplicaId, ReplicaNo, Vector},
    keyspace::{self, push_id, take_id},
    read::each_pair,
};

/// Log entries that are trimmed in one transaction.
const CUT_AT_ONCE: usize = 10_000;

/// The waiting time of a member is stored whenever this part of the retention time is over.
const NOTED_PARTS: u64 = 64;
/// No exchange adds more than this part of the retention time to the waiting time of a member.
pub(super) const MOST_AT_ONCE: u64 = 16;
/// Default retention of transactions for a member that does not acknowledge them: 90 days.
pub(super) const KEPT_MS: u64 = 90 * 24 * 60 * 60 * 1000;

/// A known replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// The vector that it reported last.
    pub(super) acked: Vector,
    /// The same, at a time from which everything that it had written has arrived.
    usable: Vector,
    heard_ms: u64,
    is_evicted: bool,
    /// What it reported itself since this database was opened, that is, after a restore.
    reported: Option<Vector>,
    /// Whether a part of its report is not on disk.
    is_news: bool,
    waited: Option<Waited>,
    /// Whether the log is trimmed without it.
    is_away: bool,
}

/// Transactions that a member lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waited {
    /// When it was checked last, and the stored value of that.
    looked_ms: u64,
    noted_ms: Option<u64>,
    /// For how long it has been waited for.
    for_ms: u64,
    /// The state of this database when that began.
    lacks: Vector,
}

/// A known replica, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its id.
    pub id: [u8; 16],
    /// When its last report arrived, in ms since 1970.
    pub heard_ms: u64,
    /// The number of transactions here that it had not seen then.
    pub lacks: u64,
    /// Whether the log is trimmed without it, permanently.
    pub is_evicted: bool,
    /// Whether it has not acknowledged for longer than the retention time: it comes back by a snapshot.
    pub is_away: bool,
}

pub(crate) type Members = BTreeMap<[u8; 16], Member>;

impl Member {
    fn encode(&self) -> Vec<u8> {
        let waited = self
            .waited
            .as_ref()
            .filter(|waited| waited.noted_ms.is_some());
        let flags = [
            (self.is_evicted, 1),
            (self.is_away, 2),
            (waited.is_some(), 8),
        ];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        let mut bytes = vec![flags.map(|(_, flag)| flag).sum()];
        push_id(&mut bytes, self.heard_ms);
        self.acked.push_local(&mut bytes);
        if let Some(waited) = waited {
            push_id(&mut bytes, waited.looked_ms);
            push_id(&mut bytes, waited.for_ms);
            waited.lacks.push_local(&mut bytes);
        }
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let flags = take_byte(bytes).filter(|flags| *flags < 16)?;
        let mut member = Self {
            is_evicted: flags & 1 > 0,
            is_away: flags & 2 > 0,
            heard_ms: take_id(bytes)?,
            acked: Vector::take_local(bytes)?,
            ..Self::default()
        };
        if flags & 12 > 0 {
            let looked_ms = take_id(bytes)?;
            let for_ms = if flags & 8 > 0 { take_id(bytes)? } else { 0 };
            member.waited = Some(Waited {
                looked_ms,
                noted_ms: Some(looked_ms),
                for_ms,
                lacks: Vector::take_local(bytes)?,
            });
        }
        Some(member)
    }

    /// Decides whether it is away, from the state of this database, the time and the retention time (0: for ever).
    /// Returns whether that must be stored.
    fn judge(&mut self, here: &Vector, now_ms: u64, kept_ms: u64) -> bool {
        let noted = |member: &Self| member.waited.as_ref().and_then(|waited| waited.noted_ms);
        let before = (self.is_away, noted(self));
        let lacks = self.waited.as_ref().map(|waited| &waited.lacks);
        if kept_ms == 0 || lacks.is_some_and(|lacks| self.acked.includes(lacks)) {
            self.waited = None;
        }
        if kept_ms > 0 && self.waited.is_none() && !self.acked.includes(here) {
            self.waited = Some(Waited {
                looked_ms: now_ms,
                noted_ms: None,
                for_ms: 0,
                lacks: here.clone(),
            });
        }
        self.is_away = false;
        if let Some(waited) = &mut self.waited {
            let passed_ms = now_ms.saturating_sub(waited.looked_ms);
            waited.for_ms += passed_ms.min(kept_ms / MOST_AT_ONCE);
            waited.looked_ms = now_ms;
            self.is_away = waited.for_ms > kept_ms;
            // Not at each exchange: after a restart, an unsaved waiting time only makes it wait a little longer.
            let last_ms = waited.noted_ms.unwrap_or(self.heard_ms);
            if now_ms.abs_diff(last_ms) > kept_ms / NOTED_PARTS || self.is_away != before.0 {
                waited.noted_ms = Some(now_ms);
            }
        }
        before != (self.is_away, noted(self))
    }
}

pub(super) fn load(read: &dyn Read) -> Result<Members, DataError> {
    let mut members = Members::new();
    each_pair(read, keyspace::MEMBERS, |key, value| {
        let id = key[keyspace::MEMBERS.len()..].try_into();
        let member = id.ok().zip(Member::decode(value));
        let (id, member) = member.ok_or_else(|| malformed("a member"))?;
        members.insert(id, member);
        Ok(())
    })?;
    Ok(members)
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

impl DataStore {
    /// Records the vector that a member reported.
    ///
    /// # Errors
    /// [`DataError::Denied`] for a member that was evicted, where it is the peer itself.
    pub(super) fn note_member(
        &self,
        name: ReplicaId,
        seen: &Vector,
        is_itself: bool,
    ) -> Result<(), DataError> {
        // Other members report this name, and it would never acknowledge.
        if self.replica_id() == Some(name.id) {
            return Ok(());
        }
        let now = self.options().clock.now_ms();
        let mut members = self.shared().replication.members.lock();
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
                member.heard_ms = now;
            }
        }
        if is_new {
            let mut tx = self.engine().begin()?;
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
    pub fn note_members(&self) -> Result<(), DataError> {
        let mut members = self.shared().replication.members.lock();
        if !members.values().any(|member| member.is_news) {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
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
    pub fn replica_members(&self) -> Result<Vec<MemberInfo>, DataError> {
        let snapshot = self.engine().snapshot()?;
        let here = self.seen_in(&*snapshot, None)?;
        let members = self.shared().replication.members.lock();
        let lacks = |member: &Member| {
            here.iter()
                .map(|(replica, upto)| upto.saturating_sub(member.acked.upto(replica)))
                .sum()
        };
        Ok(members
            .iter()
            .map(|(id, member)| MemberInfo {
                id: *id,
                heard_ms: member.heard_ms,
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
    pub fn evict_member(&self, id: &[u8; 16]) -> Result<bool, DataError> {
        {
            let mut members = self.shared().replication.members.lock();
            let Some(member) = members.get_mut(id) else {
                return Ok(false);
            };
            member.is_evicted = true;
            let mut tx = self.engine().begin()?;
            tx.put(&keyspace::replica_member(id), &member.encode())?;
            tx.commit(Durability::Synced)?;
        }
        self.cut_log()?;
        Ok(true)
    }

    /// Restarts waiting for all members: the times in a backup are outdated.
    pub(crate) fn wait_anew(&self) -> Result<(), DataError> {
        let mut members = self.shared().replication.members.lock();
        let waited: Vec<_> = members
            .iter_mut()
            .filter(|(_, member)| member.waited.is_some() || member.is_away)
            .collect();
        if waited.is_empty() {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        for (id, member) in waited {
            (member.waited, member.is_away) = (None, false);
            tx.put(&keyspace::replica_member(id), &member.encode())?;
        }
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Whether no member has a number of a replica: every member has said so since this database was opened.
    pub(super) fn nobody_has(&self, replica: ReplicaNo, number: u64) -> bool {
        let members = self.shared().replication.members.lock();
        members
            .values()
            .filter(|member| !member.is_evicted)
            .all(|member| {
                let reported = member.reported.as_ref();
                reported.is_some_and(|reported| !reported.saw(replica, number))
            })
    }

    /// The greatest number of a replica that any member has reported.
    pub(super) fn reported_upto(&self, replica: ReplicaNo) -> u64 {
        let members = self.shared().replication.members.lock();
        let reported = members
            .values()
            .filter_map(|member| member.reported.as_ref());
        reported
            .map(|reported| reported.upto(replica))
            .max()
            .unwrap_or(0)
    }

    /// The known vectors of all members.
    pub(super) fn members_heard(&self) -> Vec<([u8; 16], Vector)> {
        let members = self.shared().replication.members.lock();
        let heard = members.iter().filter(|(_, member)| !member.is_evicted);
        heard
            .map(|(id, member)| (*id, member.acked.clone()))
            .collect()
    }

    /// The retention time of transactions for a member that does not acknowledge them, in ms; 0 for ever.
    pub fn log_kept_ms(&self) -> u64 {
        self.shared().replication.kept_ms.load(Ordering::Relaxed)
    }

    /// Sets the retention time of transactions for a member that does not acknowledge them, in ms; 0 for ever. A member
    /// that stays away longer comes back by a snapshot; what it wrote is not lost.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn keep_log(&self, kept_ms: u64) -> Result<(), DataError> {
        let mut value = Vec::new();
        push_id(&mut value, kept_ms);
        let mut tx = self.engine().begin()?;
        tx.put(keyspace::LOG_KEPT, &value)?;
        tx.commit(Durability::Synced)?;
        let replication = &self.shared().replication;
        replication.kept_ms.store(kept_ms, Ordering::Relaxed);
        Ok(())
    }

    /// Trims the log below what all members that are not away have seen, and lets counters be folded below what all
    /// have seen.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn cut_log(&self) -> Result<(), DataError> {
        let _applying = self.shared().replication.applying.lock();
        let snapshot = self.engine().snapshot()?;
        let here = self.shippable(&*snapshot)?;
        let (mut cut, mut stable) = (here.clone(), here.clone());
        let (now_ms, kept_ms) = (self.options().clock.now_ms(), self.log_kept_ms());
        let mut judged = Vec::new();
        {
            let mut members = self.shared().replication.members.lock();
            let waited: Vec<_> = members
                .iter_mut()
                .filter(|(_, member)| !member.is_evicted)
                .collect();
            if waited.is_empty() {
                return Ok(()); // no member has reported its vector yet
            }
            for (id, member) in waited {
                let own = &self.shared().own_replica;
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
                if member.judge(&here, now_ms, kept_ms) {
                    judged.push((keyspace::replica_member(id), member.encode()));
                }
                if !member.is_away {
                    cut = intersect(&cut, &member.acked);
                }
            }
        }
        if !judged.is_empty() {
            let mut tx = self.engine().begin()?;
            for (key, member) in &judged {
                tx.put(key, member)?;
            }
            tx.commit(Durability::Buffered)?;
        }
        self.shared().replication.set_stable(stable);
        let read: &dyn Read = &*snapshot;
        for (replica, upto) in cut.iter() {
            if self.floor(read, replica)? >= upto {
                continue;
            }
            let prefix = keyspace::log_of(replica.0);
            let end = keyspace::log_entry(replica.0, upto + 1);
            loop {
                let mut keys = Vec::new();
                let limit = isomer_storage::PageLimit {
                    keys: CUT_AT_ONCE,
                    bytes: 4 << 20,
                };
                let mut page = isomer_storage::Page::new();
                let mut tx = self.engine().begin()?;
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
                self.put_floor(&mut *tx, replica, upto)?;
                tx.commit(Durability::Buffered)?;
                if page.next().is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl DataStore {
    /// Peers by name, with their stored settings.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn replica_peers(&self) -> Result<Vec<(String, Vec<u8>)>, DataError> {
        let snapshot = self.engine().snapshot()?;
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
    pub fn put_replica_peer(&self, name: &str, kept: &[u8]) -> Result<(), DataError> {
        crate::store::check_name("peer", name)?;
        let mut tx = self.engine().begin()?;
        tx.put(&keyspace::peer(name), kept)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Removes a peer; returns whether it existed.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn remove_replica_peer(&self, name: &str) -> Result<bool, DataError> {
        let mut tx = self.engine().begin()?;
        let was = tx.get(&keyspace::peer(name))?.is_some();
        tx.delete(&keyspace::peer(name))?;
        tx.commit(Durability::Synced)?;
        Ok(was)
    }
}
