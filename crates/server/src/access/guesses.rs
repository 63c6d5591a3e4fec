//! Failed logins: so many a minute from one address, and for one name.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{Result, ServerError};

/// The time in which failures are counted.
const WINDOW: Duration = Duration::from_secs(60);
/// Sources that are remembered; those whose window is over go first, then all.
const MOST_SOURCES: usize = 10_000;

/// Counts failures by where they come from. Memory: bounded, about a hundred bytes for each of [`MOST_SOURCES`].
#[derive(Debug)]
pub struct Guesses {
    limit: u32,
    sources: Mutex<FxHashMap<String, (Instant, u32)>>,
}

impl Guesses {
    /// Allows `limit` failures a minute; the next ones are refused unseen.
    pub fn new(limit: u32) -> Self {
        Self {
            limit,
            sources: Mutex::default(),
        }
    }

    /// Refuses a source that has failed too often.
    pub fn check(&self, source: &str) -> Result<()> {
        let sources = self.sources.lock();
        match sources.get(source) {
            Some((since, failures)) if *failures >= self.limit && since.elapsed() < WINDOW => {
                let left = WINDOW.saturating_sub(since.elapsed()).as_secs() + 1;
                Err(ServerError::TooMany {
                    message: format!("too many failed logins: try again in {left} seconds"),
                    retry_after_s: u32::try_from(left).unwrap_or(60),
                })
            }
            _ => Ok(()),
        }
    }

    /// Counts a failure.
    pub fn failed(&self, source: &str) {
        let mut sources = self.sources.lock();
        if sources.len() >= MOST_SOURCES && !sources.contains_key(source) {
            sources.retain(|_, (since, _)| since.elapsed() < WINDOW);
            if sources.len() >= MOST_SOURCES {
                sources.clear();
            }
        }
        let entry = sources
            .entry(source.to_owned())
            .or_insert_with(|| (Instant::now(), 0));
        if entry.0.elapsed() >= WINDOW {
            *entry = (Instant::now(), 0);
        }
        entry.1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenth_failure_is_the_last_that_is_looked_at() {
        let guesses = Guesses::new(10);
        for _ in 0..10 {
            assert!(guesses.check("10.0.0.1").is_ok());
            guesses.failed("10.0.0.1");
        }
        assert!(matches!(
            guesses.check("10.0.0.1"),
            Err(ServerError::TooMany { .. })
        ));
        assert!(
            guesses.check("10.0.0.2").is_ok(),
            "another address is not touched"
        );
    }

    #[test]
    fn many_addresses_take_bounded_memory() {
        let guesses = Guesses::new(1);
        for number in 0..3 * MOST_SOURCES {
            guesses.failed(&number.to_string());
        }
        assert!(guesses.sources.lock().len() <= MOST_SOURCES);
    }
}
