//! The next position of the log, kept free for one process: appends of the others wait.
//!
//! ```text
//! process with a reservation            any other process, before an append
//!   takes the lock of `reserved`          the word is 0, or its own? it appends
//!   writes a number into the page         otherwise it waits until the word changes,
//!   … makes its record, appends it …      the time in it is over, or the lock is free
//!   the word becomes 0                    and clears it in the last two cases
//!   releases the lock
//! ```
//!
//! The word is a random number and, in its low half, the time in milliseconds. It is a hint: the append lock alone
//! keeps appends apart, and whatever the word is, an append waits [`LONGEST`] at most. A process that ends with a
//! reservation has no lock any more, which the others notice within 10 ms.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use isomer_vfs::{LockFile, LockMode};
use parking_lot::Mutex;

use super::{
    page::Page,
    process_lock::{ProcessLock, wait},
    random::random,
};

/// The file whose lock the process with the reservation has.
const NAME: &str = "reserved";
/// No reservation is longer, and no append waits longer for reservations.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
/// Bits of the word that are the time.
const TIME_BITS: u32 = 32;

/// The reservations of one handle of the log.
#[derive(Debug)]
pub(super) struct Reservation {
    path: PathBuf,
    /// Opened when it is needed: most processes never reserve a position, or meet a reservation.
    file: OnceLock<LockFile>,
    /// Whether this handle has the lock of the file.
    is_locked: Mutex<bool>,
    /// The word of this handle's last reservation.
    own: AtomicU64,
}

impl Reservation {
    /// Of the log in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join(NAME),
            file: OnceLock::new(),
            is_locked: Mutex::new(false),
            own: AtomicU64::new(0),
        }
    }

    fn file(&self) -> io::Result<&LockFile> {
        if self.file.get().is_none() {
            // Of two threads at once, one drops its handle.
            let _ = self.file.set(LockFile::open(&self.path)?);
        }
        Ok(self.file.get().expect("it was set"))
    }

    /// Reserves the next position for `time`, at most [`LONGEST`]; or renews the reservation. Returns whether there is
    /// one: another process may have kept its own for longer than that.
    pub(super) fn reserve(&self, page: &Page, time: Duration) -> io::Result<bool> {
        let time = time.min(LONGEST);
        let file = self.file()?;
        let mut is_locked = self.is_locked.lock();
        if !*is_locked {
            let bell = Some(page.reservation_ended());
            let is_free = || file.try_lock(LockMode::Exclusive);
            if !wait(bell, Instant::now() + time, is_free)? {
                return Ok(false);
            }
            *is_locked = true;
        }
        let millis = u64::try_from(time.as_millis()).unwrap_or(0).max(1);
        let word = random() << TIME_BITS | millis;
        self.own.store(word, Relaxed);
        page.set_reservation(word);
        Ok(true)
    }

    /// Ends the reservation of this handle.
    pub(super) fn release(&self, page: &Page) {
        let mut is_locked = self.is_locked.lock();
        if std::mem::replace(&mut *is_locked, false) {
            // Unlocking an open file does not fail; otherwise the end of the process unlocks it.
            let _ = self.file().and_then(LockFile::unlock);
            page.end_reservation(self.own.swap(0, Relaxed));
        }
    }

    /// Waits while another handle has the next position reserved. One load while none has.
    pub(super) fn wait(&self, page: &Page) -> io::Result<()> {
        let is_foreign = |word| word != 0 && word != self.own.load(Relaxed);
        let mut word = page.reservation();
        if !is_foreign(word) {
            return Ok(());
        }
        let began = Instant::now();
        while is_foreign(word) && began.elapsed() < LONGEST {
            self.wait_for(page, word, began + LONGEST)?;
            word = page.reservation();
        }
        Ok(())
    }

    /// Waits until the reservation `word` has ended, and ends it if its time is over or its process has ended; not
    /// after `until`.
    fn wait_for(&self, page: &Page, word: u64, until: Instant) -> io::Result<()> {
        let time = Duration::from_millis(word & u64::from(u32::MAX));
        let file = self.file()?;
        let mut looked = Instant::now();
        let until = until.min(looked + time);
        let is_ended = || {
            if page.reservation() != word {
                return Ok(true);
            }
            if looked.elapsed() < ProcessLock::check_interval() {
                return Ok(false);
            }
            looked = Instant::now();
            // The lock belongs to the handle: another thread of it may have the lock, or be about to.
            let Some(is_locked) = self.is_locked.try_lock() else {
                return Ok(false);
            };
            if !*is_locked {
                if !file.try_lock(LockMode::Exclusive)? {
                    return Ok(false);
                }
                file.unlock()?;
            }
            page.end_reservation(word);
            Ok(true)
        };
        let bell = Some(page.reservation_ended());
        if !wait(bell, until, is_ended)? {
            page.end_reservation(word);
        }
        Ok(())
    }
}
