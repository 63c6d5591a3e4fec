//! A node: one process on a shared log.

use std::{collections::VecDeque, fmt, sync::Arc, time::Duration};

use isomer_vfs::Time;

use crate::{Append, LogError, Nonce, Position, Record, RecordError, RecordHash, SharedLog};

/// Bytes of records that a node reads in one call.
const PAGE_BYTES: usize = 4 << 20;
/// Marks of time in a grace period.
const MARKS: u32 = 64;
/// Knowledge of what is trimmed that is older than this part of the grace period is read anew.
const FRESH_PART: u32 = 2;

/// The state that every node holds, and how its transactions are validated.
pub trait StateMachine {
    /// A transaction that wants to commit.
    type Transaction;
    /// Why a transaction cannot.
    type Refused;

    /// Validates the transactions of a group in order, each against everything that was applied and against the valid
    /// ones before it.
    fn validate(&mut self, group: &[Self::Transaction]) -> Validated<Self::Refused>;

    /// Applies the content of the record at `at`: one of this node or of another one.
    ///
    /// # Errors
    /// A sentence, if the content cannot be applied. The node is unusable then.
    fn apply(&mut self, at: Position, content: &[u8]) -> Result<(), String>;
}

/// A validated group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validated<R> {
    /// An outcome for each transaction.
    pub outcomes: Vec<Result<(), R>>,
    /// Content of the record with the valid ones; `None` if there are none.
    pub content: Option<Vec<u8>>,
}

/// Why a node could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The log failed; nothing was committed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log contains something that this program cannot apply.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// No answer says whether the group was committed.
    #[error(
        "the commit may or may not have happened: {0}: read what it should have changed before it is tried again"
    )]
    CommitUnknown(String),
    /// The node was stopped for so long that records which it has not applied are trimmed. What it may have appended
    /// since is not part of the log.
    #[error(
        "this process was stopped for so long that it lost touch with the shared log: open the database again"
    )]
    Fenced,
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
    /// A monotonic clock, which must not stop while the process is stopped.
    pub time: Arc<dyn Time>,
    /// How long a record stays in the log at least.
    pub grace: Duration,
    /// How often a call is tried.
    pub attempts: u32,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("writer", &self.writer)
            .field("grace", &self.grace)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// A node on a shared log: a state machine at its applied position.
#[derive(Debug)]
pub struct Node<L, S> {
    log: L,
    machine: S,
    options: Options,
    /// Where the next record will be.
    next: Position,
    /// The hash of the record before.
    last: RecordHash,
    /// A time at which there was no record at `next`; `None` if none is known.
    free_at: Option<Duration>,
    /// Times, and the last record that was applied at each, for the grace period.
    applied_at: VecDeque<(Duration, Position)>,
}

/// How an attempt to append ended, certainly.
enum Attempt {
    Committed,
    Taken,
}

impl<L: SharedLog, S: StateMachine> Node<L, S> {
    /// A node whose `machine` contains everything before the position `next`, after a record with the hash `last`: the
    /// state of a checkpoint, or the empty one, 1 and the default hash.
    pub fn new(log: L, machine: S, next: Position, last: RecordHash, options: Options) -> Self {
        assert!(next > 0, "positions begin at 1");
        Self {
            log,
            machine,
            next,
            last,
            free_at: None,
            applied_at: VecDeque::new(),
            options,
        }
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
        let began = self.options.time.now();
        let end = self.retried(|log| log.end())?;
        while self.next < end {
            self.apply_page()?;
        }
        if self.next == end {
            self.free_at = Some(began);
        }
        Ok(())
    }

    /// Commits a group of transactions as one record, at the position that each outcome names.
    ///
    /// # Errors
    /// `CommitUnknown` if no answer says whether the valid ones are committed; after any other error none of them is.
    pub fn commit(
        &mut self,
        group: &[S::Transaction],
    ) -> Result<Vec<Result<Position, S::Refused>>, NodeError> {
        loop {
            let Validated { outcomes, content } = self.machine.validate(group);
            assert_eq!(
                outcomes.len(),
                group.len(),
                "an outcome for each transaction"
            );
            let at = self.next;
            let committed = |outcome: Result<(), _>| outcome.map(|()| at);
            let Some(content) = content else {
                return Ok(outcomes.into_iter().map(committed).collect());
            };
            match self.append(&content)? {
                Attempt::Committed => return Ok(outcomes.into_iter().map(committed).collect()),
                // The transactions are valid only if they still are after what others committed.
                Attempt::Taken => {}
            }
        }
    }

    /// Removes from the log what is below `below` and older than the grace period; a checkpoint must contain it.
    /// Returns the first position that is left.
    ///
    /// # Errors
    /// `Log`, if it cannot be reached.
    pub fn trim(&mut self, below: Position) -> Result<Position, NodeError> {
        let now = self.options.time.now();
        let is_old = |&(applied, _): &(Duration, Position)| applied + self.options.grace <= now;
        let old = self
            .applied_at
            .iter()
            .take_while(|mark| is_old(mark))
            .last();
        let Some(&(_, last_old)) = old else {
            return Ok(self.retried(|log| log.first())?);
        };
        let below = below.min(last_old + 1);
        self.retried(|log| log.trim(below))?;
        Ok(self.retried(|log| log.first())?)
    }

    /// Appends one record with `content` at the next position, and applies what is there afterwards: it, or the record
    /// of another node.
    fn append(&mut self, content: &[u8]) -> Result<Attempt, NodeError> {
        let record = Record {
            writer: self.options.writer,
            nonce: (self.options.nonces)(),
            previous: self.last,
            content,
        };
        let (bytes, hash) = record.encode(self.next);
        let nonce = record.nonce;
        let mut reason = String::new();
        let mut may_be_there = false;
        for _ in 0..self.options.attempts {
            let began = self.options.time.now();
            match self.log.append(self.next, &bytes) {
                Ok(Append::Appended) => {
                    self.check_fence(may_be_there)?;
                    self.note_applied(content, hash)?;
                    // The record before was the last one when this call began.
                    self.free_at = Some(began);
                    return Ok(Attempt::Committed);
                }
                Ok(Append::Taken) => match self.read_taken(nonce, may_be_there)? {
                    Some(attempt) => return Ok(attempt),
                    None => reason = "the log cannot be read".into(),
                },
                // Never go on to another position before it is known what is at this one.
                Ok(Append::Unknown(why)) => (reason, may_be_there) = (why, true),
                Err(LogError::Unavailable(why)) => reason = why,
                Err(LogError::Trimmed { .. }) => return Err(NodeError::Fenced),
                Err(error) if !may_be_there => return Err(error.into()),
                Err(error) => return Err(NodeError::CommitUnknown(error.to_string())),
            }
        }
        match may_be_there {
            true => Err(NodeError::CommitUnknown(reason)),
            false => Err(LogError::Unavailable(reason).into()),
        }
    }

    /// Applies the record that is at the next position; tells whether it has the nonce of this attempt. `None` if the
    /// log cannot be read now.
    fn read_taken(
        &mut self,
        nonce: Nonce,
        may_be_there: bool,
    ) -> Result<Option<Attempt>, NodeError> {
        let page = match self.retried(|log| log.read(self.next, 0)) {
            Ok(page) => page,
            Err(LogError::Unavailable(_)) => return Ok(None),
            Err(LogError::Trimmed { .. }) if may_be_there => {
                return Err(NodeError::CommitUnknown("its position is trimmed".into()));
            }
            Err(LogError::Trimmed { .. }) => return Err(NodeError::Fenced),
            Err(error) => return Err(error.into()),
        };
        let Some(bytes) = page.first() else {
            return Err(LogError::Damaged(format!("the record {} is missing", self.next)).into());
        };
        let (record, hash) = Record::decode(bytes, self.next, self.last)?;
        let attempt = match record.nonce == nonce {
            true => Attempt::Committed,
            false => Attempt::Taken,
        };
        self.note_applied(record.content, hash)?;
        Ok(Some(attempt))
    }

    /// Refuses to acknowledge a record at a position that may have been trimmed, and forgotten, before.
    fn check_fence(&self, may_be_there: bool) -> Result<(), NodeError> {
        let now = self.options.time.now();
        let fresh_for = self.options.grace / FRESH_PART;
        if self
            .free_at
            .is_some_and(|at| now.saturating_sub(at) <= fresh_for)
        {
            return Ok(());
        }
        match self.retried(|log| log.first()) {
            Ok(first) if first <= self.next => Ok(()),
            Ok(_) if may_be_there => {
                Err(NodeError::CommitUnknown("its position is trimmed".into()))
            }
            Ok(_) => Err(NodeError::Fenced),
            Err(error) => Err(NodeError::CommitUnknown(error.to_string())),
        }
    }

    /// Applies the next records of the log, as many as one call reads.
    fn apply_page(&mut self) -> Result<(), NodeError> {
        let page = match self.retried(|log| log.read(self.next, PAGE_BYTES)) {
            Err(LogError::Trimmed { .. }) => return Err(NodeError::Fenced),
            page => page?,
        };
        if page.is_empty() {
            return Err(LogError::Damaged(format!("the record {} is missing", self.next)).into());
        }
        for bytes in page {
            let (record, hash) = Record::decode(&bytes, self.next, self.last)?;
            self.note_applied(record.content, hash)?;
        }
        Ok(())
    }

    /// Applies the record at the next position, whose hash is `hash`.
    fn note_applied(&mut self, content: &[u8], hash: RecordHash) -> Result<(), NodeError> {
        let at = self.next;
        let applied = self.machine.apply(at, content);
        applied.map_err(|reason| NodeError::Apply { at, reason })?;
        (self.next, self.last) = (at + 1, hash);
        let now = self.options.time.now();
        // Of the marks that are older than the grace period the last one tells all.
        while let Some(&(second, _)) = self.applied_at.get(1)
            && second + self.options.grace <= now
        {
            self.applied_at.pop_front();
        }
        // Some marks are enough: a record without one is trimmed with the next one that has one.
        let is_due = |&(last, _): &(Duration, Position)| last + self.options.grace / MARKS <= now;
        if self.applied_at.back().is_none_or(is_due) {
            self.applied_at.push_back((now, at));
        }
        Ok(())
    }

    /// Tries a call that has no effect, or the same one each time.
    fn retried<T>(&self, call: impl Fn(&L) -> Result<T, LogError>) -> Result<T, LogError> {
        let mut outcome = call(&self.log);
        for _ in 1..self.options.attempts {
            match outcome {
                Err(LogError::Unavailable(_)) => outcome = call(&self.log),
                _ => break,
            }
        }
        outcome
    }
}
