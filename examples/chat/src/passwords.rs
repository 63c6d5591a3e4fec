//! Passwords: at most two concurrent hashes, and ten failures per minute and address.
//!
//! A hash takes 19 MiB and tens of milliseconds, so that guessing is slow; a client with many concurrent requests
//! must not use up memory and cores. An unknown name takes as long as a wrong password, so that they cannot be
//! distinguished.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use argon2::{Argon2, PasswordHasher, PasswordVerifier};

/// Concurrent hashes.
const HASH_SLOTS: usize = 2;
/// Longest wait for a slot.
const PATIENCE: Duration = Duration::from_secs(5);
/// Failures of one address within [`WINDOW`].
const FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are tracked; beyond it, expired ones are removed.
const ADDRESSES: usize = 10_000;

/// Why a password was not hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// No slot is free.
    Slots,
    /// This address has failed too often.
    Guesses,
}

/// Hashes passwords.
#[derive(Debug)]
pub struct Passwords {
    free: Mutex<usize>,
    given_back: Condvar,
    failures: Mutex<HashMap<IpAddr, (u32, Instant)>>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            free: Mutex::new(HASH_SLOTS),
            given_back: Condvar::new(),
            failures: Mutex::default(),
        }
    }
}

/// A slot for hashing, released when dropped.
struct HashSlot<'p>(&'p Passwords);

impl Drop for HashSlot<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

impl Passwords {
    fn slot(&self) -> Result<HashSlot<'_>, Busy> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, _) = self
            .given_back
            .wait_timeout_while(free, PATIENCE, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        match *free {
            0 => Err(Busy::Slots),
            _ => {
                *free -= 1;
                Ok(HashSlot(self))
            }
        }
    }

    /// The hash of a new password.
    pub fn hash(&self, password: &str) -> Result<Result<String, Busy>> {
        let _slot = match self.slot() {
            Ok(slot) => slot,
            Err(busy) => return Ok(Err(busy)),
        };
        Ok(Ok(hash(password)?))
    }

    /// Whether a password matches this hash; without one, it takes as long and returns false.
    pub fn is_right(
        &self,
        password: &str,
        known: Option<&str>,
        from: IpAddr,
    ) -> Result<Result<bool, Busy>> {
        static DECOY_HASH: OnceLock<String> = OnceLock::new();
        if !self.may_guess(from) {
            return Ok(Err(Busy::Guesses));
        }
        let _slot = match self.slot() {
            Ok(slot) => slot,
            Err(busy) => return Ok(Err(busy)),
        };
        // Counted before it is checked, because of concurrent guesses, and within a slot, so that few correct ones
        // are counted.
        let Some(counted) = self.guess(from) else {
            return Ok(Err(Busy::Guesses));
        };
        let against = match (known, DECOY_HASH.get()) {
            (Some(hash), _) => hash,
            (None, Some(decoy)) => decoy,
            (None, None) => {
                let made = hash("a password that is never used")?;
                DECOY_HASH.get_or_init(|| made)
            }
        };
        let fits = Argon2::default()
            .verify_password(password.as_bytes(), against)
            .is_ok();
        let is_right = fits && known.is_some();
        if is_right {
            self.take_back(from, counted);
        }
        Ok(Ok(is_right))
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<IpAddr, (u32, Instant)>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the address may guess.
    fn may_guess(&self, from: IpAddr) -> bool {
        let failures = self.failures();
        let known = failures.get(&from);
        known.is_none_or(|(count, since)| *count < FAILURES || since.elapsed() >= WINDOW)
    }

    /// Counts a guess, and returns the start of its minute; `None` if the address may not guess.
    fn guess(&self, from: IpAddr) -> Option<Instant> {
        let mut failures = self.failures();
        if failures.len() >= ADDRESSES {
            failures.retain(|_, (_, since)| since.elapsed() < WINDOW);
        }
        let (count, since) = failures.entry(from).or_insert((0, Instant::now()));
        if since.elapsed() >= WINDOW {
            (*count, *since) = (0, Instant::now());
        }
        let is_left = *count < FAILURES;
        *count += u32::from(is_left);
        is_left.then_some(*since)
    }

    /// Undoes the count of a correct password.
    fn take_back(&self, from: IpAddr, counted: Instant) {
        let mut failures = self.failures();
        let known = failures.get_mut(&from);
        // Unless another minute has begun.
        if let Some((count, _)) = known.filter(|(_, since)| *since == counted) {
            *count -= 1;
        }
    }
}

fn hash(password: &str) -> Result<String> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| anyhow!("no random bytes: {error}"))?;
    let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), &salt);
    let hash = hash.map_err(|error| anyhow!("the password cannot be hashed: {error}"))?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        thread,
    };

    use super::*;

    #[test]
    fn guesses_are_counted_by_address_and_all_slots_are_released() {
        let passwords = Passwords::default();
        let (one, two): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let known = passwords.hash("right password").unwrap().unwrap();
        let asked =
            |password: &str, known, from| passwords.is_right(password, known, from).unwrap();
        assert_eq!(asked("right password", Some(&known), one), Ok(true));
        for at in 0..FAILURES {
            // An unknown name counts as a wrong password does.
            let known = (at % 2 == 0).then_some(known.as_str());
            assert_eq!(
                asked("a password that is never used", known, one),
                Ok(false)
            );
        }
        assert_eq!(
            asked("right password", Some(&known), one),
            Err(Busy::Guesses)
        );
        assert_eq!(asked("right password", Some(&known), two), Ok(true));
        let three: IpAddr = [127, 0, 0, 3].into();
        let looked_at = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..4 * FAILURES {
                scope.spawn(|| {
                    let is_right = asked("a guess", Some(&known), three);
                    looked_at.fetch_add(u32::from(is_right == Ok(false)), Ordering::Relaxed);
                });
            }
        });
        assert_eq!(looked_at.into_inner(), FAILURES, "they were concurrent");
        // Correct ones do not count, however many are concurrent.
        let four: IpAddr = [127, 0, 0, 4].into();
        thread::scope(|scope| {
            for _ in 0..2 * FAILURES {
                scope.spawn(|| assert_eq!(asked("right password", Some(&known), four), Ok(true)));
            }
        });
        assert_eq!(*passwords.free.lock().unwrap(), HASH_SLOTS);
    }
}
