//! Members: all replicas that this one has heard of and what each has seen; and peers, whom it exchanges with, kept for
//! `isomer_sync`.
//!
//! A greeting says what a replica has seen and what it has heard of all others, so that everybody learns of everybody. The log
//! is cut below what all members have seen. Increments of counters are added up below that too, once everything that the
//! members had written when they said so is here: then no removal can come any more that knows a part of them.
//!
//! A member that has not acknowledged for longer than transactions are kept is *away*: the log is cut without it, and it comes back
//! by a snapshot. What it wrote in between is in its own log, and comes as it is, under its own name: nothing that has to do with
//! dots is given up for its sake, and increments of counters stay apart until it has seen them. So its removals are as exact as
//! anybody's. Only one that was evicted, by hand and for good, is waited for no more with these, either.
//!
//! ```text
//! member  u8 1 evicted + 2 away + 8 waited for, id time in ms when it was heard of, vector; where it is waited for: id time in ms
//!         when that was looked at last, id ms for which it has been, vector of what it has to acknowledge
//! ```
//! (4, of an earlier layout: id time in ms since when, vector.) No exchange adds more than a part of that time, however far the clock
//! went: one that jumps, or that was wrong until it was set, makes nobody away.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use isomer_storage::{Durability, Read};

use super::codec::{malformed, take_byte};
use crate::{
    DataError, Store,
    convergent::{ReplicaId, ReplicaNo, Vector},
    keyspace::{self, push_id, take_id},
    read::each_pair,
};

/// Log entries that are cut in one transaction.
const CUT_AT_ONCE: usize = 10_000;

/// That somebody is waited for is noted on disk each time that such a part of the time for which transactions are kept is over.
const NOTED_PARTS: u64 = 64;
/// No exchange adds more than such a part of it to what somebody was waited for.
pub(super) const MOST_AT_ONCE: u64 = 16;
/// How long transactions are kept for a member that does not acknowledge them, where nobody says: 90 days.
pub(super) const KEPT_MS: u64 = 90 * 24 * 60 * 60 * 1000;

/// A replica that was heard of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Member {
    /// What it said last that it has seen.
    pub(super) acked: Vector,
    /// The same, of a time from which everything that it had written is here.
    usable: Vector,
    heard_ms: u64,
    is_evicted: bool,
    /// What it said itself since this database was opened: of after a restore, that is.
    told: Option<Vector>,
    waited: Option<Waited>,
    /// Whether the log is cut without it.
    is_away: bool,
}

/// Something that a member lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waited {
    /// When it was looked at last, and what stands on disk of that.
    looked_ms: u64,
    noted_ms: Option<u64>,
    /// For how long it has been waited for.
    for_ms: u64,
    /// What was here when that began.
    lacks: Vector,
}

/// A replica that was heard of, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its id.
    pub id: [u8; 16],
    /// When it was heard of, in ms since 1970.
    pub heard_ms: u64,
    /// How many transactions of those that are here it had not seen then.
    pub lacks: u64,
    /// Whether nobody waits for it any more.
    pub is_evicted: bool,
    /// Whether it has not acknowledged for so long that the log is not kept for it: it comes back by a snapshot.
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

    /// Judges whether it is away, by what is here, the time and how long transactions are kept (0: for ever). Answers whether that is
    /// to be written down.
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
            // Not at each exchange: what is not noted yet is waited for a little longer after a restart.
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

/// What both have seen at least; of exceptions nothing above the first.
fn meet(one: &Vector, other: &Vector) -> Vector {
    let mut met = Vector::new();
    for (replica, _) in one.iter() {
        let upto = one.reach(replica).min(other.reach(replica));
        met.set(replica, upto, Vec::new());
    }
    met
}

impl Store {
    /// Notes what a member said that it has seen.
    ///
    /// # Errors
    /// [`DataError::Denied`] for one that was evicted, where it speaks itself.
    pub(super) fn note_member(
        &self,
        name: ReplicaId,
        seen: &Vector,
        is_itself: bool,
    ) -> Result<(), DataError> {
        // Others tell of it, and nobody would ever hear it answer.
        if self.replica_id() == Some(name.id) {
            return Ok(());
        }
        let now = self.options().clock.now_ms();
        let mut members = self.shared().replication.members.lock();
        let is_new = !members.contains_key(&name.id);
        let member = members.entry(name.id).or_default();
        if is_itself && member.is_evicted {
            return Err(DataError::Denied(
                "this replica was evicted here: others have stopped to wait for it; export what only it has, make it anew and add it again".into(),
            ));
        }
        if is_itself {
            member.told = Some(seen.clone());
        }
        if seen.includes(&member.acked) {
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

    /// Waits no longer for a member: the log is cut although it may lack what stands there, and it is not let in any more. Answers
    /// whether there was one of that id.
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

    /// Begins to wait for everybody anew: what stands in a backup is of another time.
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

    /// Whether nobody has a number of a replica: every member has said so since this database was opened.
    pub(super) fn nobody_has(&self, replica: ReplicaNo, number: u64) -> bool {
        let members = self.shared().replication.members.lock();
        members
            .values()
            .filter(|member| !member.is_evicted)
            .all(|member| {
                let told = member.told.as_ref();
                told.is_some_and(|told| !told.saw(replica, number))
            })
    }

    /// The greatest number of a replica of which any member has said that it has it.
    pub(super) fn told_upto(&self, replica: ReplicaNo) -> u64 {
        let members = self.shared().replication.members.lock();
        let told = members.values().filter_map(|member| member.told.as_ref());
        told.map(|told| told.upto(replica)).max().unwrap_or(0)
    }

    /// What each member has seen, as far as it is known here.
    pub(super) fn members_heard(&self) -> Vec<([u8; 16], Vector)> {
        let members = self.shared().replication.members.lock();
        let heard = members.iter().filter(|(_, member)| !member.is_evicted);
        heard
            .map(|(id, member)| (*id, member.acked.clone()))
            .collect()
    }

    /// How long transactions are kept for a member that does not acknowledge them, in ms; 0 for ever.
    pub fn log_kept_ms(&self) -> u64 {
        self.shared().replication.kept_ms.load(Ordering::Relaxed)
    }

    /// Says how long transactions are kept for a member that does not acknowledge them, in ms; 0 for ever. One that stays away longer
    /// comes back by a snapshot; what it wrote is not lost.
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

    /// Cuts the log below what all members have seen that are not away, and lets counters be added up below what all have.
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
                return Ok(()); // nobody has said yet what it lacks
            }
            for (id, member) in waited {
                let own = &self.shared().own_replica;
                let is_here = member.acked.iter().all(|(replica, upto)| {
                    let is_its = own.name(replica).is_some_and(|name| name.id == *id);
                    !is_its || here.reach(replica) >= upto
                });
                if is_here {
                    member.usable = member.acked.clone();
                }
                stable = meet(&stable, &member.usable);
                if member.judge(&here, now_ms, kept_ms) {
                    judged.push((keyspace::replica_member(id), member.encode()));
                }
                if !member.is_away {
                    cut = meet(&cut, &member.acked);
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

impl Store {
    /// Peers by name, with what is kept of them.
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

    /// Keeps something of a peer.
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

    /// Forgets a peer; answers whether it was there.
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
