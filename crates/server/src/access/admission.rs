//! Admission control: limits per user on concurrent requests, on open results, and on the memory of their queries,
//! kept rows, request bodies and open transactions.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{Result, ServerError};

/// All users with requests or memory in use.
#[derive(Debug)]
pub struct AdmissionControl {
    most_requests: usize,
    most_bytes: usize,
    query_bytes: usize,
    users: Mutex<FxHashMap<Arc<str>, Usage>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    requests: usize,
    bytes: usize,
    /// Memory that their queries may use, whether they use it or not.
    shares: usize,
    /// Memory that their transactions have written or may write in the statement that runs.
    written: usize,
    results: usize,
}

impl Usage {
    fn is_zero(self) -> bool {
        self.requests == 0 && self.bytes == 0 && self.results == 0
    }
}

/// An admitted request of one user. It holds its memory until it is dropped, and counts as a request except while it
/// is idle.
#[derive(Debug)]
pub struct Admission {
    control: Arc<AdmissionControl>,
    user: Arc<str>,
    is_idle: bool,
    is_result: bool,
    /// Memory that its query may use, and the part of it that is counted now.
    share: usize,
    counted: usize,
    /// Memory of rows that were produced and are kept.
    kept: usize,
    body: Arc<Body>,
}

/// Memory of a request's body and of what was parsed from it; released when dropped.
#[derive(Debug)]
pub struct Body {
    control: Arc<AdmissionControl>,
    user: Arc<str>,
    bytes: AtomicUsize,
}

/// Minimum for each query. All queries of a user together hold at most this per request beyond their limit.
const MIN_QUERY_BYTES: usize = 1 << 20;
/// Open results that a user may have, per request of the limit on requests.
const RESULTS_A_REQUEST: usize = 16;

impl AdmissionControl {
    /// Limits per user (requests, bytes) and per query (bytes).
    pub fn new(most_requests: usize, most_bytes: usize, query_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            most_requests,
            most_bytes,
            query_bytes,
            users: Mutex::default(),
        })
    }

    /// Admits a request of `user`, or refuses it.
    pub fn admit(self: &Arc<Self>, user: &Arc<str>) -> Result<Admission> {
        let mut users = self.users.lock();
        let usage = users.entry(user.clone()).or_default();
        self.count_request(user, usage)?;
        drop(users);
        Ok(Admission {
            control: self.clone(),
            user: user.clone(),
            is_idle: false,
            is_result: false,
            share: 0,
            counted: 0,
            kept: 0,
            body: Arc::new(Body {
                control: self.clone(),
                user: user.clone(),
                bytes: AtomicUsize::new(0),
            }),
        })
    }

    /// Tracks what a transaction of `user` has written that stays open between requests.
    pub fn written(self: &Arc<Self>, user: &Arc<str>) -> Written {
        Written {
            control: self.clone(),
            user: user.clone(),
            bytes: 0,
        }
    }

    fn count_request(&self, user: &str, usage: &mut Usage) -> Result<()> {
        if usage.requests >= self.most_requests {
            return Err(ServerError::TooMany {
                message: format!(
                    "`{user}` has {} requests in progress, the limit is {}: wait for one of them",
                    usage.requests, self.most_requests
                ),
                retry_after_s: 1,
            });
        }
        usage.requests += 1;
        Ok(())
    }

    /// Number of requests in progress.
    pub fn in_progress(&self) -> usize {
        self.users.lock().values().map(|usage| usage.requests).sum()
    }
}

impl Admission {
    /// Memory limit of this request's query: the query limit, but at most a quarter of what the user's other requests
    /// leave, so that concurrent queries share the rest and each gets some.
    pub fn query_bytes(&mut self) -> usize {
        if self.share == 0 {
            let mut users = self.control.users.lock();
            let usage = users.entry(self.user.clone()).or_default();
            let free = self.control.most_bytes.saturating_sub(usage.bytes);
            self.share = self.control.query_bytes.min(MIN_QUERY_BYTES.max(free / 4));
            self.counted = self.share;
            usage.bytes += self.share;
            usage.shares += self.share;
        }
        self.share
    }

    /// Counts its result as open, unless the user has too many.
    pub fn open_result(&mut self) -> Result<()> {
        let most = self.control.most_requests.saturating_mul(RESULTS_A_REQUEST);
        let mut users = self.control.users.lock();
        let usage = users.entry(self.user.clone()).or_default();
        if !self.is_result {
            if usage.results >= most {
                return Err(ServerError::TooMany {
                    message: format!(
                        "`{}` has {} results open, the limit is {most}: consume or discard some",
                        self.user, usage.results
                    ),
                    retry_after_s: 1,
                });
            }
            usage.results += 1;
            self.is_result = true;
        }
        Ok(())
    }

    /// Stops counting it as a request until [`Admission::resume`]; of its query's memory only `query_holds` bytes
    /// count.
    pub fn pause(&mut self, query_holds: usize) {
        if self.is_idle {
            return;
        }
        let mut users = self.control.users.lock();
        if let Some(usage) = users.get_mut(&self.user) {
            let counted = query_holds.min(self.counted);
            usage.requests -= 1;
            usage.bytes -= self.counted - counted;
            usage.shares -= self.counted - counted;
            self.counted = counted;
            self.is_idle = true;
            if usage.is_zero() {
                users.remove(&self.user);
            }
        }
    }

    /// Counts it as a request again, unless the user has too many.
    pub fn resume(&mut self) -> Result<()> {
        if !self.is_idle {
            return Ok(());
        }
        let mut users = self.control.users.lock();
        let usage = users.entry(self.user.clone()).or_default();
        self.control.count_request(&self.user, usage)?;
        usage.bytes += self.share - self.counted;
        usage.shares += self.share - self.counted;
        self.counted = self.share;
        self.is_idle = false;
        Ok(())
    }

    /// Reserves memory for rows that are kept.
    pub fn keep(&mut self, bytes: usize) -> Result<()> {
        let mut users = self.control.users.lock();
        let usage = users.entry(self.user.clone()).or_default();
        if usage.bytes.saturating_add(bytes) > self.control.most_bytes {
            return Err(ServerError::TooLarge(format!(
                "the requests of `{}` would hold more than {} bytes with the rows that this one keeps: consume results before requesting more (limits.user_memory)",
                self.user, self.control.most_bytes
            )));
        }
        usage.bytes += bytes;
        self.kept += bytes;
        Ok(())
    }

    /// The request's body.
    pub fn body(&self) -> &Arc<Body> {
        &self.body
    }

    /// Bytes of kept rows.
    pub fn kept_bytes(&self) -> usize {
        self.kept
    }
}

impl Body {
    /// Reserves `bytes` for the body, unless its user has too much in use. The potential memory of queries is not
    /// counted here: it shrinks when others need memory.
    pub fn add(&self, bytes: usize) -> Result<()> {
        let most = self.control.most_bytes;
        let mut users = self.control.users.lock();
        let usage = users.entry(self.user.clone()).or_default();
        if (usage.bytes - usage.shares).saturating_add(bytes) > most {
            let message = format!(
                "the requests of `{}` would hold more than {most} bytes with this body (limits.user_memory)",
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
        usage.bytes += bytes;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let mut users = self.control.users.lock();
        if let Some(usage) = users.get_mut(&self.user) {
            usage.bytes -= *self.bytes.get_mut();
            if usage.is_zero() {
                users.remove(&self.user);
            }
        }
    }
}

/// Memory that an open transaction has written; released when dropped.
#[derive(Debug)]
pub struct Written {
    control: Arc<AdmissionControl>,
    user: Arc<str>,
    bytes: usize,
}

impl Written {
    /// Limit on what it may have written after its next statement: half of what the user's other requests leave
    /// beyond what it has, so that several concurrent ones fit. All of that is reserved until [`Written::set`].
    pub fn most(&mut self) -> usize {
        let written = {
            let users = self.control.users.lock();
            users.get(&self.user).map_or(0, |usage| usage.written)
        };
        let free = self.control.most_bytes.saturating_sub(written);
        self.set((self.bytes + free / 2).max(MIN_QUERY_BYTES));
        self.bytes
    }

    /// Sets the bytes that it has written.
    pub fn set(&mut self, bytes: usize) {
        let mut users = self.control.users.lock();
        let usage = users.entry(self.user.clone()).or_default();
        usage.bytes = usage.bytes - self.bytes + bytes;
        usage.written = usage.written - self.bytes + bytes;
        self.bytes = bytes;
        if usage.is_zero() {
            users.remove(&self.user);
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let mut users = self.control.users.lock();
        if let Some(usage) = users.get_mut(&self.user) {
            usage.requests -= usize::from(!self.is_idle);
            usage.results -= usize::from(self.is_result);
            usage.bytes -= self.counted + self.kept;
            usage.shares -= self.counted;
            if usage.is_zero() {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_request_does_not_block_others() {
        let control = AdmissionControl::new(1, 100 << 20, 100 << 20);
        let ada: Arc<str> = "ada".into();
        let mut idle: Vec<Admission> = (0..RESULTS_A_REQUEST)
            .map(|_| {
                let mut entry = control.admit(&ada).unwrap();
                entry.open_result().unwrap();
                assert!(entry.query_bytes() > 20 << 20, "idle requests released it");
                entry.pause(1_000);
                entry.pause(1_000);
                entry
            })
            .collect();
        assert_eq!(control.in_progress(), 0);
        assert_eq!(control.users.lock()[&ada].bytes, 1_000 * RESULTS_A_REQUEST);
        let mut one_more = control.admit(&ada).unwrap();
        assert!(one_more.open_result().is_err());
        assert!(idle[0].resume().is_err(), "one is in progress");
        drop(one_more);
        idle[0].resume().unwrap();
        idle[0].resume().unwrap();
        assert_eq!(control.in_progress(), 1);
        idle[0].keep(60 << 20).unwrap();
        assert!(idle[0].keep(60 << 20).is_err());
        assert_eq!(idle[0].kept_bytes(), 60 << 20);
        idle.clear();
        assert!(control.users.lock().is_empty());
    }

    #[test]
    fn potential_memory_of_queries_leaves_bodies_their_room() {
        let control = AdmissionControl::new(64, 1 << 30, 256 << 20);
        let ada: Arc<str> = "ada".into();
        let mut admissions = Vec::new();
        for _ in 0..64 {
            let mut entry = control.admit(&ada).unwrap();
            entry.body().add(200).unwrap();
            assert!(entry.query_bytes() >= MIN_QUERY_BYTES);
            admissions.push(entry);
        }
        admissions[0].pause(1_000);
        admissions[0].resume().unwrap();
        drop(admissions);
        assert!(control.users.lock().is_empty());
    }

    #[test]
    fn a_body_counts_until_its_last_owner_drops_it() {
        let control = AdmissionControl::new(2, 1_000, 100);
        let ada: Arc<str> = "ada".into();
        let entry = control.admit(&ada).unwrap();
        let body = entry.body().clone();
        body.add(600).unwrap();
        let other = control.admit(&ada).unwrap();
        let error = other.body().add(600).unwrap_err();
        assert!(matches!(error, ServerError::TooMany { .. }), "{error}");
        let error = body.add(600).unwrap_err();
        assert!(matches!(error, ServerError::TooLarge(_)), "{error}");
        drop(entry);
        assert!(other.body().add(600).is_err(), "another owner still has it");
        drop(body);
        other.body().add(600).unwrap();
        drop(other);
        assert!(control.users.lock().is_empty());
    }

    #[test]
    fn written_bytes_of_all_transactions_of_a_user_add_up() {
        let control = AdmissionControl::new(20, 100 << 20, 100 << 20);
        let ada: Arc<str> = "ada".into();
        let (mut one, mut other) = (control.written(&ada), control.written(&ada));
        assert_eq!((one.most(), other.most()), (50 << 20, 25 << 20));
        one.set(90 << 20);
        other.set(0);
        assert_eq!(other.most(), 5 << 20);
        other.set(10 << 20);
        let mut third = control.written(&ada);
        assert_eq!(third.most(), MIN_QUERY_BYTES, "each one gets some");
        assert_eq!(one.most(), 90 << 20);
        let mut entry = control.admit(&ada).unwrap();
        assert_eq!(
            entry.query_bytes(),
            MIN_QUERY_BYTES,
            "queries leave room for them"
        );
        drop((one, other, third, entry));
        assert!(control.users.lock().is_empty());
    }

    #[test]
    fn one_user_cannot_use_up_the_memory_of_all() {
        let control = AdmissionControl::new(20, 1 << 30, 256 << 20);
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob".into());
        let mut all: Vec<_> = (0..20).map(|_| control.admit(&ada).unwrap()).collect();
        assert!(matches!(
            control.admit(&ada),
            Err(ServerError::TooMany { .. })
        ));
        assert!(control.admit(&bob).is_ok());
        let bytes: Vec<usize> = all.iter_mut().map(Admission::query_bytes).collect();
        assert_eq!(bytes[0], 256 << 20);
        assert!(bytes.is_sorted_by(|one, two| one >= two) && bytes[19] >= MIN_QUERY_BYTES);
        assert!(bytes.iter().sum::<usize>() <= (1 << 30) + 20 * MIN_QUERY_BYTES);
        assert_eq!(
            all[0].query_bytes(),
            256 << 20,
            "requested twice, reserved once"
        );
        all.clear();
        assert_eq!(control.admit(&ada).unwrap().query_bytes(), 256 << 20);
        assert_eq!(control.in_progress(), 0);
        assert!(control.users.lock().is_empty());
    }
}
