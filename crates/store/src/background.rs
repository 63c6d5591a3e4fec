//! The engine's threads: one flushes memtables, one merges tables, one makes segments of the log ahead.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use isomer_storage::StorageError;

use crate::core::Core;

/// After a failure it is tried again after so long.
const PATIENCE: Duration = Duration::from_millis(250);

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
                .spawn(move || run(&core))
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
        self.core.signal(|signals| signals.stop = true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has poisoned nothing that is still used.
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
            if core.is_poisoned() {
                return;
            }
            let mut signals = core.signals.lock();
            core.signalled.wait_for(&mut signals, PATIENCE);
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

fn merge(core: &Core) {
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
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => {
                    // Nothing is lost; a merge that cannot go on makes reads slower. It is tried again.
                    let mut signals = core.signals.lock();
                    if signals.stop {
                        return;
                    }
                    core.signalled.wait_for(&mut signals, PATIENCE);
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
