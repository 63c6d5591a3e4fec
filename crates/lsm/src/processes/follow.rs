//! Following the process that maintains the tables, and taking over from it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use isomer_storage::{StorageError, Version};

use super::{LeaseOutcome, SharedWal};
use crate::{
    core::{Core, no_memory},
    memtable::Memtable,
    state::State,
    tree::Newest,
};

/// Sealed memtables of a follower from which on it asks the maintainer to flush.
const MIN_ASKING: usize = 2;
/// Sealed memtables that a follower keeps before its writers wait.
const MAX_SEALED: usize = 8;
/// How long a follower waits for the maintainer after it has waited in vain for
/// [`LsmOptions::maintainer_patience`](crate::LsmOptions): the maintainer may be stopped.
const MAX_STALLED_WAIT: Duration = Duration::from_millis(200);
/// The pause between two looks while waiting.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// The least pause between two looks of the background thread.
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// How often an idle process looks: whether the maintainer has ended, or has published tables that free disk space.
const IDLE_PAUSE: Duration = Duration::from_secs(10);
/// A process that has applied nothing for this long, although the log has more, lets another one maintain the tables:
/// its part above this engine may have failed.
const MAX_LAG: Duration = Duration::from_secs(10);
/// How often a maintainer with unflushed commits looks whether it is asked to flush.
const ASKED_PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Whether another process maintains the tables.
    pub fn follows(&self) -> bool {
        self.wal.shared().is_some() && !self.tree.maintains()
    }

    /// Does what the other processes ask for: a follower adopts newer tables, and takes over if the maintainer has
    /// ended; the maintainer flushes if it is asked to. Waits for a commit in progress; its thread must not call this.
    pub fn follow(&self) -> Result<(), StorageError> {
        match self.wal.shared() {
            Some(wal) if self.tree.maintains() => {
                match wal.lease.is_asked_for() {
                    true => self.end_maintenance(),
                    false => self.serve_request(wal),
                }
                Ok(())
            }
            _ => self.follow_tables(),
        }
    }

    /// Adopts newer tables, and takes over if the maintainer has ended. Does not wait.
    pub fn follow_tables(&self) -> Result<(), StorageError> {
        let Some(wal) = self.wal.shared() else {
            return Ok(());
        };
        let _one_at_a_time = self.following.lock();
        if self.tree.maintains() {
            return Ok(());
        }
        if wal.may_be_newer(self.tree.sequence()) {
            self.adopt_newer(wal)?;
        }
        if !self.options.read_only
            && !self.is_poisoned()
            && !wal.lags.load(Ordering::Relaxed)
            && !wal.lease.is_asked_for()
            && wal.lease.try_take()? == LeaseOutcome::Here
        {
            // No other process writes the manifest from here on. Until this process has applied everything that is in
            // its tables, it only has the lease.
            if self.adopt_newer(wal)? {
                self.tree.begin_maintenance()?;
                wal.is_stalled.store(false, Ordering::Relaxed);
                wal.raise(self.tree.sequence());
                self.signal(|signals| (signals.flush, signals.compact) = (true, true));
            }
        }
        Ok(())
    }

    /// Adopts the newest tables; returns whether this process has the newest ones now.
    fn adopt_newer(&self, wal: &SharedWal) -> Result<bool, StorageError> {
        let (applied, published) = (wal.applied(), self.shared.published());
        let newest = self.tree.newest(applied, published)?;
        let is_ahead = matches!(newest, Newest::Ahead);
        wal.tables_are_ahead.store(is_ahead, Ordering::Relaxed);
        let newer = match newest {
            Newest::Known => return Ok(true),
            Newest::Ahead => return Ok(false),
            Newest::Found(newer) => newer,
        };
        let (collected_below, upto) = (newer.levels.collected_below, newer.levels.log_point);
        let levels = self.tree.adopt(*newer);
        // Without commits in progress it is known whether the tables hold everything. The committing thread itself,
        // which waits for memory, has sealed its memtable.
        let writer = self.writer.try_lock();
        // The log may have notes behind the last commit, which no flush is for.
        let holds_all = writer.is_some()
            && (wal.applied().next <= upto.next || self.shared.published() <= levels.flushed());
        self.shared
            .change_collected(collected_below, |state| State {
                active: match holds_all {
                    true => Arc::new(Memtable::filling(&self.chunks)),
                    false => state.active.clone(),
                },
                sealed: state
                    .sealed
                    .iter()
                    .filter(|sealed| sealed.log_end.covers > upto.next)
                    .cloned()
                    .collect(),
                levels,
            });
        drop(writer);
        wal.adoptions.fetch_add(1, Ordering::Relaxed);
        wal.is_stalled.store(false, Ordering::Relaxed);
        self.notify_flushed();
        Ok(true)
    }

    /// Makes this process the maintainer: another one hands the lease over, within seconds if it is idle.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] if it does not in time.
    pub fn take_over(&self) -> Result<(), StorageError> {
        let Some(wal) = self.wal.shared() else {
            return Ok(());
        };
        self.check_writable()?;
        self.follow_tables()?;
        let (began, mut asks) = (Instant::now(), false);
        while !self.tree.maintains() && began.elapsed() < self.options.maintainer_patience {
            self.check_poison()?;
            asks = asks || wal.lease.ask_for_handover()?;
            self.follow_tables()?;
            std::thread::sleep(LOOK_PAUSE);
        }
        if asks {
            wal.lease.end_handover();
        }
        self.check_maintains()
    }

    /// Flushes if another process asked for it.
    fn serve_request(&self, wal: &SharedWal) {
        if wal.lease.take_request() {
            let _writer = self.writer.lock();
            if !self.shared.state().active.is_empty() && self.check_writable().is_ok() {
                self.seal(self.shared.published());
            }
        }
    }

    /// Like [`Core::make_room`], while another process maintains the tables: full memtables are kept until that process
    /// has flushed what they hold. If it does not in time, the caller's commit is refused, and later ones wait less
    /// until that process continues.
    pub fn make_room_following(&self, last: Version, need: usize) -> Result<(), StorageError> {
        let Some(wal) = self.wal.shared() else {
            return Ok(());
        };
        let limit = self.options.memtable_bytes;
        let read_only = self.options.read_only;
        // A process that only reads writes no file, and waits for no flush while it has memory.
        let ask = || match read_only {
            true => Ok(()),
            false => wal.lease.request_flush(),
        };
        let began = Instant::now();
        loop {
            let state = self.shared.state();
            let reserved = self.chunks.reserve(need);
            if state.active.bytes() < limit && reserved.is_ok() {
                return Ok(());
            }
            let (active, sealed) = (!state.active.is_empty(), state.sealed.len());
            drop(state);
            // A process that was stopped for long: its memtables can be dropped when it has caught up, not before.
            let is_behind = wal.tables_are_ahead.load(Ordering::Relaxed);
            match reserved {
                // Without threads nothing here follows while it waits.
                Ok(())
                    if sealed < MAX_SEALED
                        || is_behind
                        || read_only
                        || !self.options.background =>
                {
                    self.seal(last);
                    if sealed + 1 >= MIN_ASKING {
                        ask()?;
                    }
                    return Ok(());
                }
                Err(_) if active && sealed == 0 => {
                    self.seal(last);
                    ask()?;
                }
                Err(over) if sealed == 0 => {
                    // A small commit fits into the memory that is always reserved.
                    return match need <= self.chunks.least_bytes() {
                        true => Ok(()),
                        false => Err(no_memory(over)),
                    };
                }
                Err(_) if is_behind => return Err(self.too_far_behind()),
                Err(over) if read_only && wal.lease.holder().is_none() => {
                    return Err(no_memory(over));
                }
                _ => {}
            }
            self.check_poison()?;
            self.follow_tables()?;
            if self.tree.maintains() {
                return self.make_room(last, need);
            }
            if began.elapsed() >= self.patience(wal) {
                wal.is_stalled.store(true, Ordering::Relaxed);
                return Err(self.no_flush(wal, "the memory for commits is full"));
            }
            std::thread::sleep(LOOK_PAUSE);
            self.note_slowed(LOOK_PAUSE);
        }
    }

    /// Waits until the maintainer has flushed everything that this process has applied. Takes over if there is no
    /// maintainer; returns whether it did.
    pub fn flush_following(&self) -> Result<bool, StorageError> {
        let Some(wal) = self.wal.shared() else {
            return Ok(true);
        };
        let (goal, began) = (wal.applied().next, Instant::now());
        let version = self.shared.published();
        let mut asked = false;
        loop {
            self.check_poison()?;
            self.follow_tables()?;
            if self.tree.maintains() {
                return Ok(true);
            }
            let levels = self.tree.current();
            let is_flushed = levels.log_point.next >= goal || levels.flushed() >= version;
            if is_flushed || self.has_nothing() {
                return Ok(false);
            }
            if !std::mem::replace(&mut asked, true) {
                wal.lease.request_flush()?;
            }
            if began.elapsed() >= self.options.maintainer_patience {
                return Err(self.no_flush(wal, "commits are not in tables yet"));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    /// How long a commit waits for the maintainer.
    fn patience(&self, wal: &SharedWal) -> Duration {
        let patience = self.options.maintainer_patience;
        match wal.is_stalled.load(Ordering::Relaxed) {
            true => patience.min(MAX_STALLED_WAIT),
            false => patience,
        }
    }

    /// Whether no memtable holds an entry: only notes were applied since the last flush.
    fn has_nothing(&self) -> bool {
        let state = self.shared.state();
        state.memtables().all(|memtable| memtable.is_empty())
    }

    fn too_far_behind(&self) -> StorageError {
        StorageError::Unavailable(format!(
            "the tables of `{}` hold more commits that this process has not applied than fit into its memory for commits: open the database again",
            self.directory.display()
        ))
    }

    fn no_flush(&self, wal: &SharedWal, what: &str) -> StorageError {
        let holder = match wal.lease.holder() {
            Some(pid) => format!("process {pid}"),
            None => "another process".to_owned(),
        };
        let place = self.directory.display();
        let seconds = self.options.maintainer_patience.as_secs_f64();
        StorageError::Unavailable(format!(
            "{what}, and {holder}, which maintains the tables of `{place}`, has not flushed for {seconds} s: let it continue, or end it"
        ))
    }

    /// Refuses what only the maintainer does.
    pub fn check_maintains(&self) -> Result<(), StorageError> {
        let Some(wal) = self.wal.shared() else {
            return Ok(());
        };
        self.follow_tables()?;
        if self.tree.maintains() {
            return Ok(());
        }
        let holder = match wal.lease.holder() {
            Some(pid) => format!("process {pid} maintains"),
            None => "another process maintains".to_owned(),
        };
        Err(StorageError::Unavailable(format!(
            "{holder} the tables of `{}`: do this there, or end that process",
            self.directory.display()
        )))
    }
}

/// The background thread of a process of a shared database.
pub fn run(core: &Core) {
    let Some(wal) = core.wal.shared() else {
        return;
    };
    let mut behind = None;
    loop {
        let pause = match core.tree.maintains() && !core.has_nothing() {
            true => ASKED_PAUSE,
            false => IDLE_PAUSE,
        };
        if !wal.wait_for_activity(pause) {
            return;
        }
        if core.is_poisoned() {
            core.end_maintenance();
            return;
        }
        if lags(wal, &mut behind) {
            wal.lags.store(true, Ordering::Relaxed);
            core.end_maintenance();
        } else {
            wal.lags.store(false, Ordering::Relaxed);
        }
        if let Err(error) = core.follow() {
            // Reads and commits go on with the tables from before. It is retried.
            core.note_merge_trouble(&error);
        }
        wal.pause(MIN_PAUSE);
    }
}

/// Whether the log has more than this process has applied, and nothing was applied for long. `behind` has the position
/// that was applied, and since when the log is known to have more.
fn lags(wal: &SharedWal, behind: &mut Option<(u64, Instant)>) -> bool {
    let applied = wal.applied().next;
    if wal.log().end().is_ok_and(|end| end <= applied) {
        *behind = None;
        return false;
    }
    match behind {
        Some((position, since)) if *position == applied => since.elapsed() >= MAX_LAG,
        _ => {
            *behind = Some((applied, Instant::now()));
            false
        }
    }
}
