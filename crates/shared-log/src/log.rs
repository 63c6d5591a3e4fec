//! The contract of a shared log.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Position of a record in a log. The first one is 1; 0 is before all records.
pub type Position = u64;

/// Identifies a log; a random number that is drawn when the log is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogId(pub u128);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Outcome of an attempt to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Append {
    /// The record is at the position. It is durable only after [`SharedLog::sync`].
    Appended,
    /// Another record, or an earlier attempt with this one, is at the position.
    Taken,
    /// The record may be at the position, get there later, or never; with the reason.
    Unknown(String),
}

/// Why a call of a log failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The log cannot be reached now; nothing was done.
    #[error("the shared log cannot be reached: {0}: try again")]
    Unavailable(String),
    /// The log refuses the call, and would refuse it again; nothing was done.
    #[error("the shared log refuses this: {0}")]
    Refused(String),
    /// Records below `first` are trimmed.
    #[error("the shared log begins at {first}: restore the newest checkpoint and read from there")]
    Trimmed {
        /// The first position that is left.
        first: Position,
    },
    /// An append would leave a gap.
    #[error(
        "the record {at} is after the end of the shared log, {end}: read the log up to its end first"
    )]
    Gap {
        /// The position that was asked for.
        at: Position,
        /// The position after the last record.
        end: Position,
    },
    /// A record is larger than the log takes.
    #[error(
        "a record of {bytes} bytes exceeds the {max} bytes of the shared log: commit in smaller parts"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// The content of the log is not what was appended.
    #[error("the shared log is damaged: {0}: restore it from a backup")]
    Damaged(String),
}

/// A sequence of records without gaps, to which several nodes append.
///
/// At each position there is at most one record, and all nodes see the same one. `append`, `read`, `end`, `first` and
/// `trim` are linearizable: a record that any call on any node has returned, counted or found to be there is counted by
/// every later call, and `end` is at least `first`. Calls may come from several threads.
///
/// Every call may fail with [`LogError::Unavailable`], after which it can be repeated, and with [`LogError::Refused`],
/// after which it cannot.
pub trait SharedLog: Send + Sync + fmt::Debug {
    /// Appends `record` at `at` if that position is free. `at` is at most the position after the last record.
    ///
    /// # Errors
    /// `Gap` beyond the end, `TooLarge`, `Unavailable` and `Refused` if the record certainly was not and will not be
    /// appended. A log may take, or refuse with `Trimmed`, a record below its first position: it is not part of the log
    /// then.
    ///
    /// An implementation that repeats a request within one call returns `Unknown` after a quarter of the grace period:
    /// later, the position could have been filled and trimmed in between.
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError>;

    /// Records from `from` on in order, of at most `max_bytes` together, but at least one, if there is one. Empty at
    /// the end of the log.
    ///
    /// # Errors
    /// `Trimmed` whenever `from` is below [`SharedLog::first`], also if something was stored there since;
    /// `Unavailable`.
    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError>;

    /// Asks the other nodes to append nothing for `time`, so that this node can append a record that takes it long to
    /// make: their appends wait in the meantime, or are `Unavailable`. It ends when `time` is over, with
    /// [`SharedLog::release`], or when this node's process ends. Waits while another node has a reservation, at most
    /// for `time`; one that this node has is renewed. The caller reads what was appended before it relies on the end.
    ///
    /// It is a hint, which no correctness may depend on: another node can be within an append that began before, or
    /// not know of the reservation. An implementation that cannot tell the other nodes at less cost than that of some
    /// appends ignores it, as this one does. A store of objects would keep it as an object with a time, which nodes
    /// read when they lose a position, and not for each append.
    ///
    /// # Errors
    /// `Unavailable` and `Refused`; nothing is reserved then.
    fn reserve(&self, time: Duration) -> Result<(), LogError> {
        let _ = time;
        Ok(())
    }

    /// Ends the reservation of this node, if it has one.
    fn release(&self) {}

    /// The position after the last record: at least that of every record whose append has returned [`Append::Appended`]
    /// on any node before this call.
    fn end(&self) -> Result<Position, LogError>;

    /// Returns when the records below `upto` survive a loss of power of all machines. A log whose appends are durable
    /// returns at once.
    fn sync(&self, upto: Position) -> Result<(), LogError>;

    /// The position below which the records are known to survive a loss of power of all machines; it may be lower than
    /// it could be. Cheap.
    fn durable(&self) -> Result<Position, LogError>;

    /// The first position that is not trimmed.
    fn first(&self) -> Result<Position, LogError>;

    /// Removes the records below `below`, which some checkpoint contains. Raises [`SharedLog::first`] before it removes
    /// anything. After an error, a part may be removed, or may be removed later.
    ///
    /// # Errors
    /// `Gap` if `below` is above the end, `Unavailable`.
    fn trim(&self, below: Position) -> Result<(), LogError>;

    /// Waits until the end of the log is above `seen`, at most for `time`; returns the end. Costs nothing while nothing
    /// is appended.
    fn wait(&self, seen: Position, time: Duration) -> Result<Position, LogError> {
        self.wait_unless(seen, time, &AtomicBool::new(false))
    }

    /// Like [`SharedLog::wait`], but returns as well once `stop` is set and [`SharedLog::wake`] was called after that.
    fn wait_unless(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError>;

    /// Lets calls of [`SharedLog::wait_unless`] look at `stop` again.
    fn wake(&self);

    /// Largest record in bytes.
    fn max_record_bytes(&self) -> usize;

    /// Identifies the log: every record of a node names it.
    fn id(&self) -> LogId;

    /// The *grace period*: how long a record stays in the log at least after nodes could read it. It is a property of
    /// the log, because nodes that disagreed about it would lose records.
    fn grace(&self) -> Duration;

    /// How often this handle has synced since it was opened, for statistics: waiting syncs share one, also with those
    /// of other processes. 0 if the log does not count them.
    fn syncs(&self) -> u64 {
        0
    }
}

/// Whether a wait is to end, as [`SharedLog::wait_unless`] looks at it.
pub(crate) fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Acquire)
}

impl<L: SharedLog + ?Sized> SharedLog for Arc<L> {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        (**self).append(at, record)
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        (**self).read(from, max_bytes)
    }

    fn reserve(&self, time: Duration) -> Result<(), LogError> {
        (**self).reserve(time)
    }

    fn release(&self) {
        (**self).release();
    }

    fn end(&self) -> Result<Position, LogError> {
        (**self).end()
    }

    fn sync(&self, upto: Position) -> Result<(), LogError> {
        (**self).sync(upto)
    }

    fn durable(&self) -> Result<Position, LogError> {
        (**self).durable()
    }

    fn first(&self) -> Result<Position, LogError> {
        (**self).first()
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        (**self).trim(below)
    }

    fn wait(&self, seen: Position, time: Duration) -> Result<Position, LogError> {
        (**self).wait(seen, time)
    }

    fn wait_unless(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError> {
        (**self).wait_unless(seen, time, stop)
    }

    fn wake(&self) {
        (**self).wake();
    }

    fn max_record_bytes(&self) -> usize {
        (**self).max_record_bytes()
    }

    fn id(&self) -> LogId {
        (**self).id()
    }

    fn grace(&self) -> Duration {
        (**self).grace()
    }

    fn syncs(&self) -> u64 {
        (**self).syncs()
    }
}
