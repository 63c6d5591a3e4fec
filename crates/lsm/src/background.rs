//! The engine's threads: one flushes memtables, one compacts tables, one creates log segments in advance.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use isomer_storage::StorageError;

use crate::{core::Core, processes};

/// After a failure, the wait before the next attempt,
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(250);
/// which doubles with each further failure, up to this: a compaction may have read and written much before it
/// failed.
const MAX_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// A memtable that received no commits for this long is flushed, to free its memory.
const IDLE: Duration = Duration::from_secs(2);

/// The threads, until dropped.
pub struct Background {
    core: Arc<Core>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts them.
    pub fn start(core: &Arc<Core>) -> Result<Self, StorageError> {
        let mut background = Self {
            core: core.clone(),
            threads: Vec::new(),
        };
        for (name, run) in [
            ("lsm-flush", flush as fn(&Core)),
            ("lsm-compact", compact),
            match core.wal.shared() {
                Some(_) => ("lsm-follow", processes::run),
                None => ("lsm-log", prepare),
            },
        ] {
            let core = core.clone();
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    if catch_unwind(AssertUnwindSafe(|| run(&core))).is_err() {
                        // Threads that wait for this one get an error instead of waiting forever.
                        core.give_up("its background thread panicked");
                    }
                })
                .map_err(|error| {
                    StorageError::Unavailable(format!(
                        "a thread for background work cannot be started: {error}"
                    ))
                })?;
            background.threads.push(thread);
        }
        Ok(background)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.core.tree.stop();
        if let Some(limiter) = &self.core.limiter {
            limiter.stop();
        }
        self.core.signal(|signals| signals.stop = true);
        if let Some(wal) = self.core.wal.shared() {
            wal.stop();
        }
        for thread in self.threads.drain(..) {
            // The panic hook has reported a panic.
            let _ = thread.join();
        }
    }
}

thread_local! {
    static FLUSHES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this thread flushes, so that its writes count as progress of the flush.
pub fn is_flushing() -> bool {
    FLUSHES.get()
}

fn flush(core: &Core) {
    FLUSHES.set(true);
    let mut seen = 0;
    loop {
        {
            let mut signals = core.signals.lock();
            while !signals.flush && !signals.stop {
                if !core.is_filling() {
                    core.signalled.wait(&mut signals);
                } else if core.signalled.wait_for(&mut signals, IDLE).timed_out() {
                    drop(signals);
                    core.seal_idle(&mut seen);
                    signals = core.signals.lock();
                }
            }
            if signals.stop {
                return;
            }
            signals.flush = false;
        }
        if core.flush_all_sealed().is_err() {
            core.stop_if_tree_failed();
            if core.is_poisoned() {
                return;
            }
            // The condition variable is notified for other reasons as well: that does not shorten the wait.
            let until = Instant::now() + FIRST_RETRY_PAUSE;
            let mut signals = core.signals.lock();
            while !signals.stop && !core.signalled.wait_until(&mut signals, until).timed_out() {}
            signals.flush = true;
        }
    }
}

/// Creates log segments before they are needed: a writer that had to create one would wait for its syncs.
fn prepare(core: &Core) {
    loop {
        {
            let mut signals = core.signals.lock();
            while !signals.prepare && !signals.stop {
                core.signalled.wait(&mut signals);
            }
            if signals.stop {
                return;
            }
            signals.prepare = false;
        }
        // If that fails, the writer creates one itself, or gets the error.
        let _ = core.wal.prepare();
    }
}

/// How much the priority of compactions is lowered.
const NICE: i32 = 5;

/// Lowers the thread's priority, so that commits and reads go first if processors are few: their longest waits
/// were for a processor used by a compaction.
fn lower_priority() {
    isomer_vfs::process::lower_thread_priority(NICE);
}

fn compact(core: &Core) {
    lower_priority();
    let mut pause = FIRST_RETRY_PAUSE;
    loop {
        {
            let mut signals = core.signals.lock();
            while !signals.compact && !signals.stop {
                core.signalled.wait(&mut signals);
            }
            if signals.stop {
                return;
            }
            signals.compact = false;
        }
        // The process that maintains the tables compacts them.
        while !core.follows() {
            match core.tree.compact_once(core) {
                Ok(true) => pause = FIRST_RETRY_PAUSE,
                Ok(false) => break,
                Err(error) => {
                    // No data is lost; reads become slower while compaction fails. It is retried.
                    core.note_merge_trouble(&error);
                    core.stop_if_tree_failed();
                    let until = Instant::now() + pause;
                    pause = (pause * 2).min(MAX_RETRY_PAUSE);
                    let mut signals = core.signals.lock();
                    while !signals.stop && !core.is_poisoned() {
                        if core.signalled.wait_until(&mut signals, until).timed_out() {
                            break;
                        }
                    }
                    if signals.stop || core.is_poisoned() {
                        return;
                    }
                    signals.compact = true;
                    break;
                }
            }
            if core.signals.lock().stop {
                return;
            }
        }
    }
}
