//! The state machine of a node: an engine's state, changed by the group records of the shared log.

use std::{cell::Cell, sync::Arc};

use isomer_shared_log::{Position, ReadRecord, RecordHash, StateMachine, Validated};

use super::{
    history::History,
    log_clock::LogTime,
    record::{GroupEncoder, GroupHead, GroupRecord, LoggedCommit, LoggedFootprint, Watermarks},
};
use crate::{
    Backend, Commit, LogPoint, LoggedEnd, StorageError, Version, View, WriteSet,
    errors::key_exists,
    state::{State, Work},
};

/// Something that becomes a record, or a part of one.
pub(super) enum Change<'t, B: Backend> {
    /// A transaction.
    Commit(&'t Work<B>),
    /// A bulk load: it is alone in its record.
    Load(&'t Load),
    /// A bulk load whose pairs are in tables: it is alone in its record.
    Tables(&'t TablesLoad),
    /// The change stream is to be trimmed up to and including this version: it is alone in its record.
    Trim(Version),
    /// A record that changes nothing, so that those before it can be trimmed: it is alone in its record.
    Note,
}

/// The pairs of a bulk load, whose keys must not exist, and its entry of the change stream.
pub(super) struct Load {
    pub(super) writes: WriteSet,
    pub(super) stream: Vec<u8>,
}

/// The commit of a bulk load whose pairs are in tables.
pub(super) struct TablesLoad {
    /// The version of the pairs in the tables.
    pub(super) version: Version,
    pub(super) stream: Vec<u8>,
    /// The time of its record and the place behind it, once it is in the log.
    pub(super) appended: Cell<Option<(u64, LogPoint)>>,
}

/// Why something does not become a record.
pub(super) enum Refusal {
    /// For this reason.
    Error(StorageError),
    /// It would change nothing.
    Needless,
}

/// The machine. Only its node calls it, one call at a time.
pub(super) struct Machine<B: Backend> {
    state: Arc<State<B>>,
    history: Arc<History>,
    log_time: Arc<LogTime>,
    /// Watermarks of the change stream behind the last record.
    stream: Watermarks,
    /// Time of the last record.
    last_ms: u64,
    /// The head of the record that was validated last.
    validated: GroupHead,
    /// Memory for the next record.
    spare: Vec<u8>,
}

impl<B: Backend> Machine<B> {
    /// The machine of `state` behind a record with the head `last`.
    pub(super) fn new(
        state: Arc<State<B>>,
        history: Arc<History>,
        log_time: Arc<LogTime>,
        last: GroupHead,
    ) -> Self {
        Self {
            state,
            history,
            log_time,
            stream: last.stream,
            last_ms: last.time_ms,
            validated: last,
            spare: Vec::new(),
        }
    }

    /// The version of the first commit in the record that was validated last.
    pub(super) fn first_version(&self) -> Version {
        self.validated.first
    }

    /// The time of the last record that was applied.
    pub(super) fn last_ms(&self) -> u64 {
        self.last_ms
    }

    /// Watermarks of the change stream behind the last record that was applied.
    pub(super) fn stream(&self) -> Watermarks {
        self.stream
    }

    fn validate_group(
        &self,
        group: &[Change<'_, B>],
        encoder: &mut GroupEncoder,
        first: Version,
    ) -> Vec<Result<(), Refusal>> {
        let works = group.iter().map(|change| match change {
            Change::Commit(work) => *work,
            Change::Load(_) | Change::Tables(_) | Change::Trim(_) | Change::Note => {
                unreachable!("loads, trims and notes are alone in their group")
            }
        });
        let validation = self.state.validate(first, works.clone());
        let mut commits = validation.commits.iter();
        let mut outcomes = Vec::with_capacity(group.len());
        for (work, result) in works.zip(validation.results) {
            if result.is_ok() {
                let commit = commits.next().expect("a commit for each valid member");
                encoder.push(commit, LoggedFootprint::Granules(work.footprint.changed()));
            }
            outcomes.push(result.map(drop).map_err(Refusal::Error));
        }
        outcomes
    }

    /// Refuses a load of a key that exists.
    fn check_load(&self, load: &Load) -> Result<(), StorageError> {
        let view = self.state.backend.view()?;
        for (key, _) in load.writes.slots() {
            if view.get(key)?.is_some() {
                return Err(key_exists(key));
            }
        }
        Ok(())
    }

    /// The record at `at` with that head and `bytes` bytes is applied.
    fn note_applied(&mut self, at: Position, head: GroupHead, published: Version, bytes: usize) {
        self.stream = head.stream;
        self.last_ms = head.time_ms;
        self.history.note(at, &head, published, bytes);
    }

    /// The record of a bulk load is in the log. The engine, which waits for this, publishes the pairs.
    fn apply_tables(
        &mut self,
        at: Position,
        RecordHash(hash): RecordHash,
        load: &TablesLoad,
        validated: &Validated<Refusal>,
    ) {
        let (state, head) = (&*self.state, self.validated);
        if let Some(hook) = state.hook() {
            hook.committing(head.first, &load.stream);
        }
        // Every transaction that observed an earlier version must be retried.
        state.guards.lock().raise_floor(head.first);
        state.count_group(1);
        let bytes = validated.content.as_ref().map_or(0, Vec::len);
        self.note_applied(at, head, head.first, bytes);
        let after = LogPoint { next: at + 1, hash };
        load.appended.set(Some((head.time_ms, after)));
    }

    /// Applies consecutive records.
    fn apply_records(&mut self, records: &[ReadRecord<'_>]) -> Result<(), (Position, String)> {
        let mut next = self.state.next_version();
        let mut groups = Vec::with_capacity(records.len());
        let mut logged: Vec<LoggedCommit<'_>> = Vec::new();
        let mut ends = Vec::with_capacity(records.len());
        for record in records {
            let failed = |reason: String| (record.at, reason);
            let group = GroupRecord::decode(record.content).map_err(|it| failed(it.to_string()))?;
            let follows = next.map_err(|error| failed(error.to_string()))?;
            if group.head.first != follows {
                return Err(failed(format!(
                    "it follows the version {}, and this process has the version {}: open the database again",
                    group.head.first - 1,
                    follows - 1
                )));
            }
            next = Ok(group.next_version());
            let commits = group.commits().map_err(|it| failed(it.to_string()))?;
            logged.extend(commits);
            ends.push(LoggedEnd {
                commits: logged.len(),
                time_ms: group.head.time_ms,
                after: LogPoint {
                    next: record.at + 1,
                    hash: record.hash.0,
                },
            });
            groups.push(group);
        }
        let last = records.last().map_or(0, |last| last.at);
        let applied = self.apply_commits(&logged, &ends);
        applied.map_err(|reason| (last, reason))?;
        for (record, group) in records.iter().zip(&groups) {
            let (published, bytes) = (group.next_version() - 1, record.content.len());
            self.note_applied(record.at, group.head, published, bytes);
        }
        Ok(())
    }

    /// Applies the commits of consecutive records, which end at `ends`.
    fn apply_commits(&self, logged: &[LoggedCommit<'_>], ends: &[LoggedEnd]) -> Result<(), String> {
        let state = &*self.state;
        let writes = logged.iter().map(LoggedCommit::writes);
        let writes = writes.collect::<Result<Vec<WriteSet>, _>>();
        let writes = writes.map_err(|error| error.to_string())?;
        let commits: Vec<Commit<'_>> = logged
            .iter()
            .zip(&writes)
            .map(|(logged, writes)| Commit {
                version: logged.version,
                writes,
                stream: logged.stream,
            })
            .collect();
        if let Some(hook) = state.hook() {
            for commit in &commits {
                hook.committing_remote(commit);
            }
        }
        let applied = state.backend.apply_logged_records(&commits, ends);
        applied.map_err(|error| error.to_string())?;
        // Transactions that begin from here on, and live ones, are validated against later commits only.
        let oldest = state.oldest_snapshot();
        let mut guards = state.guards.lock();
        for logged in logged.iter().filter(|logged| logged.version > oldest) {
            guards.record_remote(logged.version, logged.granules());
            if logged.changes_everything {
                guards.raise_floor(logged.version);
            }
        }
        // A process that only reads validates nothing, and must not keep all changes.
        guards.forget_before(oldest);
        Ok(())
    }
}

impl<B: Backend> StateMachine for Machine<B> {
    type Transaction<'t> = Change<'t, B>;
    type Refused = Refusal;

    fn validate(&mut self, group: &[Change<'_, B>]) -> Validated<Refusal> {
        let refused = |error: &StorageError| Err(Refusal::Error(crate::state::copy_of(error)));
        let first = match self.state.next_version() {
            Ok(first) => first,
            Err(error) => {
                return Validated {
                    outcomes: group.iter().map(|_| refused(&error)).collect(),
                    content: None,
                };
            }
        };
        let time_ms = self.log_time.now_ms(self.last_ms);
        let spare = std::mem::take(&mut self.spare);
        let mut encoder = GroupEncoder::reusing(spare, time_ms, first, self.stream);
        let outcomes = match group {
            [Change::Trim(upto)] => {
                encoder.trim((*upto).min(first - 1));
                vec![Ok(())]
            }
            [Change::Note] => vec![Ok(())],
            [Change::Load(load)] => {
                let checked = self.check_load(load);
                if checked.is_ok() {
                    // One without writes that changes everything is a load whose pairs are in tables.
                    let footprint = match load.writes.is_empty() {
                        true => LoggedFootprint::Granules(&[]),
                        false => LoggedFootprint::Everything,
                    };
                    encoder.push(&load.commit(first), footprint);
                }
                vec![checked.map_err(Refusal::Error)]
            }
            [Change::Tables(load)] => {
                let checked = load.check_version(first);
                if checked.is_ok() {
                    let (writes, stream) = (&WriteSet::new(), &load.stream[..]);
                    let commit = Commit {
                        version: first,
                        writes,
                        stream,
                    };
                    encoder.push(&commit, LoggedFootprint::Everything);
                }
                vec![checked.map_err(Refusal::Error)]
            }
            _ => self.validate_group(group, &mut encoder, first),
        };
        let (content, head) = encoder.finish();
        let needless =
            matches!(group, [Change::Trim(_)]) && head.stream.trimmed == self.stream.trimmed;
        self.validated = head;
        match (needless, outcomes.iter().any(Result::is_ok)) {
            (true, _) => Validated {
                outcomes: vec![Err(Refusal::Needless)],
                content: None,
            },
            (false, is_any) => Validated {
                outcomes,
                content: is_any.then_some(content),
            },
        }
    }

    fn make_room(&mut self, bytes: usize) -> Result<(), String> {
        let made = self.state.backend.make_room(bytes);
        made.map_err(|error| error.to_string())
    }

    fn recycle(&mut self, content: Vec<u8>) {
        self.spare = content;
    }

    fn apply(&mut self, at: Position, hash: RecordHash, content: &[u8]) -> Result<(), String> {
        let record = ReadRecord { at, hash, content };
        self.apply_all(&[record]).map_err(|(_, reason)| reason)
    }

    fn batch_bytes(&self) -> usize {
        self.state.backend.record_batch_bytes()
    }

    fn apply_all(&mut self, records: &[ReadRecord<'_>]) -> Result<(), (Position, String)> {
        let applied = self.apply_records(records);
        let outcome = match &applied {
            Ok(()) => Ok(()),
            Err((_, reason)) => Err(reason.clone()),
        };
        self.history.note_outcome(&outcome);
        applied
    }

    fn apply_own(
        &mut self,
        at: Position,
        hash: RecordHash,
        group: &[Change<'_, B>],
        validated: &Validated<Refusal>,
    ) -> Result<(), String> {
        if let [Change::Tables(load)] = group {
            self.apply_tables(at, hash, load, validated);
            return Ok(());
        }
        let state = &*self.state;
        let head = self.validated;
        let mut commits: Vec<Commit<'_>> = Vec::with_capacity(group.len());
        for (change, outcome) in group.iter().zip(&validated.outcomes) {
            let version = head.first + commits.len() as u64;
            match change {
                Change::Commit(work) if outcome.is_ok() => commits.push(Commit {
                    version,
                    writes: &work.writes,
                    stream: &work.stream,
                }),
                Change::Load(load) if outcome.is_ok() => commits.push(load.commit(version)),
                _ => {}
            }
        }
        let hook = state.hook();
        if let Some(hook) = &hook {
            for commit in &commits {
                hook.committing(commit.version, commit.stream);
            }
        }
        let after = LogPoint {
            next: at + 1,
            hash: hash.0,
        };
        let applied = state.backend.apply_logged(&commits, head.time_ms, after);
        if let Err(error) = applied {
            if let Some(hook) = hook {
                hook.unsettled(head.first);
            }
            let outcome = Err(error.to_string());
            self.history.note_outcome(&outcome);
            return outcome;
        }
        match group {
            [Change::Trim(_) | Change::Note] => {}
            [Change::Load(_)] => state.guards.lock().raise_floor(head.first),
            _ => state.record_group(),
        }
        state.count_group(commits.len());
        let published = head.first + commits.len() as u64 - 1;
        let bytes = validated.content.as_ref().map_or(0, Vec::len);
        self.note_applied(at, head, published, bytes);
        Ok(())
    }
}

impl TablesLoad {
    fn check_version(&self, next: Version) -> Result<(), StorageError> {
        match next == self.version {
            true => Ok(()),
            false => Err(StorageError::Unavailable(format!(
                "another process committed the version {} during a bulk load: try again",
                next - 1
            ))),
        }
    }
}

impl Load {
    fn commit(&self, version: Version) -> Commit<'_> {
        Commit {
            version,
            writes: &self.writes,
            stream: &self.stream,
        }
    }
}
