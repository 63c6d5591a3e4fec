//! What one user may have at work at once: requests, and the memory of their queries.

use std::sync::Arc;

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
}

/// A request of one user; it counts until this is dropped.
#[derive(Debug)]
pub struct Entry {
    gates: Arc<Gates>,
    user: Arc<str>,
    bytes: usize,
}

/// Every query gets so much: all of a user's queries together hold at most this for each request beyond their limit.
const LEAST_BYTES: usize = 1 << 20;

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
        drop(users);
        Ok(Entry {
            gates: self.clone(),
            user: user.clone(),
            bytes: 0,
        })
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
        if self.bytes == 0 {
            let mut users = self.gates.users.lock();
            let held = users.entry(self.user.clone()).or_default();
            let free = self.gates.most_bytes.saturating_sub(held.bytes);
            self.bytes = self.gates.query_bytes.min(LEAST_BYTES.max(free / 4));
            held.bytes += self.bytes;
        }
        self.bytes
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut users = self.gates.users.lock();
        if let Some(held) = users.get_mut(&self.user) {
            held.requests -= 1;
            held.bytes -= self.bytes;
            if held.requests == 0 {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
