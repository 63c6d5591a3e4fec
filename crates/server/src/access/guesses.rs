//! Failed logins: so many a minute from one address (of IPv6, from one /64), one after the other. Tokens that nobody has count as well, each of them
//! once: a page whose login has ended asks several times with the one it had, and guesses nothing.

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

/// The time in which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Sources that are remembered; those whose window is over go first, then all.
const MOST_SOURCES: usize = 10_000;
/// How long a login waits for others from its address.
const TURN_TIME: Duration = Duration::from_secs(5);

/// Who is counted as one: an address, or 2^64 of them where each customer has so many (RFC 6177).
fn net_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let net = u128::from(address) & (u128::MAX << 64);
            Ipv6Addr::from(net).into()
        }
        address => address,
    }
}

/// Counts failures by where they come from. Memory: bounded, about a hundred bytes and 8 for each token that
/// counts (at most the limit) for each of [`MOST_SOURCES`], and as much for each address from which somebody logs in right now.
#[derive(Debug)]
pub struct Guesses {
    limit: u32,
    sources: Mutex<FxHashMap<IpAddr, Source>>,
    /// Tokens are told apart by their hashes under this key.
    hasher: RandomState,
    /// Held by the login of a source that is looked at.
    turns: Mutex<FxHashMap<IpAddr, Lock>>,
}

type Lock = Arc<tokio::sync::Mutex<()>>;

/// What failed from one address since its window began.
#[derive(Debug)]
struct Source {
    since: Instant,
    failures: u32,
    /// Hashes of the tokens among them.
    tokens: Vec<u64>,
}

impl Guesses {
    /// Allows `limit` failures a minute; the next ones are refused unseen.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            sources: Mutex::default(),
            hasher: RandomState::new(),
            turns: Mutex::default(),
        }
    }

    /// Waits until no other login of a source is looked at, and refuses one that has failed too often. Were they looked at side by
    /// side, as many could fail as fit between the look at the limit and the outcome.
    pub async fn turn(&self, source: IpAddr) -> Result<Turn<'_>> {
        let net = net_of(source);
        let lock = {
            let mut turns = self.turns.lock();
            turns.entry(net).or_default().clone()
        };
        let mut turn = Turn {
            guesses: self,
            source: net,
            lock: lock.clone(),
            held: None,
        };
        match tokio::time::timeout(TURN_TIME, lock.lock_owned()).await {
            Ok(held) => turn.held = Some(held),
            Err(_) => {
                return Err(ServerError::TooMany {
                    message: "too many logins at once from this address: try again".into(),
                    retry_after_s: 5,
                });
            }
        }
        self.check(source)?;
        Ok(turn)
    }

    /// Refuses a source that has failed too often.
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

    /// Counts a token that nobody has, unless it was counted before; refuses a new one from a source that has failed too often.
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
        if sources.len() >= MOST_SOURCES && !sources.contains_key(&source) {
            sources.retain(|_, known| known.since.elapsed() < WINDOW);
            if sources.len() >= MOST_SOURCES {
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

/// The login of a source that is looked at; others from there wait until this is dropped.
#[derive(Debug)]
pub struct Turn<'g> {
    guesses: &'g Guesses,
    source: IpAddr,
    lock: Lock,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turn<'_> {
    /// Counts a failure.
    pub fn failed(&self) {
        self.guesses.failed(self.source);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut turns = self.guesses.turns.lock();
        // One is the map's and one is this one's; more are made under the lock of the map only.
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
    fn logins_of_one_address_are_looked_at_one_after_the_other() {
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
    fn the_tenth_failure_is_the_last_that_is_looked_at() {
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
            "another address is not touched"
        );
    }

    #[test]
    fn a_token_that_has_ended_is_counted_once() {
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
            "guessed tokens hold up passwords, too"
        );
        guesses
            .wrong_token(address("10.0.0.1"), "an old login")
            .unwrap();
    }

    #[test]
    fn many_addresses_take_bounded_memory() {
        let guesses = Guesses::new(1);
        for number in 0..3 * MOST_SOURCES {
            guesses.failed(std::net::Ipv4Addr::from(number as u32).into());
        }
        assert!(guesses.sources.lock().len() <= MOST_SOURCES);
    }
}
