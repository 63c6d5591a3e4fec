//! Waiting for an event that a test can only observe from outside: of another process, of a server's connection, of a
//! background thread, or the passing of a deadline.
//!
//! A test that causes the event by itself waits for it without polling: on a channel, a barrier or the end of a thread.

use std::time::{Duration, Instant};

/// The time after which an event counts as missing. It is generous, because tests run in parallel on busy machines; a
/// test that passes does not wait for it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Time between two looks: short at first, because most events are only milliseconds away.
const INTERVALS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// Waits until `holds` returns true. Panics with `event` if it does not within [`LIMIT`].
#[track_caller]
pub fn until(event: &str, mut holds: impl FnMut() -> bool) {
    until_some(event, || holds().then_some(()));
}

/// Waits until `look` returns something, and returns that. Panics with `event` if there is nothing within [`LIMIT`].
#[track_caller]
pub fn until_some<T>(event: &str, look: impl FnMut() -> Option<T>) -> T {
    match within(LIMIT, look) {
        Some(found) => found,
        None => panic!("it did not happen within {} s: {event}", LIMIT.as_secs()),
    }
}

/// Waits until `look` returns something; `None` if it does not within `limit`. It looks at least once, and once more
/// when the time is over.
pub fn within<T>(limit: Duration, look: impl FnMut() -> Option<T>) -> Option<T> {
    wait(INTERVALS, limit, look)
}

/// Like [`within`], but looks at this interval: for samples, for comparisons of two looks, and for events that the test
/// causes at a chosen moment.
pub fn every<T>(interval: Duration, limit: Duration, look: impl FnMut() -> Option<T>) -> Option<T> {
    wait([interval; 2], limit, look)
}

fn wait<T>(
    [mut interval, longest]: [Duration; 2],
    limit: Duration,
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    let began = Instant::now();
    loop {
        let is_last = began.elapsed() >= limit;
        if let Some(found) = look() {
            return Some(found);
        }
        if is_last {
            return None;
        }
        std::thread::sleep(interval.min(limit.saturating_sub(began.elapsed())));
        interval = (interval * 2).min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_result_is_returned() {
        let mut looks = 0;
        let found = within(LIMIT, || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, Some(3));
    }

    #[test]
    fn an_event_that_does_not_happen_ends_the_wait() {
        let began = Instant::now();
        let mut looks = 0;
        let nothing: Option<()> = within(Duration::from_millis(30), || {
            looks += 1;
            None
        });
        assert_eq!(nothing, None);
        assert!(looks > 2 && began.elapsed() >= Duration::from_millis(30));
    }

    #[test]
    fn it_looks_once_without_any_time() {
        assert_eq!(within(Duration::ZERO, || Some(1)), Some(1));
    }
}
