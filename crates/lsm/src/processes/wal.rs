//! The write-ahead log of a database: a private one, or a shared one.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_shared_log::{LogError, LogProcess, SharedLog};
use isomer_storage::sync::{Condvar, Mutex};
use isomer_storage::{LogClock, LogPoint, StorageError, Version};
use isomer_vfs::{BootTime, Time as _};

use super::{Lease, ManifestNumbers};
use crate::{
    log::{Failure, Keep, Log},
    state::{LogEnd, Sealed},
};

/// Marks of times that are kept for the versions of the retention period.
const MARKS: u64 = 1024;

/// Where commits are before they are in tables.
pub enum Wal {
    /// A private log: one process has the database open.
    Own(Box<Log>),
    /// A log that processes share. The layer above appends to it.
    Shared(Box<SharedWal>),
}

/// The shared log, as far as this process has applied it.
pub struct SharedWal {
    log: Arc<dyn SharedLog>,
    numbers: Option<Arc<dyn ManifestNumbers>>,
    /// The right to maintain the tables.
    pub lease: Lease,
    applied: Mutex<Applied>,
    /// The time of the log.
    clock: LogClock,
    /// Whether records were applied since the last look at what other processes did.
    is_active: AtomicBool,
    activity: Mutex<Activity>,
    active: Condvar,
    /// Signalled when the threads are to stop, and only then.
    stopping: Condvar,
    /// Whether this process has not applied for long what is in the log: it does not maintain the tables then.
    pub lags: AtomicBool,
    /// Tables adopted from other processes, for statistics.
    pub adoptions: AtomicU64,
    /// Whether a commit has waited in vain for the process that maintains the tables, and nothing was flushed since.
    pub is_stalled: AtomicBool,
    /// Whether the newest tables, at the last look, hold commits that this process has not applied.
    pub tables_are_ahead: AtomicBool,
}

#[derive(Default)]
struct Applied {
    /// Behind the last applied record. Changed after the record was published.
    point: LogPoint,
    last_ms: u64,
    /// Times, ascending, and the last version at each.
    times: VecDeque<(u64, Version)>,
}

#[derive(Default)]
struct Activity {
    stop: bool,
}

impl SharedWal {
    /// A process that has applied what is in tables.
    pub fn new(
        log: Arc<dyn SharedLog>,
        numbers: Option<Arc<dyn ManifestNumbers>>,
        lease: Lease,
        point: LogPoint,
    ) -> Self {
        let applied = Applied {
            point,
            ..Applied::default()
        };
        Self {
            log,
            numbers,
            lease,
            applied: Mutex::new(applied),
            clock: LogClock::default(),
            is_active: AtomicBool::new(false),
            activity: Mutex::default(),
            active: Condvar::new(),
            stopping: Condvar::new(),
            lags: AtomicBool::new(false),
            adoptions: AtomicU64::new(0),
            is_stalled: AtomicBool::new(false),
            tables_are_ahead: AtomicBool::new(false),
        }
    }

    /// The log.
    pub fn log(&self) -> &Arc<dyn SharedLog> {
        &self.log
    }

    /// The place behind the last applied record.
    pub fn applied(&self) -> LogPoint {
        self.applied.lock().point
    }

    /// Time of the last applied commit, in milliseconds since 1970; 0 if none is known.
    pub fn last_ms(&self) -> u64 {
        self.applied.lock().last_ms
    }

    /// Records that everything up to `point` is applied and published; `committed` has the last version and its time.
    /// Times are kept for `window_ms`.
    pub fn note_applied(&self, point: LogPoint, committed: Option<(Version, u64)>, window_ms: u64) {
        let mut applied = self.applied.lock();
        applied.point = point;
        if let Some((version, time_ms)) = committed {
            applied.last_ms = applied.last_ms.max(time_ms);
            let now = applied.last_ms;
            applied.note_time(now, version, window_ms);
        }
        drop(applied);
        if let Some(numbers) = &self.numbers {
            numbers.note_applied(point.next);
        }
        self.wake();
    }

    /// Makes the background thread look.
    pub fn wake(&self) {
        if !self.is_active.load(Ordering::Relaxed) && !self.is_active.swap(true, Ordering::AcqRel) {
            let _activity = self.activity.lock();
            self.active.notify_all();
        }
    }

    /// A version from which on all that were current in the last `age_ms` are; 0 if the times are not known. `clock_ms`
    /// is the time by this process's clock; the log's may be ahead of it.
    pub fn version_since(&self, clock_ms: u64, age_ms: u64) -> Version {
        let applied = self.applied.lock();
        let now_ms = self
            .clock
            .now_ms(clock_ms, applied.last_ms, || BootTime.now());
        let since_ms = now_ms.saturating_sub(age_ms);
        let before = applied.times.iter().rev();
        let mut before = before.skip_while(|(time, _)| *time > since_ms);
        before.next().map_or(0, |(_, version)| *version)
    }

    /// Whether a manifest newer than the one with the sequence `known` may exist. Cheap if the processes publish the
    /// number.
    pub fn may_be_newer(&self, known: u64) -> bool {
        self.numbers
            .as_ref()
            .is_none_or(|numbers| numbers.newest() > known)
    }

    /// The processes that have the log open for writing, if they can be seen.
    pub fn processes(&self) -> Vec<LogProcess> {
        let numbers = self.numbers.as_ref();
        numbers.map_or_else(Vec::new, |numbers| numbers.processes())
    }

    /// Publishes the sequence of a manifest that is durable.
    pub fn raise(&self, sequence: u64) {
        if let Some(numbers) = &self.numbers {
            numbers.raise(sequence);
        }
    }

    /// Waits until records were applied, at most for `time`; returns whether to go on.
    pub fn wait_for_activity(&self, time: Duration) -> bool {
        let mut activity = self.activity.lock();
        if !activity.stop && !self.is_active.load(Ordering::Acquire) {
            self.active.wait_for(&mut activity, time);
        }
        self.is_active.store(false, Ordering::Release);
        !activity.stop
    }

    /// Waits, at most for `time`, until the threads are to stop. Records that are applied do not end it: each commit
    /// would wake the thread otherwise.
    pub fn pause(&self, time: Duration) {
        let mut activity = self.activity.lock();
        if !activity.stop {
            self.stopping.wait_for(&mut activity, time);
        }
    }

    /// Makes the waiting thread stop.
    pub fn stop(&self) {
        self.activity.lock().stop = true;
        self.active.notify_all();
        self.stopping.notify_all();
    }

    /// Makes the records before the position `next` durable.
    pub fn sync(&self, next: u64) -> Result<(), Failure> {
        self.log.sync(next).map_err(|error| match error {
            LogError::Unavailable(_) => Failure::Refused(log_error(error)),
            error => Failure::Unknown(error.to_string()),
        })
    }
}

impl Applied {
    fn note_time(&mut self, now_ms: u64, version: Version, window_ms: u64) {
        if window_ms == 0 {
            return;
        }
        // Of the times before the window the last one is enough.
        while let Some((second, _)) = self.times.get(1)
            && second + window_ms <= now_ms
        {
            self.times.pop_front();
        }
        match self.times.back_mut() {
            // The last version at a time is the one that counts; between two marks, versions count as older.
            Some((time, last)) if *time == now_ms => *last = version,
            Some((time, _)) if time.saturating_add(window_ms / MARKS) > now_ms => {}
            _ => self.times.push_back((now_ms, version)),
        }
    }
}

/// The error for a failed call of the shared log.
pub fn log_error(error: LogError) -> StorageError {
    match error {
        LogError::Damaged(_) => StorageError::Corrupt(error.to_string()),
        error => StorageError::Unavailable(error.to_string()),
    }
}

impl Wal {
    /// The private log.
    ///
    /// # Errors
    /// `Unavailable` if the log is shared: the layer above writes to it, and must not write here.
    pub fn own(&self) -> Result<&Log, StorageError> {
        match self {
            Self::Own(log) => Ok(log),
            Self::Shared(_) => Err(StorageError::Unavailable(
                "this cannot be done while processes share the database: it changes what is not in the shared log"
                    .to_owned(),
            )),
        }
    }

    /// The shared log, if it is one.
    pub fn shared(&self) -> Option<&SharedWal> {
        match self {
            Self::Own(_) => None,
            Self::Shared(wal) => Some(&**wal),
        }
    }

    /// Ends the part of the log that belongs to the active memtable.
    pub fn rotate(&self) -> LogEnd {
        match self {
            Self::Own(log) => LogEnd {
                segment: log.rotate(),
                ..LogEnd::default()
            },
            Self::Shared(wal) => wal.log_end(),
        }
    }

    /// The place from which on the log is needed while a large commit, whose record ends before the position
    /// `record_end` of a shared log, is partly in memtables.
    pub fn within(&self, record_end: u64) -> LogEnd {
        match self {
            Self::Own(log) => LogEnd {
                segment: log.current_segment(),
                ..LogEnd::default()
            },
            Self::Shared(wal) => LogEnd {
                covers: record_end,
                ..wal.log_end()
            },
        }
    }

    /// Makes what tables must not hold before the log has it durable, for memtables up to `newest`.
    pub fn prepare_flush(&self, newest: &Sealed) -> Result<(), Failure> {
        match self {
            Self::Own(log) => {
                // Tables must not hold commits that the change stream could lose.
                log.sync_closed(newest.last)?;
                // Without closing the segments, later damage could not be distinguished from a loss of power.
                log.close_full()
            }
            // A commit in tables that the log could lose would have its version twice.
            Self::Shared(wal) => wal.sync(newest.log_end.covers),
        }
    }

    /// Everything up to `version` is in tables.
    pub fn note_durable(&self, version: Version) {
        if let Self::Own(log) = self {
            log.note_durable(version);
        }
    }

    /// Removes parts of the private log that are not needed any more; those of a shared one are the layer above's.
    pub fn tidy(&self, keep: Keep) -> Result<(), Failure> {
        match self {
            Self::Own(log) => log.tidy(keep),
            Self::Shared(_) => Ok(()),
        }
    }

    /// A version from which on all that were current in the last `age_ms` before `clock_ms` are; 0 if that is unknown.
    pub fn version_since(&self, clock_ms: u64, age_ms: u64) -> Version {
        match self {
            Self::Own(log) => log
                .version_at(clock_ms.saturating_sub(age_ms), Version::MAX)
                .ok()
                .flatten()
                .unwrap_or(0),
            Self::Shared(wal) => wal.version_since(clock_ms, age_ms),
        }
    }

    /// Time of the last commit, in milliseconds since 1970; 0 if none is known.
    pub fn last_ms(&self) -> u64 {
        match self {
            Self::Own(log) => log.last_ms(),
            Self::Shared(wal) => wal.last_ms(),
        }
    }

    /// Creates segments of the private log in advance.
    pub fn prepare(&self) -> Result<(), StorageError> {
        match self {
            Self::Own(log) => log.prepare(),
            Self::Shared(_) => Ok(()),
        }
    }

    /// Gives the space of segments created in advance back.
    pub fn shrink(&self) -> Result<(), StorageError> {
        match self {
            Self::Own(log) => log.shrink(),
            Self::Shared(_) => Ok(()),
        }
    }
}

impl SharedWal {
    fn log_end(&self) -> LogEnd {
        let point = self.applied();
        LogEnd {
            segment: 0,
            point,
            covers: point.next,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, thread, time::Instant};

    use isomer_shared_log::{LogId, MemoryLog};
    use isomer_vfs::SimDisk;

    use super::*;

    /// A thread that pauses between two looks sleeps while commits are applied, and ends at once when it has to.
    #[test]
    fn commits_do_not_end_a_pause() {
        let log = Arc::new(MemoryLog::new(LogId(1), Duration::from_secs(60)));
        let lease = Lease::new(Arc::new(SimDisk::new()), Path::new("database"));
        let wal = SharedWal::new(log, None, lease, LogPoint::default());
        let time = Duration::from_millis(60);
        thread::scope(|scope| {
            let pause = scope.spawn(|| {
                let began = Instant::now();
                wal.pause(time);
                began.elapsed()
            });
            let mut next = 1;
            while !pause.is_finished() {
                next += 1;
                let point = LogPoint { next, hash: 0 };
                wal.note_applied(point, None, 0);
                // The background thread takes note of each.
                wal.is_active.store(false, Ordering::Release);
                thread::yield_now();
            }
            let took = pause.join().expect("no panic");
            assert!(took >= time, "{took:?}");
            let long = scope.spawn(|| wal.pause(Duration::from_secs(60)));
            wal.stop();
            long.join().expect("it ends");
        });
    }

    #[test]
    fn times_of_the_window_are_kept() {
        let mut applied = Applied::default();
        let window = 10_000;
        for step in 1..=50_000 {
            applied.note_time(step, step * 2, window);
        }
        let (first, version) = applied.times[0];
        assert_eq!(version, first * 2);
        assert!((39_900..=40_000).contains(&first), "{first}");
        assert!(
            applied.times.len() as u64 <= MARKS + 200,
            "{}",
            applied.times.len()
        );
        applied.note_time(60_000, 7, 0);
        assert_eq!(
            applied.times.back().map(|(time, _)| *time).unwrap() / 10,
            4999
        );
    }
}
