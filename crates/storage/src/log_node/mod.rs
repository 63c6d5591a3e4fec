//! A database that several processes have open: each is a node on a shared log, whose records are groups of commits.
//!
//! A group is appended, applied here, which makes it visible, and then synced without a lock, if one of its members is
//! to be durable. Other processes may see a commit before it is durable; each later synced commit of any process is
//! behind it in the log, so that none can become durable without it.
//!
//! A transaction begins after everything in the log was applied: usually one look at the end of the log. A thread
//! applies commits of other processes as they arrive, for hooks. The log is also the change stream and the table of
//! times; [`Shared::trim_log`] removes what nothing needs any more.

mod follower;
mod history;
mod log_clock;
mod machine;
mod options;
mod record;
#[cfg(test)]
mod tests;

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_shared_log::{LogError, LogNode, NodeError, Options, Position, RecordHash, SharedLog};

use self::{
    follower::Follower,
    history::{History, log_error},
    log_clock::LogTime,
    machine::{Change, Load, Machine, Refusal, TablesLoad},
};
pub use self::{
    log_clock::LogClock,
    options::{LogRetention, SharedOptions},
    record::{
        GROUP_FORMAT, GroupEncoder, GroupError, GroupHead, GroupRecord, LoggedCommit,
        LoggedFootprint, Watermarks,
    },
};
use crate::{
    Backend, Durability, LogPoint, PairIterator, Statistics, StorageError, StreamEntry, Version,
    View, WriteSet,
    state::{State, Work, copy_of},
    sync::Mutex,
};

/// What a record has in addition to the writes of one transaction, at most: its heads, and some granules.
const RECORD_OVERHEAD_BYTES: usize = 4 << 10;
/// The least number of records that a process trims when it has just opened the log and is alone: for fewer, the locks
/// cost too much.
const MANY_RECORDS: u64 = 1_024;

/// An engine as a node on a shared log.
pub(crate) struct Shared<B: Backend> {
    state: Arc<State<B>>,
    history: Arc<History>,
    node: Mutex<LogNode<Arc<dyn SharedLog>, Machine<B>>>,
    retention: LogRetention,
    log_time: Arc<LogTime>,
    /// [`Backend::log_point`] when the log was trimmed last.
    trimmed_for: AtomicU64,
    /// When the records can be trimmed that were too young at the last trim; `None` if there were none.
    young_until: Mutex<Option<Duration>>,
    /// When this process opened the log.
    opened_at: Duration,
    /// One trim at a time.
    trimming: Mutex<()>,
    follower: Follower,
}

impl<B: Backend> Shared<B> {
    /// A node behind everything that is in the log now.
    pub(crate) fn open(
        backend: B,
        log: Arc<dyn SharedLog>,
        options: SharedOptions,
    ) -> Result<(Arc<State<B>>, Arc<Self>), StorageError> {
        let mut capabilities = backend.capabilities();
        let largest = log.max_record_bytes().saturating_sub(RECORD_OVERHEAD_BYTES);
        capabilities.max_transaction_bytes = capabilities.max_transaction_bytes.min(largest);
        capabilities.several_processes = true;
        capabilities.ingest = false;
        let point = backend.log_point();
        let version = backend.view()?.version();
        let state = State::new(backend, capabilities);
        let history = Arc::new(History::new(log.clone(), &options, point.next, version));
        let last = last_head(&history, point, version)?;
        history.set_trimmed(last.stream.trimmed);
        let log_time = Arc::new(LogTime::new(options.clock.clone(), options.time.clone()));
        let machine = Machine::new(state.clone(), history.clone(), log_time.clone(), last);
        let random = options.random.clone();
        let writer = random();
        // Attempts of this node differ by the low half, and those of two nodes by the high one.
        let high = u128::from(random()) << 64;
        let node_options = Options {
            writer,
            nonces: Box::new(move || high | u128::from(random())),
            time: options.time.clone(),
            retry: options.retry,
        };
        let hash = RecordHash(point.hash);
        let node = LogNode::open(log, machine, point.next, hash, node_options);
        let mut node = node.map_err(|error| history_error(&history, error))?;
        node.catch_up()
            .map_err(|error| history_error(&history, error))?;
        // Earlier processes may have left what was too young.
        let opened_at = history.now();
        let left = point.next.saturating_sub(history.first()?);
        let young_until = match left >= MANY_RECORDS {
            true => opened_at,
            false => opened_at + history.log().grace(),
        };
        let shared = Arc::new(Self {
            state: state.clone(),
            history,
            node: Mutex::new(node),
            retention: options.retention,
            log_time,
            trimmed_for: AtomicU64::new(point.next),
            young_until: Mutex::new(Some(young_until)),
            opened_at,
            trimming: Mutex::default(),
            follower: Follower::default(),
        });
        if options.follow {
            shared.follow()?;
        }
        Ok((state, shared))
    }

    /// Stops following, and makes what was committed durable as far as that is possible.
    pub(crate) fn close(&self) {
        self.follower.stop(self.history.log());
        let durable = self.history.log().durable();
        if durable.is_ok_and(|durable| durable < self.history.applied()) {
            // A commit whose durability was promised is durable, so nothing is lost if this fails.
            let _ = self.sync();
        }
    }

    /// The place behind what is applied.
    pub(crate) fn applied(&self) -> LogPoint {
        let (next, hash) = self.node.lock().applied();
        LogPoint { next, hash: hash.0 }
    }

    /// Applies each commit of any process that has returned before this call.
    pub(crate) fn catch_up(&self) -> Result<(), StorageError> {
        if let Ok(end) = self.history.log().end()
            && end == self.history.applied()
        {
            return Ok(());
        }
        let caught_up = self.node.lock().catch_up();
        caught_up.map_err(|error| self.error(error))
    }

    /// Commits the group; returns one outcome per member.
    pub(crate) fn commit_group(&self, group: &[&Work<B>]) -> Vec<Result<Version, StorageError>> {
        let (single, several);
        let changes: &[Change<'_, B>] = match group {
            // The usual case allocates nothing.
            [work] => {
                single = [Change::Commit(work)];
                &single
            }
            _ => {
                let all = group.iter().map(|work| Change::Commit(work));
                several = all.collect::<Vec<_>>();
                &several
            }
        };
        let mut results = Vec::with_capacity(group.len());
        let mut sync_to = None;
        let mut node = self.node.lock();
        while let Some(rest) = changes.get(results.len()..).filter(|rest| !rest.is_empty()) {
            let done = results.len();
            match node.commit_unsynced(rest) {
                Ok(outcomes) => {
                    let mut version = node.machine().first_version();
                    for (outcome, work) in outcomes.into_iter().zip(&group[done..]) {
                        results.push(match outcome {
                            Ok(at) => {
                                if work.durability == Durability::Synced {
                                    sync_to = Some(at + 1);
                                }
                                version += 1;
                                Ok(version - 1)
                            }
                            Err(refusal) => Err(refusal.into()),
                        });
                    }
                }
                Err(NodeError::Log(error @ LogError::TooLarge { .. })) => {
                    results.push(Err(log_error(error)));
                }
                Err(error) => {
                    let error = self.error(error);
                    results.extend(rest.iter().map(|_| Err(copy_of(&error))));
                }
            }
        }
        drop(node);
        self.follower.note_group();
        let conflicts = results.iter();
        let conflicts = conflicts.filter(|it| matches!(it, Err(StorageError::Conflict { .. })));
        self.state.count_conflicts(conflicts.count());
        if let Some(upto) = sync_to
            && let Err(error) = self.sync_to(upto)
        {
            for (result, work) in results.iter_mut().zip(group) {
                if result.is_ok() && work.durability == Durability::Synced {
                    *result = Err(copy_of(&error));
                }
            }
        }
        results
    }

    /// Makes the records below `upto`, which are committed, durable.
    fn sync_to(&self, upto: Position) -> Result<(), StorageError> {
        let synced = self.history.call(|log| log.sync(upto));
        synced.map_err(|error| {
            StorageError::CommitUnknown(format!(
                "the commit is visible, and may be lost with the power: {error}"
            ))
        })
    }

    /// Makes all commits so far durable, also those of other processes that are not applied here yet.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let synced = self.history.call(|log| log.sync(log.end()?));
        synced.map_err(log_error)
    }

    /// See [`crate::Engine::ingest`]. It conflicts with everything that began before.
    pub(crate) fn ingest(
        &self,
        pairs: &mut PairIterator<'_>,
        stream: &[u8],
    ) -> Result<Version, StorageError> {
        match self.state.backend.hold_alone(Duration::ZERO) {
            Ok(Some(_alone)) => self.ingest_tables(pairs, stream),
            // The others need the pairs from the log.
            Ok(None) | Err(StorageError::NeedsAlone { .. }) => self.ingest_record(pairs, stream),
            Err(error) => Err(error),
        }
    }

    /// A bulk load into tables; no other process has the database open.
    fn ingest_tables(
        &self,
        pairs: &mut PairIterator<'_>,
        stream: &[u8],
    ) -> Result<Version, StorageError> {
        let mut node = self.node.lock();
        node.catch_up().map_err(|error| self.error(error))?;
        let load = TablesLoad {
            version: self.state.next_version()?,
            stream: stream.to_vec(),
            appended: Cell::new(None),
        };
        let loaded = self.state.backend.load(load.version, pairs, &mut || {
            let committed = self.commit_alone(&mut node, Change::Tables(&load));
            match (load.appended.get(), committed) {
                (Some((time_ms, after)), _) => {
                    self.sync_to(after.next)?;
                    Ok((time_ms, after))
                }
                (None, Err(error)) => Err(error),
                (None, Ok(_)) => unreachable!("a commit is appended"),
            }
        });
        if loaded.is_err()
            && load.appended.get().is_some()
            && let Some(hook) = self.state.hook()
        {
            hook.unsettled(load.version);
        }
        loaded?;
        drop(node);
        self.follower.note_group();
        Ok(load.version)
    }

    /// A bulk load as one large transaction.
    fn ingest_record(
        &self,
        pairs: &mut PairIterator<'_>,
        stream: &[u8],
    ) -> Result<Version, StorageError> {
        let max = self.state.capabilities.max_transaction_bytes;
        let mut writes = WriteSet::new();
        for pair in pairs {
            let (key, value) = pair?;
            writes.put(&key, &value);
            let size = writes.content_bytes() + stream.len();
            if size > max {
                return Err(StorageError::TooLarge {
                    what: "a bulk load into a shared database",
                    size,
                    max,
                    advice: "load in smaller parts, or end the other processes that have the database open",
                });
            }
        }
        let load = Load {
            writes,
            stream: stream.to_vec(),
        };
        load.writes.prepare();
        let mut node = self.node.lock();
        node.catch_up().map_err(|error| self.error(error))?;
        let (at, version) = self.commit_alone(&mut node, Change::Load(&load))?;
        drop(node);
        self.sync_to(at + 1)?;
        Ok(version)
    }

    /// Commits something that is alone in its record; returns its position and its version.
    fn commit_alone(
        &self,
        node: &mut LogNode<Arc<dyn SharedLog>, Machine<B>>,
        change: Change<'_, B>,
    ) -> Result<(Position, Version), StorageError> {
        let outcomes = node.commit_unsynced(&[change]);
        let outcomes = outcomes.map_err(|error| self.error(error))?;
        match outcomes.into_iter().next() {
            Some(Ok(at)) => Ok((at, node.machine().first_version())),
            Some(Err(Refusal::Error(error))) => Err(error),
            Some(Err(Refusal::Needless)) | None => Ok((0, 0)),
        }
    }

    /// See [`crate::Engine::version_at`].
    pub(crate) fn version_at(&self, time_ms: u64) -> Result<Option<Version>, StorageError> {
        self.catch_up()?;
        let found = self.history.at_time(time_ms)?;
        Ok(found.map(|found| found.next_version - 1))
    }

    /// See [`crate::Engine::stream`].
    pub(crate) fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        self.catch_up()?;
        let upto = match durable_only {
            true => self.history.durable_version()?,
            false => self.state.next_version()? - 1,
        };
        self.history.stream(after, upto, max_entries, max_bytes)
    }

    /// See [`crate::Engine::stream_trimmed`].
    pub(crate) fn stream_trimmed(&self) -> Result<Version, StorageError> {
        self.catch_up()?;
        Ok(self.history.trimmed())
    }

    /// See [`crate::Engine::trim_stream`].
    pub(crate) fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        let mut node = self.node.lock();
        node.catch_up().map_err(|error| self.error(error))?;
        self.commit_alone(&mut node, Change::Trim(upto))?;
        drop(node);
        self.trim_log()
    }

    /// Whether more of the log could be trimmed than when it was trimmed last.
    fn may_trim(&self) -> bool {
        self.state.backend.log_point().next > self.trimmed_for.load(Ordering::Relaxed)
            || self.time_to_trim().is_some_and(|time| time.is_zero())
    }

    /// The time until records can be trimmed that were too young for it; `None` if there are none.
    fn time_to_trim(&self) -> Option<Duration> {
        let until = *self.young_until.lock();
        until.map(|until| until.saturating_sub(self.history.now()))
    }

    /// See [`crate::Optimistic::trim_log`].
    pub(crate) fn trim_log(&self) -> Result<(), StorageError> {
        let _trimming = self.trimming.lock();
        let point = self.state.backend.log_point().next;
        self.trimmed_for.store(point, Ordering::Relaxed);
        *self.young_until.lock() = None;
        if point <= self.history.first()? {
            return Ok(());
        }
        let below = self.unneeded_below(point)?;
        let trimmed = self.node.lock().trim(below);
        let mut first = trimmed.map_err(|error| self.error(error))?;
        // In its first grace period a process knows no record to be old enough. Processes that live for less than that,
        // one after the other, would never trim.
        let is_new = self.history.now() < self.opened_at + self.history.log().grace();
        if is_new
            && first + MANY_RECORDS <= below
            && let Ok(Some(_alone)) = self.state.backend.hold_alone(Duration::ZERO)
        {
            let trimmed = self.node.lock().trim_alone(below);
            first = trimmed.map_err(|error| self.error(error))?;
        }
        if first < below {
            let again = self.history.now() + self.history.log().grace();
            *self.young_until.lock() = Some(again);
        }
        Ok(())
    }

    /// Trims the log without the grace period if no other process has the database open, and ends the segment that is
    /// left: after a compaction, the files are what is needed.
    pub(crate) fn compact_log(&self) -> Result<(), StorageError> {
        let alone = match self.state.backend.hold_alone(Duration::ZERO) {
            Ok(Some(alone)) => alone,
            // The others may need what is there, for a while.
            Ok(None) | Err(StorageError::NeedsAlone { .. }) => return self.trim_log(),
            Err(error) => return Err(error),
        };
        let _trimming = self.trimming.lock();
        let point = self.state.backend.log_point().next;
        // The last record stays, and with it the segment: once it is alone in there, a note begins another one.
        for appends in [true, false] {
            if point <= self.history.first()? {
                break;
            }
            let below = self.unneeded_below(point)?;
            let mut node = self.node.lock();
            let first = node.trim_alone(below).map_err(|error| self.error(error))?;
            if appends && first + 1 >= self.history.applied() {
                self.commit_alone(&mut node, Change::Note)?;
            }
        }
        drop(alone);
        Ok(())
    }

    /// The position below which neither the change stream nor the retention options need the log, of which the tables
    /// hold everything before `point`. Drops entries of the change stream beyond the limits first.
    fn unneeded_below(&self, point: Position) -> Result<Position, StorageError> {
        self.drop_entries()?;
        let now_ms = self.now_ms();
        let without_entries = self.node.lock().machine().stream().without_entries;
        // At most the last record, which stays: it names the watermarks of the change stream.
        let streamed = self.history.position_of(without_entries + 1)?;
        let mut below = point.min(streamed);
        if self.retention.versions_ms > 0 {
            let kept = now_ms.saturating_sub(self.retention.versions_ms);
            let found = self.history.at_time(kept)?;
            below = found.map_or(0, |found| below.min(found.at));
        }
        Ok(below)
    }

    fn now_ms(&self) -> u64 {
        let last_ms = self.node.lock().machine().last_ms();
        self.log_time.now_ms(last_ms)
    }

    /// Drops the entries of the change stream beyond the limits of the retention options.
    fn drop_entries(&self) -> Result<(), StorageError> {
        let LogRetention {
            stream_ms,
            stream_bytes,
            ..
        } = self.retention;
        let mut upto = 0;
        if let Some(stream_ms) = stream_ms {
            let before = self.now_ms().saturating_sub(stream_ms).checked_sub(1);
            let found = match before {
                Some(before) => self.history.at_time(before)?,
                None => None,
            };
            upto = found.map_or(0, |found| found.next_version - 1);
        }
        if let Some(max_bytes) = stream_bytes {
            upto = upto.max(self.history.version_before_bytes(max_bytes)?);
        }
        let mut node = self.node.lock();
        if upto > node.machine().stream().without_entries {
            self.commit_alone(&mut node, Change::Trim(upto))?;
        }
        Ok(())
    }

    /// Adds what is in the log to the statistics of the backend.
    pub(crate) fn add_statistics(&self, statistics: &mut Statistics) -> Result<(), StorageError> {
        statistics.stream_entries = self.history.stream_entries()?;
        let (first, next) = (self.history.first()?, self.history.applied());
        let details = [("log_first_record", first), ("log_next_record", next)];
        statistics
            .details
            .extend(details.map(|(name, value)| (name.to_owned(), value.to_string())));
        Ok(())
    }

    fn error(&self, error: NodeError) -> StorageError {
        history_error(&self.history, error)
    }
}

/// An error of a node, with the reason why it could not apply a record.
fn history_error(history: &History, error: NodeError) -> StorageError {
    match error {
        NodeError::Log(error) => log_error(error),
        NodeError::Record(_) => StorageError::Corrupt(error.to_string()),
        NodeError::CommitUnknown(_) => StorageError::CommitUnknown(error.to_string()),
        NodeError::Failed => StorageError::Unavailable(match history.failure() {
            Some(reason) => format!("{error} ({reason})"),
            None => error.to_string(),
        }),
        NodeError::NoRoom(_) | NodeError::Fenced | NodeError::Apply { .. } => {
            StorageError::Unavailable(error.to_string())
        }
    }
}

/// The head of the record before `point`, where `version` is published, or behind it if that one is trimmed: it names
/// the watermarks of the change stream. The last record of a log is never trimmed.
fn last_head(
    history: &History,
    point: LogPoint,
    version: Version,
) -> Result<GroupHead, StorageError> {
    let found = match point.next {
        0 | 1 => None,
        next => match history.read(next - 1)? {
            Some(found) => Some(found),
            None => history.read(next)?,
        },
    };
    Ok(found.map_or_else(
        || GroupHead {
            time_ms: 0,
            first: version + 1,
            stream: Watermarks::default().after_trim(version),
        },
        |found| found.head,
    ))
}

impl From<Refusal> for StorageError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Error(error) => error,
            Refusal::Needless => Self::Invalid("nothing was to be changed".to_owned()),
        }
    }
}
