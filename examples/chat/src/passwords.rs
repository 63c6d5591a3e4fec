//! Passwords: hashed two at a time, and guessed ten times a minute at most.
//!
//! A hash takes 19 MiB and tens of milliseconds, so that guessing is slow; whoever asks for many at once must not take all memory
//! and all cores with them. A name that is nobody's costs the same time as a wrong password, so that neither is told from the other.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};
use argon2::{Argon2, PasswordHasher, PasswordVerifier};

/// Hashed at once.
const PLACES: usize = 2;
/// How long somebody waits for a place.
const PATIENCE: Duration = Duration::from_secs(5);
/// Failures of one address within [`WINDOW`].
const FAILURES: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are remembered; beyond, those whose time is over are forgotten.
const ADDRESSES: usize = 10_000;

/// Why nothing was hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Busy {
    /// Others are at work.
    Places,
    /// This address has guessed too often.
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
            free: Mutex::new(PLACES),
            given_back: Condvar::new(),
            failures: Mutex::default(),
        }
    }
}

/// The right to hash, given back when it is dropped.
struct Place<'p>(&'p Passwords);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}

impl Passwords {
    fn place(&self) -> Result<Place<'_>, Busy> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, _) = self
            .given_back
            .wait_timeout_while(free, PATIENCE, |free| *free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        match *free {
            0 => Err(Busy::Places),
            _ => {
                *free -= 1;
                Ok(Place(self))
            }
        }
    }

    /// The hash of a new password.
    pub fn hash(&self, password: &str) -> Result<Result<String, Busy>> {
        let _place = match self.place() {
            Ok(place) => place,
            Err(busy) => return Ok(Err(busy)),
        };
        Ok(Ok(hash(password)?))
    }

    /// Whether a password has this hash; where there is none it takes as long and is wrong.
    pub fn is_right(
        &self,
        password: &str,
        known: Option<&str>,
        from: IpAddr,
    ) -> Result<Result<bool, Busy>> {
        static NOBODY: OnceLock<String> = OnceLock::new();
        if !self.may_guess(from) {
            return Ok(Err(Busy::Guesses));
        }
        let _place = match self.place() {
            Ok(place) => place,
            Err(busy) => return Ok(Err(busy)),
        };
        // Counted before it is looked at, for those that come together, and in its place, so that few are counted that are right.
        let Some(counted) = self.guess(from) else {
            return Ok(Err(Busy::Guesses));
        };
        let against = match (known, NOBODY.get()) {
            (Some(hash), _) => hash,
            (None, Some(nobody)) => nobody,
            (None, None) => {
                let made = hash("a password of nobody")?;
                NOBODY.get_or_init(|| made)
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

    /// Whether the address has guesses left.
    fn may_guess(&self, from: IpAddr) -> bool {
        let failures = self.failures();
        let known = failures.get(&from);
        known.is_none_or(|(count, since)| *count < FAILURES || since.elapsed() >= WINDOW)
    }

    /// Counts a guess, in the minute that began then; nothing where the address has none left.
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

    /// It was no failure.
    fn take_back(&self, from: IpAddr, counted: Instant) {
        let mut failures = self.failures();
        let known = failures.get_mut(&from);
        // Another minute has none of it.
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
    fn guesses_are_counted_by_address_and_all_places_are_given_back() {
        let passwords = Passwords::default();
        let (one, two): (IpAddr, IpAddr) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let known = passwords.hash("right password").unwrap().unwrap();
        let asked =
            |password: &str, known, from| passwords.is_right(password, known, from).unwrap();
        assert_eq!(asked("right password", Some(&known), one), Ok(true));
        for at in 0..FAILURES {
            // A name of nobody counts as a wrong password does.
            let known = (at % 2 == 0).then_some(known.as_str());
            assert_eq!(asked("a password of nobody", known, one), Ok(false));
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
        assert_eq!(looked_at.into_inner(), FAILURES, "they came together");
        // Those that are right share them with nobody, however many come together.
        let four: IpAddr = [127, 0, 0, 4].into();
        thread::scope(|scope| {
            for _ in 0..2 * FAILURES {
                scope.spawn(|| assert_eq!(asked("right password", Some(&known), four), Ok(true)));
            }
        });
        assert_eq!(*passwords.free.lock().unwrap(), PLACES);
    }
}
