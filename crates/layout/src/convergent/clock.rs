//! Causal time: replicas, dots, and vectors that say which transactions a state has seen.
//!
//! A replica numbers its transactions 1, 2, 3, … as they make their first convergent operation. A *dot* identifies one
//! operation: replica, transaction, index in it. No dot is used twice. A *vector* says of every replica up to which
//! number its transactions are in a state; transactions of one replica run concurrently, so that a lower number may
//! still be under way while a higher one is visible: those are listed as exceptions. A number that was given up counts
//! as seen.
//!
//! A dot that a vector covers but that is not stored has been removed: there is no other record of removals.

use crate::keyspace::{push_id, take_id};

/// Above any count of transactions that a replica can make: a greater number is damaged or forged.
pub const MAX_NUMBER: u64 = 1 << 48;

/// A replica and its epoch: a new epoch begins where numbers might otherwise be used twice, as after a
/// restore. Closed: nothing else distinguishes replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaId {
    /// 128 random bits.
    pub id: [u8; 16],
    /// Counts from 0.
    pub epoch: u32,
}

impl ReplicaId {
    /// Bytes of its written form: 16 of the id, and u32 BE epoch.
    pub const BYTES: usize = 20;

    /// Its written form.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.id);
        bytes[16..].copy_from_slice(&self.epoch.to_be_bytes());
        bytes
    }

    /// Reads its written form; nothing if the length is another one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, epoch) = bytes.split_first_chunk::<16>()?;
        Some(Self {
            id: *id,
            epoch: u32::from_be_bytes(epoch.try_into().ok()?),
        })
    }
}

/// The small number by which one database knows a [`ReplicaId`]. Means nothing in another database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplicaNo(pub u32);

/// One operation: replica, number of its transaction, place in the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dot {
    /// The replica that made it.
    pub replica: ReplicaNo,
    /// The number of the transaction.
    pub number: u64,
    /// The index of the operation in it, from 0.
    pub op: u32,
}

impl Dot {
    /// Appends three ordered ids: 3 bytes and more.
    #[doc(hidden)]
    pub fn push(self, out: &mut Vec<u8>) {
        push_id(out, self.replica.0.into());
        push_id(out, self.number);
        push_id(out, self.op.into());
    }

    /// Decodes a dot from the front of `bytes`.
    #[doc(hidden)]
    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            replica: ReplicaNo(u32::try_from(take_id(bytes)?).ok()?),
            number: take_id(bytes)?,
            op: u32::try_from(take_id(bytes)?).ok()?,
        })
    }

    /// The dot encoded in all of `bytes`.
    pub(crate) fn sole(mut bytes: &[u8]) -> Option<Self> {
        let dot = Self::take(&mut bytes)?;
        bytes.is_empty().then_some(dot)
    }
}

/// What a state has seen of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reach {
    replica: ReplicaNo,
    /// Seen up to and including this number …
    upto: u64,
    /// … except these; ascending, all below `upto`.
    except: Vec<u64>,
}

/// Which transactions a state has seen. Small: an entry per replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vector(Vec<Reach>);

impl Vector {
    /// Nothing was seen.
    pub fn new() -> Self {
        Self::default()
    }

    fn of(&self, replica: ReplicaNo) -> Option<&Reach> {
        let at = self.0.binary_search_by_key(&replica, |reach| reach.replica);
        at.ok().map(|at| &self.0[at])
    }

    /// Whether a transaction was seen.
    pub fn saw(&self, replica: ReplicaNo, number: u64) -> bool {
        self.of(replica).is_some_and(|reach| {
            number <= reach.upto && reach.except.binary_search(&number).is_err()
        })
    }

    /// Whether an operation was seen.
    pub fn covers(&self, dot: Dot) -> bool {
        self.saw(dot.replica, dot.number)
    }

    /// The greatest number seen of a replica; 0 for none.
    pub fn upto(&self, replica: ReplicaNo) -> u64 {
        self.of(replica).map_or(0, |reach| reach.upto)
    }

    /// The number up to which everything was seen of a replica, without an exception.
    #[doc(hidden)]
    pub fn reach(&self, replica: ReplicaNo) -> u64 {
        self.of(replica).map_or(0, |reach| {
            let first = reach.except.first();
            first.map_or(reach.upto, |first| first.saturating_sub(1))
        })
    }

    /// The numbers of a replica that were not seen, below the greatest number that was.
    #[doc(hidden)]
    pub fn exceptions(&self, replica: ReplicaNo) -> &[u64] {
        self.of(replica).map_or(&[], |reach| &reach.except)
    }

    /// Replicas of which anything was seen, with the greatest number seen.
    pub fn iter(&self) -> impl Iterator<Item = (ReplicaNo, u64)> {
        self.0.iter().map(|reach| (reach.replica, reach.upto))
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets what was seen of a replica. `except` may be in any order; an exception at the end shortens the reach.
    #[doc(hidden)]
    pub fn set(&mut self, replica: ReplicaNo, mut upto: u64, mut except: Vec<u64>) {
        except.retain(|&number| number > 0); // numbers begin with 1
        except.sort_unstable();
        except.dedup();
        while except.last().is_some_and(|&last| last >= upto) {
            if except.pop() == Some(upto) {
                upto -= 1;
            }
        }
        let at = self.0.binary_search_by_key(&replica, |reach| reach.replica);
        match at {
            Ok(at) if upto == 0 => drop(self.0.remove(at)),
            Err(_) if upto == 0 => {}
            Ok(at) => (self.0[at].upto, self.0[at].except) = (upto, except),
            Err(at) => self.0.insert(
                at,
                Reach {
                    replica,
                    upto,
                    except,
                },
            ),
        }
    }

    /// Everything of `replica` up to and including `number` was seen.
    pub fn advance(&mut self, replica: ReplicaNo, number: u64) {
        let (upto, mut except) = match self.of(replica) {
            Some(reach) => (reach.upto, reach.except.clone()),
            None => (0, Vec::new()),
        };
        except.retain(|&lacking| lacking > number);
        self.set(replica, upto.max(number), except);
    }

    /// Adds everything that `other` has seen.
    pub fn join(&mut self, other: &Self) {
        for theirs in &other.0 {
            let (upto, except) = match self.of(theirs.replica) {
                None => (theirs.upto, theirs.except.clone()),
                Some(own) => {
                    let lacking = own.except.iter().chain(&theirs.except).copied();
                    let neither = |&number: &u64| {
                        !self.saw(theirs.replica, number) && !other.saw(theirs.replica, number)
                    };
                    (
                        own.upto.max(theirs.upto),
                        lacking.filter(neither).collect::<Vec<_>>(),
                    )
                }
            };
            self.set(theirs.replica, upto, except);
        }
    }

    /// Whether everything that `other` has seen was seen.
    pub fn includes(&self, other: &Self) -> bool {
        other.0.iter().all(|theirs| {
            let Some(own) = self.of(theirs.replica) else {
                return false;
            };
            let lacking = own
                .except
                .iter()
                .filter(|&&number| number <= theirs.upto)
                .all(|number| theirs.except.binary_search(number).is_ok());
            own.upto >= theirs.upto && lacking
        })
    }

    /// Appends an id for the number of replicas, then for each: replica as `spell` encodes it, id greatest number, id
    /// number of exceptions, each as an id.
    fn push(&self, out: &mut Vec<u8>, mut spell: impl FnMut(ReplicaNo, &mut Vec<u8>)) {
        push_id(out, self.0.len() as u64);
        for reach in &self.0 {
            spell(reach.replica, out);
            push_id(out, reach.upto);
            push_id(out, reach.except.len() as u64);
            reach.except.iter().for_each(|&number| push_id(out, number));
        }
    }

    fn take(
        bytes: &mut &[u8],
        mut read: impl FnMut(&mut &[u8]) -> Option<ReplicaNo>,
    ) -> Option<Self> {
        let mut vector = Self::new();
        for _ in 0..take_id(bytes)? {
            let replica = read(bytes)?;
            let upto = take_id(bytes)?;
            let mut except = Vec::new();
            for _ in 0..take_id(bytes)? {
                except.push(take_id(bytes)?);
            }
            // The number 0 and numbers above the limit are invalid.
            if vector.of(replica).is_some() || upto > MAX_NUMBER || except.contains(&0) {
                return None;
            }
            vector.set(replica, upto, except);
        }
        Some(vector)
    }

    /// With other numbers of the replicas.
    #[doc(hidden)]
    pub fn mapped<E>(
        &self,
        mut number: impl FnMut(ReplicaNo) -> Result<ReplicaNo, E>,
    ) -> Result<Self, E> {
        let mut mapped = Self::new();
        for reach in &self.0 {
            mapped.set(number(reach.replica)?, reach.upto, reach.except.clone());
        }
        Ok(mapped)
    }

    /// Appends it with this database's numbers of the replicas.
    #[doc(hidden)]
    pub fn push_local(&self, out: &mut Vec<u8>) {
        self.push(out, |replica, out| push_id(out, replica.0.into()));
    }

    /// Decodes what [`Vector::push_local`] wrote from the front of `bytes`.
    #[doc(hidden)]
    pub fn take_local(bytes: &mut &[u8]) -> Option<Self> {
        Self::take(bytes, |bytes| {
            Some(ReplicaNo(u32::try_from(take_id(bytes)?).ok()?))
        })
    }

    /// Appends it with the names of the replicas, for other databases and for clients.
    pub fn push_portable(&self, out: &mut Vec<u8>, name: impl Fn(ReplicaNo) -> Option<ReplicaId>) {
        let known = Self(
            self.0
                .iter()
                .filter(|reach| name(reach.replica).is_some())
                .cloned()
                .collect(),
        );
        known.push(out, |replica, out| {
            if let Some(id) = name(replica) {
                out.extend_from_slice(&id.to_bytes());
            }
        });
    }

    /// Reads what [`Vector::push_portable`] wrote; `number` maps the replicas to their local numbers.
    pub fn take_portable(
        bytes: &mut &[u8],
        number: impl Fn(ReplicaId) -> Option<ReplicaNo>,
    ) -> Option<Self> {
        Self::take(bytes, |bytes| {
            let (id, rest) = bytes.split_at_checked(ReplicaId::BYTES)?;
            *bytes = rest;
            number(ReplicaId::from_bytes(id)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn vectors() -> impl Strategy<Value = Vector> {
        let reach = (0..9_u64, prop::collection::vec(1..9_u64, 0..4));
        prop::collection::vec(reach, 0..3).prop_map(|reaches| {
            let mut vector = Vector::new();
            for (at, (upto, except)) in reaches.into_iter().enumerate() {
                vector.set(ReplicaNo(at as u32), upto, except);
            }
            vector
        })
    }

    fn seen(vector: &Vector) -> BTreeSet<(u32, u64)> {
        (0..3)
            .flat_map(|replica| (1..9).map(move |number| (replica, number)))
            .filter(|&(replica, number)| vector.saw(ReplicaNo(replica), number))
            .collect()
    }

    proptest! {
        /// A vector is a set of transactions, whatever it looks like inside.
        #[test]
        fn vectors_are_sets(a in vectors(), b in vectors(), number in 1..9_u64) {
            let mut joined = a.clone();
            joined.join(&b);
            let union: BTreeSet<_> = seen(&a).union(&seen(&b)).copied().collect();
            prop_assert_eq!(seen(&joined), union);
            prop_assert_eq!(a.includes(&b), seen(&b).is_subset(&seen(&a)));
            let mut other = b.clone();
            other.join(&a);
            prop_assert_eq!(&joined, &other);
            let mut on = a.clone();
            on.advance(ReplicaNo(1), number);
            let mut expected = seen(&a);
            expected.extend((1..=number).map(|number| (1, number)));
            prop_assert_eq!(seen(&on), expected);

            let mut bytes = Vec::new();
            a.push_local(&mut bytes);
            prop_assert_eq!(Vector::take_local(&mut &bytes[..]), Some(a.clone()));
            let name = |no: ReplicaNo| Some(ReplicaId { id: [no.0 as u8; 16], epoch: no.0 });
            bytes.clear();
            a.push_portable(&mut bytes, name);
            let back = Vector::take_portable(&mut &bytes[..], |id| Some(ReplicaNo(id.epoch)));
            prop_assert_eq!(back, Some(a));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Vector::take_local(&mut &bytes[..]);
            let _ = Vector::take_portable(&mut &bytes[..], |id| Some(ReplicaNo(id.epoch)));
            let _ = Dot::sole(&bytes);
        }

        #[test]
        fn dots_sort_as_their_keys(a: (u32, u64, u32), b: (u32, u64, u32)) {
            let dot = |(replica, number, op)| Dot { replica: ReplicaNo(replica), number, op };
            let key = |dot: Dot| { let mut key = Vec::new(); dot.push(&mut key); key };
            prop_assert_eq!(key(dot(a)).cmp(&key(dot(b))), dot(a).cmp(&dot(b)));
            prop_assert_eq!(Dot::sole(&key(dot(a))), Some(dot(a)));
        }
    }
}
