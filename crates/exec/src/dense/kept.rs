//! What threads keep from one query to the next: bounded for the process, as no query's budget counts it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Larger arrays are given back to the system after use.
const MOST_ARRAY_BYTES: usize = 64 << 20;
/// Arrays of one kind that a thread keeps.
const MOST_ARRAYS: usize = 4;
/// What all threads of the process keep together.
const MOST_BYTES: usize = 256 << 20;

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Room for an array that is kept; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Kept(usize);

impl Kept {
    /// Room for so many bytes; none where there is nothing to keep, or too much is kept already.
    pub(super) fn ask(bytes: usize) -> Option<Self> {
        if bytes == 0 || bytes > MOST_ARRAY_BYTES {
            return None;
        }
        let fits = |kept: usize| (kept + bytes <= MOST_BYTES).then_some(kept + bytes);
        BYTES
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .ok()?;
        Some(Self(bytes))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        BYTES.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Arrays of one kind.
#[derive(Debug)]
pub(super) struct Shelf<T>(Vec<(T, Kept)>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Shelf<T> {
    /// One of them, which nobody keeps any more.
    pub(super) fn take(&mut self) -> Option<T> {
        self.0.pop().map(|(array, _)| array)
    }

    /// Keeps an array, if there are not enough of them.
    pub(super) fn put(&mut self, array: T, place: Kept) {
        if self.0.len() < MOST_ARRAYS {
            self.0.push((array, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_keep_together_is_bounded() {
        let ask = |mib: usize| (0..1000).map_while(move |_| Kept::ask(mib << 20));
        let mut kept: Vec<Kept> = ask(32).collect();
        assert!((1..=8).contains(&kept.len()), "{}", kept.len());
        kept.extend(ask(1));
        assert!(Kept::ask(32 << 20).is_none());
        assert!(Kept::ask(0).is_none() && Kept::ask(MOST_ARRAY_BYTES + 1).is_none());
        // A thread that ends gives back what it kept.
        std::thread::scope(|scope| {
            let ended = scope.spawn(move || {
                let mut shelf = Shelf::default();
                kept.into_iter().for_each(|place| shelf.put((), place));
                assert!(shelf.take().is_some());
            });
            assert!(ended.join().is_ok());
        });
        assert!(Kept::ask(32 << 20).is_some());
    }
}
