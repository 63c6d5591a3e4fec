//! Members: all replicas that this one has heard of and what each has seen; and peers, whom it exchanges with, kept for
//! `isomer_sync`.
//!
//! A greeting says what a replica has seen and what it has heard of all others, so that everybody learns of everybody. The log
//! is cut below what all members have seen. Increments of counters are added up below that too, once everything that the
//! members had written when they said so is here: then no removal can come any more that knows a part of them.
//!
//! ```text
//! member  u8 1 for one that was evicted, u64 time in ms when it was heard of, vector
//! ```

use std::collections::BTreeMap;

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
}

pub(crate) type Members = BTreeMap<[u8; 16], Member>;

impl Member {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_evicted)];
        push_id(&mut bytes, self.heard_ms);
        self.acked.push_local(&mut bytes);
        bytes
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        Some(Self {
            is_evicted: take_byte(bytes)? == 1,
            heard_ms: take_id(bytes)?,
            acked: Vector::take_local(bytes)?,
            usable: Vector::new(),
            told: None,
        })
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
        if self.replica().is_some_and(|own| own.id == name.id) {
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

    /// What each member has seen, as far as it is known here.
    pub(super) fn members_heard(&self) -> Vec<([u8; 16], Vector)> {
        let members = self.shared().replication.members.lock();
        let heard = members.iter().filter(|(_, member)| !member.is_evicted);
        heard
            .map(|(id, member)| (*id, member.acked.clone()))
            .collect()
    }

    /// Cuts the log below what all members have seen, and lets counters be added up below it.
    ///
    /// # Errors
    /// Those of a commit.
    pub fn cut_log(&self) -> Result<(), DataError> {
        let _applying = self.shared().replication.applying.lock();
        let snapshot = self.engine().snapshot()?;
        let here = self.shippable(&*snapshot)?;
        let (mut cut, mut stable) = (here.clone(), here.clone());
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
                cut = meet(&cut, &member.acked);
            }
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
