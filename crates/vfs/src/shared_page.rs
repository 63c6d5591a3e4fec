//! Memory that several processes share: atomic words in a mapped file, and bells to wait for changes of them.

use std::{
    fs::OpenOptions,
    io,
    path::Path,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use crate::platform::{private_file, system::Mapping};

/// Bytes at the end of a page that hold its bells.
const BELL_BYTES: usize = 64;
/// Number of bells of a page.
pub const BELLS: usize = BELL_BYTES / size_of::<Ring>();

/// A file of atomic words that every process that has it open sees at once. It says nothing about what is on the disk:
/// after a loss of power its content is old, new or a mix of both.
///
/// Every bit pattern is valid, so that the caller must check what it reads. The file must not be truncated while it is
/// mapped: the operating system ends a process that reads a page that is gone.
#[derive(Debug)]
pub struct SharedPage {
    mapping: Mapping,
}

/// Two words of shared memory.
#[repr(C)]
pub(crate) struct Ring {
    /// How often the bell was rung; wraps around.
    rung: AtomicU32,
    /// 1 if a thread may wait.
    waiting: AtomicU32,
}

impl SharedPage {
    /// Whether processes can share memory on this system: not on Windows, with this version.
    pub const IS_SUPPORTED: bool = crate::platform::system::SHARES_MEMORY;

    /// Opens the page at `path`, and creates it with zeros if it does not exist. `bytes` is its size, a multiple of the
    /// processor's page.
    ///
    /// # Errors
    /// `InvalidData` if the file has another size, `StorageFull` if there is no space for it, `Unsupported` where this
    /// crate cannot share memory, and those of the file system.
    pub fn open(path: &Path, bytes: usize) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = private_file(&mut options).open(path)?;
        let len = file.metadata()?.len();
        if len == 0 {
            // Another process may do the same: extending changes no byte.
            file.set_len(bytes as u64)?;
        } else if len != bytes as u64 {
            let what = format!("its size is {len} bytes and not {bytes}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        // On a full disk this fails; a store to memory that has no place in the file would end the process.
        crate::platform::system::allocate(&file, bytes as u64)?;
        let mapping = Mapping::new(&file, bytes)?;
        Ok(Self { mapping })
    }

    /// The words, all but those of the bells.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        let words = self.mapping.words();
        &words[..words.len() - BELL_BYTES / 8]
    }

    /// Bell `number`, below [`BELLS`].
    pub fn bell(&self, number: usize) -> Bell<'_> {
        let words = self.mapping.words();
        Bell(self.mapping.ring(words.len() - BELL_BYTES / 8 + number))
    }
}

/// Wakes the threads of all processes that wait for a change of a page. Waiting takes no processor time where the
/// system has futexes across processes (Linux). Elsewhere a waiting thread looks every [`Bell::INTERVAL`].
#[derive(Clone, Copy)]
pub struct Bell<'a>(&'a Ring);

/// How often a bell was rung when a thread began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard(u32);

impl Bell<'_> {
    /// How often a thread looks where the system cannot wake it.
    pub const INTERVAL: Duration = Duration::from_millis(1);

    /// Begins to listen: a thread that looks for a change after this call, and then waits, misses no ring.
    pub fn listen(self) -> Heard {
        // A ring after this either changes `rung`, or finds `waiting`, see `called`.
        let rung = self.0.rung.load(SeqCst);
        self.0.waiting.store(1, SeqCst);
        Heard(rung)
    }

    /// Waits until the bell rings, at most for `time`. Returns at once if it has since [`Bell::listen`]; may return
    /// earlier.
    pub fn wait(self, heard: Heard, time: Duration) {
        crate::platform::system::wait_for_change(&self.0.rung, heard.0, time);
    }

    /// Waits until `is_done`, at most for `time`; returns the last answer of `is_done`. A change is noticed at the
    /// latest when the bell is rung after it.
    pub fn wait_until(self, time: Duration, mut is_done: impl FnMut() -> bool) -> bool {
        let until = Instant::now().checked_add(time);
        loop {
            let heard = self.listen();
            if is_done() {
                return true;
            }
            let left = until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return false;
            }
            self.wait(heard, left);
        }
    }

    /// Wakes all waiting threads. Without one this is one load: what is announced must be a [`SeqCst`] store or the
    /// work of the system, or a fence must follow it, so that a thread that begins to listen after that load sees it.
    pub fn ring(self) {
        if self.called() {
            crate::platform::system::wake(&self.0.rung, u32::MAX);
        }
    }

    /// Wakes one of the waiting threads, if there is one: for what only one of them can have. If that thread ends
    /// before it has rung for the next one, the others are not woken, so that they have to look now and then.
    pub fn ring_one(self) {
        if self.called() && crate::platform::system::wake(&self.0.rung, 1) > 0 {
            // There may be others.
            self.0.waiting.store(1, SeqCst);
        }
    }

    /// Counts a ring if threads may wait; returns whether they do. In this order: a thread that begins to listen
    /// between the two stays noted as waiting, and sees the change that is announced.
    fn called(self) -> bool {
        if self.0.waiting.load(SeqCst) == 0 {
            return false;
        }
        let waiting = self.0.waiting.swap(0, SeqCst) != 0;
        self.0.rung.fetch_add(1, SeqCst);
        waiting
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::Ordering::Relaxed, thread};

    use super::*;

    const BYTES: usize = 1 << 16;

    #[test]
    fn two_mappings_share_words_and_bells() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page");
        let one = SharedPage::open(&path, BYTES).expect("a page");
        let other = SharedPage::open(&path, BYTES).expect("a page");
        assert_eq!(one.words().len(), (BYTES - BELL_BYTES) / 8);
        one.words()[5].store(7, Relaxed);
        assert_eq!(other.words()[5].load(Relaxed), 7);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let is_done = || other.words()[0].load(SeqCst) == 1_000;
                other.bell(3).wait_until(Duration::from_secs(60), is_done)
            });
            for _ in 0..1_000 {
                one.words()[0].fetch_add(1, SeqCst);
                one.bell(3).ring();
            }
            assert!(waiter.join().expect("no panic"));
        });
        let began = Instant::now();
        assert!(!one.bell(0).wait_until(Duration::from_millis(20), || false));
        assert!(began.elapsed() >= Duration::from_millis(20));
    }

    /// The words of a bell, the change that is announced, and where each thread is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    struct Model {
        changes: u32,
        rung: u32,
        is_waiting: bool,
        /// Steps that each of two ringers has made: change, look, swap, count, wake. One that finds no waiting thread
        /// when it looks is done.
        ringers: [u8; 2],
        /// Whether their swap has found a waiting thread.
        found: [bool; 2],
        /// The next step of the listener: load, store, look, sleep; 4: asleep, 5: done.
        listener: u8,
        heard: u32,
    }

    impl Model {
        fn ring(mut self, at: usize) -> Option<Self> {
            match self.ringers[at] {
                0 => self.changes += 1,
                1 if !self.is_waiting => self.ringers[at] = 4,
                1 => {}
                2 => self.found[at] = std::mem::take(&mut self.is_waiting),
                3 => self.rung += 1,
                4 if self.found[at] && self.listener == 4 => self.listener = 0,
                4 => {}
                _ => return None,
            }
            self.ringers[at] += 1;
            Some(self)
        }

        /// A step of a thread that waits for both changes.
        fn listen(mut self) -> Option<Self> {
            self.listener = match self.listener {
                0 => {
                    self.heard = self.rung;
                    1
                }
                1 => {
                    self.is_waiting = true;
                    2
                }
                2 if self.changes == 2 => 5,
                2 => 3,
                3 if self.heard == self.rung => 4,
                3 => 0,
                _ => return None,
            };
            Some(self)
        }
    }

    /// The steps of [`Bell::listen`], [`Bell::wait`] and [`Bell::ring`] in every order: a thread that waits for the
    /// changes of two others is not asleep at the end.
    #[test]
    fn no_order_of_steps_loses_a_ring() {
        let start = Model {
            changes: 0,
            rung: 0,
            is_waiting: false,
            ringers: [0; 2],
            found: [false; 2],
            listener: 0,
            heard: 0,
        };
        let mut seen = std::collections::HashSet::from([start]);
        let mut left = vec![start];
        while let Some(model) = left.pop() {
            let next = [model.ring(0), model.ring(1), model.listen()];
            let has_ended = next.iter().all(Option::is_none);
            assert!(!has_ended || model.listener == 5, "{model:?}");
            let new = next.into_iter().flatten().filter(|next| seen.insert(*next));
            left.extend(new);
        }
        assert!(seen.len() > 100, "{}", seen.len());
    }

    #[test]
    fn a_file_of_another_size_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("page");
        std::fs::write(&path, [1; 100]).expect("a file");
        let refused = SharedPage::open(&path, BYTES).expect_err("another size");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert_eq!(std::fs::read(&path).expect("unchanged"), [1; 100]);
    }
}
