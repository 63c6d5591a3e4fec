//! The engine's threads: one flushes memtables, one merges tables, one makes segments of the log ahead.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use isomer_storage::StorageError;

use crate::core::Core;

/// After a failure it is tried again after so long,
const PATIENCE: Duration = Duration::from_millis(250);
/// and after twice as long each time that it fails again, up to this: a merge may have read and written much before.
const MAX_PATIENCE: Duration = Duration::from_secs(60);

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
            ("store-flush", flush as fn(&Core)),
            ("store-merge", merge),
            ("store-log", prepare),
        ] {
            let core = core.clone();
            let thread = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    if catch_unwind(AssertUnwindSafe(|| run(&core))).is_err() {
                        // Whoever waits for this thread is told, instead of waiting for ever.
                        core.give_up("its work in the background broke off");
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
        for thread in self.threads.drain(..) {
            // A thread that panicked has told so.
            let _ = thread.join();
        }
    }
}

thread_local! {
    static FLUSHES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether this thread flushes, so that what it writes counts as progress of that.
pub fn is_flushing() -> bool {
    FLUSHES.get()
}

fn flush(core: &Core) {
    FLUSHES.set(true);
    loop {
        {
            let mut signals = core.signals.lock();
            while !signals.flush && !signals.stop {
                core.signalled.wait(&mut signals);
            }
            if signals.stop {
                return;
            }
            signals.flush = false;
        }
        if core.flush_noting().is_err() {
            core.heed_tree();
            if core.is_poisoned() {
                return;
            }
            // The other threads are told things meanwhile: that is no reason to try sooner.
            let until = Instant::now() + PATIENCE;
            let mut signals = core.signals.lock();
            while !signals.stop && !core.signalled.wait_until(&mut signals, until).timed_out() {}
            signals.flush = true;
        }
    }
}

/// Makes segments of the log before they are needed: a writer that made one itself would wait for its syncs.
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
        // Where that fails, the writer makes one itself, or is told why it cannot.
        let _ = core.log.prepare();
    }
}

/// How far merges step back behind other threads.
const NICE: i32 = 5;

/// Lets those who commit and read go first where processors are few: what of them waited longest waited for a processor that a
/// merge had. Only Linux knows such a thing for a single thread.
fn step_back() {
    // Where it may not, it goes on as it is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::getpriority_process(None)
        .and_then(|now| rustix::process::setpriority_process(None, now + NICE));
}

fn merge(core: &Core) {
    step_back();
    let mut patience = PATIENCE;
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
        loop {
            match core.tree.compact_once(core) {
                Ok(true) => patience = PATIENCE,
                Ok(false) => break,
                Err(error) => {
                    // Nothing is lost; a merge that cannot go on makes reads slower. It is tried again.
                    core.note_merge_trouble(&error);
                    core.heed_tree();
                    let until = Instant::now() + patience;
                    patience = (patience * 2).min(MAX_PATIENCE);
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
