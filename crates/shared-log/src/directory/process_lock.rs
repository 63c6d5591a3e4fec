//! A lock among the threads of all processes.

use std::{
    hint, io, thread,
    time::{Duration, Instant},
};

use isomer_vfs::{Bell, LockFile, LockMode};
use parking_lot::{Mutex, MutexGuard};

/// A waiting thread looks that often whether the process that has the lock has ended: then no bell is rung.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
const CHECK_INTERVAL_WITHOUT_BELL: Duration = Duration::from_millis(1);
/// A thread looks that long without sleeping: an append takes less, and to be woken more.
const SPIN_TIME: Duration = Duration::from_micros(20);
/// Pauses of the processor between two looks.
const SPIN_PAUSES: u32 = 32;

/// A lock that one thread of all processes has at a time. The system releases it when the process of that thread ends;
/// a process that is stopped keeps it.
#[derive(Debug)]
pub(super) struct ProcessLock {
    file: LockFile,
    /// The lock of the file belongs to the handle, so that threads of this process exclude each other by this one.
    threads: Mutex<()>,
}

/// The lock is held.
pub(super) struct Locked<'a> {
    file: &'a LockFile,
    bell: Option<Bell<'a>>,
    _thread: MutexGuard<'a, ()>,
}

impl ProcessLock {
    pub(super) fn new(file: LockFile) -> Self {
        Self {
            file,
            threads: Mutex::new(()),
        }
    }

    /// Takes the lock; `bell` is rung when it is released, and without one a waiting thread looks every millisecond.
    /// `None` if the lock is not free within `time`.
    pub(super) fn lock<'a>(
        &'a self,
        bell: Option<Bell<'a>>,
        time: Duration,
    ) -> io::Result<Option<Locked<'a>>> {
        let until = Instant::now() + time;
        let Some(thread) = self.threads.try_lock_until(until) else {
            return Ok(None);
        };
        if !wait(bell, until, || self.file.try_lock(LockMode::Exclusive))? {
            return Ok(None);
        }
        Ok(Some(Locked {
            file: &self.file,
            bell,
            _thread: thread,
        }))
    }

    /// Takes the lock if it is free.
    pub(super) fn try_lock<'a>(&'a self, bell: Bell<'a>) -> io::Result<Option<Locked<'a>>> {
        let Some(thread) = self.threads.try_lock() else {
            return Ok(None);
        };
        if !self.file.try_lock(LockMode::Exclusive)? {
            return Ok(None);
        }
        Ok(Some(Locked {
            file: &self.file,
            bell: Some(bell),
            _thread: thread,
        }))
    }

    /// How long a thread that waits for another process waits at most before it looks again.
    pub(super) const fn check_interval() -> Duration {
        CHECK_INTERVAL
    }
}

/// Waits until `is_free`; returns whether it is before `until`.
pub(super) fn wait(
    bell: Option<Bell<'_>>,
    until: Instant,
    mut is_free: impl FnMut() -> io::Result<bool>,
) -> io::Result<bool> {
    if is_free()? {
        return Ok(true);
    }
    let began = Instant::now();
    while bell.is_some() && began.elapsed() < SPIN_TIME {
        (0..SPIN_PAUSES).for_each(|_| hint::spin_loop());
        if is_free()? {
            return Ok(true);
        }
    }
    loop {
        let heard = bell.map(Bell::listen);
        if is_free()? {
            return Ok(true);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        match bell.zip(heard) {
            Some((bell, heard)) => bell.wait(heard, left.min(CHECK_INTERVAL)),
            None => thread::sleep(CHECK_INTERVAL_WITHOUT_BELL),
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Unlocking an open file does not fail; otherwise the end of the process unlocks it.
        let _ = self.file.unlock();
        if let Some(bell) = self.bell {
            bell.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use isomer_vfs::SharedPage;

    use super::*;

    #[test]
    fn a_lock_is_held_once_and_only_its_release_rings() {
        let folder = tempfile::tempdir().expect("a folder");
        let page = SharedPage::open(&folder.path().join("page"), 1 << 16).expect("a page");
        let bell = page.bell(0);
        let open = || {
            let file = LockFile::open(&folder.path().join("lock"));
            ProcessLock::new(file.expect("a file"))
        };
        let (one, other) = (open(), open());
        let held = one.lock(Some(bell), Duration::ZERO).expect("no error");
        let held = held.expect("it is free");
        let before = bell.listen();
        for lock in [&one, &other] {
            assert!(lock.try_lock(bell).expect("no error").is_none());
            let waited = lock.lock(Some(bell), Duration::from_millis(5));
            assert!(waited.expect("no error").is_none());
        }
        assert_eq!(bell.listen(), before, "nothing was released");
        drop(held);
        assert_ne!(bell.listen(), before);
        assert!(other.try_lock(bell).expect("no error").is_some());
    }
}
