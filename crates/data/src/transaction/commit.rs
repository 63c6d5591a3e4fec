//! Commit: declares the footprint, writes the change-stream entry, and does the work after the commit.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use isomer_layout::{
    DataError, ErrorKind,
    catalog::Catalog,
    stream::change::{self, ChangeSet},
};
use isomer_storage::{Durability, StorageError, Version};

use super::{State, Transaction, WriteReservation};
use crate::{DataStore, convergent::AfterCommit, footprint::Footprint, statistics::Changed};

/// What is needed of a transaction after its writes are handed over.
struct PostCommit {
    store: DataStore,
    catalog: Arc<Catalog>,
    footprint: Footprint,
    changed: Changed,
    entry_bytes: usize,
    dropped_buckets: Vec<String>,
    changed_buckets: bool,
    converged: Option<AfterCommit>,
    /// The reservation for its writes, which the engine holds until the commit is over.
    _covered: WriteReservation,
}

/// A transaction that is ready to be committed.
enum Ready {
    /// There is nothing to commit; it read this version.
    Nothing(Version),
    Writes(Box<dyn isomer_storage::EngineTransaction>, Box<PostCommit>),
}

impl Transaction {
    /// Checks the footprint and applies the writes, durably. Returns the version at which they are visible; a
    /// transaction that wrote nothing returns the version it read.
    ///
    /// # Errors
    /// [`DataError::Conflict`] if another transaction changed first what this one observed.
    pub fn commit(self) -> Result<Version, DataError> {
        self.commit_with(Durability::Synced)
    }

    /// As [`Transaction::commit`], with another durability.
    pub fn commit_with(self, durability: Durability) -> Result<Version, DataError> {
        match self.ready()? {
            Ready::Nothing(version) => Ok(version),
            Ready::Writes(tx, post) => {
                let committed = {
                    // Excludes the writing phase of bulk loads, which hold the gate exclusively.
                    let _gate = post.store.shared().gate.read();
                    tx.commit(durability)
                };
                post.finish(committed)
            }
        }
    }

    /// Begins to commit; the returned future waits for the outcome.
    pub fn start_commit(self, durability: Durability) -> DataCommit {
        DataCommit(match self.ready() {
            Err(error) => CommitState::Done(Some(Err(error))),
            Ok(Ready::Nothing(version)) => CommitState::Done(Some(Ok(version))),
            Ok(Ready::Writes(tx, post)) => {
                let gate = post.store.shared().gate.read_arc();
                let below = tx.start_commit(durability, Box::new(gate));
                CommitState::InFlight(Some(InFlight { below, post }))
            }
        })
    }

    /// Hands over all parts of the commit.
    fn ready(mut self) -> Result<Ready, DataError> {
        self.broken |= self.refused;
        let converged = match self.broken {
            true => None,
            // In this order: the log entry may take the transaction's number, which the second call records.
            false => {
                if let Some(hooks) = self.replication().logging_hooks() {
                    hooks.log_for_replicas(&mut self)?;
                }
                self.fields_mut().finish_convergent()?
            }
        };
        let Self {
            store,
            catalog,
            state,
            footprint,
            operations,
            changes,
            wrote,
            broken,
            buckets,
            covered,
            ..
        } = self;
        let mut tx = match state {
            State::Reading(snapshot) => return Ok(Ready::Nothing(snapshot.version())),
            State::Writing(tx) => tx,
        };
        if broken {
            return Err(DataError::Closed(
                "a write of this transaction failed half-way: roll it back and run it again".into(),
            ));
        }
        if operations.is_empty() && !wrote {
            return Ok(Ready::Nothing(tx.version()));
        }
        let footprint = footprint.into_inner();
        footprint.declare(&mut |granule, mode| tx.guard(granule, mode));
        let entry_bytes = operations.len();
        if entry_bytes > 0 {
            let (mut entry, head) = (operations, change::head(&changes.deltas));
            entry.reserve_exact(head.len());
            entry.splice(0..0, head);
            debug_assert!(
                ChangeSet::changes_in(&entry)
                    .is_ok_and(|mut changes| changes.all(|change| change.is_ok())),
                "every operation of an entry of the change stream can be read"
            );
            tx.append_stream_owned(entry);
        }
        let changed_buckets = buckets.is_changed();
        let post = PostCommit {
            store,
            catalog,
            footprint,
            changed: changes.statistics,
            entry_bytes,
            dropped_buckets: buckets.into_dropped(),
            changed_buckets,
            converged,
            _covered: covered,
        };
        // Before the commit is handed over: until its outcome is known, the cache of bucket options must not answer.
        if changed_buckets {
            post.store.shared().bucket_cache.begin_change();
        }
        Ok(Ready::Writes(tx, Box::new(post)))
    }
}

impl PostCommit {
    /// The work after a commit, with any outcome.
    fn finish(self, committed: Result<Version, StorageError>) -> Result<Version, DataError> {
        let store = &self.store;
        // Also after a failure, whose outcome may be unknown: a reserved block that is given up costs only a gap.
        store.shared().sequences.forget(&self.dropped_buckets);
        if self.changed_buckets {
            store.shared().bucket_cache.end_change(&committed);
        }
        match committed {
            Ok(version) => {
                if let Some(converged) = self.converged {
                    converged.ticket.committed(version);
                    store.fold_counters(converged.counters);
                }
                store.shared().statistics.committed(self.changed);
                store.counts().committed(self.entry_bytes);
                Ok(version)
            }
            Err(StorageError::Conflict { granule, version }) => Err(DataError::Conflict {
                what: self.footprint.describe(granule, &self.catalog),
                version,
            }),
            Err(error) => {
                let error = DataError::from(error);
                if let Some(converged) = self.converged
                    && error.kind() == ErrorKind::OutcomeUnknown
                {
                    converged.ticket.unknown();
                }
                Err(error)
            }
        }
    }
}

/// A commit that is under way: a future of the result of [`Transaction::commit`]. It proceeds without being polled;
/// dropping it blocks until the commit has ended.
#[must_use = "await it to get the outcome of the commit"]
pub struct DataCommit(CommitState);

enum CommitState {
    InFlight(Option<InFlight>),
    Done(Option<Result<Version, DataError>>),
}

struct InFlight {
    below: Box<dyn isomer_storage::EngineCommit>,
    post: Box<PostCommit>,
}

impl Future for DataCommit {
    type Output = Result<Version, DataError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const ONCE: &str = "a future is not polled after its end";
        match &mut self.0 {
            CommitState::Done(outcome) => Poll::Ready(outcome.take().expect(ONCE)),
            CommitState::InFlight(in_flight) => {
                let committed = match in_flight.as_mut().expect(ONCE).below.poll(context.waker()) {
                    Poll::Ready(committed) => committed,
                    Poll::Pending => return Poll::Pending,
                };
                Poll::Ready(in_flight.take().expect(ONCE).post.finish(committed))
            }
        }
    }
}

impl Drop for DataCommit {
    fn drop(&mut self) {
        if let CommitState::InFlight(in_flight) = &mut self.0
            && let Some(InFlight { below, post }) = in_flight.take()
        {
            let committed = below.wait();
            // The outcome is not wanted; the work after a commit is done all the same.
            drop(post.finish(committed));
        }
    }
}
