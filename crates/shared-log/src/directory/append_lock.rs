//! The lock under which the tail of the log is changed.
//!
//! A process that appends alone for a while becomes *favoured*: it takes the lock with two words of the shared page
//! instead of two system calls. Any other process takes the favour back, without waiting for it unless it is within an
//! append:
//!
//! ```text
//! favoured process                      any other process
//!   busy = 1                              takes the lock of the file `page`
//!   favoured is still this process?       favoured = 0
//!     yes: it has the lock                busy is 0? it has the lock
//!     no:  busy = 0, as the others do     otherwise it waits, or the favoured process has ended
//! ```
//!
//! All four are sequentially consistent: of two processes at once, one sees what the other wrote. The favoured process
//! has the lock of the file `favoured` as long as it may set `busy`, so that its end is noticed.

use std::{
    io,
    time::{Duration, Instant},
};

use isomer_vfs::{LockFile, LockMode};
use parking_lot::{Mutex, MutexGuard};

use super::{page::Page, process_lock::wait, random::random, tail::TailWriter};
use crate::Position;

/// So many records that a process appends without others in between make it favoured.
const ALONE_RECORDS: u32 = 64;

/// A lock that one thread of all processes has at a time. A process that is stopped within an append keeps it.
#[derive(Debug)]
pub(super) struct AppendLock {
    /// The file `page`.
    all: LockFile,
    /// The file `favoured`.
    favoured: LockFile,
    /// Identifies this handle in the page; not 0.
    own: u64,
    threads: Mutex<LockedState>,
}

/// What the thread has that has the lock.
#[derive(Debug)]
struct LockedState {
    uses: Use,
    tail: TailWriter,
}

/// How this handle has used the lock.
#[derive(Debug, Default)]
struct Use {
    /// It was made the favoured one, and has the lock of the file `favoured`.
    is_favoured: bool,
    /// Records that it appended without others in between.
    alone: u32,
    /// The end of the log after its last append.
    end: Position,
}

/// The lock is held.
pub(super) struct AppendGuard<'a> {
    lock: &'a AppendLock,
    page: &'a Page,
    held: MutexGuard<'a, LockedState>,
    by_favour: bool,
}

impl AppendLock {
    /// `all` is the file `page`, `favoured` the file of that name; `tail` is for the thread that has the lock.
    pub(super) fn new(all: LockFile, favoured: LockFile, tail: TailWriter) -> Self {
        let uses = Use::default();
        Self {
            all,
            favoured,
            own: random().max(1),
            threads: Mutex::new(LockedState { uses, tail }),
        }
    }

    /// Takes the lock; `None` if it is not free within `time`.
    pub(super) fn lock<'a>(
        &'a self,
        page: &'a Page,
        time: Duration,
    ) -> io::Result<Option<AppendGuard<'a>>> {
        let held = self.threads.try_lock();
        let Some(mut held) = held.or_else(|| self.threads.try_lock_for(time)) else {
            return Ok(None);
        };
        if held.uses.is_favoured {
            page.set_busy(true);
            if page.favoured() == self.own {
                return Ok(Some(AppendGuard {
                    lock: self,
                    page,
                    held,
                    by_favour: true,
                }));
            }
            page.set_busy(false);
            page.released().ring();
            held.uses = Use::default();
            self.favoured.unlock()?;
        }
        let until = Instant::now() + time;
        let bell = Some(page.released());
        if !wait(bell, until, || self.all.try_lock(LockMode::Exclusive))? {
            return Ok(None);
        }
        let guard = AppendGuard {
            lock: self,
            page,
            held,
            by_favour: false,
        };
        page.set_favoured(0);
        match wait(bell, until, || self.is_favoured_idle(page))? {
            true => Ok(Some(guard)),
            false => Ok(None),
        }
    }

    /// Whether the process that was favoured is not within an append, or has ended.
    fn is_favoured_idle(&self, page: &Page) -> io::Result<bool> {
        if !page.is_busy() {
            return Ok(true);
        }
        if !self.favoured.try_lock(LockMode::Exclusive)? {
            return Ok(false);
        }
        page.set_busy(false);
        self.favoured.unlock()?;
        Ok(true)
    }
}

impl AppendGuard<'_> {
    /// Writes frames.
    pub(super) fn tail(&mut self) -> &mut TailWriter {
        &mut self.held.tail
    }

    /// Notes that the records from `from` on, below `end`, were appended.
    pub(super) fn note_appended(&mut self, from: Position, end: Position) {
        let uses = &mut self.held.uses;
        uses.alone = match uses.end == from {
            true => uses.alone.saturating_add(1),
            false => 0,
        };
        uses.end = end;
    }
}

impl Drop for AppendGuard<'_> {
    fn drop(&mut self) {
        let Self { lock, page, .. } = *self;
        if self.by_favour {
            page.set_busy(false);
            if page.favoured() != lock.own {
                page.released().ring();
            }
            return;
        }
        if self.held.uses.alone >= ALONE_RECORDS
            && !page.is_busy()
            && lock.favoured.try_lock(LockMode::Exclusive).unwrap_or(false)
        {
            page.set_favoured(lock.own);
            self.held.uses.is_favoured = true;
        }
        // Unlocking an open file does not fail; otherwise the end of the process unlocks it.
        let _ = lock.all.unlock();
        // All that wait now want the lock of the file, and one of them gets it.
        page.released().ring_one();
    }
}
