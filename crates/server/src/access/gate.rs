//! What one user may have at work at once: requests, and the memory of their queries, of what these have found and of what open
//! transactions have written; and how many results between pieces, which work on nothing and hold little.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{Result, ServerError};

/// All users that have something at work.
#[derive(Debug)]
pub struct Gates {
    most_requests: usize,
    most_bytes: usize,
    query_bytes: usize,
    users: Mutex<FxHashMap<Arc<str>, Held>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Held {
    requests: usize,
    bytes: usize,
    /// What of that queries may hold, whether they do or not.
    shares: usize,
    /// What of that transactions have written, and may write now.
    written: usize,
    results: usize,
}

impl Held {
    fn is_nothing(self) -> bool {
        self.requests == 0 && self.bytes == 0 && self.results == 0
    }
}

/// A request of one user; it counts until this is dropped, as a request only while it does not rest.
#[derive(Debug)]
pub struct Entry {
    gates: Arc<Gates>,
    user: Arc<str>,
    rests: bool,
    is_result: bool,
    /// What its query may hold, and what of that counts now.
    share: usize,
    counted: usize,
    /// What was found and is kept.
    kept: usize,
    body: Arc<Body>,
}

/// What was sent with a request of one user, and was made of it: it counts until this is dropped.
#[derive(Debug)]
pub struct Body {
    gates: Arc<Gates>,
    user: Arc<str>,
    bytes: AtomicUsize,
}

/// Every query gets so much: all of a user's queries together hold at most this for each request beyond their limit.
const LEAST_BYTES: usize = 1 << 20;
/// For each request that a user may have at work, so many results may be open.
const RESULTS_A_REQUEST: usize = 16;

impl Gates {
    /// So many requests and bytes for each user, so many bytes for each query.
    pub fn new(most_requests: usize, most_bytes: usize, query_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            most_requests,
            most_bytes,
            query_bytes,
            users: Mutex::default(),
        })
    }

    /// Lets a request of `user` in, or refuses it.
    pub fn enter(self: &Arc<Self>, user: &Arc<str>) -> Result<Entry> {
        let mut users = self.users.lock();
        let held = users.entry(user.clone()).or_default();
        self.count_request(user, held)?;
        drop(users);
        Ok(Entry {
            gates: self.clone(),
            user: user.clone(),
            rests: false,
            is_result: false,
            share: 0,
            counted: 0,
            kept: 0,
            body: Arc::new(Body {
                gates: self.clone(),
                user: user.clone(),
                bytes: AtomicUsize::new(0),
            }),
        })
    }

    /// Counts what a transaction of `user` writes that is open between requests.
    pub fn written(self: &Arc<Self>, user: &Arc<str>) -> Written {
        Written {
            gates: self.clone(),
            user: user.clone(),
            bytes: 0,
        }
    }

    fn count_request(&self, user: &str, held: &mut Held) -> Result<()> {
        if held.requests >= self.most_requests {
            return Err(ServerError::TooMany {
                message: format!(
                    "`{user}` has {} requests at work, the limit is {}: wait for one of them",
                    held.requests, self.most_requests
                ),
                retry_after_s: 1,
            });
        }
        held.requests += 1;
        Ok(())
    }

    /// How many requests are at work.
    pub fn at_work(&self) -> usize {
        self.users.lock().values().map(|held| held.requests).sum()
    }
}

impl Entry {
    /// What a query of this request may hold: the limit of a query, but no more than a quarter of what the user's others
    /// leave of his, so that many at once get less each and none gets nothing.
    pub fn query_bytes(&mut self) -> usize {
        if self.share == 0 {
            let mut users = self.gates.users.lock();
            let held = users.entry(self.user.clone()).or_default();
            let free = self.gates.most_bytes.saturating_sub(held.bytes);
            self.share = self.gates.query_bytes.min(LEAST_BYTES.max(free / 4));
            self.counted = self.share;
            held.bytes += self.share;
            held.shares += self.share;
        }
        self.share
    }

    /// Its result is open from now on, unless the user has too many.
    pub fn open_result(&mut self) -> Result<()> {
        let most = self.gates.most_requests.saturating_mul(RESULTS_A_REQUEST);
        let mut users = self.gates.users.lock();
        let held = users.entry(self.user.clone()).or_default();
        if !self.is_result {
            if held.results >= most {
                return Err(ServerError::TooMany {
                    message: format!(
                        "`{}` has {} results open, the limit is {most}: read or discard some",
                        self.user, held.results
                    ),
                    retry_after_s: 1,
                });
            }
            held.results += 1;
            self.is_result = true;
        }
        Ok(())
    }

    /// Nothing is at work for it until it goes on: of its query so many bytes count, what that holds meanwhile.
    pub fn rest(&mut self, query_holds: usize) {
        if self.rests {
            return;
        }
        let mut users = self.gates.users.lock();
        if let Some(held) = users.get_mut(&self.user) {
            let counted = query_holds.min(self.counted);
            held.requests -= 1;
            held.bytes -= self.counted - counted;
            held.shares -= self.counted - counted;
            self.counted = counted;
            self.rests = true;
            if held.is_nothing() {
                users.remove(&self.user);
            }
        }
    }

    /// It is at work again, unless the user has too much at work.
    pub fn go_on(&mut self) -> Result<()> {
        if !self.rests {
            return Ok(());
        }
        let mut users = self.gates.users.lock();
        let held = users.entry(self.user.clone()).or_default();
        self.gates.count_request(&self.user, held)?;
        held.bytes += self.share - self.counted;
        held.shares += self.share - self.counted;
        self.counted = self.share;
        self.rests = false;
        Ok(())
    }

    /// So many bytes more of what was found are kept.
    pub fn keep(&mut self, bytes: usize) -> Result<()> {
        let mut users = self.gates.users.lock();
        let held = users.entry(self.user.clone()).or_default();
        if held.bytes.saturating_add(bytes) > self.gates.most_bytes {
            return Err(ServerError::TooLarge(format!(
                "what `{}` has at work holds more than {} bytes with the rows that would be kept here: read results before others are asked for (limits.user_memory)",
                self.user, self.gates.most_bytes
            )));
        }
        held.bytes += bytes;
        self.kept += bytes;
        Ok(())
    }

    /// What was sent with it.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Bytes of what is kept.
    pub fn kept(&self) -> usize {
        self.kept
    }
}

impl Body {
    /// So many bytes more, unless its user has too much at work. What queries might hold stands in nobody's way: they get less where
    /// others have much.
    pub fn add(&self, bytes: usize) -> Result<()> {
        let most = self.gates.most_bytes;
        let mut users = self.gates.users.lock();
        let held = users.entry(self.user.clone()).or_default();
        if (held.bytes - held.shares).saturating_add(bytes) > most {
            let message = format!(
                "what `{}` has at work would hold more than {most} bytes with this body (limits.user_memory)",
                self.user
            );
            let own = self.bytes.load(Ordering::Relaxed);
            return Err(match own.saturating_add(bytes) > most {
                true => ServerError::TooLarge(format!("{message}: send less at once")),
                false => ServerError::TooMany {
                    message: format!("{message}: wait for another request"),
                    retry_after_s: 1,
                },
            });
        }
        held.bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut users = self.gates.users.lock();
        if let Some(held) = users.get_mut(&self.user) {
            held.bytes -= *self.bytes.get_mut();
            if held.is_nothing() {
                users.remove(&self.user);
            }
        }
    }
}

/// What an open transaction has written: it counts until this is dropped.
#[derive(Debug)]
pub struct Written {
    gates: Arc<Gates>,
    user: Arc<str>,
    bytes: usize,
}

impl Written {
    /// How many bytes it may have written after its next statement: half of what the user's others leave of his beyond what it has,
    /// so that several at once find room. All of that counts until it is told how many there are.
    pub fn most(&mut self) -> usize {
        let written = {
            let users = self.gates.users.lock();
            users.get(&self.user).map_or(0, |held| held.written)
        };
        let free = self.gates.most_bytes.saturating_sub(written);
        self.set((self.bytes + free / 2).max(LEAST_BYTES));
        self.bytes
    }

    /// It has written so many bytes.
    pub fn set(&mut self, bytes: usize) {
        let mut users = self.gates.users.lock();
        let held = users.entry(self.user.clone()).or_default();
        held.bytes = held.bytes - self.bytes + bytes;
        held.written = held.written - self.bytes + bytes;
        self.bytes = bytes;
        if held.is_nothing() {
            users.remove(&self.user);
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut users = self.gates.users.lock();
        if let Some(held) = users.get_mut(&self.user) {
            held.requests -= usize::from(!self.rests);
            held.results -= usize::from(self.is_result);
            held.bytes -= self.counted + self.kept;
            held.shares -= self.counted;
            if held.is_nothing() {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_rests_is_in_nobodys_way() {
        let gates = Gates::new(1, 100 << 20, 100 << 20);
        let ada: Arc<str> = "ada".into();
        let mut resting: Vec<Entry> = (0..RESULTS_A_REQUEST)
            .map(|_| {
                let mut entry = gates.enter(&ada).unwrap();
                entry.open_result().unwrap();
                assert!(
                    entry.query_bytes() > 20 << 20,
                    "those that rest have given it back"
                );
                entry.rest(1_000);
                entry.rest(1_000);
                entry
            })
            .collect();
        assert_eq!(gates.at_work(), 0);
        assert_eq!(gates.users.lock()[&ada].bytes, 1_000 * RESULTS_A_REQUEST);
        let mut one_more = gates.enter(&ada).unwrap();
        assert!(one_more.open_result().is_err());
        assert!(resting[0].go_on().is_err(), "one is at work");
        drop(one_more);
        resting[0].go_on().unwrap();
        resting[0].go_on().unwrap();
        assert_eq!(gates.at_work(), 1);
        resting[0].keep(60 << 20).unwrap();
        assert!(resting[0].keep(60 << 20).is_err());
        assert_eq!(resting[0].kept(), 60 << 20);
        resting.clear();
        assert!(gates.users.lock().is_empty());
    }

    #[test]
    fn what_queries_may_hold_leaves_bodies_their_room() {
        let gates = Gates::new(64, 1 << 30, 256 << 20);
        let ada: Arc<str> = "ada".into();
        let mut entries = Vec::new();
        for _ in 0..64 {
            let mut entry = gates.enter(&ada).unwrap();
            entry.body().add(200).unwrap();
            assert!(entry.query_bytes() >= LEAST_BYTES);
            entries.push(entry);
        }
        entries[0].rest(1_000);
        entries[0].go_on().unwrap();
        drop(entries);
        assert!(gates.users.lock().is_empty());
    }

    #[test]
    fn bodies_count_until_nobody_has_them() {
        let gates = Gates::new(2, 1_000, 100);
        let ada: Arc<str> = "ada".into();
        let entry = gates.enter(&ada).unwrap();
        let body = entry.body().clone();
        body.add(600).unwrap();
        let other = gates.enter(&ada).unwrap();
        let error = other.body().add(600).unwrap_err();
        assert!(matches!(error, ServerError::TooMany { .. }), "{error}");
        let error = body.add(600).unwrap_err();
        assert!(matches!(error, ServerError::TooLarge(_)), "{error}");
        drop(entry);
        assert!(other.body().add(600).is_err(), "somebody still has it");
        drop(body);
        other.body().add(600).unwrap();
        drop(other);
        assert!(gates.users.lock().is_empty());
    }

    #[test]
    fn what_transactions_have_written_is_one_users_together() {
        let gates = Gates::new(20, 100 << 20, 100 << 20);
        let ada: Arc<str> = "ada".into();
        let (mut one, mut other) = (gates.written(&ada), gates.written(&ada));
        assert_eq!((one.most(), other.most()), (50 << 20, 25 << 20));
        one.set(90 << 20);
        other.set(0);
        assert_eq!(other.most(), 5 << 20);
        other.set(10 << 20);
        let mut third = gates.written(&ada);
        assert_eq!(third.most(), LEAST_BYTES, "nobody gets nothing");
        assert_eq!(one.most(), 90 << 20);
        let mut entry = gates.enter(&ada).unwrap();
        assert_eq!(entry.query_bytes(), LEAST_BYTES, "queries leave them room");
        drop((one, other, third, entry));
        assert!(gates.users.lock().is_empty());
    }

    #[test]
    fn one_user_cannot_take_what_is_for_all() {
        let gates = Gates::new(20, 1 << 30, 256 << 20);
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let mut all: Vec<_> = (0..20).map(|_| gates.enter(&ada).unwrap()).collect();
        assert!(matches!(
            gates.enter(&ada),
            Err(ServerError::TooMany { .. })
        ));
        assert!(gates.enter(&bob).is_ok());
        let bytes: Vec<usize> = all.iter_mut().map(Entry::query_bytes).collect();
        assert_eq!(bytes[0], 256 << 20);
        assert!(bytes.is_sorted_by(|one, two| one >= two) && bytes[19] >= LEAST_BYTES);
        assert!(bytes.iter().sum::<usize>() <= (1 << 30) + 20 * LEAST_BYTES);
        assert_eq!(all[0].query_bytes(), 256 << 20, "asked twice, given once");
        all.clear();
        assert_eq!(gates.enter(&ada).unwrap().query_bytes(), 256 << 20);
        assert_eq!(gates.at_work(), 0);
        assert!(gates.users.lock().is_empty());
    }
}
