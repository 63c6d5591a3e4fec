//! Limits failed logins per minute and address (of IPv6, per /64); logins from one address are checked one at a time.
//! Unknown tokens count as failures as well, each of them once: a page whose login has expired sends the same token
//! several times, which is not guessing.

use std::{
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tokio::sync::OwnedMutexGuard;

use crate::{Result, ServerError};

/// The window in which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Most sources that are tracked; expired ones are removed first, then all.
const MAX_SOURCES: usize = 10_000;
/// Longest wait of a login for others from its address.
const TURN_TIME: Duration = Duration::from_secs(5);

/// What counts as one source: an IPv4 address, or the /64 network that one customer gets (RFC 6177).
fn net_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let net = u128::from(address) & (u128::MAX << 64);
            Ipv6Addr::from(net).into()
        }
        address => address,
    }
}

/// Counts failures by source. Memory: bounded; about a hundred bytes, and 8 for each counted token (at most the
/// limit), for each of [`MAX_SOURCES`], and as much for each address with a login in progress.
#[derive(Debug)]
pub struct Guesses {
    limit: u32,
    sources: Mutex<FxHashMap<IpAddr, Source>>,
    /// Key under which tokens are hashed.
    hasher: RandomState,
    /// One lock per source, held while its login is checked.
    turns: Mutex<FxHashMap<IpAddr, Lock>>,
}

type Lock = Arc<tokio::sync::Mutex<()>>;

/// Failures from one source since its window began.
#[derive(Debug)]
struct Source {
    since: Instant,
    failures: u32,
    /// Hashes of the tokens among them.
    tokens: Vec<u64>,
}

impl Guesses {
    /// Allows `limit` failures per minute; further attempts are refused without checking them.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            sources: Mutex::default(),
            hasher: RandomState::new(),
            turns: Mutex::default(),
        }
    }

    /// Waits until no other login of the source is in progress, and refuses it if too many have failed. Concurrent
    /// checks would let as many attempts fail as fit between the check of the limit and the outcome.
    pub async fn turn(&self, source: IpAddr) -> Result<LoginTurn<'_>> {
        let net = net_of(source);
        let lock = {
            let mut turns = self.turns.lock();
            turns.entry(net).or_default().clone()
        };
        let mut turn = LoginTurn {
            guesses: self,
            source: net,
            lock: lock.clone(),
            held: None,
        };
        match tokio::time::timeout(TURN_TIME, lock.lock_owned()).await {
            Ok(held) => turn.held = Some(held),
            Err(_) => return Err(too_many_at_once()),
        }
        self.check(source)?;
        Ok(turn)
    }

    /// Like [`Guesses::turn`], on a thread that must not wait for others.
    pub fn turn_now(&self, source: IpAddr) -> Result<LoginTurn<'_>> {
        let net = net_of(source);
        let lock = {
            let mut turns = self.turns.lock();
            turns.entry(net).or_default().clone()
        };
        let held = lock.clone().try_lock_owned();
        let turn = LoginTurn {
            guesses: self,
            source: net,
            lock,
            held: held.ok(),
        };
        if turn.held.is_none() {
            return Err(too_many_at_once());
        }
        self.check(source)?;
        Ok(turn)
    }

    /// Refuses a source with too many failures.
    pub fn check(&self, source: IpAddr) -> Result<()> {
        match self.sources.lock().get(&net_of(source)) {
            Some(known) => self.check_known(known),
            None => Ok(()),
        }
    }

    fn check_known(&self, known: &Source) -> Result<()> {
        if known.failures < self.limit || known.since.elapsed() >= WINDOW {
            return Ok(());
        }
        let left = WINDOW.saturating_sub(known.since.elapsed()).as_secs() + 1;
        Err(ServerError::TooMany {
            message: format!("too many failed logins: try again in {left} seconds"),
            retry_after_s: u32::try_from(left).unwrap_or(60),
        })
    }

    /// Counts a failure.
    pub fn failed(&self, source: IpAddr) {
        self.with(source, |known| known.failures += 1);
    }

    /// Counts an unknown token, unless it was counted before; refuses a new one from a source with too many failures.
    pub fn wrong_token(&self, source: IpAddr, token: &str) -> Result<()> {
        let token = self.hasher.hash_one(token);
        self.with(source, |known| {
            if known.tokens.contains(&token) {
                return Ok(());
            }
            self.check_known(known)?;
            known.failures += 1;
            known.tokens.push(token);
            Ok(())
        })
    }

    fn with<T>(&self, source: IpAddr, work: impl FnOnce(&mut Source) -> T) -> T {
        let source = net_of(source);
        let mut sources = self.sources.lock();
        if sources.len() >= MAX_SOURCES && !sources.contains_key(&source) {
            sources.retain(|_, known| known.since.elapsed() < WINDOW);
            if sources.len() >= MAX_SOURCES {
                sources.clear();
            }
        }
        let fresh = || Source {
            since: Instant::now(),
            failures: 0,
            tokens: Vec::new(),
        };
        let known = sources.entry(source).or_insert_with(fresh);
        if known.since.elapsed() >= WINDOW {
            *known = fresh();
        }
        work(known)
    }
}

fn too_many_at_once() -> ServerError {
    ServerError::TooMany {
        message: "too many logins at once from this address: retry later".into(),
        retry_after_s: 5,
    }
}

/// The exclusive turn of a source's login; others from there wait until it is dropped.
#[derive(Debug)]
pub struct LoginTurn<'g> {
    guesses: &'g Guesses,
    source: IpAddr,
    lock: Lock,
    held: Option<OwnedMutexGuard<()>>,
}

impl LoginTurn<'_> {
    /// Counts a failure.
    pub fn failed(&self) {
        self.guesses.failed(self.source);
    }
}

impl Drop for LoginTurn<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut turns = self.guesses.turns.lock();
        // Two references are the map's and this one; more are created only under the lock of the map.
        if Arc::strong_count(&self.lock) == 2 {
            turns.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_of_one_customer_is_one_source() {
        let guesses = Guesses::new(2);
        guesses.failed(address("2001:db8:0:1::1"));
        guesses.failed(address("2001:db8:0:1:ffff::2"));
        assert!(guesses.check(address("2001:db8:0:1::3")).is_err());
        assert!(guesses.check(address("2001:db8:0:2::1")).is_ok());
        guesses.failed(address("::ffff:10.0.0.1"));
        guesses.failed(address("10.0.0.1"));
        assert!(guesses.check(address("10.0.0.1")).is_err());
        assert!(guesses.check(address("10.0.0.2")).is_ok());
    }

    #[test]
    fn logins_of_one_address_are_checked_one_at_a_time() {
        let guesses = Arc::new(Guesses::new(3));
        let seen = Arc::new(Mutex::new((0, 0, 0)));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut all = tokio::task::JoinSet::new();
            for _ in 0..20 {
                let (guesses, seen) = (guesses.clone(), seen.clone());
                all.spawn(async move {
                    let Ok(turn) = guesses.turn(address("10.0.0.1")).await else {
                        return;
                    };
                    seen.lock().0 += 1;
                    let now = seen.lock().0;
                    let most = seen.lock().1.max(now);
                    seen.lock().1 = most;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    turn.failed();
                    seen.lock().0 -= 1;
                    seen.lock().2 += 1;
                });
            }
            let other = guesses.turn(address("10.0.0.2")).await;
            assert!(other.is_ok(), "another address does not wait");
            drop(other);
            all.join_all().await;
        });
        assert_eq!(*seen.lock(), (0, 1, 3), "at once, at most, failed");
        assert!(guesses.turns.lock().is_empty());
    }

    #[test]
    fn the_tenth_failure_is_the_last_one_checked() {
        let guesses = Guesses::new(10);
        for _ in 0..10 {
            assert!(guesses.check(address("10.0.0.1")).is_ok());
            guesses.failed(address("10.0.0.1"));
        }
        assert!(matches!(
            guesses.check(address("10.0.0.1")),
            Err(ServerError::TooMany { .. })
        ));
        assert!(
            guesses.check(address("10.0.0.2")).is_ok(),
            "another address is not affected"
        );
    }

    #[test]
    fn an_expired_token_is_counted_once() {
        let guesses = Guesses::new(3);
        for _ in 0..100 {
            guesses
                .wrong_token(address("10.0.0.1"), "an old login")
                .unwrap();
        }
        guesses.check(address("10.0.0.1")).unwrap();
        guesses
            .wrong_token(address("10.0.0.1"), "one guess")
            .unwrap();
        guesses.wrong_token(address("10.0.0.1"), "another").unwrap();
        assert!(
            guesses
                .wrong_token(address("10.0.0.1"), "one too many")
                .is_err()
        );
        assert!(
            guesses.check(address("10.0.0.1")).is_err(),
            "guessed tokens block passwords, too"
        );
        guesses
            .wrong_token(address("10.0.0.1"), "an old login")
            .unwrap();
    }

    #[test]
    fn many_addresses_take_bounded_memory() {
        let guesses = Guesses::new(1);
        for number in 0..3 * MAX_SOURCES {
            guesses.failed(std::net::Ipv4Addr::from(number as u32).into());
        }
        assert!(guesses.sources.lock().len() <= MAX_SOURCES);
    }
}
