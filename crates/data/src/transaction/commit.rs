//! How a transaction ends: its footprint is declared, its change-stream entry written, and what follows a commit is done.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use isomer_storage::{Durability, StorageError, Version};

use super::{State, Transaction};
use crate::{
    Catalog, DataError, ErrorKind, Store, convergent::AfterCommit, footprint::Footprint,
    statistics::Changed, stream,
};

/// What is known of a transaction once its writes are handed over.
struct Rest {
    store: Store,
    catalog: Arc<Catalog>,
    footprint: Footprint,
    changed: Changed,
    entry_bytes: usize,
    dropped_buckets: Vec<String>,
    changed_buckets: bool,
    converged: Option<AfterCommit>,
}

/// A transaction that is ready to be committed.
enum Ready {
    /// There is nothing to commit; it read this version.
    Nothing(Version),
    Writes(Box<dyn isomer_storage::Transaction>, Box<Rest>),
}

impl Transaction {
    /// Checks the footprint and applies the writes, durably. Returns the version at which they are visible; a transaction
    /// that wrote nothing returns the version it read.
    ///
    /// # Errors
    /// [`DataError::Conflict`] where another transaction changed first what this one observed.
    pub fn commit(self) -> Result<Version, DataError> {
        self.commit_with(Durability::Synced)
    }

    /// As [`Transaction::commit`], with another durability.
    pub fn commit_with(self, durability: Durability) -> Result<Version, DataError> {
        match self.ready()? {
            Ready::Nothing(version) => Ok(version),
            Ready::Writes(tx, rest) => {
                let committed = {
                    let _gate = rest.store.shared().gate.read();
                    tx.commit(durability)
                };
                rest.settle(committed)
            }
        }
    }

    /// Begins to commit, and leaves the waiting to whoever awaits what is returned.
    pub fn start_commit(self, durability: Durability) -> Committing {
        Committing(match self.ready() {
            Err(error) => Way::Over(Some(Err(error))),
            Ok(Ready::Nothing(version)) => Way::Over(Some(Ok(version))),
            Ok(Ready::Writes(tx, rest)) => {
                let gate = rest.store.shared().gate.read_arc();
                let below = tx.start_commit(durability, Box::new(gate));
                Way::Open(Some(Open { below, rest }))
            }
        })
    }

    /// Hands everything over that the commit is made of.
    fn ready(mut self) -> Result<Ready, DataError> {
        let converged = match self.broken {
            true => None,
            false => {
                self.seal_replicated()?;
                self.seal_convergent()?
            }
        };
        let Self {
            store,
            catalog,
            state,
            footprint,
            operations,
            deltas,
            changed,
            wrote,
            broken,
            dropped_buckets,
            changed_buckets,
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
            tx.append_stream(&stream::head(&deltas));
            tx.append_stream(&operations);
        }
        let rest = Rest {
            store,
            catalog,
            footprint,
            changed,
            entry_bytes,
            dropped_buckets,
            changed_buckets,
            converged,
        };
        if changed_buckets {
            rest.store.shared().settled_buckets.changes();
        }
        Ok(Ready::Writes(tx, Box::new(rest)))
    }
}

impl Rest {
    /// What follows a commit, however it ended.
    fn settle(self, committed: Result<Version, StorageError>) -> Result<Version, DataError> {
        let store = &self.store;
        store.shared().sequences.forget(&self.dropped_buckets);
        if self.changed_buckets {
            store.shared().settled_buckets.changed(&committed);
        }
        match committed {
            Ok(version) => {
                if let Some(converged) = self.converged {
                    converged.ticket.committed(version);
                    store.fold_counters(converged.counters);
                }
                store.shared().statistics.committed(self.changed);
                store.committed(self.entry_bytes);
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

/// A commit that is under way: a future of what [`Transaction::commit`] returns. It goes on by itself; whoever drops this
/// before its end waits for that.
#[must_use = "the outcome of a commit is told here"]
pub struct Committing(Way);

enum Way {
    Open(Option<Open>),
    Over(Option<Result<Version, DataError>>),
}

struct Open {
    below: Box<dyn isomer_storage::Committing>,
    rest: Box<Rest>,
}

impl Future for Committing {
    type Output = Result<Version, DataError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const ONCE: &str = "a future is not polled after its end";
        match &mut self.0 {
            Way::Over(outcome) => Poll::Ready(outcome.take().expect(ONCE)),
            Way::Open(open) => {
                let committed = match open.as_mut().expect(ONCE).below.poll(context.waker()) {
                    Poll::Ready(committed) => committed,
                    Poll::Pending => return Poll::Pending,
                };
                Poll::Ready(open.take().expect(ONCE).rest.settle(committed))
            }
        }
    }
}

impl Drop for Committing {
    fn drop(&mut self) {
        if let Way::Open(open) = &mut self.0
            && let Some(Open { below, rest }) = open.take()
        {
            let committed = below.wait();
            // Nobody wants to know; what follows a commit is done all the same.
            drop(rest.settle(committed));
        }
    }
}
