//! A node: one process on a shared log.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use isomer_vfs::Time;

use crate::{
    Append, LogError, Nonce, Position, Record, RecordError, RecordHash, Retry, SharedLog,
    contention::Contention, record::unwrap_content, retry::Attempts,
};

/// Bytes of records that a node reads in one call.
const PAGE_BYTES: usize = 4 << 20;
/// A larger buffer is not kept for the next record. Any thread may commit: what each of them allocated and freed would
/// stay in its part of the heap.
const MAX_REUSED_BUFFER_BYTES: usize = 1 << 20;
/// Marks of time in a grace period.
const MARKS: u32 = 64;
/// Knowledge of what is trimmed that is older than this part of the grace period is read anew.
const FRESH_PART: u32 = 2;

/// The state that every node holds, and how its transactions are validated.
pub trait StateMachine {
    /// A transaction that wants to commit.
    type Transaction<'t>;
    /// Why a transaction cannot.
    type Refused;

    /// Validates the transactions of a group in order, each against everything that was applied and against the valid
    /// ones before it. It is called again after another node was faster, and must leave no trace in the state.
    fn validate(&mut self, group: &[Self::Transaction<'_>]) -> Validated<Self::Refused>;

    /// Makes room for a record with `bytes` bytes of content: before a record of another node is applied, and before an
    /// own one is appended. May wait. By default there is always room.
    ///
    /// # Errors
    /// A sentence, if there is no room now. The record is then neither applied nor appended, and the node stays usable.
    fn make_room(&mut self, bytes: usize) -> Result<(), String> {
        let _ = bytes;
        Ok(())
    }

    /// Gets the content of a record back that [`StateMachine::validate`] has made, for the memory of the next one.
    fn recycle(&mut self, content: Vec<u8>) {
        drop(content);
    }

    /// Applies the content of the record at `at`, whose hash is `hash`: one of another node, or one of this node whose
    /// commit had an unknown outcome.
    ///
    /// # Errors
    /// A sentence, if the content cannot be applied. The node is unusable then.
    fn apply(&mut self, at: Position, hash: RecordHash, content: &[u8]) -> Result<(), String>;

    /// Bytes of content that one call of [`StateMachine::apply_all`] gets at most, unless one record has more. By
    /// default each call gets one record.
    fn batch_bytes(&self) -> usize {
        0
    }

    /// Applies consecutive records, as [`StateMachine::apply`] does one by one. There is room for them together.
    ///
    /// # Errors
    /// The position of the record that cannot be applied, and a sentence. The node is unusable then.
    fn apply_all(&mut self, records: &[ReadRecord<'_>]) -> Result<(), (Position, String)> {
        records.iter().try_for_each(|record| {
            let applied = self.apply(record.at, record.hash, record.content);
            applied.map_err(|reason| (record.at, reason))
        })
    }

    /// Applies this node's record at `at`: `validated` is what the last call of [`StateMachine::validate`], for
    /// `group`, has returned, and has content. A state machine that keeps what it has validated need not decode it
    /// again.
    ///
    /// # Errors
    /// As those of [`StateMachine::apply`].
    fn apply_own(
        &mut self,
        at: Position,
        hash: RecordHash,
        group: &[Self::Transaction<'_>],
        validated: &Validated<Self::Refused>,
    ) -> Result<(), String> {
        let _ = group;
        let content = validated.content.as_deref().unwrap_or_default();
        self.apply(at, hash, content)
    }
}

/// A record that was read from the log.
#[derive(Clone, Copy, Debug)]
pub struct ReadRecord<'r> {
    /// Its position.
    pub at: Position,
    /// Its hash.
    pub hash: RecordHash,
    /// What the state machine applies.
    pub content: &'r [u8],
}

/// A validated group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated<R> {
    /// An outcome for each transaction.
    pub outcomes: Vec<Result<(), R>>,
    /// Content of the record with the valid ones; `None` if there are none.
    pub content: Option<Vec<u8>>,
}

/// Why a call of a node failed. After `Log`, `NoRoom` and `Fenced` nothing of the group is in the log; after
/// `CommitUnknown` it may be. After any error but `Log`, `NoRoom` and `CommitUnknown` the node is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The log failed; nothing was committed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The state machine has no room for a record now; nothing was committed.
    #[error("{0}")]
    NoRoom(String),
    /// The log contains something that this program cannot apply.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No answer says whether the group was committed.
    #[error(
        "the commit may or may not have happened: {0}: read what it should have changed before it is tried again"
    )]
    CommitUnknown(String),
    /// Records that the node has not applied are trimmed: it was stopped for long, or its checkpoint was too old.
    #[error(
        "this process is too far behind the shared log, whose records it needs are trimmed: open the database again"
    )]
    Fenced,
    /// An earlier call failed so that the state may be incomplete.
    #[error("this process could not follow the shared log: open the database again")]
    Failed,
    /// The state machine could not apply a record.
    #[error("the record {at} cannot be applied: {reason}")]
    Apply {
        /// Its position.
        at: Position,
        /// What the state machine says.
        reason: String,
    },
}

/// Settings of a node.
pub struct Options {
    /// Tells this node from all others; a random number.
    pub writer: u64,
    /// Random numbers.
    pub nonces: Box<dyn FnMut() -> Nonce + Send>,
    /// A monotonic clock that counts the time in which the process, or the machine, is suspended:
    /// `isomer_vfs::BootTime`.
    pub time: Arc<dyn Time>,
    /// When calls are repeated.
    pub retry: Retry,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("writer", &self.writer)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}

/// A node on a shared log: a state machine at its applied position.
#[derive(Debug)]
pub struct LogNode<L, S> {
    log: L,
    machine: S,
    options: Options,
    /// Where the next record will be.
    next: Position,
    /// The hash of the record before.
    last: RecordHash,
    /// A time at which there was no record at `next`; `None` if none is known.
    free_at: Option<Duration>,
    /// The bytes of the last record that was appended, for the next one.
    buffer: Vec<u8>,
    /// Times, and the last record that was applied, or acknowledged, at each, for the grace period.
    applied_at: VecDeque<(Duration, Position)>,
    /// Whether an error left the state incomplete.
    failed: bool,
}

/// How an attempt to append ended, certainly.
enum Attempt {
    /// The record is there, with this hash, at this time; it is to be applied.
    Committed(RecordHash, Duration),
    /// The record of another node is there, and has been applied.
    Taken,
}

impl<L: SharedLog, S: StateMachine> LogNode<L, S> {
    /// A node whose `machine` contains everything before the position `next`, after a record with the hash `last`: the
    /// state of a checkpoint, or the empty one, 1 and the default hash. The record before `next` is compared with it,
    /// unless it is trimmed: then the one at `next` is, when it is applied.
    ///
    /// # Errors
    /// `Log`, also if the log ends before `next`; `Fenced` if the record at `next` is trimmed; `Record` if the state
    /// belongs to another log.
    pub fn open(
        log: L,
        machine: S,
        next: Position,
        last: RecordHash,
        options: Options,
    ) -> Result<Self, NodeError> {
        let mut node = Self {
            log,
            machine,
            next: next.max(1),
            last,
            free_at: None,
            buffer: Vec::new(),
            applied_at: VecDeque::new(),
            failed: false,
            options,
        };
        node.check_start()?;
        if node.next > 1 {
            // They were in the log at this time at the latest.
            let now = node.options.time.now();
            node.applied_at.push_back((now, node.next - 1));
        }
        Ok(node)
    }

    /// Compares the state that the node begins with with the log.
    fn check_start(&mut self) -> Result<(), NodeError> {
        let at = self.next - 1;
        if at == 0 {
            return match self.last == RecordHash::default() {
                true => Ok(()),
                false => Err(RecordError::OtherHistory { at: 1 }.into()),
            };
        }
        let first = self.retried(|log| log.first())?;
        if first > self.next {
            return Err(NodeError::Fenced);
        }
        let end = self.retried(|log| log.end())?;
        if end < self.next {
            return Err(shorter(end).into());
        }
        let page = match self.retried(|log| log.read(at, 0)) {
            Err(LogError::Trimmed { first }) if first == self.next => return Ok(()),
            Err(LogError::Trimmed { .. }) => return Err(NodeError::Fenced),
            page => page?,
        };
        let bytes = page.first().ok_or_else(|| missing(at))?;
        let (_, hash) = Record::decode(bytes, at, self.log.id())?;
        match hash == self.last {
            true => Ok(()),
            false => Err(RecordError::OtherHistory { at }.into()),
        }
    }

    /// Whether an earlier error has made the node unusable: each call returns [`NodeError::Failed`].
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// The state at the applied position.
    pub fn machine(&self) -> &S {
        &self.machine
    }

    /// The position after the last record that was applied, and the hash of that record.
    pub fn applied(&self) -> (Position, RecordHash) {
        (self.next, self.last)
    }

    /// Applies everything that any node has committed before this call: what a transaction reads after it contains each
    /// commit that has returned.
    ///
    /// # Errors
    /// See [`NodeError`]; the node may have applied a part.
    pub fn catch_up(&mut self) -> Result<(), NodeError> {
        self.check_usable()?;
        let outcome = self.apply_to_end();
        self.checked(outcome)
    }

    fn apply_to_end(&mut self) -> Result<(), NodeError> {
        let began = self.options.time.now();
        let end = self.retried(|log| log.end())?;
        if end < self.next {
            return Err(shorter(end).into());
        }
        while self.next < end {
            self.apply_page()?;
        }
        // The position after the end was free when this call began; a page may even have gone beyond it.
        self.free_at = Some(began);
        Ok(())
    }

    /// Commits the first transactions of a group as one record, and returns an outcome for each of them: that of a
    /// valid one has the position. They are all of the group, unless their record would be larger than the log takes:
    /// the caller commits the rest with another call. What is committed is durable.
    ///
    /// # Errors
    /// `CommitUnknown` if no answer says whether the valid ones are committed; `TooLarge` if the first transaction
    /// alone exceeds a record; see [`NodeError`] for the others.
    pub fn commit(
        &mut self,
        group: &[S::Transaction<'_>],
    ) -> Result<Vec<Result<Position, S::Refused>>, NodeError> {
        let outcomes = self.commit_unsynced(group)?;
        if outcomes.iter().any(Result::is_ok) {
            let upto = self.next;
            let synced = self.retried(|log| log.sync(upto));
            synced.map_err(|error| NodeError::CommitUnknown(error.to_string()))?;
        }
        Ok(outcomes)
    }

    /// Like [`LogNode::commit`], but what is committed is only visible to all nodes: it survives a loss of power when a
    /// [`SharedLog::sync`] beyond its position has returned. The caller can release the node while it syncs, so that
    /// other transactions begin and commit.
    ///
    /// # Errors
    /// See [`LogNode::commit`].
    pub fn commit_unsynced(
        &mut self,
        group: &[S::Transaction<'_>],
    ) -> Result<Vec<Result<Position, S::Refused>>, NodeError> {
        self.check_usable()?;
        let outcome = self.commit_group(group);
        self.checked(outcome)
    }

    fn commit_group(
        &mut self,
        group: &[S::Transaction<'_>],
    ) -> Result<Vec<Result<Position, S::Refused>>, NodeError> {
        let mut contention = Contention::default();
        let outcome = self.commit_record(group, &mut contention);
        if contention.end_reservation() {
            self.log.release();
        }
        outcome
    }

    /// Commits the first transactions of a group as one record. The caller releases what is reserved.
    fn commit_record(
        &mut self,
        group: &[S::Transaction<'_>],
        contention: &mut Contention,
    ) -> Result<Vec<Result<Position, S::Refused>>, NodeError> {
        let max = self.log.max_record_bytes();
        let mut group = group;
        loop {
            let mut validated = self.machine.validate(group);
            assert_eq!(
                validated.outcomes.len(),
                group.len(),
                "an outcome for each transaction"
            );
            let at = self.next;
            let committed = |outcome: Result<(), _>| outcome.map(|()| at);
            let Some(content) = &mut validated.content else {
                assert!(
                    validated.outcomes.iter().all(Result::is_err),
                    "valid transactions have content"
                );
                return Ok(validated.outcomes.into_iter().map(committed).collect());
            };
            let bytes = Record::encoded_bytes(content.len());
            if bytes > max {
                if group.len() < 2 {
                    return Err(LogError::TooLarge { bytes, max }.into());
                }
                group = &group[..group.len() / 2];
                continue;
            }
            self.make_room(content)?;
            match self.append(content, contention)? {
                Attempt::Committed(hash, now) => {
                    if contention.end_reservation() {
                        self.log.release();
                    }
                    self.apply_own(hash, now, group, &validated)?;
                    let Validated { outcomes, content } = validated;
                    if let Some(content) = content {
                        self.recycle(content);
                    }
                    return Ok(outcomes.into_iter().map(committed).collect());
                }
                // The transactions are valid only if they still are after what others committed.
                Attempt::Taken => self.begin_again(content, contention)?,
            }
        }
    }

    /// An attempt with a record of `content` has lost its position. If such attempts have taken long, the next position
    /// is reserved: each record of another node would cost one more of them.
    fn begin_again(
        &mut self,
        content: &[u8],
        contention: &mut Contention,
    ) -> Result<(), NodeError> {
        if let Some(time) = contention.reservation() {
            // That may take long, and the others are not to wait for it.
            self.make_room(content)?;
            // It is a hint: without it, the next attempt may be lost again.
            let _ = self.log.reserve(time);
            self.apply_to_end()?;
        }
        contention.begin_again(self.options.time.now());
        Ok(())
    }

    /// Removes from the log what is below `below` and older than the grace period; a checkpoint must contain it.
    /// Returns the first position that is left.
    ///
    /// # Errors
    /// `Log`, if it cannot be reached.
    pub fn trim(&mut self, below: Position) -> Result<Position, NodeError> {
        self.check_usable()?;
        let now = self.options.time.now();
        let is_old =
            |&(applied, _): &(Duration, Position)| now.saturating_sub(applied) >= self.log.grace();
        let old = self
            .applied_at
            .iter()
            .take_while(|mark| is_old(mark))
            .last();
        let Some(&(_, last_old)) = old else {
            return Ok(self.retried(|log| log.first())?);
        };
        self.trim_alone(below.min(last_old + 1))
    }

    /// Like [`LogNode::trim`], without the grace period: no other node may have the log open, also to read. One that
    /// opens it later begins with a checkpoint that contains what is removed.
    ///
    /// # Errors
    /// `Log`, if it cannot be reached.
    pub fn trim_alone(&mut self, below: Position) -> Result<Position, NodeError> {
        self.check_usable()?;
        let below = below.min(self.next);
        self.retried(|log| log.trim(below))?;
        Ok(self.retried(|log| log.first())?)
    }

    /// Appends one record with `content` at the next position. If the record of another node is there afterwards,
    /// applies that one.
    fn append(
        &mut self,
        content: &mut Vec<u8>,
        contention: &mut Contention,
    ) -> Result<Attempt, NodeError> {
        // A large content becomes the record in place: for a moment, a copy would take as much memory again.
        let is_large = content.len() > MAX_REUSED_BUFFER_BYTES;
        let record = Record {
            log: self.log.id(),
            writer: self.options.writer,
            nonce: (self.options.nonces)(),
            previous: self.last,
            content: &[],
        };
        let nonce = record.nonce;
        if is_large {
            let hash = record.wrap_content(self.next, content);
            contention.note_prepared(|| self.options.time.now());
            let outcome = self.append_bytes(content, hash, nonce);
            unwrap_content(content);
            return outcome;
        }
        let record = Record { content, ..record };
        let mut bytes = std::mem::take(&mut self.buffer);
        let hash = record.encode_to(self.next, &mut bytes);
        contention.note_prepared(|| self.options.time.now());
        let outcome = self.append_bytes(&bytes, hash, nonce);
        if bytes.capacity() <= MAX_REUSED_BUFFER_BYTES {
            self.buffer = bytes;
        }
        outcome
    }

    /// Appends a record, whose bytes, hash and nonce these are, at the next position.
    fn append_bytes(
        &mut self,
        bytes: &[u8],
        hash: RecordHash,
        nonce: Nonce,
    ) -> Result<Attempt, NodeError> {
        let mut may_be_there = false;
        let mut began = self.options.time.now();
        let mut attempts = Attempts::new(self.options.retry, began);
        loop {
            let reason = match self.log.append(self.next, bytes) {
                Ok(Append::Appended) => {
                    let now = self.check_fence()?;
                    // The record before was the last one when this call began.
                    self.free_at = Some(began);
                    return Ok(Attempt::Committed(hash, now));
                }
                // A log that repeats a request by itself says this of a record that it has appended.
                Ok(Append::Taken) => {
                    may_be_there = true;
                    match self.read_taken(nonce)? {
                        Some(attempt) => return Ok(attempt),
                        None => "the log cannot be read".into(),
                    }
                }
                // Never go on to another position before it is known what is at this one.
                Ok(Append::Unknown(why)) => {
                    may_be_there = true;
                    why
                }
                Err(LogError::Unavailable(why)) => why,
                Err(error) if may_be_there => {
                    return Err(NodeError::CommitUnknown(error.to_string()));
                }
                Err(LogError::Trimmed { .. }) => return Err(NodeError::Fenced),
                Err(error) => return Err(error.into()),
            };
            if !self.has_another(&mut attempts) {
                return Err(match may_be_there {
                    true => NodeError::CommitUnknown(reason),
                    false => LogError::Unavailable(reason).into(),
                });
            }
            began = self.options.time.now();
        }
    }

    /// Applies this node's record, which is in the log at the next position; it was there at the time `now`.
    fn apply_own(
        &mut self,
        hash: RecordHash,
        now: Duration,
        group: &[S::Transaction<'_>],
        validated: &Validated<S::Refused>,
    ) -> Result<(), NodeError> {
        let at = self.next;
        if let Err(reason) = self.machine.apply_own(at, hash, group, validated) {
            self.failed = true;
            let error = NodeError::Apply { at, reason };
            return Err(NodeError::CommitUnknown(error.to_string()));
        }
        self.note_applied(hash, now);
        Ok(())
    }

    /// Applies the record that is at the next position; returns whether it has the nonce of this attempt. `None` if the
    /// log cannot be read now.
    fn read_taken(&mut self, nonce: Nonce) -> Result<Option<Attempt>, NodeError> {
        let unknown = |error: String| NodeError::CommitUnknown(error);
        let at = self.next;
        let page = match self.retried(|log| log.read(at, 0)) {
            Ok(page) => page,
            Err(LogError::Unavailable(_)) => return Ok(None),
            Err(error) => return Err(unknown(error.to_string())),
        };
        let Some(bytes) = page.first() else {
            return Err(unknown(missing(at).to_string()));
        };
        let decoded = self.decode(bytes);
        let (record, hash) = decoded.map_err(|error| unknown(error.to_string()))?;
        if record.nonce == nonce {
            let now = self.check_fence()?;
            return Ok(Some(Attempt::Committed(hash, now)));
        }
        self.apply_record(record.content, hash)?;
        Ok(Some(Attempt::Taken))
    }

    /// Refuses to acknowledge a record at a position that may have been trimmed, and forgotten, before. Returns the
    /// time when it looked.
    fn check_fence(&mut self) -> Result<Duration, NodeError> {
        let now = self.options.time.now();
        let fresh_for = self.log.grace() / FRESH_PART;
        let is_fresh = |at| now.saturating_sub(at) <= fresh_for;
        if self.free_at.is_some_and(is_fresh) {
            return Ok(now);
        }
        match self.retried(|log| log.first()) {
            Ok(first) if first <= self.next => Ok(now),
            // It was trimmed before the append, or after it while this process was stopped.
            Ok(_) => Err(NodeError::CommitUnknown("its position is trimmed".into())),
            Err(error) => Err(NodeError::CommitUnknown(error.to_string())),
        }
    }

    /// Applies the next records of the log, as many as one call reads.
    fn apply_page(&mut self) -> Result<(), NodeError> {
        let at = self.next;
        let page = match self.retried(|log| log.read(at, PAGE_BYTES)) {
            Err(LogError::Trimmed { .. }) => return Err(NodeError::Fenced),
            page => page?,
        };
        if page.is_empty() {
            return Err(missing(at).into());
        }
        let mut rest = page.as_slice();
        while !rest.is_empty() {
            rest = &rest[self.apply_batch(rest)?..];
        }
        Ok(())
    }

    /// Applies the first records of `page`, whose first one is at the next position, as many as the state machine
    /// takes together; returns their number.
    fn apply_batch(&mut self, page: &[Vec<u8>]) -> Result<usize, NodeError> {
        let most = self.machine.batch_bytes();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        let mut last = self.last;
        for (at, record) in (self.next..).zip(page) {
            if !batch.is_empty() && bytes + record.len() > most {
                break;
            }
            let decoded = Record::decode(record, at, self.log.id());
            let decoded = decoded.and_then(|(record, hash)| {
                record.follows(at, last)?;
                Ok((record.content, hash))
            });
            let (content, hash) = match decoded {
                Ok(decoded) => decoded,
                Err(error) if batch.is_empty() => return Err(error.into()),
                // Those before it are applied first.
                Err(_) => break,
            };
            (bytes, last) = (bytes + record.len(), hash);
            batch.push(ReadRecord { at, hash, content });
        }
        let content_bytes = batch.iter().map(|record| record.content.len()).sum();
        let made = self.machine.make_room(content_bytes);
        made.map_err(NodeError::NoRoom)?;
        let applied = self.machine.apply_all(&batch);
        applied.map_err(|(at, reason)| NodeError::Apply { at, reason })?;
        let now = self.options.time.now();
        for record in &batch {
            self.note_applied(record.hash, now);
        }
        Ok(batch.len())
    }

    /// The record in `bytes`, which is at the next position.
    fn decode<'b>(&self, bytes: &'b [u8]) -> Result<(Record<'b>, RecordHash), RecordError> {
        let (record, hash) = Record::decode(bytes, self.next, self.log.id())?;
        record.follows(self.next, self.last)?;
        Ok((record, hash))
    }

    fn recycle(&mut self, content: Vec<u8>) {
        if content.capacity() <= MAX_REUSED_BUFFER_BYTES {
            self.machine.recycle(content);
        }
    }

    fn make_room(&mut self, content: &[u8]) -> Result<(), NodeError> {
        let made = self.machine.make_room(content.len());
        made.map_err(NodeError::NoRoom)
    }

    /// Applies the record at the next position, whose hash is `hash`.
    fn apply_record(&mut self, content: &[u8], hash: RecordHash) -> Result<(), NodeError> {
        self.make_room(content)?;
        let at = self.next;
        let applied = self.machine.apply(at, hash, content);
        applied.map_err(|reason| NodeError::Apply { at, reason })?;
        let now = self.options.time.now();
        self.note_applied(hash, now);
        Ok(())
    }

    /// The record at the next position, whose hash is `hash`, is applied; every node could read it at the time `now`.
    fn note_applied(&mut self, hash: RecordHash, now: Duration) {
        let at = self.next;
        (self.next, self.last) = (at + 1, hash);
        let grace = self.log.grace();
        // Of the marks that are older than the grace period the last one is enough.
        while let Some(&(second, _)) = self.applied_at.get(1)
            && now.saturating_sub(second) >= grace
        {
            self.applied_at.pop_front();
        }
        // Some marks are enough: a record without one is trimmed with the next one that has one.
        let is_due = |&(last, _): &(Duration, Position)| now.saturating_sub(last) >= grace / MARKS;
        if self.applied_at.back().is_none_or(is_due) {
            self.applied_at.push_back((now, at));
        }
    }

    fn check_usable(&self) -> Result<(), NodeError> {
        match self.failed {
            true => Err(NodeError::Failed),
            false => Ok(()),
        }
    }

    /// The outcome of a call; remembers an error after which the state may be incomplete.
    fn checked<T>(&mut self, outcome: Result<T, NodeError>) -> Result<T, NodeError> {
        if let Err(error) = &outcome {
            let continues = match error {
                NodeError::Log(error) => !matches!(error, LogError::Damaged(_)),
                NodeError::NoRoom(_) | NodeError::CommitUnknown(_) => true,
                NodeError::Record(_)
                | NodeError::Fenced
                | NodeError::Failed
                | NodeError::Apply { .. } => false,
            };
            self.failed |= !continues;
        }
        outcome
    }

    /// Makes a call that has no effect, or the same one each time, until it succeeds or cannot.
    fn retried<T>(&mut self, call: impl Fn(&L) -> Result<T, LogError>) -> Result<T, LogError> {
        let Options {
            nonces,
            time,
            retry,
            ..
        } = &mut self.options;
        retry.call(&**time, || nonces() as u64, || call(&self.log))
    }

    /// Waits until the next attempt; returns whether there is one.
    fn has_another(&mut self, attempts: &mut Attempts) -> bool {
        let random = (self.options.nonces)() as u64;
        attempts.wait(&*self.options.time, random)
    }
}

/// The log ends before `end`, and the state has more.
fn shorter(end: Position) -> LogError {
    LogError::Damaged(format!(
        "it ends before {end}, and this process has applied more"
    ))
}

/// The error for a record that the log must have and does not return.
fn missing(at: Position) -> LogError {
    LogError::Damaged(format!("the record {at} is missing"))
}
